# SPDX-License-Identifier: Apache-2.0
"""When checkpoints are kept: never later than the interval allows, never in a figure of training."""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import sessions
from gangs import make_assignment
from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Checkpointing
from gpubench.stats import checkpoint_interval, gang
from gpubench_jobs import channel
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import checkpoint, checkpointer, epochs

STEP_SECONDS = 0.01
COURSE = epochs.EpochPlan(epochs=4, steps=500, samples=7, evaluation=None)


@pytest.fixture
def sink() -> Iterator[int]:
    with sessions.drained() as writer:
        yield writer


class Volume(checkpoint.Disk):
    """Takes its time, by the clock of the loop, and fails where it is told to."""

    def __init__(
        self, loop: sessions.Loop, *, seconds: float, refused: Callable[[int], bool] = lambda _: False
    ) -> None:
        self._loop, self._seconds, self._refused = loop, seconds, refused
        self.tried = 0

    def make(self, folder: Path) -> None:
        self.tried += 1
        self._loop.now += round(self._seconds * 1e9)
        if self._refused(self.tried):
            raise OSError(30, "Read-only file system")
        super().make(folder)


class Run:
    """One rank whose steps take a hundredth of a second each."""

    def __init__(self, folder: Path, sink: int, *, seconds: float = 0.5, **policy: Any) -> None:
        self.refused: Callable[[int], bool] = lambda _: False
        self.loop = sessions.Loop(lambda _: STEP_SECONDS, loss_of=lambda count: 0.5 * sessions.BATCH * count)
        self.rank = sessions.make_session(self.loop, sink=sink)
        self.volume = Volume(self.loop, seconds=seconds, refused=self._is_refused)
        variable = tf.Variable([1.0, 2.0])
        self.keeper = checkpointer.Checkpointer(
            policy=Checkpointing(**policy),
            nodes=1,
            identity=checkpoint.identity(make_assignment()),
            extent=checkpoint.Extent(epochs=COURSE.epochs, steps=COURSE.steps, samples=COURSE.samples),
            state=checkpointer.TrainingState([variable], [variable], lambda: [variable]),
            store=checkpoint.Store(folder=folder / "trial", disk=self.volume),
        )
        self.done: tuple[Any, ...] = ()

    def _is_refused(self, tried: int) -> bool:
        return self.refused(tried)

    def run(self) -> None:
        self.done = epochs.run_epochs(self.rank, COURSE, self.keeper)

    @property
    def kept_at(self) -> list[int]:
        return [one.step for one in self.keeper.kept]


def test_no_more_than_an_interval_of_training_is_ever_without_a_checkpoint(tmp_path: Path, sink: int) -> None:
    run = Run(tmp_path, sink, interval_seconds=3.0)
    run.run()
    steps = [0, *run.kept_at, COURSE.epochs * COURSE.steps]
    longest = max(after - before for before, after in itertools.pairwise(steps))
    assert 200 < longest <= 300, "3 s of steps of 10 ms"
    assert gang.checkpoints(run.keeper.kept, begun=0, ended=steps[-1]).lost_steps_max == longest


def test_the_time_of_checkpoints_is_told_and_is_in_no_epoch_and_in_no_window(tmp_path: Path, sink: int) -> None:
    run = Run(tmp_path, sink, interval_seconds=3.0, seconds=0.5)
    run.run()
    assert len(run.keeper.kept) > 4
    assert {one.seconds for one in run.keeper.kept} == {0.5}
    assert [epoch.nanoseconds for epoch in run.done] == [round(COURSE.steps * STEP_SECONDS * 1e9)] * COURSE.epochs
    assert sum(window.nanoseconds for window in run.rank.windows) == sum(epoch.nanoseconds for epoch in run.done)


def test_without_an_interval_it_follows_from_what_checkpoints_cost(tmp_path: Path, sink: int) -> None:
    run = Run(tmp_path, sink, seconds=0.01, interruptions_per_node_hour=60.0)
    assert run.keeper.interval_seconds == checkpointer._FIRST_SECONDS
    run.keeper.kept.append(
        records.Checkpoint(step=1, seconds=0.01, size_bytes=1, interval_seconds=1.0)
    )  # as if there had been one
    expected = checkpoint_interval.optimum(write_seconds=0.01, between_seconds=60.0)
    assert run.keeper.interval_seconds == pytest.approx(expected)
    run.keeper.kept.clear()
    run.run()
    assert len(run.keeper.kept) == 0, "20 s of training are over before the first"


def test_a_volume_that_refuses_fails_no_training_and_is_tried_again(
    tmp_path: Path, sink: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = Run(tmp_path, sink, interval_seconds=3.0)
    run.refused = lambda tried: tried <= 2
    run.run()
    assert len(run.done) == COURSE.epochs
    assert run.kept_at[0] > 800, "the first two were refused"
    told = capsys.readouterr().err
    assert told.count("was not kept") == 2
    assert "Read-only file system" in told
    assert "give spec.checkpoint a volume that these pods can write" in told
    assert [epoch.nanoseconds for epoch in run.done] == [round(COURSE.steps * STEP_SECONDS * 1e9)] * COURSE.epochs


@pytest.fixture
def asking() -> Iterator[tuple[int, channel.Requests]]:
    """The launcher's end, and the rank's."""
    reader, writer = os.pipe()
    yield writer, channel.Requests(reader)
    os.close(reader)
    os.close(writer)


def ask(writer: int, *, seconds: float, now: int) -> None:
    request = channel.Request(deadline_ns=now + round(seconds * 1e9))
    os.write(writer, request.to_json().encode() + b"\n")


@pytest.mark.parametrize(("seconds", "kept"), [(2.0, True), (0.6, False)])
def test_a_last_checkpoint_is_kept_where_what_one_costs_fits_the_time_that_is_left(
    tmp_path: Path, sink: int, asking: tuple[int, channel.Requests], seconds: float, kept: bool
) -> None:
    """One costs half a second, and the volume may be slower this time."""
    writer, requests = asking
    run = Run(tmp_path, sink, interval_seconds=12.0, seconds=0.5)
    run.keeper.requests = requests
    asked: list[int] = []
    record = run.rank.record

    def at_the_window(timed: Any, **of_window: Any) -> None:
        record(timed, **of_window)
        if run.loop.steps >= 1500 and not asked:
            asked.append(run.loop.steps)
            ask(writer, seconds=seconds, now=run.loop.now)

    run.rank.record = at_the_window  # type: ignore[method-assign]  # a rank that hears of it between two windows
    if kept:
        with pytest.raises(RankError, match="told to stop") as caught:
            run.run()
        assert caught.value.exit_code is ExitCode.TERMINATED
        (*_, last) = run.keeper.kept
        assert last.last
        assert last.step == run.loop.steps < asked[0] + 100, "at the next look, and nothing is trained after it"
    else:
        run.run()
        assert not any(one.last for one in run.keeper.kept)


def test_the_other_ranks_have_lost_rank_0_once_it_was_told_to_stop(tmp_path: Path, sink: int) -> None:
    run = Run(tmp_path, sink, interval_seconds=3.0)
    run.rank.rank = 1
    run.rank.agreed = lambda _: checkpointer._Look(keep=True, last=True, windows=1)  # type: ignore[method-assign,assignment,return-value]
    run.keeper._keep = lambda *_, **__: True  # type: ignore[method-assign]
    with pytest.raises(RankError, match="rank 0 was told to stop, and has kept a checkpoint of step 9") as caught:
        run.keeper.look(run.rank, windows=1, steps=1, progress=checkpoint.Progress(step=9))
    assert caught.value.exit_code is ExitCode.PEER_LOST


def test_a_rank_that_is_asked_answers_whether_it_keeps_one_or_not() -> None:
    reader, writer = os.pipe()
    requests = channel.Requests(reader)
    assert requests.newest() is None
    ask(writer, seconds=1.0, now=5)
    found = requests.newest()
    assert found is not None
    assert found.deadline_ns == 1_000_000_005
    assert requests.newest() is None, "it is asked once"
    os.close(writer)
    assert requests.newest() is None, "nobody will ask any more"
    os.close(reader)


def test_an_attempt_goes_on_where_the_checkpoint_was_and_all_epochs_have_their_whole_time(
    tmp_path: Path, sink: int
) -> None:
    first = Run(tmp_path, sink, interval_seconds=3.0)
    first.run()
    store = first.keeper.store
    assert store is not None
    found = store.newest(first.keeper.identity, attempt=2)
    assert found is not None
    progress = found.manifest.progress
    assert progress.step == first.kept_at[-1]
    assert found.manifest.write_seconds == pytest.approx(0.5)
    assert progress.useful_nanoseconds == progress.step * round(STEP_SECONDS * 1e9)
    second = Run(tmp_path, sink, interval_seconds=3.0)
    second.keeper.begun = found.manifest
    second.run()
    assert second.loop.steps == COURSE.epochs * COURSE.steps - progress.step
    assert [epoch.model_copy(update={"loss": 0.5}) for epoch in second.done] == list(first.done)
    assert [epoch.loss for epoch in second.done] == pytest.approx([0.5] * COURSE.epochs)


@pytest.mark.parametrize("rank", [0, 1])
def test_each_rank_has_its_own_values_back_and_the_common_ones_from_rank_0(
    rank: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    common, own = tf.Variable([0.0, 0.0]), tf.Variable([0, 0, 0])
    state = checkpointer.TrainingState(learned=[common], persistent=[own], of_a_step=list)
    arrays = [checkpointer._array(common), checkpointer._array(own, own=True)]
    of_ranks = np.array([[1, 2, 3], [4, 5, 6]], np.int32).tobytes()
    values = np.array([0.5, 0.25], np.float32).tobytes() + of_ranks if rank == 0 else b""
    spread: list[object] = []
    monkeypatch.setattr(horovod, "broadcast", spread.append)
    monkeypatch.setattr(horovod, "broadcast_bytes", lambda mine: mine or of_ranks)
    checkpointer.restore_variables(state, arrays, values, rank=rank, workers=2)
    assert spread == [[common]]
    assert common.numpy().tolist() == ([0.5, 0.25] if rank == 0 else [0.0, 0.0])
    assert own.numpy().tolist() == ([1, 2, 3] if rank == 0 else [4, 5, 6])
