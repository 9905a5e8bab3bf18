# SPDX-License-Identifier: Apache-2.0
"""`gpubench compare A B`: two benchmarks against each other, point by point: ratio, interval, verdict in words.

Points are compared that are equal in everything but the pool. Must not happen: figures of different work beside each
other; where nothing is comparable, one message says what differs.
"""

from collections.abc import Sequence
from typing import NoReturn

import click

from gpubench.analysis import pairs
from gpubench.report import tables
from gpubench.report.document import Reported
from gpubench.stats import compare as statistics
from gpubench.stats import intervals
from gpubench.units import counted
from gpubench_cli import options, results, terminal

_EPILOG = "Exit codes: 0 compared, 2 nothing is comparable (a sentence says what differs) or bad input."


@click.command("compare", epilog=_EPILOG)
@click.argument("first", metavar="A", help="a GpuBenchmark, or a results folder")
@click.argument("second", metavar="B", help="what is held against it")
@click.option(
    "--tolerance",
    type=options.Number(0, 1, max_open=True),
    default=statistics.TOLERANCE,
    metavar="SHARE",
    help=f"the largest difference that is as good as none; {statistics.TOLERANCE} by default",
)
@options.cluster
@options.output("table", "wide", "json")
@options.view
def compare(
    *, first: str, second: str, tolerance: float, namespace: str | None, output: str, view: terminal.View
) -> None:
    """Compare two benchmarks (benchmarks of the cluster, or results folders).

    Points are compared that are equal in everything but the pool; a point that both benchmarks have is compared with
    itself. The second is B: "B is 12–19 % faster (95 %)".
    """
    of_a, of_b = (results.find_reported(name, namespace=namespace) for name in (first, second))
    if all(getattr(of_a, part) == getattr(of_b, part) for part in ("plan", "ledger", "points")):
        raise terminal.CliError(f"{first} and {second} are the same results: name two that were measured apart")
    a, b = side_of(of_a), side_of(of_b)
    if not (paired := pairs.across(a, b)):
        _refuse(a, b)
    judged = [pairs.compared(a, b, pair, tolerance=tolerance) for pair in paired]
    differing = [pairs.differing(one.a, one.b, a.environments, b.environments) for one in judged]
    if output == "json":
        terminal.write_document(
            {
                "a": {"name": of_a.name, "source": of_a.source},
                "b": {"name": of_b.name, "source": of_b.source},
                "confidence": intervals.CONFIDENCE,
                "tolerance": tolerance,
                "pairs": [
                    {**one.to_wire(), "environments": "equal" if sentence is None else sentence}
                    for one, sentence in zip(judged, differing, strict=True)
                ],
            }
        )
        return
    terminal.say(f"A: {of_a.name} ({_source(of_a)})")
    terminal.say(f"B: {of_b.name} ({_source(of_b)})")
    terminal.write("")
    notes = [f"Of A and B {sentence}." for sentence in dict.fromkeys(differing) if sentence is not None]
    found = tables.compared(judged, notes=[*notes, *_left_out(a, b, judged)])
    terminal.print_table(view.of(found), wide=view.wide)


def _source(found: Reported) -> str:  # where it is and, of an import, whose figures it has
    imported = found.plan.imported if found.plan is not None else None
    return found.source if imported is None else f"{found.source}, imported from {imported.origin}"


def side_of(found: Reported) -> pairs.Side:
    """Its points; none before it has begun."""
    if found.plan is None:
        return pairs.Side(name=found.name, results=())
    return pairs.of_plan(found.name, found.plan, found.points, found.status.environments)


def _refuse(a: pairs.Side, b: pairs.Side) -> NoReturn:
    for side in (a, b):
        if all(pairs.quantity(point) is None for point in side.results):
            raise terminal.CliError(f"{side.name} has no measured point to compare: `gpubench show` says how it stands")
    raise terminal.CliError(
        f"{a.name} and {b.name} have no points that differ in the pool only: the most alike differ in "
        f"{pairs.nearest(a, b)}"
    )


def _left_out(a: pairs.Side, b: pairs.Side, judged: Sequence[pairs.Compared]) -> list[str]:
    used = {id(point) for one in judged for point in (one.a, one.b)}
    left = [(side.name, sum(id(point) not in used for point in side.results)) for side in (a, b)]
    return [f"{name}: {counted(n, 'point')} without a counterpart or figures, not compared." for name, n in left if n]
