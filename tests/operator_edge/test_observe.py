# SPDX-License-Identifier: Apache-2.0
from typing import Any
from unittest import mock

import pytest

import builders
import memory_kube
import studies
from gpubench import names
from gpubench.scheduler import ledger
from gpubench_cluster import kube
from gpubench_operator import observe
from memory_world import Clock, World

AT = "2026-11-21T12:00:00Z"
INDEX = "batch.kubernetes.io/job-completion-index"


def job(**status: Any) -> kube.Object:
    labels = {
        names.LABEL_TRIAL: "abcdefgh",
        names.LABEL_ATTEMPT: "2",
        names.LABEL_POOL: "spot",
        names.LABEL_SLOTS: "16",
    }
    metadata = {"name": "job", "namespace": "default", "uid": "1", "labels": labels, "creationTimestamp": AT}
    return {"metadata": metadata, "spec": {"parallelism": 2}, "status": status}


def test_a_job_whose_labels_are_no_numbers_is_not_ours() -> None:
    forged = job()
    forged["metadata"]["labels"][names.LABEL_ATTEMPT] = "first"
    assert observe.jobs([forged], pods=[]) == ()


def left(name: str, *, node: str | None = "n", phase: str = "Running", uid: str = "9", **requests: str) -> kube.Object:
    body = pod(phase=phase)
    owner = {"kind": "Job", "uid": uid, "name": "gone", "controller": True}
    body["metadata"] = {**job()["metadata"], "name": name, "uid": name, "ownerReferences": [owner]}
    containers = [{"name": names.CONTAINER, "resources": {"requests": requests}}, {"name": "sidecar"}]
    return {**body, "spec": {"nodeName": node, "containers": containers}}


def held(*pods: kube.Object) -> list[tuple[str, str, int]]:
    slot = {"cpu": "2", "memory": "1Gi", "gpuResource": "nvidia.com/gpu"}
    spot = observe.pool(studies.pool("spot", slotsPerNode=8, slot=slot))
    found = observe.left_behind([observe.job(job())], pods=pods, pools=[spot], nodes={"spot": {"n", "m"}})
    assert all(one.holds_slots for one in found)
    return [(one.name, one.pool, one.slots) for one in found]


def test_pods_hold_what_they_request_when_their_job_is_gone() -> None:
    assert held(
        left("a", cpu="8", memory="4Gi"),
        left("b", cpu="500m", **{"nvidia.com/gpu": "2"}),
        left("c", phase="Failed", uid="8", cpu="8"),
        left("d", node=None, phase="Pending", uid="7", cpu="8"),
        left("e", uid="1", cpu="8"),  # its Job is there
    ) == [("pod a", "spot", 4), ("pod b", "spot", 2)]


def test_a_pod_holds_nothing_by_its_labels_and_on_other_nodes_and_at_most_what_its_node_has() -> None:
    assert held(left("pause"), left("elsewhere", node="o", cpu="8"), left("small", cpu="1")) == []
    assert held(left("a", cpu="12"), left("b", cpu="100"), left("c", cpu="100"), left("d", node="m", cpu="2")) == [
        ("pod a", "spot", 6), ("pod b", "spot", 2), ("pod d", "spot", 1),
    ]  # fmt: skip


def condition(kind: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": AT, **more}


def pod(**status: Any) -> kube.Object:
    return {"metadata": {"name": "pod"}, "status": status}


def container(state: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "sidecar"}, {"name": names.CONTAINER, "state": state, **more}]}


def test_a_job_is_read_from_its_labels() -> None:
    seen = observe.job(job())
    assert (seen.trial, seen.attempt, seen.pool, seen.slots) == ("abcdefgh", 2, "spot", 16)
    assert seen.holds_slots


@pytest.mark.parametrize("kind", ["Complete", "SuccessCriteriaMet"])
def test_a_job_that_met_its_success_policy_is_complete(kind: str) -> None:
    assert observe.job(job(conditions=[condition(kind)])).complete


def test_a_job_that_is_being_failed_is_not_failed_yet() -> None:
    seen = observe.job(job(conditions=[condition("FailureTarget", reason="PodFailurePolicy", message="because")]))
    assert seen.failing_since == observe.seconds(AT)
    assert not seen.failed
    assert (seen.failed_reason, seen.failed_message) == ("PodFailurePolicy", "because")


def test_a_condition_that_is_false_does_not_hold() -> None:
    assert not observe.job(job(conditions=[{"type": "Failed", "status": "False"}])).failed


def test_a_pod_that_nobody_has_seen_yet() -> None:
    seen = observe.pod({"metadata": {"name": "pod"}})
    assert (seen.phase, seen.node, seen.end, seen.scheduled_at) == ("Unknown", None, None, None)


@pytest.mark.parametrize(
    ("labels", "annotations"), [({INDEX: "3"}, {}), ({}, {INDEX: "3"}), ({INDEX: "3"}, {INDEX: "4"})]
)
def test_a_pod_is_the_one_of_its_label_and_without_it_of_its_annotation(
    labels: dict[str, str], annotations: dict[str, str]
) -> None:
    metadata = {"name": "p", "labels": labels, "annotations": annotations}
    assert observe.pod({"metadata": metadata, "spec": {}, "status": {}}).index == 3


def test_what_the_scheduler_said_is_kept_until_the_pod_is_placed() -> None:
    text = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
    unplaced = {"type": "PodScheduled", "status": "False", "message": text}
    assert observe.pod(pod(phase="Pending", conditions=[unplaced])).scheduling_message == text
    placed = observe.pod(pod(phase="Pending", conditions=[condition("PodScheduled")]))
    assert (placed.scheduling_message, placed.scheduled_at) == (None, observe.seconds(AT))


def test_an_image_that_cannot_be_pulled() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "not found"}}
    seen = observe.pod(pod(phase="Pending", **container(waiting)))
    assert (seen.waiting_reason, seen.waiting_message) == ("ErrImagePull", "not found")


def test_a_pod_was_told_to_end_a_grace_period_before_it_must_have_ended() -> None:
    body = pod(phase="Running")
    body["metadata"] |= {"deletionTimestamp": "2026-11-21T12:00:30Z", "deletionGracePeriodSeconds": 30}
    seen = observe.pod(body)
    assert (seen.deleting, seen.told_to_end_at) == (True, observe.seconds(AT))
    assert observe.pod(pod(phase="Running")).told_to_end_at is None


def test_a_disruption_keeps_its_reason() -> None:
    lost = condition("DisruptionTarget", reason="DeletionByTaintManager", message="node is gone")
    seen = observe.pod(pod(phase="Failed", conditions=[lost]))
    assert seen.disruption is not None
    assert seen.disruption.reason == "DeletionByTaintManager"


@pytest.mark.parametrize(
    ("phase", "beside", "init", "kept", "left_at"),
    [
        ("Succeeded", [], [], None, 10),
        ("Running", [], [], None, 10),
        ("Running", [("proxy", {"running": {}})], [], "proxy", None),
        ("Running", [("proxy", {"waiting": {"reason": "ImagePullBackOff"}})], [], "proxy", None),
        ("Running", [], [("native", {"running": {}})], "native", None),
        ("Running", [("proxy", {"terminated": {"exitCode": 0, "finishedAt": "2026-11-01T00:00:40Z"}})], [], None, 40),
        ("Succeeded", [], [("native", {"terminated": {"finishedAt": "2026-11-01T00:00:12Z"}})], None, 12),
    ],
)  # fmt: skip
def test_a_pod_holds_its_node_until_its_last_container_has_ended(
    phase: str, beside: list[Any], init: list[Any], kept: str | None, left_at: float | None
) -> None:
    ended = {"terminated": {"exitCode": 0, "finishedAt": "2026-11-01T00:00:10Z"}}
    gang = {"name": names.CONTAINER, "state": ended}
    others, inits = ([{"name": name, "state": state} for name, state in of] for of in (beside, init))
    found = observe.pod(pod(phase=phase, containerStatuses=[gang, *others], initContainerStatuses=inits))
    assert (found.kept_by, found.has_left) == (kept, kept is None)
    began = observe.seconds("2026-11-01T00:00:00Z")
    assert found.left_at == (None if left_at is None or began is None else began + left_at)


def test_a_kubelets_clock_that_is_behind_is_put_right_by_the_moment_at_which_the_pod_got_its_node() -> None:
    """It starts no container before that."""
    ran = {"startedAt": "2026-11-21T11:57:00Z", "finishedAt": "2026-11-21T11:58:00Z", "exitCode": 0}
    status = {"phase": "Succeeded", "conditions": [condition("PodScheduled")]}
    told = observe.pod(pod(**status, **container({"terminated": ran})))
    begun = observe.seconds(AT) or 0.0
    assert (told.running_at, told.ended_at, told.left_at) == (begun, begun + 60, begun + 60)
    assert told.end is not None
    assert told.end.started_at == begun
    ran |= {"startedAt": "2026-11-21T12:00:20Z", "finishedAt": "2026-11-21T12:10:00Z"}
    since = observe.pod(pod(**status, **container({"terminated": ran}), startTime="2026-11-21T11:57:00Z"))
    assert (since.running_at, since.left_at) == (begun + 20, begun + 600), "of a clock that was put right meanwhile"


def test_the_end_of_the_gangs_container_counts_and_no_sidecars() -> None:
    ended = {"terminated": {"exitCode": 84, "reason": "Error", "message": "{}", "startedAt": AT, "finishedAt": LATER}}
    seen = observe.pod(pod(phase="Failed", **container(ended, imageID="sha256:1")))
    assert seen.end is not None
    assert (seen.end.exit_code, seen.end.reason, seen.end.message, seen.image_id) == (84, "Error", "{}", "sha256:1")
    assert (seen.end.started_at, seen.end.finished_at) == (observe.seconds(AT), observe.seconds(LATER))
    assert (seen.end.init, seen.end.is_refused) == (None, False)


def test_a_failed_pod_whose_container_never_ran_has_ended_all_the_same() -> None:
    seen = observe.pod(pod(phase="Failed", reason="UnexpectedAdmissionError"))
    assert seen.end is not None
    assert seen.end.reason == "UnexpectedAdmissionError"


LATER = "2026-11-21T12:00:30Z"


def test_a_pod_that_its_node_refused_ended_when_it_stopped_to_be_ready() -> None:
    unready = condition("Ready", status="False", lastTransitionTime=LATER)
    said = {"reason": "OutOfcpu", "message": "Pod was rejected: Node didn't have enough resource"}
    seen = observe.pod(pod(phase="Failed", conditions=[unready], **said))
    assert seen.end is not None
    assert (seen.end.is_refused, seen.end.finished_at) == (True, observe.seconds(LATER))
    ran = {"containerStatuses": [{"name": "sidecar", "state": {"terminated": {"exitCode": 137}}}]}
    seen = observe.pod(pod(phase="Failed", conditions=[unready], **said, **ran))
    assert seen.end is not None
    assert not seen.end.is_refused, "its kubelet took it, and did not see the end"


def initializing(*inits: dict[str, Any], phase: str = "Pending", native: str = "", **more: Any) -> kube.Object:
    body = pod(phase=phase, initContainerStatuses=list(inits), **container({"waiting": {"reason": "PodInitializing"}}))
    return body | {"spec": {"nodeName": "n", "initContainers": [{"name": native, "restartPolicy": "Always"}]}} | more


DONE = {"name": "certificates", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
FAILED = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no network", "finishedAt": LATER}}


def test_an_init_container_that_failed_is_how_its_pod_ended() -> None:
    failed = {"name": "wait", "state": FAILED}
    proxy = {"name": "proxy", "state": {"terminated": {"exitCode": 0}}, "started": False}
    seen = observe.pod(initializing(proxy, DONE, failed, phase="Failed", native="proxy"))
    assert seen.end is not None
    assert (seen.end.init, seen.end.exit_code, seen.end.message) == ("wait", 1, "no network")
    assert (seen.end.finished_at, seen.running_at) == (observe.seconds(LATER), None)
    told = {"name": "wait", "state": {"terminated": {"exitCode": 143, "reason": "Error", "finishedAt": LATER}}}
    seen = observe.pod(initializing(DONE, told, phase="Failed", metadata={"name": "p", "deletionTimestamp": AT}))
    assert seen.end is not None
    assert (seen.end.init, seen.end.finished_at) == (None, observe.seconds(LATER)), "it was told to end"


@pytest.mark.parametrize(
    ("statuses", "native", "expected"),
    [
        ([DONE, {"name": "wait", "state": {"running": {"startedAt": AT}}}], "", ("wait", "Running", None, None)),
        (
            [{"name": "proxy", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": FAILED}],
            "proxy",
            ("proxy", "CrashLoopBackOff", 1, "no network"),
        ),
        (
            [{"name": "wait", "state": {"waiting": {"reason": "ErrImagePull", "message": "not found"}}}],
            "",
            ("wait", "ErrImagePull", None, "not found"),
        ),
        ([{"name": "proxy", "state": {"running": {"startedAt": AT}}, "started": True}], "proxy", None),
        ([DONE], "", None),
        ([{"name": "wait", "state": {"waiting": {"reason": "PodInitializing"}}}], "", None),
        ([{"name": "wait", "state": {"waiting": {"reason": "ContainerCreating"}}}], "", None),
        ([], "", None),
    ],
)
def test_the_init_container_that_is_waited_for_is_known(
    statuses: list[dict[str, Any]], native: str, expected: tuple[Any, ...] | None
) -> None:
    seen = observe.pod(initializing(*statuses, native=native))
    found = [(one.name, one.reason, one.exit_code, one.message) for one in seen.others]
    assert found == ([] if expected is None else [expected])
    assert seen.is_being_created == (expected is None), "a volume that is not there shows before an init container"


def test_containers_beside_the_gangs_count_where_they_ended_badly_by_themselves() -> None:
    ended = {"name": names.CONTAINER, "state": {"terminated": {"exitCode": 0}}}
    kinds = {"shipper": FAILED, "agent": {"terminated": {"exitCode": 0}}, "proxy": {"running": {}}}
    statuses: list[dict[str, Any]] = [ended, *({"name": name, "state": state} for name, state in kinds.items())]
    seen = observe.pod(pod(phase="Running", containerStatuses=statuses))
    assert [(one.name, one.exit_code) for one in seen.others] == [("shipper", 1)]
    statuses[1]["state"] = {"terminated": {"exitCode": 143, "reason": "Error"}}
    body = pod(phase="Running", containerStatuses=statuses)
    body["metadata"]["deletionTimestamp"] = AT
    assert observe.pod(body).others == ()


def test_a_scheduler_that_has_not_looked_at_a_pod_is_named() -> None:
    unseen = pod(phase="Pending") | {"spec": {"schedulerName": "volcano"}}
    assert observe.pod(unseen).scheduler == "volcano"
    unplaced = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    looked_at = pod(phase="Pending", conditions=[unplaced]) | {"spec": {"schedulerName": "volcano"}}
    assert observe.pod(looked_at).scheduler is None


def test_pods_belong_to_the_job_that_controls_them_and_jobs_without_labels_are_left_out() -> None:
    ours, foreign = job(), {"metadata": {"name": "x", "uid": "2"}}
    owned = pod(phase="Running")
    owned["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": "1", "controller": True}]
    stray = pod(phase="Running")
    stray["metadata"]["ownerReferences"] = [{"kind": "Job", "uid": "9", "controller": True}]
    (seen,) = observe.jobs([ours, foreign], pods=[owned, stray])
    assert len(seen.pods) == 1


@pytest.mark.parametrize(
    ("status", "spec", "lacks"),
    [
        ({}, {"parallelism": 2}, True),
        ({}, {"parallelism": 2, "suspend": True}, False),
        ({"conditions": [condition("FailureTarget")]}, {"parallelism": 2}, False),
    ],
)
def test_a_job_that_is_suspended_or_ending_lacks_no_pods(
    status: dict[str, Any], spec: dict[str, Any], lacks: bool
) -> None:
    body = {**job(**status), "spec": spec}
    assert observe.lacks_pods(observe.job(body)) is lacks


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_job_without_its_workload_is_one_that_kueue_overlooks_or_one_that_has_just_gone(is_there: bool) -> None:
    """The garbage collector takes a Workload of a Job that our watch still has: what was said of it stays said."""
    body = {**job(conditions=[condition("Suspended")]), "spec": {"suspend": True}}
    study = observe.study(studies.benchmark() | {"metadata": {**body["metadata"], "generation": 1}})
    seen = observe.job(body)
    api = mock.create_autospec(kube.Kube, instance=True)
    api.preferred_version.return_value, api.list.return_value = f"{names.KUEUE_GROUP}/v1beta2", []
    api.get.return_value = body if is_there else None
    found, is_served = await observe.Diagnostics(api).queued(study, (seen,))
    assert is_served
    assert [one.lacks_workload for one in found] == [True] * is_there


@pytest.mark.parametrize(
    "moment",
    [
        {"lastTimestamp": LATER, "eventTime": "2026-11-21T11:00:00Z"},
        {"lastTimestamp": None, "series": {"lastObservedTime": LATER}, "eventTime": "2026-11-21T11:00:00Z"},
        {"eventTime": LATER, "metadata": {"creationTimestamp": "2026-11-21T11:00:00Z"}},
        {"metadata": {"creationTimestamp": LATER}},
    ],
)
def test_an_event_is_as_new_as_its_last_time_in_whichever_api_it_was_written(moment: dict[str, Any]) -> None:
    about = {"kind": "Workload", "name": "job-j-1a2b3"}
    old, newest = (
        {"involvedObject": about, "reason": "Pending", "message": "no quota", "lastTimestamp": AT},
        {"involvedObject": about, "reason": "Pending", "message": "still none", **moment},
    )
    for events in ([old, newest], [newest, old]):
        found = observe.said_by_kueue(events, job="j")
        assert found is not None
        assert found.waits is not None
        assert (found.name, found.waits.message) == ("job-j-1a2b3", "still none")


def test_a_study_is_read_with_the_defaults_of_its_schema() -> None:
    body = studies.benchmark()
    body["metadata"] |= {"uid": "u", "generation": 3, "creationTimestamp": AT}
    seen = observe.study(body)
    assert (seen.generation, seen.spec.limits.parallel_trials) == (3, 1)


def test_moments_survive_the_way_there_and_back() -> None:
    assert observe.timestamp(observe.seconds(AT) or 0) == AT
    assert observe.seconds("2026-11-21T12:00:00.250000Z") == (observe.seconds(AT) or 0) + 0.25
    assert observe.seconds(None) is None


@pytest.mark.parametrize(
    ("status", "ready", "silent_since"),
    [("True", True, None), ("False", False, AT), ("Unknown", False, AT), (None, None, None)],
)
def test_a_node_is_what_its_labels_say_and_lives_as_its_kubelet_says(
    status: str | None, ready: bool | None, silent_since: str | None
) -> None:
    conditions = [] if status is None else [{"type": "Ready", "status": status, "lastTransitionTime": AT}]
    labels = {names.LABEL_INSTANCE_TYPE: "large", names.LABEL_ZONE: ""}
    body = {
        "metadata": {"name": "n", "labels": labels},
        "spec": {"taints": [{"key": "b", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute", "value": "x"}]},
        "status": {"conditions": conditions},
    }
    seen = observe.node(body)
    assert (seen.name, seen.instance_type, seen.zone, seen.taints) == ("n", "large", None, ("a", "b"))
    assert (seen.ready, seen.silent_since) == (ready, observe.seconds(silent_since))
    assert seen.gone_since is None


def test_a_check_of_a_workload_that_says_nothing_yet_is_named() -> None:
    body = {"metadata": {"name": "job-j-1"}, "status": {"admissionChecks": [{"name": "capacity"}]}}
    (seen,) = observe.workload(body).checks
    assert (seen.source, seen.reason, seen.message) == ("capacity", "", "")


def test_a_pod_without_a_node_was_not_scheduled_at_any_moment() -> None:
    refused = condition("PodScheduled", status="False", lastTransitionTime=AT, message="0/3 nodes are available")
    assert observe.pod(pod(phase="Pending", conditions=[refused])).scheduled_at is None


@pytest.mark.parametrize(("phase", "exit_code"), [("Succeeded", 0), ("Failed", 137)])
def test_a_pod_that_is_over_without_a_word_of_its_container_ended_as_its_phase_says(phase: str, exit_code: int) -> None:
    seen = observe.pod(pod(phase=phase)).end
    assert seen is not None
    assert seen.exit_code == exit_code


async def test_what_others_changed_in_a_pod_is_told_of_those_that_have_a_node() -> None:
    world = World()
    await world.look()
    world.progress()
    study, plan = await world.planned()
    (job_body,), (pod_body,) = world.api.all(kube.JOBS), world.api.all(kube.PODS)
    pod_body["spec"] |= {"schedulerName": "bin-packer"}
    seen = observe.job(job_body, pods=(observe.pod(pod_body),))
    (placed,) = observe.with_changes(seen, study, plan, [pod_body]).pods
    assert [(one.field, one.got) for one in placed.changed] == [("schedulerName", "bin-packer")]
    assert observe.with_changes(seen, study, plan, world.api.all(kube.PODS)) == seen


def told(workload: str, message: str, at: str, **more: Any) -> kube.Object:
    return {
        "involvedObject": {"kind": "Workload", "name": workload},
        "reason": "Pending",
        "message": message,
        "lastTimestamp": at,
        **more,
    }


def test_of_two_workloads_of_a_job_the_one_that_was_told_of_last_counts() -> None:
    first, second = "job-j-1a2b3", "job-j-4c5d6"
    events = [told(first, "old", AT), told(second, "new", LATER), told(first, "newest", "2026-11-21T14:00:00Z")]
    found = observe.said_by_kueue(events, job="j")
    assert found is not None
    assert found.name == first


def test_another_scheduler_that_finds_no_node_is_no_news_and_hides_none() -> None:
    about = {"involvedObject": {"kind": "Pod", "name": "p"}}
    grows = told("", "pod triggered scale-up", AT, source={"component": "cluster-autoscaler"}, **about)
    waits = told("", "0/3 nodes are available: 3 too small.", LATER, source={"component": "bin-packer"}, **about)
    assert observe._news([grows, waits], now=observe.seconds(LATER) or 0.0) == {"p": grows}


async def test_events_that_cannot_be_read_are_logged_again_after_they_could(caplog: pytest.LogCaptureFixture) -> None:
    api, tested = memory_kube.MemoryKube(Clock()), observe._Unread()
    for refusal in (True, True, False, True):
        api.unreadable = {"events": kube.PermanentError("no")} if refusal else {}
        assert await tested.events_about(api, "Node", "SpotInterrupted") == []
    assert [one.message for one in caplog.records] == ["Events about Nodes not read"] * 2


async def test_the_job_controller_is_given_a_moment_before_its_events_are_asked_for() -> None:
    clock = Clock()
    api = memory_kube.MemoryKube(clock)
    body = {**job(), "spec": {"parallelism": 2}}
    body["metadata"]["creationTimestamp"] = observe.timestamp(clock.now)
    study = observe.study(studies.benchmark() | {"metadata": {**body["metadata"], "generation": 1}})
    for number, (kind, reason) in enumerate(
        (("Job", "FailedCreate"), ("Job", "SuccessfulCreate"), ("Pod", "FailedCreate"))
    ):
        at = observe.timestamp(clock.now + number)
        metadata = {"name": f"e{number}", "namespace": "default"}
        event = {"involvedObject": {"kind": kind, "uid": "1"}, "lastTimestamp": at, "reason": reason}
        api.put(kube.EVENTS, {**event, "metadata": metadata, "message": f"{kind} {reason}"})
    tested = observe.Diagnostics(api, clock=clock)
    for seconds, said in ((0.0, None), (3.0, "Job FailedCreate")):
        clock.now += seconds
        (seen,), again = await tested.explained(study, (observe.job(body),))
        assert (seen.creation_failure, again) == (said, 10.0 if said else 3.0)


def test_the_next_attempt_of_a_trial_is_ours_before_the_ledger_has_it_and_no_other() -> None:
    plan, study = builders.plan(), builders.study()
    trial = plan.trials[0].id
    recorded = ledger.of_read([builders.attempt(trial=trial, attempt=1, job_uid="before")])
    for attempt, known, is_ours in (
        (1, ledger.of_read(()), True),
        (2, recorded, True),
        (3, recorded, False),
        (2, ledger.of_read(()), False),
    ):
        body = job()
        name = names.job_name(study.name, study.uid, trial=trial, attempt=attempt)
        labels = {names.LABEL_TRIAL: trial, names.LABEL_ATTEMPT: str(attempt)}
        body["metadata"] |= {
            "name": name,
            "labels": labels,
            "ownerReferences": [{"uid": study.uid, "controller": True}],
        }
        assert observe.is_made(body, study, plan, known) is is_ours


def test_a_workload_that_is_admitted_waits_for_nothing() -> None:
    holds = [{"type": kind, "status": "True", "reason": kind} for kind in ("QuotaReserved", "Admitted")]
    seen = observe.workload({"metadata": {"name": "job-j-1"}, "status": {"conditions": holds}})
    assert (seen.is_reserved, seen.waits) == (True, None)
    evicted = [holds[0], {"type": "Admitted", "status": "False", "reason": "NoReservation", "message": "no"}]
    waits = observe.workload({"metadata": {"name": "job-j-1"}, "status": {"conditions": evicted}}).waits
    assert waits is not None
    assert (waits.source, waits.message) == ("Admitted", "no")
