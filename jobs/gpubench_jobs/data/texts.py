# SPDX-License-Identifier: Apache-2.0
"""Reviews, tweets and Nietzsche from the text files in which they are distributed.

IMDb: `train/pos`, `train/neg`, `test/pos`, `test/neg` with a text file for each review, in the folder or in its
`aclImdb`. The originals ran on Keras' `imdb.npz`, which holds the same reviews as numbers. Ours are cut into words by
the rules of Keras' Tokenizer (lower case, its list of punctuation, apostrophes stay) and numbered by their frequency in
the training reviews; the numbers of rare words, which of them are kept, and the order of reviews differ from that file.

Tweets: `tw-data.pos` and `tw-data.neg`, a tweet in each line. They are cleaned as in the original, which ran on Python
2 and had a backslash before `(`, `)` and `?`; ours have none, so the vocabulary is built again and not read from its
files. Bytes outside ASCII are blanks, as they were there, so no encoding is wrong. The original padded to the longest
tweet; one that is longer than the workload's input is cut at the end.

Nietzsche: `nietzsche.txt`.
"""

import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.workloads import Workload
from gpubench_jobs.data import files, unusable, words
from gpubench_jobs.data.split import EVALUATION, TRAINING, Held, Progress, Sets

Array = NDArray[Any]

_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))
_REVIEW_FOLDERS = {TRAINING: "train", EVALUATION: "test"}
_OPINIONS = {"neg": 0, "pos": 1}
_FILES_AT_ONCE, _LINES_AT_ONCE = 1_000, 100_000  # between two words of progress
_BYTES_AT_ONCE = 2**20  # are cleaned

_SPLIT_SEED = 123  # of the original
_HELD_OUT = 0.1
_FOREIGN = re.compile(r"[^A-Za-z0-9(),!?'`\n]")
_REPEATED = re.compile(r"([^\n])\1{2,}")
_BLANK_LINE = re.compile(rb"^\s*$", re.MULTILINE)
_ENDING = re.compile(r"('s|'ve|n't|'re|'d|'ll)")
_MARK = re.compile(r"([,!()?])")


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
    """25,000 and 25,000 reviews."""
    source = files.below(path, "aclImdb")
    seen = Numbers()
    training, training_labels = _review_files(source, TRAINING, seen.of, progress)
    if not any(map(len, training)):
        raise unusable.refusal(f"{source} holds {len(training)} reviews for training without any word: copy them again")
    ranks = seen.ranks(np.bincount(np.concatenate(training))) + words.FIRST_WORD
    ranks[ranks >= words.REVIEW_WORDS] = words.UNKNOWN
    ranks = np.append(ranks, words.UNKNOWN)  # at -1

    def of_split(name: str) -> tuple[list[Array], Array]:
        if name == TRAINING:
            texts, labels = training, training_labels
        else:
            texts, labels = _review_files(source, name, seen.known, progress)
        return [np.concatenate(([words.START], ranks[text])) for text in texts], labels

    return words.review_sets(workload, of_split, origin=str(path))


def _review_files(
    source: Path, name: str, numbered: Callable[[Sequence[str]], Array], progress: Progress
) -> tuple[list[Array], Array]:
    texts: list[Array] = []
    labels: list[int] = []
    for opinion, label in _OPINIONS.items():
        for file in files.matching(source / _REVIEW_FOLDERS[name] / opinion, "*.txt", what="reviews"):
            if len(texts) % _FILES_AT_ONCE == 0:
                progress()
            texts.append(numbered(review_words(files.text(file))))
            labels.append(label)
    return texts, np.array(labels)


def review_words(text: str) -> list[str]:
    """As Keras' Tokenizer cuts a text."""
    return text.lower().translate(_PUNCTUATION).split()


def tweets(workload: Workload, path: Path, progress: Progress) -> Sets:
    """Both files, shuffled as in the original, the last tenth held out."""
    seen = Numbers()
    coded, lengths, counts = array("i"), array("i"), []
    for kind in ("pos", "neg"):
        before, file = len(lengths), path / f"tw-data.{kind}"
        content = files.content(file)
        if not content.strip():
            raise unusable.refusal(f"{file} holds no tweet, and of one class nothing is learned: copy it again")
        if blank := _BLANK_LINE.search(content.removesuffix(b"\n")):
            line = content.count(b"\n", 0, blank.start()) + 1
            raise unusable.refusal(f"{file}, line {line}: a blank line is no tweet: copy the file again, or remove it")
        for tweet in tweet_words(content):
            if len(lengths) % _LINES_AT_ONCE == 0:
                progress()
            coded.frombytes(seen.of(tweet).tobytes())
            lengths.append(len(tweet))
        counts.append(len(lengths) - before)
    labels = np.repeat([1, 0], counts)
    held_out = int(_HELD_OUT * len(labels))
    if not held_out:
        raise unusable.refusal(
            f"{path} holds {len(labels)} tweets, of which no tenth can be held out: copy all of them"
        )
    flat = np.array(coded)
    if not len(flat):
        raise unusable.refusal(f"{path} holds {len(labels)} tweets without any word: copy both files again")
    ranks = seen.ranks(np.bincount(flat)) + (words.PADDING + 1)
    (length,) = workload.input_shape
    whole = words.held_tweets(ranks[flat], np.array(lengths), labels, length=length, name=TRAINING, origin=str(path))
    order = np.random.RandomState(_SPLIT_SEED).permutation(len(labels))
    return Sets(
        training=words.part(whole, order[:-held_out], name=TRAINING),
        open_evaluation=lambda: words.part(whole, order[-held_out:], name=EVALUATION),
        vocabulary=len(ranks) + 1,
    )


def tweet_words(content: bytes) -> Iterator[list[str]]:
    """The tweets of a file, cleaned many at once: line by line it would take minutes, and all at once gigabytes."""
    begin = 0
    while begin < len(content):
        end = content.find(b"\n", begin + _BYTES_AT_ONCE) + 1 or len(content)
        text = _FOREIGN.sub(" ", content[begin:end].decode("latin-1"))
        text = _REPEATED.sub(r"\1\1", text)
        text = _ENDING.sub(r" \1", text)
        text = _MARK.sub(r" \1 ", text).lower()
        yield from (line.split() for line in text.removesuffix("\n").split("\n"))
        begin = end


def nietzsche(workload: Workload, path: Path, progress: Progress) -> Sets:
    """Windows of the text in lower case; nothing is held out, as in the original."""
    file = path / "nietzsche.txt"
    text = files.text(file).lower()
    progress()
    characters = sorted(set(text))
    window, symbols = workload.input_shape
    if len(characters) > symbols:
        raise unusable.refusal(
            f"{file} has {len(characters)} different characters and {workload.name} takes {symbols}: it is another text"
        )
    if len(text) <= window:
        raise unusable.refusal(f"{file} has {len(text)} characters, not enough for a window of {window}: copy it again")
    numbers = {character: number for number, character in enumerate(characters)}
    coded = np.array([numbers[character] for character in text])
    split: Held = words.held_characters(coded, workload=workload, name=TRAINING, origin=str(path))
    return Sets(training=split, open_evaluation=None)
