# SPDX-License-Identifier: Apache-2.0
"""Whatever stands in a status or a results folder does nothing to the terminal of whoever looks at it."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import builders
import measured
import terminals
from gpubench.report.tables import Column, Table
from gpubench.scheduler.actions import Event
from gpubench_cli import __main__ as program
from gpubench_cli import cluster, results, show, terminal

#: Clears the screen, sets the title, rings, writes over its line; then C1's own form of ESC [, and text that turns.
HOSTILE = "\x1b[2J\x1b]0;owned\x07x\rsafe\x9b31m\u202e"
CONTROLS = frozenset(map(chr, (*range(0x20), *range(0x7F, 0xA0)))) - set("\n\t")


def hostile_folder(path: Path) -> Path:
    """Results of a study in which every text that is free is hostile."""
    price = {"per_node_hour": "0.36", "currency": "USD", "as_of": "2026-11-01", "source": f"read {HOSTILE}"}
    plan = builders.plan(builders.spec(), builders.pool(price=price))
    folder = measured.folder(path, plan, {0: (10.0, 10.1, 9.9)}, name="two")
    summary = results.read_summary(folder)
    points = tuple(
        point.model_copy(update={"reason": f"pod said {HOSTILE}", "accelerator": HOSTILE})
        for point in summary.status.results
    )
    status = summary.status.model_copy(update={"results": points, "answer": f"take {HOSTILE}"})
    results.ResultsFolder(folder).write(summary.model_copy(update={"status": status}))
    return folder


@pytest.mark.parametrize("output", ["table", "json", "yaml", "csv"])
def test_a_results_folder_from_elsewhere_moves_no_cursor(
    tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = hostile_folder(tmp_path / "two")
    assert program.main(("show", str(folder), "-o", output)) == 0
    shown = capsys.readouterr().out
    assert "safe" in shown, "the text is there"
    assert not CONTROLS & set(shown)
    if output == "json":
        assert json.loads(shown)["studies"][0]["status"]["answer"].startswith("take ")


@pytest.mark.parametrize("command", ["show", "report"])
def test_nor_on_a_real_terminal(tmp_path: Path, command: str) -> None:
    """Where colours are allowed: none but the program's own."""
    folder = hostile_folder(tmp_path / "two")
    more = {"report": ("--out", str(tmp_path / "report.html")), "show": ()}[command]
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gpubench_cli", command, str(folder), *more], stdin=slave, stdout=slave, stderr=slave
    )
    os.close(slave)
    said = b""
    while True:
        try:
            chunk = os.read(master, 1 << 16)
        except OSError:  # EIO: the other end is closed
            break
        if not chunk:
            break
        said += chunk
    os.close(master)
    assert process.wait() == 0, said
    for hostile in (b"\x1b[2J", b"\x1b]0;", b"\x07", b"x\rsafe", b"\xc2\x9b"):
        assert hostile not in said


def test_nothing_that_is_written_told_or_tabled_is_a_control_character(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.write(f"a {HOSTILE}")
    terminal.tell(f"b {HOSTILE}")
    columns = (Column(title=f"[red]{HOSTILE}"), Column(title="other"))
    terminal.print_table(Table(columns=columns, rows=((f"c {HOSTILE}", "d"),), notes=(f"e {HOSTILE}",)))
    terminal.Progression(name="test").line(f"f {HOSTILE}")
    found = capsys.readouterr()
    assert not CONTROLS & set(found.out + found.err)
    assert "[red]" in found.out, "nor is it taken for rich's own markup"
    assert [line[0] for line in found.err.splitlines()] == ["b", "f"]


def test_a_hostile_status_of_the_cluster_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    condition = {"type": "GangPending", "status": "True", "reason": "Unschedulable", "message": f"pod {HOSTILE}"}
    condition["lastTransitionTime"] = "2026-11-01T00:00:00Z"
    show.show_status(
        "two", "namespace lab", cluster.read_status({"phase": "Running", "conditions": [condition]}, name="t")
    )
    assert not CONTROLS & set(capsys.readouterr().out)


def test_lines_of_a_paragraph_on_a_terminal_hang_where_they_are_told_to() -> None:
    said = terminals.shown(lambda: terminal.say("ok  three of four nodes are ready", hang="    "), columns=20)
    assert said.splitlines() == ["ok  three of four", "    nodes are ready"]


def test_a_line_that_ends_ends_on_a_terminal_too() -> None:
    said = terminals.shown(lambda: terminal.say("of one pool\nof another pool"), columns=40)
    assert said.splitlines() == ["of one pool", "of another pool"]


def test_letters_of_any_language_are_themselves_in_a_document(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.write_document({"answer": "größer, 測"})
    assert "größer, 測" in capsys.readouterr().out


def test_a_table_that_is_too_wide_is_written_row_by_row(capsys: pytest.CaptureFixture[str]) -> None:
    columns = (Column(title="POOL"), Column(title="SAMPLES/S", numeric=True))
    terminal._write_records(Table(columns=columns, rows=(("a", "1,700"), ("b", ""))))
    assert capsys.readouterr().out == "POOL       a\nSAMPLES/S  1,700\n\nPOOL       b\n"


def test_figures_stand_under_the_end_of_their_title_and_words_under_its_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    columns = (Column(title="POOL", numeric=False), Column(title="SAMPLES/S", numeric=True))
    terminal.print_table(Table(columns=columns, rows=(("a", "1,700"), ("b100", "17"))))
    assert capsys.readouterr().out.splitlines() == ["POOL  SAMPLES/S", "a         1,700", "b100         17"]


def test_the_bar_of_a_benchmark_counts_the_trials_that_have_finished() -> None:
    status = cluster.read_status({"phase": "Running", "trials": {"total": 6, "finished": 4}}, name="two")

    def call() -> None:
        with terminal.Progression(name="two") as progression:
            progression.progressed(status, None)

    assert "4/6 trials" in terminals.shown(call, columns=100)


def test_a_warning_that_comes_again_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with terminal.Progression(name="test") as progression:
        for message in ("a", "b", "a", "a"):
            progression.happened(Event(type="Warning", reason="X", message=message))
        for _ in range(2):
            progression.happened(Event(type="Normal", reason="X", message="c"))
    assert capsys.readouterr().err.splitlines() == ["warning: a", "warning: b", "c", "c", "warning, 3 times: a"]


def test_a_column_of_prose_is_folded_as_far_as_its_longest_word_goes() -> None:
    table = Table(columns=(Column(title="A"),), rows=(("word word",),))
    assert terminal._drawn(table, 4) is not None
    assert terminal._drawn(table, 3) is None


def test_of_several_columns_of_prose_the_widest_is_folded() -> None:
    columns = (Column(title="A"), Column(title="B"))
    drawn = terminal._drawn(Table(columns=columns, rows=(("some more words of prose", "and a few words"),)), 37)
    assert drawn is not None
    assert [column.no_wrap for column in drawn.columns] == [False, True]
