# SPDX-License-Identifier: Apache-2.0
"""The core of gpubench: values, and functions of values.

Planning trials, deciding what to do next, measuring and pricing live here. Nothing in this package opens a socket or a
file, reads a clock or the environment, or starts a thread: the edges (`gpubench_operator`, `gpubench_cli`,
`gpubench_jobs`) do that and pass values in. The linter holds the direction: this package imports none of them.
"""
