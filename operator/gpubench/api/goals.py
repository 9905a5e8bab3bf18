# SPDX-License-Identifier: Apache-2.0
"""What a benchmark is to decide, and what its results are compared with."""

from typing import ClassVar, Literal

from pydantic import Field

from gpubench import names, workloads
from gpubench.api import rules
from gpubench.units import Amount, DecimalText, Hours
from gpubench.values import FrozenModel


class CompareTo(FrozenModel):
    """What the benchmark is held against."""

    benchmark: str = Field(
        min_length=1,
        max_length=names.BENCHMARK_NAME_MAX,
        pattern=rules.OBJECT_NAME,
        description="A finished GpuBenchmark of the same namespace. What it measured is frozen into the plan when this "
        "benchmark starts; one that is not there, or not finished, holds nothing up, and status.comparison says so.",
    )
    tolerance: DecimalText = Field(
        "0.05",
        description="By what share a point may be slower: it passes when the whole 95 % interval of its speed over the "
        "baseline's is above 1 - tolerance, and fails when none of it is.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.decimal_within("tolerance", "0.001", "0.5", parent="compareTo", such_as="0.05 for 5 %"),
    )


class Goal(FrozenModel):
    """So many samples of a workload; restarts, evaluation and slower convergence at large batches come on top."""

    name: str = Field(min_length=1, max_length=24, pattern=rules.NAME, description="Name in results.")
    workload: str = Field(min_length=1, max_length=63, description="Workload that is to be trained.")
    samples: int = Field(ge=1, le=1_000_000_000_000_000, description="Samples to train: epochs times data set.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            f"self.workload != '{workloads.MESSAGES}'",
            f"goals[].workload cannot be {workloads.MESSAGES}, which sends messages and trains nothing: name "
            "another workload, or remove the goal",
            ".workload",
        ),
    )


class Objective(FrozenModel):
    """What the benchmark is to decide: of a goal's cost or time as little as possible, the other one within a limit."""

    minimize: Literal["Cost", "Time"] = Field(
        description="What is to be as little as possible: status.answer then says which pool, how many workers, what "
        "they cost, by how much they beat the next, and how sure that is."
    )
    goal: str = Field(min_length=1, max_length=24, pattern=rules.NAME, description="Goal of spec.goals.")
    max_hours: Hours | None = Field(None, description="With minimize Cost: hours that the goal may take, such as 48.")
    max_cost: Amount | None = Field(
        None, description='With minimize Time: what the goal may cost, in spec.currency, such as "500"; any if absent.'
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!has(self.maxHours) || self.minimize == 'Cost'",
            "objective.maxHours is the limit of minimize Cost: set minimize to Cost, or remove maxHours",
            ".maxHours",
        ),
        rules.Rule(
            f"!has(self.maxHours) || !{rules.is_number('self.maxHours')} || "
            "(double(self.maxHours) >= 0.01 && double(self.maxHours) <= 100000.0)",
            "objective.maxHours must be from 0.01 to 100000: write the hours that there are, such as 48, or remove it",
            ".maxHours",
        ),
        rules.Rule(
            "!has(self.maxCost) || self.minimize == 'Time'",
            "objective.maxCost is the limit of minimize Time: set minimize to Time, or remove maxCost",
            ".maxCost",
        ),
        rules.above_zero(
            "maxCost",
            sentence="objective.maxCost must be more than 0: write what may be spent, such as 500, or remove it",
        ),
    )


class RelativeBase(FrozenModel):
    """What relative figures are relative to: of each point the one with these values, and otherwise the same."""

    pool: rules.PoolName | None = Field(None, description="GpuPool of the base, one of the sweep's.")
    workers: rules.Workers | None = Field(
        None,
        description="Horovod ranks of the base, at the same batch per worker, or, under globalBatch alone, the same "
        "global batch. Absent: as many as the point has.",
    )
    batch_per_worker: rules.Batch | None = Field(None, description="Samples per rank and step of the base.")
    global_batch: rules.Batch | None = Field(None, description="Samples of all ranks per step of the base.")
    precision: workloads.Precision | None = Field(None, description="Arithmetic of the base.")
    variant: rules.ShortName | None = Field(
        None, description="Name of the base's variant; none: the base has no variant. Absent: the point's own."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "has(self.pool) || has(self.workers) || has(self.batchPerWorker) || has(self.globalBatch) || "
            "has(self.precision) || has(self.variant)",
            "baseline names no value that tells the base from other points: give pool, workers, or what "
            "else the figures are to be relative to",
        ),
        rules.Rule(
            "!has(self.batchPerWorker) || !has(self.globalBatch)",
            "baseline.globalBatch is baseline.batchPerWorker times the workers: give one of them",
            ".globalBatch",
        ),
    )
