# SPDX-License-Identifier: Apache-2.0
"""Why a gang has no nodes: an autoscaler's words lead, and a node that is being made is no warning."""

from typing import Any

import pytest

import builders
from builders import NOW
from gpubench.api import messages
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.scheduler import conditions, outcome
from gpubench.scheduler.ledger import Ledger, Reason
from gpubench.scheduler.observed import ObservedPod, Said
from gpubench.scheduler.outcome import Attempt
from world import Decision, decide

SPEC = builders.spec(builders.block(workers=[2]), measure={"repeats": {"min": 1}})
PLAN = builders.plan(SPEC)
(TRIAL,) = PLAN.trials
SELECTOR = "0/5 nodes are available: 5 node(s) didn't match Pod's node affinity/selector"
COMING = Said(source="karpenter", reason="Nominated", message="Pod should schedule on: nodeclaim/e2-kc78h")
#: As kubernetes-sigs/karpenter v1.15.0 worded it beside the operator.
LIMIT = Said(
    source="karpenter",
    reason="FailedScheduling",
    message="Failed to schedule pod, all available instance types exceed limits for nodepool (NodePool=gpubench)",
)
#: As v1.14.1 worded it beside the operator (`make e2e-karpenter`): for each NodePool why it is none for the pod.
FOREIGN = (
    "incompatible requirements, key scenario, scenario In [huge-pages] not in scenario In [wrong-gpu]; all available "
    "instance types exceed limits for nodepool (NodePool=two-gangs-g6-xlarge); incompatible requirements, key "
    "scenario, scenario In [huge-pages] not in scenario In [starting]"
)
TOO_SMALL = (
    "no instance type has enough resources, requirements=karpenter.kwok.sh/kwoknodeclass In [default], "
    "karpenter.sh/capacity-type In [on-demand], karpenter.sh/initialized In [true], karpenter.sh/nodepool In "
    "[huge-pages-g6-xlarge], karpenter.sh/registered In [true], node.kubernetes.io/instance-type In [g6.xlarge], "
    'scenario In [huge-pages], resources={"cpu":"3","hugepages-2Mi":"5Gi","memory":"11Gi","nvidia.com/gpu":"1",'
    '"pods":"1"}'
)
OFFERING = "had a required offering, requirements=scenario In [a]"
UNKNOWN = 'incompatible requirements, label "scenario" does not have known values'


def unplaced(index: int = 0, said: Said | None = None, **fields: Any) -> ObservedPod:
    nowhere: dict[str, Any] = {"phase": "Pending", "node": None, "scheduled_at": None, "running_at": None}
    return builders.observed_pod(index, **nowhere | {"scheduling_message": SELECTOR, "said": said} | fields)


def look(*pods: ObservedPod, before: Decision | None = None, after: float = 60) -> Decision:
    study = builders.study(SPEC)
    if before is not None:
        study = study.model_copy(update={"status": GpuBenchmarkStatus(conditions=before.status.conditions)})
    job = builders.observed_job(trial=TRIAL.id, pods=pods)
    return decide(PLAN, Ledger(), builders.observed(study, job), NOW + after)


def pending(made: Decision) -> tuple[str, str, str]:
    (found,) = [one for one in made.status.conditions if one.type == conditions.GANG_PENDING]
    return found.status, found.reason, found.message


def warnings(made: Decision) -> list[str]:
    return [one.message for one in made.events if one.reason == conditions.GANG_PENDING]


@pytest.mark.parametrize(
    ("reason", "message", "found", "remedy"),
    [
        (LIMIT.reason, LIMIT.message, "NodeLimitReached", "raise that limit"),
        (
            "InsufficientCapacityError",
            "NodeClaim e2-kc78h nominated for this pod failed to launch: insufficient capacity error",
            "StockOut",
            "allow more zones or instance types",
        ),
        (
            "FailedScheduling",
            "Failed to schedule pod, no instance type has enough resources, resources={hugepages-2Mi: 5Gi}",
            "NoInstanceType",
            "compare the pool's slot",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 2 node(s) didn't match Pod's node affinity/selector",
            "ScaleUpNotTriggered",
            "with the node groups",
        ),
        (
            "NotTriggerScaleUp",
            "pod didn't trigger scale-up: 1 max node group size reached",
            "NodeLimitReached",
            "raise",
        ),
        ("Odd", "something else", "Unschedulable", "something else"),
    ],
)
def test_what_an_autoscaler_says_leads_with_a_remedy_and_the_scheduler_follows(
    reason: str, message: str, found: str, remedy: str
) -> None:
    made = look(unplaced(said=Said(source="karpenter", reason=reason, message=message)), unplaced(1))
    status, said_reason, text = pending(made)
    assert (status, said_reason) == ("True", found)
    assert text.startswith("pod pod-0 has no node")
    assert f": karpenter: {message}; " in text
    assert remedy in text
    assert text.endswith(f"; scheduler: {SELECTOR}")
    assert warnings(made) == [text]
    late = NOW + (PLAN.timing.capacity_timeout or 0) + outcome.SKEW_SECONDS
    job = builders.observed_job(trial=TRIAL.id, pods=(unplaced(said=Said(source="k", reason=reason, message=message)),))
    verdict = outcome.classify(Attempt(job, 2, PLAN.timing), now=late)
    assert verdict is not None
    assert (verdict.reason, message in verdict.message) == (Reason.NO_CAPACITY, True)


@pytest.mark.parametrize(
    ("message", "reason", "told"),
    [
        (f"{FOREIGN}; {TOO_SMALL}; {UNKNOWN}; {UNKNOWN}", "NoInstanceType", f"karpenter: {TOO_SMALL}; compare the"),
        (
            f"{FOREIGN}; {UNKNOWN}",
            "NodeLimitReached",
            "karpenter: all available instance types exceed limits for nodep",
        ),
        # pkg/controllers/provisioning/scheduling/nodeclaim.go of v1.14.1: of machines of another kind
        (
            f"{FOREIGN}; no instance type met the scheduling requirements or had enough resources, requirements=",
            "NodeLimitReached",
            "(NodePool=two-gangs-g6-xlarge); raise that limit",
        ),
        (
            f"no instance type which met the scheduling requirements and had enough resources, {OFFERING}; {FOREIGN}",
            "StockOut",
            f"{OFFERING}; it is asked again",
        ),
        (
            f"{UNKNOWN}; {UNKNOWN}",
            "NoInstanceType",
            f"karpenter: Failed to schedule pod, {UNKNOWN}; {UNKNOWN}; compare",
        ),
        (f"{TOO_SMALL}, {'x' * 2000}", "NoInstanceType", "…; compare the pool's slot"),
    ],
)
def test_of_many_node_pools_the_one_that_the_pod_asked_for_leads(message: str, reason: str, told: str) -> None:
    said = Said(source="karpenter", reason="FailedScheduling", message=f"Failed to schedule pod, {message}")
    _, found, text = pending(look(unplaced(said=said)))
    assert (found, told in text, text.endswith(f"; scheduler: {SELECTOR}")) == (reason, True, True), text


def test_a_node_that_is_being_made_is_said_and_warns_nobody() -> None:
    triggered = Said(source="cluster-autoscaler", reason="TriggeredScaleUp", message="pod triggered scale-up: [a 1->2]")
    made = look(unplaced(said=COMING), unplaced(1, said=triggered))
    status, reason, message = pending(made)
    assert (status, reason) == ("True", messages.NODE_COMING.reason)
    assert message.startswith("pod pod-0 waits for a node that is being made: karpenter: Pod should schedule on")
    assert warnings(made) == []
    after = look(unplaced(said=LIMIT), unplaced(1, said=triggered), before=made)
    assert len(warnings(after)) == 1, "it did not come"
    assert warnings(look(unplaced(said=LIMIT), unplaced(1), before=after)) == [], "once"


def test_before_an_autoscaler_has_looked_the_schedulers_words_are_no_news_of_a_gang_without_any_node() -> None:
    assert warnings(look(unplaced(), after=15)) == []
    assert len(warnings(look(unplaced(said=LIMIT), after=15))) == 1
    assert len(warnings(look(builders.observed_pod(0), unplaced(1), after=15))) == 1
    assert len(warnings(look(unplaced(), after=30))) == 1


def test_a_pod_that_gets_no_node_outranks_its_siblings_whose_nodes_are_being_made() -> None:
    assert pending(look(unplaced(said=COMING), unplaced(1, said=LIMIT)))[1] == "NodeLimitReached"
    claim = unplaced(1, scheduling_message='persistentvolumeclaim "mnist" not found')
    assert pending(look(unplaced(said=LIMIT), claim))[1] == "VolumeNotMounted"
