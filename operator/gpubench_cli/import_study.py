# SPDX-License-Identifier: Apache-2.0
"""`gpubench import STUDY.yaml MEASUREMENTS.csv`: figures that were measured elsewhere, as a results folder.

A publication's figures, or those of a study from before gpubench, become results of basis Imported: `show`, `compare`,
`verify` and all that reads results folders reads them, and no figure of theirs is taken for a measured one.
Must not happen: a folder that does not say whose figures it has.
"""

import argparse
import time
import uuid
from pathlib import Path

from gpubench.analysis import analyze
from gpubench.analysis import status as statuses
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.plan import expand
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.scheduler import account, step
from gpubench.scheduler.ledger import Ledger
from gpubench.scheduler.observed import Observed
from gpubench.units import rfc3339
from gpubench_cli import documents, import_measurements, refusal, results, run, show, terminal
from gpubench_cli.refusal import Refusal
from gpubench_cli.results import ResultsFolder, Summary

_DESCRIPTION = """\
Make a results folder of figures that were measured elsewhere: of a publication, or of a study of
your own from before gpubench. Each row of MEASUREMENTS.csv is one run of one point of the study.
"""
_EPILOG = f"""\
Lines above the rows say whose figures they are:
  # publisher: RaRe Technologies
  # source: Table 1 of the post
  # published: 2018-02
Columns that find the point (as many as tell it apart):
  {", ".join(import_measurements.KEY)}
Columns of one run, repeat by repeat (accuracy and gpu_utilization are shares, 0.82 for 82 %):
  repeat, {", ".join(import_measurements.OF_A_RUN)}
Columns of the point:
  {", ".join(import_measurements.OF_A_POINT)}
What nobody knows is left empty. A variant that the study does not have adds a point.

  gpubench import jobs/studies/keras-2017.yaml jobs/studies/published/keras-2017.csv --out keras-2017
  gpubench show keras-2017
  gpubench compare keras-2017 results/keras-2017-20261101T100000Z

Exit codes: 0 imported, 2 bad input.
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "import",
        help="make a results folder of published figures, or of your own from before",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("study", type=Path, metavar="STUDY.yaml", help="the study that asks for these points")
    parser.add_argument("measurements", type=Path, metavar="MEASUREMENTS.csv", help="what was measured")
    parser.add_argument("--pools", type=Path, metavar="FILE", help="GpuPools in a file of their own")
    parser.add_argument("--name", help="the benchmark, where the file has several")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True, help="the new results folder")
    parser.set_defaults(command=run_command)


def run_command(arguments: argparse.Namespace) -> int:
    """Read, plan, take over, write, show."""
    study_file = documents.read(arguments.study)
    benchmark = study_file.benchmark(arguments.name)
    pools = run.given_pools(study_file, arguments.pools)
    documents.refuse_missing_pools(benchmark, pools)
    now = time.time()
    study = run.as_study(benchmark, now=now)
    planned = freeze(study.spec, pools, rfc3339(now))
    found = import_measurements.imported(planned, arguments.measurements)
    plan = expand.with_measurements(planned, found)
    made = step.step(plan, Ledger(), account.of(plan, Ledger()), Observed(study=study), now)
    status = statuses.status(study, plan, made, analyze.analyze(plan, Ledger(), made.points, study.spec), now=now)
    folder = _write(arguments, plan, status, name=study.name)
    terminal.tell(f"imported from {found.origin}: {len(found.points)} points")
    show.show_status(study.name, str(folder.path), status)
    terminal.tell(f"results: {folder.path}")
    return refusal.EXIT_DONE


def again(plan: Plan, planned: Plan, path: Path) -> str | None:
    """What is wrong between an imported plan and the measurements in its folder; None where it follows from them.

    `planned` is the plan of the study file as it would be run.
    """
    try:
        found = import_measurements.imported(planned, path / results.MEASUREMENTS)
    except Refusal as error:
        return error.sentences[0]
    if found != plan.imported:
        return f"its figures are not those of {results.MEASUREMENTS}"
    return None


def _write(arguments: argparse.Namespace, plan: Plan, status: GpuBenchmarkStatus, *, name: str) -> ResultsFolder:
    # A study whose pools come from a file of their own is kept with them: it must be read again without that file.
    text = "\n---\n".join(
        path.read_text(encoding="utf-8") for path in (arguments.study, arguments.pools) if path is not None
    )
    folder = ResultsFolder.create(arguments.out, study_text=text, plan=plan)
    folder.keep(results.MEASUREMENTS, arguments.measurements.read_bytes())
    folder.write(Summary(name=name, uid=str(uuid.uuid4()), machine="imported", status=status))
    return folder
