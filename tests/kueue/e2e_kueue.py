# SPDX-License-Identifier: Apache-2.0
"""`make e2e-kueue KUEUE=FOLDER`: the real Kueue beside the operator, and a line for each thing that must hold.

FOLDER is Kueue's source. Its program is built into the cache and runs as a process beside the embedded cluster, with
its webhooks and the conversion of its CRDs at an address of the loopback interface. The operator runs under the
chart's ClusterRole, Kueue as administrator. Gangs are the stand-in worker, but for one training. Each scenario has a
namespace and a ClusterQueue of its own, so that several run at once. Exit code 0 only if everything holds.
"""

import contextlib
import json
import random
import signal
import sys
from collections.abc import Callable, Iterator
from concurrent import futures
from functools import partial
from pathlib import Path
from typing import Any

import yaml

import installation
import referee
import studies
from cluster import Cluster, Image, Node
from cluster_pods import wait_for
from gpubench import names
from gpubench.plan import expand
from kueue_process import GROUP, Kueue

HERE = Path(__file__).resolve().parent
APIS = {"jobs": "/apis/batch/v1", "workloads": f"/apis/{GROUP}", "gpubenchmarks": f"/apis/{names.API_VERSION}"}
BENCHMARKS = names.BENCHMARK_PLURAL
FINISHED_SECONDS = 900.0  # a training's steps take fifteen times as long on a machine that does other things beside
AT_ONCE = 4
NAME_OF_FORTY = "a-benchmark-with-a-name-of-forty-letters"


class Place(referee.Place):
    """With a ClusterQueue of its own, and what Kueue says."""

    def __init__(self, cluster: Cluster, kueue: Kueue, name: str) -> None:
        super().__init__(cluster, name)
        self.kueue = kueue

    def all(self, kind: str) -> list[Any]:
        return self.objects(APIS.get(kind, "/api/v1"), kind)

    def patch(self, kind: str, name: str, body: Any, *more: str) -> None:
        arguments = ("-n", self.name, "--type", "merge", "-p", json.dumps(body), *more)
        self.cluster.kubectl("patch", kind, name, *arguments)

    def queue(self, *flavors: tuple[str, int], name: str = "", local: str = "team-a", **spec: Any) -> None:
        """A ClusterQueue with so many CPUs of each flavor, and its LocalQueue."""
        quotas = [
            {"name": flavor, "resources": [_quota("cpu", cpus), _quota("memory", "64Gi")]} for flavor, cpus in flavors
        ]
        group = {"coveredResources": ["cpu", "memory"], "flavors": quotas}
        whole, queue = {"namespaceSelector": {}, "resourceGroups": [group], **spec}, name or self.name
        self.apply({"apiVersion": GROUP, "kind": "ClusterQueue", "metadata": {"name": queue}, "spec": whole})
        if local:
            of = {"metadata": {"name": local}, "spec": {"clusterQueue": queue}}
            self.apply({"apiVersion": GROUP, "kind": "LocalQueue", **of})

    def benchmark(
        self, name: str = "quick", *, pool: str = "od", seconds: int = 2, queue: str | None = "team-a", **spec: Any
    ) -> None:
        """One point of two pods."""
        sweep = [{"workloads": ["mnist_cnn"], "pools": [pool], "workers": [2], "batchPerWorker": [64]}]
        env = [{"name": "STAND_IN_SECONDS", "value": str(seconds)}]
        whole: dict[str, Any] = {"repeats": 1, "sweep": sweep, "template": {"env": env}, **spec}
        whole |= {"queueName": queue} if queue else {}
        self.apply(studies.benchmark(name, namespace=self.name, **whole))

    def conditions(self, name: str = "quick") -> str:
        found = self.status(name).get("conditions") or ()
        return "\n".join(f"{one['type']} {one['status']} {one['reason']}: {one['message']}" for one in found)

    def admitted(self) -> str:
        return self.condition("Admitted")

    def pending(self) -> str:
        return self.condition("GangPending")

    def ended(self) -> str:
        """Counts, and what was recorded of ended attempts."""
        reasons = ("AttemptFailed", "AttemptStopped", "AttemptPreempted", "TrialMeasured")
        events = [one for one in self.events("quick").splitlines() if one.startswith(reasons)]
        status = self.status()
        for one in self.ledger():
            resumed = (one.get("result") or {}).get("resumed") or {}
            runs = f"{len(one.get('segments', ()))} earlier runs, resumed at step {resumed.get('step')}"
            events.append(f"attempt {one['attempt']} on {sorted(one.get('nodes', ()))}: {runs}")
        return "; ".join((f"{status.get('phase')} {json.dumps(status.get('attempts'))}", *events))

    def ledger(self) -> list[Any]:
        of_ledgers = f"configmaps?labelSelector={names.LABEL_COMPONENT}%3D{names.COMPONENT_LEDGER}"
        data = [item for one in self.all(of_ledgers) for item in one["data"].items()]
        return [json.loads(text) for key, text in data if not key.startswith("environment.")]

    def events(self, name: str) -> str:
        found = [one for one in self.all("events") if one["involvedObject"].get("name") == name]
        return "\n".join(f"{one['reason']}: {one['message']}" for one in found)

    def state(self) -> str:
        return f"{self.admitted()}; {self.pending()}; {self.ended()}"

    def finish(self) -> None:
        wait_for(self.is_finished, what="Finished", timeout_seconds=FINISHED_SECONDS)

    def is_finished(self) -> bool:
        return self.condition("Finished").startswith("Finished True")

    def workload(self) -> str:
        """The name of the newest Workload, as soon as Kueue has looked at it."""
        found = self.until(
            lambda: [one for one in self.all("workloads") if one.get("status", {}).get("conditions")],
            what="a Workload with a condition",
        )
        return str(found[-1]["metadata"]["name"])

    def job(self) -> str:
        return str(self.until(lambda: self.all("jobs"), what="a Job")[-1]["metadata"]["name"])

    def runs(self) -> None:
        def both() -> bool:
            phases = [pod["status"].get("phase") for pod in self.all("pods") if pod["spec"].get("nodeName")]
            return phases.count("Running") == 2

        self.until(both, what="two running pods")
        self.until(lambda: self.status().get("attempts", {}).get("started"), what="a status with the run")


def _quota(resource: str, amount: object) -> dict[str, str]:
    return {"name": resource, "nominalQuota": str(amount)}


def measured(at: Place) -> None:
    at.queue(("od", 2))
    at.benchmark(repeats=2)
    at.holds("both are measured", at.ended, "Succeeded", '"succeeded": 2', but='"failed": [1-9]')


def no_local_queue(at: Place) -> None:
    at.queue(("od", 8), local="")
    at.benchmark()
    at.holds("LocalQueue that does not exist", at.admitted, "LocalQueue team-a", "create")


def held_queue(at: Place) -> None:
    at.queue(("od", 8), stopPolicy="Hold")
    at.benchmark()
    at.holds("ClusterQueue on hold", at.admitted, f"{at.name} is (stopped|inactive)", "stopPolicy")


def deactivated(at: Place) -> None:
    at.queue(("od", 1))
    at.benchmark()
    name = at.workload()
    at.patch("workload", name, {"spec": {"active": False}})
    at.holds("Workload deactivated while it waits", at.admitted, "deactivated", f"spec.active.*{name}", but="quota")
    at.patch("workload", name, {"spec": {"active": True}})
    at.queue(("od", 8))
    at.holds("it is active again", at.ended, "Succeeded")


def check_pending(at: Place) -> None:
    checks = {"admissionChecks": [{"name": "nobody"}]}
    at.queue(("od", 1), admissionChecksStrategy=checks)
    at.benchmark()
    at.holds("quota too small", at.admitted, "quota")
    at.queue(("od", 8), admissionChecksStrategy=checks)
    at.holds("quota raised, AdmissionCheck pending", at.admitted, "nobody", "[Pp]ending", but="insufficient")


def event_gone(at: Place) -> None:
    at.queue(("od", 1))
    at.benchmark()
    at.workload()
    at.cluster.kubectl("delete", "events", "--all", "-n", at.name)
    at.patch(BENCHMARKS, "quick", {"spec": {"limits": {"budget": "100"}}})

    def is_seen() -> bool:
        (body,) = at.all(BENCHMARKS)
        return bool(body["status"].get("observedGeneration") == body["metadata"]["generation"])

    at.until(is_seen, what="the new generation in the status")
    at.holds("the Event is gone, the reason is not", at.admitted, "insufficient|maximum capacity")


def given_up(at: Place) -> None:
    at.queue(("moving", 8), admissionChecksStrategy={"admissionChecks": [{"name": "nobody"}]})
    at.benchmark(pool="tier")
    name, job = at.workload(), at.job()
    at.until(lambda: at.all("workloads")[0]["status"].get("admission"), what="reserved quota")
    at.patch("resourceflavor", "moving", {"spec": {"nodeLabels": {"tier": "b"}}})
    check = {"name": "nobody", "state": "Ready", "message": "", "lastTransitionTime": "2026-11-01T00:00:00Z"}
    at.patch("workload", name, {"status": {"admissionChecks": [check]}}, "--subresource", "status")
    at.holds("Workload given up: the attempt ends", at.ended, "FailedToStart|conflict")
    at.holds("another attempt has another Job", lambda: f"{job}, then {at.job()}", f"^{job}, then (?!{job})")


def default_queue(at: Place) -> None:
    at.queue(("od", 1), local="default")
    at.benchmark(queue=None)
    at.holds("queued by Kueue though the benchmark names no queue", at.admitted, "queue default", "quota|capacity")


def topology(at: Place) -> None:
    at.queue(("alone", 16))
    at.benchmark(pool="alone", limits={"schedulingTimeout": "60s"})
    at.holds("exclusive nodes with room for two", at.pending, "Kueue", "topology|hostname")


def topology_shared(at: Place) -> None:
    at.queue(("shared", 16))
    at.benchmark(pool="shared")
    at.finish()
    at.holds("both pods on a node: NodeShared's advice", at.warnings, "NodeShared", "Kueue|topology")


def topology_fits(at: Place) -> None:
    at.queue(("filled", 16))
    at.benchmark(pool="filled")
    at.holds("slots that fill a node, and one zone for the gang", at.ended, "Succeeded", "filled-1.*filled-2")


def example(at: Place) -> None:
    at.cluster.kubectl("apply", "-f", str(installation.REPOSITORY / "jobs" / "examples" / "queues" / "gke.yaml"))

    def conditions() -> str:
        found = at.cluster.request("GET", f"/apis/{GROUP}/clusterqueues/studies").get("status", {}).get("conditions")
        return json.dumps(found)

    at.holds("ClusterQueue of jobs/examples/queues/gke.yaml", conditions, '"reason": "Ready"')


def injected(at: Place) -> None:
    at.queue(("spot-open", 2), ("od", 2))
    at.benchmark(pool="any")
    at.finish()
    at.holds("pool that fits two flavors: measured on spot", at.warnings, "[Ss]pot")


def deactivated_while_it_runs(at: Place) -> None:
    at.queue(("od", 8))
    at.benchmark(seconds=60)
    at.runs()
    at.patch("workload", at.workload(), {"spec": {"active": False}})
    at.holds("Workload deactivated while it runs", at.admitted, "deactivated", "spec.active", but="waits to be adm")


def time_is_over(at: Place) -> None:
    at.queue(("od", 1))
    at.benchmark(seconds=60)
    at.workload()
    at.patch("job", at.job(), {"metadata": {"labels": {"kueue.x-k8s.io/max-exec-time-seconds": "5"}}})
    at.queue(("od", 8))
    at.runs()
    at.holds("max-exec-time-seconds", at.admitted, "maximum execution time", "spec.active", but="waits to be adm")


def never_placed(at: Place) -> None:
    at.queue(("late", 8))
    at.benchmark(pool="late")
    at.until(lambda: at.pending().startswith("GangPending True"), what="GangPending")
    at.patch("clusterqueue", at.name, {"spec": {"stopPolicy": "HoldAndDrain"}})
    at.until(lambda: at.all("jobs")[0]["spec"]["suspend"], what="a suspended Job")
    at.holds("gang evicted before it had nodes", at.pending, "False", "queue", but="every gang has its nodes")


def partial_admission(at: Place) -> None:
    at.queue(("od", 1))
    at.benchmark(seconds=60)
    at.workload()
    at.patch("job", at.job(), {"metadata": {"annotations": {"kueue.x-k8s.io/job-min-parallelism": "1"}}})
    at.holds("one pod of two admitted", at.pending, "1 of 2 pods", "annotation")


def moved(at: Place) -> None:
    at.queue(("od", 1))
    at.queue(("od", 8), name=f"{at.name}-roomy", local="roomy")
    at.benchmark(seconds=60)
    at.workload()
    at.patch("job", at.job(), {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "roomy"}}})
    at.runs()
    at.holds("Job moved to another queue", at.admitted, "True", "queue roomy")


def two_gangs(at: Place) -> None:
    """Each needs both nodes and is given one, by hand: there is quota for four, and the scheduler may not."""
    at.queue(("halves", 8))
    nodes, limits = ["halves-0", "halves-1"], {"schedulingTimeout": "20s", "attempts": {"failed": 1}}
    for seed in range(3):
        gangs, chance = (f"one-{seed}", f"two-{seed}"), random.Random(seed)
        at.cluster.kubectl("cordon", *nodes)
        for name, node in zip(gangs, chance.sample(nodes, 2), strict=True):
            at.benchmark(name, pool="halves", limits=limits)
            seat = f"{names.LABEL_BENCHMARK}%3D{name},batch.kubernetes.io/job-completion-index%3D{chance.randrange(2)}"
            at.bind(at.until(partial(at.all, f"pods?labelSelector={seat}"), "a pod")[0]["metadata"]["name"], node)
        at.cluster.kubectl("uncordon", *nodes)

        def both(gangs: tuple[str, ...] = gangs) -> str:
            found = [at.status(name) for name in gangs]
            failed = sum(one.get("attempts", {}).get("failed", 0) for one in found)
            return f"{failed} attempts failed, {' and '.join(str(one.get('phase')) for one in found)}"

        words = ("[12] attempts", "Succeeded and Succeeded")
        at.holds(f"two gangs with half of the nodes each, seed {seed}", both, *words, seconds=FINISHED_SECONDS)


def preempted(at: Place) -> None:
    """A training of two real ranks, as soon as it has a checkpoint."""
    folder = at.kueue.folder / "checkpoints"
    folder.mkdir()
    claim, training, high = yaml.safe_load_all((HERE / "preemption.yaml").read_text())
    shared = {name: claim["spec"][name] for name in ("accessModes", "storageClassName")}
    spec = {**shared, "capacity": claim["spec"]["resources"]["requests"], "hostPath": {"path": str(folder)}}
    at.apply({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "checkpoints"}, "spec": spec})
    at.queue(("real", 2), preemption={"withinClusterQueue": "LowerPriority"})
    at.apply(claim, training)
    at.until(lambda: any(one.is_file() for one in folder.rglob("*")), what="a checkpoint")
    at.apply(high)
    at.holds("training preempted by a higher priority", at.admitted, "EvictedFromQueue", "[Pp]reempted")
    at.finish()
    words = ("Succeeded", "1 earlier runs", "resumed at step [1-9]")
    at.holds("it goes on from its checkpoint, and nothing has failed", at.ended, *words, but='"failed": [1-9]')


def other_reason(at: Place) -> None:
    """Kueue's Event is named after the reason, and the Workload's name is cut."""
    at.queue(("od", 1))
    at.benchmark(NAME_OF_FORTY)
    words = "Event with another reason, Workload with a cut name"
    at.holds(words, partial(at.conditions, NAME_OF_FORTY), "insufficient|maximum capacity")


def no_queue_at_all(at: Place) -> None:
    at.benchmark(queue=None)
    at.holds("manageJobsWithoutQueueName, and no queue", at.admitted, "spec.queueName", at.job())


def deleted_by_kueue(at: Place) -> None:
    at.queue(("late", 8))
    at.benchmark(pool="late")
    job = at.job()
    at.until(lambda: at.all("jobs") and at.job() != job, what="Kueue deleting the Job, and another one")
    words = ("waited in queue team-a", "deactivated")
    at.holds("Job deleted by Kueue", at.ended, *words, but='while it ran|"failed": [1-9]')


def time_outs_add_up(at: Place) -> None:
    """A time-out longer than each stay, and shorter than two: waitForPodsReady ends each after ten seconds."""
    at.queue(("half", 8))
    at.benchmark(pool="half", limits={"schedulingTimeout": "15s"})
    at.holds("schedulingTimeout over several admissions", at.ended, "NoCapacity|no node")


def no_workload(at: Place) -> None:
    at.queue(("od", 8))
    at.benchmark()
    at.holds("Job that Kueue does not manage", at.admitted, "no Workload", "batch/job")


def webhook_down(at: Place) -> None:
    at.queue(("od", 2))
    at.benchmark(seconds=8, repeats=2)
    at.runs()
    at.kueue.end(signal.SIGKILL)
    at.benchmark("plain", pool="any", queue=None)
    words = ("mjob.kb.io", "connection refused")
    at.holds("webhook down: a condition, without a queue", partial(at.conditions, "plain"), "Job plain-", *words)
    at.holds("an Event", partial(at.events, "plain"), "Job plain-", *words)
    at.holds("the status goes on", lambda: json.dumps(at.status().get("attempts")), '"succeeded": 1')
    at.patch(BENCHMARKS, "quick", {"spec": {"suspend": True}})
    at.holds("suspended by its user", partial(at.condition, "Suspended"), "True")
    at.patch(BENCHMARKS, "quick", {"spec": {"suspend": False}})
    at.holds("resumed", partial(at.condition, "Suspended"), "False")
    at.kueue.start("default")
    at.finish()
    at.holds("Kueue is back: all is measured", at.ended, "Succeeded", '"succeeded": 2')


Scenario = Callable[[Place], None]
#: By Kueue's configuration, which all scenarios of a group share.
GROUPS: tuple[tuple[str, tuple[Scenario, ...]], ...] = (
    ("default", (measured, given_up, no_local_queue, held_queue, deactivated, check_pending, event_gone)),
    ("default", (default_queue, topology, topology_shared, topology_fits, injected, deactivated_while_it_runs)),
    ("default", (two_gangs, time_is_over, never_placed, partial_admission, moved, example, preempted)),
    ("impatient", (other_reason, no_queue_at_all, deleted_by_kueue, time_outs_add_up)),
    ("pods-only", (no_workload,)),
    ("default", (webhook_down,)),
)


@contextlib.contextmanager
def started(source: Path, folder: Path) -> Iterator[tuple[Cluster, Kueue]]:
    """The cluster with its nodes and pools, gpubench and Kueue."""
    image = referee.stand_in_image(folder)
    known = yaml.safe_load((HERE / "pools.yaml").read_text())
    nodes = [_node(pool, number) for pool, of in known.items() for number in range(of["nodes"])]
    with contextlib.ExitStack() as stack:
        real = Image(path=(Path(sys.executable).parent, "/usr/bin", "/bin"), env=image.env)
        images = {expand.DEFAULT_IMAGE: image, "gpubench-jobs:real": real}
        cluster = stack.enter_context(Cluster.start(folder / "cluster", nodes=nodes, images=images))
        kueue = Kueue(cluster, source, folder)
        stack.callback(kueue.end)
        kueue.install()
        kueue.start("default")
        pools = [studies.pool(name, **{"maxNodes": 2} | of["spec"]) for name, of in known.items()]
        settings = {**installation.ALONE, "GPUBENCH_NODE_POLL_SECONDS": "2"}
        log = folder / "operator.log"
        stack.enter_context(installation.running_operator(cluster, log=log, settings=settings))
        flavors = [_flavor(name, of.get("flavor", {})) for name, of in known.items()]
        shared = [*yaml.safe_load_all((HERE / "objects.yaml").read_text()), *flavors, *pools]
        cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all(shared))
        answered = {"type": "Active", "status": "True", "reason": "ByHand", "message": ""}
        status = {"conditions": [{**answered, "lastTransitionTime": "2026-11-01T00:00:00Z"}]}
        patch = json.dumps({"status": status})
        cluster.kubectl("patch", "admissioncheck", "nobody", "--subresource", "status", "--type", "merge", "-p", patch)
        yield cluster, kueue


def _flavor(name: str, spec: dict[str, Any]) -> dict[str, Any]:
    whole = {"nodeLabels": {"pool": name}, **spec}
    return {"apiVersion": GROUP, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": whole}


def _node(pool: str, number: int) -> Node:
    """Spot ones as GKE labels them. Zone a has one node of a pool, which is too few."""
    taints = ("example.com/spot=true:NoSchedule",) if pool == "spot" else ()
    zone = "a" if (pool, number) == ("filled", 0) else "b"
    labels = {"pool": pool, names.LABEL_INSTANCE_TYPE: "large", names.LABEL_ZONE: zone}
    labels |= {"cloud.google.com/gke-spot": "true"} if taints else {}
    return Node(name=f"{pool}-{number}", labels=labels, taints=taints, capacity={"cpu": "8", "memory": "64Gi"})


def play(source: Path, only: str, folder: Path) -> bool:
    with started(source, folder) as (cluster, kueue):
        ok = True
        for configuration, scenarios in GROUPS:
            chosen = referee.chosen(scenarios, only)
            if chosen:
                kueue.start(configuration)
            places = [Place(cluster, kueue, one.__name__) for one in chosen]
            with futures.ThreadPoolExecutor(AT_ONCE) as pool:
                ok &= all([*pool.map(Place.play, places, chosen)])
        return ok


if __name__ == "__main__":
    PARSER = referee.parser(__doc__)
    PARSER.add_argument("source", type=Path, help="a checkout of kubernetes-sigs/kueue, of its newest release")
    OPTIONS = PARSER.parse_args()
    if not (OPTIONS.source / "cmd" / "kueue").is_dir():
        PARSER.error(f"KUEUE={OPTIONS.source} has no cmd/kueue: name a checkout of kubernetes-sigs/kueue")
    referee.run("kueue", OPTIONS.keep, partial(play, OPTIONS.source.resolve(), OPTIONS.only))
