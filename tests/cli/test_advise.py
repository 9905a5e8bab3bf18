# SPDX-License-Identifier: Apache-2.0
"""A question about a goal is answered from what a real study has measured, and a bad question by a sentence."""

from pathlib import Path

import pytest
import yaml

import builders
import measured
from gpubench import names
from gpubench.analysis import audit
from gpubench.plan.expand import freeze
from gpubench_cli import __main__ as program
from gpubench_cli import documents, results

HOURS_ENOUGH = "100000"


def asked(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    assert program.main(("advise", str(folder), *options)) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], folder: Path, *options: str) -> str:
    assert program.main(("advise", str(folder), *options)) == 2
    return capsys.readouterr().err


def test_samples_are_advised_by_the_points_of_a_real_study(
    recorded_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = asked(capsys, recorded_folder, "--samples", "1000000", "--max-hours", HOURS_ENOUGH)
    assert told.startswith(
        "Objective given (least cost of 1,000,000 samples of mnist_cnn in float32): Cheapest within 100,000 hours: "
    )
    assert " on local-cpu (on demand), " in told
    assert "USD 0.0" in told
    fastest = asked(capsys, recorded_folder, "--samples", "1000000", "--max-cost", "500")
    assert "Fastest for USD 500: " in fastest
    late = asked(capsys, recorded_folder, "--samples", "1000000000000", "--max-hours", "1")
    assert "1,000,000,000,000 samples cannot be trained within 1 hour: the fastest gang, " in late
    assert "on local-cpu (on demand), needs " in late


def test_the_goal_of_a_study_is_asked_by_its_name(trained_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = asked(capsys, trained_folder, "--goal", "much")
    assert told.startswith(
        "Objective much (least cost of 60,000,000 samples of mnist_mlp in float32, data Generated 2000, "
    )
    assert "There is no other gang to compare it with." in told
    assert told == asked(capsys, trained_folder), "its only goal"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ((), "quickstart has no spec.objective: name one of its goals with --goal (it has none)"),
        (("--goal", "imagenet"), "quickstart has no goal imagenet: it has none"),
        (("--goal", "imagenet", "--samples", "5"), "--goal and --samples both say what is to be trained"),
        (("--workload", "mnist_cnn"), "--workload says of what --samples are"),
        (
            ("--samples", "5", "--workload", "vgg16"),
            "--workload must be one of the benchmark's, and is vgg16: mnist_cnn",
        ),
        (("--samples", "5", "--minimize", "Cost", "--max-cost", "5"), "--max-cost is a limit of the least time"),
        (("--samples", "5", "--max-hours", "5", "--max-cost", "5"), "--max-hours is a limit of the least cost"),
    ],
)
def test_a_question_that_cannot_be_asked_is_a_sentence(
    recorded_folder: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], sentence: str
) -> None:
    assert sentence in refused(capsys, recorded_folder, *options)


@pytest.mark.parametrize(
    ("currencies", "listed"),
    [(("USD", "EUR"), "EUR and USD"), ((None, None), "none, for no pool has a price")],
    ids=["two", "none"],
)
def test_a_limit_of_cost_is_in_the_one_currency_of_the_prices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], currencies: tuple[str | None, ...], listed: str
) -> None:
    pools = [
        builders.pool(f"pool-{number}", price=one and {"per_node_hour": "0.90", "currency": one, "as_of": "2018-07-01"})
        for number, one in enumerate(currencies)
    ]
    spec = builders.spec(builders.block(pools=[pool.name for pool in pools]))
    plan = freeze(spec, pools, measured.AT)
    text = yaml.safe_dump(documents.as_object(names.BENCHMARK_KIND, "priced", spec.to_wire()))
    folder = measured.folder(tmp_path / "priced", plan, {0: (100.0, 101.0, 99.0)}, study_text=text)
    told = refused(capsys, folder, "--samples", "5", "--workload", "mnist_cnn", "--max-cost", "5")
    assert f"priced has no currency that --max-cost could be in: its prices are in {listed}" in told


@pytest.mark.parametrize("option", ["--samples=0", "--samples=x", "--max-hours=0", "--max-cost=0", "--max-cost=-5"])
def test_a_number_that_is_none_is_refused(recorded_folder: Path, option: str) -> None:
    assert program.main(("advise", str(recorded_folder), option)) == 2


def test_the_objective_of_a_study_is_answered_at_the_head_of_its_answer(trained_folder: Path) -> None:
    """By the same records: the status is derived again from a spec that asks."""
    study = results.stored(results.in_folder(trained_folder))
    document = {**study.spec.to_wire(), "objective": {"minimize": "Cost", "goal": "much", "maxHours": 100_000}}
    spec = type(study.spec).model_validate(document)
    found = audit.status_again(study.plan, study.ledger, spec, study.status)
    assert found.answer is not None
    assert found.answer.startswith("Objective much (least cost of 60,000,000 samples of mnist_mlp")
    assert study.status.answer is not None
    assert found.answer.endswith(study.status.answer), "and what the figures say comes after it"
