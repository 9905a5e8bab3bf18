# SPDX-License-Identifier: Apache-2.0
"""The examples of a workload of one's own and of the bare collective run as they stand in jobs/examples, shortened."""

from collections.abc import Mapping, Set
from pathlib import Path

import pytest
import yaml

import command_line
from gpubench.api.point_result import PointResult, PointState
from gpubench_cli import results

EXAMPLES = Path(__file__).parents[2] / "jobs" / "examples"
#: Measured: 10 to 55 s on two busy cores, most of it `import tensorflow`; six times as much for a slower machine.
PATIENCE_SECONDS = 330.0
OK, NOT_ALL = frozenset({0}), 1  # exit codes

pytestmark = pytest.mark.usefixtures("horovod", "two_cores")


def run(study: str, folder: Path, shorter: Mapping[str, str], *, codes: Set[int] = OK) -> tuple[PointResult, ...]:
    """The results of a study of jobs/examples, run once as a user runs it."""
    text = (EXAMPLES / study).read_text(encoding="utf-8")
    for old, new in {"repeats: {min: 3}": "repeats: {min: 1}", **shorter}.items():
        assert old in text
        text = text.replace(old, new)
    (folder / study).write_text(text, encoding="utf-8")
    places = (str(folder / study), "--results", str(folder / "found"))
    ended = command_line.apart("run", *places, seconds=PATIENCE_SECONDS)
    assert ended.returncode in codes, ended.stderr
    return results.read_summary(folder / "found").status.results


def test_a_model_of_ones_own_learns_on_one_worker_and_on_two(tmp_path: Path) -> None:
    one, two = run("own-model.yaml", tmp_path, {})
    for point in (one, two):
        assert (point.workload, point.state) == ("two-rings", PointState.MEASURED)
        assert point.training is not None
        assert point.training.quality is not None
        assert point.training.quality.metric == "accuracy"
        # Radii 1 and 2, each with a deviation of 0.1: the border at 1.5 is five deviations away, guessing gives a half.
        assert point.training.quality.final.mean > 0.95
    assert (one.workers, two.workers) == (1, 2)


def test_a_program_of_ones_own_needs_nothing_but_its_record(tmp_path: Path) -> None:
    for point in run("own-container.yaml", tmp_path, {}):
        assert (point.workload, point.state) == ("a-line", PointState.MEASURED)
        assert point.throughput is not None
        assert point.throughput.mean > 0


def test_the_collective_alone_has_a_bandwidth_and_no_efficiency(tmp_path: Path) -> None:
    sizes = "[256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216]"
    shorter = {f"batchPerWorker: {sizes}": "batchPerWorker: [256, 1048576]", "duration: 4s": "duration: 1s"}
    # On a machine that is busy with other things seconds may not be enough to settle.
    small, large = run("allreduce.yaml", tmp_path, shorter, codes=OK | {NOT_ALL})
    for point in (small, large):
        assert point.state in (PointState.MEASURED, PointState.UNSTABLE)
        assert point.scaling == ()
        assert point.bandwidth is not None
        # With two workers each link carries the message once: 2 (n - 1) / n is 1.
        assert point.bandwidth.bus.mean == pytest.approx(point.bandwidth.algorithm.mean)
        assert point.bandwidth.algorithm.mean > 0


@pytest.mark.parametrize(("study", "program"), [("own-model.yaml", "model.py"), ("own-container.yaml", "train.py")])
def test_the_program_in_the_study_is_the_one_beside_it(study: str, program: str) -> None:
    documents = list(yaml.safe_load_all((EXAMPLES / study).read_text(encoding="utf-8")))
    config_map = next(document for document in documents if document["kind"] == "ConfigMap")
    assert config_map["data"] == {program: (EXAMPLES / "own" / program).read_text(encoding="utf-8")}
