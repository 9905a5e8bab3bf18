# SPDX-License-Identifier: Apache-2.0
"""GpuPools that are refused: slots, scheduling, prices, ownership."""

from object_forms import ABSENT, EUROS, GPU_SLOT, OWNERSHIP, POWER, PRICE, RANGE, VOLUME, Bad, benchmark, changed, pool

BAD_POOLS = (
    Bad(
        "efficiency from an unknown number of workers",
        pool(measuredBy={"pool": "other", "efficiency": "StudyMean"}),
        "spec.measuredBy.efficiency",
        "measuredBy.efficiency leads from measuredBy.workers to more workers: give workers, such as 1",
    ),
    Bad(
        "price without currency",
        pool(price=changed(PRICE, {"currency": ABSENT})),
        "spec.price.currency",
        "required, but absent. ISO 4217 code of the amount, such as USD",
        "Required value",
    ),
    Bad(
        "price without amount",
        pool(price=changed(PRICE, {"perNodeHour": ABSENT})),
        "spec.price",
        "price needs exactly one of perNodeHour (one node for one hour), perSlotHour (one slot of it), perMonth",
    ),
    Bad(
        "two prices",
        pool(price={**PRICE, "perSlotHour": "1.30"}),
        "spec.price",
        "price needs exactly one of perNodeHour",
    ),
    Bad(
        "a month of unknown use",
        pool(price={**changed(PRICE, {"perNodeHour": ABSENT}), "perMonth": "100"}),
        "spec.price",
        "price.perMonth and price.hoursPerMonth belong together",
    ),
    Bad(
        "hours of a month beside another price",
        pool(price={**PRICE, "hoursPerMonth": 730}),
        "spec.price",
        "price.perMonth and price.hoursPerMonth belong together",
    ),
    Bad(
        "the same component twice",
        pool(
            price={
                **changed(PRICE, {"perNodeHour": ABSENT}),
                "components": [{"name": "V100", "perHour": "2.48"}, {"name": "V100", "perHour": "0.38"}],
            }
        ),
        "spec.price.components[1]",
        "V100 stands here twice",
        'Duplicate value: {"name":"V100"}',
    ),
    Bad(
        "a negative price",
        pool(price={**PRICE, "perNodeHour": "-10.21"}),
        "spec.price.perNodeHour",
        'write a decimal number as text, such as "10.21"',
        server="in body should match",
    ),
    *(
        Bad(
            f"a {field} that is none",
            pool(price={**changed(PRICE, {"perNodeHour": ABSENT}), **form}),
            f"spec.price.{field}",
            f"price.{field} is more than {limit}, which is no price of {unit}: look at its unit and currency; it is "
            f"{form[field]}",
        )
        for field, form, limit, unit in (
            ("perNodeHour", {"perNodeHour": "10000001"}, 10_000_000, "an hour"),
            ("perSlotHour", {"perSlotHour": "999999999999"}, 10_000_000, "an hour"),
            ("perMonth", {"perMonth": "7440000001", "hoursPerMonth": 730}, 7_440_000_000, "a month"),
            ("setup", {"perNodeHour": "1", "setup": "7440000001"}, 7_440_000_000, "setting up nodes"),
        )
    ),
    *(
        Bad(
            f"an own node's {field} that is none",
            pool(ownership={**OWNERSHIP, field: figure}),
            f"spec.ownership.{field}",
            f"ownership.{field} is more than {limit}, which is no price of {unit}: look at its unit and currency; it "
            f"is {figure}",
        )
        for field, figure, limit, unit in (
            ("purchase", "7440000001", 7_440_000_000, "a node"),
            ("perMonth", "999999999999", 7_440_000_000, "a month"),
            ("perKilowattHour", "10000001", 10_000_000, "a kilowatt-hour"),
        )
    ),
    Bad(
        "a component that nobody pays",
        pool(
            price={
                **changed(PRICE, {"perNodeHour": ABSENT}),
                "components": [{"name": "V100", "perHour": "10000000.01"}],
            }
        ),
        "spec.price.components",
        "price.components has a perHour of more than 10000000, which is no price of an hour",
    ),
    Bad(
        "a negative fee",
        pool(price={**PRICE, "fees": [{"name": "disk", "amount": "-4.80", "per": "Run"}]}),
        "spec.price.fees[0].amount",
        'write a decimal number as text, such as "10.21"',
        server="in body should match",
    ),
    Bad(
        "a fee that nobody pays",
        pool(price={**PRICE, "fees": [{"name": "disk", "amount": "999999999999", "per": "Run"}]}),
        "spec.price.fees",
        "price.fees has an amount of more than 7440000000, which is no fee: look at its currency",
    ),
    Bad(
        "a fee of the week",
        pool(price={**PRICE, "fees": [{"name": "disk", "amount": "4.80", "per": "Week"}]}),
        "spec.price.fees[0].per",
        "'Week' is none of the possible values",
        'Unsupported value: "Week"',
    ),
    Bad(
        "the same fee twice",
        pool(price={**PRICE, "fees": [{"name": "disk", "amount": "1", "per": per} for per in ("Run", "Hour")]}),
        "spec.price.fees[1]",
        "disk stands here twice",
        'Duplicate value: {"name":"disk"}',
    ),
    Bad(
        "a fee of a month of unknown use",
        pool(price={**PRICE, "fees": [{"name": "disk", "amount": "4.80", "per": "Month"}]}),
        "spec.price",
        "so do a fee per Month and hoursPerMonth: say over how many hours of use the month is spread",
    ),
    Bad(
        "a range upside down",
        pool(price={**PRICE, "range": {**RANGE, "low": "12.41"}}),
        "spec.price.range.low",
        "price.range.low cannot be more than price.range.high: write the lowest and the highest price; low is 12.41, "
        "high 12.40",
    ),
    Bad(
        "a price out of its range",
        pool(price={**PRICE, "perNodeHour": "12.50", "range": RANGE}),
        "spec.price.range",
        "price.perNodeHour must lie within price.range, which is in the same unit; perNodeHour is 12.50, range from "
        "8.90 to 12.40",
    ),
    Bad(
        "components out of their range",
        pool(
            price={
                **changed(PRICE, {"perNodeHour": ABSENT}),
                "range": RANGE,
                "components": [{"name": "V100", "perHour": "2.48", "count": 8}],
            }
        ),
        "spec.price.range",
        "what price.components come to, each times its count, must lie within price.range",
    ),
    Bad(
        "a range of no time",
        pool(price={**PRICE, "range": {**RANGE, "period": "2026-13/2026-14"}}),
        "spec.price.range.period",
        "write the first and the last month or day, such as 2026-08/2026-10",
    ),
    Bad(
        "a discount in percent",
        pool(price={**PRICE, "discount": "30"}),
        "spec.price.discount",
        "price.discount is a share of the price, below 1: write 0.3 for 30 %",
    ),
    Bad(
        "a data centre that takes less than its machines",
        pool(power={**POWER, "pue": "0.9"}),
        "spec.power.pue",
        "power.pue is what the data centre takes over what its machines take: write a number from 1 to 5, such as 1.1",
    ),
    Bad(
        "a grid of kilograms",
        pool(power={**POWER, "gramsPerKilowattHour": "385000"}),
        "spec.power.gramsPerKilowattHour",
        "power.gramsPerKilowattHour is more than 5000, which no grid emits",
    ),
    Bad(
        "a range that ends before it begins",
        pool(price={**PRICE, "range": {**RANGE, "period": "2026-10/2026-08"}}),
        "spec.price.range.period",
        "price.range.period must not end before it begins: write the first day or month, then the last one",
    ),
    Bad(
        "a billing increment of nothing",
        pool(price={**PRICE, "billing": {"incrementSeconds": 0}}),
        "spec.price.billing.incrementSeconds",
        "0 is too little: at least 1 is needed",
        "should be greater than or equal to 1",
    ),
    Bad(
        "an own machine that nobody uses",
        pool(ownership={**OWNERSHIP, "hoursPerMonth": 0}),
        "spec.ownership.hoursPerMonth",
        "0 is too little: at least 1 is needed",
        "should be greater than or equal to 1",
    ),
    Bad(
        "an own machine in no currency",
        pool(ownership=changed(OWNERSHIP, {"currency": ABSENT})),
        "spec.ownership.currency",
        "required, but absent. ISO 4217 code of the amounts, such as USD",
        "Required value",
    ),
    Bad(
        "a counterpart of a pool that is no spot pool",
        pool(price=PRICE, onDemandCounterpart="gke-a100"),
        "spec.onDemandCounterpart",
        "onDemandCounterpart is what a spot pool is compared with: set capacityType to Spot or Preemptible, or remove",
    ),
    Bad(
        "a pool that is its own counterpart",
        pool("same", capacityType="Spot", onDemandCounterpart="same"),
        "spec.onDemandCounterpart",
        "onDemandCounterpart is this pool itself: name the pool of the same nodes at the price on demand",
    ),
    Bad(
        "price as a binary fraction",
        pool(price={**PRICE, "perNodeHour": 10.21}),
        "spec.price.perNodeHour",
        "10.21 stands where a whole number or text is expected: put it in quotes",
        "must be of type",
    ),
    Bad(
        "price in words",
        pool(price={**PRICE, "perNodeHour": "10,21"}),
        "spec.price.perNodeHour",
        'write a decimal number as text, such as "10.21"',
        server="in body should match",
    ),
    Bad(
        "no day of the calendar",
        pool(price={**PRICE, "asOf": "2026-02-30"}),
        "spec.price.asOf",
        "'2026-02-30' is no day of the calendar",
        'Invalid value: "2026-02-30"',
    ),
    *(
        Bad(
            f"a day before all calendars in {parent}",
            document,
            f"spec.{parent}.asOf",
            "'0000-01-01' is no day of the calendar, such as 2026-11-01",
            f"{parent.replace('[0]', '[]')}.asOf is no day of the calendar: write the day on which it was read",
        )
        for parent, document in (
            ("price", pool(price={**PRICE, "asOf": "0000-01-01"})),
            ("ownership", pool(ownership={**OWNERSHIP, "asOf": "0000-01-01"})),
            ("exchangeRates[0]", benchmark(currency="USD", exchangeRates=[{**EUROS, "asOf": "0000-01-01"}])),
        )
    ),
    Bad(
        "a day in the words of another calendar",
        pool(price={**PRICE, "asOf": "2026-W05-1"}),
        "spec.price.asOf",
        "'2026-W05-1' is no day of the calendar, such as 2026-11-01",
        'Invalid value: "2026-W05-1"',
    ),
    Bad(
        "a currency's sign",
        pool(price={**PRICE, "currency": "eur"}),
        "spec.price.currency",
        "write the three capital letters of ISO 4217, such as USD",
    ),
    Bad(
        "a residual value in words",
        pool(ownership={**OWNERSHIP, "residual": "1.000,00"}),
        "spec.ownership.residual",
        "write a decimal number as text",
        server="in body should match",
    ),
    Bad(
        "a label's value with a blank",
        pool(scheduling={"nodeSelector": {"pool": "a b"}}),
        "spec.scheduling.nodeSelector",
        "write letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ),
    Bad(
        "both price and ownership",
        pool(price=PRICE, ownership=OWNERSHIP),
        "spec",
        "a pool is rented or owned: give price or ownership, not both",
    ),
    Bad(
        "worth more used than new",
        pool(ownership={**OWNERSHIP, "residual": "9000.01"}),
        "spec.ownership.residual",
        "ownership.residual cannot be more than ownership.purchase: what is left is part of what was paid; residual is "
        "9000.01, purchase 9000",
    ),
    Bad(
        "more power idle than under load",
        pool(ownership={**OWNERSHIP, "idleWatts": 100}),
        "spec.ownership.idleWatts",
        "ownership.idleWatts cannot be more than ownership.watts: give the power under load too; idleWatts is 100, "
        "watts 0",
    ),
    Bad(
        "a month of 800 hours",
        pool(ownership={**OWNERSHIP, "hoursPerMonth": 800}),
        "spec.ownership.hoursPerMonth",
        "800 is too much: at most 744 is possible",
        "should be less than or equal to 744",
    ),
    Bad(
        "an accelerator that no slot asks for",
        pool(accelerator="A100-40GB"),
        "spec.accelerator",
        "accelerator names a GPU, but no slot asks for one: give slot.gpuResource, such as nvidia.com/gpu, or "
        "template.resourceClaims, or remove accelerator",
    ),
    Bad(
        "a claim of neither kind",
        pool(template={"resourceClaims": [{"name": "gpus"}]}),
        "spec.template.resourceClaims[0]",
        "a resource claim needs exactly one of resourceClaimTemplateName and resourceClaimName",
    ),
    Bad(
        "a claim by the name of no object",
        pool(template={"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "Four GPUs"}]}),
        "spec.template.resourceClaims[0].resourceClaimTemplateName",
        "write the name of an object of Kubernetes",
    ),
    Bad(
        "one claim for pods on several nodes",
        pool(maxNodes=2, template={"resourceClaims": [{"name": "gpus", "resourceClaimName": "mine"}]}),
        "spec.template.resourceClaims",
        "resourceClaimName is one claim, and pods that share it would share its devices: set maxNodes to 1 and "
        "exclusiveNodes to true, or use resourceClaimTemplateName",
    ),
    Bad(
        "one claim for pods on one node",
        pool(
            maxNodes=1,
            exclusiveNodes=False,
            template={"resourceClaims": [{"name": "gpus", "resourceClaimName": "mine"}]},
        ),
        "spec.template.resourceClaims",
        "resourceClaimName is one claim, and pods that share it would share its devices: set maxNodes to 1 and "
        "exclusiveNodes to true, or use resourceClaimTemplateName",
    ),
    Bad(
        "no processor",
        pool(slot={"cpu": "0.0", "memory": "1Gi"}),
        "spec.slot.cpu",
        "slot.cpu must be more than 0",
    ),
    Bad(
        "no memory",
        pool(slot={"cpu": "1", "memory": "0Gi"}),
        "spec.slot.memory",
        "slot.memory must be more than 0",
    ),
    Bad(
        "memory in words",
        pool(slot={"cpu": "1", "memory": "1 GB"}),
        "spec.slot.memory",
        'write a quantity, such as "4", 80Gi or 1536Mi',
        server="in body should match",
    ),
    Bad(
        "processors outside the slot",
        pool(nodeResources={"cpu": "4"}),
        "spec.nodeResources",
        "nodeResources cannot name cpu, memory or the GPU resource",
    ),
    Bad(
        "GPUs outside the slot",
        pool(slot=GPU_SLOT, nodeResources={"nvidia.com/gpu": "8"}),
        "spec.nodeResources",
        "nodeResources cannot name cpu, memory or the GPU resource",
    ),
    Bad(
        "a resource without name",
        pool(nodeResources={"an efa": "4"}),
        "spec.nodeResources",
        "nodeResources has a key that is no resource name",
    ),
    Bad(
        "a selector that no label can match",
        pool(scheduling={"nodeSelector": {"pool=a": "b"}}),
        "spec.scheduling.nodeSelector",
        "nodeSelector has a key that is no label key",
    ),
    Bad(
        "a toleration with a value too many",
        pool(scheduling={"tolerations": [{"key": "spot", "operator": "Exists", "value": "true"}]}),
        "spec.scheduling.tolerations[0]",
        "a toleration with operator Exists has no value: remove value, or use operator Equal",
    ),
    Bad(
        "a toleration of nothing",
        pool(scheduling={"tolerations": [{"value": "true"}]}),
        "spec.scheduling.tolerations[0]",
        "a toleration without key needs operator Exists",
    ),
    Bad(
        "a toleration for a while of what does not evict",
        pool(scheduling={"tolerations": [{"key": "spot", "tolerationSeconds": 5, "effect": "NoSchedule"}]}),
        "spec.scheduling.tolerations[0]",
        "tolerationSeconds goes with effect NoExecute only",
    ),
    Bad(
        "an unknown kind of capacity",
        pool(capacityType="spot"),
        "spec.capacityType",
        "did you mean Spot?",
        'Unsupported value: "spot"',
    ),
    Bad(
        "a volume of two kinds",
        pool(template={"volumes": [{**VOLUME, "configMap": {"name": "files"}}]}),
        "spec.template.volumes[0]",
        "a volume needs exactly one of persistentVolumeClaim, configMap and hostPath",
    ),
    Bad(
        "an accelerator in another script",
        pool(slot=GPU_SLOT, accelerator="加速器"),
        "spec.accelerator",
        "write letters, digits, spaces and signs of ASCII, such as A100-40GB",
    ),
    *(
        Bad(
            f"a volume at {where}",
            pool(template={"volumes": [{**VOLUME, "mountPath": where}]}),
            "spec.template.volumes[0].mountPath",
            "volumes[].mountPath must be an absolute path, not / and not in /dev, /proc, /sys or /tmp",
        )
        for where in (
            *("/", "data", "/data/", "//data", "/data:ro", "/data/..", "/data/../dev", "/./tmp"),
            *("/dev", "/dev/shm", "/dev/termination-log", "/proc", "/proc/1", "/sys", "/sys/fs/cgroup"),  # noqa: S108
            *("/tmp", "/tmp/data"),  # noqa: S108  # paths in a pod
        )
    ),
    Bad(
        "a volume by a pod's own name",
        pool(template={"volumes": [{**VOLUME, "name": "shm"}]}),
        "spec.template.volumes[0].name",
        "volumes[].name tmp, shm, gpubench-results and gpubench-checkpoints are the pods' own volumes: choose",
    ),
    Bad(
        "two volumes at one place",
        pool(template={"volumes": [VOLUME, {**VOLUME, "name": "other"}]}),
        "spec.template.volumes",
        "two volumes have the same mountPath: give each its own",
    ),
    Bad(
        "a folder of the node that goes up",
        pool(template={"volumes": [{**VOLUME, "hostPath": {"path": "/srv/../etc"}}]}),
        "spec.template.volumes[0].hostPath.path",
        "hostPath.path cannot go up by ..",
    ),
    Bad(
        "no name of a claim",
        pool(template={"volumes": [{"name": "d", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "My"}}]}),
        "spec.template.volumes[0].persistentVolumeClaim.claimName",
        "write the name of an object of Kubernetes",
    ),
    Bad(
        "a pool that measures itself",
        pool(measuredBy={"pool": "place"}),
        "spec.measuredBy.pool",
        "measuredBy.pool is this pool itself: name the pool that is measured, or remove measuredBy",
    ),
    Bad(
        "a pool's name too long",
        pool("a" * 64),
        "metadata.name",
        "metadata.name must have at most 63 characters, because it becomes a label; this one has 64",
    ),
)
