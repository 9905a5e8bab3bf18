# SPDX-License-Identifier: Apache-2.0
"""A node that goes takes its gang along: what was seen of pods and nodes, and whether that is a failure, and whose."""

from typing import Any, NamedTuple

import pytest

import builders
import world as worlds
from gpubench.exitcodes import ExitCode
from gpubench.scheduler import outcome
from gpubench.scheduler.ledger import AttemptRecord, Interruption, Ledger, Outcome, Reason
from gpubench.scheduler.observed import Disruption, Observed, ObservedNode
from gpubench.scheduler.outcome import Attempt, AttemptOutcome
from world import World

NOW = builders.NOW
TIMING = builders.plan(builders.spec(limits={"schedulingTimeout": "15m", "attemptTimeout": "1h"})).timing
SILENT_SECONDS = 300.0

SPOT = "aws-node-termination-handler/spot-itn"
GKE = "cloud.google.com/impending-node-termination"
SCALED_DOWN = "ToBeDeletedByClusterAutoscaler"
KARPENTER = "karpenter.sh/disrupted"
MAINTENANCE = "cloud.google.com/maintenance-window-started"
CORDONED = "node.kubernetes.io/unschedulable"
UNREACHABLE = "node.kubernetes.io/unreachable"
RECLAIM, EVICTION, NODE_LOST = Interruption.RECLAIM, Interruption.EVICTION, Interruption.NODE_LOST


def node(index: int = 0, **fields: Any) -> ObservedNode:
    """One that lives, unless told otherwise."""
    return ObservedNode(**({"name": f"node-{index}", "ready": True} | fields))


def gone(index: int = 0, *taints: str, since: float = NOW + 50) -> ObservedNode:
    return node(index, gone_since=since, taints=taints)


def silent(index: int = 0, *taints: str, since: float = NOW + 50) -> ObservedNode:
    return node(index, ready=False, silent_since=since, taints=(UNREACHABLE, *taints))


def leaving(index: int = 0, *taints: str, since: float = NOW + 50) -> ObservedNode:
    return node(index, taints=("pool", *(taints or (SPOT,))), leaving_since=since)


def anew(index: int = 0, *taints_before: str, at: float = NOW + 50) -> ObservedNode:
    """A machine of the same name as the one of before, which had these taints."""
    return node(index, created_at=at, taints_before=taints_before)


def pods(*fields: dict[str, Any], missing: int | None = None) -> tuple[Any, ...]:
    return tuple(builders.observed_pod(index, **pod) for index, pod in enumerate(fields) if index != missing)


def ended(code: int, *, at: float = 55.0, reason: str | None = None) -> dict[str, Any]:
    return {"end": builders.ended(int(code), at=NOW + at, reason=reason)}


def marked(reason: str, message: str = "gone") -> dict[str, Any]:
    return {"disruption": Disruption(reason=reason, message=message)}


RUNS: dict[str, Any] = {}
RUNS_FOR_LONG = {"scheduled_at": NOW - SILENT_SECONDS}
GOING = {"deleting": True}
FAILING = {"failing_since": NOW + 56}
FAILED = {"failing_since": NOW + 56, "failed": True}


class Row(NamedTuple):
    """What is seen of a gang of two a minute after it began."""

    seen: tuple[Any, ...]  # its pods
    job: dict[str, Any]
    nodes: tuple[ObservedNode, ...]
    outcome: Outcome | None  # None: it is not judged yet
    reason: Reason | None = None
    kind: Interruption | None = None


LOST, PREEMPTED = Outcome.FAILED, Outcome.PREEMPTED
LIVES = (node(0), node(1))

ROWS = {
    # DisruptionTarget outranks all else; its node says which kind it is where the condition alone does not.
    "drained": Row(pods(RUNS, marked("EvictionByEvictionAPI")), {}, LIVES, PREEMPTED, Reason.DISRUPTED, EVICTION),
    "drained ahead of a reclaim": Row(
        pods(RUNS, marked("EvictionByEvictionAPI")), {}, (node(0), leaving(1)), PREEMPTED, Reason.DISRUPTED, RECLAIM
    ),
    "drained by the autoscaler": Row(
        pods(RUNS, marked("EvictionByEvictionAPI")), {}, (node(0), leaving(1, SCALED_DOWN)),
        PREEMPTED, Reason.DISRUPTED, EVICTION,
    ),
    "room for others": Row(
        pods(RUNS, marked("PreemptionByScheduler")), {}, LIVES, PREEMPTED, Reason.DISRUPTED, EVICTION
    ),
    "taint of a dead node": Row(
        pods(RUNS, marked("DeletionByTaintManager")), {}, (node(0), silent(1)), PREEMPTED, Reason.DISRUPTED, NODE_LOST
    ),
    "taint by hand": Row(
        pods(RUNS, marked("DeletionByTaintManager")), {}, LIVES, PREEMPTED, Reason.DISRUPTED, EVICTION
    ),
    "taint on a node that nobody asked about": Row(
        pods(RUNS, marked("DeletionByTaintManager")), {}, (), PREEMPTED, Reason.DISRUPTED, None
    ),
    "node deleted": Row(
        pods(RUNS, marked("DeletionByPodGC")), {}, (node(0), gone(1)), PREEMPTED, Reason.DISRUPTED, NODE_LOST
    ),
    "node deleted after its notice": Row(
        pods(RUNS, marked("DeletionByPodGC")), {}, (node(0), gone(1, GKE)), PREEMPTED, Reason.DISRUPTED, RECLAIM
    ),
    # Karpenter drains for whatever reason, and waits for the pods: only an Event tells of a notice.
    "drained by Karpenter": Row(
        pods(RUNS, marked("EvictionByEvictionAPI")), {}, (node(0), leaving(1, KARPENTER)),
        PREEMPTED, Reason.DISRUPTED, EVICTION,
    ),
    "drained by Karpenter upon a notice": Row(
        pods(RUNS, marked("EvictionByEvictionAPI")), {}, (node(0), leaving(1, KARPENTER, outcome.SPOT_INTERRUPTED)),
        PREEMPTED, Reason.DISRUPTED, RECLAIM,
    ),
    "taken while Karpenter waited": Row(
        pods(RUNS, marked("DeletionByPodGC")), {}, (node(0), gone(1, KARPENTER)),
        PREEMPTED, Reason.DISRUPTED, NODE_LOST,
    ),
    "taken while Karpenter waited, upon a notice": Row(
        pods(RUNS, marked("DeletionByPodGC")), {}, (node(0), gone(1, KARPENTER, outcome.SPOT_INTERRUPTED)),
        PREEMPTED, Reason.DISRUPTED, RECLAIM,
    ),
    "deleted by Karpenter at the end of its grace period": Row(
        pods(RUNS, GOING), {}, (node(0), leaving(1, KARPENTER)), PREEMPTED, Reason.NODE_LEAVING, EVICTION
    ),
    "machine shut down": Row(
        pods(RUNS, marked("TerminationByKubelet", "Pod was terminated in response to imminent node shutdown.")),
        {}, LIVES, PREEMPTED, Reason.DISRUPTED, RECLAIM,
    ),
    "node short of memory": Row(
        pods(RUNS, marked("TerminationByKubelet", "The node was low on resource: memory.")),
        {}, LIVES, PREEMPTED, Reason.DISRUPTED, EVICTION,
    ),
    "a reason of tomorrow": Row(pods(RUNS, marked("Whim")), {}, LIVES, PREEMPTED, Reason.DISRUPTED, None),
    "an eviction beside a failure of its own": Row(
        pods(ended(ExitCode.OUT_OF_MEMORY), marked("EvictionByEvictionAPI")), FAILED, LIVES,
        PREEMPTED, Reason.DISRUPTED, EVICTION,
    ),
    "only the Job's word": Row(
        pods(ended(ExitCode.PEER_LOST), RUNS, missing=1),
        FAILED | {"failed_reason": "PodFailurePolicy", "failed_message": "pod has condition DisruptionTarget"},
        (node(0), gone(1)), PREEMPTED, Reason.DISRUPTED, NODE_LOST,
    ),
    # A node that is gone.
    "gone, and its pod with it": Row(
        pods(RUNS, RUNS, missing=1), {}, (node(0), gone(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "gone after its notice, and its pod with it": Row(
        pods(RUNS, RUNS, missing=1), {}, (node(0), gone(1, SPOT)), PREEMPTED, Reason.NODE_LOST, RECLAIM
    ),
    "gone, scaled down": Row(
        pods(RUNS, RUNS, missing=1), {}, (node(0), gone(1, SCALED_DOWN)), PREEMPTED, Reason.NODE_LOST, EVICTION
    ),
    "gone, and a sibling has missed it": Row(
        pods(ended(ExitCode.PEER_LOST), RUNS), FAILING, (node(0), gone(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "gone, and the rank there was said to be stalled": Row(
        pods(ended(ExitCode.STALLED), RUNS), FAILING, (node(0), gone(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "gone a moment ago, and its pod is still listed": Row(pods(RUNS, RUNS), {}, (node(0), gone(1)), None),
    "gone for long, and its pod is still listed": Row(
        pods(RUNS, RUNS_FOR_LONG), {}, (node(0), gone(1, since=NOW + 60 - outcome.NODE_GONE_SECONDS)),
        PREEMPTED, Reason.NODE_LOST, NODE_LOST,
    ),
    "gone for long when it was last seen, and given a pod since: it is back": Row(
        pods(RUNS, RUNS), {}, (node(0), gone(1, since=NOW + 60 - outcome.NODE_GONE_SECONDS)), None
    ),
    "gone while Karpenter waited, and its pod with it": Row(
        pods(RUNS, RUNS, missing=1), {}, (node(0), gone(1, KARPENTER)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    # A node that is another one, under the name of the one of before.
    "back within seconds, and its kubelet knows nothing of the pod": Row(
        pods(RUNS, ended(137, at=58)), FAILED, (node(0), anew(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "back within seconds, after a notice": Row(
        pods(RUNS, ended(137, at=58)), FAILED, (node(0), anew(1, SPOT)), PREEMPTED, Reason.NODE_LOST, RECLAIM
    ),
    "back, and a sibling has missed it": Row(
        pods(ended(ExitCode.PEER_LOST), RUNS), FAILING, (node(0), anew(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "back, and its pod was taken away": Row(
        pods(RUNS, RUNS, missing=1), {}, (node(0), anew(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "back, and its pod was marked": Row(
        pods(RUNS, marked("DeletionByTaintManager")), {}, (node(0), anew(1)), PREEMPTED, Reason.DISRUPTED, NODE_LOST
    ),
    "made anew by its kubelet, and its pod goes on": Row(pods(RUNS, RUNS), {}, (node(0), anew(1)), None),
    "back before the pod came": Row(
        pods(RUNS, ended(ExitCode.WORKER_RAISED)), FAILED, (node(0), anew(1, SPOT, at=NOW)), LOST, Reason.WORKER_RAISED
    ),
    # A node whose kubelet does not report.
    "silent, and a sibling has missed it": Row(
        pods(ended(ExitCode.PEER_LOST), RUNS), FAILING, (node(0), silent(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    "silent since its notice, and a sibling has missed it": Row(
        pods(ended(ExitCode.PEER_LOST), RUNS), FAILING, (node(0), silent(1, GKE)), PREEMPTED, Reason.NODE_LOST, RECLAIM
    ),
    "silent for a moment": Row(pods(RUNS, RUNS), {}, (node(0), silent(1)), None),
    "silent for long": Row(
        pods(RUNS, RUNS_FOR_LONG), {}, (node(0), silent(1, since=NOW + 60 - SILENT_SECONDS)),
        PREEMPTED, Reason.NODE_LOST, NODE_LOST,
    ),
    "not ready for long when it was last seen, and given a pod since: it has started": Row(
        pods(RUNS, RUNS), {}, (node(0), silent(1, since=NOW + 60 - SILENT_SECONDS)), None
    ),
    "silent, and its pod was taken away without a word": Row(
        pods(RUNS, RUNS, missing=1), {}, (node(0), silent(1)), PREEMPTED, Reason.NODE_LOST, NODE_LOST
    ),
    # A node that is about to go: its pod was told to end.
    "told to end on a node that is reclaimed": Row(
        pods(ended(ExitCode.PEER_LOST, at=58), ended(ExitCode.TERMINATED)), FAILED, (node(0), leaving(1)),
        PREEMPTED, Reason.NODE_LEAVING, RECLAIM,
    ),
    "killed on a node that is scaled down": Row(
        pods(RUNS, ended(143)), {}, (node(0), leaving(1, SCALED_DOWN)), PREEMPTED, Reason.NODE_LEAVING, EVICTION
    ),
    "being ended on a node that is drained with deletions": Row(
        pods(RUNS, GOING), {}, (node(0), leaving(1, CORDONED)), PREEMPTED, Reason.NODE_LEAVING, EVICTION
    ),
    "its pod is gone from a node that was there before it and is still": Row(
        pods(RUNS, RUNS, missing=1), FAILING, (node(0), anew(1, at=NOW - 1000)), None
    ),
    "runs on a node that has its notice": Row(pods(RUNS, RUNS), {}, (node(0), leaving(1)), None),
    # What is none.
    "ran out of memory on a node that is reclaimed": Row(
        pods(ended(ExitCode.PEER_LOST), ended(ExitCode.OUT_OF_MEMORY)), FAILED, (node(0), leaving(1)),
        LOST, Reason.OUT_OF_MEMORY,
    ),
    "raised beside a node that is gone": Row(
        pods(ended(ExitCode.WORKER_RAISED), RUNS), FAILED, (node(0), gone(1)), LOST, Reason.WORKER_RAISED
    ),
    "the kernel killed it for memory": Row(
        pods(ended(137, reason="OOMKilled"), RUNS), FAILED, (node(0), silent(1)), LOST, Reason.OUT_OF_MEMORY
    ),
    "stalled beside a cordoned node": Row(
        pods(ended(ExitCode.STALLED), ended(ExitCode.TERMINATED, at=57)), FAILED, (node(0), leaving(1, CORDONED)),
        LOST, Reason.STALLED,
    ),
    "killed elsewhere before a cordoned node's pod was told to end": Row(
        pods(ended(137, at=50), ended(ExitCode.TERMINATED, at=57)), FAILED, (leaving(9), leaving(1, CORDONED)),
        LOST, Reason.EXITED,
    ),
    "lost a peer on nodes that live": Row(
        pods(ended(ExitCode.PEER_LOST), ended(ExitCode.PEER_LOST)), FAILED, LIVES, LOST, Reason.PEER_LOST
    ),
    "its time was over": Row(
        pods(ended(143, reason="DeadlineExceeded"), ended(ExitCode.TERMINATED)), FAILED, (node(0), leaving(1)),
        LOST, Reason.TIMED_OUT,
    ),
    "somebody deleted the Job": Row(
        pods(GOING, GOING), {"deleting": True}, (node(0), leaving(1)), LOST, Reason.JOB_VANISHED
    ),
    "killed, and nobody says by whom, yet": Row(pods(RUNS, ended(143)), FAILED, LIVES, None),
    "killed, and the cluster says nothing of nodes": Row(
        pods(RUNS, ended(ExitCode.TERMINATED)), FAILED, (), LOST, Reason.TERMINATED
    ),
}  # fmt: skip


def attempt_of(row: Row, placed: tuple[str, ...] = ("node-0", "node-1")) -> Attempt:
    job = builders.observed_job(pods=row.seen, **row.job)
    nodes = {one.name: one for one in row.nodes}
    return Attempt(job, 2, TIMING, nodes, placed, SILENT_SECONDS, placed_at=(1.0,) * len(placed))


def judged(row: Row, *, after: float = 60.0) -> AttemptOutcome | None:
    return outcome.classify(attempt_of(row), now=NOW + after)


@pytest.mark.parametrize("row", ROWS.values(), ids=list(ROWS))
def test_what_was_seen_says_whether_an_attempt_failed_or_was_taken_away_and_by_whom(row: Row) -> None:
    verdict = judged(row)
    if row.outcome is None:
        assert verdict is None
        return
    assert verdict is not None
    assert (verdict.outcome, verdict.reason, verdict.interruption) == (row.outcome, row.reason, row.kind)


def test_a_node_that_was_made_anew_after_a_gang_was_placed_is_not_the_one_that_its_lost_pod_had() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[2])))
    trial, nodes = plan.trials[0].id, ("node-0", "node-1")
    begun: dict[str, Any] = {"outcome": None, "reason": None, "sentence": None, "ended_at": None}
    record = builders.attempt(trial=trial, nodes=nodes, placed_at=(1.0, 1.0), **begun)
    job = builders.observed_job(trial=trial, pods=pods(RUNS, RUNS, missing=1))
    seen = builders.observed(builders.study(), job).model_copy(update={"nodes": (node(0), anew(1))})
    (found,) = worlds.decide(plan, Ledger(records=(record,)), seen, NOW + 60).record
    assert (found.outcome, found.reason) == (Outcome.PREEMPTED, Reason.NODE_LOST)
    assert found.sentence == "node node-1 is gone from the cluster, and another one has its name"


def test_a_sentence_names_the_node_and_what_it_was_told_by() -> None:
    said = {name: verdict.message for name, row in ROWS.items() if (verdict := judged(row)) is not None}
    assert said["gone, and a sibling has missed it"] == "node node-1 of pod pod-1 is gone from the cluster"
    assert said["gone, and its pod with it"] == "node node-1 is gone from the cluster"
    assert "node node-1 of pod pod-1 is not ready" in said["silent for long"]
    assert said["told to end on a node that is reclaimed"] == (
        f"pod pod-1 was told to end on node node-1, which is about to go ({SPOT})"
    )


def test_what_was_killed_is_judged_once_the_cluster_has_had_time_to_miss_its_node() -> None:
    row = ROWS["killed, and nobody says by whom, yet"]
    moment = 56 + outcome.WITNESS_SECONDS
    assert outcome.next_deadline(attempt_of(row)) == NOW + moment
    assert judged(row, after=moment - 0.1) is None
    verdict = judged(row, after=moment)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.EXITED)
    missed = judged(row._replace(nodes=(node(0), silent(1))), after=30 + 56)
    assert missed is not None
    assert (missed.outcome, missed.exit_code) == (Outcome.PREEMPTED, 143)


@pytest.mark.parametrize(
    ("lost", "moment"),
    [
        (gone(1), 50 + outcome.NODE_GONE_SECONDS),
        (silent(1), 50 + SILENT_SECONDS),
        (gone(1, since=NOW - 1000), 1 + outcome.NODE_GONE_SECONDS),  # pods are placed one second after `NOW`
        (silent(1, since=NOW - 1000), 1 + SILENT_SECONDS),
    ],
)
def test_a_gang_on_a_node_that_went_without_a_word_is_looked_at_when_it_is_given_up(
    lost: ObservedNode, moment: float
) -> None:
    row = Row(pods(RUNS, RUNS), {}, (node(0), lost), None)
    assert outcome.next_deadline(attempt_of(row, ())) == NOW + moment
    assert judged(row, after=moment - 0.1) is None
    assert judged(row, after=moment) is not None


@pytest.mark.parametrize(
    ("seen", "is_told"),
    [
        (leaving(1), True),
        (leaving(1, GKE), True),
        (leaving(1, KARPENTER, outcome.SPOT_INTERRUPTED), True),
        (leaving(1, KARPENTER), False),
        (leaving(1, "aws-node-termination-handler/rebalance-recommendation"), False),
        (leaving(1, "aws-node-termination-handler/rebalance-recommendation", SPOT), True),
        (leaving(1, MAINTENANCE), False),
        (leaving(1, SCALED_DOWN), False),
        (leaving(1, since=NOW), False),  # it was placed there all the same: it tolerates that
    ],
)
def test_an_end_with_a_date_is_handed_on_to_a_gang_that_keeps_checkpoints_and_any_other_is_only_said(
    seen: ObservedNode, is_told: bool
) -> None:
    attempt = attempt_of(Row(pods(RUNS, RUNS), {}, (node(0), seen), None))
    assert outcome.classify(attempt, now=NOW + 60) is None
    found = outcome.classify(attempt._replace(keeps_checkpoints=True), now=NOW + 60)
    told = None if found is None else (found.outcome, found.reason, found.interruption)
    assert told == ((PREEMPTED, Reason.NODE_LEAVING, RECLAIM) if is_told else None)
    for ends in ({"complete": True}, {"deleting": True}, {"failing_since": NOW}):
        ending = attempt._replace(job=attempt.job.model_copy(update=ends), keeps_checkpoints=True)
        assert outcome._announced(ending) is None, "it ends by itself"
    said = outcome.leaving_nodes([attempt])
    assert said is not None
    assert said.message.startswith(f"node node-1 ({outcome.leaving(seen)}) is about to go: ")


def test_a_gang_that_starts_or_ends_is_not_told_to_end_for_a_notice() -> None:
    for row in (
        Row(pods(RUNS, {"running_at": None}), {}, (node(0), leaving(1)), None),
        Row(pods(RUNS, RUNS), FAILING, (node(0), leaving(1)), None),
        Row(pods(RUNS, RUNS), {}, (node(0), node(1)), None),
    ):
        assert outcome.classify(attempt_of(row)._replace(keeps_checkpoints=True), now=NOW + 60) is None
    assert outcome.leaving_nodes([attempt_of(Row(pods(RUNS, RUNS), {}, (node(0), gone(1, SPOT)), None))]) is None


def test_nodes_are_asked_about_only_when_something_is_odd() -> None:
    placed = ("node-0", "node-1")
    calm = builders.observed_job(pods=pods(RUNS, RUNS))
    assert outcome.nodes_in_question(calm, placed=placed) == frozenset()
    starting = builders.observed_job(pods=pods(RUNS))
    assert outcome.nodes_in_question(starting, placed=()) == frozenset()
    for seen, job in (
        (pods(RUNS, RUNS, missing=1), {}),
        (pods(RUNS, GOING), {}),
        (pods(RUNS, marked("EvictionByEvictionAPI")), {}),
        (pods(RUNS, ended(ExitCode.PEER_LOST)), {}),
        (pods(RUNS, RUNS), FAILING),
    ):
        odd = builders.observed_job(pods=seen, **job)
        assert outcome.nodes_in_question(odd, placed=placed) == set(placed)


# --- where an attempt ran is known though its nodes are gone ----------------------------------------------------------

TWO = builders.spec(builders.block(workers=[2]), measure={"repeats": {"min": 1}})


class OnNodes(World):
    """A world whose nodes can vanish."""

    machines: tuple[ObservedNode, ...] = ()

    def observe(self) -> Observed:
        return super().observe().model_copy(update={"nodes": self.machines})


def here(**fields: Any) -> OnNodes:
    study = builders.study(TWO)
    found = OnNodes(study=study, plan=builders.plan(TWO), **fields)
    found.machines = tuple(node(index, instance_type="large", zone=f"zone-{index}") for index in range(2))
    return found


def entry(world: World) -> AttemptRecord:
    (found,) = (record for record in world.ledger().records if record.attempt == 1)
    return found


def test_nodes_are_written_down_once_all_pods_have_one_and_not_at_each_look() -> None:
    world = here()
    world.reconcile()
    (name,) = world.jobs
    whole = world.jobs[name]
    world.jobs[name] = whole.model_copy(update={"pods": whole.pods[:1]})
    world.reconcile()
    assert entry(world).nodes == ()  # the second pod is still to come
    world.jobs[name] = whole
    assert [record.nodes for record in world.reconcile().record] == [("node-0", "node-1")]
    assert (entry(world).instance_types, entry(world).zones) == (("large",), ("zone-0", "zone-1"))
    assert entry(world).outcome is None
    for _ in range(3):
        assert world.reconcile().record == ()


def test_a_type_that_was_not_known_at_first_is_added_and_nothing_more() -> None:
    world = here()
    known, world.machines = world.machines, ()
    world.reconcile()
    world.reconcile()
    assert (entry(world).nodes, entry(world).instance_types) == (("node-0", "node-1"), ())
    assert world.reconcile().record == ()
    world.machines = known
    assert [record.instance_types for record in world.reconcile().record] == [("large",)]
    assert world.reconcile().record == ()


def test_where_the_pods_of_a_gang_were_is_written_down_once() -> None:
    world = here()
    known, world.machines = world.machines, ()
    world.reconcile()
    world.reconcile()
    assert (entry(world).nodes, entry(world).places, entry(world).pod_places) == (("node-0", "node-1"), (), ())
    world.machines = tuple(one.model_copy(update={"instance_type": None}) for one in known)  # machines of one's own
    world.reconcile()
    places = (("zone-0", None, None), ("zone-1", None, None))
    assert (entry(world).places, entry(world).pod_places, entry(world).zones) == (places, (0, 1), ("zone-0", "zone-1"))
    world.machines = tuple(one.model_copy(update={"zone": "elsewhere"}) for one in world.machines)
    assert world.reconcile().record == ()
    world.machines = ()
    world.run()
    assert (entry(world).outcome, entry(world).places) == (Outcome.SUCCEEDED, places)


def test_where_an_attempt_was_is_not_known_when_its_nodes_are_gone_unseen() -> None:
    world = here()
    world.machines = world.machines[:1]
    world.run()
    assert (entry(world).outcome, entry(world).places, entry(world).pod_places) == (Outcome.SUCCEEDED, (), ())


def test_an_attempt_whose_nodes_vanished_keeps_them_and_their_types_and_is_followed_by_another() -> None:
    world = here()
    world.reconcile()
    world.reconcile()
    (name,) = world.jobs
    job = world.jobs[name]
    world.jobs[name] = job.model_copy(update={"pods": ()})
    world.machines = tuple(one.model_copy(update={"gone_since": world.now}) for one in world.machines)
    decision = world.reconcile()
    assert (entry(world).outcome, entry(world).reason) == (Outcome.PREEMPTED, Reason.NODE_LOST)
    assert entry(world).interruption is Interruption.NODE_LOST
    assert (entry(world).nodes, entry(world).instance_types) == (("node-0", "node-1"), ("large",))
    assert [gang.assignment.attempt for gang in decision.create] == [2]
    world.machines = here().machines
    status = world.run()
    assert status.phase == "Succeeded"
    assert status.attempts is not None
    assert (status.attempts.preempted, status.attempts.failed, status.attempts.succeeded) == (1, 0, 1)


def test_a_pool_that_loses_a_node_at_every_attempt_is_given_up_after_its_bound() -> None:
    spec = builders.spec(
        builders.block(workers=[1]), measure={"repeats": {"min": 1}}, limits={"attempts": {"preempted": 2}}
    )
    world = worlds.world(builders.study(spec), fate=lambda *_: builders.disrupted("DeletionByPodGC"))
    status = world.run()
    assert len(world.created) == 3
    assert status.attempts is not None
    assert (status.attempts.preempted, status.attempts.failed) == (3, 0)
    assert "3 attempts were preempted" in (status.results[0].reason or "")
