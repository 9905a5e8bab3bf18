# SPDX-License-Identifier: Apache-2.0
"""What a launcher or a rank says and ends with when nothing has run, or something that nobody foresaw went wrong."""

import errno
import math
import os
import signal
import types
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import builders
from gangs import make_assignment, make_orders
from gpubench import names, records
from gpubench.exitcodes import ExitCode
from gpubench_jobs import channel, clock, failures
from gpubench_jobs.channel import Phase
from gpubench_jobs.launcher import barrier, config, exit_status, recording
from gpubench_jobs.worker import __main__ as worker


@pytest.fixture
def launcher(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The main module, which asks for signals when it is imported: not for those of the tests' own process."""
    with monkeypatch.context() as patched:
        patched.setattr(signal, "signal", lambda *_: None)
        from gpubench_jobs.launcher import __main__ as found  # noqa: PLC0415
    monkeypatch.setenv(names.ENV_TERMINATION_MESSAGE, str(tmp_path / "message"))
    return found


def message(tmp_path: Path) -> records.Failure:
    found = records.read_ending((tmp_path / "message").read_text())
    assert isinstance(found, records.Failure)
    return found


def test_an_environment_that_cannot_be_read_ends_with_what_is_wrong_in_it(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(names.ENV_ASSIGNMENT, make_assignment(workers=2, attempt=3).to_json())
    monkeypatch.delenv(names.ENV_POD_INDEX, raising=False)
    assert launcher.main() == ExitCode.BAD_ASSIGNMENT
    said = message(tmp_path)
    assert (said.trial, said.attempt, said.exit_code) == ("trial1", 3, ExitCode.BAD_ASSIGNMENT)
    assert names.ENV_POD_INDEX in said.sentence
    assert records.read_line(capsys.readouterr().out.encode().rstrip()) == said


@pytest.mark.parametrize(
    ("error", "code", "sentence"),
    [
        (ImportError("no numpy", name="numpy"), ExitCode.BAD_ASSIGNMENT, "the image lacks numpy: no numpy: use an im"),
        (ImportError("odd"), ExitCode.BAD_ASSIGNMENT, "the image lacks a library: odd: use an image of the operator's"),
        (OSError(errno.ENOSPC, "No space left on device"), ExitCode.DISK_FULL, "there is no room on a disk: "),
        (ValueError("odd"), ExitCode.WORKER_RAISED, "the launcher failed: ValueError: odd: see the end of its log"),
    ],
)
def test_what_nobody_has_foreseen_has_a_code_and_a_sentence(
    launcher: ModuleType, error: Exception, code: ExitCode, sentence: str
) -> None:
    found = launcher._unexpected(error)
    assert (found.exit_code, found.rank) == (code, None)
    assert found.sentence.startswith(sentence)


def test_whoever_is_told_to_stop_ends_with_the_code_for_it(launcher: ModuleType) -> None:
    stop = launcher._STOP.__class__.__new__(launcher._STOP.__class__)
    stop.requested = False
    stop.check()
    stop._on_signal(signal.SIGTERM, None)
    with pytest.raises(exit_status.Failed) as failed:
        stop.check()
    assert (failed.value.exit_code, failed.value.sentence) == (
        ExitCode.TERMINATED,
        "the pod was told to stop (SIGTERM)",
    )


def failing(number: int) -> Any:
    def write(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return write


@pytest.mark.parametrize(
    ("number", "code"), [(errno.ENOSPC, ExitCode.DISK_FULL), (errno.EIO, ExitCode.RESULT_NOT_WRITTEN)]
)
def test_a_result_that_reaches_no_termination_message_is_a_failure(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, number: int, code: ExitCode
) -> None:
    monkeypatch.setattr(exit_status, "write_termination_message", failing(number))
    assert launcher._close(recording.Recording(), builders.result()) == code
    failure = records.Failure(trial="t", attempt=1, exit_code=ExitCode.STALLED, sentence="it stalled")
    assert launcher._close(recording.Recording(), failure) == ExitCode.STALLED


def test_a_result_that_cannot_be_recorded_is_a_failure_in_the_message(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    recorded = recording.Recording()
    monkeypatch.setattr(recorded, "publish", failing(errno.ENOSPC))
    monkeypatch.setattr(recording, "silence", lambda _: None)
    assert launcher._close(recorded, builders.result()) == ExitCode.DISK_FULL
    assert message(tmp_path).exit_code == ExitCode.DISK_FULL


def test_a_result_that_is_written_is_a_success(launcher: ModuleType, tmp_path: Path) -> None:
    assert launcher._close(recording.Recording(), builders.result()) == ExitCode.SUCCEEDED
    assert records.read_ending((tmp_path / "message").read_text()) == builders.result()


# --- a launcher whose ranks are made up -------------------------------------------------------------------------------


class Ranks:
    """In place of processes: what each poll shows, one after the other; the last one stays."""

    def __init__(self, *looks: exit_status.RankState, result: records.Result | None = None) -> None:
        self.looks, self.result, self.answered = list(looks), result, False
        self.started: list[channel.WorkerConfig] = []
        self.asked: list[channel.Request] = []

    def start(self, worker_config: channel.WorkerConfig, **_: Any) -> None:
        self.started.append(worker_config)

    def poll(self, **_: float) -> tuple[exit_status.RankState, ...]:
        return (self.looks.pop(0) if len(self.looks) > 1 else self.looks[0],)

    def ask(self, request: channel.Request) -> None:
        self.asked.append(request)
        self.answered = True

    def stop(self, **_: float) -> tuple[int, ...]:
        return ()


def rank(phase: Phase = Phase.STEPPING, **fields: Any) -> exit_status.RankState:
    return exit_status.RankState(rank=0, phase=phase, progress_ns=clock.monotonic_ns(), **fields)


def ended(
    launcher: ModuleType,
    ranks: Ranks,
    *,
    stopped: bool = False,
    folder: Path | None = None,
    gang: barrier.Gang | None = None,
    **work: Any,
) -> int:
    """The exit code of pod 0, whose gang is of one pod where none is given."""
    if folder is not None:
        work |= {"mode": "Training", "checkpoint": {}}
    pod = config.read(
        {
            names.ENV_ASSIGNMENT: make_assignment(**work).to_json(),
            names.ENV_POD_INDEX: "0",
            names.ENV_POD_IP: "127.0.0.1",
            names.ENV_RENDEZVOUS_HOST: "pod-0",
            names.ENV_CHECKPOINTS: str(folder),
            "GPUBENCH_LIMIT_INFORM": "0",
            "GPUBENCH_LIMIT_LINGER": "0",
            "GPUBENCH_LIMIT_DONE": "0.2",
            "GPUBENCH_LIMIT_POLL": "0.01",
        }
    )
    looks = iter([False])  # while the gang meets nobody has told it yet

    def check() -> None:
        if stopped and next(looks, True):
            raise exit_status.Failed(ExitCode.TERMINATED, "told to stop")

    stop = types.SimpleNamespace(requested=stopped, check=check)
    one = launcher._Launcher(pod, stop=stop, started_ns=clock.monotonic_ns())
    one._open_gang = lambda: gang or barrier.Membership(gang=pod.gang, pods=1)
    one._processes = ranks
    code: int = one.run()
    return code


DONE = rank(Phase.FINISHED, returncode=0)


def test_a_training_that_succeeds_leaves_no_checkpoints(launcher: ModuleType, tmp_path: Path) -> None:
    kept = tmp_path / "volume" / "trial1"
    kept.mkdir(parents=True)
    (kept / "000000000001.0001").mkdir()
    ranks = Ranks(rank(), DONE, result=builders.result())
    assert ended(launcher, ranks, folder=tmp_path / "volume") == ExitCode.SUCCEEDED
    assert not kept.exists()
    (started,) = ranks.started
    assert started.checkpoints == str(kept)
    assert started.join_seconds >= 0


def test_a_rank_that_ends_well_without_a_result_is_told(launcher: ModuleType, tmp_path: Path) -> None:
    assert ended(launcher, Ranks(DONE)) == ExitCode.WORKER_RAISED
    assert message(tmp_path).sentence.startswith("rank 0 ended well and gave no result")


class OfTwo(barrier.Membership):
    """The gang as pod 0 sees it, whose other pod comes and is done where pod 0 looks so often."""

    def __init__(self, *, comes: float = 0, is_done: float = 0, refuses: str = "", silent: str = "") -> None:
        super().__init__(gang="g", pods=2)
        self.looks, self.comes, self.is_done, self.refuses, self.silent = 0, comes, is_done, refuses, silent

    def join(self, pod: int = 0, **told: Any) -> None:
        if self.refuses:
            raise barrier.Refused(self.refuses)
        super().join(pod, **told)

    def done(self, pod: int = 0) -> None:
        if self.silent and not pod:
            raise barrier.Unreachable(self.silent)
        super().done(pod)

    def state(self) -> barrier.State:
        self.looks += 1
        if self.looks > self.comes:
            super().join(1)
        if self.looks > self.is_done:
            self.done(1)
        return super().state()


NEVER = math.inf


@pytest.mark.parametrize(
    ("other", "code", "sentence"),
    [
        ({"comes": 3, "is_done": 9}, ExitCode.SUCCEEDED, None),
        ({"is_done": NEVER}, ExitCode.PEER_LOST, "pods [1] did not acknowledge the result in time"),
        ({"silent": "no route to pod 0"}, ExitCode.PEER_LOST, "no route to pod 0"),
        ({"comes": NEVER}, ExitCode.JOIN_TIMEOUT, "not every pod came within 1 s: 1 of 2 are here, missing: pod 1"),
        ({"refuses": "403: who?"}, ExitCode.JOIN_TIMEOUT, "not every pod came within 1 s: 403: who?"),
    ],
)
def test_pod_0_waits_for_the_other_as_long_as_it_may_and_says_for_what(
    launcher: ModuleType, tmp_path: Path, other: dict[str, Any], code: ExitCode, sentence: str | None
) -> None:
    ranks = Ranks(rank(), DONE, result=builders.result())
    assert ended(launcher, ranks, gang=OfTwo(**other), workers=2, join_timeout_seconds=1) == code
    assert sentence is None or message(tmp_path).sentence.startswith(sentence)


def test_a_rank_that_the_kernel_killed_for_memory_is_told_from_one_that_somebody_killed(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    killed = rank(returncode=-signal.SIGKILL, ended_ns=0)
    for kills, code in ((iter([3, 4]), ExitCode.OUT_OF_MEMORY), (iter([3, 3]), ExitCode.WORKER_RAISED)):
        monkeypatch.setattr(exit_status, "out_of_memory_kills", kills.__next__)
        assert ended(launcher, Ranks(killed)) == code
        assert message(tmp_path).rank == 0


def test_the_end_of_a_users_own_program_is_told_with_its_file(launcher: ModuleType, tmp_path: Path) -> None:
    assert ended(launcher, Ranks(rank(returncode=1, ended_ns=0))) == ExitCode.WORKER_RAISED
    code = ended(launcher, Ranks(rank(returncode=1, ended_ns=0)), custom_file="/m.py", workload="own")
    assert code == ExitCode.CUSTOM_MODEL_FAILED
    assert message(tmp_path).sentence.startswith("/m.py: rank 0, stepping, ended with code 1")


def test_who_is_told_to_stop_asks_once_for_a_last_checkpoint_in_the_time_that_is_left(
    launcher: ModuleType, tmp_path: Path
) -> None:
    before, ranks = clock.monotonic_ns(), Ranks(rank())
    assert ended(launcher, ranks, stopped=True, folder=tmp_path) == ExitCode.TERMINATED
    (request,) = ranks.asked
    wanted = round(config.Limits().last_checkpoint_seconds * clock.NANOSECONDS)
    assert before + wanted <= request.deadline_ns <= clock.monotonic_ns() + wanted


# --- a rank -----------------------------------------------------------------------------------------------------------


def test_what_ends_a_rank_is_sent_before_it_leaves_with_that_code(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, left = list[records.Failure](), list[int]()
    orders = make_orders(make_assignment(workers=4, attempt=3), rank=2)

    def leave(code: int) -> None:
        left.append(code)
        raise SystemExit

    def train(*_: object) -> None:
        raise failures.RankError(ExitCode.STALLED, "x" * 3000)

    monkeypatch.setenv(channel.ENV_CONFIG, orders.to_json())
    monkeypatch.setattr(channel, "Writer", lambda _: types.SimpleNamespace(send=sent.append))
    monkeypatch.setattr(channel, "die_with_parent", lambda _: None)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(worker, "_train", train)
    monkeypatch.setattr(worker, "_leave", leave)
    with pytest.raises(SystemExit):
        worker.main()
    (failure,) = sent
    assert (failure.trial, failure.attempt, failure.rank) == ("trial1", 3, 2)
    assert [failure.exit_code] == left == [ExitCode.STALLED]
    assert failure.sentence == "x" * 2000
