# SPDX-License-Identifier: Apache-2.0
"""The first process of a gang's pod. It never imports TensorFlow: its seconds and memory belong to the workers."""
