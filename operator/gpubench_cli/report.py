# SPDX-License-Identifier: Apache-2.0
"""`gpubench report NAME...`: benchmarks side by side, as one HTML file and as Markdown.

What it says is the core's (`gpubench.report.document`); `page` draws it, opens files of its libraries (fonts, a
template), and is loaded only where it is needed.
"""

from pathlib import Path

import click

from gpubench.report import document
from gpubench.report import markdown as as_markdown
from gpubench_cli import options, results, terminal

_PAGE = Path("report.html")
_LIBRARIES = ("jinja2", "matplotlib")


@click.command("report")
@options.benchmarks
@options.cluster
@click.option(
    "--out", type=options.PATH, metavar="FILE.html", help=f"where the page goes; {_PAGE} where nothing is asked for"
)
@click.option("--markdown", type=options.PATH, metavar="FILE.md", help="where the same goes as Markdown")
def report(names: tuple[str, ...], namespace: str | None, out: Path | None, markdown: Path | None) -> None:
    """Write a report of benchmarks side by side. The HTML file needs no network.

    It has answer, assumptions, table, charts, warnings, environment, prices, and how to reproduce it. A NAME that is a
    results folder is read from there, any other from the cluster.
    """
    reported = document.of_benchmarks([results.find_reported(name, namespace=namespace) for name in names])
    write_as(reported, out=out if out is not None or markdown is not None else _PAGE, markdown=markdown)


def write_as(reported: document.Document, *, out: Path | None, markdown: Path | None) -> None:
    """As a page, as Markdown, or as both."""
    if out is not None:
        write(out, html(reported))
    if markdown is not None:
        write(markdown, as_markdown.render(reported))


def html(reported: document.Document) -> str:
    """The page; CliError where its libraries are not installed."""
    try:
        from gpubench_cli import page  # noqa: PLC0415  # an extra, and slow to load
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _LIBRARIES:
            raise
        raise terminal.CliError(
            f"an HTML report needs the Python packages {' and '.join(_LIBRARIES)}: install kube-gpubench[report], or "
            "write Markdown with --markdown"
        ) from error
    return page.render(reported)


def write(path: Path, content: str) -> None:
    with terminal.writing(path, "it"):
        path.write_text(content, encoding="utf-8")
    terminal.say(f"{path}: {len(content.encode()) / 1024:,.0f} KiB")
