# SPDX-License-Identifier: Apache-2.0
"""What others do to a benchmark's Jobs, pods and ConfigMaps, on an API server in memory."""

import contextlib
from typing import Any

import pytest

import builders
from gpubench import names
from gpubench.scheduler import ledger, outcome
from gpubench_cluster import kube
from gpubench_operator import observe
from memory_world import World, sweep


async def gang_of_two(**spec: Any) -> tuple[World, kube.Object]:
    """A world with a running gang of two, and its Job."""
    world = World(repeats=1, sweep=sweep(2), **spec)
    await world.look()
    world.progress()
    await world.look()
    world.clock.now += 20
    (job,) = world.api.all(kube.JOBS)
    return world, job


def edited(world: World, job: kube.Object, *, status: kube.Object | None = None, **spec: Any) -> kube.Object:
    """The Job after somebody's `kubectl patch`, with the status that its controller gives it then."""
    fields = [
        {"manager": "gpubench-operator", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "kubectl-patch", "fieldsV1": {"f:spec": {f"f:{field}": {} for field in spec}}},
    ]
    after = {"metadata": {**job["metadata"], "managedFields": fields}, "spec": {**job["spec"], **spec}}
    return world.api.put(kube.JOBS, {**job, **after, "status": status or {}})


def remove_pods(world: World) -> None:
    for pod in world.api.all(kube.PODS):
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"labels": {}}, f"label {names.LABEL_BENCHMARK_UID}"),
        ({"labels": {names.LABEL_BENCHMARK_UID: "another"}}, f"label {names.LABEL_TRIAL}"),
        ({"ownerReferences": [{"uid": "somebody"}]}, "owner "),
    ],
)
async def test_a_job_whose_labels_or_owner_others_take_is_found_by_its_name_and_ended_with_that_sentence(
    change: dict[str, Any], named: str
) -> None:
    world, job = await gang_of_two()
    world.api.put(kube.JOBS, {**job, "metadata": {**job["metadata"], **change}})
    await world.look()
    entry, *_ = world.ledger().values()
    assert (entry["reason"], entry["outcome"]) == ("JobChanged", "Failed")
    assert named in entry["sentence"]
    assert len(entry["podTimes"]) == 2, "its nodes are billed"
    assert "deletionTimestamp" in world.api.all(kube.JOBS)[0]["metadata"], "it does not run on unseen"
    await world.look()
    slots = int(job["metadata"]["labels"][names.LABEL_SLOTS])
    assert world.operator.slots.held() == {"pretend": 2 * slots}, "its own, and those of the next attempt"
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == 1


async def test_a_result_of_a_job_whose_labels_are_gone_counts_and_one_that_is_really_gone_is_called_so() -> None:
    world, job = await gang_of_two()
    world.progress()
    (done,) = world.api.all(kube.JOBS)
    world.api.put(kube.JOBS, {**done, "metadata": {**done["metadata"], "labels": {}}})
    await world.look()
    assert [entry["outcome"] for entry in world.ledger().values()] == ["Succeeded"]
    world, job = await gang_of_two()
    world.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
    world.api.put(kube.JOBS, {**job, "metadata": {**job["metadata"], "uid": "another", "labels": {}}})
    await world.look()
    entry, *_ = world.ledger().values()
    assert entry["reason"] == "JobVanished"


@pytest.mark.parametrize("is_known", [True, False])
async def test_pods_of_a_job_that_somebody_deletes_at_once_are_billed_until_each_is_gone(is_known: bool) -> None:
    """A Job that is deleted in the background is gone before its pods, and perhaps before anybody saw these."""
    world = World(repeats=1, sweep=sweep(2))
    await world.look()
    world.progress()
    if is_known:
        await world.look()
    world.clock.now += 20
    (job,) = world.api.all(kube.JOBS)
    world.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
    pods = world.api.all(kube.PODS)
    await world.look()
    entry, *_ = world.ledger().values()
    assert (entry["reason"], entry["outcome"], len(entry["holding"])) == ("JobVanished", "Failed", 2)
    assert "was deleted by somebody else while it ran" in entry["sentence"]
    slots = int(job["metadata"]["labels"][names.LABEL_SLOTS])
    assert world.operator.slots.held() == {"pretend": 2 * slots}, "its own, and those of the next attempt"
    for pod in pods:
        world.clock.now += 3
        world.operator.gone.note(pod)
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    world.clock.now += 50
    await world.look()
    entry, *_ = world.ledger().values()
    assert (entry["holding"], entry["unseen"]) == ([], 0)
    assert [ended - placed for placed, _, ended in entry["podTimes"]] == [23, 26]
    assert world.operator.slots.held() == {"pretend": slots}


@pytest.mark.parametrize("is_complete", [True, False])
async def test_a_first_pod_that_is_drained_when_it_has_ended_leaves_its_result(is_complete: bool) -> None:
    world, job = await gang_of_two()
    world.progress()
    if not is_complete:
        world.api.put(kube.JOBS, job)
    first, second = world.api.all(kube.PODS)
    world.operator.gone.note(first)
    world.api.remove(kube.PODS, name=kube.name_of(first), namespace="default")
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "drained"}
    status = {**second["status"], "conditions": [*second["status"]["conditions"], target]}
    world.api.put(kube.PODS, {**second, "status": status})
    await world.look()
    (entry,) = [one for one in world.ledger().values() if one["job"] == kube.name_of(job)]
    assert (entry["outcome"], entry["unseen"], entry["holding"]) == ("Succeeded", 0, [])
    assert len(entry["podTimes"]) == 2


async def test_pods_without_our_labels_are_found_by_the_uid_of_their_job() -> None:
    world, job = await gang_of_two()
    world.progress()
    for pod in world.api.all(kube.PODS):
        labels = {
            "batch.kubernetes.io/controller-uid": kube.uid_of(job),
            "batch.kubernetes.io/job-completion-index": "0",
        }
        labels["batch.kubernetes.io/job-completion-index"] = kube.name_of(pod)[-1]
        world.api.put(kube.PODS, {**pod, "metadata": {**pod["metadata"], "labels": labels}})
    (done,) = world.api.all(kube.JOBS)
    world.api.put(kube.JOBS, {**done, "status": {**done["status"], "succeeded": 2}})
    await world.look()
    entry, *_ = world.ledger().values()
    assert (entry["outcome"], len(entry["podTimes"])) == ("Succeeded", 2)


async def test_a_job_that_somebody_suspends_waits_without_an_end_and_what_ran_before_is_billed() -> None:
    world, job = await gang_of_two()
    since = observe.timestamp(world.clock.now)
    suspended = {"conditions": [{"type": "Suspended", "status": "True", "lastTransitionTime": since}]}
    body = edited(world, job, status=suspended, suspend=True)
    remove_pods(world)
    await world.look()
    assert world.condition("Admitted")["reason"] == "SuspendedByOthers"
    assert "is suspended by kubectl-patch" in world.condition("Admitted")["message"]
    world.clock.now += 10_000_000
    await world.look()
    body = edited(world, body, status=suspended, suspend=False)
    await world.look()
    status = {"startTime": observe.timestamp(world.clock.now)}
    world.api.put(kube.JOBS, {**body, "status": status})
    await world.look()
    entry, *_ = world.ledger().values()
    assert "outcome" not in entry
    (run,) = entry["segments"]
    held = [20.0 + outcome.GRACE_SECONDS] * 2  # when they were gone nobody saw
    assert ([times[2] - times[0] for times in run["podTimes"]], run["unseen"]) == (held, 2)
    await world.finish()
    entry, *_ = world.ledger().values()
    assert (entry["outcome"], len(entry["segments"])) == ("Succeeded", 1)


async def test_a_run_before_a_suspend_that_nobody_saw_is_kept_by_the_new_start_of_the_job() -> None:
    world, job = await gang_of_two()
    remove_pods(world)
    world.clock.now += 600
    edited(world, job, status={"startTime": observe.timestamp(world.clock.now)}, suspend=False)
    await world.look()
    entry, *_ = world.ledger().values()
    assert len(entry["segments"]) == 1


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_queued_job_that_ran_and_was_deleted_between_two_looks_is_billed(is_listed: bool) -> None:
    world = World(repeats=1, sweep=sweep(2), queueName="team-a")
    await world.look()
    await world.look()
    (entry,) = world.ledger().values()
    assert (entry["queue"], entry.get("admittedAt")) == ("team-a", None)
    world.progress()
    world.clock.now += 600
    (job,) = world.api.all(kube.JOBS)
    world.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
    for pod in world.api.all(kube.PODS) if not is_listed else ():
        world.operator.gone.note(pod)
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    await world.look()
    entry = next(iter(world.ledger().values()))
    assert entry["reason"] == "JobVanished"
    assert [times[2] - times[0] for times in entry["podTimes"]] == [600.0, 600.0]


async def test_no_ledger_that_somebody_writes_or_deletes_meanwhile_keeps_an_operator_from_beginning() -> None:
    """A name of a Job may be as long as a ConfigMap: no server takes such a path, and does not say so in JSON."""
    world, job = await gang_of_two()
    body = config_map(world, names.COMPONENT_LEDGER)
    (own,) = (await world.operator.store.read(observe.study(world.api.all(kube.BENCHMARKS)[0]))).recorded.records
    forged = (own.model_copy(update={"trial": one, "attempt": 2, "job": "/" * 9999}) for one in (own.trial, "x" * 9999))
    data = {**body["data"], **{str(number): one.to_text() for number, one in enumerate(forged)}}
    world.api.put(kube.CONFIG_MAPS, {**body, "data": data})
    asked, deleted, get = list[str](), set[kube.Resource](), world.api.get

    async def asking(resource: kube.Resource, *, name: str, namespace: str | None = None) -> kube.Object | None:
        asked.append(name)
        return None if resource in deleted else await get(resource, name=name, namespace=namespace)

    world.api.get = asking  # type: ignore[method-assign]
    slots = int(job["metadata"]["labels"][names.LABEL_SLOTS])
    for _ in range(2):
        world.start_operator()
        await world.operator.rebuild()
        assert world.operator.slots.held() == {"pretend": slots}
        deleted.add(kube.CONFIG_MAPS)
    assert max(map(len, asked)) <= 63


async def test_a_job_that_somebody_scales_ends_with_that_sentence_and_its_nodes_are_not_forgotten() -> None:
    world, job = await gang_of_two(limits={"attempts": {"failed": 0}})
    edited(world, job, parallelism=0)
    remove_pods(world)
    world.clock.now += 60
    await world.look()
    assert world.condition("GangPending")["reason"] == "JobChanged"
    world.clock.now += 3600
    await world.look()
    entry, *_ = world.ledger().values()
    assert entry["reason"] == "JobChanged"
    assert "0 of 2 pods of Job" in entry["sentence"]
    assert "kubectl-patch changed its spec.parallelism" in entry["sentence"]
    await world.finish()
    assert world.status()["spent"]["assumedAttempts"] == 1


async def test_what_a_webhook_wrote_into_a_job_is_in_the_sentence_of_its_failure() -> None:
    world, job = await gang_of_two()
    template = {**job["spec"]["template"], "spec": {**job["spec"]["template"]["spec"], "subdomain": "theirs"}}
    edited(world, job, backoffLimit=6, template=template)
    world.clock.now += 100_000
    await world.look()
    entry, *_ = world.ledger().values()
    assert entry["reason"] == "TimedOut"
    assert "backoffLimit 6 in place of 0, subdomain theirs in place of quick-" in entry["sentence"]


async def test_between_two_attempts_no_gang_is_said_to_have_its_nodes() -> None:
    world, job = await gang_of_two()
    edited(world, job, parallelism=1)
    await world.look()
    assert world.condition("GangPending")["status"] == "True"
    world.api.put(kube.JOBS, job)
    await world.look()
    assert world.condition("GangPending")["reason"] == "AllGangsPlaced"
    world.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
    world.api.refusals["jobs"] = kube.Forbidden("create jobs: no label team", code=403)
    await world.look()
    assert world.condition("GangPending")["reason"] == "NoGang"


async def test_a_ledger_that_somebody_made_immutable_says_how_to_make_it_anew() -> None:
    world, _ = await gang_of_two()
    world.progress()
    shard = config_map(world, names.COMPONENT_LEDGER)
    for tried in range(3):
        world.api.patch_refusals[kube.name_of(shard)] = kube.PermanentError(
            "patch configmaps: data: Forbidden: field is immutable when `immutable` is set (code 422)", code=422
        )
        with pytest.raises(kube.PermanentError) if tried < 2 else contextlib.nullcontext():
            await world.look()
    message = world.condition("Progressing")["message"]
    assert f"kubectl get configmap {kube.name_of(shard)} -o json | jq 'del(.immutable)'" in message
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == 1


async def one_of_two_ended() -> World:
    """A world with two trials, of which one has ended."""
    world = World(repeats=2, sweep=sweep(1))
    for _ in range(4):  # one of two trials ends
        await world.look()
        world.progress()
        world.clock.now += 5
    return world


def config_map(world: World, component: str) -> kube.Object:
    """The only one of its kind."""
    every = world.api.all(kube.CONFIG_MAPS)
    (found,) = (body for body in every if body["metadata"]["labels"][names.LABEL_COMPONENT] == component)
    return found


def damage(world: World, component: str) -> tuple[kube.Object, str]:
    """Somebody edits the first entry of such a ConfigMap; the ConfigMap as it was, and the entry's key."""
    body = config_map(world, component)
    key = next(iter(body["data"]))
    text = body["data"][key].replace('"attempt":1', '"attempt":2').replace('"seed":', '"sed":')
    assert text != body["data"][key]
    world.api.put(kube.CONFIG_MAPS, {**body, "data": {**body["data"], key: text}})
    return body, key


async def test_a_damaged_entry_is_named_and_meanwhile_jobs_that_run_are_judged_and_none_starts() -> None:
    world = World()
    await world.look()
    jobs = world.jobs_created()
    body, key = damage(world, names.COMPONENT_LEDGER)
    world.clock.now += 5
    await world.look()
    said = world.condition("Progressing")
    where = f"ConfigMap default/{kube.name_of(body)}, key {key} cannot be read"
    assert (said["status"], said["reason"]) == ("False", "Stuck")
    assert where in said["message"]
    assert said["message"].endswith("): put the entry back as it was, or delete the benchmark and apply it again")
    assert any(reason == "Stuck" and where in message for reason, message in world.events())
    assert world.jobs_created() == jobs
    while world.progress() and not any(observe.condition(job, "Complete") for job in world.api.all(kube.JOBS)):
        world.clock.now += 1
    await world.look()
    assert world.ledger()[key]["outcome"] == "Succeeded", "its Job and pods say what it was"
    await world.finish()
    assert world.status()["attempts"]["failed"] == 0


async def test_an_entry_of_a_trial_that_no_plan_has_stops_its_own_benchmark_and_no_operator() -> None:
    world, job = await gang_of_two()
    slots = int(job["metadata"]["labels"][names.LABEL_SLOTS])
    body, before = config_map(world, names.COMPONENT_LEDGER), world.jobs_created()
    for how in (None, ledger.Outcome.FAILED):
        forged = ledger.to_entries([builders.attempt(trial="forged", outcome=how)])
        world.api.put(kube.CONFIG_MAPS, {**body, "data": {**body["data"], **forged}})
        world.start_operator()
        await world.operator.rebuild()
        await world.look()
        assert "the plan has no trial forged: remove its entries" in world.condition("Progressing")["message"]
        assert world.operator.slots.held() == {"pretend": slots}, "what its pods request"
        assert world.jobs_created() == before
    world.api.put(kube.CONFIG_MAPS, body)
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == 1


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("components", [{names.COMPONENT_LEDGER}, {names.COMPONENT_LEDGER, names.COMPONENT_PLAN}])
async def test_a_ledger_that_is_gone_is_said_and_no_trial_is_run_or_paid_twice(
    components: set[str], is_restarted: bool
) -> None:
    world = await one_of_two_ended()
    assert observe.study(world.api.all(kube.BENCHMARKS)[0]).status.analysis is not None
    jobs = world.jobs_created()
    for body in world.api.all(kube.CONFIG_MAPS):
        if body["metadata"]["labels"][names.LABEL_COMPONENT] in components:
            world.api.remove(kube.CONFIG_MAPS, name=kube.name_of(body), namespace="default")
    if is_restarted:
        world.start_operator()
        await world.operator.rebuild()
    for _ in range(2):
        await world.look()
        assert "is gone: delete the benchmark and apply it again" in world.condition("Progressing")["message"]
        assert any(reason == "Stuck" and "is gone" in message for reason, message in world.events())
    assert (world.jobs_created(), world.ledger()) == (jobs, {})
    for job in world.api.all(kube.JOBS):
        world.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
    remove_pods(world)
    await world.look()
    assert world.operator.slots.held() == {}, "nobody waits for slots that nothing holds"


async def test_an_environment_that_this_version_cannot_read_is_no_part_of_the_ledger_that_is_gone() -> None:
    world = await one_of_two_ended()
    body = config_map(world, names.COMPONENT_LEDGER)
    (key,) = (key for key in body["data"] if key.startswith("environment."))
    world.api.put(kube.CONFIG_MAPS, {**body, "data": {**body["data"], key: '{"of": "a later version"}'}})
    world.start_operator()
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == 2


async def test_a_job_that_has_no_pods_yet_keeps_its_slots_though_its_plan_is_gone() -> None:
    world, job = await gang_of_two()
    plan = config_map(world, names.COMPONENT_PLAN)
    world.api.remove(kube.CONFIG_MAPS, name=kube.name_of(plan), namespace="default")
    remove_pods(world)
    await world.look()
    assert "the plan of a benchmark that has begun is gone" in world.condition("Progressing")["message"]
    assert world.operator.slots.held() == {"pretend": int(job["metadata"]["labels"][names.LABEL_SLOTS])}


async def test_slots_of_a_benchmark_whose_spec_nobody_can_read_any_more_go_with_its_pods() -> None:
    world, job = await gang_of_two()
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "spec": {"sweep": "of another version"}})
    await world.look()
    assert world.operator.slots.held() == {"pretend": int(job["metadata"]["labels"][names.LABEL_SLOTS])}
    world.api.remove(kube.JOBS, name=kube.name_of(job), namespace="default")
    remove_pods(world)
    await world.look()
    assert world.operator.slots.held() == {}


@pytest.mark.parametrize("component", [names.COMPONENT_LEDGER, names.COMPONENT_PLAN])
async def test_jobs_of_a_suspended_benchmark_end_though_what_is_stored_of_it_is_damaged(component: str) -> None:
    world = World()
    await world.look()
    damage(world, component)
    world.start_operator()
    study = world.api.all(kube.BENCHMARKS)[0]
    world.api.put(kube.BENCHMARKS, {**study, "spec": {**study["spec"], "suspend": True}})
    await world.look()
    assert all("deletionTimestamp" in job["metadata"] for job in world.api.all(kube.JOBS))
    assert "cannot be read" in world.condition("Progressing")["message"]


async def test_a_pod_that_is_gone_before_its_attempt_is_recorded_is_billed_until_then() -> None:
    world, job = await gang_of_two()
    world.progress()
    _, second = world.api.all(kube.PODS)
    world.operator.gone.note(second)
    world.api.remove(kube.PODS, name=kube.name_of(second), namespace="default")
    await world.look()
    (entry,) = [one for one in world.ledger().values() if one["job"] == kube.name_of(job)]
    assert (entry["outcome"], len(entry["podTimes"])) == ("Succeeded", 2)
