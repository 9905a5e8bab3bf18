# SPDX-License-Identifier: Apache-2.0
"""What takes long to make and is only read is made once for all processes that run the tests, not once in each."""

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

_WORKER = "PYTEST_XDIST_WORKER"  # set by pytest-xdist in each process that runs tests


def made(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A folder with what `make` put into it. Whoever asks second waits until it is whole; what failed is made again."""
    mine = factory.getbasetemp()
    folder = (mine.parent if _WORKER in os.environ else mine) / f"once-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        whole = folder / "whole"
        if not whole.exists():
            content = _numbered(folder)
            make(content)
            whole.write_text(content.name)
        return folder / whole.read_text()


def _numbered(folder: Path) -> Path:
    """A folder that nobody has begun to fill."""
    number = sum(1 for entry in folder.iterdir() if entry.is_dir())
    content = folder / f"try-{number}"
    content.mkdir()
    return content
