# SPDX-License-Identifier: Apache-2.0
"""The catalogue of workloads as facts: what goes in, how large, where it comes from. No TensorFlow here.

The models themselves are built in `gpubench_jobs.models`, one file for each entry; a test holds both lists together and
counts the parameters of each built model against the figure here.
"""

from difflib import get_close_matches
from enum import StrEnum

from gpubench.values import Value


class Task(StrEnum):
    """What a workload learns."""

    IMAGE_CLASSIFICATION = "image classification"


class Workload(Value):
    """One model with its training recipe, as the studies of 2017-18 ran it."""

    name: str
    task: Task
    input_shape: tuple[int, ...]  # of one sample, without the batch
    classes: int
    trainable_parameters: int
    total_parameters: int  # with the moving statistics of batch normalisation
    forward_gmac: float  # giga multiply-accumulates of one sample's forward pass; training takes about three times that
    default_batch: int  # per worker, of the original
    optimizer: str
    origin: str


CATALOGUE: tuple[Workload, ...] = (
    Workload(
        name="mnist_mlp",
        task=Task.IMAGE_CLASSIFICATION,
        input_shape=(784,),
        classes=10,
        trainable_parameters=669_706,
        total_parameters=669_706,
        forward_gmac=0.000669,
        default_batch=128,
        optimizer="RMSprop, learning rate 0.001, rho 0.9, epsilon 1e-8",
        origin="Keras example mnist_mlp, Keras 2.1.1 (November 2017)",
    ),
    Workload(
        name="mnist_cnn",
        task=Task.IMAGE_CLASSIFICATION,
        input_shape=(28, 28, 1),
        classes=10,
        trainable_parameters=1_199_882,
        total_parameters=1_199_882,
        forward_gmac=0.011992,
        default_batch=128,
        optimizer="Adadelta, learning rate 1.0, rho 0.95, epsilon 1e-8",
        origin="Keras example mnist_cnn, Keras 2.1.1 (November 2017)",
    ),
    Workload(
        name="resnet50",
        task=Task.IMAGE_CLASSIFICATION,
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=25_559_081,
        total_parameters=25_612_201,
        forward_gmac=3.858,
        default_batch=64,
        optimizer="SGD, learning rate 0.004, no momentum; L2 term 4e-5 on everything but batch normalisation",
        origin="tf_cnn_benchmarks resnet50 (v1: stride in the first 1x1), mid 2018",
    ),
)

NAMES: tuple[str, ...] = tuple(workload.name for workload in CATALOGUE)
_BY_NAME = {workload.name: workload for workload in CATALOGUE}


def find(name: str) -> Workload:
    """The catalogue's entry; LookupError with the nearest name when there is none."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    nearest = get_close_matches(name, NAMES, n=1)
    hint = f"did you mean {nearest[0]!r}?" if nearest else f"choose one of {', '.join(NAMES)}"
    raise LookupError(f"unknown workload {name!r}: {hint}")
