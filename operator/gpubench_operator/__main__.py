# SPDX-License-Identifier: Apache-2.0
"""The operator: settings, logs, client, server, Lease, then watches and reconciles until a signal comes.

Exit codes: 0 after a signal, 1 when the Lease was lost or something that should not fail did, 2 for a bad setting.
"""

import asyncio
import sys

from gpubench_operator import logs, process, settings


def main() -> int:
    """Run until a signal comes; the exit code."""
    try:
        options = settings.load()
    except settings.BadSetting as error:
        sys.stderr.write(f"gpubench_operator: {error}\n")  # logs are not set up yet
        return 2
    logs.configure(style=options.log_format, level=options.log_level)
    return asyncio.run(process.run(options))


if __name__ == "__main__":
    sys.exit(main())
