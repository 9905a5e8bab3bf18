# SPDX-License-Identifier: Apache-2.0
"""Figures that were measured elsewhere are results by the functions of measured ones, and nothing is run for them."""

import pytest

import builders
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import Basis, PointResult, PointState
from gpubench.api.pool import GpuPool
from gpubench.plan import expand
from gpubench.plan.plan import AddedPoint, Imported, ImportedPoint, ImportedRun, Plan
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import Observed
from world import Decision, decide

PRICE = {"per_node_hour": "0.36", "currency": "USD", "as_of": "2026-11-01"}


def runs(*rates: float) -> tuple[ImportedRun, ...]:
    return tuple(ImportedRun(samples_per_second=rate) for rate in rates)


def imported(*points: ImportedPoint, added: tuple[AddedPoint, ...] = ()) -> Imported:
    return Imported(publisher="Somebody", source="a log book", published="2018-05", points=points, added=added)


def plan_of(found: Imported, *pools: GpuPool, workers: tuple[int, ...] = (1, 2)) -> Plan:
    named = pools or (builders.pool(price=PRICE, slots_per_node=4),)
    block = builders.block(pools=[pool.name for pool in named], workers=list(workers))
    return expand.with_measurements(builders.plan(builders.spec(block), *named), found)


def decided(plan: Plan) -> Decision:
    return decide(plan, Ledger(), Observed(study=builders.study(builders.spec())), 1000.0)


def status_of(plan: Plan) -> FullStatus:
    status = decided(plan).status
    assert status is not None
    return status


def results_of(plan: Plan) -> tuple[PointResult, ...]:
    return status_of(plan).results


def test_nothing_is_run_and_the_study_is_over_at_once() -> None:
    plan = plan_of(imported(ImportedPoint(point=0, runs=runs(100, 102, 98))))
    decision = decided(plan)
    assert (plan.trials, decision.create, decision.requeue_at) == ((), (), None)
    status = status_of(plan)
    assert conditions.holds(status.conditions, conditions.FINISHED)
    assert conditions.holds(status.conditions, conditions.SUCCEEDED)
    assert "1 of the measured points is imported" in status.conditions[0].message


def test_a_plan_with_imported_figures_is_read_as_it_was_stored() -> None:
    plan = plan_of(
        imported(ImportedPoint(point=0, runs=runs(100)), ImportedPoint(point=2, runs=runs(50), note="by hand"),
                 added=(AddedPoint(like=0, variant="other"),))
    )  # fmt: skip
    assert Plan.from_text(plan.to_text()) == plan
    assert plan.points[2].key.variant is not None


def test_three_runs_give_an_interval_and_two_none() -> None:
    first, second = results_of(
        plan_of(imported(ImportedPoint(point=0, runs=runs(100, 102, 98)), ImportedPoint(point=1, runs=runs(150, 160))))
    )
    assert first.throughput is not None
    assert first.throughput.low is not None
    assert second.throughput is not None
    assert (second.throughput.low, second.throughput.high, second.values) == (None, None, (150.0, 160.0))
    assert {first.basis, second.basis} == {Basis.IMPORTED}
    (line,) = second.scaling
    assert line.efficiency.mean == pytest.approx(155 / 200)


def test_a_point_that_nobody_published_has_no_figure_and_is_no_failure() -> None:
    first, second = results_of(plan_of(imported(ImportedPoint(point=0, runs=runs(100)))))
    assert (first.state, second.state) == (PointState.MEASURED, PointState.NOT_PUBLISHED)
    assert (second.reason, second.throughput, second.cost) == ("not published", None, None)
    _, without_nodes = plan_of(imported(ImportedPoint(point=0, runs=runs(100))), workers=(1, 64)).points
    assert without_nodes.skip == "64 workers need 16 nodes, and cpu has at most 4"


def test_a_pool_that_is_never_run_is_priced_by_imported_figures() -> None:
    copy = builders.pool(
        "copy", measured_by={"pool": "cpu"}, price={**PRICE, "per_node_hour": "0.72"}, slots_per_node=4
    )
    own = builders.pool(price=PRICE, slots_per_node=4)
    plan = plan_of(imported(ImportedPoint(point=0, runs=runs(100))), own, copy, workers=(1,))
    first, second = results_of(plan)
    assert (second.basis, second.state, second.throughput) == (Basis.REPRICED, PointState.MEASURED, first.throughput)
    assert first.cost is not None
    assert second.cost is not None
    assert first.cost.per_million_samples is not None
    assert second.cost.per_million_samples is not None
    # 0.36 USD an hour for 100 samples/s are 1 USD a million.
    assert (first.cost.per_million_samples.mean, second.cost.per_million_samples.mean) == ("1.000000000", "2.000000000")


def test_an_imported_figure_of_a_pool_that_is_never_run_stands_instead_of_the_derived_one() -> None:
    copy = builders.pool("copy", measured_by={"pool": "cpu"}, slots_per_node=4)
    own = builders.pool(slots_per_node=4)
    found = imported(ImportedPoint(point=0, runs=runs(100)), ImportedPoint(point=1, runs=runs(90)))
    first, second = results_of(plan_of(found, own, copy, workers=(1,)))
    assert (second.basis, second.values) == (Basis.IMPORTED, (90.0,))
    assert first.values == (100.0,)


def test_nothing_is_derived_from_a_figure_that_was_not_published() -> None:
    copy = builders.pool("copy", measured_by={"pool": "cpu"}, slots_per_node=4)
    own = builders.pool(slots_per_node=4)
    found = imported(ImportedPoint(point=1, efficiency="0.9"))
    results = results_of(plan_of(found, own, copy))
    assert {one.state for one in results} == {PointState.NOT_PUBLISHED}
    assert [one.throughput for one in results] == [None] * 4


def test_a_published_efficiency_stands_as_it_is_printed() -> None:
    _, second = results_of(plan_of(imported(ImportedPoint(point=1, efficiency="0.87"))))
    (line,) = second.scaling
    assert (line.efficiency.mean, line.baseline_workers, line.kind) == (0.87, 1, "weak")
    assert second.reason == "not published: only its efficiency"
