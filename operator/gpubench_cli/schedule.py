# SPDX-License-Identifier: Apache-2.0
"""`gpubench history NAME`: the runs of a GpuBenchmarkSchedule as a table, a page with plots, or data.

The runs come from the history that the schedule keeps: their benchmarks may be gone. `gpubench history judge` judges
anybody's series by the same code, and `gpubench schedules accept` takes a slower level for the new one.
"""

import datetime
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpubench import names, units
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.report import schedule_page
from gpubench.schedule import history
from gpubench.schedule.history import Entry
from gpubench.stats import levels
from gpubench_cli import cluster, documents, options, report, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube

_LAST_SECOND = 253_402_300_800  # the year 10000
_OF_RUN = ("succeeded", "sentence", "spent", "currency", "baseline")
_OF_FIGURE = (
    *("point", "text", "pool", "node", "quantity", "mean", "low", "high", "repeats", "settled"),
    *("environment", "instance_type", "image_digest"),
)
#: Columns of `-o csv`: where it was, the run, its figure.
CSV_FIELDS = (
    *("schedule", "namespace", "schedule_uid"),
    *("run", "run_uid", *_OF_RUN, "due", "created", "finished"),
    *_OF_FIGURE,
    "nodes",
)
_RULES = levels.Rules()


class _ByName(click.Group):
    """`gpubench history NAME` shows a schedule's, whatever else the group has."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_of_group = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_of_group else ["show", *args])


@click.group("history", cls=_ByName)
def history_group() -> None:
    """The runs of a GpuBenchmarkSchedule (`gpubench history NAME`), or a series of your own (`history judge FILE`)."""


@click.group("schedules")
def schedules() -> None:
    """GpuBenchmarkSchedules of a cluster: their runs are `gpubench history`."""


@schedules.command("accept")
@click.argument("name", metavar="NAME", help="a GpuBenchmarkSchedule")
@options.cluster
def accept(name: str, namespace: str | None) -> None:
    """Accept what is slower now as the new level: later runs are held against it. What becomes slower later is told."""
    with cluster.connect(namespace) as place:
        accept_slower(place, name)


def accept_slower(place: cluster.Cluster, name: str) -> None:
    _, status, entries = read(place, name)
    if not status.regressions or not entries:
        terminal.tell(f"{name} calls none of its points slower than before: there is nothing to accept")
        return
    # By the clock of the runs: that of this machine may be another.
    newest = units.rfc3339(math.ceil(max(entry.finished_at for entry in entries)))
    place.change(kube.SCHEDULES, name, {"metadata": {"annotations": {names.ANNOTATION_ACCEPTED: newest}}})
    for one in status.regressions:
        terminal.say(f"accepted: {one.sentence}")


@history_group.command("judge", context_settings={"show_default": True})
@click.argument("file", type=options.PATH, metavar="FILE.csv", help="time,value and, if known, environment, node")
@click.option("--lower", is_flag=True, help="less is better: seconds, bytes")
@click.option("--tolerance", type=options.Number(0.001, 0.5), metavar="SHARE", default=_RULES.tolerance)
@click.option("--false-alarms", type=options.Number(0.001, 10), metavar="COUNT", default=_RULES.false_alarms)
@click.option("--accept-after", type=click.IntRange(5, 200), metavar="RUNS", default=_RULES.accept_after)
def judge(file: Path, lower: bool, tolerance: float, false_alarms: float, accept_after: int) -> int:
    """Where a series of your own became slower, healed, or was accepted: as a schedule is judged, run by run.

    The first row of FILE.csv names the columns. time is a day, a moment such as 2026-11-01T10:00:00Z, or seconds since
    1970. Rows with another environment are a series of their own. Exit code 1 where one is slower at its end.
    """
    grounds: dict[str, list[levels.Run]] = {}
    for ground, run in _series(file, lower=lower):
        grounds.setdefault(ground, []).append(run)
    standing, rules = 0, levels.Rules(tolerance, false_alarms, accept_after)
    for ground, runs in sorted(grounds.items()):
        before, label = levels.Level(), f"{ground}: " if ground else ""
        for number, level in enumerate(levels.found(runs, rules), start=1):
            if (said := _change(runs, before, level)) is not None:
                terminal.say(f"{label}run {number} ({units.rfc3339(runs[number - 1].at)}): {said}")
            before = level
        standing += before.slow is not None
        enough = "" if len(runs) >= levels.SERIES_MIN else f", too few for a verdict: {levels.SERIES_MIN} are needed"
        terminal.say(f"{label}{units.counted(len(runs), 'run')}{enough}")
    return terminal.exit_code(not standing)


def _change(runs: Sequence[levels.Run], before: levels.Level, level: levels.Level) -> str | None:
    if level.slow is not None and level.slow != before.slow:
        usual = statistics.median(runs[at].speed for at in level.reference(level.slow))
        slower = statistics.median(run.speed for run in runs[level.slow :])
        return f"slower since run {level.slow + 1} ({units.rfc3339(runs[level.slow].at)}): {slower / usual:.3g} times"
    if before.slow is not None and level.slow is None:
        return "accepted as the new level" if level.begin == before.slow else "healed"
    return "faster: the new level" if level.begin != before.begin else None


def _series(file: Path, *, lower: bool) -> list[tuple[str, levels.Run]]:
    """The rows of a CSV, in the order of their times, each with its environment."""
    found, remedy = [], "the first row names time, value, environment, node, with commas"
    for place, row in documents.csv_rows(file, ("time", "value"), remedy):
        at, value = _moment(row["time"]), _number(row["value"])
        if at is None:
            raise CliError(f"{place}: time is {row['time']!r}: write 2026-11-01T10:00:00Z, or seconds since 1970")
        if value is None or value <= 0:
            raise CliError(f"{place}: value is {row['value']!r}: write a number above 0")
        found.append(
            (row.get("environment") or "", levels.Run(at, 1 / value if lower else value, row.get("node") or ""))
        )
    return sorted(found, key=lambda one: one[1].at)


def _moment(text: str | None) -> float | None:
    try:
        moment = datetime.datetime.fromisoformat(text or "")
    except ValueError:
        return seconds if (seconds := _number(text)) is not None and 0 <= seconds < _LAST_SECOND else None
    return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if math.isfinite(found) else None


@history_group.command("show")
@click.argument("name", metavar="NAME", help="a GpuBenchmarkSchedule")
@options.cluster
@options.output("table", "wide", "json", "csv")
@click.option("--out", type=options.PATH, metavar="FILE.html", help="write a page with plots instead")
@click.option("--markdown", type=options.PATH, metavar="FILE.md", help="write the same as Markdown instead")
def run_history(name: str, namespace: str | None, output: str, out: Path | None, markdown: Path | None) -> None:
    """Show the runs of a GpuBenchmarkSchedule: what became slower since when, slow nodes, changes of the environment.

    And each run's figures: as a table, as a page with plots, or as data. json has all that is kept, csv a line for each
    run and point, for whoever keeps histories elsewhere. A schedule takes its history along when it is deleted.
    """
    with cluster.connect(namespace) as place:
        show(place, name, output=output, out=out, markdown=markdown)


def show(
    place: cluster.Cluster, name: str, *, output: str = "table", out: Path | None = None, markdown: Path | None = None
) -> None:
    body, status, entries = read(place, name)
    if out is None and markdown is None:
        metadata = {"name": name, "namespace": place.namespace, "uid": str(body["metadata"]["uid"])}
        if output == "json":
            runs = [entry.to_wire() for entry in entries]
            terminal.write_document({**metadata, "status": status.to_wire(), "runs": runs})
        elif output == "csv":
            terminal.write(as_csv(metadata, entries))
        else:
            _table(status, entries, wide=output == "wide")
        return
    document = schedule_page.document(name, entries, status, source=f"namespace {place.namespace}")
    report.write_as(document, out=out, markdown=markdown)


def read(place: cluster.Cluster, name: str) -> tuple[dict[str, Any], GpuBenchmarkScheduleStatus, tuple[Entry, ...]]:
    """A schedule's object, its status, and its runs, oldest first."""
    body = place.named(kube.SCHEDULES, name)
    ours = {names.LABEL_SCHEDULE_UID: kube.uid_of(body), names.LABEL_COMPONENT: names.COMPONENT_HISTORY}
    listed = place.listed(kube.CONFIG_MAPS, what="ConfigMaps", namespace=place.namespace, labels=ours)
    status = cluster.valid(GpuBenchmarkScheduleStatus, body.get("status") or {}, what=f"the status of {name}")
    return body, status, history.read(shard.get("data") or {} for shard in listed)


def as_csv(metadata: Mapping[str, str], entries: Sequence[Entry]) -> str:
    """A line for each run and point, oldest first, one for a run without figures; nothing rounded."""
    rows: list[dict[str, object]] = []
    for entry in entries:
        run = {
            "schedule": metadata["name"],
            "namespace": metadata["namespace"],
            "schedule_uid": metadata["uid"],
            "run": entry.name,
            "run_uid": entry.uid,
            **{name: getattr(entry, name) for name in _OF_RUN},
            "due": units.rfc3339(entry.scheduled_at),
            "created": units.rfc3339(entry.created_at),
            "finished": units.rfc3339(entry.finished_at),
        }
        rows += [
            {**run, **{name: getattr(figure, name) for name in _OF_FIGURE}, "nodes": " ".join(figure.nodes)}
            for figure in entry.figures
        ] or [run]
    return terminal.csv_text(CSV_FIELDS, rows)


def _table(status: GpuBenchmarkScheduleStatus, entries: tuple[Entry, ...], *, wide: bool) -> None:
    month = status.monthly
    for line in (
        *(one.message for one in status.conditions if one.type == "Regressed"),
        *(one.sentence for one in status.slow_nodes),
        *(f"{one.sentence}, since {one.since} ({one.run})" for one in status.key_changes),
        *([] if month is None else [f"{month.shown or 'no cost'} a month: {month.sentence}"]),
    ):
        terminal.say(line)
    if entries:
        terminal.print_table(schedule_page.runs(entries), wide=wide)
    else:
        terminal.say("no run has finished yet")
