# SPDX-License-Identifier: Apache-2.0
"""The smallest object that still shows a fault: what a person wants to read of one that fuzzing has found.

Fields and entries are left out and texts are cut as long as the fault stays. Each try is a request, so tries are few.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import fuzz_schema
from fuzz_schema import Path

_KEPT = (("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"))


def smallest(document: Any, *, shows: Callable[[Any], bool], tries: int) -> Any:
    """The object without what the fault does not need."""
    left = itertools.count(tries, -1)
    while True:
        for candidate in _smaller(document):
            if next(left) <= 0:
                return document
            if shows(candidate):
                document = candidate
                break
        else:
            return document


def _smaller(document: Any) -> Iterator[Any]:
    """Objects with one thing less, the largest things first."""
    places = [path for path in _paths(document) if path and path not in _KEPT]
    for path in sorted(places, key=lambda path: -_size(fuzz_schema.at(document, path))):
        yield fuzz_schema.without(document, path)
    for path in places:
        value = fuzz_schema.at(document, path)
        if isinstance(value, str) and len(value) > 1:
            yield fuzz_schema.changed(document, path, value[: len(value) // 2])
            yield fuzz_schema.changed(document, path, value[len(value) // 2 :])


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    yield path
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _paths(entry, (*path, key))
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _paths(entry, (*path, index))


def _size(value: Any) -> int:
    return sum(1 for _ in _paths(value))
