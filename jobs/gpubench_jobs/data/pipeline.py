# SPDX-License-Identifier: Apache-2.0
"""From a set of samples to the batches of one rank, the same ones in every run.

Each sample has a number, its place. An epoch visits one permutation of all places, which follows from seed and epoch
and is the same on all ranks; each rank takes its part of each global batch. The batch of a step follows from the step's
number alone, so that training can go on in the middle. All runs on the rank's own processors.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import tensorflow as tf
from numpy.typing import NDArray

from gpubench_jobs.data import files

Array: TypeAlias = NDArray[Any]
#: Inputs and labels of one batch.
Batch = tuple[tf.Tensor, tf.Tensor]
#: From inputs as they travel to inputs as the network takes them.
OnDevice = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Feed:
    """`draw` gives the batch of a step; it is traced inside the compiled training function.

    `state` enters that function as arguments, so that none of it becomes a constant of the graph: tensors that stay on
    the device, or an iterator of tf.data.
    """

    state: tuple[Any, ...]
    draw: Callable[[tuple[Any, ...], tf.Tensor], Batch]


def held_batch(inputs: tf.Tensor, labels: tf.Tensor) -> Feed:
    """The same batch in every step."""
    return Feed(state=(inputs, labels), draw=lambda state, _: (state[0], state[1]))


def as_it_is(inputs: tf.Tensor) -> tf.Tensor:
    return inputs


def streamed(batches: tf.data.Dataset, on_device: OnDevice = as_it_is, *, device: str | None = None) -> Feed:
    """The next batch in every step; copied to `device`, this rank's GPU if None, while earlier ones are trained on."""
    if device is None:
        device = next((one.name for one in tf.config.list_logical_devices("GPU")), None)
    if device is not None:
        batches = batches.apply(tf.data.experimental.prefetch_to_device(device, buffer_size=2))

    def draw(state: tuple[Any, ...], _: tf.Tensor) -> Batch:
        inputs, labels = next(state[0])
        return on_device(inputs), labels

    return Feed(state=(iter(batches),), draw=draw)


TRAINING = "training"
EVALUATION = "evaluation"

#: Called now and then while a set is opened: the rank gets somewhere.
Progress = Callable[[], None]


@dataclass(frozen=True, kw_only=True)
class _Half:
    name: str  # `training` or `evaluation`
    origin: str  # for messages: the folder, or that it was generated
    count: int  # samples
    on_device: OnDevice = as_it_is  # what inputs become where they are trained on: images travel as bytes


@dataclass(frozen=True, kw_only=True)
class Held(_Half):
    """Samples in memory. `batch_at` makes a batch of the vector of its places."""

    batch_at: Callable[[tf.Tensor], Batch]

    def read(self, visits: tf.data.Dataset, *, threads: int, **_: object) -> tf.data.Dataset:
        """A batch for each visit (its number, and the places as a vector); never more threads at a time."""
        return visits.map(lambda _, places: self.batch_at(places), num_parallel_calls=threads, deterministic=True)


@dataclass(frozen=True, kw_only=True)
class Streamed(_Half):
    """Samples that are read or made when their turn comes. `sample_at` takes a place and a seed of two numbers."""

    sample_at: Callable[[tf.Tensor, tf.Tensor], Batch]

    def read(
        self,
        visits: tf.data.Dataset,
        *,
        seed: int,
        threads: int,
        batch: int,
        size_of: Callable[[tf.Tensor], tf.Tensor] | None = None,
    ) -> tf.data.Dataset:
        """A batch for each visit (its number, and the places as a vector), of size `batch` where `size_of` is None.

        As many samples are under way as there are threads; they come in the order of their places.
        """

        def one(visit: tf.Tensor, place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            own = tf.random.experimental.stateless_fold_in(tf.stack((seed, visit)), place, alg="philox")
            return (visit, *self.sample_at(place, own))

        samples = visits.flat_map(
            lambda visit, places: tf.data.Dataset.from_tensor_slices(places).map(lambda place: (visit, place))
        ).map(one, num_parallel_calls=threads, deterministic=True)
        if size_of is None:
            batches = samples.batch(batch)
        else:
            batches = samples.group_by_window(
                lambda visit, *_: visit, lambda _, window: window.batch(batch), window_size_func=size_of
            )
        return batches.map(lambda _, inputs, labels: (inputs, labels))


#: One half of a data set.
Split: TypeAlias = Held | Streamed


@dataclass(frozen=True)
class Sets:
    """A data set. What is held out is opened when it is asked for: a measurement of throughput never does."""

    training: Split
    open_evaluation: Callable[[], Split] | None  # None where the original had none (text generation)
    vocabulary: int | None = None  # rows of the embedding, where the data decides it (imdb_fasttext, tweets)

    @classmethod
    def of(cls, split: Callable[[str], Split], *, vocabulary: int | None = None) -> "Sets":
        """Both halves, made by their names."""
        return cls(split(TRAINING), lambda: split(EVALUATION), vocabulary)

    @cached_property
    def evaluation(self) -> Split | None:
        return self.open_evaluation() if self.open_evaluation else None


_FOR_EVER = 2**62


def steps_per_epoch(count: int, *, batch_per_worker: int, workers: int, drop_remainder: bool) -> int:
    """Steps in which the whole set is visited once."""
    full, rest = divmod(count, batch_per_worker * workers)
    return full + (1 if rest >= workers and not drop_remainder else 0)


def training_batches(
    split: Split,
    *,
    batch_per_worker: int,
    rank: int,
    workers: int,
    seed: int,
    augment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] | None = None,
    drop_remainder: bool = False,
    shuffle: bool = True,
    first_step: int = 0,
) -> tf.data.Dataset:
    """This rank's batches from `first_step` on, without end; an epoch's last, smaller one is divided equally."""
    global_batch = batch_per_worker * workers
    if split.count < global_batch:
        raise files.unusable(
            f"the {split.name} set of {split.origin} has {split.count} samples, fewer than one global batch of "
            f"{global_batch} ({batch_per_worker} per worker x {workers}): lower the batch or the workers, "
            "or give it more samples"
        )
    steps = steps_per_epoch(
        split.count, batch_per_worker=batch_per_worker, workers=workers, drop_remainder=drop_remainder
    )
    always_full = steps * global_batch <= split.count

    def size_of(step: tf.Tensor) -> tf.Tensor:
        return tf.minimum(split.count - (step % steps) * global_batch, global_batch) // workers

    def places(step: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        size = size_of(step)
        epoch, first = step // steps, (step % steps) * global_batch + rank * size
        turns = tf.range(first, first + size)
        if shuffle:
            turns = permuted(turns, count=split.count, seed=seed, epoch=epoch)
        return step, tf.ensure_shape(turns, (batch_per_worker if always_full else None,))

    threads = own_processors()
    batches = split.read(
        tf.data.Dataset.range(first_step, _FOR_EVER).map(places),
        seed=seed,
        threads=threads,
        batch=batch_per_worker,
        size_of=None if always_full else size_of,
    )
    if augment is not None:

        def augmented(step: tf.Tensor, batch: Batch) -> Batch:
            pair = tf.stack((tf.constant(seed, tf.int64), step))
            return augment(batch[0], tf.random.experimental.stateless_fold_in(pair, rank, alg="philox")), batch[1]

        batches = tf.data.Dataset.zip(tf.data.Dataset.range(first_step, _FOR_EVER), batches).map(
            augmented, num_parallel_calls=threads, deterministic=True
        )
    return _bounded(batches, threads=threads)


def evaluation_batches(split: Split, *, batch_per_worker: int, rank: int, workers: int) -> tf.data.Dataset:
    """This rank's share of the set, once: every sample goes to exactly one rank, whose shares differ by one at most."""
    begin, end = (split.count * of // workers for of in (rank, rank + 1))
    batches = -(-(end - begin) // batch_per_worker)

    def places(visit: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        first = begin + visit * batch_per_worker
        return visit, tf.range(first, tf.minimum(first + batch_per_worker, end))

    threads = own_processors()
    # A fixed size leaves the smaller batch to the end of the samples, which is where it belongs.
    read = split.read(tf.data.Dataset.range(batches).map(places), seed=0, threads=threads, batch=batch_per_worker)
    return _bounded(read, threads=threads)


def own_processors() -> int:
    """Those that the launcher gave this rank: by its cores, or where it has none of its own by its threads."""
    given: int = tf.config.threading.get_intra_op_parallelism_threads()
    cores = len(os.sched_getaffinity(0))
    return min(given, cores) if given else cores


def permuted(turns: tf.Tensor, *, count: int, seed: int | tf.Tensor, epoch: int | tf.Tensor) -> tf.Tensor:
    """The places of these turns, each computed by itself: a permutation of a million places need not be held.

    Up to 65,536 places TensorFlow's shuffle heeds one byte only of each number of its seed, and it has four rounds. So
    its seeds are drawn from ours, and it is applied twice: orders of different seeds or epochs differ.
    """
    pair, last = tf.stack([tf.cast(one, tf.int64) for one in (seed, epoch)]), tf.constant(count - 1, tf.int64)
    drawn = tf.random.stateless_uniform((2, 2), pair, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    shuffle = tf.random.experimental.index_shuffle
    return shuffle(shuffle(turns, drawn[0], last), drawn[1], last)


def _bounded(batches: tf.data.Dataset, *, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False  # it would take threads and memory as it sees fit
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    # So many batches wait for the training step, besides those under way.
    return batches.prefetch(2).with_options(options)
