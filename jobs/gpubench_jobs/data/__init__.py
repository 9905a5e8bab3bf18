# SPDX-License-Identifier: Apache-2.0
"""What the workloads are trained on."""

from gpubench import workloads
from gpubench.api.sweep import Data, DataSource
from gpubench.plan.assignment import Assignment
from gpubench.workloads import Workload
from gpubench_jobs.data import generated, volume
from gpubench_jobs.data.pipeline import Feed, Progress, Sets


def synthetic_feed(assignment: Assignment, *, dtype: str, seed: int) -> Feed:
    """One random batch, again and again; `dtype` is what the network computes in, `seed` the rank's own."""
    workload = workloads.find(assignment.workload)
    return generated.synthetic_batch(workload, batch=assignment.batch_per_worker, seed=seed, dtype=dtype)


def open_sets(workload: Workload, data: Data, *, seed: int, progress: Progress = lambda: None) -> Sets:
    """The samples of a source that has sets; `seed` makes a generated one, and must be the same on all ranks.

    `progress` is called for every file of many samples and every thousand files of one, from this thread: a large set
    on a slow volume takes longer to open than a rank may be silent.
    """
    if data.source is DataSource.GENERATED:
        return generated.generated_sets(workload, samples=data.samples, seed=seed)
    if data.source is DataSource.VOLUME and data.path is not None:
        return volume.sets(workload, data.path, progress)
    raise ValueError(f"data.source {data.source} has no sets to open")
