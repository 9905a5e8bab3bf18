# SPDX-License-Identifier: Apache-2.0
"""What was got is what was asked for: nodes against their pool, attempts against each other, pools against pools."""

from collections.abc import Sequence
from typing import Any

import pytest

import builders
from builders import NOW
from gpubench.analysis import forecast, machines, node_facts, pool_status, preflight
from gpubench.analysis.preflight import State
from gpubench.api import messages
from gpubench.api.point_result import PointResult, PointState
from gpubench.api.point_warning import WarningReason
from gpubench.api.pool import GpuPool
from gpubench.api.pool_price import CapacityType
from gpubench.plan import overlap
from gpubench.report import tables
from gpubench.scheduler import environments, events, step
from gpubench.scheduler.ledger import AttemptRecord, Change, Ledger, Machine, Outcome, Reason
from gpubench.scheduler.observed import ObservedJob, ObservedNode
from gpubench_cli import plan as planned
from world import Decision, decide

SPOT = {"karpenter.sh/capacity-type": "spot"}
ALL_OTHER = (
    "spot (karpenter.sh/capacity-type=spot), T4 and a machine of 4 GPUs, and the pool says OnDemand, L4 and "
    "slotsPerNode 1"
)
ON_DEMAND = {"karpenter.sh/capacity-type": "on-demand"}


def gpu_pool(name: str = "l4", **spec: Any) -> GpuPool:
    slot = {"cpu": "1", "memory": "1Gi", "gpu_resource": "nvidia.com/gpu"}
    return builders.pool(name, **{"accelerator": "L4", "slot": slot, **spec})


def node(labels: dict[str, str], *, name: str = "n1", gpus: int = 1) -> dict[str, Any]:
    offered = {"cpu": "8", "memory": "32Gi", "nvidia.com/gpu": str(gpus)}
    status = {"allocatable": offered, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": status}


# --- a node and its pool ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100-40GB"),
        ("NVIDIA-A100-SXM4-40GB", "a100"),
        ("Tesla-T4", "T4"),
        ("NVIDIA H100 80GB HBM3", "8x H100"),
        ("H100-94GB", "H100 NVL 96 GB"),  # as it is sold, and as clouds round it
        ("A100-SXM4-40GB-MIG-1g.5gb", "A100-40GB"),
        ("NVIDIA-GH200-480GB", "GH200-96GB"),  # one is the processor's memory
        ("NVIDIA-GeForce-RTX-4090", "RTX4090"),
        ("a card of one's own", "L4"),
        ("p4d.24xlarge", "A100"),
    ],
)
def test_names_of_one_gpu_are_no_mismatch(one: str, other: str) -> None:
    assert not machines.differ(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("T4", "L4"),
        ("L40", "L40S"),
        ("NVIDIA-A10G", "A10"),
        ("A100-80GB", "NVIDIA-A100-SXM4-40GB"),
        ("RTX-A6000", "RTX-6000-Ada"),
        ("GeForce RTX 3090", "RTX-4090"),
    ],
)
def test_names_of_two_gpus_are(one: str, other: str) -> None:
    assert machines.differ(one, other)


@pytest.mark.parametrize(
    ("labels", "gpus", "spec", "said"),
    [
        (SPOT, 1, {}, "spot (karpenter.sh/capacity-type=spot), and the pool says OnDemand"),
        (ON_DEMAND, 1, {"capacity_type": "Spot"},
         "on demand (karpenter.sh/capacity-type=on-demand), and the pool says Spot"),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, 1, {}, "T4, and the pool says L4"),
        ({"node.kubernetes.io/instance-type": "g4dn.xlarge"}, 1, {}, "T4, and the pool says L4"),
        ({}, 4, {}, "a machine of 4 GPUs, and the pool says slotsPerNode 1"),
        (
            {**SPOT, "nvidia.com/gpu.product": "Tesla-T4"},
            4,
            {},
            ALL_OTHER,
        ),
        ({}, 1, {}, None),
        (SPOT, 1, {"capacity_type": "Spot"}, None),
        ({"nvidia.com/gpu.product": "Tesla-T4"}, 1, {"accelerator": None}, None),
        (ON_DEMAND, 8, {"slot": {"cpu": "1", "memory": "1Gi"}, "accelerator": None}, None),  # of processors
    ],
)  # fmt: skip
def test_what_a_node_is_and_its_pool_says_otherwise(
    labels: dict[str, str], gpus: int, spec: dict[str, Any], said: str | None
) -> None:
    assert machines.mismatch(gpu_pool(**spec).spec, node_facts.machine(node(labels, gpus=gpus))) == said


def test_the_pool_counts_such_nodes_as_ready_and_its_condition_and_the_doctor_name_them() -> None:
    pool = gpu_pool()
    nodes = [node(SPOT), node(ON_DEMAND, name="n2")]
    status: Any = pool_status.of(pool, nodes, NOW)
    (ready, *_) = status["conditions"]
    assert ready["status"] == "True"
    said = "n1 is spot (karpenter.sh/capacity-type=spot), and the pool says OnDemand"
    assert ready["message"] == f"2 of 2 matching nodes take pods; {said}"
    found = preflight.pool(pool, nodes, now=NOW)
    assert (found.state, found.says) == (State.WARNING, f"2 of 2 nodes ready; {said}")
    assert preflight.pool(pool, nodes[1:], now=NOW).state is State.OK


def test_nodes_of_several_types_are_named() -> None:
    types = [{"node.kubernetes.io/instance-type": kind, "k8s.aws/x": ""} for kind in ("g6.xlarge", "gr6.4xlarge")]
    (said,) = pool_status.unlike(gpu_pool(), [node(labels, name=f"n{number}") for number, labels in enumerate(types)])
    assert said == "its nodes are of several types (g6.xlarge, gr6.4xlarge), and it has one price"


def test_a_node_that_another_pool_takes_at_another_price_is_named_and_at_the_same_price_not() -> None:
    label = {"nodeSelector": {"kp": "a"}}
    pool, other = gpu_pool(scheduling=label), gpu_pool("other", scheduling={"nodeSelector": {"np": "b"}})
    nodes = [node({"kp": "a", "np": "b"})]
    assert list(pool_status.unlike(pool, nodes, (pool, other))) == []
    dear = gpu_pool("dear", scheduling=other.spec.scheduling, price={**DEAR})
    (said,) = pool_status.unlike(pool, nodes, (pool, dear))
    assert said == "n1 is a node of GpuPool dear, too, of another price"
    assert list(pool_status.unlike(pool, [node({"kp": "a"})], (pool, dear))) == []
    tainted = {**nodes[0], "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]}}
    assert list(pool_status.unlike(pool, [tainted], (pool, dear))) == []  # which the dear one does not tolerate
    never_run = gpu_pool("never", scheduling=other.spec.scheduling, price=DEAR, measured_by={"pool": "l4"})
    of_processors = builders.pool("cpu", price=DEAR)
    assert list(pool_status.unlike(pool, nodes, (pool, never_run, of_processors))) == []


def test_a_spot_pool_without_a_counterpart_is_told_what_it_misses() -> None:
    pool = gpu_pool(capacity_type="Spot")
    missed = "l4 has no onDemandCounterpart: what Spot saves, net of what interruptions lose, is not computed"
    found = preflight.pool(pool, [node(SPOT)], now=NOW)
    assert (found.state, found.says) == (State.OK, f"1 of 1 node ready; {missed}")
    named = gpu_pool(capacity_type="Spot", on_demand_counterpart="other")
    assert preflight.pool(named, [node(SPOT)], now=NOW).says == "1 of 1 node ready"


# --- an attempt -------------------------------------------------------------------------------------------------------


def got(name: str, labels: dict[str, str], **fields: Any) -> ObservedNode:
    kind = labels.get("node.kubernetes.io/instance-type")
    return ObservedNode(name=name, instance_type=kind, machine=node_facts.machine(node(labels)), **fields)


SPEC = builders.spec(builders.block(pools=["l4"], workers=[1]), measure={"repeats": {"min": 3}})
PLAN = builders.plan(SPEC, gpu_pool())
EMPTY = Ledger()
FIRST, SECOND, THIRD = (trial.id for trial in PLAN.trials)
G6, G4 = ({"node.kubernetes.io/instance-type": kind} for kind in ("g6.xlarge", "g4dn.xlarge"))


def on(trial: str, where: str, *, ended: bool = True, **fields: Any) -> ObservedJob:
    """The Job of a trial with one pod."""
    end = builders.ended(text=builders.message(builders.result(trial=trial))) if ended else None
    pods = (builders.observed_pod(node=where, end=end),)
    return builders.observed_job(name=trial, uid=trial, trial=trial, pods=pods, pool="l4", **fields)


def look(
    nodes: Sequence[ObservedNode],
    *jobs: ObservedJob,
    ledger: Ledger = EMPTY,
    study: Any = None,
) -> Decision:
    seen = builders.observed(study or builders.study(SPEC), *jobs, pool="l4").model_copy(update={"nodes": tuple(nodes)})
    return decide(PLAN, ledger, seen, NOW + 60)


def recorded(decision: Decision) -> dict[str, AttemptRecord]:
    return {record.trial: record for record in decision.record}


def test_what_an_attempt_got_is_in_the_ledger_in_its_smallest_form() -> None:
    (record,) = look([got("node-a", {**SPOT, **G4})], on(FIRST, "node-a")).record
    assert record.machines == (
        Machine(capacity=CapacityType.SPOT, label="karpenter.sh/capacity-type=spot", accelerator="T4", gpus=1),
    )
    assert AttemptRecord.from_text(record.to_text()) == record
    (nothing_known,) = look([ObservedNode(name="bare")], on(FIRST, "bare")).record
    assert nothing_known.machines == ()


def warned(decision: Decision, reason: WarningReason) -> list[str]:
    return [one.message for result in decision.status.results for one in result.warnings if one.reason is reason]


@pytest.mark.parametrize("queue", [None, "team-a"], ids=["by itself", "by the flavor that Kueue injected"])
def test_a_point_that_ran_on_other_capacity_says_so(queue: str | None) -> None:
    """Kueue writes the flavor's labels into the Job: what came of it stands on the node."""
    jobs = [on(trial, "node-a", queue=queue, started_at=NOW) for trial in (FIRST, SECOND, THIRD)]
    found = look([got("node-a", SPOT)], *jobs, study=builders.study(SPEC))
    (said,) = warned(found, WarningReason.POOL_MISMATCH)
    assert said == (
        "3 of 3 repeats: ran on spot (karpenter.sh/capacity-type=spot), and the pool says OnDemand: narrow its "
        "nodeSelector, or correct it"
    )
    assert warned(look([got("node-a", ON_DEMAND)], *jobs), WarningReason.POOL_MISMATCH) == []


def spec_of_pod(**changes: Any) -> dict[str, Any]:
    resources = {"cpu": "2", "memory": "2Gi", "nvidia.com/gpu": "1"}
    given = {kind: resources | changes.pop(kind, {}) for kind in ("limits", "requests")}
    image = changes.pop("image", f"jobs@sha256:{'1' * 64}")
    own = {
        "name": "gang",
        "image": image,
        "resources": {kind: {k: v for k, v in of.items() if v} for kind, of in given.items()},
    }
    return {
        "containers": [{"name": "proxy", "image": "none"}, own],
        "nodeSelector": {"pool": "l4"},
        "affinity": {"nodeAffinity": {"ours": 1}},
        **changes,
    }


@pytest.mark.parametrize(
    ("got", "changed"),
    [
        ({}, []),
        ({"nodeSelector": {"pool": "l4", "flavor": "kueue"}, "tolerations": [{"key": "spot"}]}, []),
        ({"limits": {"cpu": "2000m", "memory": "2048Mi"}}, []),
        ({"image": f"mirror.example.com/jobs@sha256:{'1' * 64}"}, []),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, [("resources.limits.cpu", "2", "1", False)]),
        ({"requests": {"cpu": "1"}}, [("resources.requests.cpu", "2", "1", False)]),
        ({"limits": {"memory": "4Gi"}}, [("resources.limits.memory", "2Gi", "4Gi", True)]),
        ({"limits": {"nvidia.com/gpu": ""}, "requests": {"nvidia.com/gpu": ""}},
         [("resources.limits.nvidia.com/gpu", "1", None, False)]),
        ({"image": "jobs:latest"}, [("image", f"jobs@sha256:{'1' * 64}", "jobs:latest", False)]),
        ({"nodeSelector": {}}, [("nodeSelector.pool", "l4", None, False)]),
        ({"schedulerName": "volcano"}, [("schedulerName", "default-scheduler", "volcano", False)]),
        ({"affinity": {"podAffinity": {"theirs": 1}, "nodeAffinity": {"ours": 1}}}, []),
        ({"affinity": {}}, [("affinity.nodeAffinity", "ours", None, False)]),
        ({"limits": {"memory": "2e9"}}, [("resources.limits.memory", "2Gi", "2e9", False)]),
    ],
)  # fmt: skip
def test_what_others_changed_in_a_pod_is_told_from_what_they_added(got: dict[str, Any], changed: list[Any]) -> None:
    found = environments.changes(spec_of_pod(), spec_of_pod(**got))
    assert [(one.field, one.planned, one.got, one.is_more) for one in found] == changed


def test_what_others_changed_is_in_the_entry_of_the_attempt_while_it_runs() -> None:
    spec = builders.spec(builders.block(workers=[2]), measure={"repeats": {"min": 1}})
    plan = builders.plan(spec)
    changes = [Change(field="schedulerName", planned="default-scheduler", got=name) for name in "ab"]
    pods = tuple(builders.observed_pod(index, changed=(change,)) for index, change in enumerate(changes))
    job = builders.observed_job(trial=plan.trials[0].id, pods=pods)
    found = decide(plan, Ledger(), builders.observed(builders.study(spec), job), NOW + 60)
    assert [record.changed for record in found.record] == [tuple(changes)]


def test_a_tag_names_no_image_that_another_could_differ_from() -> None:
    planned, got = (spec_of_pod(image=image) for image in ("jobs:1", f"mirror.example.com/jobs@sha256:{'2' * 64}"))
    assert list(environments.changes(planned, got)) == []


def test_ranks_of_one_gang_on_different_machines_are_a_warning() -> None:
    spec = builders.spec(builders.block(pools=["l4"], workers=[2]), measure={"repeats": {"min": 1}})
    plan = builders.plan(spec, gpu_pool(accelerator=None))
    (trial,) = plan.trials
    result = builders.message(builders.result(trial=trial.id).model_copy(update={"workers": 2}))
    pods = tuple(builders.observed_pod(index, end=builders.ended(text=result)) for index in range(2))
    seen = builders.observed(builders.study(spec), builders.observed_job(trial=trial.id, pods=pods))
    found = decide(plan, Ledger(), seen.model_copy(update={"nodes": (got("node-0", G6), got("node-1", G4))}), NOW + 60)
    (said,) = warned(found, WarningReason.MACHINES_MIXED)
    assert said == (
        "pods of one gang ran on g4dn.xlarge and g6.xlarge, and the slowest sets the pace: narrow the pool's "
        "nodeSelector to one of them"
    )


# --- repeats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [got("node-b", G4), ObservedNode(name="node-b", machine=Machine(accelerator="T4"))],
    ids=["another type", "another GPU of a machine of one's own"],
)
def test_a_second_repeat_on_other_machines_ends_when_it_starts_and_no_further_one_does(other: ObservedNode) -> None:
    first = got("node-a", G6)
    nodes = [first if other.instance_type else ObservedNode(name="node-a", machine=first.machine), other]
    begun = look(nodes, on(FIRST, "node-a"))
    after = look(nodes, on(FIRST, "node-a"), on(SECOND, "node-b", ended=False), ledger=begun.step.ledger)
    stopped = recorded(after)[SECOND]
    assert (stopped.outcome, stopped.reason) == (Outcome.STOPPED, Reason.OTHER_MACHINES)
    assert [job.trial for job in after.delete] == [SECOND]
    (said,) = [event for event in after.events if event.reason == events.ATTEMPT_STOPPED]
    assert said.type == "Warning"
    assert "an earlier repeat" in said.message
    assert after.create == ()
    later = look(nodes, on(FIRST, "node-a"), ledger=after.step.ledger)
    assert later.create == ()
    (result,) = later.status.results
    assert (result.state, len(result.values)) == (PointState.MEASURED, 1)  # what was paid for stays
    (missing,) = warned(later, WarningReason.REPEATS_MISSING)
    assert missing.startswith("only 1 of 3 repeats were measured: it got ")


def test_a_second_repeat_on_the_same_machines_or_unknown_ones_goes_on() -> None:
    for other in (got("node-b", G6), ObservedNode(name="node-b")):
        nodes = [got("node-a", G6), other]
        begun = look(nodes, on(FIRST, "node-a"))
        after = look(nodes, on(FIRST, "node-a"), on(SECOND, "node-b", ended=False), ledger=begun.step.ledger)
        assert recorded(after)[SECOND].outcome is None


def test_no_money_is_spent_on_a_repeat_of_a_point_that_cannot_be_averaged_any_more() -> None:
    nodes = [got("node-a", G6), got("node-b", G4)]
    found = look(nodes, on(FIRST, "node-a"), on(SECOND, "node-b"))  # both had ended when they were seen
    assert found.create == ()
    (result,) = found.status.results
    assert (result.state, result.throughput) == (PointState.FAILED, None)
    assert "instance type g6.xlarge and g4dn.xlarge" in (result.reason or "")


# --- two pools of one benchmark ---------------------------------------------------------------------------------------

DEAR = {"per_node_hour": "4.60", "currency": "USD", "as_of": "2026-11-01"}


def selecting(**labels: str) -> dict[str, Any]:
    return {"nodeSelector": {key.replace("_", "/"): value for key, value in labels.items()}}


def affinity(*expressions: dict[str, Any]) -> dict[str, Any]:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


TYPES = {"key": "type", "operator": "In", "values": ["a", "b"]}
OTHERS, TYPED = {**TYPES, "operator": "NotIn"}, {"key": "type", "operator": "Exists"}


@pytest.mark.parametrize(
    ("wide", "narrow", "differ"),
    [
        ({}, {"capacity_type": "Spot", "scheduling": selecting(capacity="spot")}, "capacityType"),
        ({}, {"capacity_type": "Spot", "price": DEAR}, "capacityType and price"),
        ({}, {"price": DEAR}, "price"),
        ({"scheduling": affinity(TYPES)}, {"scheduling": selecting(type="a"), "price": DEAR}, "price"),
        ({"scheduling": affinity(TYPED)}, {"scheduling": selecting(type="a"), "price": DEAR}, "price"),
        ({"scheduling": affinity(OTHERS)}, {"scheduling": selecting(type="c"), "price": DEAR}, "price"),
        ({}, {}, None),  # the same nodes at the same price
        ({"scheduling": selecting(type="a")}, {"scheduling": selecting(type="b"), "price": DEAR}, None),
        ({"scheduling": selecting(type="a")}, {"scheduling": selecting(zone="z"), "price": DEAR}, None),
        ({"scheduling": affinity(OTHERS)}, {"scheduling": selecting(type="a"), "price": DEAR}, None),
        ({}, {"price": None, "scheduling": selecting(type="a")}, None),  # nobody said that it costs another sum
        ({}, {"price": DEAR, "scheduling": {**selecting(type="a"), "tolerations": [{"operator": "Exists"}]}}, None),
    ],
)  # fmt: skip
def test_pools_of_which_one_takes_the_nodes_of_the_other_at_another_price_are_refused(
    wide: dict[str, Any], narrow: dict[str, Any], differ: str | None
) -> None:
    pools = (gpu_pool("wide", **wide), gpu_pool("narrow", **narrow))
    spec = builders.spec(builders.block(pools=["wide", "narrow"], workers=[1]))
    plan = builders.plan(spec, *pools)
    assert (overlap.refusal(plan) is not None) == (differ is not None)
    begun = step.begin(builders.study(spec), pools, NOW)
    assert isinstance(begun, step.NotYet) == (differ is not None)
    if isinstance(begun, step.NotYet):
        assert begun.status.conditions[0].reason == messages.POOLS_OVERLAP.reason
        told = f"GpuPool wide takes every node of GpuPool narrow, and they differ in {differ}: "
        assert told in begun.status.conditions[0].message


def test_a_pool_that_is_never_run_may_have_the_nodes_of_another() -> None:
    derived = gpu_pool("derived", price=DEAR, measured_by={"pool": "l4"})
    spec = builders.spec(builders.block(pools=["l4", "derived"], workers=[1]))
    assert overlap.contains(gpu_pool().spec, derived.spec)
    assert overlap.refusal(builders.plan(spec, gpu_pool(), derived)) is None


# --- what is paid for and not used ------------------------------------------------------------------------------------


def test_a_point_that_pays_for_eight_gpus_and_uses_one_says_so_in_plan_and_table() -> None:
    spec = builders.spec(builders.block(pools=["l4"], workers=[1, 8], workersPerNode=8))
    plan = builders.plan(spec, gpu_pool(slots_per_node=8))
    lines = planned.messages(plan, forecast.forecast(plan, parallel_trials=1), parallel=1)
    assert "Paid for and not used: nodes are paid for as a whole, and there are 1 worker on l4 of 8 GPUs." in lines
    without = builders.plan(spec, gpu_pool(slots_per_node=8, slot={"cpu": "1", "memory": "1Gi"}))
    lines = planned.messages(without, forecast.forecast(without, parallel_trials=1), parallel=1)
    assert any(line.endswith("there are 1 worker on l4 of 8 slots.") for line in lines)
    results: tuple[PointResult, ...] = decide(plan, Ledger(), builders.observed(), NOW).status.results
    assert [result.slots_paid for result in results] == [8, None]
    table = tables.results(results)
    at = [column.title for column in table.columns].index("PAID SLOTS")
    assert [row[at] for row in table.rows] == ["8", "–"]
    assert tables.PAID_NOTE in table.notes
    shared = builders.plan(spec, gpu_pool(slots_per_node=8, exclusive_nodes=False))
    assert all(shared.slots_paid(point) is None for point in shared.points)


@pytest.mark.parametrize(
    ("one", "other", "share"),
    [
        ({"a": "1"}, {"a": "1", "b": "2"}, True),
        ({"a": "1"}, {"a": "2"}, False),
        ({}, {"a": "2"}, True),
        ({"a": "1"}, {"b": "1"}, True),
    ],
)
def test_a_node_can_be_of_two_pools_unless_they_want_different_values_of_a_label(
    one: dict[str, str], other: dict[str, str], share: bool
) -> None:
    specs = [builders.pool(scheduling={"nodeSelector": selector}).spec for selector in (one, other)]
    assert overlap.may_share(*specs) is overlap.may_share(*reversed(specs)) is share
