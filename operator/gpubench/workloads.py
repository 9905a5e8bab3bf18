# SPDX-License-Identifier: Apache-2.0
"""The catalogue of workloads as facts: what goes in, how large, where it comes from. No TensorFlow here.

The models themselves are built in `gpubench_jobs.models`, one file for each family; a test holds both lists together
and counts the parameters and multiplications of each built model against the figures here. For the models of
tf_cnn_benchmarks these were counted by running its own files (commit 8fb7907) on a counter of shapes. Published counts
agree: OpenVINO inception v3 23.819 M, v4 42.648 M; timm inception_v4 42.7 M, 12.3 GMAC; at 1000 classes Keras' VGG16
138,357,544 and InceptionV3 23,851,784 are exactly what those files give.
"""

from difflib import get_close_matches
from enum import StrEnum

from gpubench.values import Value


class Task(StrEnum):
    """What a workload learns."""

    IMAGE_CLASSIFICATION = "image classification"
    TEXT_CLASSIFICATION = "text classification"
    TEXT_GENERATION = "text generation"
    COMMUNICATION = "communication"


class Inputs(StrEnum):
    """What a sample looks like, and so what its data sets are read and generated as."""

    MNIST = "MNIST"  # grey images of hand-written digits in [0, 1], classes as one-hot rows
    CIFAR10 = "CIFAR-10"  # colour images of 32x32 in [0, 1], classes as one-hot rows
    IMAGENET = "ImageNet"  # colour images as class numbers; synthetic pixels around 127, real ones in [-1, 1]
    FLOWERS = "flowers"  # photographs in [-1, 1], class numbers
    IMDB = "IMDb"  # reviews as word numbers, one label 0 or 1
    TWEETS = "tweets"  # tweets as word numbers, one label 0 or 1
    NIETZSCHE = "Nietzsche"  # windows of a text as one-hot characters, the next character as a one-hot row
    NONE = "none"  # a message of the all-reduce


class Workload(Value):
    """One model with its training recipe, as the studies of 2017-18 ran it."""

    name: str
    task: Task
    about: str  # a sentence or two: what it is, what it shows, where it departs from its paper
    inputs: Inputs
    input_shape: tuple[int, ...]  # of one sample, without the batch
    classes: int
    trainable_parameters: int
    total_parameters: int  # with the moving statistics of batch normalisation
    forward_gmac: float  # giga multiply-accumulates of one sample's forward pass; training takes about three times that
    default_batch: int  # per worker, of the original
    default_epochs: int = 1  # of the original; 1 where it counted steps
    optimizer: str
    origin: str


# The published runs of tf_cnn_benchmarks had no momentum; their L2 term is part of the loss.
_L2 = "L2 term 4e-5 on everything but batch normalisation"
_SGD = f"SGD, learning rate 0.005, no momentum; {_L2}"
_SGD_OF_RESNETS = f"SGD, learning rate 0.004, no momentum; {_L2}"
_SGD_OF_ALEXNET = f"SGD, learning rate 0.0001 (the original's 0.005 ends in NaN), no momentum; {_L2}"

CATALOGUE: tuple[Workload, ...] = (
    Workload(
        name="mnist_mlp",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.MNIST,
        about="Two dense layers of 512 with dropout: so small that the cost of a step's launch shows.",
        input_shape=(784,),
        classes=10,
        trainable_parameters=669_706,
        total_parameters=669_706,
        forward_gmac=0.000669,
        default_batch=128,
        default_epochs=20,
        optimizer="RMSprop, learning rate 0.001, rho 0.9, epsilon 1e-8",
        origin="Keras example mnist_mlp, Keras 2.1.1 (November 2017)",
    ),
    Workload(
        name="mnist_cnn",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.MNIST,
        about="Two convolutions and two dense layers with dropout, on images of 28x28.",
        input_shape=(28, 28, 1),
        classes=10,
        trainable_parameters=1_199_882,
        total_parameters=1_199_882,
        forward_gmac=0.011992,
        default_batch=128,
        default_epochs=12,
        optimizer="Adadelta, learning rate 1.0, rho 0.95, epsilon 1e-8",
        origin="Keras example mnist_cnn, Keras 2.1.1 (November 2017)",
    ),
    Workload(
        name="trivial",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="Two dense layers and nothing else: the fixed cost of a step, and an all-reduce of 17 MB.",
        input_shape=(227, 227, 3),
        classes=1001,
        trainable_parameters=4_263_877,
        total_parameters=4_263_877,
        forward_gmac=0.004,
        default_batch=32,
        optimizer=_SGD,
        origin="tf_cnn_benchmarks trivial, mid 2018",
    ),
    Workload(
        name="alexnet",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="Little arithmetic for 62 million parameters: the interconnect shows. Without "
        "dropout, as the tool ran until 2018-08-09.",
        input_shape=(227, 227, 3),
        classes=1001,
        trainable_parameters=61_842_345,
        total_parameters=61_842_345,
        forward_gmac=0.839,
        default_batch=512,
        optimizer=_SGD_OF_ALEXNET,
        origin="tf_cnn_benchmarks alexnet (one tower), mid 2018",
    ),
    Workload(
        name="googlenet",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="Nine modules of four columns, biases and no normalisation, no auxiliary heads.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=6_999_577,
        total_parameters=6_999_577,
        forward_gmac=1.583,
        default_batch=32,
        optimizer=_SGD,
        origin="tf_cnn_benchmarks googlenet (Inception v1), mid 2018",
    ),
    Workload(
        name="vgg16",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="Large gradients: 553 MB in each step, most of it one dense layer's. Without dropout, "
        "as the tool ran until 2018-08-09.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=138_361_641,
        total_parameters=138_361_641,
        forward_gmac=15.47,
        default_batch=64,
        optimizer=_SGD,
        origin="tf_cnn_benchmarks vgg16, mid 2018",
    ),
    Workload(
        name="vgg19",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="vgg16 with three more convolutions. Without dropout, as the tool ran until 2018-08-09.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=143_671_337,
        total_parameters=143_671_337,
        forward_gmac=19.632,
        default_batch=64,
        optimizer=_SGD,
        origin="tf_cnn_benchmarks vgg19, mid 2018",
    ),
    Workload(
        name="inception3",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="94 convolutions in many small columns; batch normalisation without gamma, auxiliary head off.",
        input_shape=(299, 299, 3),
        classes=1001,
        trainable_parameters=23_819_401,
        total_parameters=23_853_833,
        forward_gmac=5.713,
        default_batch=32,
        optimizer=_SGD,
        origin="tf_cnn_benchmarks inception3, mid 2018",
    ),
    Workload(
        name="inception4",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="149 convolutions; batch normalisation without gamma, no auxiliary head. Without "
        "dropout, as the tool ran until 2018-08-09.",
        input_shape=(299, 299, 3),
        classes=1001,
        trainable_parameters=42_649_769,
        total_parameters=42_712_937,
        forward_gmac=12.254,
        default_batch=32,
        optimizer=_SGD,
        origin="tf_cnn_benchmarks inception4, mid 2018",
    ),
    Workload(
        name="resnet50",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="53 convolutions without biases, batch normalisation after each.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=25_559_081,
        total_parameters=25_612_201,
        forward_gmac=3.858,
        default_batch=64,
        optimizer=_SGD_OF_RESNETS,
        origin="tf_cnn_benchmarks resnet50 (v1: stride in the first 1x1), mid 2018",
    ),
    Workload(
        name="resnet50_v1.5",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="resnet50 with the stride moved into the 3x3: as many parameters, 6 % more arithmetic.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=25_559_081,
        total_parameters=25_612_201,
        forward_gmac=4.089,
        default_batch=64,
        optimizer=_SGD_OF_RESNETS,
        origin="tf_cnn_benchmarks resnet50_v1.5 (stride in the 3x3), July 2018",
    ),
    Workload(
        name="resnet101",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="resnet50 with 23 blocks in place of 6 in the third stage.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=44_551_209,
        total_parameters=44_656_553,
        forward_gmac=7.57,
        default_batch=32,
        optimizer=_SGD_OF_RESNETS,
        origin="tf_cnn_benchmarks resnet101 (v1), mid 2018",
    ),
    Workload(
        name="resnet152",
        task=Task.IMAGE_CLASSIFICATION,
        inputs=Inputs.IMAGENET,
        about="resnet50 with 8 and 36 blocks in place of 4 and 6 in the second and third stage.",
        input_shape=(224, 224, 3),
        classes=1001,
        trainable_parameters=60_194_857,
        total_parameters=60_346_281,
        forward_gmac=11.282,
        default_batch=32,
        optimizer=_SGD_OF_RESNETS,
        origin="tf_cnn_benchmarks resnet152 (v1), mid 2018",
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
