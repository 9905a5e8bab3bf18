# SPDX-License-Identifier: Apache-2.0
"""Write everything that is made from Python facts: CRDs, ClusterRole, reference pages. `--check` only compares.

    python charts/generate.py           writes the files that differ
    python charts/generate.py --check   writes nothing; a unified diff and exit status 1 where a file is out of date

The files are committed, so that they can be read and applied without Python; nobody edits them. No fact may be
added here: a field belongs to `gpubench.api`, a metric to `gpubench.metrics`, a permission to
`gpubench_operator.permissions`.
"""

import argparse
import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from gpubench import names
from gpubench.api import reference, schema
from gpubench_operator import permissions

ROOT = Path(__file__).resolve().parents[1]
CHART_FILES = Path("charts/gpubench/files")
REFERENCE = Path("operator/reference")
HEADER = (
    "# Generated from {source} by `make generate`; edit that, not this.\n"
    "# A regular expression cannot be broken into lines:\n"
    "# yamllint disable rule:line-length\n"
)


def main(arguments: list[str]) -> int:
    """Make all files, then write or compare them."""
    options = _parser().parse_args(arguments)
    files = generated_files()
    stale = {path: text for path, text in files.items() if _present(options.root / path) != text}
    if options.check:
        sys.stdout.writelines(difference(options.root, files=stale))
        return 1 if stale else 0
    for path, text in stale.items():
        _write(options.root / path, text)
        sys.stdout.write(f"wrote {path}\n")
    return 0


def generated_files() -> dict[Path, str]:
    """Every generated file by its path in the repository."""
    crds = {
        CHART_FILES / "crds" / f"{names.GROUP}_{kind.plural}.yaml": yaml_file(
            schema.definition(kind), source="operator/gpubench/api"
        )
        for kind in schema.KINDS
    }
    return {
        **crds,
        CHART_FILES / "rbac" / "clusterrole.yaml": yaml_file(
            permissions.cluster_role(), source="operator/gpubench_operator/permissions.py"
        ),
        REFERENCE / "objects.md": reference.objects_page(),
        REFERENCE / "metrics.md": reference.metrics_page(),
    }


def yaml_file(document: Mapping[str, Any], *, source: str) -> str:
    """One document as people write YAML: long texts in blocks, keys in the order of the dict."""
    text = yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=120, allow_unicode=True, default_flow_style=False)
    return f"{HEADER.format(source=source)}---\n{text}"


def difference(root: Path, *, files: Mapping[Path, str]) -> list[str]:
    """What `make generate` would change, as a unified diff."""
    lines: list[str] = []
    for path, text in files.items():
        before = (_present(root / path) or "").splitlines(keepends=True)
        after = text.splitlines(keepends=True)
        lines += difflib.unified_diff(before, after, f"{path} (committed)", f"{path} (generated)")
    return lines


class _Dumper(yaml.SafeDumper):
    """Indents lists, folds long texts, repeats nothing by anchor."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002 (PyYAML's signature)
        """A list stands two columns to the right of its key, as yamllint wants it."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 (PyYAML's signature)
        """A manifest with anchors cannot be read top to bottom."""
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = ">" if len(text) > 90 and " " in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Write the generated files, or compare them.")
    parser.add_argument("--check", action="store_true", help="write nothing; show differences and exit with 1")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: the one of this file)")
    return parser


def _present(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
