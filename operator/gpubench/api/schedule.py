# SPDX-License-Identifier: Apache-2.0
"""GpuBenchmarkSchedule: a benchmark again and again, with the words and the rules of CronJob."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpubench import names
from gpubench.api import attempts, benchmark, condition, pod_template, pool_price, rules
from gpubench.units import Amount, DecimalText, Duration
from gpubench.values import FrozenModel, Interval

HISTORY_LIMIT_MAX = 100
DEADLINE_MAX = 31_536_000  # a year
REGRESSIONS_MAX = 16
KEY_CHANGES_MAX = 8
NODES_NAMED_MAX = 8
ACTIVE_MAX = 32
LAST_RESULTS_MAX = 20
SLOW_NODES_MAX = 32
LEVELS_MAX = 64
REGRESSION_SENTENCE_MAX = 480

_BenchmarkName = Annotated[str, Field(max_length=names.BENCHMARK_NAME_MAX)]
_Message = Annotated[str, Field(max_length=REGRESSION_SENTENCE_MAX)]


class TemplateLimits(attempts.Limits):
    """Bounds of each run; they can be changed for the next ones."""

    RULES: ClassVar[tuple[rules.Rule, ...]] = tuple(rule for rule in attempts.Limits.RULES if not rule.transition)


class TemplateSpec(benchmark.GpuBenchmarkSpec):
    """The spec of the benchmarks. A template can be changed: runs that have begun keep theirs, as CronJob's do."""

    limits: TemplateLimits = Field(TemplateLimits(), description="Bounds of each run.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        *(rule for rule in benchmark.GpuBenchmarkSpec.RULES if not rule.transition),
        rules.Rule(
            "!has(self.ttlSecondsAfterFinished)",
            "benchmarkTemplate.spec.ttlSecondsAfterFinished cannot be set: successfulHistoryLimit and "
            "failedHistoryLimit say how long runs are kept",
            ".ttlSecondsAfterFinished",
        ),
    )


class TemplateMetadata(FrozenModel):
    """Labels and annotations of the benchmarks."""

    labels: dict[str, pod_template.LabelValue] = Field(
        default_factory=dict, max_length=20, description="Labels of each benchmark, beside gpubench's own."
    )
    annotations: dict[str, Annotated[str, Field(max_length=1024)]] = Field(
        default_factory=dict, max_length=20, description="Annotations of each benchmark, beside gpubench's own."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = tuple(
        rules.keys(
            field,
            sentence=f"benchmarkTemplate.metadata.{field} has a key that is no label key, or one of {names.GROUP}/: "
            "choose another one",
            are=f" && !key.startsWith('{names.GROUP}/')",
        )
        for field in ("labels", "annotations")
    )


class BenchmarkTemplate(FrozenModel):
    """What each run is: a GpuBenchmark."""

    metadata: TemplateMetadata = Field(TemplateMetadata(), description="Labels and annotations of the benchmarks.")
    spec: TemplateSpec = Field(description="Spec of the benchmarks; as of a GpuBenchmark.")


Across = Literal[
    "instanceType", "imageDigest", "accelerator", "driver", "cuda", "cudnn", "nccl", "transport", "links", "framework",
    "frameworkVersion", "collectives", "collectivesVersion", "threadsPerRank", "node",
]  # fmt: skip


class Regressions(FrozenModel):
    """When the schedule says that its benchmark has become slower."""

    tolerance: DecimalText = Field("0.05", description="By what share a point may become slower, 0.001 to 0.5.")
    false_alarms: DecimalText = Field(
        "0.05",
        description="How many a series of one level may have in its life by each test, 0.001 to 10. With more a "
        "slowdown is found sooner.",
    )
    accept_after: int = Field(
        30, ge=5, le=200, description="Runs after which a regression that stays is accepted as the new level."
    )
    compare_across: tuple[Across, ...] = Field(
        (),
        max_length=16,
        description="What may differ between runs that are held against each other; else runs of one environment only "
        "are. With imageDigest a regression of the image is found. node: nodes are not told apart.",
        json_schema_extra=rules.SET,
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.decimal_within("tolerance", "0.001", "0.5", parent="regressions", such_as="0.05 for 5 %"),
        rules.decimal_within("falseAlarms", "0.001", "10", parent="regressions", such_as="0.05"),
    )


class ScheduleFee(FrozenModel):
    """What is paid beside the nodes because the benchmark is run again and again."""

    name: str = Field(min_length=1, max_length=63, description="What is paid for, such as disk or scheduler.")
    amount: Amount = Field(description="Price of one of them, in the currency of the costs.")
    count: Amount = Field("1", description="How many of them, such as the gigabytes of a disk.")
    per: Literal["Run", "Month"] = Field(description="Run: for each run. Month: whether it runs or not.")


class Costs(FrozenModel):
    """What is to be known for status.monthly, beside the prices of the pools."""

    hours_per_month: int = Field(730, ge=1, le=744, description="Hours of a month, such as 720 for 30 days.")
    currency: pool_price.Currency | None = Field(None, description="Currency of the fees; that of the pools' prices.")
    expected_run: Duration | None = Field(
        None,
        description="How long a run holds its nodes, until one is measured; what `gpubench plan` assumes if absent.",
    )
    cold_start: Duration = Field(
        "0s", description="For how long a node is billed before and after the pods of a run: its boot, and its removal."
    )
    fees: tuple[ScheduleFee, ...] = Field(
        (),
        max_length=16,
        description="What is paid beside the nodes: a disk that stays, a control plane, a scheduler, a function.",
        json_schema_extra=rules.list_map("name"),
    )


class GpuBenchmarkScheduleSpec(FrozenModel):
    """When, what, how many at a time, and what is kept."""

    schedule: str = Field(
        min_length=1,
        max_length=128,
        pattern=rules.SCHEDULE,
        description="Cron expression, such as 0 */4 * * *: minute, hour, day of the month, month, day of the week; or "
        "@hourly, @daily, @weekly, @monthly, @yearly. Read as CronJob reads it.",
    )
    time_zone: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        pattern=rules.TIME_ZONE,
        description="Time zone of the schedule by its name in the IANA database, such as Europe/Berlin; UTC if absent. "
        "A time that its clocks leap over does not run, one that they show twice runs twice.",
    )
    concurrency_policy: Literal["Allow", "Forbid", "Replace"] = Field(
        "Allow",
        description="While an earlier run is under way: Allow another one beside it, Forbid it (the newest that was "
        "missed starts when the earlier one has ended), or Replace the earlier one, which is deleted.",
    )
    starting_deadline_seconds: int | None = Field(
        None,
        ge=0,
        le=DEADLINE_MAX,
        description="How late a run may start; without a bound if absent. Below 10 s runs may be missed.",
    )
    suspend: bool = Field(
        False,
        description="Start no further runs until this is false; those under way go on. The newest run that was missed "
        "meanwhile starts then, unless it is later than startingDeadlineSeconds.",
    )
    successful_history_limit: int = Field(
        3, ge=0, le=HISTORY_LIMIT_MAX, description="Benchmarks that succeeded and are kept; their results always are."
    )
    failed_history_limit: int = Field(1, ge=0, le=HISTORY_LIMIT_MAX, description="Failed benchmarks that are kept.")
    benchmark_template: BenchmarkTemplate = Field(description="The benchmark that each run is.")
    regressions: Regressions = Field(Regressions(), description="When the benchmark is called slower than it was.")
    costs: Costs = Field(Costs(), description="What is to be known for the monthly cost.")


class Regression(FrozenModel):
    """A point that is slower than it was."""

    series: str = Field(max_length=16, description="Hash of what makes it: point, environment, compareAcross.")
    point: str = Field(max_length=160, description="Point, in words.")
    since: rules.Time = Field(description="Scheduled time of its first slow run.")
    run: _BenchmarkName = Field(description="Name of that run.")
    speed: Interval = Field(description="Speed since over speed before, with its 95 % interval.")
    runs_since: int = Field(description="Runs that are slow.")
    runs_before: int = Field(description="Runs that they are held against.")
    nodes: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        (), max_length=NODES_NAMED_MAX, description="Nodes of the slow runs, as far as they are known."
    )
    environment: str | None = Field(None, max_length=16, description="What all of these runs stand on.")
    sentence: _Message = Field(description="The same in words.")


LevelVerdict = Literal["TooFewRuns", "NotSlower", "Slower"]


class Level(FrozenModel):
    """A point in one environment that was measured lately: its level, and whether it has fallen below it."""

    point: str = Field(max_length=160, description="Point, in words.")
    series: str = Field(max_length=16, description="As in regressions[].series.")
    environment: str | None = Field(None, max_length=16, description="What the newest of these runs stands on.")
    since: rules.Time = Field(description="Scheduled time of the first run of the level.")
    runs: int = Field(description="Runs since then.")
    speed: float = Field(description="Of the newest run: samples per second, or runs per second.")
    usual: float | None = Field(
        None, description="What it is held against: the median of its level's first runs, or of its node's."
    )
    verdict: LevelVerdict = Field(description="TooFewRuns: it needs 9, and 5 on a node where nodes differ.")


class KeyChange(FrozenModel):
    """What the figures stand on has become something that was not there before."""

    since: rules.Time = Field(description="Scheduled time of the first run.")
    run: _BenchmarkName = Field(description="Name of that run.")
    sentence: _Message = Field(description="What changed, such as driver 550 -> 560.")


class ActiveRun(FrozenModel):
    """A benchmark of the schedule that is under way."""

    name: _BenchmarkName = Field(description="GpuBenchmark.")
    scheduled_time: rules.Time = Field(description="Moment that it was due.")


class LastRun(FrozenModel):
    """A run that has finished."""

    name: _BenchmarkName = Field(description="GpuBenchmark, which may be gone.")
    scheduled_time: rules.Time = Field(description="Moment that it was due.")
    completion_time: rules.Time = Field(description="When it had finished.")
    succeeded: bool = Field(description="As its condition Succeeded says.")
    sentence: _Message = Field(description="How it ended, and what it found first.")
    spent: DecimalText | None = Field(None, description="What it was billed, an estimate.")
    currency: str | None = Field(None, max_length=3, description="ISO 4217 code of that.")


class SlowNode(FrozenModel):
    """A node that is slower than the others of its pool, by the newest run that measured each node by itself."""

    node: str = Field(max_length=253, description="Node.")
    pool: str = Field(max_length=63, description="GpuPool.")
    speed: float = Field(description="Its speed over the median of all nodes.")
    nodes: int = Field(description="Nodes that were measured alike.")
    sentence: _Message = Field(description="The same in words.")


class MonthlyLine(FrozenModel):
    """One line of the monthly cost."""

    name: str = Field(max_length=140, description="What is paid for.")
    amount: DecimalText = Field(description="For the month.")


class Monthly(FrozenModel):
    """What the schedule costs a month if it goes on like this: an estimate. Amounts are absent without a price."""

    hours: int = Field(description="Hours of the month: spec.costs.hoursPerMonth.")
    runs: DecimalText = Field(description="Runs in so many hours, on average.")
    basis: Literal["Measured", "Given", "Estimated"] | None = Field(
        None, description="How long a run holds its nodes: as the newest runs did, spec.costs.expectedRun, or assumed."
    )
    currency: str | None = Field(None, max_length=3, description="ISO 4217 code of all amounts here.")
    compute: DecimalText | None = Field(None, description="Nodes, billed from boot to removal, and the pools' fees.")
    per_run: DecimalText | None = Field(None, description="One run: its nodes, and fees per Run.")
    fixed: DecimalText | None = Field(None, description="Fees per Month: they are paid whether it runs or not.")
    total: DecimalText | None = Field(None, description="All of it.")
    always_on: DecimalText | None = Field(None, description="What its nodes would cost if they were never given back.")
    lines: tuple[MonthlyLine, ...] = Field((), max_length=48, description="What the total is made of.")
    shown: str | None = Field(None, max_length=40, description="The MONTH column, such as USD 0.76.")
    sentence: _Message = Field(description="What it rests on, or why there is none.")


class GpuBenchmarkScheduleStatus(FrozenModel):
    """When it ran and will run, and what was found over all runs."""

    observed_generation: int | None = Field(None, description="Generation of the spec that this speaks of.")
    conditions: tuple[condition.Condition, ...] = Field(
        (),
        max_length=8,
        description="Ready: the schedule can be read, and runs are started. Regressed: a point is slower than it was.",
        json_schema_extra=rules.list_map("type"),
    )
    active: tuple[ActiveRun, ...] = Field((), max_length=ACTIVE_MAX, description="Runs under way, the newest ones.")
    active_runs: int = Field(0, description="How many runs are under way.")
    last_schedule_time: rules.Time | None = Field(None, description="When the newest run was due.")
    last_successful_time: rules.Time | None = Field(None, description="When the newest run that succeeded finished.")
    next_schedule_time: rules.Time | None = Field(None, description="When the next run is due.")
    runs_kept: int = Field(0, description="Finished runs in the history, whose benchmarks may be gone.")
    points_judged: int = Field(0, description="Points, in each environment, with enough runs for a verdict.")
    last_results: tuple[LastRun, ...] = Field(
        (), max_length=LAST_RESULTS_MAX, description="The newest runs that have finished, newest first."
    )
    regressions: tuple[Regression, ...] = Field(
        (), max_length=REGRESSIONS_MAX, description="Points that are slower than they were, the first ones first."
    )
    slower_points: int = Field(0, description="How many there are, in each environment.")
    runs_due_since_success: int = Field(0, description="Runs that were due since the newest one that succeeded.")
    levels: tuple[Level, ...] = Field(
        (), max_length=LEVELS_MAX, description="Points and environments that were measured lately."
    )
    key_changes: tuple[KeyChange, ...] = Field(
        (), max_length=KEY_CHANGES_MAX, description="When drivers, libraries, images or machines changed, newest first."
    )
    slow_nodes: tuple[SlowNode, ...] = Field(
        (), max_length=SLOW_NODES_MAX, description="With placement EachNode: the nodes that are slower than the others."
    )
    monthly: Monthly | None = Field(None, description="What the schedule costs a month.")


class GpuBenchmarkSchedule(FrozenModel):
    """The object's content: its name and its spec."""

    name: str
    spec: GpuBenchmarkScheduleSpec

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.name_at_most(
            names.SCHEDULE_NAME_MAX, because="the names of its benchmarks are made of it and the scheduled minute"
        ),
        rules.name_of_hosts(such_as="weekly-check"),
    )
