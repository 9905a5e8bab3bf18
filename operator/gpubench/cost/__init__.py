# SPDX-License-Identifier: Apache-2.0
"""Prices and costs, in `decimal.Decimal`, rounded half up, with the currency always beside the amount."""
