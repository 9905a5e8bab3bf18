# SPDX-License-Identifier: Apache-2.0
import contextlib
from typing import Any

import pytest

import studies
from gpubench import names
from gpubench.scheduler import manifests, outcome
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, queue
from memory_kube import Crash
from memory_world import KEY, NOW, Fate, World


async def test_the_first_look_plans_serves_starts_and_tells() -> None:
    world = World(limits={"parallelTrials": 2})
    assert await world.look() == 2.0, "soon, although no event may tell what became of the Jobs"
    written = [(verb, resource) for verb, resource, _ in world.api.writes]
    needed = {"configmaps", "services", "secrets", "networkpolicies"}
    assert set(written[:4]) == {("create", resource) for resource in needed}
    assert written[4:6] == [("create", "jobs"), ("create", "jobs")]
    assert written[6] == ("create", "configmaps")  # the ledger
    assert set(written[7:-2]) == {("create", "events")}
    assert written[-2] == ("create", "configmaps")  # the analysis that the status refers to
    assert written[-1] == ("patch", "gpubenchmarks")  # the status, when everything in it has happened and is told
    assert {entry["attempt"] for entry in world.ledger().values()} == {1}


async def test_a_benchmark_that_came_while_somebody_watched_is_started_from_its_event() -> None:
    rehearsal, world = World(), World()
    await rehearsal.look()
    asked: list[str] = []
    get, listed = world.api.get, world.api.list

    async def counted_get(resource: kube.Resource, **where: Any) -> kube.Object | None:
        asked.append(resource.plural)
        return await get(resource, **where)

    async def counted_list(resource: kube.Resource, **where: Any) -> list[kube.Object]:
        asked.append(resource.plural)
        return await listed(resource, **where)

    world.api.get, world.api.list = counted_get, counted_list  # type: ignore[method-assign]
    (body,) = world.api.all(kube.BENCHMARKS)
    world.operator.created[KEY] = body
    await world.look()
    assert asked == ["gpupools", "configmaps"], "and whether somebody has the name of its ledger"
    assert [what[:2] for what in world.api.writes] == [what[:2] for what in rehearsal.api.writes]
    world.operator.created[KEY] = body  # an event that comes late
    await world.look()
    assert "gpubenchmarks" in asked
    assert len(world.jobs_created()) == 1


async def test_a_benchmark_that_somebody_else_has_planned_is_read_before_anything_is_done() -> None:
    world = World()
    await world.look()
    (body,) = world.api.all(kube.BENCHMARKS)
    before, jobs = world.ledger(), world.jobs_created()
    world.start_operator()
    world.operator.created[KEY] = {**body, "status": {}}
    with pytest.raises(kube.TemporaryError, match="planned meanwhile"):
        await world.look()
    await world.look()
    assert (world.ledger(), world.jobs_created()) == (before, jobs)


@pytest.mark.parametrize("change", ["another text", "no ConfigMap"])
async def test_an_analysis_that_somebody_changed_is_written_again(change: str) -> None:
    world = World()
    await world.look()
    (stored,) = (body for body in world.api.all(kube.CONFIG_MAPS) if "-analysis-" in kube.name_of(body))
    if change == "another text":
        world.api.put(kube.CONFIG_MAPS, {**stored, "data": {"analysis.json": "{}"}})
    else:
        world.api.remove(kube.CONFIG_MAPS, name=kube.name_of(stored), namespace="default")
    world.clock.now += 5
    await world.look()
    assert world.status()["results"], "whose hash is that in the status"


async def test_a_look_without_news_writes_nothing() -> None:
    world = World()
    await world.look()
    await world.look()  # the status counts the attempt now
    world.clock.now += 5
    await world.look()
    before = len(world.api.writes)
    await world.look()
    assert len(world.api.writes) == before


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
async def test_what_gangs_need_and_somebody_deleted_is_there_again_before_the_next_one(resource: kube.Resource) -> None:
    world = World(repeats=2)
    await world.look()
    (found,) = world.api.all(resource)
    world.api.remove(resource, name=kube.name_of(found), namespace="default")
    await world.finish()
    assert len(world.api.all(resource)) == 1


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


def sweep(*workers: int) -> list[dict[str, Any]]:
    return [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [*workers], "batchPerWorker": [8]}]


async def test_a_large_gang_is_served_when_the_small_ones_under_way_have_ended() -> None:
    world = World(repeats=10, sweep=sweep(2))
    world.api.put(kube.BENCHMARKS, studies.benchmark("large", repeats=3, sweep=sweep(4)))
    large = queue.benchmark_key("default", "large")
    await world.look()
    await world.look(large)  # two of four nodes are taken: it stands in line
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick"]
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    world.woken.clear()
    await world.look()  # its Job has ended; it may not take the nodes again
    assert len(world.jobs_created()) == 1
    assert world.woken == [large]
    await world.look(large)
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick", "large"]
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    await world.look(large)  # now it is the other one's turn
    assert world.woken[-1] == KEY
    await world.look()
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick", "large", "quick"]


LONG = {"repeats": {"min": 1}, "warmUp": "1s", "duration": "30m"}


@pytest.mark.parametrize(
    ("namespace", "measure", "starts"),
    [("default", {}, True), ("default", LONG | {"duration": "31m"}, False), ("other", LONG, True)],
)
async def test_who_waits_for_a_whole_pool_holds_up_neither_what_ends_before_nor_other_namespaces(
    namespace: str, measure: dict[str, Any], starts: bool
) -> None:
    world = World(sweep=sweep(1), measure=LONG)
    keys = queue.benchmark_key("default", "whole"), queue.benchmark_key(namespace, "small")
    world.api.put(kube.BENCHMARKS, studies.benchmark("whole", repeats=1, sweep=sweep(4)))
    own: dict[str, Any] = {"measure": measure} if measure else {}
    small = studies.benchmark("small", namespace=namespace, sweep=sweep(1), **own)
    world.api.put(kube.BENCHMARKS, small)
    for key in (KEY, *keys):
        await world.look(key)
    assert [name.split("-")[0] for name in world.jobs_created()] == ["quick"] + ["small"] * starts


@pytest.mark.parametrize("fate", ["deleted", "suspended", "unreadable"])
async def test_a_study_that_waits_no_more_is_in_nobodys_way(fate: str) -> None:
    world = World(repeats=10, sweep=sweep(2))
    large = queue.benchmark_key("default", "large")
    stored = world.api.put(kube.BENCHMARKS, studies.benchmark("large", sweep=sweep(4)))
    await world.look()
    await world.look(large)
    for _ in range(2):
        world.progress()
        world.clock.now += 1
    await world.look()
    assert len(world.jobs_created()) == 1
    if fate == "deleted":
        world.api.remove(kube.BENCHMARKS, name="large", namespace="default")
    else:
        spec = {**stored["spec"], "suspend": True} if fate == "suspended" else {}
        world.api.put(kube.BENCHMARKS, {**stored, "spec": spec})
    world.woken.clear()
    await world.look(large)
    assert world.woken == [KEY]
    await world.look()
    assert len(world.jobs_created()) == 2


async def test_a_job_that_names_no_benchmark_keeps_no_operator_from_beginning() -> None:
    world = World()
    labels = {names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: names.COMPONENT_GANG}
    world.api.put(kube.JOBS, {"metadata": {"name": "forged", "namespace": "default", "labels": labels}, "spec": {}})
    await world.operator.rebuild()
    assert world.woken == [queue.benchmark_key("default", "")]
    assert await world.look(*world.woken) is None
    await world.look()
    assert len(world.jobs_created()) == 1


async def test_slots_are_held_again_after_a_restart() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    world.start_operator()
    await world.operator.rebuild()
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 1


async def test_a_job_that_quota_refuses_is_told_and_tried_again_without_counting() -> None:
    world = World()
    world.api.refusals["jobs"] = kube.Forbidden("create jobs: exceeded quota: jobs")
    assert await world.look() == 30
    assert "create jobs: exceeded quota: jobs" in dict(world.events())["WritesRefused"]
    assert world.ledger() == {}
    assert world.condition("WritesRefused")["reason"] == "WriteRefused"
    assert "AttemptStarted" not in dict(world.events())
    world.clock.now += 30
    await world.look()
    assert len(world.jobs_created()) == 1


async def test_why_a_job_has_no_pods_is_asked_after_a_while_only() -> None:
    world = World()
    await world.look()
    job = world.api.all(kube.JOBS)[0]
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Job", "uid": kube.uid_of(job)},
        "reason": "FailedCreate",
        "message": 'pods "x" is forbidden: exceeded quota',
        "lastTimestamp": observe.timestamp(NOW),
    }
    world.api.put(kube.EVENTS, event)
    assert await world.look() is not None
    world.clock.now += 12
    await world.look()
    pending = [one for one in world.status()["conditions"] if one["type"] == "GangPending"]
    assert "exceeded quota" in pending[0]["message"]


WORKLOADS = kube.Resource("kueue.x-k8s.io/v1beta2", "workloads")


def in_queue(world: World, *, name: str) -> dict[str, Any]:
    """The Workload of the only Job, as Kueue names it or not."""
    (job,) = world.api.all(kube.JOBS)
    metadata = {"name": name, "namespace": "default", "ownerReferences": [{"uid": kube.uid_of(job)}]}
    return {"metadata": metadata, "spec": {"active": True}}


async def test_the_workload_of_a_job_is_found_by_its_owner_and_read_anew_each_time() -> None:
    world = World(queueName="team-a")
    world.api.groups.add("kueue.x-k8s.io")
    await world.look()
    assert world.operator.slots.held() == {}, "the quota of its queue counts"
    world.clock.now += 60
    await world.look()
    assert world.condition("Admitted")["reason"] == "WorkloadMissing"
    body = in_queue(world, name="any-name")
    for message in ("no quota", "still none"):
        reserved = {"type": "QuotaReserved", "status": "False", "reason": "Pending", "message": message}
        world.api.put(WORKLOADS, {**body, "status": {"conditions": [reserved]}})
        world.clock.now += 10
        await world.look()
        assert world.condition("Admitted")["message"].endswith(f"waits in queue team-a: {message}")
    world.api.remove(WORKLOADS, name="any-name", namespace="default")
    world.api.put(WORKLOADS, {**in_queue(world, name="another"), "spec": {"active": False}})
    for _ in range(2):  # the first finds that the other one is gone
        await world.look()
    assert world.condition("Admitted")["reason"] == "Deactivated"


@pytest.mark.parametrize(
    "refusal",
    [
        kube.Forbidden('list workloads: User "gpubench" cannot list resource "workloads"'),
        kube.TemporaryError("list workloads: conversion webhook for kueue.x-k8s.io/v1beta1 failed (code 500)"),
    ],
)
async def test_where_workloads_cannot_be_read_kueues_events_say_why_a_job_waits(
    refusal: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(queueName="team-a")
    world.api.groups.add("kueue.x-k8s.io")
    world.api.unreadable["workloads"] = refusal
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    about = {"kind": "Workload", "name": f"job-{kube.name_of(job)}-1a2b3"}
    event: dict[str, Any] = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about}
    event |= {"reason": "ExceedsMaxQuota", "message": "no quota", "lastTimestamp": observe.timestamp(NOW)}
    world.api.put(kube.EVENTS, event)
    world.clock.now += 60
    await world.look()
    assert world.condition("Admitted")["reason"] == "WaitingForQueue"
    assert world.condition("Admitted")["message"].endswith("waits in queue team-a: no quota")
    world.clock.now += 10
    await world.look()

    def told() -> list[str]:
        unread = [record.__dict__ for record in caplog.records if record.message == "workloads not read"]
        assert {(one["namespace"], one["error"]) for one in unread} == {("default", str(refusal))}
        return [one["error"] for one in unread]

    assert len(told()) == 1, "not at each look"
    world.api.unreadable.clear()
    await world.look()
    world.api.unreadable["workloads"] = refusal
    await world.look()
    assert len(told()) == 2, "it could be read in between"


async def test_a_launch_that_karpenter_gives_up_is_a_stock_out_until_a_later_one_lasts() -> None:
    """Events as kubernetes-sigs/karpenter v1.14.1 wrote them beside the operator (`make e2e-karpenter`)."""
    world = World()
    await world.look()
    world.progress()  # pods
    (pod,) = world.api.all(kube.PODS)
    unplaced = {
        "conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 full"}]
    }
    world.api.put(kube.PODS, {**pod, "spec": {}, "status": {"phase": "Pending", **unplaced}})

    def tell(reason: str, message: str, *, kind: str = "Pod", about: str = kube.name_of(pod)) -> None:
        metadata = {"name": f"{about}.{world.clock.now}", "namespace": "default"}
        event: dict[str, Any] = {"metadata": metadata, "reason": reason, "message": message}
        event |= {"involvedObject": {"kind": kind, "name": about}, "source": {"component": "karpenter"}}
        world.api.put(kube.EVENTS, event | {"lastTimestamp": observe.timestamp(world.clock.now)})

    async def reason() -> str:
        world.clock.now += 15
        await world.look()
        return str(world.condition("GangPending")["reason"])

    def nominate(claim: str) -> None:
        tell("Nominated", f"Pod should schedule on: nodeclaim/{claim}, node/{claim}")

    nominate("g5-8zhz7")
    assert await reason() == "NodeComing"
    error = "creating instance, insufficient capacity, with fleet error(s), InsufficientInstanceCapacity: We currently"
    failed = f"NodeClaim g5-8zhz7 event: insufficient capacity, {error} do not have sufficient g5.2xlarge capacity"
    for claim in ("g5-8zhz7", "another"):
        tell("InsufficientCapacityError", failed, kind="NodeClaim", about=claim)
    assert await reason() == "StockOut"
    assert f"karpenter: {failed}; it is asked again" in world.condition("GangPending")["message"]
    limit = "all available instance types exceed limits for nodepool (NodePool=another)"
    tell("FailedScheduling", f"Failed to schedule pod, {limit}")
    assert await reason() == "StockOut", "of its own NodePool Karpenter says nothing while stock is out"
    nominate("g5-2xgcw")
    assert await reason() == "StockOut", "it is not known yet whether this one is launched"
    world.clock.now += 60
    assert await reason() == "NodeComing"


@pytest.mark.parametrize(("seconds_ago", "is_told"), [(20, True), (400, False)])
async def test_why_a_pod_has_no_volume_is_asked_after_a_while_only(seconds_ago: int, is_told: bool) -> None:
    world = World()
    await world.look()
    world.progress()  # pods
    (pod,) = world.api.all(kube.PODS)
    waiting = [{"name": names.CONTAINER, "state": {"waiting": {"reason": "ContainerCreating"}}}]
    scheduled = [{"type": "PodScheduled", "status": "True", "lastTransitionTime": observe.timestamp(NOW)}]
    world.api.put(
        kube.PODS,
        {**pod, "status": {"phase": "Pending", "conditions": scheduled, "containerStatuses": waiting}},
    )
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": kube.name_of(pod)},
        "reason": "FailedMount",
        "message": 'MountVolume.SetUp failed for volume "model" : configmap "model" not found',
        "lastTimestamp": observe.timestamp(NOW + 500 - seconds_ago),
    }
    world.api.put(kube.EVENTS, event)
    for seconds in (0, 14):
        world.clock.now = NOW + seconds
        wait = await world.look()
        assert wait is not None
        assert wait <= 15 - seconds, "then it is asked"
        assert "not found" not in world.condition("GangPending").get("message", "")
    world.clock.now = NOW + 500
    await world.look()
    pending = [one for one in world.status()["conditions"] if one["type"] == "GangPending"]
    assert any('configmap "model" not found' in one["message"] for one in pending) is is_told


async def test_a_deleted_study_gives_its_slots_back_only_when_its_jobs_are_gone() -> None:
    world = World(sweep=[{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [4], "batchPerWorker": [8]}])
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="quick", namespace="default")
    assert await world.look() is not None  # its Job is still there
    world.api.put(kube.BENCHMARKS, studies.benchmark("other"))
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 1
    world.progress()  # pods
    world.api.remove(kube.JOBS, name=world.jobs_created()[0], namespace="default")
    assert await world.look() is not None  # the garbage collector takes Jobs first, and pods run on for a while
    world.start_operator()
    await world.operator.rebuild()
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 1
    for pod in world.api.all(kube.PODS):
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    assert await world.look() is None
    await world.look(queue.benchmark_key("default", "other"))
    assert len(world.jobs_created()) == 2
    assert KEY not in world.series.keys()  # noqa: SIM118  # no mapping


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_a_finished_benchmark_is_deleted_when_its_time_to_live_is_over(is_restarted: bool) -> None:
    world = World(repeats=1, ttlSecondsAfterFinished=600)
    await world.finish()
    if is_restarted:
        world.start_operator()
    ended_at = observe.seconds(world.status()["completionTime"]) or 0.0
    for _ in range(2):
        assert await world.look() == pytest.approx(ended_at + 600 - world.clock.now)
    world.clock.now = ended_at + 599
    await world.look()
    assert "delete" not in {verb for verb, resource, _ in world.api.writes if resource == "gpubenchmarks"}
    world.clock.now += 1
    await world.look()
    assert ("delete", "gpubenchmarks", "quick") in world.api.writes


async def test_nothing_of_a_deleted_study_is_taken_for_one_of_the_same_name() -> None:
    world = World()
    await world.look()
    world.api.remove(kube.BENCHMARKS, name="quick", namespace="default")
    world.api.put(kube.BENCHMARKS, studies.benchmark())
    await world.look()
    assert len(set(world.jobs_created())) == 2
    uids = {job["metadata"]["labels"][names.LABEL_BENCHMARK_UID] for job in world.api.all(kube.JOBS)}
    assert len(uids) == 2
    assert world.status()["trials"]["total"] == 6


async def test_an_object_that_cannot_be_read_is_an_event_and_no_crash() -> None:
    world = World(sweep=[])
    assert await world.look() is None
    assert [reason for reason, _ in world.events()] == ["InvalidSpec"]
    assert world.condition("Progressing")["reason"] == "InvalidSpec"


async def test_an_operator_that_starts_anew_repeats_no_event() -> None:
    world = World()
    await world.look()
    before = world.events()
    world.start_operator()
    await world.look()
    assert world.events() == before


async def test_an_event_that_could_not_be_written_is_told_later_and_stops_nothing() -> None:
    calm = World()
    await calm.look()
    world = World()
    world.api.refusals["events"] = kube.TemporaryError("too many requests")
    await world.look()
    assert len(world.events()) == len(calm.events()) - 1
    assert world.status() == calm.status()
    await world.look()
    assert set(world.events()) == set(calm.events())


async def test_where_a_gang_runs_is_written_down_once_and_stays_known_when_its_node_is_gone() -> None:
    world = World(repeats=1)
    await world.look()
    world.progress()  # its pods run
    await world.look()
    ((key, entry),) = world.ledger().items()
    assert (entry["nodes"], entry["instanceTypes"]) == (sorted(entry["nodes"]), ["large"])
    world.clock.now += 5
    await world.look()  # the status was too new a moment ago
    written = len(world.api.writes)
    await world.look()
    assert len(world.api.writes) == written
    for pod in world.api.all(kube.PODS):
        world.api.remove(kube.PODS, name=kube.name_of(pod), namespace="default")
    for name in entry["nodes"]:
        world.api.remove(kube.NODES, name=name)
    world.clock.now += 5
    await world.look()
    ended = world.ledger()[key]
    assert (ended["outcome"], ended["reason"], ended["interruption"]) == ("Preempted", "NodeLost", "NodeLost")
    assert (ended["nodes"], ended["instanceTypes"]) == (entry["nodes"], entry["instanceTypes"])
    assert "AttemptPreempted" in {reason for reason, _ in world.events()}
    assert world.status()["attempts"]["interruptions"]["nodesLost"] == 1


# --- interruptions on purpose -----------------------------------------------------------------------------------------


def drilled(**spec: Any) -> World:
    return World(sweep=sweep(2), repeats=1, fates=(Fate.LONG,), max_nodes=2, drill={"every": "5s"}, **spec)


async def until_due(world: World) -> None:
    """The gang's pods run, and in the next look one of them is due."""
    await world.look()
    world.progress()
    world.clock.now += 5


async def test_the_pod_is_named_on_its_job_before_it_is_evicted() -> None:
    world = drilled()
    await until_due(world)
    before = len(world.api.writes)
    await world.look()
    (job,) = world.api.all(kube.JOBS)
    chosen = job["metadata"]["annotations"][names.ANNOTATION_DRILLED]
    written = [what for what in world.api.writes[before:] if what[1] in ("jobs", "pods")]
    assert written == [("patch", "jobs", kube.name_of(job)), ("evict", "pods", chosen)]
    await world.look()
    (entry,) = world.ledger().values()
    assert (entry["outcome"], entry["drilled"]) == ("Preempted", chosen)
    assert [reason for reason, _ in world.events() if reason in ("Drilled", "AttemptPreempted")] == ["Drilled"]
    assert world.api.writes[-1][:2] != ("evict", "pods")


async def test_an_eviction_that_a_budget_forbids_is_told_once_and_tried_again_when_the_server_says_so() -> None:
    world = drilled()
    await until_due(world)
    sentence = "create pods/eviction: Cannot evict pod as it would violate the pod's disruption budget. (code 429)"
    for delay, due in ((7.0, 7.0), (None, 5.0)):
        world.api.evictions_refused.append(kube.TemporaryError(sentence, delay=delay))
        wait = await world.look()
        assert wait is not None
        assert wait <= due
    assert [reason for reason, _ in world.events()].count("EvictionRefused") == 1
    assert world.status()["attempts"]["drilled"] == 0
    await world.look()
    assert ("evict", "pods") in [what[:2] for what in world.api.writes]


async def test_a_missing_permission_to_evict_stops_nothing_else() -> None:
    world = drilled()
    await until_due(world)
    world.api.evictions_refused.append(kube.Forbidden("create pods/eviction: forbidden (code 403)"))
    assert await world.look() is not None
    assert "EvictionRefused" in dict(world.events())
    assert world.condition("Progressing")["status"] == "True"


async def test_a_pod_that_is_gone_before_it_is_evicted_is_no_error() -> None:
    world = drilled()
    await until_due(world)
    real = world.api.evict

    async def gone(**_: Any) -> bool:
        return False

    world.api.evict = gone  # type: ignore[method-assign]
    await world.look()
    world.api.evict = real  # type: ignore[method-assign]
    assert "EvictionRefused" not in dict(world.events())


async def test_pods_of_others_are_never_evicted() -> None:
    world = drilled()
    await until_due(world)
    (job,) = world.api.all(kube.JOBS)
    for index in range(2):  # labelled as ours, of nobody or of a Job that is not ours
        foreign = studies.gang_pod(job, index, now=NOW, state={"running": {"startedAt": observe.timestamp(NOW)}})
        metadata = {**foreign["metadata"], "name": f"foreign-{index}", "ownerReferences": []}
        world.api.put(kube.PODS, {**foreign, "metadata": metadata})
    await world.look()
    evicted = [name for verb, resource, name in world.api.writes if (verb, resource) == ("evict", "pods")]
    assert len(evicted) == 1
    assert not evicted[0].startswith("foreign")


async def test_a_conflict_with_others_who_write_the_node_is_tried_again_in_silence() -> None:
    drill = {"every": "5s", "kind": "Drain"}
    world = World(sweep=sweep(1), repeats=1, fates=(Fate.LONG,), max_nodes=1, drill=drill)
    await until_due(world)
    conflict = kube.TemporaryError("patch nodes: the object has been modified (code 409)", code=409, delay=0.2)
    world.api.patch_refusals["node-0"] = conflict
    wait = await world.look()
    assert wait is not None
    assert wait <= 0.2
    assert "EvictionRefused" not in dict(world.events())
    await world.look()
    assert ("evict", "pods") in [what[:2] for what in world.api.writes]


# --- announced ends ---------------------------------------------------------------------------------------------------


async def announce(world: World, taint: str) -> None:
    (pod,) = world.api.all(kube.PODS)
    (node,) = (body for body in world.api.all(kube.NODES) if kube.name_of(body) == pod["spec"]["nodeName"])
    world.clock.now += 5
    world.operator.nodes.note([world.api.put(kube.NODES, {**node, "spec": {"taints": [{"key": taint}]}, "status": {}})])
    assert world.operator.nodes.affected() == {KEY}
    await world.look()


async def running(**spec: Any) -> World:
    wanted: dict[str, Any] = {"sweep": sweep(1), "repeats": 1, **spec}
    world = World(fates=(Fate.LONG,), max_nodes=1, **wanted)
    await world.look()
    world.progress()
    await world.look()
    return world


async def test_a_gang_on_a_node_that_is_about_to_go_goes_on_and_that_is_said_until_it_is_over() -> None:
    world = await running()
    await announce(world, "karpenter.sh/disrupted")
    said = world.condition("NodeLeaving")
    assert (said["status"], said["reason"]) == ("True", "EndAnnounced")
    assert (
        "(karpenter.sh/disrupted) is about to go: the gangs there go on, as they may finish before" in said["message"]
    )
    await world.look()
    assert [text for reason, text in world.events() if reason == "NodeLeaving"] == [said["message"]]
    assert all("outcome" not in entry for entry in world.ledger().values())
    world.fates = ()
    world.progress()
    await world.look()
    assert world.condition("NodeLeaving").get("status") != "True"
    assert world.status()["attempts"]["succeeded"] == 1


async def test_a_notice_is_handed_on_to_a_training_that_keeps_checkpoints_and_counts_as_a_reclaim_and_no_drill() -> (
    None
):
    spec: dict[str, Any] = {
        "measure": {"mode": "Training", "repeats": {"min": 1}},
        "checkpoint": {"volume": {"claimName": "runs"}},
        "drill": {"every": "1h"},
        "sweep": [sweep(1)[0] | {"data": {"source": "Generated", "samples": 800}, "epochs": 1}],
    }
    world = await running(**spec)
    await announce(world, "aws-node-termination-handler/spot-itn")
    (entry,) = (one for one in world.ledger().values() if one["attempt"] == 1)
    assert (entry["outcome"], entry["reason"], entry["interruption"]) == ("Preempted", "NodeLeaving", "Reclaim")
    assert "drilled" not in entry
    assert "all pods were told to end, so that a last checkpoint is kept" in entry["sentence"]
    (job, *_) = world.api.all(kube.JOBS)
    assert "deletionTimestamp" in job["metadata"]
    assert "AttemptPreempted" in dict(world.events())
    attempts = world.status()["attempts"]
    assert (attempts["preempted"], attempts["drilled"], attempts["interruptions"]["reclaimed"]) == (1, 0, 1)


# --- what others do to a benchmark's objects --------------------------------------------------------------------------


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
    world.api.refusals["jobs"] = REFUSALS[0]
    await world.look()
    assert world.condition("GangPending")["reason"] == "NoGang"


async def test_a_ledger_that_somebody_made_immutable_says_how_to_make_it_anew() -> None:
    world, _ = await gang_of_two()
    world.progress()
    (shard,) = (
        body
        for body in world.api.all(kube.CONFIG_MAPS)
        if body["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_LEDGER
    )
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


def damage(world: World, component: str) -> tuple[kube.Object, str]:
    """Somebody edits the first entry of such a ConfigMap; the ConfigMap as it was, and the entry's key."""
    body = next(
        one for one in world.api.all(kube.CONFIG_MAPS) if one["metadata"]["labels"][names.LABEL_COMPONENT] == component
    )
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


async def test_what_no_reconcile_gets_over_is_said_from_the_third_time_on_and_no_longer_when_it_is_over() -> None:
    world = World()
    await world.look()
    before = world.condition("Progressing")
    for times in range(1, 4):
        world.api.unreadable["jobs"] = KeyError("spec")
        with pytest.raises(KeyError):
            await world.look()
        said = world.condition("Progressing")
        assert said == before if times < 3 else "KeyError: 'spec'" in said["message"]
    assert any("KeyError" in message for reason, message in world.events() if reason == "Stuck")
    world.api.unreadable.clear()
    world.clock.now += 5
    await world.look()
    assert world.condition("Progressing")["status"] == "True"


async def test_a_pod_that_is_gone_before_its_attempt_is_recorded_is_billed_until_then() -> None:
    world, job = await gang_of_two()
    world.progress()
    _, second = world.api.all(kube.PODS)
    world.operator.gone.note(second)
    world.api.remove(kube.PODS, name=kube.name_of(second), namespace="default")
    await world.look()
    (entry,) = [one for one in world.ledger().values() if one["job"] == kube.name_of(job)]
    assert (entry["outcome"], len(entry["podTimes"])) == ("Succeeded", 2)


async def test_a_spec_that_cannot_be_read_any_more_takes_nothing_of_what_was_said() -> None:
    world = World(repeats=1)
    await world.finish()
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "spec": {**body["spec"], "later": 1}})
    await world.look()
    (after,) = world.api.all(kube.BENCHMARKS)
    assert "cannot read the object: later" in after["status"]["message"]
    assert (after["status"]["phase"], after["status"]["results"]) == ("Succeeded", body["status"]["results"])


@pytest.mark.parametrize(("team", "starts"), [("a", True), ("b", False), (None, False)])
async def test_a_pool_for_namespaces_with_a_label_asks_for_those_of_the_benchmarks_own(
    team: str | None, starts: bool
) -> None:
    world = World()
    world.api.put(kube.POOLS, studies.pool(allowedNamespaces={"matchLabels": {"team": "a"}}))
    world.api.put(kube.NAMESPACES, {"metadata": {"name": "theirs", "labels": {"team": "a"}}})
    if team is not None:
        world.api.put(kube.NAMESPACES, {"metadata": {"name": "default", "labels": {"team": team}}})
    await world.look()
    assert bool(world.jobs_created()) is starts


async def test_a_pool_that_is_there_and_cannot_be_read_is_not_called_absent() -> None:
    world = World()
    world.api.put(kube.POOLS, {**studies.pool(), "spec": {**studies.pool()["spec"], "racks": 4}})
    await world.look()
    assert "waiting for GpuPool pretend, which cannot be read" in world.condition("Progressing")["message"]


async def test_events_that_were_not_taken_are_written_within_seconds() -> None:
    world = World(repeats=1)
    create = world.api.create

    async def refusing(resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        if resource == kube.EVENTS:
            raise kube.TemporaryError("away")
        return await create(resource, body)

    world.api.create = refusing  # type: ignore[method-assign]
    await world.finish()
    world.clock.now += 60.0
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "metadata": body["metadata"] | {"generation": 2}})
    assert await world.look() == 5.0
    world.api.create = create  # type: ignore[method-assign]
    assert await world.look() is None
    assert ("Finished", world.condition("Finished")["message"]) in world.events()


async def test_a_ledger_that_cannot_be_read_when_the_operator_begins_is_logged_with_its_benchmark(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    await world.look()
    for body in world.api.all(kube.CONFIG_MAPS):
        if body["metadata"]["labels"][names.LABEL_COMPONENT] == names.COMPONENT_LEDGER:
            world.api.put(kube.CONFIG_MAPS, {**body, "data": {"trial.1": "{"}})
    world.start_operator()
    await world.operator.rebuild()
    (said,) = (one.__dict__ for one in caplog.records if one.message == "plan or ledger not read")
    assert (said["benchmark"], "trial.1" in said["error"]) == (str(KEY), True)


async def test_a_job_that_is_created_is_logged_with_all_that_finds_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    world = World()
    await world.look()
    (said,) = (one.__dict__ for one in caplog.records if one.message == "job created")
    (entry,) = world.ledger().values()
    expected = {
        "namespace": "default",
        "benchmark": "quick",
        "trial": entry["trial"],
        "attempt": 1,
        "job": entry["job"],
    }
    expected |= {"pool": "pretend", "nodes": 1}
    assert {name: said[name] for name in expected} == expected


async def test_a_benchmark_that_could_not_be_read_from_the_start_is_pending_and_says_so() -> None:
    world = World()
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "spec": {**body["spec"], "later": 1}})
    await world.look()
    (after,) = world.api.all(kube.BENCHMARKS)
    assert (after["status"]["phase"], after["status"]["results"]) == ("Pending", [])
    assert "cannot read the object: later" in after["status"]["message"]


async def test_objects_of_others_are_nothing_to_an_operator_that_begins() -> None:
    world = World()
    await world.look()
    for resource in (kube.JOBS, kube.PODS):
        world.api.put(resource, {"metadata": {"name": "theirs", "namespace": "default"}, "spec": {}, "status": {}})
    world.start_operator()
    await world.operator.rebuild()
    assert world.operator.slots.held() == {"pretend": 1}
