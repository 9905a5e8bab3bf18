# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a run is named by the right notice, and by no other.

"And no other" is asked of a replaced clock only. Real gangs are disturbed on purpose, far beyond what other tests on
the same two cores do to steps that wait (support/waiting_model.py): there what was done must be told, and whatever else
is said may be true of a busy machine.
"""

import contextlib
import json
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
from gpubench import records
from gpubench.records import Straggler
from gpubench.stats import stopping_rule
from gpubench_jobs.worker import aggregate, sampling

WAITING = {"workload": "waiting", "custom_file": str(Path(waiting_model.__file__)), "window_seconds": 0.2}
MEASURED_SECONDS = 8.0


def kinds(result: records.Result) -> list[str]:
    return [notice.kind for notice in result.notices]


def told(*pods: Pod) -> str:
    """What a gang measured, for a reader who must find out why it was not said."""
    lines = [f"pod {number}: {line}" for number, pod in enumerate(pods) for line in pod.lines]
    return "\n".join((*lines, pods[0].log[-1000:]))


@contextlib.contextmanager
def throttled(process: psutil.Process, *, running: float = 0.05, stopped: float = 0.15) -> Iterator[None]:
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
    # Three minutes so that looks may take a tenth of them, however busy the machine; a few windows of these are enough.
    first, second = pods.gang(
        make_assignment(workers=2, warm_up_seconds=1, measure_seconds=180, standard_error_wanted=0.5, **WAITING)
    )
    second.wait_for_windows(1)  # four are left of the warm-up, each of them longer than a second now
    (rank,) = second.workers()
    with throttled(rank):
        assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    stragglers = [notice for notice in first.result.notices if isinstance(notice, Straggler)]
    assert [straggler.rank for straggler in stragglers] == [1], told(first, second)
    (straggler,) = stragglers
    assert straggler.cost > 1  # it computes a quarter of the time


@pytest.mark.usefixtures("horovod")
def test_a_rank_that_pauses_makes_a_window_of_every_rank_that_stands_out_and_is_spoken_of(pods: Pods) -> None:
    assignment = make_assignment(workers=2, warm_up_seconds=1, measure_seconds=MEASURED_SECONDS, **WAITING)
    first, second = pods.gang(assignment)
    # What is slow in the first half of what is measured might be warm-up.
    wait_until(lambda: measured_seconds(second) >= 0.7 * MEASURED_SECONDS, pods=(first, second))
    (rank,) = second.workers()
    rank.send_signal(signal.SIGSTOP)
    with contextlib.suppress(psutil.TimeoutExpired):
        rank.wait(timeout=3)  # fifteen windows long
    rank.send_signal(signal.SIGCONT)
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    result = first.result
    for pod in (first, second):
        longest = max(pod.wrote.of_kind(records.Window), key=lambda window: window.nanoseconds)
        assert longest.nanoseconds > 5 * result.window_nanoseconds[1], told(first, second)
        assert result.steady_from is None or longest.index >= result.steady_from, told(first, second)
    # One thing at most is said of windows. A machine that becomes busy meanwhile has a trend, which comes first.
    assert {*kinds(result)} & {"Outliers", "Trend", "Bimodal", "Unsettled"}, told(first, second)


def measured(pod: Pod) -> int:
    """Windows so far."""
    return sum('"warmUp":false' in line for line in pod.lines)


def measured_seconds(pod: Pod) -> float:
    """Of windows so far."""
    found = (json.loads(line) for line in pod.lines if '"warmUp":false' in line)
    return sum(int(window["nanoseconds"]) for window in found) / 1e9


def result_of(
    seconds_of: Callable[[int], float], *, windows: int = 60, computing: Sequence[Sequence[float]] = ()
) -> records.Result:
    """Of a gang whose step takes so long in each window, by a replaced clock.

    It has a rank for each entry of `computing`, the seconds of its looks at itself; one rank without looks if there is
    none.
    """
    loop = sessions.Loop(seconds_of)
    with sessions.drained() as sink:
        session = sessions.make_session(loop, sink=sink, warm_up_seconds=0, measure_seconds=0.1 * windows)
        session.measure(10)
    reports = [
        aggregate.Report(
            rank=rank,
            windows=tuple(window.model_copy(update={"rank": rank}) for window in session.windows),
            final_loss=1.0,
            weights_digest="d",
            environment="e",
            usage=usage_of(rank, computing[rank]) if computing else None,
        )
        for rank in range(len(computing) or 1)
    ]
    return aggregate.result(reports, assignment=session.assignment, join_seconds=0.0, init_seconds=0.0)


def usage_of(rank: int, compute_seconds: Sequence[float]) -> records.Usage:
    readings = [sampling.Reading(nanoseconds=n, processor_seconds=0.0, memory_bytes=1) for n in (0, 1)]
    found = sampling.usage(readings[:1], last=readings[1], rank=rank, period_seconds=1.0)
    return found.model_copy(update={"compute_seconds": tuple(compute_seconds)})


def noise(window: int) -> float:
    """Of 0.3 %, the same in every run."""
    return random.Random(window).gauss(1.0, 0.003)


def test_a_run_that_nothing_disturbs_has_nothing_said_of_it() -> None:
    found = result_of(lambda window: 0.01 * noise(window))
    assert found.notices == ()
    assert found.settled
    assert found.windows + found.warm_up_windows >= 60
    assert found.steady_from is not None
    assert found.standard_error is not None


def test_a_gang_that_nothing_disturbs_has_nothing_said_of_it() -> None:
    looks = [[0.01 * noise(100 * rank + look) for look in range(16)] for rank in (1, 2)]
    found = result_of(lambda window: 0.01 * noise(window), computing=looks)
    assert (found.workers, found.notices) == (2, ())


def test_a_rank_that_computes_more_slowly_is_called_the_straggler_and_nothing_else_is_said() -> None:
    looks = [[0.01 * (1 + 0.3 * (rank == 1)) * noise(100 * rank + look) for look in range(16)] for rank in range(3)]
    found = result_of(lambda window: 0.013 * noise(window), computing=looks)
    (straggler,) = found.notices
    assert isinstance(straggler, Straggler)
    assert straggler.rank == 1
    assert straggler.cost == pytest.approx(0.3, abs=0.02)


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


def test_a_warm_up_has_its_whole_time_however_exact_it_is() -> None:
    loop = sessions.Loop(lambda _: 0.01)
    with sessions.drained() as sink:
        rank = sessions.make_session(loop, sink=sink, standard_error_wanted=0.1)
        rank._run_for(100.0, steps=10, warm_up=True, at_least=1)
    assert len(rank.windows) == 1000


@pytest.mark.usefixtures("horovod")
def test_all_ranks_end_early_after_the_same_window(pods: Pods) -> None:
    both = pods.gang(make_assignment(workers=2, measure_seconds=3600, standard_error_wanted=0.1, **WAITING))
    assert [pod.wait() for pod in both] == [0, 0], both[0].log[-2000:]
    windows = [measured(pod) for pod in both]
    assert windows[0] == windows[1]
    assert stopping_rule.COUNTED_MIN <= windows[0] < 600
    assert both[0].result.windows + both[0].result.warm_up_windows >= windows[0]
