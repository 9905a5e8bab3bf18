# SPDX-License-Identifier: Apache-2.0
"""`gpubench workloads`: what can be trained; with a NAME, all that the catalogue knows of one. Needs no TensorFlow."""

import click

from gpubench import workloads
from gpubench.report import tables
from gpubench_cli import options, terminal

_NOTES = (
    "PARAMETERS are the trainable ones. GMAC is the forward pass of one sample; training takes about three times that.",
    "BATCH is the original's default per worker; a benchmark sets its own.",
    "EPOCHS is the default of mode Training: the original's, or 1 where it counted steps.",
)
#: What a model of each task chooses from.
_CHOICES = {"image classification": "classes", "text classification": "classes", "text generation": "characters"}


@click.command("workloads")
@click.argument("name", required=False, metavar="[NAME]", help="one workload; all of them by default")
@options.output("table", "wide")
def list_or_explain(name: str | None, output: str) -> None:
    """List what can be trained; with a NAME, explain that one."""
    if name is not None:
        try:
            found = workloads.find(name)
        except LookupError as error:
            raise terminal.CliError(str(error)) from error
        _explain(found)
    else:
        terminal.print_table(tables.table(workloads.CATALOGUE, _FIELDS, _NOTES), wide=output == "wide")


def _explain(workload: workloads.Workload) -> None:
    statistics = workload.total_parameters - workload.trainable_parameters
    moving = f", and {statistics:,} moving statistics of batch normalisation" if statistics else ""
    whose = "the original's" if workload.default_epochs > 1 else "the original counted steps"
    is_model = workload.inputs is not workloads.Inputs.NONE
    of_model = {
        "Input": _input(workload),
        "Parameters": f"{workload.trainable_parameters:,} trainable{moving}",
        "Forward pass": f"{workload.forward_gmac:g} GMAC for one sample; training takes about three times that",
        "Default epochs": f"{workload.default_epochs} in mode Training, {whose}; a benchmark sets its own",
        "Optimizer": workload.optimizer,
    }
    batch = "per worker, the original's" if is_model else "elements of a message"
    lines = {
        "Task": workload.task + (f", {workload.classes:,} {_CHOICES[workload.task]}" if is_model else ""),
        **(of_model if is_model else {}),
        "Default batch": f"{workload.default_batch:,} {batch}; a benchmark sets its own",
        "Origin": workload.origin,
    }
    width = max(map(len, lines)) + 1
    terminal.say(f"{workload.name}: {workload.about}")
    terminal.write("")
    for title, text in lines.items():
        terminal.say(f"{title + ':':<{width}} {text}", hang=" " * (width + 1))


def _input(workload: workloads.Workload) -> str:
    shape = "x".join(map(str, workload.input_shape))
    return f"{shape} of {workload.vocabulary:,} words" if workload.vocabulary else shape


_Field = tables.Field[workloads.Workload]
_FIELDS: tuple[_Field, ...] = (
    _Field("NAME", lambda one: one.name, numeric=False),
    _Field("TASK", lambda one: one.task, numeric=False),
    _Field("INPUT", _input, numeric=False, wide=True),
    _Field("PARAMETERS", lambda one: f"{one.trainable_parameters:,}"),
    _Field("GMAC", lambda one: f"{one.forward_gmac:g}"),
    _Field("BATCH", lambda one: str(one.default_batch)),
    _Field("EPOCHS", lambda one: str(one.default_epochs), wide=True),
    _Field("ORIGIN", lambda one: one.origin, numeric=False, wide=True),
)
