# SPDX-License-Identifier: Apache-2.0
"""Verdicts about two points: what the interval supports, in words, and never more. Figures are computed by hand."""

import math
from collections.abc import Sequence
from typing import Any

import pytest

from gpubench.stats import compare, intervals
from gpubench.stats.compare import Difference, Quantity
from gpubench.values import Interval

# Means 100 and 115, both with a standard deviation of 1: Welch's degrees of freedom are 3.92, t(0.975, 3.92) = 2.80.
SLOW, FAST = (99.0, 100.0, 101.0), (114.0, 115.0, 116.0)


def difference(b: Sequence[float], a: Sequence[float], **fields: Any) -> Difference:
    return compare.difference(intervals.of_values(b), intervals.of_values(a), **fields)


def interval(low: float | None, high: float | None, mean: float = 10.0) -> Interval:
    return Interval(mean=mean, low=low, high=high)


@pytest.mark.parametrize(
    ("best", "other", "standing"),
    [
        (interval(9.0, 10.5), interval(10.6, 12.0), "Better"),
        (interval(9.0, 10.5), interval(10.5, 12.0), "Tie"),
        (interval(9.0, 10.5), interval(8.0, 20.0), "Tie"),
        (interval(9.0, None), interval(10.6, 12.0), "CannotTell"),
        (interval(9.0, 10.5), interval(None, 12.0), "CannotTell"),
    ],
)
def test_the_best_is_better_where_no_bound_of_another_reaches_it(
    best: Interval, other: Interval, standing: str
) -> None:
    assert compare.standing(best, other) == standing


def test_figures_of_the_same_runs_differ_by_their_prices_alone() -> None:
    best = interval(9.0, 11.0, mean=10.0)
    assert compare.standing(best, interval(9.1, 11.1, mean=10.1), same_runs=True) == "Better"
    assert compare.standing(best, best, same_runs=True) == "Tie"
    assert compare.standing(interval(None, None), interval(None, None, mean=11.0), same_runs=True) == "Better"


def test_a_faster_point_is_called_faster_by_what_the_interval_spans() -> None:
    # Fieller: (1.15 -+ 2.80 / 100 sqrt(1/3 + 1.15^2 / 3)) over 1 - 0.0003, that is 1.126 to 1.175
    found = difference(FAST, SLOW)
    assert found.verdict == "Faster"
    assert found.sentence == "B is 12–18 % faster (95 %)"
    assert (found.ratio.low, found.ratio.mean, found.ratio.high) == pytest.approx((1.1257, 1.15, 1.1749), abs=2e-4)


def test_the_other_way_round_it_is_slower_by_the_reciprocal() -> None:
    found = difference(SLOW, FAST)
    assert found.verdict == "Slower"
    assert found.sentence == "B is 11–15 % slower (95 %)"  # 1 / 1.1749 is 0.851, 1 / 1.1257 is 0.888
    assert found.ratio.low == pytest.approx(1 / 1.1749, abs=2e-4)


def test_of_seconds_less_is_faster() -> None:
    found = difference(SLOW, FAST, quantity=Quantity.SECONDS)
    assert found == difference(FAST, SLOW)


def test_far_apart_is_said_in_times() -> None:
    found = difference([400.0, 404.0, 396.0], [100.0, 101.0, 99.0])
    # half width: t(0.975, 4) 4 sqrt(0.01^2 / 3 + 0.01^2 / 3) = 2.776 x 0.03266 = 0.0907: 3.910 to 4.092
    assert found.sentence == "B is 3.91–4.10 times as fast (95 %)"


def test_close_together_is_no_difference_larger_than_the_interval_reaches() -> None:
    # Standard deviations 0.2 and 0.1, freedom 2.94, t = 3.22: half width 3.22 sqrt(0.05 / 3) / 100 = 0.415 %
    found = difference([100.1, 99.9, 100.0], [100.0, 100.2, 99.8])
    assert found.verdict == "Equal"
    assert found.sentence == "no difference larger than 0.42 % (95 %)"


def test_what_counts_as_none_is_the_callers_to_say() -> None:
    found = difference([100.1, 99.9, 100.0], [100.0, 100.2, 99.8], tolerance=0.004)
    assert found.verdict == "CannotTell"
    assert found.sentence.startswith("cannot tell: between 0.5 % slower and 0.5 % faster; ")  # 0.42 %, rounded up


@pytest.mark.parametrize(
    ("mean", "deviation", "sentence"),
    [
        (1.113, 0.001, "B is 11.0–11.6 % faster (95 %)"),  # 11.05 to 11.55: less than two whole percent apart
        (1.1245, 0.0045, "B is 11–14 % faster (95 %)"),  # 11.36 to 13.55: more than two
        (1.22, 0.004, "B is 20–24 % faster (95 %)"),  # 20.98 to 23.03
        (0.4, 0.004, "B is 59.1–60.9 % slower (95 %)"),
        (1.98, 0.01, "B is 93–103 % faster (95 %)"),  # 1.939 to 2.022 times: the lower end decides
    ],
)
def test_percentages_are_rounded_outwards_to_places_that_tell_the_ends_apart(
    mean: float, deviation: float, sentence: str
) -> None:
    b, a = ([100 * (of + step * deviation) for step in (-1, 0, 1)] for of in (mean, 1.0))
    found = difference(b, a)
    assert found.sentence == sentence


@pytest.mark.parametrize(("share", "text"), [(0.0, "0 %"), (0.012, "1.2 %"), (0.0995, "10.0 %"), (0.5, "50 %")])
def test_a_share_has_two_digits(share: float, text: str) -> None:
    assert compare.percent(share) == text


def test_a_tie_is_a_tie() -> None:
    # Both 1 %, freedom 4: 2.776 sqrt(2e-4 / 3) = 2.27 %, and Fieller's interval is wider by less than a thousandth.
    found = difference(SLOW, SLOW, tolerance=0.03)
    assert (found.verdict, found.sentence) == ("Equal", "no difference larger than 2.3 % (95 %)")


@pytest.mark.parametrize(
    ("b", "a", "equal"),
    [
        ([0.1] * 3, [0.2] * 3, "all 3 of A and all 3 of B"),
        ([60.0] * 4, SLOW, "all 4 of B"),
        (SLOW, [7.0] * 3, "all 3 of A"),
    ],
)
@pytest.mark.parametrize("quantity", Quantity)
def test_equal_repeats_are_no_certainty(b: Sequence[float], a: Sequence[float], equal: str, quantity: Quantity) -> None:
    found = difference(b, a, quantity=quantity)
    assert (found.verdict, found.ratio.low, found.ratio.high) == ("CannotTell", None, None)
    assert found.sentence == (
        f"cannot tell: {equal} are equal, and how they scatter is not known: time it more finely, or let it run longer"
    )
    ratio = compare.speed_ratio(intervals.of_values(b), intervals.of_values(a), quantity=quantity)
    assert compare.is_as_fast(ratio, tolerance=0.5) is None
    assert ratio.mean == found.ratio.mean


def test_the_equality_of_repeats_is_also_found_behind_their_interval() -> None:
    interval = intervals.of_mean([0.1] * 3)
    found = intervals.of_interval(interval, 3)
    assert not found.scatters
    assert not intervals.of_values([0.1] * 3).scatters
    assert intervals.of_values([60.0, 60.0, 60.0 + 1e-9]).scatters


def test_a_small_and_certain_difference_never_looks_like_none() -> None:
    # 0.3 % apart, with 0.1 % at least: half width about 2.78 x 0.1 % x sqrt(2 / 3) = 0.23 %
    found = difference([100.29, 100.30, 100.31], [99.99, 100.0, 100.01])
    assert found.sentence == "B is 0.07–0.53 % faster (95 %)"


@pytest.mark.parametrize("tolerance", [0.0005, 0.02])
def test_a_difference_below_what_repeats_can_show_is_none(tolerance: float) -> None:
    # Ten repeats each, with 0.1 % at least: half width 2.10 x 0.1 % x sqrt(2 / 10) = 0.094 %
    values = [100.0, 100.0 + 3e-10] * 5
    found = difference([value + 0.09 for value in values], values, tolerance=tolerance)
    assert found.verdict == ("Equal" if tolerance > 0.0019 else "CannotTell")
    assert difference([value + 0.1 for value in values], values, tolerance=tolerance).verdict == "Faster"


def test_what_cannot_be_told_says_how_far_it_may_be_and_what_would_help() -> None:
    # r = 1.02, each 1 %: h(0) = 2.776 sqrt(2.04e-4 / 3) = 2.3 %, so 1 is inside; h(1) = 2.447 sqrt(2.04e-4 / 4) = 1.7 %
    found = difference([101.0, 102.0, 103.0], [99.0, 100.0, 101.0])
    assert found.verdict == "CannotTell"
    assert found.more_repeats == 1
    assert found.sentence == "cannot tell: between 1 % slower and 5 % faster; about 1 more repeat of each would"


def test_equal_means_need_repeats_until_the_interval_fits_the_tolerance() -> None:
    # r = 1, each 2 %: t(2 n - 2) 0.02 sqrt(2 / n) <= ln(1.02) from n = 10 on: t(18) = 2.101, 2.101 x 0.447 = 0.940
    values = [98.0, 100.0, 102.0]
    assert compare.more_repeats(intervals.of_values(values), intervals.of_values(values)) == 7


def test_a_wider_tolerance_needs_fewer_repeats() -> None:
    # As above: t(8) = 2.306, 2.306 x 2 % x sqrt(2 / 5) = 2.92 % <= ln(1.03) = 2.96 %, where of four it is 3.46 %
    found = difference([98.0, 100.0, 102.0], [98.0, 100.0, 102.0], tolerance=0.03)
    assert found.more_repeats == 2
    assert found.sentence == "cannot tell: between 5 % slower and 5 % faster; about 2 more repeats of each would"


def test_the_last_number_of_repeats_that_is_named_is_a_hundred() -> None:
    # r = 1, each v: t(204) v sqrt(2 / 103) <= ln(1.02) asks for v <= 0.07198, and with t(202) and 102 for 0.07163
    def more(v: float) -> int | None:
        sample = intervals.of_values([100 - 100 * v, 100.0, 100 + 100 * v])
        return compare.more_repeats(sample, sample)

    assert (more(0.0715), more(0.0718), more(0.0722)) == (99, 100, None)


def test_repeats_that_tell_need_at_least_one_more_to_tell_again() -> None:
    assert compare.more_repeats(intervals.of_values(FAST), intervals.of_values(SLOW)) == 1


def test_noise_that_no_repeats_will_overcome_is_called_so() -> None:
    # r = 1.01, each 4 %: t 0.0569 / sqrt(n) < 0.01 asks for n = 126
    found = difference([97.0, 101.0, 105.0], [96.0, 100.0, 104.0])
    assert found.more_repeats is None
    assert found.sentence == (
        "cannot tell: between 8 % slower and 11 % faster; not even 100 more repeats of each probably would: look for "
        "the cause of the noise"
    )


@pytest.mark.parametrize(
    ("b", "a", "few"),
    [((1.0, 1.1), SLOW, "B has 2"), (FAST, (1.0,), "A has 1"), ((1.0,), (1.0, 2.0), "A has 2 and B has 1")],
)
def test_fewer_than_three_repeats_tell_nothing(b: tuple[float, ...], a: tuple[float, ...], few: str) -> None:
    found = difference(b, a)
    assert found.sentence == f"cannot tell: an interval needs 3 repeats, and {few}"
    assert (found.verdict, found.ratio.low, found.more_repeats) == ("CannotTell", None, None)


def test_what_may_be_many_times_as_fast_or_slow_is_told_in_times() -> None:
    found = difference([1.0, 1.0, 1.1], [0.1, 9.0, 0.2])
    assert found.verdict == "CannotTell"
    assert found.sentence.startswith("cannot tell: between 0.0056 and 20 times as fast; about ")


def test_what_is_far_from_known_in_both_directions_is_said_in_whole_percent() -> None:
    # r = 1, variations 30 and 20 %, freedom 3.49, t = 2.95: exp(-+2.95 sqrt(0.13 / 3)) is 0.5416 to 1.847
    found = difference([70.0, 100.0, 130.0], [80.0, 100.0, 120.0])
    assert found.sentence.startswith("cannot tell: between 46 % slower and 85 % faster; ")


def test_an_expected_half_width_is_none_below_three_repeats() -> None:
    # t(0.975, 2) 0.01 / sqrt(3) = 4.303 x 0.005774 = 0.02484
    assert [intervals.half_width(0.01, count) for count in (1, 2)] == [math.inf] * 2
    assert intervals.half_width(0.01, 3) == pytest.approx(math.expm1(0.02484), abs=1e-5)


def test_a_sample_is_found_again_behind_its_interval() -> None:
    for values in (SLOW, (7.0, 9.0, 11.0, 8.0)):
        sample = intervals.of_values(values, confidence=0.98)
        interval = intervals.of_mean(values, 0.98)
        estimate = Interval(mean=interval.mean, low=0.0, high=interval.high)
        found = intervals.of_interval(estimate, len(values), confidence=0.98)
        assert found.deviation == pytest.approx(sample.deviation)
        assert (found.count, found.mean, found.confidence) == (sample.count, sample.mean, 0.98)


def test_repeats_that_were_added_as_needed_have_a_wider_interval() -> None:
    plain = compare.speed_ratio(intervals.of_values(FAST), intervals.of_values(SLOW))
    strict = compare.speed_ratio(intervals.of_values(FAST, confidence=0.98), intervals.of_values(SLOW))
    assert plain == intervals.of_ratio(FAST, SLOW)
    assert strict == intervals.of_ratio(FAST, SLOW, 0.98)
    assert strict.low is not None
    assert plain.low is not None
    assert strict.low < plain.low


@pytest.mark.parametrize(
    ("low", "high", "judgement"),
    [
        (0.951, 1.2, True),
        (0.80, 0.949, False),
        (0.94, 0.96, None),
        (0.95, 1.0, None),  # on the bound is not above it
        (None, None, None),
    ],
)
def test_a_bound_is_kept_by_all_of_the_interval_or_broken_by_all_of_it(
    low: float | None, high: float | None, judgement: bool | None
) -> None:
    assert compare.is_as_fast(Interval(mean=0.95, low=low, high=high), tolerance=0.05) is judgement
