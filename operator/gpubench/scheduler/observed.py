# SPDX-License-Identifier: Apache-2.0
"""What was seen of a benchmark at one moment: its Jobs and their pods, reduced to what decisions need.

Each edge fills these values: from the API server, or from processes. Times are seconds since the epoch.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from gpubench.api import benchmark, benchmark_status, condition
from gpubench.api.pool_health import PoolTests
from gpubench.scheduler.ledger import Change, Machine
from gpubench.values import FrozenModel


class Study(FrozenModel):
    """The benchmark object itself."""

    namespace: str
    name: str
    uid: str
    generation: int
    created_at: float
    spec: benchmark.GpuBenchmarkSpec
    status: benchmark_status.GpuBenchmarkStatus = benchmark_status.GpuBenchmarkStatus()  # as it was written last

    @property
    def conditions(self) -> tuple[condition.Condition, ...]:
        """Of its status, so that a transition keeps its time."""
        return self.status.conditions

    @classmethod
    def of_spec(cls, spec: benchmark.GpuBenchmarkSpec, **fields: Any) -> "Study":
        """A benchmark that is no object of a cluster."""
        unknown = {"namespace": "local", "name": "local", "uid": "local", "generation": 1, "created_at": 0.0}
        return cls(spec=spec, **unknown | fields)


class ContainerEnd(FrozenModel):
    """A terminated container."""

    exit_code: int
    reason: str | None = None  # OOMKilled, Error, Completed, ...
    message: str | None = None  # the termination message
    started_at: float | None = None
    finished_at: float | None = None
    init: str | None = None  # the init container that ended, and with it the pod
    is_refused: bool = False  # the node did not take the pod: no container of it ever was


class OtherContainer(FrozenModel):
    """A container beside `gang` that ended badly, or an init container that `gang` waits for."""

    name: str
    reason: str  # Running, CrashLoopBackOff, Error, ...
    exit_code: int | None = None
    message: str | None = None


class Disruption(FrozenModel):
    """The DisruptionTarget condition of a pod."""

    reason: str  # PreemptionByScheduler, EvictionByEvictionAPI, DeletionByTaintManager, TerminationByKubelet, ...
    message: str


class Said(FrozenModel):
    """What a component of the cluster says: an Event, a condition, an admission check."""

    source: str
    reason: str
    message: str


class ObservedPod(FrozenModel):
    """One pod of a gang."""

    name: str
    index: int
    phase: str  # Pending, Running, Succeeded, Failed, Unknown
    node: str | None = None
    scheduled_at: float | None = None
    scheduling_message: str | None = None  # what the scheduler said when it found no node
    said: Said | None = None  # the newest Event about it of anybody else, as an autoscaler, while it has none
    host: str | None = None  # the only node that its nodeSelector allows
    #: Of the container: ErrImagePull, ImagePullBackOff, CreateContainerConfigError, ...
    waiting_reason: str | None = None
    waiting_message: str | None = None
    mount_failure: str | None = None  # the message of a recent FailedMount event, where it waits on its node
    running_at: float | None = None  # when its container was started
    deleting: bool = False
    told_to_end_at: float | None = None  # when it was deleted: its deletionTimestamp less its grace period
    disruption: Disruption | None = None
    end: ContainerEnd | None = None
    others: tuple[OtherContainer, ...] = ()
    scheduler: str | None = None  # that has not said a word of it yet
    image_id: str | None = None
    uid: str | None = None
    created_at: float | None = None
    changed: tuple[Change, ...] = ()  # as it is looked at when it gets its node
    kept_by: str | None = None  # a container that runs on after its `gang` has ended: it still holds its node
    last_end_at: float | None = None  # when the last of its containers ended, once none runs
    gone_at: float | None = None  # when it was seen to be deleted; else it is there
    job_uid: str | None = None  # of the Job that made it

    @property
    def exit_code(self) -> int | None:
        return None if self.end is None else self.end.exit_code

    @property
    def ended_at(self) -> float | None:
        return None if self.end is None else self.end.finished_at

    @property
    def has_left(self) -> bool:
        return self.gone_at is not None or (self.end is not None and self.kept_by is None)

    @property
    def left_at(self) -> float | None:
        """When it let go of its node; None while it holds it, or where only that it has is known."""
        return (self.last_end_at or self.ended_at or self.gone_at) if self.has_left else None

    @property
    def is_being_created(self) -> bool:
        """Whether it has a node and no container: an image is pulled, or a volume is not there."""
        placed = self.phase == "Pending" and self.node is not None
        is_begun = self.running_at is not None or self.others
        return placed and not is_begun and self.waiting_reason in (None, "ContainerCreating", "PodInitializing")


class Workload(FrozenModel):
    """What Kueue makes of a Job that it manages, and says in its conditions."""

    name: str
    active: bool = True
    is_reserved: bool = False  # whether it has its quota
    waits: Said | None = None  # why it has none, or is not admitted with it
    checks: tuple[Said, ...] = ()  # admission checks that are not ready
    evicted: Said | None = None
    finished: Said | None = None


class ObservedJob(FrozenModel):
    """The Job of one attempt."""

    name: str
    uid: str
    trial: str
    attempt: int
    pool: str
    slots: int  # of the pool that it holds
    created_at: float
    deleting: bool = False
    deleting_since: float | None = None  # its deletionTimestamp
    complete: bool = False  # condition Complete or SuccessCriteriaMet
    failing_since: float | None = None  # condition FailureTarget (or Failed): the Job controller is ending it
    failed: bool = False  # condition Failed: every pod has ended
    failed_reason: str | None = None
    failed_message: str | None = None
    has_ttl: bool = False
    drilled: str | None = None  # its pod that was chosen to be evicted on purpose
    pods: tuple[ObservedPod, ...] = ()  # by their indices
    creation_failure: str | None = None  # the message of its FailedCreate event, where it has fewer pods than it wants
    queue: str | None = None  # of Kueue, to which it was given
    suspended: bool = False  # it waits to be admitted, or has been evicted from its queue: it has no pods but `leaving`
    suspended_since: float | None = None
    #: When it was last set going: a Job that is suspended and resumed begins its clock anew.
    started_at: float | None = None
    leaving: tuple[ObservedPod, ...] = ()  # pods of a run before, which the Job controller has told to end
    parallelism: int | None = None  # pods that may run at a time
    host: str | None = None  # that the nodeSelector of its pods was created with
    workload: Workload | None = None  # Kueue's, while it is suspended; from its Events where it cannot be read
    lacks_workload: bool = False  # while it is suspended, and Kueue is there
    #: Who wrote that it is suspended, or else how many pods may run, as far as managedFields tell.
    changed_by: str = "somebody else"
    rewritten: str | None = None  # what stands in it in place of what was asked for, and ends no run well
    disowned: str | None = None  # which of the labels or owners it is found by others have taken

    @property
    def waits(self) -> bool:
        """Whether it is suspended, or was: its clock starts with `startTime`, which comes after its admission."""
        was_suspended = self.queue is not None or self.suspended_since is not None
        return self.suspended or (was_suspended and self.started_at is None)

    @property
    def begun_at(self) -> float:
        """From when on its pods may be expected: its creation, unless it had to wait; infinite while it does."""
        return math.inf if self.waits else max(self.created_at, self.started_at or 0.0)

    @property
    def key(self) -> str:
        return f"{self.trial}.{self.attempt}"

    @property
    def holds_slots(self) -> bool:
        is_over = self.complete or self.failed or self.suspended or self.deleting  # nobody makes further pods
        return not is_over or any(pod.node and not pod.has_left for pod in (*self.pods, *self.leaving))


class FreeSlots(FrozenModel):
    """Slots of a pool that no attempt of any benchmark holds."""

    pool: str
    slots: int
    held: int = 0  # by attempts of all benchmarks
    until: float = math.inf  # only for attempts that are expected to have ended by then: others are in line before
    pace: float = 5.0  # seconds: how often one that lacks some looks, as others free them without an event of its own

    def for_one_that_ends(self, moment: float) -> int:
        return self.slots if moment <= self.until else 0


#: A kubelet that is silent for so long has lost its pods. By default the cluster says so itself after 300 s, by taking
#: the pods away; where pods tolerate the taint for ever, or no controller does, nobody else would.
NODE_SILENT_SECONDS = 360.0


class ObservedNode(FrozenModel):
    """What a cluster says of a node, or said last before it was gone; None: it does not say."""

    name: str
    instance_type: str | None = None
    zone: str | None = None
    block: str | None = None
    rack: str | None = None
    machine: Machine = Machine()
    ready: bool | None = None  # whether its kubelet reports that it takes pods
    silent_since: float | None = None  # of one that is not ready: since when
    gone_since: float | None = None  # when somebody first looked for it in vain, after it had been there
    taints: tuple[str, ...] = ()  # their keys, and what else announces its end: labels, reasons of Events
    created_at: float | None = None  # the Node object: one of the same name that was made later is another machine
    taints_before: tuple[str, ...] = ()  # those of the Node that had its name before it
    leaving_since: float | None = None  # when its end was first seen to be announced


class SeenNode(NamedTuple):
    """A node that came while the benchmark runs."""

    node: ObservedNode
    pool: str
    has_run: bool = False  # a gang of the benchmark
    is_shared: bool = False  # others use it


class Observed(FrozenModel):
    """Everything that one decision is made from, besides plan, ledger and time."""

    study: Study
    jobs: tuple[ObservedJob, ...] = ()
    free: tuple[FreeSlots, ...] = ()
    histories: Mapping[str, tuple[PoolTests, ...]] = {}  # tests of all benchmarks, by pool, as far as they are needed
    gone: tuple[ObservedPod, ...] = ()  # pods that were deleted, as they were then
    is_ledger_alone: bool = False  # nobody looked at anything
    nodes: tuple[ObservedNode, ...] = ()  # those of the attempts of `jobs`, as far as they are known
    new_nodes: tuple[SeenNode, ...] = ()
    node_silent_seconds: float = NODE_SILENT_SECONDS
    queue_is_served: bool = True  # whether the cluster has Kueue, where the benchmark needs it

    def gone_of(self, uid: str) -> tuple[ObservedPod, ...]:
        return tuple(pod for pod in self.gone if pod.job_uid == uid)
