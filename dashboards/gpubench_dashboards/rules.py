# SPDX-License-Identifier: Apache-2.0
"""Recording rules, named level:metric:operation. What an alert and a panel both need, or what takes PromQL some lines.

The scaling efficiency is derived once more here, from throughputs alone: whoever does not believe the operator can see
in Prometheus how it comes about, and a test holds that both are the same number.
"""

from gpubench import metrics
from gpubench.values import Value
from gpubench_dashboards.queries import GANG, HELD, LINE, POINT, RANK, STUDY, WASTED, Lines, is_, labels, one


class Rule(Value):
    """A recording rule; its labels are those of the result."""

    record: str
    expr: str
    labels: tuple[str, ...]
    help: str


_POINT = labels(*POINT)
_THROUGHPUT = "point:gpubench_throughput_samples_per_second:max"
_PER_WORKER = "point:gpubench_throughput_samples_per_second:per_worker"
_BASE = "point:gpubench_throughput_samples_per_second:per_worker_of_base"
_NODES = one(metrics.POINT_NODES, *POINT)
_LINE_LABELS = ("scaling", "baseline_workers", "baseline_pool")


def _on_fewest_nodes() -> str:
    """Of two shapes with equally many workers, 2 x 1 and 1 x 2, the one on fewer nodes is the base of a line."""
    shapes = labels(*(label for label in POINT if label != "workers_per_node"))
    nodes = f"({_NODES} and on ({_POINT}) {_PER_WORKER})"
    return f"{_PER_WORKER}\nunless on ({_POINT}) ({nodes} > on ({shapes}) group_left () min by ({shapes}) {nodes})"


def _efficiency(kind: str, batch: str) -> str:
    """E(n) = T(n) b / (n T(b)): what a worker does at n, over what it does at b, for the b that the operator took."""
    beside = labels(*LINE, batch, "baseline_workers", "baseline_pool")
    base = f'label_replace({_BASE}, "baseline_pool", "$1", "pool", "(.*)")'
    base = f'label_replace({base}, "baseline_workers", "$1", "workers", "(.*)")'
    line = one(metrics.EFFICIENCY, *POINT, *_LINE_LABELS, where=is_("scaling", kind))
    own = f"({line} * 0 + on ({_POINT}) group_left () {_PER_WORKER})"
    return f"{own}\n/ on ({beside}) group_left ()\nmax by ({beside}) ({base})"


def _node_seconds(where: str) -> str:
    """Of all studies on a pool."""
    of_studies = one(metrics.NODE_SECONDS, *STUDY, "pool", "capacity_type", "use", where=where)
    return f"sum by (pool, capacity_type) ({of_studies})"


RULES: tuple[Rule, ...] = (
    Rule(
        record=_THROUGHPUT,
        expr=one(metrics.THROUGHPUT, *POINT),
        labels=POINT,
        help="Throughput of a point, once, also while two operators change over.",
    ),
    Rule(
        record=_PER_WORKER,
        expr=f"{_THROUGHPUT} / on ({_POINT}) {one(metrics.POINT_WORKERS, *POINT)}",
        labels=POINT,
        help="What one worker of a point does.",
    ),
    Rule(
        record=_BASE,
        expr=_on_fewest_nodes(),
        labels=POINT,
        help="The same of points that others may be held against.",
    ),
    Rule(
        record="point:gpubench_scaling_efficiency_ratio:derived",
        expr=f"{_efficiency('weak', 'batch_per_worker')}\nor\n{_efficiency('strong', 'global_batch')}",
        labels=(*POINT, *_LINE_LABELS),
        help="Scaling efficiency, derived from throughputs: the operator's own figure.",
    ),
    Rule(
        record="study:gpubench_trials:finished_ratio",
        expr=(
            f"{one(metrics.TRIALS, *STUDY, where=is_('state', 'finished'))} / on ({labels(*STUDY)}) "
            f"(sum by ({labels(*STUDY)}) ({one(metrics.TRIALS, *STUDY, 'state')}) > 0)"
        ),
        labels=STUDY,
        help="Share of a study's trials that have ended.",
    ),
    Rule(
        record="study:gpubench_spent:of_budget_ratio",
        expr=(
            f"{one(metrics.SPENT, *STUDY, 'currency')} / on ({labels(*STUDY, 'currency')}) "
            f"{one(metrics.BUDGET, *STUDY, 'currency')}"
        ),
        labels=(*STUDY, "currency"),
        help="Share of its budget that a study has spent.",
    ),
    Rule(
        record="pool:gpubench_interruptions:added1h",
        expr=(
            "sum by (pool, capacity_type) (max by (namespace, benchmark, pool, capacity_type, kind) "
            f"({metrics.INTERRUPTIONS.name} - min_over_time({metrics.INTERRUPTIONS.name}[1h])))"
        ),
        labels=("pool", "capacity_type"),
        help="Attempts on a pool that were interrupted in the last hour, of all studies.",
    ),
    Rule(
        record="pool:gpubench_node_seconds:wasted_ratio",
        expr=f"{_node_seconds(WASTED)} / on (pool, capacity_type) ({_node_seconds(HELD)} > 0)",
        labels=("pool", "capacity_type"),
        help="Share of the node time held on a pool that came to nothing: lost, failed, repeated.",
    ),
    Rule(
        record="gang:gpubench_worker_samples:rate1m",
        expr=f"sum by ({labels(*GANG)}) (rate({metrics.WORKER_SAMPLES.name}[1m]))",
        labels=GANG,
        help="Samples per second of a gang that trains now.",
    ),
    Rule(
        record="rank:gpubench_worker_allreduce:step_ratio",
        expr=(
            f"max by ({labels(*RANK)}) ({metrics.WORKER_ALLREDUCE.name} "
            f"/ ({metrics.WORKER_ALLREDUCE.name} + {metrics.WORKER_COMPUTE.name}))"
        ),
        labels=RANK,
        help="Share of a step that is not the rank's own forward and backward pass.",
    ),
    Rule(
        record="rank:gpubench_worker_compute:behind_ratio",
        expr=(
            f"max by ({labels(*RANK)}) ({metrics.WORKER_COMPUTE.name}) / on ({labels(*GANG)}) group_left () "
            f"quantile by ({labels(*GANG)}) (0.5, max by ({labels(*RANK)}) ({metrics.WORKER_COMPUTE.name})) - 1"
        ),
        labels=RANK,
        help="By what share a rank computes longer than the median of its gang.",
    ),
    Rule(
        record="operator:gpubench_operator_reconcile_seconds:p95",
        expr=(f"histogram_quantile(0.95, sum by (le) (rate({metrics.RECONCILE_SECONDS.name}_bucket[5m])))"),
        labels=(),
        help="95 of 100 reconciles take less.",
    ),
)


def groups() -> dict[str, object]:
    """The rule file."""
    rules = [{"record": rule.record, "expr": Lines(rule.expr)} for rule in RULES]
    return {"groups": [{"name": "gpubench-recording", "rules": rules}]}
