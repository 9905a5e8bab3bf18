# SPDX-License-Identifier: Apache-2.0
"""What a benchmark measures: blocks of a sweep, each of which names points."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpubench import workloads
from gpubench.api import rules
from gpubench.values import FrozenModel
from gpubench.workloads import Precision

# Written out, not built from the catalogue at run time, so that a type checker sees the names; a test compares them.
WorkloadName = Literal[
    "mnist_mlp", "mnist_cnn", "cifar10_cnn", "imdb_bidirectional_lstm", "imdb_fasttext", "lstm_text_generation",
    "twitter_bilstm", "trivial", "alexnet", "googlenet", "vgg16", "vgg19", "inception3", "inception4",
    "inception4_finetune", "resnet50", "resnet50_v1.5", "resnet101", "resnet152", "allreduce", "Custom",
]  # fmt: skip


class DataSource(StrEnum):
    """Where samples come from."""

    SYNTHETIC = "Synthetic"
    GENERATED = "Generated"
    VOLUME = "Volume"


class Data(FrozenModel):
    """What a workload is trained on."""

    source: DataSource = Field(
        DataSource.SYNTHETIC,
        description="Synthetic: one random batch that stays on the device. Generated: a small set that can be learned, "
        "made by the workers. Volume: the real files, below path.",
    )
    path: rules.Path | None = Field(None, description="With source Volume: folder of the data set in the pods.")
    samples: int | None = Field(
        None,
        ge=1,
        le=100_000_000,
        description="With source Generated: training samples to make; a fifth as many are made for evaluation.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "has(self.path) == (has(self.source) && self.source == 'Volume')",
            "data.path is the folder of the real files: give it with source Volume, and with no other source",
        ),
        rules.Rule(
            "!has(self.samples) || (has(self.source) && self.source == 'Generated')",
            "data.samples is the size of a generated set: give it with source Generated only",
        ),
    )


class Communication(FrozenModel):
    """How gradients travel."""

    compression: Literal["None", "Float16"] = Field(
        "None", description="Float16: gradients are cast to float16 for the wire and back after it."
    )
    groups: int | None = Field(
        None,
        ge=1,
        le=64,
        description="Groups of gradients, each sent as one message when its last gradient is there; with 1 nothing is "
        "sent during the backward pass. If absent each gradient is sent when it is there, fused as Horovod sees fit.",
    )
    fusion_threshold_mib: int | None = Field(
        None, ge=0, le=1024, description="Mebibytes sent as one message; Horovod's own 128 if absent, 0 for no fusion."
    )
    cycle_time_milliseconds: int | None = Field(
        None, ge=1, le=1000, description="Milliseconds for which Horovod gathers gradients; its own 1 if absent."
    )


#: In spec.baseline: a point without a variant.
NO_VARIANT = "none"


class Variant(FrozenModel):
    """One way of training, by name; the name is part of the point."""

    name: rules.ShortName = Field(description="Name in results.")
    communication: Communication = Field(Communication(), description="How gradients travel.")
    loss_scaling: Literal["Fixed", "Dynamic"] = Field(
        "Fixed",
        description="With mixed_float16: the loss times 128, or a factor that begins there, doubles after 1,000 steps "
        "and halves, leaving the step out, when a gradient overflows.",
    )
    learning_rate_scaling: Literal["None", "Linear", "SquareRoot"] = Field(
        "None",
        description="Whether the learning rate is multiplied by the workers, or by the root of their number, from the "
        "first step on, without a warm-up.",
    )
    xla: bool = Field(False, description="Compile forward and backward pass by XLA; the all-reduce stays outside.")
    env: tuple[rules.EnvironmentVariable, ...] = Field(
        (),
        max_length=16,
        description="Further environment variables, such as NCCL's.",
        json_schema_extra=rules.list_map("name"),
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            f"self.name != '{NO_VARIANT}'",
            f"a variant cannot be called {NO_VARIANT}, which in spec.baseline means a point without one: "
            "choose another name",
            ".name",
        ),
    )


class Custom(FrozenModel):
    """A workload of your own."""

    name: rules.Name = Field(description="Name in results.")
    file: rules.Path | None = Field(None, description="Instead of command: file with build(), see jobs/README.md.")
    command: tuple[Annotated[str, Field(max_length=1024)], ...] | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Command of the pods, which trains by itself and writes the result record. Instead of file.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "has(self.file) != has(self.command)",
            "custom needs exactly one of file (a Python file with build()) and command (a program of its own)",
        ),
        rules.Rule(
            "!(self.name in [" + ", ".join(f"'{name}'" for name in workloads.NAMES) + "])",
            "custom.name is the name of a workload of gpubench: choose another one",
            ".name",
        ),
    )


class SweepBlock(FrozenModel):
    """The cross product of its lists. A point that two blocks name runs once."""

    workloads: tuple[WorkloadName, ...] = Field(
        min_length=1, max_length=16, description="Models to train, by name.", json_schema_extra=rules.SET
    )
    pools: tuple[rules.PoolName, ...] = Field(
        min_length=1, max_length=32, description="Names of GpuPools to run on.", json_schema_extra=rules.SET
    )
    workers: tuple[rules.Workers, ...] = Field(
        min_length=1,
        max_length=32,
        description="Horovod ranks in all: within one node, or a multiple of workersPerNode. "
        "What a pool cannot hold is skipped, and the result says so.",
        json_schema_extra=rules.SET,
    )
    workers_per_node: int | None = Field(
        None, ge=1, le=64, description="Ranks on each node when there are several; the pool's slotsPerNode by default."
    )
    batch_per_worker: tuple[rules.Batch, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="Samples per rank and step: weak scaling. Instead of globalBatch.",
        json_schema_extra=rules.SET,
    )
    global_batch: tuple[rules.Batch, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="Samples of all ranks per step: strong scaling. Instead of batchPerWorker.",
        json_schema_extra=rules.SET,
    )
    precision: tuple[Precision, ...] = Field(
        (Precision.FLOAT32,),
        min_length=1,
        max_length=4,
        description="Arithmetic of the training step. float32 is never TensorFloat-32: that is tensor_float32.",
        json_schema_extra=rules.SET,
    )
    data: Data = Field(Data(), description="What is trained on.")
    variants: tuple[Variant, ...] | None = Field(
        None,
        min_length=1,
        max_length=8,
        description="Ways of training to compare: each makes points of its own.",
        json_schema_extra=rules.list_map("name"),
    )
    epochs: int | None = Field(
        None, ge=1, le=1000, description="With mode Training; by default the workload's own number."
    )
    custom: Custom | None = Field(None, description="The workload of your own, where workloads is [Custom].")
    placement: Literal["Anywhere", "EachNode"] = Field(
        "Anywhere",
        description="EachNode: the points are measured on each node of the pools that is ready when the benchmark is "
        "planned, by itself; the node is then part of the point. For workers that fit one node.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "has(self.custom) == ('Custom' in self.workloads) && (!has(self.custom) || size(self.workloads) == 1)",
            "workloads: [Custom] and custom belong together: give both, and other workloads in another block",
        ),
        rules.Rule(
            "!has(self.placement) || self.placement != 'EachNode' || size(self.workers) == 1",
            "sweep[].placement EachNode holds the nodes against each other by gangs of one size: give one "
            "entry of workers, and other sizes in another block",
            ".workers",
        ),
        rules.Rule(
            "has(self.batchPerWorker) != has(self.globalBatch)",
            "a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling)",
            detail="this one has %s",
            values=("has(self.globalBatch) ? 'both: put one of them into a block of its own' : 'neither'",),
        ),
        rules.Rule(
            "!has(self.variants) || self.precision == ['mixed_float16'] || "
            "self.variants.all(variant, variant.lossScaling != 'Dynamic')",
            "lossScaling Dynamic is for mixed_float16: set precision to [mixed_float16], and put other "
            "precisions into another block",
            ".variants",
        ),
    )
