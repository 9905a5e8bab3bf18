# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a data set, as one sentence with the place: found when it is opened, or while samples stream.

What streams runs inside TensorFlow, where an assertion can only raise TensorFlow's own errors, wrapped in the names of
operations. Ours carry marks, by which `sentence_of` finds the sentence again.
"""

import re

import tensorflow as tf

from gpubench.exitcodes import ExitCode
from gpubench_jobs.failures import RankError

_BEGIN, _END = "[data unusable: ", " :data unusable]"
_MARKED = re.compile(re.escape(_BEGIN) + "(.*?)" + re.escape(_END), re.DOTALL)
#: What TensorFlow says of content whose file it does not know, and what we say of it.
_UNNAMED = {
    re.compile("(Could not parse example input)"): (
        "a record below {path} is no Example of TensorFlow: convert or copy the records again"
    ),
    re.compile(r"Key: ([^\s,]+?)\.[\s\S]*Can't parse serialized Example"): (
        "a record below {path} has none or several of {said}: convert or copy the records again"
    ),
    re.compile(r"corrupted record at (\d+)"): (
        "the record at byte {said} of a file below {path} has a wrong checksum: copy it again"
    ),
    re.compile(r"(Invalid (?:JPEG|PNG|BMP|GIF)(?: data|\.)[^\n\[\]{}]*|Unknown image file format)"): (
        "an image below {path} cannot be decoded ({said}): replace it"
    ),
}
_LINE_MAX = 500


def refusal(sentence: str) -> RankError:
    """No attempt at the same data would end otherwise."""
    return RankError(ExitCode.DATA_UNUSABLE, sentence)


def unless(condition: tf.Tensor, value: tf.Tensor, *sentence: str | tf.Tensor) -> tf.Tensor:
    """Inside a pipeline: the value, if the condition holds, else the sentence made of these parts.

    What is done with the value waits for the condition; a decoder would not wait for an assertion beside it.
    """
    texts = [part if isinstance(part, str) else _text(part) for part in sentence]
    asserted = tf.debugging.Assert(condition, [tf.strings.join([_BEGIN, *texts, _END])], summarize=1)
    with tf.control_dependencies([asserted] if asserted is not None else []):
        return tf.identity(value)


def sentence_of(error: BaseException, *, path: str | None) -> str | None:
    """The sentence about the data in an error of TensorFlow's; None where it speaks of something else."""
    if isinstance(error, UnicodeDecodeError) and isinstance(error.object, bytes):
        text = error.object.decode("utf-8", "replace")  # TensorFlow's message had the bytes of a broken file in it
    elif isinstance(error, tf.errors.OpError):
        text = str(error)
    else:
        return None
    if marked := _MARKED.search(text):
        return marked.group(1)
    for pattern, sentence in _UNNAMED.items():
        if said := pattern.search(text):
            return sentence.format(path=path, said=said.group(1).strip())
    read = (
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.DataLossError,
        tf.errors.OutOfRangeError,
    )
    if path is not None and path in text and isinstance(error, read):
        line = text[text.index(path) :].splitlines()[0]  # before it stand TensorFlow's names of operations
        return f"a file of the data set went away or changed: {line[:_LINE_MAX]}"
    return None


def _text(part: tf.Tensor) -> tf.Tensor:
    return part if part.dtype == tf.string else tf.strings.as_string(part)
