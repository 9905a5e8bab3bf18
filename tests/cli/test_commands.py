# SPDX-License-Identifier: Apache-2.0
"""The commands as a whole: their groups and examples, what a shell completes, and which files they read."""

import subprocess
from pathlib import Path

import click
import pytest

import command_line
from gpubench_cli import VERSION
from gpubench_cli import __main__ as program

EXAMPLES = Path(__file__).parents[2] / "jobs/examples"
QUICKSTART = EXAMPLES / "quickstart.yaml"


def commands() -> list[tuple[str, click.Command]]:
    found = []
    for name in program.gpubench.list_commands(click.Context(program.gpubench)):
        command = program.gpubench.get_command(click.Context(program.gpubench), name)
        assert command is not None
        found.append((name, command))
        if isinstance(command, click.Group):
            found += [(f"{name} {below}", one) for below, one in command.commands.items()]
    return found


@pytest.mark.parametrize(("words", "command"), commands(), ids=[words for words, _ in commands()])
def test_every_help_has_an_example_that_can_be_parsed(words: str, command: click.Command) -> None:
    shown = command_line.called(*words.split(), "--help").stdout
    examples = [line.split() for line in shown.splitlines() if line.strip().startswith(f"gpubench {words}")]
    assert examples, shown
    options = {option for one in command.params for option in one.opts} | {
        option for one in getattr(command, "commands", {}).values() for below in one.params for option in below.opts
    }
    used = {word for example in examples for word in example if word.startswith("-") and word != "-"}
    assert used <= options


def test_the_help_says_what_may_be_given_as_a_file() -> None:
    shown = " ".join(command_line.called("plan", "--help").stdout.split())
    assert "gpubench plan [OPTIONS] FILE.yaml" in shown
    assert "- is standard input, a folder all of its .yaml, .yml and .json files" in shown


def test_the_help_has_each_command_once_in_a_group() -> None:
    shown = command_line.called("--help").stdout.splitlines()
    begin = shown.index("Begin:")
    listed = [line.split()[0] for line in shown[begin:] if line[:2] == "  " and line[2:3].strip() and line[3:4].strip()]
    assert sorted(set(program._COMMANDS) - set(listed)) == []
    assert "Results:" in shown


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_is_told_how_to_complete(shell: str) -> None:
    ended = command_line.called("completion", shell)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"_GPUBENCH_COMPLETE={shell}_complete" in ended.stdout
    checked = {"bash": ["bash", "-n"]}.get(shell)
    if checked is not None:
        assert subprocess.run(checked, input=ended.stdout, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("words", "first", "directive"),
    [
        (["sus"], "suspend\tstop a benchmark, or a schedule's runs, until it is resumed", ":4"),
        (["completion", "f"], "fish\t", ":4"),
        (["list", "--all"], "--all-namespaces\tobjects of all namespaces", ":4"),
        (["validate", ""], ":0", ":0"),
    ],
)
def test_kubectl_is_told_what_may_come_next(
    words: list[str], first: str, directive: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["kubectl_complete-gpubench", *words])
    program.complete()
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == (first, directive)


def test_the_version_of_the_client_needs_no_cluster() -> None:
    ended = command_line.called("version", "--client")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, f"gpubench: {VERSION}\n", "")


def test_a_file_may_be_standard_input() -> None:
    text = QUICKSTART.read_text()
    by_name = command_line.called("plan", str(QUICKSTART)).stdout
    for arguments in (("plan", "-"), ("plan", "-f", "-")):
        assert command_line.called(*arguments, stdin=text).stdout == by_name
    ended = command_line.called("validate", "-f", "-", stdin=text)
    assert ended.stdout == "-: valid: GpuPool local-cpu, GpuBenchmark quickstart\n"
    ended = command_line.called("validate", "-", stdin=text.replace("workers:", "wrokers:"))
    assert ended.returncode == 2
    assert "gpubench: -:" in ended.stderr


def test_a_file_may_be_a_folder(tmp_path: Path) -> None:
    pool, benchmark = (f"apiVersion{part}" for part in QUICKSTART.read_text().split("\napiVersion")[1:])
    (tmp_path / "b.yml").write_text(pool)
    (tmp_path / "a.yaml").write_text(benchmark)
    (tmp_path / "README.md").write_text("no YAML")
    ended = command_line.called("validate", "-f", str(tmp_path))
    assert ended.stdout == f"{tmp_path}: valid: GpuPool local-cpu, GpuBenchmark quickstart\n"
    (tmp_path / "c.json").write_text("{}")
    ended = command_line.called("plan", str(tmp_path))
    assert ended.returncode == 2
    assert f"{tmp_path}/c.json:1: no kind" in ended.stderr
