# SPDX-License-Identifier: Apache-2.0
"""`gpubench report NAME...`: studies side by side, as one HTML file and as Markdown.

What it says is the core's (`gpubench.report.document`); `page` draws it, opens files of its libraries (fonts, a
template), and is loaded only where it is needed.
"""

import argparse
from pathlib import Path

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.report import document, markdown
from gpubench.report.document import Document, Reported
from gpubench_cli import documents, results, terminal
from gpubench_cli.terminal import Refusal

_PAGE = Path("report.html")
_LIBRARIES = ("jinja2", "matplotlib")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "report",
        help="write a report: one HTML file, and Markdown",
        description="Write a report of studies side by side: answer, assumptions, table, charts, warnings, "
        "environment, prices, and how to reproduce it. The HTML file needs no network. A NAME that is a results "
        "folder is read from there, any other from the cluster.",
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="a GpuBenchmark, or a results folder")
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.add_argument(
        "--out", type=Path, metavar="FILE.html", help=f"where the page goes; {_PAGE} where nothing is asked for"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE.md", help="where the same goes as Markdown")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Find, say, write."""
    out: Path | None = arguments.out or (None if arguments.markdown else _PAGE)
    told = document.of_benchmarks([found(name, namespace=arguments.namespace) for name in arguments.names])
    if out is not None:
        write(out, html(told))
    if arguments.markdown is not None:
        write(arguments.markdown, markdown.render(told))
    return terminal.EXIT_DONE


def html(told: Document) -> str:
    """The page; Refusal where its libraries are not installed."""
    try:
        from gpubench_cli import page  # noqa: PLC0415  # an extra, and slow to load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        raise Refusal(
            f"an HTML report needs the Python packages {' and '.join(_LIBRARIES)}: install gpubench[report], or write "
            "Markdown with --markdown"
        ) from error
    return page.render(told)


def found(name: str, *, namespace: str | None) -> Reported:
    """A study by the name of its object, or by its results folder."""
    path = Path(name)
    return _of_folder(path) if results.is_results_folder(path) else _of_cluster(name, namespace=namespace)


def _of_folder(path: Path) -> Reported:
    summary, plan, ledger = results.read_summary(path), results.read_plan(path), results.read_ledger(path)
    return Reported(
        name=summary.name,
        source=str(path),
        status=summary.status,
        spec=_spec(path, summary.name, plan),
        plan=plan,
        environments=ledger.environments,
        study_text=_text(results.study_path(path)),
        machine=summary.machine,
        gpubench=summary.gpubench,
        remark=summary.repriced.sentence if summary.repriced is not None else None,
    )


def _of_cluster(name: str, *, namespace: str | None) -> Reported:
    if Path(name).is_dir() or "/" in name:
        raise Refusal(f"{name}: this is no results folder of `gpubench run`")
    from gpubench_cli import cluster  # noqa: PLC0415  # results folders need no client

    with cluster.connect(namespace) as place:
        return of_cluster(place, name)


def of_cluster(place: results.Place, name: str) -> Reported:
    """A study of the cluster, with the plan and the environments that it keeps there."""
    body = place.benchmark(name)
    metadata = body["metadata"]
    status = results.status_of(place, name, body)
    plan: Plan | None = None
    environments: tuple[Environment, ...] = ()
    if status.started_at is not None:
        plan, ledger = results.plan_and_ledger(place.config_maps(metadata["uid"]), name=name, uid=metadata["uid"])
        environments = ledger.environments
    return Reported(
        name=name,
        source=f"namespace {metadata.get('namespace', 'default')}",
        status=status,
        spec=results.read_spec(body.get("spec"), name=name),
        plan=plan,
        environments=environments,
        study_text=results.study_text(body),
        machine=place.host,
    )


def _spec(path: Path, name: str, plan: Plan) -> GpuBenchmarkSpec | None:
    """What was asked; None where the study file was taken away or changed: the figures are here all the same."""
    try:
        if not results.study_is_as_planned(path, plan):
            return None
        return documents.read(results.study_path(path)).benchmark(name).spec
    except Refusal:
        return None


def _text(path: Path) -> str | None:
    """The study file; None where somebody took it away."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def write(path: Path, content: str) -> None:
    """A file of a report, and a line that says so."""
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise Refusal(f"{path}: the report cannot be written there: {error.strerror}") from error
    terminal.write(f"{path}: {len(content.encode()) / 1024:,.0f} KiB")
