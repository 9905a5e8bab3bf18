# SPDX-License-Identifier: Apache-2.0
"""Interruptions on purpose, as `spec.drill` asks for them: which pod is evicted, and when.

Which pod follows from the plan's seed, the trial and the attempt, so that an operator that was started anew chooses
the same one. Its name is written on the attempt's Job before, and from there into the ledger: an interruption that
somebody wanted must never be counted as one of the pool's.
"""

import hashlib
from collections.abc import Mapping, Sequence

from gpubench.api.attempts import Drill
from gpubench.plan.plan import Point
from gpubench.scheduler import observed, outcome
from gpubench.scheduler.actions import Cordon, Eviction
from gpubench.scheduler.ledger import AttemptRecord, Ledger
from gpubench.units import duration_seconds

CORDON_FOR = "60s"  # unless another is given
_BY_EVICTION = "EvictionByEvictionAPI"  # the reason in DisruptionTarget where the eviction API was asked


def evictions(
    drill: Drill | None,
    ledger: Ledger,
    live: Sequence[observed.ObservedJob],
    *,
    points: Mapping[str, Point],
    seed: int,
    now: float,
) -> tuple[tuple[Eviction, ...], float | None]:
    """Pods to evict now, those chosen before first; and when the next attempt is due though nothing happens."""
    if drill is None:
        return (), None
    chosen = [job for job in live if job.drilled is not None]
    left = max(0, drill.times - count(ledger.records) - len(chosen))
    strikes = [(at, job.key, job) for job in live if (at := _strikes_at(drill, job, points)) is not None]
    due = sorted(strike for strike in strikes if strike[0] <= now)  # no two have the same key
    found, until = [], now + duration_seconds(drill.cordon_for or CORDON_FOR)
    for job in (*chosen, *(job for _, _, job in due[:left])):
        if (pod := _victim(job, nodes=points[job.trial].nodes, seed=seed)) is not None:
            cordon = Cordon(node=pod.node, until=until) if drill.kind == "Drain" and pod.node is not None else None
            found.append(Eviction(job=job, pod=pod, cordon=cordon))
    return tuple(found), min((at for at, _, _ in strikes if left and at > now), default=None)


def struck(job: observed.ObservedJob) -> str | None:
    """The pod that was evicted on purpose, by its own word or, where it is gone, the Job's; None for another cause."""
    if job.drilled is None:
        return None
    seen = next((pod for pod in job.pods if pod.name == job.drilled), None)
    if seen is not None and seen.disruption is not None:
        return seen.name if seen.disruption.reason == _BY_EVICTION else None
    return job.drilled if job.drilled in (job.failed_message or "") else None


def count(records: Sequence[AttemptRecord]) -> int:
    return sum(record.drilled is not None for record in records)


def _strikes_at(drill: Drill, job: observed.ObservedJob, points: Mapping[str, Point]) -> float | None:
    """When an attempt of which no pod was chosen is due: all of its pods have run together for so long, and stay."""
    since = outcome.all_running_since(job, nodes=points[job.trial].nodes)
    is_ending = job.complete or job.deleting or job.failing_since is not None
    if job.drilled is not None or since is None or is_ending or not all(map(_stays, job.pods)):
        return None
    return since + duration_seconds(drill.every)


def _victim(job: observed.ObservedJob, *, nodes: int, seed: int) -> observed.ObservedPod | None:
    if job.drilled is not None:
        chosen = next((pod for pod in job.pods if pod.name == job.drilled), None)
    else:  # it follows from a text alone, on every machine and in every version of Python
        index = int.from_bytes(hashlib.sha256(f"{seed} {job.key}".encode()).digest()[:8], "big") % nodes
        chosen = next((pod for pod in job.pods if pod.index == index), None)
    return chosen if chosen is not None and _stays(chosen) else None


def _stays(pod: observed.ObservedPod) -> bool:
    return pod.end is None and pod.disruption is None and not pod.deleting
