# SPDX-License-Identifier: Apache-2.0
"""The quickstart, shortened, with real ranks: two workers are two pods on this machine."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gpubench.measure.records import Environment
from gpubench_cli import results

QUICKSTART = Path(__file__).parents[2] / "jobs/studies/quickstart.yaml"
#: Measured: 40 s on two idle cores; ten times as much for a machine that compiles beside it.
PATIENCE_SECONDS = 400.0

pytestmark = [
    pytest.mark.skipif(importlib.util.find_spec("horovod") is None, reason="Horovod is not built: make horovod"),
    pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two pods need two processors"),
]


def test_the_quickstart_runs_without_a_cluster(tmp_path: Path) -> None:
    text = QUICKSTART.read_text()
    for old, new in (("warmUp: 2s", "warmUp: 0s"), ("duration: 8s", "duration: 1s"), ("min: 3", "min: 1")):
        assert old in text
        text = text.replace(old, new)
    (tmp_path / "study.yaml").write_text(text)
    ended = subprocess.run(
        [sys.executable, "-m", "gpubench_cli", "run", "study.yaml", "--results", "found"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert len(re.findall(r"^mnist_cnn +local-cpu +[12] +64 +float32 +Measured", ended.stdout, re.MULTILINE)) == 2
    status = results.read_summary(tmp_path / "found").status
    one, two = status.results
    assert one.throughput is not None
    assert two.throughput is not None
    assert one.cost is not None
    assert [scaling.baseline_workers for scaling in two.scaling] == [1]
    assert two.environment == one.environment
    assert one.throughput.low is None, "one repeat has no interval"
    _assert_pods_were_apart(tmp_path / "found")


def _assert_pods_were_apart(folder: Path) -> None:
    """Both pods of the gang of two wrote windows of their own rank, and no container image is claimed."""
    trial = next(trial for trial in results.read_plan(folder).trials if trial.point == 1)
    for index in (0, 1):
        records = [
            json.loads(line) for line in (folder / "logs" / f"{trial.id}.1.{index}.jsonl").read_text().splitlines()
        ]
        assert {record["rank"] for record in records if record["kind"] == "window"} == {index}
        environment = Environment.model_validate(next(record for record in records if record["kind"] == "environment"))
        assert environment.image is None
        assert environment.threads_per_rank == 1
