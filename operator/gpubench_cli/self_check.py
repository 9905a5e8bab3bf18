# SPDX-License-Identifier: Apache-2.0
"""`gpubench self-check`: it becomes `gpubench_jobs.self_check`, so nothing is left behind when it is ended."""

import argparse
import os
import sys
from typing import NoReturn

from gpubench_cli import machine, pod, run


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "self-check",
        help="whether the clock is fine enough here, and what measuring itself costs",
        description="Check the clock. Then train a small model in the measured loop and in a bare one, in turns.",
    )
    parser.add_argument("--rounds", type=int, default=40, metavar="N", help="about a second each; 40 by default")
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> NoReturn:
    """Two ranks where the machine has room for them, otherwise one."""
    run.refuse_missing_libraries()
    here = machine.this_machine()
    variables = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(gpu.entry for gpu in here.gpus)}
    order = (max(3, arguments.rounds), min(2, len(here.gpus or here.cores)), int(bool(here.gpus)))
    measurer = (sys.executable, "-P", "-m", "gpubench_jobs.self_check", *map(str, order))
    os.execve(sys.executable, measurer, pod.neutral_environment(os.environ) | variables)  # noqa: S606  # no shell
