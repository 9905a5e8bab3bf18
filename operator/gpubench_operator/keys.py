# SPDX-License-Identifier: Apache-2.0
"""What stands in the queue: the name of something that is to be looked at."""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Which reconcile function a key belongs to."""

    BENCHMARK = "benchmark"
    POOLS = "pools"  # all of them at once: their status comes from one list of nodes
    RESYNC = "resync"


class Key(NamedTuple):
    """One thing to look at."""

    kind: Kind
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


POOLS = Key(Kind.POOLS)
RESYNC = Key(Kind.RESYNC)


def benchmark(namespace: str, name: str) -> Key:
    """The key of a GpuBenchmark."""
    return Key(Kind.BENCHMARK, namespace, name)
