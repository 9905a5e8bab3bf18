# SPDX-License-Identifier: Apache-2.0
import asyncio
from pathlib import Path

import pytest

import installation
from cluster import Cluster
from gpubench_cluster import kube
from gpubench_operator import main, settings
from memory_world import Clock


async def test_a_stop_is_obeyed_while_what_is_needed_is_not_there_yet() -> None:
    stop, tried = asyncio.Event(), 0

    async def attempt() -> None:
        nonlocal tried
        tried += 1
        stop.set()
        raise kube.PermanentError("no such CRD", code=404)

    async with asyncio.timeout(5):
        assert not await main.until_it_works(attempt, stop=stop)
    assert tried == 1


async def test_what_is_needed_is_tried_until_it_is_there() -> None:
    errors: list[Exception] = [kube.TemporaryError("no answer")]

    async def attempt() -> None:
        if errors:
            raise errors.pop()

    async with asyncio.timeout(5):
        assert await main.until_it_works(attempt, stop=asyncio.Event())
    assert errors == []


async def test_the_lag_of_the_loop_is_what_a_sample_is_late_by() -> None:
    clock, blocked = Clock(0.0), iter((0.0, 3.0, 0.0))
    samples: list[float] = []

    async def sleep(seconds: float) -> None:
        try:
            clock.now += seconds + next(blocked)
        except StopIteration:
            raise asyncio.CancelledError from None

    with pytest.raises(asyncio.CancelledError):
        await main.measure_lag(samples.append, clock=clock, sleep=sleep)
    assert samples == pytest.approx([0.0, 3.0, 0.0])


def test_the_operator_answers_probes_and_scrapes_on_both_families(served_api: Cluster, tmp_path: Path) -> None:
    """In a pod it has no address given; here the default is given in words, beside others that keep to IPv4."""
    every = {"GPUBENCH_METRICS_ADDRESS": settings.load({}).metrics_address}
    with installation.running_operator(served_api, log=tmp_path / "log", settings=every) as operator:
        for host in ("[::1]", "127.0.0.1"):
            for page in ("healthz", "readyz", "metrics"):
                assert installation.read_page(f"http://{host}:{operator.port}/{page}")
