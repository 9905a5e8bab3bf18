# SPDX-License-Identifier: Apache-2.0
"""The objects of a study: names that always fit, ownership, and the fields that the design stands on."""

from typing import Any

import pytest

import builders
from gpubench import exitcodes, names
from gpubench.api.pod_template import PodScheduling
from gpubench.api.pool import GpuPool
from gpubench.plan.assignment import Assignment, Checkpointing
from gpubench.plan.expand import freeze
from gpubench.scheduler import capacity, manifests
from gpubench.scheduler.actions import Gang
from world import world

LONGEST = "a" * names.BENCHMARK_NAME_MAX


def first_job(
    pool: GpuPool | None = None, *, workers: int = 1, results_group: int = manifests.RESULTS_GROUP, **spec: Any
) -> dict[str, Any]:
    a_spec = builders.spec(builders.block(workers=[workers]), **spec)
    here = world(builders.study(a_spec), builders.plan(a_spec, pool or builders.pool()))
    (gang,) = here.decide().create
    return manifests.job(here.study, here.plan, gang, results_group=results_group)


def container(job: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = job["spec"]["template"]["spec"]["containers"][0]
    return found


SLOT = {"cpu": "1500m", "memory": "3Gi"}


def test_the_longest_host_name_fits_a_dns_label() -> None:
    job = names.job_name(LONGEST, builders.UID, trial="a" * 8, attempt=999)
    assert len(f"{job}-{names.NODES_MAX - 1}") == 63
    assert max(len(name(LONGEST, builders.UID)) for name in (names.plan_name, names.study_name, names.token_name)) <= 63


def test_another_object_of_the_same_name_has_other_names() -> None:
    one, other = (names.job_name("quick", uid, trial="t", attempt=1) for uid in ("uid-1", "uid-2"))
    assert one != other


def test_everything_is_owned_by_the_benchmark_and_labelled_with_its_uid() -> None:
    study, plan = builders.study(), builders.plan()
    for kind, manifest in {
        ("v1", "ConfigMap"): manifests.plan_config_map(study, plan),
        ("v1", "ConfigMap", "of the ledger"): manifests.ledger_config_map(study, 0, {}),
        ("v1", "Service"): manifests.service(study),
        ("v1", "Secret"): manifests.token(study, "x"),
        ("networking.k8s.io/v1", "NetworkPolicy"): manifests.network_policy(study, plan),
        ("batch/v1", "Job"): first_job(),
    }.items():
        assert (manifest["apiVersion"], manifest["kind"]) == kind[:2]
        (owner,) = manifest["metadata"]["ownerReferences"]
        assert owner == {
            "apiVersion": names.API_VERSION, "kind": "GpuBenchmark", "name": "quick", "uid": builders.UID,
            "controller": True,
        }  # fmt: skip
        assert manifest["metadata"]["labels"][names.LABEL_BENCHMARK_UID] == builders.UID


def test_the_pods_have_the_priority_class_that_the_operator_is_given_and_none_of_our_own() -> None:
    spec = builders.spec(builders.block(workers=[1]))
    here = world(builders.study(spec), builders.plan(spec, builders.pool()))
    (gang,) = here.decide().create
    found = manifests.job(here.study, here.plan, gang, priority_class="gangs")["spec"]["template"]["spec"]
    assert found.pop("priorityClassName") == "gangs"
    assert found == first_job()["spec"]["template"]["spec"]
    asked = builders.study(spec.model_copy(update={"scheduling": PodScheduling(priority_class_name="own")}))
    found = manifests.job(asked, here.plan, gang, priority_class="gangs")["spec"]["template"]["spec"]
    assert found["priorityClassName"] == "own"


def test_the_plan_comes_back_from_its_config_map() -> None:
    plan = builders.plan()
    assert manifests.read_plan(manifests.plan_config_map(builders.study(), plan)) == plan


def test_one_job_is_one_attempt_of_a_whole_gang() -> None:
    spec = first_job(workers=2)["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (2, 2, "Indexed")
    assert (spec["backoffLimit"], spec["podReplacementPolicy"]) == (0, "Failed")
    assert spec["successPolicy"] == {"rules": [{"succeededIndexes": "0"}]}
    assert spec["template"]["spec"]["restartPolicy"] == "Never"


def test_the_failure_policy_names_our_codes_and_never_a_signal() -> None:
    disruption, codes = first_job()["spec"]["podFailurePolicy"]["rules"]
    assert disruption["onPodConditions"] == [{"type": "DisruptionTarget", "status": "True"}]
    assert codes["onExitCodes"]["values"] == sorted(exitcodes.DO_NOT_RETRY)
    assert all(code < 128 for code in codes["onExitCodes"]["values"])
    assert codes["onExitCodes"]["containerName"] == names.CONTAINER


def test_the_job_frees_its_nodes_even_when_no_operator_is_there() -> None:
    spec = first_job(limits={"schedulingTimeout": "1m", "attemptTimeout": "1h"})["spec"]
    assert 3660 < spec["template"]["spec"]["activeDeadlineSeconds"] < 3660 + 600
    assert "activeDeadlineSeconds" not in spec, "a Job that waits for nodes costs nothing"
    assert spec["ttlSecondsAfterFinished"] == manifests.UNREAD_SECONDS


@pytest.mark.parametrize(
    ("exclusive", "processors", "memory", "gpus"), [(True, "88", "640Gi", "8"), (False, "22", "160Gi", "2")]
)
def test_an_exclusive_pod_asks_for_all_slots_of_its_node(
    exclusive: bool, processors: str, memory: str, gpus: str
) -> None:
    slot = {"gpu_resource": "nvidia.com/gpu", "cpu": "11", "memory": "80Gi"}
    pool = builders.pool(
        slots_per_node=8, exclusive_nodes=exclusive, slot=slot, node_resources={"example.com/efa": "4"}
    )
    job = first_job(pool, workers=2)
    wanted = {"cpu": processors, "memory": memory, "nvidia.com/gpu": gpus, "example.com/efa": "4"}
    assert container(job)["resources"] == {"requests": wanted, "limits": wanted}
    affinity = job["spec"]["template"]["spec"].get("affinity")
    assert (affinity is not None) is exclusive
    if exclusive:
        (apart,) = affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert apart["labelSelector"] == {"matchLabels": {names.LABEL_COMPONENT: names.COMPONENT_GANG}}


@pytest.mark.parametrize("exclusive", [True, False])
def test_who_shares_nodes_keeps_away_from_those_of_other_namespaces_who_do_not(exclusive: bool) -> None:
    spec = builders.spec(builders.block(workers=[1]))
    here = world(builders.study(spec), builders.plan(spec, builders.pool(exclusive_nodes=exclusive)))
    (gang,) = here.decide().create
    job = manifests.job(here.study, here.plan, gang, neighbours=("team-b",))
    (apart,) = affinity_of(job, "podAntiAffinity")[REQUIRED]
    any_gang, alone = {names.LABEL_COMPONENT: names.COMPONENT_GANG}, {names.LABEL_EXCLUSIVE: "true"}
    assert apart["labelSelector"] == {"matchLabels": any_gang if exclusive else any_gang | alone}
    assert apart["namespaces"] == (["default", "team-b"] if exclusive else ["team-b"])
    assert (alone.items() <= job["spec"]["template"]["metadata"]["labels"].items()) is exclusive


def test_siblings_share_a_node_only_where_nodes_are_shared_and_no_other_has_room() -> None:
    spec = builders.spec(builders.block(workers=[2], workersPerNode=1))
    pool = builders.pool(slots_per_node=2, exclusive_nodes=False)
    here = world(builders.study(spec), builders.plan(spec, pool))
    (gang,) = here.decide().create
    affinity = manifests.job(here.study, here.plan, gang)["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"]
    assert affinity.keys() == {"preferredDuringSchedulingIgnoredDuringExecution"}
    (apart,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    term = apart["podAffinityTerm"]
    assert term["labelSelector"]["matchLabels"][names.LABEL_TRIAL] == gang.assignment.trial
    assert term["topologyKey"] == "kubernetes.io/hostname"


def test_pods_find_their_nodes_as_the_pool_says() -> None:
    scheduling = {
        "node_selector": {"cloud.google.com/gke-spot": "true"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    }
    pod = first_job(builders.pool(scheduling=scheduling))["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"cloud.google.com/gke-spot": "true"}
    assert pod["tolerations"] == [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


REQUIRED, PREFERRED = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in ("required", "preferred"))
ZONE, BLOCK = "topology.kubernetes.io/zone", "cloud.google.com/gce-topology-block"


def zones(*values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(values)}]}


def exists(key: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "Exists"}]}


def affinity_of(job: dict[str, Any], kind: str) -> Any:
    return job["spec"]["template"]["spec"].get("affinity", {}).get(kind)


def test_node_affinity_of_pool_and_study_both_hold_and_both_are_preferred() -> None:
    pool = builders.pool(
        scheduling={
            "nodeAffinity": {
                REQUIRED: {"nodeSelectorTerms": [zones("a", "b"), exists("mine")]},
                PREFERRED: [{"weight": 9, "preference": zones("b")}],
            }
        }
    )
    own = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [exists("tested"), exists("new")]},
            PREFERRED: [{"weight": 1, "preference": exists("near")}],
        }
    }
    found = affinity_of(first_job(pool, scheduling=own), "nodeAffinity")
    pairs = [(zones("a", "b"), "tested"), (zones("a", "b"), "new"), (exists("mine"), "tested"), (exists("mine"), "new")]
    assert found[REQUIRED]["nodeSelectorTerms"] == [
        {"matchExpressions": term["matchExpressions"] + exists(key)["matchExpressions"]} for term, key in pairs
    ]
    assert found[PREFERRED] == [{"weight": 9, "preference": zones("b")}, {"weight": 1, "preference": exists("near")}]
    assert affinity_of(first_job(), "nodeAffinity") is None


def test_a_pod_of_a_single_node_is_bound_to_it_in_each_term() -> None:
    pool = builders.pool(scheduling={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [zones("a"), zones("b")]}}})
    a_spec = builders.spec(builders.block(workers=[1], placement="EachNode"))
    plan = freeze(a_spec, [pool], "2023-11-14T22:13:20Z", {pool.name: ("node-7",)})
    here = world(builders.study(a_spec), plan)
    (gang,) = here.decide().create
    terms = affinity_of(manifests.job(here.study, plan, gang), "nodeAffinity")[REQUIRED]["nodeSelectorTerms"]
    field = {"key": "metadata.name", "operator": "In", "values": ["node-7"]}
    assert terms == [zones("a") | {"matchFields": [field]}, zones("b") | {"matchFields": [field]}]


@pytest.mark.parametrize("mode", ["Preferred", "Required"])
def test_a_gang_is_kept_in_one_domain_of_the_studys_topology(mode: str) -> None:
    pool = builders.pool(scheduling={"topology": {"key": ZONE}})
    job = first_job(pool, workers=2, scheduling={"topology": {"key": BLOCK, "mode": mode}})
    labels = job["spec"]["template"]["metadata"]["labels"]
    own = (names.LABEL_BENCHMARK_UID, names.LABEL_TRIAL, names.LABEL_ATTEMPT)
    term = {"topologyKey": BLOCK, "labelSelector": {"matchLabels": {key: labels[key] for key in own}}}
    weighed = {PREFERRED: [{"weight": 100, "podAffinityTerm": term}]}
    assert affinity_of(job, "podAffinity") == ({REQUIRED: [term]} if mode == "Required" else weighed)
    assert (
        affinity_of(first_job(pool, workers=2), "podAffinity")[PREFERRED][0]["podAffinityTerm"]["topologyKey"] == ZONE
    )
    assert affinity_of(first_job(pool, workers=1), "podAffinity") is None


@pytest.mark.parametrize("mode", ["Preferred", "Required"])
def test_in_a_queue_kueue_is_told_the_topology_and_the_scheduler_is_not(mode: str) -> None:
    topology = {"topology": {"key": BLOCK, "mode": mode}}
    job = first_job(workers=2, scheduling=topology, queue_name="gpus")
    annotations = job["spec"]["template"]["metadata"]["annotations"]
    told = {key: text for key, text in annotations.items() if key.startswith("kueue")}
    assert told == {f"kueue.x-k8s.io/podset-{mode.lower()}-topology": BLOCK}
    assert affinity_of(job, "podAffinity") is None
    alone = first_job(workers=1, scheduling=topology, queue_name="gpus")
    assert not any("topology" in key for key in alone["spec"]["template"]["metadata"]["annotations"])
    assert not any("topology" in key for key in first_job(workers=2)["spec"]["template"]["metadata"]["annotations"])


def test_what_is_single_is_the_studys_and_what_is_many_is_both() -> None:
    pool = builders.pool(
        template={
            "labels": {"team": "infra", "cost": "gpu", "topology": "none", names.LABEL_TRIAL: "other"},
            "image_pull_secrets": [{"name": "one"}, {"name": "two"}],
            "service_account_name": "pools",
            "runtime_class_name": "nvidia",
            "capabilities": ["IPC_LOCK"],
        },
        scheduling={"priority_class_name": "low", "scheduler_name": "volcano"},
    )
    own = {
        "labels": {"team": "vision"},
        "image_pull_secrets": [{"name": "two"}, {"name": "three"}],
        "service_account_name": "own",
    }
    job = first_job(pool, template=own, scheduling={"priority_class_name": "high"})
    pod, labels = job["spec"]["template"]["spec"], job["spec"]["template"]["metadata"]["labels"]
    assert labels == job["metadata"]["labels"] | {"team": "vision", "cost": "gpu", "topology": "none"}
    assert pod["imagePullSecrets"] == [{"name": "one"}, {"name": "two"}, {"name": "three"}]
    shown = ("serviceAccountName", "runtimeClassName", "priorityClassName", "schedulerName")
    assert [pod[field] for field in shown] == ["own", "nvidia", "high", "volcano"]
    assert pod["automountServiceAccountToken"] is False
    assert container(job)["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    assert (
        not {*shown, "imagePullSecrets", "affinity"}
        & first_job(builders.pool(exclusive_nodes=False))["spec"]["template"]["spec"].keys()
    )


def test_the_claims_of_pool_and_benchmark_reach_the_pod_and_its_container() -> None:
    pools = [
        {"name": "gpus", "resourceClaimTemplateName": "two-gpus"},
        {"name": "network", "resourceClaimTemplateName": "slow"},
    ]
    own = [{"name": "network", "resourceClaimTemplateName": "fast"}]
    place = builders.pool(slots_per_node=2, accelerator="GB200", template={"resourceClaims": pools})
    job = first_job(place, workers=2, template={"resourceClaims": own})
    assert job["spec"]["template"]["spec"]["resourceClaims"] == [pools[0], own[0]]
    resources = container(job)["resources"]
    assert resources["claims"] == [{"name": "gpus"}, {"name": "network"}]
    assert set(resources["limits"]) == {"cpu", "memory"}
    without = first_job(workers=2)
    assert "resourceClaims" not in without["spec"]["template"]["spec"]
    assert "claims" not in container(without)["resources"]


def test_ranks_compute_on_gpus_where_the_pool_has_a_resource_or_claims_for_them() -> None:
    claims = [{"name": "gpus", "resourceClaimTemplateName": "one-gpu"}]

    def on_gpus(job: dict[str, Any]) -> bool:
        env = {one["name"]: one.get("value") for one in container(job)["env"]}
        return Assignment.model_validate_json(env[names.ENV_ASSIGNMENT]).gpu

    slot = {"cpu": "1", "memory": "1Gi", "gpu_resource": "nvidia.com/gpu"}
    assert on_gpus(first_job(builders.pool(slot=slot)))
    assert on_gpus(first_job(builders.pool(template={"resourceClaims": claims})))
    assert not on_gpus(first_job(template={"resourceClaims": claims}))  # a benchmark's are other devices


def test_ranks_know_the_processors_and_the_memory_that_were_planned_for_them() -> None:
    env = {one["name"]: one.get("value") for one in container(first_job(builders.pool(slot=SLOT)))["env"]}
    assignment = Assignment.model_validate_json(env[names.ENV_ASSIGNMENT])
    assert (assignment.slot_processors, assignment.slot_memory_bytes) == (1.5, 3 * 2**30)


def test_a_pod_passes_the_restricted_level_and_has_no_credentials() -> None:
    job = first_job()
    pod = job["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container(job)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_the_assignment_travels_whole_and_no_variable_of_the_user_replaces_it() -> None:
    mine = [
        {"name": names.ENV_ASSIGNMENT, "value": "forged"},
        {"name": names.ENV_POD_INDEX, "value": "0"},
        {"name": "NCCL_DEBUG", "value": "$(HOME) a$$b"},
    ]
    job = first_job(template={"env": mine})
    values = {entry["name"]: entry.get("value") for entry in container(job)["env"]}
    assignment = Assignment.model_validate_json(values[names.ENV_ASSIGNMENT] or "")
    assert assignment.workload == "mnist_cnn"
    assert values["NCCL_DEBUG"] == "$$(HOME) a$$$$b"  # which the kubelet turns back, unexpanded
    assert names.ENV_POD_INDEX not in values  # set by the Job controller, and only if it is not there yet
    assert len(container(job)["env"]) == len(values)


def test_a_variants_variables_lie_over_the_templates_and_under_ours() -> None:
    variant = {
        "name": "tuned",
        "env": [{"name": "NCCL_ALGO", "value": "Ring"}, {"name": names.ENV_ASSIGNMENT, "value": "forged"}],
    }
    spec = builders.spec(
        builders.block(workers=[1], variants=[variant, {"name": "plain"}]),
        template={"env": [{"name": "NCCL_ALGO", "value": "Tree"}, {"name": "NCCL_DEBUG", "value": "INFO"}]},
    )
    study, plan = builders.study(spec), builders.plan(spec)
    found = {}
    for trial in plan.trials:
        gang = capacity.gang_of(plan, trial, attempt=1)
        assert gang.assignment.variant is not None
        environment = manifests.gang_environment(study, plan, gang)
        found[gang.assignment.variant.name] = environment["NCCL_ALGO"], environment["NCCL_DEBUG"]
        assert environment[names.ENV_ASSIGNMENT] == gang.assignment.to_json()
    assert found == {"tuned": ("Ring", "INFO"), "plain": ("Tree", "INFO")}


def test_volumes_are_mounted_read_only_beside_our_own() -> None:
    pool_volumes = [
        {"name": "data", "mountPath": "/data", "hostPath": {"path": "/srv/pool"}},
        {"name": "models", "mountPath": "/models", "persistentVolumeClaim": {"claimName": "models"}},
        {"name": "more", "mountPath": "/more", "hostPath": {"path": "/srv/more"}},
    ]
    study_volumes = [
        {"name": "data", "mountPath": "/mnt", "hostPath": {"path": "/srv/study"}},  # replaced by its name
        {"name": "mine", "mountPath": "/models", "configMap": {"name": "mine"}},  # by its mountPath
    ]
    job = first_job(builders.pool(template={"volumes": pool_volumes}), template={"volumes": study_volumes})
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"][2:] == [
        {"name": "more", "hostPath": {"path": "/srv/more", "type": "Directory"}},
        {"name": "data", "hostPath": {"path": "/srv/study", "type": "Directory"}},
        {"name": "mine", "configMap": {"name": "mine"}},
    ]
    assert container(job)["volumeMounts"][2:] == [
        {"name": "more", "mountPath": "/more", "readOnly": True},
        {"name": "data", "mountPath": "/mnt", "readOnly": True},
        {"name": "mine", "mountPath": "/models", "readOnly": True},
    ]


def test_a_claim_is_mounted_read_only() -> None:
    claim = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "sets"}}
    pod = first_job(template={"volumes": [claim]})["spec"]["template"]["spec"]
    assert pod["volumes"][2] == {"name": "data", "persistentVolumeClaim": {"claimName": "sets", "readOnly": True}}


def test_a_program_of_ones_own_runs_in_place_of_the_launcher() -> None:
    custom = {"name": "mine", "command": ["python", "/models/mine.py", "--cost=$(PRICE)"]}
    spec = builders.spec(builders.block(workloads=["Custom"], custom=custom, workers=[1]))
    here = world(builders.study(spec), builders.plan(spec))
    (gang,) = here.decide().create
    ours, own = container(first_job()), container(manifests.job(here.study, here.plan, gang))
    assert own["command"] == ["python", "/models/mine.py", "--cost=$$(PRICE)"]  # nothing is expanded
    assert ours["command"] == ["python", "-m", "gpubench_jobs.launcher"]
    assert [entry["name"] for entry in own["env"]] == [entry["name"] for entry in ours["env"]]
    assert own["terminationMessagePath"] == ours["terminationMessagePath"]
    assert own["securityContext"] == ours["securityContext"]


def test_the_studys_image_lies_over_the_pools() -> None:
    pool = builders.pool(template={"image": "pool:1", "image_pull_policy": "Never"})
    assert container(first_job(pool))["image"] == "pool:1"
    assert container(first_job(pool))["imagePullPolicy"] == "Never"
    assert container(first_job(pool, template={"image": "study:2"}))["image"] == "study:2"


def test_annotations_of_pool_and_study_reach_the_pods_and_win_over_ours() -> None:
    pool = builders.pool(
        template={"annotations": {"networking.gke.io/default-interface": "eth0", names.ANNOTATION_KARPENTER: "false"}}
    )
    job = first_job(pool, template={"annotations": {"networking.gke.io/default-interface": "eth1", "team": "vision"}})
    assert job["spec"]["template"]["metadata"]["annotations"] == {
        "networking.gke.io/default-interface": "eth1",
        "team": "vision",
        names.ANNOTATION_KARPENTER: "false",
        names.ANNOTATION_AUTOSCALER: "false",
    }


def test_pod_0_is_found_by_its_name_in_the_studys_service() -> None:
    here = world()
    (gang,) = here.decide().create
    environment = manifests.gang_environment(here.study, here.plan, gang)
    job, service = manifests.job(here.study, here.plan, gang), manifests.service(here.study)
    host = f"{job['metadata']['name']}-0.{service['metadata']['name']}.default"
    assert environment[names.ENV_RENDEZVOUS_HOST] == host
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["ports"] == [{"name": "rendezvous", "port": names.PORT_RENDEZVOUS}]
    assert isinstance(gang, Gang)


# --- a results volume -------------------------------------------------------------------------------------------------

RESULTS = {"volume": {"claimName": "runs"}, "path": "team-a/studies"}


def variables(job: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value") for entry in container(job)["env"]}


def test_every_pod_of_every_attempt_can_write_the_results_volume() -> None:
    job = first_job(workers=2, results=RESULTS)
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"][-1] == {"name": "gpubench-results", "persistentVolumeClaim": {"claimName": "runs"}}
    mount = container(job)["volumeMounts"][-1]
    assert mount == {"name": "gpubench-results", "mountPath": "/tmp/gpubench-results"}  # noqa: S108  # in the pod
    study = names.study_name("quick", builders.UID)
    assert variables(job)[names.ENV_RECORDS] == f"{mount['mountPath']}/team-a/studies/{study}/logs"
    assert pod["securityContext"]["fsGroup"] > 0, "a fresh claim belongs to root, and no pod of ours is root"
    assert pod["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"
    assert pod["securityContext"]["runAsNonRoot"] is True


def test_where_the_cluster_gives_a_group_the_pods_name_none() -> None:
    pod = first_job(results=RESULTS, results_group=0)["spec"]["template"]["spec"]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}


def test_without_a_path_the_study_has_its_folder_on_the_volume_itself() -> None:
    job = first_job(results={"volume": {"claimName": "runs"}})
    study = names.study_name("quick", builders.UID)
    assert variables(job)[names.ENV_RECORDS] == f"/tmp/gpubench-results/{study}/logs"  # noqa: S108  # in the pod


def test_a_study_without_a_results_volume_has_the_job_and_the_plan_it_had() -> None:
    job = first_job()
    pod = job["spec"]["template"]["spec"]
    assert [volume["name"] for volume in pod["volumes"]] == ["tmp", "shm"]
    assert container(job)["volumeMounts"] == [
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # in the pod
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108  # in the pod
    ]
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert names.ENV_RECORDS not in variables(job)
    assert builders.plan(builders.spec(results=RESULTS)) == builders.plan()


def test_no_variable_of_the_user_moves_the_records() -> None:
    mine = [{"name": names.ENV_RECORDS, "value": "/elsewhere"}]
    assert names.ENV_RECORDS not in variables(first_job(template={"env": mine}))
    moved = variables(first_job(template={"env": mine}, results=RESULTS))[names.ENV_RECORDS]
    assert moved == variables(first_job(results=RESULTS))[names.ENV_RECORDS]


def test_a_program_of_ones_own_is_given_no_results_volume() -> None:
    custom = {"name": "mine", "command": ["python", "/models/mine.py"]}
    spec = builders.spec(
        builders.block(workloads=["Custom"], custom=custom, workers=[1]),
        builders.block(workers=[1]),
        results=RESULTS,
    )
    study, plan = builders.study(spec), builders.plan(spec)
    jobs = [manifests.job(study, plan, capacity.gang_of(plan, trial, attempt=1)) for trial in plan.trials]
    given = {container(job)["command"][1]: names.ENV_RECORDS in variables(job) for job in jobs}
    mounted = {container(job)["command"][1]: len(container(job)["volumeMounts"]) for job in jobs}
    assert given == {"/models/mine.py": False, "-m": True}
    assert mounted == {"/models/mine.py": 2, "-m": 3}


def test_a_claim_that_has_the_data_too_is_one_volume_that_is_written_at_one_place_only() -> None:
    claim = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "runs"}}
    job = first_job(results=RESULTS, template={"volumes": [claim]})
    assert job["spec"]["template"]["spec"]["volumes"][2:] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "runs"}}
    ]
    assert container(job)["volumeMounts"][2:] == [
        {"name": "data", "mountPath": "/data", "readOnly": True},
        {"name": "data", "mountPath": "/tmp/gpubench-results"},  # noqa: S108  # in the pod
    ]


def test_the_files_of_a_data_set_are_given_to_no_group() -> None:
    claim = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "runs"}}
    other = claim | {"persistentVolumeClaim": {"claimName": "images"}}
    shared, apart = (
        first_job(results=RESULTS, template={"volumes": [volume]})["spec"]["template"]["spec"]["securityContext"]
        for volume in (claim, other)
    )
    assert not {"fsGroup", "fsGroupChangePolicy"} & shared.keys()
    assert {"fsGroup", "fsGroupChangePolicy"} <= apart.keys(), "a claim that is mounted for reading is left alone"


def test_the_token_of_a_study_comes_from_a_secret_that_only_its_pods_read() -> None:
    study = builders.study()
    secret = manifests.token(study, "s3cret")
    assert (secret["immutable"], secret["type"]) == (True, "Opaque")
    job = first_job(template={"env": [{"name": names.ENV_GANG_TOKEN, "value": "forged"}]})
    (variable,) = [entry for entry in container(job)["env"] if entry["name"] == names.ENV_GANG_TOKEN]
    reference = variable["valueFrom"]["secretKeyRef"]
    assert reference["name"] == secret["metadata"]["name"]
    assert reference["key"] in secret["stringData"]
    assert "optional" not in reference, "a pod without it would take part without being asked"
    assert "s3cret" not in str(job)


def test_a_study_lets_in_its_own_pods_and_whoever_scrapes_and_nobody_else() -> None:
    spec = builders.spec(builders.block(workers=[1, 2]))
    pool = builders.pool(slots_per_node=2)
    study, plan = builders.study(spec), builders.plan(spec, pool)
    policy = manifests.network_policy(study, plan)["spec"]
    gang = {names.LABEL_BENCHMARK_UID: builders.UID, names.LABEL_COMPONENT: names.COMPONENT_GANG}
    labels = first_job()["spec"]["template"]["metadata"]["labels"]
    assert gang.items() <= labels.items()
    assert policy["podSelector"] == {"matchLabels": gang}
    assert policy["policyTypes"] == ["Ingress"], "what pods may reach is not narrowed: data may be anywhere"
    among_themselves, metrics = policy["ingress"]
    assert among_themselves == {"from": [{"podSelector": {"matchLabels": gang}}]}  # on every port, of their namespace
    assert metrics == {"ports": [{"protocol": "TCP", "port": 9400, "endPort": 9401}]}
    opened = [{"name": "metrics-0", "containerPort": 9400}, {"name": "metrics-1", "containerPort": 9401}]
    assert container(first_job(pool, workers=2))["ports"] == opened


def test_who_may_scrape_can_be_narrowed_to_namespaces() -> None:
    study, plan = builders.study(), builders.plan()
    (_, metrics) = manifests.network_policy(study, plan, scrapers=("monitoring",))["spec"]["ingress"]
    (source,) = metrics["from"]
    (wanted,) = source["namespaceSelector"]["matchExpressions"]
    assert wanted == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["monitoring"]}
    assert [port["port"] for port in metrics["ports"]] == [names.PORT_METRICS]


HOSTILE = "$(touch owned) `id` '; rm -rf / #\" \\ $$ ${HOME} |& \n"


def test_what_a_user_writes_is_an_argument_and_a_value_and_never_a_line_of_a_shell() -> None:
    custom = {"name": "mine", "command": ["/bin/train", HOSTILE]}
    spec = builders.spec(
        builders.block(workloads=["Custom"], custom=custom, workers=[1]),
        template={"env": [{"name": "MINE", "value": HOSTILE}]},
    )
    study, plan = builders.study(spec), builders.plan(spec)
    found = container(manifests.job(study, plan, capacity.gang_of(plan, plan.trials[0], attempt=1)))
    assert [word.replace("$$", "$") for word in found["command"]] == ["/bin/train", HOSTILE]
    assert "args" not in found
    (value,) = [entry["value"] for entry in found["env"] if entry["name"] == "MINE"]
    assert value.replace("$$", "$") == HOSTILE
    assert container(first_job())["command"] == ["python", "-m", "gpubench_jobs.launcher"]


# --- a checkpoint volume ----------------------------------------------------------------------------------------------

CHECKPOINT = {"volume": {"claimName": "kept"}}
TRAINING: dict[str, Any] = {"measure": {"mode": "Training"}, "checkpoint": CHECKPOINT}


def training_job(**spec: Any) -> dict[str, Any]:
    a_spec = builders.spec(builders.block(workers=[2], data={"source": "Generated"}), **(TRAINING | spec))
    here = world(builders.study(a_spec), builders.plan(a_spec, builders.pool()))
    (gang,) = here.decide().create
    return manifests.job(here.study, here.plan, gang)


def test_every_pod_of_every_attempt_can_write_the_checkpoint_volume_below_a_folder_of_the_study() -> None:
    job = training_job()
    pod = job["spec"]["template"]["spec"]
    assert pod["volumes"][-1] == {"name": "gpubench-checkpoints", "persistentVolumeClaim": {"claimName": "kept"}}
    mount = container(job)["volumeMounts"][-1]
    assert mount == {"name": "gpubench-checkpoints", "mountPath": "/tmp/gpubench-checkpoints"}  # noqa: S108
    study = names.study_name("quick", builders.UID)
    assert variables(job)[names.ENV_CHECKPOINTS] == f"{mount['mountPath']}/{study}/checkpoints"
    assert pod["securityContext"]["fsGroup"] > 0
    told = Assignment.model_validate_json(variables(job)[names.ENV_ASSIGNMENT])
    assert told.checkpoint == Checkpointing()


def test_the_gang_is_told_when_to_keep_checkpoints() -> None:
    for policy, told in (
        ({"interval": "1m30s"}, Checkpointing(interval_seconds=90)),
        ({"interruptionsPerHour": "0.25"}, Checkpointing(interruptions_per_node_hour=0.25)),
    ):
        job = training_job(checkpoint=CHECKPOINT | policy)
        assert Assignment.model_validate_json(variables(job)[names.ENV_ASSIGNMENT]).checkpoint == told


def test_records_and_checkpoints_on_one_claim_are_one_volume_at_two_places() -> None:
    job = training_job(results={"volume": {"claimName": "kept"}})
    assert job["spec"]["template"]["spec"]["volumes"][2:] == [
        {"name": "gpubench-results", "persistentVolumeClaim": {"claimName": "kept"}}
    ]
    assert container(job)["volumeMounts"][2:] == [
        {"name": "gpubench-results", "mountPath": "/tmp/gpubench-results"},  # noqa: S108  # in the pod
        {"name": "gpubench-results", "mountPath": "/tmp/gpubench-checkpoints"},  # noqa: S108  # in the pod
    ]


def test_data_records_and_checkpoints_on_one_claim_are_one_volume() -> None:
    claim = {"name": "data", "mountPath": "/data", "persistentVolumeClaim": {"claimName": "kept"}}
    job = training_job(results={"volume": {"claimName": "kept"}}, template={"volumes": [claim]})
    assert [volume["name"] for volume in job["spec"]["template"]["spec"]["volumes"]] == ["tmp", "shm", "data"]
    assert [mount["name"] for mount in container(job)["volumeMounts"][2:]] == ["data", "data", "data"]
    assert "fsGroup" not in job["spec"]["template"]["spec"]["securityContext"]


def test_a_study_without_a_checkpoint_volume_is_told_nothing_of_checkpoints() -> None:
    job = training_job(checkpoint=None)
    assert names.ENV_CHECKPOINTS not in variables(job)
    assert "checkpoint" not in variables(job)[names.ENV_ASSIGNMENT]
