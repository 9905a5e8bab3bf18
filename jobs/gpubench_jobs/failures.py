# SPDX-License-Identifier: Apache-2.0
"""The exception of a rank that knows what is wrong, and the words of those that do not."""

import re

from gpubench.exitcodes import ExitCode

_TEXT_MAX = 300
#: Beginnings of lines after which TensorFlow and Keras say what they mean.
_SAY_NOTHING = ("Graph execution error", "Exception encountered when calling")
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class RankError(Exception):
    """The code and the sentence are final: the launcher passes them on as they are."""

    def __init__(self, exit_code: ExitCode, sentence: str) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code
        self.sentence = sentence


def said(error: BaseException) -> str:
    """What an exception says, as `Class: message` in one line; TensorFlow's messages go on for pages.

    One from inside a traced function has a traceback for its message, with the original one in it.
    """
    name = type(error).__name__
    lines = [line for raw in str(error).splitlines() if (line := _COLOURS.sub("", raw).strip())]
    if lines and lines[0].startswith("in user code"):
        first = next((n for n, line in enumerate(lines) if line.startswith(f"{name}: ")), len(lines) - 1)
        lines = [lines[first].removeprefix(f"{name}: "), *lines[first + 1 :]]
    kept = [line for line in lines if not line.startswith(_SAY_NOTHING)]
    text = f"{name}: {kept[0] if kept else 'no message'}"
    return text if len(text) <= _TEXT_MAX else text[: _TEXT_MAX - 1] + "…"
