# SPDX-License-Identifier: Apache-2.0
"""The steps of `gpu_check.py` that gpubench answers for: what the machine has, NVML, NCCL's log, `gpubench run`.

No torch here: its programs are processes of their own (`gpu_torch.py`). What a check compares gpubench with is
NVIDIA's own tool, or the same program without gpubench.
"""

import importlib.util
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from typing import Any

import gpu_findings  # beside this file

ROOT = Path(__file__).resolve().parents[2]
TORCH = (sys.executable, str(Path(__file__).with_name("gpu_torch.py")))
#: What is there, and what a step may therefore need: a program for each module, which prints both.
QUESTIONS = {
    "torch": "import torch as t; has = ['torch with CUDA'] if t.cuda.is_available() else []; told = {'torch': "
    "t.__version__, 'its CUDA': t.version.cuda, 'its cuDNN': t.backends.cudnn.version()}",
    "tensorflow": "import tensorflow as t; b = t.sysconfig.get_build_info(); has = ['TensorFlow with CUDA'] if "
    "t.config.list_physical_devices('GPU') else []; told = {'TensorFlow': t.__version__, 'CUDA it is built with': "
    "b.get('cuda_version'), 'cuDNN it is built with': b.get('cudnn_version')}",
    "horovod": "import horovod.tensorflow as h; h.init(); has, told = ['Horovod'], {'NCCL of Horovod': h.nccl_built()}",
    "pydantic": 'from gpubench_cli import report, run, verify; has, told = ["gpubench\'s packages"], {}',
}
#: nvidia-smi's columns; after the sixth they are only shown. The reasons are ours in other letters: GpuIdle.
COLUMNS = ["power.draw", "memory.used", "temperature.gpu", "enforced.power.limit", "clocks.max.sm", "clocks.max.memory"]
COLUMNS += ["memory.total", "clocks.sm", "clocks.mem", "pstate", "utilization.gpu"]
REASONS = ["gpu_idle", "applications_clocks_setting", "sw_power_cap", "hw_slowdown", "hw_thermal_slowdown"]
REASONS += ["hw_power_brake_slowdown", "sw_thermal_slowdown", "sync_boost"]
REASONS_PREFIXES = ("clocks_event_reasons", "clocks_throttle_reasons")  # the latter before driver 535
SAMPLE_SECONDS, ENERGY_SECONDS = 0.05, 10.0
ENERGY_SHARE = 0.05  # that the counter may differ from the integral of sampled watts
REPEATS, MEASURE_SECONDS = 3, 4


def environment(options: Any) -> int:
    """Everything that a figure stands on, and what the other steps need."""
    findings, gpus = gpu_findings.Findings(options.out), said("nvidia-smi", "-L").splitlines()
    commit = said("git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty")
    query = "--query-gpu=name,driver_version,memory.total,compute_cap,power.limit"
    facts: dict[str, Any] = {
        "date": f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        "commit": os.environ.get("GPU_CHECK_COMMIT") or commit or None,
        "GPUs: name, driver, memory, capability, power limit": said("nvidia-smi", query, "--format=csv,noheader"),
        "nvcc": next(iter(re.findall(r"release (\S+),", said("nvcc", "--version"))), None),
        "python, kernel, processors": [platform.python_version(), platform.release(), len(os.sched_getaffinity(0))],
    }
    has = ["a GPU", "two GPUs"][: len(gpus)]
    for module, question in QUESTIONS.items():
        if importlib.util.find_spec(module) is not None:
            told = said(sys.executable, "-c", f"import json; {question}; print(json.dumps([has, told]))")
            more, known = json.loads(told.splitlines()[-1]) if told else ([], {module: "does not load"})
            has, facts = has + more, facts | known
    for name, value in {**facts, "has": has}.items():
        findings.fact(name, value)
    return 0


def nvml(options: Any) -> int:
    """What ours reads, idle and loaded, beside nvidia-smi; joules beside the integral of watts."""
    from gpubench_jobs.worker import nvidia as ours  # noqa: PLC0415  # the environment is asked where all is missing

    findings, gpu = gpu_findings.Findings(options.out), ours.open_gpu(0)
    if gpu is None:
        return 1  # it has said why
    compared(findings, gpu, "idle")
    without = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    opened = [sys.executable, "-c", "from gpubench_jobs.worker import nvidia; print(nvidia.open_gpu(0).read())"]
    told = subprocess.run(opened, env=without, stdout=PIPE, stderr=subprocess.STDOUT, text=True, check=False).stdout
    findings.fact("without LD_LIBRARY_PATH", told.splitlines()[0])
    if importlib.util.find_spec("torch") is None:
        findings.fact("loaded", "not run: needs torch")
        return int(findings.exit_code())
    with subprocess.Popen([*TORCH, "load", "--out", os.devnull], stdin=PIPE, stdout=PIPE) as load:
        assert load.stdin is not None
        assert load.stdout is not None
        if not load.stdout.readline():
            return 1
        time.sleep(3)  # clocks, watts and the driver's own means come after the load
        compared(findings, gpu, "loaded")
        options.out.with_name("nvidia-smi.txt").write_text(said("nvidia-smi", "-q"))
        energy(findings, gpu)
        load.stdin.close()
        load.stdout.read()
    return int(findings.exit_code())


def compared(findings: Any, gpu: Any, state: str) -> None:
    """Ours right before and right after nvidia-smi's, which must lie between or close by."""
    first, theirs, last, settings = gpu.read(), queried(gpu.uuid), gpu.read(), gpu.settings()
    findings.fact(f"nvidia-smi, {state}", theirs)
    memory = [None if one.memory_bytes is None else one.memory_bytes / 2**20 for one in (first, last)]
    ours = {  # and by how much they may differ
        "power.draw": ([first.watts, last.watts], 5 + 0.1 * (last.watts or 0)),
        "memory.used": (memory, 2.0),
        "temperature.gpu": ([first.celsius, last.celsius], 2.0),
        "enforced.power.limit": ([settings["power_limit_watts"]], 1.0),
        "clocks.max.sm": ([settings["gpu_megahertz_max"]], 0.0),
        "clocks.max.memory": ([settings["gpu_memory_megahertz_max"]], 0.0),
    }
    for column, (values, reach) in ours.items():
        told, other = [value for value in values if value is not None], number(theirs[column])
        near = bool(told) and other is not None and min(told) - reach <= other <= max(told) + reach
        findings.check(f"{column}, {state}", told, theirs[column], holds=near or (not told and other is None))
    known = {name.replace("_", "") for name in REASONS}
    active = {name.replace("_", "") for name in REASONS if theirs.get(name) == "Active"}
    either = [{name.lower() for name in one.throttle_reasons or ()} & known for one in (first, last)]
    findings.check(f"throttle reasons, {state}", *map(sorted, (either[1], active)), holds=active in either)


def queried(uuid: str) -> dict[str, str]:
    """One card's columns by name; reasons without their prefix, or none where nvidia-smi has no such columns."""
    for prefix in (*REASONS_PREFIXES, None):
        reasons = [f"{prefix}.{name}" for name in REASONS if prefix]
        query = f"--query-gpu={','.join((*COLUMNS, *reasons))}"
        if line := said("nvidia-smi", f"--id={uuid}", query, "--format=csv,noheader,nounits"):
            return dict(zip((*COLUMNS, *REASONS), map(str.strip, line.split(",")), strict=False))
    raise SystemExit(f"nvidia-smi tells nothing of {uuid}: see what it says to --query-gpu={COLUMNS[0]}")


def energy(findings: Any, gpu: Any) -> None:
    """The energy counter over some seconds, and watts sampled in the same seconds."""
    begun, start, samples = gpu.read().joules, time.monotonic(), []
    while time.monotonic() < start + ENERGY_SECONDS:
        samples.append((time.monotonic(), gpu.read().watts))
        time.sleep(SAMPLE_SECONDS)
    ended = gpu.read().joules
    samples = [(at, watts) for at, watts in samples if watts is not None]
    findings.figure("watts under load", "W", [watts for _, watts in samples[:: 1 + len(samples) // 20]])
    integral = sum((b - a) * (watts + later) / 2 for (a, watts), (b, later) in itertools.pairwise(samples))
    if begun is None or ended is None:
        findings.fact("joules", "the card has no counter of energy")
        return
    near = abs(ended - begun - integral) < ENERGY_SHARE * integral
    findings.check("joules by the counter, and by sampled watts", ended - begun, integral, holds=near)


def nccl(options: Any) -> int:
    """An all-reduce on all GPUs up to two, and what ours reads in the log of NCCL."""
    from gpubench_jobs.engines import launch as ours  # noqa: PLC0415

    findings, size = gpu_findings.Findings(options.out), min(2, len(said("nvidia-smi", "-L").splitlines()))
    log = options.out.with_name("nccl.log")
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        told = ["allreduce", f"--ranks={size}", f"--store={scratch}/store", f"--out={scratch}/out"]
        logged = {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT", ours.ENV_NCCL_LOG: str(log)}
        environments = [{**os.environ, **(logged if rank == 0 else {})} for rank in range(size)]
        children = [
            subprocess.Popen([*TORCH, *told, f"--rank={rank}"], env=one) for rank, one in enumerate(environments)
        ]
        if sum(abs(child.wait()) for child in children):
            return 1
        # An all-reduce of one rank in place does nothing: its rates would be those of the calls.
        for one in json.loads(Path(scratch, "out.0").read_text())["figures"] if size > 1 else ():
            findings.figure(**one)
    text = ours.read_nccl_log(str(log))
    network, links = ours.network(text), sorted(ours.links(text))
    findings.fact("what it is", "between GPUs" if size > 1 else "one rank: no link is used, and no rate is told")
    findings.fact("version", sorted(set(re.findall(r"NCCL version (\S+)", text))))
    findings.check("network that gpubench reads in NCCL's log", network, "a name", holds=bool(network))
    findings.check("links that gpubench reads in NCCL's log", links, "of two GPUs some", holds=size < 2 or bool(links))
    return int(findings.exit_code())


def harness(options: Any) -> int:
    """`gpubench run` of a program of one's own, in turns with the same program alone; then report and verify."""
    alone = [*TORCH, "train", "--out", os.devnull, *options.torch.split()]
    return studied(options, {"workloads": ["Custom"], "custom": {"name": "ddp", "command": alone}}, [1], alone=alone)


def ranks(options: Any) -> int:
    """`gpubench run` of ResNet-50 by gpubench's own loop, with one rank and with two."""
    return studied(options, {"workloads": ["resnet50"], "precision": ["mixed_float16"]}, [1, 2])


def studied(options: Any, sweep: dict[str, Any], workers: list[int], *, alone: list[str] | None = None) -> int:
    from gpubench_cli import machine  # noqa: PLC0415

    findings, slots, cores = gpu_findings.Findings(options.out), max(workers), machine.this_machine().cores[:8]
    slot = {"cpu": str(len(cores) // slots), "memory": "2Gi"}
    slot |= {"gpuResource": options.resource} if options.resource else {}
    sweep |= {"pools": ["here"], "workers": workers, "batchPerWorker": [options.batch]}
    measure = {"repeats": {"min": REPEATS}, "warmUp": "0s", "duration": f"{MEASURE_SECONDS}s"}
    pool = {"slotsPerNode": slots, "maxNodes": 1, "slot": slot}
    specs = {"GpuPool": ("here", pool), "GpuBenchmark": ("gpu-check", {"sweep": [sweep], "measure": measure})}
    study, rates = options.out.with_name(f"{options.program}.yaml"), dict[str, list[float]](run=[], alone=[])
    objects = [{"kind": kind, "metadata": {"name": name}, "spec": spec} for kind, (name, spec) in specs.items()]
    study.write_text("\n---\n".join(json.dumps({"apiVersion": "gpubench.dev/v1alpha1", **one}) for one in objects))
    for turn, contender in enumerate(("run", "alone", "alone", "run") if alone else ("run",)):
        if contender == "alone":
            rates["alone"] += [rate_alone(alone or [], options.batch, cores) for _ in range(REPEATS)]
            continue
        folder = str(options.out.with_name(f"{options.program}.results{turn}"))
        shutil.rmtree(folder, ignore_errors=True)
        for command in (
            ["run", str(study), "--results", folder],
            ["verify", folder],
            ["report", folder, "--markdown", f"{folder}/report.md"],
        ):
            subprocess.run([sys.executable, "-m", "gpubench_cli", *command], check=True)
        for point in json.loads(Path(folder, "status.json").read_text())["status"]["results"]:
            values, interval = point["values"], point["samplesPerSecond"]
            findings.figure(f"gpubench run {turn}, {point['workers']} ranks", "samples/s", values)
            whole = len(values) == REPEATS and interval["low"] < interval["mean"] < interval["high"]
            findings.check("repeats and interval", [values, interval], f"{REPEATS} repeats", holds=whole)
            rates["run"] += values
    if alone:
        findings.figure("the same program alone", "samples/s", rates["alone"])
        findings.ratio("gpubench run / alone", rates["run"], rates["alone"])
    return int(findings.exit_code())


def rate_alone(program: list[str], batch: int, cores: tuple[int, ...]) -> float:
    """Samples per second of the program by itself, on the cores that a pod would have."""
    pinned = ["taskset", "--cpu-list", ",".join(map(str, cores))] if shutil.which("taskset") else []
    told = {"trial": "alone", "attempt": 1, "workers": 1, "batchPerWorker": batch, "measureSeconds": MEASURE_SECONDS}
    variables = {"GPUBENCH_ASSIGNMENT": json.dumps({**told, "seed": 1}), "GPUBENCH_TERMINATION_MESSAGE": os.devnull}
    environment = {**os.environ, **variables}
    ended = subprocess.run([*pinned, *program], env=environment, stdout=PIPE, text=True, check=True)
    record = json.loads(ended.stdout.splitlines()[-1])
    return float(record["samples"] / record["nanoseconds"] * 1e9)


def said(*command: str) -> str:
    """Standard output of a program; empty where it is missing, fails or does not end."""
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stdout.strip() if told.returncode == 0 else ""


def number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None  # [N/A]


if __name__ == "__main__":
    others = {"batch": 64, "resource": "nvidia.com/gpu", "torch": ""}
    sys.exit(gpu_findings.program(__doc__, (environment, nvml, nccl, harness, ranks), **others))
