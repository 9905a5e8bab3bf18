# SPDX-License-Identifier: Apache-2.0
"""What the pods of a benchmark are made of and where they run, by its pool and by itself."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpubench.api import rules
from gpubench.values import FrozenModel

LabelKey = Annotated[str, Field(max_length=317, pattern=rules.LABEL_KEY)]  # 253 + "/" + 63
LabelValue = Annotated[str, Field(max_length=63, pattern=rules.LABEL_VALUE)]
#: Label keys that gpubench and Kubernetes' controllers set on the pods.
_TAKEN = (
    r"^(([^/]*[.])?(gpubench[.]dev|kueue[.]x-k8s[.]io|batch[.]kubernetes[.]io)/.*|"
    r"app[.]kubernetes[.]io/managed-by|job-name|controller-uid)$"
)


class ClaimVolume(FrozenModel):
    """A PersistentVolumeClaim of the benchmark's namespace."""

    claim_name: rules.ObjectName = Field(description="Name of the claim.")


class ConfigMapVolume(FrozenModel):
    """A ConfigMap of the benchmark's namespace: each of its keys is a file."""

    name: rules.ObjectName = Field(description="Name of the ConfigMap.")


class HostPathVolume(FrozenModel):
    """A folder of the node, for own machines; refused where Pod Security forbids it."""

    path: rules.Path = Field(description="Folder on the node.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "!self.path.matches('(^|/)[.][.](/|$)')",
            "hostPath.path cannot go up by ..: write the folder itself, such as /srv/data",
            ".path",
        ),
    )


class Volume(FrozenModel):
    """Files for the pods: a data set, a model of your own. Mounted read-only."""

    name: str = Field(min_length=1, max_length=63, pattern=rules.VOLUME_NAME, description="Name of the volume.")
    mount_path: str = Field(min_length=1, max_length=1024, description="Where the pods see it, such as /data.")
    persistent_volume_claim: ClaimVolume | None = Field(None, description="A PersistentVolumeClaim.")
    config_map: ConfigMapVolume | None = Field(None, description="A ConfigMap.")
    host_path: HostPathVolume | None = Field(None, description="A folder of the node.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "[has(self.persistentVolumeClaim), has(self.configMap), has(self.hostPath)].filter(x, x).size() == 1",
            "a volume needs exactly one of persistentVolumeClaim, configMap and hostPath",
        ),
        rules.Rule(
            "self.mountPath.matches('^(/[^/:]+)+$') && !self.mountPath.matches('(^|/)[.][.]?(/|$)') && "
            "!self.mountPath.matches('^/(dev|proc|sys|tmp)(/|$)')",
            "volumes[].mountPath must be an absolute path, not / and not in /dev, /proc, /sys or /tmp, "
            "without : and /.. and without / at its end; choose one such as /data",
            ".mountPath",
        ),
        rules.Rule(
            "!(self.name in ['tmp', 'shm', 'gpubench-results', 'gpubench-checkpoints'])",
            "volumes[].name tmp, shm, gpubench-results and gpubench-checkpoints are the pods' own volumes: "
            "choose another name",
            ".name",
        ),
    )


class PullSecret(FrozenModel):
    """A Secret of the benchmark's namespace."""

    name: rules.ObjectName = Field(description="Name of the Secret.")


class NodeSelectorRequirement(FrozenModel):
    """What a label of a node must be, as in a pod's nodeAffinity."""

    key: LabelKey = Field(min_length=1, description="Label of the node, such as topology.kubernetes.io/zone.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = Field(description="What is compared.")
    values: tuple[LabelValue, ...] | None = Field(None, max_length=16, description="With Gt and Lt one whole number.")

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "(has(self.values) && self.values.size() > 0) == !(self.operator in ['Exists', 'DoesNotExist'])",
            "operators Exists and DoesNotExist have no values, and others need some: remove values, or write some",
            ".values",
        ),
        rules.Rule(
            "!(self.operator in ['Gt', 'Lt']) || !has(self.values) || (self.values.size() < 2 && "
            "self.values.all(value, value.matches('^[0-9]{1,18}$')))",
            'operators Gt and Lt compare with one whole number: write it as text, such as ["8"]',
            ".values",
        ),
    )


class NodeSelectorTerm(FrozenModel):
    """Requirements that all hold for a node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = Field(
        min_length=1, max_length=8, description="Requirements that a node meets all."
    )


class NodeSelector(FrozenModel):
    """Terms of which one holds for a node."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = Field(min_length=1, max_length=4, description="Alternatives.")


class PreferredSchedulingTerm(FrozenModel):
    """A term with its weight."""

    weight: int = Field(ge=1, le=100, description="What a node gains by it, beside the other terms.")
    preference: NodeSelectorTerm = Field(description="The term.")


class NodeAffinity(FrozenModel):
    """Which nodes pods may use and prefer, by labels: as in a pod's spec.affinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = Field(
        None, description="Nodes that the pods may use. In a pool it says, with nodeSelector, which nodes are its own."
    )
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = Field(
        (), max_length=4, description="Nodes that the pods use first."
    )


class Topology(FrozenModel):
    """One domain, such as a zone, a rack or a block, for all pods of a gang."""

    key: LabelKey = Field(
        min_length=1,
        description="Node label with one value for all pods of a gang: topology.kubernetes.io/zone, a rack, a block.",
    )
    mode: Literal["Preferred", "Required"] = Field(
        "Preferred", description="Required: a gang waits for room in the domain that its first pod was placed in."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "self.key != 'kubernetes.io/hostname'",
            "topology.key kubernetes.io/hostname is one node, and a gang has several: name a label that they share, "
            "such as topology.kubernetes.io/zone",
            ".key",
        ),
    )


class PodScheduling(FrozenModel):
    """Where the pods run, and before whom. A benchmark's lies over its pool's, whose nodes it can only narrow."""

    node_affinity: NodeAffinity | None = Field(None, description="Labels of nodes; pool's and benchmark's both count.")
    topology: Topology | None = Field(None, description="Keeps the pods of a gang on several nodes near each other.")
    priority_class_name: rules.ObjectName | None = Field(
        None, description="PriorityClass of the pods; the operator's own (jobs.priorityClass) if absent."
    )
    scheduler_name: rules.ObjectName | None = Field(None, description="Scheduler that places the pods.")

    @property
    def node_selector_terms(self) -> tuple[NodeSelectorTerm, ...]:
        """Of the nodes that the pods may use: one of them holds. None: every node."""
        required = self.node_affinity and self.node_affinity.required_during_scheduling_ignored_during_execution
        return required.node_selector_terms if required else ()


class ResourceClaim(FrozenModel):
    """Devices by Dynamic Resource Allocation (resource.k8s.io/v1) for each pod's container."""

    name: str = Field(min_length=1, max_length=63, pattern=rules.VOLUME_NAME, description="Name of it in the pod.")
    resource_claim_template_name: rules.ObjectName | None = Field(
        None,
        description="ResourceClaimTemplate of the benchmark's namespace. Each pod has a claim of its own from it, "
        "which must have as many GPUs as the pod has slots: slotsPerNode, or with exclusiveNodes false its workers.",
    )
    resource_claim_name: rules.ObjectName | None = Field(
        None, description="ResourceClaim of the benchmark's namespace, which all of the gang's pods share."
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.Rule(
            "has(self.resourceClaimTemplateName) != has(self.resourceClaimName)",
            "a resource claim needs exactly one of resourceClaimTemplateName and resourceClaimName",
        ),
    )


class Template(FrozenModel):
    """What a gang's pods are made of. A benchmark's lies over its pool's: what is single wins, all else is added."""

    image: str | None = Field(None, min_length=1, max_length=512, description="Container image with gpubench's jobs.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the kubelet pulls the image; Kubernetes' own default if absent."
    )
    env: tuple[rules.EnvironmentVariable, ...] = Field(
        (),
        max_length=64,
        description="Further environment variables of the gang's container.",
        json_schema_extra=rules.list_map("name"),
    )
    volumes: tuple[Volume, ...] = Field(
        (),
        max_length=8,
        description="Further volumes; a benchmark's replaces its pool's of the same name or mountPath.",
        json_schema_extra=rules.list_map("name"),
    )
    annotations: dict[str, Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=dict,
        max_length=16,
        description="Further annotations of the pods, such as those by which GKE gives them fast network interfaces.",
    )
    labels: dict[str, LabelValue] = Field(
        default_factory=dict, max_length=16, description="Further labels of the pods, such as team for cost reports."
    )
    image_pull_secrets: tuple[PullSecret, ...] = Field(
        (),
        max_length=8,
        description="Secrets for the image's registry, in the benchmark's namespace.",
        json_schema_extra=rules.list_map("name"),
    )
    service_account_name: rules.ObjectName | None = Field(
        None, description="ServiceAccount of the pods, for IRSA or Workload Identity. Its own token is never mounted."
    )
    runtime_class_name: rules.ObjectName | None = Field(None, description="RuntimeClass of the pods, such as nvidia.")
    capabilities: tuple[Literal["IPC_LOCK"], ...] = Field(
        (),
        max_length=1,
        description="IPC_LOCK, for RDMA where nodes limit locked memory. The program needs it as a file capability.",
        json_schema_extra=rules.SET,
    )

    resource_claims: tuple[ResourceClaim, ...] = Field(
        (),
        max_length=8,
        description="Devices by Dynamic Resource Allocation. A pool's are its GPUs, unless slot.gpuResource names "
        "them; a benchmark's are other devices, or replace its pool's of the same name.",
        json_schema_extra=rules.list_map("name"),
    )

    RULES: ClassVar[tuple[rules.Rule, ...]] = (
        rules.keys("annotations", sentence=f"annotations has a key that is none: {rules.SENTENCES[rules.LABEL_KEY]}"),
        rules.keys("labels", sentence=f"labels has a key that is no label key: {rules.SENTENCES[rules.LABEL_KEY]}"),
        rules.Rule(
            f"!has(self.labels) || !self.labels.exists(key, {rules.matches('key', _TAKEN)})",
            "labels cannot have app.kubernetes.io/managed-by, job-name, controller-uid or keys of gpubench.dev, "
            "kueue.x-k8s.io and batch.kubernetes.io, which gpubench and Kubernetes set: choose a key such as team",
            ".labels",
        ),
        rules.Rule(
            "!has(self.volumes) || self.volumes.all(one, "
            "self.volumes.filter(other, other.mountPath == one.mountPath).size() == 1)",
            "two volumes have the same mountPath: give each its own",
            ".volumes",
        ),
    )
