# SPDX-License-Identifier: Apache-2.0
"""`gpubench plan STUDY.yaml`: what would be run, in which order, for how long and how much. Runs nothing."""

import argparse
import json
import time
from pathlib import Path

import yaml

from gpubench.api.pool import GpuPool
from gpubench.moments import rfc3339
from gpubench.money import price
from gpubench.plan import freeze
from gpubench.plan.plan import Plan, Point
from gpubench.report import figures
from gpubench.report.tables import Column, Table
from gpubench.units import duration_text
from gpubench_cli import documents, estimate, machine, refusal, terminal, volumes
from gpubench_cli.documents import Benchmark, StudyFile
from gpubench_cli.run import as_here, as_study, given_pools

_MONEY_PLACES = 4

_POINT_COLUMNS = (
    Column(title="WORKLOAD"),
    Column(title="POOL"),
    Column(title="WORKERS", numeric=True),
    Column(title="BATCH", numeric=True),
    Column(title="PRECISION"),
    Column(title="NODES", numeric=True),
    Column(title="PRICE/H", numeric=True),
    Column(title="TRIALS", numeric=True),
)
_TRIAL_COLUMNS = (
    Column(title="#", numeric=True),
    Column(title="TRIAL"),
    Column(title="WORKLOAD"),
    Column(title="POOL"),
    Column(title="WORKERS", numeric=True),
    Column(title="BATCH", numeric=True),
    Column(title="PRECISION"),
    Column(title="REPEAT", numeric=True),
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "plan",
        help="show what a study would run, in which order, for how long",
        description="Show points and trials in their order, with estimated time and cost, and what is skipped and why. "
        "Pools that are in none of the files are read from the current cluster.",
    )
    parser.add_argument("study", type=Path, metavar="STUDY.yaml", help="a GpuBenchmark and, most times, its GpuPools")
    parser.add_argument("--pools", type=Path, metavar="FILE", help="GpuPools in a file of their own")
    parser.add_argument("--name", help="the benchmark, where the file has several")
    parser.add_argument("--local", action="store_true", help="for `gpubench run`: skip what this machine cannot be")
    volumes.add_to(parser)
    parser.add_argument("-o", "--output", choices=("table", "json", "yaml"), default="table", help="table by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, plan, show."""
    if arguments.volume and not arguments.local:
        raise refusal.Refusal("--volume is a folder of this machine: give it with --local")
    study_file = documents.read(arguments.study)
    benchmark = study_file.benchmark(arguments.name)
    pools = _pools(study_file, benchmark, arguments)
    plan = freeze.freeze(benchmark.spec, pools, rfc3339(time.time()))
    parallel = benchmark.spec.limits.parallel_trials
    if arguments.local:
        sources = volumes.Sources(given=volumes.given(arguments.volume), config_maps=study_file.config_maps)
        study = as_study(benchmark, now=time.time())
        plan, parallel = as_here(study, plan, here=machine.this_machine(), sources=sources), 1
    if arguments.output == "json":
        terminal.write(json.dumps(plan.to_wire(), indent=2, ensure_ascii=False))
    elif arguments.output == "yaml":
        terminal.write(yaml.safe_dump(plan.to_wire(), sort_keys=False, allow_unicode=True))
    else:
        _show(plan, name=benchmark.name, parallel=parallel)
    return refusal.EXIT_DONE


def _pools(study_file: StudyFile, benchmark: Benchmark, arguments: argparse.Namespace) -> tuple[GpuPool, ...]:
    pools = given_pools(study_file, arguments.pools)
    missing = documents.missing_pools(benchmark, pools)
    if not missing or arguments.local:
        documents.refuse_missing_pools(benchmark, pools)
        return pools
    from gpubench_cli import cluster  # noqa: PLC0415  # a plan of files alone needs no client

    try:
        there = cluster.connect().pools()
    except refusal.Refusal as error:
        raise refusal.Refusal(
            f"{study_file.path}: GpuPool {', '.join(missing)} is not in the files, and cannot be read from a cluster: "
            f"{error}"
        ) from error
    return (*pools, *(pool for pool in there if pool.name in missing))


def _show(plan: Plan, *, name: str, parallel: int) -> None:
    terminal.write(f"{name}: {len(plan.points)} points, {len(plan.trials)} trials\n")
    terminal.print_table(Table(columns=_POINT_COLUMNS, rows=tuple(_point_row(plan, point) for point in plan.points)))
    terminal.write("")
    terminal.print_table(
        Table(
            columns=_TRIAL_COLUMNS,
            rows=tuple(
                (str(number), trial.id, *_key_cells(plan.points[trial.point]), str(trial.repeat + 1))
                for number, trial in enumerate(plan.trials, start=1)
            ),
        )
    )
    terminal.write("")
    for sentence in sentences(plan, parallel=parallel):
        terminal.write(sentence)


def sentences(plan: Plan, *, parallel: int) -> list[str]:
    """What the tables cannot say: time, nodes, money, and what is skipped."""
    estimated = estimate.estimate(plan, parallel_trials=parallel)
    timing = plan.timing
    together = "one after the other" if parallel == 1 else f"up to {parallel} at a time"
    found = []
    if plan.trials:
        found.append(
            f"Time: about {duration_text(estimated.seconds)}, trials {together}, each {estimate.START_UP_SECONDS} s "
            f"start-up (assumed) + {timing.warm_up} s warm-up + {timing.duration} s measured; waiting for nodes, image "
            "pulls and retries come on top."
        )
        found.append(f"Nodes: {', '.join(_nodes(plan))}.")
        found += [
            f"Cost: about {spending.currency} {figures.number(spending.amount, places=_MONEY_PLACES)} for the nodes "
            "while trials run, at the pools' prices."
            for spending in estimated.spending
        ]
    found += [f"{sentence[0].upper()}{sentence[1:]}." for sentence in estimated.unpriced]
    found += [f"Skipped: {_words(point)}: {point.skip}." for point in plan.points if point.skip]
    return found


def _nodes(plan: Plan) -> list[str]:
    return [
        f"{nodes} of {pool} at {_rate(plan, pool)} an hour each"
        for pool, nodes in sorted(estimate.nodes_needed(plan).items())
    ]


def _point_row(plan: Plan, point: Point) -> tuple[str, ...]:
    trials = sum(plan.points[trial.point] is point for trial in plan.trials)
    known = any(pool.name == point.key.pool for pool in plan.pools)
    return (
        *_key_cells(point),
        figures.UNDEFINED if point.skip else str(point.nodes),
        _rate(plan, point.key.pool) if known else figures.UNDEFINED,
        "skipped" if point.skip else str(trials),
    )


def _key_cells(point: Point) -> tuple[str, ...]:
    key = point.key
    batch = figures.UNDEFINED if key.batch_per_worker is None else str(key.batch_per_worker)
    return (key.workload, key.pool, str(key.workers), batch, key.precision.value)


def _rate(plan: Plan, pool: str) -> str:
    """The price of one node for one hour."""
    rate = price.planned_rate(plan, pool)
    if rate is None:
        return figures.UNDEFINED
    return f"{rate.currency} {price.rounded(rate.per_node_hour, digits=_MONEY_PLACES).normalize():f}"


def _words(point: Point) -> str:
    key = point.key
    workers = f"{key.workers} worker{'s' if key.workers > 1 else ''}"
    return f"{key.workload} on {key.pool}, {workers}, global batch {key.global_batch}, {key.precision.value}"
