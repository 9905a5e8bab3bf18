# SPDX-License-Identifier: Apache-2.0
"""One real control plane for the files that need one: it takes seconds to start, so they share it where they can.

It has no nodes; a test that needs some starts a cluster of its own. Tests share it: each keeps to its own namespace or
to dry runs. What may not happen here: a wait without a bound.
"""

import contextlib
from collections.abc import Generator, Iterator

import hypothesis
import pytest

import distribution
import installation
import kept
from cluster import Cluster

hypothesis.settings.register_profile("busy", deadline=None)  # a test asserts no time: the machine may be busy
hypothesis.settings.load_profile("busy")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, object, object]:
    """Clusters that the next file has no use for end here."""
    try:
        return (yield)
    finally:
        kept.end_unneeded(item, nextitem)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    distribution.sort(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> distribution.Scheduling | None:
    """With `--dist loadfile`; any other way is pytest-xdist's own."""
    return distribution.Scheduling(config, log) if config.getvalue("dist") == "loadfile" else None


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
    installation.install_definitions(cluster)
    yield cluster
