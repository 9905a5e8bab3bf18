# SPDX-License-Identifier: Apache-2.0
"""Volumes on one machine: one study file works with and without a cluster, and what has no files is not run."""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

import builders
from gpubench.api.pod_template import Volume
from gpubench.api.point_result import PointState
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.scheduler import capacity
from gpubench.scheduler.observed import Study
from gpubench_cli import __main__ as program
from gpubench_cli import documents, local, machine, run
from gpubench_cli.documents import ConfigMap
from gpubench_cli.local import Place
from gpubench_cli.machine import Machine, Sources
from gpubench_cli.results import ResultsFolder
from gpubench_cli.terminal import CliError, Progression

STAND_IN = Path(__file__).with_name("stand_in_launcher.py")
POOL = {
    "apiVersion": "gpubench.dev/v1alpha1",
    "kind": "GpuPool",
    "metadata": {"name": "cpu"},
    "spec": {"slotsPerNode": 1, "maxNodes": 1, "slot": {"cpu": "1", "memory": "1Mi"}},
}
MODELS = {"name": "models", "mountPath": "/models", "configMap": {"name": "models"}}
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "models", "namespace": "ml"}}


def study_document(block: dict[str, Any], *mounted: dict[str, Any]) -> dict[str, Any]:
    spec = {
        "sweep": [block],
        "measure": {"repeats": {"min": 1}},
        "template": {"volumes": list(mounted)},
    }
    metadata = {"name": "quick"}
    return {"apiVersion": "gpubench.dev/v1alpha1", "kind": "GpuBenchmark", "metadata": metadata, "spec": spec}


def own(command: list[str]) -> dict[str, Any]:
    return builders.block(workloads=["Custom"], custom={"name": "mine", "command": command}, workers=[1])


def write(folder: Path, *found: dict[str, Any]) -> Path:
    path = folder / "study.yaml"
    path.write_text(yaml.safe_dump_all(found))
    return path


def of_volume(*mounted: dict[str, Any], path: str = "/data/mnist") -> tuple[Study, Plan]:
    block = builders.block(workers=[1], data={"source": "Volume", "path": path})
    spec = builders.spec(block, template={"volumes": list(mounted)})
    return builders.study(spec), builders.plan(spec)


def test_a_program_in_a_config_map_of_the_file_runs_in_place_of_the_launcher(tmp_path: Path) -> None:
    config_map = {**CONFIG_MAP, "data": {"mine.py": STAND_IN.read_text()}}
    path = write(tmp_path, config_map, POOL, study_document(own(["python", "/models/mine.py", "succeed"]), MODELS))
    read = documents.read(path)
    study = documents.as_study(read.benchmark(None), now=time.time())
    here = Machine(name="here", cores=tuple(sorted(os.sched_getaffinity(0))), memory_bytes=2**40)
    sources = Sources(config_maps=read.config_maps)
    plan = run.as_here(study, freeze(study.spec, read.pools, "2026-11-01T00:00:00Z"), here=here, sources=sources)
    folder = ResultsFolder.create(tmp_path / "results", study_text="{}", plan=plan)
    place = Place(machine=here, command=("false",), folder=folder, scratch=tmp_path / "scratch", sources=sources)
    status = local.LocalRun(study, plan, place=place, reporter=Progression(name="test")).run()
    assert [point.state for point in status.results] == [PointState.MEASURED]
    (log,) = (tmp_path / "results/logs").glob("*.jsonl")
    assert json.loads(log.read_text().splitlines()[0])["environment"]["GPUBENCH_ASSIGNMENT"]


def test_paths_below_a_mount_path_become_those_of_the_folder(tmp_path: Path) -> None:
    study, plan = of_volume({"name": "data", "mountPath": "/data", "hostPath": {"path": str(tmp_path)}})
    assert len(machine.skip_what_has_no_folder(study, plan, Sources()).trials) == 3
    assignment = capacity.gang_of(plan, plan.trials[0], attempt=1).assignment
    mounted = study.spec.template.volumes
    local_path = partial(machine.local_path, volumes=mounted, sources=Sources(), scratch=tmp_path)
    told = machine.in_place(assignment, local_path)
    assert told.data.path == str(tmp_path / "mnist")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/data", "/srv/outer"),
        ("/data/mnist/x", "/srv/outer/mnist/x"),
        ("/data/inner/x", "/srv/inner/x"),  # the innermost of both
        ("/database", "/database"),
        ("python", "python"),
    ],
)
def test_a_path_belongs_to_the_innermost_volume(tmp_path: Path, path: str, expected: str) -> None:
    mounted = tuple(
        Volume.model_validate({"name": name, "mountPath": where, "persistentVolumeClaim": {"claimName": "c"}})
        for name, where in (("outer", "/data"), ("inner", "/data/inner"))
    )
    sources = Sources(given={"outer": Path("/srv/outer"), "inner": Path("/srv/inner")})
    assert machine.local_path(path, mounted, sources=sources, scratch=tmp_path) == expected


@pytest.mark.parametrize("word", ["python", "python3"])
def test_python_is_the_one_that_runs(word: str) -> None:
    found = machine.command_in_place([word, "python"], lambda path: path)
    assert found == (sys.executable, "python")


def test_a_given_folder_comes_first(tmp_path: Path) -> None:
    volume = Volume.model_validate({"name": "data", "mountPath": "/data", "hostPath": {"path": "/nowhere"}})
    sources = Sources(given={"data": tmp_path})
    assert sources.place(volume) == tmp_path


@pytest.mark.parametrize(
    ("volume", "sentence"),
    [
        ({"hostPath": {"path": "/no/such/folder"}}, "volume data is /no/such/folder, no folder here"),
        ({"configMap": {"name": "sets"}}, "volume data is ConfigMap sets, which is not in the benchmark file"),
        ({"persistentVolumeClaim": {"claimName": "sets"}}, "volume data is a PersistentVolumeClaim, and there is no"),
    ],
)
def test_a_point_without_its_files_is_skipped_with_a_sentence(volume: dict[str, Any], sentence: str) -> None:
    study, plan = of_volume({"name": "data", "mountPath": "/data", **volume})
    judged = machine.skip_what_has_no_folder(study, plan, Sources())
    assert judged.trials == ()
    (skip,) = (point.skip for point in judged.points)
    assert skip is not None
    assert skip.startswith(sentence)
    assert skip.endswith("give a folder with --volume data=FOLDER")


def test_a_path_that_is_nowhere_is_skipped_and_one_of_this_machine_is_taken(tmp_path: Path) -> None:
    study, plan = of_volume(path="/no/such/folder")
    (point,) = machine.skip_what_has_no_folder(study, plan, Sources()).points
    assert point.skip == "/no/such/folder is below no volume's mountPath, and not on this machine: correct the path"
    study, plan = of_volume(path=str(tmp_path))
    assert machine.skip_what_has_no_folder(study, plan, Sources()) == plan


def test_a_command_needs_the_volumes_that_it_names() -> None:
    spec = builders.spec(own(["python", "/models/mine.py"]), template={"volumes": [MODELS]})
    study, plan = builders.study(spec), builders.plan(spec)
    assert machine.skip_what_has_no_folder(study, plan, Sources()).trials == ()
    there = Sources(config_maps=(ConfigMap.model_validate(CONFIG_MAP),))
    assert machine.skip_what_has_no_folder(study, plan, there) == plan


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["data"], "write the volume's name and a folder"),
        (["data=/no/such/folder"], "there is no folder /no/such/folder"),
        (["data=/", "data=/"], "the folder of data is given twice"),
    ],
)
def test_a_folder_that_cannot_be_meant_is_refused(options: list[str], sentence: str) -> None:
    with pytest.raises(CliError, match=sentence):
        machine.given_volumes(options)


def test_a_folder_for_a_volume_that_nobody_has_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, POOL, study_document(builders.block(workers=[1]), MODELS))
    assert program.main(("run", "--volume", f"model={tmp_path}", str(path))) == 2
    assert "--volume model: the benchmark has models: correct the name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"data": {"a.py": 1}}, "study.yaml:3: data.a.py: Input should be a valid string"),
        ({"data": {"a/b.py": ""}}, "String should match pattern"),
        ({"binaryData": {"a.bin": "&"}}, "binaryData.a.bin: Value error, Only base64 data"),
        ({"datta": {}}, "datta: Extra inputs are not permitted"),
        ({"metadata": {}}, "metadata.name: Field required"),
        ({"data": ["a"]}, "data: Input should be a valid dictionary"),
    ],
)
def test_a_config_map_that_a_cluster_would_refuse_refuses_the_file(
    tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    path = write(tmp_path, {**CONFIG_MAP, **fields})
    with pytest.raises(CliError) as refusal:
        documents.read(path)
    assert sentence in str(refusal.value)


def test_a_config_maps_binary_file_is_what_was_encoded(tmp_path: Path) -> None:
    path = write(tmp_path, {**CONFIG_MAP, "binaryData": {"a.bin": "AAH/\n"}})
    (config_map,) = documents.read(path).config_maps
    config_map.write(tmp_path / "folder")
    assert (tmp_path / "folder/a.bin").read_bytes() == b"\x00\x01\xff"
