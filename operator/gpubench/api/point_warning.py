# SPDX-License-Identifier: Apache-2.0
"""What is odd about a figure, as data beside its message."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from gpubench.api.status_sizes import FIGURE_NAME_MAX, NODE_MAX, WARNING_FIGURES_MAX, WARNING_MAX
from gpubench.values import FrozenModel


class WarningReason(StrEnum):
    """What a warning is about, for programs; what its figures are called is in `WARNING_FIGURES`."""

    UNSETTLED = "Unsettled"
    STRAGGLER = "Straggler"
    BIMODAL = "Bimodal"
    TREND = "Trend"
    OUTLIERS = "Outliers"
    LOSS_ROSE = "LossRose"
    BUSY_MACHINE = "BusyMachine"
    WEAK_NODE = "WeakNode"
    NODE_SHARED = "NodeShared"
    POD_CHANGED = "PodChanged"
    POOL_MISMATCH = "PoolMismatch"
    MACHINES_MIXED = "MachinesMixed"
    ZONES_CROSSED = "ZonesCrossed"
    SPREAD_DIFFERS = "SpreadDiffers"
    REPEATS_MISSING = "RepeatsMissing"
    PRECISION_NOT_REACHED = "PrecisionNotReached"
    NO_TRAINING_FIGURES = "NoTrainingFigures"
    NO_EFFICIENCY = "NoEfficiency"
    NO_COST = "NoCost"
    NO_RELATIVE = "NoRelative"
    PRICE_STALE = "PriceStale"
    REPRICED = "Repriced"
    EXTRAPOLATED = "Extrapolated"
    IMPORTED = "Imported"
    OTHER = "Other"  # a message and nothing else


#: The numbers that a warning may carry. Shares and changes are fractions: 0.1 is 10 %.
WARNING_FIGURES: Mapping[WarningReason, tuple[str, ...]] = {
    **dict.fromkeys(WarningReason, ()),  # but for these
    WarningReason.UNSETTLED: ("change",),  # of the time of a step, over the run
    WarningReason.STRAGGLER: ("cost",),  # by what share a step is longer than at the other ranks' median
    WarningReason.BIMODAL: ("ratio", "share"),  # slow windows over fast ones in time; share of windows that are slow
    WarningReason.TREND: ("change",),
    WarningReason.OUTLIERS: ("count", "windows", "worst"),  # of so many windows; the slowest over the median
    WarningReason.LOSS_ROSE: ("first", "last"),  # mean loss of the first epoch and of the last one
    WarningReason.BUSY_MACHINE: (
        "others",
        "stolen",
        "processors",
    ),  # used by other processes, by other machines; of all
    # One of the three tests, per second (of floating-point operations, or of bytes); what is usual on the pool, and how
    # many tests, on how many nodes, say so.
    WarningReason.WEAK_NODE: ("arithmetic", "memory", "allreduce", "usual", "tests", "nodes"),
    WarningReason.NODE_SHARED: ("pods", "nodes"),  # of one gang, and how many nodes they had
    WarningReason.ZONES_CROSSED: ("zones",),  # of one gang
    WarningReason.SPREAD_DIFFERS: ("least", "most"),  # zones, blocks or racks of one gang
    WarningReason.REPEATS_MISSING: ("measured", "wanted"),
    WarningReason.PRECISION_NOT_REACHED: ("reached", "wanted"),  # relative half-widths
    WarningReason.EXTRAPOLATED: ("efficiency", "points"),  # the mean that was taken, and of how many points
}


class PointWarning(FrozenModel):
    """What a reader of a point's figures must know: for programs, and in a message that ends with what to do."""

    reason: WarningReason = Field(description="What it is about, in one word.")
    message: str = Field(max_length=WARNING_MAX, description="The same in a sentence, with what to do.")
    trial: str | None = Field(None, max_length=8, description="Trial that it is worst in.")
    rank: int | None = Field(None, description="Rank that it is about.")
    node: str | None = Field(None, max_length=NODE_MAX, description="Node that it is about, where one is known.")
    repeats: int | None = Field(None, description="Repeats of the point that have it.")
    figures: dict[Annotated[str, Field(max_length=FIGURE_NAME_MAX)], float] | None = Field(
        None,
        max_length=WARNING_FIGURES_MAX,
        description="The numbers of the message by name, with four digits. Shares are fractions: 0.1 is 10 %.",
    )
