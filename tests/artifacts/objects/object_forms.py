# SPDX-License-Identifier: Apache-2.0
"""Objects of each kind that are as short as they can be, and parts of longer ones; a case is one of them, changed."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from cluster import ApiError
from gpubench import names
from gpubench_cluster import kube

BENCHMARKS = kube.BENCHMARKS.path(namespace="default")
POOLS = kube.POOLS.path()
SCHEDULES = kube.SCHEDULES.path(namespace="default")
ABSENT = object()  # in a change: the field is taken out


def block(**changes: Any) -> dict[str, Any]:
    fields = {"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [1, 2], "batchPerWorker": [64]}
    return changed(fields, changes)


def benchmark(name: str = "study", **changes: Any) -> dict[str, Any]:
    spec = changed({"sweep": [block()]}, changes)
    return {"apiVersion": names.API_VERSION, "kind": "GpuBenchmark", "metadata": {"name": name}, "spec": spec}


def training(**changes: Any) -> dict[str, Any]:
    return benchmark(**{"sweep": [block(data=GENERATED)], "measure": {"mode": "Training"}, **changes})


def pool(name: str = "place", **changes: Any) -> dict[str, Any]:
    spec = changed({"slotsPerNode": 1, "maxNodes": 2, "slot": {"cpu": "1", "memory": "1Gi"}}, changes)
    return {"apiVersion": names.API_VERSION, "kind": "GpuPool", "metadata": {"name": name}, "spec": spec}


def schedule(name: str = "weekly", **changes: Any) -> dict[str, Any]:
    spec = changed({"schedule": "0 3 * * 0", "benchmarkTemplate": {"spec": {"sweep": [block()]}}}, changes)
    return {"apiVersion": names.API_VERSION, "kind": "GpuBenchmarkSchedule", "metadata": {"name": name}, "spec": spec}


def changed(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**fields, **changes}.items() if value is not ABSENT}


EUROS = {"from": "EUR", "rate": "1.228", "asOf": "2018-02-28", "source": "an example"}
UNTIL = {"relativeHalfWidth": "0.02"}
ONE_GOAL = {"name": "one", "workload": "mnist_cnn", "samples": 60000}
PRICE = {"perNodeHour": "10.21", "currency": "USD", "asOf": "2026-11-01"}
RANGE = {"low": "8.90", "high": "12.40", "period": "2026-08/2026-10"}
OWNERSHIP = {"purchase": "9000", "lifetimeMonths": 36, "hoursPerMonth": 200, "currency": "EUR", "asOf": "2026-11-01"}
POWER = {"hostWatts": 700, "pue": "1.1", "gramsPerKilowattHour": "385", "asOf": "2026-11-01", "source": "the provider"}
GPU_SLOT = {"gpuResource": "nvidia.com/gpu", "cpu": "11", "memory": "80Gi"}
VOLUME = {"name": "data", "mountPath": "/data", "hostPath": {"path": "/srv/data"}}
CHECKPOINT = {"volume": {"claimName": "kept"}}
GENERATED = {"source": "Generated"}
RESULTS = {"volume": {"claimName": "runs"}, "path": "team-a/studies"}
OWN = {"name": "mine", "file": "/models/mine.py"}
LONG_VARIANTS = [{"name": f"long-{index}", "env": [{"name": "A", "value": "x" * 4000}]} for index in range(5)]
DYNAMIC = {"name": "dynamic", "lossScaling": "Dynamic"}
HALF = ["mixed_float16"]


class Bad(NamedTuple):
    """An object that is refused: the field that is blamed, and words of the sentence."""

    title: str
    document: dict[str, Any]
    field: str
    sentence: str
    server: str | None = None  # the API server's own words, where no rule of ours speaks


def words(refusal: ApiError) -> str:
    """What kubectl would print of the answer."""
    return str(json.loads(refusal.message)["message"])
