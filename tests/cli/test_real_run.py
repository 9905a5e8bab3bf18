# SPDX-License-Identifier: Apache-2.0
"""The quickstart, shortened, with real ranks: two workers are two pods here, and the table is that of a cluster."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

import memory_world
from gpubench import records
from gpubench.analysis import text
from gpubench.api import validate
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import Judgement
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.records import Environment, Window
from gpubench.report import tables
from gpubench.scheduler.observed import Observed, Study
from gpubench_cli import results
from gpubench_cluster import kube
from world import decide

pytestmark = pytest.mark.usefixtures("horovod", "two_cores")

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Ran = Any


@pytest.fixture
def study_text(shortened_quickstart: str) -> str:
    return shortened_quickstart


@pytest.fixture
def folder(real_folder: Path) -> Path:
    return real_folder


def test_the_quickstart_runs_without_a_cluster(real_run: Ran, folder: Path) -> None:
    assert len(re.findall(r"^mnist_cnn +local-cpu +[12] +64 +float32 +Measured", real_run.stdout, re.MULTILINE)) == 2
    assert tables.INTERVAL_NOTE in real_run.stdout
    status = results.read_summary(folder).status
    one, two = status.results
    for point in (one, two):
        assert len(point.values) == 3
        assert point.throughput is not None
        assert point.throughput.low is not None
        assert point.cost is not None
    assert [scaling.baseline_workers for scaling in two.scaling] == [1]
    assert two.environment == one.environment


def test_a_baseline_of_another_machine_is_no_verdict(real_run: Ran, folder: Path) -> None:
    comparison = results.read_summary(folder).status.comparison
    assert comparison is not None
    assert (comparison.verdict, comparison.points.cannot_tell) == (Judgement.CANNOT_TELL, 2)
    assert "the environments differ (elsewhere and " in comparison.sentence
    assert f"CannotTell, compared with other-machine: {comparison.sentence}" in real_run.stdout


def test_pods_were_apart(folder: Path) -> None:
    """Both pods of the gang of two wrote windows of their own rank, and no container image is claimed."""
    trial = next(trial for trial in results.read_plan(folder).trials if trial.point == 1)
    for index in (0, 1):
        written = records.read_log((folder / "logs" / f"{trial.id}.1.{index}.jsonl").read_bytes())
        assert {window.rank for window in written.of_kind(Window)} == {index}
        (environment,) = written.of_kind(Environment)
        assert environment.image is None
        assert environment.threads_per_rank == 1


def test_what_the_figures_stand_on_is_kept_once_beside_the_ledger(folder: Path) -> None:
    status = results.read_summary(folder).status
    (kept,) = results.read_ledger(folder).environments
    (shown,) = status.environments
    assert {result.environment for result in status.results} == {kept.key()} == {shown.environment}
    assert (shown.accelerator, shown.framework, shown.transport) == (kept.accelerator, kept.framework, "gloo")
    assert kept.processors == 1.0  # a pod of the quickstart has a slot of one processor
    assert kept.memory_bytes is not None
    assert kept.gpus is None


def test_the_plan_is_the_one_that_the_cluster_would_freeze(study_text: str, folder: Path) -> None:
    ran = results.read_plan(folder)
    frozen = frozen_from_objects(study_text, planned_at=ran.planned_at)
    assert (ran.points, ran.trials, ran.pools) == (frozen.points, frozen.trials, frozen.pools)


def test_the_same_ledger_gives_the_same_rows_in_the_cluster(study_text: str, folder: Path) -> None:
    """The core decides about the objects as an API server has them, with the attempts of this run."""
    shown = results.read_summary(folder).status
    plan = frozen_from_objects(study_text, planned_at=results.read_plan(folder).planned_at)
    _, benchmark = yaml.safe_load_all(study_text)
    spec = validate.load_benchmark(benchmark).spec
    study = Study(namespace="default", name="quickstart", uid="u", generation=1, created_at=0.0, spec=spec)
    decision = decide(plan, results.read_ledger(folder), Observed(study=study, jobs=(), free=()), 0.0)
    assert tables.results(decision.status.results) == tables.results(shown.results)
    assert decision.status.answer == shown.answer


async def test_the_operator_gives_a_table_of_the_same_shape(study_text: str, folder: Path) -> None:
    """The operator itself, over an API server in memory whose gangs all succeed: other figures, the same table."""
    pool, benchmark = yaml.safe_load_all(study_text)
    world = memory_world.World()
    world.api.put(kube.POOLS, pool)
    metadata = world.api.all(kube.BENCHMARKS)[0]["metadata"]
    world.api.put(kube.BENCHMARKS, {**benchmark, "metadata": metadata})
    await world.finish()
    there = FullStatus.model_validate(world.status())
    here = results.read_summary(folder).status
    theirs, ours = tables.results(there.results), tables.results(here.results)
    assert theirs.columns == ours.columns
    assert [row[:6] for row in theirs.rows] == [row[:6] for row in ours.rows], "keys and states"
    assert [defined(row) for row in theirs.rows] == [defined(row) for row in ours.rows]
    assert all(re.search("[±–]", row[6]) for row in (*theirs.rows, *ours.rows)), "three repeats have an interval"
    assert theirs.notes[:3] == ours.notes[:3], "how to read it"
    assert (there.phase, there.points_done) == (here.phase, here.points_done) == ("Succeeded", "2/2")


def frozen_from_objects(study_text: str, *, planned_at: str) -> Plan:
    """From the documents as `kubectl apply` sends them, not as the command line reads its files."""
    pool, benchmark = yaml.safe_load_all(study_text)
    return freeze(validate.load_benchmark(benchmark).spec, (validate.load_pool(pool),), planned_at)


def defined(row: Iterable[str]) -> list[bool]:
    return [cell != text.UNDEFINED for cell in row]
