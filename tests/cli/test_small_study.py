# SPDX-License-Identifier: Apache-2.0
"""A published study in its small form, on this machine, by the command that its file begins with.

`make studies` runs all of them; this one trains with the largest table of gradients, on both processors.
"""

from pathlib import Path

import pytest

import command_line
from gpubench.api.point_result import PointState
from gpubench.api.sweep import DataSource
from gpubench_cli import results

STUDY = Path(__file__).parents[2] / "jobs" / "studies" / "tweets-2018.yaml"
#: Measured: 40 s on two busy cores, 140 s where much else ran.
PATIENCE_SECONDS = 600.0
SMALL = ("--scale", "0.01", "--pool", "local-cpu")

pytestmark = pytest.mark.usefixtures("horovod", "two_cores")


def test_a_published_study_trains_here_without_its_data_and_says_that_it_is_small(tmp_path: Path) -> None:
    assert f"gpubench run jobs/studies/{STUDY.name} {' '.join(SMALL)}" in STUDY.read_text(encoding="utf-8")
    places = (str(STUDY), *SMALL, "--results", str(tmp_path / "found"))
    ended = command_line.apart("run", *places, seconds=PATIENCE_SECONDS)
    assert ended.returncode == 0, ended.stderr
    assert "tweets-2018-small is the small form of tweets-2018" in ended.stdout
    [point] = results.read_summary(tmp_path / "found").status.results
    assert (point.workload, point.state) == ("twitter_bilstm", PointState.MEASURED)
    assert (point.workers, point.data) == (2, DataSource.GENERATED)
    assert point.cost is None  # this machine has no price, and the price of another is not put in its place
    assert point.training is not None
    assert point.training.epochs == 1
    assert point.training.seconds is not None
    assert point.training.seconds.mean > 0
    assert point.training.quality is not None
    # An epoch of generated tweets is enough to tell their two kinds apart better than a guess does.
    assert point.training.quality.final.mean > 0.6
