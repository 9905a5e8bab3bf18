# SPDX-License-Identifier: Apache-2.0
"""The plan of a benchmark: its points, its trials in their order, and the pools as they were when it started.

Everything later reads the plan, never the pools: a changed price changes no benchmark that is under way. What many
points repeat at length (data, variant, custom workload) is stored once, and the points have its index: so the JSON fits
a ConfigMap. A baseline, and figures that were measured elsewhere (`Imported`), are frozen into it as values.
"""

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpubench import metrics, records, units, values, workloads
from gpubench.api import measuring, pool_price, sweep
from gpubench.api.attempts import AttemptLimits
from gpubench.api.point_result import Basis, EnvironmentFacts
from gpubench.api.pool import GpuPool
from gpubench.plan.assignment import Checkpointing
from gpubench.stats import stopping_rule
from gpubench.stats.intervals import CONFIDENCE

# --- what is frozen beside the points ---------------------------------------------------------------------------------


class BaselinePoint(values.FrozenModel):
    """A measured point of the baseline that the plan has, too."""

    point: int  # index into Plan.points
    quantity: Literal["Throughput", "Seconds"]  # stats.compare.Quantity
    repeats: int
    mean: float  # over the repeats
    deviation: float | None = None  # standard deviation of the repeats, where there are 3 or more
    environment: str | None = None  # as results show it
    instance_type: str | None = None  # as results show it
    settled: bool = True  # figures of runs that never settled are not ranked


class Baseline(values.FrozenModel):
    """The benchmark that `spec.compareTo` names, as it was at planning: values, so that it may be deleted."""

    benchmark: str
    tolerance: units.DecimalText
    confidence: float = 0.95  # at which intervals over its repeats are computed: more where these were added as needed
    points: tuple[BaselinePoint, ...] = ()
    environments: tuple[EnvironmentFacts, ...] = ()
    absent: str | None = None  # why there is nothing to compare with


_Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
_Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
_Text = Annotated[str, Field(min_length=1, max_length=400)]


class ImportedRun(values.FrozenModel):
    """One repeat of a point that was measured elsewhere; what of it nobody published is absent."""

    samples_per_second: _Positive | None = None
    seconds: _Positive | None = None  # of the benchmark's timed region
    evaluated_every_seconds: _Positive | None = None  # of a time to a target: it can end at these moments only
    first_epoch_seconds: _Positive | None = None  # training seconds
    evaluation_seconds: _NotNegative | None = None  # of all evaluations
    training_loss: _NotNegative | None = None  # of the last epoch
    evaluation_loss: _NotNegative | None = None  # on held-out data, where quality is no share
    accuracy: _Share | None = None  # on held-out data, after the last epoch
    gpu_utilization: _Share | None = None


class ImportedSpeed(values.FrozenModel):
    """How many times as fast as another point, where nothing but that was published."""

    times: units.DecimalText
    over: int  # index into Plan.points


class ImportedPoint(values.FrozenModel):
    """What is known of one point."""

    point: int  # index into Plan.points
    runs: tuple[ImportedRun, ...] = Field((), max_length=measuring.REPEATS_MAX)
    efficiency: units.DecimalText | None = None  # relative to the pool's base, where that was published itself
    speed: ImportedSpeed | None = None
    extrapolated: bool = False  # whoever published it did not measure it either
    note: _Text | None = None


class AddedPoint(values.FrozenModel):
    """A point that the benchmark does not ask for: like one of its own, but for the variant's name."""

    like: int  # index into the points of the benchmark
    variant: str


#: A day, a month or a year: publications seldom say more.
PUBLISHED_PATTERN = r"^[0-9]{4}(-[0-9]{2}){0,2}$"


def _days(published: str) -> tuple[date, date]:
    """The first and the last day of it. ValueError for no day of the calendar."""
    missing = len(published) - len("2018")
    first, month = date.fromisoformat(published + "-01-01"[missing:]), published + "-12"[missing:]
    last = month + f"-{monthrange(first.year, int(month[5:7]))[1]}"[len(month) - len("2018-12") :]
    return first, date.fromisoformat(last)


def _of_the_calendar(published: str) -> str:
    _days(published)
    return published


class Imported(values.FrozenModel):
    """Everything that was taken over, and from whom. Must not happen: a figure that was not published."""

    publisher: _Text
    source: _Text
    published: Annotated[str, Field(pattern=PUBLISHED_PATTERN), AfterValidator(_of_the_calendar)]
    points: tuple[ImportedPoint, ...] = Field(min_length=1, max_length=metrics.POINTS_MAX)
    added: tuple[AddedPoint, ...] = ()

    @property
    def origin(self) -> str:
        return f"{self.publisher}, {self.published}"

    @property
    def time(self) -> tuple[date, date]:
        """The first and the last day on which they may have been published."""
        return _days(self.published)

    def at(self, point: int) -> ImportedPoint | None:
        return next((one for one in self.points if one.point == point), None)


# --- points, trials, the plan -----------------------------------------------------------------------------------------


class PointKey(values.FrozenModel):
    """What makes a point: two entries of a sweep with equal keys are one point."""

    workload: str
    pool: str
    workers: int
    workers_per_node: int  # ranks in each pod; equal to workers where one node holds them all
    batch_per_worker: int | None = None  # where a global batch cannot be divided: the point is skipped
    global_batch: int
    precision: workloads.Precision
    data: sweep.Data = sweep.Data()
    variant: sweep.Variant | None = None
    epochs: int | None = None  # in mode Training
    custom: sweep.Custom | None = None
    node: str | None = None  # with placement EachNode: the only one that it may run on

    @property
    def is_own_program(self) -> bool:
        """Whether its ranks are a program of the user's own, and none of ours."""
        return self.custom is not None and self.custom.command is not None


class Point(values.FrozenModel):
    """One combination of the sweep."""

    key: PointKey
    lines: tuple[Literal["weak", "strong"], ...]  # on which scaling lines it lies: batchPerWorker, globalBatch, or both
    skip: str | None = None  # why it cannot be run
    basis: Basis = Basis.MEASURED  # any other is never run: `GpuPoolSpec.measured_by`, `Plan.imported`

    @property
    def nodes(self) -> int:
        return self.key.workers // self.key.workers_per_node

    @property
    def runs(self) -> bool:
        """Whether it has trials: it can be run, and no other pool's measurements stand for it."""
        return self.skip is None and self.basis is Basis.MEASURED


class Trial(values.FrozenModel):
    """One repeat of one point."""

    id: str  # a hash of the point's key and the repeat
    point: int  # index into Plan.points
    repeat: int  # from 0


def trial_id(key: PointKey, repeat: int) -> str:
    """The name of a trial: the same content gives the same name in every plan."""
    return values.content_id(f"{key.to_json()}#{repeat}", characters=8)


class Timing(values.FrozenModel):
    """How a trial is measured and bounded; seconds."""

    warm_up: int
    duration: int
    window: float
    scheduling_timeout: int
    attempt_timeout: int
    capacity_timeout: int | None = None  # None: for ever


def stopping_rule_of(repeats: measuring.Repeats | None) -> stopping_rule.StoppingRule | None:
    """When a point has been repeated often enough; None where every point has a fixed number of repeats."""
    if repeats is None or repeats.until is None:
        return None
    return stopping_rule.StoppingRule(
        relative_half_width=float(repeats.until.relative_half_width),
        confidence=float(repeats.until.confidence),
        first=repeats.min,
        last=repeats.most,
    )


class Strict(values.FrozenModel):
    """Confidences that hold although each repeat decides on another (`stats.stopping_rule`), frozen at planning."""

    rule: float  # of the rule that ends the repeats
    intervals: float  # of the printed intervals, which hold the truth in 95 % of benchmarks

    @classmethod
    def of(cls, repeats: measuring.Repeats | None) -> "Strict | None":
        """Those of this version; None where every point has a fixed number of repeats."""
        if (rule := stopping_rule_of(repeats)) is None:
            return None
        printed = replace(rule, confidence=CONFIDENCE)
        return cls(rule=stopping_rule.confidence(rule), intervals=stopping_rule.confidence(printed))


class Plan(records.Stored):
    """A frozen benchmark."""

    planned_at: str  # RFC 3339
    study_digest: str | None = None  # of the benchmark file beside it, in a results folder: SHA-256
    points: tuple[Point, ...]
    trials: tuple[Trial, ...]  # in the order in which they start; skipped and derived points have none
    pools: tuple[GpuPool, ...]
    images: tuple[tuple[str, str], ...]  # pool and the image that its gangs run
    seed: int
    timing: Timing
    attempts: AttemptLimits
    mode: measuring.Mode = measuring.Mode.THROUGHPUT
    timed_region: measuring.TimedRegion = measuring.TimedRegion()
    currency: str | None = None  # of all costs; each pool's own where None
    exchange_rates: tuple[pool_price.ExchangeRate, ...] = ()
    #: Where trials beyond `min` of a point may turn out not to be needed; None where all of the plan's trials run.
    repeats: measuring.Repeats | None = None
    strict: Strict | None = None  # with `repeats`; None: what this version computes
    health_check: bool = False  # whether each rank tests its device before a trial
    checkpoint: Checkpointing | None = None  # when trainings keep checkpoints; None: each attempt begins anew
    baseline: Baseline | None = None  # what the benchmark is compared with
    imported: Imported | None = None  # figures that were measured elsewhere; such a plan has no trials
    #: Of a re-priced plan: its pools with the prices by which it was decided what is run; None where `pools` has them.
    pools_when_measured: tuple[GpuPool, ...] | None = None

    #: Field of a point's key, and the list in the stored plan that has each of its values once.
    STORED_ONCE: ClassVar[Mapping[str, str]] = {"data": "data", "variant": "variants", "custom": "customs"}

    def to_wire(self) -> dict[str, object]:
        """The plan with an index in place of what several points share."""
        wire: dict[str, Any] = super().to_wire()
        for field, listed in self.STORED_ONCE.items():
            indices: dict[values.FrozenModel, int] = {}
            for point, stored in zip(self.points, wire["points"], strict=True):
                if (value := getattr(point.key, field)) is not None:
                    stored["key"][field] = indices.setdefault(value, len(indices))
            if indices:
                wire[listed] = [value.to_wire() for value in indices]
        return wire

    @model_validator(mode="before")
    @classmethod
    def _with_shared_values(cls, wire: Any) -> Any:
        """A stored plan with values in place of their indices; one that has the values themselves is left as it is."""
        if not isinstance(wire, dict) or not any(listed in wire for listed in cls.STORED_ONCE.values()):
            return wire
        shared = {field: wire.get(listed, ()) for field, listed in cls.STORED_ONCE.items()}

        def whole(key: Mapping[str, Any]) -> dict[str, Any]:
            return {field: shared[field][value] if field in shared else value for field, value in key.items()}

        rest = {name: value for name, value in wire.items() if name not in cls.STORED_ONCE.values()}
        return {**rest, "points": [{**point, "key": whole(point["key"])} for point in wire["points"]]}

    @cached_property
    def trial_by_id(self) -> Mapping[str, Trial]:
        return {trial.id: trial for trial in self.trials}

    @cached_property
    def point_by_trial(self) -> Mapping[str, Point]:
        return {trial.id: self.points[trial.point] for trial in self.trials}

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy has perhaps other trials and points, so it takes over none of what was derived from them."""
        copied = super().model_copy(update=update, deep=deep)
        for derived in ("trial_by_id", "point_by_trial"):
            copied.__dict__.pop(derived, None)
        return copied

    def pool(self, name: str) -> GpuPool:
        return next(pool for pool in self.pools if pool.name == name)

    @property
    def pools_run(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.points[trial.point].key.pool for trial in self.trials))

    def as_measured(self) -> "Plan":
        """The plan with the prices by which it was decided what is run: itself, unless it was re-priced."""
        if self.pools_when_measured is None:
            return self
        return self.model_copy(update={"pools": self.pools_when_measured, "pools_when_measured": None})

    def paid_nodes(self, point: Point) -> Decimal:
        """Nodes to pay for: an exclusive node is paid for as a whole, however many of its slots work."""
        pool = self.pool(point.key.pool).spec
        return Decimal(point.nodes) if pool.exclusive_nodes else Decimal(point.key.workers) / pool.slots_per_node

    def slots_paid(self, point: Point) -> int | None:
        """Slots that a point pays for; None where all of them work."""
        found = int(self.paid_nodes(point) * self.pool(point.key.pool).spec.slots_per_node)
        return found if found > point.key.workers else None

    def is_certain(self, trial: Trial) -> bool:
        """Whether a trial runs in any case: it is not beyond the repeats that every point has."""
        return self.repeats is None or trial.repeat < self.repeats.min

    def repeats_of_points(self) -> tuple[tuple[Trial, ...], ...]:
        """The trials of each point, repeat by repeat; none of one that is not run."""
        found: list[list[Trial]] = [[] for _ in self.points]
        for trial in sorted(self.trials, key=lambda trial: trial.repeat):
            found[trial.point].append(trial)
        return tuple(map(tuple, found))

    def has_windows(self, trial: str) -> bool:
        """Whether the pods of a trial write windows: a program of the user's own writes its result and nothing else."""
        return not self.point_by_trial[trial].key.is_own_program
