# SPDX-License-Identifier: Apache-2.0
"""A real node on this machine: a containerd and a kubelet of its own, and the project's images.

Runs inside the namespaces of `e2e_machine.apart`: interfaces, rules, mounts and processes that are made here end with
them. What may not happen here: a wait without a bound, or a path outside the working folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import cluster_processes
import e2e_images
from cluster import Cluster, ClusterError

NAME = "node-0"
API_ADDRESS = "192.0.2.1"  # a documentation network: nobody else's, and nobody here is outside of it
NODE_ADDRESS = "192.0.2.10"
DNS_ADDRESS = "10.244.0.1"  # of the pods' bridge, their gateway
POD_NETWORK = "10.244.0.0/24"
POOL_LABEL = "gpubench.dev/pool=local-cpu"  # by which the quick start's pool finds its nodes
CNI_PLUGINS = "/usr/lib/cni"
READY_SECONDS = 120.0
IMPORT_SECONDS = 600.0


class NodeError(RuntimeError):
    """A node does not come up; the text has the end of its log."""


def cover(work: Path) -> None:
    """Let writes below these folders go nowhere but into the working folder, also those of paths that cannot be set."""
    for folder in (Path("/run"), Path("/var/log")):
        _run("mount", "-t", "tmpfs", "-o", "mode=755", "gpubench-e2e", str(folder))
    layers = {name: work / "var-lib" / name for name in ("upper", "work")}
    for path in layers.values():
        path.mkdir(parents=True)
    options = f"lowerdir=/var/lib,upperdir={layers['upper']},workdir={layers['work']}"
    _run("mount", "-t", "overlay", "-o", options, "gpubench-e2e", "/var/lib")


def connect() -> None:
    """The interfaces: the machine's own side of the pods' bridge, and one for the addresses of node and API server."""
    _run("ip", "link", "set", "lo", "up")
    for bridge, addresses in (
        ("cni0", (f"{DNS_ADDRESS}/24",)),
        ("node", (f"{API_ADDRESS}/24", f"{NODE_ADDRESS}/24")),
    ):
        _run("ip", "link", "add", bridge, "type", "bridge")
        for address in addresses:
            _run("ip", "address", "add", address, "dev", bridge)
        _run("ip", "link", "set", bridge, "up")
    # A machine without any route refuses addresses that are not its own before kube-proxy's rules see them.
    _run("ip", "route", "add", "default", "dev", "node")
    Path("/proc/sys/net/ipv4/ip_forward").write_text("1", encoding="ascii")  # of this network namespace alone


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where everything of one run is."""

    cluster: Cluster
    work: Path
    logs: Path
    cache: Path
    cgroup: str
    programs: Mapping[str, str]  # kubelet, kube-proxy, coredns

    def start(self, name: str, command: Sequence[str]) -> cluster_processes.Identity:
        environment = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.work), "TMPDIR": str(self.work)}
        log = self.logs / f"{name}.log"
        return cluster_processes.start(command, log=log, environment=environment, directory=self.work)


def start_names(place: Place) -> cluster_processes.Identity:
    """CoreDNS, for the names of Services and of their pods."""
    corefile = place.work / "Corefile"
    kubeconfig = place.cluster.kubeconfig
    corefile.write_text(
        f"cluster.local:53 {{\n    bind {DNS_ADDRESS}\n    errors\n"
        f"    kubernetes {{\n        kubeconfig {kubeconfig}\n        ttl 1\n    }}\n}}\n",
        encoding="ascii",
    )
    return place.start("coredns", [place.programs["coredns"], "-conf", str(corefile)])


def start_proxy(place: Place) -> cluster_processes.Identity:
    """kube-proxy, for the addresses of Services."""
    return place.start(
        "kube-proxy",
        [
            place.programs["kube-proxy"],
            f"--kubeconfig={place.cluster.kubeconfig}",
            "--proxy-mode=iptables",
            f"--hostname-override={NAME}",
            f"--cluster-cidr={POD_NETWORK}",
            "--masquerade-all",  # pods are on one bridge: an answer would go back past the rules
            "--conntrack-max-per-core=0",  # the machine's own setting stays
        ],
    )


@dataclass(frozen=True, kw_only=True)
class Node:
    """Its containerd, its kubelet, and where they are reached."""

    place: Place

    @property
    def folder(self) -> Path:
        return self.place.work / NAME

    @property
    def root(self) -> Path:
        return self.folder / "containerd"

    @property
    def socket(self) -> Path:
        return Path("/run") / NAME / "containerd.sock"

    def start_runtime(self) -> cluster_processes.Identity:
        network = self.folder / "cni"
        network.mkdir(parents=True, exist_ok=True)
        (network / "pods.conflist").write_text(json.dumps(_network(self)), encoding="ascii")
        config = self.folder / "containerd.toml"
        config.write_text(_containerd_config(self, network=network), encoding="ascii")
        return self.place.start("containerd", ["containerd", "--config", str(config)])

    def wait_for_runtime(self, identity: cluster_processes.Identity) -> None:
        def answers() -> bool:
            return self._ctr("version", check=False, timeout_seconds=10).returncode == 0

        wait_for(answers, what="containerd", watched={"containerd": identity}, place=self.place)

    def import_image(self, archive: Path) -> None:
        self._ctr("images", "import", str(archive), timeout_seconds=IMPORT_SECONDS)

    def start_kubelet(self) -> cluster_processes.Identity:
        user = self.place.cluster.kubeconfig_for_user(f"system:node:{NAME}", groups=["system:nodes"])
        config = self.folder / "kubelet.yaml"
        (self.folder / "resolv.conf").touch()  # nothing but the cluster's names is resolved
        config.write_text(yaml.safe_dump(_kubelet_config(self)), encoding="ascii")
        return self.place.start(
            "kubelet",
            [
                self.place.programs["kubelet"],
                f"--config={config}",
                f"--kubeconfig={user}",
                f"--root-dir={self.folder / 'kubelet'}",
                f"--hostname-override={NAME}",
                f"--node-ip={NODE_ADDRESS}",
                f"--node-labels={POOL_LABEL}",
            ],
        )

    def is_ready(self) -> bool:
        node = self.place.cluster.request("GET", f"/api/v1/nodes/{NAME}")
        conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")

    def _ctr(
        self, *arguments: str, check: bool = True, timeout_seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        command = ["ctr", f"--address={self.socket}", "--namespace=k8s.io", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout_seconds)
        if check and done.returncode != 0:
            raise NodeError(f"{NAME}: ctr {' '.join(arguments)}: {done.stderr.strip()}")
        return done


def start(place: Place, images: Sequence[Path]) -> None:
    """Names, addresses of Services, and the node, ready, with the images on it."""
    watched = {"coredns": start_names(place), "kube-proxy": start_proxy(place)}
    node = Node(place=place)
    with (place.cache / "images.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another run may want to do the same
        _bring_images(node, images)
    node.wait_for_runtime(node.start_runtime())
    watched["kubelet"] = node.start_kubelet()
    wait_for(node.is_ready, what=NAME, watched=watched, place=place)


def _bring_images(node: Node, images: Sequence[Path]) -> None:
    """Unpack the images once for all runs: nobody ever changes their files, so hard links will do."""
    cache = node.place.cache
    unpacked = cache / f"unpacked-{hashlib.sha256(' '.join(path.name for path in images).encode()).hexdigest()[:16]}"
    if not unpacked.exists():
        runtime = node.start_runtime()
        node.wait_for_runtime(runtime)
        for archive in images:
            node.import_image(archive)
        cluster_processes.send(runtime, signal.SIGTERM)
        if not cluster_processes.wait_gone(runtime, timeout_seconds=READY_SECONDS):
            raise NodeError(f"containerd does not end {READY_SECONDS:.0f} s after SIGTERM")
        for other in cache.glob("unpacked-*"):
            shutil.rmtree(other)
        unfinished = cache / "unpacked-unfinished"
        _link(node.root, unfinished)
        unfinished.rename(unpacked)
    if not node.root.exists():
        node.folder.mkdir(exist_ok=True)
        _link(unpacked, node.root)


def _link(source: Path, target: Path) -> None:
    """A containerd's folder once more: what it writes is copied, the images' files are linked where that can be."""
    linked = subprocess.run(["cp", "--archive", "--link", str(source), str(target)], capture_output=True, check=False)
    if linked.returncode != 0:  # the cache is on another file system
        shutil.rmtree(target, ignore_errors=True)
        _run("cp", "--archive", str(source), str(target))
    for database in target.rglob("*.db"):
        content = database.read_bytes()
        database.unlink()
        database.write_bytes(content)


def wait_for(
    is_done: Callable[[], bool],
    *,
    what: str,
    watched: Mapping[str, cluster_processes.Identity],
    place: Place,
    timeout_seconds: float = READY_SECONDS,
) -> None:
    """Wait, and say which program ended, with the end of its log, where one did."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            if is_done():
                return
            reason = "it is not ready"
        except (ClusterError, RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            reason = str(error)
        for name, identity in watched.items():
            if not cluster_processes.is_alive(identity):
                raise NodeError(f"{what}: {name} ended by itself:\n{_tail(place.logs / f'{name}.log')}")
        if time.monotonic() > deadline:
            logs = "".join(f"\n{name}:\n{_tail(place.logs / f'{name}.log')}" for name in watched)
            raise NodeError(f"{what}: not there after {timeout_seconds:.0f} s ({reason}){logs}")
        time.sleep(0.3)


def _network(node: Node) -> dict[str, Any]:
    addresses = {"subnet": POD_NETWORK, "gateway": DNS_ADDRESS}
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(node.folder / "addresses"),
            "ranges": [[addresses]],
            "routes": [{"dst": "0.0.0.0/0"}],
        },
    }
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [bridge]}


def _containerd_config(node: Node, *, network: Path) -> str:
    """Version 2 of the format, which containerd 1.6 and 2 read."""
    return f"""\
version = 2
root = "{node.root}"
state = "/run/{NAME}/containerd"
# It would make /opt/containerd.
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{node.socket}"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{e2e_images.PAUSE}"
# Where lowering oom_score_adj is not allowed runc would die without a reason.
restrict_oom_score_adj = true
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{CNI_PLUGINS}"
conf_dir = "{network}"
[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
"""


def _kubelet_config(node: Node) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": NODE_ADDRESS,
        "healthzPort": 0,
        "containerRuntimeEndpoint": f"unix://{node.socket}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{node.place.cgroup}/{NAME}",
        "failCgroupV1": False,  # both versions are good enough for a check
        "failSwapOn": False,
        "clusterDNS": [DNS_ADDRESS],
        "clusterDomain": "cluster.local",
        "resolvConf": str(node.folder / "resolv.conf"),
        "podLogsDir": str(node.folder / "pod-logs"),
        "volumePluginDir": str(node.folder / "volume-plugins"),
        # Nobody but us reaches it: it is in our network namespace.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        # A machine whose disk is almost full is no reason to evict, nor to delete an image that nobody can pull again.
        "evictionHard": {},
        "imageGCHighThresholdPercent": 100,
    }


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode != 0:
        raise NodeError(f"{' '.join(command)}: {done.stderr.strip()}")


def _tail(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]) if log.exists() else ""
