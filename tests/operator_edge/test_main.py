# SPDX-License-Identifier: Apache-2.0
import asyncio

from gpubench_cluster import kube
from gpubench_operator import main


async def test_a_stop_is_obeyed_while_what_is_needed_is_not_there_yet() -> None:
    stop, tried = asyncio.Event(), 0

    async def attempt() -> None:
        nonlocal tried
        tried += 1
        stop.set()
        raise kube.PermanentError("no such CRD", code=404)

    async with asyncio.timeout(5):
        assert not await main.until_it_works(attempt, what="the CRDs", stop=stop)
    assert tried == 1


async def test_what_is_needed_is_tried_until_it_is_there() -> None:
    errors: list[Exception] = [kube.TemporaryError("no answer")]

    async def attempt() -> None:
        if errors:
            raise errors.pop()

    async with asyncio.timeout(5):
        assert await main.until_it_works(attempt, what="the CRDs", stop=asyncio.Event())
    assert errors == []
