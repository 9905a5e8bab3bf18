# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

import builders
import memory_kube
from gpubench import names
from gpubench.scheduler import ledger
from gpubench_cluster import kube
from gpubench_operator import storage
from memory_world import Clock

LONG = "x" * 300_000


def shop() -> tuple[memory_kube.MemoryKube, storage.Store]:
    api = memory_kube.MemoryKube(Clock())
    return api, storage.Store(api)


def entry(trial: str, outcome: ledger.Outcome | None = None, *, sentence: str | None = None) -> ledger.AttemptRecord:
    return builders.attempt(trial=trial, outcome=outcome, reason=None, sentence=sentence)


async def test_a_plan_is_immutable_owned_and_the_first_one_stays() -> None:
    api, tested = shop()
    study, first = builders.study(), builders.plan()
    await tested.freeze(study, first)
    (body,) = api.all(kube.CONFIG_MAPS)
    assert body["immutable"] is True
    assert kube.is_owned_by(body, study.uid)
    other = builders.plan(builders.spec(builders.block(workers=[1])))
    late = storage.Store(api)
    with pytest.raises(kube.TemporaryError, match="planned meanwhile"):
        await late.freeze(study, other)
    assert (await late.read(study)).plan == first


async def test_a_config_map_of_the_plans_name_that_is_foreign_is_never_read_as_a_plan() -> None:
    api, tested = shop()
    study = builders.study()
    name = names.plan_name(study.name, study.uid)
    api.put(kube.CONFIG_MAPS, {"metadata": {"name": name, "namespace": study.namespace}, "data": {}})
    with pytest.raises(kube.PermanentError, match="somebody else"):
        await tested.freeze(study, builders.plan())


async def test_a_plan_that_is_gone_is_never_made_anew_while_the_ledger_is_there() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    await tested.append(study, [entry("a")])
    api.remove(kube.CONFIG_MAPS, name=names.plan_name(study.name, study.uid), namespace=study.namespace)
    for process in (tested, storage.Store(api)):
        with pytest.raises(kube.PermanentError, match="delete the benchmark and apply it again"):
            await process.read(study)


async def test_what_was_appended_is_read_by_a_new_process() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    await tested.append(study, [entry("a"), entry("b")])
    read = await storage.Store(api).read(study)
    assert {record.trial for record in read.recorded.records} == {"a", "b"}


async def test_an_entry_is_completed_and_an_ended_one_never_changed() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    for outcome in (None, ledger.Outcome.SUCCEEDED, ledger.Outcome.FAILED, None):
        await tested.append(study, [entry("a", outcome)])
    read = await storage.Store(api).read(study)
    assert [record.outcome for record in read.recorded.records] == [ledger.Outcome.SUCCEEDED]


async def test_writing_the_same_again_is_no_write() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    await tested.append(study, [entry("a")])
    before = len(api.writes)
    await tested.append(study, [entry("a")])
    assert len(api.writes) == before


async def test_a_full_shard_is_followed_by_another_and_an_entry_is_completed_where_it_lies() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    for trial in "abc":
        await tested.append(study, [entry(trial, sentence=LONG)])
    await tested.append(study, [entry("a", ledger.Outcome.FAILED, sentence="done")])
    read = await storage.Store(api).read(study)
    assert [sorted(shard.entries) for shard in read.shards] == [["a.1"], ["b.1"], ["c.1"]]
    assert next(record for record in read.recorded.records if record.trial == "a").sentence == "done"


@pytest.mark.parametrize("pods", [1, 64, 256])
async def test_a_shard_keeps_room_for_the_end_of_each_attempt_in_it(pods: int) -> None:
    """A thousand of a cluster's gangs may be under way at once, and each of them be evicted and admitted again."""
    api, tested = shop()
    study = builders.study()
    await tested.freeze(
        study, builders.plan(builders.spec(builders.block(workers=[pods])), builders.pool(max_nodes=pods))
    )
    begun = [entry(f"{number:010}") for number in range(1000)]
    for record in begun:
        await tested.append(study, [record])
    times = ((12345.678, 12456.789, 123456.789),) * pods
    nodes = tuple(f"gke-a-large-cluster-gpu-pool-1a2b3c4d-{number:04}" for number in range(pods))
    ended: dict[str, Any] = {"ended_at": 123456.789, "nodes": nodes, "pod_times": times}
    runs = ledger.folded(tuple(ledger.Segment(admitted_at=number / 10, **ended) for number in range(99)))
    await tested.append(
        study,
        [
            record.model_copy(
                update={
                    "outcome": ledger.Outcome.SUCCEEDED,
                    "sentence": "x" * 6000,  # as long as one with a result
                    "nodes": nodes,
                    "placed_at": tuple(placed for placed, _, _ in times),
                    "pod_times": times,
                    "segments": runs,
                }
            )
            for record in begun
        ],
    )
    read = await storage.Store(api).read(study)
    assert {record.outcome for record in read.recorded.records} == {ledger.Outcome.SUCCEEDED}
    for shard in read.shards:
        assert sum(len(key) + len(text.encode()) for key, text in shard.entries.items()) < 1024 * 1024


@pytest.mark.parametrize(
    ("read", "number"),
    [
        (ledger.NewNodes(), 1),  # written again and again
        (entry("a"), 1),
        (entry("a", ledger.Outcome.FAILED), 0),
        ("cannot be read", 0),
        (None, 0),
    ],
)
def test_a_shard_has_room_for_all_that_will_be_written_again_in_it(read: Any, number: int) -> None:
    grown = ledger.ENTRY_BYTES + ledger.ENTRY_BYTES_PER_POD
    entries = {"there": "", "large": "x" * (ledger.SHARD_BYTES_MAX - grown - grown // 2)}
    shards = (storage.Shard(0, "1", entries, {"there": read, "large": None}),)
    placed = storage._placed(shards, {"new": "", "there": "x"}, pods=1)
    assert {key: place for place, some in placed.items() for key in some} == {"new": number, "there": 0}


async def test_a_shard_that_somebody_else_wrote_meanwhile_is_a_retry() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    await tested.append(study, [entry("a")])
    rival = storage.Store(api)
    await rival.read(study)
    await rival.append(study, [entry("b")])
    with pytest.raises(kube.TemporaryError):
        await tested.append(study, [entry("c")])
    await tested.read(study)
    await tested.append(study, [entry("c")])
    assert len((await storage.Store(api).read(study)).recorded.records) == 3


@pytest.mark.parametrize(
    ("writer", "error", "said"),
    [
        ("another operator", kube.TemporaryError, "ledger shard 0 of default/quick changed meanwhile"),
        ("somebody else", kube.PermanentError, "belongs to somebody else: make the benchmark its owner again"),
    ],
)
async def test_a_first_shard_that_came_meanwhile_is_a_retry_and_a_foreign_one_is_named(
    writer: str, error: type[Exception], said: str
) -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    if writer == "another operator":
        rival = storage.Store(api)
        await rival.read(study)
        await rival.append(study, [entry("b")])
    else:
        name = names.ledger_name(study.name, study.uid, shard=0)
        api.put(kube.CONFIG_MAPS, {"metadata": {"name": name, "namespace": study.namespace}})
    with pytest.raises(error, match=said):
        await tested.append(study, [entry("a")])


async def test_attempts_of_larger_gangs_share_a_shard_with_fewer_others() -> None:
    async def shards(workers: int) -> int:
        _, tested = shop()
        study = builders.study()
        block = builders.block(workers=[1, workers])
        await tested.freeze(study, builders.plan(builders.spec(block), builders.pool(max_nodes=workers)))
        await tested.append(study, [entry(f"{number:010}") for number in range(60)])
        return len((await tested.read(study)).shards)

    kept = ledger.SHARD_BYTES_MAX // (ledger.ENTRY_BYTES + 256 * ledger.ENTRY_BYTES_PER_POD)
    assert (await shards(1), await shards(256)) == (1, -(-60 // kept))


async def test_config_maps_with_our_label_that_the_study_does_not_own_are_left_out() -> None:
    api, tested = shop()
    study = builders.study()
    await tested.freeze(study, builders.plan())
    labels = {names.LABEL_BENCHMARK_UID: study.uid}
    name = names.ledger_name(study.name, study.uid, shard=0)
    forged = {"metadata": {"name": name, "namespace": study.namespace, "labels": labels}, "data": {"t.1": "{}"}}
    api.put(kube.CONFIG_MAPS, forged)
    assert (await storage.Store(api).read(study)).recorded.records == ()
