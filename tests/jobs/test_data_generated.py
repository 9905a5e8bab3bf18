# SPDX-License-Identifier: Apache-2.0
"""Generated sets: in the shape of the real ones, the same for the same seed, from one source for every seed."""

import math

import numpy as np
import pytest
import tensorflow as tf

from gpubench.api.sweep import Data, DataSource
from gpubench.exitcodes import ExitCode
from gpubench.workloads import Inputs, Workload
from gpubench_jobs import data
from gpubench_jobs.data import generated, pipeline
from gpubench_jobs.data.pipeline import Sets, Split
from gpubench_jobs.failures import RankError
from samples import CHARACTER_ENTROPY, Array, make_workload

MLP = make_workload(Inputs.MNIST, (784,), 10)
REVIEWS = make_workload(Inputs.IMDB, (100,), 2)
FASTTEXT = make_workload(Inputs.IMDB, (400,), 2, name="imdb_fasttext")
TWEETS = make_workload(Inputs.TWEETS, (117,), 2)
TEXT = make_workload(Inputs.NIETZSCHE, (40, 57), 57)
PHOTOGRAPHS = make_workload(Inputs.IMAGENET, (64, 48, 3), 1001)
FLOWERS = make_workload(Inputs.FLOWERS, (48, 48, 3), 5)
IMAGES = [MLP, make_workload(Inputs.MNIST, (28, 28, 1), 10), make_workload(Inputs.CIFAR10, (32, 32, 3), 10)]
ALL = [*IMAGES, REVIEWS, FASTTEXT, TWEETS, TEXT, PHOTOGRAPHS, FLOWERS]
EACH = pytest.mark.parametrize("workload", ALL, ids=lambda workload: f"{workload.inputs}-{workload.input_shape}")


def opened(workload: Workload, *, samples: int = 60, seed: int = 3) -> Sets:
    return data.open_sets(workload, Data(source=DataSource.GENERATED, samples=samples), seed=seed)


def everything(split: Split | None) -> tuple[Array, Array]:
    assert split is not None
    batches = list(pipeline.evaluation_batches(split, batch_per_worker=16, rank=0, workers=1))
    inputs, labels = (np.concatenate([part[of].numpy() for part in batches]) for of in (0, 1))
    return split.on_device(tf.constant(inputs)).numpy(), labels


@EACH
def test_samples_have_the_shape_that_the_workload_takes(workload: Workload) -> None:
    sets = opened(workload)
    inputs, labels = everything(sets.training)
    assert inputs.shape == (60, *workload.input_shape)
    match workload.inputs:
        case Inputs.IMDB | Inputs.TWEETS:
            assert inputs.dtype == np.int32
            assert labels.shape == (60, 1)
            assert set(labels.flat) == {0.0, 1.0}
            assert inputs.min() >= 0
            assert inputs.max() < (sets.vocabulary or 20_000)
        case Inputs.IMAGENET | Inputs.FLOWERS:
            assert (inputs.dtype.name, labels.dtype.name) == ("float32", "int32")
            assert (inputs.min() >= -1, inputs.max() <= 1) == (True, True)
            assert inputs.min() < -0.5 < 0.5 < inputs.max()
            assert len(set(labels)) == (5 if workload is FLOWERS else 10)
            assert workload is FLOWERS or labels.min() >= 1, "class 0 of ImageNet is the background"
        case _:
            assert (inputs.dtype.name, labels.dtype.name) == ("float32", "float32")
            assert (inputs.min(), labels.shape) == (0.0, (60, workload.classes))
            np.testing.assert_array_equal(labels.sum(axis=1), 1.0)
            assert 0.9 < inputs.max() <= 1.0


@EACH
def test_evaluation_is_a_fifth_and_drawn_apart(workload: Workload) -> None:
    sets = opened(workload)
    assert sets.evaluation is not None
    assert (sets.training.count, sets.evaluation.count) == (60, 12)
    assert (sets.training.name, sets.evaluation.name) == ("training", "evaluation")
    learned = {sample.tobytes() for sample in everything(sets.training)[0]}
    assert not learned & {sample.tobytes() for sample in everything(sets.evaluation)[0]}


@EACH
def test_the_seed_says_which_samples_are_drawn(workload: Workload) -> None:
    def drawn(seed: int) -> bytes:
        return everything(opened(workload, seed=seed).training)[0].tobytes()

    assert drawn(3) == drawn(3)
    assert drawn(4) != drawn(3)


@EACH
def test_classes_are_equally_frequent(workload: Workload) -> None:
    _, labels = everything(opened(workload, samples=600).training)
    classes = labels.argmax(axis=1) if labels.shape[-1] > 1 and labels.ndim > 1 else labels.astype(int).ravel()
    shares = np.bincount(classes)[np.unique(classes)] / len(classes)
    assert shares.max() < 2.5 * shares.mean()


def test_without_a_number_there_are_enough_for_the_originals_batches() -> None:
    sets = data.open_sets(TEXT, Data(source=DataSource.GENERATED), seed=3)
    assert sets.training.count >= 20 * 128


def test_a_set_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(
        RankError, match=r"data\.samples: 100000000 samples of a-workload would take 365 GiB"
    ) as refused:
        opened(MLP, samples=100_000_000)
    assert refused.value.exit_code is ExitCode.DATA_UNUSABLE


def test_photographs_take_no_memory_before_their_turn() -> None:
    sets = opened(PHOTOGRAPHS, samples=100_000_000)
    batches = pipeline.training_batches(sets.training, batch_per_worker=2, rank=0, workers=1, seed=1)
    assert next(iter(batches))[0].shape == (2, 64, 48, 3)


def test_a_word_alone_does_not_tell_praise_from_blame() -> None:
    """In a quarter of the places a negation turns the meaning of what follows: a third of the words is praise."""
    random = np.random.default_rng(1)
    texts = [generated.text_of(2_000, good=False, length=100, random=random) for _ in range(200)]
    blaming = np.concatenate(texts)
    praise = np.isin(blaming, generated.PRAISE)
    blame = np.isin(blaming, generated.BLAME)
    assert 0.3 < praise.sum() / (praise.sum() + blame.sum()) < 0.37
    before = np.isin(np.roll(blaming, 1), generated.NEGATIONS)
    meant = np.where(before, praise, blame)[praise | blame]
    assert 0.78 < meant.mean() < 0.88, "five sixths of the words mean what the label says"


def test_bigrams_of_training_reviews_are_the_vocabulary() -> None:
    sets = opened(FASTTEXT)
    inputs, _ = everything(sets.training)
    assert sets.vocabulary is not None
    bigrams = inputs[inputs > 20_000]
    assert (bigrams.min(), bigrams.max()) == (20_001, sets.vocabulary - 1)
    assert opened(REVIEWS).vocabulary is None


def test_characters_come_with_the_entropy_that_is_stated() -> None:
    inputs, labels = everything(opened(TEXT, samples=30_000).training)
    last, following = inputs[:, -1].argmax(axis=1), labels.argmax(axis=1)
    pairs = np.zeros((57, 57))
    np.add.at(pairs, (last, following), 1)
    chances = pairs / pairs.sum(axis=1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        entropy = -np.nansum(pairs / pairs.sum() * np.log(chances))
    assert math.isclose(entropy, CHARACTER_ENTROPY, abs_tol=0.02)
    alone = pairs.sum(axis=0) / pairs.sum()
    assert -np.sum(alone * np.log(alone)) > 0.99 * math.log(57), "without its predecessor a character says nothing"


def test_nothing_is_generated_for_a_message() -> None:
    with pytest.raises(ValueError, match="nothing can be generated"):
        generated.generated_sets(
            make_workload(Inputs.NONE, (1,), 1).model_copy(update={"inputs": Inputs.NONE}), samples=5, seed=1
        )


def test_a_photograph_is_the_same_at_each_visit() -> None:
    split = opened(FLOWERS, samples=10).training
    batches = pipeline.training_batches(split, batch_per_worker=10, rank=0, workers=1, seed=1, shuffle=False)
    once, again = (inputs.numpy() for inputs, _ in batches.take(2))
    np.testing.assert_array_equal(once, again)
    assert isinstance(next(iter(batches))[1], tf.Tensor)
