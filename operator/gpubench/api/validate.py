# SPDX-License-Identifier: Apache-2.0
"""Objects that meet no API server, such as the file of a local run, are refused here as they would be there.

The generated schema is followed in the API server's order: nulls are dropped, structure is checked, defaults are filled
in, then the rules are evaluated, with the same CEL and the same messages. No rule may be written here, and no value
refused that the API server takes; only the words are better.
"""

import copy
import datetime
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar

from gpubench import names, units
from gpubench.api import benchmark, pool, rules, schedule, schema
from gpubench.values import FrozenModel

if TYPE_CHECKING:
    import cel

Path = tuple[str | int, ...]
_Node = Mapping[str, Any]
_Root = TypeVar("_Root", bound=FrozenModel)

_EXPECTED = {
    "object": "a mapping of fields",
    "array": "a list, such as [1, 2],",
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "quantity": "a whole number or text",
}
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "string": (str,), "integer": (int,), "number": (int, float),
    "boolean": (bool,), "quantity": (int, str),
}  # fmt: skip
_BOUND_WORDS = {"string": ("Length", "characters"), "array": ("Items", "entries"), "object": ("Properties", "keys")}
_SHOWN_MAX = 60  # characters of a refused value in a message


class Problem(FrozenModel):
    """One thing that is wrong with an object."""

    path: Path  # keys and list indices, from the object's root
    sentence: str

    @property
    def field(self) -> str:
        """The path as people write it: `spec.sweep[0].workers[1]`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).removeprefix(".")

    def __str__(self) -> str:
        return f"{self.field}: {self.sentence}" if self.path else self.sentence


class InvalidObject(ValueError):
    """An object with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem], *, name: str | None) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
        self.name = name


def _load(root: type[_Root], kind: schema.Kind, document: _Node) -> _Root:
    """An object from its plain document, with defaults; InvalidObject with all problems."""
    return root.model_validate_json(_content(document, kind), by_alias=True, by_name=False)


load_pool = functools.partial(_load, pool.GpuPool, schema.POOL)
load_benchmark = functools.partial(_load, benchmark.GpuBenchmark, schema.BENCHMARK)
load_schedule = functools.partial(_load, schedule.GpuBenchmarkSchedule, schema.SCHEDULE)


def problems_of(document: _Node, kind: schema.Kind) -> tuple[Problem, ...]:
    """Everything that the API server would refuse in an object at its creation, and nothing else."""
    whole = _object_schema(kind)
    content = _plain(document, whole)
    found = [
        Problem(
            path=(field,),
            sentence=f"{shown(content[field]) if field in content else 'nothing'} stands where {expected} is expected",
        )
        for field, expected in (("apiVersion", names.API_VERSION), ("kind", kind.kind))
        if content.get(field) != expected
    ]
    found += _structure_problems(whole, content, root=whole)
    return tuple(found or _broken_rules(whole, with_defaults(whole, content)))


def with_defaults(node: _Node, value: Any) -> Any:
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


def _content(document: _Node, kind: schema.Kind) -> str:
    content = _plain(document, _object_schema(kind))
    if found := problems_of(document, kind):
        metadata = content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        raise InvalidObject(found, name=name if isinstance(name, str) else None)
    filled = with_defaults(_object_schema(kind), content)
    return json.dumps({"name": filled["metadata"]["name"], "spec": filled["spec"]})


@functools.cache
def _object_schema(kind: schema.Kind) -> schema.Schema:
    """The generated schema, with what the API server itself demands of every object."""
    whole = schema.object_schema(kind)
    whole["properties"]["metadata"]["required"] = ["name"]
    return {**whole, "required": ["metadata", "spec"]}


def _plain(document: _Node, node: _Node) -> dict[str, Any]:
    """The document as the API server reads it: no nulls, days as text, 2.0 as 2, no half of a surrogate pair.

    Of the metadata only the name.
    """
    plain: dict[str, Any] = _without_nulls(document, node)
    metadata = plain.get("metadata")
    if isinstance(metadata, dict):
        plain["metadata"] = {name: value for name, value in metadata.items() if name == "name"}
    return plain


def _without_nulls(value: Any, node: _Node) -> Any:
    """The value of a schema's node; a null stays where the schema has no such field, which is refused for that."""
    if isinstance(value, Mapping):
        fields, others = node.get("properties"), node.get("additionalProperties") or {}
        return {
            _characters(str(name)): _without_nulls(entry, (fields or {}).get(name) or others)
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


# --- rules across fields ---


def _broken_rules(node: _Node, value: Any, *, path: Path = ()) -> Iterator[Problem]:
    for rule in node.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not _evaluate(rule["rule"], value):
            where = (*path, *filter(None, rule.get("fieldPath", "").split(".")))
            detailed = rule.get("messageExpression")
            yield Problem(path=where, sentence=str(_evaluate(detailed, value)) if detailed else rule["message"])
    if isinstance(value, list):
        for index, entry in enumerate(value):
            yield from _broken_rules(node["items"], entry, path=(*path, index))
    elif isinstance(value, dict):
        fields = node.get("properties", {})
        for name, entry in value.items():
            yield from _broken_rules(fields.get(name) or node["additionalProperties"], entry, path=(*path, name))


def _evaluate(expression: str, value: Any) -> Any:
    import cel  # noqa: PLC0415  # it brings a terminal's toolkit along, which takes longer than most commands

    return _compiled(expression).execute(cel.Context({"self": value}, _KUBERNETES_FUNCTIONS))


@functools.cache
def _compiled(expression: str) -> "cel.Program":
    import cel  # noqa: PLC0415  # as above

    return cel.compile(expression)


# What the rules use of CEL and of Kubernetes' additions, and the evaluator does not have.
_KUBERNETES_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "format": lambda text, values: text % tuple(values),
    "split": str.split,
    "getFullYear": lambda day: int(day[:4]),  # to the API server a text of format date is a moment
    "isQuantity": lambda text: re.fullmatch(f"{units.QUANTITY_PATTERN}|{units.DECIMAL_PATTERN}", text) is not None,
}


# --- structure: types, bounds, names, duplicates ---


def _structure_problems(node: _Node, value: Any, *, root: _Node, path: Path = ()) -> Iterator[Problem]:
    """Everything that is wrong with a value and what it holds; nothing when it fits the schema."""
    expected = node.get("type", "quantity")
    if not isinstance(value, _TYPES[expected]) or (isinstance(value, bool) and expected != "boolean"):
        yield Problem(path=path, sentence=_wrong_type(expected, value))
        return
    if "enum" in node:
        if value not in node["enum"]:
            choose = _nearest(value, node["enum"], else_say="choose one of")
            yield Problem(path=path, sentence=f"{shown(value)} is none of the possible values: {choose}")
        return
    yield from (Problem(path=path, sentence=sentence) for sentence in _bounded(node, value, expected))
    match value:
        case dict():
            yield from _object_problems(node, value, root=root, path=path)
        case list():
            yield from _duplicates(node, value, path=path)
            for index, entry in enumerate(value):
                yield from _structure_problems(node["items"], entry, root=root, path=(*path, index))
        case str() if node.get("format") == "date" and not _is_day(value):
            yield Problem(path=path, sentence=f"{shown(value)} is no day of the calendar, such as 2026-11-01")
        case str() if "pattern" in node and not re.fullmatch(node["pattern"], value):
            yield Problem(path=path, sentence=rules.SENTENCES[node["pattern"]])


def shown(value: Any) -> str:
    """A value in a message: text in quotes, long ones cut."""
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= _SHOWN_MAX else f"{text[: _SHOWN_MAX - 4]} ..."


def _nearest(value: Any, choices: Sequence[Any], *, else_say: str) -> str:
    nearest = get_close_matches(str(value), choices, n=1)
    return f"did you mean {nearest[0]}?" if nearest else f"{else_say} {', '.join(map(str, choices))}"


def _wrong_type(expected: str, value: Any) -> str:
    remedy = ""
    if expected in ("string", "quantity") and isinstance(value, int | float):
        remedy = ": put it in quotes"
    elif isinstance(value, str) and expected in ("integer", "number", "boolean"):
        remedy = ": write it without quotes"
    elif expected == "array" and not isinstance(value, dict):
        remedy = f": write [{value}]"
    held = "nothing" if value is None else "a mapping" if isinstance(value, dict) else shown(value)
    return f"{held} stands where {_EXPECTED[expected]} is expected{remedy}"


def _object_problems(node: _Node, value: dict[str, Any], *, root: _Node, path: Path) -> Iterator[Problem]:
    known, others = node.get("properties", {}), node.get("additionalProperties")
    for name in node.get("required", ()):
        if name not in value:
            meaning = known[name].get("description", name).split(". ")[0].rstrip(".")
            yield Problem(path=(*path, name), sentence=f"required, but absent. {meaning}")
    for name, entry in value.items():
        if (inner := known.get(name, others)) is not None:
            yield from _structure_problems(inner, entry, root=root, path=(*path, name))
        else:
            homes = [
                one for one in schema.field_paths(root["properties"]["spec"], path="spec") if one.endswith(f".{name}")
            ]
            nearest = _nearest(name, tuple(known), else_say="the fields here are")
            hint = f"did you mean {homes[0]}?" if len(homes) == 1 else nearest
            yield Problem(path=(*path, name), sentence=f"unknown field: {hint}")


def _bounded(node: _Node, value: Any, expected: str) -> Iterator[str]:
    if isinstance(value, bool) or (isinstance(value, str) and expected != "string"):
        return
    word, unit = _BOUND_WORDS.get(expected, ("imum", ""))
    least, most = node.get(f"min{word}"), node.get(f"max{word}")
    amount = len(value) if unit else value
    subject = f"{amount} {unit}" if unit else shown(value)
    if least is not None and amount < least:
        yield f"{subject} is too little: at least {least} is needed"
    if most is not None and amount > most:
        yield f"{subject} is too much: at most {most} is possible"


def _is_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text  # other ways to write one are no way here
    except ValueError:
        return False


def _duplicates(node: _Node, value: list[Any], *, path: Path) -> Iterator[Problem]:
    if node["x-kubernetes-list-type"] == "atomic":
        return
    keys: list[str] = node.get("x-kubernetes-list-map-keys", [])
    seen: set[str] = set()
    for index, entry in enumerate(value):
        of_map = keys and isinstance(entry, dict)
        # As JSON, because to Python `true` and 1 are the same.
        identity = json.dumps([entry.get(key) for key in keys] if of_map else entry, sort_keys=True)
        if identity in seen:
            name = ", ".join(str(entry.get(key)) for key in keys) if of_map else shown(entry)
            yield Problem(path=(*path, index), sentence=f"{name} stands here twice: remove one of them")
        seen.add(identity)
