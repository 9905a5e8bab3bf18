# SPDX-License-Identifier: Apache-2.0
"""The command line: `gpubench`, and `kubectl gpubench` by the name kubectl-gpubench.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 the benchmark failed, 2 bad
input or a place that does not answer, 128 and a signal's number when stopped by it. No traceback for any of these.
"""

import errno
import functools
import importlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem, ShellComplete

from gpubench_cli import VERSION, terminal
from gpubench_cluster import kube

#: The commands of `gpubench --help` in their groups: where each is, what it is for, and examples.
_GROUPS = {
    "Begin": {
        "init": ("cluster.init", "write a benchmark for the GPUs of the current cluster", "> b.yaml | --budget 20"),
        "pools": ("cluster.pools", "propose GpuPools from the nodes of the current cluster", "discover > pools.yaml"),
        "prices": ("catalogue.prices", "a price of SkyPilot's catalogue", "DIR gcp/a2-highgpu-8g --region us-central1"),
        "workloads": ("workloads.list_or_explain", "list the workloads, or explain one", "| resnet50"),
        "doctor": ("cluster.doctor", "what the current cluster lacks to run benchmarks", "| -n team-a --pool gke-l4"),
    },
    "Files": {
        "validate": (
            "plan.validate",
            "check files as an API server would",
            "b.yaml pools.yaml | -f DIR | -f - < b.yaml",
        ),
        "plan": ("plan.plan", "show what would run, in which order, for how long", "b.yaml | b.yaml --scale 0.01"),
        "run": ("run.run", "run a benchmark on this machine, without a cluster", "b.yaml | --resume results/b"),
    },
    "Benchmarks of a cluster": {
        "list": ("objects.list_objects", "list benchmarks and schedules", "| -A -o wide"),
        "watch": ("show.watch", "follow a benchmark in the cluster until it has finished", "NAME"),
        "logs": ("objects.logs", "what the pods of a benchmark's newest attempt have written", "NAME | NAME --pod 0"),
        "suspend": ("objects.suspend", "stop a benchmark, or a schedule's runs, until it is resumed", "NAME"),
        "resume": ("objects.resume", "go on with what was suspended", "NAME"),
        "cancel": ("objects.cancel", "delete a benchmark that is not wanted any more", "NAME | NAME --yes"),
        "drill": (
            "cluster.drill",
            "interrupt a benchmark on purpose, to see it recover",
            "NAME --every 90s | NAME --stop",
        ),
        "history": ("schedule.history_group", "the runs of a schedule", "NAME | show NAME -o csv | judge series.csv"),
        "schedules": ("schedule.schedules", "accept what a schedule calls slower as the new level", "accept NAME"),
    },
    "Results": {
        "show": ("show.show", "show results, from the cluster or from results folders", "NAME | results/b -o csv"),
        "explain": ("explain.explain", "the formula and the inputs of a point's figures", "NAME"),
        "advise": ("explain.advise", "which pool, how many workers, at what cost, and how sure", ""),
        "report": ("report.report", "write a report: one HTML file, and Markdown", "NAME --out report.html"),
        "compare": ("compare.compare", "compare two benchmarks: ratio, interval, verdict", "A B | results/a results/b"),
        "reprice": ("explain.reprice", "what a benchmark costs at other prices", "NAME --pools new.yaml"),
        "verify": ("verify.verify", "check results folders, and compute every figure again", "results/b"),
        "export": ("results.run_export", "write a benchmark of the cluster into a results folder", "NAME results/b"),
        "import": ("import_study.run_import", "make a results folder of published figures, or of your own", ""),
    },
    "This program": {
        "completion": ("shell.completion", "the script that lets a shell complete commands and options", "bash"),
        "version": ("cluster.version", "the versions of this program and of the operator", "| --client"),
    },
}
_COMMANDS = {name: command for group in _GROUPS.values() for name, command in group.items()}
_WIDTH = max(map(len, _COMMANDS))

_PLUGIN = "kubectl-gpubench"
_COMPLETION = "_GPUBENCH_COMPLETE"  # set by the shell's script
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


@functools.cache
def _loaded(name: str) -> click.Command:
    """A command, with its examples below its help, and below that of its own commands."""
    place, _, examples = _COMMANDS[name]
    module, _, function = place.partition(".")
    command: click.Command = getattr(importlib.import_module(f"gpubench_cli.{module}"), function)
    lines = [f"gpubench {name} {one.strip()}".rstrip() for one in examples.split("|") if examples]
    for one in (command, *getattr(command, "commands", {}).values()):
        if own := [line for line in lines if one is command or line.split()[2] == one.name]:
            one.epilog = "\n\n".join(filter(None, ("\n  ".join(("\b\nExamples:", *own)), one.epilog)))
    return command


class _Commands(click.Group):
    """Loads the command that is typed, and no other: together they take seconds."""

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _loaded(cmd_name) if cmd_name in _COMMANDS else None

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{_WIDTH}}", about) for name, (_, about, _) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = (CompletionItem(name, help=_COMMANDS[name][1]) for name in _COMMANDS if name.startswith(incomplete))
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=_Commands,
    commands=dict.fromkeys(_COMMANDS),  # names alone, of which the nearest is proposed
    epilog="Exit codes: 0 done, 1 the benchmark failed or a record does not hold, 2 bad input or no cluster.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(VERSION, message="gpubench %(version)s")
def gpubench() -> None:
    """GPU benchmarks: which GPU, how many, what does it cost, and how sure are you."""


def main(arguments: Sequence[str] | None = None) -> int:
    if _COMPLETION in os.environ:
        gpubench.main(prog_name="gpubench", complete_var=_COMPLETION)
    program = "kubectl gpubench" if Path(sys.argv[0]).name == _PLUGIN else "gpubench"
    # A closed one is None; its number may be given to the next file that is opened.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123  # until the end
    if sys.stdout is None:
        terminal.tell(f"{program}: standard output is closed: leave it open, or send it to /dev/null")
        return terminal.EXIT_BAD_INPUT
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # its encoding may lack what a result has
    try:
        code = _called(program, list(sys.argv[1:] if arguments is None else arguments))
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):  # whoever read has seen enough (`| head`); the second is how rich ends then
        _drop_output()
        return terminal.EXIT_SIGNAL + signal.SIGPIPE
    except OSError as error:
        if error.filename is not None or error.errno not in _FULL:
            raise
        _drop_output()
        terminal.tell(f"{program}: standard output cannot be written: {error.strerror}")
        return terminal.EXIT_BAD_INPUT
    return code


def _called(program: str, arguments: list[str]) -> int:
    try:
        # Not gpubench.main(): it has codes of its own for a signal and for a reader that has gone.
        with gpubench.make_context(program, arguments) as context:
            return gpubench.invoke(context) or terminal.EXIT_DONE
    except click.exceptions.Exit as ended:  # --help and --version, and a run that was stopped
        return ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    except click.UsageError as error:
        path = program if error.ctx is None else error.ctx.command_path
        terminal.tell(f"{path}: {error.format_message().removesuffix('.')}: see {path} --help")
    except (terminal.CliError, kube.ApiError) as error:
        for message in error.args:
            terminal.tell(f"{program}: {message}")
    except (KeyboardInterrupt, click.Abort):  # Abort: the same, at a question
        return terminal.EXIT_SIGNAL + signal.SIGINT
    return terminal.EXIT_BAD_INPUT


def _drop_output() -> None:
    """The interpreter must not complain when it flushes what nobody takes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def complete() -> None:
    """What kubectl runs for `kubectl gpubench <TAB>`: candidates, then cobra's directive (4: no files, 0: files)."""
    *words, incomplete = sys.argv[1:] or [""]
    found = ShellComplete(gpubench, {}, "gpubench", _COMPLETION).get_completions(words, incomplete)
    plain = [f"{one.value}\t{one.help or ''}" for one in found if one.type == "plain"]
    terminal.write("\n".join((*plain, ":4" if len(plain) == len(found) else ":0")))


if __name__ == "__main__":
    sys.exit(main())
