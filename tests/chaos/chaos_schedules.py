# SPDX-License-Identifier: Apache-2.0
"""kill -9 of the operator at random moments while a schedule runs every minute: exactly the right runs, none twice.

    python tests/chaos/chaos_schedules.py --minutes 10 --seed 1     in real time (`make chaos-schedules`)

The short form, a test, does the same under a clock that stands still until it is set a minute further, so that ten
minutes take as long as the kills do. What is right follows from CronJob's rules: the operator is never away for as long
as a minute, so there is one run for each. They are counted from the audit log of the API server, where a benchmark that
was created and removed again shows, too. The study has nothing that its pool could run, and so ends at once, goes into
the history, and is removed; what a run does in between other tests show.
"""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import installation
import studies
from cluster import Cluster
from gpubench import names
from gpubench.schedule import history
from gpubench_cluster import kube

MINUTE = 60
NAME = "often"
KEPT = 2
LEASE = {"GPUBENCH_LEASE_SECONDS": "6", "GPUBENCH_LEASE_RENEW_SECONDS": "5", "GPUBENCH_LEASE_RETRY_SECONDS": "0.5"}
SETTINGS = {**LEASE, "GPUBENCH_LOG_FORMAT": "text", "GPUBENCH_RESYNC_SECONDS": "1"}
WAIT_SECONDS = 60.0
LEADING = " leading identity="


class Found(NamedTuple):
    """What a disturbed schedule has come to, in scheduled minutes."""

    expected: tuple[int, ...]
    created: tuple[int, ...]  # in order, with whatever came twice
    archived: tuple[int, ...]
    left: tuple[int, ...]
    kills: int

    def faults(self) -> list[str]:
        """What must not be."""
        found = []
        if self.created != self.expected:
            found.append(f"created were {self.created}, and right are {self.expected}")
        if self.archived != self.expected:
            found.append(f"in the history are {self.archived}, and right are {self.expected}")
        if self.left != self.expected[-KEPT:]:
            found.append(f"kept were {self.left}, and right are {self.expected[-KEPT:]}")
        return found


class Disturbed:
    """A schedule in a namespace, and the operator that is killed."""

    def __init__(
        self, cluster: Cluster, operator: installation.Operator, *, namespace: str, clock: Path | None
    ) -> None:
        self.cluster = cluster
        self.operator = operator
        self.namespace = namespace
        self.clock = clock  # None: the machine's own
        self.kills = 0
        self._led = 0

    def now(self) -> float:
        """The operator's time."""
        return time.time() if self.clock is None else float(self.clock.read_text())

    def apply(self) -> None:
        """The pool and the schedule."""
        for path, body in (
            (kube.POOLS.path(), studies.pool("nowhere", maxNodes=1)),
            (kube.SCHEDULES.path(namespace=self.namespace), schedule()),
        ):
            self.cluster.request("POST", path, body)

    def advance(self, minute: int, *, source: random.Random) -> None:
        """Under the clock that stands still: to a moment within a minute, with a kill at a random moment after it."""
        assert self.clock is not None
        write(self.clock, minute * MINUTE + source.uniform(0.2, 50.0))
        if source.random() < 0.6:
            time.sleep(source.uniform(0.0, 1.5))
            self.kill()
        self.wait(lambda: minute in self.created(), what=f"the run of minute {minute}")

    def kill(self) -> None:
        """kill -9, and a new process as a Deployment would start it."""
        self._led = self.operator.log.read_text().count(LEADING)
        self.operator.kill()
        self.kills += 1
        self.operator.start()

    def suspend(self) -> None:
        """No further runs."""
        path = kube.SCHEDULES.path(namespace=self.namespace, name=NAME)
        self.cluster.request("PATCH", path, {"spec": {"suspend": True}}, content_type="application/merge-patch+json")

    def created(self) -> list[int]:
        """Scheduled minutes of the benchmarks that were really created, from the audit log."""
        return [
            minute_of(event["objectRef"]["name"])
            for event in self.cluster.audit_events()
            if event["verb"] == "create"
            and event["stage"] == "ResponseComplete"
            and (event["objectRef"]["resource"], event["objectRef"].get("namespace"))
            == (names.BENCHMARK_PLURAL, self.namespace)
            and event["responseStatus"]["code"] == 201
        ]

    def archived(self) -> list[int]:
        """Those in the history."""
        listed = self._items(kube.CONFIG_MAPS, f"{names.LABEL_COMPONENT}%3D{names.COMPONENT_HISTORY}")
        return [minute_of(entry.name) for entry in history.read(body.get("data") or {} for body in listed)]

    def left(self) -> list[int]:
        """Those that are there."""
        return sorted(minute_of(kube.name_of(body)) for body in self._items(kube.BENCHMARKS, names.LABEL_SCHEDULE))

    def found(self, expected: tuple[int, ...]) -> Found:
        """What it has come to when the operator had the time to finish."""

        def settled() -> bool:
            return len(self.archived()) >= len(expected) and len(self.left()) <= KEPT

        with contextlib.suppress(AssertionError):  # what is wrong then is told by the faults
            self.wait(settled, what="the history")
        return Found(expected, tuple(self.created()), tuple(self.archived()), tuple(self.left()), self.kills)

    def wait(self, look: Callable[[], bool], *, what: str) -> None:
        """Until it is so; an operator that has lost its Lease ends, and is started again."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not look():
            if self.operator.has_ended():
                self.operator.start()
            assert time.monotonic() < deadline, f"{what}: not within {WAIT_SECONDS:g} s"
            time.sleep(0.2)

    def _items(self, resource: kube.Resource, selector: str) -> list[kube.Object]:
        path = f"{resource.path(namespace=self.namespace)}?labelSelector={selector}"
        found: list[kube.Object] = self.cluster.request("GET", path)["items"]
        return found


def schedule() -> kube.Object:
    """Every minute; its pool has room for none of its points."""
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["nowhere"], "workers": [64], "batchPerWorker": [64]}]
    spec = {
        "schedule": "* * * * *",
        "successfulHistoryLimit": KEPT,
        "failedHistoryLimit": KEPT,
        "benchmarkTemplate": {"spec": {"sweep": sweep}},
    }
    return {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "metadata": {"name": NAME}, "spec": spec}


def minute_of(name: str) -> int:
    return int(name.rpartition("-")[2])


def write(path: Path, moment: float) -> None:
    """At once: a reader finds the old or the new one."""
    beside = path.with_suffix(".new")
    beside.write_text(f"{moment}")
    beside.rename(path)


def stepped(disturbed: Disturbed, *, minutes: int, source: random.Random) -> Found:
    """The short form."""
    first = int(disturbed.now() // MINUTE) + 1
    for minute in range(first, first + minutes):
        disturbed.advance(minute, source=source)
    return disturbed.found(tuple(range(first, first + minutes)))


def in_real_time(disturbed: Disturbed, *, minutes: int, source: random.Random) -> Found:
    """The long form: kills all the time, until so many minutes have begun, and one more in peace."""
    first = int(time.time() // MINUTE) + 1
    end = first + minutes
    while (now := time.time()) < end * MINUTE - 20:
        time.sleep(min(source.uniform(0.5, 25.0), max(0.0, end * MINUTE - 20 - now)))
        disturbed.kill()
        print(
            f"{time.strftime('%H:%M:%S')} killed {disturbed.kills} times, {len(disturbed.created())} runs", flush=True
        )
    while time.time() < end * MINUTE - 5:
        time.sleep(1)
    disturbed.suspend()  # or the next minute would begin while it is counted
    return disturbed.found(tuple(range(first, end)))


@contextlib.contextmanager
def place(folder: Path) -> Iterator[tuple[Cluster, installation.Operator]]:
    """A cluster of its own, and the operator."""
    with Cluster.start(folder / "cluster") as cluster:
        operator = installation.Operator(installation.install(cluster), log=folder / "operator.log", settings=SETTINGS)
        operator.start()
        try:
            yield cluster, operator
        finally:
            operator.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, place(Path(folder)) as (cluster, operator):
        disturbed = Disturbed(cluster, operator, namespace="default", clock=None)
        disturbed.apply()
        found = in_real_time(disturbed, minutes=options.minutes, source=random.Random(options.seed))
    for fault in found.faults():
        print(f"FAULT: {fault}")
    print(f"{len(found.created)} runs in {len(found.expected)} minutes, {found.kills} kills, seed {options.seed}")
    return 1 if found.faults() else 0


if __name__ == "__main__":
    sys.exit(main())
