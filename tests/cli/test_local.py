# SPDX-License-Identifier: Apache-2.0
"""A Decision applied to processes: gangs end as Jobs do, nothing is lost, and no process is left."""

import contextlib
import ipaddress
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import builders
import command_line
from gpubench.analysis import audit
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import PointState, Stopping
from gpubench.plan.expand import freeze
from gpubench.scheduler.actions import Event
from gpubench.scheduler.ledger import Outcome, Reason
from gpubench_cli import local, results
from gpubench_cli.local import Place
from gpubench_cli.machine import Gpu, Machine
from gpubench_cli.results import ResultsFolder
from gpubench_cli.terminal import Progression

HERE = Path(__file__).parent
STAND_IN = HERE / "stand_in_launcher.py"
PATIENCE_SECONDS = 120.0  # each of these waits takes below three seconds on an idle machine


class Listener(Progression):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__(name="test")
        self.events: list[Event] = []

    def happened(self, event: Event) -> None:
        self.events.append(event)


class Finished:
    """A local run that has come to its end."""

    def __init__(self, folder: Path, status: FullStatus, listener: Listener) -> None:
        self.folder = folder
        self.status = status
        self.events = listener.events
        self.states = [point.state for point in status.results]
        self.ledger = results.read_ledger(folder)

    def pods(self) -> dict[str, dict[str, Any]]:
        """What each pod said of itself, by the name of its log."""
        return {path.stem: json.loads(path.read_text().splitlines()[0]) for path in self.folder.glob("logs/*.jsonl")}


def run(
    tmp_path: Path, manner: str, *, pool: dict[str, Any] | None = None, gpus: tuple[Gpu, ...] = (), **spec: Any
) -> Finished:
    study = builders.study(builders.spec(**spec), created_at=time.time())
    plan = freeze(study.spec, (builders.pool(**(pool or {})),), "2026-11-01T00:00:00Z")
    cores = tuple(sorted(os.sched_getaffinity(0)))
    folder = ResultsFolder.create(tmp_path / "results", study_text="{}", plan=plan)
    place = Place(
        machine=Machine(name="here", cores=cores, memory_bytes=2**40, gpus=gpus),
        command=(sys.executable, str(STAND_IN), manner),
        folder=folder,
        scratch=tmp_path / "scratch",
        grace_seconds=1.0,
    )
    listener = Listener()
    status = local.LocalRun(study, plan, place=place, reporter=listener).run()
    return Finished(folder.path, status, listener)


two_cores = pytest.mark.usefixtures("two_cores")


@two_cores
def test_a_study_is_measured_and_written(tmp_path: Path) -> None:
    finished = run(tmp_path, "succeed")
    assert finished.states == [PointState.MEASURED, PointState.MEASURED]
    assert [len(point.values) for point in finished.status.results] == [3, 3]
    assert finished.status.answer
    assert results.read_summary(finished.folder).status == finished.status
    assert [record.outcome for record in finished.ledger.records] == [Outcome.SUCCEEDED] * 6
    lines = [json.loads(line) for line in (finished.folder / "ledger.jsonl").read_text().splitlines()]
    assert sum("outcome" in line for line in lines) == 6, "an attempt that has ended is written once"
    assert {point.nodes for point in finished.status.results} == {1}, "slices of one machine are one node"


@pytest.mark.parametrize(
    ("width", "trials", "stopping"),
    [("0.05", 3, "PrecisionReached"), ("0.001", 5, "MaximumReached")],
)
def test_repeats_are_added_until_the_figure_is_known(
    tmp_path: Path, width: str, trials: int, stopping: Stopping
) -> None:
    finished = run(
        tmp_path,
        "succeed",  # a repeat takes 0.1 % longer than the one before it
        sweep=[builders.block(workers=[1])],
        measure={"repeats": {"min": 3, "max": 5, "until": {"relativeHalfWidth": width}}},
    )
    (point,) = finished.status.results
    assert (len(finished.ledger.records), len(point.values), point.stopping) == (trials, trials, stopping)
    assert finished.status.trials is not None
    assert (finished.status.trials.total, finished.status.trials.finished) == (trials, trials)


def test_a_budget_ends_a_study_with_what_it_has(tmp_path: Path) -> None:
    # An attempt is expected to take 0.0115 on one node and 0.023 on two; one that was seen is shorter.
    spec: dict[str, Any] = {"limits": {"budget": "0.012"}}
    finished = run(tmp_path, "succeed", **spec)
    assert finished.status.phase == "BudgetExhausted"
    assert finished.states == [PointState.MEASURED, PointState.NOT_RUN]
    assert len(finished.status.results[0].values) == 3
    assert finished.status.spent is not None
    assert 0 < float(finished.status.spent.amount) <= 0.012
    assert [happening.reason for happening in finished.events].count("BudgetExhausted") == 1
    plan, stored = results.read_plan(finished.folder), results.read_summary(finished.folder).status
    again = audit.of_status(plan, finished.ledger, builders.spec(**spec), stored, words=True)
    assert list(again) == [], "and it follows from what is stored"


def test_the_plan_is_told_once(tmp_path: Path) -> None:
    finished = run(tmp_path, "succeed")
    assert [happening.reason for happening in finished.events].count("Planned") == 1


@two_cores
def test_each_pod_has_an_address_and_processors_of_its_own_and_no_foreign_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOROVOD_FUSION_THRESHOLD", "1")
    finished = run(
        tmp_path,
        "succeed",
        sweep=[builders.block(workers=[2])],
        measure={"repeats": {"min": 1}},
        template={"image": "somewhere/else:1", "env": [{"name": "NCCL_DEBUG", "value": "INFO"}]},
    )
    first, second = (pod for _, pod in sorted(finished.pods().items()))
    assert not set(first["cores"]) & set(second["cores"])
    assert len(first["cores"]) == len(second["cores"]) == 1
    addresses = [pod["environment"]["GPUBENCH_POD_IP"] for pod in (first, second)]
    assert len(set(addresses)) == 2
    assert all(ipaddress.ip_address(address).is_loopback for address in addresses)
    for pod in (first, second):
        environment = pod["environment"]
        assert environment["GPUBENCH_RENDEZVOUS_HOST"] == addresses[0]
        assert environment["NCCL_DEBUG"] == "INFO", "the study's own settings arrive"
        assert "HOROVOD_FUSION_THRESHOLD" not in environment, "what somebody exported does not"
        assert "GPUBENCH_IMAGE" not in environment, "there is no image, and none may be claimed"
        assert environment["CUDA_VISIBLE_DEVICES"] == ""


@two_cores
def test_each_pod_sees_its_gpus_by_the_names_that_were_given(tmp_path: Path) -> None:
    finished = run(
        tmp_path,
        "succeed",
        gpus=(Gpu(name="NVIDIA H200", entry="3"), Gpu(name="NVIDIA H200", entry="GPU-4a1e")),
        pool={"slot": {"cpu": "1", "memory": "1Gi", "gpuResource": "nvidia.com/gpu"}},
        sweep=[builders.block(workers=[2])],
        measure={"repeats": {"min": 1}},
    )
    environments = [pod["environment"] for _, pod in sorted(finished.pods().items())]
    assert [environment["CUDA_VISIBLE_DEVICES"] for environment in environments] == ["3", "GPU-4a1e"]
    assert {environment["CUDA_DEVICE_ORDER"] for environment in environments} == {"PCI_BUS_ID"}


@two_cores
def test_a_pod_that_fails_ends_its_gang_with_its_own_words(tmp_path: Path) -> None:
    finished = run(
        tmp_path,
        "fail-in-pod-1",
        sweep=[builders.block(workers=[2])],
        measure={"repeats": {"min": 1}},
        limits={"attempts": {"failed": 1}},
    )
    assert finished.states == [PointState.FAILED]
    assert "the second pod gave up" in (finished.status.results[0].reason or "")
    assert [record.reason for record in finished.ledger.records] == [Reason.WORKER_RAISED] * 2
    assert any(happening.type == "Warning" for happening in finished.events)


def test_a_failed_attempt_is_tried_again(tmp_path: Path) -> None:
    finished = run(tmp_path, "fail-first-attempt", sweep=[builders.block(workers=[1])], measure={"repeats": {"min": 2}})
    assert finished.states == [PointState.MEASURED]
    assert finished.status.attempts is not None
    assert (finished.status.attempts.succeeded, finished.status.attempts.failed) == (2, 2)


@two_cores
def test_one_point_that_does_not_fit_leaves_the_others_alone(tmp_path: Path) -> None:
    finished = run(tmp_path, "out-of-memory-with-2", measure={"repeats": {"min": 1}})
    assert finished.states == [PointState.MEASURED, PointState.OUT_OF_MEMORY]


def test_a_pod_that_dies_without_a_word_is_quoted_from_its_log(tmp_path: Path) -> None:
    finished = run(
        tmp_path,
        "die-without-a-word",
        sweep=[builders.block(workers=[1])],
        measure={"repeats": {"min": 1}},
        limits={"attempts": {"failed": 0}},
    )
    assert finished.states == [PointState.FAILED]
    assert "the library is broken" in (finished.status.results[0].reason or "")


# --- ends from outside ------------------------------------------------------------------------------------------------


class Driver:
    """A local run in a process of its own, and the pods that belong to it."""

    def __init__(self, folder: Path, manner: str) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "local_driver.py"), str(folder), manner],
            env={**os.environ, "PYTHONPATH": str(HERE.parent / "support")},
            stderr=subprocess.PIPE,
            text=True,
        )

    def pods(self) -> list[int]:
        """Processes of this run, told by a variable that their gang's environment carries (zombies have none)."""
        mark = f"STAND_IN_FOLDER={self.folder}".encode()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what} did not happen in {PATIENCE_SECONDS} s"
            time.sleep(0.05)

    def ledger_outcomes(self) -> list[Outcome | None]:
        return [record.outcome for record in results.read_ledger(self.folder / "results").records]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Driver]]:
    drivers: list[Driver] = []

    def begin(manner: str) -> Driver:
        drivers.append(Driver(tmp_path / "run", manner))
        return drivers[-1]

    yield begin
    for driver in drivers:
        driver.process.kill()
        driver.process.communicate()
        for pod in driver.pods():
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(pod, signal.SIGKILL)


@two_cores
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_keeps_what_was_measured_and_leaves_no_process(
    start: Callable[[str], Driver], number: signal.Signals, code: int
) -> None:
    driver = start("hang-after-the-first")
    driver.wait_until(lambda: Outcome.SUCCEEDED in driver.ledger_outcomes(), "the first measurement")
    # A launcher and its rank are two, a gang of two pods is four.
    driver.wait_until(lambda: len(driver.pods()) >= 2, "the next gang")
    driver.process.send_signal(number)
    assert driver.process.wait(PATIENCE_SECONDS) == code
    assert driver.pods() == []
    outcomes = driver.ledger_outcomes()
    assert outcomes.count(Outcome.SUCCEEDED) == 1
    assert outcomes.count(Outcome.STOPPED) == 1
    summary = results.read_summary(driver.folder / "results")
    assert summary.status.phase == "Suspended"
    assert sum(len(point.values) for point in summary.status.results) == 1
    shown = command_line.called("show", str(driver.folder / "results"))
    assert shown.returncode == 0
    assert "Pending" in shown.stdout
    assert "still to be measured" in shown.stdout


@two_cores
def test_a_pod_that_does_not_listen_is_killed_after_its_grace(start: Callable[[str], Driver]) -> None:
    driver = start("stubborn")
    driver.wait_until(lambda: len(driver.pods()) >= 2, "the first gang")
    driver.process.send_signal(signal.SIGINT)
    assert driver.process.wait(PATIENCE_SECONDS) == 130
    assert driver.pods() == []


@two_cores
def test_killing_the_command_line_kills_its_pods(start: Callable[[str], Driver]) -> None:
    driver = start("hang-after-the-first")
    driver.wait_until(lambda: Outcome.SUCCEEDED in driver.ledger_outcomes(), "the first measurement")
    driver.wait_until(lambda: len(driver.pods()) >= 2, "the next gang")
    launchers = [pod for pod in driver.pods() if b"stand_in" in Path(f"/proc/{pod}/cmdline").read_bytes()]
    assert launchers
    driver.process.kill()
    driver.process.wait()
    # The real launcher's ranks ask the kernel for the same bond; the stand-in's child does not, and is not counted.
    driver.wait_until(lambda: not any(Path(f"/proc/{pod}").exists() for pod in launchers), "the death of the pods")
    assert results.read_summary(driver.folder / "results").status.results
