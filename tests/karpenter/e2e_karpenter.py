# SPDX-License-Identifier: Apache-2.0
"""`make e2e-karpenter`: the real Karpenter beside the operator, and a line for each thing that must hold.

Karpenter's core and its kwok provider are built from `main.go` into the cache, and run as a process beside the embedded
cluster. Behind each Node that Karpenter makes, a node program runs pods. Machines are those of instance_types.yaml.
Ours are: the spot notice of a provider, the lack of stock, two gangs placed by hand. Each scenario has a namespace and
NodePools of its own, so that several run at once. Exit code 0 only if everything holds.
"""

import contextlib
import json
import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent import futures
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import command_line
import go_build
import installation
import referee
import studies
from cluster import ApiError, Cluster, Image, Node
from cluster_pods import wait_for
from gpubench import names
from gpubench.plan import expand
from gpubench_operator.settings import Settings

HERE = Path(__file__).resolve().parent
POOLS = installation.REPOSITORY / "jobs" / "examples" / "pools"
MACHINES: dict[str, Any] = yaml.safe_load((HERE / "instance_types.yaml").read_text())
NODES, KARPENTER = "/api/v1/nodes", "karpenter.sh/v1"
KWOK = "karpenter.kwok.sh"
NODE_CLASS = {"group": KWOK, "kind": "KWOKNodeClass", "name": "default"}
STARTS = {"apiVersion": f"{KWOK}/v1alpha1", "kind": "KWOKNodeClass", "metadata": {"name": "default"}}
GPU, RENTED = "nvidia.com/gpu", "karpenter.sh/capacity-type"
TAINT = {"key": GPU, "value": "true", "effect": "NoSchedule"}
STEP_SECONDS, AT_ONCE = 240.0, 7
JOB_TTL_SECONDS = 120
INDEX = "batch.kubernetes.io/job-completion-index"


def build() -> tuple[Path, list[Path]]:
    """Karpenter's program, and the folders of its CRDs."""
    program = referee.built("karpenter", module=HERE, sources=[HERE / "main.go"], package=".")
    command = [go_build.find_go(), "mod", "download", "-json", "sigs.k8s.io/karpenter"]
    asked = subprocess.run(command, cwd=HERE, env=go_build.environment(), capture_output=True, text=True, check=True)
    module = Path(json.loads(asked.stdout)["Dir"])
    return program, [module / "pkg/apis/crds", module / "kwok/apis/crds"]


def instance_types() -> Iterator[dict[str, Any]]:
    """As the kwok provider reads them. It takes off an overhead, which the published figures are without already."""
    for name, facts in MACHINES.items():
        cpu, memory = (int(facts["resources"][key].rstrip("Mim")) for key in ("cpu", "memory"))
        yield {
            "name": name,
            "architecture": "amd64",
            "operatingSystems": ["linux"],
            "resources": {**facts["resources"], "cpu": f"{cpu + 100}m", "memory": f"{memory + 10}Mi"},
            "offerings": [
                {
                    "Price": facts["perHour"] * share,
                    "Requirements": _required({RENTED: [rented], names.LABEL_ZONE: [zone]}),
                }
                for rented, share in (("on-demand", 1.0), ("spot", 0.4))
                for zone in ("us-east-1a", "us-east-1b")
            ],
            "labels": {f"karpenter.k8s.aws/instance-gpu-{key}": value for key, value in facts["gpu"].items()},
        }


def _required(wanted: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    return [{"key": key, "operator": "In", "values": [*values]} for key, values in wanted.items()]


class Machines(threading.Thread):
    """A machine behind each Node that Karpenter has made, for as long as that is there."""

    def __init__(self, cluster: Cluster, images: dict[str, Image]) -> None:
        super().__init__(daemon=True)
        self._cluster, self._images = cluster, images
        self.held: set[str] = set()  # of these scenarios they are not ready yet
        self.off: set[str] = set()  # switched off, whatever the Node says
        self._on: set[str] = set()
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(0.3):
            with contextlib.suppress(ApiError, OSError):
                self._look()

    def _look(self) -> None:
        nodes = {one["metadata"]["name"]: one for one in self._cluster.request("GET", NODES)["items"]}
        for name in sorted(self._on - (nodes.keys() - self.off)):
            self._cluster.power_off(name)
            self._on.remove(name)
        for name, node in nodes.items():
            labels = node["metadata"]["labels"]
            if "karpenter.sh/nodepool" not in labels or name in self._on | self.off:
                continue
            if labels.get("scenario") not in self.held:
                offers = MACHINES[labels[names.LABEL_INSTANCE_TYPE]]["resources"]
                self._cluster.add_node(Node(name=name, capacity=offers), images=self._images)
                self._on.add(name)


class Place(referee.Place):
    """With what Karpenter is told, and the machines behind its nodes."""

    STEP_SECONDS = STEP_SECONDS

    def __init__(self, cluster: Cluster, machines: Machines, folder: Path, name: str) -> None:
        super().__init__(cluster, name)
        self.machines, self.folder = machines, folder

    def node_pool(
        self, *types: str, rented: Sequence[str] = ("on-demand",), limit: int = 8, after: str = "Never", **spec: Any
    ) -> None:
        """One more; all of a scenario are one to its GpuPools."""
        requirements = _required({RENTED: rented, names.LABEL_INSTANCE_TYPE: types})
        spec = {"nodeClassRef": NODE_CLASS, "taints": [TAINT], "requirements": requirements, **spec}
        whole = {
            "limits": {GPU: str(limit)},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": after},
            "template": {"metadata": {"labels": {"scenario": self.name}}, "spec": spec},
        }
        metadata = {"name": f"{self.name}-{types[0].replace('.', '-')}"}
        self.apply({"apiVersion": KARPENTER, "kind": "NodePool", "metadata": metadata, "spec": whole})

    def pool(self, name: str = "", **spec: Any) -> None:
        today = datetime.now(UTC).date().isoformat()
        whole = {
            "accelerator": "L4",
            "slot": {"gpuResource": GPU, "cpu": "3", "memory": "11Gi"},
            "price": {"perNodeHour": "1", "currency": "USD", "asOf": today},
            "scheduling": {
                "nodeSelector": {"scenario": self.name},
                "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
            },
        }
        self.apply(studies.pool(name or self.name, **(whole | spec)))

    def benchmark(
        self,
        name: str = "quick",
        *,
        workers: int = 1,
        seconds: int = 2,
        timeout: str = "5m",
        more: Any = None,
        **sweep: Any,
    ) -> None:
        """One point, once."""
        point = {"workloads": ["mnist_cnn"], "pools": [self.name], "workers": [workers], "batchPerWorker": [64]}
        env = [{"name": "STAND_IN_SECONDS", "value": str(seconds)}]
        whole = {"limits": {"schedulingTimeout": timeout}, "template": {"env": env}, "sweep": [point | sweep]}
        self.apply(studies.benchmark(name, namespace=self.name, repeats=1, **(whole | (more or {}))))

    def gang(self, *types: str, nodes: Any = None, pool: Any = None, **benchmark: Any) -> None:
        """A NodePool, a GpuPool and a benchmark of it."""
        self.node_pool(*types, **(nodes or {}))
        self.pool(**(pool or {}))
        self.benchmark(**benchmark)

    # --- what is read ---

    def nodes(self) -> list[Any]:
        return list(self.cluster.request("GET", f"{NODES}?labelSelector=scenario={self.name}")["items"])

    def lead(self) -> str:
        """Why a gang has no nodes, up to the scheduler's words, which are the same whatever the reason is."""
        return re.split(r"(scheduler: )?0/\d+ nodes are available", self.condition("GangPending"))[0]

    def state(self) -> str:
        return self.ended()

    def ended(self, name: str = "quick") -> str:
        """Counts, and how it ended, or what it waits for."""
        status = self.status(name)
        word = self.condition("Finished", name) if status.get("phase") in ("Succeeded", "Failed") else self.lead()
        types = {one.get("instanceType") for one in status.get("environments") or ()}
        points = [one["reason"] for one in status.get("results") or () if "reason" in one]
        return (
            f"{status.get('phase')} {json.dumps(status.get('attempts'))} on {types or 'nothing'}; {word} {points or ''}"
        )

    def finish(self, name: str = "quick") -> None:
        self.until(lambda: "True" in self.condition("Finished", name), "Finished")

    def warning_events(self) -> str:
        found = (
            one
            for one in self.objects("/api/v1", "events")
            if one["involvedObject"].get("kind") == names.BENCHMARK_KIND
        )
        return "; ".join(f"{one['reason']}: {one['message']}" for one in found if one["type"] == "Warning") or "none"

    def gpubench(self, *arguments: str) -> command_line.Ended:
        environment = {"KUBECONFIG": str(self.cluster.kubeconfig)}
        return command_line.apart(*arguments, seconds=STEP_SECONDS, environment=environment)

    def doctor(self) -> str:
        """What doctor says of this scenario's pools and nodes."""
        found = json.loads(self.gpubench("doctor", "-o", "json").stdout)
        own = (one for one in found if self.name in json.dumps(one))
        return "; ".join(f"{one['state']} {one['area']}: {one['says']} -> {one.get('remedy')}" for one in own)

    def pods(self, of: str = "") -> list[Any]:
        """Those that are not told to end, of one benchmark or of all."""
        found = (one for one in self.objects("/api/v1", "pods") if "deletionTimestamp" not in one["metadata"])
        return [one for one in found if of in ("", one["metadata"]["labels"][names.LABEL_BENCHMARK])]


# --- the scenarios ----------------------------------------------------------------------------------------------------


def examples(at: Place) -> None:
    node_pools, pools = (
        [*yaml.safe_load_all((POOLS / name).read_text())] for name in ("karpenter/nodepools.yaml", "karpenter.yaml")
    )
    for body in node_pools:
        body["spec"]["template"]["spec"]["nodeClassRef"] = NODE_CLASS
    at.apply(*node_pools, *pools)
    for pool in pools:
        name, spec = pool["metadata"]["name"], pool["spec"]
        at.benchmark(name, pools=[name], workers=spec["slotsPerNode"])
        machine = re.escape(spec["scheduling"]["nodeSelector"][names.LABEL_INSTANCE_TYPE])
        at.holds(f"{name} from zero", partial(at.ended, name), "^Succeeded", machine, seconds=STEP_SECONDS)


def limit_reached(at: Place) -> None:
    at.gang("g6.xlarge", nodes={"limit": 1}, workers=2)
    at.holds("limit of the NodePool", at.lead, "exceed limits", "NodePool=limit-reached-")


def huge_pages(at: Place) -> None:
    """Karpenter says of each NodePool why it is none for the pod, and of one at its limit nothing but that."""
    at.node_pool("g4dn.xlarge", limit=0)
    at.gang("g6.xlarge", pool={"nodeResources": {"hugepages-2Mi": "5120Mi"}})
    at.holds(
        "no machine has huge pages", at.lead, "no instance type", "hugepages-2Mi", but="NodeLimit|raise that limit"
    )


def starting(at: Place) -> None:
    at.machines.held.add(at.name)
    at.gang("g6.xlarge")
    at.until(at.nodes, "a Node")
    at.holds("a node is being made", at.lead, "being made|being prepared", "nodeclaim/")
    at.holds("doctor: it is no failure", at.doctor, at.name, but="failed")

    def proposed() -> str:
        found = at.gpubench("pools", "discover", "--all").stdout.split("---\n")
        return " ".join(one for one in found if at.name in one) or "no pool of it"

    at.holds("discover proposes no pool of that one node", proposed, ".", but="hostname: ")
    at.holds("it is no Warning", at.warning_events, "^none$", seconds=0)
    at.machines.held.remove(at.name)
    at.holds("and then it is measured", at.ended, "^Succeeded", seconds=STEP_SECONDS)


def sold_out(at: Place) -> None:
    sold = at.folder / "stock-out"
    sold.write_text("g5.2xlarge on-demand\n")
    at.gang("g5.2xlarge", pool={"accelerator": "A10G"}, timeout="40s")
    words = "[Ii]nsufficient|out of stock|StockOut"
    at.holds("out of stock", at.lead, words, but="NodeLimit|raise that limit|compare the pool")
    with contextlib.suppress(AssertionError):
        wait_for(lambda: "AttemptFailed" in at.warning_events(), what="a failed attempt", timeout_seconds=90)
    at.holds("longer than schedulingTimeout: no failed attempt", at.ended, '"failed": 0', seconds=0)
    sold.unlink()
    at.holds("back in stock: measured", at.ended, "^Succeeded", seconds=STEP_SECONDS)


def on_demand(at: Place) -> None:
    at.gang("g6.xlarge", nodes={"rented": ("spot", "on-demand")})
    at.finish()
    at.holds("on-demand pool that ran on spot: a warning", at.warnings, "[Ss]pot")
    at.holds("doctor says so", at.doctor, "[Ss]pot", seconds=0)


def wrong_gpu(at: Place) -> None:
    at.gang("g4dn.xlarge")
    at.finish()
    at.holds("pool of L4 that ran on T4: a warning", at.warnings, r"\bT4\b")
    at.holds("doctor says so", at.doctor, r"\bT4\b", seconds=0)


def mixed(at: Place) -> None:
    at.node_pool("g4dn.xlarge", limit=1)
    at.gang("g6.xlarge", nodes={"limit": 1}, workers=2)
    at.finish()
    at.holds("ranks on different machines: a warning", at.warnings, r"MachinesMixed|g4dn\.xlarge")


def spot_notice(at: Place) -> None:
    """Karpenter for AWS writes this Event and deletes the NodeClaim, two minutes before the machine is off."""
    size, of = {"storage": "1Gi"}, {"accessModes": ["ReadWriteMany"], "storageClassName": "manual"}
    volume, claim = {"capacity": size, "hostPath": {"path": str(at.folder)}}, {"resources": {"requests": size}}
    for kind, spec in (("PersistentVolume", volume), ("PersistentVolumeClaim", claim)):
        metadata = {"name": "runs", "namespace": at.name}
        at.apply({"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec | of})
    training = {"measure": {"mode": "Training"}, "checkpoint": {"volume": {"claimName": "runs"}, "interval": "1h"}}
    epochs = {"data": {"source": "Generated", "samples": 20_000}, "epochs": 1000}
    spot = {"nodes": {"rented": ["spot"]}, "pool": {"capacityType": "Spot"}}
    at.gang("g6.xlarge", **spot, workers=2, seconds=300, more=training, **epochs)
    is_running = lambda: [one["status"].get("phase") for one in at.pods()] == ["Running"] * 2  # noqa: E731
    at.until(is_running, "two pods that run")
    gang = {pod["metadata"]["uid"] for pod in at.pods()}
    name = at.pods()[0]["spec"]["nodeName"]
    about = {"apiVersion": "v1", "kind": "Node", "name": name}
    event = {
        "metadata": {"generateName": f"{name}.", "namespace": "default"},
        "involvedObject": about | {"uid": at.cluster.request("GET", f"{NODES}/{name}")["metadata"]["uid"]},
        "type": "Warning",
        "reason": "SpotInterrupted",
        "message": "Spot interruption warning was triggered",
        "source": {"component": "karpenter"},
        "lastTimestamp": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    at.cluster.request("POST", "/api/v1/namespaces/default/events", event)
    at.cluster.kubectl("delete", "nodeclaim", name, "--wait=false")  # a Node of our provider is called after its claim

    def told() -> str:
        left = gang & {pod["metadata"]["uid"] for pod in at.pods()}
        return f"{len(gang - left)} of 2 pods were told to end; {at.condition('GangPending')}"

    at.holds("SIGTERM reaches the gang before its node is off", told, "^2 of 2")
    at.machines.off.add(name)
    counted = lambda: json.dumps((at.status().get("attempts") or {}).get("interruptions"))  # noqa: E731
    at.holds("counted as reclaimed", counted, '"reclaimed": 1', seconds=STEP_SECONDS)


def each_node(at: Place) -> None:
    at.gang("g6.xlarge", nodes={"after": "20s"}, pool={"maxNodes": 3}, name="warm-up", workers=3)
    at.finish("warm-up")
    at.benchmark(seconds=75, timeout="15m", placement="EachNode")
    read = lambda: f"{at.ended()}; {at.warning_events()}"  # noqa: E731
    at.holds("trials of nodes that are gone end at once", read, "^(Fail|Succeed)", "is gone", seconds=STEP_SECONDS)


def idle_node(at: Place) -> None:
    """Both times of the example, by the same factor."""
    documented = next(yaml.safe_load_all((POOLS / "karpenter" / "nodepools.yaml").read_text()))
    minutes = int(documented["spec"]["disruption"]["consolidateAfter"].removesuffix("m"))
    after = JOB_TTL_SECONDS * 60 * minutes // Settings().job_ttl_seconds
    at.gang("g6.xlarge", nodes={"after": f"{after}s"})
    at.finish()

    def left() -> str:
        jobs, nodes = len(at.objects("/apis/batch/v1", "jobs")), len(at.nodes())
        return f"{nodes} nodes, {jobs} Jobs (consolidateAfter {after} s, Jobs stay {JOB_TTL_SECONDS} s)"

    at.holds("an idle node goes before its finished Job does", left, "^0 nodes, 1 Jobs", seconds=2 * JOB_TTL_SECONDS)


def expiry(at: Place) -> None:
    at.gang("g6.xlarge", nodes={"expireAfter": "40s", "terminationGracePeriod": "20s"}, seconds=200)
    at.holds("doctor: nodes expire sooner than a trial ends", at.doctor, "expire", seconds=0)
    read = lambda: f"{at.ended()}; {at.warning_events()}"  # noqa: E731
    at.holds("it ends after a few attempts, with that sentence", read, "^Failed", "expire", seconds=2 * STEP_SECONDS)


def pool_at_zero(at: Place) -> None:
    """Placement EachNode brings no node: it waits for those that another benchmark brings."""
    at.gang("g6.xlarge", placement="EachNode")
    at.holds("EachNode waits for a first node", partial(at.condition, "Progressing"), "WaitingForPools", "EachNode")
    at.benchmark("warm-up")
    at.holds("and measures it", at.ended, "^Succeeded", seconds=STEP_SECONDS)


def two_gangs(at: Place, *, pools: Sequence[str], seats: tuple[int, int]) -> None:
    """Each needs both nodes that the NodePool's limit allows, and has one, by its pod of that index."""
    at.machines.held.add(at.name)
    at.node_pool("g6.xlarge", limit=2)
    for pool in pools:
        at.pool(f"{at.name}{pool}", maxNodes=4)
    for name, pool in zip(("one", "two"), (pools[0], pools[-1]), strict=True):
        at.benchmark(name, pools=[f"{at.name}{pool}"], workers=2, timeout="60s")

    def registered() -> list[str]:
        found = [one["metadata"] for one in at.nodes() if "karpenter.sh/registered" in one["metadata"]["labels"]]
        return [one["name"] for one in found] if len(found) == 2 else []

    def seat(gang: str, index: int) -> list[str]:
        pods = (pod["metadata"] for pod in at.pods(of=gang))
        return [pod["name"] for pod in pods if pod["labels"][INDEX] == str(index)]

    nodes = at.until(registered, "two Nodes")
    for name, index, node in zip(("one", "two"), seats, nodes, strict=True):
        at.bind(at.until(partial(seat, name, index), "its pod")[0], node)
    at.machines.held.remove(at.name)
    both = lambda: f"one: {at.ended('one')}; two: {at.ended('two')}"  # noqa: E731
    words = (rf'{name}: Succeeded [^;]*"failed": [01],' for name in ("one", "two"))
    at.holds(
        "half of the nodes each: one has all after a time-out, then the other", both, *words, seconds=2 * STEP_SECONDS
    )


def _gangs(name: str, **variant: Any) -> Callable[[Place], None]:
    def scenario(at: Place) -> None:
        two_gangs(at, **variant)

    scenario.__name__ = name
    return scenario


SEATS = enumerate(((0, 0), (0, 1), (1, 1)))
TWO_GANGS = [
    _gangs(f"gangs_of_{len(pools)}_pools_{seed}", pools=pools, seats=seats)
    for seed, seats in SEATS
    for pools in (("",), ("-a", "-b"))
]
#: The longest first.
SCENARIOS: tuple[Callable[[Place], None], ...] = (
    *(expiry, each_node, *TWO_GANGS, idle_node, sold_out, spot_notice, examples),
    *(pool_at_zero, starting, mixed, on_demand, wrong_gpu, limit_reached, huge_pages),
)


@contextlib.contextmanager
def started(folder: Path) -> Iterator[tuple[Cluster, Machines]]:
    """The cluster, Karpenter and gpubench."""
    karpenter, definitions = build()
    (folder / "types.json").write_text(json.dumps([*instance_types()]))
    image = referee.stand_in_image(folder)
    system = Node(name="system-0", taints=("CriticalAddonsOnly=true:NoSchedule",), pretend=True)
    flags = ["--node-monitor-grace-period=16s", "--node-monitor-period=2s"]
    with contextlib.ExitStack() as stack:
        images = {expand.DEFAULT_IMAGE: image}
        cluster = stack.enter_context(
            Cluster.start(
                folder / "cluster", nodes=[system], images=images, heartbeat_seconds=3.0, controller_manager_flags=flags
            )
        )
        for definition in definitions:
            cluster.kubectl("apply", "--server-side", "-f", str(definition))
        for path in (
            f"/apis/{KARPENTER}/nodeclaims",
            f"/apis/{KARPENTER}/nodepools",
            f"/apis/{KWOK}/v1alpha1/kwoknodeclasses",
        ):
            installation.wait_until_served(cluster, path)
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(STARTS | {"spec": {"nodeRegistrationDelay": "3s"}}))
        environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "DISABLE_LEADER_ELECTION": "true",
            "METRICS_PORT": str(installation.free_port()),
            "HEALTH_PROBE_PORT": str(installation.free_port()),
            "INSTANCE_TYPES_FILE_PATH": str(folder / "types.json"),
            "STOCK_OUT": str(folder / "stock-out"),
        }
        log = stack.enter_context((folder / "karpenter.log").open("wb"))
        process = subprocess.Popen([*referee.DIES_WITH_US, str(karpenter)], env=environment, stdout=log, stderr=log)
        stack.callback(process.wait)
        stack.callback(process.terminate)
        machines = Machines(cluster, images)
        machines.start()
        stack.callback(machines.join)
        stack.callback(machines.ended.set)
        settings = {
            **installation.ALONE,
            "GPUBENCH_NODE_POLL_SECONDS": "2",
            "GPUBENCH_JOB_TTL_SECONDS": str(JOB_TTL_SECONDS),
        }
        stack.enter_context(installation.running_operator(cluster, log=folder / "operator.log", settings=settings))
        yield cluster, machines


def play(scenarios: Sequence[Callable[[Place], None]], folder: Path) -> bool:
    with started(folder) as (cluster, machines), futures.ThreadPoolExecutor(AT_ONCE) as pool:
        places = [Place(cluster, machines, folder, one.__name__) for one in scenarios]
        return all([*pool.map(Place.play, places, scenarios)])


if __name__ == "__main__":
    OPTIONS = referee.parser(__doc__).parse_args()
    referee.run("karpenter", OPTIONS.keep, partial(play, referee.chosen(SCENARIOS, OPTIONS.only)))
