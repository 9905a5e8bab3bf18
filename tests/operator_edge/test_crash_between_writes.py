# SPDX-License-Identifier: Apache-2.0
"""The operator may die at any write: before it is carried out, or after it and before the answer. Each is tried.

One study goes well. In another, one attempt fails, one is preempted, and one is stopped because the user suspends the
study and resumes it; the Jobs that are deleted take a while to go, and their nodes are needed by the next attempt. In a
third it is decided as it goes how often a point is repeated. In a fourth, two attempts are interrupted on purpose and
one by its pool.
"""

import asyncio
from typing import Any, NamedTuple

import pytest

from memory_world import Fate, World

ROUGH = (Fate.FAILURE, Fate.PREEMPTION, Fate.SUSPENSION)
DRILLED = (Fate.LONG, Fate.PREEMPTION, Fate.LONG)
OUTCOMES = {
    Fate.FAILURE: "Failed",
    Fate.PREEMPTION: "Preempted",
    Fate.SUSPENSION: "Stopped",
    Fate.LONG: "Preempted",
}
STARTED = "AttemptStarted"


def comparable(value: Any) -> Any:
    """Without moments, UIDs and what hangs on them: a run with a crash takes longer, and each object has a new UID."""
    if isinstance(value, dict):
        moving = (
            *("Time", "At", "jobUid", "nodeSeconds", "podTimes", "bill", "spent", "goodput"),
            "checksum",
        )
        return {key: comparable(inner) for key, inner in value.items() if not key.endswith(moving)}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


class Course(NamedTuple):
    """A study and what happens in it."""

    spec: dict[str, Any]
    fates: tuple[Fate, ...]
    trials: int  # that run


#: The stand-in's throughputs scatter so that it is the fourth repeat that settles it.
ADAPTIVE = {
    "sweep": [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}],
    "measure": {"repeats": {"min": 3, "max": 6, "until": {"relativeHalfWidth": "0.05"}}},
}
COURSES = {
    "calm": Course(spec={"repeats": 2}, fates=(), trials=4),
    "rough": Course(spec={"repeats": 2}, fates=ROUGH, trials=4),
    "adaptive": Course(spec=ADAPTIVE, fates=(), trials=4),
    "drilled": Course(spec={"repeats": 2, "drill": {"every": "5s", "times": 3}}, fates=DRILLED, trials=4),
}


def run(course: Course, *, crash_at: int | None = None, crash_before: bool = False) -> World:
    world = World(fates=course.fates, max_nodes=2, **course.spec)
    world.api.crash_at, world.api.crash_before = crash_at, crash_before
    asyncio.run(world.finish())
    return world


@pytest.fixture(scope="module", params=COURSES.values(), ids=list(COURSES))
def course(request: pytest.FixtureRequest) -> Course:
    found: Course = request.param
    return found


@pytest.fixture(scope="module")
def undisturbed(course: Course) -> World:
    return run(course)


def test_an_undisturbed_study_creates_each_job_once_and_measures_every_trial(
    course: Course, undisturbed: World
) -> None:
    assert undisturbed.status()["phase"] == "Succeeded"
    created = undisturbed.jobs_created()
    assert len(created) == len(set(created)) == course.trials + len(course.fates)
    assert [entry["accelerator"] for entry in undisturbed.environments().values()] == ["stand-in"]
    types = [entry.get("instanceTypes") for entry in undisturbed.ledger().values() if entry["outcome"] == "Succeeded"]
    assert types == [["large"]] * course.trials
    entries = undisturbed.ledger().values()
    outcomes = sorted(entry["outcome"] for entry in entries)
    assert outcomes == sorted(["Succeeded"] * course.trials + [OUTCOMES[fate] for fate in course.fates])
    assert sum("drilled" in entry for entry in entries) == course.fates.count(Fate.LONG)


@pytest.mark.parametrize("crash_before", [True, False], ids=["write lost", "write carried out"])
def test_a_crash_at_any_write_changes_nothing_in_the_end(
    course: Course, undisturbed: World, *, crash_before: bool
) -> None:
    for number in range(len(undisturbed.api.writes)):
        world = run(course, crash_at=number, crash_before=crash_before)
        assert world.api.crash_at is None, f"write {number} was never reached"
        where = f"crash at write {number}: {undisturbed.api.writes[number]}"
        assert world.jobs_created() == undisturbed.jobs_created(), where
        assert comparable(world.ledger()) == comparable(undisturbed.ledger()), where
        assert world.environments() == undisturbed.environments(), where
        assert comparable(world.status()) == comparable(undisturbed.status()), where
        assert world.most_slots_in_use <= 2, where
        assert len(world.events()) == len(set(world.events())), where
        assert set(world.events()) <= set(undisturbed.events()), where
        # That a Job was started is known from nothing but having started it.
        missing = [reason for reason, _ in set(undisturbed.events()) - set(world.events())]
        assert missing in ([], [STARTED]), where
