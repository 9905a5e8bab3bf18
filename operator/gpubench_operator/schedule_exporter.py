# SPDX-License-Identifier: Apache-2.0
"""What a scrape of the operator gives of schedules: made from their statuses, without any memory but those."""

import logging
from collections.abc import Iterable, Iterator

from prometheus_client import core, registry
from pydantic import ValidationError

from gpubench import metrics
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, queue

_log = logging.getLogger(__name__)


class ScheduleFigures(registry.Collector):
    """The statuses of all schedules, as metrics."""

    def __init__(self) -> None:
        self._statuses: dict[queue.Key, GpuBenchmarkScheduleStatus] = {}

    def observe(self, key: queue.Key, schedule: kube.Object) -> None:
        """Take a schedule's status as it is now."""
        try:
            self._statuses[key] = GpuBenchmarkScheduleStatus.model_validate(schedule.get("status") or {})
        except ValidationError as error:
            self._statuses.pop(key, None)
            _log.warning("unreadable status", extra={"key": str(key), "sentence": str(error.errors()[0]["msg"])})

    def drop(self, key: queue.Key) -> None:
        """The schedule is gone, and its series with it."""
        self._statuses.pop(key, None)

    def schedules(self) -> set[queue.Key]:
        """The schedules that have series."""
        return set(self._statuses)

    def describe(self) -> Iterable[core.Metric]:
        """Nothing in advance: the registry would otherwise collect once only to learn the names."""
        return ()

    def collect(self) -> Iterator[core.Metric]:
        """All series of all schedules, family by family."""
        samples: dict[str, list[tuple[tuple[str, ...], float]]] = {}
        for key, status in sorted(self._statuses.items()):
            for metric, labels, value in _samples(status):
                samples.setdefault(metric.name, []).append(((key.namespace, key.name, *labels), value))
        yield from exporter.families(samples)


def _samples(status: GpuBenchmarkScheduleStatus) -> Iterator[tuple[metrics.Metric, tuple[str, ...], float]]:
    for condition in status.conditions:
        if condition.status != "Unknown":
            yield metrics.SCHEDULE_CONDITION, (condition.type,), float(condition.status == "True")
    yield metrics.SCHEDULE_ACTIVE, (), status.active_runs
    yield metrics.SCHEDULE_SLOWER_POINTS, (), len(status.regressions)
    yield metrics.SCHEDULE_SLOW_NODES, (), len(status.slow_nodes)
    for metric, text in (
        (metrics.SCHEDULE_LAST, status.last_schedule_time),
        (metrics.SCHEDULE_NEXT, status.next_schedule_time),
    ):
        moment = observe.seconds(text)
        if moment is not None:
            yield metric, (), moment
    month = status.monthly
    if month is not None and month.total is not None and month.currency is not None:
        yield metrics.SCHEDULE_MONTHLY, (month.currency,), float(month.total)
