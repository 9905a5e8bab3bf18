# SPDX-License-Identifier: Apache-2.0
"""Every figure that the published studies print, or that follows from them, comes out of gpubench's own functions.

`published/golden.csv` has the figures, their inputs and their sources. Each row of use `product` is mapped by its id to
a call of the function that answers a user's question of the same kind; no formula of the table is evaluated. What comes
out, rounded half up to the publication's places, must be `expected_half_up`: the right figure also where the
publication is wrong. Beside each mapping stands a mistake that somebody could make, and the rows must notice it.
"""

import csv
import functools
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

import builders
import published_formulas
from gpubench.analysis import efficiency
from gpubench.analysis.efficiency import MeasuredPoint
from gpubench.api.pool_price import Ownership
from gpubench.cost import billing, price, whatif
from gpubench.cost.billing import BY_THE_SECOND, BillingRule
from gpubench.cost.price import Amount, OwnedNode, Rate
from gpubench.plan import pool_prices
from gpubench.plan.expand import expand
from gpubench.scheduler.environments import EnvironmentKey
from gpubench.stats import gang
from published_formulas import MonthlyCost, Relative

GOLDEN = Path(__file__).parent / "published" / "golden.csv"


class Row(NamedTuple):
    """A figure of the table."""

    id: str
    inputs: dict[str, Decimal | str | list[Decimal]]
    exact: Decimal
    places: int
    expected: Decimal
    published: Decimal | None
    use: str
    source: str

    def __str__(self) -> str:
        return self.id

    def number(self, name: str) -> Decimal:
        """An input; the table writes some as a fraction (167/43)."""
        value = self.inputs[name]
        assert not isinstance(value, list)
        dividend, _, divisor = str(value).partition("/")
        return Decimal(dividend) / Decimal(divisor or 1)

    def numbers(self, name: str) -> list[Decimal]:
        """An input that is a list."""
        value = self.inputs[name]
        assert isinstance(value, list)
        return value


@functools.cache
def rows(use: str) -> tuple[Row, ...]:
    with GOLDEN.open(newline="") as file:
        table = csv.DictReader(line for line in file if not line.startswith("#"))
        found = [
            Row(
                id=row["id"],
                inputs=json.loads(row["inputs_json"], parse_float=Decimal, parse_int=Decimal),
                exact=Decimal(row["exact_9dp"]),
                places=int(row["round_dp"]),
                expected=Decimal(row["expected_half_up"]),
                published=Decimal(row["published"]) if row["published"] else None,
                use=row["use"],
                source=row["source"],
            )
            for row in table
        ]
    return tuple(row for row in found if row.use == use)


def usd(per_hour: Decimal | str) -> Rate:
    return Rate(per_node_hour=Decimal(per_hour), currency="USD")


def dollars(value: Decimal | str) -> Amount:
    return Amount(value=Decimal(value), currency="USD")


# --- what an hour of a node costs -----------------------------------------------------------------------------------


def rented_by_parts(**parts: tuple[Decimal | str, int]) -> Rate:
    """The rate of a pool whose node is priced by its parts: price and count of each."""
    components = [{"name": name, "per_hour": str(paid), "count": count} for name, (paid, count) in parts.items()]
    pool = builders.pool(price={"components": components, "currency": "USD", "as_of": "2018-07-01"})
    rate = pool_prices.rate(pool.spec)
    assert rate is not None
    return rate


def machine_and_gpus(row: Row) -> Decimal:
    return rented_by_parts(
        machine=(row.number("machine"), 1), gpu=(row.number("gpu"), int(row.number("gpus")))
    ).per_node_hour


def machine_of_processors(row: Row) -> Decimal:
    return rented_by_parts(
        processor=(row.number("n1_standard_1"), int(row.number("vcpus"))), gpu=(row.number("gpu"), 1)
    ).per_node_hour


def machine_and_gpu(row: Row) -> Decimal:
    return rented_by_parts(machine=(row.number("machine"), 1), gpu=(row.number("gpu"), 1)).per_node_hour


def machine_of_one_processor(row: Row) -> Decimal:
    return row.number("n1_standard_1") + row.number("gpu")


def two_of_sixteen_processors(row: Row) -> Decimal:
    return rented_by_parts(cpu16=(row.number("cpu16"), 2)).per_node_hour


# Max Woolf, November 2017: a GPU each, on an n1-standard-1.
K80 = functools.partial(rented_by_parts, gpu=("0.45", 1), machine=("0.0475", 1))
P100 = functools.partial(rented_by_parts, gpu=("1.46", 1), machine=("0.0475", 1))


def p100_over_k80(_row: Row) -> Decimal:
    hours = [billing.cost_of_hours(rate, nodes=1, hours=Decimal(1)) for rate in (P100(), K80())]
    return whatif.relative_cost(hours[0], base_cost=hours[1], base="a K80")


# --- time is paid for -----------------------------------------------------------------------------------------------


def hours_paid(row: Row) -> Decimal:
    return billing.cost_of_hours(usd(row.number("usd_per_hour")), nodes=1, hours=row.number("hours")).value


def with_the_price_lists_month(row: Row) -> Decimal:
    hours = row.number("hours")
    return row.number("usd_per_hour") * (price.HOURS_PER_MONTH if hours > 700 else hours)


def run_paid(row: Row) -> Decimal:
    return billing.cost_of_run(usd(row.number("usd_per_hour")), nodes=1, seconds=row.number("seconds")).value


def run_billed(rule: BillingRule) -> Callable[[Row], Decimal]:
    """RaRe Technologies, 2018: hours of one node at an hourly price, by the provider's way of billing."""

    def figure(row: Row) -> Decimal:
        seconds = [row.number("hours") * 3600]
        return published_formulas.billed(usd(row.number("usd_per_hour")), node_seconds=seconds, rule=rule).value

    return figure


BY_THE_MILLISECOND = BillingRule(increment_seconds=Decimal("0.001"))
BY_THE_HOUR = BillingRule(increment_seconds=Decimal(3600))


def run_in_euros(row: Row) -> Decimal:
    per_hour = Rate(per_node_hour=row.number("eur_per_minute") * 60, currency="EUR")
    euros = published_formulas.billed(per_hour, node_seconds=[row.number("hours") * 3600], rule=BY_THE_SECOND)
    return euros.exchanged(Amount(value=row.number("usd_per_eur"), currency="USD")).value


def euros_the_wrong_way(row: Row) -> Decimal:
    return row.number("hours") * 60 * row.number("eur_per_minute") / row.number("usd_per_eur")


# --- spot -----------------------------------------------------------------------------------------------------------


def percent_saved(row: Row) -> Decimal:
    return 100 * whatif.discount(usd(row.number("spot")), on_demand=usd(row.number("on_demand")))


def percent_paid(row: Row) -> Decimal:
    return 100 * published_formulas.price_fraction(usd(row.number("spot")), on_demand=usd(row.number("on_demand")))


def half_price_gpu(_row: Row) -> Decimal:
    return published_formulas.at_discount(usd("1.46"), discount=Decimal("0.5")).per_node_hour


def gpu_over_processors(row: Row) -> Decimal:
    gpu, processors = (Relative(ratio=row.number(name), base="TensorFlow on a K80") for name in ("gpu", "cpu"))
    return published_formulas.between(gpu, other=processors)


# --- an own machine -------------------------------------------------------------------------------------------------

# Parkopedia, 2018: its office box, which draws 1 kW, used for ten whole days a month.
PURCHASE, MONTHS, KILOWATT_HOUR, DAYS = Decimal(6500), Decimal(30), Decimal("0.2"), Decimal(10)


def box(row: Row) -> OwnedNode:
    """The box, with what the row says of it."""
    return pool_prices.owned_node(ownership(row))


def ownership(row: Row) -> Ownership:

    def stated(name: str, default: Decimal) -> Decimal:
        return row.number(name) if name in row.inputs else default

    return Ownership(
        purchase=str(stated("acquisition", PURCHASE)),
        lifetime_months=int(stated("months", MONTHS)),
        hours_per_month=int(stated("days", DAYS) * 24),
        watts=int(stated("kw", Decimal(1)) * 1000),
        per_kilowatt_hour=str(stated("kwh_price", KILOWATT_HOUR)),
        currency="USD",
        as_of="2018-07-01",
    )


def write_off(row: Row) -> Decimal:
    return box(row).write_off_per_month


def power(row: Row) -> Decimal:
    return box(row).power_per_month(hours=row.number("days") * 24)


def month_of_the_box(row: Row) -> Decimal:
    return box(row).month(hours=row.number("days") * 24)


def hour_of_the_box(row: Row) -> Decimal:
    rate = pool_prices.rate(builders.pool(price=None, ownership=ownership(row).model_dump()).spec)
    assert rate is not None
    return rate.per_node_hour


def hour_without_power(row: Row) -> Decimal:
    return write_off(row) / (row.number("days") * 24)


def paid_by_the_hour(row: Row, *, name: str) -> Rate:
    """The row's hourly price; that of the box, which the table of inputs rounds, as gpubench has it."""
    if not row.id.endswith("_1.1028"):
        return usd(row.number(name))
    hour = box(row).hour()
    assert price.rounded(hour.per_node_hour, digits=10) == row.number(name)
    return hour


def payback_days(row: Row) -> Decimal:
    bought = OwnedNode(
        purchase=row.number("build_cost"), lifetime_months=36, hours_per_month=Decimal(730), currency="USD"
    )
    rented = usd(row.number("ref_price"))
    days = whatif.payback(bought, rented=rented, relative_speed=row.number("speed_ratio")).days
    assert days is not None
    return days


# --- scaling --------------------------------------------------------------------------------------------------------


def mean_of_pairs(row: Row) -> Decimal:
    return whatif.mean_efficiency(row.numbers("efficiency"))


def four_from_one(row: Row) -> Decimal:
    return whatif.extrapolated(row.number("one_x"), times=row.number("gpus"), efficiencies=row.numbers("efficiency"))


def measured(workers: int, samples_per_second: Decimal) -> MeasuredPoint:
    pool = builders.pool()
    (point,) = expand(builders.spec(builders.block(workers=[workers])), {pool.name: pool.spec})
    return MeasuredPoint(point=point, values=(float(samples_per_second),), environment=EnvironmentKey("env", ""))


def efficiency_of_workers(row: Row) -> Decimal:
    one, several = measured(1, row.number("img_sec_1")), measured(int(row.number("n")), row.number("img_sec_n"))
    (found,) = efficiency.efficiencies(several, efficiency.Among([one, several]))
    return Decimal(found.efficiency.mean)


def cost_of_scaling(row: Row) -> Decimal:
    return published_formulas.scaling_cost(
        row.number("efficiency"),
        workers=4,
        base_workers=1,
        hour=dollars(row.number("price_4")),
        base_hour=dollars(row.number("price_1")),
        base="p3.2xlarge",
    )


def throughput_of_steps(row: Row) -> Decimal:
    seconds = row.numbers("step_times")
    run = builders.result().model_copy(
        update={"samples": int(row.number("batch")) * len(seconds), "nanoseconds": int(sum(seconds) * 10**9)}
    )
    return Decimal(gang.samples_per_second(run))


def mean_of_speeds(row: Row) -> Decimal:
    seconds = row.numbers("step_times")
    return sum((row.number("batch") / each for each in seconds), Decimal(0)) / len(seconds)


def speed_over_one_gpu(row: Row) -> Decimal:
    return published_formulas.relative_speed(row.number("multi"), base_seconds=row.number("single"))


def speed_over_p2(row: Row) -> Decimal:
    own, p2 = (Relative(ratio=row.number(name), base="the processor of a laptop") for name in ("a", "b"))
    return published_formulas.between(own, other=p2)


# --- goals, and what money buys -------------------------------------------------------------------------------------


def samples_of_a_paper(row: Row) -> Decimal:
    return published_formulas.samples_of_steps(row.number("iterations"), global_batch=row.number("batch"))


def images_per_dollar(row: Row) -> Decimal:
    rate = paid_by_the_hour(row, name="usd_per_hour")
    return whatif.samples_per_unit(rate, nodes=1, throughput=row.number("img_per_sec")).samples


def hours_to_goal(row: Row) -> Decimal:
    return billing.hours_to_samples(row.number("samples"), throughput=row.number("img_per_sec"))


def cost_of_goal(row: Row) -> Decimal:
    return billing.cost_of_samples(
        paid_by_the_hour(row, name="usd_per_hour"),
        nodes=1,
        throughput=row.number("img_per_sec"),
        samples=row.number("samples"),
    ).value


def gain(paid: Rate, *, speed: Decimal | str, over: Rate, other_speed: Decimal | str) -> Decimal:
    own = whatif.samples_per_unit(paid, nodes=1, throughput=Decimal(speed))
    return whatif.gain(own, over=whatif.samples_per_unit(over, nodes=1, throughput=Decimal(other_speed)))


def gain_over_google(row: Row) -> Decimal:
    own, google = paid_by_the_hour(row, name="rate"), usd(row.number("gce"))
    return gain(own, speed=row.number("img4"), over=google, other_speed=row.number("img8k80"))


def gain_of_p5000(_row: Row) -> Decimal:
    # Initialized Capital, 2017: three times the speed of a p2.xlarge at 0.90 USD, for 0.65 USD an hour.
    return gain(usd("0.65"), speed="3", over=usd("0.90"), other_speed="1")


def gain_of_spot_p2(row: Row) -> Decimal:
    # Initialized Capital, 2017: a GPU+ is 1.15 times as fast as a p2.xlarge.
    return gain(usd(row.number("spot")), speed="1", over=usd(row.number("gpuplus_price")), other_speed="1.15")


def times_as_long(row: Row) -> Decimal:
    return published_formulas.relative_time(row.number("seconds"), base_seconds=row.number("base_seconds"))


def times_as_dear(row: Row) -> Decimal:
    return whatif.relative_cost(
        billing.cost_of_run(usd(row.number("price")), nodes=1, seconds=row.number("seconds")),
        base_cost=billing.cost_of_run(K80(), nodes=1, seconds=row.number("base_seconds")),
        base="TensorFlow on a K80",
    )


# --- a task that recurs ---------------------------------------------------------------------------------------------

# Max Woolf, November 2018: a preemptible n1-standard-1 that is up for two minutes, every four hours or every hour; two
# calls of a function for each run, a minute each in his formula; 10 GB of disk; a rule to start, a rule to stop.
EVERY_FOUR_HOURS, EVERY_HOUR, DAYS_OF_HIS_MONTH = 6, 24, 30
PREEMPTIBLE = usd("0.01")
FUNCTION, DISK, RULE = dollars("0.000000463"), dollars("0.04"), dollars("0.10")
TEN_MINUTES_AT_LEAST = BillingRule(minimum_seconds=Decimal(600))
AN_HOUR_AT_LEAST = BillingRule(minimum_seconds=Decimal(3600))


def machine(runs_per_day: int, rule: BillingRule = BY_THE_SECOND) -> Amount:
    return published_formulas.machine_month(
        PREEMPTIBLE, seconds_per_run=Decimal(120), runs_per_day=runs_per_day, days=DAYS_OF_HIS_MONTH, rule=rule
    )


def functions(runs_per_day: int) -> Amount:
    return published_formulas.functions_month(
        FUNCTION, seconds_per_call=Decimal(60), calls_per_day=2 * runs_per_day, days=DAYS_OF_HIS_MONTH
    )


def cron(runs_per_day: int, rule: BillingRule = BY_THE_SECOND) -> MonthlyCost:
    return published_formulas.monthly_cost(
        [
            ("machine", machine(runs_per_day, rule)),
            ("disk", DISK.times(10)),
            ("scheduler", RULE.times(2)),
            ("functions", functions(runs_per_day)),
        ]
    )


def cron_machine(row: Row) -> Decimal:
    return published_formulas.machine_month(
        usd(row.number("vm_price")),
        seconds_per_run=row.number("minutes_per_day") * 60 / EVERY_FOUR_HOURS,
        runs_per_day=EVERY_FOUR_HOURS,
        days=row.number("days"),
        rule=BY_THE_SECOND,
    ).value


def cron_functions(row: Row) -> Decimal:
    return published_formulas.functions_month(
        dollars(row.number("price_100ms")),
        seconds_per_call=row.number("seconds"),
        calls_per_day=row.number("invocations_per_day"),
        days=row.number("days"),
    ).value


def cron_scheduler(row: Row) -> Decimal:
    return dollars(row.number("rule_price")).times(row.number("rules")).value


def cron_total(runs_per_day: int) -> Callable[[Row], Decimal]:
    return lambda _row: cron(runs_per_day).total.value


def dearer_by_ten_minutes(_row: Row) -> Decimal:
    return machine(EVERY_FOUR_HOURS, TEN_MINUTES_AT_LEAST).value - machine(EVERY_FOUR_HOURS).value


def percent_dearer_by_ten_minutes(_row: Row) -> Decimal:
    ratio = whatif.relative_cost(
        cron(EVERY_FOUR_HOURS, TEN_MINUTES_AT_LEAST).total,
        base_cost=cron(EVERY_FOUR_HOURS).total,
        base="a machine without a minimum",
    )
    return (ratio - 1) * 100


def cron_without_its_disk(_row: Row) -> Decimal:
    return cron(EVERY_FOUR_HOURS).total.value - DISK.times(10).value


def always_on(hours: Decimal) -> Decimal:
    return billing.cost_of_hours(PREEMPTIBLE, nodes=1, hours=hours).value


# --- which row is which call ----------------------------------------------------------------------------------------


class Family(NamedTuple):
    """Rows that ask the same, the call that answers, and a mistake that at least one of them must notice."""

    ids: str  # a regular expression for the whole id
    figure: Callable[[Row], Decimal]
    mistake: Callable[[Row], Decimal]

    def __str__(self) -> str:
        return self.ids


FAMILIES = (
    # Parkopedia, 2018: prices
    Family(r"park\.aws\..*\.(day|week|month)", hours_paid, with_the_price_lists_month),
    Family(r"park\.spot\..*\.true_discount_percent", percent_saved, percent_paid),
    Family(r"park\.spot\..*\.price_fraction_percent", percent_paid, percent_saved),
    Family(r"park\.gce\.GCE_\dx[VK]\d+", machine_and_gpus, machine_and_gpu),
    Family(r"park\.gce\.GCE_1xK80\.corrected", machine_of_processors, machine_of_one_processor),
    # Parkopedia, 2018: the office box
    Family(r"park\.office\.price_per_month", write_off, lambda row: row.number("acquisition") / 36),
    Family(r"park\.office\.electricity_per_month", power, lambda _: KILOWATT_HOUR * price.HOURS_PER_MONTH),
    Family(r"park\.office\.global_per_month", month_of_the_box, write_off),
    Family(r"park\.office\.hourly\.(vs_prose|days_[\d.]+)", hour_of_the_box, hour_without_power),
    # Parkopedia, 2018: scaling
    Family(r"park\.scaling\.avg\..*", mean_of_pairs, lambda row: statistics.median(row.numbers("efficiency"))),
    Family(r"park\.1080ti\.4x\..*", four_from_one, lambda row: row.number("gpus") * row.number("one_x")),
    Family(r"park\.gain\.p3\.8xlarge_over_p3\.2xlarge", cost_of_scaling, lambda row: row.number("efficiency")),
    Family(
        r"tool\.scaling_efficiency",
        efficiency_of_workers,
        lambda row: row.number("img_sec_n") / row.number("img_sec_1"),
    ),
    Family(r"tool\.tf_cnn\.speed_mean", throughput_of_steps, mean_of_speeds),
    # Parkopedia, 2018: ImageNet, and what money buys
    Family(r"park\.imagenet\.samples\..*", samples_of_a_paper, lambda row: row.number("iterations")),
    Family(r"park\.imagenet\.hours\..*", hours_to_goal, lambda row: row.number("samples") / row.number("img_per_sec")),
    Family(r"park\.imagenet\.cost\..*", cost_of_goal, hours_to_goal),
    Family(r"park\.images_per_dollar\..*", images_per_dollar, lambda row: 3600 * row.number("img_per_sec")),
    Family(r"park\.gain\.vs_GCE_8xK80\..*", gain_over_google, lambda row: row.number("img4") / row.number("img8k80")),
    # Max Woolf, 2017: small networks of Keras
    Family(r"mw\.price\.(k80|p100)", machine_and_gpu, lambda row: row.number("gpu")),
    Family(r"mw\.price\.cpu32", two_of_sixteen_processors, lambda row: row.number("cpu16")),
    Family(r"mw\.price\.p100_over_k80", p100_over_k80, lambda _: Decimal("1.46") / Decimal("0.45")),
    Family(r"mw\..*\.cost_usd", run_paid, lambda row: row.number("usd_per_hour") * row.number("seconds") / 60),
    Family(r"mw\..*\.time_rel", times_as_long, lambda row: row.number("base_seconds") / row.number("seconds")),
    Family(r"mw\..*\.cost_rel", times_as_dear, times_as_long),
    Family(r"mw\.preemptible\.p100_gpu", half_price_gpu, lambda _: P100().per_node_hour / 2),
    Family(r"mw\.preemptible\..*\.best_gpu_over_best_cpu", gpu_over_processors, lambda row: row.number("gpu")),
    # Max Woolf, 2018: a cheap cron
    Family(r"cron\.vm\.4h", cron_machine, lambda row: row.number("vm_price") * row.number("minutes_per_day")),
    Family(r"cron\.scheduler", cron_scheduler, lambda row: row.number("rule_price")),
    Family(r"cron\.functions\.4h", cron_functions, lambda row: cron_functions(row) / 10),
    Family(r"cron\.total\.4h", cron_total(EVERY_FOUR_HOURS), cron_without_its_disk),
    Family(r"cron\.vm\.1h", lambda _: machine(EVERY_HOUR).value, lambda _: machine(EVERY_FOUR_HOURS).value),
    Family(r"cron\.functions\.1h", lambda _: functions(EVERY_HOUR).value, lambda _: functions(EVERY_FOUR_HOURS).value),
    Family(r"cron\.total\.1h", cron_total(EVERY_HOUR), lambda _: 4 * cron(EVERY_FOUR_HOURS).total.value),
    Family(r"cron\.vm\.10min_minimum\.extra", dearer_by_ten_minutes, lambda _: machine(6, TEN_MINUTES_AT_LEAST).value),
    Family(r"cron\.vm\.10min_minimum\.extra_percent", percent_dearer_by_ten_minutes, lambda _: Decimal(31)),
    Family(r"cron\.vm\.1h_minimum", lambda _: machine(6, AN_HOUR_AT_LEAST).value, lambda _: machine(6).value),
    Family(r"cron\.gke\.always_on", lambda row: always_on(row.number("hours")), lambda _: always_on(Decimal(720))),
    Family(r"cron\.vm\.always_on_720", lambda _: always_on(Decimal(720)), lambda _: always_on(Decimal(730))),
    # RaRe Technologies, 2018: seven providers
    Family(r"rare\.(aws|gce)\..*", run_billed(BY_THE_SECOND), run_billed(BY_THE_HOUR)),
    Family(r"rare\.paperspace\..*", run_billed(BY_THE_MILLISECOND), run_billed(BY_THE_HOUR)),
    Family(r"rare\.softlayer\..*", run_billed(BY_THE_HOUR), run_billed(BY_THE_SECOND)),
    Family(r"rare\.leadergpu\..*", run_in_euros, euros_the_wrong_way),
    Family(r"rare\.multi_gpu_speedup\..*", speed_over_one_gpu, lambda row: row.number("multi") / row.number("single")),
    # Initialized Capital, 2017: buy or rent
    Family(r"init\.speedup\..*", speed_over_p2, lambda row: row.number("a")),
    Family(r"init\.break_even_days", payback_days, lambda row: row.number("build_cost") / row.number("ref_price") / 24),
    Family(r"init\.p5000_cost_adjusted", gain_of_p5000, lambda _: Decimal(3) * Decimal("0.65") / Decimal("0.9")),
    Family(
        r"init\.spot_cost_adjusted_vs_gpuplus",
        gain_of_spot_p2,
        lambda row: row.number("gpuplus_price") / row.number("spot"),
    ),
)

#: Rows that only check a publication against itself, or another program: nobody asks gpubench for them.
AUDIT = {
    "park.office.hourly.electricity_twice": "the only reading that yields the 1.30 of the prose; 1.10 is right",
    "park.gain.breakeven_days.from_1.7x_at_10": "worked back from a gain that was read from a chart",
    "park.gain.breakeven_days.from_1.7x_at_10.electricity_twice": "the same, with the electricity counted twice",
    "park.gain.at_10_days.from_breakeven_8_spot": "worked back from a break-even that was read from a chart",
    "park.gain.ratio.2x_vs_1.7x": "two sentences of the publication that contradict each other",
    "park.gain.vs_GCE_8xK80.vgg16.tf2017_throughput.rate_1.30": "stands on the wrong hourly rate of the prose",
    "park.gain.vs_GCE_8xK80.resnet50.tf2017_throughput.rate_1.30": "stands on the wrong hourly rate of the prose",
    "park.gain.tpu_implied_price": "a price worked back from two gains; the public price is another",
    "cron.functions.4h.as_described": "the text of the post, which its own formula contradicts",
    "cron.total.4h.as_described": "the same, with the rest of the bill",
    "rare.softlayer.4xk80.implied_price": "a price worked back from a cost: it is not in the publication",
    "rare.hetzner.implied_price": "a price worked back from a cost: it is not in the publication",
    "rare.claim.paperspace_vs_aws_low": "a claim of the prose, from two costs that are rounded already",
    "init.gpuplus_vs_cpu": "a chain of two published ratios; not measured as such",
    "init.p5000_vs_cpu": "a chain of two published ratios; not measured as such",
    "init.p5000_cost_ratio": "a ratio of two prices that are not in the publication",
    "tool.tf_cnn.uncertainty": "another program's spread of steps inside a run, which is no interval of a result",
    "tool.horovod.total_conf_4_workers": "another program's spread inside a run, times a size: no interval of a result",
}


def families_of(row: Row) -> list[Family]:
    return [family for family in FAMILIES if re.fullmatch(family.ids, row.id)]


def rows_of(family: Family) -> list[Row]:
    return [row for row in rows("product") if re.fullmatch(family.ids, row.id)]


def test_the_table_is_whole() -> None:
    assert (len(rows("product")), len(rows("audit"))) == (214, 18)
    assert not [row_id for row_id, count in Counter(row.id for row in rows("product")).items() if count > 1]


def test_no_figure_is_left_out_and_none_is_mapped_twice() -> None:
    assert {row.id: len(families_of(row)) for row in rows("product") if len(families_of(row)) != 1} == {}
    assert [family.ids for family in FAMILIES if not rows_of(family)] == []


@pytest.mark.parametrize("row", rows("product"), ids=str)
def test_the_published_figure_comes_out(row: Row) -> None:
    (family,) = families_of(row)
    assert price.rounded(family.figure(row), digits=row.places) == row.expected


#: Figures that the table makes of rounded costs, 0.24 / 0.76.
FROM_ROUNDED = {"cron.vm.10min_minimum.extra_percent"}


@pytest.mark.parametrize("row", [row for row in rows("product") if row.id not in FROM_ROUNDED], ids=str)
def test_nothing_is_rounded_on_the_way(row: Row) -> None:
    (family,) = families_of(row)
    assert price.rounded(family.figure(row), digits=9) == price.rounded(row.exact, digits=9)


@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_a_wrong_formula_is_noticed(family: Family) -> None:
    noticed = [row for row in rows_of(family) if price.rounded(family.mistake(row), digits=row.places) != row.expected]
    assert noticed


def test_where_a_publication_is_wrong_the_right_figure_is_given() -> None:
    wrong = {row.id for row in rows("product") if row.published is not None and row.published != row.expected}
    assert {"park.office.hourly.vs_prose", "cron.vm.10min_minimum.extra_percent", "rare.aws.v100"} <= wrong
    given = {row.id: price.rounded(families_of(row)[0].figure(row), digits=row.places) for row in rows("product")}
    assert [row.id for row in rows("product") if row.id in wrong and given[row.id] == row.published] == []


def test_each_row_that_only_audits_a_publication_has_its_reason() -> None:
    assert {row.id for row in rows("audit")} == set(AUDIT)


def test_each_figure_has_a_source() -> None:
    assert [row.id for row in (*rows("product"), *rows("audit")) if not row.source] == []
