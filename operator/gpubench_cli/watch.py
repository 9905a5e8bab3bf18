# SPDX-License-Identifier: Apache-2.0
"""`gpubench watch NAME`: a study in the cluster, from now until it has finished.

Polls, for that survives everything that a broken stream does not. Must not happen: an end because the API server was
away for a moment, or a wait for ever because it does not come back.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.point_result import PointState
from gpubench.report import tables, text
from gpubench.scheduler import conditions
from gpubench.units import epoch_seconds
from gpubench_cli import export, refusal, show, terminal
from gpubench_cluster import kube

POLL_SECONDS = 2.0
PATIENCE_SECONDS = 180.0  # a control plane that is upgraded is away for one or two minutes
STATUS_DUE_SECONDS = 15.0
_OPEN = (PointState.PENDING, PointState.RUNNING)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "watch",
        help="follow a study in the cluster until it has finished",
        description="Follow a study in the cluster. Ends with 0 when it succeeded and with 1 when it failed.",
    )
    parser.add_argument("name", metavar="NAME", help="a GpuBenchmark")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Follow, show the end, say how it was."""
    from gpubench_cli import cluster  # noqa: PLC0415  # the only command that always needs it

    with cluster.connect(arguments.namespace) as place:
        first = read_patiently(lambda: place.benchmark(arguments.name), retry=())  # a wrong name is said at once
        status = export.read_status(first.get("status"), name=arguments.name)
        began_at = epoch_seconds(status.started_at) if status.started_at else None
        with terminal.Progression(name=arguments.name, began_at=began_at) as progression:
            status = follow(
                lambda: place.benchmark(arguments.name),
                name=arguments.name,
                progression=progression,
                retry=(kube.TemporaryError,),
            )
    show.show_status(arguments.name, f"namespace {place.namespace}", status)
    succeeded = conditions.holds(status.conditions, conditions.SUCCEEDED)
    return refusal.EXIT_DONE if succeeded else refusal.EXIT_STUDY_FAILED


def follow(
    read: Callable[[], dict[str, Any]],
    *,
    name: str,
    progression: terminal.Progression,
    retry: tuple[type[Exception], ...],
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
) -> GpuBenchmarkStatus:
    """The status at the end. What changes on the way is told to the progression."""
    told = _Told(progression, began=now())
    while True:
        found = read_patiently(read, retry=retry, sleep=sleep, now=now, tell=progression.line)
        status = export.read_status(found.get("status"), name=name)
        told.tell(status, now=now())
        if conditions.holds(status.conditions, conditions.FINISHED):
            return status
        sleep(POLL_SECONDS)


def read_patiently(
    read: Callable[[], dict[str, Any]],
    *,
    retry: tuple[type[Exception], ...],
    sleep: Callable[[float], None] = time.sleep,
    now: Callable[[], float] = time.monotonic,
    tell: Callable[[str], None] = terminal.tell,
) -> dict[str, Any]:
    """The object; an error of a kind in `retry` is told once and tried again until the patience is at its end."""
    began = now()
    told = False
    while True:
        try:
            return read()
        except retry as error:
            if now() - began > PATIENCE_SECONDS:
                raise
            if not told:
                tell(f"{error}; trying again")
                told = True
            sleep(POLL_SECONDS)


class _Told:
    """What has been told already, so that each thing is told once."""

    def __init__(self, progression: terminal.Progression, *, began: float) -> None:
        self._progression = progression
        self._began = began
        self._ended: set[int] = set()
        self._trials = 0
        self._pending: str | None = None
        self._waiting = False

    def tell(self, status: GpuBenchmarkStatus, *, now: float) -> None:
        self._progression.progressed(status, None)
        self._tell_waiting(status, now=now)
        self._tell_trials(status)
        self._tell_points(status)
        self._tell_pending(status)

    def _tell_waiting(self, status: GpuBenchmarkStatus, *, now: float) -> None:
        if status.phase is None and not self._waiting and now - self._began > STATUS_DUE_SECONDS:
            self._waiting = True
            self._progression.line("it has no status yet: is gpubench's operator running?")

    def _tell_trials(self, status: GpuBenchmarkStatus) -> None:
        if status.trials is not None and status.trials.finished > self._trials:
            self._trials = status.trials.finished
            self._progression.line(f"{self._trials} of {text.trials(status.trials)} trials have finished")

    def _tell_points(self, status: GpuBenchmarkStatus) -> None:
        for index, point in enumerate(status.results):
            if point.state not in _OPEN and index not in self._ended:
                self._ended.add(index)
                found = tables.headline(point) or point.reason
                self._progression.line(f"{point.state.value}: {tables.describe(point)}: {found}")

    def _tell_pending(self, status: GpuBenchmarkStatus) -> None:
        """Why nothing goes on, when that is something new."""
        condition = show.waits_for(status)
        pending = None if condition is None else condition.message
        if condition is not None and pending != self._pending:
            marks = {conditions.GANG_PENDING: "warning", conditions.ADMITTED: "queue"}
            mark = marks.get(condition.type, status.phase)
            self._progression.line(f"{mark}: {pending}")
        self._pending = pending
