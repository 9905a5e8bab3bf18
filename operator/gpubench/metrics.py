# SPDX-License-Identifier: Apache-2.0
"""The catalogue of every metric: exporters, dashboards and the reference page are made from it, and from nothing else.

Names follow Prometheus: base units, the unit at the end, `_total` on counters, ratios between 0 and 1. The bounds of an
interval are metrics of their own, so that a graph can draw a band. Series are bounded by the points of a study (256),
its goals (4 for a point), its warnings (3 for a point) and the sides of an interval (3).
"""

from enum import StrEnum

from gpubench.values import Value


class Kind(StrEnum):
    """Metric types of Prometheus that are used here."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(Value):
    """One metric family. For a counter, `name` ends in `_total` as it appears in a scrape."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    exporter: str  # "operator" or "worker"


_STUDY = ("namespace", "benchmark")
_POINT = (
    *_STUDY, "workload", "pool", "accelerator", "capacity_type", "workers", "workers_per_node", "batch_per_worker",
    "global_batch", "precision", "data", "data_path", "data_samples", "variant", "epochs",
)  # fmt: skip
_RANK = ("trial", "attempt", "workload", "rank")


def _operator(name: str, kind: Kind, labels: tuple[str, ...], text: str) -> Metric:
    return Metric(name=name, kind=kind, help=text, labels=labels, exporter="operator")


def _worker(name: str, kind: Kind, text: str) -> Metric:
    return Metric(name=name, kind=kind, help=text, labels=_RANK, exporter="worker")


# The figures of a study, exported from the status of its object for as long as the object lives.
THROUGHPUT = _operator(
    "gpubench_throughput_samples_per_second", Kind.GAUGE, _POINT, "Mean throughput of a point over its repeats."
)
THROUGHPUT_LOW = _operator(
    "gpubench_throughput_low_samples_per_second", Kind.GAUGE, _POINT, "Lower end of the throughput's 95 % interval."
)
THROUGHPUT_HIGH = _operator(
    "gpubench_throughput_high_samples_per_second", Kind.GAUGE, _POINT, "Upper end of the throughput's 95 % interval."
)
UNSTABLE_THROUGHPUT = _operator(
    "gpubench_unstable_throughput_samples_per_second",
    Kind.GAUGE,
    _POINT,
    "Mean throughput of a point whose repeats never settled, which has no other series: not to be ranked.",
)
_LINE = (*_POINT, "scaling", "baseline_workers", "baseline_pool")
EFFICIENCY = _operator(
    "gpubench_scaling_efficiency_ratio", Kind.GAUGE, _LINE, "Scaling efficiency against the smallest worker count."
)
EFFICIENCY_LOW = _operator(
    "gpubench_scaling_efficiency_low_ratio", Kind.GAUGE, _LINE, "Lower end of the efficiency's 95 % interval."
)
EFFICIENCY_HIGH = _operator(
    "gpubench_scaling_efficiency_high_ratio", Kind.GAUGE, _LINE, "Upper end of the efficiency's 95 % interval."
)
# What was not run has a cost and goals, marked by its basis, and none of the series of measured figures.
_MONEY = (*_POINT, "basis", "currency")
COST = _operator(
    "gpubench_cost_per_million_samples", Kind.GAUGE, _MONEY, "Marginal cost of a million samples, in `currency`."
)
COST_LOW = _operator(
    "gpubench_cost_low_per_million_samples", Kind.GAUGE, _MONEY, "Lower end of the cost's 95 % interval."
)
COST_HIGH = _operator(
    "gpubench_cost_high_per_million_samples", Kind.GAUGE, _MONEY, "Upper end of the cost's 95 % interval."
)
COST_PER_RUN = _operator(
    "gpubench_cost_per_run", Kind.GAUGE, _MONEY, "Marginal cost of the timed region of a training, in `currency`."
)
COST_PER_RUN_LOW = _operator(
    "gpubench_cost_low_per_run", Kind.GAUGE, _MONEY, "Lower end of the 95 % interval of a run's cost."
)
COST_PER_RUN_HIGH = _operator(
    "gpubench_cost_high_per_run", Kind.GAUGE, _MONEY, "Upper end of the 95 % interval of a run's cost."
)
BILLED = _operator(
    "gpubench_billed",
    Kind.GAUGE,
    (*_POINT, "part", "currency"),
    "What a point's attempts are billed, in `currency`, by what it was paid for: the sum over `part` is the bill.",
)
_GOAL = (*_POINT, "basis", "goal")
GOAL = _operator(
    "gpubench_goal_seconds", Kind.GAUGE, _GOAL, "Training time of a goal's samples at the throughput: a lower bound."
)
GOAL_LOW = _operator("gpubench_goal_low_seconds", Kind.GAUGE, _GOAL, "Lower end of the 95 % interval of a goal's time.")
GOAL_HIGH = _operator(
    "gpubench_goal_high_seconds", Kind.GAUGE, _GOAL, "Upper end of the 95 % interval of a goal's time."
)
_GOAL_MONEY = (*_GOAL, "currency")
GOAL_COST = _operator(
    "gpubench_goal_cost", Kind.GAUGE, _GOAL_MONEY, "Marginal cost of a goal's samples, in `currency`: a lower bound."
)
GOAL_COST_LOW = _operator(
    "gpubench_goal_low_cost", Kind.GAUGE, _GOAL_MONEY, "Lower end of the 95 % interval of a goal's cost."
)
GOAL_COST_HIGH = _operator(
    "gpubench_goal_high_cost", Kind.GAUGE, _GOAL_MONEY, "Upper end of the 95 % interval of a goal's cost."
)
# `evaluation` and `first_epoch` say what the seconds cover: spec.measure.timedRegion.
_REGION = (*_POINT, "evaluation", "first_epoch")
TRAINING = _operator(
    "gpubench_training_seconds", Kind.GAUGE, _REGION, "Mean duration of the timed region of a training of `epochs`."
)
TRAINING_LOW = _operator(
    "gpubench_training_low_seconds", Kind.GAUGE, _REGION, "Lower end of the 95 % interval of a training's duration."
)
TRAINING_HIGH = _operator(
    "gpubench_training_high_seconds", Kind.GAUGE, _REGION, "Upper end of the 95 % interval of a training's duration."
)
EPOCH = _operator(
    "gpubench_training_epoch_seconds", Kind.GAUGE, _REGION, "Mean duration of an epoch of the timed region."
)
EPOCH_LOW = _operator(
    "gpubench_training_epoch_low_seconds", Kind.GAUGE, _REGION, "Lower end of the 95 % interval of an epoch's duration."
)
EPOCH_HIGH = _operator(
    "gpubench_training_epoch_high_seconds",
    Kind.GAUGE,
    _REGION,
    "Upper end of the 95 % interval of an epoch's duration.",
)
_QUALITY = (*_POINT, "epoch")
ACCURACY = _operator(
    "gpubench_training_accuracy_ratio",
    Kind.GAUGE,
    _QUALITY,
    "Accuracy on held-out data after the `epoch`: final, or the best of each repeat.",
)
ACCURACY_LOW = _operator(
    "gpubench_training_accuracy_low_ratio", Kind.GAUGE, _QUALITY, "Lower end of the accuracy's 95 % interval."
)
ACCURACY_HIGH = _operator(
    "gpubench_training_accuracy_high_ratio", Kind.GAUGE, _QUALITY, "Upper end of the accuracy's 95 % interval."
)
LOSS = _operator(
    "gpubench_training_loss",
    Kind.GAUGE,
    _QUALITY,
    "Loss on held-out data after the `epoch`, of workloads without an accuracy: final, or the best of each repeat.",
)
LOSS_LOW = _operator("gpubench_training_low_loss", Kind.GAUGE, _QUALITY, "Lower end of the loss's 95 % interval.")
LOSS_HIGH = _operator("gpubench_training_high_loss", Kind.GAUGE, _QUALITY, "Upper end of the loss's 95 % interval.")
ALGORITHM_BANDWIDTH = _operator(
    "gpubench_allreduce_algorithm_bytes_per_second",
    Kind.GAUGE,
    _POINT,
    "Algorithm bandwidth of the workload allreduce: bytes of a message over its time.",
)
ALGORITHM_BANDWIDTH_LOW = _operator(
    "gpubench_allreduce_algorithm_low_bytes_per_second",
    Kind.GAUGE,
    _POINT,
    "Lower end of the algorithm bandwidth's 95 % interval.",
)
ALGORITHM_BANDWIDTH_HIGH = _operator(
    "gpubench_allreduce_algorithm_high_bytes_per_second",
    Kind.GAUGE,
    _POINT,
    "Upper end of the algorithm bandwidth's 95 % interval.",
)
BUS_BANDWIDTH = _operator(
    "gpubench_allreduce_bus_bytes_per_second",
    Kind.GAUGE,
    _POINT,
    "Bus bandwidth of the workload allreduce: 2 (n - 1) / n times the algorithm bandwidth.",
)
BUS_BANDWIDTH_LOW = _operator(
    "gpubench_allreduce_bus_low_bytes_per_second",
    Kind.GAUGE,
    _POINT,
    "Lower end of the bus bandwidth's 95 % interval.",
)
BUS_BANDWIDTH_HIGH = _operator(
    "gpubench_allreduce_bus_high_bytes_per_second",
    Kind.GAUGE,
    _POINT,
    "Upper end of the bus bandwidth's 95 % interval.",
)
GPU_UTILIZATION = _operator(
    "gpubench_gpu_utilization_ratio",
    Kind.GAUGE,
    _POINT,
    "Share of the measured time with a kernel on the GPUs of a point: not of their arithmetic.",
)
GPU_MEMORY = _operator(
    "gpubench_gpu_memory_peak_bytes", Kind.GAUGE, _POINT, "Most memory that a GPU used while a point was measured."
)
GPU_POWER = _operator(
    "gpubench_gpu_power_watts", Kind.GAUGE, _POINT, "Mean power of all GPUs of a point together while it was measured."
)
GPU_THROTTLED = _operator(
    "gpubench_gpu_throttled_ratio",
    Kind.GAUGE,
    _POINT,
    "Share of the samples with a throttle reason, of the rank and repeat with most of them.",
)
ENERGY = _operator(
    "gpubench_energy_per_million_samples_joules", Kind.GAUGE, _POINT, "Energy of all GPUs for a million samples."
)
PROCESSORS = _operator(
    "gpubench_rank_processors", Kind.GAUGE, _POINT, "Processors that a rank used while a point was measured."
)
MEMORY = _operator(
    "gpubench_rank_memory_peak_bytes", Kind.GAUGE, _POINT, "Most resident memory of a rank while a point was measured."
)
WARNINGS = _operator(
    "gpubench_warnings",
    Kind.GAUGE,
    (*_POINT, "basis", "reason"),
    "Warnings of a point by what they are about, of those that its status holds: the gravest ones.",
)
POINTS = _operator("gpubench_points", Kind.GAUGE, (*_STUDY, "state"), "Points of a study by what became of them.")
TRIALS = _operator("gpubench_trials", Kind.GAUGE, (*_STUDY, "state"), "Trials of a study: finished, running, waiting.")
ATTEMPTS = _operator(
    "gpubench_attempts", Kind.GAUGE, (*_STUDY, "outcome"), "Attempts of a study so far, by how they ended."
)
SPENT = _operator(
    "gpubench_spent",
    Kind.GAUGE,
    (*_STUDY, "currency"),
    "What a study's attempts were billed so far, in `currency`: an estimate, failed and preempted ones included.",
)
CONDITION = _operator(
    "gpubench_benchmark_condition", Kind.GAUGE, (*_STUDY, "condition"), "1 while a condition of the study is True."
)

# The operator's own health.
RECONCILES = _operator(
    "gpubench_operator_reconciles_total", Kind.COUNTER, ("outcome",), "Reconciles by outcome: done, retried, failed."
)
RECONCILE_SECONDS = _operator("gpubench_operator_reconcile_seconds", Kind.HISTOGRAM, (), "Duration of one reconcile.")
QUEUE_DEPTH = _operator("gpubench_operator_queue_depth", Kind.GAUGE, (), "Keys that wait for a reconcile.")
API_REQUESTS = _operator(
    "gpubench_operator_api_requests_total", Kind.COUNTER, ("verb", "resource", "code"), "Calls to the API server."
)
LEADER = _operator("gpubench_operator_leader", Kind.GAUGE, (), "1 while this replica holds the Lease.")

# Live, from every rank of a gang.
WORKER_THROUGHPUT = _worker(
    "gpubench_worker_throughput_samples_per_second", Kind.GAUGE, "Samples per second of this rank in its last window."
)
WORKER_STEP = _worker(
    "gpubench_worker_step_seconds", Kind.HISTOGRAM, "Duration of a step: a window's time over its steps, per window."
)
WORKER_SAMPLES = _worker("gpubench_worker_samples_total", Kind.COUNTER, "Samples that this rank has trained on.")
WORKER_PROCESSORS = _worker(
    "gpubench_worker_used_processors", Kind.GAUGE, "Processors that this rank uses, in its last sample: 1 is one core."
)
WORKER_GPU = _worker(
    "gpubench_worker_gpu_utilization_ratio",
    Kind.GAUGE,
    "Share of time with a kernel on this rank's GPU, as NVML has it.",
)
WORKER_POWER = _worker("gpubench_worker_gpu_power_watts", Kind.GAUGE, "What this rank's GPU draws, in its last sample.")

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
