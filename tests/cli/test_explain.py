# SPDX-License-Identifier: Apache-2.0
"""What is explained of a real study is what its status has, for every point; a point is named without ambiguity."""

import json
from pathlib import Path
from typing import Any

import pytest

import builders
import explanations
import measured
from gpubench.analysis import explain
from gpubench.api.point_result import Basis
from gpubench.plan.plan import Plan
from gpubench_cli import __main__ as program
from gpubench_cli import results
from gpubench_cli.explain import find_point, point_name
from gpubench_cli.terminal import CliError
from stand_in_cluster import StandInCluster


@pytest.mark.usefixtures("horovod", "two_cores")
@pytest.mark.parametrize("name", ["real_folder", "trained_folder"])
def test_every_figure_of_every_point_is_explained_and_is_that_of_the_status(
    request: pytest.FixtureRequest, name: str
) -> None:
    folder: Path = request.getfixturevalue(name)
    study = results.stored(results.in_folder(folder))
    assert study.status == results.read_summary(folder).status
    for index, point in enumerate(study.status.results):
        found = explain.explained(study.plan, study.ledger, study.spec, index=index)
        assert explanations.figures(point) == explanations.figures(found.point)
        explanations.check(found)
        assert len(found.rows) >= 3


def test_a_point_is_explained_in_words_and_for_programs(
    recorded_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(("explain", str(recorded_folder), "local-cpu/2")) == 0
    told = capsys.readouterr().out
    assert f"quickstart ({recorded_folder}): mnist_cnn/local-cpu/2/64/float32: Measured\n" in told
    titles, *_ = (line for line in told.splitlines() if line.startswith("FIGURE"))
    assert titles.split() == ["FIGURE", "VALUE", "FORMULA", "INPUTS", "FROM"]
    figures = [line.split()[0] for line in told.splitlines() if line and not line.startswith(" ")]
    assert {"throughput", "scaling.weak", "cost.perMillionSamples", "bill.total"} <= set(figures)
    assert 'rate x nodes x samples / throughput / 3600: Parkopedia, 2018, "cost of ImageNet"' in told
    point = results.read_summary(recorded_folder).status.results[1]
    assert point.cost is not None
    assert point.cost.per_million_samples is not None
    document = said_as_json(capsys, str(recorded_folder), "mnist_cnn/local-cpu/2/64/float32", "-o", "json")
    by_field = {row["field"]: row for row in document["rows"]}
    cost = by_field["cost.perMillionSamples"]
    assert cost["figure"] == point.cost.per_million_samples.to_wire()
    assert cost["inputs"][:3] == ["rate = USD 0.04", "nodes = 2", "samples = 1,000,000"]
    assert "an example, about the list price of one shared cloud processor" in cost["origin"]
    assert said_as_json(capsys, str(recorded_folder), "row=2", "-o", "json") == document


def said_as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert program.main(("explain", *arguments)) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.usefixtures("horovod", "two_cores")
def test_the_only_point_needs_no_name(trained_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("explain", str(trained_folder))) == 0
    told = capsys.readouterr().out
    assert "cost.perRun" in told
    assert "goals.much.hours" in told


def test_a_study_of_the_cluster_is_explained_like_its_folder(recorded_folder: Path) -> None:
    there = results.stored(results.in_cluster(StandInCluster(recorded_folder), "quickstart"))
    here = results.stored(results.in_folder(recorded_folder))
    for index in range(2):
        one, other = (explain.explained(study.plan, study.ledger, study.spec, index=index) for study in (there, here))
        assert one == other


def test_a_point_that_is_not_there_is_a_sentence(recorded_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("explain", str(recorded_folder), "local-gpu/2")) == 2
    assert "local-gpu/2 is 0 of 2 points: name one, such as mnist_cnn/local-cpu/1/64/float32" in capsys.readouterr().err
    assert program.main(("explain", str(recorded_folder / "logs"), "2")) == 2
    assert "this is no results folder" in capsys.readouterr().err


# --- imported ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["initialized-2017", "keras-2017", "parkopedia-2018", "tweets-2018"])
def test_every_figure_of_a_published_study_is_explained_with_its_publisher(tmp_path: Path, name: str) -> None:
    measurements = str(STUDIES / "published" / f"{name}.csv")
    assert program.main(("import", str(STUDIES / f"{name}.yaml"), measurements, "--out", str(tmp_path / name))) == 0
    study = results.stored(results.in_folder(tmp_path / name))
    assert study.plan.imported is not None
    with_figures = 0
    for index, point in enumerate(study.status.results):
        found = explain.explained(study.plan, study.ledger, study.spec, index=index)
        assert explanations.figures(point) == explanations.figures(found.point)
        explanations.check(found)
        with_figures += bool(found.rows)
        first = found.rows[0].origin if found.rows else study.plan.imported.origin
        assert study.plan.imported.origin in first or point.basis is not Basis.IMPORTED
    assert with_figures == sum(bool(explanations.figures(point)) for point in study.status.results)


# --- naming a point ---------------------------------------------------------------------------------------------------

STUDIES = Path(__file__).parents[2] / "jobs" / "studies"
PLAN: Plan = builders.plan(
    builders.spec(
        builders.block(workloads=["mnist_cnn", "mnist_mlp"], pools=["cpu", "gpu"], workers=[1, 2, 64]),
        builders.block(workers=[2], pools=["cpu"], variants=[{"name": "wire"}]),
    ),
    builders.pool(max_nodes=64),
    builders.pool("gpu", max_nodes=64),
)
POINTS = measured.results(PLAN, {})


def selected(text: str | None) -> str:
    return point_name(POINTS, find_point(POINTS, text))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mnist_cnn/gpu/2", "mnist_cnn/gpu/2/64/float32"),
        ("mnist_cnn/gpu/2/64/float32", "mnist_cnn/gpu/2/64/float32"),
        ("mnist_cnn/gpu/64/64", "mnist_cnn/gpu/64/64/float32"),
        ("wire", "mnist_cnn/cpu/2/64/float32/wire"),
        ("mnist_cnn/cpu/2/64/float32", "mnist_cnn/cpu/2/64/float32"),  # whole, and not the one with a variant
        ("row=1", "mnist_cnn/cpu/1/64/float32"),
    ],
)
def test_as_many_parts_are_enough_as_tell_a_point_from_the_others(text: str, found: str) -> None:
    assert selected(text) == found


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("cpu/1", "cpu/1 is 2 of 13 points: name one, such as mnist_cnn/cpu/1/64/float32, mnist_mlp/cpu/1/64/float32"),
        ("gpu/2/cpu", "gpu/2/cpu is 0 of 13 points: name one, such as "),
        ("mnist_cmn", "mnist_cmn is 0 of 13 points: name one, such as mnist_cnn/"),
        (None, "the benchmark has 13 points: name one, such as mnist_cnn/cpu/1/64/float32, "),
        ("row=14", "row=14 is 0 of 13 points"),
        ("row=x", "row=x is 0 of 13 points"),
    ],
)
def test_what_is_none_or_several_is_a_sentence_with_points_to_name(text: str | None, sentence: str) -> None:
    with pytest.raises(CliError) as refused:
        selected(text)
    assert sentence in str(refused.value)


def test_a_batch_that_its_ranks_cannot_share_equally_names_the_point_as_a_whole() -> None:
    block = {"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [2], "globalBatch": [97]}
    of_plan = builders.plan(builders.spec(block), builders.pool(max_nodes=2))
    points = measured.results(of_plan, {})
    assert point_name(points, 0) == "mnist_cnn/cpu/2/97/float32"


def test_points_that_their_row_does_not_tell_apart_are_named_by_its_number() -> None:
    shapes = builders.plan(
        builders.spec(builders.block(workers=[2]), builders.block(workers=[2], workersPerNode=1)),
        builders.pool(slots_per_node=2),
    )
    points = measured.results(shapes, {})
    with pytest.raises(CliError, match="name one, such as row=1, row=2"):
        find_point(points, "cpu/2")
