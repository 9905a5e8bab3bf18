# SPDX-License-Identifier: Apache-2.0
"""Live series of one rank, from the catalogue in `gpubench.metrics`, for as long as the rank lives.

Touched once per window or sample, never per step: the final figures come from the records, not from here.
"""

import sys

import prometheus_client

from gpubench import metrics, names, workloads
from gpubench.plan import assignment as assignments
from gpubench_jobs import sampling


class Live:
    """The series of a rank."""

    def __init__(self, assignment: assignments.Assignment, *, rank: int) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._batch = assignment.batch_per_worker
        self._labels = values = {
            "trial": assignment.trial,
            "attempt": str(assignment.attempt),
            "workload": assignment.workload,
            "rank": str(rank),
        }
        self._step = prometheus_client.Histogram(
            *_family(metrics.WORKER_STEP), registry=self.registry, buckets=metrics.WORKER_STEP.buckets
        ).labels(**values)
        self._samples = prometheus_client.Counter(*_family(metrics.WORKER_SAMPLES), registry=self.registry).labels(
            **values
        )
        # Without a value there is no child, and without a child no series: an absent figure must not be 0.
        self._gauges = {
            metric: prometheus_client.Gauge(*_family(metric), registry=self.registry)
            for metric in metrics.CATALOGUE
            if metric.exporter == "worker" and metric.kind is metrics.Kind.GAUGE
        }
        # Where a step is nothing but the all-reduce, a rank computes nothing by itself.
        is_message = assignment.workload == workloads.MESSAGES and assignment.custom_file is None
        self._own_seconds: float | None = 0.0 if is_message else None

    def window(self, *, steps: int, seconds: float, loss: float) -> None:
        """A window of this rank has ended."""
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

    def usage(self, sample: sampling.Sample) -> None:
        """A sample of this rank has been taken; what it does not tell has no series."""
        gpu = sample.gpu
        told = {
            metrics.WORKER_PROCESSORS: sample.processors,
            metrics.WORKER_MEMORY: sample.memory_bytes,
            metrics.WORKER_GPU: gpu.utilization if gpu else None,
            metrics.WORKER_GPU_MEMORY: gpu.memory_bytes if gpu else None,
            metrics.WORKER_POWER: gpu.watts if gpu else None,
            metrics.WORKER_TEMPERATURE: gpu.celsius if gpu else None,
        }
        for metric, value in told.items():
            if value is not None:
                self._set(metric, value)

    def _set(self, metric: metrics.Metric, value: float) -> None:
        self._gauges[metric].labels(**self._labels).set(value)

    def serve(self, *, address: str, local_rank: int) -> None:
        """On the pod's own address, a port for each rank, in a thread that sleeps until it is scraped.

        A port that is taken (other exporters like 9400 too, where pods share the node's network) costs the live series,
        not the measurement.
        """
        port = names.PORT_METRICS + local_rank
        try:
            prometheus_client.start_http_server(port, addr=address, registry=self.registry)
        except OSError as error:
            sys.stderr.write(f"no live metrics: {address}:{port} cannot be opened: {error}\n")


def _family(metric: metrics.Metric) -> tuple[str, str, tuple[str, ...]]:
    return metric.name, metric.help, metric.labels
