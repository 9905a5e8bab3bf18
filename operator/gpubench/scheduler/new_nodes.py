# SPDX-License-Identifier: Apache-2.0
"""Nodes that came while a benchmark ran, and what their lives cost, from creation to removal or the benchmark's end.

Must not happen: a node that only others have used; lives that are added before they are rounded up; a node that went
while the operator was away and counts until that came back.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from decimal import Decimal

from gpubench.api import status_sizes
from gpubench.api.price_result import NodesSpent, Spent
from gpubench.cost import billing
from gpubench.scheduler import account, conditions
from gpubench.scheduler.ledger import GoneNodes, NewNode, NewNodes
from gpubench.scheduler.observed import SeenNode
from gpubench.units import counted, listed

SEEN_AGAIN_SECONDS = 300.0  # the ledger says at least so often when nodes were seen: what goes unseen may lack as much
_SHARED_MAX = 8  # names that are kept
#: https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md, --scale-down-unneeded-time
_UNNEEDED_SECONDS = 600
_Terms = Mapping[str, billing.Terms]  # by pool
_Ended = tuple[NewNode, float, bool]  # and when; whether it went later, and nobody knows when


def followed(before: NewNodes, seen: Collection[SeenNode], terms: _Terms, *, over_at: float, now: float) -> NewNodes:
    """The nodes with what is seen of them now, billed by `terms` of their pools; no life goes on after `over_at`."""
    is_old = bool(seen) and now >= before.seen_at + SEEN_AGAIN_SECONDS
    there, shared = {node.name: node for node in before.there}, dict.fromkeys(before.shared)
    ended: list[_Ended] = []
    for node, pool, has_run, is_shared in seen:
        known = there.pop(node.name, None)
        if known is not None and node.created_at != known.created_at:  # another one may have its name
            ended.append((known, min(before.seen_at, over_at), before.seen_at < over_at))
            known = None
        is_counted = known is None and node.gone_since is not None and node.gone_since <= before.seen_at
        if node.created_at is None or node.created_at >= over_at or is_counted:
            continue
        found = known or NewNode(node.name, pool, node.created_at)
        found = found._replace(has_run=found.has_run or has_run)
        if is_shared and found.has_run:
            shared[node.name] = None
        if node.gone_since is not None:
            ended.append((found, min(node.gone_since, over_at), False))
        elif found.has_run or not is_shared:
            there[node.name] = found
    after = NewNodes(
        seen_at=before.seen_at,
        there=tuple(sorted(there.values())),
        gone=_summed(before.gone, ended, terms),
        shared=tuple(shared)[:_SHARED_MAX],
    )
    return after.model_copy(update={"seen_at": now}) if is_old or after != before else before


def _summed(gone: Iterable[GoneNodes], ended: Iterable[_Ended], terms: _Terms) -> tuple[GoneNodes, ...]:
    found = {one.pool: one for one in gone}
    for node, at, unseen in ended:
        life, sums = round(max(0.0, at - node.created_at), 3), found.get(node.pool, GoneNodes(pool=node.pool))
        rule = terms[node.pool].rule if node.pool in terms else billing.BY_THE_SECOND
        found[node.pool] = GoneNodes(
            pool=node.pool,
            nodes=sums.nodes + 1,
            seconds=round(sums.seconds + life, 3),
            billed_seconds=round(sums.billed_seconds + float(billing.billed_seconds(Decimal(str(life)), rule=rule)), 3),
            unseen=sums.unseen + unseen,
        )
    return tuple(found.values())


def with_nodes(found: Spent | None, nodes: NewNodes, terms: _Terms, *, over_at: float, now: float) -> Spent | None:
    """What was spent, and beside it what the nodes have cost so far, where their pools have prices."""
    until = over_at if over_at < math.inf else now // account.MINUTE * account.MINUTE
    sums = [
        one for one in _summed(nodes.gone, ((one, until, False) for one in nodes.there), terms) if one.pool in terms
    ]
    left = [terms[one.pool].with_fees for one in nodes.there if one.pool in terms]
    paid = sum((terms[one.pool].with_fees * Decimal(str(one.billed_seconds)) for one in sums), Decimal(0))
    amount, an_hour = paid / billing.SECONDS_PER_HOUR, sum(left, Decimal(0))
    if found is None or not sums or round(max(amount, an_hour)) >= account.AMOUNT_MAX:
        return found
    count, hours = sum(one.nodes for one in sums), sum(one.seconds for one in sums) / 3600
    said = [
        f"{counted(count, 'node')} came while it ran: {hours:,.2f} node-hours from creation to removal or its end",
        f"about {found.currency} {account.text(amount)} with idle time, beside {found.shown} billed for attempts",
    ]
    if nodes.shared:
        said.append(f"others use {listed(nodes.shared)}, too: the whole node counts")
    if unseen := sum(one.unseen for one in sums):
        said.append(f"{unseen} went while nobody looked and counted until last seen: it is at least that")
    if left and over_at < math.inf:
        rate, more = (account.text(one) for one in (an_hour, an_hour * _UNNEEDED_SECONDS / billing.SECONDS_PER_HOUR))
        said.append(
            f"{len(left)} outlived it, at {found.currency} {rate} an hour: at least {found.currency} {more} more where "
            "an autoscaler waits 10 minutes, as cluster-autoscaler does by default (Karpenter: consolidateAfter)"
        )
    sentence = conditions.clamped("; ".join(said), status_sizes.NODES_SENTENCE_MAX)
    spent = NodesSpent(count=count, node_hours=round(hours, 4), amount=account.text(amount), sentence=sentence)
    return found.model_copy(update={"nodes": spent})
