# SPDX-License-Identifier: Apache-2.0
"""One warning of a point, made to fit a status: every warning is made here, whoever has something to say.

Must not happen: a name for a number that no table has (`point_warning.WARNING_FIGURES`): programs rely on it.
"""

from collections.abc import Mapping

from gpubench.api import point_warning, status_sizes
from gpubench.api.point_warning import PointWarning, WarningReason
from gpubench.scheduler import conditions
from gpubench.units import sampled


def warning(
    reason: WarningReason,
    message: str,
    *,
    trial: str | None = None,
    rank: int | None = None,
    node: str | None = None,
    repeats: int | None = None,
    figures: Mapping[str, float] | None = None,
) -> PointWarning:
    """A warning whose texts are cut to what a status takes, and whose figures have the digits of a sampled one."""
    unknown = (figures or {}).keys() - set(point_warning.WARNING_FIGURES[reason])
    assert not unknown, f"{reason.value} has no figures {', '.join(sorted(unknown))}"
    return PointWarning(
        reason=reason,
        message=conditions.clamped(message, status_sizes.WARNING_MAX),
        trial=trial,
        rank=rank,
        node=None if node is None else conditions.clamped(node, status_sizes.NODE_MAX),
        repeats=repeats,
        figures={name: sampled(figure) for name, figure in figures.items()} if figures else None,
    )
