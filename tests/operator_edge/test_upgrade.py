# SPDX-License-Identifier: Apache-2.0
"""Another commit's operator hands twenty live benchmarks and a schedule on, and gets them back: nothing is lost.

The other commit is the one before; GPUBENCH_UPGRADE_FROM names another, as a release. Definitions and rights go along.
"""

import io
import os
import subprocess
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import installation
import studies
from cluster import Cluster, Node
from gpubench import names
from gpubench.schedule import history
from gpubench_cluster import kube

Place = Any

SETTINGS = {"GPUBENCH_LEASE_SECONDS": "6", "GPUBENCH_LEASE_RENEW_SECONDS": "5", "GPUBENCH_LEASE_RETRY_SECONDS": "0.5"}
LIVE = [f"live-{number:02}" for number in range(20)]
SECONDS = 180.0


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the other commit."""
    commit = os.environ.get("GPUBENCH_UPGRADE_FROM", "HEAD~1")
    command = ["git", "-C", str(installation.REPOSITORY), "archive", commit, "operator", "charts/gpubench/files"]
    made = subprocess.run(command, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"no commit {commit} is here: {made.stderr.decode().strip()}")
    folder = tmp_path_factory.mktemp("before")
    with tarfile.open(fileobj=io.BytesIO(made.stdout)) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    capacity = {"cpu": "100", "memory": "64Gi"}
    node = Node(name="pretend-0", labels={"pool": "pretend"}, capacity=capacity, pretend=True)
    with Cluster.start(tmp_path_factory.mktemp("upgrade") / "cluster", nodes=[node], audit_log=False) as running:
        yield running


@pytest.fixture(scope="module")
def operator(
    equipped: Cluster, before: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[installation.Operator]:
    """Of the commit before."""
    running = of(before, equipped, tmp_path_factory.mktemp("log") / "before.log")
    yield running
    running.stop()


def of(checkout: Path, cluster: Cluster, log: Path) -> installation.Operator:
    """The operator of a checkout, with its definitions and rights."""
    kubeconfig = installation.install(cluster, checkout / "charts" / "gpubench" / "files")
    found = installation.Operator(kubeconfig, log=log, settings={**SETTINGS, "PYTHONPATH": str(checkout / "operator")})
    found.start()
    return found


def test_live_benchmarks_and_a_schedule_go_over_to_another_operator_and_back(
    place: Place, before: Path, tmp_path: Path
) -> None:
    place.cluster.kubectl("delete", names.POOL_PLURAL, "pretend")  # the one of four nodes, with a slot each
    place.apply(studies.pool(slotsPerNode=64, maxNodes=1, exclusiveNodes=False))
    sweep: Any = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}]
    spec: dict[str, Any] = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid"}
    spec["benchmarkTemplate"] = {"spec": studies.benchmark(sweep=sweep, repeats=1)["spec"]}
    often = {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "metadata": {"name": "often"}, "spec": spec}
    place.apply(often)
    for name in LIVE:
        place.apply(studies.benchmark(name, sweep=sweep, repeats=3))
    place.wait(lambda: len(place.running()) == len(LIVE) + 1, what="all first attempts", seconds=SECONDS)
    scheduled = {name for name in names_of(place) if name not in LIVE}

    old = place.operator
    old.stop()
    new = place.operator = of(installation.REPOSITORY, place.cluster, tmp_path / "new.log")
    place.end_pods()  # all of them at once, and with them the run of the schedule
    place.wait(lambda: attempts(place) == dict.fromkeys(LIVE, 2), what="all second attempts", seconds=SECONDS)
    place.wait(lambda: scheduled <= archived(place), what="the run in the history", seconds=SECONDS)

    new.stop()
    place.operator = of(before, place.cluster, tmp_path / "back.log")
    place.wait(lambda: goes_on_or_says_why(place), what="each going on, or a word about it", seconds=SECONDS)
    place.operator.stop()
    place.operator = of(installation.REPOSITORY, place.cluster, tmp_path / "again.log")
    for name in LIVE:
        place.end_study(name)
    for name in LIVE:
        told = place.status(name)
        ended = told["attempts"]
        assert (ended["started"], ended["succeeded"], told["phase"]) == (3, 3, "Succeeded"), name
        assert told["results"][0]["state"] == "Measured"
    place.cluster.kubectl("delete", names.SCHEDULE_PLURAL, "often", "-n", place.namespace)


def goes_on_or_says_why(place: Place) -> bool:
    """Of half of the benchmarks; an older operator may not be able to read what a newer one has written."""
    place.end_pods()
    half = LIVE[::2]
    return all(place.holds(name, "Finished") or place.condition("Progressing", of=name)[0] == "Stuck" for name in half)


def names_of(place: Place) -> set[str]:
    listed = place.cluster.request("GET", kube.BENCHMARKS.path(namespace=place.namespace))["items"]
    return {kube.name_of(body) for body in listed}


def attempts(place: Place) -> Counter[str]:
    """How many Jobs were made for each of the benchmarks, those that have ended too."""
    made = Counter(job["metadata"]["labels"][names.LABEL_BENCHMARK] for job in place.all(kube.JOBS))
    return Counter({name: count for name, count in made.items() if name in LIVE})


def archived(place: Place) -> set[str]:
    shards = [body for body in place.all(kube.CONFIG_MAPS) if "-history-" in kube.name_of(body)]
    return {entry.name for entry in history.read(body["data"] for body in shards)}
