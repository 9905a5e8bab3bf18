# SPDX-License-Identifier: Apache-2.0
"""Which measured points are the same work, so that their figures may be held against each other.

Two points make a pair when they are equal in everything but the pool. Results have only names of variants and
workloads of a user's own, so a benchmark brings what these stand for. Must not happen: a pair of points that do
different work, or of a figure that was not measured.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from gpubench import records
from gpubench.analysis import text
from gpubench.api import benchmark, benchmark_status, measuring, status_sizes, sweep
from gpubench.api.point_result import SOURCES, EnvironmentFacts, PointResult, PointState
from gpubench.plan.plan import BaselinePoint, Plan, Point
from gpubench.scheduler import conditions, stopping
from gpubench.stats import compare, intervals
from gpubench.stats.compare import Difference, Quantity, Verdict
from gpubench.values import FrozenModel, content_id


class Side(FrozenModel):
    """One benchmark's points, and what a result alone does not say of them."""

    name: str
    results: tuple[PointResult, ...]
    mode: measuring.Mode = measuring.Mode.THROUGHPUT
    timed_region: measuring.TimedRegion = measuring.TimedRegion()
    variants: tuple[sweep.Variant, ...] = ()
    customs: tuple[sweep.Custom, ...] = ()
    environments: tuple[EnvironmentFacts, ...] = ()
    confidence: float = intervals.CONFIDENCE  # at which its intervals are computed, to be as sure as they say


class Pair(NamedTuple):
    """Two points that may be compared."""

    a: PointResult
    b: PointResult


class _Entry(NamedTuple):
    point: PointResult
    key: Mapping[str, str]


_PER_NODE = "workers per node"
#: What may differ in a pair; how many workers a node holds is the pool's affair.
_FREE = ("pool", "node", _PER_NODE)
_VARIANT = "the definition of the variant"
_WORKLOAD = "the definition of the workload"


def of_spec(name: str, spec: benchmark.GpuBenchmarkSpec, status: benchmark_status.Analysis) -> Side:
    return Side(
        name=name,
        results=status.results,
        mode=spec.measure.mode,
        timed_region=spec.measure.timed_region,
        confidence=stopping.confidence(spec.measure.repeats),
        environments=status.environments,
        variants=tuple(dict.fromkeys(variant for block in spec.sweep for variant in block.variants or ())),
        customs=tuple(dict.fromkeys(block.custom for block in spec.sweep if block.custom is not None)),
    )


def of_plan(
    name: str, plan: Plan, results: Sequence[PointResult], environments: Sequence[EnvironmentFacts] = ()
) -> Side:
    return Side(
        name=name,
        results=tuple(results),
        mode=plan.mode,
        timed_region=plan.timed_region,
        confidence=stopping.confidence_of_plan(plan),
        environments=tuple(environments),
        variants=tuple(dict.fromkeys(point.key.variant for point in plan.points if point.key.variant is not None)),
        customs=tuple(dict.fromkeys(point.key.custom for point in plan.points if point.key.custom is not None)),
    )


#: What a result has of its point's key as it is.
_OF_KEY = ("workload", "pool", "workers", "workers_per_node", "batch_per_worker", "global_batch", "epochs")


def blank(plan: Plan, point: Point) -> PointResult:
    """A point without any figure."""
    key = point.key
    pool = next((pool.spec for pool in plan.pools if pool.name == key.pool), None)
    path = key.data.path
    if path is not None and len(path.encode()) > status_sizes.DATA_PATH_MAX:  # two long ones that differ stay different
        start = f"{content_id(path, characters=8)}…"
        kept = status_sizes.DATA_PATH_MAX - len(start.encode())
        path = start + path.encode()[-kept:].decode(errors="ignore")
    return PointResult(
        node=None if key.node is None else conditions.clamped(key.node, status_sizes.NODE_MAX),
        accelerator=pool.accelerator if pool else None,
        capacity_type=pool.capacity_type if pool else None,
        slots_paid=plan.slots_paid(point) if pool and point.skip is None else None,
        precision=key.precision.value,
        data=key.data.source,
        data_path=path,
        data_samples=key.data.samples,
        variant=key.variant.name if key.variant else None,
        basis=point.basis,
        state=PointState.PENDING,
        **{name: getattr(key, name) for name in _OF_KEY},
    )


def quantity(point: PointResult) -> Quantity | None:
    """What of a point is compared: seconds of a run where it trained, else its throughput; None where neither is."""
    if point.basis not in SOURCES:
        return None
    if point.training is not None and point.training.seconds is not None and _repeats(point):
        return Quantity.SECONDS
    return Quantity.THROUGHPUT if point.values else None


def sample(point: PointResult, of: Quantity, *, confidence: float) -> intervals.Sample:
    """The repeats of a measured point; `confidence` is that of its benchmark."""
    seconds = point.training.seconds if point.training is not None else None
    if of is Quantity.SECONDS and seconds is not None:
        return intervals.of_interval(seconds, _repeats(point), confidence=confidence)
    return intervals.of_values(point.values, confidence=confidence)


def _repeats(point: PointResult) -> int:
    """How many runs the figures of a point are of; an imported training has no throughputs to count."""
    return point.repeats or len(point.values)


def across(a: Side, b: Side) -> tuple[Pair, ...]:
    """Pairs in the first one's order: a point with itself where both have it, else with its equals on other pools."""
    these, those = _measured(a), _measured(b)
    left = [other for other in those if all(one.key != other.key for one in these)]
    found = [(one, [other for other in those if one.key == other.key] or _equal(one, left)) for one in these]
    return tuple(Pair(one.point, other.point) for one, others in found for other in others)


def identity(side: Side, point: PointResult) -> tuple[str, ...]:
    """What makes a point, pool and all: equal for the same point of two benchmarks."""
    return tuple(_key(side, point).values())


def nearest(a: Side, b: Side) -> str | None:
    """In what the most alike points differ besides the pool, in words; None where one benchmark has no figures."""
    if not (found := [_differences(one.key, other.key) for one in _measured(a) for other in _measured(b)]):
        return None
    return " and ".join(
        field if field in (_VARIANT, _WORKLOAD) else f"{field} ({this or 'none'} against {that or 'none'})"
        for field, (this, that) in min(found, key=len).items()
    )


def _key(side: Side, point: PointResult) -> dict[str, str]:
    """What makes a point, as texts. The global batch follows from workers and batch."""
    variant = next((one for one in side.variants if one.name == point.variant), None)
    custom = next((one for one in side.customs if one.name == point.workload), None)
    trains = side.mode is measuring.Mode.TRAINING
    return {
        "workload": point.workload,
        "pool": point.pool,
        "node": point.node or "",
        "workers": str(point.workers),
        _PER_NODE: str(point.workers_per_node),
        "batch": str(point.batch_per_worker),
        "precision": point.precision,
        "data": text.data(point),
        "variant": point.variant or "none",
        _VARIANT: variant.to_json() if variant is not None else "",
        _WORKLOAD: custom.to_json() if custom is not None else "",
        "measure.mode": side.mode.value,
        "epochs": str(text.epochs(point)) if trains else "",
        "timed region": text.timed_region(side.timed_region) if trains else "",
    }


def _differences(this: Mapping[str, str], that: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    return {field: (text, that[field]) for field, text in this.items() if field not in _FREE and text != that[field]}


def _equal(one: _Entry, others: Sequence[_Entry]) -> list[_Entry]:
    """Of one pool those alone that spread as many workers over nodes, if there are any."""
    found = [other for other in others if not _differences(one.key, other.key)]
    shaped = {other.point.pool for other in found if other.key[_PER_NODE] == one.key[_PER_NODE]}
    return [other for other in found if other.point.pool not in shaped or other.key[_PER_NODE] == one.key[_PER_NODE]]


def _measured(side: Side) -> list[_Entry]:
    return [_Entry(point, _key(side, point)) for point in side.results if quantity(point) is not None]


# --- what is said of a pair -------------------------------------------------------------------------------------------


class Compared(FrozenModel):
    """A pair and what is said of it."""

    a: PointResult
    b: PointResult
    quantity: Quantity
    difference: Difference


def compared(a: Side, b: Side, pair: Pair, *, tolerance: float = compare.TOLERANCE) -> Compared:
    of = Quantity.SECONDS if {quantity(pair.a), quantity(pair.b)} == {Quantity.SECONDS} else Quantity.THROUGHPUT
    here, there = sample(pair.b, of, confidence=b.confidence), sample(pair.a, of, confidence=a.confidence)
    found = compare.difference(here, there, quantity=of, tolerance=tolerance)
    unsettled = [name for name, point in (("A", pair.a), ("B", pair.b)) if point.state is PointState.UNSTABLE]
    if unsettled:
        never = f"{' and '.join(unsettled)} never settled, and such figures are not ranked"
        found = Difference(verdict=Verdict.CANNOT_TELL, ratio=found.ratio, sentence=f"cannot tell: {never}")
    return Compared(a=pair.a, b=pair.b, quantity=of, difference=found)


_Figure = PointResult | BaselinePoint  # as far as it says in which environment it was measured


def differing(
    a: _Figure, b: _Figure, facts_a: Sequence[EnvironmentFacts], facts_b: Sequence[EnvironmentFacts]
) -> str | None:
    """In what the environments of two figures differ, as the end of a sentence; None where they do not.

    Facts are those of either benchmark. Instance type and image digest are no part of an environment's key: two figures
    with the same key may still differ in them, where both benchmarks know theirs. A figure says its own instance type;
    where it does not, and of digests, those of its benchmark that go with its key are taken together, and differ where
    they have none in common.
    """
    these, those = _facts_of(a, facts_a), _facts_of(b, facts_b)
    unlike = []
    for field in (field for field in EnvironmentFacts.model_fields if field != "environment"):
        here, there = (
            sorted({str(value) for one in facts if (value := getattr(one, field)) is not None})
            for facts in (these, those)
        )
        if here != there if a.environment != b.environment else here and there and not {*here} & {*there}:
            texts = [" and ".join(values) or "none" for values in (here, there)]
            unlike.append(f"{records.environment_field_name(field)} {texts[0]} against {texts[1]}")
    if a.environment == b.environment:
        return f"the environments differ: {', '.join(unlike)}" if unlike else None
    where = f"the environments differ ({a.environment or 'unknown'} and {b.environment or 'unknown'})"
    return f"{where}: {', '.join(unlike)}" if unlike else f"{where}, and what they are was not recorded"


def _facts_of(one: _Figure, facts: Sequence[EnvironmentFacts]) -> tuple[EnvironmentFacts, ...]:
    """What a figure may stand on: of several facts with its key those with its instance type, where it says one."""
    same = tuple(found for found in facts if found.environment == one.environment)
    shown = one.instance_type
    if one.environment is None or shown is None:
        return same
    begin = shown.removesuffix("…")  # a result cuts a long name
    types = [(found, found.instance_type or "") for found in same]
    if own := tuple(found for found, type_ in types if type_ == shown or (begin != shown and type_.startswith(begin))):
        return own
    # A benchmark shows a few environments only: what it says of the key holds, and the digest was another type's.
    known = same or (EnvironmentFacts(environment=one.environment),)
    return tuple(found.model_copy(update={"instance_type": shown, "image_digest": None}) for found in known)
