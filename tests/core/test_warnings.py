# SPDX-License-Identifier: Apache-2.0
"""What a reader must know of a point: what its gangs noticed, merged over the repeats, and whether it ever settled."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import builders
from gpubench.analysis import answer, warnings
from gpubench.api import point_warning, status_sizes
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import Basis, GpuUsage, HostUsage, PointResult, PointState, Spread
from gpubench.api.point_warning import WarningReason
from gpubench.plan.plan import Plan
from gpubench.records import (
    Bimodal,
    BusyMachine,
    LossRose,
    Machine,
    Notice,
    Outliers,
    Result,
    Straggler,
    Trend,
    Unsettled,
)
from gpubench.report import tables
from gpubench.scheduler import ledger
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from world import decide

UNSETTLED = Unsettled(change=0.12)
TREND = Trend(change=-0.03)
BIMODAL = Bimodal(ratio=1.4, share=0.3)
OUTLIERS = Outliers(count=2, windows=60, worst=7.5)
STRAGGLER = Straggler(rank=1, cost=0.08)
BUSY = BusyMachine(others=1.9, stolen=0.1, processors=4)


def record(result: Result, *, trial: str = "t", nodes: Sequence[str] = ("node-0",)) -> AttemptRecord:
    done: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "sentence": None}
    return builders.attempt(trial=trial, result=result, nodes=tuple(nodes), **done)


def noticed(*repeats: Sequence[Notice], workers: int = 1, nodes: Sequence[str] = ("node-0",)) -> list[str]:
    """What is said of a point whose repeats noticed that."""
    point = builders.plan(builders.spec(builders.block(workers=[workers]))).points[0]
    records = [
        record(builders.result(notices=tuple(found)), trial=f"t{index}", nodes=nodes)
        for index, found in enumerate(repeats)
    ]
    return [warning.message for warning in warnings.of_repeats(point, records)]


def decided(plan: Plan, *points: Sequence[Result]) -> FullStatus:
    """The status of a study whose points' repeats gave that."""
    records = [
        record(points[trial.point][trial.repeat], trial=trial.id)
        for trial in plan.trials
        if trial.repeat < len(points[trial.point])
    ]
    return decide(plan, Ledger(records=tuple(records)), builders.observed(), builders.NOW).status


def measured(plan: Plan, *points: Sequence[Result]) -> list[PointResult]:
    """Its points."""
    return list(decided(plan, *points).results)


def runs(*settled: bool, rate: float = 1000.0) -> list[Result]:
    return [
        builders.result(rate=rate + 10 * index, notices=() if well else (UNSETTLED,))
        for index, well in enumerate(settled)
    ]


ONE = builders.plan(builders.spec(builders.block(workers=[1])))
TWO = builders.plan(builders.spec(builders.block(workers=[1, 2])))

# --- notices ----------------------------------------------------------------------------------------------------------


def test_equal_kinds_are_merged_and_the_worst_is_shown() -> None:
    (found,) = noticed([TREND], [], [Trend(change=0.01)])
    assert found.startswith("2 of 3 repeats: step time went -3.0% while it was measured")


def test_a_single_repeat_is_not_counted() -> None:
    assert noticed([TREND]) == [text.removeprefix("1 of 2 repeats: ") for text in noticed([TREND], [])]


def test_different_kinds_stand_beside_each_other_the_gravest_first() -> None:
    found = noticed([OUTLIERS, TREND], [BIMODAL, LossRose(first=1, last=2)], [STRAGGLER, UNSETTLED])
    words = ("never settled", "rank 1 computes", "two speeds", "step time went", "stand out", "the loss rose")
    assert [next(word for word in words if word in text) for text in found] == list(words)


def test_what_nobody_noticed_is_not_said() -> None:
    assert noticed([], [], []) == []


@pytest.mark.parametrize(
    ("worst", "harmless"),
    [
        (Trend(change=-0.2), Trend(change=0.1)),
        (Bimodal(ratio=2.0, share=0.1), Bimodal(ratio=1.1, share=0.5)),
        (Outliers(count=1, windows=60, worst=30.0), Outliers(count=5, windows=60, worst=3.0)),
        (Straggler(rank=0, cost=0.5), Straggler(rank=1, cost=0.1)),
        (LossRose(first=1, last=9), LossRose(first=8, last=9)),
        (Unsettled(change=-0.4), Unsettled(change=0.3)),
    ],
)
def test_the_worst_is_the_one_that_costs_most(worst: Notice, harmless: Notice) -> None:
    assert noticed([harmless], [worst]) == noticed([worst], [harmless])
    assert noticed([harmless], [worst]) != noticed([harmless], [harmless])


def test_the_node_of_a_straggler_is_named() -> None:
    (found,) = noticed([Straggler(rank=1, cost=0.08)], workers=2, nodes=("gke-a", "gke-b"))
    assert found.endswith("look at its node (gke-b)")


def test_a_node_is_named_only_where_it_is_certain_which_one_it_is() -> None:
    (found,) = noticed([Straggler(rank=1, cost=0.08)], workers=2, nodes=("gke-b",))
    assert found.endswith("look at its node")
    (found,) = noticed([Straggler(rank=7, cost=0.08)], workers=2, nodes=("gke-a", "gke-b"))
    assert found.endswith("look at its node")


@pytest.mark.parametrize(
    ("nodes", "said"),
    [(("a", "b"), []), (("a", "a"), ["2 pods ran on 1 node"]), (("a",), [])],
    ids=["a node each", "both on one", "one is not known"],
)
def test_pods_of_a_gang_that_met_on_a_node_are_spoken_of(nodes: Sequence[str], said: list[str]) -> None:
    pool = builders.pool(slots_per_node=2, exclusive_nodes=False)
    plan = builders.plan(builders.spec(builders.block(workers=[2], workersPerNode=1)), pool)
    records = tuple(record(builders.result(), trial=trial.id, nodes=nodes) for trial in plan.trials)
    (result,) = decide(plan, Ledger(records=records), builders.observed(), builders.NOW).status.results
    told = [warning for warning in result.warnings if warning.reason is WarningReason.NODE_SHARED]
    assert [one.message.removeprefix(f"{len(records)} of {len(records)} repeats: ")[:20] for one in told] == said
    assert [one.figures for one in told] == [{"pods": 2, "nodes": 1}] * len(said)


Places = Sequence[ledger.Place]
A, B, NEAR, BARE = ("a", "b1", "r1"), ("b", "b2", "r2"), ("a", "b1", "r2"), (None, None, None)


def test_a_cgroup_that_gives_less_than_was_planned_is_spoken_of() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1])))
    less = builders.environment(processors_short=0.5, memory_bytes_short=2**28)
    entry = builders.attempt(
        trial=plan.trials[0].id, outcome=Outcome.SUCCEEDED, reason=Reason.COMPLETED, sentence=None,
        result=builders.result(environment=less.key()),
    )  # fmt: skip
    for known, said in ((less, ["0.5 processors by its cgroup, 256 MiB of memory by its cgroup"]), (None, [])):
        found = Ledger(records=(entry,), environments=() if known is None else (known,))
        (result,) = decide(plan, found, builders.observed(), builders.NOW).status.results
        told = [one.message for one in result.warnings if one.reason is WarningReason.POD_CHANGED]
        assert [one in message for one, message in zip(said, told, strict=True)] == [True] * len(said)


def spread(*repeats: Places, workers: int = 2) -> PointResult:
    """A point of two nodes whose gangs were there."""
    block = builders.block(workers=[workers])
    plan = builders.plan(builders.spec(block, measure={"repeats": {"min": len(repeats)}}))
    records = tuple(
        record(builders.result(), trial=trial.id, nodes=[f"node-{n}" for n in range(workers)]).model_copy(
            update={"places": tuple(places), "zones": tuple(sorted({zone for zone, _, _ in places if zone}))}
        )
        for trial, places in zip(plan.trials, repeats, strict=True)
    )
    (result,) = decide(plan, Ledger(records=records), builders.observed(), builders.NOW).status.results
    return result


def test_a_gang_in_several_zones_is_spoken_of_with_the_remedy() -> None:
    result = spread([A, B], [A, B], [A, B])
    (found,) = result.warnings
    assert (found.reason, found.repeats, found.figures) == (WarningReason.ZONES_CROSSED, 3, {"zones": 2})
    assert found.message == (
        "3 of 3 repeats: pods ran in 2 zones (a, b): messages between them take longer, and may be billed: set "
        "scheduling.topology with mode Required and key topology.kubernetes.io/zone"
    )
    assert result.spread == Spread(zones=2, blocks=2, racks=2)


@pytest.mark.parametrize(
    ("odd", "said", "figures"),
    [
        ([A, B], "in 1 to 2 zones,", {"least": 1, "most": 2}),
        ([A, ("a", "b2", "r3")], "in 1 to 2 blocks,", {"least": 1, "most": 2}),
        ([A, NEAR], "in 1 to 2 racks,", {"least": 1, "most": 2}),
    ],
    ids=["zones", "blocks", "racks"],
)
def test_repeats_that_lay_further_apart_than_others_are_spoken_of(
    odd: Places, said: str, figures: dict[str, float]
) -> None:
    result = spread([A], odd, [A], [BARE], [])
    (found,) = (one for one in result.warnings if one.reason is WarningReason.SPREAD_DIFFERS)
    assert said in found.message
    assert "set scheduling.topology with mode Required and key " in found.message
    assert (found.repeats, found.figures) == (1, figures)
    assert result.spread is not None
    assert result.spread.racks == 2


def test_gangs_that_lay_alike_or_nobody_knows_how_are_not_spoken_of() -> None:
    assert spread([A, NEAR], [A, NEAR]).warnings == ()
    assert spread([A], []).warnings == spread([], [BARE]).warnings == ()
    alone = spread([A], [B], workers=1)
    assert (alone.warnings, alone.spread) == ((), None)


def test_no_warning_of_a_point_is_left_out_and_each_fits() -> None:
    everything = builders.result(notices=(UNSETTLED, BUSY, BIMODAL, STRAGGLER))
    (found,) = measured(ONE, [everything] * 3)
    assert [one.reason.value for one in found.warnings] == ["Unsettled", "BusyMachine", "Straggler", "Bimodal"]
    assert all(len(text.encode()) <= status_sizes.WARNING_MAX for text in builders.messages(found))
    assert len((found.node or "").encode()) <= status_sizes.NODE_MAX


# --- for programs -----------------------------------------------------------------------------------------------------


def test_a_warning_tells_programs_what_it_tells_people() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[2])))
    straggling = builders.result(notices=(Straggler(rank=1, cost=0.0812345),))
    records = [record(builders.result(), trial="t0"), record(straggling, trial="t1", nodes=("gke-a", "gke-b"))]
    (found,) = warnings.of_repeats(plan.points[0], records)
    assert found.to_wire() == {
        "reason": "Straggler",
        "message": "1 of 2 repeats: rank 1 computes 8% slower than the others, which wait for it: look at its node "
        "(gke-b)",
        "trial": "t1",
        "rank": 1,
        "node": "gke-b",
        "repeats": 1,
        "figures": {"cost": 0.08123},
    }


@pytest.mark.parametrize(
    "notice", [UNSETTLED, TREND, BIMODAL, OUTLIERS, STRAGGLER, BUSY, LossRose(first=1.0, last=2.0)]
)
def test_the_numbers_of_a_notice_have_the_names_that_are_documented(notice: Notice) -> None:
    point = builders.plan().points[0]
    (found,) = warnings.of_repeats(point, [record(builders.result(notices=(notice,)))])
    assert found.reason.value == notice.kind
    assert tuple(found.figures or ()) == point_warning.WARNING_FIGURES[found.reason]


def test_a_number_without_a_documented_name_is_never_written() -> None:
    with pytest.raises(AssertionError, match="Trend has no figures slope"):
        warnings.warning(WarningReason.TREND, "it became slower", figures={"slope": 1.0})


def test_every_reason_and_the_names_of_its_numbers_are_documented() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "warnings.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:3] == "| `"]
    named = {row[0].strip("`"): tuple(part.strip("` ") for part in row[-1].split(",") if part.strip()) for row in rows}
    assert {reason.value: named.get(reason.value) for reason in WarningReason} == {
        reason.value: figures for reason, figures in point_warning.WARNING_FIGURES.items()
    }


def test_a_warning_that_is_too_long_is_cut_to_what_a_status_takes() -> None:
    found = warnings.warning(WarningReason.OTHER, "測" * 200, node="n" * 200)
    assert len(found.message.encode()) <= status_sizes.WARNING_MAX
    assert len((found.node or "").encode()) <= status_sizes.NODE_MAX


# --- points that never settled ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settled", "state"),
    [
        ((True, True, True), PointState.MEASURED),
        ((True, True, False), PointState.MEASURED),
        ((True, False, False), PointState.UNSTABLE),
        ((False, False, False), PointState.UNSTABLE),
    ],
)
def test_a_point_is_unstable_when_at_least_half_of_its_repeats_never_settled(
    settled: Sequence[bool], state: PointState
) -> None:
    (found,) = measured(ONE, runs(*settled))
    assert found.state is state
    assert bool(found.warnings) is (not all(settled)), "a minority is a warning"


@pytest.mark.parametrize(
    ("repeats", "settled", "state"),
    [
        (1, (False,), PointState.UNSTABLE),
        (2, (True, False), PointState.UNSTABLE),
        (4, (True, True, False, False), PointState.UNSTABLE),
        (5, (True, True, True, False, False), PointState.MEASURED),
    ],
)
def test_half_is_enough(repeats: int, settled: Sequence[bool], state: PointState) -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": repeats}}))
    assert measured(plan, runs(*settled))[0].state is state


def test_an_unstable_point_keeps_its_figures() -> None:
    (steady,), (found,) = measured(ONE, runs(True, True, True)), measured(ONE, runs(False, False, False))
    assert (found.values, found.throughput, found.cost) == (steady.values, steady.throughput, steady.cost)
    assert found.cost is not None
    assert found.reason is None


def test_an_unstable_point_is_a_finding_and_is_counted() -> None:
    whole = decided(TWO, runs(True, True, True), runs(False, False, True))
    assert whole.phase == "Succeeded"
    assert whole.points is not None
    assert (whole.points.measured, whole.points.unstable, whole.points.other) == (1, 1, 0)


def test_a_study_in_which_nothing_settled_has_failed_and_says_what_to_do() -> None:
    found = decided(ONE, runs(False, False, False))
    assert found.phase == "Failed"
    message = next(condition.message for condition in found.conditions if condition.type == "Succeeded")
    assert message == (
        "no point was measured (1 Unstable): no point settled: give measure.warmUp and duration more time, or look at "
        "the nodes"
    )
    assert found.answer == "Nothing of mnist_cnn in float32 is ranked. Of 1 point: 1 Unstable and not ranked."


def test_nothing_is_held_against_an_unstable_base() -> None:
    one, two = measured(TWO, runs(False, False, True), runs(True, True, True))
    assert one.scaling[0].efficiency.mean == 1
    assert two.scaling == ()
    assert "the smallest worker count of this line is Unstable" in builders.messages(two)[0]
    settled = measured(TWO, runs(True, True, False), runs(True, True, True))[1]
    assert settled.scaling[0].baseline_workers == 1


def test_an_unstable_point_wins_no_ranking_and_is_said_to_be_one() -> None:
    found = measured(TWO, runs(True, True, True), runs(False, False, False, rate=9000.0))
    text = answer.answer(tuple(found))
    assert text.startswith("Fastest mnist_cnn in float32: 1 worker at batch 64 on cpu, ")
    assert "2 workers" not in text
    assert "9,0" not in text
    assert text.endswith("Of 2 points: 1 Unstable and not ranked.")


def test_an_unstable_point_is_marked_in_the_table() -> None:
    table = tables.results(measured(TWO, runs(True, True, True), runs(False, False, False)))
    state = next(index for index, column in enumerate(table.columns) if column.title == "STATE")
    assert [row[state] for row in table.rows] == ["Measured", "Unstable"]
    assert tables.UNSTABLE_NOTE in table.notes
    assert any(
        note.startswith("Warning: mnist_cnn on cpu, 2 workers") and "never settled" in note for note in table.notes
    )
    assert tables.UNSTABLE_NOTE not in tables.results(measured(ONE, runs(True, True, True))).notes


def test_what_is_repriced_from_an_unstable_point_is_unstable() -> None:
    pools = (builders.pool(), builders.pool("other", measured_by={"pool": "cpu"}))
    plan = builders.plan(builders.spec(builders.block(workers=[1], pools=["cpu", "other"])), *pools)
    here, other = measured(plan, runs(False, False, False))
    assert (here.state, other.state, other.basis) == (PointState.UNSTABLE, PointState.UNSTABLE, Basis.REPRICED)
    assert other.throughput == here.throughput


# --- machines ---------------------------------------------------------------------------------------------------------


def test_machine_figures_are_those_of_all_repeats() -> None:
    machines = [
        Machine(
            processor=1.0, memory_bytes=100, gpu=0.9, gpu_memory_bytes=30, watts=300.0, joules=4000.0, throttled=0.0
        ),
        Machine(
            processor=2.0, memory_bytes=300, gpu=0.8, gpu_memory_bytes=20, watts=500.0, joules=6000.0, throttled=0.5
        ),
    ]
    (found,) = measured(ONE, [builders.result(rate=1000.0, machine=machine) for machine in machines])
    assert found.host == HostUsage(processors=1.5, memory_peak=300)
    assert found.gpu == GpuUsage(utilization=0.85, memory_peak=30, watts=400.0, throttled=0.5)


def test_messages_have_no_efficiency_to_miss() -> None:
    block = builders.block(workloads=["allreduce"], workers=[2, 4])
    plan = builders.plan(builders.spec(block), builders.pool(slots_per_node=4))
    assert len(plan.points) == 2
    two, four = measured(
        plan,
        *([builders.result(environment=key, notices=found)] * 3 for key, found in (("a", (UNSETTLED,)), ("b", ()))),
    )
    assert four.bandwidth is not None
    assert not [text for point in (two, four) for text in builders.messages(point) if "efficiency" in text]


def test_what_no_repeat_could_tell_is_absent() -> None:
    (found,) = measured(ONE, runs(True, True, True))
    assert (found.gpu, found.host) == (None, None)
    (found,) = measured(ONE, [builders.result(machine=Machine(processor=1.0))] * 2 + runs(True))
    assert (found.gpu, found.host) == (None, HostUsage(processors=1.0))
    assert [table.columns[-1].title for table in tables.of_benchmark([found])] == ["NODES", "RSS GB"]
