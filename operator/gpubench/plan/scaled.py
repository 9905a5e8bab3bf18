# SPDX-License-Identifier: Apache-2.0
"""The small form of a study: the same workloads, modes and variants, so small that two processor cores run them.

It shows that a study runs, and nothing else: its figures are those of other batches, data and times, so it has another
name, `<name>-small`. By what a scale (0.01, say) makes small:

- A batch stays as it is while a step of one worker takes at most 3,000 x scale giga multiply-accumulates (three times
  the forward pass); else it is the largest that does, at least 1. A message of allreduce has at most 10^8 x scale
  elements.
- Real files are replaced by generated samples. Their number is that of the real set (or data.samples) times the scale,
  at most so many that an epoch takes 300,000 x scale giga multiply-accumulates, and at least 4 global batches.
- Mode Training has one epoch, which counts. Mode Throughput measures for duration x scale, at least 5 s.
- Each point is measured once.
- Goals, prices and currency stay. Volumes stay where a workload of the user's own lies in them.

On one pool each workload (with its data and variants) runs once: on as many workers as the largest of the
study that the pool holds, at most 2, with the first of its batches and precisions. Without GPUs the arithmetic is
float32: float16 works on processors, but a step takes many times as long. With dynamic loss scaling it stays float16.
"""

from collections.abc import Iterator

from gpubench import names, units, workloads
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.goals import RelativeBase
from gpubench.api.measuring import Measure, Mode, Repeats
from gpubench.api.pod_template import Template
from gpubench.api.pool import GpuPool
from gpubench.api.sweep import Data, DataSource, SweepBlock
from gpubench.workloads import Precision

_SUFFIX = "-small"
_STEP_GMAC = 3000.0  # times the scale: of one worker, about a second and a half on one core at 0.01
_EPOCH_GMAC = 300_000.0
_MESSAGE = 1e8
_GLOBAL_BATCHES_MIN = 4
_DURATION_MIN, _WARM_UP_MIN, _WINDOW_MAX = 5, 1, 1  # seconds
_WORKERS_MAX = 2


def name(of: str) -> str:
    """What a small form is called."""
    return of[: names.BENCHMARK_NAME_MAX - len(_SUFFIX)].rstrip("-") + _SUFFIX


def on_pool(spec: GpuBenchmarkSpec, pool: str) -> GpuBenchmarkSpec:
    """The study on one pool in place of all of its own."""
    blocks = (block.model_copy(update={"pools": (pool,)}) for block in spec.sweep)
    # The pool that figures were to be relative to is not in it any more.
    return spec.model_copy(update={"sweep": tuple(dict.fromkeys(blocks)), "baseline": None})


def once(spec: GpuBenchmarkSpec, pool: GpuPool) -> GpuBenchmarkSpec:
    """Each workload, with its data, precision and variants, once on one pool."""
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
        return max(1, min(batch, int(_MESSAGE * scale)))
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
