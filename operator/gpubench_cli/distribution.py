# SPDX-License-Identifier: Apache-2.0
"""What this program is installed as, and whether another project's package lies over it. Imports nothing of gpubench.

PyPI has another project `gpubench`, with an import package of the same name: this one is `kube-gpubench` there.
"""

from importlib import metadata

import click

NAME = "kube-gpubench"
_FOREIGN = "gpubench"


def version() -> str:
    """Of this program."""
    return metadata.version(NAME)


def foreign() -> str | None:
    """The other project's distribution, where its files are in the import package `gpubench`, and what to do."""
    for found in metadata.distributions(name=_FOREIGN):
        if any(file.parts[:1] == ("gpubench",) for file in found.files or ()):
            return (
                f"the distribution {_FOREIGN} {found.version} is another project, and its package gpubench shadows "
                f"this program's: pip uninstall {_FOREIGN}, then install {NAME} again"
            )
    return None


@click.command("version")
def show() -> None:
    """The version of this program, and another project's package that shadows it."""
    print(f"gpubench {version()} ({NAME})")  # noqa: T201  # `terminal` imports what may be shadowed
    if (shadow := foreign()) is not None:
        print(shadow)  # noqa: T201  # as above
