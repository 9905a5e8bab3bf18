# SPDX-License-Identifier: Apache-2.0
"""The verdict on a history of real runs, so that it is not made for a simulated idea of noise alone.

`recorded_history.json` is what a schedule on the embedded cluster kept of runs of two real Horovod ranks, as its
ConfigMap had it; `make bench-history` writes such a file, and says what became slower before which run.
"""

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

import histories
from gpubench.api.schedule import GpuBenchmarkScheduleSpec
from gpubench.schedule import history, runs
from gpubench.schedule.runs import Decision

RECORDED: dict[str, Any] = json.loads(Path(__file__).with_name("recorded_history.json").read_text(encoding="utf-8"))
ENTRIES = history.read([RECORDED["data"]])
SLOW_FROM: int = RECORDED["slowFrom"]  # counted from 1


def test_every_recorded_run_is_read_and_has_its_figure_nodes_and_environment() -> None:
    assert len(ENTRIES) == len(RECORDED["data"]) > SLOW_FROM
    for entry in ENTRIES:
        (figure,) = entry.figures
        assert figure.settled
        assert figure.nodes == ("cpu-0", "cpu-1")
        assert figure.environment_key == ENTRIES[0].figures[0].environment_key
        assert [facts.environment for facts in entry.environments] == [figure.environment]


def test_the_slowdown_is_dated() -> None:
    (found,) = histories.regressions(ENTRIES)
    # Though the run before was slow by chance: the machine had other things to do.
    assert found.run == ENTRIES[SLOW_FROM - 1].name
    assert (found.runs_before, found.runs_since) == (SLOW_FROM - 1, len(ENTRIES) - SLOW_FROM + 1)
    assert found.nodes == ("cpu-0", "cpu-1")
    speeds = [entry.figures[0].mean for entry in ENTRIES]
    before, since = speeds[: SLOW_FROM - 1], speeds[SLOW_FROM - 1 :]
    assert found.speed.mean == pytest.approx(statistics.mean(since) / statistics.mean(before), rel=0.01)


def test_it_is_reported_when_four_runs_confirm_it_and_never_before() -> None:
    found = {
        count: regressions[0].run
        for count in range(1, len(ENTRIES) + 1)
        if (regressions := histories.regressions(ENTRIES[:count]))
    }
    assert found == dict.fromkeys(range(SLOW_FROM + 2, len(ENTRIES) + 1), ENTRIES[SLOW_FROM - 1].name)


def test_the_condition_says_since_when() -> None:
    sweep = [{"workloads": ["trivial"], "pools": ["cpu"], "workers": [2], "batchPerWorker": [32]}]
    spec = GpuBenchmarkScheduleSpec.model_validate(
        {"schedule": "* * * * *", "benchmarkTemplate": {"spec": {"sweep": sweep}}}
    )
    series = history.series(ENTRIES, spec.regressions)
    made = runs.status(
        spec, Decision(), ENTRIES, series=series, monthly=None, generation=1, now=ENTRIES[-1].finished_at
    )
    regressed = next(one for one in made.conditions if one.type == runs.REGRESSED)
    assert (regressed.status, regressed.reason) == ("True", runs.SLOWER)
    assert (
        f"({ENTRIES[SLOW_FROM - 1].name}): {len(ENTRIES) - SLOW_FROM + 1} runs against {SLOW_FROM - 1}"
        in regressed.message
    )
