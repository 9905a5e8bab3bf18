# SPDX-License-Identifier: Apache-2.0
"""Why a point cannot be run: one sentence each, with the value and the remedy. The first that applies is told."""

import math
from collections.abc import Iterator, Sequence

from gpubench import workloads
from gpubench.api.measuring import Measure, Mode
from gpubench.api.pool import GpuPoolSpec
from gpubench.api.sweep import DataSource, Variant
from gpubench.plan.plan import Point, PointKey
from gpubench.workloads import Precision

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
