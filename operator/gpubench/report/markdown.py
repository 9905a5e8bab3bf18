# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown (CommonMark with the tables of GitHub). A chart is shown as the table of its figures.

Must not happen: a text of a user's that is taken for markup: a `|` would shift a table's cells, a `<` open an element.
"""

import re
from collections.abc import Iterable

from gpubench.report.charts import Bars, Curves, Missing
from gpubench.report.document import Block, Code, Document, Listing, Paragraph, TitledTable
from gpubench.report.tables import Table
from gpubench.sanitize import printable

#: What means something anywhere in a line. An underscore inside a word does not: names stay readable.
_MARKUP = re.compile(r"([\\`*\[\]<>|~$&#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
#: What means something where a line begins: lists and rules.
_AT_BEGIN = re.compile(r"^([+\-=]|\d+[.)])")


def render(document: Document) -> str:
    """The whole report."""
    parts = [f"# {text(document.title)}", text(document.lead), *_bullets(document.head)]
    for section in document.sections:
        parts.append(f"## {text(section.title)}")
        for block in section.blocks:
            parts += [*([] if block.title is None else [f"### {text(block.title)}"]), *_content(block)]
    return printable("\n\n".join(parts)) + "\n"


def text(plain: str) -> str:
    """A text in one line in which nothing is markup."""
    line = " ".join(plain.split())
    escaped = _MARKUP.sub(r"\\\1", line)
    return _AT_BEGIN.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", escaped)


def _content(block: Block) -> list[str]:
    match block:
        case Paragraph():
            return [text(block.text)]
        case Listing():
            return _bullets(block.items)
        case TitledTable():
            return [_table(block.table), *_bullets(block.table.notes)]
        case Code():
            return [_code(block.text)]
        case Missing():
            return [f"No figure: {text(block.reason)}."]
        case Curves() | Bars():
            return [text(block.description), _table(block.table())]


def _bullets(lines: Iterable[str]) -> list[str]:
    found = "\n".join(f"* {text(line)}" for line in lines)
    return [found] if found else []


def _table(table: Table) -> str:
    titles = [text(column.title) for column in table.columns]
    rules = ["---:" if column.numeric else "---" for column in table.columns]
    rows = [[text(cell) for cell in row] for row in table.rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows))


def _code(content: str) -> str:
    """Text between fences longer than any in it."""
    fence = max(("```", *(f"{found}`" for found in re.findall(r"`{3,}", content))), key=len)
    language = "yaml" if "apiVersion:" in content else "sh"
    return f"{fence}{language}\n{content.rstrip(chr(10))}\n{fence}"
