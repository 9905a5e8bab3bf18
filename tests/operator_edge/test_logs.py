# SPDX-License-Identifier: Apache-2.0
"""A line of the log is one line, and does nothing to the terminal that shows it."""

import json
import logging
from collections.abc import Iterator
from typing import Literal

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


@pytest.fixture(autouse=True)
def each_line_of_the_log_has_its_fields() -> None:
    """Not here: these lines are the tests' own, and the level is what is tested."""


LIBRARIES = ("kopf", "asyncio", "aiohttp.access", "aiohttp_retry", "kubernetes")


@pytest.fixture
def kept_logging() -> Iterator[None]:
    """Logging is the process's: a test gives it back as it was."""
    root = logging.getLogger()
    before, handlers = {one: logging.getLogger(one).level for one in ("", *LIBRARIES)}, root.handlers[:]
    yield
    root.handlers[:] = handlers
    for name, level in before.items():
        logging.getLogger(name or None).setLevel(level)


@pytest.mark.usefixtures("kept_logging")
@pytest.mark.parametrize(
    ("level", "own", "of_libraries"),
    [
        ("debug", "DEBUG INFO WARNING ERROR", "INFO WARNING ERROR"),
        ("info", "INFO WARNING ERROR", "WARNING ERROR"),
        ("error", "ERROR", "WARNING ERROR"),
    ],
)
@pytest.mark.parametrize("style", ["json", "text"])
def test_the_setting_is_for_our_own_lines_and_libraries_are_quieter(
    style: Literal["json", "text"], level: str, own: str, of_libraries: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main.configure_logs(style=style, level=level)
    expected = {"gpubench_operator.pool": own, **dict.fromkeys(LIBRARIES, of_libraries)}
    for name in expected:
        for one in ("DEBUG", "INFO", "WARNING", "ERROR"):
            logging.getLogger(name).log(getattr(logging, one), "said", extra={"of": name})
    lines = capsys.readouterr().err.splitlines()
    for name, levels in expected.items():
        if style == "json":
            found = [one["level"] for one in map(json.loads, lines) if (one["logger"], one["of"]) == (name, name)]
        else:
            found = [one.split()[1] for one in lines if one.endswith(f" said of={name}")]
        assert found == levels.lower().split()


@pytest.mark.usefixtures("kept_logging")
def test_a_fault_has_its_traceback_and_what_kopf_passes_on_of_the_server_is_left_to_who_says_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    of_server = type("APIError", (Exception,), {"__module__": "kopf._cogs.clients.errors"})
    main.configure_logs(style="json", level="info")
    for error in (of_server("forbidden"), KeyError("spec")):
        logging.getLogger("kopf").error("failed", exc_info=error)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["exception"].endswith("KeyError: 'spec'")
