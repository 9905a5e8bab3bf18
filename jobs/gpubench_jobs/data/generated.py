# SPDX-License-Identifier: Apache-2.0
"""Small sets that can be learned, for machines without the real files; no figure about them says anything about those.

Each kind of input has a fixed source (shapes of classes, words with a meaning, successors of a character); the seed
only draws samples from it, so that a bar for the accuracy means the same in every run. Their variation is chosen so
that labels of other samples, and a set in the order of its classes, stay below the bar.
"""

import math
from collections.abc import Callable

import numpy as np
import tensorflow as tf
from scipy import ndimage

from gpubench.workloads import GENERATED_SAMPLES, Inputs, Workload
from gpubench_jobs.data import files, image_files, pipeline, text_files
from gpubench_jobs.data.pipeline import EVALUATION, TRAINING, Array, Batch, Feed, Sets, Split, Streamed

ORIGIN = "generated data"

_HELD_BYTES_MAX = 4 * 2**30  # of the sets that are made at once
#: Small images are drawn in float32 and held as bytes; windows of a text share it. Photographs are made one by one.
_BYTES_OF_A_VALUE = {Inputs.MNIST: 5, Inputs.CIFAR10: 5, Inputs.IMDB: 16, Inputs.TWEETS: 16, Inputs.NIETZSCHE: 0.03}
_SOURCE, _DRAWN_FOR = 20_171_124, {TRAINING: 1, EVALUATION: 2}

Random = np.random.Generator


def generated_sets(workload: Workload, *, samples: int | None, seed: int) -> Sets:
    """A set in the shape of the workload's real one."""
    count = samples or GENERATED_SAMPLES[workload.inputs]
    needed = count * math.prod(workload.input_shape) * _BYTES_OF_A_VALUE.get(workload.inputs, 0)
    if needed > _HELD_BYTES_MAX:
        raise files.unusable(
            f"data.samples: {count} samples of {workload.name} would take {needed / 2**30:.0f} GiB of memory in every "
            f"rank, more than the {_HELD_BYTES_MAX // 2**30} that generated sets may have: lower it"
        )
    sizes = {TRAINING: count, EVALUATION: max(1, count // 5)}
    if workload.inputs in _MAKERS:
        return _MAKERS[workload.inputs](workload, sizes, seed)
    raise ValueError(f"{workload.name} is fed {workload.inputs}, of which nothing can be generated")


def _draw(name: str, seed: int) -> Random:
    return np.random.default_rng((_SOURCE, seed, _DRAWN_FOR[name]))


# ---- small images, held as bytes ----


def _small_images(workload: Workload, sizes: dict[str, int], seed: int) -> Sets:
    side, channels = (28, 1) if workload.inputs is Inputs.MNIST else (32, 3)
    shapes = _shapes(workload.classes, side=side, channels=channels)

    def split(name: str) -> Split:
        images, labels = _drawn_images(shapes, count=sizes[name], random=_draw(name, seed))
        return image_files.held_images(images, labels, workload=workload, name=name, origin=ORIGIN)

    return Sets.of(split)


def _shapes(classes: int, *, side: int, channels: int) -> Array:
    """One blot for each class, as like its mirror image as a photograph's object is, in [0, 1]."""
    noise = np.random.default_rng(_SOURCE).normal(size=(classes, side, side, channels))
    smooth = ndimage.gaussian_filter(noise, sigma=(0, side / 9, side / 9, 0))
    if channels > 1:
        smooth = smooth + smooth[:, :, ::-1]
    return np.asarray(1 / (1 + np.exp(-3 * (smooth / smooth.std(axis=(1, 2, 3), keepdims=True)))), np.float32)


def _drawn_images(shapes: Array, *, count: int, random: Random) -> tuple[Array, Array]:
    """A class's blot, moved, with another class's shining through, under noise."""
    classes, side = shapes.shape[:2]
    labels = random.integers(classes, size=count)
    others = (labels + random.integers(1, classes, size=count)) % classes
    images = np.empty((count, *shapes.shape[1:]), np.uint8)
    for place, (label, other) in enumerate(zip(labels, others, strict=True)):
        moves = random.integers(-side // 14, side // 14 + 1, size=(2, 2))
        own = np.roll(shapes[label], tuple(moves[0]), axis=(0, 1))
        foreign = np.roll(shapes[other], tuple(moves[1]), axis=(0, 1))
        image = random.uniform(0.5, 0.8) * own + random.uniform(0.1, 0.4) * foreign
        image += random.normal(scale=0.15, size=image.shape).astype(np.float32)
        images[place] = np.clip(image * 255, 0, 255)
    return images, labels


# ---- photographs, made one by one ----


def _photographs(workload: Workload, sizes: dict[str, int], seed: int) -> Sets:
    # Of ImageNet's 1000 classes ten: with a few samples each they can be told apart. 0 is its background.
    first, classes = (1, 10) if workload.inputs is Inputs.IMAGENET else (0, workload.classes)
    blots = tf.constant(_shapes(classes, side=12, channels=3)) * 2.0 - 1.0
    height, width, _ = workload.input_shape

    def split(name: str) -> Split:
        base = tf.constant((seed * 3 + _DRAWN_FOR[name], _SOURCE), tf.int64)

        def sample_at(place: tf.Tensor, _: tf.Tensor) -> Batch:
            """The same at each visit: the seed is the place's own."""
            own = tf.random.experimental.stateless_fold_in(base, place, alg="philox")
            draws = tf.unstack(tf.random.experimental.stateless_split(own, 4, alg="philox"))
            label = tf.random.stateless_uniform((), draws[0], maxval=classes, dtype=tf.int32, alg="philox")
            other = tf.random.stateless_uniform((), draws[1], maxval=classes, dtype=tf.int32, alg="philox")
            move = tf.random.stateless_uniform((2,), draws[2], minval=-1, maxval=2, dtype=tf.int32, alg="philox")
            coarse = 0.7 * tf.roll(blots[label], move, axis=(0, 1)) + 0.2 * blots[other]
            image = tf.image.resize(coarse, (height, width))
            noise = tf.random.stateless_normal((height, width, 3), draws[3], stddev=0.15, alg="philox")
            return tf.clip_by_value(image + noise, -1.0, 1.0), label + first

        return Streamed(name=name, origin=ORIGIN, count=sizes[name], sample_at=sample_at)

    return Sets.of(split)


# ---- reviews and tweets ----

#: Word numbers go from 0 up, the most frequent first. A word that praises blames after a negation.
NEGATIONS, PRAISE, BLAME = (1, 2), range(10, 20), range(20, 30)


def text_of(vocabulary: int, *, good: bool, length: int, random: Random) -> Array:
    """Words between which those with a meaning are strewn; a sixth of these contradicts the rest."""
    # Zipf's law by inversion: the logarithm of the rank is uniform. Words with a meaning come only where meant.
    ranks = np.exp(random.uniform(0, math.log(vocabulary - 30), size=length)).astype(np.int64)
    text = np.where(ranks < 10, 0, ranks + 29)
    places = np.arange(1, length, 3)
    meant_good = np.where(random.random(len(places)) < 5 / 6, good, not good)
    negated = random.random(len(places)) < 0.25
    praises = meant_good != negated
    offsets = random.integers(len(PRAISE), size=len(places))
    text[places] = np.where(praises, PRAISE.start + offsets, BLAME.start + offsets)
    text[places[negated] - 1] = random.choice(NEGATIONS, size=int(negated.sum()))
    return text


def _texts(vocabulary: int, *, count: int, lengths: tuple[int, int], random: Random) -> tuple[list[Array], Array]:
    labels = random.integers(2, size=count)
    sizes = random.integers(*lengths, size=count, endpoint=True)
    texts = [
        text_of(vocabulary, good=bool(label), length=int(size), random=random)
        for label, size in zip(labels, sizes, strict=True)
    ]
    return texts, labels


def _reviews(workload: Workload, sizes: dict[str, int], seed: int) -> Sets:
    def reviews(name: str) -> tuple[list[Array], Array]:
        drawn, labels = _texts(5_000, count=sizes[name], lengths=(30, 160), random=_draw(name, seed))
        return [np.concatenate(([text_files.START], text + text_files.FIRST_WORD)) for text in drawn], labels

    return text_files.review_sets(workload, reviews, origin=ORIGIN)


def _tweets(workload: Workload, sizes: dict[str, int], seed: int) -> Sets:
    (length,) = workload.input_shape
    vocabulary = 2_000

    def split(name: str) -> Split:
        texts, labels = _texts(
            vocabulary, count=sizes[name], lengths=(min(6, length), min(30, length)), random=_draw(name, seed)
        )
        flat, lengths = np.concatenate(texts) + 1, np.array([len(text) for text in texts])
        return text_files.held_tweets(flat, lengths, labels, length=length, name=name, origin=ORIGIN)

    return Sets.of(split, vocabulary=vocabulary + 1)


# ---- characters ----

#: After each character one of four may come, so far behind it in a ring of all, with these probabilities.
STRIDES, CHANCES = (1, 8, 21, 34), (0.7, 0.2, 0.07, 0.03)


def _characters(workload: Workload, sizes: dict[str, int], seed: int) -> Sets:
    """A ring of characters in an order of its own; in the long run all are equally frequent."""
    ring = np.random.default_rng(_SOURCE).permutation(workload.classes)

    def split(name: str) -> Split:
        drawn = _draw(name, seed)
        length = (sizes[name] - 1) * text_files.WINDOW_STEP + workload.input_shape[0] + 1  # a character follows each
        places = np.cumsum(drawn.choice(STRIDES, size=length, p=CHANCES)) % workload.classes
        return text_files.held_characters(ring[places], workload=workload, name=name, origin=ORIGIN)

    return Sets.of(split)


_MAKERS: dict[Inputs, Callable[[Workload, dict[str, int], int], Sets]] = {
    Inputs.MNIST: _small_images,
    Inputs.CIFAR10: _small_images,
    Inputs.IMAGENET: _photographs,
    Inputs.FLOWERS: _photographs,
    Inputs.IMDB: _reviews,
    Inputs.TWEETS: _tweets,
    Inputs.NIETZSCHE: _characters,
}


def synthetic_batch(workload: Workload, *, batch: int, seed: int, dtype: str) -> Feed:
    """One batch that stays on the device, of a rank's own seed: on equal samples no missing reduction would show."""
    shape = (batch, *workload.input_shape)

    def images() -> tf.Tensor:
        return tf.random.stateless_uniform(shape, seed=(seed, 1))

    def numbers(shape: tuple[int, ...], *, of: int, end: int | None) -> tf.Tensor:
        return tf.random.stateless_uniform(shape, seed=(seed, of), maxval=end, dtype=tf.int32)

    def classes() -> tf.Tensor:
        return numbers((batch,), of=2, end=workload.classes)

    match workload.inputs:
        case Inputs.IMAGENET:
            inputs = imagenet_images(workload.input_shape, batch=batch, seed=seed, dtype=tf.as_dtype(dtype))
            return Feed(
                state=(inputs, tf.constant(seed, tf.int64)),
                draw=lambda state, step: (state[0], imagenet_labels(batch=batch, seed=state[1], step=step)),
            )
        case Inputs.FLOWERS:
            return pipeline.held_batch(images() * 2.0 - 1.0, classes())
        case Inputs.IMDB | Inputs.TWEETS:  # uniform: the embedding's rows come from all over its table
            labels = tf.cast(numbers((batch, 1), of=2, end=2), tf.float32)
            return pipeline.held_batch(numbers(shape, of=1, end=workload.vocabulary), labels)
        case Inputs.NIETZSCHE:
            inputs = tf.one_hot(numbers(shape[:-1], of=1, end=shape[-1]), shape[-1])
            return pipeline.held_batch(inputs, tf.one_hot(classes(), workload.classes))
        case Inputs.MNIST | Inputs.CIFAR10:
            return pipeline.held_batch(images(), tf.one_hot(classes(), workload.classes))
        case Inputs.NONE:
            raise ValueError(f"{workload.name} takes no samples: choose a workload that trains a model")


def imagenet_images(shape: tuple[int, ...], *, batch: int, seed: int, dtype: tf.DType) -> tf.Tensor:
    """As tf_cnn_benchmarks draws them: a truncated normal around 127 with deviation 60, in the compute type."""
    drawn = tf.random.stateless_truncated_normal((batch, *shape), seed=(seed, 1), mean=127.0, stddev=60.0)
    return tf.cast(drawn, dtype)


def imagenet_labels(*, batch: int, seed: int | tf.Tensor, step: tf.Tensor) -> tf.Tensor:
    """As tf_cnn_benchmarks draws them, anew in every step: uniform over the first 1000 of 1001 classes."""
    pair = tf.stack((tf.cast(seed, tf.int64), tf.cast(step, tf.int64)))
    return tf.random.stateless_uniform((batch,), seed=pair, maxval=1000, dtype=tf.int32)
