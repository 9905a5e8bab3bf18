# SPDX-License-Identifier: Apache-2.0
"""Points that are never run have another point's figures, at their own price, and are never mistaken for measured."""

from collections.abc import Mapping
from typing import Any

import pytest

import builders
from gpubench.analysis import status
from gpubench.api.benchmark_status import FullStatus, PointSummary
from gpubench.api.point_result import Basis, PointResult, PointState
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Plan, PointKey
from gpubench.records import Unsettled
from world import Fate, World, world

PRICE = {"currency": "USD", "as_of": "2023-11-01"}
FOUR: dict[str, Any] = {"slots_per_node": 4}


def derived_pool(name: str = "copy", **spec: Any) -> GpuPool:
    measured_by = {"pool": "cpu"} | spec.pop("measured_by", {})
    return builders.pool(name, measured_by=measured_by, price={"per_node_hour": "0.72", **PRICE}, **FOUR | spec)


def at_rates(plan: Plan, rates: Mapping[PointKey, float], *, out_of_memory: frozenset[PointKey] = frozenset()) -> Fate:
    """Every trial ends with the rate of its point."""
    keys = {trial.id: plan.points[trial.point].key for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        if keys[trial] in out_of_memory:
            return 66, builders.message(
                builders.failure(trial=trial, attempt=attempt, exit_code=66, sentence="too big")
            )
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rates[keys[trial]]))

    return fate


def study_of(*blocks: dict[str, Any], pools: tuple[GpuPool, ...], repeats: int = 3, **fields: Any) -> World:
    spec = builders.spec(*blocks, measure={"repeats": {"min": repeats}}, limits={"parallelTrials": 64}, **fields)
    return world(builders.study(spec), builders.plan(spec, *pools))


def found_at(status: FullStatus, pool: str, workers: int = 1) -> PointResult:
    (found,) = [result for result in status.results if (result.pool, result.workers) == (pool, workers)]
    return found


def repriced() -> World:
    block = builders.block(pools=["cpu", "copy"], workers=[1, 2])
    return study_of(block, pools=(builders.pool(**FOUR), derived_pool()))


def test_a_repriced_point_has_the_sources_figures_at_its_own_price_and_nothing_of_it_was_run() -> None:
    here = repriced()
    status = here.run()
    assert status.phase == "Succeeded"
    source, copy = found_at(status, "cpu", 2), found_at(status, "copy", 2)
    assert (copy.basis, copy.state) == (Basis.REPRICED, PointState.MEASURED)
    assert (copy.throughput, copy.environment) == (source.throughput, source.environment)
    assert (copy.values, copy.scaling, copy.nodes) == ((), (), 0)
    assert builders.messages(copy) == ("re-priced from cpu, 2 workers: not run here",)
    assert source.cost is not None
    assert source.cost.per_million_samples is not None
    assert copy.cost is not None
    assert copy.cost.per_million_samples is not None
    assert float(copy.cost.per_million_samples.mean) == pytest.approx(
        2 * float(source.cost.per_million_samples.mean), rel=1e-6
    )
    assert all("copy" not in name for name in here.created)
    assert len(here.created) == 6


def test_a_derived_point_waits_for_its_source_and_keeps_no_study_open() -> None:
    here = repriced()
    before = here.decide().status
    assert [result.state for result in before.results if result.pool == "copy"] == [PointState.PENDING] * 2
    after = here.run()
    assert after.points is not None
    assert (after.points.measured, after.points_done) == (4, "4/4")
    assert "2 of the measured points are derived" in after.conditions[0].message


def test_while_an_analysis_is_made_points_that_stand_for_others_are_as_they_were() -> None:
    here = repriced()
    here.run()
    decision = here.decide()

    def counted(known: tuple[PointSummary, ...]) -> int:
        study = here.study.model_copy(update={"status": decision.short.model_copy(update={"results": known})})
        found = status.status(study, here.plan, decision.step, None, now=here.now).points
        assert found is not None
        return found.measured

    assert counted(decision.short.results) == 4
    assert counted(()) == 2
    assert counted(decision.short.results[:3]) == 2, "of another plan"


def test_a_repriced_training_has_the_sources_seconds_and_its_own_cost_of_a_run() -> None:
    here = repriced()

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, training=builders.training()))

    here.fate = fate
    status = here.run()
    source, copy = found_at(status, "cpu"), found_at(status, "copy")
    assert copy.training == source.training
    assert copy.cost is not None
    assert copy.cost.per_run is not None
    assert float(copy.cost.per_run.mean) == pytest.approx(38 * 0.72 / 3600)


def test_a_source_that_did_not_fit_says_so_at_the_point_that_it_stands_for() -> None:
    here = repriced()
    keys = [point.key for point in here.plan.points]
    here.fate = at_rates(
        here.plan, dict.fromkeys(keys, 1000.0), out_of_memory=frozenset(key for key in keys if key.workers == 2)
    )
    copy = found_at(here.run(), "copy", 2)
    assert (copy.state, copy.throughput) == (PointState.OUT_OF_MEMORY, None)
    assert (copy.reason or "").startswith("its figures would come from mnist_cnn on cpu, 2 workers")


def test_a_missing_exchange_rate_is_told_of_the_pool_whose_price_it_is() -> None:
    euros = {"per_node_hour": "0.36", **PRICE, "currency": "EUR"}
    block = builders.block(pools=["cpu", "copy"], workers=[1])
    priced = study_of(block, pools=(builders.pool(**FOUR, price=euros), derived_pool()), currency="USD").run()
    source, copy = found_at(priced, "cpu"), found_at(priced, "copy")
    assert ["no cost: the price of cpu is in EUR" in text for text in builders.messages(source)] == [True]
    assert builders.messages(copy) == ("re-priced from cpu, 1 worker: not run here",)
    assert copy.cost is not None
    other = study_of(
        block,
        pools=(builders.pool(**FOUR), builders.pool("copy", measured_by={"pool": "cpu"}, price=euros, **FOUR)),
        currency="USD",
    ).run()
    assert builders.messages(found_at(other, "cpu")) == ()
    assert "no cost: the price of copy is in EUR" in builders.messages(found_at(other, "copy"))[0]


def extrapolated(workers: list[int]) -> World:
    """One slot of cpu stands for four of copy; the efficiency is that of cpu on several workers."""
    return study_of(
        builders.block(pools=["cpu"], workers=workers),
        builders.block(pools=["copy"], workers=[4]),
        pools=(builders.pool(), derived_pool(measured_by={"workers": 1, "efficiency": "StudyMean"})),
    )


def test_an_extrapolated_point_is_source_times_workers_times_mean_efficiency_without_an_interval() -> None:
    here = extrapolated([1, 2, 3])
    rates = {1: 1000.0, 2: 1800.0, 3: 2400.0}  # efficiencies 0.9 and 0.8
    here.fate = at_rates(here.plan, {point.key: rates.get(point.key.workers, 0) for point in here.plan.points})
    found = found_at(here.run(), "copy", 4)
    assert (found.basis, found.state, found.values) == (Basis.EXTRAPOLATED, PointState.MEASURED, ())
    assert found.throughput is not None
    assert found.throughput.mean == pytest.approx(1000 * 4 * 0.85)
    assert (found.throughput.low, found.throughput.high) == (None, None)
    (warning,) = builders.messages(found)
    assert warning == (
        "extrapolated: cpu, 1 worker, times 4, times 0.85, the mean efficiency of 2 measured points: "
        "not run here, and without an interval"
    )


def test_an_extrapolation_waits_until_the_mean_is_final() -> None:
    here = extrapolated([1, 2, 3])
    for _ in range(40):
        status = here.reconcile().status
        measured = [found_at(status, "cpu", workers).state is PointState.MEASURED for workers in (1, 2, 3)]
        if not all(measured):
            assert found_at(status, "copy", 4).state is PointState.PENDING
        here.advance()
    assert found_at(here.decide().status, "copy", 4).state is PointState.MEASURED


def test_without_an_efficiency_nothing_is_extrapolated() -> None:
    status = extrapolated([1]).run()
    found = found_at(status, "copy", 4)
    assert (found.state, found.throughput) == (PointState.SKIPPED, None)
    assert "no point on several workers gives an efficiency of mnist_cnn at batch 64" in (found.reason or "")


def extrapolated_from_two(*blocks: dict[str, Any], rates: Mapping[int, float], **shape: Any) -> PointResult:
    """Two workers of cpu stand for four of copy."""
    here = study_of(
        *blocks,
        builders.block(pools=["copy"], workers=[4], **shape),
        pools=(
            builders.pool(),
            builders.pool("other", **FOUR),
            derived_pool(measured_by={"workers": 2, "efficiency": "StudyMean"}),
        ),
    )
    here.fate = at_rates(here.plan, {point.key: rates.get(point.key.workers, 0.0) for point in here.plan.points})
    return found_at(here.run(), "copy", 4)


def extrapolated_beside(*, unsettled: frozenset[int] = frozenset(), elsewhere: frozenset[int] = frozenset()) -> str:
    """Why nothing was extrapolated from cpu on 1 worker, where points of so many workers ended like that."""
    here = extrapolated([1, 2])
    workers = {trial.id: here.plan.points[trial.point].key.workers for trial in here.plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        notices = (Unsettled(change=0.1),) if workers[trial] in unsettled else ()
        environment = "other" if workers[trial] in elsewhere else "env"
        result = builders.result(trial=trial, attempt=attempt, environment=environment, notices=notices)
        return 0, builders.message(result)

    here.fate = fate
    found = found_at(here.run(), "copy", 4)
    assert (found.state, found.throughput) == (PointState.SKIPPED, None)
    return found.reason or ""


def test_why_there_is_no_efficiency_is_what_is_so() -> None:
    """Measuring one more point would help in none of these."""
    at_two = "extrapolated: of cpu, 2 workers,"
    assert extrapolated_beside(unsettled=frozenset({1})).endswith(
        f"{at_two} no efficiency: the smallest worker count of this line is Unstable: give measure.warmUp and duration "
        "more time"
    )
    assert f"{at_two} 3 of 3 repeats: " in extrapolated_beside(unsettled=frozenset({2}))
    assert extrapolated_beside(elsewhere=frozenset({2})).endswith(
        "extrapolated: of cpu, 2 workers, no efficiency: other worker counts of this line ran in another environment "
        "(environment env and other): restrict the pool to equal nodes"
    )


def test_what_the_source_has_lost_is_not_counted_twice() -> None:
    # T(2) holds the loss from 1 to 2 workers; E(4) relative to 2 is 0.9.
    blocks = builders.block(workers=[2]), builders.block(pools=["other"], workers=[2, 4])
    found = extrapolated_from_two(*blocks, rates={2: 1800.0, 4: 3240.0})
    assert found.throughput is not None
    assert found.throughput.mean == pytest.approx(1800 * 2 * 0.9)


def test_efficiencies_relative_to_fewer_workers_than_the_source_has_extrapolate_nothing() -> None:
    blocks = builders.block(workers=[2]), builders.block(pools=["other"], workers=[1, 2, 4])
    found = extrapolated_from_two(*blocks, rates={1: 1000.0, 2: 1800.0, 4: 3240.0})
    assert (found.state, found.throughput) == (PointState.SKIPPED, None)
    assert "at batch 64 per worker relative to 2 workers, from which copy is extrapolated" in (found.reason or "")
    assert "set measuredBy.workers to the smallest worker count of the others" in (found.reason or "")


def test_under_a_global_batch_the_efficiencies_of_the_strong_line_extrapolate() -> None:
    blocks = (
        builders.block(workers=[2], globalBatch=[256]),
        builders.block(pools=["other"], workers=[2, 4], globalBatch=[256]),
    )
    found = extrapolated_from_two(*blocks, rates={2: 1800.0, 4: 2700.0}, globalBatch=[256])
    assert found.throughput is not None
    assert found.throughput.mean == pytest.approx(1800 * 2 * 0.75)


def test_a_repriced_message_has_the_bandwidth_of_its_source() -> None:
    block = builders.block(workloads=["allreduce"], pools=["cpu", "copy"], workers=[2])
    status = study_of(block, pools=(builders.pool(**FOUR), derived_pool())).run()
    source, copy = found_at(status, "cpu", 2), found_at(status, "copy", 2)
    assert (copy.basis, copy.state) == (Basis.REPRICED, PointState.MEASURED)
    assert copy.bandwidth is not None
    assert copy.bandwidth == source.bandwidth


# --- the published extrapolation --------------------------------------------------------------------------------------

# Parkopedia's blog, 2018: scaling efficiency of six AWS instances against their siblings with one GPU, as printed (two
# decimals); columns: inception3, resnet50, vgg16, each at batch 16, 32, 64.
CELLS = [(workload, batch) for workload in ("inception3", "resnet50", "vgg16") for batch in (16, 32, 64)]
EFFICIENCIES = {
    ("g3.8xlarge", "g3.4xlarge", 2): (0.94, 0.96, 0.97, 0.93, 0.95, 0.97, 0.84, 0.89, 0.93),
    ("g3.16xlarge", "g3.4xlarge", 4): (0.94, 0.96, 0.96, 0.92, 0.96, 0.97, 0.87, 0.92, 0.93),
    ("p2.8xlarge", "p2.xlarge", 8): (0.90, 0.88, 0.87, 0.89, 0.89, 0.90, 0.70, 0.87, 0.92),
    ("p2.16xlarge", "p2.xlarge", 16): (0.74, 0.81, 0.86, 0.58, 0.77, 0.84, 0.39, 0.52, 0.64),
    ("p3.8xlarge", "p3.2xlarge", 4): (0.72, 0.75, 0.81, 0.73, 0.78, 0.83, 0.65, 0.74, 0.83),
    ("p3.16xlarge", "p3.2xlarge", 8): (0.57, 0.64, 0.72, 0.53, 0.60, 0.68, 0.55, 0.66, 0.78),
}
MEAN_EFFICIENCIES = (0.80, 0.83, 0.87, 0.76, 0.83, 0.87, 0.67, 0.77, 0.84)  # printed in the same table
ONE_1080TI = (136, 145, 160, 213, 250, 273, 118, 137, 149)  # images/s, measured there
FOUR_1080TI = (435, 482, 556, 649, 825, 947, 314, 418, 498)  # images/s, extrapolated there
# The source rounded its averages, and its single-GPU figures, before it multiplied: at most 2 images/s from exact.
PUBLISHED_WITHIN = 2.5


@pytest.fixture(scope="module")
def parkopedia() -> FullStatus:
    """The study as it was: single siblings, larger instances, one card, and the box that nobody ran."""
    singles = {base for _, base, _ in EFFICIENCIES}
    shape = {"workloads": ["inception3", "resnet50", "vgg16"], "batchPerWorker": [16, 32, 64]}
    here = study_of(
        builders.block(pools=[*sorted(singles), "1080ti"], workers=[1], **shape),
        *(builders.block(pools=[target], workers=[workers], **shape) for target, _, workers in EFFICIENCIES),
        builders.block(pools=["box"], workers=[4], **shape),
        pools=(
            *(builders.pool(base) for base in sorted(singles)),
            *(
                builders.pool(target, slots_per_node=workers, scaling_baseline=base)
                for target, base, workers in EFFICIENCIES
            ),
            builders.pool("1080ti"),
            builders.pool(
                "box", measured_by={"pool": "1080ti", "workers": 1, "efficiency": "StudyMean"}, slots_per_node=4
            ),
        ),
        repeats=1,
    )
    rates = {}
    for point in here.plan.points:
        cell = CELLS.index((point.key.workload, point.key.batch_per_worker or 0))
        by_pool = {target: 1000.0 * n * row[cell] for (target, _, n), row in EFFICIENCIES.items()}
        rates[point.key] = {"1080ti": float(ONE_1080TI[cell]), **by_pool}.get(point.key.pool, 1000.0)
    here.fate = at_rates(here.plan, rates)
    return here.run(rounds=400)


def cells_of(status: FullStatus, pool: str) -> list[PointResult]:
    by_cell = {(found.workload, found.batch_per_worker): found for found in status.results if found.pool == pool}
    return [by_cell[cell] for cell in CELLS]


def test_efficiencies_against_the_sibling_instance_are_those_that_were_printed(parkopedia: FullStatus) -> None:
    for (target, base, _), row in EFFICIENCIES.items():
        found = [result.scaling[0] for result in cells_of(parkopedia, target)]
        assert [line.efficiency.mean for line in found] == pytest.approx(list(row))
        assert {(line.baseline_pool, line.baseline_workers) for line in found} == {(base, 1)}


def test_the_box_that_nobody_ran_has_the_published_throughput(parkopedia: FullStatus) -> None:
    for cell, found in enumerate(cells_of(parkopedia, "box")):
        assert found.basis is Basis.EXTRAPOLATED
        assert found.throughput is not None
        mean = sum(row[cell] for row in EFFICIENCIES.values()) / 6
        assert found.throughput.mean == pytest.approx(4 * ONE_1080TI[cell] * mean)
        assert mean == pytest.approx(MEAN_EFFICIENCIES[cell], abs=0.0051)  # two decimals, a half either way
        assert found.throughput.mean == pytest.approx(FOUR_1080TI[cell], abs=PUBLISHED_WITHIN)
