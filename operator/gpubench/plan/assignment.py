# SPDX-License-Identifier: Apache-2.0
"""The orders of one gang: the only thing that travels from the planner to the pods.

JSON in the environment variable `GPUBENCH_ASSIGNMENT`, the same for every pod of the gang; a pod adds its own index.
Every field is written, so that a program of the user's own finds it; only absent values are left out.
"""

from typing import Literal

from pydantic import Field

from gpubench import values, workloads
from gpubench.api import measuring, sweep


class Checkpointing(values.FrozenModel):
    """When a training keeps a checkpoint; where, the pod's environment says."""

    interval_seconds: float | None = Field(None, gt=0)  # None: it follows from what a checkpoint costs
    interruptions_per_node_hour: float | None = Field(None, gt=0)  # that are to be expected; None: nobody knows


class Assignment(values.FrozenModel):
    """One attempt at one trial. Durations are in seconds."""

    schema_version: Literal[1] = 1
    trial: str
    attempt: int = Field(ge=1)
    workload: str
    custom_file: str | None = None  # the Python file of a workload that is not in the catalogue
    mode: measuring.Mode = measuring.Mode.THROUGHPUT
    epochs: int | None = Field(None, ge=1)  # in mode Training
    data: sweep.Data = sweep.Data()
    variant: sweep.Variant | None = None
    precision: workloads.Precision
    workers: int = Field(ge=1)  # Horovod ranks in all
    workers_per_node: int = Field(ge=1)  # ranks in each pod
    batch_per_worker: int = Field(ge=1)  # samples per rank and step
    seed: int = Field(ge=0)
    slot_processors: float = Field(gt=0)  # processors of one rank: its threads and its pinning follow from it
    slot_memory_bytes: int | None = Field(None, gt=0)  # of one rank; a cgroup that gives less is recorded
    gpu: bool  # whether each rank must find a GPU of its own
    #: Whether the node is this pod's alone, so that its ranks may be pinned to any of its cores. Where it is not, every
    #: pod on the node would pin itself to the same first cores, unless a set was reserved for each.
    pin: bool = True
    warm_up_seconds: float = Field(ge=0)  # windows that begin before this are flagged as warm-up
    measure_seconds: float = Field(gt=0)  # windows after the warm-up go on for at least this long
    window_seconds: float = Field(gt=0)  # a window has as many steps as fit about this long
    #: The measured windows end before `measure_seconds` once their mean has a relative standard error this small.
    standard_error_wanted: float | None = Field(None, gt=0)
    health_check: bool = False  # whether each rank tests its device for some seconds before it trains
    checkpoint: Checkpointing | None = None  # in mode Training; None: each attempt begins anew
    join_timeout_seconds: float = Field(gt=0)  # how long the barrier waits for the last pod
    stall_timeout_seconds: float = Field(gt=0)  # without a step for this long the watchdog ends the attempt

    @property
    def nodes(self) -> int:
        return self.workers // self.workers_per_node
