# SPDX-License-Identifier: Apache-2.0
"""Whether the figures of a study follow from its records: each step is made once more and held against what is stored.

Windows -> the gang's result (`measure.gang`) -> the ledger -> the points and the status (`control.decide`): the
functions that made the figures make them again here. So a stored figure that was changed differs, however little.

Must not happen: a tolerance that is room for a change. Equal records give equal figures, but libraries of mathematics
differ in the last bits from one machine to the next: so a computed fraction may differ by SAME of itself, far below
what is shown of any; a count, an amount and a text may not differ at all.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import accumulate, pairwise

from gpubench import exitcodes, sealed
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.measuring import Measure
from gpubench.api.point_result import PointResult
from gpubench.api.point_warning import WarningReason
from gpubench.control import conditions, judgement
from gpubench.control import decide as decisions
from gpubench.control.ledger import AttemptRecord, Ledger, Outcome
from gpubench.control.observed import Observed, Study
from gpubench.control.status import point_text
from gpubench.measure import gang
from gpubench.measure.log import Log
from gpubench.measure.records import Checkpoint, Environment, Epoch, Failure, Health, Result, Resumed, Usage, Window
from gpubench.plan import expand, freeze, importing
from gpubench.plan.plan import Plan, Point
from gpubench.values import Value

#: Sentences of a status: no figures, and another version may choose other words.
_SENTENCES = frozenset({"answer", "clock", "message", "reason", "sentence", "shown"})
#: What a status of version 1 did not have: there it may be absent, and nothing else may.
_NEWER_THAN_VERSION_1 = frozenset(
    {
        "best",
        "bill",
        "comparison",
        "comparisons",
        "drilled",
        "environments",
        "goodput",
        "gpu",
        "host",
        "instanceType",
        "interruptions",
        "least",
        "notRun",
        "omission",
        "prices",
        "relative",
        "seed",
        "spent",
        "startup",
        "stopping",
        "unstable",
    }
)
#: What a result of version 1 did not have.
_NEWER_IN_RESULTS = frozenset({"warm_up_nanoseconds"})
#: Relative; a double has 2.2e-16, and a figure comes of some hundred operations.
SAME = 1e-12
#: What of a plan does not follow from the study file; points are compared by their keys.
_OF_THE_PLACE = frozenset(
    {
        "schema_version",
        "planned_at",
        "study_digest",
        "strict",
        "baseline",
        "imported",
        "points",
        "trials",
        "pools_when_measured",
    }
)
#: What a plan of version 1 says of its study file.
_IN_VERSION_1 = frozenset(
    {"pools", "images", "seed", "timing", "attempts", "mode", "timed_region", "currency", "exchange_rates"}
)
#: What `measure.window` was by default when plans were of version 1, and none could be shorter.
_WINDOW_OF_VERSION_1 = "1s"
#: What of a status does not depend on the moment, as long as its study goes on.
_ALWAYS = frozenset({"points", "pointsDone", "trials", "attempts", "startedAt"})


class Finding(Value):
    """Something that is not as it should be."""

    place: str
    sentence: str

    def __str__(self) -> str:
        return f"{self.place}: {self.sentence}"


def has_windows(plan: Plan, trial: str) -> bool:
    """Whether the pods of a trial write windows: a program of the user's own writes its result and nothing else."""
    return not plan.point_of(trial).key.is_own_program


# --- the plan and the ledger ------------------------------------------------------------------------------------------


def of_plan(plan: Plan, spec: GpuBenchmarkSpec) -> Iterator[Finding]:
    """Whether a plan is one of this study: its points, its times, its seed. What was skipped depends on the place."""
    again = freeze.freeze(_as_it_was_then(spec, plan), plan.pools, plan.planned_at, expand.nodes_of(plan.points))
    if plan.imported is not None:
        again = importing.with_measurements(again, plan.imported)
    if [point.key for point in again.points] != [point.key for point in plan.points]:
        yield Finding(place="points", sentence="they are not those of the study file")
    told = _IN_VERSION_1 if plan.schema_version < sealed.VERSION else Plan.model_fields.keys()
    for name in sorted(told - _OF_THE_PLACE):
        stored, found = getattr(plan, name), getattr(again, name)
        if stored != found:
            yield _difference(name, _wire(stored), _wire(found), from_="the study file")


def _as_it_was_then(spec: GpuBenchmarkSpec, plan: Plan) -> GpuBenchmarkSpec:
    """The study with the defaults of the gpubench that planned it."""
    measure = spec.measure
    if plan.schema_version >= sealed.VERSION or measure.window != Measure.model_fields["window"].default:
        return spec
    return spec.model_copy(update={"measure": measure.model_copy(update={"window": _WINDOW_OF_VERSION_1})})


def of_ledger(plan: Plan, ledger: Ledger) -> Iterator[Finding]:
    """Whether every attempt is one of the plan's, none is missing, and each says what an attempt can say."""
    known = {trial.id for trial in plan.trials}
    for trial, attempts in ledger.by_trial().items():
        if trial not in known:
            yield Finding(place=trial, sentence="the plan has no such trial")
            continue
        numbers = [record.attempt for record in attempts]
        if numbers != list(range(1, len(numbers) + 1)):
            listed = ", ".join(map(str, numbers))
            yield Finding(place=trial, sentence=f"of its attempts only {listed} are here: others are missing")
        for record in attempts:
            for sentence in _impossible(plan.point_of(trial), record):
                yield Finding(place=record.key, sentence=sentence)


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
    key = plan.point_of(record.trial).key
    windows: dict[int, tuple[Window, ...]] = dict.fromkeys(range(key.workers), ())
    for pod, log in logs.items():
        for window in log.of_kind(Window):
            if window.rank // key.workers_per_node != pod or window.rank not in windows:
                yield Finding(place=f"pod {pod}", sentence=f"it has a window of rank {window.rank}, not one of its own")
            else:
                windows[window.rank] = (*windows[window.rank], window)
    for rank, of_rank in windows.items():
        yield from _gaps(f"rank {rank}", "window", [window.index for window in of_rank])
    epochs = tuple(epoch for log in logs.values() for epoch in log.of_kind(Epoch))
    yield from _gaps("the gang", "epoch", [epoch.index for epoch in epochs])
    for pod, log in logs.items():
        yield from _foreign_ending(record, f"pod {pod}", log)
    yield from _of_versions(logs)
    yield from _of_failures(record, logs)
    if record.result is not None:
        yield from _of_result(record.result, logs)
        assert key.batch_per_worker is not None, "a point that has run has a batch"
        ranks = tuple(windows.values())
        try:
            yield from _of_figures(
                record, record.result, ranks, epochs, logs.values(), batch_per_worker=key.batch_per_worker
            )
        except (ValueError, ArithmeticError) as error:  # a record may say anything within its bounds
            yield Finding(place="result", sentence=f"it cannot be computed again: {error}")


def _gaps(place: str, what: str, indices: Sequence[int]) -> Iterator[Finding]:
    """What is missing between records that are numbered from 0."""
    if indices and indices[0] != 0:
        yield Finding(place=place, sentence=f"its first {what} is number {indices[0]}: those before it are missing")
    for before, after in pairwise(indices):
        if after != before + 1:
            sentence = f"{what} {after} follows {what} {before}: records are missing, or not in their order"
            yield Finding(place=place, sentence=sentence)


def _foreign_ending(record: AttemptRecord, place: str, log: Log) -> Iterator[Finding]:
    endings: tuple[Result | Failure, ...] = (*log.of_kind(Result), *log.of_kind(Failure))
    for ending in endings:
        if (ending.trial, ending.attempt) != (record.trial, record.attempt):
            yield Finding(place=place, sentence=f"its log ends as attempt {ending.trial}.{ending.attempt}")


def _of_versions(logs: Mapping[int, Log]) -> Iterator[Finding]:
    """A gang runs one image: its records are all of one version, and a checksum that was taken away shows."""
    versions = {record.schema_version for log in logs.values() for record in log.records}
    sealings = {bool(log.unsealed) for log in logs.values() if log.records}
    mixed = any(0 < log.unsealed < len(log.records) for log in logs.values())
    if len(versions) > 1 or len(sealings) > 1 or mixed:
        yield Finding(
            place="the gang",
            sentence="some of its records have checksums and are of version 2, and others are not: theirs were taken "
            "away",
        )


def _of_failures(record: AttemptRecord, logs: Mapping[int, Log]) -> Iterator[Finding]:
    """A failed attempt has the exit code of one of its pods; which one is known where every pod says its own."""
    failures = [failure for log in logs.values() for failure in log.of_kind(Failure)]
    if record.outcome is not Outcome.FAILED or record.exit_code is None or exitcodes.named(record.exit_code) is None:
        return
    told = sorted({failure.exit_code for failure in failures})
    if len(failures) == len(logs) and record.exit_code not in told:
        listed = " and ".join(map(str, told))
        yield Finding(place="exitCode", sentence=f"{record.exit_code} is stored, and the pods' records say {listed}")


def _of_result(result: Result, logs: Mapping[int, Log]) -> Iterator[Finding]:
    """What pod 0 wrote at its end is what the ledger has, and every pod ran where the result says."""
    endings = logs[0].of_kind(Result)
    if len(endings) != 1 or logs[0].records[-1] != endings[0]:
        yield Finding(place="pod 0", sentence="the log of an attempt that succeeded ends with its one result")
    for ending in endings[:1]:
        yield from _differences("result", _wire(result), _wire(ending), from_="the log", same=0.0)
    for pod, log in logs.items():
        environments = log.of_kind(Environment)
        if len(environments) != 1:
            sentence = f"its log has {len(environments)} records of the environment, and one is written"
            yield Finding(place=f"pod {pod}", sentence=sentence)
        for environment in environments:
            if environment.key() != result.environment:
                yield _difference(f"pod {pod}: environment", result.environment, environment.key(), from_="its record")


def _of_figures(
    record: AttemptRecord,
    result: Result,
    windows: Sequence[Sequence[Window]],
    epochs: Sequence[Epoch],
    logs: Iterable[Log],
    *,
    batch_per_worker: int,
) -> Iterator[Finding]:
    """All that follows from what the ranks have recorded. A gang of version 1 looked for no steady state."""
    if result.schema_version < sealed.VERSION:
        again = gang.figures(windows, batch_per_worker=batch_per_worker, epochs=epochs, detected=False)
    else:
        written = tuple(logs)
        usages = sorted((one for log in written for one in log.of_kind(Usage)), key=lambda usage: usage.rank)
        healths = sorted((one for log in written for one in log.of_kind(Health)), key=lambda health: health.rank)
        kept = tuple(one for log in written for one in log.of_kind(Checkpoint))
        resumed = next((one for log in written for one in log.of_kind(Resumed)), None)
        again = gang.computed(
            windows,
            batch_per_worker=batch_per_worker,
            epochs=epochs,
            usages=usages,
            healths=healths,
            kept=kept if kept or result.checkpoints is not None else None,
            resumed=resumed,
        )
        if resumed is not None:
            yield from _of_resumption(record, resumed, epochs, steps=again.steps)
    newer = _NEWER_IN_RESULTS if result.schema_version < sealed.VERSION else frozenset[str]()
    for name in type(again).model_fields:
        if name in newer:
            continue
        yield from _differences(f"result.{name}", _wire(getattr(result, name)), _wire(getattr(again, name)))


def _of_resumption(
    record: AttemptRecord, resumed: Resumed, epochs: Sequence[Epoch], *, steps: int
) -> Iterator[Finding]:
    """What an attempt says of the earlier ones, or of its own runs before, must fit what it has trained itself."""
    latest = record.attempt if record.segments else record.attempt - 1
    if resumed.attempt > latest:
        yield Finding(place="resumed", sentence=f"it began from a checkpoint of attempt {resumed.attempt}")
    in_epochs = sum(epoch.steps for epoch in epochs)
    if in_epochs != steps:
        yield Finding(
            place="resumed",
            sentence=f"its epochs have {in_epochs} steps, and its checkpoint with its windows {steps}",
        )
    if resumed.useful_seconds > sum(epoch.nanoseconds for epoch in epochs) / 1e9 * (1 + SAME):
        yield Finding(place="resumed", sentence="earlier attempts had trained for longer than all of its epochs")


def carried(log: Log) -> tuple[Epoch, ...]:
    """Of the epochs in a log of pod 0 those that its attempt has from a checkpoint."""
    resumed = next(iter(log.of_kind(Resumed)), None)
    steps_before = resumed.step if resumed is not None else 0
    epochs = log.of_kind(Epoch)
    ends = accumulate(epoch.steps for epoch in epochs)
    return tuple(epoch for epoch, end in zip(epochs, ends, strict=True) if end <= steps_before)


# --- from the ledger to the status ------------------------------------------------------------------------------------


def of_status(
    plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, stored: GpuBenchmarkStatus, *, words: bool
) -> Iterator[Finding]:
    """Whether the status follows from plan and ledger. `words`: also in its sentences, letter by letter.

    Of a study that was stopped under way the points and counts are compared: what its phase and conditions said
    depended on the moment.
    """
    again = status_again(plan, ledger, spec, stored)
    left_out = frozenset[str]() if words else _SENTENCES
    newer = _NEWER_THAN_VERSION_1 if plan.schema_version < sealed.VERSION else frozenset[str]()
    if len(stored.results) != len(again.results):
        found = f"it has {len(stored.results)} points, and the plan {len(again.results)}"
        yield Finding(place="results", sentence=found)
        return
    for point, computed in zip(stored.results, again.results, strict=True):
        unnumbered = frozenset({"warnings"}) if not words and _has_sentences_only(point) else frozenset[str]()
        yield from _differences(
            f"{point_text(computed)}: ", _as_read(point), _wire(computed), left_out=left_out | unnumbered, newer=newer
        )
    before, now = _as_read(stored), again.to_wire()
    compared = before.keys() | now.keys() if conditions.holds(stored.conditions, conditions.FINISHED) else _ALWAYS
    before, now = (_only(wire, compared - {"results"}) for wire in (before, now))
    yield from _differences("", before, now, left_out=left_out, newer=newer)


def _has_sentences_only(point: PointResult) -> bool:
    """Whether the warnings of a point are of a version that gave them no reasons and no numbers."""
    alone = {"reason", "message"}
    return bool(point.warnings) and all(
        told.reason is WarningReason.OTHER and told.to_wire().keys() == alone for told in point.warnings
    )


def figures_in(status: GpuBenchmarkStatus) -> int:
    """How many numbers the points of a status have."""
    return sum(_numbers(_wire(result)) for result in status.results)


def _only(wire: Mapping[str, object], names: Set[str]) -> dict[str, object]:
    return {name: value for name, value in wire.items() if name in names}


def _numbers(wire: object) -> int:
    match wire:
        case dict():
            return sum(map(_numbers, wire.values()))
        case list():
            return sum(map(_numbers, wire))
        case bool():
            return 0
        case str():
            return wire.replace(".", "", 1).isdecimal()  # an amount of money
    return int(isinstance(wire, int | float))


def status_again(plan: Plan, ledger: Ledger, spec: GpuBenchmarkSpec, stored: GpuBenchmarkStatus) -> GpuBenchmarkStatus:
    """The status that follows from plan and ledger; conditions that still hold keep the moments of the stored one."""
    study = Study(
        namespace="local",
        name="verified",
        uid="verified",
        generation=stored.observed_generation or 1,
        created_at=0.0,
        spec=spec.model_copy(update={"suspend": False}),
        conditions=stored.conditions,
        started_at=stored.started_at,
    )
    observed = Observed(study=study, jobs=judgement.live_by(plan, ledger))
    return decisions.decide(plan, ledger, observed, judgement.last_moment(ledger)).status


# --- what differs -----------------------------------------------------------------------------------------------------


def _differences(
    place: str,
    stored: object,
    found: object,
    *,
    from_: str = "the records",
    left_out: Set[str] = frozenset(),
    newer: Set[str] = frozenset(),
    same: float = SAME,
) -> Iterator[Finding]:
    """Every place in which two values differ.

    What is named in `left_out` is not looked at, and what is named in `newer` may be absent from what is stored.
    """
    match stored, found:
        case dict(), dict():
            for name in sorted(stored.keys() | found.keys()):
                if name in left_out or (name in newer and name not in stored):
                    continue
                inner = f"{place}{name}" if not place or place.endswith(": ") else f"{place}.{name}"
                one, other = stored.get(name), found.get(name)
                yield from _differences(inner, one, other, from_=from_, left_out=left_out, newer=newer, same=same)
        case list(), list() if len(stored) == len(found):
            for index, (one, other) in enumerate(zip(stored, found, strict=True)):
                inner = f"{place}[{index}]"
                yield from _differences(inner, one, other, from_=from_, left_out=left_out, newer=newer, same=same)
        case float(), float() if math.isclose(stored, found, rel_tol=same):
            return
        case _:
            if stored != found:
                yield _difference(place, stored, found, from_=from_)


def _difference(place: str, stored: object, found: object, *, from_: str = "the records") -> Finding:
    def text(value: object) -> str:
        return "nothing" if value is None else f"{value}"

    return Finding(place=place, sentence=f"{text(stored)} is stored, and {from_} give {text(found)}")


def _as_read(value: Value) -> dict[str, object]:
    """As it is stored, without what was not there when it was written by an older version."""
    return value.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_unset=True)


def _wire(value: object) -> object:
    """As it is stored: values as dicts, tuples as lists."""
    if isinstance(value, Value):
        return value.to_wire()
    return [_wire(one) for one in value] if isinstance(value, tuple) else value
