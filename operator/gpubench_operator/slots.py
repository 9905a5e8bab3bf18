# SPDX-License-Identifier: Apache-2.0
"""Which slots of which pool are held, over all studies: what keeps two studies from half-placing two gangs.

The ledger lives in memory, is rebuilt from all Jobs at start and corrected by each study's own list of Jobs. Whoever
reads it, decides by it and reserves must not wait in between. Studies that found too few free slots stand in line;
when slots come free, they are woken one after the other, not all at once.
"""

from collections.abc import Iterable

from gpubench.control import observed
from gpubench_operator.keys import Key


class SlotLedger:
    """Slots held by Jobs, those included that are about to be created."""

    def __init__(self) -> None:
        self._held: dict[str, dict[str, tuple[str, int]]] = {}  # study's UID -> Job's name -> pool and slots
        self._keys: dict[str, Key] = {}  # study's UID -> its key
        self._line: dict[Key, None] = {}  # studies that wait for slots, in the order in which they came

    def correct(self, key: Key, uid: str, jobs: Iterable[observed.ObservedJob]) -> bool:
        """Replace what is known of one study by its own list of Jobs; True when some slots came free."""
        before = sum(slots for _, slots in self._held.get(uid, {}).values())
        held = {job.name: (job.pool, job.slots) for job in jobs if job.holds_slots}
        if held:
            self._held[uid], self._keys[uid] = held, key
        else:
            self._held.pop(uid, None)
            self._keys.pop(uid, None)
        return sum(slots for _, slots in held.values()) < before

    def reserve(self, key: Key, uid: str, *, job: str, pool: str, slots: int) -> None:
        """Hold slots for a Job that is about to be created."""
        self._held.setdefault(uid, {})[job] = (pool, slots)
        self._keys[uid] = key

    def release(self, uid: str, *, job: str) -> None:
        """Give the slots of a Job back that was not created after all."""
        self._held.get(uid, {}).pop(job, None)

    def held(self) -> dict[str, int]:
        """Slots held in each pool."""
        total: dict[str, int] = {}
        for jobs in self._held.values():
            for pool, slots in jobs.values():
                total[pool] = total.get(pool, 0) + slots
        return total

    def studies_of(self, key: Key) -> tuple[str, ...]:
        """UIDs of studies under this key that hold slots: more than one after a deletion and a new start."""
        return tuple(uid for uid, owner in self._keys.items() if owner == key)

    def stand_in_line(self, key: Key, *, waits: bool) -> None:
        """Enter or leave the line of studies that wait for slots; a place in it is kept."""
        if waits:
            self._line.setdefault(key)
        else:
            self._line.pop(key, None)

    def next_in_line(self, *, after: Key | None = None) -> Key | None:
        """The first study in line, or the one behind `after`."""
        if after is None or after not in self._line:
            return next(iter(self._line), None) if after is None else None
        line = list(self._line)
        place = line.index(after) + 1
        return line[place] if place < len(line) else None
