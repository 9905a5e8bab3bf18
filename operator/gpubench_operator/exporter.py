# SPDX-License-Identifier: Apache-2.0
"""What a scrape of the operator gives: the figures of all studies, made from their statuses, and its own health.

The figures have no memory but the statuses: after a restart they come back from the API server, and the series of an
object vanish with it. Names, labels and help come from the catalogue. A figure that a status does not have has no
series: it is never 0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import prometheus_client
from prometheus_client import core, registry
from pydantic import ValidationError

from gpubench import metrics, workloads
from gpubench.api.benchmark_status import (
    AmountInterval,
    Basis,
    Estimate,
    GpuBenchmarkStatus,
    GpuUsage,
    HostUsage,
    PointResult,
    PointState,
    TrainingResult,
)
from gpubench.report import figures
from gpubench_operator import keys, kube, logs

_log = logs.logger(__name__)

#: A value and its labels, in the order of the metric's.
_Sample = tuple[tuple[str, ...], float]
_Samples = dict[str, list[_Sample]]
_SECONDS_PER_HOUR = 3600.0


class Figures(registry.Collector):
    """The statuses of all benchmarks, as metrics."""

    def __init__(self) -> None:
        self._statuses: dict[keys.Key, tuple[object, GpuBenchmarkStatus]] = {}

    def observe(self, key: keys.Key, benchmark: kube.Object) -> None:
        """Take a benchmark's status as it is now."""
        raw = benchmark.get("status") or {}
        before = self._statuses.get(key)
        if before is not None and before[0] == raw:
            return
        try:
            self._statuses[key] = (raw, GpuBenchmarkStatus.model_validate(raw))
        except ValidationError as error:
            self._statuses.pop(key, None)
            _log.warning("unreadable status", extra={"key": str(key), "sentence": str(error.errors()[0]["msg"])})

    def drop(self, key: keys.Key) -> None:
        """The benchmark is gone, and its series with it."""
        self._statuses.pop(key, None)

    def studies(self) -> set[keys.Key]:
        """The benchmarks that have series."""
        return set(self._statuses)

    def describe(self) -> Iterable[core.Metric]:
        """Nothing in advance: the registry would otherwise collect once only to learn the names."""
        return ()

    def collect(self) -> Iterator[core.Metric]:
        """All series of all studies, family by family."""
        samples: _Samples = {}
        for key, (_, status) in sorted(self._statuses.items()):
            _add_study(samples, (key.namespace, key.name), status)
        for metric in metrics.CATALOGUE:
            if metric.name in samples:
                family = core.GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)
                for labels, value in samples[metric.name]:
                    family.add_metric(labels, value)
                yield family


def _add_study(samples: _Samples, study: tuple[str, str], status: GpuBenchmarkStatus) -> None:
    def add(metric: metrics.Metric, label: str, value: float) -> None:
        samples.setdefault(metric.name, []).append(((*study, label), value))

    for condition in status.conditions:
        add(metrics.CONDITION, condition.type, float(condition.status == "True"))
    if status.trials is not None:
        trials = status.trials
        add(metrics.TRIALS, "finished", trials.finished)
        add(metrics.TRIALS, "running", trials.running)
        add(metrics.TRIALS, "waiting", max(0, trials.total - trials.finished - trials.running))
    if status.attempts is not None:
        ended = {name: getattr(status.attempts, name) for name in ("succeeded", "failed", "preempted", "stopped")}
        for outcome, count in ended.items():
            add(metrics.ATTEMPTS, outcome, count)
        add(metrics.ATTEMPTS, "running", status.attempts.started - sum(ended.values()))
    if status.spent is not None:
        add(metrics.SPENT, status.spent.currency, float(status.spent.amount))
    if status.results:
        states = Counter(result.state for result in status.results)
        for state in PointState:
            add(metrics.POINTS, state.value, states[state])
    for result in status.results:
        _add_point(samples, study, result)


#: A figure and the two ends of its interval.
_Three = tuple[metrics.Metric, metrics.Metric, metrics.Metric]


class _Point:
    """The series of one point: its labels, and where its samples go."""

    def __init__(self, samples: _Samples, study: tuple[str, str], result: PointResult) -> None:
        self._samples = samples
        self._labels = (
            *study,
            result.workload,
            result.pool,
            result.accelerator or "",
            result.capacity_type or "",
            str(result.workers),
            str(result.workers_per_node),
            "" if result.batch_per_worker is None else str(result.batch_per_worker),
            str(result.global_batch),
            result.precision,
            result.data.value,
            result.data_path or "",
            "" if result.data_samples is None else str(result.data_samples),
            result.variant or "",
            "" if (epochs := figures.epochs(result)) is None else str(epochs),
        )

    def add(self, three: _Three, estimate: Estimate | None, *more: str, per: float = 1.0) -> None:
        """A figure in units of `per`, with the labels that it has beyond the point's."""
        if estimate is None:
            return
        for metric, value in zip(three, (estimate.mean, estimate.low, estimate.high), strict=True):
            if value is not None:
                self.add_value(metric, value * per, *more)

    def add_value(self, metric: metrics.Metric, value: float, *more: str) -> None:
        """One number."""
        self._samples.setdefault(metric.name, []).append(((*self._labels, *more), value))

    def add_amount(self, three: _Three, amount: AmountInterval | None, *more: str) -> None:
        """An amount of money, with its currency behind its other labels."""
        if amount is None:
            return
        low, high = (None if text is None else float(text) for text in (amount.low, amount.high))
        self.add(three, Estimate(mean=float(amount.mean), low=low, high=high), *more, amount.currency)


def _add_point(samples: _Samples, study: tuple[str, str], result: PointResult) -> None:
    point = _Point(samples, study, result)
    if result.bill is not None:
        for part, amount in result.bill.parts.to_wire().items():
            point.add_value(metrics.BILLED, float(str(amount)), part, result.bill.currency)
    for reason, count in Counter(warning.reason for warning in result.warnings).items():
        point.add_value(metrics.WARNINGS, count, result.basis.value, reason.value)
    if result.state is PointState.UNSTABLE:
        # Whoever ranks the others by their series must not meet it there.
        if result.basis is Basis.MEASURED and result.workload != workloads.MESSAGES and result.throughput is not None:
            point.add_value(metrics.UNSTABLE_THROUGHPUT, result.throughput.mean)
        return
    if result.basis is Basis.MEASURED:
        _add_measured(point, result)
    basis = result.basis.value
    if result.cost is not None:
        point.add_amount((metrics.COST, metrics.COST_LOW, metrics.COST_HIGH), result.cost.per_million_samples, basis)
        run = (metrics.COST_PER_RUN, metrics.COST_PER_RUN_LOW, metrics.COST_PER_RUN_HIGH)
        point.add_amount(run, result.cost.per_run, basis)
    for goal in result.goals:
        hours = (metrics.GOAL, metrics.GOAL_LOW, metrics.GOAL_HIGH)
        point.add(hours, goal.hours, basis, goal.name, per=_SECONDS_PER_HOUR)
        cost = (metrics.GOAL_COST, metrics.GOAL_COST_LOW, metrics.GOAL_COST_HIGH)
        point.add_amount(cost, goal.cost, basis, goal.name)


def _add_measured(point: _Point, result: PointResult) -> None:
    """The figures that were measured on the point's own pool."""
    # The throughput of allreduce counts elements of messages, which are no samples.
    if result.workload != workloads.MESSAGES:
        point.add((metrics.THROUGHPUT, metrics.THROUGHPUT_LOW, metrics.THROUGHPUT_HIGH), result.throughput)
    elif result.bandwidth is not None:
        algorithm = (metrics.ALGORITHM_BANDWIDTH, metrics.ALGORITHM_BANDWIDTH_LOW, metrics.ALGORITHM_BANDWIDTH_HIGH)
        point.add(algorithm, result.bandwidth.algorithm)
        bus = (metrics.BUS_BANDWIDTH, metrics.BUS_BANDWIDTH_LOW, metrics.BUS_BANDWIDTH_HIGH)
        point.add(bus, result.bandwidth.bus)
    for line in result.scaling:
        three = (metrics.EFFICIENCY, metrics.EFFICIENCY_LOW, metrics.EFFICIENCY_HIGH)
        base = line.baseline_pool or result.pool
        point.add(three, line.efficiency, line.kind, str(line.baseline_workers), base)
    if result.training is not None:
        _add_training(point, result.training)
    _add_machine(point, result.gpu or GpuUsage(), result.host or HostUsage())


def _add_machine(point: _Point, gpu: GpuUsage, host: HostUsage) -> None:
    found = (
        (metrics.GPU_UTILIZATION, gpu.utilization),
        (metrics.GPU_MEMORY, gpu.memory_peak),
        (metrics.GPU_POWER, gpu.watts),
        (metrics.GPU_THROTTLED, gpu.throttled),
        (metrics.ENERGY, gpu.joules_per_million_samples),
        (metrics.PROCESSORS, host.processors),
        (metrics.MEMORY, host.memory_peak),
    )
    for metric, value in found:
        if value is not None:
            point.add_value(metric, value)


def _add_training(point: _Point, training: TrainingResult) -> None:
    region = (training.timed_region.evaluation, training.timed_region.first_epoch)
    point.add((metrics.TRAINING, metrics.TRAINING_LOW, metrics.TRAINING_HIGH), training.seconds, *region)
    point.add((metrics.EPOCH, metrics.EPOCH_LOW, metrics.EPOCH_HIGH), training.seconds_per_epoch, *region)
    if training.quality is not None:
        three = {
            "accuracy": (metrics.ACCURACY, metrics.ACCURACY_LOW, metrics.ACCURACY_HIGH),
            "loss": (metrics.LOSS, metrics.LOSS_LOW, metrics.LOSS_HIGH),
        }[training.quality.metric]
        point.add(three, training.quality.final, "final")
        point.add(three, training.quality.best, "best")


class Health:
    """The operator's own metrics."""

    def __init__(self, into: prometheus_client.CollectorRegistry) -> None:
        self._reconciles = _counter(metrics.RECONCILES, into)
        self._requests = _counter(metrics.API_REQUESTS, into)
        self._seconds = prometheus_client.Histogram(
            metrics.RECONCILE_SECONDS.name, metrics.RECONCILE_SECONDS.help, registry=into
        )
        self.queue_depth = _gauge(metrics.QUEUE_DEPTH, into)
        self.leader = _gauge(metrics.LEADER, into)
        self.leader.set(0)

    def reconciled(self, outcome: str, seconds: float) -> None:
        """One reconcile has ended."""
        self._reconciles.labels(outcome).inc()
        self._seconds.observe(seconds)

    def requested(self, verb: str, resource: str, code: str) -> None:
        """One request to the API server was answered, or was not."""
        self._requests.labels(verb, resource, code).inc()


def _counter(metric: metrics.Metric, into: prometheus_client.CollectorRegistry) -> prometheus_client.Counter:
    return prometheus_client.Counter(metric.name, metric.help, metric.labels, registry=into)


def _gauge(metric: metrics.Metric, into: prometheus_client.CollectorRegistry) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(metric.name, metric.help, metric.labels, registry=into)
