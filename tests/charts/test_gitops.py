# SPDX-License-Identifier: Apache-2.0
"""What docs/how-to/gitops.md says of Argo CD, Flux and Helm's --wait, against objects that a cluster left."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

import cel
import pytest
import yaml

import helm_programs
import record_objects
import rendering
from gpubench import names
from gpubench.api import schema
from rendering import Object

PAGE = rendering.CHART.parents[1] / "docs" / "how-to" / "gitops.md"
BENCHMARK, POOL, SCHEDULE = names.BENCHMARK_KIND, names.POOL_KIND, names.SCHEDULE_KIND
LUA = f"resource.customizations.health.{names.GROUP}_"
#: By kind and name of what was recorded: Argo CD's word, Flux' word by the page's expressions, and by kstatus alone.
EXPECTED = {
    (POOL, "process"): ("Healthy", "Current", "Current"),
    (POOL, "pretend"): ("Progressing", "InProgress", "InProgress"),
    (POOL, "absent"): ("Healthy", "Current", "InProgress"),
    (BENCHMARK, "succeeded"): ("Healthy", "Current", "Current"),
    (BENCHMARK, "failed"): ("Degraded", "Failed", "Current"),
    (BENCHMARK, "over-budget"): ("Degraded", "Failed", "Current"),
    (BENCHMARK, "running"): ("Progressing", "InProgress", "Current"),
    (BENCHMARK, "suspended"): ("Suspended", "Current", "Current"),
    (BENCHMARK, "without-pool"): ("Progressing", "InProgress", "Current"),
    (SCHEDULE, "scheduled"): ("Healthy", "Current", "Current"),
    (SCHEDULE, "suspended"): ("Suspended", "Current", "InProgress"),
}


def block(mark: str) -> Object:
    """The YAML of the page that begins with this comment."""
    (text,) = re.findall(rf"```yaml\n# {mark}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    found: Object = yaml.safe_load(text)
    return found


def recorded() -> list[Object]:
    return list(yaml.safe_load_all(record_objects.RECORDED.read_text(encoding="utf-8")))


def judged(objects: list[Object]) -> list[Object]:
    """What the interpreter of Argo CD and kstatus make of them."""
    scripts = {name.removeprefix(LUA): script for name, script in block("argocd-cm")["data"].items()}
    done = subprocess.run(
        [str(helm_programs.build()["health"])],
        input=json.dumps({"scripts": scripts, "objects": objects}),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Object] = json.loads(done.stdout)
    return found


def checked(body: Object) -> str:
    """By the page's expressions, in the order of Flux' RFC 0009."""
    if body["status"].get("observedGeneration") != body["metadata"]["generation"]:
        return "InProgress"
    (check,) = (one for one in block("Kustomization")["spec"]["healthCheckExprs"] if one["kind"] == body["kind"])
    assert check["apiVersion"] == body["apiVersion"]
    for field, word in (("inProgress", "InProgress"), ("failed", "Failed"), ("current", "Current")):
        if field in check and cel.evaluate(check[field], {"status": body["status"]}):
            return word
    return "InProgress"


def test_each_state_has_the_word_that_the_page_gives_it() -> None:
    objects = recorded()
    found = {
        (body["kind"], body["metadata"]["name"]): (one["argo"], checked(body), one["kstatus"])
        for body, one in zip(objects, judged(objects), strict=True)
    }
    assert found == EXPECTED
    assert {kind for kind, _ in found} == {kind.kind for kind in schema.KINDS}


def test_argo_cd_shows_the_message_of_what_is_wrong() -> None:
    objects = recorded()
    said = {body["metadata"]["name"]: one["message"] for body, one in zip(objects, judged(objects), strict=True)}
    assert "the stand-in was told to fail" in said["failed"]
    assert "no node matches pool=absent" in said["absent"]
    assert "later" in said["without-pool"]


@pytest.mark.parametrize("kind", [BENCHMARK, POOL, SCHEDULE])
def test_an_object_that_the_operator_has_not_seen_as_it_is_now_is_under_way(kind: str) -> None:
    of_kind = [body for body in recorded() if body["kind"] == kind]
    edited = [body | {"metadata": body["metadata"] | {"generation": 9}} for body in of_kind]
    assert {one["argo"] for one in judged([*edited, of_kind[0] | {"status": {}}])} == {"Progressing"}
    assert {one["kstatus"] for one in judged(edited)} == {"InProgress"}
    assert {checked(body) for body in edited} == {"InProgress"}


@pytest.mark.parametrize(
    ("type_", "status", "reason"), [("WritesRefused", "True", "Forbidden"), ("Progressing", "False", "Stuck")]
)
def test_a_benchmark_that_cannot_go_on_is_degraded(type_: str, status: str, reason: str) -> None:
    (body,) = (one for one in recorded() if (one["kind"], one["metadata"]["name"]) == (BENCHMARK, "running"))
    condition: dict[str, Any] = {"type": type_, "status": status, "reason": reason, "message": "a webhook says no"}
    others = [one for one in body["status"]["conditions"] if one["type"] != type_]
    stuck = body | {"status": body["status"] | {"conditions": [*others, condition]}}
    (one,) = judged([stuck])
    assert (one["argo"], one["message"], checked(stuck)) == ("Degraded", "a webhook says no", "Failed")
