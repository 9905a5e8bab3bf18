# SPDX-License-Identifier: Apache-2.0
"""One real control plane for the files that need one: it takes seconds to start, so they share it where they can.

It has no nodes; a test that needs some starts a cluster of its own. Tests share it: each keeps to its own namespace or
to dry runs. What may not happen here: a wait without a bound.
"""

import contextlib
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import hypothesis
import pytest

import kept
from cluster import ApiError, Cluster
from gpubench import names

ROOT = Path(__file__).resolve().parents[1]
hypothesis.settings.register_profile("busy", deadline=None)  # a test asserts no time: the machine may be busy
hypothesis.settings.load_profile("busy")
SERVED_TIMEOUT_SECONDS = 30.0  # an API server serves a new definition within two; a loaded machine takes longer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Clusters that the next file has no use for end here."""
    try:
        return (yield)
    finally:
        kept.end_unneeded(item, nextitem)


def pytest_sessionfinish() -> None:
    """Also where somebody interrupted the tests."""
    kept.end_all()


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A running API server with its controllers; whether it knows our definitions is not said."""
    return kept.running("control_plane", _control_plane(tmp_path_factory))


@contextlib.contextmanager
def _control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster.start(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture(scope="module")
def served_api(control_plane: Cluster) -> Cluster:
    """The same, serving GpuPool and GpuBenchmark as the chart defines them."""
    return kept.running("served_api", _serving(control_plane))


@contextlib.contextmanager
def _serving(cluster: Cluster) -> Iterator[Cluster]:
    cluster.kubectl("apply", "-f", str(ROOT / "charts/gpubench/files/crds"))
    deadline = time.monotonic() + SERVED_TIMEOUT_SECONDS
    for plural in (names.POOL_PLURAL, names.BENCHMARK_PLURAL):
        while not _is_served(cluster, plural):
            assert time.monotonic() < deadline, f"{plural} was not served within {SERVED_TIMEOUT_SECONDS:g} s"
            time.sleep(0.1)
    yield cluster


def _is_served(cluster: Cluster, plural: str) -> bool:
    try:
        cluster.request("GET", f"/apis/{names.API_VERSION}/{plural}")
    except ApiError as refusal:
        if refusal.status in (404, 429):  # unknown as yet; known, but its storage is being made
            return False
        raise
    return True
