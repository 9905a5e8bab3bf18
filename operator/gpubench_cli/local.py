# SPDX-License-Identifier: Apache-2.0
"""The local edge: a Decision applied to processes of this machine.

The same `decide` as in the cluster, over gangs that are processes and a ledger that is a file. Trials run one after the
other whatever the study allows: on one machine two of them would measure each other. A signal suspends the study, as
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

from gpubench.analysis import environments
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.scheduler import capacity, conditions
from gpubench.scheduler import decide as decisions
from gpubench.scheduler.decision import Decision, Gang, Happening
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

    def happened(self, happening: Happening) -> None:
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
        observed, before = self._observe(), self._ledger
        decision = decisions.decide(self._plan, before, observed, self._now())
        self._record(decision)
        if read := self._describe(decision):
            again = decisions.decide(self._plan, before.with_environments(read), observed, self._now())
            decision = decision.model_copy(update={"status": again.status})
        self._act(decision)
        return decision.status

    def _record(self, decision: Decision) -> None:
        """Nothing may be lost: this before all else."""
        self._ledger = self._ledger.with_records(decision.record)
        self._place.folder.append(decision.record)

    def _describe(self, decision: Decision) -> tuple[Environment, ...]:
        """Keep the environments that stand in logs only, so far."""
        found = []
        for one in decision.describe:
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

    def _act(self, decision: Decision) -> None:
        """In the order of the Decision's fields: processes, then what people are told."""
        for gang in self._gangs:
            if any(reference.uid == gang.uid for reference in decision.delete):
                gang.delete()
            if any(reference.uid == gang.uid for reference in decision.retire):
                gang.retire()
        for order in decision.create:
            self._gangs.append(LocalGang(order, study=self._study, plan=self._plan, place=self._place))
            self._running = order
        self._publish(decision)

    def _publish(self, decision: Decision) -> None:
        self._reporter.progressed(decision.status, self._running if self._gangs else None)
        for happening in decision.happenings:
            self._reporter.happened(happening)
        if decision.status != self._status:
            self._status = decision.status
            told = {"conditions": decision.status.conditions, "started_at": decision.status.started_at}
            self._study = self._study.model_copy(update=told)
            self._place.folder.write(
                Summary(
                    name=self._study.name,
                    uid=self._study.uid,
                    machine=self._place.machine.name,
                    status=decision.status,
                )
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
