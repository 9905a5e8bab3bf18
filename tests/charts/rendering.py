# SPDX-License-Identifier: Apache-2.0
"""The chart, rendered by a Helm of our own, as tests look at it.

    PYTHONPATH=tests/cluster:tests/support python tests/charts/rendering.py

writes `default.yaml` anew: the default rendering, which a test pins.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

import helm_programs

HERE = Path(__file__).resolve().parent
CHART = HERE.parents[1] / "charts" / "gpubench"
PINNED = HERE / "default.yaml"
RELEASE, NAMESPACE = "gpubench", "gpubench-system"
_HEADER = """\
# What `helm template gpubench charts/gpubench --namespace gpubench-system` gives, but for the specs of the CRDs, which
# are files of the chart. Written by tests/charts/rendering.py; read what a change of it means before you commit it.
# yamllint disable rule:indentation rule:line-length
"""
Object = dict[str, Any]
# What Helm prints of two versions differs in empty lines only; libyaml reads a CRD ten times as fast.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Refused(Exception):
    """Helm's own words, why it renders nothing."""


def template(
    helm: Path,
    values: Mapping[str, Any] | None = None,
    *,
    chart: Path = CHART,
    release: str = RELEASE,
    apis: Sequence[str] = (),
    kubernetes: str = "1.33.0",
) -> tuple[str, ...]:
    """The text of each manifest, in Helm's order."""
    command = [str(helm), "template", release, str(chart), "--namespace", NAMESPACE, "--kube-version", kubernetes]
    command += [word for api in apis for word in ("--api-versions", api)]
    done = subprocess.run(
        [*command, "--values", "-"], input=json.dumps(values or {}), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise Refused(done.stderr)
    documents = (part.strip() for part in f"\n{done.stdout}".split("\n---\n"))
    return tuple(document for document in documents if document)


def policies(helm: Path, *, account: str, **values: Any) -> list[Object]:
    """The admission policies of an installation whose operator has this account."""
    own = {"serviceAccount": {"create": False, "name": account}, "crds": {"enabled": False}}
    found = objects(template(helm, {"fullnameOverride": "gpubench", **own, **values}))
    return [body for body in found if body["kind"].startswith("ValidatingAdmissionPolicy")]


def objects(manifests: Sequence[str]) -> list[Object]:
    """The manifests as values."""
    return [yaml.load(manifest, Loader=_LOADER) for manifest in manifests]  # noqa: S506 (a safe loader)


def of_kind(found: Sequence[Object], kind: str) -> list[Object]:
    """The objects of a kind."""
    return [body for body in found if body["kind"] == kind]


def pinned(helm: Path) -> str:
    """The default rendering as it is committed."""
    found = objects(template(helm))
    for body in of_kind(found, "CustomResourceDefinition"):
        body["spec"] = (
            f"as in charts/gpubench/files/crds/gpubench.dev_{body['metadata']['name'].partition('.')[0]}.yaml"
        )
    found.sort(key=lambda body: (body["kind"], body["metadata"]["name"]))
    return _HEADER + "".join(f"---\n{yaml.safe_dump(body, width=120)}" for body in found)


def main() -> int:
    PINNED.write_text(pinned(helm_programs.build()["helm4"]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
