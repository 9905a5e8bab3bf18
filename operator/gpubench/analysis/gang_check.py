# SPDX-License-Identifier: Apache-2.0
"""What a namespace does to a gang before it runs: its Job and a pod by dry run, held against what was sent.

What comes back is what webhooks and policies make of it. Must not happen: "ok" for what nobody could look at.
"""

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gpubench import names
from gpubench.analysis import text
from gpubench.analysis.preflight import Finding, failed, ok, warning
from gpubench.scheduler import environments
from gpubench.units import counted, listed, quantity_value

Object = Mapping[str, Any]

JOB, POD, QUOTA, LIMITS, LEVEL = "gang's Job", "gang's pod", "gang's quota", "gang's limits", "gang's security level"
_EXEMPT = "exempt the Jobs and pods of benchmarks from that policy"
_RAISE = "raise that quota, or measure gangs of fewer nodes: half a gang holds its GPUs and waits"
_NO_DRY_RUN = "does not support dry run"
#: What to do about a refusal, by what the API server says; until then benchmarks wait.
_REMEDIES = {
    "calling webhook": "see that webhook's Service, or its failurePolicy",
    "exceeded quota": "raise that quota",
    "status unknown for quota": "ask again: the cluster has not counted yet what that quota is for",
    "violates PodSecurity": "leave out what it names, of the pool's template or of a webhook, or lower the level",
    " per Container": "change that LimitRange, or the pool's slot",
    " per Pod": "change that LimitRange, or the pool's slot",
    "": "change what is named there, or the pool's template",
}
_OURS = (f"{names.GROUP}/", names.LABEL_MANAGED_BY)
_PLAIN = ("cpu", "memory", "ephemeral-storage")
#: Objects of a benchmark beside its pods, by the names that quotas have for them: plan, ledger and analysis, and so on.
_OBJECTS = {"configmaps": 3, "secrets": 1, "services": 1, "jobs.batch": 1}


def refused(area: str, error: str) -> Finding:
    """Of an object that the API server did not take by dry run."""
    if _NO_DRY_RUN in error:
        says = f"a webhook cannot be asked without effects, so what it does is not known: {error}"
        return warning(area, says, "set its sideEffects to None or NoneOnDryRun, or run one small benchmark")
    remedy = next(remedy for said, remedy in _REMEDIES.items() if said in error)
    return failed(area, f"it is refused: {error}", f"{remedy}; until then benchmarks wait")


def lacking(area: str, resource: str, *, namespace: str) -> Finding:
    """Whoever asks may not create such objects, so nobody looked."""
    says = f"not looked at: you may not create {resource} in {namespace}"
    return warning(area, says, "ask somebody who may to run this command; the operator's own rights are another line")


def kept(area: str, sent: Object, got: Object) -> Iterator[Finding]:
    """Labels and owner, by which the operator finds an object, where others took them."""
    yield from _labels(area, sent, got)
    owners = [owner.get("uid") for owner in got["metadata"].get("ownerReferences") or ()]
    if sent["metadata"]["ownerReferences"][0]["uid"] not in owners:
        yield _changed(area, "another owner")


def job(sent: Object, got: Object) -> Iterator[Finding]:
    """What comes back of a Job in place of what was sent."""
    said = [*kept(JOB, sent, got), *_labels(POD, sent["spec"]["template"], got["spec"]["template"])]
    spec, asked = got["spec"], sent["spec"]
    for field in ("backoffLimit", "parallelism", "completions", "podReplacementPolicy"):
        if spec.get(field) != asked[field]:
            said.append(_changed(JOB, f"{field} {spec.get(field)} in place of {asked[field]}"))
    if spec.get("suspend") and not asked.get("suspend"):
        queue = got["metadata"].get("labels", {}).get(names.LABEL_QUEUE)
        by = f"and gave to queue {queue} " if queue else ""
        remedy = "name that queue in spec.queueName, or " + _EXEMPT
        says = f"a webhook suspended it {by}without spec.queueName"
        said.append(warning(JOB, says, remedy))
    if spec.get("ttlSecondsAfterFinished") == 0:
        remedy = "give Jobs a time to live of minutes: its result is lost where the operator is away when it ends"
        says = "ttlSecondsAfterFinished is 0: it goes the moment that it ends"
        said.append(warning(JOB, says, remedy))
    yield from said or [ok(JOB, "it comes back as it was sent")]


def pod_of_job(body: Object) -> dict[str, Any]:
    """The first pod as the Job controller makes it; the API server gives the Job of a dry run a UID."""
    name, template = body["metadata"]["name"], body["spec"]["template"]
    uid = body["metadata"].get("uid", "")
    labels = {f"batch.kubernetes.io/{key}": text for key, text in (("job-name", name), ("controller-uid", uid))}
    labels |= template["metadata"]["labels"] | {names.LABEL_POD_INDEX: "0"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid, "controller": True}
    metadata = {
        "name": f"{name}-0-doctor",
        "labels": labels,
        "annotations": template["metadata"].get("annotations") or {},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | ({"ownerReferences": [owner]} if uid else {}),
        "spec": template["spec"] | {"hostname": f"{name}-0"},
    }


def pod(planned: Object, sent: Object, got: Object) -> Iterator[Finding]:
    """What comes back of a pod, as the Job controller would make it, in place of what was planned."""
    said, ours, theirs = [*_labels(POD, sent, got)], planned["spec"]["template"]["spec"], got["spec"]
    known, given = map(environments.resources, (ours, theirs))
    if more := [f"{field} {amount}" for field, amount in given.items() if field not in known]:
        remedy = "raise what a LimitRange or policy gives, or name the resource in the pool's nodeResources"
        says = f"it gets {listed(more)} besides what was planned: more than that is refused or ends the pod"
        said.append(warning(POD, says, remedy))
    for one in environments.changes(ours, theirs):
        says = f"it gets {one.field} {one.got or 'none'} in place of {one.planned}"
        said.append(ok(POD, says) if one.is_more else warning(POD, says, _EXEMPT))
    if theirs.get("subdomain") != ours["subdomain"]:
        said.append(_changed(POD, f"subdomain {theirs.get('subdomain')} in place of {ours['subdomain']}"))
    if sidecars := [one["name"] for one in theirs["containers"] if one["name"] != names.CONTAINER]:
        says = f"it comes with {counted(len(sidecars), 'container')} beside ours: {listed(sidecars)}"
        remedy = (
            "one that runs on keeps the GPUs for half a minute after each trial, and one that fails fails the trial: "
            'make it a native sidecar, or keep it out by its annotation (sidecar.istio.io/inject: "false") in '
            "template.annotations"
        )
        said.append(warning(POD, says, remedy))
    if (quality := (got.get("status") or {}).get("qosClass")) not in (None, "Guaranteed"):
        remedy = "give each container that is added requests equal to its limits"
        says = f"it is {quality} and not Guaranteed: no kubelet gives it whole processors, and it is evicted earlier"
        said.append(warning(POD, says, remedy))
    inits = {one["name"] for one in ours.get("initContainers") or ()}
    added = [one for one in theirs.get("initContainers") or () if one["name"] not in inits]
    for kind, found in (
        ("init container", [one["name"] for one in added if one.get("restartPolicy") != "Always"]),
        ("native sidecar", [one["name"] for one in added if one.get("restartPolicy") == "Always"]),
    ):
        if found:
            says = f"it comes with {kind} {listed(found)}: no trial begins before it has done its part"
            remedy = "see that it does so in this namespace, or keep it out by its annotation in template.annotations"
            said.append(warning(POD, says, remedy))
    yield from said or [ok(POD, "it comes back as it was planned")]


def quotas(found: Sequence[Object], pod: Object, *, gang: int, most: int) -> Iterator[Finding]:
    """Whether what is left of each ResourceQuota takes a gang, and the largest of its pool."""
    concern = [one for one in found if _concerns(one["spec"], pod["spec"])]
    tight: list[Finding] = []
    for quota in concern:
        try:
            tight += _tight(quota, _needs(pod["spec"]), gang=gang, most=most)
        except ValueError as error:
            says = f"what {quota['metadata']['name']} leaves is not known: {error}"
            tight.append(warning(QUOTA, says, _RAISE))
    says = f"{counted(len(concern), 'ResourceQuota')} with room for a gang of {most}" if concern else "no ResourceQuota"
    yield from tight or [ok(QUOTA, f"{says} for such pods")]


def _tight(quota: Object, needs: Mapping[str, Decimal], *, gang: int, most: int) -> Iterator[Finding]:
    used = (quota.get("status") or {}).get("used") or {}
    for resource, hard in (quota["spec"].get("hard") or {}).items():
        each, objects = needs.get(resource), _OBJECTS.get(resource.removeprefix("count/"), 0)
        if not (each or objects):
            continue
        left = max(Decimal(0), quantity_value(str(hard)) - quantity_value(str(used.get(resource, "0"))))
        says = f"{quota['metadata']['name']} leaves {left.normalize():f} of {resource}, and "
        if each and left < each * most:
            says += f"a pod of a gang needs {each.normalize():f}: room for {left // each} of {most}"
            yield (failed if left < each * gang else warning)(QUOTA, says, _RAISE)
        elif left < objects:
            says += f"a benchmark needs {objects}"
            yield failed(QUOTA, says, "raise it, or delete old benchmarks")


def _concerns(quota: Object, spec: Object) -> bool:
    """Whether a quota counts pods as ours, which have requests and a deadline."""
    wanted = [{"scopeName": scope} for scope in quota.get("scopes") or ()]
    wanted += (quota.get("scopeSelector") or {}).get("matchExpressions") or ()
    priority = spec.get("priorityClassName")
    for one in wanted:
        scope, operator, values = one["scopeName"], one.get("operator", "Exists"), one.get("values") or ()
        if scope in ("BestEffort", "NotTerminating"):
            return False
        if scope == "CrossNamespacePodAffinity" and not environments.neighbours(spec):
            return False
        if scope == "PriorityClass":
            matches = {"In": priority in values, "NotIn": priority not in values, "DoesNotExist": not priority}
            if not matches.get(operator, bool(priority)):
                return False
    return True


def limits(found: Sequence[Object], *, is_taken: bool) -> Finding:
    named = text.shortened([one["metadata"]["name"] for one in found])
    if is_taken or not found:
        says = f"LimitRange {named}, which the pod meets" if found else "no LimitRange in the namespace"
        return ok(LIMITS, says)
    says = f"LimitRange {named}; whether a pod meets it is not known"
    return warning(LIMITS, says, "see the line of the pod")


def level(namespace: Object, *, is_taken: bool) -> Finding:
    enforced = (namespace["metadata"].get("labels") or {}).get("pod-security.kubernetes.io/enforce", "privileged")
    if is_taken:
        return ok(LEVEL, f"{enforced}, which the pod meets")
    remedy = "see the line of the pod; containers that others add may be what is refused"
    return warning(LEVEL, f"{enforced}; whether a pod meets it is not known", remedy)


def beforehand() -> Finding:
    """What no dry run shows."""
    return warning(
        "gang",
        "not to be seen beforehand: how long a queue takes, what policies say to later updates of a Job or to others "
        "than you, as the Job controller, whose finalizers keep a benchmark that is deleted",
        "run one small benchmark there; limits.capacityTimeout bounds what waits",
    )


def merged(of_pools: Mapping[str, Sequence[Finding]]) -> Iterator[Finding]:
    """Each line once, with its pools where it is not of all."""
    found: dict[Finding, list[str]] = {}
    for pool, lines in of_pools.items():
        for line in lines:
            found.setdefault(line, []).append(pool)
    for line, pools in found.items():
        is_of_all = len(pools) == len(of_pools)
        yield line if is_of_all else line.model_copy(update={"area": f"{line.area} ({text.shortened(pools)})"})


def _labels(area: str, sent: Object, got: Object) -> Iterator[Finding]:
    before, after = ((one.get("metadata") or {}).get("labels") or {} for one in (sent, got))
    if taken := [key for key, value in before.items() if key.startswith(_OURS) and value != after.get(key)]:
        yield _changed(area, f"no label {listed(taken)}, by which the operator finds it")


def _changed(area: str, what: str) -> Finding:
    return failed(area, f"it comes back with {what}", _EXEMPT)


def _needs(spec: Object) -> dict[str, Decimal]:
    """Of one pod, by the names that quotas have for them. Init containers run one after the other, and before."""
    inits = spec.get("initContainers") or ()
    total = _sum([*spec["containers"], *(one for one in inits if one.get("restartPolicy") == "Always")])
    for one in inits:
        total |= {name: max(amount, total.get(name, amount)) for name, amount in _sum([one]).items()}
    plain = {name: total[f"requests.{name}"] for name in _PLAIN if f"requests.{name}" in total}
    return {**total, **plain, "pods": Decimal(1), "count/pods": Decimal(1)}


def _sum(containers: Sequence[Object]) -> dict[str, Decimal]:
    found: dict[str, Decimal] = {}
    for one in containers:
        for kind in environments.RESOURCE_KINDS:
            for name, amount in ((one.get("resources") or {}).get(kind) or {}).items():
                found[f"{kind}.{name}"] = found.get(f"{kind}.{name}", Decimal(0)) + quantity_value(amount)
    return found
