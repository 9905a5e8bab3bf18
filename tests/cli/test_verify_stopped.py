# SPDX-License-Identifier: Apache-2.0
"""A study that was stopped at any moment is as it should be; what its folder has must agree all the same.

The folders are copies that were made under way, at each moment at which something had just been written.
"""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from gpubench.plan.expand import freeze
from gpubench.records import Environment
from gpubench.scheduler.ledger import AttemptRecord, Outcome
from gpubench.scheduler.observed import Study
from gpubench_cli import __main__ as program
from gpubench_cli import documents, local, machine, results, verify
from gpubench_cli.local import Place
from gpubench_cli.results import ResultsFolder, Summary
from gpubench_cli.terminal import Progression, Stopped
from resealed import change, change_line, record_in, text_of

RECORDER = Path(__file__).with_name("stand_in_recorder.py")

pytestmark = pytest.mark.usefixtures("two_cores")


class Watched(ResultsFolder):
    """Copies itself beside itself whenever something was written, or is about to be."""

    stop_after: int | None = None  # ends of attempts, then comes a signal
    ends = 0

    def append(self, records: Iterable[AttemptRecord]) -> None:
        written = tuple(records)
        self._copy("observed" if written else "")
        super().append(written)
        self._copy("ledger" if written else "")
        self.ends += sum(record.outcome is Outcome.SUCCEEDED for record in written)
        if self.ends == self.stop_after:
            self.stop_after = None
            os.kill(os.getpid(), signal.SIGTERM)

    def append_environments(self, environments: Iterable[Environment]) -> None:
        written = tuple(environments)
        super().append_environments(written)
        self._copy("environments" if written else "")

    def write(self, summary: Summary) -> None:
        self._copy("acted")
        super().write(summary)
        self._copy("status")

    def _copy(self, moment: str) -> None:
        if moment and results.is_results_folder(self.path):
            number = len(list(self.path.parent.glob("at-*")))
            shutil.copytree(self.path, self.path.with_name(f"at-{number:03d}-{moment}"))


def recorded(text: str, path: Path, *, failing: int = 0, stop_after: int | None = None) -> Path:
    """The folder of copies of a study with pods that write records; the last state is in `found`."""
    path.mkdir(exist_ok=True)
    (path / "study.yaml").write_text(text)
    document = documents.read(path / "study.yaml")
    benchmark = document.benchmark(None)
    plan = freeze(benchmark.spec, document.pools, "2026-11-01T00:00:00Z")
    study = Study(
        namespace="local", name=benchmark.name, uid="uid", generation=1, created_at=time.time(), spec=benchmark.spec
    )
    folder = Watched.create(path / "found", study_text=text, plan=plan)
    assert isinstance(folder, Watched)
    folder.stop_after = stop_after
    with tempfile.TemporaryDirectory() as scratch, Progression(name="test") as progression:
        place = Place(
            machine=machine.this_machine().model_copy(update={"memory_bytes": 2**40}),
            command=(sys.executable, str(RECORDER), str(failing)),
            folder=folder,
            scratch=Path(scratch),
            grace_seconds=1.0,
        )
        try:
            local.LocalRun(study, plan, place=place, reporter=progression).run()
        except Stopped:
            assert stop_after is not None
    return path


@pytest.fixture(scope="session")
def retried(shortened_quickstart: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each first attempt fails."""
    return recorded(shortened_quickstart, tmp_path_factory.mktemp("retried"), failing=1)


@pytest.fixture(scope="session")
def suspended(shortened_quickstart: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A signal comes when two trials have been measured."""
    return recorded(shortened_quickstart, tmp_path_factory.mktemp("suspended"), stop_after=2)


@pytest.fixture(scope="session")
def failed(shortened_quickstart: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """No attempt comes to a result."""
    return recorded(shortened_quickstart, tmp_path_factory.mktemp("failed"), failing=99)


@pytest.mark.parametrize("name", ["retried", "suspended", "failed"])
def test_a_study_holds_at_its_end_and_wherever_it_was_stopped(request: pytest.FixtureRequest, name: str) -> None:
    path: Path = request.getfixturevalue(name)
    copies = sorted(path.glob("at-*"))
    moments = {copy.name.split("-", 2)[2] for copy in copies}
    assert moments >= {"observed", "ledger", "acted", "status"}
    for copy in (*copies, path / "found"):
        assert verify.examine(copy).findings == [], copy.name
    assert not verify.examine(path / "found").stopped


def test_the_studies_are_what_they_are_called(retried: Path, suspended: Path, failed: Path) -> None:
    def outcomes(path: Path) -> list[Outcome | None]:
        return [record.outcome for record in results.read_ledger(path / "found").records]

    assert sorted(map(str, outcomes(retried))) == ["Failed"] * 6 + ["Succeeded"] * 6
    assert outcomes(suspended)[:2] == [Outcome.SUCCEEDED] * 2
    assert len(outcomes(suspended)) < 6
    assert set(outcomes(failed)) == {Outcome.FAILED}


def test_what_was_stopped_in_the_middle_is_said(retried: Path, capsys: pytest.CaptureFixture[str]) -> None:
    behind = sorted(retried.glob("at-*-ledger"))[-2]
    assert program.main(("verify", str(behind))) == 0
    assert "its status is from before the last 1 lines of its ledger" in capsys.readouterr().out
    starting = [copy for copy in sorted(retried.glob("at-*-acted")) if verify.examine(copy).stopped]
    assert any("its gang was starting" in told for copy in starting for told in verify.examine(copy).stopped)


@pytest.fixture
def behind(retried: Path, tmp_path: Path) -> Path:
    """A copy of one that was stopped when the end of a measured trial had just been written."""
    return Path(shutil.copytree(sorted(retried.glob("at-*-ledger"))[-1], tmp_path / "behind"))


def test_a_result_that_was_changed_is_found_in_a_study_that_was_stopped(behind: Path) -> None:
    def faster(text: str) -> str:
        record = record_in(text)
        record["result"]["nanoseconds"] -= 1
        return text_of(record)

    change_line(behind / "ledger.jsonl", faster, where=lambda record: "result" in record, last=True)
    assert any("result.nanoseconds" in finding for finding in verify.examine(behind).findings)


def test_a_window_that_was_removed_is_found_in_a_study_that_was_stopped(behind: Path) -> None:
    for log in behind.glob("logs/*.2.0.jsonl"):
        lines = log.read_text().splitlines(keepends=True)
        log.write_text("".join(line for line in lines if '"index":3,' not in line))
        assert any("window 4 follows window 2" in finding for finding in verify.examine(behind).findings)
        log.write_text("".join(lines))


def test_a_figure_that_was_changed_is_found_in_a_study_that_was_stopped(behind: Path) -> None:
    def faster(text: str) -> str:
        summary = record_in(text)
        point = next(point for point in summary["status"]["results"] if point.get("values"))
        point["values"][0] *= 1.000001
        return text_of(summary)

    change(behind / "status.json", faster)
    assert any("values" in finding for finding in verify.examine(behind).findings)


@pytest.mark.parametrize("name", ["ledger.jsonl", "environments.jsonl"])
def test_a_last_line_without_its_end_is_said_where_a_study_was_stopped_and_found_where_it_ended(
    behind: Path, retried: Path, tmp_path: Path, name: str
) -> None:
    ended = Path(shutil.copytree(retried / "found", tmp_path / "ended"))
    for folder in (behind, ended):
        with (folder / name).open("a") as file:
            file.write('{"acc')
    examined = verify.examine(behind)
    assert examined.findings == []
    assert any(told.startswith(f"{name}: its last line has no end") for told in examined.stopped)
    assert any(name in finding and "no end" in finding for finding in verify.examine(ended).findings)


def test_a_log_without_its_end_is_said_of_an_attempt_without_a_result_and_found_of_another(
    retried: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(retried / "found", tmp_path / "copy"))
    first, second = (next(iter(sorted(folder.glob(f"logs/*.{attempt}.0.jsonl")))) for attempt in (1, 2))
    change(first, lambda text: text[:-20])
    examined = verify.examine(folder)
    assert (examined.findings, examined.cut) == ([], [first.name])
    change(second, lambda text: text[:-20])
    assert any(second.name in finding for finding in verify.examine(folder).findings)


def test_a_failure_that_contradicts_the_ledger_is_found(failed: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(failed / "found", tmp_path / "copy"))

    def other(text: str) -> str:
        return text_of(record_in(text) | {"exitCode": 66})

    for log in folder.glob("logs/*.1.*.jsonl"):
        change_line(log, other, where=lambda record: record["kind"] == "failure")
    assert any("80 is stored, and the pods' records say 66" in finding for finding in verify.examine(folder).findings)


def test_what_is_not_known_of_attempts_without_a_result_is_said(
    failed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(("verify", str(failed / "found"))) == 0
    assert "attempts that came to no result, line by line" in capsys.readouterr().out
