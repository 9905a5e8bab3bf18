# SPDX-License-Identifier: Apache-2.0
"""What the results say: pure functions from plan, ledger and point states to efficiency, cost, warnings and advice."""
