# SPDX-License-Identifier: Apache-2.0
"""The API server is away for a minute, or our kinds of objects are: nothing is lost and the work goes on.

The gangs run on meanwhile. The operator cannot renew its Lease, so it ends, as every controller does; what starts it
again is a Deployment in a cluster, and `place.wait` here.
"""

import time
from typing import Any

import installation
import studies
from gpubench import names
from gpubench_cluster import kube

Place = Any

AWAY_SECONDS = 60.0
SWEEP = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1, 2], "batchPerWorker": [64]}]


def test_the_api_server_away_for_a_minute_loses_nothing(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    template = {"env": [{"name": "STAND_IN_SECONDS", "value": "5"}]}
    place.apply(studies.benchmark("away", repeats=2, sweep=SWEEP, template=template))
    place.wait(lambda: (place.status("away").get("attempts") or {}).get("succeeded"), what="a first result")

    place.cluster.kill("apiserver")
    time.sleep(AWAY_SECONDS)
    place.cluster.restart("apiserver")

    place.wait(lambda: place.holds("away", "Finished"), what="the end of the study", seconds=180.0)
    status = place.status("away")
    assert status["phase"] == "Succeeded"
    assert status["attempts"] == {"started": 4, "succeeded": 4, "failed": 0, "preempted": 0, "drilled": 0, "stopped": 0}
    assert status["trials"] == {"total": 4, "finished": 4, "running": 0}
    assert len(place.all(kube.JOBS)) == 4


def test_an_operator_whose_definitions_are_deleted_says_so_and_goes_on_when_they_are_back(place: Place) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(studies.benchmark("before", repeats=1, sweep=SWEEP))
    place.wait(lambda: place.all(kube.JOBS), what="a gang")
    ended = _ended_otherwise(place)
    definitions = [f"{plural}.{names.GROUP}" for plural in (names.BENCHMARK_PLURAL, names.POOL_PLURAL)]
    try:
        place.cluster.kubectl("delete", "crd", *definitions)
        place.wait(lambda: "waiting for what is needed" in place.operator.log.read_text(), what="words about it")
    finally:
        installation.install_definitions(place.cluster)
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(studies.benchmark("after", repeats=1, sweep=SWEEP))
    place.wait(lambda: place.holds("after", "Finished"), what="the end of a benchmark that came afterwards")
    assert place.status("after")["phase"] == "Succeeded"
    assert _ended_otherwise(place) == ended, f"it has ended meanwhile:\n{place.operator.log.read_text()}"


def _ended_otherwise(place: Place) -> int:
    """How often the operator was started again, except for a Lease that a loaded machine did not renew in time."""
    said: str = place.operator.log.read_text()
    return said.count("info serving") - said.count("error lease lost")
