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

From a shell: `cluster.py up|down|status|build|vet|kubectl`. What may not happen here: knowledge of gpubench's objects.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import cluster_binaries
import cluster_guard
import cluster_nodes
import cluster_plan
import cluster_processes
import cluster_state
from cluster_nodes import ClusterError, Image, Node

__all__ = ["ApiError", "Cluster", "ClusterError", "Image", "Node"]

READY_TIMEOUT_SECONDS = 60.0  # it takes three to six; a loaded machine with cold page cache is slower
REQUEST_TIMEOUT_SECONDS = 30.0
STOP_TIMEOUT_SECONDS = 20.0
POLL_SECONDS = 0.05
NO_PROXY = urllib.request.ProxyHandler({})  # the server is on this machine, whatever the environment has for others
PORT_ATTEMPTS = 5

COMPONENTS_FIRST = ("etcd", "apiserver")


class ApiError(RuntimeError):
    """The API server refused a request."""

    def __init__(self, *, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message


class Cluster:
    """One cluster under one directory. Everything it knows is in the directory, so that `attach` can take over."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._state = cluster_state.State.read(directory / cluster_state.FILE)
        self._guard: cluster_guard.Guard | None = None
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
        heartbeat_seconds: float = 10.0,
        controller_manager_flags: Sequence[str] = (),
        address: str = cluster_plan.LOOPBACK,
    ) -> Cluster:
        """Starts a cluster in a new or empty directory and returns when its nodes take pods.

        `seed` decides the addresses of the pods; the directory's path by default. `controller_manager_flags` come
        last. The API server listens on `address`: pods of real nodes reach no loopback address of ours. A test that
        loses a node need not wait for 50 s: `heartbeat_seconds=1` together with `--node-monitor-grace-period=5s` and
        `--node-monitor-period=1s`; the grace must be several heartbeats.
        """
        binaries = cluster_binaries.build()
        absolute = Path(directory).absolute()
        absolute.mkdir(parents=True, exist_ok=True)
        absolute.chmod(0o700)  # tokens and kubeconfigs of an administrator lie in it
        if (absolute / cluster_state.FILE).exists():
            raise ClusterError(
                f"{absolute} holds a cluster already; stop it first: cluster.py down --directory {absolute}"
            )
        for attempt in range(PORT_ATTEMPTS):
            plan = cluster_plan.Plan(
                directory=absolute,
                binaries=binaries,
                ports=cluster_plan.free_ports(),
                audit_log=audit_log,
                controller_manager_flags=tuple(controller_manager_flags),
                address=address,
            )
            plan.write_files()
            state = cluster_state.State(
                server=plan.server,
                seed=seed or str(absolute),
                heartbeat_seconds=heartbeat_seconds,
                processnode=str(binaries.processnode),
                components=plan.components(),
            )
            state.write(absolute / cluster_state.FILE)
            cluster = cls(absolute)
            try:
                if not detached:
                    cluster._guard = cluster_guard.Guard.start(absolute)
                cluster._bring_up(nodes=nodes, images=images or {})
                return cluster
            except _PortTakenError:
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
        if not (absolute / cluster_state.FILE).exists():
            raise ClusterError(f"no cluster in {absolute}; start one: cluster.py up --directory {absolute}")
        return cls(absolute)

    def stop(self) -> None:
        """Ends every process of the cluster and of its pods, and removes all but the logs. Twice is once."""
        if (self.directory / cluster_state.FILE).exists():
            self._find_unnoted()
            # Nodes first: SIGTERM tells a process node that its machine goes down, so it ends its pods.
            node_programs = [
                component for component in self._state.components if cluster_nodes.is_node_program(component.name)
            ]
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
            [self.program("kubectl"), *arguments],
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
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        timeout_seconds: float = REQUEST_TIMEOUT_SECONDS,
    ) -> Any:
        """One request as administrator; the parsed answer. A refusal is an ApiError."""
        with self._open(method, path, body, content_type=content_type, timeout_seconds=timeout_seconds) as response:
            content = response.read().decode()
        return json.loads(content) if content.startswith(("{", "[")) else content

    def watch(self, path: str, *, timeout_seconds: float) -> Iterator[Any]:
        """The events of a watch as administrator, as they come; ends when the server ends it.

        The request is under way when this returns: what is created afterwards will be seen.
        """
        separator = "&" if "?" in path else "?"
        response = self._open("GET", f"{path}{separator}watch=1", timeout_seconds=timeout_seconds)
        return (json.loads(line) for line in response)

    def kubeconfig_for_service_account(self, namespace: str, name: str, *, lifetime_seconds: int = 86_400) -> Path:
        """A kubeconfig with a token of that ServiceAccount: whoever uses it has its permissions and no others."""
        answer = self.request(
            "POST",
            f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {"expirationSeconds": lifetime_seconds},
            },
        )
        path = self.directory / "kubeconfigs" / f"{namespace}-{name}.kubeconfig"
        user = {"token": answer["status"]["token"]}
        cluster_plan.write_kubeconfig(
            path, server=self.server, authority=self._authority(), user=user, namespace=namespace
        )
        return path

    def kubeconfig_for_user(self, user: str, *, groups: Sequence[str] = ()) -> Path:
        """A kubeconfig that acts as any user, by impersonation."""
        path = self.directory / "kubeconfigs" / f"user-{user.replace('/', '-').replace(':', '-')}.kubeconfig"
        impersonation: dict[str, Any] = {"token": self._token(), "as": user, "as-groups": list(groups)}
        cluster_plan.write_kubeconfig(path, server=self.server, authority=self._authority(), user=impersonation)
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
        old = {component.name for component in self._state.components if cluster_nodes.is_node_program(component.name)}
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

    def add_node(self, node: Node, *, images: Mapping[str, Image]) -> None:
        """One more node, in a program of its own; a Node of its name that exists, as an autoscaler's, is taken over."""
        own = dataclasses.replace(node, program=f"{cluster_nodes.DEFAULT_PROGRAM}-{node.name}")
        self._write_node_configs(nodes=[own], images=images)
        self._run(own.program)

    def power_off(self, name: str) -> None:
        """The machine of `add_node` goes with all its pods, and says nothing; its Node stays where it is there."""
        program = f"{cluster_nodes.DEFAULT_PROGRAM}-{name}"
        component = self._component(program)
        self._signal(component, signal.SIGTERM)
        self._end(component, patience_seconds=STOP_TIMEOUT_SECONDS)
        self._forget(program)

    # --- inside ---------------------------------------------------------------------------------------

    def _open(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        timeout_seconds: float,
    ) -> Any:
        """An open response; the caller reads it. A refusal is an ApiError."""
        request = urllib.request.Request(  # noqa: S310 - the address is our own server's
            self.server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token()}", "Content-Type": content_type},
        )
        own = urllib.request.HTTPSHandler(context=self._tls_context())
        try:
            return urllib.request.build_opener(NO_PROXY, own).open(request, timeout=timeout_seconds)
        except urllib.error.HTTPError as error:
            raise ApiError(status=error.code, message=error.read().decode(errors="replace")) from error

    def _bring_up(self, *, nodes: Sequence[Node], images: Mapping[str, Image]) -> None:
        for name in COMPONENTS_FIRST:
            self._run(name)
        self._wait(self._is_serving, what="the API server", watched=COMPONENTS_FIRST)
        for component, user in cluster_plan.USERS.items():
            cluster_plan.write_kubeconfig(
                self.directory / f"{component}.kubeconfig",
                server=self.server,
                authority=self._authority(),
                user={"token": self._token(user)},
            )
        for name in ("controller-manager", "scheduler"):
            self._run(name)
        self.configure(nodes=nodes, images=images)

    def _write_node_configs(self, *, nodes: Sequence[Node], images: Mapping[str, Image]) -> set[str]:
        programs = {node.program for node in nodes}
        usable = sorted(os.sched_getaffinity(0))
        for program in programs:
            if program != cluster_nodes.DEFAULT_PROGRAM and not cluster_nodes.is_node_program(program):
                raise ClusterError(f"node program {program!r} must be called processnode or processnode-SOMETHING")
            config = {
                "kubeconfig": str(self.directory / "processnode.kubeconfig"),
                "stateDir": str(self.directory / "pods"),
                "seed": self._state.seed,
                "images": {name: image.config() for name, image in images.items()},
                "heartbeatSeconds": self._state.heartbeat_seconds,
                "nodes": [node.config(usable) for node in nodes if node.program == program],
            }
            path = self.directory / f"{program}.json"
            path.write_text(json.dumps(config, indent=1), encoding="utf-8")
            argv = (self._state.processnode, "--config", str(path))
            if program not in self.components():
                self._remember(cluster_state.Component(name=program, argv=argv))
        return programs

    def _is_serving(self) -> bool:
        self._tls = None  # the certificate may have been read while it was being written
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
            raise _PortTakenError(f"{name}: a port was taken while the cluster started")
        raise ClusterError(f"{name} ended by itself; the end of {self.logs / (name + '.log')}:\n{text[-2000:]}")

    def _component(self, name: str) -> cluster_state.Component:
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

    def _remember(self, component: cluster_state.Component) -> None:
        others = tuple(other for other in self._state.components if other.name != component.name)
        self._state = dataclasses.replace(self._state, components=(*others, component))
        self._state.write(self.directory / cluster_state.FILE)

    def _find_unnoted(self) -> None:
        """Notes processes that a killed starter had no time to note."""
        for component in self._state.components:
            if self.pid(component.name) is None and (found := cluster_processes.find(component.argv)) is not None:
                self._remember(dataclasses.replace(component, identity=found))

    def _forget(self, name: str) -> None:
        kept = tuple(component for component in self._state.components if component.name != name)
        self._state = dataclasses.replace(self._state, components=kept)
        self._state.write(self.directory / cluster_state.FILE)

    def _signal(self, component: cluster_state.Component, number: signal.Signals) -> None:
        if component.identity is not None:
            cluster_processes.send(component.identity, number)

    def _end(self, component: cluster_state.Component, *, patience_seconds: float) -> None:
        identity = component.identity
        if identity is None or cluster_processes.wait_gone(identity, timeout_seconds=patience_seconds):
            return
        cluster_processes.send(identity, signal.SIGKILL)
        if not cluster_processes.wait_gone(identity, timeout_seconds=STOP_TIMEOUT_SECONDS):
            raise ClusterError(f"{component.name} (process {identity.pid}) does not end, not even by SIGKILL")

    def _sweep_pods(self) -> None:
        for config in sorted(self.directory.glob(f"{cluster_nodes.DEFAULT_PROGRAM}*.json")):
            program = self._state.processnode
            subprocess.run([program, "--config", str(config), "--sweep"], check=True, timeout=STOP_TIMEOUT_SECONDS)

    def program(self, name: str) -> str:
        """The path of a built program, for instance kubectl."""
        return str(Path(self._component("apiserver").argv[0]).parent / name)

    def _token(self, user: str = "admin") -> str:
        lines = (self.directory / "tokens.csv").read_text(encoding="ascii").splitlines()
        return next(line.split(",")[0] for line in lines if line.split(",")[1] == user)

    def _authority(self) -> str:
        return (self.directory / "certificates" / "apiserver.crt").read_text(encoding="ascii")

    def _tls_context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context(cadata=self._authority())
        return self._tls


class _PortTakenError(ClusterError):
    """Somebody took a port between our look and the component's start: try again with others."""


def _takes_pods(node: Mapping[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions", [])
    taints = node.get("spec", {}).get("taints", [])
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and not any(taint["key"] == "node.kubernetes.io/not-ready" for taint in taints)


def _remove_all_but_logs(directory: Path) -> None:
    for path in directory.iterdir():
        if path.name in ("logs", cluster_state.FILE):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    (directory / cluster_state.FILE).unlink()  # last: as long as it is there, there is something to stop


if __name__ == "__main__":
    import cluster_cli  # which imports this very file as a module: a script cannot be imported by its own name

    sys.exit(cluster_cli.main())
