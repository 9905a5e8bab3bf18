# SPDX-License-Identifier: Apache-2.0
"""A workload of one's own: the examples run by real launchers, and a mistake is told with file and line."""

import re
import signal
import sys
from pathlib import Path
from typing import Any

import keras
import pytest
import tensorflow as tf

from gangs import Pods, make_assignment, wait_until
from gpubench.exitcodes import DO_NOT_RETRY, ExitCode
from gpubench_jobs import channel, custom, failures
from gpubench_jobs.data.pipeline import streamed
from gpubench_jobs.failures import RankError
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import builder, epochs, train

EXAMPLES = Path(__file__).resolve().parents[2] / "jobs/examples/own"
GOOD = (EXAMPLES / "model.py").read_text()
#: What is not chosen has no part in the loss; a logarithm has an infinite slope at 0, which times nothing is no number.
UNUSED = """class Unused(keras.layers.Layer):
    def build(self, shape):
        self.w = self.add_weight(shape=(), initializer="zeros")

    def call(self, x):
        return tf.where(tf.fill(tf.shape(x), False), tf.math.log(self.w) * x, x)
"""


def test_an_epoch_is_as_long_as_the_file_says(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(keras.Sequential([keras.layers.Dense(1)]), keras.optimizers.SGD(), lambda *_: tf.zeros(()))
    batches = tf.data.Dataset.from_tensors((tf.zeros((8, 1)), tf.zeros(8))).repeat()
    built = custom.Workload(recipe, batches, steps_per_epoch=5, epochs=3)
    monkeypatch.setattr(custom, "load", lambda *_, **__: built)
    plans = [
        builder._custom(make_assignment(workers=2, mode="Training", **more), rank=0, first_step=0).plan
        for more in ({}, {"epochs": 4})
    ]
    assert plans == [epochs.EpochPlan(epochs=count, steps=5, samples=5 * 8 * 2, evaluation=None) for count in (3, 4)]


@pytest.mark.usefixtures("horovod")
def test_the_example_of_a_model_trains_on_two_ranks_and_learns(pods: Pods) -> None:
    assignment = make_assignment(
        workload="rings",
        custom_file=str(EXAMPLES / "model.py"),
        mode="Training",
        data={"source": "Generated", "samples": 4000},
        workers=2,
        batch_per_worker=20,
    )
    first, second = pods.gang(assignment)
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    training = first.result.training
    assert training is not None
    assert (training.epochs, training.metric, training.first_samples) == (3, "accuracy", 4000)
    assert (training.final or 0) > 0.95  # chance is 0.5; the two rings are ten deviations apart


@pytest.mark.usefixtures("horovod")
def test_the_example_of_a_model_has_a_throughput(pods: Pods) -> None:
    pod = pods.start(make_assignment(workload="rings", custom_file=str(EXAMPLES / "model.py")))
    assert pod.wait() == 0, pod.log[-2000:]
    assert pod.result.samples == pod.result.steps * 8
    assert pod.result.training is None


def test_the_example_of_a_program_writes_a_result_that_can_be_read(pods: Pods) -> None:
    command = (sys.executable, str(EXAMPLES / "train.py"))
    pod = pods.start(make_assignment(workload="line", seed=4), command=command)
    assert pod.wait() == 0, pod.log
    result = pod.result
    assert (result.trial, result.workers, result.samples) == ("trial1", 1, result.steps * 8)
    assert result.final_loss < 0.01  # it begins above 1
    assert pod.message == pod.lines[-1]


def test_the_example_of_a_program_says_why_it_cannot(pods: Pods) -> None:
    command = (sys.executable, str(EXAMPLES / "train.py"))
    pod = pods.start(make_assignment(workload="line", workers=2), command=command)
    assert pod.wait() == ExitCode.BAD_ASSIGNMENT == pod.failure.exit_code
    assert "set workers to [1]" in pod.failure.sentence


def line_of(text: str, words: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if words in line)


@pytest.mark.parametrize(
    ("found", "put", "line", "words"),
    [
        ("import keras\n", "import kerass\n", "import kerass", "No module named 'kerass'"),
        ("keras.Input((2,)),", "keras.Input((2,)", "keras.Dense", None),
        ("def build(", "def built(", None, "defines no build()"),
        (
            "    samples = setting",
            "    raise KeyError('rings')\n    samples = setting",
            "raise KeyError",
            "KeyError: 'rings'",
        ),
        ("labels=labels, logits=outputs", "labels=labels, logits=rings", "logits=rings", "name 'rings' is not defined"),
        ("return custom.Workload(", "return dict(", None, "returned dict, not gpubench_jobs.custom.Workload"),
        (
            "tf.stack((radii * tf.cos(angles), radii * tf.sin(angles)), axis=1)",
            "radii",
            None,
            "incompatible shape (8,)",
        ),
    ],
    ids=["import", "syntax", "no-build", "in-build", "in-the-step", "return", "shape"],
)
def test_a_mistake_in_the_file_is_told_in_one_sentence(
    tmp_path: Path, found: str, put: str, line: str | None, words: str | None
) -> None:
    assert GOOD.count(found) == 1
    text = GOOD.replace(found, put)
    file = tmp_path / "mine.py"
    file.write_text(text)
    assignment = make_assignment(workload="rings", custom_file=str(file))
    with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever the file makes of it; what is told of it counts
        builder.build(assignment, rank=0, seed=1).run(1)
    explained = failures.explain(caught.value, assignment)
    assert explained.exit_code is ExitCode.CUSTOM_MODEL_FAILED, explained.sentence
    sentence = explained.sentence
    print(sentence)
    assert str(file) in sentence
    assert "\n" not in sentence
    assert words is None or words in sentence
    if line is not None and line in text:
        assert f"line {line_of(text, line)}: " in sentence


@pytest.mark.usefixtures("horovod")
def test_a_file_that_would_leave_the_worker_ends_the_pod_with_its_code_and_sentence(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD.replace("labels=labels, logits=outputs", "labels=labels, logits=exit(3)"))
    pod = pods.start(make_assignment(workload="rings", custom_file=str(file)))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED == pod.failure.exit_code
    assert "SystemExit: 3" in pod.failure.sentence


@pytest.mark.usefixtures("horovod")
@pytest.mark.parametrize(
    ("put", "said"),
    [
        ("raise KeyboardInterrupt", r"FILE, line 3: KeyboardInterrupt: no message: correct the file"),
        (
            "os._exit(0)",
            r"FILE: rank 0, building its model, ended with code 0 and without a reason: see its log, and correct",
        ),
        (
            f"os.write(json.loads(os.environ['{channel.ENV_CONFIG}'])['channel'], b'garbage\\n'); time.sleep(600)",
            r"FILE: rank 0, building its model, wrote b'garbage' into the pipe to its launcher: see its log, and corr",
        ),
    ],
    ids=["interrupt", "exit", "garbage"],
)
def test_what_a_file_does_to_its_process_is_told_and_not_tried_again(
    pods: Pods, tmp_path: Path, put: str, said: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(f"import json, os, time\ndef build(setting):\n    {put}\n")
    pod = pods.start(make_assignment(workload="mine", custom_file=str(file), stall_timeout_seconds=500))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED == pod.failure.exit_code, pod.message
    assert pod.failure.sentence.startswith(said.replace("FILE", str(file)))


@pytest.mark.usefixtures("horovod")
def test_an_interrupt_from_outside_is_no_mistake_in_the_file(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        f"import pathlib, time\ndef build(setting):\n    pathlib.Path('{tmp_path}/built').touch(); time.sleep(600)\n"
    )
    pod = pods.start(make_assignment(workload="mine", custom_file=str(file), stall_timeout_seconds=500))
    wait_until((tmp_path / "built").exists, pods=(pod,))
    pod.workers()[0].send_signal(signal.SIGINT)
    assert pod.wait() == ExitCode.WORKER_RAISED == pod.failure.exit_code
    assert "was ended by SIGINT, which no process of gpubench sent" in pod.failure.sentence


@pytest.mark.usefixtures("horovod")
def test_ranks_that_would_wait_for_each_other_without_end_are_told_in_what_they_differ(
    pods: Pods, tmp_path: Path
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD.replace("steps_per_epoch=max(1,", "steps_per_epoch=setting.rank + max(1,"))
    data = {"source": "Generated", "samples": 160}
    both = pods.gang(make_assignment(workload="rings", custom_file=str(file), mode="Training", data=data, workers=2))
    assert ExitCode.CUSTOM_MODEL_FAILED in {pod.wait() for pod in both}
    (told,) = {pod.failure.sentence for pod in both if pod.failure.exit_code == ExitCode.CUSTOM_MODEL_FAILED}
    assert "steps of an epoch: 10 on rank 0, 11 on rank 1" in told


@pytest.mark.parametrize(
    "put",
    ["import sys; sys.exit('no data here')\n", "def build(setting):\n    raise SystemExit('no data here')\n"],
    ids=["at-once", "in-build"],
)
def test_a_file_that_ends_the_process_is_a_mistake_in_the_file(tmp_path: Path, put: str) -> None:
    file = tmp_path / "mine.py"
    file.write_text(put)
    with pytest.raises(RankError, match=rf"{file}, line \d: SystemExit: no data here") as caught:
        custom.load(make_assignment(custom_file=str(file)), rank=0)
    assert caught.value.exit_code is ExitCode.CUSTOM_MODEL_FAILED


@pytest.mark.parametrize("name", ["train.py", "feed.py", "model.py"])
def test_the_line_is_that_of_the_users_file_not_of_one_of_the_same_name(tmp_path: Path, name: str) -> None:
    mine, other = tmp_path / name, Path(train.__file__).with_name(name)
    places = f'  File "{mine}", line 7, in loss\n\n  File "{other}", line 99, in step\n\n'
    text = f"Graph execution error:\n\nDetected at node x defined at (most recent call last):\n{places}bad label\n"
    blamed = custom.blame(tf.errors.InvalidArgumentError(None, None, text), file=str(mine))
    assert blamed is not None
    assert blamed.sentence == f"{mine}, line 7: InvalidArgumentError: bad label: correct the file"
    text = text.replace(str(mine), str(other))
    assert custom.blame(tf.errors.UnknownError(None, None, text), file=str(mine)) is None


def dense(**fields: object) -> keras.layers.Layer:
    return keras.layers.Dense(3, name="answers", **fields)


class Unused(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Has a weight that nothing depends on."""

    def build(self, _: Any) -> None:
        self.idle = self.add_weight(shape=(2,), name="idle")

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        return inputs


LABELS = tf.constant([0, 1, 2, 0])


@pytest.mark.parametrize(
    ("layers", "labels", "repeated", "words"),
    [
        ((dense,), tf.constant([0, 1, 7, 0]), True, "InvalidArgumentError: Received a label value of 7"),
        ((dense,), LABELS, False, "the batches of /pods/mine.py have come to an end: add .repeat()"),
        (
            (dense, lambda: Unused(name="unused")),
            LABELS,
            True,
            "the loss does not depend on the variable net/unused/idle",
        ),
        ((lambda: dense(kernel_regularizer="l2"),), LABELS, True, "losses of its own"),
        ((dense, lambda: keras.layers.ActivityRegularization(l2=0.1)), LABELS, True, "losses of its own"),
    ],
    ids=["label", "end", "no-gradient", "regularizer", "add-loss"],
)
@pytest.mark.parametrize("scale", [1.0, 128.0])
def test_what_cannot_be_trained_is_a_mistake_in_the_file(
    layers: tuple[Any, ...], labels: tf.Tensor, repeated: bool, words: str, scale: float
) -> None:
    keras.config.set_dtype_policy("float32")
    network = keras.Sequential([keras.Input((5,)), *(layer() for layer in layers)], name="net")
    recipe = Recipe(
        network=network,
        optimizer=keras.optimizers.SGD(),
        loss=lambda labels, outputs: tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
        ),
    )
    batches = tf.data.Dataset.from_tensors((tf.zeros((4, 5)), labels))
    run = train.compile_run(
        recipe, streamed(batches.repeat() if repeated else batches), reduce=train.alone, loss_scale=scale
    )
    with pytest.raises(Exception) as caught:  # noqa: PT011  # what it becomes is the subject
        run(2).numpy()
    explained = failures.explain(caught.value, make_assignment(custom_file="/pods/mine.py"))
    assert explained.exit_code is ExitCode.CUSTOM_MODEL_FAILED
    assert words in explained.sentence
    assert "\n" not in explained.sentence


@pytest.mark.usefixtures("horovod")
def test_a_file_that_is_not_mounted_is_told_so(pods: Pods) -> None:
    pod = pods.start(make_assignment(workload="rings", custom_file="/nowhere/model.py"))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED
    assert "/nowhere/model.py is not in the pod" in pod.failure.sentence


def test_no_attempt_at_a_broken_file_is_repeated() -> None:
    assert ExitCode.CUSTOM_MODEL_FAILED in DO_NOT_RETRY


FULL_BATCHES = ".batch(setting.batch_per_worker, drop_remainder=True)"
RINGS = {"source": "Generated", "samples": 400}


@pytest.mark.usefixtures("horovod")
@pytest.mark.parametrize(
    ("batches", "mode", "said"),
    [
        ("batch(3)", "Throughput", "had 3 samples in 1 steps, and batchPerWorker asks for 8 in each"),
        ("take(12).batch(8)", "Training", "batchPerWorker asks for 8 in each"),
    ],
    ids=["another size", "a smaller one amid an epoch"],
)
def test_batches_of_another_size_than_a_throughput_counts_are_refused(
    pods: Pods, tmp_path: Path, batches: str, mode: str, said: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(GOOD.replace(f".repeat()\n        {FULL_BATCHES}", f".{batches}.repeat()"))
    pod = pods.start(make_assignment(workload="rings", custom_file=str(file), mode=mode, data=RINGS))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED, pod.log[-2000:]
    assert said in pod.failure.sentence


@pytest.mark.usefixtures("horovod")
def test_a_smaller_last_batch_of_an_epoch_is_counted_by_its_samples(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    text = GOOD.replace(f".repeat()\n        {FULL_BATCHES}", ".take(20).batch(8).repeat()")  # 8, 8, 4
    file.write_text(re.sub(r"steps_per_epoch=.*", "steps_per_epoch=3,", text))
    pod = pods.start(make_assignment(workload="rings", custom_file=str(file), mode="Training", epochs=2, data=RINGS))
    assert pod.wait() == 0, pod.log[-2000:]
    assert pod.result.training is not None
    assert pod.result.training.first_samples == 20


@pytest.mark.usefixtures("horovod")
def test_weights_that_are_no_numbers_behind_a_finite_loss_end_the_run(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    network = GOOD.replace(
        "            keras.Input((2,)),\n", "            keras.Input((2,)),\n            Unused(),\n"
    )
    file.write_text(network.replace("def build(", UNUSED + "\n\ndef build("))
    pod = pods.start(make_assignment(workload="rings", custom_file=str(file)))
    assert pod.wait() == ExitCode.LOSS_NOT_FINITE, pod.log[-2000:]
    assert "is not finite at the end, though the loss is" in pod.failure.sentence
    assert str(file) in pod.failure.sentence
