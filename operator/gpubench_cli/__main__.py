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
from importlib import metadata
from pathlib import Path

from gpubench_cli import refusal, terminal
from gpubench_cluster import kube

#: The commands in the order of `gpubench --help`, and the module of each.
_COMMANDS = {
    "run": "run",
    "plan": "plan",
    "validate": "validate",
    "pools": "pools",
    "show": "show",
    "explain": "explain",
    "advise": "advise",
    "report": "report",
    "compare": "compare",
    "reprice": "reprice",
    "verify": "verify",
    "export": "export",
    "import": "import_study",
    "watch": "watch",
    "history": "runs",
    "drill": "drill",
    "workloads": "workloads",
    "self-check": "self_check",
    "doctor": "doctor",
}

_PLUGIN = "kubectl-gpubench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, do, and end with the code that says how."""
    program = _program()
    arguments = sys.argv[1:] if arguments is None else arguments
    chosen = _parser(program, arguments).parse_args(arguments)
    try:
        return int(chosen.command(chosen))
    except refusal.Refusal as error:
        for sentence in error.sentences:
            terminal.tell(f"{program}: {sentence}")
        return refusal.EXIT_BAD_INPUT
    except kube.ApiError as error:
        terminal.tell(f"{program}: {error}")
        return refusal.EXIT_BAD_INPUT
    except refusal.Stopped as error:
        return error.exit_code
    except KeyboardInterrupt:
        return refusal.EXIT_SIGNAL + signal.SIGINT
    except BrokenPipeError:
        # Whoever read has seen enough (`| head`); the interpreter must not complain about it when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return refusal.EXIT_SIGNAL + signal.SIGPIPE


def _parser(program: str, arguments: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        description="GPU benchmarks: which GPU, how many, what does it cost, and how sure are you.",
        epilog="Exit codes: 0 done, 1 the study failed or a record does not hold, 2 bad input or no cluster.",
    )
    parser.add_argument("--version", action="version", version=f"gpubench {metadata.version('gpubench')}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    # Only the command that is typed is loaded: together they take seconds.
    typed = [_COMMANDS[first] for first in arguments[:1] if first in _COMMANDS]
    for module in typed or _COMMANDS.values():
        importlib.import_module(f"gpubench_cli.{module}").add_to(commands)
    return parser


def _program() -> str:
    return "kubectl gpubench" if Path(sys.argv[0]).name == _PLUGIN else "gpubench"


if __name__ == "__main__":
    sys.exit(main())
