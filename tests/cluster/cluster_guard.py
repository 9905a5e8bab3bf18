# SPDX-License-Identifier: Apache-2.0
"""The process that stops a cluster when whoever started it dies.

What may not happen here: stopping by itself; it calls `cluster.py guard`, which does what `down` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import cluster_processes

PROGRAM = Path(__file__).resolve().parent / "cluster.py"
PATIENCE_SECONDS = 20.0


@dataclass(frozen=True, kw_only=True)
class Guard:
    """A process that stops the cluster when we die: it waits for the end of a pipe that only we hold open.

    A parent-death signal would not do: it belongs to a thread, it does not reach the pods' own parents, and a node
    program that a test has killed could not end its pods any more.
    """

    identity: cluster_processes.Identity
    descriptor: int

    @classmethod
    def start(cls, directory: Path) -> Guard:
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, str(PROGRAM), "guard", str(directory), str(reading)],
                pass_fds=(reading,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(reading)
        identity = cluster_processes.identify(process.pid)
        process.returncode = 0  # waited for by its id, see dismiss
        assert identity is not None  # our own child that nobody has waited for
        return cls(identity=identity, descriptor=writing)

    def dismiss(self) -> None:
        os.close(self.descriptor)
        cluster_processes.wait_gone(self.identity, timeout_seconds=PATIENCE_SECONDS)
