# SPDX-License-Identifier: Apache-2.0
"""Which repeats beyond the minimum are needed: a pure function of the plan and of what has been measured so far.

The first `min` repeats of a point always run. A later one starts only when all before it have been measured and their
figure is not precise enough; so none starts that may turn out not to be needed, however many trials run at a time.
Nothing is remembered: what the ledger has it keeps, so that every look, also after a crash, comes to the same end. How
strict the rule is stands in the plan, so that it does for another version, too.

Must not happen: a trial that has begun is not counted; a point ends with fewer than `min` or more than `max` repeats.
"""

from collections.abc import Iterator, Mapping, Sequence

from gpubench.analysis import results
from gpubench.plan.plan import Plan, Trial
from gpubench.scheduler import stopped
from gpubench.scheduler.retries import Standing, TrialStanding
from gpubench.stats import stopping, wanted
from gpubench.stats.stopping import Wanted


def judged(plan: Plan, standings: Mapping[str, TrialStanding]) -> dict[str, TrialStanding]:
    """The standings; trials beyond the minimum that wait are needed now, held back, or not needed any more."""
    found = dict(standings)
    asked = wanted.of_plan(plan)
    if asked is not None:
        for trials in plan.repeats_of_points():
            found.update(_judged(plan, trials, standings, asked))
    return found


def least(plan: Plan, standings: Mapping[str, TrialStanding]) -> int:
    """Trials of the plan if no point needs another one than those that have begun or must run."""
    may_not = (Standing.HELD, Standing.NOT_NEEDED)
    return sum(standings[trial.id].standing not in may_not for trial in plan.trials)


def _judged(
    plan: Plan, trials: Sequence[Trial], standings: Mapping[str, TrialStanding], asked: Wanted
) -> Iterator[tuple[str, TrialStanding]]:
    """The trials of one point, repeat by repeat."""
    before: list[TrialStanding] = []  # repeats that have been measured
    over = any(standings[trial.id].standing is Standing.GIVEN_UP for trial in trials)
    for trial in trials:
        standing = standings[trial.id]
        if standing.standing is Standing.MEASURED:
            before.append(standing)
        elif standing.standing is Standing.WAITING and not plan.is_certain(trial):
            complete = len(before) == trial.repeat
            over = over or (complete and not _another(plan, before, asked))
            if over or not complete:
                verdict = Standing.NOT_NEEDED if over else Standing.HELD
                yield trial.id, standing.model_copy(update={"standing": verdict})


def _another(plan: Plan, before: Sequence[TrialStanding], asked: Wanted) -> bool:
    if len(results.grounds(before)) > 1:
        return False  # they are not averaged, and a further one cannot mend that
    found = [standing.result for standing in before if standing.result is not None]
    return stopping.another(stopped.figures(plan, found), asked)
