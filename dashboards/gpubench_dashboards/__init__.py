# SPDX-License-Identifier: Apache-2.0
"""Rules, alerts and dashboards, made from the catalogue of metrics. Nothing here opens a file."""
