# SPDX-License-Identifier: Apache-2.0
"""What stands in the queue: the name of something that is to be looked at."""

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """Which reconcile function a key belongs to."""

    BENCHMARK = "benchmark"
    SCHEDULE = "schedule"
    POOLS = "pools"  # all of them at once: their status comes from one list of nodes
    RESYNC = "resync"
    CORDONS = "cordons"  # all nodes that are cordoned on purpose


class Key(NamedTuple):
    """One thing to look at."""

    kind: Kind
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        return "/".join(part for part in self if part)


POOLS = Key(Kind.POOLS)
RESYNC = Key(Kind.RESYNC)
CORDONS = Key(Kind.CORDONS)


def benchmark(namespace: str, name: str) -> Key:
    """The key of a GpuBenchmark."""
    return Key(Kind.BENCHMARK, namespace, name)


def schedule(namespace: str, name: str) -> Key:
    """The key of a GpuBenchmarkSchedule."""
    return Key(Kind.SCHEDULE, namespace, name)


class Met:
    """Which object a name stood for when it was looked at last: it may come back as another one."""

    def __init__(self) -> None:
        self._uids: dict[Key, str] = {}

    def instead(self, key: Key, uid: str | None) -> str | None:
        """The UID of the object that has gone since the last look; `uid` is of the one that is there now, if any."""
        before = self._uids.pop(key, None)
        if uid is not None:
            self._uids[key] = uid
        return None if before == uid else before
