# SPDX-License-Identifier: Apache-2.0
"""What is written as JSON can be read again: an absent value is left out there, and reading must not ask for it."""

from typing import Any

from pydantic import TypeAdapter

import builders
from gpubench import names, records
from gpubench.api import messages, status_sizes, validate
from gpubench.api.point_result import EnvironmentFacts
from gpubench.api.pool import GpuPool
from gpubench.plan.plan import Baseline, BaselinePoint, Plan
from gpubench.records import Epoch, Training
from gpubench.scheduler import step


def test_an_epoch_of_a_workload_without_accuracy_comes_back() -> None:
    epoch = Epoch(
        index=0, steps=16, samples=2048, nanoseconds=10**9, evaluation_nanoseconds=10**8, loss=3.9, evaluation_loss=3.6,
        accuracy=None,
    )  # fmt: skip
    assert TypeAdapter(Epoch).validate_json(epoch.to_json()) == epoch


def test_an_epoch_without_held_out_samples_comes_back() -> None:
    epoch = Epoch(index=0, steps=16, samples=2048, nanoseconds=10**9, evaluation_nanoseconds=0, loss=3.9)
    assert TypeAdapter(Epoch).validate_json(epoch.to_json()) == epoch


def test_the_result_of_a_training_without_held_out_samples_comes_back() -> None:
    training = Training(
        epochs=10, nanoseconds=10**10, evaluation_nanoseconds=0, first_nanoseconds=10**9,
        first_evaluation_nanoseconds=0, first_samples=2048, loss=1.4,
    )  # fmt: skip
    result = builders.result().model_copy(update={"training": training})
    assert records.read_ending(builders.message(result)) == result


def test_a_plan_with_a_point_that_cannot_be_divided_comes_back() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[1, 3], globalBatch=[64])))
    assert [point.key.batch_per_worker for point in plan.points] == [64, None]
    assert Plan.model_validate_json(plan.to_json()) == plan


WIDE = "\x01"  # the character that takes most room in JSON: six bytes


def largest_study() -> dict[str, Any]:
    """A study with 256 points that all run, 2,560 trials, and texts that fill their bounds."""
    blocks = [
        builders.block(
            workloads=["Custom"],
            custom={"name": f"{'m' * 61}{index:02}", "file": "/" + WIDE * 1023},
            pools=["p" * 63],
            workers=[1998, 2000],
            batchPerWorker=[60_000_000 + 100 * index + step for step in range(8)],
            precision=["mixed_bfloat16"],
            data={"source": "Volume", "path": f"/{index:02}" + WIDE * 1021},
        )
        for index in range(16)
    ]
    blocks[0]["custom"] = {"name": "m" * 63, "command": [WIDE * 1024] * 15}
    blocks[1]["batchPerWorker"] = [1, 2]
    blocks[1]["variants"] = [
        {"name": f"{'v' * 39}{index}", "env": [{"name": "E", "value": WIDE * 4096}]} for index in range(4)
    ]
    rates = [
        {"from": f"EU{chr(ord('A') + index)}", "rate": "1.234567891", "asOf": "2018-02-28", "source": WIDE * 512}
        for index in range(16)
    ]
    return {
        "sweep": blocks,
        "measure": {"mode": "Training", "repeats": {"min": 10}},
        "currency": "USD",
        "exchangeRates": rates,
    }


def plan_with(*pools: GpuPool) -> Plan | step.NotYet:
    document = {
        "apiVersion": names.API_VERSION, "kind": "GpuBenchmark", "metadata": {"name": "big"}, "spec": largest_study(),
    }  # fmt: skip
    study = builders.study(validate.load_benchmark(document).spec)
    return step.begin(study, pools, builders.NOW)


def test_what_a_study_says_always_fits_a_config_map() -> None:
    found = plan_with(builders.pool("p" * 63, max_nodes=1000, slots_per_node=2))
    assert isinstance(found, Plan)
    assert (len(found.points), len(found.trials)) == (256, 2560)
    assert len(found.to_json().encode()) < step.PLAN_BYTES_MAX - 256 * 1024  # the rest is for pools
    assert Plan.model_validate_json(found.to_json()) == found


def test_a_plan_fits_with_a_baseline_of_all_its_points() -> None:
    found = plan_with(builders.pool("p" * 63, max_nodes=1000, slots_per_node=2))
    assert isinstance(found, Plan)
    figure = 123456.78901234567  # 17 significant digits are all that a double has
    points = tuple(
        BaselinePoint(
            point=index,
            quantity="Throughput",
            repeats=20,
            mean=figure,
            deviation=figure,
            environment=WIDE * 16,
            instance_type="x" * status_sizes.FACT_MAX,
        )
        for index in range(len(found.points))
    )
    version = "x" * status_sizes.FACT_MAX
    facts = dict.fromkeys(set(EnvironmentFacts.model_fields) - {"environment", "threads_per_rank"}, version)
    environments = (EnvironmentFacts(environment="x" * 16, **facts),) * status_sizes.ENVIRONMENTS_SHOWN_MAX
    baseline = Baseline(benchmark="b" * 40, tolerance="0.123456789", points=points, environments=environments)
    with_baseline = found.model_copy(update={"baseline": baseline})
    assert len(with_baseline.to_json().encode()) < step.PLAN_BYTES_MAX - 192 * 1024  # the rest is for pools
    assert Plan.model_validate_json(with_baseline.to_json()) == with_baseline


def test_a_study_whose_pools_do_not_fit_says_which_to_shorten() -> None:
    env = [{"name": f"E{index}", "value": WIDE * 4096} for index in range(64)]
    large = builders.pool("p" * 63, max_nodes=1000, slots_per_node=2, template={"env": env})
    found = plan_with(large)
    assert isinstance(found, step.NotYet)
    assert found.status is not None
    condition = found.status.conditions[0]
    assert (found.status.phase, condition.reason) == ("Pending", messages.PLAN_TOO_LARGE.reason)
    assert condition.message.startswith("the plan has ")
    assert f"shorten template.env of the pools (the largest is {'p' * 63})" in condition.message


def test_a_trial_has_the_content_of_its_variant_in_its_name() -> None:
    plain, xla = (
        builders.plan(builders.spec(builders.block(variants=[{"name": "one", "xla": xla}]))) for xla in (False, True)
    )
    assert not {trial.id for trial in plain.trials} & {trial.id for trial in xla.trials}
