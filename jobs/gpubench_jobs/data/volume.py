# SPDX-License-Identifier: Apache-2.0
"""The real files of a workload, in the formats in which they are distributed: which reader for which."""

from collections.abc import Callable
from pathlib import Path

from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import files, photographs, small_images, texts
from gpubench_jobs.data.split import Progress, Sets

_READERS: dict[Inputs, Callable[[Workload, Path, Progress], Sets]] = {
    Inputs.MNIST: small_images.mnist,
    Inputs.CIFAR10: small_images.cifar10,
    Inputs.IMAGENET: photographs.sets,
    Inputs.FLOWERS: photographs.sets,
    Inputs.IMDB: texts.reviews,
    Inputs.TWEETS: texts.tweets,
    Inputs.NIETZSCHE: texts.nietzsche,
}


def sets(workload: Workload, path: str, progress: Progress) -> Sets:
    """What lies below a folder of this pod."""
    if workload.inputs not in _READERS:
        raise ValueError(f"{workload.name} is fed {workload.inputs}, which is in no files")
    return _READERS[workload.inputs](workload, files.folder(path), progress)
