# SPDX-License-Identifier: Apache-2.0
"""What a person sees: results on standard output, progress and errors on standard error; and how a command ends early.

On a terminal there is a progress bar; elsewhere plain lines, one for each event, that a log can keep. On a terminal
prose is wrapped and tables fit into its width; elsewhere a paragraph is a line, and so is a row with all its columns.
Must not happen: a control character from anybody's text; a colour in a pipe; a number that is broken or cut off; a
traceback for anything but our own mistakes.
"""

import csv
import io
import json
import math
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

import click
import yaml
from rich import progress as bars
from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from gpubench.analysis import text
from gpubench.api.benchmark_status import BenchmarkProgress
from gpubench.report import tables
from gpubench.report.tables import Table
from gpubench.sanitize import printable
from gpubench.scheduler.actions import Event, Gang
from gpubench.units import workers_text

EXIT_DONE = 0
EXIT_STUDY_FAILED = 1
EXIT_BAD_INPUT = 2  # also: no cluster, no permission; nothing was tried
EXIT_SIGNAL = 128  # plus the signal's number, as shells have it


def exit_code(succeeded: bool) -> int:
    return EXIT_DONE if succeeded else EXIT_STUDY_FAILED


class CliError(Exception):
    """Bad input, or a place that does not answer: the messages go to stderr, the exit code is 2."""

    def __str__(self) -> str:
        return "\n".join(self.args)


class Stopped(click.exceptions.Exit):
    """A signal asked for the end, and everything has been put in order."""


@contextmanager
def writing(path: Path, what: str) -> Iterator[None]:
    """CliError where a file cannot be written; `what` it belongs to."""
    try:
        yield
    except OSError as error:
        raise CliError(f"{path}: {what} cannot be written there: {error.strerror}") from error


_ENDLESS = 100_000  # columns of a page where there is no terminal
_PROSE_LINES = 5  # the most that a cell of prose is wrapped to
_IN_A_FIGURE = re.compile(r"(?<=\d) (?=[(±%])|(?<=±) |(?<=\b[A-Z]{3}) (?=\d)")
_NUMBER = re.compile(r"\d[\d,]*\.?\d*")
_NO_BREAK = "\N{NO-BREAK SPACE}"
_REFRESH_PER_SECOND = 1.0  # the machine that draws is the machine that measures
_PACE_SECONDS = 86_400.0  # of which the pace of trials is taken: one may last for hours


def write(text: str) -> None:
    """Text that is a result, as it is."""
    shown = printable(text)
    sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")
    sys.stdout.flush()


def write_document(document: object, *, output: str = "json") -> None:

    if output == "yaml":
        write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    else:
        write(json.dumps(document, indent=2, ensure_ascii=False))


def csv_text(fields: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    found = io.StringIO()
    writer = csv.DictWriter(found, fieldnames=fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return found.getvalue()


def say(text: str, *, hang: str = "") -> None:
    """Prose that is a result; further lines of a paragraph begin with `hang`."""
    write(_wrapped(text, sys.stdout, hang=hang))


def tell(text: str) -> None:
    """Prose that is none."""
    sys.stderr.write(f"{_wrapped(text, sys.stderr)}\n")
    sys.stderr.flush()


def _wrapped(text: str, stream: TextIO, *, hang: str = "") -> str:
    """At the terminal's width, if it is one: between words, for a path is copied as a whole, and never in a figure."""
    text = printable(text)
    if not stream.isatty():
        return text
    fill = partial(textwrap.fill, width=Console(file=stream).width, break_long_words=False, break_on_hyphens=False)
    lines = _IN_A_FIGURE.sub(_NO_BREAK, text).split("\n")
    indents = (hang or line[: len(line) - len(line.lstrip())] for line in lines)
    filled = (fill(line, subsequent_indent=indent) for line, indent in zip(lines, indents, strict=True))
    return "\n".join(filled).replace(_NO_BREAK, " ")


def print_tables(found: Iterable[Table], *, wide: bool = False) -> None:
    for number, table in enumerate(found):
        if number:
            write("")
        print_table(table, wide=wide)


def print_table(table: Table, *, wide: bool = False) -> None:
    """A table with its notes, on standard output. On a terminal it fits, unless it is to be `wide`.

    What all rows have in common is above it then. Where the rest does not fit, columns for `wide` are left out, and
    where that is not enough, each row is a record.
    """
    is_page = sys.stdout.isatty() and not wide
    console = Console(file=sys.stdout, highlight=False, width=None if is_page else _ENDLESS)
    common, table = tables.without_constants(table) if is_page else ("", table)
    if common:
        say(common)
        write("")
    if (drawn := _drawn(table, console.width)) is None:
        table = tables.picked(table, [index for index, column in enumerate(table.columns) if not column.wide])
        drawn = _drawn(table, console.width)
    if drawn is None:
        _write_records(table)
    else:
        with console.capture() as page:
            console.print(drawn)
        sys.stdout.writelines(f"{line.rstrip()}\n" for line in page.get().splitlines())
    if table.notes:
        say("\n".join(("", *table.notes)))


def _drawn(table: Table, width: int) -> RichTable | None:
    """Whole cells, but for those of one column of prose; None where they need more than the width."""
    titles = [printable(column.title) for column in table.columns]
    if 2 * len(titles) + sum(map(len, titles)) > width:
        titles = [title.replace(" ", "\n") for title in titles]
    rows = [[printable(cell) for cell in row] for row in table.rows]
    columns = list(zip(titles, *rows, strict=True))
    widths = [max(cell_len(line) for cell in cells for line in cell.split("\n")) for cells in columns]
    excess = sum(widths) + 2 * len(widths) - 2 - width
    folded = None
    if excess > 0:
        longest = [max(len(word) for cell in cells for word in (*cell.split(), "")) for cells in columns]
        room = [
            index
            for index, column in enumerate(table.columns)
            if not column.numeric and widths[index] - excess >= max(longest[index], widths[index] // _PROSE_LINES)
        ]
        if (folded := max(room, key=widths.__getitem__, default=None)) is None:
            return None
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for index, column in enumerate(table.columns):
        side: Literal["right", "left"] = "right" if column.numeric else "left"
        drawn.add_column(Text(titles[index]), justify=side, no_wrap=index != folded)
    for row in rows:
        drawn.add_row(*map(Text, row))
    return drawn


def _write_records(table: Table) -> None:
    """Each row as lines of a title and its cell; nothing of what is not known."""
    width = max(len(column.title) for column in table.columns)
    records = (
        "\n".join(
            f"{column.title:<{width}}  {cell}"
            for column, cell in zip(table.columns, row, strict=True)
            if cell not in ("", text.UNDEFINED)
        )
        for row in table.rows
    )
    say("\n\n".join(records), hang=" " * (width + 2))


class View(NamedTuple):
    """Which rows of a table are shown, in which order, and which columns."""

    wide: bool = False
    pool: str | None = None
    sort: str | None = None  # a title; with - before it the largest comes first
    top: int | None = None
    columns: tuple[str, ...] = ()

    def rows(self, found: Table) -> list[int]:
        """Their numbers; those without a figure to sort by come last."""
        numbers = list(range(len(found.rows)))
        if self.sort is not None:
            descending, index = self.sort.startswith("-"), _index(found, self.sort.removeprefix("-"))
            keys: list[Any] = [row[index] for row in found.rows]
            if found.columns[index].numeric:
                figures = [_NUMBER.search(cell) for cell in keys]
                last = -math.inf if descending else math.inf
                keys = [last if one is None else float(one[0].replace(",", "")) for one in figures]
            numbers.sort(key=keys.__getitem__, reverse=descending)
        return numbers[: self.top]

    def of(self, found: Table) -> Table:
        kept = found.model_copy(update={"rows": tuple(found.rows[number] for number in self.rows(found))})
        return tables.picked(kept, [_index(kept, title) for title in self.columns]) if self.columns else kept


def _index(found: Table, title: str) -> int:
    titles = [column.title for column in found.columns]
    if title.strip().upper() not in titles:
        raise CliError(f"there is no column {title.strip()!r}: there are {', '.join(titles)}")
    return titles.index(title.strip().upper())


class Progression:
    """A benchmark as it goes on: a bar on a terminal, lines elsewhere."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._counts = ""  # before a line, once they are known
        self._warned: Counter[str] = Counter()
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(bar_width=24),
            bars.MofNCompleteColumn(),
            bars.TextColumn("trials"),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            console=Console(stderr=True, highlight=False),
            refresh_per_second=_REFRESH_PER_SECOND,
            speed_estimate_period=_PACE_SECONDS,
            redirect_stdout=False,
            redirect_stderr=False,
            disable=not sys.stderr.isatty(),
        )
        self._task = self._bar.add_task(escape(printable(name)), total=None)

    def __enter__(self) -> "Progression":
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        for message, count in self._warned.items():
            if count > 1:
                self.line(f"warning, {count} times: {message}")
        if not self._bar.disable:
            self._bar.stop()

    def happened(self, event: Event) -> None:
        if event.type == "Normal":
            self.line(event.message)
            return
        self._warned[event.message] += 1
        if self._warned[event.message] == 1:
            self.line(f"warning: {event.message}")

    def progressed(self, status: BenchmarkProgress, running: Gang | None) -> None:
        if (trials := status.trials) is None:
            return
        # At most so many, where repeats may turn out not to be needed.
        self._counts = f"[{trials.finished}/{text.trials(trials).replace(' to ', '–')}] " if trials.total else ""
        what = self._name
        if running is not None:
            what = f"{running.assignment.workload} on {running.pool}, {workers_text(running.assignment.workers)}"
        shown = escape(printable(what))
        self._bar.update(self._task, total=trials.total, completed=trials.finished, description=shown)

    def line(self, text: str) -> None:
        """A line that stays, above the bar where there is one."""
        if self._bar.disable:
            tell(f"{self._counts}{text}")
        else:
            self._bar.console.print(Text(printable(text)))
