# SPDX-License-Identifier: Apache-2.0
"""Files of GpuBenchmarkSchedules: what is wrong in them, when they would run, what one run is, what a month costs."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import command_line
from gpubench.schedule import cron
from gpubench_cli import documents, plan, run

SCHEDULES = Path(__file__).parents[2] / "jobs" / "examples" / "schedules"
FILE = (SCHEDULES / "recurring-task-gke.yaml").read_text()


def gpubench(*arguments: str, folder: Path) -> command_line.Ended:
    """In this process, without a cluster."""
    return command_line.called(*arguments, folder=folder, environment={"KUBECONFIG": str(folder / "none")})


def refused(text: str, *command: str, folder: Path) -> str:
    """What is said of a file; nothing goes to standard output."""
    (folder / "schedule.yaml").write_text(text)
    ended = gpubench(*(command or ("validate",)), "schedule.yaml", folder=folder)
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stdout
    return ended.stderr


def line_of(text: str, word: str) -> int:
    """Counted from 1."""
    return next(number for number, line in enumerate(text.splitlines(), start=1) if word in line)


@pytest.mark.parametrize("path", sorted(SCHEDULES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schedules_that_are_shipped_are_valid_and_can_be_planned(path: Path, tmp_path: Path) -> None:
    validated = gpubench("validate", str(path), folder=tmp_path)
    assert validated.returncode == 0, validated.stderr
    for schedule in documents.read(path).schedules:
        assert f"GpuBenchmarkSchedule {schedule.name}" in validated.stdout
        planned = gpubench("plan", str(path), "--name", schedule.name, folder=tmp_path)
        assert planned.returncode == 0, planned.stderr
        assert "Next runs, " in planned.stdout
        assert "A month of " in planned.stdout


@pytest.mark.parametrize(
    ("old", "new", "word", "said"),
    [
        ('"0 */4 * * *"', '"61 * * * *"', "schedule:", "spec.schedule has '61' for the minute: it is from 0 to 59"),
        ('"0 */4 * * *"', '"0 0 30 2 *"', "schedule:", "names a day that no year has: choose another one"),
        ('"0 */4 * * *"', "every hour", "schedule:", "write the five fields of cron, such as 0 */4 * * *"),
        ("schedule: ", "timeZone: Nowhere/City\n  schedule: ", "timeZone:", "is no time zone of the IANA database"),
        ("schedule: ", "failedHistoryLimit: 101\n  schedule: ", "failedHistoryLimit:", "spec.failedHistoryLimit"),
        ("  name: recurring\nspec:\n  schedule", f"  name: {'a' * 30}\nspec:\n  schedule", "a" * 30, "29 characters"),
        ("repeats: {min: 1}", "repeats: {min: 0}", "min: 0", "spec.benchmarkTemplate.spec.measure.repeats.min"),
        ("preempted: 3", "evicted: 3", "evicted", "spec.benchmarkTemplate.spec.limits.attempts.evicted"),
        ("hoursPerMonth: 730", "hoursPerMonth: 745", "hoursPerMonth", "spec.costs.hoursPerMonth"),
    ],
)
def test_what_is_wrong_is_said_with_its_line_and_its_whole_path(
    old: str, new: str, word: str, said: str, tmp_path: Path
) -> None:
    assert FILE.count(old) == 1
    text = FILE.replace(old, new)
    message = refused(text, folder=tmp_path)
    assert f"schedule.yaml:{line_of(text, word)}: " in message
    assert said in message


def test_the_plan_of_a_schedule_has_the_form_that_is_asked_for(tmp_path: Path) -> None:
    path = str(SCHEDULES / "recurring-task-gke.yaml")
    printed = {form: gpubench("plan", path, "-o", form, folder=tmp_path).stdout for form in ("json", "yaml")}
    assert json.loads(printed["json"])["schedule"] == yaml.safe_load(printed["yaml"])["schedule"] == "recurring"
    assert not printed["yaml"].startswith("{")


def test_what_is_said_of_a_run_has_the_line_of_the_template() -> None:
    (schedule,) = documents.read(SCHEDULES / "recurring-task-gke.yaml").schedules
    assert schedule.run("first").at("sweep").endswith(f":{line_of(FILE, 'sweep:')}")


def test_a_schedule_whose_pool_is_nowhere_is_not_planned_and_says_which(tmp_path: Path) -> None:
    text = yaml.safe_dump(yaml.safe_load(FILE.split("---\n")[2]))  # the schedule without its pool
    message = refused(text, "plan", folder=tmp_path)
    assert "1 pool not in the files, nor read from a cluster: GpuPool recurring" in message


@pytest.mark.parametrize("option", [("--scale", "0.1"), ("--pool", "local-cpu")])
def test_what_makes_a_study_smaller_is_not_for_schedules(option: tuple[str, ...], tmp_path: Path) -> None:
    message = refused(FILE, "plan", *option, folder=tmp_path)
    assert f"{option[0]} is for GpuBenchmarks: recurring is a schedule" in message


def test_a_schedule_is_not_run_on_this_machine(tmp_path: Path) -> None:
    message = refused(FILE, "run", folder=tmp_path)
    assert "there is no GpuBenchmark in this file, but GpuBenchmarkSchedule recurring" in message


def test_of_a_schedule_beside_a_benchmark_is_said_that_nothing_becomes_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    benchmark = yaml.safe_load(FILE.split("---\n")[2])
    benchmark["kind"], benchmark["spec"] = "GpuBenchmark", benchmark["spec"]["benchmarkTemplate"]["spec"]
    (tmp_path / "both.yaml").write_text(f"{FILE}---\n{yaml.safe_dump(benchmark)}")
    found = documents.read(tmp_path / "both.yaml")
    assert found.schedule(None) is None  # the benchmark is meant
    assert found.schedule("recurring") is None  # and where both have the name, too
    run.tell_of_schedules(found)
    assert "GpuBenchmarkSchedule recurring has no effect here" in capsys.readouterr().err


def test_of_several_schedules_one_is_chosen(tmp_path: Path) -> None:
    text = (SCHEDULES / "cheap-cron-2018.yaml").read_text()
    assert "choose one with --name (cheap-cron-4h, " in refused(text, "plan", folder=tmp_path)


def test_the_published_month_comes_out_of_the_plan_with_its_hours(tmp_path: Path) -> None:
    path = SCHEDULES / "cheap-cron-2018.yaml"
    shown = gpubench("plan", str(path), "--name", "cheap-cron-4h", folder=tmp_path).stdout
    assert "A month of 720 hours: USD 0.76: 180 runs in 720 hours" in shown
    assert [line.split()[-1] for line in shown.splitlines() if line.startswith("total ")] == ["0.760008"]


def test_programs_get_the_runs_the_month_and_the_plan_of_one_run(tmp_path: Path) -> None:
    path = SCHEDULES / "recurring-task-gke.yaml"
    ended = gpubench("plan", str(path), "--output", "json", folder=tmp_path)
    told: dict[str, Any] = json.loads(ended.stdout)
    assert told["schedule"] == "recurring"
    assert told["timeZone"] == "UTC"
    assert [moment[14:] for moment in told["nextRuns"]] == ["00:00Z"] * 5
    assert (told["monthly"]["hours"], told["monthly"]["runs"]) == (730, "182.5")
    assert [point["key"]["workload"] for point in told["plan"]["points"]] == ["mnist_mlp"]


def test_the_next_runs_are_shown_by_the_clocks_of_the_time_zone() -> None:
    """In Berlin the clocks were put back on 2026-10-25."""
    (schedule,) = documents.read(SCHEDULES / "weekly-fleet-check.yaml").schedules
    table = cron.timetable(schedule.spec.schedule, time_zone=schedule.spec.time_zone)
    first, *_ = plan.schedule_messages(schedule.spec, table, plan.next_runs(table, 1_792_200_000.0))  # 2026-10-17
    assert "in time zone Europe/Berlin: 2026-10-18T03:00+02:00, 2026-10-25T03:00+01:00, " in first


def test_a_suspended_schedule_says_so() -> None:
    (schedule,) = documents.read(SCHEDULES / "recurring-task-gke.yaml").schedules
    table = cron.timetable(schedule.spec.schedule)
    spec = schedule.spec.model_copy(update={"suspend": True})
    assert "Suspended: no run starts until spec.suspend is false." in plan.schedule_messages(spec, table, (0,))
