# SPDX-License-Identifier: Apache-2.0
"""Each figure of a point is explained by the function that made it, and the numbers that are put in give the result."""

from decimal import Decimal
from typing import Any

import pytest

import builders
import explanations
import formulas
import measured
import studies_cut_short
from gpubench.control import explain, steps
from gpubench.control.explain import Explained
from gpubench.control.steps import Step
from gpubench.formula import Formula
from gpubench.measure import intervals
from gpubench.money import derived, exchange, ownership
from gpubench.money.amount import Rate
from gpubench.plan.plan import Plan

RATES = {0: (1000.0, 1010.0, 990.0), 1: (1900.0, 1890.0, 1910.0)}
GOAL = {"name": "much", "workload": "mnist_cnn", "samples": 3_600_000_000}


def explained(plan: Plan, index: int = 0, *, rates: Any = None, goals: Any = (), **more: Any) -> Explained:
    spec = builders.spec().model_copy(update={"goals": goals})
    return explain.explained(plan, measured.ledger(plan, rates or RATES, **more), spec, index=index)


def step(found: Explained, field: str) -> Step:
    [one] = [one for one in found.steps if one.field == field]
    return one


def test_a_throughput_is_explained_from_its_repeats_to_its_interval() -> None:
    found = explained(builders.plan())
    *repeats, mean, interval = [one for one in found.steps if "throughput" in one.name]
    assert [one.numbers for one in repeats] == ["10,000 / 10", "10,100 / 10", "9,900 / 10"]
    assert (mean.formula, mean.numbers) == ("(values) / repeats", "(1,000 + 1,010 + 990) / 3")
    assert interval.formula == "mean ± t x deviation / sqrt(repeats)"
    assert interval.numbers == "1,000 ± 4.302653 x 10 / sqrt(3)"
    assert interval.result == "1,000 ± 25 samples/s"
    assert "W. S. Gosset" in interval.source


def test_an_efficiency_is_explained_with_its_base_and_both_errors() -> None:
    plan = builders.plan()
    base = step(explained(plan, 0), "scaling.weak")
    assert (base.formula, base.result) == (None, "100 %")
    found = explained(plan, 1)
    mean = next(one for one in found.steps if one.name == "mean weak scaling efficiency")
    assert mean.numbers == "1,900 x 1 / (2 x 1,000)"
    assert "1 worker on cpu" in mean.source
    interval = step(found, "scaling.weak")
    assert interval.numbers is not None
    assert interval.numbers.startswith("1 / 2 x (1.9 ± ")
    assert "E. C. Fieller" in interval.source


def test_a_cost_is_explained_with_price_nodes_and_the_ends_of_the_throughput() -> None:
    plan = builders.plan()
    found = explained(plan, 1, goals=builders.spec(goals=[GOAL]).goals)
    cost = step(found, "cost.perMillionSamples")
    assert cost.formula == "rate x nodes x samples / throughput / 3600"
    assert cost.numbers == "USD 0.36 x 2 x 1,000,000 / 1,900 / 3600"
    assert cost.amount is not None
    assert cost.amount.mean == "0.105263158"
    assert cost.low is not None
    assert formulas.value(cost.low) == pytest.approx(float(cost.amount.low or 0), rel=1e-6)
    hours = step(found, "goals.much.hours")
    assert hours.numbers == "3,600,000,000 / 1,900 / 3600"
    assert "a lower bound" in hours.source
    assert step(found, "goals.much.cost").amount is not None


PRICES: dict[str, tuple[dict[str, Any], str, str]] = {
    "hour": ({"per_node_hour": "0.5"}, "None", "USD 0.5"),
    "slot": ({"per_slot_hour": "0.25"}, "USD 0.25 x 2", "USD 0.5"),
    "month": ({"per_month": "365", "hours_per_month": 730}, "USD 365 / 730", "USD 0.5"),
    "components": (
        {"components": [{"name": "machine", "per_hour": "0.1"}, {"name": "gpu", "per_hour": "0.2", "count": 2}]},
        "0.1 x 1 + 0.2 x 2",
        "USD 0.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", PRICES)
def test_each_form_of_a_price_is_explained(form: str) -> None:
    given, numbers, result = PRICES[form]
    pool = builders.pool(
        slots_per_node=2, price={**given, "currency": "USD", "as_of": "2026-11-01", "source": "a list"}
    )
    found = explained(builders.plan(builders.spec(), pool))
    first = next(one for one in found.steps if one.name == "price of a node for an hour")
    assert (str(first.numbers), first.result) == (numbers, result)
    assert first.source.endswith("a list, 2026-11-01") or "a list, 2026-11-01 (machine, gpu)" in first.source


def test_an_own_machine_and_an_exchange_are_explained() -> None:
    owned = {
        "purchase": "9000", "residual": "240", "lifetime_months": 12, "hours_per_month": 365, "watts": 1000,
        "idle_watts": 100, "per_kilowatt_hour": "0.2", "per_month": "10", "currency": "EUR", "as_of": "2026-11-01",
    }  # fmt: skip
    rate = {"from": "EUR", "rate": "1.5", "asOf": "2026-11-02", "source": "a bank"}
    a_spec = builders.spec(currency="USD", exchangeRates=[rate])
    found = explained(builders.plan(a_spec, builders.pool(price=None, ownership=owned)))
    hour, exchanged = [one for one in found.steps if one.name.startswith("price of a node")]
    assert hour.numbers == "((EUR 9000 - 240) / 12 + 10 + (1000 x 365 + 100 x 365) / 1000 x 0.2) / 365"
    assert formulas.value(hour.numbers) == pytest.approx(formulas.first_number(hour.result), rel=1e-6)
    assert exchanged.numbers is not None
    assert exchanged.numbers.endswith(" x 1.5")
    assert exchanged.source.endswith("a bank, 2026-11-02")
    explanations.check(found)


def test_a_gang_that_shares_its_nodes_pays_for_its_slots() -> None:
    found = explained(builders.plan(builders.spec(), builders.pool(slots_per_node=4, exclusive_nodes=False)), 1)
    nodes = next(one for one in found.steps if one.name == "nodes to pay for")
    assert (nodes.numbers, nodes.result) == ("2 / 4", "0.5")
    explanations.check(found)


@pytest.mark.parametrize(
    ("region", "numbers"),
    [
        (("Inside", "Included"), "34 + 4"),
        (("Outside", "Included"), "34"),
        (("Inside", "Excluded"), "34 + 4 - 14 - 2"),
        (("Outside", "Excluded"), "34 - 14"),
    ],
)
def test_seconds_of_a_training_are_explained_by_what_counts(region: tuple[str, str], numbers: str) -> None:
    timed = {"evaluation": region[0], "firstEpoch": region[1]}
    a_spec = builders.spec(
        builders.block(workers=[1], data={"source": "Generated"}, epochs=3),
        measure={"mode": "Training", "timedRegion": timed},
    )
    trainings = {0: [builders.training(nanoseconds=34_000_000_000 + extra) for extra in (0, 10**9, 2 * 10**9)]}
    found = explained(builders.plan(a_spec), rates={0: (1.0, 1.0, 1.0)}, trainings=trainings)
    first = next(one for one in found.steps if one.name == "seconds of repeat 1")
    assert first.numbers == numbers
    assert step(found, "cost.perRun").formula == "rate x nodes x seconds / 3600"
    explanations.check(found)


def test_derived_points_are_explained_by_the_point_that_was_measured() -> None:
    pools = (
        builders.pool(),
        builders.pool("spot", measured_by={"pool": "cpu"}),
        builders.pool("four", measured_by={"pool": "cpu", "workers": 1, "efficiency": "StudyMean"}),
    )
    a_spec = builders.spec(builders.block(pools=["cpu", "spot"]), builders.block(pools=["four"], workers=[4]))
    plan = builders.plan(a_spec, *pools)
    ledger = measured.ledger(plan, RATES)
    every = [explain.explained(plan, ledger, a_spec, index=index) for index in range(len(plan.points))]
    for found in every:
        explanations.check(found)
    repriced, extrapolated = every[3], every[4]
    assert step(repriced, "throughput").source == (
        "re-priced: measured at mnist_cnn on cpu, 2 workers at batch 64, float32; this point was not run"
    )
    last = step(extrapolated, "throughput")
    assert (last.formula, last.numbers) == ("times x throughput x mean efficiency", "4 x 1,000 x 0.95")
    assert next(one for one in extrapolated.steps if one.name == "mean efficiency").numbers == "(0.95) / 1"


def test_fewer_than_three_repeats_have_no_interval_and_that_is_said() -> None:
    found = explained(builders.plan(), rates={0: (1000.0, 1010.0), 1: (1900.0,)})
    assert step(found, "throughput").source == explain.NO_INTERVAL
    cost = step(found, "cost.perMillionSamples")
    assert (cost.low, cost.high) == (None, None)
    explanations.check(found)


def test_without_a_price_there_is_a_sentence_and_no_cost() -> None:
    found = explained(builders.plan(builders.spec(), builders.pool(price=None)))
    assert found.steps[-1].source == explain.NO_PRICE
    euro = builders.pool(price={"per_node_hour": "1", "currency": "EUR", "as_of": "2026-11-01"})
    other = explained(builders.plan(builders.spec(currency="USD"), euro))
    assert "no rate from EUR to USD" in other.steps[-1].source
    assert not any(one.amount for one in (*found.steps, *other.steps))


def test_a_point_without_figures_has_no_steps() -> None:
    assert explained(builders.plan(), rates={1: (1.0,)}).steps == ()


def test_a_bandwidth_is_explained_and_no_cost_of_messages() -> None:
    plan = builders.plan(builders.spec(builders.block(workloads=["allreduce"], workers=[2])))
    found = explained(plan, rates={0: (2e9, 2.02e9, 1.98e9)})
    assert step(found, "bandwidth.bus").formula == "algorithm bandwidth x 2 x (workers - 1) / workers"
    assert not any(one.amount for one in found.steps)
    explanations.check(found)


def test_repeats_that_were_added_say_at_which_confidence_they_are_computed() -> None:
    a_spec = builders.spec(measure={"repeats": {"min": 3, "max": 10, "until": {"relativeHalfWidth": "0.5"}}})
    found = explained(builders.plan(a_spec))
    assert "so that it holds at 95 %" in step(found, "throughput").source
    explanations.check(found)


# --- a formula says what its function does ----------------------------------------------------------------------------

RATE = Rate(per_node_hour=Decimal("3.06"), currency="USD")


@pytest.mark.parametrize(
    ("formula", "numbers", "computed"),
    [
        (
            derived.COST_OF_RUN,
            {"rate": "3.06", "nodes": "2", "seconds": "500"},
            derived.cost_of_run(RATE, nodes=2, seconds=Decimal(500)).value,
        ),
        (
            derived.COST_OF_SAMPLES,
            {"rate": "3.06", "nodes": "2", "samples": "70000", "throughput": "123"},
            derived.cost_of_samples(RATE, nodes=2, throughput=Decimal(123), samples=70_000).value,
        ),
        (
            derived.HOURS_TO_SAMPLES,
            {"samples": "70000", "throughput": "123"},
            derived.hours_to_samples(70_000, throughput=Decimal(123)),
        ),
        (
            derived.MEAN_EFFICIENCY,
            {"efficiencies": "0.9 + 0.8", "count": "2"},
            derived.mean_efficiency([Decimal("0.9"), Decimal("0.8")]),
        ),
        (
            derived.EXTRAPOLATED,
            {"times": "4", "throughput": "123", "mean_efficiency": "0.9"},
            derived.extrapolated(Decimal(123), times=4, efficiencies=[Decimal("0.9")]),
        ),
        (intervals.MEAN, {"values": "1 + 2 + 6", "repeats": "3"}, intervals.mean([1.0, 2.0, 6.0])),
        (exchange.EXCHANGED, {"amount": "3", "exchange_rate": "1.2"}, Decimal("3.6")),
    ],
)
def test_a_formula_gives_what_its_function_gives(formula: Formula, numbers: dict[str, str], computed: Any) -> None:
    assert formulas.value(formula.filled(**numbers)) == pytest.approx(float(computed), rel=1e-12)
    assert all(name.replace("_", " ") in formula.text for name in numbers)
    with pytest.raises(KeyError):
        formula.filled(**dict(list(numbers.items())[1:]))


def test_the_interval_of_a_ratio_follows_from_its_numbers_where_a_base_that_scatters_all_but_opens_it() -> None:
    """g is 0.9993 here: from numbers of seven digits the lower end would be wrong in the fourth."""
    ratio = intervals.fieller([100.0, 101.0, 99.5], [100.0, 100.0, 43.41])
    assert ratio is not None
    assert 0.999 < ratio.g < 1
    printed = formulas.ends(intervals.FIELLER.filled(**steps.of_fieller(ratio)))
    exact = ratio.interval
    assert printed == pytest.approx((exact.low, exact.high), rel=1e-5)


def test_the_formula_of_an_own_hour_gives_what_its_function_gives() -> None:
    owned = builders.pool(
        price=None,
        ownership={
            "purchase": "9000", "residual": "240", "lifetime_months": 12, "hours_per_month": 365, "watts": 1000,
            "idle_watts": 100, "per_kilowatt_hour": "0.2", "per_month": "10", "currency": "EUR", "as_of": "2026-11-01",
        },
    ).spec.ownership  # fmt: skip
    assert owned is not None
    line = ownership.HOUR_OF_USE.filled(
        purchase="9000", residual="240", lifetime_months="12", fixed_per_month="10", watts="1000", idle_watts="100",
        hours_used="365", idle_hours="365", price_of_a_kilowatt_hour="0.2",
    )  # fmt: skip
    assert formulas.value(line) == pytest.approx(float(ownership.owned_hour(owned).per_node_hour), rel=1e-12)


def test_a_point_that_was_cut_short_is_explained_as_the_status_has_it() -> None:
    here = studies_cut_short.study({"budget": "0.22"})
    status = here.run()
    assert any(result.omission is not None for result in status.results)
    for index, result in enumerate(status.results):
        found = explain.explained(here.plan, here.ledger(), here.study.spec, index=index)
        assert found.point.to_wire() == result.to_wire()
