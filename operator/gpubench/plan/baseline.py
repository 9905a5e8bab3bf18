# SPDX-License-Identifier: Apache-2.0
"""What a study is held against, frozen into its plan: values only, so that a baseline may be deleted the day after."""

from typing import Literal

from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.units import DecimalText
from gpubench.values import Value


class BaselinePoint(Value):
    """A measured point of the baseline that the plan has, too."""

    point: int  # index into Plan.points
    quantity: Literal["Throughput", "Seconds"]  # measure.compare.Quantity
    repeats: int
    mean: float  # over the repeats
    deviation: float | None = None  # standard deviation of the repeats, where there are 3 or more
    environment: str | None = None  # as results show it
    instance_type: str | None = None  # as results show it
    settled: bool = True  # figures of runs that never settled are not ranked


class Baseline(Value):
    """The benchmark that `spec.compareTo` names, as it was when the study was planned."""

    benchmark: str
    tolerance: DecimalText
    confidence: float = 0.95  # at which intervals over its repeats are computed: more where these were added as needed
    points: tuple[BaselinePoint, ...] = ()
    environments: tuple[EnvironmentFacts, ...] = ()
    absent: str | None = None  # why there is nothing to compare with, in a sentence
