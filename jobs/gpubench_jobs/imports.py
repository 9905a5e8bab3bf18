# SPDX-License-Identifier: Apache-2.0
"""What a rank does without while it imports its libraries: every rank of every attempt pays for their start."""

import contextlib
import sys
from collections.abc import Iterator

#: Keras imports pyplot wherever it can be had, to draw pictures: a quarter of the processor time of its own import.
_NOT_NEEDED = ("matplotlib",)


@contextlib.contextmanager
def lean() -> Iterator[None]:
    """Libraries find the packages of `_NOT_NEEDED` missing, as on a machine without; afterwards they are there."""
    hidden = [name for name in _NOT_NEEDED if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is how Python is told that there is none
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
