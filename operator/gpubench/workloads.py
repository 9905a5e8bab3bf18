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
from functools import partial
from typing import Literal

from pydantic import Field

from gpubench.values import FrozenModel

#: What a workload learns.
Task = Literal["image classification", "text classification", "text generation", "communication"]


class Inputs(StrEnum):
    """What a sample looks like, and so what its data sets are read and generated as.

    All numbers are float32 unless they are called numbers of something: those are int32.
    """

    MNIST = "MNIST"  # grey images of hand-written digits in [0, 1], in the workload's shape; classes as one-hot rows
    CIFAR10 = "CIFAR-10"  # colour images of 32x32 in [0, 1]; classes as one-hot rows
    IMAGENET = "ImageNet"  # colour images, synthetic pixels around 127, real ones in [-1, 1]; class numbers
    FLOWERS = "flowers"  # colour photographs in [-1, 1]; class numbers
    IMDB = "IMDb"  # reviews as word numbers below the vocabulary; rows of one label 0.0 or 1.0
    TWEETS = "tweets"  # tweets as word numbers below the vocabulary; rows of one label 0.0 or 1.0
    NIETZSCHE = "Nietzsche"  # windows of a text as one-hot characters; the next character as a one-hot row
    NONE = "none"  # a message of the all-reduce


class Precision(StrEnum):
    """The arithmetic of a training step: float32 means float32: TensorFloat-32 is used only where it is asked for."""

    FLOAT32 = "float32"
    TENSOR_FLOAT32 = "tensor_float32"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"
    UNKNOWN = "unknown"  # of figures that were measured elsewhere, where nobody says it; nothing is run so


#: Training samples that are made for Generated data, where nobody says how many.
GENERATED_SAMPLES = {
    Inputs.MNIST: 10_000,
    Inputs.CIFAR10: 10_000,
    Inputs.IMAGENET: 2_000,
    Inputs.FLOWERS: 500,
    Inputs.IMDB: 5_000,
    Inputs.TWEETS: 10_000,
    Inputs.NIETZSCHE: 40_000,
}

#: Samples of the real sets' training parts, as their publishers split them; tweets are those of Thinknook's corpus that
#: the published split leaves to training, Nietzsche's are windows of 40 characters, every third.
TRAINING_SAMPLES = {
    Inputs.MNIST: 60_000,
    Inputs.CIFAR10: 50_000,
    Inputs.IMAGENET: 1_281_167,
    Inputs.FLOWERS: 3_320,
    Inputs.IMDB: 25_000,
    Inputs.TWEETS: 1_420_765,
    Inputs.NIETZSCHE: 200_285,
}


class Workload(FrozenModel):
    """One model with its training recipe, as the publications of 2017-18 ran it."""

    name: str
    task: Task
    about: str  # a sentence or two: what it is, what it shows, where it departs from its paper
    inputs: Inputs
    input_shape: tuple[int, ...]  # of one sample, without the batch
    classes: int  # that a sample can belong to; characters that can come next
    vocabulary: int | None = None  # different word numbers, where a sample is made of such
    trainable_parameters: int  # at this vocabulary
    #: With the moving statistics of batch normalisation; without such as many as are trained.
    total_parameters: int = Field(default_factory=lambda fields: fields["trainable_parameters"])
    forward_gmac: float  # giga multiply-accumulates of one sample's forward pass; training takes about three times that
    default_batch: int  # per worker, of the original
    default_epochs: int = 1  # of the original; 1 where it counted steps
    optimizer: str
    origin: str

    @property
    def outputs(self) -> int:
        """Width of the last layer: two classes are told apart by one probability."""
        return 1 if self.classes == 2 else self.classes


# The published runs of tf_cnn_benchmarks had no momentum; their L2 term is part of the loss.
_L2 = "L2 term 4e-5 on everything but batch normalisation"
_SGD = f"SGD, learning rate 0.005, no momentum; {_L2}"
_SGD_OF_RESNETS = f"SGD, learning rate 0.004, no momentum; {_L2}"
_SGD_OF_ALEXNET = f"SGD, learning rate 0.0001 (the original's 0.005 ends in NaN), no momentum; {_L2}"

_ADAM = "Adam, learning rate 0.001, beta 0.9 and 0.999, epsilon 1e-8"

# imdb_fasttext: numbers below this are padding, marks and the 20,000 words; each different pair has one from here on.
_WORDS_BEFORE_PAIRS = 20_001
_PAIRS_ASSUMED = 1_200_000

#: The workload that has no model and only sends messages.
MESSAGES = "allreduce"

_mnist = partial(Workload, task="image classification", inputs=Inputs.MNIST, classes=10, default_batch=128)
_text = partial(Workload, task="text classification", classes=2, default_batch=32, optimizer=_ADAM)
_image_net = partial(
    Workload,
    task="image classification",
    inputs=Inputs.IMAGENET,
    input_shape=(224, 224, 3),
    classes=1001,
    default_batch=32,
    optimizer=_SGD,
)
_resnet = partial(_image_net, optimizer=_SGD_OF_RESNETS)

CATALOGUE: tuple[Workload, ...] = (
    _mnist(
        name="mnist_mlp",
        about="Two dense layers of 512 with dropout: so small that the cost of a step's launch shows.",
        input_shape=(784,),
        trainable_parameters=669_706,
        forward_gmac=0.000669,
        default_epochs=20,
        optimizer="RMSprop, learning rate 0.001, rho 0.9, epsilon 1e-8",
        origin="Keras example mnist_mlp, Keras 2.1.1 (November 2017)",
    ),
    _mnist(
        name="mnist_cnn",
        about="Two convolutions and two dense layers with dropout, on images of 28x28.",
        input_shape=(28, 28, 1),
        trainable_parameters=1_199_882,
        forward_gmac=0.011992,
        default_epochs=12,
        optimizer="Adadelta, learning rate 1.0, rho 0.95, epsilon 1e-8",
        origin="Keras example mnist_cnn, Keras 2.1.1 (November 2017)",
    ),
    Workload(
        name="cifar10_cnn",
        task="image classification",
        inputs=Inputs.CIFAR10,
        about="Four convolutions and two dense layers with dropout, on colour images of 32x32; those of a data set are "
        "mirrored and moved at random.",
        input_shape=(32, 32, 3),
        classes=10,
        trainable_parameters=1_250_858,
        forward_gmac=0.020741,
        default_batch=32,
        default_epochs=20,
        optimizer="RMSprop, learning rate 0.0001 / (1 + 0.000001 steps), rho 0.9, epsilon 1e-8",
        origin="Keras example cifar10_cnn, Keras 2.1.1 (November 2017)",
    ),
    _text(
        name="imdb_bidirectional_lstm",
        inputs=Inputs.IMDB,
        about="An embedding and an LSTM of 64 in both directions: 100 small steps one after the other. cuDNN's LSTM, "
        "which the published runs had on GPUs, counts a second bias: 2,659,457 parameters.",
        input_shape=(100,),
        vocabulary=20_000,
        trainable_parameters=2_658_945,
        forward_gmac=0.009831,
        default_epochs=4,
        origin="Keras example imdb_bidirectional_lstm, Keras 2.1.1 (November 2017)",
    ),
    _text(
        name="imdb_fasttext",
        inputs=Inputs.IMDB,
        about="The mean of the embeddings of words and pairs of words: next to no arithmetic for a large table. Real "
        "reviews bring their own number of pairs, which was not published; the figures here assume 1,200,000.",
        input_shape=(400,),
        vocabulary=_WORDS_BEFORE_PAIRS + _PAIRS_ASSUMED,
        trainable_parameters=61_000_101,
        forward_gmac=0.00000005,
        default_epochs=5,
        origin="Keras example imdb_fasttext with pairs of words, Keras 2.1.1 (November 2017)",
    ),
    Workload(
        name="lstm_text_generation",
        task="text generation",
        inputs=Inputs.NIETZSCHE,
        about="One LSTM of 128 over 40 characters. cuDNN's LSTM, which the published runs had on GPUs, counts a second "
        "bias: 103,097 parameters.",
        input_shape=(40, 57),
        classes=57,
        trainable_parameters=102_585,
        forward_gmac=0.003796,
        default_batch=128,
        default_epochs=10,
        optimizer="RMSprop, learning rate 0.01, rho 0.9, epsilon 1e-8",
        origin="Keras example lstm_text_generation, Keras 2.1.1 (November 2017)",
    ),
    _text(
        name="twitter_bilstm",
        inputs=Inputs.TWEETS,
        about="imdb_bidirectional_lstm with the words of 1.6 million tweets: 141 MB of gradients, nearly all of them "
        "the embedding's. cuDNN's LSTM, which the published runs had, counts a second bias: 35,243,393 parameters.",
        input_shape=(117,),
        vocabulary=274_562,
        trainable_parameters=35_242_881,
        forward_gmac=0.011502,
        default_epochs=4,
        origin="RaRe Technologies, benchmark of GPU platforms, Keras 2.1.3 (February 2018)",
    ),
    _image_net(
        name="trivial",
        about="Two dense layers and nothing else: the fixed cost of a step, and an all-reduce of 17 MB.",
        input_shape=(227, 227, 3),
        trainable_parameters=4_263_877,
        forward_gmac=0.004,
        origin="tf_cnn_benchmarks trivial, mid 2018",
    ),
    _image_net(
        name="alexnet",
        about="Little arithmetic for 62 million parameters: the network shows. Without dropout, as until 2018-08-09.",
        input_shape=(227, 227, 3),
        trainable_parameters=61_842_345,
        forward_gmac=0.839,
        default_batch=512,
        optimizer=_SGD_OF_ALEXNET,
        origin="tf_cnn_benchmarks alexnet (one tower), mid 2018",
    ),
    _image_net(
        name="googlenet",
        about="Nine modules of four columns, biases and no normalisation, no auxiliary heads.",
        trainable_parameters=6_999_577,
        forward_gmac=1.583,
        origin="tf_cnn_benchmarks googlenet (Inception v1), mid 2018",
    ),
    _image_net(
        name="vgg16",
        about="553 MB of gradients in each step, most of one dense layer. Without dropout, as until 2018-08-09.",
        trainable_parameters=138_361_641,
        forward_gmac=15.47,
        default_batch=64,
        origin="tf_cnn_benchmarks vgg16, mid 2018",
    ),
    _image_net(
        name="vgg19",
        about="vgg16 with three more convolutions. Without dropout, as the tool ran until 2018-08-09.",
        trainable_parameters=143_671_337,
        forward_gmac=19.632,
        default_batch=64,
        origin="tf_cnn_benchmarks vgg19, mid 2018",
    ),
    _image_net(
        name="inception3",
        about="94 convolutions in many small columns; batch normalisation without gamma, auxiliary head off.",
        input_shape=(299, 299, 3),
        trainable_parameters=23_819_401,
        total_parameters=23_853_833,
        forward_gmac=5.713,
        origin="tf_cnn_benchmarks inception3, mid 2018",
    ),
    _image_net(
        name="inception4",
        about="149 convolutions; batch normalisation without gamma. Without dropout, as until 2018-08-09.",
        input_shape=(299, 299, 3),
        trainable_parameters=42_649_769,
        total_parameters=42_712_937,
        forward_gmac=12.254,
        origin="tf_cnn_benchmarks inception4, mid 2018",
    ),
    Workload(
        name="inception4_finetune",
        task="image classification",
        inputs=Inputs.FLOWERS,
        about="inception4 as it was fine-tuned on flowers: an auxiliary head, dropout of a fifth, all variables "
        "trained. First weights are random, for want of the checkpoint: a step is as fast, accuracies do not compare.",
        input_shape=(299, 299, 3),
        classes=5,
        trainable_parameters=43_712_330,
        total_parameters=43_777_290,
        forward_gmac=12.258,
        default_batch=32,
        optimizer="RMSprop, learning rate 0.01 x 0.94 every 207 steps, decay 0.9, momentum 0.9, epsilon 1.0; "
        "L2 term 4e-5 on kernels; loss of the auxiliary head x 0.4",
        origin="TF-Slim inception_v4, fine-tuned by Initialized Capital (TensorFlow 1.0, April 2017)",
    ),
    _resnet(
        name="resnet50",
        about="53 convolutions without biases, batch normalisation after each.",
        trainable_parameters=25_559_081,
        total_parameters=25_612_201,
        forward_gmac=3.858,
        default_batch=64,
        origin="tf_cnn_benchmarks resnet50 (v1: stride in the first 1x1), mid 2018",
    ),
    _resnet(
        name="resnet50_v1.5",
        about="resnet50 with the stride moved into the 3x3: as many parameters, 6 % more arithmetic.",
        trainable_parameters=25_559_081,
        total_parameters=25_612_201,
        forward_gmac=4.089,
        default_batch=64,
        origin="tf_cnn_benchmarks resnet50_v1.5 (stride in the 3x3), July 2018",
    ),
    _resnet(
        name="resnet101",
        about="resnet50 with 23 blocks in place of 6 in the third stage.",
        trainable_parameters=44_551_209,
        total_parameters=44_656_553,
        forward_gmac=7.57,
        origin="tf_cnn_benchmarks resnet101 (v1), mid 2018",
    ),
    _resnet(
        name="resnet152",
        about="resnet50 with 8 and 36 blocks in place of 4 and 6 in the second and third stage.",
        trainable_parameters=60_194_857,
        total_parameters=60_346_281,
        forward_gmac=11.282,
        origin="tf_cnn_benchmarks resnet152 (v1), mid 2018",
    ),
    Workload(
        name=MESSAGES,
        task="communication",
        inputs=Inputs.NONE,
        about="No model: the collective that training waits for, on a message of as many elements as the batch says, "
        "4 bytes each or 2 with mixed_float16. Its bandwidth explains the scaling of the others.",
        input_shape=(),
        classes=0,
        trainable_parameters=0,
        forward_gmac=0.0,
        default_batch=16_777_216,
        optimizer="none",
        origin="as all_reduce_perf of nccl-tests measures it",
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
