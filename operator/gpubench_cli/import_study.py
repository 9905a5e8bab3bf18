# SPDX-License-Identifier: Apache-2.0
"""`gpubench import FILE.yaml MEASUREMENTS.csv`: figures that were measured elsewhere, as a results folder.

A publication's figures, or those of a benchmark from before gpubench, become results of basis Imported: `show`,
`compare`, `verify` and all that reads results folders reads them, and none of them is taken for a measured one.

    # publisher: Who measured
    # source: where it can be read
    # published: 2018-02
    # Any other line that begins with # is for people.
    pool,workers,repeat,samples_per_second
    old-box,1,1,273
    old-box,1,2,271.5

The first row names the columns. A row names as many fields of a point as tell it apart from the others; a field that it
leaves empty may be anything. Where it names a variant that the benchmark file does not have, the point is added: what
was measured there has no counterpart here (another framework, say), and is shown all the same.

Must not happen: a folder that does not say whose figures it has; a column that nobody knows, a cell without one, or a
row is passed over, or given to a point that it may not mean.
"""

import csv
import io
import re
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import ValidationError

from gpubench.analysis import analyze
from gpubench.analysis import status as statuses
from gpubench.api.benchmark import POINTS_MAX
from gpubench.api.measuring import Mode
from gpubench.plan import estimate, expand
from gpubench.plan.plan import AddedPoint, Imported, ImportedPoint, ImportedRun, ImportedSpeed, Plan, Point
from gpubench.scheduler import account, ledger, observed, step
from gpubench.units import rfc3339
from gpubench_cli import documents, mlperf, options, results, show, terminal
from gpubench_cli.terminal import CliError

# --- rows of a file ---------------------------------------------------------------------------------------------------


#: What the comments above the rows say of all of them.
HEADINGS = ("publisher", "source", "published")
#: What tells points apart.
KEY = (
    "workload", "pool", "workers", "workers_per_node", "batch_per_worker", "global_batch", "precision", "data",
    "variant",
)  # fmt: skip
_OF_TRAINING = (
    "seconds", "evaluated_every_seconds", "first_epoch_seconds", "evaluation_seconds", "training_loss",
    "evaluation_loss", "accuracy",
)  # fmt: skip
#: Figures of one repeat.
OF_A_RUN = ("samples_per_second", "hours", *_OF_TRAINING, "gpu_utilization")
#: Figures of a point.
OF_A_POINT = ("efficiency", "times_as_fast", "as_pool", "extrapolated", "note")
COLUMNS = (*KEY, "repeat", *OF_A_RUN, *OF_A_POINT)
_SECONDS_PER_HOUR = 3600
_SAMPLES_LEAST = Decimal("0.8")  # of those of a run, at its published rate: rates are rounded, or of other steps
_DIGITS_MAX = 6  # of a repeat's number
_SECONDS, _SHARE = ("0.001", "1e9", ""), ("0", "1", ", such as 0.82 for 82 %")
#: The least and the most that a number can be, and what is often meant beyond it.
_BOUNDS = {
    "samples_per_second": ("1e-6", "1e12", ""),
    "hours": ("1e-6", "1e6", ""),
    **dict.fromkeys(("seconds", "evaluated_every_seconds", "first_epoch_seconds"), _SECONDS),
    "evaluation_seconds": ("0", "1e9", ""),
    **dict.fromkeys(("training_loss", "evaluation_loss"), ("0", "1e12", "")),
    **dict.fromkeys(("accuracy", "gpu_utilization"), _SHARE),
    "efficiency": ("0.0001", "1.5", ", such as 0.94 for 94 %"),
    "times_as_fast": ("1e-6", "1e6", ""),
}


#: What other programs put between cells.
_SEPARATORS = {";": "semicolon", "\t": "tab", "|": "bar"}


class Row(NamedTuple):
    """One row: where it is, for messages, and its cells that are not empty, by column."""

    place: str
    cells: Mapping[str, str]


def read_rows(path: Path) -> tuple[dict[str, str], list[Row]]:
    """What the comments of a file say by their heading, and its rows."""
    headings: dict[str, str] = {}
    lines = io.StringIO(documents.file_text(path, encoding="utf-8-sig"))
    begins = True  # not inside a quoted cell, which may have any lines

    def without_comments() -> Iterator[str]:
        """As many lines as there are; what comments say goes to the headings."""
        nonlocal begins
        for line in lines:
            if begins and line.startswith("#"):
                name, _, said = line.lstrip("# ").partition(":")
                headings.setdefault(name.strip().lower(), said.strip())
                yield "\n"
            else:
                begins = False
                yield line

    reader = csv.reader(without_comments(), strict=True)
    rows: list[tuple[str, list[str]]] = []
    try:
        for cells in reader:
            begins = True
            if any(stripped := [cell.strip() for cell in cells]):
                rows.append((f"{path}:{reader.line_num}", stripped))
    except csv.Error as error:
        raise CliError(f"{path}:{reader.line_num}: it cannot be read as CSV: {error}") from error
    if not rows:
        raise CliError(f"{path}: there are no rows: the first one names the columns ({', '.join(COLUMNS)})")
    (place, titles), *rows = rows
    if separators := [name for sign, name in _SEPARATORS.items() if sign in "".join(titles)]:
        raise CliError(f"{place}: a {separators[0]} is between the columns: save the file with commas")
    if unknown := [title for title in titles if title not in COLUMNS]:
        raise CliError(f"{place}: {unknown[0]!r} is no column of this file: it may have {', '.join(COLUMNS)}")
    if twice := [title for number, title in enumerate(titles) if title in titles[:number]]:
        raise CliError(f"{place}: the column {twice[0]} is there twice: remove one of both")
    for place, cells in rows:
        if len(cells) > len(titles):
            raise CliError(f"{place}: it has {len(cells)} cells, and the first row names {len(titles)} columns")
    return headings, [
        Row(place, {title: cell for title, cell in zip(titles, cells, strict=False) if cell}) for place, cells in rows
    ]


# --- what rows say of points ------------------------------------------------------------------------------------------


def imported(plan: Plan, measurements: Path) -> Imported:
    """Everything that the file says of the points of a benchmark. `plan` is the benchmark's, as it would be run."""
    headings, rows = read_rows(measurements)
    if missing := [name for name in HEADINGS if not headings.get(name)]:
        raise CliError(f"{measurements}: whose figures are these? Write a line `# {missing[0]}: ...` above the rows")
    if not rows:
        raise CliError(f"{measurements}: there is no row below the columns: write one for each repeat of each point")
    added: dict[tuple[int, str], int] = {}
    by_point: dict[int, list[Row]] = {}
    for row in rows:
        by_point.setdefault(_place(plan, row, added), []).append(row)
    if (total := len(plan.points) + len(added)) > POINTS_MAX:
        raise CliError(
            f"{measurements}: with the variants of its own there are {total} points; {POINTS_MAX} are the most"
        )
    of_added = {index: like for (like, _), index in added.items()}
    try:
        return Imported(
            **{name: headings[name] for name in HEADINGS},
            added=tuple(AddedPoint(like=like, variant=variant) for like, variant in added),
            points=tuple(
                _point(plan, index, found, like=plan.points[of_added.get(index, index)])
                for index, found in sorted(by_point.items())
            ),
        )
    except ValidationError as error:
        raise _invalid(str(measurements), error) from error


def _invalid(place: str, error: ValidationError) -> CliError:
    first = error.errors()[0]
    name = ".".join(map(str, first["loc"]))
    remedy = ": write a day, a month or a year, such as 2018-02" if name == "published" else ""
    return CliError(f"{place}: {name} is {first['input']}: {first['msg']}{remedy}")


# --- which point ------------------------------------------------------------------------------------------------------


def _place(plan: Plan, row: Row, added: dict[tuple[int, str], int]) -> int:
    """Index of the point that a row is about; a variant that the benchmark does not have makes one."""
    variant = row.cells.get("variant")
    if variant is None or any(point.key.variant and point.key.variant.name == variant for point in plan.points):
        return _found(plan.points, row)
    like = _found(plan.points, row._replace(cells={**row.cells, "variant": ""}))
    return added.setdefault((like, variant), len(plan.points) + len(added))


def _found(points: Sequence[Point], row: Row) -> int:
    named = {name: text for name in KEY if (text := row.cells.get(name))}
    agreeing = [index for index, point in enumerate(points) if named.items() <= _texts(point).items()]
    plain = [index for index in agreeing if points[index].key.variant is None]
    if len(agreeing) > 1 and "variant" not in named and len(plain) == 1:
        return plain[0]
    if len(agreeing) == 1:
        return agreeing[0]
    listed = ", ".join(f"{name} {text}" for name, text in named.items()) or "nothing"
    if not agreeing:
        raise CliError(
            f"{row.place}: the benchmark has no point with {listed}: `gpubench plan` lists those that it has"
        )
    unlike = " or ".join(name for name in KEY if len({_texts(points[index])[name] for index in agreeing}) > 1)
    raise CliError(f"{row.place}: {len(agreeing)} points of the benchmark have {listed}: add a column {unlike}")


def _texts(point: Point) -> dict[str, str]:
    own = {"data": point.key.data.source, "variant": point.key.variant and point.key.variant.name}
    found = {name: own[name] if name in own else getattr(point.key, name) for name in KEY}
    return {name: "" if value is None else str(value) for name, value in found.items()}


# --- its figures ------------------------------------------------------------------------------------------------------


def _point(plan: Plan, index: int, rows: Sequence[Row], *, like: Point) -> ImportedPoint:
    repeats: dict[int, Row] = {}
    for row in rows:
        text = row.cells.get("repeat", str(len(repeats) + 1))
        if not text.isdecimal() or len(text) > _DIGITS_MAX:
            raise CliError(f"{row.place}: repeat is {text[:40]}: write a whole number of at most {_DIGITS_MAX} digits")
        if (repeat := int(text)) in repeats:
            raise CliError(f"{row.place}: repeat {repeat} of this point is in {repeats[repeat].place}, too")
        repeats[repeat] = row
    runs = (_run(plan, row, like) for _, row in sorted(repeats.items()))
    of_point = {column: _one(rows, column) for column in OF_A_POINT}
    if of_point["extrapolated"] not in {None, "yes"}:
        raise CliError(f"{rows[0].place}: extrapolated is {of_point['extrapolated']}: write yes, or leave it empty")
    try:
        return ImportedPoint(
            point=index,
            runs=tuple(run for run in runs if run is not None),
            efficiency=of_point["efficiency"],
            speed=_speed(plan, index, of_point["times_as_fast"], of_point["as_pool"], place=rows[0].place),
            extrapolated=of_point["extrapolated"] is not None,
            note=of_point["note"],
        )
    except ValidationError as error:
        raise _invalid(rows[0].place, error) from error


def _run(plan: Plan, row: Row, point: Point) -> ImportedRun | None:
    """One repeat; None where the row has figures of the point alone."""
    if not (found := {name: _number(row, name) for name in OF_A_RUN if name in row.cells}):
        return None
    if "hours" in found:
        if "seconds" in found:
            raise CliError(f"{row.place}: it has seconds and hours: leave one of both out")
        found["seconds"] = found.pop("hours") * _SECONDS_PER_HOUR
    if plan.mode is not Mode.TRAINING and (of_training := [name for name in found if name in _OF_TRAINING]):
        raise CliError(
            f"{row.place}: {of_training[0]} is a figure of whole epochs, and the benchmark has measure.mode "
            "Throughput: set Training, or leave the column out"
        )
    if "evaluated_every_seconds" in found and not 0 < found["evaluated_every_seconds"] <= found.get("seconds", 0):
        raise CliError(f"{row.place}: evaluated_every_seconds belongs beside seconds, and is at most as long")
    if "seconds" in found and point.key.epochs is None:
        raise CliError(f"{row.place}: seconds of how many epochs? Set epochs in the benchmark's sweep")
    _fit_together(plan, row, point, found)
    try:
        return ImportedRun.model_validate({name: float(value) for name, value in found.items()})
    except ValidationError as error:
        raise _invalid(row.place, error) from error


def _fit_together(plan: Plan, row: Row, point: Point, found: Mapping[str, Decimal]) -> None:
    """Parts within their whole, and no rate that trains less than the run did."""
    if (whole := found.get("seconds")) is None:
        return
    region = plan.timed_region
    is_inside = {
        "first_epoch_seconds": region.first_epoch == "Included",
        "evaluation_seconds": region.evaluation == "Inside",
    }
    parts = [name for name in found if is_inside.get(name)]
    if (together := sum(found[name] for name in parts)) > whole:
        raise CliError(
            f"{row.place}: {' and '.join(parts)} are {together} of {whole} seconds in all: look at their units"
        )
    rate, samples = found.get("samples_per_second"), estimate.samples_of_training(point.key)
    if rate is None or samples is None or point.key.epochs is None:
        return
    if not is_inside["first_epoch_seconds"]:
        samples -= samples // point.key.epochs
    if rate * whole < _SAMPLES_LEAST * samples:
        raise CliError(
            f"{row.place}: samples_per_second is {rate}: in {whole} seconds that is {rate * whole:g} of {samples} "
            "samples: look at the units of both"
        )


def _speed(plan: Plan, index: int, times: str | None, pool: str | None, *, place: str) -> ImportedSpeed | None:
    if times is None and pool is None:
        return None
    if times is None or pool is None:
        raise CliError(f"{place}: times_as_fast and as_pool belong together: say as what it is so fast")
    if index >= len(plan.points):
        raise CliError(f"{place}: times_as_fast of a variant that the benchmark does not have says nothing: remove it")
    return ImportedSpeed(times=times, over=_same_on(pool, plan.points, index, place=place))


def _same_on(pool: str, points: Sequence[Point], index: int, *, place: str) -> int:
    """The point that trains the same on this pool, without a variant: with as many workers where there are several."""
    of = points[index]
    found = [
        other
        for other, point in enumerate(points)
        if point.key.pool == pool
        and point.key.variant is None
        and expand.same_training(expand.line_of(of), of.key, point.key.model_copy(update={"variant": of.key.variant}))
    ]
    if len(found) > 1:
        found = [other for other in found if points[other].key.workers == of.key.workers]
    if len(found) != 1:
        raise CliError(f"{place}: {len(found)} points of the benchmark train the same with pool {pool}, not one")
    return found[0]


def _one(rows: Sequence[Row], column: str) -> str | None:
    found = {row.cells[column]: row for row in rows if column in row.cells}
    if len(found) > 1:
        places = " and ".join(row.place for row in found.values())
        raise CliError(f"{places}: {column} is a figure of the point, and is {' and '.join(found)}: give it once")
    for row in found.values():
        if column in _BOUNDS:
            _number(row, column)
    return next(iter(found), None)


def _number(row: Row, column: str) -> Decimal:
    text, value = row.cells[column], Decimal("NaN")
    with suppress(InvalidOperation):
        value = Decimal(text.replace("_", "?"))
    if not value.is_finite() or value < 0:
        raise CliError(
            f"{row.place}: {column} is {text!r}: write a number such as 273 or 0.94, with a point and no unit; leave "
            "the cell empty where nobody knows it"
        )
    least, most, hint = _BOUNDS[column]
    if not Decimal(least) <= value <= Decimal(most):
        raise CliError(f"{row.place}: {column} is {text}: write a number from {least} to {most}{hint}")
    return value


# --- gpubench import --------------------------------------------------------------------------------------------------


_EPILOG = f"""\
\b
Lines above the rows say whose figures they are:
  # publisher: RaRe Technologies
  # source: Table 1 of the post
  # published: 2018-02

Columns that find the point (as many as tell it apart): {", ".join(KEY)}.

Columns of one run, repeat by repeat: repeat, {", ".join(OF_A_RUN)}. Shares such as accuracy are 0.82 for 82 %.
Where seconds is the time to a quality target, evaluated_every_seconds says how often that was looked for.

Columns of the point: {", ".join(OF_A_POINT)}. `yes` in extrapolated: not measured there either.

What nobody knows is left empty. A variant that the benchmark does not have adds a point.

\b
  gpubench import keras-2017.yaml published/keras-2017.csv --out keras-2017
  gpubench show keras-2017
  gpubench compare keras-2017 results/keras-2017-20261101T100000Z
  gpubench import --format mlperf training_results_v5.1/AMD --out amd
  gpubench import --format mlperf training_results_v5.1 --name llama2_70b_lora

Exit codes: 0 imported, 1 some logs of MLPerf were not, 2 bad input.
"""


@click.command("import", epilog=_EPILOG)
@options.study
@click.argument("measurements", type=options.PATH, metavar="MEASUREMENTS.csv", required=False, help="what was measured")
@options.pools
@click.option("--name", help="the benchmark, where the file has several; of MLPerf, to make one of all systems with it")
@click.option("--out", type=options.PATH, metavar="DIR", required=True, help="the new results folder")
@click.option(
    "--format", "form", type=click.Choice(["csv", "mlperf"]), default="csv", help="mlperf: result logs; csv by default"
)
@click.option(
    "--round", "round_", default="", metavar="VERSION", help="of MLPerf, such as v5.1, where no folder is called so"
)
def run_import(
    study: Path, measurements: Path | None, *, pools: Path | None, name: str | None, out: Path, form: str, round_: str
) -> int:
    """Make a results folder of figures that were measured elsewhere.

    Of a publication, or of a benchmark of your own from before gpubench. Each row of MEASUREMENTS.csv is one run of one
    point of the benchmark. With --format mlperf the one argument is a folder of MLPerf's result logs. --name then makes
    one benchmark of all systems with that one, such as llama2_70b_lora: its pools.
    """
    if form == "mlperf":
        if measurements is not None or pools is not None:
            raise CliError("--format mlperf takes one folder of result logs, and no --pools")
        return _import_logs(study, out, round_=round_, together=name or "")
    if measurements is None:
        raise CliError(f"{study}: where are its measurements? Give MEASUREMENTS.csv after it")
    _write(study, measurements, pools=pools, name=name, out=out, copies={})
    return terminal.EXIT_DONE


def _import_logs(folder: Path, out: Path, *, round_: str, together: str) -> int:
    """Import the systems of a folder: those with the benchmark `together` into `out`, else each by itself.

    Of several systems each has a folder of its own in `out`. The exit code.
    """
    every = folder.resolve().rglob("result_*.txt")
    if not (logs := mlperf.logs_by_system(one for one in every if together in ("", one.parent.name))):
        which = f"SUBMITTER/results/SYSTEM/{together or 'BENCHMARK'}"
        raise CliError(f"{folder}: there is no result_N.txt: give a folder of {which}")
    if len(rounds := sorted({one.parents[2] for one in logs})) > 1:
        raise CliError(f"{folder}: these are several rounds, or copies of one: give {rounds[0]} or {rounds[1]} alone")
    if not (round_ := round_ or "".join(re.findall(r"v\d+\.\d+", str(folder.resolve()))[-1:])):
        raise CliError(f"{folder}: of which round are these logs? Give --round, such as v5.1")
    problems: list[str] = []
    for group in [[*logs]] if together else [[one] for one in logs]:
        systems: list[mlperf.System] = []
        for one in group:
            try:
                systems.append(mlperf.read_system(one, logs[one]))
                problems += systems[-1].problems
            except CliError as error:
                problems += error.args
        if systems:
            made = mlperf.make(systems, round_, together=together)
            with tempfile.TemporaryDirectory() as place:
                study, measured = Path(place, results.STUDY), Path(place, results.MEASUREMENTS)
                study.write_text(made.study, encoding="utf-8")
                measured.write_text(made.measurements, encoding="utf-8")
                alone = len(group) == len(logs)
                target = out if alone else out / f"{systems[0].submitter}-{systems[0].folder.name}"
                _write(study, measured, pools=None, name=None, out=target, copies=made.files)
    for problem in problems:
        terminal.tell(f"not imported: {problem}")
    return terminal.exit_code(not problems)


def _write(
    study: Path, measured: Path, *, pools: Path | None, name: str | None, out: Path, copies: Mapping[str, bytes]
) -> None:
    """The results folder of a benchmark file and what was measured of it, with copies of what that was made of."""
    study_file, now, none = documents.read(study), time.time(), ledger.Ledger()
    others = None if pools is None else documents.read(pools)
    benchmark, known = study_file.benchmark(name), documents.given_pools(study_file, others)
    documents.refuse_missing_pools(benchmark, known)
    asked = documents.as_study(benchmark, now=now)
    planned = expand.freeze(asked.spec, known, rfc3339(now))
    found = imported(planned, measured)
    plan = expand.with_measurements(planned, found)
    made = step.step(plan, none, account.of(plan, none), observed.Observed(study=asked), now)
    status = statuses.full(asked, plan, made, analyze.analyze(plan, none, made.points, asked.spec), now=now)
    # A benchmark whose pools come from a file of their own is kept with them: it must be read again without that file.
    text = "\n---\n".join([study_file.text, *([] if others is None else [others.text])])
    folder = results.ResultsFolder.create(out, study_text=text, plan=plan)
    folder.keep(results.MEASUREMENTS, measured.read_bytes())
    for file, content in copies.items():
        folder.keep(f"{results.COPIES}/{file}", content)
    folder.write(results.Summary(name=asked.name, uid=str(uuid.uuid4()), machine="imported", status=status))
    terminal.tell(f"imported from {found.origin}: {len(found.points)} points")
    show.show_status(asked.name, str(out), status)
    terminal.tell(f"results: {out}")
