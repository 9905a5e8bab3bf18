# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a run is named by the right notice, and by no other: real gangs that are disturbed on purpose.

What must not depend on the speed of the machine has steps that wait (support/waiting_model.py), or a replaced clock.
"""

import contextlib
import math
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import pytest

import sessions
import waiting_model
from gangs import Pod, Pods, make_assignment, wait_until
from gpubench.measure import records
from gpubench.measure.notices import Straggler
from gpubench_jobs import agreement

WAITING = {"workload": "waiting", "custom_file": str(Path(waiting_model.__file__)), "window_seconds": 0.2}


def kinds(result: records.Result) -> list[str]:
    return [notice.kind for notice in result.notices]


def told(*pods: Pod) -> str:
    """What a gang measured, for a reader who must find out why something else was said of it."""
    lines = [f"pod {number}: {line}" for number, pod in enumerate(pods) for line in pod.lines]
    return "\n".join((*lines, pods[0].log[-1000:]))


@contextlib.contextmanager
def throttled(process: psutil.Process, *, running: float = 0.025, stopped: float = 0.1) -> Iterator[None]:
    """A process that may run for so many seconds, then is stopped for so many, and so on.

    Competing for its processor would limit it as well; but on two cores the scheduler then moves everything else to the
    other rank's, which on a busy machine is limited as much.
    """
    ended = threading.Event()

    def limit() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            while not ended.wait(running):
                process.suspend()
                time.sleep(stopped)
                process.resume()

    limiter = threading.Thread(target=limit)
    limiter.start()
    try:
        yield
    finally:
        ended.set()
        limiter.join()


@pytest.mark.usefixtures("horovod")
def test_a_rank_that_gets_a_part_of_the_time_only_is_named_as_the_straggler(pods: Pods) -> None:
    slow_steps = {**WAITING, "window_seconds": 1.0}
    first, second = pods.gang(make_assignment(workers=2, warm_up_seconds=3, measure_seconds=15, **slow_steps))
    second.wait_for_windows(1)
    (rank,) = second.workers()
    with throttled(rank):
        assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    assert kinds(first.result) == ["Straggler"], told(first, second)
    (straggler,) = first.result.notices
    assert isinstance(straggler, Straggler)
    assert straggler.rank == 1
    assert straggler.cost > 1  # a step of 20 ms becomes one of a period of 125 ms: five


@pytest.mark.usefixtures("horovod")
def test_a_rank_that_pauses_makes_windows_that_stand_out(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, warm_up_seconds=1, measure_seconds=8, **WAITING))
    # Forty windows are measured. What is slow in the first half of them might be warm-up.
    wait_until(lambda: measured(second) >= 25, pods=(first, second))
    (rank,) = second.workers()
    rank.send_signal(signal.SIGSTOP)
    with contextlib.suppress(psutil.TimeoutExpired):
        rank.wait(timeout=3)  # fifteen windows long
    rank.send_signal(signal.SIGCONT)
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    assert kinds(first.result) == ["Outliers"], told(first, second)


def measured(pod: Pod) -> int:
    return sum('"warmUp":false' in line for line in pod.lines)


@pytest.mark.usefixtures("horovod")
def test_a_gang_that_nothing_disturbs_has_nothing_said_of_it(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, warm_up_seconds=1, measure_seconds=6, **WAITING))
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    assert first.result.notices == (), told(first, second)
    assert first.result.steady_from is not None
    assert first.result.standard_error is not None


def result_of(seconds_of: Callable[[int], float], *, windows: int = 60) -> records.Result:
    """Of a gang of one whose step takes so long in each window, by a replaced clock."""
    loop = sessions.Loop(seconds_of)
    with sessions.drained() as sink:
        rank = sessions.make_session(loop, sink=sink, warm_up_seconds=0, measure_seconds=0.1 * windows)
        rank.measure(10)
    report = agreement.Report(rank=0, windows=tuple(rank.windows), final_loss=1.0, weights_digest="d", environment="e")
    return agreement.result([report], assignment=rank.assignment, join_seconds=0.0, init_seconds=0.0)


def noise(window: int) -> float:
    """Of 0.3 %, the same in every run."""
    return random.Random(window).gauss(1.0, 0.003)


def test_a_run_that_nothing_disturbs_has_nothing_said_of_it() -> None:
    found = result_of(lambda window: 0.01 * noise(window))
    assert found.notices == ()
    assert found.settled
    assert found.windows + found.warm_up_windows >= 60


def test_a_run_that_never_settles_keeps_all_its_windows_and_is_called_so() -> None:
    found = result_of(lambda window: 0.01 * (1 + 0.01 * window) * noise(window))
    assert kinds(found) == ["Unsettled"]
    assert not found.settled
    assert found.warm_up_windows == 0
    assert found.steady_from is None


def test_a_run_with_two_speeds_is_called_bimodal() -> None:
    assert kinds(result_of(lambda window: 0.01 * (1.3 if window // 5 % 2 else 1.0) * noise(window))) == ["Bimodal"]


def test_a_pause_is_called_an_outlier() -> None:
    assert kinds(result_of(lambda window: 0.01 * (10 if window == 30 else 1) * noise(window))) == ["Outliers"]


def test_windows_before_the_steady_state_are_kept_as_warm_up() -> None:
    found = result_of(lambda window: 0.01 * (1 + 0.5 * math.exp(-window / 3)) * noise(window))
    assert found.notices == ()
    assert found.steady_from is not None
    assert 5 <= found.steady_from <= 30
    assert found.steady_from == found.warm_up_windows
    assert found.nanoseconds / found.steps == pytest.approx(1e7, rel=0.005)  # not the 2.5 % that all windows say


def enough_after(noisy: Sequence[float], *, wanted: float | None) -> int:
    """Windows of a run of at most a thousand."""
    loop = sessions.Loop(lambda window: 0.01 * noisy[window % len(noisy)])
    with sessions.drained() as sink:
        rank = sessions.make_session(
            loop, sink=sink, warm_up_seconds=0, measure_seconds=100.0, standard_error_wanted=wanted
        )
        rank.measure(10)
    return len(rank.windows)


def test_windows_end_once_their_mean_is_as_exact_as_is_wanted() -> None:
    noisy = [noise(window) for window in range(1000)]
    all_of_them, exact, rough = (enough_after(noisy, wanted=wanted) for wanted in (None, 0.0003, 0.01))
    assert all_of_them >= 1000
    assert 5 <= rough < exact < all_of_them


@pytest.mark.usefixtures("horovod")
def test_all_ranks_end_early_after_the_same_window(pods: Pods) -> None:
    both = pods.gang(make_assignment(workers=2, measure_seconds=3600, standard_error_wanted=0.1, **WAITING))
    assert [pod.wait() for pod in both] == [0, 0], both[0].log[-2000:]
    windows = [[line for line in pod.lines if '"kind":"window"' in line] for pod in both]
    assert len(windows[0]) == len(windows[1]) < 600
    assert both[0].result.windows >= 5
