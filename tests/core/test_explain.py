# SPDX-License-Identifier: Apache-2.0
"""Each headline figure of a point has its formula, inputs that give it, and where these come from."""

from decimal import Decimal
from statistics import fmean
from typing import Any

import pytest

import builders
import explanations
import formulas
import measured
import studies_cut_short
import world as worlds
from gpubench.analysis import explain, repeats
from gpubench.analysis.explain import Explained, Row
from gpubench.api.pool import GpuPool
from gpubench.cost import billing, whatif
from gpubench.cost.price import Rate
from gpubench.plan.plan import Plan
from gpubench.scheduler.ledger import Ledger, Outcome
from gpubench.scheduler.observed import Disruption
from gpubench.stats import intervals
from gpubench.units import Formula
from gpubench.values import Interval
from gpubench.workloads import Precision
from world import World

RATES = {0: (1000.0, 1010.0, 990.0), 1: (1900.0, 1890.0, 1910.0)}
GOAL = {"name": "much", "workload": "mnist_cnn", "samples": 3_600_000_000}


def explained(plan: Plan, index: int = 0, *, rates: Any = None, goals: Any = (), **more: Any) -> Explained:
    spec = builders.spec().model_copy(update={"goals": goals})
    found = explain.explained(plan, measured.ledger(plan, rates or RATES, **more), spec, index=index)
    explanations.check(found)
    return found


def row(found: Explained, field: str) -> Row:
    [one] = [one for one in found.rows if one.field == field]
    return one


def test_a_throughput_is_explained_by_its_repeats_and_the_attempts_that_measured_them() -> None:
    plan = builders.plan()
    found = row(explained(plan), "throughput")
    assert (found.formula, found.text) == ("mean x exp(± t x deviation / mean / sqrt(repeats))", "1,000 ± 25 samples/s")
    assert found.inputs == ("mean = 1,000", "t = 4.302653", "deviation = 10", "repeats = 3")
    assert found.source is not None
    assert "Meeker and Escobar" in found.source
    assert found.source.endswith("; at 95 %")
    attempts = ", ".join(f"{trial.id}.1" for trial in plan.repeats_of_points()[0])
    assert found.origin == f"ledger, attempts {attempts}: 1,000, 1,010, 990"


def test_an_efficiency_is_explained_with_its_base() -> None:
    plan = builders.plan()
    base = row(explained(plan, 0), "scaling.weak")
    assert (base.formula, base.text, base.origin) == (None, "100 %", "by definition: this is the base")
    found = row(explained(plan, 1), "scaling.weak")
    assert found.inputs == ("throughput = 1,900", "base throughput = 1,000", "workers = 2", "base workers = 1")
    assert found.origin.endswith("the base is 1 worker on cpu")
    assert found.source is not None
    assert "of the ratio's logarithm" in found.source
    assert found.source.endswith("; at 95 %")


def test_a_ratio_to_a_base_is_explained_at_the_confidence_of_its_intervals() -> None:
    plan, spec = builders.plan(), builders.spec(baseline={"workers": 1})
    found = row(explain.explained(plan, measured.ledger(plan, RATES), spec, index=1), "relative.throughput")
    assert found.source is not None
    assert found.source.endswith("; at 95 %")


def test_a_cost_is_explained_with_price_nodes_and_the_ends_of_the_throughput() -> None:
    found = explained(builders.plan(), 1, goals=builders.spec(goals=[GOAL]).goals)
    cost = row(found, "cost.perMillionSamples")
    assert cost.formula == "rate x nodes x samples / throughput / 3600"
    assert cost.inputs[:3] == ("rate = USD 0.36", "nodes = 2", "samples = 1,000,000")
    assert cost.inputs[3].startswith("throughput = 1,900 (1,875.32")
    assert "Price of cpu: USD 0.36 per node-hour" in cost.origin
    hours = row(found, "goals.much.hours")
    assert hours.inputs[0] == "samples = 3,600,000,000"
    assert hours.source is not None
    assert "a lower bound" in hours.source
    assert row(found, "goals.much.cost").figure is not None


def test_a_price_in_another_currency_is_told_with_its_rate() -> None:
    euro = builders.pool(price={"per_node_hour": "1", "currency": "EUR", "as_of": "2026-11-01", "source": "a list"})
    rate = {"from": "EUR", "rate": "1.5", "asOf": "2026-11-02", "source": "a bank"}
    found = explained(builders.plan(builders.spec(currency="USD", exchangeRates=[rate]), euro))
    cost = row(found, "cost.perMillionSamples")
    assert cost.inputs[0] == "rate = USD 1.5"
    assert cost.origin.endswith("USD 1.5 per node-hour, read 2026-11-01 (a list); 1 EUR = 1.5 USD on 2026-11-02")


def test_a_gang_that_shares_its_nodes_pays_for_its_slots() -> None:
    found = explained(builders.plan(builders.spec(), builders.pool(slots_per_node=4, exclusive_nodes=False)), 1)
    assert "nodes = 0.5" in row(found, "cost.perMillionSamples").inputs


@pytest.mark.parametrize(
    ("region", "first", "words"),
    [
        (("Inside", "Included"), "38", "the evaluation after each epoch, the first epoch included"),
        (("Outside", "Included"), "34", "without the evaluation after each epoch, the first epoch included"),
        (("Inside", "Excluded"), "22", "the evaluation after each epoch, the first epoch left out"),
        (("Outside", "Excluded"), "20", "without the evaluation after each epoch, the first epoch left out"),
    ],
)
def test_seconds_of_a_training_are_explained_by_what_counts(region: tuple[str, str], first: str, words: str) -> None:
    timed = {"evaluation": region[0], "firstEpoch": region[1]}
    a_spec = builders.spec(
        builders.block(workers=[1], data={"source": "Generated"}, epochs=3),
        measure={"mode": "Training", "timedRegion": timed},
    )
    trainings = {0: [builders.training(nanoseconds=34_000_000_000 + extra) for extra in (0, 10**9, 2 * 10**9)]}
    found = explained(builders.plan(a_spec), rates={0: (1.0, 1.0, 1.0)}, trainings=trainings)
    seconds = row(found, "training.seconds")
    assert f": {first}, " in seconds.origin
    assert seconds.origin.endswith(words)
    assert row(found, "cost.perRun").formula == "rate x nodes x seconds / 3600"


def test_derived_points_name_the_point_that_was_measured() -> None:
    pools = (
        builders.pool(),
        builders.pool("spot", measured_by={"pool": "cpu"}),
        builders.pool("four", measured_by={"pool": "cpu", "workers": 1, "efficiency": "StudyMean"}),
    )
    a_spec = builders.spec(builders.block(pools=["cpu", "spot"]), builders.block(pools=["four"], workers=[4]))
    plan = builders.plan(a_spec, *pools)
    repriced, extrapolated = (row(explained(plan, index), "throughput") for index in (3, 4))
    assert (repriced.formula, extrapolated.formula) == (None, None)
    assert repriced.origin == "not run, repriced from mnist_cnn on cpu, 2 workers at batch 64, float32"
    assert extrapolated.origin == "not run, extrapolated from mnist_cnn on cpu, 1 worker at batch 64, float32"
    [told] = [one.message for one in explained(plan, 4).point.warnings if one.reason == "Extrapolated"]
    assert "times 4, times 0.95, the mean efficiency of 1 measured point" in told


def test_fewer_than_three_repeats_have_no_interval_and_that_is_said() -> None:
    found = explained(builders.plan(), rates={0: (1000.0, 1010.0), 1: (1900.0,)})
    speed = row(found, "throughput")
    assert (speed.formula, speed.inputs) == ("(values) / repeats", ("values = 1,000 + 1,010", "repeats = 2"))
    assert speed.source is not None
    assert speed.source.endswith(explain.NO_INTERVAL)
    assert row(found, "cost.perMillionSamples").inputs[-1] == "throughput = 1,005"


def test_without_a_price_there_is_a_sentence_and_no_cost() -> None:
    found = explained(builders.plan(builders.spec(), builders.pool(price=None)))
    assert (found.rows[-1].field, found.rows[-1].origin) == ("cost", explain.NO_PRICE)
    euro = builders.pool(price={"per_node_hour": "1", "currency": "EUR", "as_of": "2026-11-01"})
    other = explained(builders.plan(builders.spec(currency="USD"), euro))
    assert "no rate from EUR to USD" in other.rows[-1].origin


def test_a_point_without_figures_has_no_rows() -> None:
    assert explained(builders.plan(), rates={1: (1.0,)}).rows == ()


def test_a_bandwidth_is_explained_and_no_cost_of_messages() -> None:
    plan = builders.plan(builders.spec(builders.block(workloads=["allreduce"], workers=[2])))
    found = explained(plan, rates={0: (2e9, 2.02e9, 1.98e9)})
    assert [one.field for one in found.rows] == ["throughput", "bandwidth.bus"]


def test_repeats_that_were_added_say_at_which_confidence_they_are_computed() -> None:
    a_spec = builders.spec(measure={"repeats": {"min": 3, "max": 10, "until": {"relativeHalfWidth": "0.5"}}})
    source = row(explained(builders.plan(a_spec)), "throughput").source
    assert source is not None
    assert source.endswith(" %")
    assert not source.endswith("at 95 %")


def test_a_point_that_was_cut_short_is_explained_as_the_status_has_it() -> None:
    here = studies_cut_short.study({"budget": "0.22"})
    status = here.run()
    assert any(result.omission is not None for result in status.results)
    for index, result in enumerate(status.results):
        found = explain.explained(here.plan, here.ledger(), here.study.spec, index=index)
        assert found.point.to_wire() == result.to_wire()


# --- bills ------------------------------------------------------------------------------------------------------------

PRICE = {"per_node_hour": "3.60", "currency": "USD", "as_of": "2023-11-01"}  # a thousandth of a dollar a second
FEES = [
    {"name": "licence", "amount": "0.5", "per": "Run"},
    {"name": "disk", "amount": "0.36", "per": "Hour"},
]


def pool(**spec: Any) -> GpuPool:
    return builders.pool(price=PRICE | spec.pop("price", {}), **spec)


def here(a_pool: GpuPool, *, workers: int = 1, repeats: int = 3, **fields: Any) -> World:
    spec = builders.spec(builders.block(workers=[workers]), measure={"repeats": {"min": repeats}})
    return worlds.world(builders.study(spec), builders.plan(spec, a_pool), **fields)


def preempted_first(trial: str, attempt: int) -> tuple[int, str] | Disruption:
    return builders.disrupted() if attempt == 1 else worlds.success(trial, attempt)


BILLED: dict[str, dict[str, Any]] = {
    "by the second": {"a_pool": pool()},
    "a gang of two nodes": {"a_pool": pool(), "workers": 2},
    "increment, minimum and fees": {
        "a_pool": pool(price={"billing": {"increment_seconds": 60, "minimum_seconds": 120}, "fees": FEES}),
        "workers": 2,
    },
    "shared nodes": {"a_pool": pool(slots_per_node=4, exclusive_nodes=False), "workers": 2},
    "lost attempts": {"a_pool": pool(price={"fees": FEES}), "fate": preempted_first},
}


@pytest.mark.parametrize("kind", BILLED)
def test_a_bill_is_the_sum_of_the_bills_of_all_attempts(kind: str) -> None:
    world = here(**BILLED[kind])
    (result,) = world.run().results
    found = explain.explained(world.plan, world.ledger(), world.study.spec, index=0)
    assert found.point.to_wire() == result.to_wire()
    explanations.check(found)
    assert result.bill is not None
    [amounts] = row(found, "bill.total").inputs
    assert amounts.count(" + ") + 1 == result.bill.attempts
    assert all(record.key in row(found, "bill.total").origin for record in world.ledger().records)


def test_a_point_without_a_figure_is_explained_by_what_it_was_billed_and_what_is_not_known_of_it() -> None:
    spec = builders.spec(builders.block(workers=[1]))
    plan = builders.plan(spec, pool())
    seen = builders.attempt(trial=plan.trials[0].id, pod_times=((0.0, 1.0, 30.0),))
    gone = builders.attempt(trial=plan.trials[0].id, attempt=2, job="another", outcome=Outcome.PREEMPTED)
    found = explain.explained(plan, Ledger().with_records([seen, gone]), spec, index=0)
    explanations.check(found)
    [bill] = found.rows
    assert (bill.text, bill.inputs) == ("USD 0.030000", ("bills of attempts = 0.03",))
    assert bill.origin.endswith("; 1 held nodes for longer than is known")


def test_without_a_price_no_bill_is_explained() -> None:
    world = here(builders.pool(price=None), repeats=1)
    world.run()
    found = explain.explained(world.plan, world.ledger(), world.study.spec, index=0)
    assert not any(one.field.startswith("bill.") for one in found.rows)


# --- a formula says what its function does ----------------------------------------------------------------------------

RATE = Rate(per_node_hour=Decimal("3.06"), currency="USD")
BASE = Rate(per_node_hour=Decimal("0.9"), currency="USD")
MESSAGES = repeats.bandwidth(Interval(mean=123.0), workers=8, precision=Precision.FLOAT32)


@pytest.mark.parametrize(
    ("formula", "inputs", "computed"),
    [
        (
            billing.COST_OF_RUN,
            ("rate = 3.06", "nodes = 2", "seconds = 500"),
            billing.cost_of_run(RATE, nodes=2, seconds=Decimal(500)).value,
        ),
        (
            billing.COST_OF_SAMPLES,
            ("rate = 3.06", "nodes = 2", "samples = 70000", "throughput = 123"),
            billing.cost_of_samples(RATE, nodes=2, throughput=Decimal(123), samples=70_000).value,
        ),
        (
            billing.HOURS_TO_SAMPLES,
            ("samples = 70000", "throughput = 123"),
            billing.hours_to_samples(70_000, throughput=Decimal(123)),
        ),
        (
            whatif.RELATIVE_COST,
            ("relative time = 0.5", "rate = 3.06", "nodes = 2", "base rate = 0.9", "base nodes = 4"),
            whatif.relative_cost(
                billing.cost_of_run(RATE, nodes=2, seconds=Decimal(50)),
                base_cost=billing.cost_of_run(BASE, nodes=4, seconds=Decimal(100)),
                base="the base",
            ),
        ),
        (intervals.MEAN, ("values = 1 + 2 + 6", "repeats = 3"), fmean([1.0, 2.0, 6.0])),
        (
            intervals.RATIO_OF_MEANS,
            ("mean = 3", "other mean = 2"),
            intervals.of_ratio([2.0, 4.0], [1.0, 3.0]).mean,
        ),
        (
            repeats.BUS_BANDWIDTH,
            ("throughput = 123", "bytes of an element = 4", "workers = 8"),
            MESSAGES and MESSAGES.bus.mean,
        ),
    ],
)
def test_a_formula_gives_what_its_function_gives(formula: Formula, inputs: tuple[str, ...], computed: Any) -> None:
    assert formulas.value(formulas.filled(formula.text, inputs)) == pytest.approx(float(computed), rel=1e-12)
    with pytest.raises(AssertionError):
        formulas.value(formulas.filled(formula.text, inputs[1:]))
