# SPDX-License-Identifier: Apache-2.0
"""`gpubench import STUDY.yaml MEASUREMENTS.csv`: figures that were measured elsewhere, as a results folder.

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
leaves empty may be anything. Where it names a variant that the study file does not have, the point is added: what was
measured there has no counterpart here (another framework, say), and is shown all the same.

Must not happen: a folder that does not say whose figures it has; a column that nobody knows, a cell without one, or a
row is passed over, or given to a point that it may not mean.
"""

import csv
import time
import uuid
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import NamedTuple

import click
from pydantic import ValidationError

from gpubench.analysis import analyze
from gpubench.analysis import status as statuses
from gpubench.api.benchmark import POINTS_MAX
from gpubench.api.measuring import Mode
from gpubench.plan import expand
from gpubench.plan.expand import freeze
from gpubench.plan.plan import AddedPoint, Imported, ImportedPoint, ImportedRun, ImportedSpeed, Plan, Point
from gpubench.scheduler import account, step
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import Observed
from gpubench.units import rfc3339
from gpubench_cli import documents, options, results, run, show, terminal
from gpubench_cli.results import ResultsFolder, Summary
from gpubench_cli.terminal import CliError

# --- rows of a file ---------------------------------------------------------------------------------------------------


#: What the comments above the rows say of all of them.
HEADINGS = ("publisher", "source", "published")


class Row(NamedTuple):
    """One row: where it stands, for sentences, and its cells that are not empty, by column."""

    place: str
    cells: Mapping[str, str]


def read_rows(path: Path) -> tuple[dict[str, str], list[Row]]:
    """What the comments of a file say by their heading, and its rows."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise CliError(f"{path}: it is no text in UTF-8: save it as CSV in UTF-8") from error
    headings: dict[str, str] = {}
    titles: list[str] | None = None
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        place = f"{path}:{number}"
        if line.startswith("#"):
            name, colon, text = line.lstrip("# ").partition(":")
            if colon and name.strip().lower() in HEADINGS:
                headings.setdefault(name.strip().lower(), text.strip())
        elif line.strip():
            cells = _cells(line, place=place)
            if titles is None:
                titles = cells
                _refuse_columns(titles, place=place)
            elif len(cells) > len(titles):
                raise CliError(f"{place}: it has {len(cells)} cells, and the first row names {len(titles)} columns")
            else:
                rows.append(Row(place, {title: cell for title, cell in zip(titles, cells, strict=False) if cell}))
    if titles is None:
        raise CliError(f"{path}: there are no rows: the first one names the columns ({', '.join(COLUMNS)})")
    return headings, rows


def _refuse_columns(titles: Sequence[str], *, place: str) -> None:
    for title in titles:
        if title not in COLUMNS:
            raise CliError(f"{place}: {title!r} is no column of this file: it may have {', '.join(COLUMNS)}")
    twice = sorted({title for title in titles if titles.count(title) > 1})
    if twice:
        raise CliError(f"{place}: the column {twice[0]} stands there twice: remove one of both")


def _cells(line: str, *, place: str) -> list[str]:
    try:
        return [cell.strip() for cell in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise CliError(f"{place}: it cannot be read as CSV: {error}") from error


# --- what rows say of points ------------------------------------------------------------------------------------------


#: What tells points apart.
KEY = (
    "workload", "pool", "workers", "workers_per_node", "batch_per_worker", "global_batch", "precision", "data",
    "variant",
)  # fmt: skip
#: Figures of one repeat.
OF_A_RUN = (
    "samples_per_second", "seconds", "hours", "first_epoch_seconds", "evaluation_seconds", "training_loss", "accuracy",
    "gpu_utilization",
)  # fmt: skip
#: Figures of a point.
OF_A_POINT = ("efficiency", "times_as_fast", "as_pool", "note")
COLUMNS = (*KEY, "repeat", *OF_A_RUN, *OF_A_POINT)

_SECONDS_PER_HOUR = 3600


def imported(plan: Plan, measurements: Path) -> Imported:
    """Everything that the file says of the points of a study. `plan` is the study's, as it would be run."""
    headings, rows = read_rows(measurements)
    missing = [name for name in HEADINGS if not headings.get(name)]
    if missing:
        raise CliError(
            f"{measurements}: nobody would know whose figures these are: write a line `# {missing[0]}: ...` above the "
            "rows"
        )
    if not rows:
        raise CliError(f"{measurements}: there is no row below the columns: write one for each repeat of each point")
    added: dict[tuple[int, str], int] = {}
    by_point: dict[int, list[Row]] = {}
    for row in rows:
        by_point.setdefault(_place(plan, row, added), []).append(row)
    if len(plan.points) + len(added) > POINTS_MAX:
        total = len(plan.points) + len(added)
        raise CliError(
            f"{measurements}: with the variants of its own there are {total} points; {POINTS_MAX} are the most"
        )
    try:
        return Imported.model_validate(
            {
                **{name: headings[name] for name in HEADINGS},
                "added": tuple(AddedPoint(like=like, variant=variant) for like, variant in added),
                "points": tuple(_point(plan, index, found) for index, found in sorted(by_point.items())),
            }
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = first["loc"][0]
        remedy = ": write a day, a month or a year, such as 2018-02" if name == "published" else ""
        raise CliError(f"{measurements}: {name}: {first['msg']}{remedy}") from error


# --- which point ------------------------------------------------------------------------------------------------------


def _place(plan: Plan, row: Row, added: dict[tuple[int, str], int]) -> int:
    """Index of the point that a row is about; a variant that the study does not have makes one."""
    variant = row.cells.get("variant")
    if variant is None or any(point.key.variant and point.key.variant.name == variant for point in plan.points):
        return _found(plan.points, row)
    like = _found(plan.points, row._replace(cells={**row.cells, "variant": ""}))
    return added.setdefault((like, variant), len(plan.points) + len(added))


def _found(points: Sequence[Point], row: Row) -> int:
    """The one point that agrees with the fields that a row names."""
    named = {name: text for name in KEY if (text := row.cells.get(name))}
    agreeing = [index for index, point in enumerate(points) if named.items() <= _texts(point).items()]
    plain = [index for index in agreeing if points[index].key.variant is None]
    if len(agreeing) > 1 and "variant" not in named and len(plain) == 1:
        return plain[0]
    if len(agreeing) == 1:
        return agreeing[0]
    listed = ", ".join(f"{name} {text}" for name, text in named.items()) or "nothing"
    if not agreeing:
        raise CliError(f"{row.place}: the study has no point with {listed}: `gpubench plan` lists those that it has")
    unlike = [name for name in KEY if len({_texts(points[index])[name] for index in agreeing}) > 1]
    raise CliError(
        f"{row.place}: {len(agreeing)} points of the study have {listed}: name {' or '.join(unlike)} in a column, too"
    )


def _texts(point: Point) -> dict[str, str]:
    key = point.key
    return {
        "workload": key.workload,
        "pool": key.pool,
        "workers": str(key.workers),
        "workers_per_node": str(key.workers_per_node),
        "batch_per_worker": "" if key.batch_per_worker is None else str(key.batch_per_worker),
        "global_batch": str(key.global_batch),
        "precision": key.precision.value,
        "data": key.data.source.value,
        "variant": "" if key.variant is None else key.variant.name,
    }


# --- its figures ------------------------------------------------------------------------------------------------------


def _point(plan: Plan, index: int, rows: Sequence[Row]) -> ImportedPoint:
    """What the rows of a point say, repeat by repeat."""
    repeats: dict[int, Row] = {}
    for row in rows:
        repeat = _whole(row, "repeat") if "repeat" in row.cells else len(repeats) + 1
        if repeat in repeats:
            raise CliError(f"{row.place}: repeat {repeat} of this point stands in {repeats[repeat].place}, too")
        repeats[repeat] = row
    ordered = [repeats[repeat] for repeat in sorted(repeats)]
    like = plan.points[index] if index < len(plan.points) else None
    try:
        return ImportedPoint(
            point=index,
            runs=tuple(run for row in ordered if (run := _run(plan, row, like)) is not None),
            efficiency=_one(ordered, "efficiency"),
            speed=_speed(plan, index, ordered),
            note=_one(ordered, "note", number=False),
        )
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(step) for step in first["loc"])
        raise CliError(f"{ordered[0].place}: {name}: {first['msg']}") from error


def _run(plan: Plan, row: Row, point: Point | None) -> ImportedRun | None:
    """One repeat; None where the row has figures of the point alone."""
    found = {name: _number(row, name) for name in OF_A_RUN if name in row.cells}
    if not found:
        return None
    if "hours" in found:
        if "seconds" in found:
            raise CliError(f"{row.place}: it has seconds and hours: leave one of both out")
        found["seconds"] = found.pop("hours") * _SECONDS_PER_HOUR
    if plan.mode is not Mode.TRAINING and (of_training := [name for name in found if name in _OF_TRAINING]):
        raise CliError(
            f"{row.place}: {of_training[0]} is a figure of whole epochs, and the study has measure.mode Throughput: "
            "set Training, or leave the column out"
        )
    if "seconds" in found and point is not None and point.key.epochs is None:
        raise CliError(f"{row.place}: seconds of how many epochs? Set epochs in the study's sweep")
    try:
        return ImportedRun.model_validate({name: float(value) for name, value in found.items()})
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        raise CliError(f"{row.place}: {name} is {found[name]}: {first['msg']}") from error


_OF_TRAINING = ("seconds", "first_epoch_seconds", "evaluation_seconds", "training_loss", "accuracy")


def _speed(plan: Plan, index: int, rows: Sequence[Row]) -> ImportedSpeed | None:
    times, pool = _one(rows, "times_as_fast"), _one(rows, "as_pool", number=False)
    if times is None and pool is None:
        return None
    place = rows[0].place
    if times is None or pool is None:
        raise CliError(f"{place}: times_as_fast and as_pool belong together: say as what it is so fast")
    if Decimal(times) <= 0:
        raise CliError(f"{place}: times_as_fast is {times}: write a number above 0")
    if index >= len(plan.points):
        raise CliError(f"{place}: times_as_fast of a variant that the study does not have says nothing: leave it out")
    return ImportedSpeed(times=times, over=_same_on(pool, plan.points, index, place=place))


def _same_on(pool: str, points: Sequence[Point], index: int, *, place: str) -> int:
    """The point that trains the same on this pool, without a variant: with as many workers where there are several."""
    of = points[index]
    line = expand.line_of(of)
    variant = {"variant": of.key.variant}
    found = [
        other
        for other, point in enumerate(points)
        if point.key.pool == pool
        and point.key.variant is None
        and expand.same_training(line, of.key, point.key.model_copy(update=variant))
    ]
    if len(found) > 1:
        found = [other for other in found if points[other].key.workers == of.key.workers]
    if len(found) != 1:
        raise CliError(f"{place}: {len(found)} points of the study train the same with pool {pool}, and one is meant")
    return found[0]


def _one(rows: Sequence[Row], column: str, *, number: bool = True) -> str | None:
    """What the rows of a point say of all of it; CliError where they say two things."""
    found = {row.cells[column]: row for row in rows if column in row.cells}
    if len(found) > 1:
        places = " and ".join(row.place for row in found.values())
        raise CliError(f"{places}: {column} is a figure of the point, and is {' and '.join(found)}: give it once")
    if not found:
        return None
    ((text, row),) = found.items()
    if number:
        _number(row, column)
    return text


def _number(row: Row, column: str) -> Decimal:
    text = row.cells[column]
    try:
        value = Decimal(text)
    except InvalidOperation:
        value = Decimal("NaN")
    if not value.is_finite() or value < 0:
        raise CliError(
            f"{row.place}: {column} is {text!r}: write a number such as 273 or 0.94, with a point and no unit; leave "
            "the cell empty where nobody knows it"
        )
    return value


def _whole(row: Row, column: str) -> int:
    value = _number(row, column)
    if value != value.to_integral_value():
        raise CliError(f"{row.place}: {column} is {row.cells[column]}: write a whole number")
    return int(value)


# --- gpubench import --------------------------------------------------------------------------------------------------


_EPILOG = f"""\
\b
Lines above the rows say whose figures they are:
  # publisher: RaRe Technologies
  # source: Table 1 of the post
  # published: 2018-02

Columns that find the point (as many as tell it apart): {", ".join(KEY)}.

Columns of one run, repeat by repeat: repeat, {", ".join(OF_A_RUN)}. Shares such as accuracy are 0.82 for 82 %.

Columns of the point: {", ".join(OF_A_POINT)}.

What nobody knows is left empty. A variant that the study does not have adds a point.

\b
  gpubench import jobs/studies/keras-2017.yaml jobs/studies/published/keras-2017.csv --out keras-2017
  gpubench show keras-2017
  gpubench compare keras-2017 results/keras-2017-20261101T100000Z

Exit codes: 0 imported, 2 bad input.
"""


@click.command("import", epilog=_EPILOG)
@options.study
@click.argument("measurements", type=options.PATH, metavar="MEASUREMENTS.csv", help="what was measured")
@options.pools
@options.name
@click.option("--out", type=options.PATH, metavar="DIR", required=True, help="the new results folder")
def run_import(study: Path, measurements: Path, pools: Path | None, name: str | None, out: Path) -> int:
    """Make a results folder of figures that were measured elsewhere.

    Of a publication, or of a study of your own from before gpubench. Each row of MEASUREMENTS.csv is one run of one
    point of the study.
    """
    study_file = documents.read(study)
    benchmark = study_file.benchmark(name)
    known = run.given_pools(study_file, pools)
    documents.refuse_missing_pools(benchmark, known)
    now = time.time()
    asked = run.as_study(benchmark, now=now)
    planned = freeze(asked.spec, known, rfc3339(now))
    found = imported(planned, measurements)
    plan = expand.with_measurements(planned, found)
    made = step.step(plan, Ledger(), account.of(plan, Ledger()), Observed(study=asked), now)
    status = statuses.full(asked, plan, made, analyze.analyze(plan, Ledger(), made.points, asked.spec), now=now)
    # A study whose pools come from a file of their own is kept with them: it must be read again without that file.
    text = "\n---\n".join(path.read_text(encoding="utf-8") for path in (study, pools) if path is not None)
    folder = ResultsFolder.create(out, study_text=text, plan=plan)
    folder.keep(results.MEASUREMENTS, measurements.read_bytes())
    folder.write(Summary(name=asked.name, uid=str(uuid.uuid4()), machine="imported", status=status))
    terminal.tell(f"imported from {found.origin}: {len(found.points)} points")
    show.show_status(asked.name, str(out), status)
    terminal.tell(f"results: {out}")
    return terminal.EXIT_DONE


def again(plan: Plan, planned: Plan, path: Path) -> str | None:
    """What is wrong between an imported plan and the measurements in its folder; None where it follows from them.

    `planned` is the plan of the study file as it would be run.
    """
    try:
        found = imported(planned, path / results.MEASUREMENTS)
    except CliError as error:
        return error.messages[0]
    if found != plan.imported:
        return f"its figures are not those of {results.MEASUREMENTS}"
    return None
