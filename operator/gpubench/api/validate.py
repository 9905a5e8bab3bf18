# SPDX-License-Identifier: Apache-2.0
"""Objects that meet no API server, such as the study file of a local run, are refused here as they would be there.

The generated schema is followed in the API server's order: nulls are dropped, structure is checked, defaults are filled
in, then the rules are evaluated, with the same CEL and the same sentences. No rule may be written here.
"""

import copy
import datetime
import functools
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpubench import names, units
from gpubench.api import benchmark, pool, schedule, schema, structure
from gpubench.api.structure import Path, Problem

if TYPE_CHECKING:
    import cel


class InvalidObject(ValueError):
    """An object with everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem], *, kind: str, name: str | None) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = tuple(problems)
        self.kind = kind
        self.name = name


def load_pool(document: Mapping[str, Any]) -> pool.GpuPool:
    """A GpuPool from its plain document, with defaults; InvalidObject with all problems."""
    content = _checked(document, schema.POOL)
    spec = pool.GpuPoolSpec.model_validate_json(json.dumps(content["spec"]), by_alias=True, by_name=False)
    return pool.GpuPool(name=content["metadata"]["name"], spec=spec)


def load_benchmark(document: Mapping[str, Any]) -> benchmark.GpuBenchmark:
    """A GpuBenchmark from its plain document, with defaults; InvalidObject with all problems."""
    content = _checked(document, schema.BENCHMARK)
    spec = benchmark.GpuBenchmarkSpec.model_validate_json(json.dumps(content["spec"]), by_alias=True, by_name=False)
    return benchmark.GpuBenchmark(name=content["metadata"]["name"], spec=spec)


def load_schedule(document: Mapping[str, Any]) -> schedule.GpuBenchmarkSchedule:
    """A GpuBenchmarkSchedule from its plain document, with defaults; InvalidObject with all problems."""
    content = _checked(document, schema.SCHEDULE)
    spec = schedule.GpuBenchmarkScheduleSpec.model_validate_json(
        json.dumps(content["spec"]), by_alias=True, by_name=False
    )
    return schedule.GpuBenchmarkSchedule(name=content["metadata"]["name"], spec=spec)


def problems_of(document: Mapping[str, Any], kind: schema.Kind) -> tuple[Problem, ...]:
    """Everything that the API server would refuse in an object at its creation, and nothing else."""
    content = _plain(document, kind)
    found = (*_envelope_problems(content, kind), *structure.problems(_object_schema(kind), content))
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


def _checked(document: Mapping[str, Any], kind: schema.Kind) -> dict[str, Any]:
    found = problems_of(document, kind)
    content = _plain(document, kind)
    if found:
        metadata = content.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        raise InvalidObject(found, kind=kind.kind, name=name if isinstance(name, str) else None)
    filled: dict[str, Any] = with_defaults(_object_schema(kind), content)
    return filled


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
            held = structure.shown(content[field]) if field in content else "nothing"
            yield Problem(path=(field,), sentence=f"{held} stands where {expected} is expected")


def _broken_rules(node: Mapping[str, Any], value: Any, *, path: Path = ()) -> Iterator[Problem]:
    for rule in node.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"] and not _evaluate(rule["rule"], value):
            where = (*path, *_steps(rule.get("fieldPath", "")))
            shown = None if isinstance(value, dict | list) else structure.shown(value)
            yield Problem(path=where, value=shown, sentence=_sentence(rule, value))
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

    return _compiled(expression).execute(cel.Context({"self": value, "int": "int"}, _KUBERNETES_FUNCTIONS))


@functools.cache
def _compiled(expression: str) -> "cel.Program":
    import cel  # noqa: PLC0415  # as above

    return cel.compile(expression)


def _format(text: str, values: list[Any]) -> str:
    return text % tuple(values)


def _full_year(day: str) -> int:
    """To the API server a text of format date is a moment; here it is the text."""
    return int(day[:4])


def _type(value: Any) -> str:
    return "int" if isinstance(value, int) else "string"


def _is_quantity(text: str) -> bool:
    return re.fullmatch(units.QUANTITY_PATTERN, text) is not None


# What the rules use of CEL and of Kubernetes' additions, and the evaluator does not have.
_KUBERNETES_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "sum": sum,
    "format": _format,
    "getFullYear": _full_year,
    "type": _type,
    "isQuantity": _is_quantity,
}
