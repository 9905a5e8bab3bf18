# SPDX-License-Identifier: Apache-2.0
"""The workloads as models: one small file for each family, chosen from a list, never by attribute of some library.

A builder returns a `Recipe`: everything that a training step needs, and nothing of how it is timed or distributed. Its
dtype policy is Keras' global one at that moment. The facts about each model (counts, sizes, origin) are in
`gpubench.workloads`; a test holds both together.
"""

from collections.abc import Callable

import keras

from gpubench import workloads
from gpubench_jobs.models import inception, keras_examples, tf_cnn_benchmarks
from gpubench_jobs.models.recipe import Recipe

BUILDERS: dict[str, Callable[[workloads.Workload], Recipe]] = {
    "mnist_mlp": keras_examples.mnist_mlp,
    "mnist_cnn": keras_examples.mnist_cnn,
    "cifar10_cnn": keras_examples.cifar10_cnn,
    "imdb_bidirectional_lstm": keras_examples.bidirectional_lstm,
    "imdb_fasttext": keras_examples.imdb_fasttext,
    "lstm_text_generation": keras_examples.lstm_text_generation,
    "twitter_bilstm": keras_examples.bidirectional_lstm,
    "trivial": tf_cnn_benchmarks.trivial,
    "alexnet": tf_cnn_benchmarks.alexnet,
    "googlenet": tf_cnn_benchmarks.googlenet,
    "vgg16": tf_cnn_benchmarks.vgg,
    "vgg19": tf_cnn_benchmarks.vgg,
    "inception3": inception.inception3,
    "inception4": inception.inception4,
    "inception4_finetune": inception.inception4_finetune,
    "resnet50": tf_cnn_benchmarks.resnet,
    "resnet50_v1.5": tf_cnn_benchmarks.resnet,
    "resnet101": tf_cnn_benchmarks.resnet,
    "resnet152": tf_cnn_benchmarks.resnet,
}


def build(name: str) -> Recipe:
    """The recipe of a catalogued workload; LookupError for any other name."""
    return build_for(workloads.find(name))


def build_for(workload: workloads.Workload) -> Recipe:
    """The recipe of a catalogue's entry, or of a copy with the vocabulary, length or classes of its data."""
    return BUILDERS[workload.name](workload)


def seed(number: int) -> None:
    """First weights, dropout and augmentation follow from it; with one for all, ranks would drop the same units."""
    keras.utils.set_random_seed(number % 2**32)
