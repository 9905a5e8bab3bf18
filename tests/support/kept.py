# SPDX-License-Identifier: Apache-2.0
"""What runs beside the tests, such as a cluster, is kept from file to file while it is needed, and no longer.

pytest ends a fixture of the session with the session: until then etcd, API server and controllers of every cluster
would go on taking processor time from tests that have nothing to do with them.
"""

import contextlib
from collections.abc import Set
from typing import Any, NamedTuple, TypeVar

import pytest

Running = TypeVar("Running")


class _Kept(NamedTuple):
    stack: contextlib.ExitStack
    running: Any


_kept: dict[str, _Kept] = {}


def running(fixture: str, start: contextlib.AbstractContextManager[Running]) -> Running:
    """What that fixture of a module has, from the module before if it had it already; `start` is entered otherwise."""
    if fixture not in _kept:
        stack = contextlib.ExitStack()
        _kept[fixture] = _Kept(stack, stack.enter_context(start))
    found: Running = _kept[fixture].running
    return found


def end_unneeded(item: pytest.Item, following: pytest.Item | None) -> None:
    """After a file's last test: what the next file does not ask for is ended, the latest first."""
    if following is None or following.path != item.path:
        end_all(but=_asked_for_beside(following))


def end(fixture: str) -> None:
    """One of them, now: a file with a fixture of its own under that name does not need this one."""
    if fixture in _kept:
        _kept.pop(fixture).stack.close()


def end_all(*, but: Set[str] = frozenset()) -> None:
    """All of it, except that of some fixtures."""
    for fixture in reversed([fixture for fixture in _kept if fixture not in but]):
        end(fixture)


def _asked_for_beside(item: pytest.Item | None) -> Set[str]:
    """The fixtures of all tests in its file."""
    found: set[str] = set()
    for one in item.session.items if item is not None else ():
        if item is not None and one.path == item.path:
            found |= set(getattr(one, "fixturenames", ()))
    return found
