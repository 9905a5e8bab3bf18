# SPDX-License-Identifier: Apache-2.0
"""Figures that were measured elsewhere, before: those of a publication, or of a study from before gpubench.

They are frozen into the plan (`Plan.imported`), which makes results of them by the same functions as of measured ones:
nothing is run for such a plan. What a publication derives from its measurements, or shows in a chart only, are its
`figures`: they are no results, and stand beside what gpubench makes of the measurements (`report.published`).

Must not happen: a figure that was not published, or one without whose it is.
"""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpubench.api.benchmark import POINTS_MAX
from gpubench.api.measuring import REPEATS_MAX
from gpubench.units import DecimalText
from gpubench.values import Value

#: A day, a month or a year: publications seldom say more.
PUBLISHED_PATTERN = r"^[0-9]{4}(-[0-9]{2}){0,2}$"

_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1, max_length=400)]


class Run(Value):
    """One repeat of a point; what of it nobody published is absent."""

    samples_per_second: _Positive | None = None
    seconds: _Positive | None = None  # of the study's timed region
    first_epoch_seconds: _Positive | None = None  # training seconds
    evaluation_seconds: _NotNegative | None = None  # of all evaluations
    training_loss: _NotNegative | None = None  # of the last epoch
    accuracy: _Share | None = None  # on held-out data, after the last epoch
    gpu_utilization: _Share | None = None


class Speed(Value):
    """How many times as fast as another point, where nothing but that was published."""

    times: DecimalText
    over: int  # index into Plan.points


class ImportedPoint(Value):
    """What is known of one point."""

    point: int  # index into Plan.points
    runs: tuple[Run, ...] = Field((), max_length=REPEATS_MAX)
    efficiency: DecimalText | None = None  # relative to the pool's base, where that was published itself
    speed: Speed | None = None
    note: _Text | None = None


class Added(Value):
    """A point that the study does not ask for: like one of its own, but for the variant's name."""

    like: int  # index into the points of the study
    variant: str


class FigureKind(StrEnum):
    """What a publication derives from its measurements."""

    MEAN_EFFICIENCY = "mean-efficiency"  # over all larger machines of the point's workload and batch
    EXTRAPOLATED_THROUGHPUT = "extrapolated-throughput"  # of the pool's measuredBy, by the mean efficiency
    SAMPLES_PER_MONEY = "samples-per-money"
    GOAL_HOURS = "goal-hours"
    GOAL_COST = "goal-cost"
    RUN_COST = "run-cost"  # marginal
    BILLED_COST = "billed-cost"  # by increments of so many seconds
    RELATIVE_TIME = "relative-time"
    RELATIVE_COST = "relative-cost"
    RELATIVE_SPEED = "relative-speed"
    GAIN = "gain"  # samples per unit of money over those of another point
    OWN_HOUR = "own-hour"  # one used hour of an own machine
    OWN_MONTH = "own-month"
    PAYBACK_DAYS = "payback-days"  # of continuous use until a machine of such a price is paid
    BREAK_EVEN_DAYS = "break-even-days"  # of use in a month from which owning is cheaper


class Figure(Value):
    """One derived figure of a publication."""

    kind: FigureKind
    point: int  # index into Plan.points
    against: int | None = None
    goal: str | None = None
    amount: DecimalText | None = None  # a price, or an increment of billing in seconds
    published: _Text | None = None  # as it is printed; None: in a chart only, or not at all
    places: int = Field(ge=0, le=9)  # to which the publication rounds
    note: _Text | None = None


class Imported(Value):
    """Everything that was taken over, and from whom."""

    publisher: _Text
    source: _Text
    published: str = Field(pattern=PUBLISHED_PATTERN)
    points: tuple[ImportedPoint, ...] = Field(min_length=1, max_length=POINTS_MAX)
    added: tuple[Added, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def origin(self) -> str:
        """Whose figures these are, and from when."""
        return f"{self.publisher}, {self.published}"

    def at(self, point: int) -> ImportedPoint | None:
        """What is known of a point; None where nothing was published."""
        return next((one for one in self.points if one.point == point), None)
