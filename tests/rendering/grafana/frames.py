# SPDX-License-Identifier: Apache-2.0
"""What a real Prometheus answers to every query of every panel, in the course of two hours (`watched_hours.py`).

    frames.py OUT.json [DASHBOARDS]

DASHBOARDS is a folder with dashboards and their `rules/`, by default the committed one. OUT.json has, by the uid of the
dashboard, the title of the panel and the refId of the target, the response of Prometheus' HTTP API: a vector for an
instant query, a matrix for a range. Variables have the values that Grafana chooses when a dashboard is opened: all
where all can be chosen, otherwise the first. Also there: `variables` of each dashboard, and `time` of the queries.
"""

import argparse
import itertools
import json
import re
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml

import prometheus_programs
import prometheus_server
import watched_hours
from prometheus_server import Prometheus

_SCRAPE = 60  # seconds
_STEP = 60
_RULE_FILES = "rules/*.yaml"
_CLUSTER = "eu-west"
DASHBOARDS = Path(__file__).resolve().parents[3] / "dashboards"


class Watched(Protocol):
    """What targets serve, minute by minute, with the labels that a scrape adds."""

    def pages(self, minute: int, /) -> Iterator[tuple[dict[str, str], str]]: ...


def main() -> int:
    arguments = argparse.ArgumentParser(description="Write what Prometheus answers to every panel.")
    arguments.add_argument("out", type=Path)
    arguments.add_argument("dashboards", type=Path, nargs="?", default=DASHBOARDS)
    given = arguments.parse_args()
    given.out.write_text(json.dumps(frames(given.dashboards), indent=1) + "\n", encoding="utf-8")
    return 0


def frames(dashboards: Path = DASHBOARDS, *, hours: Callable[[float], Watched] = watched_hours.Hours) -> dict[str, Any]:
    end = int(time.time()) // _SCRAPE * _SCRAPE
    begun = end - _SCRAPE * watched_hours.MINUTES
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        _backfill(folder, dashboards, hours(begun), begun, end)
        with prometheus_server.running(folder, {}) as prometheus:
            boards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(dashboards.glob("*.json"))]
            found = {board["uid"]: _answers(prometheus, board, end) for board in boards}
    return {
        "time": {"from": begun, "to": end, "step": _STEP},
        "variables": {uid: chosen for uid, (chosen, _) in found.items()},
        "panels": {uid: answered for uid, (_, answered) in found.items()},
    }


def _backfill(folder: Path, dashboards: Path, hours: Watched, begun: int, end: int) -> None:
    """Blocks of the scraped series, then of what the rules record of them."""
    pages = folder / "pages.txt"
    with pages.open("w", encoding="utf-8") as file:
        for minute in range(watched_hours.MINUTES + 1):
            for labels, page in hours.pages(minute):
                file.writelines(_scraped(page, {"cluster": _CLUSTER, **labels}, begun + _SCRAPE * minute))
        file.write("# EOF\n")
    _promtool("tsdb", "create-blocks-from", "openmetrics", str(pages), str(folder / "data"))
    groups = [yaml.safe_load(path.read_text(encoding="utf-8"))["groups"] for path in dashboards.glob(_RULE_FILES)]
    missing = [rule for group in itertools.chain(*groups) for rule in group["rules"] if "record" in rule]
    before = len(missing) + 1
    while 0 < len(missing) < before:  # a rule may read what another one has recorded
        before = len(missing)
        written = {"groups": [{"name": "missing", "rules": missing}]}
        (folder / "rules.yaml").write_text(yaml.safe_dump(written), encoding="utf-8")
        with prometheus_server.running(folder, {}) as prometheus:
            span = (f"--start={begun}", f"--end={end}", f"--eval-interval={_SCRAPE}s", f"--url={prometheus.address}")
            out = (f"--output-dir={folder / 'data'}", str(folder / "rules.yaml"))
            _promtool("tsdb", "create-blocks-from", "rules", *span, *out)
        with prometheus_server.running(folder, {}) as prometheus:
            there = f"last_over_time({{__name__=~'.+:.+'}}[{_SCRAPE * watched_hours.MINUTES}s])"
            recorded = {one["metric"]["__name__"] for one in prometheus.query(there, at=end)}
        missing = [rule for rule in missing if rule["record"] not in recorded]


def _scraped(page: str, added: Mapping[str, str], at: int) -> Iterator[str]:
    written = ",".join(f'{name}="{value}"' for name, value in added.items())
    for line in page.splitlines():
        if not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            inside = ",".join(filter(None, (labels.removesuffix("}").rstrip(","), written)))
            yield f"{name}{{{inside}}} {value} {at}\n"


def _promtool(*arguments: str) -> None:
    command = [str(prometheus_programs.build()["promtool"]), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"promtool {arguments[:3]}: {done.stderr[-2000:]}")


def panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All that draw, those of folded rows too."""
    for panel in board["panels"]:
        yield from panel.get("panels") or ()
        if panel["type"] != "row":
            yield panel


def _answers(prometheus: Prometheus, board: Mapping[str, Any], end: int) -> tuple[dict[str, str], dict[str, Any]]:
    seconds = _seconds(board["time"]["from"])
    builtin = {"__range": f"{seconds}s", "__rate_interval": f"{4 * _SCRAPE}s", "__interval": f"{_STEP}s"}
    chosen: dict[str, str] = {}
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            chosen[variable["name"]] = _chosen(prometheus, variable, chosen, end)
        elif variable["type"] == "custom":
            chosen[variable["name"]] = variable["current"]["value"]
            chosen[f"{variable['name']}:text"] = variable["current"]["text"]
    answered: dict[str, Any] = {}
    for panel in panels(board):
        for target in panel["targets"]:
            expression = interpolated(target["expr"], {**builtin, **chosen})
            if target.get("range"):
                begin = max(end - seconds, end - _SCRAPE * watched_hours.MINUTES)
                result = prometheus.query_range(expression, begin=begin, end=end, step=_STEP)
            else:
                result = prometheus.query(expression, at=end)
            kind = "matrix" if target.get("range") else "vector"
            data = {"resultType": kind, "result": result}
            answered.setdefault(panel["title"], {})[target["refId"]] = {"status": "success", "data": data}
    return chosen, answered


def _chosen(prometheus: Prometheus, variable: Mapping[str, Any], before: Mapping[str, str], end: int) -> str:
    """As when the dashboard is opened: all of them where that can be chosen, otherwise the first."""
    if variable["includeAll"]:
        return str(variable["allValue"])
    selector, label = re.fullmatch(r"label_values\((.*), *(\w+)\)", variable["definition"]).groups()  # type: ignore[union-attr]
    found = prometheus.query(f"count by ({label}) (last_over_time({interpolated(selector, before)}[2h]))", at=end)
    return min((str(one["metric"].get(label, "")) for one in found), default="")


def interpolated(text: str, values: Mapping[str, str]) -> str:
    """With the values of variables, also as `${name:text}`; what is none, such as `$1`, stays, as in Grafana."""
    return re.sub(r"\$(?:\{([\w:]+)\}|(\w+))", lambda one: values.get(one[1] or one[2], str(one[0])), text)


def _seconds(text: str) -> int:
    number, unit = re.fullmatch(r"now-(\d+)([mhd])", text).groups()  # type: ignore[union-attr]
    return int(number) * {"m": 60, "h": 3600, "d": 86_400}[unit]


if __name__ == "__main__":
    raise SystemExit(main())
