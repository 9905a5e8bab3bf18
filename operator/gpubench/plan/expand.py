# SPDX-License-Identifier: Apache-2.0
"""From a benchmark to its frozen plan: blocks become points, points become trials. A point that cannot run says why.

Also here: what a place that cannot run all of it leaves out, what is imported in place of trials, and the small form.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from typing import Literal

from gpubench import names, units, workloads
from gpubench.api import benchmark, measuring, pod_template
from gpubench.api.point_result import Basis
from gpubench.api.pool import GpuPool, GpuPoolSpec, MeasuredBy
from gpubench.api.sweep import Custom, Data, DataSource, SweepBlock, Variant
from gpubench.plan.assignment import Checkpointing
from gpubench.plan.plan import Imported, Plan, Point, PointKey, Strict, Timing, Trial, trial_id

DEFAULT_IMAGE = f"{names.JOBS_IMAGE}:dev"

Line = Literal["weak", "strong"]


def freeze(
    spec: benchmark.GpuBenchmarkSpec,
    pools: Sequence[GpuPool],
    planned_at: str,
    nodes: Mapping[str, Sequence[str]] | None = None,
) -> Plan:
    """The plan of a benchmark that starts now; `nodes` are the ready ones of each pool, for placement EachNode."""
    named = {name for block in spec.sweep for name in block.pools}
    used = tuple(sorted((pool for pool in pools if pool.name in named), key=lambda pool: pool.name))
    points = expand(spec, {pool.name: pool.spec for pool in used}, nodes)
    measure, limits, checkpoint = spec.measure, spec.limits, spec.checkpoint
    repeats = measure.repeats if measure.repeats.until is not None else None
    # More than the 15 minutes after which Karpenter replaces an instance (pkg/controllers/nodeclaim/lifecycle), less
    # than the 30 after which Kueue evicts (`waitForPodsReady.timeout`).
    scheduling_timeout = limits.scheduling_timeout or ("25m" if any(pool.spec.has_gpus for pool in used) else "15m")
    return Plan(
        planned_at=planned_at,
        points=points,
        trials=interleaved(points, repeats=measure.repeats.most, seed=spec.order.seed),
        pools=used,
        images=tuple((pool.name, spec.template.image or pool.spec.template.image or DEFAULT_IMAGE) for pool in used),
        seed=spec.order.seed,
        timing=Timing(
            warm_up=units.duration_seconds(measure.warm_up),
            duration=units.duration_seconds(measure.duration),
            window=units.window_seconds(measure.window),
            scheduling_timeout=units.duration_seconds(scheduling_timeout),
            attempt_timeout=units.duration_seconds(limits.attempt_timeout),
            capacity_timeout=units.duration_seconds(limits.capacity_timeout) or None,
        ),
        attempts=limits.attempts,
        currency=spec.currency,
        exchange_rates=spec.exchange_rates,
        mode=measure.mode,
        timed_region=measure.timed_region,
        repeats=repeats,
        strict=Strict.of(repeats),
        health_check=measure.health_check == "Enabled",
        checkpoint=checkpoint
        and Checkpointing(
            interval_seconds=checkpoint.interval and units.duration_seconds(checkpoint.interval),
            interruptions_per_node_hour=checkpoint.interruptions_per_hour and float(checkpoint.interruptions_per_hour),
        ),
    )


def missing_pools(spec: benchmark.GpuBenchmarkSpec, pools: Iterable[GpuPool]) -> tuple[str, ...]:
    known = {pool.name for pool in pools}
    return tuple(dict.fromkeys(name for block in spec.sweep for name in block.pools if name not in known))


def empty_pools(
    spec: benchmark.GpuBenchmarkSpec, pools: Iterable[GpuPool], nodes: Mapping[str, Sequence[str]]
) -> tuple[str, ...]:
    """Pools that are to be measured node by node, and have no ready node now."""
    named = {name for block in spec.sweep if block.placement == "EachNode" for name in block.pools}
    run = (pool.name for pool in pools if pool.spec.measured_by is None)
    return tuple(name for name in run if name in named and not nodes.get(name))


# --- points -----------------------------------------------------------------------------------------------------------


def expand(
    spec: benchmark.GpuBenchmarkSpec, pools: Mapping[str, GpuPoolSpec], nodes: Mapping[str, Sequence[str]] | None = None
) -> tuple[Point, ...]:
    """The points of a benchmark, in a fixed order. One that several blocks name appears once, on all their lines."""
    points: dict[PointKey, Point] = {}
    for block in spec.sweep:
        for point in _block_points(block, pools, nodes or {}, spec.measure):
            before = points.get(point.key)
            lines = point.lines if before is None else tuple(sorted({*before.lines, *point.lines}))
            points[point.key] = point.model_copy(update={"lines": lines})
    return _with_bases(tuple(_told_apart(points.values())), pools)


def nodes_of(points: Iterable[Point]) -> dict[str, list[str]]:
    """The nodes that a plan measures one by one, by pool, as `expand` takes them."""
    found: dict[str, list[str]] = {}
    for pool, node in dict.fromkeys((point.key.pool, point.key.node) for point in points):
        if node is not None:
            found.setdefault(pool, []).append(node)
    return found


def _block_points(
    block: SweepBlock, pools: Mapping[str, GpuPoolSpec], nodes: Mapping[str, Sequence[str]], measure: measuring.Measure
) -> Iterator[Point]:
    weak = bool(block.batch_per_worker)
    for listed, pool, precision, batch, variant, workers in product(
        block.workloads,
        block.pools,
        block.precision,
        block.batch_per_worker or block.global_batch or (),
        block.variants or (None,),
        block.workers,
    ):
        workload = listed if block.custom is None else block.custom.name
        # A workload of one's own without a number of epochs has one itself.
        epochs = block.epochs if block.epochs or block.custom else workloads.find(workload).default_epochs
        spec = pools.get(pool)
        per_node = block.workers_per_node or (spec.slots_per_node if spec else workers)
        batch_per_worker, rest = (batch, 0) if weak else divmod(batch, workers)
        divided = bool(batch_per_worker) and not rest
        key = PointKey(
            workload=workload,
            pool=pool,
            workers=workers,
            # Workers that one node holds share it; a point that cannot run keeps a shape that says so.
            workers_per_node=min(per_node, workers) if workers % per_node == 0 or workers < per_node else workers,
            batch_per_worker=batch_per_worker if divided else None,
            global_batch=batch * workers if weak else batch,
            precision=precision,
            data=block.data,
            variant=variant,
            epochs=epochs if measure.mode is measuring.Mode.TRAINING else None,
            custom=block.custom,
        )
        ready = nodes.get(pool)
        line: Line = "weak" if weak else "strong"
        skip = not_placed(pool, spec, workers=workers, workers_per_node=per_node, batch=batch, divided=divided)
        point = Point(key=key, lines=(line,), skip=skip or _not_trained(key, measure))
        if block.placement == "Anywhere":
            yield point
            continue
        several = f"placement EachNode measures one node, and {workers} workers need {point.nodes}: give fewer"
        none = f"no node of {pool} was ready when the benchmark was planned, and placement EachNode measures those"
        skip = point.skip or _first({several: point.nodes > 1, none: not ready})
        for node in ready or (None,):
            yield point.model_copy(update={"key": key.model_copy(update={"node": node}), "skip": skip})


def _told_apart(points: Iterable[Point]) -> Iterator[Point]:
    # Results show the name only. As a rule of the API it would cost the API server more than it grants.
    defined: dict[tuple[str, str], Variant | Custom] = {}
    for point in points:
        skip = point.skip
        for kind, value in (("variant", point.key.variant), ("custom", point.key.custom)):
            if value is not None and defined.setdefault((kind, value.name), value) != value:
                skip = f"{kind} {value.name} is something else in an earlier block: give one of both another name"
        yield point.model_copy(update={"skip": skip})


# --- why a point is skipped: the first reason that applies, with the value and the remedy -----------------------------


def not_placed(
    pool: str, spec: GpuPoolSpec | None, *, workers: int, workers_per_node: int, batch: int, divided: bool
) -> str | None:
    """Why a pool cannot hold so many workers, or a global batch not be divided among them."""
    if spec is None:
        return f"GpuPool {pool} did not exist when the benchmark was planned"
    pods_per_node = 1 if spec.exclusive_nodes else max(1, spec.slots_per_node // workers_per_node)
    nodes = math.ceil(max(1, workers // workers_per_node) / pods_per_node)
    in_pod, slots = min(workers, workers_per_node), spec.slots_per_node
    is_crowded = workers_per_node > slots
    is_partial = workers > workers_per_node and workers % workers_per_node != 0
    undivided = f"a global batch of {batch} cannot be divided among {workers} workers: choose a multiple of {workers}"
    reasons = {
        f"{workers_per_node} workers per node do not fit the {slots} slots of a node of {pool}": is_crowded,
        f"CUDA shows the {in_pod} workers of a pod of {pool} one MIG instance: set sweep[].workersPerNode to 1, "
        "or use a pool of whole GPUs": spec.is_cut and in_pod > 1,
        f"{workers} workers fill no whole nodes of {pool}: choose a multiple of {workers_per_node}": is_partial,
        f"{workers} workers need {nodes} nodes, and {pool} has at most {spec.max_nodes}": nodes > spec.max_nodes,
        undivided: not divided,
    }
    return _first(reasons)


def _first(reasons: Mapping[str, bool]) -> str | None:
    return next((text for text, applies in reasons.items() if applies), None)


def _not_trained(key: PointKey, measure: measuring.Measure) -> str | None:
    sends_only = key.custom is None and workloads.find(key.workload).inputs is workloads.Inputs.NONE
    leaves_nothing = key.epochs == 1 and measure.timed_region.first_epoch == "Excluded"
    trained_on = {
        "precision unknown is for figures that were measured elsewhere: choose the one to run": key.precision
        is workloads.Precision.UNKNOWN,
        f"{key.workload} trains 1 epoch, and measure.timedRegion.firstEpoch Excluded leaves nothing of it: give "
        "sweep[].epochs 2 or more, or set firstEpoch to Included": leaves_nothing,
        f"data.samples {key.data.samples} are less than one global batch of {key.global_batch}: "
        "make more samples, or choose a smaller batch": (key.data.samples or key.global_batch) < key.global_batch,
    }
    why = _not_sent(key, training=measure.mode is measuring.Mode.TRAINING) if sends_only else None
    return why or _first(trained_on)


def _not_sent(key: PointKey, *, training: bool) -> str | None:
    variant = key.variant or Variant(name="none")
    settings = {
        "lossScaling": variant.loss_scaling != "Fixed",
        "learningRateScaling": variant.learning_rate_scaling != "None",
        "xla": variant.xla,
        "communication.groups": variant.communication.groups is not None,
    }
    of_training = ", ".join(setting for setting, is_set in settings.items() if is_set)
    name, precisions = key.workload, {workloads.Precision.FLOAT32, workloads.Precision.MIXED_FLOAT16}
    reads, compresses = key.data.source is not DataSource.SYNTHETIC, variant.communication.compression != "None"
    reasons = {
        f"{name} sends a message between workers, and there is one: choose 2 workers or more": key.workers == 1,
        f"{name} trains nothing: measure it in mode Throughput, in a benchmark of its own": training,
        f"{name} reads no samples: put it into a block with data.source Synthetic": reads,
        f"{name} sends float32, or float16 with mixed_float16, and nothing else: put it into a block without "
        f"{key.precision.value}": key.precision not in precisions,
        f"variant {variant.name} sets {of_training}, and {name} trains nothing: put it into a block without this "
        "variant": bool(of_training),
        f"variant {variant.name} compresses what {name} sends, and its bandwidth would count bytes that do not travel: "
        "choose precision mixed_float16, which sends as many bytes as it counts": compresses,
    }
    return _first(reasons)


# --- derived points ---------------------------------------------------------------------------------------------------
#
# A pool with `measuredBy` is never run: the measurements of another pool stand for its points. The source of a point is
# one of that pool that is run, with equal workload, precision, data, variant and epochs, `measuredBy.workers` workers
# (or as many as the point has), and an equal batch per worker on a weak line, else an equal global batch. Of two shapes
# with equally many workers it is the one on the fewest nodes, as for efficiency. A figure is re-priced as it is, or
# extrapolated to more workers by the efficiency that was measured on the same line.
# Must not happen: a figure that is derived from a derived one, or from nothing.

_PLACE_AND_SIZE = {"pool", "workers", "workers_per_node", "batch_per_worker", "global_batch"}
_TRAINING = tuple(field for field in PointKey.model_fields if field not in _PLACE_AND_SIZE)


def source_of(plan: Plan, point: Point) -> int | None:
    """Index in `plan.points` of the measured point that stands for a derived one; None where a point is none."""
    measured_by = next((pool.spec.measured_by for pool in plan.pools if pool.name == point.key.pool), None)
    return None if measured_by is None or point.skip is not None else _source(point, measured_by, plan.points)


def line_of(point: Point) -> Line:
    """The line on which the source of a derived point lies: weak where the point is on both."""
    return "weak" if "weak" in point.lines and point.key.batch_per_worker is not None else "strong"


def batch_text(point: Point) -> str:
    """The batch that a derived point and its source have in common."""
    if line_of(point) == "weak":
        return f"batch {point.key.batch_per_worker} per worker"
    return f"global batch {point.key.global_batch}"


def same_training(line: Line, one: PointKey, other: PointKey) -> bool:
    """Whether two points of a line train the same, whatever their pools and workers: also by the line's batch."""
    batch = "batch_per_worker" if line == "weak" else "global_batch"
    return all(getattr(one, field) == getattr(other, field) for field in (batch, *_TRAINING))


def _with_bases(points: Sequence[Point], pools: Mapping[str, GpuPoolSpec]) -> tuple[Point, ...]:
    """The points, each with its basis; one whose source does not exist, or is not run, is skipped with that reason."""

    def based(point: Point) -> Point:
        by = pools[point.key.pool].measured_by if point.key.pool in pools else None
        if by is None:
            return point
        extrapolated = by.efficiency is not None and by.workers not in {None, point.key.workers}
        basis = Basis.EXTRAPOLATED if extrapolated else Basis.REPRICED
        skip = point.skip or _not_derived(point, by, points, pools, basis=basis)
        return point.model_copy(update={"basis": basis, "skip": skip})

    return tuple(map(based, points))


def _not_derived(
    point: Point, measured_by: MeasuredBy, points: Sequence[Point], pools: Mapping[str, GpuPoolSpec], *, basis: Basis
) -> str | None:
    pool, source_pool, workers = point.key.pool, measured_by.pool, measured_by.workers or point.key.workers
    extrapolated, source = basis is Basis.EXTRAPOLATED, _source(point, measured_by, points)
    source_skip = None if source is None else points[source].skip
    of_source = pools[source_pool].measured_by if source_pool in pools else None
    sends, fewer = point.key.workload == workloads.MESSAGES, workers > point.key.workers
    absent, by = all(other.key.pool != source_pool for other in points), f"{pool} is measured by"
    more = f"{pool} is extrapolated from {workers} workers of {source_pool}, which gives figures of more workers only"
    return _first(
        {
            f"{workloads.MESSAGES} is not extrapolated to more workers: put it into a block without {pool}, or measure "
            "it there": extrapolated and sends,
            more: extrapolated and fewer,
            f"{by} {source_pool}, which is not in this benchmark: name it in the same block": absent,
            f"{by} {source_pool}, which is itself measured by {of_source and of_source.pool}": of_source is not None,
            f"{by} {units.workers_text(workers)} of {source_pool}, and this benchmark has no such point of equal "
            f"workload, precision, data and variant at {batch_text(point)}": source is None,
            f"{by} {source_pool}, whose point is skipped: {source_skip}": source_skip is not None,
        }
    )


def _source(point: Point, measured_by: MeasuredBy, points: Sequence[Point]) -> int | None:
    matching = (
        index
        for index, other in enumerate(points)
        if other.key.pool == measured_by.pool
        and other.key.workers == (measured_by.workers or point.key.workers)
        and same_training(line_of(point), point.key, other.key)
    )
    return min(matching, key=lambda index: points[index].nodes, default=None)


# --- trials -----------------------------------------------------------------------------------------------------------


def interleaved(points: Sequence[Point], *, repeats: int, seed: int) -> tuple[Trial, ...]:
    """The trials of all points that can run, repeat by repeat, each repeat in a shuffled order of its own.

    A slow drift of the machine (heat, neighbours, time of day) so becomes no difference between points. ValueError if
    two trials had the same id (a collision of hashes).
    """
    shuffler = random.Random(seed)
    runnable = [index for index, point in enumerate(points) if point.runs]
    trials: list[Trial] = []
    for repeat in range(repeats):
        order = runnable.copy()
        shuffler.shuffle(order)
        trials += [Trial(id=trial_id(points[index].key, repeat), point=index, repeat=repeat) for index in order]
    if len({trial.id for trial in trials}) != len(trials):
        raise ValueError("two trials have the same id: split the benchmark in two")
    return tuple(trials)


def narrowed(plan: Plan, reason: Callable[[Point], str | None]) -> Plan:
    """The plan of a place that cannot run all of it: without the points for which there is a reason not to run them."""
    points = tuple(
        point.model_copy(update={"skip": why}) if point.runs and (why := reason(point)) is not None else point
        for point in plan.points
    )
    points = _with_bases(points, {pool.name: pool.spec for pool in plan.pools})
    return plan.model_copy(
        update={"points": points, "trials": tuple(trial for trial in plan.trials if points[trial.point].runs)}
    )


def with_measurements(plan: Plan, found: Imported) -> Plan:
    """The plan with these figures in place of trials; those not published may be derived from them (`measuredBy`)."""
    points = list(plan.points)
    for added in found.added:
        like = plan.points[added.like]
        key = like.key.model_copy(update={"variant": Variant(name=added.variant)})
        points.append(like.model_copy(update={"key": key}))
    given = {one.point for one in found.points}
    for index, point in enumerate(points):
        if index in given or point.basis is Basis.MEASURED:
            skip = None if index in given else point.skip  # it was run, wherever that was
            points[index] = point.model_copy(update={"basis": Basis.IMPORTED, "skip": skip})
    return plan.model_copy(
        update={"points": tuple(points), "trials": (), "repeats": None, "strict": None, "imported": found}
    )


# --- the small form ---------------------------------------------------------------------------------------------------
#
# The same workloads, modes and variants, so small that two processor cores run them. It shows that a benchmark runs,
# and nothing else: its figures are those of other batches, data and times, so it has a name of its own.

_SUFFIX = "-small"
_STEP_GMAC = 3000.0  # times the scale: of one worker, about a second and a half on one core at 0.01
_EPOCH_GMAC = 300_000.0
_MESSAGE_ELEMENTS = 1e8
_GLOBAL_BATCHES_MIN = 4
_DURATION_MIN, _WARM_UP_MIN, _WINDOW_MAX = 5, 1, 1  # seconds
_WORKERS_MAX = 2


def scaled_name(of: str) -> str:
    return of[: names.BENCHMARK_NAME_MAX - len(_SUFFIX)].rstrip("-") + _SUFFIX


def on_pool(spec: benchmark.GpuBenchmarkSpec, pool: str) -> benchmark.GpuBenchmarkSpec:
    blocks = (block.model_copy(update={"pools": (pool,)}) for block in spec.sweep)
    # The pool that figures were to be relative to is not in it any more.
    return spec.model_copy(update={"sweep": tuple(dict.fromkeys(blocks)), "baseline": None})


def each_once(spec: benchmark.GpuBenchmarkSpec, pool: GpuPool) -> benchmark.GpuBenchmarkSpec:
    """Each workload, with its data and variants, once on one pool: on the most workers that it holds, at most 2.

    With the first batch and precision. Without GPUs, and without dynamic loss scaling, the arithmetic is float32: a
    step with float16 takes many times as long on processors.
    """
    held = 1 if pool.spec.is_cut else min(_WORKERS_MAX, pool.spec.slots_per_node * pool.spec.max_nodes)
    largest: dict[SweepBlock, SweepBlock] = {}
    for block in _one_workload_each(on_pool(spec, pool.name)):
        scales_loss = any(variant.loss_scaling == "Dynamic" for variant in block.variants or ())
        on_processors = not pool.spec.has_gpus and not scales_loss
        found = block.model_copy(
            update={
                "workers": (min(held, max(block.workers)),),
                "workers_per_node": None,
                "batch_per_worker": block.batch_per_worker and block.batch_per_worker[:1],
                "global_batch": block.global_batch and block.global_batch[:1],
                "precision": (workloads.Precision.FLOAT32,) if on_processors else block.precision[:1],
            }
        )
        key = found.model_copy(update={"workers": (1,), "batch_per_worker": (1,), "global_batch": None})
        largest[key] = max(largest.get(key, found), found, key=lambda one: one.workers)
    return spec.model_copy(update={"sweep": tuple(largest.values())})


def scaled(spec: benchmark.GpuBenchmarkSpec, scale: float) -> benchmark.GpuBenchmarkSpec:
    """The benchmark with small batches, data and times, on its own pools and workers; `scale` is 0.01, say.

    A batch stays as it is while a step of one worker takes at most 3,000 x scale giga multiply-accumulates (three times
    the forward pass); else it is the largest that does, at least 1. A message of allreduce has at most 10^8 x scale
    elements. Real files are replaced by generated samples. Their number is that of the real set (or data.samples) times
    the scale, at most so many that an epoch takes 300,000 x scale giga multiply-accumulates, and at least 4 global
    batches. Mode Training has one epoch, which counts. Mode Throughput measures for duration x scale, at least 5 s.
    Each point is measured once. Goals and prices stay, and volumes that a workload of the user's own lies in.
    """
    blocks: dict[SweepBlock, tuple[str, ...]] = {}  # those that differ in their workload alone become one
    for block in _one_workload_each(spec):
        rest = _scaled_block(block, scale, training=spec.measure.mode is measuring.Mode.TRAINING)
        blocks[rest] = tuple(dict.fromkeys((*blocks.get(rest, ()), *block.workloads)))
    sweep = tuple(rest.model_copy(update={"workloads": named}) for rest, named in blocks.items())
    base = spec.baseline
    of_a_batch = base is not None and (base.batch_per_worker is not None or base.global_batch is not None)
    return spec.model_copy(
        update={
            "sweep": sweep,
            "baseline": None if of_a_batch else base,  # the batches are others
            "measure": _scaled_measure(spec.measure, scale),
            "template": _with_needed_volumes(spec.template, sweep),
        }
    )


def _one_workload_each(spec: benchmark.GpuBenchmarkSpec) -> Iterator[SweepBlock]:
    for block in spec.sweep:
        for workload in block.workloads:
            yield block.model_copy(update={"workloads": (workload,)})


def _scaled_block(block: SweepBlock, scale: float, *, training: bool) -> SweepBlock:
    workload = None if block.custom is not None else workloads.find(block.workloads[0])
    most = max(block.workers)

    def small(batch: int) -> int:
        if workload is None:
            return batch  # how large a step of the user's own is, nobody knows
        sends_only = workload.inputs is workloads.Inputs.NONE
        bound = _MESSAGE_ELEMENTS * scale if sends_only else _STEP_GMAC * scale / (3 * workload.forward_gmac)
        return max(1, min(batch, int(bound)))

    each = tuple(dict.fromkeys(map(small, block.batch_per_worker or ())))
    in_all = tuple(dict.fromkeys(most * small(max(1, batch // most)) for batch in block.global_batch or ()))
    largest = max((*(batch * most for batch in each), *in_all))
    return block.model_copy(
        update={
            "workloads": (),
            "batch_per_worker": each or None,
            "global_batch": in_all or None,
            "data": _scaled_data(block.data, workload, scale, least=_GLOBAL_BATCHES_MIN * largest),
            "epochs": 1 if training else None,
        }
    )


def _scaled_data(data: Data, workload: workloads.Workload | None, scale: float, *, least: int) -> Data:
    if data.source is DataSource.SYNTHETIC or (workload is not None and workload.name == workloads.MESSAGES):
        return data
    if workload is None:
        return Data(source=DataSource.GENERATED, samples=data.samples and max(least, round(data.samples * scale)))
    whole = data.samples or workloads.TRAINING_SAMPLES[workload.inputs]
    most = int(_EPOCH_GMAC * scale / (3 * workload.forward_gmac))
    return Data(source=DataSource.GENERATED, samples=max(least, min(round(whole * scale), most)))


def _scaled_measure(measure: measuring.Measure, scale: float) -> measuring.Measure:
    duration, warm_up = units.duration_seconds(measure.duration), units.duration_seconds(measure.warm_up)
    duration = min(duration, max(_DURATION_MIN, round(duration * scale)))
    warm_up = min(warm_up, max(_WARM_UP_MIN, round(warm_up * scale)))
    longest = min(_WINDOW_MAX, duration)
    return measure.model_copy(
        update={
            "repeats": measuring.Repeats(min=1),
            "warm_up": f"{warm_up}s",
            "duration": f"{duration}s",
            "window": measure.window if units.window_seconds(measure.window) <= longest else f"{longest}s",
            # The only epoch counts; without it nothing would.
            "timed_region": measure.timed_region.model_copy(update={"first_epoch": "Included"}),
        }
    )


def _with_needed_volumes(template: pod_template.Template, sweep: tuple[SweepBlock, ...]) -> pod_template.Template:
    """Without volumes that nothing lies in any more: a claim that is nowhere would keep every pod from starting."""
    customs = [block.custom for block in sweep if block.custom is not None]
    words = [word for custom in customs for word in (custom.file, *(custom.command or ())) if word is not None]
    kept = tuple(
        volume for volume in template.volumes if any(f"{word}/".startswith(f"{volume.mount_path}/") for word in words)
    )
    return template.model_copy(update={"volumes": kept})
