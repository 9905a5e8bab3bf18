# SPDX-License-Identifier: Apache-2.0
"""Further questions about what was measured: `gpubench explain`, `advise`, `reprice`. They run nothing.

A point is named by what `show` has in its row, in that order, or by the number of the row:

    local-cpu/2                  parts of the row, in their order; as many as tell the point from the others
    resnet50/gke-a100/8/64       workload, pool, workers, batch, precision, variant
    row=3                        the third row of `gpubench show`

Must not happen: one of several points is taken because it came first; a write to the cluster, or to the folder that was
measured.
"""

import re
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Literal

import click

from gpubench import units
from gpubench.analysis import advice, repricing
from gpubench.analysis.explain import explained
from gpubench.analysis.text import shortened
from gpubench.api.goals import Goal, Objective
from gpubench.api.point_result import PointResult
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.report import tables
from gpubench.scheduler import conditions
from gpubench_cli import documents, options, results, show, terminal
from gpubench_cli.terminal import CliError

# --- points by name ---------------------------------------------------------------------------------------------------


_ROW = "row="
_LISTED = 5


def find_point(points: Sequence[PointResult], text: str | None) -> int:
    """The index of the point that is meant; a CliError names points where that is none, or more than one."""
    names = [point_name(points, index) for index in range(len(points))]
    matching = [index for index, name in enumerate(names) if text in (name, f"{_ROW}{index + 1}")]
    parts = [] if text is None else text.split("/")
    matching = matching or [index for index, point in enumerate(points) if _in_order(parts, _texts(point))]
    if len(matching) == 1:
        return matching[0]
    listed = shortened([names[index] for index in matching] or names, most=_LISTED)
    found = f"the benchmark has {len(points)}" if text is None else f"{text} is {len(matching)} of {len(points)}"
    raise CliError(f"{found} points: name one, such as {listed}")


def point_name(points: Sequence[PointResult], index: int) -> str:
    """By which a point is found again: its row's texts, or the row where two points have the same ones."""
    names = ["/".join(_texts(point)) for point in points]
    return names[index] if names.count(names[index]) == 1 else f"{_ROW}{index + 1}"


def _texts(point: PointResult) -> tuple[str, ...]:
    batch = point.global_batch if point.batch_per_worker is None else point.batch_per_worker
    found = (point.workload, point.pool, str(point.workers), str(batch), point.precision, point.variant)
    return tuple(text for text in found if text is not None)


def _in_order(parts: Sequence[str], texts: Sequence[str]) -> bool:
    left = iter(texts)
    return all(part in left for part in parts)


# --- gpubench explain -------------------------------------------------------------------------------------------------


@click.command("explain")
@options.benchmark
@click.argument(
    "point",
    required=False,
    metavar="[POINT]",
    help="resnet50/gke-a100/8/64, or as much of a row of `gpubench show` as is enough; or row=3",
)
@options.cluster
@options.output("text", "wide", "json")
def explain(name: str, point: str | None, namespace: str | None, output: str) -> None:
    """Print a table of a point's headline figures: value, formula, inputs, and where these come from."""
    study = results.find_measured(name, namespace=namespace)
    index = find_point(study.status.results, point)
    found = explained(study.plan, study.ledger, study.spec, index=index)
    named = point_name(study.status.results, index)
    if output == "json":
        terminal.write_document({"study": study.name, "source": study.source, "name": named, **found.to_wire()})
        return
    terminal.say(f"{study.name} ({study.source}): {named}: {found.point.state.value}")
    if study.repriced is not None:
        terminal.say(study.repriced.sentence)
    if not any(row.field != "bill.total" for row in found.rows):
        terminal.say(f"It has no figures: {found.point.reason or 'it has not been measured yet'}.")
    sources = dict.fromkeys(f"{row.formula}: {row.source}" for row in found.rows if row.formula is not None)
    table = tables.Table(
        columns=tables.words("FIGURE", "VALUE", "FORMULA", "INPUTS", "FROM") if found.rows else (),
        rows=tuple((row.field, row.text, row.formula or "", "; ".join(row.inputs), row.origin) for row in found.rows),
        notes=(
            *sources,
            *(("Why these methods: docs/concepts/methods.md",) if sources else ()),
            *(f"Warning: {warning.message}" for warning in found.point.warnings),
        ),
    )
    terminal.print_table(table, wide=output == "wide")


# --- gpubench advise --------------------------------------------------------------------------------------------------


_EPILOG = """\
\b
  gpubench advise three-cnns
  gpubench advise three-cnns --goal imagenet --max-hours 48
  gpubench advise three-cnns --goal imagenet --minimize Time --max-cost 500
  gpubench advise results/quickstart-20261101T120000Z --samples 60000000
"""


def _amount(text: str) -> str:
    if not re.fullmatch(units.DECIMAL_PATTERN, text) or Decimal(text) == 0:
        raise click.BadParameter(f"{text!r} is no amount above 0, such as 500 or 12.50")
    return text


@click.command("advise", epilog=_EPILOG)
@options.benchmark
@click.option("--goal", metavar="GOAL", help="one of spec.goals; that of spec.objective by default")
@click.option("--samples", type=click.IntRange(1, 10**15), metavar="N", help="samples to train, instead of a goal")
@click.option("--workload", help="with --samples, where the benchmark has several")
@click.option("--minimize", type=click.Choice(("Cost", "Time")), help="Cost by default, Time with --max-cost")
@click.option(
    "--max-hours", type=options.Number(0.01, 100_000), metavar="HOURS", help="how long it may take, with the least cost"
)
@click.option("--max-cost", type=_amount, metavar="AMOUNT", help="what it may cost, with the least time")
@options.cluster
def advise(
    *,
    name: str,
    goal: str | None,
    samples: int | None,
    workload: str | None,
    minimize: Literal["Cost", "Time"] | None,
    max_hours: float | None,
    max_cost: str | None,
    namespace: str | None,
) -> None:
    """Say which pool and how many workers reach a goal at the least cost or in the least time.

    It goes by what a benchmark has measured and by what the law of its lines predicts.
    """
    study = results.find_measured(name, namespace=namespace)
    wanted = _goal(study, goal=goal, samples=samples, workload=workload)
    objective = study.spec.objective
    if objective is not None and (minimize, max_hours, max_cost) == (None, None, None):
        objective = objective.model_copy(update={"goal": wanted.name})
    else:
        minimize = minimize or ("Time" if max_cost is not None else "Cost")
        if minimize == "Cost" and max_cost is not None:
            raise CliError("--max-cost is a limit of the least time: leave --minimize out, or set it to Time")
        if minimize == "Time" and max_hours is not None:
            raise CliError("--max-hours is a limit of the least cost: leave --max-cost out and set --minimize to Cost")
        objective = Objective(minimize=minimize, goal=wanted.name, max_hours=max_hours, max_cost=max_cost)
    plan = study.plan if objective.max_cost is None else _in_one_currency(study)
    found = advice.advised(plan, study.ledger, study.status.results, objective, [wanted])
    if not conditions.holds(study.status.conditions, conditions.FINISHED):
        terminal.tell(f"{study.name} has not finished: this is advice on what it has measured so far")
    if study.repriced is not None:
        terminal.say(study.repriced.sentence)
    for one in found:
        terminal.say(one.message)


def _goal(study: results.StoredBenchmark, *, goal: str | None, samples: int | None, workload: str | None) -> Goal:
    if samples is not None:
        if goal is not None:
            raise CliError("--goal and --samples both say what is to be trained: give one of them")
        there = list(dict.fromkeys(point.workload for point in study.status.results))
        named = there[0] if workload is None and len(there) == 1 else workload
        if named not in there:
            raise CliError(
                f"--workload must be one of the benchmark's, and is {named or 'not given'}: {', '.join(there)}"
            )
        return Goal(name="given", workload=named, samples=samples)
    if workload is not None:
        raise CliError("--workload says of what --samples are, and there are none: give --samples, or a --goal alone")
    goals = {one.name: one for one in study.spec.goals}
    wanted = goal or (study.spec.objective and study.spec.objective.goal) or (len(goals) == 1 and next(iter(goals)))
    if not wanted:
        raise CliError(
            f"{study.name} has no spec.objective: name one of its goals with --goal "
            f"({', '.join(goals) or 'it has none'}), or say how much is to be trained with --samples"
        )
    if wanted not in goals:
        raise CliError(f"{study.name} has no goal {wanted}: it has {', '.join(goals) or 'none'}")
    return goals[wanted]


def _in_one_currency(study: results.StoredBenchmark) -> Plan:
    if study.plan.currency is not None:
        return study.plan
    rates = (pool_prices.planned_rate(study.plan, pool.name) for pool in study.plan.pools)
    currencies = sorted({rate.currency for rate in rates if rate is not None})
    if len(currencies) != 1:
        listed = " and ".join(currencies) or "none, for no pool has a price"
        raise CliError(f"{study.name} has no currency that --max-cost could be in: its prices are in {listed}")
    return study.plan.model_copy(update={"currency": currencies[0]})


# --- gpubench reprice -------------------------------------------------------------------------------------------------


@click.command("reprice")
@options.benchmark
@click.option("--pools", type=options.PATH, required=True, metavar="FILE", help="GpuPools with the prices")
@click.option(
    "--out",
    type=options.PATH,
    metavar="DIR",
    help="write a new results folder, marked as re-priced, from a results folder",
)
@options.cluster
@options.output(*show.FORMS)
def reprice(name: str, pools: Path, out: Path | None, namespace: str | None, output: str) -> None:
    """Compute every cost of a benchmark again from its stored measurements, at the prices of the GpuPools in a file.

    Price, ownership and capacityType are of these, all else is as it was measured. Pools of the benchmark that are not
    in the file keep their prices.
    """
    prices = documents.read(pools)
    if out is None:
        again = repriced(results.stored(results.find_reported(name, namespace=namespace)), prices)
    elif results.is_results_folder(Path(name)):
        again = to_folder(Path(name), prices, out=out)
    else:
        raise CliError(f"{name}: --out takes a results folder: `gpubench export NAME DIR` makes one of the cluster's")
    shown = show.Shown(
        spec=results.written_spec(Path(again.source), again.name, text=again.study_text),
        **{name: getattr(again, name) for name in ("name", "source", "status", "repriced")},
    )
    show.print_studies([shown], output=output, view=terminal.View(wide=output == "wide"))
    if out is not None:
        terminal.tell(f"results: {out}")


def repriced(study: results.StoredBenchmark, prices: documents.StudyFile) -> results.StoredBenchmark:
    """The benchmark at the prices of a file; CliError where they are none for it."""
    if wrong := [f"{prices.path}: {problem}" for problem in repricing.problems(study.plan, prices.pools)]:
        raise CliError(*wrong)
    plan = repricing.repriced(study.plan, prices.pools)
    given = {pool.name for pool in prices.pools}
    marked = pool_prices.Repriced(
        at=units.rfc3339(time.time()),
        prices=prices.path.name,
        pools=tuple(pool.name for pool in plan.pools if pool.name in given),
        kept=tuple(pool.name for pool in plan.pools if pool.name not in given),
    )
    status = repricing.status(plan, study.ledger, study.spec, study.status)
    return study.model_copy(update={"plan": plan, "status": status, "repriced": marked})


def to_folder(source: Path, prices: documents.StudyFile, *, out: Path) -> results.StoredBenchmark:
    """The benchmark of a results folder at the prices of a file, and as a folder of its own."""
    study = repriced(results.stored(results.in_folder(source)), prices)
    # Its ends of lines stay as they are: the plan has a digest of the bytes.
    text = (source / results.STUDY).read_bytes().decode()
    folder = results.ResultsFolder.create(out, study_text=text, plan=study.plan)
    folder.copy_measurements(source)
    assert study.repriced is not None
    folder.keep(results.PRICES, prices.text.encode())
    marked = study.repriced.model_copy(update={"digest": results.digest(out / results.PRICES)})
    folder.write(results.read_summary(source).model_copy(update={"status": study.status, "repriced": marked}))
    return study.model_copy(update={"source": str(out), "repriced": marked})
