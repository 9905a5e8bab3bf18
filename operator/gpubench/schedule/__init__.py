# SPDX-License-Identifier: Apache-2.0
"""Benchmarks on a schedule: when one is due, what is kept of it, whether it became slower, what it costs a month.

The words and the rules are CronJob's. Nothing here reads a clock: `now` is always given.
"""
