# SPDX-License-Identifier: Apache-2.0
"""Structured logs: one event with its fields, as a JSON line or as text.

What changes something is logged once, with namespace, benchmark and trial as fields. Specs and statuses are never
dumped: they are in the API server, and environment variables in them are nobody's business here.

Must not happen: a text of anybody's that makes a line of its own, or moves the cursor of whoever reads.
"""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

from gpubench.sanitize import one_line, printable
from gpubench.scheduler import observed

#: What every LogRecord has; all else in a record came in by `extra` and is a field.
_ORDINARY = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def logger(name: str) -> logging.Logger:
    """The logger of a module."""
    return logging.getLogger(name)


def of_study(study: observed.Study, **more: object) -> dict[str, object]:
    """The fields of an event about a study, for `extra`."""
    return {"namespace": study.namespace, "benchmark": study.name, **more}


def configure(*, style: Literal["json", "text"], level: str) -> None:
    """Send everything to standard error. kopf's own chatter is left out below warnings: it speaks of each event."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if style == "json" else Text())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    quiet = logging.WARNING if level != "debug" else logging.INFO
    for noisy in ("kopf", "asyncio", "aiohttp.access", "aiohttp_retry", "kubernetes"):
        logging.getLogger(noisy).setLevel(quiet)


def fields(record: logging.LogRecord) -> dict[str, object]:
    """The fields of an event, in the order in which they were given."""
    return {name: value for name, value in vars(record).items() if name not in _ORDINARY and value is not None}


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **{name: value for name, value in fields(record).items() if not name.startswith(("k8s", "settings"))},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return printable(json.dumps(line, default=str, ensure_ascii=False))


class Text(logging.Formatter):
    """`12:00:01.250 info created namespace=default benchmark=three-cnns`, for a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        """The line of one record, in local time."""
        moment = datetime.fromtimestamp(record.created, UTC).astimezone().strftime("%H:%M:%S.%f")[:-3]
        shown = "".join(
            f" {name}={one_line(str(value))}"
            for name, value in fields(record).items()
            if not name.startswith(("k8s", "settings"))
        )
        line = f"{moment} {record.levelname.lower()} {one_line(record.getMessage())}{shown}"
        return f"{line}\n{printable(self.formatException(record.exc_info))}" if record.exc_info else line
