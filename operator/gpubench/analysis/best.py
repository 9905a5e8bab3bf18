# SPDX-License-Identifier: Apache-2.0
"""What `kubectl get` shows of the answer to `spec.objective`: the pool, its cost and its time, from the advice itself.

The sentence of `status.answer` and these figures are of the same advice. Must not happen: a column that names a winner
whose interval overlaps another's, or a gang that nobody has measured, without a word of it.
"""

from collections.abc import Sequence

from gpubench.analysis import costs, text
from gpubench.analysis.advice import Advised
from gpubench.api.benchmark_status import Best, BestShown
from gpubench.api.point_result import AmountInterval
from gpubench.api.status_sizes import BEST_POOL_MAX
from gpubench.scheduler import conditions
from gpubench.values import Interval


def best(found: Sequence[Advised]) -> Best | None:
    """The gang that was advised; None where none was, and of several kinds of work, which are not ranked."""
    if len(found) != 1 or found[0].advice is None or found[0].advice.chosen is None:
        return None
    advice, chosen = found[0].advice, found[0].advice.chosen
    gang, cost = chosen.option.gang, chosen.cost and costs.amounts(chosen.cost)
    predicted = chosen.option.reach is not None
    marks = [
        *(["predicted"] if predicted else []),
        *(["tie"] if advice.tied else []),
        *([] if advice.sure else ["not sure"]),
    ]
    remark = f" ({', '.join(marks)})" if marks else ""
    hours = Interval(**dict(chosen.hours.each(float)))
    return Best(
        pool=gang.line.pool,
        workers=gang.workers,
        setting=gang.line.setting or None,
        predicted=predicted,
        sure=advice.sure,
        tied=len(advice.tied),
        hours=hours,
        cost=cost,
        shown=BestShown(
            pool=conditions.clamped(f"{gang.line.pool}{remark}", BEST_POOL_MAX),
            cost=None if cost is None else text.money(AmountInterval(mean=cost.mean, currency=cost.currency)),
            time=f"{text.bounded(Interval(mean=hours.mean))} h",
        ),
    )
