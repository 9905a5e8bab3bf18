# SPDX-License-Identifier: Apache-2.0
"""The faults: one function for each kind, which does it to a place and says what it hit, how it heals, who notices.

A fault strikes at once; what comes later (a node that returns, a server that is started again) are its steps, which the
run carries out between other faults. What may not happen here: a fault that nothing heals, or a look at whether
gpubench took it well.
"""

import contextlib
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import psutil

import chaos_studies
import stand_in_worker
from chaos_place import (
    CONTROLLERS,
    REAL_POOL,
    STAND_IN_POOLS,
    STRATEGIC_PATCH,
    Attempt,
    Gang,
    Place,
    signal_process,
)
from chaos_schedule import Fault, Kind
from gpubench_cluster import kube

_TAINT = "chaos.gpubench.dev/out"
_IMPENDING = "cloud.google.com/impending-node-termination"  # what GKE taints a spot node with whose end is announced
_SPOT_NOTICE_SECONDS = 3.0  # GKE gives 15; the worker's own end takes less than one
_LEASE_AND_MORE = 9.0  # seconds that a frozen operator stays so: longer than its Lease
_AT_THE_LEADER = 0.75  # of the kills; the others are at the replica that stands by
_PATIENCE_SECONDS = 12.0  # of a disturbance of requests that do not come
_CLOCK_STEPS = (-60.0, -15.0, -3.0, 3.0, 15.0, 60.0)


class NoTarget(Exception):
    """Nothing runs that this fault could hit: look again in a moment."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """What a fault does later: so many seconds after it has struck."""

    seconds: float
    run: Callable[[], object]


@dataclass(frozen=True, kw_only=True)
class Injected:
    """A fault that has struck."""

    text: str
    attempts: frozenset[Attempt] = frozenset()
    steps: tuple[Step, ...] = ()
    noticed: Callable[[], str | None] | None = None  # what tells that gpubench has taken it in; None: nothing does


def inject(place: Place, fault: Fault) -> Injected:
    """Strike; NoTarget where there is nothing to be hit just now."""
    return _INJECTORS[fault.kind](place, fault)


# --- the operator -----------------------------------------------------------------------------------------


def _operator_kill(place: Place, fault: Fault) -> Injected:
    if fault.rank < _AT_THE_LEADER:
        noticed = _another_leads(place)
        place.leader.kill_and_start()
        return Injected(text="kill -9 of the operator that leads", noticed=noticed)
    struck = min(place.operators, key=lambda one: one.said_at("leading"))
    struck.kill_and_start()

    def stands_by() -> str | None:
        return "it stands by again" if struck.said_at("standing by") or struck.said_at("leading") else None

    return Injected(text="kill -9 of the operator that stands by", noticed=stands_by)


def _operator_freeze(place: Place, fault: Fault) -> Injected:
    del fault
    process = psutil.Process(place.leader.pid)
    noticed = _another_leads(place)
    process.suspend()

    def resume() -> None:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.resume()

    return Injected(
        text=f"SIGSTOP of the operator that leads for {_LEASE_AND_MORE:g} s, longer than its Lease",
        steps=(Step(seconds=_LEASE_AND_MORE, run=resume),),
        noticed=noticed,
    )


def _clock_step(place: Place, fault: Fault) -> Injected:
    seconds = _CLOCK_STEPS[int(fault.rank * len(_CLOCK_STEPS))]
    operator = place.leader
    operator.step_clock(seconds)
    lasting = 4.0 + 8.0 * fault.size
    return Injected(
        text=f"the operator's clock steps by {seconds:+g} s, and back after {lasting:.0f} s",
        steps=(Step(seconds=lasting, run=lambda: operator.step_clock(0.0)),),
    )


def _another_leads(place: Place) -> Callable[[], str | None]:
    before = place.leaderships()
    return lambda: "another process leads" if place.leaderships() > before else None


def _works_again(place: Place, *, after: float = 0.0) -> Callable[[], str | None]:
    """Whether the operator has got an answer that it wanted since the fault was over."""
    since = time.monotonic() + after

    def noticed() -> str | None:
        return "the operator is answered again" if place.proxy.answered_at > since else None

    return noticed


# --- gangs ------------------------------------------------------------------------------------------------


def _target(place: Place, fault: Fault, wanted: Callable[[Gang], bool] = lambda _: True) -> Gang:
    """The pod of that rank among those that run."""
    pools = (REAL_POOL,) if fault.on_real else STAND_IN_POOLS
    found = [gang for gang in place.gangs(pools) if wanted(gang)]
    if not found:
        raise NoTarget
    return found[int(fault.rank * len(found))]


def _hit(place: Place, gang: Gang, text: str, *steps: Step) -> Injected:
    """A fault whose end is seen in what the operator says of the attempt."""
    attempts = frozenset({gang.attempt})
    since = time.monotonic()
    place.struck_at[gang.attempt.benchmark] = since

    def ended() -> str | None:
        fields = place.ended(attempts, since=since)
        return None if fields is None else f"{fields['outcome']} ({fields['reason']})"

    where = f"{gang.pod} on {gang.node}{' (real ranks)' if gang.pool == REAL_POOL else ''}"
    return Injected(text=f"{text}: {where}", attempts=attempts, steps=steps, noticed=ended)


def _pod_kill(place: Place, fault: Fault) -> Injected:
    """The first process of the pod, or with real ranks, in half of the cases, one of those."""
    gang = _target(place, fault)
    shim = place.shim(gang)
    if shim is None:
        raise NoTarget
    try:
        processes = shim.children(recursive=fault.size >= 0.5)
    except psutil.NoSuchProcess:
        raise NoTarget from None
    if not processes or not signal_process(processes[-1], signal.SIGKILL):
        raise NoTarget
    return _hit(place, gang, "kill -9 in a pod")


def _pod_delete(place: Place, fault: Fault) -> Injected:
    gang = _target(place, fault)
    grace = 0 if fault.size < 0.3 else None
    path = kube.PODS.path(namespace=gang.namespace, name=gang.pod)
    place.ask("DELETE", path, {} if grace is None else {"gracePeriodSeconds": grace})
    return _hit(place, gang, "a pod deleted" + (" by force" if grace == 0 else ""))


def _job_delete(place: Place, fault: Fault) -> Injected:
    gang = _target(place, fault)
    options = {"propagationPolicy": "Background" if fault.size < 0.5 else "Foreground"}
    place.ask("DELETE", kube.JOBS.path(namespace=gang.namespace, name=gang.job), options)
    return _hit(place, gang, f"a Job deleted ({options['propagationPolicy']})")


def _result_truncated(place: Place, fault: Fault) -> Injected:
    """The stand-in writes half of its result when it finds the mark beside its termination message."""
    gang = _target(place, fault, lambda one: one.pod_index == 0 and chaos_studies.writes_results(one.attempt.benchmark))
    with contextlib.suppress(OSError):
        (place.pod_folder(gang) / stand_in_worker.TRUNCATE_MARK).touch()
        return _hit(place, gang, "half of a result is written")
    raise NoTarget


# --- nodes ------------------------------------------------------------------------------------------------


def _give_back(place: Place, node: str, heal: Callable[[], object], *, after: float) -> Step:
    """The last step of a fault that has taken a node."""
    place.down.add(node)

    def run() -> None:
        heal()
        place.down.discard(node)

    return Step(seconds=after, run=run)


def _taint(place: Place, fault: Fault) -> Injected:
    gang = _target(place, fault)
    place.taint(gang.node, key=_TAINT, effect="NoExecute")

    def heal() -> None:
        place.taint(gang.node, key=_TAINT, effect=None)

    return _hit(place, gang, "NoExecute taint", _give_back(place, gang.node, heal, after=3.0 + 5.0 * fault.size))


def _drain(place: Place, fault: Fault) -> Injected:
    """As kubectl drain: cordon, then evict."""
    gang = _target(place, fault)
    place.change_node(gang.node, {"spec": {"unschedulable": True}})
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": gang.pod, "namespace": gang.namespace},
    }
    place.ask("POST", kube.PODS.path(namespace=gang.namespace, name=gang.pod, subresource="eviction"), eviction)

    def heal() -> None:
        place.change_node(gang.node, {"spec": {"unschedulable": None}})

    return _hit(place, gang, "drain", _give_back(place, gang.node, heal, after=3.0 + 5.0 * fault.size))


def _node_delete(place: Place, fault: Fault) -> Injected:
    """The object goes, the machine runs on. In a third of the cases for so long that Kubernetes collects its pods."""
    gang = _target(place, fault)
    place.ask("DELETE", kube.NODES.path(name=gang.node))
    lasting = 70.0 if fault.size > 0.67 else 5.0
    heal = _give_back(place, gang.node, lambda: place.start_node_program(gang.node), after=lasting)
    return _hit(place, gang, f"Node deleted for {lasting:g} s", heal)


def _not_ready(place: Place, fault: Fault) -> Injected:
    """Its kubelet crashes. In half of the cases for so long that the node is NotReady and its pods are evicted."""
    gang = _target(place, fault)
    place.stop_node_program(gang.node, signal.SIGKILL)
    lasting = 30.0 if fault.size > 0.5 else 6.0
    heal = _give_back(place, gang.node, lambda: place.start_node_program(gang.node), after=lasting)
    return _hit(place, gang, f"no sign of life of a node for {lasting:g} s, its pods run on", heal)


def _power_loss(place: Place, fault: Fault) -> Injected:
    gang = _target(place, fault)
    place.stop_node_program(gang.node, signal.SIGTERM)
    lasting = 15.0 + 20.0 * fault.size
    heal = _give_back(place, gang.node, lambda: place.start_node_program(gang.node), after=lasting)
    return _hit(place, gang, f"a machine off for {lasting:.0f} s", heal)


def _spot_signal(place: Place, fault: Fault) -> Injected:
    """As a spot node of GKE goes: taint, the kubelet ends the pods and says why, then machine and Node are gone."""
    gang = _target(place, fault)
    place.taint(gang.node, key=_IMPENDING, effect="NoSchedule")
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "TerminationByKubelet",
        "message": "Pod was terminated in response to imminent node shutdown.",
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    path = kube.PODS.path(namespace=gang.namespace, name=gang.pod, subresource="status")
    place.ask("PATCH", path, {"status": {"conditions": [condition]}}, content_type=STRATEGIC_PATCH)
    if (shim := place.shim(gang)) is not None:
        signal_process(shim, signal.SIGTERM)  # it passes it on to the pod's first process

    has_gone = False

    def gone() -> None:
        nonlocal has_gone
        place.stop_node_program(gang.node, signal.SIGTERM)
        place.ask("DELETE", kube.NODES.path(name=gang.node))
        has_gone = True

    def heal() -> None:
        if not has_gone:  # its deletion waits for the API server: what registers now would be deleted
            raise ConnectionError(f"node {gang.node} has not gone yet")
        place.start_node_program(gang.node)

    another = _give_back(place, gang.node, heal, after=10.0 + 10.0 * fault.size)
    return _hit(place, gang, "spot signal", Step(seconds=_SPOT_NOTICE_SECONDS, run=gone), another)


# --- the control plane ------------------------------------------------------------------------------------


def _api_server_restart(place: Place, fault: Fault) -> Injected:
    return _restarted(place, "apiserver", lasting=6.0 * fault.size)


def _etcd_restart(place: Place, fault: Fault) -> Injected:
    return _restarted(place, "etcd", lasting=4.0 * fault.size)


def _restarted(place: Place, component: str, *, lasting: float) -> Injected:
    """Nobody waits for its answers: what it needs may be down as well, and is started again by another step."""
    place.cluster.kill(component)
    return Injected(
        text=f"kill -9 of {component}, started again after {lasting:.1f} s",
        steps=(Step(seconds=lasting, run=lambda: place.cluster.restart(component, wait=False)),),
        noticed=_works_again(place, after=lasting),
    )


def _controllers_restart(place: Place, fault: Fault) -> Injected:
    """Job controller, garbage collector, taint manager; and the scheduler."""
    place.down |= set(CONTROLLERS)
    for component in CONTROLLERS:
        place.cluster.kill(component)
    lasting = 1.0 + 4.0 * fault.size

    def heal() -> None:
        place.down -= set(CONTROLLERS)
        place.supervise()

    return Injected(
        text=f"kill -9 of controller-manager and scheduler, started again after {lasting:.1f} s",
        steps=(Step(seconds=lasting, run=heal),),
    )


# --- between operator and API server ----------------------------------------------------------------------


def _disturbed(place: Place, fault: Fault, text: str, *, requests: int, seconds: float) -> Injected:
    disturbance = place.proxy.disturb(fault.kind, requests=requests, seconds=seconds, size=fault.size)

    def noticed() -> str | None:
        """Once it is over: that it was done to something, and that the operator is answered again."""
        over = disturbance.is_over and place.proxy.answered_at > disturbance.over_at
        return f"{disturbance.hit} hit, answered again" if disturbance.hit and over else None

    return Injected(text=text, noticed=noticed)


def _few(fault: Fault) -> int:
    return 2 + int(fault.size * 8)


def _conflict(place: Place, fault: Fault) -> Injected:
    text = f"409 to {_few(fault)} writes"
    return _disturbed(place, fault, text, requests=_few(fault), seconds=_PATIENCE_SECONDS)


def _too_many(place: Place, fault: Fault) -> Injected:
    text = f"429 with Retry-After to {_few(fault)} requests"
    return _disturbed(place, fault, text, requests=_few(fault), seconds=_PATIENCE_SECONDS)


def _server_error(place: Place, fault: Fault) -> Injected:
    text = f"500, 502, 503, 504 to {2 * _few(fault)} requests"
    return _disturbed(place, fault, text, requests=2 * _few(fault), seconds=_PATIENCE_SECONDS)


def _lost_answer(place: Place, fault: Fault) -> Injected:
    text = f"{_few(fault)} writes are carried out and their answers lost"
    return _disturbed(place, fault, text, requests=_few(fault), seconds=_PATIENCE_SECONDS)


def _gone(place: Place, fault: Fault) -> Injected:
    if not place.proxy.open_watches:
        raise NoTarget
    text = f"410 to all watches and to {_few(fault)} lists"
    return _disturbed(place, fault, text, requests=place.proxy.open_watches + _few(fault), seconds=_PATIENCE_SECONDS)


def _cut_watches(place: Place, fault: Fault) -> Injected:
    if not place.proxy.open_watches:
        raise NoTarget
    text = "all watches cut in the middle of an event"
    return _disturbed(place, fault, text, requests=place.proxy.open_watches, seconds=_PATIENCE_SECONDS)


def _slow(place: Place, fault: Fault) -> Injected:
    lasting = 4.0 + 6.0 * fault.rank
    text = f"slow answers for {lasting:.0f} s"
    return _disturbed(place, fault, text, requests=10_000, seconds=lasting)


def _silent(place: Place, fault: Fault) -> Injected:
    lasting = 2.0 + 6.0 * fault.size
    return _disturbed(place, fault, f"no answer at all for {lasting:.0f} s", requests=10_000, seconds=lasting)


_INJECTORS: Mapping[Kind, Callable[[Place, Fault], Injected]] = {
    Kind.OPERATOR_KILL: _operator_kill,
    Kind.OPERATOR_FREEZE: _operator_freeze,
    Kind.CLOCK_STEP: _clock_step,
    Kind.POD_KILL: _pod_kill,
    Kind.POD_DELETE: _pod_delete,
    Kind.JOB_DELETE: _job_delete,
    Kind.RESULT_TRUNCATED: _result_truncated,
    Kind.TAINT: _taint,
    Kind.DRAIN: _drain,
    Kind.NODE_DELETE: _node_delete,
    Kind.NOT_READY: _not_ready,
    Kind.POWER_LOSS: _power_loss,
    Kind.SPOT_SIGNAL: _spot_signal,
    Kind.API_SERVER_RESTART: _api_server_restart,
    Kind.ETCD_RESTART: _etcd_restart,
    Kind.CONTROLLERS_RESTART: _controllers_restart,
    Kind.CONFLICT: _conflict,
    Kind.TOO_MANY: _too_many,
    Kind.SERVER_ERROR: _server_error,
    Kind.GONE: _gone,
    Kind.LOST_ANSWER: _lost_answer,
    Kind.CUT_WATCHES: _cut_watches,
    Kind.SLOW: _slow,
    Kind.SILENT: _silent,
}
