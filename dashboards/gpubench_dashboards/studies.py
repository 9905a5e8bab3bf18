# SPDX-License-Identifier: Apache-2.0
"""All benchmarks at a glance."""

from gpubench import metrics
from gpubench.metrics import Metric, Unit
from gpubench_dashboards.choosing import BENCHMARKS, MARKS, NAMESPACE, OF_STUDY
from gpubench_dashboards.panels import Dashboard, Kind, Panel, Query
from gpubench_dashboards.queries import POINT, SHOWN, STUDY, is_, labels, one

_LINK = (
    "/d/gpubench-study?var-namespace=${__data.fields.namespace}&var-benchmark=${__data.fields.benchmark}"
    "&${__url_time_range}"
)


_SCHEDULE = ("namespace", "schedule")
_OF_SCHEDULE = 'namespace=~"$namespace"'


def _schedule(metric: Metric, *more: str, where: str = _OF_SCHEDULE) -> str:
    return one(metric, *_SCHEDULE, *more, where=where)


def _of(metric: Metric, label: str, value: str) -> str:
    """One value of a label, of each study."""
    return one(metric, *STUDY, where=f"{OF_STUDY}, {is_(label, value)}")


DASHBOARD = Dashboard(
    uid="gpubench-studies",
    title="gpubench / Studies",
    description="All benchmarks at a glance: how far they are, what they cost, what they found; and schedules.",
    variables=(NAMESPACE, BENCHMARKS),
    marks=MARKS,
    time_from="now-24h",
    panels=(
        Panel(
            title="Studies",
            question="How many studies are there, how many have finished, and how many of those well?",
            kind=Kind.STAT,
            queries=(
                Query(expr=f"count({_of(metrics.CONDITION, 'condition', 'Finished')})", name="in all"),
                Query(expr=f"sum({_of(metrics.CONDITION, 'condition', 'Finished')})", name="finished"),
                Query(expr=f"sum({_of(metrics.CONDITION, 'condition', 'Succeeded')})", name="succeeded"),
            ),
            width=12,
            height=4,
        ),
        Panel(
            title="Trials",
            question="How much is under way, and how much waits for room?",
            kind=Kind.STAT,
            queries=tuple(
                Query(expr=f"sum({_of(metrics.TRIALS, 'state', state)})", name=state)
                for state in ("running", "waiting", "finished")
            ),
            width=12,
            height=4,
        ),
        Panel(
            title="All studies",
            question="How far is each study, what has gone wrong in it, and what has it spent? A click leads to it.",
            kind=Kind.TABLE,
            queries=(
                Query(expr=f"study:gpubench_trials:finished_ratio{{{OF_STUDY}}}", name="done"),
                Query(expr=_of(metrics.TRIALS, "state", "running"), name="running"),
                Query(expr=_of(metrics.POINTS, "state", "Measured"), name="points measured"),
                Query(expr=_of(metrics.POINTS, "state", "Failed"), name="points failed"),
                Query(expr=_of(metrics.ATTEMPTS, "outcome", "failed"), name="attempts failed"),
                Query(expr=_of(metrics.ATTEMPTS, "outcome", "preempted"), name="preempted"),
                Query(expr=one(metrics.SPENT, *STUDY, "currency", where=OF_STUDY), name="spent"),
                Query(expr=one(metrics.BUDGET, *STUDY, "currency", where=OF_STUDY), name="budget"),
                Query(expr=f"1000 * {one(metrics.STARTED, *STUDY, where=OF_STUDY)}", name="started"),
            ),
            columns=("currency", "namespace", "benchmark"),
            units=(("done", Unit.FRACTION), ("started", Unit.TIME)),
            link=_LINK,
            width=24,
            height=10,
        ),
        Panel(
            title="Progress",
            question="Which studies get on, and which stand still?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(expr=f"study:gpubench_trials:finished_ratio{{{OF_STUDY}}}", name="{{namespace}}/{{benchmark}}"),
            ),
            unit=Unit.FRACTION,
            most=1.0,
        ),
        Panel(
            title="Attempts by how they ended",
            question="Do attempts come to results, or are they lost to failures and preemptions?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(
                    expr=f"sum by (outcome) ({one(metrics.ATTEMPTS, *STUDY, 'outcome', where=OF_STUDY)})",
                    name="{{outcome}}",
                ),
            ),
            stacked=True,
        ),
        Panel(
            title="Spent",
            question="What does each study cost so far, failed and preempted attempts included?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(
                    expr=one(metrics.SPENT, *STUDY, "currency", where=OF_STUDY),
                    name="{{namespace}}/{{benchmark}} {{currency}}",
                ),
            ),
            unit=Unit.AMOUNT,
        ),
        Panel(
            title="Cheapest points",
            question="Where do a million samples cost least? Compare within one workload.",
            kind=Kind.BARS,
            queries=(
                Query(
                    expr=(
                        f"bottomk(15, min by ({labels(*SHOWN, 'currency', 'basis')}) "
                        f"({metrics.COST.name}{{{OF_STUDY}}}))"
                    ),
                    name="{{workload}} {{pool}} x{{workers}} {{precision}} {{variant}} {{basis}} {{currency}}",
                ),
            ),
            unit=Unit.AMOUNT,
        ),
        Panel(
            title="Fastest points",
            question="Which pool and gang trains fastest? Compare within one workload.",
            kind=Kind.BARS,
            queries=(
                Query(
                    expr=(
                        f"topk(15, max by ({labels(*SHOWN)}) "
                        f"(point:gpubench_throughput_samples_per_second:max{{{OF_STUDY}}}))"
                    ),
                    name="{{workload}} {{pool}} x{{workers}} {{precision}} {{variant}}",
                ),
            ),
            unit=Unit.SAMPLES_PER_SECOND,
        ),
        Panel(
            title="Warnings",
            question="What must a reader of the figures know: weak nodes, stragglers, drift?",
            kind=Kind.BARS,
            queries=(
                Query(
                    expr=(
                        f"sum by (reason) ({one(metrics.WARNINGS, *POINT, 'reason', where=OF_STUDY)}) "
                        'or label_replace(vector(0), "reason", "none", "", "")'
                    ),
                    name="{{reason}}",
                ),
            ),
        ),
        Panel(
            title="Schedules",
            question="Which studies run again and again, when next, is one slower now, and what does a month cost?",
            kind=Kind.TABLE,
            queries=(
                Query(expr=_schedule(metrics.SCHEDULE_ACTIVE), name="runs under way"),
                Query(expr=f"1000 * {_schedule(metrics.SCHEDULE_LAST)}", name="newest run"),
                Query(expr=f"1000 * {_schedule(metrics.SCHEDULE_NEXT)}", name="next run"),
                Query(
                    expr=_schedule(
                        metrics.SCHEDULE_CONDITION, where=f"{_OF_SCHEDULE}, {is_('condition', 'Regressed')}"
                    ),
                    name="regressed",
                ),
                Query(expr=_schedule(metrics.SCHEDULE_SLOWER_POINTS), name="slower points"),
                Query(expr=_schedule(metrics.SCHEDULE_SLOW_NODES), name="slow nodes"),
                Query(expr=_schedule(metrics.SCHEDULE_MONTHLY, "currency"), name="a month"),
            ),
            columns=("currency", "namespace", "schedule"),
            units=(("newest run", Unit.TIME), ("next run", Unit.TIME)),
            width=24,
            height=6,
        ),
        Panel(
            title="Slower points of schedules",
            question="Since when is something slower than it was?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_schedule(metrics.SCHEDULE_SLOWER_POINTS), name="{{namespace}}/{{schedule}}"),),
        ),
        Panel(
            title="Schedules by the month",
            question="What does each schedule cost a month if it goes on like this?",
            kind=Kind.BARS,
            queries=(
                Query(
                    expr=_schedule(metrics.SCHEDULE_MONTHLY, "currency"), name="{{namespace}}/{{schedule}} {{currency}}"
                ),
            ),
            unit=Unit.AMOUNT,
        ),
    ),
)
