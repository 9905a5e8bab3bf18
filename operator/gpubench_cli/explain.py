# SPDX-License-Identifier: Apache-2.0
"""`gpubench explain NAME POINT`: each headline figure of a point with its formula and inputs. Reads only."""

import argparse
import json

from gpubench.analysis import explain
from gpubench.report.tables import Column, Table
from gpubench_cli import refusal, selection, stored, terminal

_POINT = "resnet50/gke-a100/8/64, or as much of a row of `gpubench show` as is enough; row=3; or the id of a trial"


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "explain",
        help="the formula and the inputs of a point's figures",
        description="Print a table of a point's headline figures: value, formula, inputs, and where these come from.",
    )
    parser.add_argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
    parser.add_argument("point", nargs="?", metavar="POINT", help=_POINT)
    parser.add_argument("-n", "--namespace", help="namespace in the cluster; the kubeconfig's by default")
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="text by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Find the study and the point, explain, print."""
    study = stored.find(arguments.name, namespace=arguments.namespace)
    if not study.status.results:
        raise refusal.Refusal(f"{study.name} has no results yet: `gpubench show` says how it stands")
    index = selection.find(study.plan, study.status.results, arguments.point)
    found = explain.explained(study.plan, study.ledger, study.spec, index=index)
    named = selection.name(study.status.results, index)
    if arguments.output == "json":
        document = {"study": study.name, "source": study.source, "name": named, **found.to_wire()}
        terminal.write(json.dumps(document, indent=2, ensure_ascii=False))
        return refusal.EXIT_DONE
    terminal.write(f"{study.name} ({study.source}): {named}: {found.point.state.value}")
    if study.repriced is not None:
        terminal.write(study.repriced.sentence)
    if not any(row.field != "bill.total" for row in found.rows):
        terminal.write(f"It has no figures: {found.point.reason or 'it has not been measured yet'}.")
    titles = ("FIGURE", "VALUE", "FORMULA", "INPUTS", "FROM") if found.rows else ()
    rows = tuple((row.field, row.text, row.formula or "", "; ".join(row.inputs), row.origin) for row in found.rows)
    sources = dict.fromkeys(f"{row.formula}: {row.source}" for row in found.rows if row.formula is not None)
    warnings = (f"Warning: {warning.message}" for warning in found.point.warnings)
    columns = tuple(Column(title=title) for title in titles)
    terminal.print_table(Table(columns=columns, rows=rows, notes=(*sources, *warnings)))
    return refusal.EXIT_DONE
