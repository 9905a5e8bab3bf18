# SPDX-License-Identifier: Apache-2.0
"""A full status as a cluster keeps it: the short one, and ConfigMaps with its analysis. And a worker that is none."""

import time
from collections.abc import Callable, Mapping
from concurrent import futures
from typing import Any

import builders
from gpubench.analysis import analyze, status
from gpubench.api.benchmark_status import Analysis, AnalysisReference, FullStatus, GpuBenchmarkStatus
from gpubench.scheduler import manifests
from gpubench.scheduler.observed import Study
from gpubench_cluster import kube
from gpubench_operator import analyst, exporter, queue
from memory_kube import MemoryKube


def stored(study: Study, full: FullStatus) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The status of the object, and its ConfigMaps by name."""
    made = analyst.stored((study.namespace, study.name), study.uid, _analysis(full), version=0)
    short = _short(full, made.found)
    bodies = [manifests.analysis_config_map(study, part, text) for part, text in enumerate(made.parts)]
    return short.to_wire(), {body["metadata"]["name"]: body for body in bodies}


def short(full: FullStatus) -> dict[str, Any]:
    """What its object shows of it."""
    return _short(full, status.findings(_analysis(full))).to_wire()


def _short(full: FullStatus, found: status.Findings) -> GpuBenchmarkStatus:
    progress = set(FullStatus.model_fields) - set(Analysis.model_fields)
    return GpuBenchmarkStatus(
        **{field: getattr(full, field) for field in progress},
        results=found.shown.results,
        comparison=full.comparison,
        best=found.shown.best,
        answer=found.shown.answer,
        analysis=found.shown.analysis,
    )


def _analysis(full: FullStatus) -> Analysis:
    return Analysis(**{field: getattr(full, field) for field in Analysis.model_fields})


def put(api: MemoryKube, body: kube.Object, full_status: Any) -> None:
    """An object with this status into an API server in memory."""
    placed = api.put(kube.BENCHMARKS, body)
    metadata = placed["metadata"]
    where = {"namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"]}
    short, config_maps = stored(Study.of_spec(builders.spec(), **where), FullStatus.model_validate(full_status))
    for one in config_maps.values():
        api.put(kube.CONFIG_MAPS, one)
    api.put(kube.BENCHMARKS, {**placed, "status": short})


def full(body: Mapping[str, Any], config_map: Callable[[str], Any]) -> dict[str, Any]:
    """The status of an object with the analysis that it refers to, which must be the one that is stored."""
    shown: dict[str, Any] = body.get("status") or {}
    if "analysis" not in shown:
        return shown
    reference = AnalysisReference.model_validate(shown["analysis"])
    found = analyze.read([manifests.read_analysis_part(config_map(one)) for one in reference.config_maps], reference)
    assert found is not None, "its hash is not the one in the status"
    own = {field: value for field, value in shown.items() if field not in ("analysis", "results", "best")}
    return {**own, **found.to_wire()}


def of_cluster(get: Callable[[str], Any], *, namespace: str, name: str) -> dict[str, Any]:
    """The same by paths; where the operator writes just now, as soon as it has."""
    for _ in range(100):
        body = get(kube.BENCHMARKS.path(namespace=namespace, name=name))
        try:
            return full(body, lambda one: get(kube.CONFIG_MAPS.path(namespace=namespace, name=one)))
        except AssertionError:
            time.sleep(0.1)
    raise AssertionError(f"the analysis of {name} is not the one that its status refers to")


def observe(figures: exporter.Series, key: queue.Key, body: Mapping[str, Any]) -> None:
    """A benchmark with its analysis in its status, as an operator sees it."""
    whole = FullStatus.model_validate(body["status"])
    made = analyst.stored((key.namespace, key.name), body["metadata"]["uid"], _analysis(whole), version=0)
    figures.observe(key, {**body, "status": _short(whole, made.found).to_wire()})
    figures.take(key, made.sha256, made.lines)


class AtOnce(futures.Executor):
    """A worker in the same process: whatever is asked of it is done before it is waited for."""

    def submit(self, fn: Any, /, *arguments: Any, **named: Any) -> "futures.Future[Any]":
        future: futures.Future[Any] = futures.Future()
        try:
            future.set_result(fn(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future
