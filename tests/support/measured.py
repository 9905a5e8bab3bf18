# SPDX-License-Identifier: Apache-2.0
"""Studies that have been measured, as results folders and as results, from the rates that their repeats gave."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import builders
from gpubench.analysis.points import point_results
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.condition import Condition
from gpubench.api.goals import Goal
from gpubench.api.point_result import PointResult
from gpubench.plan.plan import Plan
from gpubench.records import Training
from gpubench.scheduler import trials
from gpubench.scheduler.ledger import Ledger, Outcome, Reason
from gpubench.scheduler.trials import TrialStatus
from gpubench.scheduler.trials import status as standing
from gpubench_cli.results import ResultsFolder, Summary

AT = "2026-11-01T00:00:00Z"


def results(
    plan: Plan,
    rates: Mapping[int, Sequence[float]],
    *,
    environment: str = "env",
    trainings: Mapping[int, Sequence[Training]] | None = None,
) -> tuple[PointResult, ...]:
    """The results of a plan whose points, by their index, were measured with these rates, one for each repeat."""
    attempts = ledger(plan, rates, environment=environment, trainings=trainings).by_trial
    standings = {trial.id: standing(attempts.get(trial.id, ()), plan.attempts) for trial in plan.trials}
    return of_trials(plan, standings)


def of_trials(
    plan: Plan, states: Mapping[str, TrialStatus], goals: Sequence[Goal] = (), **fields: Any
) -> tuple[PointResult, ...]:
    """The results of a plan whose trials came to these states."""
    points = trials.points(plan.repeats_of_points(), plan, states, fields.get("known", {}))
    return point_results(plan, states, points, goals, **fields)


def ledger(
    plan: Plan,
    rates: Mapping[int, Sequence[float]],
    *,
    environment: str = "env",
    trainings: Mapping[int, Sequence[Training]] | None = None,
) -> Ledger:
    """The attempts that gave these rates: one for each repeat, and none of what has no rate."""
    records = []
    for trial in plan.trials:
        of_point = rates.get(trial.point, ())
        if trial.repeat < len(of_point):
            training = (trainings or {}).get(trial.point)
            result = builders.result(
                trial=trial.id,
                rate=of_point[trial.repeat],
                environment=environment,
                training=training[trial.repeat] if training is not None else None,
            )
            records.append(
                builders.attempt(
                    trial=trial.id, outcome=Outcome.SUCCEEDED, reason=Reason.COMPLETED, result=result, nodes=("node-0",)
                )
            )
    return Ledger().with_records(records)


def finished_status(
    plan: Plan,
    rates: Mapping[int, Sequence[float]],
    *,
    environment: str = "env",
    trainings: Mapping[int, Sequence[Training]] | None = None,
) -> FullStatus:
    """The status of a study that is over, with its points and nothing else."""
    found = results(plan, rates, environment=environment, trainings=trainings)
    over = Condition(type="Finished", status="True", reason="x", message="done", last_transition_time=AT)
    return FullStatus(phase="Succeeded", results=found, conditions=(over,))


def folder(
    path: Path,
    plan: Plan,
    rates: Mapping[int, Sequence[float]],
    *,
    name: str | None = None,
    environment: str = "env",
    trainings: Mapping[int, Sequence[Training]] | None = None,
    study_text: str = "a: 1\n",
) -> Path:
    """A results folder as `gpubench run` leaves it, without logs."""
    made = ResultsFolder.create(path, study_text=study_text, plan=plan)
    status = finished_status(plan, rates, environment=environment, trainings=trainings)
    made.write(Summary(name=name or path.name, uid="u", machine="here", status=status))
    return made.path
