# SPDX-License-Identifier: Apache-2.0
import math

from gpubench.scheduler import observed
from gpubench_operator import pool, queue

A, B, C = (queue.benchmark_key("default", name) for name in "abc")


def job(name: str, *, pool: str = "p", count: int = 2, complete: bool = False) -> observed.ObservedJob:
    return observed.ObservedJob(
        name=name, uid=name, trial="t", attempt=1, pool=pool, slots=count, created_at=0.0, complete=complete
    )


def kept(ledger: pool.SlotLedger, uid: str, *, key: queue.Key = C) -> set[str]:
    return {*ledger.kept_for_others(key, uid, {"p": 4, "q": 4}, now=0.0)}


def test_who_is_first_in_the_line_of_a_pool_keeps_it_from_others_and_no_other_pool() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "a", slots={"p": 1})
    ledger.wait(B, "b", slots={"p": 1, "q": 1})
    assert kept(ledger, "a") == {"q"}
    assert kept(ledger, "b") == {"p"}
    assert kept(ledger, "c") == {"p", "q"}


def test_who_was_served_and_wants_more_goes_to_the_end() -> None:
    ledger = pool.SlotLedger()
    for key, uid in ((A, "a"), (B, "b")):
        ledger.wait(key, uid, slots={"p": 1})
    ledger.reserve(A, "a", job="j", pool="p", slots=1)
    ledger.wait(A, "a", slots={"p": 1})
    assert kept(ledger, "b") == set()
    assert kept(ledger, "a") == {"p"}


def test_waiting_on_keeps_the_place() -> None:
    ledger = pool.SlotLedger()
    for key, uid in ((A, "a"), (B, "b"), (A, "a")):
        ledger.wait(key, uid, slots={"p": 1})
    assert kept(ledger, "a") == set()


def test_slots_that_come_free_wake_the_first_in_line_of_their_pool_only() -> None:
    ledger = pool.SlotLedger()
    ledger.correct(C, "c", [job("j", pool="q")])
    ledger.wait(A, "a", slots={"p": 1})
    ledger.wait(B, "b", slots={"q": 1})
    assert ledger.to_wake() == set()
    ledger.correct(C, "c", [job("j", pool="q", complete=True)])
    assert ledger.to_wake() == {B}
    assert ledger.to_wake() == set()


def test_who_starts_without_having_waited_may_change_whose_turn_it_is() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(B, "b", slots={"p": 1})
    ledger.reserve(A, "a", job="j", pool="p", slots=1)
    assert ledger.to_wake() == {B}


def test_the_first_in_a_long_line_look_as_often_as_those_in_a_short_one() -> None:
    ledger = pool.SlotLedger()
    for number in range(100):
        ledger.wait(A, f"a-{number}", slots={"p": 1})
    assert [ledger.pace(f"a-{number}") for number in (0, 7, 8, 99, 100)] == [{}, {}, *[{"p": 25.0}] * 3]
    ledger.wait(B, "b", slots={"q": 1})
    assert ledger.pace("b") == {"p": 25.0}


def test_who_leaves_the_line_lets_the_next_one_know() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "a", slots={"p": 1})
    ledger.wait(B, "b", slots={"p": 1})
    ledger.leave(A)
    assert ledger.to_wake() == {B}
    assert kept(ledger, "b") == set()


def test_a_new_study_of_the_name_does_not_inherit_the_place_of_the_old_one() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "old", slots={"p": 1})
    ledger.wait(B, "b", slots={"p": 1})
    ledger.leave(A, but="new")
    assert kept(ledger, "new") == {"p"}


def test_what_was_not_created_after_all_is_free_again() -> None:
    ledger = pool.SlotLedger()
    ledger.reserve(A, "a", job="j", pool="p", slots=3)
    ledger.wait(B, "b", slots={"p": 1})
    ledger.release("a", job="j")
    assert ledger.held() == {}
    assert ledger.to_wake() == {B}


OTHER = queue.benchmark_key("other", "x")


def test_namespaces_take_turns_attempt_by_attempt() -> None:
    ledger = pool.SlotLedger()
    waiting = {"a": A, "b": B, "c": C, "x": OTHER}
    for uid, key in waiting.items():
        ledger.wait(key, uid, slots={"p": 1})
    served = []
    for number in range(4):
        (first,) = (uid for uid in waiting if not kept(ledger, uid))
        served.append(first)
        ledger.reserve(waiting.pop(first), first, job=f"j{number}", pool="p", slots=1)
    assert served == ["a", "x", "b", "c"]


def test_whose_namespace_had_no_turn_yet_goes_before_one_that_had() -> None:
    ledger = pool.SlotLedger()
    ledger.reserve(A, "a", job="j", pool="p", slots=1)
    ledger.wait(B, "b", slots={"p": 4})
    assert kept(ledger, "new", key=C) == {"p"}
    assert kept(ledger, "new", key=OTHER) == set()


def promised(ledger: pool.SlotLedger, *, now: float = 0.0) -> float:
    """By when an attempt of b must have ended, to be started on a pool of four slots."""
    return ledger.kept_for_others(B, "b", {"p": 4}, now=now)["p"]


def holds(ledger: pool.SlotLedger, **ends: tuple[float, float]) -> None:
    """A benchmark has these Jobs of one slot: when each is expected to end, and when its time-outs end it."""
    ledger.correct(C, "c", [job(name, count=1) for name in ends], ends=ends)


def test_others_may_have_slots_until_the_first_in_line_could_start_and_no_later_estimate_moves_that() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, short=(100.0, 900.0), long=(500.0, 900.0))
    ledger.wait(A, "a", slots={"p": 3})
    assert promised(ledger) == 100.0
    holds(ledger, short=(300.0, 900.0), long=(500.0, 900.0))
    assert promised(ledger) == 100.0
    ledger.leave(A)
    ledger.wait(A, "another", slots={"p": 4})
    assert promised(ledger) == 500.0


def test_an_earlier_start_counts_so_that_small_attempts_do_not_follow_each_other_for_ever() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, long=(500.0, 900.0))
    ledger.wait(A, "a", slots={"p": 4})
    assert promised(ledger) == 500.0
    holds(ledger, small=(60.0, 900.0))  # the long one has ended sooner
    assert promised(ledger) == 60.0


def test_one_that_takes_longer_than_expected_keeps_others_out_no_longer_than_its_time_outs_say() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, late=(100.0, 900.0))
    ledger.wait(A, "a", slots={"p": 4})
    assert promised(ledger) == 100.0
    assert promised(ledger, now=100.0) == 900.0
    assert promised(ledger, now=900.0) == math.inf, "nobody can say any more, so it is in nobody's way"


def test_nothing_is_lent_where_the_first_could_start() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, j=(200.0, 900.0))
    ledger.wait(A, "a", slots={"p": 3})
    assert promised(ledger) == 0.0
    ledger.wait(A, "a", slots={"p": 4})
    assert promised(ledger, now=10.0) == 200.0, "now it could not"


def test_who_waits_for_what_nobody_says_the_end_of_is_in_nobodys_way_until_somebody_does() -> None:
    ledger = pool.SlotLedger()
    ledger.correct(C, "c", [job("j", count=1)])
    ledger.wait(A, "a", slots={"p": 4})
    assert promised(ledger) == math.inf
    ledger.reserve(B, "b", job="small", pool="p", slots=1)
    holds(ledger, j=(200.0, 900.0))
    ledger.release("b", job="small")
    assert promised(ledger) == 200.0


def test_who_waits_for_what_only_time_outs_end_is_overtaken_often_and_not_for_ever() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, j=(math.inf, 900.0))
    ledger.wait(A, "a", slots={"p": 4})
    for number in range(pool.OVERTAKEN_MAX):
        assert promised(ledger) == math.inf, "one slow attempt keeps not all others out"
        ledger.reserve(B, "b", job=f"small-{number}", pool="p", slots=1)
        ledger.release("b", job=f"small-{number}")
    assert promised(ledger) == 900.0


def test_what_ends_before_the_first_could_start_overtakes_nobody() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, j=(1000.0, 2000.0))
    ledger.wait(A, "a", slots={"p": 4})
    for number in range(2 * pool.OVERTAKEN_MAX):
        assert promised(ledger) == 1000.0
        ledger.reserve(B, "b", job=f"small-{number}", pool="p", slots=1, ends_at=900.0)
        ledger.release("b", job=f"small-{number}")


def test_who_was_overtaken_often_is_the_first_and_is_overtaken_no_more() -> None:
    ledger = pool.SlotLedger()
    holds(ledger, j=(1000.0, 2000.0))
    ledger.wait(A, "a", slots={"p": 4})
    for number in range(pool.OVERTAKEN_MAX):
        assert promised(ledger) == 1000.0
        ledger.reserve(B, "b", job=f"small-{number}", pool="p", slots=1, ends_at=1100.0)
    ledger.wait(OTHER, "x", slots={"p": 1})
    assert kept(ledger, "x", key=OTHER) == {"p"}, "its namespace had no turn, and still"


def test_where_the_moment_passed_too_often_nothing_is_lent_any_more() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "a", slots={"p": 4})
    for number in range(pool.OVERTAKEN_MAX):
        holds(ledger, j=(100.0 * number + 100.0, 5000.0))
        assert promised(ledger, now=100.0 * number + 1) == 100.0 * number + 100.0
    assert promised(ledger, now=4999.0) == 0.0
    holds(ledger, j=(6000.0, 7000.0))
    assert promised(ledger, now=5000.0) == 0.0
