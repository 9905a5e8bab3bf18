# SPDX-License-Identifier: Apache-2.0
"""The studies of a run as they come and go: applied, meddled with, looked at when they have finished, deleted.

One look at all lanes is one list of benchmarks. A study that has finished is checked, then deleted, then what it owned
must go. What may not happen here: a wait; whoever drives it looks again.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import chaos_invariants
import chaos_studies
import gang_books
from chaos_place import AWAY, MERGE_PATCH, Place
from chaos_studies import Course, Study
from cluster import ApiError
from gpubench import names
from gpubench.scheduler import conditions
from gpubench_cluster import kube

_GONE_SECONDS = 240.0  # a deleted Node keeps its pods for a minute; then a machine may be off for half a minute more
_STUDY_SECONDS = 900.0  # from the last fault that struck it: two back-offs of five minutes, and attempts at all trials
_OUR_FAULT = frozenset({400, 405, 422})  # asked again, they would be refused again
_EVERYTHING = (kube.JOBS, kube.PODS, kube.SERVICES, kube.CONFIG_MAPS, kube.SECRETS, kube.NETWORK_POLICIES)


@dataclass
class _Live:
    """A study in its lane."""

    study: Study
    uid: str
    applied_at: float
    meddled: bool = False
    resumed: bool = False


@dataclass
class _Deleted:
    """A study that is gone, and what is left of it is yet to go."""

    study: Study
    uid: str
    deleted_at: float


@dataclass
class Lanes:
    """All lanes of a run."""

    place: Place
    seed: int
    with_real: bool
    is_excused: Callable[[float, float], bool]  # attempts of that time that are said to be incomplete
    live: dict[str, _Live] = field(default_factory=dict)
    deleted: list[_Deleted] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)  # studies, by namespace
    attempts: int = 0  # of studies that have finished
    shards: int = 0  # ConfigMaps of the longest ledger
    closing: bool = False  # no more studies
    began: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._audit = chaos_invariants.Audit(self.place.cluster.logs)
        self._lives = gang_books.Lives.watched(self.place.cluster)

    @property
    def is_empty(self) -> bool:
        """Whether every study has finished and is gone with all that it owned."""
        return not self.live and not self.deleted

    def look(self) -> None:
        """One look at everything; what the API server does not answer is asked at the next one."""
        try:
            listed = self.place.cluster.request("GET", kube.BENCHMARKS.path(), timeout_seconds=5.0)
            bodies = {kube.uid_of(body): body for body in listed["items"]}
            for body in listed["items"]:
                self.violations += [one for one in gang_books.unsaid(body) if one not in self.violations]
            for lane in chaos_studies.lanes(with_real=self.with_real):
                self._look_at(lane, bodies)
            for gone in list(self.deleted):
                self._look_behind(gone)
        except AWAY as error:
            if isinstance(error, ApiError) and error.status in _OUR_FAULT:
                raise

    def _look_at(self, lane: str, bodies: dict[str, kube.Object]) -> None:
        live = self.live.get(lane)
        if live is None:
            if not self.closing:
                self._apply(lane)
            return
        age = time.monotonic() - live.applied_at
        body = bodies.get(live.uid)
        if body is None:
            return  # listed before it was applied
        if live.study.course is Course.DELETED and age > live.study.meddled_after:
            self._delete(live, "deleted while it ran")
        elif live.study.course is Course.SUSPENDED and not live.meddled and age > live.study.meddled_after:
            live.meddled = self._suspend(live, suspend=True)
        elif live.meddled and not live.resumed and age > live.study.resumed_after:
            live.resumed = self._suspend(live, suspend=False)
        elif kube.condition(body, conditions.FINISHED) is not None:
            self._check(live, body)
            self._delete(live, f"{body['status'].get('phase')}, attempts {_counts(body)}, {age:.0f} s")
        elif (quiet := time.monotonic() - self.place.struck_at.get(live.study.name, live.applied_at)) > _STUDY_SECONDS:
            self.violations.append(
                f"{live.study.name} ({live.study.course}) has not finished {quiet:.0f} s after it was struck last"
            )
            self._delete(live, "given up")

    def _apply(self, lane: str) -> None:
        number = self.numbers.get(lane, 0)
        study = chaos_studies.study(self.seed, lane, number)
        path = kube.BENCHMARKS.path(namespace=study.namespace)
        self.place.ask("POST", path, study.body)
        body = self.place.ask("GET", f"{path}/{study.name}")
        self.numbers[lane] = number + 1
        self.live[lane] = _Live(study=study, uid=kube.uid_of(body), applied_at=time.monotonic())

    def _suspend(self, live: _Live, *, suspend: bool) -> bool:
        path = kube.BENCHMARKS.path(namespace=live.study.namespace, name=live.study.name)
        self.place.ask("PATCH", path, {"spec": {"suspend": suspend}}, content_type=MERGE_PATCH)
        return True

    def _check(self, live: _Live, body: kube.Object) -> None:
        owned = {one.plural: self.place.all(one, labels={names.LABEL_BENCHMARK_UID: live.uid}) for one in _EVERYTHING}
        jobs = self._audit.jobs(names.study_name(live.study.name, live.uid))
        self.attempts += len(jobs)
        found = chaos_invariants.stored(body, owned[kube.CONFIG_MAPS.plural])
        self.shards = max(self.shards, len(found.shards))
        self.violations += chaos_invariants.of_finished(live.study, found, jobs)
        self.violations += chaos_invariants.elsewhere(live.study, owned)
        self.violations += chaos_invariants.books(live.study, found, self._lives, is_excused=self.is_excused)

    def _delete(self, live: _Live, how: str) -> None:
        self.place.ask("DELETE", kube.BENCHMARKS.path(namespace=live.study.namespace, name=live.study.name))
        self.deleted.append(_Deleted(study=live.study, uid=live.uid, deleted_at=time.monotonic()))
        del self.live[live.study.lane]
        self.ended[live.study.namespace] += 1
        line = f"study {live.study.name} ({live.study.course}): {how}"
        print(f"[{time.monotonic() - self.began:6.1f} s]      {line}", flush=True)

    def _look_behind(self, gone: _Deleted) -> None:
        """Nothing may be left; garbage collection takes a moment, and a dead node until it is back."""
        left = {
            resource.plural: self.place.all(resource, labels={names.LABEL_BENCHMARK_UID: gone.uid})
            for resource in _EVERYTHING
        }
        if not any(left.values()):
            self.deleted.remove(gone)
        elif time.monotonic() > gone.deleted_at + _GONE_SECONDS:
            self.violations += chaos_invariants.left_behind(left)
            self.deleted.remove(gone)


def _counts(body: kube.Object) -> str:
    counts = body["status"].get("attempts") or {}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count)
