# SPDX-License-Identifier: Apache-2.0
"""From any exception of a rank to an exit code and one sentence that a person can act on.

Nothing is imported here to look at an exception: a library that cannot be loaded may be what raised it.
"""

import itertools
import sys
from collections.abc import Iterator

from gpubench.api.sweep import Variant
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
    found = itertools.chain(_of_the_image_and_its_files(error, assignment), _of_the_run(error, assignment))
    return next(found, RankError(ExitCode.WORKER_RAISED, said(error)))


def _of_the_image_and_its_files(error: BaseException, assignment: assignments.Assignment) -> Iterator[RankError]:
    """The first that fits is the cause."""
    if isinstance(error, ImportError):
        sentence = f"a library of the image cannot be loaded: {said(error)}: use an image that has it"
        if assignment.gpu and nvidia.LIBRARY in str(error):  # which is none of the image's
            sentence = nvidia.no_driver(nvidia.find_driver(0)) or sentence
        code = ExitCode.UNSUPPORTED_ACCELERATOR if assignment.gpu else ExitCode.WORKER_RAISED
        yield RankError(code, sentence)
    # Before all that reads files, and before memory: TensorFlow calls a full disk an exhausted resource, too.
    if no_room(error):
        yield RankError(ExitCode.DISK_FULL, room_wanted(error))
    data_files = sys.modules.get("gpubench_jobs.data.files")
    if data_files is not None and (sentence := data_files.sentence_of(error, path=assignment.data.path)):
        yield RankError(ExitCode.DATA_UNUSABLE, sentence)


def _of_the_run(error: BaseException, assignment: assignments.Assignment) -> Iterator[RankError]:
    if isinstance(error, LossNotFinite):
        remedies = ", or ".join(_remedies_of_a_loss(assignment))
        yield RankError(ExitCode.LOSS_NOT_FINITE, f"{error}: {remedies}")
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
    variant = assignment.variant or Variant(name="none")
    if variant.xla and any(word in str(error) for word in _WORDS_OF_XLA):
        yield RankError(
            ExitCode.BAD_ASSIGNMENT,
            f"XLA cannot compile {assignment.workload} here: leave xla out of the variant: {said(error)}",
        )
    own = sys.modules.get("gpubench_jobs.custom")  # loaded with every other part of a rank
    # Wherever it was raised: in a step, in a function that the file handed to Keras, in its pipeline.
    if own and assignment.custom_file is not None and (blamed := own.blame(error, file=assignment.custom_file)):
        yield blamed


def _remedies_of_a_loss(assignment: assignments.Assignment) -> Iterator[str]:
    """Settings that the benchmark has made, and that can make a loss overflow."""
    variant, half = assignment.variant or Variant(name="none"), assignment.precision is Precision.MIXED_FLOAT16
    scaled = variant.learning_rate_scaling != "None" and assignment.workers > 1
    compressed = variant.communication.compression != "None"
    if assignment.custom_file is not None:
        yield f"lower the learning rate in {assignment.custom_file}"
    if scaled:
        yield f"set learningRateScaling of variant {variant.name} to None (it is {variant.learning_rate_scaling})"
    if half:
        yield "choose a precision with a larger range than mixed_float16"
    if compressed:
        yield f"set communication.compression of variant {variant.name} to None"
    if not (assignment.custom_file or scaled or half or compressed):  # float32 at the workload's own learning rate
        yield f"the learning rate of {assignment.workload} may not suit this batch: choose another batch"
