# SPDX-License-Identifier: Apache-2.0
"""What pods of gangs really held, from a watch of the API server: beside it the ledger of a benchmark must be right.

Nothing here is the product's: times are read from the pods once more. What may not happen here: a pod that nobody saw.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cluster import ApiError, Cluster
from gpubench import names, units
from gpubench.scheduler import outcome

_PODS = f"/api/v1/pods?labelSelector={names.LABEL_MANAGED_BY}%3D{names.MANAGED_BY}"
_WATCH_SECONDS = 300.0
_EXACT, _SEEN = 0.0015, 3.0  # seconds: a time of the API, and of an event that was on its way
_PLAIN_STATES = ("Pending", "Running", "Measured")
OUTLIVES_SECONDS = 60.0 + outcome.GRACE_SECONDS  # after an attempt's end no container of it runs


@dataclass
class Life:
    """One pod, as it was seen last."""

    job: str  # UID
    name: str
    placed: float | None = None
    ended: float | None = None
    is_exact: bool = True


class Lives:
    """All pods of gangs of a cluster, as a watch tells of them."""

    def __init__(self) -> None:
        self._closing = threading.Event()
        self._known: dict[str, Life] = {}

    @classmethod
    def watched(cls, cluster: Cluster) -> "Lives":
        """Watched from a thread until `close`; an API server that is away is waited for."""
        lives = cls()
        threading.Thread(target=lives._watch, args=(cluster,), daemon=True).start()
        return lives

    def close(self) -> None:
        self._closing.set()

    def of_job(self, uid: str) -> list[Life]:
        return [life for life in list(self._known.values()) if life.job == uid and life.placed is not None]

    def _watch(self, cluster: Cluster) -> None:
        version = ""
        while not self._closing.is_set():
            with contextlib.suppress(OSError, ValueError, ApiError):
                if not version:
                    listed = cluster.request("GET", _PODS)
                    for body in listed["items"]:
                        self.note(body)
                    version = listed["metadata"]["resourceVersion"]
                path = f"{_PODS}&resourceVersion={version}"
                for event in cluster.watch(path, timeout_seconds=_WATCH_SECONDS):
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self.note(event["object"], is_gone=event["type"] == "DELETED")
            self._closing.wait(0.2)

    def note(self, body: Mapping[str, Any], *, is_gone: bool = False) -> None:
        """A pod as it is now, or was when it was deleted."""
        metadata, status = body["metadata"], body.get("status") or {}
        owner = next((one["uid"] for one in metadata.get("ownerReferences") or () if one["kind"] == "Job"), "")
        life = self._known.setdefault(metadata["uid"], Life(owner, metadata["name"]))
        conditions = {one["type"]: one for one in status.get("conditions") or ()}
        scheduled = conditions.get("PodScheduled", {})
        if scheduled.get("status") == "True" and body["spec"].get("nodeName"):
            life.placed = units.epoch_seconds(scheduled["lastTransitionTime"])
        statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
        states = [one.get("state") or {} for one in statuses]
        ends = [one["terminated"]["finishedAt"] for one in states if (one.get("terminated") or {}).get("finishedAt")]
        works = any(
            one["name"] == names.CONTAINER and {"terminated"} & (one.get("state") or {}).keys() for one in statuses
        )
        is_told, is_over = "deletionTimestamp" in metadata, status.get("phase") in ("Succeeded", "Failed")
        if ends and not any("running" in one for one in states) and (works or (is_over and not is_told)):
            life.ended, life.is_exact = max(map(units.epoch_seconds, ends)), True
        elif is_over and not (is_told or ends) and "Ready" in conditions:  # its node refused it
            life.ended, life.is_exact = units.epoch_seconds(conditions["Ready"]["lastTransitionTime"]), True
        elif is_gone and life.ended is None:
            life.ended, life.is_exact = time.time(), False


@contextlib.contextmanager
def kept(cluster: Cluster, entries: Callable[[], Iterable[Mapping[str, Any]]], **allowed: Any) -> Iterator[None]:
    """Whatever others do meanwhile, what is billed is what the pods held, and none of them outlives its attempt."""
    with contextlib.closing(Lives.watched(cluster)) as lives:
        yield
        found = list(wrong((entry for entry in entries() if entry.get("outcome")), lives, **allowed))
        assert not found, found  # in words: pytest rewrites no module that is not a test


def wrong(entries: Iterable[Mapping[str, Any]], lives: Lives, *, unseen: Collection[str] = ()) -> Iterator[str]:
    """What a ledger has other than the pods had it; after ends with reasons `unseen` nobody may have seen them end."""
    for entry in entries:
        key = f"attempt {entry['trial']}.{entry['attempt']} ({entry.get('reason')})"
        runs = [entry, *entry.get("segments", ())]
        if any(run.get("holding") for run in runs):
            yield f"{key} still has pods on their nodes"
        if entry.get("reason") in unseen:
            continue
        real = sorted(lives.of_job(entry["jobUid"]), key=lambda life: (life.placed or 0.0, life.ended or 0.0))
        booked = sorted((placed, ended) for run in runs for placed, _, ended in run.get("podTimes", ()))
        if any(run.get("unseen") for run in runs) or len(real) != len(booked):
            yield f"{key} has {len(booked)} pods of {len(real)}, some of which nobody saw ending"
            continue
        for life, (placed, ended) in zip(real, booked, strict=True):
            held = None if life.ended is None or life.placed is None else life.ended - life.placed
            if held is None or abs(held - (ended - placed)) > (_EXACT if life.is_exact else _SEEN):
                at = entry["createdAt"]
                booked_as = f"booked {at + placed:.3f} to {at + ended:.3f}"
                yield f"{key}: pod {life.name} held its node from {life.placed} to {life.ended}, {booked_as}"
            if held is not None and life.ended is not None and life.ended > _end(entry) + OUTLIVES_SECONDS:
                yield f"{key}: pod {life.name} ended {life.ended - _end(entry):.0f} s after its attempt"


def unsaid(body: Mapping[str, Any]) -> Iterator[str]:
    """Of a status at any moment: conditions and results that are not as they should be, without a message."""
    status, name = body.get("status") or {}, body["metadata"]["name"]
    for one in status.get("conditions") or ():
        if not (one.get("reason") and one.get("message")):
            yield f"{name}: condition {one['type']} is {one['status']} without a reason or message"
    for number, one in enumerate(status.get("results") or ()):
        if one["state"] not in _PLAIN_STATES and not one.get("message"):
            yield f"{name}: point {number} is {one['state']} without a message"


def _end(entry: Mapping[str, Any]) -> float:
    return float(entry.get("endedAt") or time.time())
