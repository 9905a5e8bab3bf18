# SPDX-License-Identifier: Apache-2.0
"""GpuPools: their status from the cluster's nodes, and a word to studies whose pool has changed under them.

Nodes are listed from time to time, not watched: thousands of kubelets report every few seconds, and what a pool has is
no question of seconds. No study is decided by what stands here; it is for people.
"""

import time
from collections.abc import Callable

from pydantic import ValidationError

from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPoolStatus
from gpubench.control import decision, pool_status
from gpubench.plan.plan import Plan
from gpubench_operator import keys, kube, logs, nodes, observe, settings, status_writer, store, story

_log = logs.logger(__name__)


class PoolReconciler:
    """Keeps the status of all pools."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        plans: store.Store,
        machines: nodes.Nodes | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._plans = plans
        self._machines = machines or nodes.Nodes(api, clock=clock)
        self._clock = clock
        self._status = status_writer.StatusWriter(api, interval=0.0)
        self._story = story.Story(api, identity=options.identity)

    async def reconcile(self, key: keys.Key) -> float | None:
        """One look at all pools."""
        del key  # one list of nodes serves all pools
        bodies = await self._api.list(kube.POOLS)
        if bodies:
            listed = await self._api.list(kube.NODES)
            self._machines.note(listed)
            for body in bodies:
                await self._write_status(body, listed)
            await self._tell_changes({kube.name_of(body): body for body in bodies})
        return self._options.node_poll_seconds

    async def _write_status(self, body: kube.Object, listed: list[kube.Object]) -> None:
        before = _conditions(body)
        try:
            status = {
                **pool_status.pool_status(observe.pool(body), listed, self._clock(), before),
                "health": (body.get("status") or {}).get("health") or [],  # written when attempts end: `histories`
            }
        except ValidationError as error:
            _log.warning("unreadable pool", extra={"pool": kube.name_of(body), "sentence": str(error.errors()[0])})
            return
        try:
            await self._status.write(kube.POOLS, body, status, now=self._clock())
        except (kube.RetryLater, kube.Never) as error:  # the next poll tries again; the other pools go on
            log = _log.error if isinstance(error, kube.Never) else _log.info
            log("status not written", extra={"pool": kube.name_of(body), "sentence": str(error)})

    async def _tell_changes(self, bodies: dict[str, kube.Object]) -> None:
        """A study goes on with the pools as it found them; whoever changed one should know that."""
        for benchmark, plan in await self._live():
            for name, what in _changes(plan, bodies, default_image=self._options.jobs_image).items():
                sentence = f"GpuPool {name} was {what}: this study goes on with the pool as it was when it started"
                happening = decision.Happening(type="Warning", reason=story.POOL_CHANGED, message=sentence)
                await self._story.tell(story.subject(benchmark), happening, now=self._clock())

    async def _live(self) -> list[tuple[kube.Object, Plan]]:
        plans = self._plans.remembered()
        if not plans:
            return []
        bodies = [
            body
            for namespace in self._options.watch_namespaces or (None,)
            for body in await self._api.list(kube.BENCHMARKS, namespace=namespace, metadata_only=True)
        ]
        return [(body, plans[kube.uid_of(body)]) for body in bodies if kube.uid_of(body) in plans]


def _changes(plan: Plan, bodies: dict[str, kube.Object], *, default_image: str | None) -> dict[str, str]:
    """Pools of a plan that are not what they were."""
    changes: dict[str, str] = {}
    for frozen in plan.pools:
        if frozen.name not in bodies:
            changes[frozen.name] = "deleted"
            continue
        try:
            now = observe.pool(bodies[frozen.name], default_image=default_image)
        except ValidationError:
            continue
        if now != frozen:
            changes[frozen.name] = "changed"
    return changes


def _conditions(body: kube.Object) -> tuple[Condition, ...]:
    try:
        return GpuPoolStatus.model_validate(body.get("status") or {}).conditions
    except ValidationError:
        return ()
