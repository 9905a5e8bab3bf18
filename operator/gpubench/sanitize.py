# SPDX-License-Identifier: Apache-2.0
"""Texts of others, made harmless for whoever reads them: on a terminal, in a log, in a report.

A program in a pod, a label of a node or a results folder from elsewhere may hold control characters. On a terminal ESC
clears the screen, changes its title or hides what was there before; a carriage return writes over the line; marks of
direction let a text be read as another one. Data for programs are kept as they are; what is shown goes through here.
"""

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_KEPT = "\t\n"
_CONTROLS = (*range(0x20), *range(0x7F, 0xA0))  # C0, DEL and C1
_SEPARATORS = (0x2028, 0x2029)  # of lines and paragraphs, which some programs obey
_DIRECTIONS = (*range(0x202A, 0x202F), *range(0x2066, 0x206A))  # overrides, embeddings and isolates
_HARMLESS = {code: _REPLACEMENT for code in (*_CONTROLS, *_SEPARATORS, *_DIRECTIONS) if chr(code) not in _KEPT}


def printable(text: str) -> str:
    """The text with a replacement character for each that does something; tabs and line breaks stay."""
    return text.translate(_HARMLESS)


def one_line(text: str) -> str:
    """The same in one line: a line of a log must not be made by a text in it."""
    return printable(text.replace("\n", " ").replace("\t", " "))
