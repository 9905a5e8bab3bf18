# SPDX-License-Identifier: Apache-2.0
"""`make cluster-check` on a cluster that is there already: what holds is said so, and what does not, too."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import embedded_check
import studies
from cluster import Cluster
from gpubench_cluster import kube

PROGRAM = Path(embedded_check.__file__).with_name("cluster_check.py")
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
POOLS = {"rented": "OnDemand", "spare": "Spot"}


@pytest.fixture
def prepared(place: Any) -> Iterator[Cluster]:
    """What doctor asks for, and a pool of each capacity type; the spot pool's attempts last until they are drilled."""
    cluster: Cluster = place.cluster
    cluster.request("POST", SLICES, embedded_check.DNS)
    cluster.kubectl("label", "nodes", "--selector", "pool=process", *(f"{name}=yes" for name in POOLS))
    for name, capacity in POOLS.items():
        seconds = "12" if capacity == "Spot" else "0.3"
        template = {"env": [{"name": "STAND_IN_SECONDS", "value": seconds}]}
        selector = {
            "nodeSelector": {"pool": "process", name: "yes"}
        }  # both nodes have both: no pool has all of another
        place.apply(studies.pool(name, capacityType=capacity, maxNodes=2, scheduling=selector, template=template))
    yield cluster
    cluster.request("DELETE", f"{SLICES}/kube-dns-1")
    cluster.kubectl("label", "nodes", "--selector", "pool=process", *(f"{name}-" for name in POOLS))
    for name in POOLS:
        cluster.request("DELETE", kube.POOLS.path(name=name))


def checked(place: Any, folder: Path, *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """The exit code, and the lines of the page by their checks."""
    chosen = f"--on-demand rented --spot spare --namespace {place.namespace} --seconds 2 --drain 10s"
    done = subprocess.run(
        [sys.executable, str(PROGRAM), "--folder", str(folder), *chosen.split(), *arguments],
        env={**os.environ, "KUBECONFIG": str(place.cluster.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr, done.stderr
    page = (folder / "README.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (.+?) \| (ok|failed) \| (.*) \|$", page, re.MULTILINE)
    return done.returncode, {what: (state, seen) for what, state, seen in found}


@pytest.mark.usefixtures("prepared")
def test_a_drilled_spot_gang_is_measured_again_and_nothing_is_left(place: Any, tmp_path: Path) -> None:
    code, lines = checked(place, tmp_path / "check")
    wanted = ("doctor before", "pools", "apply", "finished", "doctor after", "export", "reclaim", "repeated", "table")
    assert tuple(lines) == (*wanted, "verify", "nothing is left")
    assert {what: state for what, (state, _) in lines.items() if state != "ok"} == {}, lines
    assert code == 0
    assert r'"drilled":1' in lines["reclaim"][1]
    page = (tmp_path / "check" / "README.md").read_text(encoding="utf-8")
    assert "Not a real cloud" not in page  # which only the embedded one of its own is
    assert page.count("| Preempted |") == 1
    assert page.count("| Succeeded |") == 4
    for file in ("doctor-before.txt", "doctor-after.txt", "results/ledger.jsonl", "report.html"):
        assert (tmp_path / "check" / file).stat().st_size
    assert place.all(kube.SECRETS) == place.all(kube.JOBS) == []


@pytest.mark.usefixtures("prepared")
def test_a_reclaim_that_does_nothing_fails_the_check(place: Any, tmp_path: Path) -> None:
    said = tmp_path / "said"
    code, lines = checked(place, tmp_path / "check", "--reclaim", f"sh -c 'echo {{node}} > {said}'")
    assert said.read_text().startswith("process-")
    assert code == 1
    failed = {what for what, (state, _) in lines.items() if state != "ok"}
    assert failed == {"reclaim", "repeated"}
    assert "Succeeded" in lines["reclaim"][1]


@pytest.mark.usefixtures("prepared")
def test_pools_that_cannot_be_measured_beside_each_other_end_the_check(place: Any, tmp_path: Path) -> None:
    place.apply(studies.pool("all", maxNodes=2, scheduling={"nodeSelector": {"pool": "process"}}))
    code, lines = checked(place, tmp_path / "check", "--on-demand", "all")
    assert (code, lines["finished"][0]) == (1, "failed")
    assert "GpuPool all takes every node of GpuPool spare" in lines["finished"][1]


def test_a_cluster_that_is_not_ready_is_left_alone(prepared: Cluster, place: Any, tmp_path: Path) -> None:
    code, lines = checked(place, tmp_path / "check", "--spot", "none")
    assert (code, lines["pools"][0]) == (1, "failed")
    assert set(lines) == {"doctor before", "pools"}
    listed = prepared.request("GET", kube.BENCHMARKS.path(namespace=place.namespace))
    assert listed["items"] == []
