# SPDX-License-Identifier: Apache-2.0
"""The cluster of a person's kubeconfig, one question at a time; `gpubench doctor`, `pools discover` and `drill`.

`doctor` reports line by line whether the cluster can run benchmarks, each with what to do: one question that is not
answered leaves no other unasked. `pools discover` proposes GpuPools from the nodes, as YAML; prices are those of a
catalogue, or missing: a made-up price becomes a made-up answer. `drill` interrupts a benchmark on purpose.

Must not happen: a write but of `spec.drill` (reviews of permissions are kept nowhere); a wait without a bound; a drill
that does nothing and says nothing.
"""

import asyncio
import contextlib
import email.utils
import functools
import json
import textwrap
import time
import uuid
from collections import Counter
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import click
import yaml
from pydantic import BaseModel, ValidationError

from gpubench import names, permissions, records, workloads
from gpubench.analysis import gang_check, node_facts, preflight, proposals, text
from gpubench.analysis.preflight import Answer, Finding, State
from gpubench.api import benchmark_status, schema, validate
from gpubench.api.attempts import Drill
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.pool import GpuPool
from gpubench.api.pool_price import CapacityType
from gpubench.plan.expand import freeze
from gpubench.sanitize import one_line
from gpubench.scheduler import capacity, conditions, manifests, observed
from gpubench.units import counted, epoch_seconds, rfc3339
from gpubench_cli import VERSION, catalogue, documents, options, terminal
from gpubench_cli.terminal import CliError
from gpubench_cluster import kube

_REQUEST_SECONDS = 30.0
_LOG_SECONDS = 60.0

#: Kinds that a person changes.
_KINDS = {kube.BENCHMARKS: names.BENCHMARK_KIND, kube.SCHEDULES: names.SCHEDULE_KIND}
#: What a merge patch must name so that nothing of the drill before is left.
_NO_DRILL = dict.fromkeys(field.alias or name for name, field in Drill.model_fields.items())

#: What a person reads in place of what a log says, by the code of an error (None: no answer) or by its kind.
_SENTENCES: dict[object, str] = {
    None: "the cluster at {host} does not answer: {reason}",
    401: "the cluster at {host} does not know you (401): log in again, or check the kubeconfig",
    kube.NotServed: f"gpubench is not installed in the cluster at {{host}}: it does not know {names.API_VERSION}",
    kube.NotFound: "there is no {what} in the cluster at {host}",
    kube.Forbidden: "no permission to {doing} {what}: {reason}",
    kube.TemporaryError: "the cluster at {host} could not answer ({code}): {reason}",
    kube.PermanentError: "the cluster at {host} refused to {doing} {what} ({code}): {reason}",
}

_Answer = TypeVar("_Answer")
_Model = TypeVar("_Model", bound=BaseModel)


class Cluster:
    """A cluster as a person's kubeconfig names it. Whatever is not answered is a kube.ApiError in a sentence."""

    def __init__(self, runner: asyncio.Runner, api: kube.Kube, *, host: str, namespace: str) -> None:
        self._runner = runner
        self._api = api
        self.host = host
        self.namespace = namespace

    def benchmark(self, name: str) -> dict[str, Any]:
        return self.named(kube.BENCHMARKS, name)

    def named(self, resource: kube.Resource, name: str) -> dict[str, Any]:
        """A benchmark or a schedule."""
        return self.get(resource.path(namespace=self.namespace, name=name), what=self._named(resource, name))

    def change(self, resource: kube.Resource, name: str, body: dict[str, Any]) -> dict[str, Any]:
        """A benchmark or a schedule after a merge patch."""
        path = resource.path(namespace=self.namespace, name=name)
        return self._asked("patch", path, what=self._named(resource, name), doing="change", body=body)

    def delete_benchmark(self, name: str, uid: str) -> bool:
        """Exactly this one, and with it all that belongs to it; False where it is not there any more."""
        asked = self._api.delete(kube.BENCHMARKS, name=name, namespace=self.namespace, uid=uid)
        return self._run(asked, what=self._named(kube.BENCHMARKS, name), doing="delete")

    def _named(self, resource: kube.Resource, name: str) -> str:
        return f"{_KINDS[resource]} {name} in namespace {self.namespace}"

    def table(self, resource: kube.Resource, *, namespace: str | None) -> dict[str, Any]:
        """Objects as the API server prints them for `kubectl get`; of all namespaces where none is given."""
        return self.get(resource.path(namespace=namespace), what=f"{_KINDS[resource]}s", accept=kube.TABLE)

    def pools(self) -> tuple[GpuPool, ...]:
        try:
            return tuple(map(validate.load_pool, self.listed(kube.POOLS, what=f"{names.POOL_KIND}s")))
        except validate.InvalidObject as error:
            raise CliError(
                f"{names.POOL_KIND} {error.name} of the cluster cannot be read by this gpubench: {error.problems[0]}"
            ) from error

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        """ConfigMaps that belong to a benchmark: its plan and its ledger."""
        return self.listed(
            kube.CONFIG_MAPS, what="ConfigMaps", namespace=self.namespace, labels={names.LABEL_BENCHMARK_UID: uid}
        )

    def config_map(self, name: str) -> dict[str, Any] | None:
        asked = self._api.get(kube.CONFIG_MAPS, name=name, namespace=self.namespace)
        return self._run(asked, what=f"ConfigMap {name} in namespace {self.namespace}")

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        return self.listed(kube.PODS, what="Pods", namespace=self.namespace, labels={names.LABEL_BENCHMARK_UID: uid})

    def log(self, pod: str) -> bytes | None:
        """All that a pod has said; None where the cluster has it no more: pod and node may be gone."""
        path = kube.PODS.path(namespace=self.namespace, name=pod, subresource="log")
        of_gang = {"container": names.CONTAINER}  # a webhook may have added others
        asked = self._api.ask("get", path, path, query=of_gang, absent=(), seconds=_LOG_SECONDS)
        try:
            return bytes(self._run(asked, what=f"the log of pod {pod}").data)
        except kube.ApiError as error:
            if error.code in (None, 401, 403):
                raise
            return None

    def get(self, path: str, *, what: str, accept: str = kube.JSON) -> dict[str, Any]:
        return self._asked("get", path, what=what, accept=accept)

    def version(self) -> tuple[dict[str, Any], float]:
        """What the API server says of itself, and what time it has there: its Leases are by that clock."""
        answer = self._run(self._api.ask("get", "version", "/version", absent=()), what="the version")
        said_at = answer.headers.get("Date") or email.utils.formatdate()
        return json.loads(answer.data), email.utils.parsedate_to_datetime(said_at).timestamp()

    def may(self, verb: str, group: str, resource: str, *, namespace: str | None, account: str | None = None) -> bool:
        """Whether somebody may do something: whoever asks, or a ServiceAccount `namespace/name`. It leaves no trace."""
        kind, _, subresource = resource.partition("/")
        attributes = {"verb": verb, "group": group, "resource": kind, "subresource": subresource}
        spec: dict[str, Any] = {"resourceAttributes": {**attributes, "namespace": namespace or ""}}
        kind = "SelfSubjectAccessReview"
        if account is not None:
            of, _, name = account.partition("/")
            of_all = ["system:serviceaccounts", f"system:serviceaccounts:{of}", "system:authenticated"]
            spec |= {"user": f"system:serviceaccount:{of}:{name}", "groups": of_all}
            kind = "SubjectAccessReview"
        reviews = kube.ACCESS_REVIEWS._replace(plural=f"{kind.lower()}s")
        body = {"apiVersion": reviews.version, "kind": kind, "spec": spec}
        answer = self._run(self._api.create(reviews, body), what=f"{kind}s", doing="ask for")
        return bool(answer is not None and answer["status"].get("allowed"))

    def dry_run(self, resource: kube.Resource, body: Mapping[str, Any]) -> dict[str, Any]:
        """An object as it would be created: nothing is kept."""
        path, what = resource.path(namespace=self.namespace), f"{resource.plural} by dry run"
        return self._asked("create", path, what=what, doing="create", query={"dryRun": "All"}, body=dict(body))

    def listed(
        self, resource: kube.Resource, *, what: str, namespace: str | None = None, **matching: Any
    ) -> tuple[dict[str, Any], ...]:
        """Objects of a kind, of all namespaces where none is given; `matching` is as `kube.Kube.list` takes it."""
        listed = self._api.list(resource, namespace=namespace, **matching)
        return tuple(self._run(listed, what=what if namespace is None else f"{what} in namespace {namespace}"))

    def _asked(self, verb: str, path: str, *, what: str, doing: str = "read", **request: Any) -> dict[str, Any]:
        answer = self._run(self._api.ask(verb, path, path, absent=(), **request), what=what, doing=doing)
        found: dict[str, Any] = json.loads(answer.data)
        return found

    def _run(self, asked: Coroutine[Any, Any, _Answer], *, what: str, doing: str = "read") -> _Answer:
        try:
            return self._runner.run(asked)
        except kube.ApiError as error:
            sentence = _SENTENCES.get(error.code) or _SENTENCES[type(error)]
            error.args = (sentence.format(host=self.host, what=what, doing=doing, **vars(error)),)
            raise


@contextlib.contextmanager
def connect(namespace: str | None = None) -> Iterator[Cluster]:
    """The cluster of the current context; a request is made only when something is asked."""
    with asyncio.Runner() as runner:
        asked = click.get_current_context(silent=True)
        chosen = {} if asked is None else asked.meta.get(options.CLUSTER, {})
        credentials, default = runner.run(kube.credentials(**chosen))
        api = kube.Kube(credentials, manager="gpubench", timeout=_REQUEST_SECONDS)
        try:
            yield Cluster(runner, api, host=credentials.host, namespace=namespace or default)
        finally:
            runner.run(api.close())


def valid(kind: type[_Model], content: object, *, what: str) -> _Model:
    """A part of an object of the cluster; CliError where another version of gpubench wrote it otherwise."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise CliError(
            f"{what} cannot be read by this gpubench: {records.first_error(error)}: is the operator of another version?"
        ) from error


def read_status(content: object, *, name: str) -> benchmark_status.GpuBenchmarkStatus:
    """The status of an object of the cluster; empty while the operator has not written one."""
    return valid(benchmark_status.GpuBenchmarkStatus, content or {}, what=f"the status of {name}")


def read_spec(content: object, *, name: str) -> GpuBenchmarkSpec:
    return valid(GpuBenchmarkSpec, content, what=f"the spec of {name}")


# --- gpubench doctor --------------------------------------------------------------------------------------------------


_OPERATOR = "gpubench-system/gpubench-operator"
_DEPLOYMENTS = kube.Resource("apps/v1", "deployments")
#: Labels by which the chart marks what is the operator's.
_OPERATOR_LABELS = {"app.kubernetes.io/name": "gpubench", "app.kubernetes.io/component": "operator"}
_RIGHTS = "operator's permissions"
_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_DAEMONS = kube.Resource("apps/v1", "daemonsets")
_SLICES = kube.Resource("discovery.k8s.io/v1", "endpointslices")
_DNS = {"kubernetes.io/service-name": "kube-dns"}
_RESOURCE_SLICES = kube.Resource("resource.k8s.io/v1", "resourceslices", namespaced=False)
_CLASSES = kube.Resource("storage.k8s.io/v1", "storageclasses", namespaced=False)
_NODE_POOLS = kube.Resource("karpenter.sh/v1", "nodepools", namespaced=False)
_QUOTAS, _LIMITS = kube.Resource("v1", "resourcequotas"), kube.Resource("v1", "limitranges")
_RUN_BENCHMARKS = (
    *((verb, names.GROUP, names.BENCHMARK_PLURAL) for verb in ("create", "get", "list", "watch", "patch", "delete")),
    ("list", names.GROUP, names.POOL_PLURAL),
    *(("list", "", resource) for resource in ("configmaps", "pods", "events")),
    ("get", "", "pods/log"),
)


class _Installed(NamedTuple):
    """The operator as the chart has installed it, or as --operator says."""

    namespace: str
    account: str  # namespace/name
    lease: str
    image: str
    priority_class: str
    serves: tuple[str | None, ...]  # namespaces; None: all of them
    version: str | None  # None where its Deployment is not found

    @classmethod
    def find(cls, place: Cluster, *, given: str | None) -> "_Installed":
        """From its Deployment. What somebody says counts more than what is found."""
        metadata, pod = {}, dict[str, Any]()
        with contextlib.suppress(kube.ApiError, IndexError):  # whoever may not see it can say where it is
            found = place.listed(_DEPLOYMENTS, what="Deployments", labels=_OPERATOR_LABELS)[0]
            metadata, pod = found["metadata"], found["spec"]["template"]["spec"]
        set_to = {one["name"]: one.get("value", "") for one in (pod.get("containers") or [{}])[0].get("env") or []}
        there = "{namespace}/{name}".format_map(metadata) if metadata else _OPERATOR
        namespace, _, name = (given or there).partition("/")
        account, lease = pod.get("serviceAccountName"), set_to.get("GPUBENCH_LEASE_NAME")
        return cls(
            namespace=namespace,
            account=f"{namespace}/{account if account and given is None else name}",
            lease=lease if lease and given is None else name,
            image=set_to.get("GPUBENCH_JOBS_IMAGE") or names.JOBS_IMAGE,
            priority_class=set_to.get("GPUBENCH_GANG_PRIORITY_CLASS") or "",
            serves=tuple(filter(None, set_to.get("GPUBENCH_WATCH_NAMESPACES", "").split(","))) or (None,),
            version=metadata.get("labels", {}).get("app.kubernetes.io/version"),
        )


@click.command("version")
@click.option("--client", is_flag=True, help="of this program alone: no cluster is asked")
@options.connection
def version(client: bool) -> None:
    """The versions of this program, of the cluster's operator and of its API server."""
    terminal.write(f"gpubench: {VERSION}")
    if not client:
        with connect() as place:
            server, _ = place.version()
            operator = _Installed.find(place, given=None).version or "not found: see gpubench doctor"
            terminal.write(f"operator: {operator}\nAPI server: {server['gitVersion']}")


@click.command("doctor", epilog="Exit codes: 0 nothing failed, 1 something did, 2 the cluster cannot be asked.")
@options.cluster
@click.option("--pool", metavar="POOL", help="try a gang of this pool alone; with -n those of all pools are tried")
@click.option(
    "--operator",
    metavar="NAMESPACE/NAME",
    help=f"Lease and ServiceAccount of the operator; those of the chart's Deployment by default, else {_OPERATOR}",
)
@options.output("text", "json")
def doctor(namespace: str | None, pool: str | None, operator: str | None, output: str) -> int:
    """Check the current cluster: API server, CRDs, permissions, operator, GPUs, pools, network, DNS, storage.

    With -n or --pool, also what the namespace makes of a gang's Job and pod, by dry run. Each line is ok, a warning,
    or failed, and says what to do. Nothing is written to the cluster.
    """
    with connect(namespace) as place:
        findings = examine(place, operator=operator, tries_gangs=namespace is not None, gang_of=pool)
    if output == "json":
        terminal.write_document([finding.to_wire() for finding in findings])
    else:
        _say(findings, host=place.host)
    return terminal.exit_code(all(finding.state is not State.FAILED for finding in findings))


def examine(
    place: Cluster, *, operator: str | None = None, tries_gangs: bool = False, gang_of: str | None = None
) -> list[Finding]:
    """All findings, in the order in which things are needed; gangs are tried of all pools, or of one."""
    version, now = place.version()  # who does not answer this answers nothing
    found = [preflight.api_server(version)]

    asking = functools.partial(_asking, found)
    for kind in schema.KINDS:
        name, definition = f"{kind.plural}.{names.GROUP}", None
        with asking(f"CRD {kind.kind}"):
            with contextlib.suppress(kube.NotFound):
                definition = place.get(f"{_DEFINITIONS}/{name}", what=f"CRD {name}")
            found.append(preflight.definition(kind, definition))
    installed = _Installed.find(place, given=operator)
    with asking("your permissions"):
        answers = [
            Answer(verb=verb, resource=resource, allowed=place.may(verb, group, resource, namespace=place.namespace))
            for verb, group, resource in _RUN_BENCHMARKS
        ]
        found.append(preflight.person(answers, namespace=place.namespace))
    with asking("operator"):
        found.append(_operator(place, installed, now=now))
    with asking(_RIGHTS):
        found.append(_rights(place, installed))
    nodes: Sequence[Mapping[str, Any]] = ()
    with asking("nodes"):
        nodes = place.listed(kube.NODES, what="Nodes")
        found += preflight.devices(nodes, _claimable(place), now=now)
    pools: list[GpuPool] = []
    with asking("pools"):
        found += _read_pools(place, pools)
    found += [preflight.pool(pool, nodes, pools, now=now) for pool in pools]
    measured = [pool for pool in pools if pool.spec.measured_by is None]
    with contextlib.suppress(kube.ApiError):  # there is no Karpenter, or it is not for this person to see
        node_pools = place.listed(_NODE_POOLS, what="NodePools")
        longest = preflight.longest_trials(_unfinished(place), pools) if node_pools else {}
        for pool in measured:
            found += preflight.expiry(pool, node_pools, trial_seconds=longest.get(pool.name, 0.0))
    found += preflight.images(
        {f"pool {pool.name}": pool.spec.template.image or installed.image for pool in measured}, nodes
    )
    with asking("NetworkPolicy"):
        found.append(preflight.network(place.listed(_DAEMONS, what="DaemonSets"), nodes))
    with asking("DNS"):
        found.append(preflight.dns(place.listed(_SLICES, what="EndpointSlices", namespace="kube-system", labels=_DNS)))
    with asking("storage"):
        found.append(preflight.storage(place.listed(_CLASSES, what="StorageClasses")))
    if tries_gangs or gang_of is not None:
        with asking("gang"):
            found += _gangs(place, measured, installed, only=gang_of)
    return found


@contextlib.contextmanager
def _asking(found: list[Finding], area: str) -> Iterator[None]:  # one that is not answered leaves no other unasked
    try:
        yield
    except kube.ApiError as error:
        found.append(preflight.unknown(area, str(error)))


def _gangs(place: Cluster, pools: Sequence[GpuPool], installed: _Installed, *, only: str | None) -> Iterator[Finding]:
    chosen = [pool for pool in pools if only in (None, pool.name)]
    if only is not None and not chosen:
        raise CliError(f"--pool {only}: the cluster has no GpuPool of this name that is measured; see gpubench doctor")
    yield from gang_check.merged({pool.name: _gang(place, pool, installed) for pool in chosen})
    if chosen:
        yield gang_check.beforehand()


def _gang(place: Cluster, pool: GpuPool, installed: _Installed) -> list[Finding]:
    """What the namespace makes of a gang of two nodes, or of one where the pool has no more."""
    template = pool.spec.template.model_copy(update={"image": pool.spec.template.image or installed.image})
    pool = pool.model_copy(update={"spec": pool.spec.model_copy(update={"template": template})})
    nodes, per_node = min(2, pool.spec.max_nodes), 1 if pool.spec.is_cut else pool.spec.slots_per_node
    ranks = {"workers": [per_node * nodes], "workersPerNode": per_node}  # instances of MIG are one to a pod
    block = {"workloads": ["mnist_cnn"], "pools": [pool.name], "batchPerWorker": [64], **ranks}
    spec = GpuBenchmarkSpec.model_validate({"sweep": [block], "measure": {"repeats": {"min": 1}}})
    plan = freeze(spec, (pool,), rfc3339(time.time()))
    study = observed.Study.of_spec(spec, namespace=place.namespace, name="doctor", uid=str(uuid.uuid4()))
    gang = capacity.gang_of(plan, plan.trials[0], attempt=1)
    sent = manifests.job(study, plan, gang, priority_class=installed.priority_class)
    found = list[Finding]()
    asking = functools.partial(_asking, found)
    for area, resource, body in (
        ("gang's Service", kube.SERVICES, manifests.service(study)),
        ("gang's Secret", kube.SECRETS, manifests.token(study, "doctor")),
        ("gang's ConfigMap", kube.CONFIG_MAPS, manifests.plan_config_map(study, plan)),
        ("gang's NetworkPolicy", kube.NETWORK_POLICIES, manifests.network_policy(study, plan)),
    ):
        if made := _dry_run(place, area, resource, body, found):
            found += gang_check.kept(area, body, made)
    if job := _dry_run(place, gang_check.JOB, kube.JOBS, sent, found):
        found += gang_check.job(sent, job)
    body = gang_check.pod_of_job(job or sent)
    if pod := _dry_run(place, gang_check.POD, kube.PODS, body, found):
        found += gang_check.pod(sent, body, pod)
    here, is_taken = place.namespace, bool(pod)
    with asking(gang_check.QUOTA):
        quotas = place.listed(_QUOTAS, what="ResourceQuotas", namespace=here)
        found += gang_check.quotas(quotas, pod or body, gang=nodes, most=pool.spec.max_nodes)
    with asking(gang_check.LIMITS):
        found.append(gang_check.limits(place.listed(_LIMITS, what="LimitRanges", namespace=here), is_taken=is_taken))
    with asking(gang_check.LEVEL):
        namespace = place.get(kube.NAMESPACES.path(name=here), what=f"Namespace {here}")
        found.append(gang_check.level(namespace, is_taken=is_taken))
    return found


def _dry_run(
    place: Cluster, area: str, resource: kube.Resource, body: Mapping[str, Any], found: list[Finding]
) -> dict[str, Any]:
    """An object as it comes back; empty where it does not, with a finding that says why."""
    kind, group = resource.plural, resource.version.rpartition("/")[0]
    if not place.may("create", group, kind, namespace=place.namespace):
        found.append(gang_check.lacking(area, kind, namespace=place.namespace))
        return {}
    try:
        return place.dry_run(resource, body)
    except kube.ApiError as error:
        is_said, unanswered = error.code not in (None, 401), preflight.unknown(area, str(error))
        found.append(gang_check.refused(area, one_line(error.reason)) if is_said else unanswered)
    return {}


def _operator(place: Cluster, installed: _Installed, *, now: float) -> Finding:
    name, lease = f"{installed.namespace}/{installed.lease}", None
    with contextlib.suppress(kube.NotFound):
        lease = place.get(kube.LEASES.path(namespace=installed.namespace, name=installed.lease), what=f"Lease {name}")
    renewed = ((lease or {}).get("spec") or {}).get("renewTime")
    return preflight.operator(lease, name=name, now=now, renewed=None if renewed is None else epoch_seconds(renewed))


def _rights(place: Cluster, installed: _Installed) -> Finding:
    """Whether the operator may do each thing that it does, where it does it."""
    account, answers = f"ServiceAccount {installed.account}", []
    where: dict[permissions.Scope, tuple[str | None, ...]]
    where = {permissions.Scope.STUDIES: installed.serves, permissions.Scope.OWN: (installed.namespace,)}
    try:
        for rule in permissions.RULES:
            places = where.get(rule.scope, (None,))
            for namespace, group, resource, verb in product(places, rule.groups, rule.resources, rule.verbs):
                allowed = place.may(verb, group, resource, namespace=namespace, account=installed.account)
                full = f"{resource}.{group}".removesuffix(".")
                answers.append(Answer(verb=verb, resource=full, namespace=namespace, allowed=allowed, scope=rule.scope))
    except kube.Forbidden:
        return preflight.rights(_RIGHTS, None, account=account)
    return preflight.rights(_RIGHTS, answers, account=account)


def _read_pools(place: Cluster, pools: list[GpuPool]) -> Iterator[Finding]:
    """Fills in those that can be read, and says which cannot, or that there are none."""
    listed = place.listed(kube.POOLS, what=f"{names.POOL_KIND}s")
    for item in listed:
        try:
            pools.append(validate.load_pool(item))
        except validate.InvalidObject as error:
            says = f"it cannot be read by this gpubench: {error.problems[0]}"
            yield preflight.warning(f"pool {error.name}", says, "see the lines of the CRDs")
    if not listed:
        remedy = "gpubench pools discover proposes them from the nodes; or take one of jobs/examples/pools"
        yield preflight.warning("pools", f"there is no {names.POOL_KIND}", remedy)


def _unfinished(place: Cluster) -> Iterator[GpuBenchmarkSpec]:  # as far as they can be read
    with contextlib.suppress(kube.ApiError):
        for body in place.listed(kube.BENCHMARKS, what=f"{names.BENCHMARK_KIND}s", namespace=place.namespace):
            if not (body.get("status") or {}).get("completionTime"):
                with contextlib.suppress(validate.InvalidObject):
                    yield validate.load_benchmark(body).spec


def _say(findings: Sequence[Finding], *, host: str) -> None:
    width = max(len(finding.area) for finding in findings)
    hang = " " * (10 + width)
    terminal.say(f"The cluster at {host}:")
    for finding in findings:
        terminal.say(f"{finding.state.value:<8}{finding.area:<{width}}  {finding.says}", hang=hang)
        if finding.remedy is not None:
            terminal.say(f"{hang}-> {finding.remedy}", hang=hang)
    counts = Counter(finding.state for finding in findings)
    terminal.say(f"{counts[State.OK]} ok, {counts[State.WARNING]} warnings, {counts[State.FAILED]} failed")


# --- gpubench pools discover ------------------------------------------------------------------------------------------


_COLUMNS = 120
_FOR_GPUS, _FOR_PROCESSORS = "resnet50", "mnist_cnn"
_NODES_NAMED = 5
_HEAD = (
    "GpuPools that the nodes of a cluster suggest. To fill in: what each costs. To look at: maxNodes is how many nodes "
    "there are now, raise it to what an autoscaler may add; slot leaves "
    f"{proposals.DAEMON_PROCESSORS} processors and 1 GiB of a node to its daemons, lower it where pods stay pending "
    "for Insufficient cpu or memory."
)
_PRICE = """\
  # What a node costs: fill it in and uncomment it. Without it there are no costs, and results say so.
  # price:
  #   perNodeHour: PRICE             # such as "10.21": a decimal number in quotes
  #   currency: USD
  #   asOf: DAY                      # on which it was read, such as 2026-11-01
  #   source: PAGE                   # where it was read
"""
_OWNERSHIP = """\
  # What a node of your own costs: fill it in and uncomment it. Without it there are no costs, and results say so.
  # ownership:
  #   purchase: PRICE                # of one node, such as "2800": a decimal number in quotes
  #   lifetimeMonths: MONTHS         # over which it is written off
  #   hoursPerMonth: HOURS           # in which it is really used
  #   watts: WATTS                   # under load
  #   idleWatts: WATTS
  #   perKilowattHour: PRICE
  #   currency: USD
  #   asOf: DAY                      # such as 2026-11-01
"""


@click.group("pools")
def pools() -> None:
    """GpuPools of a cluster."""


_nodes = click.option(
    "--nodes",
    metavar="FILE",
    help="nodes from a file, not a cluster: what `kubectl get nodes -o json` or -o yaml wrote; - is standard input",
)
_prices = click.option(
    "--prices", type=options.PATH, metavar="DIR", help="prices from a checkout of skypilot-org/skypilot-catalog"
)


@pools.command("discover")
@options.connection
@_nodes
@click.option("--cpu", is_flag=True, help="pools of nodes without GPUs, too, where there are GPUs")
@click.option("--all", "every", is_flag=True, help="pools also of nodes that are in a GpuPool already")
@_prices
def discover(nodes: str | None, cpu: bool, every: bool, prices: Path | None) -> None:
    """Propose GpuPools from the nodes of the current cluster.

    One for each kind of nodes, from their labels, taints and resources, as YAML on standard output. Nothing is written
    to the cluster. Prices are from --prices, or for you to fill in.
    """
    _, proposed = _proposed(nodes, cpu=cpu, every=every, prices=prices)
    _write(proposed)


def _proposed(
    source: str | None, *, cpu: bool = False, every: bool = False, prices: Path | None, taken: bool = False
) -> tuple[tuple[GpuPool, ...], list[proposals.Proposal]]:
    """Pools of the cluster that are run, and proposals: CliError without these, unless pools may be `taken`."""
    listed, existing, claimable = (_nodes_of(source), (), {}) if source is not None else _of_cluster(every=every)
    found = proposals.proposals(listed, existing=existing, claimable=claimable, processors=cpu)
    for message in found.left_out:
        terminal.tell(f"left out: {one_line(message)}")
    existing = tuple(one for one in existing if one.spec.measured_by is None)
    if not found.pools and not (taken and existing):
        raise CliError(
            f"none of the {len(listed)} nodes suggests a {names.POOL_KIND}: where nodes come only when a pod asks for "
            "them, write the pool by hand (examples: jobs/examples/pools)"
        )
    nodes = {node_facts.name(node): node for node in listed}
    return existing, [
        one if prices is None else _with_price(prices, one, [nodes[name] for name in one.nodes]) for one in found.pools
    ]


def _write(proposed: Sequence[proposals.Proposal], *further: str) -> None:
    written = ["".join(_commented(_HEAD)), *map(proposal_document, proposed)] if proposed else []
    terminal.write("---\n".join((*written, *further)))


@click.command("init")
@options.connection
@_nodes
@_prices
@click.option("--name", default="first", metavar="NAME", help="of the benchmark", show_default=True)
@click.option(
    "--workload",
    "trained",
    type=click.Choice(workloads.NAMES),
    multiple=True,
    metavar="NAME",
    help=f"again for each; by default {_FOR_GPUS}, or {_FOR_PROCESSORS} where there are no GPUs",
)
@click.option("--workers", type=int, multiple=True, metavar="NUMBER", help="again for each; 1 and a whole node if none")
@click.option("--budget", metavar="AMOUNT", help="limits.budget, such as 20: every pool needs a price then")
def init(
    *, nodes: str | None, prices: Path | None, name: str, trained: Sequence[str], workers: Sequence[int], budget: str
) -> None:
    """Write a benchmark for the current cluster, and the GpuPools that `pools discover` proposes, on standard output.

    GpuPools that the cluster has are measured, not written. Nothing is written to the cluster: `gpubench plan -f FILE`
    shows what would run, `kubectl apply -f FILE` starts it.
    """
    existing, proposed = _proposed(nodes, prices=prices, taken=True)
    every = [*existing, *(one.pool for one in proposed)]
    measured = [one for one in every if one.spec.has_gpus] or every
    sweep = [
        {
            "workloads": [one],
            "pools": [pool.name for pool in measured],
            "workers": list(workers) or sorted({1, *(pool.spec.slots_per_node for pool in measured)}),
            "batchPerWorker": [workloads.find(one).default_batch],
        }
        for one in trained or (_FOR_GPUS if measured[0].spec.has_gpus else _FOR_PROCESSORS,)
    ]
    spec = {"sweep": sweep, "measure": {"repeats": {"min": 3}}, **({"limits": {"budget": budget}} if budget else {})}
    document = documents.as_object(names.BENCHMARK_KIND, name, spec)
    try:
        validate.load_benchmark(document)
    except validate.InvalidObject as error:
        raise CliError(*map(str, error.problems)) from error
    _write(proposed, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))


#: What catalogues list; a reservation has a price of its own.
_LISTED = (CapacityType.ON_DEMAND, CapacityType.SPOT, CapacityType.PREEMPTIBLE)


def _with_price(folder: Path, proposal: proposals.Proposal, nodes: Sequence[Mapping[str, Any]]) -> proposals.Proposal:
    """With its price by the catalogue, or a remark that says why there is none."""
    spec, labels = proposal.pool.spec, [node_facts.labels(node) for node in nodes]
    regions = {one.get(names.LABEL_REGION, "") for one in labels}
    try:
        if proposal.place is None or proposal.instance_type is None:
            raise CliError("it is of no cloud: no catalogue has its price")
        if len(regions) > 1 or "" in regions:
            raise CliError(f"its nodes are not in one region that their label {names.LABEL_REGION} names: no price")
        if spec.capacity_type not in _LISTED or not spec.exclusive_nodes:
            what = "a slot is a part of a GPU" if spec.capacity_type in _LISTED else f"it is {spec.capacity_type.value}"
            raise CliError(f"{what}: no catalogue has its price")
        machine = catalogue.Machine(
            provider=proposal.place,
            instance_type=proposal.instance_type,
            region=regions.pop(),
            zones=tuple({one.get(names.LABEL_ZONE, "") for one in labels}),
            is_spot=spec.capacity_type is not CapacityType.ON_DEMAND,
            gpu=spec.accelerator,
            gpus=spec.slots_per_node if spec.has_gpus else 0,
        )
        found = catalogue.priced(folder, machine)
    except CliError as error:
        return proposal.model_copy(update={"remarks": (*proposal.remarks, f"No price: {error.args[0]}.")})
    priced = proposal.pool.model_copy(update={"spec": spec.model_copy(update={"price": found.price})})
    remarks = filter(None, (*proposal.remarks, found.remark))
    return proposal.model_copy(update={"pool": priced, "remarks": tuple(remarks)})


def proposal_document(proposal: proposals.Proposal) -> str:
    """A proposal as YAML, with what a person must know above it, and what is to be filled in below."""
    machine = f" ({proposal.instance_type})" if proposal.instance_type else ""
    shown = text.shortened(proposal.nodes, most=_NODES_NAMED)
    head = f"{counted(len(proposal.nodes), 'node')}{machine}, {proposal.ready} ready: {shown}."
    content = documents.written(names.POOL_KIND, proposal.pool.name, proposal.pool.spec)
    content["spec"] = {"capacityType": proposal.pool.spec.capacity_type.value, **content["spec"]}
    to_fill_in = [_PRICE, *([_OWNERSHIP] if proposal.place is None else [])]
    return "".join(
        (
            *_commented(head, *proposal.remarks),
            yaml.safe_dump(content, sort_keys=False, allow_unicode=True),
            *(to_fill_in if proposal.pool.spec.price is None else ()),
        )
    )


def _commented(*messages: str) -> Iterator[str]:
    for message in messages:
        for line in textwrap.wrap(one_line(message), _COLUMNS - 2, break_long_words=False, break_on_hyphens=False):
            yield f"# {line}\n"


def _of_cluster(*, every: bool) -> tuple[Sequence[Mapping[str, Any]], tuple[GpuPool, ...], Mapping[str, int]]:
    with connect() as place:
        nodes, claimable = place.listed(kube.NODES, what="Nodes"), _claimable(place)
        # gpubench may not be installed there yet, or this version cannot read them
        with contextlib.suppress(CliError, kube.PermanentError):
            return nodes, () if every else place.pools(), claimable
    return nodes, (), claimable


def _claimable(place: Cluster) -> Mapping[str, int]:
    """GPUs that are given by claims; none where the cluster knows no claims, or does not let one see them."""
    with contextlib.suppress(kube.PermanentError):
        return node_facts.claimable(place.listed(_RESOURCE_SLICES, what="ResourceSlices"))
    return {}


def _nodes_of(source: str) -> Sequence[Mapping[str, Any]]:
    """From what kubectl writes: a list, one node, or several documents of either."""
    wanted = "give what `kubectl get nodes -o json` or -o yaml wrote"
    content = documents.file_text(Path(source))
    try:
        is_json = content.lstrip().startswith("{")
        listed = [json.loads(content)] if is_json else [one for one in yaml.safe_load_all(content) if one is not None]
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise CliError(f"{source}: this is neither JSON nor YAML: {wanted}") from error
    found: list[Any] = []
    for document in listed:
        items = document.get("items", [document]) if isinstance(document, dict) else None
        found += items if isinstance(items, list) else [items]
    if not listed or not all(map(_is_node, found)):
        raise CliError(f"{source}: this is no list of nodes: {wanted}")
    return found


def _is_node(item: object) -> bool:
    match item:
        case {"metadata": {"name": str(), **rest}, **others}:
            return others.get("kind", "Node") == "Node" and isinstance(rest.get("labels", {}), dict)
        case _:
            return False


# --- gpubench drill ---------------------------------------------------------------------------------------------------


@click.command("drill")
@click.argument("name", metavar="NAME", help="a GpuBenchmark that has not finished")
@click.option(
    "--every", metavar="DURATION", help="evict one pod when all pods of an attempt have run for so long, such as 90s"
)
@click.option("--stop", is_flag=True, help="interrupt no further attempt")
@click.option(
    "--times",
    type=int,
    metavar="NUMBER",
    help=f"attempts to interrupt at most, those of before included; {Drill.model_fields['times'].default} by default",
)
@click.option(
    "--drain",
    metavar="DURATION",
    help="cordon the pod's node before, so that it takes no new pods for so long, such as 60s",
)
@options.cluster
def drill(
    *, name: str, every: str | None, stop: bool, times: int | None, drain: str | None, namespace: str | None
) -> None:
    """Let the operator evict a pod of each attempt of a benchmark once it has run for a while.

    These interruptions are counted by themselves (status.attempts.drilled), and no figure of a pool's is made of them.
    """
    if (every is not None) == stop:
        raise click.UsageError("give one of --every DURATION, such as 90s, and --stop")
    if stop and (times is not None or drain is not None):
        given = "--times" if times is not None else "--drain"
        raise CliError(f"{given} says how to interrupt, and --stop ends that: leave out one of the two")
    with connect(namespace) as place:
        body = place.benchmark(name)
        if stop:
            place.change(kube.BENCHMARKS, name, {"spec": {"drill": None}})
            terminal.say(f"{name} is interrupted no more")
            return
        wanted = {"every": every} | ({} if times is None else {"times": times})
        wanted |= {} if drain is None else {"kind": "Drain", "cordonFor": drain}
        asked = asked_drill(body, wanted, name=name)
        status = read_status(body.get("status"), name=name)
        if conditions.holds(status.conditions, conditions.FINISHED):
            raise CliError(f"{name} has finished: there is nothing left to interrupt")
        done = 0 if status.attempts is None else status.attempts.drilled
        if done >= asked.times:
            raise CliError(f"{done} attempts of {name} were interrupted already: give --times more than {done}")
        place.change(kube.BENCHMARKS, name, {"spec": {"drill": {**_NO_DRILL, **asked.to_wire()}}})
    node = f", its node cordoned for {asked.cordon_for}" if asked.kind == "Drain" else ""
    terminal.say(
        f"{name}: one pod of each attempt is evicted when all of its pods have run for {asked.every}{node}, "
        f"of {asked.times} attempts at most ({done} so far)"
    )


def asked_drill(body: Mapping[str, Any], wanted: Mapping[str, Any], *, name: str) -> Drill:
    """The drill as the API server would take it; CliError with its sentence where it would not."""
    document = {**body, "spec": {**(body.get("spec") or {}), "drill": dict(wanted)}}
    try:
        drill = validate.load_benchmark(document).spec.drill
    except validate.InvalidObject as error:
        ours = (str(problem) for problem in error.problems if problem.field.startswith("spec.drill"))
        raise CliError(next(ours, f"{name} cannot be read by this gpubench: {error.problems[0]}")) from error
    assert drill is not None  # it stands in the document
    return drill
