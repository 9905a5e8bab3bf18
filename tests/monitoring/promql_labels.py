# SPDX-License-Identifier: Apache-2.0
"""Which labels the result of an expression has, from its tree as Prometheus reads it; none may be asked for in vain.

PromQL takes a label that no series has for an empty one, and a panel with a misspelt label is merely empty. So each
label that an expression names must be there: in the catalogue, among what a scrape adds, or made by `label_replace`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpubench import metrics
from gpubench_dashboards import rules

Labels = frozenset[str]

_OF_HISTOGRAM = ("_bucket", "_sum", "_count")
_CHOICES = ("topk", "bottomk")  # they leave series as they are
_SETS = ("and", "unless")
#: Series of others that panels join, with their labels by default.
OF_OTHERS: dict[str, Labels] = {
    name: frozenset((metrics.CLUSTER_LABEL, *labels))
    for name, labels in {
        "DCGM_FI_DEV_SM_CLOCK": ("UUID", "gpu", "Hostname", "modelName"),
        "DCGM_FI_DEV_XID_ERRORS": ("UUID", "gpu", "Hostname", "modelName"),
        "kube_pod_labels": ("namespace", "pod", "label_gpubench_dev_benchmark"),
        "kube_pod_container_resource_requests": ("namespace", "pod", "container", "node", "resource"),
        "node_total_hourly_cost": ("node",),
    }.items()
}


class Unknown(Exception):
    """A metric, or a label of it, that is nowhere in the catalogue."""


def catalogue() -> dict[str, Labels]:
    """Every series name with its labels: what is exported, and what the rules record."""
    found = {rule.record: frozenset(rule.labels) for rule in rules.RULES} | OF_OTHERS
    for metric in metrics.CATALOGUE:
        added = metrics.TARGET_LABELS if metric.exporter == "worker" else ()
        labels = frozenset((*metric.labels, *added, metrics.CLUSTER_LABEL))
        if metric.kind is metrics.Kind.HISTOGRAM:
            found |= {metric.name + ending: labels for ending in _OF_HISTOGRAM}
            found[f"{metric.name}_bucket"] = labels | {"le"}
        else:
            found[metric.name] = labels
    return found


def selectors(node: Any) -> Iterator[dict[str, Any]]:
    """Every selector of series in a tree."""
    if isinstance(node, Mapping):
        if node.get("type") in ("vectorSelector", "matrixSelector"):
            yield dict(node)
        for child in node.values():
            yield from selectors(child)
    elif isinstance(node, Sequence) and not isinstance(node, str):
        for child in node:
            yield from selectors(child)


def written(selector: Mapping[str, Any]) -> str:
    """A selector as PromQL."""
    matchers = [one for one in selector["matchers"] if one["name"] != "__name__"]
    inside = ", ".join(f'{one["name"]}{one["type"]}"{one["value"]}"' for one in matchers)
    return f"{selector['name']}{{{inside}}}" if inside else str(selector["name"])


def of(node: Mapping[str, Any], known: Mapping[str, Labels]) -> Labels:
    """The labels of the result; Unknown where the expression names one that its operand does not have."""
    kind = node["type"]
    if kind in ("vectorSelector", "matrixSelector"):
        return _of_selector(node, known)
    if kind == "aggregation":
        inside = of(node["expr"], known)
        _require(node["grouping"], inside, "an aggregation")
        if node["op"] in _CHOICES:
            return inside
        asked = frozenset(node["grouping"])
        return inside - asked if node["without"] else asked
    if kind == "binaryExpr":
        return _of_operation(node, known)
    if kind == "call":
        return _of_call(node, known)
    return of(node["expr"], known) if "expr" in node else frozenset()


def _of_selector(node: Mapping[str, Any], known: Mapping[str, Labels]) -> Labels:
    if node["name"] not in known:
        raise Unknown(f"no metric {node['name']}")
    labels = known[node["name"]]
    _require([one["name"] for one in node["matchers"] if one["name"] != "__name__"], labels, node["name"])
    return labels


def _of_operation(node: Mapping[str, Any], known: Mapping[str, Labels]) -> Labels:
    left, right = of(node["lhs"], known), of(node["rhs"], known)
    matching = node["matching"]
    if matching is None:  # one side is a number
        return left | right
    for side in (left, right):
        _require(matching["labels"], side, f"matching of {node['op']}")
    _require(matching["include"], right, "group_left")
    if node["op"] in _SETS:
        return left
    if node["op"] == "or":
        return left | right
    if matching["card"] == "many-to-one":
        return left | frozenset(matching["include"])
    return frozenset(matching["labels"]) if matching["on"] else left


def _of_call(node: Mapping[str, Any], known: Mapping[str, Labels]) -> Labels:
    labels = frozenset[str]().union(*(of(argument, known) for argument in node["args"]))
    name = node["func"]["name"]
    if name == "histogram_quantile":
        _require(["le"], labels, name)
        return labels - {"le"}
    if name == "label_replace":
        into, source = node["args"][1]["val"], node["args"][3]["val"]
        if source:
            _require([source], labels, name)
        return labels | {into}
    if name == "label_join":
        into, _, *sources = (argument["val"] for argument in node["args"][1:])
        _require(sources, labels, name)
        return labels | {into}
    return labels


def _require(asked: Sequence[str], there: Labels, where: str) -> None:
    missing = sorted(set(asked) - there)
    if missing:
        raise Unknown(f"{where}: no label {', '.join(missing)} among {', '.join(sorted(there))}")


def in_legend(text: str) -> set[str]:
    """Labels that a legend or an annotation names."""
    return set(re.findall(r"\{\{\s*(\w+)\s*\}\}", text))


def substituted(expression: str, **values: str) -> str:
    """With values for Grafana's variables; whatever is not given is everything."""
    expression = expression.replace("$__rate_interval", values.pop("rate_interval", "1m")).replace("$__range", "6h")
    expression = expression.replace("${scaling:text}", "weak").replace("$scaling", "batch_per_worker")
    for name, value in values.items():
        expression = re.sub(rf"\${name}\b", value, expression)
    return re.sub(r"\$[a-z]\w*", ".*", expression)  # a replacement's $1 is none of them
