# SPDX-License-Identifier: Apache-2.0
"""What a command shows on a terminal of so many columns: that of a fork, whose streams are a pseudo-terminal."""

import contextlib
import fcntl
import os
import pty
import re
import struct
import sys
import termios
import traceback
from collections.abc import Callable

from rich.cells import cell_len

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")  # and how a bar is drawn once more
_BAR = "━"
_NOW = re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z")
_LINES = 24
WIDTHS = (60, 80, 100, 120, 200)


def shown(call: Callable[[], object], *, columns: int) -> str:
    """Standard output and error, without colours, a bar in each of its states; what is returned is not looked at."""
    child, master = pty.fork()
    if child == 0:
        _in_child(call, columns)
    written = b""
    with contextlib.suppress(OSError):  # EIO: the other end is closed
        while chunk := os.read(master, 1 << 16):
            written += chunk
    os.close(master)
    text = _COLOUR.sub("", written.decode()).replace("\r\n", "\n").replace("\r", "\n")
    assert os.waitpid(child, 0)[1] == 0, text
    return text


def words_of(text: str) -> set[str]:
    """Everything that has a digit in it, without what may stand around it."""
    return {word.strip(".,;:()") for word in re.findall(r"\S*\d\S*", _NOW.sub("", text))}


def judge(call: Callable[[], object], whole: str, *, columns: int) -> None:
    """No line is over the width, and no number is broken: each is one of the whole output, such as that of a pipe."""
    text = shown(call, columns=columns)
    assert text.strip()
    assert not [line for line in text.splitlines() if cell_len(line) > columns]
    still = "\n".join(line for line in text.splitlines() if _BAR not in line)
    assert not words_of(still) - words_of(whole), f"broken at {columns} columns"


def _in_child(call: Callable[[], object], columns: int) -> None:
    code = 1
    try:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", _LINES, columns, 0, 0))
        os.environ.pop("COLUMNS", None)
        os.environ["TERM"] = "xterm-256color"
        sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate("rww"))
        call()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
