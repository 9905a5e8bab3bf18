# SPDX-License-Identifier: Apache-2.0
"""What should run now: pure functions from plan, ledger and what is observed to actions. No client, no clock."""
