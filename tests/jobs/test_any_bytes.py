# SPDX-License-Identifier: Apache-2.0
"""Names and texts that are no UTF-8, as files of a user's have them: the reason of an end survives them."""

import os
from pathlib import Path

import pytest
import tensorflow as tf

from gangs import Pods, make_assignment
from gpubench import records
from gpubench.api.sweep import Data
from gpubench.exitcodes import ExitCode
from gpubench.workloads import Inputs
from gpubench_jobs import data, failures
from gpubench_jobs.data import pipeline
from gpubench_jobs.launcher import barrier
from samples import make_workload

LATIN_1 = b"caf\xe9"


def renamed(file: Path) -> None:
    """With a name from a machine whose names are ISO 8859-1."""
    file.rename(file.with_name(os.fsdecode(LATIN_1) + file.suffix))


def test_a_sentence_has_escapes_for_what_cannot_be_written() -> None:
    told = {"exit_code": 80, "sentence": f"{os.fsdecode(LATIN_1)} and \ud800"}
    failure = records.Failure.model_validate({"trial": "t", "attempt": 1, **told})
    assert failure.sentence == r"caf\udce9 and \ud800" == barrier.Fault.model_validate({"pod": 0, **told}).sentence
    assert records.read_ending(records.termination_message(failure).decode()) == failure


@pytest.mark.usefixtures("horovod")
def test_a_review_that_cannot_be_read_is_named_though_its_name_cannot_be_written(pods: Pods, tmp_path: Path) -> None:
    for folder in ("train/pos", "train/neg", "test/pos", "test/neg"):
        (tmp_path / "set" / folder).mkdir(parents=True)
        (tmp_path / "set" / folder / "0.txt").write_text("a good film")
    bad = tmp_path / "set/train/pos/0.txt"
    bad.write_bytes(LATIN_1)
    renamed(bad)
    told = Data.model_validate({"source": "Volume", "path": str(tmp_path / "set")})
    pod = pods.start(make_assignment(workload="imdb_fasttext", data=told))
    assert pod.wait() == ExitCode.DATA_UNUSABLE == pod.failure.exit_code
    assert rf"{bad.parent}/caf\udce9.txt is no text in UTF-8 (byte 3)" in pod.failure.sentence


def test_photographs_with_such_names_are_read_and_a_bad_one_is_refused(tmp_path: Path) -> None:
    photograph = tf.io.encode_jpeg(tf.zeros((40, 40, 3), tf.uint8)).numpy()
    for place in ("train/n0001", "train/n0002", "val/n0001"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "0.jpg").write_bytes(photograph[:-9] if place == "val/n0001" else photograph)
        renamed(tmp_path / place / "0.jpg")
    workload, told = make_workload(Inputs.IMAGENET, (32, 32, 3), 1001), Data(source="Volume", path=str(tmp_path))
    sets = data.open_sets(workload, told, seed=1)
    evaluation = sets.evaluation
    assert evaluation is not None
    assert len(list(pipeline.evaluation_batches(sets.training, batch_per_worker=4, rank=0, workers=1))) == 1
    with pytest.raises((tf.errors.OpError, UnicodeDecodeError)) as raised:
        list(pipeline.evaluation_batches(evaluation, batch_per_worker=4, rank=0, workers=1))
    explained = failures.explain(raised.value, make_assignment().model_copy(update={"data": told}))
    assert explained.exit_code is ExitCode.DATA_UNUSABLE
    assert explained.sentence.startswith(f"{tmp_path}/val/n0001/caf")
    assert "a JPEG image is cut" in explained.sentence


@pytest.mark.usefixtures("horovod")
def test_a_file_that_raises_what_cannot_be_written_is_named_with_its_line(pods: Pods, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text('def build(setting):\n    raise ValueError("name \\udcff of a file")\n')
    pod = pods.start(make_assignment(workload="mine", custom_file=str(file)))
    assert pod.wait() == ExitCode.CUSTOM_MODEL_FAILED == pod.failure.exit_code
    assert pod.failure.sentence.startswith(rf"{file}, line 2: ValueError: name \udcff of a file: correct")
