# SPDX-License-Identifier: Apache-2.0
"""The generated schemas are structural, bounded and complete."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpubench import workloads
from gpubench.api import reference, schema

FORBIDDEN = {
    "$ref",
    "$defs",
    "anyOf",
    "oneOf",
    "allOf",
    "title",
    "const",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
}
SCHEMAS = [
    pytest.param(schema.object_schema(kind)["properties"][section], id=f"{kind.kind}.{section}")
    for kind in schema.KINDS
    for section in ("spec", "status")
]


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, node
    for name, field in node.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}")
    for keyword in ("items", "additionalProperties"):
        if keyword in node:
            yield from nodes(node[keyword], f"{path}[]")


@pytest.mark.parametrize("whole", SCHEMAS)
def test_schemas_are_structural(whole: dict[str, Any]) -> None:
    for path, node in nodes(whole):
        assert ("type" in node) != ("x-kubernetes-int-or-string" in node), path
        assert not FORBIDDEN & set(node), path


@pytest.mark.parametrize("whole", SCHEMAS)
def test_everything_that_can_grow_has_a_bound(whole: dict[str, Any]) -> None:
    for path, node in nodes(whole):
        if node.get("type") == "array":
            assert "maxItems" in node, path
            assert "x-kubernetes-list-type" in node, path
        if node.get("type") == "string":
            assert "maxLength" in node or "enum" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


def test_what_is_asked_in_numbers_has_both_ends() -> None:
    for kind in schema.KINDS:
        for path, node in nodes(schema.object_schema(kind)["properties"]["spec"]):
            if node.get("type") == "integer":
                assert {"minimum", "maximum"} <= set(node), path


def test_workloads_are_those_of_the_catalogue() -> None:
    sweep = schema.object_schema(schema.BENCHMARK)["properties"]["spec"]["properties"]["sweep"]
    assert sweep["items"]["properties"]["workloads"]["items"]["enum"] == [*workloads.NAMES, "Custom"]


def test_default_objects_hold_the_defaults_of_their_fields() -> None:
    spec = schema.object_schema(schema.BENCHMARK)["properties"]["spec"]["properties"]
    for name in ("measure", "order", "limits"):
        inner = {field: node["default"] for field, node in spec[name]["properties"].items() if "default" in node}
        assert spec[name]["default"] == inner
    assert "default" not in spec["template"]


def test_reference_page_has_every_field_and_every_rule() -> None:
    page = reference.objects_page()
    for kind in schema.KINDS:
        whole = schema.object_schema(kind)["properties"]
        for section in ("spec", "status"):
            for path, node in nodes(whole[section], section):
                if not path.endswith("[]") and path != section:
                    assert f"`{path}`" in page
                for rule in node.get("x-kubernetes-validations", ()):
                    assert rule["message"] in page
