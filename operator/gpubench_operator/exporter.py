# SPDX-License-Identifier: Apache-2.0
"""What a scrape gives: series of benchmarks, pools and schedules from their statuses, and the operator's own health.

Nothing is remembered that a restart would not find at the API server again. The series of an object vanish with it,
those of a benchmark some time after its end. Names, labels and help come from the catalogue. What a
status does not have has no series: never 0.
"""

import importlib.metadata
import json
import logging
import math
import platform
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

import prometheus_client
from prometheus_client import core, exposition, registry
from pydantic import ValidationError

from gpubench import metrics, units, workloads
from gpubench.analysis import status as statuses
from gpubench.analysis import text
from gpubench.api.benchmark_status import Analysis, GpuBenchmarkStatus
from gpubench.api.goodput_result import InterruptionCounts, PoolGoodput
from gpubench.api.point_result import AmountInterval, Basis, GpuUsage, HostUsage, PointResult, PointState, Scaling
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.values import Interval
from gpubench_cluster import kube
from gpubench_operator import observe, queue

_log = logging.getLogger(__name__)

_SECONDS_PER_HOUR = _JOULES_OF_A_WATT_HOUR = 3600.0
_FAMILIES = {metrics.Kind.GAUGE: core.GaugeMetricFamily, metrics.Kind.COUNTER: core.CounterMetricFamily}
#: What points of one line of scaling have in common, beside one of both batches.
_LINE = ("workload", "precision", "data", "data_path", "data_samples", "variant", "epochs")
_QUALITY = {"accuracy": metrics.ACCURACY, "loss": metrics.LOSS}
#: The metrics of the two ends of an interval, by that of its mean.
_ENDS = {
    metric.name: (vars(metrics)[f"{name}_LOW"], vars(metrics)[f"{name}_HIGH"])
    for name, metric in vars(metrics).items()
    if f"{name}_LOW" in vars(metrics)
}

#: Lines of an exposition by the name of their family, compressed.
Lines = Mapping[str, bytes]
_Labels = tuple[str, ...]
_Points = Sequence[tuple[str, PointResult]]  # with their keys


class Samples(dict[str, list[tuple[_Labels, float]]], registry.Collector):
    """Labels, in the order of the metric's, and values, by the name of their metric."""

    def add(self, metric: metrics.Metric, labels: _Labels, value: float | str | None) -> None:
        if value is not None:
            self.setdefault(metric.name, []).append((labels, float(value)))

    def add_all(self, labels: _Labels, values: Mapping[metrics.Metric, float | str | None]) -> None:
        for metric, value in values.items():
            self.add(metric, labels, value)

    def add_each(self, metric: metrics.Metric, labels: _Labels, values: Mapping[str, Any]) -> None:
        """Numbers by the value of the metric's last label."""
        for label, value in values.items():
            self.add(metric, (*labels, label), value)

    def add_interval(
        self, metric: metrics.Metric, labels: _Labels, found: Interval | AmountInterval | None, *, unit: float = 1.0
    ) -> None:
        """A mean and the ends of its interval, in units of `unit`; the currency of an amount is its last label."""
        if found is None:
            return
        if isinstance(found, AmountInterval):
            labels = (*labels, found.currency)
        for one, value in zip((metric, *_ENDS[metric.name]), (found.mean, found.low, found.high), strict=True):
            self.add(one, labels, None if value is None else float(value) * unit)

    def collect(self) -> Iterator[core.Metric]:
        for metric in metrics.CATALOGUE:
            if metric.name in self:
                family = _FAMILIES[metric.kind](metric.name, metric.help, labels=metric.labels)
                for labels, value in self[metric.name]:
                    family.add_metric(labels, value)
                yield family


def lines_of(samples: Samples) -> Lines:
    """As they are written, in both formats alike: counters are without the time of their creation."""
    found, page = {}, f"\n{exposition.generate_latest(samples).decode()}"
    for family in page.split("\n# HELP ")[1:]:  # a label that holds a new line has it as two other characters
        name, (_, _, lines) = sys.intern(family.partition(" ")[0]), family.split("\n", 2)
        found[name] = zlib.compress(f"{lines.rstrip()}\n".encode(), level=1)
    return found


# --- benchmarks and schedules -----------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    uid: str
    status: object  # of one that has ended a hash: thousands of statuses are large
    budget: tuple[str, float] | None
    ended_at: float | None
    progress: Lines = MappingProxyType({})
    sha256: str | None = None  # of the analysis that the other lines are of
    results: Lines = MappingProxyType({})


class Series:
    """Of all benchmarks and schedules, as lines of metrics: what their statuses say, and the analyses of benchmarks.

    Most benchmarks are over. Each one's lines are written once and kept until its status or its analysis is another
    one: to write all of them at every scrape took 50 s for a thousand benchmarks. Those of an analysis are made in the
    worker process that made it.
    """

    def __init__(self, *, keep_seconds: float = math.inf, clock: Callable[[], float] = time.time) -> None:
        self._keep_seconds, self._clock = keep_seconds, clock  # after its end a benchmark has series for so long
        self._seen: dict[queue.Key, _Seen] = {}

    def observe(self, key: queue.Key, body: kube.Object) -> None:
        raw, before = body.get("status") or {}, self._seen.get(key)
        budget, ended_at = _budget(body.get("spec") or {}, raw), observe.seconds(raw.get("completionTime"))
        seen = _Seen(
            kube.uid_of(body), raw if ended_at is None else hash(json.dumps(raw, sort_keys=True)), budget, ended_at
        )
        if self._is_past(ended_at):
            self._seen[key] = seen
        if self._is_past(ended_at) or (before is not None and before[:4] == seen[:4]):
            return
        labels = (key.namespace, key.name)
        try:
            if key.kind is queue.Kind.SCHEDULE:
                samples = _schedule_samples(labels, GpuBenchmarkScheduleStatus.model_validate(raw))
            else:
                samples = progress_samples(labels, GpuBenchmarkStatus.model_validate(raw), budget)
        except ValidationError as error:
            self.drop(key)
            _log.warning("unreadable status", extra={"key": str(key), "error": str(error.errors()[0]["msg"])})
            return
        kept = before if before is not None and before.uid == seen.uid else seen
        self._seen[key] = seen._replace(progress=lines_of(samples), sha256=kept.sha256, results=kept.results)

    def take(self, key: queue.Key, sha256: str, lines: Lines) -> None:
        """Take what an analysis says; before it was observed the benchmark has no series."""
        if key in self._seen:
            results = {sys.intern(name): found for name, found in lines.items()}  # of another process, each has its own
            self._seen[key] = self._seen[key]._replace(sha256=sha256, results=results)

    def lacks(self, key: queue.Key, benchmark: kube.Object) -> bool:
        """Whether the analysis that its status names is another one than the lines are of."""
        status = benchmark.get("status") or {}
        named, ended_at = (status.get("analysis") or {}).get("sha256"), observe.seconds(status.get("completionTime"))
        has_series = named is not None and not self._is_past(ended_at)
        return has_series and (key not in self._seen or self._seen[key].sha256 != named)

    def drop(self, key: queue.Key) -> None:
        self._seen.pop(key, None)

    def keys(self) -> set[queue.Key]:
        return set(self._seen)

    def written(self) -> Iterator[tuple[Samples, bytes]]:
        """Each family without its samples, and their lines."""
        current = [seen for _, seen in sorted(self._seen.items()) if not self._is_past(seen.ended_at)]
        all_lines = [lines for seen in current for lines in (seen.progress, seen.results)]
        for metric in metrics.CATALOGUE:
            if found := [zlib.decompress(lines[metric.name]) for lines in all_lines if metric.name in lines]:
                yield Samples({metric.name: []}), b"".join(found)

    def _is_past(self, ended_at: float | None) -> bool:
        return ended_at is not None and ended_at + self._keep_seconds <= self._clock()


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


def progress_samples(benchmark: _Labels, status: GpuBenchmarkStatus, budget: tuple[str, float] | None) -> Samples:
    """How far a benchmark has come, and what it has taken; `benchmark` is its namespace and name."""
    found = Samples()
    for metric, moment in ((metrics.STARTED, status.start_time), (metrics.FINISHED, status.completion_time)):
        found.add(metric, benchmark, None if moment is None else units.epoch_seconds(moment))
    found.add_each(metrics.CONDITION, benchmark, {one.type: one.status == "True" for one in status.conditions})
    if (trials := status.trials) is not None:
        states = {"finished": trials.finished, "running": trials.running}
        found.add_each(metrics.TRIALS, benchmark, {**states, "waiting": max(0, trials.total - sum(states.values()))})
    if (attempts := status.attempts) is not None:
        outcomes = ("succeeded", "failed", "preempted", "drilled", "stopped")
        ended: dict[str, int] = {name: getattr(attempts, name) for name in outcomes}
        found.add_each(metrics.ATTEMPTS, benchmark, ended)
    if status.spent is not None:
        found.add(metrics.SPENT, (*benchmark, status.spent.currency), status.spent.amount)
    if status.results:
        counted = Counter(result.state for result in status.results)
        found.add_each(metrics.POINTS, benchmark, {state.value: counted[state] for state in PointState})
    if status.comparison is not None:
        points = status.comparison.points
        verdicts = {"Pass": points.passed, "Fail": points.failed, "CannotTell": points.cannot_tell}
        found.add_each(metrics.COMPARISON, benchmark, {**verdicts, "NotCompared": points.not_compared})
    if budget is not None:
        currency, amount = budget
        found.add(metrics.BUDGET, (*benchmark, currency), amount)
    return found


def analysis_samples(benchmark: _Labels, analysis: Analysis) -> Samples:
    """What the results say: of a benchmark of 20 points 800 lines."""
    found = Samples()
    for facts in analysis.environments:
        named = tuple(getattr(facts, label) or "" for label in metrics.ENVIRONMENT.labels[len(benchmark) :])
        found.add(metrics.ENVIRONMENT, (*benchmark, *named), 1.0)
    seen = () if analysis.goodput is None else analysis.goodput.pools
    # A counter that appears with its first interruption shows no increase.
    planned = {(one.pool, one.capacity_type): None for one in analysis.results if one.basis is Basis.MEASURED}
    for (name, kind), pool in (planned | {(one.pool, one.capacity_type): one for one in seen}).items():
        _add_pool(found, (*benchmark, name, kind or ""), pool)
    points = tuple(zip(statuses.point_keys(analysis.results), analysis.results, strict=True))
    for key, result in points:
        if result.node is None:  # a label of nodes would grow with every one that comes; schedules count the slow ones
            _add_point(found, (*benchmark, *_point_labels(key, result)), result, points)
    if (best := analysis.best) is not None:
        words = (str(said).lower() for said in (best.predicted, best.sure))
        found.add(
            metrics.BEST, (*benchmark, best.pool, str(best.workers), best.setting or "", *words, str(best.tied)), 1.0
        )
    return found


def _add_pool(found: Samples, labels: _Labels, pool: PoolGoodput | None) -> None:
    counts = InterruptionCounts(total=0) if pool is None else pool.interruptions
    kinds = {"Reclaim": counts.reclaimed, "Eviction": counts.evicted, "NodeLost": counts.nodes_lost}
    found.add_each(metrics.INTERRUPTIONS, labels, {**kinds, "Unknown": counts.total - sum(kinds.values())})
    if pool is None:
        return
    found.add_interval(metrics.INTERRUPTION_RATE, labels, pool.per_node_hour)
    found.add_each(metrics.NODE_SECONDS, labels, pool.node_seconds.to_wire())
    found.add(metrics.GOODPUT, labels, pool.goodput)
    found.add(metrics.EFFECTIVE_PRICE, (*labels, pool.currency or ""), pool.effective_price)
    found.add(metrics.RECOVERY, labels, None if pool.recovery is None else pool.recovery.median)


def _point_labels(key: str, result: PointResult) -> Iterator[str]:
    """Its key, its fields of these names, and the epochs that were trained."""
    known = {"point": key, "epochs": text.epochs(result)}
    for label in metrics.POINT_LABELS[len(metrics.BENCHMARK_LABELS) :]:
        value = known[label] if label in known else getattr(result, label)
        yield "" if value is None else str(value)


def _base(line: Scaling, of: PointResult, points: _Points) -> str:
    """The key of the point that an efficiency is held against, as `efficiency.base` chooses it; empty without one."""
    same = (*_LINE, "batch_per_worker" if line.kind == "weak" else "global_batch")
    wanted = (line.baseline_pool or of.pool, *(getattr(of, field) for field in same))
    alike = (
        (one.workers // one.workers_per_node, key)
        for key, one in points
        if one.node is None and one.workers == line.baseline_workers and one.throughput
        if wanted == (one.pool, *(getattr(one, field) for field in same))
    )
    return next((key for _, key in sorted(alike)), "")


def _add_point(found: Samples, point: _Labels, result: PointResult, points: _Points) -> None:
    basis, is_measured = result.basis.value, result.basis is Basis.MEASURED
    found.add(metrics.POINT_WORKERS, point, result.workers)
    if result.bill is not None:
        for part, amount in result.bill.parts.to_wire().items():
            found.add(metrics.BILLED, (*point, part, result.bill.currency), str(amount))
    found.add_each(metrics.WARNINGS, (*point, basis), Counter(warning.reason.value for warning in result.warnings))
    if result.state is PointState.UNSTABLE:
        # Whoever ranks the others by their series must not meet it there.
        if is_measured and result.workload != workloads.MESSAGES and result.throughput is not None:
            found.add(metrics.UNSTABLE_THROUGHPUT, point, result.throughput.mean)
        return
    if is_measured:
        _add_measured(found, point, result, points)
    if result.cost is not None:
        found.add_interval(metrics.COST, (*point, basis), result.cost.per_million_samples)
        found.add_interval(metrics.COST_PER_RUN, (*point, basis), result.cost.per_run)
    if (relative := result.relative) is not None:  # over the base of spec.baseline, which for the base is itself
        base = (str(relative.baseline_workers or result.workers), relative.baseline_pool or result.pool)
        found.add_interval(metrics.RELATIVE_THROUGHPUT, (*point, basis, *base), relative.throughput)
        found.add_interval(metrics.RELATIVE_TIME, (*point, basis, *base), relative.time)
        found.add_interval(metrics.RELATIVE_COST, (*point, basis, *base), relative.cost)
    for goal in result.goals:
        found.add_interval(metrics.GOAL, (*point, basis, goal.name), goal.hours, unit=_SECONDS_PER_HOUR)
        found.add_interval(metrics.GOAL_COST, (*point, basis, goal.name), goal.cost)


def _add_measured(found: Samples, point: _Labels, result: PointResult, points: _Points) -> None:
    if result.workload != workloads.MESSAGES:  # whose throughput counts elements of messages, which are no samples
        found.add_interval(metrics.THROUGHPUT, point, result.throughput)
    elif result.bandwidth is not None:
        found.add_interval(metrics.ALGORITHM_BANDWIDTH, point, result.bandwidth.algorithm)
        found.add_interval(metrics.BUS_BANDWIDTH, point, result.bandwidth.bus)
    for line in result.scaling:
        base = (_base(line, result, points), str(line.baseline_workers), line.baseline_pool or result.pool)
        found.add_interval(metrics.EFFICIENCY, (*point, line.kind, *base), line.efficiency)
    if (training := result.training) is not None:
        region = (*point, training.timed_region.evaluation, training.timed_region.first_epoch)
        found.add_interval(metrics.TRAINING, region, training.seconds)
        found.add_interval(metrics.EPOCH, region, training.seconds_per_epoch)
        if (quality := training.quality) is not None:
            found.add_interval(_QUALITY[quality.metric], (*point, "final"), quality.final)
            found.add_interval(_QUALITY[quality.metric], (*point, "best"), quality.best)
    gpu, host = result.gpu or GpuUsage(), result.host or HostUsage()
    found.add_all(
        point,
        {
            metrics.GPU_UTILIZATION: gpu.utilization,
            metrics.GPU_MEMORY: gpu.memory_peak,
            metrics.GPU_POWER: gpu.watts,
            metrics.GPU_THROTTLED: gpu.throttled,
            metrics.PROCESSORS: host.processors,
            metrics.MEMORY: host.memory_peak,
        },
    )
    if (energy := result.energy) is not None:
        found.add_interval(metrics.ENERGY, point, energy.joules)
        for metric, metered, unit in (
            (metrics.METERED, energy.watt_hours, _JOULES_OF_A_WATT_HOUR),
            (metrics.METERED_RUN, energy.watt_hours_per_run, _JOULES_OF_A_WATT_HOUR),
            (metrics.EMISSIONS, energy.grams, 1.0),
            (metrics.EMISSIONS_RUN, energy.grams_per_run, 1.0),
        ):
            found.add(metric, point, None if metered is None else metered.mean * unit)


def _schedule_samples(schedule: _Labels, status: GpuBenchmarkScheduleStatus) -> Samples:
    found, month = Samples(), status.monthly
    known = {one.type: one.status == "True" for one in status.conditions if one.status != "Unknown"}
    found.add_each(metrics.SCHEDULE_CONDITION, schedule, known)
    found.add_all(
        schedule,
        {
            metrics.SCHEDULE_ACTIVE: status.active_runs,
            metrics.SCHEDULE_SLOWER_POINTS: status.slower_points,
            metrics.SCHEDULE_SLOW_NODES: len(status.slow_nodes),
            metrics.SCHEDULE_LAST: observe.seconds(status.last_schedule_time),
            metrics.SCHEDULE_NEXT: observe.seconds(status.next_schedule_time),
            metrics.SCHEDULE_WITHOUT_SUCCESS: status.runs_due_since_success,
            metrics.SCHEDULE_KEPT: status.runs_kept,
        },
    )
    for level in status.levels:
        series = (*schedule, level.point, level.series)
        found.add_all(series, {metrics.SCHEDULE_SPEED: level.speed, metrics.SCHEDULE_USUAL: level.usual})
    if month is not None and month.currency is not None:
        found.add(metrics.SCHEDULE_MONTHLY, (*schedule, month.currency), month.total)
    return found


# --- pools ------------------------------------------------------------------------------------------------------------

#: A number for each pool that has one.
_PerPool = Callable[[], Mapping[str, int]]


class PoolCollector(registry.Collector):
    """The pools as they were last seen; `held` and `waiting` are asked at each scrape."""

    def __init__(self, *, held: _PerPool = dict, waiting: _PerPool = dict) -> None:
        self._held, self._waiting = held, waiting
        self._pools: dict[str, tuple[GpuPool | None, GpuPoolStatus]] = {}

    def replace(self, pools: Mapping[str, tuple[GpuPool | None, GpuPoolStatus]]) -> None:
        """All pools there are; None is one that cannot be read."""
        self._pools = dict(pools)

    def collect(self) -> Iterator[core.Metric]:
        found, held, waiting = Samples(), self._held(), self._waiting()
        for name, (pool, status) in sorted(self._pools.items()):
            conditions = {one.type: one.status == "True" for one in status.conditions}
            found.add_each(metrics.POOL_CONDITION, (name,), conditions)
            if pool is None:
                continue
            found.add(metrics.POOL_INFO, (name, pool.spec.accelerator or "", pool.spec.capacity_type.value), 1.0)
            found.add_all(
                (name,),
                {
                    metrics.POOL_NODES: status.nodes,
                    metrics.POOL_READY_NODES: status.ready_nodes,
                    metrics.POOL_SLOTS: status.slots,
                    metrics.POOL_HELD_SLOTS: held.get(name, 0),
                    metrics.POOL_WAITING: waiting.get(name, 0),
                },
            )
            if status.price_per_node_hour is not None:
                amount, _, currency = status.price_per_node_hour.partition(" ")
                found.add(metrics.POOL_PRICE, (name, currency), amount)
            if status.price_as_of is not None:
                read = datetime.fromisoformat(status.price_as_of).replace(tzinfo=UTC)
                found.add(metrics.POOL_PRICE_READ, (name,), read.timestamp())
        return found.collect()


# --- the operator itself ----------------------------------------------------------------------------------------------


class Health:
    """The operator's own metrics."""

    def __init__(self, into: prometheus_client.CollectorRegistry) -> None:
        def own(metric: metrics.Metric) -> dict[str, Any]:
            named = {"name": metric.name, "documentation": metric.help, "labelnames": metric.labels, "registry": into}
            return {**named, "buckets": metric.buckets} if metric.buckets else named

        self._reconciles = prometheus_client.Counter(**own(metrics.RECONCILES))
        self._requests = prometheus_client.Counter(**own(metrics.API_REQUESTS))
        self._seconds = prometheus_client.Histogram(**own(metrics.RECONCILE_SECONDS))
        #: A histogram, as a scrape can only come after the loop was blocked: a gauge would have forgotten it.
        self.loop_lag = prometheus_client.Histogram(**own(metrics.LOOP_LAG))
        self.queue_depth = prometheus_client.Gauge(**own(metrics.QUEUE_DEPTH))
        self.leader = prometheus_client.Gauge(**own(metrics.LEADER))
        self.leader.set(0)
        for outcome in ("done", "retried", "failed"):  # a counter that appears with its first error shows no increase
            self._reconciles.labels(outcome)
        try:
            version = importlib.metadata.version("kube-gpubench")
        except importlib.metadata.PackageNotFoundError:  # a checkout that is not installed has none
            version = "unknown"
        prometheus_client.Gauge(**own(metrics.OPERATOR)).labels(version, platform.python_version()).set(1)

    def reconciled(self, outcome: str, seconds: float) -> None:
        self._reconciles.labels(outcome).inc()
        self._seconds.observe(seconds)

    def requested(self, verb: str, resource: str, code: str) -> None:
        self._requests.labels(verb, resource, code).inc()
