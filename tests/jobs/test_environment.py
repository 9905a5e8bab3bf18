# SPDX-License-Identifier: Apache-2.0
"""What a rank finds of the machine it is on. A fact that nobody tells is absent. GPUs: `test_nvidia.py`."""

import os
from pathlib import Path

import psutil
import pytest

import gangs
from gpubench import names
from gpubench.records import Environment
from gpubench_jobs import channel
from gpubench_jobs.worker import environment

X86 = """processor\t: 0
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Processor @ 2.70GHz
flags\t\t: fpu vme sse2 avx avx2 avx512f avx512_vnni amx_bf16 amx_tile fma f16c rdtscp

processor\t: 1
model name\t: another
flags\t\t: fpu
"""
ARM = "processor\t: 0\nFeatures\t: fp asimd sve bf16 i8mm\nCPU implementer\t: 0x41\n"


def orders() -> channel.WorkerConfig:
    return gangs.make_orders(gangs.make_assignment(slot_processors=3.5))


def test_a_rank_without_a_gpu_has_processor_memory_and_libraries_and_nothing_of_a_gpu() -> None:
    found = environment.describe(orders())
    assert found.accelerator == found.processor or found.processor is None
    assert (found.threads_per_rank, found.transport) == (3, "gloo")
    assert found.processors is not None
    assert 0 < found.processors <= len(os.sched_getaffinity(0))
    assert found.processors_short == (found.processors if found.processors < 3.5 else None)
    enough = orders().model_copy(update={"assignment": gangs.make_assignment(slot_processors=0.5)})
    assert environment.describe(enough).processors_short is None
    assert environment.describe(enough).model_copy(update={"processors_short": 0.25}).key() != found.key()


@pytest.mark.parametrize(
    ("limit", "short"), [("max", None), ("536870912", 536870912), ("1073737728", None), ("9223372036854771712", None)]
)
def test_a_cgroup_with_less_memory_than_was_planned_is_in_the_key(
    limit: str, short: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    monkeypatch.setattr(environment, "_MEMORY_LIMITS", (tmp_path / "memory.max",))
    assignment = gangs.make_assignment(slot_memory_bytes=2**30)
    found = environment.describe(orders().model_copy(update={"assignment": assignment}))
    assert found.memory_bytes_short == short
    assert (found.model_copy(update={"memory_bytes_short": None}).key() != found.key()) == (short is not None)
    assert found.memory_bytes is not None
    assert found.memory_bytes > 2**28
    absent = ("driver", "cuda", "cudnn", "nccl", "gpus", "gpu_megahertz", "power_limit_watts")
    assert {name: getattr(found, name) for name in absent} == dict.fromkeys(absent)
    assert Environment.model_validate_json(found.to_json()) == found


def test_the_node_is_named_where_the_pod_was_told_and_memory_without_a_limit_is_the_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "_MEMORY_LIMITS", (tmp_path / "absent",))
    monkeypatch.delenv(names.ENV_NODE_NAME, raising=False)
    nowhere = environment.describe(orders())
    monkeypatch.setenv(names.ENV_NODE_NAME, "node-7")
    found = environment.describe(orders())
    assert (nowhere.node, found.node) == (None, "node-7")
    assert found.key() == nowhere.key()
    assert (found.memory_bytes, found.memory_bytes_short) == (psutil.virtual_memory().total, None)


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
