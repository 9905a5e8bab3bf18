# SPDX-License-Identifier: Apache-2.0
"""Alerts: what somebody must do something about, with the text of what. Thresholds are numbers with their reason.

What the operator says in a status anyhow (a failed point, an interval that is too wide) is no alert. One about a result
ends a day after its benchmark: somebody has seen it by then, or never will. Those who install the chart may set each
alert's threshold and times, or leave it out.
"""

from typing import Literal, NamedTuple

from gpubench import metrics
from gpubench_dashboards import rules
from gpubench_dashboards.rules import BENCHMARK, CLUSTER, GANG, KEY, POOL, SCHEDULE, Expression, gauge, labels

#: Its place in the repository, which has no public address yet; `metrics.rules.runbookUrl` of the chart.
RUNBOOKS = "dashboards/RUNBOOKS.md"
#: Stands in an expression for the alert's own threshold.
THRESHOLD = "THRESHOLD"


class Alert(NamedTuple):
    """An alert and its section in the runbook."""

    name: str
    template: str  # the expression, with THRESHOLD where it has one
    severity: Literal["critical", "warning", "info"]  # look at once; today; before the next benchmark
    summary: str
    description: str
    means: str  # the runbook: what has happened
    look: tuple[str, ...]  # where to look, one step each
    act: tuple[str, ...]  # what to do
    threshold: float | None = None
    lasting: str = "5m"  # the expression must be true for so long
    kept: str = "10m"  # and the alert fires on for so long: a scrape that fails, or an operator that changes, ends none

    @property
    def expr(self) -> str:
        return self.template if self.threshold is None else self.template.replace(THRESHOLD, f"{self.threshold:g}")


_BENCHMARK = labels(*BENCHMARK)
_SCHEDULED = "schedule {{ $labels.benchmark_namespace }}/{{ $labels.schedule }}"
_IS_OVER = gauge(metrics.CONDITION, *BENCHMARK, where='condition=~"Finished|Suspended|BudgetExhausted"')
_IT = "benchmark {{ $labels.benchmark_namespace }}/{{ $labels.benchmark }}"
_NOT_LONG_AGO = f"unless on ({_BENCHMARK}) time() - {gauge(metrics.FINISHED, *BENCHMARK)} > 86400"
_WAITING, _RUNNING = (gauge(metrics.TRIALS, *BENCHMARK, state=state) for state in ("waiting", "running"))
_LINE = (*KEY, "scaling", "baseline")
_LEADER = metrics.LEADER.name


def _added(outcome: str) -> str:
    return rules.added(f"benchmark:{metrics.ATTEMPTS.name}:max", f'{{outcome="{outcome}"}}')


ALERTS: tuple[Alert, ...] = (
    Alert(
        name="GpubenchStudyStuck",
        template=(
            f"({_WAITING} > 0 unless {_RUNNING} > 0\n"
            f"or {gauge(metrics.CONDITION, *BENCHMARK, condition='GangPending')} == 1)\n"
            f"unless {_IS_OVER} == 1"
        ),
        lasting="30m",
        severity="warning",
        summary=f"{_IT} makes no progress",
        description=f"{_IT} has trials left, and for half an hour none has run or a gang has found no nodes.",
        means="Nothing is measured and, where a gang holds part of its nodes, something is paid for.",
        look=(
            "`kubectl describe gbench NAME`: see the conditions GangPending, WritesRefused and Progressing.",
            "The dashboard *Pools and spot*: ready nodes, slots held, waiting benchmarks.",
        ),
        act=(
            "No capacity: more nodes or quota, fewer `limits.parallelTrials`, or suspend other benchmarks on the pool.",
            "No nodes at all: check the pool's `scheduling` against the nodes' labels and taints.",
            "An image or volume that is missing: put it there; the operator tries again by itself.",
        ),
    ),
    Alert(
        name="GpubenchAttemptsKeepFailing",
        template=f"{_added('failed')} >= {THRESHOLD}\nunless on ({_BENCHMARK}) {_added('succeeded')} > 0",
        threshold=3,  # in an hour: the operator's own bound for a trial is two by default
        severity="warning",
        summary=f"attempts of {_IT} keep failing",
        description=f"{{{{ $value }}}} attempts of {_IT} have failed in the last hour and none has succeeded.",
        means="Each attempt holds its nodes until it fails, and is billed. Preemptions are not counted here.",
        look=(
            "`kubectl describe gbench NAME`: each AttemptFailed event has the reason and a message.",
            "The log of pod 0 of the last attempt (its Job stays for ten minutes), or `gpubench export`.",
        ),
        act=(
            "`OutOfMemory`: a smaller batch. `BadAssignment`, `CustomModelFailed`, `DataUnusable`: correct the spec.",
            "`Stalled`, `JoinTimeout`: look at the network between the nodes, and what it forbids.",
            'To suspend the benchmark: `kubectl patch gbench NAME --type merge -p \'{"spec":{"suspend":true}}\'`.',
        ),
    ),
    Alert(
        name="GpubenchGpuIdle",
        template=f"avg by ({labels(*GANG)}) ({metrics.WORKER_GPU.name}) < {THRESHOLD}",
        threshold=0.1,  # of the time with a kernel on it: a GPU that trains has one nearly always
        lasting="10m",
        severity="warning",
        summary=f"GPUs of {_IT} are idle and paid for",
        description=(
            f"the GPUs of trial {{{{ $labels.trial }}}} of {_IT} on pool {{{{ $labels.pool }}}} have had a kernel in "
            "{{ $value | humanizePercentage }} of the time, for ten minutes."
        ),
        means="Ranks run, hold their GPUs, and compute next to nothing.",
        look=(
            "The dashboard *Live run*: step time, processors used, share of the all-reduce.",
            "Processors at their limit: the input pipeline does not keep up. All-reduce near 1: the network does not.",
        ),
        act=(
            "More `slot.cpu`, data on a faster volume, or `data.source: Synthetic` to measure the GPU alone.",
            "A larger batch, fewer nodes, or a faster network.",
        ),
    ),
    Alert(
        name="GpubenchThroughputBelowBaseline",
        template=f"{gauge(metrics.COMPARISON, *BENCHMARK, verdict='Fail')} > 0\n{_NOT_LONG_AGO}",
        severity="warning",
        summary=f"{_IT} is slower than its baseline",
        description=f"{{{{ $value }}}} points of {_IT} are slower than `spec.compareTo` allows, or failed.",
        means="The whole interval of a point lies below what the tolerance allows: this is no noise.",
        look=(
            "`gpubench compare BASELINE NAME`: which points, by how much, and what differs in their environments.",
            "`status.results[].warnings`: a weak node, a straggler, throttling.",
        ),
        act=(
            "Another driver, image or instance type: decide whether that is the new baseline.",
            "A weak node: cordon it and repeat the benchmark.",
        ),
    ),
    Alert(
        name="GpubenchEfficiencyBelowTarget",
        # All of its interval must lie below; without one nothing can be told (`gpubench.stats.compare`).
        template=(
            f"{gauge(metrics.EFFICIENCY, *_LINE)}\nand {gauge(metrics.EFFICIENCY_HIGH, *_LINE)} < {THRESHOLD}\n"
            f"{_NOT_LONG_AGO}"
        ),
        threshold=0.7,  # below, more than 30 % of what is paid for is lost to working together
        severity="info",
        summary=f"{_IT} scales badly",
        description=(
            f"{{{{ $labels.point }}}} of {_IT} has a scaling efficiency of {{{{ $value | humanizePercentage }}}}"
            " against {{ $labels.baseline }}, and all of its interval is below the target."
        ),
        means="So many workers are paid for and less than that share of them is had.",
        look=(
            "The dashboard *One benchmark*: efficiency over workers. A step down at the edge of a node is its network.",
            "`gpubench explain NAME POINT`: what the figure is made of.",
        ),
        act=(
            "A larger batch per worker, gradients in float16 (`variants`), or a pool with a faster network.",
            "Fewer workers for longer: the frontier of time and cost says what that costs.",
        ),
    ),
    Alert(
        name="GpubenchPreemptionStorm",
        template=f"pool:gpubench_interruptions:added1h >= {THRESHOLD}",
        threshold=5,  # in an hour: one node that is taken now and then is what spot is priced for
        lasting="1m",
        severity="warning",
        summary="pool {{ $labels.pool }} loses its nodes",
        description="{{ $value }} attempts on pool {{ $labels.pool }} were interrupted within an hour.",
        means="Work since the last checkpoint is lost each time, with the time that all nodes of the gang take to "
        "come back.",
        look=(
            "The dashboard *Pools and spot*: kinds of interruptions, lost work, effective price per hour.",
            "`Reclaim` is the provider; `Eviction` is the cluster itself: a drain, an autoscaler, a higher priority.",
        ),
        act=(
            "Effective price above on demand: run on `onDemandCounterpart` for now.",
            "Another zone or instance type; smaller gangs; `spec.checkpoint` for trainings.",
            "Evictions: a PriorityClass for the gangs, or leave the nodes out of consolidation.",
        ),
    ),
    Alert(
        name="GpubenchBudgetNearlySpent",
        template=(
            f"study:gpubench_spent:of_budget_ratio > {THRESHOLD}\n"
            f"unless on ({_BENCHMARK}) {gauge(metrics.CONDITION, *BENCHMARK, condition='Finished')} == 1"
        ),
        threshold=0.9,
        severity="warning",
        summary=f"the budget of {_IT} is nearly spent",
        description=f"{_IT} has spent {{{{ $value | humanizePercentage }}}} of its budget and is not at its end.",
        means="The benchmark will stop before it overspends, perhaps without figures for its last points.",
        look=(
            "`gpubench plan` and the dashboard *One benchmark*: trials that are left, and what one has cost so far.",
        ),
        act=(
            "Raise `limits.budget`: nothing is repeated. Or leave it: what was measured stays.",
            "Much of it lost to interruptions or failures: see those alerts first.",
        ),
    ),
    Alert(
        name="GpubenchPriceStale",
        template=f"{gauge(metrics.POOL_CONDITION, *POOL, condition='PriceStale')} == 1",
        lasting="1h",
        severity="info",
        summary="the price of pool {{ $labels.pool }} is old",
        description="the price of pool {{ $labels.pool }} was read more than 90 days ago.",
        means="Costs, budgets and advice of new benchmarks depend on it.",
        look=("`kubectl get gpool NAME -o yaml`: `spec.price.asOf` and `source`.",),
        act=("Read it again, write it with its `asOf`; finished benchmarks can be re-priced by `gpubench reprice`.",),
    ),
    Alert(
        name="GpubenchScheduleRegressed",
        template=f"{gauge(metrics.SCHEDULE_SLOWER_POINTS, *SCHEDULE)} > 0",
        severity="warning",
        summary=f"what {_SCHEDULED} measures has become slower",
        description=f"Of {{{{ $value }}}} points of {_SCHEDULED} four or more runs are slower than those before.",
        means="Machines, drivers, images or a neighbour make a benchmark slower that did not change. The verdict is "
        "confirmed by several runs: nobody has to wait for another one.",
        look=(
            "`kubectl describe gsched NAME`: status.regressions says since when, by how much and on which nodes.",
            "`gpubench history NAME --out FILE.html`: each point over time, by environment.",
        ),
        act=(
            "`gpubench compare` of a run before and one since: what else is different.",
            "`gpubench schedules accept NAME` where this is the new level.",
        ),
    ),
    Alert(
        name="GpubenchScheduleWithoutSuccess",
        template=f"{gauge(metrics.SCHEDULE_WITHOUT_SUCCESS, *SCHEDULE)} > {THRESHOLD}",
        threshold=3,
        severity="warning",
        summary=f"{_SCHEDULED} has had no run that succeeded for several intervals",
        description=f"{{{{ $value }}}} runs of {_SCHEDULED} were due since one succeeded.",
        means="Nothing is measured: a regression would not be seen.",
        look=("`kubectl describe gsched NAME`: its newest runs and how each ended.",),
        act=("`kubectl describe gbench RUN` of the newest one: it says what it waits for, or why it failed.",),
    ),
    Alert(
        name="GpubenchScheduleCannotJudge",
        template=f"{gauge(metrics.SCHEDULE_KEPT, *SCHEDULE)} >= {THRESHOLD}\n"
        f"and {gauge(metrics.SCHEDULE_NEXT, *SCHEDULE)}\n"
        f"unless {gauge(metrics.SCHEDULE_CONDITION, *SCHEDULE, condition='Regressed')}",
        threshold=30,
        lasting="7d",
        severity="info",
        summary=f"nobody can tell for a week whether what {_SCHEDULED} measures is slower",
        description=f"The condition Regressed of {_SCHEDULED} was Unknown for a week, after {{{{ $value }}}} runs.",
        means="Its runs have no figures, or their environment changes with each of them.",
        look=("`kubectl describe gsched NAME`: the message of the condition Regressed.",),
        act=("Where the image is built anew for each run: `regressions.compareAcross: [imageDigest]`.",),
    ),
    Alert(
        name="GpubenchOperatorDown",
        # In a cluster that had an operator within a day; or nowhere, not even then.
        template=(
            f"max by ({CLUSTER}) (last_over_time({_LEADER}[1d])) * 0\n"
            f"unless max by ({CLUSTER}) ({_LEADER}) == 1\n"
            f"or absent_over_time({_LEADER}[1d])"
        ),
        severity="critical",
        summary="no operator of gpubench leads{{ with $labels.cluster }} in {{ . }}{{ end }}",
        description="no replica holds the Lease, or none is scraped, for five minutes.",
        means="Gangs under way go on and end by their own deadlines; nothing new starts, and no status is written.",
        look=(
            "`kubectl get pods -n gpubench-system` and the log of the operator; its Lease in the same namespace.",
            "Pods well and no series: the ServiceMonitor selects no Service, or a NetworkPolicy is in the way.",
        ),
        act=(
            "It crashes: the last line of its log is a message that says what is wrong.",
            "It cannot reach the API server: see that first; the operator catches up by itself.",
        ),
    ),
    Alert(
        name="GpubenchStraggler",
        template=f"rank:gpubench_worker_compute:behind_ratio > {THRESHOLD}",
        threshold=0.1,  # a rank that is a tenth slower costs its whole gang about that much
        lasting="2m",
        severity="warning",
        summary=f"rank {{{{ $labels.rank }}}} of {_IT} holds its gang up",
        description=(
            "rank {{ $labels.rank }} of trial {{ $labels.trial }} takes {{ $value | humanizePercentage }} longer than "
            f"the others of its gang for its own forward and backward pass ({_IT})."
        ),
        means="A synchronous gang is as fast as its slowest rank: all others wait.",
        look=(
            "The dashboard *Live run*: which rank, its GPU's power, temperature and clock; on which pod and node.",
            "Warnings `Straggler` and `WeakNode` of the benchmark's results.",
        ),
        act=(
            "The same node in several trials: cordon it, and have it looked at (`nvidia-smi -q`, fans, power limit).",
            "A neighbour on the node: `exclusiveNodes`, or fewer other pods there.",
        ),
    ),
)


def groups(*, of_chart: bool = False) -> dict[str, object]:
    """As Prometheus reads them; those of the chart have their threshold apart, for its template."""
    listed = [
        {
            "alert": alert.name,
            **({"threshold": alert.threshold} if of_chart and alert.threshold is not None else {}),
            "expr": Expression(alert.template if of_chart else alert.expr),
            "for": alert.lasting,
            "keep_firing_for": alert.kept,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "description": alert.description,
                "runbook_url": f"{RUNBOOKS}#{alert.name.lower()}",
                "action": " ".join(alert.act),
            },
        }
        for alert in ALERTS
    ]
    return {"groups": [{"name": "gpubench-alerts", "rules": listed}]}


def runbooks() -> str:
    parts = [
        "<!-- Generated from dashboards/gpubench_dashboards/alerts.py by `make generate`; edit that, not this. -->\n",
        "# Runbooks\n",
        "One section for each alert of [`rules/alerts.yaml`](rules/alerts.yaml): its annotation `runbook_url`.\n",
    ]
    for alert in ALERTS:
        parts += [
            f"## {alert.name}\n",
            f"Severity {alert.severity}, after {alert.lasting}. {alert.means}\n",
            f"```promql\n{alert.expr}\n```\n",
            "Look:\n",
            *(f"* {step}" for step in alert.look),
            "\nDo:\n",
            *(f"* {step}" for step in alert.act),
            "",
        ]
    return "\n".join(parts)
