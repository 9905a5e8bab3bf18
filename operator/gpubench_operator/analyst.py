# SPDX-License-Identifier: Apache-2.0
"""Analyses, made in a process of their own: one busy Python thread moved the event loop's p99 lag from 33 to 525 ms.

The worker keeps plans and parsed attempts, and is sent what is new. It may die at any time, as everything that it
knows can be sent again. An analysis that fails three times is tried again later, and its benchmark told so.
"""

import asyncio
import contextlib
import hashlib
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from typing import NamedTuple

from gpubench import names
from gpubench.analysis import analyze, status
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Analysis, AnalysisReference
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import ledger, observed
from gpubench.scheduler.trials import PointStatus
from gpubench_operator import exporter, queue

_TRIES = 3
_AGAIN_SECONDS = 1.0
_MUCH_LATER_SECONDS = 300.0
_PATIENCE_SECONDS = 0.5  # of a reconcile: most analyses are there by then, and one status is written instead of two
_SECONDS_MAX = 120.0  # 512 points take half a second
_NICE = 5  # figures may wait for gangs that start, on a node that has work for both
_log = logging.getLogger(__name__)


class Made(NamedTuple):
    """An analysis as it is stored and shown; the value itself stays in the worker."""

    found: status.Findings
    sha256: str  # of the whole text
    parts: tuple[str, ...]
    lines: exporter.Lines


class Latest(NamedTuple):
    """Where the analysis of a version stands."""

    made: Made | None = None
    failure: str | None = None  # why there is none after some tries
    again: float | None = None  # seconds until it is tried again


class _Order(NamedTuple):
    """What the worker is asked; texts that it has are not sent again."""

    key: tuple[str, str]  # namespace and name
    uid: str
    plan: Plan | None
    entries: Mapping[str, str]
    points: tuple[PointStatus, ...]
    spec: GpuBenchmarkSpec
    version: int


@dataclass
class _Benchmark:
    sent: dict[str, str] = field(default_factory=dict)
    version: object = None  # of what `made` is, or of what is being made
    made: Made | None = None
    task: asyncio.Task[None] | None = None
    is_awaited: bool = False
    failures: int = 0
    failure: str = ""
    again_at: float = 0.0


class Analyst:
    """Has analyses made; one for all benchmarks."""

    def __init__(
        self,
        *,
        wake: Callable[[queue.Key], None],
        worker: Callable[[], futures.Executor] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wake = wake
        self._worker = worker or worker_process
        self._clock = clock
        self._benchmarks: dict[str, _Benchmark] = {}
        self._pool: futures.Executor | None = None

    def start(self) -> None:
        """Start the worker before it is needed: its imports take a second."""
        self._executor().submit(os.getpid)

    def forget(self, uid: str) -> None:
        """The benchmark is gone, or over."""
        known = self._benchmarks.pop(uid, None)
        if known is None:
            return
        if known.task is not None:
            known.task.cancel()
        if self._pool is not None:
            with contextlib.suppress(RuntimeError):  # a worker that is gone knows nothing
                self._pool.submit(_forget, uid)

    async def latest(
        self,
        study: observed.Study,
        plan: Plan,
        entries: Mapping[str, str],
        points: tuple[PointStatus, ...],
        *,
        ledger_version: int,
    ) -> Latest:
        """The analysis of these entries, if it is there or soon is; else its benchmark is woken when it is made."""
        known = self._benchmarks.setdefault(study.uid, _Benchmark())
        version = (ledger_version, study.generation, points)
        if known.version != version and known.task is None:
            known.version, known.made, known.failures, known.again_at = version, None, 0, 0.0
        if known.task is None and known.made is None and self._clock() >= known.again_at:
            new = {key: text for key, text in entries.items() if known.sent.get(key) != text}
            first = plan if not known.sent else None
            key = (study.namespace, study.name)
            order = _Order(key, study.uid, first, new, points, study.spec, ledger_version)
            known.task = asyncio.create_task(self._make(known, order, all_entries=dict(entries)), name="analysis")
        if known.task is not None:
            known.is_awaited = True
            try:
                await asyncio.wait({known.task}, timeout=_PATIENCE_SECONDS)
            finally:
                known.is_awaited = False
        if known.version != version or known.made is None:
            again = None if known.task is not None else max(0.0, known.again_at - self._clock())
            return Latest(failure=known.failure if known.failures >= _TRIES else None, again=again)
        return Latest(made=known.made)

    async def lines(self, key: queue.Key, parts: Sequence[str], reference: AnalysisReference) -> exporter.Lines | None:
        """The lines of a stored analysis; None where these are not its parts, or the worker cannot tell."""
        ask = asyncio.get_running_loop().run_in_executor
        try:
            async with asyncio.timeout(_SECONDS_MAX):
                return await ask(self._executor(), _lines_of, (key.namespace, key.name), tuple(parts), reference)
        except (TimeoutError, futures.BrokenExecutor):
            self.stop()
            return None

    async def _make(self, known: _Benchmark, order: _Order, *, all_entries: dict[str, str]) -> None:
        try:
            async with asyncio.timeout(_SECONDS_MAX):
                known.made = await asyncio.get_running_loop().run_in_executor(self._executor(), _make, order)
            known.sent, known.failures = all_entries, 0
        except Exception as error:  # whatever it is, the benchmark goes on
            known.sent = {}
            known.failures += 1
            known.failure = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            delay = _AGAIN_SECONDS if known.failures < _TRIES else _MUCH_LATER_SECONDS
            known.again_at = self._clock() + delay
            extra = {"namespace": order.key[0], "benchmark": order.key[1], "error": known.failure}
            _log.warning("analysis failed", extra=extra, exc_info=error)
            if isinstance(error, TimeoutError | futures.BrokenExecutor):
                self.stop()
        finally:
            known.task = None
            if not known.is_awaited:
                self._wake(queue.benchmark_key(*order.key))

    def _executor(self) -> futures.Executor:
        if self._pool is None:
            self._pool = self._worker()
        return self._pool

    def stop(self) -> None:
        """End the worker, also one that hangs: what others have asked of it fails, and is asked again of a new one."""
        pool, self._pool = self._pool, None
        if pool is None:
            return
        if isinstance(pool, futures.ProcessPoolExecutor):
            for process in list((pool._processes or {}).values()):  # it has no public way to end what hangs
                process.kill()
        pool.shutdown(wait=False, cancel_futures=True)
        for known in self._benchmarks.values():
            known.sent = {}


def worker_process() -> futures.Executor:
    """A process of its own, which ends with this one."""
    context = multiprocessing.get_context("spawn")  # a fork would have the threads' locks, and kopf's sockets
    return futures.ProcessPoolExecutor(1, mp_context=context, initializer=_begin)


# --- in the worker ----------------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    plan: Plan
    entries: dict[str, ledger.AttemptRecord | Environment | None]


_known: dict[str, _Known] = {}


def _begin() -> None:
    """Signals are for the operator; without it nobody would end this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    multiprocessing.connection.wait([parent.sentinel])
    os._exit(0)


def _make(order: _Order) -> Made:
    if order.plan is not None:
        _known[order.uid] = _Known(order.plan, {})
    known = _known[order.uid]
    known.entries.update({key: ledger.read_entry(key, text) for key, text in order.entries.items()})
    recorded = ledger.of_read(one for _, one in sorted(known.entries.items()))  # the same text after a restart
    return stored(order.key, order.uid, analyze.analyze(known.plan, recorded, order.points, order.spec), order.version)


def stored(key: tuple[str, str], uid: str, analysis: Analysis, version: int) -> Made:
    """An analysis as it is stored and shown; `key` is namespace and name of its benchmark."""
    text = analysis.to_json()
    parts, sha256 = analyze.cut(text), hashlib.sha256(text.encode()).hexdigest()
    reference = AnalysisReference(
        config_map=names.analysis_name(key[1], uid, part=0), parts=len(parts), ledger_version=version, sha256=sha256
    )
    lines = exporter.analysis_lines(key, analysis)
    return Made(status.findings(analysis, stored=reference), sha256, parts, lines)


def _lines_of(key: tuple[str, str], parts: Sequence[str], reference: AnalysisReference) -> exporter.Lines | None:
    analysis = analyze.read(parts, reference)
    return None if analysis is None else exporter.analysis_lines(key, analysis)


def _forget(uid: str) -> None:
    _known.pop(uid, None)
