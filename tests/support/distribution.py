# SPDX-License-Identifier: Apache-2.0
"""Which tests a worker of xdist takes next: a file, the longest first; what shares a cluster is one piece of work.

A file that is not named here comes after those, in the order of its collection.
"""

from pathlib import Path

import pytest
from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

TESTS = Path(__file__).parents[1]
#: Files on the cluster of operator_edge/conftest.py, which starts once for all of them.
ON_ONE_CLUSTER = tuple(
    f"operator_edge/test_{name}.py"
    for name in (
        "on_a_cluster", "gangs", "drill", "kueue", "doctor", "budget", "api_server_away", "safety",
        "restart", "permissions", "answers",
    )
)  # fmt: skip
#: One that waits for clusters, then one that computes, so that two cores are neither idle nor short. A file of one or
#: two tests is followed by a short one: xdist gives a worker its next file before the last two tests of this one.
LONGEST = (
    *ON_ONE_CLUSTER,
    "operator_edge/test_real_study.py",
    "operator_edge/test_prometheus.py",
    "jobs/test_learning.py",
    "artifacts/test_status.py",
    "chaos/test_chaos.py",
    "cli/test_real_run.py",
    "operator_edge/test_lost_nodes.py",
    "jobs/test_graph_for_gpu.py",
    "charts/test_release.py",
    "jobs/test_launcher.py",
    "fuzz/test_fuzz.py",
    "jobs/test_preemption.py",
    "cluster/test_cluster.py",
    "jobs/test_models.py",
    "chaos/test_schedules.py",
    "cli/test_example_studies.py",
    "jobs/test_reduction.py",
    "jobs/test_custom.py",
    "cli/test_resumed_run.py",
    "operator_edge/test_crash_between_writes.py",
    "cli/test_small_study.py",
    "cluster/test_endings.py",
    "jobs/test_notices.py",
    "jobs/test_parity.py",
)
_PLACES = {name: place for place, name in enumerate(LONGEST)}
for _name in LONGEST:
    assert (TESTS / _name).exists(), f"{__file__}: there is no {_name} any more"


def sort(items: list[pytest.Item]) -> None:
    """In place: those of LONGEST first."""
    items.sort(key=lambda item: _PLACES.get(_name_of(item.nodeid), len(LONGEST)))


def _name_of(nodeid: str) -> str:
    """The last two parts of a file's name, wherever pytest was started."""
    return "/".join(nodeid.partition("::")[0].split("/")[-2:])


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Files, of which some go together."""

    def _split_scope(self, nodeid: str) -> str:
        return ON_ONE_CLUSTER[0] if _name_of(nodeid) in ON_ONE_CLUSTER else str(super()._split_scope(nodeid))
