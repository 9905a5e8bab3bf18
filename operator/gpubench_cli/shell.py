# SPDX-License-Identifier: Apache-2.0
"""`gpubench completion SHELL`: the script by which a shell asks this program what may come next."""

import click
from click import shell_completion

from gpubench_cli import terminal


@click.command("completion")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")), help="which shell reads it")
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    r"""Write the script that completes commands, options and files.

    \b
    bash: eval "$(gpubench completion bash)" in ~/.bashrc
    zsh:  eval "$(gpubench completion zsh)" in ~/.zshrc
    fish: gpubench completion fish > ~/.config/fish/completions/gpubench.fish

    kubectl completes `kubectl gpubench` where kubectl_complete-gpubench is in PATH: it is installed beside gpubench.
    """
    kind = shell_completion.get_completion_class(shell)
    assert kind is not None  # click has these three
    terminal.write(kind(context.find_root().command, {}, "gpubench", "_GPUBENCH_COMPLETE").source())
