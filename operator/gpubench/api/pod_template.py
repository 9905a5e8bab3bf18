# SPDX-License-Identifier: Apache-2.0
"""What the pods of a benchmark are made of, by its pool and by itself: image, environment, volumes."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from gpubench.api import rules
from gpubench.api.rules import EnvironmentVariable, Rule
from gpubench.values import FrozenModel

LabelKey = Annotated[str, Field(max_length=317, pattern=rules.LABEL_KEY)]  # 253 + "/" + 63
LabelValue = Annotated[str, Field(max_length=63, pattern=rules.LABEL_VALUE)]


class ClaimVolume(FrozenModel):
    """A PersistentVolumeClaim of the benchmark's namespace."""

    claim_name: rules.ObjectName = Field(description="Name of the claim.")


class ConfigMapVolume(FrozenModel):
    """A ConfigMap of the benchmark's namespace: each of its keys is a file."""

    name: rules.ObjectName = Field(description="Name of the ConfigMap.")


class HostPathVolume(FrozenModel):
    """A folder of the node, for own machines; refused where Pod Security forbids it."""

    path: rules.Path = Field(description="Folder on the node.")

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
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

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.persistentVolumeClaim), has(self.configMap), has(self.hostPath)].filter(x, x).size() == 1",
            "a volume needs exactly one of persistentVolumeClaim, configMap and hostPath",
        ),
        Rule(
            "self.mountPath.matches('^(/[^/:]+)+$') && !self.mountPath.matches('(^|/)[.][.]?(/|$)') && "
            "!self.mountPath.matches('^/(dev|proc|sys|tmp)(/|$)')",
            "volumes[].mountPath must be an absolute path, not / and not in /dev, /proc, /sys or /tmp, "
            "without : and /.. and without / at its end; choose one such as /data",
            ".mountPath",
        ),
        Rule(
            "!(self.name in ['tmp', 'shm', 'gpubench-results', 'gpubench-checkpoints'])",
            "volumes[].name tmp, shm, gpubench-results and gpubench-checkpoints are the pods' own volumes: "
            "choose another name",
            ".name",
        ),
    )


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

    RULES: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.resourceClaimTemplateName) != has(self.resourceClaimName)",
            "a resource claim needs exactly one of resourceClaimTemplateName and resourceClaimName",
        ),
    )


class Template(FrozenModel):
    """What a gang's pods are made of. A benchmark's lies over its pool's: its image wins, all else is added."""

    image: str | None = Field(None, min_length=1, max_length=512, description="Container image with gpubench's jobs.")
    image_pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = Field(
        None, description="When the kubelet pulls the image; Kubernetes' own default if absent."
    )
    env: tuple[EnvironmentVariable, ...] = Field(
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
    resource_claims: tuple[ResourceClaim, ...] = Field(
        (),
        max_length=8,
        description="Devices by Dynamic Resource Allocation. A pool's are its GPUs, unless slot.gpuResource names "
        "them; a benchmark's are other devices, or replace its pool's of the same name.",
        json_schema_extra=rules.list_map("name"),
    )

    RULES: ClassVar[tuple[Rule, ...]] = (
        rules.keys("annotations", sentence=f"annotations has a key that is none: {rules.SENTENCES[rules.LABEL_KEY]}"),
        Rule(
            "!has(self.volumes) || self.volumes.all(one, "
            "self.volumes.filter(other, other.mountPath == one.mountPath).size() == 1)",
            "two volumes have the same mountPath: give each its own",
            ".volumes",
        ),
    )
