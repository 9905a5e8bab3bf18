# SPDX-License-Identifier: Apache-2.0
from typing import Any

import prometheus_client
import pytest

import studies
from gpubench import metrics, names
from gpubench.analysis import pool_status
from gpubench.api.pool import GpuPool
from gpubench_cluster import kube
from gpubench_operator import exporter, pool, queue
from memory_world import KEY, World


def reconciler(world: World, **options: str) -> pool.PoolReconciler:
    return world.pools(exporter.PoolCollector(), **options)


def image(world: World, name: str | None) -> None:
    template: dict[str, Any] = {} if name is None else {"template": {"image": name}}
    world.api.put(kube.POOLS, studies.pool(**template))


def warnings(world: World) -> list[str]:
    return [message for reason, message in world.events() if reason == "PoolChanged"]


async def test_another_image_of_a_pool_is_told_to_a_study_under_way() -> None:
    world = World()
    image(world, "registry/jobs:1")
    await world.look()
    await reconciler(world).reconcile(queue.POOLS)
    assert warnings(world) == []
    image(world, "registry/jobs:2")
    await reconciler(world).reconcile(queue.POOLS)
    (said,) = warnings(world)
    assert "GpuPool pretend was changed" in said


async def test_the_image_that_the_installation_fills_in_is_no_change() -> None:
    world = World()
    world.start_operator(GPUBENCH_JOBS_IMAGE="registry/jobs:1")
    await world.look()
    await reconciler(world, GPUBENCH_JOBS_IMAGE="registry/jobs:1").reconcile(queue.POOLS)
    assert warnings(world) == []


async def test_a_pool_whose_status_is_refused_does_not_stop_the_others() -> None:
    world = World()
    world.api.put(kube.POOLS, studies.pool("second"))
    world.api.put(kube.POOLS, {**studies.pool("unreadable"), "spec": {"slotsPerNode": "many"}})
    world.api.patch_refusals["pretend"] = kube.PermanentError("status.nodes: Invalid value", code=422)
    await reconciler(world).reconcile(queue.POOLS)
    assert {kube.name_of(body) for body in world.api.all(kube.POOLS) if "status" in body} == {"second", "unreadable"}


async def test_a_pool_that_cannot_be_read_says_why(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.api.put(kube.POOLS, {**studies.pool("of-a-newer-version"), "spec": {**studies.pool()["spec"], "racks": 4}})
    await reconciler(world).reconcile(queue.POOLS)
    status = next(body["status"] for body in world.api.all(kube.POOLS) if kube.name_of(body) == "of-a-newer-version")
    (ready,) = status["conditions"]
    assert (ready["type"], ready["status"], ready["reason"]) == ("Ready", "Unknown", "Unreadable")
    assert ready["message"].startswith("this version of the operator cannot read the object: racks: ")
    (said,) = (one for one in caplog.records if one.message == "unreadable pool")
    assert (said.__dict__["pool"], said.__dict__["error"]) == ("of-a-newer-version", ready["message"])
    assert not said.exc_info, "no fault of the program's"


async def test_a_pool_over_which_the_operator_stumbles_says_so_and_the_others_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, judged = World(), pool_status.of

    def stumbling(found: GpuPool, *known: Any, **more: Any) -> Any:
        if found.name == "odd":
            raise KeyError("racks")
        return judged(found, *known, **more)

    monkeypatch.setattr(pool_status, "of", stumbling)
    world.api.put(kube.POOLS, studies.pool("odd"))
    await reconciler(world).reconcile(queue.POOLS)
    statuses = {kube.name_of(body): body["status"] for body in world.api.all(kube.POOLS)}
    (ready,) = statuses["odd"]["conditions"]
    assert (ready["status"], "KeyError: 'racks'" in ready["message"]) == ("Unknown", True)
    assert "slots" in statuses["pretend"]


async def test_a_study_is_looked_at_when_a_node_of_its_gang_falls_silent() -> None:
    world = World()
    await world.look()
    world.progress()  # its pods run
    await world.look()
    tested, woken = reconciler(world), world.woken
    woken.clear()
    await tested.reconcile(queue.POOLS)
    assert woken == []
    for body in world.api.all(kube.NODES):
        silent = {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "2027-01-15T08:00:00Z"}]}
        world.api.put(kube.NODES, {**body, "status": silent})
    await tested.reconcile(queue.POOLS)
    assert woken == [KEY]
    await tested.reconcile(queue.POOLS)
    assert woken == [KEY]


async def test_the_conditions_of_a_pool_say_of_which_generation_they_are() -> None:
    world = World()
    (body,) = world.api.all(kube.POOLS)
    world.api.put(kube.POOLS, {**body, "metadata": {**body["metadata"], "generation": 7}})
    await reconciler(world).reconcile(queue.POOLS)
    (after,) = world.api.all(kube.POOLS)
    assert {one["observedGeneration"] for one in after["status"]["conditions"]} == {7}


async def test_pools_have_series_of_what_the_cluster_shows_and_studies_hold_and_none_when_they_are_gone() -> None:
    world = World(repeats=1)
    await world.look()  # two trials, which hold slots
    slots = world.operator.slots
    price = {"perNodeHour": "0.04", "currency": "USD", "asOf": "2026-11-01"}
    large = {"nodeSelector": {names.LABEL_INSTANCE_TYPE: "large"}}
    world.api.put(kube.POOLS, studies.pool(price=price, scheduling=large))
    node = world.api.all(kube.NODES)[0]
    world.api.put(kube.NODES, {**node, "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    world.api.put(kube.POOLS, {**studies.pool("unreadable"), "spec": {"slotsPerNode": "many"}})
    collector = exporter.PoolCollector(held=slots.held, waiting=slots.waiting)
    registry = prometheus_client.CollectorRegistry()
    registry.register(collector)
    tested = world.pools(collector)

    def value(metric: metrics.Metric, **labels: str) -> float | None:
        return registry.get_sample_value(metric.name, {"pool": "pretend", **labels})

    await tested.reconcile(queue.POOLS)
    assert value(metrics.POOL_NODES) == 4
    assert value(metrics.POOL_READY_NODES) == value(metrics.POOL_SLOTS) == 1
    held = sum(slots.held().values())
    assert held > 0
    assert value(metrics.POOL_HELD_SLOTS) == held
    assert value(metrics.POOL_WAITING) == 0
    assert value(metrics.POOL_PRICE, currency="USD") == 0.04
    assert value(metrics.POOL_PRICE_READ) == 1793491200.0  # 1 November 2026, UTC
    assert value(metrics.POOL_CONDITION, condition="PriceStale") in (0.0, 1.0)
    assert value(metrics.POOL_INFO, accelerator="", capacity_type="OnDemand") == 1.0
    assert registry.get_sample_value(metrics.POOL_CONDITION.name, {"pool": "unreadable", "condition": "Ready"}) == 0.0
    assert registry.get_sample_value(metrics.POOL_NODES.name, {"pool": "unreadable"}) is None
    for family in registry.collect():
        labels = next(metric.labels for metric in metrics.CATALOGUE if metric.name == family.name)
        assert all(set(sample.labels) == set(labels) for sample in family.samples)

    for name in ("pretend", "unreadable"):
        world.api.remove(kube.POOLS, name=name)
    await tested.reconcile(queue.POOLS)
    assert list(registry.collect()) == []
