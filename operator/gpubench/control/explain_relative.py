# SPDX-License-Identifier: Apache-2.0
"""How a point's figures over those of `spec.baseline` came to be, for `gpubench explain`."""

from collections.abc import Iterator

from gpubench.api.goals import RelativeBase
from gpubench.api.point_result import Estimate
from gpubench.control import relative, steps
from gpubench.control.relative import Points, Prices, Ratio
from gpubench.control.steps import Step
from gpubench.measure import compare, intervals
from gpubench.measure.intervals import Interval
from gpubench.money import derived
from gpubench.report import figures, tables


def steps_of(points: Points, named: RelativeBase, *, index: int) -> Iterator[Step]:
    """One or two steps for each figure; none where the point has none."""
    found = relative.related(points, named, index=index)
    told = None if found is None else points.results[index].relative
    if found is None or told is None:
        return
    itself = found.base == index
    base = f"the base is {tables.describe(points.results[found.base])}"
    if itself:
        base = "by definition: this is the base"
    for name, ratio, estimate in (
        ("throughput", found.throughput, told.throughput),
        ("time", found.time, told.time),
    ):
        if ratio is not None and estimate is not None:
            yield from _ratio(name, ratio, estimate, base=base, itself=itself)
    if found.time is not None and found.prices is not None and told.cost is not None:
        yield _cost(found.time.interval, found.prices, told.cost, base=base, itself=itself)


def _ratio(name: str, ratio: Ratio, estimate: Estimate, *, base: str, itself: bool) -> Iterator[Step]:
    name, field = f"relative {name}", f"relative.{name}"
    text = figures.relative(estimate, base=itself)
    if ratio.top is None or ratio.bottom is None:
        same = "" if estimate.low is None else "; both stand on the same runs"
        yield Step(name=name, result=text, source=f"{base}{same}", field=field, estimate=estimate)
        return
    means = {"mean": steps.number(ratio.top.mean), "other_mean": steps.number(ratio.bottom.mean)}
    made = compare.fieller(ratio.top, ratio.bottom) if estimate.low is not None else None
    source = f"{intervals.RATIO_OF_MEANS.source}: {base}"
    if made is None:
        yield steps.step(
            name, intervals.RATIO_OF_MEANS, means, result=text, source=source, field=field, estimate=estimate
        )
        return
    yield steps.step(f"mean {name}", intervals.RATIO_OF_MEANS, means, result=steps.number(made.ratio), source=source)
    confidence = steps.at_confidence(max(ratio.top.confidence, ratio.bottom.confidence))
    yield steps.step(
        name,
        intervals.FIELLER,
        steps.of_fieller(made),
        result=text,
        source=f"{intervals.FIELLER.source}{confidence}, with {made.freedom:.3g} degrees of freedom",
        field=field,
        estimate=estimate,
    )


def _cost(time: Interval, prices: Prices, estimate: Estimate, *, base: str, itself: bool) -> Step:
    name, field = "relative cost", "relative.cost"
    text = figures.relative(estimate, base=itself)
    if itself:
        return Step(name=name, result=text, source=base, field=field, estimate=estimate)
    rest = {
        "rate": steps.hour(prices.rate),
        "nodes": steps.number(prices.nodes),
        "base_rate": steps.hour(prices.base_rate),
        "base_nodes": steps.number(prices.base_nodes),
    }
    found = steps.scaled(
        name, derived.RELATIVE_COST, "relative_time", time, rest, result=text, field=field, estimate=estimate
    )
    return found.model_copy(update={"source": f"{found.source}; {base}"})
