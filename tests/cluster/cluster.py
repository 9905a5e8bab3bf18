# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes control plane on this machine, and nodes that run pods as local processes.

etcd, kube-apiserver, kube-controller-manager and kube-scheduler are the real programs; the nodes are doubles
(see cmd/processnode). No root, no images, no network. Several clusters can run at once.

    from cluster import Cluster, Image, Node

    with Cluster.start(
        tmp_path / "cluster",
        nodes=[
            Node(name="cpu-0", labels={"pool": "cpu"}, cores=(0,)),
            Node(name="cpu-1", labels={"pool": "cpu"}, cores=(1,)),
            Node(name="pretend-0", capacity={"cpu": "64", "nvidia.com/gpu": "8"}, pretend=True),
        ],
        images={"gpubench-jobs:dev": Image(path=(".venv/bin",), env={"OMP_NUM_THREADS": "1"})},
    ) as cluster:
        cluster.kubectl("apply", "-f", "-", stdin=manifest)     # subprocess.CompletedProcess[str]
        cluster.request("GET", "/api/v1/namespaces/default/pods")  # parsed JSON; ApiError if refused
        cluster.kubeconfig                                      # Path: administrator
        cluster.kubeconfig_for_service_account("ns", "name")    # Path: exactly that account's permissions
        cluster.kill("apiserver"); cluster.restart("apiserver") # also etcd, controller-manager, scheduler, processnode
        cluster.audit_events()                                  # verb, user, object of every request so far

Leaving the block, or the death of the process that called `start`, ends every process of the cluster and every
pod; logs stay under `<directory>/logs`. `start(..., detached=True)` stays up until `stop` or `cluster.py down`.

From a shell: `cluster.py up|down|status|build|kubectl`. What may not happen here: knowledge of gpubench's objects.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import random
import secrets
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import cluster_binaries
import cluster_processes
import yaml

READY_TIMEOUT_SECONDS = 60.0  # it takes three to six; a loaded machine with cold page cache is slower
REQUEST_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.05
PORT_ATTEMPTS = 5
PORTS = range(20_000, 32_000)  # below the ports that the kernel hands to outgoing connections

STATE_FILE = "cluster.json"
COMPONENTS_FIRST = ("etcd", "apiserver")
DEFAULT_PROGRAM = "processnode"

AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # Heartbeats would be most of the log and say nothing about the operator.
        {"level": "None", "users": ["admin"], "userAgents": [], "verbs": ["patch", "get"],
         "resources": [{"group": "", "resources": ["nodes", "nodes/status"]},
                       {"group": "coordination.k8s.io", "resources": ["leases"]}],
         "namespaces": ["kube-node-lease", ""]},
        {"level": "Metadata"},
    ],
}


class ClusterError(RuntimeError):
    """The cluster cannot do what was asked; the text says where to look."""


class ApiError(RuntimeError):
    """The API server refused a request."""

    def __init__(self, *, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message


@dataclass(frozen=True, kw_only=True)
class Image:
    """What stands in for a container image: where its programs are, and the environment it brings."""

    path: tuple[str | Path, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    entrypoint: tuple[str, ...] = ()

    def config(self) -> dict[str, Any]:
        absolute = [str(Path(path).absolute()) for path in self.path]  # not resolve(): .venv/bin/python is a link
        return {"path": absolute, "env": dict(self.env), "entrypoint": list(self.entrypoint)}


@dataclass(frozen=True, kw_only=True)
class Node:
    """One Node. `cores` are the machine's cores that it owns; nodes of one machine should own disjoint ones."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[str, ...] = ()  # "key=value:NoSchedule", as kubectl taint takes them
    capacity: Mapping[str, str] = field(default_factory=dict)  # merged over one cpu per core, 8Gi, 110 pods
    cores: tuple[int, ...] = ()
    pretend: bool = False  # pods go Running with no process behind them
    program: str = DEFAULT_PROGRAM  # nodes of the same program share one process, and die with it

    def config(self) -> dict[str, Any]:
        capacity = {"cpu": str(len(self.cores) or 1), "memory": "8Gi", "pods": "110", **self.capacity}
        return {
            "name": self.name,
            "labels": dict(self.labels),
            "taints": [_taint(text) for text in self.taints],
            "capacity": capacity,
            "cores": list(self.cores),
            "pretend": self.pretend,
        }


@dataclass(frozen=True, kw_only=True)
class Component:
    """One process of the cluster; `identity` is None while it does not run."""

    name: str
    argv: tuple[str, ...]
    identity: cluster_processes.Identity | None = None


def _taint(text: str) -> dict[str, str]:
    pair, separator, effect = text.rpartition(":")
    if not separator:
        raise ClusterError(f"taint {text!r} must look like key=value:NoSchedule")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


class Cluster:
    """One cluster under one directory. Everything it knows is in the directory, so that `attach` can take over."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._state = _State.read(directory / STATE_FILE)
        self._guard: _Guard | None = None
        self._tls: ssl.SSLContext | None = None

    # --- life -----------------------------------------------------------------------------------------

    @classmethod
    def start(
        cls,
        directory: str | Path,
        *,
        nodes: Sequence[Node] = (),
        images: Mapping[str, Image] | None = None,
        seed: str | None = None,
        audit_log: bool = True,
        detached: bool = False,
        controller_manager_flags: Sequence[str] = (),
    ) -> Cluster:
        """Starts a cluster in a new or empty directory and returns when its nodes take pods.

        `seed` decides the addresses of the pods; the directory's path by default. `controller_manager_flags` come
        last, for instance `--node-monitor-grace-period=5s` (default 50 s) for tests that lose a node.
        """
        binaries = cluster_binaries.build()
        absolute = Path(directory).absolute()
        absolute.mkdir(parents=True, exist_ok=True)
        if (absolute / STATE_FILE).exists():
            raise ClusterError(f"{absolute} holds a cluster already; stop it first: cluster.py down --directory {absolute}")
        for attempt in range(PORT_ATTEMPTS):
            plan = _Plan(
                directory=absolute,
                binaries=binaries,
                ports=_free_ports(),
                audit_log=audit_log,
                controller_manager_flags=tuple(controller_manager_flags),
            )
            plan.write_files()
            _State(server=plan.server, components=plan.components(), seed=seed or str(absolute)).write(absolute / STATE_FILE)
            cluster = cls(absolute)
            try:
                if not detached:
                    cluster._guard = _Guard.start(absolute)
                cluster._bring_up(nodes=nodes, images=images or {})
                return cluster
            except _PortTaken:
                cluster.stop()
                if attempt == PORT_ATTEMPTS - 1:
                    raise
            except BaseException:
                cluster.stop()
                raise
        raise AssertionError("unreachable: the last attempt returns or raises")

    @classmethod
    def attach(cls, directory: str | Path) -> Cluster:
        """A cluster that another process started."""
        absolute = Path(directory).absolute()
        if not (absolute / STATE_FILE).exists():
            raise ClusterError(f"no cluster in {absolute}; start one: cluster.py up --directory {absolute}")
        return cls(absolute)

    def stop(self) -> None:
        """Ends every process of the cluster and of its pods, and removes all but the logs. Twice is once."""
        if (self.directory / STATE_FILE).exists():
            # Nodes first: SIGTERM tells a process node that its machine goes down, so it ends its pods.
            node_programs = [component for component in self._state.components if _is_node_program(component.name)]
            for component in node_programs:
                self._signal(component, signal.SIGTERM)
            for component in node_programs:
                self._end(component, patience_seconds=STOP_TIMEOUT_SECONDS)
            self._sweep_pods()  # for node programs that a test had killed
            for component in self._state.components:
                self._end(component, patience_seconds=0.0)  # the data goes anyway: no need to be gentle
            _remove_all_but_logs(self.directory)
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # --- using it -------------------------------------------------------------------------------------

    @property
    def kubeconfig(self) -> Path:
        return self.directory / "admin.kubeconfig"

    @property
    def server(self) -> str:
        return self._state.server

    @property
    def logs(self) -> Path:
        return self.directory / "logs"

    def kubectl(
        self, *arguments: str, stdin: str | None = None, check: bool = True, timeout_seconds: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs the built kubectl as administrator; a failure is a ClusterError with kubectl's words."""
        done = subprocess.run(
            [self._kube_program("kubectl"), *arguments],
            input=stdin,
            env=self.kubectl_environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_seconds,
        )
        if check and done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def kubectl_environment(self) -> dict[str, str]:
        """KUBECONFIG, and a discovery cache of this cluster's own: another one may have had the same port."""
        cache = str(self.directory / "kubectl-cache")
        return {**os.environ, "KUBECONFIG": str(self.kubeconfig), "KUBECACHEDIR": cache}

    def request(
        self, method: str, path: str, body: Any = None, *, content_type: str = "application/json",
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> Any:
        """One request as administrator; the parsed answer. A refusal is an ApiError."""
        request = urllib.request.Request(
            self.server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token()}", "Content-Type": content_type},
        )
        try:
            with urllib.request.urlopen(request, timeout=timeout_seconds, context=self._tls_context()) as response:
                content = response.read().decode()
        except urllib.error.HTTPError as error:
            raise ApiError(status=error.code, message=error.read().decode(errors="replace")) from error
        return json.loads(content) if content.startswith(("{", "[")) else content

    def kubeconfig_for_service_account(self, namespace: str, name: str, *, lifetime_seconds: int = 86_400) -> Path:
        """A kubeconfig with a token of that ServiceAccount: whoever uses it has its permissions and no others."""
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
             "spec": {"expirationSeconds": lifetime_seconds}},
        )
        path = self.directory / "kubeconfigs" / f"{namespace}-{name}.kubeconfig"
        user = {"token": answer["status"]["token"]}
        _write_kubeconfig(path, server=self.server, authority=self._authority(), user=user, namespace=namespace)
        return path

    def kubeconfig_for_user(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig that acts as any user, by impersonation."""
        path = self.directory / "kubeconfigs" / f"user-{user.replace('/', '-').replace(':', '-')}.kubeconfig"
        impersonation: dict[str, Any] = {"token": self._token(), "as": user, "as-groups": list(groups)}
        _write_kubeconfig(path, server=self.server, authority=self._authority(), user=impersonation)
        return path

    def audit_events(self) -> Iterator[dict[str, Any]]:
        """Every request that the audit log holds so far, oldest first."""
        path = self.logs / "audit.log"
        if not path.exists():
            return
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if line.endswith("\n"):  # the last one may be half written
                    yield json.loads(line)

    # --- faults ---------------------------------------------------------------------------------------

    def components(self) -> tuple[str, ...]:
        return tuple(component.name for component in self._state.components)

    def pid(self, name: str) -> int | None:
        """The process id of a component, or None if it does not run."""
        identity = self._component(name).identity
        return identity.pid if identity is not None and cluster_processes.is_alive(identity) else None

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Signals a component; after SIGKILL it is gone when this returns."""
        component = self._component(name)
        self._signal(component, number)
        if number == signal.SIGKILL:
            self._end(component, patience_seconds=0.0)

    def restart(self, name: str, *, wait: bool = True) -> None:
        """Kills a component if it runs (SIGKILL) and starts it again on the same data and ports."""
        self.kill(name)
        self._run(name)
        if wait:
            self._wait(lambda: self._is_ready(nodes=()), what=f"{name} after its restart", watched=(name,))

    def configure(self, *, nodes: Sequence[Node], images: Mapping[str, Image]) -> None:
        """Replaces nodes and images: the node programs start again, pods run on. Old Node objects stay."""
        old = {component.name for component in self._state.components if _is_node_program(component.name)}
        programs = self._write_node_configs(nodes=nodes, images=images)
        for name in sorted(old - programs):
            self.kill(name)
            self._forget(name)
        for name in sorted(programs):
            if name in old:
                self.kill(name)
            self._run(name)
        names = tuple(node.name for node in nodes)
        self._wait(lambda: self._is_ready(nodes=names), what="the nodes", watched=tuple(programs))

    # --- inside ---------------------------------------------------------------------------------------

    def _bring_up(self, *, nodes: Sequence[Node], images: Mapping[str, Image]) -> None:
        for name in COMPONENTS_FIRST:
            self._run(name)
        self._wait(self._is_serving, what="the API server", watched=COMPONENTS_FIRST)
        admin = {"token": self._token()}
        _write_kubeconfig(self.kubeconfig, server=self.server, authority=self._authority(), user=admin)
        for name in ("controller-manager", "scheduler"):
            self._run(name)
        self.configure(nodes=nodes, images=images)

    def _write_node_configs(self, *, nodes: Sequence[Node], images: Mapping[str, Image]) -> set[str]:
        programs = {node.program for node in nodes}
        for program in programs:
            if program != DEFAULT_PROGRAM and not _is_node_program(program):
                raise ClusterError(f"node program {program!r} must be called processnode or processnode-SOMETHING")
            config = {
                "kubeconfig": str(self.kubeconfig),
                "stateDir": str(self.directory / "pods"),
                "seed": self._state.seed,
                "images": {name: image.config() for name, image in images.items()},
                "nodes": [node.config() for node in nodes if node.program == program],
            }
            path = self.directory / f"{program}.json"
            path.write_text(json.dumps(config, indent=1), encoding="utf-8")
            argv = (str(self._state.processnode()), "--config", str(path))
            if program not in self.components():
                self._remember(Component(name=program, argv=argv))
        return programs

    def _is_serving(self) -> bool:
        if not (self.directory / "certificates" / "apiserver.crt").exists():
            return False
        return bool(self.request("GET", "/readyz", timeout_seconds=2.0) == "ok")

    def _is_ready(self, *, nodes: Sequence[str]) -> bool:
        """The API serves, pods can be made in the default namespace, and the nodes take them."""
        if not self._is_serving():
            return False
        self.request("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        if not nodes:
            return True
        present = {node["metadata"]["name"]: node for node in self.request("GET", "/api/v1/nodes")["items"]}
        return all(name in present and _takes_pods(present[name]) for name in nodes)

    def _wait(self, is_done: Callable[[], bool], *, what: str, watched: Sequence[str]) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_SECONDS
        while True:
            with contextlib.suppress(ApiError, OSError, ssl.SSLError):  # not yet is no error
                if is_done():
                    return
            for name in watched:
                self._check_running(name)
            if time.monotonic() > deadline:
                raise ClusterError(f"{what}: not ready after {READY_TIMEOUT_SECONDS:.0f} s; see {self.logs}")
            time.sleep(POLL_SECONDS)

    def _check_running(self, name: str) -> None:
        if self.pid(name) is not None:
            return
        text = (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        if "address already in use" in text:
            raise _PortTaken(f"{name}: a port was taken while the cluster started")
        raise ClusterError(f"{name} ended by itself; the end of {self.logs / (name + '.log')}:\n{text[-2000:]}")

    def _component(self, name: str) -> Component:
        for component in self._state.components:
            if component.name == name:
                return component
        raise ClusterError(f"no component {name!r}; there are {', '.join(self.components())}")

    def _run(self, name: str) -> None:
        component = self._component(name)
        identity = cluster_processes.start(
            component.argv,
            log=self.logs / f"{name}.log",
            environment={"PATH": os.environ.get("PATH", ""), "HOME": str(self.directory)},
            directory=self.directory,
        )
        self._remember(dataclasses.replace(component, identity=identity))

    def _remember(self, component: Component) -> None:
        others = tuple(other for other in self._state.components if other.name != component.name)
        self._state = dataclasses.replace(self._state, components=(*others, component))
        self._state.write(self.directory / STATE_FILE)

    def _forget(self, name: str) -> None:
        kept = tuple(component for component in self._state.components if component.name != name)
        self._state = dataclasses.replace(self._state, components=kept)
        self._state.write(self.directory / STATE_FILE)

    def _signal(self, component: Component, number: signal.Signals) -> None:
        if component.identity is not None:
            cluster_processes.send(component.identity, number)

    def _end(self, component: Component, *, patience_seconds: float) -> None:
        identity = component.identity
        if identity is None or cluster_processes.wait_gone(identity, timeout_seconds=patience_seconds):
            return
        cluster_processes.send(identity, signal.SIGKILL)
        if not cluster_processes.wait_gone(identity, timeout_seconds=STOP_TIMEOUT_SECONDS):
            raise ClusterError(f"{component.name} (process {identity.pid}) does not end, not even by SIGKILL")

    def _sweep_pods(self) -> None:
        for config in sorted(self.directory.glob(f"{DEFAULT_PROGRAM}*.json")):
            program = str(self._state.processnode())
            subprocess.run([program, "--config", str(config), "--sweep"], check=True, timeout=STOP_TIMEOUT_SECONDS)

    def _kube_program(self, name: str) -> str:
        return str(Path(self._component("apiserver").argv[0]).parent / name)

    def _token(self) -> str:
        return (self.directory / "tokens.csv").read_text(encoding="ascii").partition(",")[0]

    def _authority(self) -> str:
        return (self.directory / "certificates" / "apiserver.crt").read_text(encoding="ascii")

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context(cadata=self._authority())
        return self._tls


class _PortTaken(ClusterError):
    """Somebody took a port between our look and the component's start: try again with others."""


def _is_node_program(name: str) -> bool:
    return name == DEFAULT_PROGRAM or name.startswith(DEFAULT_PROGRAM + "-")


def _takes_pods(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    taints = node.get("spec", {}).get("taints", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def _free_ports() -> tuple[int, int, int]:
    """Three ports that nobody listens on now; somebody may a moment later, hence the attempts in start."""
    chosen: list[int] = []
    while len(chosen) < 3:
        port = random.choice(PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            if port not in chosen:
                chosen.append(port)
    return chosen[0], chosen[1], chosen[2]


def _write_kubeconfig(
    path: Path, *, server: str, authority: str, user: Mapping[str, Any], namespace: str = "default"
) -> None:
    import base64

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


def _remove_all_but_logs(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name in ("logs", STATE_FILE):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (directory / STATE_FILE).unlink()  # last: as long as it is there, there is something to stop


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """Files and command lines of the control plane."""

    directory: Path
    binaries: cluster_binaries.Binaries
    ports: tuple[int, int, int]
    audit_log: bool
    controller_manager_flags: tuple[str, ...]

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports[2]}"

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
        tokens.write_text(f'{secrets.token_hex(16)},admin,admin,"system:masters"\n', encoding="ascii")
        (self.directory / "audit-policy.yaml").write_text(yaml.safe_dump(AUDIT_POLICY), encoding="utf-8")
        (self.directory / "processnode.path").write_text(str(self.binaries.processnode), encoding="utf-8")

    def components(self) -> tuple[Component, ...]:
        return (
            Component(name="etcd", argv=self._etcd_argv()),
            Component(name="apiserver", argv=self._apiserver_argv()),
            Component(name="controller-manager", argv=self._controller_manager_argv()),
            Component(name="scheduler", argv=self._scheduler_argv()),
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
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports[2]}",
            "--advertise-address=127.0.0.1",
            # The kubernetes Service may not have a loopback address, and pods here do not look for it.
            "--endpoint-reconciler-type=none",
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
            *self._client_flags(),
            # No pod network and no volumes to attach here; the volume binder stays for claims.
            "--controllers=*,-nodeipam,-attachdetach",
            f"--service-account-private-key-file={self.directory / 'service-account.key'}",
            f"--root-ca-file={self.directory / 'certificates' / 'apiserver.crt'}",
            *self.controller_manager_flags,
        )

    def _scheduler_argv(self) -> tuple[str, ...]:
        return (self.binaries.program("kube-scheduler"), *self._client_flags())

    def _client_flags(self) -> tuple[str, ...]:
        kubeconfig = self.directory / "admin.kubeconfig"
        return (
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",  # nobody asks them; one port less to collide
            "--kube-api-qps=1000",  # the defaults of 20 and 50 would be what a measurement of 200 applies measures
            "--kube-api-burst=2000",
        )


@dataclass(frozen=True, kw_only=True)
class _State:
    """The content of cluster.json: enough to stop the cluster from another process."""

    server: str
    seed: str
    components: tuple[Component, ...]
    path: Path | None = None

    def processnode(self) -> Path:
        assert self.path is not None  # a state in use was read from its file
        return Path((self.path.parent / "processnode.path").read_text(encoding="utf-8"))

    @classmethod
    def read(cls, path: Path) -> _State:
        content = json.loads(path.read_text(encoding="utf-8"))
        components = tuple(
            Component(
                name=each["name"],
                argv=tuple(each["argv"]),
                identity=None if each["identity"] is None else cluster_processes.Identity(**each["identity"]),
            )
            for each in content["components"]
        )
        return cls(server=content["server"], seed=content["seed"], components=components, path=path)

    def write(self, path: Path) -> None:
        content = {
            "server": self.server,
            "seed": self.seed,
            "components": [dataclasses.asdict(component) for component in self.components],
        }
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(content, indent=1), encoding="utf-8")
        beside.replace(path)


@dataclass(frozen=True, kw_only=True)
class _Guard:
    """A process that stops the cluster when we die: it waits for the end of a pipe that only we hold open.

    A parent-death signal would not do: it belongs to a thread, it does not reach the pods' own parents, and a node
    program that a test has killed could not end its pods any more.
    """

    identity: cluster_processes.Identity
    descriptor: int

    @classmethod
    def start(cls, directory: Path) -> _Guard:
        reading, writing = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__).resolve()), "guard", str(directory), str(reading)],
                pass_fds=(reading,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
        finally:
            os.close(reading)
        identity = cluster_processes.identify(process.pid)
        process.returncode = 0  # waited for by its id, see dismiss
        assert identity is not None  # our own child that nobody has waited for
        return cls(identity=identity, descriptor=writing)

    def dismiss(self) -> None:
        os.close(self.descriptor)
        cluster_processes.wait_gone(self.identity, timeout_seconds=STOP_TIMEOUT_SECONDS)


def _guard(directory: Path, descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    _down(directory)


# --- command line -------------------------------------------------------------------------------------


def _down(directory: Path) -> None:
    if (directory / STATE_FILE).exists():
        Cluster.attach(directory).stop()


def _read_config(path: Path | None) -> tuple[list[Node], dict[str, Image]]:
    """Nodes and images from a YAML file; relative paths are relative to the file. Without: one node per core."""
    if path is None:
        cores = sorted(os.sched_getaffinity(0))[:2]
        return [Node(name=f"node-{index}", cores=(core,)) for index, core in enumerate(cores)], {}
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        nodes = [Node(**{key: _frozen(value) for key, value in each.items()}) for each in content.get("nodes", [])]
        images = {name: Image(**{key: _frozen(value) for key, value in each.items()})
                  for name, each in content.get("images", {}).items()}
    except TypeError as error:
        raise ClusterError(f"{path}: {error}") from error
    folder = path.absolute().parent
    return nodes, {
        name: dataclasses.replace(image, path=tuple(folder / entry for entry in image.path))
        for name, image in images.items()
    }


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _up(directory: Path, config: Path | None) -> None:
    if (directory / STATE_FILE).exists():
        cluster = Cluster.attach(directory)
        if all(cluster.pid(name) is not None for name in cluster.components()):
            _print_exports(cluster)
            return
        cluster.stop()  # half of it is dead: after a reboot, for instance
    nodes, images = _read_config(config)
    _print_exports(Cluster.start(directory, nodes=nodes, images=images, detached=True))


def _print_exports(cluster: Cluster) -> None:
    environment = cluster.kubectl_environment()
    for name in ("KUBECONFIG", "KUBECACHEDIR"):
        print(f"export {name}={environment[name]}")


def _status(directory: Path) -> int:
    if not (directory / STATE_FILE).exists():
        print(f"no cluster in {directory}")
        return 1
    cluster = Cluster.attach(directory)
    for name in cluster.components():
        print(f"{name:20} {cluster.pid(name) or 'not running'}")
    return 0 if all(cluster.pid(name) for name in cluster.components()) else 1


def _kubectl(directory: Path, arguments: Sequence[str]) -> None:
    cluster = Cluster.attach(directory)
    program = cluster._kube_program("kubectl")
    words = arguments[1:] if arguments[:1] == ["--"] else arguments
    os.execve(program, [program, *words], cluster.kubectl_environment())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="a real Kubernetes control plane with nodes of local processes")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="build the programs, or find them in the cache")
    for name, text in (("up", "start a cluster that stays"), ("down", "stop it; nothing to stop is fine"),
                       ("status", "show its processes"), ("kubectl", "run kubectl on it: kubectl -- get pods")):
        command = commands.add_parser(name, help=text)
        command.add_argument("--directory", type=Path, default=Path(".run/cluster"), help="default: %(default)s")
        if name == "up":
            command.add_argument("--config", type=Path, help="YAML with nodes and images; see the README")
        if name == "kubectl":
            command.add_argument("arguments", nargs=argparse.REMAINDER)
    guard = commands.add_parser("guard")  # started by Cluster.start, not by a person
    guard.add_argument("directory", type=Path)
    guard.add_argument("descriptor", type=int)
    return parser


def main() -> int:
    options = _parser().parse_args()
    try:
        match options.command:
            case "build":
                print(cluster_binaries.build().kube)
            case "up":
                _up(options.directory.absolute(), options.config)
            case "down":
                _down(options.directory.absolute())
            case "status":
                return _status(options.directory.absolute())
            case "kubectl":
                _kubectl(options.directory, options.arguments)
            case "guard":
                _guard(options.directory, options.descriptor)
    except (ClusterError, cluster_binaries.BuildError) as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
