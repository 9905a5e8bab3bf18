# SPDX-License-Identifier: Apache-2.0
"""From what every rank tells of its device to what the result says."""

from typing import Any

from gpubench import records
from gpubench.stats import gang


def usage(rank: int, **fields: Any) -> records.Usage:
    defaults: dict[str, Any] = {
        "samples": 3, "period_seconds": 1.0, "processor": 1.0, "processor_high": 1.0, "memory_bytes": 10,
    }  # fmt: skip
    return records.Usage(rank=rank, **(defaults | fields))


def health(rank: int, arithmetic: float, **fields: Any) -> records.Health:
    return records.Health(rank=rank, **({"arithmetic": arithmetic, "memory": 5.0, "seconds": 1.0} | fields))


def test_nobody_looked_nothing_said() -> None:
    assert gang.machine([], [], ranks=2) is None


def test_shares_are_means_watts_and_joules_are_sums_the_rest_is_the_worst() -> None:
    found = gang.machine(
        [
            usage(
                0,
                processor=0.5,
                memory_bytes=7,
                gpu=0.9,
                gpu_memory_bytes=3,
                watts=200.0,
                joules=20.0,
                celsius_high=60.0,
                throttled=0.0,
            ),
            usage(
                1,
                processor=1.0,
                memory_bytes=9,
                gpu=0.7,
                gpu_memory_bytes=5,
                watts=300.0,
                joules=31.0,
                celsius_high=80.0,
                throttled=0.25,
            ),
        ],
        [health(0, 100.0, memory=4.0, allreduce=2.0), health(1, 90.0, memory=5.0, allreduce=3.0)],
        ranks=2,
    )
    assert found == records.Machine(
        processor=0.75,
        memory_bytes=9,
        gpu=0.8,
        gpu_memory_bytes=5,
        watts=500.0,
        joules=51.0,
        celsius_high=80.0,
        throttled=0.25,
        arithmetic=90.0,
        memory=4.0,
        allreduce=2.0,
        weakest_rank=1,
    )


def test_a_figure_that_one_rank_does_not_tell_is_no_figure_of_the_gang() -> None:
    found = gang.machine([usage(0, watts=200.0, joules=3.0), usage(1, watts=250.0)], [], ranks=2)
    assert found is not None
    assert (found.watts, found.joules, found.gpu) == (450.0, None, None)


def test_usage_alone_has_no_health() -> None:
    found = gang.machine([usage(0)], [], ranks=1)
    assert found is not None
    assert set(found.to_wire()) == {"processor", "memoryBytes"}


def test_what_one_rank_has_not_looked_at_is_no_figure_of_the_gang() -> None:
    assert gang.machine([usage(0)], [health(1, 5.0)], ranks=2) is None
    found = gang.machine([usage(0)], [health(0, 5.0), health(1, 6.0)], ranks=2)
    assert found is not None
    assert set(found.to_wire()) == {"arithmetic", "memory", "weakestRank"}


def test_energy_is_that_of_the_windows_that_count() -> None:
    found = gang.machine(
        [usage(0, joules=30.0, watts=10.0), usage(1, joules=50.0, watts=20.0)], [], ranks=2, counted=0.75
    )
    assert found is not None
    assert (found.joules, found.watts) == (60.0, 30.0)
