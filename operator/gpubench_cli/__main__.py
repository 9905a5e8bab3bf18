# SPDX-License-Identifier: Apache-2.0
"""The command line: `gpubench`, and `kubectl gpubench` by the name kubectl-gpubench.

Results go to standard output, everything else to standard error. Exit codes: 0 done, 1 the study failed, 2 bad input or
a place that does not answer, 128 and a signal's number when stopped by it. No traceback for any of these.
"""

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gpubench_cli import distribution

try:
    from gpubench_cli import terminal
    from gpubench_cluster import kube
except ImportError as error:
    if (shadow := distribution.foreign()) is None:
        raise
    raise SystemExit(f"gpubench: {shadow}") from error

#: The commands in the order of `gpubench --help`, and the function of each that adds its arguments.
_COMMANDS = {
    "run": "run.add_to",
    "plan": "plan.add_to",
    "validate": "plan.add_validate_to",
    "pools": "cluster.add_pools_to",
    "show": "show.add_to",
    "explain": "explain.add_to",
    "advise": "explain.add_advise_to",
    "report": "report.add_to",
    "compare": "compare.add_to",
    "reprice": "explain.add_reprice_to",
    "verify": "verify.add_to",
    "export": "results.add_export_to",
    "import": "import_study.add_to",
    "watch": "show.add_watch_to",
    "history": "schedule.add_to",
    "drill": "cluster.add_drill_to",
    "workloads": "workloads.add_to",
    "self-check": "run.add_self_check_to",
    "doctor": "cluster.add_doctor_to",
    "version": "distribution.add_to",
}

_PLUGIN = "kubectl-gpubench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, do, and end with the code that says how."""
    program = _program()
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = _parser(program, arguments).parse_args(arguments)
    try:
        return int(chosen.command(chosen))
    except terminal.Refusal as error:
        for sentence in error.sentences:
            terminal.tell(f"{program}: {sentence}")
        return terminal.EXIT_BAD_INPUT
    except kube.ApiError as error:
        terminal.tell(f"{program}: {error}")
        return terminal.EXIT_BAD_INPUT
    except terminal.Stopped as error:
        return error.exit_code
    except KeyboardInterrupt:
        return terminal.EXIT_SIGNAL + signal.SIGINT
    except BrokenPipeError:
        # Whoever read has seen enough (`| head`); the interpreter must not complain about it when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return terminal.EXIT_SIGNAL + signal.SIGPIPE


def _parser(program: str, arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="GPU benchmarks: which GPU, how many, what does it cost, and how sure are you.",
        epilog="Exit codes: 0 done, 1 the study failed or a record does not hold, 2 bad input or no cluster.",
    )
    parser.add_argument("--version", action="version", version=f"gpubench {distribution.version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # Only the command that is typed is loaded: together they take seconds.
    typed = [_COMMANDS[first] for first in arguments[:1] if first in _COMMANDS]
    for place in typed or _COMMANDS.values():
        module, _, add_to = place.partition(".")
        getattr(importlib.import_module(f"gpubench_cli.{module}"), add_to)(commands)
    return parser


def _program() -> str:
    return "kubectl gpubench" if Path(sys.argv[0]).name == _PLUGIN else "gpubench"


if __name__ == "__main__":
    sys.exit(main())
