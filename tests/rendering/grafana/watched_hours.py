# SPDX-License-Identifier: Apache-2.0
"""Two hours of a cluster as its scrapes would have them: pages by minute, written by the product's own exporters.

A benchmark of two pools, two precisions and four sizes that has finished, one of strong scaling that runs over its
budget, a schedule with a slower point, ranks with GPUs, and the series of others that panels join: DCGM exporter,
kube-state-metrics and OpenCost.
"""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import prometheus_client

import builders
import gangs
import stored_analysis
from gpubench.api.pool import GpuPoolStatus
from gpubench_jobs.worker import nvidia, sampling
from gpubench_operator import exporter, queue, server

MINUTES = 120
BENCHMARK, STRONG, SCHEDULE = "resnet50-h100-l4", "strong-scaling", "nightly"
SIZES = (1, 2, 4, 8)
PRECISIONS = ("float32", "mixed_float16")
#: By pool: accelerator, how it is rented, samples a second of one GPU by precision, price of a node-hour.
POOLS: dict[str, tuple[str, str, tuple[float, float], str]] = {
    "h100-spot": ("H100-80GB", "spot", (1180.0, 2950.0), "3.90"),
    "l4": ("L4-24GB", "on-demand", (210.0, 480.0), "0.71"),
}
_FINISHED_MINUTE = 112
_KEY = (
    "workload",
    "pool",
    "accelerator",
    "capacityType",
    "workers",
    "workersPerNode",
    "batchPerWorker",
    "globalBatch",
    "precision",
)
_METERED = {name: {"mean": 88.0} for name in ("wattHours", "grams", "wattHoursPerRun", "gramsPerRun")}
#: Trials whose ranks are scraped: pool, workers, precision, first and last minute, as the plan has them.
_LIVE = {
    "2nqgkn45": ("l4", 2, "float32", 62, 85),
    "c7kx01pd": ("h100-spot", 4, "mixed_float16", 86, 110),
}


def _interval(mean: float, share: float = 0.02) -> dict[str, float]:
    return {"mean": mean, "low": mean * (1 - share), "high": mean * (1 + share)}


def _amount(mean: float, currency: str, share: float = 0.02) -> dict[str, str]:
    return {name: f"{value:.6f}" for name, value in _interval(mean, share).items()} | {"currency": currency}


def _point(pool: str, precision: str, workers: int, *, strong: bool = False, currency: str = "USD") -> dict[str, Any]:
    accelerator, capacity, rates, price = POOLS[pool]
    efficiency = 1 - (0.05 if strong else 0.018) * (workers - 1) ** 0.8
    throughput = rates[PRECISIONS.index(precision)] * workers * efficiency
    batch = 512 // workers if strong else 64
    cost, hours = float(price) * workers / throughput / 3600 * 1e6, 90 * 1.28e6 / throughput / 3600
    wide = 0.6 if pool == "l4" and workers == 8 else 0.02  # two repeats that disagree
    base: dict[str, Any] = {
        "workload": "resnet50",
        "pool": pool,
        "accelerator": accelerator,
        "capacityType": {"spot": "Spot", "on-demand": "OnDemand"}[capacity],
        "workers": workers,
        "workersPerNode": 1,
        "batchPerWorker": batch,
        "globalBatch": batch * workers,
        "precision": precision,
    }
    if (pool, precision, workers) == ("l4", "float32", 8):
        return base | {"state": "Failed", "reason": "The loss is not finite."}
    kind = "strong" if strong else "weak"
    measured = {
        "state": "Measured",
        "throughput": _interval(throughput, wide),
        "scaling": [{"kind": kind, "baselineWorkers": 1, "efficiency": _interval(efficiency, wide)}],
        "cost": {"perMillionSamples": _amount(cost, currency)},
        "relative": {"throughput": _interval(throughput / rates[0]), "cost": _interval(cost / 0.92)},
        "goals": [{"name": "90-epochs", "hours": _interval(hours), "cost": _amount(hours * workers * 2, currency)}],
        "bill": {
            "total": f"{cost:.4f}",
            "currency": currency,
            "attempts": 3,
            "parts": {"startUp": f"{cost / 5:.4f}", "measured": f"{cost / 2:.4f}", "lost": f"{cost / 9:.4f}"},
        },
        "gpu": {"utilization": 0.93, "memoryPeakBytes": 41 << 30, "watts": 640.0 * workers, "throttled": 0.31},
        "energy": {"joules": _interval(230_000.0), "by": "Counter", **_METERED},
        "warnings": [{"reason": "WeakNode", "message": "Node n7 is slow."}] if workers == 8 else [],
    }
    return base | measured


def _waiting(point: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in point.items() if name in _KEY} | {"state": "Running"}


def _condition(name: str, value: bool, reason: str = "Reason") -> dict[str, Any]:
    state = {"status": str(value), "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {"type": name, **state}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _goodput(share: float) -> dict[str, Any]:
    def of(pool: str, reclaimed: int, goodput: float) -> dict[str, Any]:
        held = 14_400 * share + 60
        return {
            "pool": pool,
            "capacityType": {"spot": "Spot", "on-demand": "OnDemand"}[POOLS[pool][1]],
            "attempts": 24,
            "interruptions": {"total": reclaimed, "reclaimed": reclaimed},
            "nodeHours": held / 3600,
            "perNodeHour": _interval(reclaimed / 4 + 0.01, 0.8),
            "nodeSeconds": {"queued": 300.0, "startUp": 0.1 * held, "useful": goodput * held, "lost": 0.1 * held},
            "goodput": goodput,
            "effectivePrice": f"{float(POOLS[pool][3]) / goodput:.4f}",
            "currency": "USD",
            "recoverySeconds": {"count": 2, "median": 95.0, "mean": 99.0} if reclaimed else None,
            "sentence": "",
        }

    return {"pools": [of("h100-spot", int(5 * share), 0.71), of("l4", 0, 0.88)]}


def _benchmarks(begun: float, minute: int) -> exporter.Series:
    now, share = begun + 60 * minute, min(1.0, minute / _FINISHED_MINUTE)
    found = exporter.Series(clock=lambda: now)
    points = [_point(pool, precision, size) for pool in POOLS for precision in PRECISIONS for size in SIZES]
    done, is_over = int(48 * share), minute >= _FINISHED_MINUTE
    status: dict[str, Any] = {
        "startTime": _time(begun),
        "completionTime": _time(begun + 60 * _FINISHED_MINUTE) if is_over else None,
        "trials": {"total": 48, "finished": done, "running": 0 if is_over else 1},
        "attempts": {"started": done + 9, "succeeded": done, "failed": 3, "preempted": int(5 * share), "stopped": 1},
        "conditions": [_condition("Finished", is_over), _condition("Succeeded", False)],
        "spent": {"amount": f"{41.5 * share:.4f}", "currency": "USD", "clock": "Jobs"},
        "results": [point if at < int(16 * share) else _waiting(point) for at, point in enumerate(points)],
        "environments": [
            {"environment": "p44744ynswjl", "accelerator": "NVIDIA H100 80GB HBM3", "driver": "570.86", "cuda": "12.8"},
            {"environment": "b93kk1ddq0aa", "accelerator": "NVIDIA L4", "driver": "570.86", "cuda": "12.8"},
        ],
        "goodput": _goodput(share),
    }
    if is_over:
        status["best"] = {
            "pool": "h100-spot",
            "workers": 4,
            "setting": "batch 64 with mixed_float16",
            "predicted": False,
            "sure": True,
            "tied": 1,
            "hours": _interval(2.8),
            "shown": {"pool": "h100-spot", "time": "2.8 h"},
        }
        counts = {"passed": 12, "failed": 1, "cannotTell": 2, "notCompared": 1}
        status["comparison"] = {
            "baseline": "before",
            "tolerance": "0.05",
            "verdict": "Fail",
            "points": counts,
            "sentence": "One point is slower.",
        }
    _observe(found, "team-a", BENCHMARK, status, budget="60", currency="USD")
    strong: dict[str, Any] = {
        "startTime": _time(begun + 1200),
        "trials": {"total": 12, "finished": int(6 * share), "running": 1},
        "attempts": {"started": 8, "succeeded": int(6 * share), "failed": 0, "preempted": 1},
        "conditions": [_condition("Finished", False), _condition("GangPending", True)],
        "spent": {"amount": f"{10.4 * share:.4f}", "currency": "EUR", "clock": "Jobs"},
        "results": [_point("h100-spot", "float32", size, strong=True, currency="EUR") for size in SIZES],
    }
    _observe(found, "team-b", STRONG, strong, budget="10", currency="EUR")
    levels = [
        {"point": "resnet50 h100-spot x4", "series": "p44744ynswjl", "speed": 9000.0, "usual": 9800.0},
        {"point": "resnet50 l4 x4", "series": "b93kk1ddq0aa", "speed": 1801.0, "usual": 1799.0},
    ]
    of_level = {"since": _time(begun), "runs": 12, "verdict": "NotSlower"}
    schedule = {
        "conditions": [_condition("Regressed", True)],
        "activeRuns": 1,
        "lastScheduleTime": _time(begun + 3600),
        "nextScheduleTime": _time(begun + 90_000),
        "slowerPoints": 1,
        "runsKept": 20,
        "levels": [{**level, **of_level} for level in levels],
        "slowNodes": [{"node": "n7", "pool": "l4", "speed": 0.8, "nodes": 9, "sentence": ""}],
        "monthly": {"hours": 730, "runs": "30", "currency": "USD", "total": "212.4", "sentence": ""},
    }
    body = {"metadata": {"name": SCHEDULE, "namespace": "team-a", "uid": "s"}, "spec": {}, "status": schedule}
    found.observe(queue.Key(queue.Kind.SCHEDULE, "team-a", SCHEDULE), body)
    return found


def _observe(found: exporter.Series, namespace: str, name: str, status: dict[str, Any], **spec: str) -> None:
    limits = {"currency": spec["currency"], "limits": {"budget": spec["budget"]}}
    body = {"metadata": {"name": name, "namespace": namespace, "uid": name}, "spec": limits, "status": status}
    stored_analysis.observe(found, queue.benchmark_key(namespace, name), body)


def _pools() -> exporter.PoolCollector:
    found = exporter.PoolCollector(held=lambda: {"h100-spot": 6}, waiting=lambda: {"l4": 2})
    pools = {}
    for name, (accelerator, capacity, _, price) in POOLS.items():
        status = {
            "nodes": 8,
            "readyNodes": 7 if name == "l4" else 8,
            "slots": 8,
            "pricePerNodeHour": f"{price} USD",
            "priceAsOf": "2026-01-02",
            "conditions": [_condition("PriceStale", name == "l4")],
        }
        rented = {"spot": "Spot", "on-demand": "OnDemand"}[capacity]
        made = builders.pool(name, accelerator=accelerator, capacityType=rented)
        pools[name] = (made, GpuPoolStatus.model_validate(status))
    found.replace(pools)
    return found


def _uuid(pool: str, node: int) -> str:
    return f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{pool}-{node}')}"


class Hours:
    """The pages of one minute after another: counters go on."""

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._operator = prometheus_client.CollectorRegistry()
        self._health = exporter.Health(self._operator)
        self._operator.register(_pools())
        self._health.leader.set(1)
        self._ranks = {
            (trial, rank): sampling.LiveMetrics(
                gangs.make_assignment(
                    trial=trial, workers=workers, workload="resnet50", precision=precision, batch_per_worker=64
                ),
                rank=rank,
                namespace="team-a",
            )
            for trial, (_, workers, precision, _, _) in _LIVE.items()
            for rank in range(workers)
        }
        for (trial, rank), live in self._ranks.items():
            live.begin(_uuid(_LIVE[trial][0], rank))

    def pages(self, minute: int) -> Iterator[tuple[dict[str, str], str]]:
        """What each target serves, with the labels that a scrape adds."""
        for number in range(20):
            self._health.reconciled("failed" if minute % 40 == 0 and not number else "done", 0.02 + 0.004 * number)
            self._health.requested("patch" if number % 3 else "get", "gpubenchmarks", "409" if number == 19 else "200")
        self._health.queue_depth.set(minute % 4)
        series = _benchmarks(self._begun, minute)
        page = b"".join(server.parts(self._operator, series, prometheus_client.generate_latest)).decode()
        yield {"job": "gpubench-operator", "pod": "gpubench-0", "instance": "10.0.0.2:8080"}, page
        for (trial, rank), live in self._ranks.items():
            pool, workers, precision, first, last = _LIVE[trial]
            if not first <= minute <= last:
                continue
            rate = POOLS[pool][2][PRECISIONS.index(precision)]
            slower = 1.15 if rank == workers - 1 else 1.0
            live.computed(64 / rate * 0.9 * slower)
            live.window(steps=max(1, round(20 * rate / 64)), seconds=20.0, loss=6.9 - 0.01 * (minute - first))
            gpu = nvidia.GpuReading(
                utilization=0.96 / slower, memory_bytes=38 << 30, watts=560.0 + 20 * rank, celsius=66.0 + 7 * rank
            )
            live.usage(sampling.Reading(nanoseconds=1, processor_seconds=1.0, memory_bytes=9 << 30, gpu=gpu), 2.5)
            where = {
                "benchmark": BENCHMARK,
                "pool": pool,
                "pod": f"gpubench-{trial}-1-{rank}",
                "node": f"{pool}-{rank}",
            }
            page = prometheus_client.generate_latest(live.registry).decode()
            yield {"job": "gpubench-gangs", "instance": f"10.0.{len(pool)}.{rank}:9400", **where}, page
        yield {}, "".join(_others())


def _others() -> Iterator[str]:
    """DCGM exporter, kube-state-metrics and OpenCost, with the labels that they have by default."""
    for pool, (_, _, _, price) in POOLS.items():
        for node in range(8):
            gpu = f'UUID="{_uuid(pool, node)}",gpu="0",Hostname="{pool}-{node}",modelName="{POOLS[pool][0]}"'
            yield f"DCGM_FI_DEV_SM_CLOCK{{{gpu}}} {1980 - 40 * node}\n"
            yield f"DCGM_FI_DEV_XID_ERRORS{{{gpu}}} {79 if node == 3 else 0}\n"
            yield f'node_total_hourly_cost{{node="{pool}-{node}"}} {float(price) * 1.06}\n'
    for trial, (pool, workers, _, _, _) in _LIVE.items():
        for rank in range(workers):
            pod = f'namespace="team-a",pod="gpubench-{trial}-1-{rank}"'
            yield f'kube_pod_labels{{{pod},label_gpubench_dev_benchmark="{BENCHMARK}"}} 1\n'
            yield f'kube_pod_container_resource_requests{{{pod},resource="nvidia_com_gpu",node="{pool}-{rank}"}} 1\n'
