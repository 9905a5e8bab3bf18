# SPDX-License-Identifier: Apache-2.0
"""What is to be done now: the answer of `step`, carried out in the order of its fields.

Each part can be carried out twice without harm: names and UIDs of Jobs and pods guard against others of the same name.
Actions that were carried out in part are simply decided again.
"""

from collections.abc import Mapping
from typing import Literal

from gpubench.plan.assignment import Assignment
from gpubench.scheduler import ledger, observed
from gpubench.values import FrozenModel


class Gang(FrozenModel):
    """An attempt that is to be started: one Job of `nodes` pods."""

    assignment: Assignment
    pool: str
    nodes: int
    slots: int  # of the pool that it holds


class Description(FrozenModel):
    """Pod 0 of an attempt that has ended: the head of its log has the full record of an environment."""

    environment: str  # comparability key in the attempt's result
    trial: str
    attempt: int
    pod: str


class Cordon(FrozenModel):
    """A node that is to take no new pods for a while."""

    node: str
    until: float


class Eviction(FrozenModel):
    """A pod of an attempt that is to be evicted on purpose; before, its name is written on the attempt's Job."""

    job: observed.ObservedJob
    pod: observed.ObservedPod
    cordon: Cordon | None = None  # before it is evicted


class Event(FrozenModel):
    """An Event of Kubernetes about the benchmark."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str

    @classmethod
    def normal(cls, reason: str, message: str) -> "Event":
        return cls(type="Normal", reason=reason, message=message)

    @classmethod
    def warning(cls, reason: str, message: str) -> "Event":
        return cls(type="Warning", reason=reason, message=message)


class Actions(FrozenModel):
    """Records first (nothing may be lost), then Jobs, then the status, then what people are told."""

    record: tuple[ledger.AttemptRecord, ...] = ()
    let_go: tuple[ledger.AttemptRecord, ...] = ()  # written as well: attempts that had ended, whose pods end only now
    new_nodes: ledger.NewNodes = ledger.NewNodes()  # as they are to be in the ledger
    delete: tuple[observed.ObservedJob, ...] = ()  # with foreground propagation: the Job stays until its pods are gone
    describe: tuple[Description, ...] = ()  # store the environment in its log; what cannot be read is left out
    retire: tuple[observed.ObservedJob, ...] = ()  # finished and recorded: give it a time to live
    create: tuple[Gang, ...] = ()
    short_of: Mapping[str, int] = {}  # slots that must be free, by the pool on which a trial could start then
    disrupt: tuple[Eviction, ...] = ()  # on purpose, as spec.drill asks
    requeue_at: float | None = None  # when to reconcile again though nothing happens
