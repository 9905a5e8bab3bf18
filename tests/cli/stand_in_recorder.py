# SPDX-License-Identifier: Apache-2.0
"""Stands in for a pod's launcher and writes what one writes: a log with records that fit its result. It trains nothing.

Its first argument says which attempts fail: those of a number up to it, or none.
"""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from gpubench import names, records
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.records import Environment, Failure, Result, Window
from gpubench.stats import gang
from gpubench.values import FrozenModel

ENVIRONMENT = Environment(
    accelerator="cpu", transport="gloo", framework="TensorFlow", framework_version="2.18.1", collectives="Horovod",
    collectives_version="0.28.1", python="3.11", front_end="Keras 3.11.3",
    kernel="Linux", threads_per_rank=1,
)  # fmt: skip
STEPS, NANOSECONDS = 20, 1_000_000_000
WHOLE = "whole"  # a pod's file: its log is
PATIENCE_SECONDS = 60.0


def main(failing: int) -> int:
    assignment = Assignment.model_validate_json(os.environ[names.ENV_ASSIGNMENT])
    index = int(os.environ[names.ENV_POD_INDEX])
    write(ENVIRONMENT)
    ranks = [windows(rank, assignment.seed) for rank in range(assignment.workers)]
    for window in ranks[index]:  # one rank in each pod
        write(window)
    if assignment.attempt <= failing:
        failure = Failure(
            trial=assignment.trial, attempt=assignment.attempt, exit_code=ExitCode.WORKER_RAISED, sentence="not now"
        )
        code = close(failure, ExitCode.WORKER_RAISED)
        Path(WHOLE).touch()
        wait_for(range(assignment.workers))  # the first one to end has the others ended
        return code
    if index != 0:
        Path(WHOLE).touch()
        return 0
    wait_for(range(1, assignment.workers))
    computed = gang.computed(ranks, batch_per_worker=assignment.batch_per_worker)
    result = Result(
        trial=assignment.trial, attempt=assignment.attempt, final_loss=0.5,
        weights_digest="d", environment=ENVIRONMENT.key(), join_seconds=0.1, init_seconds=0.1, **dict(computed),
    )  # fmt: skip
    return close(result, 0)


def windows(rank: int, seed: int) -> list[Window]:
    """The first one warms up; the others scatter a little, and each repeat has a speed of its own."""
    return [
        Window(
            rank=rank, index=index, steps=STEPS, warm_up=index == 0,
            nanoseconds=NANOSECONDS + 1_000_000 * (index * 7 % 5) + 100_000 * (seed % 17),
        )
        for index in range(9)
    ]  # fmt: skip


def wait_for(pods: Iterable[int]) -> None:
    """Until the logs of these pods are whole. Pod 0 ends last, as in a real gang: the others are ended with it."""
    here = Path.cwd()
    job = here.name.rpartition("-")[0]
    until = time.monotonic() + PATIENCE_SECONDS
    while not all((here.with_name(f"{job}-{index}") / WHOLE).exists() for index in pods):
        if time.monotonic() > until:
            raise TimeoutError(f"a pod of {job} wrote nothing for {PATIENCE_SECONDS:.0f} s")
        time.sleep(0.01)


def write(record: FrozenModel) -> None:
    print(records.line(record), flush=True)


def close(ending: Result | Failure, code: int) -> int:
    write(ending)
    Path(os.environ[names.ENV_TERMINATION_MESSAGE]).write_bytes(records.termination_message(ending))
    return code


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
