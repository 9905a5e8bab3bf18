# SPDX-License-Identifier: Apache-2.0
"""GpuPool: a place where training can run, and what it costs there.

Nothing here is read after a benchmark has started: the plan freezes the pools it names.
"""

import re
from collections.abc import Mapping
from typing import ClassVar, Literal

from pydantic import Field

from gpubench import names, units
from gpubench.api import condition, rules
from gpubench.api.pod_template import LabelKey, LabelValue, PodScheduling, Template
from gpubench.api.pool_health import Health
from gpubench.api.pool_price import CapacityType, Ownership, Power, Price
from gpubench.values import FrozenModel


class Slot(FrozenModel):
    """What one Horovod rank asks for."""

    gpu_resource: LabelKey | None = Field(
        None,
        min_length=1,
        description="Resource of one GPU (nvidia.com/gpu) or MIG instance (nvidia.com/mig-1g.5gb), if any.",
    )
    cpu: units.Processors = Field(
        description='Processors of one rank, such as "11" or 500m. A rank is pinned to its whole processors.'
    )
    memory: units.Quantity = Field(description="Memory of one rank, such as 80Gi.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "type(self.cpu) == int ? self.cpu > 0 : !self.cpu.matches('^[0.]+m?$')",
            'slot.cpu must be more than 0: write the processors of one rank, such as "4" or 500m',
            ".cpu",
        ),
        rules.Rule(
            "type(self.memory) == int ? self.memory > 0 : !self.memory.matches('^[0.]+[A-Za-z]*$')",
            "slot.memory must be more than 0: write the memory of one rank, such as 4Gi",
            ".memory",
        ),
    )


class Toleration(FrozenModel):
    """A toleration of Kubernetes, passed to the pods as it is."""

    key: LabelKey | None = Field(None, description="Taint key; absent, with operator Exists, it is every taint.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="Exists or Equal (the default).")
    value: LabelValue | None = Field(None, description="Taint value, with operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Taint effect; absent means every effect."
    )
    toleration_seconds: int | None = Field(
        None, ge=0, le=31_536_000, description="How long NoExecute is tolerated; for ever if absent."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!(has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != '')",
            "a toleration with operator Exists has no value: remove value, or use operator Equal",
        ),
        rules.Rule(
            "has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            "a toleration without key needs operator Exists: give key, or set operator to Exists",
        ),
        rules.Rule(
            "!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            "tolerationSeconds goes with effect NoExecute only: remove it, or set effect to NoExecute",
        ),
    )


class Scheduling(PodScheduling):
    """How the pods find the nodes of this pool."""

    node_selector: dict[str, LabelValue] = Field(
        default_factory=dict, max_length=20, description="Labels that the pool's nodes carry."
    )
    tolerations: tuple[Toleration, ...] = Field((), max_length=20, description="Taints that the pods accept.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.keys(
            "nodeSelector", sentence=f"nodeSelector has a key that is no label key: {rules.SENTENCES[rules.LABEL_KEY]}"
        ),
    )


class MeasuredBy(FrozenModel):
    """Another pool whose measurements stand for this one's."""

    pool: rules.PoolName = Field(description="GpuPool that is measured in the same benchmark.")
    workers: rules.Workers | None = Field(None, description="Workers of its point; by default those of this one.")
    efficiency: Literal["StudyMean"] | None = Field(
        None,
        description="StudyMean: throughput is that of the measured point times workers over its workers times the mean "
        "efficiency that the benchmark measured for the same workload and batch relative to as many workers; with "
        "workers. Absent: as it is.",
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!has(self.efficiency) || has(self.workers)",
            "measuredBy.efficiency leads from measuredBy.workers to more workers: give workers, such as 1, or "
            "remove efficiency",
            ".efficiency",
        ),
    )


class AllowedNamespaces(FrozenModel):
    """Whose benchmarks a pool takes: those of a namespace with one of the names, or with all of the labels."""

    names: tuple[rules.ObjectName, ...] = Field(
        (), max_length=100, description="Names of namespaces.", json_schema_extra=rules.SET
    )
    match_labels: dict[str, LabelValue] = Field(
        default_factory=dict, max_length=8, description="Labels of the Namespace object, which tenants cannot write."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "(has(self.names) && self.names.size() > 0) || (has(self.matchLabels) && self.matchLabels.size() > 0)",
            "allowedNamespaces allows nobody: give names or matchLabels, or remove it to allow every namespace",
        ),
        rules.keys("matchLabels", sentence=f"matchLabels has no label key: {rules.SENTENCES[rules.LABEL_KEY]}"),
    )


class GpuPoolSpec(FrozenModel):
    """Where training can run: how to select the nodes, what one holds, what it costs."""

    capacity_type: CapacityType = Field(CapacityType.ON_DEMAND, description="How the nodes are rented.")
    on_demand_counterpart: rules.PoolName | None = Field(
        None,
        description="GpuPool of the same benchmark that rents the same nodes on demand: what a spot pool saves is told "
        "against its price. It need not be run itself: give it measuredBy.",
    )
    accelerator: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=rules.ASCII,
        description="What reports and metrics call the accelerator. Absent on CPUs.",
    )
    slots_per_node: int = Field(ge=1, le=64, description="Horovod ranks that one node holds: its GPUs, or CPU shares.")
    max_nodes: int = Field(ge=1, le=names.NODES_MAX, description="Nodes that this pool can have at most.")
    exclusive_nodes: bool = Field(
        True, description="An attempt holds, and pays for, whole nodes. False: its slots, and pods may share a node."
    )
    slot: Slot = Field(description="What one Horovod rank asks for.")
    node_resources: dict[str, units.Quantity] = Field(
        default_factory=dict, max_length=16, description="What each pod asks for once, beside its slots."
    )
    scheduling: Scheduling = Field(Scheduling(), description="How the pods find the nodes.")
    template: Template = Field(Template(), description="Image and environment that this pool needs.")
    price: Price | None = Field(None, description="What a node costs. With neither price nor ownership: no cost.")
    ownership: Ownership | None = Field(None, description="What an own node costs. At most one of price, ownership.")
    power: Power | None = Field(None, description="For watt-hours and emissions, beside the GPUs' own energy.")
    scaling_baseline: rules.PoolName | None = Field(
        None,
        description="GpuPool of the same benchmark whose smallest point is the base of this pool's scaling efficiency: "
        "the sibling with one GPU of a node with several. By default this pool itself.",
    )
    measured_by: MeasuredBy | None = Field(None, description="Of a pool that is never run: where its points come from.")
    allowed_namespaces: AllowedNamespaces | None = Field(
        None, description="Whose benchmarks it takes, when they are planned; those of every namespace if absent."
    )

    def takes(self, namespace: str, labels: Mapping[str, str]) -> bool:
        if (allowed := self.allowed_namespaces) is None or namespace in allowed.names:
            return True
        return bool(allowed.match_labels) and allowed.match_labels.items() <= labels.items()

    @property
    def has_gpus(self) -> bool:
        return self.slot.gpu_resource is not None or bool(self.template.resource_claims)

    @property
    def is_cut(self) -> bool:
        """Whether a slot is an instance of a GPU (MIG); with the plugin's strategy single only its name says so."""
        words = re.split(r"[\s_-]+", (self.accelerator or "").upper())
        return "MIG" in words or (self.slot.gpu_resource or "").startswith("nvidia.com/mig-")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!(has(self.price) && has(self.ownership))", "a pool is rented or owned: give price or ownership, not both"
        ),
        rules.Rule(
            "!has(self.onDemandCounterpart) || self.capacityType in ['Spot', 'Preemptible']",
            "onDemandCounterpart is what a spot pool is compared with: set capacityType to Spot or "
            "Preemptible, or remove it",
            ".onDemandCounterpart",
        ),
        rules.Rule(
            "!has(self.accelerator) || has(self.slot.gpuResource) || (has(self.template) && "
            "has(self.template.resourceClaims) && self.template.resourceClaims.size() > 0)",
            "accelerator names a GPU, but no slot asks for one: "
            "give slot.gpuResource, such as nvidia.com/gpu, or template.resourceClaims, or remove accelerator",
            ".accelerator",
        ),
        rules.Rule(
            "!has(self.template) || !has(self.template.resourceClaims) || "
            "!self.template.resourceClaims.exists(one, has(one.resourceClaimName)) || "
            "(self.maxNodes == 1 && (!has(self.exclusiveNodes) || self.exclusiveNodes))",
            "resourceClaimName is one claim, and pods that share it would share its devices: set maxNodes to 1 and "
            "exclusiveNodes to true, or use resourceClaimTemplateName",
            ".template.resourceClaims",
        ),
        rules.keys(
            "nodeResources",
            sentence="nodeResources has a key that is no resource name: "
            "write a name such as ephemeral-storage or vpc.amazonaws.com/efa",
        ),
        rules.Rule(
            "!has(self.nodeResources) || !self.nodeResources.exists(key, key in ['cpu', 'memory'] || "
            "(has(self.slot.gpuResource) && key == self.slot.gpuResource))",
            "nodeResources cannot name cpu, memory or the GPU resource: what a pod asks for of these follows "
            "from slot; remove them here",
            ".nodeResources",
        ),
    )


class GpuPoolStatus(FrozenModel):
    """What the cluster shows of the pool."""

    observed_generation: int | None = Field(None, description="Generation of the spec that this speaks of.")
    nodes: int = Field(0, description="Nodes whose labels match.")
    ready_nodes: int = Field(0, description="Of these, nodes that are ready and take pods.")
    slots: int = Field(0, description="Slots of the ready nodes.")
    price_per_node_hour: str | None = Field(
        None,
        max_length=32,
        description="What a node costs in an hour, with its currency, rented or owned, without fees.",
    )
    fees_per_node_hour: str | None = Field(None, max_length=32, description="What fees per hour and month add to that.")
    price_range: str | None = Field(None, max_length=80, description="Lowest and highest in the time of price.range.")
    price_as_of: str | None = Field(None, max_length=10, description="Day on which the price was read.")
    conditions: tuple[condition.Condition, ...] = Field(
        (),
        max_length=8,
        description="Ready: the pool has a ready node. PriceStale: its price was read more than 90 days ago.",
        json_schema_extra=rules.list_map("type"),
    )
    health: Health = Field((), description="What the short tests before the trials have found on its nodes.")


class GpuPool(FrozenModel):
    """The object's content that planning needs: its name and its spec."""

    name: str
    spec: GpuPoolSpec

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.name_at_most(names.POOL_NAME_MAX, because="it becomes a label"),
        rules.Rule(
            rules.matches("self.metadata.name", rules.POOL_NAME),
            "metadata.name must hold only small letters, digits, - and ., and begin and end with a letter or digit; "
            "choose a name such as gke-a100-spot",
            ".metadata.name",
        ),
        rules.Rule(
            "!has(self.spec.measuredBy) || self.spec.measuredBy.pool != self.metadata.name",
            "measuredBy.pool is this pool itself: name the pool that is measured, or remove measuredBy",
            ".spec.measuredBy.pool",
        ),
        rules.Rule(
            "!has(self.spec.onDemandCounterpart) || self.spec.onDemandCounterpart != self.metadata.name",
            "onDemandCounterpart is this pool itself: name the pool of the same nodes at the price on demand",
            ".spec.onDemandCounterpart",
        ),
    )
