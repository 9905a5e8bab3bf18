# SPDX-License-Identifier: Apache-2.0
"""What to do next: pure functions from what was planned, recorded and observed to one Decision. No client, no clock."""
