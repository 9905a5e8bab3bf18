# SPDX-License-Identifier: Apache-2.0
"""A bill is explained attempt by attempt and part by part, and the numbers that are put in give what the status has."""

from typing import Any

import pytest

import builders
import explanations
import formulas
import world as worlds
from gpubench.api.pool import GpuPool
from gpubench.control import explain
from gpubench.control.explain import Explained
from gpubench.control.ledger import AttemptRecord, Ledger, Outcome
from gpubench.control.observed import Disruption
from gpubench.control.steps import Step
from gpubench.plan.plan import Plan
from world import World

PRICE = {"per_node_hour": "3.60", "currency": "USD", "as_of": "2023-11-01"}  # a thousandth of a dollar a second
FEES = [
    {"name": "licence", "amount": "0.5", "per": "Run"},
    {"name": "disk", "amount": "0.36", "per": "Hour"},
]


def pool(**spec: Any) -> GpuPool:
    return builders.pool(price=PRICE | spec.pop("price", {}), **spec)


def here(a_pool: GpuPool, *, workers: int = 1, repeats: int = 3, **fields: Any) -> World:
    spec = builders.spec(builders.block(workers=[workers]), measure={"repeats": {"min": repeats}})
    return worlds.world(builders.study(spec), builders.plan(spec, a_pool), **fields)


def preempted_first(trial: str, attempt: int) -> tuple[int, str] | Disruption:
    return builders.disrupted() if attempt == 1 else worlds.success(trial, attempt)


def explained(world: World) -> Explained:
    return explain.explained(world.plan, world.ledger(), world.study.spec, index=0)


def step(found: Explained, field: str) -> Step:
    [one] = [one for one in found.steps if one.field == field]
    return one


BILLED: dict[str, dict[str, Any]] = {
    "by the second": {"a_pool": pool()},
    "a gang of two nodes": {"a_pool": pool(), "workers": 2},
    "increment, minimum and fees": {
        "a_pool": pool(price={"billing": {"increment_seconds": 60, "minimum_seconds": 120}, "fees": FEES}),
        "workers": 2,
    },
    "shared nodes": {"a_pool": pool(slots_per_node=4, exclusive_nodes=False), "workers": 2},
    "lost attempts": {"a_pool": pool(price={"fees": FEES}), "fate": preempted_first},
}


@pytest.mark.parametrize("kind", BILLED)
def test_every_part_of_a_bill_follows_from_what_is_printed(kind: str) -> None:
    world = here(**BILLED[kind])
    (result,) = world.run().results
    found = explained(world)
    assert found.point.to_wire() == result.to_wire()
    explanations.check(found)
    assert result.bill is not None
    assert {"bill.total", "bill.perRun", "bill.parts.measured"} <= {one.field for one in found.steps}
    attempts = [one for one in found.steps if one.name.startswith("bill of attempt ")]
    assert len(attempts) == result.bill.attempts


def test_an_attempt_is_explained_by_what_each_of_its_nodes_was_billed() -> None:
    """Two nodes for some seconds each: billed for two minutes each, at a thousandth of a dollar a second."""
    world = here(**BILLED["increment, minimum and fees"], repeats=1)
    world.run()
    found = explained(world)
    machines = next(one for one in found.steps if one.name.startswith("machines of attempt "))
    assert machines.numbers == "USD 3.6 x 1 x (2 x 120) / 3600"
    assert machines.result == "USD 0.24"
    assert "in steps of 60 s, at least 120 s" in machines.source
    whole = next(one for one in found.steps if one.name.startswith("bill of attempt "))
    assert whole.numbers == "0.24 + 0.5 + 0.024", "0.36 for each of the 4 minutes' hours"
    assert whole.source.endswith("licence, disk")
    assert step(found, "bill.parts.fees").numbers == "0.524"
    rounding = step(found, "bill.parts.rounding")
    assert rounding.formula == "rate x part of a node x ((billed seconds) - (held seconds)) / 3600"
    assert rounding.numbers is not None
    assert rounding.numbers.startswith("USD 3.6 x 1 x ((240) - (")


def test_what_came_to_nothing_is_lost_as_a_whole_and_is_in_the_sum() -> None:
    world = here(**BILLED["lost attempts"], repeats=1)
    world.run()
    found = explained(world)
    lost, whole, run = (step(found, field) for field in ("bill.parts.lost", "bill.total", "bill.perRun"))
    assert lost.numbers is not None
    assert whole.numbers is not None
    assert lost.numbers in whole.numbers
    assert run.numbers is not None
    assert run.numbers.endswith(" / 1"), "only one of the two came to a result"


def test_shared_nodes_are_billed_by_the_slots() -> None:
    world = here(**BILLED["shared nodes"], repeats=1)
    world.run()
    found = explained(world)
    share = next(one for one in found.steps if one.name == "part of a node")
    assert (share.numbers, share.result) == ("2 / 4", "0.5")
    first = next(one for one in found.steps if one.name.startswith("bill of attempt "))
    assert first.numbers is not None
    assert first.numbers.startswith("USD 3.6 x 0.5 x (")


def record(plan: Plan, **fields: Any) -> AttemptRecord:
    return builders.attempt(trial=plan.trials[0].id, **fields)


def test_a_point_without_a_figure_is_explained_by_what_it_was_billed_all_the_same() -> None:
    spec = builders.spec(builders.block(workers=[1]))
    plan = builders.plan(spec, pool())
    failed = record(plan, pod_times=((0.0, 1.0, 30.0),))
    found = explain.explained(plan, Ledger().with_records([failed]), spec, index=0)
    assert found.point.throughput is None
    assert step(found, "bill.parts.lost").numbers == "0.03"
    explanations.check(found)


def test_a_bill_of_which_not_all_is_known_says_so() -> None:
    spec = builders.spec(builders.block(workers=[1]))
    plan = builders.plan(spec, pool())
    seen = record(plan, pod_times=((0.0, 1.0, 30.0),))
    gone = record(plan, attempt=2, job="another", outcome=Outcome.PREEMPTED)
    found = explain.explained(plan, Ledger().with_records([seen, gone]), spec, index=0)
    assert found.point.bill is not None
    assert found.point.bill.incomplete == 1
    assert step(found, "bill.total").source.endswith("so it is at least that")
    explanations.check(found)


def test_equal_times_are_counted_and_not_repeated() -> None:
    world = here(pool(price={"billing": {"increment_seconds": 3600, "minimum_seconds": 0}}), workers=2, repeats=1)
    world.run()
    first = next(one for one in explained(world).steps if one.name.startswith("bill of attempt "))
    assert first.numbers == "USD 3.6 x 1 x (2 x 3,600) / 3600"
    assert formulas.value(first.numbers) == pytest.approx(7.2)


def test_without_a_price_no_bill_is_explained() -> None:
    world = here(builders.pool(price=None), repeats=1)
    world.run()
    assert not any((one.field or "").startswith("bill.") for one in explained(world).steps)
