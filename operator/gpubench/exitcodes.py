# SPDX-License-Identifier: Apache-2.0
"""How a pod of a gang may end: the contract between the launcher and the operator.

The launcher exits with one of these, the Job's `podFailurePolicy` names the ones that no retry can mend (below 80), and
the operator turns the code into the reason of an attempt. They lie between 64 and 113: below are the codes of
interpreters and shells, 125 to 127 belong to container runtimes, and from 128 on a code means a signal.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """The end of a launcher or of a rank. The comment says who can mend it."""

    SUCCEEDED = 0
    BAD_ASSIGNMENT = 64  # the assignment cannot be read or names what this image does not know: nobody but the user
    UNSUPPORTED_ACCELERATOR = 65  # no GPU, driver or code for it, or a library that does not load: see its sentence
    OUT_OF_MEMORY = 66  # the batch does not fit the device (or the memory limit): a smaller batch
    SIZE_MISMATCH = 67  # Horovod came up with another number of ranks than assigned: a bug or a foreign environment
    LOSS_NOT_FINITE = 68  # the loss became NaN or infinite: another precision or learning rate
    DATA_UNUSABLE = 69  # files are missing, cut or not what the workload takes, or too few: other data or another batch
    CUSTOM_MODEL_FAILED = 70  # the user's own model file raised, or build() returned what it must not: its author
    WORKER_RAISED = 80  # a rank raised an exception that nothing above explains: perhaps a retry
    JOIN_TIMEOUT = 81  # not every pod came to the barrier in time: perhaps a retry
    PEER_LOST = 82  # a rank of another pod went away: look for the cause at that pod
    STALLED = 83  # a rank is alive and makes no progress: perhaps a retry
    TERMINATED = 84  # told to stop (SIGTERM): see its conditions; or a later attempt has its place
    RESULT_NOT_WRITTEN = 85  # the termination message could not be written: perhaps a retry
    DISK_FULL = 86  # no room for the termination message, the log or scratch files: perhaps a retry, on another node


#: A retry of the same trial on the same pool would end the same way.
DO_NOT_RETRY = frozenset(code for code in ExitCode if 64 <= code < 80)


def named(code: int) -> ExitCode | None:
    """The member for a process's exit code, or None for a code that is not ours (134, 137, 143, ...)."""
    return ExitCode(code) if code in set(ExitCode) else None
