# SPDX-License-Identifier: Apache-2.0
"""Which slots of which pool are held, over all studies: what keeps two studies from half-placing two gangs.

The ledger lives in memory, is rebuilt from all Jobs at start and corrected by each study's own list of Jobs. Whoever
reads it, decides by it and reserves must not wait in between.

Each pool has a line of studies that found too little room on it. Nobody takes slots of a pool while another study is
the first in its line: a study of small gangs would otherwise take back, at each look, what a large gang waits for. A
study that was served and wants more goes to the end, so that studies take turns. A study whose gang can never be placed
(a dead node holds the slots) is in the way on that pool only.
"""

from collections.abc import Collection, Iterable, Mapping

from gpubench.scheduler import observed
from gpubench_operator.keys import Key


class SlotLedger:
    """Slots held by Jobs, those included that are about to be created; and who waits for some."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, tuple[str, int]]] = {}  # study's UID -> Job's name -> pool and slots
        self._keys: dict[str, Key] = {}  # study's UID -> its key
        self._lines: dict[str, dict[str, Key]] = {}  # pool -> UIDs and keys of studies, in the order of arrival
        self._changed: set[str] = set()  # pools of which slots came free, or whose line has moved on

    def correct(self, key: Key, uid: str, jobs: Iterable[observed.ObservedJob]) -> None:
        """Replace what is known of one study by its own list of Jobs."""
        before = _total([self._held.get(uid, {})])
        held = {job.name: (job.pool, job.slots) for job in jobs if job.holds_slots}
        if held:
            self._held[uid], self._keys[uid] = held, key
        else:
            self._held.pop(uid, None)
            self._keys.pop(uid, None)
        after = _total([held])
        self._changed |= {pool for pool, slots in before.items() if after.get(pool, 0) < slots}

    def reserve(self, key: Key, uid: str, *, job: str, pool: str, slots: int) -> None:
        """Hold slots for a Job that is about to be created. Who is served has had its turn in the line."""
        self._held.setdefault(uid, {})[job] = (pool, slots)
        self._keys[uid] = key
        self._step_out(pool, uid)

    def release(self, uid: str, *, job: str) -> None:
        """Give the slots of a Job back that was not created after all."""
        pool, _ = self._held.get(uid, {}).pop(job, ("", 0))
        self._changed.add(pool)

    def held(self) -> dict[str, int]:
        """Slots held in each pool."""
        return _total([dict(jobs) for jobs in list(self._held.values())])  # also asked by scrapes, from their thread

    def waiting(self) -> dict[str, int]:
        """Studies in the line of each pool."""
        return {pool: len(line) for pool, line in list(self._lines.items())}

    def studies_of(self, key: Key) -> tuple[str, ...]:
        """UIDs of studies under this key that hold slots: more than one after a deletion and a new start."""
        return tuple(uid for uid, owner in self._keys.items() if owner == key)

    def wait(self, key: Key, uid: str, *, pools: Collection[str]) -> None:
        """Stand in the lines of exactly these pools; a place that the study has already is kept."""
        for pool in pools:
            self._lines.setdefault(pool, {}).setdefault(uid, key)
        for pool in self._lines.keys() - set(pools):
            self._step_out(pool, uid)

    def leave(self, key: Key, *, but: str | None = None) -> None:
        """Leave all lines: every study of this key, except the one with the UID `but`."""
        for pool, line in self._lines.items():
            for uid in [uid for uid, owner in line.items() if owner == key and uid != but]:
                self._step_out(pool, uid)

    def kept_for_others(self, uid: str) -> frozenset[str]:
        """Pools of which this study may take nothing now: another one is the first in line."""
        return frozenset(pool for pool, line in self._lines.items() if line and next(iter(line)) != uid)

    def to_wake(self) -> frozenset[Key]:
        """The first in line of each pool of which slots came free, or whose line moved on, since this was asked."""
        changed, self._changed = self._changed, set()
        return frozenset(next(iter(line.values())) for pool in changed if (line := self._lines.get(pool)))

    def _step_out(self, pool: str, uid: str) -> None:
        line = self._lines.get(pool, {})
        if uid in line:
            del line[uid]
            self._changed.add(pool)


def _total(held: Iterable[Mapping[str, tuple[str, int]]]) -> dict[str, int]:
    """Slots of each pool."""
    total: dict[str, int] = {}
    for jobs in held:
        for pool, slots in jobs.values():
            total[pool] = total.get(pool, 0) + slots
    return total
