# SPDX-License-Identifier: Apache-2.0
"""Points as charts take them: with their study, grouped by what may be drawn together, and named.

Must not happen: figures of different work in one chart.
"""

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import NamedTuple, TypeVar

from gpubench.api.point_result import PointResult, PointState
from gpubench.api.pool import GpuPool
from gpubench.api.sweep import DataSource
from gpubench.plan.plan import Plan
from gpubench.report import tables, text
from gpubench.report.tables import NOT_PUBLISHED
from gpubench.values import Interval

#: Series of one chart that can be told apart by colour, mark and line, also in grey.
SERIES_MAX = 8
HOLLOW = " Hollow: not run, or never settled."

#: By their values: a figure that was measured elsewhere, and imported, was measured.
_BASES = {"Measured": "", "Imported": "", "Repriced": "re-priced", "Extrapolated": "extrapolated"}

_Key = TypeVar("_Key")
_Item = TypeVar("_Item")


class Entry(NamedTuple):
    """A point with the study that it belongs to."""

    point: PointResult
    study: str = ""  # empty where a report has one study only
    plan: Plan | None = None


class Work(NamedTuple):
    """What two points must have in common to be drawn in one chart."""

    workload: str
    precision: str
    data: str
    epochs: int | None
    region: str

    def __str__(self) -> str:
        epochs = "" if self.epochs is None else f", {self.epochs} epoch{'' if self.epochs == 1 else 's'}"
        data = f" on {self.data} data" if self.data else ""
        return f"{self.workload} in {self.precision}{data}{epochs}"


def work(point: PointResult) -> Work:
    """The work of a point."""
    return Work(
        workload=point.workload,
        precision=point.precision,
        data="" if point.data is DataSource.SYNTHETIC else tables.data(point),
        epochs=text.epochs(point),
        region="" if point.training is None else text.timed_region(point.training.timed_region),
    )


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Items by their keys, keys and items in their order."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


class Together(NamedTuple):
    """Points that one chart may show."""

    title: str  # the work, and the study where a report has several and only one has it
    entries: tuple[Entry, ...]  # without their study where it is the same for all


def together(entries: Iterable[Entry], *, but_for: Callable[[Entry], str] = lambda _: "") -> list[Together]:
    """Points by their work, and by what else keeps them apart."""
    found = []
    for (one, _), members in grouped(entries, lambda entry: (work(entry.point), but_for(entry))).items():
        studies = {entry.study for entry in members}
        if len(studies) > 1:
            found.append(Together(str(one), tuple(members)))
            continue
        of_study = f" ({members[0].study})" if members[0].study else ""
        found.append(Together(f"{one}{of_study}", tuple(entry._replace(study="") for entry in members)))
    return found


def planned_pool(plan: Plan | None, name: str) -> GpuPool | None:
    """A pool as it was when the study started; None where nobody knows."""
    return None if plan is None else next((pool for pool in plan.pools if pool.name == name), None)


def nodes_paid(point: PointResult, pool: GpuPool) -> Decimal:
    """Nodes that an attempt pays for: exclusive ones as a whole."""
    if pool.spec.exclusive_nodes:
        return Decimal(point.workers) / point.workers_per_node
    return Decimal(point.workers) / pool.spec.slots_per_node


def pool_name(entry: Entry) -> str:
    """The pool, with its study where there are several."""
    return f"{entry.point.pool} ({entry.study})" if entry.study else entry.point.pool


def shape_name(entry: Entry) -> str:
    """Workers, batch and variant, and whether it was not run or never settled."""
    return f"{tables.shape(entry.point)}{mark(entry.point)}"


def name(entry: Entry) -> str:
    """The point in a chart of its work."""
    return f"{pool_name(entry)}, {shape_name(entry)}"


def mark(point: PointResult) -> str:
    """What tells a figure from one that was measured and settled; empty for such a one."""
    basis = _BASES[point.basis.value]
    state = point.state.value if point.state is PointState.UNSTABLE else ""
    marks = ", ".join(part for part in (basis, state) if part)
    return f" ({marks})" if marks else ""


def is_hollow(point: PointResult) -> bool:
    """Whether a figure was not measured, or never settled."""
    return bool(mark(point))


def is_withheld(entry: Entry) -> bool:
    """Whether whoever measured it has not said how fast it was."""
    return entry.point.state is PointState.NOT_PUBLISHED


def nothing(entries: Sequence[Entry]) -> str:
    """Why there are no figures at all."""
    if not entries:
        return "there are no points"
    if any(is_withheld(entry) for entry in entries):
        return NOT_PUBLISHED
    waiting = any(entry.point.state in (PointState.PENDING, PointState.RUNNING) for entry in entries)
    return "nothing has been measured so far" if waiting else "nothing was measured"


def scaled(found: Interval, factor: float) -> Interval:
    """The same in another unit."""
    return Interval(
        mean=found.mean * factor,
        low=None if found.low is None else found.low * factor,
        high=None if found.high is None else found.high * factor,
    )
