# SPDX-License-Identifier: Apache-2.0
"""A rule across fields: the CEL that the API server evaluates, beside the sentence that a person reads.

Rules are attached to the types as `RULES`; the CRDs carry them as `x-kubernetes-validations`. Rules about one object's
state are also evaluated for study files that meet no API server. A sentence names the field and the remedy.
"""

from gpubench.values import Value


class Rule(Value):
    """One `x-kubernetes-validations` entry."""

    cel: str
    sentence: str
    field: str | None = None  # JSON path of the field to blame, where it is not the object itself
    transition: bool = False  # speaks of `oldSelf`: meaningless outside an update
