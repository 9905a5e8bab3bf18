# SPDX-License-Identifier: Apache-2.0
"""The attempt ledger: one entry for each attempt, written when its Job exists, completed when it has ended.

Each entry has its own key (`<trial>.<attempt>`), so that writing it twice changes nothing. Beside the attempts lies the
full environment that a figure stands on, under `environment.<key>`: a termination message has the key only, and logs go
with their pods. Nodes that came while the benchmark ran are in one entry, `nodes`, written anew until the end. Entries
live in ConfigMaps or a results folder; this module knows the text, not the place.
"""

import itertools
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

from gpubench import records, values
from gpubench.api import pool_health, pool_price
from gpubench.records import Environment, Result

SHARD_BYTES_MAX = 512 * 1024  # of a ConfigMap with its entries as they will be; the API server takes 1 MiB
ENTRY_BYTES = 8 * 1024  # of an attempt that has ended: its result
ENTRY_BYTES_PER_POD = 128  # its node and times
PODS_OF_RUNS_MAX = 32  # in an entry, of runs before its last, or one run: no larger than the rest of it

#: Environments that a benchmark keeps: a pool of equal nodes has one. A user's own program could make up any number.
ENVIRONMENTS_MAX = 64
ENVIRONMENT_BYTES_MAX = 8 * 1024
_ENVIRONMENT = "environment."  # no trial's id: those have eight characters


class Outcome(StrEnum):
    """How an attempt ended, as it is counted."""

    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    PREEMPTED = "Preempted"
    STOPPED = "Stopped"  # by the benchmark itself or while it waited in a queue: held against nobody


class Interruption(StrEnum):
    """Who took a preempted attempt its pods; how it is told is in `interruptions`."""

    RECLAIM = "Reclaim"  # the provider wants the machine back
    EVICTION = "Eviction"  # somebody or something of the cluster: a drain, an autoscaler, a higher priority
    NODE_LOST = "NodeLost"  # it vanished, or fell silent, and nobody had said so


class Reason(StrEnum):
    """Why an attempt ended, in one word for programs."""

    COMPLETED = "Completed"
    DISRUPTED = "Disrupted"  # a pod of the gang carried DisruptionTarget
    NODE_LOST = "NodeLost"  # a node of it is gone or silent, and no pod says DisruptionTarget
    NODE_LEAVING = "NodeLeaving"  # a pod was told to end on a node that was about to go, without DisruptionTarget
    SUSPENDED = "Suspended"
    BUDGET_EXHAUSTED = "BudgetExhausted"  # what it would still be billed did not fit into limits.budget
    BAD_ASSIGNMENT = "BadAssignment"
    UNSUPPORTED_ACCELERATOR = "UnsupportedAccelerator"
    OUT_OF_MEMORY = "OutOfMemory"
    SIZE_MISMATCH = "SizeMismatch"
    LOSS_NOT_FINITE = "LossNotFinite"
    DATA_UNUSABLE = "DataUnusable"
    CUSTOM_MODEL_FAILED = "CustomModelFailed"
    WORKER_RAISED = "WorkerRaised"
    JOIN_TIMEOUT = "JoinTimeout"
    PEER_LOST = "PeerLost"
    STALLED = "Stalled"
    TERMINATED = "Terminated"
    EXITED = "Exited"  # with a code that is none of ours
    RESULT_LOST = "ResultLost"  # it succeeded and its result is nowhere
    DISK_FULL = "DiskFull"  # no room for log, last words or scratch files, or the kubelet evicted a pod for its disk
    IMAGE_INVALID = "ImageInvalid"  # a name that cannot be, or an image that must not be pulled and is not there
    IMAGE_NOT_STARTED = "ImageNotStarted"  # the registry or the runtime says no; perhaps not the next time
    POD_NOT_STARTED = "PodNotStarted"  # it has a node, whose kubelet did not start it in time and does not say why
    POD_INITIALIZING = "PodInitializing"  # an init container of it did not come to its end, or up, in time
    INIT_FAILED = "InitFailed"  # an init container of it ended with another code than 0
    POD_REFUSED = "PodRefused"  # by the kubelet of its node, for a reason of its own
    VOLUME_NOT_MOUNTED = "VolumeNotMounted"  # a claim, a ConfigMap or a folder of the node is not there
    CREATION_REFUSED = "CreationRefused"  # quota, Pod Security, a webhook
    ADMISSION_REFUSED = "AdmissionRefused"  # the API server has taken no Job of it for limits.capacityTimeout
    OTHER_MACHINES = "OtherMachines"  # than those of a repeat that was measured: no mean may be made of both
    NO_CAPACITY = "NoCapacity"  # pods stayed pending until a time-out, or gave their turn to another pool's
    NODE_GONE = "NodeGone"  # with placement EachNode: the only node that it may run on is not there any more
    TIMED_OUT = "TimedOut"
    QUEUE_GAVE_UP = "QueueGaveUp"  # Kueue has finished with its Workload, and will never admit it
    JOB_VANISHED = "JobVanished"  # somebody else deleted the Job
    JOB_CHANGED = "JobChanged"  # somebody else took its labels, its owner or its pods
    POD_VANISHED = "PodVanished"  # somebody else deleted a pod, and the others wait for it


#: Of one pod, in seconds after its Job was created: when it got its node, when its container started (None where it
#: never did), and when it had ended or the attempt had. A gang may have 4,096 pods, and its entry must fit a ConfigMap.
PodTimes = tuple[float, float | None, float]


#: Zone, block and rack of a node; None where no label of it says.
Place = tuple[str | None, str | None, str | None]


class Machine(values.FrozenModel):
    """What a node says that it is; None: it does not say."""

    capacity: pool_price.CapacityType | None = None
    label: str | None = None  # that says so, with its value
    accelerator: str | None = None
    gpus: int | None = None


class Change(values.FrozenModel):
    """What somebody else, as a policy engine, changed in a pod's spec."""

    field: str
    planned: str | None = None
    got: str | None = None
    is_more: bool = False  # than was planned


class Usual(values.FrozenModel):
    """What tests of one kind on an attempt's pool were like when it ended, over all benchmarks, its own left out."""

    test: pool_health.Test
    median: float
    deviation: float  # median absolute deviation from the median
    tests: int
    nodes: int | None = None  # that these were made on; None where it is not known
    oldest_at: float


class Segment(values.FrozenModel):
    """A run of an attempt that Kueue has evicted, and may admit anew. Seconds are counted from the Job's creation."""

    admitted_at: float
    ended_at: float
    nodes: tuple[str, ...] = ()
    pod_times: tuple[PodTimes, ...] = ()
    holding: tuple[tuple[int, str], ...] = ()  # positions in `pod_times` of pods that still hold their nodes, and names
    unseen: int = 0  # of its pods: nobody saw when they let go of their nodes
    summed: int = 1  # runs that it is the sum of

    def held_in_parts(self, pods: int) -> float:
        """Seconds for which some of the pods had a node, where never all of them did."""
        begins = [placed for placed, _, _ in self.pod_times]
        return self.ended_at - min(begins) if 0 < len(begins) < pods else 0.0

    def with_later(self, other: "Segment") -> "Segment":
        """Both in one: as if its pods had waited and held their nodes for as long as those of both."""
        first = min((placed for placed, _, _ in other.pod_times), default=other.admitted_at)
        waited = max(0.0, first - other.admitted_at)
        both = zip(self.pod_times, other.pod_times, strict=True)
        times = ((placed + waited, ended + waited + end - begin) for (placed, _, ended), (begin, _, end) in both)
        return Segment(
            admitted_at=self.admitted_at,
            ended_at=round(self.ended_at + other.ended_at - other.admitted_at, 3),
            nodes=other.nodes,
            pod_times=tuple((round(placed, 3), None, round(ended, 3)) for placed, ended in times),
            unseen=self.unseen + other.unseen,
            summed=self.summed + other.summed,
        )


def folded(runs: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Runs with at most PODS_OF_RUNS_MAX pods: two that had as many become one.

    What was waited and what each pod held stays exact in sum; nodes are those of the later run. Runs stay as they are
    that are open, or began with the last one's clock, by which their pods are known.
    """
    while sum(max(1, len(run.pod_times)) for run in runs) > PODS_OF_RUNS_MAX:
        alone = [bool(run.holding) or run.admitted_at == runs[-1].admitted_at for run in runs]
        closed = ((at, len(run.pod_times)) for at, run in enumerate(runs) if not alone[at])
        pairs = ((other, one) for (one, pods), (other, same) in itertools.combinations(closed, 2) if pods == same)
        other, one = min(pairs, default=(None, None))  # the oldest that another is like
        if one is None or other is None:
            break
        runs = (*runs[:one], runs[one].with_later(runs[other]), *runs[one + 1 : other], *runs[other + 1 :])
    return runs


class AttemptRecord(records.Stored):
    """One attempt. Times are seconds since the epoch, from API timestamps."""

    trial: str
    attempt: int
    job: str
    job_uid: str
    created_at: float
    outcome: Outcome | None = None  # None while it runs
    reason: Reason | None = None
    disruption: str | None = None  # the reason in DisruptionTarget
    interruption: Interruption | None = None  # of a preempted one, where it is known
    node_created_at: float | None = None  # of the node that was about to go, from which a pod of it was evicted
    drilled: str | None = None  # the pod of it that was evicted on purpose: no interruption of the pool's
    sentence: str | None = None
    exit_code: int | None = None
    ended_at: float | None = None
    nodes: tuple[str, ...] = ()  # known as soon as all of its pods have one: a node may be gone when the attempt ends
    placed_at: tuple[float, ...] = ()  # with `nodes`: when each pod had its node, in seconds after the Job's creation
    node_seconds: float | None = None  # pods' time on their nodes, summed: from scheduled to finished
    pod_times: tuple[PodTimes, ...] = ()  # of its pods that had a node, in their order
    image_id: str | None = None  # digest that pod 0 really ran
    instance_types: tuple[str, ...] = ()  # distinct, of the nodes; empty where one of them is not known
    zones: tuple[str, ...] = ()  # distinct, of the nodes, as far as they are known
    machines: tuple[Machine, ...] = ()  # distinct, of the nodes, as far as they are known
    places: tuple[Place, ...] = ()  # distinct, of the nodes; empty where one of them is not known, or none has a label
    pod_places: tuple[int, ...] = ()  # with `places`: which of them each of `nodes` is at
    changed: tuple[Change, ...] = ()  # distinct, of its pods
    result: Result | None = None
    queue: str | None = None  # of Kueue, in which its Job was; absent where it was in none
    admitted_at: float | None = None  # of the run that the fields above tell of: seconds after the Job's creation
    segments: tuple[Segment, ...] = ()  # its runs before, each of which Kueue has ended
    usual: tuple[Usual, ...] = ()  # frozen with the attempt: a status says the same whenever it is made
    refused: float | None = None  # seconds for which the API server did not take its Job
    holding: tuple[tuple[int, str], ...] = ()  # once it has ended; as of a segment
    unseen: int = 0  # as of a segment

    @property
    def key(self) -> str:
        return f"{self.trial}.{self.attempt}"

    @property
    def is_refused(self) -> bool:
        """Whether the API server has taken no Job of it yet: it has not begun, and was tried last at `created_at`."""
        return self.outcome is None and not self.job_uid

    @property
    def is_closed(self) -> bool:
        """Whether it has ended, and its pods with it: nothing of it changes any more."""
        return self.outcome is not None and not self.holds_nodes

    @property
    def is_queued(self) -> bool:  # or suspended, or ended so: it has no pods but those of runs before
        return self.admitted_at is None and (self.queue is not None or bool(self.segments))

    @property
    def clock(self) -> float:
        """By which the pods of its run, or of the last one, are told from those of runs before."""
        last = self.segments[-1].admitted_at if self.segments else 0.0
        return last if self.admitted_at is None else self.admitted_at

    @property
    def last_end(self) -> float:  # of its runs before
        return max((run.ended_at for run in self.segments), default=0.0)

    @property
    def runs(self) -> "tuple[AttemptRecord | Segment, ...]":
        return (self, *self.segments)

    @property
    def holds_nodes(self) -> bool:
        return bool(self.holding) or any(run.holding for run in self.segments)

    @property
    def accelerators(self) -> tuple[str, ...]:
        """Distinct, of the nodes; empty where one of them is not known."""
        return self._of_machines("accelerator")

    @property
    def capacities(self) -> tuple[str, ...]:
        """Capacity types, distinct, of the nodes; empty where one of them is not known."""
        return self._of_machines("capacity")

    def _of_machines(self, fact: str) -> tuple[str, ...]:
        found = {getattr(one, fact) for one in self.machines}
        return () if None in found else tuple(sorted(map(str, found)))

    @property
    def was_in_vain(self) -> bool:
        """Whether it waited for a first node until it ended: it cost nothing, and no failure counts."""
        return self.reason is Reason.NO_CAPACITY and not self.pod_times

    @property
    def waited(self) -> float:
        """Seconds until its Job was taken, and from the start of each run that has ended to its first pod on a node."""
        runs = [(run.admitted_at, run.ended_at, [placed for placed, _, _ in run.pod_times]) for run in self.segments]
        if self.ended_at is not None and not self.is_queued:
            placed = [*self.placed_at, *(placed for placed, _, _ in self.pod_times)]
            runs.append((self.admitted_at or 0.0, self.ended_at - self.created_at, placed))
        return sum((max(0.0, min(placed, default=ended) - began) for began, ended, placed in runs), self.refused or 0.0)

    @property
    def spread(self) -> tuple[int | None, int | None, int | None]:
        """In how many zones, blocks and racks its gang was; None where that is not known of each node."""
        zones, blocks, racks = (
            None
            if any(place[level] is None for place in self.places)
            else len({one[: level + 1] for one in self.places})
            for level in range(3)
        )
        return zones or None, blocks or None, racks or None


class NewNode(NamedTuple):
    """A node that came while the benchmark ran, and is there."""

    name: str
    pool: str
    created_at: float
    has_run: bool = False  # a gang of the benchmark


class GoneNodes(values.FrozenModel):
    """Nodes of a pool that came while the benchmark ran, and went: of hundreds of spot nodes only sums are kept."""

    pool: str
    nodes: int = 0
    seconds: float = 0.0
    billed_seconds: float = 0.0  # each node's, rounded up by the pool's billing rule
    unseen: int = 0  # of the nodes: they went while nobody looked, and count until they were seen last


class NewNodes(records.Stored):
    """Nodes that came while the benchmark ran."""

    key: ClassVar[str] = "nodes"
    is_closed: ClassVar[bool] = False  # it is written again and again

    seen_at: float = 0.0
    there: tuple[NewNode, ...] = ()
    gone: tuple[GoneNodes, ...] = ()
    shared: tuple[str, ...] = ()  # names of the first that others use, too


class Ledger(values.FrozenModel):
    """One entry for each attempt and environment, grouped once: `model_copy` would keep the groups of before."""

    records: tuple[AttemptRecord, ...] = ()
    environments: tuple[Environment, ...] = ()
    new_nodes: NewNodes = NewNodes()
    refused: tuple[AttemptRecord, ...] = ()  # attempts whose Jobs were not taken: no attempts yet

    @property
    def version(self) -> int:
        """Grows with each end of an attempt and of its pods, and each environment: all that an analysis stands on."""
        return sum((record.outcome is not None) + record.is_closed for record in self.records) + len(self.environments)

    @cached_property
    def holding(self) -> tuple[AttemptRecord, ...]:
        return tuple(record for record in self.records if record.holds_nodes)

    @cached_property
    def by_trial(self) -> Mapping[str, tuple[AttemptRecord, ...]]:
        """The attempts at each trial that has any, oldest first."""
        oldest_first = sorted(self.records, key=lambda record: record.attempt)
        groups = values.grouped(oldest_first, lambda record: record.trial)
        return {trial: tuple(records) for trial, records in groups.items()}

    @cached_property
    def by_key(self) -> Mapping[str, AttemptRecord]:
        return {record.key: record for record in self.records}

    def with_records(self, records: Iterable[AttemptRecord]) -> "Ledger":
        """The ledger after writing; an entry that is closed is never written over."""
        if not (news := tuple(records)):
            return self
        entries = dict(self.by_key)
        for record in news:
            if (before := entries.get(record.key)) is None or not before.is_closed:
                entries[record.key] = record
        refused = tuple(one for one in self.refused if one.key not in entries)
        return self._with(records=tuple(entries.values()), refused=refused)

    def with_environments(self, environments: Iterable[Environment]) -> "Ledger":
        """The ledger after writing; the first copy of an environment stays, and what is too much is left out."""
        if not (news := tuple(environments)):
            return self
        found = dict(self.environment_by_key)
        for environment in news:
            if len(found) < ENVIRONMENTS_MAX and len(environment.to_json().encode()) <= ENVIRONMENT_BYTES_MAX:
                found.setdefault(environment.key(), environment)
        return self._with(environments=tuple(found.values()))

    def _with(self, **fields: Any) -> "Ledger":
        return Ledger(**{name: getattr(self, name) for name in Ledger.model_fields} | fields)

    @cached_property
    def environment_by_key(self) -> Mapping[str, Environment]:
        return {environment.key(): environment for environment in self.environments}


def to_entries(records: Iterable[AttemptRecord | NewNodes]) -> dict[str, str]:
    return {record.key: record.to_text() for record in records}


def environment_entries(environments: Iterable[Environment]) -> dict[str, str]:
    return {f"{_ENVIRONMENT}{environment.key()}": records.line(environment) for environment in environments}


def from_entries(shards: Iterable[Mapping[str, str]]) -> Ledger:
    """The ledger in stored shards. ValueError when an attempt cannot be read: guessing would lose a count."""
    return of_read(read_entry(key, text) for shard in shards for key, text in shard.items())


def read_entry(key: str, text: str) -> AttemptRecord | Environment | NewNodes | None:
    """One stored entry; None of an environment that cannot be read: it is provenance, no benchmark ends over it."""
    if key == NewNodes.key:
        return NewNodes.from_text(text)
    return records.read_environment(text) if key.startswith(_ENVIRONMENT) else AttemptRecord.from_text(text)


def of_read(entries: Iterable[AttemptRecord | Environment | NewNodes | None]) -> Ledger:
    found = tuple(entries)
    attempts = [one for one in found if isinstance(one, AttemptRecord)]
    return Ledger(
        records=tuple(one for one in attempts if not one.is_refused),
        refused=tuple(one for one in attempts if one.is_refused),
        environments=tuple(one for one in found if isinstance(one, Environment)),
        new_nodes=next((one for one in found if isinstance(one, NewNodes)), NewNodes()),
    )
