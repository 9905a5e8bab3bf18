# SPDX-License-Identifier: Apache-2.0
"""The workloads as models: one small file for each family, chosen from a list, never by attribute of some library.

A builder returns a `Recipe`: everything that a training step needs, and nothing of how it is timed or distributed. The
facts about each model (counts, sizes, origin) are in `gpubench.workloads`; a test holds both together.
"""

from collections.abc import Callable

import keras

from gpubench import workloads
from gpubench_jobs import normalization
from gpubench_jobs.models import (
    alexnet,
    bidirectional_lstm,
    cifar10_cnn,
    googlenet,
    imdb_fasttext,
    inception3,
    inception4,
    inception4_finetune,
    lstm_text_generation,
    mnist_cnn,
    mnist_mlp,
    resnet,
    trivial,
    vgg,
)
from gpubench_jobs.models.recipe import Normalization, Recipe

#: Builds a recipe; the dtype policy is Keras' global one at that moment.
Build = Callable[[workloads.Workload], Recipe]

_BUILDERS: dict[str, Build] = {
    "mnist_mlp": mnist_mlp.build,
    "mnist_cnn": mnist_cnn.build,
    "cifar10_cnn": cifar10_cnn.build,
    "imdb_bidirectional_lstm": bidirectional_lstm.build,
    "imdb_fasttext": imdb_fasttext.build,
    "lstm_text_generation": lstm_text_generation.build,
    "twitter_bilstm": bidirectional_lstm.build,
    "trivial": trivial.build,
    "alexnet": alexnet.build,
    "googlenet": googlenet.build,
    "vgg16": vgg.build,
    "vgg19": vgg.build,
}

_NORMALIZED_BUILDERS: dict[str, Callable[[workloads.Workload, Normalization], Recipe]] = {
    "inception3": inception3.build,
    "inception4": inception4.build,
    "inception4_finetune": inception4_finetune.build,
    "resnet50": resnet.build,
    "resnet50_v1.5": resnet.build,
    "resnet101": resnet.build,
    "resnet152": resnet.build,
}


def build(name: str) -> Recipe:
    """The recipe of a catalogued workload; LookupError for any other name."""
    return build_for(workloads.find(name))


def build_for(
    workload: workloads.Workload, *, normalization: Normalization = normalization.FusedBatchNormalization
) -> Recipe:
    """The recipe of a catalogue's entry, or of one with the sizes that its data have.

    A data set whose vocabulary, length or number of classes is not the catalogue's says so with
    `workload.model_copy(update={"vocabulary": ...})`.
    """
    if build_normalized := _NORMALIZED_BUILDERS.get(workload.name):
        return build_normalized(workload, normalization)
    return _BUILDERS[workload.name](workload)


def seed(number: int) -> None:
    """First weights, dropout and augmentation of what is built next follow from this number.

    Each rank has one of its own, or all would drop the same units; that their weights begin alike is `spread`'s work.
    """
    keras.utils.set_random_seed(number % 2**32)


def names() -> tuple[str, ...]:
    """What can be built."""
    return (*_BUILDERS, *_NORMALIZED_BUILDERS)
