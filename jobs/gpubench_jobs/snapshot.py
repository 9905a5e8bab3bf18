# SPDX-License-Identifier: Apache-2.0
"""The state of a gang's training as bytes, and back: every variable that a step reads or writes, on every rank.

Trained weights and the optimizer's own variables are equal on all ranks after each step, so rank 0's are kept. The
others may be each rank's own (seeds of dropout, moving statistics of batch normalisation, what a loss of a user's own
keeps in variables): ranks compare digests of them, and only those that differ are collected. Where the samples of a
step follow from its number, as they do in `data.pipeline`, nothing else decides how the training goes on.

Must not happen: a rank that goes on with another one's seeds. A state that is given to a model of another form.
What a model keeps outside of variables (in Python, by tf.py_function, in tables) is not in a checkpoint.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from gpubench_jobs import distribution
from gpubench_jobs.checkpoint import Array


@dataclass(frozen=True)
class State:
    """The variables of a rank's training."""

    learned: Sequence[tf.Variable]  # weights and the optimizer's own: equal on all ranks after a step
    persistent: Sequence[tf.Variable]  # those that ranks begin with in common
    of_a_step: Callable[[], Sequence[tf.Variable]]  # all that a step has; traces it, like its first call

    def others(self) -> list[tf.Variable]:
        """Those that may differ between ranks, each once, in an order that follows from the program."""
        known = {variable.ref() for variable in self.learned}
        found = dict[object, tf.Variable]()
        # A traced graph has its variables in the order of a set, another one in each process: by it two layers of
        # dropout would change their seeds.
        for variable in (*self.persistent, *sorted(self.of_a_step(), key=_made)):
            if variable.ref() not in known and variable.dtype != tf.string:
                found.setdefault(variable.ref(), variable)
        return list(found.values())


@dataclass(frozen=True)
class Snapshot:
    """What there is to keep; on rank 0 all of it, on others what their place in the collectives needs."""

    arrays: tuple[Array, ...]
    values: Callable[[], Iterator[memoryview]]  # on rank 0: in the order of a manifest


def take(state: State, *, rank: int, workers: int) -> Snapshot:
    """On all ranks at once, between two steps."""
    others = state.others()
    own = _differing(others) if workers > 1 else frozenset[int]()
    mine = b"".join(bytes(_bytes_of(others[number])) for number in sorted(own))
    of_ranks = distribution.gather_bytes(mine) if own else []
    common = (*state.learned, *(variable for number, variable in enumerate(others) if number not in own))

    def values() -> Iterator[memoryview]:
        assert rank == 0
        for variable in common:  # one by one: a copy of all weights would take their memory again
            yield _bytes_of(variable)
        for of_rank in of_ranks:
            yield memoryview(of_rank)

    arrays = (
        *(_array(variable) for variable in state.learned),
        *(_array(variable, own=number in own) for number, variable in enumerate(others)),
    )
    return Snapshot(arrays=arrays, values=values)


def fits(state: State, arrays: Sequence[Array]) -> bool:
    """Whether a checkpoint is one of a model of this form; traces a step."""
    form = [(array.dtype, array.shape) for array in arrays]
    return form == [(one.dtype, one.shape) for one in map(_array, (*state.learned, *state.others()))]


def give_back(state: State, arrays: Sequence[Array], values: bytes, *, rank: int, workers: int) -> None:
    """On all ranks at once, before the next step; `values` are rank 0's, and empty on the others."""
    variables = (*state.learned, *state.others())
    common = [variable for variable, array in zip(variables, arrays, strict=True) if not array.own]
    own = [variable for variable, array in zip(variables, arrays, strict=True) if array.own]
    rest = memoryview(values)
    if rank == 0:
        rest = _assign(common, rest)
    if workers > 1:
        distribution.spread(common)
    if own:
        of_ranks = distribution.bytes_from_first(bytes(rest))
        size = len(of_ranks) // workers
        _assign(own, memoryview(of_ranks)[rank * size :])


def _differing(variables: Sequence[tf.Variable]) -> frozenset[int]:
    """The numbers of those that are not equal on all ranks."""
    digests = [hashlib.sha256(_bytes_of(variable)).hexdigest() for variable in variables]
    of_ranks = distribution.gather(digests)
    return frozenset(number for number, of_all in enumerate(zip(*of_ranks, strict=True)) if len(set(of_all)) > 1)


def _made(variable: tf.Variable) -> int:
    """The place of a variable among all that the process has made: the same program makes them in the same order."""
    return int(variable._unique_id.rpartition("_")[2])


def _array(variable: tf.Variable, *, own: bool = False) -> Array:
    return Array(dtype=variable.dtype.name, shape=tuple(variable.shape.as_list()), own=own)


def _bytes_of(variable: tf.Variable) -> memoryview:
    """As bytes: numpy's own buffers know no bfloat16."""
    return np.ascontiguousarray(variable.numpy()).reshape(-1).view(np.uint8).data


def _assign(variables: Sequence[tf.Variable], values: memoryview) -> memoryview:
    """Each variable its values; what is left of them."""
    for variable in variables:
        dtype, count = np.dtype(variable.dtype.as_numpy_dtype), variable.shape.num_elements()
        size = dtype.itemsize * count
        variable.assign(np.frombuffer(values[:size], dtype=dtype).reshape(variable.shape.as_list()))
        values = values[size:]
    return values
