# SPDX-License-Identifier: Apache-2.0
"""What is proposed for the nodes of GKE, of EKS and of one's own: right pools, and a word about every node in none."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpubench.analysis import node_facts, proposals
from gpubench.analysis.proposals import Proposal
from gpubench.api.pool_price import CapacityType

NODES = Path(__file__).parent / "nodes"
GPU_TAINT = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def listed(name: str) -> list[dict[str, Any]]:
    nodes: list[dict[str, Any]] = yaml.safe_load((NODES / f"{name}.yaml").read_text())["items"]
    return nodes


def proposed(nodes: list[dict[str, Any]], **how: Any) -> dict[str, Proposal]:
    return {proposal.pool.name: proposal for proposal in proposals.proposals(nodes, **how).pools}


def summary(proposal: Proposal) -> tuple[object, ...]:
    spec = proposal.pool.spec
    return (
        *(spec.capacity_type.value, spec.accelerator, spec.slots_per_node, spec.max_nodes),
        *(spec.slot.gpu_resource, spec.slot.cpu, spec.slot.memory),
    )


def selector(proposal: Proposal) -> dict[str, str]:
    return proposal.pool.spec.scheduling.node_selector


def tolerated(proposal: Proposal) -> list[dict[str, object]]:
    return [toleration.to_wire() for toleration in proposal.pool.spec.scheduling.tolerations]


def machine(
    name: str, labels: dict[str, str] | None = None, *, taints: list[dict[str, str]] | None = None
) -> dict[str, Any]:
    """A node of EKS with one GPU, and whatever labels."""
    found = {"node.kubernetes.io/instance-type": "g6.xlarge", "kubernetes.io/hostname": name, **(labels or {})}
    return {
        "metadata": {"name": name, "labels": found},
        "spec": {"providerID": f"aws:///us-east-1a/{name}", "taints": taints or []},
        "status": {"allocatable": {"cpu": "3920m", "memory": "14162Mi", "nvidia.com/gpu": "1"}},
    }


def test_nodes_of_gke_become_a_pool_for_each_machine_and_capacity_type() -> None:
    found = proposed(listed("gke"))
    assert {name: summary(one) for name, one in found.items()} == {
        "gke-a100-40gb-x8": ("OnDemand", "A100-40GB", 8, 1, "nvidia.com/gpu", "11", "78Gi"),
        "gke-a100-40gb-x8-spot": ("Spot", "A100-40GB", 8, 1, "nvidia.com/gpu", "11", "78Gi"),
        "gke-h100-80gb-x8-reserved": ("Reserved", "H100-80GB", 8, 2, "nvidia.com/gpu", "25", "216Gi"),
        "gke-l4": ("OnDemand", "L4", 1, 2, "nvidia.com/gpu", "15", "54Gi"),
        "gke-l4-spot": ("Spot", "L4", 1, 2, "nvidia.com/gpu", "15", "54Gi"),
    }
    assert selector(found["gke-l4"]) == {
        "cloud.google.com/gke-accelerator": "nvidia-l4",
        "node.kubernetes.io/instance-type": "g2-standard-16",
        "cloud.google.com/gke-provisioning": "standard",
    }
    assert selector(found["gke-l4-spot"])["cloud.google.com/gke-spot"] == "true"
    assert tolerated(found["gke-l4"]) == GPU_TAINT
    auto_provisioned = {"key": "cloud.google.com/gke-spot", "operator": "Exists", "effect": "NoSchedule"}
    assert tolerated(found["gke-l4-spot"]) == [auto_provisioned, *GPU_TAINT]
    assert found["gke-l4-spot"].pool.spec.on_demand_counterpart == "gke-l4"
    assert selector(found["gke-h100-80gb-x8-reserved"])["cloud.google.com/reservation-name"] == "h100-block"
    assert found["gke-a100-40gb-x8"].nodes == ("gke-train-a100-20be-5hsn",)  # its sister is not ready
    assert tolerated(found["gke-a100-40gb-x8"]) == GPU_TAINT
    assert not any(one.remarks for one in found.values())


def test_nodes_of_eks_become_pools_of_managed_groups_and_of_karpenter() -> None:
    found = proposed(listed("eks"))
    assert {name: summary(one) for name, one in found.items()} == {
        "eks-a100-sxm4-40gb-x8": ("OnDemand", "A100-SXM4-40GB", 8, 2, "nvidia.com/gpu", "11", "124Gi"),
        "eks-h100-80gb-x8": ("OnDemand", "H100-80GB", 8, 1, "nvidia.com/gpu", "23", "224Gi"),
        "eks-h100-80gb-x8-spot": ("Spot", "H100-80GB", 8, 1, "nvidia.com/gpu", "23", "224Gi"),
        "eks-l4": ("OnDemand", "L4", 1, 1, "nvidia.com/gpu", "3", "12Gi"),
        "eks-l4-x4-spot": ("Spot", "L4", 4, 2, "nvidia.com/gpu", "11", "41Gi"),
    }
    assert selector(found["eks-a100-sxm4-40gb-x8"]) == {
        "node.kubernetes.io/instance-type": "p4d.24xlarge",
        "eks.amazonaws.com/capacityType": "ON_DEMAND",
    }
    assert selector(found["eks-h100-80gb-x8-spot"]) == {
        "node.kubernetes.io/instance-type": "p5.48xlarge",
        "karpenter.sh/capacity-type": "spot",
    }
    assert tolerated(found["eks-h100-80gb-x8"]) == GPU_TAINT  # not that a node of it is being taken away
    assert not any(one.pool.spec.node_resources for one in found.values())  # no EFA, no huge pages
    said = {name: [remark.split(maxsplit=2)[1] for remark in one.remarks] for name, one in found.items()}
    assert said == {name: ["taint" if name == "eks-l4" else "EFA"] for name in found}


def test_what_nothing_says_to_be_rented_is_said_to_be_unknown_and_is_found_by_its_gpu_or_its_name() -> None:
    found = proposed(listed("own"), processors=True)
    assert {name: summary(one) for name, one in found.items()} == {
        "a100-pcie-40gb-mig-1g-5gb-x7": (
            *("OnDemand", "A100-PCIE-40GB-MIG-1g.5gb", 7, 1),
            *("nvidia.com/mig-1g.5gb", "2", "8Gi"),
        ),
        "cpu": ("OnDemand", None, 1, 2, None, "7", "28Gi"),
        "geforce-rtx-4090-x2": ("OnDemand", "GeForce-RTX-4090", 2, 1, "nvidia.com/gpu", "15", "59Gi"),
    }
    assert all("Nothing says whether these nodes are rented" in " ".join(one.remarks) for one in found.values())
    assert {one.capacity for one in found.values()} == {None}
    assert selector(found["geforce-rtx-4090-x2"]) == {"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"}
    assert "kubectl label node desk-1 desk-2 gpubench.dev/pool=NAME" in found["cpu"].remarks[0]  # k3s calls all k3s
    cut = found["a100-pcie-40gb-mig-1g-5gb-x7"].pool.spec
    assert cut.is_cut
    assert not cut.exclusive_nodes  # a pod takes one instance, and seven share the node
    by_hand = [node for node in listed("own") if node["metadata"]["name"].startswith("desk")]
    for node in by_hand:
        node["metadata"]["labels"]["gpubench.dev/pool"] = "desks"
    assert selector(proposed(by_hand)["desks"]) == {"gpubench.dev/pool": "desks"}


def test_a_node_that_starts_or_leaves_is_no_pool_and_changes_no_other() -> None:
    """As Karpenter makes a node: its identity and its instance type first, then the rest."""
    spot = {"karpenter.sh/capacity-type": "spot", "nvidia.com/gpu.product": "NVIDIA-L4"}
    settled = [machine("a", spot), machine("b", spot)]
    passing = [
        machine("made", spot, taints=[{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]),
        machine("network", spot, taints=[{"key": "node.cilium.io/agent-not-ready", "effect": "NoSchedule"}]),
        machine("noticed", spot, taints=[{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]),
        machine("deleted", spot),
        machine("dark", spot),
    ]
    passing[3]["metadata"]["deletionTimestamp"] = "2026-11-01T00:00:00Z"
    passing[4]["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    del passing[0]["status"]["allocatable"]["nvidia.com/gpu"]
    found = proposals.proposals([*settled, *passing])
    assert found.pools == proposals.proposals(settled).pools
    assert found.left_out == (
        "made: starts (karpenter.sh/unregistered): run this again when it is ready",
        "network: starts (node.cilium.io/agent-not-ready): run this again when it is ready",
        "noticed: leaves the cluster (karpenter.sh/disrupted): nothing to do",
        "deleted: leaves the cluster (it is being deleted): nothing to do",
        "dark: is not ready: kubectl describe node says why",
    )


def test_gpus_that_are_given_by_claims_are_counted_and_named() -> None:
    node = machine("a")
    del node["status"]["allocatable"]["nvidia.com/gpu"]
    devices = [{"name": f"gpu-{number}"} for number in range(4)]
    slices = [
        {"spec": {"driver": "gpu.nvidia.com", "nodeName": "a", "devices": devices}},
        {"spec": {"driver": "net.example.com", "nodeName": "a", "devices": devices}},
    ]
    (sentence,) = proposals.proposals([node], claimable=node_facts.claimable(slices)).left_out
    assert sentence.startswith(
        "a: 4 of its GPUs are given by claims (DRA): write a GpuPool with template.resourceClaims"
    )
    (sentence,) = proposals.proposals([node]).left_out
    assert "is the device plugin running there?" in sentence


def test_a_selector_takes_the_nodes_of_its_pool_and_no_other() -> None:
    for name in ("gke", "eks", "own"):
        nodes = [node for node in listed(name) if node_facts.state(node) is None]
        for one in proposed(listed(name), processors=True).values():
            taken = tuple(node["metadata"]["name"] for node in nodes if node_facts.matches(node, selector(one)))
            assert taken == one.nodes or "No label tells these nodes from others" in one.remarks[0]


def test_a_taint_with_a_value_is_tolerated_with_its_value_and_effect() -> None:
    (one,) = proposals.proposals(
        [machine("a", taints=[{"key": "team", "value": "vision", "effect": "NoExecute"}])]
    ).pools
    assert tolerated(one) == [{"key": "team", "operator": "Equal", "value": "vision", "effect": "NoExecute"}]


def test_a_group_that_only_a_taint_tells_from_another_gets_its_node_groups_label() -> None:
    research = [{"key": "team", "value": "research", "effect": "NoSchedule"}]
    common = {"eks.amazonaws.com/capacityType": "ON_DEMAND"}
    nodes = [
        machine("a", {**common, "eks.amazonaws.com/nodegroup": "all"}),
        machine("b", {**common, "eks.amazonaws.com/nodegroup": "research"}, taints=research),
    ]
    found = proposals.proposals(nodes).pools
    assert [(one.nodes, selector(one).get("eks.amazonaws.com/nodegroup")) for one in found] == [
        (("a",), "all"),
        (("b",), "research"),
    ]
    assert len({one.pool.name for one in found}) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gke-train-t4-0b7d-c3c3", "is the device plugin running there?"),
        ("gke-train-default-pool-4f1a-b0c1", "--cpu proposes pools of processors"),
        ("guarded", "kept for the control plane"),
        ("lent-out", "lends its GPUs in parts"),
    ],
)
def test_every_node_that_is_left_out_is_named_with_the_reason(name: str, says: str) -> None:
    found = proposals.proposals(listed("gke") + listed("own"))
    (sentence,) = (sentence for sentence in found.left_out if name in sentence)
    assert says in sentence
    nodes = {node for one in found.pools for node in one.nodes}
    assert name not in nodes


def test_nodes_of_a_pool_that_exists_are_not_proposed_again() -> None:
    nodes = listed("gke")
    first = proposals.proposals(nodes)
    again = proposals.proposals(nodes, existing=[one.pool for one in first.pools])
    assert again.pools == ()
    assert any("in GpuPool gke-l4 already" in sentence for sentence in again.left_out)


def test_what_no_label_says_is_assumed_aloud() -> None:
    (one,) = proposals.proposals([machine("a")]).pools
    assert (one.pool.spec.capacity_type.value, one.pool.spec.accelerator) == ("OnDemand", "L4")
    assert [remark.partition(":")[0] for remark in one.remarks] == [
        "No label says how these nodes are rented",
    ]
    nameless = machine("a", {"node.kubernetes.io/instance-type": "g99.xlarge"})
    (one,) = proposals.proposals([nameless]).pools
    assert one.pool.spec.accelerator == "GPU"
    assert "No label says which GPU this is" in one.remarks[-1]


def test_a_share_leaves_the_daemons_of_the_node_their_part() -> None:
    small, large = machine("small"), machine("large")
    small["status"]["allocatable"] |= {"cpu": "1400m", "memory": "3Gi"}
    (one,) = proposals.proposals([small, large]).pools
    assert (one.pool.spec.slot.cpu, one.pool.spec.slot.memory) == ("900m", "1945Mi")  # of the smaller one


def of_processors(name: str, cpu: str, **more: Any) -> dict[str, Any]:
    """A node of one's own without GPUs."""
    status = {"allocatable": {"cpu": cpu, "memory": "64Gi"}, **more}
    return {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {}, "status": status}


@pytest.mark.parametrize(("cpu", "slots"), [("1500m", 1), ("8", 1), ("8500m", 2), ("33", 8)])
def test_a_node_without_gpus_is_a_slot_for_four_processors_beside_its_daemons(cpu: str, slots: int) -> None:
    (one,) = proposals.proposals([of_processors("a", cpu)], processors=True).pools
    assert one.pool.spec.slots_per_node == slots


@pytest.mark.parametrize("cpu", ["1499m", "a few", ""])
def test_a_node_without_a_whole_processor_beside_its_daemons_is_left_out(cpu: str) -> None:
    found = proposals.proposals([of_processors("a", cpu)], processors=True)
    assert found.pools == ()
    assert "offers less than one processor beside what its daemons take" in found.left_out[0]


def test_a_node_that_does_not_say_its_memory_is_proposed_with_a_word() -> None:
    silent = of_processors("a", "8")
    del silent["status"]["allocatable"]["memory"]
    (one,) = proposals.proposals([silent], processors=True).pools
    assert "A node does not say its processors or memory: correct slot.cpu and slot.memory." in one.remarks


def test_a_machine_of_ones_own_is_selected_by_its_name_and_one_of_a_cloud_never() -> None:
    (own,) = proposals.proposals([of_processors("a", "8")], processors=True).pools
    assert selector(own) == {"kubernetes.io/hostname": "a"}
    rented = [machine(name) for name in "ab"]
    rented[1]["spec"]["taints"] = [{"key": "team", "effect": "NoSchedule"}]
    for one in proposals.proposals(rented).pools:
        assert "kubernetes.io/hostname" not in selector(one)
        assert "No label tells these nodes from others" in one.remarks[-1] + one.remarks[0]


def test_a_node_whose_kubelet_says_windows_is_left_out() -> None:
    (sentence,) = proposals.proposals(
        [machine("w") | of_processors("w", "8", nodeInfo={"operatingSystem": "windows"})]
    ).left_out
    assert node_facts.WORDS[node_facts.Unfit.WINDOWS][0] in sentence


def test_a_capacity_type_that_only_a_taint_says_is_known_and_selects_nothing() -> None:
    spot = machine("s", taints=[{"key": "cloud.google.com/gke-spot", "value": "true", "effect": "NoSchedule"}])
    assert node_facts.capacity(spot) == (CapacityType.SPOT, {})
    (one,) = proposals.proposals([spot]).pools
    assert "That they are Spot is said by a taint, and by no label that a selector could take." in one.remarks


@pytest.mark.parametrize(
    ("written", "gpu"),
    [
        ('[{"type": "NVIDIA-A100", "devmem": 40960}]', ("NVIDIA-A100", 40_960)),
        (
            "GPU-9a36,10,15360,100,NVIDIA-Tesla T4,0,true:GPU-other,10,81920,100,NVIDIA-H100,0,true:",
            ("NVIDIA-Tesla T4", 15_360),
        ),
        ("GPU-9a36,10,much,100,MLU370,0,true:", ("", 0)),
        ("?", ("", 0)),
    ],
)
def test_the_first_gpu_that_hami_wrote_down_is_read_whichever_version_wrote_it(
    written: str, gpu: tuple[str, int]
) -> None:
    node = machine("n")
    node["metadata"]["annotations"] = {"hami.io/node-nvidia-register": written}
    assert node_facts._lent_by_hami(node) == gpu
