# SPDX-License-Identifier: Apache-2.0
"""`gpubench show NAME...`: results from the cluster or from results folders; `gpubench watch NAME`: until the end.

`watch` polls, for that survives everything that a broken stream does not. Must not happen: an end because the API
server was away for a moment, or a wait for ever because it does not come back.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from gpubench import values
from gpubench.analysis import answer, text
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus, waits_for
from gpubench.api.point_result import PointState
from gpubench.plan.pool_prices import Repriced
from gpubench.report import tables
from gpubench.scheduler import conditions
from gpubench_cli import cluster, options, results, terminal
from gpubench_cluster import kube

FORMS = ("table", "wide", "json", "yaml", "csv")
_TABLES = ("table", "wide")
_WHOLE = terminal.View()
_WITH_SPEC = ("json", "yaml")
_CSV_FIELDS = ("study", "source", *tables.FLAT_FIELDS, "repriced_at")


class Shown(values.FrozenModel):
    """One benchmark and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    spec: Any = None
    repriced: Repriced | None = None
    status: FullStatus | GpuBenchmarkStatus  # the short one where the analysis may not be read

    def full(self) -> FullStatus:
        """The status with its analysis; CliError where that may not be read."""
        if isinstance(self.status, GpuBenchmarkStatus):
            raise terminal.CliError(
                f"{self.name}: this needs its analysis, and you may not read the ConfigMaps of its namespace"
            )
        return self.status


@click.command("show")
@options.benchmarks
@options.cluster
@options.output(*FORMS)
@click.option(
    "--bill", is_flag=True, help="what the attempts were billed, and for what: pull, start-up, lost work, ..."
)
@click.option("--pool", metavar="NAME", help="the points of this pool only")
@options.view
def show(
    *, names: tuple[str, ...], namespace: str | None, output: str, bill: bool, pool: str | None, view: terminal.View
) -> None:
    """Show results. A NAME that is a results folder is read from there, any other from the cluster.

    On a terminal the table has what differs between its rows; -o wide and a pipe have all columns.
    """
    view = view._replace(pool=pool)
    if output not in _TABLES and (bill or view != _WHOLE):
        raise terminal.CliError(
            f"--bill, --pool, --sort, --top and --columns are for tables: leave them out, or -o {output}"
        )
    shown = [find(name, namespace=namespace, with_spec=output in _WITH_SPEC) for name in names]
    print_studies(shown, output=output, bill=bill, view=view)


def find(name: str, *, namespace: str | None, with_spec: bool) -> Shown:
    """A benchmark by the name of its object, or by its results folder; a folder's spec only on request."""

    def in_folder(path: Path) -> Shown:
        found = results.read_summary(path)
        spec = results.written_spec(path, found.name) if with_spec else None
        return Shown(name=found.name, source=str(path), spec=spec, repriced=found.repriced, status=found.status)

    return results.located(name, namespace=namespace, in_folder=in_folder, in_cluster=_in_cluster)


def _in_cluster(place: cluster.Cluster, name: str) -> Shown:
    body = place.benchmark(name)
    source = f"namespace {place.namespace}"
    status: FullStatus | GpuBenchmarkStatus = cluster.read_status(body.get("status"), name=name)
    try:
        status = results.status_of(place, name, body)
    except kube.Forbidden:
        terminal.tell(f"{name}: you may not read ConfigMaps in {source}, where its analysis is: this is its summary")
    return Shown(name=name, source=source, spec=body.get("spec"), status=status)


def print_studies(shown: Sequence[Shown], *, output: str, bill: bool = False, view: terminal.View = _WHOLE) -> None:
    if output == "csv":
        terminal.write(as_csv(shown))
        return
    if output not in _TABLES:
        terminal.write_document({"studies": [study.to_wire() for study in shown]}, output=output)
        return
    for number, study in enumerate(shown):
        if number:
            terminal.write("")
        if view.pool is not None:
            study.full()
        remark = study.repriced.sentence if study.repriced is not None else None
        show_status(study.name, study.source, study.status, remark=remark, view=view)
        if bill:
            _show_bill(study.full(), wide=view.wide)


def as_csv(shown: Sequence[Shown]) -> str:
    """One line for each point of each benchmark, nothing rounded."""
    rows: list[dict[str, str]] = []
    for study in shown:
        own = {"study": study.name, "source": study.source, "repriced_at": study.repriced.at if study.repriced else ""}
        rows += [own | tables.flat(point) for point in study.full().results]
    return terminal.csv_text(_CSV_FIELDS, rows)


def show_status(
    name: str,
    source: str,
    status: FullStatus | GpuBenchmarkStatus,
    *,
    remark: str | None = None,
    view: terminal.View = _WHOLE,
) -> None:
    """One benchmark: its state, what else must be known of it, the answer, the table, the money."""
    state = [status.phase or "not started"]
    if status.points_done is not None:
        state.append(f"{status.points_done} points have ended")
    if status.trials is not None and not conditions.holds(status.conditions, conditions.FINISHED):
        state.append(f"{status.trials.finished} of {text.trials(status.trials)} trials")
    waiting = waits_for(status.conditions)
    terminal.say(f"{name} ({source}): {', '.join(state)}")
    for line in filter(None, (remark, "" if waiting is None else waiting.message)):
        terminal.say(line)
    if not status.results:
        if waiting is None:
            finished = (one.message for one in status.conditions if one.type == conditions.FINISHED)
            terminal.say(next(finished, None) or "There are no results yet.")
        return
    found = status.answer or (answer.answer(status.results) if isinstance(status, FullStatus) else None)
    if found is not None:
        terminal.say(f"\n{found}")
    terminal.write("")
    lines: list[str] = []
    if isinstance(status, GpuBenchmarkStatus):
        terminal.print_table(view.of(tables.summaries(status.results)), wide=view.wide)
    else:
        _show_figures(status, view)
        lines = [*(f"{one.sentence}." for one in status.comparisons), *text.interruptions(status)]
    for line in [*lines, *money_and_baseline(status)]:
        terminal.say(f"\n{line}")


def _show_figures(status: FullStatus, view: terminal.View) -> None:
    """The tables, and in which environments and at which prices they were measured."""
    if not (points := [point for point in status.results if view.pool in (None, point.pool)]):
        there = ", ".join(dict.fromkeys(point.pool for point in status.results))
        raise terminal.CliError(f"--pool {view.pool}: no point is of that pool: the benchmark has {there}")
    listed = points if view.wide else tables.published(points)
    whole = tables.results(listed, status.prices)
    shown = [listed[number] for number in view.rows(whole)]
    found = [view.of(whole)] if view.columns else tables.of_benchmark(shown, status.prices)
    terminal.print_tables(found, wide=view.wide)
    pools = {point.pool for point in shown}
    withheld = [point for point in points if len(listed) < len(points) and point.state is PointState.NOT_PUBLISHED]
    for line in (
        *(f"{line} (-o wide has the rows)" for line in tables.reasons(withheld)),
        *text.environments(status.environments, shown),
        *(text.price(one) for one in status.prices if one.pool in pools),
    ):
        terminal.say(line)


def money_and_baseline(status: FullStatus | GpuBenchmarkStatus) -> list[str]:
    """What was spent so far, that the budget leaves something out, and the comparison with the baseline."""
    found = [] if status.spent is None else [text.spent(status.spent)]
    found += [
        f"Budget: {one.message}."
        for one in status.conditions
        if (one.type, one.status) == (conditions.BUDGET_EXHAUSTED, "True")
    ]
    if (compared := status.comparison) is not None:
        found.append(f"{compared.verdict.value}, compared with {compared.baseline}: {compared.sentence}.")
    return found


def _show_bill(status: FullStatus, *, wide: bool) -> None:
    terminal.write("")
    if (table := tables.bills(status.results)) is None:
        terminal.say(text.NO_BILL)
        return
    terminal.print_table(table, wide=wide)
    terminal.say("\n".join(("", *text.billed(status.results, status.prices))))


# --- gpubench watch ---------------------------------------------------------------------------------------------------


POLL_SECONDS = 2.0
PATIENCE_SECONDS = 180.0  # a control plane that is upgraded is away for one or two minutes
STATUS_DUE_SECONDS = 15.0
_OPEN = (PointState.PENDING, PointState.RUNNING)


@click.command("watch")
@click.argument("name", metavar="NAME", help="a GpuBenchmark")
@options.cluster
def watch(name: str, namespace: str | None) -> int:
    """Follow a benchmark in the cluster. Ends with 0 when it succeeded and with 1 when it failed."""
    with cluster.connect(namespace) as place:
        place.benchmark(name)  # a wrong name is said at once
        with terminal.Progression(name=name) as progression:
            status = follow(lambda: place.benchmark(name), name=name, progression=progression)
    shown = find(name, namespace=namespace, with_spec=False)
    show_status(name, shown.source, shown.status)
    return terminal.exit_code(conditions.holds(status.conditions, conditions.SUCCEEDED))


def follow(
    read: Callable[[], dict[str, Any]],
    *,
    name: str,
    progression: terminal.Progression,
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> GpuBenchmarkStatus:
    """The status at the end; changes are told once, and so is an API server that is away, until patience ends."""
    began, away_since = now(), None
    known, without_status = GpuBenchmarkStatus(), False
    while True:
        try:
            found = read()
        except kube.TemporaryError as error:
            if away_since is None:
                away_since = now()
                progression.line(f"{error}; trying again")
            elif now() - away_since > PATIENCE_SECONDS:
                raise
        else:
            away_since, status = None, cluster.read_status(found.get("status"), name=name)
            progression.progressed(status, None)
            if status.phase is None and not without_status and now() - began > STATUS_DUE_SECONDS:
                without_status = True
                progression.line("it has no status yet: is gpubench's operator running?")
            for message in _changes(known, status):
                progression.line(message)
            known = status
            if conditions.holds(status.conditions, conditions.FINISHED):
                return status
        sleep(POLL_SECONDS)


def _changes(before: GpuBenchmarkStatus, status: GpuBenchmarkStatus) -> Iterator[str]:
    if status.trials is not None and status.trials.finished > (before.trials.finished if before.trials else 0):
        yield f"{status.trials.finished} of {text.trials(status.trials)} trials have finished"
    ended = [point.state not in _OPEN for point in before.results]
    for index, point in enumerate(status.results):
        if point.state not in _OPEN and not any(ended[index : index + 1]):
            yield f"{point.state.value}: {point.key}: {point.summary or point.message}"
    waits, waited = waits_for(status.conditions), waits_for(before.conditions)
    if waits is not None and (waited is None or waits.message != waited.message):
        marks = {conditions.GANG_PENDING: "warning", conditions.ADMITTED: "queue"}
        yield f"{marks.get(waits.type, status.phase)}: {waits.message}"
