# SPDX-License-Identifier: Apache-2.0
"""`gpubench self-check`: what the harness costs on this machine, how much the machine scatters, what can be told here.

The measuring is done by processes of `gpubench_jobs.self_check`; this one waits, bounded, and says what they found.
Must not happen: a process of it that is still there afterwards, however this one ends (`gpubench_jobs.lifetime`).
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import IO

from pydantic import ValidationError

from gpubench.measure import self_check
from gpubench.measure.self_check import Clock, Found, Gang, Order, Report
from gpubench.report import figures
from gpubench.report.tables import Column, Table
from gpubench.units import duration_text
from gpubench_cli import machine, pod, refusal, run, terminal
from gpubench_cli.machine import Machine
from gpubench_cli.refusal import Refusal

MEASURER = (sys.executable, "-P", "-m", "gpubench_jobs.self_check")
ENV_ORDER, ENV_COMMAND = "GPUBENCH_SELF_CHECK", "GPUBENCH_SELF_CHECK_COMMAND"  # of gpubench_jobs.self_check
_SECONDS, _SECONDS_MIN, _SECONDS_MAX = 120.0, 10.0, 3600.0
_GRACE_SECONDS = 15.0  # for an end that the measuring process brings about itself
_ROUNDS, _BLOCK_SECONDS, _WINDOWS = 10, 0.5, 2
_BUSY = 0.5  # load average over processors
_WORKLOAD, _BATCH = "mnist_mlp", 64  # a step of some milliseconds on one core
_OPERATOR_NOTE = (
    "What the operator adds to a Job made by hand, from apply to pods, is measured on a cluster of its own by "
    "`make bench-operator` in a checkout."
)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "self-check",
        help="what measuring costs on this machine, and what differences can be told here",
        description="Run a small model in the measured loop and in a bare loop, in turns, in fresh processes again and "
        "again until the time is up: overhead of the harness, clock, scatter of this machine, and the smallest "
        "difference that can be told here. Leave the machine alone meanwhile.",
    )
    parser.add_argument(
        "--seconds", type=_seconds, default=_SECONDS, metavar="N", help=f"time to take; {_SECONDS:.0f} by default"
    )
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="table by default")
    parser.set_defaults(command=command)


def command(arguments: argparse.Namespace) -> int:
    """Measure, say."""
    run.refuse_missing_libraries()
    here = machine.this_machine()
    order = order_for(here, seconds=arguments.seconds)
    _warn_of_load(here)
    found = measure(order, here)
    report = self_check.report(found)
    if arguments.output == "json":
        terminal.write(json.dumps({"machine": here.name, **report.to_wire()}, indent=2, ensure_ascii=False))
        return refusal.EXIT_DONE
    terminal.write(f"{here.name}: {_devices(here)}\n")
    for title, table in tables(report):
        terminal.write(title)
        terminal.print_table(table)
        terminal.write("")
    for sentence in sentences(report):
        terminal.write(sentence)
    return refusal.EXIT_DONE


def order_for(here: Machine, *, seconds: float) -> Order:
    """One rank, and two where the machine has room for them."""
    room = len(here.gpus) if here.gpus else len(here.cores)
    return Order(
        gangs=(2, 1) if room > 1 else (1,),
        seconds=seconds,
        rounds=_ROUNDS,
        block_seconds=_BLOCK_SECONDS,
        windows=_WINDOWS,
        workload=_WORKLOAD,
        batch=_BATCH,
        gpu=bool(here.gpus),
    )


def measure(order: Order, here: Machine, *, command: Sequence[str] = MEASURER) -> list[Found]:
    """What the measuring process says, line by line; Refusal where it says too little."""
    found: list[Found] = []
    terminal.tell(f"measuring for up to {duration_text(order.seconds)}: leave the machine alone meanwhile")
    with tempfile.TemporaryFile("w+b") as said, _measuring(command, order, here, said) as process:
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            try:
                found.append(self_check.read(line))
            except ValidationError as error:
                raise Refusal(f"the self-check wrote a line that is none of its own: {line.strip()[:200]}") from error
            _tell(found[-1])
        code = process.wait()
        if code:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-1:]
            raise Refusal(f"the self-check ended with code {code}: {last[0] if last else 'it said nothing'}")
    if not any(isinstance(one, Gang) for one in found):
        raise Refusal(f"no gang was done within {order.seconds:.0f} s: give the self-check more with --seconds")
    return found


@contextmanager
def _measuring(
    command: Sequence[str], order: Order, here: Machine, said: IO[bytes]
) -> "Iterator[subprocess.Popen[str]]":
    """The measuring process in a session of its own, which ends with this block or soon after its time."""
    environment = {
        **pod.neutral_environment(os.environ),
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": ",".join(gpu.entry for gpu in here.gpus),
        ENV_ORDER: order.to_json(),
        ENV_COMMAND: str(os.getpid()),
    }
    process = subprocess.Popen(  # noqa: S603  # the command is ours
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=said,
        text=True,
        start_new_session=True,
    )
    overdue = threading.Timer(order.seconds + _GRACE_SECONDS, _end, args=(process,))
    overdue.daemon = True
    overdue.start()
    try:
        yield process
    finally:
        overdue.cancel()
        _end(process)
        process.wait()


def _end(process: "subprocess.Popen[str]") -> None:
    """All of its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def tables(report: Report) -> list[tuple[str, Table]]:
    """What was found, as tables with their titles."""
    overhead = Table(
        columns=(
            Column(title="RANKS", numeric=True),
            Column(title="ROUNDS", numeric=True),
            Column(title="TIME, MEASURED/BARE", numeric=True),
            Column(title="STEP MS", numeric=True),
            Column(title="CPU MS/STEP", numeric=True),
            Column(title="CPU MS/STEP, BARE", numeric=True),
            Column(title="OVERHEAD"),
        ),
        rows=tuple(
            (
                str(one.ranks),
                str(one.rounds),
                figures.bounded(one.time),
                *(f"{1000 * seconds:.3g}" for seconds in (
                    one.step_seconds, one.step_processor_seconds, one.bare_step_processor_seconds
                )),
                one.sentence,
            )
            for one in report.overhead
        ),
        notes=("Brackets are 95 % intervals over the rounds, each of which runs both loops in one process.",),
    )  # fmt: skip
    found = [("What the harness costs", overhead)]
    if report.smallest:
        found.append(("What can be told here", _smallest_table(report)))
    return found


def sentences(report: Report) -> list[str]:
    """Clock, scatter and what follows."""
    clock, scatter = report.clock, report.scatter
    step, reading = clock.step_nanoseconds, clock.reading_nanoseconds
    found = [f"Clock: the smallest step seen is {step} ns; a reading takes {reading:.0f} ns."]
    if scatter is not None and scatter.inside is not None:
        found.append(
            f"Scatter inside a process: {_percent(scatter.inside)} (coefficient of variation of blocks of "
            f"{scatter.block_seconds:.2g} s)."
        )
    if scatter is not None and scatter.between is not None:
        between = scatter.between
        bounds = ""
        if between.low is not None and between.high is not None:
            bounds = f" (95 %: {_percent(between.low)} to {_percent(between.high)})"
        found.append(
            f"Scatter between {scatter.processes} fresh processes: {_percent(between.mean)}{bounds}, each of "
            f"{scatter.run_seconds:.2g} s."
        )
    if report.smallest:
        three, *_, most = report.smallest
        small, smaller = _percent(three.difference), _percent(most.difference)
        found.append(
            f"With {three.repeats} repeats of each of two points a difference of {small} can be told here, with "
            f"{most.repeats} one of {smaller}."
        )
    else:
        found.append(
            "What difference can be told here is not known: that needs 3 fresh processes of one rank: give more time "
            "with --seconds."
        )
    found.append(_OPERATOR_NOTE)
    return found


def _smallest_table(report: Report) -> Table:
    return Table(
        columns=(
            Column(title="REPEATS OF EACH", numeric=True),
            Column(title="SMALLEST DIFFERENCE", numeric=True),
            Column(title="AT MOST", numeric=True),
        ),
        rows=tuple(
            (
                str(one.repeats),
                _percent(one.difference),
                figures.UNDEFINED if one.at_most is None else _percent(one.at_most),
            )
            for one in report.smallest
        ),
        notes=(
            "A difference as large as this is told every other time, one twice as large nearly always.",
            "AT MOST is that for the upper end of the scatter's interval, which few processes leave wide.",
            "A study's own repeats say more: they are of its workload and as long as it measures.",
        ),
    )


def _percent(share: float) -> str:
    """With two significant digits."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _warn_of_load(here: Machine) -> None:
    load = os.getloadavg()[0]
    if load > _BUSY * len(here.cores):
        terminal.tell(
            f"warning: this machine is busy (load average {load:.1f} on {len(here.cores)} processors): what is found "
            "holds for a machine as busy as it is now"
        )


def _devices(here: Machine) -> str:
    processors = f"{len(here.cores)} processor{'' if len(here.cores) == 1 else 's'}"
    return f"{processors}, {len(here.gpus)} GPU{'' if len(here.gpus) == 1 else 's'}"


def _tell(found: Found) -> None:
    match found:
        case Clock():
            terminal.tell("clock read")
        case Gang(ranks=ranks, measured=measured):
            terminal.tell(f"{ranks} rank{'' if ranks == 1 else 's'}: {len(measured)} rounds in fresh processes")


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SECONDS_MIN <= seconds <= _SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no time from {_SECONDS_MIN:.0f} to {_SECONDS_MAX:.0f} seconds")
    return seconds
