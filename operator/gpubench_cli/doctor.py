# SPDX-License-Identifier: Apache-2.0
"""`gpubench doctor`: whether the current cluster can run studies, line by line, each with what to do.

It asks, and writes nothing: no pod is started, no image pulled. Must not happen: that one question that is not answered
leaves the others unasked.
"""

import argparse
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from gpubench import names, permissions
from gpubench.analysis import preflight
from gpubench.analysis.preflight import Answer, Finding, State
from gpubench.api import schema, validate
from gpubench.api.pool import GpuPool
from gpubench.units import epoch_seconds
from gpubench_cli import refusal, terminal
from gpubench_cluster import kube

if TYPE_CHECKING:
    from gpubench_cli.cluster import Cluster

_OPERATOR = "gpubench-system/gpubench-operator"
_CHARTS_OWN = "app.kubernetes.io/name=gpubench,app.kubernetes.io/component=operator"
_RUN_STUDIES = (
    *((verb, names.GROUP, names.BENCHMARK_PLURAL) for verb in ("create", "get", "list", "watch", "patch", "delete")),
    ("list", names.GROUP, names.POOL_PLURAL),
    *(("list", "", resource) for resource in ("configmaps", "pods", "events")),
    ("get", "", "pods/log"),
)


class _Installed:
    """The operator as the chart has installed it, or as --operator says."""

    def __init__(self, deployment: Mapping[str, Any] | None, *, given: str | None) -> None:
        metadata = {} if deployment is None else deployment["metadata"]
        pod = {} if deployment is None else deployment["spec"]["template"]["spec"]
        set_to = {one["name"]: one.get("value", "") for one in (pod.get("containers") or [{}])[0].get("env") or []}
        namespace, _, name = (given or _OPERATOR).partition("/")
        if given is None and deployment is not None:
            namespace, name = metadata["namespace"], metadata["name"]
        self.namespace = namespace
        self.account, self.lease = f"{namespace}/{name}", name
        if given is None:  # what somebody says counts more than what is found
            self.account = f"{namespace}/{pod.get('serviceAccountName') or name}"
            self.lease = set_to.get("GPUBENCH_LEASE_NAME") or name
        self.image = set_to.get("GPUBENCH_JOBS_IMAGE") or names.JOBS_IMAGE
        self.serves: tuple[str | None, ...] = tuple(
            filter(None, set_to.get("GPUBENCH_WATCH_NAMESPACES", "").split(","))
        )
        self.serves = self.serves or (None,)


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "doctor",
        help="whether the current cluster can run studies, and what to do where not",
        description="Look at the current cluster: API server, CRDs, permissions, operator, GPUs, pools, network, DNS, "
        "storage. Each line is ok, a warning, or failed, and says what to do. Nothing is written to the cluster.",
        epilog="Exit codes: 0 nothing failed, 1 something did, 2 the cluster cannot be asked.",
    )
    parser.add_argument("-n", "--namespace", help="namespace of your studies; the kubeconfig's by default")
    parser.add_argument(
        "--operator",
        metavar="NAMESPACE/NAME",
        help=f"Lease and ServiceAccount of the operator; those of the chart's Deployment by default, else {_OPERATOR}",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Ask, judge, print."""
    from gpubench_cli import cluster  # noqa: PLC0415  # the client takes long to load

    with cluster.connect(arguments.namespace) as place:
        findings = list(examine(place, operator=arguments.operator))
    if arguments.output == "json":
        terminal.write(json.dumps([finding.to_wire() for finding in findings], indent=2, ensure_ascii=False))
    else:
        terminal.write("\n".join(_lines(findings, host=place.host)))
    failed = any(finding.state is State.FAILED for finding in findings)
    return refusal.EXIT_STUDY_FAILED if failed else refusal.EXIT_DONE


def examine(place: "Cluster", *, operator: str | None = None) -> Iterator[Finding]:
    """All findings, in the order in which things are needed."""
    version, now = place.version()  # who does not answer this answers nothing
    yield preflight.api_server(version)
    for kind in schema.KINDS:
        yield from _told(f"CRD {kind.kind}", functools.partial(_definition, place, kind))
    installed = _installed(place, given=operator)
    yield from _told("your permissions", lambda: [_person(place)])
    yield from _told("operator", lambda: [_operator(place, installed, now=now)])
    yield from _told("operator's permissions", lambda: [_rights(place, installed)])
    nodes: list[Mapping[str, Any]] = []
    yield from _told("nodes", lambda: _devices(place, nodes))
    pools: list[GpuPool] = []
    yield from _told("pools", lambda: list(_read_pools(place, pools)))
    for pool in pools:
        yield preflight.pool(pool, nodes)
    yield from preflight.images(_images(pools, default=installed.image), nodes)
    yield from _told("NetworkPolicy", lambda: [preflight.network(_daemons(place), nodes)])
    yield from _told("DNS", lambda: [preflight.dns(_endpoints(place))])
    yield from _told("storage", lambda: [preflight.storage(_storage_classes(place))])


def _told(area: str, ask: Callable[[], Iterable[Finding]]) -> Iterable[Finding]:
    """What was found, or that it could not be asked."""
    try:
        return tuple(ask())
    except kube.ApiError as error:
        return (preflight.unknown(area, str(error)),)


def _definition(place: "Cluster", kind: schema.Kind) -> Iterator[Finding]:
    name = f"{kind.plural}.{names.GROUP}"
    try:
        found = place.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", what=f"CRD {name}")
    except kube.NotFound:
        found = None
    yield preflight.definition(kind, found)


def _devices(place: "Cluster", nodes: list[Mapping[str, Any]]) -> Iterator[Finding]:
    """Fills in the nodes."""
    nodes.extend(place.nodes())
    yield preflight.devices(nodes)


def _installed(place: "Cluster", *, given: str | None) -> _Installed:
    try:
        found = place.get("/apis/apps/v1/deployments", what="Deployments", labelSelector=_CHARTS_OWN)["items"]
    except kube.ApiError:  # whoever may not see it can say where it is
        found = []
    return _Installed(found[0] if found else None, given=given)


def _person(place: "Cluster") -> Finding:
    answers = [
        Answer(
            verb=verb,
            resource=resource,
            allowed=place.may(_review(verb, group, resource, namespace=place.namespace)),
        )
        for verb, group, resource in _RUN_STUDIES
    ]
    return preflight.person(answers, namespace=place.namespace)


def _operator(place: "Cluster", installed: _Installed, *, now: float) -> Finding:
    name = f"{installed.namespace}/{installed.lease}"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{installed.namespace}/leases/{installed.lease}"
    try:
        lease = place.get(path, what=f"Lease {name}")
    except kube.NotFound:
        return preflight.operator(None, name=name, now=now, renewed=None)
    renewed = (lease.get("spec") or {}).get("renewTime")
    return preflight.operator(lease, name=name, now=now, renewed=None if renewed is None else epoch_seconds(renewed))


def _rights(place: "Cluster", installed: _Installed) -> Finding:
    area, account = "operator's permissions", f"ServiceAccount {installed.account}"
    try:
        return preflight.rights(area, list(_answers(place, installed)), account=account)
    except kube.Forbidden:
        return preflight.rights(area, None, account=account)


def _answers(place: "Cluster", installed: _Installed) -> Iterator[Answer]:
    """Whether the operator may do each thing that it does, where it does it."""
    for rule in permissions.RULES:
        places: Sequence[str | None] = (None,)
        if rule.scope is permissions.Scope.STUDIES:
            places = installed.serves
        elif rule.scope is permissions.Scope.OWN:
            places = (installed.namespace,)
        for namespace in places:
            for group in rule.groups:
                for resource in rule.resources:
                    for verb in rule.verbs:
                        review = _review(verb, group, resource, namespace=namespace)
                        yield Answer(
                            verb=verb,
                            resource=f"{resource}.{group}" if group else resource,
                            namespace=namespace,
                            allowed=place.may(review, account=installed.account),
                            scope=rule.scope,
                        )


def _review(verb: str, group: str, resource: str, *, namespace: str | None) -> dict[str, str]:
    kind, _, subresource = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": kind}
    attributes |= {"subresource": subresource} if subresource else {}
    return attributes | ({"namespace": namespace} if namespace else {})


def _read_pools(place: "Cluster", pools: list[GpuPool]) -> Iterator[Finding]:
    """Fills in those that can be read, and says which cannot, or that there are none."""
    listed = place.get(f"/apis/{names.API_VERSION}/{names.POOL_PLURAL}", what=f"{names.POOL_KIND}s")["items"]
    for item in listed:
        try:
            pools.append(validate.load_pool(item))
        except validate.InvalidObject as error:
            says = f"it cannot be read by this gpubench: {error.problems[0]}"
            yield Finding(area=f"pool {error.name}", state=State.WARNING, says=says, remedy="see the lines of the CRDs")
    if not listed:
        yield Finding(
            area="pools",
            state=State.WARNING,
            says=f"there is no {names.POOL_KIND}",
            remedy="gpubench pools discover proposes them from the nodes; or take one of jobs/studies/pools",
        )


def _images(pools: Sequence[GpuPool], *, default: str) -> dict[str, str]:
    """By whom each image is wanted; a study may name another one."""
    return {f"pool {pool.name}": pool.spec.template.image or default for pool in pools if pool.spec.measured_by is None}


def _daemons(place: "Cluster") -> Sequence[Mapping[str, Any]]:
    found: list[dict[str, Any]] = place.get("/apis/apps/v1/daemonsets", what="DaemonSets")["items"]
    return found


def _endpoints(place: "Cluster") -> Sequence[Mapping[str, Any]]:
    path = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
    found: list[dict[str, Any]] = place.get(
        path, what="EndpointSlices of kube-system", labelSelector="kubernetes.io/service-name=kube-dns"
    )["items"]
    return found


def _storage_classes(place: "Cluster") -> Sequence[Mapping[str, Any]]:
    found: list[dict[str, Any]] = place.get("/apis/storage.k8s.io/v1/storageclasses", what="StorageClasses")["items"]
    return found


def _lines(findings: Sequence[Finding], *, host: str) -> Iterator[str]:
    width = max(len(finding.area) for finding in findings)
    yield f"The cluster at {host}:"
    for finding in findings:
        yield f"{finding.state.value:<8}{finding.area:<{width}}  {finding.says}"
        if finding.remedy is not None:
            yield f"{'':<8}{'':<{width}}  -> {finding.remedy}"
    counted = {state: sum(finding.state is state for finding in findings) for state in State}
    yield f"{counted[State.OK]} ok, {counted[State.WARNING]} warnings, {counted[State.FAILED]} failed"
