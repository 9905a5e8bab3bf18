# SPDX-License-Identifier: Apache-2.0
"""The reference pages, made from the schemas and the catalogue of metrics. Text only; nothing is written here."""

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from gpubench import metrics, names
from gpubench.api import benchmark_status, messages, rules, schema

_GENERATED = "<!-- Generated from {source} by `make generate`; edit that, not this. -->\n"
_OBJECTS_INTRODUCTION = (
    f"Group `{names.GROUP}`, version `{names.VERSION}`. `kubectl explain` says the same on a cluster. "
    "A field without *required* and without a default may be left out. `[]` stands for each entry of a list.\n"
)
_METRICS_INTRODUCTION = (
    "*Point* stands for the labels {points}. *Series* is how many there can be at most for the benchmark, pool, rank "
    "or operator that they are of; they go when it goes. A figure that does not exist has no series: it is never 0.\n"
)
_ANALYSIS_INTRODUCTION = (
    "All figures of a benchmark: JSON under `analysis.json` in the ConfigMaps that `status.analysis` names, joined in "
    "their order. It is what it should be if its SHA-256 is the one in the status. `gpubench show NAME -o json` has "
    "it, too.\n"
)
_MESSAGES_INTRODUCTION = (
    "What a benchmark says while it waits: `kubectl get gbench NAME -o wide` shows the first message, "
    "`kubectl describe` all conditions. Words in capitals stand for what is named there. After the sentence follows "
    "what others said of it (the scheduler, an autoscaler, Kueue, a webhook), then what can be done.\n"
)
_HEADING = "| field | type | default | bounds | meaning |\n|---|---|---|---|---|"
_BOUNDS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minItems", "at least {} entries"),
    ("maxItems", "at most {} entries"),
    ("maxProperties", "at most {} keys"),
    ("maxLength", "at most {} characters"),
)


def objects_page() -> str:
    head = (_GENERATED.format(source="operator/gpubench/api"), "# Objects\n", _OBJECTS_INTRODUCTION)
    rows = _rows(schema.type_schema(benchmark_status.Analysis), path="analysis")
    kinds = itertools.chain.from_iterable(map(_kind, schema.KINDS))
    return "\n".join([*head, *kinds, "## Analysis\n", _ANALYSIS_INTRODUCTION, _HEADING, *rows, ""])


def metrics_page() -> str:
    points = ", ".join(f"`{label}`" for label in metrics.POINT_LABELS)
    added = ", ".join(f"`{label}`" for label in metrics.TARGET_LABELS)
    parts = [
        _GENERATED.format(source="operator/gpubench/metrics.py"),
        "# Metrics\n",
        _METRICS_INTRODUCTION.format(points=points),
    ]
    for exporter, heading in (("operator", "Exported by the operator"), ("worker", "Exported by each rank of a gang")):
        parts.append(f"## {heading}\n")
        if exporter == "worker":
            parts.append(f"A scrape adds {added}: see [`dashboards/`](../../dashboards/README.md).\n")
        parts.append("| metric | kind | unit | labels | series | meaning |\n|---|---|---|---|---|---|")
        parts += [_metric(metric) for metric in metrics.CATALOGUE if metric.exporter == exporter]
        parts.append("")
    return "\n".join(parts)


def messages_page() -> str:
    parts = [_GENERATED.format(source="operator/gpubench/api/messages.py"), "# Messages\n", _MESSAGES_INTRODUCTION]
    for condition, found in itertools.groupby(messages.CATALOGUE, key=lambda one: one.condition):
        parts.append(f"## {condition}\n\n| reason | message | what can be done |\n|---|---|---|")
        for one in found:
            sentence, remedy = (re.sub(r"{(\w+)}", lambda name: name[1].upper(), text) for text in one[2:])
            parts.append(_row((f"`{one.reason}`", sentence, remedy or "nothing: wait")))
        parts.append("")
    return "\n".join(parts)


def _kind(kind: schema.Kind) -> Iterator[str]:
    whole = schema.object_schema(kind)
    scope = "cluster-scoped" if kind.scope == "Cluster" else "namespaced"
    yield f"## {kind.kind}\n\n`{kind.plural}`, short `{kind.short}`, {scope}. {kind.description}\n"
    for section in ("spec", "status"):
        yield from (f"### {kind.kind} {section}\n", _HEADING, *_rows(whole["properties"][section], path=section), "")
    rules_shown = (f"- `{path}`: {sentence}" for path, sentence in _rules(whole, path=""))
    yield from (f"### {kind.kind} rules\n", *rules_shown, "")


def _rows(node: Mapping[str, Any], *, path: str) -> Iterator[str]:
    required = node.get("required", ())
    for name, field in node.get("properties", {}).items():
        here = f"{path}.{name}"
        default = "*required*" if name in required else _default(field)
        yield _row((f"`{here}`", _type(field), default, _bounds(field), field.get("description", "")))
        is_list = field.get("type") == "array"
        yield from _rows(field["items"] if is_list else field, path=f"{here}[]" if is_list else here)


def _rules(node: Mapping[str, Any], *, path: str) -> Iterator[tuple[str, str]]:
    if node.get("type") == "string":
        return  # how it is written stands beside the field
    for rule in node.get("x-kubernetes-validations", ()):
        yield path or "metadata", rule["message"]
    for name, field in node.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        yield from _rules(field, path=here)
        if field.get("type") == "array":
            yield from _rules(field["items"], path=f"{here}[]")


def _type(field: Mapping[str, Any]) -> str:
    kind: str = field.get("type", "integer or string")
    if kind == "array":
        unique = {"set": ", each once", "map": f", one per {', '.join(field.get('x-kubernetes-list-map-keys', ()))}"}
        return f"list of {_type(field['items'])}{unique.get(field['x-kubernetes-list-type'], '')}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    if "enum" in field:
        return " | ".join(f"`{value}`" for value in field["enum"])
    return {"date": "date", "date-time": "time"}.get(field.get("format", ""), kind)


def _default(field: Mapping[str, Any]) -> str:
    if "default" not in field or isinstance(field["default"], dict):
        return ""
    return f"`{schema.default_text(field['default'])}`"


def _bounds(field: Mapping[str, Any]) -> str:
    nested = field.get("items") or field.get("additionalProperties") or {}
    each = (f"each {text}" for text in _own_bounds(nested))
    return "; ".join([*_own_bounds(field), *each, *_written(field), *_written(nested)])


def _own_bounds(field: Mapping[str, Any]) -> list[str]:
    return [] if schema.is_quantity(field) else [text.format(field[word]) for word, text in _BOUNDS if word in field]


def _written(field: Mapping[str, Any]) -> list[str]:
    if schema.is_quantity(field):
        return [rules.SENTENCES[field["pattern"]]]
    return [rule["message"] for rule in field.get("x-kubernetes-validations", ()) if field["type"] == "string"]


def _metric(metric: metrics.Metric) -> str:
    of_point = set(metrics.POINT_LABELS) <= set(metric.labels)
    others = [f"`{label}`" for label in metric.labels if not of_point or label not in metrics.POINT_LABELS]
    labels = ", ".join(["*point*", *others] if of_point else others)
    series = f"{metric.series_max} a {metric.owner.value}".replace("a operator", "an operator")
    return _row((f"`{metric.name}`", metric.kind.value, metric.unit.value, labels, series, metric.help))


def _row(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
