# SPDX-License-Identifier: Apache-2.0
"""Values that the schema of a CRD allows, as strategies of hypothesis, and the places of a value in its schema.

The schema is the one that is installed (`charts/gpubench/files/crds`): a field that is added there is generated here
without a word. What only rules across fields know is not here: `fuzz_objects` puts that right.
"""

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hypothesis import strategies as st

from gpubench import units

Schema = Mapping[str, Any]
Strategy = st.SearchStrategy[Any]
Path = tuple[str | int, ...]

LIST_MOST = 3  # entries of a valid list: a study of many points costs seconds
TEXT_MOST = 24
INTEGER_MOST = 64  # of a valid object; what lies at the bounds is a mutation's
MAP_MOST = 3
_MATCHES = re.compile(r"self\.matches\(r'(?P<pattern>.*)'\)", re.DOTALL)
_VISIBLE = st.characters(min_codepoint=0x20, max_codepoint=0x7E)

#: Texts of a pattern whose whole range no valid object has: prices of a million million, durations of eleven years.
_OF_PATTERN: dict[str, Strategy] = {
    units.DECIMAL_PATTERN: st.sampled_from(["0.36", "1", "10.21", "3.060", "0.000001", "29.38", "700"]),
    units.DURATION_PATTERN: st.sampled_from(["2s", "10s", "90s", "1m", "2m30s"]),
    units.PROCESSORS_PATTERN: st.sampled_from(["1", "0.5", "500m", "2"]),
    units.QUANTITY_PATTERN: st.sampled_from(["1Gi", "512Mi", "16", "1.5Gi", "1000k"]),
}


class Place(NamedTuple):
    """A value inside an object, and what the schema says about it."""

    path: Path
    node: Schema
    value: Any

    @property
    def field(self) -> str:
        """The path as people write it: `spec.sweep[0].workers[1]`."""
        return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in self.path).removeprefix(".")


def values(
    node: Schema, *, special: Mapping[str, Strategy] | None = None, path: str = "", optional: int = 4
) -> Strategy:
    """Values of a node. `special` are strategies by path (`spec.sweep[].pools`); one in `optional` fields is there."""
    special = special or {}
    if path in special:
        return special[path]
    if "enum" in node:
        return st.sampled_from(list(node["enum"]))
    kind = node.get("type", "string")  # a quantity is a text, or a whole number
    if kind == "object" and "additionalProperties" in node:
        inner = values(node["additionalProperties"], special=special, path=f"{path}{{}}", optional=optional)
        return st.dictionaries(_label_keys(), inner, max_size=MAP_MOST)
    if kind == "object":
        fields = {
            name: values(field, special=special, path=f"{path}.{name}".removeprefix("."), optional=optional)
            for name, field in node.get("properties", {}).items()
        }
        return _objects(fields, required=tuple(node.get("required", ())), optional=optional)
    if kind == "array":
        inner = values(node["items"], special=special, path=f"{path}[]", optional=optional)
        return _lists(node, inner)
    return _plain(node)


def pattern_of(node: Schema) -> str | None:
    """The regular expression that a text must match, where it must."""
    if "pattern" in node:
        return str(node["pattern"])
    for rule in node.get("x-kubernetes-validations", ()):
        if found := _MATCHES.fullmatch(rule["rule"]):
            return found["pattern"]
    return None


def any_text(pattern: str, *, least: int, most: int) -> Strategy:
    """Any text of a pattern, also those that no rule across fields lets through."""
    found = st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True, alphabet=_VISIBLE)
    return found.filter(lambda text: least <= len(text) <= most)


def places(document: Any, schema: Schema, *, path: Path = ()) -> Iterator[Place]:
    """Every value of an object that the schema knows, the object itself first."""
    yield Place(path, schema, document)
    if isinstance(document, dict):
        known = schema.get("properties", {})
        for name, value in document.items():
            node = known.get(name) or schema.get("additionalProperties")
            if node is not None:
                yield from places(value, node, path=(*path, name))
    elif isinstance(document, list) and "items" in schema:
        for index, value in enumerate(document):
            yield from places(value, schema["items"], path=(*path, index))


def changed(document: Any, path: Path, value: Any) -> Any:
    """The object with another value at a place."""
    if not path:
        return value
    result = copy.copy(document)
    result[path[0]] = changed(document[path[0]], path[1:], value)
    return result


def without(document: Any, path: Path) -> Any:
    """The object without what stands at a place."""
    *above, last = path
    holder = copy.copy(at(document, tuple(above)))
    del holder[last]
    return changed(document, tuple(above), holder)


def at(document: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        document = document[step]
    return document


@st.composite
def _objects(draw: st.DrawFn, fields: Mapping[str, Strategy], *, required: tuple[str, ...], optional: int) -> Any:
    """A mapping; dense ones are rare, or each object would have everything."""
    return {
        name: draw(strategy)
        for name, strategy in fields.items()
        if name in required or draw(st.integers(1, optional)) == optional
    }


def _lists(node: Schema, inner: Strategy) -> Strategy:
    least, most = node.get("minItems", 0), min(node.get("maxItems", LIST_MOST), LIST_MOST)
    kind = node.get("x-kubernetes-list-type", "atomic")
    if kind == "atomic":
        return st.lists(inner, min_size=least, max_size=most)
    keys = tuple(node.get("x-kubernetes-list-map-keys", ()))
    return st.lists(
        inner,
        min_size=least,
        max_size=most,
        unique_by=lambda entry: tuple(entry.get(key) for key in keys) if keys else entry,
    )


def _plain(node: Schema) -> Strategy:
    kind = node.get("type", "string")  # a quantity is a text, or a whole number
    if kind == "boolean":
        return st.booleans()
    if kind == "integer":
        least = node.get("minimum", 0)
        return st.integers(least, min(node.get("maximum", INTEGER_MOST), max(least, INTEGER_MOST)))
    if kind == "number":
        return st.floats(node.get("minimum", 0.0), min(node.get("maximum", 1000.0), 1000.0), allow_nan=False)
    return _texts(node)


def _texts(node: Schema) -> Strategy:
    if node.get("format") == "date":
        return st.sampled_from(["2026-11-01", "2018-02-28", "2026-02-28", "2024-02-29"])
    least, most = node.get("minLength", 0), min(node.get("maxLength", TEXT_MOST), TEXT_MOST)
    pattern = pattern_of(node)
    if pattern is None:
        return st.text(_VISIBLE, min_size=least, max_size=most)
    if pattern in _OF_PATTERN:
        return _OF_PATTERN[pattern]
    return any_text(pattern, least=least, most=max(least, most))


def _label_keys() -> Strategy:
    return st.sampled_from(["pool", "example.com/kind", "ephemeral-storage", "example.com/fpga", "zone"])
