# SPDX-License-Identifier: Apache-2.0
"""The manifests of published studies ask for exactly what the publications report, at the prices of their time.

`published/sweeps.csv` has a row for each of their points, `published/prices.csv` what their machines cost; both name
their sources. Nothing is run here: the plan is the promise.
"""

import csv
import functools
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

import pytest

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.measuring import Mode
from gpubench.api.point_result import Basis
from gpubench.api.sweep import DataSource
from gpubench.cost import price
from gpubench.plan import expand, pool_prices
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan, Point
from gpubench_cli import documents

STUDIES = Path(__file__).parents[2] / "jobs" / "studies"
PUBLISHED = Path(__file__).parent / "published"


class Published(NamedTuple):
    """A manifest, and what its publication is called in the tables."""

    file: str
    table: str
    points: int
    run: int

    def __str__(self) -> str:
        return self.file


PARKOPEDIA = Published("parkopedia-2018.yaml", "parkopedia", points=144, run=90)
INITIALIZED = Published("initialized-2017.yaml", "initialized", points=5, run=5)
KERAS = Published("keras-2017.yaml", "maxwoolf", points=24, run=24)
TWEETS = Published("tweets-2018.yaml", "rare", points=13, run=13)

every_study = pytest.mark.parametrize("study", [PARKOPEDIA, INITIALIZED, KERAS, TWEETS], ids=str)
trained_studies = pytest.mark.parametrize("study", [KERAS, TWEETS], ids=str)


class Key(NamedTuple):
    """What a row of the table and a point of the plan must have in common."""

    workload: str
    pool: str
    accelerator: str | None
    workers: int
    batch_per_worker: int | None
    global_batch: int
    precision: str


@functools.cache
def spec_of(study: Published) -> GpuBenchmarkSpec:
    return documents.read(STUDIES / study.file).benchmark(None).spec


@functools.cache
def plan_of(study: Published) -> Plan:
    file = documents.read(STUDIES / study.file)
    return freeze(file.benchmark(None).spec, file.pools, "2026-11-21T00:00:00Z")


def rows_of(table: str, study: Published) -> Iterator[dict[str, str]]:
    with (PUBLISHED / table).open(encoding="utf-8") as file:
        yield from (row for row in csv.DictReader(_uncommented(file)) if row["study"] == study.table)


def _uncommented(lines: Iterator[str]) -> Iterator[str]:
    return (line for line in lines if not line.startswith("#"))


def pool_name(hardware: str) -> str:
    """What the manifests call a machine of the tables."""
    return re.sub(r"[^a-z0-9.]+", "-", hardware.lower().replace("+", " plus"))


def key_of_row(row: dict[str, str]) -> Key:
    return Key(
        workload=row["workload"],
        pool=pool_name(row["hardware"]),
        accelerator=row["gpu"].removeprefix("Tesla ").replace(" ", "-") or None,
        workers=max(1, int(row["gpus"])),  # one worker on a machine without a GPU
        batch_per_worker=int(row["batch_per_gpu"]),
        global_batch=int(row["global_batch"]),
        precision={"fp16": "mixed_float16", "fp32": "float32"}[row["precision"]],
    )


def key_of_point(plan: Plan, point: Point) -> Key:
    key = point.key
    return Key(
        workload=key.workload,
        pool=key.pool,
        accelerator=plan.pool(key.pool).spec.accelerator,
        workers=key.workers,
        batch_per_worker=key.batch_per_worker,
        global_batch=key.global_batch,
        precision=key.precision.value,
    )


@every_study
def test_the_plan_has_the_published_points_and_no_others(study: Published) -> None:
    plan = plan_of(study)
    planned = Counter(key_of_point(plan, point) for point in plan.points)
    assert planned == Counter(key_of_row(row) for row in rows_of("sweeps.csv", study))
    assert len(plan.points) == study.points
    assert set(planned.values()) == {1}


@every_study
def test_every_point_can_be_run_or_derived_and_each_run_point_is_repeated(study: Published) -> None:
    plan = plan_of(study)
    assert [point.skip for point in plan.points if point.skip] == []
    run = [index for index, point in enumerate(plan.points) if point.basis is Basis.MEASURED]
    assert len(run) == study.run
    assert Counter(trial.point for trial in plan.trials) == dict.fromkeys(run, 3)


def test_points_that_were_copied_or_extrapolated_stand_on_the_same_machines_as_in_the_publication() -> None:
    plan = plan_of(PARKOPEDIA)
    kinds = {key_of_row(row): row["kind"] for row in rows_of("sweeps.csv", PARKOPEDIA)}
    for point in plan.points:
        kind = kinds[key_of_point(plan, point)]
        source = expand.source_of(plan, point)
        if kind == "measured":
            assert (point.basis, source) == (Basis.MEASURED, None)
            continue
        assert source is not None
        of = plan.points[source].key
        assert (of.workload, of.batch_per_worker) == (point.key.workload, point.key.batch_per_worker)
        if kind.startswith("copied from "):
            assert (point.basis, of.pool) == (Basis.REPRICED, kind.removeprefix("copied from "))
        else:
            assert kind == "extrapolated: 4*one*mean efficiency"
            assert (point.basis, of.pool, of.workers) == (Basis.EXTRAPOLATED, "desktop", 1)


@pytest.mark.parametrize(
    ("several", "one"),
    # Parkopedia 2018, scaling efficiencies: each instance with several GPUs, and the one it is relative to.
    [
        ("p2.8xlarge", "p2.xlarge"),
        ("p2.16xlarge", "p2.xlarge"),
        ("g3.8xlarge", "g3.4xlarge"),
        ("g3.16xlarge", "g3.4xlarge"),
        ("p3.8xlarge", "p3.2xlarge"),
        ("p3.16xlarge", "p3.2xlarge"),
    ],
)
def test_efficiency_is_relative_to_the_sibling_with_one_gpu(several: str, one: str) -> None:
    plan = plan_of(PARKOPEDIA)
    assert plan.pool(several).spec.scaling_baseline == one
    assert plan.pool(one).spec.accelerator == plan.pool(several).spec.accelerator
    assert plan.pool(one).spec.slots_per_node == 1


_HOURS = {"hour": Decimal(1), "minute": Decimal(1) / 60, "month of 240 used hours": Decimal(240)}


@every_study
def test_an_hour_of_each_machine_costs_what_the_tables_say(study: Published) -> None:
    plan = plan_of(study)
    expected: dict[tuple[str, str], Decimal] = defaultdict(Decimal)
    for row in rows_of("prices.csv", study):
        per_hour = Decimal(row["price"]) * int(row["count"]) / _HOURS[row["per"]]
        expected[pool_name(row["hardware"]), row["currency"]] += per_hour
    found = {
        (pool.name, rate.currency): price.rounded(rate.per_node_hour, digits=6)
        for pool in plan.pools
        if (rate := pool_prices.rate(pool.spec)) is not None
    }
    assert found == {place: price.rounded(amount, digits=6) for place, amount in expected.items()}


@pytest.mark.parametrize(
    ("pool", "published"),
    # Parkopedia 2018, the column of sums in its table of Google's prices.
    [("gce-1xv100", "2.86"), ("gce-8xv100", "22.88"), ("gce-1xk80", "0.49"), ("gce-8xk80", "5.12")],
)
def test_googles_machines_cost_the_published_sums(pool: str, published: str) -> None:
    rate = pool_prices.rate(plan_of(PARKOPEDIA).pool(pool).spec)
    assert rate is not None
    assert rate.per_node_hour == Decimal(published)


@every_study
def test_all_costs_are_in_dollars_and_no_rate_is_missing(study: Published) -> None:
    plan = plan_of(study)
    rates = [pool_prices.planned_rate(plan, pool.name) for pool in plan.pools]
    assert {rate.currency for rate in rates if rate is not None} == {"USD"}
    assert [pool_prices.without_exchange(plan, pool.name) for pool in plan.pools] == [None] * len(plan.pools)


@pytest.mark.parametrize(
    ("pool", "hours", "dollars"),
    # RaRe 2018, Table 1: both LeaderGPU machines with both of their GPUs and with one; the whole machine is paid for.
    # The publication's own hours are rounded: 3.13 and 11.0 are its amounts.
    [
        ("leadergpu-low-end", "2.12", "3.12"),
        ("leadergpu-high-end", "2.42", "14.26"),
        ("leadergpu-low-end", "2.49", "3.67"),
        ("leadergpu-high-end", "1.86", "10.96"),
    ],
)
def test_euros_become_the_published_dollars(pool: str, hours: str, dollars: str) -> None:
    rate = pool_prices.planned_rate(plan_of(TWEETS), pool)
    assert rate is not None
    assert price.rounded(rate.per_node_hour * Decimal(hours), digits=2) == Decimal(dollars)


@pytest.mark.parametrize(
    ("workload", "batch", "iterations"),
    # arXiv:1512.00567, arXiv:1512.03385 and arXiv:1409.1556, as Parkopedia 2018 quotes them.
    [("inception3", 1600, 80_000), ("resnet50", 256, 600_000), ("vgg16", 256, 370_000)],
)
def test_the_goal_is_imagenet_as_the_papers_trained_on_it(workload: str, batch: int, iterations: int) -> None:
    samples = [goal.samples for goal in spec_of(PARKOPEDIA).goals if goal.workload == workload]
    assert samples == [batch * iterations]


@trained_studies
def test_whole_trainings_are_timed_as_the_originals_were(study: Published) -> None:
    plan = plan_of(study)
    assert plan.mode is Mode.TRAINING
    assert (plan.timed_region.evaluation, plan.timed_region.first_epoch) == ("Inside", "Included")
    assert {point.key.data.source for point in plan.points} == {DataSource.VOLUME}


@pytest.mark.parametrize(
    ("study", "workload", "epochs"),
    # The programs: minimaxir/keras-cntk-benchmark@5b95f46 and RaRe-Technologies/benchmark_GPU_platforms@6db9d12.
    [
        (KERAS, "mnist_mlp", 20),
        (KERAS, "mnist_cnn", 12),
        (KERAS, "cifar10_cnn", 20),
        (KERAS, "imdb_bidirectional_lstm", 4),
        (KERAS, "imdb_fasttext", 5),
        (KERAS, "lstm_text_generation", 10),
        (TWEETS, "twitter_bilstm", 4),
    ],
    ids=str,
)
def test_a_training_is_as_long_as_the_original(study: Published, workload: str, epochs: int) -> None:
    assert {point.key.epochs for point in plan_of(study).points if point.key.workload == workload} == {epochs}


def test_two_studies_do_not_call_different_machines_by_one_name() -> None:
    # Pools belong to the whole cluster: applying one study must not change the pools of another.
    names = Counter(pool.name for study in STUDIES.glob("*-20??.yaml") for pool in documents.read(study).pools)
    assert {name for name, count in names.items() if count > 1} == set()
