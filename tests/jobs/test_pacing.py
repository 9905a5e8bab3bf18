# SPDX-License-Identifier: Apache-2.0
"""Steps per window and windows per run."""

import pytest

from gpubench_jobs.worker import pacing


@pytest.mark.parametrize("step_seconds", [1e-4, 2e-3, 0.05, 0.4, 3.0, 40.0])
def test_calibration_settles_soon_on_windows_of_the_wanted_length(step_seconds: float) -> None:
    trial, calls, spent, longest = pacing.Trial(steps=1), 0, 0.0, 0.0
    while not trial.settled:
        seconds = trial.steps * step_seconds
        calls, spent, longest = calls + 1, spent + seconds, max(longest, seconds)
        trial = pacing.next_trial(trial, seconds=seconds, window_seconds=1.0)
    assert trial.steps == max(1, round(1.0 / step_seconds))
    assert calls <= 6
    assert spent <= max(2.0, step_seconds)
    assert longest <= max(1.6, step_seconds)  # 8 times 0.2 of a window: far below three, where a stall is called


@pytest.mark.parametrize(
    ("seconds", "window", "at_least", "windows"),
    [(10.0, 1.0, 5, 10), (10.0, 3.0, 5, 5), (0.5, 1.0, 1, 1), (-0.1, 1.0, 0, 0), (-0.1, 1.0, 2, 2), (0.1, 1.0, -7, 1)],
)
def test_windows_cover_the_time_and_the_least_number(
    seconds: float, window: float, at_least: int, windows: int
) -> None:
    assert pacing.windows_for(seconds, window_seconds=window, at_least=at_least) == windows


def test_it_is_looked_at_when_there_are_enough_windows_and_then_after_a_quarter_more() -> None:
    found = [pacing.until_look(60, measured=measured) for measured in (0, 3, 4, 5, 7, 8, 40)]
    assert found == [5, 2, 1, 1, 1, 2, 10]
    assert pacing.until_look(3, measured=40) == 3
