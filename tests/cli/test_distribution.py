# SPDX-License-Identifier: Apache-2.0
"""The version that the program says is that of its distribution."""

from importlib import metadata

import pytest

from gpubench_cli import __main__ as program


def test_the_version_is_that_of_the_distribution(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("--version",)) == 0
    assert capsys.readouterr().out == f"gpubench {metadata.version('kube-gpubench')}\n"
