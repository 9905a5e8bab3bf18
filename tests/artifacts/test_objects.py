# SPDX-License-Identifier: Apache-2.0
"""Good and bad objects: the API server and `validate` agree on each, and a bad one is refused with a sentence.

Rules across fields are written once, so both must say exactly the same; about types and bounds the API server has its
own words (`server`), and `validate` has better ones.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from bad_pools import BAD_POOLS
from bad_studies import BAD_STUDIES
from bad_sweeps import BAD_SWEEPS
from cluster import ApiError, Cluster
from good_objects import GOOD
from gpubench.api import schema, validate
from object_forms import BENCHMARKS, POOLS, SCHEDULES, Bad, benchmark, block, words
from pod_objects import BAD_PODS, GOOD_PODS
from schedule_objects import BAD_SCHEDULES, GOOD_SCHEDULES

STRICT_DRY_RUN = "?dryRun=All&fieldValidation=Strict"

ALL_BAD = (*BAD_POOLS, *BAD_SWEEPS, *BAD_STUDIES, *BAD_SCHEDULES, *BAD_PODS)
ALL_GOOD: tuple[tuple[str, dict[str, Any]], ...] = (*GOOD, *GOOD_SCHEDULES, *GOOD_PODS)

KINDS = {kind.kind: kind for kind in schema.KINDS}
COLLECTIONS = {"GpuPool": POOLS, "GpuBenchmark": BENCHMARKS, "GpuBenchmarkSchedule": SCHEDULES}
LOADERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "GpuPool": validate.load_pool,
    "GpuBenchmark": validate.load_benchmark,
    "GpuBenchmarkSchedule": validate.load_schedule,
}


def collection(document: Mapping[str, Any]) -> str:
    return COLLECTIONS[document["kind"]]


def ids(cases: tuple[Any, ...]) -> list[str]:
    return [str(case[0]).replace(" ", "-") for case in cases]


@pytest.mark.parametrize("case", ALL_BAD, ids=ids(ALL_BAD))
def test_api_server_refuses_a_bad_object(served_api: Cluster, case: Bad) -> None:
    with pytest.raises(ApiError) as refusal:
        served_api.request("POST", collection(case.document) + STRICT_DRY_RUN, case.document)
    assert refusal.value.status in (400, 422)
    assert case.field in words(refusal.value)
    assert (case.server or case.sentence) in words(refusal.value)


@pytest.mark.parametrize("case", ALL_BAD, ids=ids(ALL_BAD))
def test_validate_refuses_a_bad_object(case: Bad) -> None:
    problems = validate.problems_of(case.document, KINDS[case.document["kind"]])
    blamed = [problem for problem in problems if problem.field.startswith(case.field)]
    assert any(case.sentence in problem.sentence for problem in blamed), [str(problem) for problem in problems]


@pytest.mark.parametrize(("title", "document"), ALL_GOOD, ids=ids(ALL_GOOD))
def test_api_server_and_validate_accept_a_good_object_with_the_same_defaults(
    served_api: Cluster, title: str, document: dict[str, Any]
) -> None:
    accepted = served_api.request("POST", collection(document) + STRICT_DRY_RUN, document)
    spec = LOADERS[document["kind"]](document).spec
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


def test_validate_tells_the_object_and_all_of_its_problems() -> None:
    with pytest.raises(validate.InvalidObject) as refusal:
        validate.load_benchmark(benchmark("wide", sweep=[block(workers=[0], batchPerWorker=[0])], suspend="no"))
    assert refusal.value.name == "wide"
    assert [problem.field for problem in refusal.value.problems] == [
        "spec.sweep[0].workers[0]",
        "spec.sweep[0].batchPerWorker[0]",
        "spec.suspend",
    ]
