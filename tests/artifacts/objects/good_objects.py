# SPDX-License-Identifier: Apache-2.0
"""GpuPools and GpuBenchmarks that are accepted."""

from object_forms import (
    ABSENT,
    CHECKPOINT,
    DYNAMIC,
    EUROS,
    GPU_SLOT,
    HALF,
    ONE_GOAL,
    OWN,
    OWNERSHIP,
    POWER,
    PRICE,
    RANGE,
    RESULTS,
    UNTIL,
    VOLUME,
    benchmark,
    block,
    changed,
    pool,
    training,
)

GOOD = (
    ("the least of a benchmark", benchmark()),
    ("a name of 40 characters", benchmark("a" * 40)),
    ("a base by pool and workers", benchmark(baseline={"pool": "cpu", "workers": 1})),
    (
        "a base by global batch",
        benchmark(sweep=[block(batchPerWorker=ABSENT, globalBatch=[64])], baseline={"globalBatch": 64}),
    ),
    (
        "a base by all else",
        benchmark(
            sweep=[block(), block(pools=["gpu"], variants=[DYNAMIC], precision=HALF)],
            baseline={"pool": "gpu", "variant": "dynamic", "precision": "mixed_float16", "batchPerWorker": 64},
        ),
    ),
    ("strong scaling", benchmark(sweep=[block(batchPerWorker=ABSENT, globalBatch=[128])])),
    ("weak and strong in two blocks", benchmark(sweep=[block(), block(batchPerWorker=ABSENT, globalBatch=[128])])),
    ("256 points", benchmark(sweep=[block(workers=list(range(1, 33)), batchPerWorker=[*range(1, 9)])])),
    (
        "2,560 trials",
        benchmark(
            sweep=[block(workers=list(range(1, 33)), batchPerWorker=[*range(1, 9)])], measure={"repeats": {"min": 10}}
        ),
    ),
    ("repeats until a precision is reached", benchmark(measure={"repeats": {"max": 10, "until": UNTIL}})),
    (
        "a precision at its bounds",
        benchmark(
            measure={"repeats": {"max": 20, "until": {"relativeHalfWidth": "0.001", "confidence": "0.999"}}},
        ),
    ),
    ("as many repeats at most as at least", benchmark(measure={"repeats": {"min": 1, "max": 1}})),
    ("no health check", benchmark(measure={"healthCheck": "Disabled"})),
    ("one window", benchmark(measure={"window": "60s", "duration": "1m"})),
    ("no warm-up", benchmark(measure={"warmUp": "0s"})),
    ("a null is an absent field", benchmark(template={"image": None}, limits=None)),
    ("a pool without price", pool()),
    ("a rented pool", pool(price=PRICE, accelerator="A100-40GB", slot=GPU_SLOT, capacityType="Spot")),
    (
        "GPUs by claims",
        pool(
            accelerator="GB200",
            template={"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "four-gpus"}]},
        ),
    ),
    (
        "one claim for the only pod",
        pool(maxNodes=1, template={"resourceClaims": [{"name": "gpus", "resourceClaimName": "mine"}]}),
    ),
    (
        "a claim of the benchmark's own",
        benchmark(template={"resourceClaims": [{"name": "network", "resourceClaimName": "fabric"}]}),
    ),
    ("a price per slot", pool(price=changed({**PRICE, "perSlotHour": "1"}, {"perNodeHour": ABSENT}))),
    (
        "a price per month",
        pool(price=changed({**PRICE, "perMonth": "99", "hoursPerMonth": 730}, {"perNodeHour": ABSENT})),
    ),
    (
        "a price of parts",
        pool(
            price={
                **changed(PRICE, {"perNodeHour": ABSENT}),
                "components": [{"name": "n1-standard-8", "perHour": "0.38"}, {"name": "V100", "perHour": "2.48"}],
            }
        ),
    ),
    (
        "a base without a variant",
        benchmark(sweep=[block(), block(variants=[{"name": "wire"}])], baseline={"variant": "none"}),
    ),
    (
        "a range from a day to its month",
        pool(price={**PRICE, "range": {"low": "1", "high": "20", "period": "2026-08-15/2026-08"}}),
    ),
    ("the power of its nodes", pool(power=POWER)),
    ("power of which little is known", pool(power={"asOf": "2026-11-01", "source": "nobody"})),
    (
        "a price with all that is paid",
        pool(
            capacityType="Spot",
            onDemandCounterpart="gke-a100",
            price={
                **PRICE,
                "hoursPerMonth": 730,
                "fees": [
                    {"name": "disk", "amount": "4.80", "per": "Month"},
                    {"name": "licence", "amount": "0.5", "per": "Hour"},
                    {"name": "start", "amount": "0", "per": "Run"},
                ],
                "setup": "25",
                "range": RANGE,
                "billing": {"incrementSeconds": 60, "minimumSeconds": 600},
            },
        ),
    ),
    (
        "components that just fit their range",
        pool(
            price={
                **changed(PRICE, {"perNodeHour": ABSENT}),
                "range": {**RANGE, "low": "22.88", "high": "22.88", "period": "2026-08-01/2026-10-31"},
                "components": [
                    {"name": "n1-standard-64", "perHour": "3.04"},
                    {"name": "V100", "perHour": "2.48", "count": 8},
                ],
            }
        ),
    ),
    (
        "a price by the slot that has moved",
        pool(price=changed({**PRICE, "perSlotHour": "9", "range": RANGE}, {"perNodeHour": ABSENT})),
    ),
    ("quantities as whole numbers", pool(slot={"cpu": 4, "memory": 8589934592}, price={**PRICE, "perNodeHour": 10})),
    ("nodes that cost nothing", pool(price={**PRICE, "perNodeHour": "0"})),
    ("a baseline", benchmark(compareTo={"benchmark": "last-week"})),
    ("a baseline with its tolerance", benchmark(compareTo={"benchmark": "last-week", "tolerance": "0.5"})),
    ("costs in one currency", benchmark(currency="USD", exchangeRates=[EUROS])),
    ("an owned pool", pool(ownership={**OWNERSHIP, "residual": "9000", "watts": 700, "idleWatts": 700})),
    (
        "a pool with everything about its nodes",
        pool(
            nodeResources={"vpc.amazonaws.com/efa": "4", "ephemeral-storage": "10Gi"},
            scheduling={
                "nodeSelector": {"cloud.google.com/gke-accelerator": "nvidia-tesla-a100", "empty": ""},
                "tolerations": [
                    {"operator": "Exists"},
                    {"key": "spot", "value": "true", "effect": "NoExecute", "tolerationSeconds": 5},
                ],
            },
            template={"image": "gpubench-jobs:dev", "imagePullPolicy": "Never", "env": [{"name": "A"}]},
        ),
    ),
    ("a pool's name with dots", pool("gke.a100")),
    ("a pool that another measures", pool(measuredBy={"pool": "other", "workers": 4, "efficiency": "StudyMean"})),
    (
        "volumes of every kind",
        benchmark(
            template={
                "volumes": [
                    VOLUME,
                    {"name": "models", "mountPath": "/models", "configMap": {"name": "my.models"}},
                    {**VOLUME, "name": "devices", "mountPath": "/device"},
                    {**VOLUME, "name": "below", "mountPath": "/data/tmp"},
                    {**VOLUME, "name": "dots", "mountPath": "/system/..data"},
                    {"name": "more", "mountPath": "/data/more", "persistentVolumeClaim": {"claimName": "runs"}},
                ]
            }
        ),
    ),
    ("records on a volume", benchmark(results={"volume": {"claimName": "runs"}})),
    ("records in a folder of a volume", benchmark(results={**RESULTS, "path": "_a.b/c-d/2026"})),
    ("checkpoints of a training", training(checkpoint=CHECKPOINT)),
    ("checkpoints at given times", training(checkpoint={**CHECKPOINT, "interval": "1m30s"})),
    ("checkpoints by a rate", training(checkpoint={**CHECKPOINT, "interruptionsPerHour": "0.00001"})),
    (
        "records beside a program that writes none",
        benchmark(
            sweep=[
                block(),
                block(workloads=["Custom"], custom={"name": "mine", "command": ["python", "-V"]}),
            ],
            results=RESULTS,
        ),
    ),
    (
        "dynamic loss scaling of mixed_float16",
        benchmark(sweep=[block(precision=["mixed_float16"], variants=[DYNAMIC, {"name": "fixed"}])]),
    ),
    ("a workload of one's own", benchmark(sweep=[block(workloads=["Custom"], custom=OWN)])),
    (
        "a program of one's own",
        benchmark(sweep=[block(workloads=["Custom"], custom={"name": "my_own.2", "command": ["python", "-V"]})]),
    ),
    (
        "training with everything about it",
        benchmark(
            sweep=[
                block(data={"source": "Generated", "samples": 1000}, epochs=2),
                block(data={"source": "Volume", "path": "/data/my set"}),
            ],
            measure={"mode": "Training", "timedRegion": {"evaluation": "Outside", "firstEpoch": "Excluded"}},
        ),
    ),
    (
        "goals for a workload of each kind",
        benchmark(
            sweep=[block(), block(workloads=["Custom"], custom=OWN)],
            goals=[
                {"name": "one", "workload": "mnist_cnn", "samples": 1},
                {"name": "other", "workload": "mine", "samples": 1},
            ],
        ),
    ),
    (
        "an objective with a deadline",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": 48}),
    ),
    (
        "an objective with a deadline of minutes",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": "0.25"}),
    ),
    (
        "an objective with a budget",
        benchmark(goals=[ONE_GOAL], currency="USD", objective={"minimize": "Time", "goal": "one", "maxCost": "12.50"}),
    ),
    (
        "an environment variable without a value",
        benchmark(sweep=[block(variants=[{"name": "plain", "env": [{"name": "NCCL_DEBUG"}]}])]),
    ),
    ("a region as by default", benchmark(measure={"timedRegion": {"evaluation": "Inside"}})),
    ("a drill", benchmark(drill={"every": "5s"})),
    ("a drill of some times", benchmark(drill={"every": "1m30s", "times": 500})),
    ("a drill that drains", benchmark(drill={"every": "90s", "kind": "Drain"})),
    ("a drill that drains for an hour", benchmark(drill={"every": "90s", "kind": "Drain", "cordonFor": "1h"})),
)
