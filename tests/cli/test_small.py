# SPDX-License-Identifier: Apache-2.0
"""`--scale` and `--pool`: what is printed for a cluster is what is run here, and both are valid objects."""

from pathlib import Path

import pytest
import yaml

from gpubench.plan.expand import freeze
from gpubench_cli import __main__ as program
from gpubench_cli import documents, run
from gpubench_cli.machine import Gpu, Machine

JOBS = Path(__file__).parents[2] / "jobs"
STUDIES = sorted([*(JOBS / "examples").glob("*.yaml"), *(JOBS / "studies").glob("*.yaml")])
QUICKSTART = Path(__file__).parents[2] / "jobs/examples/quickstart.yaml"
KERAS = Path(__file__).parents[2] / "jobs/studies/keras-2017.yaml"


def said(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert program.main(arguments) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.stem)
def test_the_small_form_of_every_study_is_a_study_of_all_of_its_workloads(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = said(capsys, "plan", str(study), "--scale", "0.01", "--pool", "local-cpu", "-o", "yaml")
    (tmp_path / "small.yaml").write_text(printed)
    found, whole = documents.read(tmp_path / "small.yaml"), documents.read(study)
    benchmark, original = found.benchmark(None), whole.benchmark(None)
    assert benchmark.name == f"{original.name}-small"
    assert [pool.name for pool in found.pools] == ["local-cpu"]
    assert found.config_maps == whole.config_maps
    assert {name for block in benchmark.spec.sweep for name in block.workloads} == {
        name for block in original.spec.sweep for name in block.workloads
    }
    plan = freeze(benchmark.spec, found.pools, "2026-11-01T00:00:00Z")
    assert {point.key.workers for point in plan.points} <= {1, 2}
    assert len(plan.trials) == sum(point.skip is None for point in plan.points)


def test_the_pool_of_the_file_comes_before_the_built_in_one(capsys: pytest.CaptureFixture[str]) -> None:
    pool, _ = yaml.safe_load_all(said(capsys, "plan", str(QUICKSTART), "--pool", "local-cpu", "-o", "yaml"))
    assert pool["spec"]["slot"]["memory"] == "1536Mi"


def test_this_machine_as_a_pool() -> None:
    here = Machine(name="here", cores=(4, 5, 6, 7), memory_bytes=10 * 2**30, gpus=(Gpu(name="NVIDIA H200", entry="0"),))
    spec = run.local_cpu(here).spec
    assert (spec.slots_per_node, spec.max_nodes, spec.slot.gpu_resource) == (4, 1, None)
    assert (spec.slot.cpu, spec.slot.memory) == ("1", "2048Mi")
    assert not spec.exclusive_nodes, "an attempt leaves the processors to others that it does not use"


def test_the_pool_alone_keeps_the_studys_name_and_batches(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "plan", str(KERAS), "--pool", "local-cpu")
    assert out.startswith("keras-2017: 6 points, ")
    assert "small form" not in out


def test_the_scale_alone_keeps_the_pools(capsys: pytest.CaptureFixture[str]) -> None:
    printed = said(capsys, "plan", str(QUICKSTART), "--scale", "0.01", "-o", "yaml")
    _, study = yaml.safe_load_all(printed)
    assert study["spec"]["sweep"][0]["workers"] == [1, 2]


def test_what_is_adapted_is_written_as_people_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = QUICKSTART.read_text(encoding="utf-8")
    source = next(line for line in text.splitlines() if line.startswith("    source: "))
    (tmp_path / "study.yaml").write_text(text.replace(source, "    source: Übliche Preisliste"), encoding="utf-8")
    printed = said(capsys, "plan", str(tmp_path / "study.yaml"), "--scale", "0.01", "-o", "yaml")
    assert "    source: Übliche Preisliste\n" in printed


def test_a_reader_is_told_that_it_is_the_small_form(capsys: pytest.CaptureFixture[str]) -> None:
    out = said(capsys, "plan", str(KERAS), "--scale", "0.01", "--pool", "local-cpu")
    assert out.startswith("keras-2017-small: 6 points, 6 trials\n")
    assert "keras-2017-small is the small form of keras-2017 (scale 0.01): its figures show that it runs" in out
    assert "Estimated from FLOPs (6 points)" in out
    assert "Generated 600" in out


def test_a_small_form_says_what_it_is() -> None:
    file = documents.read(QUICKSTART)
    small = run.adapt(file, file.benchmark(None), file.pools, scale=0.01, pool=None)
    assert small.benchmark.name == "quickstart-small"
    assert (small.sentence or "").startswith("quickstart-small is the small form of quickstart (scale 0.01): ")


def test_the_text_of_a_folder_is_that_of_each_of_its_files(tmp_path: Path) -> None:
    pool, study = QUICKSTART.read_text(encoding="utf-8").split("---\n")[-2:]
    (tmp_path / "pool.yaml").write_text(pool, encoding="utf-8")
    (tmp_path / "study.yaml").write_text(study, encoding="utf-8")
    found = documents.read_yaml(tmp_path, documents.read(tmp_path).text)
    assert [one.content["kind"] for one in found] == ["GpuPool", "GpuBenchmark"]


def test_an_unknown_pool_is_refused_with_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    told = said(capsys, "plan", str(QUICKSTART), "--pool", "remote", code=2)
    assert "--pool remote: there is no such pool here: choose one of local-cpu" in told


_OUT, _NONE = "not in the range 0<x<=1: see gpubench plan --help", "number: see gpubench plan --help"
_NONE_AT_ALL = "Invalid value for '--scale': 'nan' is no number: see gpubench plan --help"


@pytest.mark.parametrize(
    ("scale", "sentence"), [("0", _OUT), ("2", _OUT), ("-1", _OUT), ("small", _NONE), ("nan", _NONE_AT_ALL)]
)
def test_a_scale_is_above_0_and_up_to_1(scale: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["plan", str(QUICKSTART), f"--scale={scale}"]) == 2
    assert sentence in capsys.readouterr().err
