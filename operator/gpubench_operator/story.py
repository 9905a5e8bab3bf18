# SPDX-License-Identifier: Apache-2.0
"""Events of Kubernetes about a benchmark: what `kubectl describe` tells.

The name of an Event is made from what it says, so that an operator that was restarted, or one that repeats a decision,
says it once: the second creation is answered with "exists", which is as good.
"""

from collections import OrderedDict

from gpubench import names
from gpubench.control import decision
from gpubench.values import Value, content_id
from gpubench_operator import kube, observe

COMPONENT = "gpubench-operator"
_MESSAGE_MAX = 1024  # the API server takes no more
_REMEMBERED = 4096

# Reasons of this edge; those of the core stand in gpubench.control.happenings.
JOB_REFUSED = "JobRefused"
NAME_TAKEN = "NameTaken"
INVALID_SPEC = "InvalidSpec"
POOL_CHANGED = "PoolChanged"


class Story:
    """Writes Events, each once."""

    def __init__(self, api: kube.Kube, *, identity: str) -> None:
        self._api = api
        self._identity = identity
        self._told: OrderedDict[str, None] = OrderedDict()  # names, so that a repeated decision costs no request

    async def tell(self, subject: "Subject", happening: decision.Happening, *, now: float) -> None:
        """Create the Event unless it is there."""
        body = event(subject, happening, identity=self._identity, now=now)
        name = f"{subject.namespace}/{kube.name_of(body)}"
        if name in self._told:
            return
        await self._api.create(kube.EVENTS, body)
        self._told[name] = None
        if len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)


class Subject(Value):
    """The benchmark that an Event is about."""

    namespace: str
    name: str
    uid: str
    generation: int


def subject(benchmark: kube.Object) -> Subject:
    """The subject in a GpuBenchmark, also in one whose spec cannot be read."""
    metadata = benchmark["metadata"]
    return Subject(
        namespace=metadata["namespace"],
        name=metadata["name"],
        uid=metadata["uid"],
        generation=metadata.get("generation", 1),
    )


def event(subject: Subject, happening: decision.Happening, *, identity: str, now: float) -> kube.Object:
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
            "kind": names.BENCHMARK_KIND,
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
