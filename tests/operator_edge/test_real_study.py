# SPDX-License-Identifier: Apache-2.0
"""The whole path with nothing left out: a study applied with kubectl, the operator under the chart's ClusterRole, real
Horovod ranks in two pods, figures in the status and in scrapes during the study, after it, and after a restart.

The nodes are processes of this machine (see tests/cluster); everything else is what a user has.
"""

import contextlib
import http.client
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import parser

import installation
import pages
import quickstart
import repriced
import stored_analysis
from cluster import Cluster, Image, Node
from gpubench import metrics, names
from gpubench.analysis import answer
from gpubench.api.benchmark_status import FullStatus
from gpubench.report import tables
from gpubench_cli import results, verify

STUDY_SECONDS = 900.0  # six to ten gangs, mostly `import tensorflow`: five minutes on slow cores beside other tests
POLL_SECONDS = 0.3
STUDY = quickstart.shortened(warm_up="1s", duration="2s")
NAME = "quickstart"

TWEETS = installation.REPOSITORY / "jobs" / "studies" / "tweets-2018.yaml"

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    nodes = [Node(name=f"cpu-{core}", labels={"gpubench.dev/pool": "local-cpu"}, cores=(core,)) for core in range(2)]
    images = {"gpubench-jobs:dev": Image(path=(Path(sys.executable).parent,), env=installation.POD_ENVIRONMENT)}
    with Cluster.start(tmp_path_factory.mktemp("real"), nodes=nodes, images=images) as running:
        yield running


def scrape(text: str) -> Samples:
    """Every sample of a scrape that is ours, read by Prometheus' own client."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in parser.text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("gpubench_")
    }


def figures(samples: Samples) -> Samples:
    """What speaks of studies; the rest is the operator's own health, which begins anew with each process."""
    return {key: value for key, value in samples.items() if not key[0].startswith("gpubench_operator_")}


def status(cluster: Cluster, study: str = NAME) -> dict[str, Any]:
    return stored_analysis.of_cluster(partial(cluster.request, "GET"), namespace="default", name=study)


def is_finished(found: dict[str, Any]) -> bool:
    return any(entry["type"] == "Finished" and entry["status"] == "True" for entry in found.get("conditions", []))


def wait(until: Callable[[], bool], *, what: str, seconds: float = STUDY_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(POLL_SECONDS)


def scrape_workers(cluster: Cluster) -> Samples:
    """The live series of every rank that serves some at this moment."""
    found: Samples = {}
    pods = cluster.request("GET", f"/api/v1/pods?labelSelector={names.LABEL_COMPONENT}%3D{names.COMPONENT_GANG}")
    for pod in pods["items"]:
        address = pod["status"].get("podIP")
        # A rank opens its port when its model stands, and takes it along, maybe in the middle of an answer.
        with contextlib.suppress(OSError, http.client.HTTPException):
            found |= scrape(installation.read_page(f"http://{address}:{names.PORT_METRICS}/metrics"))
    return found


def test_from_apply_to_figures_and_a_restart_changes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    with installation.running_operator(cluster, log=tmp_path / "operator.log") as operator:
        cluster.kubectl("apply", "-f", "-", stdin=STUDY)
        live: Samples = {}
        early: list[Samples] = []

        def look() -> bool:
            live.update(scrape_workers(cluster))
            early.append(scrape(operator.get("/metrics")))
            return is_finished(status(cluster))

        wait(look, what="the study")
        found = status(cluster)
        assert found["phase"] == "Succeeded", found
        check_figures(found)
        check_live_series(live, found)
        check_series_during(early)

        wait(lambda: names_of(scrape(operator.get("/metrics"))) >= FINAL, what="the figures in a scrape", seconds=20)
        wait(lambda: not held(scrape(operator.get("/metrics"))), what="the last gang's slots, free again", seconds=60)
        after = figures(scrape(operator.get("/metrics")))
        check_exported(after, found)

        operator.kill()
        operator.start()
        wait(
            lambda: figures(scrape(operator.get("/metrics"))) == after,
            what="the same scrape after a restart",
            seconds=60,
        )
        assert status(cluster) == found

        check_export(cluster, tmp_path / "exported", found)
        check_report(cluster, tmp_path / "report", found)
        check_doubled_prices(cluster, tmp_path / "exported", tmp_path / "dear")

        described = cluster.kubectl("describe", "gbench", NAME).stdout
        for word in ("Planned", "AttemptStarted", "TrialMeasured", "Finished"):
            assert word in described
        cluster.kubectl("delete", "gbench", NAME)
        wait(lambda: not left_behind(cluster), what="the deletion of everything that the study owned", seconds=60)
        wait(
            lambda: not any("benchmark" in dict(labels) for _, labels in scrape(operator.get("/metrics"))),
            what="the end of the study's series",
            seconds=20,
        )


def test_a_published_study_runs_in_its_small_form_by_apply(cluster: Cluster, tmp_path: Path) -> None:
    pool = STUDY[: STUDY.rindex("---\n")].replace("name: local-cpu", "name: pair").replace("1536Mi", "2Gi")
    (tmp_path / "pool.yaml").write_text(pool)
    small = [str(TWEETS), "--scale", "0.003", "--pools", str(tmp_path / "pool.yaml"), "--pool", "pair", "-o", "yaml"]
    objects = subprocess.run(
        [sys.executable, "-m", "gpubench_cli", "plan", *small], check=True, capture_output=True, text=True
    ).stdout
    with installation.running_operator(cluster, log=tmp_path / "operator.log", settings=installation.ALONE):
        cluster.kubectl("apply", "-f", "-", stdin=objects)
        wait(
            lambda: is_finished(status(cluster, "tweets-2018-small")),
            what="the small study",
            seconds=2 * STUDY_SECONDS,  # measured: 320 s on two cores that were shared with a dozen other processes
        )
    found = status(cluster, "tweets-2018-small")
    assert found["phase"] == "Succeeded", found
    [point] = found["results"]
    assert (point["workload"], point["workers"], point["nodes"]) == ("twitter_bilstm", 2, 2)
    training = point["training"]
    assert training["epochs"] == 1
    assert training["quality"]["final"]["mean"] > 0  # tests/cli/test_small_study.py trains long enough to learn
    per_second = 2 * 0.04 / 3600  # USD: two nodes of the quickstart's pool
    assert float(point["cost"]["perRun"]["mean"]) == pytest.approx(per_second * training["seconds"]["mean"], abs=1e-6)


#: What a scrape has once the study has finished. On a machine that is busy with other things the three repeats may be
#: so far apart that the efficiency's interval has no ends; then there are no such series, as the status has none.
FINAL = {
    metric.name
    for metric in (
        metrics.THROUGHPUT, metrics.THROUGHPUT_LOW, metrics.THROUGHPUT_HIGH,
        metrics.EFFICIENCY, metrics.COST, metrics.COST_LOW,
        metrics.POINTS, metrics.TRIALS, metrics.ATTEMPTS, metrics.CONDITION,
        metrics.LEADER, metrics.QUEUE_DEPTH, metrics.RECONCILES, metrics.API_REQUESTS,
    )
} | {f"{metrics.LOOP_LAG.name}_count"}  # fmt: skip


def held(samples: Samples) -> float:
    """Slots that gangs hold: the last one's for as long as its pods take to end."""
    return sum(value for (name, _), value in samples.items() if name == metrics.POOL_HELD_SLOTS.name)


def names_of(samples: Samples) -> set[str]:
    return {name for name, _ in samples}


def check_figures(found: dict[str, Any]) -> None:
    one, two = found["results"]
    for result in (one, two):
        assert result["state"] == "Measured"
        assert len(result["values"]) == 3
        assert all(value > 0 for value in result["values"])
        assert (
            result["samplesPerSecond"]["low"] < result["samplesPerSecond"]["mean"] < result["samplesPerSecond"]["high"]
        )
    mean = {result["workers"]: result["samplesPerSecond"]["mean"] for result in (one, two)}
    assert two["scaling"][0]["efficiency"]["mean"] == pytest.approx(mean[2] / (2 * mean[1]))
    for result in (one, two):  # 0.04 USD per node-hour, a node for each worker
        rate, cost = result["samplesPerSecond"], result["cost"]["perMillionSamples"]
        dollars = result["workers"] * 0.04 / 3600 * 1e6
        assert float(cost["mean"]) == pytest.approx(dollars / rate["mean"], rel=1e-6)
        assert float(cost["low"]) == pytest.approx(dollars / rate["high"], rel=1e-6)
        # The repeats of a busy machine may be so far apart that the cost has no upper end.
        assert ("high" in cost) == (rate["low"] > 0)
        assert "high" not in cost or float(cost["high"]) == pytest.approx(dollars / rate["low"], rel=1e-6)
        assert cost["currency"] == "USD"
    assert found["attempts"]["started"] == found["attempts"]["succeeded"] == 6
    assert (one["nodes"], two["nodes"]) == (one["nodes"], 2)


def check_live_series(live: Samples, found: dict[str, Any]) -> None:
    samples: dict[str, float] = {}  # the most of any trial: of one there may be no scrape but before its first step
    for (name, labels), value in live.items():
        if name == metrics.WORKER_SAMPLES.name:
            rank = dict(labels)["rank"]
            samples[rank] = max(value, samples.get(rank, 0.0))
    assert set(samples) == {"0", "1"}
    assert all(value > 0 for value in samples.values())
    assert {metrics.WORKER_THROUGHPUT.name, f"{metrics.WORKER_STEP.name}_count"} <= names_of(live)
    trials = {dict(labels)["trial"] for _, labels in live if "trial" in dict(labels)}
    assert 1 <= len(trials) <= found["trials"]["total"]


def check_series_during(early: list[Samples]) -> None:
    """While the study ran there were scrapes that showed it running, and no figure before the first measurement."""
    running = [
        samples
        for samples in early
        if any(name == metrics.TRIALS.name and dict(labels)["state"] == "running" and value > 0
               for (name, labels), value in samples.items())
    ]  # fmt: skip
    assert running
    first = next(samples for samples in early if metrics.TRIALS.name in names_of(samples))
    assert metrics.THROUGHPUT.name not in names_of(first)


def check_exported(samples: Samples, found: dict[str, Any]) -> None:
    exported = {
        dict(labels)["workers"]: value for (name, labels), value in samples.items() if name == metrics.THROUGHPUT.name
    }
    assert exported == {str(result["workers"]): result["samplesPerSecond"]["mean"] for result in found["results"]}
    for (name, labels), _ in samples.items():
        metric = next(metric for metric in metrics.CATALOGUE if metric.name == name)
        assert set(dict(labels)) == set(metric.labels)


def check_export(cluster: Cluster, folder: Path, found: dict[str, Any]) -> None:
    """Plan, attempts, status and the windows of all pods come out of the cluster, and hold."""
    gpubench(cluster, "export", NAME, str(folder), "-n", "default")
    verified = gpubench(cluster, "verify", str(folder))
    assert "every figure follows from the records" in verified
    assert "were gone" not in verified
    assert results.read_summary(folder).status == FullStatus.model_validate(found)
    assert verify.examine(folder).windows > 0


def check_report(cluster: Cluster, place: Path, found: dict[str, Any]) -> None:
    """A report of the study as it is on the cluster has its answer, and its table with the cost of each point."""
    files = place.with_suffix(".html"), place.with_suffix(".md")
    gpubench(cluster, "report", NAME, "-n", "default", "--out", str(files[0]), "--markdown", str(files[1]))
    status = FullStatus.model_validate(found)
    (work,) = answer.by_work(status.results)
    assert work.fastest is not None
    assert work.cheapest is not None
    assert status.answer == "\n".join(work.lines)
    table = tables.of_benchmark(status.results, status.prices)[0]  # that of the points
    titles = [column.title for column in table.columns]
    costs = {row[titles.index("COST/M SAMPLES")] for row in table.rows}
    assert all(cost.startswith("USD ") and cost.endswith(")") for cost in costs), "with an interval"
    for said in (pages.of_page(files[0].read_text()), pages.of_markdown(files[1].read_text())):
        assert any({work.work, work.fastest.message, work.cheapest.message} <= {*row} for row in said.tables[0])
        assert any(costs <= {cell for row in grid for cell in row} for grid in said.tables[1:])


def check_doubled_prices(cluster: Cluster, folder: Path, dear: Path) -> None:
    """Everything costs twice as much, and nothing else changes."""
    dear.mkdir()
    (dear / "study.yaml").write_text(STUDY)  # an export has the study alone; its pools are in the plan
    pools = repriced.prices(dear, dear)
    gpubench(cluster, "reprice", str(folder), "--pools", str(pools), "--out", str(dear / "study"))
    before, after = results.read_summary(folder).status, results.read_summary(dear / "study").status
    pairs = list(zip(repriced.amounts(after), repriced.amounts(before), strict=True))
    assert len(pairs) == len(before.results)
    for one, other in pairs:
        assert Decimal(one.mean) > Decimal(other.mean) > 0
        assert repriced.is_double(one.mean, other.mean)
        assert repriced.is_double(one.low, other.low)
        assert repriced.is_double(one.high, other.high)
    assert repriced.measurements_of(after) == repriced.measurements_of(before)


def gpubench(cluster: Cluster, *command: str) -> str:
    """What the command line prints about this cluster."""
    ended = subprocess.run(
        [sys.executable, "-m", "gpubench_cli", *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def left_behind(cluster: Cluster) -> list[str]:
    selector = f"labelSelector={names.LABEL_MANAGED_BY}%3D{names.MANAGED_BY}"
    core = ("pods", "services", "configmaps", "secrets")
    paths = ("/apis/batch/v1/jobs", "/apis/networking.k8s.io/v1/networkpolicies", *(f"/api/v1/{one}" for one in core))
    return [
        item["metadata"]["name"] for path in paths for item in cluster.request("GET", f"{path}?{selector}")["items"]
    ]
