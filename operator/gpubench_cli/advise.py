# SPDX-License-Identifier: Apache-2.0
"""`gpubench advise NAME`: which pool and how many workers, for a goal, from what a study has measured. Runs nothing.

The same advice as `spec.objective` puts into `status.answer`, for another question.
"""

import argparse
import re
from decimal import Decimal

from gpubench import units
from gpubench.analysis import advice
from gpubench.api.goals import Goal, Objective
from gpubench.plan import pool_prices
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions
from gpubench_cli import refusal, stored, terminal
from gpubench_cli.refusal import Refusal
from gpubench_cli.stored import StoredStudy

_GIVEN = "given"
_SAMPLES_MAX = 10**15
_EPILOG = """\
  gpubench advise three-cnns                                         spec.objective of the study
  gpubench advise three-cnns --goal imagenet --max-hours 48          the cheapest within two days
  gpubench advise three-cnns --goal imagenet --minimize Time --max-cost 500
  gpubench advise results/quickstart-20261101T120000Z --samples 60000000
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
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
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Find the study, ask, print."""
    study = stored.find(arguments.name, namespace=arguments.namespace)
    if not study.status.results:
        raise Refusal(f"{study.name} has no results yet: `gpubench show` says how it stands")
    goal = _goal(study, arguments)
    objective = _objective(study, goal, arguments)
    plan = study.plan if objective.max_cost is None else _in_one_currency(study)
    found = advice.sentences(plan, study.ledger, study.status.results, objective, [goal])
    if not conditions.holds(study.status.conditions, conditions.FINISHED):
        terminal.tell(f"{study.name} has not finished: this is advice on what it has measured so far")
    if study.repriced is not None:
        terminal.write(study.repriced.sentence)
    for sentence in found:
        terminal.write(sentence)
    return refusal.EXIT_DONE


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
