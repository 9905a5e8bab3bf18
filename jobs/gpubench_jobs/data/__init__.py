# SPDX-License-Identifier: Apache-2.0
"""What the workloads are trained on: which source and which reader for which workload."""

from collections.abc import Callable
from pathlib import Path

from gpubench.api.sweep import Data, DataSource
from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import files, generated, image_files, text_files
from gpubench_jobs.data.pipeline import Progress, Sets

_READERS: dict[Inputs, Callable[[Workload, Path, Progress], Sets]] = {
    Inputs.MNIST: image_files.mnist,
    Inputs.CIFAR10: image_files.cifar10,
    Inputs.IMAGENET: image_files.photographs,
    Inputs.FLOWERS: image_files.photographs,
    Inputs.IMDB: text_files.reviews,
    Inputs.TWEETS: text_files.tweets,
    Inputs.NIETZSCHE: text_files.nietzsche,
}


def open_sets(workload: Workload, data: Data, *, seed: int, progress: Progress = lambda: None) -> Sets:
    """The samples of a source with sets. `seed` is the same on all ranks; `progress` is called while files are read."""
    if data.source is DataSource.GENERATED:
        return generated.generated_sets(workload, samples=data.samples, seed=seed)
    assert data.path is not None  # a rule of `Data`: it goes with source Volume
    return _READERS[workload.inputs](workload, files.folder(data.path), progress)
