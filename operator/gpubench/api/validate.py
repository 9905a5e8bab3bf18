# SPDX-License-Identifier: Apache-2.0
"""Objects that meet no API server, such as the study file of a local run, are refused here as they would be there.

The generated schema is followed in the API server's order: nulls are dropped, structure is checked, defaults are filled
in, then the rules are evaluated, with the same CEL and the same sentences. No rule may be written here, and no value
refused that the API server takes; only the words are better.
"""

import copy
import datetime
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from gpubench import names, units
from gpubench.api import benchmark, pool, rules, schedule, schema
from gpubench.values import FrozenModel

if TYPE_CHECKING:
    import cel

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


class InvalidObject(ValueError):
    """An object with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem], *, kind: str, name: str | None) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
        self.kind = kind
        self.name = name


def load_pool(document: Mapping[str, Any]) -> pool.GpuPool:
    """A GpuPool from its plain document, with defaults; InvalidObject with all problems."""
    return pool.GpuPool.model_validate_json(_content(document, schema.POOL), by_alias=True, by_name=False)


def load_benchmark(document: Mapping[str, Any]) -> benchmark.GpuBenchmark:
    """The same of a GpuBenchmark."""
    content = _content(document, schema.BENCHMARK)
    return benchmark.GpuBenchmark.model_validate_json(content, by_alias=True, by_name=False)


def load_schedule(document: Mapping[str, Any]) -> schedule.GpuBenchmarkSchedule:
    """The same of a GpuBenchmarkSchedule."""
    content = _content(document, schema.SCHEDULE)
    return schedule.GpuBenchmarkSchedule.model_validate_json(content, by_alias=True, by_name=False)


def problems_of(document: Mapping[str, Any], kind: schema.Kind) -> tuple[Problem, ...]:
    """Everything that the API server would refuse in an object at its creation, and nothing else."""
    content = _plain(document, kind)
    found = (*_envelope_problems(content, kind), *_structure_problems(_object_schema(kind), content))
    return found or tuple(_broken_rules(_object_schema(kind), with_defaults(_object_schema(kind), content)))


def with_defaults(node: Mapping[str, Any], value: Any) -> Any:
    """A value with the schema's defaults filled in, at every depth."""
    if isinstance(value, list):
        return [with_defaults(node["items"], entry) for entry in value]
    if not isinstance(value, dict) or "properties" not in node:
        return value
    filled = dict(value)
    for name, field in node["properties"].items():
        if name not in filled and "default" in field:
            filled[name] = copy.deepcopy(field["default"])
        if name in filled:
            filled[name] = with_defaults(field, filled[name])
    return filled


def _content(document: Mapping[str, Any], kind: schema.Kind) -> str:
    """Name and spec as JSON."""
    found = problems_of(document, kind)
    content = _plain(document, kind)
    if found:
        metadata = content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        raise InvalidObject(found, kind=kind.kind, name=name if isinstance(name, str) else None)
    filled = with_defaults(_object_schema(kind), content)
    return json.dumps({"name": filled["metadata"]["name"], "spec": filled["spec"]})


@functools.cache
def _object_schema(kind: schema.Kind) -> schema.Schema:
    """The generated schema, with what the API server itself demands of every object."""
    whole = schema.object_schema(kind)
    whole["properties"]["metadata"]["required"] = ["name"]
    return {**whole, "required": ["metadata", "spec"]}


def _plain(document: Mapping[str, Any], kind: schema.Kind) -> dict[str, Any]:
    """The document as the API server reads it: no nulls, days as text, 2.0 as 2, no half of a surrogate pair.

    Of the metadata only the name.
    """
    plain: dict[str, Any] = _without_nulls(document, _object_schema(kind))
    metadata = plain.get("metadata")
    if isinstance(metadata, dict):
        plain["metadata"] = {name: value for name, value in metadata.items() if name == "name"}
    return plain


def _without_nulls(value: Any, node: Mapping[str, Any]) -> Any:
    """The value of a schema's node; a null stays where the schema has no such field, which is refused for that."""
    if isinstance(value, Mapping):
        fields, others = node.get("properties"), node.get("additionalProperties") or {}
        return {
            _characters(str(name)): _without_nulls(entry, (fields or {}).get(name, others))
            for name, entry in value.items()
            if entry is not None or (fields is not None and name not in fields)
        }
    if isinstance(value, list | tuple):
        return [_without_nulls(entry, node.get("items") or {}) for entry in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        return _characters(value)
    return value.isoformat() if isinstance(value, datetime.date) else value


def _characters(text: str) -> str:
    """A text as Go reads it from JSON: half of a surrogate pair is no character, and U+FFFD takes its place."""
    return text if text.isascii() else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _envelope_problems(content: Mapping[str, Any], kind: schema.Kind) -> Iterator[Problem]:
    for field, expected in (("apiVersion", names.API_VERSION), ("kind", kind.kind)):
        if content.get(field) != expected:
            held = shown(content[field]) if field in content else "nothing"
            yield Problem(path=(field,), sentence=f"{held} stands where {expected} is expected")


def _broken_rules(node: Mapping[str, Any], value: Any, *, path: Path = ()) -> Iterator[Problem]:
    for rule in node.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not _evaluate(rule["rule"], value):
            where = (*path, *_steps(rule.get("fieldPath", "")))
            text = None if isinstance(value, dict | list) else shown(value)
            yield Problem(path=where, value=text, sentence=_sentence(rule, value))
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _broken_rules(node["items"], entry, path=(*path, index))
    elif isinstance(value, dict):
        fields = node.get("properties", {})
        for name, entry in value.items():
            yield from _broken_rules(fields.get(name) or node["additionalProperties"], entry, path=(*path, name))


def _sentence(rule: Mapping[str, Any], value: Any) -> str:
    return str(_evaluate(rule["messageExpression"], value)) if "messageExpression" in rule else str(rule["message"])


def _steps(field_path: str) -> tuple[str, ...]:
    return tuple(step for step in field_path.split(".") if step)


def _evaluate(expression: str, value: Any) -> Any:
    import cel  # noqa: PLC0415  # it brings a terminal's toolkit along, which takes longer than most commands

    return _compiled(expression).execute(cel.Context({"self": value}, _KUBERNETES_FUNCTIONS))


@functools.cache
def _compiled(expression: str) -> "cel.Program":
    import cel  # noqa: PLC0415  # as above

    return cel.compile(expression)


def _format(text: str, values: list[Any]) -> str:
    return text % tuple(values)


def _full_year(day: str) -> int:
    """To the API server a text of format date is a moment; here it is the text."""
    return int(day[:4])


def _is_quantity(text: str) -> bool:
    return re.fullmatch(units.QUANTITY_PATTERN, text) is not None


# What the rules use of CEL and of Kubernetes' additions, and the evaluator does not have.
_KUBERNETES_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "format": _format,
    "getFullYear": _full_year,
    "isQuantity": _is_quantity,
}


# --- structure: types, bounds, names, duplicates ---


def _structure_problems(node: Mapping[str, Any], value: Any, *, path: Path = ()) -> Iterator[Problem]:
    """Everything that is wrong with a value and what it holds; nothing when it fits the schema."""
    if not _has_type(value, node.get("type", "quantity")):
        yield _wrong_type(node, value, path=path)
    elif isinstance(value, dict):
        yield from _bounded(node, value, path=path)
        yield from _object_problems(node, value, path=path)
    elif isinstance(value, list):
        yield from _bounded(node, value, path=path)
        yield from _duplicates(node, value, path=path)
        for index, entry in enumerate(value):
            yield from _structure_problems(node["items"], entry, path=(*path, index))
    elif "enum" in node:
        yield from _unknown_choice(node["enum"], value, path=path)
    else:
        yield from _bounded(node, value, path=path)
        yield from _no_day(node, value, path=path)
        yield from _no_quantity(node, value, path=path)


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


def _wrong_type(node: Mapping[str, Any], value: Any, *, path: Path) -> Problem:
    wanted = node.get("type", "quantity")
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


def _object_problems(node: Mapping[str, Any], value: dict[str, Any], *, path: Path) -> Iterator[Problem]:
    if "additionalProperties" in node:
        for name, entry in value.items():
            yield from _structure_problems(node["additionalProperties"], entry, path=(*path, name))
        return
    known = node.get("properties", {})
    for name in node.get("required", ()):
        if name not in value:
            meaning = known[name].get("description", name).split(". ")[0].rstrip(".")
            yield Problem(path=(*path, name), sentence=f"required, but absent. {meaning}")
    for name, entry in value.items():
        if name in known:
            yield from _structure_problems(known[name], entry, path=(*path, name))
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


def _bounded(node: Mapping[str, Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if isinstance(value, bool) or (isinstance(value, str) and node.get("type") != "string"):
        return
    word, unit = _BOUND_WORDS.get(node.get("type", ""), ("imum", ""))
    least, most = node.get(f"min{word}"), node.get(f"max{word}")
    amount = len(value) if unit else value
    subject = f"{amount} {unit}" if unit else shown(value)
    if least is not None and amount < least:
        yield Problem(path=path, value=shown(value), sentence=f"{subject} is too little: at least {least} is needed")
    if most is not None and amount > most:
        yield Problem(path=path, value=shown(value), sentence=f"{subject} is too much: at most {most} is possible")


def _no_day(node: Mapping[str, Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if node.get("format") == "date" and not _is_day(value):
        yield Problem(
            path=path, value=shown(value), sentence=f"{shown(value)} is no day of the calendar, such as 2026-11-01"
        )


def _no_quantity(node: Mapping[str, Any], value: Any, *, path: Path) -> Iterator[Problem]:
    if isinstance(value, str) and "pattern" in node and not re.fullmatch(node["pattern"], value):
        yield Problem(path=path, value=shown(value), sentence=rules.SENTENCES[node["pattern"]])


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text  # other ways to write one are no way here
    except ValueError:
        return False


def _duplicates(node: Mapping[str, Any], value: list[Any], *, path: Path) -> Iterator[Problem]:
    keys: list[str] = node.get("x-kubernetes-list-map-keys", [])
    if node["x-kubernetes-list-type"] == "atomic":
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
