# SPDX-License-Identifier: Apache-2.0
"""Trainings of two real ranks that are ended again and again, and end with the weights of one that nobody disturbed.

Bit for bit: the same ranks see the same samples in the same order, and a sum of two floats is one from either side.
On a GPU that needs deterministic operations (TF_DETERMINISTIC_OPS=1), which are not what is measured otherwise.
"""

import itertools
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fork_server import ForkServer
from gangs import Pod, Pods, make_assignment, wait_until
from gpubench import names, records
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.stats import gang

pytestmark = pytest.mark.usefixtures("horovod")

INTERVAL_SECONDS = 0.2
EPOCHS, STEPS_PER_EPOCH = 8, 126  # 125 of 16 samples, and one of one each
TRAINING: dict[str, Any] = {
    "workers": 2, "mode": "Training", "epochs": EPOCHS, "data": {"source": "Generated", "samples": 2002},
    "window_seconds": 0.5,
}  # fmt: skip

Start = Callable[..., tuple[Pod, ...]]


@pytest.fixture
def start(tmp_path: Path, server: ForkServer) -> Iterator[Start]:
    """The next attempt at one training, on the same volume."""
    attempts: list[Pods] = []

    def attempt(assignment: Assignment, **limits: str) -> tuple[Pod, ...]:
        folder = tmp_path / f"attempt-{len(attempts) + 1}"
        folder.mkdir()
        attempts.append(Pods(folder, server=server))
        environment = {names.ENV_CHECKPOINTS: str(tmp_path / "volume"), "GPUBENCH_LIMIT_LINGER": "0", **limits}
        told = assignment.model_copy(update={"attempt": len(attempts)})
        return attempts[-1].gang(told, environment=environment)

    yield attempt
    for pods in attempts:
        pods.end()


@pytest.fixture(scope="module")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
    server: ForkServer,
    horovod: None,  # noqa: ARG001
) -> Iterator[Pod]:
    pods = Pods(tmp_path_factory.mktemp("undisturbed"), server=server)
    first, second = pods.gang(make_assignment(**TRAINING))
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:] + second.log[-2000:]
    yield first
    pods.end()


def keeping(seconds: float) -> Assignment:
    return make_assignment(**TRAINING, checkpoint={"interval_seconds": seconds})


def began_at(pod: Pod) -> int:
    return next((resumed.step for resumed in pod.wrote_until_killed.of_kind(records.Resumed)), 0)


def held_out(pod: Pod) -> list[tuple[float | None, float | None]]:
    """How good the model was after each epoch: all of its state is in that, moving statistics and seeds of dropout."""
    return [(epoch.evaluation_loss, epoch.accuracy) for epoch in pod.wrote.of_kind(records.Epoch)]


def require_same(pod: Pod, undisturbed: Pod) -> None:
    """As if nothing had been."""
    result, expected = pod.result, undisturbed.result
    assert result.weights_digest == expected.weights_digest
    assert (result.steps, result.samples) == (expected.steps, expected.samples) == (
        EPOCHS * STEPS_PER_EPOCH, EPOCHS * 2002
    )  # fmt: skip
    assert held_out(pod) == held_out(undisturbed)
    assert result.training is not None
    assert result.training.epochs == EPOCHS
    epochs = pod.wrote.of_kind(records.Epoch)
    assert [epoch.index for epoch in epochs] == list(range(EPOCHS))
    assert result.nanoseconds == sum(epoch.nanoseconds for epoch in epochs)


def test_a_training_that_is_preempted_five_times_ends_with_the_weights_of_an_undisturbed_one(
    start: Start, undisturbed: Pod, tmp_path: Path
) -> None:
    chance = random.Random(7)
    assignment = keeping(INTERVAL_SECONDS)
    attempts: list[Pod] = []
    for killed in range(5):
        first, second = start(assignment)
        checkpoints = 0 if not killed else chance.randint(1, 2)  # the first is killed before it has any, if it may be
        wait_until(lambda: first.count("checkpoint") >= checkpoints, pods=(first, second))  # noqa: B023
        windows = first.count("window") + chance.randint(1, 4)
        wait_until(lambda: first.count("window") >= windows, pods=(first, second))  # noqa: B023
        victim, other = (first, second) if chance.random() < 0.5 else (second, first)
        victim.process.send_signal(signal.SIGKILL)
        assert victim.wait() == -signal.SIGKILL
        assert other.wait() in (ExitCode.PEER_LOST, ExitCode.WORKER_RAISED)
        attempts.append(first)
    first, second = start(assignment)
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:] + second.log[-2000:]
    require_same(first, undisturbed)
    attempts.append(first)
    assert sum(began_at(attempt) > 0 for attempt in attempts) >= 4, "it went on, and did not begin anew"
    for before, after in itertools.pairwise(attempts):
        require_that_little_was_lost(before, after)
    result = first.result
    assert result.resumed is not None
    assert result.resumed.attempt < result.attempt == 6
    assert result.resumed.step == began_at(first)
    assert 0 < result.resumed.useful_seconds < result.nanoseconds / 1e9
    assert result.resumed.restore_seconds > 0
    kept = first.wrote.of_kind(records.Checkpoint)
    assert result.checkpoints == gang.checkpoints(kept, begun=began_at(first), ended=result.steps)
    assert not list((tmp_path / "volume").rglob("*.data")), "a training that has its result needs none"


def require_that_little_was_lost(before: Pod, after: Pod) -> None:
    """Of what an attempt had trained, the next one repeats no more than one interval.

    The last window lies beyond it only if it took longer than the one before had foretold.
    """
    reached, lost = began_at(before), list[records.Window]()
    for window in before.wrote_until_killed.of_kind(records.Window):
        reached += window.steps
        if reached > began_at(after):
            lost.append(window)
    assert began_at(after) >= began_at(before)
    assert sum(window.nanoseconds for window in lost[:-1]) <= INTERVAL_SECONDS * 1e9
    at_most = [kept.step for kept in before.wrote_until_killed.of_kind(records.Checkpoint)]
    assert began_at(after) >= max(at_most, default=0), "the newest was not used"


@pytest.mark.parametrize("told", [("first",), ("second", "first")], ids=["pod 0", "all pods, as a deleted Job does"])
def test_a_pod_that_is_told_to_stop_keeps_a_last_checkpoint_and_nothing_is_lost(
    start: Start, undisturbed: Pod, told: tuple[str, ...]
) -> None:
    assignment = keeping(3600.0)
    patient = {"GPUBENCH_LIMIT_LAST_CHECKPOINT": "60"}  # with a disk that other tests keep busy, too
    pods = dict(zip(("first", "second"), start(assignment, **patient), strict=True))
    pods["first"].wait_for_windows(4)
    for name in told:
        pods[name].process.send_signal(signal.SIGTERM)
    assert pods["first"].wait() == ExitCode.TERMINATED
    assert pods["second"].wait() == (ExitCode.TERMINATED if "second" in told else ExitCode.PEER_LOST)
    (last,) = pods["first"].wrote.of_kind(records.Checkpoint)
    assert last.last
    assert last.step == sum(window.steps for window in pods["first"].wrote.of_kind(records.Window))
    assert f"has kept a checkpoint of step {last.step}" in pods["first"].failure.sentence
    first, second = start(assignment)
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:] + second.log[-2000:]
    assert began_at(first) == last.step
    require_same(first, undisturbed)


def test_another_pod_that_is_told_to_stop_ends_in_its_time_though_nobody_keeps_a_checkpoint(start: Start) -> None:
    first, second = start(keeping(3600.0))
    second.wait_for_windows(5)
    second.process.send_signal(signal.SIGTERM)
    assert second.wait() == ExitCode.TERMINATED
    assert first.wait() == ExitCode.PEER_LOST
    assert not first.wrote.of_kind(records.Checkpoint)


def test_an_attempt_on_a_node_that_was_cut_off_ends_when_the_next_one_has_taken_its_place(start: Start) -> None:
    assignment = keeping(INTERVAL_SECONDS).model_copy(update={"epochs": 1000})
    cut_off = start(assignment)
    wait_until(lambda: cut_off[0].count("checkpoint") >= 1, pods=cut_off)
    following = start(assignment)
    assert (cut_off[0].wait(), cut_off[1].wait()) == (ExitCode.TERMINATED, ExitCode.PEER_LOST)
    assert "attempt 2 has taken the place of this attempt 1" in cut_off[0].failure.sentence
    kept = following[0].count("checkpoint")
    wait_until(lambda: following[0].count("checkpoint") > kept, pods=following)


def test_an_attempt_whose_place_was_taken_gives_no_result_which_would_remove_checkpoints(
    start: Start, tmp_path: Path
) -> None:
    assignment = keeping(3600.0).model_copy(update={"workers": 1, "epochs": 20})
    (pod,) = start(assignment)
    pod.wait_for_windows()
    later = tmp_path / "volume" / "trial1" / "000000000500.0002.data.part"
    later.parent.mkdir(parents=True)
    later.touch()
    assert pod.wait() == ExitCode.TERMINATED
    assert "attempt 2 has taken the place of this attempt 1" in pod.failure.sentence
    assert later.exists()


#: Each rank has its own moving statistics, its own seeds of dropout and a variable of its own loss.
OWN = """
import keras
import tensorflow as tf

from gpubench_jobs import custom
from gpubench_jobs.models import recipe


def build(setting):
    network = keras.Sequential([
        keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.BatchNormalization(),
        keras.layers.Dropout(0.5), keras.layers.Dense(2),
    ])
    seen = tf.Variable(0.0)

    def loss(labels, outputs):
        seen.assign(0.9 * seen + 0.1 * tf.reduce_mean(outputs))  # other on each rank, and part of what is learned
        errors = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs + 0.01 * seen)
        return tf.reduce_mean(errors)

    inputs = tf.random.stateless_normal((400, 4), seed=(setting.seed, setting.rank))
    batches = tf.data.Dataset.from_tensor_slices((inputs, tf.cast(inputs[:, 0] > 0, tf.int32)))
    return custom.Workload(
        recipe=recipe.Recipe(
            network=network, optimizer=keras.optimizers.Adam(0.003), loss=loss, correct=recipe.right_class
        ),
        batches=batches.shuffle(400, seed=setting.seed).repeat().batch(setting.batch_per_worker),
        steps_per_epoch=200,
        held_out=batches.batch(50),
    )
"""


def test_what_each_rank_has_for_itself_is_given_back_to_it(tmp_path: Path, server: ForkServer) -> None:
    model = tmp_path / "model.py"
    model.write_text(OWN)
    own = {
        **TRAINING, "workload": "Custom", "custom_file": str(model), "workers_per_node": 2, "epochs": 4,
        "data": {"source": "Volume", "path": str(tmp_path)},
    }  # fmt: skip
    (tmp_path / "alone").mkdir()
    pods = Pods(tmp_path / "alone", server=server)
    alone = pods.start(make_assignment(**own), cores=2)
    assert alone.wait() == 0, alone.log[-2000:]
    assignment = make_assignment(**own, checkpoint={"interval_seconds": 0.2})
    environment = {names.ENV_CHECKPOINTS: str(tmp_path / "volume")}
    for attempt in (1, 2):
        (tmp_path / f"{attempt}").mkdir()
        pods_of = Pods(tmp_path / f"{attempt}", server=server)
        pod = pods_of.start(assignment.model_copy(update={"attempt": attempt}), cores=2, environment=environment)
        if attempt == 1:
            wait_until(lambda: pod.count("checkpoint") >= 2, pods=(pod,))  # noqa: B023
            pod.process.send_signal(signal.SIGKILL)
            pod.wait()
    assert pod.wait() == 0, pod.log[-2000:]
    assert began_at(pod) > 0
    assert pod.result.weights_digest == alone.result.weights_digest
    assert held_out(pod) == held_out(alone)
    for started in (pods, pods_of):
        started.end()


#: Many seconds of training after the last checkpoint that is waited for.
MANY_EPOCHS = 40


def test_a_model_that_was_changed_since_begins_anew_and_keeps_what_it_writes(tmp_path: Path, start: Start) -> None:
    """The text of custom.file is the same: what has changed is in a module beside it, of which nobody has a digest."""
    model, beside = tmp_path / "model.py", tmp_path / "beside.py"
    model.write_text("import beside\n" + OWN.replace("Dense(8,", "Dense(beside.WIDTH,"))
    beside.write_text("WIDTH = 8\n")
    assignment = make_assignment(
        **{**TRAINING, "workers": 1, "epochs": MANY_EPOCHS, "data": {"source": "Volume", "path": str(tmp_path)}},
        workload="Custom", custom_file=str(model), checkpoint={"interval_seconds": 0.2},
    )  # fmt: skip
    kept = list[Pod]()
    for checkpoints in (5, 2):
        (pod,) = start(assignment)
        wait_until(lambda: pod.count("checkpoint") >= checkpoints, pods=(pod,))  # noqa: B023
        pod.process.send_signal(signal.SIGKILL)
        pod.wait()
        beside.write_text("WIDTH = 16\n")
        kept.append(pod)
    assert began_at(pod) == 0
    assert "its variables are not those of the model" in pod.log
    first, second = (max(one.step for one in pod.wrote_until_killed.of_kind(records.Checkpoint)) for pod in kept)
    assert second < first, "or nothing here is in the way of its checkpoints"
    (again,) = start(assignment)
    assert again.wait() == 0, again.log[-2000:]
    assert second <= began_at(again) < first
    assert again.result.steps == MANY_EPOCHS * 200
    assert again.result.resumed is not None
    assert again.result.resumed.attempt == 2
