# SPDX-License-Identifier: Apache-2.0
"""Reviews, tweets and Nietzsche from the text files in which they are distributed, or from any other texts.

IMDb: `train/pos`, `train/neg`, `test/pos`, `test/neg` with a file for each review, in the folder or in its `aclImdb`.
Tweets: `tw-data.pos` and `tw-data.neg`, a tweet in each line. Nietzsche: `nietzsche.txt`. What differs from the
originals is at the functions.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from gpubench.workloads import Workload
from gpubench_jobs.data import files
from gpubench_jobs.data.pipeline import EVALUATION, TRAINING, Array, Batch, Held, Progress, Sets

_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))
_FILES_AT_ONCE, _LINES_AT_ONCE = 1_000, 100_000  # between two words of progress
_BYTES_AT_ONCE = 2**20  # are cleaned

_BLANK_LINE = re.compile(rb"^\s*$", re.MULTILINE)
#: How tweets are cleaned, one after the other: foreign characters, repeated ones, endings of words, marks.
_CLEANING = (
    (r"[^A-Za-z0-9(),!?'`\n]", " "),
    (r"([^\n])\1{2,}", r"\1\1"),
    (r"('s|'ve|n't|'re|'d|'ll)", r" \1"),
    (r"([,!()?])", r" \1 "),
)

#: As `keras.datasets.imdb` numbers reviews: words from 3 up by frequency.
PADDING, START, UNKNOWN, FIRST_WORD = 0, 1, 2, 3
#: Numbers of words that are kept, the three above included. Bigrams are those of Keras 2.1.1's example imdb_fasttext.
REVIEW_WORDS = 20_000
#: Bigrams are numbered from here; as in the original, one number below stays free.
FIRST_BIGRAM = REVIEW_WORDS + 1
#: Windows of a text begin so many characters apart.
WINDOW_STEP = 3


class Numbers:
    """Words as numbers in the order of their first use: a set is never in memory as Python's strings."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def of(self, text: Sequence[str]) -> Array:
        """A text as numbers, in which unseen words get the next ones."""
        numbers = self._numbers
        return np.array([numbers.setdefault(word, len(numbers)) for word in text], np.int32)

    def known(self, text: Sequence[str]) -> Array:
        """A text as numbers, -1 for unseen words."""
        return np.array([self._numbers.get(word, -1) for word in text], np.int32)

    def ranks(self, counts: Array) -> Array:
        """The place of each number, 0 for the most frequent word; equally frequent ones by the alphabet."""
        found = list(self._numbers)
        order = sorted(range(len(found)), key=lambda number: (-counts[number], found[number]))
        ranks = np.empty(len(found), np.int32)
        ranks[order] = np.arange(len(found))
        return ranks


def reviews(workload: Workload, path: Path, progress: Progress) -> Sets:
    """25,000 and 25,000 reviews, which Keras' `imdb.npz` has as numbers.

    Cut into words by the rules of Keras' Tokenizer, numbered by their frequency in the training reviews. The numbers of
    rare words, which of them are kept, and the order of reviews differ from that file.
    """
    source = files.below(path, "aclImdb")
    seen = Numbers()
    training, training_labels = _review_files(source, TRAINING, seen.of, progress)
    if not any(map(len, training)):
        raise files.unusable(f"{source} holds {len(training)} reviews for training without any word: copy them again")
    ranks = seen.ranks(np.bincount(np.concatenate(training))) + FIRST_WORD
    ranks[ranks >= REVIEW_WORDS] = UNKNOWN
    ranks = np.append(ranks, UNKNOWN)  # at -1

    def of_split(name: str) -> tuple[list[Array], Array]:
        if name == TRAINING:
            texts, labels = training, training_labels
        else:
            texts, labels = _review_files(source, name, seen.known, progress)
        return [np.concatenate(([START], ranks[text])) for text in texts], labels

    return review_sets(workload, of_split, origin=str(path))


def _review_files(
    source: Path, name: str, numbered: Callable[[Sequence[str]], Array], progress: Progress
) -> tuple[list[Array], Array]:
    texts: list[Array] = []
    labels: list[int] = []
    folder = source / {TRAINING: "train", EVALUATION: "test"}[name]
    for label, opinion in enumerate(("neg", "pos")):
        for file in files.matching(folder / opinion, "*.txt", what="reviews"):
            if len(texts) % _FILES_AT_ONCE == 0:
                progress()
            texts.append(numbered(files.text(file).lower().translate(_PUNCTUATION).split()))
            labels.append(label)
    return texts, np.array(labels)


def tweets(workload: Workload, path: Path, progress: Progress) -> Sets:
    """Both files, cleaned and shuffled as in the original, the last tenth held out.

    The original ran on Python 2 and had a backslash before `(`, `)` and `?`; ours have none, so the vocabulary is built
    again. Bytes outside ASCII are blanks, as they were there. The original padded to the longest tweet; here one that
    is longer than the workload's input is cut at the end.
    """
    seen = Numbers()
    coded, lengths, counts = array("i"), array("i"), []
    for kind in ("pos", "neg"):
        before, file = len(lengths), path / f"tw-data.{kind}"
        content = files.content(file)
        if not content.strip():
            raise files.unusable(f"{file} holds no tweet, and of one class nothing is learned: copy it again")
        if blank := _BLANK_LINE.search(content.removesuffix(b"\n")):
            line = content.count(b"\n", 0, blank.start()) + 1
            raise files.unusable(f"{file}, line {line}: a blank line is no tweet: copy the file again, or remove it")
        for tweet in tweet_words(content):
            if len(lengths) % _LINES_AT_ONCE == 0:
                progress()
            coded.frombytes(seen.of(tweet).tobytes())
            lengths.append(len(tweet))
        counts.append(len(lengths) - before)
    labels = np.repeat([1, 0], counts)
    if not (held_out := int(0.1 * len(labels))):
        raise files.unusable(f"{path} holds {len(labels)} tweets, of which no tenth can be held out: copy all of them")
    flat = np.array(coded)
    if not len(flat):
        raise files.unusable(f"{path} holds {len(labels)} tweets without any word: copy both files again")
    ranks = seen.ranks(np.bincount(flat)) + (PADDING + 1)
    (length,) = workload.input_shape
    whole = held_tweets(ranks[flat], np.array(lengths), labels, length=length, name=TRAINING, origin=str(path))
    order = np.random.RandomState(123).permutation(len(labels))  # of the original
    return Sets(
        training=part(whole, order[:-held_out], name=TRAINING),
        open_evaluation=lambda: part(whole, order[-held_out:], name=EVALUATION),
        vocabulary=len(ranks) + 1,
    )


def tweet_words(content: bytes) -> Iterator[list[str]]:
    """The tweets of a file, cleaned many at once: line by line it would take minutes, and all at once gigabytes."""
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", begin + _BYTES_AT_ONCE) + 1 or len(content)
        text = content[begin:end].decode("latin-1")
        for pattern, replacement in _CLEANING:
            text = re.sub(pattern, replacement, text)
        yield from (line.split() for line in text.lower().removesuffix("\n").split("\n"))
        begin = end


def nietzsche(workload: Workload, path: Path, progress: Progress) -> Sets:
    """Windows of the text in lower case; nothing is held out, as in the original."""
    file = path / "nietzsche.txt"
    text = files.text(file).lower()
    progress()
    characters = sorted(set(text))
    window, symbols = workload.input_shape
    if len(characters) > symbols:
        raise files.unusable(
            f"{file} has {len(characters)} different characters and {workload.name} takes {symbols}: it is another text"
        )
    if len(text) <= window:
        raise files.unusable(f"{file} has {len(text)} characters, not enough for a window of {window}: copy it again")
    numbers = {character: number for number, character in enumerate(characters)}
    coded = np.array([numbers[character] for character in text])
    return Sets(held_characters(coded, workload=workload, name=TRAINING, origin=str(path)), open_evaluation=None)


def review_sets(workload: Workload, reviews: Callable[[str], tuple[Sequence[Array], Array]], *, origin: str) -> Sets:
    """Reviews of any length as word numbers, cut and padded at the front; for fasttext with their bigrams."""
    (length,) = workload.input_shape
    texts, labels = reviews(TRAINING)
    known: Array | None = None  # every pair of neighbours that occurs, as one number each, sorted
    if workload.name == "imdb_fasttext":
        known = np.unique(np.concatenate([_pairs(text) for text in texts]))

    def split(name: str, texts: Sequence[Array], labels: Array) -> Held:
        if known is not None:
            texts = [_with_bigrams(text, known) for text in texts]
        padded = tf.constant(keras.utils.pad_sequences(texts, length, "int32", padding="pre", truncating="pre"))
        return _held(lambda places: tf.gather(padded, places), labels, name=name, origin=origin)

    return Sets(
        training=split(TRAINING, texts, labels),
        open_evaluation=lambda: split(EVALUATION, *reviews(EVALUATION)),
        vocabulary=None if known is None else FIRST_BIGRAM + len(known),
    )


def _with_bigrams(text: Array, known: Array) -> Array:  # the words, then in their order the bigrams that are known
    pairs = _pairs(text)
    places = np.minimum(np.searchsorted(known, pairs), len(known) - 1)
    found = places[known[places] == pairs] if len(known) else places[:0]
    return np.concatenate((text, found + FIRST_BIGRAM))


def _pairs(text: Array) -> Array:
    wide = np.asarray(text, np.int64)
    return wide[:-1] * REVIEW_WORDS + wide[1:]


def _held(inputs_at: Callable[[tf.Tensor], tf.Tensor], labels: Array, *, name: str, origin: str) -> Held:
    truths = tf.constant(np.reshape(labels, (-1, 1)), tf.float32)

    def batch_at(places: tf.Tensor) -> Batch:
        return inputs_at(places), tf.gather(truths, places)

    return Held(name=name, origin=origin, count=len(labels), batch_at=batch_at)


def held_tweets(flat: Array, lengths: Array, labels: Array, *, length: int, name: str, origin: str) -> Held:
    """All tweets one after the other; padding, nine tenths of the memory, is added when they are drawn."""
    ragged = tf.RaggedTensor.from_row_lengths(tf.constant(flat, tf.int32), tf.constant(lengths, tf.int64))

    def inputs_at(places: tf.Tensor) -> tf.Tensor:
        return tf.gather(ragged, places).to_tensor(PADDING, shape=(None, length))

    return _held(inputs_at, labels, name=name, origin=origin)


def part(whole: Held, places: Array, *, name: str) -> Held:
    """Some samples of a set that stays in memory once."""
    chosen = tf.constant(places, tf.int64)
    return Held(
        name=name, origin=whole.origin, count=len(places), batch_at=lambda of: whole.batch_at(tf.gather(chosen, of))
    )


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
