# SPDX-License-Identifier: Apache-2.0
"""From every rank's records to the figures of the gang. Pure: the gang's result is made here, and checked here again.

The windows that count are those from the steady state on, as it is found in the series of the slowest rank's windows
(`steady_state`); a run that never settled is measured by all that came after the declared warm-up, with the notice
that says so. In mode Training every epoch counts, from the first step on, and nothing is looked for; one that went on
from a checkpoint has the epochs of earlier attempts, too, but their windows are in the logs of those.

Must not happen: a figure that follows from anything but recorded windows and epochs. Whoever has the records of a run
must be able to compute its result once more, to the last digit (`gpubench verify`).
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Protocol, TypeVar

from gpubench import records
from gpubench.stats import intervals, steady_state, stopping_rule

_QUANTILES = (0.05, 0.5, 0.95)
#: Relative. The loss of a training that learns nothing also changes in its last digits.
_LOSS_RISE_MIN = 0.01
#: Of a node's processors. Kubelet, operating system and launchers take less.
BUSY = 0.1


def computed(
    ranks: Sequence[Sequence[records.Window]],
    *,
    batch_per_worker: int,
    epochs: Sequence[records.Epoch] = (),
    usages: Sequence[records.Usage] = (),
    healths: Sequence[records.Health] = (),
    kept: Sequence[records.Checkpoint] | None = None,
    resumed: records.Resumed | None = None,
) -> records.Computed:
    """All of it, of records in the order of ranks; `kept` are the attempt's checkpoints, None where it keeps none."""
    steps_before = resumed.step if resumed is not None else 0
    found = figures(ranks, batch_per_worker=batch_per_worker, epochs=epochs, steps_before=steps_before)
    used = machine(usages, healths, ranks=len(ranks), counted=counted_share(ranks, found))
    if used is not None and resumed is not None:  # nobody knows what earlier attempts took
        used = used.model_copy(update={"joules": None})
    return records.Computed(
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
) -> records.Figures:
    """The sums over the windows that count, each as long as its slowest rank took; in mode Training over the epochs.

    `ranks` has the windows of each rank in their order; `steps_before` were taken before the first window, by earlier
    attempts. ValueError where ranks ran different numbers of windows, or none after the warm-up.
    """
    measured = _measured(ranks)
    if not measured:
        raise ValueError("no window was measured: a run needs some after its warm-up")
    windows, steady_from, standard_error = measured, None, None
    if not epochs:
        series = [step_seconds(window) for window in measured]
        found = steady_state.detect(series)
        windows = measured[found.first :]
        steady_from = windows[0].index if found.settled else None
        standard_error = stopping_rule.standard_error(series[found.first :])
    steps = steps_before + sum(window.steps for window in windows)
    samples = steps * batch_per_worker * len(ranks)
    nanoseconds = measured_nanoseconds = sum(window.nanoseconds for window in windows)
    if epochs:  # what lies between windows is training time too, and the last batch of an epoch may be smaller
        samples = sum(epoch.samples for epoch in epochs)
        nanoseconds = sum(epoch.nanoseconds for epoch in epochs)
    return records.Figures(
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
        warm_up_nanoseconds=sum(window.nanoseconds for window in _slowest(ranks)) - measured_nanoseconds,
    )


def notices(
    ranks: Sequence[Sequence[records.Window]],
    *,
    epochs: Sequence[records.Epoch] = (),
    usages: Sequence[records.Usage] = (),
) -> tuple[records.Notice, ...]:
    """What a reader of the figures must know; `usages` are those of all ranks, in their order, or none."""
    found: list[records.Notice] = []
    if len(usages) == len(ranks) and (busy := busy_machine(usages)):
        found.append(busy)  # it may be the cause of all others
    if epochs:
        first, last = epochs[0].loss, epochs[-1].loss
        if last - first > _LOSS_RISE_MIN * abs(first):
            found.append(records.LossRose(first=first, last=last))
    else:
        found += steady_state.notices([step_seconds(window) for window in _measured(ranks)])
    if len(usages) == len(ranks) and (straggler := steady_state.straggler([usage.compute_seconds for usage in usages])):
        found.append(straggler)
    return tuple(found[: records.NOTICES_MAX])


def busy_machine(usages: Sequence[records.Usage]) -> records.BusyMachine | None:
    """The node of which others had most, where that was a tenth of its processors or more."""
    found: list[records.BusyMachine] = []
    for kernel in dict.fromkeys(usage.node.kernel for usage in usages if usage.node is not None):
        here = [(usage, usage.node) for usage in usages if usage.node is not None and usage.node.kernel == kernel]
        own = sum(usage.processor + node.children for usage, node in here)
        others = max(0.0, fmean([node.busy for _, node in here]) - own)
        stolen, processors = fmean([node.stolen for _, node in here]), here[0][1].processors
        if others + stolen >= BUSY * processors:
            found.append(records.BusyMachine(others=others, stolen=stolen, processors=processors))
    return max(found, key=lambda one: (one.others + one.stolen) / one.processors, default=None)


def checkpoints(kept: Sequence[records.Checkpoint], *, begun: int, ended: int) -> records.Checkpoints:
    """The checkpoints of an attempt that had `begun` steps behind it at its first and `ended` at its last window."""
    steps = (begun, *(one.step for one in kept), ended)
    return records.Checkpoints(
        count=len(kept),
        seconds=sum(one.seconds for one in kept),
        interval_seconds=kept[-1].interval_seconds if kept else None,
        lost_steps_max=max(after - before for before, after in pairwise(steps)),
    )


def counted_share(ranks: Sequence[Sequence[records.Window]], found: records.Figures) -> float:
    """Of the time in which usage was sampled, what the figures stand on; all of a training, evaluations too."""
    return 1.0 if found.training else found.nanoseconds / sum(window.nanoseconds for window in _measured(ranks))


def step_seconds(window: records.Window) -> float:
    """What series of windows are made of, as their steps may differ in number."""
    return window.nanoseconds / 1e9 / window.steps


def _measured(ranks: Sequence[Sequence[records.Window]]) -> list[records.Window]:
    """The slowest rank's windows after the declared warm-up."""
    return [window for window in _slowest(ranks) if not window.warm_up]


def _slowest(ranks: Sequence[Sequence[records.Window]]) -> list[records.Window]:
    return [max(windows, key=lambda window: window.nanoseconds) for windows in zip(*ranks, strict=True)]


def training(epochs: Sequence[records.Epoch]) -> records.Training:
    """The epochs in sums. How good a model is its accuracy says, or its loss where it has none."""
    first, last = epochs[0], epochs[-1]
    accuracies = [epoch.accuracy for epoch in epochs if epoch.accuracy is not None]
    losses = [epoch.evaluation_loss for epoch in epochs if epoch.evaluation_loss is not None]
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
        best=max(accuracies) if accuracies else min(losses, default=None),
    )


def quantiles(nanoseconds: Sequence[int]) -> tuple[int, int, int]:
    low, middle, high = (round(intervals.quantile(nanoseconds, share)) for share in _QUANTILES)
    return low, middle, high


_Record = TypeVar("_Record", records.Usage, records.Health)
_Number = TypeVar("_Number", int, float)


def machine(
    usages: Sequence[records.Usage], healths: Sequence[records.Health], *, ranks: int, counted: float = 1.0
) -> records.Machine | None:
    """What every rank has reported of its device, together; None where no rank has.

    No figure is a sum over ranks of which one is missing: what only some of them have is left out.
    `counted` is the share of the measured time that the figures of the gang stand on: the energy that belongs to them.
    """
    usages = usages if len(usages) == ranks else ()
    healths = healths if len(healths) == ranks else ()
    if not usages and not healths:
        return None
    weakest = min(healths, key=lambda health: health.arithmetic, default=None)
    return records.Machine(
        processor=_over(fmean, usages, lambda usage: usage.processor),
        memory_bytes=_over(max, usages, lambda usage: usage.memory_bytes),
        gpu=_over(fmean, usages, lambda usage: usage.gpu),
        gpu_memory_bytes=_over(max, usages, lambda usage: usage.gpu_memory_bytes),
        watts=_over(sum, usages, lambda usage: usage.watts),
        joules=_over(sum, usages, lambda usage: None if usage.joules is None else usage.joules * counted),
        celsius_high=_over(max, usages, lambda usage: usage.celsius_high),
        throttled=_over(max, usages, lambda usage: usage.throttled),
        arithmetic=weakest.arithmetic if weakest else None,
        memory=_over(min, healths, lambda health: health.memory),
        allreduce=_over(min, healths, lambda health: health.allreduce),
        weakest_rank=weakest.rank if weakest else None,
    )


def _over(
    fold: Callable[[Sequence[_Number]], _Number], ranks: Sequence[_Record], figure: Callable[[_Record], _Number | None]
) -> _Number | None:  # of all ranks together; None unless every one of them has it
    known = [each for one in ranks if (each := figure(one)) is not None]
    return fold(known) if known and len(known) == len(ranks) else None


class TimedRegion(Protocol):
    """Which part of a training its seconds are (`measure.timedRegion`); figures of the same one can be compared."""

    @property
    def evaluation(self) -> str:
        """Inside or Outside."""

    @property
    def first_epoch(self) -> str:
        """Included or Excluded."""


def samples_per_second(result: records.Result, region: TimedRegion | None = None) -> float:
    """Total samples over total time of the measured windows, all ranks together.

    A window's time is that of its slowest rank; the quotient of the sums weighs each window by its time (harmonic
    mean). Of a training run it is the same without its evaluations, and without the first epoch where the timed region
    leaves that out and holds another one.
    """
    samples, nanoseconds = result.samples, result.nanoseconds
    if (run := result.training) is not None and region is not None and region.first_epoch == "Excluded":
        later = samples - run.first_samples, nanoseconds - run.first_nanoseconds
        if min(later) > 0:
            samples, nanoseconds = later
    return samples / (nanoseconds / 1e9)


def timed_epochs(training: records.Training, region: TimedRegion) -> int:
    """Epochs in the region; 0 where a run's only epoch is left out."""
    return training.epochs - (region.first_epoch == "Excluded")


def timed_seconds(training: records.Training, region: TimedRegion) -> float | None:
    """Seconds of the region; None where it holds no epoch, or where the sums of a user's own program contradict it."""
    if not timed_epochs(training, region):
        return None
    inside, excluded = region.evaluation == "Inside", region.first_epoch == "Excluded"
    first = training.first_nanoseconds + inside * training.first_evaluation_nanoseconds
    nanoseconds = training.nanoseconds + inside * training.evaluation_nanoseconds - excluded * first
    return nanoseconds / 1e9 if nanoseconds > 0 else None
