# SPDX-License-Identifier: Apache-2.0
"""The short form of `make chaos-schedules`: five minutes of a clock that is set further, and some kills."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import chaos_schedules
import chaos_still_clock
import installation
from chaos_schedules import Disturbed
from cluster import Cluster
from gpubench_cluster import kube
from gpubench_operator import observe

MINUTES = 5
SEED = 20261122


@pytest.fixture
def disturbed(tmp_path: Path) -> Iterator[Disturbed]:
    clock = tmp_path / "clock"
    with Cluster.start(tmp_path / "cluster") as cluster:
        settings = {**chaos_schedules.SETTINGS, chaos_still_clock.CLOCK_FILE: str(clock)}
        kubeconfig = installation.install(cluster)
        operator = installation.Operator(kubeconfig, log=tmp_path / "operator.log", settings=settings)
        operator.program = (chaos_still_clock.__file__,)
        found = Disturbed(cluster, operator, namespace="default", clock=clock)
        found.apply()
        (body,) = cluster.request("GET", kube.SCHEDULES.path())["items"]
        created = observe.seconds(body["metadata"]["creationTimestamp"])
        assert created is not None
        chaos_schedules.write(clock, created + 0.5)  # no moment of a schedule
        operator.start()
        try:
            yield found
        finally:
            operator.stop()


def test_kills_at_random_moments_make_exactly_the_right_runs_and_none_twice(disturbed: Disturbed) -> None:
    found = chaos_schedules.stepped(disturbed, minutes=MINUTES, source=random.Random(SEED))
    assert found.kills >= 2
    assert found.faults() == []
