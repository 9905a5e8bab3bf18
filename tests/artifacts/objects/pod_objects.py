# SPDX-License-Identifier: Apache-2.0
"""What pools and benchmarks say of their pods (`scheduling`, `template`): what is refused, and what is accepted."""

from collections.abc import Callable
from typing import Any

from gpubench.api import rules
from object_forms import Bad, benchmark, pool

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["europe-west4-a", "europe-west4-b"]}
EVERYTHING: dict[str, Any] = {
    "scheduling": {
        "nodeAffinity": {
            REQUIRED: {
                "nodeSelectorTerms": [
                    {"matchExpressions": [ZONE, {"key": "example.com/drained", "operator": "DoesNotExist"}]},
                    {
                        "matchExpressions": [
                            {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]},
                            {"key": "nvidia.com/gpu.count", "operator": "Lt", "values": ["9"]},
                            {"key": "example.com/tested", "operator": "Exists"},
                            {"key": "example.com/rack", "operator": "NotIn", "values": ["", "r7"]},
                        ]
                    },
                ]
            },
            PREFERRED: [{"weight": 100, "preference": {"matchExpressions": [ZONE]}}],
        },
        "topology": {"key": "cloud.google.com/gce-topology-block", "mode": "Required"},
        "priorityClassName": "batch.low",
        "schedulerName": "volcano",
    },
    "template": {
        "labels": {"team": "vision", "sidecar.istio.io/inject": "false", "notgpubench.dev/x": "", "my-job-name": "a"},
        "imagePullSecrets": [{"name": "registry.example"}, {"name": "other"}],
        "serviceAccountName": "reads-data",
        "runtimeClassName": "nvidia",
        "capabilities": ["IPC_LOCK"],
    },
}
GOOD_PODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a pool with everything about its pods", pool(**EVERYTHING)),
    ("a benchmark with everything about its pods", benchmark(**EVERYTHING)),
    ("a zone where that is possible", benchmark(scheduling={"topology": {"key": "topology.kubernetes.io/zone"}})),
)

_AFFINITY = f"spec.scheduling.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
_ONE = f"{_AFFINITY}[0].matchExpressions[0]"
VALUES = "operators Exists and DoesNotExist have no values, and others need some: remove values, or write some"
NUMBER = 'operators Gt and Lt compare with one whole number: write it as text, such as ["8"]'
_TAKEN_KEYS = (
    *("gpubench.dev/pool", "team.gpubench.dev/a", "kueue.x-k8s.io/queue-name", "batch.kubernetes.io/job-name"),
    *("job-name", "controller-uid", "app.kubernetes.io/managed-by"),
)


def terms(*terms: list[dict[str, Any]]) -> dict[str, Any]:
    expressions = [{"matchExpressions": list(term)} for term in terms]
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": expressions}}}


def preferred(weight: int) -> dict[str, Any]:
    return {"nodeAffinity": {PREFERRED: [{"weight": weight, "preference": {"matchExpressions": [ZONE]}}]}}


#: Section, its content, the field that is blamed, our sentence, the API server's own words if it is not ours.
_REFUSED: tuple[tuple[str, dict[str, Any], str, str, str | None], ...] = (
    *(("template", {"labels": {key: "a"}}, "spec.template.labels", "labels cannot have", None) for key in _TAKEN_KEYS),
    (
        "template",
        {"labels": {"-team": "a"}},
        "spec.template.labels",
        "labels has a key that is no label key: write a name of at most 63 letters",
        None,
    ),
    ("template", {"labels": {"team": "a b"}}, "spec.template.labels", rules.SENTENCES[rules.LABEL_VALUE], None),
    (
        "template",
        {"imagePullSecrets": [{"name": "one"}, {"name": "one"}]},
        "spec.template.imagePullSecrets[1]",
        "one stands here twice: remove one of them",
        "Duplicate value",
    ),
    (
        "template",
        {"imagePullSecrets": [{"name": "Mine"}]},
        "spec.template.imagePullSecrets[0].name",
        rules.SENTENCES[rules.OBJECT_NAME],
        None,
    ),
    *(
        (section, {field: "Mine"}, f"spec.{section}.{field}", rules.SENTENCES[rules.OBJECT_NAME], None)
        for section, field in (
            ("template", "serviceAccountName"),
            ("template", "runtimeClassName"),
            ("scheduling", "priorityClassName"),
            ("scheduling", "schedulerName"),
        )
    ),
    (
        "template",
        {"capabilities": ["SYS_ADMIN"]},
        "spec.template.capabilities[0]",
        "'SYS_ADMIN' is none of the possible values: choose one of IPC_LOCK",
        'Unsupported value: "SYS_ADMIN"',
    ),
    *(
        ("scheduling", terms([{"key": "zone", **wrong}]), f"{_ONE}.values", sentence, None)
        for wrong, sentence in (
            ({"operator": "In"}, VALUES),
            ({"operator": "NotIn", "values": []}, VALUES),
            ({"operator": "Exists", "values": ["a"]}, VALUES),
            ({"operator": "DoesNotExist", "values": ["a"]}, VALUES),
            ({"operator": "Gt"}, VALUES),
            ({"operator": "Lt", "values": ["1", "2"]}, NUMBER),
            ({"operator": "Gt", "values": ["many"]}, NUMBER),
            ({"operator": "In", "values": ["a b"]}, rules.SENTENCES[rules.LABEL_VALUE]),
        )
    ),
    (
        "scheduling",
        terms([{"key": "zone", "operator": "Equals", "values": ["a"]}]),
        f"{_ONE}.operator",
        "'Equals' is none of the possible values: choose one of In, NotIn, Exists, DoesNotExist, Gt, Lt",
        'Unsupported value: "Equals"',
    ),
    (
        "scheduling",
        terms([{"key": "a zone", "operator": "Exists"}]),
        f"{_ONE}.key",
        rules.SENTENCES[rules.LABEL_KEY],
        None,
    ),
    (
        "scheduling",
        terms([]),
        f"{_AFFINITY}[0].matchExpressions",
        "0 entries is too little: at least 1 is needed",
        "should have at least 1 items",
    ),
    (
        "scheduling",
        terms(*[[ZONE]] * 5),
        _AFFINITY,
        "5 entries is too much: at most 4 is possible",
        "must have at most 4 items",
    ),
    *(
        (
            "scheduling",
            preferred(weight),
            f"spec.scheduling.nodeAffinity.{PREFERRED}[0].weight",
            f"{weight} is too {word}",
            words,
        )
        for weight, word, words in (
            (0, "little", "greater than or equal to 1"),
            (101, "much", "less than or equal to 100"),
        )
    ),
    (
        "scheduling",
        {"topology": {"key": "kubernetes.io/hostname"}},
        "spec.scheduling.topology.key",
        "topology.key kubernetes.io/hostname is one node, and a gang has several: name a label",
        None,
    ),
    (
        "scheduling",
        {"topology": {"mode": "Required"}},
        "spec.scheduling.topology.key",
        "required, but absent. Node label with one value for all pods of a gang",
        "Required value",
    ),
    (
        "scheduling",
        {"topology": {"key": "zone", "mode": "required"}},
        "spec.scheduling.topology.mode",
        "'required' is none of the possible values: did you mean Required?",
        'Unsupported value: "required"',
    ),
)
_MAKERS: tuple[tuple[str, Callable[..., dict[str, Any]]], ...] = (("pool", pool), ("benchmark", benchmark))
BAD_PODS = tuple(
    Bad(f"a {kind} with {content}", make(**{section: content}), field, sentence, server)
    for kind, make in _MAKERS
    for section, content, field, sentence, server in _REFUSED
)
