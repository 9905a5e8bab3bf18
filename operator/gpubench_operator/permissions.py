# SPDX-License-Identifier: Apache-2.0
"""The roles of the operator as objects: made of the table of the core, nothing more."""

from typing import Any

from gpubench.permissions import RULES, Rule, Scope

CLUSTER_ROLE = "gpubench-operator"


def cluster_role() -> dict[str, Any]:
    """The ClusterRole of the operator."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": CLUSTER_ROLE},
        "rules": [_wire(rule) for rule in RULES],
    }


def by_scope() -> dict[str, list[dict[str, Any]]]:
    """The rules of each scope, of which the chart makes its roles."""
    return {scope.value: [_wire(rule) for rule in RULES if rule.scope is scope] for scope in Scope}


def _wire(rule: Rule) -> dict[str, Any]:
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
