# SPDX-License-Identifier: Apache-2.0
"""What this program is installed as, and whether another project's package lies over it. Imports nothing of gpubench.

PyPI has another project `gpubench`, with an import package of the same name; this one is distributed as `kube-gpubench`.
"""

import argparse
from importlib import metadata

NAME = "kube-gpubench"
_FOREIGN = "gpubench"


def version() -> str:
    """Of this program."""
    return metadata.version(NAME)


def foreign() -> str | None:
    """The other project's distribution, where its files are in the import package `gpubench`, and what to do."""
    try:
        found = metadata.distribution(_FOREIGN)
    except metadata.PackageNotFoundError:
        return None
    if not any(file.parts[:1] == ("gpubench",) for file in found.files or ()):
        return None
    return (
        f"the distribution {_FOREIGN} {found.version} is another project, and its package gpubench shadows this "
        f"program's: pip uninstall {_FOREIGN}, then install {NAME} again"
    )


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """`gpubench version`."""
    parser = commands.add_parser("version", help="the version of this program, and what shadows it")
    parser.set_defaults(command=_show)


def _show(arguments: argparse.Namespace) -> int:
    del arguments
    print(f"gpubench {version()} ({NAME})")  # noqa: T201  # `terminal` imports what may be shadowed
    if (shadow := foreign()) is not None:
        print(shadow)  # noqa: T201  # as above
    return 0
