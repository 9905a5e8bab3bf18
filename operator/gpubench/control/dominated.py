# SPDX-License-Identifier: Apache-2.0
"""`spec.limits.stopDominated`: repeats of a point are left out once another one is faster and cheaper without doubt.

One point dominates another that does the same work when its whole interval of speed is above the other's, and its whole
interval of cost below. Both need the repeats that an interval takes, and to have settled; what remains of the dominated
point's trials is left out, and its figure stays, with fewer repeats. It is judged anew at each look, from the ledger.

Must not happen: a point without a figure of its own is left out, or leaves out another (a re-priced figure or an
extrapolated one is no measurement of its pool), or one is that is slower or dearer by chance alone.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from gpubench.api.point_result import AmountInterval, Basis, Omission, PointResult, PointState
from gpubench.control import results
from gpubench.control.retries import Standing, TrialStanding
from gpubench.measure import intervals
from gpubench.plan.plan import Plan, Trial
from gpubench.report import tables

_TO_COME = frozenset({Standing.WAITING, Standing.HELD})


class _Figures(NamedTuple):
    """A point's speed and cost, each with its interval. The greater speed is the better one."""

    result: PointResult
    speed_low: float
    speed_high: float
    cost_low: Decimal
    cost_high: Decimal
    currency: str

    def dominates(self, other: "_Figures") -> bool:
        """Whether it is faster and cheaper, each beyond both intervals."""
        comparable = self.currency == other.currency
        return comparable and self.speed_low > other.speed_high and self.cost_high < other.cost_low


def judged(plan: Plan, standings: Mapping[str, TrialStanding], *, wanted: bool) -> dict[str, TrialStanding]:
    """The standings, where that is wanted; trials that wait at a dominated point are not run."""
    found = dict(standings)
    trials = plan.repeats_of_points()
    rivals = [
        points
        for points in _by_work(plan)
        if len(points) > 1 and any(_may_be_left_out(trials[index], standings) for index in points)
    ]
    if not wanted or not rivals:
        return found
    results_found = results.point_results(plan, standings)
    for points in rivals:
        known = {
            index: figures
            for index in points
            if (figures := _figures(results_found[index], [standings[trial.id] for trial in trials[index]])) is not None
        }
        for index, own in known.items():
            better = [other for other in known.values() if other.dominates(own)]
            if better:
                best = max(better, key=lambda other: other.speed_low)
                found |= {
                    trial.id: _left_out(standings[trial.id], best.result)
                    for trial in trials[index]
                    if standings[trial.id].standing in _TO_COME
                }
    return found


def _by_work(plan: Plan) -> list[list[int]]:
    """The points that are run and train the same, on the same data in the same arithmetic: one can replace another."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, point in enumerate(plan.points):
        key = point.key
        if point.basis is Basis.MEASURED:
            groups.setdefault((key.workload, key.custom, key.precision, key.data, key.epochs), []).append(index)
    return list(groups.values())


def _may_be_left_out(trials: Sequence[Trial], standings: Mapping[str, TrialStanding]) -> bool:
    """Whether trials of a point are to come, and it has the repeats that an interval takes."""
    measured = sum(standings[trial.id].standing is Standing.MEASURED for trial in trials)
    to_come = any(standings[trial.id].standing in _TO_COME for trial in trials)
    return to_come and measured >= intervals.REPEATS_FOR_INTERVAL


def _figures(result: PointResult, trials: Sequence[TrialStanding]) -> _Figures | None:
    """Speed and cost of a point that has both with intervals and has settled; of a training those of its run."""
    if result.state in (PointState.SKIPPED, PointState.FAILED) or results.unstable(trials) or result.cost is None:
        return None
    seconds = result.training.seconds if result.training is not None else None
    if seconds is not None and result.cost.per_run is not None:
        # Less time is more speed.
        return _of(result, low=_negated(seconds.high), high=_negated(seconds.low), cost=result.cost.per_run)
    if result.throughput is None or result.cost.per_million_samples is None:
        return None
    return _of(result, low=result.throughput.low, high=result.throughput.high, cost=result.cost.per_million_samples)


def _of(result: PointResult, *, low: float | None, high: float | None, cost: AmountInterval) -> _Figures | None:
    if low is None or high is None or low >= high or cost.low is None or cost.high is None:
        return None  # an interval of no width decides nothing
    return _Figures(result, low, high, Decimal(cost.low), Decimal(cost.high), cost.currency)


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def _left_out(before: TrialStanding, better: PointResult) -> TrialStanding:
    sentence = f"{tables.describe(better)} is faster and cheaper, beyond both intervals"
    return before.model_copy(
        update={
            "standing": Standing.NOT_RUN,
            "state": PointState.NOT_RUN,
            "omission": Omission.DOMINATED,
            "sentence": sentence,
        }
    )
