# SPDX-License-Identifier: Apache-2.0
"""One real control plane for all tests of a session that need one: it takes seconds to start, so it starts once.

It has no nodes; a test that needs some starts a cluster of its own. Tests share it: each keeps to its own namespace or
to dry runs. What may not happen here: a wait without a bound.
"""

import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from cluster import ApiError, Cluster
from gpubench import names

ROOT = Path(__file__).resolve().parents[1]
hypothesis.settings.register_profile("busy", deadline=None)  # a test asserts no time: the machine may be busy
hypothesis.settings.load_profile("busy")
SERVED_TIMEOUT_SECONDS = 30.0  # an API server serves a new definition within two; a loaded machine takes longer


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A running API server with its controllers, without our definitions."""
    with Cluster.start(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="session")
def served_api(control_plane: Cluster) -> Cluster:
    """The same, serving GpuPool and GpuBenchmark as the chart defines them."""
    control_plane.kubectl("apply", "-f", str(ROOT / "charts/gpubench/files/crds"))
    deadline = time.monotonic() + SERVED_TIMEOUT_SECONDS
    for plural in (names.POOL_PLURAL, names.BENCHMARK_PLURAL):
        while not _is_served(control_plane, plural):
            assert time.monotonic() < deadline, f"{plural} was not served within {SERVED_TIMEOUT_SECONDS:g} s"
            time.sleep(0.1)
    return control_plane


def _is_served(cluster: Cluster, plural: str) -> bool:
    try:
        cluster.request("GET", f"/apis/{names.API_VERSION}/{plural}")
    except ApiError as refusal:
        if refusal.status in (404, 429):  # unknown as yet; known, but its storage is being made
            return False
        raise
    return True
