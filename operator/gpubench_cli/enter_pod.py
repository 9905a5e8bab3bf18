# SPDX-License-Identifier: Apache-2.0
"""The first moments of a local pod's process: pinned, bound to its parent's life, then replaced by the pod's program.

    python -I -S enter_pod.py PARENT_PID CORES COMMAND...

Runs by its path and imports the standard library only, for every millisecond here delays a pod. It stands between
because the code that must run between fork and exec is not safe in a program with threads. The death signal survives
exec: when the command line dies, however it dies, the kernel kills the pod, and the pod's ranks with it in turn.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Does not return."""
    parent, cores, *command = arguments
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit(1)  # it died before the kernel knew of the bond
    os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    os.execvp(command[0], command)  # noqa: S606  # no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
