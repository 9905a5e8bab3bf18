# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of a run, as TensorFlow and Keras are told. Process-wide, so set once, before a model is built."""

import keras
import tensorflow as tf

from gpubench.workloads import Precision

#: tf_cnn_benchmarks multiplied the loss by this for float16, fixed, for all its convolutional models.
_FLOAT16_LOSS_SCALE = 128.0

_POLICIES = {
    Precision.FLOAT32: "float32",
    Precision.TENSOR_FLOAT32: "float32",
    Precision.MIXED_FLOAT16: "mixed_float16",
    Precision.MIXED_BFLOAT16: "mixed_bfloat16",
}


def use(precision: Precision) -> None:
    """From here on. TensorFloat-32 is TensorFlow's default on recent GPUs: it is switched off unless asked for."""
    tf.config.experimental.enable_tensor_float_32_execution(precision is Precision.TENSOR_FLOAT32)
    keras.config.set_dtype_policy(_POLICIES[precision])


def loss_scale(precision: Precision) -> float:
    """What the loss is multiplied by, and the gradients divided by, so that small ones survive in float16."""
    return _FLOAT16_LOSS_SCALE if precision is Precision.MIXED_FLOAT16 else 1.0
