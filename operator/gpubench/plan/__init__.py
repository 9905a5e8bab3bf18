# SPDX-License-Identifier: Apache-2.0
"""From a benchmark to its trials: expansion, order, freezing. Knows the API types, and nothing of Jobs or results."""
