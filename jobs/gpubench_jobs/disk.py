# SPDX-License-Identifier: Apache-2.0
"""What whoever writes whole files needs beside them: a file is there after a power cut only when its name is."""

import contextlib
import os
from pathlib import Path


def sync_names(folder: Path) -> None:
    """The names in a folder are on the disk, where its file system can say so."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
