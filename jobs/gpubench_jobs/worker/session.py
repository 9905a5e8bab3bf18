# SPDX-License-Identifier: Apache-2.0
"""One rank's run from the first step to the gang's result: calibrate, warm up, measure, agree.

Every rank goes through the same collectives in the same order; what differs between ranks is only that rank 0 decides
(`pacing`) and that rank 0's result is the gang's (`aggregate`).
"""

import contextlib
import hashlib
import math
import statistics
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import tensorflow as tf

from gpubench import records
from gpubench.api.measuring import Mode
from gpubench.exitcodes import ExitCode
from gpubench.plan import assignment as assignments
from gpubench.stats import gang, stopping_rule
from gpubench_jobs import channel, clock
from gpubench_jobs.channel import Phase
from gpubench_jobs.engines import horovod
from gpubench_jobs.failures import LossNotFinite, RankError
from gpubench_jobs.worker import aggregate, pacing, sampling, train

_T = TypeVar("_T")


@dataclass
class Session:
    """The state of one rank's run; `writer` tells the launcher, `live` tells Prometheus."""

    assignment: assignments.Assignment
    rank: int
    run: train.Loop
    writer: channel.Writer
    live: sampling.LiveMetrics
    now: clock.Clock
    computing: train.Computing | None = None  # what a rank does by itself, where there is such a thing
    sampler: sampling.Sampler | None = None
    health: records.Health | None = None
    windows: list[records.Window] = field(default_factory=list)
    loss: float = 0.0
    first_step_seconds: float = 0.0
    computed: list[float] = field(default_factory=list)  # seconds of a step of `computing`, in each round

    def first_step(self) -> None:
        """Tracing, memory allocation and the libraries' own choice of kernels happen here."""
        self.first_step_seconds = self.call(self.run, 1, phase=Phase.FIRST_STEP)
        require_batches(self.assignment, steps=1, samples=int(self.run.samples))

    def calibrate(self) -> int:
        """Steps in a window, by trial calls that grow until they say enough."""
        steps = self._steps_of(self.assignment.window_seconds, call=partial(self.call, self.run))
        steps_per_turn = self.agreed(  # write out short steps; rank 0 says how many, as its tracing took
            pacing.steps_per_turn(
                self.assignment.window_seconds / steps,
                first_step_seconds=self.first_step_seconds,
                measure_seconds=self.assignment.measure_seconds,
            )
        )
        if steps_per_turn > 1:
            self.run.unroll(steps_per_turn)
            self.call(self.run, steps_per_turn, phase=Phase.FIRST_STEP)
        return steps

    def _steps_of(self, seconds: float, *, call: Callable[[int], float]) -> int:
        """Steps that fill so much time; `call` takes some and returns the seconds that they took this rank."""
        trial = pacing.Trial(steps=1)
        while not trial.settled:
            trial = self.agreed(pacing.next_trial(trial, seconds=call(trial.steps), window_seconds=seconds))
        return trial.steps

    def warm_up(self, steps: int) -> int:
        """Windows until the warm-up time is over; returns the steps of a window as the warmed device takes them."""
        if self.assignment.warm_up_seconds > 0:
            self._run_for(self.assignment.warm_up_seconds, steps=steps, warm_up=True, at_least=1)
            last = self.windows[-1]
            step_seconds = clock.seconds(last.nanoseconds) / last.steps
            steps = self.agreed(pacing.steps_for(self.assignment.window_seconds, step_seconds))
        return steps

    def measure(self, steps: int) -> None:
        """The windows that count, between two looks at how fast each rank computes."""
        looks = self.plan_probe(
            step_seconds=self.assignment.window_seconds / steps, measured_seconds=self.assignment.measure_seconds
        )
        self.probe(looks)
        with self.sampled():
            self._run_for(self.assignment.measure_seconds, steps=steps, warm_up=False, at_least=pacing.WINDOWS_MIN)
        self.probe(looks)

    def sampled(self) -> contextlib.AbstractContextManager[None]:
        return self.sampler.running() if self.sampler else contextlib.nullcontext()

    def plan_probe(self, *, step_seconds: float, measured_seconds: float) -> pacing.Probe:
        """How to look at the ranks' computing; not at all where there is only one, or where it would take too long."""
        if self.computing is None or self.assignment.workers == 1:
            return pacing.NO_PROBE
        side_seconds = self.agreed(
            pacing.probe_seconds(
                step_seconds=step_seconds, first_step_seconds=self.first_step_seconds, measured_seconds=measured_seconds
            )
        )
        plan = pacing.NO_PROBE
        if side_seconds:
            self.writer.phase(Phase.FIRST_STEP)
            self.computing.seconds(1, now=self.now)  # that nobody counts: tracing, and the libraries' choice of kernels
            steps = self._steps_of(pacing.PROBE_ROUND_SECONDS, call=self._compute)
            plan = self.agreed(pacing.probe(side_seconds, step_seconds=self._compute(steps) / steps))
        if plan == pacing.NO_PROBE and self.rank == 0:
            sys.stderr.write(
                f"no look for stragglers: steps of {step_seconds:.2g} s, the first of {self.first_step_seconds:.2g} s, "
                f"are too long for one beside {measured_seconds:.3g} s of measuring\n"
            )
        return plan

    def probe(self, plan: pacing.Probe) -> None:
        """All ranks at once; nothing is changed by it."""
        for _ in range(plan.rounds):
            self.agreed(0)  # so that they begin together
            self.computed.append(self._compute(plan.steps) / plan.steps)
        if plan.rounds:
            self.live.computed(statistics.median(self.computed[-plan.rounds :]))

    def _compute(self, steps: int) -> float:
        assert self.computing is not None
        self.writer.phase(Phase.STEPPING)
        return self.computing.seconds(steps, now=self.now)

    def agree(
        self, weights: Sequence[tf.Variable], environment: records.Environment, *, links: Collection[str] = ()
    ) -> list[aggregate.Report]:
        """What every rank has measured and arrived at, on every rank; `links` are those that NCCL goes over."""
        usage = None
        if self.sampler is not None and self.sampler.usage is not None:
            usage = self.sampler.usage.model_copy(update={"compute_seconds": tuple(self.computed)})
            self.writer.send(usage)
        self.writer.phase(Phase.AGREEING)
        report = aggregate.Report(
            rank=self.rank,
            windows=tuple(self.windows),
            final_loss=self.loss,
            weights_digest=weights_digest(weights),
            environment=environment.key(),
            links=tuple(sorted(links)),
            usage=usage,
            health=self.health,
        )
        return [report] if self.assignment.workers == 1 else horovod.gather(report)

    def _run_for(self, seconds: float, *, steps: int, warm_up: bool, at_least: int) -> None:
        """Windows for at least so long by rank 0's clock, and at least so many; measured ones end once they suffice."""
        begun, first = self.now(), len(self.windows)
        window_seconds = self.assignment.window_seconds
        while count := self.agreed(
            self._until_look(
                pacing.windows_for(
                    seconds - clock.seconds(self.now() - begun),
                    window_seconds=window_seconds,
                    at_least=first + at_least - len(self.windows),
                ),
                first=first,
                warm_up=warm_up,
            )
        ):
            self.writer.phase(Phase.STEPPING)
            self.run_windows(count, steps=steps, warm_up=warm_up)
            window_seconds = clock.seconds(self.windows[-1].nanoseconds)

    def _until_look(self, windows: int, *, first: int, warm_up: bool) -> int:
        """Of the windows that are wanting, those to run at once; none when rank 0's own are precise enough."""
        wanted = self.assignment.standard_error_wanted
        if warm_up or wanted is None:
            return windows
        series = [gang.step_seconds(window) for window in self.windows[first:]]
        if self.rank == 0 and len(series) >= pacing.WINDOWS_MIN and stopping_rule.enough(series, wanted=wanted):
            return 0
        return pacing.until_look(windows, measured=len(series))

    def run_windows(self, windows: int, *, steps: int, warm_up: bool = False, place: str = "") -> list[train.Timed]:
        """Back to back, each recorded; LossNotFinite, with the place in words, after one whose loss is no number."""
        done = []
        for timed in train.time_windows(self.run, windows, steps=steps, now=self.now):
            self.record(timed, steps=steps, warm_up=warm_up)
            if not math.isfinite(timed.loss):
                raise LossNotFinite(f"the loss was {timed.loss} after window {len(self.windows) - 1}{place}")
            done.append(timed)
        return done

    def record(self, timed: train.Timed, *, steps: int, warm_up: bool) -> None:
        window = records.Window(
            rank=self.rank, index=len(self.windows), steps=steps, nanoseconds=timed.nanoseconds, warm_up=warm_up
        )
        self.windows.append(window)
        training = self.assignment.mode is Mode.TRAINING
        if not training:  # an epoch ends with a smaller batch: `epochs` counts there
            require_batches(self.assignment, steps=steps, samples=timed.samples)
        self.loss = timed.loss
        self.writer.send(window)
        loss = timed.loss / max(timed.samples, 1) if training else timed.loss  # there it is a sum
        self.live.window(steps=steps, seconds=clock.seconds(timed.nanoseconds), loss=loss)

    def call(self, run: train.Loop, steps: int, *, phase: Phase = Phase.STEPPING) -> float:
        """A call outside every window, with the same end; its seconds, never 0."""
        self.writer.phase(phase)
        begun = self.now()
        run(steps).numpy()  # the device has done all of it when the number arrives
        return clock.seconds(max(1, self.now() - begun))

    def agreed(self, decision: _T) -> _T:
        """Rank 0's decision in place of this rank's own."""
        self.writer.phase(Phase.AGREEING)
        return decision if self.assignment.workers == 1 else horovod.broadcast_value(decision)


def weights_digest(weights: Sequence[tf.Variable]) -> str:
    """SHA-256 of the trainable weights, in the network's order: equal on all ranks, or gradients were not reduced.

    LossNotFinite where one is no number: a relu after a matrix product may make 0 of NaN, and a finite loss of that.
    """
    digest = hashlib.sha256()
    for variable in weights:
        value = variable.numpy()
        if not np.isfinite(value).all():
            raise LossNotFinite(f"the weight {variable.name} is not finite at the end, though the loss is")
        digest.update(value.tobytes())
    return digest.hexdigest()[:32]


def require_batches(
    assignment: assignments.Assignment, *, steps: int, samples: int, last_may_be_smaller: bool = False
) -> None:
    """RankError unless these steps saw the samples that were asked for, and that a throughput will count."""
    missing = steps * assignment.batch_per_worker - samples
    if missing == 0 or (last_may_be_smaller and 0 < missing < assignment.batch_per_worker):
        return
    raise RankError(
        ExitCode.CUSTOM_MODEL_FAILED,
        f"the batches of {assignment.custom_file or assignment.workload} had {samples} samples in {steps} steps, and "
        f"batchPerWorker asks for {assignment.batch_per_worker} in each: make batches of setting.batch_per_worker "
        "samples, and only the last one of an epoch smaller",
    )
