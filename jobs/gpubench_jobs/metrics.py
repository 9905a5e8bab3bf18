# SPDX-License-Identifier: Apache-2.0
"""Live series of one rank, from the catalogue in `gpubench.metrics`, for as long as the rank lives.

Touched once per window or sample, never per step: the final figures come from the records, not from here.
"""

import sys

import prometheus_client

from gpubench import metrics, names
from gpubench.plan import assignment as assignments
from gpubench_jobs import sampling

#: Steps last from a tenth of a millisecond (a small model on a large GPU) to a minute (a large model on a CPU).
_STEP_BUCKETS = (*(base * 10.0**power for power in range(-4, 2) for base in (1.0, 2.0, 5.0)), float("inf"))


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
        self._throughput = prometheus_client.Gauge(*_family(metrics.WORKER_THROUGHPUT), registry=self.registry).labels(
            **values
        )
        self._step = prometheus_client.Histogram(
            *_family(metrics.WORKER_STEP), registry=self.registry, buckets=_STEP_BUCKETS
        ).labels(**values)
        self._samples = prometheus_client.Counter(*_family(metrics.WORKER_SAMPLES), registry=self.registry).labels(
            **values
        )

        # Without a value there is no child, and without a child no series: an absent figure must not be 0.
        self._usage = {
            metric: prometheus_client.Gauge(*_family(metric), registry=self.registry)
            for metric in (metrics.WORKER_PROCESSORS, metrics.WORKER_GPU, metrics.WORKER_POWER)
        }

    def window(self, *, steps: int, seconds: float) -> None:
        """A window of this rank has ended."""
        samples = steps * self._batch
        self._throughput.set(samples / seconds)
        self._step.observe(seconds / steps)
        self._samples.inc(samples)

    def usage(self, sample: sampling.Sample) -> None:
        """A sample of this rank has been taken; what it does not tell has no series."""
        told = {
            metrics.WORKER_PROCESSORS: sample.processors,
            metrics.WORKER_GPU: sample.gpu.utilization if sample.gpu else None,
            metrics.WORKER_POWER: sample.gpu.watts if sample.gpu else None,
        }
        for metric, value in told.items():
            if value is not None:
                self._usage[metric].labels(**self._labels).set(value)

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
