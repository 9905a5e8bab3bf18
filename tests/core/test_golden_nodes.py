# SPDX-License-Identifier: Apache-2.0
"""The golden nodes are what their README says: real ones, each in the half of its source, each with what is expected.

Whether discovery meets the expectation is not asked here yet: the records come first, then the code that reads them.
"""

import hashlib
from pathlib import Path
from typing import Any

import pytest
import yaml

GOLDEN = Path(__file__).parent / "nodes" / "golden"
HALVES = {"first": "01234567", "second": "89abcdef"}
PROVIDERS = {
    *("gke", "eks", "aks", "oke", "coreweave", "nebius", "digitalocean", "lambda", "openstack", "other", "none"),
}
CAPACITIES = {"OnDemand", "Spot", "Preemptible", "Reserved", "FlexStart", "Unknown"}
LEFT_OUT = {
    *("Windows", "ControlPlane", "Leaving", "Starting", "NotReady", "OtherVendor", "Shared", "MixedMIG"),
    *("NoDevicePlugin", "NoGPU"),
}


def records(half: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load((GOLDEN / f"{half}.yaml").read_text())
    return found


@pytest.mark.parametrize("half", HALVES)
def test_a_record_is_in_the_half_of_its_source_and_says_what_is_expected(half: str) -> None:
    for record in records(half):
        source, expected = record["source"], record["expect"]
        assert source.startswith("https://")
        assert hashlib.sha256(source.encode()).hexdigest()[0] in HALVES[half], source
        assert expected.keys() <= {"provider", "gpu", "memory", "pool", "leftOut"}, source
        assert expected["provider"] in PROVIDERS, source
        assert "gpu" in expected, source
        assert ("pool" in expected) != ("leftOut" in expected), source
        assert expected.get("leftOut", "Shared") in LEFT_OUT, source
        if pool := expected.get("pool"):
            assert pool.keys() == {"slots", "resource", "capacity"}, source
            assert pool["capacity"] in CAPACITIES, source
            assert pool["slots"] > 0, source
        node = record["node"]
        assert node.keys() <= {"metadata", "spec", "status"}, source
        offered = node.get("status") or {}
        values = [*(offered.get("allocatable") or {}).values(), *(offered.get("capacity") or {}).values()]
        labels = (node.get("metadata") or {}).get("labels") or {}
        assert all(isinstance(text, str) for text in (*values, *labels.values())), f"{source}: as the API has them"


def test_both_halves_are_large_and_a_source_is_in_one_of_them() -> None:
    sources = [{record["source"] for record in records(half)} for half in HALVES]
    assert not set.intersection(*sources)
    assert min(len(records(half)) for half in HALVES) >= 40
