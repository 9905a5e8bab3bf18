# SPDX-License-Identifier: Apache-2.0
"""The person's edge: terminal, files, local runs. It imports the core and neither of the other edges."""

from importlib import metadata

#: Of this program. PyPI has another project `gpubench`: this one is `kube-gpubench` there.
VERSION = metadata.version("kube-gpubench")
