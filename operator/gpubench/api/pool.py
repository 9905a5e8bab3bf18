# SPDX-License-Identifier: Apache-2.0
"""GpuPool: a place where training can run, and what it costs there.

Nothing here is read after a study has started: the plan freezes the pools it names.
"""

import datetime
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from gpubench import names, units
from gpubench.api import patterns, rules
from gpubench.api.condition import Condition
from gpubench.api.pool_health import Health
from gpubench.api.rules import Rule
from gpubench.units import DecimalText, Processors, Quantity
from gpubench.values import Value


def _day(text: str) -> str:
    if datetime.date.fromisoformat(text).isoformat() != text:
        raise ValueError("write year, month and day, such as 2026-11-01")
    return text


Currency = Annotated[str, Field(pattern=patterns.CURRENCY, max_length=3)]
Date = Annotated[
    str,
    Field(max_length=10, json_schema_extra={"format": "date"}),
    AfterValidator(_day),
]
LabelKey = Annotated[str, Field(max_length=317, pattern=patterns.LABEL_KEY)]  # 253 + "/" + 63
LabelValue = Annotated[str, Field(max_length=63, pattern=patterns.LABEL_VALUE)]

#: More than any node costs in any currency; what is above is a misplaced point or another unit.
HOUR_MAX = 10_000_000
MONTH_MAX = 744 * HOUR_MAX
EXCHANGE_MAX = 10_000_000
BILLED_SECONDS_MAX = 2_678_400  # a month of 31 days
#: CEL: what the components of a price come to in an hour.
_SUM = "self.components.map(part, double(part.perHour) * double(part.count)).sum()"


def _readable(text: str) -> str:
    """CEL: a text is a number. One that is none is left to its own rule, which says what is wrong with it."""
    return patterns.matches(text, units.DECIMAL_PATTERN)


class CapacityType(StrEnum):
    """How the nodes are rented."""

    ON_DEMAND = "OnDemand"
    SPOT = "Spot"
    PREEMPTIBLE = "Preemptible"
    RESERVED = "Reserved"
    OWNED = "Owned"


class Slot(Value):
    """What one Horovod rank asks for."""

    gpu_resource: LabelKey | None = Field(
        None, min_length=1, description="Extended resource of one GPU, such as nvidia.com/gpu. Absent on a CPU pool."
    )
    cpu: Processors = Field(
        description='Processors of one rank, such as "11" or 500m. A rank is pinned to its whole processors.'
    )
    memory: Quantity = Field(description="Memory of one rank, such as 80Gi.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=r"!self.cpu.matches('^[0.]+m?$')",
            sentence='slot.cpu must be more than 0: write the processors of one rank, such as "4" or 500m',
            field=".cpu",
        ),
        Rule(
            cel=r"!self.memory.matches('^[0.]+[A-Za-z]*$')",
            sentence="slot.memory must be more than 0: write the memory of one rank, such as 4Gi",
            field=".memory",
        ),
    )


class Toleration(Value):
    """A toleration of Kubernetes, passed to the pods as it is."""

    key: LabelKey | None = Field(None, description="Taint key; absent, with operator Exists, it is every taint.")
    operator: Literal["Exists", "Equal"] | None = Field(None, description="Exists or Equal (the default).")
    value: LabelValue | None = Field(None, description="Taint value, with operator Equal.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        None, description="Taint effect; absent means every effect."
    )
    toleration_seconds: int | None = Field(
        None, ge=0, le=31_536_000, description="How long a NoExecute taint is tolerated; absent means for ever."
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.operator) && self.operator == 'Exists' && has(self.value) && self.value != '')",
            sentence="a toleration with operator Exists has no value: remove value, or use operator Equal",
        ),
        Rule(
            cel="has(self.key) || (has(self.operator) && self.operator == 'Exists')",
            sentence="a toleration without key needs operator Exists: give key, or set operator to Exists",
        ),
        Rule(
            cel="!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute')",
            sentence="tolerationSeconds goes with effect NoExecute only: remove it, or set effect to NoExecute",
        ),
    )


class Scheduling(Value):
    """How the pods find the nodes of this pool."""

    node_selector: dict[str, LabelValue] = Field(
        default_factory=dict, max_length=20, description="Labels that the pool's nodes carry."
    )
    tolerations: tuple[Toleration, ...] = Field((), max_length=20, description="Taints that the pods accept.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!has(self.nodeSelector) || self.nodeSelector.all(key, {patterns.matches('key', patterns.LABEL_KEY)})",
            sentence="nodeSelector has a key that is no label key: "
            "write a name of at most 63 letters, digits, -, _ and ., with a DNS prefix and / before it if need be",
            field=".nodeSelector",
        ),
    )


class EnvironmentVariable(Value):
    """A plain environment variable of the gang's container."""

    name: str = Field(
        min_length=1, max_length=128, pattern=patterns.ENVIRONMENT_NAME, description="Name of the variable."
    )
    value: str = Field("", max_length=4096, description="Value of the variable.")


class ClaimVolume(Value):
    """A PersistentVolumeClaim of the benchmark's namespace."""

    claim_name: str = Field(
        min_length=1, max_length=253, pattern=patterns.OBJECT_NAME, description="Name of the claim."
    )


class ConfigMapVolume(Value):
    """A ConfigMap of the benchmark's namespace: each of its keys is a file."""

    name: str = Field(min_length=1, max_length=253, pattern=patterns.OBJECT_NAME, description="Name of the ConfigMap.")


class HostPathVolume(Value):
    """A folder of the node, for own machines; refused where Pod Security forbids it."""

    path: str = Field(min_length=1, max_length=1024, pattern=patterns.PATH, description="Folder on the node.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!self.path.matches('(^|/)[.][.](/|$)')",
            sentence="hostPath.path cannot go up by ..: write the folder itself, such as /srv/data",
            field=".path",
        ),
    )


class Volume(Value):
    """Files for the pods: a data set, a model of your own. Mounted read-only."""

    name: str = Field(min_length=1, max_length=63, pattern=patterns.VOLUME_NAME, description="Name of the volume.")
    mount_path: str = Field(min_length=1, max_length=1024, description="Where the pods see it, such as /data.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A PersistentVolumeClaim.")
    config_map: ConfigMapVolume | None = Field(None, description="A ConfigMap.")
    host_path: HostPathVolume | None = Field(None, description="A folder of the node.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.persistentVolumeClaim), has(self.configMap), has(self.hostPath)].filter(x, x).size() == 1",
            sentence="a volume needs exactly one of persistentVolumeClaim, configMap and hostPath",
        ),
        Rule(
            cel="self.mountPath.matches('^(/[^/:]+)+$') && !self.mountPath.matches('(^|/)[.][.]?(/|$)') && "
            "!self.mountPath.matches('^/(dev|proc|sys|tmp)(/|$)')",
            sentence="volumes[].mountPath must be an absolute path, not / and not in /dev, /proc, /sys or /tmp, "
            "without : and /.. and without / at its end; choose one such as /data",
            field=".mountPath",
        ),
        Rule(
            cel="!(self.name in ['tmp', 'shm', 'gpubench-results'])",
            sentence="volumes[].name tmp, shm and gpubench-results are the pods' own volumes: choose another name",
            field=".name",
        ),
    )


class Template(Value):
    """What the gang's pods are made of. A study's template lies over its pool's: its image wins, its env is added."""

    image: str | None = Field(None, min_length=1, max_length=512, description="Container image with gpubench's jobs.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the kubelet pulls the image; Kubernetes' own default if absent."
    )
    env: tuple[EnvironmentVariable, ...] = Field(
        (),
        max_length=64,
        description="Further environment variables of the gang's container.",
        json_schema_extra=rules.list_map("name"),
    )
    volumes: tuple[Volume, ...] = Field(
        (),
        max_length=8,
        description="Further volumes; a study's replaces its pool's of the same name or mountPath.",
        json_schema_extra=rules.list_map("name"),
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.volumes) || self.volumes.all(one, "
            "self.volumes.filter(other, other.mountPath == one.mountPath).size() == 1)",
            sentence="two volumes have the same mountPath: give each its own",
            field=".volumes",
        ),
    )


class PriceComponent(Value):
    """One line of a node's bill: the machine, or its GPUs, which some providers price apart."""

    name: str = Field(min_length=1, max_length=63, description="What is paid for, such as n1-standard-8 or V100.")
    per_hour: DecimalText = Field(description="Price of one of them for one hour.")
    count: int = Field(1, ge=1, le=1024, description="How many of them a node has.")


class PriceFee(Value):
    """What is paid beside the nodes: a disk, a licence, a subscription."""

    name: str = Field(min_length=1, max_length=63, description="What is paid for, such as disk.")
    amount: DecimalText = Field(description="What is paid, in the price's currency.")
    per: Literal["Run", "Hour", "Month"] = Field(
        description="Run: for each attempt that has held a node. Hour: for each billed hour of each node. Month: for "
        "each node, spread over hoursPerMonth."
    )


class PriceRange(Value):
    """Between which figures a price has moved, as spot prices do. In the unit of the price itself."""

    low: DecimalText = Field(
        description="Lowest figure of the time, in the unit of perNodeHour, perSlotHour or perMonth, whichever is "
        "given; of a node's hour beside components."
    )
    high: DecimalText = Field(description="Highest figure of the time, in the same unit.")
    period: str = Field(
        max_length=21,
        pattern=patterns.PERIOD,
        description="First and last month, or day, of that time, such as 2026-08/2026-10.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!({_readable('self.low')} && {_readable('self.high')}) || double(self.low) <= double(self.high)",
            sentence="price.range.low cannot be more than price.range.high: write the lowest and the highest price",
            detail="low is %s, high %s",
            values=("self.low", "self.high"),
            field=".low",
        ),
    )


class Billing(Value):
    """How the provider counts the time of a node."""

    increment_seconds: int = Field(
        1,
        ge=1,
        le=BILLED_SECONDS_MAX,
        description="The time of each node is rounded up to whole increments of so many.",
    )
    minimum_seconds: int = Field(
        0, ge=0, le=BILLED_SECONDS_MAX, description="At least so many seconds are billed for each node of each attempt."
    )


def _figure_at_most(field: str, limit: int, *, such_as: str, parent: str = "price") -> Rule:
    """That a price is none: digits too many, another unit, or an amount of another currency."""
    return Rule(
        cel=f"!has(self.{field}) || !{_readable(f'self.{field}')} || double(self.{field}) <= {limit}.0",
        sentence=f"{parent}.{field} is more than {limit}, which is no price of {such_as}: look at its unit and "
        "currency",
        detail="it is %s",
        values=(f"self.{field}",),
        field=f".{field}",
    )


def _within_range(field: str) -> Rule:
    """That a figure of a price lies in its range."""
    own, low, high = f"self.{field}", "self.range.low", "self.range.high"
    readable = " && ".join(_readable(text) for text in (own, low, high))
    return Rule(
        cel=f"!has(self.range) || !has({own}) || !({readable}) || "
        f"(double({low}) <= double({own}) && double({own}) <= double({high}))",
        sentence=f"price.{field} must lie within price.range, which is in the same unit",
        detail=f"{field} is %s, range from %s to %s",
        values=(own, low, high),
        field=".range",
    )


class Price(Value):
    """What a node of the pool costs while it runs, in one of four forms, and how that is billed."""

    per_node_hour: DecimalText | None = Field(None, description='Price of one node for one hour, such as "10.21".')
    per_slot_hour: DecimalText | None = Field(None, description="Price of one slot for one hour, instead of a node's.")
    per_month: DecimalText | None = Field(
        None, description="Price of one node for one month, for machines rented by the month; with hoursPerMonth."
    )
    hours_per_month: int | None = Field(
        None,
        ge=1,
        le=744,
        description="With perMonth, or a fee per Month: hours of the month in which the node is really used.",
    )
    components: tuple[PriceComponent, ...] | None = Field(
        None,
        min_length=1,
        max_length=16,
        description="What one node's hour is made of, where its parts have prices of their own.",
        json_schema_extra=rules.list_map("name"),
    )
    fees: tuple[PriceFee, ...] = Field(
        (),
        max_length=8,
        description="What is paid beside the nodes. Fees are in what is billed, never in marginal cost.",
        json_schema_extra=rules.list_map("name"),
    )
    setup: DecimalText | None = Field(
        None, description="Paid once before a study's first run on the pool. In what is billed, not in marginal cost."
    )
    range: PriceRange | None = Field(
        None, description="Between which figures the price has moved; costs at both ends stand beside the costs."
    )
    billing: Billing | None = Field(
        None, description="How the time of a node is billed. Absent: by the second, without a minimum."
    )
    currency: Currency = Field(description="ISO 4217 code of the amount, such as USD.")
    as_of: Date = Field(
        description="Day on which the price was read, such as 2026-11-01. One older than 90 days is called stale."
    )
    source: str = Field("", max_length=512, description="Where the price was read.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="[has(self.perNodeHour), has(self.perSlotHour), has(self.perMonth), has(self.components)]"
            ".filter(x, x).size() == 1",
            sentence="price needs exactly one of perNodeHour (one node for one hour), perSlotHour (one slot of it), "
            "perMonth (one node for one month) and components (what a node's hour is made of)",
        ),
        Rule(
            cel="has(self.hoursPerMonth) == "
            "(has(self.perMonth) || (has(self.fees) && self.fees.exists(fee, fee.per == 'Month')))",
            sentence="price.perMonth and price.hoursPerMonth belong together, and so do a fee per Month and "
            "hoursPerMonth: say over how many hours of use the month is spread, 730 for a node that works day and "
            "night",
        ),
        _figure_at_most("perNodeHour", HOUR_MAX, such_as="an hour"),
        _figure_at_most("perSlotHour", HOUR_MAX, such_as="an hour"),
        _figure_at_most("perMonth", MONTH_MAX, such_as="a month"),
        _figure_at_most("setup", MONTH_MAX, such_as="setting up nodes"),
        Rule(
            cel=f"!has(self.components) || self.components.all(part, !{_readable('part.perHour')} || "
            f"double(part.perHour) <= {HOUR_MAX}.0)",
            sentence=f"price.components has a perHour of more than {HOUR_MAX}, which is no price of an hour: look at "
            "its unit and currency",
            field=".components",
        ),
        Rule(
            cel=f"!has(self.fees) || self.fees.all(fee, !{_readable('fee.amount')} || "
            f"double(fee.amount) <= {MONTH_MAX}.0)",
            sentence=f"price.fees has an amount of more than {MONTH_MAX}, which is no fee: look at its currency",
            field=".fees",
        ),
        _within_range("perNodeHour"),
        _within_range("perSlotHour"),
        _within_range("perMonth"),
        Rule(
            # A sum of binary fractions may miss its decimal value in the last digits.
            cel="!has(self.range) || !has(self.components) || "
            f"!({_readable('self.range.low')} && {_readable('self.range.high')} && "
            f"self.components.all(part, {_readable('part.perHour')})) || "
            f"(double(self.range.low) <= {_SUM} + 0.000001 && {_SUM} - 0.000001 <= double(self.range.high))",
            sentence="what price.components come to, each times its count, must lie within price.range, which is of a "
            "node's hour",
            field=".range",
        ),
    )


class ExchangeRate(Value):
    """What one unit of another currency was worth on a day."""

    from_currency: Currency = Field(alias="from", description="ISO 4217 code of the other currency, such as EUR.")
    rate: DecimalText = Field(description='What one unit of it is in the study\'s currency, such as "1.23".')
    as_of: Date = Field(description="Day of the rate, such as 2026-11-01.")
    source: str = Field("", max_length=512, description="Where the rate was read.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=r"!self.rate.matches('^[0.]+$')",
            sentence="exchangeRates[].rate must be more than 0: write what one unit of the other currency is in the "
            "study's currency",
            field=".rate",
        ),
        Rule(
            cel=f"!{_readable('self.rate')} || double(self.rate) <= {EXCHANGE_MAX}.0",
            sentence=f"exchangeRates[].rate is more than {EXCHANGE_MAX}, which no currency is worth: write what one "
            "unit of the other currency is in the study's currency",
            detail="it is %s",
            values=("self.rate",),
            field=".rate",
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

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"!({_readable('self.residual')} && {_readable('self.purchase')}) || "
            "double(self.residual) <= double(self.purchase)",
            sentence="ownership.residual cannot be more than ownership.purchase: what is left is part of what was paid",
            detail="residual is %s, purchase %s",
            values=("self.residual", "self.purchase"),
            field=".residual",
        ),
        Rule(
            cel="self.idleWatts <= self.watts",
            sentence="ownership.idleWatts cannot be more than ownership.watts: give the power under load too",
            detail="idleWatts is %d, watts %d",
            values=("self.idleWatts", "self.watts"),
            field=".idleWatts",
        ),
        _figure_at_most("purchase", MONTH_MAX, such_as="a node", parent="ownership"),
        _figure_at_most("perMonth", MONTH_MAX, such_as="a month", parent="ownership"),
        _figure_at_most("perKilowattHour", HOUR_MAX, such_as="a kilowatt-hour", parent="ownership"),
    )


class MeasuredBy(Value):
    """Another pool whose measurements stand for this one's."""

    pool: Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.POOL_NAME)] = Field(
        description="GpuPool that is measured in the same study."
    )
    workers: int | None = Field(
        None, ge=1, le=4096, description="Workers of its point; as many as this pool's point by default."
    )
    efficiency: Literal["StudyMean"] | None = Field(
        None,
        description="StudyMean: throughput is that of the measured point times workers over its workers times the mean "
        "efficiency that the study measured for the same workload and batch relative to as many workers; with workers. "
        "Absent: as it is.",
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!has(self.efficiency) || has(self.workers)",
            sentence="measuredBy.efficiency leads from measuredBy.workers to more workers: give workers, such as 1, or "
            "remove efficiency",
            field=".efficiency",
        ),
    )


class GpuPoolSpec(Value):
    """Where training can run: how to select the nodes, what one holds, what it costs."""

    capacity_type: CapacityType = Field(CapacityType.ON_DEMAND, description="How the nodes are rented.")
    on_demand_counterpart: Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.POOL_NAME)] | None = (
        Field(
            None,
            description="GpuPool of the same study that rents the same nodes on demand: what a spot pool saves is told "
            "against its price. It need not be run itself: give it measuredBy.",
        )
    )
    accelerator: str | None = Field(
        None,
        min_length=1,
        max_length=63,
        pattern=patterns.ASCII,
        description="What reports and metrics call the accelerator. Absent on CPUs.",
    )
    slots_per_node: int = Field(
        ge=1, le=64, description="Horovod ranks that one node holds: its GPUs, or shares of its CPUs."
    )
    max_nodes: int = Field(ge=1, le=1000, description="Nodes that this pool can have at most.")
    exclusive_nodes: bool = Field(
        True, description="No other trial runs on a node that measures; an attempt holds, and pays for, whole nodes."
    )
    slot: Slot = Field(description="What one Horovod rank asks for.")
    node_resources: dict[str, Quantity] = Field(
        default_factory=dict, max_length=16, description="What each pod asks for once, beside its slots."
    )
    scheduling: Scheduling = Field(Scheduling(), description="How the pods find the nodes.")
    template: Template = Field(Template(), description="Image and environment that this pool needs.")
    price: Price | None = Field(None, description="What a node costs. With neither price nor ownership: no cost.")
    ownership: Ownership | None = Field(None, description="What an own node costs. At most one of price, ownership.")
    scaling_baseline: Annotated[str, Field(min_length=1, max_length=63, pattern=patterns.POOL_NAME)] | None = Field(
        None,
        description="GpuPool of the same study whose smallest point is the base of this pool's scaling efficiency: the "
        "sibling with one GPU of a node with several. By default this pool itself.",
    )
    measured_by: MeasuredBy | None = Field(
        None, description="This pool is never run: its points are re-priced or extrapolated from another pool's."
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel="!(has(self.price) && has(self.ownership))",
            sentence="a pool is rented or owned: give price or ownership, not both",
        ),
        Rule(
            cel="!has(self.onDemandCounterpart) || self.capacityType in ['Spot', 'Preemptible']",
            sentence="onDemandCounterpart is what a spot pool is compared with: set capacityType to Spot or "
            "Preemptible, or remove it",
            field=".onDemandCounterpart",
        ),
        Rule(
            cel="!has(self.accelerator) || has(self.slot.gpuResource)",
            sentence="accelerator names a GPU, but no slot asks for one: "
            "give slot.gpuResource, such as nvidia.com/gpu, or remove accelerator",
            field=".accelerator",
        ),
        Rule(
            cel="!has(self.nodeResources) || self.nodeResources.all(key, "
            f"{patterns.matches('key', patterns.LABEL_KEY)})",
            sentence="nodeResources has a key that is no resource name: "
            "write a name such as ephemeral-storage or vpc.amazonaws.com/efa",
            field=".nodeResources",
        ),
        Rule(
            cel="!has(self.nodeResources) || !self.nodeResources.exists(key, key in ['cpu', 'memory'] || "
            "(has(self.slot.gpuResource) && key == self.slot.gpuResource))",
            sentence="nodeResources cannot name cpu, memory or the GPU resource: what a pod asks for of these follows "
            "from slot; remove them here",
            field=".nodeResources",
        ),
    )


class GpuPoolStatus(Value):
    """What the cluster shows of the pool."""

    nodes: int = Field(0, description="Nodes whose labels match.")
    ready_nodes: int = Field(0, description="Of these, nodes that are ready and take pods.")
    slots: int = Field(0, description="Slots of the ready nodes.")
    price_per_node_hour: str | None = Field(
        None,
        max_length=32,
        description="What a node costs in an hour, with its currency: from whichever form the price has, or from what "
        "was paid for an own node. Fees are not in it.",
    )
    fees_per_node_hour: str | None = Field(
        None, max_length=32, description="What fees per hour and per month add to that, where there are some."
    )
    price_range: str | None = Field(
        None, max_length=64, description="Lowest and highest price of a node for one hour in the time of price.range."
    )
    price_as_of: str | None = Field(None, max_length=10, description="Day on which the price was read.")
    conditions: tuple[Condition, ...] = Field(
        (),
        max_length=8,
        description="Ready: the pool has a ready node. PriceStale: its price was read more than 90 days ago.",
        json_schema_extra=rules.list_map("type"),
    )
    health: Health = Field(
        (),
        description="What the short tests before the trials of all studies have found here: what an attempt is held "
        "against when it ends.",
    )


class GpuPool(Value):
    """The object's content that planning needs: its name and its spec."""

    name: str
    spec: GpuPoolSpec

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            cel=f"size(self.metadata.name) <= {names.POOL_NAME_MAX}",
            sentence=f"metadata.name must have at most {names.POOL_NAME_MAX} characters, because it becomes a label",
            detail="this one has %d",
            values=("size(self.metadata.name)",),
            field=".metadata.name",
        ),
        Rule(
            cel=patterns.matches("self.metadata.name", patterns.POOL_NAME),
            sentence="metadata.name must hold only small letters, digits, - and ., and begin and end with a letter or "
            "digit; choose a name such as gke-a100-spot",
            field=".metadata.name",
        ),
        Rule(
            cel="!has(self.spec.measuredBy) || self.spec.measuredBy.pool != self.metadata.name",
            sentence="measuredBy.pool is this pool itself: name the pool that is measured, or remove measuredBy",
            field=".spec.measuredBy.pool",
        ),
        Rule(
            cel="!has(self.spec.onDemandCounterpart) || self.spec.onDemandCounterpart != self.metadata.name",
            sentence="onDemandCounterpart is this pool itself: name the pool of the same nodes at the price on demand",
            field=".spec.onDemandCounterpart",
        ),
    )
