# SPDX-License-Identifier: Apache-2.0
"""The figures of a gang follow from its windows and epochs, and from nothing else."""

import pytest

from gpubench.measure import gang
from gpubench.measure.records import Epoch, Window


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


def test_without_accuracy_the_smallest_loss_is_the_best() -> None:
    found = gang.training([epoch(0, None, 2.0), epoch(1, None, 1.5), epoch(2, None, 1.75)])
    assert (found.metric, found.final, found.best) == ("loss", 1.75, 1.5)


@pytest.mark.parametrize(
    ("values", "quantiles"),
    [((7,), (7, 7, 7)), ((100, 0), (5, 50, 95)), (tuple(range(0, 2001, 100)), (100, 1000, 1900))],
)
def test_quantiles_are_linear_between_order_statistics(values: tuple[int, ...], quantiles: tuple[int, ...]) -> None:
    assert gang.quantiles(values) == quantiles
