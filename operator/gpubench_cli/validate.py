# SPDX-License-Identifier: Apache-2.0
"""`gpubench validate FILE...`: what an API server would refuse, with the line it stands in. Changes nothing."""

import argparse
from pathlib import Path

from gpubench_cli import documents, refusal, terminal
from gpubench_cli.documents import StudyFile
from gpubench_cli.refusal import Refusal


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "validate",
        help="check files of GpuPools, GpuBenchmarks and GpuBenchmarkSchedules as an API server would",
        description="Check files as an API server with gpubench's CRDs would at `kubectl apply`, and say where each "
        "problem stands; of a schedule also what the operator would say of its cron expression and time zone. No "
        "cluster is asked.",
    )
    parser.add_argument("files", type=Path, nargs="+", metavar="FILE.yaml", help="what is to be applied")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Each file by itself, all of them in any case."""
    problems: list[str] = []
    for path in arguments.files:
        try:
            terminal.write(f"{path}: {_held(documents.read(path))}")
        except Refusal as error:
            problems += error.sentences
    if problems:
        raise Refusal(*problems)
    return refusal.EXIT_DONE


def _held(found: StudyFile) -> str:
    named = [
        *(f"GpuPool {pool.name}" for pool in found.pools),
        *(f"GpuBenchmark {benchmark.name}" for benchmark in found.benchmarks),
        *(f"GpuBenchmarkSchedule {schedule.name}" for schedule in found.schedules),
        *(f"ConfigMap {config_map.name}" for config_map in found.config_maps),
    ]
    return f"valid: {', '.join(named)}"
