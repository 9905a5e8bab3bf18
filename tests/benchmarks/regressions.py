# SPDX-License-Identifier: Apache-2.0
"""How often a schedule finds that its study became slower, dates it right, and raises a false alarm.

    python tests/benchmarks/regressions.py [--histories 1000] [--seed 1]

Nothing is measured: histories of 20 runs are drawn, each run's speed with 2 % noise, and judged after every run by
`schedule.history`, as an operator judges them. In half of the tables the speed falls by a share from run 12 on. A
regression counts as found when it is reported after run 12, 13 or 14, for the first time, and dated to run 11, 12 or
13. A false alarm is any regression in a history without a change, after any of its 20 runs. In brackets Clopper and
Pearson's 95 % interval of each share. Which noise a machine has nobody knows beforehand: beside the normal one, for
which the test is made, stand one with wide tails and one without any.
"""

import argparse
import sys

import rich.console
import rich.table

import histories
from scaling_tables import Share

FOUND_MIN = 0.95
ALARMS_MAX = 0.05
SLOWDOWNS = (0.05, 0.07, 0.10, 0.15)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--histories", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    found = {
        (noise, slowdown): of_slowdown(options.histories, options.seed, noise=noise, slowdown=slowdown)
        for noise in histories.NOISES
        for slowdown in (SLOWDOWNS if noise == "normal" else (histories.SLOWDOWN,))
    }
    alarms = {
        (noise, points): of_nothing(options.histories // points, options.seed, noise=noise, points=points)
        for noise in histories.NOISES
        for points in ((1, 10) if noise == "normal" else (1,))
    }
    console = rich.console.Console(width=120)
    drawn = rich.table.Table("noise", "slowdown", "found by run 14 and dated within 1 run", title="Regressions")
    for (noise, slowdown), share in found.items():
        drawn.add_row(noise, f"{slowdown:.0%}", text(share))
    console.print(drawn)
    drawn = rich.table.Table("noise", "points", "histories with an alarm", title="False alarms in 20 runs")
    for (noise, points), share in alarms.items():
        drawn.add_row(noise, str(points), text(share))
    console.print(drawn)
    asked, quiet = found["normal", histories.SLOWDOWN], alarms["normal", 1]
    kept = asked.hits / asked.of >= FOUND_MIN and quiet.hits / quiet.of <= ALARMS_MAX
    print(f"asked for: at least {FOUND_MIN:.0%} found at 10 %, at most {ALARMS_MAX:.0%} false alarms: {kept}")
    return 0 if kept else 1


def of_slowdown(count: int, seed: int, *, noise: str, slowdown: float) -> Share:
    outcomes = histories.outcomes(count, seed=seed, slowdown=slowdown, noise=noise, until=histories.FOUND_BY)
    return Share(sum(map(histories.is_right, outcomes)), count)


def of_nothing(count: int, seed: int, *, noise: str, points: int) -> Share:
    outcomes = histories.outcomes(count, seed=seed + 1_000_000, slowdown=0.0, noise=noise, points=points)
    return Share(sum(found.at is not None for found in outcomes), count)


def text(share: Share) -> str:
    low, high = share.interval()
    return f"{share.hits}/{share.of}  {share.hits / share.of:.1%} ({low:.1%}–{high:.1%})"


if __name__ == "__main__":
    sys.exit(main())
