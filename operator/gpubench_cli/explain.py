# SPDX-License-Identifier: Apache-2.0
"""`gpubench explain NAME POINT`: how each figure of a point came to be, with the numbers put in. Reads only."""

import argparse
import json
from collections.abc import Iterator

from gpubench.control import explain
from gpubench.control.explain import Explained
from gpubench.control.steps import Step
from gpubench_cli import refusal, selection, stored, terminal

_BILL = "bill."
_EPILOG = """\
A POINT is named by its row in `gpubench show`: workload/pool/workers/batch/precision, of
which as many parts are enough, in this order, as tell it from the others.

  gpubench explain results/quickstart-20261101T120000Z local-cpu/2
  gpubench explain three-cnns resnet50/gke-a100/8/64
  gpubench explain three-cnns row=3           the third row of the table
  gpubench explain three-cnns abcd2345        the point of a trial
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "explain",
        help="how each figure of a point came to be",
        description="Print how each figure of a point came to be: formula, numbers, result, and the source of the "
        "formula.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", metavar="NAME", help="a results folder, or a GpuBenchmark")
    parser.add_argument("point", nargs="?", metavar="POINT", help="may be left out where the study has one")
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
    for line in lines(found):
        terminal.write(line)
    return refusal.EXIT_DONE


def lines(found: Explained) -> Iterator[str]:
    """What is printed of a point."""
    if not any(step.field and not step.field.startswith(_BILL) for step in found.steps):
        yield f"It has no figures: {found.point.reason or 'it has not been measured yet'}."
    for step in found.steps:
        yield ""
        yield from _lines(step)
    if found.point.warnings:
        yield ""
        yield from (f"Warning: {warning.message}" for warning in found.point.warnings)


def _lines(step: Step) -> Iterator[str]:
    yield step.name
    if step.formula is not None:
        yield f"    {step.formula}"
    for label, numbers in (("", step.numbers), ("  (low)", step.low), ("  (high)", step.high)):
        if numbers is not None:
            yield f"  = {numbers}{label}"
    yield f"  = {step.result}"
    yield f"    {step.source}"
