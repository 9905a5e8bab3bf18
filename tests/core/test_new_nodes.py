# SPDX-License-Identifier: Apache-2.0
"""What nodes cost that came while a benchmark ran: each counts once, from its creation, for as long as it was seen."""

import math
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Any

import builders
from gpubench.analysis import audit
from gpubench.cost.billing import BillingRule, Terms
from gpubench.cost.price import Rate
from gpubench.scheduler import account, ledger, new_nodes
from gpubench.scheduler.ledger import Ledger, NewNode, NewNodes
from gpubench.scheduler.observed import ObservedNode, SeenNode
from world import World, decide, world

NOW = builders.NOW
RATE = Rate(per_node_hour=Decimal("3.60"), currency="USD")  # a tenth of a cent for a second
TERMS = {"cpu": Terms(rate=RATE)}
BY_THE_MINUTE = {"cpu": Terms(rate=RATE, rule=BillingRule(increment_seconds=Decimal(60)))}
SPEC = builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 1}})
PRICE = {"perNodeHour": "3.60", "currency": "USD", "asOf": "2026-11-01"}
PLAN = builders.plan(SPEC, builders.pool(price=PRICE))


def seen(name: str = "a", at: float | None = 100.0, gone: float | None = None, **fields: bool) -> SeenNode:
    """A node that came at so many seconds after the start."""
    created_at, gone_since = (None if one is None else NOW + one for one in (at, gone))
    return SeenNode(ObservedNode(name=name, created_at=created_at, gone_since=gone_since), "cpu", **fields)


def followed(
    before: NewNodes, *nodes: SeenNode, now: float, over_at: float | None = None, terms: Any = TERMS
) -> NewNodes:
    end = math.inf if over_at is None else NOW + over_at
    return new_nodes.followed(before, nodes, terms, over_at=end, now=NOW + now)


def test_a_node_that_goes_is_added_to_the_sum_of_its_pool_once_though_it_is_remembered() -> None:
    both = followed(NewNodes(), seen("a"), seen("b", 150.0), now=200.0)
    assert [one.name for one in both.there] == ["a", "b"]
    after = followed(both, seen("a", gone=400.5), seen("b", 150.0), now=401.0)
    (gone,) = after.gone
    assert (gone.nodes, gone.seconds, gone.unseen) == (1, 300.5, 0)
    assert [one.name for one in after.there] == ["b"]
    assert followed(after, seen("a", gone=400.5), seen("b", 150.0), now=450.0) == after
    just_now = followed(both, seen("a", gone=401.0), seen("b", 150.0), now=401.0)
    assert followed(just_now, seen("a", gone=401.0), seen("b", 150.0), now=450.0) == just_now
    # One that came and went between two looks counts, too.
    (gone,) = followed(after, seen("b", 150.0), seen("c", 410.0, gone=430.0), now=450.0).gone
    assert (gone.nodes, gone.seconds) == (2, 320.5)


def test_each_life_is_rounded_up_by_itself() -> None:
    found = followed(NewNodes(), seen("a", gone=161.0), seen("b", gone=161.0), now=200.0, terms=BY_THE_MINUTE)
    (gone,) = found.gone
    assert (gone.seconds, gone.billed_seconds) == (122.0, 240.0)


def test_a_node_that_went_while_nobody_looked_counts_until_it_was_seen_last() -> None:
    before = followed(NewNodes(), seen("a"), seen("b"), now=200.0)
    away = followed(before, seen("a", None, gone=5_000.0), seen("b", 4_000.0), now=5_000.0)
    (gone,) = away.gone
    assert (gone.nodes, gone.seconds, gone.unseen) == (2, 200.0, 2)
    assert away.there == (NewNode("b", "cpu", NOW + 4_000.0),)  # another machine of that name


def test_no_life_goes_on_after_the_end_and_none_begins_there() -> None:
    nodes = (seen("a"), seen("b", gone=300.0), seen("c", 260.0), seen("d", 260.0, gone=300.0))
    after = followed(NewNodes(), *nodes, now=310.0, over_at=250.0)
    assert [one.name for one in after.there] == ["a"]
    (gone,) = after.gone
    assert (gone.nodes, gone.seconds, gone.unseen) == (1, 150.0, 0)


def test_the_ledger_says_from_time_to_time_that_nodes_were_seen_and_nothing_else_makes_it_write() -> None:
    before = followed(NewNodes(), seen("a"), now=200.0)
    late = 200.0 + new_nodes.SEEN_AGAIN_SECONDS
    assert followed(before, seen("a"), now=late - 1) == before
    assert followed(before, seen("a"), now=late) == before.model_copy(update={"seen_at": NOW + late})
    assert followed(before, now=9_000.0) == before  # nobody has looked


def test_a_node_that_only_others_use_is_none_of_ours_and_one_that_both_use_is_named() -> None:
    idle = followed(NewNodes(), seen("a"), seen("b", has_run=True), now=200.0)
    after = followed(idle, seen("a", is_shared=True), seen("b", is_shared=True), now=300.0)
    assert [one.name for one in after.there] == ["b"]  # it had a gang of ours
    assert after.shared == ("b",)


def test_hundreds_of_spot_nodes_fit_into_the_ledger() -> None:
    found = NewNodes()
    for number in range(1_000):
        found = followed(found, seen(f"n{number}", gone=200.0 + number), now=200.0 + number)
    assert found.gone[0].nodes == 1_000
    assert len(found.to_text()) < 500
    there = followed(NewNodes(), *(seen(f"ip-10-0-{n // 256}-{n % 256}.ec2.internal") for n in range(4_096)), now=200.0)
    assert len(there.to_text()) < ledger.SHARD_BYTES_MAX  # as many as the largest gang has


# --- a benchmark ------------------------------------------------------------------------------------------------------


def finished(*nodes: SeenNode) -> World:
    """A world whose only trial has run, with nodes that were seen from their creation on."""
    here = world(builders.study(SPEC), PLAN)
    for _ in range(4):
        look = here.observe().model_copy(update={"new_nodes": tuple(_as_of(here.now, nodes))})
        for _ in here.writes(decide(PLAN, here.ledger(), look, here.now)):
            pass
        here.advance()
    return here


def _as_of(now: float, nodes: Iterable[SeenNode]) -> Iterator[SeenNode]:
    for one in nodes:
        created_at, gone_since = one.node.created_at, one.node.gone_since
        there = one.node.model_copy(update={"gone_since": None})
        if created_at is not None and created_at <= now:
            yield one if gone_since is not None and gone_since <= now else one._replace(node=there)


def test_a_finished_benchmark_shows_what_nodes_cost_to_its_end_and_at_least_what_follows() -> None:
    here = finished(seen("a", 0.0), seen("b", 0.0, gone=4.0, has_run=True))
    assert here.status is not None
    assert here.status.spent is not None
    nodes = here.status.spent.nodes
    assert nodes is not None
    (record,) = here.ledger().records
    assert record.ended_at is not None
    lives = record.ended_at - NOW, 4.0
    assert nodes.count == 2
    assert nodes.node_hours == round(sum(lives) / 3600, 4)
    assert float(nodes.amount) == round(sum(lives) * 0.001, 4)
    assert f"beside {here.status.spent.shown} billed for attempts" in nodes.sentence
    assert "1 outlived it, at USD 3.60 an hour: at least USD 0.60 more" in nodes.sentence
    # What comes later is no matter of the benchmark's.
    later = here.observe().model_copy(update={"new_nodes": (seen("a", 0.0, gone=9_000.0), seen("c", 8_000.0))})
    again = decide(PLAN, here.ledger(), later, NOW + 9_000.0)
    assert (again.new_nodes, again.status.spent) == (here.ledger().new_nodes, here.status.spent)


def test_the_cost_of_nodes_is_computed_again_and_a_changed_one_is_found() -> None:
    here = finished(seen("a", 0.0), seen("b", 0.0, gone=4.0))
    assert here.status is not None
    found = here.ledger()
    assert list(audit.of_status(PLAN, found, SPEC, here.status, words=True)) == []
    more = found.new_nodes.model_copy(update={"there": ()})
    wrong = audit.of_status(PLAN, found.model_copy(update={"new_nodes": more}), SPEC, here.status, words=False)
    assert {one.place for one in wrong} == {"spent.nodes.amount", "spent.nodes.count", "spent.nodes.nodeHours"}


def test_nodes_whose_pool_has_no_price_or_one_too_large_are_in_no_amount() -> None:
    spent = account.spent(account.of(PLAN, Ledger()), (), NOW)
    nodes = followed(NewNodes(), seen("a"), seen("b", gone=150.0), now=200.0)
    assert new_nodes.with_nodes(spent, nodes, {}, over_at=math.inf, now=NOW + 240.0) == spent
    assert new_nodes.with_nodes(None, nodes, TERMS, over_at=math.inf, now=NOW + 240.0) is None
    dear = {"cpu": Terms(rate=Rate(per_node_hour=account.AMOUNT_MAX, currency="USD"))}
    assert new_nodes.with_nodes(spent, nodes, dear, over_at=math.inf, now=NOW + 240.0) == spent, "no status holds it"


def test_while_a_benchmark_runs_its_nodes_count_up_to_the_last_whole_minute_and_shared_ones_are_named() -> None:
    spent = account.spent(account.of(PLAN, Ledger()), (), NOW)
    nodes = followed(NewNodes(), seen("a", has_run=True, is_shared=True), seen("b", gone=150.0), now=200.0)
    minute = NOW + 160.0
    for now in (minute, minute + 59.0):
        found = new_nodes.with_nodes(spent, nodes, TERMS, over_at=math.inf, now=now)
        assert found is not None
        assert found.nodes is not None
        assert (found.nodes.count, found.nodes.amount) == (2, "0.11")  # 60 s and 50 s
        assert "others use a, too: the whole node counts" in found.nodes.sentence
        assert "outlived" not in found.nodes.sentence


def test_a_ledger_with_nodes_is_read_as_it_was_written() -> None:
    nodes = followed(NewNodes(), seen("a"), seen("b", gone=150.0), now=200.0)
    read = ledger.from_entries([{ledger.NewNodes.key: nodes.to_text()}])
    assert read == Ledger(new_nodes=nodes)
    assert read.with_records([builders.attempt()]).with_environments([builders.environment()]).new_nodes == nodes
