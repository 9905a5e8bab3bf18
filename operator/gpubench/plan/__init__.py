# SPDX-License-Identifier: Apache-2.0
"""From a study to its trials: expansion, order, freezing. Knows the API types, knows nothing of Jobs or results."""
