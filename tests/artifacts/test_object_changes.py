# SPDX-License-Identifier: Apache-2.0
"""What of an object can be changed once it is there, and what cannot, with a sentence."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from cluster import ApiError, Cluster
from gpubench.api import schema
from object_forms import (
    ABSENT,
    BENCHMARKS,
    CHECKPOINT,
    OWNERSHIP,
    POOLS,
    PRICE,
    RESULTS,
    SCHEDULES,
    benchmark,
    block,
    changed,
    pool,
    schedule,
    words,
)

UNCHANGEABLE: tuple[tuple[str, Any, str], ...] = (
    ("sweep", [block(workers=[1])], "spec.sweep cannot be changed once the benchmark exists"),
    ("measure", {"duration": "30s"}, "spec.measure cannot be changed once the benchmark exists"),
    ("compareTo", {"benchmark": "other"}, "spec.compareTo cannot be changed once the benchmark exists"),
    ("checkpoint", {**CHECKPOINT, "interval": "9s"}, "spec.checkpoint cannot be changed once the benchmark exists"),
    ("results", RESULTS, "spec.results cannot be changed once the benchmark exists"),
    (
        "objective",
        {"minimize": "Cost", "goal": "one"},
        "spec.objective cannot be changed once the benchmark exists",
    ),
    ("baseline", {"workers": 1}, "spec.baseline cannot be changed once the benchmark exists"),
    (
        "scheduling",
        {"topology": {"key": "topology.kubernetes.io/zone"}},
        "spec.scheduling cannot be changed once the benchmark exists",
    ),
    ("order", {"seed": 8}, "spec.order cannot be changed once the benchmark exists"),
    ("template", {"image": "another"}, "spec.template cannot be changed once the benchmark exists"),
    (
        "goals",
        [{"name": "one", "workload": "mnist_cnn", "samples": 1}],
        "spec.goals cannot be changed once the benchmark exists",
    ),
    ("template", {}, "spec.template cannot be changed once the benchmark exists"),
    ("template", ABSENT, "spec.template cannot be changed once the benchmark exists"),
    ("limits", {"attempts": {"failed": 1}}, "spec.limits.attempts cannot be changed once the benchmark exists"),
    ("limits", {"attemptTimeout": "1h"}, "spec.limits.attemptTimeout cannot be changed once the benchmark exists"),
    (
        "limits",
        {"schedulingTimeout": "1h"},
        "spec.limits.schedulingTimeout cannot be changed once the benchmark exists",
    ),
    ("limits", {"capacityTimeout": "1h"}, "spec.limits.capacityTimeout cannot be changed once the benchmark exists"),
)
CHANGEABLE: tuple[tuple[str, Any], ...] = (
    ("suspend", True),
    ("ttlSecondsAfterFinished", 600),
    ("limits", {"parallelTrials": 4}),
    ("limits", {"budget": "40.00"}),
    ("limits", {"poolTimeout": "2h"}),
    ("drill", {"every": "90s", "times": 5}),
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
    assert guarded(spec) | {"suspend", "limits", "drill", "ttlSecondsAfterFinished"} == set(spec["properties"])
    assert guarded(limits) | {"parallelTrials", "budget", "poolTimeout"} == set(limits["properties"])


def guarded(node: Mapping[str, Any]) -> set[str]:
    rules = node["x-kubernetes-validations"]
    return {rule["fieldPath"].removeprefix(".") for rule in rules if "oldSelf" in rule["rule"]}


def test_pools_can_be_changed(served_api: Cluster) -> None:
    created = served_api.request("POST", POOLS, pool("changing", price=PRICE))
    created["spec"] = pool(slotsPerNode=2, ownership=OWNERSHIP)["spec"]
    served_api.request("PUT", f"{POOLS}/changing?dryRun=All", created)


def test_schedules_and_their_templates_can_be_changed(served_api: Cluster) -> None:
    created = served_api.request("POST", SCHEDULES, schedule("changing"))
    changes = schedule(
        schedule="@daily",
        timeZone="Europe/Berlin",
        benchmarkTemplate={"spec": {"sweep": [block(workers=[1])], "limits": {"attempts": {"failed": 1}}}},
    )
    created["spec"] = changes["spec"]
    served_api.request("PUT", f"{SCHEDULES}/changing?dryRun=All", created)


def replace(cluster: Cluster, existing: dict[str, Any], *, field: str, value: Any) -> None:
    document = copy.deepcopy(existing)
    document["spec"] = changed(document["spec"], {field: value})
    cluster.request("PUT", f"{BENCHMARKS}/existing?dryRun=All", document)
