# SPDX-License-Identifier: Apache-2.0
"""Every catalogued model, built once at its full size: the counts of its source, its shape, one real step on the CPU.

The step runs eagerly: building the graph of a deep network takes ten times as long as the step, and compiled steps are
run in test_training and by every gang. It is taken at the model's own resolution.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf

from gpubench import workloads
from gpubench.precision import Precision
from gpubench_jobs import models, precision, train
from gpubench_jobs.data import synthetic
from gpubench_jobs.data.feed import Feed
from gpubench_jobs.models.recipe import Recipe

SEED = 3  # with which the single number in the middle of `trivial` is above zero, so that everything behind it learns
BATCH = 2


@dataclass(frozen=True)
class Source:
    """What the source of a model says. trainable, total and gmac: see gpubench.workloads for who counted."""

    trainable: int
    total: int
    gmac: float | None  # of the Keras examples nobody has published one
    convolutions: int
    learning_rate: float


SOURCES = {
    "mnist_mlp": Source(669_706, 669_706, None, 0, 0.001),
    "mnist_cnn": Source(1_199_882, 1_199_882, None, 2, 1.0),
    "trivial": Source(4_263_877, 4_263_877, 0.004, 0, 0.005),
    "alexnet": Source(61_842_345, 61_842_345, 0.839, 5, 0.0001),  # ours: see alexnet.py
    "googlenet": Source(6_999_577, 6_999_577, 1.583, 57, 0.005),
    "vgg16": Source(138_361_641, 138_361_641, 15.470, 13, 0.005),
    "vgg19": Source(143_671_337, 143_671_337, 19.632, 16, 0.005),
    "inception3": Source(23_819_401, 23_853_833, 5.713, 94, 0.005),
    "inception4": Source(42_649_769, 42_712_937, 12.254, 149, 0.005),
    "resnet50": Source(25_559_081, 25_612_201, 3.858, 53, 0.004),
    "resnet50_v1.5": Source(25_559_081, 25_612_201, 4.089, 53, 0.004),
    "resnet101": Source(44_551_209, 44_656_553, 7.570, 104, 0.004),
    "resnet152": Source(60_194_857, 60_346_281, 11.282, 155, 0.004),
}


@pytest.fixture(scope="module", params=workloads.NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def built(name: str) -> Iterator[Recipe]:
    precision.use(Precision.FLOAT32)
    models.seed(SEED)
    yield models.build(name)
    keras.backend.clear_session()


@pytest.fixture
def eagerly() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def fed(name: str, built: Recipe) -> Feed:
    return synthetic.batch_of(workloads.find(name), batch=BATCH, seed=SEED, dtype=built.network.compute_dtype)


def layers_of(recipe: Recipe, kind: type[keras.layers.Layer]) -> list[keras.layers.Layer]:
    return [layer for layer in recipe.network.layers if isinstance(layer, kind)]


def test_the_catalogue_and_the_builders_name_the_same_workloads() -> None:
    assert set(models.names()) == set(workloads.NAMES) == set(SOURCES)


def test_an_unknown_workload_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(LookupError, match="did you mean 'resnet50'"):
        models.build("resnet500")


def test_a_model_has_the_parameters_of_its_source(name: str, built: Recipe) -> None:
    source, workload = SOURCES[name], workloads.find(name)
    trainable = sum(math.prod(variable.shape) for variable in built.network.trainable_variables)
    total = sum(math.prod(weight.shape) for weight in built.network.weights)
    assert (trainable, total) == (source.trainable, source.total)
    assert (trainable, total) == (workload.trainable_parameters, workload.total_parameters)


def test_a_model_multiplies_as_often_as_its_source(name: str, built: Recipe) -> None:
    multiplications = sum(
        math.prod(layer.kernel.shape) * math.prod(layer.output.shape[1:-1])
        for layer in (*layers_of(built, keras.layers.Conv2D), *layers_of(built, keras.layers.Dense))
    )
    source, workload = SOURCES[name], workloads.find(name)
    assert workload.forward_gmac == pytest.approx(multiplications / 1e9, rel=1e-3, abs=5e-4)
    if source.gmac is not None:
        assert round(multiplications / 1e9, 3) == source.gmac == workload.forward_gmac
    assert len(layers_of(built, keras.layers.Conv2D)) == source.convolutions


def test_a_model_takes_and_gives_the_shapes_of_the_catalogue(name: str, built: Recipe) -> None:
    workload = workloads.find(name)
    feed = fed(name, built)
    inputs, _ = feed.draw(feed.state, tf.constant(0))
    assert tuple(inputs.shape) == (BATCH, *workload.input_shape)
    assert built.network.input_shape == (None, *workload.input_shape)
    assert built.network.output_shape == (None, workload.classes)


def test_convolutions_that_are_normalised_have_no_bias(name: str, built: Recipe) -> None:
    normalisations = layers_of(built, keras.layers.BatchNormalization)
    normalised = name.startswith(("resnet", "inception"))
    assert len(normalisations) == (SOURCES[name].convolutions if normalised else 0)
    assert all(layer.use_bias is not normalised for layer in layers_of(built, keras.layers.Conv2D))
    settings = {(layer.momentum, layer.epsilon, layer.scale) for layer in normalisations}
    if normalised:
        assert settings == ({(0.9, 1e-5, True)} if name.startswith("resnet") else {(0.999, 1e-3, False)})


def test_dropout_is_where_the_original_run_had_it(name: str, built: Recipe) -> None:
    assert bool(layers_of(built, keras.layers.Dropout)) == name.startswith("mnist")


@pytest.mark.parametrize("name", [name for name in workloads.NAMES if name.startswith("resnet")], scope="module")
def test_only_version_1_5_has_its_stride_in_the_3x3(name: str, built: Recipe) -> None:
    convolutions = layers_of(built, keras.layers.Conv2D)
    strided = [layer for layer in convolutions if layer.strides == (2, 2)]
    in_blocks = [(3, 3), (1, 1)] * 3 if name == "resnet50_v1.5" else [(1, 1), (1, 1)] * 3  # with the projections
    assert sorted(layer.kernel_size for layer in strided) == sorted([(7, 7), *in_blocks])
    assert {layer.padding for layer in strided if layer.kernel_size > (1, 1)} == {"valid"}, "padded alike on all sides"


@pytest.mark.usefixtures("eagerly")
def test_one_step_changes_every_variable(name: str, built: Recipe) -> None:
    assert float(built.optimizer.learning_rate) == pytest.approx(SOURCES[name].learning_rate)
    before = [variable.numpy() for variable in built.trainable]
    loss = float(train.compile_run(built, fed(name, built), reduce=train.alone)(1).numpy())
    assert math.isfinite(loss)
    after = [variable.numpy() for variable in built.trainable]
    assert not [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if np.array_equal(old, new)]
    assert all(np.isfinite(new).all() for new in after)
    assert int(built.optimizer.iterations.value) == 1
