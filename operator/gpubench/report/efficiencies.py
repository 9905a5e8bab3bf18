# SPDX-License-Identifier: Apache-2.0
"""The scaling efficiencies that a study knows of one training, on all of its pools: what their mean is taken over.

Must not happen: efficiencies relative to different worker counts in one mean, or one of a run that never settled.
"""

from collections.abc import Sequence
from typing import Literal

from gpubench.api.point_result import PointResult, PointState


def of_line(alike: Sequence[PointResult], *, line: Literal["weak", "strong"], baseline_workers: int) -> list[float]:
    """The efficiencies on a line of all settled points among these that have more workers than a base of so many."""
    return [
        found.efficiency.mean
        for result in alike
        if result.state is not PointState.UNSTABLE
        for found in result.scaling
        if found.kind == line and found.baseline_workers == baseline_workers < result.workers
    ]
