# SPDX-License-Identifier: Apache-2.0
"""GpuBenchmark: one study, as it is asked: its spec. What was found is in `benchmark_status`."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpubench import names, units, workloads
from gpubench.api import patterns, rules
from gpubench.api.pool import ClaimVolume, Currency, EnvironmentVariable, ExchangeRate, Template
from gpubench.api.rules import Rule
from gpubench.precision import Precision
from gpubench.units import DecimalText, Duration
from gpubench.values import Value

POINTS_MAX = 256
REPEATS_MAX = 20
UNTIL_MIN = 3  # `intervals.REPEATS_FOR_INTERVAL`, which stands above this layer; a test compares them
TRIALS_MAX = 2560
BLOCKS_MAX = 16
#: Characters of all variants' environments and all commands: the plan, which has the pools too, must fit a ConfigMap.
TEXT_MAX = 32_768
GOALS_OF_A_WORKLOAD_MAX = 4  # each result of the status has all of them

# Written out, not built from the catalogue at run time, so that a type checker sees the names; a test compares them.
WorkloadName = Literal[
    "mnist_mlp",
    "mnist_cnn",
    "cifar10_cnn",
    "imdb_bidirectional_lstm",
    "imdb_fasttext",
    "lstm_text_generation",
    "twitter_bilstm",
    "trivial",
    "alexnet",
    "googlenet",
    "vgg16",
    "vgg19",
    "inception3",
    "inception4",
    "inception4_finetune",
    "resnet50",
    "resnet50_v1.5",
    "resnet101",
    "resnet152",
    "allreduce",
    "Custom",
]
PoolName = Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.POOL_NAME)]
Workers = Annotated[int, Field(ge=1, le=4096)]
Batch = Annotated[int, Field(ge=1, le=67_108_864)]  # elements of a message for the workload allreduce


class DataSource(StrEnum):
    """Where samples come from."""

    SYNTHETIC = "Synthetic"
    GENERATED = "Generated"
    VOLUME = "Volume"


class Data(Value):
    """What a workload is trained on."""

    source: DataSource = Field(
        DataSource.SYNTHETIC,
        description="Synthetic: one random batch that stays on the device. Generated: a small set that can be learned, "
        "made by the workers. Volume: the real files, below path.",
    )
    path: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        pattern=patterns.PATH,
        description="With source Volume: folder of the data set in the pods, below a volume's mountPath.",
    )
    samples: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="With source Generated: training samples to make; a fifth as many are made for evaluation.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.path) == (has(self.source) && self.source == 'Volume')",
            sentence="data.path is the folder of the real files: give it with source Volume, and with no other source",
        ),
        Rule(
            cel="!has(self.samples) || (has(self.source) && self.source == 'Generated')",
            sentence="data.samples is the size of a generated set: give it with source Generated only",
        ),
    )


class Communication(Value):
    """How gradients travel."""

    compression: Literal["None", "Float16"] = Field(
        "None", description="Float16: gradients are cast to float16 for the wire and back after it."
    )
    fusion_threshold_mib: int | None = Field(
        None,
        ge=0,
        le=1024,
        description="Mebibytes of gradients sent as one message; Horovod's own 128 if absent, 0 for no fusion.",
    )
    cycle_time_milliseconds: int | None = Field(
        None, ge=1, le=1000, description="Milliseconds for which Horovod gathers gradients; its own 1 if absent."
    )


class Variant(Value):
    """One way of training, by name; the name is part of the point."""

    name: str = Field(min_length=1, max_length=40, pattern=patterns.NAME, description="Name in results.")
    communication: Communication = Field(Communication(), description="How gradients travel.")
    loss_scaling: Literal["Fixed", "Dynamic"] = Field(
        "Fixed",
        description="With mixed_float16: the loss times 128, or a factor that begins there, doubles after 1,000 steps "
        "and halves, leaving the step out, when a gradient overflows.",
    )
    learning_rate_scaling: Literal["None", "Linear", "SquareRoot"] = Field(
        "None", description="Whether the learning rate is multiplied by the workers, or by the root of their number."
    )
    xla: bool = Field(False, description="Compile forward and backward pass by XLA; the all-reduce stays outside.")
    env: tuple[EnvironmentVariable, ...] = Field(
        (),
        max_length=16,
        description="Further environment variables, such as NCCL's.",
        json_schema_extra=rules.list_map("name"),
    )


class Custom(Value):
    """A workload of your own."""

    name: str = Field(min_length=1, max_length=63, pattern=patterns.NAME, description="Name in results.")
    file: str | None = Field(
        None,
        min_length=1,
        max_length=1024,
        pattern=patterns.PATH,
        description="Python file in the pods that defines build(): see jobs/README.md. Instead of command.",
    )
    command: tuple[Annotated[str, Field(max_length=1024)], ...] | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Command of the pods, which trains by itself and writes the result record. Instead of file.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.file) != has(self.command)",
            sentence="custom needs exactly one of file (a Python file with build()) and command (a program of its own)",
        ),
        Rule(
            cel="!(self.name in [" + ", ".join(f"'{name}'" for name in workloads.NAMES) + "])",
            sentence="custom.name is the name of a workload of gpubench: choose another one",
            field=".name",
        ),
    )


class SweepBlock(Value):
    """The cross product of its lists. A point that two blocks name runs once."""

    workloads: tuple[WorkloadName, ...] = Field(
        min_length=1, max_length=16, description="Models to train, by name.", json_schema_extra=rules.SET
    )
    pools: tuple[PoolName, ...] = Field(
        min_length=1, max_length=32, description="Names of GpuPools to run on.", json_schema_extra=rules.SET
    )
    workers: tuple[Workers, ...] = Field(
        min_length=1,
        max_length=32,
        description="Horovod ranks in all: within one node, or a multiple of workersPerNode. "
        "What a pool cannot hold is skipped, and the result says so.",
        json_schema_extra=rules.SET,
    )
    workers_per_node: int | None = Field(
        None, ge=1, le=64, description="Ranks on each node when there are several; the pool's slotsPerNode by default."
    )
    batch_per_worker: tuple[Batch, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="Samples per rank and step: weak scaling. Instead of globalBatch.",
        json_schema_extra=rules.SET,
    )
    global_batch: tuple[Batch, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="Samples of all ranks per step: strong scaling. Instead of batchPerWorker.",
        json_schema_extra=rules.SET,
    )
    precision: tuple[Precision, ...] = Field(
        (Precision.FLOAT32,),
        min_length=1,
        max_length=4,
        description="Arithmetic of the training step. float32 is never TensorFloat-32: that is tensor_float32.",
        json_schema_extra=rules.SET,
    )
    data: Data = Field(Data(), description="What is trained on.")
    variants: tuple[Variant, ...] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="Ways of training to compare: each makes points of its own.",
        json_schema_extra=rules.list_map("name"),
    )
    epochs: int | None = Field(
        None, ge=1, le=1000, description="With measure.mode Training: epochs; the workload's own number by default."
    )
    custom: Custom | None = Field(None, description="The workload of your own, where workloads is [Custom].")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.custom) == ('Custom' in self.workloads) && (!has(self.custom) || size(self.workloads) == 1)",
            sentence="workloads: [Custom] and custom belong together: give both, and other workloads in another block",
        ),
        Rule(
            cel="has(self.batchPerWorker) != has(self.globalBatch)",
            sentence="a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling)",
            detail="this one has %s",
            values=("has(self.globalBatch) ? 'both: put one of them into a block of its own' : 'neither'",),
        ),
        Rule(
            cel="!has(self.variants) || self.precision == ['mixed_float16'] || "
            "self.variants.all(variant, variant.lossScaling != 'Dynamic')",
            sentence="lossScaling Dynamic is for mixed_float16: set precision to [mixed_float16], and put other "
            "precisions into another block",
            field=".variants",
        ),
    )


def _decimal_within(field: str, low: str, high: str, *, parent: str, such_as: str) -> Rule:
    """Bounds of a decimal text. One that cannot be read is left to its own rule, which says what is wrong with it."""
    number = f"double(self.{field})"
    return Rule(
        cel=f"!{patterns.matches(f'self.{field}', units.DECIMAL_PATTERN)} || ({number} >= {low} && {number} <= {high})",
        sentence=f"{parent}.{field} must be from {low} to {high}, such as {such_as}",
        detail="it is %s",
        values=(f"self.{field}",),
        field=f".{field}",
    )


class Until(Value):
    """The precision at which a point has been measured often enough."""

    relative_half_width: DecimalText = Field(
        description="Half the width of the interval over its mean, 0.001 to 0.5: 0.02 asks for a throughput (with mode "
        "Training, seconds) that is known to 2 %.",
    )
    confidence: DecimalText = Field(
        "0.95",
        description="Confidence at which repeats end, 0.5 to 0.999. It belongs to this rule: intervals in results are "
        "always 95 % intervals, corrected for having looked several times.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        _decimal_within("relativeHalfWidth", "0.001", "0.5", parent="measure.repeats.until", such_as="0.02, for ±2 %"),
        _decimal_within("confidence", "0.5", "0.999", parent="measure.repeats.until", such_as="0.95"),
    )


class Repeats(Value):
    """How often each point is measured afresh: a fixed number, or until its figure is known well enough."""

    min: int = Field(3, ge=1, le=REPEATS_MAX, description="Fresh runs of each point; an interval needs at least 3.")
    max: int | None = Field(
        None, ge=1, le=REPEATS_MAX, description="With until: fresh runs of a point at most. As many as min if absent."
    )
    until: Until | None = Field(
        None,
        description="A point is repeated, from min on, until its figure is known so well, or max is reached. A repeat "
        "starts only when all earlier ones of its point have been measured.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.max) || self.max >= self.min",
            sentence="measure.repeats.max cannot be less than measure.repeats.min: raise max, or lower min",
            detail="max is %d, min %d",
            values=("self.max", "self.min"),
            field=".max",
        ),
        Rule(
            cel="has(self.until) || !has(self.max) || self.max <= self.min",
            sentence="measure.repeats.max beyond min needs measure.repeats.until, which says when to stop: give it, or "
            "set min to the number that you want",
            field=".max",
        ),
        Rule(
            cel="!has(self.until) || (has(self.max) && self.max != self.min)",
            sentence="measure.repeats.until needs measure.repeats.max greater than min: otherwise there is nothing to "
            "stop",
            field=".until",
        ),
        Rule(
            cel=f"!has(self.until) || self.min >= {UNTIL_MIN}",
            sentence=f"measure.repeats.until needs measure.repeats.min of at least {UNTIL_MIN}: fewer runs "
            "have no interval",
            detail="min is %d",
            values=("self.min",),
            field=".min",
        ),
    )

    @property
    def most(self) -> int:
        """Repeats that a point can have."""
        return self.min if self.max is None else self.max


def _about_durations(*fields: str, holds: str) -> str:
    """CEL about durations. One that cannot be read is left to its own rule, which says what is wrong with it."""
    readable = " && ".join(f"self.{field}.matches('^([0-9]{{1,6}}[hms])+$')" for field in fields)
    return f"!({readable}) || {holds}"


def _positive(field: str, *, parent: str) -> Rule:
    """A duration that may not be zero."""
    return Rule(
        cel=_about_durations(field, holds=f"duration(self.{field}) > duration('0s')"),
        sentence=f"{parent}.{field} must be longer than 0s",
        field=f".{field}",
    )


class Mode(StrEnum):
    """What a trial does."""

    THROUGHPUT = "Throughput"
    TRAINING = "Training"


class TimedRegion(Value):
    """What the seconds of a training run are."""

    evaluation: Literal["Inside", "Outside"] = Field(
        "Inside", description="Whether the evaluation after each epoch counts."
    )
    first_epoch: Literal["Included", "Excluded"] = Field(
        "Included", description="Whether the first epoch counts, in which libraries warm up."
    )


class Measure(Value):
    """How a trial is measured: windows of steps, warm-up kept apart."""

    mode: Mode = Field(
        Mode.THROUGHPUT,
        description="Throughput: steps for a given time. Training: whole epochs, each evaluated on held-out data.",
    )
    timed_region: TimedRegion = Field(TimedRegion(), description="With mode Training: which seconds count.")
    repeats: Repeats = Field(Repeats(), description="How often each point is measured afresh.")
    warm_up: Duration = Field("10s", description="Training before the figures count; kept in the records, flagged.")
    duration: Duration = Field(
        "60s",
        description="Measured training of one trial, after the warm-up. With repeats.until at most: in mode "
        "Throughput a run ends once its own windows vary too little for more of them to help.",
    )
    window: Duration = Field("1s", description="About how long one window is: the steps between two time stamps.")
    health_check: Literal["Enabled", "Disabled"] = Field(
        "Enabled",
        description="Whether each rank tests its device for some seconds before a trial: a node that is far below what "
        "is usual on its pool, over all studies, is named, and the figure flagged. Disabled for images of before it, "
        "which refuse to be told of it.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        _positive("window", parent="measure"),
        Rule(
            cel=_about_durations("window", "duration", holds="duration(self.window) <= duration(self.duration)"),
            sentence="measure.window cannot be longer than measure.duration: a trial holds at least one window",
            detail="window is %s, duration %s",
            values=("self.window", "self.duration"),
            field=".window",
        ),
        Rule(
            cel="self.mode == 'Training' || "
            "(self.timedRegion.evaluation == 'Inside' && self.timedRegion.firstEpoch == 'Included')",
            sentence="measure.timedRegion needs measure.mode Training: set the mode, or remove timedRegion",
            field=".timedRegion",
        ),
    )


class Order(Value):
    """In which order trials run."""

    seed: int = Field(0, ge=0, le=2_147_483_647, description="Seed of the shuffled, interleaved order of the trials.")


class CompareTo(Value):
    """What the study is held against."""

    benchmark: str = Field(
        min_length=1,
        max_length=names.BENCHMARK_NAME_MAX,
        pattern=patterns.OBJECT_NAME,
        description="A finished GpuBenchmark of the same namespace. What it measured is frozen into the plan when this "
        "study starts; one that is not there, or not finished, holds nothing up, and status.comparison says so.",
    )
    tolerance: DecimalText = Field(
        "0.05",
        description="By what share a point may be slower: it passes when the whole 95 % interval of its speed over the "
        "baseline's is above 1 - tolerance, and fails when none of it is.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        _decimal_within("tolerance", "0.001", "0.5", parent="compareTo", such_as="0.05 for 5 %"),
    )


class Results(Value):
    """Where records are kept besides the pods' logs, which go with the pods."""

    volume: ClaimVolume = Field(
        description="A PersistentVolumeClaim of the benchmark's namespace, mounted for writing into every pod of every "
        "attempt: ReadWriteMany where several nodes write at once. Its files are given to a group of the pods, unless "
        "the template mounts the same claim for data: then the image's user must be permitted to write there."
    )
    path: str | None = Field(
        None,
        min_length=1,
        max_length=256,
        pattern=patterns.FOLDER,
        description="Folder on the volume in which the study gets a folder of its own; the volume's own if absent.",
    )


class AttemptLimits(Value):
    """How often a trial is tried again, by the reason why it ended."""

    failed: int = Field(2, ge=0, le=10, description="Further attempts after failures.")
    preempted: int = Field(20, ge=0, le=100, description="Further attempts after preemptions and evictions.")


class Limits(Value):
    """Bounds of the study."""

    parallel_trials: int = Field(1, ge=1, le=64, description="Trials that run at the same time at most. Mutable.")
    attempts: AttemptLimits = Field(AttemptLimits(), description="How often a trial is tried again.")
    scheduling_timeout: Duration = Field(
        "15m", description="From an attempt's creation until all of its pods run, node provisioning and pulls included."
    )
    attempt_timeout: Duration = Field("12h", description="From then until the attempt has ended.")
    budget: DecimalText | None = Field(
        None,
        description='What the study\'s attempts may be billed in all, in its currency, such as "40.00": by the frozen '
        "prices, billing minimum included. What does not fit is not started, or stopped in time; then the study ends "
        "with condition BudgetExhausted, and goes on when the budget is raised. The operator keeps it: while that does "
        "not run, only a Job's own deadline ends an attempt (schedulingTimeout, attemptTimeout and 2 minutes). Needs "
        "a price on every pool that is run. Mutable.",
    )

    stop_dominated: bool = Field(
        False,
        description="Whether repeats of a point are left out once another point that does the same work is faster and "
        "cheaper, each beyond both 95 % intervals. The point keeps its figure, with omission Dominated. Needs prices "
        "and at least 3 repeats of each. Mutable.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        _positive("schedulingTimeout", parent="limits"),
        _positive("attemptTimeout", parent="limits"),
        Rule(
            cel="!has(self.budget) || !self.budget.matches('^[0.]+$')",
            sentence="limits.budget must be more than 0: write what the study may cost, such as 40.00, or remove it",
            field=".budget",
        ),
        *(
            rules.unchangeable(field, parent="spec.limits")
            for field in ("attempts", "schedulingTimeout", "attemptTimeout")
        ),
    )


# Points of all blocks, as they are written: one that two blocks name counts twice here, though it runs once.
_POINTS = (
    "self.sweep.map(block, size(block.workloads) * size(block.pools) * size(block.workers) * size(block.precision) * "
    "(has(block.variants) ? size(block.variants) : 1) * "
    "((has(block.batchPerWorker) ? size(block.batchPerWorker) : 0) + "
    "(has(block.globalBatch) ? size(block.globalBatch) : 0))).sum()"
)
_REPEATS = "(has(self.measure.repeats.max) ? self.measure.repeats.max : self.measure.repeats.min)"
_TRIALS = f"{_POINTS} * {_REPEATS}"
_TEXT = (
    "self.sweep.map(block, (has(block.variants) ? block.variants.map(variant, has(variant.env) ? "
    "variant.env.map(one, size(one.name) + size(one.value)).sum() : 0).sum() : 0) + "
    "(has(block.custom) && has(block.custom.command) ? block.custom.command.map(word, size(word)).sum() : 0)).sum()"
)


class Goal(Value):
    """So many samples of a workload; restarts, evaluation and slower convergence at large batches come on top."""

    name: str = Field(min_length=1, max_length=24, pattern=patterns.NAME, description="Name in results.")
    workload: str = Field(min_length=1, max_length=63, description="Workload that is to be trained.")
    samples: int = Field(ge=1, le=1_000_000_000_000_000, description="Samples to train: epochs times data set.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"self.workload != '{workloads.MESSAGES}'",
            sentence=f"goals[].workload cannot be {workloads.MESSAGES}, which sends messages and trains nothing: name "
            "another workload, or remove the goal",
            field=".workload",
        ),
    )


class Objective(Value):
    """What the study is to decide: of a goal's cost or time as little as possible, the other one within a limit."""

    minimize: Literal["Cost", "Time"] = Field(
        description="What is to be as little as possible: status.answer then says which pool, how many workers, what "
        "they cost, by how much they beat the next, and how sure that is."
    )
    goal: str = Field(min_length=1, max_length=24, pattern=patterns.NAME, description="Goal of spec.goals.")
    max_hours: float | None = Field(
        None,
        ge=0.01,
        le=100_000,
        description="With minimize Cost: hours that the goal may take, such as 48. Absent: however long it takes.",
    )
    max_cost: DecimalText | None = Field(
        None,
        description='With minimize Time: what the goal may cost, in spec.currency, such as "500". Absent: whatever it '
        "costs.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.maxHours) || self.minimize == 'Cost'",
            sentence="objective.maxHours is the limit of minimize Cost, as with minimize Time the hours are the fewest "
            "there are: set minimize to Cost, or remove maxHours",
            field=".maxHours",
        ),
        Rule(
            # The API server cuts a minimum to a whole number where the value is one: 0 would pass 0.01.
            cel="!has(self.maxHours) || double(self.maxHours) > 0.0",
            sentence="objective.maxHours must be more than 0: write the hours that there are, such as 48, or remove it",
            field=".maxHours",
        ),
        Rule(
            cel="!has(self.maxCost) || self.minimize == 'Time'",
            sentence="objective.maxCost is the limit of minimize Time, as with minimize Cost the cost is the lowest "
            "there is: set minimize to Time, or remove maxCost",
            field=".maxCost",
        ),
        Rule(
            cel="!has(self.maxCost) || !self.maxCost.matches('^[0.]+$')",
            sentence="objective.maxCost must be more than 0: write what may be spent, such as 500, or remove it",
            field=".maxCost",
        ),
    )


class GpuBenchmarkSpec(Value):
    """One study: what to measure, where, how often, within which limits."""

    sweep: tuple[SweepBlock, ...] = Field(
        min_length=1,
        max_length=BLOCKS_MAX,
        description="What is measured: a list of blocks, each of which names points.",
    )
    measure: Measure = Field(Measure(), description="How a trial is measured.")
    order: Order = Field(Order(), description="In which order trials run.")
    goals: tuple[Goal, ...] = Field(
        (),
        max_length=16,
        description="Training of a given size, for which results say time and cost: a lower bound.",
        json_schema_extra=rules.list_map("name"),
    )
    objective: Objective | None = Field(
        None, description="What the study is to decide. Without it no single best is named, only what the figures say."
    )
    currency: Currency | None = Field(
        None,
        description="Currency of all costs; each pool's own if absent. A pool in another one needs an exchange rate.",
    )
    exchange_rates: tuple[ExchangeRate, ...] = Field(
        (),
        max_length=16,
        description="Dated rates into currency. Without one, costs of that pool are absent, and a warning says so.",
        json_schema_extra=rules.list_map("from"),
    )
    compare_to: CompareTo | None = Field(None, description="A baseline whose speed the study is to keep up with.")
    limits: Limits = Field(Limits(), description="Bounds of the study.")
    template: Template = Field(Template(), description="Image and environment of the pods, over the pool's own.")
    results: Results | None = Field(
        None,
        description="A volume on which each pod keeps its records (environment, windows, samples, result) as files. "
        "What it does not take, the pod's log still has, and the attempt goes on. A claim that cannot be mounted lets "
        "no pod begin, and ends the attempt.",
    )
    suspend: bool = Field(False, description="Stop running attempts and start none until this is false. Mutable.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"{_POINTS} <= {POINTS_MAX}",
            sentence=f"the blocks of spec.sweep can name at most {POINTS_MAX} points in all: shorten the lists, or "
            "make several studies of them",
            detail="they name %d",
            values=(_POINTS,),
            field=".sweep",
        ),
        Rule(
            cel=f"{_TRIALS} <= {TRIALS_MAX}",
            sentence=f"points times measure.repeats.max (min, where there is no max) can be at most {TRIALS_MAX} "
            "trials: shorten the lists of spec.sweep, or repeat less",
            detail="they make %d",
            values=(_TRIALS,),
            field=".sweep",
        ),
        Rule(
            cel=f"{_TEXT} <= {TEXT_MAX}",
            sentence=f"the variants' env and the custom commands of spec.sweep can have at most {TEXT_MAX} characters "
            "in all: put long texts into a file that a volume brings, or make several studies",
            detail="they have %d",
            values=(_TEXT,),
            field=".sweep",
        ),
        Rule(
            cel=_about_durations(
                "measure.warmUp",
                "measure.duration",
                "limits.attemptTimeout",
                holds="duration(self.measure.warmUp) + duration(self.measure.duration) "
                "< duration(self.limits.attemptTimeout)",
            ),
            sentence="limits.attemptTimeout must be longer than measure.warmUp and measure.duration together: "
            "otherwise no attempt could finish",
            detail="attemptTimeout is %s, warmUp %s, duration %s",
            values=("self.limits.attemptTimeout", "self.measure.warmUp", "self.measure.duration"),
            field=".limits.attemptTimeout",
        ),
        Rule(
            cel="self.measure.mode == 'Training' || self.sweep.all(block, !has(block.epochs))",
            sentence="sweep[].epochs needs measure.mode Training: set the mode, or remove epochs",
            field=".sweep",
        ),
        Rule(
            cel="self.measure.mode == 'Throughput' || self.sweep.all(block, has(block.data) && has(block.data.source) "
            "&& block.data.source != 'Synthetic')",
            sentence="measure.mode Training needs data that can be learned: set sweep[].data.source to Generated or "
            "Volume",
            field=".sweep",
        ),
        Rule(
            cel="self.measure.timedRegion.firstEpoch == 'Included' || "
            "self.sweep.all(block, !has(block.epochs) || block.epochs > 1)",
            sentence="measure.timedRegion.firstEpoch Excluded leaves nothing of 1 epoch: give sweep[].epochs 2 or more",
            field=".sweep",
        ),
        Rule(
            cel="!has(self.goals) || self.goals.all(goal, self.sweep.exists(block, has(block.custom) ? "
            "block.custom.name == goal.workload : goal.workload in block.workloads))",
            sentence="goals[].workload is a workload of the sweep: name one of them, or remove the goal",
            field=".goals",
        ),
        Rule(
            cel="!has(self.results) || self.sweep.exists(block, !has(block.custom) || !has(block.custom.command))",
            sentence="spec.results keeps the records of gpubench's own launcher, which custom.command replaces: remove "
            "results, and let the program keep what it wants on a volume of its own",
            field=".results",
        ),
        Rule(
            cel="!has(self.objective) || "
            "(has(self.goals) && self.goals.exists(goal, goal.name == self.objective.goal))",
            sentence="objective.goal is the name of one of spec.goals: name one of them, or add the goal",
            field=".objective.goal",
        ),
        Rule(
            cel="!has(self.objective) || !has(self.objective.maxCost) || has(self.currency)",
            sentence="objective.maxCost is an amount in spec.currency: give currency, such as USD",
            field=".objective.maxCost",
        ),
        Rule(
            cel="!has(self.exchangeRates) || self.exchangeRates.size() == 0 || has(self.currency)",
            sentence="exchangeRates lead into spec.currency: give it, such as USD",
            field=".exchangeRates",
        ),
        Rule(
            cel="!has(self.exchangeRates) || !has(self.currency) || "
            "self.exchangeRates.all(exchange, exchange.from != self.currency)",
            sentence="exchangeRates[].from is spec.currency itself: name the other currency",
            field=".exchangeRates",
        ),
        Rule(
            cel="!has(self.goals) || self.goals.all(goal, "
            f"size(self.goals.filter(other, other.workload == goal.workload)) <= {GOALS_OF_A_WORKLOAD_MAX})",
            sentence=f"spec.goals can have at most {GOALS_OF_A_WORKLOAD_MAX} goals for each workload: "
            "put the others into another study",
            field=".goals",
        ),
        *(
            rules.unchangeable(field, parent="spec")
            for field in (
                *(
                    "sweep",
                    "measure",
                    "order",
                    "template",
                    "results",
                    "goals",
                    "objective",
                    "currency",
                    "exchangeRates",
                ),
                "compareTo",
            )
        ),
    )


class GpuBenchmark(Value):
    """The object's content that planning needs: its name and its spec."""

    name: str
    spec: GpuBenchmarkSpec

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"size(self.metadata.name) <= {names.BENCHMARK_NAME_MAX}",
            sentence=f"metadata.name must have at most {names.BENCHMARK_NAME_MAX} characters, because the names of "
            "its pods begin with it",
            detail="this one has %d",
            values=("size(self.metadata.name)",),
            field=".metadata.name",
        ),
        Rule(
            cel="self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            sentence="metadata.name must begin with a letter and hold only small letters, digits and -, because host "
            "names are made of it; choose a name such as three-cnns",
            field=".metadata.name",
        ),
        Rule(
            cel="!has(self.spec.compareTo) || self.spec.compareTo.benchmark != self.metadata.name",
            sentence="spec.compareTo.benchmark is this benchmark itself: name another one, which has finished",
            field=".spec.compareTo.benchmark",
        ),
    )
