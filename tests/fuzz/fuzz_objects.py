# SPDX-License-Identifier: Apache-2.0
"""Objects to apply: valid ones, nearly valid ones, hostile ones. The same seed gives the same objects.

A valid one is made from the schema, and then what rules across fields forbid is put right, here and nowhere else. The
names of its pools are those of pools that are there, that may be there, and that are not.
"""

import contextlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import hypothesis
import yaml
from hypothesis import strategies as st
from hypothesis.internal import constants_ast
from hypothesis.internal.conjecture import providers

import fuzz_schema
from fuzz_schema import Schema, Strategy
from gpubench import names

CRDS = Path(__file__).resolve().parents[2] / "charts" / "gpubench" / "files" / "crds"

STEADY_POOL = "steady"  # it is there all the time, on nodes that take pods
NO_POOL = "not-there"
FUZZED_POOLS = tuple(f"pool-{number}" for number in range(8))  # the names of the pools of each batch
POINTS_MOST = 24  # of a valid study; more is a mutation's
_MESSAGES = "allreduce"
_ROUND = 10
_CURRENCIES = ("USD", "EUR", "CHF")
_PLURALS = {
    names.POOL_KIND: names.POOL_PLURAL,
    names.BENCHMARK_KIND: names.BENCHMARK_PLURAL,
    names.SCHEDULE_KIND: names.SCHEDULE_PLURAL,
}

Object = dict[str, Any]


class Manner(StrEnum):
    """How an object was made."""

    VALID = "valid"
    NEARLY = "nearly valid"
    HOSTILE = "hostile"


class Made(NamedTuple):
    """An object to apply, and how it came about."""

    manner: Manner
    title: str  # what was done to a valid one
    kind: str
    document: Object
    whole: bool = False  # not the spec alone was changed: metadata, kind, size. Only the API server judges these


@cache
def schema_of(kind: str) -> Schema:
    """The schema of a kind, as the chart installs it."""
    plural = _PLURALS[kind]
    text = (CRDS / f"{names.GROUP}_{plural}.yaml").read_text()
    definition = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506  # both are safe
    whole: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return whole


@cache
def sentences() -> frozenset[str]:
    """The sentences of all rules in the CRDs."""

    def within(node: Any) -> list[str]:
        if isinstance(node, list):
            return [text for entry in node for text in within(entry)]
        if not isinstance(node, dict):
            return []
        own = [rule["message"] for rule in node.get("x-kubernetes-validations", ()) if "message" in rule]
        return [*own, *(text for entry in node.values() for text in within(entry))]

    return frozenset(text for kind in _PLURALS for text in within(schema_of(kind)))


def collected(strategy: st.SearchStrategy[Made], *, count: int, seed: str) -> list[Made]:
    """So many objects of a strategy, no two of them alike.

    Ten by ten: from then on hypothesis tries five variants of each example that it has had.
    """
    found: dict[str, Made] = {}
    for number in range(count):
        if len(found) < count:
            found |= {repr(made): made for made in _drawn(strategy, count=_ROUND, seed=f"{seed}.{number}")}
    return list(found.values())[:count]


@contextlib.contextmanager
def _without_constants_of_our_code() -> Iterator[None]:
    """Hypothesis draws constants of the modules that happen to be imported, too: then a seed is no seed."""
    with mock.patch.object(providers, "_get_local_constants", constants_ast.Constants):
        providers.CONSTANTS_CACHE.cache.clear()
        yield
    providers.CONSTANTS_CACHE.cache.clear()


def _drawn(strategy: st.SearchStrategy[Made], *, count: int, seed: str) -> list[Made]:
    found: list[Made] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(strategy)
    def collect(made: Made) -> None:
        found.append(made)

    with _without_constants_of_our_code():
        collect()
    return found


@cache
def _specs(kind: str, optional: int) -> Strategy:
    """Specs that the schema allows; made once, because that costs more than many draws."""
    node = schema_of(kind)["properties"]["spec"]
    return fuzz_schema.values(node, special=_SPECIAL[kind], path="spec", optional=optional)


@cache
def of_kind(kind: str, *, optional: int = 4) -> Strategy:
    """Valid objects of a kind."""
    made = {names.POOL_KIND: pools, names.BENCHMARK_KIND: benchmarks, names.SCHEDULE_KIND: schedules}
    return made[kind](optional=optional)


@st.composite
def pools(draw: st.DrawFn, *, optional: int = 4) -> Object:
    """A valid GpuPool. Its name is given by whoever applies it."""
    spec = draw(_specs(names.POOL_KIND, optional))
    _mend_template(draw, spec)
    spec.get("allowedNamespaces", {}).pop("matchLabels", None)
    if not spec.get("allowedNamespaces", {}).get("names"):
        spec.pop("allowedNamespaces", None)
    if "price" in spec and "ownership" in spec:
        del spec[draw(st.sampled_from(["price", "ownership"]))]
    if "price" in spec:
        _mend_price(draw, spec["price"])
    if "ownership" in spec:
        _mend_ownership(spec["ownership"])
    if spec.get("capacityType") not in ("Spot", "Preemptible"):
        spec.pop("onDemandCounterpart", None)
    if "gpuResource" not in spec["slot"]:
        spec.pop("accelerator", None)
    spec.get("nodeResources", {}).pop(spec["slot"].get("gpuResource"), None)
    if "workers" not in spec.get("measuredBy", {}):
        spec.get("measuredBy", {}).pop("efficiency", None)
    for toleration in spec.get("scheduling", {}).get("tolerations", ()):
        _mend_toleration(toleration)
    return _whole(names.POOL_KIND, spec)


@st.composite
def benchmarks(draw: st.DrawFn, *, optional: int = 4) -> Object:
    """A valid GpuBenchmark. Its name is given by whoever applies it."""
    spec = draw(_specs(names.BENCHMARK_KIND, optional))
    _mend_study(draw, spec)
    return _whole(names.BENCHMARK_KIND, spec)


@st.composite
def schedules(draw: st.DrawFn, *, optional: int = 4) -> Object:
    """A valid GpuBenchmarkSchedule. Its name is given by whoever applies it."""
    spec = draw(_specs(names.SCHEDULE_KIND, optional))
    _mend_study(draw, spec["benchmarkTemplate"]["spec"])
    spec["benchmarkTemplate"]["spec"].pop("ttlSecondsAfterFinished", None)
    return _whole(names.SCHEDULE_KIND, spec)


def _mend_study(draw: st.DrawFn, spec: Object) -> None:
    """What rules across the fields of a study want."""
    measure = spec.get("measure", {})
    _mend_measure(draw, measure)
    for block in spec["sweep"]:
        _mend_block(draw, block, measure=measure)
    _mend_size(spec["sweep"])
    _mend_template(draw, spec)
    _mend_goals(draw, spec)
    _mend_money(spec)
    if "ttlSecondsAfterFinished" in spec:
        spec["ttlSecondsAfterFinished"] = 86_400  # its end is looked at
    if measure.get("mode") != "Training":
        spec.pop("checkpoint", None)
    if spec.get("drill", {}).get("kind") != "Drain":
        spec.get("drill", {}).pop("cordonFor", None)
    if "baseline" in spec:
        spec["baseline"] = {"pool": spec["sweep"][0]["pools"][0]}
    if all("command" in block.get("custom", {}) for block in spec["sweep"]):
        spec.pop("results", None)


def _whole(kind: str, spec: Object) -> Object:
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": "to-be-named"}, "spec": spec}


def _pool_names() -> Strategy:
    """One in two names the pool that has nodes."""
    return st.one_of(st.just(STEADY_POOL), st.sampled_from([*FUZZED_POOLS, NO_POOL]))


def _one_of(*texts: str) -> Strategy:
    return st.sampled_from(texts)


_TEMPLATE_SPECIAL: dict[str, Strategy] = {
    "spec.template.image": _one_of("gpubench-jobs:dev", "registry.example/jobs@sha256:" + "0" * 64, "jobs"),
    "spec.template.volumes[].mountPath": _one_of("/data", "/models", "/srv/a b", "/data/inner", "/übung"),
    "spec.template.volumes[].name": _one_of("data", "models", "a", "v0"),
    "spec.template.volumes[].hostPath.path": _one_of("/srv/data", "/models"),
}
_POOL_SPECIAL: dict[str, Strategy] = _TEMPLATE_SPECIAL | {
    "spec.maxNodes": st.integers(1, 4),  # each node is a pod of a gang
    "spec.slotsPerNode": st.integers(1, 8),
    "spec.slot.gpuResource": _one_of("nvidia.com/gpu", "amd.com/gpu"),
    "spec.scheduling.nodeSelector": st.sampled_from([{"pool": "steady"}, {"pool": "elsewhere"}, {}]),
    "spec.nodeResources{}": _one_of("1", "2Gi", "0"),
    "spec.onDemandCounterpart": st.sampled_from([STEADY_POOL, NO_POOL]),
    "spec.scalingBaseline": _pool_names(),
    "spec.measuredBy.pool": st.sampled_from([STEADY_POOL, NO_POOL]),
    "spec.price.currency": st.sampled_from(_CURRENCIES),
    "spec.ownership.currency": st.sampled_from(_CURRENCIES),
    "spec.price.discount": _one_of("0", "0.3", "0.999"),
    "spec.power.pue": _one_of("1", "1.1", "5"),
    "spec.power.gramsPerKilowattHour": _one_of("0", "385", "5000"),
    "spec.price.range.period": _one_of("2026-08/2026-10", "2026-08-01/2026-08-31"),
}
_BENCHMARK_SPECIAL: dict[str, Strategy] = _TEMPLATE_SPECIAL | {
    "spec.sweep[].pools": st.lists(_pool_names(), min_size=1, max_size=2, unique=True),
    "spec.sweep[].workers": st.lists(st.sampled_from([1, 2, 3, 4, 8, 16]), min_size=1, max_size=3, unique=True),
    "spec.sweep[].data.path": _one_of("/data", "/data/my set", "/models/ä"),
    "spec.sweep[].custom.file": _one_of("/models/mine.py"),
    "spec.measure.window": _one_of("1s", "2s"),
    "spec.measure.duration": _one_of("2s", "10s", "1m"),
    "spec.measure.repeats.min": st.integers(1, 4),
    "spec.measure.repeats.until.relativeHalfWidth": _one_of("0.02", "0.001", "0.5"),
    "spec.measure.repeats.until.confidence": _one_of("0.95", "0.5", "0.999"),
    "spec.limits.attemptTimeout": _one_of("12h", "1h", "30m", "99999h59999m"),
    "spec.limits.capacityTimeout": _one_of("24h", "0s", "1m"),
    "spec.limits.schedulingTimeout": _one_of("15m", "1h", "20s"),
    "spec.limits.budget": _one_of("40.00", "0.01", "100000"),
    "spec.compareTo.benchmark": _one_of("study-1", "study-2", "never-there"),
    "spec.compareTo.tolerance": _one_of("0.05", "0.001", "0.5"),
    "spec.currency": st.sampled_from(_CURRENCIES),
    "spec.exchangeRates[].from": st.sampled_from(_CURRENCIES),
    "spec.exchangeRates[].rate": _one_of("1.1", "0.9", "10000000"),
    "spec.objective.maxCost": _one_of("500", "12.50"),
    "spec.drill.every": _one_of("5s", "90s"),
}
#: Most are due once a year, or cannot be read: each run of the last one is a study beside the generated ones.
_CRONS = ("0 4 29 2 *", "@yearly", "*/5 3 1 jan mon", "0 0 30 2 *", "61 * * * *", "5-1 0 1 1 *", "* * * * *")
_SCHEDULE_SPECIAL: dict[str, Strategy] = {
    path.replace("spec", "spec.benchmarkTemplate.spec", 1): strategy for path, strategy in _BENCHMARK_SPECIAL.items()
} | {
    "spec.schedule": st.sampled_from(_CRONS),
    "spec.timeZone": _one_of("Europe/Berlin", "America/New_York", "UTC", "Nowhere/City"),
    "spec.costs.currency": st.sampled_from(_CURRENCIES),
    "spec.regressions.tolerance": _one_of("0.05", "0.001", "0.5"),
    "spec.regressions.falseAlarms": _one_of("0.05", "0.001", "10"),
}
_SPECIAL = {
    names.POOL_KIND: _POOL_SPECIAL,
    names.BENCHMARK_KIND: _BENCHMARK_SPECIAL,
    names.SCHEDULE_KIND: _SCHEDULE_SPECIAL,
}


def _mend_template(draw: st.DrawFn, spec: Object) -> None:
    """Each volume has one source, and a mountPath that no other has."""
    template, paths = spec.get("template", {}), set()
    kept = []
    for volume in template.get("volumes", ()):
        sources = {
            "persistentVolumeClaim": {"claimName": "data"},
            "configMap": {"name": "models"},
            "hostPath": {"path": "/srv/data"},
        }
        chosen = draw(st.sampled_from(sorted(sources)))
        volume.setdefault(chosen, sources[chosen])
        for other in sources:
            if other != chosen:
                volume.pop(other, None)
        if volume["mountPath"] not in paths:
            paths.add(volume["mountPath"])
            kept.append(volume)
    if "volumes" in template:
        template["volumes"] = kept


def _mend_price(draw: st.DrawFn, price: Object) -> None:
    """One of the four forms; a range around it; hours where a month is spread."""
    forms = ("perNodeHour", "perSlotHour", "perMonth", "components")
    given = [form for form in forms if form in price]
    chosen = draw(st.sampled_from(given)) if given else "perNodeHour"
    for form in given:
        if form != chosen:
            del price[form]
    price.setdefault(chosen, "10.21")
    if "range" in price:
        price["range"] |= {"low": "0", "high": "999999"}
    monthly = chosen == "perMonth" or any(fee["per"] == "Month" for fee in price.get("fees", ()))
    if monthly:
        price.setdefault("hoursPerMonth", 730)
    else:
        price.pop("hoursPerMonth", None)


def _mend_ownership(ownership: Object) -> None:
    ownership["purchase"] = "9000"
    if ownership.get("idleWatts", 0) > ownership.get("watts", 0):
        del ownership["idleWatts"]


def _mend_toleration(toleration: Object) -> None:
    if "key" not in toleration:
        toleration["operator"] = "Exists"
    if toleration.get("operator") == "Exists":
        toleration.pop("value", None)
    if toleration.get("effect") != "NoExecute":
        toleration.pop("tolerationSeconds", None)


def _mend_measure(draw: st.DrawFn, measure: Object) -> None:
    if measure.get("mode") != "Training":
        measure.pop("timedRegion", None)
    repeats = measure.get("repeats", {})
    if "until" in repeats:
        repeats["min"] = max(3, repeats.get("min", 3))
        repeats["max"] = repeats["min"] + draw(st.integers(1, 3))
    elif "max" in repeats:
        repeats["max"] = repeats.get("min", 3)


def _mend_block(draw: st.DrawFn, block: Object, *, measure: Object) -> None:
    _mend_workloads(draw, block)
    batches = ("batchPerWorker", "globalBatch")
    chosen = next((batch for batch in batches if batch in block), "batchPerWorker")
    block.setdefault(chosen, [64])
    for other in batches:
        if other != chosen:
            block.pop(other, None)
    training = measure.get("mode") == "Training"
    data = block.setdefault("data", {}) if training else block.get("data", {})
    if training and data.get("source", "Synthetic") == "Synthetic":
        data["source"] = draw(st.sampled_from(["Generated", "Volume"]))
    if data.get("source") == "Volume":
        data.setdefault("path", "/data")
    else:
        data.pop("path", None)
    if data.get("source") != "Generated":
        data.pop("samples", None)
    if not training:
        block.pop("epochs", None)
    elif block.get("epochs") == 1 and measure.get("timedRegion", {}).get("firstEpoch") == "Excluded":
        block["epochs"] = 2
    if any(variant.get("lossScaling") == "Dynamic" for variant in block.get("variants", ())):
        block["precision"] = ["mixed_float16"]
    if block.get("placement") == "EachNode":
        del block["workers"][1:]


def _mend_workloads(draw: st.DrawFn, block: Object) -> None:
    """Custom is alone, and has a file or a command."""
    if "Custom" not in block["workloads"] and "custom" not in block:
        return
    block["workloads"] = ["Custom"]
    custom = block.setdefault("custom", {"name": "mine"})
    if "file" in custom and "command" in custom:
        del custom[draw(st.sampled_from(["file", "command"]))]
    if "file" not in custom and "command" not in custom:
        custom["file"] = "/models/mine.py"


def points(sweep: list[Object]) -> int:
    """Points that the blocks name."""
    lists = ("workloads", "pools", "workers", "precision", "variants", "batchPerWorker", "globalBatch")
    total = 0
    for block in sweep:
        product = 1
        for name in lists:
            product *= len(block.get(name, (None,)))
        total += product
    return total


def _mend_size(sweep: list[Object]) -> None:
    """Small enough: at first fewer blocks, then shorter lists."""
    del sweep[next((count for count in range(len(sweep), 1, -1) if points(sweep[:count]) <= POINTS_MOST), 1) :]
    for name in ("workloads", "precision", "variants", "batchPerWorker", "globalBatch", "workers"):
        if points(sweep) > POINTS_MOST and name in sweep[0]:
            del sweep[0][name][1:]


def _mend_goals(draw: st.DrawFn, spec: Object) -> None:
    trained = [
        name
        for block in spec["sweep"]
        for name in ([block["custom"]["name"]] if "custom" in block else block["workloads"])
        if name != _MESSAGES
    ]
    if not trained or not spec.get("goals"):
        spec.pop("goals", None)
        spec.pop("objective", None)
        return
    for goal in spec["goals"]:
        goal["workload"] = draw(st.sampled_from(trained))
    if "objective" in spec:
        spec["objective"]["goal"] = spec["goals"][0]["name"]
        spec["objective"].pop("maxCost" if spec["objective"]["minimize"] == "Cost" else "maxHours", None)


def _mend_money(spec: Object) -> None:
    if spec.get("exchangeRates") or "maxCost" in spec.get("objective", {}):
        spec.setdefault("currency", "USD")
    if "exchangeRates" in spec:
        own = spec.get("currency")
        spec["exchangeRates"] = [rate for rate in spec["exchangeRates"] if rate["from"] != own]


def weighed(weights: Mapping[str, int]) -> Strategy:
    """One of some words, by weight."""
    return st.sampled_from([word for word, weight in weights.items() for _ in range(weight)])
