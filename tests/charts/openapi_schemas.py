# SPDX-License-Identifier: Apache-2.0
"""The schemas that rendered manifests are held against: how they were made, and how kubeconform reads them.

    PYTHONPATH=tests/cluster python tests/charts/openapi_schemas.py

writes `schemas/` anew from what the modules of Kubernetes and of the Prometheus operator publish: the kinds that the
chart can have, with all that they refer to, without descriptions. That takes the network and is no part of any check;
the files are committed. `google.json` is written by hand: no module of it is to be had.

Must not happen: a field that a schema does not name and that is let through.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

import go_build

HERE = Path(__file__).resolve().parent / "schemas"
#: The newest patch of each minor version that the chart is for (kubeVersion in Chart.yaml).
KUBERNETES = ("v1.33.13", "v1.34.4", "v1.35.4", "v1.36.4", "v1.37.2")
PROMETHEUS_OPERATOR = "v0.85.0"
GROUPS = {
    "api__v1": ("ConfigMap", "Pod", "Service", "ServiceAccount"),
    "apis__admissionregistration.k8s.io__v1": ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"),
    "apis__apiextensions.k8s.io__v1": ("CustomResourceDefinition",),
    "apis__apps__v1": ("Deployment",),
    "apis__networking.k8s.io__v1": ("NetworkPolicy",),
    "apis__policy__v1": ("PodDisruptionBudget",),
    "apis__rbac.authorization.k8s.io__v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    "apis__scheduling.k8s.io__v1": ("PriorityClass",),
}
MONITORS = ("podmonitors", "prometheusrules", "servicemonitors")
_REFERENCE = "#/components/schemas/"
Schema = dict[str, Any]


def write_for_kubeconform(version: str, folder: Path) -> str:
    """One file for each kind that the chart can have in this version; the place of schemas as kubeconform takes it."""
    folder.mkdir(parents=True)
    for name in (f"kubernetes-{version}.json", "prometheus-operator.json", "google.json"):
        document = json.loads((HERE / name).read_text(encoding="utf-8"))
        definitions = {key: _strict(schema) for key, schema in document["definitions"].items()}
        for kind, reference in document["kinds"].items():
            text = json.dumps({"$ref": f"#/definitions/{reference}", "definitions": definitions})
            (folder / f"{kind.lower()}.json").write_text(text, encoding="utf-8")
    return f"{folder}/{{{{.ResourceKind}}}}.json"


def _strict(schema: Any) -> Any:
    """The same, and nothing that it does not name; but where it names nothing it may be anything."""
    if isinstance(schema, list):
        return [_strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _strict(value) for key, value in schema.items() if key != "properties"}
    if "properties" in schema:
        found["properties"] = {name: _strict(value) for name, value in schema["properties"].items()}
        found.setdefault("additionalProperties", False)
    return found


def main() -> int:
    with tempfile.TemporaryDirectory() as modules:
        for version in KUBERNETES:
            place = _module(f"k8s.io/kubernetes@{version}", modules)
            _write(f"kubernetes-{version}", _of_kubernetes(place / "api" / "openapi-spec" / "v3"))
        place = _module(f"github.com/prometheus-operator/prometheus-operator@{PROMETHEUS_OPERATOR}", modules)
        _write("prometheus-operator", _of_crds(place / "example" / "prometheus-operator-crd"))
    return 0


def _module(name: str, modules: str) -> Path:
    """Where a module lies; into a folder of its own, so that nothing of a gigabyte stays."""
    environment = {**go_build.environment(), "GOMODCACHE": modules, "GOFLAGS": "-modcacherw"}
    command = [go_build.find_go(), "mod", "download", "-json", name]
    done = subprocess.run(command, env=environment, cwd=modules, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise go_build.BuildError(f"{name} cannot be had: {done.stdout}{done.stderr}")
    return Path(json.loads(done.stdout)["Dir"])


def _of_kubernetes(place: Path) -> Schema:
    kinds: dict[str, str] = {}
    definitions: Schema = {}
    for group, wanted in GROUPS.items():
        document = json.loads((place / f"{group}_openapi.json").read_text(encoding="utf-8"))
        schemas = document["components"]["schemas"]
        for key, schema in schemas.items():
            known = {one["kind"] for one in schema.get("x-kubernetes-group-version-kind", ())}
            kinds |= {kind: key for kind in known.intersection(wanted) if len(known) == 1}
        waiting = [kinds[kind] for kind in wanted]
        while waiting:
            key = waiting.pop()
            if key not in definitions:
                definitions[key] = _bare(schemas[key])
                waiting += _references(definitions[key])
    return {"kinds": kinds, "definitions": definitions}


def _of_crds(place: Path) -> Schema:
    kinds, definitions = {}, {}
    for plural in MONITORS:
        crd = yaml.safe_load((place / f"monitoring.coreos.com_{plural}.yaml").read_text(encoding="utf-8"))
        kind = crd["spec"]["names"]["kind"]
        (version,) = (one for one in crd["spec"]["versions"] if one["name"] == "v1")
        kinds[kind], definitions[kind] = kind, _bare(version["schema"]["openAPIV3Schema"])
    return {"kinds": kinds, "definitions": definitions}


def _bare(schema: Any) -> Any:
    """Without what nothing is checked by, and with references inside one file."""
    if isinstance(schema, list):
        return [_bare(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found: Schema = {}
    for key, value in schema.items():
        if key == "properties":
            found[key] = {name: _bare(one) for name, one in value.items()}
        elif key == "$ref":
            found[key] = f"#/definitions/{value.removeprefix(_REFERENCE)}"
        elif key == "x-kubernetes-preserve-unknown-fields":
            found["additionalProperties"] = True
        elif key not in {"description", "default"} and not key.startswith("x-"):
            found[key] = _bare(value)
    return found


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, list):
        for one in schema:
            yield from _references(one)
    elif isinstance(schema, dict):
        if isinstance(schema.get("$ref"), str):
            yield schema["$ref"].removeprefix("#/definitions/")
        for one in schema.values():
            yield from _references(one)


def _write(name: str, document: Schema) -> None:
    """A line for each definition: readable enough, and no larger than it must be."""
    lines = [
        f"{json.dumps(key)}: {json.dumps(value, separators=(',', ':'), sort_keys=True)}"
        for key, value in sorted(document["definitions"].items())
    ]
    kinds = json.dumps(dict(sorted(document["kinds"].items())))
    text = f'{{"kinds": {kinds},\n"definitions": {{\n' + ",\n".join(lines) + "\n}}\n"
    (HERE / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
