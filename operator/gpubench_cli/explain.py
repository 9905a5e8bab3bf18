# SPDX-License-Identifier: Apache-2.0
"""Further questions about what was measured: `gpubench explain`, `advise`, `reprice`. They run nothing.

`explain NAME POINT` prints each headline figure of a point with its formula and inputs. `advise NAME` says which pool
and how many workers reach a goal, as `spec.objective` does in `status.answer`. `reprice NAME --pools FILE` computes the
costs at other prices; with --out as a results folder of its own, marked as re-priced.

A point is named by what `show` has in its row, in that order, or by one of its trials:

    local-cpu/2                  parts of the row, in their order; as many as tell the point from the others
    resnet50/gke-a100/8/64       workload, pool, workers, batch, precision, variant
    row=3                        the third row of `gpubench show`
    abcd                         the beginning of the id of a trial

Must not happen: one of several points is taken because it came first; a write to the cluster, or to the folder that was
measured.
"""

import argparse
import json
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path

from gpubench import units
from gpubench.analysis import advice, explain, repricing
from gpubench.api.goals import Goal, Objective
from gpubench.api.point_result import PointResult
from gpubench.api.pool import GpuPool
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.report.tables import Column, Table
from gpubench.scheduler import conditions
from gpubench.units import rfc3339
from gpubench_cli import documents, results, show, terminal
from gpubench_cli.results import Repriced, ResultsFolder, StoredStudy
from gpubench_cli.terminal import Refusal

# --- points by name ---------------------------------------------------------------------------------------------------


_ROW = "row="
_TRIAL_MIN = 4  # characters of a trial's id: fewer are a number or a word too easily
_LISTED = 5


def find_point(plan: Plan, points: Sequence[PointResult], text: str | None) -> int:
    """The index of the point that is meant; a Refusal names the nearest where that is none, or more than one."""
    if text is None:
        if len(points) == 1:
            return 0
        raise Refusal(f"the study has {len(points)} points: name one, such as {_listed(points, range(len(points)))}")
    if text.startswith(_ROW):
        return _of_row(points, text)
    matching = list(_matching(points, text)) or sorted(_of_trial(plan, text))
    if len(matching) == 1:
        return matching[0]
    if matching:
        raise Refusal(f"{text} is {len(matching)} points: name one of {_listed(points, matching)}")
    raise Refusal(f"the study has no point {text}: the nearest are {_listed(points, _nearest(points, text))}")


def point_name(points: Sequence[PointResult], index: int) -> str:
    """By which a point is found again: its row's texts, or the row where two points have the same ones."""
    own = "/".join(_texts(points[index]))
    same = sum("/".join(_texts(point)) == own for point in points)
    return own if same == 1 else f"{_ROW}{index + 1}"


def _texts(point: PointResult) -> tuple[str, ...]:
    batch = point.global_batch if point.batch_per_worker is None else point.batch_per_worker
    variant = () if point.variant is None else (point.variant,)
    return (point.workload, point.pool, str(point.workers), str(batch), point.precision, *variant)


def _of_row(points: Sequence[PointResult], text: str) -> int:
    number = text.removeprefix(_ROW)
    if not number.isdecimal() or not 1 <= int(number) <= len(points):
        raise Refusal(f"{text}: there is no such row: `gpubench show` has rows 1 to {len(points)} here")
    return int(number) - 1


def _matching(points: Sequence[PointResult], text: str) -> Iterator[int]:
    parts = text.split("/")
    whole = [index for index, point in enumerate(points) if tuple(parts) == _texts(point)]
    found = whole or [index for index, point in enumerate(points) if _in_order(parts, _texts(point))]
    yield from found


def _in_order(parts: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether each part is one of the texts, in the same order."""
    left = iter(texts)
    return all(part in left for part in parts)


def _of_trial(plan: Plan, text: str) -> set[int]:
    return {trial.point for trial in plan.trials if len(text) >= _TRIAL_MIN and trial.id.startswith(text)}


def _nearest(points: Sequence[PointResult], text: str) -> list[int]:
    """Those that have most of the parts, then those whose names look alike."""
    parts = set(text.split("/"))
    shared = [len(parts & set(_texts(point))) for point in points]
    if most := max(shared, default=0):
        return [index for index, count in enumerate(shared) if count == most]
    names = ["/".join(_texts(point)) for point in points]
    alike = get_close_matches(text, names, n=_LISTED, cutoff=0.0)
    return [names.index(one) for one in alike]


def _listed(points: Sequence[PointResult], indices: Sequence[int]) -> str:
    shown = [point_name(points, index) for index in indices[:_LISTED]]
    rest = len(indices) - len(shown)
    return ", ".join(shown) + (f" and {rest} more" if rest > 0 else "")


# --- gpubench explain -------------------------------------------------------------------------------------------------


_POINT = "resnet50/gke-a100/8/64, or as much of a row of `gpubench show` as is enough; row=3; or the id of a trial"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "explain",
        help="the formula and the inputs of a point's figures",
        description="Print a table of a point's headline figures: value, formula, inputs, and where these come from.",
    )
    parser.add_argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
    parser.add_argument("point", nargs="?", metavar="POINT", help=_POINT)
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Find the study and the point, explain, print."""
    study = results.find_stored(arguments.name, namespace=arguments.namespace)
    if not study.status.results:
        raise terminal.Refusal(f"{study.name} has no results yet: `gpubench show` says how it stands")
    index = find_point(study.plan, study.status.results, arguments.point)
    found = explain.explained(study.plan, study.ledger, study.spec, index=index)
    named = point_name(study.status.results, index)
    if arguments.output == "json":
        document = {"study": study.name, "source": study.source, "name": named, **found.to_wire()}
        terminal.write(json.dumps(document, indent=2, ensure_ascii=False))
        return terminal.EXIT_DONE
    terminal.write(f"{study.name} ({study.source}): {named}: {found.point.state.value}")
    if study.repriced is not None:
        terminal.write(study.repriced.sentence)
    if not any(row.field != "bill.total" for row in found.rows):
        terminal.write(f"It has no figures: {found.point.reason or 'it has not been measured yet'}.")
    titles = ("FIGURE", "VALUE", "FORMULA", "INPUTS", "FROM") if found.rows else ()
    rows = tuple((row.field, row.text, row.formula or "", "; ".join(row.inputs), row.origin) for row in found.rows)
    sources = dict.fromkeys(f"{row.formula}: {row.source}" for row in found.rows if row.formula is not None)
    warnings = (f"Warning: {warning.message}" for warning in found.point.warnings)
    columns = tuple(Column(title=title) for title in titles)
    terminal.print_table(Table(columns=columns, rows=rows, notes=(*sources, *warnings)))
    return terminal.EXIT_DONE


# --- gpubench advise --------------------------------------------------------------------------------------------------


_GIVEN = "given"
_SAMPLES_MAX = 10**15
_EPILOG = """\
  gpubench advise three-cnns                                         spec.objective of the study
  gpubench advise three-cnns --goal imagenet --max-hours 48          the cheapest within two days
  gpubench advise three-cnns --goal imagenet --minimize Time --max-cost 500
  gpubench advise results/quickstart-20261101T120000Z --samples 60000000
"""


def add_advise_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "advise",
        help="which pool, how many workers, at what cost, and how sure",
        description="Say which pool and how many workers reach a goal at the least cost or in the least time, by what "
        "a study has measured and by what the law of its lines predicts.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
    parser.add_argument("--goal", metavar="GOAL", help="one of spec.goals; that of spec.objective by default")
    parser.add_argument("--samples", type=_samples, metavar="N", help="samples to train, instead of a goal")
    parser.add_argument("--workload", help="with --samples, where the study has several")
    parser.add_argument("--minimize", choices=("Cost", "Time"), help="Cost by default, Time with --max-cost")
    parser.add_argument("--max-hours", type=_hours, metavar="HOURS", help="how long it may take, with the least cost")
    parser.add_argument("--max-cost", type=_amount, metavar="AMOUNT", help="what it may cost, with the least time")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.set_defaults(command=advise)


def advise(arguments: argparse.Namespace) -> int:
    """Find the study, ask, print."""
    study = results.find_stored(arguments.name, namespace=arguments.namespace)
    if not study.status.results:
        raise Refusal(f"{study.name} has no results yet: `gpubench show` says how it stands")
    goal = _goal(study, arguments)
    objective = _objective(study, goal, arguments)
    plan = study.plan if objective.max_cost is None else _in_one_currency(study)
    found = advice.messages(plan, study.ledger, study.status.results, objective, [goal])
    if not conditions.holds(study.status.conditions, conditions.FINISHED):
        terminal.tell(f"{study.name} has not finished: this is advice on what it has measured so far")
    if study.repriced is not None:
        terminal.write(study.repriced.sentence)
    for sentence in found:
        terminal.write(sentence)
    return terminal.EXIT_DONE


def _goal(study: StoredStudy, arguments: argparse.Namespace) -> Goal:
    """What is to be trained."""
    if arguments.samples is not None:
        if arguments.goal is not None:
            raise Refusal("--goal and --samples both say what is to be trained: give one of them")
        return Goal(name=_GIVEN, workload=_workload(study, arguments.workload), samples=arguments.samples)
    if arguments.workload is not None:
        raise Refusal("--workload says of what --samples are, and there are none: give --samples, or a --goal alone")
    goals = {goal.name: goal for goal in study.spec.goals}
    wanted = arguments.goal or (study.spec.objective.goal if study.spec.objective is not None else None)
    if wanted is None and len(goals) == 1:
        wanted = next(iter(goals))
    if wanted is None:
        listed = ", ".join(goals) or "it has none"
        raise Refusal(
            f"{study.name} has no spec.objective: name one of its goals with --goal ({listed}), "
            "or say how much is to be trained with --samples"
        )
    if wanted not in goals:
        raise Refusal(f"{study.name} has no goal {wanted}: it has {', '.join(goals) or 'none'}")
    return goals[wanted]


def _workload(study: StoredStudy, named: str | None) -> str:
    there = list(dict.fromkeys(point.workload for point in study.status.results))
    if named is None and len(there) == 1:
        return there[0]
    if named not in there:
        raise Refusal(f"--workload must be one of the study's, and is {named or 'not given'}: {', '.join(there)}")
    return named


def _objective(study: StoredStudy, goal: Goal, arguments: argparse.Namespace) -> Objective:
    """The question: that of the study where no other is asked."""
    asked = (arguments.minimize, arguments.max_hours, arguments.max_cost)
    own = study.spec.objective
    if own is not None and asked == (None, None, None):
        return own.model_copy(update={"goal": goal.name})
    minimize = arguments.minimize or ("Time" if arguments.max_cost is not None else "Cost")
    if minimize == "Cost" and arguments.max_cost is not None:
        raise Refusal("--max-cost is a limit of the least time: leave --minimize out, or set it to Time")
    if minimize == "Time" and arguments.max_hours is not None:
        raise Refusal("--max-hours is a limit of the least cost: leave --max-cost out and set --minimize to Cost")
    return Objective(minimize=minimize, goal=goal.name, max_hours=arguments.max_hours, max_cost=arguments.max_cost)


def _in_one_currency(study: StoredStudy) -> Plan:
    """The plan with the currency that --max-cost is in."""
    if study.plan.currency is not None:
        return study.plan
    rates = [pool_prices.planned_rate(study.plan, pool.name) for pool in study.plan.pools]
    currencies = sorted({rate.currency for rate in rates if rate is not None})
    if len(currencies) != 1:
        listed = " and ".join(currencies) or "none, for no pool has a price"
        raise Refusal(f"{study.name} has no currency that --max-cost could be in: its prices are in {listed}")
    return study.plan.model_copy(update={"currency": currencies[0]})


def _samples(text: str) -> int:
    if not re.fullmatch("[0-9]{1,16}", text) or not 1 <= int(text) <= _SAMPLES_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of samples from 1 to {_SAMPLES_MAX:,}")
    return int(text)


def _hours(text: str) -> float:
    if not re.fullmatch(units.DECIMAL_PATTERN, text) or not Decimal("0.01") <= Decimal(text) <= 100_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of hours from 0.01 to 100,000, such as 48")
    return float(text)


def _amount(text: str) -> str:
    if not re.fullmatch(units.DECIMAL_PATTERN, text) or Decimal(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no amount above 0, such as 500 or 12.50")
    return text


# --- gpubench reprice -------------------------------------------------------------------------------------------------


def add_reprice_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "reprice",
        help="what a study costs at other prices; runs nothing",
        description="Compute every cost of a study again from its stored measurements, at the prices of the GpuPools "
        "in a file: price, ownership and capacityType of these, all else as it was measured. Pools of the study that "
        "are not in the file keep their prices.",
    )
    parser.add_argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
    parser.add_argument("--pools", type=Path, required=True, metavar="FILE", help="GpuPools with the prices")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a new results folder, marked as re-priced")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    show.add_output_to(parser)
    parser.set_defaults(command=reprice)


def reprice(arguments: argparse.Namespace) -> int:
    """Find, re-price, show, write."""
    pools = documents.read(arguments.pools).pools
    if arguments.out is not None and results.is_results_folder(Path(arguments.name)):
        again = to_folder(Path(arguments.name), arguments.pools, pools, out=arguments.out)
    elif arguments.out is not None:
        again = _exported(arguments, pools)
    else:
        again = repriced(results.find_stored(arguments.name, namespace=arguments.namespace), arguments.pools, pools)
    show.print_studies([_shown(again)], output=arguments.output)
    if arguments.out is not None:
        terminal.tell(f"results: {arguments.out}")
    return terminal.EXIT_DONE


def repriced(study: StoredStudy, path: Path, pools: Sequence[GpuPool]) -> StoredStudy:
    """The study at the prices of a file; Refusal where they are none for it."""
    if wrong := [f"{path}: {sentence}" for sentence in repricing.problems(study.plan, pools)]:
        raise Refusal(*wrong)
    for sentence in repricing.remarks(study.plan, pools):
        terminal.tell(f"{path}: {sentence}")
    plan = repricing.repriced(study.plan, pools)
    kept = repricing.kept(study.plan, pools)
    return study._replace(
        plan=plan,
        status=repricing.status(plan, study.ledger, study.spec, study.status),
        repriced=Repriced(
            at=rfc3339(time.time()),
            prices=path.name,
            pools=tuple(pool.name for pool in plan.pools if pool.name not in kept),
            kept=kept,
        ),
    )


def to_folder(source: Path, path: Path, pools: Sequence[GpuPool], *, out: Path) -> StoredStudy:
    """The study of a results folder at the prices of a file, and as a folder of its own."""
    study = repriced(results.stored_in_folder(source), path, pools)
    summary = results.read_summary(source)
    folder = ResultsFolder.create(out, study_text=_text(results.study_path(source)), plan=study.plan)
    folder.copy_measurements(source)
    assert study.repriced is not None
    digest = folder.write_prices(path.read_bytes())
    marked = study.repriced.model_copy(update={"digest": digest})
    folder.write(summary.model_copy(update={"status": study.status, "repriced": marked}))
    return study._replace(source=str(out), repriced=marked)


def _exported(arguments: argparse.Namespace, pools: Sequence[GpuPool]) -> StoredStudy:
    """The study of the cluster as a re-priced folder: it is exported first, with the windows that are still there."""
    if "/" in arguments.name or Path(arguments.name).is_dir():
        raise Refusal(f"{arguments.name}: this is no results folder of `gpubench run`")
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with tempfile.TemporaryDirectory(prefix="gpubench-") as scratch, cluster.connect(arguments.namespace) as place:
        source = Path(scratch) / arguments.name
        terminal.tell(results.export(place, arguments.name, source))
        return to_folder(source, arguments.pools, pools, out=arguments.out)


def _text(path: Path) -> str:
    """With its ends of lines as they are: the plan has a digest of the bytes."""
    return path.read_bytes().decode()


def _shown(study: StoredStudy) -> show.Shown:
    return show.Shown(
        name=study.name, source=study.source, spec=study.written, status=study.status, repriced=study.repriced
    )
