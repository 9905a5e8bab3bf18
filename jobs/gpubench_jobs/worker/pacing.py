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
_SHORT_STEP_SECONDS = 0.05
_STEPS_PER_TURN_MAX = 10
#: What writing out may cost: this share of the measured time, in tracing and compiling.
_TRACING_SHARE = 1 / 6
#: Looks at whether the windows are enough: a collective each, after a fourth more windows than there were at the last.
_LOOK_SHARE = 4
#: Timing how fast each rank computes: its rounds take so much of the measured time and no longer than so, on both sides
#: of it. Tracing takes as long as the first step did at most; that may take so much.
_PROBE_SHARE, _PROBE_SECONDS_MAX = 0.1, 20.0
_PROBE_TRACING_SHARE = 1 / 3
#: Long enough for some of the scheduler's turns.
PROBE_ROUND_SECONDS = 0.2
_PROBE_ROUNDS_MIN, _PROBE_ROUNDS_MAX = 4, 8


@dataclass(frozen=True)
class Trial:
    """A call of so many steps, to learn how long a step takes; `settled` when `steps` is the answer."""

    steps: int
    settled: bool = False


@dataclass(frozen=True)
class Probe:
    """How often each rank's computing is timed, before the measured windows and as often after them."""

    rounds: int  # none where it would take too long
    steps: int  # in each round


NO_PROBE = Probe(rounds=0, steps=0)


def next_trial(trial: Trial, *, seconds: float, window_seconds: float) -> Trial:
    """After a trial call of that duration: a longer call, or the steps that fill a window."""
    if seconds >= _TRUSTED_SHARE * window_seconds or trial.steps >= _STEPS_MAX:
        return Trial(steps=steps_for(window_seconds, seconds / trial.steps), settled=True)
    return Trial(steps=min(_STEPS_MAX, trial.steps * _GROWTH))


def steps_for(window_seconds: float, step_seconds: float) -> int:
    """Steps that last about as long as a window should; a window holds at least one."""
    return max(1, min(_STEPS_MAX, round(window_seconds / step_seconds)))


def steps_per_turn(step_seconds: float, *, first_step_seconds: float, measure_seconds: float) -> int:
    """Steps to write out in each turn of the loop: as many as can be traced in time, `first_step_seconds` each."""
    if step_seconds >= _SHORT_STEP_SECONDS:
        return 1
    return max(1, min(_STEPS_PER_TURN_MAX, int(measure_seconds * _TRACING_SHARE / first_step_seconds)))


def windows_for(seconds: float, *, window_seconds: float, at_least: int) -> int:
    """Windows of such a length that cover so much time; none when neither time nor windows are wanting."""
    return max(0, at_least, math.ceil(seconds / window_seconds))


def until_look(windows: int, *, measured: int) -> int:
    """So many of the windows that are wanting until it is looked at whether those measured are enough."""
    return min(windows, max(WINDOWS_MIN - measured, measured // _LOOK_SHARE))


def probe_seconds(*, step_seconds: float, first_step_seconds: float, measured_seconds: float) -> float:
    """What the rounds on each side of the windows may take; 0 where tracing alone, or a single step, takes too long."""
    side_seconds = min(_PROBE_SHARE * measured_seconds, _PROBE_SECONDS_MAX) / 2
    fits = step_seconds <= side_seconds and first_step_seconds <= _PROBE_TRACING_SHARE * measured_seconds
    return side_seconds if fits else 0.0


def probe(side_seconds: float, *, step_seconds: float) -> Probe:
    """Rounds that fit; `step_seconds` is that of computing alone, which a step of the gang may be far from."""
    longest = max(PROBE_ROUND_SECONDS, step_seconds)
    rounds = max(_PROBE_ROUNDS_MIN, min(_PROBE_ROUNDS_MAX, math.floor(side_seconds / longest)))
    steps = math.floor(min(longest, side_seconds / rounds) / step_seconds)
    return Probe(rounds=rounds, steps=steps) if steps else NO_PROBE
