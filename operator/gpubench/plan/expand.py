# SPDX-License-Identifier: Apache-2.0
"""From a study to its frozen plan: blocks become points, points trials in their order, with the reason of every skip.

Trials are interleaved repeat by repeat: all points are measured once before any is measured twice. So a slow drift of
the machine (heat, neighbours, time of day) spreads over all points and is no difference between them.

A derived point is one of a pool that is never run (`GpuPoolSpec.measured_by`). Its source is a point of the pool that
`measuredBy.pool` names, which this study runs itself, with
  - equal workload, precision, data, variant and epochs;
  - `measuredBy.workers` workers, or as many as the point has where that is absent;
  - equal batch per worker where the point lies on a weak line, else (it stands under globalBatch alone) equal global
    batch. So a pool of one slot at a batch of 64 may stand for four GPUs at a batch of 64 each.
Where two shapes have equally many workers (2 x 1 and 1 x 2), it is the one on the fewest nodes, as for efficiency.
A figure is re-priced as it is, or extrapolated to more workers by the efficiency that the study measured on the same
line; a bandwidth is not extrapolated. Must not happen: a figure that stands on another derived figure, or on nothing.

`scaled` makes the small form of a study, which two processor cores run: the same workloads, modes and variants. It
shows that a study runs, and nothing else; it has another name, `<name>-small`. By what a scale (0.01, say) makes small:

- A batch stays as it is while a step of one worker takes at most 3,000 x scale giga multiply-accumulates (three times
  the forward pass); else it is the largest that does, at least 1. A message of allreduce has at most 10^8 x scale
  elements.
- Real files are replaced by generated samples. Their number is that of the real set (or data.samples) times the scale,
  at most so many that an epoch takes 300,000 x scale giga multiply-accumulates, and at least 4 global batches.
- Mode Training has one epoch, which counts. Mode Throughput measures for duration x scale, at least 5 s.
- Each point is measured once.
- Goals, prices and currency stay. Volumes stay where a workload of the user's own lies in them.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

from gpubench import names, units, workloads
from gpubench.api.attempts import Checkpoint
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.goals import RelativeBase
from gpubench.api.measuring import Measure, Mode, Repeats
from gpubench.api.pod_template import Template
from gpubench.api.point_result import Basis
from gpubench.api.pool import GpuPool, GpuPoolSpec, MeasuredBy
from gpubench.api.sweep import Custom, Data, DataSource, Placement, SweepBlock, Variant
from gpubench.names import JOBS_IMAGE
from gpubench.plan.assignment import Checkpointing
from gpubench.plan.plan import Imported, Plan, Point, PointKey, Timing, Trial, trial_id
from gpubench.units import duration_seconds, window_seconds, workers_text
from gpubench.workloads import MESSAGES, Precision

# --- expand ------------------------------------------------------------


Line = Literal["weak", "strong"]


def expand(
    spec: GpuBenchmarkSpec, pools: Mapping[str, GpuPoolSpec], nodes: Mapping[str, Sequence[str]] | None = None
) -> tuple[Point, ...]:
    """The points of a study. A point that several blocks name appears once, on the scaling lines of all of them.

    `nodes` are those of each pool that placement EachNode measures one by one.
    """
    points: dict[PointKey, Point] = {}
    for block in spec.sweep:
        for point in _placed(block, _block_points(block, pools, measure=spec.measure), nodes or {}):
            before = points.get(point.key)
            lines = point.lines if before is None else tuple(sorted({*before.lines, *point.lines}))
            points[point.key] = point.model_copy(update={"lines": lines})
    return resolve(_told_apart(tuple(points.values())), pools)


def nodes_of(points: Iterable[Point]) -> dict[str, tuple[str, ...]]:
    """The nodes that a plan measures one by one, by pool, as `expand` takes them."""
    found: dict[str, dict[str, None]] = {}
    for point in points:
        if point.key.node is not None:
            found.setdefault(point.key.pool, {})[point.key.node] = None
    return {pool: tuple(names) for pool, names in found.items()}


def _block_points(block: SweepBlock, pools: Mapping[str, GpuPoolSpec], *, measure: Measure) -> Iterator[Point]:
    for workload, pool, precision, batch, variant, workers in product(
        block.workloads,
        block.pools,
        block.precision,
        block.batch_per_worker or block.global_batch or (),
        block.variants or (None,),
        block.workers,
    ):
        yield _point(
            block,
            measure=measure,
            workload=block.custom.name if block.custom is not None else workload,
            pool=pool,
            pool_spec=pools.get(pool),
            precision=precision,
            batch=batch,
            variant=variant,
            workers=workers,
        )


def _placed(block: SweepBlock, points: Iterator[Point], nodes: Mapping[str, Sequence[str]]) -> Iterator[Point]:
    """The points of a block, with placement EachNode once for each node of their pool."""
    for point in points:
        if block.placement is Placement.ANYWHERE:
            yield point
            continue
        found = nodes.get(point.key.pool, ())
        skip = of_each_node(point, found)
        for node in found or (None,):
            key = point.key.model_copy(update={"node": node})
            yield point.model_copy(update={"key": key, "skip": point.skip or skip})


def _point(
    block: SweepBlock,
    *,
    measure: Measure,
    workload: str,
    pool: str,
    pool_spec: GpuPoolSpec | None,
    precision: Precision,
    batch: int,
    variant: Variant | None,
    workers: int,
) -> Point:
    line: Line = "weak" if block.batch_per_worker else "strong"
    per_node = block.workers_per_node or (pool_spec.slots_per_node if pool_spec else workers)
    batch_per_worker, rest = (batch, 0) if line == "weak" else divmod(batch, workers)
    divided = bool(batch_per_worker) and not rest
    key = PointKey(
        workload=workload,
        pool=pool,
        workers=workers,
        # Workers that one node holds share it; a point that cannot run keeps a shape that says so.
        workers_per_node=min(per_node, workers) if workers % per_node == 0 or workers < per_node else workers,
        batch_per_worker=batch_per_worker if divided else None,
        global_batch=batch * workers if line == "weak" else batch,
        precision=precision,
        data=block.data,
        variant=variant,
        epochs=_epochs(block, workload) if measure.mode is Mode.TRAINING else None,
        custom=block.custom,
    )
    place = of_place(pool, pool_spec, workers=workers, workers_per_node=per_node, batch=batch, divided=divided)
    return Point(key=key, lines=(line,), skip=place or of_training(key, measure))


def _epochs(block: SweepBlock, workload: str) -> int | None:
    """None for a workload of one's own without a number: it has one itself."""
    if block.epochs is not None or block.custom is not None:
        return block.epochs
    return workloads.find(workload).default_epochs


def _told_apart(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """A variant, or a workload of one's own, is one thing under its name; what comes second is skipped.

    Results show the name only. As a rule of the API it would cost the API server more than it grants.
    """
    variants: dict[str, Variant] = {}
    customs: dict[str, Custom] = {}
    found = []
    for point in points:
        variant, custom, skip = point.key.variant, point.key.custom, point.skip
        if variant is not None and variants.setdefault(variant.name, variant) != variant:
            skip = f"variant {variant.name} is something else in an earlier block: give one of both another name"
        if custom is not None and customs.setdefault(custom.name, custom) != custom:
            skip = f"custom {custom.name} is something else in an earlier block: give one of both another name"
        found.append(point.model_copy(update={"skip": skip}))
    return tuple(found)


# --- skips ------------------------------------------------------------


_MESSAGES = frozenset({Precision.FLOAT32, Precision.MIXED_FLOAT16})


def of_place(
    pool: str, spec: GpuPoolSpec | None, *, workers: int, workers_per_node: int, batch: int, divided: bool
) -> str | None:
    """Why a pool cannot hold so many workers, or a global batch not be divided among them."""
    if spec is None:
        return f"GpuPool {pool} did not exist when the study was planned"
    if workers_per_node > spec.slots_per_node:
        return f"{workers_per_node} workers per node do not fit the {spec.slots_per_node} slots of a node of {pool}"
    if workers > workers_per_node and workers % workers_per_node:
        return f"{workers} workers fill no whole nodes of {pool}: choose a multiple of {workers_per_node}"
    if (nodes := _nodes(spec, workers=workers, workers_per_node=workers_per_node)) > spec.max_nodes:
        return f"{workers} workers need {nodes} nodes, and {pool} has at most {spec.max_nodes}"
    if not divided:
        return f"a global batch of {batch} cannot be divided among {workers} workers: choose a multiple of {workers}"
    return None


def _nodes(spec: GpuPoolSpec, *, workers: int, workers_per_node: int) -> int:
    """The fewest nodes that the pods fit on: an exclusive one takes one pod."""
    pods = max(1, workers // workers_per_node)
    pods_per_node = 1 if spec.exclusive_nodes else spec.slots_per_node // workers_per_node
    return math.ceil(pods / pods_per_node)


def of_each_node(point: Point, nodes: Sequence[str]) -> str | None:
    """Why a point cannot be measured node by node."""
    if point.nodes > 1:
        return f"placement EachNode measures one node, and {point.key.workers} workers need {point.nodes}: give fewer"
    if not nodes:
        return (
            f"no node of {point.key.pool} was ready when the study was planned, and placement EachNode measures those"
        )
    return None


def of_training(key: PointKey, measure: Measure) -> str | None:
    """Why a workload cannot be trained, or measured, like that."""
    return next(_reasons(key, measure), None)


def _reasons(key: PointKey, measure: Measure) -> Iterator[str]:
    if key.custom is None and workloads.find(key.workload).inputs is workloads.Inputs.NONE:
        yield from _reasons_of_messages(key, measure.mode)
    if key.epochs == 1 and measure.timed_region.first_epoch == "Excluded":
        yield (
            f"{key.workload} trains 1 epoch, and measure.timedRegion.firstEpoch Excluded leaves nothing of it: give "
            "sweep[].epochs 2 or more, or set firstEpoch to Included"
        )
    if key.data.samples is not None and key.data.samples < key.global_batch:
        yield (
            f"data.samples {key.data.samples} are less than one global batch of {key.global_batch}: "
            "make more samples, or choose a smaller batch"
        )


def _reasons_of_messages(key: PointKey, mode: Mode) -> Iterator[str]:
    """Of a workload that only sends messages."""
    if key.workers == 1:
        yield f"{key.workload} sends a message between workers, and there is one: choose 2 workers or more"
    if mode is Mode.TRAINING:
        yield f"{key.workload} trains nothing: measure it in mode Throughput, in a study of its own"
    if key.data.source is not DataSource.SYNTHETIC:
        yield f"{key.workload} reads no samples: put it into a block with data.source Synthetic"
    if key.precision not in _MESSAGES:
        yield (
            f"{key.workload} sends float32, or float16 with mixed_float16, and nothing else: put it into a block "
            f"without {key.precision.value}"
        )
    if key.variant is not None and (setting := _idle(key.variant)) is not None:
        yield (
            f"variant {key.variant.name} sets {setting}, and {key.workload} trains nothing: put it into a block "
            "without this variant"
        )
    if key.variant is not None and key.variant.communication.compression != "None":
        yield (
            f"variant {key.variant.name} compresses what {key.workload} sends, and its bandwidth would count bytes "
            "that do not travel: choose precision mixed_float16, which sends as many bytes as it counts"
        )


def _idle(variant: Variant) -> str | None:
    """A setting of a variant that only a training heeds."""
    settings = {
        "lossScaling": variant.loss_scaling != "Fixed",
        "learningRateScaling": variant.learning_rate_scaling != "None",
        "xla": variant.xla,
        "communication.groups": variant.communication.groups is not None,
    }
    return next((name for name, is_set in settings.items() if is_set), None)


# --- derived ------------------------------------------------------------


_PLACE_AND_SIZE = {"pool", "workers", "workers_per_node", "batch_per_worker", "global_batch"}
#: All else that makes a point.
_TRAINING = tuple(field for field in PointKey.model_fields if field not in _PLACE_AND_SIZE)


def resolve(points: Sequence[Point], pools: Mapping[str, GpuPoolSpec]) -> tuple[Point, ...]:
    """The points, each with its basis; one whose source does not exist, or is not run, is skipped with that reason."""
    return tuple(_resolved(point, points, pools) for point in points)


def source_of(plan: Plan, point: Point) -> int | None:
    """Index in `plan.points` of the measured point that stands for a derived one.

    None for a point that is run itself, and for one that is skipped.
    """
    measured_by = _measured_by(point, {pool.name: pool.spec for pool in plan.pools})
    if measured_by is None or point.skip is not None:
        return None
    return _source(point, measured_by, plan.points)


def line_of(point: Point) -> Literal["weak", "strong"]:
    """The line on which the source of a derived point lies: weak where the point is on both."""
    return "weak" if "weak" in point.lines and point.key.batch_per_worker is not None else "strong"


def batch_text(point: Point) -> str:
    """The batch that a derived point and its source have in common."""
    if line_of(point) == "weak":
        return f"batch {point.key.batch_per_worker} per worker"
    return f"global batch {point.key.global_batch}"


def same_training(line: Literal["weak", "strong"], one: PointKey, other: PointKey) -> bool:
    """Whether two points of a line train the same, whatever their pools and workers: also by the line's batch."""
    batch = "batch_per_worker" if line == "weak" else "global_batch"
    return all(getattr(one, field) == getattr(other, field) for field in (batch, *_TRAINING))


def _measured_by(point: Point, pools: Mapping[str, GpuPoolSpec]) -> MeasuredBy | None:
    pool = pools.get(point.key.pool)
    return pool.measured_by if pool is not None else None


def _resolved(point: Point, points: Sequence[Point], pools: Mapping[str, GpuPoolSpec]) -> Point:
    measured_by = _measured_by(point, pools)
    if measured_by is None:
        return point
    workers = _source_workers(point, measured_by)
    extrapolated = measured_by.efficiency is not None and workers != point.key.workers
    basis = Basis.EXTRAPOLATED if extrapolated else Basis.REPRICED
    skip = point.skip or _reason(point, measured_by, points, pools, basis=basis)
    return point.model_copy(update={"basis": basis, "skip": skip})


def _reason(
    point: Point, measured_by: MeasuredBy, points: Sequence[Point], pools: Mapping[str, GpuPoolSpec], *, basis: Basis
) -> str | None:
    """Why nothing stands for a point."""
    pool, source_pool, workers = point.key.pool, measured_by.pool, _source_workers(point, measured_by)
    if basis is Basis.EXTRAPOLATED and (why := _not_extrapolated(point, measured_by)):
        return why
    if not any(other.key.pool == source_pool for other in points):
        return f"{pool} is measured by {source_pool}, which is not in this study: name it in the same block"
    if (source_spec := pools.get(source_pool)) is not None and source_spec.measured_by is not None:
        return f"{pool} is measured by {source_pool}, which is itself measured by {source_spec.measured_by.pool}"
    found = _source(point, measured_by, points)
    if found is None:
        return (
            f"{pool} is measured by {workers_text(workers)} of {source_pool}, and this study has no such point of "
            f"equal workload, precision, data and variant at {batch_text(point)}"
        )
    if (source_skip := points[found].skip) is not None:
        return f"{pool} is measured by {source_pool}, whose point is skipped: {source_skip}"
    return None


def _not_extrapolated(point: Point, measured_by: MeasuredBy) -> str | None:
    pool, workers = point.key.pool, _source_workers(point, measured_by)
    if point.key.workload == MESSAGES:
        return (
            f"{MESSAGES} is not extrapolated to more workers: put it into a block without {pool}, or measure it there"
        )
    if workers > point.key.workers:
        return (
            f"{pool} is extrapolated from {workers} workers of {measured_by.pool}, which gives figures of more workers "
            "only"
        )
    return None


def _source(point: Point, measured_by: MeasuredBy, points: Sequence[Point]) -> int | None:
    workers = _source_workers(point, measured_by)
    matching = [
        index
        for index, other in enumerate(points)
        if other.key.pool == measured_by.pool
        and other.key.workers == workers
        and same_training(line_of(point), point.key, other.key)
    ]
    return min(matching, key=lambda index: points[index].nodes, default=None)


def _source_workers(point: Point, measured_by: MeasuredBy) -> int:
    return measured_by.workers or point.key.workers


# --- order ------------------------------------------------------------


def interleaved(points: Sequence[Point], *, repeats: int, seed: int) -> tuple[Trial, ...]:
    """The trials of all points that can run. ValueError if two trials had the same id (a collision of hashes)."""
    shuffler = random.Random(seed)
    runnable = [index for index, point in enumerate(points) if point.runs]
    trials: list[Trial] = []
    for repeat in range(repeats):
        order = runnable.copy()
        shuffler.shuffle(order)
        trials += [Trial(id=trial_id(points[index].key, repeat), point=index, repeat=repeat) for index in order]
    if len({trial.id for trial in trials}) != len(trials):
        raise ValueError("two trials have the same id: split the study in two")
    return tuple(trials)


# --- freeze ------------------------------------------------------------


DEFAULT_IMAGE = f"{JOBS_IMAGE}:dev"


def freeze(
    spec: GpuBenchmarkSpec,
    pools: Sequence[GpuPool],
    planned_at: str,
    nodes: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """The plan of a study that starts now. A pool that is not given has its points skipped with that reason.

    `nodes` are the ready ones of each pool, for placement EachNode.
    """
    named = {name for block in spec.sweep for name in block.pools}
    used = tuple(sorted((pool for pool in pools if pool.name in named), key=lambda pool: pool.name))
    points = expand(spec, {pool.name: pool.spec for pool in used}, nodes)
    limits = spec.limits
    return Plan(
        planned_at=planned_at,
        points=points,
        trials=interleaved(points, repeats=spec.measure.repeats.most, seed=spec.order.seed),
        pools=used,
        images=tuple((pool.name, spec.template.image or pool.spec.template.image or DEFAULT_IMAGE) for pool in used),
        seed=spec.order.seed,
        timing=Timing(
            warm_up=duration_seconds(spec.measure.warm_up),
            duration=duration_seconds(spec.measure.duration),
            window=window_seconds(spec.measure.window),
            scheduling_timeout=duration_seconds(limits.scheduling_timeout),
            attempt_timeout=duration_seconds(limits.attempt_timeout),
        ),
        attempts=limits.attempts,
        currency=spec.currency,
        exchange_rates=spec.exchange_rates,
        mode=spec.measure.mode,
        timed_region=spec.measure.timed_region,
        repeats=spec.measure.repeats if spec.measure.repeats.until is not None else None,
        health_check=spec.measure.health_check == "Enabled",
        checkpoint=_checkpointing(spec.checkpoint),
    )


def _checkpointing(checkpoint: Checkpoint | None) -> Checkpointing | None:
    if checkpoint is None:
        return None
    rate = checkpoint.interruptions_per_hour
    return Checkpointing(
        interval_seconds=duration_seconds(checkpoint.interval) if checkpoint.interval is not None else None,
        interruptions_per_node_hour=float(rate) if rate is not None else None,
    )


# --- narrow ------------------------------------------------------------


def narrowed(plan: Plan, reason: Callable[[Point], str | None]) -> Plan:
    """The plan without the trials of points for which there is a reason not to run them, in a sentence."""
    judged = tuple(
        point.model_copy(update={"skip": why}) if point.runs and (why := reason(point)) is not None else point
        for point in plan.points
    )
    points = resolve(judged, {pool.name: pool.spec for pool in plan.pools})
    return plan.model_copy(
        update={"points": points, "trials": tuple(trial for trial in plan.trials if points[trial.point].runs)}
    )


# --- importing ------------------------------------------------------------


def with_measurements(plan: Plan, found: Imported) -> Plan:
    """The plan of the same study with these figures in place of its trials."""
    points = (*plan.points, *(_variant_of(plan.points[one.like], one.variant) for one in found.added))
    given = {one.point for one in found.points}
    return plan.model_copy(
        update={
            "points": tuple(_marked(point, given=index in given) for index, point in enumerate(points)),
            "trials": (),
            "repeats": None,  # there are as many as there are
            "strict": None,
            "imported": found,
        }
    )


def _variant_of(point: Point, name: str) -> Point:
    return point.model_copy(update={"key": point.key.model_copy(update={"variant": Variant(name=name)})})


def _marked(point: Point, *, given: bool) -> Point:
    if given:
        return point.model_copy(update={"basis": Basis.IMPORTED, "skip": None})  # it was run, wherever that was
    return point.model_copy(update={"basis": Basis.IMPORTED}) if point.basis is Basis.MEASURED else point


# --- scaled ------------------------------------------------------------


_SUFFIX = "-small"
_STEP_GMAC = 3000.0  # times the scale: of one worker, about a second and a half on one core at 0.01
_EPOCH_GMAC = 300_000.0
_MESSAGE_ELEMENTS = 1e8
_GLOBAL_BATCHES_MIN = 4
_DURATION_MIN, _WARM_UP_MIN, _WINDOW_MAX = 5, 1, 1  # seconds
_WORKERS_MAX = 2


def scaled_name(of: str) -> str:
    """What a small form is called."""
    return of[: names.BENCHMARK_NAME_MAX - len(_SUFFIX)].rstrip("-") + _SUFFIX


def on_pool(spec: GpuBenchmarkSpec, pool: str) -> GpuBenchmarkSpec:
    """The study on one pool in place of all of its own."""
    blocks = (block.model_copy(update={"pools": (pool,)}) for block in spec.sweep)
    # The pool that figures were to be relative to is not in it any more.
    return spec.model_copy(update={"sweep": tuple(dict.fromkeys(blocks)), "baseline": None})


def each_once(spec: GpuBenchmarkSpec, pool: GpuPool) -> GpuBenchmarkSpec:
    """Each workload, with its data, precision and variants, each_once on one pool."""
    largest: dict[SweepBlock, SweepBlock] = {}
    for block in on_pool(spec, pool.name).sweep:
        for alone in _one_each(block):
            found = _on_workers(alone, pool)
            key = found.model_copy(update={"workers": (1,), "batch_per_worker": (1,), "global_batch": None})
            if key not in largest or largest[key].workers < found.workers:
                largest[key] = found
    return spec.model_copy(update={"sweep": tuple(largest.values())})


def scaled(spec: GpuBenchmarkSpec, scale: float) -> GpuBenchmarkSpec:
    """The study with small batches, data and times, on its own pools and workers."""
    training = spec.measure.mode is Mode.TRAINING
    blocks = (_scaled_block(alone, scale, training=training) for block in spec.sweep for alone in _one_each(block))
    sweep = _joined(blocks)
    return spec.model_copy(
        update={
            "sweep": sweep,
            "baseline": _baseline(spec.baseline),
            "measure": _measure(spec.measure, scale),
            "template": _template(spec.template, sweep),
        }
    )


def _baseline(baseline: RelativeBase | None) -> RelativeBase | None:
    """None of one that names a batch, for the batches are others."""
    if baseline is None or baseline.batch_per_worker is not None or baseline.global_batch is not None:
        return None
    return baseline


def _one_each(block: SweepBlock) -> Iterator[SweepBlock]:
    for workload in block.workloads:
        yield block.model_copy(update={"workloads": (workload,)})


def _joined(blocks: Iterator[SweepBlock]) -> tuple[SweepBlock, ...]:
    """Blocks that differ in their workload alone as one."""
    found: dict[SweepBlock, tuple[str, ...]] = {}
    for block in blocks:
        rest = block.model_copy(update={"workloads": ()})
        found[rest] = tuple(dict.fromkeys((*found.get(rest, ()), *block.workloads)))
    return tuple(rest.model_copy(update={"workloads": named}) for rest, named in found.items())


def _on_workers(block: SweepBlock, pool: GpuPool) -> SweepBlock:
    held = min(_WORKERS_MAX, pool.spec.slots_per_node * pool.spec.max_nodes)
    workers = min(held, max(block.workers))
    scales_loss = any(variant.loss_scaling == "Dynamic" for variant in block.variants or ())
    on_processors = pool.spec.slot.gpu_resource is None and not scales_loss
    return block.model_copy(
        update={
            "workers": (workers,),
            "workers_per_node": None,
            "batch_per_worker": block.batch_per_worker and block.batch_per_worker[:1],
            "global_batch": block.global_batch and block.global_batch[:1],
            "precision": (Precision.FLOAT32,) if on_processors else block.precision[:1],
        }
    )


def _scaled_block(block: SweepBlock, scale: float, *, training: bool) -> SweepBlock:
    """Of a block with one workload."""
    workload = None if block.custom is not None else workloads.find(block.workloads[0])
    most = max(block.workers)
    each = tuple(dict.fromkeys(_batch(batch, workload, scale) for batch in block.batch_per_worker or ()))
    in_all = tuple(
        dict.fromkeys(most * _batch(max(1, batch // most), workload, scale) for batch in block.global_batch or ())
    )
    largest = max((*(batch * most for batch in each), *in_all))
    return block.model_copy(
        update={
            "batch_per_worker": each or None,
            "global_batch": in_all or None,
            "data": _data(block.data, workload, scale, global_batch=largest),
            "epochs": 1 if training else None,
        }
    )


def _batch(batch: int, workload: workloads.Workload | None, scale: float) -> int:
    if workload is None:
        return batch  # how large a step of the user's own is, nobody knows
    if workload.inputs is workloads.Inputs.NONE:
        return max(1, min(batch, int(_MESSAGE_ELEMENTS * scale)))
    return max(1, min(batch, int(_STEP_GMAC * scale / (3 * workload.forward_gmac))))


def _data(data: Data, workload: workloads.Workload | None, scale: float, *, global_batch: int) -> Data:
    if data.source is DataSource.SYNTHETIC:
        return data
    least = _GLOBAL_BATCHES_MIN * global_batch
    if workload is None:
        return Data(source=DataSource.GENERATED, samples=data.samples and max(least, round(data.samples * scale)))
    whole = data.samples or workloads.TRAINING_SAMPLES[workload.inputs]
    most = int(_EPOCH_GMAC * scale / (3 * workload.forward_gmac))
    return Data(source=DataSource.GENERATED, samples=max(least, min(round(whole * scale), most)))


def _measure(measure: Measure, scale: float) -> Measure:
    duration = _seconds(measure.duration, scale, least=_DURATION_MIN)
    longest = min(_WINDOW_MAX, duration)
    return measure.model_copy(
        update={
            "repeats": Repeats(min=1),
            "warm_up": f"{_seconds(measure.warm_up, scale, least=_WARM_UP_MIN)}s",
            "duration": f"{duration}s",
            "window": measure.window if units.window_seconds(measure.window) <= longest else f"{longest}s",
            # The only epoch counts; without it nothing would.
            "timed_region": measure.timed_region.model_copy(update={"first_epoch": "Included"}),
        }
    )


def _seconds(duration: str, scale: float, *, least: int) -> int:
    """Scaled, but not below `least`, nor above what it was."""
    whole = units.duration_seconds(duration)
    return min(whole, max(least, round(whole * scale)))


def _template(template: Template, sweep: tuple[SweepBlock, ...]) -> Template:
    """Without volumes that nothing lies in any more: a claim that is nowhere would keep every pod from starting."""
    customs = [block.custom for block in sweep if block.custom is not None]
    words = [word for custom in customs for word in (custom.file, *(custom.command or ())) if word is not None]
    kept = tuple(
        volume for volume in template.volumes if any(f"{word}/".startswith(f"{volume.mount_path}/") for word in words)
    )
    return template.model_copy(update={"volumes": kept})
