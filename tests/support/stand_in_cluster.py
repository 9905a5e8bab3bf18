# SPDX-License-Identifier: Apache-2.0
"""A cluster that has a study which really ran: what is asked of it comes from the results folder of that run."""

from pathlib import Path
from typing import Any

import stored_analysis
from gpubench import names
from gpubench.api.benchmark_status import FullStatus
from gpubench.scheduler import ledger, manifests
from gpubench.scheduler.observed import Study
from gpubench_cli import documents, results
from gpubench_cli.cluster import Cluster


class StandInCluster(Cluster):
    """What `export` asks a cluster for, from the results folder of a real run."""

    host = "https://cluster"
    namespace = "default"

    def __init__(self, folder: Path, *, gone: frozenset[str] = frozenset()) -> None:
        self._folder = folder
        self._gone = gone  # names of logs
        self._summary = results.read_summary(folder)
        benchmark = documents.read(folder / results.STUDY).benchmark(None)
        self._study = Study(
            namespace="default", name=benchmark.name, uid=self._summary.uid, generation=1, created_at=0.0,
            spec=benchmark.spec,
        )  # fmt: skip

    def benchmark(self, name: str) -> dict[str, Any]:
        return {
            "metadata": {"name": name, "uid": self._summary.uid},
            "spec": self._study.spec.to_wire(),
            "status": self._stored()[0],
        }

    def status(self) -> FullStatus:
        return self._summary.status

    def config_map(self, name: str) -> dict[str, Any] | None:
        return self._stored()[1].get(name)

    def _stored(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        return stored_analysis.stored(self._study, self.status())

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        assert uid == self._summary.uid
        plan = results.read_plan(self._folder).model_copy(update={"study_digest": None})
        found = results.read_ledger(self._folder)
        shards = (
            ledger.to_entries((found.new_nodes, *found.records[:2])),
            ledger.to_entries(found.records[2:]) | ledger.environment_entries(found.environments),
        )
        foreign = {"metadata": {"name": "kube-root-ca.crt", "labels": {}}, "data": {"ca.crt": "x"}}
        return (
            foreign,
            manifests.plan_config_map(self._study, plan),
            *(manifests.ledger_config_map(self._study, number, entries) for number, entries in enumerate(shards)),
        )

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        assert uid == self._summary.uid
        return tuple(
            {
                "metadata": {
                    "name": str(name),
                    "labels": {
                        names.LABEL_TRIAL: name.trial,
                        names.LABEL_ATTEMPT: str(name.attempt),
                        "batch.kubernetes.io/job-completion-index": str(name.pod),
                    },
                }
            }
            for name in results.log_names(self._folder)
        )

    def log(self, pod: str, **_: Any) -> bytes | None:
        """As a kubelet keeps it: what the pod wrote and what it said, mixed."""
        if pod in self._gone:
            return None
        path = self._folder / "logs" / pod
        said = path.with_suffix(".err").read_bytes().splitlines(keepends=True)
        wrote = path.read_bytes().splitlines(keepends=True)
        return b"".join([*said[:1], *wrote[:2], *said[1:], *wrote[2:]])
