# SPDX-License-Identifier: Apache-2.0
"""What was found at one point of a benchmark: throughput, costs, and how they came to be."""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from gpubench import records
from gpubench.api import status_sizes as sizes
from gpubench.api.measuring import REPEATS_MAX, TimedRegion
from gpubench.api.point_warning import PointWarning
from gpubench.api.pool_price import CapacityType
from gpubench.api.sweep import DataSource
from gpubench.units import DecimalText
from gpubench.values import FROM_CAMEL_CASE, TO_CAMEL_CASE, FrozenModel, Interval, IntervalOf


class PointState(StrEnum):
    """What became of a point."""

    PENDING = "Pending"
    RUNNING = "Running"
    MEASURED = "Measured"
    UNSTABLE = "Unstable"  # measured, but most repeats never settled: its figures are shown and not ranked
    SKIPPED = "Skipped"
    OUT_OF_MEMORY = "OutOfMemory"
    NO_CAPACITY = "NoCapacity"
    UNSUPPORTED_ACCELERATOR = "UnsupportedAccelerator"
    NOT_PUBLISHED = (
        "NotPublished"  # of an imported benchmark: it was measured elsewhere, and nobody says how fast it was
    )
    NOT_RUN = "NotRun"  # or not often enough for a figure: `omission` says why
    FAILED = "Failed"


#: It is not known yet what becomes of the point.
OPEN = frozenset({PointState.PENDING, PointState.RUNNING})
#: Ends of a point that answer the question, even where the answer is "this cannot be had".
FINDINGS = frozenset(PointState) - OPEN - {PointState.NOT_RUN, PointState.FAILED}


ScalingKind = Annotated[
    Literal["weak", "strong"],
    FROM_CAMEL_CASE,
    TO_CAMEL_CASE,
    WithJsonSchema({"type": "string", "enum": ["Weak", "Strong"]}),
]
QualityMetric = Annotated[
    Literal["accuracy", "loss"],
    FROM_CAMEL_CASE,
    TO_CAMEL_CASE,
    WithJsonSchema({"type": "string", "enum": ["Accuracy", "Loss"]}),
]


class Scaling(FrozenModel):
    """Scaling efficiency E(n) = T(n) b / (n T(b)), b the smallest worker count of the pool or its scalingBaseline."""

    kind: ScalingKind = Field(description="Weak: batch per worker fixed; Strong: global batch fixed.")
    baseline_workers: int = Field(description="Worker count b that the efficiency is relative to.")
    baseline_pool: str | None = Field(None, max_length=63, description="Pool of the b workers, where it is another.")
    efficiency: Interval = Field(description="1 is perfect scaling.")


class AmountInterval(IntervalOf[str]):
    """An amount of money with its interval."""

    mean: DecimalText = Field(description="Decimal number.")
    low: DecimalText | None = Field(None, description="Lower end of the 95 % interval.")
    high: DecimalText | None = Field(None, description="Upper end of the 95 % interval.")
    currency: str = Field(max_length=3, description="ISO 4217 code.")


class Cost(FrozenModel):
    """What the point costs at its measured throughput: marginal costs, rate over throughput, without a billing rule."""

    per_million_samples: AmountInterval | None = Field(None, description="Absent without a throughput.")
    per_run: AmountInterval | None = Field(None, description="With mode Training: of the timed region.")


class Relative(FrozenModel):
    """Figures over those of the point that spec.baseline names: 2 is twice as fast, as long, as dear."""

    baseline_pool: str | None = Field(None, max_length=63, description="Pool of the base; absent of the base itself.")
    baseline_workers: int | None = Field(None, description="Workers of the base, as with baselinePool.")
    throughput: Interval | None = Field(None, description="Samples per second over those of the base.")
    time: Interval | None = Field(None, description="Time for as many samples, or of the timed region, likewise.")
    cost: Interval | None = Field(None, description="Marginal cost of that time, likewise, where both have a price.")


class BillParts(FrozenModel):
    """What a bill was paid for. The parts sum to the bill; one that is absent was not there, or is in `unknown`."""

    image_pull: DecimalText | None = Field(None, description="From a pod's placement to its start: image, volumes.")
    waiting: DecimalText | None = Field(None, description="Pods that had started waited for the others of the gang.")
    start_up: DecimalText | None = Field(None, description="Ranks started, up to and with their first step.")
    warm_up: DecimalText | None = Field(None, description="Windows that do not count.")
    measured: DecimalText | None = Field(None, description="Measured work; of a training with its evaluations.")
    idle: DecimalText | None = Field(None, description="All else of attempts with a result: checks, gaps, the end.")
    lost: DecimalText | None = Field(None, description="Everything of attempts that came to no result.")
    unknown: DecimalText | None = Field(None, description="Time that nobody could tell apart.")
    rounding: DecimalText | None = Field(None, description="What the provider's increment and minimum add.")
    fees: DecimalText | None = Field(None, description="The pool's fees; of attempts without a result they are lost.")


class PointBill(FrozenModel):
    """What the point's attempts are billed so far: each node's time on its pods by the provider's rule, and fees.

    An estimate: a provider bills the life of a node, which begins before the pod and ends after it.
    """

    total: DecimalText = Field(description="Of all attempts that have ended, also of those without a result.")
    currency: str = Field(max_length=3, description="ISO 4217 code of all amounts here.")
    per_run: DecimalText | None = Field(None, description="Mean of the attempts with a result.")
    attempts: int = Field(description="Attempts that are in it.")
    incomplete: int | None = Field(
        None, description="Of these, attempts whose pods were gone: they cost at least that."
    )
    parts: BillParts = Field(description="What it was paid for.")


class Quality(FrozenModel):
    """How good the trained model is on held-out data."""

    metric: QualityMetric = Field(description="Accuracy: larger is better. Loss: smaller is better.")
    final: Interval = Field(description="After the last epoch, over the repeats.")
    best: Interval | None = Field(None, description="Of the best epoch of each repeat.")


class TrainingResult(FrozenModel):
    """Whole epochs: seconds are means over the repeats. What an import does not say is absent."""

    epochs: int = Field(description="Epochs of each repeat.")
    timed_region: TimedRegion = Field(description="What `seconds` covers.")
    seconds: Interval | None = Field(None, description="Seconds of the timed region, where it has an epoch.")
    seconds_per_epoch: Interval | None = Field(None, description="The same per epoch of the region.")
    first_epoch_seconds: float | None = Field(None, description="Training seconds of the first epoch.")
    evaluation_seconds: float | None = Field(None, description="Seconds of all evaluations, wherever they count.")
    training_loss: float | None = Field(None, description="Mean loss of the last epoch's steps.")
    quality: Quality | None = Field(None, description="Absent where the data has no held-out part.")


class Bandwidth(FrozenModel):
    """Of the workload allreduce. Bytes per second of one message, as nccl-tests define them."""

    algorithm: Interval = Field(description="Bytes of the message over its time.")
    bus: Interval = Field(description="The same times 2 (n - 1) / n: what each link carries, whatever n is.")


class GoalResult(FrozenModel):
    """A goal at the point's throughput: a lower bound."""

    name: str = Field(max_length=24, description="Goal.")
    hours: Interval = Field(description="Hours of training.")
    cost: AmountInterval | None = Field(None, description="Marginal cost, no billing rule.")


#: Why trials of a point were left out: they do not fit into limits.budget.
Omission = Literal["Budget"]


class Basis(StrEnum):
    """Where a figure comes from."""

    MEASURED = "Measured"
    REPRICED = "Repriced"
    EXTRAPOLATED = "Extrapolated"
    IMPORTED = "Imported"  # measured elsewhere, before: `gpubench import`


#: Points with figures of their own, which may stand for others: all the rest is derived from them.
SOURCES = frozenset({Basis.MEASURED, Basis.IMPORTED})


class Judgement(StrEnum):
    """Whether something keeps up with its baseline."""

    PASS = "Pass"  # noqa: S105  # a verdict
    FAIL = "Fail"
    CANNOT_TELL = "CannotTell"


#: How the number of repeats came about.
Stopping = Literal["Fixed", "PrecisionReached", "MaximumReached"]


class GpuUsage(FrozenModel):
    """What the GPUs did while they were measured, as NVML counts it; what it could not tell is absent."""

    utilization: float | None = Field(None, description="Share of time with a kernel on the GPU: a mean.")
    memory_peak: int | None = Field(None, alias="memoryPeakBytes", description="The most that any GPU used.")
    watts: float | None = Field(None, description="Power of all GPUs together, mean over the repeats.")
    throttled: float | None = Field(None, description="Worst rank's share of the samples with a throttle reason.")


class Energy(FrozenModel):
    """What a million samples take, as measured at the GPUs; with the pool's power, what they take at the meter."""

    joules: Interval = Field(description="Of all GPUs, for a million samples.")
    by: Literal["Counter", "Power"] = Field(description="The GPUs' own counters, or mean power times time.")
    power: str | None = Field(None, description="The pool's power, by which what follows is computed, with its source.")
    watt_hours: Interval | None = Field(None, description="Of GPUs and hosts times the pue, for a million samples.")
    grams: Interval | None = Field(None, description="CO2 equivalent of these watt-hours.")
    watt_hours_per_run: Interval | None = Field(None, description="With mode Training: of the training of one run.")
    grams_per_run: Interval | None = Field(None, description="CO2 equivalent of these.")


class HostUsage(FrozenModel):
    """What the ranks' processes used while they were measured."""

    processors: float | None = Field(None, description="Processors of a rank, mean over ranks and repeats.")
    memory_peak: int | None = Field(None, alias="memoryPeakBytes", description="Most resident memory of a rank.")


class Spread(FrozenModel):
    """How far apart a gang's nodes were; absent what their labels do not say."""

    zones: int | None = Field(None, description="Zones that it was in.")
    blocks: int | None = Field(None, description="Blocks of racks that it was in.")
    racks: int | None = Field(None, description="Racks that it was in: groups of nodes at the same switches.")


class EnvironmentFacts(FrozenModel):
    """What figures stand on: the facts that must be the same before two of them are averaged or divided.

    All but the first three are absent where the record could not be read from pod 0's log.
    """

    environment: str = Field(max_length=16, description="As in results[].environment.")
    instance_type: str | None = Field(None, max_length=sizes.FACT_NAME_MAX, description="Of the nodes, where known.")
    image_digest: str | None = Field(None, max_length=sizes.DIGEST_MAX, description="Of the image that pod 0 ran.")
    accelerator: str | None = Field(
        None, max_length=sizes.FACT_NAME_MAX, description="GPU's name, or processor's model."
    )
    driver: str | None = Field(None, max_length=sizes.FACT_MAX, description="Version of the GPU's driver.")
    cuda: str | None = Field(None, max_length=sizes.FACT_MAX, description="Version of the framework's build.")
    cudnn: str | None = Field(None, max_length=sizes.FACT_MAX, description="Version of the framework's build.")
    nccl: str | None = Field(None, max_length=sizes.FACT_MAX, description="Version of the collectives' build.")
    transport: str | None = Field(
        None, max_length=sizes.FACT_MAX, description="Of the all-reduce: gloo, or nccl and its network."
    )
    links: str | None = Field(
        None,
        max_length=records.LINKS_MAX,
        description="Kinds of links that NCCL really went over, in any of the benchmark's gangs, such as "
        "NET/AWS Libfabric/GDRDMA, P2P/CUMEM. They may differ: a gang on one node has no NET.",
    )
    framework: str | None = Field(None, max_length=sizes.FACT_MAX, description="That trains, such as TensorFlow.")
    framework_version: str | None = Field(None, max_length=sizes.FACT_MAX, description="Of the framework.")
    collectives: str | None = Field(None, max_length=sizes.FACT_MAX, description="What reduces gradients: Horovod.")
    collectives_version: str | None = Field(None, max_length=sizes.FACT_MAX, description="Of the collectives.")
    threads_per_rank: int | None = Field(None, description="Threads that one operation of a rank may use.")


class PointResult(FrozenModel):
    """One point of the benchmark and what was found there."""

    workload: str = Field(max_length=63, description="Model.")
    pool: str = Field(max_length=63, description="GpuPool.")
    node: str | None = Field(None, max_length=sizes.NODE_MAX, description="With placement EachNode: the node, cut.")
    accelerator: str | None = Field(None, max_length=63, description="What the pool calls its accelerator.")
    capacity_type: CapacityType | None = Field(None, description="How the pool's nodes are rented.")
    workers: int = Field(description="Horovod ranks in all.")
    workers_per_node: int = Field(description="Ranks on each node.")
    batch_per_worker: int | None = Field(None, description="Samples per rank and step.")
    global_batch: int = Field(description="Samples of all ranks per step.")
    precision: str = Field(max_length=16, description="Arithmetic of the training step.")
    data: DataSource = Field(DataSource.SYNTHETIC, description="What was trained on.")
    data_path: str | None = Field(
        None, max_length=sizes.DATA_PATH_MAX, description="Folder of a volume, or its hash and end."
    )
    data_samples: int | None = Field(None, description="Training samples of a generated set, where they were given.")
    epochs: int | None = Field(
        None, description="With mode Training: epochs asked for, where the benchmark knows them."
    )
    variant: str | None = Field(None, max_length=40, description="Variant, where the block has some.")
    basis: Basis = Field(Basis.MEASURED, description="Measured, taken from another pool's measurements, or imported.")
    state: PointState = Field(description="What became of the point.")
    reason: str | None = Field(None, max_length=sizes.REASON_MAX, description="Why, where it was not measured.")
    omission: Omission | None = Field(None, description="Why trials of it were left out: limits.budget.")
    values: tuple[float, ...] = Field((), max_length=REPEATS_MAX, description="Samples per second of each repeat.")
    throughput: Interval | None = Field(
        None, alias="samplesPerSecond", description="Over the repeats, without evaluations."
    )
    repeats: int | None = Field(None, description="With basis Imported: of how many runs the figures are.")
    stopping: Stopping | None = Field(
        None,
        description="Fixed: as many repeats as the spec says. PrecisionReached, MaximumReached: repeats were added "
        "until measure.repeats.until was reached, or not. Absent while more may come, or where they were cut short.",
    )
    scaling: tuple[Scaling, ...] = Field((), max_length=2, description="On the weak line, the strong line, or both.")
    training: TrainingResult | None = Field(None, description="With mode Training.")
    bandwidth: Bandwidth | None = Field(None, alias="bandwidthBytesPerSecond", description="Of the workload allreduce.")
    cost: Cost | None = Field(None, description="Absent when the pool has neither price nor ownership.")
    relative: Relative | None = Field(None, description="With spec.baseline, when the point and its base have ended.")
    bill: PointBill | None = Field(None, description="What its attempts are billed; cost is marginal.")
    goals: tuple[GoalResult, ...] = Field(
        (), max_length=sizes.GOALS_OF_A_WORKLOAD_MAX, description="The spec's goals for this workload."
    )
    gpu: GpuUsage | None = Field(None, description="What the GPUs did, where there were some.")
    energy: Energy | None = Field(None, description="Of the GPUs, where they told their power or energy.")
    host: HostUsage | None = Field(None, description="What the ranks' processes used.")
    comparison: Judgement | None = Field(None, description="Whether it keeps up with the baseline of spec.compareTo.")
    nodes: int = Field(0, description="Distinct nodes that the repeats ran on.")
    slots_paid: int | None = Field(None, description="Slots that it pays for, where fewer of them work.")
    spread: Spread | None = Field(
        None, description="Of a gang on several nodes: the most zones, blocks and racks in any repeat."
    )
    environment: str | None = Field(
        None, max_length=16, description="Hash of what the figure stands on, or your own text."
    )
    instance_type: str | None = Field(None, max_length=sizes.FACT_MAX, description="Of the nodes of the repeats.")
    warnings: tuple[PointWarning, ...] = Field(
        (), description="What a reader of the figure must know, the gravest first."
    )
