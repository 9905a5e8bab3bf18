# SPDX-License-Identifier: Apache-2.0
"""What follows from what a self-check has measured; nothing is said that its figures do not support."""

import pytest

from gpubench.measure import self_check
from gpubench.measure.self_check import Clock, Found, Gang

CLOCK = Clock(step_nanoseconds=40, reading_nanoseconds=55.0)


def gang(*pairs: tuple[float, float], ranks: int = 1, steps: int = 100) -> Gang:
    """Seconds of the measured and of the bare loop, round by round."""
    return Gang(
        ranks=ranks,
        steps=steps,
        samples=steps * 64 * ranks,
        measured=tuple(pair[0] for pair in pairs),
        bare=tuple(pair[1] for pair in pairs),
        measured_processor=0.5 * len(pairs),
        bare_processor=0.4 * len(pairs),
    )


def test_overhead_is_the_ratio_of_times_with_an_interval_over_rounds() -> None:
    found = self_check.report([CLOCK, gang((1.01, 1.0), (1.02, 1.0), (1.03, 1.0))])
    (overhead,) = found.overhead
    # logarithms 0.00995, 0.01980, 0.02956: mean 0.019770, deviation 0.009805, t(0.975, 2) = 4.3027 -> 0.024357
    assert overhead.time.mean == pytest.approx(1.019967, abs=1e-5)
    assert (overhead.time.low, overhead.time.high) == pytest.approx((0.995424, 1.045115), abs=1e-4)
    assert overhead.sentence == "cannot tell: the interval is 5.0 % wide"
    assert overhead.step_processor_seconds == pytest.approx(0.005)
    assert overhead.bare_step_processor_seconds == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("measured", "sentence"),
    [(1.001, "at most 1 % more time"), (1.05, "more than 1 % more time")],
)
def test_a_narrow_interval_keeps_the_bar_or_breaks_it(measured: float, sentence: str) -> None:
    rounds = [(measured + scatter, 1.0) for scatter in (-0.0001, 0.0, 0.0001)]
    (overhead,) = self_check.report([CLOCK, gang(*rounds)]).overhead
    assert overhead.sentence == sentence


def test_gangs_of_one_size_are_one_row_and_sizes_are_not_mixed() -> None:
    found = self_check.report([CLOCK, gang((2.0, 2.0), ranks=2), gang((1.0, 1.0)), gang((1.0, 1.0))])
    assert [(one.ranks, one.rounds) for one in found.overhead] == [(1, 2), (2, 1)]
    assert found.scatter is not None
    assert found.scatter.processes == 2


def test_scatter_inside_and_between_processes_are_told_apart() -> None:
    # Blocks of 1 and 1.25 s are 6,400 and 5,120 samples/s: deviation 905.1 over 5,760. All processes are equal.
    found = self_check.report([CLOCK, *[gang((1.0, 1.0), (1.25, 1.0))] * 3])
    assert found.scatter is not None
    assert found.scatter.inside == pytest.approx(905.10 / 5760, rel=1e-4)
    assert found.scatter.between is not None
    assert found.scatter.between.mean == pytest.approx(0, abs=1e-12)


def test_the_smallest_difference_needs_three_processes() -> None:
    processes: list[Found] = [gang((second, second)) for second in (0.99, 1.0, 1.01)]
    assert self_check.report([CLOCK, *processes[:2]]).smallest == ()
    smallest = self_check.report([CLOCK, *processes]).smallest
    assert [one.repeats for one in smallest] == list(self_check.REPEATS)
    # the speeds scatter by 1 %: t(0.975, 4) sqrt(2 / 3) times that
    assert smallest[0].difference == pytest.approx(2.7764 * 0.01 * (2 / 3) ** 0.5, rel=1e-3)
    assert [one.difference for one in smallest] == sorted((one.difference for one in smallest), reverse=True)
    assert all(one.at_most is not None and one.at_most > one.difference for one in smallest)


def test_one_rank_that_was_never_run_alone_tells_no_scatter() -> None:
    found = self_check.report([CLOCK, gang((1.0, 1.0), ranks=2)])
    assert (found.scatter, found.smallest) == (None, ())


def test_what_was_found_travels_as_lines() -> None:
    for one in (CLOCK, gang((1.0, 1.1))):
        assert self_check.read(one.to_json()) == one
