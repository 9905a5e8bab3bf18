# SPDX-License-Identifier: Apache-2.0
"""What the operator may do in a cluster: exactly what it does, each rule with its reason.

The chart's ClusterRole is generated from here, and the tests run the operator under it. Discovery (`/api`, `/apis`),
which kopf reads at start, is granted to every account by Kubernetes itself.
"""

from typing import Any, NamedTuple

from gpubench import names

CLUSTER_ROLE = "gpubench-operator"


class Rule(NamedTuple):
    """One rule of a role."""

    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str


RULES: tuple[Rule, ...] = (
    Rule(
        groups=(names.GROUP,),
        resources=(names.BENCHMARK_PLURAL,),
        verbs=("get", "list", "watch"),
        why="studies are watched, listed for the resync, and read afresh at each look; never written",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(names.POOL_PLURAL,),
        verbs=("get", "list", "watch"),
        why="pools are read when a study is planned, when an attempt ends and when their status is made; never written",
    ),
    Rule(
        groups=(names.GROUP,),
        resources=(f"{names.BENCHMARK_PLURAL}/status", f"{names.POOL_PLURAL}/status"),
        verbs=("patch",),
        why="what was found is written into the status",
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
        why="how an attempt goes and ends is read from its pods, which the Job controller makes",
    ),
    Rule(
        groups=("",),
        resources=("pods/log",),
        verbs=("get",),
        why="the head of pod 0's log has the full environment that a figure stands on; kept in the study's ledger",
    ),
    Rule(
        groups=("",),
        resources=("configmaps",),
        verbs=("create", "get", "list", "patch"),
        why="frozen plans and attempt ledgers",
    ),
    Rule(groups=("",), resources=("services",), verbs=("create",), why="the headless Service of each study"),
    Rule(
        groups=("",),
        resources=("events",),
        verbs=("create", "list"),
        why="studies tell their story; FailedCreate and FailedMount events say what a gang waits for",
    ),
    Rule(
        groups=("",),
        resources=("nodes",),
        verbs=("list",),
        why="the status of a pool counts its nodes; their labels tell instance type and zone",
    ),
    Rule(
        groups=("coordination.k8s.io",),
        resources=("leases",),
        verbs=("create", "get", "update"),
        why="one operator at a time",
    ),
)


def cluster_role() -> dict[str, Any]:
    """The ClusterRole of the operator."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": CLUSTER_ROLE},
        "rules": [
            {"apiGroups": list(rule.groups), "resources": list(rule.resources), "verbs": list(rule.verbs)}
            for rule in RULES
        ],
    }
