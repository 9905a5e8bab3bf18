# SPDX-License-Identifier: Apache-2.0
"""What is kept of a schedule's runs: each once, bounded, and read back as it was written."""

import builders
import histories
from gpubench.schedule import history
from gpubench.schedule.history import Entry, Held
from gpubench.scheduler.ledger import AttemptRecord, Segment


def applied(shards: dict[int, dict[str, str]], entry: Entry) -> dict[int, dict[str, str]]:
    """As a merge patch of Kubernetes applies the changes."""
    after = {number: dict(shard) for number, shard in shards.items()}
    for change in history.placed(shards, entry):
        shard = after.setdefault(change.shard, {})
        for name, text in change.entries.items():
            if text is None:
                del shard[name]
            else:
                shard[name] = text
    return after


def test_entries_are_read_back_oldest_first() -> None:
    entries = histories.of_speeds([1.0, 2.0, 3.0])
    shards: dict[int, dict[str, str]] = {}
    for entry in reversed(entries):
        shards = applied(shards, entry)
    assert history.read(shards.values()) == tuple(entries)


def test_an_entry_that_is_there_is_not_written_again() -> None:
    entry = histories.of_speeds([1.0])[0]
    assert history.placed(applied({}, entry), entry) == ()


def wide(number: int) -> Entry:
    return histories.entry(number, [histories.figure(1.0, point=f"p{index}") for index in range(256)])


def test_a_history_of_large_studies_stays_within_its_shards_and_loses_the_oldest() -> None:
    shards: dict[int, dict[str, str]] = {}
    for number in range(1, 61):
        shards = applied(shards, wide(number))
    kept = history.read(shards.values())
    assert len(shards) == history.SHARDS_MAX
    for shard in shards.values():
        assert sum(len(name) + len(text.encode()) for name, text in shard.items()) <= history.SHARD_BYTES_MAX
    assert len(kept) > 20
    assert [entry.uid for entry in kept] == [str(number) for number in range(61 - len(kept), 61)]


def test_a_line_that_cannot_be_read_hides_no_other() -> None:
    shards = applied({}, histories.of_speeds([1.0])[0])
    shards[0]["s-1"] = '{"name":"s-1"}'
    shards[0]["s-2"] = shards[0][next(iter(shards[0]))].replace("1.0", "2.0")  # its checksum does not fit any more
    assert len(history.read(shards.values())) == 1


def on(nodes: tuple[str, ...], begin: float, end: float, **fields: object) -> AttemptRecord:
    """An attempt at the first trial of a plan, its pods on these nodes for so long."""
    times = tuple((begin, begin + 1, end) for _ in nodes or ("one whose name nobody saw",))
    return builders.attempt(trial=PLAN.trials[0].id, nodes=nodes, pod_times=times, **fields)


PLAN = builders.plan()


def test_gangs_one_after_the_other_on_one_node_hold_it_from_the_first_to_the_last() -> None:
    found = history.held(PLAN, [on(("a",), 10, 60), on(("a",), 70, 130)])
    assert found == (Held(pool="cpu", nodes=1, seconds=120),)


def test_gangs_on_nodes_of_their_own_hold_each_for_its_own_time() -> None:
    found = history.held(PLAN, [on(("a",), 10, 60), on(("b",), 10, 110), on(("c", "d"), 100, 225)])
    assert found == (Held(pool="cpu", nodes=4, seconds=100),)  # 50, 100, 125 and 125 s


def test_a_run_that_kueue_has_ended_held_its_nodes_too() -> None:
    before = Segment(admitted_at=0, ended_at=40, nodes=("a",), pod_times=((5, 6, 40),))
    assert history.held(PLAN, [on(("b",), 100, 160, segments=(before,))]) == (Held(pool="cpu", nodes=2, seconds=47.5),)


def test_nodes_without_a_name_are_taken_for_the_same() -> None:
    assert history.held(PLAN, [on((), 10, 60), on((), 70, 130)]) == (Held(pool="cpu", nodes=1, seconds=120),)


def test_what_nobody_saw_held_nothing() -> None:
    assert history.held(PLAN, [builders.attempt(trial=PLAN.trials[0].id)]) == ()
