# SPDX-License-Identifier: Apache-2.0
"""Good and bad objects: the API server and `validate` agree on each, and a bad one is refused with a sentence.

Rules across fields are written once, so both must say exactly the same; about types and bounds the API server has its
own words (`server`), and `validate` has better ones.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from cluster import ApiError, Cluster
from gpubench import names, workloads
from gpubench.api import schema, validate

BENCHMARKS = f"/apis/{names.API_VERSION}/namespaces/default/{names.BENCHMARK_PLURAL}"
POOLS = f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}"
STRICT_DRY_RUN = "?dryRun=All&fieldValidation=Strict"

ABSENT = object()  # in a change: the field is taken out


def block(**changes: Any) -> dict[str, Any]:
    fields = {"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [1, 2], "batchPerWorker": [64]}
    return changed(fields, changes)


def benchmark(name: str = "study", **changes: Any) -> dict[str, Any]:
    spec = changed({"sweep": [block()]}, changes)
    return {"apiVersion": names.API_VERSION, "kind": "GpuBenchmark", "metadata": {"name": name}, "spec": spec}


def pool(name: str = "place", **changes: Any) -> dict[str, Any]:
    spec = changed({"slotsPerNode": 1, "maxNodes": 2, "slot": {"cpu": "1", "memory": "1Gi"}}, changes)
    return {"apiVersion": names.API_VERSION, "kind": "GpuPool", "metadata": {"name": name}, "spec": spec}


def changed(fields: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in {**fields, **changes}.items() if value is not ABSENT}


EUROS = {"from": "EUR", "rate": "1.228", "asOf": "2018-02-28", "source": "an example"}
UNTIL = {"relativeHalfWidth": "0.02"}
ONE_GOAL = {"name": "one", "workload": "mnist_cnn", "samples": 60000}
PRICE = {"perNodeHour": "10.21", "currency": "USD", "asOf": "2026-11-01"}
RANGE = {"low": "8.90", "high": "12.40", "period": "2026-08/2026-10"}
OWNERSHIP = {"purchase": "9000", "lifetimeMonths": 36, "hoursPerMonth": 200, "currency": "EUR", "asOf": "2026-11-01"}
GPU_SLOT = {"gpuResource": "nvidia.com/gpu", "cpu": "11", "memory": "80Gi"}
VOLUME = {"name": "data", "mountPath": "/data", "hostPath": {"path": "/srv/data"}}
RESULTS = {"volume": {"claimName": "runs"}, "path": "team-a/studies"}
OWN = {"name": "mine", "file": "/models/mine.py"}
LONG_VARIANTS = [{"name": f"long-{index}", "env": [{"name": "A", "value": "x" * 4000}]} for index in range(5)]
DYNAMIC = {"name": "dynamic", "lossScaling": "Dynamic"}


class Bad(NamedTuple):
    """An object that is refused: the field that is blamed, and words of the sentence."""

    title: str
    document: dict[str, Any]
    field: str
    sentence: str
    server: str | None = None  # the API server's own words, where no rule of ours speaks


BAD = (
    *(
        Bad(
            f"a budget of {budget}",
            benchmark(limits={"budget": budget}),
            "spec.limits.budget",
            "limits.budget must be more than 0: write what the study may cost, such as 40.00, or remove it",
        )
        for budget in ("0", "0.00")
    ),
    Bad(
        "a budget with its currency",
        benchmark(limits={"budget": "40 USD"}),
        "spec.limits.budget",
        "write a decimal number as text",
    ),
    Bad(
        "five goals of one workload",
        benchmark(goals=[{"name": f"goal-{n}", "workload": "mnist_cnn", "samples": 60000} for n in range(5)]),
        "spec.goals",
        "spec.goals can have at most 4 goals for each workload",
    ),
    Bad(
        "goal of messages",
        benchmark(
            sweep=[block(workloads=["allreduce"], workers=[2])],
            goals=[{"name": "all", "workload": "allreduce", "samples": 60000}],
        ),
        "spec.goals[0].workload",
        "goals[].workload cannot be allreduce, which sends messages and trains nothing",
    ),
    Bad(
        "a study that is its own baseline",
        benchmark(compareTo={"benchmark": "study"}),
        "spec.compareTo.benchmark",
        "spec.compareTo.benchmark is this benchmark itself: name another one, which has finished",
    ),
    Bad(
        "a baseline without a name",
        benchmark(compareTo={"tolerance": "0.05"}),
        "spec.compareTo.benchmark",
        "required, but absent",
        "Required value",
    ),
    Bad(
        "a baseline that no benchmark can be called",
        benchmark(compareTo={"benchmark": "Last Week"}),
        "spec.compareTo.benchmark",
        "write the name of an object of Kubernetes",
    ),
    *(
        Bad(
            f"a tolerance of {tolerance}",
            benchmark(compareTo={"benchmark": "last-week", "tolerance": tolerance}),
            "spec.compareTo.tolerance",
            f"compareTo.tolerance must be from 0.001 to 0.5, such as 0.05 for 5 %; it is {tolerance}",
        )
        for tolerance in ("0", "0.0009", "0.51", "5")
    ),
    Bad(
        "a tolerance in percent",
        benchmark(compareTo={"benchmark": "last-week", "tolerance": "5%"}),
        "spec.compareTo.tolerance",
        "write a decimal number as text",
    ),
    Bad(
        "efficiency from an unknown number of workers",
        pool(measuredBy={"pool": "other", "efficiency": "StudyMean"}),
        "spec.measuredBy.efficiency",
        "measuredBy.efficiency leads from measuredBy.workers to more workers: give workers, such as 1",
    ),
    Bad(
        "unknown workload",
        benchmark(sweep=[block(workloads=["resnet51"])]),
        "spec.sweep[0].workloads[0]",
        "did you mean resnet50?",
        'Unsupported value: "resnet51": supported values: '
        + ", ".join(f'"{name}"' for name in (*workloads.NAMES, "Custom")),
    ),
    Bad(
        "unknown precision",
        benchmark(sweep=[block(precision=["fp16"])]),
        "spec.sweep[0].precision[0]",
        "choose one of float32, tensor_float32, mixed_float16, mixed_bfloat16",
        'Unsupported value: "fp16"',
    ),
    Bad(
        "no pool",
        benchmark(sweep=[block(pools=[])]),
        "spec.sweep[0].pools",
        "0 entries is too little: at least 1 is needed",
        "should have at least 1 items",
    ),
    Bad(
        "pools left out",
        benchmark(sweep=[block(pools=ABSENT)]),
        "spec.sweep[0].pools",
        "required, but absent. Names of GpuPools to run on",
        "Required value",
    ),
    Bad(
        "empty sweep",
        benchmark(sweep=[]),
        "spec.sweep",
        "at least 1 is needed",
        "should have at least 1 items",
    ),
    Bad("no sweep", benchmark(sweep=ABSENT), "spec.sweep", "required, but absent", "Required value"),
    Bad(
        "batch 0",
        benchmark(sweep=[block(batchPerWorker=[0])]),
        "spec.sweep[0].batchPerWorker[0]",
        "0 is too little: at least 1 is needed",
        "should be greater than or equal to 1",
    ),
    Bad(
        "no workers",
        benchmark(sweep=[block(workers=[0])]),
        "spec.sweep[0].workers[0]",
        "0 is too little",
        "should be greater than or equal to 1",
    ),
    Bad(
        "workers as text",
        benchmark(sweep=[block(workers=["2"])]),
        "spec.sweep[0].workers[0]",
        "'2' stands where a whole number is expected: write it without quotes",
        'must be of type integer: "string"',
    ),
    Bad(
        "workers twice",
        benchmark(sweep=[block(workers=[2, 2])]),
        "spec.sweep[0].workers[1]",
        "2 stands here twice: remove one of them",
        "Duplicate value: 2",
    ),
    Bad(
        "both batches",
        benchmark(sweep=[block(globalBatch=[128])]),
        "spec.sweep[0]",
        "a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling); this one has both",
    ),
    Bad(
        "no batch",
        benchmark(sweep=[block(batchPerWorker=ABSENT)]),
        "spec.sweep[0]",
        "a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling); this one has "
        "neither",
    ),
    Bad(
        "second block without batch",
        benchmark(sweep=[block(), block(batchPerWorker=ABSENT)]),
        "spec.sweep[1]",
        "this one has neither",
    ),
    Bad(
        "257 points over two blocks",
        benchmark(sweep=[block(workers=list(range(1, 33)), batchPerWorker=[*range(1, 9)]), block(workers=[33])]),
        "spec.sweep",
        "the blocks of spec.sweep can name at most 256 points in all: shorten the lists, or make several studies of "
        "them; they name 257",
    ),
    Bad(
        "environments of 40,000 characters",
        benchmark(sweep=[block(variants=LONG_VARIANTS), block(variants=LONG_VARIANTS)]),
        "spec.sweep",
        "the variants' env and the custom commands of spec.sweep can have at most 32768 characters in all: put long "
        "texts into a file that a volume brings, or make several studies; they have 40010",
    ),
    Bad(
        "commands of 32,769 characters",
        benchmark(sweep=[block(workloads=["Custom"], custom={"name": "mine", "command": ["x"] + ["y" * 1024] * 32})]),
        "spec.sweep",
        "they have 32769",
    ),
    Bad(
        "10,000 trials",
        benchmark(
            sweep=[block(workers=list(range(1, 26)), batchPerWorker=[*range(1, 11)], pools=["a", "b"])],
            measure={"repeats": {"min": 20}},
        ),
        "spec.sweep",
        "points times measure.repeats.max (min, where there is no max) can be at most 2560 trials: shorten the lists "
        "of spec.sweep, or repeat less; they make 10000",
    ),
    Bad(
        "2,816 trials at most",
        benchmark(
            sweep=[block(workers=list(range(1, 33)), batchPerWorker=[*range(1, 9)])],
            measure={"repeats": {"min": 3, "max": 11, "until": UNTIL}},
        ),
        "spec.sweep",
        "they make 2816",
    ),
    Bad(
        "fewer repeats at most than at least",
        benchmark(measure={"repeats": {"min": 5, "max": 4, "until": UNTIL}}),
        "spec.measure.repeats.max",
        "measure.repeats.max cannot be less than measure.repeats.min: raise max, or lower min; max is 4, min 5",
    ),
    Bad(
        "more repeats for no reason",
        benchmark(measure={"repeats": {"min": 3, "max": 4}}),
        "spec.measure.repeats.max",
        "measure.repeats.max beyond min needs measure.repeats.until, which says when to stop: give it, or set min to "
        "the number that you want",
    ),
    Bad(
        "repeats that have nothing to stop",
        benchmark(measure={"repeats": {"min": 3, "until": UNTIL}}),
        "spec.measure.repeats.until",
        "measure.repeats.until needs measure.repeats.max greater than min: otherwise there is nothing to stop",
    ),
    Bad(
        "precision of two runs",
        benchmark(measure={"repeats": {"min": 2, "max": 4, "until": UNTIL}}),
        "spec.measure.repeats.min",
        "measure.repeats.until needs measure.repeats.min of at least 3: fewer runs have no interval; min is 2",
    ),
    Bad(
        "more precision than can be had",
        benchmark(measure={"repeats": {"max": 9, "until": {"relativeHalfWidth": "0.0005"}}}),
        "spec.measure.repeats.until.relativeHalfWidth",
        "measure.repeats.until.relativeHalfWidth must be from 0.001 to 0.5, such as 0.02, for ±2 %; it is 0.0005",
    ),
    Bad(
        "no precision",
        benchmark(measure={"repeats": {"max": 9, "until": {"relativeHalfWidth": "2"}}}),
        "spec.measure.repeats.until.relativeHalfWidth",
        "must be from 0.001 to 0.5, such as 0.02, for ±2 %; it is 2",
    ),
    Bad(
        "precision in percent",
        benchmark(measure={"repeats": {"max": 9, "until": {"relativeHalfWidth": "2 %"}}}),
        "spec.measure.repeats.until.relativeHalfWidth",
        'write a decimal number as text, such as "10.21"',
    ),
    Bad(
        "certainty",
        benchmark(measure={"repeats": {"max": 9, "until": {**UNTIL, "confidence": "1"}}}),
        "spec.measure.repeats.until.confidence",
        "measure.repeats.until.confidence must be from 0.5 to 0.999, such as 0.95; it is 1",
    ),
    Bad(
        "half a health check",
        benchmark(measure={"healthCheck": "Sometimes"}),
        "spec.measure.healthCheck",
        "choose one of Enabled, Disabled",
        'Unsupported value: "Sometimes"',
    ),
    Bad(
        "too many repeats",
        benchmark(measure={"repeats": {"min": 21}}),
        "spec.measure.repeats.min",
        "21 is too much: at most 20 is possible",
        "should be less than or equal to 20",
    ),
    Bad(
        "no repeats",
        benchmark(measure={"repeats": {"min": 0}}),
        "spec.measure.repeats.min",
        "0 is too little",
        "should be greater than or equal to 1",
    ),
    Bad(
        "a duration in words",
        benchmark(measure={"duration": "10 seconds"}),
        "spec.measure.duration",
        "write hours, minutes and seconds, such as 1h30m, 15m or 90s",
    ),
    Bad(
        "a duration as number",
        benchmark(measure={"duration": 10}),
        "spec.measure.duration",
        "10 stands where text is expected: put it in quotes",
        'must be of type string: "integer"',
    ),
    Bad(
        "a window of nothing",
        benchmark(measure={"window": "0s"}),
        "spec.measure.window",
        "measure.window must be longer than 0s",
    ),
    Bad(
        "a window longer than the measurement",
        benchmark(measure={"window": "2m", "duration": "90s"}),
        "spec.measure.window",
        "measure.window cannot be longer than measure.duration: a trial holds at least one window; window is 2m, "
        "duration 90s",
    ),
    Bad(
        "time for scheduling is zero",
        benchmark(limits={"schedulingTimeout": "0m"}),
        "spec.limits.schedulingTimeout",
        "limits.schedulingTimeout must be longer than 0s",
    ),
    Bad(
        "an attempt shorter than its measurement",
        benchmark(limits={"attemptTimeout": "1m"}),
        "spec.limits.attemptTimeout",
        "limits.attemptTimeout must be longer than measure.warmUp and measure.duration together: otherwise no attempt "
        "could finish; attemptTimeout is 1m, warmUp 10s, duration 60s",
    ),
    Bad(
        "misspelt field",
        benchmark(sweep=[block(batchPerWorkers=[64])]),
        "spec.sweep[0].batchPerWorkers",
        "unknown field: did you mean batchPerWorker?",
        'strict decoding error: unknown field "spec.sweep[0].batchPerWorkers"',
    ),
    Bad(
        "a field in snake case",
        benchmark(sweep=[block(batch_per_worker=[64])]),
        "spec.sweep[0].batch_per_worker",
        "unknown field: did you mean batchPerWorker?",
        'strict decoding error: unknown field "spec.sweep[0].batch_per_worker"',
    ),
    Bad(
        "name too long",
        benchmark("a" * 41),
        "metadata.name",
        "metadata.name must have at most 40 characters, because the names of its pods begin with it; this one has 41",
    ),
    Bad(
        "name with a dot",
        benchmark("three.cnns"),
        "metadata.name",
        "metadata.name must begin with a letter and hold only small letters, digits and -",
    ),
    Bad(
        "name that begins with a digit",
        benchmark("3-cnns"),
        "metadata.name",
        "metadata.name must begin with a letter",
    ),
    Bad(
        "an environment variable twice",
        benchmark(template={"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}),
        "spec.template.env[1]",
        "A stands here twice",
        'Duplicate value: {"name":"A"}',
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
        "exchange rates into nothing",
        benchmark(exchangeRates=[EUROS]),
        "spec.exchangeRates",
        "exchangeRates lead into spec.currency: give it",
    ),
    Bad(
        "an exchange rate of a currency into itself",
        benchmark(currency="EUR", exchangeRates=[EUROS]),
        "spec.exchangeRates",
        "exchangeRates[].from is spec.currency itself",
    ),
    Bad(
        "two rates of one currency",
        benchmark(currency="USD", exchangeRates=[EUROS, {**EUROS, "rate": "1.24"}]),
        "spec.exchangeRates[1]",
        "EUR stands here twice",
        'Duplicate value: {"from":"EUR"}',
    ),
    Bad(
        "an exchange rate of too many digits",
        benchmark(currency="USD", exchangeRates=[{**EUROS, "rate": "10000001"}]),
        "spec.exchangeRates[0].rate",
        "exchangeRates[].rate is more than 10000000, which no currency is worth",
    ),
    Bad(
        "a worthless currency",
        benchmark(currency="USD", exchangeRates=[{**EUROS, "rate": "0.00"}]),
        "spec.exchangeRates[0].rate",
        "exchangeRates[].rate must be more than 0",
    ),
    Bad(
        "price as a binary fraction",
        pool(price={**PRICE, "perNodeHour": 10.21}),
        "spec.price.perNodeHour",
        "10.21 stands where text is expected: put it in quotes",
        'must be of type string: "number"',
    ),
    Bad(
        "price in words",
        pool(price={**PRICE, "perNodeHour": "10,21"}),
        "spec.price.perNodeHour",
        'write a decimal number as text, such as "10.21"',
    ),
    Bad(
        "no day of the calendar",
        pool(price={**PRICE, "asOf": "2026-02-30"}),
        "spec.price.asOf",
        "'2026-02-30' is no day of the calendar",
        'Invalid value: "2026-02-30"',
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
        "an empty duration",
        benchmark(limits={"attemptTimeout": "hh"}),
        "spec.limits.attemptTimeout",
        "write hours, minutes and seconds",
    ),
    Bad(
        "a residual value in words",
        pool(ownership={**OWNERSHIP, "residual": "1.000,00"}),
        "spec.ownership.residual",
        "write a decimal number as text",
    ),
    Bad(
        "a label's value with a blank",
        pool(scheduling={"nodeSelector": {"pool": "a b"}}),
        "spec.scheduling.nodeSelector",
        "write letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ),
    Bad(
        "no name of a pool",
        benchmark(sweep=[block(pools=["GKE"])]),
        "spec.sweep[0].pools[0]",
        "write the name of a GpuPool: small letters, digits, - and .",
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
        "accelerator names a GPU, but no slot asks for one: give slot.gpuResource",
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
        "a path without a volume's data",
        benchmark(sweep=[block(data={"path": "/data"})]),
        "spec.sweep[0].data",
        "data.path is the folder of the real files: give it with source Volume, and with no other source",
    ),
    Bad(
        "a volume's data without a path",
        benchmark(sweep=[block(data={"source": "Volume"})]),
        "spec.sweep[0].data",
        "data.path is the folder of the real files: give it with source Volume, and with no other source",
    ),
    Bad(
        "a relative path",
        benchmark(sweep=[block(data={"source": "Volume", "path": "data/mnist"})]),
        "spec.sweep[0].data.path",
        "write an absolute path, such as /data/mnist",
    ),
    Bad(
        "a size of synthetic data",
        benchmark(sweep=[block(data={"samples": 1000})]),
        "spec.sweep[0].data",
        "data.samples is the size of a generated set: give it with source Generated only",
    ),
    Bad(
        "a variant twice",
        benchmark(sweep=[block(variants=[{"name": "a"}, {"name": "a", "xla": True}])]),
        "spec.sweep[0].variants[1]",
        "a stands here twice",
        'Duplicate value: {"name":"a"}',
    ),
    Bad(
        "a variant's name with a blank",
        benchmark(sweep=[block(variants=[{"name": "fp16 wire"}])]),
        "spec.sweep[0].variants[0].name",
        "write small letters, digits, -, _ and ., beginning and ending with a letter or digit",
    ),
    Bad(
        "dynamic loss scaling of float32",
        benchmark(sweep=[block(precision=["float32", "mixed_float16"], variants=[DYNAMIC])]),
        "spec.sweep[0].variants",
        "lossScaling Dynamic is for mixed_float16: set precision to [mixed_float16], and put other precisions into "
        "another block",
    ),
    Bad(
        "Custom without custom",
        benchmark(sweep=[block(workloads=["Custom"])]),
        "spec.sweep[0]",
        "workloads: [Custom] and custom belong together: give both, and other workloads in another block",
    ),
    Bad(
        "custom beside another workload",
        benchmark(sweep=[block(workloads=["Custom", "mnist_cnn"], custom=OWN)]),
        "spec.sweep[0]",
        "workloads: [Custom] and custom belong together",
    ),
    Bad(
        "neither file nor command",
        benchmark(sweep=[block(workloads=["Custom"], custom={"name": "mine"})]),
        "spec.sweep[0].custom",
        "custom needs exactly one of file (a Python file with build()) and command (a program of its own)",
    ),
    Bad(
        "an own workload by the name of another",
        benchmark(sweep=[block(workloads=["Custom"], custom={**OWN, "name": "resnet50"})]),
        "spec.sweep[0].custom.name",
        "custom.name is the name of a workload of gpubench: choose another one",
    ),
    Bad(
        "epochs of a throughput",
        benchmark(sweep=[block(epochs=2)]),
        "spec.sweep",
        "sweep[].epochs needs measure.mode Training: set the mode, or remove epochs",
    ),
    Bad(
        "training on noise",
        benchmark(measure={"mode": "Training"}),
        "spec.sweep",
        "measure.mode Training needs data that can be learned: set sweep[].data.source to Generated or Volume",
    ),
    Bad(
        "a timed region of a throughput",
        benchmark(measure={"timedRegion": {"evaluation": "Outside"}}),
        "spec.measure.timedRegion",
        "measure.timedRegion needs measure.mode Training: set the mode, or remove timedRegion",
    ),
    Bad(
        "one epoch without its first",
        benchmark(
            sweep=[block(data={"source": "Generated"}, epochs=1)],
            measure={"mode": "Training", "timedRegion": {"firstEpoch": "Excluded"}},
        ),
        "spec.sweep",
        "measure.timedRegion.firstEpoch Excluded leaves nothing of 1 epoch: give sweep[].epochs 2 or more",
    ),
    Bad(
        "an objective without its goal",
        benchmark(objective={"minimize": "Cost", "goal": "imagenet"}),
        "spec.objective.goal",
        "objective.goal is the name of one of spec.goals: name one of them, or add the goal",
    ),
    Bad(
        "an objective of another goal",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "other"}),
        "spec.objective.goal",
        "objective.goal is the name of one of spec.goals: name one of them, or add the goal",
    ),
    Bad(
        "a deadline for the least time",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Time", "goal": "one", "maxHours": 48}),
        "spec.objective.maxHours",
        "objective.maxHours is the limit of minimize Cost",
    ),
    Bad(
        "a bound of the least cost",
        benchmark(goals=[ONE_GOAL], currency="USD", objective={"minimize": "Cost", "goal": "one", "maxCost": "5"}),
        "spec.objective.maxCost",
        "objective.maxCost is the limit of minimize Time",
    ),
    Bad(
        "nothing to spend",
        benchmark(goals=[ONE_GOAL], currency="USD", objective={"minimize": "Time", "goal": "one", "maxCost": "0.00"}),
        "spec.objective.maxCost",
        "objective.maxCost must be more than 0: write what may be spent, such as 500, or remove it",
    ),
    Bad(
        "an amount without a currency",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Time", "goal": "one", "maxCost": "5"}),
        "spec.objective.maxCost",
        "objective.maxCost is an amount in spec.currency: give currency, such as USD",
    ),
    Bad(
        "a deadline of no time",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": 0}),
        "spec.objective.maxHours",
        "0 is too little: at least 0.01 is needed",
        server="objective.maxHours must be more than 0: write the hours that there are",
    ),
    Bad(
        "a deadline of seconds",
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": 0.001}),
        "spec.objective.maxHours",
        "0.01",
    ),
    Bad(
        "a goal of a workload that is not there",
        benchmark(goals=[{"name": "imagenet", "workload": "resnet50", "samples": 1_281_167}]),
        "spec.goals",
        "goals[].workload is a workload of the sweep: name one of them, or remove the goal",
    ),
    Bad(
        "257 points by variants",
        benchmark(
            sweep=[
                block(
                    workers=list(range(1, 33)),
                    batchPerWorker=[1, 2, 3],
                    variants=[{"name": "a"}, {"name": "b"}, {"name": "c"}],
                )
            ]
        ),
        "spec.sweep",
        "they name 288",
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
        "volumes[].name tmp, shm and gpubench-results are the pods' own volumes: choose another name",
    ),
    Bad(
        "a volume by the name of the results volume",
        benchmark(template={"volumes": [{**VOLUME, "name": "gpubench-results"}]}),
        "spec.template.volumes[0].name",
        "volumes[].name tmp, shm and gpubench-results are the pods' own volumes: choose another name",
    ),
    *(
        Bad(
            f"records in {where}",
            benchmark(results={**RESULTS, "path": where}),
            "spec.results.path",
            "write a folder below the volume's own, such as team-a/studies",
        )
        for where in ("/runs", "../runs", "runs/../..", "./runs", "runs/", "runs//a", "my runs", ".hidden")
    ),
    Bad(
        "records without a volume",
        benchmark(results={"path": "runs"}),
        "spec.results.volume",
        "required, but absent",
        "Required value",
    ),
    Bad(
        "records of programs that write none",
        benchmark(
            sweep=[block(workloads=["Custom"], custom={"name": "mine", "command": ["python", "-V"]})], results=RESULTS
        ),
        "spec.results",
        "spec.results keeps the records of gpubench's own launcher, which custom.command replaces: remove results",
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

GOOD = (
    ("the least of a benchmark", benchmark()),
    ("a name of 40 characters", benchmark("a" * 40)),
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
        benchmark(goals=[ONE_GOAL], objective={"minimize": "Cost", "goal": "one", "maxHours": 0.25}),
    ),
    (
        "an objective with a budget",
        benchmark(goals=[ONE_GOAL], currency="USD", objective={"minimize": "Time", "goal": "one", "maxCost": "12.50"}),
    ),
    ("a region as by default", benchmark(measure={"timedRegion": {"evaluation": "Inside"}})),
)

KINDS = {kind.kind: kind for kind in schema.KINDS}


def collection(document: Mapping[str, Any]) -> str:
    return POOLS if document["kind"] == "GpuPool" else BENCHMARKS


def words(refusal: ApiError) -> str:
    """What kubectl would print of the answer."""
    return str(json.loads(refusal.message)["message"])


def ids(cases: tuple[Any, ...]) -> list[str]:
    return [str(case[0]).replace(" ", "-") for case in cases]


@pytest.mark.parametrize("case", BAD, ids=ids(BAD))
def test_api_server_refuses_a_bad_object(served_api: Cluster, case: Bad) -> None:
    with pytest.raises(ApiError) as refusal:
        served_api.request("POST", collection(case.document) + STRICT_DRY_RUN, case.document)
    assert refusal.value.status in (400, 422)
    assert case.field in words(refusal.value)
    assert (case.server or case.sentence) in words(refusal.value)


@pytest.mark.parametrize("case", BAD, ids=ids(BAD))
def test_validate_refuses_a_bad_object(case: Bad) -> None:
    problems = validate.problems_of(case.document, KINDS[case.document["kind"]])
    blamed = [problem for problem in problems if problem.field.startswith(case.field)]
    assert any(case.sentence in problem.sentence for problem in blamed), [str(problem) for problem in problems]


@pytest.mark.parametrize(("title", "document"), GOOD, ids=ids(GOOD))
def test_api_server_and_validate_accept_a_good_object_with_the_same_defaults(
    served_api: Cluster, title: str, document: dict[str, Any]
) -> None:
    accepted = served_api.request("POST", collection(document) + STRICT_DRY_RUN, document)
    load = validate.load_pool if document["kind"] == "GpuPool" else validate.load_benchmark
    spec = load(document).spec
    assert spec == type(spec).model_validate(accepted["spec"]), title
    assert spec == type(spec).model_validate(without_nulls(document["spec"])), "the types have other defaults"


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(entry) for key, entry in value.items() if entry is not None}
    return value


def test_kubectl_refuses_a_misspelt_field(served_api: Cluster) -> None:
    document = json.dumps(benchmark(limits={"paralleltrials": 2}))
    done = served_api.kubectl("apply", "--validate=strict", "-f", "-", stdin=document, check=False)
    assert done.returncode != 0
    assert 'unknown field "spec.limits.paralleltrials"' in done.stderr


# --- changes ----------------------------------------------------------------------------------------------------------

UNCHANGEABLE: tuple[tuple[str, Any, str], ...] = (
    ("sweep", [block(workers=[1])], "spec.sweep cannot be changed once the study exists"),
    ("measure", {"duration": "30s"}, "spec.measure cannot be changed once the study exists"),
    ("compareTo", {"benchmark": "other"}, "spec.compareTo cannot be changed once the study exists"),
    ("results", RESULTS, "spec.results cannot be changed once the study exists"),
    (
        "objective",
        {"minimize": "Cost", "goal": "one"},
        "spec.objective cannot be changed once the study exists",
    ),
    ("order", {"seed": 8}, "spec.order cannot be changed once the study exists"),
    ("template", {"image": "another"}, "spec.template cannot be changed once the study exists"),
    (
        "goals",
        [{"name": "one", "workload": "mnist_cnn", "samples": 1}],
        "spec.goals cannot be changed once the study exists",
    ),
    ("template", {}, "spec.template cannot be changed once the study exists"),
    ("template", ABSENT, "spec.template cannot be changed once the study exists"),
    ("limits", {"attempts": {"failed": 1}}, "spec.limits.attempts cannot be changed once the study exists"),
    ("limits", {"attemptTimeout": "1h"}, "spec.limits.attemptTimeout cannot be changed once the study exists"),
    ("limits", {"schedulingTimeout": "1h"}, "spec.limits.schedulingTimeout cannot be changed once the study exists"),
)
CHANGEABLE: tuple[tuple[str, Any], ...] = (
    ("suspend", True),
    ("limits", {"parallelTrials": 4}),
    ("limits", {"budget": "40.00"}),
    ("limits", {"stopDominated": True}),
    ("limits", {}),  # as without: all defaults
)


@pytest.fixture(scope="module")
def existing(served_api: Cluster) -> dict[str, Any]:
    created: dict[str, Any] = served_api.request(
        "POST", BENCHMARKS, benchmark("existing", template={"image": "gpubench-jobs:dev"})
    )
    return created


@pytest.mark.parametrize(
    ("field", "value", "sentence"), UNCHANGEABLE, ids=[case[2].split()[0] for case in UNCHANGEABLE]
)
def test_a_study_keeps_what_it_was_asked(
    served_api: Cluster, existing: dict[str, Any], field: str, value: Any, sentence: str
) -> None:
    with pytest.raises(ApiError) as refusal:
        replace(served_api, existing, field=field, value=value)
    assert refusal.value.status == 422
    assert f"{sentence}: delete it and apply it again, or apply it under another name" in words(refusal.value)


@pytest.mark.parametrize(("field", "value"), CHANGEABLE)
def test_a_study_can_be_suspended_and_made_wider(
    served_api: Cluster, existing: dict[str, Any], field: str, value: Any
) -> None:
    replace(served_api, existing, field=field, value=value)


def test_every_field_of_a_study_is_either_changeable_or_guarded() -> None:
    spec = schema.object_schema(schema.BENCHMARK)["properties"]["spec"]
    limits = spec["properties"]["limits"]
    assert guarded(spec) | {"suspend", "limits"} == set(spec["properties"])
    assert guarded(limits) | {"parallelTrials", "budget", "stopDominated"} == set(limits["properties"])


def guarded(node: Mapping[str, Any]) -> set[str]:
    rules = node["x-kubernetes-validations"]
    return {rule["fieldPath"].removeprefix(".") for rule in rules if "oldSelf" in rule["rule"]}


def test_pools_can_be_changed(served_api: Cluster) -> None:
    created = served_api.request("POST", POOLS, pool("changing", price=PRICE))
    created["spec"] = pool(slotsPerNode=2, ownership=OWNERSHIP)["spec"]
    served_api.request("PUT", f"{POOLS}/changing?dryRun=All", created)


def replace(cluster: Cluster, existing: dict[str, Any], *, field: str, value: Any) -> None:
    document = copy.deepcopy(existing)
    document["spec"] = changed(document["spec"], {field: value})
    cluster.request("PUT", f"{BENCHMARKS}/existing?dryRun=All", document)


def test_validate_tells_the_object_and_all_of_its_problems() -> None:
    with pytest.raises(validate.InvalidObject) as refusal:
        validate.load_benchmark(benchmark("wide", sweep=[block(workers=[0], batchPerWorker=[0])], suspend="no"))
    assert (refusal.value.kind, refusal.value.name) == ("GpuBenchmark", "wide")
    assert [problem.field for problem in refusal.value.problems] == [
        "spec.sweep[0].workers[0]",
        "spec.sweep[0].batchPerWorker[0]",
        "spec.suspend",
    ]
