# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: what starts a program is skipped. A mutant is a state of one process, and there are thousands."""

import os
import sys

import pytest


def _skip_programs(event: str, _: object) -> None:
    if event == "subprocess.Popen" and "PYTEST_CURRENT_TEST" in os.environ:  # not where tests are collected
        pytest.skip("it starts a program")


def pytest_configure() -> None:
    sys.addaudithook(_skip_programs)
