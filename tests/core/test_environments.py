# SPDX-License-Identifier: Apache-2.0
"""What a figure stands on: one record for each key, kept in the ledger, shown, and told where two differ."""

from typing import Any

import pytest

import builders
import world as worlds
from gpubench import records
from gpubench.analysis import points, text
from gpubench.api import status_sizes
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.point_result import PointState
from gpubench.records import Environment
from gpubench.scheduler import environments, ledger, step
from gpubench.scheduler.environments import EnvironmentKey
from gpubench.scheduler.ledger import AttemptRecord, Ledger, Outcome, Reason
from gpubench.scheduler.observed import ObservedNode
from world import decide

HERE = builders.environment()
# A result carries the key of its environment, and figures with other keys are never averaged.
KEY = "wsz3alxsoc7j"


# --- the record -------------------------------------------------------------------------------------------------------


def test_a_record_is_read_and_its_key_does_not_change_from_one_version_to_the_next() -> None:
    assert records.read_environment(records.line(HERE)) == HERE
    assert HERE.key() == KEY


PROVENANCE: dict[str, Any] = {
    "python": "3.12.1", "front_end": "Keras 3.7.0", "kernel": "6.1", "node": "node-9", "gpus": 8,
    "gpu_uuids": ("GPU-1",),
    "gpu_megahertz": 1410, "gpu_megahertz_max": 1980, "gpu_memory_megahertz": 1215, "gpu_memory_megahertz_max": 2619,
    "power_limit_watts": 300.0, "processor": "Xeon", "processor_flags": ("avx2",), "processor_flags_digest": "abc",
    "processors": 16.0, "memory_bytes": 2**40,
}  # fmt: skip


@pytest.mark.parametrize("field", PROVENANCE)
def test_provenance_is_no_part_of_the_key(field: str) -> None:
    assert builders.environment(**{field: PROVENANCE[field]}).key() == HERE.key()


@pytest.mark.parametrize("field", Environment.COMPARED)
def test_each_compared_fact_changes_the_key(field: str) -> None:
    other = {"threads_per_rank": 7, "processors_short": 0.5, "memory_bytes_short": 2**30}.get(field, "another")
    assert builders.environment(**{field: other}).key() != HERE.key()


def test_every_field_is_either_compared_or_provenance() -> None:
    fields = set(Environment.model_fields) - {"kind", "schema_version"}
    assert set(PROVENANCE) | set(Environment.COMPARED) == fields
    assert not set(PROVENANCE) & set(Environment.COMPARED)
    assert set(Environment.PROVENANCE) < set(PROVENANCE)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Traceback",
        '{"kind":"window"}',
        '{"kind":"environment"}',
        '["environment"]',
        HERE.to_json(),
        records.line(HERE)[:-9],
    ],
)
def test_a_line_that_is_no_environment_is_none(line: str) -> None:
    assert records.read_environment(line) is None


def test_the_record_is_found_behind_what_libraries_say_and_only_with_its_own_key() -> None:
    head = f'2026-11-21 W tensorflow: slow\n{records.line(HERE)}\n{{"kind":"window"}}\ncut he'
    assert environments.in_log(head, HERE.key()) == HERE
    assert environments.in_log(head, "another") is None
    assert environments.in_log(records.line(HERE)[:200], HERE.key()) is None


# --- what differs -----------------------------------------------------------------------------------------------------


def test_differences_are_told_with_both_values() -> None:
    other = builders.environment(driver="560.35.03", cudnn=None)
    assert records.environment_differences(HERE, other) == ("driver 550.54.15 and 560.35.03", "cuDNN 9 and none")
    assert records.environment_differences(HERE, builders.environment(kernel="6.1", node="node-9")) == ()


def test_three_environments_are_told_in_one_list() -> None:
    others = [builders.environment(driver=driver) for driver in ("1", "2", "1", "3")]
    assert records.environment_differences(*others) == ("driver 1, 2 and 3",)


def test_grounds_are_told_by_key_where_a_record_was_never_read() -> None:
    keys = (EnvironmentKey(HERE.key(), "sha256:1"), EnvironmentKey("unread", "sha256:1"))
    assert environments.differences(keys, {HERE.key(): HERE}) == f"environment {HERE.key()} and unread"


def test_image_digests_and_instance_types_are_told_beside_the_key() -> None:
    digest = "docker.io/library/jobs@sha256:" + "a" * 64
    keys = (EnvironmentKey("k", digest, "p3.2xlarge"), EnvironmentKey("k", "", "p3.8xlarge"))
    told = environments.differences(keys, {})
    assert told == "image digest aaaaaaaaaaaa and unknown; instance type p3.2xlarge and p3.8xlarge"


def test_an_unknown_instance_type_is_no_other_one() -> None:
    one, two, unknown = EnvironmentKey("k", "i", "one"), EnvironmentKey("k", "i", "two"), EnvironmentKey("k", "i")
    assert environments.distinct([unknown, one, one]) == (one,)
    assert environments.distinct([unknown, unknown]) == (unknown,)
    assert environments.distinct([two, unknown, one]) == (two, one)
    assert environments.distinct([EnvironmentKey("k", "other"), one]) == (EnvironmentKey("k", "other"), one)
    elsewhere, third = EnvironmentKey("k", "", "two"), EnvironmentKey("k", "i", "three")
    assert environments.distinct([unknown, elsewhere, third]) == (elsewhere, third), "the whole key is met first"


def test_an_unknown_image_is_no_other_one() -> None:
    assert environments.distinct([EnvironmentKey("k", ""), EnvironmentKey("k", "sha256:1")]) == (
        EnvironmentKey("k", "sha256:1"),
    )
    assert environments.distinct([EnvironmentKey("k", "", "one"), EnvironmentKey("k", "i")]) == (
        EnvironmentKey("k", "i", "one"),
    )
    assert environments.distinct([EnvironmentKey("k", ""), EnvironmentKey("l", "i")]) == (
        EnvironmentKey("k", ""),
        EnvironmentKey("l", "i"),
    )
    two = (EnvironmentKey("k", "i"), EnvironmentKey("k", "j"))
    assert environments.distinct([two[0], EnvironmentKey("k", ""), two[1]]) == two
    assert EnvironmentKey("k", "").is_comparable(EnvironmentKey("k", "i"))
    assert not two[0].is_comparable(two[1])


def test_efficiency_is_not_computed_across_instance_types_of_one_pool_and_is_against_a_sibling_pool() -> None:
    one, two = EnvironmentKey("k", "i", "one"), EnvironmentKey("k", "i", "two")
    assert not one.is_comparable(two)
    assert one.is_comparable(two, across_pools=True)
    assert one.is_comparable(EnvironmentKey("k", "i"))
    assert not one.is_comparable(EnvironmentKey("l", "i", "one"), across_pools=True)
    spot, on_demand = (one._replace(capacity=type_) for type_ in ("Spot", "OnDemand"))
    assert not spot.is_comparable(on_demand)
    assert spot.is_comparable(on_demand, across_pools=True)
    assert spot.is_comparable(one)


# --- where it ran -----------------------------------------------------------------------------------------------------


def test_a_gang_on_two_instance_types_has_both_and_one_that_is_not_known_leaves_none() -> None:
    nodes = [
        ObservedNode(name="a", instance_type="p3", zone="z1"),
        ObservedNode(name="b", instance_type="p4", zone="z1"),
        ObservedNode(name="c", zone="z2"),
    ]

    def found(*names: str, pods: int = 2) -> tuple[Any, Any]:
        where = step.location(names, nodes, pods=pods)
        return where["instance_types"], where["zones"]

    assert found("b", "a") == (("p3", "p4"), ("z1",))
    assert found("a", "c") == ((), ("z1", "z2"))
    assert found("gone", pods=1) == ((), ())
    assert found(pods=1) == ((), ())


def test_zone_block_and_rack_of_each_pod_are_known_of_all_nodes_or_of_none() -> None:
    nodes = [
        ObservedNode(name="a", zone="z1", block="b1", rack="r1"),
        ObservedNode(name="b", zone="z1", block="b1", rack="r2"),
        ObservedNode(name="c", zone="z2", block="b1", rack="r1"),
        ObservedNode(name="bare"),
    ]

    def found(*names: str, pods: int | None = None) -> tuple[Any, Any]:
        where = step.location(names, nodes, pods=len(names) if pods is None else pods)
        return where["places"], where["pod_places"]

    assert found("b", "a", "b") == ((("z1", "b1", "r2"), ("z1", "b1", "r1")), (0, 1, 0))
    assert found("a", "bare") == ((("z1", "b1", "r1"), (None, None, None)), (0, 1))
    assert found("a", "gone") == found("a", pods=2) == found("bare") == found(pods=1) == ((), ())


def test_a_rack_of_the_same_name_in_another_zone_is_another_rack() -> None:
    def spread(*places: ledger.Place) -> tuple[int | None, ...]:
        begun: dict[str, Any] = {"trial": "t", "attempt": 1, "job": "j", "job_uid": "u", "created_at": 0.0}
        return ledger.AttemptRecord(**begun, places=places).spread

    assert spread(("z1", "b1", "r1"), ("z2", "b1", "r1"), ("z2", "b1", "r2")) == (2, 2, 3)
    assert spread(("z1", "b1", None), ("z1", "b1", "r1")) == (1, 1, None)
    assert spread((None, None, "r1"), (None, None, "r2")) == (None, None, 2)
    assert spread() == (None, None, None)


def test_types_of_a_gang_are_not_known_once_a_pod_of_it_is_gone() -> None:
    """What is left of a gang on two types would be another environment than the gang."""
    nodes = [ObservedNode(name="node-0", instance_type="a"), ObservedNode(name="node-1", instance_type="b")]
    spec = builders.spec(builders.block(workers=[2]))
    plan = builders.plan(spec)
    assert plan.points[0].nodes == 2
    trial = plan.trials[0].id
    result = builders.message(builders.result(trial=trial).model_copy(update={"workers": 2}))
    first = builders.observed_pod(end=builders.ended(text=result))
    types = []
    for pods in ((first,), (first, builders.observed_pod(1, end=builders.ended()))):
        job = builders.observed_job(trial=trial, pods=pods)
        observed = builders.observed(builders.study(spec), job).model_copy(update={"nodes": tuple(nodes)})
        (record,) = decide(plan, Ledger(), observed, builders.NOW + 60).record
        assert record.outcome is Outcome.SUCCEEDED
        types.append(record.instance_types)
    assert types == [(), ("a", "b")]


def test_the_image_of_an_attempt_is_that_which_its_first_pod_ran() -> None:
    plan = builders.plan(builders.spec(builders.block(workers=[2])))
    end = builders.ended(text=builders.message(builders.result(trial=plan.trials[0].id)))
    pods = (builders.observed_pod(index, end=end, image_id=f"sha256:{index}") for index in range(2))
    job = builders.observed_job(trial=plan.trials[0].id, pods=tuple(pods))
    (record,) = decide(plan, Ledger(), builders.observed(builders.study(), job), SOON).record
    assert record.image_id == "sha256:0"


def on_nodes(world: worlds.World, types: dict[int, str]) -> FullStatus:
    """The study in which the attempts, in the order of their start, run on nodes of these types."""
    for _ in range(200):
        observed = world.observe()
        number = len(world.created) - 1
        nodes = tuple(
            ObservedNode(name=f"node-{index}", instance_type=types.get(number, "p3.2xlarge")) for index in range(4)
        )
        decision = decide(world.plan, world.ledger(), observed.model_copy(update={"nodes": nodes}), world.now)
        for _ in world.writes(decision):
            pass
        if decision.status.phase in ("Succeeded", "Failed"):
            return decision.status
        world.advance()
    raise AssertionError(f"not finished: {world.status}")


ONE_POINT = builders.spec(builders.block(workers=[1]), limits={"parallelTrials": 1})


def one_point() -> worlds.World:
    return worlds.world(builders.study(ONE_POINT), builders.plan(ONE_POINT))


def test_repeats_on_one_instance_type_are_averaged_and_the_study_names_it() -> None:
    status = on_nodes(one_point(), {})
    assert [result.state for result in status.results] == [PointState.MEASURED]
    assert [facts.instance_type for facts in status.environments] == ["p3.2xlarge"]
    assert [result.instance_type for result in status.results] == ["p3.2xlarge"]


def test_repeats_on_two_instance_types_are_not_averaged_and_the_sentence_names_both() -> None:
    (found,) = on_nodes(one_point(), {1: "p3.8xlarge"}).results
    assert (found.state, found.throughput, found.values) == (PointState.FAILED, None, ())
    assert "instance type p3.2xlarge and p3.8xlarge" in (found.reason or "")


def test_the_sentence_about_two_drivers_has_both_versions() -> None:
    drivers = {0: "550.54.15", 1: "560.35.03", 2: "550.54.15"}
    here = one_point()
    found = [builders.environment(driver=drivers[index]) for index in range(3)]

    def fate(trial: str, attempt: int) -> tuple[int, str]:
        environment = found[[one.id for one in here.plan.trials].index(trial)]
        here.logs["pod-0"] = f"{records.line(environment)}\n"
        return 0, builders.message(builders.result(trial=trial, attempt=attempt, environment=environment.key()))

    here.fate = fate
    here.run()
    here.reconcile()  # as the operator, that decides again when it has read a log
    assert here.status is not None
    (result,) = here.status.results
    assert "driver 550.54.15 and 560.35.03" in (result.reason or "")


# --- reading and keeping ----------------------------------------------------------------------------------------------


def measured(
    key: str = "key", *, trial: str = "t", ended_at: float = builders.NOW + 60, **fields: Any
) -> AttemptRecord:
    done = {"outcome": Outcome.SUCCEEDED, "reason": Reason.COMPLETED, "sentence": None, "nodes": ("node-0",)}
    result = builders.result(trial=trial, environment=key)
    return builders.attempt(trial=trial, result=result, ended_at=ended_at, **(done | fields))


ENDED = builders.observed_job(complete=True, pods=(builders.observed_pod(end=builders.ended()),))
SOON = builders.NOW + 61


def test_the_log_of_an_attempt_that_has_ended_is_asked_for_its_environment() -> None:
    (asked,) = step.to_describe([ENDED], Ledger(records=(measured(),)), now=SOON)
    assert (asked.environment, asked.trial, asked.attempt, asked.pod) == ("key", "t", 1, "pod-0")


def test_one_log_is_asked_for_each_environment_and_it_is_the_last_one() -> None:
    jobs = [ENDED.model_copy(update={"trial": trial}) for trial in "ab"]
    entries = (measured(trial="a", ended_at=SOON), measured(trial="b", ended_at=SOON - 5))
    assert [one.trial for one in step.to_describe(jobs, Ledger(records=entries), now=SOON)] == ["a"]


@pytest.mark.parametrize(
    ("entry", "job", "now", "environments_known"),
    [
        (measured(HERE.key()), ENDED, SOON, (HERE,)),
        (measured(), ENDED, builders.NOW + 60 + environments.TRIED_FOR_SECONDS, ()),
        (measured(), ENDED.model_copy(update={"pods": ()}), SOON, ()),
        (builders.attempt(), ENDED, SOON, ()),
        (builders.attempt(outcome=None, reason=None, ended_at=None), ENDED, SOON, ()),
        (measured(), ENDED, SOON, tuple(builders.environment(driver=str(n)) for n in range(ledger.ENVIRONMENTS_MAX))),
    ],
    ids=["kept already", "tried for long enough", "pods gone", "failed", "running", "as many as are kept"],
)
def test_no_log_is_asked_in_vain(entry: AttemptRecord, job: Any, now: float, environments_known: Any) -> None:
    kept = Ledger(records=(entry,)).with_environments(environments_known)
    assert step.to_describe([job], kept, now=now) == ()


def test_an_environment_is_kept_once_and_comes_back_with_the_attempts() -> None:
    entries = ledger.to_entries([measured()]) | ledger.environment_entries([HERE])
    read = ledger.from_entries([entries, {}])
    assert read.records == (measured(),)
    assert read.environments == (HERE,)
    assert read.with_environments([builders.environment(node="another")]).environments == (HERE,)
    assert read.with_records([measured(trial="u")]).environments == (HERE,)


def test_an_environment_that_cannot_be_read_ends_no_study() -> None:
    assert ledger.from_entries([{"environment.abc": "{}"}]) == Ledger()


def test_what_is_kept_is_bounded_in_number_and_size() -> None:
    many = [builders.environment(driver=str(number)) for number in range(ledger.ENVIRONMENTS_MAX + 1)]
    assert len(Ledger().with_environments(many).environments) == ledger.ENVIRONMENTS_MAX
    long = builders.environment(image="x" * ledger.ENVIRONMENT_BYTES_MAX)
    assert Ledger().with_environments([long]).environments == ()


def test_a_log_that_cannot_be_read_changes_nothing_but_the_facts_that_are_shown() -> None:
    def study(logs: dict[str, str]) -> FullStatus:
        here = worlds.world(fate=lambda trial, attempt: (0, builders.message(of(trial, attempt))))
        here.logs = logs
        here.run()
        return here.reconcile().status

    def of(trial: str, attempt: int) -> records.Result:
        return builders.result(trial=trial, attempt=attempt, environment=HERE.key())

    read, unread = study({"pod-0": records.line(HERE)}), study({})
    assert [facts.driver for facts in read.environments] == ["550.54.15"]
    assert [facts.driver for facts in unread.environments] == [None]
    assert read.results == unread.results
    assert [facts.environment for facts in unread.environments] == [read.results[0].environment]


def test_a_log_that_could_not_be_read_is_asked_for_again_after_a_while() -> None:
    here = one_point()
    here.run()
    decision = here.reconcile()
    assert decision.describe
    assert decision.requeue_at == here.now + environments.TRIED_AGAIN_SECONDS


# --- what is shown ----------------------------------------------------------------------------------------------------


def test_each_environment_is_shown_once_with_instance_type_and_digest() -> None:
    fields: dict[str, Any] = {"instance_types": ("p4d",), "image_id": "docker.io/jobs@sha256:1"}
    entries = (measured(HERE.key(), **fields), measured(HERE.key(), trial="u", **fields), measured("mine", trial="v"))
    shown = points.environments_met(Ledger(records=entries, environments=(HERE,)))
    assert [(one.environment, one.instance_type, one.image_digest, one.driver) for one in shown] == [
        (HERE.key(), "p4d", "sha256:1", "550.54.15"),
        ("mine", None, None, None),
    ]
    assert shown[0].threads_per_rank == 11


def test_the_list_of_environments_is_bounded_and_so_are_its_texts() -> None:
    longest = builders.environment(accelerator="測" * 1000)
    entries = [measured(longest.key(), trial="first", ended_at=0.0)]
    entries += [measured(f"key-{number}", trial=f"t{number}", ended_at=float(number)) for number in range(1, 100)]
    shown = points.environments_met(Ledger(records=tuple(entries), environments=(longest,)))
    assert len(shown) == status_sizes.ENVIRONMENTS_SHOWN_MAX
    assert [one.environment for one in shown][:2] == [longest.key(), "key-1"]
    assert len((shown[0].accelerator or "").encode()) <= status_sizes.FACT_NAME_MAX


def test_an_environment_names_the_links_of_all_its_gangs_and_no_others() -> None:
    def gang(trial: str, links: str | None, key: str = HERE.key()) -> AttemptRecord:
        record = measured(key, trial=trial)
        assert record.result is not None
        return record.model_copy(update={"result": record.result.model_copy(update={"links": links})})

    entries = (
        gang("one-node", "P2P/CUMEM"),
        gang("two-nodes", "NET/AWS Libfabric/GDRDMA, P2P/CUMEM"),
        gang("before", None),
        gang("elsewhere", "NET/Socket", key="elsewhere"),
    )
    here, elsewhere = points.environments_met(Ledger(records=entries, environments=(HERE,)))
    assert here.links == "NET/AWS Libfabric/GDRDMA, P2P/CUMEM"
    assert elsewhere.links == "NET/Socket"
    assert "transport nccl, framework TensorFlow" in next(text.environments((here,), ())).replace(
        f"links {here.links}, ", ""
    )
    (silent,) = points.environments_met(Ledger(records=(gang("before", None),), environments=(HERE,)))
    assert silent.links is None


def test_people_read_an_environment_in_one_line_and_how_many_points_stand_on_it() -> None:
    digest = "sha256:" + "ab" * 32
    entries = (measured(HERE.key(), image_id=f"docker.io/jobs@{digest}", instance_types=("p4d",)),)
    shown = points.environments_met(Ledger(records=entries, environments=(HERE,)))
    (sentence,) = text.environments(shown, ())
    assert sentence == (
        f"Environment {HERE.key()}: instance type p4d, image digest abababababab, NVIDIA A100-SXM4-40GB, "
        "driver 550.54.15, CUDA 12.5.1, cuDNN 9, NCCL 21805, transport nccl, framework TensorFlow, "
        "framework version 2.18.1, collectives Horovod, collectives version 0.28.1, threads per rank 11"
    )
    unread = points.environments_met(Ledger(records=(measured("one"), measured("two", trial="u"))))
    assert tuple(text.environments(unread, ())) == (
        "Environment one, 0 points: its record was not read",
        "Environment two, 0 points: its record was not read",
    )
