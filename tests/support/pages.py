# SPDX-License-Identifier: Apache-2.0
"""Reports as their readers find them: what stands in an HTML page and in Markdown, text by text."""

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree.ElementTree import Element

import html5lib
from markdown_it import MarkdownIt
from markdown_it.token import Token

Grid = tuple[tuple[str, ...], ...]


class Said(NamedTuple):
    """All that a report says, in its order: white space apart."""

    headings: tuple[str, ...]
    sentences: tuple[str, ...]
    tables: tuple[Grid, ...]
    codes: tuple[str, ...]


def parse(page: str) -> Element:
    """The page's root element; an error of its HTML raises, as strictly as the standard has it."""
    root: Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=False).parse(page)
    return root


def text(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def of_page(page: str) -> Said:
    """What a page says; a chart's drawing is left out, its description is not."""
    body = parse(page).find("body")
    assert body is not None
    headings, sentences, tables, codes = [], [], [], []
    for element in _read(body):
        if element.tag in ("h1", "h2", "h3"):
            headings.append(text(element))
        elif element.tag in ("p", "li", "figcaption"):
            sentences.append(text(element))
        elif element.tag == "pre":
            codes.append("".join(element.itertext()).strip())
        elif element.tag == "table":
            tables.append(_grid(element))
        elif element.tag == "caption":
            headings.append(text(element))
    return Said(tuple(headings), tuple(sentences), tuple(tables), tuple(codes))


def _read(element: Element) -> Iterator[Element]:
    """Elements in their order, without the list of sections."""
    for child in element:
        if child.tag == "nav" or (element.tag == "table" and child.tag != "caption"):
            continue
        yield child
        yield from _read(child)


def _grid(table: Element) -> Grid:
    return tuple(tuple(text(cell) for cell in row if cell.tag in ("th", "td")) for row in table.iter("tr"))


def of_markdown(content: str) -> Said:
    """What Markdown says to a reader whose program knows tables; elements of HTML in it raise."""
    headings: list[str] = []
    sentences: list[str] = []
    tables: list[list[list[str]]] = []
    codes: list[str] = []
    inside = ""
    for token in MarkdownIt("commonmark").enable("table").parse(content):
        assert not token.type.startswith("html"), token.content
        match token.type:
            case "heading_open" | "paragraph_open" | "th_open" | "td_open":
                inside = token.type
            case "table_open":
                tables.append([])
            case "tr_open":
                tables[-1].append([])
            case "fence":
                codes.append(token.content.strip())
            case "inline":
                said = _inline(token)
                if inside == "heading_open":
                    headings.append(said)
                elif inside == "paragraph_open":
                    sentences.append(said)
                else:
                    tables[-1][-1].append(said)
    grids = tuple(tuple(tuple(row) for row in table) for table in tables)
    return Said(tuple(headings), tuple(sentences), grids, tuple(codes))


def _inline(token: Token) -> str:
    """The text of a line; markup in it would be a text of somebody's that was not escaped."""
    parts = []
    for child in token.children or ():
        assert child.type in ("text", "softbreak", "text_special"), f"{child.type}: {token.content}"
        parts.append("\n" if child.type == "softbreak" else child.content)
    return " ".join("".join(parts).split())
