# SPDX-License-Identifier: Apache-2.0
"""From the same first weights and batches, the losses of gpubench's step are those of `keras.Model.train_on_batch`.

TensorFlow's graph optimizer is off for both. It rounds differently in a loop, and max pooling turns the last bit of a
weight into another maximum and other losses after some steps.

That ten seeds of either end alike: `make bench-parity`.
"""

from collections.abc import Iterator

import keras
import numpy as np
import pytest
import tensorflow as tf

import plain_keras
from gangs import make_assignment
from gpubench import workloads
from gpubench.workloads import Precision
from gpubench_jobs import data, models
from gpubench_jobs.data import pipeline
from gpubench_jobs.worker import builder

SEED = 7
STEPS = 200
#: They were equal to the last bit.
RELATIVE_MOST = 1e-6


@pytest.fixture(autouse=True)
def plainly() -> Iterator[None]:
    builder.use_precision(Precision.FLOAT32)
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    yield
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": before["disable_meta_optimizer"]})
    keras.backend.clear_session()


@pytest.mark.parametrize("name", plain_keras.OPTIMIZERS)
def test_the_losses_are_those_of_plain_keras(name: str) -> None:
    assignment = make_assignment(
        workload=name,
        mode="Training",
        data={"source": "Generated", "samples": 1003},
        seed=SEED,
        batch_per_worker=16,
    )
    workload = workloads.find(name)
    sets = data.open_sets(workload, assignment.data, seed=SEED)

    models.seed(SEED)
    work = builder.build(assignment, rank=0, seed=SEED)
    models.seed(SEED)
    recipe = models.build_for(workload.model_copy(update={"vocabulary": sets.vocabulary or workload.vocabulary}))
    network = recipe.network
    for mine, theirs in zip(work.weights, network.trainable_variables, strict=True):
        np.testing.assert_array_equal(mine.numpy(), theirs.numpy())
    of_two = network.output_shape[-1] == 1
    entropy = keras.losses.binary_crossentropy if of_two else keras.losses.categorical_crossentropy
    network.compile(
        optimizer=plain_keras.OPTIMIZERS[name](),
        loss=lambda labels, outputs: keras.ops.mean(entropy(labels, outputs)),
        jit_compile=False,
    )
    batches = pipeline.training_batches(
        sets.training,
        batch_per_worker=assignment.batch_per_worker,
        rank=0,
        workers=1,
        seed=SEED,
        augment=recipe.augment,
        drop_remainder=recipe.drop_remainder,
    )
    ours, keras_own = [], []
    for inputs, labels in batches.take(STEPS):
        ours.append(float(work.run(1).numpy()) / int(work.run.samples))
        network.reset_metrics()
        keras_own.append(float(network.train_on_batch(sets.training.on_device(inputs), labels)))
    assert max(ours) > 1.1 * min(ours), "nothing was learned"
    np.testing.assert_allclose(ours, keras_own, rtol=RELATIVE_MOST)
