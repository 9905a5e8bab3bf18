# SPDX-License-Identifier: Apache-2.0
"""A program of a user's own that tells what it was started with, and writes the result that its trial has."""

import json
import os
import sys
from pathlib import Path

import stand_in_worker
from gpubench import names
from gpubench.measure.records import termination_message
from gpubench.plan.assignment import Assignment


def main() -> int:
    """One line with arguments and variables, then the result."""
    print(json.dumps({"arguments": sys.argv[1:], "variables": dict(os.environ)}), flush=True)
    assignment = Assignment.model_validate_json(os.environ[names.ENV_ASSIGNMENT])
    message = Path(os.environ[names.ENV_TERMINATION_MESSAGE])
    message.write_bytes(termination_message(stand_in_worker.result(assignment)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
