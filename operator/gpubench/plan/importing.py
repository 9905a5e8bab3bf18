# SPDX-License-Identifier: Apache-2.0
"""A plan whose figures were measured elsewhere: its points, and no trial.

Points of a pool that is never run (`measuredBy`) are derived from the imported ones as they are from measured ones,
unless the publication has figures of them, too. Must not happen: anything of such a plan is run.
"""

from gpubench.api.point_result import Basis
from gpubench.api.sweep import Variant
from gpubench.plan.imported import Imported
from gpubench.plan.plan import Plan, Point


def with_measurements(plan: Plan, found: Imported) -> Plan:
    """The plan of the same study with these figures in place of its trials."""
    points = (*plan.points, *(_variant_of(plan.points[one.like], one.variant) for one in found.added))
    given = {one.point for one in found.points}
    return plan.model_copy(
        update={
            "points": tuple(_marked(point, given=index in given) for index, point in enumerate(points)),
            "trials": (),
            "repeats": None,  # there are as many as there are
            "strict": None,
            "imported": found,
        }
    )


def _variant_of(point: Point, name: str) -> Point:
    return point.model_copy(update={"key": point.key.model_copy(update={"variant": Variant(name=name)})})


def _marked(point: Point, *, given: bool) -> Point:
    if given:
        return point.model_copy(update={"basis": Basis.IMPORTED, "skip": None})  # it was run, wherever that was
    return point.model_copy(update={"basis": Basis.IMPORTED}) if point.basis is Basis.MEASURED else point
