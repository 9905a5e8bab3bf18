# SPDX-License-Identifier: Apache-2.0
"""Files and command lines of the control plane, as they are before anything runs.

Each flag that is not Kubernetes' default has its reason beside it. What may not happen here: starting a server.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import secrets
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import cluster_binaries
import cluster_state

PORTS = range(20_000, 32_000)  # below the ports that the kernel hands to outgoing connections

LOOPBACK = "127.0.0.1"

# All may do all; they differ so that the audit log tells who did it.
USERS = {
    "admin": "admin",
    "controller-manager": "system:kube-controller-manager",
    "scheduler": "system:kube-scheduler",
    "processnode": "processnode",
}

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # Heartbeats would be most of the log and say nothing about the operator.
        {
            "level": "None",
            "users": ["processnode"],
            "resources": [
                {"group": "", "resources": ["nodes", "nodes/status"]},
                {"group": "coordination.k8s.io", "resources": ["leases"]},
            ],
        },
        {"level": "Metadata"},
    ],
}


def free_ports() -> tuple[int, int, int]:
    """Three ports that nobody listens on now; somebody may a moment later, hence the attempts in start."""
    chosen: list[int] = []
    while len(chosen) < 3:
        port = random.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in chosen:
                chosen.append(port)
    return chosen[0], chosen[1], chosen[2]


def write_kubeconfig(
    path: Path, *, server: str, authority: str, user: Mapping[str, Any], namespace: str = "default"
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    authority_data = base64.b64encode(authority.encode()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "gpubench", "cluster": {"server": server, "certificate-authority-data": authority_data}}],
        "users": [{"name": "user", "user": dict(user)}],
        "contexts": [{"name": "gpubench", "context": {"cluster": "gpubench", "user": "user", "namespace": namespace}}],
        "current-context": "gpubench",
    }
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        yaml.safe_dump(config, file)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Files and command lines of the control plane."""

    directory: Path
    binaries: cluster_binaries.Binaries
    ports: tuple[int, int, int]
    audit_log: bool
    controller_manager_flags: tuple[str, ...]
    address: str

    @property
    def server(self) -> str:
        return f"https://{self.address}:{self.ports[2]}"

    @property
    def etcd(self) -> str:
        return f"http://127.0.0.1:{self.ports[0]}"

    def write_files(self) -> None:
        (self.directory / "logs").mkdir(exist_ok=True)
        (self.directory / "pods").mkdir(exist_ok=True)
        for log in (self.directory / "logs").glob("*.log"):
            log.unlink()  # of an earlier cluster in this directory; its errors are not ours
        key = self.directory / "service-account.key"
        subprocess.run([self.binaries.program("service-account-key"), str(key)], check=True, timeout=60)
        tokens = self.directory / "tokens.csv"
        tokens.touch(mode=0o600)
        lines = (f'{secrets.token_hex(16)},{user},{user},"system:masters"\n' for user in USERS.values())
        tokens.write_text("".join(lines), encoding="ascii")
        (self.directory / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY), encoding="utf-8")

    def components(self) -> tuple[cluster_state.Component, ...]:
        return (
            cluster_state.Component(name="etcd", argv=self._etcd_argv()),
            cluster_state.Component(name="apiserver", argv=self._apiserver_argv()),
            cluster_state.Component(name="controller-manager", argv=self._controller_manager_argv()),
            cluster_state.Component(name="scheduler", argv=self._scheduler_argv()),
        )

    def _etcd_argv(self) -> tuple[str, ...]:
        peer = f"http://127.0.0.1:{self.ports[1]}"
        return (
            self.binaries.program("etcd"),
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={self.etcd}",
            f"--advertise-client-urls={self.etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",  # survives kill -9 of etcd, not a power cut; and the data is a test's
            "--log-level=warn",
        )

    def _apiserver_argv(self) -> tuple[str, ...]:
        audit = (
            f"--audit-policy-file={self.directory / 'audit-policy.yaml'}",
            f"--audit-log-path={self.directory / 'logs' / 'audit.log'}",
        )
        return (
            self.binaries.program("kube-apiserver"),
            f"--etcd-servers={self.etcd}",
            f"--bind-address={self.address}",
            f"--secure-port={self.ports[2]}",
            f"--advertise-address={self.address}",
            # The kubernetes Service may not have a loopback address, and pods of process nodes do not look for it.
            *(("--endpoint-reconciler-type=none",) if self.address == LOOPBACK else ()),
            f"--cert-dir={self.directory / 'certificates'}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            "--authorization-mode=Node,RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.directory / 'service-account.key'}",
            f"--service-account-signing-key-file={self.directory / 'service-account.key'}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--kubelet-preferred-address-types=InternalIP",  # nodes' names are in no DNS
            "--allow-privileged=true",
            *(audit if self.audit_log else ()),
        )

    def _controller_manager_argv(self) -> tuple[str, ...]:
        return (
            self.binaries.program("kube-controller-manager"),
            *self._client_flags("controller-manager"),
            # No pod network and no volumes to attach here; the volume binder stays for claims.
            "--controllers=*,-nodeipam,-attachdetach",
            "--use-service-account-credentials",  # each controller has an account of its own, as on real clusters
            f"--service-account-private-key-file={self.directory / 'service-account.key'}",
            f"--root-ca-file={self.directory / 'certificates' / 'apiserver.crt'}",
            *self.controller_manager_flags,
        )

    def _scheduler_argv(self) -> tuple[str, ...]:
        return (self.binaries.program("kube-scheduler"), *self._client_flags("scheduler"))

    def _client_flags(self, component: str) -> tuple[str, ...]:
        kubeconfig = self.directory / f"{component}.kubeconfig"
        return (
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",  # nobody asks them; one port less to collide
            "--kube-api-qps=1000",  # the defaults of 20 and 50 would be what a measurement of 200 applies measures
            "--kube-api-burst=2000",
        )
