# SPDX-License-Identifier: Apache-2.0
"""What a rank uses while it is measured (processor, memory, GPU, sampled once a second), and its live series.

A thread of each rank takes the samples, beside the loop and never in it, only while windows are measured. It alone asks
the driver: one that hangs costs a rank its usage, never its result. Must not happen: 0 for what cannot be told; a
thread that outlives the windows; a figure of another rank's GPU, or of a part of the measured time.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import prometheus_client
import psutil

from gpubench import metrics, names, records, workloads
from gpubench.plan.assignment import Assignment
from gpubench.stats.intervals import quantile
from gpubench.values import content_id
from gpubench_jobs import clock
from gpubench_jobs.worker import nvidia

PERIOD_SECONDS = 1.0
_LOW, _HIGH = 0.05, 0.95
#: How long a run waits for the first look, and for the last.
_PATIENCE_SECONDS = 5.0
_FAMILIES: dict[metrics.Kind, Any] = {kind: getattr(prometheus_client, kind.value.title()) for kind in metrics.Kind}


@dataclass(frozen=True)
class Reading:
    """A rank at one moment."""

    nanoseconds: int
    processor_seconds: float  # of all threads of the process, since it began
    memory_bytes: int  # resident
    gpu: nvidia.GpuReading | None = None
    node: tuple[float, float, float] | None = None  # of the first and the last: see `_node_seconds`


class Sampler:
    """One for each rank; `seen` is called with each reading and the processors used since the last, in its thread."""

    def __init__(
        self,
        rank: int,
        *,
        gpu: nvidia.NvmlGpu | None = None,
        seen: Callable[[Reading, float], None] = lambda *_: None,
        now: clock.Clock = clock.monotonic_ns,
        period_seconds: float = PERIOD_SECONDS,
        patience_seconds: float = _PATIENCE_SECONDS,
    ) -> None:
        self._rank, self._gpu, self._seen, self._now = rank, gpu, seen, now
        self._patience_seconds = patience_seconds
        self._period_ns = round(period_seconds * clock.NANOSECONDS)
        self._process = psutil.Process()
        self.usage: records.Usage | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Samples while the body runs; afterwards `usage` is there, unless the body or a look has failed."""
        self.usage = None
        begun, ended = threading.Event(), threading.Event()
        found = futures.Future[records.Usage]()
        thread = threading.Thread(target=self._sample, args=(begun, ended, found), name="sampling", daemon=True)
        thread.start()
        if not (in_time := begun.wait(self._patience_seconds)):
            ended.set()
        try:
            yield
        finally:
            ended.set()
            thread.join(self._patience_seconds if in_time else 0)
        if not in_time or thread.is_alive():
            why = "a look at its device has not come back"
        elif error := found.exception():
            why = f"{type(error).__name__}: {error}"
        else:
            self.usage = found.result()
            return
        sys.stderr.write(f"no usage of rank {self._rank}: {why}\n")

    def _sample(self, begun: threading.Event, ended: threading.Event, found: "futures.Future[records.Usage]") -> None:
        """The thread: a first reading, samples, a last reading once the body has ended."""
        try:
            readings = [self._read(with_node=True)]
            begun.set()
            due = readings[0].nanoseconds + self._period_ns
            while not ended.wait(max(0.0, clock.seconds(due - self._now()))):
                readings.append(self._read())
                self._seen(readings[-1], _processors(readings[-2], readings[-1]))
                late = max(0, readings[-1].nanoseconds - due)  # a process that was stopped leaves samples out
                due += self._period_ns * (1 + late // self._period_ns)
            period = clock.seconds(self._period_ns)
            last = self._read(with_node=True)
            found.set_result(usage(readings, last=last, rank=self._rank, period_seconds=period))
        except Exception as error:  # whatever it is, the measurement goes on without
            found.set_exception(error)
            begun.set()

    def _read(self, *, with_node: bool = False) -> Reading:
        return Reading(
            nanoseconds=self._now(),
            processor_seconds=time.process_time(),
            memory_bytes=self._process.memory_info().rss,
            gpu=self._gpu.read() if self._gpu else None,
            node=_node_seconds(self._process) if with_node else None,
        )


def _node_seconds(process: psutil.Process) -> tuple[float, float, float]:
    """Processor-seconds since the node has booted: of everybody, of the children of this rank, and those stolen."""
    times, ended = psutil.cpu_times(), os.times()
    busy = times.user + times.nice + times.system + times.irq + times.softirq
    children = ended.children_user + ended.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            children += sum(child.cpu_times()[:2])
    return busy, children, times.steal


def usage(readings: Sequence[Reading], *, last: Reading, rank: int, period_seconds: float) -> records.Usage:
    """In sums: the first reading is where counters begin, `last` where they end; what lies between are the samples.

    The first is no sample: NVML looks back over up to a second. RaRe-Technologies/benchmark_GPU_platforms (2018) left
    its first one out, too.
    """
    first, samples = readings[0], readings[1:]
    shares = [_processors(one, next_one) for one, next_one in pairwise(readings)]
    processor = _processors(first, last)
    told = [sample.gpu for sample in samples if sample.gpu]
    loads = [gpu.utilization for gpu in told if gpu.utilization is not None]
    watts = [gpu.watts for gpu in told if gpu.watts is not None]
    reasons = [set(gpu.throttle_reasons) - {nvidia.IDLE} for gpu in told if gpu.throttle_reasons is not None]
    slowed = [seen - nvidia.CHOSEN for seen in reasons]
    energy = [reading.gpu.joules for reading in (first, last) if reading.gpu and reading.gpu.joules is not None]
    return records.Usage(
        rank=rank,
        samples=len(samples),
        period_seconds=period_seconds,
        processor=processor,
        processor_high=quantile(shares, _HIGH) if shares else processor,
        memory_bytes=max(reading.memory_bytes for reading in (*samples, last)),
        gpu=fmean(loads) if loads else None,
        gpu_low=quantile(loads, _LOW) if loads else None,
        gpu_memory_bytes=max((gpu.memory_bytes for gpu in told if gpu.memory_bytes is not None), default=None),
        watts=fmean(watts) if watts else None,
        watts_high=quantile(watts, _HIGH) if watts else None,
        celsius_high=max((gpu.celsius for gpu in told if gpu.celsius is not None), default=None),
        throttled=fmean(bool(seen) for seen in slowed) if slowed else None,
        throttle_reasons=tuple(sorted(set().union(*reasons))),
        joules=energy[1] - energy[0] if len(energy) == 2 else None,
        node=_node_use(first, last),
    )


def _node_use(first: Reading, last: Reading) -> records.NodeUse | None:
    if first.node is None or last.node is None:
        return None
    try:
        kernel = content_id(Path("/proc/sys/kernel/random/boot_id").read_text(), characters=8)
    except OSError:  # a sandbox without it: nobody knows which ranks share a kernel
        return None
    seconds = clock.seconds(max(1, last.nanoseconds - first.nanoseconds))
    used = (max(0.0, end - begin) / seconds for begin, end in zip(first.node, last.node, strict=True))
    busy, children, stolen = used
    return records.NodeUse(
        kernel=kernel, processors=psutil.cpu_count() or 1, busy=busy, children=children, stolen=stolen
    )


def _processors(begin: Reading, end: Reading) -> float:  # used from one to the other; 1 is one whole core
    seconds = clock.seconds(max(1, end.nanoseconds - begin.nanoseconds))
    return (end.processor_seconds - begin.processor_seconds) / seconds


class LiveMetrics:
    """The series of a rank, touched once a window or sample, never a step: final figures come from the records."""

    def __init__(self, assignment: Assignment, *, rank: int, namespace: str = "") -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._assignment, self._batch = assignment, assignment.batch_per_worker
        self._labels = {
            "benchmark_namespace": namespace,
            "trial": assignment.trial,
            "attempt": str(assignment.attempt),
            "workload": assignment.workload,
            "rank": str(rank),
        }
        # Without a value there is no child, and without a child no series: an absent figure must not be 0.
        self._families = {
            metric: _FAMILIES[metric.kind](
                metric.name,
                metric.help,
                metric.labels,
                registry=self.registry,
                **({"buckets": metric.buckets} if metric.buckets else {}),
            )
            for metric in metrics.CATALOGUE
            if metric.exporter == "worker"
        }
        self._step, self._samples = map(self._child, (metrics.WORKER_STEP, metrics.WORKER_SAMPLES))
        # Where a step is nothing but the all-reduce, a rank computes nothing by itself.
        is_message = assignment.workload == workloads.MESSAGES and assignment.custom_file is None
        self._own_seconds: float | None = 0.0 if is_message else None

    def begin(self, gpu_uuid: str | None = None) -> None:
        """Show what is trained, and on which GPU, once that is known."""
        made, info = self._assignment, metrics.WORKER_INFO
        trained = {label: str(getattr(made, label)) for label in ("workers", "batch_per_worker", "precision")}
        variant = made.variant.name if made.variant else ""
        self._families[info].labels(**self._labels, **trained, variant=variant, UUID=gpu_uuid or "").set(1)

    def window(self, *, steps: int, seconds: float, loss: float) -> None:
        samples, step_seconds = steps * self._batch, seconds / steps
        self._step.observe(step_seconds)
        self._samples.inc(samples)
        self._set(metrics.WORKER_THROUGHPUT, samples / seconds)
        self._set(metrics.WORKER_LOSS, loss)
        if self._own_seconds is not None:
            self._set(metrics.WORKER_ALLREDUCE, max(0.0, step_seconds - self._own_seconds))

    def computed(self, step_seconds: float) -> None:
        """It was looked how long a step takes this rank alone."""
        self._own_seconds = step_seconds
        self._set(metrics.WORKER_COMPUTE, step_seconds)

    def usage(self, reading: Reading, processors: float) -> None:
        """A reading of this rank, and the processors used since the last; what it does not tell has no series."""
        gpu = reading.gpu
        told = {
            metrics.WORKER_PROCESSORS: processors,
            metrics.WORKER_MEMORY: reading.memory_bytes,
            metrics.WORKER_GPU: gpu.utilization if gpu else None,
            metrics.WORKER_GPU_MEMORY: gpu.memory_bytes if gpu else None,
            metrics.WORKER_POWER: gpu.watts if gpu else None,
            metrics.WORKER_TEMPERATURE: gpu.celsius if gpu else None,
        }
        for metric, value in told.items():
            if value is not None:
                self._set(metric, value)

    def _child(self, metric: metrics.Metric) -> Any:
        return self._families[metric].labels(**self._labels)

    def _set(self, metric: metrics.Metric, value: float) -> None:
        self._child(metric).set(value)

    def serve(self, *, address: str, local_rank: int) -> None:
        """A port for each rank on the pod's address; one that is taken costs the live series, not the measurement."""
        port = names.PORT_METRICS + local_rank
        try:
            prometheus_client.start_http_server(port, addr=address, registry=self.registry)
        except OSError as error:
            sys.stderr.write(f"no live metrics: {address}:{port} cannot be opened: {error}\n")
