# SPDX-License-Identifier: Apache-2.0
"""Which GPU a cloud's machine type has, how much memory a GPU has, and whether a machine is what its pool says."""

import functools
import re

from gpubench import units
from gpubench.api.pool import GpuPoolSpec
from gpubench.scheduler.ledger import Machine

#: Beginnings of machine types, and their GPU; its memory where that model is made with several sizes.
_GPUS: tuple[tuple[str, str], ...] = (
    # https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html
    (r"p2\.", "K80"),
    (r"p3\.", "V100-16GB"),
    (r"p3dn\.", "V100-32GB"),
    (r"p4d\.", "A100-40GB"),
    (r"p4de\.", "A100-80GB"),
    (r"p5\.", "H100-80GB"),
    (r"p5en?\.", "H200"),
    (r"g3s?\.", "M60"),
    (r"g4dn\.", "T4"),
    (r"g5\.", "A10G"),
    (r"g5g\.", "T4G"),
    (r"gr?6f?\.", "L4"),
    (r"g6e\.", "L40S"),
    (r"g7e\.", "RTX-PRO-6000"),
    # https://learn.microsoft.com/azure/virtual-machines/sizes/overview#gpu-accelerated
    (r"standard_nc\d+r?$", "K80"),
    (r"standard_nc\d+r?s_v2", "P100-16GB"),
    (r"standard_nc\d+r?s_v3", "V100-16GB"),
    (r"standard_nd\d+r?s$", "P40"),
    (r"standard_nd40rs_v2", "V100-32GB"),
    (r"standard_nv\d+s?(_v[23])?$", "M60"),
    (r"standard_nd96asr_(a100_)?v4", "A100-40GB"),
    (r"standard_n[cd]\d+am?d?sr?_a100_v4", "A100-80GB"),
    (r"standard_ncc?\d+.*_h100_v5", "H100-94GB"),
    (r"standard_nd\d+.*_h100_v5", "H100-80GB"),
    # https://docs.oracle.com/iaas/Content/Compute/References/computeshapes.htm
    (r"(vm|bm)\.gpu2\.", "P100-16GB"),
    (r"(vm|bm)\.gpu3\.", "V100-16GB"),
    (r"bm\.gpu(4|\.b4)\.", "A100-40GB"),
    (r"bm\.gpu\.(gm4|a100-v2)\.", "A100-80GB"),
    (r"bm\.gpu\.h100\.", "H100-80GB"),
    # https://docs.cloud.google.com/compute/docs/gpus
    (r"a2-(high|mega)gpu-", "A100-40GB"),
    (r"a2-ultragpu-", "A100-80GB"),
    (r"a3-ultragpu-", "H200"),
    (r"a3-", "H100-80GB"),
    (r"a4-", "B200"),
    (r"a4x-", "GB200"),
    (r"g2-standard-", "L4"),
    (r"g4-standard-", "RTX-PRO-6000"),
    # DigitalOcean, Nebius, Scaleway, CoreWeave and Lambda, as their lists of sizes say
    (r"gpu-h100|h100-\d-80g|gd-8xh100|gpu_\d+x_h100_sxm5", "H100-80GB"),
    (r"gpu_\d+x_a100_80gb", "A100-80GB"),
    (r"gpu_\d+x_a100", "A100-40GB"),
    # https://www.alibabacloud.com/help/en/ecs/user-guide/gpu-accelerated-compute-optimized-and-vgpu-accelerated-instance-families-1
    (r"ecs\.(ebm)?gn6i", "T4"),
    (r"ecs\.(ebm)?gn6v", "V100-16GB"),
    (r"ecs\.(ebm)?gn7i", "A10"),
)
#: A model inside the names that other machine types have: `gpu_8x_h100_sxm5`, `gd-8xh100ib`, `VM.GPU.A10.2`.
_NAMED = re.compile(
    r"(?:^|[^a-z]|\dx)(?:(gb[23]00|gh200|b[23]00|h[12]00|a100|v100|p100)(?!\d)"
    r"|(t4|l4|l40s?|a10g?|a16|a30|a40|p40|k80|a[456]000)(?![a-z0-9]))"
)
#: Machines that are sold with a part of a GPU.
FRACTIONS = re.compile(r"gr?6f\.|standard_nv(6|12|18)adm?s_a10_v5", re.IGNORECASE)
#: In GB, as the makers' pages say it; of models that are made with several sizes, none.
_MEMORY = {
    **dict.fromkeys(("M60", "P4"), 8),
    **dict.fromkeys(("K80",), 12),
    **dict.fromkeys(("T4", "T4G", "A16"), 16),
    **dict.fromkeys(("P40", "L4", "A10", "A10G", "A30", "A5000"), 24),
    **dict.fromkeys(("L40", "L40S", "A40", "A6000"), 48),
    **dict.fromkeys(("RTX-PRO-6000",), 96),
    **dict.fromkeys(("H200",), 141),
    **dict.fromkeys(("B200",), 180),
}
_SIZES = (2, 4, 5, 6, 8, 10, 11, 12, 16, 20, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 186, 192, 288)


@functools.lru_cache(maxsize=1024)  # asked of every node at every look, and a cluster has few types
def gpu(machine_type: str) -> str | None:
    """The GPU of a machine type, such as `A100-40GB`; None of one without, or an unknown one."""
    known = machine_type.lower()
    for beginning, model in _GPUS:
        if re.match(beginning, known):
            return model
    if known.startswith("standard_") and not known.startswith("standard_n"):
        return None  # of Azure, whose machines without GPUs have names such as Standard_A10 and Standard_L4s
    return None if (named := _NAMED.search(known)) is None else (named[1] or named[2]).upper()


def mismatch(spec: GpuPoolSpec, got: Machine) -> str | None:
    """What both say of the machine, and its pool otherwise: `spot (LABEL), and the pool says OnDemand`."""
    pairs: list[tuple[str, str]] = []
    if got.capacity not in (None, spec.capacity_type):
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", got.capacity.value).lower()
        pairs.append((f"{words} ({got.label})" if got.label else words, spec.capacity_type.value))
    if got.accelerator and spec.accelerator and differ(got.accelerator, spec.accelerator):
        pairs.append((got.accelerator, spec.accelerator))
    if got.gpus is not None and spec.slot.gpu_resource is not None and got.gpus != spec.slots_per_node:
        pairs.append((f"a machine of {units.counted(got.gpus, 'GPU')}", f"slotsPerNode {spec.slots_per_node}"))
    is_, says = (units.listed(tuple(words)) for words in zip(*pairs, strict=True)) if pairs else ("", "")
    return f"{is_}, and the pool says {says}" if pairs else None


def differ(*names: str) -> bool:
    """Whether names are those of different GPUs; a model, or a memory, that is not known differs from none."""
    models, sizes = {*filter(None, map(_family, names))}, list[int]()
    for name in names:
        written = re.search(r"(\d+) ?GB", name.upper().partition("MIG")[0])
        sizes += [] if written is None else [int(written[1])]
    is_other = len(sizes) > 1 and max(sizes) > 1.1 * min(sizes)  # 94 is written as 96, too
    return len(models) > 1 or (is_other and models != {"GH200"})  # which is also called by its processor's memory


def _family(name: str) -> str | None:
    """`A100` of `NVIDIA-A100-SXM4-40GB`; of cards, their number."""
    known = gpu(name)
    number = re.search(r"(?<![\dA])\d{4}(?!\d)", (known or name).upper())
    return number[0] if number else known and known.partition("-")[0]


def memory(model: str) -> int | None:
    """GB of a GPU by its name: those written there, else those of its model."""
    if (written := re.search(r"(\d+) ?GB", model.upper())) is not None:
        return int(written[1])
    words = model.upper().replace(" ", "-")
    return next((size for known, size in _MEMORY.items() if f"{words}-".startswith(f"{known}-")), None)


def sold_memory(mebibytes: int) -> int:
    """GB that a GPU is sold with, of the MiB that its driver reports: a tenth less at most, where it has ECC."""
    return next((size for size in _SIZES if mebibytes <= size * 1029), round(mebibytes / 1024))
