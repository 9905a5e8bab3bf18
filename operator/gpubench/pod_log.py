# SPDX-License-Identifier: Apache-2.0
"""The log of one pod as its records, each looked at for what was changed since it was written. Pure.

Must not happen: a line that is passed over in silence. Each is a record, one of a kind that is not known here, or a
problem.
"""

from dataclasses import dataclass
from typing import TypeVar

from gpubench import checksum, records
from gpubench.records import Record

_Kind = TypeVar("_Kind")


@dataclass(frozen=True, kw_only=True)
class Log:
    """What a pod wrote."""

    records: tuple[Record, ...]  # in their order; lines with a problem are left out
    unknown: int  # lines of kinds that are not known here, with their checksums
    problems: tuple[tuple[int, str], ...]  # number of the line, from 1, and a sentence
    cut: bool = False  # whether the last of them is a line without its end: its writer may have been stopped

    def of_kind(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        """The records of one kind, in their order."""
        return tuple(record for record in self.records if isinstance(record, kind))


def read(content: bytes) -> Log:
    """The records in a log's bytes."""
    *lines, rest = content.split(b"\n")
    found: list[Record] = []
    problems: list[tuple[int, str]] = []
    unknown = 0
    for number, line in enumerate(lines, start=1):
        try:
            record = records.read_line(line)
        except checksum.Damaged as error:
            problems.append((number, str(error)))
            continue
        unknown += record is None
        if record is not None:
            found.append(record)
    if rest:
        problems.append((len(lines) + 1, "it has no end: its writer was stopped in the middle, or bytes are missing"))
    return Log(records=tuple(found), unknown=unknown, problems=tuple(problems), cut=bool(rest))
