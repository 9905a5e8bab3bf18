# SPDX-License-Identifier: Apache-2.0
"""Where the nodes' time went and how often they were taken away, pool by pool, for people."""

from collections.abc import Sequence

from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.goodput_result import PoolGoodput
from gpubench.report import text
from gpubench.report.tables import Column, Table
from gpubench.units import duration_text

#: Fields of node_seconds that are held, and what a table calls them.
USES = {
    "useful": "MEASURED",
    "waiting": "WAITING",
    "start_up": "START-UP",
    "other": "OTHER",
    "lost": "LOST",
    "repeated": "REPEATED",
    "failed": "FAILED",
    "unknown": "UNKNOWN",
}
NOTE = "NODE-HOURS are those for which attempts that have ended held a node; what they went into is percent of them."
MEANINGS = {
    "useful": "MEASURED: work that came to a result; its share is the goodput.",
    "waiting": "WAITING: for the image, and for the other pods of the gang.",
    "other": "OTHER: warm-up, checks, gaps and the end of attempts with a result.",
    "lost": "LOST: of interrupted attempts, less the work that later ones went on from.",
    "repeated": "REPEATED: starting up once more to go on from a checkpoint.",
    "failed": "FAILED: of attempts that failed or were stopped.",
    "unknown": "UNKNOWN: time that nobody could tell apart.",
}
RATE_NOTE = (
    "The interval of interruptions per node-hour is Garwood's, exact for a Poisson count; it takes one interruption "
    "for independent of the others, and a provider may take many nodes back at once."
)
INCOMPLETE_NOTE = "≤: nodes of some attempts were held for longer than is known, and the rate is at most this one."


def sentences(status: GpuBenchmarkStatus) -> tuple[str, ...]:
    """A sentence for each pool that was interrupted; none where nothing was."""
    pools = () if status.goodput is None else status.goodput.pools
    return tuple(f"{pool.sentence}." for pool in pools if pool.interruptions.total)


def table(pools: Sequence[PoolGoodput]) -> Table:
    """One line for each pool."""
    told = [name for name in USES if any(getattr(pool.node_seconds, name) is not None for pool in pools)]
    rates = any(pool.per_node_hour is not None for pool in pools)
    notes = [NOTE, *(MEANINGS[name] for name in told if name in MEANINGS)]
    if rates:
        notes.append(RATE_NOTE)
    if any(pool.incomplete for pool in pools):
        notes.append(INCOMPLETE_NOTE)
    numeric = (
        "ATTEMPTS", "RECLAIMED", "EVICTED", "NODES LOST", "PER NODE-HOUR", "BACK AFTER", "NODE-HOURS",
        *(f"{USES[name]} %" for name in told), "EFFECTIVE PRICE/H",
    )  # fmt: skip
    titles = (Column(title=name, numeric=True) for name in numeric)
    return Table(
        columns=(Column(title="POOL"), Column(title="CAPACITY"), *titles),
        rows=tuple(_row(pool, told) for pool in pools),
        notes=tuple(notes),
    )


def _row(pool: PoolGoodput, told: Sequence[str]) -> tuple[str, ...]:
    counts = pool.interruptions
    return (
        pool.pool,
        pool.capacity_type.value,
        str(pool.attempts),
        str(counts.reclaimed),
        str(counts.evicted),
        str(counts.nodes_lost),
        _rate(pool),
        text.UNDEFINED if pool.recovery is None else duration_text(pool.recovery.median),
        f"{pool.node_hours:.3g}",
        *(_percent(getattr(pool.node_seconds, name), of=pool.node_hours * 3600) for name in told),
        text.UNDEFINED if pool.effective_price is None else f"{pool.currency} {float(pool.effective_price):.4g}",
    )


def _rate(pool: PoolGoodput) -> str:
    rate = pool.per_node_hour
    if rate is None or rate.low is None or rate.high is None:
        return text.UNDEFINED
    at_most = "≤ " if pool.incomplete else ""
    if not pool.interruptions.total:
        return f"0 (< {rate.high:.2g})"
    return f"{at_most}{rate.mean:.2g} ({rate.low:.2g}–{rate.high:.2g})"


def _percent(seconds: float | None, *, of: float) -> str:
    return text.UNDEFINED if seconds is None or not of else f"{100 * seconds / of:.1f}"
