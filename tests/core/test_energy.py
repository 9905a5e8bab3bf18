# SPDX-License-Identifier: Apache-2.0
"""Energy of a million samples: by counters or by power, at the GPUs and at the meter, with its interval."""

import math
from typing import Any

import pytest

import builders
import measured
from gpubench.analysis import repeats
from gpubench.api.point_result import Energy
from gpubench.plan.plan import Plan
from gpubench.records import Machine, Result
from gpubench.values import Interval

SECONDS = 10.0
POWER = {
    "host_watts": 700, "pue": "1.25", "grams_per_kilowatt_hour": "400", "as_of": "2023-11-01", "source": "the operator",
}  # fmt: skip


def plan(power: dict[str, Any] | None = None, **fields: Any) -> Plan:
    block = builders.block(workers=[2])
    return builders.plan(builders.spec(block, **fields), builders.pool(power=power))


def energy(of: Plan, *results: Result) -> Energy:
    found = repeats.energy(of, of.points[0], results, confidence=0.95)
    assert found is not None
    return found


def run(**machine: float) -> Result:
    """Ten seconds and 10,000 samples."""
    return builders.result(rate=1000.0, machine=Machine(**machine))


def test_counters_go_before_power_and_both_are_never_in_one_figure() -> None:
    counted = run(watts=300.0, joules=4000.0)
    assert energy(plan(), counted) == Energy(joules=Interval(mean=400_000.0), by="Counter")
    assert energy(plan(), run(watts=300.0)) == Energy(joules=Interval(mean=300_000.0), by="Power")
    assert energy(plan(), run(watts=300.0), counted).joules.mean == 400_000.0


def test_repeats_give_an_interval_like_that_of_any_figure() -> None:
    found = energy(plan(), *(run(joules=joules) for joules in (3900.0, 4000.0, 4100.0)))
    half = 4.302653 * 100 / 4000 / math.sqrt(3)
    assert (found.joules.low, found.joules.high) == pytest.approx((4e5 * math.exp(-half), 4e5 * math.exp(half)))


def test_energy_of_a_training_covers_its_evaluations_whoever_counts_it() -> None:
    training = builders.training(nanoseconds=8 * 10**9, evaluation_nanoseconds=2 * 10**9)  # 30,000 samples
    for machine in (Machine(watts=300.0), Machine(watts=300.0, joules=3000.0)):
        found = energy(plan(), builders.result(training=training, machine=machine))
        assert found.joules.mean == 100_000.0


def test_the_meter_counts_the_hosts_and_what_the_data_centre_takes() -> None:
    found = energy(plan(POWER), run(joules=4000.0))
    hours = (4000.0 + 700 * 2 * SECONDS) * 1.25 / 3600
    assert found.watt_hours is not None
    assert found.grams is not None
    assert found.watt_hours.mean == pytest.approx(hours * 100)  # 10,000 samples of a million
    assert found.grams.mean == pytest.approx(hours * 100 * 0.4)
    assert found.power == "700 W a host, pue 1.25, 400 g CO2e a kilowatt-hour (the operator, 2023-11-01)"
    assert (found.watt_hours_per_run, found.grams_per_run) == (None, None)


def test_a_point_on_a_part_of_a_node_has_that_part_of_its_host() -> None:
    block = builders.block(workers=[1])
    shared = builders.pool(power=POWER, slots_per_node=8, exclusive_nodes=False)
    found = energy(builders.plan(builders.spec(block), shared), run(joules=4000.0))
    assert found.watt_hours is not None
    assert found.watt_hours.mean == pytest.approx((4000.0 + 700 / 8 * SECONDS) * 1.25 / 3600 * 100)


def test_without_what_the_grid_emits_there_are_no_grams() -> None:
    unknown = {name: value for name, value in POWER.items() if not name.startswith("grams")}
    found = energy(plan(unknown), run(joules=1.0))
    assert found.watt_hours is not None
    assert found.grams is None


def test_a_run_is_a_whole_training() -> None:
    trains = plan(POWER, measure={"mode": "Training"})
    training = builders.training(nanoseconds=8 * 10**9, evaluation_nanoseconds=2 * 10**9)
    found = energy(trains, builders.result(training=training, machine=Machine(joules=4000.0)))
    assert found.watt_hours_per_run is not None
    assert found.grams_per_run is not None
    assert found.watt_hours_per_run.mean == pytest.approx((4000.0 + 700 * 2 * SECONDS) * 1.25 / 3600)
    assert found.grams_per_run.mean == pytest.approx(found.watt_hours_per_run.mean * 0.4)


def test_where_no_gpu_tells_its_power_there_is_no_energy() -> None:
    of = plan(POWER)
    assert repeats.energy(of, of.points[0], [run(processor=1.0)], confidence=0.95) is None
    (result,) = measured.results(of, {0: (1000.0,)})
    assert result.energy is None
