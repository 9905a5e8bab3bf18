# SPDX-License-Identifier: Apache-2.0
"""What a user writes and reads: the types of the objects, once, and the CRDs that are generated from them."""
