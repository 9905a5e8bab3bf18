# SPDX-License-Identifier: Apache-2.0
"""`gpubench run FILE.yaml`: the benchmark on this machine, without a cluster.

`--scale` and `--pool` make a benchmark small, or put it on another pool, without editing its file. What is run, and
what `gpubench plan -o yaml` prints for `kubectl apply -f -`, are the same objects. Must not happen: the results of a
small form pass for those of the benchmark, so its name, and a line beside the results, say what it is.
"""

import importlib.util
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click
import yaml

from gpubench import names
from gpubench.analysis import comparison
from gpubench.api import benchmark_status, goals, point_result, validate
from gpubench.api.pool import GpuPool, GpuPoolSpec, Slot
from gpubench.plan import expand
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, step
from gpubench.scheduler.observed import Study
from gpubench_cli import compare, documents, local, machine, options, results, show, terminal
from gpubench_cli.documents import Benchmark, StudyFile

# --- the small form ---------------------------------------------------------------------------------------------------


LOCAL_CPU = "local-cpu"
_SLOTS_MAX = 64  # of the schema
_MEMORY_SHARE, _MEMORY_MAX = 0.8, 4096  # of the machine's, the rest is the system's; and MiB of a slot
_MEBIBYTE = 2**20


@dataclass(frozen=True, kw_only=True)
class Adapted:
    """A benchmark as the command line wants it."""

    benchmark: Benchmark
    pools: tuple[GpuPool, ...]
    text: str | None  # as a benchmark file; None where nothing was changed
    sentence: str | None  # what a reader of the figures must know


def adapt(
    study_file: StudyFile, benchmark: Benchmark, pools: tuple[GpuPool, ...], *, scale: float | None, pool: str | None
) -> Adapted:
    """The benchmark on the pool, and as small, as the command line says."""
    if scale is None and pool is None:
        return Adapted(benchmark=benchmark, pools=pools, text=None, sentence=None)
    spec, name, sentence = benchmark.spec, benchmark.name, None
    if pool is not None:
        place = next((one for one in pools if one.name == pool), None)
        if place is None and pool == LOCAL_CPU:
            place = local_cpu(machine.this_machine())
        if place is None:
            known = ", ".join((*(one.name for one in pools), LOCAL_CPU))
            remedy = f"choose one of {known}, or give its file with --pools"
            raise terminal.CliError(f"--pool {pool}: there is no such pool here: {remedy}")
        pools = (place,)
        spec = expand.on_pool(spec, pool) if scale is None else expand.each_once(spec, place)
    if scale is not None:
        spec, name = expand.scaled(spec, scale), expand.scaled_name(benchmark.name)
        said = "its figures show that it runs, and say nothing about its answers"
        sentence = f"{name} is the small form of {benchmark.name} (scale {scale:g}): {said}"
    document = documents.written(names.BENCHMARK_KIND, name, spec)
    try:
        valid = validate.load_benchmark(document)
    except validate.InvalidObject as error:
        raise terminal.CliError(*(f"{study_file.path}, as adapted: {problem}" for problem in error.problems)) from error
    named = {entry for block in spec.sweep for entry in block.pools}
    found = (
        *(documents.written(names.POOL_KIND, place.name, place.spec) for place in pools if place.name in named),
        *(config_map.to_wire() for config_map in study_file.config_maps),
        document,
    )
    return Adapted(
        benchmark=replace(benchmark, name=valid.name, spec=valid.spec),
        pools=pools,
        text=yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True),
        sentence=sentence,
    )


def local_cpu(here: machine.Machine) -> GpuPool:
    """One node, this machine: a slot for each processor, with an equal share of the memory, at most 4 GiB."""
    slots = min(_SLOTS_MAX, len(here.cores))
    mebibytes = min(_MEMORY_MAX, int(here.memory_bytes * _MEMORY_SHARE / slots / _MEBIBYTE))
    return GpuPool(
        name=LOCAL_CPU,
        spec=GpuPoolSpec(
            slots_per_node=slots,
            max_nodes=1,
            exclusive_nodes=False,  # it is somebody's machine: an attempt takes the processors of its workers alone
            slot=Slot(cpu="1", memory=f"{mebibytes}Mi"),
        ),
    )


# --- gpubench run -----------------------------------------------------------------------------------------------------


#: A pod's main process. -P: the folder that a person happens to be in must not shadow a module.
LAUNCHER = (sys.executable, "-P", "-m", "gpubench_jobs.launcher")
_LIBRARIES = {"tensorflow": "TensorFlow", "horovod": "Horovod"}


@click.command("run")
@options.study
@options.pools
@options.name
@options.scale
@options.pool
@options.volumes
@click.option(
    "--against",
    "baseline",
    type=options.PATH,
    metavar="RESULTS",
    help="a results folder to keep up with, as spec.compareTo does; exit code 1 if a point is slower",
)
@click.option(
    "--results", "folder", type=options.PATH, metavar="DIR", help="new folder; results/<name>-<UTC time> by default"
)
def run(
    *,
    study: Path,
    pools: Path | None,
    name: str | None,
    scale: float | None,
    pool: str | None,
    volumes: tuple[str, ...],
    baseline: Path | None,
    folder: Path | None,
) -> int:
    """Run a benchmark on this machine. Points that this machine cannot run are skipped with a message."""
    study_file = documents.read(study)
    adapted = adapt(
        study_file, study_file.benchmark(name), documents.given_pools(study_file, pools), scale=scale, pool=pool
    )
    documents.refuse_missing_pools(adapted.benchmark, adapted.pools)
    tell_of_schedules(study_file)
    asked, reference = against(without_drill(documents.as_study(adapted.benchmark, now=time.time())), baseline)
    here = machine.this_machine()
    sources = machine.Sources(given=machine.given_volumes(volumes), config_maps=study_file.config_maps)
    plan = as_here(asked, _begin(asked, adapted.pools, reference), here=here, sources=sources)
    if not all(point.key.is_own_program for point in plan.points if point.runs):
        refuse_missing_libraries()
    if (busy := machine.busy()) is not None:
        terminal.tell(f"warning: {busy}")
    throttled = machine.times_throttled()
    kept = results.ResultsFolder.create(
        folder or results.default_path(asked.name, now=asked.created_at),
        study_text=adapted.text or study.read_text(encoding="utf-8"),
        plan=plan,
    )
    try:
        with (
            tempfile.TemporaryDirectory(prefix="gpubench-", ignore_cleanup_errors=True) as scratch,
            terminal.Progression(name=asked.name) as progression,
        ):
            place = local.Place(machine=here, command=LAUNCHER, folder=kept, scratch=Path(scratch), sources=sources)
            status = local.LocalRun(asked, plan, place=place, reporter=progression).run()
    except terminal.Stopped:
        terminal.tell(f"stopped; what was measured is kept: gpubench show {kept.path}")
        raise
    if (hot := machine.times_throttled() - throttled) > 0:
        terminal.tell(f"warning: processors slowed down {hot} times for heat meanwhile: look at their cooling")
    show.show_status(asked.name, str(kept.path), status, remark=adapted.sentence)
    terminal.tell(f"results: {kept.path}")
    return exit_code(status)


def without_drill(study: Study) -> Study:
    """The benchmark without interruptions on purpose, which is said: they are evictions, and nobody evicts here."""
    if study.spec.drill is None:
        return study
    terminal.tell("warning: spec.drill has no effect here: only the operator evicts pods, in a cluster")
    return local.with_spec(study, drill=None)


def tell_of_schedules(study_file: documents.StudyFile) -> None:
    """That nothing becomes of them here: what a file holds is not passed over in silence."""
    for schedule in study_file.schedules:
        terminal.tell(
            f"warning: {names.SCHEDULE_KIND} {schedule.name} has no effect here: only the operator runs schedules, "
            "in a cluster"
        )


def as_here(study: Study, plan: Plan, *, here: machine.Machine, sources: machine.Sources) -> Plan:
    """The plan without what this machine cannot be, and without what it has no files for."""
    machine.refuse_unknown_volumes(study, plan, sources)
    return machine.skip_what_has_no_folder(study, machine.skip_what_this_machine_is_not(plan, here), sources)


def exit_code(status: benchmark_status.FullStatus) -> int:
    """Of a benchmark that has finished: it did not succeed, or it is slower than its baseline."""
    is_slower = status.comparison is not None and status.comparison.verdict is point_result.Judgement.FAIL
    succeeded = conditions.holds(status.conditions, conditions.SUCCEEDED) and not is_slower
    return terminal.EXIT_DONE if succeeded else terminal.EXIT_STUDY_FAILED


def against(study: Study, path: Path | None) -> tuple[Study, comparison.Reference | None]:
    """The benchmark with the results folder as its baseline, and what is in there."""
    wanted = study.spec.compare_to
    if path is None:
        if wanted is not None:
            terminal.tell(
                f"warning: spec.compareTo names {wanted.benchmark} of a cluster: give its results folder with --against"
            )
        return study, None
    found = results.in_folder(path)
    tolerance = {} if wanted is None else {"tolerance": wanted.tolerance}
    finished = conditions.holds(found.status.conditions, conditions.FINISHED)
    reference = comparison.Reference(side=compare.side_of(found), finished=finished)
    return local.with_spec(study, compare_to=goals.CompareTo(benchmark=found.name, **tolerance)), reference


def _begin(study: Study, pools: tuple[GpuPool, ...], reference: comparison.Reference | None) -> Plan:
    with_baseline = partial(comparison.with_baseline, wanted=study.spec.compare_to, found=reference)
    begun = step.begin(study, pools, study.created_at, with_baseline=with_baseline)
    if isinstance(begun, Plan):
        return begun
    raise terminal.CliError(f"{study.name} does not start: {begun.status.conditions[0].message}")


def refuse_missing_libraries() -> None:
    if missing := [title for module, title in _LIBRARIES.items() if importlib.util.find_spec(module) is None]:
        raise terminal.CliError(
            f"training needs {' and '.join(missing)}, not installed here: "
            "install kube-gpubench[jobs-cpu] and Horovod (in a checkout: make horovod), or apply the file to a cluster"
        )
