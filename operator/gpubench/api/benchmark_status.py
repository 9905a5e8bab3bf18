# SPDX-License-Identifier: Apache-2.0
"""What was found in a GpuBenchmark: its status. The spec, what is asked, is in `benchmark`.

Must not happen: a status that the store does not take. 256 results stay under 1 MiB (a test holds that).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gpubench import names
from gpubench.api import condition, rules
from gpubench.api.benchmark import GOALS_OF_A_WORKLOAD_MAX, POINTS_MAX, REPEATS_MAX, DataSource, TimedRegion
from gpubench.api.pool import CapacityType
from gpubench.units import DecimalText
from gpubench.values import Value

# A status of 256 results stays under 1 MiB only if each result's texts are short and its goals few. etcd takes at most
# 1.5 MiB, the spec included. Sentences are cut to as many bytes; the schema counts characters.
REASON_MAX = 400
WARNING_MAX = 180
WARNINGS_MAX = 3  # of a point; fewer where a study has many: see WARNINGS_OF_A_STUDY_MAX
WARNINGS_OF_A_STUDY_MAX = 384  # so three of a point up to 128 points, two up to 192, one beyond
WARNING_FIGURES_MAX = 4
FIGURE_NAME_MAX = 10
NODE_MAX = 63
DATA_PATH_MAX = 48
ENVIRONMENTS_SHOWN_MAX = 8
FACT_MAX = 24
FACT_NAME_MAX = 48
DIGEST_MAX = 71  # sha256: and 64 digits
COMPARISON_MAX = 512
PRICES_SHOWN_MAX = 16
SOURCE_MAX = 96  # of a price; the plan has all of it
COMPARISONS_MAX = 8
SENTENCE_MAX = 320
BILLED_POINTS_MAX = 192  # of larger studies `gpubench show` makes the bills from the ledger of a results folder
CLOCK_MAX = 320


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
    NOT_PUBLISHED = "NotPublished"  # of an imported study: it was measured elsewhere, and nobody says how fast it was
    NOT_RUN = "NotRun"  # or not often enough for a figure: `omission` says why
    FAILED = "Failed"


#: Ends of a point that answer the question, even where the answer is "this cannot be had".
FINDINGS = frozenset(
    {
        PointState.MEASURED,
        PointState.UNSTABLE,
        PointState.SKIPPED,
        PointState.OUT_OF_MEMORY,
        PointState.NO_CAPACITY,
        PointState.UNSUPPORTED_ACCELERATOR,
        PointState.NOT_PUBLISHED,
    }
)


class Estimate(Value):
    """A mean with its interval; without low and high there were too few repeats for one."""

    mean: float = Field(description="Mean over the repeats.")
    low: float | None = Field(None, description="Lower end of the 95 % interval.")
    high: float | None = Field(None, description="Upper end of the 95 % interval.")


class Scaling(Value):
    """Scaling efficiency E(n) = T(n) b / (n T(b)), b the smallest worker count of the pool or its scalingBaseline."""

    kind: Literal["weak", "strong"] = Field(description="weak: batch per worker fixed; strong: global batch fixed.")
    baseline_workers: int = Field(description="Worker count b that the efficiency is relative to.")
    baseline_pool: str | None = Field(
        None, max_length=63, description="Pool of the b workers, where it is another one: the pool's scalingBaseline."
    )
    efficiency: Estimate = Field(description="1 is perfect scaling.")


class AmountInterval(Value):
    """An amount of money with its interval."""

    mean: DecimalText = Field(description="Decimal number.")
    low: DecimalText | None = Field(None, description="Lower end of the 95 % interval.")
    high: DecimalText | None = Field(None, description="Upper end of the 95 % interval.")
    currency: str = Field(max_length=3, description="ISO 4217 code.")


class Cost(Value):
    """What the point costs at its measured throughput."""

    per_million_samples: AmountInterval | None = Field(
        None,
        description="Marginal cost: rate over throughput, no billing rule. Absent where an imported training has no "
        "throughput.",
    )
    per_run: AmountInterval | None = Field(
        None, description="With mode Training: marginal cost of the timed region, no billing rule."
    )


class BillParts(Value):
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


class PointBill(Value):
    """What the point's attempts are billed so far: each node's time on its pods by the provider's rule, and fees.

    An estimate: a provider bills the life of a node, which begins before the pod and ends after it.
    """

    total: DecimalText = Field(description="Of all attempts that have ended, also of those without a result.")
    currency: str = Field(max_length=3, description="ISO 4217 code of all amounts here.")
    per_run: DecimalText | None = Field(None, description="Mean of the attempts with a result.")
    attempts: int = Field(description="Attempts that are in it.")
    incomplete: int | None = Field(
        None, description="Of these, attempts whose pods were gone when the operator looked: they cost at least that."
    )
    parts: BillParts = Field(description="What it was paid for.")


class StartUp(Value):
    """Seconds before the measured work, means over the repeats. Those before a pod has its node are not billed."""

    queued: float | None = Field(
        None,
        description="From the Job's creation until its last pod had a node: capacity and provisioning, which the "
        "cluster does not tell apart.",
    )
    pull: float | None = Field(None, description="From placement to container start, of the slowest pod.")
    join: float | None = Field(None, description="Until the gang's last pod had come, as pod 0 saw it.")
    init: float | None = Field(None, description="Ranks' start: imports, rendezvous, model, first step.")


class Quality(Value):
    """How good the trained model is on held-out data."""

    metric: Literal["accuracy", "loss"] = Field(description="accuracy: larger is better. loss: smaller is better.")
    final: Estimate = Field(description="After the last epoch, over the repeats.")
    best: Estimate | None = Field(
        None, description="Of the best epoch of each repeat; absent where an import does not say it."
    )


class TrainingResult(Value):
    """Whole epochs: how long they took, and how good the model became. Seconds are means over the repeats."""

    epochs: int = Field(description="Epochs of each repeat.")
    timed_region: TimedRegion = Field(description="What `seconds` covers.")
    seconds: Estimate | None = Field(
        None, description="Seconds of the timed region; absent where its only epoch is the first one, and left out."
    )
    seconds_per_epoch: Estimate | None = Field(None, description="The same per epoch of the region.")
    first_epoch_seconds: float | None = Field(
        None, description="Training seconds of the first epoch; absent where an import does not say it."
    )
    evaluation_seconds: float | None = Field(
        None, description="Seconds of all evaluations, wherever they count; absent where an import does not say it."
    )
    training_loss: float | None = Field(
        None, description="Mean loss of the last epoch's steps; absent where an import does not say it."
    )
    quality: Quality | None = Field(None, description="Absent where the data has no held-out part.")


class Bandwidth(Value):
    """Of the workload allreduce. Bytes per second of one message, as nccl-tests define them."""

    algorithm: Estimate = Field(description="Bytes of the message over its time.")
    bus: Estimate = Field(description="The same times 2 (n - 1) / n: what each link carries, whatever n is.")


class GoalResult(Value):
    """A goal at the point's throughput: a lower bound."""

    name: str = Field(max_length=24, description="Goal.")
    hours: Estimate = Field(description="Hours of training.")
    cost: AmountInterval | None = Field(None, description="Marginal cost, no billing rule.")


class Omission(StrEnum):
    """Why trials of a point were left out."""

    BUDGET = "Budget"  # they do not fit into limits.budget
    DOMINATED = "Dominated"  # another point of the same work is faster and cheaper: limits.stopDominated


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


class Stopping(StrEnum):
    """How the number of repeats came about."""

    FIXED = "Fixed"
    PRECISION_REACHED = "PrecisionReached"
    MAXIMUM_REACHED = "MaximumReached"


class GpuUsage(Value):
    """What the GPUs did while they were measured, as NVML counts it; what it could not tell is absent."""

    utilization: float | None = Field(
        None, description="Share of time with a kernel on the GPU, mean over ranks and repeats: not of its arithmetic."
    )
    memory_peak: int | None = Field(None, description="Bytes, the most that any GPU used.")
    watts: float | None = Field(None, description="Power of all GPUs together, mean over the repeats.")
    joules_per_million_samples: float | None = Field(
        None, description="Energy of all GPUs: by their counters, or mean power times time where they have none."
    )
    throttled: float | None = Field(
        None, description="Share of the samples with a throttle reason, of the rank and repeat with most of them."
    )


class HostUsage(Value):
    """What the ranks' processes used while they were measured."""

    processors: float | None = Field(None, description="Processors of a rank, mean over ranks and repeats.")
    memory_peak: int | None = Field(None, description="Resident bytes, the most that any rank used.")


class WarningReason(StrEnum):
    """What a warning is about, for programs; what its figures are called is in `WARNING_FIGURES`."""

    UNSETTLED = "Unsettled"
    STRAGGLER = "Straggler"
    BIMODAL = "Bimodal"
    TREND = "Trend"
    OUTLIERS = "Outliers"
    LOSS_ROSE = "LossRose"
    WEAK_NODE = "WeakNode"
    REPEATS_MISSING = "RepeatsMissing"
    PRECISION_NOT_REACHED = "PrecisionNotReached"
    NO_TRAINING_FIGURES = "NoTrainingFigures"
    NO_EFFICIENCY = "NoEfficiency"
    NO_COST = "NoCost"
    PRICE_STALE = "PriceStale"
    REPRICED = "Repriced"
    EXTRAPOLATED = "Extrapolated"
    IMPORTED = "Imported"
    OTHER = "Other"  # a sentence and nothing else, as warnings were before


#: The numbers that a warning may carry. Shares and changes are fractions: 0.1 is 10 %.
WARNING_FIGURES: Mapping[WarningReason, tuple[str, ...]] = {
    WarningReason.UNSETTLED: ("change",),  # of the time of a step, over the run
    WarningReason.STRAGGLER: ("cost",),  # by what share a step is longer than at the other ranks' median
    WarningReason.BIMODAL: ("ratio", "share"),  # slow windows over fast ones in time; share of windows that are slow
    WarningReason.TREND: ("change",),
    WarningReason.OUTLIERS: ("count", "windows", "worst"),  # of so many windows; the slowest over the median
    WarningReason.LOSS_ROSE: ("first", "last"),  # mean loss of the first epoch and of the last one
    # One of the three tests, per second (of floating-point operations, or of bytes); what is usual on the pool, and how
    # many tests, on how many nodes, say so.
    WarningReason.WEAK_NODE: ("arithmetic", "memory", "allreduce", "usual", "tests", "nodes"),
    WarningReason.REPEATS_MISSING: ("measured", "wanted"),
    WarningReason.PRECISION_NOT_REACHED: ("reached", "wanted"),  # relative half-widths
    WarningReason.NO_TRAINING_FIGURES: (),
    WarningReason.NO_EFFICIENCY: (),
    WarningReason.NO_COST: (),
    WarningReason.PRICE_STALE: (),
    WarningReason.REPRICED: (),
    WarningReason.EXTRAPOLATED: ("efficiency", "points"),  # the mean that was taken, and of how many points
    WarningReason.IMPORTED: (),
    WarningReason.OTHER: (),
}


class PointWarning(Value):
    """What a reader of a point's figures must know: for programs, and in a sentence that ends with what to do."""

    reason: WarningReason = Field(description="What it is about, in one word.")
    message: str = Field(max_length=WARNING_MAX, description="The same in a sentence, with what to do.")
    trial: str | None = Field(None, max_length=8, description="Trial that it is worst in.")
    rank: int | None = Field(None, description="Rank that it is about.")
    node: str | None = Field(None, max_length=NODE_MAX, description="Node that it is about, where one is known.")
    repeats: int | None = Field(None, description="Repeats of the point that have it.")
    figures: dict[Annotated[str, Field(max_length=FIGURE_NAME_MAX)], float] | None = Field(
        None,
        max_length=WARNING_FIGURES_MAX,
        description="The numbers of the message by name, with four digits. Shares and changes are fractions: 0.1 is "
        "10 %.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, found: Any) -> Any:
        """A status of before had the sentence only."""
        return {"reason": WarningReason.OTHER, "message": found} if isinstance(found, str) else found


class PointResult(Value):
    """One point of the study and what was found there."""

    workload: str = Field(max_length=63, description="Model.")
    pool: str = Field(max_length=63, description="GpuPool.")
    accelerator: str | None = Field(None, max_length=63, description="What the pool calls its accelerator.")
    capacity_type: CapacityType | None = Field(None, description="How the pool's nodes are rented.")
    workers: int = Field(description="Horovod ranks in all.")
    workers_per_node: int = Field(description="Ranks on each node.")
    batch_per_worker: int | None = Field(None, description="Samples per rank and step.")
    global_batch: int = Field(description="Samples of all ranks per step.")
    precision: str = Field(max_length=16, description="Arithmetic of the training step.")
    data: DataSource = Field(DataSource.SYNTHETIC, description="What was trained on.")
    data_path: str | None = Field(
        None, max_length=DATA_PATH_MAX, description="Folder of a volume; of a long one a hash and its end."
    )
    data_samples: int | None = Field(None, description="Training samples of a generated set, where they were given.")
    epochs: int | None = Field(None, description="With mode Training: epochs asked for, where the study knows them.")
    variant: str | None = Field(None, max_length=40, description="Variant, where the block has some.")
    basis: Basis = Field(
        Basis.MEASURED,
        description="Measured; taken from another pool's measurements; or imported from a publication or older study.",
    )
    state: PointState = Field(description="What became of the point.")
    reason: str | None = Field(None, max_length=REASON_MAX, description="Why, where it was not measured.")
    omission: Omission | None = Field(
        None,
        description="Trials of it were left out. Budget: they do not fit into limits.budget. Dominated: another "
        "point is faster and cheaper, with limits.stopDominated.",
    )
    values: tuple[float, ...] = Field(
        (),
        max_length=REPEATS_MAX,
        description="Samples per second of each repeat. None where basis is neither Measured nor Imported.",
    )
    throughput: Estimate | None = Field(
        None, description="Samples per second over the repeats; of training without its evaluations."
    )
    repeats: int | None = Field(
        None, description="With basis Imported: of how many runs the figures are, also where they have no throughput."
    )
    stopping: Stopping | None = Field(
        None,
        description="Fixed: as many repeats as the spec says. PrecisionReached, MaximumReached: repeats were added "
        "until measure.repeats.until was reached, or not. Absent while more may come, or where a failure or a limit "
        "cut them short.",
    )
    scaling: tuple[Scaling, ...] = Field((), max_length=2, description="On the weak line, the strong line, or both.")
    training: TrainingResult | None = Field(None, description="With mode Training.")
    bandwidth: Bandwidth | None = Field(None, description="Of the workload allreduce.")
    cost: Cost | None = Field(None, description="Absent when the pool has neither price nor ownership.")
    bill: PointBill | None = Field(
        None,
        description="What its attempts are billed; never to be mixed with cost, which is marginal. Of a study of "
        f"more than {BILLED_POINTS_MAX} points `gpubench show` tells it from a results folder.",
    )
    startup: StartUp | None = Field(None, description="How long it took until the work began; as with bill.")
    goals: tuple[GoalResult, ...] = Field(
        (), max_length=GOALS_OF_A_WORKLOAD_MAX, description="The spec's goals for this workload."
    )
    gpu: GpuUsage | None = Field(None, description="What the GPUs did, where there were some.")
    host: HostUsage | None = Field(None, description="What the ranks' processes used.")
    comparison: Judgement | None = Field(
        None, description="Whether it keeps up with the baseline of spec.compareTo, where that has measured the point."
    )
    nodes: int = Field(0, description="Distinct nodes that the repeats ran on.")
    environment: str | None = Field(
        None,
        max_length=16,
        description="What the figure stands on: a hash, or the short text of a program of your own.",
    )
    instance_type: str | None = Field(
        None, max_length=FACT_MAX, description="Of the nodes that the repeats ran on, where the cluster says."
    )
    warnings: tuple[PointWarning, ...] = Field(
        (), max_length=WARNINGS_MAX, description="What a reader of the figure must know, the gravest first."
    )


class PriceUsed(Value):
    """A price that costs stand on: the pool's as it was when the study was planned, in the study's currency."""

    pool: str = Field(max_length=63, description="GpuPool.")
    per_node_hour: DecimalText = Field(description="One node for one hour.")
    currency: str = Field(max_length=3, description="ISO 4217 code of all amounts here.")
    as_of: str = Field(max_length=10, description="Day on which it was read.")
    source: str | None = Field(None, max_length=SOURCE_MAX, description="Where it was read.")
    low: DecimalText | None = Field(None, description="Lowest price of a node for one hour in `period`.")
    high: DecimalText | None = Field(None, description="Highest price of a node for one hour in `period`.")
    period: str | None = Field(None, max_length=21, description="When the price moved between them.")
    setup: DecimalText | None = Field(None, description="Paid once before the first run, and in no point's bill.")
    exchange_rate: DecimalText | None = Field(
        None, description="What one unit of the pool's own currency is in the study's, where they differ."
    )
    exchanged_from: str | None = Field(None, max_length=3, description="The pool's own currency, where it differs.")
    exchange_as_of: str | None = Field(None, max_length=10, description="Day of the exchange rate.")


class SpotResult(Value):
    """What a spot pool saves against its onDemandCounterpart."""

    discount: float = Field(description="By price: 1 - spot / on demand.")
    realised: float | None = Field(
        None,
        description="Net of the node-hours of preempted attempts, which were paid for and came to nothing. It and what "
        "else stands on these hours is absent where pods were gone before their end was seen.",
    )
    price_per_useful_hour: DecimalText | None = Field(
        None, description="Price of one node for an hour of attempts with a result, in the study's currency."
    )
    interruptions: int = Field(description="Attempts that were preempted.")
    interruptions_per_node_hour: float | None = Field(None, description="Per node-hour that was paid for.")
    break_even_interruptions: float | None = Field(
        None, description="Interruptions per node-hour at which spot would cost as much as on demand."
    )


class OwningResult(Value):
    """An own machine against a rented node, by the point that both measured alike on the most workers."""

    workload: str = Field(max_length=63, description="Workload of that point.")
    workers: int = Field(description="Workers of that point.")
    relative_speed: float = Field(description="Throughput of one own node over that of one rented node.")
    hours_per_month: float | None = Field(
        None, description="Hours of use per month from which owning is the cheaper one; absent where it never is."
    )
    days_per_month: float | None = Field(None, description="The same in days of use.")
    payback_days: float | None = Field(
        None, description="Days of continuous use after which the purchase is paid; absent where that never comes."
    )
    gain: float = Field(
        description="Samples that money buys on the own machine over those on the rented one, at the hours of use that "
        "its owner states."
    )


class PoolComparison(Value):
    """Two pools beside each other in money."""

    pool: str = Field(max_length=63, description="GpuPool.")
    other: str = Field(max_length=63, description="GpuPool that it is held against.")
    spot: SpotResult | None = Field(None, description="Where `pool` is a spot pool and `other` its counterpart.")
    owning: OwningResult | None = Field(None, description="Where `pool` is owned and `other` rented.")
    sentence: str = Field(max_length=SENTENCE_MAX, description="The same in words, or why nothing can be told.")


class EnvironmentFacts(Value):
    """What figures stand on: the facts that must be the same before two of them are averaged or divided.

    All but the first three are absent where the record could not be read from pod 0's log.
    """

    environment: str = Field(max_length=16, description="As in results[].environment.")
    instance_type: str | None = Field(
        None, max_length=FACT_NAME_MAX, description="Of the nodes, where the cluster says."
    )
    image_digest: str | None = Field(None, max_length=DIGEST_MAX, description="Of the image that pod 0 really ran.")
    accelerator: str | None = Field(
        None, max_length=FACT_NAME_MAX, description="As the driver names it; the processor's model without a GPU."
    )
    driver: str | None = Field(None, max_length=FACT_MAX, description="Version of the GPU's driver.")
    cuda: str | None = Field(None, max_length=FACT_MAX, description="Version that TensorFlow was built with.")
    cudnn: str | None = Field(None, max_length=FACT_MAX, description="Version that TensorFlow was built with.")
    nccl: str | None = Field(None, max_length=FACT_MAX, description="Version that Horovod was built with.")
    transport: str | None = Field(None, max_length=FACT_MAX, description="What the all-reduce goes over: gloo or nccl.")
    tensorflow: str | None = Field(None, max_length=FACT_MAX, description="Version.")
    horovod: str | None = Field(None, max_length=FACT_MAX, description="Version.")
    threads_per_rank: int | None = Field(None, description="Threads that one operation of a rank may use.")


class ComparisonCounts(Value):
    """Points by what their comparison says."""

    passed: int = Field(0, description="Points that keep up with the baseline.")
    failed: int = Field(
        0, description="Points that are slower than the tolerance allows, or failed where the baseline has a figure."
    )
    cannot_tell: int = Field(0, description="Points that the baseline has measured and of which nothing can be said.")
    not_compared: int = Field(0, description="Points that the baseline has not measured.")


class Comparison(Value):
    """The study beside its baseline."""

    baseline: str = Field(max_length=names.BENCHMARK_NAME_MAX, description="GpuBenchmark of spec.compareTo.")
    tolerance: DecimalText = Field(description="That of spec.compareTo.")
    verdict: Judgement = Field(
        description="Fail with the first failing point; Pass when every point that the baseline has measured passes."
    )
    points: ComparisonCounts = Field(description="Points by what their comparison says.")
    sentence: str = Field(max_length=COMPARISON_MAX, description="The same in words, with the point that decided.")


class PointCounts(Value):
    """Points by what became of them."""

    total: int = Field(description="Points of the plan.")
    measured: int = Field(0, description="Points with all repeats measured, and those derived from such.")
    unstable: int = Field(0, description="Points that were measured and never settled: their figures are not ranked.")
    running: int = Field(0, description="Points with an attempt under way.")
    failed: int = Field(0, description="Points that ended Failed.")
    skipped: int = Field(0, description="Points that no pool can hold.")
    not_run: int = Field(0, description="Points without a figure whose trials were left out: see their omission.")
    other: int = Field(
        0, description="Points that ended OutOfMemory, NoCapacity, UnsupportedAccelerator or NotPublished."
    )


class TrialCounts(Value):
    """Trials of the plan."""

    total: int = Field(
        description="Trials of the plan: points times repeats, skipped points left out. With measure.repeats.until at "
        "most: those that turn out not to be needed are taken off."
    )
    least: int | None = Field(
        None, description="With measure.repeats.until, while it is less than total: trials if no point needs another."
    )
    finished: int = Field(0, description="Trials with a result, or given up.")
    running: int = Field(0, description="Trials with an attempt under way.")


class AttemptCounts(Value):
    """Attempts by how they ended. started = succeeded + failed + preempted + stopped + running."""

    started: int = Field(0, description="Jobs created so far.")
    succeeded: int = Field(0, description="Attempts with a result.")
    failed: int = Field(0, description="Attempts that failed.")
    preempted: int = Field(0, description="Attempts that lost a pod to preemption, eviction or a lost node.")
    stopped: int = Field(
        0, description="Attempts that the study itself stopped: it was suspended, or limits.budget would not have held."
    )


class Spent(Value):
    """What the study's attempts were billed so far, those that failed or were preempted included: an estimate."""

    amount: DecimalText = Field(description="Decimal number.")
    currency: str = Field(max_length=3, description="ISO 4217 code.")
    estimate: bool = Field(True, description="Always true: what the provider bills is known to the provider.")
    clock: str = Field(max_length=CLOCK_MAX, description="What of the nodes' time is counted, in words.")
    assumed_attempts: int = Field(
        0,
        description="Attempts of which a pod was gone before its end was seen: its node is counted from the Job's "
        "creation to the attempt's end, and at most to the Job's own deadline.",
    )
    unpriced_attempts: int = Field(0, description="Attempts on pools without a price: they are not in the amount.")


class Condition(condition.Condition):
    """A condition in the form of metav1.Condition."""

    observed_generation: int | None = Field(None, description="Generation of the spec that this speaks of.")


class GpuBenchmarkStatus(Value):
    """What was found so far."""

    phase: str | None = Field(None, max_length=32, description="One word for the STATUS column.")
    observed_generation: int | None = Field(None, description="Generation of the spec that this speaks of.")
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=8,
        description="Finished and Succeeded say how the study ended; wait for Finished in scripts.",
        json_schema_extra=rules.list_map("type"),
    )
    points: PointCounts | None = Field(None, description="Points by what became of them.")
    points_done: str | None = Field(None, max_length=16, description="The POINTS column, such as 40/72.")
    trials: TrialCounts | None = Field(None, description="Trials of the plan.")
    seed: int | None = Field(None, description="Seed of the order in which the trials run.")
    attempts: AttemptCounts | None = Field(None, description="Attempts by how they ended.")
    spent: Spent | None = Field(
        None,
        description="Absent where no pool that is run has a price, or their prices have no currency in common, and of "
        "an amount that does not fit.",
    )
    started_at: str | None = Field(
        None, max_length=40, description="When the plan was frozen.", json_schema_extra=rules.TIME
    )
    finished_at: str | None = Field(
        None, max_length=40, description="When the last trial had ended.", json_schema_extra=rules.TIME
    )
    results: tuple[PointResult, ...] = Field((), max_length=POINTS_MAX, description="One entry for each point.")
    environments: tuple[EnvironmentFacts, ...] = Field(
        (), max_length=ENVIRONMENTS_SHOWN_MAX, description="What the figures stand on, each once."
    )
    prices: tuple[PriceUsed, ...] = Field(
        (),
        max_length=PRICES_SHOWN_MAX,
        description="What the costs stand on: the first of the pools' prices, as they are in the plan.",
    )
    comparisons: tuple[PoolComparison, ...] = Field(
        (),
        max_length=COMPARISONS_MAX,
        description="What spot saves against its counterpart, and from how much use on an own machine pays.",
    )
    comparison: Comparison | None = Field(None, description="Of a finished study with spec.compareTo.")
    answer: str | None = Field(None, max_length=2048, description="What the figures say, in a sentence or two.")
