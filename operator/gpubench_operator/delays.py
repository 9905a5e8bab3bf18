# SPDX-License-Identifier: Apache-2.0
"""When to look again although no event comes."""

AFTER_REFUSAL = 30.0  # seconds: somebody may have raised a quota or removed what was in the way; no event says so


def earliest(*delays: float | None) -> float | None:
    """The shortest of some delays; None where there is none."""
    return min((delay for delay in delays if delay is not None), default=None)
