# SPDX-License-Identifier: Apache-2.0
"""The figures of a gang follow from its windows and epochs, and from nothing else."""

from typing import Any

import pytest

from gpubench import records
from gpubench.api.measuring import TimedRegion
from gpubench.records import (
    LINKS_MAX,
    NOTICES_MAX,
    Bimodal,
    BusyMachine,
    Checkpoint,
    Checkpoints,
    Epoch,
    LossRose,
    Machine,
    NodeUse,
    Notice,
    Outliers,
    Result,
    Resumed,
    Straggler,
    Training,
    Unsettled,
    Usage,
    Window,
)
from gpubench.stats import gang


def windows(rank: int, *nanoseconds: int, warm_up: int = 1) -> list[Window]:
    return [
        Window(rank=rank, index=index, steps=10, nanoseconds=each, warm_up=index < warm_up)
        for index, each in enumerate(nanoseconds)
    ]


def epoch(index: int, accuracy: float | None, loss: float | None = None) -> Epoch:
    return Epoch(
        index=index, steps=4, samples=64, nanoseconds=1000 + index, evaluation_nanoseconds=100, loss=1.0 / (1 + index),
        accuracy=accuracy, evaluation_loss=loss,
    )  # fmt: skip


def test_a_window_lasts_as_long_as_its_slowest_rank_and_warm_up_does_not_count() -> None:
    found = gang.figures([windows(0, 9000, 100, 300), windows(1, 8000, 200, 250)], batch_per_worker=8)
    assert (found.nanoseconds, found.windows, found.warm_up_windows) == (500, 2, 1)
    assert (found.workers, found.steps, found.samples) == (2, 20, 20 * 8 * 2)


def test_the_time_of_a_step_is_that_of_its_window_shared_out() -> None:
    assert gang.step_seconds(windows(0, 3_000_000_000)[0]) == 0.3


def test_ranks_with_different_windows_have_no_figures() -> None:
    with pytest.raises(ValueError, match="shorter"):
        gang.figures([windows(0, 1, 2, 3), windows(1, 1, 2)], batch_per_worker=8)


def test_a_run_of_warm_up_alone_has_no_figures() -> None:
    with pytest.raises(ValueError, match="no window was measured"):
        gang.figures([windows(0, 1, 2, warm_up=2)], batch_per_worker=8)


def test_a_training_is_as_long_as_its_epochs() -> None:
    epochs = [epoch(0, 0.5), epoch(1, 0.9), epoch(2, 0.8)]
    found = gang.figures([windows(0, 10, 10, 10, warm_up=0)], batch_per_worker=8, epochs=epochs)
    assert (found.samples, found.nanoseconds) == (3 * 64, 3003)
    assert found.training is not None
    assert (found.training.metric, found.training.final, found.training.best) == ("accuracy", 0.8, 0.9)
    assert found.training.first_nanoseconds == 1000


def test_all_that_follows_from_the_records_is_computed_by_one_function() -> None:
    """The first windows are slow, and left out as not yet steady; the result's energy is that of the others."""
    ranks = [windows(0, 90_000_000, 60_000_000, *(10_000_000 + 7 * step for step in range(30)), warm_up=0)]
    usage = Usage(
        rank=0, samples=9, period_seconds=1.0, processor=1.0, processor_high=1.0, memory_bytes=1, joules=100.0
    )  # fmt: skip
    found = gang.computed(ranks, batch_per_worker=8, usages=[usage])
    figures = gang.figures(ranks, batch_per_worker=8)
    assert records.Figures(**{name: getattr(found, name) for name in records.Figures.model_fields}) == figures
    assert found.windows < 32
    assert found.machine is not None
    assert found.machine.joules == 100.0 * gang.counted_share(ranks, figures) < 100.0


def test_computing_that_took_no_time_by_its_clock_fails_no_gang() -> None:
    usages = [
        Usage(
            rank=rank, samples=9, period_seconds=1.0, processor=1.0, processor_high=1.0, memory_bytes=1,
            compute_seconds=(seconds,) * 8,
        )
        for rank, seconds in enumerate((0.0, 0.0, 0.5))
    ]  # fmt: skip
    ranks = [windows(rank, *[10] * 30) for rank in range(3)]
    assert gang.computed(ranks, batch_per_worker=8, usages=usages).notices == ()


def test_without_accuracy_the_smallest_loss_is_the_best() -> None:
    found = gang.training([epoch(0, None, 2.0), epoch(1, None, 1.5), epoch(2, None, 1.75)])
    assert (found.metric, found.final, found.best) == ("loss", 1.75, 1.5)


@pytest.mark.parametrize(
    ("values", "quantiles"),
    [((7,), (7, 7, 7)), ((100, 0), (5, 50, 95)), (tuple(range(0, 2001, 100)), (100, 1000, 1900))],
)
def test_quantiles_are_linear_between_order_statistics(values: tuple[int, ...], quantiles: tuple[int, ...]) -> None:
    assert gang.quantiles(values) == quantiles


#: A transient of four windows, then steps of one nanosecond that scatter by a thousandth.
SETTLING = (9000, 40_000, 30_000, 20_000, 15_000, *(10_000 + 10 * (index % 3) for index in range(40)))
GROWING = tuple(10_000 + 200 * index for index in range(40))


def test_the_windows_before_the_steady_state_are_warm_up() -> None:
    found = gang.figures([windows(0, *SETTLING)], batch_per_worker=8)
    assert found.steady_from is not None
    assert 5 <= found.steady_from <= 8  # by their own numbers, which begin with the declared warm-up
    assert found.warm_up_windows == found.steady_from
    assert found.windows == len(SETTLING) - found.steady_from
    assert found.nanoseconds == sum(SETTLING[found.steady_from :])
    assert found.steps == 10 * found.windows
    assert found.standard_error is not None
    assert 0 < found.standard_error < 0.001
    assert gang.notices([windows(0, *SETTLING)]) == ()


def test_what_was_used_belongs_to_the_figures_in_proportion_to_their_time() -> None:
    ranks = [windows(0, *SETTLING)]
    found = gang.figures(ranks, batch_per_worker=8)
    share = gang.counted_share(ranks, found)
    assert share == found.nanoseconds / sum(SETTLING[1:])
    assert 0.7 < share < 0.9
    epochs = [epoch(0, 0.5)]
    training = gang.figures(ranks, batch_per_worker=8, epochs=epochs)
    assert gang.counted_share(ranks, training) == 1.0


def test_a_run_that_never_settled_is_measured_by_all_its_windows_and_named() -> None:
    ranks = [windows(0, *GROWING, warm_up=2)]
    found = gang.figures(ranks, batch_per_worker=8)
    assert (found.warm_up_windows, found.steady_from, found.nanoseconds) == (2, None, sum(GROWING[2:]))
    (notice,) = gang.notices(ranks)
    assert isinstance(notice, Unsettled)


def test_in_a_training_every_window_counts_and_none_is_looked_at() -> None:
    epochs = [epoch(0, 0.5), epoch(1, 0.9)]
    found = gang.figures([windows(0, *GROWING, warm_up=0)], batch_per_worker=8, epochs=epochs)
    assert (found.windows, found.warm_up_windows, found.steady_from) == (len(GROWING), 0, None)
    assert gang.notices([windows(0, *GROWING, warm_up=0)], epochs=epochs) == ()


def test_a_training_whose_loss_rose_is_named() -> None:
    epochs = [epoch(0, 0.5), epoch(1, 0.9), epoch(0, 0.7).model_copy(update={"loss": 1.5})]
    rose = (LossRose(first=1.0, last=1.5),)
    ranks = [windows(0, 10, warm_up=0)]
    assert gang.notices(ranks, epochs=epochs) == rose
    assert gang.computed(ranks, batch_per_worker=8, epochs=epochs).notices == rose


def test_a_rank_that_computes_more_slowly_is_named_in_the_result() -> None:
    usages = [
        Usage(
            rank=rank, samples=9, period_seconds=1.0, processor=1.0, processor_high=1.0, memory_bytes=1,
            compute_seconds=tuple(seconds * (1 + 0.001 * (look % 3)) for look in range(12)),
        )
        for rank, seconds in enumerate((0.5, 0.5, 0.8))
    ]  # fmt: skip
    ranks = [windows(rank, *[10_000] * 30) for rank in range(3)]
    (found,) = gang.computed(ranks, batch_per_worker=8, usages=usages).notices
    assert isinstance(found, Straggler)
    assert found.rank == 2


def test_a_training_that_was_never_evaluated_has_no_quality() -> None:
    found = gang.training([epoch(0, None), epoch(1, None)])
    assert (found.metric, found.final, found.best) == (None, None, None)


@pytest.mark.parametrize(
    ("evaluation", "first_epoch", "seconds"),
    [
        ("Outside", "Included", 3.0),
        ("Inside", "Included", 3.5),
        ("Outside", "Excluded", 1.75),
        ("Inside", "Excluded", 2.05),
    ],
)
def test_the_timed_region_of_a_training_is_its_epochs_with_or_without(
    evaluation: Any, first_epoch: Any, seconds: float
) -> None:
    run = Training(
        epochs=2, nanoseconds=3_000_000_000, evaluation_nanoseconds=500_000_000, first_nanoseconds=1_250_000_000,
        first_evaluation_nanoseconds=200_000_000, first_samples=64, loss=0.1,
    )  # fmt: skip
    assert gang.timed_seconds(run, TimedRegion(evaluation=evaluation, first_epoch=first_epoch)) == seconds


@pytest.mark.parametrize(("nanoseconds", "seconds"), [(-1, None), (0, None), (1, 1e-9)])
def test_a_timed_region_without_any_time_is_a_contradiction(nanoseconds: int, seconds: float | None) -> None:
    run = Training(
        epochs=2, nanoseconds=1000 + nanoseconds, evaluation_nanoseconds=0, first_nanoseconds=1000,
        first_evaluation_nanoseconds=0, first_samples=64, loss=0.1,
    )  # fmt: skip
    assert gang.timed_seconds(run, TimedRegion(evaluation="Outside", first_epoch="Excluded")) == seconds


@pytest.mark.parametrize(("first", "last"), [(2.30259, 2.30261), (1.0, 1.0099), (-1.0, -0.995), (0.0, 0.0)])
def test_a_loss_that_stays_is_not_said_to_have_risen(first: float, last: float) -> None:
    epochs = [epoch(0, 0.5).model_copy(update={"loss": loss}) for loss in (first, last)]
    assert gang.notices([windows(0, 10, warm_up=0)], epochs=epochs) == ()


@pytest.mark.parametrize(("first", "last"), [(1.0, 1.02), (-1.0, -0.9), (0.0, 0.1)])
def test_a_loss_that_rose_is_named_whatever_its_sign(first: float, last: float) -> None:
    epochs = [epoch(0, 0.5).model_copy(update={"loss": loss}) for loss in (first, last)]
    assert gang.notices([windows(0, 10, warm_up=0)], epochs=epochs) == (LossRose(first=first, last=last),)


def usage(rank: int, *compute_seconds: float) -> Usage:
    return Usage(
        rank=rank, samples=1, period_seconds=1.0, processor=1.0, processor_high=1.0, memory_bytes=1,
        compute_seconds=compute_seconds,
    )  # fmt: skip


def test_a_rank_that_computes_more_slowly_is_named_by_the_looks_at_its_computing() -> None:
    ranks = [windows(rank, *SETTLING) for rank in range(3)]
    even = [usage(rank, *(0.01 + 0.00001 * (rank + turn) for turn in range(6))) for rank in range(3)]
    slow = [*even[:2], usage(2, *(0.013 + 0.00001 * turn for turn in range(6)))]
    assert gang.notices(ranks, usages=even) == ()
    assert gang.notices(ranks, usages=even[:2]) == ()  # somebody has not looked
    (notice,) = gang.notices(ranks, usages=slow)
    assert isinstance(notice, Straggler)
    assert notice.rank == 2
    assert notice.cost == pytest.approx(0.3, rel=0.02)


def on_node(
    rank: int, kernel: str, *, busy: float, stolen: float = 0.0, children: float = 0.0, processors: int = 4
) -> Usage:
    node = NodeUse(kernel=kernel, processors=processors, busy=busy, children=children, stolen=stolen)
    return usage(rank).model_copy(update={"node": node})


@pytest.mark.parametrize(
    ("usages", "found"),
    [
        ([on_node(0, "a", busy=2.3), on_node(1, "a", busy=2.3)], None),  # both ranks, and 0.3 of 4 for the rest
        ([on_node(0, "a", busy=4.0), on_node(1, "a", busy=3.8)], BusyMachine(others=1.9, stolen=0.0, processors=4)),
        ([on_node(0, "a", busy=1.0), on_node(1, "b", busy=2.5)], BusyMachine(others=1.5, stolen=0.0, processors=4)),
        ([on_node(0, "a", busy=1.0, stolen=0.5)], BusyMachine(others=0.0, stolen=0.5, processors=4)),
        ([on_node(0, "a", busy=1.0, stolen=0.4)], BusyMachine(others=0.0, stolen=0.4, processors=4)),  # a tenth
        (  # what the host took counts too
            [on_node(0, "a", busy=2.0), on_node(1, "b", busy=1.5, stolen=1.0)],
            BusyMachine(others=0.5, stolen=1.0, processors=4),
        ),
        (  # one of two processors is more than four of sixteen
            [on_node(0, "a", busy=5.0, processors=16), on_node(1, "b", busy=2.0, processors=2)],
            BusyMachine(others=1.0, stolen=0.0, processors=2),
        ),
        ([on_node(0, "a", busy=4.0, children=0.9), on_node(1, "a", busy=4.0, children=0.9)], None),  # their loaders
        ([on_node(0, "a", busy=0.8)], None),  # clocks that differ by a little
        ([usage(0)], None),  # nobody looked
    ],
)
def test_a_node_that_others_used_is_named_and_the_gangs_own_ranks_are_no_others(
    usages: list[Usage], found: BusyMachine | None
) -> None:
    ranks = [windows(rank, *SETTLING) for rank in range(len(usages))]
    told = [one for one in gang.notices(ranks, usages=usages) if isinstance(one, BusyMachine)]
    assert [one.model_dump() for one in told] == ([] if found is None else [pytest.approx(found.model_dump())])


def test_the_largest_result_fits_a_termination_message() -> None:
    large, long, size, share = 10**18, -1.2345678901234567e99, 1.2345678901234567e99, 0.12345678901234568
    notices: tuple[Notice, ...] = (
        Bimodal(ratio=long, share=share),
        Outliers(count=large, windows=large, worst=long),
        Straggler(rank=large, cost=long),
        BusyMachine(others=size, stolen=size, processors=large),
    )
    assert len(notices) == NOTICES_MAX
    machine: dict[str, object] = dict.fromkeys(Machine.model_fields, size)
    machine |= dict.fromkeys(("memory_bytes", "gpu_memory_bytes", "weakest_rank"), large)
    machine |= dict.fromkeys(("gpu", "throttled"), share) | {"celsius_high": long}
    training: dict[str, object] = dict.fromkeys(Training.model_fields, large) | {"loss": long, "metric": "accuracy"}
    result: dict[str, object] = dict.fromkeys(Result.model_fields, large) | {
        "kind": "result", "trial": "t" * 16, "weights_digest": "d" * 32, "environment": "e" * 16,
        "links": "l" * LINKS_MAX, "window_nanoseconds": (large, large, large), "final_loss": long, "join_seconds": size,
        "init_seconds": size, "standard_error": size, "notices": notices, "machine": Machine.model_validate(machine),
        "training": Training.model_validate(training | {"final": share, "best": share}),
        "resumed": Resumed(attempt=999, step=large, useful_seconds=size, restore_seconds=size),
        "checkpoints": Checkpoints(count=large, seconds=size, interval_seconds=size, lost_steps_max=large),
    }  # fmt: skip
    of_a_training = {"resumed": result.pop("resumed"), "checkpoints": result.pop("checkpoints")}
    del result["schema_version"]
    assert all(value is not None for value in result.values())
    message = records.termination_message(Result.model_validate(result))
    assert len(message) < records.TERMINATION_MESSAGE_MAX
    with pytest.raises(ValueError, match=r"the result has \d+ bytes, and a termination message must stay below 2048"):
        records.termination_message(Result.model_validate(result | {"environment": "e" * 2048}))
    # What only a training has stands in place of what is looked for in a measurement of throughput only.
    notices = tuple(notice for notice in notices if isinstance(notice, Straggler | LossRose))
    looked_for: dict[str, object] = {"notices": notices, "steady_from": None, "standard_error": None}
    message = records.termination_message(Result.model_validate(result | of_a_training | looked_for))
    assert len(message) < records.TERMINATION_MESSAGE_MAX


def test_the_time_of_windows_that_do_not_count_is_told_each_as_long_as_its_slowest_rank_took() -> None:
    found = gang.figures([windows(0, 9000, 100, 300), windows(1, 8000, 200, 250)], batch_per_worker=8)
    assert found.warm_up_nanoseconds == 9000
    settling = [90_000_000, 60_000_000, *(10_000_000 + 7 * step for step in range(30))]
    later = gang.figures([windows(0, *settling, warm_up=1)], batch_per_worker=8)
    assert later.warm_up_windows > 1  # more is left out than was declared
    assert later.warm_up_nanoseconds == sum(settling[: later.warm_up_windows])


RESUMED = Resumed(attempt=1, step=20, useful_seconds=2e-6, restore_seconds=3.0)


def checkpoint(step: int, **fields: object) -> Checkpoint:
    defaults: dict[str, object] = {"seconds": 0.5, "size_bytes": 100, "interval_seconds": 60.0}
    return Checkpoint.model_validate({"step": step} | defaults | fields)


def test_a_training_that_went_on_counts_as_a_whole_and_its_windows_are_its_own() -> None:
    epochs = [epoch(0, 0.5), epoch(1, 0.9)]
    found = gang.computed(
        [windows(0, 10, 30, warm_up=0), windows(1, 20, 20, warm_up=0)],
        batch_per_worker=8, epochs=epochs, resumed=RESUMED, kept=[],
    )  # fmt: skip
    assert (found.steps, found.windows) == (20 + 2 * 10, 2)
    assert (found.samples, found.nanoseconds) == (2 * 64, 2001)
    assert found.training == gang.training(epochs)
    assert found.resumed == RESUMED


def test_the_energy_of_a_training_that_went_on_is_absent_as_nobody_knows_what_earlier_attempts_took() -> None:
    usage = Usage(
        rank=0, samples=9, period_seconds=1.0, processor=1.0, processor_high=1.0, memory_bytes=1, joules=100.0,
        watts=5.0,
    )  # fmt: skip
    ranks, epochs = [windows(0, 10, 10, warm_up=0)], [epoch(0, 0.5)]
    whole = gang.computed(ranks, batch_per_worker=8, epochs=epochs, usages=[usage]).machine
    rest = gang.computed(ranks, batch_per_worker=8, epochs=epochs, usages=[usage], resumed=RESUMED).machine
    assert whole is not None
    assert rest is not None
    assert (whole.joules, rest.joules) == (100.0, None)
    assert rest.watts == whole.watts == 5.0


def test_what_an_interruption_could_have_cost_at_most_is_counted_in_steps() -> None:
    kept = [checkpoint(30), checkpoint(80, interval_seconds=90.0)]
    assert gang.checkpoints(kept, begun=20, ended=100) == Checkpoints(
        count=2, seconds=1.0, interval_seconds=90.0, lost_steps_max=50
    )
    assert gang.checkpoints([], begun=20, ended=100) == Checkpoints(count=0, seconds=0.0, lost_steps_max=80)
    without = gang.computed([windows(0, 10, 10)], batch_per_worker=8)
    assert without.checkpoints is None
