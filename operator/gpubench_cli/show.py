# SPDX-License-Identifier: Apache-2.0
"""`gpubench show NAME...`: results from the cluster or from results folders; `gpubench watch NAME`: until the end.

`watch` polls, for that survives everything that a broken stream does not. Must not happen: an end because the API
server was away for a moment, or a wait for ever because it does not come back.
"""

import argparse
import csv
import io
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import yaml

from gpubench.analysis import answer, text
from gpubench.api.benchmark_status import BenchmarkProgress, Comparison, Condition, FullStatus, GpuBenchmarkStatus
from gpubench.api.point_result import PointState
from gpubench.report import tables
from gpubench.scheduler import conditions
from gpubench.units import epoch_seconds
from gpubench.values import FrozenModel
from gpubench_cli import results, terminal
from gpubench_cli.terminal import Refusal
from gpubench_cluster import kube

_WITH_SPEC = ("json", "yaml")


class Shown(FrozenModel):
    """One study and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    spec: Any = None
    repriced: results.Repriced | None = None
    status: FullStatus | GpuBenchmarkStatus  # the short one where the analysis may not be read

    def full(self) -> FullStatus:
        """The status with its analysis; Refusal where that may not be read."""
        if isinstance(self.status, GpuBenchmarkStatus):
            raise Refusal(f"{self.name}: this needs its analysis, and you may not read the ConfigMaps of its namespace")
        return self.status


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "show",
        help="show results, from the cluster or from results folders",
        description="Show results. A NAME that is a results folder is read from there, any other from the cluster.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a GpuBenchmark, or a results folder")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    add_output_to(parser)
    parser.add_argument(
        "--bill",
        action="store_true",
        help="what the attempts were billed, and for what: pull, start-up, lost work, ...",
    )
    parser.set_defaults(command=run)


def add_output_to(parser: argparse.ArgumentParser) -> None:
    """The form in which studies are printed."""
    parser.add_argument(
        "-o", "--output", choices=("table", "json", "yaml", "csv"), default="table", help="table by default"
    )


def run(arguments: argparse.Namespace) -> int:
    """Find, show."""
    if arguments.bill and arguments.output != "table":
        raise Refusal(f"--bill is a table, and -o {arguments.output} has the bills anyway: leave out one of the two")
    with_spec = arguments.output in _WITH_SPEC
    shown = [find(name, namespace=arguments.namespace, with_spec=with_spec) for name in arguments.names]
    print_studies(shown, output=arguments.output, bill=arguments.bill)
    return terminal.EXIT_DONE


def print_studies(shown: Sequence[Shown], *, output: str, bill: bool = False) -> None:
    """Studies as a table, or for programs."""
    match output:
        case "json":
            terminal.write(json.dumps(_document(shown), indent=2, ensure_ascii=False))
        case "yaml":
            terminal.write(yaml.safe_dump(_document(shown), sort_keys=False, allow_unicode=True))
        case "csv":
            terminal.write(as_csv(shown))
        case _:
            _tables(shown, bill=bill)


def as_csv(shown: Sequence[Shown]) -> str:
    """One line for each point of each study, nothing rounded."""
    text = io.StringIO()
    writer = csv.DictWriter(
        text, fieldnames=("study", "source", *tables.FLAT_FIELDS, "repriced_at"), lineterminator="\n"
    )
    writer.writeheader()
    for study in shown:
        for point in study.full().results:
            repriced_at = study.repriced.at if study.repriced is not None else ""
            place = {"study": study.name, "source": study.source, "repriced_at": repriced_at}
            writer.writerow({**place, **tables.flat(point)})
    return text.getvalue()


def show_status(name: str, source: str, status: FullStatus | GpuBenchmarkStatus, *, remark: str | None = None) -> None:
    """One study: how it stands, what else must be known of it, the table, the answer."""
    stand = [part for part in (status.phase or "not started", _points(status), _trials(status)) if part]
    terminal.write(f"{name} ({source}): {', '.join(stand)}")
    if remark is not None:
        terminal.write(remark)
    waiting = waits_for(status)
    finished = next((found.message for found in status.conditions if found.type == conditions.FINISHED), None)
    if waiting is not None:
        terminal.write(waiting.message)
    if not status.results:
        if waiting is None:
            terminal.write(finished or "There are no results yet.")
        return
    terminal.write("")
    order = None if status.seed is None else f"repeat by repeat, each shuffled with seed {status.seed}"
    if isinstance(status, GpuBenchmarkStatus):
        terminal.print_table(tables.summaries(status.results))
        said: tuple[str | None, ...] = (status.answer,)
    else:
        terminal.print_tables(tables.of_benchmark(status.results, status.prices))
        for sentence in (*text.environments(status.environments, status.results), *map(text.price, status.prices)):
            terminal.write(sentence)
        summary = status.answer or answer.answer(status.results)
        said = (summary, *(f"{one.sentence}." for one in status.comparisons), *text.interruptions(status))
    for one in (order and f"Order of the trials: {order}.", *said, *spending(status)):
        if one is not None:
            terminal.write(f"\n{one}")
    if status.comparison is not None:
        terminal.write(f"\n{compared(status.comparison)}")


def show_bill(status: FullStatus) -> None:
    """What was billed, point by point."""
    terminal.write("")
    table = tables.bills(status.results)
    if table is None:
        terminal.write(text.NO_BILL)
        return
    terminal.print_table(table)
    terminal.write("")
    for sentence in text.billed(status.results, status.prices):
        terminal.write(sentence)


def spending(status: BenchmarkProgress) -> list[str]:
    """What the study has spent so far, and that its budget leaves something out, each in a line."""
    found = [] if status.spent is None else [text.spent(status.spent)]
    exhausted = (one for one in status.conditions if (one.type, one.status) == (conditions.BUDGET_EXHAUSTED, "True"))
    return [*found, *(f"Budget: {condition.message}." for condition in exhausted)]


def compared(comparison: Comparison) -> str:
    """How a study stands beside its baseline, in a line."""
    return f"{comparison.verdict.value}, compared with {comparison.baseline}: {comparison.sentence}."


def waits_for(status: BenchmarkProgress) -> Condition | None:
    """The condition that says why nothing goes on; None where something does, or all is over."""
    if conditions.holds(status.conditions, conditions.FINISHED):
        return None
    said = ((conditions.SUSPENDED, "True"), (conditions.GANG_PENDING, "True"), (conditions.ADMITTED, "False"))
    for one in said:
        for condition in status.conditions:
            if (condition.type, condition.status) == one:
                return condition
    return next((found for found in status.conditions if found.reason == conditions.WAITING_FOR_POOLS), None)


def _points(status: BenchmarkProgress) -> str | None:
    return None if status.points_done is None else f"{status.points_done} points have ended"


def _trials(status: BenchmarkProgress) -> str | None:
    """How far a study is that goes on; when it is over, its table says how often each point was measured."""
    if status.trials is None or conditions.holds(status.conditions, conditions.FINISHED):
        return None
    return f"{status.trials.finished} of {text.trials(status.trials)} trials"


def find(name: str, *, namespace: str | None, with_spec: bool) -> Shown:
    """A study by the name of its object, or by its results folder; a folder's spec only on request."""
    path = Path(name)
    if results.is_results_folder(path):
        summary = results.read_summary(path)
        spec = results.folder_spec(path, summary.name) if with_spec else None
        return Shown(
            name=summary.name,
            source=str(path),
            spec=spec,
            repriced=summary.repriced,
            status=summary.status,
        )
    if path.is_dir() or "/" in name:
        raise Refusal(results.why_none(path))
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with cluster.connect(namespace) as place:
        found = place.benchmark(name)
        source, spec = f"namespace {place.namespace}", found.get("spec")
        try:
            return Shown(name=name, source=source, spec=spec, status=results.status_of(place, name, found))
        except kube.Forbidden:
            terminal.tell(
                f"{name}: you may not read ConfigMaps in {source}, where its analysis is: this is its summary"
            )
            short = results.read_status(found.get("status"), name=name)
            return Shown(name=name, source=source, spec=spec, status=short)


def _document(shown: Sequence[Shown]) -> dict[str, object]:
    return {"studies": [study.to_wire() for study in shown]}


def _tables(shown: Sequence[Shown], *, bill: bool) -> None:
    for number, study in enumerate(shown):
        if number:
            terminal.write("")
        remark = study.repriced.sentence if study.repriced is not None else None
        show_status(study.name, study.source, study.status, remark=remark)
        if bill:
            show_bill(study.full())


# --- gpubench watch ---------------------------------------------------------------------------------------------------


POLL_SECONDS = 2.0
PATIENCE_SECONDS = 180.0  # a control plane that is upgraded is away for one or two minutes
STATUS_DUE_SECONDS = 15.0
_OPEN = (PointState.PENDING, PointState.RUNNING)


def add_watch_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "watch",
        help="follow a study in the cluster until it has finished",
        description="Follow a study in the cluster. Ends with 0 when it succeeded and with 1 when it failed.",
    )
    parser.add_argument("name", metavar="NAME", help="a GpuBenchmark")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.set_defaults(command=watch)


def watch(arguments: argparse.Namespace) -> int:
    """Follow, show the end, say how it was."""
    from gpubench_cli import cluster  # noqa: PLC0415  # the only command that always needs it

    with cluster.connect(arguments.namespace) as place:
        first = read_patiently(lambda: place.benchmark(arguments.name), retry=())  # a wrong name is said at once
        status = results.read_status(first.get("status"), name=arguments.name)
        began_at = epoch_seconds(status.started_at) if status.started_at else None
        with terminal.Progression(name=arguments.name, began_at=began_at) as progression:
            status = follow(
                lambda: place.benchmark(arguments.name),
                name=arguments.name,
                progression=progression,
                retry=(kube.TemporaryError,),
            )
    shown = find(arguments.name, namespace=arguments.namespace, with_spec=False)
    show_status(arguments.name, shown.source, shown.status)
    succeeded = conditions.holds(status.conditions, conditions.SUCCEEDED)
    return terminal.EXIT_DONE if succeeded else terminal.EXIT_STUDY_FAILED


def follow(
    read: Callable[[], dict[str, Any]],
    *,
    name: str,
    progression: terminal.Progression,
    retry: tuple[type[Exception], ...],
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> GpuBenchmarkStatus:
    """The status at the end. What changes on the way is told to the progression."""
    told = _Told(progression, began=now())
    while True:
        found = read_patiently(read, retry=retry, sleep=sleep, now=now, tell=progression.line)
        status = results.read_status(found.get("status"), name=name)
        told.tell(status, now=now())
        if conditions.holds(status.conditions, conditions.FINISHED):
            return status
        sleep(POLL_SECONDS)


def read_patiently(
    read: Callable[[], dict[str, Any]],
    *,
    retry: tuple[type[Exception], ...],
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = terminal.tell,
) -> dict[str, Any]:
    """The object; an error of a kind in `retry` is told once and tried again until the patience is at its end."""
    began = now()
    told = False
    while True:
        try:
            return read()
        except retry as error:
            if now() - began > PATIENCE_SECONDS:
                raise
            if not told:
                tell(f"{error}; trying again")
                told = True
            sleep(POLL_SECONDS)


class _Told:
    """What has been told already, so that each thing is told once."""

    def __init__(self, progression: terminal.Progression, *, began: float) -> None:
        self._progression = progression
        self._began = began
        self._ended: set[int] = set()
        self._trials = 0
        self._pending: str | None = None
        self._waiting = False

    def tell(self, status: GpuBenchmarkStatus, *, now: float) -> None:
        self._progression.progressed(status, None)
        self._tell_waiting(status, now=now)
        self._tell_trials(status)
        self._tell_points(status)
        self._tell_pending(status)

    def _tell_waiting(self, status: GpuBenchmarkStatus, *, now: float) -> None:
        if status.phase is None and not self._waiting and now - self._began > STATUS_DUE_SECONDS:
            self._waiting = True
            self._progression.line("it has no status yet: is gpubench's operator running?")

    def _tell_trials(self, status: GpuBenchmarkStatus) -> None:
        if status.trials is not None and status.trials.finished > self._trials:
            self._trials = status.trials.finished
            self._progression.line(f"{self._trials} of {text.trials(status.trials)} trials have finished")

    def _tell_points(self, status: GpuBenchmarkStatus) -> None:
        for index, point in enumerate(status.results):
            if point.state not in _OPEN and index not in self._ended:
                self._ended.add(index)
                self._progression.line(f"{point.state.value}: {point.key}: {point.summary or point.message}")

    def _tell_pending(self, status: GpuBenchmarkStatus) -> None:
        """Why nothing goes on, when that is something new."""
        condition = waits_for(status)
        pending = None if condition is None else condition.message
        if condition is not None and pending != self._pending:
            marks = {conditions.GANG_PENDING: "warning", conditions.ADMITTED: "queue"}
            mark = marks.get(condition.type, status.phase)
            self._progression.line(f"{mark}: {pending}")
        self._pending = pending
