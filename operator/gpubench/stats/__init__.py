# SPDX-License-Identifier: Apache-2.0
"""From windows of nanoseconds to figures with an interval. Knows nothing of Kubernetes and nothing of money."""
