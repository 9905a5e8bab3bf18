# SPDX-License-Identifier: Apache-2.0
"""Figures relative to a named base come out as they were published, and a folder that has them holds."""

import csv
import io
from decimal import Decimal
from pathlib import Path

import pytest

import derived_figures
import explanations
from gpubench.analysis import explain
from gpubench.cost import price
from gpubench_cli import __main__ as program
from gpubench_cli import results

STUDIES = Path(__file__).parents[2] / "jobs" / "studies"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Max Woolf, 2017, whose charts are relative to TensorFlow on a K80."""
    place = tmp_path_factory.mktemp("keras")
    text = (STUDIES / "keras-2017.yaml").read_text()
    assert text.count("\nspec:\n  sweep:") == 1
    study = place / "study.yaml"
    study.write_text(text.replace("\nspec:\n  sweep:", "\nspec:\n  baseline: {pool: k80}\n  sweep:"))
    measurements = str(STUDIES / "published" / "keras-2017.csv")
    assert program.main(("import", str(study), measurements, "--out", str(place / "results"))) == 0
    return place / "results"


def published() -> dict[tuple[str, str, str], tuple[Decimal, int]]:
    """What is printed of TensorFlow, by figure, workload and pool, with its decimal places."""
    return {
        (row["figure"], row["workload"], row["pool"]): (Decimal(row["published"]), int(row["places"]))
        for row in derived_figures.rows("keras-2017")
        if row["figure"].startswith("relative-") and not row["variant"] and row["published"]
    }


def test_times_and_costs_relative_to_a_k80_are_those_that_were_published(folder: Path) -> None:
    told = {
        (point.workload, point.pool): point.relative
        for point in results.stored(results.in_folder(folder)).status.results
        if point.variant is None
    }
    compared = 0
    for (figure, workload, pool), (printed, places) in published().items():
        relative = told[workload, pool]
        assert relative is not None
        found = relative.time if figure == "relative-time" else relative.cost
        assert found is not None
        assert price.rounded(Decimal(repr(found.mean)), digits=places) == printed, (figure, workload, pool)
        compared += 1
    assert compared >= 20


def test_they_are_shown_explained_and_verified(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("show", str(folder))) == 0
    out = capsys.readouterr().out
    assert "RELATIVE TIME" in out
    assert "RELATIVE COST" in out
    assert "in multiples of 1 worker on k80 for the same samples of the same workload" in out
    assert program.main(("show", str(folder), "-o", "csv")) == 0
    rows = [row for row in csv.DictReader(io.StringIO(capsys.readouterr().out)) if row["pool"] == "p100"]
    assert {row["relative_baseline_pool"] for row in rows} == {"k80"}
    assert program.main(("verify", str(folder))) == 0
    study = results.stored(results.in_folder(folder))
    for index, point in enumerate(study.status.results):
        found = explain.explained(study.plan, study.ledger, study.spec, index=index)
        assert found.point.relative == point.relative
        explanations.check(found)
    row = 1 + next(number for number, point in enumerate(study.status.results) if point.pool == "p100")
    capsys.readouterr()
    assert program.main(("explain", str(folder), f"row={row}")) == 0
    assert "relative time x rate x nodes / (base rate x base nodes): Max Woolf, 2017" in capsys.readouterr().out
