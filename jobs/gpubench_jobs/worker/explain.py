# SPDX-License-Identifier: Apache-2.0
"""From any exception of a rank to an exit code and one sentence that a person can act on.

Nothing is imported here to look at an exception: a library that cannot be loaded may be what raised it.
"""

import sys

from gpubench.exitcodes import ExitCode
from gpubench.plan import assignment as assignments
from gpubench.workloads import Precision
from gpubench_jobs.failures import LossNotFinite, RankError, no_room, room_wanted, said
from gpubench_jobs.worker import nvidia

#: In its messages for what it cannot compile (TensorFlow 2.21).
_WORDS_OF_XLA = (
    "tf2xla conversion failed",
    "XLA compilation",
    "XLA_CPU_JIT",
    "XLA_GPU_JIT",
    "must be a compile-time constant",
)


def explain(error: BaseException, assignment: assignments.Assignment) -> RankError:
    """What the launcher is told."""
    if isinstance(error, RankError):
        return error
    explained = filter(None, (rule(error, assignment) for rule in _RULES))
    return next(explained, RankError(ExitCode.WORKER_RAISED, said(error)))


def _import(error: BaseException, assignment: assignments.Assignment) -> RankError | None:
    if not isinstance(error, ImportError):
        return None
    sentence = f"a library of the image cannot be loaded: {said(error)}: use an image that has it"
    if not assignment.gpu:
        return RankError(ExitCode.WORKER_RAISED, sentence)
    if nvidia.LIBRARY in str(error):  # which is none of the image's
        sentence = nvidia.no_driver(nvidia.find_driver(0)) or sentence
    return RankError(ExitCode.UNSUPPORTED_ACCELERATOR, sentence)


def _disk(error: BaseException, _: assignments.Assignment) -> RankError | None:
    """Before all that reads files, and before memory: TensorFlow calls a full disk an exhausted resource, too."""
    return RankError(ExitCode.DISK_FULL, room_wanted(error)) if no_room(error) else None


def _data(error: BaseException, assignment: assignments.Assignment) -> RankError | None:
    unusable = sys.modules.get("gpubench_jobs.data.files")
    sentence = unusable.sentence_of(error, path=assignment.data.path) if unusable is not None else None
    return RankError(ExitCode.DATA_UNUSABLE, sentence) if sentence else None


def _memory(error: BaseException, assignment: assignments.Assignment) -> RankError | None:
    # Absent while a failed import is under way.
    exhausted = getattr(getattr(sys.modules.get("tensorflow"), "errors", None), "ResourceExhaustedError", ())
    if not isinstance(error, (MemoryError, exhausted)):
        return None
    return RankError(
        ExitCode.OUT_OF_MEMORY,
        f"{assignment.workload} with a batch of {assignment.batch_per_worker} per worker in {assignment.precision} "
        "does not fit the memory of the device: lower the batch",
    )


def _loss(error: BaseException, assignment: assignments.Assignment) -> RankError | None:
    """With those settings as remedies that the benchmark has made, and that can make a loss overflow."""
    if not isinstance(error, LossNotFinite):
        return None
    variant, remedies = assignment.variant, list[str]()
    if assignment.custom_file is not None:
        remedies.append(f"lower the learning rate in {assignment.custom_file}")
    if variant is not None and variant.learning_rate_scaling != "None" and assignment.workers > 1:
        remedies.append(
            f"set learningRateScaling of variant {variant.name} to None (it is {variant.learning_rate_scaling})"
        )
    if assignment.precision is Precision.MIXED_FLOAT16:
        remedies.append("choose a precision with a larger range than mixed_float16")
    if variant is not None and variant.communication.compression != "None":
        remedies.append(f"set communication.compression of variant {variant.name} to None")
    if not remedies:  # in float32 at the workload's own learning rate
        remedies.append(f"the learning rate of {assignment.workload} may not suit this batch: choose another batch")
    return RankError(ExitCode.LOSS_NOT_FINITE, f"{error}: {', or '.join(remedies)}")


def _peer(error: BaseException, _: assignments.Assignment) -> RankError | None:
    """Horovod reports it as UnknownError of the operation, or as HorovodInternalError.

    "Connection reset by peer", "Timed out waiting", "Horovod has been shut down"; other operations raise UnknownError,
    too, so the name must be in it.
    """
    exceptions = sys.modules.get("horovod.common.exceptions")
    lost = exceptions is not None and isinstance(error, exceptions.HorovodInternalError)
    if not lost and (type(error).__name__ != "UnknownError" or "horovod" not in str(error).lower()):
        return None
    return RankError(
        ExitCode.PEER_LOST,
        f"a rank of another pod went away: see that pod's message. Here: {said(error).split('. ')[0]}",
    )


def _xla(error: BaseException, assignment: assignments.Assignment) -> RankError | None:
    """An operation or a shape that XLA refused; other errors of a compiled step are as they would be without it."""
    asked = assignment.variant is not None and assignment.variant.xla
    if not (asked and any(word in str(error) for word in _WORDS_OF_XLA)):
        return None
    return RankError(
        ExitCode.BAD_ASSIGNMENT,
        f"XLA cannot compile {assignment.workload} here: leave xla out of the variant: {said(error)}",
    )


def _own_file(error: BaseException, assignment: assignments.Assignment) -> RankError | None:
    """Wherever it was raised: in a step, in a function that the file handed to Keras, in its pipeline."""
    own = sys.modules.get("gpubench_jobs.custom")  # loaded with every other part of a rank
    blamed: RankError | None = None
    if own is not None and assignment.custom_file is not None:
        blamed = own.blame(error, file=assignment.custom_file)
    return blamed


#: The first that knows the error explains it.
_RULES = (_import, _disk, _loss, _data, _memory, _peer, _xla, _own_file)
