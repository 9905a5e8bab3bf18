# SPDX-License-Identifier: Apache-2.0
"""The Job of an attempt, as a real API server takes it: every field known, every name and reference in order."""

from typing import Any

import pytest

import builders
from cluster import Cluster
from gpubench.scheduler import capacity, manifests

JOBS = "/apis/batch/v1/namespaces/default/jobs?dryRun=All&fieldValidation=Strict"
TRAINING: dict[str, Any] = {"measure": {"mode": "Training"}}
POLICIES = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies?dryRun=All&fieldValidation=Strict"
SECRETS = "/api/v1/namespaces/default/secrets?dryRun=All&fieldValidation=Strict"
CLAIM = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "sets"}}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"template": {"volumes": [CLAIM]}},
        {"results": {"volume": {"claimName": "runs"}}},
        {"results": {"volume": {"claimName": "sets"}, "path": "team-a/studies"}, "template": {"volumes": [CLAIM]}},
        {"checkpoint": {"volume": {"claimName": "kept"}}, **TRAINING},
        {
            "checkpoint": {"volume": {"claimName": "sets"}},
            "results": {"volume": {"claimName": "sets"}},
            "template": {"volumes": [CLAIM]},
            **TRAINING,
        },
    ],
    ids=["plain", "data on a claim", "records on a claim", "both on one claim", "checkpoints", "all on one claim"],
)
def test_the_job_of_an_attempt_is_taken(served_api: Cluster, fields: dict[str, Any]) -> None:
    spec = builders.spec(builders.block(workers=[2], data={"source": "Generated"}), **fields)
    study, plan = builders.study(spec), builders.plan(spec)
    job = manifests.job(study, plan, capacity.gang_of(plan, plan.trials[0], attempt=1))
    taken = served_api.request("POST", JOBS, job)
    (container,) = taken["spec"]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]


@pytest.mark.parametrize("scrapers", [(), ("monitoring", "lab")], ids=["anybody", "two-namespaces"])
def test_what_keeps_others_from_a_study_is_taken(served_api: Cluster, scrapers: tuple[str, ...]) -> None:
    spec = builders.spec(builders.block(workers=[1, 4]))
    study, plan = builders.study(spec), builders.plan(spec, builders.pool(slots_per_node=4))
    policy = manifests.network_policy(study, plan, scrapers=scrapers)
    taken = served_api.request("POST", POLICIES, policy)
    assert taken["spec"] == policy["spec"]
    secret = served_api.request("POST", SECRETS, manifests.token(study, "0" * 64))
    assert (secret["immutable"], list(secret["data"])) == (True, ["token"])
