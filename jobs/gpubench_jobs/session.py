# SPDX-License-Identifier: Apache-2.0
"""One rank's run from the first step to the gang's result: calibrate, warm up, measure, agree.

Every rank goes through the same collectives in the same order; what differs between ranks is only that rank 0 decides
(`pacing`) and that rank 0's result is the gang's (`agreement`).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from gpubench.measure import records
from gpubench.plan import assignment as assignments
from gpubench_jobs import agreement, channel, clock, distribution, metrics, pacing, train
from gpubench_jobs.channel import Phase
from gpubench_jobs.models.recipe import Recipe

_DIGEST_CHARACTERS = 32
_T = TypeVar("_T")


@dataclass
class Session:
    """The state of one rank's run; `writer` tells the launcher, `live` tells Prometheus."""

    assignment: assignments.Assignment
    rank: int
    run: train.Run
    writer: channel.Writer
    live: metrics.Live
    now: clock.Clock
    windows: list[records.Window] = field(default_factory=list)
    loss: float = 0.0

    def first_step(self) -> None:
        """Tracing, memory allocation and the libraries' own choice of kernels happen here."""
        self._call(1)

    def calibrate(self) -> int:
        """Steps in a window, by trial calls that grow until they say enough."""
        trial = pacing.Trial(steps=1)
        while not trial.settled:
            nanoseconds = self._call(trial.steps)
            trial = self._decide(lambda trial=trial, taken=nanoseconds: self._next_trial(trial, taken))
        return trial.steps

    def warm_up(self, steps: int) -> int:
        """Windows until the warm-up time is over; returns the steps of a window as the warmed device takes them."""
        if self.assignment.warm_up_seconds > 0:
            windows = self._run_for(self.assignment.warm_up_seconds, steps=steps, warm_up=True, at_least=1)
            last = windows[-1]
            seconds = clock.seconds(last.nanoseconds) / last.steps
            steps = self._decide(lambda: pacing.steps_for(self.assignment.window_seconds, seconds))
        return steps

    def measure(self, steps: int) -> None:
        self._run_for(self.assignment.measure_seconds, steps=steps, warm_up=False, at_least=pacing.WINDOWS_MIN)

    def agree(self, recipe: Recipe, environment: records.Environment) -> list[agreement.Report]:
        """What every rank has measured and arrived at, on every rank."""
        self.writer.phase(Phase.AGREEING)
        report = agreement.Report(
            rank=self.rank,
            windows=tuple(self.windows),
            final_loss=self.loss,
            weights_digest=weights_digest(recipe),
            environment=environment.key(),
        )
        if self.assignment.workers == 1:
            return [report]
        return distribution.gather(report)

    def _run_for(self, seconds: float, *, steps: int, warm_up: bool, at_least: int) -> list[records.Window]:
        """Windows for at least so long by rank 0's clock, and at least so many."""
        begun, first = self.now(), len(self.windows)
        window_seconds = self.assignment.window_seconds
        while True:
            done = len(self.windows) - first
            left = seconds - clock.seconds(self.now() - begun)
            if done:
                window_seconds = clock.seconds(self.windows[-1].nanoseconds)
            count = self._decide(
                lambda left=left, length=window_seconds, done=done: (
                    pacing.windows_for(left, window_seconds=length, at_least=max(0, at_least - done))
                    if left > 0 or done < at_least
                    else 0
                )
            )
            if count == 0:
                return self.windows[first:]
            plan = pacing.Plan(first=len(self.windows), windows=count, steps=steps, warm_up=warm_up)
            self.writer.phase(Phase.STEPPING)
            train.time_windows(
                self.run, plan, now=self.now, finished=lambda index, timed: self._record(plan, index, timed)
            )

    def _record(self, plan: pacing.Plan, index: int, timed: train.Timed) -> None:
        window = records.Window(
            rank=self.rank, index=index, steps=plan.steps, nanoseconds=timed.nanoseconds, warm_up=plan.warm_up
        )
        self.windows.append(window)
        self.loss = timed.loss
        self.writer.send(window)
        self.live.window(steps=plan.steps, seconds=clock.seconds(timed.nanoseconds))

    def _call(self, steps: int) -> int:
        """A call outside every window, with the same end; its nanoseconds."""
        self.writer.phase(Phase.STEPPING)
        begun = self.now()
        self.run(steps).numpy()
        return self.now() - begun

    def _next_trial(self, trial: pacing.Trial, nanoseconds: int) -> pacing.Trial:
        return pacing.next_trial(
            trial, seconds=clock.seconds(nanoseconds), window_seconds=self.assignment.window_seconds
        )

    def _decide(self, decision: Callable[[], _T]) -> _T:
        """Rank 0 decides, all ranks take its word."""
        self.writer.phase(Phase.AGREEING)
        value = decision()
        return value if self.assignment.workers == 1 else distribution.from_first(value)


def weights_digest(recipe: Recipe) -> str:
    """SHA-256 of the trainable weights, in the network's order: equal on all ranks, or gradients were not reduced."""
    digest = hashlib.sha256()
    for variable in recipe.trainable:
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()[:_DIGEST_CHARACTERS]
