# SPDX-License-Identifier: Apache-2.0
"""Two studies against each other on the command line: what is paired, what is said, and what is refused."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import builders
import measured
from gpubench.api.benchmark_status import FullStatus
from gpubench.plan.plan import Plan
from gpubench.report.document import Reported
from gpubench_cli import __main__ as program
from gpubench_cli import compare, results

SLOW, FAST, SAME = (99.0, 100.0, 101.0), (114.0, 115.0, 116.0), (100.0, 100.0, 100.1)


def plan(*blocks: dict[str, Any], pools: Sequence[str] = ("cpu",), **fields: Any) -> Plan:
    return builders.plan(builders.spec(*blocks, **fields), *(builders.pool(name) for name in pools))


def study(
    path: Path, rates: Mapping[int, Sequence[float]], *blocks: dict[str, Any], pools: Sequence[str] = ("cpu",)
) -> str:
    of_pools = blocks or (builders.block(workers=[1], pools=list(pools)),)
    return str(measured.folder(path, plan(*of_pools, pools=pools), rates))


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert program.main(("compare", *arguments)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert program.main(("compare", *arguments)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_two_pools_are_compared_with_ratio_interval_and_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = study(tmp_path / "monday", {0: SLOW}, pools=["old"])
    b = study(tmp_path / "tuesday", {0: FAST}, pools=["new"])
    out = said(capsys, a, b)
    assert out.startswith(f"A: monday ({a})\nB: tuesday ({b})\n")
    (line,) = [line for line in out.splitlines() if line.startswith("mnist_cnn")]
    assert "1.150 (1.126–1.175)" in line
    assert line.rstrip().endswith("B is 12–18 % faster (95 %)")
    assert "old" in line
    assert "100.0 ± 2.5 samples/s" in line


def test_a_point_that_both_have_is_compared_with_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = study(tmp_path / "a", {0: SLOW, 1: FAST}, pools=["one", "two"])
    b = study(tmp_path / "b", {0: SLOW[::-1], 1: FAST[::-1]}, pools=["one", "two"])
    document = json.loads(said(capsys, a, b, "-o", "json"))
    assert [(pair["a"]["pool"], pair["b"]["pool"]) for pair in document["pairs"]] == [("one", "one"), ("two", "two")]
    assert [pair["difference"]["ratio"]["mean"] for pair in document["pairs"]] == [1.0, 1.0]


def test_the_same_results_twice_are_no_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = study(tmp_path / "a", {0: SLOW})
    copy = shutil.copytree(a, tmp_path / "copy")
    told = "are the same results: name two that were measured apart"
    assert refused(capsys, a, a) == f"gpubench: {a} and {a} {told}\n"
    assert refused(capsys, a, str(copy)) == f"gpubench: {a} and {copy} {told}\n"


def test_other_work_is_refused_and_the_difference_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = study(tmp_path / "a", {0: SLOW}, builders.block(workers=[1]))
    b = study(tmp_path / "b", {0: FAST}, builders.block(workers=[1], batchPerWorker=[32], precision=["mixed_float16"]))
    assert refused(capsys, a, b) == (
        "gpubench: a and b have no points that differ in the pool only: the most alike differ in batch (64 against 32) "
        "and precision (float32 against mixed_float16)\n"
    )


def test_variants_of_one_name_and_other_content_are_other_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = [{"name": "wire", "xla": False}], [{"name": "wire", "xla": True}]
    a = study(tmp_path / "a", {0: SLOW}, builders.block(workers=[1], variants=one))
    b = study(tmp_path / "b", {0: SLOW}, builders.block(workers=[1], variants=other))
    assert "the most alike differ in the definition of the variant\n" in refused(capsys, a, b)


def test_training_is_compared_by_its_seconds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    block = builders.block(workers=[1], data={"source": "Generated"}, epochs=3)

    def trained(path: Path, *seconds: float) -> str:
        runs = [
            builders.training(nanoseconds=round(one * 1e9), evaluation_nanoseconds=0, first_evaluation_nanoseconds=0)
            for one in seconds
        ]
        study_plan = plan(block, measure={"mode": "Training"})
        return str(measured.folder(path, study_plan, {0: [1.0] * len(runs)}, trainings={0: runs}))

    a, b = trained(tmp_path / "a", 114, 115, 116), trained(tmp_path / "b", 99, 100, 101)
    out = said(capsys, a, b)
    assert "B is 12–18 % faster (95 %)" in out
    assert "115.0 ± 2.5 seconds" in out
    throughput = study(tmp_path / "c", {0: SLOW}, block | {"epochs": None})
    assert "measure.mode (Training against Throughput)" in refused(capsys, a, throughput)


def test_other_environments_are_named_beside_the_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = measured.folder(tmp_path / "a", plan(builders.block(workers=[1])), {0: SLOW}, environment="driver-1")
    b = measured.folder(tmp_path / "b", plan(builders.block(workers=[1])), {0: FAST}, environment="driver-2")
    assert "the environments differ (driver-1 and driver-2)" in said(capsys, str(a), str(b))


def on_nodes(path: Path, rates: Sequence[float], instance_type: str) -> str:
    """A folder as a cluster exports it: its points say what they ran on, which no environment's key does."""
    found = measured.folder(path, plan(builders.block(workers=[1])), {0: rates})
    summary = results.read_summary(found)
    points = tuple(one.model_copy(update={"instance_type": instance_type}) for one in summary.status.results)
    status = summary.status.model_copy(update={"results": points})
    results.ResultsFolder(found).write(summary.model_copy(update={"status": status}))
    return str(found)


def test_instance_types_behind_one_environment_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small, large = on_nodes(tmp_path / "small", SLOW, "g5.xlarge"), on_nodes(tmp_path / "large", FAST, "g5.12xlarge")
    assert "Of A and B the environments differ: instance type g5.xlarge against g5.12xlarge." in said(
        capsys, small, large
    )
    document = json.loads(said(capsys, small, large, "-o", "json"))
    assert document["pairs"][0]["environments"].endswith("instance type g5.xlarge against g5.12xlarge")
    again = on_nodes(tmp_path / "again", FAST, "g5.xlarge")
    assert "environments differ" not in said(capsys, small, again)


def test_points_without_figures_or_counterpart_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = study(tmp_path / "a", {0: SLOW, 2: FAST}, builders.block(workers=[1, 2, 3]))
    b = study(tmp_path / "b", {0: SLOW}, builders.block(workers=[1]))
    out = said(capsys, a, b)
    assert "a: 2 points without a counterpart or figures, not compared." in out


def test_what_was_not_measured_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = study(tmp_path / "a", {0: SLOW}), study(tmp_path / "b", {})
    assert "b has no measured point to compare" in refused(capsys, a, b)


def test_a_benchmark_that_has_not_begun_has_no_points() -> None:
    assert compare.side_of(Reported(name="waits", source="namespace lab", status=FullStatus())).results == ()


def test_few_repeats_are_shown_without_a_verdict(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = study(tmp_path / "a", {0: SLOW}), study(tmp_path / "b", {0: (115.0, 115.0)})
    out = said(capsys, a, b)
    assert "cannot tell: an interval needs 3 repeats, and B has 2" in out
    assert "1.15" in out, "the ratio itself is known"


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        (["a"], "Missing argument 'B'"),
        (["a", "a", "a"], "Got unexpected extra argument"),
        (["nowhere/else", "a"], "nowhere/else: this is no results folder"),
    ],
)
def test_how_it_is_called_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: list[str], sentence: str
) -> None:
    a = study(tmp_path / "a", {0: SLOW})
    assert sentence in refused(capsys, *(a if name == "a" else name for name in names))
