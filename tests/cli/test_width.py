# SPDX-License-Identifier: Apache-2.0
"""On a real terminal no line is over its width, and no number is broken: each is one of those that a pipe has."""

import contextlib
import io
import shutil
import types
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest

import builders
import command_line
import measured
import terminals
from gpubench.analysis import answer, status
from gpubench.analysis.preflight import Finding, State
from gpubench.api.benchmark_status import Analysis
from gpubench_cli import __main__ as program
from gpubench_cli import cluster, machine, results, show

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).parent / "recorded_results"
STUDIES = ROOT / "jobs/studies"
#: Short names in the folder of the test: paths are never broken, and a long one would be over any width.
LINKS = {
    "quickstart": RECORDED / "quickstart",
    "own-model": RECORDED / "own-model",
    "studies": STUDIES,
    "schedules": ROOT / "jobs/examples/schedules",
}
OFFLINE: Mapping[str, tuple[str, ...]] = {
    "show": ("show", "quickstart"),
    "show of a training": ("show", "own-model"),
    "show of an import": ("show", "imported"),
    "show of many points": ("show", "many", "--bill"),
    "show of some rows": ("show", "many", "--sort", "-SAMPLES/S", "--top", "3", "--pool", "desktop"),
    "show --bill": ("show", "quickstart", "--bill"),
    "import": ("import", "studies/tweets-2018.yaml", "studies/published/tweets-2018.csv", "--out", "new"),
    "explain": ("explain", "quickstart", "row=2"),
    "advise": ("advise", "quickstart", "--samples", "60000000"),
    "reprice": ("reprice", "quickstart", "--pools", "quickstart/study.yaml"),
    "compare": ("compare", "a", "b"),
    "compare of nothing": ("compare", "quickstart", "own-model"),
    "verify": ("verify", "quickstart", "own-model"),
    "plan": ("plan", "studies/keras-2017.yaml"),
    "plan --summary": ("plan", "studies/parkopedia-2018.yaml", "--summary"),
    "plan of a schedule": ("plan", "schedules/recurring-task-gke.yaml"),
    "validate": ("validate", "studies/keras-2017.yaml", "studies/tweets-2018.yaml"),
    "validate of what is wrong": ("validate", "wrong.yaml"),
    "run of what needs GPUs": ("run", "studies/tweets-2018.yaml", "--results", "new"),
    "workloads": ("workloads",),
    "workloads NAME": ("workloads", "resnet50_v1.5"),
    "report": ("report", "quickstart", "--out", "report.html"),
    "history judge": ("history", "judge", "series.csv"),
}
WRONG = """\
apiVersion: gpubench.dev/v1alpha1
kind: GpuBenchmark
metadata: {name: wrong}
spec: {sweep: [{workloads: [resnet51], pools: [p], workers: [1], batchPerWorker: [1], nodeSelector: {a: b}}]}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("width")
    for name, target in LINKS.items():
        (folder / name).symlink_to(target)
    (folder / "wrong.yaml").write_text(WRONG)
    rows = (
        f"{1_700_000_000 + 3600 * n},{speed}"
        for n, speed in enumerate((1000, 1003, 997, 1001, 999, 1002, 998, 1000, 1001, 800, 803, 799, 801))
    )
    (folder / "series.csv").write_text("\n".join(("time,value", *rows)))
    plan = builders.plan(builders.spec(), builders.pool())
    for name, speed in (("a", 1000.0), ("b", 1100.0)):
        measured.folder(folder / name, plan, {0: (speed, speed + 10, speed - 10)}, name="two")
    with contextlib.chdir(folder):
        for name, study in (("imported", "keras-2017"), ("many", "parkopedia-2018")):
            asked = (f"studies/{study}.yaml", f"studies/published/{study}.csv", "--out", name)
            assert command_line.called("import", *asked).returncode == 0
        yield folder


@pytest.mark.parametrize("what", OFFLINE)
def test_offline(what: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "busy", lambda: None)  # what else runs is another thing each time
    arguments = OFFLINE[what]
    shutil.rmtree(place / "new", ignore_errors=True)
    piped = command_line.called(*arguments)
    assert not [line for line in piped.stdout.splitlines() if line != line.rstrip()], "no blanks at the end of a line"
    whole = piped.stdout + piped.stderr
    if what.startswith("show"):
        whole += command_line.called(*arguments, "-o", "wide").stdout
    for columns in terminals.WIDTHS:
        shutil.rmtree(place / "new", ignore_errors=True)
        terminals.judge(lambda: program.main(arguments), whole, columns=columns)


@pytest.mark.parametrize("columns", terminals.WIDTHS)
def test_the_summary_that_a_status_has(columns: int, place: Path) -> None:
    found = results.read_summary(place / "many").status.results
    shown = status.findings(Analysis(results=found, answer=answer.answer(found))).shown

    def call() -> None:
        show.show_status("two", "namespace lab", shown)

    with contextlib.redirect_stdout(io.StringIO()) as whole:
        call()
    terminals.judge(call, whole.getvalue(), columns=columns)


def commands(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    """Every command, and groups before theirs."""
    yield before
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command, *before, name)
        else:
            yield *before, name


@pytest.mark.parametrize("arguments", list(commands(program.gpubench)), ids=" ".join)
def test_help(arguments: tuple[str, ...]) -> None:
    whole = command_line.called(*arguments, "--help").stdout
    for columns in (80, 120):
        terminals.judge(lambda: program.main((*arguments, "--help")), whole, columns=columns)


@pytest.mark.parametrize("columns", terminals.WIDTHS)
def test_doctor(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    there = types.SimpleNamespace(host="https://10.0.0.1:6443")
    monkeypatch.setattr(cluster, "connect", lambda _: contextlib.nullcontext(there))
    remedy = "update the cluster to Kubernetes 1.33 or newer: Jobs of gangs need successPolicy, and pods its deadline"
    found = [Finding(area=area, state=State.WARNING, says=remedy, remedy=remedy) for area in ("API server", "pools")]
    monkeypatch.setattr(cluster, "examine", lambda *_, **__: found)
    terminals.judge(lambda: program.main(["doctor"]), command_line.called("doctor").stdout, columns=columns)


def test_what_rows_have_in_common_is_above_them_and_a_row_without_room_is_a_record(place: Path) -> None:
    def table(columns: int, *more: str) -> list[str]:
        text = terminals.shown(lambda: program.main(("show", str(place / "quickstart"), *more)), columns=columns)
        return text[text.index("WORKLOAD") :].split("\n\n")

    common, rows, *_ = table(80)
    assert common.split()[:7] == ["WORKLOAD", "mnist_cnn,", "POOL", "local-cpu,", "BATCH", "64,", "PRECISION"]
    assert [line.split()[0] for line in rows.splitlines()] == ["WORKERS", "1", "2"]
    _, first, second, *_ = table(50)
    assert [line.split("  ")[0] for line in first.splitlines()] == [
        "WORKERS",
        "SAMPLES/S",
        "EFFICIENCY",
        "COST/M SAMPLES",
    ]
    assert "760 (500–1,160)" in second
    assert all("local-cpu" in line for line in table(80, "-o", "wide")[0].splitlines()[1:]), "wide has all of a row"
