# SPDX-License-Identifier: Apache-2.0
"""The words that PromQL of rules and panels is written with: labels by groups, and the shape of a query of one figure.

Several operators may run, and the one that leads may change: the same figure then comes from two targets for a while.
So every query of the operator's series is an aggregation over the labels that a figure is told apart by, which leaves
out those of the target.
"""

from gpubench import metrics
from gpubench.metrics import Metric

STUDY = ("namespace", "benchmark")
POINT = metrics.POINT_LABELS
#: Whose ranks train together.
GANG = ("namespace", "benchmark", "pool", "trial", "attempt")
RANK = (*GANG, "rank")
#: A line of scaling, on which points differ in workers and one of both batches.
LINE = ("namespace", "benchmark", "workload", "precision", "data", "data_path", "data_samples", "variant", "epochs")
#: What a legend calls a point by; the rest is in the table beside it.
SHOWN = ("workload", "pool", "workers", "batch_per_worker", "precision", "variant")
#: Node time that was held and came to nothing.
WASTED = 'use=~"lost|failed|repeated"'
HELD = 'use!="queued"'


class Lines(str):
    """An expression that was broken into lines, and stays so in YAML."""

    __slots__ = ()


def labels(*names: str) -> str:
    """As PromQL lists them."""
    return ", ".join(names)


def one(metric: Metric, *by: str, where: str = "") -> str:
    """A gauge of the operator's, once, whoever exports it."""
    selector = f"{metric.name}{{{where}}}" if where else metric.name
    return f"max by ({labels(*by)}) ({selector})"


def is_(label: str, value: str) -> str:
    """A matcher."""
    return f'{label}="{value}"'
