# SPDX-License-Identifier: Apache-2.0
"""GpuBenchmark: one benchmark, as it is asked: its spec. What was found is in `benchmark_status`."""

from typing import ClassVar

from pydantic import Field

from gpubench import metrics, names
from gpubench.api import attempts, measuring, pool_price, rules
from gpubench.api.goals import CompareTo, Goal, Objective, RelativeBase
from gpubench.api.pod_template import PodScheduling, Template
from gpubench.api.status_sizes import GOALS_OF_A_WORKLOAD_MAX
from gpubench.api.sweep import NO_VARIANT, SweepBlock
from gpubench.values import FrozenModel

POINTS_MAX = metrics.POINTS_MAX
TRIALS_MAX = 2560
#: Characters of all variants' environments and all commands: the plan, which has the pools too, must fit a ConfigMap.
TEXT_MAX = 32_768
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
    "variant.env.map(one, size(one.name) + (has(one.value) ? size(one.value) : 0)).sum() : 0).sum() : 0) + "
    "(has(block.custom) && has(block.custom.command) ? block.custom.command.map(word, size(word)).sum() : 0)).sum()"
)


def _is_base(block: str, base: str) -> str:
    """CEL for: a block of the sweep has all values that the baseline names."""
    listed = {"pool": "pools", "workers": "workers", "precision": "precision"}
    optional = ("batchPerWorker", "globalBatch")
    terms = [
        *(f"(!has({base}.{one}) || {base}.{one} in {block}.{several})" for one, several in listed.items()),
        *(f"(!has({base}.{one}) || (has({block}.{one}) && {base}.{one} in {block}.{one}))" for one in optional),
    ]
    variant = f"{block}.variants.exists(variant, variant.name == {base}.variant)"
    plain = f"({base}.variant == '{NO_VARIANT}' && !has({block}.variants))"
    return " && ".join([*terms, f"(!has({base}.variant) || {plain} || (has({block}.variants) && {variant}))"])


_BASE_POOL = "self.sweep.exists(block, self.baseline.pool in block.pools)"
_UNCHANGEABLE = (
    "sweep", "measure", "order", "scheduling", "template", "results", "checkpoint", "goals", "objective", "baseline",
    "currency", "exchangeRates", "compareTo", "queueName",
)  # fmt: skip


class GpuBenchmarkSpec(FrozenModel):
    """One benchmark: what to measure, where, how often, within which limits."""

    sweep: tuple[SweepBlock, ...] = Field(
        min_length=1, max_length=16, description="What is measured: a list of blocks, each of which names points."
    )
    measure: measuring.Measure = Field(measuring.Measure(), description="How a trial is measured.")
    order: measuring.Order = Field(measuring.Order(), description="In which order trials run.")
    goals: tuple[Goal, ...] = Field(
        (),
        max_length=16,
        description="Training of a given size, for which results say time and cost: a lower bound.",
        json_schema_extra=rules.list_map("name"),
    )
    objective: Objective | None = Field(
        None,
        description="What the benchmark is to decide. Without it no single best is named, only what the figures say.",
    )
    currency: pool_price.Currency | None = Field(
        None,
        description="Currency of all costs; each pool's own if absent. A pool in another one needs an exchange rate.",
    )
    exchange_rates: tuple[pool_price.ExchangeRate, ...] = Field(
        (),
        max_length=16,
        description="Dated rates into currency. Without one, costs of that pool are absent, and a warning says so.",
        json_schema_extra=rules.list_map("from"),
    )
    baseline: RelativeBase | None = Field(
        None, description="What results[].relative is relative to. What it does not name is the point's own."
    )
    compare_to: CompareTo | None = Field(None, description="A baseline whose speed the benchmark is to keep up with.")
    limits: attempts.Limits = Field(attempts.Limits(), description="Bounds of the benchmark.")
    scheduling: PodScheduling = Field(
        PodScheduling(), description="Which of the pools' nodes the pods use, and how; over the pool's own."
    )
    template: Template = Field(Template(), description="Image and environment of the pods, over the pool's own.")
    results: attempts.Results | None = Field(
        None,
        description="A volume on which each pod keeps its records (environment, windows, samples, result) as files, "
        "beside the pod's log. A claim that cannot be mounted lets no pod begin, and ends the attempt.",
    )
    checkpoint: attempts.Checkpoint | None = Field(
        None, description="With mode Training: where checkpoints are kept, from which the next attempt goes on."
    )
    drill: attempts.Drill | None = Field(
        None,
        description="Interruptions on purpose: pods of the benchmark's own attempts are evicted, so that recovery can "
        "be measured on any cluster. They count in status.attempts.drilled only. Mutable: `gpubench drill` sets it.",
    )
    queue_name: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=rules.OBJECT_NAME,
        description="LocalQueue of Kueue, in the benchmark's namespace. Its Jobs are then created suspended, "
        "and run when Kueue admits them; one that it evicts and admits again is the same attempt. Condition Admitted "
        "says how they stand. Kueue's quota decides what runs, and not gpubench's own count of a pool's slots.",
    )
    ttl_seconds_after_finished: int | None = Field(
        None,
        ge=0,
        le=2**31 - 1,
        description="Seconds after status.completionTime until it is deleted, with all that it owns; never if absent. "
        "`gpubench export` keeps its results. Mutable.",
    )
    suspend: bool = Field(False, description="Stop running attempts and start none until this is false. Mutable.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            f"{_POINTS} <= {POINTS_MAX}",
            f"the blocks of spec.sweep can name at most {POINTS_MAX} points in all: shorten the lists, or "
            "make several benchmarks of them",
            ".sweep",
            detail="they name %d",
            values=(_POINTS,),
        ),
        rules.Rule(
            f"{_TRIALS} <= {TRIALS_MAX}",
            f"points times measure.repeats.max (min, where there is no max) can be at most {TRIALS_MAX} "
            "trials: shorten the lists of spec.sweep, or repeat less",
            ".sweep",
            detail="they make %d",
            values=(_TRIALS,),
        ),
        rules.Rule(
            f"{_TEXT} <= {TEXT_MAX}",
            f"the variants' env and the custom commands of spec.sweep can have at most {TEXT_MAX} characters "
            "in all: put long texts into a file that a volume brings, or make several benchmarks",
            ".sweep",
            detail="they have %d",
            values=(_TEXT,),
        ),
        rules.Rule(
            rules.about_durations(
                "measure.warmUp",
                "measure.duration",
                "limits.attemptTimeout",
                holds="duration(self.measure.warmUp) + duration(self.measure.duration) "
                "< duration(self.limits.attemptTimeout)",
            ),
            "limits.attemptTimeout must be longer than measure.warmUp and measure.duration together: "
            "otherwise no attempt could finish",
            ".limits.attemptTimeout",
            detail="attemptTimeout is %s, warmUp %s, duration %s",
            values=("self.limits.attemptTimeout", "self.measure.warmUp", "self.measure.duration"),
        ),
        rules.Rule(
            "self.measure.mode == 'Training' || self.sweep.all(block, !has(block.epochs))",
            "sweep[].epochs needs measure.mode Training: set the mode, or remove epochs",
            ".sweep",
        ),
        rules.Rule(
            "self.measure.mode == 'Throughput' || self.sweep.all(block, has(block.data) && has(block.data.source) "
            "&& block.data.source != 'Synthetic')",
            "measure.mode Training needs data that can be learned: set sweep[].data.source to Generated or Volume",
            ".sweep",
        ),
        rules.Rule(
            "self.measure.timedRegion.firstEpoch == 'Included' || "
            "self.sweep.all(block, !has(block.epochs) || block.epochs > 1)",
            "measure.timedRegion.firstEpoch Excluded leaves nothing of 1 epoch: give sweep[].epochs 2 or more",
            ".sweep",
        ),
        rules.Rule(
            "!has(self.goals) || self.goals.all(goal, self.sweep.exists(block, has(block.custom) ? "
            "block.custom.name == goal.workload : goal.workload in block.workloads))",
            "goals[].workload is a workload of the sweep: name one of them, or remove the goal",
            ".goals",
        ),
        rules.Rule(
            "!has(self.results) || self.sweep.exists(block, !has(block.custom) || !has(block.custom.command))",
            "spec.results keeps the records of gpubench's own launcher, which custom.command replaces: remove results",
            ".results",
        ),
        rules.Rule(
            "!has(self.checkpoint) || self.measure.mode == 'Training'",
            "spec.checkpoint needs measure.mode Training, as a measurement of throughput begins afresh in "
            "each attempt: set the mode, or remove checkpoint",
            ".checkpoint",
        ),
        rules.Rule(
            "!has(self.checkpoint) || self.sweep.all(block, !has(block.custom) || !has(block.custom.command))",
            "spec.checkpoint keeps the state of gpubench's own ranks, which custom.command replaces: remove checkpoint",
            ".checkpoint",
        ),
        rules.Rule(
            "!has(self.objective) || (has(self.goals) && self.goals.exists(goal, goal.name == self.objective.goal))",
            "objective.goal is the name of one of spec.goals: name one of them, or add the goal",
            ".objective.goal",
        ),
        rules.Rule(
            "!has(self.objective) || !has(self.objective.maxCost) || has(self.currency)",
            "objective.maxCost is an amount in spec.currency: give currency, such as USD",
            ".objective.maxCost",
        ),
        rules.Rule(
            f"!has(self.baseline) || !has(self.baseline.pool) || {_BASE_POOL}",
            "baseline.pool is one of the pools of spec.sweep: name one of them, or add it to a block",
            ".baseline.pool",
        ),
        rules.Rule(
            f"!has(self.baseline) || (has(self.baseline.pool) && !{_BASE_POOL}) || "
            f"self.sweep.exists(block, {_is_base('block', 'self.baseline')})",
            "baseline names a point that no block of spec.sweep has: give values that stand together in one "
            "block, or add a block with them",
            ".baseline",
        ),
        rules.Rule(
            "!has(self.exchangeRates) || self.exchangeRates.size() == 0 || has(self.currency)",
            "exchangeRates lead into spec.currency: give it, such as USD",
            ".exchangeRates",
        ),
        rules.Rule(
            "!has(self.exchangeRates) || !has(self.currency) || "
            "self.exchangeRates.all(exchange, exchange.from != self.currency)",
            "exchangeRates[].from is spec.currency itself: name the other currency",
            ".exchangeRates",
        ),
        rules.Rule(
            "!has(self.goals) || self.goals.all(goal, "
            f"size(self.goals.filter(other, other.workload == goal.workload)) <= {GOALS_OF_A_WORKLOAD_MAX})",
            f"spec.goals can have at most {GOALS_OF_A_WORKLOAD_MAX} goals for each workload: "
            "put the others into another benchmark",
            ".goals",
        ),
        *(rules.unchangeable(field, parent="spec") for field in _UNCHANGEABLE),
    )


class GpuBenchmark(FrozenModel):
    """The object's content that planning needs: its name and its spec."""

    name: str
    spec: GpuBenchmarkSpec

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.name_at_most(names.BENCHMARK_NAME_MAX, because="the names of its pods begin with it"),
        rules.name_of_hosts(such_as="three-cnns"),
        rules.Rule(
            "!has(self.spec.compareTo) || self.spec.compareTo.benchmark != self.metadata.name",
            "spec.compareTo.benchmark is this benchmark itself: name another one, which has finished",
            ".spec.compareTo.benchmark",
        ),
    )
