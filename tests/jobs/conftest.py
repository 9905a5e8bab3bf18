# SPDX-License-Identifier: Apache-2.0
"""Gangs of real launchers, and Horovod itself: a test that needs it fails without it, and says how to get it."""

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import fork_server
import gangs


@pytest.fixture(scope="session", autouse=True)
def processors() -> None:
    """Two, or the suite fails at once: ranks that wait for each other on one core only look like a hang."""
    found = len(os.sched_getaffinity(0))
    if found < 2:
        pytest.exit(f"tests/jobs runs gangs of two ranks and needs 2 processors, this process may use {found}", 1)


@pytest.fixture(scope="session")
def server() -> Iterator[fork_server.ForkServer]:
    """Has loaded TensorFlow for the gangs of all tests; ends with them."""
    found = fork_server.ForkServer()
    yield found
    found.end()


@pytest.fixture
def pods(tmp_path: Path, server: fork_server.ForkServer) -> Iterator[gangs.Pods]:
    started = gangs.Pods(tmp_path, server=server)
    yield started
    started.end()


@pytest.fixture(scope="session")
def horovod() -> None:
    """Present, or the test fails: a suite that skips its subject shows nothing."""
    assert importlib.util.find_spec("horovod"), "Horovod is not installed: run `python jobs/horovod_wheel.py install`"
