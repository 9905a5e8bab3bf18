# SPDX-License-Identifier: Apache-2.0
"""What connects the ranks of a gang. Nothing outside of this package imports Horovod or has a collective of its own."""
