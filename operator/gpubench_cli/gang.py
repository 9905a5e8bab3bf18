# SPDX-License-Identifier: Apache-2.0
"""A gang of local pods with the manners of an Indexed Job: pod 0 decides about success, one failure ends all.

Must not happen: a gang that is half there. Its end is shown once all of its pods have ended, so that nothing else
starts on processors that are still in use.
"""

import random
import socket
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpubench import names
from gpubench.plan.plan import Plan
from gpubench.scheduler import manifests
from gpubench.scheduler.actions import Gang
from gpubench.scheduler.observed import ObservedJob, Study
from gpubench_cli import machine as machines
from gpubench_cli import pod as pods
from gpubench_cli import volumes
from gpubench_cli.machine import Machine
from gpubench_cli.pod import LocalPod, PodOrder
from gpubench_cli.results import ResultsFolder
from gpubench_cli.volumes import Sources


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where gangs of a run live."""

    machine: Machine
    command: Sequence[str]  # a pod's main process, but for a workload that is a program of its own
    folder: ResultsFolder
    scratch: Path
    sources: Sources = field(default_factory=Sources)  # of the volumes
    grace_seconds: float = float(manifests.GRACE_SECONDS)


class LocalGang:
    """One attempt: the Job and its pods."""

    def __init__(self, gang: Gang, *, study: Study, plan: Plan, place: Place) -> None:
        self._gang = gang
        self._created_at = time.time()
        self.uid = str(uuid.uuid4())
        assignment = gang.assignment
        self.name = names.job_name(study.name, study.uid, trial=assignment.trial, attempt=assignment.attempt)
        self._grace_seconds = place.grace_seconds
        self._terminated_at: float | None = None
        self._failing_since: float | None = None
        self._deleting = False
        self._retired = False
        self._pods: list[LocalPod] = []
        try:
            for order in _orders(self.name, gang, study=study, plan=plan, place=place):
                self._pods.append(LocalPod(order))
        except BaseException:
            self.kill()
            raise

    @property
    def gone(self) -> bool:
        """Whether nothing of it is left and nobody will ask for it again."""
        return (self._deleting or self._retired) and self.ended

    @property
    def ended(self) -> bool:
        """Whether all of its processes have ended."""
        return all(pod.ended for pod in self._pods)

    @property
    def ending(self) -> bool:
        """Whether some of its processes have ended, or were told to, and others have not yet."""
        return not self.ended and (self._terminated_at is not None or any(pod.ended for pod in self._pods))

    def tend(self) -> None:
        """What the Job controller does: after the first end the others are told to go, and made to in the end."""
        ends = [pod for pod in self._pods if pod.ended]
        if self._failing_since is None and any(pod.exit_code != 0 for pod in ends) and not self._complete:
            self._failing_since = time.time()
        if self._failing_since is not None or self._complete:
            self._terminate()
        if self._terminated_at is not None and time.time() > self._terminated_at + self._grace_seconds:
            self.kill()

    def delete(self) -> None:
        """The Job is deleted: it stays until its pods have ended."""
        self._deleting = True
        self._terminate()

    def retire(self) -> None:
        """Its end is recorded: it may be forgotten."""
        self._retired = True

    def kill(self) -> None:
        """End everything now."""
        pods.kill_all(self._pods)

    def observe(self) -> ObservedJob:
        """The Job as a decision sees it."""
        ended = self.ended
        return ObservedJob(
            name=self.name,
            uid=self.uid,
            trial=self._gang.assignment.trial,
            attempt=self._gang.assignment.attempt,
            pool=self._gang.pool,
            slots=self._gang.slots,
            created_at=self._created_at,
            deleting=self._deleting,
            complete=self._complete and ended,
            failing_since=self._failing_since,
            failed=self._failing_since is not None and ended,
            failed_reason="BackoffLimitExceeded" if self._failing_since is not None else None,
            has_ttl=self._retired,
            pods=tuple(pod.observe() for pod in self._pods),
        )

    @property
    def _complete(self) -> bool:
        return self._failing_since is None and bool(self._pods) and self._pods[0].ended and not self._pods[0].exit_code

    def _terminate(self) -> None:
        if self._terminated_at is None:
            self._terminated_at = time.time()
            for pod in self._pods:
                pod.terminate()


def _orders(job: str, gang: Gang, *, study: Study, plan: Plan, place: Place) -> Iterator[PodOrder]:
    """One order for each pod: slice after slice of the machine."""
    pool = plan.pool(gang.pool).spec
    slots = gang.slots // gang.nodes
    cores = slots * machines.cores_per_slot(pool)
    gpus = slots if pool.slot.gpu_resource is not None else 0
    addresses = _addresses(gang.nodes)
    mounted = manifests.volumes(study, plan, gang.pool)
    told = volumes.in_place(gang.assignment, mounted, sources=place.sources, scratch=place.scratch)
    environment = manifests.gang_environment(study, plan, gang.model_copy(update={"assignment": told}))
    own_command = manifests.own_command(plan, gang)
    command = (
        volumes.command_in_place(own_command, mounted, sources=place.sources, scratch=place.scratch)
        if own_command is not None
        else place.command
    )
    environment[names.ENV_RENDEZVOUS_HOST] = addresses[0]  # there is no DNS
    assignment = gang.assignment
    if assignment.checkpoint is not None:  # whatever claim the cluster would have
        environment[names.ENV_CHECKPOINTS] = str(place.folder.checkpoints)
    for index, address in enumerate(addresses):
        yield PodOrder(
            name=f"{job}-{index}",
            index=index,
            node=place.machine.name,
            address=address,
            cores=place.machine.cores[index * cores : (index + 1) * cores],
            gpus=tuple(gpu.entry for gpu in place.machine.gpus[index * gpus : (index + 1) * gpus]),
            environment=environment,
            command=command,
            log=place.folder.log(trial=assignment.trial, attempt=assignment.attempt, pod=index),
            scratch=place.scratch / f"{job}-{index}",
        )


def _addresses(count: int) -> list[str]:
    """Addresses of this machine that nobody uses, one for each pod: pods of one gang open the same ports.

    127.0.0.0/16 is avoided, where programs of the machine listen; the rest of 127.0.0.0/8 is this machine, too.
    """
    chooser = random.SystemRandom()
    found: list[str] = []
    while len(found) < count:
        address = f"127.{chooser.randint(1, 254)}.{chooser.randint(0, 255)}.{chooser.randint(1, 254)}"
        if address not in found and _is_free(address):
            found.append(address)
    return found


def _is_free(address: str) -> bool:
    for port in (names.PORT_RENDEZVOUS, names.PORT_BARRIER):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError:
                return False
    return True
