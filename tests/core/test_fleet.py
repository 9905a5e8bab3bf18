# SPDX-License-Identifier: Apache-2.0
"""placement EachNode, and the slow node among those that it measures."""

from typing import Any

import pytest

import builders
import histories
from gpubench.analysis import efficiency
from gpubench.plan import expand
from gpubench.schedule import history
from gpubench.schedule.history import Figure
from gpubench.scheduler import environments, step

NODES = tuple(f"node-{number}" for number in range(6))


def planned(nodes: tuple[str, ...] = NODES, **block: Any) -> Any:
    spec = builders.spec(builders.block(**{"workers": [1], "placement": "EachNode", **block}))
    return expand.freeze(spec, (builders.pool(),), "2026-11-01T00:00:00Z", {builders.pool().name: nodes})


def test_each_node_is_a_point_of_its_own() -> None:
    plan = planned()
    assert [point.key.node for point in plan.points] == list(NODES)
    assert len({trial.id for trial in plan.trials}) == len(plan.trials) == 6 * len(plan.trials) // len(NODES)


def test_without_a_ready_node_the_point_says_so() -> None:
    (point,) = planned(nodes=()).points
    assert point.skip is not None
    assert "placement EachNode" in point.skip


def test_points_without_placement_have_the_ids_that_they_had() -> None:
    assert '"node"' not in builders.plan().points[0].key.to_json()
    assert builders.spec().sweep[0].placement == "Anywhere"


def test_a_plan_that_is_made_again_has_the_same_nodes() -> None:
    plan = planned()
    spec = builders.spec(builders.block(workers=[1], placement="EachNode"))
    again = expand.freeze(spec, plan.pools, plan.planned_at, expand.nodes_of(plan.points))
    assert again == plan


def test_more_nodes_than_a_study_has_points_are_told() -> None:
    problem = step.too_large(planned(nodes=tuple(f"n{number}" for number in range(257))))
    assert problem is not None
    assert "257 points" in problem.message


def checked(speeds: list[float], **fields: Any) -> list[Figure]:
    return [
        histories.figure(speed, point=f"p{number}", pool="pool", node=node, group="all", **fields)
        for number, (node, speed) in enumerate(zip(NODES, speeds, strict=True))
    ]


HEALTHY = [1000.0, 1004.0, 997.0, 1001.0, 995.0, 1003.0]


def test_the_slow_one_of_six_nodes_is_named() -> None:
    speeds = [*HEALTHY[:3], 700.0, *HEALTHY[4:]]
    (slow,) = history.slow_nodes([histories.entry(1, checked(speeds))])
    assert (slow.node, slow.pool, slow.nodes) == ("node-3", "pool", 6)
    assert slow.speed == pytest.approx(0.7, abs=0.01)
    assert ": 30 % slower than the median of the 6 nodes: look at its clocks" in slow.sentence


@pytest.mark.parametrize(("speed", "is_named"), [(900.0, True), (901.0, False)])
def test_a_node_is_slow_from_a_tenth_below_the_median_on(speed: float, is_named: bool) -> None:
    found = history.slow_nodes([histories.entry(1, checked([1000.0, 998.0, 1000.0, speed, 1001.0, 1002.0]))])
    assert bool(found) is is_named


@pytest.mark.parametrize("speed", [1000.0, 950.0, 1500.0])
def test_a_healthy_node_is_not_named(speed: float) -> None:
    assert history.slow_nodes([histories.entry(1, checked([*HEALTHY[:3], speed, *HEALTHY[4:]]))]) == ()


def test_nodes_in_other_environments_are_not_held_against_each_other() -> None:
    figures = checked(HEALTHY)
    figures[3] = figures[3].model_copy(update={"mean": 700.0, "environment": "older driver"})
    assert history.slow_nodes([histories.entry(1, figures)]) == ()


def test_of_several_slow_nodes_the_slowest_comes_first() -> None:
    speeds = [800.0, *HEALTHY, 1002.0, 999.0, 600.0, 700.0]
    figures = [
        histories.figure(speed, point=f"p{number}", node=f"node-{number}", group="all")
        for number, speed in enumerate(speeds)
    ]
    assert [one.node for one in history.slow_nodes([histories.entry(1, figures)])] == ["node-9", "node-10", "node-0"]


def test_a_node_is_held_against_five_others_at_least() -> None:
    figures = checked([*HEALTHY[:3], 700.0, *HEALTHY[4:]])
    assert history.slow_nodes([histories.entry(1, figures[1:])]) == ()


def test_a_figure_that_never_settled_says_nothing_of_its_node() -> None:
    figures = checked([*HEALTHY, 700.0][1:])
    unsettled = figures[-1].model_copy(update={"settled": False, "point": "p6", "node": "node-6"})
    assert history.slow_nodes([histories.entry(1, figures)]) != ()
    assert history.slow_nodes([histories.entry(1, [*checked(HEALTHY), unsettled])]) == ()


def test_the_newest_run_decides() -> None:
    slow = histories.entry(1, checked([*HEALTHY[:3], 700.0, *HEALTHY[4:]]))
    assert history.slow_nodes([slow, histories.entry(2, checked(HEALTHY))]) == ()


def test_a_node_that_scatters_widely_among_others_that_do_is_not_named() -> None:
    assert history.slow_nodes([histories.entry(1, checked([1000, 700, 1300, 850, 1150, 1000]))]) == ()


def test_nodes_that_are_measured_one_by_one_are_on_no_scaling_line() -> None:
    """Otherwise one node's figure would be the base of another one's efficiency, and a status would not hold both."""
    blocks = [
        builders.block(workers=[workers], placement=placement)
        for workers, placement in ((1, "EachNode"), (1, "Anywhere"), (2, "Anywhere"))
    ]
    plan = expand.freeze(
        builders.spec(*blocks), (builders.pool(),), "2026-11-01T00:00:00Z", {builders.pool().name: NODES}
    )
    measured = [
        efficiency.MeasuredPoint(
            point=point, values=(100.0, 101.0, 99.0), environment=environments.EnvironmentKey("key", "", "")
        )
        for point in plan.points
    ]
    bases = {
        (one.point.key.workers, one.point.key.node): [
            other.point.key.node for other in efficiency.Among(measured).on_line(one, "weak")
        ]
        for one in measured
    }
    assert all(bases[1, node] == [node] for node in NODES)
    assert bases[2, None] == [None, None]
