# SPDX-License-Identifier: Apache-2.0
"""What must hold whatever was done: each function gives sentences that say what does not.

They look at what a user has (status, events' truth in the ledger) and at what the API server did (its audit log), and
never at the faults: an invariant with an exception for a fault would be none. What may not happen here: waiting.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gang_books
import stand_in_worker
import stored_analysis
from chaos_studies import Course, Study
from gpubench import names
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, ledger, manifests
from gpubench.scheduler.ledger import AttemptRecord, Outcome, Reason
from gpubench.stats import gang
from gpubench_cluster import kube

_EVENT_BEGINS = '{"kind":"Event"'
_PER_SECOND = 0.36 / 3600  # of a node of studies.pool


class Stored(NamedTuple):
    """What the API server has of a study that has finished."""

    body: kube.Object
    plan: Plan
    shards: tuple[Mapping[str, str], ...]
    status: Mapping[str, Any]  # with the analysis that it refers to


def stored(body: kube.Object, config_maps: Sequence[kube.Object]) -> Stored:
    """From the object and its ConfigMaps."""
    plan, shards = None, []
    for one in config_maps:
        component = one["metadata"]["labels"][names.LABEL_COMPONENT]
        if component == names.COMPONENT_PLAN:
            plan = manifests.read_plan(one)
        elif component == names.COMPONENT_LEDGER:
            shards.append(one.get("data") or {})
    assert plan is not None, "a study that has finished has a plan"
    maps = {kube.name_of(one): one for one in config_maps}
    return Stored(body=body, plan=plan, shards=tuple(shards), status=stored_analysis.full(body, maps.get))


def of_finished(study: Study, found: Stored, jobs: Mapping[str, int]) -> list[str]:
    """Everything that must hold of one study; `jobs` are those that existed, with how often each was created."""
    try:
        records = ledger.from_entries(found.shards).records  # each entry's checksum is looked at here
    except ValueError as error:
        return [f"{study.name}: its ledger cannot be read: {error}"]
    wrong = [
        *_end(study, found.status),
        *_attempts(found, records, jobs),
        *_trials(study, found, records),
        *_figures(study, found, records),
    ]
    return [f"{study.name} ({study.course}): {sentence}" for sentence in wrong]


def _end(study: Study, status: Mapping[str, Any]) -> Iterator[str]:
    """The right terminal condition."""
    held = {one["type"]: one for one in status.get("conditions") or ()}
    succeeded = held.get(conditions.SUCCEEDED) or {}
    said = f"Succeeded is {succeeded.get('status')} ({succeeded.get('reason')}: {succeeded.get('message')})"
    if (held.get(conditions.FINISHED) or {}).get("status") != "True":
        yield "it has no condition Finished"
    wanted = ("False", conditions.BUDGET_EXHAUSTED) if _is_cut(study, status) else ("True", conditions.ALL_POINTS_ENDED)
    if study.course is Course.FAILING:
        wanted = ("False", conditions.NOTHING_MEASURED)
    elif study.is_real and all(one["state"] == "Unstable" for one in status.get("results") or ()):
        wanted = ("False", conditions.NOTHING_MEASURED)  # two busy processors: no figure settled, which is said
    if (succeeded.get("status"), succeeded.get("reason")) != wanted:
        yield f"{said}, and {wanted[0]} ({wanted[1]}) was due"


def _is_cut(study: Study, status: Mapping[str, Any]) -> bool:
    """Whether its budget left out trials."""
    held = (one["reason"] for one in status.get("conditions") or () if one["type"] == conditions.SUCCEEDED)
    return study.course.has_budget and conditions.BUDGET_EXHAUSTED in held


def _attempts(found: Stored, records: Sequence[AttemptRecord], jobs: Mapping[str, int]) -> Iterator[str]:
    """The sum of attempts in the status is the number of Jobs that existed, and each of them is in the ledger."""
    counts = found.status.get("attempts") or {}
    ended = sum(counts.get(outcome.value.lower(), 0) for outcome in Outcome)
    if not counts.get("started") == ended == len(records) == len(jobs):
        yield f"status counts {counts}, the ledger {len(records)} attempts, and {len(jobs)} Jobs existed"
    recorded = {record.job for record in records}
    yield from (f"Job {job} existed and is in no record" for job in sorted(jobs.keys() - recorded))
    yield from (f"Job {job} is in a record and never existed" for job in sorted(recorded - jobs.keys()))
    yield from (f"Job {job} was created {times} times" for job, times in sorted(jobs.items()) if times > 1)
    yield from (f"attempt {record.key} has no end" for record in records if record.outcome is None)
    keys = Counter(key for shard in found.shards for key in shard)
    yield from (f"entry {key} is in {times} shards" for key, times in keys.items() if times > 1)


def _trials(study: Study, found: Stored, records: Sequence[AttemptRecord]) -> Iterator[str]:
    """Each trial is counted once, and one that cannot succeed is not tried again."""
    succeeded = Counter(record.trial for record in records if record.outcome is Outcome.SUCCEEDED)
    yield from (f"trial {trial} succeeded {times} times" for trial, times in succeeded.items() if times > 1)
    counts = found.status.get("trials") or {}
    finished = counts.get("total") if _is_cut(study, found.status) else counts.get("finished")
    if not finished == counts.get("total") == len(found.plan.trials) or counts.get("running"):
        yield f"status counts trials {counts}, and the plan has {len(found.plan.trials)}"
    if study.course is Course.FAILING:
        told = Counter(record.trial for record in records if record.reason is Reason.BAD_ASSIGNMENT)
        yield from (
            f"trial {trial} was tried again after an end that no retry mends" for trial in told if told[trial] > 1
        )
        yield from (f"trial {trial} succeeded, and its program cannot" for trial in succeeded)
    elif not _is_cut(study, found.status):
        missing = {trial.id for trial in found.plan.trials} - succeeded.keys()
        yield from (f"trial {trial} was never measured" for trial in sorted(missing))


def _figures(study: Study, found: Stored, records: Sequence[AttemptRecord]) -> Iterator[str]:
    """Every figure is that of an attempt that succeeded, in the order of the repeats, and of no other."""
    measured = {record.trial: record for record in records if record.outcome is Outcome.SUCCEEDED}
    for record in records:
        if (record.result is not None) != (record.outcome is Outcome.SUCCEEDED):
            yield f"attempt {record.key} is {record.outcome} and has{'' if record.result else ' no'} result"
        if record.result is not None and (record.result.trial, record.result.attempt) != (record.trial, record.attempt):
            yield f"attempt {record.key} has the result of {record.result.trial}.{record.result.attempt}"
    shown = found.status.get("results") or ()
    for index, (of_point, result) in enumerate(zip(found.plan.repeats_of_points(), shown, strict=True)):
        due = [
            gang.samples_per_second(entry.result)
            for trial in of_point
            if (entry := measured.get(trial.id)) is not None and entry.result is not None
        ]
        if list(result.get("values") or ()) != due:
            yield f"point {index} shows {result.get('values')}, and its attempts measured {due}"
        if not study.is_real:
            own = [stand_in_worker.rate(trial.id) * result["workers"] for trial in of_point if trial.id in measured]
            if own != due:
                yield f"point {index} has figures {due} of other trials than its own ({own})"


def books(
    study: Study, found: Stored, lives: gang_books.Lives, *, is_excused: Callable[[float, float], bool]
) -> list[str]:
    """Where the ledger has other times of nodes than the pods, or spent more than it may.

    An attempt may be incomplete, and say so, if `is_excused` of the seconds from its creation to its end.
    """
    entries = [
        json.loads(text) for shard in found.shards for key, text in shard.items() if not key.startswith("environment.")
    ]
    attempts = [one for one in entries if one.get("jobUid")]
    known = [one for one in attempts if not is_excused(one["createdAt"], one["endedAt"]) or _is_complete(one, lives)]
    wrong = [*gang_books.wrong(known, lives), *_unsaid_ends(attempts)]
    if (limit := (study.body["spec"].get("limits") or {}).get("budget")) is not None:
        wrong += _over_budget(attempts, lives, float(limit))
    return [f"{study.name} ({study.course}): {sentence}" for sentence in wrong]


def _is_complete(entry: Mapping[str, Any], lives: gang_books.Lives) -> bool:
    is_seen = not any(run["unseen"] for run in (entry, *entry["segments"]))
    return is_seen and len(entry["podTimes"]) == len(lives.of_job(entry["jobUid"]))


def _over_budget(attempts: Sequence[Mapping[str, Any]], lives: gang_books.Lives, limit: float) -> Iterator[str]:
    """Jobs that were created when what the pods of others had cost until then had reached the budget."""
    for one in attempts:
        others = (life for other in attempts if other is not one for life in lives.of_job(other["jobUid"]))
        spans = ((life.placed, min(life.ended or one["createdAt"], one["createdAt"])) for life in others)
        cost = sum(max(0.0, until - placed) for placed, until in spans if placed is not None) * _PER_SECOND
        if cost >= limit:
            yield f"Job {one['job']} began after {cost:.4f} of {limit:g} had been spent"


def _unsaid_ends(attempts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    mute = (one for one in attempts if not one.get("sentence"))
    yield from (f"attempt {one['trial']}.{one['attempt']} ended without a message" for one in mute)


def elsewhere(study: Study, owned: Mapping[str, Sequence[kube.Object]]) -> list[str]:
    """What a study of one tenant has in the namespace of another; by kind, as they were listed."""
    return [
        f"{study.name}: {plural}/{kube.name_of(body)} lies in {kube.namespace_of(body)}"
        for plural in owned
        for body in owned[plural]
        if kube.namespace_of(body) != study.namespace
    ]


def left_behind(found: Mapping[str, Sequence[kube.Object]]) -> list[str]:
    """Objects of a study that is gone; by kind, as they were listed."""
    return [
        f"{plural}/{kube.name_of(body)} is left of a study that was deleted"
        for plural in found
        for body in found[plural]
    ]


class Audit:
    """The Jobs that existed, from the API server's own log of what it did, read on from where it was left.

    An API server that is killed may have created a Job and not yet written so; but then the Job controller, or whoever
    deleted it, has asked for it later. So a Job existed of which any request but a refused one tells.
    """

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._offsets: dict[int, int] = {}  # by inode: the log is renamed when it is large
        self._created: Counter[str] = Counter()
        self._touched: set[str] = set()

    def jobs(self, prefix: str) -> dict[str, int]:
        """Jobs whose names begin so, and how often each was created; at least once, for they existed."""
        self._read()
        return {
            name: max(1, self._created[name])
            for name in self._created.keys() | self._touched
            if name.startswith(f"{prefix}-")
        }

    def _read(self) -> None:
        for path in sorted(self._logs.glob("audit*.log"), key=lambda one: one.stat().st_mtime):
            inode = path.stat().st_ino
            with path.open("rb") as log:
                log.seek(self._offsets.get(inode, 0))
                whole, newline, _ = log.read().rpartition(b"\n")
            self._offsets[inode] = self._offsets.get(inode, 0) + len(whole) + len(newline)
            for line in whole.decode(errors="replace").splitlines():
                if '"resource":"jobs"' in line:
                    self._note(line)

    def _note(self, line: str) -> None:
        try:
            event = json.loads(line[max(0, line.rfind(_EVENT_BEGINS)) :])  # an API server may die in mid-line
        except ValueError:
            return
        reference, code = event["objectRef"], (event.get("responseStatus") or {}).get("code", 0)
        if event["stage"] != "ResponseComplete" or not 200 <= code < 300 or "name" not in reference:
            return
        if event["verb"] == "create" and "subresource" not in reference:
            self._created[reference["name"]] += 1
        elif event["verb"] in ("update", "patch", "delete"):
            self._touched.add(reference["name"])
