# SPDX-License-Identifier: Apache-2.0
"""`gpubench compare A B`: two benchmarks, or points of one, against each other: ratio, interval, verdict in words.

Points are compared that are equal in everything but the pool, or but what --by names. Must not happen: figures of
different work beside each other; where nothing is comparable, one message says what differs.
"""

from collections.abc import Sequence
from typing import NoReturn

import click

from gpubench import records
from gpubench.analysis import pairs
from gpubench.analysis.pairs import Compared, Side
from gpubench.report import tables
from gpubench.report.document import Reported
from gpubench.stats import compare as statistics
from gpubench.stats import intervals
from gpubench.units import counted
from gpubench_cli import options, results, terminal
from gpubench_cli.terminal import CliError

_EPILOG = f"""\
\b
Fields for --by: {", ".join(pairs.FREE_FIELDS)}

\b
  gpubench compare monday tuesday                the same points on two days, or on two pools
  gpubench compare monday tuesday --by variant   points that differ in pool or variant
  gpubench compare monday --by pool              the pools of one benchmark against its first

Exit codes: 0 compared, 2 nothing is comparable (a sentence says what differs) or bad input.
"""


def _fields(text: str) -> tuple[str, ...]:
    fields = tuple(text.split(","))
    if wrong := [field for field in fields if field not in pairs.FREE_FIELDS]:
        raise click.BadParameter(f"{wrong[0]!r} is none of {', '.join(pairs.FREE_FIELDS)}")
    return fields


@click.command("compare", epilog=_EPILOG)
@click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, help="a GpuBenchmark or a results folder, one or two"
)
@click.option("--by", type=_fields, metavar="FIELD,...", help="what may differ; needed within one benchmark")
@click.option(
    "--tolerance",
    type=options.Number(0, 1, max_open=True),
    default=statistics.TOLERANCE,
    metavar="SHARE",
    help=f"the largest difference that is as good as none; {statistics.TOLERANCE} by default",
)
@options.namespace
@options.output("table", "json")
def compare(
    names: tuple[str, ...], by: tuple[str, ...] | None, tolerance: float, namespace: str | None, output: str
) -> None:
    """Compare two benchmarks (benchmarks of the cluster, or results folders), or points of one benchmark.

    Points are compared that are equal in everything but the pool; a point that both benchmarks have is compared with
    itself. The second of two is B: "B is 12–19 % faster (95 %)".
    """
    free = by or ()
    found = [results.find_reported(name, namespace=namespace) for name in names]
    match [side_of(study) for study in found]:
        case [a]:
            if not free:
                message = f"say with --by in what points of {a.name} differ"
                raise CliError(f"one benchmark is given: name a second one, or {message}")
            b, paired = a, pairs.within(a, by=free)
        case [a, b]:
            if all(getattr(found[0], part) == getattr(found[1], part) for part in ("plan", "ledger", "points")):
                raise CliError(f"{names[0]} and {names[1]} are the same results: name two that were measured apart")
            free = tuple(dict.fromkeys(("pool", *free)))
            paired = pairs.across(a, b, by=free)
        case _:
            raise CliError(f"{len(found)} benchmarks are given, and two are compared: name two, or one with --by")
    if not paired:
        _refuse(a, b, free)
    judged = [pairs.compared(a, b, pair, tolerance=tolerance) for pair in paired]
    differing = [pairs.differing(one.a, one.b, a.environments, b.environments) for one in judged]
    of_a, of_b = found[0], found[-1]
    if output == "json":
        document = {
            "a": {"name": of_a.name, "source": of_a.source},
            "b": {"name": of_b.name, "source": of_b.source},
            "confidence": intervals.CONFIDENCE,
            "tolerance": tolerance,
            "pairs": [
                {**one.to_wire(), "environments": "equal" if sentence is None else sentence}
                for one, sentence in zip(judged, differing, strict=True)
            ],
        }
        terminal.write_document(document)
        return
    for letter, study in zip(("A: ", "B: ") if found[1:] else ("",), found, strict=True):
        terminal.write(f"{letter}{study.name} ({study.source})")
    terminal.write("")
    notes = [f"Of A and B {sentence}." for sentence in dict.fromkeys(differing) if sentence is not None]
    notes += dict.fromkeys(note for one in judged if (note := _beside_the_key(one, of_a, of_b)) is not None)
    terminal.print_table(tables.compared(judged, by=free, notes=[*notes, *_left_out(a, b, judged)]))


def side_of(found: Reported) -> Side:
    """Its points; none before it has begun."""
    if found.plan is None:
        return Side(name=found.name, results=())
    return pairs.of_plan(found.name, found.plan, found.points, found.status.environments)


def _refuse(a: Side, b: Side, by: Sequence[str]) -> NoReturn:
    for side in (a, b):
        if all(pairs.quantity(point) is None for point in side.results):
            raise CliError(f"{side.name} has no measured point to compare: `gpubench show` says how it stands")
    fields = " and ".join(by)
    if a is b:
        raise CliError(f"{a.name} has no two measured points that differ in {fields} only: name other fields with --by")
    raise CliError(
        f"{a.name} and {b.name} have no points that differ in {fields} only: the most alike differ in "
        f"{pairs.nearest(a, b, by=by)}; name what may differ with --by"
    )


def _beside_the_key(one: Compared, a: Reported, b: Reported) -> str | None:
    """What was recorded and is not compared: clocks, power limit, kernel may explain a difference."""
    these = a.ledger.environment_by_key.get(one.a.environment or "")
    those = b.ledger.environment_by_key.get(one.b.environment or "")
    if these is None or those is None:
        return None
    unlike = records.environment_differences(these, those, fields=records.Environment.PROVENANCE)
    return f"What was recorded beside them also differs: {'; '.join(unlike)}." if unlike else None


def _left_out(a: Side, b: Side, judged: Sequence[Compared]) -> list[str]:
    messages = []
    used = {id(point) for one in judged for point in (one.a, one.b)}
    for side in (a, b) if a is not b else (a,):
        rest = [point for point in side.results if id(point) not in used]
        blank = sum(pairs.quantity(point) is None for point in rest)
        if len(rest) > blank:
            messages.append(f"{side.name}: {counted(len(rest) - blank, 'point')} without a counterpart, not compared.")
        if blank:
            messages.append(f"{side.name}: {counted(blank, 'point')} without figures of their own, not compared.")
    return messages
