# SPDX-License-Identifier: Apache-2.0
"""What a reader of a figure must know: warnings as values, with their data and what to do next.

A gang finds most of them in its own windows and reports them with its result, for nobody else has the windows; a
notice must stay small, as the termination message holds all of them. Words are made here only, at the end.
"""

from typing import Annotated, Literal

from pydantic import Field

from gpubench.bounds import Count, Figure, Share
from gpubench.values import Value

#: Most notices of one result: the termination message must hold them.
NOTICES_MAX = 4


class Unsettled(Value):
    """The run never reached a steady state: its figure is over all of its windows, and is not ranked."""

    kind: Literal["Unsettled"] = "Unsettled"
    change: Figure  # relative change of the time of a step from the first to the last counted windows


class Trend(Value):
    """The run settled, and still became slower or faster while it was measured."""

    kind: Literal["Trend"] = "Trend"
    change: Figure  # the same


class Bimodal(Value):
    """Windows fall into two groups: the machine changed to and fro between two speeds."""

    kind: Literal["Bimodal"] = "Bimodal"
    ratio: Figure  # time of a step in the slow group over that in the fast one
    share: Share  # of the windows, in the slow group


class Outliers(Value):
    """Single windows took far longer than the rest: a pause."""

    kind: Literal["Outliers"] = "Outliers"
    count: Count
    windows: Count  # counted, in all
    worst: Figure  # the slowest window's time over the median


class Straggler(Value):
    """One rank computes more slowly than the others, which wait for it."""

    kind: Literal["Straggler"] = "Straggler"
    rank: Count
    cost: Figure  # by what share a step is longer than at the other ranks' median


class LossRose(Value):
    """A training ended with a loss more than 1 % above the one it began with."""

    kind: Literal["LossRose"] = "LossRose"
    first: Figure  # mean loss of the first epoch
    last: Figure


Notice = Annotated[Unsettled | Trend | Bimodal | Outliers | Straggler | LossRose, Field(discriminator="kind")]


def sentence(notice: Notice) -> str:
    """What was found and what to do, in at most 180 characters."""
    match notice:
        case Unsettled(change=change):
            return f"never settled (step time {change:+.1%} over the run): give measure.warmUp and duration more time"
        case Trend(change=change):
            return f"step time went {change:+.1%} while it was measured: look for heat or neighbours, or warm up longer"
        case Bimodal(ratio=ratio, share=share):
            return (
                f"two speeds: {share:.0%} of the windows took {ratio:.2f} times as long as the others: look for clocks "
                "that change, or neighbours"
            )
        case Outliers(count=count, windows=windows, worst=worst):
            return (
                f"{count} of {windows} windows stand out, the slowest took {worst:.1f} times the median: look for "
                "pauses on the node"
            )
        case Straggler(rank=rank, cost=cost):
            return f"rank {rank} computes {cost:.0%} slower than the others, which wait for it: look at its node"
        case LossRose(first=first, last=last):
            return f"the loss rose from {first:.4g} to {last:.4g}: check the learning rate and the data"


def figures(notice: Notice) -> dict[str, float]:
    """The numbers of a notice by their names; which rank it is about is none of them."""
    return {name: value for name, value in notice if name not in ("kind", "rank")}
