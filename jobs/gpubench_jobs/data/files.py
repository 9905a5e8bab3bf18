# SPDX-License-Identifier: Apache-2.0
"""Files of a data set. Whatever is wrong with one becomes one message with its path.

It is found when the set is opened, or while samples stream. What streams runs inside TensorFlow, where an assertion can
only raise TensorFlow's own errors, wrapped in the names of operations. Ours carry marks, by which `sentence_of` finds
the message again.
"""

import gzip
import re
import zlib
from pathlib import Path

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


def folder(path: str) -> Path:
    found = Path(path)
    if not found.is_dir():
        raise unusable(
            f"data.path: {path} is no folder in this pod: mount the volume there, or give the path below its mountPath"
        )
    return found


def below(path: Path, *names: str) -> Path:
    """The folder itself, or the one of these names in it: archives unpack into a folder of their own."""
    return next((path / name for name in names if (path / name).is_dir()), path)


def content(path: Path) -> bytes:
    """All of a file, or of the same one compressed by gzip beside it or in its place."""
    compressed = path.with_name(path.name + ".gz")
    if (present := next((file for file in (path, compressed) if file.exists()), None)) is None:
        raise unusable(f"{path} is missing (or {compressed.name}): copy the complete data set there")
    try:
        found = present.read_bytes()
        if present == path and found.startswith(b"\x1f\x8b"):
            raise unusable(f"{path} is compressed by gzip: rename it to {compressed.name}, or decompress it")
        return gzip.decompress(found) if present == compressed else found
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise unusable(f"{present} is cut, or no gzip file ({error}): copy it again") from error
    except OSError as error:
        raise unusable(f"{present} cannot be read ({error.strerror})") from error


def text(path: Path) -> str:
    """All of a text file, as UTF-8, each end of a line as one character."""
    try:
        decoded = content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise unusable(f"{path} is no text in UTF-8 (byte {error.start}): copy it again without conversion") from error
    return decoded.replace("\r\n", "\n").replace("\r", "\n")


def entries(path: Path) -> list[Path]:
    """What lies in a folder, by name, without what systems put there: hidden files and folders, lost+found."""
    return sorted(entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name != "lost+found")


def matching(path: Path, pattern: str, *, what: str) -> list[Path]:
    """The files of a pattern in the order of their names; there must be some."""
    found = [entry for entry in entries(path) if entry.match(pattern)] if path.is_dir() else []
    if not found:
        raise unusable(f"{path} holds no {what} ({pattern}): copy the complete data set there")
    return found


def unusable(sentence: str) -> RankError:
    """No attempt at the same data would end otherwise."""
    return RankError(ExitCode.DATA_UNUSABLE, sentence)


def unless(condition: tf.Tensor, value: tf.Tensor, *sentence: str | tf.Tensor) -> tf.Tensor:
    """Inside a pipeline: the value, whose users wait for the condition; else an error of these parts, joined."""
    said = tf.strings.join([_BEGIN, *map(tf.strings.as_string, sentence), _END])
    asserted = tf.debugging.Assert(condition, [said], summarize=1)
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
        return f"a file of the data set went away or changed: {line[:500]}"
    return None
