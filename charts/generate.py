# SPDX-License-Identifier: Apache-2.0
"""Write everything that is made from facts: CRDs, ClusterRole, reference pages, pictures. `--check` only compares.

    python charts/generate.py           writes the files that differ
    python charts/generate.py --check   writes nothing; a unified diff and exit status 1 where a file is out of date

The files are committed, so that they can be read and applied without Python; nobody edits them. No fact may be
added here: a field belongs to `gpubench.api`, a metric to `gpubench.metrics`, a permission to
`gpubench.permissions`; what a picture shows was measured, and is imported as `gpubench import` does it.
"""

import argparse
import contextlib
import difflib
import io
import json
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

import chart_page
from gpubench import names, permissions
from gpubench.api import reference, schema
from gpubench.report import document
from gpubench.report.charts import Chart
from gpubench_cli import __main__ as program
from gpubench_cli import page, results

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "dashboards"))  # not installed, only its files are
from gpubench_dashboards import alerts, boards, build, rules  # noqa: E402

CHART = Path("charts/gpubench")
CHART_FILES = CHART / "files"
REFERENCE = Path("docs/reference")
STUDIES = ROOT / "jobs/studies"
#: Charts of a report of a published study by the file: the study, and how the chart's title begins.
PICTURES = {
    "mlperf-2025-time-and-cost.svg": ("published/mlperf-2025", "Time against cost: llama2_70b_lora"),
    "mlperf-2025-cost.svg": ("published/mlperf-2025", "Cost: llama2_70b_lora"),
    "keras-2017-time-and-cost.svg": ("keras-2017", "Time against cost: mnist_cnn"),
    "parkopedia-2018-efficiency.svg": (
        "parkopedia-2018",
        "Scaling efficiency: resnet50 in mixed_float16, batch 32 per worker",
    ),
}
DASHBOARDS = Path("dashboards")
HEADER = (
    "# Generated from {source} by `make generate`; edit that, not this.\n"
    "# A regular expression cannot be broken into lines:\n"
    "# yamllint disable rule:line-length\n"
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description="Write the generated files, or compare them.")
    parser.add_argument("--check", action="store_true", help="write nothing; show differences and exit with 1")
    parser.add_argument("--root", type=Path, default=ROOT, help="the repository (default: the one of this file)")
    options = parser.parse_args(arguments)
    stale = {path: text for path, text in generated_files().items() if _present(options.root / path) != text}
    if options.check:
        sys.stdout.writelines(difference(options.root, files=stale))
        return 1 if stale else 0
    for path, text in stale.items():
        (options.root / path).parent.mkdir(parents=True, exist_ok=True)
        (options.root / path).write_text(text, encoding="utf-8")
        sys.stdout.write(f"wrote {path}\n")
    return 0


def generated_files() -> dict[Path, str]:
    return {
        **{
            CHART_FILES / "crds" / f"{names.GROUP}_{kind.plural}.yaml": yaml_file(
                schema.definition(kind), source="operator/gpubench/api"
            )
            for kind in schema.KINDS
        },
        CHART_FILES / "rbac" / "clusterrole.yaml": yaml_file(
            permissions.cluster_role(), source="operator/gpubench/permissions.py"
        ),
        CHART_FILES / "permissions.yaml": yaml_file(
            permissions.rules_by_scope(), source="operator/gpubench/permissions.py"
        ),
        **chart_files(),
        **monitoring(),
        REFERENCE / "gpubench.schema.json": f"{json.dumps(editor_schema(), indent=1, ensure_ascii=False)}\n",
        REFERENCE / "objects.md": reference.objects_page(),
        REFERENCE / "messages.md": reference.messages_page(),
        REFERENCE / "metrics.md": reference.metrics_page(),
        **{REFERENCE / "pictures" / file: picture(*chart) for file, chart in PICTURES.items()},
    }


def editor_schema() -> dict[str, Any]:
    """JSON Schema of a benchmark file's documents, for editors: the CRDs' own, as far as it has a word for it."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "required": ["apiVersion", "kind", "metadata"],
        "properties": {"kind": {"enum": [*(kind.kind for kind in schema.KINDS), "ConfigMap"]}},
        "allOf": [
            {"if": {"properties": {"kind": {"const": kind.kind}}}, "then": _for_editors(schema.object_schema(kind))}
            for kind in schema.KINDS
        ],
    }


def _for_editors(structural: Mapping[str, Any], *, field: str = "") -> dict[str, Any]:
    """Without the API server's extensions; an unknown field is one that it would drop, so it is wrong here."""
    if field == "status":  # nobody writes it
        return {}
    found = {word: value for word, value in structural.items() if not word.startswith("x-kubernetes-")}
    if schema.is_quantity(structural):
        found["type"] = ["integer", "string"]
    for word in ("items", "additionalProperties"):
        if word in found:
            found[word] = _for_editors(found[word])
    if "properties" in found:
        found["properties"] = {name: _for_editors(one, field=name) for name, one in found["properties"].items()}
        found.setdefault("additionalProperties", field == "metadata")
    return found


def chart_files() -> dict[Path, str]:
    """What of the chart is made from its other files."""
    about, readme, schema_, values = (
        CHART / name for name in ("Chart.yaml", "README.md", "values.schema.json", "values.yaml")
    )
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in (about, readme, schema_, values)}
    return {
        about: chart_page.about(texts[about], map(schema.definition, schema.KINDS)),
        readme: chart_page.page(texts[readme], texts[values]),
        schema_: chart_page.schema(texts[schema_]),
    }


def monitoring() -> dict[Path, str]:
    """Dashboards, rules, alerts and their page; and copies in the chart, which reads nothing outside its folder."""
    source = "dashboards/gpubench_dashboards"
    dashboards = {f"{board.uid}.json": build.text(board, boards.ANNOTATION_TEXTS) for board in boards.DASHBOARDS}
    rule_files = {
        "recording.yaml": yaml_file(rules.groups(), source=source),
        "alerts.yaml": yaml_file(alerts.groups(), source=source),
    }
    return {
        DASHBOARDS / "RUNBOOKS.md": alerts.runbooks(),
        **{
            folder / name: text
            for folder in (DASHBOARDS, CHART_FILES / "dashboards")
            for name, text in dashboards.items()
        },
        **{folder / "rules" / name: text for folder in (DASHBOARDS, CHART_FILES) for name, text in rule_files.items()},
        CHART_FILES / "rules" / "alerts.yaml": yaml_file(alerts.groups(of_chart=True), source=source),
    }


def picture(study: str, title: str) -> str:
    """One chart of an imported study, as a file."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "results"
        measurements = STUDIES / "published" / f"{Path(study).name}.csv"
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            program.main(("import", str(STUDIES / f"{study}.yaml"), str(measurements), "--out", str(folder)))
        drawn = document.of_benchmarks([results.in_folder(folder)])
    source = measurements.relative_to(ROOT)
    blocks = (block for section in drawn.sections for block in section.blocks)
    chart = next(block for block in blocks if isinstance(block, Chart) and block.title.startswith(title))
    return f"<!-- Generated from {source} by `make generate`; edit that, not this. -->\n{page.svg(chart)}"


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
    style = "|" if isinstance(text, rules.Expression) else ">" if len(text) > 90 and " " in text else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(rules.Expression, _text)


def _present(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
