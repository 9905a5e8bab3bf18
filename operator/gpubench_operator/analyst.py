# SPDX-License-Identifier: Apache-2.0
"""Analyses, made in a process of their own: one busy Python thread moved the event loop's p99 lag from 33 to 525 ms.

The worker keeps nothing between two of them, so it may die at any time. An analysis that fails three times is tried
again later, and its benchmark says so.
"""

import asyncio
import functools
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
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from gpubench import names
from gpubench.analysis import analyze, status
from gpubench.api.benchmark_status import Analysis, AnalysisReference
from gpubench.plan.plan import Plan
from gpubench.scheduler import ledger, observed, trials
from gpubench_operator import exporter, queue

_TRIES = 3
_AGAIN_SECONDS = 1.0
_MUCH_LATER_SECONDS = 300.0
_PATIENCE_SECONDS = 0.5  # of a reconcile: most analyses are there by then, and one status is written instead of two
_NICE = 5  # figures may wait for gangs that start, on a node that has work for both
_log = logging.getLogger(__name__)
_Answer = TypeVar("_Answer")


class Made(NamedTuple):
    """An analysis as it is stored and shown; the value itself stays in the worker."""

    found: status.Findings
    sha256: str  # of the whole text
    parts: tuple[str, ...]
    lines: exporter.Lines


class Latest(NamedTuple):
    """The state of the analysis of a version."""

    made: Made | None = None
    failure: str | None = None  # why there is none after some tries
    again: float | None = None  # seconds until it is tried again


@dataclass
class _Benchmark:
    version: object = None  # of what `made` is, or of what is being made
    made: Made | None = None
    task: asyncio.Task[None] | None = None
    failures: int = 0
    failure: str = ""
    again_at: float = 0.0


def worker_process() -> futures.Executor:
    """A process of its own, which ends with this one; a fork would have the threads' locks, and kopf's sockets."""
    return futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"), initializer=_begin)


@dataclass(kw_only=True)
class Analyst:
    """Has analyses made; one for all benchmarks."""

    wake: Callable[[queue.Key], None]
    worker: Callable[[], futures.Executor] = worker_process
    clock: Callable[[], float] = time.monotonic
    longest: float = 120.0  # seconds of one analysis; that of 512 points takes half a second

    def __post_init__(self) -> None:
        self._benchmarks: dict[str, _Benchmark] = {}
        self._pool: futures.Executor | None = None
        self._asking = asyncio.Lock()
        self._asked = set[asyncio.Task[Any]]()

    def start(self) -> None:
        """Start the worker before it is needed: its imports take a second."""
        self._executor().submit(os.getpid)

    def forget(self, uid: str) -> None:
        if (known := self._benchmarks.pop(uid, None)) is not None and known.task is not None:
            known.task.cancel()

    async def latest(
        self,
        study: observed.Study,
        plan: Plan,
        entries: Mapping[str, str],
        points: tuple[trials.PointStatus, ...],
        *,
        ledger_version: int,
    ) -> Latest:
        """The analysis of these entries, if it is there or soon is; else its benchmark is woken when it is made."""
        known = self._benchmarks.setdefault(study.uid, _Benchmark())
        version, key = (ledger_version, study.generation, points), queue.benchmark_key(study.namespace, study.name)
        if known.version != version and known.task is None:
            known.version, known.made, known.failures, known.again_at = version, None, 0, 0.0
        if known.task is None and known.made is None and self.clock() >= known.again_at:
            make = functools.partial(_analysis, study, plan, entries, points, ledger_version)
            known.task = asyncio.create_task(self._make(known, key, make), name="analysis")
        if (task := known.task) is not None:
            done, _ = await asyncio.wait({task}, timeout=_PATIENCE_SECONDS)
            if not done:
                task.add_done_callback(lambda _: self.wake(key))
        if known.version != version or known.made is None:
            again = None if known.task is not None else max(0.0, known.again_at - self.clock())
            return Latest(failure=known.failure if known.failures >= _TRIES else None, again=again)
        return Latest(made=known.made)

    async def lines(self, key: queue.Key, parts: Sequence[str], reference: AnalysisReference) -> exporter.Lines | None:
        """The lines of a stored analysis; None where these are not its parts, or the worker cannot tell."""
        try:
            async with asyncio.timeout(self.longest):
                return await self._ask(functools.partial(_lines_of, (key.namespace, key.name), tuple(parts), reference))
        except (TimeoutError, futures.BrokenExecutor):
            return None

    async def _make(self, known: _Benchmark, key: queue.Key, make: Callable[[], Made]) -> None:
        try:
            known.made = await self._ask(make)
        except Exception as error:  # whatever it is, the benchmark goes on
            known.failures += 1
            known.failure = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            known.again_at = self.clock() + (_AGAIN_SECONDS if known.failures < _TRIES else _MUCH_LATER_SECONDS)
            extra = {"namespace": key.namespace, "benchmark": key.name, "error": known.failure}
            _log.warning("analysis failed", extra=extra, exc_info=error)
        finally:
            known.task = None

    async def _ask(self, what: Callable[[], _Answer]) -> _Answer:
        """The worker's answer. It is asked one thing at a time, and to the end, whoever no longer waits for it."""
        task = asyncio.create_task(self._ask_alone(what), name="asking the worker")
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        return await asyncio.shield(task)

    async def _ask_alone(self, what: Callable[[], _Answer]) -> _Answer:
        async with self._asking:  # or what hangs would end those behind it, too
            try:  # Shielded, as Python 3.11's pool never ends where what was asked of it is cancelled, nor its process.
                async with asyncio.timeout(self.longest):
                    return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor(), what))
            except (TimeoutError, futures.BrokenExecutor):
                self._end_worker()
                raise

    def _executor(self) -> futures.Executor:
        if self._pool is None:
            self._pool = self.worker()
        return self._pool

    def stop(self) -> None:
        """End the worker, and ask nothing more of another."""
        for task in self._asked:
            task.cancel()
        self._end_worker()

    def _end_worker(self) -> None:
        pool, self._pool = self._pool, None
        if isinstance(pool, futures.ProcessPoolExecutor):
            for process in list((pool._processes or {}).values()):  # it has no public way to end what hangs
                process.kill()
        if pool is not None:
            pool.shutdown(wait=False, cancel_futures=True)


# --- in the worker ----------------------------------------------------------------------------------------------------


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


def _analysis(
    study: observed.Study, plan: Plan, entries: Mapping[str, str], points: tuple[trials.PointStatus, ...], version: int
) -> Made:
    read = [ledger.read_entry(one, text) for one, text in sorted(entries.items())]  # the same after a restart
    found = analyze.analyze(plan, ledger.of_read(read), points, study.spec)
    return stored((study.namespace, study.name), study.uid, found, version)


def stored(key: tuple[str, str], uid: str, analysis: Analysis, version: int) -> Made:
    """An analysis as it is stored and shown; `key` is namespace and name of its benchmark."""
    text = analysis.to_json()
    parts, sha256 = analyze.cut(text), hashlib.sha256(text.encode()).hexdigest()
    reference = AnalysisReference(
        config_map=names.analysis_name(key[1], uid, part=0), parts=len(parts), ledger_version=version, sha256=sha256
    )
    lines = exporter.lines_of(exporter.analysis_samples(key, analysis))
    return Made(status.findings(analysis, stored=reference), sha256, parts, lines)


def _lines_of(key: tuple[str, str], parts: Sequence[str], reference: AnalysisReference) -> exporter.Lines | None:
    analysis = analyze.read(parts, reference)
    return None if analysis is None else exporter.lines_of(exporter.analysis_samples(key, analysis))
