# SPDX-License-Identifier: Apache-2.0
"""One real Horovod rank that trains each case for some steps and keeps its weights in a file. Run by test_reduction.

Ranks begin with weights of their own, so that the initial broadcast is needed as well.
"""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np

from gpubench import workloads
from gpubench.precision import Precision
from gpubench_jobs import distribution, precision, train
from gpubench_jobs.models import mnist_cnn, mnist_mlp, recipe, resnet50


@dataclass(frozen=True)
class Case:
    """A model, small enough for seconds; `reduce` off shows that the check can fail."""

    name: str
    workload: str
    precision: Precision = Precision.FLOAT32
    batch: int = 4
    steps: int = 3
    reduce: bool = True


BUILDERS = {"mnist_mlp": mnist_mlp.build, "mnist_cnn": mnist_cnn.build, "resnet50": resnet50.build}
CASES = (
    Case(name="dropout", workload="mnist_mlp"),
    Case(name="convolution", workload="mnist_cnn"),
    Case(name="batch-norm", workload="resnet50", steps=2),  # and labels that are redrawn in each step
    Case(name="scaled-loss", workload="mnist_mlp", precision=Precision.MIXED_FLOAT16),
    Case(name="lost-gradients", workload="mnist_mlp", reduce=False),
)
RANKS = 2


def build(case: Case, *, rank: int) -> recipe.Recipe:
    """The recipe of a rank; resnet50 on images of 32 x 32."""
    workload = workloads.find(case.workload)
    if case.workload == "resnet50":
        workload = workload.model_copy(update={"input_shape": (32, 32, 3)})
    precision.use(case.precision)
    keras.utils.set_random_seed(100 + rank)
    return BUILDERS[case.workload](workload, batch=case.batch, seed=1000 * (rank + 1))


def weights(built: recipe.Recipe) -> dict[str, Any]:
    return {str(n): variable.numpy() for n, variable in enumerate(built.trainable)}


def main() -> None:
    rank, folder = int(os.environ["HOROVOD_RANK"]), Path(sys.argv[1])
    distribution.connect(workers=RANKS)
    for case in CASES:
        built = build(case, rank=rank)
        distribution.spread(built.persistent)
        np.savez(folder / f"{case.name}-{rank}-begin.npz", **weights(built))
        reduce = distribution.average if case.reduce else train.alone
        run = train.compile_run(built, reduce=reduce, loss_scale=precision.loss_scale(case.precision))
        run(case.steps).numpy()
        np.savez(folder / f"{case.name}-{rank}-end.npz", **weights(built))
    distribution.disconnect()


if __name__ == "__main__":
    main()
