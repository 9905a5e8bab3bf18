# SPDX-License-Identifier: Apache-2.0
"""Moments as the API server writes them, and as seconds since the epoch. Reads no clock."""

from datetime import UTC, datetime


def rfc3339(seconds: float) -> str:
    """`2026-11-01T12:00:00Z` for a moment, to the second, as metav1.Time has it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def epoch_seconds(text: str) -> float:
    """Seconds since the epoch of an API timestamp, with or without a fraction (metav1.Time, metav1.MicroTime)."""
    return datetime.fromisoformat(text).timestamp()
