# SPDX-License-Identifier: Apache-2.0
"""A results folder keeps what was written, also when the writer was killed in the middle of a line."""

import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import builders
import measured
from gpubench import checksum
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench_cli import results, verify
from gpubench_cli.results import ResultsFolder
from gpubench_cli.terminal import CliError
from stand_in_cluster import StandInCluster


def make_folder(path: Path) -> ResultsFolder:
    return ResultsFolder.create(path / "results", study_text="a: 1\n", plan=builders.plan())


def make_record(*, trial: str = "t", outcome: Outcome | None = None) -> AttemptRecord:
    reason = Reason.COMPLETED if outcome else None
    return AttemptRecord(
        trial=trial, attempt=1, job="j", job_uid="u", created_at=1.0, outcome=outcome, reason=reason
    )  # fmt: skip


def make_summary() -> results.Summary:
    status = measured.finished_status(builders.plan(), {0: (100.0, 101.0, 99.0)})
    return results.Summary(name="quick", uid="u", machine="here", status=status)


def test_plan_and_study_are_kept(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    plan = results.read_plan(folder.path)
    assert plan.model_copy(update={"study_digest": None}) == builders.plan()
    assert results.digest(folder.path / results.STUDY) == results.read_plan(folder.path).study_digest
    assert (folder.path / results.STUDY).read_text() == "a: 1\n"
    assert not results.is_results_folder(folder.path), "without a status there is nothing to show yet"


def test_the_later_line_of_an_attempt_counts(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.append([make_record()])
    folder.append([make_record(outcome=Outcome.SUCCEEDED)])
    (record,) = results.read_ledger(folder.path).records
    assert record.outcome is Outcome.SUCCEEDED


def test_logs_of_attempts_that_have_ended_are_on_the_disk_before_their_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, safe = make_folder(tmp_path), list[str]()
    monkeypatch.setattr(os, "fsync", lambda number: safe.append(Path(f"/proc/self/fd/{number}").readlink().name))
    logs = [folder.log(trial=trial, attempt=1, pod=pod) for trial, pod in (("t", 0), ("t", 1), ("u", 0))]
    for log in logs:
        log.write_bytes(b"x\n")
    folder.append([make_record(outcome=Outcome.SUCCEEDED), make_record(trial="u")])
    *before, last = safe
    assert (sorted(before), last) == ([log.name for log in logs[:2]], results.LEDGER), "u runs"


def test_the_head_of_a_log_is_that_of_pod_0(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    assert folder.log_head(trial="t", attempt=1, limit=4) == ""
    for pod in range(2):
        folder.log(trial="t", attempt=1, pod=pod).write_bytes(b"pod %d" % pod)
    assert folder.log_head(trial="t", attempt=1, limit=5) == "pod 0"
    assert folder.log_head(trial="t", attempt=1, limit=3) == "pod"


def test_a_line_that_was_being_written_is_left_out(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    folder.append([make_record(outcome=Outcome.SUCCEEDED)])
    with (folder.path / "ledger.jsonl").open("a") as ledger:
        ledger.write(make_record(trial="u").to_json()[:40])
    assert [record.trial for record in results.read_ledger(folder.path).records] == ["t"]
    whole = (folder.path / "ledger.jsonl").read_bytes().splitlines(keepends=True)[0]
    folder.leave_out_cut_lines()
    assert (folder.path / "ledger.jsonl").read_bytes() == whole


def test_a_line_that_is_wrong_is_named(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    (folder.path / "ledger.jsonl").write_text(checksum.seal('{"schemaVersion":3}') + "\n")
    with pytest.raises(CliError, match=r"ledger\.jsonl:1: schemaVersion"):
        results.read_ledger(folder.path)


def test_a_folder_is_used_once(tmp_path: Path) -> None:
    make_folder(tmp_path)
    with pytest.raises(CliError, match="is not empty"):
        make_folder(tmp_path)


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("")
    with pytest.raises(CliError, match=f"^{re.escape(str(tmp_path))}/results: results cannot be written there: File"):
        make_folder(tmp_path)


def test_the_default_folder_carries_name_and_utc_time() -> None:
    assert results.default_path("quickstart", now=1_700_000_000.0) == Path("results/quickstart-20231114T221320Z")


WITH_A_LIMIT = """
import resource, sys
from pathlib import Path
from gpubench_cli.terminal import CliError
from gpubench_cli.results import LogName, ResultsFolder
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    ResultsFolder(Path(sys.argv[1])).write_log(LogName("t", 1, 0), own=b"x" * 5000, others=b"said")
except CliError as error:
    print(error)
"""


def test_what_is_written_stands_beside_what_it_replaces_from_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for temporary files may be on another file system, from which nothing is renamed to here."""
    folder = make_folder(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "elsewhere"))
    folder.write(make_summary())
    assert results.is_results_folder(folder.path)


def test_a_status_that_cannot_be_written_is_a_sentence_with_its_folder(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    shutil.rmtree(folder.path)
    with pytest.raises(
        CliError, match=f"^{re.escape(str(folder.path))}: results cannot be written there: No such file"
    ):
        folder.write(make_summary())


def test_nothing_is_left_of_what_could_not_be_put_in_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    folder = make_folder(tmp_path)
    before = sorted(folder.path.rglob("*"))
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(CliError, match="results cannot be written there: Input/output error"):
        folder.write(make_summary())
    assert sorted(folder.path.rglob("*")) == before


def test_the_spec_as_it_was_written_is_that_of_the_text_where_one_is_given(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    text = "kind: GpuBenchmark\nmetadata: {name: quick}\nspec: {sweep: []}\n"
    assert results.written_spec(folder.path, "quick", text=text) == {"sweep": []}
    assert results.written_spec(folder.path, "quick") is None


def test_an_analysis_that_was_just_replaced_is_read_anew(
    recorded_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = StandInCluster(recorded_folder)
    whole = place.status()
    monkeypatch.setattr(place, "status", lambda: whole.model_copy(update={"results": whole.results[:1]}))
    before = place.benchmark("quickstart")
    monkeypatch.setattr(place, "status", lambda: whole)
    assert results.status_of(place, "quickstart", before).results == whole.results
    assert capsys.readouterr().err == ""


def test_a_status_that_cannot_be_read_the_second_time_is_named(
    recorded_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = StandInCluster(recorded_folder)
    before = place.benchmark("quickstart")
    monkeypatch.setattr(place, "config_map", lambda _: None)
    monkeypatch.setattr(place, "benchmark", lambda _: {"status": {"phase": 3}})
    with pytest.raises(CliError, match="quickstart"):
        results.status_of(place, "quickstart", before)


def test_what_has_no_results_yet_says_where_to_look(recorded_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = results.in_folder(recorded_folder)
    nothing = found.model_copy(update={"status": found.status.model_copy(update={"results": ()})})
    monkeypatch.setattr(results, "find_reported", lambda *_, **__: nothing)
    with pytest.raises(CliError, match="quickstart has no results yet: `gpubench show` says how it stands"):
        results.find_measured("quickstart", namespace=None)


def test_a_log_that_found_no_room_has_no_name_and_leaves_nothing(tmp_path: Path) -> None:
    folder = make_folder(tmp_path)
    ended = subprocess.run(
        [sys.executable, "-c", WITH_A_LIMIT, str(folder.path)], capture_output=True, text=True, check=False, timeout=60
    )
    assert "results cannot be written there: File too large" in ended.stdout, ended.stderr
    assert list((folder.path / "logs").iterdir()) == []


@pytest.mark.parametrize(("outcome", "is_told"), [(Outcome.FAILED, True), (Outcome.SUCCEEDED, False), (None, False)])
def test_a_log_of_a_pod_that_an_attempt_never_had_is_found_and_attempts_without_a_result_are_told(
    outcome: Outcome | None, is_told: bool
) -> None:
    plan, found = builders.plan(), verify.Examined()
    trial = next(one.id for one in plan.trials if plan.points[one.point].nodes == 1)
    logs = {results.LogName(trial, 1, pod): b"" for pod in range(2)}
    verify._attempts(plan, Ledger(records=(make_record(trial=trial, outcome=outcome),)), logs, found, None)
    named = [line for line in found.findings if line.endswith("the ledger knows of no such attempt or pod")]
    assert [line.partition(":")[0] for line in named] == [f"logs/{results.LogName(trial, 1, 1)}"]
    assert any(line.startswith("1 attempts that came to no result") for line in found.by_checksum) is is_told


@pytest.mark.parametrize(
    ("outcomes", "attempt", "is_next"),
    [
        ((), 1, True),
        ((Outcome.FAILED,), 2, True),
        ((Outcome.FAILED,), 3, False),
        ((None,), 2, False),
    ],
)
def test_a_log_of_an_attempt_that_is_not_recorded_is_of_the_next_one_or_of_nobody(
    outcomes: tuple[Outcome | None, ...], attempt: int, is_next: bool
) -> None:
    ledger = Ledger(records=tuple(make_record(outcome=outcome) for outcome in outcomes))
    assert verify._was_starting(ledger, results.LogName("t", attempt, 0)) is is_next


def test_of_many_findings_some_are_shown_and_the_others_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examined = verify.Examined(findings=[f"{number} is wrong" for number in range(43)], cut=["t.1.0", "u.1.0"])
    verify._tell(tmp_path, examined, verify._sentences(examined))
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if "is wrong" in line] == [f"{tmp_path}: {number} is wrong" for number in range(40)]
    assert f"{tmp_path}: and 3 more" in lines
    said = " ".join(" ".join(lines).split())
    assert "the last line of 2 logs has no end, of attempts that came to no result: t.1.0, u.1.0" in said
