# SPDX-License-Identifier: Apache-2.0
"""GpuPools: their status from the cluster's nodes, and a word to studies whose pool has changed under them.

Nodes are listed from time to time, not watched: thousands of kubelets report every few seconds, and what a pool has is
no question of seconds. No study is decided by what stands in these statuses; they are for people. But a study that has
a gang on a node that came into trouble is looked at again.
"""

import time
from collections.abc import Callable

from pydantic import ValidationError

from gpubench.analysis import pool_status
from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolStatus
from gpubench.plan.plan import Plan
from gpubench.scheduler import decision
from gpubench_cluster import kube
from gpubench_operator import (
    keys,
    logs,
    nodes,
    observe,
    pool_exporter,
    settings,
    status_writer,
    store,
    story,
)

_log = logs.logger(__name__)


class PoolReconciler:
    """Keeps the status of all pools."""

    def __init__(
        self,
        api: kube.Kube,
        *,
        options: settings.Settings,
        plans: store.Store,
        figures: pool_exporter.PoolFigures | None = None,
        machines: nodes.Nodes | None = None,
        wake: Callable[[keys.Key], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._options = options
        self._plans = plans
        self._figures = figures or pool_exporter.PoolFigures()
        self._wake = wake
        self._machines = machines or nodes.Nodes(api, clock=clock)
        self._clock = clock
        self._status = status_writer.StatusWriter(api, interval=0.0)
        self._story = story.Story(api, identity=options.identity)

    async def reconcile(self, key: keys.Key) -> float | None:
        """One look at all pools."""
        del key  # one list of nodes serves all pools
        bodies = await self._api.list(kube.POOLS)
        seen: dict[str, tuple[GpuPool | None, GpuPoolStatus]] = {}
        if bodies:
            listed = await self._api.list(kube.NODES)
            self._machines.note(listed, all_there_are=True)
            self._tell_affected()
            for body in bodies:
                seen[kube.name_of(body)] = await self._write_status(body, listed)
            await self._tell_changes({kube.name_of(body): body for body in bodies})
        self._figures.replace(seen)
        return self._options.node_poll_seconds

    def _tell_affected(self) -> None:
        """A node that is gone, silent or about to go is an event that no pod of it may ever tell."""
        for key in sorted(self._machines.affected()):
            if self._wake is not None:
                self._wake(key)

    async def _write_status(self, body: kube.Object, listed: list[kube.Object]) -> tuple[GpuPool | None, GpuPoolStatus]:
        """The pool, where it can be read, and what is said of it."""
        before, pool = _conditions(body), None
        try:
            pool = observe.pool(body)
            seen = pool_status.pool_status(pool, listed, self._clock(), before)
        except ValidationError as error:
            sentence = observe.unreadable(error)
            _log.warning("unreadable pool", extra={"pool": kube.name_of(body), "sentence": sentence})
            seen = pool_status.unreadable(sentence, self._clock(), before)
        health = (body.get("status") or {}).get("health") or []  # written when attempts end: `histories`
        status = {**seen, "health": health}
        try:
            await self._status.write(kube.POOLS, body, status, now=self._clock())
        except kube.ApiError as error:  # the next poll tries again; the other pools go on
            log = _log.error if isinstance(error, kube.PermanentError) else _log.info
            log("status not written", extra={"pool": kube.name_of(body), "sentence": str(error)})
        return pool, GpuPoolStatus.model_validate(seen)

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
