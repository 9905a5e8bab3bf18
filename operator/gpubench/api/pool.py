# SPDX-License-Identifier: Apache-2.0
"""GpuPool: a place where training can run, and what it costs there.

Nothing here is read after a study has started: the plan freezes the pools it names.
"""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from gpubench.api.rules import Rule
from gpubench.units import DecimalText, Processors, Quantity
from gpubench.values import Value

Currency = Annotated[str, Field(pattern=r"^[A-Z]{3}$", max_length=3)]
Date = Annotated[str, Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$", max_length=10)]
LabelText = Annotated[str, Field(max_length=316)]  # a label key: 253 + "/" + 63 - 1
LabelValue = Annotated[str, Field(max_length=63)]
ResourceName = Annotated[str, StringConstraints(max_length=316, pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?$")]


class CapacityType(StrEnum):
    """How the nodes are rented."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"
    PREEMPTIBLE = "Preemptible"
    RESERVED = "Reserved"
    OWNED = "Owned"


class Slot(Value):
    """What one Horovod rank asks for."""

    gpu_resource: ResourceName | None = Field(
        None, description="Extended resource of one GPU, such as nvidia.com/gpu. Absent on a CPU pool."
    )
    cpu: Processors = Field(
        description='Processors of one rank, such as "11" or 500m. A rank is pinned to its whole processors.'
    )
    memory: Quantity = Field(description="Memory of one rank, such as 80Gi.")


class Toleration(Value):
    """A toleration of Kubernetes, passed to the pods as it is."""

    key: LabelText | None = Field(None, description="Taint key; empty with operator Exists tolerates everything.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="Exists or Equal (the default).")
    value: LabelValue | None = Field(None, description="Taint value, with operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Taint effect; absent means every effect."
    )
    toleration_seconds: int | None = Field(None, ge=0, description="How long a NoExecute taint is tolerated.")


class Scheduling(Value):
    """How the pods find the nodes of this pool."""

    node_selector: dict[LabelText, LabelValue] = Field(
        default_factory=dict, max_length=20, description="Labels that the pool's nodes carry."
    )
    tolerations: tuple[Toleration, ...] = Field((), max_length=20, description="Taints that the pods accept.")


class EnvironmentVariable(Value):
    """A plain environment variable of the gang's container."""

    name: str = Field(max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", description="Name of the variable.")
    value: str = Field("", max_length=4096, description="Value of the variable.")


class Template(Value):
    """What the gang's pods are made of. A study's template lies over its pool's: its image wins, its env is added."""

    image: str | None = Field(None, min_length=1, max_length=512, description="Container image with gpubench's jobs.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the kubelet pulls the image; Kubernetes' own default if absent."
    )
    env: tuple[EnvironmentVariable, ...] = Field((), max_length=64, description="Further environment variables.")


class Price(Value):
    """What a node of the pool costs while it runs."""

    per_node_hour: DecimalText | None = Field(None, description='Price of one node for one hour, such as "10.21".')
    per_slot_hour: DecimalText | None = Field(None, description="Price of one slot for one hour, instead of a node's.")
    currency: Currency = Field(description="ISO 4217 code of the amount, such as USD.")
    as_of: Date = Field(description="Day on which the price was read, such as 2026-11-01.")
    source: str = Field("", max_length=512, description="Where the price was read.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="has(self.perNodeHour) != has(self.perSlotHour)",
            sentence="price needs exactly one of perNodeHour and perSlotHour",
        ),
    )


class Ownership(Value):
    """An own machine: what an hour of use costs, from purchase, lifetime, hours used and power."""

    purchase: DecimalText = Field(description="What one node cost.")
    residual: DecimalText = Field("0", description="What one node will still be worth at the end of its lifetime.")
    lifetime_months: int = Field(ge=1, le=240, description="Months over which the node is written off.")
    hours_per_month: int = Field(ge=1, le=744, description="Hours per month in which the node is really used.")
    watts: int = Field(0, ge=0, le=100_000, description="Power of one node under training load.")
    idle_watts: int = Field(0, ge=0, le=100_000, description="Power of one node in the remaining hours of the month.")
    per_kilowatt_hour: DecimalText = Field("0", description="Price of electricity per kilowatt-hour.")
    per_month: DecimalText = Field("0", description="Fixed monthly costs of one node: room, network, care.")
    currency: Currency = Field(description="ISO 4217 code of the amounts, such as USD.")
    as_of: Date = Field(description="Day on which the amounts were read, such as 2026-11-01.")
    source: str = Field("", max_length=512, description="Where the amounts were read.")


class GpuPoolSpec(Value):
    """Where training can run: how to select the nodes, what one holds, what it costs."""

    capacity_type: CapacityType = Field(CapacityType.ON_DEMAND, description="How the nodes are rented.")
    accelerator: str | None = Field(
        None, min_length=1, max_length=63, description="What reports and metrics call the accelerator. Absent on CPUs."
    )
    slots_per_node: int = Field(
        ge=1, le=64, description="Horovod ranks that one node holds: its GPUs, or shares of its CPUs."
    )
    max_nodes: int = Field(ge=1, le=1000, description="Nodes that this pool can have at most.")
    exclusive_nodes: bool = Field(
        True, description="No other trial runs on a node that measures; an attempt holds, and pays for, whole nodes."
    )
    slot: Slot = Field(description="What one Horovod rank asks for.")
    node_resources: dict[ResourceName, Quantity] = Field(
        default_factory=dict, max_length=16, description="What each pod asks for once, beside its slots."
    )
    scheduling: Scheduling = Field(Scheduling(), description="How the pods find the nodes.")
    template: Template = Field(Template(), description="Image and environment that this pool needs.")
    price: Price | None = Field(None, description="What a node costs. With neither price nor ownership: no cost.")
    ownership: Ownership | None = Field(None, description="What an own node costs. At most one of price, ownership.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.price) && has(self.ownership))",
            sentence="a pool is rented or owned: give price or ownership, not both",
        ),
    )


class GpuPool(Value):
    """The object's content that planning needs: its name and its spec."""

    name: str
    spec: GpuPoolSpec
