# SPDX-License-Identifier: Apache-2.0
"""What this program is installed as, and whether another project's package lies over it. Imports nothing of gpubench.

PyPI has another project `gpubench`, with an import package of the same name: this one is `kube-gpubench` there.
"""

from importlib import metadata

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
