# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of a training step, by name."""

from enum import StrEnum


class Precision(StrEnum):
    """float32 means float32: TensorFloat-32 is used only where it is asked for."""

    FLOAT32 = "float32"
    TENSOR_FLOAT32 = "tensor_float32"
    MIXED_FLOAT16 = "mixed_float16"
    MIXED_BFLOAT16 = "mixed_bfloat16"
