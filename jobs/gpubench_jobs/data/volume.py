# SPDX-License-Identifier: Apache-2.0
"""The real files of a workload, in the formats in which they are distributed: which reader for which."""

from collections.abc import Callable
from pathlib import Path

from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import files, image_files, text_files
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


def sets(workload: Workload, path: str, progress: Progress) -> Sets:
    """What lies below a folder of this pod."""
    if workload.inputs not in _READERS:
        raise ValueError(f"{workload.name} is fed {workload.inputs}, which is in no files")
    return _READERS[workload.inputs](workload, files.folder(path), progress)
