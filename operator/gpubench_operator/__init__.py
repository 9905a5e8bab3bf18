# SPDX-License-Identifier: Apache-2.0
"""The cluster's edge: watches, one queue, Kubernetes calls, metrics. It observes and acts; the core decides.

Nothing here knows what a measurement means, and nothing here reads a plan's content but to hand it to the core.
"""
