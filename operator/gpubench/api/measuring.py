# SPDX-License-Identifier: Apache-2.0
"""How a trial is measured, how often, and in which order."""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from gpubench.api import rules
from gpubench.units import DecimalText, Duration, WindowLength
from gpubench.values import FrozenModel

REPEATS_MAX = 20
UNTIL_MIN = 3  # `intervals.REPEATS_FOR_INTERVAL`, which stands above this layer; a test compares them


class Until(FrozenModel):
    """The precision at which a point has been measured often enough."""

    relative_half_width: DecimalText = Field(
        description="Half the width of the interval over its mean, 0.001 to 0.5: 0.02 asks for a throughput (with mode "
        "Training, seconds) that is known to 2 %."
    )
    confidence: DecimalText = Field(
        "0.95",
        description="Confidence at which repeats end, 0.5 to 0.999. Intervals in results are always 95 % intervals, "
        "corrected for having looked several times.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.decimal_within(
            "relativeHalfWidth", "0.001", "0.5", parent="measure.repeats.until", such_as="0.02, for ±2 %"
        ),
        rules.decimal_within("confidence", "0.5", "0.999", parent="measure.repeats.until", such_as="0.95"),
    )


class Repeats(FrozenModel):
    """How often each point is measured afresh: a fixed number, or until its figure is known well enough."""

    min: int = Field(3, ge=1, le=REPEATS_MAX, description="Fresh runs of each point; an interval needs at least 3.")
    max: int | None = Field(
        None, ge=1, le=REPEATS_MAX, description="With until: fresh runs of a point at most; else min."
    )
    until: Until | None = Field(
        None,
        description="A point is repeated, from min on, until its figure is known so well, or max is reached. A repeat "
        "starts only when all earlier ones of its point have been measured.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!has(self.max) || self.max >= self.min",
            "measure.repeats.max cannot be less than measure.repeats.min: raise max, or lower min",
            ".max",
            detail="max is %d, min %d",
            values=("self.max", "self.min"),
        ),
        rules.Rule(
            "has(self.until) || !has(self.max) || self.max <= self.min",
            "measure.repeats.max beyond min needs measure.repeats.until, which says when to stop: give it, or "
            "set min to the number that you want",
            ".max",
        ),
        rules.Rule(
            "!has(self.until) || (has(self.max) && self.max != self.min)",
            "measure.repeats.until needs measure.repeats.max greater than min: otherwise there is nothing to stop",
            ".until",
        ),
        rules.Rule(
            f"!has(self.until) || self.min >= {UNTIL_MIN}",
            f"measure.repeats.until needs measure.repeats.min of at least {UNTIL_MIN}: fewer runs have no interval",
            ".min",
            detail="min is %d",
        ),
    )

    @property
    def most(self) -> int:
        return self.min if self.max is None else self.max


class Mode(StrEnum):
    """What a trial does."""

    THROUGHPUT = "Throughput"
    TRAINING = "Training"


class TimedRegion(FrozenModel):
    """What the seconds of a training run are."""

    evaluation: Literal["Inside", "Outside"] = Field(
        "Inside", description="Whether evaluations after the epochs count."
    )
    first_epoch: Literal["Included", "Excluded"] = Field("Included", description="Whether the first epoch counts.")


class Measure(FrozenModel):
    """How a trial is measured: windows of steps, warm-up kept apart."""

    mode: Mode = Field(
        Mode.THROUGHPUT,
        description="Throughput: steps for a given time. Training: whole epochs, each evaluated on held-out data.",
    )
    timed_region: TimedRegion = Field(TimedRegion(), description="With mode Training: which seconds count.")
    repeats: Repeats = Field(Repeats(), description="How often each point is measured afresh.")
    warm_up: Duration = Field("10s", description="Training before the figures count; kept in the records, flagged.")
    duration: Duration = Field(
        "60s",
        description="Measured training of one trial, after the warm-up. With repeats.until at most: in mode "
        "Throughput a run ends once its own windows vary too little for more of them to help.",
    )
    window: WindowLength = Field(
        "500ms", description="About how long a window is: at least one step, between two time stamps."
    )
    health_check: Literal["Enabled", "Disabled"] = Field(
        "Enabled",
        description="Whether each rank tests its device for some seconds before a trial: a node that is far below what "
        "is usual on its pool, over all benchmarks, is named, and the figure flagged.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.positive("window", parent="measure"),
        rules.Rule(
            rules.about_durations("window", "duration", holds="duration(self.window) <= duration(self.duration)"),
            "measure.window cannot be longer than measure.duration: a trial holds at least one window",
            ".window",
            detail="window is %s, duration %s",
            values=("self.window", "self.duration"),
        ),
        rules.Rule(
            "self.mode == 'Training' || "
            "(self.timedRegion.evaluation == 'Inside' && self.timedRegion.firstEpoch == 'Included')",
            "measure.timedRegion needs measure.mode Training: set the mode, or remove timedRegion",
            ".timedRegion",
        ),
    )


class Order(FrozenModel):
    """In which order trials run."""

    seed: int = Field(0, ge=0, le=2_147_483_647, description="Seed of the shuffled, interleaved order of the trials.")
