# SPDX-License-Identifier: Apache-2.0
"""From every rank's windows to the figures of the gang. Pure: the gang's result is made here, and checked here again.

The windows that count are those from the steady state on, as it is found in the series of the slowest rank's windows
(`steady`); a run that never settled is measured by all that came after the declared warm-up, with the notice that says
so. In mode Training every epoch counts, from the first step on, and nothing is looked for; one that went on from a
checkpoint has the epochs of earlier attempts, too, but their windows are in the logs of those.

Must not happen: a figure that follows from anything but recorded windows and epochs. Whoever has the records of a run
must be able to compute its result once more, to the last digit (`gpubench verify`).
"""

from collections.abc import Sequence
from itertools import pairwise

from gpubench import records
from gpubench.records import NOTICES_MAX, LossRose, Notice
from gpubench.stats import diagnose, machine, run_length, steady
from gpubench.stats.quantiles import quantile
from gpubench.values import Value

_QUANTILES = (0.05, 0.5, 0.95)
#: Relative. The loss of a training that learns nothing also changes in its last digits.
_LOSS_RISE_MIN = 0.01


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
    steady_from: int | None = None
    standard_error: float | None = None
    warm_up_nanoseconds: int | None = None


class Computed(Figures):
    """Everything in a `records.Result` that follows from what the ranks have recorded."""

    notices: tuple[Notice, ...] = ()
    machine: records.Machine | None = None
    resumed: records.Resumed | None = None
    checkpoints: records.Checkpoints | None = None


def computed(
    ranks: Sequence[Sequence[records.Window]],
    *,
    batch_per_worker: int,
    epochs: Sequence[records.Epoch] = (),
    usages: Sequence[records.Usage] = (),
    healths: Sequence[records.Health] = (),
    kept: Sequence[records.Checkpoint] | None = None,
    resumed: records.Resumed | None = None,
) -> Computed:
    """All of it at once, by the gang and by whoever checks its result; records of ranks in the order of ranks.

    `kept` are the checkpoints of this attempt, None where the gang keeps none.
    """
    steps_before = resumed.step if resumed is not None else 0
    found = figures(ranks, batch_per_worker=batch_per_worker, epochs=epochs, steps_before=steps_before)
    used = machine.of_ranks(usages, healths, ranks=len(ranks), counted=counted_share(ranks, found))
    if used is not None and resumed is not None:  # nobody knows what earlier attempts took
        used = used.model_copy(update={"joules": None})
    return Computed(
        **dict(found),
        notices=notices(ranks, epochs=epochs, usages=usages),
        machine=used,
        resumed=resumed,
        checkpoints=None if kept is None else checkpoints(kept, begun=steps_before, ended=found.steps),
    )


def figures(
    ranks: Sequence[Sequence[records.Window]],
    *,
    batch_per_worker: int,
    epochs: Sequence[records.Epoch] = (),
    steps_before: int = 0,
) -> Figures:
    """The sums over the windows that count, each as long as its slowest rank took; in mode Training over the epochs.

    `ranks` has the windows of each rank in their order; `steps_before` were taken before the first window, by earlier
    attempts. ValueError where ranks ran different numbers of windows, or none after the warm-up.
    """
    measured, left_out = _measured(ranks), 0
    if not measured:
        raise ValueError("no window was measured: a run needs some after its warm-up")
    windows, steady_from, standard_error = measured, None, None
    if not epochs:
        series = [step_seconds(window) for window in measured]
        found = steady.detect(series)
        left_out = found.first if found.settled else 0
        windows = measured[left_out:]
        steady_from = windows[0].index if found.settled else None
        standard_error = run_length.standard_error(series[left_out:])
    steps = steps_before + sum(window.steps for window in windows)
    samples = steps * batch_per_worker * len(ranks)
    nanoseconds = sum(window.nanoseconds for window in windows)
    if epochs:  # what lies between windows is training time too, and the last batch of an epoch may be smaller
        samples = sum(epoch.samples for epoch in epochs)
        nanoseconds = sum(epoch.nanoseconds for epoch in epochs)
    return Figures(
        workers=len(ranks),
        steps=steps,
        samples=samples,
        nanoseconds=nanoseconds,
        windows=len(windows),
        warm_up_windows=len(ranks[0]) - len(windows),
        window_nanoseconds=quantiles([window.nanoseconds for window in windows]),
        training=training(epochs) if epochs else None,
        steady_from=steady_from,
        standard_error=standard_error,
        warm_up_nanoseconds=sum(map(_duration, _slowest(ranks))) - sum(map(_duration, windows)),
    )


def notices(
    ranks: Sequence[Sequence[records.Window]],
    *,
    epochs: Sequence[records.Epoch] = (),
    usages: Sequence[records.Usage] = (),
) -> tuple[Notice, ...]:
    """What a reader of the figures must know; `usages` are those of all ranks, in their order, or none."""
    found: list[Notice] = []
    if epochs:
        found += _loss_rose(epochs)
    else:
        found += diagnose.notices([step_seconds(window) for window in _measured(ranks)])
    if len(usages) == len(ranks) and (straggler := diagnose.straggler([usage.compute_seconds for usage in usages])):
        found.append(straggler)
    return tuple(found[:NOTICES_MAX])


def checkpoints(kept: Sequence[records.Checkpoint], *, begun: int, ended: int) -> records.Checkpoints:
    """The checkpoints of an attempt that had `begun` steps behind it at its first and `ended` at its last window."""
    steps = (begun, *(one.step for one in kept), ended)
    return records.Checkpoints(
        count=len(kept),
        seconds=sum(one.seconds for one in kept),
        interval_seconds=kept[-1].interval_seconds if kept else None,
        lost_steps_max=max(after - before for before, after in pairwise(steps)),
    )


def counted_share(ranks: Sequence[Sequence[records.Window]], found: Figures) -> float:
    """Of the time in which usage was sampled, what the figures stand on; all of a training, evaluations too."""
    if found.training:
        return 1.0
    return found.nanoseconds / sum(window.nanoseconds for window in _measured(ranks))


def step_seconds(window: records.Window) -> float:
    """What series of windows are made of, as their steps may differ in number."""
    return window.nanoseconds / 1e9 / window.steps


def _measured(ranks: Sequence[Sequence[records.Window]]) -> list[records.Window]:
    """The slowest rank's windows after the declared warm-up."""
    return [window for window in _slowest(ranks) if not window.warm_up]


def _slowest(ranks: Sequence[Sequence[records.Window]]) -> list[records.Window]:
    """Each window as its slowest rank has it."""
    return [max(windows, key=_duration) for windows in zip(*ranks, strict=True)]


def _loss_rose(epochs: Sequence[records.Epoch]) -> tuple[Notice, ...]:
    first, last = epochs[0].loss, epochs[-1].loss
    return (LossRose(first=first, last=last),) if last - first > _LOSS_RISE_MIN * abs(first) else ()


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
    """The 5 %, 50 % and 95 % quantiles."""
    low, middle, high = (round(quantile(nanoseconds, share)) for share in _QUANTILES)
    return low, middle, high


def _duration(window: records.Window) -> int:
    return window.nanoseconds
