# SPDX-License-Identifier: Apache-2.0
"""The life of the operator's process: stand by, lead, stop; and its logs.

A signal ends it in order: no new reconcile, those under way end, the Lease is given back. A lost Lease ends it at once:
another operator may lead within seconds, and nothing that this one still has in mind may be written.
"""

import asyncio
import contextlib
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, NoReturn

import kopf
import prometheus_client
from kubernetes.aio.client import configuration

from gpubench import names
from gpubench.api import schema
from gpubench.sanitize import one_line, printable
from gpubench_cluster import kube
from gpubench_operator import benchmark, exporter, leader, observe, pool, queue, schedule, server, settings, watch

_INTERVAL = 0.2  # seconds between two reconciles of one benchmark: a gang's pods change all at once
_STOP_SECONDS = 10.0  # for the reconciles under way; a pod gets 30
_LAG_SECONDS = 0.1  # between two samples of the event loop's lag
_PREPARED_AGAIN_SECONDS = 2.0
_WATCH_FAILURES = 60  # in a row, some five minutes by watch.Backoffs
_WATCHED_WELL_SECONDS = 60.0
#: Ledgers are large and live long. By the defaults what a reconcile leaves for a moment made the collector walk all of
#: them every three seconds, for 300 ms with eight benchmarks of 2,560 trials.
_GC_THRESHOLDS = (10_000, 5, 1_000)

_log = logging.getLogger(__name__)


def main() -> int:
    """Run until a signal comes; the exit code: 0 after a signal, 1 for a lost Lease or a bug, 2 for a bad setting."""
    try:
        options = settings.load()
    except settings.BadSetting as error:
        sys.stderr.write(f"gpubench_operator: {error}\n")  # logs are not set up yet
        return 2
    configure_logs(style=options.log_format, level=options.log_level)
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)
    return asyncio.run(run(options))


async def run(options: settings.Settings, *, clock: Callable[[], float] = time.time) -> int:
    """The whole life; the exit code. `clock` is the one that is compared with the API server's timestamps."""
    try:
        credentials, _ = await kube.credentials(in_cluster=True)
        process = Process(options, credentials, clock=clock)
    except kube.PermanentError as error:
        _log.error("no cluster", extra={"error": f"neither a service account nor a kubeconfig: {error}"})
        return 2
    except OSError as error:
        _log.error(
            "no certificate", extra={"error": f"GPUBENCH_METRICS_TLS_FOLDER={options.metrics_tls_folder}: {error}"}
        )
        return 2
    catch_signals(process.stop)
    port = await process.server.start(address=options.metrics_address, port=options.metrics_port)
    _log.info("serving", extra={"address": options.metrics_address, "port": port})
    lag = asyncio.create_task(measure_lag(process.health.loop_lag.observe), name="lag")
    process.lease.start()
    try:
        await _first_of(process.stop.wait(), process.lease.acquired.wait())
        if not process.stop.is_set():
            process.health.leader.set(1)
            await process.lead()
    finally:
        process.benchmarks.analyst.stop()
        await process.lease.stop()
        process.health.leader.set(0)
        lag.cancel()
        await process.server.stop()
        await process.api.close()
        if process.reviews is not None:
            await process.reviews.close()
    return 0


class Process:
    """All parts of a running operator, and what the probes ask."""

    def __init__(
        self, options: settings.Settings, credentials: configuration.Configuration, *, clock: Callable[[], float]
    ) -> None:
        self.options = options
        self.credentials = credentials
        self.stop = asyncio.Event()
        self.connected = False
        self.lacks = ""  # definitions without which nothing can be watched
        # The `_created` series would double the number of series and tell nothing.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]  # has no types
        registry = prometheus_client.CollectorRegistry()
        self.health = exporter.Health(registry)
        self.series = exporter.Series(keep_seconds=options.series_seconds, clock=clock)
        self.lease = leader.LeaseThread(self._connect_lease, options, lost=_end_at_once)
        pace = kube.Pace(options.requests_per_second, options.requests_burst)
        self.api = self._connection(credentials, pace=pace, may_write=lambda: self.lease.holds)
        self.queue: queue.WorkQueue[queue.Key] = queue.WorkQueue(
            self._reconcile, clock=time.monotonic, interval=_INTERVAL, report=self.health.reconciled
        )
        self.health.queue_depth.set_function(lambda: float(self.queue.depth))
        nodes, wake = observe.NodeStates(self.api, clock=clock), self.queue.add
        self.benchmarks = benchmark.BenchmarkReconciler(
            self.api, options=options, series=self.series, wake=wake, nodes=nodes, clock=clock
        )
        slots = self.benchmarks.slots
        pools = exporter.PoolCollector(held=slots.held, waiting=slots.waiting)
        registry.register(pools)
        self.pools = pool.PoolReconciler(
            api=self.api,
            options=options,
            plans=self.benchmarks.store.plans,
            collector=pools,
            nodes=nodes,
            recorder=self.benchmarks.recorder,
            wake=wake,
            clock=clock,
        )
        self.schedules = schedule.ScheduleReconciler(self.api, options=options, series=self.series, clock=clock)
        folder = options.metrics_tls_folder
        #: Of their own, so that no scrape takes a request from a reconcile.
        self.reviews = self._connection(credentials, pace=kube.Pace(20, 40)) if options.metrics_token_review else None
        self.server = server.Server(
            registry,
            self.series,
            healthy=self._healthy,
            ready=self._ready,
            certificate=server.Certificate(Path(folder)) if folder else None,
            review=server.Reviews(self.reviews, time.monotonic) if self.reviews is not None else None,
        )

    async def lead(self) -> None:
        """Watch and reconcile until `stop` is set. The caller holds the Lease."""
        for what in (self._prepare, self.benchmarks.rebuild):
            if not await until_it_works(what, stop=self.stop):
                return
        self.benchmarks.analyst.start()
        self.queue.add(queue.POOLS)
        self.queue.add(queue.CORDONS)  # those of an earlier process
        self.queue.add(queue.RESYNC, self.options.resync_seconds)
        working = asyncio.create_task(self.queue.run(workers=self.options.workers), name="queue")
        watching = asyncio.create_task(keep_watching(self._watch, self._begin_again), name="watching")
        _log.info("leading", extra={"identity": self.options.identity})
        try:
            await _first_of(self.stop.wait(), working, watching)
            if not self.stop.is_set():
                raise RuntimeError("watching or reconciling ended though nobody asked for it")
        finally:  # whatever it ends with: the caller gives the Lease back, and nothing may be written after that
            self.queue.close()
            await asyncio.wait({working}, timeout=_STOP_SECONDS)
            working.cancel()
            watching.cancel()
            await asyncio.gather(working, watching, return_exceptions=True)

    async def _begin_again(self) -> None:
        """Between two watches: wait for what they need; then a resync, as what was deleted meanwhile gives no event."""
        await asyncio.gather(*_cancel_watchers(), return_exceptions=True)
        if await until_it_works(self._prepare, stop=self.stop):
            self.queue.add(queue.RESYNC)

    async def _watch(self) -> None:
        """kopf, embedded. It takes the signals for itself when it starts; they are taken back."""
        made, nodes, gone = self.benchmarks.created, self.benchmarks.nodes, self.benchmarks.gone
        handlers = watch.Handlers(wake=self.queue.add, series=self.series, created=made, nodes=nodes, gone=gone)
        tasks = await kopf.spawn_tasks(
            registry=watch.registry(handlers, self.credentials),
            settings=watch.kopf_settings(self.options),
            clusterwide=not self.options.watch_namespaces,
            namespaces=self.options.watch_namespaces,
            standalone=True,
        )
        catch_signals(self.stop)
        for task in tasks:  # kopf closes connections next, and a watcher that asked again would end with a traceback
            task.add_done_callback(lambda _: _cancel_watchers())
        await kopf.run_tasks(tasks, ignored=_Every())

    async def _reconcile(self, key: queue.Key) -> float | None:
        reconcilers: dict[queue.Kind, Callable[[queue.Key], Awaitable[float | None]]] = {
            queue.Kind.BENCHMARK: self.benchmarks.reconcile,
            queue.Kind.SCHEDULE: self.schedules.reconcile,
            queue.Kind.POOLS: self.pools.reconcile,
            queue.Kind.CORDONS: self.benchmarks.cordons.reconcile,
            queue.Kind.RESYNC: self._resync,
        }
        return await reconcilers[key.kind](key)

    async def _resync(self, _: queue.Key) -> float | None:
        """Reconcile all that is under way, whatever events were missed; drop the series of benchmarks that are gone."""
        found: set[queue.Key] = set()

        def has_work(body: kube.Object) -> bool:
            self.series.observe(key := queue.key_of(queue.Kind.BENCHMARK, body), body)
            found.add(key)
            return watch.has_work(key, body, self.series)

        for namespace in self.options.namespaces:
            for body in await self.api.list(kube.BENCHMARKS, namespace=namespace, keep=has_work):
                self.queue.add(queue.key_of(queue.Kind.BENCHMARK, body))
        for gone in self.series.keys() - found:
            self.queue.add(gone)
        self.queue.add(queue.CORDONS)
        return self.options.resync_seconds

    async def _prepare(self) -> None:
        """Kopf overlooks a kind that discovery lacks when it starts; a list of nothing shows that it can be read."""
        served = await self.api.served(names.API_VERSION)
        absent = [f"{kind.plural}.{names.GROUP}" for kind in schema.KINDS if kind.plural not in served]
        why = f"the cluster does not know {', '.join(absent)}: {schema.INSTALL}; the operator goes on then"
        self.lacks = why if absent else ""
        if absent:
            raise kube.NotServed(self.lacks)
        for namespace in self.options.namespaces:  # of the other kinds the next line asks
            await self.api.list(kube.SCHEDULES, namespace=namespace, metadata_only=True)

    def _connection(self, credentials: configuration.Configuration, **more: Any) -> kube.Kube:
        seconds = self.options.request_seconds
        return kube.Kube(credentials, manager="gpubench-operator", timeout=seconds, count=self._count, **more)

    async def _connect_lease(self) -> kube.Kube:
        """Called in the thread of the Lease, whose loop can share neither connection nor credentials.

        Without a pace: nothing may delay a renewal.
        """
        credentials, _ = await kube.credentials(in_cluster=True)
        return self._connection(credentials)

    def _count(self, verb: str, resource: str, code: str) -> None:
        """Called for each request, also from the thread of the Lease."""
        self.connected = self.connected or code.startswith("2")
        self.health.requested(verb, resource, code)
        self.queue.progressed()

    def _role(self) -> str:
        return "leading" if self.lease.holds else "standing by"

    def _healthy(self) -> tuple[bool, str]:
        seconds, what = self.queue.longest_without_progress()
        # Nothing else is waited for as long: an answer of the API server, which nobody asks twice, and an analysis.
        if seconds <= 2 * max(self.options.request_seconds, self.benchmarks.analyst.longest):
            return True, self._role()
        said = f"{what} since {datetime.now(UTC) - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"
        _log.error("wedged", extra={"error": said})  # the kubelet tells nobody what a probe says
        return False, said

    def _ready(self) -> tuple[bool, str]:
        if self.lacks:
            return False, self.lacks
        if self.connected:
            return True, f"connected, {self._role()}"
        return False, "the API server has not answered yet"


class _Every(frozenset["asyncio.Task[Any]"]):
    """All tasks there are: when kopf ends it would cancel those that it does not know, and the operator goes on."""

    def __contains__(self, _: object) -> bool:
        return True


def _cancel_watchers() -> "list[asyncio.Task[Any]]":
    """When a watcher fails kopf leaves the others behind, which would watch beside their successors."""
    left = [task for task in asyncio.all_tasks() if task.get_name().startswith("watcher for ")]
    for task in left:
        task.cancel()
    return left


async def keep_watching(
    watch_until_it_fails: Callable[[], Awaitable[None]],
    begin_again: Callable[[], Awaitable[None]],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NoReturn:
    """Whatever watching ends with, begin it anew; RuntimeError when it fails again and again for minutes.

    Definitions that are absent are one failure, however long `begin_again` waits for them.
    """
    failures, pauses = 0, iter(watch.Backoffs())
    while failures < _WATCH_FAILURES:
        began, cause = clock(), "kopf ended"
        try:
            await watch_until_it_fails()
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            _log.warning("watching failed", extra={"error": cause}, exc_info=None if _is_of_server(error) else error)
        if clock() - began > _WATCHED_WELL_SECONDS:
            failures, pauses = 0, iter(watch.Backoffs())
        failures += 1
        await sleep(next(pauses))
        await begin_again()
    raise RuntimeError(f"watching failed {failures} times in a row, the last time with {cause}")


def _is_of_server(error: BaseException | None) -> bool:
    """Whether kopf passes on what the API server said; it does not publish these errors."""
    return type(error).__module__.startswith(("kopf._cogs.clients.", "kopf._cogs.structs.credentials"))


def _end_at_once() -> None:
    """The Lease is lost. No clean-up: that would be writing, and it might take longer than the Lease lasts."""
    _log.error("lease lost", extra={"error": "ending at once, another operator may lead"})
    sys.stderr.flush()
    os._exit(1)


def catch_signals(stop: asyncio.Event) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)


async def measure_lag(
    observe_seconds: Callable[[float], None],
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> NoReturn:
    """Sample for ever how much later than asked for the event loop goes on."""
    while True:
        due = clock() + _LAG_SECONDS
        await sleep(_LAG_SECONDS)
        observe_seconds(max(0.0, clock() - due))


async def _first_of(*waits: "Coroutine[Any, Any, Any] | asyncio.Task[Any]") -> None:
    """Wait until one of them is over; its error is raised here."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()


async def until_it_works(attempt: Callable[[], Awaitable[None]], *, stop: asyncio.Event) -> bool:
    """The operator may be there before what it needs, or for longer. False when it is to stop first."""
    said = ""
    while not stop.is_set():
        try:
            await attempt()
        except kube.ApiError as error:
            if str(error) != said:
                _log.warning("waiting for what is needed", extra={"error": (said := str(error))})
        else:
            return True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PREPARED_AGAIN_SECONDS):
                await stop.wait()
    return False


# --- logs -------------------------------------------------------------------------------------------------------------

#: What every LogRecord has; all else in a record came in by `extra` and is a field.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def configure_logs(*, style: Literal["json", "text"], level: str) -> None:
    """Send everything to standard error. kopf's own chatter is left out below warnings: it speaks of each event."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else Text())
    handler.addFilter(lambda record: not (record.exc_info and _is_of_server(record.exc_info[1])))  # it is said once
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    quiet = logging.WARNING if level != "debug" else logging.INFO
    for noisy in ("kopf", "asyncio", "aiohttp.access", "aiohttp_retry", "kubernetes"):
        logging.getLogger(noisy).setLevel(quiet)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of an event, in the order in which they were given; not those that kopf adds."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _ORDINARY and value is not None and not name.startswith(("k8s", "settings"))
    }


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable(json.dumps(line, default=str, ensure_ascii=False))


class Text(logging.Formatter):
    """`12:00:01.250 info created namespace=default benchmark=three-cnns`, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record, in local time."""
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
        shown = "".join(f" {name}={one_line(str(value))}" for name, value in _fields(record).items())
        line = f"{moment} {record.levelname.lower()} {one_line(record.getMessage())}{shown}"
        return f"{line}\n{printable(self.formatException(record.exc_info))}" if record.exc_info else line
