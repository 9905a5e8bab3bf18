# SPDX-License-Identifier: Apache-2.0
"""Every catalogued model, built once at its full size: the counts of its source, its shape, one real step on the CPU.

The step runs eagerly: building the graph of a deep network takes ten times as long as the step, and compiled steps are
run below for what is not convolutional, in test_training and by every gang. It is taken at the model's own resolution.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import keras
import numpy as np
import pytest
import tensorflow as tf

from gangs import make_assignment
from gpubench import workloads
from gpubench.workloads import Precision
from gpubench_jobs import models
from gpubench_jobs.data import generated
from gpubench_jobs.data.pipeline import Feed
from gpubench_jobs.models.recipe import Recipe, right_class, right_of_two
from gpubench_jobs.worker import builder, train

SEED = 3  # with which the single number in the middle of `trivial` is above zero, so that everything behind it learns
BATCH = 2


@dataclass(frozen=True)
class Learning:
    """The optimizer of the original, with the values it had there, not Keras' of today."""

    optimizer: type[keras.optimizers.Optimizer]
    rate: float  # of the first step
    settings: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Source:
    """What the source of a model says. trainable, total and gmac: see gpubench.workloads for who counted."""

    trainable: int
    total: int
    gmac: float | None  # of the Keras examples nobody has published one
    convolutions: int
    learning: Learning
    dropout: tuple[float, ...] = ()  # as the original run had it
    default_epochs: int = 1


# Keras 2.1.1, keras/optimizers.py: epsilon was 1e-8 everywhere, Adadelta's rate 1.0.
_ADAM = Learning(keras.optimizers.Adam, 0.001, (("beta_1", 0.9), ("beta_2", 0.999), ("epsilon", 1e-8)))
_ADADELTA = Learning(keras.optimizers.Adadelta, 1.0, (("rho", 0.95), ("epsilon", 1e-8)))

# TF-Slim, train_image_classifier.py: rmsprop_decay, rmsprop_momentum, opt_epsilon.
_OF_SLIM = Learning(keras.optimizers.RMSprop, 0.01, (("rho", 0.9), ("momentum", 0.9), ("epsilon", 1.0)))


def _rmsprop(rate: float) -> Learning:
    return Learning(keras.optimizers.RMSprop, rate, (("rho", 0.9), ("momentum", 0.0), ("epsilon", 1e-8)))


def _sgd(rate: float) -> Learning:
    return Learning(keras.optimizers.SGD, rate, (("momentum", 0.0),))


#: Of all workloads that have a model.
NAMES = tuple(one.name for one in workloads.CATALOGUE if one.inputs is not workloads.Inputs.NONE)

SOURCES = {
    "mnist_mlp": Source(669_706, 669_706, None, 0, _rmsprop(0.001), (0.2, 0.2), 20),
    "mnist_cnn": Source(1_199_882, 1_199_882, None, 2, _ADADELTA, (0.25, 0.5), 12),
    "cifar10_cnn": Source(1_250_858, 1_250_858, None, 4, _rmsprop(0.0001), (0.25, 0.25, 0.5), 20),
    # One bias in the LSTM. With cuDNN's two it is 2,659,457, 103,097 and 35,243,393, as published.
    "imdb_bidirectional_lstm": Source(2_658_945, 2_658_945, None, 0, _ADAM, (0.5,), 4),
    "lstm_text_generation": Source(102_585, 102_585, None, 0, _rmsprop(0.01), (), 10),
    "twitter_bilstm": Source(35_242_881, 35_242_881, None, 0, _ADAM, (0.5,), 4),
    # 50 for each of 20,001 and, assumed, 1,200,000 pairs; then 50 weights and a bias.
    "imdb_fasttext": Source(50 * 1_220_001 + 51, 50 * 1_220_001 + 51, None, 0, _ADAM, (), 5),
    "trivial": Source(4_263_877, 4_263_877, 0.004, 0, _sgd(0.005)),
    "alexnet": Source(61_842_345, 61_842_345, 0.839, 5, _sgd(0.0001)),  # ours: see alexnet.py
    "googlenet": Source(6_999_577, 6_999_577, 1.583, 57, _sgd(0.005)),
    "vgg16": Source(138_361_641, 138_361_641, 15.470, 13, _sgd(0.005)),
    "vgg19": Source(143_671_337, 143_671_337, 19.632, 16, _sgd(0.005)),
    "inception3": Source(23_819_401, 23_853_833, 5.713, 94, _sgd(0.005)),
    "inception4": Source(42_649_769, 42_712_937, 12.254, 149, _sgd(0.005)),
    # Trainable: 41,118,917 and the auxiliary head's 2,593,413. Statistics: inception4's and 2 x 896 of that head.
    # GMAC: inception4's 12.25398, less 1536 x 996 for fewer classes, and 5,738,240 of that head.
    "inception4_finetune": Source(43_712_330, 43_712_330 + 63_168 + 1_792, 12.258, 151, _OF_SLIM, (0.2,)),
    "resnet50": Source(25_559_081, 25_612_201, 3.858, 53, _sgd(0.004)),
    "resnet50_v1.5": Source(25_559_081, 25_612_201, 4.089, 53, _sgd(0.004)),
    "resnet101": Source(44_551_209, 44_656_553, 7.570, 104, _sgd(0.004)),
    "resnet152": Source(60_194_857, 60_346_281, 11.282, 155, _sgd(0.004)),
}
RATES = {  # after so many steps, by the original's formula
    "cifar10_cnn": ((0, 1e-4), (1562, 1e-4 / 1.001562), (1_000_000, 5e-5)),
    "inception4_finetune": ((0, 0.01), (206, 0.01), (207, 0.0094), (413, 0.0094), (414, 0.008836)),
}


@pytest.fixture(scope="module", params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def built(name: str) -> Iterator[Recipe]:
    builder.use_precision(Precision.FLOAT32)
    models.seed(SEED)
    yield models.build(name)
    keras.backend.clear_session()


@pytest.fixture
def eagerly() -> Iterator[None]:
    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


def fed(name: str, built: Recipe) -> Feed:
    return generated.synthetic_batch(workloads.find(name), batch=BATCH, seed=SEED, dtype=built.network.compute_dtype)


def layers_of(recipe: Recipe, kind: type[keras.layers.Layer]) -> list[keras.layers.Layer]:
    return [layer for layer in recipe.network.layers if isinstance(layer, kind)]


def test_the_catalogue_and_the_builders_name_the_same_workloads() -> None:
    assert set(models.BUILDERS) == set(NAMES) == set(SOURCES)


def test_an_unknown_workload_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(LookupError, match="did you mean 'resnet50'"):
        models.build("resnet500")


def test_a_model_has_the_parameters_of_its_source(name: str, built: Recipe) -> None:
    source, workload = SOURCES[name], workloads.find(name)
    trainable = sum(math.prod(variable.shape) for variable in built.network.trainable_variables)
    total = sum(math.prod(weight.shape) for weight in built.network.weights)
    assert (trainable, total) == (source.trainable, source.total)
    assert (trainable, total) == (workload.trainable_parameters, workload.total_parameters)


def multiplications(layer: keras.layers.Layer) -> int:
    """Of one sample's forward pass: of matrices, not of gates; an embedding looks up and multiplies nothing."""
    match layer:
        case keras.layers.Conv2D() | keras.layers.Dense():
            matrices, places = [layer.kernel], layer.output.shape[1:-1]
        case keras.layers.LSTM() | keras.layers.Bidirectional():
            matrices, places = [weights for weights in layer.weights if len(weights.shape) == 2], layer.input.shape[1:2]
        case _:
            return 0
    counted: int = sum(math.prod((*matrix.shape, *places)) for matrix in matrices)
    return counted


def test_a_model_multiplies_as_often_as_its_source(name: str, built: Recipe) -> None:
    counted = sum(map(multiplications, built.network.layers)) / 1e9
    source, workload = SOURCES[name], workloads.find(name)
    if source.gmac is None:
        assert workload.forward_gmac == pytest.approx(counted, rel=1e-3)
    else:
        assert round(counted, 3) == source.gmac == workload.forward_gmac
    assert len(layers_of(built, keras.layers.Conv2D)) == source.convolutions


def test_a_model_takes_and_gives_the_shapes_of_the_catalogue(name: str, built: Recipe) -> None:
    workload = workloads.find(name)
    feed = fed(name, built)
    inputs, _ = feed.draw(feed.state, tf.constant(0))
    assert tuple(inputs.shape) == (BATCH, *workload.input_shape)
    assert built.network.input_shape == (None, *workload.input_shape)
    heads = 2 if name == "inception4_finetune" else 1
    assert [tuple(output.shape) for output in built.network.outputs] == [(None, workload.outputs)] * heads


def test_convolutions_that_are_normalised_have_no_bias(name: str, built: Recipe) -> None:
    normalisations = layers_of(built, keras.layers.BatchNormalization)
    normalised = name.startswith(("resnet", "inception"))
    assert len(normalisations) == (SOURCES[name].convolutions if normalised else 0)
    assert all(layer.use_bias is not normalised for layer in layers_of(built, keras.layers.Conv2D))
    settings = {(layer.momentum, layer.epsilon, layer.scale) for layer in normalisations}
    decay_of_inception = 0.9997 if name == "inception4_finetune" else 0.999
    if normalised:
        assert settings == ({(0.9, 1e-5, True)} if name.startswith("resnet") else {(decay_of_inception, 1e-3, False)})


def test_dropout_is_where_the_original_run_had_it(name: str, built: Recipe) -> None:
    assert tuple(layer.rate for layer in layers_of(built, keras.layers.Dropout)) == SOURCES[name].dropout


def test_a_model_learns_as_the_original_did(name: str, built: Recipe) -> None:
    learning = SOURCES[name].learning
    assert type(built.optimizer) is learning.optimizer
    assert float(built.optimizer.learning_rate) == pytest.approx(learning.rate)
    assert {setting: getattr(built.optimizer, setting) for setting, _ in learning.settings} == dict(learning.settings)
    assert workloads.find(name).default_epochs == SOURCES[name].default_epochs


@pytest.mark.parametrize("name", RATES, scope="module")
def test_a_rate_falls_as_the_original_did(name: str, built: Recipe) -> None:
    iterations = built.optimizer.iterations
    before = int(iterations.value)
    for steps, rate in RATES[name]:
        iterations.assign(steps)
        assert float(built.optimizer.learning_rate) == pytest.approx(rate, rel=1e-6)
    iterations.assign(before)


@pytest.mark.parametrize("name", [name for name in workloads.NAMES if name.startswith("resnet")], scope="module")
def test_only_version_1_5_has_its_stride_in_the_3x3(name: str, built: Recipe) -> None:
    convolutions = layers_of(built, keras.layers.Conv2D)
    strided = [layer for layer in convolutions if layer.strides == (2, 2)]
    in_blocks = [(3, 3), (1, 1)] * 3 if name == "resnet50_v1.5" else [(1, 1), (1, 1)] * 3  # with the projections
    assert sorted(layer.kernel_size for layer in strided) == sorted([(7, 7), *in_blocks])
    assert {layer.padding for layer in strided if layer.kernel_size > (1, 1)} == {"valid"}, "padded alike on all sides"


@pytest.mark.parametrize("name", ["inception4_finetune"], scope="module")
@pytest.mark.usefixtures("name")
def test_the_auxiliary_head_counts_four_tenths_and_decides_nothing(built: Recipe) -> None:
    labels, certain, undecided = tf.constant([1, 3]), tf.one_hot([1, 3], 5) * 1000.0, tf.zeros((2, 5))
    learned = (*layers_of(built, keras.layers.Conv2D), *layers_of(built, keras.layers.Dense))
    decay = 4e-5 * sum(float(tf.nn.l2_loss(layer.kernel)) for layer in learned)
    assert decay > 0.01
    cases = {(0, 0): 1.4, (1, 0): 0.4, (0, 1): 1.0, (1, 1): 0.0}  # whether each head is certain: shares of ln 5
    for (head, auxiliary), share in cases.items():
        outputs = [certain if head else undecided, certain if auxiliary else undecided]
        assert float(built.loss(labels, outputs)) == pytest.approx(share * math.log(5) + decay, rel=1e-4)
    assert built.correct is not None
    assert built.correct(labels, [certain, undecided]).numpy().tolist() == [1.0, 1.0]
    assert built.correct(labels, [undecided, certain]).numpy().tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["inception4", "inception4_finetune"], scope="module")
def test_slim_has_pairs_of_long_kernels_the_other_way_round(name: str, built: Recipe) -> None:
    in_the_last_modules = {layer.kernel_size for layer in layers_of(built, keras.layers.Conv2D) if layer.filters == 448}
    assert in_the_last_modules == ({(1, 3)} if name == "inception4" else {(3, 1)})


@pytest.mark.usefixtures("eagerly")
def test_one_step_changes_every_variable(name: str, built: Recipe) -> None:
    before = [variable.numpy() for variable in built.trainable]
    loss = float(train.compile_run(built, fed(name, built), reduce=train.alone)(1).numpy())
    assert math.isfinite(loss)
    after = [variable.numpy() for variable in built.trainable]
    assert not [number for number, (old, new) in enumerate(zip(before, after, strict=True)) if np.array_equal(old, new)]
    assert all(np.isfinite(new).all() for new in after)
    assert int(built.optimizer.iterations.value) == 1


@pytest.mark.parametrize(
    ("name", "used"),
    [
        ("imdb_bidirectional_lstm", Precision.FLOAT32),
        ("imdb_bidirectional_lstm", Precision.MIXED_FLOAT16),
        ("imdb_bidirectional_lstm", Precision.MIXED_BFLOAT16),
        ("imdb_fasttext", Precision.FLOAT32),
        ("imdb_fasttext", Precision.MIXED_FLOAT16),
        ("lstm_text_generation", Precision.MIXED_FLOAT16),
        ("cifar10_cnn", Precision.FLOAT32),  # a convolution in float16 takes a CPU ten times as long
    ],
)
def test_compiled_steps_learn_what_they_see_again_and_again(name: str, used: Precision) -> None:
    workload = small(name)
    builder.use_precision(used)
    models.seed(SEED)
    recipe = models.build_for(workload)
    feed = generated.synthetic_batch(workload, batch=BATCH, seed=SEED, dtype=recipe.network.compute_dtype)
    run = train.compile_run(
        recipe, feed, reduce=train.alone, loss_scale=builder.loss_scale(make_assignment(precision=used))
    )
    first, later = float(run(1).numpy()), float(run(40).numpy())
    assert later < 0.95 * first
    assert recipe.network.outputs[0].dtype == "float32"


def small(name: str) -> workloads.Workload:
    """Texts are short and of few words here: each place of a sequence makes the graph's loop longer."""
    workload = workloads.find(name)
    match workload.inputs:
        case workloads.Inputs.IMDB | workloads.Inputs.TWEETS:
            return workload.model_copy(update={"vocabulary": 50, "input_shape": (9,)})
        case workloads.Inputs.NIETZSCHE:
            return workload.model_copy(update={"input_shape": (9, 20), "classes": 20})
    return workload


def test_a_vocabulary_of_the_data_s_own_makes_the_table_as_large() -> None:
    recipe = models.build_for(small("imdb_fasttext"))
    assert recipe.network.count_params() == 50 * 50 + 50 + 1


@pytest.mark.usefixtures("eagerly")
def test_a_word_that_stands_twice_in_a_batch_has_one_gradient() -> None:
    """Adam begins with m = 0.1 g and v = 0.001 g^2, so v = 0.1 m^2: only where g was the sum over all places."""
    builder.use_precision(Precision.FLOAT32)
    workload = small("imdb_fasttext")
    recipe = models.build_for(workload)
    feed = generated.synthetic_batch(workload, batch=BATCH, seed=SEED, dtype="float32")
    train.compile_run(recipe, feed, reduce=train.alone)(1)
    of_table = [variable.numpy() for variable in recipe.optimizer.variables if tuple(variable.shape) == (50, 50)]
    momentum, velocity = of_table
    assert np.abs(momentum).max() > 0.0
    np.testing.assert_allclose(velocity, 0.1 * momentum**2, rtol=1e-4)


def test_what_is_right_is_told_for_every_kind_of_answer() -> None:
    probabilities = tf.constant([[0.2], [0.8], [0.6]])
    assert right_of_two(tf.constant([[0.0], [1.0], [0.0]]), probabilities).numpy().tolist() == [1.0, 1.0, 0.0]
    outputs = tf.constant([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
    assert right_class(tf.constant([1, 1]), outputs).numpy().tolist() == [1.0, 0.0]
    assert right_class(tf.constant([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0]]), outputs).numpy().tolist() == [1.0, 0.0]


def test_only_the_text_s_generation_has_no_right_answer(name: str, built: Recipe) -> None:
    assert (built.correct is None) == (name == "lstm_text_generation")


@pytest.mark.parametrize("name", ["imdb_bidirectional_lstm", "twitter_bilstm", "lstm_text_generation"])
def test_an_lstm_keeps_the_arguments_with_which_keras_takes_cudnn_s(name: str) -> None:
    recipe = models.build_for(small(name))
    both = [(layer.forward_layer, layer.backward_layer) for layer in layers_of(recipe, keras.layers.Bidirectional)]
    recurrent = [*layers_of(recipe, keras.layers.LSTM), *(layer for pair in both for layer in pair)]
    assert len(recurrent) == (1 if name == "lstm_text_generation" else 2)
    for layer in recurrent:
        assert (layer.use_cudnn, layer.use_bias, layer.unroll, layer.recurrent_dropout) == ("auto", True, False, 0.0)
        assert (layer.activation, layer.recurrent_activation) == (keras.activations.tanh, keras.activations.sigmoid)
