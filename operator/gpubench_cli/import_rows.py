# SPDX-License-Identifier: Apache-2.0
"""CSV files of figures that were measured elsewhere: their rows, the place of each, and whose figures they are.

    # publisher: Who measured
    # source: where it can be read
    # published: 2018-02
    # Any other line that begins with # is for people.
    pool,workers,repeat,samples_per_second
    old-box,1,1,273
    old-box,1,2,271.5

The first row names the columns. Must not happen: a column that nobody knows, or a cell without one, is passed over.
"""

import csv
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from gpubench_cli.refusal import Refusal

#: What the comments above the rows say of all of them.
HEADINGS = ("publisher", "source", "published")


class Row(NamedTuple):
    """One row: where it stands, for sentences, and its cells that are not empty, by column."""

    place: str
    cells: Mapping[str, str]


class Rows(NamedTuple):
    """A file."""

    path: Path
    headings: Mapping[str, str]
    rows: Sequence[Row]


def read(path: Path, *, columns: Collection[str]) -> Rows:
    """The rows of a file with no other columns than these."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise Refusal(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise Refusal(f"{path}: it is no text in UTF-8: save it as CSV in UTF-8") from error
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    tables = [(number, line) for number, line in numbered if not line.startswith("#")]
    if not tables:
        raise Refusal(f"{path}: there are no rows: the first one names the columns ({', '.join(columns)})")
    (first, header), *rest = tables
    titles = _cells(header, place=f"{path}:{first}")
    _refuse_columns(titles, columns, place=f"{path}:{first}")
    return Rows(
        path=path,
        headings=_headings(line for _, line in numbered if line.startswith("#")),
        rows=[_row(line, titles, place=f"{path}:{number}") for number, line in rest],
    )


def _headings(comments: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in comments:
        name, colon, text = line.lstrip("# ").partition(":")
        if colon and name.strip().lower() in HEADINGS:
            found.setdefault(name.strip().lower(), text.strip())
    return found


def _refuse_columns(titles: Sequence[str], columns: Collection[str], *, place: str) -> None:
    for title in titles:
        if title not in columns:
            raise Refusal(f"{place}: {title!r} is no column of this file: it may have {', '.join(columns)}")
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise Refusal(f"{place}: the column {twice[0]} stands there twice: remove one of both")


def _row(line: str, titles: Sequence[str], *, place: str) -> Row:
    cells = _cells(line, place=place)
    if len(cells) > len(titles):
        raise Refusal(f"{place}: it has {len(cells)} cells, and the first row names {len(titles)} columns")
    return Row(place=place, cells={title: cell for title, cell in zip(titles, cells, strict=False) if cell})


def _cells(line: str, *, place: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise Refusal(f"{place}: it cannot be read as CSV: {error}") from error
