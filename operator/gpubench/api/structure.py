# SPDX-License-Identifier: Apache-2.0
"""What a structural schema says about one plain value, in sentences for people: types, bounds, names, duplicates.

The schema is the generated one, so nothing is decided here that the API server would not decide too; only the words
are better. Must not happen: a value that is refused here and accepted there, or the other way round.
"""

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from gpubench.api import patterns
from gpubench.values import FrozenModel

Path = tuple[str | int, ...]

_EXPECTED = {
    "object": "a mapping of fields",
    "array": "a list, such as [1, 2],",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "quantity": "a whole number or text",
}
_BOUND_WORDS = {"string": ("Length", "characters"), "array": ("Items", "entries"), "object": ("Properties", "keys")}
_SHOWN_MAX = 60  # characters of a refused value in a sentence


class Problem(FrozenModel):
    """One thing that is wrong with an object."""

    path: Path  # keys and list indices, from the object's root
    value: str | None = None  # the refused value as text, where it is short enough to show
    sentence: str

    @property
    def field(self) -> str:
        """The path as people write it: `spec.sweep[0].workers[1]`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.field}: {self.sentence}" if self.path else self.sentence


def problems(schema: Mapping[str, Any], value: Any, *, path: Path = ()) -> Iterator[Problem]:
    """Everything that is wrong with a value and what it holds; nothing when it fits the schema."""
    if not _has_type(value, schema.get("type", "quantity")):
        yield _wrong_type(schema, value, path=path)
    elif isinstance(value, dict):
        yield from _bounded(schema, value, path=path)
        yield from _object_problems(schema, value, path=path)
    elif isinstance(value, list):
        yield from _bounded(schema, value, path=path)
        yield from _duplicates(schema, value, path=path)
        for index, entry in enumerate(value):
            yield from problems(schema["items"], entry, path=(*path, index))
    elif "enum" in schema:
        yield from _unknown_choice(schema["enum"], value, path=path)
    else:
        yield from _bounded(schema, value, path=path)
        yield from _no_day(schema, value, path=path)
        yield from _no_quantity(schema, value, path=path)


def shown(value: Any) -> str:
    """A value in a sentence: text in quotes, long ones cut."""
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 4]} ..."


def _has_type(value: Any, name: str) -> bool:
    if name == "integer":
        return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value % 1 == 0))
    if name == "quantity":
        return isinstance(value, int | str) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, {"object": dict, "array": list, "string": str, "boolean": bool}[name])


def _wrong_type(schema: Mapping[str, Any], value: Any, *, path: Path) -> Problem:
    wanted = schema.get("type", "quantity")
    expected = _EXPECTED[wanted]
    remedy = ""
    if wanted in ("string", "quantity") and isinstance(value, int | float):
        remedy = ": put it in quotes"
    elif isinstance(value, str) and wanted in ("integer", "number", "boolean"):
        remedy = ": write it without quotes"
    elif wanted == "array" and not isinstance(value, dict):
        remedy = f": write [{value}]"
    held = "nothing" if value is None else "a mapping" if isinstance(value, dict) else shown(value)
    return Problem(path=path, value=shown(value), sentence=f"{held} stands where {expected} is expected{remedy}")


def _object_problems(schema: Mapping[str, Any], value: dict[str, Any], *, path: Path) -> Iterator[Problem]:
    if "additionalProperties" in schema:
        for name, entry in value.items():
            yield from problems(schema["additionalProperties"], entry, path=(*path, name))
        return
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            meaning = known[name].get("description", name).split(". ")[0].rstrip(".")
            yield Problem(path=(*path, name), sentence=f"required, but absent. {meaning}")
    for name, entry in value.items():
        if name in known:
            yield from problems(known[name], entry, path=(*path, name))
        else:
            yield _unknown_field(name, tuple(known), path=path)


def _unknown_field(name: str, known: tuple[str, ...], *, path: Path) -> Problem:
    nearest = get_close_matches(str(name), known, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"the fields here are {', '.join(known)}"
    return Problem(path=(*path, str(name)), sentence=f"unknown field: {hint}")


def _unknown_choice(choices: list[Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if value in choices:
        return
    nearest = get_close_matches(str(value), choices, n=1)
    hint = f"did you mean {nearest[0]}?" if nearest else f"choose one of {', '.join(map(str, choices))}"
    yield Problem(path=path, value=shown(value), sentence=f"{shown(value)} is none of the possible values: {hint}")


def _bounded(schema: Mapping[str, Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if isinstance(value, bool) or (isinstance(value, str) and schema.get("type") != "string"):
        return
    word, unit = _BOUND_WORDS.get(schema.get("type", ""), ("imum", ""))
    least, most = schema.get(f"min{word}"), schema.get(f"max{word}")
    amount = len(value) if unit else value
    subject = f"{amount} {unit}" if unit else shown(value)
    if least is not None and amount < least:
        yield Problem(path=path, value=shown(value), sentence=f"{subject} is too little: at least {least} is needed")
    if most is not None and amount > most:
        yield Problem(path=path, value=shown(value), sentence=f"{subject} is too much: at most {most} is possible")


def _no_day(schema: Mapping[str, Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if schema.get("format") == "date" and not _is_day(value):
        yield Problem(
            path=path, value=shown(value), sentence=f"{shown(value)} is no day of the calendar, such as 2026-11-01"
        )


def _no_quantity(schema: Mapping[str, Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if isinstance(value, str) and "pattern" in schema and not re.fullmatch(schema["pattern"], value):
        yield Problem(path=path, value=shown(value), sentence=patterns.SENTENCES[schema["pattern"]])


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text  # other ways to write one are no way here
    except ValueError:
        return False


def _duplicates(schema: Mapping[str, Any], value: list[Any], *, path: Path) -> Iterator[Problem]:
    keys: list[str] = schema.get("x-kubernetes-list-map-keys", [])
    if schema["x-kubernetes-list-type"] == "atomic":
        return
    seen: set[str] = set()
    for index, entry in enumerate(value):
        identity = _identity(entry, keys)
        if identity in seen:
            name = ", ".join(str(entry.get(key)) for key in keys) if keys else shown(entry)
            yield Problem(path=(*path, index), value=name, sentence=f"{name} stands here twice: remove one of them")
        seen.add(identity)


def _identity(entry: Any, keys: list[str]) -> str:
    """As JSON, because to Python `true` and 1 are the same."""
    return json.dumps([entry.get(key) for key in keys] if keys and isinstance(entry, dict) else entry, sort_keys=True)
