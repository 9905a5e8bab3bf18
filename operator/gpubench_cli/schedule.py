# SPDX-License-Identifier: Apache-2.0
"""`gpubench history NAME`: the runs of a GpuBenchmarkSchedule as a table, a page with plots, or data. Reads only.

The runs come from the history that the schedule keeps: their benchmarks may be gone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpubench import names, units
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.report import markdown as as_markdown
from gpubench.report import schedule_page
from gpubench.schedule import history
from gpubench.schedule.history import Entry
from gpubench_cli import cluster, options, report, terminal
from gpubench_cluster import kube

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


@click.command("history")
@click.argument("name", metavar="NAME", help="a GpuBenchmarkSchedule")
@options.namespace
@options.output("table", "json", "csv")
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
        match output:
            case "json":
                runs = [entry.to_wire() for entry in entries]
                terminal.write_document({**metadata, "status": status.to_wire(), "runs": runs})
            case "csv":
                terminal.write(as_csv(metadata, entries))
            case _:
                _table(status, entries)
        return
    document = schedule_page.document(name, entries, status, source=f"namespace {place.namespace}")
    if out is not None:
        report.write(out, report.html(document))
    if markdown is not None:
        report.write(markdown, as_markdown.render(document))


def read(place: cluster.Cluster, name: str) -> tuple[dict[str, Any], GpuBenchmarkScheduleStatus, tuple[Entry, ...]]:
    """A schedule's object, its status, and its runs, oldest first."""
    what = f"{names.SCHEDULE_KIND} {name} in namespace {place.namespace}"
    body = place.get(kube.SCHEDULES.path(namespace=place.namespace, name=name), what=what)
    selector = f"{names.LABEL_SCHEDULE_UID}={kube.uid_of(body)},{names.LABEL_COMPONENT}={names.COMPONENT_HISTORY}"
    path = kube.CONFIG_MAPS.path(namespace=place.namespace)
    listed = place.items(path, what=f"ConfigMaps in namespace {place.namespace}", labelSelector=selector)
    status = cluster.valid(GpuBenchmarkScheduleStatus, body.get("status") or {}, what=f"the status of {name}")
    return body, status, history.read(shard.get("data") or {} for shard in listed)


def as_csv(metadata: Mapping[str, str], entries: Sequence[Entry]) -> str:
    """A line for each run and point, oldest first, one for a run without figures; nothing rounded."""
    rows: list[dict[str, str]] = []
    for entry in entries:
        run = {
            "schedule": metadata["name"],
            "namespace": metadata["namespace"],
            "schedule_uid": metadata["uid"],
            "run": entry.name,
            "run_uid": entry.uid,
            **{name: _cell(getattr(entry, name)) for name in _OF_RUN},
            "due": units.rfc3339(entry.scheduled_at),
            "created": units.rfc3339(entry.created_at),
            "finished": units.rfc3339(entry.finished_at),
        }
        rows += [
            {**run, **{name: _cell(getattr(figure, name)) for name in _OF_FIGURE}, "nodes": " ".join(figure.nodes)}
            for figure in entry.figures
        ] or [run]
    return terminal.csv_text(CSV_FIELDS, rows)


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _table(status: GpuBenchmarkScheduleStatus, entries: tuple[Entry, ...]) -> None:
    month = status.monthly
    for line in (
        *(one.message for one in status.conditions if one.type == "Regressed"),
        *(one.sentence for one in status.slow_nodes),
        *(f"{one.sentence}, since {one.since} ({one.run})" for one in status.key_changes),
        *([] if month is None else [f"{month.shown or 'no cost'} a month: {month.sentence}"]),
    ):
        terminal.write(line)
    if entries:
        terminal.print_table(schedule_page.runs(entries))
    else:
        terminal.write("no run has finished yet")
