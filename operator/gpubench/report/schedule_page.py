# SPDX-License-Identifier: Apache-2.0
"""The history of a schedule as a document: what became slower, the runs in a table, each point over time.

Must not happen: runs of two environments as one line.
"""

from collections.abc import Sequence

from gpubench import units, values
from gpubench.analysis import text
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.report.charts import Chart, Row
from gpubench.report.document import Block, Document, Paragraph, Section
from gpubench.report.tables import Table, numbers, words
from gpubench.schedule import history
from gpubench.schedule.history import Entry, Measured
from gpubench.stats.compare import Quantity

_SECONDS_PER_DAY = 86_400
#: Points that are drawn: those that have been measured most often. All of them are in the table.
_DRAWN_MAX = 16
_NODES_SHOWN = 2


def document(name: str, entries: Sequence[Entry], status: GpuBenchmarkScheduleStatus, *, source: str) -> Document:
    measured = sorted(history.by_point(entries).values(), key=len, reverse=True)[:_DRAWN_MAX]
    charts = tuple(_chart(one) for one in measured if one)  # a point may never have settled
    return Document(
        title=f"History of {name}",
        lead=f"{len(entries)} runs of the schedule {name}, {source}.",
        sections=(
            Section(name="verdict", title="What has changed", blocks=tuple(_verdict(status))),
            Section(name="runs", title="Runs", blocks=(runs(entries),)),
            *([Section(name="charts", title="Over time", blocks=charts)] if charts else []),
        ),
    )


def runs(entries: Sequence[Entry]) -> Table:
    """A line for each run and point, newest first."""
    what, where = words("RUN", "DUE", "STATE", "POINT"), words("NODES", "ENVIRONMENT")
    columns = (*what, *numbers("FIGURE"), *where, *numbers("SPENT"))
    rows = tuple(row for entry in reversed(entries) for row in _rows(entry))
    return Table(title="Newest first", columns=columns, rows=rows)


def _rows(entry: Entry) -> list[tuple[str, ...]]:
    start = (entry.name, units.rfc3339(entry.scheduled_at), "Succeeded" if entry.succeeded else "Failed")
    spent = text.UNDEFINED if entry.spent is None else f"{entry.currency or ''} {entry.spent}".strip()
    rows: list[tuple[str, ...]] = []
    for figure in entry.figures:
        unit = "s" if figure.quantity is Quantity.SECONDS else "samples/s"
        shown = f"{figure.mean:.4g} {unit}{'' if figure.settled else ', never settled'}"
        nodes = text.shortened(figure.nodes, most=_NODES_SHOWN) or text.UNDEFINED
        rows.append((*start, figure.text, shown, nodes, figure.environment or text.UNDEFINED, spent))
    return rows or [(*start, *[text.UNDEFINED] * 4, spent)]


def _verdict(status: GpuBenchmarkScheduleStatus) -> list[Block]:
    blocks: list[Block] = [
        Paragraph(title=title, items=tuple(items))
        for title, items in (
            (None, [one.message for one in status.conditions if one.type == "Regressed"]),
            ("Slower than it was", [one.sentence for one in status.regressions]),
            ("Slow nodes", [one.sentence for one in status.slow_nodes]),
            ("Other environments", [f"{one.sentence}, since {one.since} ({one.run})" for one in status.key_changes]),
        )
        if items
    ] or [Paragraph(text="Nothing is known yet.")]
    if status.monthly is not None:
        total = status.monthly.shown or "no cost"
        blocks.append(Paragraph(title="A month", text=f"{total}: {status.monthly.sentence}"))
    return blocks


def _chart(measured: Sequence[Measured]) -> Chart:  # a point over time, a line for each environment
    first, newest = measured[0].run.scheduled_at, measured[-1].figure
    what = "Seconds" if newest.quantity is Quantity.SECONDS else "Samples per second"
    return Chart(
        title=newest.text,
        description=f"{what} of each run, with the interval over its repeats; a line for each environment.",
        x=f"Days since {units.rfc3339(first)}",
        y=what,
        rows=tuple(
            Row(
                series=" ".join(filter(None, one.figure.environment_key)) or "unknown environment",
                x=values.Interval(mean=(one.run.scheduled_at - first) / _SECONDS_PER_DAY),
                y=values.Interval(mean=one.figure.mean, low=one.figure.low, high=one.figure.high),
            )
            for one in measured
        ),
    )
