# SPDX-License-Identifier: Apache-2.0
"""Figures over those of `spec.baseline`: each with its interval, relative to the point that is meant, or a reason."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import builders
import explanations
import measured
from gpubench import values
from gpubench.analysis import audit, explain, relative
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import PointResult, Relative
from gpubench.api.point_warning import WarningReason
from gpubench.api.pool import GpuPool
from gpubench.plan import expand
from gpubench.plan.plan import Plan
from gpubench.records import Training, Unsettled
from gpubench.report import tables
from gpubench.scheduler import step
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import Study
from gpubench.stats import intervals
from gpubench.values import Interval

UNSETTLED = Unsettled(change=0.1)
OLD = (1000.0, 1010.0, 990.0)
NEW = (3900.0, 4000.0, 4100.0)
K80 = {"pool": "k80", "workers": 1}
PRICES = {"k80": "0.5", "a100": "3"}


def pool(name: str, price: str | None = None, *, currency: str = "USD", **spec: Any) -> GpuPool:
    per_hour = PRICES.get(name) if price is None else price
    priced = {"per_node_hour": per_hour, "currency": currency, "as_of": "2023-11-01"} if per_hour else None
    return builders.pool(name, price=priced, **spec)


POOLS = (pool("k80"), pool("a100"))


def block(**fields: Any) -> dict[str, Any]:
    return builders.block(**({"pools": ["k80", "a100"], "workers": [1]} | fields))


def a_spec(*blocks: dict[str, Any], baseline: dict[str, Any] | None = None, **fields: Any) -> GpuBenchmarkSpec:
    named = K80 if baseline is None else baseline
    return builders.spec(*(blocks or (block(),)), baseline=named, **fields)


def found(
    spec: GpuBenchmarkSpec,
    pools: Sequence[GpuPool],
    rates: Mapping[int, Sequence[float]],
    **more: Any,
) -> tuple[PointResult, ...]:
    plan = builders.plan(spec, *pools)
    return of_ledger(spec, plan, measured.ledger(plan, rates, **more))


def of_ledger(spec: GpuBenchmarkSpec, plan: Plan, ledger: Ledger) -> tuple[PointResult, ...]:
    trials = step.of_ledger(plan, ledger, Study.of_spec(spec)).trials
    return measured.of_trials(plan, trials, goals=spec.goals, baseline=spec.baseline)


def figures(result: PointResult) -> Relative:
    assert result.relative is not None
    return result.relative


def near(estimate: Interval | None, expected: values.Interval, *, times: float = 1.0) -> None:
    assert estimate is not None
    assert (estimate.low is None) == (expected.low is None)
    stored = [one for one in (estimate.mean, estimate.low, estimate.high) if one is not None]
    wanted = [one * times for one in (expected.mean, expected.low, expected.high) if one is not None]
    assert stored == pytest.approx(wanted, rel=1e-9)


def why_not(result: PointResult) -> str:
    [told] = [one.message for one in result.warnings if one.reason is WarningReason.NO_RELATIVE]
    return told


# --- the figures ------------------------------------------------------------------------------------------------------


def test_a_point_is_relative_to_the_base_in_throughput_time_and_cost_with_fiellers_interval() -> None:
    """4 times as fast, a quarter of the time, at 6 times the price: 1.5 times as dear."""
    base, point = found(a_spec(), POOLS, {0: OLD, 1: NEW})
    one = figures(point)
    assert (one.baseline_pool, one.baseline_workers) == ("k80", 1)
    near(one.throughput, intervals.of_ratio(NEW, OLD))
    near(one.time, intervals.of_ratio(OLD, NEW))
    near(one.cost, intervals.of_ratio(OLD, NEW), times=6.0)
    assert one.throughput is not None
    assert one.throughput.mean == pytest.approx(4.0)
    assert one.throughput.low is not None
    assert one.throughput.low < 4.0
    assert figures(base) == Relative(throughput=Interval(mean=1), time=Interval(mean=1), cost=Interval(mean=1))


def test_the_relative_cost_is_what_the_two_costs_say() -> None:
    base, point = found(a_spec(), POOLS, {0: OLD, 1: NEW})
    amounts = [one.cost.per_million_samples for one in (base, point) if one.cost is not None]
    dollars, more = (float(one.mean) for one in amounts if one is not None)
    cost = figures(point).cost
    assert cost is not None
    assert cost.mean == pytest.approx(more / dollars, rel=1e-6)


def test_the_interval_of_the_time_is_that_of_the_throughput_upside_down() -> None:
    _, point = found(a_spec(), POOLS, {0: OLD, 1: NEW})
    fast, long = figures(point).throughput, figures(point).time
    assert fast is not None
    assert long is not None
    assert fast.low is not None
    assert fast.high is not None
    assert (long.low, long.high) == pytest.approx((1 / fast.high, 1 / fast.low), rel=1e-9)


def seconds(*of: float) -> list[Training]:
    return [builders.training(nanoseconds=round(one * 1e9), evaluation_nanoseconds=0) for one in of]


def test_a_training_is_relative_in_the_seconds_of_its_timed_region() -> None:
    spec = a_spec(
        block(data={"source": "Generated"}, epochs=3),
        measure={"mode": "Training", "timedRegion": {"evaluation": "Outside"}},
    )
    base, point = found(
        spec, POOLS, {0: (1.0,) * 3, 1: (1.0,) * 3}, trainings={0: seconds(100, 102, 98), 1: seconds(20, 21, 19)}
    )
    one = figures(point)
    near(one.time, intervals.of_ratio([20, 21, 19], [100, 102, 98]))
    near(one.cost, intervals.of_ratio([20, 21, 19], [100, 102, 98]), times=6.0)
    near(one.throughput, intervals.of_ratio(point.values, base.values))
    assert one.time is not None
    assert one.time.mean == pytest.approx(0.2)


def test_fewer_than_three_repeats_have_no_interval_and_equal_ones_none_either() -> None:
    for rates in ((1000.0, 1010.0), (1000.0,) * 3):
        spec = a_spec(measure={"repeats": {"min": len(rates)}})
        _, point = found(spec, POOLS, {0: rates, 1: NEW[: len(rates)]})
        assert figures(point).throughput is not None
        assert [one and one.low for one in (figures(point).throughput, figures(point).cost)] == [None, None]


def test_repeats_that_were_added_make_the_interval_wider() -> None:
    until = {"repeats": {"min": 3, "max": 10, "until": {"relativeHalfWidth": "0.5"}}}
    _, plain = found(a_spec(), POOLS, {0: OLD, 1: NEW})
    _, added = found(a_spec(measure=until), POOLS, {0: OLD, 1: NEW})
    one, other = figures(plain).throughput, figures(added).throughput
    assert one is not None
    assert other is not None
    assert (one.high or 0) < (other.high or 0)


# --- which point is meant ---------------------------------------------------------------------------------------------


def bases(spec: GpuBenchmarkSpec, *pools: GpuPool) -> dict[tuple[Any, ...], tuple[Any, ...] | None]:
    """For each point its base, each by workload, pool, workers, batch per worker, precision and variant."""
    assert spec.baseline is not None
    plan = builders.plan(spec, *(pools or POOLS))

    def key(index: int) -> tuple[Any, ...]:
        one = plan.points[index].key
        variant = one.variant.name if one.variant else None
        return one.workload, one.pool, one.workers, one.batch_per_worker, one.precision.value, variant

    found_at = {key(index): relative.base_of(plan, spec.baseline, index=index) for index in range(len(plan.points))}
    return {point: None if base is None else key(base) for point, base in found_at.items()}


def test_one_baseline_serves_every_workload_and_batch() -> None:
    spec = a_spec(block(workloads=["mnist_cnn", "mnist_mlp"], workers=[1, 2], batchPerWorker=[32, 64]))
    for (workload, _, _, batch, *rest), base in bases(spec).items():
        assert base == (workload, "k80", 1, batch, *rest)


def test_where_the_global_batch_is_fixed_the_base_has_the_same_one() -> None:
    spec = a_spec(builders.block(pools=["k80", "a100"], workers=[1, 2], globalBatch=[128]))
    assert bases(spec) == {
        ("mnist_cnn", pool, workers, 128 // workers, "float32", None): ("mnist_cnn", "k80", 1, 128, "float32", None)
        for pool in ("k80", "a100")
        for workers in (1, 2)
    }


def test_without_workers_each_point_is_held_against_as_many() -> None:
    spec = a_spec(block(workers=[1, 2]), baseline={"pool": "k80"})
    assert {(point[1], point[2]): base and (base[1], base[2]) for point, base in bases(spec).items()} == {
        (pool, workers): ("k80", workers) for pool in ("k80", "a100") for workers in (1, 2)
    }


def test_a_precision_and_a_variant_may_be_the_base_too() -> None:
    wide = block(precision=["float32", "mixed_float16"])
    by_precision = bases(a_spec(wide, baseline={"precision": "float32"}))
    assert by_precision["mnist_cnn", "a100", 1, 64, "mixed_float16", None] == (
        "mnist_cnn", "a100", 1, 64, "float32", None,
    )  # fmt: skip
    two = block(variants=[{"name": "plain"}, {"name": "wire", "communication": {"compression": "Float16"}}])
    by_variant = bases(a_spec(two, baseline={"variant": "plain"}))
    assert by_variant["mnist_cnn", "k80", 1, 64, "float32", "wire"] == ("mnist_cnn", "k80", 1, 64, "float32", "plain")


def test_the_base_may_be_what_has_no_variant() -> None:
    plain, wire = block(), block(variants=[{"name": "wire", "communication": {"compression": "Float16"}}])
    found = bases(a_spec(plain, wire, baseline={"variant": "none", "pool": "k80"}))
    for variant in (None, "wire"):
        of = "mnist_cnn", "a100", 1, 64, "float32", variant
        assert found[of] == ("mnist_cnn", "k80", 1, 64, "float32", None)


def test_a_batch_may_be_the_base() -> None:
    spec = a_spec(block(batchPerWorker=[32, 64]), baseline={"batchPerWorker": 32})
    assert bases(spec)["mnist_cnn", "a100", 1, 64, "float32", None] == ("mnist_cnn", "a100", 1, 32, "float32", None)
    spec = a_spec(block(batchPerWorker=[32, 64]), baseline={"globalBatch": 64})
    assert bases(spec)["mnist_cnn", "a100", 1, 32, "float32", None] == ("mnist_cnn", "a100", 1, 64, "float32", None)


def test_of_two_shapes_the_base_is_the_one_on_the_fewest_nodes_or_the_points_own() -> None:
    pools = (pool("k80", slots_per_node=2), pool("a100", slots_per_node=2))
    shapes = (block(workers=[2], workersPerNode=1), block(workers=[2], workersPerNode=2))
    for named, expected in (({"pool": "k80", "workers": 2}, (1, 1, 1, 1)), ({"pool": "k80"}, (2, 2, 1, 1))):
        spec = a_spec(*shapes, baseline=named)
        assert spec.baseline is not None
        plan = builders.plan(spec, *pools)
        found_at = [relative.base_of(plan, spec.baseline, index=index) for index in range(len(plan.points))]
        assert sorted((plan.points[base].nodes for base in found_at if base is not None), reverse=True) == [*expected]


# --- why there is none ------------------------------------------------------------------------------------------------


def test_a_point_whose_base_is_not_in_the_sweep_says_so() -> None:
    spec = a_spec(block(workloads=["mnist_mlp"]), block(pools=["a100"]))
    *_, point = found(spec, POOLS, {0: OLD, 1: NEW, 2: NEW})
    assert (point.workload, point.relative) == ("mnist_cnn", None)
    assert why_not(point).startswith("no relative figures: baseline (pool k80, workers 1) and what else makes this")


def test_a_base_without_a_figure_is_named_with_how_it_ended() -> None:
    spec = a_spec()
    plan = builders.plan(spec, *POOLS)
    failing = [
        builders.attempt(trial=trial.id, attempt=attempt)
        for trial in plan.trials
        if plan.points[trial.point].key.pool == "k80"
        for attempt in (1, 2, 3)
    ]
    ledger = measured.ledger(plan, {1: NEW}).with_records(failing)
    base, point = of_ledger(spec, plan, ledger)
    assert (base.relative, point.relative) == (None, None)
    assert why_not(point) == (
        "no relative figures: the base, mnist_cnn on k80, 1 worker at batch 64, float32, has none: it ended Failed"
    )
    assert not any(one.reason is WarningReason.NO_RELATIVE for one in base.warnings), "it has no figures to relate"


def test_a_base_that_never_settled_is_none_and_is_itself_shown() -> None:
    spec = a_spec()
    plan = builders.plan(spec, *POOLS)
    records = [
        record.model_copy(update={"result": record.result.model_copy(update={"notices": (UNSETTLED,)})})
        if record.result is not None and plan.point_by_trial[record.trial].key.pool == "k80"
        else record
        for record in measured.ledger(plan, {0: OLD, 1: NEW}).records
    ]
    base, point = of_ledger(spec, plan, Ledger().with_records(records))
    assert point.relative is None
    assert "is Unstable: give measure.warmUp and duration more time" in why_not(point)
    assert figures(base).time == Interval(mean=1)


def test_as_long_as_the_base_may_still_come_nothing_is_said() -> None:
    _, point = found(a_spec(), POOLS, {1: NEW})
    assert point.relative is None
    assert point.warnings == ()


def test_within_a_pool_another_environment_is_no_base_and_between_pools_it_is_what_is_compared() -> None:
    spec = a_spec(block(workers=[1, 2]))
    plan = builders.plan(spec, *POOLS)
    of_two = [
        record
        for records in (
            measured.ledger(plan, {0: OLD}).records,
            measured.ledger(plan, dict.fromkeys((1, 2, 3), NEW), environment="other").records,
        )
        for record in records
    ]
    base, same_pool, other_pool, _ = of_ledger(spec, plan, Ledger().with_records(of_two))
    assert (base.pool, same_pool.pool, other_pool.pool) == ("k80", "k80", "a100")
    assert same_pool.relative is None
    assert "the base ran in another environment (environment env and other)" in why_not(same_pool)
    assert other_pool.relative is not None


def test_without_a_price_or_in_two_currencies_time_is_told_and_cost_is_not() -> None:
    for a_pool, words in (
        (builders.pool("k80", price=None), "no relative cost: k80, the base's pool, has no price: give it one"),
        (pool("k80", "0.5", currency="EUR"), "no relative cost: USD and EUR cannot be added or compared"),
        (pool("k80", "0"), "no relative cost: the cost of the base on k80"),
    ):
        _, point = found(a_spec(), (a_pool, pool("a100")), {0: OLD, 1: NEW})
        assert figures(point).cost is None
        assert figures(point).time is not None
        assert why_not(point).startswith(words)


def test_a_point_without_a_price_has_no_relative_cost_and_no_further_warning() -> None:
    _, point = found(a_spec(), (pool("k80"), builders.pool("a100", price=None)), {0: OLD, 1: NEW})
    assert figures(point).cost is None
    assert point.warnings == ()


def test_messages_have_no_relative_figures() -> None:
    results_of = found(
        a_spec(block(workloads=["allreduce"], workers=[2]), baseline={"pool": "k80"}), POOLS, {0: OLD, 1: NEW}
    )
    assert [(one.relative, one.warnings) for one in results_of] == [(None, ())] * 2


# --- what was not run -------------------------------------------------------------------------------------------------


def test_the_same_runs_at_another_price_are_as_fast_for_certain_and_dearer_by_the_price() -> None:
    spec = a_spec(block(pools=["k80", "spot"]))
    spot = pool("spot", "0.25", measured_by={"pool": "k80"})
    _, point = found(spec, (pool("k80"), spot), {0: OLD})
    one = figures(point)
    assert one.throughput == one.time == Interval(mean=1, low=1, high=1)
    assert one.cost == Interval(mean=0.5, low=0.5, high=0.5)


def test_another_points_figures_are_relative_with_its_repeats_and_extrapolated_ones_have_no_interval() -> None:
    pools = (
        pool("k80"),
        pool("a100"),
        pool("spot", "1", measured_by={"pool": "a100"}),
        pool("four", "9", measured_by={"pool": "a100", "workers": 1, "efficiency": "StudyMean"}),
    )
    spec = a_spec(block(workers=[1, 2]), block(pools=["spot"]), block(pools=["four"], workers=[4]))
    rates = {0: OLD, 1: (1900.0, 1890.0, 1910.0), 2: NEW, 3: (7800.0, 7900.0, 7700.0)}
    *_, spot, four = found(spec, pools, rates)
    near(figures(spot).throughput, intervals.of_ratio(NEW, OLD))
    near(figures(spot).cost, intervals.of_ratio(OLD, NEW), times=2.0)
    throughput = figures(four).throughput
    assert throughput is not None
    assert (throughput.low, throughput.high) == (None, None)
    assert four.throughput is not None
    assert throughput.mean == pytest.approx(four.throughput.mean / 1000.0)


def test_what_nobody_has_measured_is_no_base() -> None:
    four = pool("four", "9", slots_per_node=4, measured_by={"pool": "a100", "workers": 1, "efficiency": "StudyMean"})
    spec = a_spec(
        block(pools=["a100"], workers=[1, 2]),
        block(pools=["four"], workers=[4]),
        baseline={"pool": "four", "workers": 4},
    )
    first, *_ = found(spec, (pool("a100"), four), {0: NEW, 1: (7800.0, 7900.0, 7700.0)})
    assert "was not run: name a point that is measured" in why_not(first)


# --- everywhere it is shown -------------------------------------------------------------------------------------------


def test_a_status_has_them_and_a_changed_one_is_found() -> None:
    spec, rates = a_spec(), {0: OLD, 1: NEW}
    plan = builders.plan(spec, *POOLS)
    ledger = measured.ledger(plan, rates)
    again = audit.status_again(plan, ledger, spec, measured.finished_status(plan, rates))
    status = FullStatus.model_validate(again.to_wire())
    assert [one.relative is not None for one in status.results] == [True, True]

    def places(found_at: FullStatus) -> list[str]:
        return [one.place for one in audit.of_status(plan, ledger, spec, found_at, words=True)]

    assert places(status) == []
    wire: Any = status.to_wire()
    wire["results"][1]["relative"]["time"]["mean"] *= 1.001
    [place] = places(FullStatus.model_validate(wire))
    assert place.endswith("relative.time.mean")


def test_a_table_shows_them_where_there_are_some_and_says_what_of() -> None:
    shown = found(a_spec(), POOLS, {0: OLD, 1: NEW})
    table = tables.results(shown)
    titles = [column.title for column in table.columns]
    base, point = (dict(zip(titles, row, strict=True)) for row in table.rows)
    assert (base["RELATIVE TIME"], base["RELATIVE COST"]) == ("1 (base)", "1 (base)")
    assert point["RELATIVE TIME"].startswith("0.25")
    assert point["RELATIVE COST"].startswith("1.5")
    assert any(note.startswith("RELATIVE figures are in multiples of 1 worker on k80") for note in table.notes)
    unpriced = tables.results(found(a_spec(), [builders.pool(name, price=None) for name in PRICES], {0: OLD, 1: NEW}))
    assert "RELATIVE COST" not in [column.title for column in unpriced.columns]
    plain = tables.results(measured.results(builders.plan(builders.spec()), {0: OLD}))
    assert not any("RELATIVE" in column.title for column in plain.columns)
    several = found(a_spec(block(workers=[1, 2]), baseline={"pool": "k80"}), POOLS, dict.fromkeys(range(4), NEW))
    assert any("in multiples of the point that spec.baseline names" in note for note in tables.reading_notes(several))


def test_programs_get_them_with_their_base_and_unrounded() -> None:
    base, point = (tables.flat(one) for one in found(a_spec(), POOLS, {0: OLD, 1: NEW}))
    assert (point["relative_baseline_pool"], point["relative_baseline_workers"]) == ("k80", "1")
    assert float(point["relative_time"]) == pytest.approx(0.25)
    assert float(point["relative_cost_low"]) < 1.5 < float(point["relative_cost_high"])
    assert (base["relative_baseline_pool"], base["relative_throughput"], base["relative_throughput_low"]) == (
        "k80", "1.0", "",
    )  # fmt: skip
    [without, _] = measured.results(builders.plan(builders.spec()), {0: OLD})
    assert tables.flat(without)["relative_time"] == ""


@pytest.mark.parametrize("mode", ["Throughput", "Training", "few repeats", "not run"])
def test_each_figure_is_explained_by_what_was_divided(mode: str) -> None:
    rates: dict[int, Sequence[float]] = {0: OLD, 1: NEW}
    more: dict[str, Any] = {}
    pools: tuple[GpuPool, ...] = POOLS
    if mode == "Training":
        spec = a_spec(block(data={"source": "Generated"}, epochs=3), measure={"mode": "Training"})
        more = {"trainings": {0: seconds(100, 102, 98), 1: seconds(20, 21, 19)}}
    elif mode == "few repeats":
        spec, rates = a_spec(measure={"repeats": {"min": 1}}), {0: OLD[:1], 1: NEW[:1]}
    elif mode == "not run":
        spec = a_spec(block(), block(pools=["spot"]))
        pools = (*POOLS, pool("spot", "0.25", measured_by={"pool": "k80"}))
    else:
        spec = a_spec()
    plan = builders.plan(spec, *pools)
    ledger = measured.ledger(plan, rates, **more)
    for index, point in enumerate(of_ledger(spec, plan, ledger)):
        told = explain.explained(plan, ledger, spec, index=index)
        assert told.point.relative == point.relative is not None
        explanations.check(told)
    last = explain.explained(plan, ledger, spec, index=1)
    [cost] = [row for row in last.rows if row.field == "relative.cost"]
    assert cost.formula == "relative time x rate x nodes / (base rate x base nodes)"
    assert "the base is mnist_cnn on k80, 1 worker" in cost.origin


def test_a_small_form_keeps_no_base_that_it_does_not_have() -> None:
    spec = a_spec()
    assert expand.scaled(spec, 0.01).baseline == spec.baseline
    assert expand.scaled(a_spec(baseline={"batchPerWorker": 64}), 0.01).baseline is None
    assert expand.on_pool(spec, "a100").baseline is None


def test_a_batch_that_is_named_is_the_bases_also_on_a_line_of_one_global_batch() -> None:
    fixed = builders.block(pools=["k80", "a100"], workers=[1, 2], globalBatch=[64, 128])
    per_worker = a_spec(fixed, baseline={"pool": "k80", "workers": 1, "batchPerWorker": 128})
    assert set(bases(per_worker).values()) == {("mnist_cnn", "k80", 1, 128, "float32", None)}
    whole = a_spec(
        block(workers=[1, 2], batchPerWorker=[64]), baseline={"pool": "k80", "workers": 1, "globalBatch": 64}
    )
    assert set(bases(whole).values()) == {("mnist_cnn", "k80", 1, 64, "float32", None)}
