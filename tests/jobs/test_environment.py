# SPDX-License-Identifier: Apache-2.0
"""What a rank finds of the machine it is on. A fact that nobody tells is absent.

`PretendNvml` answers like NVIDIA's module where the tests want it to. On a real card: not run here.
"""

import os
from dataclasses import dataclass, field
from typing import Any

import pytest

import gangs
from gpubench.measure.records import Environment
from gpubench_jobs import channel, environment

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Processor @ 2.70GHz
flags\t\t: fpu vme sse2 avx avx2 avx512f avx512_vnni amx_bf16 amx_tile fma f16c rdtscp

processor\t: 1
model name\t: another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\nCPU implementer\t: 0x41\n"


class NotSupportedError(Exception):
    """As NVML raises it for what a card does not have."""


@dataclass
class PretendNvml:
    """NVIDIA's module pynvml for cards that are not there."""

    uuids: tuple[str, ...] = ("GPU-aaaa", "GPU-bbbb")
    has_driver: bool = True
    lacking: frozenset[str] = frozenset()  # functions that this card, or module, does not have
    open: int = field(default=0)

    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2

    def nvmlInit(self) -> None:  # noqa: N802  # NVIDIA's names
        if not self.has_driver:
            raise NotSupportedError("Driver Not Loaded")
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def __getattr__(self, function: str) -> Any:
        if function in self.lacking or not function.startswith("nvml"):
            raise AttributeError(function)
        answers: dict[str, Any] = {
            "nvmlSystemGetDriverVersion": lambda: "550.54.15",
            "nvmlDeviceGetCount": lambda: len(self.uuids),
            "nvmlDeviceGetHandleByIndex": lambda index: self.uuids[index],
            "nvmlDeviceGetHandleByUUID": lambda uuid: self.uuids[self.uuids.index(uuid)],
            "nvmlDeviceGetUUID": lambda handle: handle,
            "nvmlDeviceGetEnforcedPowerLimit": lambda _: 400_000,
            "nvmlDeviceGetApplicationsClock": lambda _, kind: {1: 1095, 2: 1215}[kind],
            "nvmlDeviceGetMaxClockInfo": lambda _, kind: {1: 1410, 2: 1215}[kind],
        }
        return answers[function]


def orders() -> channel.Orders:
    return channel.Orders(
        assignment=gangs.make_assignment(), rank=0, local_rank=0, cores=(), threads=3, channel=1, launcher=os.getpid(),
        started_ns=0, join_seconds=0.0, pod_ip="127.0.0.1",
    )  # fmt: skip


def test_a_rank_without_a_gpu_has_processor_memory_and_libraries_and_nothing_of_a_gpu() -> None:
    found = environment.describe(orders(), nvml=PretendNvml())
    assert found.accelerator == found.processor or found.processor is None
    assert (found.threads_per_rank, found.transport) == (3, "gloo")
    assert found.processors is not None
    assert 0 < found.processors <= len(os.sched_getaffinity(0))
    assert found.memory_bytes is not None
    assert found.memory_bytes > 2**28
    absent = ("driver", "cuda", "cudnn", "nccl", "gpus", "gpu_megahertz", "power_limit_watts")
    assert {name: getattr(found, name) for name in absent} == dict.fromkeys(absent)
    assert Environment.model_validate_json(found.to_json()) == found


def test_model_and_instruction_sets_are_those_of_the_first_processor() -> None:
    facts = environment.cpu_facts(X86)
    assert facts["processor"] == "Intel(R) Xeon(R) Processor @ 2.70GHz"
    assert facts["processor_flags"] == (
        "amx_bf16", "amx_tile", "avx", "avx2", "avx512_vnni", "avx512f", "f16c", "fma",
    )  # fmt: skip


def test_the_digest_tells_any_two_sets_of_flags_apart_and_heeds_no_order() -> None:
    digests = {
        environment.cpu_facts(text)["processor_flags_digest"]
        for text in (X86, X86.replace(" rdtscp", ""), X86.replace("fpu vme", "vme fpu"))
    }
    assert len(digests) == 2


def test_a_processor_whose_kernel_names_no_model_has_flags_and_no_model() -> None:
    facts = environment.cpu_facts(ARM)
    assert (facts["processor"], facts["processor_flags"]) == (None, ("asimd", "bf16", "i8mm", "sve"))


def test_a_machine_that_says_nothing_of_its_processor_has_no_facts() -> None:
    assert environment.cpu_facts("") == {"processor": None}


@pytest.mark.parametrize(
    ("limit", "processors"),
    [("max 100000", None), ("", None), ("50000 100000", 0.5), ("-1 100000", None), ("99900000 100000", None)],
)
def test_the_processors_of_a_pod_are_its_affinity_or_its_quota(limit: str, processors: float | None) -> None:
    own = float(len(os.sched_getaffinity(0)))
    assert environment.pod_processors(os.getpid(), limit) == (own if processors is None else processors)


@pytest.mark.parametrize(("limit", "memory"), [("max", 8), ("", 8), ("4", 4), ("9223372036854771712", 8)])
def test_the_memory_of_a_pod_is_the_machines_or_its_limit(limit: str, memory: int) -> None:
    assert environment.pod_memory(8, limit) == memory


def test_nvml_tells_driver_cards_clocks_and_power_limit() -> None:
    assert environment.gpu_facts(PretendNvml(), visible=None, local_rank=1, ranks=2) == {
        "driver": "550.54.15",
        "gpus": 2,
        "gpu_uuids": ("GPU-aaaa", "GPU-bbbb"),
        "gpu_megahertz": 1095,
        "gpu_megahertz_max": 1410,
        "gpu_memory_megahertz": 1215,
        "gpu_memory_megahertz_max": 1215,
        "power_limit_watts": 400.0,
    }


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        ("1", ("GPU-bbbb",)),
        ("1,0", ("GPU-bbbb", "GPU-aaaa")),
        ("GPU-bbbb", ("GPU-bbbb",)),
        ("0,7,1", ("GPU-aaaa",)),  # CUDA ends its list before an entry that names no card
        ("", ()),
        ("-1", ()),
    ],
)
def test_the_cards_of_a_pod_are_those_that_cuda_is_shown(visible: str, uuids: tuple[str, ...]) -> None:
    facts = environment.gpu_facts(PretendNvml(), visible=visible, local_rank=0, ranks=2)
    assert (facts["gpus"], facts["gpu_uuids"]) == (len(uuids), uuids)
    assert ("gpu_megahertz" in facts) is bool(uuids)


def test_only_the_cards_that_ranks_compute_on_are_named_of_those_that_the_pod_has() -> None:
    facts = environment.gpu_facts(PretendNvml(), visible=None, local_rank=0, ranks=1)
    assert (facts["gpus"], facts["gpu_uuids"]) == (2, ("GPU-aaaa",))


@pytest.mark.parametrize(
    ("function", "field_name"),
    [
        ("nvmlDeviceGetEnforcedPowerLimit", "power_limit_watts"),
        ("nvmlDeviceGetApplicationsClock", "gpu_megahertz"),
        ("nvmlDeviceGetMaxClockInfo", "gpu_megahertz_max"),
        ("nvmlSystemGetDriverVersion", "driver"),
    ],
)
def test_what_a_card_does_not_tell_is_absent(function: str, field_name: str) -> None:
    nvml = PretendNvml(lacking=frozenset({function}))
    facts = environment.gpu_facts(nvml, visible=None, local_rank=0, ranks=2)
    assert facts[field_name] is None
    assert facts["gpu_uuids"] == nvml.uuids


def test_a_machine_without_driver_or_module_says_nothing_of_gpus() -> None:
    assert environment.asked(PretendNvml(has_driver=False), orders()) == {}
    nvml = PretendNvml()
    assert environment.asked(nvml, orders())["gpus"] == 2
    assert nvml.open == 0
