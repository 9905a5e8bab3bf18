# SPDX-License-Identifier: Apache-2.0
"""How cifar10_cnn changes its training images: as the original did, and again the same way for the same seed."""

from typing import Any

import numpy as np
import tensorflow as tf

from gpubench import workloads
from gpubench_jobs import models

SIDE = 32
IMAGES = 4000
FARTHEST = 3  # a tenth of 32, rounded to a whole pixel


def changed(images: tf.Tensor, *, seed: tuple[int, int]) -> Any:
    augment = models.build("cifar10_cnn").augment
    assert augment is not None
    return augment(images, tf.constant(seed)).numpy()


def coordinates() -> tf.Tensor:
    """Images whose pixels say where they are: row, column, and the image's own number."""
    rows, columns = tf.meshgrid(tf.range(SIDE), tf.range(SIDE), indexing="ij")
    grid = tf.broadcast_to(tf.stack((rows, columns), axis=-1), (IMAGES, SIDE, SIDE, 2))
    numbers = tf.broadcast_to(tf.range(IMAGES)[:, None, None, None], (IMAGES, SIDE, SIDE, 1))
    return tf.concat((grid, numbers), axis=-1)


def test_the_same_seed_changes_images_the_same_way() -> None:
    images = tf.random.stateless_uniform((8, SIDE, SIDE, 3), seed=(1, 1))
    assert np.array_equal(changed(images, seed=(3, 4)), changed(images, seed=(3, 4)))
    assert not np.array_equal(changed(images, seed=(3, 4)), changed(images, seed=(3, 5)))
    assert not np.array_equal(changed(images, seed=(3, 4)), changed(images, seed=(4, 4)))
    assert changed(images, seed=(3, 4)).dtype == np.float32


def test_images_are_moved_by_a_tenth_at_most_and_mirrored_half_of_the_time() -> None:
    rows, columns, numbers = np.moveaxis(changed(coordinates(), seed=(5, 6)), -1, 0)
    assert (numbers == np.arange(IMAGES)[:, None, None]).all(), "no image takes pixels of another"

    mirrored = columns[:, 0, 15] > columns[:, 0, 17]
    assert 0.45 < mirrored.mean() < 0.55  # 4,000 coins: six deviations of 0.8 % on each side
    upright = np.where(mirrored[:, None, None], columns[:, :, ::-1], columns)
    down, right = rows[:, 16, 0] - 16, upright[:, 0, 16] - 16

    for moves in (down, right):
        assert set(moves.tolist()) == set(range(-FARTHEST, FARTHEST + 1))
        shares = np.array([(moves == move).mean() for move in range(-FARTHEST, FARTHEST + 1)])
        expected = np.array([0.7, 1, 1, 1, 1, 1, 0.7]) / 6.4  # uniform in [-3.2, 3.2], rounded
        np.testing.assert_allclose(shares, expected, atol=0.035)
    assert abs(np.corrcoef(down, right)[0, 1]) < 0.1, "each direction by a chance of its own"
    assert abs(np.corrcoef(mirrored, right)[0, 1]) < 0.1

    # What comes from outside is the nearest pixel inside; nothing is interpolated.
    places = np.arange(SIDE)
    assert np.array_equal(rows[:, :, 5], np.clip(places + down[:, None], 0, SIDE - 1))
    assert np.array_equal(upright[:, 5, :], np.clip(places + right[:, None], 0, SIDE - 1))


def test_augmentation_runs_inside_a_compiled_function_for_any_batch() -> None:
    augment = models.build("cifar10_cnn").augment
    assert augment is not None
    compiled = tf.function(
        augment, input_signature=[tf.TensorSpec((None, SIDE, SIDE, 3)), tf.TensorSpec((2,), tf.int64)]
    )
    images = tf.random.stateless_uniform((5, SIDE, SIDE, 3), seed=(1, 1))
    seed = tf.constant((3, 4), tf.int64)
    assert np.array_equal(compiled(images, seed).numpy(), augment(images, seed).numpy())


def test_no_other_original_changed_its_images() -> None:
    small = [name for name in models.BUILDERS if workloads.find(name).total_parameters < 3_000_000]
    assert [name for name in small if models.build(name).augment is not None] == ["cifar10_cnn"]
    assert [name for name in small if models.build(name).drop_remainder] == ["cifar10_cnn"]
