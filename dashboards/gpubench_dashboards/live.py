# SPDX-License-Identifier: Apache-2.0
"""A run while it runs: each rank's step, who holds the others up, and what GPUs and processors do."""

from gpubench import metrics
from gpubench.metrics import Metric, Unit
from gpubench_dashboards.choosing import BENCHMARK, MARKS, NAMESPACE, OF_STUDY
from gpubench_dashboards.panels import Dashboard, Kind, Panel, Query, Variable
from gpubench_dashboards.queries import GANG, RANK, labels, one

_TRIAL = Variable(name="trial", label="Trial", metric=metrics.WORKER_SAMPLES.name, where=OF_STUDY)
_OF_TRIAL = f'{OF_STUDY}, trial=~"$trial"'
_NAME = "{{trial}}.{{attempt}} rank {{rank}}"
_STEP = metrics.WORKER_STEP.name


def _rank(metric: Metric) -> str:
    return one(metric, *RANK, where=_OF_TRIAL)


def _rate(series: str, *by: str) -> str:
    return f"sum by ({labels(*by)}) (rate({series}{{{_OF_TRIAL}}}[$__rate_interval]))"


def _over_time(title: str, question: str, metric: Metric, *, needs_gpu: bool = False) -> Panel:
    """A gauge of each rank."""
    return Panel(
        title=title,
        question=question,
        kind=Kind.TIME_SERIES,
        queries=(Query(expr=_rank(metric), name=_NAME),),
        unit=metric.unit,
        most=1.0 if metric.unit is Unit.FRACTION else None,
        width=8,
        needs_gpu=needs_gpu,
    )


DASHBOARD = Dashboard(
    uid="gpubench-live",
    title="gpubench / Live run",
    description="Ranks while they train; their series go with their pods, and the figures that count are in the study.",
    variables=(NAMESPACE, BENCHMARK, _TRIAL),
    marks=MARKS,
    time_from="now-1h",
    refresh="10s",
    panels=(
        Panel(
            title="Throughput of the gang",
            question="How fast does it train now?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_rate(metrics.WORKER_SAMPLES.name, *GANG), name="{{trial}}.{{attempt}}"),),
            unit=Unit.SAMPLES_PER_SECOND,
        ),
        Panel(
            title="Step time by rank",
            question="How long does a step take? All ranks wait for the slowest: who that is, the next panels tell.",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=f"{_rate(_STEP + '_sum', *RANK)} / {_rate(_STEP + '_count', *RANK)}", name=_NAME),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Step time, median and slowest",
            question="Are some steps much longer than others?",
            kind=Kind.TIME_SERIES,
            queries=tuple(
                Query(
                    expr=f"histogram_quantile({share}, {_rate(_STEP + '_bucket', *GANG, 'le')})",
                    name=f"{{{{trial}}}}.{{{{attempt}}}} {called}",
                )
                for share, called in ((0.5, "median"), (0.99, "99 of 100"))
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Own computing by rank",
            question="How long does each rank compute by itself, without the others?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_rank(metrics.WORKER_COMPUTE), name=_NAME),),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Stragglers",
            question="Which rank holds the others up, and by how much?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=f"rank:gpubench_worker_compute:behind_ratio{{{_OF_TRIAL}}}", name=_NAME),),
            unit=Unit.FRACTION,
            below_zero=True,
        ),
        Panel(
            title="Share of the all-reduce",
            question="What of a step is not the rank's own computing: all-reduce, waiting, the update?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=f"rank:gpubench_worker_allreduce:step_ratio{{{_OF_TRIAL}}}", name=_NAME),),
            unit=Unit.FRACTION,
            most=1.0,
        ),
        _over_time("Loss", "Does it learn, and does it stay finite?", metrics.WORKER_LOSS),
        _over_time("Processors", "Do the ranks' processors limit them?", metrics.WORKER_PROCESSORS),
        _over_time("Memory", "Does a rank come near its limit?", metrics.WORKER_MEMORY),
        _over_time("GPU utilisation", "Do the GPUs wait?", metrics.WORKER_GPU, needs_gpu=True),
        _over_time("GPU power", "What do the GPUs draw, and is one held back?", metrics.WORKER_POWER, needs_gpu=True),
        _over_time("GPU memory", "How full are the GPUs?", metrics.WORKER_GPU_MEMORY, needs_gpu=True),
        _over_time("GPU temperature", "Does one get too hot?", metrics.WORKER_TEMPERATURE, needs_gpu=True),
    ),
)
