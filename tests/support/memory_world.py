# SPDX-License-Identifier: Apache-2.0
"""A study in an API server in memory: a clock, the operator's reconciler, and what Job controller and kubelets do."""

import json
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, NamedTuple

import memory_kube
import stand_in_worker
import stored_analysis
import studies
from gpubench import names, records
from gpubench.plan.plan import Plan
from gpubench.records import Machine
from gpubench.scheduler.ledger import NewNodes
from gpubench.scheduler.observed import Study
from gpubench_cluster import kube
from gpubench_operator import benchmark, exporter, observe, pool, queue, settings

NOW = 1_800_000_000.0
KEY = queue.benchmark_key("default", "quick")


class Fate(Enum):
    """How the first attempt at a trial ends; the second one goes well."""

    SUCCESS = auto()
    FAILURE = auto()
    PREEMPTION = auto()
    SUSPENSION = auto()  # the user suspends the study meanwhile, and resumes it when the Job is gone
    LONG = auto()  # it runs until it is evicted


_FAILED = 80
_TERMINATED = 143


class Placement(NamedTuple):
    """Where a Job's pods run, and what the short test there finds."""

    node: str = "node"  # and the pod's index
    machine: Machine | None = None


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def sweep(*workers: int) -> list[dict[str, Any]]:
    """One line of a benchmark on the pool."""
    return [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [*workers], "batchPerWorker": [8]}]


class World:
    """One study, one pool, and an operator that can be killed."""

    def __init__(
        self,
        *,
        fates: tuple[Fate, ...] = (),
        max_nodes: int = 4,
        placed: Callable[[int], Placement] = lambda _: Placement(),
        **spec: Any,
    ) -> None:
        self.clock = Clock()
        self.api = memory_kube.MemoryKube(self.clock)
        self.fates = fates  # of the trials, in the order in which they start
        self.placed = placed  # of each Job, by its number in the order of creation
        self.most_slots_in_use = 0
        self.api.put(kube.POOLS, studies.pool(maxNodes=max_nodes))
        self.api.put(kube.BENCHMARKS, studies.benchmark(**spec))
        for index in range(max_nodes):
            labels = {names.LABEL_INSTANCE_TYPE: "large", names.LABEL_ZONE: "zone-0", "pool": "pretend"}
            self.api.put(kube.NODES, {"metadata": {"name": f"node-{index}", "labels": labels}})
        self.series = exporter.Series()
        self.woken: list[queue.Key] = []
        self.start_operator()

    def start_operator(self, **environment: str) -> None:
        """A new process: it remembers nothing."""
        options = settings.load({"GPUBENCH_IDENTITY": "test", **environment})
        self.operator = benchmark.BenchmarkReconciler(
            api=self.api,
            options=options,
            series=self.series,
            wake=self.woken.append,
            nodes=observe.NodeStates(self.api, clock=self.clock),
            worker=stored_analysis.AtOnce,
            clock=self.clock,
        )

    def pools(self, collector: exporter.PoolCollector, **environment: str) -> pool.PoolReconciler:
        """The reconciler of pools in the operator's process."""
        return pool.PoolReconciler(
            api=self.api,
            options=settings.load({"GPUBENCH_IDENTITY": "test", **environment}),
            plans=self.operator.store.plans,
            collector=collector,
            nodes=self.operator.nodes,
            recorder=self.operator.recorder,
            wake=self.woken.append,
            clock=self.clock,
        )

    async def look(self, key: queue.Key = KEY) -> float | None:
        """One reconcile."""
        return await self.operator.reconcile(key)

    def progress(self) -> bool:
        """One step of the Job controller, the kubelets and the user; False when there is nothing to do."""
        changed = self._resume()
        for job in self.api.all(kube.JOBS):
            changed = self._progress(job) or changed
        return changed

    def _progress(self, job: kube.Object) -> bool:
        pods = [pod for pod in self.api.all(kube.PODS) if kube.is_owned_by(pod, kube.uid_of(job))]
        run_on = [pod for pod in pods if "terminated" not in pod["status"]["containerStatuses"][0]["state"]]
        self._count_slots()
        if "deletionTimestamp" in job["metadata"]:
            if run_on:  # they get SIGTERM and take a while
                self._put_pods(job, studies.ended_state(exit_code=_TERMINATED, now=self.clock()))
                return True
            for pod in pods:
                self.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
            self.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
            return True
        if observe.condition(job, "Complete") or observe.condition(job, "Failed"):
            return False
        if not pods:
            self._put_pods(job, {"running": {"startedAt": observe.timestamp(self.clock())}})
            return True
        fate = self._fate(job)
        if fate is Fate.LONG:
            return True
        if fate is Fate.PREEMPTION:
            target = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "x"}
            status = {**pods[0]["status"], "conditions": [*pods[0]["status"]["conditions"], target]}
            self.api.put(kube.PODS, {**pods[0], "status": status})
        elif fate is Fate.SUSPENSION:
            self._set_suspend(suspend=True)
        elif fate is Fate.FAILURE:
            self._put_pods(job, studies.ended_state(exit_code=_FAILED, now=self.clock()))
            self._put_condition(job, "Failed")
        else:
            for index in range(job["spec"]["parallelism"]):
                place = self._placement(job)
                state = studies.finished_state(job, index=index, now=self.clock(), machine=place.machine)
                body = studies.gang_pod(job, index, node=place.node, now=self.clock(), state=state)
                pod = self.api.put(kube.PODS, body)
                if index == 0:
                    self.api.logs[kube.name_of(pod)] = (
                        f"a library's own line\n{records.line(stand_in_worker.ENVIRONMENT)}\n"
                    )
            self._put_condition(job, "Complete")
        return True

    def _fate(self, job: kube.Object) -> Fate:
        first_attempts = [name for name in dict.fromkeys(self.jobs_created()) if name.endswith("-1")]
        fates = dict(zip(first_attempts, self.fates, strict=False))
        return fates.get(kube.name_of(job), Fate.SUCCESS)

    def _placement(self, job: kube.Object) -> Placement:
        return self.placed(list(dict.fromkeys(self.jobs_created())).index(kube.name_of(job)))

    def _put_pods(self, job: kube.Object, state: dict[str, Any]) -> None:
        for index in range(job["spec"]["parallelism"]):
            node = self._placement(job).node
            self.api.put(kube.PODS, studies.gang_pod(job, index, node=node, now=self.clock(), state=state))

    def _put_condition(self, job: kube.Object, kind: str) -> None:
        condition = {"type": kind, "status": "True", "lastTransitionTime": observe.timestamp(self.clock())}
        self.api.put(kube.JOBS, {**job, "status": {**(job.get("status") or {}), "conditions": [condition]}})

    def _resume(self) -> bool:
        """The user resumes a study when everything of it has stopped and the status says so."""
        live = [job for job in self.api.all(kube.JOBS) if not (job.get("status") or {}).get("conditions")]
        if not self.fates or live or self.condition("Suspended").get("status") != "True":
            return False
        return self._set_suspend(suspend=False)

    def _set_suspend(self, *, suspend: bool) -> bool:
        body = self.api.all(kube.BENCHMARKS)[0]
        if bool(body["spec"].get("suspend")) == suspend:
            return False
        metadata = {**body["metadata"], "generation": body["metadata"]["generation"] + 1}
        self.api.put(kube.BENCHMARKS, {**body, "metadata": metadata, "spec": {**body["spec"], "suspend": suspend}})
        return True

    def _count_slots(self) -> None:
        """Nodes on which containers run: what the slots of a pool stand for."""
        states = [pod["status"]["containerStatuses"][0]["state"] for pod in self.api.all(kube.PODS)]
        self.most_slots_in_use = max(self.most_slots_in_use, sum("running" in state for state in states))

    async def finish(self, *, looks: int = 300) -> None:
        """Look and let things happen until nothing does; a crash starts a new operator."""
        rebuilt = False
        for _ in range(looks):
            try:
                if not rebuilt:
                    await self.operator.rebuild()
                    rebuilt = True
                await self.look()
            except memory_kube.Crash:
                self.api.crash_at = None
                self.start_operator()
                rebuilt = False
                continue
            except kube.TemporaryError:
                pass
            self.clock.now += 1
            if not self.progress() and self.condition("Finished").get("status") == "True":
                return
        raise AssertionError(f"not finished after {looks} looks: {self.status()}")

    async def planned(self) -> tuple[Study, Plan]:
        """The study and its plan, as they are stored."""
        study = observe.study(self.api.all(kube.BENCHMARKS)[0])
        plan = (await self.operator.store.read(study)).plan
        assert plan is not None
        return study, plan

    def status(self) -> dict[str, Any]:
        """The study's status, with its analysis."""
        stored = {kube.name_of(body): body for body in self.api.all(kube.CONFIG_MAPS)}
        return stored_analysis.full(self.api.all(kube.BENCHMARKS)[0], stored.get)

    def condition(self, type_: str) -> dict[str, Any]:
        """A condition of the study; empty where it has none of this type."""
        conditions = self.status().get("conditions") or ()
        return next((one for one in conditions if one["type"] == type_), {})

    def ledger(self) -> dict[str, dict[str, Any]]:
        """The entries of attempts in the ledger, as stored."""
        return {key: entry for key, entry in self._attempts().items() if entry["jobUid"] or "outcome" in entry}

    def refused(self) -> dict[str, dict[str, Any]]:
        """The entries of what is no attempt yet, as its Job was not taken."""
        return {key: entry for key, entry in self._attempts().items() if key not in self.ledger()}

    def _attempts(self) -> dict[str, dict[str, Any]]:
        stored = self._stored().items()
        return {key: entry for key, entry in stored if key != NewNodes.key and not key.startswith("environment.")}

    def new_nodes(self) -> dict[str, Any]:
        """The entry of nodes that came while the study ran, as stored."""
        return self._stored().get(NewNodes.key, {})

    def environments(self) -> dict[str, dict[str, Any]]:
        """The entries of environments in the ledger, as stored."""
        return {key: entry for key, entry in self._stored().items() if key.startswith("environment.")}

    def _stored(self) -> dict[str, dict[str, Any]]:
        return {
            key: json.loads(text)
            for body in self.api.all(kube.CONFIG_MAPS)
            if body["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_LEDGER
            for key, text in body["data"].items()
        }

    def events(self) -> list[tuple[str, str]]:
        """Reasons and messages of the Events."""
        return [(event["reason"], event["message"]) for event in self.api.all(kube.EVENTS)]

    def jobs_created(self) -> list[str]:
        """Names of the Jobs that were created, in order; one that was created twice is there twice."""
        return [name for verb, resource, name in self.api.writes if (verb, resource) == ("create", "jobs")]
