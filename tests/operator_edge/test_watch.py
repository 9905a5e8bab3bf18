# SPDX-License-Identifier: Apache-2.0
import asyncio
import signal
from typing import Any

import pytest
from kopf._core.reactor import running

import memory_kube
from gpubench import names
from gpubench.scheduler import manifests
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, queue, settings, watch
from memory_world import Clock


def nodes() -> observe.NodeStates:
    clock = Clock()
    return observe.NodeStates(memory_kube.MemoryKube(clock), clock=clock)


def handlers(woken: list[queue.Key], **own: Any) -> watch.Handlers:
    """Those of a new operator, and with things of one's own."""
    given: dict[str, Any] = {
        "wake": woken.append, "series": exporter.Series(), "created": {}, "nodes": nodes(),
        "gone": observe.GonePods(), **own,
    }  # fmt: skip
    return watch.Handlers(**given)


async def test_kopf_that_ends_ends_no_operator_later() -> None:
    """It would by a timer, which nothing takes back: this process watches again by then."""
    loop, configured = asyncio.get_running_loop(), watch.kopf_settings(settings.load({}))
    ending = asyncio.create_task(running.ultimate_termination(settings=configured, stop_flag=None))
    await asyncio.sleep(0)
    ending.cancel()
    await asyncio.gather(ending, return_exceptions=True)
    timers = [timer for timer in vars(loop)["_scheduled"] if timer._callback is signal.pthread_kill]
    for timer in timers:
        timer.cancel()
    assert timers == []


def event(kind: str | None, *, uid: str = "first", generation: int = 1) -> dict[str, Any]:
    """Of a pool; None is what kopf calls those of the list with which a watch begins."""
    metadata = {"name": "l4-spot", "uid": uid, "generation": generation}
    return {"type": kind, "object": {"metadata": metadata}}


async def test_a_pool_wakes_the_studies_that_may_wait_for_it_whether_or_not_somebody_watched_when_it_came() -> None:
    woken: list[queue.Key] = []
    handler = handlers(woken)

    async def told(*, of: dict[str, Any]) -> list[queue.Key]:
        woken.clear()
        await handler.pool(of)
        return list(woken)

    assert await told(of=event("ADDED")) == [queue.POOLS, queue.RESYNC]
    assert await told(of=event("MODIFIED")) == [], "its status alone has changed"
    assert await told(of=event(None)) == [], "the next watch begins with it"
    assert await told(of=event("MODIFIED", generation=2)) == [queue.POOLS, queue.RESYNC], "it may be readable now"
    assert await told(of=event(None, uid="second")) == [queue.POOLS, queue.RESYNC], (
        "another one, made between two watches"
    )
    assert await told(of=event("DELETED", uid="second")) == [queue.POOLS]
    assert await told(of=event(None, uid="second")) == [queue.POOLS, queue.RESYNC]


async def test_only_a_benchmark_that_came_while_we_watch_and_is_untouched_is_started_from_its_event() -> None:
    created: dict[queue.Key, kube.Object] = {}
    woken: list[queue.Key] = []
    handler = handlers(woken, created=created)

    async def told(kind: str | None, *, generation: int = 1, uid: str = "first", **status: Any) -> bool:
        metadata = {"name": "b", "namespace": "n", "uid": uid, "generation": generation}
        await handler.benchmark({"type": kind, "object": {"metadata": metadata, "spec": {}, "status": status}})
        return queue.benchmark_key("n", "b") in created

    assert await told("ADDED")
    assert not await told("MODIFIED", generation=2)
    assert not await told("DELETED", generation=2)
    assert await told("ADDED", uid="second")
    assert not await told("DELETED", uid="second")
    assert not await told(None, uid="third"), "made between two watches: somebody may have begun"
    assert not await told("ADDED", uid="fourth", phase="Running")
    assert set(woken) == {queue.benchmark_key("n", "b")}
    assert len(woken) == 7


async def test_a_node_that_is_tainted_or_goes_wakes_who_has_a_gang_there_and_its_reports_wake_nobody() -> None:
    woken: list[queue.Key] = []
    known, key = nodes(), queue.benchmark_key("n", "b")
    handler = handlers(woken, nodes=known)
    known.use(key, ["spot"])

    async def told(kind: str | None, *taints: str, name: str = "spot") -> list[queue.Key]:
        woken.clear()
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        spec = {"taints": [{"key": taint, "effect": "NoSchedule"} for taint in taints]}
        await handler.node({"type": kind, "object": {"metadata": {"name": name}, "spec": spec, "status": status}})
        return list(woken)

    notice = "cloud.google.com/impending-node-termination"
    assert await told(None) == []
    assert await told("MODIFIED") == []
    assert await told("MODIFIED", notice, name="of-nobody") == []
    assert await told("MODIFIED", notice) == [key]
    assert await told("MODIFIED", notice) == []
    assert await told("DELETED", notice) == [key]
    assert known.known["spot"].gone_since is not None
    assert await told("ADDED") == [key]


GOING: dict[str, Any] = {"deletionTimestamp": "2026-11-01T00:00:00Z"}
TRACKED: dict[str, Any] = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
OWNED: dict[str, Any] = {"ownerReferences": [{"kind": "Job", "uid": "job", "controller": True}]}


def with_condition(kind: str, status: str = "True", **more: Any) -> dict[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": kind, "status": status}], **more}}


def told(body: dict[str, Any], metadata: dict[str, Any] | None) -> dict[str, Any]:
    """The event of an object of the benchmark b; of one that is gone where there is no metadata."""
    made = {"name": "x", "namespace": "n", "uid": "job", "labels": {names.LABEL_BENCHMARK: "b"}, **(metadata or {})}
    return {"type": "DELETED" if metadata is None else "MODIFIED", "object": {"spec": {}, **body, "metadata": made}}


@pytest.mark.parametrize(
    ("body", "metadata", "seconds"),
    [
        ({}, OWNED, 1.0),
        (with_condition("Ready", phase="Running"), OWNED, 1.0),
        (with_condition("DisruptionTarget"), OWNED, 0.0),
        (with_condition("DisruptionTarget", "False"), OWNED, 1.0),
        ({}, OWNED | GOING, 0.0),
        *(({"status": {"phase": phase}}, OWNED | TRACKED, 0.0) for phase in ("Succeeded", "Failed")),
        ({"status": {"phase": "Succeeded"}}, OWNED, 1.0),
        ({"status": {"phase": "Succeeded"}}, OWNED | GOING, 1.0),
        ({}, {}, 1.0),
        ({}, GOING, 1.0),
        ({}, None, 1.0),
        *((with_condition(one), {}, 1.0) for one in ("Complete", "Failed", "FailureTarget", "Suspended")),
    ],
)
async def test_the_end_of_a_pod_wakes_its_benchmark_at_once_and_what_is_told_of_a_start_or_a_job_a_little_later(
    body: dict[str, Any], metadata: dict[str, Any] | None, seconds: float
) -> None:
    woken = list[tuple[queue.Key, float]]()
    handler = handlers([], wake=lambda key, after: woken.append((key, after)))
    await handler.gang(told(body, metadata))
    assert woken == [(queue.benchmark_key("n", "b"), seconds)]


@pytest.mark.parametrize("end", ["Complete", "Failed"])
async def test_a_recorded_job_and_its_pods_wake_nobody_when_they_go(end: str) -> None:
    woken = list[float]()
    handler = handlers([], wake=lambda _, after: woken.append(after))
    unread, recorded = ({"spec": {"ttlSecondsAfterFinished": one}} for one in (manifests.UNREAD_SECONDS, 600))
    over, running = {"status": {"phase": "Succeeded"}}, {"status": {"phase": "Running"}}
    await handler.gang(told(unread | with_condition(end), {}))
    await handler.gang(told(over, OWNED | GOING))
    assert woken == [1.0, 1.0], "it may not be read yet"
    for body, metadata in ((recorded | with_condition(end), GOING), (over, OWNED | GOING)):
        await handler.gang(told(body, metadata))
    assert woken == [1.0, 1.0]
    await handler.gang(told(running, OWNED | GOING))
    assert woken == [1.0, 1.0, 0.0], "it still holds a node"
    await handler.gang(told(recorded, {}))
    assert woken[3:] == [1.0], "it has not ended"
    await handler.gang(told(recorded | with_condition(end), None))
    await handler.gang(told(over, OWNED | GOING))
    assert woken[4:] == [1.0], "nothing of a Job that is gone is remembered"


async def test_a_pod_that_goes_is_remembered_and_wakes_its_benchmark_at_once() -> None:
    gone, woken = observe.GonePods(clock=Clock()), list[float]()
    handler = handlers([], wake=lambda _, after: woken.append(after), gone=gone)
    pod = told({"spec": {"nodeName": "node"}}, OWNED)
    await handler.gang(pod)
    assert gone.of_jobs({"job"}) == ()
    await handler.gang(pod | {"type": "DELETED"})
    assert [(one.name, one.node, one.gone_at) for one in gone.of_jobs({"job"})] == [("x", "node", Clock().now)]
    await handler.gang(told({"status": {"phase": "Succeeded"}}, OWNED) | {"type": "DELETED"})
    assert woken == [1.0, 0.0, 1.0], "that it has ended was told before"


def test_a_finished_benchmark_has_work_while_its_series_are_missing_or_it_is_to_be_deleted() -> None:
    key, series = queue.benchmark_key("n", "b"), exporter.Series(keep_seconds=60.0, clock=Clock())
    finished = {"type": "Finished", "status": "True", "reason": "AllPointsEnded", "message": "points: 1 Measured"}
    status = {"observedGeneration": 1, "conditions": [finished], "analysis": {"sha256": "0"}}
    body = {"metadata": {"name": "b", "namespace": "n", "uid": "u", "generation": 1}, "spec": {}, "status": status}
    assert watch.has_work(key, body, series)
    status["completionTime"] = observe.timestamp(Clock().now - 61)
    assert not watch.has_work(key, body, series)
    assert watch.has_work(key, {**body, "spec": {"ttlSecondsAfterFinished": 600}}, series)
    assert watch.has_work(key, {**body, "metadata": {**body["metadata"], "generation": 2}}, series)


def test_of_jobs_and_pods_those_of_benchmarks_alone_are_watched_and_nothing_is_written() -> None:
    found = watch.kopf_settings(settings.load({"GPUBENCH_IDENTITY": "test"}))
    selectors = found.watching.label_selectors
    assert selectors["batch", "v1", "jobs"] == selectors["", "v1", "pods"]
    assert f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY}" in str(selectors["", "v1", "pods"])
    assert (found.posting.enabled, found.peering.standalone, found.scanning.disabled) == (False, True, True)
