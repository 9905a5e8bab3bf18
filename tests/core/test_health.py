# SPDX-License-Identifier: Apache-2.0
"""A node that is far below its own pool is named, and no other one."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

import builders
import measured
from gpubench.analysis import health
from gpubench.plan.plan import Plan
from gpubench.records import BusyMachine, Machine
from gpubench.scheduler import node_tests
from gpubench.scheduler.ledger import AttemptRecord, Outcome, Reason
from gpubench.scheduler.trials import status as standing

TERA = 1e12


def plan(*workers: int, repeats: int = 10, **fields: Any) -> Plan:
    block = builders.block(workers=[*workers], **fields)
    return builders.plan(
        builders.spec(block, measure={"repeats": {"min": repeats}}), builders.pool(max_nodes=8, slots_per_node=2)
    )


def attempts(of: Plan, machines: Sequence[Machine | None], **fields: Any) -> list[AttemptRecord]:
    """One measured attempt for each machine, in the order of the trials; each on nodes of its own."""
    found = []
    for number, (trial, machine) in enumerate(zip(of.trials, machines, strict=False)):
        nodes = tuple(f"node-{number}-{index}" for index in range(of.points[trial.point].nodes))
        result = builders.result(trial=trial.id).model_copy(update={"machine": machine})
        done: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "nodes": nodes}
        record = builders.attempt(trial=trial.id, result=result, ended_at=builders.NOW + number, **(done | fields))
        found.append(record)
    return found


def arithmetic(*teraflops: float) -> list[Machine | None]:
    return [Machine(arithmetic=figure * TERA, weakest_rank=0) for figure in teraflops]


HEALTHY = (19.5, 19.4, 19.6, 19.5, 19.3, 19.5)


def test_a_node_far_below_its_pool_is_named_with_its_figure_and_the_pools() -> None:
    one = plan(1)
    records = attempts(one, arithmetic(*HEALTHY, 13.0))
    (weak,) = health.weak_trials(one, records).values()
    assert weak.warning.message == (
        "node node-6-0 is weak: float32 arithmetic 13 Tflop/s, 33% below the 19.5 usual on its pool (7 tests on 7 "
        "nodes): cordon it, or look for heat"
    )
    assert list(health.weak_trials(one, records)) == [one.trials[6].id]


def test_a_node_is_called_weak_only_where_others_left_it_alone() -> None:
    one = plan(1)
    *others, slow = attempts(one, arithmetic(*HEALTHY, 13.0))
    assert slow.result is not None
    busy = BusyMachine(others=2.1, stolen=0.0, processors=4)
    crowded = slow.model_copy(update={"result": slow.result.model_copy(update={"notices": (busy,)})})
    assert list(health.weak_trials(one, [*others, slow])) == [slow.trial]
    assert health.weak_trials(one, [*others, crowded]) == {}
    assert len(node_tests.readings(one, [*others, crowded])) == len(others)


def test_a_weak_node_is_named_also_where_it_was_the_first() -> None:
    one = plan(1)
    assert list(health.weak_trials(one, attempts(one, arithmetic(13.0, *HEALTHY)))) == [one.trials[0].id]


def test_too_few_others_name_nobody() -> None:
    one = plan(1)
    assert health.weak_trials(one, attempts(one, arithmetic(*HEALTHY[:4], 1.0))) == {}
    assert len(health.weak_trials(one, attempts(one, arithmetic(*HEALTHY[:5], 1.0)))) == 1


@pytest.mark.parametrize("figures", [(*HEALTHY, 19.0), (19.5,) * 9 + (17.6,), (*HEALTHY, 25.0)])
def test_a_node_less_than_a_tenth_below_or_above_is_not_named(figures: tuple[float, ...]) -> None:
    one = plan(1)
    assert health.weak_trials(one, attempts(one, arithmetic(*figures))) == {}


def test_a_pool_whose_tests_scatter_widely_names_nobody() -> None:
    one = plan(1)
    assert health.weak_trials(one, attempts(one, arithmetic(10, 14, 19, 12, 17, 20, 11, 15, 18, 9))) == {}


def test_equal_readings_of_the_others_name_the_one_that_is_below() -> None:
    one = plan(1)
    assert len(health.weak_trials(one, attempts(one, arithmetic(*[20.0] * 9, 17.9)))) == 1


def test_the_modified_z_score_is_that_of_iglewicz_and_hoaglin() -> None:
    figures = [100.0, 102.0, 98.0, 104.0, 96.0, 110.0, 90.0]
    pool = node_tests.spread(([f"node-{number}"], figure) for number, figure in enumerate(figures))
    assert pool == node_tests.Spread(median=100.0, deviation=4.0, tests=7, nodes=7)
    # 0.6745 (100 - x) / 4 = 3.5 at x = 79.244
    assert health.is_weak(79.0, pool)
    assert not health.is_weak(79.5, pool)


def test_a_healthy_pool_is_seldom_accused() -> None:
    """Nodes that differ by 3 % (one standard deviation) are 3.3 of them from the share that counts."""
    source = random.Random(7)
    one = plan(1, repeats=20)
    accused = sum(
        len(health.weak_trials(one, attempts(one, arithmetic(*(source.gauss(20, 0.6) for _ in range(20))))))
        for _ in range(50)
    )
    assert accused <= 5  # of 1,000


def test_in_a_gang_the_node_of_the_weakest_rank_is_named() -> None:
    four = plan(4, repeats=7)  # two ranks on each of two nodes
    assert four.points[0].nodes == 2
    machines = [Machine(arithmetic=figure * TERA, weakest_rank=3) for figure in (*HEALTHY, 13.0)]
    (weak,) = health.weak_trials(four, attempts(four, machines)).values()
    assert weak.warning.message.startswith("node node-6-1 is weak")


def test_a_gang_without_word_of_its_weakest_rank_names_all_of_its_nodes() -> None:
    four = plan(4, repeats=7)
    machines = [Machine(memory=figure * TERA) for figure in (*HEALTHY, 13.0)]
    (weak,) = health.weak_trials(four, attempts(four, machines)).values()
    assert weak.nodes == ("node-6-0", "node-6-1")
    assert weak.warning.message.startswith("one of the nodes node-6-0 and node-6-1 is weak: memory bandwidth 1.3e+04")
    assert weak.warning.node is None, "which of the two it is, nobody knows"


def test_an_all_reduce_is_held_against_gangs_of_its_own_shape_only() -> None:
    both = plan(2, 4, repeats=6)
    fast, slow = (Machine(allreduce=figure) for figure in (200e9, 20e9))
    # The only gang of two nodes: nobody knows what is usual for it.
    machines = [fast if one.point == 0 else slow if one.repeat == 0 else None for one in both.trials]
    assert [point.nodes for point in both.points] == [1, 2]
    assert health.weak_trials(both, attempts(both, machines)) == {}


@pytest.mark.parametrize("test", ["arithmetic", "memory"])
def test_ranks_that_share_a_node_are_held_against_ranks_that_share_one_as_well(test: str) -> None:
    """All of a node are tested at once, and its memory is no faster for eight of them than for one."""
    spec = builders.spec(builders.block(workers=[1, 8]), measure={"repeats": {"min": 9}})
    both = builders.plan(spec, builders.pool(slots_per_node=8))
    assert [point.key.workers_per_node for point in both.points] == [1, 8]
    alone, together = (Machine.model_validate({test: figure, "weakest_rank": 0}) for figure in (12e9, 3e9))
    machines = [alone if one.point == 0 else together if one.repeat < 3 else None for one in both.trials]
    assert health.weak_trials(both, attempts(both, machines)) == {}


def test_attempts_without_a_test_have_no_readings() -> None:
    one = plan(1)
    records = [*attempts(one, [None, Machine(), Machine(arithmetic=0.0)]), builders.attempt(trial="foreign")]
    assert node_tests.readings(one, records) == ()


def test_the_sentence_stands_at_the_points_measured_there() -> None:
    two = plan(1, 2, repeats=8)
    of_point = [trial for trial in two.trials if trial.point == 1]
    machines = arithmetic(*(13.0 if trial is of_point[0] else 19.5 for trial in two.trials))
    by_trial = {record.trial: [record] for record in attempts(two, machines)}
    standings = {trial.id: standing(by_trial[trial.id], two.attempts) for trial in two.trials}
    healthy, weak = measured.of_trials(two, standings)
    assert healthy.warnings == ()
    assert ["is weak" in message for message in builders.messages(weak)] == [True]


def test_a_weak_node_is_told_to_programs_with_its_figure_and_what_is_usual() -> None:
    one = plan(1, repeats=7)
    records = attempts(one, arithmetic(*HEALTHY, 13.0))
    standings = {record.trial: standing([record], one.attempts) for record in records}
    (point,) = measured.of_trials(one, standings)
    (told,) = point.warnings
    assert told.to_wire() == {
        "reason": "WeakNode",
        "message": told.message,
        "trial": one.trials[6].id,
        "node": "node-6-0",
        "repeats": 1,
        "figures": {"arithmetic": 13.0 * TERA, "usual": 19.5 * TERA, "tests": 7.0, "nodes": 7.0},
    }


def test_a_node_that_several_repeats_met_is_named_once_at_its_worst() -> None:
    one = plan(1, repeats=9)
    records = attempts(one, arithmetic(*HEALTHY, 13.0, 12.0, 19.4))
    records = [
        record.model_copy(update={"nodes": ("slow",)}) if n in (6, 7) else record for n, record in enumerate(records)
    ]
    standings = {record.trial: standing([record], one.attempts) for record in records}
    (point,) = measured.of_trials(one, standings)
    (told,) = point.warnings
    assert (told.node, told.repeats, told.trial) == ("slow", 2, one.trials[7].id)


def test_repeats_in_different_environments_are_not_held_against_each_other() -> None:
    one = plan(1)
    records = attempts(one, arithmetic(*HEALTHY, 13.0))
    for field, other in (("result", None), ("instance_types", ("small",))):
        last = records[6]
        assert last.result is not None
        changed = {field: other or last.result.model_copy(update={"environment": "another"})}
        assert health.weak_trials(one, [*records[:6], last.model_copy(update=changed)]) == {}
