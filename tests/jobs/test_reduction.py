# SPDX-License-Identifier: Apache-2.0
"""Two real ranks train one model: same weights to the bit, and those of one process that averages both gradients.

The reference is written out here and shares no loop with gpubench: it computes each rank's half of the batch as that
rank sees it (its samples, its batch-norm batch, its dropout seeds) and averages the two gradients itself.
"""

import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing
import pytest
import tensorflow as tf

import rank_program
from gangs import Pods, make_assignment
from gpubench import names
from gpubench_jobs.data.pipeline import Feed
from gpubench_jobs.engines import launch
from gpubench_jobs.models import recipe
from gpubench_jobs.worker import builder

pytestmark = pytest.mark.usefixtures("horovod")

PROGRAM = Path(rank_program.__file__)
CASES = {case.name: case for case in rank_program.CASES}
Weights = numpy.typing.NDArray[np.float32]
REDUCED = [case.name for case in rank_program.CASES if case.reduce]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the weights of both ranks, before and after, for every case. Both ranks run once for all."""
    folder = tmp_path_factory.mktemp("ranks")
    address = Pods(folder).address(0)
    launch.serve_rendezvous(address=address, port=names.PORT_RENDEZVOUS, hosts=rank_program.RANKS, slots=1)
    processes = []
    for pod in range(rank_program.RANKS):
        gang = make_assignment(workers=rank_program.RANKS)
        variables = launch.horovod_environment(gang, pod, rendezvous_address=address, interface="lo")
        with (folder / f"log-{pod}").open("wb") as log:
            command = [sys.executable, str(PROGRAM), str(folder)]
            processes.append(
                subprocess.Popen(command, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stderr=log)
            )
    try:
        for pod, process in enumerate(processes):
            assert process.wait(timeout=240) == 0, (folder / f"log-{pod}").read_text()[-3000:]
    finally:
        for process in processes:
            process.kill()
    return folder


def load(folder: Path, name: str, *, rank: int, when: str) -> list[Weights]:
    with np.load(folder / f"{name}-{rank}-{when}.npz") as file:
        return [file[str(n)] for n in range(len(file.files))]


def bit_identical(folder: Path, name: str) -> bool:
    """The check of must show 4, used for loops that reduce and for one that does not."""
    first, second = (load(folder, name, rank=rank, when="end") for rank in range(rank_program.RANKS))
    return all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))


def distance(ours: list[Weights], other: list[Weights]) -> float:
    return max(float(np.abs(a - b).max()) for a, b in zip(ours, other, strict=True))


def averaged_by_one_process(folder: Path, name: str) -> list[Weights]:
    """The reference; one for all cases that differ in nothing that it depends on."""
    alike = replace(CASES[name], name="", reduce=True)
    return _averaged(folder, next(case.name for case in rank_program.CASES if replace(case, name="") == alike))


@functools.cache
def _averaged(folder: Path, name: str) -> list[Weights]:
    case = CASES[name]
    halves = [rank_program.build(replace(case, variant=None), rank=rank) for rank in range(rank_program.RANKS)]
    for half, _ in halves:
        for variable, value in zip(half.trainable, load(folder, name, rank=0, when="begin"), strict=True):
            variable.assign(value)
        half.optimizer.build(half.network.trainable_variables)
    scale = 128.0 if case.precision == "mixed_float16" else 1.0
    xla = builder.variant_of(case.assignment).xla
    gradient_of = [_gradient(half, feed, scale=scale, xla=xla) for half, feed in halves]
    for step in range(case.steps):
        both = [gradient(tf.constant(step)) for gradient in gradient_of]
        if case.overflow and step == rank_program.OVERFLOW_STEP:
            continue  # drawn, and left out
        mean = [sum(pair) / len(pair) for pair in zip(*both, strict=True)]
        for half, _ in halves:
            half.optimizer.apply([tf.identity(gradient) for gradient in mean], half.network.trainable_variables)
    return [variable.numpy() for variable in halves[0][0].trainable]


def _gradient(half: recipe.Recipe, feed: Feed, *, scale: float, xla: bool) -> Callable[[tf.Tensor], list[tf.Tensor]]:
    @tf.function(jit_compile=xla)  # type: ignore[untyped-decorator]  # XLA draws other masks for dropout
    def gradient(inputs: tf.Tensor, labels: tf.Tensor) -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = half.loss(labels, half.network(inputs, training=True)) * scale
        # An embedding's as a whole table: what is compared with takes no part in the handling of rows.
        return [tf.convert_to_tensor(one) / scale for one in tape.gradient(loss, half.trainable)]

    return lambda step: gradient(*feed.draw(feed.state, step))


@pytest.mark.parametrize("name", REDUCED)
def test_two_ranks_end_with_bit_identical_weights(trained: Path, name: str) -> None:
    begun, ended = (load(trained, name, rank=0, when=when) for when in ("begin", "end"))
    assert distance(begun, ended) > 1e-4  # they have learned something
    assert bit_identical(trained, name)


@pytest.mark.parametrize("name", REDUCED)
def test_two_ranks_end_where_one_process_does_that_averages_their_gradients(trained: Path, name: str) -> None:
    reference = averaged_by_one_process(trained, name)
    found = distance(load(trained, name, rank=0, when="end"), reference)
    print(f"{name}: largest difference {found:.2e}")
    assert found <= CASES[name].tolerance


@pytest.mark.parametrize("name", [name for name in CASES if name not in REDUCED])
def test_the_check_rejects_a_loop_that_loses_the_gradients_of_its_peer(trained: Path, name: str) -> None:
    assert not bit_identical(trained, name)
    found = distance(load(trained, name, rank=0, when="end"), averaged_by_one_process(trained, name))
    assert found > 100 * CASES[name].tolerance


def facts(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads((folder / f"{name}-{rank}-facts.json").read_text()) for rank in range(rank_program.RANKS)]


def test_an_overflow_on_one_rank_leaves_the_step_out_on_all(trained: Path) -> None:
    case = CASES["overflow"]
    assert facts(trained, "overflow") == [{"steps taken": case.steps - 1, "loss scale": 64.0}] * rank_program.RANKS


def test_of_an_embedding_only_the_rows_that_changed_are_averaged(trained: Path) -> None:
    for rank in range(rank_program.RANKS):
        mean = json.loads((trained / f"rows-{rank}.json").read_text())
        found = dict(zip(mean["indices"], mean["values"], strict=True))
        assert len(mean["indices"]) == len(found)  # each row once
        assert found == {7: [5.0, 1.0], 3: [0.5, 0.5], 99_999_999: [1.0, 0.5], 11: [5.5, 0.5]}


def test_all_ranks_evaluate_one_model_on_all_held_out_samples(trained: Path) -> None:
    first, second = facts(trained, "batch-norm")
    assert first["before"] != second["before"]  # each rank has seen samples of its own
    for one, other, mean in zip(first["before"], second["before"], first["after"], strict=True):
        np.testing.assert_allclose(mean, (np.array(one) + np.array(other)) / 2, rtol=1e-6)
    assert (first["after"], first["found"]) == (second["after"], second["found"])
    one_process, _ = rank_program.build(CASES["batch-norm"], rank=0)
    for variable, value in zip(one_process.trainable, load(trained, "batch-norm", rank=0, when="end"), strict=True):
        variable.assign(value)
    for weight, value in zip(one_process.network.non_trainable_weights, first["after"], strict=True):
        weight.assign(value)
    inputs, labels = rank_program.held_out(one_process)
    loss = float(one_process.loss(labels, one_process.network(inputs, training=False)))
    assert first["found"]["loss"] == pytest.approx(loss, rel=1e-5)
    assert first["found"]["samples"] == rank_program.HELD_OUT
    assert first["found"]["accuracy"] == len(rank_program.RIGHT) / rank_program.HELD_OUT


def test_ranks_tell_each_other_words_of_any_length(trained: Path) -> None:
    said = [rank_program.words(rank) for rank in range(rank_program.RANKS)]
    for rank in range(rank_program.RANKS):
        heard = json.loads((trained / f"heard-{rank}.json").read_text())
        assert heard == {"first": said[0], "all": said}


def test_the_initial_weights_are_those_of_rank_0(trained: Path) -> None:
    first, second = (load(trained, "dropout", rank=rank, when="begin") for rank in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second, strict=True))
