# SPDX-License-Identifier: Apache-2.0
"""One rank's run from the first step to the gang's result: calibrate, warm up, measure, agree.

Every rank goes through the same collectives in the same order; what differs between ranks is only that rank 0 decides
(`pacing`) and that rank 0's result is the gang's (`agreement`).
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import tensorflow as tf

from gpubench.measure import records
from gpubench.plan import assignment as assignments
from gpubench_jobs import agreement, channel, clock, distribution, metrics, pacing, train
from gpubench_jobs.channel import Phase

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
    first_step_seconds: float = 0.0

    def first_step(self) -> None:
        """Tracing, memory allocation and the libraries' own choice of kernels happen here."""
        self.writer.phase(Phase.FIRST_STEP)
        begun = self.now()
        self.run(1).numpy()
        self.first_step_seconds = clock.seconds(self.now() - begun)

    def calibrate(self) -> int:
        """Steps in a window, by trial calls that grow until they say enough."""
        trial = pacing.Trial(steps=1)
        while not trial.settled:
            seconds = clock.seconds(self._call(trial.steps))
            trial = self.agreed(
                pacing.next_trial(trial, seconds=seconds, window_seconds=self.assignment.window_seconds)
            )
        self._unroll(step_seconds=self.assignment.window_seconds / trial.steps)
        return trial.steps

    def _unroll(self, *, step_seconds: float) -> None:
        """Write out short steps; rank 0 says how many, as its tracing took."""
        steps_per_turn = self.agreed(
            pacing.steps_per_turn(
                step_seconds,
                first_step_seconds=self.first_step_seconds,
                measure_seconds=self.assignment.measure_seconds,
            )
        )
        if steps_per_turn > 1:
            self.run.unroll(steps_per_turn)
            self.writer.phase(Phase.FIRST_STEP)
            self.run(steps_per_turn).numpy()

    def warm_up(self, steps: int) -> int:
        """Windows until the warm-up time is over; returns the steps of a window as the warmed device takes them."""
        if self.assignment.warm_up_seconds > 0:
            self._run_for(self.assignment.warm_up_seconds, steps=steps, warm_up=True, at_least=1)
            last = self.windows[-1]
            step_seconds = clock.seconds(last.nanoseconds) / last.steps
            steps = self.agreed(pacing.steps_for(self.assignment.window_seconds, step_seconds))
        return steps

    def measure(self, steps: int) -> None:
        """The windows that count."""
        self._run_for(self.assignment.measure_seconds, steps=steps, warm_up=False, at_least=pacing.WINDOWS_MIN)

    def agree(self, weights: Sequence[tf.Variable], environment: records.Environment) -> list[agreement.Report]:
        """What every rank has measured and arrived at, on every rank."""
        self.writer.phase(Phase.AGREEING)
        report = agreement.Report(
            rank=self.rank,
            windows=tuple(self.windows),
            final_loss=self.loss,
            weights_digest=weights_digest(weights),
            environment=environment.key(),
        )
        if self.assignment.workers == 1:
            return [report]
        return distribution.gather(report)

    def _run_for(self, seconds: float, *, steps: int, warm_up: bool, at_least: int) -> None:
        """Windows for at least so long by rank 0's clock, and at least so many."""
        begun, first = self.now(), len(self.windows)
        window_seconds = self.assignment.window_seconds
        while count := self.agreed(
            pacing.windows_for(
                seconds - clock.seconds(self.now() - begun),
                window_seconds=window_seconds,
                at_least=first + at_least - len(self.windows),
            )
        ):
            plan = pacing.Plan(first=len(self.windows), windows=count, steps=steps, warm_up=warm_up)
            self.writer.phase(Phase.STEPPING)
            train.time_windows(self.run, plan, now=self.now, finished=self.record)
            window_seconds = clock.seconds(self.windows[-1].nanoseconds)

    def record(self, plan: pacing.Plan, index: int, timed: train.Timed) -> None:
        """A window has ended: keep it, tell the launcher, show it."""
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

    def agreed(self, decision: _T) -> _T:
        """Rank 0's decision in place of this rank's own."""
        self.writer.phase(Phase.AGREEING)
        return decision if self.assignment.workers == 1 else distribution.from_first(decision)


def weights_digest(weights: Sequence[tf.Variable]) -> str:
    """SHA-256 of the trainable weights, in the network's order: equal on all ranks, or gradients were not reduced."""
    digest = hashlib.sha256()
    for variable in weights:
        digest.update(variable.numpy().tobytes())
    return digest.hexdigest()[:_DIGEST_CHARACTERS]
