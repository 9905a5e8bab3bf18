# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the launcher and its ranks: no TensorFlow, no Horovod, a result out of thin air after a moment.

The figures depend on the trial only, so that a result that is taken for another trial's, or counted twice, shows.
STAND_IN_SECONDS says how long an attempt takes; STAND_IN_EXIT_CODE makes it fail; STAND_IN_SLOW_NODE makes a node
slower by three tenths, and all figures alike but for that; a file beside the termination message makes it write half of
one. As in a real gang, pod 0 ends last.
"""

import contextlib
import os
import sys
import time
from pathlib import Path

from gpubench import names, records
from gpubench.plan.assignment import Assignment
from gpubench.records import Environment, Failure, Result, termination_message
from gpubench_jobs.launcher import barrier, config

TOGETHER_SECONDS = 300.0  # longer than any fault keeps a gang from being whole
TRUNCATE_MARK = "truncate-result"  # beside the termination message: a test's word to this one pod

#: Made up, too; its record opens the log of pod 0, as a launcher's does.
ENVIRONMENT = Environment(
    accelerator="stand-in",
    transport="none",
    framework="none",
    framework_version="none",
    collectives="none",
    collectives_version="none",
    python="3",
    kernel="none",
    threads_per_rank=1,
)


def rate(trial: str) -> int:
    """The made-up samples per second of each worker: between 1,000 and 1,999."""
    return 1000 + sum(trial.encode()) % 1000


def result(assignment: Assignment) -> Result:
    """The made-up result of a trial."""
    slow = os.environ.get("STAND_IN_SLOW_NODE")
    speed = rate(assignment.trial)
    if slow is not None:  # all nodes within a percent of each other, and one that is not
        speed = (700 if os.environ.get(names.ENV_NODE_NAME) == slow else 1000) + speed % 10
    return Result(
        trial=assignment.trial,
        attempt=assignment.attempt,
        workers=assignment.workers,
        steps=100,
        samples=speed * assignment.workers * 10,
        nanoseconds=10_000_000_000,
        windows=10,
        warm_up_windows=1,
        window_nanoseconds=(990_000_000, 1_000_000_000, 1_010_000_000),
        final_loss=0.5,
        weights_digest="0123456789abcdef",
        environment=ENVIRONMENT.key(),
        join_seconds=0.1,
        init_seconds=0.1,
    )


def main() -> int:
    """One pod of a gang."""
    assignment = Assignment.model_validate_json(os.environ[names.ENV_ASSIGNMENT])
    message = Path(os.environ[names.ENV_TERMINATION_MESSAGE])
    if os.environ[names.ENV_POD_INDEX] == "0":
        print("a library's own line")
        print(records.line(ENVIRONMENT), flush=True)
    time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0.3")))
    code = int(os.environ.get("STAND_IN_EXIT_CODE", "0"))
    if code:
        failure = Failure(
            trial=assignment.trial, attempt=assignment.attempt, exit_code=code, sentence="the stand-in was told to fail"
        )
        message.write_bytes(termination_message(failure))
        return code
    end_together(config.read(os.environ))
    if os.environ[names.ENV_POD_INDEX] == "0":
        text = termination_message(result(assignment))
        message.write_bytes(text[: len(text) // 2] if message.with_name(TRUNCATE_MARK).exists() else text)
    return code


def end_together(pod: config.PodConfig) -> None:
    """Pod 0 ends last, as a real one: with its end the Job controller deletes the pods that still run."""
    deadline = time.monotonic() + TOGETHER_SECONDS
    if pod.pod:
        gang = barrier.RemoteGang(
            host=pod.rendezvous_host,
            port=names.PORT_BARRIER,
            gang=pod.gang,
            pod=pod.pod,
            source=pod.gang_ip,
            token=pod.token,
        )
        while time.monotonic() < deadline:
            with contextlib.suppress(barrier.Unreachable, barrier.Refused):
                return gang.done()
            time.sleep(0.05)
        raise TimeoutError("pod 0 did not come")
    if pod.pods == 1:
        return None
    membership = barrier.Membership(gang=pod.gang, pods=pod.pods)
    barrier.Server(membership, address=pod.gang_ip, port=names.PORT_BARRIER, token=pod.token).start()
    while len(membership.state().done) < pod.pods - 1:
        if time.monotonic() > deadline:
            raise TimeoutError(f"only pods {membership.state().done} came")
        time.sleep(0.05)
    return time.sleep(float(os.environ.get("STAND_IN_STAYS_SECONDS", "0")))


if __name__ == "__main__":
    sys.exit(main())
