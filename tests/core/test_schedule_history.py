# SPDX-License-Identifier: Apache-2.0
"""What is kept of a schedule's runs: each once, bounded, and read back as it was written."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

import builders
import histories
import measured
from gpubench.analysis import pairs
from gpubench.api.point_result import Basis, EnvironmentFacts, PointState
from gpubench.plan.plan import Plan
from gpubench.schedule import history
from gpubench.schedule.history import Entry, Held
from gpubench.scheduler.ledger import AttemptRecord, Segment


def applied(shards: dict[int, dict[str, str]], entry: Entry) -> dict[int, dict[str, str]]:
    """As a merge patch of Kubernetes applies the changes."""
    after = {number: dict(shard) for number, shard in shards.items()}
    for number, entries in history.placed(shards, entry).items():
        shard = after.setdefault(number, {})
        for name, text in entries.items():
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
    assert history.placed(applied({}, entry), entry) == {}


def wide(number: int) -> Entry:
    return histories.entry(number, [histories.figure(1.0, point=f"p{index}") for index in range(256)])


def test_a_history_of_large_studies_stays_within_its_shards_and_loses_the_oldest() -> None:
    shards: dict[int, dict[str, str]] = {}
    for number in range(1, 81):
        shards = applied(shards, wide(number))
    kept = history.read(shards.values())
    assert len(shards) == history.SHARDS_MAX
    for shard in shards.values():
        assert sum(len(name) + len(text.encode()) for name, text in shard.items()) <= history.SHARD_BYTES_MAX
    assert 20 < len(kept) < 80
    assert [entry.uid for entry in kept] == [str(number) for number in range(81 - len(kept), 81)]


def test_of_too_many_runs_the_oldest_goes_from_wherever_it_lies() -> None:
    *stored, newest = (histories.entry(number, []) for number in range(1, history.RUNS_MAX + 2))
    stored.reverse()
    shards = {
        number: {entry.name: "as it was written" for entry in stored[number :: history.SHARDS_MAX]}
        for number in range(history.SHARDS_MAX)
    }
    assert history.placed(shards, newest) == {0: {newest.name: newest.to_text()}, 3: {stored[-1].name: None}}


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


# --- what a finished run leaves ---------------------------------------------------------------------------------------


RATES = {0: (100.0, 101.0, 99.0), 1: (190.0, 191.0, 189.0)}


def side(plan: Plan, rates: Mapping[int, Sequence[float]] = RATES, **changes: Any) -> pairs.Side:
    results = [one.model_copy(update=changes) for one in measured.results(plan, rates)]
    facts = EnvironmentFacts(environment="env", image_digest="sha256:abc")
    return pairs.of_plan("nightly", plan, results, [facts])


def test_a_figure_has_its_interval_its_repeats_and_the_image_that_its_environment_had() -> None:
    one, other = history.figures(side(PLAN))
    (result, _) = measured.results(PLAN, RATES)
    assert result.throughput is not None
    assert (one.mean, one.low, one.high) == (100.0, result.throughput.low, result.throughput.high)
    assert (one.repeats, one.image_digest, one.settled, one.nodes) == (3, "sha256:abc", True, ())
    assert one.point != other.point
    assert one.group is None
    assert one == history.figures(side(PLAN))[0], "the same point of the next run has the same name"
    assert one.point == "tjvies7tb24m", "and that of a run before an upgrade had it too"
    assert history.figures(side(PLAN, environment="another"))[0].image_digest is None


def test_the_nodes_are_those_of_attempts_with_a_result_unless_they_are_too_many() -> None:
    def nodes(names: Sequence[str], **fields: Any) -> tuple[str, ...]:
        record = builders.attempt(trial=PLAN.trials[0].id, nodes=tuple(names), **fields)
        stranger = builders.attempt(trial="elsewhere", nodes=("x",), result=builders.result(trial="elsewhere"))
        return history.figures(side(PLAN), plan=PLAN, records=[record, stranger])[0].nodes

    result = builders.result(trial=PLAN.trials[0].id)
    most = [f"node-{number:02}" for number in range(history.NODES_MAX)]
    assert nodes(["b", "a"], result=result) == ("a", "b")
    assert nodes(["b", "a"], result=None) == ()
    assert nodes(most, result=result) == tuple(most)
    assert nodes([*most, "one more"], result=result) == ()


def test_points_that_differ_in_their_node_alone_are_of_one_group() -> None:
    one, other = (history.figures(side(PLAN, node=node))[0] for node in ("a", "b"))
    assert one.group == other.group == history.figures(side(PLAN))[0].point
    assert one.point != other.point


@pytest.mark.parametrize(
    "changes", [{"basis": Basis.REPRICED}, {"values": (), "throughput": None}, {"values": (0.0, 0.0, 0.0)}]
)
def test_what_was_not_run_or_has_no_figure_leaves_none_and_the_other_points_theirs(changes: dict[str, Any]) -> None:
    first, second = measured.results(PLAN, RATES)
    _, expected = history.figures(pairs.of_plan("nightly", PLAN, [first, second]))
    found = history.figures(pairs.of_plan("nightly", PLAN, [first.model_copy(update=changes), second]))
    assert found == (expected,)


def test_runs_that_never_settled_say_so() -> None:
    assert not history.figures(side(PLAN, state=PointState.UNSTABLE))[0].settled


def test_a_training_leaves_its_seconds_and_no_interval_of_its_throughput() -> None:
    plan = builders.plan(builders.spec(builders.block(epochs=3), measure={"mode": "Training"}))
    runs = [builders.training(nanoseconds=seconds * 10**9) for seconds in (30, 31, 32)]
    results = measured.results(plan, RATES, trainings={0: runs, 1: runs})
    (figure, _) = history.figures(pairs.of_plan("nightly", plan, results))
    assert results[0].training is not None
    assert results[0].training.seconds is not None
    assert (figure.quantity, figure.mean) == ("Seconds", results[0].training.seconds.mean)
    assert (figure.low, figure.high, figure.repeats) == (None, None, 3)
