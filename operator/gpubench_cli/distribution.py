# SPDX-License-Identifier: Apache-2.0
"""What this program is installed as. PyPI has another project `gpubench`: this one is `kube-gpubench` there."""

from importlib import metadata


def version() -> str:
    return metadata.version("kube-gpubench")
