# SPDX-License-Identifier: Apache-2.0
"""Whether a cluster can run benchmarks: what was asked of it, judged; each finding with what to do.

Must not happen: a guess that passes for knowledge. What cannot be known from outside is a warning that says so.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any

from gpubench import names, permissions
from gpubench.analysis import node_facts, pool_status, text
from gpubench.analysis.node_facts import Unfit
from gpubench.api import benchmark, schema
from gpubench.api.measuring import Measure
from gpubench.api.pool import GpuPool
from gpubench.plan import estimate, expand, pool_prices
from gpubench.units import counted, duration_seconds, duration_text, processors, quantity_value
from gpubench.values import FrozenModel

Object = Mapping[str, Any]

#: The chart's lowest version (Chart.yaml), and the newest that it has been tried with.
VERSION_LEAST, VERSION_TRIED = (1, 33), (1, 37)
#: Daemons that enforce NetworkPolicies, as their own projects name their DaemonSets.
_ENFORCERS = ("calico-node", "cilium", "anetd", "antrea-agent", "kube-router", "weave-net", "ovnkube-node")
_AWS_NODE, _AWS_AGENT = "aws-node", "aws-eks-nodeagent"  # Amazon's CNI, and the container of it that does
_K3S = "k3s"  # enforces by itself, unless told not to; its nodes say so in place of an instance type
_NODE_POOL, _SECONDS = "karpenter.sh/nodepool", {"h": 3600, "m": 60, "s": 1}
_DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


class State(StrEnum):
    """How a finding is meant."""

    OK = "ok"
    WARNING = "warning"  # benchmarks may run; or it cannot be known
    FAILED = "failed"  # benchmarks will not run, or not finish


class Finding(FrozenModel):
    """One line: what was looked at, what was found, and what to do about it."""

    area: str
    state: State
    says: str
    remedy: str | None = None


class Answer(FrozenModel):
    """What an account may do, as an access review has it."""

    verb: str
    resource: str  # with its group and subresource: `pods/log`, `jobs.batch`
    namespace: str | None = None  # None: in all of them, or of no namespace
    allowed: bool
    scope: permissions.Scope = permissions.Scope.STUDIES


def ok(area: str, says: str) -> Finding:
    return Finding(area=area, state=State.OK, says=says)


def warning(area: str, says: str, remedy: str) -> Finding:
    return Finding(area=area, state=State.WARNING, says=says, remedy=remedy)


def failed(area: str, says: str, remedy: str) -> Finding:
    return Finding(area=area, state=State.FAILED, says=says, remedy=remedy)


def api_server(version: Object) -> Finding:
    """Whether the API server is one of those that gpubench is made for."""
    area, found = "API server", str(version.get("gitVersion", "of an unknown version"))
    least, tried = (".".join(map(str, one)) for one in (VERSION_LEAST, VERSION_TRIED))
    try:
        number = tuple(int(str(version[part]).rstrip("+")) for part in ("major", "minor"))  # providers write `33+`
    except (KeyError, ValueError):
        return warning(area, found, f"it should be Kubernetes {least} or newer")
    if number < VERSION_LEAST:
        remedy = f"update the cluster to Kubernetes {least} or newer: Jobs of gangs need successPolicy"
        return failed(area, f"{found} is older than {least}", remedy)
    return ok(area, f"{found}; gpubench was tried up to {tried}" if number > VERSION_TRIED else found)


def definition(kind: schema.Kind, found: Object | None) -> Finding:
    """Whether the cluster knows a kind, and in the revision that this program has."""
    area = f"CRD {kind.kind}"
    if found is None:
        return failed(area, "the cluster does not know it", f"to install it: {schema.INSTALL}")
    conditions = (found.get("status") or {}).get("conditions") or []
    if not any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
        describe = f"kubectl describe crd {kind.plural}.{names.GROUP}"
        return failed(area, "it is there and not established", f"{describe} says what the API server has against it")
    served = {one["name"]: one for one in found["spec"]["versions"] if one.get("served")}
    if names.VERSION not in served:
        says = f"it serves {', '.join(served) or 'nothing'}, and this gpubench speaks {names.VERSION}"
        return failed(area, says, schema.INSTALL)
    ours = set(schema.field_paths(schema.definition(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]))
    theirs = set(schema.field_paths(served[names.VERSION]["schema"]["openAPIV3Schema"]))
    if missing := sorted(ours - theirs):
        says = f"of an older revision: it lacks {text.shortened(missing)}"
        return warning(area, says, f"its newer fields are refused: {schema.INSTALL}")
    if more := sorted(theirs - ours):
        remedy = "update this program (pip install -U kube-gpubench): it refuses objects that use these fields"
        return warning(area, f"of a newer revision: it has {text.shortened(more)}", remedy)
    return ok(area, f"established, {names.VERSION}, of this revision")


def rights(area: str, answers: Sequence[Answer] | None, *, account: str) -> Finding:
    """Whether an account may do what it must; None where nobody would say."""
    if answers is None:
        remedy = "ask an administrator to run this command, who may create subjectaccessreviews"
        return warning(area, f"you may not ask what {account} may do", remedy)
    refused = [one for one in answers if not one.allowed]
    if vital := [one for one in refused if one.scope is not permissions.Scope.DRAINS]:
        lacking = [f"{one.verb} {one.resource}{f' in {one.namespace}' if one.namespace else ''}" for one in vital]
        says = f"{account} may not {text.shortened(lacking)}"
        return failed(area, says, "bind the roles of the chart (rbac.create) to it")
    without = "; nodes cannot be cordoned (spec.drill of kind Drain, rbac.drains of the chart)" if refused else ""
    return ok(area, f"{account} has all {len(answers) - len(refused)}{without}")


def person(answers: Sequence[Answer], *, namespace: str) -> Finding:
    area = "your permissions"
    if not (refused := [f"{answer.verb} {answer.resource}" for answer in answers if not answer.allowed]):
        return ok(area, f"you may run and read benchmarks in {namespace}")
    remedy = "an administrator gives you the chart's role gpubench-edit, by its aggregation into edit"
    return warning(area, f"in {namespace} you may not {text.shortened(refused)}", remedy)


def operator(lease: Object | None, *, name: str, now: float, renewed: float | None) -> Finding:
    """Whether an operator works: it holds its Lease, and has renewed it within its time."""
    area = "operator"
    start = "start it: kubectl get deploy,pods -A -l app.kubernetes.io/component=operator says how it stands"
    spec = (lease or {}).get("spec") or {}
    holder = spec.get("holderIdentity")
    if lease is None:
        says = f"there is no Lease {name}: none has ever run there"
        return failed(area, says, f"{start}; --operator names another Lease")
    if not holder or renewed is None:
        return failed(area, f"nobody holds the Lease {name}", start)
    if now - renewed > float(spec.get("leaseDurationSeconds") or 0):
        return failed(area, f"{holder} has not renewed the Lease {name} for {now - renewed:.0f} s", start)
    return ok(area, f"{holder} holds the Lease {name}")


def devices(nodes: Sequence[Object], claimable: Mapping[str, int], *, now: float) -> Iterator[Finding]:
    """Whether nodes with GPUs offer them: what the device plugin is for; then nodes of which no figures come.

    `claimable` are GPUs that pods get by claims, by the node's name.
    """
    area, unfit = "device plugin", dict[Unfit, list[str]]()
    for node in nodes:
        why, name = node_facts.unfit(node), node_facts.name(node)
        if why is Unfit.NO_DEVICE_PLUGIN and not claimable.get(name):
            unfit.setdefault(Unfit.STARTING if node_facts.is_new(node, now=now) else why, []).append(name)
        elif why in (Unfit.LEAVING, Unfit.STARTING, Unfit.NOT_READY, Unfit.OTHER_VENDOR, Unfit.SHARED, Unfit.MIXED_MIG):
            unfit.setdefault(why, []).append(name)
    offered: Counter[str] = Counter()
    for node in nodes:
        offered.update(node_facts.instances(node))
    if by_claims := sum(claimable.values()):
        offered["by claims (DRA)"] = by_claims
    if silent := unfit.pop(Unfit.NO_DEVICE_PLUGIN, []):
        words, remedy = node_facts.WORDS[Unfit.NO_DEVICE_PLUGIN]
        yield failed(area, f"{text.shortened(silent)} {words}", remedy)
    elif offered:
        there = sum(bool(node_facts.gpus(node) or claimable.get(node_facts.name(node))) for node in nodes)
        says = ", ".join(f"{count} {resource}" for resource, count in offered.items())
        yield ok(area, f"{says} on {counted(there, 'node')}")
    else:
        remedy = "nothing to do for pools of processors, and for nodes that come when a pod asks for them"
        yield warning(area, f"no node offers {node_facts.GPU}", remedy)
    for why, names_ in unfit.items():
        words, remedy = node_facts.WORDS[why]
        yield warning("nodes", f"{text.shortened(names_)} {words}", remedy)


def network(daemon_sets: Sequence[Object], nodes: Sequence[Object]) -> Finding:
    """Whether something that enforces NetworkPolicies is known to run. The API server takes them in any case."""
    area = "NetworkPolicy"
    for one in daemon_sets:
        name = one["metadata"]["name"]
        containers = {container["name"] for container in one["spec"]["template"]["spec"]["containers"]}
        if name in _ENFORCERS or (name == _AWS_NODE and _AWS_AGENT in containers):
            return ok(area, f"{name} runs, which enforces policies where it is told to")
    if any(node_facts.labels(node).get(names.LABEL_INSTANCE_TYPE) == _K3S for node in nodes):
        return ok(area, "k3s enforces policies, unless it was told not to")
    remedy = "benchmarks run all the same; others could reach their pods, who then still need the benchmark's token"
    return warning(area, "nothing is known here that enforces policies", remedy)


def images(wanted: Mapping[str, str], nodes: Sequence[Object]) -> Iterator[Finding]:
    """Images of pods by whom they are for; whether they can be pulled is known only of those that have been."""
    listed = (image for node in nodes for image in (node.get("status") or {}).get("images") or [])
    present = {name for image in listed for name in image.get("names") or []}
    for image in dict.fromkeys(wanted.values()):
        named = f"{image} ({text.shortened(sorted(user for user, one in wanted.items() if one == image))})"
        if present & {image, f"docker.io/{image}", f"docker.io/library/{image}"}:
            yield ok("image", f"{named} is on a node already")
        else:
            says = f"{named} is on no node yet: whether it can be pulled is not known, and was not tried"
            remedy = f"try it: kubectl run pull --rm -it --restart=Never --image={image} --command -- true"
            yield warning("image", says, remedy)


def pool(one: GpuPool, nodes: Sequence[Object], others: Sequence[GpuPool] = (), *, now: float) -> Finding:
    """Whether a pod of a pool finds a node that it fits and tolerates, and the nodes are what the pool says of them."""
    area, spec = f"pool {one.name}", one.spec
    if spec.measured_by is not None:
        return ok(area, f"never run: priced from {spec.measured_by.pool}")
    if not (matching := [node for node in nodes if node_facts.belongs(node, spec.scheduling)]):
        remedy = "nothing to do where an autoscaler brings them; else compare with gpubench pools discover --all"
        return warning(area, "no node has its labels", remedy)
    here = counted(len(matching), "node")
    away, refused = [], []
    for node in matching:
        why, misfit = node_facts.away(node), _misfit(one, node)
        resource = spec.slot.gpu_resource
        if why is None and resource and not node_facts.amount(node, resource) and node_facts.is_new(node, now=now):
            why = node_facts.WORDS[Unfit.STARTING][0]  # driver and device plugin come last
        if why is not None:
            away.append(f"{node_facts.name(node)} {why}")
        elif misfit is not None:
            refused.append(f"{node_facts.name(node)} {misfit}")
    if len(refused) == len(matching):
        remedy = "correct its slot, nodeResources or tolerations: gpubench pools discover --all proposes them"
        return failed(area, f"none of its {here} takes a pod: {refused[0]}", remedy)
    ready = len(matching) - len(away) - len(refused)
    says = f"{ready} of {here} ready" + (f", {len(refused)} take no pod" if refused else "")
    says += f" ({text.shortened(away)})" if away else ""
    says += "; devices of its resourceClaims were not counted" if spec.template.resource_claims else ""
    if not ready:
        return warning(area, says, "kubectl describe node says what is wrong")
    if unlike := list(pool_status.unlike(one, matching, others)):
        remedy = "narrow its nodeSelector to the nodes that it speaks of, or correct what it says"
        return warning(area, f"{says}; {'; '.join(unlike)}", remedy)
    missed = pool_prices.without_counterpart(one)
    return ok(area, says if missed is None else f"{says}; {missed}")


def _misfit(one: GpuPool, node: Object) -> str | None:
    spec = one.spec
    if (taint := node_facts.untolerated(node, spec.scheduling.tolerations)) is not None:
        return f"has the taint {taint}, which the pool does not tolerate"
    for resource, amount in {
        "cpu": processors(spec.slot.cpu) * spec.slots_per_node,
        "memory": quantity_value(spec.slot.memory) * spec.slots_per_node,
        **({} if spec.slot.gpu_resource is None else {spec.slot.gpu_resource: Decimal(spec.slots_per_node)}),
        **{resource: quantity_value(quantity) for resource, quantity in spec.node_resources.items()},
    }.items():
        if node_facts.amount(node, resource) < amount:
            return f"has {node_facts.allocatable(node).get(resource, 'no')} {resource}, and all slots take {amount:f}"
    return None


def longest_trials(benchmarks: Iterable[benchmark.GpuBenchmarkSpec], pools: Sequence[GpuPool]) -> dict[str, float]:
    """Seconds that a trial is assumed to take on each pool: the longest one planned, one of the defaults at least."""
    usual = estimate.START_UP_SECONDS + duration_seconds(Measure().warm_up) + duration_seconds(Measure().duration)
    found = {pool.name: float(usual) for pool in pools}
    for plan in (expand.freeze(spec, pools, "") for spec in benchmarks):
        for point in plan.points:
            assumed = estimate.of_point(plan, point) if point.runs else None
            found[point.key.pool] = max(found.get(point.key.pool, 0.0), assumed.mean if assumed else 0.0)
    return found


def expiry(one: GpuPool, node_pools: Sequence[Object], *, trial_seconds: float) -> Iterator[Finding]:
    """NodePools of Karpenter that end a pool's nodes before a trial. Without a grace period a gang holds its nodes."""
    scheduling = one.spec.scheduling
    for body in node_pools:
        template, name = body["spec"]["template"], body["metadata"]["name"]
        age, grace = (template["spec"].get(field) or "" for field in ("expireAfter", "terminationGracePeriod"))
        lives = sum(int(number) * _SECONDS[unit] for number, unit in re.findall(r"(\d+)([hms])", age + grace))
        labels = {**(template.get("metadata") or {}).get("labels", {}), _NODE_POOL: name}
        for key, values in ((each["key"], each.get("values")) for each in template["spec"].get("requirements") or ()):
            wanted = scheduling.node_selector.get(key)
            labels |= {key: wanted if wanted in values else values[0]} if values else {}
        is_its = node_facts.belongs({"metadata": {"labels": labels}}, scheduling)
        if is_its and grace and age not in ("", "Never") and lives < trial_seconds:
            said = f"{duration_text(lives)} (expireAfter {age}, terminationGracePeriod {grace})"
            says = f"NodePool {name} ends a node after {said}, and a trial takes about {duration_text(trial_seconds)}"
            remedy = "raise them, measure for less, or keep trainings with spec.checkpoint: each attempt is billed"
            yield warning(f"pool {one.name}", says, remedy)


def dns(slices: Sequence[Object]) -> Finding:
    """Whether the cluster's DNS answers: pods of a gang find pod 0 by its name."""
    endpoints = [endpoint for one in slices for endpoint in one.get("endpoints") or []]
    ready = sum((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints)
    if ready and all(one.get("addressType") == "IPv6" for one in slices):
        remedy = "gangs of one pod run; gangs of several pods are refused where pods have no IPv4 address"
        return warning("DNS", f"kube-dns has {counted(ready, 'ready endpoint')}, all of IPv6", remedy)
    if ready:
        return ok("DNS", f"kube-dns has {counted(ready, 'ready endpoint')}")
    remedy = "gangs of several pods would end with JoinTimeout: see why CoreDNS does not run"
    return failed("DNS", "the Service kube-dns in kube-system has no ready endpoint", remedy)


def storage(classes: Sequence[Object]) -> Finding:
    """Whether claims for data, records and checkpoints get a volume by themselves."""
    every = [one["metadata"] for one in classes]
    default = [one["name"] for one in every if (one.get("annotations") or {}).get(_DEFAULT_CLASS) == "true"]
    several = "checkpoints and records of gangs on several nodes need a claim that is ReadWriteMany"
    if default:
        return ok("storage", f"{default[0]} is the default StorageClass; {several}")
    says = f"none of {text.shortened([one['name'] for one in every])} is the default" if every else "there is none"
    remedy = f"benchmarks run without; volumes for data must be made or their class named, and {several}"
    return warning("storage", f"StorageClass: {says}", remedy)


def unknown(area: str, what: str) -> Finding:
    return warning(area, f"not known: {what}", "ask somebody who may to run this command")
