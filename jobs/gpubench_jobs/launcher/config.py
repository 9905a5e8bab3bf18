# SPDX-License-Identifier: Apache-2.0
"""What a pod is told: its environment, read and validated once, the launcher's limits, its ranks and their cores."""

import ipaddress
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Self

import psutil
from pydantic import ValidationError

from gpubench import names, records, workloads
from gpubench.plan.assignment import Assignment
from gpubench_jobs import channel

_LOOPBACK = "127.0.0.1"  # every pod has it, also one without another IPv4 address


@dataclass(frozen=True)
class Limits:
    """How long the launcher waits for what. Each can be set in the environment as GPUBENCH_LIMIT_<NAME>, in seconds.

    Constants of the protocol, not of a benchmark; tests make them short.
    """

    #: A pod that only lost a peer stays so long, so that the victim's end is seen first; a deleted node shows in 49 s.
    linger_seconds: float = 60.0
    #: From the first lost peer until the blame is laid: a rank of the same pod may have died for a reason of its own.
    settle_seconds: float = 1.0
    #: Without progress for so long while starting (imports, tracing) a rank has stalled, or the assignment's if longer.
    start_seconds: float = 300.0
    #: Until ranks that wait in a collective are blamed for a stall: a peer's launcher that knows better comes first.
    stall_grace_seconds: float = 5.0
    #: From SIGTERM to SIGKILL of a worker. Spot nodes leave 15 s in all.
    kill_seconds: float = 2.0
    #: For pod 0, after a failure, until the other pods have asked.
    inform_seconds: float = 2.0
    #: For pod 0, after success, until they have acknowledged; it adds keep_seconds, which they wait for their volumes.
    done_seconds: float = 30.0
    #: From SIGTERM until a last checkpoint is whole; other pods go on as long with their ranks, which it needs.
    last_checkpoint_seconds: float = 5.0
    #: From the last record until the results volume has all; with SIGKILL, within the 15 s of a spot node.
    keep_seconds: float = 5.0
    #: Without an answer of pod 0 for so long, it is lost.
    silence_seconds: float = 15.0
    #: Between two looks at the barrier, while waiting for it and while workers run (whose cores the looks cost).
    poll_seconds: float = 0.2
    watch_seconds: float = 1.0

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Self:
        """The limits with what the environment overrides; ValueError for what is no number."""
        variable_of = {
            limit.name: f"GPUBENCH_LIMIT_{limit.name.removesuffix('_seconds').upper()}" for limit in fields(cls)
        }
        return cls(**{name: float(variables[of]) for name, of in variable_of.items() if of in variables})


class BadConfig(ValueError):
    """The pod cannot begin: the message names the variable, its value and the remedy."""


@dataclass(frozen=True)
class PodConfig:
    """One pod of one attempt."""

    assignment: Assignment
    pod: int
    ranks: range
    pod_ip: str
    gang_ip: str  # where this pod meets its gang: its own address, or the loopback where it is alone without IPv4
    interface: str  # the network interface that carries that address
    rendezvous_host: str  # pod 0, by name or address
    limits: Limits
    records: Path | None = None  # the file on the results volume that gets its records, too
    runs_again: bool = False  # pods of a run before of this very attempt may have left records
    token: str | None = field(default=None, repr=False)  # of the benchmark's pods; None where nobody has given one
    checkpoints: Path | None = None  # the folder of this training's checkpoints; None where it keeps none

    @property
    def pods(self) -> int:
        return self.assignment.nodes

    @property
    def gang(self) -> str:
        """Its barrier's name. Equal benchmarks have equal trials: pod 0's name has the benchmark's in it."""
        attempt = f"{self.assignment.trial}-{self.assignment.attempt}"
        return f"{self.rendezvous_host}/{attempt}" if self.pods > 1 else attempt


def trial_and_attempt(variables: Mapping[str, str]) -> tuple[str, int]:
    """Trial and attempt for a Failure, as far as they can be read from an assignment that is not valid."""
    try:
        raw = json.loads(variables[names.ENV_ASSIGNMENT])
        return str(raw["trial"]), int(raw["attempt"])
    except (KeyError, TypeError, ValueError):
        return "unknown", 0


def read(variables: Mapping[str, str]) -> PodConfig:
    """The pod's configuration, or BadConfig."""
    assignment = _assignment(variables)
    index = _required(variables, names.ENV_POD_INDEX)
    if not index.isdecimal():
        raise BadConfig(f"{names.ENV_POD_INDEX} is {index!r}, not a number: the Job must have completionMode Indexed")
    pod = int(index)
    addresses = _required(variables, names.ENV_POD_IP).split(",")
    pod_ip = next((one for one in addresses if ":" not in one), addresses[0])
    gang_ip = _LOOPBACK if ":" in pod_ip and assignment.nodes == 1 else pod_ip
    try:
        own_ranks, limits = ranks_of_pod(assignment, pod=pod), Limits.from_environment(variables)
    except ValueError as error:
        raise BadConfig(str(error)) from error
    folder = variables.get(names.ENV_RECORDS, "").strip()
    log = names.log_name(trial=assignment.trial, attempt=assignment.attempt, pod=pod)
    return PodConfig(
        assignment=assignment,
        pod=pod,
        ranks=own_ranks,
        pod_ip=pod_ip,
        gang_ip=gang_ip,
        interface=_interface(gang_ip),
        # A gang of one pod need not find itself by name.
        rendezvous_host=_required(variables, names.ENV_RENDEZVOUS_HOST) if assignment.nodes > 1 else gang_ip,
        limits=limits,
        records=Path(folder) / log if folder else None,
        runs_again=variables.get(names.ENV_RUNS_AGAIN) == "true",
        token=variables.get(names.ENV_GANG_TOKEN) or None,
        checkpoints=Path(_required(variables, names.ENV_CHECKPOINTS)) / assignment.trial
        if assignment.checkpoint is not None
        else None,
    )


def _required(variables: Mapping[str, str], name: str) -> str:
    if not (value := variables.get(name, "").strip()):
        raise BadConfig(f"{name} is not set: the pod was not made by gpubench, or by a version that does not fit")
    return value


def _assignment(variables: Mapping[str, str]) -> Assignment:
    text = _required(variables, names.ENV_ASSIGNMENT)
    try:
        assignment = Assignment.model_validate_json(text)
        if assignment.custom_file is None:
            workloads.find(assignment.workload)
    except ValidationError as error:
        wrong = records.first_error(error)
        raise BadConfig(f"{names.ENV_ASSIGNMENT}: {wrong}: use an image of the operator's version") from error
    except LookupError as error:
        raise BadConfig(f"{names.ENV_ASSIGNMENT}: {error.args[0]}") from error
    return assignment


def _interface(address: str) -> str:
    """The interface that carries an address; Gloo and NCCL are told its name."""
    try:
        if ipaddress.IPv4Address(address).is_loopback:
            return "lo"
    except ValueError as error:
        raise BadConfig(
            f"{names.ENV_POD_IP} is {address!r}: Horovod needs IPv4 between pods: use gangs of one pod, or a cluster "
            "that has IPv4 addresses"
        ) from error
    for name, addresses in psutil.net_if_addrs().items():
        if any(found.address == address for found in addresses):
            return name
    raise BadConfig(f"{names.ENV_POD_IP} is {address}, which no network interface of this pod carries")


def ranks_of_pod(assignment: Assignment, *, pod: int) -> range:
    """The ranks of one pod; ValueError when the assignment has no such pod or cannot be divided into pods."""
    size, local_size = assignment.workers, assignment.workers_per_node
    if size % local_size or not 0 <= pod < size // local_size:
        raise ValueError(
            f"{size} workers in pods of {local_size} have no pod {pod}: make one number a multiple of the other, or "
            f"correct {names.ENV_POD_INDEX}"
        )
    return range(pod * local_size, (pod + 1) * local_size)


def share_cores(
    cores: Iterable[int], *, ranks: int, processors: float, alone: bool
) -> tuple[tuple[int, ...], ...] | None:
    """Disjoint sets of cores, one for each local rank, as many in each as the rank has threads. None: do not pin.

    A set of exactly the cores that are needed was reserved for this pod. A larger one is the whole node's: unless the
    pod is alone there, its neighbours see the same set, and all would take the same first cores.
    ValueError when the pod has too few: ranks that share a core would make every figure of scaling meaningless.
    """
    own, threads = sorted(cores), channel.threads(processors)
    if ranks * threads > len(own):
        raise ValueError(
            f"{ranks} ranks of {threads} processors do not fit the {len(own)} processors of this pod: "
            "give the pool's nodes fewer slots or smaller ones"
        )
    if len(own) > ranks * threads and not alone:
        return None
    return tuple(tuple(own[n * threads : (n + 1) * threads]) for n in range(ranks))
