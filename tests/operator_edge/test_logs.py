# SPDX-License-Identifier: Apache-2.0
"""A line of the log is one line, and does nothing to the terminal that shows it."""

import json
import logging

import pytest

from gpubench_operator import main

HOSTILE = 'x\x1b[2J\r\n2026-11-01 info finished namespace=other\x9b31m\u2028"}'


def record(message: str, **fields: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "test", "levelname": "WARNING", "msg": message})
    made.__dict__.update(fields)
    return made


@pytest.mark.parametrize("formatter", [main.JsonLines(), main.Text()], ids=["json", "text"])
def test_a_text_of_anybodys_makes_no_line_and_moves_no_cursor(formatter: logging.Formatter) -> None:
    line = formatter.format(record(f"event {HOSTILE}", error=HOSTILE, benchmark="quick"))
    assert len(line.splitlines()) == 1
    assert not [one for one in line if ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0]
    assert "quick" in line


def test_a_program_still_reads_what_was_said() -> None:
    line = json.loads(main.JsonLines().format(record("event", error="a\nb \x1b[2J ü")))
    assert line["error"] == "a\nb \x1b[2J ü"
