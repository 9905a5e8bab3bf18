# SPDX-License-Identifier: Apache-2.0
"""A plugin of pytest: tells programs which test runs, and writes down how long each takes."""

import json
from collections import Counter
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
#: What is called while a file is read belongs to no test.
NO_TEST = ""
_seconds: Counter[str] = Counter()
_not_passed: set[str] = set()
(FOLDER / "test").write_text(NO_TEST)  # now: some conftest.py is read before pytest is configured


def pytest_runtest_logstart(nodeid: str) -> None:
    (FOLDER / "test").write_text(nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] += report.duration  # type: ignore[assignment]
    if not report.passed:
        _not_passed.add(report.nodeid)


def pytest_sessionfinish() -> None:
    (FOLDER / "seconds.json").write_text(json.dumps({one: _seconds[one] for one in _seconds if one not in _not_passed}))
