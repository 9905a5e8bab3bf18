# SPDX-License-Identifier: Apache-2.0
"""What was found in a GpuBenchmark: its status, a summary, and beside it the whole analysis of its results.

Everybody with `edit` can write a ConfigMap, nobody but the operator the status: so that has the analysis' SHA-256.
"""

from collections.abc import Sequence

from pydantic import Field

from gpubench import metrics, names
from gpubench.api import condition, point_warning, price_result, rules
from gpubench.api import status_sizes as sizes
from gpubench.api.goodput_result import Goodput, InterruptionCounts
from gpubench.api.point_result import AmountInterval, EnvironmentFacts, Judgement, PointResult, PointState
from gpubench.units import DecimalText
from gpubench.values import FrozenModel, Interval


class ComparisonCounts(FrozenModel):
    """Points by what their comparison says."""

    passed: int = Field(0, description="Points that keep up with the baseline.")
    failed: int = Field(0, description="Points slower than the tolerance allows, or failed where the baseline did not.")
    cannot_tell: int = Field(0, description="Points that the baseline has measured and of which nothing can be said.")
    not_compared: int = Field(0, description="Points that the baseline has not measured.")


class Comparison(FrozenModel):
    """The benchmark beside its baseline."""

    baseline: str = Field(max_length=names.BENCHMARK_NAME_MAX, description="GpuBenchmark of spec.compareTo.")
    tolerance: DecimalText = Field(description="That of spec.compareTo.")
    verdict: Judgement = Field(
        description="Fail with the first failing point; Pass when every comparable point passes."
    )
    points: ComparisonCounts = Field(description="Points by what their comparison says.")
    sentence: str = Field(max_length=sizes.COMPARISON_MAX, description="The same in words, with the deciding point.")


class PointCounts(FrozenModel):
    """Points by what became of them."""

    total: int = Field(description="Points of the plan.")
    measured: int = Field(0, description="Points with all repeats measured, and those derived from such.")
    unstable: int = Field(0, description="Points that were measured and never settled: their figures are not ranked.")
    running: int = Field(0, description="Points with an attempt under way.")
    failed: int = Field(0, description="Points that ended Failed.")
    skipped: int = Field(0, description="Points that no pool can hold.")
    not_run: int = Field(0, description="Points without a figure whose trials were left out: see their omission.")
    other: int = Field(0, description="Points OutOfMemory, NoCapacity, UnsupportedAccelerator or NotPublished.")


class TrialCounts(FrozenModel):
    """Trials of the plan."""

    total: int = Field(
        description="Points times repeats, skipped points left out; with measure.repeats.until at most: those that "
        "turn out not to be needed are taken off."
    )
    least: int | None = Field(None, description="With measure.repeats.until: trials if no point needs another.")
    finished: int = Field(0, description="Trials with a result, or given up.")
    running: int = Field(0, description="Trials with an attempt under way.")


class AttemptCounts(FrozenModel):
    """Attempts by how they ended. started = succeeded + failed + preempted + drilled + stopped + running."""

    started: int = Field(0, description="Jobs created so far.")
    succeeded: int = Field(0, description="Attempts with a result.")
    failed: int = Field(0, description="Attempts that failed.")
    preempted: int = Field(0, description="Attempts that lost a pod to preemption, eviction or a lost node.")
    drilled: int = Field(0, description="Attempts of which a pod was evicted on purpose, as spec.drill asks.")
    stopped: int = Field(
        0,
        description="Attempts that were stopped: suspended, over budget, given up by a queue, or without a node while "
        "another pool had its turn.",
    )
    interruptions: InterruptionCounts | None = Field(None, description="Those that were preempted, by who did it.")


class BestShown(FrozenModel):
    """What `kubectl get` shows of it; a column is a text."""

    pool: str = Field(
        max_length=sizes.BEST_POOL_MAX,
        description="BEST-POOL: the pool, in brackets what must be known of it: predicted, tie, not sure.",
    )
    cost: str | None = Field(None, max_length=40, description="COST, such as USD 10.5.")
    time: str = Field(max_length=40, description="TIME, such as 5.26 h.")


class BestGang(FrozenModel):
    """What is to be taken for spec.objective."""

    pool: str = Field(max_length=63, description="GpuPool.")
    workers: int = Field(description="Horovod ranks.")
    setting: str | None = Field(None, max_length=128, description="Batch and variant, such as batch 64 with fp16-wire.")


class Best(BestGang):
    """What is to be taken for spec.objective: the figures of what status.answer says."""

    predicted: bool = Field(description="Whether nobody has measured it: its figures are those of a scaling law.")
    sure: bool = Field(
        description="Whether, by all 95 % intervals, it is better than every other one and keeps the limit, if any."
    )
    tied: int = Field(description="Other gangs that may be as good, for their intervals overlap.")
    hours: Interval = Field(description="Hours of training to the goal, a lower bound.")
    cost: AmountInterval | None = Field(None, description="Marginal cost of the goal, a lower bound, if priced.")
    shown: BestShown = Field(description="The same as `kubectl get` shows it, rounded.")


class BestSummary(BestGang):
    """What is to be taken for spec.objective, as far as scripts and columns need it."""

    hours: float = Field(description="Hours of training to the goal, a lower bound.")
    cost: DecimalText | None = Field(None, description="Marginal cost of the goal; absent without a price.")
    shown: BestShown = Field(description="The same as `kubectl get` shows it, rounded.")


class PointSummary(FrozenModel):
    """One point: a text for people, and a number each for scripts."""

    key: str = Field(
        max_length=sizes.POINT_KEY_MAX,
        description="Workload, pool and workers, such as resnet50/p3/8, and what else tells it from the other points.",
    )
    state: PointState = Field(description="What became of it.")
    message: str | None = Field(None, max_length=sizes.REASON_MAX, description="Why, where it was not measured.")
    summary: str | None = Field(None, max_length=sizes.POINT_SUMMARY_MAX, description="Its figures in words.")
    samples_per_second: float | None = Field(None, description="Throughput, mean over the repeats.")
    efficiency: float | None = Field(None, description="Scaling efficiency, of the strong line where it has only that.")
    cost: DecimalText | None = Field(None, description="Marginal cost per million samples, or of a training per run.")
    warnings: tuple[point_warning.WarningReason, ...] | None = Field(
        None,
        max_length=sizes.WARNINGS_MAX,
        description="What its warnings are about; the analysis has their sentences.",
    )


class AnalysisReference(FrozenModel):
    """Where the whole analysis is."""

    config_map: str = Field(max_length=253, description="Name of its ConfigMap; further ones end with -1, -2, ...")
    parts: int = Field(1, description="ConfigMaps that its text is cut into.")
    ledger_version: int = Field(description="Attempts that had ended and environments that were known.")
    sha256: str = Field(max_length=64, description="Of its whole text, in hexadecimal digits.")

    @property
    def config_maps(self) -> tuple[str, ...]:
        return tuple(f"{self.config_map.removesuffix('0')}{part}" for part in range(self.parts))


#: Types of conditions that say why nothing goes on, the most telling first, and the status with which they do.
_WAITING = (
    ("Suspended", "True"),
    ("GangPending", "True"),
    ("WritesRefused", "True"),
    ("Admitted", "False"),
    ("Progressing", "False"),
)


def waits_for(conditions: Sequence[condition.Condition]) -> condition.Condition | None:
    """The condition that says why nothing goes on; None where something does, or all is over."""
    seen = {(one.type, one.status): one for one in conditions}
    return None if ("Finished", "True") in seen else next((seen[one] for one in _WAITING if one in seen), None)


class BenchmarkProgress(FrozenModel):
    """How far a benchmark has come."""

    phase: str | None = Field(None, max_length=32, description="One word for the STATUS column.")
    observed_generation: int | None = Field(None, description="Generation of the spec that this speaks of.")
    conditions: tuple[condition.Condition, ...] = Field(
        (),
        max_length=10,
        description="Finished and Succeeded say how the benchmark ended; wait for Finished in scripts.",
        json_schema_extra=rules.list_map("type"),
    )
    message: str | None = Field(
        default_factory=lambda fields: found.message if (found := waits_for(fields["conditions"])) else None,
        max_length=1024,
        description="The MESSAGE column: why nothing goes on, where nothing does.",
    )
    points: PointCounts | None = Field(None, description="Points by what became of them.")
    points_done: str | None = Field(None, max_length=16, description="The POINTS column, such as 40/72.")
    trials: TrialCounts | None = Field(None, description="Trials of the plan.")
    seed: int | None = Field(None, description="Seed of the order in which the trials run.")
    attempts: AttemptCounts | None = Field(None, description="Attempts by how they ended.")
    spent: price_result.Spent | None = Field(None, description="Absent where the pools have no price in one currency.")
    start_time: rules.Time | None = Field(None, description="When the plan was frozen.")
    completion_time: rules.Time | None = Field(None, description="When the last trial had ended.")


class GpuBenchmarkStatus(BenchmarkProgress):
    """What was found so far, in short."""

    results: tuple[PointSummary, ...] = Field(
        (), max_length=metrics.POINTS_MAX, description="One entry for each point, in the plan's order."
    )
    comparison: Comparison | None = Field(None, description="Of a finished benchmark with spec.compareTo.")
    best: BestSummary | None = Field(
        None, description="Of a finished benchmark with spec.objective: see status.answer."
    )
    answer: str | None = Field(None, max_length=sizes.ANSWER_SHOWN_MAX, description="What the figures say, cut.")
    analysis: AnalysisReference | None = Field(None, description="Where all figures are, with their intervals.")


class Analysis(FrozenModel):
    """What the results say so far; what needs all points is absent until they have ended."""

    results: tuple[PointResult, ...] = Field((), description="One entry for each point, in the plan's order.")
    environments: tuple[EnvironmentFacts, ...] = Field(
        (), max_length=sizes.ENVIRONMENTS_SHOWN_MAX, description="What the figures stand on, each once."
    )
    prices: tuple[price_result.PriceUsed, ...] = Field(
        (), description="The pools' prices in the plan's currency, as they are in the plan."
    )
    comparisons: tuple[price_result.PoolComparison, ...] = Field(
        (), description="What spot saves against its counterpart, and from how much use on an own machine pays."
    )
    goodput: Goodput | None = Field(None, description="Where the nodes' time went, and how often they were taken away.")
    comparison: Comparison | None = Field(None, description="Of a finished benchmark with spec.compareTo.")
    best: Best | None = Field(
        None, description="Of a finished benchmark with spec.objective; absent where nothing can be advised or ranked."
    )
    answer: str | None = Field(None, description="What the figures say, in a sentence or two for each kind of work.")


class FullStatus(Analysis, BenchmarkProgress):
    """The status of a benchmark with the whole analysis in it, as a results folder keeps it."""
