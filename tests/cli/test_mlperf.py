# SPDX-License-Identifier: Apache-2.0
"""`gpubench import --format mlperf`: result logs of MLPerf Training become results that every other command reads.

`mlperf_logs` has three real logs, with their source. The logs of other benchmarks here have the records that such logs
have in the rounds 5.0 and 5.1, with times and counts whose figures can be computed in the head.
"""

import csv
import importlib.util
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlperf_rules
from command_line import called as command
from gpubench_cli import mlperf, results
from gpubench_cli.terminal import CliError

LOGS = Path(__file__).parent / "mlperf_logs"
INDEX = Path(__file__).parents[1] / "benchmarks"
SYSTEM = "MI325X_EPYC_9575F_pytorch"
POINT = "llama2_70b_lora/mi325x-epyc-9575f-pytorch/8/1/unknown"
ENTRY = Path("AMD", "results", SYSTEM, "llama2_70b_lora")


def import_into(folder: Path, logs: Path, *options: str, code: int = 0) -> str:
    found, _, err = command(
        "import", "--format", "mlperf", str(logs), "--round", "v5.0", *options, "--out", str(folder)
    )
    assert found == code, err
    return err


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results folder of the real logs; tests that change it take a copy."""
    folder = tmp_path_factory.mktemp("mlperf") / "amd"
    import_into(folder, LOGS)
    return folder


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """A copy of the real logs, to be changed."""
    return Path(shutil.copytree(LOGS, tmp_path / "logs"))


def the_point(folder: Path) -> Any:
    code, out, err = command("show", str(folder), "-o", "json")
    assert code == 0, err
    (point,) = json.loads(out)["studies"][0]["status"]["results"]
    return point


# --- logs that are made here ------------------------------------------------------------------------------------------

Line = tuple[float, str, Mapping[str, object]] | tuple[float, str, Mapping[str, object], object]


def log(benchmark: str, lines: Sequence[Line], *, batch: int = 8, **said: object) -> bytes:
    """A log that begins at second 0 with what was set; each line is its second, key, metadata and value."""
    settings = {"submission_benchmark": benchmark, "submission_division": "closed", "global_batch_size": batch, **said}
    every: list[Line] = [(0, key, {}, value) for key, value in settings.items()]
    every += [(0, "run_start", {}), *lines]
    records = [
        {"namespace": "", "time_ms": 1_700_000_000_000 + round(at * 1000), "key": key, "value": (*value, None)[0]}
        | {"metadata": metadata}
        for at, key, metadata, *value in every
    ]
    return "".join(f"0: :::MLLOG {json.dumps(one)}\n" for one in records).encode()


def stop(at: float, status: str = "success") -> Line:
    return (at, "run_stop", {"status": status})


def blocks(*ends: float, samples: int = 80) -> list[Line]:
    """Blocks of so many samples that end then, each followed by an evaluation of a second."""
    found: list[Line] = []
    begun = 0.0
    for number, end in enumerate(ends, start=1):
        done = {"samples_count": number * samples}
        found += [(begun, "block_start", {"samples_count": done["samples_count"] - samples}), (end, "block_stop", done)]
        found += [(end, "eval_start", done), (end + 1, "eval_accuracy", done, 1 / number), (end + 1, "eval_stop", done)]
        begun = end + 1
    return found


def windows(content: bytes) -> Sequence[object]:
    return list(mlperf.read_run(content, "log").windows)


# --- what becomes of real logs ----------------------------------------------------------------------------------------


def test_the_figures_of_an_entry_are_those_of_its_logs(imported: Path) -> None:
    point = the_point(imported)
    assert (point["workload"], point["pool"]) == ("llama2_70b_lora", "mi325x-epyc-9575f-pytorch")
    assert (point["workers"], point["workersPerNode"], point["globalBatch"]) == (8, 8, 8)
    assert (point["precision"], point["basis"], point["state"]) == ("unknown", "Imported", "Measured")
    # run_stop - run_start of the three logs, in milliseconds.
    assert point["training"]["seconds"]["mean"] == pytest.approx((1279.131 + 1279.232 + 1278.546) / 3, abs=1e-9)
    assert point["training"]["quality"]["metric"] == "Loss"
    # 384 samples in each of the last four windows of the first log: in the first one it warms up.
    assert point["values"][0] == pytest.approx(4 * 384 / (140.617 + 140.685 + 140.660 + 140.709), rel=1e-9)


def test_several_systems_with_one_benchmark_are_pools_of_one_benchmark(logs: Path, tmp_path: Path) -> None:
    """Also two with the same accelerators of one submitter; one whose logs are no runs is named and left out."""
    for name in ("second", "bad"):
        shutil.copytree(logs / ENTRY.parent, logs / "AMD/results" / name)
        shutil.copy(logs / f"AMD/systems/{SYSTEM}.json", logs / f"AMD/systems/{name}.json")
    for path in (logs / "AMD/results/bad").rglob("result_*.txt"):
        path.write_bytes(b"")
    shutil.copytree(logs / ENTRY, logs / "AMD/results/second/bert")
    err = import_into(folder := tmp_path / "together", logs, "--name", "llama2_70b_lora", code=1)
    assert err.count("bad/llama2_70b_lora/result_") == 3
    code, out, err = command("show", str(folder), "-o", "json")
    assert code == 0, err
    points = json.loads(out)["studies"][0]["status"]["results"]
    assert [point["pool"] for point in points] == ["amd-8x-mi325x", "amd-8x-mi325x-2"]
    assert [point["values"] for point in points] == [points[0]["values"]] * 2
    code, out, err = command("verify", str(folder))
    assert code == 0, (out, err)
    (folder / results.COPIES / ENTRY / "result_1.txt").write_bytes(b"")
    assert command("verify", str(folder))[0] == 1


def test_a_folder_of_one_benchmark_is_a_part_of_a_submission_too(logs: Path, tmp_path: Path) -> None:
    shutil.copytree(logs / ENTRY, (logs / ENTRY).with_name("bert"))
    import_into(tmp_path / "alone", logs / ENTRY)
    assert the_point(tmp_path / "alone")["workload"] == "llama2_70b_lora"


def test_two_rounds_are_not_imported_as_one(logs: Path, tmp_path: Path) -> None:
    both = tmp_path / "both"
    for name in ("training_results_v5.0", "training_results_v5.1"):
        shutil.copytree(logs, both / name)
    err = import_into(tmp_path / "out", both, "--name", "llama2_70b_lora", code=2)
    assert "these are several rounds" in err
    assert "training_results_v5.0 or " in err


@pytest.mark.parametrize("nodes", ["0", "-1", "NaN", "Infinity", "1.5", '"one"'])
def test_a_system_has_a_number_of_nodes(logs: Path, tmp_path: Path, nodes: str) -> None:
    described = logs / f"AMD/systems/{SYSTEM}.json"
    facts = json.loads(described.read_text(encoding="utf-8")) | {"number_of_nodes": "NODES"}
    described.write_text(json.dumps(facts).replace('"NODES"', nodes), encoding="utf-8")
    err = import_into(tmp_path / "out", logs, code=1)
    assert f"AMD/systems/{SYSTEM}.json: number_of_nodes and accelerators_per_node must be " in err


def test_every_figure_says_that_it_is_not_verified(imported: Path, logs: Path, tmp_path: Path) -> None:
    name, other = str(imported), tmp_path / "other"
    (logs / ENTRY / "result_2.txt").unlink()  # the same results twice are not compared
    import_into(other, logs)
    point = the_point(imported)
    heading = (imported / results.MEASUREMENTS).read_text(encoding="utf-8")
    assert f"# source: result logs of AMD/results/{SYSTEM}, github.com/mlcommons/training_results_v5.0" in heading
    said = [warning["message"] for warning in point["warnings"]]
    assert all(mlperf.NOT_VERIFIED in one for one in said)
    assert any("MLPerf Training v5.0, closed, Available on-premise" in one for one in said)
    assert any("XGMI; 10G Ethernet; PyTorch 2.6.0, ROCm 6.4" in one for one in said)
    page = tmp_path / "page.html"
    for arguments in (
        ("show", name),
        ("explain", name, POINT),
        ("report", name, "--out", str(page)),
        ("compare", name, str(other)),
    ):
        code, out, err = command(*arguments)
        assert code == 0, err
        text = page.read_text(encoding="utf-8") if arguments[0] == "report" else out
        assert mlperf.NOT_VERIFIED in text, arguments


def test_verify_makes_the_figures_again_from_the_logs(imported: Path) -> None:
    code, out, _ = command("verify", str(imported))
    assert code == 0, out
    assert f"follow from the logs in {results.COPIES}/" in out


@pytest.mark.parametrize("name", [str(ENTRY / "result_1.txt"), f"AMD/systems/{SYSTEM}.json"])
def test_a_changed_byte_of_what_was_imported_is_found(imported: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(imported, tmp_path / "copy"))
    file = folder / results.COPIES / name
    content = file.read_bytes()
    file.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    code, out, _ = command("verify", str(folder))
    assert code == 1
    assert f"{results.COPIES}/{name}: it is missing, or not the file that was imported" in out


def test_a_log_that_was_removed_or_put_beside_the_others_is_found(imported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(imported, tmp_path / "copy"))
    last = folder / results.COPIES / ENTRY / "result_2.txt"
    shutil.copy(last, last.with_name("result_3.txt"))
    code, out, _ = command("verify", str(folder))
    assert (code, "its figures are not those of the logs" in out) == (1, True)
    last.with_name("result_3.txt").unlink()
    last.unlink()
    code, out, _ = command("verify", str(folder))
    assert (code, "result_2.txt: it is missing" in out) == (1, True)


def test_a_figure_that_was_changed_beside_the_logs_is_found(imported: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(imported, tmp_path / "copy"))
    file = folder / results.MEASUREMENTS
    file.write_text(file.read_text(encoding="utf-8").replace(",1279.131,", ",1179.131,"), encoding="utf-8")
    code, out, _ = command("verify", str(folder))
    assert (code, "measurements.csv: its figures are not those of the logs" in out) == (1, True)


def test_each_system_of_a_folder_has_results_of_its_own(logs: Path, tmp_path: Path) -> None:
    other = "MI300X"
    shutil.copytree(logs / "AMD" / "results" / SYSTEM, logs / "AMD" / "results" / other)
    shutil.copy(logs / "AMD" / "systems" / f"{SYSTEM}.json", logs / "AMD" / "systems" / f"{other}.json")
    import_into(tmp_path / "out", logs)
    assert sorted(one.name for one in (tmp_path / "out").iterdir()) == [f"AMD-{other}", f"AMD-{SYSTEM}"]
    code, out, _ = command("verify", *map(str, (tmp_path / "out").iterdir()))
    assert code == 0, out
    assert command("compare", *map(str, sorted((tmp_path / "out").iterdir()))).returncode == 0


# --- logs that are no run ---------------------------------------------------------------------------------------------

_WHOLE = [*blocks(10, 21, 32), stop(33)]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "X: it is empty"),
        (b"\n \n", "X: it is empty"),
        (b"a program's own words\n", "X: it has no line with :::MLLOG"),
        (log("bert", _WHOLE)[:-40], "X:20: the record is cut, or is no record of mllog"),
        (log("bert", _WHOLE[:-4]), "X:16: it ends without run_stop: it was cut, or its run came to no end"),
        (log("bert", _WHOLE) * 2, "X:24: run_start again, after line 4: these are two runs"),
        (log("bert", [*_WHOLE, stop(34)]), "X:21: run_stop again, after line 20: these are two runs"),
        (log("bert", [*blocks(10), stop(11, "aborted")]), "X:10: the run ended with status aborted: it has no time"),
        (log("bert", [*blocks(10), (11, "run_stop", {})]), "X:10: the run ended with status None: it has no time"),
        (log("bert", [stop(-2)]), "X:5: run_stop is 2 s before run_start"),
        (log("bert", [*blocks(10, 8), stop(33)]), "X:11: the clock goes back by 3 s, behind line 10"),
        (log("bert", _WHOLE, global_batch_size=None), "X: submission_benchmark or global_batch_size is missing"),
    ],
)  # fmt: skip
def test_a_log_that_is_no_run_has_a_sentence_with_its_place(content: bytes, sentence: str) -> None:
    with pytest.raises(CliError) as caught:
        mlperf.read_run(content, "X")
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_the_other_logs_are_imported_and_the_code_says_that_some_were_not(logs: Path, tmp_path: Path) -> None:
    bad = logs / ENTRY / "result_1.txt"
    bad.write_bytes(bad.read_bytes()[:-500])
    err = import_into(tmp_path / "out", logs, code=1)
    assert [line for line in err.splitlines() if "not imported" in line] == [
        f"not imported: {ENTRY}/result_1.txt:51: the record is cut, or is no record of mllog"
    ]
    point = the_point(tmp_path / "out")
    assert point["repeats"] == 2
    assert any("1 of 3 logs are no run" in one["message"] for one in point["warnings"])
    assert command("verify", str(tmp_path / "out")).returncode == 0


def _remove_description(logs: Path) -> None:
    (logs / "AMD" / "systems" / f"{SYSTEM}.json").unlink()


def _describe_in_words(logs: Path) -> None:
    file = logs / "AMD" / "systems" / f"{SYSTEM}.json"
    file.write_text(
        file.read_text(encoding="utf-8").replace('"number_of_nodes": "1"', '"number_of_nodes": "one"'), "utf-8"
    )


def _describe_none(logs: Path) -> None:
    file = logs / "AMD" / "systems" / f"{SYSTEM}.json"
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | {"number_of_nodes": "0"}), "utf-8")


def _empty_all(logs: Path) -> None:
    for file in (logs / ENTRY).glob("result_*.txt"):
        file.write_bytes(b"")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (_remove_description, f"systems/{SYSTEM}.json: No such file or directory"),
        (_describe_in_words, "number_of_nodes and accelerators_per_node must be numbers"),
        (_describe_none, "number_of_nodes and accelerators_per_node must be numbers above 0: they are 0 and 8"),
        (_empty_all, f"{ENTRY}/result_0.txt: it is empty"),
    ],
)
def test_nothing_is_imported_of_a_system_that_nobody_can_count(
    logs: Path, tmp_path: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    spoil(logs)
    assert sentence in import_into(tmp_path / "out", logs, code=1)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("model", "resource", "name"),
    [
        ("NVIDIA H200", "nvidia.com/gpu", "H200"),
        ("NVIDIA Blackwell GPU (B200-SXM-180GB)", "nvidia.com/gpu", "B200-SXM-180GB"),
        ("AMD Instinct MI300X 192GB HBM3", "amd.com/gpu", "MI300X"),
        ("TPU-trillium", "google.com/tpu", "TPU-trillium"),
        (LONG := f"X1-{'0123456789' * 7}", "nvidia.com/gpu", LONG),
    ],
)
def test_an_accelerator_is_called_as_buyers_do_and_asked_for_as_its_maker_has_it(
    logs: Path, tmp_path: Path, model: str, resource: str, name: str
) -> None:
    assert mlperf.short_name(model) == name
    file = logs / "AMD" / "systems" / f"{SYSTEM}.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"accelerator_model_name": model}))
    import_into(tmp_path / "out", logs)
    (pool,) = results.read_plan(tmp_path / "out").pools
    assert (pool.spec.slot.gpu_resource, pool.spec.accelerator) == (resource, model[:63])


def test_a_folder_without_logs_or_round_is_refused(logs: Path, tmp_path: Path) -> None:
    code, _, err = command("import", "--format", "mlperf", str(logs), "--out", str(tmp_path / "out"))
    assert (code, "Give --round, such as v5.1" in err) == (2, True)
    (tmp_path / "empty").mkdir()
    told = "there is no result_N.txt: give a folder of SUBMITTER/results/SYSTEM/"
    assert f"{told}BENCHMARK" in import_into(tmp_path / "out", tmp_path / "empty", code=2)
    assert f"{told}bert" in import_into(tmp_path / "out", logs, "--name", "bert", code=2)
    assert command("import", str(logs), "--out", str(tmp_path / "out")).returncode == 2


def test_the_round_may_be_that_of_the_repository(logs: Path, tmp_path: Path) -> None:
    place = logs.rename(tmp_path / "training_results_v4.1")
    code, _, err = command("import", "--format", "mlperf", str(place), "--out", str(tmp_path / "out"))
    assert code == 0, err
    assert "MLPerf Training v4.1" in err


# --- windows of each benchmark's records ------------------------------------------------------------------------------


def test_evaluations_are_outside_the_windows() -> None:
    run = mlperf.read_run(log("llama2_70b_lora", [*blocks(10, 21, 32), stop(33)]), "log")
    assert run.windows == ((10, 80), (10, 80), (10, 80))
    assert (run.seconds, run.evaluation_seconds, run.evaluated_every_seconds) == (33, 3, 11)
    assert run.quality == {"evaluation_loss": pytest.approx(1 / 3)}


def test_what_is_counted_before_training_begins_is_in_no_window() -> None:
    of_a_checkpoint: Line = (3, "eval_accuracy", {"samples_count": 16}, 0.1)
    later: list[Line] = [(line[0] + 5, *line[1:]) for line in blocks(10, 21)]
    assert windows(log("llama2_70b_lora", [of_a_checkpoint, *later, stop(30)])) == [(10, 80), (10, 80)]


def test_counts_inside_a_block_make_windows_and_a_short_rest_joins_the_one_before() -> None:
    # As NeMo logs: a block says how many samples it begins with, train_loss how many were trained.
    counts = [(second, "train_loss", {"samples_count": 8 * second}) for second in (10, 20, 30)]
    ends: list[Line] = [(32, "block_stop", {"samples_count": 0}), (32, "eval_start", {"samples_count": 256})]
    found = windows(log("llama2_70b_lora", [(0, "block_start", {"samples_count": 0}), *counts, *ends, stop(40)]))
    assert found == [(10, 80), (10, 80), (12, 96)]


def test_the_steps_of_an_evaluation_are_not_counted() -> None:
    inside: list[Line] = [(10.5, "tracked_stats", {"samples_count": 4096}, {"validation_step_time": 0.1})]
    lines = blocks(10, 21)
    assert windows(log("llama31_8b", [*lines[:3], *inside, *lines[3:], stop(22)])) == [(10, 80), (10, 80)]


def test_bert_counts_samples_as_epochs_and_goes_on_after_each_evaluation() -> None:
    lines: list[Line] = [(1, "epoch_start", {"epoch_num": 0}), (1, "block_start", {"first_epoch_num": 1})]
    for number, end in enumerate((11, 22, 33), start=1):
        lines += [
            (end, "eval_start", {"epoch_num": 1000 * number}),
            (end + 1, "eval_stop", {"epoch_num": 1000 * number}),
        ]
        lines += [(end + 1, "eval_accuracy", {"epoch_num": 1000 * number}, 0.24 * number)]
    run = mlperf.read_run(log("bert", [*lines, stop(34)]), "log")
    assert run.windows == ((10, 1000), (10, 1000), (10, 1000))
    assert run.quality == {"accuracy": pytest.approx(0.72)}


def test_without_the_beginnings_of_evaluations_these_are_inside_the_windows() -> None:
    lines: list[Line] = [(0, "epoch_start", {"epoch_num": 0})]
    lines += [(end, "eval_accuracy", {"epoch_num": 100 * end}, 0.7) for end in (10, 20)]
    run = mlperf.read_run(log("bert", [*lines, stop(20)]), "log")
    assert (run.windows, run.evaluation_seconds) == (((10, 1000), (10, 1000)), None)


@pytest.mark.parametrize(("benchmark", "epoch"), [("dlrm_dcnv2", 4000), ("rgat", 4000), ("retinanet", 1_170_301)])
def test_parts_of_an_epoch_are_counted_in_its_samples(benchmark: str, epoch: int) -> None:
    lines: list[Line] = [(5, "epoch_start", {"epoch_num": 0})]
    for number, end in enumerate((15, 26), start=1):
        lines += [
            (end, "eval_start", {"epoch_num": 0.25 * number}),
            (end + 1, "eval_stop", {"epoch_num": 0.25 * number}),
        ]
    found = windows(log(benchmark, [*lines, stop(27)], train_samples=4000))
    assert found == [(10, pytest.approx(epoch / 4, abs=1)), (10, pytest.approx(epoch / 4, abs=1))]


def test_a_run_that_counted_nothing_has_its_time_and_no_speed() -> None:
    run = mlperf.read_run(log("bert", [stop(33)]), "log")
    assert (run.seconds, run.samples_per_second, run.windows) == (33, None, ())


def test_the_number_of_the_epoch_that_begins_is_no_count() -> None:
    # As rgat's: epochs are numbered from 1 where they begin, and the parts that are trained are counted from 0.
    lines: list[Line] = []
    for epoch in (1, 2):
        begins, done = 20.0 * epoch, {"epoch_num": float(epoch)}
        lines += [(begins, "epoch_start", {"epoch_num": epoch}), (begins + 10, "eval_start", done)]
        lines += [(begins + 11, "eval_stop", done), (begins + 12, "epoch_stop", done)]
    assert windows(log("rgat", [*lines, stop(60)], train_samples=4000)) == [(10, 4000), (10, 4000)]


def test_an_evaluation_beside_the_next_epoch_takes_nothing_of_it() -> None:
    # As retinanet's: the next epoch begins before the last one's evaluation has ended.
    lines: list[Line] = [(0, "epoch_start", {"epoch_num": 0})]
    for number, end in enumerate((100, 205), start=1):
        lines += [(end, "epoch_stop", {"epoch_num": number - 1}), (end, "eval_start", {"epoch_num": number})]
        lines += [(end + 5, "epoch_start", {"epoch_num": number}), (end + 9, "eval_stop", {"epoch_num": number})]
    found = windows(log("retinanet", [*lines, stop(220)]))
    assert found == [(100, 1_170_301), (100, 1_170_301)]


def test_checkpoints_that_are_evaluated_after_the_run_count_up_to_the_target() -> None:
    # As Stable Diffusion's: a block says with how many samples it begins; run_stop is that of the passing checkpoint.
    lines: list[Line] = []
    for number in range(4):
        begins, done = 110 * number, {"samples_count": 512_000 * number}
        lines += [(begins, "block_start", done), (begins + 100, "block_stop", done)]
    for number in (1, 2, 3, 4):
        done = {"samples_count": 512_000 * number}
        lines += [(900 + number, "eval_start", done)]
        lines += [(900 + number, "eval_accuracy", done | {"metric": metric}, 90 - number) for metric in ("FID", "CLIP")]
        lines += [(900.5 + number, "eval_stop", done)]
    # One submitter writes the passing checkpoint's evaluation again, with the time at which it was written.
    lines += [(319.9, "eval_accuracy", {"samples_count": 1_536_000, "metric": "FID"}, 87)]
    run = mlperf.read_run(log("stable_diffusion", [*lines, stop(319.9)]), "log")
    assert run.windows == ((100, 512_000),) * 3
    assert run.quality == {"FID": 87, "CLIP": 87}
    facts = {"status": "available", "number_of_nodes": 2.0, "accelerators_per_node": 8.0}
    system = mlperf.System(Path("x"), facts, {"stable_diffusion": {"0": run}}, Counter(stable_diffusion=1), {}, ())
    assert "; FID 87, CLIP 87; 2 nodes of 8" in system.note("stable_diffusion", "v5.0")
    assert run.evaluated_every_seconds == pytest.approx(100)
    assert run.evaluation_seconds is None


@pytest.mark.parametrize(("warm", "steady"), [([30], 1), ([30], 3), ([30], 11), ([20, 30], 10)])
def test_the_first_window_warms_up_and_the_others_are_judged_as_of_own_measurements(
    warm: list[int], steady: int
) -> None:
    # An evaluation of a second follows each block.
    ends = [second - 1 for second in itertools.accumulate(seconds + 1 for seconds in [*warm, *[10] * steady])]
    run = mlperf.read_run(log("llama2_70b_lora", [*blocks(*ends), stop(ends[-1] + 1)]), "log")
    assert set(run.counted) == {(10.0, 80)}
    assert run.samples_per_second == pytest.approx(8)


# --- the score of the rules -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seconds", "failed", "minutes"),
    [
        (range(60, 660, 60), 0, 5.5),  # 1 to 10 minutes: the mean of 2 to 9
        ((60, 600, 120), 0, 2.0),
        ((60, 120, 180, 240, 3000), 0, 3.0),
        ((60, 120, 180, 240), 1, 3.0),  # one that failed is the slowest
        ((60, 120, 180), 2, None),
        ((60, 120), 0, None),
    ],
)
def test_the_fastest_and_the_slowest_run_are_dropped(
    seconds: Sequence[float], failed: int, minutes: float | None
) -> None:
    assert mlperf_rules.score(seconds, failed=failed, benchmark="bert", scaling=1.0) == minutes
    scaled = mlperf_rules.score(seconds, failed=failed, benchmark="bert", scaling=1.5)
    assert scaled == (minutes if minutes is None else pytest.approx(1.5 * minutes))


def test_of_unet3d_four_are_dropped_at_either_end() -> None:
    minutes = [1, 1, 1, 1, 5, 7, 99, 99, 99, 99]
    assert mlperf_rules.score([60 * one for one in minutes], failed=0, benchmark="unet3d", scaling=1.0) == 6


# --- both rounds ------------------------------------------------------------------------------------------------------


def table(name: str) -> list[dict[str, str]]:
    with (INDEX / f"mlperf_{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


ENTRY_KEY = ("round", "submitter", "system", "benchmark")


@pytest.fixture(scope="module")
def minutes() -> Mapping[tuple[str, ...], float | None]:
    """The score of each entry, from the committed table of runs."""
    seconds: dict[tuple[str, ...], list[float]] = {}
    scaling: dict[tuple[str, ...], float] = {}
    for row in table("runs"):
        key = tuple(row[name] for name in ENTRY_KEY)
        seconds.setdefault(key, []).append(float(row["seconds"]))
        scaling[key] = float(row["scaling"])
    failed = Counter(tuple(row[name] for name in ENTRY_KEY) for row in table("left_out"))
    return {
        key: mlperf_rules.score(found, failed=failed[key], benchmark=key[3], scaling=scaling[key])
        for key, found in seconds.items()
    }


def test_every_log_of_both_rounds_is_a_run_or_has_a_sentence_why_not() -> None:
    runs, left_out = table("runs"), table("left_out")
    paths = [(row["round"], row["path"]) for row in (*runs, *left_out)]
    assert len(paths) == len(set(paths)) == 3396
    assert all(row["why"].startswith(row["path"]) for row in left_out)
    assert [row for row in runs if not row["samples_per_second"]] == []


#: Where a published time is another: folder, benchmark and the time.
DIFFERENT = {
    # AMD's page about MangoBoost's; MangoBoost's own says 10.92.
    ("v5.0", "MI300X-LLMBoost-GPUBoost-4node", "llama2_70b_lora", "10.91"),
    # "At max scale" of NVIDIA's platform: Supermicro's entry of as many GPUs is the one that took 0.713 minutes.
    ("v5.0", "tyche_ngpu64_ngc25.03_hugectr", "dlrm_dcnv2", "0.7"),
    # NVIDIA's blog; the logs of its entry in this round give 0.770, and Supermicro's of the last one 0.713.
    ("v5.1", "tyche_ngpu64_ngc25.03_hugectr", "dlrm_dcnv2", "0.71"),
}


def test_published_times_are_those_of_the_table_of_runs(minutes: Mapping[tuple[str, ...], float | None]) -> None:
    different, same = set(), 0
    for row in table("published"):
        found = minutes[row["round"], row["submitter"], row["folder"], row["benchmark"]]
        assert found is not None
        if Decimal(repr(found)).quantize(Decimal(row["minutes"])) == Decimal(row["minutes"]):
            same += 1
        else:
            different.add((row["round"], row["folder"], row["benchmark"], row["minutes"]))
    assert different == DIFFERENT
    assert same >= 20


def test_the_table_of_entries_is_that_of_the_runs(minutes: Mapping[tuple[str, ...], float | None]) -> None:
    entries = {tuple(row[name] for name in ENTRY_KEY): row for row in table("entries")}
    assert {key: row["minutes"] for key, row in entries.items()} == {
        key: "" if found is None else f"{found:.6g}" for key, found in minutes.items()
    }


# --- what is made of the index ----------------------------------------------------------------------------------------


def test_the_page_the_costs_and_the_scatter_that_plan_expects_are_what_the_index_says() -> None:
    environment = os.environ | {"PYTHONPATH": str(INDEX.parent / "support")}
    program = [sys.executable, str(INDEX / "mlperf_study.py"), "--check"]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.fixture(scope="module")
def study() -> Any:
    spec = importlib.util.spec_from_file_location("mlperf_study", INDEX / "mlperf_study.py")
    assert spec is not None
    assert spec.loader is not None
    sys.modules["mlperf_study"] = module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(INDEX))
        spec.loader.exec_module(module)
    return module


def entry(study: Any, size: int, rates: Sequence[float], *, accelerator: str = "X1") -> Any:
    seconds = tuple(1e6 / rate for rate in rates)
    key = ("v9.9", "Us", f"{size}x", "bert")
    return study.Entry(key, accelerator, size, seconds, 0.0, tuple(rates), ())


def test_the_referee_holds_each_choice_against_the_others(study: Any) -> None:
    # 200 is outside of what 99, 100 and 101 say; with it among the three, the interval is wide.
    assert study.covered((99.0, 100.0, 101.0, 200.0), drawn=3) == 0.75
    assert study.exact(10**9, 3) == pytest.approx(0.95, abs=1e-6)
    normal = 100 + np.random.default_rng(3).standard_normal((400, 10))
    found = [study.covered(values, drawn=3) for values in normal.tolist()]
    assert sum(found) / len(found) == pytest.approx(study.exact(10, 3), abs=0.015)


def test_a_size_that_is_left_out_is_not_known_to_its_prediction(study: Any) -> None:
    def left_out(factor: float) -> Any:
        gangs = {size: entry(study, size, [size * 100.0 * (factor if size == 4 else 1)] * 3) for size in (1, 2, 4, 8)}
        (found,) = (
            one for one in study.left_out([study.Sizes(("v9.9", "Us", "X1", "bert"), gangs)], "rate") if one.size == 4
        )
        return found

    usual, odd = left_out(1.0), left_out(0.5)
    assert usual.predicted == odd.predicted
    assert (usual.actual, odd.actual) == (400, 200)


def test_a_cost_is_of_all_accelerators_at_the_newest_price_of_the_last_year(study: Any) -> None:
    prices = [
        study.Price("Old", "a", "X1", "on-demand", 1.0, "2024-12-31"),
        study.Price("New", "b", "X1", "on-demand", 9.0, "2025-12-01"),
        study.Price("New", "b", "X1", "on-demand", 6.0, "2026-01-02"),
        study.Price("New", "b", "X1", "spot", 2.0, "2026-01-03"),
    ]
    (found,) = study.newest(prices)
    assert (found.per_hour, found.day) == (6.0, "2026-01-02")
    assert study.cost(entry(study, 8, [1000.0] * 3), found).mean == pytest.approx(8 * 6.0 * 1000 / 3600)
