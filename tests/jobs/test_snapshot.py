# SPDX-License-Identifier: Apache-2.0
"""A rank's state as bytes and back: every variable in its place, whatever its type."""

import random

import numpy as np
import tensorflow as tf

from gpubench_jobs import snapshot


def state(*, order: int = 0) -> snapshot.State:
    """Seeds of one form, which a traced graph names in any order."""
    learned = [tf.Variable([[1.5, 2.5], [3.5, 4.5]]), tf.Variable(7, dtype=tf.int64)]
    moving = [tf.Variable([0.25, 0.5], dtype=tf.bfloat16), tf.Variable(True)]
    seeds = [tf.Variable([number, 10 * number], dtype=tf.uint32) for number in range(9)]
    traced = [*learned, *moving, *seeds]
    random.Random(order).shuffle(traced)
    return snapshot.State(learned, [*learned, *moving], lambda: traced)


def values_of(one: snapshot.State) -> list[object]:
    return [variable.numpy().tolist() for variable in (*one.learned, *one.others())]


def test_a_state_comes_back_as_it_was_in_whichever_order_a_graph_names_its_variables() -> None:
    kept = state(order=1)
    taken = snapshot.take(kept, rank=0, workers=1)
    content = b"".join(bytes(value) for value in taken.values())
    later = state(order=2)
    for variable in (*later.learned, *later.others()):
        variable.assign(tf.zeros_like(variable))
    assert snapshot.fits(later, taken.arrays)
    snapshot.give_back(later, taken.arrays, content, rank=0, workers=1)
    assert values_of(later) == values_of(state())
    assert [variable.numpy()[0] for variable in later.others()[2:]] == list(np.arange(9))


def test_a_model_of_another_form_does_not_fit() -> None:
    arrays = snapshot.take(state(), rank=0, workers=1).arrays
    other = state()
    wider = snapshot.State([tf.Variable([[1.0, 2.0, 3.0]]), other.learned[1]], other.persistent[2:], other.of_a_step)
    assert not snapshot.fits(wider, arrays)
