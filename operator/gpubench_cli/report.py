# SPDX-License-Identifier: Apache-2.0
"""`gpubench report NAME...`: benchmarks side by side, as one HTML file and as Markdown.

What it says is the core's (`gpubench.report.document`); `page` draws it, opens files of its libraries (fonts, a
template), and is loaded only where it is needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.plan.plan import Plan
from gpubench.report import document
from gpubench.report import markdown as as_markdown
from gpubench.report.document import Document, Reported
from gpubench.scheduler.ledger import Ledger
from gpubench_cli import documents, options, results, terminal
from gpubench_cli.terminal import CliError

if TYPE_CHECKING:
    from gpubench_cli.cluster import Cluster

_PAGE = Path("report.html")
_LIBRARIES = ("jinja2", "matplotlib")


@click.command("report")
@options.benchmarks
@options.namespace
@click.option(
    "--out", type=options.PATH, metavar="FILE.html", help=f"where the page goes; {_PAGE} where nothing is asked for"
)
@click.option("--markdown", type=options.PATH, metavar="FILE.md", help="where the same goes as Markdown")
def report(names: tuple[str, ...], namespace: str | None, out: Path | None, markdown: Path | None) -> int:
    """Write a report of benchmarks side by side. The HTML file needs no network.

    It has answer, assumptions, table, charts, warnings, environment, prices, and how to reproduce it. A NAME that is a
    results folder is read from there, any other from the cluster.
    """
    reported = document.of_benchmarks([found(name, namespace=namespace) for name in names])
    if out is not None or markdown is None:
        write(out or _PAGE, html(reported))
    if markdown is not None:
        write(markdown, as_markdown.render(reported))
    return terminal.EXIT_DONE


def html(reported: Document) -> str:
    """The page; CliError where its libraries are not installed."""
    try:
        from gpubench_cli import page  # noqa: PLC0415  # an extra, and slow to load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        raise CliError(
            f"an HTML report needs the Python packages {' and '.join(_LIBRARIES)}: install kube-gpubench[report], or "
            "write Markdown with --markdown"
        ) from error
    return page.render(reported)


def found(name: str, *, namespace: str | None) -> Reported:
    return results.located(name, namespace=namespace, in_folder=_of_folder, in_cluster=of_cluster)


def _of_folder(path: Path) -> Reported:
    summary, plan, ledger = results.read_summary(path), results.read_plan(path), results.read_ledger(path)
    study = path / results.STUDY
    return Reported(
        name=summary.name,
        source=str(path),
        status=summary.status,
        spec=_spec(path, summary.name, plan),
        plan=plan,
        environments=ledger.environments,
        study_text=study.read_text(encoding="utf-8", errors="replace") if study.is_file() else None,
        machine=summary.machine,
        gpubench=summary.gpubench,
        remark=summary.repriced.sentence if summary.repriced is not None else None,
    )


def of_cluster(place: "Cluster", name: str) -> Reported:
    """A benchmark of the cluster, with the plan and the environments that it keeps there."""
    body = place.benchmark(name)
    status = results.status_of(place, name, body)
    plan, ledger = None, Ledger()
    if status.start_time is not None:
        plan, ledger = results.plan_and_ledger(place, body)
    return Reported(
        name=name,
        source=f"namespace {place.namespace}",
        status=status,
        spec=results.read_spec(body.get("spec"), name=name),
        plan=plan,
        environments=ledger.environments,
        study_text=results.study_text(body),
        machine=place.host,
    )


def _spec(path: Path, name: str, plan: Plan) -> GpuBenchmarkSpec | None:
    """What was asked; None where the study file was taken away or changed: the figures are here all the same."""
    try:
        if not results.study_is_as_planned(path, plan):
            return None
        return documents.read(path / results.STUDY).benchmark(name).spec
    except CliError:
        return None


def write(path: Path, content: str) -> None:
    try:
        path.write_text(content, encoding="utf-8")
    except OSError as error:
        raise CliError(f"{path}: the report cannot be written there: {error.strerror}") from error
    terminal.write(f"{path}: {len(content.encode()) / 1024:,.0f} KiB")
