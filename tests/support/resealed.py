# SPDX-License-Identifier: Apache-2.0
"""Changes of stored records whose checksum is renewed, as somebody would make them who wants to deceive."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpubench import checksum


def change(path: Path, how: Callable[[str], str]) -> None:
    before = path.read_text()
    after = how(before)
    assert after != before
    path.write_text(after)


def change_line(
    path: Path, how: Callable[[str], str], *, where: Callable[[dict[str, Any]], bool], last: bool = False
) -> None:
    """The first line that is so, or the last."""
    lines = path.read_text().splitlines()
    number = [number for number, line in enumerate(lines) if where(json.loads(line))][-1 if last else 0]
    lines[number] = how(lines[number]).rstrip("\n")
    change(path, lambda _: "\n".join(lines) + "\n")


def record_in(text: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(checksum.opened(text.rstrip("\n")))
    assert "checksum" not in record
    return record


def text_of(record: dict[str, Any]) -> str:
    return checksum.seal(json.dumps(record, sort_keys=True, separators=(",", ":"), ensure_ascii=False)) + "\n"
