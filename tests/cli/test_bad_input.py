# SPDX-License-Identifier: Apache-2.0
"""Bad input: one sentence that names the place, exit code 2, nothing on standard output, no traceback."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import command_line
from resealed import text_of

STUDY = (Path(__file__).parents[2] / "jobs/examples/quickstart.yaml").read_text()

AWAY = """\
apiVersion: v1
kind: Config
current-context: away
clusters: [{name: away, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: me, user: {}}]
contexts: [{name: away, context: {cluster: away, user: me}}]
"""
POINT = {
    "workload": "mnist_cnn",
    "pool": "local-cpu",
    "workers": 1,
    "workersPerNode": 1,
    "batchPerWorker": 64,
    "globalBatch": 64,
    "precision": "float32",
    "state": "Pending",
}
SUMMARY = {"schemaVersion": 1, "name": "quickstart", "uid": "u", "machine": "m", "status": {"results": [POINT]}}
PATIENCE_SECONDS = 60.0


def gpubench(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> command_line.Ended:
    """In this process, where an exception that is no refusal fails the test; no cluster, unless the test has one."""
    alone = {"KUBECONFIG": str(folder / "no-kubeconfig")}
    return command_line.called(*arguments, folder=folder, environment={**alone, **(environment or {})})


def refused(*arguments: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """What was said; it is checked that nothing else happened."""
    return told(gpubench(*arguments, folder=folder, environment=environment))


def told(ended: command_line.Ended) -> str:
    """What was said by a command that refused, and did nothing else."""
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""
    return ended.stderr.strip()


def changed(old: str, new: str) -> tuple[str, int]:
    """The quickstart with one change, and the line of it."""
    assert STUDY.count(old) == 1, f"{old!r} must name one place in the quickstart"
    return STUDY.replace(old, new), STUDY[: STUDY.index(old)].count("\n") + 1


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("workers: [1, 2] ", "workers: [0] ", "spec.sweep[0].workers[0]"),
        ("workers: [1, 2] ", "workers: two ", "spec.sweep[0].workers"),
        ("workloads: [mnist_cnn]", "workloads: [mnist_cn]", "spec.sweep[0].workloads[0]"),
        ("batchPerWorker: [64]", "batchPerWorker: [-1]", "spec.sweep[0].batchPerWorker[0]"),
        ("    warmUp: 2s ", "    warmup: 2s ", "spec.measure.warmup"),
        ("    duration: 8s ", "    duration: 8 seconds", "spec.measure.duration"),
        ('perNodeHour: "0.04"', "perNodeHour: 0.04", "spec.price.perNodeHour"),
        ('perNodeHour: "0.04"', 'perNodeHour: "-0.04"', "spec.price.perNodeHour"),
        ('perNodeHour: "0.04"', 'perNodeHour: "40000000"', "price.perNodeHour is more than 10000000"),
        ("currency: USD", "currency: dollars", "spec.price.currency"),
        ("  slotsPerNode: 1 ", "  slotsPerNode: 0 ", "spec.slotsPerNode"),
        ("kind: GpuBenchmark", "kind: GpuBenchmarks", "kind 'GpuBenchmarks': a benchmark file"),
        ("  order: {seed: 7}", "  order: {seed: 7}\n  order: {seed: 8}", "the key 'order' stands here again"),
        ("  order: {seed: 7}", "  order: {seed: 7", "this is not valid YAML"),
        ("  name: quickstart", "  nane: quickstart", "metadata"),
    ],
)  # fmt: skip
def test_a_wrong_study_is_refused_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    text, line = changed(old, new)
    (tmp_path / "study.yaml").write_text(text)
    said = refused("plan", "study.yaml", folder=tmp_path)
    assert len(said.splitlines()) == 1, "one sentence"
    assert says in said
    place = int(said.removeprefix("gpubench: study.yaml:").split(":")[0])
    # A key that stands twice, and a brace that is not closed, show in a line below the change.
    assert line <= place <= line + (1 if "order" in old or "nane" in new else 0) or "nane" in new


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("plan", "-f", "study.yaml"), "study.yaml:1: kind 'Pod'"),
        (("show", "quickstart"), "no cluster is configured"),
        (("measure",), "gpubench: No such command 'measure': see gpubench --help"),
    ],
)
def test_a_process_ends_with_the_code_of_a_refusal_and_without_a_traceback(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    """One of each way out, from the start of the interpreter to its end; all other refusals are called here."""
    (tmp_path / "study.yaml").write_text("kind: Pod\napiVersion: v1\n")
    alone = {"KUBECONFIG": str(tmp_path / "no-kubeconfig")}
    ended = command_line.apart(*arguments, seconds=PATIENCE_SECONDS, folder=tmp_path, environment=alone)
    assert says in told(ended)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("workers: [1, 2] ", "workers: [0] ", "spec.sweep[0].workers[0]"),
        (
            "pools: [local-cpu]",
            "pools: [local-cpu, gke-a100]",
            "spec.sweep[0].pools: there is no GpuPool 'gke-a100' here (there is local-cpu)",
        ),
    ],
)
def test_run_refuses_the_same_way_before_anything_is_started(tmp_path: Path, old: str, new: str, says: str) -> None:
    text, line = changed(old, new)
    (tmp_path / "study.yaml").write_text(text)
    assert f"study.yaml:{line}: {says}" in refused("run", "study.yaml", folder=tmp_path)
    assert not (tmp_path / "results").exists()


def test_a_benchmark_without_any_pool_says_that_there_is_none(tmp_path: Path) -> None:
    text, _ = changed("workers: [1, 2] ", "workers: [1, 2] ")
    (tmp_path / "study.yaml").write_text(text.rpartition("---\n")[2])
    said = refused("run", "study.yaml", folder=tmp_path)
    assert "there is no GpuPool 'local-cpu' here (there is none): add it to the file" in said


@pytest.mark.usefixtures("horovod")
def test_a_suspended_study_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY.replace("  order: {seed: 7}", "  suspend: true\n  order: {seed: 7}"))
    assert "quickstart does not start: it is suspended: set spec.suspend" in refused(
        "run", "study.yaml", folder=tmp_path
    )


def test_several_problems_are_told_at_once(tmp_path: Path) -> None:
    text = STUDY.replace("  slotsPerNode: 1 ", "  slotsPerNode: 0 ").replace(
        "batchPerWorker: [64]", "batchPerWorker: [0]"
    )
    (tmp_path / "study.yaml").write_text(text)
    said = refused("plan", "study.yaml", folder=tmp_path).splitlines()
    assert len(said) == 2
    assert "slotsPerNode" in said[0]
    assert "batchPerWorker" in said[1]
    (tmp_path / "study.yaml").write_text(f"{text}---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{}}\n")
    *before, last = refused("plan", "study.yaml", folder=tmp_path).splitlines()
    assert before == said
    assert "metadata.name: Field required" in last


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "there is no such file"),
        (b"", "the file is empty"),
        (b"\xff\xfe\x00", "not a text file in UTF-8"),
        (b"just a line", "this is no Kubernetes object"),
        (b"a: [1\nb: 2\n", "study.yaml:2:2: this is not valid YAML"),
        (b"\tkind: GpuPool\n", "this is not valid YAML"),
        (b"apiVersion: v1\nkind: Pod\n", "study.yaml:2: kind 'Pod'"),
        (b"apiVersion: gpubench.dev/v2\nkind: GpuPool\n", "study.yaml:1: apiVersion is 'gpubench.dev/v2'"),
        (b"x: !!python/object:os.system {}\n", "this is not valid YAML"),
        (b"{[1,2]: 3}\n", "study.yaml:1:2: this is not valid YAML: a key must be text"),
        (b"a: 0x_\n", "study.yaml:1:4: this is not valid YAML: '0x_' cannot be read as int"),
        (b"a: !!int abc\n", "study.yaml:1:4: this is not valid YAML: 'abc' cannot be read as int"),
        (b"a: !!int ''\n", "study.yaml:1:4: this is not valid YAML: '' cannot be read as int"),
        (b"a: !!bool abc\n", "study.yaml:1:4: this is not valid YAML: 'abc' cannot be read as bool"),
        (b"a: " + b"1" * 5000, "study.yaml:1:4: this is not valid YAML: '111"),
        (b"[" * 1500 + b"]" * 1500, "study.yaml:1:102: this is not valid YAML: more than 100 levels"),
        (b"a: &b [1, *b]\n", "study.yaml:1:11: this is not valid YAML: the value contains itself"),
    ],
)
def test_a_file_that_is_no_study(tmp_path: Path, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / "study.yaml").write_bytes(content)
    said = refused("run", "study.yaml", folder=tmp_path)
    assert len(said.splitlines()) == 1
    assert says in said


def test_a_folder_is_no_study(tmp_path: Path) -> None:
    assert ".: the folder's .yaml, .yml, .json is empty" in refused("run", ".", folder=tmp_path)


def test_several_benchmarks_need_a_choice(tmp_path: Path) -> None:
    second = STUDY[STUDY.rindex("---\n") :].replace("name: quickstart", "name: other")
    (tmp_path / "study.yaml").write_text(STUDY + second)
    assert "choose one with --name (quickstart, other)" in refused("plan", "study.yaml", folder=tmp_path)
    assert "there is no benchmark 'third'" in refused("plan", "study.yaml", "--name", "third", folder=tmp_path)
    assert gpubench("plan", "study.yaml", "--name", "other", folder=tmp_path).returncode == 0


def test_a_name_is_given_once(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY + STUDY[STUDY.rindex("---\n") :])
    said = refused("plan", "study.yaml", folder=tmp_path)
    assert "'quickstart' is already the name of the object at study.yaml:" in said
    line = STUDY.count("\n") + 1 + STUDY[STUDY.rindex("---\n") :].partition("metadata:")[0].count("\n") + 1
    assert said.startswith(f"gpubench: study.yaml:{line}: metadata.name: ")


@pytest.mark.usefixtures("horovod")
def test_a_results_folder_that_is_in_use_is_not_written_to(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep me")
    assert "full is not empty" in refused("run", "study.yaml", "--results", "full", folder=tmp_path)


def test_a_folder_without_results_is_said_to_be_one(tmp_path: Path) -> None:
    assert "this is no results folder" in refused("show", str(tmp_path), folder=tmp_path)


def test_a_results_folder_of_another_version_is_refused(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_text(text_of(SUMMARY | {"schemaVersion": 9}))
    said = "schemaVersion: it is 9, and this gpubench reads 1: use the gpubench that wrote it"
    assert said in refused("show", str(tmp_path), folder=tmp_path)


def test_a_results_folder_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "status.json").write_bytes(b"\xff\xfe")
    assert len(refused("show", str(tmp_path), folder=tmp_path).splitlines()) == 1


@pytest.mark.parametrize("output", ["table", "csv"])
def test_a_results_folder_without_its_study_can_be_shown(tmp_path: Path, output: str) -> None:
    (tmp_path / "status.json").write_text(text_of(SUMMARY))
    ended = gpubench("show", str(tmp_path), "-o", output, folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "mnist_cnn" in ended.stdout


@pytest.mark.parametrize(
    ("study", "says"),
    [(None, "study.yaml: there is no such file"), ("a: [", "study.yaml:1:5: this is not valid YAML")],
)
def test_programs_are_told_that_the_study_is_missing(tmp_path: Path, study: str | None, says: str) -> None:
    (tmp_path / "status.json").write_text(text_of(SUMMARY))
    if study is not None:
        (tmp_path / "study.yaml").write_text(study)
    said = refused("show", str(tmp_path), "-o", "json", folder=tmp_path)
    assert says in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("study", ["- 1", "3", "kind: GpuBenchmark", "kind: GpuBenchmark\nmetadata: 3"])
def test_a_study_that_was_changed_to_something_else_has_no_spec(tmp_path: Path, study: str) -> None:
    (tmp_path / "status.json").write_text(text_of(SUMMARY))
    (tmp_path / "study.yaml").write_text(study)
    ended = gpubench("show", str(tmp_path), "-o", "json", folder=tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")


def test_no_cluster_is_configured(tmp_path: Path) -> None:
    said = refused("show", "quickstart", folder=tmp_path)
    assert said.startswith("gpubench: there is no results folder quickstart here, and no cluster is configured")
    assert "no cluster is configured" in refused("watch", "quickstart", folder=tmp_path)


def test_a_plan_that_needs_pools_of_a_cluster_says_that_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "study.yaml").write_text(STUDY[STUDY.rindex("---\n") :])
    said = refused("plan", "study.yaml", folder=tmp_path)
    assert "1 pool not in the files, nor read from a cluster: GpuPool local-cpu: no cluster is configured" in said


@pytest.mark.parametrize(
    "content",
    [
        "foo: [",
        "- 1",
        "3",
        "clusters: 3",
        "a: 0x_",
        "[" * 1500,
        AWAY.replace("{cluster: away, user: me}", "3"),
        AWAY.replace('"http://127.0.0.1:9"', "3"),
        AWAY.replace("users: [", "users: [{}, "),
    ],
)
@pytest.mark.parametrize("command", ["show", "watch"])
def test_a_wrong_kubeconfig(tmp_path: Path, command: str, content: str) -> None:
    (tmp_path / "kubeconfig").write_text(content)
    said = refused(command, "quickstart", folder=tmp_path, environment={"KUBECONFIG": str(tmp_path / "kubeconfig")})
    assert len(said.splitlines()) == 1
    assert "the kubeconfig cannot be read" in said or "no cluster is configured" in said


def test_no_cluster_answers(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(AWAY)
    said = refused("show", "quickstart", folder=tmp_path, environment={"KUBECONFIG": str(kubeconfig)})
    assert len(said.splitlines()) == 1
    assert "the cluster at http://127.0.0.1:9 does not answer" in said
    assert "refused" in said


def test_as_a_plugin_of_kubectl_it_is_called_so(tmp_path: Path) -> None:
    plugin = tmp_path / "kubectl-gpubench"
    plugin.write_text(f"#!{sys.executable}\nimport sys\nfrom gpubench_cli.__main__ import main\nsys.exit(main())\n")
    plugin.chmod(0o755)
    ended = subprocess.run([plugin, "plan", "nothing.yaml"], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stderr) == (2, "kubectl gpubench: nothing.yaml: there is no such file\n")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("measure",), "gpubench: No such command 'measure': see gpubench --help"),
        (("shw",), "gpubench: No such command 'shw'. Did you mean 'show'?: see gpubench --help"),
        (("run",), "gpubench run: Missing argument 'FILE.yaml', or --resume DIR: see gpubench run --help"),
        (("run", "x", "--resume", "y"), "gpubench run: --resume DIR takes all but --volume from DIR"),
        (("plan",), "gpubench plan: Missing argument 'FILE.yaml': see gpubench plan --help"),
        (
            ("show", "x", "--kubeconfig", "y"),
            "gpubench show: Invalid value for '--kubeconfig': File 'y' does not exist",
        ),
        (("show", "x", "-o", "xml"), "gpubench show: Invalid value for '-o' / '--output': 'xml' is not one of"),
        (("show", "x", "--bil"), "gpubench show: No such option '--bil'"),
        (("plan", "x", "--scale", "2"), "gpubench plan: Invalid value for '--scale': 2.0 is not in the range 0<x<=1"),
    ],
)
def test_wrong_arguments_are_one_message_with_the_name_and_the_value(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    said = refused(*arguments, folder=tmp_path)
    assert said.startswith(says)
    assert len(said.splitlines()) == 1


def test_without_arguments_the_commands_are_listed_where_errors_go(tmp_path: Path) -> None:
    assert "show results, from the cluster or from results folders" in refused(folder=tmp_path)
