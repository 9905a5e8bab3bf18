# SPDX-License-Identifier: Apache-2.0
"""Who is to blame, as a table: one row for each way in which a gang comes apart."""

import signal
from dataclasses import replace
from typing import Any

import pytest

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench_jobs import clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.launcher import barrier, config, exit_status

NOW = 1000 * clock.NANOSECONDS
LIMITS = config.Limits()
FAULT = barrier.Fault(pod=1, rank=1, exit_code=ExitCode.WORKER_RAISED, sentence="it broke")


def ago(seconds: float) -> int:
    return NOW - round(seconds * clock.NANOSECONDS)


def seen(rank: int = 0, *, silent: float = 0.1, **fields: Any) -> exit_status.RankState:
    return exit_status.RankState(rank=rank, progress_ns=ago(silent), **({"phase": Phase.STEPPING} | fields))


def failed(rank: int = 0, *, code: ExitCode, at: float = 0.0, sentence: str = "because") -> exit_status.RankState:
    words = records.Failure(trial="t", attempt=1, exit_code=code, rank=rank, sentence=sentence)
    return seen(rank, failure=words, ended_ns=ago(at))


def ended(rank: int = 0, *, code: int, at: float = 0.0, **fields: Any) -> exit_status.RankState:
    return seen(rank, returncode=code, ended_ns=ago(at), **fields)


def state(*ranks: exit_status.RankState, **fields: Any) -> exit_status.PodState:
    defaults: dict[str, Any] = {"pod": 0, "ranks": ranks, "now_ns": NOW, "stall_seconds": 30}
    return exit_status.PodState(**(defaults | fields))


def judge(*ranks: exit_status.RankState, **fields: Any) -> exit_status.Failed | None:
    return exit_status.classify(state(*ranks, **fields), LIMITS)


def code_and_rank(found: exit_status.Failed | None) -> tuple[ExitCode, int | None]:
    assert isinstance(found, exit_status.Failed), found
    return found.exit_code, found.rank


def test_a_pod_at_work_is_left_alone() -> None:
    assert judge(seen(0), seen(1)) is None


def test_all_ranks_finished_is_the_only_good_end() -> None:
    done: dict[str, Any] = {"code": 0, "phase": Phase.FINISHED}
    assert judge(ended(0, **done), ended(1, **done)) is None
    assert state(ended(0, **done), ended(1, **done)).finished
    assert judge(ended(0, **done), seen(1)) is None
    assert not state(ended(0, **done), seen(1)).finished


def test_a_rank_that_ends_with_0_before_the_end_has_failed() -> None:
    assert code_and_rank(judge(ended(0, code=0), seen(1))) == (ExitCode.WORKER_RAISED, 0)


@pytest.mark.parametrize("file", [None, "/own/mine.py"])
@pytest.mark.parametrize("phase", [Phase.STARTING, Phase.BUILDING])
@pytest.mark.parametrize(
    ("rank", "what"),
    [({"returncode": 0, "ended_ns": NOW}, "ended with code 0"), ({"nonsense": "b'?'"}, "wrote b'?' into the pipe")],
)
def test_what_a_users_file_does_to_its_process_is_blamed_on_the_file_once_it_can_have_been_run(
    rank: dict[str, Any], what: str, phase: Phase, file: str | None
) -> None:
    found = judge(seen(0, phase=phase, **rank), seen(1), custom_file=file)
    blamed = file is not None and phase is Phase.BUILDING
    assert code_and_rank(found) == (ExitCode.CUSTOM_MODEL_FAILED if blamed else ExitCode.WORKER_RAISED, 0)
    assert isinstance(found, exit_status.Failed)
    assert found.sentence.startswith(f"{f'{file}: ' if blamed else ''}rank 0, {phase}, {what}")


def test_a_rank_that_has_given_its_reason_is_not_judged_by_its_nonsense() -> None:
    rank = replace(failed(0, code=ExitCode.OUT_OF_MEMORY), nonsense="b'?'")
    assert code_and_rank(judge(rank)) == (ExitCode.OUT_OF_MEMORY, 0)


def test_a_crash_of_a_users_file_may_be_tried_again() -> None:
    found = judge(ended(0, code=-signal.SIGSEGV), custom_file="/own/mine.py")
    assert code_and_rank(found) == (ExitCode.WORKER_RAISED, 0)


def test_a_ranks_own_words_outrank_its_neighbours_loss() -> None:
    lost = failed(0, code=ExitCode.PEER_LOST, at=5)
    assert code_and_rank(judge(lost, failed(1, code=ExitCode.LOSS_NOT_FINITE))) == (ExitCode.LOSS_NOT_FINITE, 1)


def test_a_crash_outranks_its_neighbours_loss() -> None:
    lost = failed(0, code=ExitCode.PEER_LOST, at=5)
    found = judge(lost, ended(1, code=-signal.SIGSEGV))
    assert code_and_rank(found) == (ExitCode.WORKER_RAISED, 1)
    assert "SIGSEGV" in found.sentence  # type: ignore[union-attr]


def test_a_lost_peer_is_believed_only_after_the_dust_has_settled() -> None:
    assert judge(failed(0, code=ExitCode.PEER_LOST, at=0.2), seen(1)) is None
    assert code_and_rank(judge(failed(0, code=ExitCode.PEER_LOST, at=1.1), seen(1))) == (ExitCode.PEER_LOST, None)


def test_a_kill_is_out_of_memory_only_with_the_kernels_word() -> None:
    killed = ended(0, code=-signal.SIGKILL)
    assert code_and_rank(judge(killed)) == (ExitCode.WORKER_RAISED, 0)
    assert code_and_rank(judge(killed, out_of_memory_kills=1)) == (ExitCode.OUT_OF_MEMORY, 0)


def test_gloos_abort_while_connecting_is_the_loss_of_a_peer() -> None:
    aborted = ended(0, code=-signal.SIGABRT, at=2, phase=Phase.CONNECTING)
    found = judge(aborted)
    assert code_and_rank(found) == (ExitCode.PEER_LOST, 0)
    assert "hvd.init()" in found.sentence  # type: ignore[union-attr]
    assert "pod 1 failed first: it broke" in judge(aborted, fault=FAULT).sentence  # type: ignore[union-attr]


def test_an_abort_at_work_is_a_crash() -> None:
    assert code_and_rank(judge(ended(0, code=-signal.SIGABRT, at=2))) == (ExitCode.WORKER_RAISED, 0)


def test_the_gangs_word_ends_the_other_pods_at_once() -> None:
    assert code_and_rank(judge(seen(0), fault=FAULT)) == (ExitCode.PEER_LOST, None)


def test_a_pod_does_not_follow_its_own_report() -> None:
    assert judge(seen(0), fault=FAULT, pod=1) is None


@pytest.mark.parametrize("code", [ExitCode.JOIN_TIMEOUT, ExitCode.BAD_ASSIGNMENT])
def test_all_pods_say_the_same_of_what_keeps_them_from_being_a_gang(code: ExitCode) -> None:
    fault = barrier.Fault(pod=0, exit_code=code, sentence="missing: pod 2")
    found = judge(seen(0), fault=fault, pod=1)
    assert found is not None
    assert (found.exit_code, found.sentence, found.rank) == (code, "missing: pod 2", None)


def test_a_silent_pod_0_is_a_lost_peer_unless_the_work_is_done() -> None:
    assert code_and_rank(judge(seen(0), barrier_silent=True, pod=1)) == (ExitCode.PEER_LOST, None)
    done = ended(0, code=0, phase=Phase.FINISHED)
    assert judge(done, barrier_silent=True, pod=1) is None
    assert state(done).finished


@pytest.mark.parametrize(
    ("ranks", "blamed"),
    [
        ((seen(0, silent=31), seen(1, silent=31, frozen=True)), 1),  # stopped: the other waits for it
        ((seen(0, silent=31), seen(1, silent=31)), None),  # both wait: a peer's launcher may know more
        ((seen(0, silent=36), seen(1, silent=36)), 0),  # nobody knew more
        ((seen(0, silent=29), seen(1, silent=29, frozen=True)), None),  # not yet
        ((seen(0, silent=200, phase=Phase.FIRST_STEP),), None),  # tracing takes its time
        ((seen(0, silent=301, phase=Phase.BUILDING), seen(1, silent=301, phase=Phase.SPREADING)), 0),
    ],
)
def test_who_has_stalled(ranks: tuple[exit_status.RankState, ...], blamed: int | None) -> None:
    found = judge(*ranks)
    if blamed is None:
        assert found is None
    else:
        assert code_and_rank(found) == (ExitCode.STALLED, blamed)
        assert "measure.window" in found.sentence  # type: ignore[union-attr]  # something that a user can change


def test_it_is_said_where_the_rank_that_stalled_was() -> None:
    stopped = judge(seen(0, silent=31), seen(1, silent=31, frozen=True))
    building = judge(seen(0, silent=301, phase=Phase.BUILDING))
    assert stopped is not None
    assert building is not None
    assert stopped.sentence.startswith("rank 1 made no progress for 30 s (its process is stopped): ")
    assert building.sentence.startswith("rank 0 made no progress for 300 s (it is building its model): ")


@pytest.mark.parametrize(("code", "name"), [(-signal.SIGSEGV, "SIGSEGV"), (-64, "SIGRTMAX"), (-70, "signal 70")])
def test_a_crash_has_the_name_of_its_signal_and_the_place_of_the_rank(code: int, name: str) -> None:
    found = judge(ended(3, code=code, phase=Phase.FIRST_STEP))
    assert found is not None
    assert "rank 3, taking its first step," in found.sentence
    assert name in found.sentence


def test_a_fault_for_the_peers_has_the_rank_and_the_head_of_the_sentence() -> None:
    found = exit_status.Failed(ExitCode.WORKER_RAISED, "x" * 600, rank=5)
    assert found.fault(2) == barrier.Fault(pod=2, rank=5, exit_code=ExitCode.WORKER_RAISED, sentence="x" * 500)


def test_a_long_stall_time_out_counts_while_starting_too() -> None:
    assert judge(seen(0, silent=301, phase=Phase.BUILDING), stall_seconds=600) is None
