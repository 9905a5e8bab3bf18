# SPDX-License-Identifier: Apache-2.0
"""What can be trained, for people; a name that is none is refused with the nearest one."""

import pytest

from gpubench import workloads
from gpubench_cli import __main__ as program


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert program.main(("workloads", *arguments)) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def test_every_workload_has_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    header, *lines = said(capsys).splitlines()
    assert header.split() == ["NAME", "TASK", "INPUT", "PARAMETERS", "GMAC", "BATCH", "EPOCHS", "ORIGIN"]
    assert [line.split()[0] for line in lines[: len(workloads.NAMES)]] == list(workloads.NAMES)
    vgg16 = next(line for line in lines if line.startswith("vgg16 "))
    assert vgg16.split()[1:8] == ["image", "classification", "224x224x3", "138,361,641", "15.47", "64", "1"]
    tweets = next(line for line in lines if line.startswith("twitter_bilstm "))
    assert "text classification" in tweets
    assert "117 of 274,562 words" in tweets
    assert vgg16.rstrip().endswith("tf_cnn_benchmarks vgg16, mid 2018"), "nothing is cut off in a pipe"


def test_one_workload_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "resnet50_v1.5")
    assert out.startswith("resnet50_v1.5: resnet50 with the stride moved into the 3x3")
    assert "25,559,081 trainable, and 53,120 moving statistics of batch normalisation" in out
    assert "4.089 GMAC" in out
    assert "\nOptimizer:" in out
    assert "\nOrigin:" in out
    assert "SGD, learning rate 0.004" in out
    assert "moving statistics" not in said(capsys, "vgg16"), "what there is none of is not said"


def test_task_vocabulary_and_epochs_are_explained(capsys: pytest.CaptureFixture[str]) -> None:
    reviews = said(capsys, "imdb_bidirectional_lstm")
    assert "text classification, 2 classes" in reviews
    assert "100 of 20,000 words" in reviews
    assert "4 in mode Training, the original's" in reviews
    assert "text generation, 57 characters" in said(capsys, "lstm_text_generation")
    counted_in_steps = said(capsys, "resnet50")
    assert "1 in mode Training, the original counted steps" in counted_in_steps
    assert "words" not in counted_in_steps


def test_a_vocabulary_that_only_the_data_knows_is_said_to_be_assumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert "was not published; the figures here assume 1,200,000" in said(capsys, "imdb_fasttext")


@pytest.mark.parametrize("name", workloads.NAMES)
def test_what_departs_from_the_paper_is_said(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, name)
    assert ("Without dropout" in out) == (name in {"alexnet", "vgg16", "vgg19", "inception4"})
    assert ("ends in NaN" in out) == (name == "alexnet")
    assert ("First weights are random" in out) == (name == "inception4_finetune")


@pytest.mark.parametrize(
    ("name", "hint"),
    [("resnet51", "did you mean 'resnet50'?"), ("VGG-16", "choose one of mnist_mlp,"), ("incepton3", "'inception3'?")],
)
def test_an_unknown_name_is_refused(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(("workloads", name)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert f"unknown workload {name!r}: " in captured.err
    assert hint in captured.err
