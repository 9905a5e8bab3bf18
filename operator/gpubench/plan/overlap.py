# SPDX-License-Identifier: Apache-2.0
"""Whether one pool takes the nodes of another, and what they say differently of them.

Must not happen: a refusal of pools that a taint keeps apart, which one of them tolerates.
"""

from collections.abc import Sequence
from itertools import permutations

from gpubench.api import messages, pod_template, pool
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan


def refusal(plan: Plan) -> messages.Waits | None:
    """Why two pools of a plan cannot both be run: one takes the nodes of the other, and says other things of them."""
    for wide, narrow in permutations(map(plan.pool, plan.pools_run), 2):
        if (differing := differences(wide.spec, narrow.spec)) and contains(wide.spec, narrow.spec):
            return messages.POOLS_OVERLAP.of(wide=wide.name, narrow=narrow.name, what=" and ".join(differing))
    return None


def differences(one: pool.GpuPoolSpec, other: pool.GpuPoolSpec) -> tuple[str, ...]:
    """What two pools say differently of a node; a price that is not known is no other one."""
    terms = [found for spec in (one, other) if (found := pool_prices.terms(spec)) is not None]
    differ = {
        "capacityType": one.capacity_type is not other.capacity_type,
        "price": terms[:1] != terms[1:] and len(terms) > 1,
    }
    return tuple(name for name, is_so in differ.items() if is_so)


def contains(wide: pool.GpuPoolSpec, narrow: pool.GpuPoolSpec) -> bool:
    """Whether the pods of one pool may run on every node of another, as far as both say."""
    return (
        wide.slot.gpu_resource in (None, narrow.slot.gpu_resource)
        and {*narrow.scheduling.tolerations} <= {*wide.scheduling.tolerations}
        and all(
            any(all(_implied(one, by) for one in of_wide) for of_wide in _alternatives(wide.scheduling))
            for by in _alternatives(narrow.scheduling)
        )
    )


def may_share(one: pool.GpuPoolSpec, other: pool.GpuPoolSpec) -> bool:
    """Whether a node can be of both pools: not where they want different values of a label."""
    labels = one.scheduling.node_selector
    return all(labels.get(key, value) == value for key, value in other.scheduling.node_selector.items())


def _alternatives(scheduling: pool.Scheduling) -> list[list[pod_template.NodeSelectorRequirement]]:
    """The requirements of each term of the affinity, with the labels of nodeSelector in each."""
    labels = [
        pod_template.NodeSelectorRequirement(key=key, operator="In", values=(value,))
        for key, value in scheduling.node_selector.items()
    ]
    return [[*labels, *term.match_expressions] for term in scheduling.node_selector_terms] or [labels]


def _implied(wanted: pod_template.NodeSelectorRequirement, by: Sequence[pod_template.NodeSelectorRequirement]) -> bool:
    wants = {*(wanted.values or ())}
    allowed = [{*(one.values or ())} for one in by if one.key == wanted.key and one.operator == "In"]
    by_operator = {
        "In": any(values <= wants for values in allowed),
        "NotIn": any(values.isdisjoint(wants) for values in allowed),
        "Exists": bool(allowed),
    }
    return by_operator.get(wanted.operator, False) or wanted in by
