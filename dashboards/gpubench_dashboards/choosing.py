# SPDX-License-Identifier: Apache-2.0
"""What the reader of several dashboards chooses, the matchers that follow from it, and the marks on the time axes."""

from gpubench import metrics
from gpubench_dashboards.panels import Mark, Variable
from gpubench_dashboards.queries import STUDY, labels

NAMESPACE = Variable(name="namespace", label="Namespace", metric=metrics.TRIALS.name)
BENCHMARKS = Variable(name="benchmark", label="Study", metric=metrics.TRIALS.name, where='namespace=~"$namespace"')
BENCHMARK = BENCHMARKS.model_copy(update={"multiple": False})
OF_STUDY = 'namespace=~"$namespace", benchmark=~"$benchmark"'


def _happened(outcome: str) -> str:
    series = f'{metrics.ATTEMPTS.name}{{{OF_STUDY}, outcome=~"{outcome}"}}'
    added = f"{series} - min_over_time({series}[1m])"
    return f"max by ({labels(*STUDY, 'outcome')}) ({added}) > 0"


#: Attempts on the time axes. An attempt is marked when it has ended; that one runs is in the panels.
MARKS = (
    Mark(
        name="Preempted",
        expr=_happened("preempted|drilled"),
        text="{{benchmark}}: an attempt lost its nodes ({{outcome}})",
        colour="orange",
    ),
    Mark(
        name="Failed",
        expr=_happened("failed|stopped"),
        text="{{benchmark}}: an attempt ended without a result ({{outcome}})",
        colour="red",
    ),
    Mark(name="Measured", expr=_happened("succeeded"), text="{{benchmark}}: an attempt has its result", colour="green"),
    Mark(name="Started", expr=_happened("running"), text="{{benchmark}}: an attempt has begun", colour="blue"),
)
