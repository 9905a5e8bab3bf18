# SPDX-License-Identifier: Apache-2.0
import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
import time
import urllib.error
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import yaml
from kubernetes.aio.client import configuration

import installation
import stored_analysis
import studies
from cluster import Cluster
from gpubench import names
from gpubench_cluster import kube
from gpubench_operator import analyst, leader, main, queue, settings
from memory_kube import MemoryKube
from memory_world import KEY, Clock, World

HANGS_SECONDS = 60.0  # all of it takes less than one; a loaded machine takes longer


def test_a_line_of_the_log_is_one_object_with_the_moment_in_utc() -> None:
    record = logging.LogRecord("gpubench.x", logging.WARNING, "file", 1, "ended\n%s", ("badly",), None)
    record.created, record.benchmark, record.error = 1_800_000_000.25, "quick", None
    assert json.loads(main.JsonLines().format(record)) == {
        "time": "2027-01-15T08:00:00.250+00:00", "level": "warning", "logger": "gpubench.x", "event": "ended\nbadly",
        "benchmark": "quick",
    }  # fmt: skip
    assert "\n" not in main.JsonLines().format(record)


def test_the_operator_loads_no_special_functions_before_it_needs_one() -> None:
    code = "import sys, gpubench_operator.main; print('scipy.special' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


async def test_a_stop_is_obeyed_while_what_is_needed_is_not_there_yet() -> None:
    stop, tried = asyncio.Event(), 0

    async def attempt() -> None:
        nonlocal tried
        tried += 1
        stop.set()
        raise kube.PermanentError("no such CRD", code=404)

    async with asyncio.timeout(HANGS_SECONDS):
        assert not await main.until_it_works(attempt, stop=stop)
    assert tried == 1


async def test_what_is_needed_is_tried_until_it_is_there_and_each_obstacle_is_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(main, "_PREPARED_AGAIN_SECONDS", 0.0)
    errors: list[Exception] = [kube.TemporaryError(said) for said in ("no pools", "no answer", "no answer")]

    async def attempt() -> None:
        if errors:
            raise errors.pop()

    async with asyncio.timeout(HANGS_SECONDS):
        assert await main.until_it_works(attempt, stop=asyncio.Event())
    assert errors == []
    assert [one.__dict__["error"] for one in caplog.records] == ["no answer", "no pools"]


async def test_without_a_cluster_the_operator_says_so_and_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def credentials(**_: object) -> None:
        raise kube.PermanentError("nothing is configured")

    monkeypatch.setattr(kube, "credentials", credentials)
    assert await main.run(settings.load({})) == 2
    assert [one.message for one in caplog.records] == ["no cluster"]


def test_a_lost_lease_ends_the_process_at_once_with_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    codes = list[int]()
    monkeypatch.setattr(os, "_exit", codes.append)
    main._end_at_once()
    assert (codes, [one.message for one in caplog.records]) == ([1], ["lease lost"])


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


class WatchEnds:
    """Watching that fails at once, or after `lasting` seconds, with each of some errors; then it is cancelled."""

    def __init__(self, errors: Iterable[Exception], *, lasting: float = 0.0) -> None:
        self.errors, self.lasting, self.clock = iter(errors), lasting, Clock(0.0)
        self.watched = self.begun_again = 0

    async def watch(self) -> None:
        self.clock.now += self.lasting
        try:
            error = next(self.errors)
        except StopIteration:
            raise asyncio.CancelledError from None
        self.watched += 1
        raise error

    async def begin_again(self) -> None:
        self.begun_again += 1

    async def sleep(self, seconds: float) -> None:
        self.clock.now += seconds

    async def run(self) -> None:
        await main.keep_watching(self.watch, self.begin_again, clock=self.clock, sleep=self.sleep)


async def test_watching_that_fails_again_and_again_ends_the_operator_after_minutes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ends = WatchEnds(OSError(f"failure {number}") for number in range(1, 1_000))
    with pytest.raises(RuntimeError, match="the last time with OSError: failure 60"):
        await ends.run()
    assert ends.begun_again == ends.watched
    assert 120.0 < ends.clock.now < 600.0
    said = [one.__dict__["error"] for one in caplog.records if one.message == "watching failed"]
    assert said == [f"OSError: failure {number}" for number in range(1, 61)]


async def test_watching_that_goes_well_in_between_is_begun_anew_for_ever() -> None:
    ends = WatchEnds((OSError("now and then") for _ in range(1_000)), lasting=61.0)
    with pytest.raises(asyncio.CancelledError):
        await ends.run()
    assert (ends.watched, ends.begun_again) == (1_000, 1_000)


async def test_reconciles_under_way_end_before_leading_does_whatever_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    process = main.Process(settings.load({}), configuration.Configuration(), clock=time.time)
    order: list[str] = []
    begun, failed = asyncio.Event(), asyncio.Event()

    async def reconcile(_: queue.Key) -> None:
        begun.set()
        await failed.wait()
        for _turn in range(10):  # the loop runs all others meanwhile
            await asyncio.sleep(0)
        order.append("written")

    async def fail(*_: object) -> None:
        await begun.wait()
        failed.set()
        raise RuntimeError("watching failed for good")

    process.queue = queue.WorkQueue(reconcile, clock=time.monotonic)
    monkeypatch.setattr(process, "_prepare", _nothing)
    monkeypatch.setattr(process.benchmarks, "rebuild", _nothing)
    monkeypatch.setattr(main, "keep_watching", fail)
    try:
        with pytest.raises(RuntimeError, match="watching failed for good"):
            await process.lead()
        order.append("ended")
    finally:
        process.benchmarks.analyst.stop()
        await process.api.close()
    assert order[-1] == "ended"
    assert "written" in order


async def test_a_reconcile_that_does_not_end_keeps_nobody_from_leading_for_longer_than_its_grace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process = main.Process(settings.load({}), configuration.Configuration(), clock=time.time)

    async def reconcile(_: queue.Key) -> None:
        process.stop.set()
        await asyncio.Event().wait()

    process.queue = queue.WorkQueue(reconcile, clock=time.monotonic)
    monkeypatch.setattr(process, "_prepare", _nothing)
    monkeypatch.setattr(process.benchmarks, "rebuild", _nothing)
    monkeypatch.setattr(process, "_watch", asyncio.Event().wait)
    monkeypatch.setattr(main, "_STOP_SECONDS", 0.01)
    try:
        async with asyncio.timeout(HANGS_SECONDS):
            await process.lead()
    finally:
        process.benchmarks.analyst.stop()
        await process.api.close()


class Wedges:
    """A process that leads with two workers, whose reconcile of `stuck` never ends, and a clock that is set by hand."""

    def __init__(self) -> None:
        self.process = main.Process(settings.load({}), configuration.Configuration(), clock=time.time)
        self.clock, self.begun, self.others = Clock(0.0), asyncio.Event(), asyncio.Event()
        self.process.queue = queue.WorkQueue(self.reconcile, clock=self.clock)
        self.asked = 0  # requests of the API server that are answered before it gets stuck

    async def reconcile(self, key: queue.Key) -> None:
        if key.name != "stuck":
            self.others.set()
            return
        for _ in range(self.asked):
            self.clock.now += 200.0
            await asyncio.create_task(self.answer())
        self.begun.set()
        await asyncio.Event().wait()

    async def answer(self) -> None:
        """As some requests are, in a task of their own."""
        self.process._count("get", "jobs", "200")

    @contextlib.asynccontextmanager
    async def leading(self) -> AsyncIterator[asyncio.Task[None]]:
        """Until the reconcile is stuck, and all else that was due is done."""
        working = asyncio.create_task(self.process.queue.run(workers=2))
        try:
            yield working
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            self.process.benchmarks.analyst.stop()
            await self.process.api.close()

    async def page(self) -> tuple[int, str]:
        """Status and text of /healthz, over HTTP."""
        address = f"http://127.0.0.1:{await self.process.server.start(address='127.0.0.1', port=0)}/healthz"
        try:
            async with aiohttp.ClientSession() as session, session.get(address) as answer:
                return answer.status, await answer.text()
        finally:
            await self.process.server.stop()


@pytest.mark.parametrize("asked", [0, 3])
async def test_a_reconcile_that_hangs_fails_liveness_with_its_object_and_since_when(asked: int) -> None:
    """Also beside others that go on; but not one that is slow, and has answers."""
    wedges = Wedges()
    wedges.asked, stuck = asked, queue.benchmark_key("team", "stuck")
    wedges.process.queue.add(stuck)
    async with wedges.leading():
        await wedges.begun.wait()
        assert wedges.process._healthy() == (True, "standing by"), "its slowest request took less than the bound"
        wedges.clock.now += 240.0
        assert wedges.process._healthy()[0], "an analysis may take 120 s"
        wedges.clock.now += 1.0
        wedges.process.queue.add(queue.POOLS)
        await wedges.others.wait()
        before = datetime.now(UTC)
        status, said = await wedges.page()
    assert (status, said.count("\n")) == (503, 1)
    assert said.startswith("benchmark/team/stuck is being reconciled without progress since 20")
    since = datetime.fromisoformat(said.split()[-1])
    assert timedelta(seconds=239) < before - since < timedelta(seconds=242)


async def test_what_is_due_and_taken_by_nobody_fails_liveness_only_of_who_leads() -> None:
    wedges = Wedges()
    wedges.process.queue.add(queue.benchmark_key("team", "stuck"))
    wedges.clock.now += 1_000.0
    assert wedges.process._healthy() == (True, "standing by"), "a standby replica has nothing to do"
    async with wedges.leading() as working:
        await wedges.begun.wait()
        assert wedges.process._healthy()[0]
        working.cancel()  # as if it had missed what is due
        await asyncio.wait({working})
        wedges.process.queue.add(queue.RESYNC, 300.0)
        wedges.clock.now += 300.0 + 240.0
        assert wedges.process._healthy()[0], "it is due for 240 s only"
        wedges.clock.now += 1.0
        well, said = wedges.process._healthy()
    assert not well
    assert said.startswith("resync is due and not reconciled since 20")


async def _nothing() -> None:
    """What is needed is there."""


class Life:
    """`main.run` on an API server in memory: in place of kopf `watch` says that everything may have changed."""

    def __init__(self, patch: pytest.MonkeyPatch, options: settings.Settings) -> None:
        self.world, self.options = World(repeats=2), options
        self.world.api.permitted = "default"
        self.leases = MemoryKube(self.world.clock)
        self.address = f"http://{options.metrics_address}:{options.metrics_port}"
        self.said = self.metrics = ""
        patch.setattr(kube, "credentials", self.credentials)
        patch.setattr(main.Process, "_connection", lambda *_, **__: self.world.api)
        patch.setattr(main.Process, "_connect_lease", lambda _: self.connect_lease())
        patch.setattr(main.Process, "_watch", lambda process: self.watch(process.queue, process.stop))
        patch.setattr(main, "_INTERVAL", 0.0)
        made = analyst.Analyst
        patch.setattr(analyst, "Analyst", lambda *, wake, **_: made(wake=wake, worker=stored_analysis.AtOnce))

    async def credentials(self, **_: object) -> tuple[configuration.Configuration, str]:
        return configuration.Configuration(), "default"

    async def connect_lease(self) -> MemoryKube:
        return self.leases

    async def watch(self, due: "queue.WorkQueue[queue.Key]", stop: asyncio.Event) -> None:
        while (
            "status" not in self.world.api.all(kube.POOLS)[0]
            or self.world.condition("Finished").get("status") != "True"
        ):
            due.add(KEY)
            self.world.clock.now += 1.0
            self.world.progress()
            await asyncio.sleep(0)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"{self.address}/healthz") as answer:
                self.said = await answer.text()
            async with session.get(f"{self.address}/metrics") as answer:
                self.metrics = await answer.text()
        stop.set()
        await asyncio.Event().wait()

    async def run(self) -> int:
        async with asyncio.timeout(HANGS_SECONDS):
            return await main.run(self.options, clock=self.world.clock)


async def test_a_process_takes_the_lease_serves_its_namespace_and_gives_the_lease_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    given = {"METRICS_ADDRESS": "127.0.0.1", "IDENTITY": "it", "WATCH_NAMESPACES": "default"}
    given["METRICS_PORT"] = str(port := installation.free_port())
    options = settings.load({f"GPUBENCH_{name}": value for name, value in given.items()})
    life = Life(monkeypatch, options)
    caplog.set_level("INFO")
    assert await life.run() == 0
    assert life.said == "leading\n"
    assert life.world.status()["phase"] == "Succeeded"
    (pool,) = life.world.api.all(kube.POOLS)
    assert (pool["status"]["nodes"], pool["status"]["health"]) == (4, [])
    assert 'gpubench_pool_slots{pool="pretend"' in life.metrics
    assert "gpubench_operator_leader 1.0" in life.metrics
    (lease,) = life.leases.all(kube.LEASES)
    assert (lease["spec"]["holderIdentity"], lease["spec"]["leaseTransitions"]) == ("", 0)
    said = {one.message: one.__dict__ for one in caplog.records}
    assert said["leading"]["identity"] == options.identity
    assert (said["serving"]["address"], said["serving"]["port"]) == ("127.0.0.1", port)


async def test_a_resync_finds_what_no_event_told(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    monkeypatch.setattr(main.Process, "_connection", lambda *_, **__: world.api)
    options = settings.load({"GPUBENCH_WATCH_NAMESPACES": "default", "GPUBENCH_RESYNC_SECONDS": "77"})
    process, woken = main.Process(options, configuration.Configuration(), clock=world.clock), list[queue.Key]()
    monkeypatch.setattr(process.queue, "add", woken.append)
    world.api.put(kube.BENCHMARKS, studies.benchmark(namespace="not-ours"))
    gone = queue.benchmark_key("default", "gone")
    process.series.observe(gone, world.api.all(kube.BENCHMARKS)[0])
    assert await process._reconcile(queue.RESYNC) == 77.0
    assert sorted(woken) == sorted([KEY, gone, queue.CORDONS])
    assert process.series.keys() >= {KEY}
    woken.clear()
    await world.look()  # it has a Job now, and another one is about to be made
    uid = next(kube.uid_of(body) for body in world.api.all(kube.BENCHMARKS) if kube.name_of(body) == KEY.name)
    process.benchmarks.slots.reserve(KEY, uid, job="about to be made", pool="pretend", slots=4)
    await process._begin_again()
    assert woken == [queue.RESYNC]
    assert process.benchmarks.slots.held() == {"pretend": 4}, "of a reconcile that goes on meanwhile"


def test_the_operator_answers_probes_and_scrapes_on_both_families(served_api: Cluster, tmp_path: Path) -> None:
    """In a pod it has no address given; here the default is given in words, beside others that keep to IPv4."""
    every = {"GPUBENCH_METRICS_ADDRESS": settings.load({}).metrics_address}
    with installation.running_operator(served_api, log=tmp_path / "log", settings=every) as operator:
        for host in ("[::1]", "127.0.0.1"):
            for page in ("healthz", "readyz", "metrics"):
                assert installation.read_page(f"http://{host}:{operator.port}/{page}")


def test_no_proxy_of_the_environment_is_for_a_server_on_this_machine(
    served_api: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither requests nor watches, nor those of the demo that starts both."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with installation.running_operator(served_api, log=tmp_path / "log", settings=installation.ALONE):
        _until(lambda: _watches(served_api, "gpupools"), what="a watch")


def test_definitions_that_are_absent_or_deleted_are_named_and_the_operator_goes_on_when_they_are_back(
    tmp_path: Path,
) -> None:
    pools = f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}"

    def serves(cluster: Cluster, name: str) -> None:
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(studies.pool(name)))
        _until(lambda: cluster.request("GET", f"{pools}/{name}").get("status"), what=f"a status of pool {name}")

    with Cluster.start(tmp_path / "cluster") as cluster:
        kubeconfig = installation.install(cluster)
        _delete_definitions(cluster)
        operator = installation.Operator(kubeconfig, log=tmp_path / "log", settings=installation.ALONE)
        operator.start(wait=False)
        try:
            pid = operator.pid
            for name in ("absent-at-its-start", "deleted-while-it-runs"):
                _until(lambda: "the cluster does not know gpupools.gpubench.dev" in _readiness(operator), what=name)
                installation.install_definitions(cluster)
                operator.wait_until_ready()
                serves(cluster, name)
                if name == "absent-at-its-start":
                    _delete_definitions(cluster)
            _until(lambda: _watches(cluster, "nodes") == 1, what="no watcher of before beside its successor")
            assert (operator.pid, operator.has_ended()) == (pid, False)
        finally:
            operator.stop()
    log = operator.log.read_text()
    assert "Traceback" not in log
    assert log.count("watching failed") == 1


def _watches(cluster: Cluster, resource: str) -> int:
    """Those of the operator that go on."""
    stages: dict[str, set[str]] = {"ResponseStarted": set(), "ResponseComplete": set()}
    for event in cluster.audit_events():
        of, who = (event.get("objectRef") or {}).get("resource"), event["user"]["username"]
        if (event["verb"], of, who.rpartition(":")[2]) == ("watch", resource, installation.ACCOUNT):
            stages[event["stage"]].add(event["auditID"])
    return len(stages["ResponseStarted"] - stages["ResponseComplete"])


def _delete_definitions(cluster: Cluster) -> None:
    cluster.kubectl("delete", "-f", str(installation.CHART_FILES / "crds"), "--wait")


def _readiness(operator: installation.Operator) -> str:
    """What /readyz says while it says no."""
    try:
        operator.get("/readyz")
    except urllib.error.HTTPError as error:
        return error.read().decode()
    except OSError:  # it does not listen yet
        return ""
    return ""


def _until(look: Callable[[], object], *, what: str) -> None:
    deadline = time.monotonic() + 60.0
    while not look():
        assert time.monotonic() < deadline, f"{what}: not within 60 s"
        time.sleep(0.1)


async def test_requests_keep_a_pace_and_those_for_the_lease_wait_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    away, taken = configuration.Configuration(), list[kube.Pace]()
    away.host = "http://127.0.0.1:9"

    async def credentials(**_: object) -> tuple[configuration.Configuration, str]:
        return away, "default"

    def take(pace: kube.Pace) -> float:
        taken.append(pace)
        return 0.0

    monkeypatch.setattr(kube, "credentials", credentials)
    monkeypatch.setattr(kube.Pace, "take", take)
    process = main.Process(settings.load({}), away, clock=time.time)
    for api in (process.api, await process._connect_lease()):
        with pytest.raises(kube.TemporaryError):
            await api.get(kube.LEASES, name="operator", namespace="default")
        await api.close()
    assert len(taken) == 1


async def test_nothing_is_written_once_the_lease_is_uncertain_also_in_the_middle_of_a_reconcile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    away, pods = configuration.Configuration(), {"name": "pod", "namespace": "default"}
    away.host = "http://127.0.0.1:9"
    process = main.Process(settings.load({}), away, clock=time.time)
    writes: list[Callable[[], Awaitable[object]]] = [
        lambda: process.api.create(kube.JOBS, {"metadata": pods}),
        lambda: process.api.patch(kube.PODS, {}, **pods),
        lambda: process.api.replace(kube.JOBS, {"metadata": pods}),
        lambda: process.api.delete(kube.PODS, **pods, uid="1"),
        lambda: process.api.evict(pod="pod", namespace="default", uid=None),
    ]
    try:
        with pytest.raises(kube.TemporaryError, match="no answer from the API server"):
            await process.api.get(kube.PODS, **pods)
        for holds, said in ((False, "the Lease is not certain just now"), (True, "no answer from the API server")):
            monkeypatch.setattr(leader.LeaseThread, "holds", holds)
            for write in writes:
                with pytest.raises(kube.TemporaryError, match=said):
                    await write()
    finally:
        process.benchmarks.analyst.stop()
        await process.api.close()
