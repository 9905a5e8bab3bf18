# SPDX-License-Identifier: Apache-2.0
"""`gpubench history NAME`: the runs of a GpuBenchmarkSchedule as a table, a page with plots, or data. Reads only.

The runs come from the history that the schedule keeps: their benchmarks may be gone.
"""

import argparse
import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from pydantic import ValidationError

from gpubench import names
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.report import markdown, schedule_page
from gpubench.schedule import history
from gpubench.schedule.history import Entry, Figure
from gpubench.units import rfc3339
from gpubench_cli import report, terminal
from gpubench_cli.terminal import Refusal

_OF_RUN = ("name", "uid", "succeeded", "sentence", "spent", "currency", "baseline")
_OF_FIGURE = (
    *("point", "text", "pool", "node", "quantity", "mean", "low", "high", "repeats", "settled"),
    *("environment", "instance_type", "image_digest"),
)
#: Columns of `-o csv`: where it was, the run, its figure.
CSV_FIELDS = (
    *("schedule", "namespace", "schedule_uid"),
    *("run", "run_uid", "succeeded", "sentence", "spent", "currency", "baseline"),
    *("due", "created", "finished"),
    *_OF_FIGURE,
    "nodes",
)


class Place(Protocol):
    """What is needed of a cluster."""

    namespace: str

    def get(self, path: str, *, what: str, **query: str) -> dict[str, Any]:
        """An object or a list, by its path."""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "history",
        help="the runs of a schedule over time, and what became slower",
        description="Show the runs of a GpuBenchmarkSchedule: what became slower since when, slow nodes, changes of "
        "the environment, and each run's figures; as a table, as a page with plots, or as data: json has all that is "
        "kept, csv a line for each run and point, for whoever keeps histories elsewhere. A schedule takes its history "
        "along when it is deleted.",
    )
    parser.add_argument("name", metavar="NAME", help="a GpuBenchmarkSchedule")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.add_argument("-o", "--output", choices=("table", "json", "csv"), default="table", help="table by default")
    parser.add_argument("--out", type=Path, metavar="FILE.html", help="write a page with plots instead")
    parser.add_argument("--markdown", type=Path, metavar="FILE.md", help="write the same as Markdown instead")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, show."""
    from gpubench_cli import cluster  # noqa: PLC0415  # slow to load

    with cluster.connect(arguments.namespace) as place:
        return show(place, arguments)


def show(place: Place, arguments: argparse.Namespace) -> int:
    """What is asked for of a schedule in a cluster."""
    body, status, entries = read(place, arguments.name)
    if arguments.out is None and arguments.markdown is None:
        metadata = {"name": arguments.name, "namespace": place.namespace, "uid": str(body["metadata"]["uid"])}
        _print(arguments.output, metadata, status, entries)
        return terminal.EXIT_DONE
    document = schedule_page.document(arguments.name, entries, status, source=f"namespace {place.namespace}")
    for path, text in (
        (arguments.out, report.html(document) if arguments.out is not None else ""),
        (arguments.markdown, markdown.render(document)),
    ):
        if path is not None:
            report.write(path, text)
    return terminal.EXIT_DONE


def read(place: Place, name: str) -> tuple[dict[str, Any], GpuBenchmarkScheduleStatus, tuple[Entry, ...]]:
    """A schedule's object, its status, and its runs, oldest first."""
    of_namespace = f"/apis/{names.API_VERSION}/namespaces/{place.namespace}/{names.SCHEDULE_PLURAL}"
    what = f"{names.SCHEDULE_KIND} {name} in namespace {place.namespace}"
    body = place.get(f"{of_namespace}/{name}", what=what)
    selector = f"{names.LABEL_SCHEDULE_UID}={body['metadata']['uid']},{names.LABEL_COMPONENT}={names.COMPONENT_HISTORY}"
    path = f"/api/v1/namespaces/{place.namespace}/configmaps"
    listed = place.get(path, what=f"ConfigMaps in namespace {place.namespace}", labelSelector=selector)["items"]
    return body, _status(body, name), history.read(shard.get("data") or {} for shard in listed)


def _status(body: Mapping[str, Any], name: str) -> GpuBenchmarkScheduleStatus:
    try:
        return GpuBenchmarkScheduleStatus.model_validate(body.get("status") or {})
    except ValidationError as error:
        raise Refusal(f"the status of {name} is of another version of gpubench: {error.errors()[0]['msg']}") from error


def _print(
    output: str, metadata: Mapping[str, str], status: GpuBenchmarkScheduleStatus, entries: tuple[Entry, ...]
) -> None:
    match output:
        case "json":
            found = {**metadata, "status": status.to_wire(), "runs": [entry.to_wire() for entry in entries]}
            terminal.write(json.dumps(found, indent=2, ensure_ascii=False))
        case "csv":
            terminal.write(as_csv(metadata, entries))
        case _:
            _table(status, entries)


def as_csv(metadata: Mapping[str, str], entries: Sequence[Entry]) -> str:
    """A line for each run and point, oldest first, one for a run without figures; nothing rounded."""
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=CSV_FIELDS, lineterminator="\n")
    writer.writeheader()
    of_schedule = {f"schedule_{name}" if name == "uid" else name: value for name, value in metadata.items()}
    of_schedule["schedule"] = of_schedule.pop("name")
    for entry in entries:
        for figure in entry.figures or (None,):
            writer.writerow({**of_schedule, **_of_run(entry), **_of_figure(figure)})
    return text.getvalue()


def _of_run(entry: Entry) -> dict[str, str]:
    told = {name: _cell(getattr(entry, name)) for name in _OF_RUN}
    moments = {"due": entry.scheduled_at, "created": entry.created_at, "finished": entry.finished_at}
    return {
        "run": told.pop("name"),
        "run_uid": told.pop("uid"),
        **told,
        **{name: rfc3339(moment) for name, moment in moments.items()},
    }


def _of_figure(figure: Figure | None) -> dict[str, str]:
    if figure is None:
        return {}
    return {**{name: _cell(getattr(figure, name)) for name in _OF_FIGURE}, "nodes": " ".join(figure.nodes)}


def _cell(value: object) -> str:
    return "" if value is None else str(value)


def _table(status: GpuBenchmarkScheduleStatus, entries: tuple[Entry, ...]) -> None:
    for line in (
        *(one.message for one in status.conditions if one.type == "Regressed"),
        *(one.sentence for one in status.slow_nodes),
        *(f"{one.sentence}, since {one.since} ({one.run})" for one in status.key_changes),
        *(
            []
            if status.monthly is None
            else [f"{status.monthly.shown or 'no cost'} a month: {status.monthly.sentence}"]
        ),
    ):
        terminal.write(line)
    if entries:
        terminal.print_table(schedule_page.runs(entries))
    else:
        terminal.write("no run has finished yet")
