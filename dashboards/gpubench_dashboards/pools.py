# SPDX-License-Identifier: Apache-2.0
"""Pools and spot: what there is, who takes it away, what that costs."""

from gpubench import metrics
from gpubench.metrics import Metric, Unit
from gpubench_dashboards.choosing import MARKS
from gpubench_dashboards.panels import Dashboard, Kind, Panel, Query, Variable
from gpubench_dashboards.queries import STUDY, is_, one

_POOL = Variable(name="pool", label="Pool", metric=metrics.POOL_INFO.name)
_NAMESPACE = Variable(name="namespace", label="Namespace", metric=metrics.TRIALS.name)
_STUDIES = Variable(name="benchmark", label="Study", metric=metrics.TRIALS.name, where='namespace=~"$namespace"')
_WHERE = 'pool=~"$pool"'
_OF_STUDY = f'namespace=~"$namespace", benchmark=~"$benchmark", {_WHERE}'
_NAME = "{{benchmark}} on {{pool}} ({{capacity_type}})"


def _pool(metric: Metric, *more: str) -> str:
    return one(metric, "pool", *more, where=_WHERE)


def _study(metric: Metric, *more: str) -> str:
    return one(metric, *STUDY, "pool", "capacity_type", *more, where=_OF_STUDY)


DASHBOARD = Dashboard(
    uid="gpubench-pools",
    title="gpubench / Pools and spot",
    description="Capacity, interruptions, lost work, and what an hour of measured work costs.",
    variables=(_POOL, _NAMESPACE, _STUDIES),
    marks=MARKS,
    time_from="now-24h",
    panels=(
        Panel(
            title="Pools",
            question="Which pools are there, what have they, and what does a node cost?",
            kind=Kind.TABLE,
            queries=(
                Query(expr=_pool(metrics.POOL_NODES), name="nodes"),
                Query(expr=_pool(metrics.POOL_READY_NODES), name="ready"),
                Query(expr=_pool(metrics.POOL_SLOTS), name="slots"),
                Query(expr=_pool(metrics.POOL_HELD_SLOTS), name="held"),
                Query(expr=_pool(metrics.POOL_PRICE), name="price of a node-hour"),
                Query(expr=f"1000 * {_pool(metrics.POOL_PRICE_READ)}", name="price read"),
                Query(
                    expr=one(metrics.POOL_CONDITION, "pool", where=f"{_WHERE}, {is_('condition', 'PriceStale')}"),
                    name="price is old",
                ),
            ),
            columns=("pool",),
            units=(("price read", Unit.TIME),),
            width=24,
            height=7,
        ),
        Panel(
            title="Capacity",
            question="How many slots are ready, and how many of them do gangs hold?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(expr=_pool(metrics.POOL_SLOTS), name="{{pool}} ready"),
                Query(expr=_pool(metrics.POOL_HELD_SLOTS), name="{{pool}} held"),
            ),
        ),
        Panel(
            title="Studies in line",
            question="Who waits for room, and where?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_pool(metrics.POOL_WAITING), name="{{pool}}"),),
        ),
        Panel(
            title="Interruptions within an hour",
            question="Are nodes being taken away just now?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(expr=f"pool:gpubench_interruptions:added1h{{{_WHERE}}}", name="{{pool}} ({{capacity_type}})"),
            ),
        ),
        Panel(
            title="Interruptions by kind",
            question="Who takes them: the provider, the cluster, or did they vanish?",
            kind=Kind.BARS,
            queries=(Query(expr=f"sum by (kind) ({_study(metrics.INTERRUPTIONS, 'kind')})", name="{{kind}}"),),
        ),
        Panel(
            title="Rate of interruptions",
            question="How often is a node taken in an hour that it is held, and between which bounds (95 %)?",
            kind=Kind.TABLE,
            queries=(
                Query(expr=_study(metrics.INTERRUPTION_RATE), name="per node-hour"),
                Query(expr=_study(metrics.INTERRUPTION_RATE_LOW), name="lower bound"),
                Query(expr=_study(metrics.INTERRUPTION_RATE_HIGH), name="upper bound"),
            ),
            columns=("namespace", "benchmark", "pool", "capacity_type"),
        ),
        Panel(
            title="Where node time went",
            question="How much of what was held was measured work?",
            kind=Kind.BARS,
            queries=(
                Query(expr=f"sum by (pool, use) ({_study(metrics.NODE_SECONDS, 'use')})", name="{{pool}} {{use}}"),
            ),
            unit=Unit.SECONDS,
        ),
        Panel(
            title="Lost work",
            question="What share of the node time came to nothing?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(expr=f"pool:gpubench_node_seconds:wasted_ratio{{{_WHERE}}}", name="{{pool}} ({{capacity_type}})"),
            ),
            unit=Unit.FRACTION,
            most=1.0,
        ),
        Panel(
            title="Goodput",
            question="What share of the node time held was measured work with a result?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_study(metrics.GOODPUT), name=_NAME),),
            unit=Unit.FRACTION,
            most=1.0,
        ),
        Panel(
            title="Effective price",
            question="What does an hour of measured work on a node cost, beside the price of the node?",
            kind=Kind.TIME_SERIES,
            queries=(
                Query(expr=_study(metrics.EFFECTIVE_PRICE, "currency"), name=_NAME + " {{currency}}"),
                Query(expr=_pool(metrics.POOL_PRICE, "currency"), name="price of {{pool}} {{currency}}"),
            ),
            unit=Unit.AMOUNT,
        ),
        Panel(
            title="Recovery",
            question="How long does it take from an interruption to the next step?",
            kind=Kind.TIME_SERIES,
            queries=(Query(expr=_study(metrics.RECOVERY), name=_NAME),),
            unit=Unit.SECONDS,
        ),
    ),
)
