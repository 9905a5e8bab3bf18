# SPDX-License-Identifier: Apache-2.0
"""`gpubench reprice NAME --pools FILE`: what a study's measurements cost at the prices of a file. Runs nothing.

With --out the result is a results folder of its own, marked as re-priced, with the measurements as they were and the
file of prices. Must not happen: a write to the cluster, or to the folder that was measured.
"""

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from gpubench.analysis import repricing
from gpubench.api.pool import GpuPool
from gpubench.units import rfc3339
from gpubench_cli import documents, export, refusal, results, show, stored, terminal
from gpubench_cli.refusal import Refusal
from gpubench_cli.results import Repriced, ResultsFolder
from gpubench_cli.stored import StoredStudy


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "reprice",
        help="what a study costs at other prices; runs nothing",
        description="Compute every cost of a study again from its stored measurements, at the prices of the GpuPools "
        "in a file: price, ownership and capacityType of these, all else as it was measured. Pools of the study that "
        "are not in the file keep their prices.",
    )
    parser.add_argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
    parser.add_argument("--pools", type=Path, required=True, metavar="FILE", help="GpuPools with the prices")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write a new results folder, marked as re-priced")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    show.add_output_to(parser)
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Find, re-price, show, write."""
    pools = documents.read(arguments.pools).pools
    if arguments.out is not None and results.is_results_folder(Path(arguments.name)):
        again = to_folder(Path(arguments.name), arguments.pools, pools, out=arguments.out)
    elif arguments.out is not None:
        again = _exported(arguments, pools)
    else:
        again = repriced(stored.find(arguments.name, namespace=arguments.namespace), arguments.pools, pools)
    show.print_studies([_shown(again)], output=arguments.output)
    if arguments.out is not None:
        terminal.tell(f"results: {arguments.out}")
    return refusal.EXIT_DONE


def repriced(study: StoredStudy, path: Path, pools: Sequence[GpuPool]) -> StoredStudy:
    """The study at the prices of a file; Refusal where they are none for it."""
    if wrong := [f"{path}: {sentence}" for sentence in repricing.problems(study.plan, pools)]:
        raise Refusal(*wrong)
    for sentence in repricing.remarks(study.plan, pools):
        terminal.tell(f"{path}: {sentence}")
    plan = repricing.repriced(study.plan, pools)
    kept = repricing.kept(study.plan, pools)
    return study._replace(
        plan=plan,
        status=repricing.status(plan, study.ledger, study.spec, study.status),
        repriced=Repriced(
            at=rfc3339(time.time()),
            prices=path.name,
            pools=tuple(pool.name for pool in plan.pools if pool.name not in kept),
            kept=kept,
        ),
    )


def to_folder(source: Path, path: Path, pools: Sequence[GpuPool], *, out: Path) -> StoredStudy:
    """The study of a results folder at the prices of a file, and as a folder of its own."""
    study = repriced(stored.of_folder(source), path, pools)
    summary = results.read_summary(source)
    folder = ResultsFolder.create(out, study_text=_text(results.study_path(source)), plan=study.plan)
    folder.copy_measurements(source)
    assert study.repriced is not None
    digest = folder.write_prices(path.read_bytes())
    marked = study.repriced.model_copy(update={"digest": digest})
    folder.write(summary.model_copy(update={"status": study.status, "repriced": marked}))
    return study._replace(source=str(out), repriced=marked)


def _exported(arguments: argparse.Namespace, pools: Sequence[GpuPool]) -> StoredStudy:
    """The study of the cluster as a re-priced folder: it is exported first, with the windows that are still there."""
    if "/" in arguments.name or Path(arguments.name).is_dir():
        raise Refusal(f"{arguments.name}: this is no results folder of `gpubench run`")
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with tempfile.TemporaryDirectory(prefix="gpubench-") as scratch, cluster.connect(arguments.namespace) as place:
        source = Path(scratch) / arguments.name
        terminal.tell(export.export(place, arguments.name, source))
        return to_folder(source, arguments.pools, pools, out=arguments.out)


def _text(path: Path) -> str:
    """With its ends of lines as they are: the plan has a digest of the bytes."""
    return path.read_bytes().decode()


def _shown(study: StoredStudy) -> show.Shown:
    return show.Shown(
        name=study.name, source=study.source, spec=study.written, status=study.status, repriced=study.repriced
    )
