# SPDX-License-Identifier: Apache-2.0
"""Which samples a rank is given, and in what order: all of them, once an epoch, the same in every run."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from gangs import make_assignment
from gpubench.exitcodes import ExitCode
from gpubench_jobs import failures
from gpubench_jobs.data import files, pipeline
from gpubench_jobs.data.pipeline import Batch, Split, Streamed
from gpubench_jobs.failures import RankError
from samples import Array, first, held_places, streamed_places

Make = Callable[[int], Split]
KINDS = pytest.mark.parametrize("make", [held_places, streamed_places])


def epoch_of(
    split: Split, *, batch: int, workers: int, epoch: int = 0, seed: int = 7, drop: bool = False, shuffle: bool = True
) -> list[list[Array]]:
    """The inputs of each rank's batches in one epoch."""
    steps = pipeline.steps_per_epoch(split.count, batch_per_worker=batch, workers=workers, drop_remainder=drop)
    return [
        first(
            pipeline.training_batches(
                split,
                batch_per_worker=batch,
                rank=rank,
                workers=workers,
                seed=seed,
                drop_remainder=drop,
                shuffle=shuffle,
                first_step=epoch * steps,
            ),
            steps,
        )
        for rank in range(workers)
    ]


def visited(ranks: list[list[Array]]) -> list[int]:
    """In the order of the permutation: step by step, and within a step rank by rank."""
    return [int(place) for step in zip(*ranks, strict=True) for part in step for place in part]


@pytest.mark.parametrize(
    ("count", "batch", "workers", "drop", "steps"),
    [
        (60_000, 128, 1, False, 469),  # mnist_mlp
        (50_000, 32, 1, True, 1_562),  # cifar10_cnn
        (25_000, 32, 1, False, 782),  # imdb_bidirectional_lstm
        (200_285, 128, 1, False, 1_565),  # lstm_text_generation
        (100, 25, 4, False, 1),
        (103, 25, 4, False, 1),  # three samples are no step of four ranks
        (104, 25, 4, False, 2),
        (104, 25, 4, True, 1),
    ],
)
def test_an_epoch_has_as_many_steps_as_the_originals(
    count: int, batch: int, workers: int, drop: bool, steps: int
) -> None:
    assert pipeline.steps_per_epoch(count, batch_per_worker=batch, workers=workers, drop_remainder=drop) == steps


@KINDS
@pytest.mark.parametrize(
    ("count", "batch", "workers", "left_out"),
    [(40, 5, 2, 0), (47, 5, 1, 0), (47, 5, 2, 1), (50, 4, 3, 2), (41, 5, 4, 1)],
)
def test_every_sample_is_visited_once_in_an_epoch(
    make: Make, count: int, batch: int, workers: int, left_out: int
) -> None:
    ranks = epoch_of(make(count), batch=batch, workers=workers)
    places = visited(ranks)
    assert len(set(places)) == len(places) == count - left_out
    assert left_out < workers
    assert set(places) <= set(range(count))
    for step in zip(*ranks, strict=True):
        assert len({len(part) for part in step}) == 1


@KINDS
def test_a_remainder_is_left_out_where_the_original_did(make: Make) -> None:
    (batches,) = epoch_of(make(47), batch=5, workers=1, drop=True)
    assert [len(batch) for batch in batches] == [5] * 9


@KINDS
def test_the_order_is_that_of_the_set_only_when_asked(make: Make) -> None:
    assert visited(epoch_of(make(47), batch=5, workers=1, shuffle=False)) == list(range(47))
    assert visited(epoch_of(make(47), batch=5, workers=1)) != list(range(47))


@KINDS
def test_the_order_follows_from_seed_and_epoch(make: Make) -> None:
    def order(*, seed: int = 7, epoch: int = 0) -> list[int]:
        return visited(epoch_of(make(40), batch=5, workers=1, seed=seed, epoch=epoch))

    assert order() == order()
    assert order(seed=8) != order()
    assert order(epoch=1) != order()


def orders(count: int, *, seeds: range, epochs: range) -> Array:
    """A row for each pair."""
    pairs = tf.constant([(seed, epoch) for seed in seeds for epoch in epochs], tf.int64)

    def order(pair: tf.Tensor) -> tf.Tensor:
        return pipeline.permuted(tf.range(count, dtype=tf.int64), count=count, seed=pair[0], epoch=pair[1])

    found = tf.function(lambda: tf.map_fn(order, pairs))()
    return np.asarray(found.numpy())


@pytest.mark.parametrize(("seeds", "epochs"), [(range(1), range(1000)), (range(1000), range(1))])
def test_a_thousand_orders_are_all_different_and_favour_no_place(seeds: range, epochs: range) -> None:
    count = 60
    found = orders(count, seeds=seeds, epochs=epochs)
    assert (np.sort(found, axis=1) == np.arange(count)).all()
    assert len({order.tobytes() for order in found}) == len(found) == 1000
    # How often each sample came at each turn, and each right after each other: fair draws pass in 9,999 of 10,000.
    at_turn, after = np.zeros((count, count)), np.zeros((count, count))
    for order in found:
        at_turn[np.arange(count), order] += 1
        after[order[:-1], order[1:]] += 1
    others = after[~np.eye(count, dtype=bool)]
    for counts, freedom in ((at_turn.ravel(), (count - 1) ** 2), (others, count * (count - 1) - count)):
        expected = counts.sum() / counts.size
        assert stats.chi2.sf(float(((counts - expected) ** 2 / expected).sum()), freedom) > 1e-4


@pytest.mark.parametrize("count", [1_000, 70_000])
def test_orders_that_are_near_in_seed_or_epoch_are_not_alike(count: int) -> None:
    for found in (
        orders(count, seeds=range(1, 1026, 256), epochs=range(1)),
        orders(count, seeds=range(1), epochs=range(20)),
    ):
        for one, other in itertools.combinations(found, 2):
            assert abs(np.corrcoef(one, other)[0, 1]) < 5 / np.sqrt(count)


@KINDS
def test_the_order_of_the_set_is_the_same_for_any_number_of_workers(make: Make) -> None:
    assert visited(epoch_of(make(40), batch=10, workers=1)) == visited(epoch_of(make(40), batch=5, workers=2))


@KINDS
def test_training_goes_on_in_the_middle(make: Make) -> None:
    def batches(first_step: int) -> tf.data.Dataset:
        return pipeline.training_batches(make(23), batch_per_worker=5, rank=0, workers=1, seed=7, first_step=first_step)

    whole, rest = first(batches(0), 13), first(batches(7), 6)
    assert [len(batch) for batch in whole[:6]] == [5, 5, 5, 5, 3, 5]
    for expected, resumed in zip(whole[7:], rest, strict=True):
        np.testing.assert_array_equal(expected, resumed)


def test_a_set_sorted_by_class_is_mixed() -> None:
    """Of ten classes in a row, a batch of 100 must hold about ten of each: the deviation of a fair draw is three."""
    (batches,) = epoch_of(held_places(10_000), batch=100, workers=1)
    counts = np.array([np.bincount(batch // 1000, minlength=10) for batch in batches])
    assert 2.6 < counts.std() < 3.4
    assert (counts > 0).all()


def test_neighbours_are_parted() -> None:
    places = np.array(visited(epoch_of(held_places(10_000), batch=100, workers=1)))
    assert abs(np.corrcoef(places[:-1], places[1:])[0, 1]) < 0.05
    assert abs(np.corrcoef(places, np.arange(len(places)))[0, 1]) < 0.05


@KINDS
@pytest.mark.parametrize(("count", "batch", "workers"), [(20, 4, 2), (21, 4, 2), (3, 4, 4), (7, 100, 1)])
def test_every_sample_is_evaluated_once_by_one_rank(make: Make, count: int, batch: int, workers: int) -> None:
    shares = [
        [
            int(place)
            for inputs, _ in pipeline.evaluation_batches(
                make(count), batch_per_worker=batch, rank=rank, workers=workers
            )
            for place in inputs
        ]
        for rank in range(workers)
    ]
    assert sorted(place for share in shares for place in share) == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_random_changes_differ_by_step_and_rank_and_repeat() -> None:
    def seeds(rank: int, first_step: int = 0) -> list[tuple[int, ...]]:
        batches = pipeline.training_batches(
            held_places(40),
            batch_per_worker=5,
            rank=rank,
            workers=2,
            seed=7,
            first_step=first_step,
            augment=lambda _, seed: seed,
        )
        return [tuple(map(int, seed)) for seed in first(batches, 6)]

    assert seeds(0) == seeds(0)
    assert len({*seeds(0), *seeds(1)}) == 12
    assert seeds(0, first_step=2)[:4] == seeds(0)[2:]


def test_a_streamed_sample_is_changed_anew_at_each_visit() -> None:
    batches = pipeline.training_batches(
        streamed_places(10), batch_per_worker=5, rank=0, workers=1, seed=7, shuffle=False
    )
    labels = [label.numpy() for _, label in batches.take(4)]
    drawn = {tuple(row) for batch in labels for row in batch[:, 1:]}
    assert len(drawn) == 20


def test_a_set_below_one_global_batch_is_refused() -> None:
    with pytest.raises(RankError) as refused:
        pipeline.training_batches(held_places(63), batch_per_worker=32, rank=0, workers=2, seed=7)
    assert refused.value.exit_code is ExitCode.DATA_UNUSABLE
    assert refused.value.sentence == (
        "the training set of a test has 63 samples, fewer than one global batch of 64 (32 per worker x 2): "
        "lower the batch or the workers, or give it more samples"
    )


def test_what_is_wrong_with_a_streamed_sample_arrives_as_a_sentence() -> None:
    def sample_at(place: tf.Tensor, _: tf.Tensor) -> Batch:
        usable = files.unless(place < 7, place, "/set/file: sample ", place, " is none: replace it")
        return usable, place

    split = Streamed(name="training", origin="/set", count=10, sample_at=sample_at)
    batches = pipeline.training_batches(split, batch_per_worker=5, rank=0, workers=1, seed=7, shuffle=False)

    @tf.function  # type: ignore[untyped-decorator]  # TensorFlow has no types
    def steps(drawn: tf.data.Iterator) -> tf.Tensor:
        for _ in tf.range(2):
            next(drawn)
        return tf.constant(0)

    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        steps(iter(batches))
    explained = failures.explain(raised.value, make_assignment())
    assert explained.exit_code is ExitCode.DATA_UNUSABLE
    assert explained.sentence == "/set/file: sample 7 is none: replace it"
