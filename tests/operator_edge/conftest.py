# SPDX-License-Identifier: Apache-2.0
"""A cluster with nodes, the operator as a process under exactly its ClusterRole, and a namespace for each test.

Nodes `pretend-*` and `silent` have no processes: their pods run until a test ends them. Nodes `process-*` run the
stand-in worker.
What may not happen here: a wait without a bound.
"""

import contextlib
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

import gang_books
import installation
import kept
import policies
import stand_in_worker
import stored_analysis
import studies
import telling_program
from cluster import ApiError, Cluster, Image, Node
from gpubench import names
from gpubench.plan import expand
from gpubench.records import Machine
from gpubench.scheduler import ledger
from gpubench_cluster import kube
from gpubench_operator import main

Found = TypeVar("Found")

# Short, so that an operator that was killed is replaced soon; a real one keeps its defaults. Not shorter: on a machine
# that compiles beside it, a renewal was seen to take more than two seconds.
LEASE = {"GPUBENCH_LEASE_SECONDS": "6", "GPUBENCH_LEASE_RENEW_SECONDS": "5", "GPUBENCH_LEASE_RETRY_SECONDS": "0.5"}
SETTINGS = {**LEASE, "GPUBENCH_LOG_FORMAT": "text", "GPUBENCH_NODE_POLL_SECONDS": "2"}
WAIT_SECONDS = 60.0  # what is waited for takes one to five; other tests compile and train beside it
#: The garbage collector of a new cluster learns of our definitions only after a while, and tries in growing intervals.
COLLECTED_SECONDS = 180.0
SILENT = "processnode-silent"


#: The fields of each line of the operator's log.
_OF_BENCHMARKS = {"namespace", "benchmark"}
LOGGED: dict[str, tuple[set[str], ...]] = {
    "analysis failed": ({*_OF_BENCHMARKS, "error"},),
    "attempt ended": ({*_OF_BENCHMARKS, "trial", "attempt", "outcome", "reason", "text"},),
    "certificate not read, the one of before stays": ({"error"},),
    "deleted, as its time to live is over": (_OF_BENCHMARKS,),
    "environment kept": ({*_OF_BENCHMARKS, "environments"},),
    "environment not kept": ({*_OF_BENCHMARKS, "error"},),
    "environment not read": ({*_OF_BENCHMARKS, "environment", "pod", "error"},),
    "event": ({*_OF_BENCHMARKS, "reason", "text"}, {"namespace", "schedule", "reason", "text"}),
    "event kept for later": ({"object", "error"},),
    "event refused": ({"object", "error"},),
    "evicted on purpose": ({*_OF_BENCHMARKS, "job", "pod", "found"},),
    "failed": ({"key", "delay", "error"},),
    "finished": (_OF_BENCHMARKS,),
    "history not read": ({"pool", "error"},),
    "history not written": ({"pool", "error"},),
    "job created": ({*_OF_BENCHMARKS, "trial", "attempt", "job", "pool", "nodes"},),
    "job deleted": ({*_OF_BENCHMARKS, "job", "found"},),
    "leading": ({"identity"},),
    "lease acquired": ({"lease", "identity"},),
    "lease lost": ({"error"},),
    "lease not written": ({"lease", "error"},),
    "lease released": ({"lease"},),
    "lease taken": ({"lease", "holder"},),
    "lease thread failed": (set(),),
    "no certificate": ({"error"},),
    "no cluster": ({"error"},),
    "nodes not listed": ({"error"},),
    "nodes not read": ({"error"},),
    "plan or ledger not read": ({"benchmark", "error"},),
    "planned": ({*_OF_BENCHMARKS, "points", "trials"},),
    "pods of a node not read": ({"node", "error"},),
    "retried": ({"key", "delay", "error"},),
    "run created": ({"namespace", "schedule", "run"},),
    "scrape not reviewed": ({"error"},),
    "serving": ({"address", "port"},),
    "standing by": ({"lease", "holder"},),
    "status not written": ({"pool", "error"},),
    "uncordoned": ({"node", "cordoned"},),
    "unreadable pool": ({"pool", "error"},),
    "unreadable run": ({"run", "error"},),
    "unreadable status": ({"key", "error"},),
    "waiting for what is needed": ({"error"},),
    "watching failed": ({"error"},),
    "wedged": ({"error"},),
    "workloads not read": ({"namespace", "error"},),
}


class _Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records = list[logging.LogRecord]()

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture(autouse=True)
def each_line_of_the_log_has_its_fields() -> Iterator[None]:
    """Of an operator in this process; what people search by must not go with a slip of the pen."""
    handler, logger = _Kept(), logging.getLogger("gpubench_operator")
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield
    logger.setLevel(level)
    logger.removeHandler(handler)
    for record in handler.records:
        fields = main._fields(record)
        events_about = record.msg.startswith("Events about ")
        known = ({"namespace", "error"},) if events_about else LOGGED[record.getMessage()]
        assert (record.getMessage(), fields.keys() in known) == (record.getMessage(), True), fields
        assert "None" not in fields.values(), fields


class Place:
    """A namespace of the cluster, with the operator serving it."""

    def __init__(self, running: Cluster, operator: installation.Operator, namespace: str) -> None:
        self.cluster = running
        self.operator = operator
        self.namespace = namespace

    def apply(self, body: kube.Object) -> None:
        """What a user does."""
        if body["kind"] != names.POOL_KIND:
            body = {**body, "metadata": {**body["metadata"], "namespace": self.namespace}}
        self.cluster.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(body))

    def patch_spec(self, name: str, **spec: Any) -> None:
        """A change by a user."""
        path = kube.BENCHMARKS.path(namespace=self.namespace, name=name)
        self.cluster.request("PATCH", path, {"spec": spec}, content_type="application/merge-patch+json")

    def all(self, resource: kube.Resource) -> list[kube.Object]:
        """Every object of a kind in this namespace that belongs to gpubench."""
        path = resource.path(namespace=self.namespace)
        answer = self.cluster.request("GET", f"{path}?labelSelector={names.LABEL_MANAGED_BY}%3D{names.MANAGED_BY}")
        found: list[kube.Object] = answer["items"]
        return found

    def entries(self) -> list[dict[str, Any]]:
        """The entries of attempts in the ledger of the only study, oldest first."""
        found = [
            json.loads(text)
            for body in self.all(kube.CONFIG_MAPS)
            if body["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_LEDGER
            for key, text in body["data"].items()
            if key != ledger.NewNodes.key and not key.startswith("environment.")
        ]
        found = [entry for entry in found if entry["jobUid"] or "outcome" in entry]  # else its Job was not taken yet
        return sorted(found, key=lambda entry: int(entry["attempt"]))

    def status(self, name: str) -> dict[str, Any]:
        """The status of a benchmark, with its analysis."""
        try:
            return stored_analysis.of_cluster(partial(self.cluster.request, "GET"), namespace=self.namespace, name=name)
        except ApiError:
            return {}

    def events(self, name: str) -> list[str]:
        """Reasons of the Events about a benchmark."""
        listed = self.cluster.request("GET", kube.EVENTS.path(namespace=self.namespace))["items"]
        return [event["reason"] for event in listed if event["involvedObject"].get("name") == name]

    def said(self, reason: str, *, of: str = "quick") -> list[str]:
        """Messages of the Events of a reason about a benchmark."""
        listed = self.cluster.request("GET", kube.EVENTS.path(namespace=self.namespace))["items"]
        about = [event for event in listed if event["involvedObject"].get("name") == of]
        return [event["message"] for event in about if event["reason"] == reason]

    def running(self) -> list[kube.Object]:
        """Pods that have not ended."""
        return [pod for pod in self.all(kube.PODS) if pod["status"].get("phase") not in ("Succeeded", "Failed")]

    def condition(self, kind: str, *, of: str = "quick") -> tuple[str, str]:
        """Reason and message of a condition, whatever its status; empty where there is none."""
        conditions = self.status(of).get("conditions") or ()
        return next(((one["reason"], one["message"]) for one in conditions if one["type"] == kind), ("", ""))

    def holds(self, name: str, condition: str) -> bool:
        """Whether a condition of a benchmark is True."""
        conditions = self.status(name).get("conditions") or ()
        return any(one["type"] == condition and one["status"] == "True" for one in conditions)

    def wait(self, look: Callable[[], Found], *, what: str, seconds: float = WAIT_SECONDS) -> Found:
        """Until it is so; otherwise an error with the operator's last words.

        An operator that lost its Lease ends itself. In a cluster its Deployment starts it again; here this does.
        """
        deadline = time.monotonic() + seconds
        while True:
            if self.operator.has_ended():
                self.operator.start()
            if found := look():
                return found
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds:g} s\n{self.operator.log.read_text()[-4000:]}")
            time.sleep(0.1)

    def forbid_pods(self) -> str:
        """By a quota, until the object at this path is deleted."""
        return policies.quota(self.cluster, self.namespace, "no-pods", pods="0")

    def end_pods(self, *, exit_code: int = 0, machine: Machine | None = None) -> None:
        """End the pods of pretending nodes that run now, with the result that their trial has."""
        jobs = {kube.uid_of(job): job for job in self.all(kube.JOBS)}
        for pod in self.all(kube.PODS):
            owner = pod["metadata"]["ownerReferences"][0]["uid"]
            if pod["status"].get("phase") != "Running" or owner not in jobs:
                continue
            state = studies.finished_state(jobs[owner], now=0.0, machine=machine)["terminated"]
            annotations = {
                "gpubench.dev/pretend-exit": "0",
                "gpubench.dev/pretend-exit-code": str(exit_code),
                "gpubench.dev/pretend-message": state["message"] if exit_code == 0 else "",
            }
            try:
                self.cluster.request(
                    "PATCH",
                    kube.PODS.path(namespace=self.namespace, name=kube.name_of(pod)),
                    {"metadata": {"annotations": annotations}},
                    content_type="application/merge-patch+json",
                )
            except ApiError as refusal:
                if refusal.status != 404:  # it went with its Job since the list
                    raise

    def end_study(self, name: str, *, machines: Iterator[Machine] | None = None) -> None:
        """End pods until the study has finished. Those that end together were tested on the next of the machines."""

        def finished() -> bool:
            self.end_pods(machine=next(machines) if machines else None)
            return self.holds(name, "Finished")

        self.wait(finished, what=f"{name} finished", seconds=120.0)


@pytest.fixture(scope="session")
def stand_in_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image whose `python` runs the stand-in, whatever it is asked to run."""
    folder = tmp_path_factory.mktemp("stand-in")
    _write_program(folder / "python", Path(stand_in_worker.__file__))
    return Image(path=(folder, "/usr/bin", "/bin"), env=installation.POD_ENVIRONMENT)


@pytest.fixture(scope="session")
def telling_image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    """An image with a program that tells what it was started with."""
    folder = tmp_path_factory.mktemp("telling")
    _write_program(folder / "tell", Path(telling_program.__file__))
    return Image(path=(folder,), env=installation.POD_ENVIRONMENT)


def _write_program(path: Path, script: Path) -> None:
    """A program of an image that is this Python with that script; its own arguments are handed on one by one."""
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{script}" "$@"\n')
    path.chmod(0o755)


@pytest.fixture(scope="module")
def equipped(tmp_path_factory: pytest.TempPathFactory, stand_in_image: Image, telling_image: Image) -> Cluster:
    """A cluster with both kinds of nodes, and gpubench installed."""
    return kept.running(
        "equipped",
        _equipped(tmp_path_factory, {expand.DEFAULT_IMAGE: stand_in_image, studies.TELLING_IMAGE: telling_image}),
    )


@contextlib.contextmanager
def _equipped(tmp_path_factory: pytest.TempPathFactory, images: Mapping[str, Image]) -> Iterator[Cluster]:
    cores = len(os.sched_getaffinity(0))
    capacity = {"cpu": "8", "memory": "64Gi"}
    nodes = [
        *(Node(name=f"pretend-{n}", labels={"pool": "pretend"}, capacity=capacity, pretend=True) for n in range(4)),
        *(Node(name=f"process-{n}", labels=_labels(n), cores=(n % cores,)) for n in range(2)),
        # Tests kill its program: then nobody starts pods, or nobody makes the Node.
        Node(name="silent", labels={"pool": "silent"}, capacity=capacity, pretend=True, program=SILENT),
    ]
    folder = tmp_path_factory.mktemp("operator")
    with Cluster.start(folder / "cluster", nodes=nodes, images=images) as running:
        installation.install(running)
        yield running


def _labels(number: int) -> dict[str, str]:
    """As a cloud labels a node."""
    return {"pool": "process", names.LABEL_INSTANCE_TYPE: "stand-in.large", names.LABEL_ZONE: f"zone-{number}"}


@pytest.fixture(scope="module")
def operator(equipped: Cluster, tmp_path_factory: pytest.TempPathFactory) -> installation.Operator:
    """The operator as a process; tests that kill it start it again."""
    log = tmp_path_factory.mktemp("log") / "operator.log"
    return kept.running("operator", installation.running_operator(equipped, log=log, settings=SETTINGS))


@pytest.fixture
def place(equipped: Cluster, operator: installation.Operator, request: pytest.FixtureRequest) -> Iterator[Place]:
    """A namespace of the test's own, emptied in the end."""
    namespace = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_").lower())[:50].strip("-")
    equipped.kubectl("create", "namespace", namespace)
    found = Place(equipped, operator, namespace)
    found.apply(studies.pool())
    yield found
    bodies = equipped.request("GET", kube.BENCHMARKS.path(namespace=namespace))["items"]
    equipped.kubectl("delete", names.BENCHMARK_PLURAL, "--all", "-n", namespace)
    found.wait(lambda: not found.all(kube.JOBS), what="Jobs gone", seconds=COLLECTED_SECONDS)
    assert [said for body in bodies for said in gang_books.unsaid(body)] == []
