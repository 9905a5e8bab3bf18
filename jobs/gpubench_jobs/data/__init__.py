# SPDX-License-Identifier: Apache-2.0
"""What the workloads are trained on."""

from gpubench import workloads
from gpubench.plan.assignment import Assignment
from gpubench_jobs.data import synthetic
from gpubench_jobs.data.feed import Feed


def feed(assignment: Assignment, *, dtype: str, seed: int) -> Feed:
    """What a rank is fed in mode Throughput; `dtype` is what its network computes in."""
    workload = workloads.find(assignment.workload)
    return synthetic.batch_of(workload, batch=assignment.batch_per_worker, seed=seed, dtype=dtype)
