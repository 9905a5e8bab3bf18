# SPDX-License-Identifier: Apache-2.0
"""What a rank reads of its GPU, and why it refuses one: through nvidia-ml-py and ctypes, as on a node.

The libraries behind are stand-ins, compiled from `stand_ins/`: their functions have NVIDIA's names, arguments and
structures, and cards refuse what NVIDIA says that they refuse. No real card was at hand.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from gangs import Pods, make_assignment, make_orders
from gpubench.exitcodes import ExitCode
from gpubench_jobs import failures
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import environment, nvidia
from gpubench_jobs.worker.nvidia import DriverError, FoundDriver

SOURCES = Path(__file__).parent / "stand_ins"
LIBRARIES = {"libcuda.c": "libcuda.so.1", "nvidia_ml.c": "libnvidia-ml.so.1"}
#: Of the wheel tensorflow 2.21.0 with CUDA.
BUILD = {
    "is_cuda_build": True,
    "cuda_version": "12.5.1",
    "cuda_compute_capabilities": ["sm_60", "sm_70", "sm_80", "sm_89", "compute_90"],
}
Ask = Callable[..., Any]


def compiled(folder: Path, *options: str) -> Path:
    for source, library in LIBRARIES.items():
        program = ["cc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", *options]
        subprocess.run([*program, "-o", folder / library, SOURCES / source], check=True)
    return folder


@pytest.fixture(scope="session")
def ask(tmp_path_factory: pytest.TempPathFactory) -> Ask:
    """The value of an expression in a process that finds the stand-ins, as JSON has it; what it wrote is in `said`."""
    folder = compiled(tmp_path_factory.mktemp("nvidia"))

    def asked(expression: str, *, before: str = "", libraries: Path = folder, **variables: object) -> Any:
        program = (
            f"import json, sys; from gpubench_jobs.worker import nvidia\n{before}\nprint(json.dumps({expression}))"
        )
        given = {f"STAND_IN_{name}": str(value) for name, value in variables.items()}
        found = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, **given, "LD_LIBRARY_PATH": str(libraries)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert found.returncode == 0, found.stderr
        sys.stderr.write(found.stderr)  # for capsys
        return json.loads(found.stdout)

    return asked


READING = "vars(nvidia.open_gpu(0).read())"
FACTS = "nvidia.gpu_facts(1, local_rank=0)"
UUID = "GPU-8eaaebb8-bb64-8489-fda2-00000000000"


def reading(**fields: object) -> dict[str, object]:
    """That of an A100, but for these fields."""
    return {
        "utilization": 0.97, "memory_bytes": 10 * 2**30, "watts": 399.5, "celsius": 64.0, "throttle_reasons": [],
        "joules": 7000.0, **fields,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("card", "read", "settings"),
    [
        ("p100", reading(memory_bytes=4 * 2**30, watts=249.5, joules=None), (1189, 1328, 715, 715, 250.0)),
        ("t4", reading(memory_bytes=3840 * 2**20, watts=69.5), (585, 1590, 5001, 5001, 70.0)),
        ("a100", reading(), (1095, 1410, 1215, 1215, 400.0)),
        ("a100-ecc", reading(), (1095, 1410, 1215, 1215, 400.0)),
        ("a100-lost", dict.fromkeys(reading()), (None, None, None, None, None)),
        ("h100", reading(memory_bytes=81559 * 2**18, watts=699.5), (1980, 1980, 2619, 2619, 700.0)),
        ("b200", reading(memory_bytes=183359 * 2**18, watts=999.5), (None, 1965, None, 3996, 1000.0)),
    ],
)
def test_a_card_is_read_in_our_units_and_what_it_refuses_is_absent(
    ask: Ask, card: str, read: dict[str, object], settings: tuple[object, ...]
) -> None:
    assert ask(READING, CARD=card) == read
    names = ("gpu_megahertz", "gpu_megahertz_max", "gpu_memory_megahertz", "gpu_memory_megahertz_max")
    assert ask(FACTS, CARD=card) == {
        "driver": "570.124.06",
        "gpu_uuids": [] if card == "a100-lost" else [f"{UUID}1"],
        **dict(zip((*names, "power_limit_watts"), settings, strict=True)),
    }


def test_the_card_with_ecc_errors_has_some(ask: Ask) -> None:
    errors = "pynvml.nvmlDeviceGetTotalEccErrors(pynvml.nvmlDeviceGetHandleByPciBusId('0000:01:00.0'), 1, 1)"
    assert ask(errors, before="import pynvml; pynvml.nvmlInit()", CARD="a100-ecc") == 37


def test_a_card_that_is_cut_into_instances_tells_nothing(ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask("nvidia.open_gpu(0)", CARD="a100-mig") is None
    assert "no figures of the GPU: the GPU is cut into instances (MIG)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("refused", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetMemoryInfo_v2", "memory_bytes"),
        ("nvmlDeviceGetPowerUsage", "watts"),
        ("nvmlDeviceGetTemperature", "celsius"),
        ("nvmlDeviceGetTotalEnergyConsumption", "joules"),
        ("nvmlDeviceGetCurrentClocksEventReasons nvmlDeviceGetCurrentClocksThrottleReasons", "throttle_reasons"),
    ],
)
def test_what_a_card_refuses_is_absent_and_the_rest_is_there(ask: Ask, refused: str, field: str) -> None:
    assert ask(READING, REFUSES=refused) == reading(**{field: None})


def test_a_card_without_settings_has_a_name_and_a_driver(ask: Ask) -> None:
    refused = "nvmlDeviceGetEnforcedPowerLimit nvmlDeviceGetApplicationsClock nvmlDeviceGetMaxClockInfo"
    found = ask(FACTS, REFUSES=refused)
    assert {name for name, value in found.items() if value is not None} == {"driver", "gpu_uuids"}
    assert ask(FACTS, REFUSES="nvmlSystemGetDriverVersion")["driver"] is None


def test_the_reasons_of_a_clock_have_nvmls_names_and_newer_ones_their_bit(ask: Ask) -> None:
    assert ask(READING, REASONS=0x1 | 0x4 | 0x40 | 0x8000)["throttle_reasons"] == [
        "GpuIdle", "SwPowerCap", "HwThermalSlowdown", "0x8000",
    ]  # fmt: skip
    assert set(ask(READING, REASONS=0x2 | 0x10 | 0x100)["throttle_reasons"]) == nvidia.CHOSEN


def test_an_older_driver_has_another_name_for_the_reasons(ask: Ask, tmp_path: Path) -> None:
    older = compiled(tmp_path, "-DBEFORE_535")
    assert ask(READING, libraries=older, REASONS=0x8) == reading(throttle_reasons=["HwSlowdown"])


def test_a_rank_has_the_card_that_cuda_calls_by_its_number(ask: Ask) -> None:
    """CUDA's order is not NVML's: its first card is the second on the bus."""
    assert ask("nvidia.gpu_facts(2, local_rank=0)", GPUS=2)["gpu_uuids"] == [f"{UUID}2", f"{UUID}1"]
    assert ask("nvidia.open_gpu(0).uuid", GPUS=2) == f"{UUID}2"


def test_a_card_that_nvml_does_not_know_has_no_clocks_and_its_neighbours_keep_theirs(ask: Ask) -> None:
    found = ask("[nvidia.gpu_facts(2, local_rank=rank) for rank in (0, 1)]", GPUS=2, UNKNOWN_BUS=2)
    assert found[0] == {"driver": "570.124.06", "gpu_uuids": [f"{UUID}1"]}
    assert found[1]["gpu_megahertz"] == 1095


def test_the_library_is_closed_again(ask: Ask) -> None:
    before = f"import pynvml; {FACTS}\ntry: pynvml.nvmlShutdown()\nexcept pynvml.NVMLError_Uninitialized: closed = True"
    assert ask("closed", before=before)


@pytest.mark.parametrize(
    ("before", "variables", "why"),
    [
        ("", {"GPUS": 0}, "Driver Not Loaded"),
        ("", {"CUINIT": 999}, "cuInit ended with 999 (unknown error)"),
        ("sys.modules['pynvml'] = None", {}, "pynvml is not installed: use an image with nvidia-ml-py"),
    ],
)
def test_without_a_library_or_a_driver_nothing_is_told_and_standard_error_says_why(
    ask: Ask, before: str, variables: dict[str, object], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(f"[nvidia.open_gpu(0), {FACTS}]", before=before, **variables) == [None, {}]
    assert f"no figures of the GPU: {why}" in capsys.readouterr().err


# --- exit code 65 -----------------------------------------------------------------------------------------------------

#: Whether the container has NVIDIA's control device, and its node the kernel module: both are files.
DEVICE = "from pathlib import Path; nvidia._CONTROL_DEVICE = Path('/dev/null')"
NO_DEVICE = "from pathlib import Path; nvidia._CONTROL_DEVICE = nvidia.KERNEL_MODULE = Path('/nowhere')"


def refusal(local_rank: int = 0) -> str:
    return f"nvidia.why_unusable(nvidia.find_driver({local_rank}), {BUILD}, local_rank={local_rank}, workers=2)"


@pytest.mark.parametrize("card", ["p100", "t4", "a100", "a100-mig", "h100"])
def test_a_card_that_tensorflow_has_code_for_is_taken_wherever_its_driver_lies(ask: Ask, card: str) -> None:
    assert ask(refusal(), before=NO_DEVICE, CARD=card) is None


@pytest.mark.parametrize(
    ("before", "local_rank", "variables", "fact", "remedy"),
    [
        (NO_DEVICE, 0, {"CUINIT": 100}, "given no GPU (/dev/nvidiactl is missing", "check the pool's gpuResource"),
        (DEVICE, 0, {"CUINIT": 100}, "100 (no CUDA-capable device is detected)", "check the pod's GPU request"),
        (DEVICE, 0, {"CUINIT": 802}, "802 (system not yet initialized)", "start NVIDIA's fabric manager"),
        (DEVICE, 0, {"CUINIT": 803}, "803 (system has unsupported display driver", "restart the node"),
        (DEVICE, 0, {"CUINIT": 804}, "804 (forward compatibility was attempted", "compat libraries out of the image"),
        (DEVICE, 0, {"CUINIT": 999}, "999 (unknown error)", "look for NVRM and Xid in the node's kernel log"),
        (DEVICE, 0, {"CUINIT": 34}, "34 (a code without a text)", "kernel log"),
        (DEVICE, 0, {"CUDA": 11080}, "knows CUDA up to 11.8 and TensorFlow's 12.5.1 needs 12.0", "update the driver"),
        (DEVICE, 0, {"CARD": "b200"}, "no code for a GPU of compute capability 10.0, only sm_60,", "another GPU"),
        (DEVICE, 1, {"CARD": "a100-mig", "GPUS": 7}, "local rank 1 of 2 in this pod", "set workersPerNode to 1"),
        (DEVICE, 1, {}, "CUDA's driver shows 1", "check the pool's slotsPerNode and gpuResource"),
    ],
)
def test_what_keeps_a_rank_from_a_gpu_is_told_with_its_remedy(
    ask: Ask, before: str, local_rank: int, variables: dict[str, object], fact: str, remedy: str
) -> None:
    sentence = ask(refusal(local_rank), before=before, **variables)
    assert fact in sentence
    assert remedy in sentence


@pytest.mark.parametrize(
    ("before", "fact", "remedy"),
    [(DEVICE, "has a GPU and not its driver's library", "template.env"), (NO_DEVICE, "given no GPU", "device plugin")],
)
def test_a_library_that_cannot_be_loaded_is_told_with_where_it_was_sought(
    ask: Ask, tmp_path: Path, before: str, fact: str, remedy: str
) -> None:
    (tmp_path / "libcuda.so.1").touch()  # in place of that of a driver that this machine may have
    sentence = ask(refusal(), before=before, libraries=tmp_path)
    assert fact in sentence
    assert remedy in sentence
    assert (f"LD_LIBRARY_PATH is '{tmp_path}'" in sentence) == (before == DEVICE)


def test_the_driver_of_a_node_is_named_where_the_container_has_no_device() -> None:
    absent = FoundDriver(module="550.54.15", unloadable="libcuda.so.1: cannot open shared object file")
    assert "its node has NVIDIA's driver 550.54.15" in (nvidia.no_driver(absent) or "")


@pytest.mark.parametrize(
    ("capability", "fits"),
    [
        ((5, 2), False), ((6, 0), True), ((6, 1), True), ((7, 5), True), ((8, 0), True), ((8, 6), True), ((8, 9), True),
        ((9, 0), True), ((10, 0), False), ((10, 3), False), ((12, 0), False), (None, True),
    ],
)  # fmt: skip
def test_code_runs_on_its_own_major_version_from_its_minor_one_upwards(
    capability: tuple[int, int] | None, fits: bool
) -> None:
    found = FoundDriver(version=13000, gpus=1, capability=capability)
    assert (nvidia.why_unusable(found, BUILD, local_rank=0, workers=1) is None) == fits


def test_what_a_build_does_not_tell_is_not_held_against_a_card() -> None:
    found = FoundDriver(version=11000, gpus=1, capability=(12, 0))
    assert nvidia.why_unusable(found, {"is_cuda_build": True}, local_rank=0, workers=1) is None
    newer = {**BUILD, "cuda_compute_capabilities": ["sm_89", "sm_120a"]}
    assert nvidia.why_unusable(FoundDriver(gpus=1, capability=(12, 0)), newer, local_rank=0, workers=1) is None
    assert nvidia.why_unusable(FoundDriver(gpus=1, capability=(8, 6)), newer, local_rank=0, workers=1) is not None


def test_a_driver_that_does_not_tell_its_version_is_not_called_old() -> None:
    stub = FoundDriver(error=DriverError("cuDriverGetVersion", 34, "CUDA driver is a stub library"))
    assert "34 (CUDA driver is a stub library)" in (nvidia.why_unusable(stub, BUILD, local_rank=0, workers=1) or "")


def test_tensorflow_for_processors_is_named_as_such_on_a_gpu() -> None:
    sentence = nvidia.why_unusable(FoundDriver(gpus=1), {"is_cuda_build": False}, local_rank=0, workers=1)
    assert "this image's TensorFlow is for processors alone" in (sentence or "")


SECOND_OF_TWO = make_orders(make_assignment(gpu=True, workers=2, workers_per_node=2), rank=1)


def test_a_rank_claims_the_gpu_of_its_place_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[object, ...]] = []
    monkeypatch.setattr(nvidia, "find_driver", lambda own: FoundDriver(version=12080, gpus=own + 1, capability=(8, 0)))
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: BUILD)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: {"GPU": ["first", "second"]}[kind])
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda gpus, kind: done.append((gpus, kind)))
    monkeypatch.setattr(tf.config.experimental, "set_memory_growth", lambda gpu, grows: done.append((gpu, grows)))
    monkeypatch.setattr(tf.config.threading, "set_intra_op_parallelism_threads", lambda _: None)
    environment.claim(SECOND_OF_TWO)
    assert done == [(["second"], "GPU"), ("second", True)]


def test_a_gpu_that_only_tensorflow_does_not_see_is_told_with_both_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvidia, "find_driver", lambda _: FoundDriver(version=12080, gpus=2, capability=(8, 0)))
    monkeypatch.setattr(tf.sysconfig, "get_build_info", lambda: BUILD)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: ["its only GPU"])
    with pytest.raises(RankError, match="TensorFlow sees 1 of the 2 that CUDA's driver shows") as caught:
        environment.claim(SECOND_OF_TWO)
    assert caught.value.exit_code is ExitCode.UNSUPPORTED_ACCELERATOR


def test_a_library_that_needs_the_driver_is_told_as_the_drivers_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ImportError("libcuda.so.1: cannot open shared object file: No such file or directory")
    monkeypatch.setattr(nvidia, "find_driver", lambda _: FoundDriver(control_device=True, unloadable=str(error)))
    explained = failures.explain(error, make_assignment(gpu=True))
    assert explained.exit_code is ExitCode.UNSUPPORTED_ACCELERATOR
    assert "template.env" in explained.sentence
    monkeypatch.setattr(nvidia, "find_driver", lambda _: FoundDriver(gpus=1))
    assert "a library of the image cannot be loaded" in failures.explain(error, make_assignment(gpu=True)).sentence


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="this machine has a GPU")
@pytest.mark.usefixtures("horovod")
def test_a_gang_on_a_node_without_a_driver_ends_with_65_and_says_so(pods: Pods) -> None:
    pod = pods.start(make_assignment(gpu=True))
    assert pod.wait() == ExitCode.UNSUPPORTED_ACCELERATOR
    assert "this container was given no GPU (/dev/nvidiactl is missing" in pod.failure.sentence
