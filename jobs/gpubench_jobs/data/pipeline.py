# SPDX-License-Identifier: Apache-2.0
"""From a set to the batches of one rank, the same ones in every run.

Each epoch visits one permutation of the whole set, which follows from the seed and the epoch and is the same on all
ranks. A global batch is `batch_per_worker` x `workers` consecutive places of it, and each rank takes its part: no two
ranks see the same sample. The batch of a step is a function of the step's number alone, so training can go on in the
middle without visiting what came before. The last batch of an epoch is smaller, and all ranks have equal parts of it,
for which at most `workers` - 1 samples are left out.

`seed` must be the same on all ranks. Everything runs on the rank's own processors, in a private pool of threads.
"""

import os
from collections.abc import Callable

import tensorflow as tf

from gpubench_jobs.data import unusable
from gpubench_jobs.data.split import Reading, Split

_READY_BATCHES = 2  # wait for the training step, besides those under way
_FOR_EVER = 2**62

#: Training inputs, changed at random by a seed of two numbers: `Recipe.augment`.
Augment = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


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
    augment: Augment | None = None,
    drop_remainder: bool = False,
    shuffle: bool = True,
    first_step: int = 0,
) -> tf.data.Dataset:
    """This rank's batches from `first_step` on, without end."""
    global_batch = batch_per_worker * workers
    if split.count < global_batch:
        raise unusable.refusal(
            f"the {split.name} set of {split.origin} has {split.count} samples, fewer than one global batch of "
            f"{global_batch} ({batch_per_worker} per worker x {workers}): lower the batch or the workers, "
            "or give it more samples"
        )
    steps = steps_per_epoch(
        split.count, batch_per_worker=batch_per_worker, workers=workers, drop_remainder=drop_remainder
    )
    always_full = steps * global_batch <= split.count

    def size_of(step: tf.Tensor) -> tf.Tensor:
        left = split.count - (step % steps) * global_batch
        return tf.minimum(left, global_batch) // workers

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
        Reading(seed=seed, threads=threads, size_of=None if always_full else size_of, batch=batch_per_worker),
    )
    if augment is not None:
        batches = tf.data.Dataset.zip(tf.data.Dataset.range(first_step, _FOR_EVER), batches).map(
            lambda step, batch: (augment(batch[0], _seed_pair(seed, step, rank)), batch[1]),
            num_parallel_calls=threads,
            deterministic=True,
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
    read = split.read(
        tf.data.Dataset.range(batches).map(places),
        # A fixed size leaves the smaller batch to the end of the samples, which is where it belongs.
        Reading(seed=0, threads=threads, size_of=None, batch=batch_per_worker),
    )
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


def _seed_pair(seed: int, step: tf.Tensor, rank: int) -> tf.Tensor:
    pair = tf.stack((tf.constant(seed, tf.int64), step))
    return tf.random.experimental.stateless_fold_in(pair, rank, alg="philox")


def _bounded(batches: tf.data.Dataset, *, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.deterministic = True
    options.autotune.enabled = False  # it would take threads and memory as it sees fit
    options.threading.private_threadpool_size = threads
    options.threading.max_intra_op_parallelism = 1
    return batches.prefetch(_READY_BATCHES).with_options(options)
