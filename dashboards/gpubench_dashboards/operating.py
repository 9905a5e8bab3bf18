# SPDX-License-Identifier: Apache-2.0
"""The operator itself."""

from gpubench import metrics
from gpubench.metrics import Unit
from gpubench_dashboards.panels import Dashboard, Kind, Panel, Query
from gpubench_dashboards.queries import STUDY, is_, labels, one

_RUNNING = is_("state", "running")
_RECONCILE = metrics.RECONCILE_SECONDS.name


def _rate(series: str, *by: str) -> str:
    return f"sum by ({labels(*by)}) (rate({series}[$__rate_interval]))"


DASHBOARD = Dashboard(
    uid="gpubench-operator",
    title="gpubench / Operator",
    description="Whether the operator leads, keeps up, and gets answers.",
    panels=(
        Panel(
            title="Leaders",
            question="Does exactly one replica lead?",
            kind=Kind.STAT,
            queries=(Query(expr=f"sum({metrics.LEADER.name})", name="leading"),),
            width=6,
            height=4,
        ),
        Panel(
            title="Version",
            question="What runs?",
            kind=Kind.STAT,
            queries=(
                Query(
                    expr=f"count by (version, python) ({metrics.OPERATOR.name})",
                    name="{{version}}, Python {{python}}",
                ),
            ),
            width=6,
            height=4,
        ),
        Panel(
            title="Failed reconciles in the last hour",
            question="Is something wrong that it tries again and again?",
            kind=Kind.STAT,
            queries=(
                Query(
                    expr=f"sum(increase({metrics.RECONCILES.name}{{{is_('outcome', 'failed')}}}[1h]))", name="failed"
                ),
            ),
            width=6,
            height=4,
        ),
        Panel(
            title="Studies",
            question="How much has it to look after?",
            kind=Kind.STAT,
            queries=(
                Query(expr=f"count({one(metrics.CONDITION, *STUDY)})", name="in all"),
                Query(expr=f"sum({one(metrics.TRIALS, *STUDY, where=_RUNNING)})", name="trials running"),
            ),
            width=6,
            height=4,
        ),
        Panel(
            title="Reconciles by outcome",
            question="How much does it work, and how much of it goes wrong?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_rate(metrics.RECONCILES.name, "outcome"), name="{{outcome}}"),),
        ),
        Panel(
            title="Duration of a reconcile",
            question="How long does a look at a study take?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(expr=f"histogram_quantile(0.5, {_rate(_RECONCILE + '_bucket', 'le')})", name="median"),
                Query(expr="operator:gpubench_operator_reconcile_seconds:p95", name="95 of 100"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Queue",
            question="Does it keep up?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=f"max({metrics.QUEUE_DEPTH.name})", name="keys that wait"),),
        ),
        Panel(
            title="Calls to the API server",
            question="What does it ask of the API server?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_rate(metrics.API_REQUESTS.name, "verb", "resource"), name="{{verb}} {{resource}}"),),
            stacked=True,
        ),
        Panel(
            title="Answers of the API server",
            question="Is it refused or throttled (4xx), or is the API server unwell (5xx, error)?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_rate(metrics.API_REQUESTS.name, "code"), name="{{code}}"),),
            stacked=True,
        ),
    ),
)
