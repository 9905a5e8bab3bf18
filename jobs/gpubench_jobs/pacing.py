# SPDX-License-Identifier: Apache-2.0
"""How many steps make a window, and how many windows make a run. Pure: rank 0 decides, all ranks obey.

Every rank must run exactly the same windows, or the gang hangs in a collective; so a decision is made once, sent to
all, and only between windows, where its cost is not measured.
"""

import math
from dataclasses import dataclass

#: Fewer windows say nothing about their spread.
WINDOWS_MIN = 5
#: A trial call must last this share of a window before its length is believed: short ones measure the call.
_TRUSTED_SHARE = 0.2
_GROWTH = 8
_STEPS_MAX = 1_000_000
#: A step shorter than this gains from being written out several times, see `train.Loop`.
_SHORT_STEP_SECONDS = 0.02
_STEPS_PER_TURN_MAX = 10
#: What writing out may cost: this share of the measured time, in tracing and compiling.
_TRACING_SHARE = 1 / 6


@dataclass(frozen=True)
class Trial:
    """A call of so many steps, to learn how long a step takes; `settled` when `steps` is the answer."""

    steps: int
    settled: bool = False


@dataclass(frozen=True)
class Plan:
    """Windows to run back to back."""

    first: int  # index of the first of them
    windows: int
    steps: int  # in each window
    warm_up: bool


def next_trial(trial: Trial, *, seconds: float, window_seconds: float) -> Trial:
    """After a trial call of that duration: a longer call, or the steps that fill a window."""
    if seconds >= _TRUSTED_SHARE * window_seconds or trial.steps >= _STEPS_MAX:
        return Trial(steps=steps_for(window_seconds, seconds / trial.steps), settled=True)
    return Trial(steps=min(_STEPS_MAX, trial.steps * _GROWTH))


def steps_for(window_seconds: float, step_seconds: float) -> int:
    """Steps that last about as long as a window should; a window holds at least one."""
    return max(1, min(_STEPS_MAX, round(window_seconds / step_seconds)))


def steps_per_turn(step_seconds: float, *, first_step_seconds: float, measure_seconds: float) -> int:
    """Steps to write out in each turn of the loop: one, or as many as can be traced in reasonable time.

    `first_step_seconds` is what tracing and compiling one step took.
    """
    if step_seconds >= _SHORT_STEP_SECONDS:
        return 1
    affordable = int(measure_seconds * _TRACING_SHARE / first_step_seconds)
    return max(1, min(_STEPS_PER_TURN_MAX, affordable))


def windows_for(seconds: float, *, window_seconds: float, at_least: int) -> int:
    """Windows of such a length that cover so much time; none when neither time nor windows are wanting."""
    return max(0, at_least, math.ceil(seconds / window_seconds))
