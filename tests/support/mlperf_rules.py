# SPDX-License-Identifier: Apache-2.0
"""How MLPerf Training makes one time of the runs of an entry."""

import statistics
from collections.abc import Sequence


def score(seconds: Sequence[float], *, failed: int, benchmark: str, scaling: float) -> float | None:
    """Minutes of an entry; None where the rules give none.

    The fastest and the slowest run are dropped, and the others' mean is multiplied by scaling.json; one run that failed
    is the slowest. For ten, five and three runs alike; of unet3d four are dropped at either end (training_rules.adoc,
    "Benchmark Results" and "Score scaling", mlcommons/training_policies at d73e20f).
    """
    dropped = 4 if benchmark == "unet3d" else 1
    kept = sorted(seconds)[dropped : len(seconds) - max(dropped - failed, 0)]
    return statistics.fmean(kept) / 60 * scaling if kept and failed <= dropped else None
