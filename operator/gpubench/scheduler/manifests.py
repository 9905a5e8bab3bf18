# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes objects of a benchmark, as plain dicts: plan, ledger, Service, token, NetworkPolicy, Job.

One Job is one attempt. An Indexed Job that may retry would replace only the failed index and leave the other ranks
hanging, so the Job never retries (`backoffLimit: 0`) and the next attempt is a new Job.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gpubench import exitcodes, names, units, values
from gpubench.api.pod_template import ClaimVolume, PodScheduling, Template, Topology, Volume
from gpubench.plan.plan import Plan
from gpubench.scheduler import actions, observed, outcome

Manifest = dict[str, Any]

_SET_BY_THE_PLACE = frozenset(
    {
        *(names.ENV_POD_INDEX, names.ENV_POD_IP, names.ENV_POD_NAME, names.ENV_NODE_NAME, names.ENV_NAMESPACE),
        *(names.ENV_RECORDS, names.ENV_RUNS_AGAIN, names.ENV_CHECKPOINTS, names.ENV_GANG_TOKEN),
    }
)
_PLAN_KEY = "plan.json"
_ANALYSIS_KEY = "analysis.json"
_SCRATCH = "/tmp"  # noqa: S108  # an emptyDir of the pod: its root file system is read-only
_LAUNCHER = ("python", "-m", "gpubench_jobs.launcher")
UNREAD_SECONDS = 30 * 86_400  # for which a Job waits for an operator to record its end, and give it a shorter time
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  # an emptyDir in memory
# Below the pods' own /tmp, where no volume of a user's can be.
_RESULTS, _RESULTS_PATH = "gpubench-results", f"{_SCRATCH}/gpubench-results"
_CHECKPOINTS, _CHECKPOINTS_PATH = "gpubench-checkpoints", f"{_SCRATCH}/gpubench-checkpoints"
# The group that a fresh claim is given to, whose root folder would be the administrator's alone: any number will do.
RESULTS_GROUP = 65532


def plan_config_map(study: observed.Study, plan: Plan) -> Manifest:
    """The frozen plan; immutable, so that nothing can change a benchmark that is under way."""
    name, data = names.plan_name(study.name, study.uid), {_PLAN_KEY: plan.to_text()}
    return _object(study, "ConfigMap", name, names.COMPONENT_PLAN, immutable=True, data=data)


def read_plan(config_map: Mapping[str, Any]) -> Plan:
    return Plan.from_text(config_map["data"][_PLAN_KEY])


def ledger_config_map(study: observed.Study, shard: int, entries: Mapping[str, str]) -> Manifest:
    name = names.ledger_name(study.name, study.uid, shard=shard)
    return _object(study, "ConfigMap", name, names.COMPONENT_LEDGER, data=dict(entries))


def analysis_config_map(study: observed.Study, part: int, text: str) -> Manifest:
    name = names.analysis_name(study.name, study.uid, part=part)
    return _object(study, "ConfigMap", name, names.COMPONENT_ANALYSIS, data={_ANALYSIS_KEY: text})


def read_analysis_part(config_map: Mapping[str, Any] | None) -> str:
    """The text in it; nothing where it is gone, or another one."""
    return str(((config_map or {}).get("data") or {}).get(_ANALYSIS_KEY, ""))


def service(study: observed.Study) -> Manifest:
    """The headless Service of all attempts. It names pod 0, which is looked up while it starts, and no other."""
    gang = {names.LABEL_BENCHMARK_UID: study.uid, names.LABEL_COMPONENT: names.COMPONENT_GANG}
    spec = {
        "clusterIP": "None",
        "ipFamilyPolicy": "PreferDualStack",  # pods meet by IPv4, which need not be the cluster's first family
        "publishNotReadyAddresses": True,
        "selector": {**gang, names.LABEL_POD_INDEX: "0"},  # each pod costs the cluster two writes, and two at its end
        "ports": [{"name": "rendezvous", "port": names.PORT_RENDEZVOUS}],
    }
    return _object(study, "Service", names.study_name(study.name, study.uid), names.COMPONENT_RENDEZVOUS, spec=spec)


def token(study: observed.Study, text: str) -> Manifest:
    """The Secret by which the pods of a benchmark know each other: random, and not even the operator can read it.

    Immutable: pods of one gang that start minutes apart must find the same.
    """
    name, data = names.token_name(study.name, study.uid), {names.TOKEN_KEY: text}
    return _object(study, "Secret", name, names.COMPONENT_TOKEN, type="Opaque", immutable=True, stringData=data)


def network_policy(study: observed.Study, plan: Plan, *, scrapers: Sequence[str] = ()) -> Manifest:
    """Who may reach the pods of a benchmark: each other on every port, and whoever scrapes on the ports of metrics.

    Ranks listen on random ports. `scrapers` are the namespaces that may scrape; without any, everybody may. What pods
    themselves may reach is not narrowed: data and checkpoints may be anywhere.
    """
    gang = {"matchLabels": {names.LABEL_BENCHMARK_UID: study.uid, names.LABEL_COMPONENT: names.COMPONENT_GANG}}
    ranks = max((plan.points[trial.point].key.workers_per_node for trial in plan.trials), default=1)
    port = {"protocol": "TCP", "port": names.PORT_METRICS}
    metrics: Manifest = {"ports": [port if ranks == 1 else port | {"endPort": names.PORT_METRICS + ranks - 1}]}
    if scrapers:
        named = {"key": names.LABEL_NAMESPACE_NAME, "operator": "In", "values": list(scrapers)}
        metrics["from"] = [{"namespaceSelector": {"matchExpressions": [named]}}]
    return _object(
        study,
        "NetworkPolicy",
        names.study_name(study.name, study.uid),
        names.COMPONENT_NETWORK,
        api="networking.k8s.io/v1",
        spec={"podSelector": gang, "policyTypes": ["Ingress"], "ingress": [{"from": [{"podSelector": gang}]}, metrics]},
    )


def gang_environment(study: observed.Study, plan: Plan, gang: actions.Gang) -> dict[str, str]:
    """The environment of every pod of a gang, but for what only the place knows (index, address, node)."""
    job, service = job_name(study, gang), names.study_name(study.name, study.uid)
    environment = {
        "TMPDIR": _SCRATCH,
        names.ENV_ASSIGNMENT: gang.assignment.to_json(),
        names.ENV_RENDEZVOUS_HOST: f"{job}-0.{service}.{study.namespace}",
        names.ENV_TERMINATION_MESSAGE: names.TERMINATION_MESSAGE_PATH,
        names.ENV_IMAGE: dict(plan.images)[gang.pool],
    }
    # None of the user's variables may replace one of ours, nor the index that the Job controller sets if it is absent.
    variant = gang.assignment.variant
    users = {
        variable.name: variable.value
        for variables in (*(template.env for template in _templates(study, plan, gang.pool)), variant and variant.env)
        for variable in variables or ()
        if variable.name not in _SET_BY_THE_PLACE
    }
    return {**users, **environment}


def volumes(study: observed.Study, plan: Plan, pool: str) -> tuple[Volume, ...]:
    """Mounts in the gangs of a pool: a benchmark's volume replaces its pool's of the same name or mountPath."""
    found: tuple[Volume, ...] = ()
    for template in _templates(study, plan, pool):
        taken = {word for volume in template.volumes for word in (volume.name, volume.mount_path)}  # no name has a /
        kept = (volume for volume in found if taken.isdisjoint((volume.name, volume.mount_path)))
        found = (*kept, *template.volumes)
    return found


def _templates(study: observed.Study, plan: Plan, pool: str) -> tuple[Template, Template]:
    return plan.pool(pool).spec.template, study.spec.template


def _schedulings(study: observed.Study, plan: Plan, pool: str) -> tuple[PodScheduling, PodScheduling]:
    return plan.pool(pool).spec.scheduling, study.spec.scheduling


def _given(layers: Iterable[values.FrozenModel], *fields: str) -> Manifest:
    """Fields that a pod's spec has by the same name; a later layer's value wins."""
    dumps = (one.model_dump(by_alias=True, exclude_none=True, include=set(fields)) for one in layers)
    return {name: value for dump in dumps for name, value in dump.items()}


def _topology(study: observed.Study, plan: Plan, gang: actions.Gang) -> Topology | None:
    given = [one.topology for one in _schedulings(study, plan, gang.pool) if one.topology is not None]
    return given[-1] if given and gang.nodes > 1 else None


def own_command(plan: Plan, gang: actions.Gang) -> tuple[str, ...] | None:
    """The user's own program in place of our launcher; None where there is none. Pod 0 of it writes the result."""
    return custom.command if (custom := plan.point_by_trial[gang.assignment.trial].key.custom) is not None else None


def job(
    study: observed.Study,
    plan: Plan,
    gang: actions.Gang,
    *,
    priority_class: str = "",
    results_group: int = RESULTS_GROUP,
    neighbours: Iterable[str] = (),
) -> Manifest:
    """The Indexed Job of one attempt, its pods of that PriorityClass unless pool or benchmark name another one.

    It must not meet gangs of the namespaces `neighbours` on a node.
    """
    assignment, queue, templates = gang.assignment, study.spec.queue_name, _templates(study, plan, gang.pool)
    priority = {"priorityClassName": priority_class} if priority_class else {}
    pod: Manifest = priority | _pod(study, plan, gang, results_group=results_group, neighbours=neighbours)
    do_not_retry = sorted(int(code) for code in exitcodes.DO_NOT_RETRY)
    on_exit_codes = {"containerName": names.CONTAINER, "operator": "In", "values": do_not_retry}
    found = _object(study, "Job", job_name(study, gang), names.COMPONENT_GANG, api="batch/v1")
    labels = found["metadata"]["labels"] | {
        names.LABEL_POOL: gang.pool,
        names.LABEL_TRIAL: assignment.trial,
        names.LABEL_ATTEMPT: str(assignment.attempt),
        names.LABEL_NODES: str(gang.nodes),
        names.LABEL_SLOTS: str(gang.slots),
        **({names.LABEL_EXCLUSIVE: "true"} if plan.pool(gang.pool).spec.exclusive_nodes else {}),
    }
    # The users' annotations replace ours: a pool may let autoscalers end its gangs. A benchmark's replace its pool's.
    annotations = {names.ANNOTATION_KARPENTER: "true", names.ANNOTATION_AUTOSCALER: "false"}
    annotations |= {key: text for one in templates for key, text in one.annotations.items()}
    if queue is not None and (topology := _topology(study, plan, gang)) is not None:
        annotations[names.ANNOTATION_TOPOLOGY.format(topology.mode.lower())] = topology.key
    users = {key: text for one in templates for key, text in one.labels.items()}
    found["metadata"]["labels"] = labels | ({} if queue is None else {names.LABEL_QUEUE: queue})
    found["spec"] = {
        **({} if queue is None else {"suspend": True}),  # until Kueue admits it
        "completionMode": "Indexed",
        "completions": gang.nodes,
        "parallelism": gang.nodes,
        "backoffLimit": 0,
        "ttlSecondsAfterFinished": UNREAD_SECONDS,  # policies give a shorter one where there is none
        "podReplacementPolicy": "Failed",  # a replacement never overlaps with its predecessor
        "successPolicy": {"rules": [{"succeededIndexes": "0"}]},
        "podFailurePolicy": {
            "rules": [
                {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                {"action": "FailJob", "onExitCodes": on_exit_codes},
            ]
        },
        "template": {"metadata": {"labels": users | labels, "annotations": annotations}, "spec": pod},
    }
    return found


def job_name(study: observed.Study, gang: actions.Gang) -> str:
    """The name of the Job of an attempt, by which it is found again after a crash."""
    return names.job_name(study.name, study.uid, trial=gang.assignment.trial, attempt=gang.assignment.attempt)


def _object(study: observed.Study, kind: str, name: str, component: str, *, api: str = "v1", **rest: Any) -> Manifest:
    owner = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND, "name": study.name, "uid": study.uid}
    metadata = {
        "name": name,
        "namespace": study.namespace,
        "labels": {
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_COMPONENT: component,
            names.LABEL_BENCHMARK: study.name,
            names.LABEL_BENCHMARK_UID: study.uid,
        },
        "ownerReferences": [owner | {"controller": True}],
    }
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}


def _pod(
    study: observed.Study, plan: Plan, gang: actions.Gang, *, results_group: int, neighbours: Iterable[str]
) -> Manifest:
    pool, mounted = plan.pool(gang.pool).spec, volumes(study, plan, gang.pool)
    templates = _templates(study, plan, gang.pool)
    secrets = dict.fromkeys(secret.name for one in templates for secret in one.image_pull_secrets)
    written = _written(study, plan, gang, mounted)
    pod: Manifest = {
        "subdomain": names.study_name(study.name, study.uid),
        "restartPolicy": "Never",
        "activeDeadlineSeconds": outcome.deadline_seconds(plan.timing),  # none of the Job: waiting costs nothing
        "terminationGracePeriodSeconds": outcome.GRACE_SECONDS,
        "automountServiceAccountToken": False,  # a worker needs no API; tokens for clouds are volumes of webhooks
        "enableServiceLinks": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [_container(study, plan, gang, mounted=mounted, written=written)],
        "volumes": [
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},  # NCCL's and Gloo's shared memory; 64 MiB is too little
            *map(_volume, mounted),
        ],
    }
    for one in written:
        others = [volume for volume in pod["volumes"] if volume["name"] != one.name]
        pod["volumes"] = [*others, {"name": one.name, "persistentVolumeClaim": {"claimName": one.claim.claim_name}}]
        if results_group and not one.holds_data:  # a kubelet would change group and mode of each file of the data
            pod["securityContext"] |= {"fsGroup": results_group, "fsGroupChangePolicy": "OnRootMismatch"}
    optional = {
        "nodeSelector": dict(pool.scheduling.node_selector),
        "tolerations": [toleration.to_wire() for toleration in pool.scheduling.tolerations],
        "imagePullSecrets": [{"name": name} for name in secrets],
        "resourceClaims": _claims(templates),
        "affinity": _affinity(study, plan, gang, neighbours),
    }
    pod |= {field: value for field, value in optional.items() if value}
    pod |= _given(templates, "runtime_class_name", "service_account_name")
    return pod | _given(_schedulings(study, plan, gang.pool), "priority_class_name", "scheduler_name")


def _affinity(study: observed.Study, plan: Plan, gang: actions.Gang, neighbours: Iterable[str]) -> Manifest:
    near, topology = None, _topology(study, plan, gang)
    if topology is not None and study.spec.queue_name is None:  # a queue sees to it itself
        # A gang's first pod passes: a required term that no pod matches yet is void for a pod that it selects itself.
        term = {"labelSelector": {"matchLabels": _siblings(study, gang)}, "topologyKey": topology.key}
        near = _pods(term, is_required=topology.mode == "Required")
    apart = _apart(study, gang, neighbours, exclusive=plan.pool(gang.pool).spec.exclusive_nodes)
    found = {"nodeAffinity": _node_affinity(study, plan, gang), "podAffinity": near, "podAntiAffinity": apart}
    return {kind: terms for kind, terms in found.items() if terms}


def _node_affinity(study: observed.Study, plan: Plan, gang: actions.Gang) -> Manifest:
    """Both affinities hold: a term of the pool's and a term of the benchmark's together, for each pair of them."""
    schedulings = _schedulings(study, plan, gang.pool)
    alternatives = [one.node_selector_terms for one in schedulings if one.node_selector_terms]
    terms: list[Manifest] = [
        {"matchExpressions": [wanted.to_wire() for term in pair for wanted in term.match_expressions]}
        for pair in (itertools.product(*alternatives) if alternatives else ())
    ]
    node = plan.point_by_trial[gang.assignment.trial].key.node
    if node is not None:  # through the scheduler, unlike nodeName: it looks whether there is room, and waits for it
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = [one | {"matchFields": [field]} for one in terms or [{}]]
    given = [one.node_affinity for one in schedulings if one.node_affinity is not None]
    preferred = [term.to_wire() for one in given for term in one.preferred_during_scheduling_ignored_during_execution]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}} if terms else {}
    return required | ({"preferredDuringSchedulingIgnoredDuringExecution": preferred} if preferred else {})


def _pods(term: Manifest, *, is_required: bool) -> Manifest:
    if is_required:
        return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": term}]}


def _siblings(study: observed.Study, gang: actions.Gang) -> dict[str, str]:
    return {
        names.LABEL_BENCHMARK_UID: study.uid,
        names.LABEL_TRIAL: gang.assignment.trial,
        names.LABEL_ATTEMPT: str(gang.assignment.attempt),
    }


def _claims(templates: Iterable[Template]) -> list[Manifest]:
    """Resource claims of each pod: a benchmark's replaces its pool's of the same name."""
    return list({one.name: one.to_wire() for template in templates for one in template.resource_claims}.values())


def _volume(volume: Volume) -> Manifest:
    wire: Manifest = volume.to_wire()
    del wire["mountPath"]
    if claim := wire.get("persistentVolumeClaim"):
        claim["readOnly"] = True
    if folder := wire.get("hostPath"):
        folder["type"] = "Directory"  # none is made where there is none
    return wire


class _Written(NamedTuple):
    """A claim that the pods of a gang write on, and where it is mounted for that."""

    name: str  # of the volume in the pod
    claim: ClaimVolume
    path: str
    variable: str  # of the pod's environment, that says in which folder it may write
    folder: str
    holds_data: bool  # whether it is mounted for reading, too


def _written(study: observed.Study, plan: Plan, gang: actions.Gang, mounted: Sequence[Volume]) -> tuple[_Written, ...]:
    """The volumes for records and for checkpoints, each in a folder of this very object.

    A claim that is mounted already, for data or for records, is the same volume once more: a pod that names one claim
    in two volumes waits for ever (kubernetes/kubernetes, issues 82526 and 132921).
    """
    found: tuple[_Written, ...] = ()
    data = {volume.persistent_volume_claim: volume.name for volume in mounted}
    results, checkpoint, own = study.spec.results, study.spec.checkpoint, names.study_name(study.name, study.uid)
    if results is not None and own_command(plan, gang) is None:
        name, is_data = data.get(results.volume, _RESULTS), results.volume in data
        folder = "/".join(filter(None, (_RESULTS_PATH, results.path, own, names.LOGS_FOLDER)))
        found += (_Written(name, results.volume, _RESULTS_PATH, names.ENV_RECORDS, folder, is_data),)
    if checkpoint is not None:
        claim, same = checkpoint.volume, {one.claim: one.name for one in found}
        name = data.get(claim) or same.get(claim, _CHECKPOINTS)
        folder = "/".join((_CHECKPOINTS_PATH, own, names.CHECKPOINTS_FOLDER))
        found += (_Written(name, claim, _CHECKPOINTS_PATH, names.ENV_CHECKPOINTS, folder, claim in data),)
    return found


def _apart(study: observed.Study, gang: actions.Gang, neighbours: Iterable[str], *, exclusive: bool) -> Manifest:
    """Whom a pod of the gang must not meet on its node, or had better not.

    Where nodes are exclusive, any gang; else those with exclusive nodes. And then its own siblings, as long as there
    are other nodes: two pods of a gang on one node talk through its memory, and their point says so
    (`WarningReason.NODE_SHARED`).
    """
    host, gangs = {"topologyKey": "kubernetes.io/hostname"}, {names.LABEL_COMPONENT: names.COMPONENT_GANG}
    namespaces, found = sorted({study.namespace, *neighbours} if exclusive else neighbours), Manifest()
    if namespaces:
        labels = gangs if exclusive else gangs | {names.LABEL_EXCLUSIVE: "true"}
        found = _pods({"labelSelector": {"matchLabels": labels}, "namespaces": namespaces} | host, is_required=True)
    if exclusive or gang.nodes == 1:
        return found
    return found | _pods({"labelSelector": {"matchLabels": _siblings(study, gang)}} | host, is_required=False)


def _container(
    study: observed.Study, plan: Plan, gang: actions.Gang, *, mounted: Sequence[Volume], written: Sequence[_Written]
) -> Manifest:
    pool = plan.pool(gang.pool).spec
    variables = gang_environment(study, plan, gang) | {one.variable: one.folder for one in written}
    if study.spec.queue_name is not None:
        variables[names.ENV_RUNS_AGAIN] = "true"
    downward = {
        names.ENV_POD_IP: "status.podIPs",
        names.ENV_POD_NAME: "metadata.name",
        names.ENV_NODE_NAME: "spec.nodeName",
        names.ENV_NAMESPACE: "metadata.namespace",
    }
    secret = {"name": names.token_name(study.name, study.uid), "key": names.TOKEN_KEY}
    # All slots of its node when nodes are exclusive, else those of its ranks.
    slots = gang.slots // gang.nodes
    resources = {"cpu": units.times(pool.slot.cpu, slots), "memory": units.times(pool.slot.memory, slots)}
    if pool.slot.gpu_resource is not None:
        resources[pool.slot.gpu_resource] = str(slots)
    resources |= dict(pool.node_resources)
    templates = _templates(study, plan, gang.pool)
    claims = [{"name": claim["name"]} for claim in _claims(templates)]
    added = sorted({capability for one in templates for capability in one.capabilities})
    return {
        "name": names.CONTAINER,
        "image": dict(plan.images)[gang.pool],
        "command": [_verbatim(word) for word in own_command(plan, gang) or _LAUNCHER],
        "env": [
            *({"name": name, "value": _verbatim(value)} for name, value in variables.items()),
            *({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in downward.items()),
            {"name": names.ENV_GANG_TOKEN, "valueFrom": {"secretKeyRef": secret}},
        ],
        "terminationMessagePath": names.TERMINATION_MESSAGE_PATH,
        "ports": [
            {"name": f"metrics-{local}", "containerPort": names.PORT_METRICS + local}
            for local in range(gang.assignment.workers_per_node)
        ],
        # Requests equal limits: the Guaranteed class, in which a kubelet can give whole processors away.
        "resources": {"requests": resources, "limits": resources, **({"claims": claims} if claims else {})},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], **({"add": added} if added else {})},
        },
        "volumeMounts": [
            {"name": "tmp", "mountPath": _SCRATCH},
            {"name": "shm", "mountPath": _SHARED_MEMORY},
            *({"name": volume.name, "mountPath": volume.mount_path, "readOnly": True} for volume in mounted),
            *({"name": one.name, "mountPath": one.path} for one in written),
        ],
        **_given(templates, "image_pull_policy"),
    }


def _verbatim(text: str) -> str:
    """Text that arrives as it is: the kubelet expands $(NAME), and makes $ of $$."""
    return text.replace("$", "$$")
