# SPDX-License-Identifier: Apache-2.0
import asyncio

from gpubench_cluster import kube
from gpubench_operator import queue
from memory_world import Clock


class Recorder:
    def __init__(self) -> None:
        self.clock = Clock(0.0)
        self.seen: list[str] = []
        self.answers: list[float | Exception | None] = []
        self.outcomes: list[str] = []
        self.queue: queue.WorkQueue[str] = queue.WorkQueue(
            self.handle,
            clock=self.clock,
            interval=0.2,
            report=lambda outcome, seconds: self.outcomes.append(f"{outcome} {seconds:g}"),
            jitter=lambda: 1.0,
        )

    async def handle(self, key: str) -> float | None:
        self.seen.append(key)
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def drain(self) -> None:
        while await self.queue.work_once():
            pass


async def test_a_key_waits_once_however_often_it_is_added() -> None:
    recorder = Recorder()
    for key in "aaba":
        recorder.queue.add(key)
    assert recorder.queue.depth == 2
    await recorder.drain()
    assert recorder.seen == ["a", "b"]


async def test_what_is_due_first_is_handled_first_whatever_its_name() -> None:
    recorder = Recorder()
    recorder.clock.now = 1.0
    recorder.queue.add("a")
    recorder.clock.now = 0.5
    recorder.queue.add("b")
    recorder.clock.now = 2.0
    await recorder.drain()
    assert recorder.seen == ["b", "a"]


async def test_an_event_during_a_reconcile_leads_to_another_one_after_the_interval() -> None:
    recorder = Recorder()

    async def handle(key: str) -> None:
        recorder.seen.append(key)
        if len(recorder.seen) == 1:
            recorder.queue.add(key)

    recorder.queue._handle = handle
    recorder.queue.add("a")
    await recorder.drain()
    assert recorder.seen == ["a"]
    recorder.clock.now = 0.2
    await recorder.drain()
    assert recorder.seen == ["a", "a"]


async def test_one_key_is_never_handled_twice_at_the_same_time() -> None:
    clock, running, most = Clock(0.0), 0, 0

    async def handle(_: str) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1

    tested: queue.WorkQueue[str] = queue.WorkQueue(handle, clock=clock)
    for _ in range(20):
        tested.add("a")
        await asyncio.gather(*(tested.work_once() for _ in range(4)))
    assert most == 1


async def test_a_wake_up_comes_at_its_time_and_an_earlier_one_replaces_it() -> None:
    recorder = Recorder()
    recorder.queue.add("a", 60)
    recorder.queue.add("a", 5)
    recorder.queue.add("a", 90)
    assert recorder.queue.wait() == 5
    recorder.clock.now = 5
    await recorder.drain()
    recorder.clock.now = 100
    await recorder.drain()
    assert recorder.seen == ["a"]


async def test_an_answer_is_a_wake_up() -> None:
    recorder = Recorder()
    recorder.answers = [30.0]
    recorder.queue.add("a")
    await recorder.drain()
    assert recorder.queue.wait() == 30.0


async def test_failures_are_tried_for_ever_with_growing_bounded_delays() -> None:
    recorder = Recorder()
    delays = []
    recorder.queue.add("a")
    for _ in range(12):
        recorder.answers = [RuntimeError("broken")]
        await recorder.drain()
        delay = recorder.queue.wait()
        assert delay is not None
        delays.append(delay)
        recorder.clock.now += delay
    assert delays[:4] == [0.5, 1.0, 2.0, 4.0]
    assert delays[-1] == 60.0
    assert set(recorder.outcomes) == {"failed 0"}


async def test_a_delay_that_the_server_asks_for_is_kept() -> None:
    recorder = Recorder()
    recorder.answers = [kube.TemporaryError("too many requests", delay=7.0)]
    recorder.queue.add("a")
    await recorder.drain()
    assert recorder.queue.wait() == 7.0 * 1.25, "and not by all at the same moment"


async def test_success_forgets_failures() -> None:
    recorder = Recorder()
    for answers in ([RuntimeError()], [RuntimeError()], [None], [RuntimeError()]):
        recorder.answers = list(answers)
        recorder.queue.add("a")
        recorder.clock.now += 10
        await recorder.drain()
    assert recorder.queue.wait() == 0.5


async def test_closing_lets_the_reconcile_under_way_end() -> None:
    begun, go_on, ended = asyncio.Event(), asyncio.Event(), []

    async def handle(key: str) -> None:
        begun.set()
        await go_on.wait()
        ended.append(key)

    tested: queue.WorkQueue[str] = queue.WorkQueue(handle, clock=asyncio.get_running_loop().time)
    running = asyncio.create_task(tested.run(workers=2))
    tested.add("a")
    await begun.wait()
    tested.close()
    go_on.set()
    await asyncio.wait_for(running, 5)
    assert ended == ["a"]


async def test_running_workers_see_keys_and_wake_ups() -> None:
    recorder = Recorder()
    tested: queue.WorkQueue[str] = queue.WorkQueue(recorder.handle, clock=asyncio.get_running_loop().time)
    running = asyncio.create_task(tested.run(workers=2))
    tested.add("now")
    tested.add("soon", 0.02)
    async with asyncio.timeout(5):
        while len(recorder.seen) < 2:  # noqa: ASYNC110  # what is tested must need no event
            await asyncio.sleep(0.005)
    tested.close()
    await asyncio.wait_for(running, 5)
    assert recorder.seen == ["now", "soon"]
