# SPDX-License-Identifier: Apache-2.0
"""Bandwidth of the all-reduce, from the elements per second that the workload allreduce reports as its throughput.

Algorithm bandwidth is the bytes of one message over the time of one all-reduce; bus bandwidth is that times
2 (n - 1) / n, which an ideal ring keeps constant whatever n is, so that it can be held against the speed of a link
(NVIDIA nccl-tests, doc/PERFORMANCE.md).
"""

from dataclasses import dataclass

from gpubench.stats.intervals import Interval
from gpubench.units import Formula
from gpubench.workloads import Precision

BUS = Formula(
    text="throughput x bytes of an element / workers x 2 x (workers - 1) / workers",
    source="NVIDIA nccl-tests, doc/PERFORMANCE.md",
)

ELEMENT_BYTES = {
    Precision.FLOAT32: 4,
    Precision.TENSOR_FLOAT32: 4,  # a way of multiplying: what travels is float32
    Precision.MIXED_FLOAT16: 2,
    Precision.MIXED_BFLOAT16: 2,
}


@dataclass(frozen=True, kw_only=True)
class Bandwidth:
    """Bytes per second."""

    algorithm: Interval
    bus: Interval


def of_throughput(elements_per_second: Interval, *, workers: int, precision: Precision) -> Bandwidth | None:
    """The bandwidth at a throughput that counts the elements of all ranks; None for one rank, which sends nothing.

    A step of t seconds moves one message of S bytes on each of n ranks, so T = n S / (t x bytes of an element) and
    S / t = bytes of an element x T / n.
    """
    if workers == 1:
        return None
    algorithm = elements_per_second.scaled(ELEMENT_BYTES[precision] / workers)
    return Bandwidth(algorithm=algorithm, bus=algorithm.scaled(2 * (workers - 1) / workers))
