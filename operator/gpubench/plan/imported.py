# SPDX-License-Identifier: Apache-2.0
"""Figures that were measured elsewhere, before: those of a publication, or of a study from before gpubench.

They are frozen into the plan (`Plan.imported`), which makes results of them by the same functions as of measured ones:
nothing is run for such a plan.

Must not happen: a figure that was not published, or one without whose it is.
"""

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


class Imported(Value):
    """Everything that was taken over, and from whom."""

    publisher: _Text
    source: _Text
    published: str = Field(pattern=PUBLISHED_PATTERN)
    points: tuple[ImportedPoint, ...] = Field(min_length=1, max_length=POINTS_MAX)
    added: tuple[Added, ...] = ()

    @property
    def origin(self) -> str:
        """Whose figures these are, and from when."""
        return f"{self.publisher}, {self.published}"

    def at(self, point: int) -> ImportedPoint | None:
        """What is known of a point; None where nothing was published."""
        return next((one for one in self.points if one.point == point), None)
