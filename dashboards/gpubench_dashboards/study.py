# SPDX-License-Identifier: Apache-2.0
"""One study: what it found, how certain that is, what it costs, and what became of its attempts."""

from gpubench import metrics
from gpubench.metrics import Metric, Unit
from gpubench_dashboards.choosing import BENCHMARK, MARKS, NAMESPACE, OF_STUDY
from gpubench_dashboards.panels import Dashboard, Kind, Panel, Query, Variable
from gpubench_dashboards.queries import POINT, STUDY, is_, one

_WORKLOAD = Variable(name="workload", label="Workload", metric=metrics.POINT_WORKERS.name, where=OF_STUDY)
_POOL = Variable(name="pool", label="Pool", metric=metrics.POINT_WORKERS.name, where=OF_STUDY)
_BATCH = Variable(name="batch_per_worker", label="Batch per worker", metric=metrics.POINT_WORKERS.name, where=OF_STUDY)
_OF_POINT = f'{OF_STUDY}, workload=~"$workload", pool=~"$pool", batch_per_worker=~"$batch_per_worker"'
_NAME = "{{workload}} {{pool}} x{{workers}} batch {{batch_per_worker}} {{precision}} {{variant}}"
_LINE = ("scaling", "baseline_workers", "baseline_pool")


def _point(metric: Metric, *more: str) -> str:
    return one(metric, *POINT, *more, where=_OF_POINT)


def _of_points(metric: Metric) -> str:
    """Only of points that have such a figure: a row without one would be a gap in the line."""
    return f"{_point(metrics.POINT_WORKERS)} and on ({', '.join(POINT)}) {_point(metric)}"


def _study(metric: Metric, *more: str) -> str:
    return one(metric, *STUDY, *more, where=OF_STUDY)


def _line(metric: Metric) -> str:
    """On the weak line: a point may lie on a strong one, too."""
    return one(metric, *POINT, where=f"{_OF_POINT}, {is_('scaling', 'weak')}")


DASHBOARD = Dashboard(
    uid="gpubench-study",
    title="gpubench / One study",
    description="Throughput and efficiency with their bounds, cost, frontier, attempts, and what the answer stands on.",
    variables=(NAMESPACE, BENCHMARK, _WORKLOAD, _POOL, _BATCH),
    marks=MARKS,
    time_from="now-24h",
    panels=(
        Panel(
            title="Done",
            question="How far is it?",
            kind=Kind.STAT,
            queries=(Query(expr=f"study:gpubench_trials:finished_ratio{{{OF_STUDY}}}", name="of the trials"),),
            unit=Unit.FRACTION,
            width=4,
            height=4,
        ),
        Panel(
            title="Since",
            question="How long has it run, or did it run?",
            kind=Kind.STAT,
            queries=(
                Query(
                    expr=f"({_study(metrics.FINISHED)} or ({_study(metrics.STARTED)} * 0 + time())) "
                    f"- {_study(metrics.STARTED)}",
                    name="duration",
                ),
            ),
            unit=Unit.SECONDS,
            width=4,
            height=4,
        ),
        Panel(
            title="Spent",
            question="What has it cost so far, and what may it cost?",
            kind=Kind.STAT,
            queries=(
                Query(expr=_study(metrics.SPENT, "currency"), name="{{currency}} spent"),
                Query(expr=_study(metrics.BUDGET, "currency"), name="{{currency}} budget"),
            ),
            unit=Unit.AMOUNT,
            width=8,
            height=4,
        ),
        Panel(
            title="Attempts",
            question="How many attempts did the figures take?",
            kind=Kind.STAT,
            queries=(Query(expr=_study(metrics.ATTEMPTS, "outcome"), name="{{outcome}}"),),
            width=8,
            height=4,
        ),
        Panel(
            title="Throughput over workers",
            question=(
                "How much faster is it with more workers, and between which bounds (95 %) does that lie? "
                "Choose one workload, pool and batch."
            ),
            kind=Kind.TREND,
            queries=(
                Query(expr=_of_points(metrics.THROUGHPUT), name="workers"),
                Query(expr=_point(metrics.THROUGHPUT), name="samples/s"),
                Query(expr=_point(metrics.THROUGHPUT_LOW), name="lower bound"),
                Query(expr=_point(metrics.THROUGHPUT_HIGH), name="upper bound"),
            ),
            unit=Unit.SAMPLES_PER_SECOND,
            columns=("workers",),
        ),
        Panel(
            title="Scaling efficiency over workers",
            question=(
                "What of each further worker arrives (weak scaling), between which bounds (95 %)? The last line is "
                "derived from throughputs in Prometheus and must lie on the first."
            ),
            kind=Kind.TREND,
            queries=(
                Query(expr=_of_points(metrics.EFFICIENCY), name="workers"),
                Query(expr=_line(metrics.EFFICIENCY), name="efficiency"),
                Query(expr=_line(metrics.EFFICIENCY_LOW), name="lower bound"),
                Query(expr=_line(metrics.EFFICIENCY_HIGH), name="upper bound"),
                Query(
                    expr=(
                        f"max by ({', '.join(POINT)}) (point:gpubench_scaling_efficiency_ratio:derived"
                        f"{{{_OF_POINT}, {is_('scaling', 'weak')}}})"
                    ),
                    name="derived",
                ),
            ),
            unit=Unit.FRACTION,
            columns=("workers",),
            units=(("workers", Unit.NUMBER),),
        ),
        Panel(
            title="Cost of a million samples",
            question="Where is training cheapest? Marginal cost: rate over throughput, no billing rule.",
            kind=Kind.BARS,
            queries=(Query(expr=_point(metrics.COST, "basis", "currency"), name=_NAME + " {{basis}} {{currency}}"),),
            unit=Unit.AMOUNT,
        ),
        Panel(
            title="Frontier: time and cost of the goal",
            question="What does it cost to be done sooner? A point that lies above and right of another is no choice.",
            kind=Kind.TREND,
            queries=(
                Query(expr=_point(metrics.GOAL, "goal"), name="time"),
                Query(expr=_point(metrics.GOAL_COST, "goal", "currency"), name="cost"),
                Query(expr=_point(metrics.GOAL_COST_LOW, "goal", "currency"), name="lower bound"),
            ),
            unit=Unit.AMOUNT,
            columns=("time",),
            units=(("time", Unit.SECONDS),),
        ),
        Panel(
            title="What the answer stands on",
            question="Which point reaches the goal how soon, for how much, and how fast is it?",
            kind=Kind.TABLE,
            queries=(
                Query(expr=_point(metrics.THROUGHPUT), name="samples/s"),
                Query(expr=_line(metrics.EFFICIENCY), name="efficiency"),
                Query(expr=_point(metrics.COST), name="cost of a million"),
                Query(expr=_point(metrics.GOAL), name="goal"),
                Query(expr=_point(metrics.GOAL_COST), name="cost of the goal"),
                Query(expr=_point(metrics.RELATIVE_THROUGHPUT), name="times the baseline"),
            ),
            columns=(
                "workload",
                "pool",
                "accelerator",
                "capacity_type",
                "workers",
                "batch_per_worker",
                "precision",
                "variant",
            ),
            units=(("efficiency", Unit.FRACTION), ("goal", Unit.SECONDS)),
            width=24,
            height=9,
        ),
        Panel(
            title="Advice",
            question="What does the study advise for its objective, and how sure is it?",
            kind=Kind.TABLE,
            queries=(
                Query(
                    expr=_study(metrics.BEST, "pool", "workers", "setting", "predicted", "sure", "tied"),
                    name="advised",
                ),
            ),
            columns=("pool", "workers", "setting", "predicted", "sure", "tied"),
            height=6,
        ),
        Panel(
            title="Beside the baseline",
            question="Do the points keep up with those of spec.compareTo?",
            kind=Kind.STAT,
            queries=(Query(expr=_study(metrics.COMPARISON, "verdict"), name="{{verdict}}"),),
            height=6,
        ),
        Panel(
            title="Bill",
            question="What was paid for: measured work, start-up, waiting, lost attempts, rounding, fees?",
            kind=Kind.BARS,
            queries=(
                Query(
                    expr=f"sum by (part, currency) ({_point(metrics.BILLED, 'part', 'currency')})",
                    name="{{part}} {{currency}}",
                ),
            ),
            unit=Unit.AMOUNT,
        ),
        Panel(
            title="Attempts by how they ended",
            question="When did attempts end well, fail, or lose their nodes?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_study(metrics.ATTEMPTS, "outcome"), name="{{outcome}}"),),
            stacked=True,
        ),
        Panel(
            title="Environment",
            question="On what do the figures stand?",
            kind=Kind.TABLE,
            queries=(
                Query(
                    expr=_study(
                        metrics.ENVIRONMENT, *(name for name in metrics.ENVIRONMENT.labels if name not in STUDY)
                    ),
                    name="seen",
                ),
            ),
            columns=tuple(name for name in metrics.ENVIRONMENT.labels if name not in STUDY),
            width=24,
            height=6,
        ),
        Panel(
            title="GPUs while they were measured",
            question="Were the GPUs busy, at which power, and did they throttle?",
            kind=Kind.TABLE,
            queries=(
                Query(expr=_point(metrics.GPU_UTILIZATION), name="utilisation"),
                Query(expr=_point(metrics.GPU_MEMORY), name="memory peak"),
                Query(expr=_point(metrics.GPU_POWER), name="power"),
                Query(expr=_point(metrics.GPU_THROTTLED), name="throttled"),
                Query(expr=_point(metrics.ENERGY), name="energy of a million samples"),
            ),
            columns=("workload", "pool", "accelerator", "workers", "batch_per_worker", "precision", "variant"),
            units=(
                ("utilisation", Unit.FRACTION),
                ("memory peak", Unit.BYTES),
                ("power", Unit.WATTS),
                ("throttled", Unit.FRACTION),
                ("energy of a million samples", Unit.JOULES),
            ),
            width=24,
            needs_gpu=True,
        ),
    ),
)
