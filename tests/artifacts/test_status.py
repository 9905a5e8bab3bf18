# SPDX-License-Identifier: Apache-2.0
"""The largest status that the schema allows is stored, and kubectl shows what people look for first."""

import itertools
import json
import re
from typing import Any

import pytest

import builders
import stored_analysis
from cluster import Cluster
from gpubench import names, units
from gpubench.analysis import pool_status
from gpubench.api import benchmark, benchmark_status, pool_health, price_result, schema, status_sizes
from gpubench.api.condition import Condition
from gpubench.api.pool import GpuPool, GpuPoolSpec
from gpubench.plan import expand
from gpubench.scheduler import conditions
from world import World

BENCHMARKS = f"/apis/{names.API_VERSION}/namespaces/default/{names.BENCHMARK_PLURAL}"
POOLS = f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}"
NOW = "2026-11-21T12:00:00Z"
# Longer than any figure comes out of the arithmetic: 17 significant digits are all that a double has.
FIGURE = 123456.78901234567
AMOUNT = "123456.789012"  # twelve digits, at most nine of them behind the point
SAMPLED = 1.235e-05  # a mean of samples has four digits
STATUS_BYTES_MAX = 1024 * 1024
POOL_STATUS_BYTES_MAX = 256 * 1024  # of every pool, in every list of them


#: Texts that may be in any script, where a character is three bytes; sentences are cut to as many bytes as the schema
#: takes characters. All others are names and words of ASCII.
FREE_TEXTS = {"environment"}
SENTENCES = {"message", "answer", "clock"}
WIDE = "測"
SAMPLES = {
    *("utilization", "watts", "throttled", "processors"),
}


def largest(node: dict[str, Any], name: str = "") -> Any:
    """A value that fills each bound of a schema."""
    if "additionalProperties" in node:  # the numbers of a warning
        names_of = [f"{index}".rjust(status_sizes.FIGURE_NAME_MAX, "x") for index in range(node["maxProperties"])]
        return dict.fromkeys(names_of, SAMPLED)
    if node["type"] == "object":
        return {field: largest(inner, field) for field, inner in node["properties"].items()}
    if node["type"] == "array":
        return [keyed(largest(node["items"], name), node, index) for index in range(node["maxItems"])]
    if node["type"] == "string":
        return text(node, name)
    if node["type"] in ("boolean", "integer"):
        return True if node["type"] == "boolean" else 1_000_000
    return SAMPLED if name in SAMPLES else FIGURE


def keyed(entry: Any, node: dict[str, Any], index: int) -> Any:
    keys = node.get("x-kubernetes-list-map-keys", ())
    return {**entry, **dict.fromkeys(keys, f"Type{index}")} if keys else entry


def text(node: dict[str, Any], name: str) -> str:
    if "enum" in node:
        return max(map(str, node["enum"]), key=len)
    if node.get("format") == "date-time":
        return NOW
    if "x-kubernetes-validations" in node:  # of all texts in a status, only amounts have a form
        return AMOUNT
    most = int(node["maxLength"])
    if name in SENTENCES:
        return conditions.clamped(WIDE * most, most)
    return (WIDE if name in FREE_TEXTS else "x") * most


def stored_bytes(status: Any) -> int:
    """As the API server stores it."""
    return len(json.dumps(status, separators=(",", ":"), ensure_ascii=False).encode())


@pytest.fixture(scope="module")
def study(served_api: Cluster) -> str:
    spec = {"sweep": [{"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [1], "batchPerWorker": [64]}]}
    body = {"apiVersion": names.API_VERSION, "kind": "GpuBenchmark", "metadata": {"name": "reported"}, "spec": spec}
    served_api.request("POST", BENCHMARKS, body)
    return "reported"


def patch_status(cluster: Cluster, path: str, status: Any) -> Any:
    body = {"status": status}
    return cluster.request("PATCH", f"{path}/status", body, content_type="application/merge-patch+json")


def test_status_of_the_largest_size_is_stored(served_api: Cluster, study: str) -> None:
    status = largest(schema.object_schema(schema.BENCHMARK)["properties"]["status"])
    assert len(status["results"]) == benchmark.POINTS_MAX
    assert stored_bytes(status) < STATUS_BYTES_MAX
    stored = patch_status(served_api, f"{BENCHMARKS}/{study}", status)
    assert stored["status"] == status


def test_a_study_without_status_has_columns_without_values(served_api: Cluster, study: str) -> None:
    patch_status(served_api, f"{BENCHMARKS}/{study}", None)
    header, row = columns(served_api, "gbench", study)
    assert header == ["NAME", "STATUS", "POINTS", "BEST-POOL", "COST", "TIME", "SPENT", "AGE", "MESSAGE"]
    assert row[0] == study


def test_a_running_study_shows_where_it_stands(served_api: Cluster, study: str) -> None:
    spent = price_result.Spent(amount="12.31", currency="USD", clock="of pods")
    status = benchmark_status.GpuBenchmarkStatus(
        phase="Running", points_done="40/72", trials=benchmark_status.TrialCounts(total=216, finished=120), spent=spent
    )
    patch_status(served_api, f"{BENCHMARKS}/{study}", status.to_wire())
    _, row = columns(served_api, "gbench", study)
    assert row[:5] == [study, "Running", "40/72", "USD", "12.31"], "nothing is best as long as it goes on"
    lines = served_api.kubectl("get", "gbench", study, "-o", "wide").stdout.splitlines()
    assert lines[1][lines[0].index("TRIALS") :].split()[0] == "120"


def test_a_column_says_why_a_study_waits_and_fields_select(served_api: Cluster, study: str) -> None:
    waits = Condition(
        type="GangPending", status="True", reason="WaitingForSlots", message="0/3 nodes fit", last_transition_time=NOW
    )
    status = benchmark_status.GpuBenchmarkStatus(phase="Running", conditions=(waits,))
    patch_status(served_api, f"{BENCHMARKS}/{study}", status.to_wire())
    assert "0/3 nodes fit" in served_api.kubectl("get", "gbench", study).stdout
    for phase, found in (("Running", True), ("Failed", False)):
        listed = served_api.kubectl("get", "gbench", "--field-selector", f"status.phase={phase}", "-o", "name").stdout
        assert (study in listed) is found


def test_a_study_with_an_objective_shows_what_to_take_at_what_cost_for_how_long(
    served_api: Cluster, study: str
) -> None:
    one = benchmark_status.BestSummary(
        pool="a100",
        workers=2,
        hours=5.26,
        cost="10.53",
        shown=benchmark_status.BestShown(pool="a100 (tie)", cost="USD 10.5", time="5.26 h"),
    )
    status = benchmark_status.GpuBenchmarkStatus(phase="Succeeded", points_done="72/72", best=one)
    patch_status(served_api, f"{BENCHMARKS}/{study}", status.to_wire())
    lines = served_api.kubectl("get", "gbench", study).stdout.splitlines()
    starts = [lines[0].index(title) for title in ("BEST-POOL", "COST", "TIME", "SPENT")]
    shown = [lines[1][begin:end].strip() for begin, end in itertools.pairwise(starts)]
    assert shown == ["a100 (tie)", "USD 10.5", "5.26 h"]


@pytest.fixture
def twenty_points(served_api: Cluster, study: str) -> str:
    """A status as a benchmark of twenty points has it at its end, each measured three times."""
    goal = {"name": "much", "workload": "mnist_cnn", "samples": 36_000_000}
    dear = {"per_node_hour": "9", "currency": "USD", "as_of": "2026-11-02"}
    cheap = dear | {"per_node_hour": "0.36"}
    pools = [builders.pool("a", max_nodes=16, price=cheap), builders.pool("b", max_nodes=16, price=dear)]
    spec = builders.spec(
        builders.block(pools=["a", "b"], workers=[1, 2, 4, 8, 16], batchPerWorker=[32, 64]),
        goals=[goal],
        objective={"minimize": "Cost", "goal": "much"},
        limits={"parallelTrials": 4},
    )
    world = World(study=builders.study(spec), plan=expand.freeze(spec, tuple(pools), NOW))
    full = world.run(rounds=2000)
    assert len(full.results) == 20
    short, _ = stored_analysis.stored(world.study, full)
    patch_status(served_api, f"{BENCHMARKS}/{study}", None)
    patch_status(served_api, f"{BENCHMARKS}/{study}", short)
    return study


def test_the_status_of_twenty_points_can_be_read_at_a_glance(served_api: Cluster, twenty_points: str) -> None:
    page = served_api.kubectl("get", "gbench", twenty_points, "-o", "yaml").stdout
    status = page[page.index("\nstatus:\n") :].strip().splitlines()
    assert len(status) <= 200, page


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("samplesPerSecond", r"[0-9.]+"),
        ("efficiency", r"[0-9.]+"),
        ("cost", r"[0-9.]+"),
        ("summary", r"[0-9,. ±()–]+ samples/s, efficiency [0-9.]+ %, USD [0-9.]+ a million"),
    ],
)
def test_a_points_figures_need_nothing_but_the_status(
    served_api: Cluster, twenty_points: str, path: str, shape: str
) -> None:
    which = f"{{.status.results[?(@.key=='mnist_cnn/a/8/batch-64')].{path}}}"
    assert re.fullmatch(shape, served_api.kubectl("get", "gbench", twenty_points, "-o", f"jsonpath={which}").stdout)


def test_conditions_can_be_waited_for(served_api: Cluster, study: str) -> None:
    condition = Condition(
        type="Finished", status="True", reason="AllPointsEnded", message="Done.", last_transition_time=NOW
    )
    patch_status(served_api, f"{BENCHMARKS}/{study}", {"conditions": [condition.to_wire()]})
    done = served_api.kubectl("wait", "--for=condition=Finished", f"gbench/{study}", "--timeout=10s")
    assert "condition met" in done.stdout


def test_a_pool_shows_what_it_is_and_what_it_costs(served_api: Cluster) -> None:
    spec = {
        "accelerator": "A100-40GB",
        "capacityType": "Spot",
        "slotsPerNode": 8,
        "maxNodes": 2,
        "slot": {"gpuResource": "nvidia.com/gpu", "cpu": "11", "memory": "80Gi"},
    }
    body = {"apiVersion": names.API_VERSION, "kind": "GpuPool", "metadata": {"name": "shown"}, "spec": spec}
    served_api.request("POST", POOLS, body)
    patch_status(served_api, f"{POOLS}/shown", {"readyNodes": 1, "pricePerNodeHour": "10.21 USD"})
    header, row = columns(served_api, "gpool", "shown")
    assert header == ["NAME", "ACCELERATOR", "CAPACITY", "SLOTS", "READY-NODES", "PRICE/H", "AGE"]
    assert row[:7] == ["shown", "A100-40GB", "Spot", "8", "1", "10.21", "USD"]


def test_a_pool_shows_in_wide_that_its_price_is_old(served_api: Cluster) -> None:
    spec = {
        "accelerator": "A100-40GB",
        "slotsPerNode": 1,
        "maxNodes": 1,
        "slot": {"gpuResource": "nvidia.com/gpu", "cpu": "1", "memory": "1Gi"},
        "price": {"perNodeHour": "10.21", "currency": "USD", "asOf": "2018-07-01"},
    }
    body = {"apiVersion": names.API_VERSION, "kind": "GpuPool", "metadata": {"name": "dated"}, "spec": spec}
    served_api.request("POST", POOLS, body)
    found = GpuPool(name="dated", spec=GpuPoolSpec.model_validate(spec))
    patch_status(served_api, f"{POOLS}/dated", pool_status.of(found, [], units.epoch_seconds(NOW)))
    lines = served_api.kubectl("get", "gpool", "dated", "-o", "wide").stdout.splitlines()
    cells = dict(zip(lines[0].split(), lines[1].replace("10.2100 USD", "10.2100").split(), strict=False))
    assert (cells["PRICE-AS-OF"], cells["PRICE-STALE"]) == ("2018-07-01", "True")


def test_the_largest_history_of_a_pool_is_stored(served_api: Cluster) -> None:
    spec = {"slotsPerNode": 1, "maxNodes": 2, "slot": {"cpu": "1", "memory": "1Gi"}}
    body = {"apiVersion": names.API_VERSION, "kind": "GpuPool", "metadata": {"name": "tested"}, "spec": spec}
    served_api.request("POST", POOLS, body)
    status = {"health": largest(schema.object_schema(schema.POOL)["properties"]["status"])["health"]}
    assert len(status["health"]) == pool_health.KINDS_MAX
    assert stored_bytes(status) < POOL_STATUS_BYTES_MAX
    stored = patch_status(served_api, f"{POOLS}/tested", status)
    assert stored["status"]["health"] == status["health"]


def test_the_category_lists_both_kinds(served_api: Cluster, study: str) -> None:
    listed = served_api.kubectl("get", names.CATEGORY, "-o", "name").stdout
    assert f"gpubenchmark.gpubench.dev/{study}" in listed


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ("gbench.spec.sweep", ("batchPerWorker\t<[]integer>", "weak scaling", "workloads\t<[]string> -required-")),
        ("gbench.spec.limits", ("Default: 12h.", "From 1 to 64.", "BudgetExhausted")),
        ("gpool.spec.price", ("currency\t<string> -required-", "ISO 4217")),
        ("gbench.status.results", ("Throughput, mean over the repeats.",)),
    ],
)
def test_explain_is_the_manual(served_api: Cluster, field: str, expected: tuple[str, ...]) -> None:
    page = served_api.kubectl("explain", field).stdout
    for words in expected:
        assert words in page


def test_every_field_has_a_description() -> None:
    for kind in schema.KINDS:
        whole = schema.object_schema(kind)
        for section in ("spec", "status"):
            assert list(undescribed(whole["properties"][section], section)) == []


def undescribed(node: dict[str, Any], path: str) -> list[str]:
    found = [path] if not node.get("description") else []
    for name, field in node.get("properties", {}).items():
        found += undescribed(field, f"{path}.{name}")
    inner = node.get("items", {})
    return found + (undescribed(inner, f"{path}[]") if inner.get("type") == "object" else [])


def columns(cluster: Cluster, resource: str, name: str) -> tuple[list[str], list[str]]:
    lines = cluster.kubectl("get", resource, name).stdout.splitlines()
    return lines[0].split(), lines[1].split()
