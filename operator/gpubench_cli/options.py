# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have, each declared once."""

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from gpubench_cli import terminal

_Function = TypeVar("_Function", bound=Callable[..., object])

#: A path that need not exist: the command says what it misses there.
PATH = click.Path(path_type=Path)

WHICH = "a GpuBenchmark, or a results folder"
benchmark = click.argument("name", metavar="NAME", help=WHICH)
benchmarks = click.argument("names", metavar="NAME...", nargs=-1, required=True, help=WHICH)


def file_argument(name: str, *, about: str, metavar: str, **attributes: Any) -> Callable[[_Function], _Function]:
    """A benchmark file, also as `-f FILE`: as kubectl has it."""
    flag = click.option("-f", is_flag=True, expose_value=False, help="before a file, as for kubectl; may be left out")
    about = f"{about}; - is standard input, a folder all of its .yaml, .yml and .json files"
    argument = click.argument(name, metavar=metavar, type=PATH, help=about, **attributes)
    return lambda function: argument(flag(function))


_OF_STUDY = {"metavar": "FILE.yaml", "about": "a GpuBenchmark and, most times, its GpuPools"}
study = file_argument("study", **_OF_STUDY)
study_unless_resumed = file_argument("study", required=False, **_OF_STUDY)

pools = click.option("--pools", type=PATH, metavar="FILE", help="GpuPools in a file of their own")
name = click.option("--name", help="the benchmark, where the file has several")
volumes = click.option(
    "--volume",
    "volumes",
    multiple=True,
    metavar="NAME=FOLDER",
    help="the folder of a volume on this machine, for a claim or a folder that is not here (again for each)",
)


def _keep(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    context.meta.setdefault(CLUSTER, {})[parameter.name] = value


CLUSTER = f"{__name__}.cluster"  # of a context's meta: what `connection` was given
_KEPT: dict[str, Any] = {"expose_value": False, "callback": _keep}


def connection(function: _Function) -> _Function:
    """Which cluster: no parameter of the function's, for `cluster.connect` asks for it."""
    file = click.Path(exists=True, dir_okay=False)
    kubeconfig = click.option("--kubeconfig", type=file, help="what kubectl takes by default", **_KEPT)
    return kubeconfig(click.option("--context", metavar="NAME", help="a context of the kubeconfig", **_KEPT)(function))


def cluster(function: _Function) -> _Function:
    """The same, with a namespace."""
    return click.option("-n", "--namespace", help="namespace in the cluster; the context's by default")(
        connection(function)
    )


def output(*forms: str) -> Callable[[_Function], _Function]:
    """In which form results are printed; the first by default."""
    return click.option("-o", "--output", type=click.Choice(forms), default=forms[0], help=f"{forms[0]} by default")


def view(function: _Function) -> _Function:
    """Which rows and columns of a table are shown, as the parameter `view`."""

    @click.option("--sort", metavar="COLUMN", help="rows by this column, the least first; -COLUMN: the largest first")
    @click.option("--top", type=click.IntRange(1), metavar="N", help="the first N rows")
    @click.option("--columns", default="", metavar="A,B,...", help="these columns of the table, by their titles")
    @functools.wraps(function)
    def with_view(*, sort: str | None, top: int | None, columns: str, **others: Any) -> object:
        chosen = tuple(filter(None, columns.split(",")))
        return function(view=terminal.View(others["output"] == "wide", None, sort, top, chosen), **others)

    return cast(_Function, with_view)


class Number(click.FloatRange):
    """A number in a range: `nan` is in none."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        return self.fail(f"{value!r} is no number", param, ctx) if math.isnan(found) else found


scale = click.option(
    "--scale",
    type=Number(0, 1, min_open=True),
    metavar="FACTOR",
    help="the small form, such as 0.01: small batches, generated data, short times, one repeat, another name",
)
pool = click.option(
    "--pool",
    metavar="NAME",
    help="this pool in place of the benchmark's; local-cpu is made from this machine where no file has it",
)
