# SPDX-License-Identifier: Apache-2.0
"""The catalogue of every metric: exporters, rules, dashboards and the reference page are made from it alone.

Names follow Prometheus: base units, the unit at the end, `_total` on counters, ratios as fractions, `_info` on what has
its content in its labels. The bounds of an interval are metrics of their own, so that a graph can draw a band. How many
series there can be is known of each: `series_max` for each benchmark, pool, rank or operator, and no label takes values
that grow with time but a trial's attempt, which goes with its pod.
"""

import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from gpubench.values import FrozenModel


class Kind(StrEnum):
    """Metric types of Prometheus that are used here."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """What a value is counted in."""

    SAMPLES_PER_SECOND = "samples/s"
    BYTES_PER_SECOND = "bytes/s"
    BYTES = "bytes"
    TIME = "Unix time"
    SECONDS = "s"
    FRACTION = "fraction"
    WATTS = "W"
    JOULES = "J"
    GRAMS = "g"
    CELSIUS = "°C"
    AMOUNT = "`currency`"
    PER_HOUR = "1/h"
    NUMBER = "number"


#: The unit that a name ends with; the first that fits. What has a currency is an amount, whatever it is for.
_ENDINGS = (
    ("_samples_per_second", Unit.SAMPLES_PER_SECOND),
    ("_bytes_per_second", Unit.BYTES_PER_SECOND),
    ("_timestamp_seconds", Unit.TIME),
    ("_seconds", Unit.SECONDS),
    ("_bytes", Unit.BYTES),
    ("_ratio", Unit.FRACTION),
    ("_watts", Unit.WATTS),
    ("_joules", Unit.JOULES),
    ("_grams", Unit.GRAMS),
    ("_celsius", Unit.CELSIUS),
    ("_per_node_hour", Unit.PER_HOUR),
)


class Owner(StrEnum):
    """Whose series these are: they go when it goes."""

    BENCHMARK = "benchmark"
    SCHEDULE = "schedule"
    POOL = "pool"
    RANK = "rank"
    OPERATOR = "operator"


class Metric(FrozenModel):
    """One metric family. For a counter, `name` ends in `_total` as it appears in a scrape."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    exporter: str  # "operator" or "worker"
    buckets: tuple[float, ...] = ()  # upper bounds, of a histogram

    @property
    def unit(self) -> Unit:
        """As its name has it at its end."""
        if "currency" in self.labels:
            return Unit.AMOUNT
        return next((unit for ending, unit in _ENDINGS if self.name.endswith(ending)), Unit.NUMBER)

    @property
    def owner(self) -> Owner:
        """The object or process that its series live and die with."""
        if self.exporter == "worker":
            return Owner.RANK
        named = (Owner.BENCHMARK, Owner.SCHEDULE, Owner.POOL)  # as the label that names it
        return next((owner for owner in named if owner in self.labels), Owner.OPERATOR)

    @property
    def series_max(self) -> int:
        """Series of one owner at most; of a histogram with its buckets, that of everything, sum and count."""
        points = POINTS_MAX if set(_POINT) <= set(self.labels) else 1
        beside = (label for label in self.labels if label != self.owner and (points == 1 or label not in _POINT))
        values = math.prod(_VALUES_MAX.get(label, 1) for label in beside)
        return points * values * (len(self.buckets) + 3 if self.kind is Kind.HISTOGRAM else 1)


POINTS_MAX: Final = 256  # of a benchmark
#: Values of a label at most, beside those of the labels before it: a point has one basis, a line one base. Not here: 1.
_VALUES_MAX: Final[Mapping[str, int]] = {
    "scaling": 2, "goal": 4, "reason": 3, "part": 10, "epoch": 2, "pool": 256, "kind": 4, "use": 9, "condition": 8,
    "state": 11, "outcome": 5, "verdict": 4, "environment": 8, "verb": 7, "resource": 16, "code": 24,
    "point": 64, "series": 8,
}  # fmt: skip

#: Not `namespace`: a scrape writes that of its target there, which is the operator's.
BENCHMARK_LABELS = _BENCHMARK = ("benchmark_namespace", "benchmark")
#: A point's series: `point` alone tells it apart, as its key in the status; the others are what people choose by.
POINT_LABELS = _POINT = (
    *_BENCHMARK, "point", "workload", "pool", "accelerator", "capacity_type", "workers", "workers_per_node",
    "batch_per_worker", "global_batch", "precision", "data", "data_path", "data_samples", "variant", "epochs",
)  # fmt: skip
_RANK = ("benchmark_namespace", "trial", "attempt", "workload", "rank")
#: What a scrape adds to a rank's series: it does not know the name of its benchmark (`dashboards/scrape.yaml`).
TARGET_LABELS: Final = ("benchmark", "pool", "pod", "node")
#: What a scrape or a Prometheus of several clusters adds to all series; where none does it is empty, and harms nothing.
CLUSTER_LABEL: Final = "cluster"


def _operator(name: str, labels: tuple[str, ...], text: str, *, kind: Kind = Kind.GAUGE) -> Metric:
    return Metric(name=name, kind=kind, help=text, labels=labels, exporter="operator")


def _interval(name: str, labels: tuple[str, ...], text: str) -> tuple[Metric, Metric, Metric]:
    """A mean and both ends of its interval; `{}` stands in the name for what tells them apart."""
    mean = _operator(name.format(""), labels, text)
    low, high = (
        _operator(name.format(part), labels, f"{end} end of the 95 % interval of {mean.name}.")
        for part, end in (("_low", "Lower"), ("_high", "Upper"))
    )
    return mean, low, high


def _worker(
    name: str, text: str, *, beside: tuple[str, ...] = (), kind: Kind = Kind.GAUGE, buckets: tuple[float, ...] = ()
) -> Metric:
    return Metric(name=name, kind=kind, help=text, labels=(*_RANK, *beside), exporter="worker", buckets=buckets)


# The figures of a benchmark, exported from the status of its object for as long as the object lives.
POINT_WORKERS = _operator("gpubench_point_workers", _POINT, "Workers of a point: the label of that name, as a number.")
THROUGHPUT, THROUGHPUT_LOW, THROUGHPUT_HIGH = _interval(
    "gpubench_throughput{}_samples_per_second", _POINT, "Mean throughput of a point over its repeats."
)
UNSTABLE_THROUGHPUT = _operator(
    "gpubench_unstable_throughput_samples_per_second",
    _POINT,
    "Mean throughput of a point whose repeats never settled, which has no other series: not to be ranked.",
)
EFFICIENCY, EFFICIENCY_LOW, EFFICIENCY_HIGH = _interval(
    "gpubench_scaling_efficiency{}_ratio",
    (*_POINT, "scaling", "baseline", "baseline_workers", "baseline_pool"),
    "Scaling efficiency against the smallest worker count, that of the point `baseline`.",
)
# What was not run has a cost and goals, marked by its basis, and none of the series of measured figures.
_MONEY = (*_POINT, "basis", "currency")
COST, COST_LOW, COST_HIGH = _interval(
    "gpubench_cost{}_per_million_samples", _MONEY, "Marginal cost of a million samples, in `currency`."
)
COST_PER_RUN, COST_PER_RUN_LOW, COST_PER_RUN_HIGH = _interval(
    "gpubench_cost{}_per_run", _MONEY, "Marginal cost of the timed region of a training, in `currency`."
)
# Times as fast, as long, as dear as the base of spec.baseline; the base itself has 1.
_RELATIVE = (*_POINT, "basis", "baseline_workers", "baseline_pool")
RELATIVE_THROUGHPUT, RELATIVE_THROUGHPUT_LOW, RELATIVE_THROUGHPUT_HIGH = _interval(
    "gpubench_relative_throughput{}_ratio", _RELATIVE, "Throughput over that of the point of spec.baseline."
)
RELATIVE_TIME, RELATIVE_TIME_LOW, RELATIVE_TIME_HIGH = _interval(
    "gpubench_relative_time{}_ratio",
    _RELATIVE,
    "Time for as many samples, of a training for its timed region, over that of the point of spec.baseline.",
)
RELATIVE_COST, RELATIVE_COST_LOW, RELATIVE_COST_HIGH = _interval(
    "gpubench_relative_cost{}_ratio", _RELATIVE, "Marginal cost over that of the point of spec.baseline."
)
BILLED = _operator(
    "gpubench_billed",
    (*_POINT, "part", "currency"),
    "What a point's attempts are billed, in `currency`, by what it was paid for: the sum over `part` is the bill.",
)
_GOAL = (*_POINT, "basis", "goal")
GOAL, GOAL_LOW, GOAL_HIGH = _interval(
    "gpubench_goal{}_seconds", _GOAL, "Training time of a goal's samples at the throughput: a lower bound."
)
GOAL_COST, GOAL_COST_LOW, GOAL_COST_HIGH = _interval(
    "gpubench_goal{}_cost", (*_GOAL, "currency"), "Marginal cost of a goal's samples, in `currency`: a lower bound."
)
# `evaluation` and `first_epoch` say what the seconds cover: spec.measure.timedRegion.
_REGION = (*_POINT, "evaluation", "first_epoch")
TRAINING, TRAINING_LOW, TRAINING_HIGH = _interval(
    "gpubench_training{}_seconds", _REGION, "Mean duration of the timed region of a training of `epochs`."
)
EPOCH, EPOCH_LOW, EPOCH_HIGH = _interval(
    "gpubench_training_epoch{}_seconds", _REGION, "Mean duration of an epoch of the timed region."
)
_QUALITY = (*_POINT, "epoch")
ACCURACY, ACCURACY_LOW, ACCURACY_HIGH = _interval(
    "gpubench_training_accuracy{}_ratio",
    _QUALITY,
    "Accuracy on held-out data after the `epoch`: final, or the best of each repeat.",
)
LOSS, LOSS_LOW, LOSS_HIGH = _interval(
    "gpubench_training{}_loss",
    _QUALITY,
    "Loss on held-out data after the `epoch`, of workloads without an accuracy: final, or the best of each repeat.",
)
ALGORITHM_BANDWIDTH, ALGORITHM_BANDWIDTH_LOW, ALGORITHM_BANDWIDTH_HIGH = _interval(
    "gpubench_allreduce_algorithm{}_bytes_per_second",
    _POINT,
    "Of the workload allreduce: bytes of a message over time.",
)
BUS_BANDWIDTH, BUS_BANDWIDTH_LOW, BUS_BANDWIDTH_HIGH = _interval(
    "gpubench_allreduce_bus{}_bytes_per_second",
    _POINT,
    "Bus bandwidth of the workload allreduce: 2 (n - 1) / n times the algorithm bandwidth.",
)
GPU_UTILIZATION = _operator(
    "gpubench_gpu_utilization_ratio", _POINT, "Share of the measured time with a kernel on the GPUs of a point."
)
GPU_MEMORY = _operator(
    "gpubench_gpu_memory_peak_bytes", _POINT, "Most memory that a GPU used while a point was measured."
)
GPU_POWER = _operator("gpubench_gpu_power_watts", _POINT, "Mean power of all GPUs together while a point was measured.")
GPU_THROTTLED = _operator(
    "gpubench_gpu_throttled_ratio",
    _POINT,
    "Share of the samples with a throttle reason, of the rank and repeat with most of them.",
)
ENERGY, ENERGY_LOW, ENERGY_HIGH = _interval(
    "gpubench_energy{}_per_million_samples_joules", _POINT, "Energy of all GPUs for a million samples."
)
# With the power of the pool: GPUs and hosts, times the power usage effectiveness.
METERED = _operator(
    "gpubench_metered_energy_per_million_samples_joules", _POINT, "Energy at the meter for a million samples."
)
METERED_RUN = _operator("gpubench_metered_energy_per_run_joules", _POINT, "Energy at the meter of one training.")
EMISSIONS = _operator(
    "gpubench_emissions_per_million_samples_grams", _POINT, "CO2 equivalent of the metered energy of a million samples."
)
EMISSIONS_RUN = _operator(
    "gpubench_emissions_per_run_grams", _POINT, "CO2 equivalent of the metered energy of one training."
)
PROCESSORS = _operator("gpubench_rank_processors", _POINT, "Processors that a rank used while a point was measured.")
MEMORY = _operator(
    "gpubench_rank_memory_peak_bytes", _POINT, "Most resident memory of a rank while a point was measured."
)
WARNINGS = _operator(
    "gpubench_warnings",
    (*_POINT, "basis", "reason"),
    "Warnings in a point's status, the gravest, by what they are about.",
)
POINTS = _operator("gpubench_points", (*_BENCHMARK, "state"), "Points of a benchmark by what became of them.")
TRIALS = _operator("gpubench_trials", (*_BENCHMARK, "state"), "Trials of a benchmark: finished, running, waiting.")
ATTEMPTS = _operator(
    "gpubench_attempts_total",
    (*_BENCHMARK, "outcome"),
    "Attempts of a benchmark that have ended, by how: succeeded, failed, preempted, drilled or stopped.",
    kind=Kind.COUNTER,
)
# No counter: an end that is seen late, as that of a lost node, corrects it.
SPENT = _operator(
    "gpubench_spent",
    (*_BENCHMARK, "currency"),
    "What a benchmark's attempts were billed so far, in `currency`: an estimate, failed and preempted ones included.",
)
# Where the nodes' time went, by pool.
_POOL = (*_BENCHMARK, "pool", "capacity_type")
INTERRUPTIONS = _operator(
    "gpubench_interruptions_total",
    (*_POOL, "kind"),
    "Attempts that were interrupted, by `kind`: Reclaim, Eviction, NodeLost or Unknown.",
    kind=Kind.COUNTER,
)
INTERRUPTION_RATE, INTERRUPTION_RATE_LOW, INTERRUPTION_RATE_HIGH = _interval(
    "gpubench_interruptions{}_per_node_hour", _POOL, "Interruptions per hour for which a node was held."
)
# No counter: what was lost becomes useful when a later attempt goes on from its checkpoint.
NODE_SECONDS = _operator(
    "gpubench_node_seconds",
    (*_POOL, "use"),
    "Node-seconds of the attempts that have ended, by `use`: useful, lost, ...; all but queued sum to what was held.",
)
GOODPUT = _operator(
    "gpubench_goodput_ratio", _POOL, "Share of the node time held that was measured work with a result."
)
EFFECTIVE_PRICE = _operator(
    "gpubench_effective_price_per_node_hour",
    (*_POOL, "currency"),
    "Price of one node for an hour of measured work, in `currency`: price over goodput.",
)
RECOVERY = _operator(
    "gpubench_recovery_seconds",
    _POOL,
    "Median time from the end of an interrupted attempt to the first step of the next one at its trial.",
)
CONDITION = _operator(
    "gpubench_benchmark_condition", (*_BENCHMARK, "condition"), "1 while a condition of the benchmark is True."
)
BUDGET = _operator(
    "gpubench_budget", (*_BENCHMARK, "currency"), "limits.budget of a benchmark, in `currency`; as it is now."
)
STARTED = _operator("gpubench_started_timestamp_seconds", _BENCHMARK, "When the plan of a benchmark was frozen.")
FINISHED = _operator("gpubench_finished_timestamp_seconds", _BENCHMARK, "When the last trial of a benchmark had ended.")
COMPARISON = _operator(
    "gpubench_comparison_points",
    (*_BENCHMARK, "verdict"),
    "Points beside those of spec.compareTo, by `verdict`: Pass, Fail, CannotTell or NotCompared.",
)
BEST = _operator(
    "gpubench_best_info",
    (*_BENCHMARK, "pool", "workers", "setting", "predicted", "sure", "tied"),
    "What a finished benchmark advises for its spec.objective; `tied` others may be as good. Always 1.",
)
ENVIRONMENT = _operator(
    "gpubench_environment_info",
    (
        *_BENCHMARK, "environment", "instance_type", "accelerator", "driver", "cuda", "cudnn", "nccl", "transport",
        "framework", "framework_version", "collectives", "collectives_version",
    ),
    "What figures of a benchmark stand on. Always 1.",
)  # fmt: skip

# What the cluster shows of a GpuPool, and what the benchmarks hold of it.
_OF_POOL = ("pool",)
POOL_INFO = _operator("gpubench_pool_info", ("pool", "accelerator", "capacity_type"), "What a pool is. Always 1.")
POOL_NODES = _operator("gpubench_pool_nodes", _OF_POOL, "Nodes that match the selector of a pool.")
POOL_READY_NODES = _operator("gpubench_pool_ready_nodes", _OF_POOL, "Of these, nodes that are ready and take pods.")
POOL_SLOTS = _operator("gpubench_pool_slots", _OF_POOL, "Slots of the ready nodes of a pool.")
POOL_HELD_SLOTS = _operator("gpubench_pool_held_slots", _OF_POOL, "Slots of a pool that gangs hold, of all benchmarks.")
POOL_WAITING = _operator("gpubench_pool_waiting_studies", _OF_POOL, "Benchmarks that wait in line for slots of a pool.")
POOL_PRICE = _operator(
    "gpubench_pool_price_per_node_hour",
    ("pool", "currency"),
    "Price of a node for an hour, in `currency`, without fees.",
)
POOL_PRICE_READ = _operator(
    "gpubench_pool_price_timestamp_seconds", _OF_POOL, "Day on which the price of a pool was read."
)
POOL_CONDITION = _operator("gpubench_pool_condition", ("pool", "condition"), "1 while a condition of a pool is True.")

# Schedules, exported from the status of their objects.
SCHEDULE_LABELS = _SCHEDULE = ("benchmark_namespace", "schedule")
SCHEDULE_CONDITION = _operator(
    "gpubench_schedule_condition",
    (*_SCHEDULE, "condition"),
    "1 while a condition of a schedule is True, 0 while it is False; none while it is Unknown.",
)
SCHEDULE_ACTIVE = _operator("gpubench_schedule_active_runs", _SCHEDULE, "Runs under way.")
SCHEDULE_SLOWER_POINTS = _operator(
    "gpubench_schedule_slower_points", _SCHEDULE, "Points that are slower than they were."
)
SCHEDULE_SLOW_NODES = _operator(
    "gpubench_schedule_slow_nodes", _SCHEDULE, "With placement EachNode: nodes slower than the others of their pool."
)
SCHEDULE_LAST = _operator("gpubench_schedule_last_timestamp_seconds", _SCHEDULE, "When the newest run was due.")
SCHEDULE_WITHOUT_SUCCESS = _operator(
    "gpubench_schedule_runs_due_since_success", _SCHEDULE, "Runs that were due since the newest one that succeeded."
)
SCHEDULE_KEPT = _operator("gpubench_schedule_runs_kept", _SCHEDULE, "Finished runs in the history of a schedule.")
SCHEDULE_SPEED, SCHEDULE_USUAL = (
    _operator(name, (*_SCHEDULE, "point", "series"), f"{what}: samples per second, or trainings per second.")
    for name, what in (
        ("gpubench_schedule_point_speed", "Speed of a point in its newest run, in each environment"),
        ("gpubench_schedule_point_usual_speed", "What that run is held against"),
    )
)
SCHEDULE_NEXT = _operator("gpubench_schedule_next_timestamp_seconds", _SCHEDULE, "When the next run is due.")
SCHEDULE_MONTHLY = _operator(
    "gpubench_schedule_monthly", (*_SCHEDULE, "currency"), "Cost of a schedule in a month, in `currency`: an estimate."
)

# The operator's own health.
RECONCILES = _operator(
    "gpubench_operator_reconciles_total", ("outcome",), "Reconciles: done, retried, failed.", kind=Kind.COUNTER
)
RECONCILE_SECONDS = Metric(
    name="gpubench_operator_reconcile_seconds",
    kind=Kind.HISTOGRAM,
    help="Duration of one reconcile.",
    exporter="operator",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
)
LOOP_LAG = Metric(
    name="gpubench_operator_loop_lag_seconds",
    kind=Kind.HISTOGRAM,
    help="How much later than asked for the operator's event loop goes on, sampled ten times a second.",
    exporter="operator",
    buckets=(0.001, *RECONCILE_SECONDS.buckets),
)
QUEUE_DEPTH = _operator("gpubench_operator_queue_depth", (), "Keys that wait for a reconcile.")
API_REQUESTS = _operator(
    "gpubench_operator_api_requests_total", ("verb", "resource", "code"), "Calls to the API server.", kind=Kind.COUNTER
)
LEADER = _operator("gpubench_operator_leader", (), "1 while this replica holds the Lease.")
OPERATOR = _operator("gpubench_operator_info", ("version", "python"), "What runs. Always 1.")

# Live, from every rank of a gang. `UUID` is spelt as DCGM exporter spells it, so that their series join.
WORKER_INFO = _worker(
    "gpubench_worker_info",
    "What a rank trains, and on which GPU. Always 1.",
    beside=("workers", "batch_per_worker", "precision", "variant", "UUID"),
)
WORKER_THROUGHPUT = _worker(
    "gpubench_worker_throughput_samples_per_second", "Samples per second of this rank in its last window."
)
WORKER_STEP = _worker(
    "gpubench_worker_window_step_seconds",
    "Mean duration of a step, of each window: single steps are not timed. Alike on all ranks: each waits for the "
    "slowest.",
    kind=Kind.HISTOGRAM,
    # A tenth of a millisecond (a small model on a large GPU) to a minute (a large model on a CPU).
    buckets=tuple(float(f"{base}e{power}") for power in range(-4, 2) for base in (1, 2, 5)),
)
WORKER_SAMPLES = _worker("gpubench_worker_samples_total", "Samples that this rank has trained on.", kind=Kind.COUNTER)
WORKER_LOSS = _worker(
    "gpubench_worker_loss",
    "Loss of this rank in its last window: of its last step, in mode Training the mean of its steps.",
)
WORKER_COMPUTE = _worker(
    "gpubench_worker_compute_seconds",
    "Forward and backward pass of a step on this rank alone, at the last look between windows: who is slow shows here.",
)
WORKER_ALLREDUCE = _worker(
    "gpubench_worker_allreduce_seconds",
    "What a step of the last window took beyond this rank's own forward and backward pass: the all-reduce, the waiting "
    "for slower ranks, the update of the weights.",
)
WORKER_PROCESSORS = _worker(
    "gpubench_worker_used_processors", "Processors that this rank uses, in its last sample: 1 is one core."
)
WORKER_MEMORY = _worker("gpubench_worker_memory_bytes", "Resident memory of this rank, in its last sample.")
WORKER_GPU = _worker(
    "gpubench_worker_gpu_utilization_ratio", "Share of time with a kernel on this rank's GPU, as NVML has it."
)
WORKER_GPU_MEMORY = _worker(
    "gpubench_worker_gpu_memory_bytes", "Memory in use on this rank's GPU, by anybody, in its last sample."
)
WORKER_POWER = _worker("gpubench_worker_gpu_power_watts", "What this rank's GPU draws, in its last sample.")
WORKER_TEMPERATURE = _worker(
    "gpubench_worker_gpu_temperature_celsius", "Temperature of this rank's GPU, in its last sample."
)

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
