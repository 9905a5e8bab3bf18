# SPDX-License-Identifier: Apache-2.0
"""The operator as it is, but for its clock, which stands still at what a file says.

Everything else is `python -m gpubench_operator`. What may not happen here: a second thing that differs from it.
"""

import asyncio
import os
import sys
from pathlib import Path

from gpubench_operator import main as operator
from gpubench_operator import settings

CLOCK_FILE = "CHAOS_STILL_CLOCK"  # not GPUBENCH_: the operator knows no such setting


def main() -> int:
    """Run until a signal comes; the exit code."""
    options = settings.load()
    operator.configure_logs(style=options.log_format, level=options.log_level)
    path = Path(os.environ[CLOCK_FILE])
    return asyncio.run(operator.run(options, clock=lambda: float(path.read_text(encoding="ascii"))))


if __name__ == "__main__":
    sys.exit(main())
