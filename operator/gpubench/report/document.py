# SPDX-License-Identifier: Apache-2.0
"""What a report says, before anybody has chosen a page for it: sections of paragraphs, tables, charts and listings.

HTML and Markdown are made from this and from nothing else, so that they cannot differ in what they say. A chart carries
each of its figures twice: as a number that is drawn, and as the text that stands in the table behind it. Must not
happen: an empty chart; what cannot be drawn is `Missing`, with the reason.
"""

from typing import Literal, Self

from pydantic import model_validator

from gpubench.report.tables import Column, Table
from gpubench.values import Value


class Paragraph(Value):
    """Some sentences."""

    kind: Literal["paragraph"] = "paragraph"
    text: str
    title: str | None = None


class Listing(Value):
    """Sentences, one below the other."""

    kind: Literal["listing"] = "listing"
    items: tuple[str, ...]
    title: str | None = None


class TitledTable(Value):
    """A table with what it is about. With `row_headed` the first cell of a row says what the row is about."""

    kind: Literal["table"] = "table"
    caption: str
    table: Table
    row_headed: bool = False


class Code(Value):
    """Text that a program reads, to be copied as it is."""

    kind: Literal["code"] = "code"
    caption: str
    text: str


class Missing(Value):
    """A chart that cannot be drawn, and why."""

    kind: Literal["missing"] = "missing"
    title: str
    reason: str


class Axis(Value):
    """What is told along an axis; the library chooses the ticks where none are given."""

    title: str
    ticks: tuple[float, ...] = ()
    logarithmic: bool = False
    percent: bool = False  # 1 is written as 100 %
    from_zero: bool = False


class Mark(Value):
    """One figure of a chart with the ends of its interval; an end is absent where it is open or nobody knows it."""

    x: float
    y: float
    x_low: float | None = None
    x_high: float | None = None
    y_low: float | None = None
    y_high: float | None = None
    label: str = ""  # beside it
    hollow: bool = False  # it was not run, or never settled
    said: tuple[str, ...]  # the cells of its row in the table, the name of the series left out


class Series(Value):
    """Marks of one kind."""

    name: str
    marks: tuple[Mark, ...]
    joined: bool = True  # by a line
    dots: bool = True  # drawn where the marks are; not on a computed curve


class Curves(Value):
    """Figures against figures."""

    kind: Literal["curves"] = "curves"
    name: str  # unique in the document
    title: str
    description: str
    x: Axis
    y: Axis
    series: tuple[Series, ...]
    columns: tuple[Column, ...]  # of the table behind it: the series, and what its marks say
    level: float | None = None  # a line across, such as 1 where that is perfect
    level_name: str = ""
    steps: tuple[tuple[float, float], ...] = ()  # corners of a line in steps, such as a frontier
    steps_name: str = ""

    @model_validator(mode="after")
    def _shows_something(self) -> Self:
        if not any(series.marks for series in self.series):
            raise ValueError(f"{self.title}: a chart without a figure: say with Missing why there is none")
        return self

    def table(self) -> Table:
        """The figures behind it."""
        rows = tuple((series.name, *mark.said) for series in self.series for mark in series.marks)
        return Table(columns=self.columns, rows=rows)


class Bar(Value):
    """A length from `start` to `start + value`, with the ends of its interval."""

    name: str
    value: float
    start: float = 0.0
    low: float | None = None
    high: float | None = None
    hollow: bool = False
    said: str


class Bars(Value):
    """Lengths, one below the other."""

    kind: Literal["bars"] = "bars"
    name: str  # unique in the document
    title: str
    description: str
    axis: Axis
    bars: tuple[Bar, ...]
    columns: tuple[Column, Column]

    @model_validator(mode="after")
    def _shows_something(self) -> Self:
        if not self.bars:
            raise ValueError(f"{self.title}: a chart without a figure: say with Missing why there is none")
        return self

    def table(self) -> Table:
        """The figures behind it."""
        return Table(columns=self.columns, rows=tuple((bar.name, bar.said) for bar in self.bars))


Chart = Curves | Bars
Block = Paragraph | Listing | TitledTable | Code | Missing | Curves | Bars


class Section(Value):
    """What belongs together."""

    name: str  # unique in the document
    title: str
    blocks: tuple[Block, ...]


class Document(Value):
    """A whole report."""

    title: str
    lead: str
    head: tuple[str, ...] = ()  # what a reader wants first, a sentence each
    sections: tuple[Section, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Everything that is drawn, in its order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block for block in blocks if isinstance(block, Curves | Bars))
