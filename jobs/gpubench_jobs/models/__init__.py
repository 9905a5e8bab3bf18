# SPDX-License-Identifier: Apache-2.0
"""The workloads as models: one small file each, chosen from a list, never by attribute of some library.

A builder returns a `Recipe`: everything that a training step needs, and nothing of how it is timed or distributed. The
facts about each model (counts, sizes, origin) are in `gpubench.workloads`; a test holds both together.
"""

from collections.abc import Callable

import keras

from gpubench import workloads
from gpubench_jobs.models import mnist_cnn, mnist_mlp, resnet50
from gpubench_jobs.models.recipe import Recipe

#: Builds a recipe for a batch size and a seed; the dtype policy is Keras' global one at that moment.
Build = Callable[..., Recipe]

_BUILDERS: dict[str, Build] = {
    "mnist_mlp": mnist_mlp.build,
    "mnist_cnn": mnist_cnn.build,
    "resnet50": resnet50.build,
}


def build(name: str, *, batch: int, seed: int) -> Recipe:
    """The recipe of a catalogued workload; LookupError for any other name."""
    workload = workloads.find(name)
    return _BUILDERS[workload.name](workload, batch=batch, seed=seed)


def seed_weights(seed: int) -> None:
    """The first weights of what is built next follow from this seed; dropout and samples have seeds of their own."""
    keras.utils.set_random_seed(seed % 2**32)


def names() -> tuple[str, ...]:
    """What can be built."""
    return tuple(_BUILDERS)
