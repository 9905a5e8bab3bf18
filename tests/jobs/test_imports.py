# SPDX-License-Identifier: Apache-2.0
"""Libraries of a rank do not bring in what only draws; a user's own file may."""

import subprocess
import sys

PROGRAM = """
import sys
from gpubench_jobs.worker.__main__ import lean_imports
with lean_imports():
    try:
        import matplotlib
    except ImportError:
        print("missing")
import matplotlib
print(matplotlib.__name__)
with lean_imports():
    import matplotlib
print("what was there stays")
"""


def test_a_package_that_a_rank_does_not_need_is_missing_while_libraries_are_imported_and_no_longer() -> None:
    said = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == ["missing", "matplotlib", "what was there stays"]
