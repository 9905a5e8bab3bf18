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
from collections import Counter
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpubench.workloads import Workload
from gpubench_jobs.data import files, unusable, words
from gpubench_jobs.data.split import EVALUATION, TRAINING, Held, Sets

Array = NDArray[Any]

_PUNCTUATION = str.maketrans(dict.fromkeys('!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n', " "))
_REVIEW_FOLDERS = {TRAINING: "train", EVALUATION: "test"}
_OPINIONS = {"neg": 0, "pos": 1}

_SPLIT_SEED = 123  # of the original
_HELD_OUT = 0.1
_FOREIGN = re.compile(r"[^A-Za-z0-9(),!?'`\n]")
_REPEATED = re.compile(r"([^\n])\1{2,}")
_ENDING = re.compile(r"('s|'ve|n't|'re|'d|'ll)")
_MARK = re.compile(r"([,!()?])")


def reviews(workload: Workload, path: Path) -> Sets:
    """25,000 and 25,000 reviews."""
    source = files.below(path, "aclImdb")
    texts: dict[str, list[list[str]]] = {}
    labels: dict[str, Array] = {}
    for name, folder in _REVIEW_FOLDERS.items():
        found = [
            (file, label)
            for opinion, label in _OPINIONS.items()
            for file in files.matching(source / folder / opinion, "*.txt", what="reviews")
        ]
        texts[name] = [review_words(files.text(file)) for file, _ in found]
        labels[name] = np.array([label for _, label in found])
    kept = words.REVIEW_WORDS - words.FIRST_WORD
    numbers = {word: number for number, word in enumerate(by_frequency(texts[TRAINING])[:kept], words.FIRST_WORD)}
    coded = {
        name: [np.array([words.START, *(numbers.get(word, words.UNKNOWN) for word in text)]) for text in of]
        for name, of in texts.items()
    }
    return words.review_sets(workload, coded, labels, origin=str(path))


def review_words(text: str) -> list[str]:
    """As Keras' Tokenizer cuts a text."""
    return text.lower().translate(_PUNCTUATION).split()


def by_frequency(texts: Sequence[Sequence[str]]) -> list[str]:
    """All words, the most frequent first; equally frequent ones by the alphabet, so that numbers can be made again."""
    counts = Counter(chain.from_iterable(texts))
    return sorted(counts, key=lambda word: (-counts[word], word))


def tweets(workload: Workload, path: Path) -> Sets:
    """Both files, shuffled as in the original, the last tenth held out."""
    good, bad = (tweet_words(files.content(path / f"tw-data.{kind}")) for kind in ("pos", "neg"))
    texts = good + bad
    labels = np.array([1] * len(good) + [0] * len(bad))
    held_out = int(_HELD_OUT * len(texts))
    if not held_out:
        raise unusable.refusal(f"{path} holds {len(texts)} tweets, of which no tenth can be held out: copy all of them")
    vocabulary = by_frequency(texts)
    numbers = {word: number for number, word in enumerate(vocabulary, words.PADDING + 1)}
    coded = [np.array([numbers[word] for word in text], np.int32) for text in texts]
    order = np.random.RandomState(_SPLIT_SEED).permutation(len(texts))
    places = {TRAINING: order[:-held_out], EVALUATION: order[-held_out:]}
    (length,) = workload.input_shape
    splits = {
        name: words.held_tweets([coded[place] for place in of], labels[of], length=length, name=name, origin=str(path))
        for name, of in places.items()
    }
    return Sets(
        training=splits[TRAINING],
        evaluation=splits[EVALUATION],
        vocabulary=len(vocabulary) + 1,
    )


def tweet_words(content: bytes) -> list[list[str]]:
    """The tweets of a file, all cleaned at once: line by line it would take minutes."""
    text = _FOREIGN.sub(" ", content.decode("latin-1"))
    text = _REPEATED.sub(r"\1\1", text)
    text = _ENDING.sub(r" \1", text)
    text = _MARK.sub(r" \1 ", text).lower()
    lines = text.removesuffix("\n").split("\n") if text else []
    return [line.split() for line in lines]


def nietzsche(workload: Workload, path: Path) -> Sets:
    """Windows of the text in lower case; nothing is held out, as in the original."""
    file = path / "nietzsche.txt"
    text = files.text(file).lower()
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
    return Sets(training=split, evaluation=None)
