# SPDX-License-Identifier: Apache-2.0
"""Runs and gangs whose pods are objects of the test: what becomes of a pod's end, without a process."""

import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import builders
import command_line
import measured
from gpubench import checksum, exitcodes, names
from gpubench.api.benchmark_status import BenchmarkProgress
from gpubench.api.point_result import PointState
from gpubench.plan.expand import freeze
from gpubench.scheduler import capacity, events
from gpubench.scheduler.actions import Event, Gang
from gpubench.scheduler.ledger import Outcome
from gpubench.scheduler.observed import ContainerEnd, ObservedPod
from gpubench_cli import local, machine, results
from gpubench_cli.local import Place
from gpubench_cli.machine import Gpu, Machine
from gpubench_cli.results import ResultsFolder
from gpubench_cli.terminal import Progression, Stopped

STOPPED = Path(__file__).with_name("recorded_results") / "own-container"
HERE = Machine(name="here", cores=(0, 1, 2, 3), memory_bytes=2**40, gpus=(Gpu(name="NVIDIA H200", entry="0"),))
GRACE_SECONDS = 30.0
LOOKS_MAX = 200  # of a run that would not end
End = tuple[int, str]


class MemoryPod:
    """A pod that ends as its test says: at once, when it is told to, or when it is killed."""

    def __init__(self, *, name: str, index: int, node: str, log: Path, **others: Any) -> None:
        trial, attempt, _pod, _suffix = log.name.split(".")
        self.log, self.others = log, others
        self.name, self.index, self.trial, self.attempt = name, index, trial, int(attempt)
        self._node, self._end = node, None if (end := self.ends(self)) is None else end
        self.told, self._at = False, time.time()
        self.started.append(self)

    ends: Callable[["MemoryPod"], End | None]
    started: list["MemoryPod"]
    when_told: Callable[["MemoryPod"], End | None]

    @property
    def ended(self) -> bool:
        return self._end is not None

    @property
    def exit_code(self) -> int | None:
        return None if self._end is None else self._end[0]

    def terminate(self) -> None:
        self.told = True
        self._end = self._end or self.when_told(self)

    def kill(self) -> None:
        self._end = self._end or (137, "")

    def end(self, code: int, message: str = "") -> None:
        self._end = (code, message)

    def observe(self) -> ObservedPod:
        end = self._end and ContainerEnd(
            exit_code=self._end[0], message=self._end[1], started_at=self._at, finished_at=self._at + 10
        )
        phase = "Running" if end is None else "Failed" if end.exit_code else "Succeeded"
        return ObservedPod(
            name=self.name,
            index=self.index,
            phase=phase,
            node=self._node,
            scheduled_at=self._at,
            running_at=self._at,
            end=end,
        )


def stops(pod: MemoryPod) -> End:
    code, sentence = exitcodes.ExitCode.TERMINATED, "told to stop"
    return code, builders.message(
        builders.failure(trial=pod.trial, attempt=pod.attempt, exit_code=code, sentence=sentence)
    )


def measures(pod: MemoryPod, rate: float = 1000.0) -> End:
    return 0, builders.message(builders.result(trial=pod.trial, attempt=pod.attempt, rate=rate))


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> type[MemoryPod]:
    """The pods of this machine while the test lasts; each of them measures, unless the test says otherwise."""
    does_not_listen = staticmethod(lambda _: None)
    members = {"ends": staticmethod(measures), "when_told": does_not_listen, "started": list[MemoryPod]()}
    kind = type("OfTest", (MemoryPod,), members)
    looks = iter(range(LOOKS_MAX))

    def looked(_: float) -> None:
        assert next(looks, None) is not None, "the run does not end"

    monkeypatch.setattr(local, "LocalPod", kind)
    monkeypatch.setattr(time, "sleep", looked)
    return kind


class Listener(Progression):
    def __init__(self) -> None:
        super().__init__(name="test")
        self.events: list[Event] = []
        self.running: list[tuple[str, int]] = []

    def progressed(self, status: BenchmarkProgress, running: Gang | None) -> None:
        del status
        if running is not None:
            self.running.append((running.assignment.trial, running.nodes))

    def happened(self, event: Event) -> None:
        self.events.append(event)


def placed(tmp_path: Path, **spec: Any) -> tuple[Any, Any, Place]:
    study = builders.study(builders.spec(**spec), created_at=builders.NOW)
    plan = freeze(study.spec, (builders.pool(),), measured.AT)
    folder = ResultsFolder.create(tmp_path / "results", study_text="{}", plan=plan)
    place = Place(machine=HERE, command=("x",), folder=folder, scratch=tmp_path / "s", grace_seconds=GRACE_SECONDS)
    return study, plan, place


def test_a_run_tells_once_what_it_starts_and_what_came_of_it_and_forgets_gangs_that_are_recorded(
    pods: type[MemoryPod], tmp_path: Path
) -> None:
    study, plan, place = placed(tmp_path)
    listener = Listener()
    status = local.LocalRun(study, plan, place=place, reporter=listener).run()
    assert [point.state for point in status.results] == [PointState.MEASURED] * 2
    told = [event.reason for event in listener.events]
    assert told.count(events.PLANNED) == 1
    assert told.count(events.ATTEMPT_STARTED) == told.count(events.TRIAL_MEASURED) == 6
    assert len(pods.started) == 3 * 1 + 3 * 2, "three repeats with one pod, and three with two"
    assert len({pod.name for pod in pods.started}) == 9
    assert dict(listener.running) == {trial.id: plan.point_by_trial[trial.id].nodes for trial in plan.trials}
    summary = results.read_summary(place.folder.path)
    assert (summary.name, summary.machine, summary.status) == (study.name, "here", status)


def test_pods_of_a_gang_meet_at_the_first_and_share_no_processor(gang: local.LocalGang, pods: type[MemoryPod]) -> None:
    first, second = pods.started
    assert [pod.name for pod in (first, second)] == [f"{gang.name}-{index}" for index in range(2)]
    assert gang.name.endswith(f"-{first.trial}-1")
    assert not set(first.others["cores"]) & set(second.others["cores"])
    assert first.others["address"] != second.others["address"]
    for pod in (first, second):
        assert pod.others["environment"][names.ENV_RENDEZVOUS_HOST] == first.others["address"]
        assert (pod.others["gpus"], len(pod.others["cores"])) == ((), 1), "a pool of processors sees no GPU"


def test_the_environment_of_a_result_is_kept_from_the_log_of_its_pod(pods: type[MemoryPod], tmp_path: Path) -> None:
    found = builders.environment()

    def told(pod: MemoryPod) -> End:
        pod.log.write_text(f"{checksum.seal(found.to_json())}\n")
        result = builders.result(trial=pod.trial, attempt=pod.attempt, environment=found.key())
        return 0, builders.message(result)

    pods.ends = staticmethod(told)
    study, plan, place = placed(tmp_path)
    local.LocalRun(study, plan, place=place, reporter=Listener()).run()
    assert results.read_ledger(place.folder.path).environments == (found,)


def test_a_signal_stops_what_runs_keeps_what_was_measured_and_is_the_exit_code(
    pods: type[MemoryPod], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pods.ends = staticmethod(lambda pod: measures(pod) if len(pod.started) == 0 else None)
    pods.when_told = staticmethod(stops)
    looked = time.sleep

    def signalled(seconds: float) -> None:
        looked(seconds)
        if len(pods.started) > 1 and not pods.started[-1].told:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(time, "sleep", signalled)
    study, plan, place = placed(tmp_path, sweep=[builders.block(workers=[1])])
    with pytest.raises(Stopped) as stopped:
        local.LocalRun(study, plan, place=place, reporter=Listener()).run()
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert [one.outcome for one in results.read_ledger(place.folder.path).records] == [
        Outcome.SUCCEEDED,
        Outcome.STOPPED,
    ]
    assert results.read_summary(place.folder.path).status.phase == "Suspended"


@pytest.fixture
def gang(pods: type[MemoryPod], tmp_path: Path) -> local.LocalGang:
    """Of two pods that run."""
    pods.ends = staticmethod(lambda _: None)
    study, plan, place = placed(tmp_path, sweep=[builders.block(workers=[2])])
    order = capacity.gang_of(plan, plan.trials[0], attempt=1)
    return local.LocalGang(order, study=study, plan=plan, place=place)


def test_a_pod_that_fails_takes_its_gang_along_within_the_grace_as_a_job_does(
    gang: local.LocalGang, pods: type[MemoryPod], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=builders.NOW)
    monkeypatch.setattr(time, "time", lambda: clock.now)
    first, second = pods.started
    gang.tend()
    seen = gang.observe()
    assert (seen.failing_since, seen.failed_reason, seen.failed, gang.ending) == (None, None, False, False)
    assert not first.told
    second.end(1)
    gang.tend()
    assert (first.told, first.ended, gang.ending, gang.ended) == (True, False, True, False)
    seen = gang.observe()
    assert (seen.failing_since, seen.failed_reason) == (builders.NOW, "BackoffLimitExceeded")
    assert not seen.failed, "it fails when all of its pods have ended"
    clock.now += GRACE_SECONDS
    gang.tend()
    assert not first.ended, "it has its whole grace"
    clock.now += 1
    gang.tend()
    assert first.exit_code == 137
    seen = gang.observe()
    assert (seen.failed, seen.complete, seen.failing_since) == (True, False, builders.NOW)
    assert not gang.gone, "its end is not recorded yet"
    gang.retired = True
    assert gang.gone
    assert gang.observe().has_ttl


def test_the_end_of_pod_0_completes_its_gang_once_the_others_have_ended(
    gang: local.LocalGang, pods: type[MemoryPod]
) -> None:
    first, second = pods.started
    first.end(0)
    gang.tend()
    assert second.told
    assert not gang.observe().complete
    second.end(143)
    gang.tend()
    seen = gang.observe()
    assert (seen.complete, seen.failed, seen.failed_reason) == (True, False, None)


def test_a_gang_that_is_deleted_stays_until_its_pods_have_ended(gang: local.LocalGang, pods: type[MemoryPod]) -> None:
    gang.delete()
    assert [pod.told for pod in pods.started] == [True, True]
    assert gang.observe().deleting
    assert not gang.gone
    gang.kill()
    assert gang.gone


def test_a_gang_whose_pod_cannot_start_leaves_none_behind(pods: type[MemoryPod], tmp_path: Path) -> None:
    def second_fails(pod: MemoryPod) -> None:
        if pod.index == 1:
            raise OSError("no room")

    pods.ends = staticmethod(second_fails)
    study, plan, place = placed(tmp_path, sweep=[builders.block(workers=[2])])
    with pytest.raises(OSError, match="no room"):
        local.LocalGang(capacity.gang_of(plan, plan.trials[0], attempt=1), study=study, plan=plan, place=place)
    assert [pod.ended for pod in pods.started] == [True]


def test_a_run_that_goes_on_keeps_its_beginning_and_measures_only_what_is_left(
    pods: type[MemoryPod], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "busy", lambda: None)
    monkeypatch.setattr(machine, "this_machine", lambda: HERE)
    pods.ends = staticmethod(lambda pod: measures(pod, 640.0))  # 100 steps of 64 samples in ten seconds
    folder = tmp_path / "found"
    shutil.copytree(STOPPED, folder)
    lines = (folder / results.LEDGER).read_text().splitlines(keepends=True)
    (folder / results.LEDGER).write_text("".join(lines[:3]))  # the second attempt runs
    summary = results.read_summary(folder)
    begun = summary.status.model_copy(update={"conditions": (), "phase": "Running", "results": ()})
    ResultsFolder(folder).write(summary.model_copy(update={"machine": HERE.name, "status": begun}))
    measured_before = [one for one in results.read_ledger(folder).records if one.outcome is Outcome.SUCCEEDED]
    code, _, err = command_line.called("run", "--resume", str(folder))
    assert code == 0, err
    assert "2 trials" not in err, "what was planned is not told again"
    assert len(pods.started) == len(measured_before) == 1
    records = results.read_ledger(folder).records
    assert [one for one in records if one in measured_before] == measured_before
    assert [one.outcome for one in records].count(Outcome.STOPPED) == 1
    after = results.read_summary(folder)
    assert (after.uid, after.status.start_time) == (summary.uid, summary.status.start_time)


def test_what_a_person_has_set_for_libraries_does_not_reach_what_is_measured() -> None:
    mine = {"HOME": "/home/me", "TFHUB": "x", "GPUBENCH_LIMIT_SECONDS": "9"}
    steering = dict.fromkeys(("NCCL_DEBUG", "TF_XLA_FLAGS", "GPUBENCH_ASSIGNMENT", "CUDA_VISIBLE_DEVICES"), "1")
    assert local.neutral_environment(mine | steering) == mine
