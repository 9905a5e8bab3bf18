# SPDX-License-Identifier: Apache-2.0
"""Benchmarks and schedules of a cluster as objects: `gpubench list`, `logs`, `suspend`, `resume` and `cancel`."""

import sys
from collections.abc import Iterator
from typing import Any

import click

from gpubench import names as words
from gpubench.report import tables
from gpubench.scheduler import conditions
from gpubench_cli import cluster, options, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube

_INDEX = "batch.kubernetes.io/job-completion-index"
_objects = click.argument("names", metavar="NAME...", nargs=-1, required=True, help="in the cluster")
_is_schedule = click.option("--schedule", is_flag=True, help="NAME is a GpuBenchmarkSchedule: its runs to come")


@click.command("list")
@options.cluster
@options.every_namespace
@options.output("table", "wide")
def list_objects(namespace: str | None, every: bool, output: str) -> None:
    """List GpuBenchmarks and GpuBenchmarkSchedules, with the columns that `kubectl get` has."""
    write_list(namespace, every=every, output=output)


def write_list(namespace: str | None, *, every: bool, output: str = "table") -> None:
    with cluster.connect(namespace) as place:
        within = None if every else place.namespace
        found = [place.table(one, namespace=within) for one in (kube.BENCHMARKS, kube.SCHEDULES)]
    if not (shown := [_table(one, every=every, wide=output == "wide") for one in found if one["rows"]]):
        terminal.tell(f"no benchmark and no schedule in {'any namespace' if every else f'namespace {within}'}")
    terminal.print_tables(shown)


def _table(found: dict[str, Any], *, every: bool, wide: bool) -> tables.Table:
    kept = {at: one for at, one in enumerate(found["columnDefinitions"]) if wide or not one["priority"]}
    columns = [tables.Column(title=one["name"].upper(), numeric=one["type"] == "integer") for one in kept.values()]
    rows = (
        (
            *([row["object"]["metadata"]["namespace"]] if every else []),
            *("" if row["cells"][at] is None else str(row["cells"][at]) for at in kept),
        )
        for row in found["rows"]
    )
    return tables.Table(columns=(*tables.words(*(["NAMESPACE"] if every else [])), *columns), rows=tuple(rows))


@click.command("logs")
@click.argument("name", metavar="NAME", help="a GpuBenchmark")
@click.option("--pod", type=int, metavar="NUMBER", help="of this pod alone, such as 0")
@options.cluster
def logs(name: str, pod: int | None, namespace: str | None) -> None:
    """Print what the pods of a benchmark's newest attempt have written so far."""
    with cluster.connect(namespace) as place:
        pods = sorted(_newest(place.pods(kube.uid_of(place.benchmark(name)))))
        said = {one: place.log(one) for number, one in pods if pod in (None, number)}
    if not any(one is not None for one in said.values()):
        raise CliError(f"{name} has no such pod in the cluster now: spec.results keeps what pods wrote")
    for one, log in said.items():
        if len(said) > 1:
            terminal.write(f"==> {one} <==")
        terminal.write("its log is gone" if log is None else log.decode(errors="replace"))


def _newest(pods: tuple[dict[str, Any], ...]) -> Iterator[tuple[int, str]]:
    """Number and name of each pod of the Job that was created last."""
    metadata = [one["metadata"] for one in pods if _INDEX in (one["metadata"].get("labels") or {})]
    newest = max(metadata, key=lambda one: str(one["creationTimestamp"]), default={})
    attempt = (words.LABEL_TRIAL, words.LABEL_ATTEMPT)
    for one in metadata:
        if all(one["labels"].get(label) == newest["labels"].get(label) for label in attempt):
            yield int(one["labels"][_INDEX]), one["name"]


@click.command("suspend")
@_objects
@_is_schedule
@options.cluster
def suspend(names: tuple[str, ...], schedule: bool, namespace: str | None) -> None:
    """Stop the running attempts of benchmarks and start none, until `gpubench resume`. What was measured is kept."""
    _suspend(names, namespace, schedule=schedule, to=True)


@click.command("resume")
@_objects
@_is_schedule
@options.cluster
def resume(names: tuple[str, ...], schedule: bool, namespace: str | None) -> None:
    """Go on with benchmarks that were suspended."""
    _suspend(names, namespace, schedule=schedule, to=False)


def _suspend(names: tuple[str, ...], namespace: str | None, *, schedule: bool, to: bool) -> None:
    with cluster.connect(namespace) as place:
        for name in names:
            body = place.change(kube.SCHEDULES if schedule else kube.BENCHMARKS, name, {"spec": {"suspend": to}})
            if kube.condition(body, conditions.FINISHED):
                terminal.tell(f"{name} has finished: there is nothing to {'suspend' if to else 'resume'}")
            else:
                terminal.write(f"{name} {'is suspended' if to else 'goes on'}")


@click.command("cancel")
@_objects
@click.option("-y", "--yes", is_flag=True, help="without the question")
@options.cluster
def cancel(names: tuple[str, ...], yes: bool, namespace: str | None) -> None:
    """Delete benchmarks: their Jobs end, and their plan, attempts and figures are gone.

    `gpubench suspend` stops one and keeps all, `gpubench export` keeps its figures. What pods wrote to the volume of
    spec.results stays.
    """
    with cluster.connect(namespace) as place:
        for name in names:
            body = place.benchmark(name)
            done = (body.get("status") or {}).get("pointsDone") or "none"
            if not yes and not sys.stdin.isatty():
                raise CliError(f"{name} is not deleted, for nobody can be asked: give --yes")
            if yes or click.confirm(f"Delete {name} (points that have ended: {done}) and its figures?", err=True):
                place.delete_benchmark(name, kube.uid_of(body))
                terminal.write(f"{name} is deleted")
