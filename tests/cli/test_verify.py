# SPDX-License-Identifier: Apache-2.0
"""What was changed in a results folder is found: by its checksum, and where that was renewed by computing it again.

The folders are of real runs: the quickstart with one and two ranks, and a training of two. The study's copy is no
record; the plan has its digest. What a pod says besides (`logs/*.err`) is no record, and nothing follows from it.
"""

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpubench_cli import VERSION, verify
from gpubench_cli import __main__ as program
from resealed import change, change_line, record_in, text_of

RECORDED = Path(__file__).with_name("recorded_results")
#: Changed bytes in each file: enough to meet every kind of field many times over all files.
BYTES_OF_A_FILE = 25
BYTES_PUT_IN = 5
RELATIVE = Decimal("0.000001")
LAST_DIGIT = Decimal("0.000000001")  # of an amount of money

pytestmark = pytest.mark.usefixtures("horovod", "two_cores")


@pytest.fixture(params=["real_folder", "trained_folder"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy of each kind of real folder, to be changed."""
    return copied(request.getfixturevalue(request.param), tmp_path)


@pytest.fixture
def quickstart(tmp_path: Path) -> Path:
    return copied(RECORDED / "quickstart", tmp_path)


def copied(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder, tmp_path / "copy"))


def found(folder: Path) -> list[str]:
    return verify.examine(folder).findings


def record_files(folder: Path) -> list[Path]:
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and path.suffix != ".err"]
    assert {path.name for path in files} >= {"plan.json", "ledger.jsonl", "status.json", "study.yaml"}
    return files


# --- as it was written ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "attempts"), [("real_folder", 6), ("trained_folder", 1)])
def test_a_real_folder_holds(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], name: str, attempts: int
) -> None:
    folder: Path = request.getfixturevalue(name)
    assert program.main(("verify", str(folder))) == 0
    out = capsys.readouterr().out
    assert f"{folder}: {attempts} attempts, " in out
    assert "every figure follows from the records" in out
    assert "checked by checksum only: digest of the weights" in out
    examined = verify.examine(folder)
    lines = [json.loads(line) for path in folder.glob("logs/*.jsonl") for line in path.read_text().splitlines()]
    assert examined.windows == sum(line["kind"] == "window" for line in lines) > 0
    assert examined.points >= 1
    assert all("checksum" in line for line in lines)


def test_something_that_does_not_hold_is_printed_with_exit_code_1(
    quickstart: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(quickstart / "ledger.jsonl", lambda text: text.replace('"trial":', '"trjal":', 1))
    assert program.main(("verify", str(RECORDED / "quickstart"), str(quickstart))) == 1
    out = capsys.readouterr().out
    assert f"{quickstart}: ledger.jsonl:1: its checksum is " in out
    assert f"{quickstart}: it does not hold" in out


@pytest.mark.parametrize(("is_changed", "result"), [(False, "PASSED"), (True, "FAILED")])
def test_a_statement_has_the_digest_of_every_file_and_what_was_found(
    quickstart: Path, tmp_path: Path, is_changed: bool, result: str
) -> None:
    if is_changed:
        change(quickstart / "ledger.jsonl", lambda text: text.replace('"trial":', '"trjal":', 1))
    assert program.main(("verify", str(quickstart), "--statement", str(tmp_path / "statement.json"))) == is_changed
    statement = json.loads((tmp_path / "statement.json").read_text())
    assert statement["_type"] == "https://in-toto.io/Statement/v1"
    digests = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
    files = [path for path in quickstart.rglob("*") if path.is_file()]
    assert digests == {
        str(path.relative_to(quickstart)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }
    assert statement["predicate"]["result"] == result
    assert statement["predicate"]["configuration"] == [{"name": "gpubench verify", "annotations": {"version": VERSION}}]
    (verdict,) = statement["predicate"]["failedTests" if is_changed else "passedTests"]
    assert verdict.startswith("it does not hold" if is_changed else "6 attempts, ")


def test_no_folder_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("verify", str(tmp_path / "nowhere"))) == 2
    assert program.main(("verify", str(tmp_path))) == 2
    assert "this is no results folder" in capsys.readouterr().err


# --- a changed byte ---------------------------------------------------------------------------------------------------


def test_any_byte_of_any_file_that_was_changed_or_taken_out_or_put_in_is_found(folder: Path) -> None:
    chooser = random.Random(5)
    for path in record_files(folder):
        content = path.read_bytes()
        places = chooser.sample(range(len(content)), min(BYTES_OF_A_FILE, len(content)))
        for place in {*places, len(content) - 1}:
            byte = chooser.choice([other for other in range(256) if other != content[place]])
            path.write_bytes(content[:place] + bytes([byte]) + content[place + 1 :])
            assert found(folder), f"{path.name}: byte {place} was {content[place]} and became {byte}"
        for place in {*places[:BYTES_PUT_IN], len(content) - 1}:
            path.write_bytes(content[:place] + content[place + 1 :])
            assert found(folder), f"{path.name}: byte {place} of {len(content)} is not there"
            path.write_bytes(content[:place] + bytes([chooser.randrange(256)]) + content[place:])
            assert found(folder), f"{path.name}: a byte before {place} of {len(content)}"
        path.write_bytes(content + b"\n")
        assert found(folder), f"{path.name}: a line at its end"
        path.write_bytes(content)
    assert not found(folder)


# --- a changed figure, with its checksum renewed ----------------------------------------------------------------------


def test_any_changed_figure_of_a_point_is_found_by_computing_it_again(folder: Path) -> None:
    path = folder / "status.json"
    content = path.read_text()
    results = json.loads(content)["status"]["results"]
    places = list(figures(results))
    names = {place[-1] if place[-1] != "mean" else place[-2] for place in places}
    assert names >= {"samplesPerSecond", "perMillionSamples"}
    assert names & {"efficiency", "low", "high"} or {"seconds", "final", "best", "hours", "perRun"} <= names
    for place in places:
        path.write_text(text_of(changed_at(record_in(content), ("status", "results", *place))))
        (finding,) = found(folder)
        assert str(place[-1]) in finding, "and named"
        assert " is stored, and the records give " in finding
        path.write_text(content)
    assert not found(folder)


def test_a_mean_over_pods_that_a_policy_had_changed_is_found(quickstart: Path) -> None:
    """The ledger says that one repeat had half of its memory, and the status averages it in."""
    changed = {"field": "resources.limits.memory", "planned": "2Gi", "got": "1Gi", "isMore": False}

    def halved(text: str) -> str:
        return text_of(record_in(text) | {"changed": [changed]})

    change_line(quickstart / "ledger.jsonl", halved, where=lambda record: "result" in record)
    assert any("samplesPerSecond" in finding for finding in found(quickstart))


@pytest.mark.parametrize("name", ["samples", "nanoseconds", "steps", "windows", "warmUpWindows", "workers"])
def test_a_result_that_was_changed_in_the_ledger_is_found(quickstart: Path, name: str) -> None:
    def changed(text: str) -> str:
        record = record_in(text)
        record["result"][name] += 1
        return text_of(record)

    change_line(quickstart / "ledger.jsonl", changed, where=lambda record: "result" in record)
    assert any(f"result.{name}" in finding for finding in found(quickstart))


def test_a_result_that_was_changed_wherever_it_stands_is_found_in_the_windows(quickstart: Path) -> None:
    """In ledger and log alike, and then in the status: nothing contradicts it but what was measured."""

    def faster(text: str) -> str:
        record = record_in(text)
        result = record.get("result", record)
        result["nanoseconds"] = round(result["nanoseconds"] * 0.999999)
        return text_of(record)

    with_result = json.loads((quickstart / "ledger.jsonl").read_text().splitlines()[1])
    change_line(quickstart / "ledger.jsonl", faster, where=lambda record: "result" in record)
    log = quickstart / "logs" / f"{with_result['trial']}.1.0.jsonl"
    change_line(log, faster, where=lambda record: record["kind"] == "result")
    findings = found(quickstart)
    assert any("result.nanoseconds" in finding and finding.startswith("attempt ") for finding in findings)
    assert not any("the log give" in finding for finding in findings), "both were changed alike"


def test_a_window_that_was_changed_is_found(folder: Path) -> None:
    for log in sorted(folder.glob("logs/*.0.jsonl")):
        content = log.read_text()

        def longer(text: str) -> str:
            record = record_in(text)
            record["nanoseconds"] *= 100  # so that it is the slowest rank's; the last one counts
            return text_of(record)

        change_line(log, longer, where=is_epoch if '"kind":"epoch"' in content else is_window, last=True)
        assert any("result." in finding for finding in found(folder))
        log.write_text(content)


def test_a_study_that_was_changed_with_its_digest_is_found(quickstart: Path) -> None:
    change(quickstart / "study.yaml", lambda text: text.replace("batchPerWorker: [64]", "batchPerWorker: [32]"))
    digest = hashlib.sha256((quickstart / "study.yaml").read_bytes()).hexdigest()
    change(quickstart / "plan.json", lambda text: text_of(record_in(text) | {"studyDigest": digest}))
    assert any("not those of the study file" in finding for finding in found(quickstart))


def test_a_sentence_that_was_changed_is_found(real_folder: Path, tmp_path: Path) -> None:
    """Of a run of today: a sentence of another version is not compared."""
    quickstart = copied(real_folder, tmp_path)

    def told(text: str) -> str:
        summary = record_in(text)
        summary["status"]["answer"] = summary["status"]["answer"].replace("samples/s", "samples/h")
        return text_of(summary)

    change(quickstart / "status.json", told)
    (finding,) = found(quickstart)
    assert finding.startswith("status.json: answer: ")


@pytest.mark.parametrize("relative", [4e-16, 5e-13])
def test_a_figure_may_differ_as_two_machines_differ_in_their_last_bits(quickstart: Path, relative: float) -> None:
    """1e-12 of itself, and what is stored twice not at all; a millionth is found above."""

    def other(text: str) -> str:
        summary = record_in(text)
        point = summary["status"]["results"][0]
        point["samplesPerSecond"] = {name: value * (1 + relative) for name, value in point["samplesPerSecond"].items()}
        return text_of(summary)

    change(quickstart / "status.json", other)
    assert found(quickstart) == []

    def in_the_ledger(text: str) -> str:
        record = record_in(text)
        record["result"]["finalLoss"] *= 1 + relative
        return text_of(record)

    change_line(quickstart / "ledger.jsonl", in_the_ledger, where=lambda record: "result" in record)
    assert any("result.finalLoss" in finding for finding in found(quickstart))


# --- a checksum that was taken away -----------------------------------------------------------------------------------


def bare(text: str) -> str:
    return json.dumps(record_in(text), separators=(",", ":")) + "\n"


def of_another_version(text: str) -> str:
    return text_of(record_in(text) | {"schemaVersion": 2})


CHANGES = pytest.mark.parametrize(
    ("how", "said"),
    [(bare, "it has no checksum"), (of_another_version, "it is 2, and this gpubench reads 1")],
)


@CHANGES
@pytest.mark.parametrize("name", ["plan.json", "status.json"])
def test_a_file_without_its_checksum_or_of_another_version_is_found(
    quickstart: Path, name: str, how: Callable[[str], str], said: str
) -> None:
    change(quickstart / name, how)
    assert any(name in finding and said in finding for finding in found(quickstart))


@CHANGES
@pytest.mark.parametrize("name", ["ledger.jsonl", "environments.jsonl", "log"])
def test_a_line_without_its_checksum_or_of_another_version_is_found(
    quickstart: Path, name: str, how: Callable[[str], str], said: str
) -> None:
    path = min(quickstart.glob("logs/*.1.jsonl")) if name == "log" else quickstart / name
    change_line(path, how, where=lambda record: "schemaVersion" in record, last=True)
    assert any(path.name in finding and said in finding for finding in found(quickstart))


# --- something that was removed ---------------------------------------------------------------------------------------


def test_any_window_that_was_removed_is_found(folder: Path) -> None:
    for log in sorted(folder.glob("logs/*.jsonl")):
        lines = log.read_text().splitlines(keepends=True)
        for number in range(len(lines)):
            log.write_text("".join(lines[:number] + lines[number + 1 :]))
            assert found(folder), f"{log.name}: without line {number + 1}: {lines[number]}"
        log.write_text("".join(lines))


def test_the_last_window_of_every_rank_that_was_removed_is_found(quickstart: Path) -> None:
    record = json.loads((quickstart / "ledger.jsonl").read_text().splitlines()[1])
    for log in quickstart.glob(f"logs/{record['trial']}.1.*.jsonl"):
        lines = log.read_text().splitlines(keepends=True)
        last = max(number for number, line in enumerate(lines) if '"kind":"window"' in line)
        log.write_text("".join(lines[:last] + lines[last + 1 :]))
    # The steady state may begin a window earlier then: as many windows, and others.
    assert any("result.window" in finding for finding in found(quickstart))


def test_windows_that_changed_places_are_found(quickstart: Path) -> None:
    log = next(iter(sorted(quickstart.glob("logs/*.jsonl"))))
    lines = log.read_text().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if is_window(json.loads(line)))
    log.write_text("".join([*lines[:first], lines[first + 1], lines[first], *lines[first + 2 :]]))
    assert any("not in their order" in finding for finding in found(quickstart))


def test_an_attempt_that_was_removed_is_found(folder: Path) -> None:
    ledger = folder / "ledger.jsonl"
    content = ledger.read_text()
    for trial in {json.loads(line)["trial"] for line in content.splitlines()}:
        ledger.write_text("".join(line for line in content.splitlines(keepends=True) if trial not in line))
        findings = found(folder)
        assert any("the ledger knows of no such attempt" in finding for finding in findings)
        assert any("attempts.started" in finding for finding in findings)
        for log in folder.glob(f"logs/{trial}.*.jsonl"):
            log.rename(log.with_suffix(".gone"))
        assert any("attempts.started" in finding for finding in found(folder)), "with all that it left"
        for log in folder.glob(f"logs/{trial}.*.gone"):
            log.rename(log.with_suffix(".jsonl"))
    ledger.unlink()
    assert found(folder)


def test_a_log_that_was_removed_is_found(folder: Path) -> None:
    for log in sorted(folder.glob("logs/*.jsonl")):
        content = log.read_bytes()
        log.unlink()
        assert f"logs/{log.name}: it is missing" in found(folder)
        log.write_bytes(content)


@pytest.mark.parametrize("name", ["plan.json", "status.json", "study.yaml"])
def test_a_file_that_was_removed_is_found(quickstart: Path, name: str) -> None:
    (quickstart / name).unlink()
    assert any(name in finding for finding in found(quickstart))


def test_a_log_of_nobody_is_found(quickstart: Path) -> None:
    log = next(iter(quickstart.glob("logs/*.0.jsonl")))
    shutil.copy(log, log.with_name("abcdefgh.1.0.jsonl"))
    assert found(quickstart) == ["logs/abcdefgh.1.0.jsonl: the ledger knows of no such attempt or pod"]


# --- programs of one's own --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["quickstart", "own-model", "own-container"])
def test_a_recorded_run_holds_and_a_program_of_ones_own_has_no_windows(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    assert program.main(("verify", str(RECORDED / name))) == 0, capsys.readouterr().out
    assert ("programs of your own" in capsys.readouterr().out) == (name == "own-container")


@pytest.mark.parametrize("name", ["cost", "scaling", "samplesPerSecond", "low", "high", "values", "environment"])
def test_a_figure_that_was_removed_is_found(quickstart: Path, name: str) -> None:
    change(quickstart / "status.json", lambda text: text_of(without(record_in(text), name)))
    assert any(name in finding for finding in found(quickstart))


def without(tree: Any, name: str) -> Any:
    """A document without a name, wherever it stands in the points."""
    match tree:
        case dict():
            return {key: without(value, name) for key, value in tree.items() if key != name}
        case list():
            return [without(value, name) for value in tree]
    return tree


# --- figures ---------------------------------------------------------------------------------------------------------


def is_window(record: dict[str, Any]) -> bool:
    return bool(record["kind"] == "window")


def is_epoch(record: dict[str, Any]) -> bool:
    return bool(record["kind"] == "epoch")


def changed_at(document: dict[str, Any], place: tuple[str | int, ...]) -> dict[str, Any]:
    """One number by a millionth of itself; a count by one, an amount at least in its last digit."""
    holder: Any = document
    for step in place[:-1]:
        holder = holder[step]
    value = holder[place[-1]]
    if isinstance(value, str):
        changed = (Decimal(value) * (1 + RELATIVE)).quantize(LAST_DIGIT)
        holder[place[-1]] = f"{changed if changed != Decimal(value) else changed + LAST_DIGIT:f}"
    else:
        holder[place[-1]] = value + 1 if isinstance(value, int) else value * (1 + float(RELATIVE)) or 1e-6
    assert holder[place[-1]] != value
    return document


def figures(tree: object, *place: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where numbers stand, and amounts of money."""
    match tree:
        case dict():
            for name, value in tree.items():
                yield from figures(value, *place, name)
        case list():
            for index, value in enumerate(tree):
                yield from figures(value, *place, index)
        case bool():
            return
        case int() | float():
            yield place
        case str() if tree.replace(".", "", 1).isdecimal():
            yield place
