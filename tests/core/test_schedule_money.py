# SPDX-License-Identifier: Apache-2.0
"""What a schedule costs a month: the figures that Max Woolf published, out of the status for his study's manifest."""

import csv
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

import histories
from gpubench.api import validate
from gpubench.api.pool import GpuPool
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, Monthly
from gpubench.schedule import cron, history
from gpubench.schedule.history import Entry, Held

ROOT = Path(__file__).parents[2]
MANIFEST = ROOT / "jobs" / "examples" / "schedules" / "cheap-cron-2018.yaml"
GOLDEN = Path(__file__).parent / "published" / "golden.csv"
NOW = "2018-11-20T00:00:00Z"

DOCUMENTS = [document for document in yaml.safe_load_all(MANIFEST.read_text()) if document]
POOLS = tuple(validate.load_pool(document) for document in DOCUMENTS if document["kind"] == "GpuPool")
SPECS = {
    document["metadata"]["name"]: validate.load_schedule(document).spec
    for document in DOCUMENTS
    if document["kind"] == "GpuBenchmarkSchedule"
}


def of(
    spec: GpuBenchmarkScheduleSpec, *, pools: tuple[GpuPool, ...] = POOLS, entries: tuple[Entry, ...] = ()
) -> Monthly:
    found = history.projected(spec, pools, entries, planned_at=NOW)
    assert found is not None
    return found


def changed(spec: GpuBenchmarkScheduleSpec, **costs: Any) -> GpuBenchmarkScheduleSpec:
    wire = spec.to_wire()
    wire["costs"] = {**spec.costs.to_wire(), **costs}
    return GpuBenchmarkScheduleSpec.model_validate(wire)


STATUS = {name: of(spec) for name, spec in SPECS.items()}
FOUR_HOURS, ONE_HOUR = STATUS["cheap-cron-4h"], STATUS["cheap-cron-1h"]
TEN_MINUTES, AN_HOUR = STATUS["cheap-cron-ten-minutes"], STATUS["cheap-cron-an-hour"]
ALWAYS_ON = STATUS["cheap-cron-always-on"]


def number(text: str | None) -> Decimal:
    assert text is not None
    return Decimal(text)


def line(found: Monthly, name: str) -> Decimal:
    return next(Decimal(line.amount) for line in found.lines if line.name == name)


EXTRA = number(TEN_MINUTES.compute) - number(FOUR_HOURS.compute)

#: Every product row of the cheap cron in golden.csv, from the status.
FIGURES: dict[str, Decimal] = {
    "cron.vm.4h": number(FOUR_HOURS.compute),
    "cron.scheduler": line(FOUR_HOURS, "scheduler"),
    "cron.functions.4h": line(FOUR_HOURS, "functions"),
    "cron.total.4h": number(FOUR_HOURS.total),
    "cron.vm.1h": number(ONE_HOUR.compute),
    "cron.functions.1h": line(ONE_HOUR, "functions"),
    "cron.total.1h": number(ONE_HOUR.total),
    "cron.vm.10min_minimum.extra": EXTRA,
    "cron.vm.10min_minimum.extra_percent": 100 * EXTRA / number(FOUR_HOURS.total),
    "cron.vm.1h_minimum": number(AN_HOUR.compute),
    "cron.gke.always_on": number(ALWAYS_ON.always_on),
    "cron.vm.always_on_720": number(FOUR_HOURS.always_on),
}


def rows() -> dict[str, dict[str, str]]:
    with GOLDEN.open() as table:
        return {
            row["id"]: row
            for row in csv.DictReader(line for line in table if not line.startswith("#"))
            if row["id"].startswith("cron.")
        }


def test_every_product_figure_of_the_study_is_compared() -> None:
    assert {name for name, row in rows().items() if row["use"] == "product"} == set(FIGURES)


@pytest.mark.parametrize("name", FIGURES)
def test_the_status_has_the_published_figure(name: str) -> None:
    row = rows()[name]
    places = Decimal(1).scaleb(-int(row["round_dp"]))
    assert FIGURES[name].quantize(places, rounding=ROUND_HALF_UP) == Decimal(row["expected_half_up"])


def test_the_status_says_over_how_many_hours_and_runs() -> None:
    assert (FOUR_HOURS.hours, FOUR_HOURS.runs, FOUR_HOURS.shown) == (720, "180", "USD 0.76")
    assert (FOUR_HOURS.currency, FOUR_HOURS.fixed) == ("USD", "0.6"), "the disk and the scheduler"
    assert FOUR_HOURS.sentence == (
        "180 runs in 720 hours, each holding 1 node of n1-preemptible for 2m00s, as costs.expectedRun says"
    )
    assert sum(Decimal(line.amount) for line in FOUR_HOURS.lines) == number(FOUR_HOURS.total)


def test_a_cold_start_is_billed_with_each_run() -> None:
    """A node that boots for a minute and stays for ten is billed for them, whatever the pods did meanwhile."""
    spec = SPECS["cheap-cron-4h"]
    entries = ran([120.0])
    with_boot = of(changed(spec, coldStart="11m"), entries=entries)
    assert number(of(spec, entries=entries).compute) == Decimal("0.06")
    assert number(with_boot.compute) == Decimal("0.39")  # 13 minutes, 6 times a day, 30 days


def ran(seconds: list[float], *, pool: str = "n1-preemptible", succeeded: bool = True) -> tuple[Entry, ...]:
    held = [(Held(pool=pool, nodes=1, seconds=each),) for each in seconds]
    return tuple(
        histories.entry(index, []).model_copy(update={"held": one, "succeeded": succeeded})
        for index, one in enumerate(held, start=1)
    )


def test_what_was_measured_comes_before_what_was_expected() -> None:
    found = of(SPECS["cheap-cron-4h"], entries=ran([180.0, 300.0]))
    assert found.basis == "Measured"
    assert number(found.compute) == Decimal("0.12")


def test_a_run_whose_node_was_replaced_makes_no_second_node_of_all_the_others() -> None:
    """By hand: 100, 100 and 2 x 50 node-seconds are 100 a run, of one node."""
    steady, replaced = (Held(pool="n1-preemptible", nodes=nodes, seconds=100 / nodes) for nodes in (1, 2))
    entries = tuple(
        histories.entry(number, []).model_copy(update={"held": (held,)})
        for number, held in enumerate((steady, steady, replaced), start=1)
    )
    found = of(SPECS["cheap-cron-4h"], entries=entries)
    assert "each holding 1 node of n1-preemptible for 1m40s" in found.sentence


def test_runs_on_other_pools_and_runs_that_failed_say_nothing_of_how_long_one_takes() -> None:
    spec = SPECS["cheap-cron-4h"]
    assert of(spec, entries=ran([600.0], pool="n1-an-hour")).basis == "Given"
    assert of(spec, entries=ran([600.0], succeeded=False)).basis == "Given"


def test_without_either_it_is_what_is_assumed_of_the_trials() -> None:
    spec = SPECS["cheap-cron-4h"]
    wire = spec.to_wire()
    wire["costs"] = {"hoursPerMonth": 720}
    found = of(GpuBenchmarkScheduleSpec.model_validate(wire))
    assert found.basis == "Estimated"
    assert number(found.compute) > 0


def test_without_a_price_there_is_no_amount_and_a_sentence() -> None:
    found = of(SPECS["cheap-cron-4h"], pools=())
    assert found.total is None
    assert found.shown is None
    assert found.sentence.startswith("no cost: GpuPool n1-preemptible is not there: apply it")


def test_a_fleet_check_has_each_node_of_its_pool_once() -> None:
    """Whatever runs at the same time: 32 nodes for as long as one of them is measured, and for their cold start."""
    documents = yaml.safe_load_all((MANIFEST.parent / "weekly-fleet-check.yaml").read_text())
    pool, schedule = [document for document in documents if document]
    pool["spec"]["price"] = {"perNodeHour": "36", "currency": "USD", "asOf": "2018-11-01"}
    spec, pools = validate.load_schedule(schedule).spec, (validate.load_pool(pool),)
    found = of(spec, pools=pools)
    assert "32 nodes of fleet for 2m45s" in found.sentence
    assert number(found.per_run) == pytest.approx(Decimal("32") * 165 / 100, abs=Decimal("0.00001"))
    cold = of(changed(spec, coldStart="100s"), pools=pools)
    assert number(cold.per_run) - number(found.per_run) == pytest.approx(Decimal(32), abs=Decimal("0.00001"))


def shared(pool: GpuPool, **spec: Any) -> GpuPool:
    return pool.model_copy(update={"spec": pool.spec.model_copy(update=spec)})


def test_a_run_that_leaves_slots_of_its_node_to_others_pays_for_its_own_alone() -> None:
    half = tuple(shared(pool, slots_per_node=2, exclusive_nodes=False) for pool in POOLS)
    alone = tuple(shared(pool, slots_per_node=2, exclusive_nodes=True) for pool in POOLS)
    paid, whole = (number(of(SPECS["cheap-cron-4h"], pools=pools).compute) for pools in (half, alone))
    assert whole == number(FOUR_HOURS.compute) == 2 * paid


def test_each_pool_of_a_run_is_paid_for_by_its_own_terms() -> None:
    wire: Any = SPECS["cheap-cron-4h"].to_wire()
    wire["benchmarkTemplate"]["spec"]["sweep"][0]["pools"] = ["n1-preemptible", "n1-an-hour"]
    pools = tuple(
        shared(pool, slots_per_node=2, exclusive_nodes=False) if pool.name == "n1-an-hour" else pool for pool in POOLS
    )
    found = of(GpuBenchmarkScheduleSpec.model_validate(wire), pools=pools)
    assert number(found.compute) == number(FOUR_HOURS.compute) + number(AN_HOUR.compute) / 2


def test_a_pool_that_has_no_price_is_named() -> None:
    found = of(SPECS["cheap-cron-4h"], pools=tuple(shared(pool, price=None) for pool in POOLS))
    assert found.sentence == "no cost: GpuPool n1-preemptible is not there, or has neither price nor ownership"


def test_a_benchmark_none_of_whose_points_is_run_costs_nothing_and_says_so() -> None:
    wire: Any = SPECS["cheap-cron-4h"].to_wire()
    wire["benchmarkTemplate"]["spec"]["sweep"][0]["workers"] = [2]  # the pool has one node, with one slot
    found = of(GpuBenchmarkScheduleSpec.model_validate(wire))
    assert found.total is None
    assert found.sentence == "no cost: none of its points is run: correct benchmarkTemplate.spec.sweep"


def fee(per: str) -> dict[str, str]:
    return {"name": "palace", "amount": "999999999999", "count": "2", "per": per}


@pytest.mark.parametrize(
    ("schedule", "fees", "per_node_hour"),
    [
        ("0 */4 * * *", [fee("Month")], "0.01"),
        ("0 0 29 2 *", [fee("Run")], "0.01"),  # a month has a fiftieth of a run
        ("0 */4 * * *", [], "2000000000"),  # six hours would do, but not all 720
    ],
    ids=["a month", "a run", "nodes that are never stopped"],
)
def test_an_amount_that_no_status_could_hold_is_a_sentence(
    schedule: str, fees: list[dict[str, str]], per_node_hour: str
) -> None:
    spec = changed(SPECS["cheap-cron-4h"].model_copy(update={"schedule": schedule}), fees=fees)
    prices = [(pool, pool.spec.price) for pool in POOLS]
    dear = tuple(
        shared(pool, price=price.model_copy(update={"per_node_hour": per_node_hour})) for pool, price in prices if price
    )
    found = of(spec, pools=dear)
    assert found.total is None
    assert "1,000,000,000,000 USD or more" in found.sentence


def test_fees_in_another_currency_are_refused_in_a_sentence() -> None:
    found = of(changed(SPECS["cheap-cron-4h"], currency="EUR"))
    assert found.total is None
    assert "USD" in found.sentence
    assert "EUR" in found.sentence


@pytest.mark.parametrize(
    ("schedule", "runs"),
    [("0 */4 * * *", "180"), ("* * * * *", "43200"), ("0 0 * * 0", "4.291581"), ("0 0 29 2 *", "0.020534")],
)
def test_runs_of_a_month_are_an_average(schedule: str, runs: str) -> None:
    """By hand: of 1,461 days 209 are Sundays (2021 to 2024), and one is a 29th of February: x 30 / 1461."""
    spec = SPECS["cheap-cron-4h"].model_copy(update={"schedule": schedule})
    assert Decimal(of(spec).runs) == pytest.approx(Decimal(runs), abs=Decimal("0.000001"))


def test_the_average_counts_days_and_not_what_clocks_do() -> None:
    here = cron.timetable("30 2 * * *", time_zone="Europe/Berlin")
    assert cron.runs_per_hour(here) * 24 == 1


@pytest.mark.parametrize("path", sorted(MANIFEST.parent.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_schedule_of_the_studies_is_valid_and_can_be_read(path: Path) -> None:
    documents = [document for document in yaml.safe_load_all(path.read_text()) if document]
    pools = tuple(validate.load_pool(document) for document in documents if document["kind"] == "GpuPool")
    schedules = [validate.load_schedule(document) for document in documents if document["kind"] != "GpuPool"]
    assert schedules
    for schedule in schedules:
        assert cron.timetable(schedule.spec.schedule, time_zone=schedule.spec.time_zone).after(0) > 0
        basis = "Given" if schedule.spec.costs.expected_run else "Estimated"
        assert of(schedule.spec, pools=pools).basis == (basis if all(pool.spec.price for pool in pools) else None)
