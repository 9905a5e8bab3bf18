# SPDX-License-Identifier: Apache-2.0
"""A study with a baseline in the cluster: read once, when it is planned, and then never needed again."""

from typing import Any

import pytest

import stored_analysis
import studies
from gpubench_cluster import kube
from memory_world import World

#: The figures of the stand-in depend on the trial: the same in both studies, and far apart between repeats.
TO = {"benchmark": "last-week", "tolerance": "0.5"}
REPEATS = 10


async def measured() -> dict[str, Any]:
    """The status of a study that has finished."""
    world = World(repeats=REPEATS)
    await world.finish()
    return world.status()


def put_baseline(world: World, status: dict[str, Any]) -> None:
    stored_analysis.put(world.api, studies.benchmark("last-week"), status)


async def test_a_baseline_that_is_deleted_after_the_start_changes_nothing() -> None:
    world = World(repeats=REPEATS, compareTo=TO)
    put_baseline(world, await measured())
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="last-week", namespace="default")
    world.start_operator()
    await world.finish()
    comparison = world.status()["comparison"]
    assert (comparison["baseline"], comparison["verdict"]) == ("last-week", "Pass")
    assert comparison["points"]["passed"] == 2
    assert [result["comparison"] for result in world.status()["results"]] == ["Pass", "Pass"]
    assert world.condition("ComparisonPassed")["status"] == "True"
    assert ("Compared", comparison["sentence"]) in world.events()


@pytest.mark.parametrize("baseline", ["absent", "unfinished", "unreadable"])
async def test_a_baseline_that_is_no_use_holds_nothing_up(baseline: str) -> None:
    world = World(compareTo=TO)
    status = await measured()
    if baseline == "unfinished":
        put_baseline(world, {**status, "conditions": []})
    if baseline == "unreadable":
        world.api.put(kube.BENCHMARKS, {**studies.benchmark("last-week"), "status": {"phase": 7}, "spec": {"later": 1}})
    await world.finish()
    assert world.status()["phase"] == "Succeeded"
    assert world.status()["comparison"]["verdict"] == "CannotTell"
    assert world.status()["comparison"]["sentence"].startswith("nothing to compare with: ")
    condition = world.condition("ComparisonPassed")
    assert (condition["status"], condition["reason"]) == ("Unknown", "BaselineAbsent")


async def test_a_study_of_another_namespace_is_no_baseline() -> None:
    world = World(compareTo=TO)
    world.api.put(kube.BENCHMARKS, {**studies.benchmark("last-week", namespace="other"), "status": await measured()})
    await world.finish()
    assert world.condition("ComparisonPassed")["reason"] == "BaselineAbsent"


async def test_the_figures_of_a_baseline_are_those_of_its_namespace_and_name() -> None:
    before = World(repeats=1)
    await before.finish()
    world = World(repeats=1, compareTo=TO)
    put_baseline(world, before.status())
    await world.look()
    _, plan = await world.planned()
    assert plan.baseline is not None
