# SPDX-License-Identifier: Apache-2.0
"""A report as Markdown (CommonMark with the tables of GitHub). A chart is what it shows, in words.

Must not happen: a text of a user's that is taken for markup: a `|` would shift a table's cells, a `<` open an element.
"""

import re
from collections.abc import Iterable

from gpubench.report import charts, tables
from gpubench.report.document import Block, Code, Document, Paragraph
from gpubench.sanitize import printable

#: What means something anywhere in a line. An underscore inside a word does not: names stay readable.
_MARKUP = re.compile(r"([\\`*\[\]<>|~$&#]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
#: What means something where a line begins: lists and rules.
_AT_BEGIN = re.compile(r"^(?:[+\-=]|\d+[.)])")


def render(document: Document) -> str:
    parts = [f"# {text(document.title)}", text(document.lead)]
    for section in document.sections:
        parts.append(f"## {text(section.title)}")
        for block in section.blocks:
            parts += [f"### {text(block.title)}"] if block.title else []
            parts += _content(block)
    return printable("\n\n".join(parts)) + "\n"


def text(plain: str) -> str:
    """A text in one line in which nothing is markup."""
    escaped = _MARKUP.sub(r"\\\1", " ".join(plain.split()))
    return _AT_BEGIN.sub(lambda found: f"{found[0][:-1]}\\{found[0][-1]}", escaped)


def _content(block: Block) -> list[str]:
    match block:
        case Paragraph():
            return [*([text(block.text)] if block.text else []), *_bullets(block.items)]
        case tables.Table():
            titles = [text(column.title) for column in block.columns]
            rules = ["---:" if column.numeric else "---" for column in block.columns]
            rows = [[text(cell) for cell in row] for row in block.rows]
            return ["\n".join(f"| {' | '.join(cells)} |" for cells in (titles, rules, *rows)), *_bullets(block.notes)]
        case charts.Chart():
            return [text(block.description)]
        case Code():  # between fences longer than any in it
            fence = max(("```", *(f"{found}`" for found in re.findall(r"`{3,}", block.text))), key=len)
            language = "yaml" if "apiVersion:" in block.text else "sh"
            return [f"{fence}{language}\n{block.text.rstrip()}\n{fence}"]


def _bullets(lines: Iterable[str]) -> list[str]:
    return [found] if (found := "\n".join(f"* {text(line)}" for line in lines)) else []
