# SPDX-License-Identifier: Apache-2.0
from typing import Any

import studies
from gpubench_operator import keys, kube, pools, settings
from memory_world import World


def reconciler(world: World, **options: str) -> pools.PoolReconciler:
    settled = settings.load({"GPUBENCH_IDENTITY": "test", **options})
    return pools.PoolReconciler(world.api, options=settled, plans=world.operator.store, clock=world.clock)


def image(world: World, name: str | None) -> None:
    template: dict[str, Any] = {} if name is None else {"template": {"image": name}}
    world.api.put(kube.POOLS, studies.pool(**template))


def warnings(world: World) -> list[str]:
    return [message for reason, message in world.events() if reason == "PoolChanged"]


async def test_another_image_of_a_pool_is_told_to_a_study_under_way() -> None:
    world = World()
    image(world, "registry/jobs:1")
    await world.look()
    await reconciler(world).reconcile(keys.POOLS)
    assert warnings(world) == []
    image(world, "registry/jobs:2")
    await reconciler(world).reconcile(keys.POOLS)
    (said,) = warnings(world)
    assert "GpuPool pretend was changed" in said


async def test_the_image_that_the_installation_fills_in_is_no_change() -> None:
    world = World()
    world.start_operator(GPUBENCH_JOBS_IMAGE="registry/jobs:1")
    await world.look()
    await reconciler(world, GPUBENCH_JOBS_IMAGE="registry/jobs:1").reconcile(keys.POOLS)
    assert warnings(world) == []


async def test_a_pool_whose_status_is_refused_does_not_stop_the_others() -> None:
    world = World()
    world.api.put(kube.POOLS, studies.pool("second"))
    world.api.put(kube.POOLS, {**studies.pool("unreadable"), "spec": {"slotsPerNode": "many"}})
    world.api.patch_refusals["pretend"] = kube.Never("status.nodes: Invalid value", code=422)
    await reconciler(world).reconcile(keys.POOLS)
    assert {kube.name_of(body) for body in world.api.all(kube.POOLS) if "status" in body} == {"second"}
