# SPDX-License-Identifier: Apache-2.0
"""A simulated cluster for tests of `decide`: Jobs that start, end and vanish by the clock of the test, and a ledger.

It stands in for the API server and for both edges, in a few lines and without any waiting; what real Jobs and pods do
is tested against the real API server elsewhere. Decisions can be carried out in part, as if the operator had been
killed between two of its writes.
"""

import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import builders
from gpubench.analysis import analyze, status
from gpubench.api import messages
from gpubench.api.benchmark_status import FullStatus, GpuBenchmarkStatus
from gpubench.api.condition import Condition
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, capacity, conditions, environments, events, ledger, manifests, outcome, step
from gpubench.scheduler.actions import Event, Gang
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import Disruption, Observed, ObservedJob, ObservedPod, Study

RUN_SECONDS = 10.0
RUNNING_AFTER_SECONDS = 2.0

#: How an attempt ends: a function from (trial, attempt) to a termination message and exit code, or a disruption.
Fate = Callable[[str, int], tuple[int, str] | Disruption]


def success(trial: str, attempt: int) -> tuple[int, str]:
    rate = 500.0 + sum(map(ord, trial)) % 100  # the same figure whenever and however often the trial runs
    return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rate).model_copy())


@dataclass(frozen=True)
class Decision:
    """A step of the scheduler, with the status and the events that follow from it."""

    step: step.Step
    short: GpuBenchmarkStatus
    status: FullStatus
    events: tuple[Event, ...]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.step.actions, name)


def decide(plan: Plan, recorded: Ledger, observed: Observed, now: float) -> Decision:
    """As both edges do it."""
    made = step.step(plan, recorded, account.of(plan.as_measured(), recorded), observed, now)
    found = analyze.analyze(plan, made.ledger, made.points, observed.study.spec)
    after = status.full(observed.study, plan, made, found, now=now)
    ended = [record for record in made.actions.record if record.outcome is not None]
    told = events.events(observed.study, plan, ended=ended, created=made.actions.create, status=after)
    short = status.status(observed.study, plan, made, status.findings(found), now=now)
    check_words(short.conditions)
    return Decision(made, short, after, told)


#: A benchmark waits while a condition of such a type has this status; `Succeeded` has its own reasons once it is over.
_WAITS = {one.condition: "False" if one.condition == "Admitted" else "True" for one in messages.CATALOGUE}
_WAITS_NOT = {"Progressing", "Succeeded"}


def check_words(found: Iterable[Condition]) -> None:
    """What is said of a benchmark that waits is a message that the reference has."""
    for one in found:
        if one.type not in _WAITS_NOT and _WAITS.get(one.type) == one.status:
            known = [message.sentence for message in messages.CATALOGUE if message[:2] == (one.type, one.reason)]
            assert any(_says(one.message, re.split(r"{\w+}", sentence)) for sentence in known), one


def _says(message: str, parts: list[str]) -> bool:
    """Whether the parts of a sentence between its names are there, in their order."""
    for part in parts:
        _, found, message = message.partition(part) if part else ("", "", message)
        if part and not found:
            return False
    return True


@dataclass
class World:
    """All that exists besides the operator."""

    study: Study
    plan: Plan
    fate: Fate = success
    now: float = builders.NOW
    jobs: dict[str, ObservedJob] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)  # every Job that ever existed
    entries: dict[str, str] = field(default_factory=dict)
    status: FullStatus | None = None
    told: list[Event] = field(default_factory=list)
    gone: list[ObservedPod] = field(default_factory=list)
    stuck: set[str] = field(default_factory=set)  # Jobs whose pods do not end when they are told to
    evicted: list[tuple[str, str]] = field(default_factory=list)  # Jobs and their pods, on purpose
    logs: dict[str, str] = field(default_factory=dict)  # of pods, by their names
    most_slots_held: int = 0
    on_nodes: dict[str, list[tuple[float, float | None]]] = field(default_factory=dict)  # of each Job's pods: from, to

    def observe(self) -> Observed:
        self._end_deleted()
        held: dict[str, int] = {}
        for job in self.jobs.values():
            if job.holds_slots:
                held[job.pool] = held.get(job.pool, 0) + job.slots
        jobs, free = tuple(self.jobs.values()), capacity.free_slots(self.plan, held)
        return Observed(study=self.study, jobs=jobs, free=free, gone=tuple(self.gone))

    def ledger(self) -> Ledger:
        return ledger.from_entries([self.entries])

    def decide(self) -> Decision:
        return decide(self.plan, self.ledger(), self.observe(), self.now)

    def writes(self, decision: Decision) -> Iterator[None]:
        """Carry out a decision write by write; a test that stops iterating has killed the operator there."""
        for key, text in ledger.to_entries((*decision.let_go, *decision.record)).items():
            self.entries[key] = text
            yield
        if decision.new_nodes != self.ledger().new_nodes:
            self.entries[ledger.NewNodes.key] = decision.new_nodes.to_text()
        for one in decision.describe:
            found = environments.in_log(self.logs.get(one.pod, ""), one.environment)
            self.entries |= ledger.environment_entries([] if found is None else [found])
            yield
        for reference in decision.delete:
            job = self.jobs.get(reference.name)
            if job is not None and not job.deleting:
                self.jobs[job.name] = job.model_copy(update={"deleting": True, "deleting_since": self.now})
                self._leave_nodes(job.name, at=self.now + outcome.GRACE_SECONDS)
            yield
        for reference in decision.retire:
            self.jobs[reference.name] = self.jobs[reference.name].model_copy(update={"has_ttl": True})
            yield
        for gang in decision.create:
            self._create(gang)
            yield
        for eviction in decision.disrupt:
            name, pod = eviction.job.name, eviction.pod.name
            self.jobs[name] = self.jobs[name].model_copy(update={"drilled": pod})
            yield
            self.evict(job=name, pod=pod)
            yield
        self.status = decision.status
        self.study = self.study.model_copy(update={"status": decision.short})
        yield
        self.told += decision.events
        yield

    def reconcile(self) -> Decision:
        decision = self.decide()
        for _ in self.writes(decision):
            held = sum(job.slots for job in self.jobs.values() if job.holds_slots)
            self.most_slots_held = max(self.most_slots_held, held)
        return decision

    def advance(self, seconds: float = RUN_SECONDS) -> None:
        """Let time pass: every Job that has run for long enough meets its fate; a Job with a TTL goes."""
        self.now += seconds
        for name, job in list(self.jobs.items()):
            if job.has_ttl:
                del self.jobs[name]
            elif not (job.deleting or self._has_ended(job)) and self.now >= job.created_at + RUN_SECONDS:
                self.jobs[name] = self._ended(job)

    def _end_deleted(self) -> None:
        """A Job that is deleted stays until its pods have gone, which take all of their grace period."""
        for job in [job for job in self.jobs.values() if job.name not in self.stuck]:
            at = (job.deleting_since or self.now) + outcome.GRACE_SECONDS
            if self.now >= at:
                del self.jobs[job.name]
                self.gone += [pod.model_copy(update={"gone_at": at, "job_uid": job.uid}) for pod in job.pods]

    def evict(self, *, job: str, pod: str) -> None:
        """What the eviction API does to a pod."""
        self.evicted.append((job, pod))
        target = {"disruption": builders.disrupted(), "deleting": True}
        pods = tuple(one.model_copy(update=target) if one.name == pod else one for one in self.jobs[job].pods)
        self.jobs[job] = self.jobs[job].model_copy(update={"pods": pods})

    def delete_pods(self, job: str) -> None:
        """What `kubectl delete pod` does to a gang: its Job fails, and no pod of it is left to say anything."""
        self.jobs[job] = self.jobs[job].model_copy(
            update={"pods": (), "failed": True, "failing_since": self.now, "failed_reason": "BackoffLimitExceeded"}
        )
        self._leave_nodes(job, at=self.now)

    def node_seconds(self) -> list[list[float]]:
        """For how long each pod of each Job really had its node, whatever the operator saw of it."""
        return [
            [(self.now if end is None else end) - start for start, end in lives] for lives in self.on_nodes.values()
        ]

    def _leave_nodes(self, job: str, *, at: float) -> None:
        self.on_nodes[job] = [(start, max(start, at) if end is None else end) for start, end in self.on_nodes[job]]

    def run(self, *, rounds: int = 200) -> FullStatus:
        """Reconcile and advance until the study has finished."""
        for _ in range(rounds):
            decision = self.reconcile()
            if conditions.holds(decision.status.conditions, conditions.FINISHED):
                return decision.status
            self.advance()
        raise AssertionError(f"the study did not finish in {rounds} rounds: {self.status}")

    def _create(self, gang: Gang) -> None:
        manifest = manifests.job(self.study, self.plan, gang)
        name = manifest["metadata"]["name"]
        assert name not in self.created, f"Job {name} was created twice"
        self.created.append(name)
        pods = tuple(
            builders.observed_pod(index, scheduled_at=self.now + 1, running_at=self.now + RUNNING_AFTER_SECONDS)
            for index in range(gang.nodes)
        )
        self.on_nodes[name] = [(self.now + 1, None)] * gang.nodes
        self.jobs[name] = ObservedJob(
            name=name,
            uid=f"uid-{name}",
            trial=gang.assignment.trial,
            attempt=gang.assignment.attempt,
            pool=gang.pool,
            slots=gang.slots,
            created_at=self.now,
            pods=pods,
        )

    @staticmethod
    def _has_ended(job: ObservedJob) -> bool:
        return job.complete or job.failed or any(pod.disruption is not None for pod in job.pods)

    def _ended(self, job: ObservedJob) -> ObservedJob:
        fate = self.fate(job.trial, job.attempt)
        if isinstance(fate, Disruption):
            pods = (job.pods[0].model_copy(update={"disruption": fate}), *job.pods[1:])
            return job.model_copy(update={"pods": pods})
        code, text = fate
        self._leave_nodes(job.name, at=self.now)
        pods = tuple(self._with_end(pod, code, text) for pod in job.pods)
        return job.model_copy(update={"pods": pods, "complete": code == 0, "failed": code != 0})

    def _with_end(self, pod: ObservedPod, code: int, text: str) -> ObservedPod:
        return pod.model_copy(update={"end": builders.ended(code, text=text, at=self.now)})


def world(study: Study | None = None, plan: Plan | None = None, **fields: object) -> World:
    """A world with a study of two points (one and two workers) and three repeats, unless told otherwise."""
    a_study = study or builders.study()
    return World(study=a_study, plan=plan or builders.plan(a_study.spec), **fields)  # type: ignore[arg-type]


def run_with_kills(here: World, chance: random.Random) -> FullStatus:
    """Every decision is cut off after a random number of its writes; then time passes, or does not."""
    for _ in range(2000):
        decision = here.decide()
        for written, _ in enumerate(here.writes(decision)):
            if written >= chance.randrange(4):
                break
        else:
            if conditions.holds(decision.status.conditions, conditions.FINISHED):
                return decision.status
        if chance.random() < 0.5:
            here.advance()
    raise AssertionError(f"did not finish: {here.status}")
