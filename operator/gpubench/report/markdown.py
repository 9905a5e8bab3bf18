# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown (CommonMark with the tables of GitHub). A chart stands there as the table of its figures.

Must not happen: a text of a user's that is taken for markup: a `|` would shift a table's cells, a `<` open an element.
"""

import re
from collections.abc import Sequence

from gpubench.report.document import Bars, Block, Code, Curves, Document, Listing, Missing, Paragraph, TitledTable
from gpubench.report.tables import Table
from gpubench.sanitize import printable

_FENCE = "```"
#: What means something anywhere in a line. An underscore inside a word does not: names stay readable.
_MARKUP = re.compile(r"([\\`*\[\]<>|~$&#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
#: What means something where a line begins: lists and rules.
_AT_BEGIN = re.compile(r"^([+\-=]|\d+[.)])")


def render(document: Document) -> str:
    """The whole report."""
    parts = [f"# {text(document.title)}", text(document.lead)]
    if document.head:
        parts.append("\n".join(f"* {text(sentence)}" for sentence in document.head))
    for section in document.sections:
        parts.append(f"## {text(section.title)}")
        parts += [_block(block) for block in section.blocks]
    return printable("\n\n".join(parts)) + "\n"


def text(plain: str) -> str:
    """A text in one line in which nothing is markup."""
    line = " ".join(plain.split())
    escaped = _MARKUP.sub(r"\\\1", line)
    return _AT_BEGIN.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", escaped)


def _block(block: Block) -> str:
    match block:
        case Paragraph():
            return "\n\n".join([*_heading(block.title), text(block.text)])
        case Listing():
            return "\n\n".join([*_heading(block.title), "\n".join(f"* {text(item)}" for item in block.items)])
        case TitledTable():
            return "\n\n".join([*_heading(block.caption), _table(block.table), *_notes(block.table.notes)])
        case Code():
            return "\n\n".join([*_heading(block.caption), _code(block.text)])
        case Missing():
            return "\n\n".join([*_heading(block.title), f"No figure: {text(block.reason)}."])
        case Curves() | Bars():
            return "\n\n".join([*_heading(block.title), text(block.description), _table(block.table())])


def _heading(title: str | None) -> list[str]:
    return [] if title is None else [f"### {text(title)}"]


def _table(table: Table) -> str:
    titles = [text(column.title) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[text(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows))


def _notes(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"* {text(note)}" for note in notes)] if notes else []


def _code(content: str) -> str:
    """Text between fences longer than any in it."""
    longest = max((len(found) for found in re.findall(r"`{3,}", content)), default=0)
    fence = "`" * max(len(_FENCE), longest + 1)
    language = "yaml" if "apiVersion:" in content else "sh"
    return f"{fence}{language}\n{content.rstrip(chr(10))}\n{fence}"
