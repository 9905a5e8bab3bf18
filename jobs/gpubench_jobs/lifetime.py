# SPDX-License-Identifier: Apache-2.0
"""A process that must not outlive the one that started it, however that one ends: not even SIGKILL leaves it behind.

Linux only: prctl(2), PR_SET_PDEATHSIG. The kernel means the thread that has started the process.
"""

import ctypes
import os
import signal

from gpubench.exitcodes import ExitCode

_PR_SET_PDEATHSIG = 1


def die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent dies: it may be killed where it cannot stop its children."""
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:  # it died before the kernel was asked
        os._exit(ExitCode.PEER_LOST)
