# SPDX-License-Identifier: Apache-2.0
"""Nodes that are far below their own pool: from the short tests before each trial to a warning at the figure.

A figure of a throttled card is a true figure of that card and no figure of the pool. A test is held against the pool's
history, as it was when the attempt ended (`scheduler.node_tests`), else against the benchmark's own tests. Must not
happen: a healthy node named because tests scatter; a warning that changes with the moment at which a status is made.
"""

from collections.abc import Iterable, Mapping, Sequence

from gpubench.analysis import warnings
from gpubench.api.point_warning import WarningReason
from gpubench.api.pool_health import Test
from gpubench.plan.plan import Plan
from gpubench.scheduler import ledger, node_tests
from gpubench.units import counted, workers_text

SCORE_MAX = 3.5  # Iglewicz and Hoaglin (1993), How to Detect and Handle Outliers, page 12
BELOW_MEDIAN_MIN = 0.1  # differences that no buyer would act on are not worth a sentence
_NORMAL = 0.6745  # median of |z| of a normal distribution, so that the score counts standard deviations

_UNITS: Mapping[Test, tuple[str, float, str]] = {
    "arithmetic": ("float32 arithmetic", 1e12, "Tflop/s"),
    "memory": ("memory bandwidth", 1e9, "GB/s"),
    "allreduce": ("all-reduce", 1e9, "GB/s"),
}


def is_weak(figure: float, pool: node_tests.Spread | ledger.Usual) -> bool:
    """Whether a reading is far below its pool: an outlier, and a tenth below the others.

    An outlier is one by the modified z-score of Iglewicz and Hoaglin (1993): M = 0.6745 (x - median) / MAD. Where more
    than half of the readings are equal (MAD 0), the share below the median decides alone.
    """
    if figure > (1 - BELOW_MEDIAN_MIN) * pool.median:
        return False
    return _NORMAL * (pool.median - figure) > SCORE_MAX * pool.deviation


def weak_trials(plan: Plan, records: Iterable[ledger.AttemptRecord]) -> dict[str, warnings.Weak]:
    """What is to be said of each trial whose test was far below what its pool is like.

    Where the benchmark's own tests decide, later ones count as well: a weak node is named at the first trial that met
    it, once the pool is known.
    """
    records = tuple(records)
    own = node_tests.readings(plan, records)
    kinds: dict[tuple[str, node_tests.Kind], list[tuple[Sequence[str], float]]] = {}
    for reading in own:
        kinds.setdefault((reading.pool, reading.kind), []).append((reading.nodes, reading.figure))
    least = node_tests.HISTORY_MIN + 1  # with that of the node in question
    spreads = {kind: node_tests.spread(figures, least=least) for kind, figures in kinds.items()}
    usual = {(record.trial, frozen.test): frozen for record in records for frozen in record.usual}
    found: dict[str, warnings.Weak] = {}
    for reading in own:
        pool = usual.get((reading.trial, reading.kind.test)) or spreads[reading.pool, reading.kind]
        if pool is not None and is_weak(reading.figure, pool):
            found.setdefault(reading.trial, _weak(reading, pool))
    return found


def _weak(reading: node_tests.Reading, pool: node_tests.Spread | ledger.Usual) -> warnings.Weak:
    figures = {reading.kind.test: reading.figure, "usual": pool.median, "tests": float(pool.tests)}
    if pool.nodes is not None:
        figures["nodes"] = pool.nodes
    what, per, unit = _UNITS[reading.kind.test]
    gang = f" of {workers_text(reading.kind.workers)}" if reading.kind.workers is not None else ""
    on = "" if pool.nodes is None else f" on {counted(pool.nodes, 'node')}"
    places = ("a node that is not known", "node {}", "one of the nodes {} and {}")
    several = f"one of {len(reading.nodes)} nodes"  # a long list would push the figure out of the warning
    where = dict(enumerate(places)).get(len(reading.nodes), several).format(*reading.nodes)
    warning = warnings.warning(
        WarningReason.WEAK_NODE,
        f"{where} is weak: {what}{gang} {reading.figure / per:.3g} {unit}, "
        f"{1 - reading.figure / pool.median:.0%} below the {pool.median / per:.3g} usual on its pool "
        f"({pool.tests} tests{on}): cordon it, or look for heat",
        trial=reading.trial,
        node=reading.nodes[0] if len(reading.nodes) == 1 else None,
        figures=figures,
    )
    return warnings.Weak(nodes=reading.nodes, share=reading.figure / pool.median, warning=warning)
