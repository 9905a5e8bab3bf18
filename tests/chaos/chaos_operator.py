# SPDX-License-Identifier: Apache-2.0
"""The operator as it is, but for two things: its clock, and when a ConfigMap of its ledger is full.

The clock is as far ahead as a file says, and a file that is not there says 0. A ConfigMap is full after a few attempts,
where it would take hundreds.

Everything else is `python -m gpubench_operator`: settings, logs, Lease, watches. What may not happen here: a third
thing that differs from it.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from gpubench.scheduler import ledger
from gpubench_operator import main as operator
from gpubench_operator import settings

OFFSET_FILE = "CHAOS_CLOCK_OFFSET"  # not GPUBENCH_: the operator knows no such setting


class SteppedClock:
    """Seconds since the epoch, stepped by the number in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self) -> float:
        try:
            return time.time() + float(self._path.read_text(encoding="ascii"))
        except (FileNotFoundError, ValueError):  # not there, or just being written
            return time.time()


def main() -> int:
    """Run until a signal comes; the exit code."""
    ledger.SHARD_BYTES_MAX = 24 * 1024  # an attempt that runs keeps 8 of it
    options = settings.load()
    operator.configure_logs(style=options.log_format, level=options.log_level)
    return asyncio.run(operator.run(options, clock=SteppedClock(Path(os.environ[OFFSET_FILE]))))


if __name__ == "__main__":
    sys.exit(main())
