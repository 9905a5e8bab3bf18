# SPDX-License-Identifier: Apache-2.0
"""`gpubench workloads`: what can be trained; with a NAME, all that the catalogue knows of one. Needs no TensorFlow."""

import argparse
import json

from gpubench import workloads
from gpubench.report.tables import Column, Table
from gpubench.workloads import Inputs, Task, Workload
from gpubench_cli import terminal

_COLUMNS = (
    Column(title="NAME"),
    Column(title="TASK"),
    Column(title="INPUT"),
    Column(title="PARAMETERS", numeric=True),
    Column(title="GMAC", numeric=True),
    Column(title="BATCH", numeric=True),
    Column(title="EPOCHS", numeric=True),
    Column(title="ORIGIN"),
)
_NOTES = (
    "PARAMETERS are the trainable ones. GMAC is the forward pass of one sample; training takes about three times that.",
    "BATCH is the original's default per worker; a study sets its own.",
    "EPOCHS is the default of mode Training: the original's, or 1 where it counted steps.",
)
#: What a model of each task chooses from.
_CHOICES = {
    Task.IMAGE_CLASSIFICATION: "classes",
    Task.TEXT_CLASSIFICATION: "classes",
    Task.TEXT_GENERATION: "characters",
}


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's arguments."""
    parser = commands.add_parser(
        "workloads",
        help="list the workloads, or explain one",
        description="List what can be trained; with a NAME, explain that one.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="one workload; all of them by default")
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table", help="table by default")
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Find, show."""
    if arguments.name is None:
        _list(arguments.output)
    else:
        _explain(_find(arguments.name), arguments.output)
    return terminal.EXIT_DONE


def _find(name: str) -> Workload:
    try:
        return workloads.find(name)
    except LookupError as error:
        raise terminal.Refusal(str(error)) from error


def _list(output: str) -> None:
    if output == "json":
        _write_json({"workloads": [workload.to_wire() for workload in workloads.CATALOGUE]})
    else:
        terminal.print_table(Table(columns=_COLUMNS, rows=tuple(map(_row, workloads.CATALOGUE)), notes=_NOTES))


def _row(workload: Workload) -> tuple[str, ...]:
    return (
        workload.name,
        workload.task.value,
        _input(workload),
        f"{workload.trainable_parameters:,}",
        f"{workload.forward_gmac:g}",
        str(workload.default_batch),
        str(workload.default_epochs),
        workload.origin,
    )


def _explain(workload: Workload, output: str) -> None:
    if output == "json":
        _write_json(workload.to_wire())
        return
    lines = _about_message(workload) if workload.inputs is Inputs.NONE else _about_model(workload)
    width = max(len(title) for title, _ in lines) + 1
    terminal.write(f"{workload.name}: {workload.about}\n")
    for title, text in lines:
        terminal.write(f"{title + ':':<{width}} {text}")


def _about_message(workload: Workload) -> tuple[tuple[str, str], ...]:
    return (
        ("Task", workload.task.value),
        ("Default batch", f"{workload.default_batch:,} elements of a message; a study sets its own"),
        ("Origin", workload.origin),
    )


def _about_model(workload: Workload) -> tuple[tuple[str, str], ...]:
    statistics = workload.total_parameters - workload.trainable_parameters
    moving = f", and {statistics:,} moving statistics of batch normalisation" if statistics else ""
    return (
        ("Task", f"{workload.task.value}, {workload.classes:,} {_CHOICES[workload.task]}"),
        ("Input", _input(workload)),
        ("Parameters", f"{workload.trainable_parameters:,} trainable{moving}"),
        ("Forward pass", f"{workload.forward_gmac:g} GMAC for one sample; training takes about three times that"),
        ("Default batch", f"{workload.default_batch} per worker, the original's; a study sets its own"),
        ("Default epochs", _epochs(workload)),
        ("Optimizer", workload.optimizer),
        ("Origin", workload.origin),
    )


def _write_json(document: dict[str, object]) -> None:
    terminal.write(json.dumps(document, indent=2, ensure_ascii=False))


def _input(workload: Workload) -> str:
    shape = "x".join(map(str, workload.input_shape))
    return f"{shape} of {workload.vocabulary:,} words" if workload.vocabulary else shape


def _epochs(workload: Workload) -> str:
    whose = "the original's" if workload.default_epochs > 1 else "the original counted steps"
    return f"{workload.default_epochs} in mode Training, {whose}; a study sets its own"
