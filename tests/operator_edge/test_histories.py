# SPDX-License-Identifier: Apache-2.0
"""The histories of pools in the cluster: written by one study, held against by the next, whatever the operator does."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import stored_analysis
import studies
from gpubench.records import Machine
from gpubench.scheduler import ledger
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, pool, queue
from memory_kube import MemoryKube
from memory_world import KEY, Placement, World

USUAL, SLOW = 19.5e12, 13.0e12
LATER = queue.benchmark_key("default", "later")
SPEC: dict[str, Any] = {
    "sweep": [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}],
    "limits": {"parallelTrials": 1},
}


def figures(*teraflops: float, node: str = "n") -> Callable[[int], Placement]:
    """Each Job on a node of its own, which has this figure; the last one is that of all further ones."""

    def placed(number: int) -> Placement:
        figure = teraflops[min(number, len(teraflops) - 1)]
        return Placement(node=f"{node}{number}", machine=Machine(arithmetic=figure, weakest_rank=0))

    return placed


#: Six healthy nodes for the first study; the second one meets a slow one at once.
SECOND_IS_SLOW = figures(*[USUAL] * 6, SLOW, USUAL)


def world(placed: Callable[[int], Placement], *, repeats: int = 6, **spec: Any) -> World:
    return World(placed=placed, repeats=repeats, **{**SPEC, **spec})


async def finish(here: World, key: queue.Key) -> dict[str, Any]:
    """The status of a study that has finished."""
    for _ in range(200):
        await here.look(key)
        here.clock.now += 1
        if not here.progress() and status_of(here, key).get("phase") in ("Succeeded", "Failed"):
            return status_of(here, key)
    raise AssertionError(f"not finished: {status_of(here, key)}")


def status_of(here: World, key: queue.Key) -> dict[str, Any]:
    found = next(body for body in here.api.all(kube.BENCHMARKS) if kube.name_of(body) == key.name)
    stored = {kube.name_of(body): body for body in here.api.all(kube.CONFIG_MAPS)}
    return stored_analysis.full(found, stored.get)


def pool_health(here: World) -> list[dict[str, Any]]:
    (pool,) = here.api.all(kube.POOLS)
    found: list[dict[str, Any]] = (pool.get("status") or {}).get("health") or []
    return found


async def two_studies() -> World:
    here = world(SECOND_IS_SLOW)
    await finish(here, KEY)
    here.api.put(kube.BENCHMARKS, studies.benchmark("later", repeats=3, **SPEC))
    await finish(here, LATER)
    return here


async def test_a_slow_node_of_a_second_study_is_named_against_the_history_of_the_first() -> None:
    here = await two_studies()
    assert [result.get("warnings") for result in status_of(here, KEY)["results"]] == [[]]
    ((told,),) = [result["warnings"] for result in status_of(here, LATER)["results"]]
    assert (told["reason"], told["node"]) == ("WeakNode", "n6-0")
    assert told["figures"] == {"arithmetic": SLOW, "usual": USUAL, "tests": 6.0, "nodes": 6.0}
    assert told["message"] == (
        "node n6-0 is weak: float32 arithmetic 13 Tflop/s, 33% below the 19.5 usual on its pool (6 tests on 6 nodes): "
        "cordon it, or look for heat"
    )


async def test_an_operator_that_starts_afresh_says_the_same_and_writes_nothing() -> None:
    here = await two_studies()
    before = [status_of(here, key) for key in (KEY, LATER)], pool_health(here), len(here.api.writes)
    here.start_operator()
    await here.operator.rebuild()
    for key in (KEY, LATER):
        await here.look(key)
    assert ([status_of(here, key) for key in (KEY, LATER)], pool_health(here), len(here.api.writes)) == before


async def test_a_pool_that_changes_later_changes_no_warning() -> None:
    here = await two_studies()
    before = status_of(here, LATER)
    (pool,) = here.api.all(kube.POOLS)
    here.api.put(kube.POOLS, {**pool, "status": {}})
    here.start_operator()
    await here.look(LATER)
    assert status_of(here, LATER) == before
    assert pool_health(here) == [], "somebody has cleared it, and the study is over"


async def test_a_pool_that_was_created_anew_gets_none_of_the_tests_of_before() -> None:
    here = world(figures(USUAL), repeats=4)
    while len(here.jobs_created()) < 3:
        await here.look()
        here.clock.now += 1
        here.progress()
    (pool,) = here.api.all(kube.POOLS)
    before = {moment for kind in pool_health(here) for node in kind["nodes"] for moment in node["at"]}
    here.api.remove(kube.POOLS, name="pretend")
    fresh = {"uid": "another", "creationTimestamp": observe.timestamp(here.clock())}
    here.api.put(kube.POOLS, {**pool, "metadata": {**pool["metadata"], **fresh}, "status": {}})
    here.start_operator()
    await finish(here, KEY)
    after = {moment for kind in pool_health(here) for node in kind["nodes"] for moment in node["at"]}
    assert before
    assert after
    assert not before & after


async def test_a_deleted_study_leaves_its_tests_to_the_pool() -> None:
    here = world(SECOND_IS_SLOW)
    await finish(here, KEY)
    for resource in (kube.BENCHMARKS, kube.CONFIG_MAPS, kube.JOBS, kube.PODS):
        for body in here.api.all(resource):
            here.api.remove(resource, name=kube.name_of(body), namespace="default")
    await here.look(KEY)
    here.start_operator()
    here.api.put(kube.BENCHMARKS, studies.benchmark("later", repeats=3, **SPEC))
    status = await finish(here, LATER)
    assert [told["node"] for result in status["results"] for told in result["warnings"]] == ["n6-0"]


async def test_the_history_says_when_what_was_found_on_which_node() -> None:
    here = world(figures(USUAL, SLOW), repeats=2)
    await finish(here, KEY)
    (kind,) = pool_health(here)
    assert (kind["test"], kind["workersPerNode"], kind["environment"]) == (
        "Arithmetic", 1, here.status()["results"][0]["environment"],
    )  # fmt: skip
    assert kind["usual"] == (USUAL + SLOW) / 2
    ended = {entry["nodes"][0]: int(entry["endedAt"]) for entry in here.ledger().values()}
    assert kind["nodes"] == [
        {"node": node, "at": [ended[node]], "figures": [figure]} for node, figure in (("n0-0", USUAL), ("n1-0", SLOW))
    ]


async def test_the_status_of_a_pool_keeps_its_history_when_its_nodes_are_counted() -> None:
    here = world(figures(USUAL), repeats=2)
    await finish(here, KEY)
    before = pool_health(here)
    await here.pools(exporter.PoolCollector()).reconcile(queue.POOLS)
    (counted,) = here.api.all(kube.POOLS)
    assert counted["status"]["conditions"]
    assert pool_health(here) == before != []


async def test_a_study_without_the_test_asks_no_pool_and_leaves_nothing_there() -> None:
    here = world(figures(USUAL), measure={"healthCheck": "Disabled", "repeats": {"min": 2}})
    await finish(here, KEY)
    assert "status" not in here.api.all(kube.POOLS)[0]


async def test_a_conflict_is_tried_again_and_loses_no_test() -> None:
    here = world(figures(USUAL), repeats=3)
    here.api.patch_refusals["pretend"] = kube.TemporaryError("conflict", delay=0.2)
    await here.finish()
    assert sum(len(node["figures"]) for kind in pool_health(here) for node in kind["nodes"]) == 3


class ClosedPools(MemoryKube):
    """An API server that does not answer for pools for some time; planning is over by then."""

    closed = False

    async def get(self, resource: kube.Resource, *, name: str, namespace: str | None = None) -> kube.Object | None:
        if resource == kube.POOLS and self.closed:
            raise kube.TemporaryError("get gpupools: no answer")
        return await super().get(resource, name=name, namespace=namespace)


async def closed(here: World) -> ClosedPools:
    """The world's API server, closed for pools once the benchmark is planned."""
    api = ClosedPools(here.clock)
    for resource in (kube.BENCHMARKS, kube.POOLS, kube.NODES):
        for body in here.api.all(resource):
            api.put(resource, body)
    here.api = api
    here.start_operator()
    await here.look()
    api.closed = True
    return api


async def test_tests_are_put_into_a_history_once_until_their_study_is_forgotten() -> None:
    here = world(figures(USUAL), repeats=1)
    await finish(here, KEY)
    (body,), (stored,) = here.api.all(kube.BENCHMARKS), here.api.all(kube.POOLS)
    study, tested = observe.study(body), pool.Histories(here.api, clock=here.clock)
    known = await here.operator.store.read(study)
    assert known.plan is not None
    for is_forgotten in (True, False, True):
        here.api.put(kube.POOLS, {**stored, "status": {}})
        if is_forgotten:
            tested.forget(study.uid)
        assert await tested.put(study, known.plan, known.recorded)
        assert bool(pool_health(here)) == is_forgotten
    here.api.put(kube.POOLS, {**stored, "status": {}})
    tested.forget(study.uid)
    (record,) = known.recorded.records
    later = ledger.Ledger(records=(record.model_copy(update={"ended_at": here.clock.now + 7200}),))
    assert await tested.put(study, known.plan, later)
    assert pool_health(here) == [], "an entry that somebody forged: it would be kept when all others are old"


async def test_pools_that_do_not_answer_hold_back_no_end_and_no_start_and_lose_no_test(
    caplog: pytest.LogCaptureFixture,
) -> None:
    here = world(figures(USUAL), repeats=3)
    api = await closed(here)
    for _ in range(20):
        await here.look()
        here.clock.now += 1
        here.progress()
        if len(here.jobs_created()) == 3:
            break
    assert [entry["outcome"] for entry in here.ledger().values() if "outcome" in entry] == ["Succeeded"] * 2
    assert [reason for reason, _ in here.events()].count("AttemptStarted") == 3
    here.clock.now += 10
    assert await here.look() == 2.0, "the tests of the first two are still to be put there"
    unread = {(one.__dict__["pool"], one.__dict__["error"]) for one in caplog.records if one.message.startswith("hist")}
    assert unread == {("pretend", "get gpupools: no answer")}
    api.closed = False
    await here.finish()
    assert sum(len(node["figures"]) for kind in pool_health(here) for node in kind["nodes"]) == 3


async def test_the_last_tests_are_waited_for_a_minute_and_no_longer() -> None:
    here = world(figures(USUAL), repeats=1)
    await closed(here)
    waits: list[str] = []
    for _ in range(70):
        try:
            await here.look()
        except kube.TemporaryError as error:
            waits.append(str(error))
        here.clock.now += 1
        here.progress()
    assert set(waits) == {"the last tests are not in the history of their pool yet"}
    assert 50 <= len(waits) <= 60
    assert here.status()["phase"] == "Succeeded"


async def test_an_entry_of_another_version_hides_no_other_and_is_never_lost() -> None:
    here = world(SECOND_IS_SLOW)
    await finish(here, KEY)
    (pool,) = here.api.all(kube.POOLS)
    newer = {**pool_health(here)[0], "test": "disk"}
    health = [*pool_health(here), newer]
    here.api.put(kube.POOLS, {**pool, "status": {"health": health}})
    here.api.put(kube.BENCHMARKS, studies.benchmark("later", repeats=3, **SPEC))
    status = await finish(here, LATER)
    assert [told["node"] for result in status["results"] for told in result["warnings"]] == ["n6-0"]
    assert pool_health(here) == health


async def test_a_history_that_cannot_be_written_stops_no_study() -> None:
    here = world(figures(USUAL), repeats=2)
    here.api.patch_refusals["pretend"] = kube.PermanentError("status.health: Invalid value", code=422)
    await here.finish()
    assert here.status()["phase"] == "Succeeded"


async def test_a_pool_that_is_gone_stops_no_study() -> None:
    here = world(figures(USUAL), repeats=2)
    await here.look()
    here.api.remove(kube.POOLS, name="pretend", namespace="")
    await here.finish()
    assert here.status()["phase"] == "Succeeded"


def ran(*, crash_at: int | None = None, crash_before: bool = False) -> World:
    here = world(figures(*[USUAL] * 6, SLOW), repeats=7)
    here.api.crash_at, here.api.crash_before = crash_at, crash_before
    asyncio.run(here.finish())
    return here


def told(here: World) -> Any:
    """What is said and kept, without moments: a run with a crash takes longer."""
    usual = {
        key: [{name: value for name, value in one.items() if name != "oldestAt"} for one in entry["usual"]]
        for key, entry in here.ledger().items()
    }
    health = [(node["node"], node["figures"]) for kind in pool_health(here) for node in kind["nodes"]]
    return usual, health, [result["warnings"] for result in here.status()["results"]]


@pytest.mark.parametrize("crash_before", [True, False], ids=["write lost", "write carried out"])
def test_a_crash_at_any_write_loses_no_test_and_changes_no_warning(*, crash_before: bool) -> None:
    undisturbed = ran()
    ((warning,),) = told(undisturbed)[2]
    assert (warning["reason"], warning["node"]) == ("WeakNode", "n6-0")
    for number, write in enumerate(undisturbed.api.writes):
        if write[1] != "events":
            here = ran(crash_at=number, crash_before=crash_before)
            assert told(here) == told(undisturbed), f"crash at write {number}: {write}"
