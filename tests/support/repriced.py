# SPDX-License-Identifier: Apache-2.0
"""Prices of a study so many times as high, and what of its results they may change."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import AmountInterval, PointResult


def prices(folder: Path, tmp_path: Path, *, times: int = 2, **changes: Any) -> Path:
    """The pools of a study's own file, so many times as dear."""
    pools = []
    for document in yaml.safe_load_all((folder / "study.yaml").read_text()):
        if document["kind"] == "GpuPool":
            if "price" not in document["spec"]:
                continue  # an own machine
            price = document["spec"]["price"]
            for form in ("perNodeHour", "perSlotHour", "perMonth"):
                if form in price:
                    price[form] = str(Decimal(price[form]) * times)
            for part in price.get("components", ()):
                part["perHour"] = str(Decimal(part["perHour"]) * times)
            document["spec"].update(changes)
            pools.append(document)
    assert pools
    path = tmp_path / "dear.yaml"
    path.write_text(yaml.safe_dump_all(pools, sort_keys=False))
    return path


def amounts(status: FullStatus) -> Iterator[AmountInterval]:
    for point in status.results:
        yield from amounts_of(point)


def amounts_of(point: PointResult) -> Iterator[AmountInterval]:
    costs = () if point.cost is None else (point.cost.per_million_samples, point.cost.per_run)
    yield from (cost for cost in (*costs, *(goal.cost for goal in point.goals)) if cost is not None)


def is_double(new: str | None, old: str | None) -> bool:
    """Twice as much, as far as the stored digits of both go."""
    if old is None or new is None:
        return old is new
    one, other = Decimal(new), Decimal(old)
    units = Decimal(1).scaleb(int(other.as_tuple().exponent)) + Decimal(1).scaleb(int(one.as_tuple().exponent)) / 2
    return abs(one - 2 * other) <= units


def measurements_of(status: FullStatus) -> list[Any]:
    """All of the points but their costs."""
    points = [point.to_wire() for point in status.results]
    for point in points:
        point.pop("cost", None)
        point.pop("bill", None)
        goals = point.get("goals")
        for goal in goals if isinstance(goals, list) else ():
            goal.pop("cost", None)
    return points
