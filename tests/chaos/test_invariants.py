# SPDX-License-Identifier: Apache-2.0
"""The invariants of a chaos run see what they are there for: a study that went well, and then one thing made wrong."""

import asyncio
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

import chaos_invariants
import gang_books
from chaos_invariants import Stored
from chaos_proxy import Proxy
from chaos_studies import Course, Study
from gpubench.scheduler import ledger
from gpubench_cluster import kube
from gpubench_operator import observe
from memory_world import Fate, World

STUDY = Study(lane="left", name="quick", course=Course.PLAIN, body={}, meddled_after=0.0, resumed_after=0.0)
Jobs = dict[str, int]


@pytest.fixture(scope="module")
def world() -> World:
    """Two points, two repeats; the first attempt fails, the second one is preempted."""
    found = World(repeats=2, fates=(Fate.FAILURE, Fate.PREEMPTION))
    asyncio.run(found.finish())
    return found


def stored(world: World) -> Stored:
    body = copy.deepcopy(world.api.all(kube.BENCHMARKS)[0])
    return chaos_invariants.stored(body, copy.deepcopy(world.api.all(kube.CONFIG_MAPS)))


def jobs(world: World) -> Jobs:
    return dict.fromkeys(world.jobs_created(), 1)


def test_of_a_study_that_went_well_nothing_is_said(world: World) -> None:
    assert len(jobs(world)) == 6
    assert chaos_invariants.of_finished(STUDY, stored(world), jobs(world)) == []


def succeeded(found: Stored) -> ledger.AttemptRecord:
    records = ledger.from_entries(found.shards).records
    return next(one for one in records if one.outcome is ledger.Outcome.SUCCEEDED)


def status(found: Stored) -> Any:
    return found.status


def lost_condition(found: Stored, _: Jobs) -> None:
    status(found)["conditions"][1]["status"] = "False"


def job_that_nobody_recorded(_: Stored, existed: Jobs) -> None:
    existed["quick-abcde-trial-1"] = 1


def job_that_was_created_twice(_: Stored, existed: Jobs) -> None:
    existed[next(iter(existed))] = 2


def job_that_never_existed(_: Stored, existed: Jobs) -> None:
    existed.pop(next(iter(existed)))


def miscounted(found: Stored, _: Jobs) -> None:
    status(found)["attempts"]["failed"] += 1


def figure_of_nobody(found: Stored, _: Jobs) -> None:
    status(found)["results"][0]["values"][0] += 1


def figure_of_a_failed_attempt(found: Stored, _: Jobs) -> None:
    record = succeeded(found)
    entries: Any = found.shards[0]
    entries[record.key] = record.model_copy(update={"outcome": ledger.Outcome.FAILED}).to_text()


def trial_that_succeeded_twice(found: Stored, existed: Jobs) -> None:
    record = succeeded(found)
    again = record.model_copy(update={"attempt": 9, "job": f"{record.job}9"})
    entries: Any = found.shards[0]
    entries[again.key] = again.to_text()
    existed[again.job] = 1


def changed_byte(found: Stored, _: Jobs) -> None:
    entries: Any = found.shards[0]
    key = succeeded(found).key
    entries[key] = entries[key].replace('"samples":', '"samples":1', 1)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lost_condition, "was due"),
        (job_that_nobody_recorded, "is in no record"),
        (job_that_was_created_twice, "was created 2 times"),
        (job_that_never_existed, "never existed"),
        (miscounted, "status counts"),
        (figure_of_nobody, "its attempts measured"),
        (figure_of_a_failed_attempt, "is Failed and has result"),
        (trial_that_succeeded_twice, "succeeded 2 times"),
        (changed_byte, "cannot be read"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_is_said(world: World, wrong: Callable[[Stored, Jobs], None], said: str) -> None:
    found, existed = stored(world), jobs(world)
    wrong(found, existed)
    assert any(said in sentence for sentence in chaos_invariants.of_finished(STUDY, found, existed))


def test_a_job_of_which_only_a_later_request_tells_existed_and_a_torn_line_hides_no_other(tmp_path: Path) -> None:
    def event(verb: str, name: str, code: int = 200, **reference: str) -> str:
        found = {"kind": "Event", "stage": "ResponseComplete", "verb": verb, "responseStatus": {"code": code}}
        return json.dumps(
            {**found, "objectRef": {"resource": "jobs", "name": name, **reference}}, separators=(",", ":")
        )

    lines = [
        event("create", "quick-a", 201),
        event("create", "quick-refused", 409),
        event("create", "another-a", 201),
        event("update", "quick-b", subresource="status"),
        event("create", "quick-torn", 201)[:40] + event("create", "quick-c", 201),
    ]
    path = tmp_path / "audit.log"
    path.write_text("\n".join(lines) + "\n" + event("create", "quick-half", 201)[:50])
    audit = chaos_invariants.Audit(tmp_path)
    assert audit.jobs("quick") == {"quick-a": 1, "quick-b": 1, "quick-c": 1}
    with path.open("a") as log:
        log.write("\n" + event("create", "quick-d", 201) + "\n")
    assert set(audit.jobs("quick")) == {"quick-a", "quick-b", "quick-c", "quick-d"}


# --- the books --------------------------------------------------------------------------------------------------------

ENTRY: dict[str, Any] = {
    "trial": "trial", "attempt": 1, "jobUid": "job", "createdAt": 1_764_150_000.0, "endedAt": 1_764_150_012.0,
    "podTimes": [[2.0, 3.0, 12.0]], "holding": [], "unseen": 0, "segments": [],
}  # fmt: skip


def at(seconds: float) -> str:
    return observe.timestamp(ENTRY["createdAt"] + seconds)


def lives(*, ended: float, others: dict[str, Any] | None = None, gone: bool = False) -> gang_books.Lives:
    """Of one pod, whose gang's container ended then."""
    worked = {"name": "gang", "state": {"terminated": {"finishedAt": at(ended)}}}
    found = gang_books.Lives()
    body = {
        "metadata": {"uid": "pod", "name": "pod", "ownerReferences": [{"kind": "Job", "uid": "job"}]},
        "spec": {"nodeName": "node"},
        "status": {
            "phase": "Running" if others else "Succeeded",
            "conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(2)}],
            "containerStatuses": [worked, *([{"name": "proxy", "state": others}] if others else [])],
        },
    }
    found.note(body, is_gone=gone)
    return found


@pytest.mark.parametrize(
    ("seen", "entry", "said"),
    [
        (lives(ended=12), {}, None),
        (lives(ended=12), {"podTimes": [[2.0, 3.0, 13.0]]}, "booked"),
        (lives(ended=12, others={"running": {}}), {}, "to None, booked"),
        (lives(ended=12, others={"terminated": {"finishedAt": at(40)}}), {}, "booked"),
        (lives(ended=12), {"podTimes": []}, "has 0 pods of 1"),
        (lives(ended=12), {"unseen": 1}, "nobody saw ending"),
        (lives(ended=12), {"holding": [[0, "pod"]]}, "still has pods"),
        (lives(ended=200), {"podTimes": [[2.0, 3.0, 200.0]]}, "ended 188 s after its attempt"),
    ],
)
def test_books_that_are_not_what_the_pods_held_are_found(
    seen: gang_books.Lives, entry: dict[str, Any], said: str | None
) -> None:
    found = list(gang_books.wrong([ENTRY | entry], seen))
    assert found == [] if said is None else said in found[0]
    excused = list(gang_books.wrong([ENTRY | entry | {"reason": "NodeLost"}], seen, unseen={"NodeLost"}))
    assert len(excused) == bool(said and "still has" in said)


@pytest.mark.parametrize(
    ("times", "excused", "said"),
    [
        ({"created": 20}, False, None),
        ({"created": 110}, False, "began after 0.0100 of 0.009 had been spent"),
        ({"created": 20, "sentence": None}, False, "ended without a message"),
        ({"created": 20, "unseen": 1}, False, "nobody saw ending"),
        ({"created": 20, "unseen": 1}, True, None),
    ],
)
def test_a_budget_that_is_passed_and_ends_that_nobody_explains_are_found(
    world: World, times: dict[str, Any], excused: bool, said: str | None
) -> None:
    seen = lives(ended=102)
    created = ENTRY["createdAt"] + times.pop("created")
    first = {"job": "first", "sentence": "x", "endedAt": ENTRY["createdAt"] + 102, "podTimes": [[2.0, 3.0, 102.0]]}
    second = {"job": "second", "jobUid": "other", "createdAt": created, "podTimes": [], "sentence": "x"} | times
    entries = {str(number): json.dumps(ENTRY | one) for number, one in enumerate((first, second))}
    study = STUDY._replace(body={"spec": {"limits": {"budget": "0.009"}}})
    found = stored(world)._replace(shards=(entries,))
    wrong = chaos_invariants.books(study, found, seen, is_excused=lambda since, _: excused and since == created)
    assert wrong == [] if said is None else said in wrong[0]


def test_a_state_without_a_message_is_found_at_any_moment(world: World) -> None:
    body = copy.deepcopy(world.api.all(kube.BENCHMARKS)[0])
    assert list(gang_books.unsaid(body)) == []
    body["status"]["conditions"][0]["message"] = ""
    body["status"]["results"][0]["state"] = "Failed"
    assert [one.partition(" is ")[0] for one in gang_books.unsaid(body)] == [
        "quick: condition Finished",
        "quick: point 0",
    ]


def test_what_lies_with_another_tenant_is_found(world: World) -> None:
    owned = {"configmaps": copy.deepcopy(world.api.all(kube.CONFIG_MAPS))}
    for one in owned["configmaps"]:
        one["metadata"]["namespace"] = STUDY.namespace
    assert chaos_invariants.elsewhere(STUDY, owned) == []
    owned["configmaps"][0]["metadata"]["namespace"] = "guests"
    name = kube.name_of(owned["configmaps"][0])
    assert chaos_invariants.elsewhere(STUDY, owned) == [f"quick: configmaps/{name} lies in guests"]


async def test_what_a_replica_writes_while_the_other_leads_is_told() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({})

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    proxy = Proxy(f"http://127.0.0.1:{runner.addresses[0][1]}", authority="", doors=2)
    proxy.start()
    one, other = proxy.addresses
    lease, jobs = "/apis/coordination.k8s.io/v1/namespaces/n/leases", "/apis/batch/v1/namespaces/n/jobs"

    async def ask(door: str, method: str, path: str, holder: str = "") -> None:
        body = {"spec": {"holderIdentity": holder}}
        async with aiohttp.ClientSession() as session, session.request(method, door + path, json=body) as answered:
            assert answered.status == 200

    try:
        await ask(one, "POST", jobs)  # nobody leads
        await ask(one, "POST", lease, holder="one")
        await ask(one, "POST", jobs)
        await ask(other, "GET", jobs)
        assert proxy.strays == []
        await ask(other, "DELETE", jobs)
        await ask(other, "PUT", f"{lease}/operator", holder="other")
        await ask(other, "PATCH", jobs)
        await ask(one, "PATCH", jobs)
        await ask(other, "PUT", f"{lease}/operator")  # given back
        await ask(one, "PUT", jobs)
    finally:
        proxy.stop()
        await runner.cleanup()
    assert [sentence.partition(" ")[0] for sentence in proxy.strays] == ["DELETE", "PATCH"]
