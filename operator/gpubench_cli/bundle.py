# SPDX-License-Identifier: Apache-2.0
"""`gpubench doctor --bundle DIR`: a folder with which somebody who cannot reach the cluster can help.

One file for each kind of objects, the ends of logs, and README.md as their index. Must not happen: a Secret that is
read; an annotation, or the value of a variable, that may be one; a refusal that keeps the rest from being read.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpubench import names, sanitize
from gpubench_cli import distribution, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube

if TYPE_CHECKING:
    from gpubench_cli.cluster import Cluster

_LOG_LINES, _LOG_BYTES, _LOGS_MAX = 5000, 256 * 1024, 100  # the last of each log, and of the newest pods
_READ_BYTES = 8 * 1024 * 1024  # a program that writes endless lines must not fill our memory
_OURS = {names.LABEL_MANAGED_BY: names.MANAGED_BY}
DEPLOYMENTS = kube.Resource("apps/v1", "deployments")
#: Labels by which the chart marks what is the operator's.
OPERATOR = {"app.kubernetes.io/name": "gpubench", "app.kubernetes.io/component": "operator"}
_OF_CLUSTER = ("Node", names.POOL_KIND)  # whose Events are in `default`
#: How names of variables begin that set libraries, and annotations of queues, autoscalers and GPU schedulers.
_VARIABLES = ("GPUBENCH_", "NCCL_", "HOROVOD_", "TF_", "CUDA_", "NVIDIA_", "OMP_", "FI_", "LD_LIBRARY_PATH")
_ANNOTATIONS = tuple(
    f"{domain}/"
    for domain in (
        *(names.GROUP, names.KUEUE_GROUP, "batch.kubernetes.io", "cluster-autoscaler.kubernetes.io"),
        *("karpenter.sh", "hami.io", "volcano.sh"),
    )
)
#: What discovery and doctor read of a Node, but for its images.
_NODE = {
    "metadata": ("name", "labels", "annotations", "creationTimestamp"),
    "spec": ("providerID", "taints", "unschedulable"),
    "status": ("allocatable", "capacity", "conditions"),
}
_SEND = """\
No Secret was read. Values of variables are left out, but for those that set gpubench, NCCL, Horovod, TensorFlow, CUDA,
OpenMP and libfabric. Annotations are left out, but for those of gpubench, queues, autoscalers and GPU schedulers.

Still here: names of nodes, namespaces and images, ids of machines, prices, commands of your own workloads, Events and
logs. A program may write anything into its log. Look there before you send the folder."""


class Bundle:
    """A folder that is being filled, what is in it, and what could not be read."""

    def __init__(self, path: Path) -> None:
        """CliError where there is something already, or a folder cannot be made."""
        self.path = path
        self._files: dict[str, str] = {}
        self._missing: list[str] = []
        with terminal.writing(path, "the bundle"):
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise CliError(f"{path} is not empty: name a folder for --bundle that is empty, or not there yet")

    def fill(self, place: "Cluster", findings: Sequence[Mapping[str, Any]], *, text: str, operator: str) -> str:
        """All that may be read of the cluster; a message for the terminal. `operator` is the operator's namespace."""
        here: dict[str, Any] = {"namespace": place.namespace}
        ours = {**here, "labels": _OURS}
        there: dict[str, Any] = {"namespace": operator, "labels": OPERATOR}
        self._write("findings.json", json.dumps(findings, indent=1), "what doctor has found, for programs")
        self._list(place, kube.POOLS)
        self._list(place, kube.NODES)
        self._list(place, kube.SCHEDULES, **here)
        self._list(place, kube.CONFIG_MAPS, **ours)
        self._list(place, kube.JOBS, **ours)
        self._list(place, kube.Resource("apps/v1", "daemonsets"))
        self._list(place, DEPLOYMENTS, **there)
        with self._reading("resourceslices.json"):
            version = place.get("/apis/resource.k8s.io", what="ResourceSlices")["preferredVersion"]["groupVersion"]
            self._list(place, kube.Resource(version, "resourceslices", namespaced=False))
        benchmarks = self._list(place, kube.BENCHMARKS, **here)
        gangs, operators = self._list(place, kube.PODS, **ours), self._list(place, kube.PODS, "operator-pods", **there)
        with self._reading("events.json"):
            found = place.listed(kube.EVENTS, what="Events", **here)
            of_cluster = place.listed(kube.EVENTS, what="Events", namespace="default")
            self._write_list("events", _of_gangs(found, of_cluster, map(kube.name_of, benchmarks)))
        newest = sorted(gangs, key=lambda pod: str(pod["metadata"].get("creationTimestamp")), reverse=True)
        for pod in [*operators, *newest][:_LOGS_MAX]:
            self._log(place, pod)
        if len(gangs) + len(operators) > _LOGS_MAX:
            self._missing.append(f"logs: only those of the newest {_LOGS_MAX} pods were read")
        self._index(text, host=place.host, namespace=place.namespace)
        return f"{self.path}: {len(self._files)} files, {len(self._missing)} not read; see its README.md before sending"

    def _write(self, name: str, content: str, about: str) -> None:
        self._files[name] = about
        with terminal.writing(self.path, "the bundle"):
            (self.path / name).parent.mkdir(exist_ok=True)
            (self.path / name).write_text(f"{content}\n", encoding="utf-8")

    def _list(self, place: "Cluster", kind: kube.Resource, name: str | None = None, **of: Any) -> list[kube.Object]:
        found: list[kube.Object] = []
        with self._reading(f"{name or kind.plural}.json"):
            found += place.listed(kind, what=kind.plural, **of)
            self._write_list(name or kind.plural, found)
        return found

    def _write_list(self, name: str, found: Sequence[kube.Object]) -> None:
        reduced = {"nodes": _node, "daemonsets": _named}.get(name, cleaned)
        items = {"apiVersion": "v1", "kind": "List", "items": [reduced(one) for one in found]}
        self._write(f"{name}.json", json.dumps(items, indent=1, ensure_ascii=False), f"{len(found)} of them")

    def _log(self, place: "Cluster", pod: kube.Object) -> None:
        states = pod["status"].get("containerStatuses") or ()
        restarted = [(one["name"], {"previous": "true"}) for one in states if one.get("restartCount")]
        for container, which in [*((one["name"], {}) for one in pod["spec"]["containers"]), *restarted]:
            name = f"logs/{'.'.join((kube.name_of(pod), container, *which))}.log"
            limits = {"tailLines": str(_LOG_LINES), "limitBytes": str(_READ_BYTES), "container": container}
            with self._reading(name):
                said = place.log(kube.name_of(pod), namespace=kube.namespace_of(pod), **limits, **which)
                if said is None:
                    self._missing.append(f"{name}: the container has not started, or its node is gone")
                else:
                    kept = said[-_LOG_BYTES:]
                    self._write(name, kept.decode(errors="replace"), f"the last {len(kept):,} bytes")

    def _index(self, text: str, *, host: str, namespace: str) -> None:
        at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        made = f"Of {host}, namespace {namespace}, at {at}, by gpubench {distribution.version()}."
        findings = "\n".join(f"    {line}" for line in text.splitlines())
        files = "\n".join(f"* `{name}`: {about}" for name, about in sorted(self._files.items()))
        from gpubench.report import markdown  # noqa: PLC0415  # its imports are a long chain

        missing = "\n".join(f"* {markdown.text(one)}" for one in self._missing) or "Nothing."
        page = f"# What doctor saw\n\n{made}\n\n{_SEND}\n\n## Findings\n\n{findings}\n\n## Files\n\n{files}"
        self._write("README.md", sanitize.printable(f"{page}\n\n## What is missing, and why\n\n{missing}"), "this page")

    @contextmanager
    def _reading(self, what: str) -> Iterator[None]:
        try:
            yield
        except kube.ApiError as error:
            self._missing.append(f"{what}: {error}")


def cleaned(value: Any) -> Any:
    """An object without values that may be secret, and without what only the API server needs."""
    if isinstance(value, list):
        return [cleaned(one) for one in value]
    if not isinstance(value, dict):
        return value
    found = {key: cleaned(one) for key, one in value.items() if key != "managedFields"}
    if isinstance(marks := found.get("annotations"), dict):
        found["annotations"] = {key: text for key, text in marks.items() if key.startswith(_ANNOTATIONS)}
    if isinstance(data := found.get("data"), dict):  # of a ConfigMap: plan and analysis hold the pools' variables, too
        found["data"] = {key: _cleaned_text(str(text)) for key, text in data.items()}
    if {"name", "value"} <= found.keys() and not str(found["name"]).startswith(_VARIABLES):
        found["value"] = "(left out)"
    return found


def _cleaned_text(text: str) -> str:
    try:
        return json.dumps(cleaned(json.loads(text)), ensure_ascii=False)
    except ValueError:
        return text


def _node(body: kube.Object) -> kube.Object:
    parts = {part: {key: body[part][key] for key in keys if key in body[part]} for part, keys in _NODE.items()}
    return {"apiVersion": "v1", "kind": "Node", **cleaned(parts)}


def _named(body: kube.Object) -> kube.Object:
    return {"metadata": {"namespace": kube.namespace_of(body), "name": kube.name_of(body)}}


def _of_gangs(here: Iterable[kube.Object], default: Iterable[kube.Object], known: Iterable[str]) -> list[kube.Object]:
    """Events of benchmarks, deleted ones included, of their Jobs, Pods and Kueue's Workloads, of nodes and pools."""
    kinds = (names.BENCHMARK_KIND, names.SCHEDULE_KIND)
    about = [(one, one["involvedObject"].get("kind"), str(one["involvedObject"].get("name"))) for one in here]
    every = {*known, *(name for _, kind, name in about if kind in kinds)}
    begin = tuple(f"{before}{name}-" for name in every for before in ("", "job-"))  # a Workload of Kueue: job-JOB-...
    found = [one for one, kind, name in about if kind in kinds or name.startswith(begin)]
    return found + [one for one in default if one["involvedObject"].get("kind") in _OF_CLUSTER]
