# SPDX-License-Identifier: Apache-2.0
"""Every committed file of this room by its path in `dashboards/`, as text or as what becomes YAML."""

import json
from collections.abc import Mapping

from gpubench_dashboards import alerts, panels, rules
from gpubench_dashboards.boards import DASHBOARDS

#: What the rules are written in.
RULE_FILES: Mapping[str, dict[str, object]] = {
    "rules/recording.yaml": rules.groups(),
    "rules/alerts.yaml": alerts.groups(),
}


def texts() -> dict[str, str]:
    """The dashboards and the page of runbooks."""
    made = {f"{board.uid}.json": board for board in DASHBOARDS}
    return {
        **{
            name: json.dumps(panels.dashboard(board), indent=2, ensure_ascii=False) + "\n"
            for name, board in made.items()
        },
        "RUNBOOKS.md": alerts.runbooks(),
    }
