# SPDX-License-Identifier: Apache-2.0
"""From every rank's windows to the figures of the gang. Pure: the gang's result is made here, and checked here again.

Must not happen: a figure that follows from anything but recorded windows and epochs. Whoever has the records of a run
must be able to compute its result once more, to the last digit (`gpubench verify`).
"""

from collections.abc import Sequence

from gpubench.measure import records
from gpubench.values import Value

_QUANTILES = (0.05, 0.5, 0.95)


class Figures(Value):
    """What a `records.Result` says of work and time, in its fields' names and meaning."""

    workers: int
    steps: int
    samples: int
    nanoseconds: int
    windows: int
    warm_up_windows: int
    window_nanoseconds: tuple[int, int, int]
    training: records.Training | None = None


def figures(
    ranks: Sequence[Sequence[records.Window]], *, batch_per_worker: int, epochs: Sequence[records.Epoch] = ()
) -> Figures:
    """The sums over the measured windows, each as long as its slowest rank took; in mode Training over the epochs.

    `ranks` has the windows of each rank in their order. ValueError where ranks ran different numbers of
    windows, or none after the warm-up.
    """
    slowest = [max(windows, key=_duration) for windows in zip(*ranks, strict=True)]
    measured = [window for window in slowest if not window.warm_up]
    if not measured:
        raise ValueError("no window was measured: a run needs some after its warm-up")
    steps = sum(window.steps for window in measured)
    samples = steps * batch_per_worker * len(ranks)
    nanoseconds = sum(window.nanoseconds for window in measured)
    if epochs:  # what lies between windows is training time too, and the last batch of an epoch may be smaller
        samples = sum(epoch.samples for epoch in epochs)
        nanoseconds = sum(epoch.nanoseconds for epoch in epochs)
    return Figures(
        workers=len(ranks),
        steps=steps,
        samples=samples,
        nanoseconds=nanoseconds,
        windows=len(measured),
        warm_up_windows=len(slowest) - len(measured),
        window_nanoseconds=quantiles([window.nanoseconds for window in measured]),
        training=training(epochs) if epochs else None,
    )


def training(epochs: Sequence[records.Epoch]) -> records.Training:
    """The epochs in sums. How good a model is its accuracy says, or its loss where it has none."""
    first, last = epochs[0], epochs[-1]
    accuracies = [epoch.accuracy for epoch in epochs if epoch.accuracy is not None]
    losses = [epoch.evaluation_loss for epoch in epochs if epoch.evaluation_loss is not None]
    best = max(accuracies) if accuracies else min(losses, default=None)
    return records.Training(
        epochs=len(epochs),
        nanoseconds=sum(epoch.nanoseconds for epoch in epochs),
        evaluation_nanoseconds=sum(epoch.evaluation_nanoseconds for epoch in epochs),
        first_nanoseconds=first.nanoseconds,
        first_evaluation_nanoseconds=first.evaluation_nanoseconds,
        first_samples=first.samples,
        loss=last.loss,
        metric="accuracy" if accuracies else "loss" if losses else None,
        final=last.accuracy if accuracies else last.evaluation_loss,
        best=best,
    )


def quantiles(nanoseconds: Sequence[int]) -> tuple[int, int, int]:
    """The 5 %, 50 % and 95 % quantiles, linear between order statistics (type 7 of Hyndman and Fan, 1996)."""
    ordered = sorted(nanoseconds)
    low, middle, high = (_quantile(ordered, share) for share in _QUANTILES)
    return low, middle, high


def _quantile(ordered: Sequence[int], share: float) -> int:
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (place - below) * (ordered[above] - ordered[below]))


def _duration(window: records.Window) -> int:
    return window.nanoseconds
