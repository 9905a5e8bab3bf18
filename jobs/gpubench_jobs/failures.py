# SPDX-License-Identifier: Apache-2.0
"""From any exception of a rank to an exit code and one message that a person can act on.

Nothing is imported here to look at an exception: a library that cannot be loaded may be what raised it.
"""

import errno
import os
import re
import sys
from collections.abc import Iterator

from gpubench.api.sweep import Variant
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.records import COLOURS
from gpubench.workloads import Precision
from gpubench_jobs.worker import nvidia

_TEXT_MAX = 300
#: Beginnings of lines after which TensorFlow and Keras say what they mean.
_SAY_NOTHING = (
    "Graph execution error",
    "Exception encountered when calling",
    "Detected at node",
    "<stack traces unavailable>",
)
#: Where several operations failed, TensorFlow numbers them: two root error(s), then `(0) INVALID_ARGUMENT:  message`.
_ROOTS = re.compile(r"\d+ root error\(s\) found")
#: What it puts before a message: that number, the name of a node.
_BEFORE = re.compile(r"(\(\d+\) [A-Z_]+: +|\{\{function_node \S*\}\} )+")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
#: In TensorFlow's messages for what XLA cannot compile (2.21).
_WORDS_OF_XLA = (
    "tf2xla conversion failed",
    "XLA compilation",
    "XLA_CPU_JIT",
    "XLA_GPU_JIT",
    "must be a compile-time constant",
)


class RankError(Exception):
    """The code and the message are final: the launcher passes them on as they are."""

    def __init__(self, exit_code: ExitCode, sentence: str) -> None:
        self.exit_code = exit_code
        self.sentence = " ".join(line.strip() for line in sentence.splitlines())
        super().__init__(self.sentence)


class LossNotFinite(Exception):
    """What a loss was, and where. What to do about it depends on the assignment, which a loop does not know."""


def explain(error: BaseException, assignment: Assignment) -> RankError:
    if isinstance(error, RankError):
        return error
    return next(_causes(error, assignment), RankError(ExitCode.WORKER_RAISED, said(error)))


def _causes(error: BaseException, assignment: Assignment) -> Iterator[RankError]:
    """The first that fits is the cause."""
    if isinstance(error, ImportError):
        sentence = f"a library of the image cannot be loaded: {said(error)}: use an image that has it"
        if assignment.gpu and nvidia.LIBRARY in str(error):  # which is none of the image's
            sentence = nvidia.no_driver(nvidia.find_driver(0)) or sentence
        yield RankError(ExitCode.UNSUPPORTED_ACCELERATOR if assignment.gpu else ExitCode.WORKER_RAISED, sentence)
    # Before all that reads files, and before memory: TensorFlow calls a full disk an exhausted resource, too.
    if no_room(error):
        yield RankError(ExitCode.DISK_FULL, room_wanted(error))
    data_files = sys.modules.get("gpubench_jobs.data.files")
    if data_files is not None and (sentence := data_files.sentence_of(error, path=assignment.data.path)):
        yield RankError(ExitCode.DATA_UNUSABLE, sentence)
    if isinstance(error, LossNotFinite):
        yield RankError(ExitCode.LOSS_NOT_FINITE, f"{error}: {', or '.join(_remedies_of_a_loss(assignment))}")
    # Absent while a failed import is under way.
    exhausted = getattr(getattr(sys.modules.get("tensorflow"), "errors", None), "ResourceExhaustedError", ())
    if isinstance(error, (MemoryError, exhausted)):
        yield RankError(
            ExitCode.OUT_OF_MEMORY,
            f"{assignment.workload} with a batch of {assignment.batch_per_worker} per worker in {assignment.precision} "
            "does not fit the memory of the device: lower the batch",
        )
    # "Connection reset by peer", "Timed out waiting", "Horovod has been shut down": reported as HorovodInternalError or
    # as UnknownError of the operation. Other operations raise that, too, so the name must be in it.
    exceptions = sys.modules.get("horovod.common.exceptions")
    lost = exceptions is not None and isinstance(error, exceptions.HorovodInternalError)
    if lost or (type(error).__name__ == "UnknownError" and "horovod" in str(error).lower()):
        yield RankError(
            ExitCode.PEER_LOST,
            f"a rank of another pod went away: see that pod's message. Here: {said(error).split('. ')[0]}",
        )
    # An operation or a shape that XLA refused; other errors of a compiled step are as they would be without it.
    if assignment.variant and assignment.variant.xla and any(word in str(error) for word in _WORDS_OF_XLA):
        yield RankError(
            ExitCode.BAD_ASSIGNMENT,
            f"XLA cannot compile {assignment.workload} here: leave xla out of the variant: {said(error)}",
        )
    own = sys.modules.get("gpubench_jobs.custom")  # loaded with every other part of a rank
    # Wherever it was raised: in a step, in a function that the file handed to Keras, in its pipeline.
    if own and assignment.custom_file is not None and (blamed := own.blame(error, file=assignment.custom_file)):
        yield blamed


def _remedies_of_a_loss(assignment: Assignment) -> list[str]:
    """Settings that the benchmark has made, and that can make a loss overflow."""
    variant, remedies = assignment.variant or Variant(name="none"), []
    if assignment.custom_file is not None:
        remedies.append(f"lower the learning rate in {assignment.custom_file}")
    if variant.learning_rate_scaling != "None" and assignment.workers > 1:
        was = variant.learning_rate_scaling
        remedies.append(f"set learningRateScaling of variant {variant.name} to None (it is {was})")
    if assignment.precision is Precision.MIXED_FLOAT16:
        remedies.append("choose a precision with a larger range than mixed_float16")
    if variant.communication.compression != "None":
        remedies.append(f"set communication.compression of variant {variant.name} to None")
    # Else it is float32 at the workload's own learning rate.
    return remedies or [f"the learning rate of {assignment.workload} may not suit this batch: choose another batch"]


def said(error: BaseException) -> str:
    """`Class: message` in one line; TensorFlow's messages go on for pages, some with a traceback around it."""
    name = type(error).__name__
    if (lines := _without_places(str(error))) and lines[0].startswith("in user code"):
        first = next((n for n, line in enumerate(lines) if line.startswith(f"{name}: ")), len(lines) - 1)
        lines = [lines[first].removeprefix(f"{name}: "), *lines[first + 1 :]]
    meant = next((line for line in lines if not line.startswith(_SAY_NOTHING) and not _ROOTS.match(line)), "no message")
    text = f"{name}: {_BEFORE.sub('', meant, count=1)}"
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _without_places(text: str) -> list[str]:
    """The lines of a message without colours, without the places of a traceback in it, and without their code."""
    kept, below_place = list[str](), False
    for raw in COLOURS.sub("", text).splitlines():
        line = raw.strip()
        code = below_place and raw.startswith(" " * 4)  # code is indented below the place it is from
        below_place = line.startswith('File "') or code
        if line and not below_place:
            kept.append(line)
    return kept


def no_room(error: BaseException) -> bool:
    """Whether it says that a disk is full, or a quota on it used up; TensorFlow has the system's words in its own."""
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return True
    return any(os.strerror(number) in str(error) for number in _NO_ROOM)


def room_wanted(error: BaseException) -> str:
    return f"there is no room on a disk: {said(error)}: free some there, or give that volume more"
