# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have, each declared once."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

_Function = TypeVar("_Function", bound=Callable[..., object])

#: A path that need not exist: the command says what it misses there.
PATH = click.Path(path_type=Path)

benchmark = click.argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
benchmarks = click.argument(
    "names", metavar="NAME...", nargs=-1, required=True, help="a GpuBenchmark, or a results folder"
)
study = click.argument("study", metavar="FILE.yaml", type=PATH, help="a GpuBenchmark and, most times, its GpuPools")
namespace = click.option("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
pools = click.option("--pools", type=PATH, metavar="FILE", help="GpuPools in a file of their own")
name = click.option("--name", help="the benchmark, where the file has several")
volumes = click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=FOLDER",
    help="the folder of a volume on this machine, for a claim or a folder that is not here (again for each)",
)


def output(*forms: str) -> Callable[[_Function], _Function]:
    """In which form results are printed; the first by default."""
    return click.option("-o", "--output", type=click.Choice(forms), default=forms[0], help=f"{forms[0]} by default")


def scale_of(text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = 0.0
    if not 0 < scale <= 1:
        raise click.BadParameter(f"{text!r} is no number above 0 and up to 1, such as 0.01")
    return scale


scale = click.option(
    "--scale",
    type=scale_of,
    metavar="FACTOR",
    help="the small form, such as 0.01: small batches, generated data, short times, one repeat, another name",
)
pool = click.option(
    "--pool",
    metavar="NAME",
    help="this pool in place of the benchmark's; local-cpu is made from this machine where no file has it",
)
