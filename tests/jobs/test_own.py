# SPDX-License-Identifier: Apache-2.0
"""A workload of one's own, by real launchers: the examples run, and a mistake is told with file and line."""

import sys
from pathlib import Path

import pytest

from gangs import Pods, make_assignment
from gpubench.exitcodes import DO_NOT_RETRY, ExitCode

EXAMPLES = Path(__file__).resolve().parents[2] / "jobs/studies/own"
GOOD = (EXAMPLES / "model.py").read_text()


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


@pytest.mark.usefixtures("horovod")
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
        ("return own.Workload(", "return dict(", None, "returned dict, not gpubench_jobs.own.Workload"),
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
    pods: Pods, tmp_path: Path, found: str, put: str, line: str | None, words: str | None
) -> None:
    assert GOOD.count(found) == 1
    text = GOOD.replace(found, put)
    file = tmp_path / "mine.py"
    file.write_text(text)
    pod = pods.start(make_assignment(workload="rings", custom_file=str(file)))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED, pod.failure.sentence
    sentence = pod.failure.sentence
    print(sentence)
    assert str(file) in sentence
    assert "\n" not in sentence
    assert words is None or words in sentence
    if line is not None and line in text:
        assert f"line {line_of(text, line)}: " in sentence


@pytest.mark.usefixtures("horovod")
def test_a_file_that_is_not_mounted_is_told_so(pods: Pods) -> None:
    pod = pods.start(make_assignment(workload="rings", custom_file="/nowhere/model.py"))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED
    assert "/nowhere/model.py is not in the pod" in pod.failure.sentence


def test_no_attempt_at_a_broken_file_is_repeated() -> None:
    assert ExitCode.CUSTOM_MODEL_FAILED in DO_NOT_RETRY
