# SPDX-License-Identifier: Apache-2.0
"""What the API server does not take: said with the remedy, tried again, and never an attempt or a slot lost."""

from typing import Any

import pytest

import studies
from gpubench import names
from gpubench.scheduler import manifests
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, queue
from memory_kube import Crash
from memory_world import NOW, Fate, World, sweep


async def test_a_job_of_the_same_name_that_is_not_ours_is_a_warning_and_never_adopted() -> None:
    rehearsal = World()
    await rehearsal.look()
    name = rehearsal.jobs_created()[0]
    world = World()
    world.api.put(kube.JOBS, {"metadata": {"name": name, "namespace": "default"}, "spec": {}})
    assert await world.look() is not None
    assert {"NameTaken", "WritesRefused"} <= {reason for reason, _ in world.events()}
    assert "belongs to somebody else" in world.condition("WritesRefused")["message"]
    assert world.ledger() == {}
    world.api.remove(kube.JOBS, name=name, namespace="default")
    world.clock.now += 30
    await world.look()
    assert world.jobs_created() == [name]


async def test_a_gang_that_is_refused_does_not_stop_those_behind_it() -> None:
    rehearsal = World(limits={"parallelTrials": 3})
    await rehearsal.look()
    first, *others = rehearsal.jobs_created()
    world = World(limits={"parallelTrials": 3})
    world.api.put(kube.JOBS, {"metadata": {"name": first, "namespace": "default"}, "spec": {}})
    await world.look()
    assert world.jobs_created() == others
    assert len(world.ledger()) == 2
    assert world.condition("WritesRefused")["reason"] == "WriteRefused"
    assert [reason for reason, _ in world.events()].count("AttemptStarted") == 2
    slots = [int(job["metadata"]["labels"][names.LABEL_SLOTS]) for job in rehearsal.api.all(kube.JOBS)[1:]]
    assert world.operator.slots.held() == {"pretend": sum(slots)}


async def test_what_cannot_be_created_at_all_is_a_condition_and_tried_again() -> None:
    world = World()
    refusal = kube.PermanentError("create configmaps: Too long: must have at most 1048576", code=422)
    for _ in range(2):  # it may pass by itself
        world.api.refusals["configmaps"] = refusal
        with pytest.raises(kube.PermanentError):
            await world.look()
        assert world.events() == []
    world.api.refusals["configmaps"] = refusal
    assert await world.look() == 60
    assert world.condition("Progressing")["status"] == "False"
    assert "Too long" in world.condition("Progressing")["message"]
    assert [reason for reason, _ in world.events()] == ["Stuck"]
    await world.look()
    assert world.condition("Progressing")["status"] == "True"
    assert len(world.jobs_created()) == 1


@pytest.mark.parametrize("needed", ["services", "secrets"])
async def test_what_gangs_need_and_is_refused_is_said_and_no_job_is_started_without_it(needed: str) -> None:
    world = World()
    world.api.refusals[needed] = kube.Forbidden(f"create {needed}: exceeded quota: {needed}")
    assert await world.look() == 30
    assert "exceeded quota" in world.condition("WritesRefused")["message"]
    assert world.jobs_created() == []
    assert world.operator.slots.held() == {}
    await world.look()
    assert len(world.jobs_created()) == 1


async def test_a_network_policy_that_is_refused_is_a_warning_and_stops_nothing() -> None:
    world = World(repeats=1)
    refusal = kube.Forbidden("create networkpolicies: forbidden")
    world.api.refusals["networkpolicies"] = refusal
    await world.look()
    assert len(world.jobs_created()) == 1
    (told,) = [message for reason, message in world.events() if reason == "NetworkOpen"]
    assert "networkpolicies: forbidden" in told
    assert world.condition("GangPending") == {}
    world.api.refusals["networkpolicies"] = refusal
    await world.finish()
    assert [reason for reason, _ in world.events()].count("NetworkOpen") == 1
    assert len(world.api.all(kube.NETWORK_POLICIES)) <= 1


@pytest.mark.parametrize("resource", [kube.SERVICES, kube.SECRETS, kube.NETWORK_POLICIES])
async def test_what_gangs_need_and_somebody_deleted_is_there_again_for_a_gang_ten_minutes_later_and_after_a_failure(
    resource: kube.Resource,
) -> None:
    world = World(sweep=sweep(2), repeats=4, fates=(Fate.SUCCESS, Fate.FAILURE), limits={"attempts": {"failed": 1}})

    async def is_there_for_the_next_gang() -> bool:
        before = len(world.jobs_created())
        for body in world.api.all(resource):
            world.api.remove(resource, name=kube.name_of(body), namespace="default")
        while len(world.jobs_created()) == before:
            world.progress()
            await world.look()
        return bool(world.api.all(resource))

    assert await is_there_for_the_next_gang(), "the first one"
    assert not await is_there_for_the_next_gang()
    assert await is_there_for_the_next_gang(), "one has failed"
    assert not await is_there_for_the_next_gang()
    world.clock.now += 600
    assert await is_there_for_the_next_gang()


async def test_each_study_has_a_token_of_its_own_that_is_written_once() -> None:
    world = World(repeats=2)
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    await world.look()
    before = world.api.all(kube.SECRETS)
    await world.look(queue.benchmark_key("default", "other"))
    await world.finish()
    tokens = [body["stringData"][names.TOKEN_KEY] for body in world.api.all(kube.SECRETS)]
    assert len(set(tokens)) == 2
    assert min(map(len, tokens)) >= 64
    assert before[0] in world.api.all(kube.SECRETS)


async def test_our_own_job_that_is_being_deleted_is_waited_for() -> None:
    rehearsal = World()
    await rehearsal.look()
    job = rehearsal.api.all(kube.JOBS)[0]
    world = World()
    body = {**job, "metadata": {**job["metadata"], "deletionTimestamp": observe.timestamp(NOW), "labels": {}}}
    world.api.put(kube.JOBS, body)
    for _ in range(3):
        assert await world.look() is not None
    assert world.ledger() == {}
    assert f"Job {kube.name_of(job)} cannot be written" in world.condition("WritesRefused")["message"]
    assert "still being deleted" in world.condition("WritesRefused")["message"]


@pytest.mark.parametrize(("code", "is_kept"), [(None, True), (201, True), (503, True), (429, False)])
async def test_a_job_that_may_have_been_made_keeps_its_slots(code: int | None, is_kept: bool) -> None:
    world = World()
    world.api.refusals["jobs"] = kube.TemporaryError("create jobs", code=code)
    await world.look()
    assert (world.operator.slots.held() != {}) == is_kept


#: As an API server of Kubernetes 1.36 words it.
WEBHOOK_DOWN = kube.TemporaryError(
    'create jobs: Internal error occurred: failed calling webhook "mjob.kb.io": failed to call webhook: Post '
    '"https://kueue-webhook-service.kueue-system.svc:443/mutate?timeout=10s": connection refused (code 500)',
    code=500,
)


async def test_a_webhook_that_is_down_delays_the_job_and_not_the_status() -> None:
    world = World(repeats=2)
    await world.look()
    for _ in range(2):  # the first trial runs and ends
        world.progress()
    world.clock.now += 5
    jobs = world.jobs_created()
    for tried in range(4):
        world.api.refusals["jobs"] = WEBHOOK_DOWN
        assert (await world.look() or 0) <= 30
        assert world.status()["trials"]["finished"] == 1, "the status does not wait for the next Job"
        is_said = world.condition("WritesRefused").get("status") == "True"
        assert is_said == (tried >= 2), "one or two errors are nobody's news"
    assert (world.jobs_created(), len(world.ledger())) == (jobs, 1), "a refusal costs no attempt"
    condition = world.condition("WritesRefused")
    assert condition["reason"] == "WebhookFailing"
    (said,) = [message for reason, message in world.events() if reason == "WritesRefused"]
    for message in (said, condition["message"], world.status()["message"]):
        assert message.startswith("Job quick-")
        assert 'failed calling webhook "mjob.kb.io"' in message
    await world.finish()
    assert world.condition("WritesRefused")["status"] == "False"
    attempts = world.status()["attempts"]
    assert (attempts["started"], attempts["failed"]) == (attempts["succeeded"], 0)


@pytest.mark.parametrize("refusal", [WEBHOOK_DOWN, kube.Forbidden("patch jobs: denied the request", code=403)])
@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_job_that_cannot_get_its_time_to_live_gets_it_later_also_of_a_finished_study(
    is_restarted: bool, refusal: kube.ApiError
) -> None:
    world = World(repeats=1, sweep=sweep(1))
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    while world.condition("Finished").get("status") != "True":
        world.progress()
        world.clock.now += 1
        world.api.patch_refusals[kube.name_of(job)] = refusal
        await world.look()
    assert world.api.all(kube.JOBS)[0]["spec"]["ttlSecondsAfterFinished"] == manifests.UNREAD_SECONDS
    if is_restarted:
        world.series = exporter.Series()
        world.start_operator()
        await world.operator.rebuild()
    for _ in range(3):
        world.api.patch_refusals[kube.name_of(job)] = refusal
        assert await world.look() is not None, "it is tried again"
    assert f"Job {kube.name_of(job)}" in world.condition("WritesRefused")["message"]
    await world.look()
    assert world.api.all(kube.JOBS)[0]["spec"]["ttlSecondsAfterFinished"] == 600
    assert world.condition("WritesRefused")["status"] == "False"


async def test_what_must_be_written_first_and_fails_again_and_again_is_said() -> None:
    world = World()
    for _ in range(3):
        world.api.refusals["configmaps"] = kube.TemporaryError(str(WEBHOOK_DOWN), code=500)
        with pytest.raises(kube.TemporaryError):
            await world.look()
    assert "failed calling webhook" in world.condition("Progressing")["message"]
    assert [reason for reason, _ in world.events()] == ["Stuck"]
    await world.look()
    assert world.condition("Progressing")["status"] == "True"


#: As the client words it.
TOO_LARGE = "Request entity too large: limit is 3145728 (code 413)"


async def test_a_job_that_is_too_large_is_tried_three_times_and_then_said_with_size_and_remedy() -> None:
    world = World(repeats=1)
    for tried in range(3):
        world.api.refusals["jobs"] = kube.TemporaryError(f"create jobs of 4,000,000 bytes: {TOO_LARGE}", code=413)
        assert 0 < (await world.look() or 0) <= 30
        assert (world.condition("WritesRefused").get("status") == "True") == (tried == 2)
    condition = world.condition("WritesRefused")
    assert condition["reason"] == "TooLarge"
    assert "create jobs of 4,000,000 bytes: Request entity too large: limit is 3145728" in condition["message"]
    assert "shorten template" in condition["message"]
    assert world.ledger() == {}
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == world.status()["attempts"]["started"] == 2


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (kube.TemporaryError(f"create configmaps of 4,000,000 bytes: {TOO_LARGE}", code=413), "shorten template"),
        (kube.TemporaryError("create configmaps: Too early (code 425)", code=425), "Too early"),
        (kube.TemporaryError("create configmaps: half an answer", code=200, reason="half"), "half an answer"),
    ],
    ids=str,
)
async def test_whatever_is_answered_again_and_again_is_said(failure: kube.ApiError, said: str) -> None:
    world = World(repeats=1)
    for tried in range(3):
        world.api.refusals["configmaps"] = failure
        with pytest.raises(kube.TemporaryError):
            await world.look()
        assert [reason for reason, _ in world.events()] == (["Stuck"] if tried == 2 else [])
    assert said in world.condition("Progressing")["message"]
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == 2


async def test_a_conflict_and_a_server_that_is_away_are_never_said_also_after_errors_that_were() -> None:
    world = World(repeats=1)
    for code in (500, 500, 409, 409, None, None, None):
        world.api.refusals["configmaps"] = kube.TemporaryError(f"create configmaps (code {code})", code=code)
        with pytest.raises(kube.TemporaryError):
            await world.look()
    assert world.events() == []


async def test_what_is_forbidden_is_said_at_once_and_tried_again_before_the_benchmark_is_left_alone() -> None:
    """An API server that starts forbids everything until it has read its roles."""
    world = World(repeats=1)
    for tried in range(3):
        world.api.refusals["configmaps"] = kube.Forbidden("create configmaps: clusterrole not found", code=403)
        if tried < 2:
            with pytest.raises(kube.Forbidden):
                await world.look()
        else:
            assert await world.look() == 60.0
        assert "clusterrole" in world.condition("Progressing")["message"]
    await world.finish()


async def test_a_benchmark_of_which_the_api_server_once_says_that_it_is_not_there_is_looked_for_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(suspend=True)  # it has no Jobs, which would be looked for anyway
    await world.look()

    async def missed(*_: Any, **__: Any) -> None:
        return None

    with monkeypatch.context() as once:
        once.setattr(world.api, "get", missed)
        assert 0.0 < (await world.look() or 0.0) <= 5.0, "no event would ever come"
        assert await world.look() is None, "it is gone"


#: Of a policy, of Kyverno (lines and all), of the schema, of a webhook that is down.
REFUSALS = [
    kube.Forbidden("create jobs: admission webhook denied the request:\n\nno label team", code=403),
    kube.PermanentError("create jobs: admission webhook denied the request:\n\nno label team", code=400),
    kube.PermanentError("create jobs: spec.x: Invalid value: no label team", code=422),
    WEBHOOK_DOWN,
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda error: str(error.code))
async def test_a_job_that_is_refused_costs_no_attempt_and_ends_with_the_capacity_timeout_whatever_the_code(
    refusal: kube.ApiError,
) -> None:
    world = World(repeats=1, sweep=sweep(1), limits={"capacityTimeout": "30m"})
    tried, tries = 0.0, list[float]()
    while world.condition("Finished").get("status") != "True":
        world.api.refusals["jobs"] = refusal
        wait = await world.look()
        if "jobs" not in world.api.refusals:
            tries.append(world.clock.now - tried)
            tried = world.clock.now
        assert world.operator.slots.held() == {}, "others may have them"
        if len(tries) > 3 and not world.ledger():
            assert world.condition("WritesRefused")["status"] == "True"
            assert "no label team" in (said := world.condition("WritesRefused")["message"]) or "mjob" in said
            assert "\n" not in said
            assert world.status()["attempts"]["started"] == 0
        if len(tries) in (5, 7):  # a restart does not begin anew
            world.start_operator()
            await world.operator.rebuild()
        world.clock.now += wait or 1.0
        assert world.clock.now < NOW + 3600
    assert sorted(tries[4:]) == tries[4:], "less and less often"
    assert len(tries) < 20
    (entry,) = world.ledger().values()
    assert (entry["reason"], entry["outcome"]) == ("AdmissionRefused", "Stopped")
    assert "limits.capacityTimeout" in entry["sentence"]
    assert world.clock.now > NOW + 1800
    assert world.status()["attempts"]["failed"] == 0
    (point,) = world.status()["results"]
    assert point["state"] == "Failed"
    assert "was refused until its point had waited 1800 s" in point["reason"]
    assert float(point["bill"]["total"]) == 0


async def test_a_job_that_is_taken_after_all_keeps_what_it_has_waited_and_only_time_of_trying_counts() -> None:
    world = World(repeats=1, sweep=sweep(1))
    for seconds in (30.0, 3600.0, 30.0):
        world.api.refusals["jobs"] = REFUSALS[1]
        await world.look()
        world.clock.now += seconds
    (waiting,) = world.refused().values()
    assert (waiting["refused"], waiting["sentence"][-13:]) == (330.0, "no label team")
    world.clock.now += 300.0
    world.api.crash_at, world.api.crash_before = len(world.api.writes) + 1, True  # the Job is there, its entry is not
    with pytest.raises(Crash):
        await world.look()
    world.api.crash_at = None
    world.start_operator()
    await world.operator.rebuild()
    await world.finish()
    assert world.refused() == {}
    (entry,) = world.ledger().values()
    assert (entry["outcome"], entry["refused"]) == ("Succeeded", 330.0)
    assert world.condition("WritesRefused")["status"] == "False"


async def test_what_was_said_of_a_refused_job_stays_said_when_an_operator_begins_anew() -> None:
    world = World(repeats=1, sweep=sweep(1))
    world.api.refusals["jobs"] = REFUSALS[1]
    await world.look()
    world.clock.now += 30.0
    world.start_operator()
    await world.operator.rebuild()
    world.api.refusals["jobs"] = WEBHOOK_DOWN  # of which alone nothing would be said yet
    await world.look()
    (waiting,) = world.refused().values()
    assert 'failed calling webhook "mjob.kb.io"' in waiting["sentence"]


@pytest.mark.parametrize("has_labels", [True, False])
async def test_an_attempt_began_when_its_job_was_created_also_where_a_crash_kept_that_from_the_ledger(
    has_labels: bool,
) -> None:
    rehearsal, world = World(repeats=1, sweep=sweep(1)), World(repeats=1, sweep=sweep(1))
    await rehearsal.look()
    world.api.crash_at = [resource for _, resource, _ in rehearsal.api.writes].index("jobs")
    with pytest.raises(Crash):
        await world.look()
    world.api.crash_at = None
    assert (len(world.jobs_created()), world.ledger()) == (1, {})
    if not has_labels:
        (job,) = world.api.all(kube.JOBS)
        world.api.put(kube.JOBS, {**job, "metadata": {**job["metadata"], "labels": {}}})
    world.clock.now += 300.0
    world.start_operator()
    await world.operator.rebuild()
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    (entry,) = world.ledger().values()
    assert (entry["job"], entry["jobUid"], entry["createdAt"]) == (kube.name_of(job), kube.uid_of(job), NOW)


async def test_a_trial_whose_job_is_refused_stands_in_no_other_trials_way() -> None:
    world = World(repeats=1, sweep=sweep(1, 2))
    world.api.refusals["jobs"] = REFUSALS[0]
    await world.look()
    assert world.jobs_created() == []
    world.clock.now += 1
    await world.look()
    (created,) = world.jobs_created()
    assert created not in [entry["job"] for entry in world.refused().values()]
    await world.finish()
    assert world.status()["attempts"]["succeeded"] == 2


async def meets_foreign(world: World, name: str) -> None:
    """Somebody else's ConfigMap has this name, and the benchmark says so."""
    foreign = {"metadata": {"name": name, "namespace": "default", "labels": {names.LABEL_COMPONENT: "x"}}, "data": {}}
    world.api.put(kube.CONFIG_MAPS, foreign)
    await world.look()
    assert f"ConfigMap default/{name} belongs to somebody else" in world.condition("Progressing")["message"]


async def test_a_foreign_config_map_of_a_shards_name_is_named_and_no_job_starts_without_a_record() -> None:
    world = World()
    name = names.ledger_name("quick", kube.uid_of(world.api.all(kube.BENCHMARKS)[0]), shard=0)
    await meets_foreign(world, name)
    assert world.jobs_created() == []
    assert world.operator.slots.held() == {}
    world.api.remove(kube.CONFIG_MAPS, name=name, namespace="default")
    world.clock.now += 60
    await world.finish()
    assert world.condition("Succeeded")["status"] == "True"


async def test_a_foreign_config_map_of_an_analysis_name_is_never_written() -> None:
    world = World()
    name = names.analysis_name("quick", kube.uid_of(world.api.all(kube.BENCHMARKS)[0]), part=0)
    await meets_foreign(world, name)
    assert next(one for one in world.api.all(kube.CONFIG_MAPS) if kube.name_of(one) == name)["data"] == {}
