# SPDX-License-Identifier: Apache-2.0
"""Benchmarks and schedules of a cluster as objects: `gpubench list`, `logs`, `suspend`, `resume` and `cancel`."""

import sys
from typing import Any

import click

from gpubench import names
from gpubench.report import tables
from gpubench.scheduler import conditions
from gpubench_cli import cluster, options, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube

_JOB = "batch.kubernetes.io/job-name"
_objects = click.argument("names", metavar="NAME...", nargs=-1, required=True, help="in the cluster")


@click.command("list")
@options.cluster
@click.option("-A", "--all-namespaces", "every", is_flag=True, help="objects of all namespaces")
@options.output("table", "wide")
def list_objects(namespace: str | None, every: bool, output: str) -> None:
    """List GpuBenchmarks and GpuBenchmarkSchedules, with the columns that `kubectl get` has."""
    with cluster.connect(namespace) as place:
        within = None if every else place.namespace
        found = [place.table(one, namespace=within) for one in (kube.BENCHMARKS, kube.SCHEDULES)]
    if not (shown := [_table(one, every=every, wide=output == "wide") for one in found if one["rows"]]):
        terminal.tell(f"no benchmark and no schedule in {'any namespace' if every else f'namespace {within}'}")
    terminal.print_tables(shown, wide=output == "wide")


def _table(found: dict[str, Any], *, every: bool, wide: bool) -> tables.Table:
    kept = {at: one for at, one in enumerate(found["columnDefinitions"]) if wide or not one["priority"]}
    columns = (tables.Column(title=one["name"].upper(), numeric=one["type"] == "integer") for one in kept.values())
    rows = (
        (
            row["object"]["metadata"]["namespace"],
            *("" if (cell := row["cells"][at]) is None else str(cell) for at in kept),
        )
        for row in found["rows"]
    )
    table = tables.Table(columns=(*tables.words("NAMESPACE"), *columns), rows=tuple(rows))
    return table if every else tables.picked(table, range(1, len(table.columns)))


@click.command("logs")
@click.argument("name", metavar="NAME", help="a GpuBenchmark")
@click.option("--pod", type=int, metavar="NUMBER", help="of this pod alone, such as 0")
@options.cluster
def logs(name: str, pod: int | None, namespace: str | None) -> None:
    """Print what the pods of a benchmark's newest attempt have written so far."""
    with cluster.connect(namespace) as place:
        pods = [one["metadata"] for one in place.pods(kube.uid_of(place.benchmark(name)))]
        jobs = [one["labels"].get(_JOB) for one in sorted(pods, key=lambda one: str(one["creationTimestamp"]))]
        newest = {
            int(one["labels"].get(names.LABEL_POD_INDEX, 0)): one["name"]
            for one in pods
            if one["labels"].get(_JOB) == jobs[-1]
        }
        found = [(one, place.log(one)) for at, one in sorted(newest.items()) if pod in (None, at)]
    if not found:
        raise CliError(f"{name} has no such pod in the cluster now: spec.results keeps what pods write")
    for one, said in found:
        if len(found) > 1:
            terminal.write(f"==> {one} <==")
        terminal.write("no log: not started, or gone" if said is None else said.decode(errors="replace"))


def _switch(verb: str, *, to: bool, done: str, about: str) -> click.Command:
    @click.command(verb, help=about)
    @_objects
    @click.option("--schedule", is_flag=True, help="NAME is a GpuBenchmarkSchedule: its runs to come")
    @options.cluster
    def switch(names: tuple[str, ...], schedule: bool, namespace: str | None) -> None:
        with cluster.connect(namespace) as place:
            for name in names:
                body = place.change(kube.SCHEDULES if schedule else kube.BENCHMARKS, name, {"spec": {"suspend": to}})
                is_over = kube.condition(body, conditions.FINISHED) is not None
                terminal.write(f"{name} has finished: there is nothing to {verb}" if is_over else f"{name} {done}")

    return switch


suspend = _switch(
    "suspend",
    to=True,
    done="is suspended",
    about="Stop the running attempts of benchmarks and start none. What was measured is kept.",
)
resume = _switch("resume", to=False, done="goes on", about="Go on with benchmarks that were suspended.")


@click.command("cancel")
@_objects
@click.option("-y", "--yes", is_flag=True, help="without the question")
@options.cluster
def cancel(names: tuple[str, ...], yes: bool, namespace: str | None) -> None:
    """Delete benchmarks: their Jobs end, and their plan, attempts and figures are gone.

    `gpubench suspend` stops one and keeps all, `gpubench export` keeps its figures. What pods wrote to the volume of
    spec.results stays.
    """
    if not yes and not sys.stdin.isatty():
        raise CliError("nothing is deleted, for nobody can be asked: give --yes")
    with cluster.connect(namespace) as place:
        for name in names:
            body = place.benchmark(name)
            done = (body.get("status") or {}).get("pointsDone") or "none"
            if yes or click.confirm(f"Delete {name} (points that have ended: {done}) and its figures?", err=True):
                is_ours = place.delete_benchmark(name, kube.uid_of(body))
                terminal.write(f"{name} is deleted" if is_ours else f"{name} was gone, or is another one by now")
