# SPDX-License-Identifier: Apache-2.0
"""Does gpubench do on this machine's NVIDIA GPU what it says? Steps, a results folder, and a page made of it.

    python3 tests/gpu/gpu_check.py --results FOLDER [--minutes 25] [--again STEP ...] [--wheels FOLDER]
    python3 tests/gpu/gpu_check.py --pack FOLDER [--python 3.12] [--has scipy ...]

The Python that runs it is the one that has torch, TensorFlow, or both. Where it lacks packages of `gpubench run` and
there is no network, `--pack` fetches them elsewhere as wheels (by uv), less those that `--has` names, and `--wheels`
unpacks what is missing. Where there is no git, GPU_CHECK_COMMIT says what the checkout is.

Each step is a process of its own, whose process group is ended at its limit, and its findings are one JSON file. A step
that has one is not run again, unless `--again` names it or it lacked something; a step that may take longer than what
is left of `--minutes` waits for another call. Exit 1 when a step has failed. Must not happen: figures of two machines
or commits in one folder; a step that ends the ones after it.
"""

import argparse
import contextlib
import importlib
import json
import math
import os
import signal
import subprocess
import sys
import time
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import gpu_findings  # beside this file

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TAIL_LINES = 12
PLATFORMS = [f"--platform=manylinux_2_{minor}_x86_64" for minor in (5, 12, 17, 24, 26, 27, 28)]
PLATFORMS += ["--platform=manylinux2014_x86_64"]
PACK_MAX = 60.0  # MiB


class Step(NamedTuple):
    """A program, what it shows, the most seconds that it may take, and what it cannot be without."""

    name: str
    shows: str
    command: Sequence[str]
    seconds: float
    needs: Sequence[str] = ()


def own(file: str, program: str) -> list[str]:
    return [sys.executable, str(HERE / f"gpu_{file}.py"), program]


OURS = "gpubench's packages"
TORCH, TENSORFLOW = ("a GPU", "torch with CUDA"), ("a GPU", "TensorFlow with CUDA", OURS)
KERAS = "ResNet-50 in torch: fused batch normalisation beside Keras' operations"
#: Their limits are 25 minutes together. The first one finds what there is.
STEPS = (
    Step("environment", "what the figures stand on", own("steps", "environment"), 120),
    Step("nvml", "what gpubench reads of the GPU, beside nvidia-smi", own("steps", "nvml"), 60, ["a GPU"]),
    Step("nccl", "all-reduce; what gpubench reads in NCCL's log", own("steps", "nccl"), 60, [*TORCH, OURS]),
    Step("normalisation", KERAS, own("torch", "normalisation"), 300, TORCH),
    Step("harness", "gpubench run of torch DDP, beside the same alone", own("steps", "harness"), 300, [*TORCH, OURS]),
    Step("profile", "kernels of a step of ResNet-50", own("tensorflow", "profile"), 90, TENSORFLOW),
    Step(
        "resnet50", "gpubench's step beside a bare loop", own("tensorflow", "resnet50"), 270, [*TENSORFLOW, "Horovod"]
    ),
    Step("ranks", "gpubench run with two ranks", own("steps", "ranks"), 300, [*TENSORFLOW, "Horovod", "two GPUs"]),
)


def check(folder: Path, steps: Sequence[Step], *, again: Sequence[str] = (), minutes: float = 25) -> int:
    """Those steps that are still to be run, one after the other; 1 when one of all has failed."""
    folder.mkdir(parents=True, exist_ok=True)
    end, first, has = time.monotonic() + 60 * minutes, steps[0].name, set[str]()
    for place, step in enumerate(steps):
        kept, left = read(folder / f"{step.name}.json"), end - time.monotonic()
        missing = [one for one in step.needs if one not in has]
        if step.name not in (first, *again) and kept.get("outcome") in {"done", "failed"}:
            print(f"{step.name}: {kept['outcome']} before", flush=True)
            continue
        if missing:
            found: dict[str, Any] = {"outcome": "not run", "why": f"needs {' and '.join(missing)}"}
        elif left < step.seconds:
            found = {"outcome": "not run", "why": f"needs {step.seconds:.0f} s, and {left:.0f} s were left"}
        else:
            print(f"{step.name}: {step.shows} (up to {step.seconds:.0f} s)", flush=True)
            found = run(folder, step)
        if step.name == first:
            refuse_another(kept.get("facts", {}), found.get("facts", {}), folder)
            has = set(found.get("facts", {}).get("has", ()))
        found |= {"step": step.name, "shows": step.shows, "place": place}
        gpu_findings.write(folder / f"{step.name}.json", found)
        print(f"{step.name}: {found['outcome']} {found['why'] or ''}", flush=True)
        (folder / "page.md").write_text("\n".join(page(results(folder))) + "\n")
    return int(any(one["outcome"] == "failed" for one in results(folder)))


def run(folder: Path, step: Step) -> dict[str, Any]:
    """The step's findings, also of one that failed or was ended: as far as it came."""
    out, log, begun, code = folder / f"{step.name}.part", folder / f"{step.name}.log", time.time(), None
    out.unlink(missing_ok=True)
    search = [str(ROOT / "operator"), str(ROOT / "jobs"), os.environ.get("PYTHONPATH", ""), str(site(folder))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, search)), "PYTHONUNBUFFERED": "1"}
    command = [*step.command, f"--out={out.absolute()}", f"--seconds={0.85 * step.seconds}"]
    with log.open("wb") as said:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
        )
        try:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = process.wait(step.seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    why = f"ended after {step.seconds:g} s, its limit" if code is None else f"ended with {code}" if code else None
    content = with_intervals(read(out))
    out.unlink(missing_ok=True)
    began = f"{datetime.fromtimestamp(begun, UTC):%Y-%m-%dT%H:%M:%SZ}"
    tail = log.read_text(errors="replace").splitlines()[-TAIL_LINES:] if why else []
    outcome = {"outcome": "failed" if why else "done", "why": why, "began": began, "tail": tail}
    return {**outcome, "seconds": round(time.time() - begun, 1), **content}


def refuse_another(before: dict[str, Any], now: dict[str, Any], folder: Path) -> None:
    """SystemExit where the folder's figures are of another machine, driver, checkout or library."""
    changed = [name for name, value in before.items() if name != "date" and now.get(name) != value]
    if changed and sum(one["outcome"] == "done" for one in results(folder)) > 1:
        raise SystemExit(f"{folder} has results with another {', '.join(changed)}: choose another folder")


def with_intervals(content: dict[str, Any]) -> dict[str, Any]:
    """Means with 95 % intervals beside the values; ratios by the means of their logarithms."""
    try:
        intervals = importlib.import_module("gpubench.stats.intervals")
    except ImportError:  # no pydantic or scipy: the page has means only
        return content
    for one in content.get("figures", []) + content.get("ratios", []):
        if one["unit"] != "ratio":
            found = intervals.of_mean(one["values"])
            one |= {name: value for name, value in dict(found).items() if value is not None}
            continue
        logarithms = intervals.of_values([math.log(value) for value in one["values"]])
        one["mean"] = math.exp(logarithms.mean)
        if logarithms.deviation is not None:
            half = logarithms.t * logarithms.deviation / math.sqrt(logarithms.count)
            one |= {"low": one["mean"] / math.exp(half), "high": one["mean"] * math.exp(half)}
    return content


def read(path: Path) -> dict[str, Any]:
    """What a JSON file has; nothing where it is missing or not whole."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def results(folder: Path) -> list[dict[str, Any]]:
    """Of all steps that have a file, in their order."""
    files = map(read, folder.glob("*.json"))
    return sorted((one for one in files if "place" in one), key=lambda one: one["place"])


def page(found: Sequence[dict[str, Any]]) -> Iterator[str]:
    """All of it in words."""
    done = [one["step"] for one in found[1:] if one["outcome"] == "done"]
    yield "# gpubench on one machine's GPU\n"
    yield f"Made from the JSON files of this folder. {f'Done: {_text(done)}' if done else 'Nothing was done on a GPU'}."
    yield "Brackets are 95 % intervals over blocks or runs on this one machine.\n"
    yield "| step | shows | outcome | seconds |\n|---|---|---|---|"
    for one in found:
        outcome = f"{one['outcome']}: {one['why']}" if one["why"] else one["outcome"]
        yield f"| {one['step']} | {one['shows']} | {outcome} | {one.get('seconds', '')} |"
    for one in found:
        if one["outcome"] == "not run":
            continue
        yield f"\n## {one['step']}\n"
        for name, value in one.get("facts", {}).items():
            yield f"- {name}: {_text(value)}"
        for each in one.get("checks", []):
            sign = "holds" if each["holds"] else "DOES NOT HOLD"
            yield f"- {each['name']}: {sign}; {json.dumps(each['found'])} against {json.dumps(each['expected'])}"
        if rows := one.get("figures", []) + one.get("ratios", []):
            yield "\n| figure | mean | unit | values |\n|---|---|---|---|"
        for each in rows:
            mean = each.get("mean", math.fsum(each["values"]) / len(each["values"]))
            bounds = f" [{each['low']:.4g}, {each['high']:.4g}]" if "low" in each else ""
            yield f"| {each['name']} | {mean:.4g}{bounds} | {each['unit']} | {len(each['values'])} |"
        if one["tail"]:
            yield "\n".join(("\nThe end of what it said:\n", *(f"    {line}" for line in one["tail"])))


def _text(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_text(each)}" for name, each in value.items())
    if isinstance(value, list):
        rows = any(len(str(each)) > 40 for each in value)
        return "".join(f"\n  - `{each}`" for each in value) if rows else ", ".join(map(_text, value)) or "none"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def site(folder: Path) -> Path:
    """Where wheels are unpacked: beside the results, which somebody may want to keep."""
    return folder.with_name(f"{folder.name}-packages").absolute()


def unpack(wheels: Sequence[Path], into: Path) -> None:
    """Packages that this Python lacks; and the version of kube-gpubench, which only an installed one would tell."""
    for wheel in wheels:
        if not installed(wheel.name.split("-")[0]):
            with zipfile.ZipFile(wheel) as content:
                content.extractall(into)
    if not installed("kube-gpubench"):
        version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
        told = into / f"kube_gpubench-{version}.dist-info" / "METADATA"
        told.parent.mkdir(parents=True, exist_ok=True)
        told.write_text(f"Metadata-Version: 2.1\nName: kube-gpubench\nVersion: {version}\n")


def installed(name: str) -> bool:
    with contextlib.suppress(metadata.PackageNotFoundError):
        return bool(metadata.version(name))
    return False


def pack(folder: Path, *, python: str, has: Sequence[str]) -> int:
    """Wheels of what `gpubench run` imports, as uv.lock has it, for x86-64 Linux; 1 where they are too large."""
    options = ("--quiet", "--no-header", "--no-annotate")
    locked = told(["uv", "export", "--frozen", "--no-dev", "--no-emit-project", "--no-hashes", *options])
    platform = ["--python-version", python, "--python-platform", "x86_64-manylinux_2_28"]
    pinned = told(["uv", "pip", "compile", "-", *platform, *options], locked).split()
    wanted = [one for one in (*pinned, "nvidia-ml-py") if one.partition("==")[0] not in has]
    pip = ["uv", "run", "--quiet", "--no-project", "--with", "pip", "python", "-m", "pip", "download", "--quiet"]
    told([*pip, "--no-deps", "--only-binary=:all:", f"--python-version={python}", *PLATFORMS, f"-d{folder}", *wanted])
    sizes = {one.name: one.stat().st_size / 2**20 for one in folder.glob("*.whl")}
    for name, size in sorted(
        {**sizes, "in all, beside the checkout": sum(sizes.values())}.items(), key=lambda one: one[1]
    ):
        print(f"{size:7.2f} MiB  {name}")
    return int(sum(sizes.values()) > PACK_MAX)


def told(command: Sequence[str], given: str | None = None) -> str:
    return subprocess.run(command, cwd=ROOT, input=given, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / ".run" / "gpu-check")
    parser.add_argument("--again", nargs="+", default=(), choices=[step.name for step in STEPS])
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--wheels", type=Path)
    parser.add_argument("--pack", type=Path)
    parser.add_argument("--python", default="3.12")
    parser.add_argument("--has", nargs="+", default=())
    options = parser.parse_args()
    if options.pack:
        return pack(options.pack.absolute(), python=options.python, has=options.has)
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that `finally` ends the step
    unpack(sorted(options.wheels.glob("*.whl")) if options.wheels else (), site(options.results))
    sys.path += [str(ROOT / "operator"), str(site(options.results))]
    return check(options.results, STEPS, again=options.again, minutes=options.minutes)


if __name__ == "__main__":
    sys.exit(main())
