# SPDX-License-Identifier: Apache-2.0
"""The operator as it is, but for its event loop, which stands still while a file is there.

It reads its clock in the loop, and that is what waits here. Everything else is `python -m gpubench_operator`.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

from gpubench_operator import main as operator
from gpubench_operator import settings

BLOCK_FILE = "TEST_BLOCK_FILE"  # not GPUBENCH_: the operator knows no such setting


def blocking_clock(path: Path) -> float:
    while path.exists():
        time.sleep(0.05)
    return time.time()


def main() -> int:
    """Run until a signal comes; the exit code."""
    options = settings.load()
    operator.configure_logs(style=options.log_format, level=options.log_level)
    path = Path(os.environ[BLOCK_FILE])
    return asyncio.run(operator.run(options, clock=lambda: blocking_clock(path)))


if __name__ == "__main__":
    sys.exit(main())
