# SPDX-License-Identifier: Apache-2.0
"""A pool's history of tests: what an attempt is held against, over all studies, frozen with it; and its bounds."""

import random
from collections.abc import Sequence
from typing import Any

import pytest

import builders
from gpubench.analysis import health
from gpubench.api import pool_health
from gpubench.api.pool_health import PoolTests
from gpubench.plan.plan import Plan
from gpubench.records import Machine
from gpubench.scheduler import node_tests
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench.scheduler.node_tests import Kind, Reading
from gpubench.scheduler.observed import ObservedJob
from world import decide

TERA = 1e12
USUAL = (19.5, 19.4, 19.6, 19.5, 19.3, 19.5)
ARITHMETIC = Kind(test="arithmetic", environment="env", instance_type="large", workers_per_node=1, workers=None)


def reading(
    teraflops: float, *, node: str | None = "a", at: float = builders.NOW, kind: Kind = ARITHMETIC, **fields: Any
) -> Reading:
    nodes = () if node is None else (node,)
    defaults: dict[str, Any] = {"pool": "cpu", "trial": "t", "nodes": nodes}
    return Reading(kind=kind, figure=teraflops * TERA, ended_at=at, **(defaults | fields))


def series(figures: Sequence[float], *, node: str | None = None, kind: Kind = ARITHMETIC) -> list[Reading]:
    """On nodes a, b and c in turn, unless it is said on which."""
    return [
        reading(figure, node=node or "abc"[n % 3], at=builders.NOW + n, kind=kind) for n, figure in enumerate(figures)
    ]


def history(*readings: Sequence[Reading]) -> PoolTests:
    (found,) = node_tests.merged((), [one for some in readings for one in some])
    return found


# --- what is usual ----------------------------------------------------------------------------------------------------


def test_what_is_usual_is_the_median_of_the_other_nodes_tests() -> None:
    a, b, d = ((19.0, 19.2, 19.4), (19.6, 19.8, 20.0), (19.5,))
    known = history(series(a, node="a"), series(b, node="b"), series(d, node="d"), series((13.0,) * 8, node="c"))
    found = node_tests.usual(reading(13.0, node="c"), known)
    assert found is not None
    assert (found.test, found.tests, found.nodes, found.oldest_at) == ("arithmetic", 7, 3, builders.NOW)
    assert found.median == pytest.approx(19.5 * TERA)
    assert found.deviation == pytest.approx(0.3 * TERA)


def test_on_a_pool_of_three_nodes_its_own_earlier_tests_say_what_is_usual_too_and_of_two_nothing_does() -> None:
    found = node_tests.usual(reading(13.0), history(series(USUAL)))
    assert found is not None
    assert (found.tests, found.nodes, found.median) == (6, 3, 19.5 * TERA)
    assert node_tests.usual(reading(13.0), history(series(USUAL, node="a"), series(USUAL, node="b"))) is None


@pytest.mark.parametrize("together", [("x",), ("x", "a"), ("x", "b"), ("x", "y")])
def test_however_often_one_node_is_tested_it_has_one_vote(together: tuple[str, ...]) -> None:
    honest = [one for node in "abcdefg" for one in series((19.4, 19.6), node=node)]
    forged = [reading(1000.0, at=builders.NOW + n, nodes=together) for n in range(8)]
    found = node_tests.usual(reading(19.5, node="v"), history(honest, forged))
    assert found is not None
    assert found.tests == 22
    assert found.median == pytest.approx(19.5 * TERA)
    assert found.deviation == pytest.approx(0.1 * TERA)


def test_tests_that_scatter_on_each_node_name_nobody_though_the_nodes_are_alike() -> None:
    found = node_tests.usual(
        reading(13.0, node="z"), history(*(series((15.0, 19.0, 24.0), node=node) for node in "abc"))
    )
    assert found is not None
    assert (found.median, found.deviation) == (19.0 * TERA, 4.0 * TERA)
    assert not health.is_weak(13.0 * TERA, found)


@pytest.mark.parametrize("count", [node_tests.HISTORY_MIN - 1, node_tests.HISTORY_MIN])
def test_too_few_tests_say_nothing(count: int) -> None:
    found = node_tests.usual(reading(13.0, node="z"), history(series((19.5,) * count)))
    assert (found is not None) is (count == node_tests.HISTORY_MIN)


@pytest.mark.parametrize(
    "other",
    [
        {"test": "memory"},
        {"environment": "another driver"},
        {"instance_type": "small"},
        {"instance_type": None},
        {"workers_per_node": 8},
        {"workers": 16},
    ],
)
def test_only_like_is_held_against_like(other: dict[str, Any]) -> None:
    kinds = node_tests.merged((), series((19.5,) * 8, kind=ARITHMETIC._replace(**other)))
    record = attempt(plan(), 13.0)
    assert node_tests.with_usual(record, plan().points[0], {"cpu": kinds}).usual == ()


PINNED, OTHER = (f"jobs@sha256:{digit * 64}" for digit in "12")


@pytest.mark.parametrize(
    ("planned", "ran", "is_kept"),
    [(PINNED, f"mirror/{PINNED}", True), (PINNED, OTHER, False), (PINNED, None, False), ("jobs:1", OTHER, True)],
)
def test_a_test_is_kept_for_others_where_it_was_that_of_the_pools_image(
    planned: str, ran: str | None, is_kept: bool
) -> None:
    spec = builders.spec(builders.block(workers=[1]))
    plan = builders.plan(spec, builders.pool(template={"image": planned}))
    trial = plan.trials[0].id
    tested = builders.result(trial=trial).model_copy(update={"machine": Machine(arithmetic=19.5 * TERA)})
    record = builders.attempt(trial=trial, result=tested, image_id=ran, nodes=("a",))
    assert list(node_tests.for_pools(builders.study(spec), plan, [record])) == ["cpu"] * is_kept


def test_the_history_of_another_pool_is_none() -> None:
    kinds = node_tests.merged((), series((19.5,) * 8))
    record = attempt(plan(), 13.0)
    found = [node_tests.with_usual(record, plan().points[0], {pool: kinds}).usual for pool in ("cpu", "other")]
    assert [len(usual) for usual in found] == [1, 0]


# --- an attempt -------------------------------------------------------------------------------------------------------


def plan() -> Plan:
    return builders.plan(builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 3}}))


def attempt(of: Plan, teraflops: float, *, trial: int = 0, node: str = "slow") -> AttemptRecord:
    machine = Machine(arithmetic=teraflops * TERA, weakest_rank=0)
    result = builders.result(trial=of.trials[trial].id).model_copy(update={"machine": machine})
    done: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "sentence": None}
    place: dict[str, Any] = {"nodes": (node,), "instance_types": ("large",), "ended_at": builders.NOW + 100}
    return builders.attempt(trial=of.trials[trial].id, result=result, **done, **place)


def with_history(record: AttemptRecord, *figures: float) -> AttemptRecord:
    kinds = node_tests.merged((), series(figures))
    return node_tests.with_usual(record, plan().points[0], {"cpu": kinds})


def test_the_first_attempt_of_a_study_on_a_slow_node_is_named_against_the_pools_history() -> None:
    record = with_history(attempt(plan(), 13.0), *USUAL)
    (weak,) = health.weak_trials(plan(), [record]).values()
    assert weak.warning.message == (
        "node slow is weak: float32 arithmetic 13 Tflop/s, 33% below the 19.5 usual on its pool (6 tests on 3 nodes): "
        "cordon it, or look for heat"
    )
    assert weak.warning.figures == {"arithmetic": 13.0 * TERA, "usual": 19.5 * TERA, "tests": 6.0, "nodes": 3.0}


@pytest.mark.parametrize("figure", [19.0, 17.8, 25.0])
def test_an_attempt_that_is_no_tenth_below_the_history_is_not_named(figure: float) -> None:
    assert health.weak_trials(plan(), [with_history(attempt(plan(), figure), *USUAL)]) == {}


def test_a_pool_whose_history_scatters_widely_names_nobody() -> None:
    record = with_history(attempt(plan(), 9.0), 10, 14, 19, 12, 17, 20, 11, 15)
    assert len(record.usual) == 1
    assert health.weak_trials(plan(), [record]) == {}


def test_without_a_history_the_studys_own_tests_decide_as_before() -> None:
    of = builders.plan(builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 7}}))
    records = [attempt(of, figure, trial=number, node=f"n{number}") for number, figure in enumerate((*USUAL, 13.0))]
    assert list(health.weak_trials(of, records)) == [of.trials[6].id]


def test_the_history_outranks_a_study_that_met_slow_nodes_only() -> None:
    of = builders.plan(builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": 7}}))
    slow = [attempt(of, 13.0 + number / 100, trial=number, node=f"n{number}") for number in range(7)]
    assert health.weak_trials(of, slow) == {}
    assert len(health.weak_trials(of, [with_history(record, *USUAL) for record in slow])) == 7


def test_what_was_usual_is_frozen_with_the_attempt_and_survives_being_stored() -> None:
    record = with_history(attempt(plan(), 13.0), *USUAL)
    again = AttemptRecord.from_text(record.to_text())
    assert again == record
    assert health.weak_trials(plan(), [again]) == health.weak_trials(plan(), [record])


def ended_job(of: Plan, teraflops: float) -> ObservedJob:
    result = attempt(of, teraflops).result
    assert result is not None
    end = builders.ended(text=builders.message(result))
    pod = builders.observed_pod(phase="Succeeded", node="slow", end=end)
    return builders.observed_job(trial=of.trials[0].id, complete=True, pods=(pod,))


def test_a_decision_writes_what_was_usual_into_the_record_and_a_later_one_needs_no_history() -> None:
    of = plan()
    kind = ARITHMETIC._replace(instance_type=None)
    past = node_tests.merged((), series(USUAL, kind=kind))
    job = ended_job(of, 13.0)
    before = builders.observed(None, job).model_copy(update={"histories": {"cpu": past}})
    first = decide(of, Ledger(), before, builders.NOW + 100)
    (record,) = [record for record in first.record if record.outcome is not None]
    assert [usual.tests for usual in record.usual] == [6]
    (told,) = first.status.results[0].warnings
    assert (told.reason.value, told.node) == ("WeakNode", "slow")
    # Another operator, another day, a pool that has changed: the ledger says the same.
    other = node_tests.merged((), series((13.0,) * 8, kind=kind))
    for histories in ({}, {"cpu": other}):
        later = builders.observed(None, job).model_copy(update={"histories": histories})
        again = decide(of, Ledger().with_records(first.record), later, builders.NOW + 9_000)
        assert again.status.results[0].warnings == (told,)


# --- bounds -----------------------------------------------------------------------------------------------------------


def many(*, kinds: int = 1, nodes: int = 1, tests: int = 1) -> list[Reading]:
    return [
        reading(
            19.0 + test / 100,
            node=f"node-{node:03}",
            at=builders.NOW + test * 10_000 + kind * 100 + node,
            kind=ARITHMETIC._replace(environment=f"e{kind:02}"),
        )
        for kind in range(kinds)
        for node in range(nodes)
        for test in range(tests)
    ]


def test_a_history_keeps_the_newest_tests_nodes_and_kinds_and_no_more() -> None:
    excess = many(kinds=pool_health.KINDS_MAX + 2, nodes=pool_health.NODES_MAX + 3, tests=pool_health.TESTS_MAX + 4)
    found = node_tests.merged((), excess)
    assert [kind.environment for kind in found] == [f"e{kind:02}" for kind in range(2, pool_health.KINDS_MAX + 2)]
    for kind in found:
        assert [one.node for one in kind.nodes] == [f"node-{node:03}" for node in range(3, pool_health.NODES_MAX + 3)]
        for one in kind.nodes:
            assert len(one.at) == len(one.figures) == pool_health.TESTS_MAX
            assert one.at == tuple(sorted(one.at))
            assert one.figures[0] == pytest.approx((19.0 + 4 / 100) * TERA, rel=1e-3), "the oldest four are gone"


def test_putting_the_same_tests_there_again_changes_nothing_in_whatever_order() -> None:
    excess = many(kinds=pool_health.KINDS_MAX + 2, nodes=pool_health.NODES_MAX + 3, tests=pool_health.TESTS_MAX + 4)
    found = node_tests.merged((), excess)
    assert node_tests.merged(found, excess) == found
    shuffled = list(excess)
    random.Random(7).shuffle(shuffled)
    assert node_tests.merged((), shuffled) == found


def test_studies_one_after_the_other_leave_what_both_at_once_would() -> None:
    tests = many(nodes=5, tests=12)
    half = node_tests.merged((), tests[::2])
    assert node_tests.merged(half, tests[1::2]) == node_tests.merged((), tests)


def test_tests_of_gangs_whose_node_is_not_known_stand_under_no_node() -> None:
    kind = ARITHMETIC._replace(test="memory")
    (found,) = node_tests.merged((), [reading(2.0, kind=kind, nodes=()), reading(2.1, kind=kind, nodes=("c",))])
    assert [one.node for one in found.nodes] == [None, "c"]


MEMORY = ARITHMETIC._replace(test="memory")


def pairs(*figures: float, nodes: tuple[str, ...]) -> list[Reading]:
    return [reading(figure, kind=MEMORY, nodes=nodes, at=builders.NOW + n) for n, figure in enumerate(figures)]


def test_a_gang_of_several_nodes_is_held_against_gangs_that_share_no_node_with_it() -> None:
    weak = pairs(*(13.0,) * 20, nodes=("weak", "x"))
    known = history(weak, pairs(*USUAL[:3], nodes=("a", "b")), pairs(*USUAL[3:], nodes=("c", "d")))
    assert [one.node for one in known.nodes] == ["a+b", "c+d", "weak+x"], "a gang has places of its own"
    for nodes in (("weak", "x"), ("x", "weak"), ("y", "weak")):
        found = node_tests.usual(reading(13.0, kind=MEMORY, nodes=nodes), known)
        assert found is not None
        assert (found.tests, found.nodes, found.median) == (6, 4, 19.5 * TERA)


def test_a_gang_stands_under_one_entry_whatever_the_order_of_its_pods() -> None:
    known = history(pairs(19.5, nodes=("a", "b")), pairs(19.4, nodes=("b", "a")))
    assert [(one.node, len(one.figures)) for one in known.nodes] == [("a+b", 2)]


@pytest.mark.parametrize("count", [3, 8, 31])
def test_gangs_of_many_nodes_with_long_names_are_told_apart_too(count: int) -> None:
    first, second = ([f"{zone}-{n:03}.{'x' * 60}" for n in range(count)] for zone in "ab")
    known = history(pairs(*(13.0,) * 8, nodes=tuple(first)), pairs(*USUAL, nodes=tuple(second)))
    assert all(one.node is not None and len(one.node) <= pool_health.NODE_MAX for one in known.nodes)
    for nodes in (tuple(first), (first[-1],)):
        found = node_tests.usual(reading(13.0, kind=MEMORY, nodes=nodes), known)
        assert found is not None
        assert (found.tests, found.nodes, found.median) == (6, count, 19.5 * TERA)


def test_a_gang_of_more_nodes_than_have_room_stands_under_no_node() -> None:
    known = history(pairs(19.5, nodes=tuple(f"node-{n:03}" for n in range(32))))
    assert [one.node for one in known.nodes] == [None]


def test_what_is_usual_stands_in_the_pools_status_for_people() -> None:
    assert history(series(USUAL)).usual == 19.5 * TERA


def test_a_history_that_somebody_has_edited_is_no_stumbling_block() -> None:
    known = history(series(USUAL))
    emptied = known.model_copy(update={"nodes": tuple(one.model_copy(update={"at": ()}) for one in known.nodes)})
    assert node_tests.usual(reading(13.0), emptied) is None
    assert node_tests.merged((emptied,), []) == ()
