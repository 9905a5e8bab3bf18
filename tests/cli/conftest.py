# SPDX-License-Identifier: Apache-2.0
"""What the tests of local runs need: without it they fail, and say what to do. Skipped tests would show nothing.

Real runs take a minute; their folders are made once and only read. A test that changes one copies it.
"""

import importlib.util
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

import command_line
import measured
import once
import quickstart
from gpubench.plan.expand import freeze
from gpubench_cli import documents

#: Measured: 70 s on two idle cores; six times as much for a machine that compiles beside it.
PATIENCE_SECONDS = 420.0
TRAINED = """\
apiVersion: gpubench.dev/v1alpha1
kind: GpuBenchmark
metadata: {name: trained}
spec:
  sweep:
    - workloads: [mnist_mlp]
      pools: [local-cpu]
      workers: [2]
      batchPerWorker: [32]
      data: {source: Generated, samples: 2000}
      epochs: 3
  measure: {mode: Training, repeats: {min: 1}}
  goals: [{name: much, workload: mnist_mlp, samples: 60000000}]
"""


class Ran(NamedTuple):
    """What a run of a study left behind."""

    folder: Path
    stdout: str

    @classmethod
    def read(cls, place: Path) -> "Ran":
        return cls(place / "found", (place / "stdout").read_text())


@pytest.fixture(scope="session")
def horovod() -> None:
    """Present, or the test fails."""
    assert importlib.util.find_spec("horovod"), "Horovod is not installed: run `make horovod`"


@pytest.fixture(scope="session")
def two_cores() -> None:
    """Two pods are pinned to processors of their own; with one they could not be placed."""
    usable = len(os.sched_getaffinity(0))
    assert usable >= 2, f"two pods need two processors and {usable} may be used here: run the tests on two or more"


@pytest.fixture(scope="session")
def shortened_quickstart() -> str:
    """The quickstart with three repeats, as it is, and shorter ones."""
    return quickstart.shortened(warm_up="0s", duration="1s")


@pytest.fixture(scope="session")
def real_run(
    shortened_quickstart: str, tmp_path_factory: pytest.TempPathFactory, horovod: None, two_cores: None
) -> Ran:
    """The quickstart with real ranks, against results of another machine."""
    del horovod, two_cores

    def make(folder: Path) -> None:
        baseline = of_another_machine(shortened_quickstart, folder)
        run_study(shortened_quickstart, folder, "--against", str(baseline))

    return Ran.read(once.made(tmp_path_factory, "quickstart", make))


@pytest.fixture(scope="session")
def real_folder(real_run: Ran) -> Path:
    """The results folder of that run."""
    return real_run.folder


@pytest.fixture
def recorded_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same of an earlier run, for tests that start no program; what its pods said besides is made up."""
    folder = tmp_path_factory.mktemp("recorded") / "quickstart"
    shutil.copytree(Path(__file__).with_name("recorded_results") / "quickstart", folder)
    for log in folder.glob("logs/*.jsonl"):
        log.with_suffix(".err").write_text("the gang is complete\nthe model is built\n")
    return folder


@pytest.fixture(scope="session")
def trained_folder(
    shortened_quickstart: str, tmp_path_factory: pytest.TempPathFactory, horovod: None, two_cores: None
) -> Path:
    """The results folder of a training of two real ranks, on the quickstart's pool."""
    del horovod, two_cores
    pool = shortened_quickstart[: shortened_quickstart.rindex("---\n")]
    made = once.made(tmp_path_factory, "training", lambda folder: run_study(f"{pool}---\n{TRAINED}", folder))
    return Ran.read(made).folder


def of_another_machine(text: str, folder: Path) -> Path:
    """Results of the quickstart that are said to be a million times as fast, in another environment."""
    (folder / "study.yaml").write_text(text)
    found = documents.read(folder / "study.yaml")
    plan = freeze(found.benchmark(None).spec, found.pools, "2026-11-01T00:00:00Z")
    rates = dict.fromkeys((0, 1), (1e9, 1.01e9, 0.99e9))
    return measured.folder(folder / "other-machine", plan, rates, environment="elsewhere")


def run_study(text: str, folder: Path, *options: str) -> None:
    """What `Ran` reads."""
    (folder / "study.yaml").write_text(text)
    places = (str(folder / "study.yaml"), *options, "--results", str(folder / "found"))
    ended = command_line.apart("run", *places, seconds=PATIENCE_SECONDS)
    assert ended.returncode == 0, ended.stderr
    (folder / "stdout").write_text(ended.stdout)
