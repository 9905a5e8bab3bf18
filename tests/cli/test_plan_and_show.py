# SPDX-License-Identifier: Apache-2.0
"""What would be run, and what was found: as tables for people and as text that programs read back without loss."""

import contextlib
import csv
import datetime
import importlib.util
import io
import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

import builders
import measured
from gpubench.analysis import answer
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.api.condition import Condition
from gpubench.api.point_result import AmountInterval, BillParts, Cost, PointBill, PointResult, PointState, Scaling
from gpubench.api.price_result import PriceUsed, Spent
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.scheduler.ledger import Outcome
from gpubench.values import Interval
from gpubench_cli import __main__ as program
from gpubench_cli import cluster, documents, run, show, terminal
from gpubench_cli.results import ResultsFolder, Summary
from gpubench_cluster import kube
from stand_in_cluster import StandInCluster

QUICKSTART = Path(__file__).parents[2] / "jobs/examples/quickstart.yaml"
STUDIES = Path(__file__).parents[2] / "jobs/studies"

MEASURED = PointResult(
    workload="mnist_cnn",
    pool="local-cpu",
    workers=2,
    workers_per_node=1,
    batch_per_worker=64,
    global_batch=128,
    precision="float32",
    state=PointState.MEASURED,
    values=(1690.25, 1700.0, 1709.75),
    throughput=Interval(mean=1700.0, low=1675.7, high=1724.3),
    scaling=(Scaling(kind="weak", baseline_workers=1, efficiency=Interval(mean=0.85, low=0.83, high=0.87)),),
    cost=Cost(per_million_samples=AmountInterval(mean="0.013072", low="0.012888", high="0.013261", currency="USD")),
    nodes=2,
    environment="gv3rec33ejt2",
)
SKIPPED = MEASURED.model_copy(
    update={
        "workers": 8,
        "global_batch": 512,
        "state": PointState.SKIPPED,
        "reason": "8 workers need 8 nodes, and local-cpu has at most 2",
        "values": (),
        "throughput": None,
        "scaling": (),
        "cost": None,
        "nodes": 0,
        "environment": None,
    }
)
AT = "2026-11-01T00:00:00Z"
STATUS = FullStatus(
    phase="Succeeded",
    points_done="2/2",
    results=(MEASURED, SKIPPED),
    answer="2 workers at batch 64 on local-cpu: 1,700 ± 24 samples/s.",
    conditions=(
        Condition(type="Finished", status="True", reason="x", message="done", last_transition_time=AT),
    ),
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plan = freeze(builders.spec(), (builders.pool(),), "2026-11-01T00:00:00Z")
    results = ResultsFolder.create(tmp_path / "three-cnns", study_text=QUICKSTART.read_text(), plan=plan)
    results.write(Summary(name="quickstart", uid="u", machine="here", status=STATUS))
    return results.path


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert program.main(arguments) == code
    captured = capsys.readouterr()
    assert captured.err == "", "results go to standard output only"
    return captured.out


def test_a_folder_is_shown_as_a_table(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "show", str(folder))
    assert out.startswith(f"quickstart ({folder}): Succeeded, 2/2 points have ended\n")
    assert "1,700 ± 24" in out
    assert "85.0 % (83.0–87.0)" in out
    assert "USD 0.01307 (0.01289–0.01326)" in out
    assert "Skipped: mnist_cnn on local-cpu, 8 workers at batch 64, float32: 8 workers need 8 nodes" in out
    assert STATUS.answer is not None
    assert STATUS.answer in out
    assert "\x1b" not in out, "no control characters in a pipe"


@pytest.mark.parametrize(
    ("chosen", "rows"),
    [
        (("--sort", "samples/s"), ["2 1,700 ± 24", "8 –"]),
        (("--sort", "-SAMPLES/S"), ["2 1,700 ± 24", "8 –"]),
        (("--sort", "-WORKERS"), ["8 –", "2 1,700 ± 24"]),
        (("--sort", "STATE", "--top", "1"), ["2 1,700 ± 24"]),
        (("--pool", "local-cpu", "--top", "9"), ["2 1,700 ± 24", "8 –"]),
    ],
)
def test_rows_and_columns_are_chosen(
    folder: Path, chosen: tuple[str, ...], rows: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = said(capsys, "show", str(folder), *chosen, "--columns", "WORKERS,samples/s")
    table = out.split("\n\n")[2].splitlines()
    assert [" ".join(line.split()) for line in table] == ["WORKERS SAMPLES/S", *rows]


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        (("--sort", "price"), "there is no column 'price': there are WORKLOAD, POOL, "),
        (("--columns", "POOL,price"), "there is no column 'price': there are WORKLOAD, POOL, "),
        (("--pool", "k80"), "--pool k80: no point is of that pool: the benchmark has local-cpu"),
        (("--top", "1", "-o", "json"), "--bill, --pool, --sort, --top and --columns are for tables: leave them out"),
    ],
)
def test_what_cannot_be_chosen_is_said(
    folder: Path, chosen: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(("show", str(folder), *chosen)) == 2
    assert says in capsys.readouterr().err


def test_a_plan_in_total(capsys: pytest.CaptureFixture[str]) -> None:
    whole, total = (said(capsys, "plan", str(QUICKSTART), *more) for more in ((), ("--summary",)))
    assert "TRIAL" in whole
    assert "TRIAL" not in total
    assert total.splitlines()[0] == whole.splitlines()[0]
    assert total.splitlines()[-3:] == whole.splitlines()[-3:]
    assert program.main(("plan", str(QUICKSTART), "--summary", "-o", "json")) == 2
    assert "--summary is text for people: leave it out, or -o json" in capsys.readouterr().err


BILL = PointBill(
    total="0.012000",
    currency="USD",
    per_run="0.004000",
    attempts=4,
    incomplete=1,
    parts=BillParts(image_pull="0.001200", start_up="0.003000", measured="0.004800", lost="0.003000"),
)


def billed(tmp_path: Path, *bills: PointBill | None) -> Path:
    points = tuple(MEASURED.model_copy(update={"bill": bill}) for bill in bills)
    used = PriceUsed(
        pool="local-cpu", per_node_hour="0.36", currency="USD", as_of="2018-07-01", source="a list", low="0.3",
        high="0.4", period="2018-05/2018-06", setup="2.5",
    )  # fmt: skip
    plan = freeze(builders.spec(), (builders.pool(),), "2026-11-01T00:00:00Z")
    results = ResultsFolder.create(tmp_path / "billed", study_text=QUICKSTART.read_text(), plan=plan)
    status = STATUS.model_copy(update={"results": points, "prices": (used,)})
    results.write(Summary(name="quickstart", uid="u", machine="here", status=status))
    return results.path


def test_a_bill_is_shown_part_by_part_with_what_was_lost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = billed(tmp_path, BILL)
    assert program.main(("show", str(folder))) == 0
    assert "BILLED" not in capsys.readouterr().out
    assert program.main(("show", str(folder), "--bill")) == 0
    shown = capsys.readouterr().out
    (row,) = [line for line in shown.splitlines() if "USD 0.012" in line and "mnist_cnn" in line]
    assert row.split()[-10:] == ["≥", "USD", "0.012", "USD", "0.004", "4", "10.0", "25.0", "40.0", "25.0"]
    assert "PULL: image and volumes" in shown
    assert "LOST: everything of attempts that came to no result" in shown
    assert "≥: the pods of some attempts were gone" in shown
    assert (
        "Billed for 4 attempts: USD 2.512, USD 2.5 of it for setup; USD 0.003 for attempts without a result." in shown
    )
    assert (
        "Price of local-cpu: USD 0.36 per node-hour, read 2018-07-01 (a list); between 0.3 and 0.4 in "
        "2018-05/2018-06; setup USD 2.5 once"
    ) in shown


def test_what_was_not_billed_has_no_zero(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("show", str(billed(tmp_path, None)), "--bill")) == 0
    assert "Nothing was billed: no attempt has ended on a pool that has a price." in capsys.readouterr().out


def test_bills_are_in_every_output_for_programs_and_the_flag_is_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(billed(tmp_path, BILL, None))
    assert program.main(("show", folder, "-o", "json")) == 0
    one, other = json.loads(capsys.readouterr().out)["studies"][0]["status"]["results"]
    assert one["bill"] == BILL.to_wire()
    assert "bill" not in other
    assert program.main(("show", folder, "-o", "csv")) == 0
    first, second = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (first["billed"], first["billed_lost"], first["billed_attempts"]) == ("0.012000", "0.003000", "4")
    assert (second["billed"], second["billed_lost"], second["billed_attempts"]) == ("", "", "")
    assert program.main(("show", folder, "-o", "csv", "--bill")) == 2
    assert "are for tables: leave them out, or -o csv" in capsys.readouterr().err


def test_what_was_spent_is_shown_with_its_clock_and_what_the_budget_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spent = Spent(amount="12.31", currency="USD", clock="of pods", assumed_attempts=1)
    exhausted = Condition(
        type="BudgetExhausted", status="True", reason="x", message="2 trials were not run", last_transition_time=AT
    )
    status = STATUS.model_copy(update={"spent": spent, "conditions": (*STATUS.conditions, exhausted)})
    plan = freeze(builders.spec(), (builders.pool(),), "2026-11-01T00:00:00Z")
    results = ResultsFolder.create(tmp_path / "spent", study_text=QUICKSTART.read_text(), plan=plan)
    results.write(Summary(name="quickstart", uid="u", machine="here", status=status))
    out = said(capsys, "show", str(results.path))
    assert "Spent: about USD 12.31 (of 1 attempt the end of a pod was not seen)." in out
    assert "Budget: 2 trials were not run." in out


def test_a_benchmark_of_a_cluster_is_shown_like_its_folder_with_its_namespace(
    recorded_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = StandInCluster(recorded_folder)
    monkeypatch.setattr(cluster, "connect", lambda _: contextlib.nullcontext(place))
    shown = said(capsys, "show", "quickstart")
    assert shown.startswith("quickstart (namespace default): Succeeded")
    assert shown == said(capsys, "show", str(recorded_folder)).replace(str(recorded_folder), "namespace default")
    (study,) = json.loads(said(capsys, "show", "quickstart", "-o", "json"))["studies"]
    assert (study["source"], study["spec"]["sweep"][0]["workers"]) == ("namespace default", [1, 2])

    def refused(_: str) -> None:
        raise kube.Forbidden("x", code=403, reason="no")

    monkeypatch.setattr(place, "config_map", refused)
    assert program.main(("show", "quickstart")) == 0
    out, err = capsys.readouterr()
    assert "you may not read ConfigMaps in namespace default, where its analysis is: this is its summary" in err
    assert out.startswith("quickstart (namespace default): Succeeded")


def test_an_analysis_that_somebody_edited_is_named_and_made_again(
    recorded_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = StandInCluster(recorded_folder)
    monkeypatch.setattr(cluster, "connect", lambda _: contextlib.nullcontext(place))
    shown, stored = said(capsys, "show", "quickstart"), place.config_map
    asked = list[str]()

    def edited(name: str) -> dict[str, Any]:
        asked.append(name)
        body = stored(name)
        assert body is not None
        return body | {"data": {key: text + " " for key, text in body["data"].items()}}

    monkeypatch.setattr(place, "config_map", edited)
    assert program.main(("show", "quickstart")) == 0
    out, err = capsys.readouterr()
    assert f"ConfigMap {asked[0]} is not what the operator has written: analysed again from its attempts" in err
    assert "WORKLOAD" in out
    assert out.partition("WORKLOAD")[2] == shown.partition("WORKLOAD")[2]


def test_several_studies_follow_each_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "show", str(folder), str(folder)).count("2/2 points have ended") == 2
    rows = [*csv.DictReader(io.StringIO(said(capsys, "show", str(folder), str(folder), "-o", "csv")))]
    assert [row["state"] for row in rows] == ["Measured", "Skipped"] * 2


def test_an_answer_that_was_not_stored_is_given_again(capsys: pytest.CaptureFixture[str]) -> None:
    show.show_status("three", "here", STATUS.model_copy(update={"answer": None}))
    assert f"\n\n{answer.answer(STATUS.results)}\n" in capsys.readouterr().out


def test_libraries_that_a_training_needs_and_that_are_missing_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(terminal.CliError, match="training needs TensorFlow and Horovod, not installed here"):
        run.refuse_missing_libraries(builders.plan())


def test_who_may_not_read_the_analysis_is_told_who_keeps_it_from_him() -> None:
    summary = show.Shown(name="three", source="here", status=GpuBenchmarkStatus())
    with pytest.raises(terminal.CliError, match="three: this needs its analysis, and you may not read the ConfigMaps"):
        summary.full()


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_json_and_yaml_lose_nothing(
    folder: Path, capsys: pytest.CaptureFixture[str], output: str, read: Callable[[str], Any]
) -> None:
    document = read(said(capsys, "show", str(folder), "-o", output))
    (study,) = document["studies"]
    assert FullStatus.model_validate(study["status"]) == STATUS
    assert study["spec"]["sweep"][0]["workers"] == [1, 2], "the spec as the user wrote it"
    assert (study["name"], study["source"]) == ("quickstart", str(folder))


def test_csv_loses_no_digit_and_invents_no_zero(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    measured, skipped = csv.DictReader(io.StringIO(said(capsys, "show", str(folder), "-o", "csv")))
    assert tuple(float(value) for value in measured["values"].split()) == MEASURED.values
    assert float(measured["weak_efficiency_low"]) == 0.83
    assert Decimal(measured["cost_per_million_samples"]) == Decimal("0.013072")
    assert (measured["study"], measured["currency"]) == ("quickstart", "USD")
    assert skipped["samples_per_second"] == skipped["cost_per_million_samples"] == skipped["nodes"] == ""
    assert skipped["reason"] == SKIPPED.reason


@pytest.mark.parametrize(
    ("repeats", "said_of_it"),
    [
        # t(2) x 0.19 % / sqrt(3), and of nine in ten 0.85 %
        ("{min: 3}", "3 runs probably know a throughput to ±0.5 %, nine times in ten to ±2 %"),
        ("{min: 5}", "5 runs probably know a throughput to ±0.2 %, nine times in ten to ±1 %"),
        ("{min: 2}", "unknown: an interval needs 3 runs of a point"),
    ],
)
def test_a_plan_for_gpus_says_how_well_so_many_repeats_will_know(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, repeats: str, said_of_it: str
) -> None:
    written = QUICKSTART.read_text(encoding="utf-8").replace("repeats: {min: 3}", f"repeats: {repeats}")
    assert "Precision: " not in said(capsys, "plan", str(QUICKSTART)), "nobody knows how processors scatter"
    (gpus := tmp_path / "gpus.yaml").write_text(
        written.replace("    cpu: ", "    gpuResource: nvidia.com/gpu\n    cpu: "), encoding="utf-8"
    )
    assert f"Precision: {said_of_it}" in said(capsys, "plan", str(gpus))


def test_a_plan_shows_points_trials_time_nodes_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "plan", str(QUICKSTART))
    assert out.startswith("quickstart: 2 points, 6 trials\n")
    assert "Time: about 2m30s (1m30s to " in out
    assert "trials one after the other; waiting for nodes" in out
    assert "Nodes: 2 of local-cpu.\nPrice of local-cpu: USD 0.04 per node-hour, read " in out
    assert "; 0.96 a day, 29.20 a month of 730 hours.\n" in out
    # 3 trials on one node and 3 on two, 25 s each, at 0.04 an hour: 225 s x 0.04 / 3600
    assert "Cost: about USD 0.0025 (0.0015 to " in out
    trials = [line.split() for line in out.splitlines() if line[:1].isdigit()]
    assert out.splitlines()[2].split()[5:9] == ["NODES", "PRICE/H", "TIME/TRIAL", "COST/TRIAL"]
    assert [trial[0] for trial in trials] == ["1", "2", "3", "4", "5", "6"]
    assert [trial[-1] for trial in trials] == ["1", "1", "2", "2", "3", "3"], "repeat by repeat"


def test_a_plan_says_how_sure_it_is_and_from_what(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "plan", str(QUICKSTART))
    assert "25s (15s–" in out
    assert "settings" in out
    assert "Estimated from settings (2 points): measure.warmUp and duration, and 15 s of start-up, assumed" in out


def test_a_plan_learns_from_a_study_that_has_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = documents.read(QUICKSTART)
    plan = freeze(found.benchmark(None).spec, found.pools, "2026-11-01T00:00:00Z")
    earlier = ResultsFolder(measured.folder(tmp_path / "earlier", plan, {0: (900.0, 910.0, 905.0)}))
    held = {"outcome": Outcome.SUCCEEDED, "pod_times": ((0.0, 0.0, 19.0),)}
    earlier.append([builders.attempt(trial=trial.id, **held) for trial in plan.trials])
    out = said(capsys, "plan", str(QUICKSTART), "--history", str(earlier.path))
    assert "19s (19s–19s)" in out
    assert "Estimated from history (2 points): 3 earlier attempts" in out
    assert "Estimated from settings" not in out
    assert program.main(("plan", str(QUICKSTART), "--history", str(tmp_path))) == 2
    assert "is no results folder" in capsys.readouterr().err


def test_a_plan_learns_from_a_benchmark_of_the_cluster_in_its_namespace(
    recorded_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str | None] = []

    def connect(namespace: str | None) -> contextlib.nullcontext[StandInCluster]:
        asked.append(namespace)
        return contextlib.nullcontext(StandInCluster(recorded_folder))

    monkeypatch.setattr(cluster, "connect", connect)
    study = str(recorded_folder / "study.yaml")
    out = said(capsys, "plan", study, "--history", "quickstart", "-n", "team-b")
    assert "Estimated from history (2 points)" in out
    assert asked == ["team-b"]


@pytest.mark.parametrize(
    ("budget", "verdict"),
    [
        ("0.0001", "not enough: the benchmark will stop"),
        ("0.003", "may not be enough"),
        ("0.0155", "may not be enough"),
        ("9", "enough, as far as"),
    ],
)
def test_a_plan_says_whether_its_budget_will_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], budget: str, verdict: str
) -> None:
    text = QUICKSTART.read_text()
    assert "  limits:\n" in text
    (tmp_path / "study.yaml").write_text(text.replace("  limits:\n", f'  limits:\n    budget: "{budget}"\n'))
    assert f"Budget: USD {budget}: {verdict}" in said(capsys, "plan", str(tmp_path / "study.yaml"))


def test_a_budget_without_a_price_is_refused_with_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = QUICKSTART.read_text().replace("  limits:\n", '  limits:\n    budget: "40.00"\n')
    start, end = text.index("  price:"), text.index("---", text.index("  price:"))
    (tmp_path / "study.yaml").write_text(text[:start] + text[end:])
    assert program.main(("plan", str(tmp_path / "study.yaml"))) == 2
    error = capsys.readouterr().err
    assert "limits.budget is 40.00, and what GpuPool local-cpu costs is not known" in error
    assert "study.yaml:" in error


def test_a_plan_whose_repeats_may_end_early_shows_ranges(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    until = 'repeats: {min: 3, max: 5, until: {relativeHalfWidth: "0.02"}}'
    (tmp_path / "study.yaml").write_text(QUICKSTART.read_text().replace("repeats: {min: 3} ", f"{until} "))
    out = said(capsys, "plan", str(tmp_path / "study.yaml"))
    assert out.startswith("quickstart: 2 points, 6 to 10 trials\n")
    assert "Order: repeat by repeat, each in an order of its own, shuffled with seed " in out
    assert "Repeats: 3 of each point, and up to 5 until its figure is known to ±2 % at 95 % confidence." in out
    assert "Time: about 4m10s (" in out, "if all of them are needed"
    # 5 trials on one node and as many on two, 25 s each, at 0.04 an hour
    assert "Cost: about USD 0.0042 (" in out


def test_the_plan_is_the_same_each_time_and_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = (json.loads(said(capsys, "plan", str(QUICKSTART), "-o", "json")) for _ in range(2))
    assert first["trials"] == second["trials"]
    assert Plan.model_validate(first).points[1].key.workers == 2
    assert yaml.safe_load(said(capsys, "plan", str(QUICKSTART), "-o", "yaml"))["trials"] == first["trials"]


def test_a_plan_says_what_is_skipped_and_what_has_no_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = QUICKSTART.read_text().replace("workers: [1, 2] ", "workers: [1, 4] ")
    start, end = text.index("  price:"), text.index("---", text.index("  price:"))
    (tmp_path / "study.yaml").write_text(text[:start] + text[end:])
    out = said(capsys, "plan", str(tmp_path / "study.yaml"))
    assert "Skipped: mnist_cnn on local-cpu, 4 workers" in out
    assert "4 workers need 4 nodes, and local-cpu has at most 2" in out
    assert "Warning: no cost for local-cpu: neither price nor ownership is given." in out
    assert "Cost: about" not in out


def test_a_plan_skips_workers_that_would_share_a_mig_instance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = list(yaml.safe_load_all(QUICKSTART.read_text()))
    for spec in (part["spec"] for part in parts if part["kind"] == "GpuPool"):
        spec |= {"slotsPerNode": 7, "accelerator": "A100-40GB", "exclusiveNodes": False}
        spec["slot"] |= {"gpuResource": "nvidia.com/mig-1g.5gb"}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump_all(parts))
    out = said(capsys, "plan", str(tmp_path / "study.yaml"))
    assert "2 points: 1 to run, 1 skipped" in out
    assert "CUDA shows the 2 workers of a pod of local-cpu one MIG instance: set sweep[].workersPerNode to 1" in out


def test_a_plan_names_a_price_that_is_too_old_to_go_by(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "asOf:" in QUICKSTART.read_text()
    aged = re.sub(r'asOf: "\S+"', 'asOf: "2018-07-01"', QUICKSTART.read_text())
    (tmp_path / "study.yaml").write_text(aged)
    out = said(capsys, "plan", str(tmp_path / "study.yaml"))
    assert "Warning: stale price: that of local-cpu was read on 2018-07-01, " in out
    assert " days before the plan: read it again.\n" in out
    fresh = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    (tmp_path / "study.yaml").write_text(aged.replace("2018-07-01", fresh))
    assert "Warning: stale price" not in said(capsys, "plan", str(tmp_path / "study.yaml"))


def test_a_plan_names_days_that_cannot_be_and_rates_that_are_too_old(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pool, study = QUICKSTART.read_text().split("kind: GpuBenchmark\n")
    assert "currency: USD" in pool
    odd = re.sub(r'asOf: "\S+"', 'asOf: "2099-01-01"', pool.replace("currency: USD", "currency: EUR"))
    rates = 'spec:\n  currency: USD\n  exchangeRates: [{from: EUR, rate: "1.1", asOf: "1999-01-01"}]\n'
    exchanged = study.replace("spec:\n", rates, 1)
    (tmp_path / "study.yaml").write_text(f"{odd}kind: GpuBenchmark\n{exchanged}")
    out = said(capsys, "plan", str(tmp_path / "study.yaml"))
    assert "Warning: odd price: that of local-cpu is of 2099-01-01, " in out
    assert "Warning: stale exchange rate: that of EUR was read on 1999-01-01, " in out
    assert "Price of local-cpu: USD 0.044 per node-hour, " in out
    assert "; 1 EUR = 1.1 USD on 1999-01-01; 1.06 a day, 32.12 a month of 730 hours.\n" in out
    assert program.main(("validate", str(tmp_path / "study.yaml"))) == 0
    told = capsys.readouterr().err
    assert "the price of GpuPool local-cpu is of 2099-01-01: write the day on which it was read\n" in told
    assert "EUR" not in told, "that it is old is said where figures stand on it"


def test_a_plan_says_what_other_pools_measure(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "plan", str(STUDIES / "parkopedia-2018.yaml"))
    # 9 instances of Amazon and a desktop, with 3 networks and 3 batches each, are measured; 6 pools are not.
    assert out.startswith("parkopedia-2018: 144 points: 90 to run, 54 measured by other pools; 270 trials\n")
    cells = [line.split() for line in out.splitlines() if line.startswith("vgg16 ") and " tpuv2 " in line]
    assert [" ".join(line[-5:]) for line in cells] == ["repriced from p3.8xlarge at 4"] * 3


def test_pools_may_come_from_a_file_of_their_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = QUICKSTART.read_text()
    cut = text.rindex("---\n")
    (tmp_path / "pools.yaml").write_text(text[:cut])
    (tmp_path / "study.yaml").write_text(text[cut:])
    arguments = ("plan", str(tmp_path / "study.yaml"), "--pools", str(tmp_path / "pools.yaml"))
    assert "2 points, 6 trials" in said(capsys, *arguments)
    assert program.main(("plan", str(QUICKSTART), "--pools", str(tmp_path / "pools.yaml"))) == 2
    assert "remove one of both" in capsys.readouterr().err


def test_the_quickstart_takes_about_a_minute_of_training() -> None:
    documents = list(yaml.safe_load_all(QUICKSTART.read_text()))
    pool, study = documents
    assert pool["metadata"]["name"] in study["spec"]["sweep"][0]["pools"]
    measure = study["spec"]["measure"]
    seconds = int(measure["warmUp"][:-1]) + int(measure["duration"][:-1])
    assert measure["repeats"] == {"min": 3}
    assert 2 * 3 * seconds == 60
