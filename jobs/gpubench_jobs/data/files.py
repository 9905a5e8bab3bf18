# SPDX-License-Identifier: Apache-2.0
"""Files of a data set. Whatever is wrong with one becomes one sentence with its path."""

import gzip
import zlib
from pathlib import Path

from gpubench_jobs.data import unusable

_BROKEN_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
_GZIP = b"\x1f\x8b"
_LOST_AND_FOUND = "lost+found"  # at the root of every ext4 volume


def folder(path: str) -> Path:
    """The folder of a data set."""
    found = Path(path)
    if not found.is_dir():
        raise unusable.refusal(
            f"data.path: {path} is no folder in this pod: mount the volume there, or give the path below its mountPath"
        )
    return found


def below(path: Path, *names: str) -> Path:
    """The folder itself, or the one of these names in it: archives unpack into a folder of their own."""
    return next((path / name for name in names if (path / name).is_dir()), path)


def content(path: Path) -> bytes:
    """All of a file, or of the same one compressed by gzip beside it or in its place."""
    compressed = path.with_name(path.name + ".gz")
    present = next((file for file in (path, compressed) if file.exists()), None)
    if present is None:
        raise unusable.refusal(f"{path} is missing (or {compressed.name}): copy the complete data set there")
    try:
        found = present.read_bytes()
        if present == path and found.startswith(_GZIP):
            raise unusable.refusal(f"{path} is compressed by gzip: rename it to {compressed.name}, or decompress it")
        return gzip.decompress(found) if present == compressed else found
    except _BROKEN_GZIP as error:
        raise unusable.refusal(f"{present} is cut, or no gzip file ({error}): copy it again") from error
    except OSError as error:
        raise unusable.refusal(f"{present} cannot be read ({error.strerror})") from error


def text(path: Path) -> str:
    """All of a text file, as UTF-8, each end of a line as one character."""
    try:
        decoded = content(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise unusable.refusal(
            f"{path} is no text in UTF-8 (byte {error.start}): copy it again without conversion"
        ) from error
    return decoded.replace("\r\n", "\n").replace("\r", "\n")


def entries(path: Path) -> list[Path]:
    """What lies in a folder, by name, without what systems put there: hidden files and folders, lost+found."""
    return sorted(entry for entry in path.iterdir() if not entry.name.startswith(".") and entry.name != _LOST_AND_FOUND)


def matching(path: Path, pattern: str, *, what: str) -> list[Path]:
    """The files of a pattern in the order of their names; there must be some."""
    found = [entry for entry in entries(path) if entry.match(pattern)] if path.is_dir() else []
    if not found:
        raise unusable.refusal(f"{path} holds no {what} ({pattern}): copy the complete data set there")
    return found
