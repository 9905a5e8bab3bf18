# SPDX-License-Identifier: Apache-2.0
"""What the launcher finds in its pod's environment, validated once. Nothing else reads these variables."""

import ipaddress
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from pydantic import ValidationError

from gpubench import names, workloads
from gpubench.plan import assignment as assignments
from gpubench_jobs import limits, ranks

_LOOPBACK = "lo"


class BadSetting(ValueError):
    """The pod cannot begin: the sentence names the variable, its value and the remedy."""


@dataclass(frozen=True)
class Setting:
    """One pod of one attempt."""

    assignment: assignments.Assignment
    pod: int
    ranks: tuple[ranks.Rank, ...]
    pod_ip: str
    interface: str  # the network interface that carries the pod's address
    rendezvous_host: str  # pod 0, by name or address
    limits: limits.Limits
    records: Path | None = None  # the file on the results volume that gets its records, too
    runs_again: bool = False  # pods of a run before of this very attempt may have left records
    token: str | None = field(default=None, repr=False)  # of the study's pods; None where nobody has given one
    checkpoints: Path | None = None  # the folder of this training's checkpoints; None where it keeps none

    @property
    def pods(self) -> int:
        """Pods of the gang."""
        return self.assignment.nodes

    @property
    def gang(self) -> str:
        """What this attempt's barrier is called: an address may have belonged to another attempt's pod before.

        The host is pod 0's name, which has the study's in it: trial and attempt alone are the same for two studies of
        equal content.
        """
        attempt = f"{self.assignment.trial}-{self.assignment.attempt}"
        return f"{self.rendezvous_host}/{attempt}" if self.pods > 1 else attempt


def termination_message(variables: Mapping[str, str]) -> Path:
    """Where the last words go; known also when nothing else is."""
    return Path(variables.get(names.ENV_TERMINATION_MESSAGE) or names.TERMINATION_MESSAGE_PATH)


def identity(variables: Mapping[str, str]) -> tuple[str, int]:
    """Trial and attempt for a Failure, as far as they can be read from an assignment that is not valid."""
    try:
        raw = json.loads(variables[names.ENV_ASSIGNMENT])
        return str(raw["trial"]), int(raw["attempt"])
    except (KeyError, TypeError, ValueError):
        return "unknown", 0


def read(variables: Mapping[str, str]) -> Setting:
    """The setting, or BadSetting."""
    assignment = _assignment(variables)
    pod = _pod_index(variables)
    pod_ip = _required(variables, names.ENV_POD_IP)
    try:
        own_ranks = ranks.of_pod(assignment, pod=pod)
        allowed = limits.from_environment(variables)
    except ValueError as error:
        raise BadSetting(str(error)) from error
    # A gang of one pod need not find itself by name.
    host = _required(variables, names.ENV_RENDEZVOUS_HOST) if assignment.nodes > 1 else pod_ip
    return Setting(
        assignment=assignment,
        pod=pod,
        ranks=own_ranks,
        pod_ip=pod_ip,
        interface=_interface(pod_ip),
        rendezvous_host=host,
        limits=allowed,
        records=_records(variables, assignment, pod=pod),
        runs_again=variables.get(names.ENV_RUNS_AGAIN) == "true",
        token=variables.get(names.ENV_GANG_TOKEN) or None,
        checkpoints=_checkpoints(variables, assignment),
    )


def _required(variables: Mapping[str, str], name: str) -> str:
    if not (value := variables.get(name, "").strip()):
        raise BadSetting(f"{name} is not set: the pod was not made by gpubench, or by a version that does not fit")
    return value


def _assignment(variables: Mapping[str, str]) -> assignments.Assignment:
    text = _required(variables, names.ENV_ASSIGNMENT)
    try:
        assignment = assignments.Assignment.model_validate_json(text)
        if assignment.custom_file is None:
            workloads.find(assignment.workload)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the text"
        raise BadSetting(
            f"{names.ENV_ASSIGNMENT}: {place}: {first['msg']}: use an image of the operator's version"
        ) from error
    except LookupError as error:
        raise BadSetting(f"{names.ENV_ASSIGNMENT}: {error.args[0]}") from error
    return assignment


def _pod_index(variables: Mapping[str, str]) -> int:
    text = _required(variables, names.ENV_POD_INDEX)
    if not text.isdecimal():
        raise BadSetting(f"{names.ENV_POD_INDEX} is {text!r}, not a number: the Job must have completionMode Indexed")
    return int(text)


def _records(variables: Mapping[str, str], assignment: assignments.Assignment, *, pod: int) -> Path | None:
    folder = variables.get(names.ENV_RECORDS, "").strip()
    name = names.log_name(trial=assignment.trial, attempt=assignment.attempt, pod=pod)
    return Path(folder) / name if folder else None


def _checkpoints(variables: Mapping[str, str], assignment: assignments.Assignment) -> Path | None:
    if assignment.checkpoint is None:
        return None
    return Path(_required(variables, names.ENV_CHECKPOINTS)) / assignment.trial


def _interface(address: str) -> str:
    """The interface that carries an address; Gloo and NCCL are told its name."""
    try:
        parsed = ipaddress.IPv4Address(address)
    except ValueError as error:
        raise BadSetting(
            f"{names.ENV_POD_IP} is {address!r}: Horovod's Gloo needs an IPv4 address: use a cluster that has them"
        ) from error
    if parsed.is_loopback:
        return _LOOPBACK
    for name, addresses in psutil.net_if_addrs().items():
        if any(found.address == address for found in addresses):
            return name
    raise BadSetting(f"{names.ENV_POD_IP} is {address}, which no network interface of this pod carries")
