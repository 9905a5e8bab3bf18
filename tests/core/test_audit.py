# SPDX-License-Identifier: Apache-2.0
"""Whether a status follows from its ledger, also where another version wrote its sentences."""

from collections.abc import Callable
from typing import Any

import pytest

import builders
from gpubench import records
from gpubench.analysis import audit
from gpubench.api.benchmark_status import FullStatus
from gpubench.records import Checkpoint, Epoch, Machine, Result, Resumed, Window
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason, Segment
from gpubench.stats import gang
from gpubench.values import FrozenModel

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


def stored(change: Callable[[dict[str, Any]], Any]) -> FullStatus:
    """The status of a study with one weak node, with its warning changed."""
    wire: Any = audit.status_again(PLAN, LEDGER, SPEC, FullStatus()).to_wire()
    (warning,) = wire["results"][0]["warnings"]
    wire["results"][0]["warnings"] = [change(warning)]
    return FullStatus.model_validate(wire)


def found(status: FullStatus, *, words: bool) -> list[str]:
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


# --- a training that went on from a checkpoint ------------------------------------------------------------------------

TRAINING = builders.plan(
    builders.spec(
        builders.block(workers=[1], epochs=3, data={"source": "Generated"}),
        measure={"mode": "Training", "repeats": {"min": 1}},
    )
)
TRIAL = TRAINING.trials[0].id
BATCH = TRAINING.points[0].key.batch_per_worker
#: Of the three epochs of 10 steps the first attempt has trained 1 and a half when it kept its last checkpoint.
RESUMED = Resumed(attempt=1, step=15, useful_seconds=1.5, restore_seconds=2.0)


def an_epoch(index: int, **fields: Any) -> Epoch:
    return Epoch(
        index=index, steps=10, samples=100, nanoseconds=1_000_000_000, evaluation_nanoseconds=5, loss=1.0, **fields
    )  # fmt: skip


def a_window(index: int, steps: int) -> Window:
    return Window(rank=0, index=index, steps=steps, nanoseconds=steps * 99_000_000, warm_up=False)


def a_log(*written: FrozenModel) -> records.Log:
    return records.read_log("".join(records.line(one) + "\n" for one in written).encode())


def second_attempt(*, resumed: Resumed = RESUMED, epochs: tuple[Epoch, ...] | None = None) -> tuple[FrozenModel, ...]:
    """What its pod writes: it has trained half an epoch and a whole one, with a checkpoint between them."""
    epochs = epochs or (an_epoch(0), an_epoch(1), an_epoch(2))
    kept = Checkpoint(step=20, seconds=0.25, size_bytes=10, interval_seconds=1.0)
    windows = (a_window(0, 5), a_window(1, 10))
    environment = builders.environment()
    assert BATCH is not None
    found = gang.computed([windows], batch_per_worker=BATCH, epochs=epochs, kept=[kept], resumed=resumed)
    result = Result(
        trial=TRIAL, attempt=2, final_loss=0.5, weights_digest="d", environment=environment.key(), join_seconds=0.1,
        init_seconds=0.1, **dict(found),
    )  # fmt: skip
    return (environment, resumed, epochs[0], windows[0], epochs[1], kept, windows[1], *epochs[2:], result)


def of_attempt(*written: FrozenModel, **fields: Any) -> list[str]:
    result = written[-1]
    assert isinstance(result, Result)
    done: dict[str, Any] = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "sentence": None}
    record = builders.attempt(trial=TRIAL, attempt=2, result=result, **done, **fields)
    return [str(finding) for finding in audit.of_attempt(TRAINING, record, {0: a_log(*written)})]


def test_a_training_that_went_on_from_a_checkpoint_is_computed_again_from_its_log() -> None:
    written = second_attempt()
    assert of_attempt(*written) == []
    result = written[-1]
    assert isinstance(result, Result)
    assert (result.steps, result.samples, result.nanoseconds) == (30, 300, 3_000_000_000)
    assert result.checkpoints == records.Checkpoints(count=1, seconds=0.25, interval_seconds=1.0, lost_steps_max=10)


def changed(written: tuple[FrozenModel, ...], number: int, **fields: object) -> tuple[FrozenModel, ...]:
    return (*written[:number], written[number].model_copy(update=fields), *written[number + 1 :])


@pytest.mark.parametrize(
    ("number", "fields", "place"),
    [
        (1, {"step": 10}, "result.steps"),
        (1, {"useful_seconds": 1.0}, "result.resumed.usefulSeconds"),
        (1, {"attempt": 3}, "result.resumed.attempt"),
        (5, {"seconds": 0.125}, "result.checkpoints.seconds"),
        (5, {"step": 29}, "result.checkpoints.lostStepsMax"),
        (2, {"nanoseconds": 900_000_000}, "result.nanoseconds"),
        (2, {"steps": 9}, "resumed: its epochs have 29 steps"),
    ],
)
def test_whatever_was_changed_about_a_checkpoint_is_found(number: int, fields: dict[str, object], place: str) -> None:
    findings = of_attempt(*changed(second_attempt(), number, **fields))
    assert any(finding.startswith(place) for finding in findings), findings


def test_a_checkpoint_or_a_beginning_that_was_taken_away_is_found() -> None:
    written = second_attempt()
    assert any("result.checkpoints" in finding for finding in of_attempt(*written[:5], *written[6:]))
    assert any("result.resumed" in finding for finding in of_attempt(*written[:1], *written[2:]))


def test_what_an_attempt_says_of_earlier_ones_must_fit_what_it_has_trained() -> None:
    own = RESUMED.model_copy(update={"attempt": 2})
    assert "resumed: it began from a checkpoint of attempt 2" in of_attempt(*second_attempt(resumed=own))
    runs = (Segment(admitted_at=0.0, ended_at=9.0),)
    assert of_attempt(*second_attempt(resumed=own), segments=runs) == [], "it was evicted from its queue, and ran again"
    longer = RESUMED.model_copy(update={"useful_seconds": 3.5})
    assert "resumed: earlier attempts had trained for longer than all of its epochs" in of_attempt(
        *second_attempt(resumed=longer)
    )
