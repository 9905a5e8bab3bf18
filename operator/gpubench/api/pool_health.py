# SPDX-License-Identifier: Apache-2.0
"""What the short tests before the trials have found on a pool, over all benchmarks: part of the status of a GpuPool.

Kept small: of each kind of test the newest few on each node, of the nodes that were tested last. A benchmark that is
deleted leaves its tests here; they go with the pool.
"""

from typing import Annotated, Literal

from pydantic import Field, WithJsonSchema

from gpubench.values import FROM_CAMEL_CASE, TO_CAMEL_CASE, FrozenModel

KINDS_MAX = 12  # of a pool: three tests, an all-reduce for each worker count, a kind of their own for each environment
NODES_MAX = 32  # of a kind
TESTS_MAX = 8  # of a kind on a node
NODE_MAX = 253  # a node's name is never cut here: it is held against that of other tests
FACT_MAX = 48

#: The three tests, by the names that their figures have in a result.
Test = Annotated[
    Literal["arithmetic", "memory", "allreduce"],
    FROM_CAMEL_CASE,
    TO_CAMEL_CASE,
    WithJsonSchema({"type": "string", "enum": ["Arithmetic", "Memory", "Allreduce"]}),
]


class NodeTests(FrozenModel):
    """The newest tests on one node, or on several together, oldest first."""

    node: str | None = Field(
        None,
        max_length=NODE_MAX,
        description="Several that were tested together, any of which may be meant, are joined by +; where they are "
        "many, each by # and a hash of its name. Absent where no node is known, or they are more than 31.",
    )
    at: tuple[int, ...] = Field(max_length=TESTS_MAX, description="When each ended, in seconds since the epoch.")
    figures: tuple[float, ...] = Field(max_length=TESTS_MAX, description="What each found, in the order of `at`.")


class PoolTests(FrozenModel):
    """All tests of one kind: only figures of one kind are held against each other."""

    test: Test = Field(
        description="Arithmetic: floating-point operations per second of a float32 matrix product. Memory: bytes per "
        "second. Allreduce: bytes per second, bus bandwidth."
    )
    environment: str = Field("", max_length=16, description="As in the results of the benchmarks.")
    instance_type: str | None = Field(
        None, max_length=FACT_MAX, description="Of the nodes, where the cluster says; several are joined by +."
    )
    workers_per_node: int = Field(description="Ranks that were tested side by side on each node.")
    workers: int | None = Field(None, description="Ranks in all, of an allreduce.")
    usual: float = Field(description="Median of the medians of the entries below.")
    nodes: tuple[NodeTests, ...] = Field(
        max_length=NODES_MAX, description="The newest tests on each of the nodes that were tested last."
    )


Health = Annotated[tuple[PoolTests, ...], Field(max_length=KINDS_MAX)]
