# SPDX-License-Identifier: Apache-2.0
"""What a scrape gives: series of benchmarks, pools and schedules from their statuses, and the operator's own health.

The figures have no memory but the statuses: after a restart they come back from the API server, and the series of an
object vanish with it. Names, labels and help come from the catalogue. A figure that a status does not have has no
series: it is never 0.

Most studies are over: each one's lines are written once and kept, compressed, until its status or its analysis is
another one. To write all of them at every scrape took 50 s for a thousand studies. The lines of an analysis are made
in the worker process that made it.
"""

import importlib.metadata
import logging
import platform
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import prometheus_client
from prometheus_client import core, exposition, registry
from pydantic import ValidationError

from gpubench import metrics, units, workloads
from gpubench.analysis import text
from gpubench.api.benchmark_status import (
    Analysis,
    AttemptCounts,
    Best,
    Comparison,
    EnvironmentFacts,
    GpuBenchmarkStatus,
    TrialCounts,
)
from gpubench.api.goodput_result import PoolGoodput
from gpubench.api.point_result import (
    AmountInterval,
    Basis,
    GpuUsage,
    HostUsage,
    PointResult,
    PointState,
    Relative,
    TrainingResult,
)
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.values import Interval
from gpubench_cluster import kube
from gpubench_operator import observe, queue

_log = logging.getLogger(__name__)

#: A value and its labels, in the order of the metric's.
_Sample = tuple[tuple[str, ...], float]
Samples = dict[str, list[_Sample]]
_SECONDS_PER_HOUR = 3600.0


#: Lines of an exposition by the name of their family, compressed.
Lines = Mapping[str, bytes]


class _Seen(NamedTuple):
    """A benchmark as it was last seen."""

    uid: str
    raw: Mapping[str, Any]
    budget: tuple[str, float] | None
    progress: Lines
    sha256: str | None = None  # of the analysis that the other lines are of
    figures: Lines = MappingProxyType({})


class Figures:
    """Of all benchmarks, as lines of metrics: how far they have come, and what their analyses say."""

    def __init__(self) -> None:
        self._seen: dict[queue.Key, _Seen] = {}

    def observe(self, key: queue.Key, benchmark: kube.Object) -> None:
        """Take a benchmark's status, and its budget, as they are now."""
        raw, uid = benchmark.get("status") or {}, kube.uid_of(benchmark)
        budget = _budget(benchmark.get("spec") or {}, raw)
        before = self._seen.get(key)
        if before is not None and (before.uid, before.raw, before.budget) == (uid, raw, budget):
            return
        try:
            status = GpuBenchmarkStatus.model_validate(raw)
        except ValidationError as error:
            self.drop(key)
            _log.warning("unreadable status", extra={"key": str(key), "sentence": str(error.errors()[0]["msg"])})
            return
        seen = _Seen(uid, raw, budget, lines_of(progress_samples((key.namespace, key.name), status, budget)))
        if before is not None and before.uid == uid:
            seen = seen._replace(sha256=before.sha256, figures=before.figures)
        self._seen[key] = seen

    def take(self, key: queue.Key, sha256: str, lines: Lines) -> None:
        """Take what an analysis says; before it was observed the benchmark has no series."""
        if key in self._seen:
            self._seen[key] = self._seen[key]._replace(sha256=sha256, figures=lines)

    def lacks(self, benchmark: kube.Object) -> bool:
        """Whether the analysis that its status names is another one than the lines are of."""
        named = ((benchmark.get("status") or {}).get("analysis") or {}).get("sha256")
        key = queue.benchmark_key(kube.namespace_of(benchmark) or "", kube.name_of(benchmark))
        return named is not None and (key not in self._seen or self._seen[key].sha256 != named)

    def drop(self, key: queue.Key) -> None:
        """The benchmark is gone, and its series with it."""
        self._seen.pop(key, None)

    def studies(self) -> set[queue.Key]:
        """The benchmarks that have series."""
        return set(self._seen)

    def written(self) -> Iterator[tuple[core.Metric, bytes]]:
        """Each family without its samples, and their lines."""
        all_lines = [lines for _, seen in sorted(self._seen.items()) for lines in (seen.progress, seen.figures)]
        for metric in metrics.CATALOGUE:
            found = [zlib.decompress(lines[metric.name]) for lines in all_lines if metric.name in lines]
            if found:
                yield _family(metric), b"".join(found)


def progress_samples(study: tuple[str, str], status: GpuBenchmarkStatus, budget: tuple[str, float] | None) -> Samples:
    """What the status itself says, and the budget."""
    samples: Samples = {}
    _add_progress(samples, study, status)
    if budget is not None:
        currency, amount = budget
        samples[metrics.BUDGET.name] = [((*study, currency), amount)]
    return samples


def analysis_samples(study: tuple[str, str], analysis: Analysis) -> Samples:
    """What the results say: of a benchmark of 20 points 800 lines."""
    samples: Samples = {}
    for facts in analysis.environments:
        _add_environment(samples, study, facts)
    for pool in () if analysis.goodput is None else analysis.goodput.pools:
        _add_pool(samples, study, pool)
    for result in analysis.results:
        if result.node is not None:
            continue  # a label of nodes would grow with every one that comes; the slow ones are counted of schedules
        _add_point(samples, study, result)
    if analysis.best is not None:
        samples[metrics.BEST.name] = [((*study, *_advised(analysis.best)), 1.0)]
    return samples


def analysis_lines(study: tuple[str, str], analysis: Analysis) -> Lines:
    """The same, as it is written."""
    return lines_of(analysis_samples(study, analysis))


def lines_of(samples: Samples) -> Lines:
    """As they are written, in both formats alike: they are gauges."""

    class Once(registry.Collector):
        def collect(self) -> Iterator[core.Metric]:
            yield from families(samples)

    found = {}
    page = f"\n{exposition.generate_latest(Once()).decode()}"
    for family in page.split("\n# HELP ")[1:]:  # a label that holds a new line has it as two other characters
        name, (_, _, lines) = family.partition(" ")[0], family.split("\n", 2)
        found[name] = zlib.compress(f"{lines.rstrip()}\n".encode(), level=1)
    return found


def families(samples: Samples) -> Iterator[core.Metric]:
    """Samples by the name of their metric, as gauges in the order of the catalogue."""
    for metric in metrics.CATALOGUE:
        if metric.name in samples:
            family = _family(metric)
            for labels, value in samples[metric.name]:
                family.add_metric(labels, value)
            yield family


def _family(metric: metrics.Metric) -> core.GaugeMetricFamily:
    return core.GaugeMetricFamily(metric.name, metric.help, labels=metric.labels)


def _budget(spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[str, float] | None:
    """The budget and its currency; None where there is none, or nobody knows yet in which currency it is."""
    amount = (spec.get("limits") or {}).get("budget")
    currency = spec.get("currency") or (status.get("spent") or {}).get("currency")
    if amount is None or currency is None:
        return None
    try:
        return str(currency), float(amount)
    except ValueError:  # of another version: its schema takes what this one cannot read
        return None


def _add_progress(samples: Samples, study: tuple[str, str], status: GpuBenchmarkStatus) -> None:
    """How far the study has come, and what it has taken."""

    def add(metric: metrics.Metric, value: float, *label: str) -> None:
        samples.setdefault(metric.name, []).append(((*study, *label), value))

    for metric, moment in ((metrics.STARTED, status.started_at), (metrics.FINISHED, status.finished_at)):
        if moment is not None:
            add(metric, units.epoch_seconds(moment))
    for condition in status.conditions:
        add(metrics.CONDITION, float(condition.status == "True"), condition.type)
    if status.trials is not None:
        for state, count in _counted(status.trials).items():
            add(metrics.TRIALS, count, state)
    if status.attempts is not None:
        for outcome, count in _ended(status.attempts).items():
            add(metrics.ATTEMPTS, count, outcome)
    if status.spent is not None:
        add(metrics.SPENT, float(status.spent.amount), status.spent.currency)
    if status.results:
        states = Counter(result.state for result in status.results)
        for point_state in PointState:
            add(metrics.POINTS, states[point_state], point_state.value)
    if status.comparison is not None:
        for verdict, points in _compared(status.comparison).items():
            add(metrics.COMPARISON, points, verdict)


def _counted(trials: TrialCounts) -> dict[str, int]:
    waiting = max(0, trials.total - trials.finished - trials.running)
    return {"finished": trials.finished, "running": trials.running, "waiting": waiting}


def _ended(attempts: AttemptCounts) -> dict[str, int]:
    outcomes = ("succeeded", "failed", "preempted", "drilled", "stopped")
    ended: dict[str, int] = {name: getattr(attempts, name) for name in outcomes}
    return ended | {"running": attempts.started - sum(ended.values())}


def _add_environment(samples: Samples, study: tuple[str, str], facts: EnvironmentFacts) -> None:
    told = (
        facts.environment, facts.instance_type, facts.accelerator, facts.driver, facts.cuda, facts.cudnn, facts.nccl,
        facts.transport, facts.framework, facts.framework_version, facts.collectives, facts.collectives_version,
    )  # fmt: skip
    samples.setdefault(metrics.ENVIRONMENT.name, []).append(((*study, *(text or "" for text in told)), 1.0))


def _advised(best: Best) -> tuple[str, ...]:
    """In the order of the metric's labels."""
    words = (str(told).lower() for told in (best.predicted, best.sure))
    return (best.pool, str(best.workers), best.setting or "", *words, str(best.tied))


def _compared(comparison: Comparison) -> dict[str, int]:
    points = comparison.points
    return {
        "Pass": points.passed,
        "Fail": points.failed,
        "CannotTell": points.cannot_tell,
        "NotCompared": points.not_compared,
    }


def _add_pool(samples: Samples, study: tuple[str, str], pool: PoolGoodput) -> None:
    """What became of the node time of a pool."""

    def add(metric: metrics.Metric, value: float | None, *more: str) -> None:
        if value is not None:
            labels = (*study, pool.pool, pool.capacity_type.value, *more)
            samples.setdefault(metric.name, []).append((labels, value))

    counts = pool.interruptions
    kinds = {"Reclaim": counts.reclaimed, "Eviction": counts.evicted, "NodeLost": counts.nodes_lost}
    for kind, count in (kinds | {"Unknown": counts.total - sum(kinds.values())}).items():
        add(metrics.INTERRUPTIONS, count, kind)
    if pool.per_node_hour is not None:
        add(metrics.INTERRUPTION_RATE, pool.per_node_hour.mean)
        add(metrics.INTERRUPTION_RATE_LOW, pool.per_node_hour.low)
        add(metrics.INTERRUPTION_RATE_HIGH, pool.per_node_hour.high)
    for use, seconds in pool.node_seconds.to_wire().items():
        add(metrics.NODE_SECONDS, float(str(seconds)), use)
    add(metrics.GOODPUT, pool.goodput)
    if pool.effective_price is not None:
        add(metrics.EFFECTIVE_PRICE, float(pool.effective_price), pool.currency or "")
    if pool.recovery is not None:
        add(metrics.RECOVERY, pool.recovery.median)


#: A figure and the two ends of its interval.
_Three = tuple[metrics.Metric, metrics.Metric, metrics.Metric]


class _Point:
    """The series of one point: its labels, and where its samples go."""

    def __init__(self, samples: Samples, study: tuple[str, str], result: PointResult) -> None:
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
            "" if (epochs := text.epochs(result)) is None else str(epochs),
        )

    def add(self, three: _Three, estimate: Interval | None, *more: str, per: float = 1.0) -> None:
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
        self.add(three, Interval(mean=float(amount.mean), low=low, high=high), *more, amount.currency)


def _add_point(samples: Samples, study: tuple[str, str], result: PointResult) -> None:
    point = _Point(samples, study, result)
    point.add_value(metrics.POINT_WORKERS, result.workers)
    point.add_value(metrics.POINT_NODES, result.workers // result.workers_per_node)
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
    if result.relative is not None:
        _add_relative(point, result, result.relative)
    for goal in result.goals:
        hours = (metrics.GOAL, metrics.GOAL_LOW, metrics.GOAL_HIGH)
        point.add(hours, goal.hours, basis, goal.name, per=_SECONDS_PER_HOUR)
        cost = (metrics.GOAL_COST, metrics.GOAL_COST_LOW, metrics.GOAL_COST_HIGH)
        point.add_amount(cost, goal.cost, basis, goal.name)


def _add_relative(point: _Point, result: PointResult, relative: Relative) -> None:
    """Over the base of spec.baseline, which for the base is itself."""
    base = (str(relative.baseline_workers or result.workers), relative.baseline_pool or result.pool)
    more = (result.basis.value, *base)
    throughput = (metrics.RELATIVE_THROUGHPUT, metrics.RELATIVE_THROUGHPUT_LOW, metrics.RELATIVE_THROUGHPUT_HIGH)
    point.add(throughput, relative.throughput, *more)
    point.add((metrics.RELATIVE_TIME, metrics.RELATIVE_TIME_LOW, metrics.RELATIVE_TIME_HIGH), relative.time, *more)
    point.add((metrics.RELATIVE_COST, metrics.RELATIVE_COST_LOW, metrics.RELATIVE_COST_HIGH), relative.cost, *more)


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


#: A number for each pool that has one.
_PerPool = Callable[[], Mapping[str, int]]


class PoolFigures(registry.Collector):
    """The pools as they were last seen, as metrics; `held` and `waiting` are asked at each scrape."""

    def __init__(self, *, held: _PerPool = dict, waiting: _PerPool = dict) -> None:
        self._held, self._waiting = held, waiting
        self._pools: dict[str, tuple[GpuPool | None, GpuPoolStatus]] = {}

    def replace(self, pools: Mapping[str, tuple[GpuPool | None, GpuPoolStatus]]) -> None:
        """All pools there are; None is one that cannot be read."""
        self._pools = dict(pools)

    def describe(self) -> Iterable[core.Metric]:
        """Nothing in advance, as with the figures of studies."""
        return ()

    def collect(self) -> Iterator[core.Metric]:
        """All series of all pools, family by family."""
        samples: dict[str, list[tuple[tuple[str, ...], float]]] = {}

        def add(metric: metrics.Metric, value: float, *labels: str) -> None:
            samples.setdefault(metric.name, []).append((labels, value))

        held, waiting = self._held(), self._waiting()
        for name, (pool, status) in sorted(self._pools.items()):
            for condition in status.conditions:
                add(metrics.POOL_CONDITION, float(condition.status == "True"), name, condition.type)
            if pool is None:
                continue
            add(metrics.POOL_INFO, 1.0, name, pool.spec.accelerator or "", pool.spec.capacity_type.value)
            add(metrics.POOL_NODES, status.nodes, name)
            add(metrics.POOL_READY_NODES, status.ready_nodes, name)
            add(metrics.POOL_SLOTS, status.slots, name)
            add(metrics.POOL_HELD_SLOTS, held.get(name, 0), name)
            add(metrics.POOL_WAITING, waiting.get(name, 0), name)
            if status.price_per_node_hour is not None:
                amount, _, currency = status.price_per_node_hour.partition(" ")
                add(metrics.POOL_PRICE, float(amount), name, currency)
            if status.price_as_of is not None:
                read = datetime.fromisoformat(status.price_as_of).replace(tzinfo=UTC)
                add(metrics.POOL_PRICE_READ, read.timestamp(), name)
        yield from families(samples)


class ScheduleFigures(registry.Collector):
    """The statuses of all schedules, as metrics."""

    def __init__(self) -> None:
        self._statuses: dict[queue.Key, GpuBenchmarkScheduleStatus] = {}

    def observe(self, key: queue.Key, schedule: kube.Object) -> None:
        """Take a schedule's status as it is now."""
        try:
            self._statuses[key] = GpuBenchmarkScheduleStatus.model_validate(schedule.get("status") or {})
        except ValidationError as error:
            self._statuses.pop(key, None)
            _log.warning("unreadable status", extra={"key": str(key), "sentence": str(error.errors()[0]["msg"])})

    def drop(self, key: queue.Key) -> None:
        """The schedule is gone, and its series with it."""
        self._statuses.pop(key, None)

    def schedules(self) -> set[queue.Key]:
        """The schedules that have series."""
        return set(self._statuses)

    def describe(self) -> Iterable[core.Metric]:
        """Nothing in advance: the registry would otherwise collect once only to learn the names."""
        return ()

    def collect(self) -> Iterator[core.Metric]:
        """All series of all schedules, family by family."""
        samples: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        for key, status in sorted(self._statuses.items()):
            for metric, labels, value in _samples(status):
                samples.setdefault(metric.name, []).append(((key.namespace, key.name, *labels), value))
        yield from families(samples)


def _samples(status: GpuBenchmarkScheduleStatus) -> Iterator[tuple[metrics.Metric, tuple[str, ...], float]]:
    for condition in status.conditions:
        if condition.status != "Unknown":
            yield metrics.SCHEDULE_CONDITION, (condition.type,), float(condition.status == "True")
    yield metrics.SCHEDULE_ACTIVE, (), status.active_runs
    yield metrics.SCHEDULE_SLOWER_POINTS, (), len(status.regressions)
    yield metrics.SCHEDULE_SLOW_NODES, (), len(status.slow_nodes)
    for metric, moment_text in (
        (metrics.SCHEDULE_LAST, status.last_schedule_time),
        (metrics.SCHEDULE_NEXT, status.next_schedule_time),
    ):
        moment = observe.seconds(moment_text)
        if moment is not None:
            yield metric, (), moment
    month = status.monthly
    if month is not None and month.total is not None and month.currency is not None:
        yield metrics.SCHEDULE_MONTHLY, (month.currency,), float(month.total)


class Health:
    """The operator's own metrics."""

    def __init__(self, into: prometheus_client.CollectorRegistry) -> None:
        self._reconciles = _counter(metrics.RECONCILES, into)
        self._requests = _counter(metrics.API_REQUESTS, into)
        self._seconds = prometheus_client.Histogram(
            metrics.RECONCILE_SECONDS.name,
            metrics.RECONCILE_SECONDS.help,
            registry=into,
            buckets=metrics.RECONCILE_SECONDS.buckets,
        )
        self.queue_depth = _gauge(metrics.QUEUE_DEPTH, into)
        self.leader = _gauge(metrics.LEADER, into)
        self.leader.set(0)
        for outcome in ("done", "retried", "failed"):  # a counter that appears with its first error shows no increase
            self._reconciles.labels(outcome)
        _gauge(metrics.OPERATOR, into).labels(_version(), platform.python_version()).set(1)

    def reconciled(self, outcome: str, seconds: float) -> None:
        """One reconcile has ended."""
        self._reconciles.labels(outcome).inc()
        self._seconds.observe(seconds)

    def requested(self, verb: str, resource: str, code: str) -> None:
        """One request to the API server was answered, or was not."""
        self._requests.labels(verb, resource, code).inc()


def _version() -> str:
    """Of the installed distribution; a checkout that is not installed has none."""
    try:
        return importlib.metadata.version("gpubench")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _counter(metric: metrics.Metric, into: prometheus_client.CollectorRegistry) -> prometheus_client.Counter:
    return prometheus_client.Counter(metric.name, metric.help, metric.labels, registry=into)


def _gauge(metric: metrics.Metric, into: prometheus_client.CollectorRegistry) -> prometheus_client.Gauge:
    return prometheus_client.Gauge(metric.name, metric.help, metric.labels, registry=into)
