# SPDX-License-Identifier: Apache-2.0
"""What a GPU would run: operations of a traced training step, for every network with convolutions and every precision.

It needs no GPU. Columns: layers of batch normalisation; fused kernels for them; transposes of images that TensorFlow's
optimizer leaves on a virtual A100 and H100; all-reduces; megabytes that operations move for an image, and those of the
same network with Keras' own layer. It ends with 1 where a layer is not fused, or images are transposed too often.

    python tests/benchmarks/graph.py [WORKLOAD ...] [--precision NAME ...] [--json]
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache

os.environ["TF_CPP_MIN_LOG_LEVEL"] = (
    "3"  # before TensorFlow is imported: its optimizer notes each operation without a GPU kernel
)

import horovod.tensorflow as hvd
import keras

import gpu_graph
from gpubench.workloads import Precision
from gpubench_jobs import models

#: At the borders: images come as NHWC, and the last layer sees what the convolutions leave.
TRANSPOSES_MAX = 8
#: TensorFloat-32 is how a GPU multiplies float32: the graph is the same.
_SAME_GRAPH = {Precision.TENSOR_FLOAT32: Precision.FLOAT32}


@dataclasses.dataclass(frozen=True)
class Row:
    """One network in one precision."""

    workload: str
    precision: Precision
    normalizations: int
    fused: int
    transposed: dict[str, int]
    all_reduces: dict[str, int]
    megabytes: float
    megabytes_of_keras: float

    @property
    def good(self) -> bool:
        """Whether a GPU is spared what it can be spared."""
        return self.fused == self.normalizations and max(self.transposed.values()) <= TRANSPOSES_MAX


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("workloads", nargs="*", default=[name for name in models.BUILDERS if _convolves(name)])
    parser.add_argument(
        "--precision", nargs="+", type=Precision, default=[one for one in Precision if one is not Precision.UNKNOWN]
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.json:
        gpus = " ".join(f"{name:>5}" for name in gpu_graph.GPUS)
        print(f"{'WORKLOAD':<20} {'PRECISION':<15} LAYERS FUSED {gpus} ALL-REDUCES  MB/IMAGE  OF KERAS")
    rows = list[Row]()
    for workload in options.workloads:
        for row in _rows(workload, options.precision, alone=len(options.workloads) == 1):
            rows.append(row)
            if not options.json:
                print(_line(row), flush=True)
    if options.json:
        print(json.dumps([dataclasses.asdict(row) for row in rows]))
    return 0 if all(row.good for row in rows) else 1


def _rows(workload: str, precisions: list[Precision], *, alone: bool) -> Iterator[Row]:
    """Of one workload. Several have a process each: TensorFlow keeps every graph that was traced, and all weights."""
    if alone:
        hvd.init()
        yield from (_row(workload, precision) for precision in precisions)
        return
    command = [sys.executable, __file__, workload, "--json", "--precision", *precisions]
    for row in json.loads(subprocess.run(command, check=False, stdout=subprocess.PIPE).stdout):
        yield Row(**row)


def _row(workload: str, precision: Precision) -> Row:
    return dataclasses.replace(_counted(workload, _SAME_GRAPH.get(precision, precision)), precision=precision)


@cache
def _counted(workload: str, precision: Precision) -> Row:
    step = gpu_graph.traced(workload, precision)
    layer = keras.layers.BatchNormalization
    unfused = gpu_graph.traced(workload, precision, layer=layer) if step.normalizations else step
    return Row(
        workload=workload,
        precision=precision,
        normalizations=step.normalizations,
        fused=step.count("FusedBatchNormV3"),
        transposed={gpu: step.transposed_images(gpu) for gpu in gpu_graph.GPUS},
        all_reduces=step.all_reduces(),
        megabytes=step.bytes_per_image() / 1e6,
        megabytes_of_keras=unfused.bytes_per_image() / 1e6,
    )


def _line(row: Row) -> str:
    transposed = " ".join(f"{count:>5}" for count in row.transposed.values())
    sizes = f"{row.megabytes:>9,.0f} {row.megabytes_of_keras:>9,.0f}"
    return (
        f"{row.workload:<20} {row.precision:<15} {row.normalizations:>6} {row.fused:>5} {transposed} "
        f"{sum(row.all_reduces.values()):>11} {sizes}{'' if row.good else '  NOT FIT FOR A GPU'}"
    )


def _convolves(workload: str) -> bool:
    layers = models.build(workload).network._flatten_layers()
    return any(isinstance(layer, keras.layers.Conv2D) for layer in layers)


if __name__ == "__main__":
    sys.exit(main())
