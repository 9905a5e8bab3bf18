# SPDX-License-Identifier: Apache-2.0
"""Nodes that are slower than the others of their pool, by the newest run that measured each of them by itself.

A node is slow when its speed is an outlier among those of the others (modified z-score beyond 3.5, Iglewicz and Hoaglin
1993, `measure.outliers`) and a tenth below their median: the bounds by which a node is called weak (`control.health`).
Only nodes in one environment, with one instance type and image, are held against each other.
"""

import statistics
from collections.abc import Sequence

from gpubench.analysis import health
from gpubench.api.schedule import REGRESSION_SENTENCE_MAX, SLOW_NODES_MAX, SlowNode
from gpubench.schedule.history import Entry, Figure
from gpubench.scheduler import conditions
from gpubench.stats import compare, outliers


def slow_nodes(entries: Sequence[Entry]) -> tuple[SlowNode, ...]:
    """The slow nodes of the newest run with figures of single nodes, the slowest first; each once."""
    newest = next((entry for entry in reversed(entries) if any(one.node for one in entry.figures)), None)
    groups: dict[tuple[str | None, tuple[str, str, str]], list[Figure]] = {}
    for figure in () if newest is None else newest.figures:
        if figure.node is not None and figure.settled:
            groups.setdefault((figure.group, figure.ground), []).append(figure)
    found = sorted((one for group in groups.values() for one in _slow(group)), key=lambda one: one.speed)
    by_node: dict[str, SlowNode] = {}
    for one in found:
        by_node.setdefault(one.node, one)
    return tuple(by_node.values())[:SLOW_NODES_MAX]


def _slow(group: Sequence[Figure]) -> list[SlowNode]:
    if len(group) <= health.HISTORY_MIN:  # so many others: fewer have no usual speed
        return []
    speeds = [figure.speed for figure in group]
    median = statistics.median(speeds)
    return [
        SlowNode(
            node=figure.node or "",
            pool=figure.pool or "",
            speed=figure.speed / median,
            nodes=len(group),
            sentence=_sentence(figure, figure.speed / median, nodes=len(group)),
        )
        for figure, score in zip(group, outliers.scores(speeds), strict=True)
        if score < -health.SCORE_MAX and figure.speed <= (1 - health.BELOW_MEDIAN_MIN) * median
    ]


def _sentence(figure: Figure, ratio: float, *, nodes: int) -> str:
    slower = compare.percent(1 - ratio)
    sentence = (
        f"{figure.text}: {slower} slower than the median of the {nodes} nodes: look at its clocks, its temperature and "
        "what else runs there, or take it out of the pool"
    )
    return conditions.clamped(sentence, REGRESSION_SENTENCE_MAX)
