# SPDX-License-Identifier: Apache-2.0
"""The operator may die at any write: before it is carried out, or after it and before the answer. Each is tried."""

import asyncio
from typing import Any

import pytest

from memory_world import World


def comparable(value: Any) -> Any:
    """Without moments and UIDs: a run with a crash in it takes longer, and each object has a UID of its own."""
    if isinstance(value, dict):
        moving = ("Time", "At", "jobUid", "nodeSeconds")
        return {key: comparable(inner) for key, inner in value.items() if not key.endswith(moving)}
    return [comparable(inner) for inner in value] if isinstance(value, list) else value


def run(*, crash_at: int | None = None, crash_before: bool = False) -> World:
    world = World(repeats=2)
    world.api.crash_at, world.api.crash_before = crash_at, crash_before
    asyncio.run(world.finish())
    return world


@pytest.fixture(scope="module")
def undisturbed() -> World:
    return run()


def test_an_undisturbed_study_creates_each_job_once_and_measures_every_trial(undisturbed: World) -> None:
    assert undisturbed.status()["phase"] == "Succeeded"
    assert len(undisturbed.jobs_created()) == len(set(undisturbed.jobs_created())) == 4
    assert {entry["outcome"] for entry in undisturbed.ledger().values()} == {"Succeeded"}


@pytest.mark.parametrize("crash_before", [True, False], ids=["write lost", "write carried out"])
def test_a_crash_at_any_write_changes_nothing_in_the_end(undisturbed: World, *, crash_before: bool) -> None:
    for number in range(len(undisturbed.api.writes)):
        world = run(crash_at=number, crash_before=crash_before)
        assert world.api.crash_at is None, f"write {number} was never reached"
        where = f"crash at write {number}: {undisturbed.api.writes[number]}"
        assert world.jobs_created() == undisturbed.jobs_created(), where
        assert comparable(world.ledger()) == comparable(undisturbed.ledger()), where
        assert comparable(world.status()) == comparable(undisturbed.status()), where
