# SPDX-License-Identifier: Apache-2.0
"""A watch tells each thing once, survives an API server that is away, and gives up in the end."""

from collections.abc import Callable
from typing import Any

import pytest

import builders
from gpubench.scheduler import step
from gpubench.scheduler.ledger import Ledger
from gpubench_cli import cluster, show, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube
from world import decide


class Away(kube.TemporaryError):
    """Stands in for an API server that does not answer."""


class Lines(terminal.Progression):
    """Keeps the lines instead of printing them."""

    def __init__(self) -> None:
        super().__init__(name="test")
        self.lines: list[str] = []

    def line(self, text: str) -> None:
        self.lines.append(text)


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds


def point(state: str, **fields: Any) -> dict[str, Any]:
    return {"key": "mnist_cnn/cpu/1", "state": state, **fields}


def condition(type_: str, status: str, message: str = "m") -> dict[str, str]:
    time = "2026-11-01T00:00:00Z"
    return {"type": type_, "status": status, "reason": "r", "message": message, "lastTransitionTime": time}


def benchmark(
    *conditions: dict[str, str], finished: int = 0, points: tuple[dict[str, Any], ...] = ()
) -> dict[str, Any]:
    return {
        "status": {
            "phase": "Running",
            "conditions": list(conditions),
            "trials": {"total": 3, "finished": finished},
            "results": list(points),
        }
    }


END = benchmark(
    condition("Finished", "True"),
    condition("Succeeded", "True"),
    finished=3,
    points=(point("Measured", summary="100.0 ± 1.0 samples/s"),),
)


def follow(answers: list[dict[str, Any] | Exception], clock: Clock) -> list[str]:
    progression = Lines()
    show.follow(
        reader(answers), name="b", progression=progression, sleep=clock.sleep, now=clock.now
    )  # fmt: skip
    return progression.lines


def reader(answers: list[dict[str, Any] | Exception]) -> Callable[[], dict[str, Any]]:
    """Gives each answer once and the last one for ever."""

    def read() -> dict[str, Any]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return read


def test_each_thing_is_told_once() -> None:
    running = benchmark(finished=1, points=(point("Running"),))
    pending = benchmark(condition("GangPending", "True", "pod x has no node: 0/3 nodes"), finished=1)
    lines = follow([running, running, pending, pending, END], Clock())
    assert lines == [
        "1 of 3 trials have finished",
        "warning: pod x has no node: 0/3 nodes",
        "3 of 3 trials have finished",
        "Measured: mnist_cnn/cpu/1: 100.0 ± 1.0 samples/s",
    ]


def test_a_number_of_trials_that_may_fall_is_told_as_a_range() -> None:
    def of(finished: int, **trials: int) -> dict[str, Any]:
        running = benchmark(finished=finished)
        running["status"]["trials"] |= trials
        return running

    lines = follow([of(1, total=10, least=3), of(3, total=8, least=4), of(4, total=4), END], Clock())
    assert lines[:3] == [
        "1 of 3 to 10 trials have finished",
        "3 of 4 to 8 trials have finished",
        "4 of 4 trials have finished",
    ]


def waiting_for_pools() -> dict[str, Any]:
    before = builders.study(builders.spec(builders.block(pools=["gke-a100"])))
    begun = step.begin(before, (), before.created_at)
    assert isinstance(begun, step.NotYet)
    return {"status": begun.status.to_wire()}


def suspended() -> dict[str, Any]:
    study = builders.study(builders.spec(suspend=True))
    decision = decide(builders.plan(study.spec), Ledger(), builders.observed(study), builders.NOW)
    return {"status": decision.short.to_wire()}


def test_why_nothing_goes_on_is_told_once_in_the_words_of_the_condition() -> None:
    lines = follow([waiting_for_pools(), waiting_for_pools(), suspended(), suspended(), END], Clock())
    assert lines[:2] == [
        "Pending: waiting for GpuPool gke-a100, not there yet: apply it",
        "Suspended: it is suspended: set spec.suspend to false to go on",
    ]
    assert len([line for line in lines if "waiting" in line or "suspend" in line]) == 2


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (waiting_for_pools(), "waiting for GpuPool gke-a100, not there yet: apply it"),
        (suspended(), "it is suspended: set spec.suspend to false to go on"),
        (benchmark(condition("GangPending", "True", "pod x has no node")), "pod x has no node"),
        (benchmark(condition("Admitted", "False", "Job x waits in queue team-a")), "Job x waits in queue team-a"),
        (benchmark(condition("GangPending", "True", "pod x has no node"), points=(point("Running"),)), "pod x has"),
        (benchmark(condition("Finished", "False", "0 of 2 points have ended")), "0 of 2 points have ended"),
    ],
)
def test_a_study_that_waits_is_shown_with_the_reason_once(
    capsys: pytest.CaptureFixture[str], found: dict[str, Any], says: str
) -> None:
    show.show_status("b", "here", cluster.read_status(found["status"], name="b"))
    stand, sentence, *rest = capsys.readouterr().out.splitlines()
    assert stand.startswith("b (here): ")
    assert sentence.startswith(says)
    assert not any(says in line for line in rest)


def test_what_no_longer_holds_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    over = benchmark(condition("Suspended", "False", "the study goes on"), condition("GangPending", "False", "placed"))
    show.show_status("b", "here", cluster.read_status(over["status"], name="b"))
    assert capsys.readouterr().out == "b (here): Running, 0 of 3 trials\nThere are no results yet.\n"


def test_an_api_server_that_is_away_for_a_while_is_waited_for() -> None:
    clock = Clock()
    lines = follow([benchmark(), *[Away("the cluster does not answer")] * 30, END], clock)
    assert lines.count("the cluster does not answer; trying again") == 1
    assert clock.seconds >= 60


def test_an_api_server_that_stays_away_is_given_up() -> None:
    clock = Clock()
    with pytest.raises(Away):
        follow([benchmark(), Away("the cluster does not answer")], clock)
    assert show.PATIENCE_SECONDS <= clock.seconds < show.PATIENCE_SECONDS + 10


def test_an_object_that_is_deleted_ends_the_watch_at_once() -> None:
    with pytest.raises(CliError, match="there is no GpuBenchmark"):
        follow([benchmark(), CliError("there is no GpuBenchmark b")], Clock())


def test_a_study_that_nobody_looks_at_is_pointed_out() -> None:
    lines = follow([*[{"metadata": {}}] * 20, END], Clock())
    assert lines.count("it has no status yet: is gpubench's operator running?") == 1
