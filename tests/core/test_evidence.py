# SPDX-License-Identifier: Apache-2.0
"""Why an attempt ended: one table of what was seen and what is concluded from it."""

from collections.abc import Mapping
from typing import Any

import pytest

import builders
from gpubench.exitcodes import ExitCode
from gpubench.records import Resumed
from gpubench.scheduler import outcome
from gpubench.scheduler.ledger import Outcome, Reason
from gpubench.scheduler.observed import ContainerEnd, Disruption, ObservedJob, OtherContainer
from gpubench.scheduler.outcome import Attempt, AttemptOutcome

NOW = builders.NOW
TIMING = builders.plan(builders.spec(limits={"schedulingTimeout": "15m", "attemptTimeout": "1h"})).timing
SUCCESS = builders.message(builders.result())


def judge(job: ObservedJob, *, nodes: int = 1, after: float = 60.0) -> AttemptOutcome | None:
    return outcome.classify(Attempt(job, nodes, TIMING), now=NOW + after)


def gang(*pods: Mapping[str, object], **fields: object) -> ObservedJob:
    return builders.observed_job(
        pods=tuple(builders.observed_pod(index, **pod) for index, pod in enumerate(pods)), **fields
    )


def resumed(attempt: int, *, useful: float) -> Resumed:
    return Resumed(attempt=attempt, step=5, useful_seconds=useful, restore_seconds=1.0)


def failed(*ends: ContainerEnd | None, **fields: object) -> ObservedJob:
    return gang(*({"end": end} for end in ends), **({"failed": True, "failing_since": NOW + 50} | fields))


def test_a_running_gang_has_no_verdict() -> None:
    assert judge(gang({}, {}), nodes=2) is None


def test_a_result_of_pod_0_is_success_before_the_job_says_so() -> None:
    verdict = judge(gang({"end": builders.ended(0, text=SUCCESS)}, {}), nodes=2)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.SUCCEEDED, Reason.COMPLETED)
    assert verdict.result == builders.result()


def test_an_eviction_of_any_pod_outranks_the_siblings_failure() -> None:
    job = gang(
        {"end": builders.ended(ExitCode.PEER_LOST, text=builders.message(builders.failure(exit_code=82)))},
        {"disruption": builders.disrupted("EvictionByEvictionAPI")},
        failing_since=NOW + 55,
    )
    verdict = judge(job, nodes=2)
    assert verdict is not None
    assert (verdict.outcome, verdict.disruption) == (Outcome.PREEMPTED, "EvictionByEvictionAPI")


def test_a_result_that_is_there_outranks_a_late_eviction() -> None:
    job = gang({"end": builders.ended(0, text=SUCCESS)}, {"disruption": builders.disrupted("DeletionByTaintManager")})
    verdict = judge(job, nodes=2)
    assert verdict is not None
    assert verdict.outcome is Outcome.SUCCEEDED


def test_an_own_program_that_counts_other_workers_than_asked_for_has_no_result() -> None:
    job = gang({"end": builders.ended(0, text=SUCCESS)})
    verdict = outcome.classify(Attempt(job, 1, TIMING, asked=(2, None, None)), now=NOW + 60)
    assert verdict is not None
    assert (verdict.reason, verdict.result) == (Reason.RESULT_LOST, None)
    assert "counts workers 1, and 2 were asked for" in verdict.message
    verdict = outcome.classify(Attempt(job, 1, TIMING, asked=(1, None, None)), now=NOW + 60)
    assert verdict is not None
    assert verdict.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("fields", "asked", "said"),
    [
        ({}, {"batch": 10}, None),
        ({}, {"batch": 11}, "counts samples 1000, and 100 steps have 1100"),
        ({}, {"batch": 10, "epochs": 3}, "counts training.epochs none, and 3 were asked for"),
        ({"training": builders.training()}, {"batch": 10, "epochs": 3}, None),
        ({"training": builders.training()}, {"batch": 10}, "counts training.epochs 3, and none were asked for"),
        ({"nanoseconds": 10**14}, {}, "has 100000 s as nanoseconds, and its pod lived for 55 s"),
        ({"nanoseconds": 10**14, "resumed": resumed(1, useful=99_990.0), "attempt": 2}, {}, None),
        ({"join_seconds": 1e99}, {}, "has 1e+99 s as joinSeconds"),
        ({"init_seconds": 61.0}, {}, "has 61 s as initSeconds"),
        ({"resumed": resumed(1, useful=1.0)}, {}, "has resumed.attempt 1, which is its own"),
    ],
)
def test_an_own_programs_record_is_held_against_what_was_asked_for_and_its_pods_life(
    fields: dict[str, Any], asked: dict[str, int], said: str | None
) -> None:
    result = builders.result(rate=100.0, training=fields.get("training"))
    text = builders.message(result.model_copy(update=fields))
    job = gang({"end": builders.ended(0, text=text)}, attempt=fields.get("attempt", 1))
    attempt = Attempt(job, 1, TIMING, asked=(1, asked.get("batch"), asked.get("epochs")))
    verdict = outcome.classify(attempt, now=NOW + 60)
    assert verdict is not None
    assert verdict.reason is (Reason.COMPLETED if said is None else Reason.RESULT_LOST)
    assert (said or "measured") in verdict.message


def test_a_run_of_an_attempt_again_may_go_on_from_its_own_checkpoint() -> None:
    text = builders.message(builders.result(resumed=resumed(1, useful=1.0)))
    job = gang({"end": builders.ended(0, text=text)}, queue="gpus")
    verdict = outcome.classify(Attempt(job, 1, TIMING, asked=(1, None, None)), now=NOW + 60)
    assert verdict is not None
    assert verdict.outcome is Outcome.SUCCEEDED


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (gang({"end": builders.ended(0, text="")}, complete=True), "empty"),
        (gang({"end": builders.ended(0, text=SUCCESS[:-9])}, complete=True), "was cut: its end is missing"),
        (gang({"end": builders.ended(0, text=SUCCESS[9:])}, complete=True), "was cut: its beginning is missing"),
        (
            gang({"end": builders.ended(0, text=("x" * 5000 + "}")[-4096:])}, complete=True),
            "was cut: its beginning is missing",
        ),
        (gang({"end": builders.ended(0, text="{}")}, complete=True), "no record"),
        (gang({"end": builders.ended(0, text="measured {well}")}, complete=True), "no record"),
        (gang(complete=True), "its first pod is gone"),
        (gang({"end": builders.ended(0, text=builders.message(builders.result(trial="other")))}), "of trial other"),
        (gang({"end": builders.ended(0, text=builders.message(builders.result(attempt=7)))}), "attempt 7"),
    ],
)
def test_success_without_its_result_is_result_lost(job: ObservedJob, why: str) -> None:
    verdict = judge(job)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.RESULT_LOST)
    assert why in verdict.message


@pytest.mark.parametrize(
    ("ends", "reason"),
    [
        ((ExitCode.PEER_LOST, ExitCode.OUT_OF_MEMORY), Reason.OUT_OF_MEMORY),
        ((ExitCode.TERMINATED, ExitCode.WORKER_RAISED), Reason.WORKER_RAISED),
        ((ExitCode.PEER_LOST, 134), Reason.EXITED),
        ((ExitCode.PEER_LOST, ExitCode.STALLED), Reason.STALLED),
        ((ExitCode.TERMINATED, ExitCode.PEER_LOST), Reason.PEER_LOST),
        ((ExitCode.JOIN_TIMEOUT, ExitCode.TERMINATED), Reason.JOIN_TIMEOUT),
        ((ExitCode.UNSUPPORTED_ACCELERATOR, ExitCode.PEER_LOST), Reason.UNSUPPORTED_ACCELERATOR),
        ((137, ExitCode.TERMINATED), Reason.EXITED),
    ],
)
def test_the_most_telling_pod_gives_the_reason(ends: tuple[int, ...], reason: Reason) -> None:
    verdict = judge(failed(*(builders.ended(int(code)) for code in ends)), nodes=2)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, reason)


def test_every_exit_code_but_success_has_a_reason_and_a_rank() -> None:
    for code in ExitCode:
        if code is not ExitCode.SUCCEEDED:
            verdict = judge(failed(builders.ended(int(code))))
            assert verdict is not None, code
            assert verdict.reason is not Reason.EXITED, code


def test_the_kernels_out_of_memory_killer_is_out_of_memory() -> None:
    verdict = judge(failed(builders.ended(137, reason="OOMKilled")))
    assert verdict is not None
    assert verdict.reason is Reason.OUT_OF_MEMORY


EVICTIONS = (
    "The node was low on resource: ephemeral-storage. Threshold quantity: 10Gi, available: 1Gi. ",
    "Container gang exceeded its local ephemeral storage limit '2Gi'. ",
    "Pod ephemeral local storage usage exceeds the total limit of containers 2Gi. ",
    "Usage of EmptyDir volume 'tmp' exceeds the limit '1Gi'. ",
    "The node was low on resource: inodes. ",
)


@pytest.mark.parametrize("message", EVICTIONS)
def test_an_eviction_for_a_full_disk_is_no_preemption_and_its_siblings_failures_are_its_echo(message: str) -> None:
    evicted = Disruption(reason="TerminationByKubelet", message=message)
    job = gang({"end": builders.ended(ExitCode.PEER_LOST)}, {"disruption": evicted}, failing_since=NOW + 55)
    verdict = judge(job, nodes=2)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.DISK_FULL)
    assert message.strip() in verdict.message


@pytest.mark.parametrize(
    "disruption",
    [
        Disruption(reason="TerminationByKubelet", message="The node was low on resource: memory. "),
        Disruption(reason="TerminationByKubelet", message="Pod was terminated in response to imminent node shutdown."),
        Disruption(reason="PreemptionByScheduler", message="for a pod with ephemeral-storage"),
    ],
)
def test_other_disruptions_stay_preemptions(disruption: Disruption) -> None:
    verdict = judge(gang({"disruption": disruption}))
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.PREEMPTED, Reason.DISRUPTED)


def test_a_pod_that_a_node_with_a_full_disk_will_not_take_says_so() -> None:
    said = "Pod was rejected: The node had condition: [DiskPressure]. "
    verdict = judge(failed(builders.ended(137, reason="Evicted", text=said)))
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.DISK_FULL)
    assert "DiskPressure" in verdict.message


def test_of_a_failure_whose_words_were_cut_that_is_said_and_not_half_a_record() -> None:
    half = builders.message(builders.failure(sentence="batch 4096 does not fit"))[:-20]
    verdict = judge(failed(builders.ended(80, text=half)))
    assert verdict is not None
    assert verdict.reason is Reason.WORKER_RAISED
    assert "the termination message was cut: its end is missing" in verdict.message
    assert "{" not in verdict.message


@pytest.mark.parametrize(("code", "how"), [(7, "exit code 7"), (139, "signal 11")])
def test_a_result_that_was_written_before_a_failure_is_told_in_words(code: int, how: str) -> None:
    verdict = judge(failed(builders.ended(code, text=SUCCESS)))
    assert verdict is not None
    assert verdict.message == f"pod pod-0 ended with {how} (Exited): it had written a result before it ended"
    wrong = builders.message(builders.result().model_copy(update={"init_seconds": -1}))
    verdict = judge(failed(builders.ended(code, text=wrong)))
    assert verdict is not None
    assert verdict.message.startswith(f"pod pod-0 ended with {how} (Exited): the termination message is no record: ")
    assert "{" not in verdict.message


def test_the_pods_own_sentence_is_kept() -> None:
    said = builders.message(builders.failure(sentence="batch 4096 does not fit"))
    verdict = judge(failed(builders.ended(66, text=said)))
    assert verdict is not None
    assert verdict.message == "pod pod-0: batch 4096 does not fit"


@pytest.mark.parametrize(
    "text",
    [
        'Traceback (most recent call last):\n  File "a.py"\n\x1b[31mValueError\x1b[0m: no',
        builders.message(builders.failure(sentence="it broke:\n\n  shapes\r\n\tdo not fit")),
    ],
)
def test_whatever_a_pod_said_is_one_line(text: str) -> None:
    verdict = judge(failed(builders.ended(80, text=text)))
    assert verdict is not None
    assert verdict.message.isprintable()
    assert "  " not in verdict.message
    assert "[31m" not in verdict.message


def test_a_failing_job_is_judged_when_its_pods_have_ended_or_after_a_while() -> None:
    stuck = gang({"end": builders.ended(82)}, {"deleting": True}, failing_since=NOW + 10)
    assert judge(stuck, nodes=2, after=60) is None
    verdict = judge(stuck, nodes=2, after=10 + outcome.SETTLE_SECONDS)
    assert verdict is not None
    assert verdict.reason is Reason.PEER_LOST


def test_a_pods_own_deadline_is_a_time_out_and_its_sibling_that_missed_it_says_less() -> None:
    missed = builders.ended(ExitCode.PEER_LOST, text=builders.message(builders.failure(exit_code=82)))
    verdict = judge(failed(missed, builders.ended(143, reason="DeadlineExceeded")), nodes=2)
    assert verdict is not None
    assert verdict.reason is Reason.TIMED_OUT
    assert "pod pod-1 was stopped by its own deadline" in verdict.message


def test_a_failed_job_without_any_pod_still_says_what_is_known() -> None:
    verdict = judge(failed(failed_message="Job has reached the specified backoff limit"))
    assert verdict is not None
    assert "backoff limit" in verdict.message


def test_a_job_that_somebody_deletes_has_vanished() -> None:
    verdict = judge(gang({}, deleting=True))
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.JOB_VANISHED)


UNPLACED: dict[str, object] = {"phase": "Pending", "node": None, "scheduled_at": None, "running_at": None}
NO_NODE: dict[str, object] = UNPLACED | {"scheduling_message": "0/3 nodes are available: 3 Insufficient cpu"}


UNSEEN: dict[str, object] = UNPLACED | {"scheduler": "volcano"}
NO_CLAIM: dict[str, object] = UNPLACED | {
    "scheduling_message": '0/3 nodes are available: persistentvolumeclaim "mnist" not found. preemption: 0/3 nodes'
}


def pulling(reason: str) -> dict[str, object]:
    return {"phase": "Pending", "running_at": None, "waiting_reason": reason, "waiting_message": "no such image"}


WAITS_FOR_EVER = OtherContainer(name="wait-for-network", reason="Running")
CRASHES = OtherContainer(name="istio-proxy", reason="CrashLoopBackOff", exit_code=3, message="no certificate")


@pytest.mark.parametrize(
    ("job", "reason", "said"),
    [
        (gang({}, NO_NODE), Reason.NO_CAPACITY, "3 Insufficient cpu"),
        (gang({}, creation_failure="exceeded quota: gpus"), Reason.CREATION_REFUSED, "exceeded quota"),
        (
            gang({}, pulling("ContainerCreating")),
            Reason.POD_NOT_STARTED,
            "pod pod-1 has node node-1, which does not start",
        ),
        (
            gang({}, pulling("ContainerCreating") | {"mount_failure": 'MountVolume.SetUp failed: "model" not found'}),
            Reason.VOLUME_NOT_MOUNTED,
            '"model" not found',
        ),
        (
            gang({}, pulling("PodInitializing") | {"others": (WAITS_FOR_EVER,)}),
            Reason.POD_INITIALIZING,
            "pod pod-1 waits for its init container wait-for-network: Running; ",
        ),
        (
            gang({}, pulling("PodInitializing") | {"others": (CRASHES,)}),
            Reason.POD_INITIALIZING,
            "init container istio-proxy: CrashLoopBackOff, exit code 3: no certificate; ",
        ),
        (gang({}, UNSEEN), Reason.NO_CAPACITY, "pod pod-1 asks for scheduler volcano, which has not looked at it: "),
        (gang({}, NO_CLAIM), Reason.VOLUME_NOT_MOUNTED, 'persistentvolumeclaim "mnist" not found'),
        (gang(NO_NODE, NO_CLAIM), Reason.VOLUME_NOT_MOUNTED, 'persistentvolumeclaim "mnist" not found'),
    ],
)
def test_what_stays_pending_ends_with_what_the_cluster_said(job: ObservedJob, reason: Reason, said: str) -> None:
    held_since = outcome.first_node_at(job) or NOW
    assert judge(job, nodes=2, after=held_since - NOW + 899) is None
    verdict = judge(job, nodes=2, after=held_since - NOW + 900 + outcome.SKEW_SECONDS)
    assert verdict is not None
    assert verdict.reason is reason
    assert said in verdict.message
    assert ("look at that node" in verdict.message) == (reason is Reason.POD_NOT_STARTED)


@pytest.mark.parametrize(
    "job",
    [
        gang({}, creation_failure="refused:\x1b[2J\n  twice"),
        gang({}, pulling("ImagePullBackOff") | {"waiting_message": "no\x1b[2J\r\nimage"}),
        gang({}, NO_NODE | {"scheduling_message": "0/3\x1b]0;title\x07 nodes"}),
        gang({}, NO_CLAIM | {"scheduling_message": "persistentvolumeclaim \x9b2J"}),
    ],
)
def test_whatever_the_cluster_says_of_a_gang_that_waits_is_one_line_that_can_be_shown(job: ObservedJob) -> None:
    found = outcome.pending_message(job, nodes=2)
    assert found is not None
    assert found[1].isprintable()


def test_an_image_gets_a_grace_period_and_a_wrong_name_none() -> None:
    grace = 1 + outcome.IMAGE_GRACE_SECONDS  # the pod was scheduled one second after NOW
    assert judge(gang(pulling("ImagePullBackOff")), after=grace - 1) is None
    late = judge(gang(pulling("ImagePullBackOff")), after=grace)
    wrong = judge(gang(pulling("InvalidImageName")), after=2)
    assert late is not None
    assert wrong is not None
    assert (late.reason, wrong.reason) == (Reason.IMAGE_NOT_STARTED, Reason.IMAGE_INVALID)


def test_a_gang_that_runs_too_long_times_out() -> None:
    limit = 5 + 3600 + outcome.SKEW_SECONDS  # it runs since five seconds after NOW
    assert judge(gang({}), after=limit - 1) is None
    verdict = judge(gang({}), after=limit)
    assert verdict is not None
    assert verdict.reason is Reason.TIMED_OUT
    assert "limits.attemptTimeout (3600 s)" in verdict.message


def test_a_gang_that_ran_is_never_said_not_to_have_been_placed() -> None:
    # A failing Job deletes the siblings, and their objects may go before its condition Failed comes.
    failing = gang({"end": builders.ended(ExitCode.WORKER_RAISED)}, failing_since=NOW + 3000)
    assert judge(failing, nodes=2, after=3001) is None
    settled = judge(failing, nodes=2, after=3000 + outcome.SETTLE_SECONDS)
    assert settled is not None
    assert settled.reason is Reason.WORKER_RAISED
    left_alone = judge(gang({}), nodes=2, after=3000)
    assert left_alone is not None
    assert left_alone.reason is Reason.POD_VANISHED


def test_a_disruption_is_taken_from_the_job_when_its_pod_is_gone() -> None:
    said = "Pod default/pod-1 has condition DisruptionTarget matching FailJob rule at index 0"
    siblings = gang(
        {"end": builders.ended(ExitCode.PEER_LOST)},
        failing_since=NOW + 50,
        failed_reason="PodFailurePolicy",
        failed_message=said,
    )
    verdict = judge(siblings, nodes=2)
    assert verdict is not None
    assert verdict.outcome is Outcome.PREEMPTED


def test_the_next_deadline_is_the_moment_of_the_verdict() -> None:
    for job, nodes in (
        (gang({}), 1),
        (gang({}, NO_NODE), 2),
        (gang(pulling("ImagePullBackOff")), 1),
        (gang({"end": builders.ended(82)}, {}, failing_since=NOW + 10), 2),
        (gang({"end": builders.ended(82)}, {}), 2),
    ):
        attempt = Attempt(job, nodes, TIMING)
        moment = outcome.next_deadline(attempt)
        assert moment is not None
        assert outcome.classify(attempt, now=moment - 0.001) is None
        assert outcome.classify(attempt, now=moment) is not None


# --- containers beside `gang` -----------------------------------------------------------------------------------------

NEVER_BEGAN: dict[str, object] = {"phase": "Failed", "running_at": None}
SHIPPER = OtherContainer(name="log-shipper", reason="Error", exit_code=1, message="no route\nto host")


@pytest.mark.parametrize("code", [1, 66, 137])
def test_an_init_container_that_failed_is_the_verdict_at_once_whatever_its_code(code: int) -> None:
    end = ContainerEnd(exit_code=code, reason="Error", message="no\nnetwork", finished_at=NOW + 2, init="wait")
    verdict = judge(gang({}, NEVER_BEGAN | {"end": end}), nodes=2, after=3)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason, verdict.exit_code) == (Outcome.FAILED, Reason.INIT_FAILED, None)
    why = f"its init container wait failed (Error, exit code {code}: no network)"
    assert verdict.message == f"pod pod-1 did not start, as {why}"


def refused(reason: str, message: str) -> dict[str, object]:
    end = ContainerEnd(exit_code=137, reason=reason, message=message, finished_at=NOW + 2, is_refused=True)
    return NEVER_BEGAN | {"end": end}


def test_a_pod_that_its_node_refused_ends_the_attempt_at_once_with_the_nodes_reason() -> None:
    said = "Allocate failed due to no healthy devices present"
    verdict = judge(gang({}, refused("UnexpectedAdmissionError", said)), nodes=2, after=3)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason, verdict.exit_code) == (Outcome.FAILED, Reason.POD_REFUSED, None)
    assert verdict.message == f"node node-1 refused pod pod-1 (UnexpectedAdmissionError): {said}"


def test_a_node_that_shuts_down_is_given_time_to_be_seen_going() -> None:
    job = gang({}, refused("NodeShutdown", "Pod was rejected as the node is shutting down."))
    assert judge(job, nodes=2, after=3) is None


def test_a_worker_that_failed_beside_a_sidecar_that_runs_on_is_judged_by_its_own_words() -> None:
    said = builders.message(builders.failure(exit_code=66, sentence="batch 4096 does not fit"))
    end = builders.ended(ExitCode.OUT_OF_MEMORY, text=said)
    verdict = judge(gang({"end": builders.ended(ExitCode.PEER_LOST)}, {"end": end}), nodes=2)
    assert verdict is not None
    assert (verdict.reason, verdict.exit_code) == (Reason.OUT_OF_MEMORY, 66)
    assert verdict.message == "pod pod-1: batch 4096 does not fit"
    one_runs_on = gang({}, {"end": end})
    assert judge(one_runs_on, nodes=2, after=60 + outcome.SETTLE_SECONDS - 1) is None
    verdict = judge(one_runs_on, nodes=2, after=60 + outcome.SETTLE_SECONDS)
    assert verdict is not None
    assert verdict.reason is Reason.OUT_OF_MEMORY


def test_a_failure_late_in_an_attempt_is_no_time_out_while_its_pod_lives_on() -> None:
    limit = 5 + 3600 + outcome.SKEW_SECONDS
    job = gang({}, {"end": builders.ended(80, at=NOW + limit - 1)})
    assert judge(job, nodes=2, after=limit) is None
    verdict = judge(job, nodes=2, after=limit - 1 + outcome.SETTLE_SECONDS)
    assert verdict is not None
    assert verdict.reason is Reason.WORKER_RAISED


@pytest.mark.parametrize("first", [{}, {"end": builders.ended(ExitCode.TERMINATED)}])
def test_a_sidecar_for_which_the_job_failed_is_named(first: dict[str, object]) -> None:
    beside = {"phase": "Failed", "end": builders.ended(0), "others": (SHIPPER,)}
    verdict = judge(gang(first, beside, failed=True, failing_since=NOW + 50), nodes=2)
    assert verdict is not None
    assert (verdict.outcome, verdict.reason) == (Outcome.FAILED, Reason.EXITED)
    assert verdict.message.startswith(
        "container log-shipper of pod pod-1 failed (Error, exit code 1: no route to host), and with it its Job: "
    )


@pytest.mark.parametrize("fields", [{"failed": True, "failing_since": NOW + 50}, {}])
def test_a_workers_own_failure_is_not_its_sidecars(fields: dict[str, object]) -> None:
    worker = {"end": builders.ended(ExitCode.WORKER_RAISED), "others": (SHIPPER,)}
    beside = {"phase": "Failed", "end": builders.ended(0), "others": (SHIPPER,)}
    verdict = judge(gang(worker, beside, **fields), nodes=2)
    assert verdict is not None
    assert verdict.reason is Reason.WORKER_RAISED
