# SPDX-License-Identifier: Apache-2.0
"""Pairs of points with what is said of each, as a table: figures, ratio of speeds, verdict.

Must not happen: a verdict about a figure that is not ranked either (a run that never settled), or a difference of
environments that is passed over in silence.
"""

from collections.abc import Collection, Sequence
from typing import Protocol

from gpubench import records, workloads
from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.api.point_result import PointResult, PointState
from gpubench.report import pairs, text
from gpubench.report.pairs import Pair, Side
from gpubench.report.tables import Column, Table
from gpubench.stats import compare
from gpubench.stats.compare import Difference, Quantity, Verdict
from gpubench.values import Value

RATIO_NOTE = (
    "SPEED B/A is the ratio of throughputs, or of training the seconds of A over those of B, with its 95 % interval "
    "over the repeats: how repeatable the difference is on these nodes."
)
SEVERAL_NOTE = (
    "Each interval holds for its own line with 95 %: of twenty lines without any difference, about one shows one."
)
_SHOWN_FIELDS = ("workload", "workers", "batch", "precision", "variant")
_TITLES = {"workload": "WORKLOAD", "workers": "WORKERS", "batch": "BATCH", "precision": "PRECISION"}


class Compared(Value):
    """A pair and what is said of it."""

    a: PointResult
    b: PointResult
    quantity: Quantity
    difference: Difference


def compared(a: Side, b: Side, pair: Pair, *, tolerance: float = compare.TOLERANCE) -> Compared:
    """What the repeats of a pair of these studies say."""
    quantities = {pairs.quantity(pair.a), pairs.quantity(pair.b)}
    quantity = Quantity.SECONDS if quantities == {Quantity.SECONDS} else Quantity.THROUGHPUT
    found = compare.difference(
        pairs.sample(pair.b, quantity, confidence=b.confidence),
        pairs.sample(pair.a, quantity, confidence=a.confidence),
        quantity=quantity,
        tolerance=tolerance,
    )
    unsettled = [name for name, point in (("A", pair.a), ("B", pair.b)) if point.state is PointState.UNSTABLE]
    if unsettled:
        never = f"{' and '.join(unsettled)} never settled, and such figures are not ranked"
        found = Difference(verdict=Verdict.CANNOT_TELL, ratio=found.ratio, sentence=f"cannot tell: {never}")
    return Compared(a=pair.a, b=pair.b, quantity=quantity, difference=found)


class Standing(Protocol):
    """A figure, as far as it says what it stands on: a result, or a point of a baseline."""

    @property
    def environment(self) -> str | None:
        """The key of its environment, as results show it."""

    @property
    def instance_type(self) -> str | None:
        """Of its nodes; None where it is not known."""


def differing(
    a: Standing, b: Standing, facts_a: Sequence[EnvironmentFacts], facts_b: Sequence[EnvironmentFacts]
) -> str | None:
    """In what the environments of two figures differ, as the end of a sentence; None where they do not.

    Facts are those of either study. Instance type and image digest are no part of an environment's key: two figures
    with the same key may still differ in them, where both studies know theirs. A figure says its own instance type;
    where it does not, and of digests, those of its study that go with its key are taken together, and differ where they
    have none in common.
    """
    these, those = _facts_of(a, facts_a), _facts_of(b, facts_b)
    unlike = []
    for field in EnvironmentFacts.model_fields:
        here, there = _values(these, field), _values(those, field)
        other = here != there if a.environment != b.environment else here and there and not {*here} & {*there}
        if field != "environment" and other:
            unlike.append(f"{records.environment_field_name(field)} {_listed(here)} against {_listed(there)}")
    if a.environment == b.environment:
        return f"the environments differ: {', '.join(unlike)}" if unlike else None
    where = f"the environments differ ({a.environment or 'unknown'} and {b.environment or 'unknown'})"
    return f"{where}: {', '.join(unlike)}" if unlike else f"{where}, and what they are was not recorded"


def _facts_of(one: Standing, facts: Sequence[EnvironmentFacts]) -> tuple[EnvironmentFacts, ...]:
    """What a figure may stand on: of several facts with its key those with its instance type, where it says one."""
    same = tuple(found for found in facts if found.environment == one.environment)
    if one.environment is None or one.instance_type is None:
        return same
    if own := tuple(found for found in same if _is_called(one.instance_type, found.instance_type or "")):
        return own
    # A study shows a few of its environments only: what it says of the key holds, and the digest was another type's.
    known = same or (EnvironmentFacts(environment=one.environment),)
    return tuple(found.model_copy(update={"instance_type": one.instance_type, "image_digest": None}) for found in known)


def _is_called(shown: str, full: str) -> bool:
    """Whether a result shows an instance type like that: a long name is cut."""
    begin = shown.removesuffix("…")
    return full == shown or (begin != shown and full.startswith(begin))


def _values(facts: Sequence[EnvironmentFacts], field: str) -> tuple[str, ...]:
    return tuple(sorted({str(value) for one in facts if (value := getattr(one, field)) is not None}))


def _listed(values: tuple[str, ...]) -> str:
    return " and ".join(values) or "none"


def table(found: Sequence[Compared], *, by: Collection[str], notes: Sequence[str] = ()) -> Table:
    """One line for each pair."""
    shared = [field for field in _SHOWN_FIELDS if field not in by and _tells(found, field)]
    own = [field for field in pairs.FIELDS if field in by or field == "pool"]
    columns = (
        *(Column(title=_TITLES.get(field, field.upper()), numeric=field in ("workers", "batch")) for field in shared),
        Column(title="A"),
        Column(title="B"),
        Column(title="FIGURE OF A", numeric=True),
        Column(title="FIGURE OF B", numeric=True),
        Column(title="SPEED B/A", numeric=True),
        Column(title="VERDICT"),
    )
    rows = tuple(
        (
            *(_cell(one.a, field) for field in shared),
            pairs.text_of(one.a, own),
            pairs.text_of(one.b, own),
            _figure(one.a, one.quantity),
            _figure(one.b, one.quantity),
            text.bounded(one.difference.ratio),
            one.difference.sentence,
        )
        for one in found
    )
    several = [SEVERAL_NOTE] if len(found) > 1 else []
    return Table(columns=columns, rows=rows, notes=(RATIO_NOTE, *several, *notes))


def _tells(found: Sequence[Compared], field: str) -> bool:
    return field != "variant" or any(one.a.variant for one in found)


def _cell(point: PointResult, field: str) -> str:
    cells = {
        "workload": point.workload,
        "workers": str(point.workers),
        "batch": str(point.batch_per_worker),
        "precision": point.precision,
        "variant": point.variant or text.UNDEFINED,
    }
    return cells[field]


def _figure(point: PointResult, quantity: Quantity) -> str:
    seconds = point.training.seconds if point.training is not None else None
    if quantity is Quantity.SECONDS and seconds is not None:
        return text.duration(seconds)
    unit = "elements/s" if point.workload == workloads.MESSAGES else "samples/s"
    return f"{text.throughput(point.throughput)} {unit}"
