# SPDX-License-Identifier: Apache-2.0
"""A study in an API server in memory: a clock, the operator's reconciler, and what Job controller and kubelets do."""

import json
from typing import Any

import memory_kube
import studies
from gpubench import names
from gpubench_operator import exporter, keys, kube, observe, reconcile, settings

NOW = 1_800_000_000.0
KEY = keys.benchmark("default", "quick")


class Clock:
    """Seconds that pass only when a test says so."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class World:
    """One study, one pool, and an operator that can be killed."""

    def __init__(self, **spec: Any) -> None:
        self.clock = Clock()
        self.api = memory_kube.MemoryKube(self.clock)
        self.api.put(kube.POOLS, studies.pool())
        self.api.put(kube.BENCHMARKS, studies.benchmark(**spec))
        self.figures = exporter.Figures()
        self.woken: list[keys.Key] = []
        self.start_operator()

    def start_operator(self, **environment: str) -> None:
        """A new process: it remembers nothing."""
        options = settings.load({"GPUBENCH_IDENTITY": "test", **environment})
        self.operator = reconcile.Reconciler(
            self.api, options=options, figures=self.figures, wake=self.woken.append, clock=self.clock
        )

    async def look(self, key: keys.Key = KEY) -> float | None:
        """One reconcile."""
        return await self.operator.reconcile(key)

    def progress(self) -> bool:
        """One step of the Job controller and the kubelets; False when there is nothing to do."""
        changed = False
        for job in self.api.all(kube.JOBS):
            changed = self._progress(job) or changed
        return changed

    def _progress(self, job: kube.Object) -> bool:
        pods = [pod for pod in self.api.all(kube.PODS) if kube.is_owned_by(pod, kube.uid_of(job))]
        if "deletionTimestamp" in job["metadata"]:
            for pod in pods:
                self.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
            self.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
            return True
        if observe.condition(job, "Complete"):
            return False
        states = {"running": {"startedAt": observe.timestamp(self.clock())}}
        for index in range(job["spec"]["parallelism"]):
            state = studies.finished_state(job, index=index, now=self.clock()) if pods else states
            self.api.put(kube.PODS, studies.gang_pod(job, index, now=self.clock(), state=state))
        if pods:
            condition = {"type": "Complete", "status": "True", "lastTransitionTime": observe.timestamp(self.clock())}
            self.api.put(kube.JOBS, {**job, "status": {"conditions": [condition]}})
        return True

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
            except kube.RetryLater:
                pass
            self.clock.now += 1
            if not self.progress() and self.status().get("phase") in ("Succeeded", "Failed"):
                return
        raise AssertionError(f"not finished after {looks} looks: {self.status()}")

    def status(self) -> dict[str, Any]:
        """The study's status."""
        status: dict[str, Any] = self.api.all(kube.BENCHMARKS)[0].get("status") or {}
        return status

    def condition(self, type_: str) -> dict[str, Any]:
        """A condition of the study; empty where it has none of this type."""
        conditions = self.status().get("conditions") or ()
        return next((one for one in conditions if one["type"] == type_), {})

    def ledger(self) -> dict[str, dict[str, Any]]:
        """The entries of the attempt ledger, as stored."""
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
