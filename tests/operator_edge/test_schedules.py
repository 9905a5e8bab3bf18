# SPDX-License-Identifier: Apache-2.0
"""Schedules against an API server in memory: each run once, whatever is cut off; runs outlive their benchmarks."""

from typing import Any

import prometheus_client
import pytest
from prometheus_client import parser

import memory_kube
import stored_analysis
import studies
from gpubench import names
from gpubench.api.schedule import GpuBenchmarkScheduleStatus
from gpubench.schedule import history, runs
from gpubench.scheduler import manifests
from gpubench_cluster import kube
from gpubench_operator import events, exporter, observe, queue, schedule, server, settings, watch
from memory_world import Clock

KEY = queue.Key(queue.Kind.SCHEDULE, "default", "often")
BEGIN = 1_800_000_000  # a whole hour
MINUTE = 60
LOOK = 30
SWEEP = [{"workloads": ["mnist_cnn"], "pools": ["pool"], "workers": [1], "batchPerWorker": [64]}]


def at(minutes: int) -> str:
    return names.run_name("often", BEGIN + minutes * MINUTE)


class World:
    """One schedule, every ten minutes; its benchmarks take a minute and have a figure."""

    def __init__(self, **spec: Any) -> None:
        self.clock = Clock(float(BEGIN))
        self.api = memory_kube.MemoryKube(self.clock)
        self.speed = 1000.0
        self.takes = 60.0
        self.comparison: dict[str, Any] = {}  # of its benchmarks, with the field's name
        self.api.put(
            kube.POOLS, studies.pool("pool", price={"perNodeHour": "3", "currency": "USD", "asOf": "2027-01-01"})
        )
        body = {
            "apiVersion": names.API_VERSION,
            "kind": names.SCHEDULE_KIND,
            "metadata": {"name": "often", "namespace": "default", "creationTimestamp": observe.timestamp(BEGIN)},
            "spec": {"schedule": "*/10 * * * *", "benchmarkTemplate": {"spec": {"sweep": SWEEP}}, **spec},
        }
        self.api.put(kube.SCHEDULES, body)
        self.series = exporter.Series()
        self.crashes = 0
        self.start_operator()

    def start_operator(self) -> None:
        """A new process: it remembers nothing."""
        options = settings.load({"GPUBENCH_IDENTITY": "test"})
        self.operator = schedule.ScheduleReconciler(self.api, options=options, series=self.series, clock=self.clock)

    async def look(self) -> float | None:
        try:
            return await self.operator.reconcile(KEY)
        except memory_kube.Crash:
            self.crashes += 1
            self.api.crash_at = None
            self.start_operator()
            return None
        except kube.TemporaryError:
            return 0.0

    async def run(self, minutes: int, *, every: int = LOOK) -> None:
        end = self.clock.now + minutes * MINUTE
        while self.clock.now < end:
            self.clock.now += every
            self.age()
            await self.look()

    def age(self) -> None:
        """What the study's own reconciler and the garbage collector do meanwhile."""
        for body in self.api.all(kube.BENCHMARKS):
            if "deletionTimestamp" in body["metadata"]:
                self.api.remove(kube.BENCHMARKS, name=kube.name_of(body), namespace="default")
                continue
            created = observe.seconds(body["metadata"]["creationTimestamp"]) or 0.0
            if not body.get("status") and self.clock.now >= created + self.takes:
                stored_analysis.put(self.api, body, self.finished(created + self.takes))

    def finished(self, moment: float) -> dict[str, Any]:
        told = {"status": "True", "reason": "AllPointsEnded", "lastTransitionTime": observe.timestamp(moment)}
        result = {
            "workload": "mnist_cnn",
            "pool": "pool",
            "workers": 1,
            "workersPerNode": 1,
            "batchPerWorker": 64,
            "globalBatch": 64,
            "precision": "float32",
            "state": "Measured",
            "nodes": 1,
            "environment": "key",
            "values": [self.speed, self.speed * 1.001, self.speed * 0.999],
        }
        return {
            "conditions": [{"type": kind, "message": "all points ended", **told} for kind in ("Finished", "Succeeded")],
            "completionTime": observe.timestamp(moment),
            "results": [result],
            **self.comparison,
        }

    @property
    def created(self) -> list[str]:
        return [name for verb, kind, name in self.api.writes if (verb, kind) == ("create", names.BENCHMARK_PLURAL)]

    @property
    def there(self) -> list[str]:
        return sorted(kube.name_of(body) for body in self.api.all(kube.BENCHMARKS))

    @property
    def entries(self) -> tuple[history.Entry, ...]:
        kept = [body for body in self.api.all(kube.CONFIG_MAPS) if "-history-" in kube.name_of(body)]
        return history.read(body["data"] for body in kept)

    @property
    def status(self) -> GpuBenchmarkScheduleStatus:
        (body,) = self.api.all(kube.SCHEDULES)
        return GpuBenchmarkScheduleStatus.model_validate(body["status"])

    def events(self) -> list[str]:
        return [body["reason"] for body in self.api.all(kube.EVENTS)]


async def test_what_no_reconcile_of_a_schedule_gets_over_is_said_until_it_is_over() -> None:
    world = World()
    await world.look()
    for times in range(1, 4):
        world.api.unreadable[names.BENCHMARK_PLURAL] = KeyError("spec")
        with pytest.raises(KeyError):
            await world.look()
        (ready,) = (one for one in world.status.conditions if one.type == runs.READY)
        assert ("KeyError: 'spec'" in ready.message) is (times == 3)
    assert ready.status == "False"
    assert events.STUCK in world.events()
    world.api.unreadable.clear()
    world.clock.now += 5
    await world.look()
    assert next(one for one in world.status.conditions if one.type == runs.READY).status == "True"


async def test_runs_are_made_kept_and_removed() -> None:
    world = World()
    await world.run(65)
    assert world.created == [at(minutes) for minutes in (10, 20, 30, 40, 50, 60)]
    assert world.there == [at(40), at(50), at(60)]  # successfulHistoryLimit is 3
    assert [entry.name for entry in world.entries] == world.created
    found = world.status
    assert (found.runs_kept, found.active_runs, found.points_judged) == (6, 0, 0)
    assert found.last_schedule_time == observe.timestamp(BEGIN + 60 * MINUTE)
    assert found.next_schedule_time == observe.timestamp(BEGIN + 70 * MINUTE)
    assert found.monthly is not None
    assert found.monthly.runs == "4380"
    assert {runs.CREATED, runs.DELETED, runs.COMPLETED} <= set(world.events())


async def kept_after_a_run(world: World) -> list[kube.Object]:
    """The ConfigMaps of the history when the next run has ended."""
    await world.run(2)
    return [body for body in world.api.all(kube.CONFIG_MAPS) if "-history-" in kube.name_of(body)]


async def test_a_benchmark_has_the_template_and_says_whose_and_when() -> None:
    metadata = {"labels": {"team": "a"}, "annotations": {"example.com/why": "because"}}
    world = World(benchmarkTemplate={"metadata": metadata, "spec": {"sweep": SWEEP, "order": {"seed": 3}}})
    await world.run(10)
    (body,) = world.api.all(kube.BENCHMARKS)
    (schedule,) = world.api.all(kube.SCHEDULES)
    assert body["spec"] == {"sweep": SWEEP, "order": {"seed": 3}}
    assert body["metadata"]["labels"]["team"] == "a"
    assert body["metadata"]["labels"][names.LABEL_SCHEDULE] == "often"
    assert body["metadata"]["annotations"] == {
        "example.com/why": "because",
        names.ANNOTATION_SCHEDULED: observe.timestamp(BEGIN + 10 * MINUTE),
    }
    kind = {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "name": "often"}
    assert body["metadata"]["ownerReferences"] == [{**kind, "uid": kube.uid_of(schedule), "controller": True}]
    (shard,) = await kept_after_a_run(world)
    assert shard["metadata"]["ownerReferences"] == body["metadata"]["ownerReferences"]


async def calm() -> World:
    world = World(successfulHistoryLimit=0)
    await world.run(26, every=2 * MINUTE)
    return world


@pytest.mark.parametrize("before", [False, True], ids=["after a write", "before a write"])
async def test_a_crash_at_any_write_makes_no_run_twice_and_loses_none(before: bool) -> None:
    undisturbed = await calm()
    for number in range(len(undisturbed.api.writes)):
        world = World(successfulHistoryLimit=0)
        world.api.crash_at, world.api.crash_before = number, before
        await world.run(26, every=2 * MINUTE)
        assert world.crashes == 1, number
        assert world.created == undisturbed.created, number
        assert world.there == undisturbed.there, number
        assert [entry.name for entry in world.entries] == [entry.name for entry in undisturbed.entries], number
        assert without_moments(world.status) == without_moments(undisturbed.status), number


def without_moments(found: GpuBenchmarkScheduleStatus) -> GpuBenchmarkScheduleStatus:
    """A run whose creation was cut off begins a look later, and so does what follows from it."""
    return found.model_copy(
        update={
            "conditions": tuple((one.type, one.status, one.reason) for one in found.conditions),
            "last_results": tuple((one.name, one.succeeded) for one in found.last_results),
            "last_successful_time": None,
        }
    )


async def test_an_operator_that_read_before_another_one_wrote_makes_no_second_run() -> None:
    world = World()
    world.clock.now += 10 * MINUTE
    await world.look()
    (schedule,) = world.api.all(kube.SCHEDULES)
    stale = {**schedule, "status": {}}
    world.api.put(kube.SCHEDULES, stale)  # as the other one has read it
    world.start_operator()
    await world.look()
    assert world.created == [at(10)]


async def test_a_name_that_is_taken_is_told_and_the_run_starts_when_it_is_free() -> None:
    world = World()
    foreign = {"metadata": {"name": at(10), "namespace": "default"}, "spec": {"sweep": SWEEP}}
    world.api.put(kube.BENCHMARKS, foreign)
    await world.run(11)
    assert events.NAME_TAKEN in world.events()
    assert world.status.last_schedule_time is None
    world.api.remove(kube.BENCHMARKS, name=at(10), namespace="default")
    await world.run(2)
    assert world.created == [at(10)]


async def test_a_creation_that_is_refused_is_told_and_tried_again() -> None:
    world = World()
    world.api.refusals[names.BENCHMARK_PLURAL] = kube.Forbidden("exceeded quota")
    await world.run(10)
    assert world.created == []
    assert schedule.FAILED_CREATE in world.events()
    (ready,) = (one for one in world.status.conditions if one.type == runs.READY)
    assert (ready.status, ready.reason) == ("False", schedule.FAILED_CREATE), "an Event is forgotten after an hour"
    assert "exceeded quota" in ready.message
    await world.run(1)
    assert world.created == [at(10)]
    assert [one.status for one in world.status.conditions if one.type == runs.READY] == ["True"]


async def test_a_run_that_lost_its_labels_is_found_by_its_name_and_owner_and_nothing_is_told_of_it() -> None:
    world = World()
    world.takes = 10**6
    await world.run(10)
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.BENCHMARKS, {**body, "metadata": {**body["metadata"], "labels": {}}})
    (own,) = world.api.all(kube.SCHEDULES)
    world.api.put(kube.SCHEDULES, {**own, "status": {}})  # as if that run had not been written down
    before = world.events()
    await world.look()
    assert (world.created, world.events()) == ([at(10)], before)
    assert world.status.last_schedule_time == observe.timestamp(BEGIN + 10 * MINUTE)
    assert world.status.active_runs == 1


async def test_replace_deletes_the_run_under_way() -> None:
    world = World(concurrencyPolicy="Replace")
    world.takes = 10**6
    await world.run(21)
    assert world.there == [at(20)]


async def test_a_study_that_became_slower_is_told_in_condition_event_and_metric() -> None:
    world = World()
    await world.run(95)
    assert runs.REGRESSED not in world.events()
    assert world.status.points_judged == 1
    world.speed = 800.0
    await world.run(40)
    found = world.status
    (slower,) = found.regressions
    assert slower.run == at(100)
    assert [one.status for one in found.conditions if one.type == runs.REGRESSED] == ["True"]
    assert world.events().count(runs.REGRESSED) == 1
    page = b"".join(
        server.parts(prometheus_client.CollectorRegistry(), world.series, prometheus_client.generate_latest)
    )
    samples = {
        (sample.name, sample.labels.get("condition")): sample.value
        for family in parser.text_string_to_metric_families(page.decode())
        for sample in family.samples
    }
    assert samples["gpubench_schedule_condition", runs.REGRESSED] == 1
    assert samples["gpubench_schedule_slower_points", None] == 1


async def test_a_schedule_that_cannot_be_read_says_so_and_starts_nothing() -> None:
    world = World(schedule="0 0 30 2 *")
    await world.run(30)
    assert world.created == []
    assert [one.reason for one in world.status.conditions if one.type == runs.READY] == [runs.UNPARSEABLE]
    assert world.events() == [runs.UNPARSEABLE]


async def test_a_schedule_of_a_spec_that_this_version_does_not_know_says_so_and_is_looked_at_again() -> None:
    world = World(concurrencyPolicy="Sometimes")
    assert await world.look() == 60.0
    (told,) = world.api.all(kube.EVENTS)
    (own,) = world.api.all(kube.SCHEDULES)
    assert (told["type"], told["reason"]) == ("Warning", events.INVALID_SPEC)
    assert told["message"].startswith("this version of the operator cannot read the object: concurrencyPolicy: ")
    about = {"apiVersion": names.API_VERSION, "kind": names.SCHEDULE_KIND, "namespace": "default", "name": "often"}
    assert told["involvedObject"] == {**about, "uid": kube.uid_of(own)}
    assert world.created == []


async def test_a_run_is_kept_with_what_its_comparison_said_and_one_that_cannot_be_read_without_figures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    said = {"verdict": "Pass", "sentence": "as fast as before: 1 point passes"}
    world.comparison = {"comparison": {"baseline": "before", "tolerance": "0.05", "points": {"passed": 1}, **said}}
    await world.run(12)
    (body,) = world.api.all(kube.BENCHMARKS)
    metadata = {**body["metadata"], "name": at(9), "uid": "another"}
    world.api.put(kube.BENCHMARKS, {**body, "metadata": metadata, "spec": {"sweep": "of another version"}})
    await world.look()
    unreadable, read = world.entries
    assert (read.name, read.baseline, read.baseline_sentence) == (at(10), said["verdict"], said["sentence"])
    assert read.figures != ()
    assert (unreadable.name, unreadable.uid, unreadable.succeeded) == (at(9), "another", True)
    assert (unreadable.sentence, unreadable.figures, unreadable.baseline) == ("all points ended", (), None)
    (warned,) = (one.__dict__ for one in caplog.records if one.message == "unreadable run")
    assert warned["run"] == at(9)
    assert "cannot read the object: sweep: " in warned["error"]


async def test_a_run_of_which_nothing_can_be_read_any_more_keeps_no_later_one_from_starting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    await world.run(10)
    (body,) = world.api.all(kube.BENCHMARKS)
    world.api.put(kube.CONFIG_MAPS, manifests.ledger_config_map(observe.study(body), 0, {}))  # and no plan
    await world.run(12)
    assert world.created == [at(10), at(20)]
    unread, read = sorted(world.entries, key=lambda one: one.name)
    assert (unread.figures, read.figures != ()) == ((), True)
    (warned,) = (one.__dict__ for one in caplog.records if one.message == "unreadable run")
    assert "is gone: delete the benchmark and apply it again" in warned["error"]


async def test_a_schedule_whose_pool_is_not_there_says_which_and_goes_on() -> None:
    world = World()
    world.api.remove(kube.POOLS, name="pool")
    await world.run(11)
    (ready, _) = world.status.conditions
    assert (ready.status, ready.reason) == ("True", "WaitingForPools")
    assert "waits for GpuPool pool, not there" in ready.message
    assert world.status.monthly is not None
    assert world.status.monthly.sentence.startswith("no cost: GpuPool pool is not there")
    assert world.created == [at(10)]


async def test_a_run_whose_spec_was_changed_is_not_taken_for_finished_before_anybody_has_looked() -> None:
    world = World()
    world.takes = 600.0
    await world.run(11)
    (body,) = world.api.all(kube.BENCHMARKS)
    told = world.finished(world.clock.now)
    for condition in told["conditions"]:
        condition["observedGeneration"] = body["metadata"]["generation"]
    changed = {**body, "metadata": {**body["metadata"], "generation": body["metadata"]["generation"] + 1}}
    world.api.put(kube.BENCHMARKS, {**changed, "status": told})
    await world.look()
    assert [entry.name for entry in world.entries] == []
    world.api.put(kube.BENCHMARKS, {**body, "status": told})
    await world.look()
    assert [entry.name for entry in world.entries] == [at(10)]


async def test_a_history_that_nobody_wrote_since_is_not_read_again() -> None:
    world, read = World(), list[str]()
    get = world.api.get

    async def counted(resource: kube.Resource, *, name: str, namespace: str | None = None) -> kube.Object | None:
        read.extend([name] if resource == kube.CONFIG_MAPS else [])
        return await get(resource, name=name, namespace=namespace)

    await world.run(12)
    world.start_operator()
    world.api.get = counted  # type: ignore[method-assign]
    for _ in range(3):
        await world.look()
    (body,) = (one for one in world.api.all(kube.CONFIG_MAPS) if "-history-" in kube.name_of(one))
    assert read == [kube.name_of(body)], "once by a new process"


async def test_a_history_of_another_writer_is_read_anew() -> None:
    """Two operators for a moment: the one that writes later finds the shard changed, and loses no entry."""
    world, other = World(), None
    await world.run(12)
    other = schedule.ScheduleReconciler(
        world.api,
        options=settings.load({"GPUBENCH_IDENTITY": "other"}),
        series=exporter.Series(),
        clock=world.clock,
    )
    await other.reconcile(KEY)
    await world.run(20)
    await other.reconcile(KEY)
    assert [entry.name for entry in world.entries] == [at(10), at(20), at(30)]


async def test_a_run_that_has_finished_or_is_gone_wakes_its_schedule() -> None:
    woken: list[queue.Key] = []
    known = observe.NodeStates(memory_kube.MemoryKube(Clock()), clock=Clock())
    handler = watch.Handlers(
        wake=woken.append, series=exporter.Series(), created={}, nodes=known, gone=observe.GonePods()
    )
    labels = {names.LABEL_SCHEDULE: "often"}
    metadata = {"name": at(10), "namespace": "default", "uid": "u", "generation": 1, "labels": labels}
    running = {"metadata": metadata, "status": {"observedGeneration": 1}}
    ended = {"observedGeneration": 1, "conditions": [{"type": "Finished", "status": "True"}]}
    await handler.benchmark({"type": "MODIFIED", "object": running})
    assert KEY not in woken
    await handler.benchmark({"type": "MODIFIED", "object": {**running, "status": ended}})
    assert woken.count(KEY) == 1
    await handler.benchmark({"type": "DELETED", "object": running})
    assert woken.count(KEY) == 2


async def test_a_run_that_still_goes_of_a_schedule_of_before_is_waited_for() -> None:
    world = World()
    going = {"name": at(10), "namespace": "default", "deletionTimestamp": observe.timestamp(BEGIN)}
    world.clock.now += 10 * MINUTE
    world.api.put(kube.BENCHMARKS, {"metadata": going, "spec": {"sweep": SWEEP}})
    with pytest.raises(kube.TemporaryError, match=f"benchmark default/{at(10)} is still being deleted"):
        await world.operator.reconcile(KEY)
    assert events.NAME_TAKEN not in world.events()


async def test_a_run_took_until_its_completion_and_not_until_somebody_said_so() -> None:
    world = World()
    await world.run(10)
    (body,) = world.api.all(kube.BENCHMARKS)
    status = world.finished(world.clock.now + 60.0) | {"completionTime": observe.timestamp(world.clock.now + 20.0)}
    stored_analysis.put(world.api, body, status)
    finishes = world.clock.now + 20.0
    world.clock.now += 60.0
    await world.look()
    assert [entry.finished_at for entry in world.entries] == [finishes]


async def test_what_a_run_was_billed_is_kept_with_its_currency() -> None:
    world = World()
    world.comparison = {"spent": {"amount": "1.25", "currency": "USD", "clock": "pods"}}
    await world.run(12)
    assert [(entry.spent, entry.currency) for entry in world.entries] == [("1.25", "USD")]


async def test_a_run_that_is_being_deleted_already_is_replaced_without_another_deletion() -> None:
    world = World(concurrencyPolicy="Replace")
    world.takes = 10**6
    await world.run(10)
    (body,) = world.api.all(kube.BENCHMARKS)
    going = {**body["metadata"], "deletionTimestamp": observe.timestamp(BEGIN)}
    world.api.put(kube.BENCHMARKS, {**body, "metadata": going})
    world.clock.now += 10 * MINUTE
    await world.look()
    assert world.created == [at(10), at(20)]
    assert runs.DELETED not in world.events()
