# SPDX-License-Identifier: Apache-2.0
"""A study and the pools of this moment, made into the plan that everything later reads."""

from collections.abc import Mapping, Sequence

from gpubench.api.attempts import Checkpoint
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool
from gpubench.names import JOBS_IMAGE
from gpubench.plan import expand, order
from gpubench.plan.assignment import Checkpointing
from gpubench.plan.plan import Plan, Timing
from gpubench.units import duration_seconds, window_seconds

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
    points = expand.expand(spec, {pool.name: pool.spec for pool in used}, nodes)
    limits = spec.limits
    return Plan(
        planned_at=planned_at,
        points=points,
        trials=order.interleaved(points, repeats=spec.measure.repeats.most, seed=spec.order.seed),
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
