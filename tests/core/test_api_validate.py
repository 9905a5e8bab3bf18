# SPDX-License-Identifier: Apache-2.0
"""Sentences about bad documents, and what `validate` takes as the API server would take it."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

import builders
from gpubench.api import benchmark_status, schema, validate
from gpubench.api.condition import Condition
from gpubench.api.rules import Rule


def study(**changes: Any) -> dict[str, Any]:
    block = {"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [1], "batchPerWorker": [64]}
    return {
        "apiVersion": "gpubench.dev/v1alpha1",
        "kind": "GpuBenchmark",
        "metadata": {"name": "study", "labels": {"anything": "goes"}},
        "spec": {"sweep": [block]},
        **changes,
    }


def told(document: dict[str, Any], kind: schema.Kind = schema.BENCHMARK) -> list[str]:
    return [str(problem) for problem in validate.problems_of(document, kind)]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (
            study(kind="GpuBenchmrk"),
            "kind: 'GpuBenchmrk' stands where GpuBenchmark is expected",
        ),
        (
            study(apiVersion="gpubench.dev/v1"),
            "apiVersion: 'gpubench.dev/v1' stands where gpubench.dev/v1alpha1 is expected",
        ),
        (study(metadata={}), "metadata.name: required, but absent. name"),
        (study(metadata=None), "metadata: required, but absent. metadata"),
        (
            study(spec=None),
            "spec: required, but absent. One benchmark: what to measure, where, how often, within which limits",
        ),
        (study(spec=[]), "spec: [] stands where a mapping of fields is expected"),
        (study(spec={"sweep": {}}), "spec.sweep: a mapping stands where a list, such as [1, 2], is expected"),
        (study(spec={"sweep": [None]}), "spec.sweep[0]: nothing stands where a mapping of fields is expected"),
        (study(spce={}), "spce: unknown field: did you mean spec?"),
        (
            study(spec={"sweep": [], "image": "jobs:1", "template": {"topology": {}}}),
            "spec.image: unknown field: did you mean spec.template.image?",
        ),
        (
            study(spec={"sweep": [], "template": {"topology": {}}}),
            "spec.template.topology: unknown field: did you mean spec.scheduling.topology?",
        ),
        (
            study(spec={"sweep": [], "key": "a"}),  # of which there are several
            "spec.key: unknown field: the fields here are sweep, measure, order",
        ),
        (
            study(zzz={}),
            "zzz: unknown field: the fields here are apiVersion, kind, metadata, spec, status",
        ),
    ],
)
def test_a_sentence_names_the_field_what_stands_there_and_the_remedy(document: dict[str, Any], sentence: str) -> None:
    assert any(one.startswith(sentence) for one in told(document)), told(document)


@pytest.mark.parametrize(
    ("field", "sentence"),
    [
        ({"sweep": 5}, "spec.sweep: 5 stands where a list, such as [1, 2], is expected: write [5]"),
        ({"sweep": {}}, "spec.sweep: a mapping stands where a list, such as [1, 2], is expected"),
        (
            {"order": {"seed": "7"}},
            "spec.order.seed: '7' stands where a whole number is expected: write it without quotes",
        ),
        ({"order": {"seed": 7.5}}, "spec.order.seed: 7.5 stands where a whole number is expected"),
        ({"measure": {"warmUp": 2}}, "spec.measure.warmUp: 2 stands where text is expected: put it in quotes"),
        ({"queueName": "q" * 64}, "spec.queueName: 64 characters is too much: at most 63 is possible"),
        ({"measure": {"warmUp": []}}, "spec.measure.warmUp: [] stands where text is expected"),
    ],
)
def test_a_value_of_another_type_or_size_is_told_with_the_remedy_that_fits(
    field: dict[str, Any], sentence: str
) -> None:
    assert sentence in told(study(spec={**study()["spec"], **field}))


def test_a_field_of_a_pod_one_level_up_is_named_where_it_is() -> None:
    spec = {
        "slotsPerNode": 1,
        "maxNodes": 1,
        "slot": {"cpu": 1, "memory": "1Gi"},
        "nodeSelector": {},
        "tolerations": [],
    }
    document = {"apiVersion": "gpubench.dev/v1alpha1", "kind": "GpuPool", "metadata": {"name": "a"}, "spec": spec}
    assert told(document, schema.POOL) == [
        "spec.nodeSelector: unknown field: did you mean spec.scheduling.nodeSelector?",
        "spec.tolerations: unknown field: did you mean spec.scheduling.tolerations?",
    ]


@pytest.mark.parametrize(
    ("value", "text"),
    [("a", "'a'"), (True, "true"), (1.5, "1.5"), ("x" * 100, "'" + "x" * 55 + " ...")],
)
def test_values_are_shown_briefly(value: Any, text: str) -> None:
    assert validate.shown(value) == text


def test_a_line_end_in_a_code_is_refused() -> None:
    amount = {"currency": "US\n", "asOf": "2026-11-01", "perNodeHour": "1"}
    spec = {"slotsPerNode": 1, "maxNodes": 1, "slot": {"cpu": "1", "memory": "1Gi"}, "price": amount}
    assert told({**study(kind="GpuPool"), "spec": spec}, schema.POOL) == [
        "spec.price.currency: write the three capital letters of ISO 4217, such as USD"
    ]


def test_a_day_that_yaml_has_read_as_a_date_is_a_day() -> None:
    price = {"currency": "USD", "asOf": datetime.date(2026, 11, 1), "perNodeHour": "1"}
    spec = {"slotsPerNode": 1, "maxNodes": 1, "slot": {"cpu": "1", "memory": "1Gi"}, "price": price}
    pool = validate.load_pool({**study(kind="GpuPool"), "spec": spec})
    assert pool.spec.price is not None
    assert pool.spec.price.as_of == "2026-11-01"


def test_loading_leaves_the_document_as_it_was() -> None:
    document = study(status=None)
    validate.load_benchmark(document)
    assert document == study(status=None)


def test_a_field_that_nobody_knows_is_refused_also_when_it_is_null() -> None:
    document = study()
    document["spec"] |= {"measure": None, "mesure": None}
    document["metadata"]["labels"] = None
    (sentence,) = told(document)
    assert sentence.startswith("spec.mesure: unknown field")


def test_half_of_a_surrogate_pair_is_read_as_the_api_server_reads_it() -> None:
    document = study()
    document["spec"]["goals"] = [{"name": "a", "workload": "\ud9e2", "samples": 1}]
    assert len(told(document)) == 1, "no workload of the benchmark has that name"
    document["spec"] = {**study()["spec"], "template": {"env": [{"name": "A", "value": "\U0001f600 \ud83d"}]}}
    (variable,) = validate.load_benchmark(document).spec.template.env
    assert variable.value == "\U0001f600 \ufffd"


def test_the_sentence_with_values_is_one_cel_expression() -> None:
    rule = Rule(cel="self > 1", sentence="it's 100% too little", detail="it is %d", values=("self",))
    assert rule.sentence_cel == r"'it\'s 100%% too little; it is %d'.format([self])"


_LEAVES = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=8)
_FIELDS = some.sampled_from(
    ["sweep", "workloads", "workers", "measure", "window", "limits", "attempts", "template", "env", "name", "other"]
)
_ANYTHING = some.recursive(
    _LEAVES, lambda inner: some.lists(inner, max_size=3) | some.dictionaries(_FIELDS, inner, max_size=4), max_leaves=12
)


@given(spec=_ANYTHING)
def test_whatever_stands_in_a_file_is_loaded_or_refused_with_sentences(spec: Any) -> None:
    problems = validate.problems_of(study(spec=spec), schema.BENCHMARK)
    assert all(problem.sentence for problem in problems)
    if not problems:
        validate.load_benchmark(study(spec=spec))


def test_a_whole_number_may_be_written_with_a_point() -> None:
    # kubectl sends 4.0 as 4; only JSON that reaches the API server as 4.0 is refused there.
    document = study()
    document["spec"]["measure"] = {"repeats": {"min": 4.0}}
    assert validate.load_benchmark(document).spec.measure.repeats.min == 4


@pytest.mark.parametrize(
    ("allowed", "labels", "takes"),
    [
        (None, {}, True),
        ({"names": ["team"]}, {}, True),
        ({"names": ["other"]}, {"team": "a"}, False),
        ({"matchLabels": {"team": "a"}}, {"team": "a"}, True),
        ({"matchLabels": {"team": "a"}}, {"team": "a", "stage": "test"}, True),
        ({"matchLabels": {"team": "a"}}, {"team": "b"}, False),
        ({"names": ["other"], "matchLabels": {"team": "a"}}, {"team": "a"}, True),
    ],
)
def test_a_pool_takes_benchmarks_of_namespaces_by_name_or_by_all_of_its_labels(
    allowed: dict[str, Any] | None, labels: dict[str, str], takes: bool
) -> None:
    assert builders.pool(allowedNamespaces=allowed).spec.takes("team", labels) is takes


def test_what_is_over_waits_for_nothing() -> None:
    common = {"reason": "Because", "message": "x", "lastTransitionTime": "2026-11-01T12:00:00Z"}
    told = [Condition(type=kind, status="True", **common) for kind in ("GangPending", "Finished")]
    assert benchmark_status.waits_for(told[:1]) == told[0]
    assert benchmark_status.waits_for(told) is None
