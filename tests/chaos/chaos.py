# SPDX-License-Identifier: Apache-2.0
"""`make chaos SEED=1 FAULTS=200`: faults on the embedded cluster while studies run, and what must hold afterwards.

etcd, API server, controllers and scheduler are real, the operator is itself under the chart's ClusterRole; nodes are
processes. The seed says which faults strike, in which order, at targets of which rank; how far everything has come by
then is the machine's doing, so a seed repeats a run as well as a machine can. Ends with 1 when something did not hold.
"""

import argparse
import collections
import shutil
import signal
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import chaos_faults
import chaos_place
import chaos_schedule
import chaos_studies
from chaos_faults import Injected, NoTarget
from chaos_lanes import Lanes
from chaos_place import AWAY, Place
from chaos_schedule import Fault, Kind
from cluster import ClusterError
from gpubench.scheduler.ledger import Outcome
from gpubench.scheduler.step import LEAVING_SECONDS

_TICK_SECONDS = 0.2
_LOOK_SECONDS = 1.0
_NO_TARGET_SECONDS = 600.0  # a back-off of five minutes and a start: who finds nothing for so long says that all stands
_WAITING_MOST = 3  # faults without a target, before the next ones wait for them
_END_SECONDS = 900.0  # after the last fault, for the studies under way; back-offs of five minutes among them
_HEAL_TRIES = 60
#: They tell everybody that the node goes: whoever counts such an end as a failure spends the wrong bound.
_DISRUPTIONS = frozenset({Kind.TAINT, Kind.DRAIN, Kind.SPOT_SIGNAL})
#: They strike every study, as nobody may see how a pod ended: an attempt of that time may say that it is incomplete.
_HIDES_ENDS = frozenset(Kind) - {
    Kind.POD_KILL, Kind.POD_DELETE, Kind.JOB_DELETE, Kind.RESULT_TRUNCATED, Kind.TAINT, Kind.DRAIN, Kind.SPOT_SIGNAL,
}  # fmt: skip
_HIDDEN_SECONDS = 120.0  # for which such a fault lasts at most: a node that is deleted or off comes back


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a run is to do."""

    seed: int
    faults: int
    kinds: Collection[Kind] = tuple(Kind)
    with_real: bool = True
    pace: float = 1.0  # of the pauses between faults


@dataclass
class Struck:
    """A fault that was carried out, and what became of it."""

    fault: Fault
    injected: Injected
    at: float
    noticed: str | None = None
    noticed_after: float | None = None


@dataclass
class Run:
    """One run on one place."""

    place: Place
    course: Course
    began: float = field(default_factory=time.monotonic)
    struck: list[Struck] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    _waiting: list[tuple[Fault, float]] = field(default_factory=list)  # faults without a target, and since when
    _steps: list[tuple[float, int, Callable[[], object]]] = field(default_factory=list)
    _looked_at: float = 0.0
    _hidden_at: list[float] = field(default_factory=list)  # seconds since the epoch, of faults that hide ends

    def __post_init__(self) -> None:
        self.lanes = Lanes(self.place, self.course.seed, self.course.with_real, is_excused=self._hid_ends)
        self.place.meanwhile = self._go_on

    def run(self) -> list[str]:
        """The whole run; what did not hold."""
        schedule = chaos_schedule.faults(self.course.seed, kinds=self.course.kinds, with_real=self.course.with_real)
        for fault in schedule:
            if fault.number > self.course.faults:
                break
            self._wait(fault.pause * self.course.pace)
            self._strike_one_that_waits()
            if not self._strike(fault):
                self._waiting.append((fault, time.monotonic()))
            while len(self._waiting) > _WAITING_MOST:
                self._wait(0.5)
                self._strike_one_that_waits()
        while self._waiting:
            self._wait(0.5)
            self._strike_one_that_waits()
        self._say("the last fault has struck; everything heals, and the studies under way end")
        self.lanes.closing = True
        if not self._wait(_END_SECONDS, until=lambda: not self._steps and self.lanes.is_empty):
            self.violations.append(f"{_END_SECONDS:g} s after the last fault not everything had ended and gone")
        self._look_at_the_end()
        return [*self.violations, *self.lanes.violations]

    def _strike_one_that_waits(self) -> None:
        """A fault that found no target lets the next ones go first: a study may be waiting for its next attempt."""
        for waiting in list(self._waiting):
            fault, since = waiting
            # There is one gang of real ranks at a time, and each fault that strikes it costs a back-off.
            others = [one.at for one in self.struck if one.fault.on_real] if fault.on_real else []
            late = time.monotonic() > max(since, *others, 0.0) + _NO_TARGET_SECONDS
            if self._strike(fault):
                self._waiting.remove(waiting)
                return
            if late:
                self._waiting.remove(waiting)
                found = f"fault {fault.number} ({fault.kind}): no target for {_NO_TARGET_SECONDS:g} s"
                self.violations.append(found)

    def _strike(self, fault: Fault) -> bool:
        """Whether it found a target."""
        try:
            injected = chaos_faults.inject(self.place, fault)
        except NoTarget:
            return False
        now = time.monotonic()
        self.struck.append(Struck(fault=fault, injected=injected, at=now))
        self._hidden_at += [time.time()] * (fault.kind in _HIDES_ENDS)
        self._steps += [(now + step.seconds, 0, step.run) for step in injected.steps]
        self._say(f"{fault.number:4d} {fault.kind}: {injected.text}")
        return True

    def _hid_ends(self, since: float, until: float) -> bool:
        return any(since - _HIDDEN_SECONDS < at < until + LEAVING_SECONDS for at in self._hidden_at)

    def _wait(self, seconds: float, *, until: Callable[[], bool] = lambda: False) -> bool:
        """Keep everything going for so long, or until something holds: whether it does."""
        deadline = time.monotonic() + seconds
        while not until():
            if time.monotonic() > deadline:
                return False
            self._tick()
            time.sleep(_TICK_SECONDS)
        return True

    def _go_on(self) -> None:
        """What cannot wait: the next start of what has ended, and the later steps of faults."""
        self.place.supervise()
        now = time.monotonic()
        while due := [step for step in self._steps if step[0] <= now]:
            self._steps.remove(due[0])  # before it is carried out: it may ask, and then we are called again
            self._carry_out(*due[0])

    def _tick(self) -> None:
        self._go_on()
        for struck in self.struck:
            if struck.noticed is None and struck.injected.noticed is not None:
                struck.noticed = struck.injected.noticed()
                if struck.noticed is not None:
                    struck.noticed_after = time.monotonic() - struck.at
        if time.monotonic() > self._looked_at + _LOOK_SECONDS:
            self.lanes.look()
            self._looked_at = time.monotonic()

    def _carry_out(self, due: float, tries: int, step: Callable[[], object]) -> None:
        """A later step of a fault; tried again while the API server is away."""
        del due
        try:
            step()
        except AWAY:
            if tries >= _HEAL_TRIES:
                raise
            self._steps.append((time.monotonic() + 1.0, tries + 1, step))

    def _look_at_the_end(self) -> None:
        """What must hold of the operator itself, and of what it tells."""
        self.place.supervise()
        if not self._wait(150.0, until=self._tells_nothing):
            self.violations.append("the operator still exports series of studies that are gone")
        self.violations += [
            f"the operator raised what nobody expects: {text}"
            for operator in self.place.operators
            for text in operator.exceptions
        ]
        self.violations += [*self._miscounted(), *self.place.proxy.strays]

    def _tells_nothing(self) -> bool:
        try:
            page = self.place.leader.get("/metrics")
        except OSError:
            return False
        return not any(f'benchmark_namespace="{tenant}"' in page for tenant in chaos_place.TENANTS)

    def _miscounted(self) -> list[str]:
        """An attempt that was hit by nothing but an announced disruption is no failure, if it does not fail anyway."""
        times = collections.Counter(attempt for struck in self.struck for attempt in struck.injected.attempts)
        found = []
        for struck in self.struck:
            alone = all(
                times[attempt] == 1 and chaos_studies.writes_results(attempt.benchmark)
                for attempt in struck.injected.attempts
            )
            if struck.fault.kind in _DISRUPTIONS and alone and (struck.noticed or "").startswith(Outcome.FAILED):
                found.append(f"fault {struck.fault.number} ({struck.injected.text}) was counted as {struck.noticed}")
        return found

    def _say(self, text: str) -> None:
        print(f"[{time.monotonic() - self.began:6.1f} s] {text}", flush=True)

    # --- the report -------------------------------------------------------------------------------------

    def report(self) -> None:
        """A line for each kind: how many, what became of them, how long it took to be noticed."""
        print(f"\n{'fault':20} {'struck':>6} {'noticed':>7} {'median s':>8} {'longest':>8}  what came of it")
        for kind in Kind:
            of_kind = [struck for struck in self.struck if struck.fault.kind is kind]
            if of_kind:
                print(_row(kind, of_kind))
        real = sum(struck.fault.on_real for struck in self.struck)
        hit = {attempt for struck in self.struck for attempt in struck.injected.attempts}
        print(
            f"\n{len(self.struck)} faults, {real} of them at gangs with real Horovod ranks, hit {len(hit)} attempts; "
            f"{' and '.join(f'{count} studies of {tenant}' for tenant, count in sorted(self.lanes.ended.items()))} "
            f"ended, with {self.lanes.attempts} attempts in those that finished, "
            f"and ledgers of up to {self.lanes.shards} ConfigMaps; "
            f"the operator's {len(self.place.operators)} replicas were started "
            f"{sum(one.starts for one in self.place.operators)} times, "
            f"{sum(one.ended_by_itself for one in self.place.operators)} times because one had ended by itself, "
            f"and led in turn {self.place.leaderships()} times; "
            f"{time.monotonic() - self.began:.0f} s"
        )


def _row(kind: Kind, of_kind: list[Struck]) -> str:
    seconds = [struck.noticed_after for struck in of_kind if struck.noticed_after is not None]
    median = f"{statistics.median(seconds):8.1f}" if seconds else f"{'-':>8}"
    longest = f"{max(seconds):8.1f}" if seconds else f"{'-':>8}"
    came = collections.Counter(struck.noticed for struck in of_kind if struck.noticed and struck.injected.attempts)
    text = ", ".join(f"{count} {what}" for what, count in came.most_common())
    return f"{kind:20} {len(of_kind):6} {len(seconds):7} {median} {longest}  {text}"


def main(arguments: list[str] | None = None) -> int:
    """Parse, bring up, run, report; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--without-real", action="store_true", help="no gangs with TensorFlow and Horovod")
    parser.add_argument("--only", default="", help="kinds, separated by commas; all by default")
    parser.add_argument("--keep", type=Path, help="an empty folder for logs; removed otherwise, unless the run fails")
    given = parser.parse_args(arguments)
    kinds = tuple(Kind(name) for name in given.only.split(",") if name) or tuple(Kind)
    course = Course(seed=given.seed, faults=given.faults, kinds=kinds, with_real=not given.without_real)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="gpubench-chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    violations = carried_out(course, folder)
    if not violations:
        if given.keep is None:
            shutil.rmtree(folder)
        print(f"seed {course.seed}, {course.faults} faults: everything held")
        return 0
    print(f"\nseed {course.seed}, {course.faults} faults: {len(violations)} things did not hold", file=sys.stderr)
    for violation in violations:
        print(f"  {violation}", file=sys.stderr)
    only = f' ARGUMENTS="--only {given.only}"' if given.only else ""
    print(
        f"again: git checkout {chaos_place.as_of_git()} && make chaos SEED={course.seed} FAULTS={course.faults}{only}\n"
        f"logs: {folder / 'operator-0.log'}, operator-1.log, {folder / 'cluster' / 'logs'}",
        file=sys.stderr,
    )
    return 1


def carried_out(course: Course, folder: Path) -> list[str]:
    """A whole run with its report: what did not hold."""
    began = time.monotonic()
    with chaos_place.brought_up(folder, with_real=course.with_real) as place:
        print(f"seed {course.seed}, {course.faults} faults; brought up in {time.monotonic() - began:.0f} s", flush=True)
        run = Run(place, course)
        try:
            return run.run()
        except Exception as error:  # whatever it is: the seed and the logs are of use to whoever looks for it
            traceback.print_exc()
            return [*run.violations, *run.lanes.violations, f"the run broke off: {error!r}"]
        finally:
            run.report()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    try:
        sys.exit(main())
    except ClusterError as error:
        sys.exit(f"chaos: {error}")
