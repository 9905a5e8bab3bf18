# SPDX-License-Identifier: Apache-2.0
"""From an exception of a rank to an exit code and one sentence that a person can act on."""

from gpubench.exitcodes import ExitCode
from gpubench.plan import assignment as assignments

_TEXT_MAX = 300


class RankError(Exception):
    """A rank knows what is wrong: the code and the sentence are final."""

    def __init__(self, exit_code: ExitCode, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence


def explain(error: BaseException, assignment: assignments.Assignment) -> RankError:
    """What the launcher is told. TensorFlow is loaded by now, or the import of it is what failed."""
    if isinstance(error, RankError):
        return error
    if isinstance(error, ImportError):
        return RankError(
            ExitCode.UNSUPPORTED_ACCELERATOR if assignment.gpu else ExitCode.WORKER_RAISED,
            f"a library of the image cannot be loaded: {_text(error)}",
        )
    if _out_of_memory(error):
        return RankError(
            ExitCode.OUT_OF_MEMORY,
            f"{assignment.workload} with {assignment.batch_per_worker} samples per worker in {assignment.precision} "
            "does not fit the memory of the device: lower the batch",
        )
    if _peer_loss(error):
        return RankError(ExitCode.PEER_LOST, f"a rank of another process went away: {_text(error)}")
    return RankError(ExitCode.WORKER_RAISED, f"{type(error).__name__}: {_text(error)}")


def _out_of_memory(error: BaseException) -> bool:
    import tensorflow as tf

    return isinstance(error, MemoryError | tf.errors.ResourceExhaustedError)


def _peer_loss(error: BaseException) -> bool:
    from gpubench_jobs import distribution

    return distribution.is_peer_loss(error)


def _text(error: BaseException) -> str:
    """The first line that says something; TensorFlow's messages go on for pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = next((line for line in lines if not line.startswith("Graph execution error")), "no message")
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
