# SPDX-License-Identifier: Apache-2.0
"""`gpubench run STUDY.yaml`: the study on this machine, without a cluster."""

import argparse
import importlib.util
import sys
import time
import uuid
from functools import partial
from pathlib import Path

from gpubench import names
from gpubench.analysis import comparison
from gpubench.analysis.comparison import Reference
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.api.goals import CompareTo
from gpubench.api.point_result import Judgement
from gpubench.api.pool import GpuPool
from gpubench.plan import estimate
from gpubench.plan.plan import Plan
from gpubench.report import answer, tables, text
from gpubench.scheduler import conditions, planning
from gpubench.scheduler.observed import Study
from gpubench_cli import compare, documents, local, machine, refusal, results, show, small, terminal, volumes
from gpubench_cli.documents import Benchmark
from gpubench_cli.gang import Place
from gpubench_cli.refusal import Refusal
from gpubench_cli.results import ResultsFolder

#: A pod's main process. -P: the folder that a person happens to be in must not shadow a module.
LAUNCHER = (sys.executable, "-P", "-m", "gpubench_jobs.launcher")
_LIBRARIES = {"tensorflow": "TensorFlow", "horovod": "Horovod"}


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "run",
        help="run a study on this machine, without a cluster",
        description="Run a study on this machine. Points that this machine cannot be are skipped with a sentence.",
    )
    parser.add_argument("study", type=Path, metavar="STUDY.yaml", help="a GpuBenchmark and, most times, its GpuPools")
    parser.add_argument("--pools", type=Path, metavar="FILE", help="GpuPools in a file of their own")
    parser.add_argument("--name", help="the benchmark, where the file has several")
    small.add_to(parser)
    volumes.add_to(parser)
    parser.add_argument(
        "--against",
        type=Path,
        metavar="RESULTS",
        help="a results folder to keep up with, as spec.compareTo does; exit code 1 if a point is slower",
    )
    parser.add_argument("--results", type=Path, metavar="DIR", help="new folder; results/<name>-<UTC time> by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Read, plan, run, report."""
    study_file, adapted = read_study(arguments)
    benchmark, pools = adapted.benchmark, adapted.pools
    documents.refuse_missing_pools(benchmark, pools)
    tell_of_schedules(study_file)
    study, reference = against(without_drill(as_study(benchmark, now=time.time())), arguments.against)
    here = machine.this_machine()
    sources = volumes.Sources(given=volumes.given(arguments.volume), config_maps=study_file.config_maps)
    plan = as_here(study, _begin(study, pools, reference), here=here, sources=sources)
    if not all(point.key.is_own_program for point in plan.points if point.runs):
        refuse_missing_libraries()
    folder = ResultsFolder.create(
        arguments.results or results.default_path(study.name, now=study.created_at),
        study_text=adapted.text or arguments.study.read_text(encoding="utf-8"),
        plan=plan,
    )
    try:
        status = _run(study, plan, here=here, sources=sources, folder=folder)
    except refusal.Stopped:
        terminal.tell(f"stopped; what was measured is kept: gpubench show {folder.path}")
        raise
    _report(status, folder, note=adapted.sentence)
    return exit_code(status)


def read_study(arguments: argparse.Namespace) -> tuple[documents.StudyFile, small.Adapted]:
    """The study file, and what is made of its benchmark and pools: as they are, or in their small form."""
    study_file = documents.read(arguments.study)
    return study_file, adapted_study(study_file, arguments)


def adapted_study(study_file: documents.StudyFile, arguments: argparse.Namespace) -> small.Adapted:
    """What is made of the benchmark that is meant."""
    return small.adapt(
        study_file,
        study_file.benchmark(arguments.name),
        given_pools(study_file, arguments.pools),
        scale=arguments.scale,
        pool=arguments.pool,
    )


def given_pools(study_file: documents.StudyFile, pools_path: Path | None) -> tuple[GpuPool, ...]:
    """Pools of the study file and of --pools; a name in both is a contradiction."""
    if pools_path is None:
        return study_file.pools
    others = documents.read(pools_path).pools
    twice = {pool.name for pool in study_file.pools} & {pool.name for pool in others}
    if twice:
        raise Refusal(f"{pools_path}: {', '.join(sorted(twice))} stands in {study_file.path}, too: remove one of both")
    return (*study_file.pools, *others)


def as_study(benchmark: Benchmark, *, now: float) -> Study:
    """The study as if an API server had just taken it."""
    return Study(
        namespace="local",
        name=benchmark.name,
        uid=str(uuid.uuid4()),
        generation=1,
        created_at=now,
        spec=benchmark.spec,
    )


def without_drill(study: Study) -> Study:
    """The study without interruptions on purpose, which is said: they are evictions, and here is nobody to evict."""
    if study.spec.drill is None:
        return study
    terminal.tell("warning: spec.drill has no effect here: only the operator evicts pods, in a cluster")
    return study.model_copy(update={"spec": study.spec.model_copy(update={"drill": None})})


def tell_of_schedules(study_file: documents.StudyFile) -> None:
    """That nothing becomes of them here: what a file holds is not passed over in silence."""
    for schedule in study_file.schedules:
        terminal.tell(
            f"warning: {names.SCHEDULE_KIND} {schedule.name} has no effect here: only the operator runs schedules, "
            "in a cluster"
        )


def as_here(study: Study, plan: Plan, *, here: machine.Machine, sources: volumes.Sources) -> Plan:
    """The plan without what this machine cannot be, and without what it has no files for."""
    volumes.refuse_unknown(study, plan, sources)
    return volumes.skip_what_has_no_folder(study, machine.skip_what_this_machine_is_not(plan, here), sources)


def exit_code(status: GpuBenchmarkStatus) -> int:
    """Of a study that has finished: it did not succeed, or it is slower than its baseline."""
    is_slower = status.comparison is not None and status.comparison.verdict is Judgement.FAIL
    succeeded = conditions.holds(status.conditions, conditions.SUCCEEDED) and not is_slower
    return refusal.EXIT_DONE if succeeded else refusal.EXIT_STUDY_FAILED


def against(study: Study, path: Path | None) -> tuple[Study, Reference | None]:
    """The study with the results folder as its baseline, and what is in there."""
    wanted = study.spec.compare_to
    if path is None:
        if wanted is not None:
            terminal.tell(
                f"warning: spec.compareTo names {wanted.benchmark} of a cluster: give its results folder with --against"
            )
        return study, None
    summary = results.read_summary(path)
    tolerance = {} if wanted is None else {"tolerance": wanted.tolerance}
    spec = study.spec.model_copy(update={"compare_to": CompareTo(benchmark=summary.name, **tolerance)})
    reference = Reference(
        side=compare.side_of_folder(path), finished=conditions.holds(summary.status.conditions, conditions.FINISHED)
    )
    return study.model_copy(update={"spec": spec}), reference


def _begin(study: Study, pools: tuple[GpuPool, ...], reference: Reference | None) -> Plan:
    begun = planning.begin(
        study,
        pools,
        study.created_at,
        with_baseline=partial(comparison.with_baseline, wanted=study.spec.compare_to, found=reference),
    )
    if isinstance(begun, Plan):
        return begun
    raise Refusal(f"{study.name} does not start: {begun.status.conditions[0].message}")


def refuse_missing_libraries() -> None:
    """Refusal where what the ranks import is not installed."""
    missing = [title for module, title in _LIBRARIES.items() if importlib.util.find_spec(module) is None]
    if missing:
        raise Refusal(
            f"training needs {' and '.join(missing)}, not installed here: "
            "install gpubench[jobs-cpu] and Horovod (in a checkout: make horovod), or apply the study to a cluster"
        )


def _run(
    study: Study, plan: Plan, *, here: machine.Machine, sources: volumes.Sources, folder: ResultsFolder
) -> GpuBenchmarkStatus:
    trial_seconds = estimate.trial_seconds(plan)
    with local.scratch() as scratch, terminal.Progression(trial_seconds=trial_seconds, name=study.name) as progression:
        place = Place(machine=here, command=LAUNCHER, folder=folder, scratch=scratch, sources=sources)
        return local.LocalRun(study, plan, place=place, reporter=progression).run()


def _report(status: GpuBenchmarkStatus, folder: ResultsFolder, *, note: str | None) -> None:
    terminal.print_tables(tables.of_study(status.results, status.prices))
    for sentence in (*text.environments(status.environments, status.results), *map(text.price, status.prices)):
        terminal.write(sentence)
    terminal.write(f"\n{status.answer or answer.answer(status.results)}")
    for sentence in show.spending(status):
        terminal.write(f"\n{sentence}")
    if status.comparison is not None:
        terminal.write(f"\n{show.compared(status.comparison)}")
    if note is not None:
        terminal.write(f"\n{note}")
    terminal.tell(f"results: {folder.path}")
