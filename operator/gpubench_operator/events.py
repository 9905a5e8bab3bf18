# SPDX-License-Identifier: Apache-2.0
"""Events of Kubernetes about a benchmark or a schedule: what `kubectl describe` tells.

The name of an Event is made from what it says, so that an operator that was restarted, or one that repeats a decision,
says it once: the second creation is answered with "exists", which is as good.
"""

import logging
from collections import OrderedDict

from gpubench import names
from gpubench.scheduler import actions, observed
from gpubench.values import Value, content_id
from gpubench_cluster import kube
from gpubench_operator import observe

COMPONENT = "gpubench-operator"
_MESSAGE_MAX = 1024  # the API server takes no more
_REMEMBERED = 4096

# Reasons of this edge; those of the core stand in gpubench.scheduler.events.
JOB_REFUSED = "JobRefused"
NAME_TAKEN = "NameTaken"
NETWORK_OPEN = "NetworkOpen"  # the NetworkPolicy was refused: whoever reaches the pods may knock
INVALID_SPEC = "InvalidSpec"
POOL_CHANGED = "PoolChanged"
STUCK = "Stuck"  # the API server refuses what the study needs
EVICTION_REFUSED = "EvictionRefused"  # of spec.drill: a PodDisruptionBudget, or a permission that is missing
NODE_CORDONED = "NodeCordoned"  # of spec.drill

_log = logging.getLogger(__name__)


class EventRecorder:
    """Writes Events, each once. No study waits for one: what could not be written is kept for later."""

    def __init__(self, api: kube.Kube, *, identity: str) -> None:
        self._api = api
        self._identity = identity
        self._emitted: OrderedDict[str, None] = OrderedDict()  # names, so that a repeated decision costs no request
        self._pending: OrderedDict[str, kube.Object] = OrderedDict()  # names and Events

    async def emit(self, subject: "Subject", happening: actions.Event, *, now: float) -> bool:
        """Create the Event unless it is there; False when it was told before."""
        body = event(subject, happening, identity=self._identity, now=now)
        name = f"{subject.namespace}/{kube.name_of(body)}"
        if name in self._emitted or name in self._pending:
            return False
        await self._write(name, body)
        return True

    async def emit_about(self, study: observed.Study, happening: actions.Event, *, now: float) -> None:
        """The Event about a study, and in the log when it is new."""
        if await self.emit(subject_of(study), happening, now=now):
            log = _log.warning if happening.type == "Warning" else _log.debug
            log("told", extra=observe.log_fields(study, reason=happening.reason, sentence=happening.message))

    async def emit_pending(self, uid: str) -> None:
        """Write what could not be written about this object before."""
        for name, body in [*self._pending.items()]:
            if _is_about(body, uid):
                await self._write(name, body)

    def has_pending(self, uid: str) -> bool:
        """Whether something about this object could not be written yet."""
        return any(_is_about(body, uid) for body in self._pending.values())

    def forget(self, uid: str) -> None:
        """The object is gone: nothing is left to be told about it."""
        for name in [name for name, body in self._pending.items() if _is_about(body, uid)]:
            del self._pending[name]

    async def _write(self, name: str, body: kube.Object) -> None:
        try:
            await self._api.create(kube.EVENTS, body)
        except kube.TemporaryError as error:
            self._pending[name] = body
            if len(self._pending) > _REMEMBERED:
                self._pending.popitem(last=False)
            _log.info("event kept for later", extra={"event": name, "sentence": str(error)})
            return
        except kube.PermanentError as error:  # a study is not stopped for an Event
            _log.warning("event refused", extra={"event": name, "sentence": str(error)})
        self._pending.pop(name, None)
        self._emitted[name] = None
        if len(self._emitted) > _REMEMBERED:
            self._emitted.popitem(last=False)


def _is_about(body: kube.Object, uid: str) -> bool:
    return bool(body["involvedObject"]["uid"] == uid)


class Subject(Value):
    """The object that an Event is about."""

    namespace: str
    name: str
    uid: str
    generation: int
    kind: str = names.BENCHMARK_KIND


def subject(body: kube.Object, *, kind: str = names.BENCHMARK_KIND) -> Subject:
    """The subject in an object, also in one whose spec cannot be read."""
    metadata = body["metadata"]
    return Subject(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
        kind=kind,
    )


def subject_of(study: observed.Study) -> Subject:
    """The same of a study that has been read."""
    return Subject(namespace=study.namespace, name=study.name, uid=study.uid, generation=study.generation)


def event(subject: Subject, happening: actions.Event, *, identity: str, now: float) -> kube.Object:
    """The Event. The generation is part of its name: a study may be suspended twice."""
    said = f"{subject.uid} {subject.generation} {happening.reason} {happening.message}"
    moment = observe.timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{subject.name}.{content_id(said, characters=16)}",
            "namespace": subject.namespace,
            "labels": {names.LABEL_MANAGED_BY: names.MANAGED_BY},
        },
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": subject.kind,
            "namespace": subject.namespace,
            "name": subject.name,
            "uid": subject.uid,
        },
        "type": happening.type,
        "reason": happening.reason,
        "message": happening.message[:_MESSAGE_MAX],
        "firstTimestamp": moment,
        "lastTimestamp": moment,
        "count": 1,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": identity[:128],
    }
