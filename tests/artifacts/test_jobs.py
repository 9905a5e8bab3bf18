# SPDX-License-Identifier: Apache-2.0
"""The Job of an attempt, as a real API server takes it: every field known, every name and reference in order."""

from typing import Any

import pytest

import builders
from cluster import Cluster
from gpubench.control import manifests, starts

JOBS = "/apis/batch/v1/namespaces/default/jobs?dryRun=All&fieldValidation=Strict"
CLAIM = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "sets"}}


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"template": {"volumes": [CLAIM]}},
        {"results": {"volume": {"claimName": "runs"}}},
        {"results": {"volume": {"claimName": "sets"}, "path": "team-a/studies"}, "template": {"volumes": [CLAIM]}},
    ],
    ids=["plain", "data on a claim", "records on a claim", "both on one claim"],
)
def test_the_job_of_an_attempt_is_taken(served_api: Cluster, fields: dict[str, Any]) -> None:
    spec = builders.spec(builders.block(workers=[2]), **fields)
    study, plan = builders.study(spec), builders.plan(spec)
    job = manifests.job(study, plan, starts.gang_of(plan, plan.trials[0], attempt=1))
    taken = served_api.request("POST", JOBS, job)
    (container,) = taken["spec"]["template"]["spec"]["containers"]
    assert container["volumeMounts"] == job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"]
