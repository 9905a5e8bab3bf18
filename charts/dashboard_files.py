# SPDX-License-Identifier: Apache-2.0
"""What `dashboards/gpubench_dashboards` makes, for `generate.py`: that package is not installed, only its files are."""

import sys
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "dashboards"))

from gpubench_dashboards import build
from gpubench_dashboards.queries import Lines

__all__ = ["Lines"]

SOURCE = "dashboards/gpubench_dashboards"


def texts() -> dict[str, str]:
    """Files that are written as they are, by their path in `dashboards/`."""
    return build.texts()


def rule_files() -> Mapping[str, dict[str, object]]:
    """Files that become YAML, by their path in `dashboards/`."""
    return build.RULE_FILES
