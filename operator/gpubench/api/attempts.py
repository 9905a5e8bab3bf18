# SPDX-License-Identifier: Apache-2.0
"""What the attempts of a benchmark may take, what they keep, and how they are interrupted on purpose."""

from typing import ClassVar, Literal

from pydantic import Field

from gpubench.api import pod_template, rules
from gpubench.units import Amount, DecimalText, Duration
from gpubench.values import FrozenModel

DRILL_EVERY_MIN = "5s"


class Results(FrozenModel):
    """Where records are kept besides the pods' logs, which go with the pods."""

    volume: pod_template.ClaimVolume = Field(
        description="A PersistentVolumeClaim of the benchmark's namespace, mounted for writing into every pod of every "
        "attempt: ReadWriteMany where several nodes write at once. Its files are given to a group of the pods, unless "
        "the template mounts the same claim for data: then the image's user must be permitted to write there."
    )
    path: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        pattern=rules.FOLDER,
        description="Folder on the volume in which the benchmark gets a folder of its own; the volume's own if absent.",
    )


class Checkpoint(FrozenModel):
    """What a training goes on from after an interruption."""

    volume: pod_template.ClaimVolume = Field(
        description="A PersistentVolumeClaim of the benchmark's namespace for the checkpoints, mounted for writing "
        "into every pod of every attempt. With several nodes in a gang, or limits.parallelTrials over 1, it must be "
        "ReadWriteMany. Each trial needs room for three checkpoints of its model, until it has its result. May be the "
        "claim of spec.results."
    )
    interval: Duration | None = Field(
        None,
        description="Training from one checkpoint to the next: what an interruption costs at most. Absent: the best "
        "interval by Daly (2006), from what checkpoints are measured to cost and from interruptionsPerHour.",
    )
    interruptions_per_hour: DecimalText | None = Field(
        None,
        description="Instead of interval: interruptions of one node in an hour that are to be expected, 0.00001 to "
        "100, such as 0.05. One a day if absent.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.where_given("interval", rules.positive("interval", parent="checkpoint")),
        rules.Rule(
            "!has(self.interval) || !has(self.interruptionsPerHour)",
            "checkpoint.interruptionsPerHour is what an interval is computed from: remove it, or interval",
            ".interruptionsPerHour",
        ),
        rules.where_given(
            "interruptionsPerHour",
            rules.decimal_within("interruptionsPerHour", "0.00001", "100", parent="checkpoint", such_as="0.05"),
        ),
    )


class Drill(FrozenModel):
    """Interruptions on purpose, to see how a benchmark recovers from them."""

    every: Duration = Field(
        description="When all pods of an attempt have run together for so long, one of them is evicted through the "
        'eviction API, such as "90s": once in each attempt.'
    )
    times: int = Field(
        20, ge=1, le=500, description="Attempts that are interrupted at most, over the benchmark's life."
    )
    kind: Literal["Evict", "Drain"] = Field(
        "Evict",
        description="Evict: a pod is evicted, and its node stays. Drain: its node is cordoned before, as when it is "
        "drained, and takes pods again after cordonFor. One that somebody else has cordoned stays so.",
    )
    cordon_for: Duration | None = Field(
        None, description="With kind Drain: how long the node is cordoned, up to 1h; or 60s."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!has(self.cordonFor) || self.kind == 'Drain'",
            "drill.cordonFor needs drill.kind Drain: set the kind, or remove cordonFor",
            ".cordonFor",
        ),
        rules.Rule(
            "!has(self.cordonFor) || "
            + rules.about_durations(
                "cordonFor",
                holds="(duration(self.cordonFor) >= duration('5s') && duration(self.cordonFor) <= duration('1h'))",
            ),
            "drill.cordonFor must be from 5s to 1h",
            ".cordonFor",
            detail="it is %s",
        ),
        rules.Rule(
            rules.about_durations("every", holds=f"duration(self.every) >= duration('{DRILL_EVERY_MIN}')"),
            f"drill.every must be at least {DRILL_EVERY_MIN}: an attempt has to get somewhere before it is interrupted",
            ".every",
            detail="it is %s",
        ),
    )


class AttemptLimits(FrozenModel):
    """How often a trial is tried again, by the reason why it ended."""

    failed: int = Field(2, ge=0, le=10, description="Further attempts after failures.")
    preempted: int = Field(20, ge=0, le=100, description="Further attempts after preemptions and evictions.")


class Limits(FrozenModel):
    """Bounds of the benchmark."""

    parallel_trials: int = Field(1, ge=1, le=64, description="Trials that run at the same time at most. Mutable.")
    attempts: AttemptLimits = Field(AttemptLimits(), description="How often a trial is tried again.")
    scheduling_timeout: Duration | None = Field(
        None,
        description="From a gang's first pod that has a node until all of its pods run, pulls included, added up over "
        "re-admissions by a queue: what a gang in parts may hold. Also how long a Job waits that has no pods on a node "
        "for another reason than a missing node. Absent: 25m where a pool has GPUs, else 15m.",
    )
    capacity_timeout: Duration = Field(
        "24h",
        description="How long a point waits for nodes in all: over its attempts, from the start of a Job to its first "
        "pod that has a node, time in a queue or for slots left out. Then the point ends as NoCapacity. "
        "Also how long the API server may refuse its Jobs; then it ends as AdmissionRefused. 0s: for ever.",
    )
    attempt_timeout: Duration = Field("12h", description="From then until the attempt has ended.")
    pool_timeout: Duration | None = Field(
        None,
        description="From the benchmark's creation: how long it waits, unplanned, for pools that do not exist or, "
        "with placement EachNode, have no ready node. Then their points are skipped. Absent: for ever. Mutable.",
    )
    budget: Amount | None = Field(
        None,
        description='What the benchmark\'s attempts may be billed in all, in its currency, such as "40.00": by the '
        "frozen prices, billing minimum included. What does not fit is not started, or stopped in time; then it ends "
        "with condition BudgetExhausted, and goes on when the budget is raised. While the operator does not run, only "
        "its pods' own deadline ends an attempt (schedulingTimeout, attemptTimeout and 2 minutes). Needs a price on "
        "each pool that is run. Mutable.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.where_given("schedulingTimeout", rules.positive("schedulingTimeout", parent="limits")),
        rules.positive("attemptTimeout", parent="limits"),
        rules.where_given("poolTimeout", rules.positive("poolTimeout", parent="limits")),
        rules.above_zero(
            "budget", sentence="limits.budget must be more than 0: write what it may cost, such as 40.00, or remove it"
        ),
        *(
            rules.unchangeable(field, parent="spec.limits")
            for field in ("attempts", "schedulingTimeout", "capacityTimeout", "attemptTimeout")
        ),
    )
