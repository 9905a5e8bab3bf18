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
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click
import yaml

from gpubench import names
from gpubench.analysis import comparison
from gpubench.api import benchmark_status, goals, point_result, validate
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.pool import GpuPool, GpuPoolSpec, Slot
from gpubench.plan import expand
from gpubench.plan.plan import Plan
from gpubench.scheduler import conditions, step
from gpubench.scheduler.ledger import Ledger, Outcome, Reason
from gpubench.scheduler.observed import Study
from gpubench_cli import compare, documents, local, machine, options, results, show, terminal
from gpubench_cli.documents import Benchmark, StudyFile
from gpubench_cli.results import ResultsFolder

# --- the small form ---------------------------------------------------------------------------------------------------


LOCAL_CPU = "local-cpu"
_SLOTS_MAX = 64  # of the schema
_MEMORY_SHARE, _MEMORY_MAX = 0.8, 4096  # of the machine's, the rest is the system's; and MiB of a slot
_MEBIBYTE = 2**20


class Adapted(NamedTuple):
    """A benchmark as the command line wants it."""

    benchmark: Benchmark
    pools: tuple[GpuPool, ...]
    text: str | None = None  # as a benchmark file; None where nothing was changed
    sentence: str | None = None  # what a reader of the figures must know


def adapt(
    study_file: StudyFile, benchmark: Benchmark, pools: tuple[GpuPool, ...], *, scale: float | None, pool: str | None
) -> Adapted:
    """The benchmark on the pool, and as small, as the command line says."""
    if scale is None and pool is None:
        return Adapted(benchmark, pools)
    spec, name, sentence = benchmark.spec, benchmark.name, None
    if pool is not None:
        if (place := next((one for one in pools if one.name == pool), None)) is None and pool == LOCAL_CPU:
            place = local_cpu(machine.this_machine())
        if place is None:
            known = ", ".join((*(one.name for one in pools), LOCAL_CPU))
            raise terminal.CliError(
                f"--pool {pool}: there is no such pool here: choose one of {known}, or give its file with --pools"
            )
        pools = (place,)
        spec = expand.on_pool(spec, pool) if scale is None else expand.each_once(spec, place)
    if scale is not None:
        spec, name = expand.scaled(spec, scale), expand.scaled_name(benchmark.name)
        sentence = (
            f"{name} is the small form of {benchmark.name} (scale {scale:g}): its figures show that it runs, and say "
            "nothing about its answers"
        )
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
    text = yaml.safe_dump_all(found, sort_keys=False, allow_unicode=True)
    return Adapted(replace(benchmark, name=valid.name, spec=valid.spec), pools, text, sentence)


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
@options.study_unless_resumed
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
@click.option(
    "--resume", "stopped", type=options.PATH, metavar="DIR", help="go on in the folder of a run that was stopped"
)
def run(
    *,
    study: Path | None,
    pools: Path | None,
    name: str | None,
    scale: float | None,
    pool: str | None,
    volumes: tuple[str, ...],
    baseline: Path | None,
    folder: Path | None,
    stopped: Path | None,
) -> int:
    """Run a benchmark on this machine. Points that this machine cannot run are skipped with a message.

    With --resume all is as it was planned, and what was measured stays. Only --volume is given again.
    """
    here, given = machine.this_machine(), machine.given_volumes(volumes)
    if stopped is not None:
        if any((study, pools, name, scale, pool, baseline, folder)):
            raise click.UsageError(
                "--resume DIR takes all but --volume from DIR: leave out FILE.yaml and other options"
            )
        kept = ResultsFolder(stopped)
        with kept.written_alone():
            return _measure(*_reopened(kept, here, given), here=here, kept=kept)
    if study is None:
        raise click.UsageError("Missing argument 'FILE.yaml', or --resume DIR")
    study_file = documents.read(study)
    given_pools = documents.given_pools(study_file, None if pools is None else documents.read(pools))
    adapted = adapt(study_file, study_file.benchmark(name), given_pools, scale=scale, pool=pool)
    documents.refuse_missing_pools(adapted.benchmark, adapted.pools)
    tell_of_schedules(study_file)
    asked, reference = against(without_drill(documents.as_study(adapted.benchmark, now=time.time())), baseline)
    sources = machine.Sources(given=given, config_maps=study_file.config_maps)
    plan = as_here(asked, _begin(asked, adapted.pools, reference), here=here, sources=sources)
    refuse_missing_libraries(plan)
    path = folder or results.default_path(asked.name, now=asked.created_at)
    kept = ResultsFolder.create(path, study_text=adapted.text or study_file.text, plan=plan)
    with kept.written_alone():
        return _measure(asked, plan, sources, Ledger(), here=here, kept=kept, remark=adapted.sentence)


def _reopened(
    kept: ResultsFolder, here: machine.Machine, given: Mapping[str, Path]
) -> tuple[Study, Plan, machine.Sources, Ledger]:
    """As its folder has it; attempts that ran when the run was killed count as stopped, as after a signal."""
    path, summary, plan = kept.path, results.read_summary(kept.path), results.read_plan(kept.path)
    if summary.exported or summary.repriced or summary.machine != here.name:
        raise terminal.CliError(f"{path}: it is no run of this machine ({here.name}), but of {summary.machine}")
    if conditions.holds(summary.status.conditions, conditions.FINISHED):
        raise terminal.CliError(f"{path}: {summary.name} has finished: there is nothing left to run")
    study_file, now = results.study_as_planned(path, plan), time.time()
    sources = machine.Sources(given=given, config_maps=study_file.config_maps)
    told = GpuBenchmarkStatus(conditions=summary.status.conditions, start_time=summary.status.start_time)
    study = without_drill(documents.as_study(study_file.benchmark(summary.name), now=now))
    study = study.model_copy(update={"uid": summary.uid, "status": told})
    machine.refuse_unknown_volumes(study, plan, sources)
    for old, new in zip(plan.points, machine.skip_what_has_no_folder(study, plan, sources).points, strict=True):
        if old.skip is None and new.skip is not None:
            raise terminal.CliError(f"{path}: {new.skip}")
    refuse_missing_libraries(plan)
    kept.leave_out_cut_lines()
    before = results.read_ledger(path)
    ended = {"outcome": Outcome.STOPPED, "reason": Reason.SUSPENDED, "sentence": "the run was killed", "ended_at": now}
    killed = [one.model_copy(update=ended) for one in before.records if one.outcome is None]
    kept.append(killed)
    return study, plan, sources, before.with_records(killed)


def _measure(
    study: Study,
    plan: Plan,
    sources: machine.Sources,
    before: Ledger,
    *,
    here: machine.Machine,
    kept: ResultsFolder,
    remark: str | None = None,
) -> int:
    if (busy := machine.busy()) is not None:
        terminal.tell(f"warning: {busy}")
    throttled = machine.times_throttled()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="gpubench-", ignore_cleanup_errors=True) as scratch,
            terminal.Progression(name=study.name) as progression,
        ):
            place = local.Place(machine=here, command=LAUNCHER, folder=kept, scratch=Path(scratch), sources=sources)
            status = local.LocalRun(study, plan, place=place, reporter=progression, before=before).run()
    except terminal.Stopped:
        terminal.tell(
            f"stopped; what was measured is kept: gpubench show {kept.path}; gpubench run --resume {kept.path}"
        )
        raise
    if (hot := machine.times_throttled() - throttled) > 0:
        terminal.tell(f"warning: processors slowed down {hot} times for heat meanwhile: look at their cooling")
    show.show_status(study.name, str(kept.path), status, remark=remark)
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
    return terminal.exit_code(conditions.holds(status.conditions, conditions.SUCCEEDED) and not is_slower)


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


def refuse_missing_libraries(plan: Plan) -> None:
    if all(point.key.is_own_program for point in plan.points if point.runs):
        return
    if missing := [title for module, title in _LIBRARIES.items() if importlib.util.find_spec(module) is None]:
        raise terminal.CliError(
            f"training needs {' and '.join(missing)}, not installed here: "
            "install kube-gpubench[jobs-cpu] and Horovod (in a checkout: make horovod), or apply the file to a cluster"
        )
