# SPDX-License-Identifier: Apache-2.0
"""`--scale` and `--pool`: a study made small, or put on another pool, without editing its file.

What is run, and what `gpubench plan -o yaml` prints for `kubectl apply -f -`, are the same objects. Must not happen:
the figures of a small form pass for those of the study, so its name, and a line beside the results, say what it is.
"""

import argparse
from dataclasses import dataclass, replace
from typing import Any

import yaml

from gpubench import names
from gpubench.api import validate
from gpubench.api.pool import GpuPool, GpuPoolSpec, Slot
from gpubench.plan import expand
from gpubench.values import Value
from gpubench_cli.documents import Benchmark, StudyFile
from gpubench_cli.machine import Machine, this_machine
from gpubench_cli.refusal import Refusal

LOCAL_CPU = "local-cpu"
_SLOTS_MAX = 64  # of the schema
_MEMORY_SHARE, _MEMORY_MAX = 0.8, 4096  # of the machine's, the rest is the system's; and MiB of a slot
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """A study as the command line wants it."""

    benchmark: Benchmark
    pools: tuple[GpuPool, ...]
    text: str | None  # as a study file; None where nothing was changed
    sentence: str | None  # what a reader of the figures must know


def add_to(parser: argparse.ArgumentParser) -> None:
    """The arguments of every command that plans."""
    parser.add_argument(
        "--scale",
        type=_scale,
        metavar="FACTOR",
        help="the small form, such as 0.01: small batches, generated data, short times, one repeat, another name",
    )
    parser.add_argument(
        "--pool",
        metavar="NAME",
        help=f"this pool in place of the study's; {LOCAL_CPU} is made from this machine where no file has it",
    )


def adapt(
    study_file: StudyFile, benchmark: Benchmark, pools: tuple[GpuPool, ...], *, scale: float | None, pool: str | None
) -> Adapted:
    """The study on the pool, and as small, as the command line says."""
    if scale is None and pool is None:
        return Adapted(benchmark=benchmark, pools=pools, text=None, sentence=None)
    spec, name, sentence = benchmark.spec, benchmark.name, None
    if pool is not None:
        place = _pool(pool, pools)
        pools = (place,)
        spec = expand.on_pool(spec, pool) if scale is None else expand.each_once(spec, place)
    if scale is not None:
        spec, name = expand.scaled(spec, scale), expand.scaled_name(benchmark.name)
        sentence = (
            f"{name} is the small form of {benchmark.name} (scale {scale:g}): its figures show that the study runs, "
            "and say nothing about its answers"
        )
    document = _document(names.BENCHMARK_KIND, name, spec)
    try:
        valid = validate.load_benchmark(document)
    except validate.InvalidObject as error:
        raise Refusal(*(f"{study_file.path}, as adapted: {problem}" for problem in error.problems)) from error
    named = {entry for block in spec.sweep for entry in block.pools}
    found = (
        *(_document(names.POOL_KIND, place.name, place.spec) for place in pools if place.name in named),
        *(config_map.document() for config_map in study_file.config_maps),
        document,
    )
    return Adapted(
        benchmark=replace(benchmark, name=valid.name, spec=valid.spec),
        pools=pools,
        text=yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True),
        sentence=sentence,
    )


def local_cpu(machine: Machine) -> GpuPool:
    """One node, this machine: a slot for each processor, with an equal share of the memory, at most 4 GiB."""
    slots = min(_SLOTS_MAX, len(machine.cores))
    mebibytes = min(_MEMORY_MAX, int(machine.memory_bytes * _MEMORY_SHARE / slots / _MEBIBYTE))
    return GpuPool(
        name=LOCAL_CPU,
        spec=GpuPoolSpec(
            slots_per_node=slots,
            max_nodes=1,
            exclusive_nodes=False,  # it is somebody's machine: an attempt takes the processors of its workers alone
            slot=Slot(cpu="1", memory=f"{mebibytes}Mi"),
        ),
    )


def _pool(name: str, pools: tuple[GpuPool, ...]) -> GpuPool:
    for pool in pools:
        if pool.name == name:
            return pool
    if name == LOCAL_CPU:
        return local_cpu(this_machine())
    known = ", ".join((*(pool.name for pool in pools), LOCAL_CPU))
    raise Refusal(f"--pool {name}: there is no such pool here: choose one of {known}, or give its file with --pools")


def _document(kind: str, name: str, spec: Value) -> dict[str, Any]:
    content = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    return {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": content}


def _scale(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number above 0 and up to 1, such as 0.01")
    return scale
