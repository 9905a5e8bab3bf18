# SPDX-License-Identifier: Apache-2.0
"""A study of a cluster becomes a results folder that can be shown and verified: real API server, real operator's core.

The pods' records are of a real run. What a cluster no longer has is said, and never taken for what was never there.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

import builders
from gpubench import names, records
from gpubench.analysis import audit
from gpubench.api.benchmark_status import FullStatus
from gpubench.scheduler import ledger, manifests
from gpubench.scheduler.ledger import Outcome, Reason
from gpubench_cli import __main__ as program
from gpubench_cli import documents, results, terminal, verify
from gpubench_cli.results import Exported, LogName
from resealed import change, change_line, record_in, text_of
from stand_in_cluster import StandInCluster


def exported(folder: Path, place: StandInCluster) -> Path:
    results.export(place, "quickstart", folder)
    return folder


def test_an_exported_study_is_shown_and_verified_like_a_local_one(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = exported(tmp_path / "out", StandInCluster(recorded_folder))
    assert program.main(("verify", str(folder))) == 0, capsys.readouterr().out
    here, there = (results.read_summary(path) for path in (folder, recorded_folder))
    assert here.status == there.status
    assert here.machine == "https://cluster"
    assert verify.examine(folder).windows == verify.examine(recorded_folder).windows
    for log in recorded_folder.glob("logs/*.jsonl"):
        assert (folder / "logs" / log.name).read_bytes() == log.read_bytes(), "records alone"
    out = capsys.readouterr().out
    assert "were gone" not in out
    assert "sentences, as this gpubench may choose other words" in out, "they are the operator's"
    assert program.main(("show", str(folder))) == 0
    first = capsys.readouterr().out
    assert program.main(("show", str(recorded_folder))) == 0
    assert first.replace(str(folder), "") == capsys.readouterr().out.replace(str(recorded_folder), "")


def test_a_pod_of_no_attempt_or_without_an_index_has_no_log(
    recorded_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, logs = StandInCluster(recorded_folder), results.log_names(recorded_folder)
    (first, *_) = pods = place.pods(results.read_summary(recorded_folder).uid)
    labels = first["metadata"]["labels"]
    foreign = {"metadata": {"name": "foreign", "labels": labels | {names.LABEL_TRIAL: "another"}}}
    without = {
        "metadata": {
            "name": "without",
            "labels": {key: text for key, text in labels.items() if not key.endswith("index")},
        }
    }
    monkeypatch.setattr(place, "pods", lambda _: (*pods, foreign, without))
    assert sorted(results.log_names(exported(tmp_path / "out", place))) == sorted(logs)


def test_nodes_that_came_while_it_ran_are_exported_and_their_cost_is_computed_again(
    recorded_folder: Path, tmp_path: Path
) -> None:
    """The folder of a run on this machine, where no node comes, with nodes that a cluster would have recorded."""
    source = tmp_path / "source"
    shutil.copytree(recorded_folder, source)
    plan, summary = results.read_plan(source), results.read_summary(source)
    (pool,) = plan.pools
    began = min(record.created_at for record in results.read_ledger(source).records)
    gone = ledger.GoneNodes(pool=pool.name, nodes=2, seconds=90.0, billed_seconds=90.0)
    nodes = ledger.NewNodes(seen_at=began, there=(ledger.NewNode("late", pool.name, began),), gone=(gone,))
    results.ResultsFolder(source).keep(results.NODES, f"{nodes.to_text()}\n".encode())
    spec = documents.read(source / results.STUDY).benchmark(None).spec
    again = audit.status_again(plan, results.read_ledger(source), spec, summary.status)
    assert again.spent is not None
    assert again.spent.nodes is not None
    assert again.spent.nodes.count == 3
    results.ResultsFolder(source).write(summary.model_copy(update={"status": again}))

    folder = exported(tmp_path / "out", StandInCluster(source))
    assert results.read_ledger(folder).new_nodes == nodes
    assert verify.examine(folder).findings == []
    (folder / results.NODES).unlink()
    assert any("spent.nodes" in finding for finding in verify.examine(folder).findings)


def test_windows_that_are_gone_are_said_and_the_summaries_still_verified(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names_of_logs = [str(name) for name in results.log_names(recorded_folder)]
    folder = exported(tmp_path / "out", StandInCluster(recorded_folder, gone=frozenset(names_of_logs)))
    assert program.main(("verify", str(folder))) == 0, capsys.readouterr().out
    out = capsys.readouterr().out
    assert "windows of 6 attempts were gone when it was exported" in out
    assert "6 attempts, 0 windows" in out
    ledger_file = folder / "ledger.jsonl"
    record = json.loads(ledger_file.read_text().splitlines()[0])
    assert record["outcome"] == "Succeeded"


def test_a_log_that_is_removed_after_the_export_is_found(recorded_folder: Path, tmp_path: Path) -> None:
    first, second, *_ = (str(name) for name in results.log_names(recorded_folder))
    folder = exported(tmp_path / "out", StandInCluster(recorded_folder, gone=frozenset({first})))
    summary = results.read_summary(folder)
    assert isinstance(summary.exported, Exported)
    assert first not in summary.exported.logs
    assert verify.examine(folder).findings == []
    (folder / "logs" / second).unlink()
    assert verify.examine(folder).findings == [f"logs/{second}: it is missing"]


def test_the_study_is_written_as_it_was_planned(recorded_folder: Path, tmp_path: Path) -> None:
    folder = exported(tmp_path / "out", StandInCluster(recorded_folder))
    document = yaml.safe_load((folder / results.STUDY).read_text())
    assert (document["kind"], document["metadata"]) == ("GpuBenchmark", {"name": "quickstart"})
    plan = results.read_plan(folder)
    spec = documents.read(folder / results.STUDY).benchmark(None).spec
    assert list(audit.of_plan(plan, spec)) == []


def test_a_folder_that_has_something_is_left_alone(recorded_folder: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    shutil.copy((recorded_folder / results.STUDY), tmp_path / "out")
    with pytest.raises(terminal.CliError, match="is not empty"):
        exported(tmp_path / "out", StandInCluster(recorded_folder))


def test_a_record_and_what_is_said_are_told_apart() -> None:
    said = b'{"level":"info"}\nWARNING: no\n{"kind":"window"}\nhalf'
    assert results.split_log(said) == (b"", said)


def test_a_record_behind_a_text_without_an_end_is_found() -> None:
    record = records.line(builders.failure()).encode() + b"\n"
    for said in (b"warning: ", b'{"level":"info"', b'{"a":{"b":', b"{"):
        assert results.split_log(said + record + b"more\n") == (record, said + b"more\n")
    damaged = record.replace(b"failure", b"success")
    assert results.split_log(b"warning: " + damaged) == (b"", b"warning: " + damaged)


class Rotated(StandInCluster):
    """The kubelet has begun a new file for one log after its first records, and for one after all of them."""

    def __init__(self, folder: Path, *, left: dict[str, int]) -> None:
        super().__init__(folder)
        self._left = left

    def log(self, pod: str, **_: Any) -> bytes | None:
        said = super().log(pod)
        if said is None or pod not in self._left:
            return said
        lines = said.splitlines(keepends=True)
        return b"".join(lines[len(lines) - self._left[pod] :])


@pytest.mark.parametrize("left", [0, 1, 3])
def test_a_log_that_was_rotated_counts_as_gone_and_is_kept_apart(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    first, *_ = (str(name) for name in results.log_names(recorded_folder))
    folder = exported(tmp_path / "out", Rotated(recorded_folder, left={first: left}))
    assert "have lost their beginning" in capsys.readouterr().err
    assert program.main(("verify", str(folder))) == 0, capsys.readouterr().out
    assert "windows of 1 attempts were gone when it was exported" in capsys.readouterr().out
    assert not (folder / "logs" / first).exists()
    assert len((folder / "logs" / first).with_suffix(".err").read_bytes().splitlines()) == left


class Running(StandInCluster):
    """Its status is older than its attempts: the operator writes it once in a while."""

    def status(self) -> FullStatus:
        status: Any = super().status().to_wire()
        status["conditions"] = [one for one in status["conditions"] if one["type"] != "Finished"]
        status["attempts"]["succeeded"] -= 1
        status["results"][0]["values"].pop()
        return FullStatus.model_validate(status)


def test_a_study_that_runs_is_exported_and_said_to_be_under_way(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = exported(tmp_path / "out", Running(recorded_folder))
    assert program.main(("verify", str(folder))) == 0, capsys.readouterr().out
    assert "its attempts are newer than its status" in capsys.readouterr().out
    ledger_file = folder / "ledger.jsonl"
    change_line(ledger_file, slower, where=lambda record: "result" in record)
    assert any("result.nanoseconds" in finding for finding in verify.examine(folder).findings)


def slower(text: str) -> str:
    record = record_in(text)
    record["result"]["nanoseconds"] += 1
    return text_of(record)


@pytest.mark.parametrize("name", ["cost", "samplesPerSecond", "environment", "values"])
def test_a_figure_that_was_removed_after_the_export_is_found(recorded_folder: Path, tmp_path: Path, name: str) -> None:
    folder = exported(tmp_path / "out", StandInCluster(recorded_folder))

    def without(text: str) -> str:
        summary = record_in(text)
        for point in summary["status"]["results"]:
            del point[name]
        return text_of(summary)

    change(folder / "status.json", without)
    assert any(name in finding for finding in verify.examine(folder).findings)


def test_a_log_is_named_after_trial_attempt_and_pod(recorded_folder: Path) -> None:
    for name in results.log_names(recorded_folder):
        assert results.log_path(recorded_folder, name).is_file()
    assert str(LogName("abc", 2, 0)) == "abc.2.0.jsonl"


# --- records of a results volume --------------------------------------------------------------------------------------


def on_volume(folder: Path, mounted: Path) -> Path:
    """The study's folder on a volume that its pods have written their records to: nothing but logs."""
    study = names.study_name("quickstart", results.read_summary(folder).uid)
    logs = mounted / "team-a" / study / "logs"
    logs.mkdir(parents=True)
    for log in folder.glob("logs/*.jsonl"):
        shutil.copy(log, logs)
    return logs.parent


class WithVolume(StandInCluster):
    """The study names a volume; its pods are gone, but for those whose logs `left` names."""

    def __init__(self, folder: Path, *, left: frozenset[str] = frozenset()) -> None:
        gone = frozenset(map(str, results.log_names(folder))) - left
        super().__init__(folder, gone=gone)

    def benchmark(self, name: str) -> dict[str, Any]:
        body = super().benchmark(name)
        body["spec"]["results"] = {"volume": {"claimName": "runs"}, "path": "team-a"}
        return body


def test_a_study_whose_pods_are_gone_is_verified_from_its_volume(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    on_volume(recorded_folder, tmp_path / "mounted")
    results.export(WithVolume(recorded_folder), "quickstart", tmp_path / "out", records_at=tmp_path / "mounted")
    assert program.main(("verify", str(tmp_path / "out"))) == 0, capsys.readouterr().out
    said = capsys.readouterr()
    assert "were gone" not in said.out
    assert "--records" not in said.err
    assert verify.examine(tmp_path / "out").windows == verify.examine(recorded_folder).windows > 0


def test_the_folder_on_the_volume_becomes_a_results_folder_and_its_logs_stay_as_they_are(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    assert program.main(("verify", str(folder))) == 2
    assert program.main(("show", str(folder))) == 2
    assert f"`gpubench export NAME {folder} --records {folder}` puts plan" in capsys.readouterr().err
    before = {log: log.read_bytes() for log in folder.glob("logs/*.jsonl")}
    results.export(WithVolume(recorded_folder), "quickstart", folder, records_at=folder)
    assert {log: log.read_bytes() for log in folder.glob("logs/*.jsonl")} == before
    for command in ("verify", "show"):
        assert program.main((command, str(folder))) == 0, capsys.readouterr().out
    assert program.main(("compare", str(recorded_folder), str(folder))) == 0, capsys.readouterr().err
    with pytest.raises(terminal.CliError, match="is not empty"):
        results.export(WithVolume(recorded_folder), "quickstart", folder, records_at=folder)


class RunningWithVolume(WithVolume):
    """It has not finished, or its budget was raised after it had."""

    def __init__(self, folder: Path, *, finished: bool) -> None:
        super().__init__(folder, left=frozenset(map(str, results.log_names(folder))))
        self._finished = finished

    def benchmark(self, name: str) -> dict[str, Any]:
        body = super().benchmark(name)
        conditions = body["status"]["conditions"]
        body["status"]["conditions"] = [one for one in conditions if self._finished or one["type"] != "Finished"]
        return body

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        found = super().config_maps(uid)
        if not self._finished:
            return found
        *rest, last = results.read_ledger(self._folder).records
        running = last.model_copy(update={"outcome": None, "reason": None, "result": None, "ended_at": None})
        entries = ledger.to_entries([*rest, running])
        return (*found[:2], manifests.ledger_config_map(self._study, 0, entries))


@pytest.mark.parametrize("finished", [False, True])
def test_nothing_is_written_beside_the_logs_while_their_pods_may_still_write(
    recorded_folder: Path, tmp_path: Path, *, finished: bool
) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    last = results.read_ledger(recorded_folder).records[-1]
    log = folder / "logs" / names.log_name(trial=last.trial, attempt=last.attempt, pod=0)
    log.rename(log.with_name(f"{log.name}.part"))
    before = {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    place = RunningWithVolume(recorded_folder, finished=finished)
    with pytest.raises(terminal.CliError, match="has not finished"):
        results.export(place, "quickstart", folder, records_at=folder)
    assert {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()} == before
    results.export(place, "quickstart", tmp_path / "out", records_at=folder)
    assert results.is_results_folder(tmp_path / "out")


def test_an_export_that_came_to_no_end_on_the_volume_is_made_again(recorded_folder: Path, tmp_path: Path) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    results.export(WithVolume(recorded_folder), "quickstart", folder, records_at=folder)
    (folder / "status.json").unlink()
    (folder / "study.yaml").unlink()
    ledger_file = folder / "ledger.jsonl"
    ledger_file.write_bytes(ledger_file.read_bytes()[:100])
    results.export(WithVolume(recorded_folder), "quickstart", folder, records_at=folder)
    assert verify.examine(folder).findings == []


def test_a_users_own_file_beside_the_logs_is_left_alone(recorded_folder: Path, tmp_path: Path) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    (folder / "study.yaml").write_text("mine\n")
    with pytest.raises(terminal.CliError, match="is not empty"):
        results.export(WithVolume(recorded_folder), "quickstart", folder, records_at=folder)
    assert (folder / "study.yaml").read_text() == "mine\n"


def test_a_byte_that_changed_on_the_volume_is_found(recorded_folder: Path, tmp_path: Path) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    log = next(folder.glob("logs/*.jsonl"))
    content = log.read_bytes()
    digit = content.index(b'"nanoseconds":') + len(b'"nanoseconds":')
    log.write_bytes(content[:digit] + (b"8" if content[digit : digit + 1] != b"8" else b"7") + content[digit + 1 :])
    results.export(WithVolume(recorded_folder), "quickstart", tmp_path / "out", records_at=folder)
    assert any(f"logs/{log.name}:" in finding for finding in verify.examine(tmp_path / "out").findings)


def test_what_the_volume_did_not_take_comes_from_the_pods_log(recorded_folder: Path, tmp_path: Path) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    log = next(folder.glob("logs/*.jsonl"))
    log.rename(log.with_name(f"{log.name}.part"))
    place = WithVolume(recorded_folder, left=frozenset({log.name}))
    results.export(place, "quickstart", tmp_path / "out", records_at=folder)
    examined = verify.examine(tmp_path / "out")
    assert (examined.findings, examined.remarks) == ([], [])


def test_a_part_of_an_attempt_with_a_result_counts_as_gone(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    log = next(folder.glob("logs/*.jsonl"))
    log.with_name(f"{log.name}.part").write_bytes(log.read_bytes()[:-7])
    log.unlink()
    results.export(WithVolume(recorded_folder), "quickstart", tmp_path / "out", records_at=folder)
    assert program.main(("verify", str(tmp_path / "out"))) == 0, capsys.readouterr().out
    assert "windows of 1 attempts were gone when it was exported" in capsys.readouterr().out


class Stopped(WithVolume):
    """Its first attempt was ended from outside, when its pods had written some of their records."""

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        found = super().config_maps(uid)
        self.stopped, *rest = results.read_ledger(self._folder).records
        ended = self.stopped.model_copy(update={"outcome": Outcome.FAILED, "reason": Reason.EXITED, "result": None})
        shards = (ledger.to_entries([ended, *rest]),)
        return (*found[:2], *(manifests.ledger_config_map(self._study, 0, entries) for entries in shards))


def test_the_part_of_an_attempt_without_a_result_is_its_log(recorded_folder: Path, tmp_path: Path) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    place = Stopped(recorded_folder)
    place.config_maps(results.read_summary(recorded_folder).uid)
    log = folder / "logs" / names.log_name(trial=place.stopped.trial, attempt=place.stopped.attempt, pod=0)
    begun = log.read_bytes()[:-7]
    log.with_name(f"{log.name}.part").write_bytes(begun)
    log.unlink()
    results.export(place, "quickstart", tmp_path / "out", records_at=folder)
    assert (tmp_path / "out" / "logs" / log.name).read_bytes() == begun
    assert not any(f"logs/{log.name}" in finding for finding in verify.examine(tmp_path / "out").findings)


def test_another_studys_folder_is_refused_though_its_trials_have_the_same_names(
    recorded_folder: Path, tmp_path: Path
) -> None:
    folder = on_volume(recorded_folder, tmp_path / "mounted")
    other = folder.rename(folder.with_name("quickstart-other"))
    for given in (other, tmp_path / "mounted", tmp_path / "nowhere"):
        with pytest.raises(terminal.CliError, match="name the folder at which the volume"):
            results.export(WithVolume(recorded_folder), "quickstart", tmp_path / "out", records_at=given)
    assert not (tmp_path / "out").exists()


def test_who_forgets_the_volume_is_told_of_it(
    recorded_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results.export(WithVolume(recorded_folder), "quickstart", tmp_path / "out")
    assert "spec.results keeps the records of pods that are gone: take them with --records" in capsys.readouterr().err
