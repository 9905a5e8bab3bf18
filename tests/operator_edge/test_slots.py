# SPDX-License-Identifier: Apache-2.0
from gpubench.scheduler import observed
from gpubench_operator import pool, queue

A, B, C = (queue.benchmark_key("default", name) for name in "abc")


def job(name: str, *, pool: str = "p", count: int = 2, complete: bool = False) -> observed.ObservedJob:
    return observed.ObservedJob(
        name=name, uid=name, trial="t", attempt=1, pool=pool, slots=count, created_at=0.0, complete=complete
    )


def test_who_is_first_in_the_line_of_a_pool_keeps_it_from_others_and_no_other_pool() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "a", pools=("p",))
    ledger.wait(B, "b", pools=("p", "q"))
    assert ledger.kept_for_others("a") == {"q"}
    assert ledger.kept_for_others("b") == {"p"}
    assert ledger.kept_for_others("c") == {"p", "q"}


def test_who_was_served_and_wants_more_goes_to_the_end() -> None:
    ledger = pool.SlotLedger()
    for key, uid in ((A, "a"), (B, "b")):
        ledger.wait(key, uid, pools=("p",))
    ledger.reserve(A, "a", job="j", pool="p", slots=1)
    ledger.wait(A, "a", pools=("p",))
    assert ledger.kept_for_others("b") == set()
    assert ledger.kept_for_others("a") == {"p"}


def test_waiting_on_keeps_the_place() -> None:
    ledger = pool.SlotLedger()
    for key, uid in ((A, "a"), (B, "b"), (A, "a")):
        ledger.wait(key, uid, pools=("p",))
    assert ledger.kept_for_others("a") == set()


def test_slots_that_come_free_wake_the_first_in_line_of_their_pool_only() -> None:
    ledger = pool.SlotLedger()
    ledger.correct(C, "c", [job("j", pool="q")])
    ledger.wait(A, "a", pools=("p",))
    ledger.wait(B, "b", pools=("q",))
    assert ledger.to_wake() == set()
    ledger.correct(C, "c", [job("j", pool="q", complete=True)])
    assert ledger.to_wake() == {B}
    assert ledger.to_wake() == set()


def test_who_leaves_the_line_lets_the_next_one_know() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "a", pools=("p",))
    ledger.wait(B, "b", pools=("p",))
    ledger.leave(A)
    assert ledger.to_wake() == {B}
    assert ledger.kept_for_others("b") == set()


def test_a_new_study_of_the_name_does_not_inherit_the_place_of_the_old_one() -> None:
    ledger = pool.SlotLedger()
    ledger.wait(A, "old", pools=("p",))
    ledger.wait(B, "b", pools=("p",))
    ledger.leave(A, but="new")
    assert ledger.kept_for_others("new") == {"p"}


def test_what_was_not_created_after_all_is_free_again() -> None:
    ledger = pool.SlotLedger()
    ledger.reserve(A, "a", job="j", pool="p", slots=3)
    ledger.wait(B, "b", pools=("p",))
    ledger.release("a", job="j")
    assert ledger.held() == {}
    assert ledger.to_wake() == {B}
