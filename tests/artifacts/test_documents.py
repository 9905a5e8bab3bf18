# SPDX-License-Identifier: Apache-2.0
"""What the Markdown files name exists: links, headings, files, commands with their options, make targets."""

import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from gpubench_cli import __main__ as program

ROOT = Path(__file__).resolve().parents[2]
#: Where a document's reader looks for a path: beside the document, and in these folders.
FOLDERS = (".", "operator", "operator/gpubench", "operator/gpubench_operator", "operator/gpubench_cli", "jobs", "tests")
FOLDERS_OF_JOBS = ("jobs/gpubench_jobs", "dashboards/gpubench_dashboards")
#: Not files of this repository: a results folder of the reader's own, a placeholder, another project's page.
OTHERS = re.compile(r"results/|.*\bNAME\b|docs_src/")

FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)|<img src=\"([^\"]+)\"")
NAMED_FILE = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/[\w.-]+\.(?:py|md|yaml|json|csv|svg|png|sh|go|patch|jinja))`")
COMMAND = re.compile(r"(?:^|[`$|&] ?)(?:kubectl )?gpubench ([a-z][a-z-]+)([^`|#\n]*)", re.MULTILINE)
MAKE = re.compile(r"`(?:sudo )?make ([a-z][a-z0-9-]*)|^\$ (?:sudo )?make ([a-z][a-z0-9-]*)", re.MULTILINE)


def documents() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def anchors(document: Path) -> set[str]:
    """The headings of a document as GitHub makes anchors of them."""
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", document.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(document: Path) -> Iterator[str]:
    for groups in LINK.findall(FENCE.sub("", document.read_text(encoding="utf-8"))):
        target = groups[0] or groups[1]
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        found = document.parent / path if path else document
        if not found.exists() or (anchor and anchor not in anchors(found)):
            yield target


def missing_files(document: Path) -> Iterator[str]:
    folders = (document.parent, *(ROOT / folder for folder in (*FOLDERS, *FOLDERS_OF_JOBS)))
    for name in NAMED_FILE.findall(document.read_text(encoding="utf-8")):
        if not OTHERS.match(name) and not any((folder / name).exists() for folder in folders):
            yield name


@cache
def commands() -> dict[str, click.Command]:
    """Every command of the command line, by its words."""
    return dict(_commands(program.gpubench, ""))


def _commands(group: click.Group, words: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for word in group.list_commands(context):
        below = group.get_command(context, word)
        assert below is not None
        yield f"{words} {word}".strip(), below
        if isinstance(below, click.Group):
            yield from _commands(below, f"{words} {word}".strip())


def unknown_commands(document: Path) -> Iterator[str]:
    text = document.read_text(encoding="utf-8")
    code = [*FENCE.findall(text), *re.findall(r"`[^`\n]+`", FENCE.sub("", text))]
    for piece in code:
        for word, rest in COMMAND.findall(piece):
            found = commands().get(word)
            if found is None:
                yield f"gpubench {word}"
                continue
            below = commands().get(f"{word} {rest.split()[0]}" if rest.split() else "")
            if shown := below or commands().get(f"{word} show"):  # `gpubench history NAME` is `history show NAME`
                found = shown
            known = {"--help", *(option for parameter in found.params for option in parameter.opts)}
            yield from (
                f"gpubench {word} {option}"
                for option in re.findall(r"(?<=\s)--[a-z-]+", rest.partition(" -- ")[0])
                if option not in known
            )


def unknown_targets(document: Path) -> Iterator[str]:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", makefile, re.MULTILINE))
    named = {first or second for first, second in MAKE.findall(document.read_text(encoding="utf-8"))}
    yield from (f"make {name}" for name in named if name not in targets and not name.endswith("-"))


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_what_a_document_names_exists(document: Path) -> None:
    found = [*broken_links(document), *missing_files(document), *unknown_commands(document), *unknown_targets(document)]
    assert found == []


def test_a_walk_through_the_code_visits_no_file_twice() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    walks = [part for part in text.split("\n## ") if part.startswith("Walk")]
    assert len(walks) == 2
    for walk in walks:
        files = re.findall(r"^\d+\. \[[^]]+\]\(([^)]+)\)", walk, re.MULTILINE)
        assert len(files) > 10
        assert len(files) == len(set(files))


def test_what_does_not_exist_is_noticed(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text(
        "# A heading, here\n[a](#a-heading-here) [b](#b) [c](gone.md) `gpubench/gone.py` `gpubench plan --gone x` "
        "`gpubench gone` `gpubench verify FOLDER` `make gone` `make demo`\n```console\n$ gpubench show X --gone\n```\n",
        encoding="utf-8",
    )
    assert list(broken_links(document)) == ["#b", "gone.md"]
    assert list(missing_files(document)) == ["gpubench/gone.py"]
    assert sorted(unknown_commands(document)) == ["gpubench gone", "gpubench plan --gone", "gpubench show --gone"]
    assert list(unknown_targets(document)) == ["make gone"]
