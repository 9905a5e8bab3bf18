# SPDX-License-Identifier: Apache-2.0
"""`gpubench verify RESULTS...`: whether results folders are as they were written, and their figures follow from them.

Every checksum is looked at, every rank's windows are counted, and every figure is computed again from the records.
Exit code 1 where anything is not as it should be: what is said then names the file, the line or the figure.

A benchmark that was stopped in the middle is as it should be: its status may be one step behind its ledger, the ledger
one gang behind its logs, and a last line may have no end. That is said, and is no finding; what it has must agree all
the same.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeVar

import click

from gpubench import records
from gpubench.analysis import audit, repricing
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.records import Environment, Log, Window
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import AttemptRecord, Ledger, NewNodes, Outcome
from gpubench_cli import VERSION, documents, options, report, results, terminal
from gpubench_cli.results import LogName, Summary

_Read = TypeVar("_Read")

_FINDINGS_SHOWN = 40
_CUT = "its last line has no end: gpubench was stopped in the middle, or bytes are missing"
#: Lines that `gpubench run` appends to the ledger between two statuses: the end of an attempt, and a gang that began.
_LINES_OF_A_STEP = 4
_BY_CHECKSUM = (
    "digest of the weights, final loss, times of joining and starting; times, nodes, node seconds, instance types, "
    "zones, machines, places, images, reasons and sentences of attempts; what is in records of usage, health and "
    "environment"
)


@click.command("verify", epilog="Exit codes: 0 everything holds, 1 something does not, 2 there is no results folder.")
@click.argument("folders", metavar="RESULTS...", nargs=-1, required=True, type=options.PATH, help="a results folder")
@click.option(
    "--statement",
    type=options.PATH,
    metavar="FILE",
    help="write an in-toto statement that the files of the folder passed, unsigned: `cosign attest-blob --statement`",
)
def verify(folders: tuple[Path, ...], statement: Path | None) -> int:
    """Check that results folders are as they were written.

    Every figure is computed again from the recorded windows.
    """
    if statement is not None and len(folders) > 1:
        raise terminal.CliError("--statement is of one results folder: verify the others by themselves")
    sound = True
    for path in folders:
        if not any((path / name).exists() for name in results.FILES):
            raise terminal.CliError(results.why_none(path) if path.is_dir() else f"{path}: there is no such folder")
        examined = examine(path)
        said = _sentences(examined)
        _tell(path, examined, said)
        sound = sound and not examined.findings
        if statement is not None:
            _write_statement(statement, path, examined, said[0])
    return terminal.exit_code(sound)


@dataclass(kw_only=True)
class Examined:
    """What was looked at, and what is wrong."""

    findings: list[str] = field(default_factory=list)
    attempts: int = 0
    windows: int = 0
    points: int = 0
    unfinished: bool = False  # whether its status says that it had not come to its end
    stopped: list[str] = field(default_factory=list)  # what is there only because it was stopped in the middle
    cut: list[str] = field(default_factory=list)  # logs of attempts without a result whose last line has no end
    remarks: list[str] = field(default_factory=list)  # what else must be known of the folder
    by_checksum: list[str] = field(default_factory=list)  # what could not be computed again
    imported: bool = False

    def read(self, reader: Callable[[], _Read]) -> _Read | None:
        """What a reader has read; None where it refuses, which is a finding."""
        try:
            return reader()
        except terminal.CliError as error:
            self.findings += error.args
            return None

    def log(self, place: str, content: bytes, *, tolerant: bool) -> Log:
        """The records of a log; with tolerance it is no finding that its last line has no end."""
        read = records.read_log(content)
        problems = read.problems[:-1] if read.cut and tolerant else read.problems
        self.findings += [f"{place}:{number}: {sentence}" for number, sentence in problems]
        return read


def examine(path: Path) -> Examined:
    """Everything that can be said of a folder. What is damaged is left out of what is computed again."""
    found = Examined()
    summary = found.read(lambda: results.read_summary(path))
    found.unfinished = summary is not None and not conditions.holds(summary.status.conditions, conditions.FINISHED)
    plan = found.read(lambda: results.read_plan(path))
    lines = found.read(lambda: _ledger_lines(path, found))
    logs = found.read(lambda: {name: results.log_path(path, name).read_bytes() for name in results.log_names(path)})
    if plan is None or lines is None:
        found.findings.append("nothing was computed again, as the plan or the ledger cannot be read")
        return found
    if plan.imported is None:
        found.by_checksum.append(_BY_CHECKSUM)
    else:
        found.imported = True
        basis = f"the logs in {results.COPIES}/" if (path / results.COPIES).is_dir() else "no record here"
        found.remarks.append(f"its measurements are imported from {plan.imported.origin}, and follow from {basis}")
    environments = found.log("environments.jsonl", results.environments_bytes(path), tolerant=found.unfinished)
    if environments.cut and found.unfinished:
        found.stopped.append(f"environments.jsonl: {_CUT}")
    nodes = found.read(lambda: results.read_new_nodes(path)) or NewNodes()
    written = _Written(lines, environments.of_kind(Environment), nodes)
    ledger = written.ledger()
    found.findings += [f"ledger.jsonl: {finding}" for finding in audit.of_ledger(plan, ledger)]
    _attempts(plan, ledger, logs or {}, found, summary)
    study = found.read(lambda: results.study_as_planned(path, plan))
    spec = None if summary is None or study is None else found.read(lambda: study.benchmark(summary.name).spec)
    if summary is not None and spec is not None:
        found.findings += _prices(path, plan, summary, found)
        found.findings += [f"plan.json: {finding}" for finding in audit.of_plan(plan, spec)]
        if plan.imported is not None:
            from gpubench_cli import import_study, mlperf  # noqa: PLC0415  # few results are imported ones

            planned, measured = freeze(spec, plan.pools, plan.planned_at), path / results.MEASUREMENTS
            if found.read(lambda: import_study.imported(planned, measured)) not in (None, plan.imported):
                found.findings.append(f"plan.json: its figures are not those of {results.MEASUREMENTS}")
            found.findings += found.read(lambda: mlperf.differences(path)) or ()
        words = (summary.gpubench, summary.words) == (VERSION, results.WORDS)
        if not words:
            found.by_checksum.append("sentences, as this gpubench may choose other words than its own")
        found.findings += _status(plan, written, spec, summary, found, words=words)
        found.points = len(summary.status.results)
    return found


# --- reading ----------------------------------------------------------------------------------------------------------


class _Written(NamedTuple):
    lines: Sequence[AttemptRecord]
    environments: Sequence[Environment]
    new_nodes: NewNodes

    def ledger(self, *, missing: int = 0) -> Ledger:
        """As it was before the last lines, which brought their environments."""
        ledger = Ledger(new_nodes=self.new_nodes).with_records(self.lines[: len(self.lines) - missing])
        keys = {record.result.environment for record in ledger.records if record.result is not None}
        return ledger.with_environments(one for one in self.environments if not missing or one.key() in keys)


def _ledger_lines(path: Path, found: Examined) -> list[AttemptRecord]:
    lines = list(results.ledger_lines(path))
    read: dict[str, AttemptRecord] = {}
    for number, record in enumerate(lines, start=1):
        if (before := read.get(record.key)) is not None:
            same = (before.job, before.job_uid, before.created_at) == (record.job, record.job_uid, record.created_at)
            # The later line of an attempt is its end, or those of its pods.
            was_over = before.outcome is not None and (before.is_closed or record.outcome is not before.outcome)
            if not same or was_over or record.outcome is None:
                found.findings.append(f"{path / results.LEDGER}:{number}: {record.key} has been recorded before")
        read[record.key] = record
    if results.ledger_is_cut(path):
        (found.stopped if found.unfinished else found.findings).append(f"ledger.jsonl: {_CUT}")
    return lines


def _prices(path: Path, plan: Plan, summary: Summary, found: Examined) -> Iterator[str]:
    """Whether the plan of a re-priced folder has the prices of the file beside it."""
    there = path / results.PRICES
    if summary.repriced is None:
        if plan.pools_when_measured is not None:
            yield "plan.json: it has other prices than when it was measured, and status.json does not say so"
        if there.exists():
            yield f"{there}: there are other prices here, and status.json does not say that it was re-priced"
        return
    found.remarks.append("it was re-priced: its prices are those of prices.yaml, not those under which it was measured")
    try:
        if results.digest(there) != summary.repriced.digest:
            yield f"{there}: it is not the file that the benchmark was re-priced with"
        elif repricing.repriced(plan, documents.read(there).pools).pools != plan.pools:
            yield f"plan.json: its prices are not those of {there}"
    except terminal.CliError as error:
        yield from error.args


# --- attempts and status ----------------------------------------------------------------------------------------------


def _attempts(
    plan: Plan, ledger: Ledger, contents: Mapping[LogName, bytes], found: Examined, summary: Summary | None
) -> None:
    known = {trial.id for trial in plan.trials}
    records = {(record.trial, record.attempt): record for record in ledger.records if record.trial in known}
    exported = summary.exported if summary is not None else None
    found.attempts = len(records)
    for name in contents:
        record = records.get((name.trial, name.attempt))
        in_plan = name.trial in known and name.pod < plan.point_by_trial[name.trial].nodes
        if record is None and in_plan and exported is None and found.unfinished and _was_starting(ledger, name):
            found.stopped.append(f"logs/{name}: its gang was starting, and is not in the ledger yet")
        elif record is None or not in_plan:
            found.findings.append(f"logs/{name}: the ledger knows of no such attempt or pod")
    read: dict[LogName, Log] = {}
    own_programs, failed, without_logs = 0, 0, []
    for record in records.values():
        names = [LogName(record.trial, record.attempt, pod) for pod in range(plan.point_by_trial[record.trial].nodes)]
        missing = [name for name in names if name not in contents]
        lost = [name for name in missing if exported is None or str(name) in exported.logs]
        found.findings += [f"logs/{name}: it is missing" for name in lost]
        if not plan.has_windows(record.trial):
            own_programs += record.outcome is Outcome.SUCCEEDED
            continue
        failed += record.outcome not in (None, Outcome.SUCCEEDED)
        # A process that was killed stops anywhere; whoever has a result has ended each of its lines.
        tolerant = record.outcome is not Outcome.SUCCEEDED
        logs = {
            name: found.log(f"logs/{name}", contents[name], tolerant=tolerant) for name in names if name in contents
        }
        read |= logs
        found.cut += [str(name) for name, of_pod in logs.items() if of_pod.cut and tolerant]
        if not missing:
            findings = audit.of_attempt(plan, record, {name.pod: of_pod for name, of_pod in logs.items()})
            found.findings += [f"attempt {record.key}: {finding}" for finding in findings]
        elif not lost:
            without_logs.append(record.key)
    found.windows = sum(len(of_pod.of_kind(Window)) for of_pod in read.values())
    found.findings += _kept_environments(ledger, read)
    if without_logs:
        found.remarks.append(
            f"windows of {len(without_logs)} attempts were gone when it was exported ({', '.join(without_logs)}): only "
            "what follows from their results was computed again"
        )
    resumed = [one.key for one in records.values() if one.result is not None and one.result.resumed is not None]
    limits = {
        "results of programs of your own, which write no windows": own_programs,
        "attempts that came to no result, line by line: a line that was removed at their end is not noticed": failed,
        f"trainings that went on from a checkpoint ({', '.join(resumed)}): what was trained before": len(resumed),
        "records of kinds that this gpubench does not know": sum(of_pod.unknown for of_pod in read.values()),
    }
    found.by_checksum += [f"{count} {what}" for what, count in limits.items() if count]


def _was_starting(ledger: Ledger, name: LogName) -> bool:
    """Whether a log is of the next attempt at a trial: a gang's logs are there before it is in the ledger."""
    attempts = ledger.by_trial.get(name.trial, ())
    return name.attempt == len(attempts) + 1 and all(record.outcome is not None for record in attempts)


def _kept_environments(ledger: Ledger, logs: Mapping[LogName, Log]) -> Iterator[str]:
    """Whether the environments that were kept are those that pods wrote, as far as their logs are here."""
    written = [environment for of_pod in logs.values() for environment in of_pod.of_kind(Environment)]
    of_results = {record.result.environment for record in ledger.records if record.result is not None}
    for environment in ledger.environments:
        if (key := environment.key()) not in of_results:
            yield f"environments.jsonl: {key} is the environment of no result"
        elif environment not in written and any(one.key() == key for one in written):
            yield f"environments.jsonl: {key} is not as the pods wrote it"


def _status(
    plan: Plan, written: _Written, spec: GpuBenchmarkSpec, summary: Summary, found: Examined, *, words: bool
) -> list[str]:
    """What differs between the status and the ledger that it was made of: of an unfinished benchmark a younger one."""

    def differences(missing: int) -> list[str]:
        found = audit.of_status(plan, written.ledger(missing=missing), spec, summary.status, words=words)
        return [f"status.json: {finding}" for finding in found]

    if not (now := differences(0)) or not found.unfinished:
        return now
    if summary.exported is not None:  # the cluster's ledger has no order, and its operator writes a status rarely
        found.stopped.append(f"its attempts are newer than its status, which differs in {len(now)} places from them")
        return []
    for missing in range(1, min(_LINES_OF_A_STEP, len(written.lines)) + 1):
        if not differences(missing):
            found.stopped.append(f"its status is from before the last {missing} lines of its ledger")
            return []
    return now


# --- telling ----------------------------------------------------------------------------------------------------------


def _write_statement(target: Path, path: Path, examined: Examined, verdict: str) -> None:
    """The predicate is in-toto's test result (https://in-toto.io/attestation/test-result/v0.1)."""
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"name": str(one.relative_to(path)), "digest": {"sha256": results.digest(one)}}
            for one in sorted(path.rglob("*"))
            if one.is_file()
        ],
        "predicateType": "https://in-toto.io/attestation/test-result/v0.1",
        "predicate": {
            "result": "FAILED" if examined.findings else "PASSED",
            "configuration": [{"name": "gpubench verify", "annotations": {"version": VERSION}}],
            ("failedTests" if examined.findings else "passedTests"): [verdict],
        },
    }
    report.write(target, f"{json.dumps(statement, indent=2)}\n")


def _tell(path: Path, examined: Examined, said: Sequence[str]) -> None:
    for finding in examined.findings[:_FINDINGS_SHOWN]:
        terminal.say(f"{path}: {finding.removeprefix(f'{path}/')}")
    if (more := len(examined.findings) - _FINDINGS_SHOWN) > 0:
        terminal.say(f"{path}: and {more} more")
    for sentence in said:
        terminal.say(f"{path}: {sentence}")


def _sentences(examined: Examined) -> list[str]:  # the verdict first
    looked_at, origin = f"{examined.points} points", "the imported measurements"
    if not examined.imported:
        looked_at, origin = f"{examined.attempts} attempts, {examined.windows} windows, {looked_at}", "the records"
    verdict = f"it does not hold ({looked_at} were looked at)"
    if not examined.findings:
        verdict = f"{looked_at}: all is as it was written, and every figure follows from {origin}"
    sentences = [verdict]
    if examined.stopped:
        sentences.append(f"it was stopped in the middle, or had not finished: {'; '.join(examined.stopped)}")
    sentences += examined.remarks
    if examined.cut:
        sentences.append(
            f"the last line of {len(examined.cut)} logs has no end, of attempts that came to no result: "
            f"{', '.join(examined.cut)}"
        )
    if examined.by_checksum:
        sentences.append(f"checked by checksum only: {'; '.join(examined.by_checksum)}")
    return sentences
