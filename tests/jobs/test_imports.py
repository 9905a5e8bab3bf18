# SPDX-License-Identifier: Apache-2.0
"""Libraries of a rank do not bring in what only draws; a user's own file may."""

import os
import subprocess
import sys
from pathlib import Path

TENSORFLOW = """
try:
    import matplotlib
except ImportError:
    print("missing")
"""
PROGRAM = """
from gpubench_jobs.worker import __main__ as worker
worker.import_tensorflow()
import matplotlib
print(matplotlib.__name__)
"""


def test_a_package_that_a_rank_does_not_need_is_missing_while_libraries_are_imported_and_no_longer(
    tmp_path: Path,
) -> None:
    (tmp_path / "tensorflow.py").write_text(TENSORFLOW)
    path = os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    said = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert said.stdout.splitlines() == ["missing", "matplotlib"]
