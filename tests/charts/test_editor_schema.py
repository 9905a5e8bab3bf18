# SPDX-License-Identifier: Apache-2.0
"""The JSON Schema for editors takes what the API server takes, and marks what it would not, as kubeconform reads it."""

import subprocess
from pathlib import Path

import pytest

import helm_programs

ROOT = Path(__file__).parents[2]
SCHEMA = ROOT / "docs/reference/gpubench.schema.json"
QUICKSTART = (ROOT / "jobs/examples/quickstart.yaml").read_text()


def conforms(*paths: Path) -> tuple[int, str]:
    program = str(helm_programs.build()["kubeconform"])
    command = [program, "-strict", "-schema-location", str(SCHEMA), *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def test_every_example_conforms() -> None:
    pools = (one for one in (ROOT / "jobs/examples/pools").glob("*.yaml"))
    assert conforms(*(ROOT / "jobs/examples").glob("*.yaml"), *(ROOT / "jobs/studies").glob("*.yaml"), *pools) == (
        0,
        "",
    )


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("workers: [1, 2]", "wrokers: [1, 2]", "additional properties 'wrokers' not allowed"),
        ("maxNodes: 2 ", "maxNodes: two ", "got string, want integer"),
        ("capacityType: OnDemand", "capacityType: Ondemand", "value must be one of"),
        ("kind: GpuPool", "kind: GpuPol", "at '/kind'"),
        ('cpu: "1"  ', "cpu: [1]  ", "want integer or string"),
    ],
)
def test_a_slip_is_marked(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert QUICKSTART.count(old) == 1
    (tmp_path / "b.yaml").write_text(QUICKSTART.replace(old, new))
    code, out = conforms(tmp_path / "b.yaml")
    assert code == 1
    assert says in out


def test_amounts_may_be_numbers(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(QUICKSTART.replace('cpu: "1"', "cpu: 1"))
    assert conforms(tmp_path / "b.yaml") == (0, "")
