# SPDX-License-Identifier: Apache-2.0
"""From the ledger to one entry for each point: state, throughput, efficiency, cost, and what a reader must know."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from gpubench.api import benchmark
from gpubench.api.benchmark import (
    AmountInterval,
    Cost,
    Estimate,
    PointResult,
    PointState,
    Scaling,
)
from gpubench.control.conditions import clamped
from gpubench.control.retries import Standing, TrialStanding
from gpubench.measure import efficiency, intervals, throughput
from gpubench.measure.efficiency import MeasuredPoint
from gpubench.measure.intervals import Interval
from gpubench.money import marginal, price
from gpubench.money.marginal import CostInterval
from gpubench.plan.plan import Plan, Point

_COST_MAX = Decimal(10) ** 12  # what the schema takes; the throughput may be as good as zero
_COST_DIGITS = 9  # behind the point: a million samples of a small network cost thousandths of a cent


def point_results(plan: Plan, standings: Mapping[str, TrialStanding]) -> tuple[PointResult, ...]:
    """The results of all points of the plan, in its order. `standings` has one entry for each trial, by id."""
    trials: list[list[TrialStanding]] = [[] for _ in plan.points]
    for trial in sorted(plan.trials, key=lambda trial: trial.repeat):
        trials[trial.point].append(standings[trial.id])
    measured = [_measured(point, of_point) for point, of_point in zip(plan.points, trials, strict=True)]
    among = [entry for entry in measured if entry is not None]
    return tuple(
        _point_result(plan, point, of_point, entry=entry, among=among)
        for point, of_point, entry in zip(plan.points, trials, measured, strict=True)
    )


def point_state(point: Point, trials: Sequence[TrialStanding]) -> tuple[PointState, str | None]:
    """What became of a point, and why where it was not measured. A given-up trial ends its point."""
    if point.skip is not None:
        return PointState.SKIPPED, point.skip
    if any(trial.standing is Standing.RUNNING for trial in trials):
        return PointState.RUNNING, None
    given_up = next((trial for trial in trials if trial.standing is Standing.GIVEN_UP), None)
    some_measured = any(trial.standing is Standing.MEASURED for trial in trials)
    if given_up is not None and not some_measured:
        return given_up.state or PointState.FAILED, given_up.sentence
    if given_up is not None or all(trial.standing is Standing.MEASURED for trial in trials):
        environments = _environments(trials)
        if len(environments) > 1:
            return PointState.FAILED, (
                f"the repeats ran in different environments ({', '.join(environments)}) and are not averaged: "
                "pin the image by digest, or restrict the pool to equal nodes"
            )
        return PointState.MEASURED, None
    return PointState.PENDING, None


def _measured(point: Point, trials: Sequence[TrialStanding]) -> MeasuredPoint | None:
    """The throughputs of the repeats; None when there are none, or when they may not be averaged."""
    environments = _environments(trials)
    if len(environments) != 1:
        return None
    values = tuple(throughput.samples_per_second(trial.result) for trial in trials if trial.result is not None)
    return MeasuredPoint(point=point, values=values, environment=environments[0])


def _environments(trials: Sequence[TrialStanding]) -> tuple[str, ...]:
    """What the repeats stand on: their comparability keys, and the digest of the image that was really run.

    A tag may have been moved to another image while the study ran.
    """
    return tuple(
        sorted(
            {
                f"{trial.measured.result.environment} {trial.measured.image_id or ''}".strip()
                for trial in trials
                if trial.measured is not None and trial.measured.result is not None
            }
        )
    )


def _point_result(
    plan: Plan,
    point: Point,
    trials: Sequence[TrialStanding],
    *,
    entry: MeasuredPoint | None,
    among: Sequence[MeasuredPoint],
) -> PointResult:
    state, reason = point_state(point, trials)
    pool = next((pool.spec for pool in plan.pools if pool.name == point.key.pool), None)
    interval = intervals.of_mean(entry.values) if entry else None
    environments = _environments(trials)
    return PointResult(
        workload=point.key.workload,
        pool=point.key.pool,
        accelerator=pool.accelerator if pool else None,
        capacity_type=pool.capacity_type if pool else None,
        workers=point.key.workers,
        workers_per_node=point.key.workers_per_node,
        batch_per_worker=point.key.batch_per_worker,
        global_batch=point.key.global_batch,
        precision=point.key.precision.value,
        state=state,
        reason=clamped(reason, benchmark.REASON_MAX) if reason else None,
        values=entry.values if entry else (),
        throughput=_estimate(interval) if interval else None,
        scaling=tuple(
            Scaling(kind=found.kind, baseline_workers=found.baseline_workers, efficiency=_estimate(found.interval))
            for found in (efficiency.efficiencies(entry, among) if entry else ())
        ),
        cost=_cost(plan, point, interval) if interval else None,
        nodes=len({node for trial in trials if trial.measured for node in trial.measured.nodes}),
        environment=environments[0].split()[0] if len(environments) == 1 else None,
        warnings=_warnings(plan, point, trials, entry, among),
    )


def _warnings(
    plan: Plan,
    point: Point,
    trials: Sequence[TrialStanding],
    entry: MeasuredPoint | None,
    among: Sequence[MeasuredPoint],
) -> tuple[str, ...]:
    found: list[str] = []
    if entry is not None and (without := price.without_exchange(plan, point.key.pool)):
        found.append(without)
    given_up = [trial for trial in trials if trial.standing is Standing.GIVEN_UP]
    measured = sum(trial.standing is Standing.MEASURED for trial in trials)
    if given_up and measured:
        found.append(f"only {measured} of {len(trials)} repeats were measured: {given_up[0].sentence}")
    if entry is not None and any(other.environment != entry.environment for other in efficiency.lines(entry, among)):
        found.append(
            "other worker counts of this line ran in another environment, and efficiency is not computed across "
            "environments: restrict the pool to equal nodes"
        )
    return tuple(clamped(text, benchmark.WARNING_MAX) for text in found)


def _estimate(interval: Interval) -> Estimate:
    return Estimate(mean=interval.mean, low=interval.low, high=interval.high)


def _cost(plan: Plan, point: Point, interval: Interval) -> Cost | None:
    pool = plan.pool(point.key.pool).spec
    rate = price.planned_rate(plan, point.key.pool)
    if rate is None:
        return None
    # An exclusive node is paid for as a whole, however many of its slots work.
    nodes = Decimal(point.nodes) if pool.exclusive_nodes else Decimal(point.key.workers) / pool.slots_per_node
    amounts = _amounts(marginal.per_million_samples(rate, nodes=nodes, throughput=interval))
    return None if amounts is None else Cost(per_million_samples=amounts)


def _amounts(cost: CostInterval) -> AmountInterval | None:
    """The amounts as status holds them: a bound that does not fit is left open, with a mean that does not, no cost."""

    def text(amount: Decimal | None) -> str | None:
        return None if amount is None or amount >= _COST_MAX else f"{price.rounded(amount, digits=_COST_DIGITS):f}"

    mean = text(cost.mean)
    if mean is None:
        return None
    return AmountInterval(mean=mean, low=text(cost.low), high=text(cost.high), currency=cost.currency)
