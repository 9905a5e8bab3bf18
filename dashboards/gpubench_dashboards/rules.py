# SPDX-License-Identifier: Apache-2.0
"""Recording rules, named level:metric:operation, and the PromQL that rules, alerts and panels share.

Several operators may run, and the one that leads may change: the same figure then comes from two targets for a while.
So every query of the operator's series aggregates over the labels that identify a figure, without those of the target.
One Prometheus may have the series of several clusters: `cluster` is among these labels everywhere.

The scaling efficiency is derived once more here, from throughputs alone: who doubts the operator can follow it in
Prometheus, and a test requires that both are the same number.
"""

from collections.abc import Callable
from typing import NamedTuple

from gpubench import metrics

CLUSTER = metrics.CLUSTER_LABEL
BENCHMARK = (CLUSTER, *metrics.BENCHMARK_LABELS)
#: A point with all that it is chosen by. Whoever only needs to tell points apart has KEY.
POINT = (CLUSTER, *metrics.POINT_LABELS)
KEY = (*BENCHMARK, "point")
POOL = (CLUSTER, "pool")
#: The attempt whose ranks train together.
GANG = (*BENCHMARK, "pool", "trial", "attempt")
RANK = (*GANG, "rank")
SCHEDULE = (CLUSTER, *metrics.SCHEDULE_LABELS)


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


def gauges(identity: tuple[str, ...], where: str) -> Callable[..., str]:
    """Of one kind of thing: the labels that identify it, and which of these are asked for; each by further labels."""
    return lambda metric, *by, **equal: gauge(metric, *identity, *by, where=where, **equal)


_BENCHMARK, _KEY, _GANG, _RANK = (labels(*names) for names in (BENCHMARK, KEY, GANG, RANK))
_USE = (*POOL, "capacity_type")
_PER_WORKER = "point:gpubench_throughput_samples_per_second:per_worker"
_ATTEMPTS = f"benchmark:{metrics.ATTEMPTS.name}:max"
_INTERRUPTIONS = f"benchmark:{metrics.INTERRUPTIONS.name}:max"
_OF_RANK = f"rank:{metrics.WORKER_COMPUTE.name}:max"
_ALLREDUCE = metrics.WORKER_ALLREDUCE.name
_WASTED, _HELD = 'use=~"lost|failed|repeated"', 'use!="queued"'


def _node_seconds(where: str) -> str:
    of_benchmarks = gauge(metrics.NODE_SECONDS, *BENCHMARK, "pool", "capacity_type", "use", where=where)
    return f"sum by ({labels(*_USE)}) ({of_benchmarks})"


def added(counter: str, where: str = "") -> str:
    """What came to a recorded counter in the last hour.

    No increase(): it extrapolates, and of each operator's own series it would miss what happens while none leads.
    """
    return f"{counter}{where} - min_over_time({counter}{where}[1h])"


RULES: tuple[Rule, ...] = (
    Rule(_PER_WORKER, f"{gauge(metrics.THROUGHPUT, *KEY)} / {gauge(metrics.POINT_WORKERS, *KEY)}", KEY),
    # E(n) = T(n) b / (n T(b)): what a worker does at n, over what it does at b, for the b that the operator took.
    Rule(
        "point:gpubench_scaling_efficiency_ratio:derived",
        f"({gauge(metrics.EFFICIENCY, *KEY, 'scaling', 'baseline')} * 0 + on ({_KEY}) group_left () {_PER_WORKER})\n"
        f"/ on ({_BENCHMARK}, baseline) group_left ()\n"
        f'label_replace({_PER_WORKER}, "baseline", "$1", "point", "(.*)")',
        (*KEY, "scaling", "baseline"),
    ),
    Rule(
        "study:gpubench_trials:finished_ratio",
        f"{gauge(metrics.TRIALS, *BENCHMARK, state='finished')} / "
        f"(sum by ({_BENCHMARK}) ({gauge(metrics.TRIALS, *BENCHMARK, 'state')}) > 0)",
        BENCHMARK,
    ),
    Rule(
        "study:gpubench_spent:of_budget_ratio",
        f"{gauge(metrics.SPENT, *BENCHMARK, 'currency')} / {gauge(metrics.BUDGET, *BENCHMARK, 'currency')}",
        (*BENCHMARK, "currency"),
    ),
    # A new operator's counters go on where those of the last one ended; so these do not notice who leads.
    Rule(_ATTEMPTS, gauge(metrics.ATTEMPTS, *BENCHMARK, "outcome"), (*BENCHMARK, "outcome")),
    Rule(
        _INTERRUPTIONS,
        gauge(metrics.INTERRUPTIONS, *BENCHMARK, "pool", "capacity_type", "kind"),
        (*BENCHMARK, "pool", "capacity_type", "kind"),
    ),
    # Attempts on a pool that were interrupted in the last hour, of all benchmarks.
    Rule("pool:gpubench_interruptions:added1h", f"sum by ({labels(*_USE)}) ({added(_INTERRUPTIONS)})", _USE),
    # Node time that was held and led to nothing.
    Rule("pool:gpubench_node_seconds:wasted_ratio", f"{_node_seconds(_WASTED)} / ({_node_seconds(_HELD)} > 0)", _USE),
    Rule("gang:gpubench_worker_samples:rate1m", f"sum by ({_GANG}) (rate({metrics.WORKER_SAMPLES.name}[1m]))", GANG),
    # What of a step is not the rank's own forward and backward pass.
    Rule(
        "rank:gpubench_worker_allreduce:step_ratio",
        f"max by ({_RANK}) ({_ALLREDUCE} / ({_ALLREDUCE} + {metrics.WORKER_COMPUTE.name}))",
        RANK,
    ),
    Rule(_OF_RANK, gauge(metrics.WORKER_COMPUTE, *RANK), RANK),
    # By what share a rank computes longer than the median of its gang; of two, whose median is their mean, than the
    # other one.
    Rule(
        "rank:gpubench_worker_compute:behind_ratio",
        f"{_OF_RANK} / on ({_GANG}) group_left ()\n"
        f"(quantile by ({_GANG}) (0.5, {_OF_RANK}) and count by ({_GANG}) ({_OF_RANK}) > 2\n"
        f"or min by ({_GANG}) ({_OF_RANK})) - 1",
        RANK,
    ),
    Rule(
        "operator:gpubench_operator_reconcile_seconds:p95",
        f"histogram_quantile(0.95, sum by (cluster, le) (rate({metrics.RECONCILE_SECONDS.name}_bucket[5m])))",
        (CLUSTER,),
    ),
)


def groups() -> dict[str, object]:
    rules = [{"record": rule.record, "expr": Expression(rule.expr)} for rule in RULES]
    return {"groups": [{"name": "gpubench-recording", "rules": rules}]}
