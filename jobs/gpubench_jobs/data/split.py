# SPDX-License-Identifier: Apache-2.0
"""A set of samples with a number, its place, for each; in which order places are visited is `pipeline`'s.

Both kinds give the same sample for the same place, whoever asks and however often. Only what `Streamed` is told to
change at random (crop, flip) follows from the visit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import tensorflow as tf

from gpubench_jobs.data.feed import Batch, OnDevice, as_it_is

TRAINING = "training"
EVALUATION = "evaluation"

#: Called now and then while a set is opened: the rank gets somewhere.
Progress = Callable[[], None]


@dataclass(frozen=True)
class Reading:
    """How one pass over places is carried out."""

    seed: int
    threads: int  # never more at a time: they are the rank's share of the machine
    #: Samples in the batch of a visit, from its number; all equal to `batch` where it is None.
    size_of: Callable[[tf.Tensor], tf.Tensor] | None
    batch: int


class Split(Protocol):
    """One half of a data set."""

    @property
    def name(self) -> str:
        """`training` or `evaluation`."""

    @property
    def origin(self) -> str:
        """For sentences: the folder, or that it was generated."""

    @property
    def count(self) -> int:
        """Samples."""

    @property
    def on_device(self) -> OnDevice:
        """What a batch's inputs become where they are trained on: images travel as bytes."""

    def read(self, visits: tf.data.Dataset, reading: Reading) -> tf.data.Dataset:
        """A batch for each visit: the visit's number, and the places as a vector."""


@dataclass(frozen=True)
class Sets:
    """A data set. What is held out is opened when it is asked for: a measurement of throughput never does."""

    training: Split
    open_evaluation: Callable[[], Split] | None  # None where the original had none (text generation)
    vocabulary: int | None = None  # rows of the embedding, where the data decides it (imdb_fasttext, tweets)

    @cached_property
    def evaluation(self) -> Split | None:
        """Samples that training does not see."""
        return self.open_evaluation() if self.open_evaluation else None


@dataclass(frozen=True)
class Held:
    """Samples in memory. `batch_at` makes a batch of the vector of its places."""

    name: str
    origin: str
    count: int
    batch_at: Callable[[tf.Tensor], Batch]
    on_device: OnDevice = as_it_is

    def read(self, visits: tf.data.Dataset, reading: Reading) -> tf.data.Dataset:
        """Whole batches at a time."""
        return visits.map(
            lambda _, places: self.batch_at(places), num_parallel_calls=reading.threads, deterministic=True
        )


@dataclass(frozen=True)
class Streamed:
    """Samples that are read or made when their turn comes, one by one, several at a time.

    `sample_at` makes inputs and label from a place and a seed of two numbers, which differs from visit to visit.
    """

    name: str
    origin: str
    count: int
    sample_at: Callable[[tf.Tensor, tf.Tensor], Batch]
    on_device: OnDevice = as_it_is

    def read(self, visits: tf.data.Dataset, reading: Reading) -> tf.data.Dataset:
        """As many samples are under way as there are threads; they come in the order of their places."""

        def one(visit: tf.Tensor, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            seed = tf.random.experimental.stateless_fold_in(tf.stack((reading.seed, visit)), place, alg="philox")
            return (visit, *self.sample_at(place, seed))

        samples = visits.flat_map(
            lambda visit, places: tf.data.Dataset.from_tensor_slices(places).map(lambda place: (visit, place))
        ).map(one, num_parallel_calls=reading.threads, deterministic=True)
        size_of = reading.size_of
        if size_of is None:
            batches = samples.batch(reading.batch)
        else:
            batches = samples.group_by_window(
                lambda visit, *_: visit, lambda _, window: window.batch(reading.batch), window_size_func=size_of
            )
        return batches.map(lambda _, inputs, labels: (inputs, labels))
