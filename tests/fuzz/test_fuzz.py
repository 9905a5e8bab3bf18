# SPDX-License-Identifier: Apache-2.0
"""Two hundred generated objects, each refused with a sentence or in a condition with one; `make fuzz` has thousands."""

import json
from collections.abc import Iterator, Mapping

import pytest

import fuzz_campaign
import fuzz_objects
import fuzz_smallest
import fuzz_verdicts
import installation
from cluster import Cluster
from fuzz_campaign import Campaign
from fuzz_objects import Manner
from fuzz_verdicts import Answer
from gpubench import names

OBJECTS = 200
SEED = 1
CAUSES = '"details": {"causes": [{"field": "spec", "message": "no"}]}'


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    folder = tmp_path_factory.mktemp("fuzz")
    with (
        Cluster.start(folder / "cluster", nodes=fuzz_campaign.NODES, audit_log=False) as cluster,
        installation.running_operator(
            cluster, log=folder / "operator.log", settings=fuzz_campaign.SETTINGS
        ) as operator,
    ):
        running = Campaign(cluster, operator, seed=SEED)
        running.prepare()
        running.run(OBJECTS)
        yield running


def test_each_object_is_refused_with_a_sentence_or_comes_to_a_condition_with_one(campaign: Campaign) -> None:
    assert [f"{finding.what}\n{finding.made}" for finding in campaign.findings] == []
    assert campaign.figures.objects == OBJECTS


def test_each_manner_of_objects_is_among_them_and_many_are_accepted(campaign: Campaign) -> None:
    outcomes = campaign.figures.outcomes
    for manner in Manner:
        assert outcomes[manner, "accepted"] + outcomes[manner, "refused"] > OBJECTS / 10
    assert outcomes[Manner.VALID, "accepted"] > 9 * outcomes[Manner.VALID, "refused"]
    assert 0.25 < campaign.figures.share("accepted") < 0.75
    assert campaign.figures.changes


def test_each_kind_of_objects_is_among_those_that_the_operator_spoke_of(campaign: Campaign) -> None:
    assert {words.partition(":")[0] for words in campaign.figures.conditions} >= {
        names.POOL_KIND,
        names.BENCHMARK_KIND,
        names.SCHEDULE_KIND,
    }


def test_the_same_seed_gives_the_same_objects() -> None:
    one, other, another = (
        fuzz_objects.collected(fuzz_campaign.objects(), count=20, seed=seed) for seed in ("1", "1", "2")
    )
    assert repr(one) == repr(other) != repr(another)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (500, '{"message": "an error on the server has prevented the request from succeeding"}'),
        (422, '{"message": ""}'),
        (422, '{"message": "spec is no good thing", "details": {"causes": []}}'),
        (422, '{"message": "spec: Invalid value: rule evaluation error: no such key: a", ' + CAUSES + "}"),
        (422, '{"message": "spec.x: Invalid value: failed rule: self.a > 1", ' + CAUSES + "}"),
        (400, "Traceback (most recent call last)"),
    ],
)
def test_a_refusal_without_a_sentence_is_a_fault(code: int, text: str) -> None:
    assert fuzz_verdicts.refusal_fault(Answer(code, text)) is not None


def test_words_that_a_user_wrote_are_no_fault_of_a_refusal() -> None:
    cause = {"field": "spec.a", "message": "Unsupported value"}
    message = 'spec.a: Unsupported value: "Traceback \\" NoneType ValueError": supported values: "b"'
    answer = Answer(422, json.dumps({"message": message, "details": {"causes": [cause]}}))
    assert fuzz_verdicts.refusal_fault(answer) is None


@pytest.mark.parametrize(
    "status",
    [
        {"phase": "Pending", "conditions": []},
        {"phase": "Pending", "conditions": [{"type": "Progressing", "status": "False", "message": ""}]},
        {
            "phase": "Pending",
            "conditions": [{"type": "Progressing", "status": "False", "message": "it is \x1b[2J red"}],
        },
        {
            "phase": "Pending",
            "conditions": [{"type": "Progressing", "status": "False", "message": "got a KeyError: 1"}],
        },
        {"conditions": [{"type": "Progressing", "status": "True", "message": "0 of 3 points have ended"}]},
    ],
)
def test_a_condition_without_a_sentence_is_a_fault(status: dict[str, object]) -> None:
    for condition in status["conditions"]:  # type: ignore[attr-defined]
        condition["observedGeneration"] = 1
    assert fuzz_verdicts.study_fault({"metadata": {"generation": 1}, "status": status}) is not None


def test_a_schedule_that_is_spoken_of_by_half_or_without_a_sentence_is_a_fault() -> None:
    ready = {"type": "Ready", "status": "True", "reason": "Scheduled", "message": "the next run is due at noon"}
    regressed = {"type": "Regressed", "status": "Unknown", "reason": "TooFewRuns", "message": "nothing can be told"}
    whole = {"conditions": [{**one, "observedGeneration": 2} for one in (ready, regressed)]}

    def fault(status: Mapping[str, object], *, generation: int = 2) -> str | None:
        return fuzz_verdicts.schedule_fault({"metadata": {"generation": generation}, "status": status})

    assert fault(whole) is None
    assert fault(whole, generation=3) is not None
    assert fault({"conditions": whole["conditions"][:1]}) is not None
    assert fault({**whole, "monthly": {"sentence": "no cost: \x1b[2J"}}) is not None


def test_an_exception_in_the_log_is_a_fault_and_a_warning_is_none() -> None:
    assert fuzz_verdicts.log_fault('{"level": "error", "event": "failed", "exception": "Traceback"}') is not None
    assert fuzz_verdicts.log_fault("Traceback (most recent call last):") is not None
    assert fuzz_verdicts.log_fault('{"level": "warning", "event": "event", "error": "a quota"}') is None


def test_the_smallest_object_has_only_what_the_fault_needs() -> None:
    document = {"kind": "A", "metadata": {"name": "a"}, "spec": {"a": [1, 2, {"b": "needed!!"}], "c": {"d": 1}}}
    found = fuzz_smallest.smallest(document, shows=lambda one: "need" in str(one), tries=100)
    assert found == {"kind": "A", "metadata": {"name": "a"}, "spec": {"a": [{"b": "need"}]}}
