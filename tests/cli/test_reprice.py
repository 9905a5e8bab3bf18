# SPDX-License-Identifier: Apache-2.0
"""Doubled prices double each cost of a real study, with its interval, and change no throughput; nothing is run."""

import csv
import hashlib
import io
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpubench_cli import __main__ as program
from gpubench_cli import documents, explain, results, verify
from gpubench_cli.terminal import CliError
from repriced import amounts, amounts_of, is_double, measurements_of, prices
from resealed import change, record_in, text_of
from stand_in_cluster import StandInCluster

STUDIES = Path(__file__).parents[2] / "jobs" / "studies"


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


# --- doubled ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["real_folder", "trained_folder"])
def test_doubled_prices_double_each_cost_and_its_interval_and_change_no_throughput(
    request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder: Path = request.getfixturevalue(name)
    before, out = content(folder), tmp_path / "dear"
    assert program.main(("reprice", str(folder), "--pools", str(prices(folder, tmp_path)), "--out", str(out))) == 0
    told = capsys.readouterr()
    assert f"({out}): Succeeded" in told.out
    assert f"results: {out}" in told.err
    old, new = results.read_summary(folder).status, results.read_summary(out).status
    pairs = list(zip(amounts(new), amounts(old), strict=True))
    assert len(pairs) >= 2
    for one, other in pairs:
        assert Decimal(one.mean) > Decimal(other.mean) > 0
        assert is_double(one.mean, other.mean)
        assert is_double(one.low, other.low)
        assert is_double(one.high, other.high)
        assert one.currency == other.currency
    if name == "real_folder":
        assert all(one.low is not None for one, _ in pairs), (
            "the upper end is open where a busy machine scatters widely"
        )
    for dear, cheap in zip(new.results, old.results, strict=True):
        assert dear.bill is not None
        assert cheap.bill is not None
        assert is_double(dear.bill.total, cheap.bill.total)
    assert measurements_of(new) == measurements_of(old)
    assert content(folder) == before, "the folder that was measured is as it was"


def test_a_re_priced_folder_holds_and_says_what_it_is(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "dear"
    explain.to_folder(recorded_folder, documents.read(prices(recorded_folder, tmp_path)), out=out)
    assert program.main(("verify", str(out))) == 0
    assert "it was re-priced: its prices are those of prices.yaml" in capsys.readouterr().out
    assert program.main(("show", str(out))) == 0
    shown = capsys.readouterr().out
    assert " with dear.yaml: local-cpu. Nothing was run for it." in shown
    [study] = said_as_json(capsys, "show", str(out), "-o", "json")["studies"]
    assert (study["repriced"]["prices"], study["repriced"]["pools"]) == ("dear.yaml", ["local-cpu"])
    assert program.main(("show", str(out), "-o", "csv")) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [row["repriced_at"] for row in rows] == [study["repriced"]["at"]] * len(rows)
    assert "repriced" not in said_as_json(capsys, "show", str(recorded_folder), "-o", "json")["studies"][0]


def said_as_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert program.main(arguments) == 0
    return json.loads(capsys.readouterr().out)


def test_without_out_costs_are_printed_and_nothing_is_written(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before, path = content(recorded_folder), prices(recorded_folder, tmp_path)
    [study] = said_as_json(capsys, "reprice", str(recorded_folder), "--pools", str(path), "-o", "json")["studies"]
    [old] = said_as_json(capsys, "show", str(recorded_folder), "-o", "json")["studies"]
    new_cost, old_cost = (one["status"]["results"][0]["cost"]["perMillionSamples"] for one in (study, old))
    ends = {"mean", "low", "high"} & new_cost.keys()  # repeats that are far apart leave the mean alone
    assert ends == {"mean", "low", "high"} & old_cost.keys()
    assert all(is_double(new_cost[end], old_cost[end]) for end in ends)
    assert study["repriced"]["pools"] == ["local-cpu"]
    assert content(recorded_folder) == before
    assert [one.name for one in tmp_path.iterdir()] == ["dear.yaml"]


def test_a_re_priced_folder_can_be_re_priced_back(real_folder: Path, tmp_path: Path) -> None:
    explain.to_folder(real_folder, documents.read(prices(real_folder, tmp_path)), out=tmp_path / "dear")
    explain.to_folder(tmp_path / "dear", documents.read(prices(real_folder, tmp_path, times=1)), out=tmp_path / "again")
    assert results.read_summary(tmp_path / "again").status == results.read_summary(real_folder).status
    assert verify.examine(tmp_path / "again").findings == []


# --- imported ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["keras-2017", "tweets-2018"])
def test_a_published_study_is_re_priced_pool_by_pool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    folder, out = tmp_path / name, tmp_path / "dear"
    measurements = str(STUDIES / "published" / f"{name}.csv")
    assert program.main(("import", str(STUDIES / f"{name}.yaml"), measurements, "--out", str(folder))) == 0
    path = prices(folder, tmp_path)
    study = explain.to_folder(folder, documents.read(path), out=out)
    assert verify.examine(out).findings == []
    assert study.repriced is not None
    old, new = results.read_summary(folder).status, results.read_summary(out).status
    dearer = 0
    for before, after in zip(old.results, new.results, strict=True):
        for one, other in zip(amounts_of(after), amounts_of(before), strict=True):
            given_anew = before.pool in study.repriced.pools
            dearer += given_anew
            assert is_double(one.mean, other.mean) if given_anew else one == other, before.pool
    assert dearer
    assert measurements_of(new) == measurements_of(old)
    capsys.readouterr()
    assert program.main(("show", str(out))) == 0
    assert "Re-priced at " in capsys.readouterr().out


# --- of the cluster ---------------------------------------------------------------------------------------------------


def test_a_study_of_the_cluster_is_re_priced_from_what_is_stored_there(recorded_folder: Path, tmp_path: Path) -> None:
    """The stand-in has no way to write: it is only asked."""
    study = results.stored(results.in_cluster(StandInCluster(recorded_folder), "quickstart"))
    again = explain.repriced(study, documents.read(prices(recorded_folder, tmp_path)))
    for one, other in zip(amounts(again.status), amounts(study.status), strict=True):
        assert is_double(one.high, other.high)
    assert measurements_of(again.status) == measurements_of(study.status)


def test_an_exported_study_is_re_priced_into_a_folder_that_holds(recorded_folder: Path, tmp_path: Path) -> None:
    results.export(StandInCluster(recorded_folder), "quickstart", tmp_path / "exported")
    path = prices(recorded_folder, tmp_path)
    explain.to_folder(tmp_path / "exported", documents.read(path), out=tmp_path / "dear")
    examined = verify.examine(tmp_path / "dear")
    assert examined.findings == []
    assert not any("sentences, as" in part for part in examined.by_checksum), "they were made anew by this gpubench"


# --- what was changed is found ----------------------------------------------------------------------------------------


@pytest.fixture
def dear(recorded_folder: Path, tmp_path: Path) -> Path:
    explain.to_folder(recorded_folder, documents.read(prices(recorded_folder, tmp_path)), out=tmp_path / "dear")
    return tmp_path / "dear"


def test_a_changed_file_of_prices_is_found(dear: Path) -> None:
    change(dear / "prices.yaml", lambda text: text.replace("0.08", "0.09"))
    [finding] = verify.examine(dear).findings
    assert "prices.yaml: it is not the file that the benchmark was re-priced with" in finding


def test_a_price_of_the_plan_that_is_not_the_given_one_is_found(dear: Path) -> None:
    change(dear / "plan.json", lambda text: text_of(json.loads(json.dumps(record_in(text)).replace("0.08", "0.04"))))
    assert any("plan.json: its prices are not those of " in finding for finding in verify.examine(dear).findings)


def test_a_mark_that_was_taken_away_is_found(dear: Path) -> None:
    def unmarked(text: str) -> str:
        summary = record_in(text)
        del summary["repriced"]
        return text_of(summary)

    change(dear / "status.json", unmarked)
    assert any("does not say that it was re-priced" in finding for finding in verify.examine(dear).findings)
    (dear / "prices.yaml").unlink()
    assert any("plan.json: it has other prices than when" in finding for finding in verify.examine(dear).findings)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_a_folder_that_is_there_is_not_overwritten(recorded_folder: Path, tmp_path: Path) -> None:
    path = prices(recorded_folder, tmp_path)
    before = content(recorded_folder)
    for out in (recorded_folder, tmp_path):
        with pytest.raises(CliError, match="is not empty"):
            explain.to_folder(recorded_folder, documents.read(path), out=out)
    assert content(recorded_folder) == before


def test_prices_that_say_nothing_about_the_study_are_refused_in_a_sentence(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = prices(recorded_folder, tmp_path, slotsPerNode=8)
    assert program.main(("reprice", str(recorded_folder), "--pools", str(other), "--out", str(tmp_path / "new"))) == 2
    assert "has 8 slots on a node here, and 1 in the benchmark" in capsys.readouterr().err
    other.write_text(other.read_text().replace("name: local-cpu", "name: elsewhere"))
    assert program.main(("reprice", str(recorded_folder), "--pools", str(other), "--out", str(tmp_path / "new"))) == 2
    assert "the pools here are elsewhere, those of the benchmark local-cpu" in capsys.readouterr().err
    assert program.main(("reprice", "quickstart", "--pools", str(other), "--out", str(tmp_path / "new"))) == 2
    assert "quickstart: --out takes a results folder: `gpubench export NAME DIR` makes one" in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_a_study_file_that_was_changed_is_not_laundered(recorded_folder: Path, tmp_path: Path, dear: Path) -> None:
    change(dear / "study.yaml", lambda text: text.replace("name: quickstart", "name: slowstart"))
    with pytest.raises(CliError, match=r"it is not the file that plan\.json was made of"):
        explain.to_folder(dear, documents.read(prices(recorded_folder, tmp_path)), out=tmp_path / "again")


def test_what_is_no_results_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pools = tmp_path / "pools.yaml"
    pools.write_text("")
    assert program.main(("reprice", str(tmp_path), "--pools", str(pools))) == 2
    assert "the file is empty" in capsys.readouterr().err
    assert program.main(("reprice", str(tmp_path), "--pools", str(tmp_path / "none.yaml"))) == 2
    assert "there is no such file" in capsys.readouterr().err
