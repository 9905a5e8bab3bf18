# SPDX-License-Identifier: Apache-2.0
"""In which order trials run: repeat by repeat, each repeat in a shuffled order of its own.

All points are measured once before any is measured twice, so that a slow drift of the machine (heat, neighbours, time
of day) spreads over all points and does not become a difference between them. The shuffle is seeded, so that a study
can be repeated; the order that was used stands in the frozen plan.
"""

import random
from collections.abc import Sequence

from gpubench.plan.plan import Point, Trial, trial_id


def interleaved(points: Sequence[Point], *, repeats: int, seed: int) -> tuple[Trial, ...]:
    """The trials of all points that can run. ValueError if two trials had the same id (a collision of hashes)."""
    shuffler = random.Random(seed)
    runnable = [index for index, point in enumerate(points) if point.runs]
    trials: list[Trial] = []
    for repeat in range(repeats):
        order = runnable.copy()
        shuffler.shuffle(order)
        trials += [Trial(id=trial_id(points[index].key, repeat), point=index, repeat=repeat) for index in order]
    if len({trial.id for trial in trials}) != len(trials):
        raise ValueError("two trials have the same id: split the study in two")
    return tuple(trials)
