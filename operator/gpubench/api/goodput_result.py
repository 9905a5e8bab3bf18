# SPDX-License-Identifier: Apache-2.0
"""What became of the node time of a benchmark, and how often it was interrupted."""

from pydantic import Field

from gpubench.api.pool_price import CapacityType
from gpubench.api.status_sizes import SENTENCE_MAX
from gpubench.units import DecimalText
from gpubench.values import FrozenModel, Interval


class InterruptionCounts(FrozenModel):
    """Attempts that were interrupted, by who did it. What the kinds leave of the total, nobody could tell."""

    total: int = Field(description="Attempts that lost a pod to preemption, eviction or a lost node.")
    reclaimed: int = Field(0, description="The provider took the machine: a spot or preemptible node, maintenance.")
    evicted: int = Field(0, description="A drain, an autoscaler or a higher priority of the cluster did.")
    nodes_lost: int = Field(0, description="The node vanished or fell silent, and nobody had said so.")


class NodeSeconds(FrozenModel):
    """Seconds of nodes: four nodes that wait for a minute wait for 240. All but `queued` sum to what was held."""

    queued: float | None = Field(None, description="Pods waited for a node: nothing is held.")
    waiting: float | None = Field(None, description="For the image, and for the gang's other pods.")
    start_up: float | None = Field(None, description="Ranks started, up to and with their first step.")
    useful: float | None = Field(None, description="Measured work that came to a result.")
    other: float | None = Field(None, description="Of attempts with a result: warm-up, checks, gaps, the end.")
    repeated: float | None = Field(None, description="Start-up of attempts that went on from an earlier checkpoint.")
    lost: float | None = Field(None, description="Of interrupted attempts, less the work that later ones went on from.")
    failed: float | None = Field(None, description="Of attempts that failed or were stopped; less the same.")
    unknown: float | None = Field(None, description="Time that nobody could tell apart.")


class RecoveryTime(FrozenModel):
    """Seconds from the end of an interrupted attempt to the first step of the next one at its trial."""

    count: int = Field(description="Interruptions of which it is known: the next attempt came to a result.")
    median: float = Field(description="Of them.")
    mean: float = Field(description="Of them.")


class PoolGoodput(FrozenModel):
    """What became of the node time of a pool, and how often it was interrupted; of the attempts that have ended."""

    pool: str = Field(max_length=63, description="GpuPool.")
    capacity_type: CapacityType = Field(description="How the pool's nodes are rented.")
    attempts: int = Field(description="Attempts that have ended.")
    incomplete: int | None = Field(
        None,
        description="Of these, attempts that held their nodes for longer than is known and counted here, so that the "
        "rate of interruptions is at most this one.",
    )
    interruptions: InterruptionCounts = Field(description="Attempts that were interrupted.")
    node_hours: float = Field(description="Hours for which nodes were held.")
    per_node_hour: Interval | None = Field(None, description="Interruptions per hour of a node, by Garwood's interval.")
    node_seconds: NodeSeconds = Field(description="What the nodes' time went into.")
    goodput: float | None = Field(None, description="Useful over held node-seconds; absent where some are unknown.")
    effective_price: DecimalText | None = Field(None, description="Price of a node's hour of measured work.")
    currency: str | None = Field(None, max_length=3, description="ISO 4217 code of that price.")
    recovery: RecoveryTime | None = Field(None, alias="recoverySeconds", description="Until it was back at work.")
    sentence: str = Field(max_length=SENTENCE_MAX, description="The same in words.")


class Goodput(FrozenModel):
    """Where the time of nodes went, and how often they were taken away."""

    pools: tuple[PoolGoodput, ...] = Field((), description="By pool, of those on which attempts have ended.")
    recovery: RecoveryTime | None = Field(None, alias="recoverySeconds", description="The same, on all pools.")
