# SPDX-License-Identifier: Apache-2.0
"""What the operator may do in a cluster: exactly what it does, each rule with its reason.

The chart's roles are generated from here, the tests run the operator under them, and `gpubench doctor` asks for each of
them. Discovery (`/api`, `/apis`), which kopf reads at start, is granted to every account by Kubernetes itself.
Where scrapes are reviewed the chart binds the operator to Kubernetes' own role for that, system:auth-delegator.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from gpubench import names


class Scope(StrEnum):
    """Where a permission is needed, so that an installation grants nothing wider and nothing that it does not use."""

    CLUSTER = "cluster"  # what belongs to no namespace
    STUDIES = "studies"  # the namespaces whose benchmarks are served
    OWN = "own"  # the operator's own namespace
    DRAINS = "drains"  # as CLUSTER, and only where nodes may be cordoned on purpose


class Rule(NamedTuple):
    """One rule of a role."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    scope: Scope = Scope.STUDIES


def _rule(group: str, resource: str, verbs: str, why: str, *, scope: Scope = Scope.STUDIES) -> Rule:
    return Rule((group,), (resource,), tuple(verbs.split()), why, scope)


_CORE, _OURS = "", names.GROUP
RULES: tuple[Rule, ...] = (
    _rule(
        _OURS,
        names.BENCHMARK_PLURAL,
        "get list watch",
        "benchmarks are watched, and read afresh; the spec is never written",
    ),
    _rule(_OURS, names.SCHEDULE_PLURAL, "get list watch", "schedules are watched, and read afresh; never written"),
    _rule(
        _OURS,
        f"{names.SCHEDULE_PLURAL}/status",
        "patch",
        "runs, regressions and monthly cost are in a schedule's status",
    ),
    _rule(
        _OURS,
        names.BENCHMARK_PLURAL,
        "create delete",
        "each run of a schedule is a benchmark: created when due, deleted beyond the history limits or replaced; so is "
        "any benchmark with ttlSecondsAfterFinished",
    ),
    _rule(
        _OURS,
        names.POOL_PLURAL,
        "get list watch",
        "pools are read when a benchmark is planned, when an attempt ends and for their status; never written",
        scope=Scope.CLUSTER,
    ),
    _rule(_OURS, f"{names.BENCHMARK_PLURAL}/status", "patch", "conditions and results are written into the status"),
    _rule(
        _OURS,
        f"{names.POOL_PLURAL}/status",
        "patch",
        "nodes, price and health of a pool are written into its status",
        scope=Scope.CLUSTER,
    ),
    _rule("batch", "jobs", "create delete get list patch watch", "each attempt is a Job; it gets a time to live"),
    _rule(_CORE, "pods", "list watch", "how an attempt runs and ends is read from its pods, and who else uses a node"),
    _rule(_CORE, "pods/eviction", "create", "spec.drill: a pod of the benchmark's own attempts is evicted on purpose"),
    _rule(_CORE, "pods/log", "get", "the head of pod 0's log has the full environment of a result"),
    _rule(_CORE, "configmaps", "create get list patch", "frozen plans, attempt ledgers, analyses, histories"),
    _rule(_CORE, "services", "create", "the headless Service of each benchmark"),
    _rule(
        _CORE,
        "secrets",
        "create",
        "the token by which the pods of a benchmark know each other; the operator can read no Secret, nor this one",
    ),
    _rule(
        "networking.k8s.io",
        "networkpolicies",
        "create",
        "the NetworkPolicy of each benchmark: its pods are reached by each other, and for scrapes, by nobody else",
    ),
    _rule(
        _CORE,
        "events",
        "create list",
        "Events of benchmarks are written; those of Jobs and pods say what a gang waits for",
    ),
    _rule(names.KUEUE_GROUP, "workloads", "get list", "why a Job waits in a queue of Kueue is read from its Workload"),
    _rule(
        _CORE,
        "nodes",
        "list watch",
        "the status of a pool counts its nodes; their labels have instance type and zone, their taints announce an end",
        scope=Scope.CLUSTER,
    ),
    _rule(
        _CORE,
        "nodes",
        "patch",
        "spec.drill of kind Drain: the node of a pod that is evicted on purpose is cordoned, and uncordoned later",
        scope=Scope.DRAINS,
    ),
    _rule(_CORE, "namespaces", "get", "the labels that a pool's allowedNamespaces asks for"),
    _rule("coordination.k8s.io", "leases", "create get update", "one operator at a time", scope=Scope.OWN),
)


def cluster_role() -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "gpubench-operator"},
        "rules": [_wire(rule) for rule in RULES],
    }


def rules_by_scope() -> dict[str, list[dict[str, Any]]]:
    return {scope.value: [_wire(rule) for rule in RULES if rule.scope is scope] for scope in Scope}


def _wire(rule: Rule) -> dict[str, Any]:
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
