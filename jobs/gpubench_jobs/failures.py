# SPDX-License-Identifier: Apache-2.0
"""The exception of a rank that knows what is wrong, and the words of those that do not."""

import errno
import os
import re

from gpubench.exitcodes import ExitCode
from gpubench.records import COLOURS

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


class RankError(Exception):
    """The code and the sentence are final: the launcher passes them on as they are."""

    def __init__(self, exit_code: ExitCode, sentence: str) -> None:
        self.exit_code = exit_code
        self.sentence = " ".join(line.strip() for line in sentence.splitlines())
        super().__init__(self.sentence)


class LossNotFinite(Exception):
    """What a loss was, and where. What to do about it depends on the assignment, which a loop does not know."""


def said(error: BaseException) -> str:
    """What an exception says, as `Class: message` in one line; TensorFlow's messages go on for pages.

    One from inside a traced function has a traceback for its message, with the original one in it.
    """
    name = type(error).__name__
    lines = _without_places(str(error))
    if lines and lines[0].startswith("in user code"):
        first = next((n for n, line in enumerate(lines) if line.startswith(f"{name}: ")), len(lines) - 1)
        lines = [lines[first].removeprefix(f"{name}: "), *lines[first + 1 :]]
    meaning = (line for line in lines if not line.startswith(_SAY_NOTHING) and _ROOTS.match(line) is None)
    meant = next(meaning, "no message")
    text = f"{name}: {_BEFORE.sub('', meant, count=1)}"
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"


def _without_places(text: str) -> list[str]:
    """The lines of a message without colours, without the places of a traceback in it, and without their code."""
    kept, below_place = list[str](), False
    for coloured in text.splitlines():
        raw = COLOURS.sub("", coloured)
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
    """What to do about it."""
    return f"there is no room on a disk: {said(error)}: free some there, or give that volume more"
