# SPDX-License-Identifier: Apache-2.0
"""What the operator may do in a cluster: exactly what it does, each rule with its reason.

The chart's roles are generated from here, the tests run the operator under them, and `gpubench doctor` asks for each of
them. Discovery (`/api`, `/apis`), which kopf reads at start, is granted to every account by Kubernetes itself.
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


RULES: tuple[Rule, ...] = (
    Rule(
        groups=(names.GROUP,),
        resources=(names.BENCHMARK_PLURAL,),
        verbs=("get", "list", "watch"),
        why="benchmarks are watched, listed for the resync, read afresh at each reconcile; their spec is never written",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(names.SCHEDULE_PLURAL,),
        verbs=("get", "list", "watch"),
        why="schedules are watched, and read afresh at each reconcile; never written",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(f"{names.SCHEDULE_PLURAL}/status",),
        verbs=("patch",),
        why="runs, regressions and monthly cost are written into the status of a schedule",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(names.BENCHMARK_PLURAL,),
        verbs=("create", "delete"),
        why="each run of a schedule is a benchmark: created when due, deleted beyond the history limits or replaced",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(names.POOL_PLURAL,),
        verbs=("get", "list", "watch"),
        why="pools are read when a benchmark is planned, when an attempt ends and for their status; never written",
        scope=Scope.CLUSTER,
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(f"{names.BENCHMARK_PLURAL}/status",),
        verbs=("patch",),
        why="conditions and results are written into the status",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(f"{names.POOL_PLURAL}/status",),
        verbs=("patch",),
        why="nodes, price and health of a pool are written into its status",
        scope=Scope.CLUSTER,
    ),
    Rule(
        groups=("batch",),
        resources=("jobs",),
        verbs=("create", "delete", "get", "list", "patch", "watch"),
        why="each attempt is a Job: created, watched, deleted when it must end early, given a time to live",
    ),
    Rule(
        groups=("",),
        resources=("pods",),
        verbs=("list", "watch"),
        why="how an attempt runs and ends is read from its pods, which the Job controller makes",
    ),
    Rule(
        groups=("",),
        resources=("pods/eviction",),
        verbs=("create",),
        why="spec.drill: a pod of the benchmark's own attempts is evicted on purpose",
    ),
    Rule(
        groups=("",),
        resources=("pods/log",),
        verbs=("get",),
        why="the head of pod 0's log has the full environment of a result; kept in the benchmark's ledger",
    ),
    Rule(
        groups=("",),
        resources=("configmaps",),
        verbs=("create", "get", "list", "patch"),
        why="frozen plans and attempt ledgers",
    ),
    Rule(groups=("",), resources=("services",), verbs=("create",), why="the headless Service of each benchmark"),
    Rule(
        groups=("",),
        resources=("secrets",),
        verbs=("create",),
        why="the token by which the pods of a benchmark know each other; the operator can read no Secret, nor this one",
    ),
    Rule(
        groups=("networking.k8s.io",),
        resources=("networkpolicies",),
        verbs=("create",),
        why="the NetworkPolicy of each benchmark: its pods are reached by each other, and for scrapes, by nobody else",
    ),
    Rule(
        groups=("",),
        resources=("events",),
        verbs=("create", "list"),
        why="Events of benchmarks are written; FailedCreate and FailedMount events say what a gang waits for",
    ),
    Rule(
        groups=("",),
        resources=("nodes",),
        verbs=("list",),
        why="the status of a pool counts its nodes; their labels have instance type and zone",
        scope=Scope.CLUSTER,
    ),
    Rule(
        groups=("",),
        resources=("nodes",),
        verbs=("patch",),
        why="spec.drill of kind Drain: the node of a pod that is evicted on purpose is cordoned, and uncordoned later",
        scope=Scope.DRAINS,
    ),
    Rule(
        groups=("coordination.k8s.io",),
        resources=("leases",),
        verbs=("create", "get", "update"),
        why="one operator at a time",
        scope=Scope.OWN,
    ),
)


def cluster_role() -> dict[str, Any]:
    """The ClusterRole of the operator."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "gpubench-operator"},
        "rules": [_wire(rule) for rule in RULES],
    }


def rules_by_scope() -> dict[str, list[dict[str, Any]]]:
    """The rules of each scope, of which the chart makes its roles."""
    return {scope.value: [_wire(rule) for rule in RULES if rule.scope is scope] for scope in Scope}


def _wire(rule: Rule) -> dict[str, Any]:
    return {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
