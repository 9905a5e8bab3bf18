# SPDX-License-Identifier: Apache-2.0
"""How far off the scaling law is, and how often its intervals are right, on published tables with one count left out.

    python tests/benchmarks/scaling_law.py

Nothing is measured: each worker count of each published line is predicted from the line's others
(tests/support/scaling_tables.py). Printed are, for each machine, the relative error of the predicted throughput and the
share of intervals that contain the published one, with the share's own binomial interval; the errors of other laws on
the same counts; and the experience that scaling_law.PUBLISHED is to hold. Counts of one line have points in common, so
the binomial interval is somewhat too narrow.
"""

import sys

import rich.console
import rich.table

import scaling_tables
from gpubench.stats import scaling_law


def main() -> int:
    groups = scaling_tables.groups(scaling_tables.left_out())
    console = rich.console.Console(width=140)
    console.print(own(groups))
    console.print(others(groups))
    learnt = scaling_tables.learnt(scaling_tables.lines())
    print(f"learnt from all lines: {learnt}")
    print(f"in scaling_law:        {scaling_law.PUBLISHED}")
    return 0 if learnt == scaling_law.PUBLISHED else 1


def own(groups: dict[str, list[scaling_tables.LeftOut]]) -> rich.table.Table:
    drawn = rich.table.Table(
        title="One worker count left out, predicted from the others of its line",
        caption="brackets: Clopper and Pearson's 95 % interval of the share; half width: the median, of the estimate",
    )
    drawn.add_column("lines of")
    for heading in ("left out", "median error", "worst error"):
        drawn.add_column(heading, justify="right")
    for level in scaling_tables.LEVELS:
        drawn.add_column(f"in the {level:.0%} interval", justify="right")
        drawn.add_column("half width", justify="right")
    for name, among in groups.items():
        found = scaling_tables.errors(among)
        cells = [f"{len(among)}", f"{scaling_tables.middle(found):.1%}", f"{scaling_tables.worst(found):+.1%}"]
        for level in scaling_tables.LEVELS:
            share = scaling_tables.coverage(among, level)
            low, high = share.interval()
            cells.append(f"{share.hits / share.of:.0%} ({low:.0%}–{high:.0%})")
            cells.append(f"{scaling_tables.middle(scaling_tables.half_widths(among, level)):.1%}")
        drawn.add_row(name, *cells)
    return drawn


def others(groups: dict[str, list[scaling_tables.LeftOut]]) -> rich.table.Table:
    drawn = rich.table.Table(title="Median and worst error of other laws on the same counts")
    drawn.add_column("lines of")
    drawn.add_column("this one", justify="right")
    for law in scaling_tables.OTHER_LAWS:
        drawn.add_column(law, justify="right")
    for name, among in groups.items():
        if name == scaling_tables.FAR:
            continue  # some of these laws say infinity there
        rows = [
            scaling_tables.errors(among),
            *(scaling_tables.errors_of(law, among) for law in scaling_tables.OTHER_LAWS),
        ]
        drawn.add_row(name, *(f"{scaling_tables.middle(one):.1%} {scaling_tables.worst(one):+.0%}" for one in rows))
    return drawn


if __name__ == "__main__":
    sys.exit(main())
