# SPDX-License-Identifier: Apache-2.0
"""The local edge: the scheduler's actions applied to processes of this machine.

The same scheduler as in the cluster, over gangs that are processes and a ledger that is a file. Trials run one after
the other whatever the benchmark allows: on one machine two of them would measure each other. A signal suspends it, as
`spec.suspend` would: what runs is stopped and recorded, what was measured is kept.

Must not happen: a process that is still there when `run` has returned or raised.
"""

import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Protocol

from gpubench.analysis import analyze, status
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import account, capacity, conditions, environments, events, step
from gpubench.scheduler.actions import Actions, Event, Gang
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import Observed, Study
from gpubench_cli import pod
from gpubench_cli.gang import LocalGang, Place
from gpubench_cli.refusal import Stopped
from gpubench_cli.results import Summary

_LOOK_SECONDS = 0.2  # rarely enough that looking does not disturb what is measured
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Reporter(Protocol):
    """Who tells the person."""

    def happened(self, happening: Event) -> None:
        """Something to tell once."""

    def progressed(self, status: GpuBenchmarkStatus, running: Gang | None) -> None:
        """Where the study stands, and the gang that runs."""


def one_at_a_time(study: Study) -> Study:
    """The study as it is run on one machine."""
    limits = study.spec.limits.model_copy(update={"parallel_trials": 1})
    return _with_spec(study, limits=limits)


class LocalRun:
    """One study on this machine, from the first attempt to the last."""

    def __init__(
        self,
        study: Study,
        plan: Plan,
        *,
        place: Place,
        reporter: Reporter,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._study = one_at_a_time(study)
        self._plan = plan
        self._place = place
        self._reporter = reporter
        self._now = now
        self._ledger = Ledger()
        self._account = account.of(plan.as_measured(), self._ledger)
        self._gangs: list[LocalGang] = []
        self._running: Gang | None = None
        self._status: GpuBenchmarkStatus | None = None
        self._signals: list[int] = []

    def run(self) -> GpuBenchmarkStatus:
        """The status at the end; Stopped after a signal."""
        with self._listening(), pod.adopting():
            try:
                while not self._done(status := self._step()):
                    self._wait()
            finally:
                pod.kill_all(self._gangs)
        if self._signals:
            raise Stopped(self._signals[0])
        return status

    def _done(self, status: GpuBenchmarkStatus) -> bool:
        over = self._study.spec.suspend or conditions.holds(status.conditions, conditions.FINISHED)
        return over and not self._gangs

    def _step(self) -> GpuBenchmarkStatus:
        """Observe, decide, act."""
        for gang in self._gangs:
            gang.tend()
        self._gangs = [gang for gang in self._gangs if not gang.gone]
        if self._status is not None and any(gang.ending for gang in self._gangs):
            return self._status  # half an end is no news: a gang's end is judged when all of it has ended
        observed, before, now = self._observe(), self._ledger, self._now()
        made = step.step(self._plan, before, self._account, observed, now)
        self._record(made)
        if read := self._describe(made.actions):
            made = step.step(self._plan, before.with_environments(read), self._account, observed, now)
        self._account = made.account
        found = analyze.analyze(self._plan, made.ledger, made.points, self._study.spec)
        self._act(made, status.status(self._study, self._plan, made, found, now=now))
        assert self._status is not None
        return self._status

    def _record(self, made: step.Step) -> None:
        """Nothing may be lost: this before all else."""
        self._ledger = made.ledger
        self._place.folder.append(made.actions.record)

    def _describe(self, actions: Actions) -> tuple[Environment, ...]:
        """Keep the environments that stand in logs only, so far."""
        found = []
        for one in actions.describe:
            head = self._place.folder.log_head(trial=one.trial, attempt=one.attempt, limit=environments.LOG_HEAD_BYTES)
            environment = environments.in_log(head, one.environment)
            if environment is not None:
                found.append(environment)
        self._place.folder.append_environments(found)
        self._ledger = self._ledger.with_environments(found)
        return tuple(found)

    def _observe(self) -> Observed:
        jobs = tuple(gang.observe() for gang in self._gangs)
        held: dict[str, int] = {}
        for job in jobs:
            if job.holds_slots:
                held[job.pool] = held.get(job.pool, 0) + job.slots
        return Observed(study=self._study, jobs=jobs, free=capacity.free_slots(self._plan, held))

    def _act(self, made: step.Step, status: GpuBenchmarkStatus) -> None:
        """Processes, then what people are told."""
        for gang in self._gangs:
            if any(reference.uid == gang.uid for reference in made.actions.delete):
                gang.delete()
            if any(reference.uid == gang.uid for reference in made.actions.retire):
                gang.retire()
        for order in made.actions.create:
            self._gangs.append(LocalGang(order, study=self._study, plan=self._plan, place=self._place))
            self._running = order
        self._reporter.progressed(status, self._running if self._gangs else None)
        ended = [record for record in made.actions.record if record.outcome is not None]
        for event in events.events(self._study, self._plan, ended=ended, created=made.actions.create, status=status):
            self._reporter.happened(event)
        if status != self._status:
            self._status = status
            told = {"conditions": status.conditions, "started_at": status.started_at}
            self._study = self._study.model_copy(update=told)
            machine = self._place.machine.name
            self._place.folder.write(
                Summary(name=self._study.name, uid=self._study.uid, machine=machine, status=status)
            )

    def _wait(self) -> None:
        if self._signals and not self._study.spec.suspend:
            self._study = _with_spec(self._study, suspend=True)
            return
        if len(self._signals) > 1:  # who asks twice does not want to wait
            pod.kill_all(self._gangs)
        time.sleep(_LOOK_SECONDS)

    @contextmanager
    def _listening(self) -> Iterator[None]:
        def note(number: int, _: FrameType | None) -> None:
            self._signals.append(number)

        # Whoever ignores SIGHUP, as nohup does, wants the study to go on without a terminal.
        heeded = [one for one in _SIGNALS if one != signal.SIGHUP or signal.getsignal(one) != signal.SIG_IGN]
        before = {number: signal.signal(number, note) for number in heeded}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextmanager
def scratch() -> Iterator[Path]:
    """A folder for what nobody wants to keep."""
    with tempfile.TemporaryDirectory(prefix="gpubench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _with_spec(study: Study, **changes: object) -> Study:
    return study.model_copy(update={"spec": study.spec.model_copy(update=changes)})
