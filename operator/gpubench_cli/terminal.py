# SPDX-License-Identifier: Apache-2.0
"""What a person sees: results on standard output, progress and errors on standard error; and how a command ends early.

On a terminal there is a progress bar; elsewhere plain lines, one for each event, that a log can keep.
Must not happen: a control character from anybody's text; a colour in a pipe; a table cut off because nobody was there
to say how wide the page is; a traceback for anything but our own mistakes.
"""

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from rich import progress as bars
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from gpubench.analysis import text
from gpubench.api.benchmark_status import BenchmarkProgress
from gpubench.report.tables import Table
from gpubench.sanitize import printable
from gpubench.scheduler.actions import Event, Gang
from gpubench.units import workers_text

EXIT_DONE = 0
EXIT_STUDY_FAILED = 1
EXIT_BAD_INPUT = 2  # also: no cluster, no permission; nothing was tried
EXIT_SIGNAL = 128  # plus the signal's number, as shells have it


class CliError(Exception):
    """Bad input, or a place that does not answer: the messages go to stderr, the exit code is 2."""

    def __init__(self, *messages: str) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages


class Stopped(Exception):
    """A signal asked for the end, and everything has been put in order."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by signal {signal_number}")
        self.exit_code = EXIT_SIGNAL + signal_number


@contextmanager
def writing(path: Path, what: str) -> Iterator[None]:
    """CliError where a file cannot be written; `what` it belongs to."""
    try:
        yield
    except OSError as error:
        raise CliError(f"{path}: {what} cannot be written there: {error.strerror}") from error


_PAGE_COLUMNS = 200  # where standard output is no terminal
_REFRESH_PER_SECOND = 1.0  # the machine that draws is the machine that measures
_PACE_SECONDS = 86_400.0  # of which the pace of trials is taken: one may last for hours


def write(text: str) -> None:
    """Text that is a result."""
    shown = printable(text)
    sys.stdout.write(shown if shown.endswith("\n") else f"{shown}\n")
    sys.stdout.flush()


def write_document(document: object, *, output: str = "json") -> None:
    """A result for programs: JSON, or YAML."""
    if output == "yaml":
        write(yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    else:
        write(json.dumps(document, indent=2, ensure_ascii=False))


def csv_text(fields: Sequence[str], rows: Iterable[Mapping[str, str]]) -> str:
    found = io.StringIO()
    writer = csv.DictWriter(found, fieldnames=fields, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return found.getvalue()


def tell(text: str) -> None:
    """Text that is none."""
    sys.stderr.write(f"{printable(text)}\n")
    sys.stderr.flush()


def print_tables(tables: Iterable[Table]) -> None:
    for number, table in enumerate(tables):
        if number:
            write("")
        print_table(table)


def print_table(table: Table) -> None:
    """A table with its notes, on standard output."""
    width = None if sys.stdout.isatty() else _PAGE_COLUMNS
    console = Console(file=sys.stdout, highlight=False, width=width, soft_wrap=False)
    drawn = RichTable(box=None, pad_edge=False, header_style="bold")
    for column in table.columns:
        drawn.add_column(Text(printable(column.title)), justify="right" if column.numeric else "left", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    console.print(drawn)
    if table.notes:
        console.print()
    for note in table.notes:
        console.print(Text(printable(note), style="dim"))


class Progression:
    """A benchmark as it goes on: a bar on a terminal, lines elsewhere."""

    def __init__(self, *, name: str) -> None:
        self._name = name
        self._counts = ""  # before a line, once they are known
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
        if not self._bar.disable:
            self._bar.stop()

    def happened(self, event: Event) -> None:
        self.line(event.message if event.type == "Normal" else f"warning: {event.message}")

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
