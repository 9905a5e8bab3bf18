# SPDX-License-Identifier: Apache-2.0
"""What the tests of local runs need: without it they fail, and say what to do. Skipped tests would show nothing."""

import importlib.util
import os

import pytest


@pytest.fixture(scope="session")
def horovod() -> None:
    """Present, or the test fails."""
    assert importlib.util.find_spec("horovod"), "Horovod is not installed: run `make horovod`"


@pytest.fixture(scope="session")
def two_cores() -> None:
    """Two pods are pinned to processors of their own; with one they could not be placed."""
    usable = len(os.sched_getaffinity(0))
    assert usable >= 2, f"two pods need two processors and {usable} may be used here: run the tests on two or more"
