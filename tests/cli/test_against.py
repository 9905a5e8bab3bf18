# SPDX-License-Identifier: Apache-2.0
"""A local run that has to keep up with a results folder: the same freezing and the same verdict as in a cluster."""

import shutil
from functools import partial
from pathlib import Path

import pytest

import builders
import measured
from gpubench.analysis import comparison
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import Judgement
from gpubench.plan.plan import Plan
from gpubench.scheduler import step
from gpubench_cli import run, show
from world import world

SPEED = (99.0, 100.0, 101.0)
SPEC = builders.spec(builders.block(workers=[1]))


@pytest.fixture
def last_week(tmp_path: Path) -> Path:
    return measured.folder(tmp_path / "last-week", builders.plan(SPEC), {0: SPEED})


def finished(folder: Path, *, factor: float) -> FullStatus:
    """A study against the folder, which is gone before the first trial runs."""
    study, reference = run.against(builders.study(SPEC), folder)
    plan = step.begin(
        study,
        (builders.pool(),),
        builders.NOW,
        with_baseline=partial(comparison.with_baseline, wanted=study.spec.compare_to, found=reference),
    )
    assert isinstance(plan, Plan)
    shutil.rmtree(folder)
    rates = {trial.id: factor * SPEED[trial.repeat] for trial in plan.trials}

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, rate=rates[trial]))

    return world(study, plan, fate=fate).run()


@pytest.mark.parametrize(
    ("factor", "verdict", "code"),
    [(1.0, Judgement.PASS, 0), (0.8, Judgement.FAIL, 1), (0.95, Judgement.CANNOT_TELL, 0)],
)
def test_a_run_is_as_fast_as_the_folder_or_ends_with_1(
    last_week: Path, factor: float, verdict: Judgement, code: int
) -> None:
    status = finished(last_week, factor=factor)
    assert status.comparison is not None
    assert status.comparison.verdict is verdict
    assert run.exit_code(status) == code


def test_results_show_the_comparison(last_week: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show.show_status("today", "here", finished(last_week, factor=0.8))
    assert "Fail, compared with last-week: 1 of 1 point is more than 5 % slower" in capsys.readouterr().out


def test_the_tolerance_is_the_studys_own(last_week: Path) -> None:
    named = SPEC.model_validate(SPEC.to_wire() | {"compareTo": {"benchmark": "other", "tolerance": "0.5"}})
    study, _ = run.against(builders.study(named), last_week)
    assert study.spec.compare_to is not None
    assert (study.spec.compare_to.benchmark, study.spec.compare_to.tolerance) == ("last-week", "0.5")


def test_a_baseline_in_a_cluster_is_not_looked_for_here(capsys: pytest.CaptureFixture[str]) -> None:
    named = SPEC.model_validate(SPEC.to_wire() | {"compareTo": {"benchmark": "other"}})
    assert run.against(builders.study(named), None)[1] is None
    assert "give its results folder with --against" in capsys.readouterr().err
    assert run.against(builders.study(SPEC), None)[1] is None
    assert capsys.readouterr().err == ""
