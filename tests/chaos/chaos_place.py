# SPDX-License-Identifier: Apache-2.0
"""Where the faults strike: the embedded cluster, the proxy, the operator behind it, and gpubench's objects on it.

Everything here belongs to one thread, that of the run; only the proxy has its own. What may not happen here: a decision
about what is to be broken next.
"""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import yaml

import chaos_operator
import cluster_processes
import installation
import stand_in_worker
import studies
from chaos_proxy import Proxy
from cluster import ApiError, Cluster, Image, Node
from gpubench import names
from gpubench.plan import expand
from gpubench_cluster import kube

TENANTS = ("chaos", "guests")  # namespaces whose benchmarks share the pools
NAMESPACE = TENANTS[0]
REPLICAS = 2  # of the operator: one leads, the other stands by
REAL_POOL = "real"
STAND_IN_POOLS = ("left", "right")
NODES_PER_POOL = 2
REAL_IMAGE = "gpubench-jobs:real"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
#: An API server that is being restarted, or waits for etcd, refuses or does not answer: that is no error here.
CONTROLLERS = ("controller-manager", "scheduler")
AWAY = (OSError, http.client.HTTPException, ApiError)
_AWAY_CODES = frozenset({401, 403, 408, 409, 410, 429})
_RETRY_SECONDS = 120.0
#: As short as the operator allows, or a Lease would be most of what is waited for; requests may not outlast it by much.
SETTINGS = {
    "GPUBENCH_LEASE_SECONDS": "6",
    "GPUBENCH_LEASE_RENEW_SECONDS": "5",
    "GPUBENCH_LEASE_RETRY_SECONDS": "0.5",
    "GPUBENCH_REQUEST_SECONDS": "6",
    "GPUBENCH_NODE_POLL_SECONDS": "5",
    "GPUBENCH_RESYNC_SECONDS": "60",
}
#: Soon, as for a test: a node is NotReady after 12 seconds, and its pods are evicted five seconds later.
HEARTBEAT_SECONDS = 2.0
_NODE_LIFECYCLE = ("--node-monitor-grace-period=12s", "--node-monitor-period=1s")
_OUT_OF_ORDER = tuple(
    {"key": f"node.kubernetes.io/{why}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    for why in ("not-ready", "unreachable")
)


class Attempt(NamedTuple):
    """One attempt, as logs and ledger name it."""

    benchmark: str
    trial: str
    attempt: int


class Gang(NamedTuple):
    """A pod of a gang that runs."""

    attempt: Attempt
    namespace: str
    pod_index: int
    pod: str
    uid: str
    node: str
    pool: str
    job: str


class LogLine(NamedTuple):
    """One event of the operator's log, and which of its processes said it."""

    read_at: float  # by our own clock: the operator's may be stepped
    fields: Mapping[str, Any]


class OperatorProcess(installation.Operator):
    """A replica, with the clock that can be stepped, started again whenever it has ended: what a Deployment does."""

    def __init__(self, kubeconfig: Path, *, log: Path, clock_offset: Path) -> None:
        super().__init__(kubeconfig, log=log, settings={**SETTINGS, chaos_operator.OFFSET_FILE: str(clock_offset)})
        self.program = (chaos_operator.__file__,)
        self._clock_offset = clock_offset
        self.ended_by_itself = 0
        self.starts = 0
        self._read = 0
        self._of_this_life = 0  # the first line of the process that runs
        self.lines: list[LogLine] = []
        self.exceptions: list[str] = []

    def start(self, *, wait: bool = True) -> None:
        if self.starts:
            self.read_log()
        self._of_this_life = len(self.lines)
        self.starts += 1
        super().start(wait=wait)

    def supervise(self) -> None:
        """Start it again if it has ended, and read what it has said."""
        if self.has_ended():
            self.ended_by_itself += 1
            self.start(wait=False)
        self.read_log()

    def kill_and_start(self) -> None:
        self.kill()
        self.start(wait=False)

    def step_clock(self, seconds: float) -> None:
        beside = self._clock_offset.with_suffix(".new")
        beside.write_text(f"{seconds:.3f}", encoding="ascii")
        beside.replace(self._clock_offset)

    def read_log(self) -> None:
        with self.log.open("rb") as log:
            log.seek(self._read)
            whole, newline, _ = log.read().rpartition(b"\n")
        self._read += len(whole) + len(newline)
        now = time.monotonic()
        for line in whole.decode(errors="replace").splitlines():
            try:
                fields = json.loads(line)
            except ValueError:
                if line.startswith("Traceback"):
                    self.exceptions.append(line)
                continue
            self.lines.append(LogLine(read_at=now, fields=fields))
            if "exception" in fields:
                self.exceptions.append(f"{fields['time']} {fields['event']}: {fields['exception']}")

    def said_at(self, event: str) -> float:
        """When the process that runs first said so; 0 where it has not."""
        lines = self.lines[self._of_this_life :]
        return next((line.read_at for line in lines if line.fields.get("event") == event), 0.0)

    def count(self, event: str) -> int:
        return sum(line.fields.get("event") == event for line in self.lines)

    def ended(self, attempts: frozenset[Attempt], *, since: float) -> Mapping[str, Any] | None:
        """What the operator said of the end of one of these attempts."""
        for line in reversed(self.lines):
            if line.read_at < since:
                return None
            fields: Mapping[str, Any] = line.fields
            if fields.get("event") == "attempt ended" and _attempt_of(fields) in attempts:
                return fields
        return None


def _attempt_of(fields: Mapping[str, Any]) -> Attempt:
    return Attempt(
        benchmark=str(fields.get("benchmark")), trial=str(fields.get("trial")), attempt=int(fields["attempt"])
    )


class Place:
    """Cluster, proxy and operator of one run."""

    def __init__(self, cluster: Cluster, proxy: Proxy, operators: tuple[OperatorProcess, ...], *, folder: Path) -> None:
        self.cluster = cluster
        self.proxy = proxy
        self.operators = operators
        self.folder = folder
        self.down: set[str] = set()  # nodes and controllers that a fault has taken, until it gives them back
        self.struck_at: dict[str, float] = {}  # by benchmark: when a fault last struck one of its attempts
        #: While the API server is waited for: what has to go on, for instance the step that starts it again.
        self.meanwhile: Callable[[], None] = self.supervise

    def supervise(self) -> None:
        """What a Deployment does for the operator, and a kubelet for controllers: start again what has ended.

        The controller-manager ends by itself when the API server is not healthy within ten seconds of its start.
        """
        for operator in self.operators:
            operator.supervise()
        for component in CONTROLLERS:
            if component not in self.down and self.cluster.pid(component) is None:
                self.cluster.restart(component, wait=False)

    @property
    def leader(self) -> OperatorProcess:
        """The replica that was the last to say that it leads."""
        return max(self.operators, key=lambda one: one.said_at("leading"))

    def leaderships(self) -> int:
        """How often one of them has begun to lead."""
        return sum(one.count("leading") for one in self.operators)

    def ended(self, attempts: frozenset[Attempt], *, since: float) -> Mapping[str, Any] | None:
        """What a replica said of the end of one of these attempts."""
        return next((found for one in self.operators if (found := one.ended(attempts, since=since))), None)

    # --- asking, also while the API server is away --------------------------------------------------------

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Any:
        """One request as administrator; None where there is no such object. Tried again while the server is away."""
        deadline = time.monotonic() + _RETRY_SECONDS
        while True:
            try:
                return self.cluster.request(method, path, body, content_type=content_type, timeout_seconds=10.0)
            except AWAY as error:
                code = error.status if isinstance(error, ApiError) else None
                if code == 404:
                    return None
                if (code is not None and code < 500 and code not in _AWAY_CODES) or time.monotonic() > deadline:
                    raise
                if code == 409 and method == "POST":
                    return None  # it exists: an earlier try got through
            self.meanwhile()
            time.sleep(0.3)

    def all(self, resource: kube.Resource, *, labels: Mapping[str, str]) -> list[kube.Object]:
        """All objects of a kind with these labels, whoever's they are."""
        selector = ",".join(f"{key}%3D{value}" for key, value in labels.items())
        found = self.ask("GET", f"{resource.path()}?labelSelector={selector}")
        items: list[kube.Object] = found["items"]
        return items

    def gangs(self, pools: tuple[str, ...]) -> list[Gang]:
        """Pods of gangs that run on nodes in order, sorted by what a seed can know: studies, trials, attempts."""
        listed = self.all(kube.PODS, labels={names.LABEL_COMPONENT: names.COMPONENT_GANG})
        found = [_gang(pod) for pod in listed if _is_running(pod)]
        return sorted(one for one in found if one.pool in pools and one.node not in self.down)

    def pod_folder(self, gang: Gang) -> Path:
        """Where the node keeps the pod's files."""
        return self.cluster.directory / "pods" / gang.node / gang.uid

    def shim(self, gang: Gang) -> psutil.Process | None:
        """The parent of the pod's processes; None when they have ended."""
        try:
            started = json.loads((self.pod_folder(gang) / "started.json").read_text(encoding="utf-8"))
            process = psutil.Process(int(started["shimPid"]))
            return process if "shim" in process.cmdline() else None
        except (OSError, ValueError, psutil.Error):
            return None

    # --- nodes --------------------------------------------------------------------------------------------

    def change_node(self, name: str, change: dict[str, Any]) -> None:
        self.ask("PATCH", kube.NODES.path(name=name), change, content_type=MERGE_PATCH)

    def taint(self, node: str, *, key: str, effect: str | None) -> None:
        """Set a taint, or remove it; those of others stay."""
        for _ in range(20):
            body = self.ask("GET", kube.NODES.path(name=node))
            if body is None:
                return
            taints = [one for one in body["spec"].get("taints") or () if one["key"] != key]
            if effect is not None:
                taints.append({"key": key, "value": "true", "effect": effect})
            change = {"metadata": {"resourceVersion": kube.version_of(body)}, "spec": {"taints": taints}}
            try:
                self.cluster.request("PATCH", kube.NODES.path(name=node), change, content_type=MERGE_PATCH)
            except AWAY:  # somebody else's taint came between, or the server is away
                time.sleep(0.2)
                continue
            return

    def stop_node_program(self, node: str, number: signal.Signals) -> None:
        """SIGKILL: the kubelet crashes, pods run on. SIGTERM: the machine goes off with everything on it."""
        program = node_program(node)
        self.cluster.kill(program, number)
        deadline = time.monotonic() + 15.0
        while self.cluster.pid(program) is not None and time.monotonic() < deadline:
            time.sleep(0.05)

    def start_node_program(self, node: str) -> None:
        """A kubelet that starts registers its node again if it is gone."""
        self.cluster.restart(node_program(node), wait=False)


def node_program(node: str) -> str:
    return f"processnode-{node}"


def _is_running(pod: kube.Object) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _gang(pod: kube.Object) -> Gang:
    metadata, labels = pod["metadata"], pod["metadata"]["labels"]
    return Gang(
        attempt=Attempt(
            benchmark=labels[names.LABEL_BENCHMARK],
            trial=labels[names.LABEL_TRIAL],
            attempt=int(labels[names.LABEL_ATTEMPT]),
        ),
        namespace=metadata["namespace"],
        pod_index=int(labels["batch.kubernetes.io/job-completion-index"]),
        pod=metadata["name"],
        uid=metadata["uid"],
        node=pod["spec"]["nodeName"],
        pool=labels[names.LABEL_POOL],
        job=metadata["ownerReferences"][0]["name"],
    )


# --- bringing it up ---------------------------------------------------------------------------------------


@contextmanager
def brought_up(folder: Path, *, with_real: bool) -> Iterator[Place]:
    """Everything started and installed; everything stopped in the end."""
    nodes = _nodes(with_real=with_real)
    images = {
        expand.DEFAULT_IMAGE: stand_in_image(folder),
        REAL_IMAGE: Image(path=(Path(sys.executable).parent,), env=_python_path()),
    }
    with Cluster.start(
        folder / "cluster",
        nodes=nodes,
        images=images,
        heartbeat_seconds=HEARTBEAT_SECONDS,
        controller_manager_flags=_NODE_LIFECYCLE,
    ) as cluster:
        kubeconfig = installation.install(cluster)
        authority = (cluster.directory / "certificates" / "apiserver.crt").read_text(encoding="ascii")
        proxy = Proxy(cluster.server, authority=authority, doors=REPLICAS)
        proxy.start()
        operators = tuple(
            OperatorProcess(
                through_proxy(kubeconfig, address, folder / f"operator-{n}.kubeconfig"),
                log=folder / f"operator-{n}.log",
                clock_offset=folder / f"clock-offset-{n}",
            )
            for n, address in enumerate(proxy.addresses)
        )
        try:
            for operator in operators:
                operator.start()
            place = Place(cluster, proxy, operators, folder=folder)
            _prepare(place, with_real=with_real)
            yield place
        finally:
            for operator in operators:
                operator.kill()
            proxy.stop()


def stand_in_image(folder: Path) -> Image:
    """An image whose `python` runs the stand-in, whatever it is asked to run."""
    programs = folder / "stand-in"
    programs.mkdir()
    program = programs / "python"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{Path(stand_in_worker.__file__)}"\n', encoding="ascii")
    program.chmod(0o755)
    return Image(path=(programs, "/usr/bin", "/bin"), env=_python_path())


def _python_path() -> dict[str, str]:
    """Pods inherit nothing; what this checkout's code is found by, they must be given."""
    return {name: value for name, value in os.environ.items() if name == "PYTHONPATH"}


def _nodes(*, with_real: bool) -> list[Node]:
    """One program each, so that a node can be lost alone. Only real ranks need processors of their own."""
    usable = len(os.sched_getaffinity(0))
    found = []
    for pool in (*STAND_IN_POOLS, *((REAL_POOL,) if with_real else ())):
        for number in range(NODES_PER_POOL):
            name = f"{pool}-{number}"
            labels = {"pool": pool, names.LABEL_INSTANCE_TYPE: f"{pool}.large", names.LABEL_ZONE: f"zone-{number}"}
            cores = (number % usable,) if pool == REAL_POOL else ()
            found.append(Node(name=name, labels=labels, cores=cores, program=node_program(name)))
    return found


def through_proxy(kubeconfig: Path, address: str, path: Path) -> Path:
    """The same account, by another way."""
    content = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    content["clusters"][0]["cluster"] = {"server": address}
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    path.chmod(0o600)
    return path


def _prepare(place: Place, *, with_real: bool) -> None:
    """The namespaces and the pools. A node that is out of order is left after five seconds, not after five minutes."""
    for tenant in TENANTS:
        place.ask("POST", "/api/v1/namespaces", {"metadata": {"name": tenant}})
    for pool in STAND_IN_POOLS:
        place.ask("POST", kube.POOLS.path(), _pool(pool, slot={"cpu": "500m", "memory": "64Mi"}))
    if with_real:
        template = {"image": REAL_IMAGE}
        place.ask("POST", kube.POOLS.path(), _pool(REAL_POOL, slot={"cpu": "1", "memory": "1Gi"}, template=template))


def _pool(name: str, **spec: Any) -> kube.Object:
    scheduling = {"nodeSelector": {"pool": name}, "tolerations": list(_OUT_OF_ORDER)}
    return studies.pool(name, maxNodes=NODES_PER_POOL, scheduling=scheduling, **spec)


def signal_process(process: psutil.Process, number: signal.Signals) -> bool:
    """Whether the process was there to be signalled."""
    identity = cluster_processes.identify(process.pid)
    if identity is None:
        return False
    cluster_processes.send(identity, number)
    return True


def as_of_git() -> str:
    """The commit under test, for whoever repeats a run."""
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=installation.REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or "no commit"
