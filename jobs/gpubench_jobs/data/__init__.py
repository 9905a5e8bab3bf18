# SPDX-License-Identifier: Apache-2.0
"""What the workloads are trained on: which source and which reader for which workload."""

from collections.abc import Callable
from pathlib import Path

from gpubench import workloads
from gpubench.api.sweep import Data, DataSource
from gpubench.plan.assignment import Assignment
from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import files, generated, image_files, text_files
from gpubench_jobs.data.pipeline import Feed, Progress, Sets

_READERS: dict[Inputs, Callable[[Workload, Path, Progress], Sets]] = {
    Inputs.MNIST: image_files.mnist,
    Inputs.CIFAR10: image_files.cifar10,
    Inputs.IMAGENET: image_files.photographs,
    Inputs.FLOWERS: image_files.photographs,
    Inputs.IMDB: text_files.reviews,
    Inputs.TWEETS: text_files.tweets,
    Inputs.NIETZSCHE: text_files.nietzsche,
}


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
        if workload.inputs not in _READERS:
            raise ValueError(f"{workload.name} is fed {workload.inputs}, which is in no files")
        return _READERS[workload.inputs](workload, files.folder(data.path), progress)
    raise ValueError(f"data.source {data.source} has no sets to open")
