# SPDX-License-Identifier: Apache-2.0
"""Ways of training, as far as one process shows them; with two ranks they are compared in test_reduction."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from gangs import Pods, make_assignment
from gpubench.exitcodes import ExitCode
from gpubench.workloads import Precision
from gpubench_jobs import failures, models
from gpubench_jobs.engines import horovod
from gpubench_jobs.models.recipe import Recipe
from gpubench_jobs.worker import builder, train


def variant(**fields: object) -> dict[str, object]:
    return {"variant": {"name": "tried", **fields}}


@pytest.fixture
def recipe() -> Recipe:
    builder.use_precision(Precision.FLOAT32)
    return models.build("mnist_mlp")


@pytest.mark.parametrize(("scaling", "factor"), [("None", 1.0), ("Linear", 4.0), ("SquareRoot", 2.0)])
def test_the_learning_rate_grows_with_the_workers(recipe: Recipe, scaling: str, factor: float) -> None:
    assignment = make_assignment(workers=4, **variant(learning_rate_scaling=scaling))
    before = float(recipe.optimizer.learning_rate)
    assert float(builder.apply_variant(recipe, assignment).optimizer.learning_rate) == pytest.approx(before * factor)


@pytest.mark.parametrize(("compression", "compress"), [("None", False), ("Float16", True)])
def test_a_gang_averages_as_its_variant_says_and_one_rank_alone_does_not(compression: str, compress: bool) -> None:
    communication = {"communication": {"compression": compression, "groups": 3}}
    reduce = builder.reduction(make_assignment(workers=2, **variant(**communication)))
    assert isinstance(reduce, functools.partial)
    assert (reduce.func, reduce.keywords) == (horovod.average, {"compress": compress, "groups": 3})
    assert builder.reduction(make_assignment(workers=1, **variant(**communication))) is train.alone


def test_a_learning_rate_that_falls_grows_with_the_workers_all_the_way() -> None:
    builder.use_precision(Precision.FLOAT32)
    assignment = make_assignment(workers=3, **variant(learning_rate_scaling="Linear"))
    plain, scaled = models.build("cifar10_cnn"), builder.apply_variant(models.build("cifar10_cnn"), assignment)
    for steps in (0, 1_000_000):
        for one in (plain, scaled):
            one.optimizer.iterations.assign(steps)
        assert float(scaled.optimizer.learning_rate) == pytest.approx(3 * float(plain.optimizer.learning_rate))
    assert float(plain.optimizer.learning_rate) < 1e-4 * 0.6  # it has fallen


@pytest.mark.parametrize("name", [one for one in Precision if one is not Precision.UNKNOWN])
def test_only_float16_has_a_loss_scale_that_moves(name: Precision) -> None:
    assignment = make_assignment(precision=name, **variant(loss_scaling="Dynamic"))
    builder.use_precision(name)
    dynamic = isinstance(
        builder.apply_variant(models.build("mnist_mlp"), assignment).optimizer, builder.DynamicLossScale
    )
    assert dynamic == (name is Precision.MIXED_FLOAT16)
    assert builder.loss_scale(assignment) == 1.0


def test_a_moving_loss_scale_begins_where_the_fixed_one_is_and_doubles_after_a_thousand_steps() -> None:
    weight = keras.Variable([1.0])
    optimizer = builder.DynamicLossScale(keras.optimizers.SGD(0.0))
    optimizer.build([weight])
    assert float(optimizer.scale_loss(1.0)) == 128.0
    optimizer.step_counter.assign(999)
    optimizer.apply([tf.constant([1.0])], [weight])
    assert float(optimizer.scale_loss(1.0)) == 256.0


@pytest.mark.parametrize("values", [[[1.0], [2.0]], [[1.0], [np.inf]], [[np.nan], [2.0]]])
def test_an_overflow_in_the_rows_of_an_embedding_is_seen(values: list[list[float]]) -> None:
    # A table that no memory holds: it must not become a dense tensor.
    rows = tf.IndexedSlices(tf.constant(values), tf.constant([3, 5], tf.int64), tf.constant([2**50, 1], tf.int64))
    optimizer = builder.DynamicLossScale(keras.optimizers.SGD())
    assert bool(optimizer.check_finite([tf.ones(2), rows])) == bool(np.isfinite(values).all())


def test_a_row_that_is_named_twice_is_named_once_with_the_sum() -> None:
    twice = tf.IndexedSlices(tf.constant([[1.0], [2.0], [4.0]]), tf.constant([5, 3, 5]), tf.constant([9, 1]))
    once = horovod.once(twice)
    assert dict(zip(once.indices.numpy().tolist(), once.values.numpy().ravel().tolist(), strict=True)) == {5: 5, 3: 2}


@pytest.mark.parametrize("kind", [keras.optimizers.Adam, keras.optimizers.RMSprop, keras.optimizers.Adadelta])
def test_an_embedding_learns_as_if_its_gradient_were_dense(kind: type[keras.optimizers.Optimizer]) -> None:
    tables = []
    for dense in (False, True):
        table = keras.Variable(np.ones((6, 2), np.float32))
        learning = kind(learning_rate=0.1)
        rows = tf.IndexedSlices(tf.constant([[1.0, 2.0], [3.0, 4.0], [5.0, -6.0]]), tf.constant([4, 1, 4]), [6, 2])
        for _ in range(3):
            learning.apply([tf.convert_to_tensor(rows) if dense else horovod.once(rows)], [table])
        tables.append(table.numpy())
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-6)


def test_what_xla_cannot_compile_is_told_with_the_remedy() -> None:
    @tf.function(jit_compile=True)  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def of_texts(numbers: tf.Tensor) -> tf.Tensor:
        return tf.strings.length(tf.strings.as_string(numbers))

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        of_texts(tf.ones(3))
    explained = failures.explain(caught.value, make_assignment(**variant(xla=True)))
    assert explained.exit_code is ExitCode.BAD_ASSIGNMENT
    assert "leave xla out of the variant" in explained.sentence
    assert failures.explain(caught.value, make_assignment()).exit_code is ExitCode.WORKER_RAISED


@pytest.mark.usefixtures("horovod")
def test_a_gang_trains_with_all_of_a_variant(pods: Pods) -> None:
    fields = variant(
        communication={"compression": "Float16", "fusionThresholdMib": 1, "cycleTimeMilliseconds": 2},
        loss_scaling="Dynamic",
        learning_rate_scaling="Linear",
        xla=True,
    )
    first, second = pods.gang(make_assignment(workload="mnist_cnn", workers=2, precision="mixed_float16", **fields))
    assert (first.wait(), second.wait()) == (0, 0), first.log[-2000:]
    assert first.result.workers == 2
