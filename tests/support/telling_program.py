# SPDX-License-Identifier: Apache-2.0
"""A program of a user's own that tells what it was started with, and writes the result that its trial has."""

import json
import os
import sys
from pathlib import Path

import stand_in_worker
from gpubench import names
from gpubench.plan.assignment import Assignment
from gpubench.records import termination_message


def main() -> int:
    """One line with arguments and variables, then the result."""
    print(json.dumps({"arguments": sys.argv[1:], "variables": dict(os.environ)}), flush=True)
    assignment = Assignment.model_validate_json(os.environ[names.ENV_ASSIGNMENT])
    message = Path(os.environ[names.ENV_TERMINATION_MESSAGE])
    result = stand_in_worker.result(assignment)
    # What a program of the user's own tells is held against its batch, and against how long its pod lived.
    samples = result.steps * assignment.batch_per_worker * assignment.workers
    fitting = {"samples": samples, "nanoseconds": 10**8, "window_nanoseconds": (10**7, 10**7, 10**7)}
    message.write_bytes(termination_message(result.model_copy(update=fitting)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
