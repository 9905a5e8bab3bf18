# SPDX-License-Identifier: Apache-2.0
"""One rank of a gang: what it trains, measures, keeps and reports."""
