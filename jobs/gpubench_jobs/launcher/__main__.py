# SPDX-License-Identifier: Apache-2.0
"""The main process of a gang's pod (`python -m gpubench_jobs.launcher`): meets the others, runs the ranks, ends.

All that it needs is in the environment (`config`). Its standard output carries records; its exit code is an `ExitCode`.
Must not happen: an end without a termination message; a wait without a bound; a worker that starts before every pod has
joined; a worker that survives; an import of TensorFlow.
"""

import contextlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType


class _Stop:
    """Set by SIGTERM or SIGINT; looked at in every loop. Process 1 of a container hears only what it has asked for."""

    def __init__(self) -> None:
        self.requested = False
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.requested = True

    def check(self) -> None:
        if self.requested:
            raise Failed(ExitCode.TERMINATED, "the pod was told to stop (SIGTERM)")


_STOP = _Stop()  # from here on: what is imported below takes a second, and many on a busy node

from gpubench import names, records  # noqa: E402
from gpubench.exitcodes import ExitCode  # noqa: E402
from gpubench_jobs import channel, clock, failures  # noqa: E402
from gpubench_jobs.engines import launch  # noqa: E402
from gpubench_jobs.launcher import barrier, config, exit_status, processes, recording  # noqa: E402
from gpubench_jobs.launcher.exit_status import Failed  # noqa: E402
from gpubench_jobs.worker import checkpoint  # noqa: E402

_LOOK_SECONDS = 0.2
_UNANSWERED = (barrier.Unreachable, barrier.Refused)


def main() -> int:
    started_ns = clock.monotonic_ns()
    try:
        pod = config.read(os.environ)
    except config.BadConfig as error:
        trial, attempt = config.trial_and_attempt(os.environ)
        failure = Failed(ExitCode.BAD_ASSIGNMENT, str(error)).record(trial=trial, attempt=attempt)
        return _close(recording.Recording(), failure)
    return _Launcher(pod, stop=_STOP, started_ns=started_ns).run()


class _Launcher:
    def __init__(self, pod: config.PodConfig, *, stop: _Stop, started_ns: int) -> None:
        self._pod = pod
        self._stop = stop
        self._started_ns = started_ns
        self._deadline_join = time.monotonic() + pod.assignment.join_timeout_seconds
        self._last_checkpoint_until: float | None = None  # as long as ranks may go on; None before it was looked at
        self._gang: barrier.Gang | None = None
        self._recording = recording.Recording(pod.records, runs_again=pod.runs_again)
        self._processes = processes.Processes(publish=self._recording.publish)

    def run(self) -> int:
        try:
            self._gang = gang = self._open_gang()
            self._meet(gang)
            self._start_workers(gang)
            self._watch(gang)
            return self._succeed(gang)
        except Failed as failed:
            return self._fail(failed)
        except Exception as error:
            recording.say(traceback.format_exc())
            return self._fail(_unexpected(error))

    # Meeting

    def _open_gang(self) -> barrier.Gang:
        pod, work = self._pod, barrier.work_of(self._pod.assignment)
        if pod.pod:
            return barrier.RemoteGang(
                host=pod.rendezvous_host,
                port=names.PORT_BARRIER,
                gang=pod.gang,
                pod=pod.pod,
                source=pod.gang_ip,
                token=pod.token,
                work=work,
            )
        membership = barrier.Membership(gang=pod.gang, pods=pod.pods, work=work, address=pod.gang_ip)

        # Where pods share a network, the attempt before may hold a port for another moment.
        serve = partial(
            self._retry,
            until=self._deadline_join,
            failed=lambda error: self._join_timeout(f"a port of {pod.gang_ip} could not be opened: {error}"),
        )
        serve(lambda: barrier.Server(membership, address=pod.gang_ip, port=names.PORT_BARRIER, token=pod.token).start())
        serve(
            lambda: launch.serve_rendezvous(
                address=pod.gang_ip,
                port=names.PORT_RENDEZVOUS,
                hosts=pod.pods,
                slots=pod.assignment.workers_per_node,
                admits=(lambda _: True) if pod.token is None else membership.admits,
            )
        )
        return membership

    def _retry(self, call: Callable[[], None], *, until: float, failed: Callable[[Exception], Failed]) -> None:
        while True:
            self._stop.check()
            try:
                return call()
            except (OSError, *_UNANSWERED) as error:
                if time.monotonic() > until:
                    raise failed(error) from error
            time.sleep(self._pod.limits.poll_seconds)

    def _meet(self, gang: barrier.Gang) -> None:
        """Join, and wait until every pod has; the only end of a wait here is the join time-out."""
        pods, joined, state, trouble, refusal = self._pod.pods, False, barrier.State(), "", ""
        while len(state.joined) < pods:
            self._stop.check()
            try:
                if not joined:
                    gang.join()
                    joined = True
                state, trouble, refusal = gang.state(), "", ""
            except barrier.OtherWork as error:
                raise Failed(ExitCode.BAD_ASSIGNMENT, str(error)) from error
            except barrier.Refused as error:
                refusal = str(error)  # which tells more than that, later, nobody answers
            except barrier.Unreachable as error:
                trouble = str(error)
            if state.fault and state.fault.pod != self._pod.pod:
                raise exit_status.peer_failed(state.fault)
            # Pod 0 knows who is missing: whoever has reached it gives it the first word.
            patience = self._pod.limits.silence_seconds if joined and self._pod.pod else 0.0
            if time.monotonic() > self._deadline_join + patience:
                missing = ", ".join(map(str, sorted(set(range(pods)) - set(state.joined))))
                here = f"{len(state.joined)} of {pods} are here, missing: pod {missing}"
                raise self._join_timeout(refusal or trouble or here)
            if len(state.joined) < pods:
                time.sleep(self._pod.limits.poll_seconds)
        self._join_seconds = clock.seconds(clock.monotonic_ns() - self._started_ns)

    def _join_timeout(self, why: str) -> Failed:
        seconds = self._pod.assignment.join_timeout_seconds
        return Failed(ExitCode.JOIN_TIMEOUT, f"not every pod came within {seconds:g} s: {why}")

    # Working

    def _start_workers(self, gang: barrier.Gang) -> None:
        pod, cores = self._pod, self._cores()
        self._memory_kills = exit_status.out_of_memory_kills()
        for place, rank in enumerate(pod.ranks):
            worker = channel.WorkerConfig(
                assignment=pod.assignment,
                rank=rank,
                cores=cores[place] if cores else (),
                channel=-1,
                launcher=os.getpid(),
                started_ns=clock.monotonic_ns(),
                join_seconds=self._join_seconds,
                pod_ip=pod.pod_ip,
                checkpoints=str(pod.checkpoints) if pod.checkpoints is not None else None,
            )
            variables = launch.worker_environment(
                pod.assignment, rank, inherited=os.environ, rendezvous_address=gang.address, interface=pod.interface
            )
            self._processes.start(worker, environment=variables)

    def _cores(self) -> tuple[tuple[int, ...], ...] | None:
        """The cores of each rank; None when they share what the pod has, which is said once."""
        assignment, own = self._pod.assignment, os.sched_getaffinity(0)
        try:
            shares = config.share_cores(
                own, ranks=len(self._pod.ranks), processors=assignment.slot_processors, alone=assignment.pin
            )
        except ValueError as error:
            raise Failed(ExitCode.BAD_ASSIGNMENT, str(error)) from error
        if assignment.gpu:
            return None  # the right cores are those near the rank's GPU, and nothing here tells which these are
        if shares is None:
            recording.say(
                "ranks are not pinned: the pod may use more cores than it needs, and others may be on its node; "
                "for figures of scaling use exclusive nodes or the kubelet's static CPU manager"
            )
        return shares

    def _watch(self, gang: barrier.Gang) -> None:
        limits, fault = self._pod.limits, None
        answered, ask_again = time.monotonic(), 0.0
        while True:
            if self._stop.requested and not self._may_still_keep_a_checkpoint():
                self._stop.check()
            seen = self._processes.poll(timeout=_LOOK_SECONDS)
            if (now := time.monotonic()) >= ask_again:  # whether the gang knows of a failure
                ask_again = now + limits.watch_seconds
                with contextlib.suppress(*_UNANSWERED):
                    fault, answered = gang.state().fault, time.monotonic()
            kills = exit_status.out_of_memory_kills() if any(one.returncode for one in seen) else self._memory_kills
            pod = exit_status.PodState(
                pod=self._pod.pod,
                ranks=seen,
                now_ns=clock.monotonic_ns(),
                stall_seconds=self._pod.assignment.stall_timeout_seconds,
                fault=fault,
                barrier_silent=time.monotonic() - answered > limits.silence_seconds,
                custom_file=self._pod.assignment.custom_file,
                out_of_memory_kills=kills - self._memory_kills,
            )
            if failed := exit_status.classify(pod, limits):
                if not failed.own:
                    self._stop.check()  # who was told to stop before did not lose a peer
                raise failed
            if pod.finished:
                return

    def _may_still_keep_a_checkpoint(self) -> bool:
        """After SIGTERM: whether ranks, of all pods, go on for a last checkpoint; pod 0 asks rank 0 for it."""
        if self._pod.checkpoints is None:
            return False
        if self._last_checkpoint_until is None:
            seconds = self._pod.limits.last_checkpoint_seconds
            self._last_checkpoint_until = time.monotonic() + seconds
            deadline_ns = clock.monotonic_ns() + round(seconds * clock.NANOSECONDS)
            self._processes.ask(channel.Request(deadline_ns=deadline_ns))
        return not self._processes.answered and time.monotonic() < self._last_checkpoint_until

    # Ending

    def _succeed(self, gang: barrier.Gang) -> int:
        """Say done; pod 0 waits for all, so that its 0 means that every rank agreed to the result.

        When pod 0 ends, the Job controller deletes the others: their records are kept before they say done.
        """
        limits, is_first = self._pod.limits, isinstance(gang, barrier.Membership)
        if not is_first:
            self._recording.settle(within=limits.keep_seconds)
        others_keep = limits.keep_seconds if is_first and self._pod.records is not None else 0.0
        deadline = time.monotonic() + limits.done_seconds + others_keep
        self._retry(gang.done, until=deadline, failed=lambda error: Failed(ExitCode.PEER_LOST, str(error)))
        if not is_first:
            self._recording.close(within=limits.keep_seconds)
            return ExitCode.SUCCEEDED
        while len((state := gang.state()).done) < self._pod.pods:
            self._stop.check()
            if state.fault:
                raise exit_status.peer_failed(state.fault)
            if time.monotonic() > deadline:
                missing = sorted(set(range(self._pod.pods)) - set(state.done))
                raise Failed(ExitCode.PEER_LOST, f"pods {missing} did not acknowledge the result in time")
            time.sleep(0.02)
        if self._processes.result is None:
            raise Failed(ExitCode.WORKER_RAISED, "rank 0 ended well and gave no result")
        code = _close(self._recording, self._processes.result)
        self._recording.close(within=limits.keep_seconds)
        if code == ExitCode.SUCCEEDED and self._pod.checkpoints is not None:
            # Nobody goes on from them, and each is as large as the model; a volume that is away holds up no end.
            store = checkpoint.Store(folder=self._pod.checkpoints)
            remover = threading.Thread(target=store.remove, name="checkpoints", daemon=True)
            remover.start()
            remover.join(limits.keep_seconds)
        return code

    def _fail(self, failed: Failed) -> int:
        """Last words first, then the others, which a worker that hangs in the kernel must not delay, then workers."""
        assignment, limits, gang = self._pod.assignment, self._pod.limits, self._gang
        code = _close(self._recording, failed.record(trial=assignment.trial, attempt=assignment.attempt))
        # A pod that waited in vain is no cause; only pod 0 can say who is.
        if failed.own and gang and not (failed.exit_code is ExitCode.JOIN_TIMEOUT and self._pod.pod):
            with contextlib.suppress(*_UNANSWERED):
                gang.report(failed.fault(self._pod.pod))
        if left := self._processes.stop(kill_after=limits.kill_seconds):
            recording.say(f"ranks {left} did not end even by SIGKILL: see the node's log")
        # The last words are said: a volume that does not answer keeps nobody from them.
        self._recording.close(within=limits.keep_seconds)
        if failed.own:  # pod 0 takes the barrier with it when it ends: the others must have asked before
            deadline = time.monotonic() + limits.inform_seconds
            if isinstance(gang, barrier.Membership):
                while not gang.everyone_informed() and time.monotonic() < deadline:
                    time.sleep(0.02)
        else:  # SIGTERM ends the wait: then whoever sent it has seen what there is to see
            deadline = time.monotonic() + limits.linger_seconds
            while time.monotonic() < deadline and not self._stop.requested:
                time.sleep(_LOOK_SECONDS)
        return code


def _unexpected(error: Exception) -> Failed:
    """What nobody has foreseen is a failure like any other: with a reason, and told to the peers."""
    if isinstance(error, ImportError):
        lacking = f"the image lacks {error.name or 'a library'}: {error}: use an image of the operator's version"
        return Failed(ExitCode.BAD_ASSIGNMENT, lacking)
    if failures.no_room(error):
        return Failed(ExitCode.DISK_FULL, failures.room_wanted(error))
    said = f"{type(error).__name__}: {str(error)[:500]}"
    return Failed(ExitCode.WORKER_RAISED, f"the launcher failed: {said}: see the end of its log")


def _close(recorded: recording.Recording, ending: records.Result | records.Failure) -> int:
    """The closing record, in the log and as termination message; the exit code. Without a log a result is a failure."""
    try:
        recorded.publish(ending)
    except OSError as error:
        recording.silence(sys.stdout)
        if isinstance(ending, records.Result):
            ending = _unexpected(error).record(trial=ending.trial, attempt=ending.attempt)
    try:
        path = Path(os.environ.get(names.ENV_TERMINATION_MESSAGE) or names.TERMINATION_MESSAGE_PATH)
        exit_status.write_termination_message(path, records.termination_message(ending))
    except OSError as error:
        recording.say(f"the termination message could not be written: {error}")
        if isinstance(ending, records.Result):
            return ExitCode.DISK_FULL if failures.no_room(error) else ExitCode.RESULT_NOT_WRITTEN
    return ending.exit_code if isinstance(ending, records.Failure) else ExitCode.SUCCEEDED


if __name__ == "__main__":
    sys.exit(main())
