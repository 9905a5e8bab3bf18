# SPDX-License-Identifier: Apache-2.0
"""Prices from a catalogue in SkyPilot's format. The rows are made up; columns and spellings are those of version 8."""

import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

import command_line
from gpubench.api import validate
from gpubench.plan import pool_prices
from gpubench_cli import documents

NODES = Path(__file__).parents[1] / "core" / "nodes"
GPU_INFO = "{'Gpus': [{'MemoryInfo': {'SizeInMiB': 24576}}]}"
GCP = f"""\
InstanceType,vCPUs,MemoryGiB,AcceleratorName,AcceleratorCount,GpuInfo,Region,AvailabilityZone,Price,SpotPrice
a2-highgpu-8g,96.0,680.0,,,,us-central1,us-central1-a,6,3
a3-highgpu-8g,208.0,1872.0,,,,us-central1,us-central1-a,9,
g2-standard-16,16.0,64.0,,,,us-central1,us-central1-a,0.6,0.2
g2-standard-16,16.0,64.0,,,,us-central1,us-central1-b,0.7,0.25
g2-standard-16,16.0,64.0,,,,us-east4,us-east4-a,0.8,0.3
n1-standard-4,4.0,15.0,,,,us-central1,us-central1-a,0.19,0.04
,,,A100,8,{GPU_INFO},us-central1,us-central1-a,24,8
,,,A100-80GB,8,{GPU_INFO},us-central1,us-central1-a,32,12
,,,H100,8,{GPU_INFO},us-central1,us-central1-a,80,20
,,,L4,1,{GPU_INFO},us-central1,us-central1-a,0.5,0.2
,,,L4,2,{GPU_INFO},us-central1,us-central1-a,1,0.4
,,,T4,1,{GPU_INFO},us-central1,us-central1-a,0.35,0.11
"""
AWS = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch
g6.12xlarge,L4,4.0,48.0,192.0,,4.6,1.9,us-east-1,use1-az1,x86_64
g6.12xlarge,L4,4.0,48.0,192.0,,4.6,2.1,us-east-1,use1-az2,x86_64
g6.12xlarge,L4,4.0,48.0,192.0,,4.6,2.5,us-east-1,use1-az4,x86_64
g6.xlarge,L4,1.0,4.0,16.0,,0.8,0.3,us-east-1,use1-az1,x86_64
p4d.24xlarge,A100,8.0,96.0,1152.0,,22,10,us-east-1,use1-az1,x86_64
p5.48xlarge,H100,8.0,192.0,2048.0,,55,30,us-east-1,use1-az6,x86_64
"""
AZURE = """\
InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone
Standard_NC24ads_A100_v4,A100-80GB,1.0,24.0,220.0,,3.7,1.1,westeurope,
"""
AKS_NODE = """\
metadata:
  name: aks-gpu-0
  labels:
    node.kubernetes.io/instance-type: Standard_NC24ads_A100_v4
    topology.kubernetes.io/region: westeurope
    kubernetes.azure.com/accelerator: nvidia
    kubernetes.azure.com/scalesetpriority: spot
    nvidia.com/gpu.product: NVIDIA-A100-80GB-PCIe
spec: {providerID: "azure:///subscriptions/x/virtualMachines/0"}
status:
  capacity: {cpu: "24", memory: 220Gi, nvidia.com/gpu: "1"}
  allocatable: {cpu: "24", memory: 220Gi, nvidia.com/gpu: "1"}
  conditions: [{type: Ready, status: "True"}]
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    read = time.mktime((2026, 10, 5, 12, 0, 0, 0, 0, 0))
    for provider, rows in (("gcp", GCP), ("aws", AWS), ("azure", AZURE)):
        file = tmp_path / "catalogs" / "v8" / provider / "vms.csv"
        file.parent.mkdir(parents=True)
        file.write_text(rows, encoding="utf-8")
        os.utime(file, (read, read))
    (tmp_path / "aks.yaml").write_text(AKS_NODE, encoding="utf-8")
    return tmp_path


def hours_of(catalogue: Path, nodes: Path) -> tuple[dict[str, str | None], str]:
    """What a node of each pool that is proposed costs for an hour, and all that is written."""
    ended = command_line.called("pools", "discover", "--nodes", str(nodes), "--prices", str(catalogue))
    assert ended.returncode == 0, ended.stderr
    found: dict[str, str | None] = {}
    for document in filter(None, yaml.safe_load_all(ended.stdout)):
        pool = validate.load_pool(document)
        rate = pool_prices.rate(pool.spec)
        found[pool.name] = None if rate is None else f"{rate.currency} {rate.per_node_hour.normalize():f}"
    return found, ended.stdout


def test_pools_of_gke_have_host_and_gpus_added_up_on_demand_and_on_spot(catalogue: Path) -> None:
    found, text = hours_of(catalogue, NODES / "gke.yaml")
    assert found == {
        "gke-a100-40gb-x8": "USD 30", "gke-a100-40gb-x8-spot": "USD 11", "gke-h100-80gb-x8-reserved": None,
        "gke-l4": "USD 1.2", "gke-l4-spot": "USD 0.4",
    }  # fmt: skip
    pools = {one["metadata"]["name"]: one["spec"] for one in filter(None, yaml.safe_load_all(text))}
    price: dict[str, Any] = pools["gke-a100-40gb-x8"]["price"]
    assert price["components"] == [
        {"name": "a2-highgpu-8g", "perHour": "6"},
        {"name": "8 x A100-40GB", "perHour": "24"},
    ]
    assert (price["asOf"], price["source"]) == ("2026-10-05", "SkyPilot's catalogue, v8/gcp, us-central1")


def test_pools_of_eks_have_the_price_of_the_machine_with_its_gpus(catalogue: Path) -> None:
    found, text = hours_of(catalogue, NODES / "eks.yaml")
    assert {found[name] for name in found if "a100" in name} == {"USD 22"}
    assert {found[name] for name in found if "l4-x4" in name} == {"USD 2.1"}
    said = " ".join(re.sub(r"\n# ", " ", text).split())
    assert "In the zones of us-east-1 it costs from USD 1.9 to 2.5: this is the median." in said


def test_a_pool_of_aks_has_its_price_without_a_zone(catalogue: Path) -> None:
    found, _ = hours_of(catalogue, catalogue / "aks.yaml")
    assert list(found.values()) == ["USD 1.1"]


def test_what_no_catalogue_can_price_says_why_and_is_left_to_fill_in(catalogue: Path) -> None:
    found, text = hours_of(catalogue, NODES / "own.yaml")
    assert set(found.values()) == {None}
    assert "No price: it is of no cloud: no catalogue has its price." in text
    assert "# price:" in text


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("Standard_NC24ads_A100_v4", "box-8", "it is of no cloud"),
        ('nvidia.com/gpu: "1"', 'nvidia.com/mig-1g.10gb: "7"', "a slot is a part of a GPU"),
    ],
)
def test_a_machine_of_no_cloud_and_a_part_of_a_gpu_have_no_price(catalogue: Path, old: str, new: str, why: str) -> None:
    text = "".join(line for line in AKS_NODE.replace(old, new).splitlines(keepends=True) if "azure" not in line)
    (catalogue / "node.yaml").write_text(text)
    _, said = hours_of(catalogue, catalogue / "node.yaml")
    assert f"No price: {why}: no catalogue has its price." in said


@pytest.mark.parametrize("regions", [("westeurope", "northeurope"), ("westeurope", None), (None,)])
def test_machines_of_several_regions_or_none_have_no_price(catalogue: Path, regions: tuple[str | None, ...]) -> None:
    label = "    topology.kubernetes.io/region: westeurope\n"
    nodes = [
        AKS_NODE.replace(label, label.replace("westeurope", region) if region else "").replace("gpu-0", f"gpu-{number}")
        for number, region in enumerate(regions)
    ]
    (catalogue / "nodes.yaml").write_text("---\n".join(nodes))
    _, said = hours_of(catalogue, catalogue / "nodes.yaml")
    assert "No price: its nodes are not in one region" in said


def test_columns_of_a_file_may_have_blanks_after_their_commas(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a, b\n1, 2\n")
    assert documents.csv_rows(tmp_path / "a.csv", ("a", "b"), "") == [(f"{tmp_path}/a.csv:2", {"a": "1", "b": "2"})]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("gcp/a2-highgpu-8g", "--region", "mars"), "vms.csv has no a2-highgpu-8g in mars: write its price by hand"),
        (("ibm/x", "--region", "mars"), "has no v8/ibm/vms.csv: give a checkout of skypilot-org/skypilot-catalog"),
        (("a2-highgpu-8g", "--region", "mars"), "write PROVIDER/TYPE such as gcp/a2-highgpu-8g"),
        (("gcp/a2-highgpu-8g", "--region", "mars", "--gpus", "A100"), "and --gpus as 8xA100-40GB"),
        (
            ("gcp/a2-highgpu-8g", "--region", "us-central1", "--gpus", "3xA100"),
            "without its GPUs, and none of 3 x A100 there",
        ),
        (("gcp/a3-highgpu-8g", "--region", "us-central1", "--spot"), "has no SpotPrice of a3-highgpu-8g"),
    ],
)
def test_what_the_catalogue_does_not_have_is_a_sentence(
    catalogue: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    ended = command_line.called("prices", str(catalogue), *arguments)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert sentence in ended.stderr


def test_a_price_is_written_as_a_pool_has_it(catalogue: Path) -> None:
    asked = ("gcp/a2-highgpu-8g", "--region", "us-central1", "--gpus", "8xA100-80GB")
    ended = command_line.called("prices", str(catalogue), *asked)
    assert ended.returncode == 0, ended.stderr
    price = yaml.safe_load(ended.stdout)["price"]
    assert price["components"] == [
        {"name": "a2-highgpu-8g", "perHour": "6", "count": 1},
        {"name": "8 x A100-80GB", "perHour": "32", "count": 1},
    ]
    assert ended.stderr == "USD 38 an hour: 912 a day, 6384 a week, 27740 a month of 730 hours\n"


@pytest.mark.parametrize(
    ("gpu", "hour"), [("A100-40GB", "24"), ("A100-SXM4-40GB", "24"), ("A100-SXM4-80GB", "32"), ("A100", "24")]
)
def test_a_gpu_with_more_in_its_name_is_found_by_its_memory(catalogue: Path, gpu: str, hour: str) -> None:
    asked = ("gcp/a2-highgpu-8g", "--region", "us-central1", "--gpus", f"8x{gpu}")
    price = yaml.safe_load(command_line.called("prices", str(catalogue), *asked).stdout)["price"]
    assert price["components"][1]["perHour"] == hour


def test_a_machine_whose_gpus_are_listed_apart_is_said_to_be_without_them(catalogue: Path) -> None:
    ended = command_line.called("prices", str(catalogue), "gcp/a2-highgpu-8g", "--region", "us-central1")
    assert yaml.safe_load(ended.stdout)["price"]["perNodeHour"] == "6"
    assert "this is the machine without any, unless --gpus says" in ended.stderr


def test_another_format_is_named(catalogue: Path) -> None:
    (catalogue / "catalogs" / "v8" / "gcp" / "vms.csv").write_text("instance,price\na,1\n", encoding="utf-8")
    ended = command_line.called("prices", str(catalogue), "gcp/a", "--region", "r")
    assert "it has no column InstanceType: give a catalogue of version 8" in ended.stderr
