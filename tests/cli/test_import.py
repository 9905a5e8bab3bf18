# SPDX-License-Identifier: Apache-2.0
"""Published studies become results folders, and what they print in numbers comes out of gpubench again.

The measurements are those of `jobs/studies/published`; what is compared with is `tests/core/published/golden.csv`,
which names its sources. Everything goes through the command line: `gpubench import`, then `show`, `verify`, `compare`.
What a publication derives from its measurements is made anew from the folder by `derived_figures`.
"""

import csv
import functools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import builders
import derived_figures
import measured
from command_line import called as command
from derived_figures import Derived
from gpubench.plan.expand import freeze
from gpubench.stats import intervals
from gpubench_cli import documents, import_study, results
from gpubench_cli.import_study import COLUMNS

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "jobs" / "studies"
GOLDEN = ROOT / "tests" / "core" / "published" / "golden.csv"
NAMES = ("initialized-2017", "keras-2017", "parkopedia-2018", "tweets-2018")


class Golden(NamedTuple):
    """A row of the table: the right figure, and the one that was printed."""

    places: int
    expected: str
    published: str


@functools.cache
def golden(pattern: str) -> dict[str, Golden]:
    """The product's rows whose whole id matches; what the pattern's groups found is the key, joined by blanks."""
    found = {}
    with GOLDEN.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(line for line in file if not line.startswith("#")):
            match = re.fullmatch(pattern, row["id"])
            if match and row["use"] == "product":
                key = " ".join(match.groups())
                found[key] = Golden(int(row["round_dp"]), row["expected_half_up"], row["published"])
    assert found, f"no row of the table is called {pattern}"
    return found


def import_into(folder: Path, study: Path, measurements: Path, *options: str) -> Path:
    code, _, err = command("import", str(study), str(measurements), *options, "--out", str(folder))
    assert code == 0, err
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Each published study, imported."""
    place = tmp_path_factory.mktemp("published")
    return {
        name: import_into(place / name, STUDIES / f"{name}.yaml", STUDIES / "published" / f"{name}.csv")
        for name in NAMES
    }


@pytest.fixture(scope="module")
def shown(folders: Mapping[str, Path]) -> Mapping[str, Any]:
    """What `gpubench show -o json` says of each."""
    found = {}
    for name, folder in folders.items():
        code, out, err = command("show", str(folder), "-o", "json")
        assert code == 0, err
        (found[name],) = json.loads(out)["studies"]
    return found


@pytest.fixture(scope="module")
def derived(folders: Mapping[str, Path]) -> Mapping[str, Sequence[Derived]]:
    """What each publication derives, made anew."""
    return {name: derived_figures.of_folder(folder, name) for name, folder in folders.items()}


def of_kind(found: Sequence[Derived], kind: str) -> list[Derived]:
    return [one for one in found if one.kind == kind]


def by_cell(found: Sequence[Derived], kind: str, pool: str | None = None) -> dict[str, Derived]:
    """The figures of a kind, by workload and batch: `vgg16 b64`."""
    return {
        f"{one.key.workload} b{one.key.batch_per_worker}": one
        for one in of_kind(found, kind)
        if pool in (None, one.key.pool)
    }


def by_workload(found: Sequence[Derived], kind: str, pool: str | None = None) -> dict[str, Derived]:
    return {one.key.workload: one for one in by_cell(found, kind, pool).values()}


def same_figures(here: Mapping[str, Derived], expected: Mapping[str, Golden]) -> None:
    """Each golden row is among what comes out, rounded as it is there."""
    assert {key: here[key].here for key in expected} == {key: row.expected for key, row in expected.items()}


def same_as_printed(here: Mapping[str, Derived], expected: Mapping[str, Golden]) -> None:
    """What the table of the publication has is what was printed, and nothing where nothing was."""
    printed = {key: Decimal(row.published) if row.published else None for key, row in expected.items()}
    assert {key: Decimal(one) if (one := here[key].published) else None for key in expected} == printed


# --- Parkopedia, 2018 -------------------------------------------------------------------------------------------------


def test_the_average_scaling_efficiencies_are_those_that_were_printed(derived: Mapping[str, Sequence[Derived]]) -> None:
    rows = golden(r"park\.scaling\.avg\.(\w+)\.(b\d+)")
    here = by_cell(derived["parkopedia-2018"], "mean-efficiency")
    same_figures(here, rows)
    same_as_printed(here, rows)
    assert len(here) == 9
    assert all(one.here == one.published for one in here.values())


def test_four_cards_from_one_are_computed_anew_beside_what_was_printed(
    derived: Mapping[str, Sequence[Derived]],
) -> None:
    rows = golden(r"park\.1080ti\.4x\.(\w+)\.(b\d+)")
    here = by_cell(derived["parkopedia-2018"], "extrapolated-throughput")
    same_figures(here, rows)
    same_as_printed(here, rows)


def test_the_rows_of_the_1080_ti_are_those_that_were_printed(shown: Mapping[str, Any]) -> None:
    # Parkopedia 2018, images per second of one card and of four.
    expected = {"desktop": (136, 145, 160, 213, 250, 273, 118, 137, 149),
                "office-box": (435, 482, 556, 649, 825, 947, 314, 418, 498)}  # fmt: skip
    for (pool, rates), basis in zip(expected.items(), ("Imported", "Extrapolated"), strict=True):
        points = [one for one in shown["parkopedia-2018"]["status"]["results"] if one["pool"] == pool]
        found = {(one["workload"], one["batchPerWorker"]): one["samplesPerSecond"] for one in points}
        cells = [(workload, batch) for workload in ("inception3", "resnet50", "vgg16") for batch in (16, 32, 64)]
        assert [found[cell] for cell in cells] == [{"mean": rate} for rate in rates]
        assert {one["basis"] for one in points} == {basis}


def test_images_per_dollar_hours_and_cost_of_imagenet_follow_from_them(
    derived: Mapping[str, Sequence[Derived]],
) -> None:
    found = derived["parkopedia-2018"]
    same_figures(
        by_cell(found, "samples-per-money"),
        golden(r"park\.images_per_dollar\.4x1080ti\.(\w+)\.(b\d+)\.table_1\.1028"),
    )
    for pool, name in (("office-box", "4x1080ti"), ("desktop", "1x1080ti")):
        same_figures(by_workload(found, "goal-hours", pool), golden(rf"park\.imagenet\.hours\.{name}\.(\w+)"))
    cost = by_workload(found, "goal-cost")
    same_figures(cost, golden(r"park\.imagenet\.cost\.4x1080ti\.(\w+)\.table_1\.1028"))
    charted = [*of_kind(found, "samples-per-money"), *of_kind(found, "goal-hours"), *of_kind(found, "goal-cost")]
    assert len(charted) == 18
    assert {one.published for one in charted} == {""}


def test_what_stands_in_charts_only_is_not_published(shown: Mapping[str, Any], folders: Mapping[str, Path]) -> None:
    results = shown["parkopedia-2018"]["status"]["results"]
    rented = [one for one in results if one["pool"] not in ("desktop", "office-box")]
    assert {one["state"] for one in rented} == {"NotPublished"}
    assert [one for one in rented if "samplesPerSecond" in one or "cost" in one or one["goals"]] == []
    _, text, _ = command("show", str(folders["parkopedia-2018"]), "-o", "wide")
    assert re.search(r"vgg16 +p2\.xlarge +1 +64 .* not published ", text)
    _, text, _ = command("show", str(folders["parkopedia-2018"]))
    assert "p2.xlarge" not in text, "their rows are one line"
    assert "\nNotPublished: 72 points: not published (-o wide has the rows)\n" in text
    _, text, _ = command("show", str(folders["initialized-2017"]))
    assert text.count("NotPublished ") >= 5, "unless there are no others"


def test_at_the_hourly_price_of_the_prose_the_figures_are_those_of_the_prose(tmp_path: Path) -> None:
    # 1.30 USD instead of the 1.1028 that its own table gives.
    text = (STUDIES / "parkopedia-2018.yaml").read_text(encoding="utf-8")
    owned = re.search(r"  ownership:\n(?:    .*\n)+", text)
    assert owned is not None
    rented = '  price: {perNodeHour: "1.30", currency: USD, asOf: "2018-07-01"}\n'
    (tmp_path / "prose.yaml").write_text(text.replace(owned[0], rented), encoding="utf-8")
    folder = import_into(tmp_path / "out", tmp_path / "prose.yaml", STUDIES / "published" / "parkopedia-2018.csv")
    found = derived_figures.of_folder(folder, "parkopedia-2018")
    same_figures(
        by_cell(found, "samples-per-money"),
        golden(r"park\.images_per_dollar\.4x1080ti\.(\w+)\.(b\d+)\.prose_1\.30"),
    )
    cost = by_workload(found, "goal-cost")
    same_figures(cost, golden(r"park\.imagenet\.cost\.4x1080ti\.(\w+)\.prose_1\.30"))


def test_the_office_box_costs_what_its_table_says_and_not_what_its_prose_says(
    derived: Mapping[str, Sequence[Derived]],
) -> None:
    (month,) = of_kind(derived["parkopedia-2018"], "own-month")
    (hour,) = of_kind(derived["parkopedia-2018"], "own-hour")
    (in_month,) = golden(r"park\.office\.(global_per_month)").values()
    (in_hour,) = golden(r"park\.office\.(hourly\.vs_prose)").values()
    assert (month.here, month.published) == (in_month.expected, in_month.published)
    assert (hour.here, hour.published) == (in_hour.expected, f"about {in_hour.published}")


def test_a_figure_whose_inputs_are_in_charts_has_no_number(derived: Mapping[str, Sequence[Derived]]) -> None:
    found = derived["parkopedia-2018"]
    without = [*of_kind(found, "break-even-days"), *of_kind(found, "gain")]
    assert len(without) == 4
    assert {(one.here, one.missing) for one in without} == {(None, "samples/s of gce-8xk80")}


# --- Max Woolf, 2017 --------------------------------------------------------------------------------------------------


def of_keras(found: Sequence[Derived], kind: str) -> dict[str, Derived]:
    """The figures of a kind, as the table calls them: `mnist_mlp k80-cntk`."""
    return {
        f"{one.key.workload} {one.key.pool}-{one.key.variant.name if one.key.variant else 'tensorflow'}": one
        for one in of_kind(found, kind)
    }


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("relative-time", r"mw\.(\w+)\.([\w-]+)\.time_rel"),
        ("relative-cost", r"mw\.(\w+)\.([\w-]+)\.cost_rel"),
        ("run-cost", r"mw\.(\w+)\.([\w-]+)\.cost_usd"),
    ],
)
def test_time_and_cost_of_the_keras_suite_are_those_that_were_printed(
    derived: Mapping[str, Sequence[Derived]], kind: str, rows: str
) -> None:
    here = of_keras(derived["keras-2017"], kind)
    same_figures(here, golden(rows))
    same_as_printed(here, golden(rows))
    assert here.keys() == golden(rows).keys()


def test_what_ran_on_another_framework_is_imported_beside_the_points_of_the_study(shown: Mapping[str, Any]) -> None:
    results = shown["keras-2017"]["status"]["results"]
    assert len(results) == 36
    cntk = [one for one in results if one.get("variant") == "cntk"]
    assert {(one["workload"], one["pool"]) for one in cntk} == {
        (one["workload"], pool) for one in results for pool in ("k80", "p100")
    }
    assert {one["state"] for one in results} == {"Measured"}


def test_a_training_of_one_run_has_its_seconds_and_no_interval(shown: Mapping[str, Any]) -> None:
    (found,) = [
        one
        for one in shown["keras-2017"]["status"]["results"]
        if (one["workload"], one["pool"], one.get("variant")) == ("mnist_mlp", "k80", None)
    ]
    training = found["training"]
    assert training["seconds"] == {"mean": 64.545583}
    assert (training["firstEpochSeconds"], training["epochs"]) == (3.610942, 20)
    assert training["quality"] == {"metric": "Accuracy", "final": {"mean": 0.9833}}
    assert "samplesPerSecond" not in found
    assert found["repeats"] == 1
    assert set(found["cost"]) == {"perRun"}


# --- RaRe Technologies, 2018 ------------------------------------------------------------------------------------------

#: Rows of the table, and the pool and workers of the points that they are about.
TWEETS = {
    "aws.k80": ("aws-low-end", 1), "aws.v100": ("aws-high-end", 1),
    "gce.k80": ("gce-low-end", 1), "gce.p100": ("gce-high-end", 1),
    "paperspace.p6000": ("paperspace-low-end", 1), "paperspace.v100": ("paperspace-high-end", 1),
    "softlayer.2xm60": ("ibm-softlayer-low-end", 2),
    "leadergpu.2x1080.multi": ("leadergpu-low-end", 2), "leadergpu.2xp100.multi": ("leadergpu-high-end", 2),
    "leadergpu.2x1080.single": ("leadergpu-low-end", 1),
    "multi_gpu_speedup.2x1080": ("leadergpu-low-end", 2),
    "multi_gpu_speedup.2xp100": ("leadergpu-high-end", 2),
}  # fmt: skip


def of_tweets(found: Sequence[Derived], kind: str) -> dict[tuple[str, int], Derived]:
    return {(one.key.pool, one.key.workers): one for one in of_kind(found, kind)}


def test_the_cost_of_each_run_of_the_tweets_is_the_published_one(derived: Mapping[str, Sequence[Derived]]) -> None:
    rows = golden(r"rare\.((?:aws|gce|paperspace|softlayer|leadergpu)\..*)")
    here = of_tweets(derived["tweets-2018"], "billed-cost")
    by_row = {name: here[TWEETS[name]] for name in rows}
    same_figures(by_row, rows)
    same_as_printed(by_row, rows)
    assert len(here) == 13


def test_two_gpus_against_one_are_as_fast_as_their_hours_say(derived: Mapping[str, Sequence[Derived]]) -> None:
    rows = golden(r"rare\.(multi_gpu_speedup\..*)")
    here = of_tweets(derived["tweets-2018"], "relative-speed")
    same_figures({name: here[TWEETS[name]] for name in rows}, rows)


def test_a_machine_without_a_printed_price_has_a_published_cost_and_none_here(
    derived: Mapping[str, Sequence[Derived]],
) -> None:
    here = of_tweets(derived["tweets-2018"], "billed-cost")
    for pool, workers, published in (("hetzner-dedicated", 1, "0.5"), ("ibm-softlayer-high-end", 4, "20.1")):
        found = here[pool, workers]
        assert (found.published, found.here, found.missing) == (published, None, f"the price of {pool}")


# --- Initialized Capital, 2017 ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "pool", "row"),
    [
        ("payback-days", "own-machine", r"init\.(break_even_days)"),
        ("relative-speed", "own-machine", r"init\.(speedup\.1080ti_over_p2)"),
        ("gain", "paperspace-p5000", r"init\.(p5000_cost_adjusted)"),
    ],
)
def test_an_own_machine_pays_for_itself_when_it_was_said_to(
    derived: Mapping[str, Sequence[Derived]], kind: str, pool: str, row: str
) -> None:
    (expected,) = golden(row).values()
    (here,) = [one for one in of_kind(derived["initialized-2017"], kind) if one.key.pool == pool]
    assert here.here == expected.expected


def test_where_only_ratios_were_printed_no_point_has_a_speed_of_its_own(shown: Mapping[str, Any]) -> None:
    results = shown["initialized-2017"]["status"]["results"]
    assert {one["state"] for one in results} == {"NotPublished"}
    assert [one for one in results if "samplesPerSecond" in one] == []
    (own,) = [one for one in results if one["pool"] == "own-machine"]
    assert own["reason"] == "not published: only that it was 167 times as fast as macbook-pro, 1 worker"


# --- every study ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_each_figure_says_whose_it_is(shown: Mapping[str, Any], folders: Mapping[str, Path], name: str) -> None:
    plan = json.loads((folders[name] / "plan.json").read_text(encoding="utf-8"))
    origin = plan["imported"]
    assert origin["source"]
    given = {one["point"] for one in origin["points"]}
    results = shown[name]["status"]["results"]
    marked = f"imported from {origin['publisher']}, {origin['published']}: not measured by gpubench"
    told = [one["warnings"] for index, one in enumerate(results) if index in given]
    assert {any(warning["message"].startswith(marked) for warning in warnings) for warnings in told} == {True}
    extrapolated = {one["point"] for one in origin["points"] if one.get("extrapolated")}
    assert {one["basis"] for index, one in enumerate(results) if index in given - extrapolated} == {"Imported"}
    assert "Measured" not in {one["basis"] for one in results}
    _, text, _ = command("show", str(folders[name]))
    assert origin["publisher"] in text


@pytest.mark.parametrize("name", NAMES)
def test_an_imported_folder_holds_what_its_files_say(folders: Mapping[str, Path], name: str) -> None:
    code, out, err = command("verify", str(folders[name]))
    assert (code, err) == (0, "")
    assert "every figure follows from the imported measurements" in out
    assert "and follow from no record here" in out


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("measurements.csv", "mnist_mlp,k80,,64.545583", "mnist_mlp,k80,,64.545584"),
        ("status.json", '"mean":64.545583', '"mean":64.545584'),
        ("plan.json", "64.545583", "64.545584"),
    ],
)
def test_a_changed_figure_is_found(folders: Mapping[str, Path], tmp_path: Path, file: str, old: str, new: str) -> None:
    shutil.copytree(folders["keras-2017"], tmp_path / "copy")
    path = tmp_path / "copy" / file
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert command("verify", str(tmp_path / "copy"))[0] == 1


def test_an_imported_point_is_ranked_among_its_like_only_and_is_called_imported(shown: Mapping[str, Any]) -> None:
    answer = shown["keras-2017"]["status"]["answer"]
    assert answer.count("Fastest ") == answer.count("Cheapest: ") == 6
    assert answer.count("(imported), ") + answer.count(", imported), ") == 12
    assert "k80" in answer


# --- one's own, from before -------------------------------------------------------------------------------------------

OWN_STUDY = """\
apiVersion: gpubench.dev/v1alpha1
kind: GpuPool
metadata: {name: old-box}
spec:
  slotsPerNode: 2
  maxNodes: 1
  slot: {cpu: "1", memory: 1Gi}
  price: {perNodeHour: "0.72", currency: EUR, asOf: "2026-11-01"}
---
apiVersion: gpubench.dev/v1alpha1
kind: GpuBenchmark
metadata: {name: own}
spec:
  sweep:
    - workloads: [mnist_cnn]
      pools: [old-box]
      workers: [1, 2]
      batchPerWorker: [64]
  measure: {repeats: {min: 1}}
"""
HEAD = "# publisher: us\n# source: the old log book\n# published: 2019-05-02\n"
OWN_ROWS = "workers,samples_per_second\n1,100\n1,104\n1,96\n2,150\n2,151\n"


def own_folder(folder: Path, rows: str = HEAD + OWN_ROWS) -> Path:
    (folder / "own.yaml").write_text(OWN_STUDY, encoding="utf-8")
    (folder / "own.csv").write_text(rows, encoding="utf-8")
    return import_into(folder / "out", folder / "own.yaml", folder / "own.csv")


def results_of(folder: Path) -> list[Any]:
    (study,) = json.loads(command("show", str(folder), "-o", "json")[1])["studies"]
    found: list[Any] = study["status"]["results"]
    return found


def test_three_runs_have_an_interval_and_two_have_none(tmp_path: Path) -> None:
    one, two = results_of(own_folder(tmp_path))
    assert one["values"] == [100.0, 104.0, 96.0]
    assert one["samplesPerSecond"]["mean"] == pytest.approx(100)
    # Student's t, two degrees of freedom: exp(4.3027 times 4 % over the root of 3).
    assert one["samplesPerSecond"]["high"] == pytest.approx(110.447, abs=0.001)
    assert two["samplesPerSecond"] == {"mean": 150.5}
    (line,) = two["scaling"]
    assert line["efficiency"] == {"mean": pytest.approx(0.7525)}
    assert two["cost"]["perMillionSamples"]["currency"] == "EUR"


def test_a_row_may_end_before_the_last_columns(tmp_path: Path) -> None:
    one, _ = results_of(own_folder(tmp_path, HEAD + "workers,samples_per_second,note\n1,100\n2,150,by hand\n"))
    assert one["values"] == [100.0]


def test_a_run_of_today_stands_beside_an_imported_one(tmp_path: Path) -> None:
    imported = own_folder(tmp_path)
    file = documents.read(tmp_path / "own.yaml")
    plan = freeze(file.benchmark(None).spec, file.pools, "2026-11-01T00:00:00Z")
    today = measured.folder(tmp_path / "today", plan, {0: (200.0,), 1: (300.0,)})
    code, out, err = command("compare", str(imported), str(today), "-o", "json")
    assert code == 0, err
    first, second = json.loads(out)["pairs"]
    assert first["difference"]["ratio"]["mean"] == pytest.approx(2.0)
    assert (first["a"]["basis"], first["b"]["basis"]) == ("Imported", "Measured")
    assert second["difference"]["verdict"] == "CannotTell"
    assert "A has 2" in second["difference"]["sentence"]
    _, text, _ = command("compare", str(imported), str(today))
    assert "old-box (imported)" in text


TRAINED_ELSEWHERE = HEAD + "workers,variant,seconds\n1,cntk,100\n"
BAD = [
    ("workers,samples_per_second\n1,100\n", "Write a line `# publisher: ...`"),
    ("# publisher: us\n# source: x\n# published: May\nworkers,samples_per_second\n1,100\n", "such as 2018-02"),
    (HEAD, "there are no rows"),
    (HEAD + "workers,samples_per_second\n", "there is no row below the columns"),
    (HEAD + "workers,images\n1,100\n", "own.csv:4: 'images' is no column of this file"),
    (HEAD + "workers,workers,samples_per_second\n1,1,100\n", "is there twice"),
    (HEAD + "workers,samples_per_second\n3,100\n", "own.csv:5: the benchmark has no point with workers 3"),
    (
        HEAD + "pool,samples_per_second\nold-box,100\n",
        "2 points of the benchmark have pool old-box: add a column workers",
    ),
    (HEAD + "workers,samples_per_second\n1,fast\n", "samples_per_second is 'fast': write a number"),
    (HEAD + "workers,samples_per_second\n1,-3\n", "samples_per_second is '-3'"),
    (HEAD + "workers,samples_per_second\n1,NaN\n", "samples_per_second is 'NaN'"),
    (HEAD + "workers,samples_per_second\n1,1_0\n", "samples_per_second is '1_0': write a number"),
    (TRAINED_ELSEWHERE, "own.csv:5: seconds is a figure of whole epochs"),
    (HEAD + "workers,samples_per_second\n1,0\n", "samples_per_second is 0: write a number from 1e-6 to 1e12"),
    (HEAD + "workers,samples_per_second\n1,1e308\n", "samples_per_second is 1e308: write a number from 1e-6 to 1e12"),
    (HEAD + "workers,efficiency\n2,94\n", "efficiency is 94: write a number from 0.0001 to 1.5, such as 0.94 for 94 %"),
    (HEAD + "workers,efficiency\n2,0\n", "efficiency is 0: write a number from 0.0001 to 1.5"),
    (
        HEAD + "workers,gpu_utilization\n2,78\n",
        "gpu_utilization is 78: write a number from 0 to 1, such as 0.82 for 82 %",
    ),
    (HEAD + "workers,times_as_fast,as_pool\n2,0,old-box\n", "times_as_fast is 0: write a number from 1e-6 to 1e6"),
    (HEAD + "workers,repeat,samples_per_second\n1,1e6000,1\n", "repeat is 1e6000: write a whole number"),
    (
        HEAD + f"workers,repeat,samples_per_second\n1,{'9' * 5000},1\n",
        f"repeat is {'9' * 40}: write a whole number of at most 6 digits",
    ),
    (
        HEAD + "workers;samples_per_second\n1;100\n",
        "own.csv:4: a semicolon is between the columns: save the file with commas",
    ),
    (HEAD + "workers\tsamples_per_second\n1\t100\n", "own.csv:4: a tab is between the columns"),
    (HEAD + "workers,samples_per_second,extrapolated\n1,100,no\n", "extrapolated is no: write yes, or leave it empty"),
    (HEAD + 'workers,samples_per_second,note\n1,100,"it ends\n', "own.csv:5: it cannot be read as CSV"),
    (HEAD.replace("2019-05-02", "2019-13") + "workers,samples_per_second\n1,100\n", "published is 2019-13"),
    (HEAD + "workers,repeat,samples_per_second\n1,1,100\n1,1,101\n", "repeat 1 of this point is in"),
    (HEAD + "workers,seconds\n1,100\n", "seconds is a figure of whole epochs"),
    (HEAD + "workers,samples_per_second,efficiency\n2,100,0.9\n2,100,0.8\n", "efficiency is a figure of the point"),
    (HEAD + "workers,times_as_fast\n2,1.5\n", "times_as_fast and as_pool belong together"),
    (
        HEAD + "workers,times_as_fast,as_pool\n2,1.5,elsewhere\n",
        "own.csv:5: 0 points of the benchmark train the same with pool elsewhere",
    ),
    (
        HEAD + "workers,variant,times_as_fast,as_pool\n2,cntk,1.5,old-box\n",
        "own.csv:5: times_as_fast of a variant that the benchmark does not have says nothing: remove it",
    ),
    (HEAD + "workers,samples_per_second\n1,100,7\n", "it has 3 cells"),
    (HEAD + f"workers,samples_per_second,note\n1,100,{'x' * 401}\n", "own.csv:5: note is xxx"),
]


@pytest.mark.parametrize(("rows", "sentence"), BAD)
def test_bad_input_is_refused_with_its_line(tmp_path: Path, rows: str, sentence: str) -> None:
    (tmp_path / "own.yaml").write_text(OWN_STUDY, encoding="utf-8")
    (tmp_path / "own.csv").write_text(rows, encoding="utf-8")
    code, out, err = command("import", str(tmp_path / "own.yaml"), str(tmp_path / "own.csv"), "--out",
                             str(tmp_path / "out"))  # fmt: skip
    assert (code, out) == (2, "")
    assert sentence in err
    assert not (tmp_path / "out").exists()


TRAINING = OWN_STUDY.replace("measure: {repeats: {min: 1}}", "measure: {mode: Training, repeats: {min: 1}}").replace(
    "      batchPerWorker: [64]\n",
    "      batchPerWorker: [64]\n      epochs: 20\n      data: {source: Volume, path: /data/mnist}\n",
)


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        ("100,500,0,", "first_epoch_seconds and evaluation_seconds are 500 of 100 seconds in all: look at their units"),
        ("100,60,60,", "first_epoch_seconds and evaluation_seconds are 120 of 100 seconds in all"),
        (
            "100,5,,1",
            "samples_per_second is 1: in 100 seconds that is 100 of 1200000 samples: look at the units of both",
        ),
        ("100,5,5,12000", None),
        ("100,5,5,", None),
    ],
)
def test_figures_of_one_row_must_fit_together(tmp_path: Path, cells: str, sentence: str | None) -> None:
    rows = "workers,seconds,first_epoch_seconds,evaluation_seconds,samples_per_second\n1," + cells + "\n"
    (tmp_path / "own.yaml").write_text(TRAINING, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + rows, encoding="utf-8")
    code, _, err = command("import", str(tmp_path / "own.yaml"), str(tmp_path / "own.csv"), "--out",
                           str(tmp_path / "out"))  # fmt: skip
    assert code == (2 if sentence else 0), err
    assert sentence is None or sentence in err


def test_a_time_to_a_target_is_no_surer_than_the_steps_at_which_it_was_looked_for(tmp_path: Path) -> None:
    rows = "workers,seconds,evaluated_every_seconds\n" + "1,600,60\n" * 3
    (tmp_path / "own.yaml").write_text(TRAINING, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + rows, encoding="utf-8")
    import_into(tmp_path / "out", tmp_path / "own.yaml", tmp_path / "own.csv")
    training = results.read_summary(tmp_path / "out").status.results[0].training
    assert training is not None
    assert training.seconds == intervals.of_mean([600.0] * 3, step=60.0)
    for cells in (",60", "600,601"):
        (tmp_path / "own.csv").write_text(HEAD + "workers,seconds,evaluated_every_seconds\n1," + cells + "\n")
        code, _, err = command("import", str(tmp_path / "own.yaml"), str(tmp_path / "own.csv"), "--out",
                               str(tmp_path / "other"))  # fmt: skip
        assert (code, "evaluated_every_seconds belongs beside seconds, and is at most as long" in err) == (2, True)


def test_a_first_epoch_that_is_left_out_is_left_out_of_the_samples_too(tmp_path: Path) -> None:
    timed = TRAINING.replace("mode: Training,", "mode: Training, timedRegion: {firstEpoch: Excluded},")
    study = timed.replace("epochs: 20", "epochs: 2")
    (tmp_path / "own.yaml").write_text(study, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + "workers,seconds,samples_per_second\n1,100,600\n", encoding="utf-8")
    import_into(tmp_path / "out", tmp_path / "own.yaml", tmp_path / "own.csv")


def test_a_quoted_cell_may_have_lines_and_signs_of_comments_and_lines_are_still_counted(tmp_path: Path) -> None:
    rows = 'workers,samples_per_second,note\n1,100,"one line\n# and another"\n# people only\n\n2,fast,\n'
    (tmp_path / "own.yaml").write_text(OWN_STUDY, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + rows, encoding="utf-8")
    _, _, err = command("import", str(tmp_path / "own.yaml"), str(tmp_path / "own.csv"), "--out", str(tmp_path / "o"))
    assert "own.csv:9: samples_per_second is 'fast'" in err
    folder = own_folder(tmp_path, HEAD + rows.replace("fast", "150"))
    assert results_of(folder)[0]["warnings"][1]["message"] == "one line\n# and another"


def test_a_quote_in_the_middle_of_a_cell_opens_no_quoted_one(tmp_path: Path) -> None:
    rows = 'workers,samples_per_second,note\n1,100,a 27" screen\n# people only, "quoted"\n2,150,"a ""quoted"" word"\n'
    one, two = results_of(own_folder(tmp_path, HEAD + rows))
    assert one["warnings"][1]["message"] == 'a 27" screen'
    assert two["warnings"][1]["message"] == 'a "quoted" word'


def test_a_row_that_names_no_variant_is_of_the_point_that_has_none() -> None:
    alone = builders.block(workers=[1])
    points = builders.plan(builders.spec({**alone, "variants": [{"name": "fast", "xla": True}]}, alone)).points
    row = import_study.Row("own.csv:2", {"workers": "1", "seconds": "100"})
    assert points[import_study._found(points, row)].key.variant is None


def test_rows_of_an_added_variant_must_fit_together_too(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(TRAINING, encoding="utf-8")
    rows = "workers,variant,seconds,samples_per_second\n1,cntk,100,1\n"
    (tmp_path / "own.csv").write_text(HEAD + rows, encoding="utf-8")
    code, _, err = command("import", str(tmp_path / "own.yaml"), str(tmp_path / "own.csv"), "--out",
                           str(tmp_path / "out"))  # fmt: skip
    assert code == 2
    assert "in 100 seconds that is 100 of 1200000 samples" in err


def test_repeats_that_are_the_same_to_the_last_digit_raise_a_question(tmp_path: Path) -> None:
    one, two = results_of(own_folder(tmp_path, HEAD + "workers,samples_per_second\n1,100\n1,100\n1,100\n2,150\n"))
    question = "all 3 repeats are the same to the last digit: were they measured, or copied?"
    assert question in [warning["message"] for warning in one["warnings"]]
    assert question not in [warning["message"] for warning in two["warnings"]]


def test_what_was_extrapolated_elsewhere_wins_no_comparison_of_speed(tmp_path: Path) -> None:
    rows = "workers,samples_per_second,extrapolated\n1,100,\n2,190,yes\n"
    folder = own_folder(tmp_path, HEAD + rows)
    one, two = results_of(folder)
    assert (one["basis"], two["basis"]) == ("Imported", "Extrapolated")
    assert (two["samplesPerSecond"], two["scaling"]) == ({"mean": 190.0}, [])
    answer = json.loads(command("show", str(folder), "-o", "json")[1])["studies"][0]["status"]["answer"]
    assert "1 worker at batch 64 on old-box (imported), 100 samples/s." in answer
    assert command("verify", str(folder))[0] == 0


# --- what was wrong once: by the command, from the file to the sentence -----------------------------------------------

OWN_MACHINE = {"lifetimeMonths": 30, "hoursPerMonth": 200, "currency": "USD", "asOf": "2019-05-02"}
DEARER = "owning is dearer than renting at any use"


@pytest.mark.parametrize(
    ("owned", "rented", "days", "told"),
    [
        (
            {"purchase": "2000", "perMonth": "5000", "watts": 1000, "perKilowattHour": "0.20"},
            "3.00",
            None,
            (DEARER, "buying never pays: "),
        ),
        (
            {"purchase": "60000", "lifetimeMonths": 12, "watts": 1000, "perKilowattHour": "0.20"},
            "3.00",
            None,
            (DEARER, "buying does not pay within its lifetime of 12 months"),
        ),
        # (8300 - 1000) / (1.10 - 73 / 730) hours
        (
            {"purchase": "8300", "residual": "1000", "perMonth": "73"},
            "1.10",
            304.2,
            ("buying has paid after 304.2 days",),
        ),
    ],
)
def test_a_machine_is_paid_by_all_that_it_costs_within_its_lifetime_or_never(
    tmp_path: Path, owned: dict[str, Any], rented: str, days: float | None, told: Sequence[str]
) -> None:
    pool, study = OWN_STUDY.split("---\n")
    pool = pool.replace("slotsPerNode: 2", "slotsPerNode: 1")
    price = '{perNodeHour: "0.72", currency: EUR, asOf: "2026-11-01"}'
    own = pool.replace(f"price: {price}", "ownership: " + json.dumps(OWN_MACHINE | owned))
    rent = pool.replace("old-box", "rented").replace("0.72", rented).replace("EUR", "USD")
    study = study.replace("[old-box]", "[old-box, rented]").replace("[1, 2]", "[1]")
    (tmp_path / "own.yaml").write_text("---\n".join((own, rent, study)), encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + "pool,samples_per_second\nold-box,100\nrented,100\n", encoding="utf-8")
    folder = import_into(tmp_path / "out", tmp_path / "own.yaml", tmp_path / "own.csv")
    (study_shown,) = json.loads(command("show", str(folder), "-o", "json")[1])["studies"]
    (compared,) = study_shown["status"]["comparisons"]
    assert compared["owning"].get("paybackDays") == days
    assert [words for words in told if words not in compared["sentence"]] == []
    assert compared["sentence"] in command("show", str(folder))[1]


def test_twice_as_fast_on_two_workers_is_no_base(tmp_path: Path) -> None:
    folder = own_folder(tmp_path, HEAD + "workers,samples_per_second\n1,142\n2,284\n")
    _, text, _ = command("show", str(folder))
    one, two = (line for line in text.splitlines() if line.startswith("mnist_cnn ") and " Measured " in line)
    assert "100 % (base)" in one
    assert "100 % " in two
    assert "(base)" not in two


def test_a_cost_at_the_low_end_of_a_price_is_not_shown_as_0(tmp_path: Path) -> None:
    moved = 'range: {low: "0.005", high: "5", period: 2026-08/2026-10}'
    study = OWN_STUDY.replace('"0.72", currency', f'"3.00", {moved}, currency')
    (tmp_path / "own.yaml").write_text(study, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + "workers,samples_per_second\n1,100\n", encoding="utf-8")
    _, text, _ = command("show", str(import_into(tmp_path / "out", tmp_path / "own.yaml", tmp_path / "own.csv")))
    # 0.005 and 5 an hour, for 10,000 seconds
    assert "0.01–13.89" in text


@pytest.mark.parametrize(
    ("rows", "tied", "told"),
    [
        ("1,500\n1,9000\n1,2900\n2,2500\n2,6000\n2,4331\n", 1, "A tie with 1 worker at batch 64 on old-box"),
        ("1,2900\n2,4331\n", 0, "nothing says that this is more than chance"),
    ],
)
def test_advice_is_as_sure_as_the_intervals_that_are_shown(tmp_path: Path, rows: str, tied: int, told: str) -> None:
    goal = (
        "  goals: [{name: much, workload: mnist_cnn, samples: 60000000}]\n  objective: {minimize: Cost, goal: much}\n"
    )
    (tmp_path / "own.yaml").write_text(OWN_STUDY + goal, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + "workers,samples_per_second\n" + rows, encoding="utf-8")
    folder = import_into(tmp_path / "out", tmp_path / "own.yaml", tmp_path / "own.csv")
    (study,) = json.loads(command("show", str(folder), "-o", "json")[1])["studies"]
    best = study["status"]["best"]
    assert (best["workers"], best["sure"], best["tied"]) == (2, False, tied)
    assert ("(tie)" in best["shown"]["pool"]) is bool(tied)
    advised = command("advise", str(folder))[1]
    assert told in advised
    assert ("in cost with" in study["status"]["answer"]) is bool(tied)


def test_days_of_prices_and_rates_are_told_beside_the_figures_that_stand_on_them(tmp_path: Path) -> None:
    rates = '  currency: USD\n  exchangeRates: [{from: EUR, rate: "1.1", asOf: "1999-01-01"}]\n'
    (tmp_path / "own.yaml").write_text(OWN_STUDY.replace("2026-11-01", "2099-01-01") + rates, encoding="utf-8")
    (tmp_path / "own.csv").write_text(HEAD + "workers,samples_per_second\n1,100\n", encoding="utf-8")
    folder = import_into(tmp_path / "out", tmp_path / "own.yaml", tmp_path / "own.csv")
    warned = [warning["message"] for warning in results_of(folder)[0]["warnings"]]
    assert [one for one in warned if one.startswith("odd price: that of old-box is of 2099-01-01, ")]
    assert [one for one in warned if one.startswith("stale exchange rate: that of EUR was read on 1999-01-01, ")]


def test_a_lowest_cost_without_another_pool_to_compare_it_with_says_so(shown: Mapping[str, Any]) -> None:
    answer = shown["parkopedia-2018"]["status"]["answer"]
    assert "on office-box (extrapolated)" in answer
    assert "3 measured without a price in USD, so no other pool is compared." in answer


def test_what_was_copied_from_an_earlier_publication_is_said_of_each_row(shown: Mapping[str, Any]) -> None:
    copied = {
        (one["workload"], one["pool"], one.get("variant"))
        for one in shown["keras-2017"]["status"]["results"]
        if any("June 2017" in warning["message"] for warning in one.get("warnings", ()))
    }
    # github.com/minimaxir/keras-cntk-benchmark: of the K80 with CNTK, lstm_text_generation alone has new epochs.
    again = ("imdb_bidirectional_lstm", "imdb_fasttext", "mnist_mlp", "mnist_cnn", "cifar10_cnn")
    assert copied == {(workload, "k80", "cntk") for workload in again}


def test_the_extrapolated_box_is_the_fastest_in_no_answer(shown: Mapping[str, Any]) -> None:
    answer = shown["parkopedia-2018"]["status"]["answer"]
    for workload, rate in (("inception3", 160), ("resnet50", 273), ("vgg16", 149)):
        fastest = f"1 worker at batch 64 on desktop (imported), {rate} samples/s"
        assert f"Fastest {workload} in mixed_float16: {fastest}" in answer
    assert "on office-box (imported)" not in answer


#: Cells that a careless or hostile hand may write.
_CELLS = st.one_of(
    st.sampled_from(["", "1", "2", "100", "0.94", "94", "yes", "old-box", "mnist_cnn", "float32", "-0", "1e400", "1E-9",
                     "NaN", "inf", "\u0665", "1_0", '"', '""', "#", "\x00", "\ud800", "1" * 400, "0x10", "64"]),
    st.text(max_size=20),
    st.floats().map(repr),
    st.decimals(allow_nan=True).map(str),
)  # fmt: skip


@st.composite
def _files(draw: st.DrawFn) -> bytes:
    """CSV with the columns that there are, mostly: quoted or not, by any separator and in any encoding."""
    separator = draw(st.sampled_from([",", ",", ",", ",", ";", "\t"]))
    columns = draw(st.lists(st.sampled_from(COLUMNS), min_size=1, max_size=6, unique=draw(st.booleans())))
    cells = st.one_of(_CELLS, _CELLS.map(lambda cell: '"' + cell.replace('"', '""') + '"'))
    rows = draw(st.lists(st.lists(cells, max_size=7), max_size=4))
    head = draw(st.sampled_from([HEAD, HEAD, HEAD, "", "# published: 2019-02-31\n" + HEAD]))
    lines = [separator.join(columns), *(separator.join(row) for row in rows)]
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return (head + end.join(lines) + end).encode(encoding, errors="replace")


@settings(max_examples=int(os.environ.get("IMPORTS", "300")), deadline=None, derandomize=True, database=None)
@given(content=_files(), study=st.sampled_from([OWN_STUDY, TRAINING]))
def test_any_file_is_imported_or_refused_with_one_sentence(content: bytes, study: str) -> None:
    """`IMPORTS=20000` for more of them."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "own.yaml").write_text(study, encoding="utf-8")
        (folder / "own.csv").write_bytes(content)
        code, out, err = command("import", str(folder / "own.yaml"), str(folder / "own.csv"), "--out",
                                 str(folder / "out"))  # fmt: skip
        assert code in (0, 2), err
        assert "Traceback" not in err
        if code == 2:
            assert err.startswith("gpubench: ")
            return
        status = json.loads((folder / "out" / "status.json").read_text(encoding="utf-8"), parse_constant=_refused)
        assert status["status"]["results"]
        assert not re.search(r"\b(nan|inf)\b", out.lower())


def _refused(constant: str) -> None:
    raise AssertionError(f"{constant} is in the results")


def test_what_tensorflow_published_becomes_efficiencies(tmp_path: Path) -> None:
    published = STUDIES / "published"
    folder = import_into(tmp_path / "out", published / "tensorflow-2017.yaml", published / "tensorflow-2017.csv")
    results = results_of(folder)
    assert len(results) == 207
    assert {one["state"] for one in results} == {"Measured"}
    (found,) = [
        one
        for one in results
        if (one["workload"], one["pool"], one["workers"], one["batchPerWorker"], one["data"])
        == ("resnet50", "dgx-1", 8, 64, "Synthetic")
    ]
    # tensorflow/docs_src/performance/benchmarks.md: 1734 images per second on eight P100, 219 on one.
    (line,) = found["scaling"]
    assert line["efficiency"] == {"mean": pytest.approx(1734 / (8 * 219))}


def test_imported_trainings_are_compared_by_their_seconds(tmp_path: Path) -> None:
    lines = (STUDIES / "published" / "keras-2017.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    head = [line for line in lines if line.startswith(("#", "workload,"))]

    def of_pool(pool: str) -> str:
        measurements = tmp_path / f"{pool}.csv"
        measurements.write_text("".join((*head, *(line for line in lines if f",{pool}," in line))), encoding="utf-8")
        return str(import_into(tmp_path / pool, STUDIES / "keras-2017.yaml", measurements))

    code, out, err = command("compare", of_pool("k80"), of_pool("p100"), "-o", "json")
    assert code == 0, err
    first, *_ = json.loads(out)["pairs"]
    assert (first["quantity"], first["a"]["pool"], first["b"]["pool"]) == ("Seconds", "k80", "p100")
    # Max Woolf, 2017, mnist_mlp: 64.5 s on a K80, 55.3 s on a P100.
    assert first["difference"]["ratio"] == {"mean": pytest.approx(64.545583 / 55.251662)}
    assert first["difference"]["sentence"] == "cannot tell: an interval needs 3 repeats, and A has 1 and B has 1"


def test_a_report_says_whose_the_measurements_are(folders: Mapping[str, Path], tmp_path: Path) -> None:
    page = tmp_path / "report.md"
    code, _, err = command("report", *(str(folder) for folder in folders.values()), "--markdown", str(page))
    assert code == 0, err
    text = page.read_text(encoding="utf-8").replace("\\", "")
    assert "Its measurements are those of Parkopedia AVP, 2018: https://avp-project.uk" in text


def test_pools_from_standard_input_or_a_folder_are_kept_with_what_they_are_for(tmp_path: Path) -> None:
    study, measurements = STUDIES / "tweets-2018.yaml", STUDIES / "published/tweets-2018.csv"
    parts = study.read_text().split("\n---\n")
    pools = "\n---\n".join(part for part in parts if "kind: GpuPool" in part)
    (tmp_path / "study.yaml").write_text("\n---\n".join(part for part in parts if "kind: GpuPool" not in part))
    (tmp_path / "pools").mkdir()
    (tmp_path / "pools/all.yaml").write_text(pools)
    for name, stdin in (("-", pools), ("pools", "")):
        made, again = f"by{name}", f"again{name}"
        for asked in (
            ("import", "study.yaml", str(measurements), "--pools", name, "--out", made),
            ("reprice", made, "--pools", name, "--out", again),
            ("verify", made, again),
        ):
            ended = command(*asked, folder=tmp_path, stdin=stdin)
            assert ended.returncode == 0, ended.stderr
        kept = ((tmp_path / made / results.STUDY).read_text(), (tmp_path / again / results.PRICES).read_text())
        assert {text.count("kind: GpuPool") for text in kept} == {pools.count("kind: GpuPool")}


def test_columns_are_those_of_the_table_that_is_sorted(tmp_path: Path) -> None:
    asked = ("import", str(STUDIES / "keras-2017.yaml"), str(STUDIES / "published/keras-2017.csv"), "--out", "found")
    assert command(*asked, folder=tmp_path).returncode == 0
    ended = command("show", "found", "--sort", "MINUTES", "--top", "2", "--columns", "POOL,MINUTES", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert len(re.findall(r"^\S+ +[0-9.]+$", ended.stdout, re.MULTILINE)) == 2
