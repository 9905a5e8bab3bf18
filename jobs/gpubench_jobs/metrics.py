# SPDX-License-Identifier: Apache-2.0
"""Live series of one rank, from the catalogue in `gpubench.metrics`, for as long as the rank lives.

Touched once per window, never per step: the final figures come from the records, not from here.
"""

import sys

import prometheus_client

from gpubench import metrics, names
from gpubench.plan import assignment as assignments

#: Steps last from a tenth of a millisecond (a small model on a large GPU) to a minute (a large model on a CPU).
_STEP_BUCKETS = (*(base * 10.0**power for power in range(-4, 2) for base in (1.0, 2.0, 5.0)), float("inf"))


class Live:
    """The three series of a rank."""

    def __init__(self, assignment: assignments.Assignment, *, rank: int) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._batch = assignment.batch_per_worker
        values = {
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

    def window(self, *, steps: int, seconds: float) -> None:
        """A window of this rank has ended."""
        samples = steps * self._batch
        self._throughput.set(samples / seconds)
        self._step.observe(seconds / steps)
        self._samples.inc(samples)

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
