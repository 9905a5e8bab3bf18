# SPDX-License-Identifier: Apache-2.0
"""What a step of `gpu_check.py` finds, in a JSON file that is whole after each finding.

Standard library only: programs with torch, with TensorFlow and with neither write it. Values are kept, not their means:
the runner computes the intervals.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

PAIRS = 8
_Case = TypeVar("_Case")


def write(path: Path, content: Any) -> None:
    """A reader sees the old text or the new one, never half of it."""
    part = path.with_name(f"{path.name}.new")
    part.write_text(json.dumps(content, indent=1) + "\n")
    part.replace(path)


def program(description: str | None, programs: Sequence[Callable[..., int]], **options: Any) -> int:
    """Call the one that is named; `--out` and `--seconds` come from the runner."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", choices=[one.__name__ for one in programs])
    parser.add_argument("--out", type=Path, required=True, help="the findings")
    parser.add_argument("--seconds", type=float, default=300.0, help="time that it should stay within")
    for name, default in options.items():
        several = isinstance(default, list)
        kind = type(default[0] if several else default)
        parser.add_argument(f"--{name}", type=kind, default=default, nargs="+" if several else None)
    chosen = parser.parse_args()
    return {one.__name__: one for one in programs}[chosen.program](chosen)


class Findings:
    """Facts, figures with their values, ratios of paired values, and checks that hold or do not."""

    def __init__(self, path: Path) -> None:
        self._path, self._facts = path, dict[str, Any]()
        self._lists: dict[str, list[dict[str, Any]]] = {"figures": [], "ratios": [], "checks": []}

    def fact(self, name: str, value: Any) -> None:
        self._facts[name] = value
        self._save()

    def figure(self, name: str, unit: str, values: Sequence[float]) -> None:
        self._lists["figures"].append({"name": name, "unit": unit, "values": list(values)})
        self._save()

    def ratio(self, name: str, top: Sequence[float], bottom: Sequence[float]) -> None:
        """Of values that belong together in pairs."""
        values = [one / other for one, other in zip(top, bottom, strict=True)]
        self._lists["ratios"].append({"name": name, "unit": "ratio", "values": values})
        self._save()

    def contest(self, case: str, unit: str, blocks: Mapping[str, Callable[[], float]]) -> None:
        """Rates of two, in turns: A B, B A, and so on; whatever drifts falls on both."""
        rates: dict[str, list[float]] = {name: [] for name in blocks}
        for turn in range(PAIRS):
            for name in sorted(blocks, reverse=turn % 2 == 1):
                rates[name].append(blocks[name]())
        for name, values in rates.items():
            self.figure(f"{case}: {name}", unit, values)
        self.ratio(f"{case}: {' / '.join(blocks)}", *rates.values())

    def in_time(self, cases: Iterable[_Case], seconds: float) -> Iterator[_Case]:
        """Those for which there is time when none takes longer than the ones before; the others are a fact."""
        end, longest, missed = time.monotonic() + seconds, 0.0, []
        for case in cases:
            begun = time.monotonic()
            if begun + longest < end:
                yield case
                longest = max(longest, time.monotonic() - begun)
            else:
                missed.append(case)
        self.fact("not measured, for no time was left", missed)

    def check(self, name: str, found: Any, expected: Any, *, holds: bool) -> None:
        self._lists["checks"].append({"name": name, "found": found, "expected": expected, "holds": holds})
        self._save()

    def exit_code(self) -> int:
        """1, and a sentence for each, where a check does not hold."""
        broken = [one for one in self._lists["checks"] if not one["holds"]]
        for one in broken:
            print(f"{one['name']}: {one['found']} was found, {one['expected']} was expected", file=sys.stderr)
        return 1 if broken else 0

    def _save(self) -> None:
        write(self._path, {"facts": self._facts, **self._lists})
