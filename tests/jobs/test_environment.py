# SPDX-License-Identifier: Apache-2.0
"""What a rank finds of the machine it is on. A fact that nobody tells is absent.

`PretendNvml` answers like NVIDIA's module where the tests want it to. On a real card: not run here.
"""

import os
from collections.abc import Mapping
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

    cards: Mapping[str, str] = field(
        default_factory=lambda: {"00000000:01:00.0": "GPU-aaaa", "00000000:02:00.0": "GPU-bbbb"}
    )
    has_driver: bool = True
    lacking: frozenset[str] = frozenset()  # functions that this card, or module, does not have
    open: int = field(default=0)

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
            "nvmlDeviceGetHandleByPciBusId": self.cards.__getitem__,
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
    found = environment.describe(orders())
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


def facts_of(*addresses: str, local_rank: int = 0, library: PretendNvml | None = None) -> dict[str, Any]:
    return environment.asked(library or PretendNvml(), addresses, local_rank=local_rank)


FIRST, SECOND = "00000000:01:00.0", "00000000:02:00.0"


def test_nvml_tells_driver_cards_clocks_and_power_limit() -> None:
    assert facts_of(SECOND, FIRST, local_rank=1) == {
        "driver": "550.54.15",
        "gpu_uuids": ("GPU-bbbb", "GPU-aaaa"),
        "gpu_megahertz": 1095,
        "gpu_megahertz_max": 1410,
        "gpu_memory_megahertz": 1215,
        "gpu_memory_megahertz_max": 1215,
        "power_limit_watts": 400.0,
    }


def test_a_card_that_nvml_does_not_know_has_no_clocks_and_its_neighbours_keep_theirs() -> None:
    assert facts_of("elsewhere", SECOND) == {"driver": "550.54.15", "gpu_uuids": ("GPU-bbbb",)}
    assert facts_of("elsewhere", SECOND, local_rank=1)["gpu_megahertz"] == 1095
    assert facts_of() == {"driver": "550.54.15", "gpu_uuids": ()}


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
    facts = facts_of(FIRST, library=PretendNvml(lacking=frozenset({function})))
    assert facts[field_name] is None
    assert facts["gpu_uuids"] == ("GPU-aaaa",)


def test_a_machine_without_driver_or_module_says_nothing_of_gpus() -> None:
    assert facts_of(FIRST, library=PretendNvml(has_driver=False)) == {}
    assert environment.asked(None, [FIRST], local_rank=0) == {}


def test_the_library_is_closed_again() -> None:
    library = PretendNvml()
    assert facts_of(FIRST, library=library)
    assert library.open == 0
