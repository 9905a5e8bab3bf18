# SPDX-License-Identifier: Apache-2.0
"""Word numbers, bigrams and windows of characters as the workloads take them, from whatever source the texts are.

Reviews are numbered as `keras.datasets.imdb` does it (0 pads, 1 starts a review, 2 stands for words that were not kept,
words from 3 up by frequency), and get their bigrams as in the Keras example imdb_fasttext (Keras 2.1.1).
"""

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from gpubench.workloads import Workload
from gpubench_jobs.data.feed import Batch
from gpubench_jobs.data.split import EVALUATION, TRAINING, Held, Sets

Array = NDArray[Any]

PADDING, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
#: Numbers of words that are kept, the three above included.
REVIEW_WORDS = 20_000
#: Bigrams are numbered from here; as in the original, one number below stays free.
FIRST_BIGRAM = REVIEW_WORDS + 1
WITH_BIGRAMS = "imdb_fasttext"

#: Windows of a text begin so many characters apart.
WINDOW_STEP = 3


def review_sets(workload: Workload, reviews: Callable[[str], tuple[Sequence[Array], Array]], *, origin: str) -> Sets:
    """Reviews of any length as word numbers, cut and padded at the front; for fasttext with their bigrams.

    `reviews` gives those of a split, and their labels; the training reviews are asked for first.
    """
    (length,) = workload.input_shape
    texts, labels = reviews(TRAINING)
    known = known_bigrams(texts) if workload.name == WITH_BIGRAMS else None

    def split(name: str, texts: Sequence[Array], labels: Array) -> Held:
        if known is not None:
            texts = [with_bigrams(text, known) for text in texts]
        padded = keras.utils.pad_sequences(texts, maxlen=length, dtype="int32", padding="pre", truncating="pre")
        return _held_words(tf.constant(padded), labels, name=name, origin=origin)

    return Sets(
        training=split(TRAINING, texts, labels),
        open_evaluation=lambda: split(EVALUATION, *reviews(EVALUATION)),
        vocabulary=None if known is None else FIRST_BIGRAM + len(known),
    )


def known_bigrams(texts: Sequence[Array]) -> Array:
    """Every pair of neighbours that occurs, as one number each, sorted."""
    known: Array = np.unique(np.concatenate([_pairs(text) for text in texts]))
    return known


def with_bigrams(text: Array, known: Array) -> Array:
    """The words, then in their order the bigrams that are known."""
    pairs = _pairs(text)
    places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
    found = places[known[places] == pairs] if len(known) else places[:0]
    return np.concatenate((text, found + FIRST_BIGRAM))


def _pairs(text: Array) -> Array:
    wide = np.asarray(text, np.int64)
    return wide[:-1] * REVIEW_WORDS + wide[1:]


def _held_words(padded: tf.Tensor, labels: Array, *, name: str, origin: str) -> Held:
    truths = tf.constant(np.reshape(labels, (-1, 1)), tf.float32)
    return Held(
        name=name,
        origin=origin,
        count=len(labels),
        batch_at=lambda places: (tf.gather(padded, places), tf.gather(truths, places)),
    )


def held_tweets(flat: Array, lengths: Array, labels: Array, *, length: int, name: str, origin: str) -> Held:
    """The word numbers of all tweets one after the other, without padding, which would be nine tenths of the memory.

    Padded, or cut, at the end when drawn.
    """
    ragged = tf.RaggedTensor.from_row_lengths(tf.constant(flat, tf.int32), tf.constant(lengths, tf.int64))
    truths = tf.constant(np.reshape(labels, (-1, 1)), tf.float32)

    def batch_at(places: tf.Tensor) -> Batch:
        padded = tf.gather(ragged, places).to_tensor(PADDING, shape=(None, length))
        return padded, tf.gather(truths, places)

    return Held(name=name, origin=origin, count=len(lengths), batch_at=batch_at)


def part(whole: Held, places: Array, *, name: str) -> Held:
    """Some samples of a set that stays in memory once."""
    chosen = tf.constant(places, tf.int64)
    return Held(
        name=name, origin=whole.origin, count=len(places), batch_at=lambda of: whole.batch_at(tf.gather(chosen, of))
    )


def characters_for(windows: int, *, window: int) -> int:
    """How long a text must be for so many windows, each with a character after it."""
    return (windows - 1) * WINDOW_STEP + window + 1


def held_characters(text: Array, *, workload: Workload, name: str, origin: str) -> Held:
    """Windows of a text of character numbers; they are made one-hot when drawn, at a hundredth of the memory."""
    window, symbols = workload.input_shape
    numbers = tf.constant(text, tf.int32)
    count = max(0, -(-(len(text) - window) // WINDOW_STEP))

    def batch_at(places: tf.Tensor) -> Batch:
        begins = places * WINDOW_STEP
        inside = tf.gather(numbers, begins[:, tf.newaxis] + tf.range(window, dtype=tf.int64))
        return tf.one_hot(inside, symbols), tf.one_hot(tf.gather(numbers, begins + window), workload.classes)

    return Held(name=name, origin=origin, count=count, batch_at=batch_at)
