# SPDX-License-Identifier: Apache-2.0
"""Analyses come from a process of their own, which may be late, fail or die; nothing finishes without one."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest

import builders
import stored_analysis
from gpubench.analysis import analyze
from gpubench.api.benchmark_status import AnalysisReference
from gpubench.scheduler import ledger, manifests
from gpubench.scheduler import step as steps
from gpubench_cluster import kube
from gpubench_operator import analyst, benchmark, exporter, observe, settings
from memory_world import KEY, Clock, World


async def asked(analyses: analyst.Analyst, woken: asyncio.Event) -> analyst.Made:
    """As a reconciler asks: again when it is woken."""
    study, plan = builders.study(), builders.plan()
    recorded = ledger.Ledger(records=(builders.attempt(),))
    made = steps.of_ledger(plan, recorded, study)
    for _ in range(3):
        woken.clear()
        entries = ledger.to_entries(recorded.records)
        latest = await analyses.latest(study, plan, entries, made.points, ledger_version=recorded.version)
        if latest.made is not None:
            expected = analyze.analyze(plan, recorded, made.points, study.spec).to_json()
            assert "".join(latest.made.parts) == expected
            return latest.made
        if latest.again is None:
            await asyncio.wait_for(woken.wait(), timeout=60)
        await asyncio.sleep(latest.again or 0)
    raise AssertionError("no analysis after three tries")


async def test_an_analysis_of_the_worker_is_that_of_this_process_and_a_worker_that_dies_is_replaced() -> None:
    woken = asyncio.Event()
    analyses = analyst.Analyst(wake=lambda _: woken.set())
    try:
        first = await asked(analyses, woken)
        executor = analyses._executor()
        worker = await asyncio.wrap_future(executor.submit(os.getpid))
        assert worker != os.getpid()
        os.kill(worker, signal.SIGKILL)
        analyses.forget(builders.study().uid)
        assert await asked(analyses, woken) == first
        assert analyses._executor() is not executor
    finally:
        analyses.stop()


async def test_a_worker_that_is_ended_while_analyses_are_forgotten_keeps_no_thread_for_which_a_process_waits() -> None:
    plan, entries = builders.plan(), {"a.1": "more than a pipe takes" * 10_000}
    studies = [builders.study().model_copy(update={"uid": f"uid-{number}"}) for number in range(6)]
    before = {*threading.enumerate()}
    analyses = analyst.Analyst(wake=lambda _: None)
    vars(analyses._executor())["_call_queue"].cancel_join_thread()  # else this process waits for it where this fails
    try:
        os.kill(await asyncio.wrap_future(analyses._executor().submit(os.getpid)), signal.SIGSTOP)
        await asyncio.gather(*(analyses.latest(one, plan, entries, (), ledger_version=1) for one in studies))
        for one in studies:
            analyses.forget(one.uid)
        await asyncio.sleep(0.1)  # what is cancelled was told to the pool
    finally:
        analyses.stop()
    for thread in {*threading.enumerate()} - before:
        await asyncio.to_thread(thread.join, 30)
        assert not thread.is_alive(), thread


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_what_hangs_in_the_worker_ends_after_its_own_time_and_nothing_that_waits_behind_it(
    is_forgotten: bool,
) -> None:
    release = threading.Event()
    analyses = analyst.Analyst(wake=lambda _: None, worker=lambda: futures.ThreadPoolExecutor(1), longest=1.0)
    try:
        hangs = asyncio.create_task(analyses._ask(release.wait))
        await asyncio.sleep(0)
        waits = asyncio.create_task(analyses._ask(lambda: "there"))
        if is_forgotten:  # as with its benchmark
            hangs.cancel()
        with pytest.raises(asyncio.CancelledError if is_forgotten else TimeoutError):
            await hangs
        assert await waits == "there"
    finally:
        release.set()
        analyses.stop()


async def test_who_waits_for_the_worker_at_the_end_of_the_process_starts_none() -> None:
    release, started = threading.Event(), list[futures.Executor]()

    def worker() -> futures.Executor:
        started.append(futures.ThreadPoolExecutor(1))
        return started[-1]

    analyses = analyst.Analyst(wake=lambda _: None, worker=worker)
    asked = [asyncio.create_task(analyses._ask(release.wait)) for _ in range(2)]
    await asyncio.sleep(0.01)
    analyses.stop()
    ended = await asyncio.gather(*asked, return_exceptions=True)
    release.set()
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    assert len(started) == 1


class Gate(stored_analysis.AtOnce):
    """A worker that is as late as the test wants."""

    def __init__(self) -> None:
        self.is_open = True
        self.waiting: list[Callable[[], None]] = []

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> "futures.Future[Any]":
        if self.is_open:
            return super().submit(fn, *arguments, **named)
        future: futures.Future[Any] = futures.Future()
        self.waiting.append(lambda: future.set_result(fn(*arguments, **named)))
        return future

    def open(self) -> None:
        self.is_open = True
        for answer in self.waiting:
            answer()


def with_worker(world: World, worker: futures.Executor) -> None:
    """A new operator whose analyses are made there."""
    world.operator = benchmark.BenchmarkReconciler(
        world.api,
        options=settings.load({"GPUBENCH_IDENTITY": "test"}),
        series=world.series,
        wake=world.woken.append,
        nodes=observe.NodeStates(world.api, clock=world.clock),
        worker=lambda: worker,
        clock=world.clock,
    )


async def until_over(world: World) -> None:
    """Until nothing is to be run any more."""
    for _ in range(40):
        await world.look()
        world.clock.now += 1
        if not world.progress() and all(entry.get("outcome") for entry in world.ledger().values()):
            return


async def test_nothing_finishes_before_the_analysis_of_all_its_attempts_is_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(analyst, "_PATIENCE_SECONDS", 0.01)
    world, gate = World(repeats=1), Gate()
    with_worker(world, gate)
    await world.look()
    gate.is_open = False
    await until_over(world)
    for _ in range(3):
        await world.look()
        assert world.condition("Finished")["status"] == "False"
    gate.open()
    await asyncio.sleep(0)  # what has an answer now goes on
    world.woken.clear()
    for _ in range(3):
        await world.look()
    assert world.condition("Finished")["status"] == "True"
    (body,) = world.api.all(kube.BENCHMARKS)
    changes = 2 * len(world.ledger()) + len(world.environments())  # an attempt ends, and its pods with it
    assert body["status"]["analysis"]["ledgerVersion"] == changes
    assert world.status()["points"]["measured"] == 2  # of the very analysis whose hash is in the status


async def test_an_analysis_that_fails_is_told_and_its_figures_follow(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(stored_analysis.AtOnce):
        is_broken = True

        def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> "futures.Future[Any]":
            def failing(*_: Any, **__: Any) -> None:
                raise ZeroDivisionError("a bug")

            return super().submit(failing if self.is_broken else fn, *arguments, **named)

    monkeypatch.setattr(analyst, "_AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(analyst, "_MUCH_LATER_SECONDS", 0.05)
    world, worker = World(repeats=1), Broken()
    with_worker(world, worker)
    await until_over(world)
    for _ in range(3):
        await world.look()
    finished = world.condition("Finished")
    assert (finished["status"], finished["reason"]) == ("True", "AnalysisFailed")
    assert "ZeroDivisionError: a bug" in finished["message"]
    said = next(one.__dict__ for one in caplog.records if one.message == "analysis failed")
    assert (said["namespace"], said["benchmark"], said["error"]) == ("default", "quick", "ZeroDivisionError: a bug")
    assert world.condition("Succeeded")["status"] == "Unknown"
    worker.is_broken = False
    await asyncio.sleep(0.06)
    await world.look()
    assert world.condition("Finished")["reason"] == "AllPointsEnded"
    assert world.condition("Succeeded")["status"] == "True"
    assert [result["state"] for result in world.status()["results"]] == ["Measured"] * 2


async def restarted(world: World) -> dict[str, bytes]:
    """The lines of a finished benchmark after a restart."""
    world.series = exporter.Series()
    world.start_operator()
    await world.operator.rebuild()
    (body,) = world.api.all(kube.BENCHMARKS)
    assert world.series.lacks(KEY, body)
    await world.look()
    return dict(world.series._seen[KEY].results)


@pytest.mark.parametrize("change", ["nothing", "another text", "no ConfigMap"])
async def test_after_a_restart_a_finished_benchmark_has_its_series_whatever_became_of_its_analysis(
    change: str,
) -> None:
    world = World(repeats=1)
    await world.finish()
    before = dict(world.series._seen[KEY].results)
    (body,) = world.api.all(kube.BENCHMARKS)
    name = AnalysisReference.model_validate(body["status"]["analysis"]).config_map
    stored = next(one for one in world.api.all(kube.CONFIG_MAPS) if kube.name_of(one) == name)
    if change == "another text":
        text = manifests.read_analysis_part(stored).replace('"mean":', '"mean":9', 1)
        world.api.put(kube.CONFIG_MAPS, {**stored, "data": {"analysis.json": text}})
    if change == "no ConfigMap":
        world.api.remove(kube.CONFIG_MAPS, name=name, namespace="default")
    writes = len(world.api.writes)
    assert await restarted(world) == before
    assert len(world.api.writes) == writes + (change != "nothing"), "its analysis is there again"
    assert world.api.all(kube.BENCHMARKS) == (body,)


async def test_an_analysis_of_several_parts_is_read_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "_PART_BYTES_MAX", 1000)
    world = World(repeats=1)
    await world.finish()
    (body,) = world.api.all(kube.BENCHMARKS)
    reference = AnalysisReference.model_validate(body["status"]["analysis"])
    there = {kube.name_of(one) for one in world.api.all(kube.CONFIG_MAPS) if "-analysis-" in kube.name_of(one)}
    assert set(reference.config_maps) == there
    assert reference.parts > 2
    assert [result["state"] for result in world.status()["results"]] == ["Measured"] * 2  # joined, and of that hash


def test_a_part_ends_between_two_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyze, "_PART_BYTES_MAX", 4)
    assert analyze.cut("測測a測") == ("測", "測a", "測")


async def test_an_analysis_is_tried_three_times_before_it_is_told_that_it_fails() -> None:
    class Broken(stored_analysis.AtOnce):
        def submit(self, *_: Any, **__: Any) -> "futures.Future[Any]":
            raise ZeroDivisionError

    clock, world = Clock(0.0), World(repeats=1)
    tested = analyst.Analyst(wake=lambda _: None, worker=Broken, clock=clock)
    await world.look()
    study, plan = await world.planned()
    told = []
    for _ in range(4):
        found = await tested.latest(study, plan, {}, (), ledger_version=1)
        told.append((found.failure, found.again))
        clock.now += found.again or 0.0
    assert told == [(None, 1.0)] * 2 + [("ZeroDivisionError", 300.0)] * 2
