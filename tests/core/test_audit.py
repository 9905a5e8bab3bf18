# SPDX-License-Identifier: Apache-2.0
"""Whether a status follows from its ledger, also where another version wrote its sentences."""

from collections.abc import Callable
from typing import Any

import pytest

import builders
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.control import audit
from gpubench.control.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench.measure.records import Machine

TERAFLOPS = (19.5, 19.4, 19.6, 19.5, 19.3, 19.5, 13.0)
SPEC = builders.spec(builders.block(workers=[1]), measure={"repeats": {"min": len(TERAFLOPS)}})
PLAN = builders.plan(SPEC)


def attempt(number: int, teraflops: float) -> AttemptRecord:
    trial = PLAN.trials[number].id
    machine = Machine(arithmetic=teraflops * 1e12, weakest_rank=0)
    result = builders.result(trial=trial).model_copy(update={"machine": machine})
    done: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "sentence": None}
    place: dict[str, Any] = {"nodes": (f"n{number}",), "ended_at": builders.NOW + number}
    return builders.attempt(trial=trial, result=result, **done, **place)


LEDGER = Ledger().with_records(attempt(number, figure) for number, figure in enumerate(TERAFLOPS))


def stored(change: Callable[[dict[str, Any]], Any]) -> GpuBenchmarkStatus:
    """The status of a study with one weak node, with its warning changed."""
    wire: Any = audit.status_again(PLAN, LEDGER, SPEC, GpuBenchmarkStatus()).to_wire()
    (warning,) = wire["results"][0]["warnings"]
    wire["results"][0]["warnings"] = [change(warning)]
    return GpuBenchmarkStatus.model_validate(wire)


def found(status: GpuBenchmarkStatus, *, words: bool) -> list[str]:
    return [finding.place for finding in audit.of_status(PLAN, LEDGER, SPEC, status, words=words)]


@pytest.mark.parametrize("words", [True, False], ids=["of this version", "of another version"])
def test_a_changed_number_of_a_warning_is_found_whoever_chose_its_words(words: bool) -> None:
    assert found(stored(lambda warning: warning), words=words) == []
    (place,) = found(stored(lambda warning: {**warning, "figures": {**warning["figures"], "usual": 1.0}}), words=words)
    assert place.endswith("warnings[0].figures.usual")
    assert found(stored(lambda warning: {**warning, "node": "n0"}), words=words)
    assert found(stored(lambda warning: {**warning, "reason": "Other"}), words=True)
    without_names = stored(lambda warning: {"reason": "WeakNode", "message": warning["message"]})
    assert found(without_names, words=words), "its numbers were taken away"


def test_another_version_may_choose_other_words() -> None:
    changed = stored(lambda warning: {**warning, "message": "other words"})
    assert found(changed, words=False) == []
    assert found(changed, words=True)


def test_warnings_of_a_version_that_had_sentences_only_are_sentences() -> None:
    """Which it had, and how many, depended on that version."""
    assert found(stored(lambda warning: warning["message"]), words=False) == []
    changed = stored(lambda warning: {**warning, "reason": "Other", "figures": {"usual": 1.0}})
    assert found(changed, words=False), "one with numbers is none of those"
