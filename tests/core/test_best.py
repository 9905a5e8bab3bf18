# SPDX-License-Identifier: Apache-2.0
"""The columns of `kubectl get` say what the answer says, and name no winner that its intervals do not support."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import builders
import measured
from gpubench.analysis import advice, audit
from gpubench.analysis import status as analysis_status
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Best, FullStatus
from gpubench.api.pool import GpuPool

#: Ten hours at 1,000 samples a second.
GOAL = {"name": "much", "workload": "mnist_cnn", "samples": 36_000_000}
COST_IN_8 = {"minimize": "Cost", "goal": "much", "maxHours": 8}
ONCE = {"repeats": {"min": 1}}
TIME = {"minimize": "Time", "goal": "much"}


def runs(rate: float, *, spread: float = 0.005) -> tuple[float, ...]:
    return (rate, rate * (1 + spread), rate * (1 - spread))


def pool(name: str = "cpu", price: str | None = "1", **spec: Any) -> GpuPool:
    priced = None if price is None else {"per_node_hour": price, "currency": "USD", "as_of": "2026-11-01"}
    return builders.pool(name, price=priced, **({"max_nodes": 4} | spec))


def a_spec(*blocks: dict[str, Any], objective: dict[str, Any] | None = COST_IN_8, **fields: Any) -> GpuBenchmarkSpec:
    asked = {} if objective is None else {"objective": objective}
    return builders.spec(*blocks, goals=[GOAL], **asked, **fields)


def status(spec: GpuBenchmarkSpec, pools: Sequence[GpuPool], rates: Mapping[int, Sequence[float]]) -> FullStatus:
    plan = builders.plan(spec, *pools)
    ledger = measured.ledger(plan, rates)
    return audit.status_again(plan, ledger, spec, measured.finished_status(plan, rates))


def found(spec: GpuBenchmarkSpec, pools: Sequence[GpuPool], rates: Mapping[int, Sequence[float]]) -> Best | None:
    return status(spec, pools, rates).best


LINE = builders.block(workers=[1, 2, 4])
LINE_RATES = {0: runs(1000), 1: runs(1900), 2: runs(3400)}


def test_the_gang_that_is_advised_stands_in_the_columns_with_its_cost_and_hours() -> None:
    """2 workers at 1,900 samples a second: 36 million in 5.263 hours, at 2 an hour for 10.526."""
    here = status(a_spec(LINE), [pool()], LINE_RATES)
    one = here.best
    assert one is not None
    assert (one.pool, one.workers, one.setting, one.predicted, one.sure, one.tied) == (
        "cpu", 2, "batch 64", False, True, 0,
    )  # fmt: skip
    assert one.cost is not None
    assert (one.cost.mean, one.cost.currency) == ("10.526315789", "USD")
    assert one.hours.mean == pytest.approx(36_000_000 / 1900 / 3600)
    assert one.hours.low is not None
    assert one.hours.low < one.hours.mean
    assert one.shown.to_wire() == {"pool": "cpu", "cost": "USD 10.5", "time": "5.26 h"}
    assert here.answer is not None
    assert "Cheapest within 8 hours: 2 workers at batch 64 on cpu" in here.answer


def test_a_tie_is_no_winner_in_a_column_either() -> None:
    spec = a_spec(builders.block(workers=[1], pools=["cpu", "other"]), objective={"minimize": "Cost", "goal": "much"})
    one = found(spec, [pool(), pool("other")], {0: runs(1000, spread=0.02), 1: runs(1030, spread=0.02)})
    assert one is not None
    assert (one.shown.pool, one.tied) == ("other (tie)", 1)


def test_what_nobody_has_measured_is_marked() -> None:
    spec = a_spec(LINE, objective={"minimize": "Cost", "goal": "much", "maxHours": 2})
    one = found(spec, [pool(max_nodes=16)], {0: runs(1000), 1: runs(1960), 2: runs(3800)})
    assert one is not None
    assert (one.workers, one.predicted) == (8, True)
    assert one.shown.pool.startswith("cpu (predicted")


def test_what_may_break_the_limit_is_marked() -> None:
    spec = a_spec(
        builders.block(workers=[1]), objective={"minimize": "Cost", "goal": "much", "maxHours": 11}, measure=ONCE
    )
    one = found(spec, [pool(max_nodes=1)], {0: (1000.0,)})
    assert one is not None
    assert (one.shown.pool, one.sure) == ("cpu (not sure)", False)


def test_without_a_price_there_is_a_time_and_no_cost() -> None:
    one = found(a_spec(LINE, objective=TIME), [pool(price=None)], LINE_RATES)
    assert one is not None
    assert one.cost is None
    assert one.shown.to_wire() == {"pool": "cpu", "time": "2.94 h"}


@pytest.mark.parametrize(
    ("spec", "pools", "rates"),
    [
        (a_spec(LINE, objective=None), [pool()], LINE_RATES),
        (a_spec(builders.block(workers=[1], precision=["float32", "tensor_float32"])), [pool()], LINE_RATES),
        (a_spec(builders.block(workers=[1])), [pool(max_nodes=1)], {0: runs(1000)}),
        (a_spec(LINE), [pool(price=None)], LINE_RATES),
        (a_spec(LINE), [pool()], {}),
    ],
    ids=["without an objective", "of two kinds of work", "too slow", "without a price", "nothing measured"],
)  # fmt: skip
def test_where_nothing_can_be_named_there_is_nothing(
    spec: GpuBenchmarkSpec, pools: Sequence[GpuPool], rates: Mapping[int, Sequence[float]]
) -> None:
    assert found(spec, pools, rates) is None


def test_as_long_as_a_study_goes_on_nothing_is_best() -> None:
    spec = a_spec(LINE)
    plan = builders.plan(spec, pool())
    first = {0: runs(1000)}
    ledger = measured.ledger(plan, first)
    assert audit.status_again(plan, ledger, spec, FullStatus()).best is None
    advised = advice.advised(plan, ledger, measured.results(plan, first), spec.objective, spec.goals)
    assert len(advised) == 1
    assert advice.best(()) is None


@pytest.mark.parametrize("words", [True, False], ids=["of this version", "of another version"])
def test_a_changed_figure_of_the_best_is_found_and_other_words_are_not(words: bool) -> None:
    spec, pools = a_spec(LINE), [pool()]
    plan = builders.plan(spec, *pools)
    ledger = measured.ledger(plan, LINE_RATES)
    stored = FullStatus.model_validate(status(spec, pools, LINE_RATES).to_wire())
    assert stored.best is not None

    def places(changes: dict[str, Any]) -> list[str]:
        assert stored.best is not None
        changed = stored.model_copy(update={"best": stored.best.model_copy(update=changes)})
        return [one.place for one in audit.of_status(plan, ledger, spec, changed, words=words)]

    assert places({}) == []
    assert places({"workers": 4}) == ["best.workers"]
    shown = stored.best.shown.model_copy(update={"time": "5.3 hours"})
    assert places({"shown": shown}) == (["best.shown.time"] if words else [])


def test_the_short_status_has_the_figures_of_each_point_and_of_the_best() -> None:
    full = status(
        a_spec(LINE, builders.block(workloads=["mnist_mlp"], workers=[1])), [pool()], {**LINE_RATES, 3: runs(500)}
    )
    shown = analysis_status.findings(full).shown
    assert full.best is not None
    assert shown.best is not None
    assert (shown.best.pool, shown.best.workers, shown.best.setting) == ("cpu", 2, "batch 64")
    assert (shown.best.hours, shown.best.cost) == (full.best.hours.mean, "10.526315789")
    assert shown.best.shown == full.best.shown
    one, two, four, alone = shown.results
    assert (one.efficiency, two.efficiency, four.efficiency) == pytest.approx((1.0, 0.95, 0.85))
    assert alone.efficiency is None
    assert one.samples_per_second == pytest.approx(1000)
    assert (one.cost, one.state, one.message, one.warnings) == ("0.277777778", "Measured", None, ("PriceStale",))
    assert two.summary is not None
    assert two.summary.endswith(", efficiency 95.0 %, USD 0.292 a million")
    assert alone.summary is not None
    assert alone.summary.endswith(" samples/s, USD 0.556 a million")
