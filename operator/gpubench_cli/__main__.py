# SPDX-License-Identifier: Apache-2.0
"""The command line: `gpubench`, and `kubectl gpubench` by the name kubectl-gpubench.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 the benchmark failed, 2 bad
input or a place that does not answer, 128 and a signal's number when stopped by it. No traceback for any of these.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from gpubench_cli import VERSION, terminal
from gpubench_cluster import kube

#: The commands in the order of `gpubench --help`: where each is, and what it is for.
_COMMANDS = {
    "run": ("run.run", "run a benchmark on this machine, without a cluster"),
    "plan": ("plan.plan", "show what a benchmark or a schedule would run, in which order, for how long"),
    "validate": (
        "plan.validate",
        "check files of GpuPools, GpuBenchmarks and GpuBenchmarkSchedules as an API server would",
    ),
    "pools": ("cluster.pools", "propose GpuPools from the nodes of the current cluster"),
    "prices": ("catalogue.prices", "the price of a machine from a checkout of SkyPilot's catalogue"),
    "show": ("show.show", "show results, from the cluster or from results folders"),
    "explain": ("explain.explain", "the formula and the inputs of a point's figures"),
    "advise": ("explain.advise", "which pool, how many workers, at what cost, and how sure"),
    "report": ("report.report", "write a report: one HTML file, and Markdown"),
    "compare": ("compare.compare", "compare two benchmarks: ratio, interval, verdict"),
    "reprice": ("explain.reprice", "what a benchmark costs at other prices; runs nothing"),
    "verify": ("verify.verify", "check results folders: every checksum, and every figure computed again"),
    "export": ("results.run_export", "write a benchmark of the cluster into a results folder"),
    "import": ("import_study.run_import", "make a results folder of published figures, or of your own from before"),
    "watch": ("show.watch", "follow a benchmark in the cluster until it has finished"),
    "history": (
        "schedule.history_group",
        "the runs of a schedule, or a series of your own, and what became slower",
    ),
    "schedules": ("schedule.schedules", "accept what a schedule calls slower as the new level"),
    "drill": ("cluster.drill", "interrupt a benchmark in the cluster on purpose, to see how it recovers"),
    "workloads": ("workloads.list_or_explain", "list the workloads, or explain one"),
    "doctor": ("cluster.doctor", "whether the current cluster can run benchmarks, and what to do where not"),
}

_PLUGIN = "kubectl-gpubench"
_COMPLETION = "_GPUBENCH_COMPLETE"  # set by the shell's script


class _Commands(click.Group):
    """Loads the command that is typed, and no other: together they take seconds."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, function = _COMMANDS[cmd_name][0].partition(".")
        command: click.Command = getattr(importlib.import_module(f"gpubench_cli.{module}"), function)
        return command

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, about) for name, (_, about) in _COMMANDS.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [CompletionItem(name, help=_COMMANDS[name][1]) for name in _COMMANDS if name.startswith(incomplete)]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]


@click.group(
    cls=_Commands,
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
    code = terminal.EXIT_BAD_INPUT
    try:
        # Not gpubench.main(): it has codes of its own for a signal and for a reader that has gone.
        with gpubench.make_context(program, list(sys.argv[1:] if arguments is None else arguments)) as context:
            code = gpubench.invoke(context) or terminal.EXIT_DONE
    except click.exceptions.Exit as ended:  # --help and --version
        code = ended.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
    except click.UsageError as error:
        path = program if error.ctx is None else error.ctx.command_path
        terminal.tell(f"{path}: {error.format_message().removesuffix('.')}: see {path} --help")
    except terminal.CliError as error:
        for message in error.messages:
            terminal.tell(f"{program}: {message}")
    except kube.ApiError as error:
        terminal.tell(f"{program}: {error}")
    except terminal.Stopped as error:
        code = error.exit_code
    except KeyboardInterrupt:
        code = terminal.EXIT_SIGNAL + signal.SIGINT
    except BrokenPipeError:
        # Whoever read has seen enough (`| head`); the interpreter must not complain about it when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = terminal.EXIT_SIGNAL + signal.SIGPIPE
    return code


if __name__ == "__main__":
    sys.exit(main())
