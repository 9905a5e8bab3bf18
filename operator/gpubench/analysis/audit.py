# SPDX-License-Identifier: Apache-2.0
"""Whether figures follow from their records: each step is made once more and held against what is stored.

Windows -> the gang's result (`stats.gang`) -> the ledger -> points and status (`analysis.analyze`), by the functions
that made them. Libraries of mathematics differ in the last bits between machines: a computed fraction may differ by
SAME of itself; a count, an amount and a text may not differ at all.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from gpubench import exitcodes, records, values
from gpubench.analysis import status
from gpubench.analysis.analyze import analyze
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.plan import expand
from gpubench.plan.plan import Plan, Point
from gpubench.records import Checkpoint, Environment, Epoch, Failure, Health, Log, Result, Resumed, Usage, Window
from gpubench.scheduler import conditions, observed, step
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome
from gpubench.stats import gang

#: Relative; a double has 2.2e-16, and a figure comes of some hundred operations.
SAME = 1e-12
_NONE: Set[str] = frozenset()
#: Sentences of a status: no figures, and another version may choose other words.
_SENTENCES = frozenset({"answer", "clock", "message", "reason", "sentence", "shown"})
#: What of a plan does not follow from the study file; points are compared by their keys.
_OF_THE_PLACE = frozenset(
    {"plannedAt", "studyDigest", "strict", "baseline", "imported", "points", "trials", "poolsWhenMeasured"}
    | set(Plan.STORED_ONCE.values())
)
#: What of a status does not depend on the moment, as long as its benchmark goes on.
_ALWAYS = frozenset({"points", "pointsDone", "trials", "attempts", "startTime"})


class Finding(NamedTuple):
    """Something that is not as it should be."""

    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


# --- the plan and the ledger ------------------------------------------------------------------------------------------


def of_plan(plan: Plan, spec: GpuBenchmarkSpec) -> Iterator[Finding]:
    """Whether a plan is this benchmark's: its points, its times, its seed. What was skipped depends on the place."""
    again = expand.freeze(spec, plan.pools, plan.planned_at, expand.nodes_of(plan.points))
    if plan.imported is not None:
        again = expand.with_measurements(again, plan.imported)
    if [point.key for point in again.points] != [point.key for point in plan.points]:
        yield Finding("points", "they are not those of the study file")
    stored, found = (_only(wire, wire.keys() - _OF_THE_PLACE) for wire in (plan.to_wire(), again.to_wire()))
    yield from _differences("", stored, found, from_="the study file", same=0.0)


def of_ledger(plan: Plan, ledger: Ledger) -> Iterator[Finding]:
    """Whether every attempt is one of the plan's, none is missing, and each says what an attempt can say."""
    points = plan.point_by_trial
    for trial, attempts in ledger.by_trial.items():
        if trial not in points:
            yield Finding(trial, "the plan has no such trial")
            continue
        if (numbers := [record.attempt for record in attempts]) != list(range(1, len(numbers) + 1)):
            yield Finding(trial, f"of its attempts only {', '.join(map(str, numbers))} are here: others are missing")
        for record in attempts:
            yield from (Finding(record.key, sentence) for sentence in _impossible(points[trial], record))


def _impossible(point: Point, record: AttemptRecord) -> Iterator[str]:
    result = record.result
    if (record.outcome is Outcome.SUCCEEDED) != (result is not None):
        yield "an attempt has a result when it has succeeded, and only then"
    if len(record.nodes) > point.nodes:
        yield f"it ran on {len(record.nodes)} nodes, and its point has {point.nodes}"
    if result is not None and (result.trial, result.attempt) != (record.trial, record.attempt):
        yield f"its result is of attempt {result.trial}.{result.attempt}"
    if result is not None and result.workers != point.key.workers:
        yield f"its result counts workers {result.workers}, and its point has {point.key.workers}"


# --- from windows to a result -----------------------------------------------------------------------------------------


def of_attempt(plan: Plan, record: AttemptRecord, logs: Mapping[int, Log]) -> Iterator[Finding]:
    """Whether an attempt's result follows from what its pods wrote. `logs` has one entry for each of its pods."""
    key = plan.point_by_trial[record.trial].key
    for pod, log in logs.items():
        for window in log.of_kind(Window):
            if window.rank // key.workers_per_node != pod:
                yield Finding(f"pod {pod}", f"it has a window of rank {window.rank}, not one of its own")
        endings: tuple[Result | Failure, ...] = (*log.of_kind(Result), *log.of_kind(Failure))
        for ending in endings:
            if (ending.trial, ending.attempt) != (record.trial, record.attempt):
                yield Finding(f"pod {pod}", f"its log ends as attempt {ending.trial}.{ending.attempt}")
    windows = [
        [one for one in logs[rank // key.workers_per_node].of_kind(Window) if one.rank == rank]
        for rank in range(key.workers)
    ]
    epochs = [epoch for log in logs.values() for epoch in log.of_kind(Epoch)]
    for rank, of_rank in enumerate(windows):
        yield from _gaps(f"rank {rank}", of_rank)
    yield from _gaps("the gang", epochs)
    yield from _of_failures(record, logs)
    if record.result is not None:
        yield from _of_result(record.result, logs)
        assert key.batch_per_worker is not None, "a point that has run has a batch"
        try:
            yield from _of_figures(record, record.result, windows, epochs, logs, batch_per_worker=key.batch_per_worker)
        except (ValueError, ArithmeticError) as error:  # a record may say anything within its bounds
            yield Finding("result", f"it cannot be computed again: {error}")


def _gaps(place: str, numbered: Sequence[Window | Epoch]) -> Iterator[Finding]:
    for before, after in pairwise((-1, *(one.index for one in numbered))):
        if after != before + 1:
            what = numbered[0].kind
            follows = f"{what} {after} follows {what} {before}" if before >= 0 else f"{what} {after} is its first"
            yield Finding(place, f"{follows}: records are missing, or not in their order")


def _of_failures(record: AttemptRecord, logs: Mapping[int, Log]) -> Iterator[Finding]:
    """A failed attempt has the exit code of one of its pods; which one is known where every pod says its own."""
    if record.outcome is not Outcome.FAILED or record.exit_code is None or exitcodes.named(record.exit_code) is None:
        return
    told = [failure.exit_code for log in logs.values() for failure in log.of_kind(Failure)]
    if len(told) == len(logs) and record.exit_code not in told:
        listed = " and ".join(map(str, sorted(set(told))))
        yield Finding("exitCode", f"{record.exit_code} is stored, and the pods' records say {listed}")


def _of_result(result: Result, logs: Mapping[int, Log]) -> Iterator[Finding]:
    """What pod 0 wrote at its end is what the ledger has, and every pod ran where the result says."""
    endings = logs[0].of_kind(Result)
    if len(endings) != 1 or logs[0].records[-1] != endings[0]:
        yield Finding("pod 0", "the log of an attempt that succeeded ends with its one result")
    for ending in endings[:1]:
        yield from _differences("result", result, ending, from_="the log", same=0.0)
    for pod, log in logs.items():
        environments = tuple(environment.key() for environment in log.of_kind(Environment))
        yield from _differences(f"pod {pod}: environments", (result.environment,), environments, from_="its records")


def _of_figures(
    record: AttemptRecord,
    result: Result,
    windows: Sequence[Sequence[Window]],
    epochs: Sequence[Epoch],
    logs: Mapping[int, Log],
    *,
    batch_per_worker: int,
) -> Iterator[Finding]:
    usages = [one for log in logs.values() for one in log.of_kind(Usage)]
    healths = [one for log in logs.values() for one in log.of_kind(Health)]
    kept = [one for log in logs.values() for one in log.of_kind(Checkpoint)]
    resumed = next((one for log in logs.values() for one in log.of_kind(Resumed)), None)
    again = gang.computed(
        windows,
        batch_per_worker=batch_per_worker,
        epochs=epochs,
        usages=sorted(usages, key=lambda usage: usage.rank),
        healths=sorted(healths, key=lambda health: health.rank),
        kept=kept if kept or result.checkpoints is not None else None,
        resumed=resumed,
    )
    if resumed is not None:
        yield from _of_resumption(record, resumed, epochs, steps=again.steps)
    stored = records.Computed.model_validate(_only(vars(result), records.Computed.model_fields))
    yield from _differences("result", stored, again)


def _of_resumption(
    record: AttemptRecord, resumed: Resumed, epochs: Sequence[Epoch], *, steps: int
) -> Iterator[Finding]:
    """What an attempt says of the earlier ones, or of its own runs before, must fit what it has trained itself."""
    if resumed.attempt > (record.attempt if record.segments else record.attempt - 1):
        yield Finding("resumed", f"it began from a checkpoint of attempt {resumed.attempt}")
    if (in_epochs := sum(epoch.steps for epoch in epochs)) != steps:
        yield Finding("resumed", f"its epochs have {in_epochs} steps, and its checkpoint with its windows {steps}")
    if resumed.useful_seconds > sum(epoch.nanoseconds for epoch in epochs) / 1e9 * (1 + SAME):
        yield Finding("resumed", "earlier attempts had trained for longer than all of its epochs")


# --- from the ledger to the status ------------------------------------------------------------------------------------


def of_status(
    plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, stored: FullStatus, *, words: bool
) -> Iterator[Finding]:
    """Whether the status follows from plan and ledger. `words`: also in its sentences, letter by letter.

    Of a benchmark that was stopped under way the points and counts are compared: what its phase and conditions said
    depended on the moment.
    """
    again, left_out = status_again(plan, ledger, spec, stored), _NONE if words else _SENTENCES
    if len(stored.results) != len(again.results):
        yield Finding("results", f"it has {len(stored.results)} points, and the plan {len(again.results)}")
        return
    for point, computed in zip(stored.results, again.results, strict=True):
        yield from _differences(f"{conditions.point_text(computed)}: ", point, computed, left_out=left_out)
    before, now = stored.to_wire(), again.to_wire()
    compared = before.keys() | now.keys() if conditions.holds(stored.conditions, conditions.FINISHED) else _ALWAYS
    before, now = (_only(wire, compared - {"results"}) for wire in (before, now))
    yield from _differences("", before, now, left_out=left_out)


def status_again(plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, stored: FullStatus) -> FullStatus:
    """The status that follows from plan and ledger; conditions that still hold keep the moments of the stored one."""
    study = observed.Study.of_spec(
        spec.model_copy(update={"suspend": False}),
        generation=stored.observed_generation or 1,
        status=GpuBenchmarkStatus(conditions=stored.conditions, start_time=stored.start_time),
    )
    made = step.of_ledger(plan, ledger, study)
    return status.full(study, plan, made, analyze(plan, made.ledger, made.points, spec), now=made.now)


# --- what differs -----------------------------------------------------------------------------------------------------


def _only(fields: Mapping[str, object], names: Iterable[str]) -> dict[str, object]:
    return {name: fields[name] for name in names if name in fields}


def _differences(
    place: str,
    stored: object,
    found: object,
    *,
    from_: str = "the records",
    left_out: Set[str] = _NONE,
    same: float = SAME,
) -> Iterator[Finding]:
    """Every place in which two values differ; what is named in `left_out` is not looked at."""
    match _wire(stored), _wire(found):
        case dict() as one, dict() as other:
            begin = place if not place or place.endswith(": ") else f"{place}."
            names = sorted((one.keys() | other.keys()) - left_out)
            inner = [(f"{begin}{name}", one.get(name), other.get(name)) for name in names]
        case list() as one, list() as other if len(one) == len(other):
            pairs = enumerate(zip(one, other, strict=True))
            inner = [(f"{place}[{index}]", before, after) for index, (before, after) in pairs]
        case float() as one, float() as other if math.isclose(one, other, rel_tol=same):
            return
        case one, other:
            inner = []
            if one != other:
                texts = ["nothing" if value is None else f"{value}" for value in (one, other)]
                yield Finding(place, f"{texts[0]} is stored, and {from_} give {texts[1]}")
    for name, before, after in inner:
        yield from _differences(name, before, after, from_=from_, left_out=left_out, same=same)


def _wire(value: object) -> object:
    if isinstance(value, values.FrozenModel):
        return value.to_wire()
    return list(value) if isinstance(value, tuple) else value
