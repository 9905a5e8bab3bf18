# SPDX-License-Identifier: Apache-2.0
"""The full record of an environment is read from a log while there is one, kept in the ledger, waited for by nobody."""

from typing import Any

import pytest

import stand_in_worker
from gpubench import records
from gpubench.scheduler import environments
from gpubench_cluster import kube
from memory_world import World

KEY = stand_in_worker.ENVIRONMENT.key()
AWAY = kube.TemporaryError("get pods/log: no answer from the kubelet")
FORBIDDEN = kube.Forbidden("get pods/log: forbidden")


class Unreadable(dict[str, Any]):
    """Logs that nobody can read, whichever pod is asked for."""

    def __init__(self, error: Exception | str | None) -> None:
        super().__init__()
        self.error = error

    def get(self, pod: str, default: Any = None) -> Any:
        del pod, default
        return self.error


async def finished(logs: dict[str, Any] | None = None, **spec: Any) -> World:
    world = World(**spec)
    if logs is not None:
        world.api.logs = logs
    await world.finish()
    return world


async def test_one_log_is_read_for_a_study_on_equal_nodes_and_its_facts_are_in_the_status() -> None:
    world = await finished()
    assert list(world.environments()) == [f"environment.{KEY}"]
    assert len(world.api.logs_read) == 1
    (shown,) = world.status()["environments"]
    assert (shown["environment"], shown["accelerator"], shown["instanceType"]) == (KEY, "stand-in", "large")


async def test_an_environment_is_kept_before_its_job_may_go() -> None:
    world = World(
        repeats=1, sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}]
    )
    await world.finish()
    last_ledger = max(index for index, what in enumerate(world.api.writes) if "-ledger-" in what[2])
    retired = max(index for index, what in enumerate(world.api.writes) if what[:2] == ("patch", "jobs"))
    assert last_ledger < retired
    assert world.environments()


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (AWAY, f"its log cannot be read: {AWAY}"),
        (FORBIDDEN, f"its log cannot be read: {FORBIDDEN}"),
        (None, "it is gone"),
        ("", "the head of its log has no such record"),
        ("nothing but what a library said\n", "the head of its log has no such record"),
    ],
    ids=["away", "forbidden", "gone", "empty", "foreign"],
)
async def test_a_log_that_cannot_be_read_is_no_error_of_the_study(
    error: Any, says: str, caplog: pytest.LogCaptureFixture
) -> None:
    undisturbed, world = await finished(), await finished(Unreadable(error))
    assert {one.__dict__["error"] for one in caplog.records if one.message == "environment not read"} == {says}
    assert world.status()["phase"] == "Succeeded"
    assert world.environments() == {}
    assert world.status()["results"] == undisturbed.status()["results"]
    assert [shown["environment"] for shown in world.status()["environments"]] == [KEY]
    assert "accelerator" not in world.status()["environments"][0]


async def test_a_log_that_could_not_be_read_is_tried_again_later_and_not_at_every_look() -> None:
    world = await finished(Unreadable(AWAY), repeats=1)
    pod = world.api.logs_read[-1]
    world.api.logs_read.clear()
    for _ in range(5):
        await world.look()
    assert world.api.logs_read == []
    world.clock.now += environments.TRIED_AGAIN_SECONDS
    await world.look()
    assert world.api.logs_read == [pod]
    world.api.logs = {pod: records.line(stand_in_worker.ENVIRONMENT)}
    world.clock.now += environments.TRIED_AGAIN_SECONDS
    await world.look()
    assert list(world.environments()) == [f"environment.{KEY}"]
    assert world.status()["environments"][0]["accelerator"] == "stand-in"


async def test_trying_ends() -> None:
    world = await finished(Unreadable(AWAY))
    assert await world.look() is not None
    world.clock.now += environments.TRIED_FOR_SECONDS
    world.api.logs_read.clear()
    assert await world.look() is None
    assert world.api.logs_read == []


async def test_a_new_process_reads_what_the_old_one_could_not() -> None:
    world = await finished(Unreadable("nothing but what a library said\n"))
    world.api.logs = {world.api.logs_read[-1]: records.line(stand_in_worker.ENVIRONMENT)}
    world.start_operator()
    await world.look()
    assert world.environments()


async def test_a_record_that_does_not_fit_its_key_is_not_kept() -> None:
    another = stand_in_worker.ENVIRONMENT.model_copy(update={"driver": "another"})
    world = await finished(Unreadable(records.line(another)))
    assert world.environments() == {}


async def test_a_config_map_that_takes_no_environment_stops_no_study() -> None:
    world = await finished(Unreadable(AWAY), repeats=1)
    world.api.logs = {world.api.logs_read[-1]: records.line(stand_in_worker.ENVIRONMENT)}
    (shard,) = (kube.name_of(body) for body in world.api.all(kube.CONFIG_MAPS) if "ledger" in kube.name_of(body))
    world.api.patch_refusals[shard] = kube.PermanentError("patch configmaps: Too long", code=422)
    world.clock.now += environments.TRIED_AGAIN_SECONDS
    await world.look()
    assert world.api.patch_refusals == {}
    assert (world.status()["phase"], world.environments()) == ("Succeeded", {})
    assert "Stuck" not in dict(world.events())
