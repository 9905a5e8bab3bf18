# SPDX-License-Identifier: Apache-2.0
"""A study with all that is stored of it: spec, plan, attempts, status; from its results folder or from the cluster.

Must not happen: figures are computed from a study file that is not the one that was planned.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.scheduler.ledger import Ledger
from gpubench_cli import documents, export, results
from gpubench_cli.refusal import Refusal


class StoredStudy(NamedTuple):
    """One study and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    written: Any  # the spec as its user wrote it
    spec: GpuBenchmarkSpec
    plan: Plan
    ledger: Ledger
    status: GpuBenchmarkStatus
    repriced: results.Repriced | None = None


def find(name: str, *, namespace: str | None) -> StoredStudy:
    """A study by its results folder, or by the name of its object."""
    path = Path(name)
    if results.is_results_folder(path):
        return of_folder(path)
    if path.is_dir() or "/" in name:
        raise Refusal(f"{name}: this is no results folder of `gpubench run`")
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with cluster.connect(namespace) as place:
        return of_cluster(place, name, source=f"namespace {place.namespace}")


def of_folder(path: Path) -> StoredStudy:
    """The study of a results folder."""
    summary, plan = results.read_summary(path), results.read_plan(path)
    if not results.study_is_as_planned(path, plan):
        raise Refusal(
            f"{results.study_path(path)}: it is not the file that plan.json was made of: `gpubench verify` says what "
            "was changed"
        )
    return StoredStudy(
        name=summary.name,
        source=str(path),
        written=export.folder_spec(path, summary.name),
        spec=documents.read(results.study_path(path)).benchmark(summary.name).spec,
        plan=plan,
        ledger=results.read_ledger(path),
        status=summary.status,
        repriced=summary.repriced,
    )


def of_cluster(place: export.Place, name: str, *, source: str) -> StoredStudy:
    """The study of an object that has begun. Reads only."""
    body: Mapping[str, Any] = place.benchmark(name)
    uid = str(body["metadata"]["uid"])
    plan, attempts = export.stored(place.config_maps(uid), name=name, uid=uid)
    return StoredStudy(
        name=name,
        source=source,
        written=body.get("spec"),
        spec=export.read_spec(body.get("spec"), name=name),
        plan=plan,
        ledger=attempts,
        status=export.read_status(body.get("status"), name=name),
    )
