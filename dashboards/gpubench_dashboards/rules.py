# SPDX-License-Identifier: Apache-2.0
"""Recording rules, named level:metric:operation, and the PromQL that rules, alerts and panels share.

Several operators may run, and the one that leads may change: the same figure then comes from two targets for a while.
So every query of the operator's series aggregates over the labels that identify a figure, without those of the target.

The scaling efficiency is derived once more here, from throughputs alone: who doubts the operator can follow it in
Prometheus, and a test requires that both are the same number.
"""

from typing import NamedTuple

from gpubench import metrics

BENCHMARK = metrics.BENCHMARK_LABELS
POINT = metrics.POINT_LABELS
#: The attempt whose ranks train together.
GANG = (*BENCHMARK, "pool", "trial", "attempt")
RANK = (*GANG, "rank")
SCHEDULE = metrics.SCHEDULE_LABELS
SCALING = ("scaling", "baseline_workers", "baseline_pool")
#: A line of scaling, on which points differ in workers and one of both batches.
_LINE = (*BENCHMARK, "workload", "precision", "data", "data_path", "data_samples", "variant", "epochs")


class Expression(str):
    """PromQL whose line breaks are kept in YAML."""

    __slots__ = ()


class Rule(NamedTuple):
    """A recording rule; its labels are those of the result."""

    record: str
    expr: str
    labels: tuple[str, ...]


def labels(*names: str) -> str:
    """As PromQL lists them."""
    return ", ".join(names)


def gauge(metric: metrics.Metric, *by: str, where: str = "", **equal: str) -> str:
    """A gauge of the operator, once, whichever replica exports it; `equal` has labels with their values."""
    matchers = ", ".join(filter(None, (where, *(f'{label}="{value}"' for label, value in equal.items()))))
    selector = f"{metric.name}{{{matchers}}}" if matchers else metric.name
    return f"max by ({labels(*by)}) ({selector})"


class Gauges(NamedTuple):
    """Gauges of one kind of thing: the labels that identify it, and which of these things are asked for."""

    labels: tuple[str, ...]
    where: str

    def __call__(self, metric: metrics.Metric, *by: str, **equal: str) -> str:
        """One of them, by further labels too."""
        return gauge(metric, *self.labels, *by, where=self.where, **equal)


_BENCHMARK, _POINT, _GANG, _RANK = (labels(*names) for names in (BENCHMARK, POINT, GANG, RANK))
_THROUGHPUT = "point:gpubench_throughput_samples_per_second:max"
_PER_WORKER = "point:gpubench_throughput_samples_per_second:per_worker"
_BASE = "point:gpubench_throughput_samples_per_second:per_worker_of_base"
_COMPUTE, _ALLREDUCE = metrics.WORKER_COMPUTE.name, metrics.WORKER_ALLREDUCE.name
_WASTED, _HELD = 'use=~"lost|failed|repeated"', 'use!="queued"'
_OF_RANK = f"max by ({_RANK}) ({_COMPUTE})"


def _on_fewest_nodes() -> str:
    """Of two shapes with equally many workers, 2 x 1 and 1 x 2, the one on fewer nodes is the base of a line."""
    shapes = labels(*(label for label in POINT if label != "workers_per_node"))
    nodes = f"({gauge(metrics.POINT_NODES, *POINT)} and on ({_POINT}) {_PER_WORKER})"
    return f"{_PER_WORKER}\nunless on ({_POINT}) ({nodes} > on ({shapes}) group_left () min by ({shapes}) {nodes})"


def _efficiency(kind: str, batch: str) -> str:
    """E(n) = T(n) b / (n T(b)): what a worker does at n, over what it does at b, for the b that the operator took."""
    beside = labels(*_LINE, batch, "baseline_workers", "baseline_pool")
    base = f'label_replace({_BASE}, "baseline_pool", "$1", "pool", "(.*)")'
    base = f'label_replace({base}, "baseline_workers", "$1", "workers", "(.*)")'
    line = gauge(metrics.EFFICIENCY, *POINT, *SCALING, scaling=kind)
    own = f"({line} * 0 + on ({_POINT}) group_left () {_PER_WORKER})"
    return f"{own}\n/ on ({beside}) group_left ()\nmax by ({beside}) ({base})"


def _node_seconds(where: str) -> str:
    of_benchmarks = gauge(metrics.NODE_SECONDS, *BENCHMARK, "pool", "capacity_type", "use", where=where)
    return f"sum by (pool, capacity_type) ({of_benchmarks})"


RULES: tuple[Rule, ...] = (
    Rule(_THROUGHPUT, gauge(metrics.THROUGHPUT, *POINT), POINT),
    Rule(_PER_WORKER, f"{_THROUGHPUT} / on ({_POINT}) {gauge(metrics.POINT_WORKERS, *POINT)}", POINT),
    # The same of points that others may be compared with.
    Rule(_BASE, _on_fewest_nodes(), POINT),
    Rule(
        "point:gpubench_scaling_efficiency_ratio:derived",
        f"{_efficiency('weak', 'batch_per_worker')}\nor\n{_efficiency('strong', 'global_batch')}",
        (*POINT, *SCALING),
    ),
    Rule(
        "study:gpubench_trials:finished_ratio",
        f"{gauge(metrics.TRIALS, *BENCHMARK, state='finished')} / on ({_BENCHMARK}) "
        f"(sum by ({_BENCHMARK}) ({gauge(metrics.TRIALS, *BENCHMARK, 'state')}) > 0)",
        BENCHMARK,
    ),
    Rule(
        "study:gpubench_spent:of_budget_ratio",
        f"{gauge(metrics.SPENT, *BENCHMARK, 'currency')} / on ({_BENCHMARK}, currency) "
        f"{gauge(metrics.BUDGET, *BENCHMARK, 'currency')}",
        (*BENCHMARK, "currency"),
    ),
    # Attempts on a pool that were interrupted in the last hour, of all benchmarks.
    Rule(
        "pool:gpubench_interruptions:added1h",
        f"sum by (pool, capacity_type) (max by ({labels(*BENCHMARK)}, pool, capacity_type, kind) "
        f"({metrics.INTERRUPTIONS.name} - min_over_time({metrics.INTERRUPTIONS.name}[1h])))",
        ("pool", "capacity_type"),
    ),
    # Node time that was held and led to nothing.
    Rule(
        "pool:gpubench_node_seconds:wasted_ratio",
        f"{_node_seconds(_WASTED)} / on (pool, capacity_type) ({_node_seconds(_HELD)} > 0)",
        ("pool", "capacity_type"),
    ),
    Rule("gang:gpubench_worker_samples:rate1m", f"sum by ({_GANG}) (rate({metrics.WORKER_SAMPLES.name}[1m]))", GANG),
    # What of a step is not the rank's own forward and backward pass.
    Rule(
        "rank:gpubench_worker_allreduce:step_ratio",
        f"max by ({_RANK}) ({_ALLREDUCE} / ({_ALLREDUCE} + {_COMPUTE}))",
        RANK,
    ),
    # By what share a rank computes longer than the median of its gang.
    Rule(
        "rank:gpubench_worker_compute:behind_ratio",
        f"{_OF_RANK} / on ({_GANG}) group_left () quantile by ({_GANG}) (0.5, {_OF_RANK}) - 1",
        RANK,
    ),
    Rule(
        "operator:gpubench_operator_reconcile_seconds:p95",
        f"histogram_quantile(0.95, sum by (le) (rate({metrics.RECONCILE_SECONDS.name}_bucket[5m])))",
        (),
    ),
)


def groups() -> dict[str, object]:
    rules = [{"record": rule.record, "expr": Expression(rule.expr)} for rule in RULES]
    return {"groups": [{"name": "gpubench-recording", "rules": rules}]}
