# SPDX-License-Identifier: Apache-2.0
"""A whole program of one's own, as `custom.command` of a benchmark runs it: any language and library would do.

All that gpubench asks of it: read GPUBENCH_ASSIGNMENT, train, write one record and end with 0. This one fits a line by
gradient descent in plain Python, with one worker. A program with several reduces its gradients itself; its pods find
the first of them at GPUBENCH_RENDEZVOUS_HOST, and only that one writes a result.
"""

import json
import math
import os
import platform
import random
import sys
import time
from pathlib import Path

BAD_ASSIGNMENT, LOSS_NOT_FINITE = 64, 68  # how a pod may end: jobs/README.md
SLOPE, OFFSET = 3.0, -1.0
LEARNING_RATE = 0.05
STEPS_IN_A_WINDOW = 100


def main() -> int:
    """The exit code."""
    assignment = json.loads(os.environ["GPUBENCH_ASSIGNMENT"])
    if assignment["workers"] != 1:
        return fail(assignment, BAD_ASSIGNMENT, "this program trains with one worker: set workers to [1]")
    drawn, batch = random.Random(assignment["seed"]), assignment["batchPerWorker"]
    slope, offset, loss = 0.0, 0.0, 0.0
    windows: list[int] = []
    while len(windows) < 5 or sum(windows) < assignment["measureSeconds"] * 1e9:
        begun = time.monotonic_ns()
        for _ in range(STEPS_IN_A_WINDOW):
            inputs = [drawn.uniform(-1, 1) for _ in range(batch)]
            errors = [slope * x + offset - (SLOPE * x + OFFSET) for x in inputs]
            loss = sum(error * error for error in errors) / batch
            slope -= LEARNING_RATE * 2 * sum(error * x for error, x in zip(errors, inputs, strict=True)) / batch
            offset -= LEARNING_RATE * 2 * sum(errors) / batch
        windows.append(time.monotonic_ns() - begun)
    if not math.isfinite(loss):
        return fail(assignment, LOSS_NOT_FINITE, "the loss is not a number: lower LEARNING_RATE")
    steps = len(windows) * STEPS_IN_A_WINDOW
    ordered = sorted(windows)
    return close(
        {
            "kind": "result",
            "schemaVersion": 1,
            "trial": assignment["trial"],
            "attempt": assignment["attempt"],
            "workers": 1,
            "steps": steps,
            "samples": steps * batch,
            "nanoseconds": sum(windows),
            "windows": len(windows),
            "warmUpWindows": 0,
            "windowNanoseconds": [ordered[0], ordered[len(ordered) // 2], ordered[-1]],
            "finalLoss": loss,
            "weightsDigest": f"{slope:.6f} {offset:.6f}",
            # Figures with different texts here are never averaged: name what they depend on.
            "environment": f"python {platform.python_version()}",
            "joinSeconds": 0.0,
            "initSeconds": 0.0,
        }
    )


def fail(assignment: dict[str, object], code: int, sentence: str) -> int:
    """Say in one sentence what is wrong and what to do."""
    close(
        {
            "kind": "failure",
            "schemaVersion": 1,
            "trial": assignment["trial"],
            "attempt": assignment["attempt"],
            "exitCode": code,
            "sentence": sentence,
        }
    )
    return code


def close(record: dict[str, object]) -> int:
    """One line on standard output, and the same as the pod's termination message."""
    text = json.dumps(record)
    print(text, flush=True)  # noqa: T201  # records go to standard output
    Path(os.environ.get("GPUBENCH_TERMINATION_MESSAGE") or "/dev/termination-log").write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
