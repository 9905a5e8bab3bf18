# SPDX-License-Identifier: Apache-2.0
"""`--history`: studies that have run, from results folders or from the cluster, to estimate one that has not."""

import argparse
from collections.abc import Iterable
from pathlib import Path

from gpubench.analysis.forecast import Earlier
from gpubench_cli import export, results
from gpubench_cli.refusal import Refusal


def add_to(parser: argparse.ArgumentParser) -> None:
    """The option, and where names are looked up."""
    parser.add_argument(
        "--history",
        action="append",
        default=[],
        metavar="NAME",
        help="a results folder, or a GpuBenchmark of the cluster, whose attempts tell how long equal ones take; may be "
        "given several times",
    )
    parser.add_argument("-n", "--namespace", help="namespace of --history in the cluster; the kubeconfig's by default")


def read(names: Iterable[str], *, namespace: str | None) -> tuple[Earlier, ...]:
    """The studies, in the order in which they were named."""
    return tuple(_read(name, namespace=namespace) for name in names)


def _read(name: str, *, namespace: str | None) -> Earlier:
    path = Path(name)
    if results.is_results_folder(path):
        return Earlier(results.read_plan(path), results.read_ledger(path))
    if path.is_dir() or "/" in name:
        raise Refusal(f"--history {name}: this is no results folder of `gpubench run`")
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with cluster.connect(namespace) as place:
        uid = str(place.benchmark(name)["metadata"]["uid"])
        return Earlier(*export.stored(place.config_maps(uid), name=name, uid=uid))
