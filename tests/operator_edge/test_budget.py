# SPDX-License-Identifier: Apache-2.0
"""A study with a budget on a real API server, billing minimum included: it stops within it, says so, and goes on."""

import time
from decimal import Decimal
from typing import Any

import studies
from gpubench import names
from gpubench_cluster import kube

#: A node is billed for a minute at least, which is 0.006; the stand-in needs less than one second.
PRICE = {
    "perNodeHour": "0.36",
    "currency": "USD",
    "asOf": "2026-11-01",
    "billing": {"incrementSeconds": 1, "minimumSeconds": 60},
}
ONE_NODE = Decimal("0.006")
ALL_TRIALS = 2 * ONE_NODE + 2 * 2 * ONE_NODE  # two repeats on one node, and two on two

# Annotated instead of imported: fixtures of conftest.py have no module that a test could import.
Place = Any


def pool_of(place: Place) -> str:
    return f"billed-{place.namespace}"[:60].strip("-")


def study(place: Place, *, budget: str) -> dict[str, Any]:
    pool = pool_of(place)
    place.apply(studies.pool(pool, maxNodes=2, price=PRICE, scheduling={"nodeSelector": {"pool": "process"}}))
    sweep = [{"workloads": ["mnist_cnn"], "pools": [pool], "workers": [1, 2], "batchPerWorker": [64]}]
    return studies.benchmark(repeats=2, sweep=sweep, limits={"budget": budget})


def jobs(place: Place) -> set[str]:
    return {kube.name_of(job) for job in place.all(kube.JOBS)}


def wait_until_finished(place: Place) -> dict[str, Any]:
    """The status once it speaks of the spec as it is now, as `kubectl wait` would see it."""
    path = kube.BENCHMARKS.path(namespace=place.namespace, name="quick")

    def finished() -> bool:
        body = place.cluster.request("GET", path)
        conditions = (body.get("status") or {}).get("conditions") or ()
        return any(
            (one["type"], one["status"]) == ("Finished", "True")
            and one["observedGeneration"] == body["metadata"]["generation"]
            for one in conditions
        )

    place.wait(finished, what="quick finished", seconds=120.0)
    status: dict[str, Any] = place.status("quick")
    return status


def test_a_study_that_would_overspend_stops_within_its_budget_and_goes_on_when_it_is_raised(place: Place) -> None:
    place.apply(study(place, budget="0.02"))
    status = wait_until_finished(place)
    assert status["phase"] == "BudgetExhausted"
    assert place.holds("quick", "BudgetExhausted")
    assert not place.holds("quick", "Succeeded")
    # The first repeat of both points: a fourth node would be too much.
    assert Decimal(status["spent"]["amount"]) == 3 * ONE_NODE
    assert status["attempts"]["started"] == status["attempts"]["succeeded"] == 2
    place.wait(lambda: "BudgetExhausted" in place.events("quick"), what="a word about it")
    before = jobs(place)
    time.sleep(1.0)
    assert jobs(place) == before, "nothing is started any more"

    place.operator.kill()
    place.operator.start()
    place.patch_spec("quick", limits={"budget": "1.00"})
    status = wait_until_finished(place)
    assert status["phase"] == "Succeeded"
    assert status["attempts"]["started"] == status["attempts"]["succeeded"] == 4, "no trial was repeated"
    assert Decimal(status["spent"]["amount"]) == ALL_TRIALS
    assert not place.holds("quick", "BudgetExhausted")
    assert [result["state"] for result in status["results"]] == ["Measured"] * 2
    assert [len(result["values"]) for result in status["results"]] == [2, 2]
    place.cluster.kubectl("delete", names.POOL_PLURAL, pool_of(place))
