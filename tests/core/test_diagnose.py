# SPDX-License-Identifier: Apache-2.0
"""The right notice and no other; none where there is only noise."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np
import pytest

import series
from gpubench.records import Bimodal, Outliers, Straggler, Trend, Unsettled
from gpubench.stats import steady_state

STUDIES = 300
#: About 1 % is wanted; three standard errors of that among 300 are 1.7 %.
ACCUSED_MAX = 0.027 * STUDIES
Random = np.random.Generator


def quiet(random: Random, *, windows: int = 40, deviation: float = 0.005) -> series.Times:
    return series.correlated(random, windows=windows, rho=0.3, deviation=deviation)


def kinds(times: series.Times) -> tuple[str, ...]:
    return tuple(notice.kind for notice in steady_state.notices(times.tolist()))


def counted(made: Iterable[series.Times]) -> Counter[str]:
    return Counter(kind for times in made for kind in kinds(times))


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("deviation", [0.003, 0.05])
@pytest.mark.parametrize("windows", [6, 12, 20, 60])
def test_noise_has_no_notice(windows: int, deviation: float, rho: float) -> None:
    random = np.random.default_rng(1)
    accused = counted(series.correlated(random, windows=windows, rho=rho, deviation=deviation) for _ in range(STUDIES))
    assert max(accused.values(), default=0) <= ACCUSED_MAX


@pytest.mark.parametrize("longer", [1.5, 2.0])
@pytest.mark.parametrize("steps", [20, 50])
@pytest.mark.parametrize("windows", [10, 20, 60])
def test_slow_steps_among_many_have_no_notice(windows: int, steps: int, longer: float) -> None:
    random = np.random.default_rng(2)
    accused = counted(
        series.with_slow_steps(random, windows=windows, steps=steps, longer=longer) for _ in range(STUDIES)
    )
    assert max(accused.values(), default=0) <= ACCUSED_MAX


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (lambda random: series.drifting(quiet(random, deviation=0.003), 0.1), "Unsettled"),
        (lambda random: series.warming_up(quiet(random), excess=0.3, windows=20), "Unsettled"),
        (lambda random: series.throttled(quiet(random), at=30, change=0.08), "Trend"),
        (lambda random: series.throttled(quiet(random), at=34, change=-0.08), "Trend"),
        (lambda random: series.alternating(quiet(random), ratio=1.1, every=1), "Bimodal"),
        (lambda random: series.alternating(quiet(random), ratio=1.1, every=4), "Bimodal"),
        (lambda random: series.alternating(quiet(random), ratio=1.5, every=3, of=3), "Bimodal"),
        (lambda random: series.paused(quiet(random), at=25, ratio=3), "Outliers"),
        (lambda random: series.paused(series.paused(quiet(random), at=25, ratio=3), at=30, ratio=2), "Outliers"),
        (lambda random: series.paused(quiet(random, windows=10), at=6, ratio=3), "Outliers"),
    ],
    ids=[
        "drift",
        "warm-up",
        "throttles late",
        "speeds up late",
        "alternates",
        "blocks",
        "thirds",
        "a pause",
        "pauses",
        "few windows",
    ],
)
def test_each_trouble_has_its_notice_and_no_other(trouble: Callable[[Random], series.Times], kind: str) -> None:
    random = np.random.default_rng(3)
    found = Counter(kinds(trouble(random)) for _ in range(100))
    assert found[kind,] >= 75
    assert set(found) <= {(kind,), ()}


def test_a_slight_drift_is_a_trend() -> None:
    # A steeper one never settles; near the border between the two it may be either, and never anything else.
    random = np.random.default_rng(10)
    found = Counter(kinds(series.drifting(series.correlated(random, windows=120, rho=0.0), 0.027)) for _ in range(100))
    assert found["Trend",] >= 75
    assert set(found) <= {("Trend",), ("Unsettled",), ()}


@pytest.mark.parametrize("at", [3, 12, 20, 25, 30, 35])
@pytest.mark.parametrize("change", [0.2, -0.15])
def test_a_step_in_any_half_of_a_run_is_a_trend(at: int, change: float) -> None:
    # In the first half it is where the run begins to count: what came before is left out, and not left unsaid.
    random = np.random.default_rng(11)
    for _ in range(50):
        (found,) = steady_state.notices(series.throttled(quiet(random, windows=60), at=at, change=change).tolist())
        assert isinstance(found, Trend)
        assert found.change == pytest.approx(change, abs=0.01)


@pytest.mark.parametrize("deviation", [0.0005, 0.005, 0.02])
@pytest.mark.parametrize("excess", [0.05, 0.3, 3])
@pytest.mark.parametrize("constant", [0.5, 2, 5, 10])
def test_what_fades_is_warm_up_and_has_no_notice(constant: float, excess: float, deviation: float) -> None:
    random = np.random.default_rng(12)
    made = (
        series.warming_up(quiet(random, windows=60, deviation=deviation), excess=excess, windows=constant)
        for _ in range(STUDIES)
    )
    found = counted(made)
    del found["Unsettled"]
    assert found.total() <= ACCUSED_MAX


def test_a_notice_carries_what_was_found() -> None:
    random = np.random.default_rng(4)
    (unsettled,) = steady_state.notices(series.drifting(quiet(random, deviation=0.003), 0.1).tolist())
    assert isinstance(unsettled, Unsettled)
    assert unsettled.change == pytest.approx(0.1, abs=0.01)
    (bimodal,) = steady_state.notices(series.alternating(quiet(random), ratio=1.2, every=1).tolist())
    assert isinstance(bimodal, Bimodal)
    assert (bimodal.ratio, bimodal.share) == pytest.approx((1.2, 0.5), abs=0.01)
    (outliers,) = steady_state.notices(series.paused(quiet(random), at=20, ratio=4).tolist())
    assert isinstance(outliers, Outliers)
    assert outliers.count == 1
    assert outliers.worst == pytest.approx(4, rel=0.05)
    (trend,) = steady_state.notices(series.throttled(quiet(random), at=30, change=0.08).tolist())
    assert isinstance(trend, Trend)
    assert trend.change == pytest.approx(0.08, abs=0.01)


def test_one_step_up_is_no_second_speed() -> None:
    assert kinds(series.throttled(quiet(np.random.default_rng(5)), at=27, change=0.1)) == ("Trend",)


@pytest.mark.parametrize(
    ("longer", "found"),
    [
        ({15: 1.51}, ("Outliers",)),
        ({15: 1.49}, ()),
        ({10: 1.6, 12: 2.5, 14: 4.0, 16: 7.0, 18: 12.0}, ("Outliers",)),
        ({10: 1.6, 12: 2.5, 14: 4.0, 16: 7.0, 18: 12.0, 19: 20.0}, ()),  # three tenths of them
    ],
)
def test_a_window_half_as_long_again_is_a_pause_where_it_is_rare(
    longer: dict[int, float], found: tuple[str, ...]
) -> None:
    assert kinds(np.array([longer.get(at, 1 + 0.001 * (at % 2)) for at in range(20)])) == found


def test_two_speeds_that_lie_close_are_not_worth_a_notice() -> None:
    times = series.alternating(quiet(np.random.default_rng(6), deviation=0.0001), ratio=1.01, every=1)
    assert kinds(times) == ()


def rounds(random: Random, *, ranks: int, count: int, deviation: float = 0.02) -> list[list[float]]:
    return [series.correlated(random, windows=count, rho=0.5, deviation=deviation).tolist() for _ in range(ranks)]


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_a_slow_rank_is_named_with_its_cost(ranks: int) -> None:
    times = rounds(np.random.default_rng(7), ranks=ranks, count=20)
    times[1] = [seconds * 1.2 for seconds in times[1]]
    found = steady_state.straggler(times)
    assert found is not None
    assert found.rank == 1
    assert found.cost == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("ranks", [2, 3, 8, 64])
@pytest.mark.parametrize("deviation", [0.01, 0.05, 0.2])
def test_equal_ranks_have_no_straggler(ranks: int, deviation: float) -> None:
    # At most 5 % by design; three standard errors of that among 200 are 4.6 %. Rounds are correlated by 0.5.
    random = np.random.default_rng(8)
    named = sum(
        steady_state.straggler(rounds(random, ranks=ranks, count=10, deviation=deviation)) is not None
        for _ in range(200)
    )
    assert named <= 0.096 * 200


def test_one_pause_makes_no_straggler() -> None:
    times = rounds(np.random.default_rng(9), ranks=2, count=20)
    times[0][7] *= 20
    assert steady_state.straggler(times) is None


def test_a_rank_that_costs_less_than_two_percent_is_not_named() -> None:
    assert steady_state.straggler([[1.0] * 20, [1.015] * 20]) is None
    found = steady_state.straggler([[1.0] * 20, [1.03] * 20])
    assert isinstance(found, Straggler)
    assert found.cost == pytest.approx(0.03)


@pytest.mark.parametrize(("cost", "is_named"), [(0.0450, False), (0.0460, True)])
def test_a_rank_is_named_where_the_interval_of_its_cost_lies_above_two_percent(cost: float, is_named: bool) -> None:
    # Six rounds, three with 0.02236 more and three with as much less: a standard error of 1 %, t(0.975, 5) = 2.571
    times = [1 + cost + 0.0223607 * side for side in (1, -1) * 3]
    found = steady_state.straggler([[1.0] * 6, times])
    assert (found is not None) is is_named


def test_five_rounds_are_enough() -> None:
    assert steady_state.straggler([[1.0] * 5, [1.03] * 5]) is not None


@pytest.mark.parametrize("times", [[], [[1.0] * 20], [[1.0] * 4, [2.0] * 4], [[], []]])
def test_without_others_or_rounds_there_is_no_straggler(times: list[list[float]]) -> None:
    assert steady_state.straggler(times) is None
