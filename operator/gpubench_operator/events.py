# SPDX-License-Identifier: Apache-2.0
"""Kubernetes Events about a benchmark or a schedule: what `kubectl describe` shows.

An Event's name is made from its content, so that a restarted operator or a repeated decision emits it once: the second
creation is answered with "exists", which is as good.
"""

import logging
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from gpubench import names
from gpubench.api import messages
from gpubench.sanitize import one_line
from gpubench.scheduler import actions, conditions, observed
from gpubench.values import content_id
from gpubench_cluster import kube
from gpubench_operator import observe

_COMPONENT = "gpubench-operator"
_MESSAGE_MAX = 1024  # the API server takes no more
_REMEMBERED = 4096

# Reasons of this edge; those of the core are in gpubench.scheduler.events.
NAME_TAKEN = "NameTaken"
NETWORK_OPEN = "NetworkOpen"  # the NetworkPolicy was refused: whoever reaches the pods may knock
INVALID_SPEC = "InvalidSpec"
POOL_CHANGED = "PoolChanged"
STUCK = "Stuck"  # the API server refuses what the benchmark needs
EVICTION_REFUSED = "EvictionRefused"  # of spec.drill: a PodDisruptionBudget, or a permission that is missing
NODE_CORDONED = "NodeCordoned"  # of spec.drill

_log = logging.getLogger(__name__)


class Subject(NamedTuple):
    """The object that an Event is about."""

    namespace: str
    name: str
    uid: str
    generation: int
    kind: str


def subject(body: kube.Object, *, kind: str = names.BENCHMARK_KIND) -> Subject:
    """The subject in an object, also in one whose spec cannot be read."""
    metadata = body["metadata"]
    return Subject(metadata["namespace"], metadata["name"], metadata["uid"], metadata.get("generation", 1), kind)


def stuck(error: kube.ApiError) -> actions.Event:
    """What is said of an object over which the API server gives the same answer again and again."""
    said = messages.refused("what is kept of it", str(error)).message if error.code == kube.TOO_LARGE else str(error)
    return actions.Event.warning(STUCK, said)


def unexpected(error: Exception) -> actions.Event:
    """What is said of an object over which every reconcile fails."""
    said = f"{type(error).__name__}: {one_line(str(error))}"
    remedy = "the operator tries again; where it stays so, report it with the exception in the operator's log"
    message = f"reconciling fails again and again ({conditions.clamped(said, 600)}): {remedy}"
    return actions.Event.warning(STUCK, message)


class EventRecorder:
    """Writes each Event once. No benchmark waits for one: what could not be written stays pending."""

    def __init__(self, api: kube.Kube, *, identity: str, clock: Callable[[], float] = time.time) -> None:
        self._api, self._identity, self._clock = api, identity, clock
        self._emitted: OrderedDict[str, None] = OrderedDict()  # names, so that a repeated decision costs no request
        self._pending: OrderedDict[str, kube.Object] = OrderedDict()  # names and Events

    async def emit(self, about: observed.Study | Subject, *news: actions.Event) -> None:
        """Create and log the Events that were not emitted before."""
        kind = about.kind if isinstance(about, Subject) else names.BENCHMARK_KIND
        for event in news:
            body = self._body(about, event, kind=kind)
            name = f"{about.namespace}/{kube.name_of(body)}"
            if name not in self._emitted and name not in self._pending:
                level = logging.WARNING if event.type == "Warning" else logging.DEBUG
                what = "benchmark" if kind == names.BENCHMARK_KIND else "schedule"
                extra = {"namespace": about.namespace, what: about.name, "reason": event.reason, "text": event.message}
                _log.log(level, "event", extra=extra)
                await self._write(name, body)

    async def emit_pending(self, uid: str) -> None:
        for name in self.pending_about(uid):
            await self._write(name, self._pending[name])

    def forget(self, uid: str) -> None:
        for name in self.pending_about(uid):
            del self._pending[name]

    def pending_about(self, uid: str) -> list[str]:
        return [name for name, body in self._pending.items() if body["involvedObject"]["uid"] == uid]

    async def _write(self, name: str, body: kube.Object) -> None:
        try:
            await self._api.create(kube.EVENTS, body)
        except kube.TemporaryError as error:
            self._pending[name] = body
            if len(self._pending) > _REMEMBERED:
                self._pending.popitem(last=False)
            _log.info("event kept for later", extra={"object": name, "error": str(error)})
            return
        except kube.PermanentError as error:  # no benchmark stops for an Event
            _log.warning("event refused", extra={"object": name, "error": str(error)})
        self._pending.pop(name, None)
        self._emitted[name] = None
        if len(self._emitted) > _REMEMBERED:
            self._emitted.popitem(last=False)

    def _body(self, about: observed.Study | Subject, event: actions.Event, *, kind: str) -> kube.Object:
        """The Event. The generation is part of its name: a benchmark may be suspended twice."""
        content = f"{about.uid} {about.generation} {event.reason} {event.message}"
        involved = {"kind": kind, "namespace": about.namespace, "name": about.name, "uid": about.uid}
        moment = observe.timestamp(self._clock())
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{about.name}.{content_id(content, characters=16)}",
                "namespace": about.namespace,
                "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
            },
            "involvedObject": {"apiVersion": names.API_VERSION, **involved},
            "type": event.type,
            "reason": event.reason,
            "message": conditions.clamped(event.message, _MESSAGE_MAX),
            "firstTimestamp": moment,
            "lastTimestamp": moment,
            "count": 1,
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "reportingInstance": self._identity[:128],
        }
