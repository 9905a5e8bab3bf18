# SPDX-License-Identifier: Apache-2.0
"""A name may stand for one object after another; each of them is to be forgotten once."""

from gpubench_operator import queue

KEY = queue.benchmark_key("team", "study")


def test_an_object_that_is_gone_is_named_once() -> None:
    seen = queue.SeenObjects()
    assert [seen.replaced(KEY, uid) for uid in (None, "a", "a", None, None)] == [None, None, None, "a", None]


def test_an_object_that_another_one_has_replaced_is_named_once() -> None:
    seen = queue.SeenObjects()
    assert [seen.replaced(KEY, uid) for uid in ("a", "b", "b")] == [None, "a", None]


def test_one_name_says_nothing_of_another() -> None:
    seen = queue.SeenObjects()
    seen.replaced(KEY, "a")
    assert seen.replaced(queue.Key(queue.Kind.SCHEDULE, "team", "study"), None) is None
    assert seen.replaced(KEY, None) == "a"
