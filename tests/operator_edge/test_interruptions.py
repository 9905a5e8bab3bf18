# SPDX-License-Identifier: Apache-2.0
"""Pods that are interrupted on purpose, and nodes that say that they are about to go."""

from typing import Any

import studies
from gpubench import names
from gpubench_cluster import kube
from gpubench_operator import observe
from memory_world import KEY, NOW, Fate, World, sweep


def drilled(**spec: Any) -> World:
    return World(sweep=sweep(2), repeats=1, fates=(Fate.LONG,), max_nodes=2, drill={"every": "5s"}, **spec)


async def until_due(world: World) -> None:
    """The gang's pods run, and in the next look one of them is due."""
    await world.look()
    world.progress()
    world.clock.now += 5


async def test_the_pod_is_named_on_its_job_before_it_is_evicted() -> None:
    world = drilled()
    await until_due(world)
    before = len(world.api.writes)
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    chosen = job["metadata"]["annotations"][names.ANNOTATION_DRILLED]
    written = [what for what in world.api.writes[before:] if what[1] in ("jobs", "pods")]
    assert written == [("patch", "jobs", kube.name_of(job)), ("evict", "pods", chosen)]
    await world.look()
    (entry,) = world.ledger().values()
    assert (entry["outcome"], entry["drilled"]) == ("Preempted", chosen)
    assert [reason for reason, _ in world.events() if reason in ("Drilled", "AttemptPreempted")] == ["Drilled"]
    assert world.api.writes[-1][:2] != ("evict", "pods")


async def test_an_eviction_that_a_budget_forbids_is_told_once_and_tried_again_when_the_server_says_so() -> None:
    world = drilled()
    await until_due(world)
    sentence = "create pods/eviction: Cannot evict pod as it would violate the pod's disruption budget. (code 429)"
    for delay, due in ((7.0, 7.0), (None, 5.0)):
        world.api.evictions_refused.append(kube.TemporaryError(sentence, delay=delay))
        wait = await world.look()
        assert wait is not None
        assert wait <= due
    assert [reason for reason, _ in world.events()].count("EvictionRefused") == 1
    assert world.status()["attempts"]["drilled"] == 0
    await world.look()
    assert ("evict", "pods") in [what[:2] for what in world.api.writes]


async def test_a_missing_permission_to_evict_stops_nothing_else() -> None:
    world = drilled()
    await until_due(world)
    world.api.evictions_refused.append(kube.Forbidden("create pods/eviction: forbidden (code 403)"))
    assert await world.look() is not None
    assert "EvictionRefused" in dict(world.events())
    assert world.condition("Progressing")["status"] == "True"


async def test_a_pod_that_is_gone_before_it_is_evicted_is_no_error() -> None:
    world = drilled()
    await until_due(world)
    real = world.api.evict

    async def gone(**_: Any) -> bool:
        return False

    world.api.evict = gone  # type: ignore[method-assign]
    await world.look()
    world.api.evict = real  # type: ignore[method-assign]
    assert "EvictionRefused" not in dict(world.events())


async def test_pods_of_others_are_never_evicted() -> None:
    world = drilled()
    await until_due(world)
    (job,) = world.api.all(kube.JOBS)
    for index in range(2):  # labelled as ours, of nobody or of a Job that is not ours
        foreign = studies.gang_pod(job, index, now=NOW, state={"running": {"startedAt": observe.timestamp(NOW)}})
        metadata = {**foreign["metadata"], "name": f"foreign-{index}", "ownerReferences": []}
        world.api.put(kube.PODS, {**foreign, "metadata": metadata})
    await world.look()
    evicted = [name for verb, resource, name in world.api.writes if (verb, resource) == ("evict", "pods")]
    assert len(evicted) == 1
    assert not evicted[0].startswith("foreign")


async def test_a_conflict_with_others_who_write_the_node_is_tried_again_in_silence() -> None:
    drill = {"every": "5s", "kind": "Drain"}
    world = World(sweep=sweep(1), repeats=1, fates=(Fate.LONG,), max_nodes=1, drill=drill)
    await until_due(world)
    conflict = kube.TemporaryError("patch nodes: the object has been modified (code 409)", code=409, delay=0.2)
    world.api.patch_refusals["node-0"] = conflict
    wait = await world.look()
    assert wait is not None
    assert wait <= 0.2
    assert "EvictionRefused" not in dict(world.events())
    await world.look()
    assert ("evict", "pods") in [what[:2] for what in world.api.writes]


# --- announced ends ---------------------------------------------------------------------------------------------------


async def announce(world: World, taint: str) -> None:
    (pod,) = world.api.all(kube.PODS)
    (node,) = (body for body in world.api.all(kube.NODES) if kube.name_of(body) == pod["spec"]["nodeName"])
    world.clock.now += 5
    world.operator.nodes.note([world.api.put(kube.NODES, {**node, "spec": {"taints": [{"key": taint}]}, "status": {}})])
    assert world.operator.nodes.affected() == {KEY}
    await world.look()


async def running(**spec: Any) -> World:
    wanted: dict[str, Any] = {"sweep": sweep(1), "repeats": 1, **spec}
    world = World(fates=(Fate.LONG,), max_nodes=1, **wanted)
    await world.look()
    world.progress()
    await world.look()
    return world


async def test_a_gang_on_a_node_that_is_about_to_go_goes_on_and_that_is_said_until_it_is_over() -> None:
    world = await running()
    await announce(world, "karpenter.sh/disrupted")
    said = world.condition("NodeLeaving")
    assert (said["status"], said["reason"]) == ("True", "EndAnnounced")
    assert (
        "(karpenter.sh/disrupted) is about to go: the gangs there go on, as they may finish before" in said["message"]
    )
    await world.look()
    assert [text for reason, text in world.events() if reason == "NodeLeaving"] == [said["message"]]
    assert all("outcome" not in entry for entry in world.ledger().values())
    world.fates = ()
    world.progress()
    await world.look()
    assert world.condition("NodeLeaving").get("status") != "True"
    assert world.status()["attempts"]["succeeded"] == 1


async def test_a_notice_is_handed_on_to_a_training_that_keeps_checkpoints_and_counts_as_a_reclaim_and_no_drill() -> (
    None
):
    spec: dict[str, Any] = {
        "measure": {"mode": "Training", "repeats": {"min": 1}},
        "checkpoint": {"volume": {"claimName": "runs"}},
        "drill": {"every": "1h"},
        "sweep": [sweep(1)[0] | {"data": {"source": "Generated", "samples": 800}, "epochs": 1}],
    }
    world = await running(**spec)
    await announce(world, "aws-node-termination-handler/spot-itn")
    (entry,) = (one for one in world.ledger().values() if one["attempt"] == 1)
    assert (entry["outcome"], entry["reason"], entry["interruption"]) == ("Preempted", "NodeLeaving", "Reclaim")
    assert "drilled" not in entry
    assert "all pods were told to end, so that a last checkpoint is kept" in entry["sentence"]
    (job, *_) = world.api.all(kube.JOBS)
    assert "deletionTimestamp" in job["metadata"]
    assert "AttemptPreempted" in dict(world.events())
    attempts = world.status()["attempts"]
    assert (attempts["preempted"], attempts["drilled"], attempts["interruptions"]["reclaimed"]) == (1, 0, 1)
