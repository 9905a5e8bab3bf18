# SPDX-License-Identifier: Apache-2.0
"""`gpubench pools discover` and `gpubench validate`: what one writes the other takes, and so does an API server."""

import json
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import yaml

import command_line
from cluster import Cluster
from gpubench import names, units
from gpubench.analysis import node_facts, proposals
from gpubench.api.pool import GpuPool
from gpubench_cli import documents
from gpubench_operator.settings import Settings

POOLS = Path(__file__).parents[2] / "jobs/examples/pools"
NODES = Path(__file__).parents[1] / "core/nodes"


@pytest.mark.parametrize("place", ["gke", "eks", "own"])
def test_what_is_proposed_is_valid_and_names_no_price(place: str, tmp_path: Path) -> None:
    ended = command_line.called("pools", "discover", "--cpu", "--nodes", str(NODES / f"{place}.yaml"))
    assert ended.returncode == 0, ended.stderr
    (tmp_path / "pools.yaml").write_text(ended.stdout)
    checked = command_line.called("validate", "pools.yaml", folder=tmp_path)
    assert (checked.returncode, checked.stderr) == (0, "")
    pools = list(yaml.safe_load_all(ended.stdout))
    named = ", ".join(f"GpuPool {pool['metadata']['name']}" for pool in pools)
    assert checked.stdout == f"pools.yaml: valid: {named}\n"
    assert pools
    assert not any("price" in pool["spec"] or "ownership" in pool["spec"] for pool in pools)
    fill = ended.stdout.count("fill it in and uncomment it")
    assert fill == len(pools) * (2 if place == "own" else 1)  # rented or owned, where nothing says it
    assert max(map(len, ended.stdout.splitlines())) <= 120


def test_a_price_that_was_only_uncommented_is_refused(tmp_path: Path) -> None:
    text = command_line.called("pools", "discover", "--nodes", str(NODES / "gke.yaml")).stdout
    first = text.split("\n---\n")[1]
    lines = [line.replace("  # ", "  ", 1) for line in first.splitlines() if "fill it in" not in line]
    said = []
    for missing in ("DAY", "PRICE"):
        (tmp_path / "pool.yaml").write_text("\n".join(lines))
        ended = command_line.called("validate", "pool.yaml", folder=tmp_path)
        assert ended.returncode == 2
        said.append(ended.stderr)
        lines = [line.replace(missing, "2026-11-01") for line in lines]
    assert "spec.price.asOf: 'DAY'" in said[0]
    assert "spec.price.perNodeHour: write a decimal number" in said[1]


def test_all_files_are_checked_and_each_problem_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(
        command_line.called("pools", "discover", "--nodes", str(NODES / "own.yaml")).stdout
    )
    (tmp_path / "bad.yaml").write_text(
        "apiVersion: gpubench.dev/v1alpha1\nkind: GpuPool\nmetadata: {name: x}\nspec: {}\n"
    )
    ended = command_line.called("validate", "bad.yaml", "good.yaml", "none.yaml", folder=tmp_path)
    assert ended.returncode == 2
    assert ended.stdout == "good.yaml: valid: GpuPool a100-pcie-40gb-mig-1g-5gb-x7, GpuPool geforce-rtx-4090-x2\n"
    assert "gpubench: bad.yaml:4: spec.slotsPerNode" in ended.stderr
    assert "gpubench: none.yaml: there is no such file" in ended.stderr


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "this is neither JSON nor YAML"),
        ("[]", "this is no list of nodes"),
        ("", "this is no list of nodes"),
        ("kind: Node\nmetadata: {name: a}\n---\nkind: Pod\nmetadata: {name: b}\n", "this is no list of nodes"),
        ('{"items": [{"kind": "Pod", "metadata": {"name": "a"}}]}', "this is no list of nodes"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused_with_the_remedy(text: str, says: str) -> None:
    ended = command_line.called("pools", "discover", "--nodes", "-", stdin=text)
    assert ended.returncode == 2
    assert f"{says}: give what `kubectl get nodes -o json` or -o yaml wrote" in ended.stderr


def test_a_list_without_nodes_suggests_no_pool() -> None:
    ended = command_line.called("pools", "discover", "--nodes", "-", stdin='{"items": []}')
    assert ended.returncode == 2
    assert "none of the 0 nodes suggests a GpuPool" in ended.stderr


def test_whatever_kubectl_writes_of_nodes_is_taken() -> None:
    nodes = yaml.safe_load((NODES / "gke.yaml").read_text())["items"]
    listed = {"apiVersion": "v1", "kind": "List", "items": nodes}
    texts = {
        "kubectl get nodes -o json": json.dumps(listed),
        "kubectl get nodes -o yaml": yaml.safe_dump(listed),
        "node after node": yaml.safe_dump_all(nodes, explicit_start=True),
        "lists after each other": yaml.safe_dump_all([{**listed, "items": [node]} for node in nodes]),
    }
    (found,) = {command_line.called("pools", "discover", "--nodes", "-", stdin=text).stdout for text in texts.values()}
    assert found.count("kind: GpuPool") == 5
    (l4,) = (node for node in nodes if node["metadata"]["name"] == "gke-train-l4-77d0-3xkq")
    for text in (json.dumps(l4), yaml.safe_dump(l4)):  # kubectl get node NAME
        ended = command_line.called("pools", "discover", "--nodes", "-", stdin=text)
        assert (ended.returncode, ended.stdout.count("kind: GpuPool")) == (0, 1)


def test_what_init_writes_is_a_benchmark_of_the_proposed_pools(tmp_path: Path) -> None:
    ended = command_line.called("init", "--nodes", str(NODES / "gke.yaml"), "--budget", "20", "--name", "ours")
    assert ended.returncode == 0, ended.stderr
    (tmp_path / "b.yaml").write_text(ended.stdout)
    *pools, benchmark = yaml.safe_load_all(ended.stdout)
    named = [f"GpuPool {pool['metadata']['name']}" for pool in pools]
    checked = command_line.called("validate", "b.yaml", folder=tmp_path)
    assert (checked.returncode, checked.stdout) == (0, f"b.yaml: valid: {', '.join([*named, 'GpuBenchmark ours'])}\n")
    (block,) = benchmark["spec"]["sweep"]
    assert block["pools"] == [pool["metadata"]["name"] for pool in pools]
    assert (block["workloads"], block["workers"]) == (["resnet50"], [1, 8])
    assert benchmark["spec"]["limits"] == {"budget": "20"}


def test_init_does_what_it_is_asked_for_and_refuses_what_no_benchmark_has() -> None:
    nodes = ("init", "--nodes", str(NODES / "own.yaml"))
    chosen = ("--workload", "mnist_cnn", "--workload", "allreduce", "--workers", "2")
    *_, benchmark = yaml.safe_load_all(command_line.called(*nodes, *chosen).stdout)
    assert [block["workloads"] for block in benchmark["spec"]["sweep"]] == [["mnist_cnn"], ["allreduce"]]
    assert all(block["workers"] == [2] for block in benchmark["spec"]["sweep"])
    for wrong, field in ((("--budget", "much"), "spec.limits.budget"), (("--workers", "0"), "spec.sweep[0].workers")):
        ended = command_line.called(*nodes, *wrong)
        assert (ended.returncode, ended.stdout) == (2, "")
        assert field in ended.stderr
    assert command_line.called("init", "--nodes", "-", stdin='{"items": []}').returncode == 2


@pytest.fixture
def nodes(served_api: Cluster) -> Iterator[list[dict[str, Any]]]:
    """The recorded nodes of GKE with the L4, on a real API server."""
    listed = yaml.safe_load((NODES / "gke.yaml").read_text())["items"]
    found = [node for node in listed if "-l4-" in node["metadata"]["name"]]
    for node in found:
        served_api.request("POST", "/api/v1/nodes", node)
        place = f"/api/v1/nodes/{node['metadata']['name']}"
        # The API server takes a new node for one that is not ready, and here no controller takes that back.
        for where, change in ((f"{place}/status", {"status": node["status"]}), (place, {"spec": node["spec"]})):
            served_api.request("PATCH", where, change, content_type="application/merge-patch+json")
    yield found
    for node in found:
        served_api.request("DELETE", f"/api/v1/nodes/{node['metadata']['name']}")


def test_pools_of_a_clusters_nodes_can_be_applied_and_are_then_left_out(
    served_api: Cluster, nodes: list[dict[str, Any]]
) -> None:
    environment = {"KUBECONFIG": str(served_api.kubeconfig)}
    ended = command_line.called("pools", "discover", environment=environment)
    assert ended.returncode == 0, ended.stderr
    assert [pool["metadata"]["name"] for pool in yaml.safe_load_all(ended.stdout)] == ["gke-l4"]
    served_api.kubectl("apply", "-f", "-", stdin=ended.stdout)
    try:
        again = command_line.called("pools", "discover", environment=environment)
        assert again.returncode == 2
        assert f"left out: {', '.join(node['metadata']['name'] for node in nodes)}: in GpuPool gke-l4" in again.stderr
        assert command_line.called("pools", "discover", "--all", environment=environment).stdout == ended.stdout
    finally:
        served_api.kubectl("delete", names.POOL_PLURAL, "gke-l4")


# --- the pools of jobs/examples/pools ---------------------------------------------------------------------------------

PLACES = {"gke": ("gke",), "eks": ("eks",), "karpenter": ("eks",), "networks": ("eks",), "aks": (), "own-box": ()}
#: Whose price nobody at hand could read; beside the spot pools of AWS, whose prices move at any time, and Karpenter's.
UNPRICED = {
    *(f"gke-{gpu}{spot}" for gpu in ("t4", "a100-80gb", "h200") for spot in ("", "-spot")),
    *(f"aks-{gpu}{spot}" for gpu in ("t4-x4", "a100", "a100-80gb-x4", "h100", "h200") for spot in ("", "-spot")),
    "gke-h200-rdma",
}
TODAY = {"T4", "L4", "A100-40GB", "A100-80GB", "H100-80GB", "H200-141GB"}


def pools_of(place: str) -> dict[str, GpuPool]:
    return {pool.name: pool for pool in documents.read(POOLS / f"{place}.yaml").pools}


def recorded(place: str) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = yaml.safe_load((NODES / f"{place}.yaml").read_text())["items"]
    return nodes


def test_every_file_of_pools_is_tested_here_and_valid() -> None:
    files = sorted(path.name for path in POOLS.glob("*.yaml"))
    assert files == sorted(f"{place}.yaml" for place in PLACES)
    ended = command_line.called("validate", *files, folder=POOLS)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("place", PLACES)
def test_a_price_of_an_example_says_so_with_its_day_and_its_source(place: str) -> None:
    for pool in pools_of(place).values():
        paid = pool.spec.price or pool.spec.ownership
        if paid is None:
            of_aws = place == "eks" and pool.spec.capacity_type.value == "Spot"
            assert of_aws or place == "karpenter" or pool.name in UNPRICED
        else:
            assert paid.source.startswith("an example"), pool.name
            assert pool.name not in UNPRICED


@pytest.mark.parametrize("place", ["gke", "eks", "karpenter", "aks"])
def test_every_cloud_has_the_gpus_of_today_each_on_demand_and_spot(place: str) -> None:
    pools = [pool.spec for pool in pools_of(place).values() if pool.spec.accelerator]
    found = {(spec.accelerator, spec.capacity_type.value) for spec in pools}
    rented = TODAY - {"L4"} if place == "aks" else TODAY  # Azure rents no L4
    assert found == {(gpu, kind) for gpu in rented for kind in ("OnDemand", "Spot")}


@pytest.mark.parametrize("place", sorted(set(PLACES) - {"networks"}))
def test_a_plain_pool_asks_for_nothing_that_the_image_or_an_autoscaler_does_not_know(place: str) -> None:
    """The image has no library for EFA, and Karpenter makes no node for a pod that asks for huge pages."""
    assert {pool.name: pool.spec.node_resources for pool in pools_of(place).values() if pool.spec.node_resources} == {}


def test_karpenters_node_pools_have_room_for_each_machines_pools_and_idle_nodes_go_before_finished_jobs_do() -> None:
    """With a Job goes its pod, and consolidateAfter begins anew (pkg/controllers/nodeclaim/podevents of Karpenter)."""
    slots: Counter[str] = Counter()
    for pool in pools_of("karpenter").values():
        machine = pool.spec.scheduling.node_selector["node.kubernetes.io/instance-type"]
        slots[machine] += pool.spec.max_nodes * pool.spec.slots_per_node
    limits = {}
    for node_pool in yaml.safe_load_all((POOLS / "karpenter" / "nodepools.yaml").read_text()):
        spec = node_pool["spec"]
        (machine,) = spec["template"]["spec"]["requirements"][1]["values"]
        limits[machine] = int(spec["limits"]["nvidia.com/gpu"])
        minutes = int(spec["disruption"]["consolidateAfter"].removesuffix("m"))
        assert minutes * 60 < Settings().job_ttl_seconds
    assert limits == slots


def test_the_gpu_image_looks_where_gke_mounts_the_drivers_libraries() -> None:
    """So that pools of GKE, proposed ones too, need not say it; one that says more names this folder, too."""
    stage = (POOLS.parents[1] / "Containerfile").read_text().partition(" AS gpu\n")[2].partition("\nFROM ")[0]
    assert "LD_LIBRARY_PATH=/usr/local/nvidia/lib64" in stage
    variables = pools_of("networks")["gke-h200-rdma"].spec.template.env
    assert any(one.name == "LD_LIBRARY_PATH" and "/usr/local/nvidia/lib64" in str(one.value) for one in variables)


@pytest.mark.parametrize("place", PLACES)
def test_a_spot_pool_is_the_same_machine_as_its_counterpart_and_never_lands_on_it(place: str) -> None:
    pools = pools_of(place)
    for pool in pools.values():
        if pool.spec.capacity_type.value != "Spot":
            continue
        assert pool.spec.on_demand_counterpart is not None, pool.name
        other = pools[pool.spec.on_demand_counterpart].spec
        assert other.capacity_type.value == "OnDemand"
        assert (pool.spec.accelerator, pool.spec.slot) == (other.accelerator, other.slot)
        assert pool.spec.node_resources == other.node_resources
        mine, theirs = (spec.scheduling.node_selector for spec in (pool.spec, other))
        tainted = set(pool.spec.scheduling.tolerations) - set(other.scheduling.tolerations)  # what AKS gives spot nodes
        of_aks = place == "aks" and any(taint.value == "spot" for taint in tainted)
        assert of_aks or any(mine.get(key) != value for key, value in theirs.items()), "both select the same nodes"
        assert any(theirs.get(key) != value for key, value in mine.items()), "both select the same nodes"


@pytest.mark.parametrize(("place", "nodes_of"), [(place, nodes) for place, of in PLACES.items() for nodes in of])
def test_a_pool_fits_the_nodes_that_its_selector_finds(place: str, nodes_of: str) -> None:
    """Of the machines that are recorded: its GPUs, each lasting taint tolerated, room for daemons beside all slots."""
    fitted = set()
    for pool in pools_of(place).values():
        for node in recorded(nodes_of):
            if not node_facts.matches(node, pool.spec.scheduling.node_selector):
                continue
            fitted.add(pool.name)
            spec = pool.spec
            assert node_facts.gpus(node) == (spec.slots_per_node if spec.slot.gpu_resource else 0), pool.name
            wanted = {"cpu": units.processors(spec.slot.cpu), "memory": units.quantity_value(spec.slot.memory)}
            reserved = {"cpu": proposals.DAEMON_PROCESSORS, "memory": Decimal(proposals.DAEMON_MEMORY)}
            for resource, amount in wanted.items():
                left = node_facts.amount(node, resource) - amount * spec.slots_per_node
                assert left >= reserved[resource], f"{pool.name}: {left} of {resource} left for daemons"
            for resource, quantity in spec.node_resources.items():
                if resource in node_facts.allocatable(node):
                    assert node_facts.amount(node, resource) >= units.quantity_value(quantity), pool.name
            tolerated = {toleration.key for toleration in spec.scheduling.tolerations}
            needed = {toleration.key for toleration in node_facts.tolerations(node)} - {"team"}
            assert needed <= tolerated, pool.name
    least = {
        "gke": {"gke-l4", "gke-l4-spot", "gke-a100", "gke-a100-spot", "gke-h100"},
        "eks": {"eks-a100", "eks-l4-x4-spot"},
        "karpenter": {"karpenter-h100", "karpenter-h100-spot"},
        "networks": {"eks-a100-efa"},
    }
    assert fitted >= least[place]


def test_the_guides_kind_cluster_has_the_nodes_that_the_quickstart_selects() -> None:
    guide = (Path(__file__).parents[2] / "docs/tutorials/kind.md").read_text()
    written = guide.partition("cat > kind.yaml <<'END'\n")[2].partition("\nEND\n")[0]
    (pool,) = documents.read(POOLS.parent / "quickstart.yaml").pools
    labelled = [node for node in yaml.safe_load(written)["nodes"] if "labels" in node]
    assert [node["labels"] for node in labelled] == [pool.spec.scheduling.node_selector] * pool.spec.max_nodes
    assert f"-t {pool.spec.template.image} ." in guide
