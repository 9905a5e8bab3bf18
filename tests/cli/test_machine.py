# SPDX-License-Identifier: Apache-2.0
"""What this machine cannot be is skipped with a sentence, and nothing is made smaller to fit."""

import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

import builders
import command_line
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.units import processors
from gpubench_cli import local, machine, terminal
from gpubench_cli.machine import Gpu, Machine
from gpubench_jobs.launcher import config

OWN_PROGRAM = Path(__file__).parents[2] / "jobs" / "examples" / "own-container.yaml"
GPU = {"gpu_resource": "nvidia.com/gpu", "cpu": "1", "memory": "1Gi"}
LISTING = """\
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-4a1e3d5c-0b1f-7d5e-8c3b-2f6a9d8e7c10)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-5b2f4e6d-1c20-8e6f-9d4c-307bae9f8d21)
"""


def make_machine(*, cores: int = 4, gibibytes: int = 8, gpus: tuple[str, ...] = ()) -> Machine:
    found = tuple(Gpu(name=name, entry=str(index)) for index, name in enumerate(gpus))
    return Machine(name="here", cores=tuple(range(cores)), memory_bytes=gibibytes * 2**30, gpus=found)


def make_plan(workers: list[int], **pool: Any) -> Plan:
    a_pool = builders.pool(**pool)
    return freeze(builders.spec(builders.block(workers=workers)), (a_pool,), "2026-11-01T00:00:00Z")


def skips(plan: Plan, here: Machine) -> list[str | None]:
    judged = machine.skip_what_this_machine_is_not(plan, here)
    skipped = {index for index, point in enumerate(judged.points) if point.skip}
    assert not skipped & {trial.point for trial in judged.trials}, "a skipped point has no trials"
    return [point.skip for point in judged.points]


@pytest.mark.parametrize(
    ("workers", "pool", "here", "sentence"),
    [
        ([2], {"slot": {"cpu": "3", "memory": "1Gi"}}, make_machine(), "need 6 processors, and this machine has 4"),
        ([1], {"slots_per_node": 8}, make_machine(), "1 node of cpu needs 8 processors"),
        ([4], {"slot": {"cpu": "1", "memory": "3Gi"}}, make_machine(), "12 GiB of memory, and this machine has 8 GiB"),
        ([1], {"slot": GPU}, make_machine(), "1 node of cpu needs 1 GPU, and this machine has none to use"),
        ([2], {"slot": GPU}, make_machine(gpus=("NVIDIA H200",)), "need 2 GPUs, and this machine has 1 to use"),
        (
            [1],
            {"slot": GPU, "accelerator": "A100-40GB"},
            make_machine(gpus=("NVIDIA H200",)),
            "cpu is made of A100-40GB, and this machine has NVIDIA H200",
        ),
    ],
)  # fmt: skip
def test_skipped(workers: list[int], pool: dict[str, Any], here: Machine, sentence: str) -> None:
    (skip,) = skips(make_plan(workers, **pool), here)
    assert skip is not None
    assert sentence in skip


@pytest.mark.parametrize(
    ("workers", "pool", "here"),
    [
        ([4], {}, make_machine()),
        ([4], {"slot": {"cpu": "500m", "memory": "2Gi"}}, make_machine()),
        ([1], {"slots_per_node": 8, "exclusive_nodes": False}, make_machine()),
        ([1], {"slot": GPU, "accelerator": "H200"}, make_machine(gpus=("NVIDIA H200",))),
        ([1], {"slot": GPU, "accelerator": "A100-40GB"}, make_machine(gpus=("NVIDIA A100-SXM4-40GB",))),
        ([1], {"slot": GPU, "accelerator": "A100-80GB"}, make_machine(gpus=("NVIDIA A100 80GB PCIe",))),
        ([1], {"slot": GPU}, make_machine(gpus=("Tesla V100-SXM2-16GB",))),
    ],
)
def test_not_skipped(workers: list[int], pool: dict[str, Any], here: Machine) -> None:
    assert skips(make_plan(workers, **pool), here) == [None]


def test_another_reason_stays() -> None:
    (skip,) = skips(make_plan([5]), make_machine(cores=1))
    assert skip == "5 workers need 5 nodes, and cpu has at most 4"


def test_a_shared_processor_still_is_one_to_be_pinned_to() -> None:
    assert machine.cores_per_slot(builders.pool(slot={"cpu": "250m", "memory": "1Gi"}).spec) == 1
    assert machine.cores_per_slot(builders.pool(slot={"cpu": "2.5", "memory": "1Gi"}).spec) == 2


def test_a_containers_share_of_processors_is_what_it_may_use() -> None:
    assert machine.processor_quota("250000 100000") == 2
    assert machine.processor_quota("50000 100000") == 1
    assert machine.processor_quota("max 100000") is None
    assert machine.processor_quota("") is None


def entries(visible: str | None, listing: str = LISTING) -> list[str]:
    return [gpu.entry for gpu in machine.visible_gpus(listing, visible)]


def test_gpus_are_read_from_what_nvidia_smi_lists() -> None:
    name = "NVIDIA A100-SXM4-40GB"
    assert machine.visible_gpus(LISTING, None) == (Gpu(name=name, entry="0"), Gpu(name=name, entry="1"))
    failed = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."
    assert machine.visible_gpus(failed, None) == machine.visible_gpus(failed, "0") == ()


@pytest.mark.parametrize(
    ("visible", "left"),
    [
        ("1", ["1"]),
        ("1,0", ["1", "0"]),
        (" 1 , 0 ", ["1", "0"]),
        ("GPU-5b2f", ["GPU-5b2f"]),
        ("GPU-5b2f4e6d-1c20-8e6f-9d4c-307bae9f8d21,0", ["GPU-5b2f4e6d-1c20-8e6f-9d4c-307bae9f8d21", "0"]),
        ("", []),
        ("-1", []),
        ("1,-1,0", ["1"]),
        ("1,7,0", ["1"]),
        ("GPU-", []),
        ("0,GPU-4a1e", ["0"]),
        ("NoDevFiles", []),
    ],
)
def test_gpus_that_somebody_else_was_given_are_left_alone(visible: str, left: list[str]) -> None:
    assert entries(visible) == left


def test_gpus_of_this_machine_are_those_that_nvidia_smi_lists_and_none_where_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def listed(command: list[str], **_: object) -> str:
        assert command == ["nvidia-smi", "-L"]
        return LISTING

    def broken(*_: object, **__: object) -> str:
        raise subprocess.TimeoutExpired("nvidia-smi", 1)

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    monkeypatch.setattr(subprocess, "check_output", listed)
    assert [gpu.entry for gpu in machine.this_machine().gpus] == ["1"]
    monkeypatch.setattr(subprocess, "check_output", broken)
    assert machine.this_machine().gpus == ()


def test_a_slice_of_a_gpu_is_not_called_by_the_name_of_the_whole() -> None:
    listing = LISTING + "  MIG 1g.5gb      Device  0: (UUID: MIG-0c3d2e1f-aaaa-5bbb-8ccc-1d2e3f405162)\n"
    assert entries(None, listing) == ["0", "1"]
    assert machine.visible_gpus(listing, "MIG-0c3d") == (Gpu(name="MIG 1g.5gb", entry="MIG-0c3d"),)


def test_this_machine_can_be_looked_at() -> None:
    here = machine.this_machine()
    assert here.cores
    assert here.memory_bytes > 2**20


@pytest.mark.parametrize("cpu", ["250m", "1", "2.5", "11"])
def test_a_pods_processors_are_those_that_its_ranks_are_pinned_to(cpu: str) -> None:
    """So they are pinned also where the launcher is told that others may be on its node: the set is reserved."""
    cores = machine.cores_per_slot(builders.pool(slot={"cpu": cpu, "memory": "1Gi"}).spec)
    shares = config.share_cores(range(2 * cores), ranks=2, processors=float(processors(cpu)), alone=False)
    assert shares is not None
    assert [len(share) for share in shares] == [cores, cores]


def test_a_pool_that_others_measure_needs_no_machine_but_its_source_does() -> None:
    gpus = builders.pool("gpus", slot=GPU, measured_by={"pool": "cpu"})
    study = builders.spec(builders.block(pools=["cpu", "gpus"], workers=[1, 2]))
    plan = freeze(study, (builders.pool(), gpus), "2026-11-01T00:00:00Z")
    one_fits, two_do_not, derived_from_one, derived_from_two = skips(plan, make_machine(cores=1))
    assert (one_fits, derived_from_one) == (None, None)
    assert two_do_not is not None
    assert derived_from_two == f"gpus is measured by cpu, whose point is skipped: {two_do_not}"


@pytest.mark.parametrize(
    ("others", "stolen", "kilohertz", "causes"),
    [
        (9.0, 0.9, 3_000_000, []),
        (51.3, 0.0, 3_000_000, ["other programs use 2.1 of 4 processors now"]),
        (
            30.0,
            5.0,
            3_000_000,
            ["other programs use 1.2 of 4 processors now", "the host gives 0.2 of 4 processors to others"],
        ),
        (0.0, 25.0, 3_000_000, ["the host gives 1.0 of 4 processors to others"]),
        (
            1.0,
            25.0,
            3_000_000,
            ["other programs use 0.0 of 4 processors now", "the host gives 1.0 of 4 processors to others"],
        ),
        (9.0, 0.9, 1_200_000, ["processors may run at 40% of their highest frequency"]),
    ],
)
def test_what_slows_this_machine_down_is_told_before_anything_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: float, stolen: float, kilohertz: int, causes: list[str]
) -> None:
    times = SimpleNamespace(idle=100 - others - stolen - 1, iowait=1.0, steal=stolen)
    monkeypatch.setattr(psutil, "cpu_times_percent", lambda interval: times if interval == 1.0 else None)
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    for processor in ("cpu0", "cpu1"):
        (tmp_path / processor / "cpufreq").mkdir(parents=True)
        (tmp_path / processor / "cpufreq" / "cpuinfo_max_freq").write_text("3000000\n")
        (tmp_path / processor / "cpufreq" / "scaling_max_freq").write_text(f"{kilohertz}\n")
    monkeypatch.setattr(machine, "_PROCESSORS", tmp_path)
    told = ", ".join(causes) + ": figures will be lower and scatter; measure while it is quiet"
    assert machine.busy() == (told if causes else None)
    assert machine.times_throttled() == 0


@pytest.mark.parametrize(
    ("gpu", "accelerator", "same"),
    [
        ("Tesla T4", "nvidia-tesla-t4", True),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB", True),
        ("NVIDIA A100-SXM4-40GB", "A100-80GB", False),
    ],
)
def test_a_gpu_is_the_pools_where_it_has_every_part_of_its_name(gpu: str, accelerator: str, same: bool) -> None:
    assert machine._is(gpu, accelerator) is same


def test_slow_downs_for_heat_are_those_of_all_processors(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for processor, times in (("cpu0", 3), ("cpu11", 4), ("cpufreq", 100)):
        (tmp_path / processor / "thermal_throttle").mkdir(parents=True)
        (tmp_path / processor / "thermal_throttle" / "core_throttle_count").write_text(f"{times}\n")
    monkeypatch.setattr(machine, "_PROCESSORS", tmp_path)
    assert machine.times_throttled() == 7


@pytest.mark.parametrize(("others", "is_told"), [(2.0, False), (61.5, True)])
def test_a_run_tells_that_others_use_the_machine_before_it_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, others: float, is_told: bool
) -> None:
    def stopped(_: local.LocalRun) -> None:
        raise terminal.Stopped(terminal.EXIT_SIGNAL + signal.SIGINT)

    times = SimpleNamespace(idle=100 - others, iowait=0.0, steal=0.0)
    monkeypatch.setattr(psutil, "cpu_times_percent", lambda **_: times)
    monkeypatch.setattr(psutil, "cpu_count", lambda **_: 4)
    monkeypatch.setattr(local.LocalRun, "run", stopped)
    code, _, err = command_line.called("run", str(OWN_PROGRAM), "--results", "out", folder=tmp_path)
    *before, last = err.splitlines()
    assert (code, last.startswith("stopped; ")) == (130, True)
    said = "warning: other programs use 2.5 of 4 processors now"
    assert any(line.startswith(said) for line in before) is is_told
