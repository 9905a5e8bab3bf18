# SPDX-License-Identifier: Apache-2.0
"""Pictures of the committed dashboards, from a Prometheus beside a real study.

    render_dashboards.py                                              a cluster, a study and a Prometheus of its own
    render_dashboards.py --prometheus ADDRESS --begin T --end T [--choose benchmark=NAME]

The study is that of `monitoring/watched_study.py`: two Horovod ranks, a pod that is evicted, a schedule. What the
pictures show is asked of Prometheus; the drawing is gpubench's own, for no Grafana can be had here, and each says so.
Asserted of each: no text is cut off, and none lies on another one.
"""

import argparse
import contextlib
import datetime
import json
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import dashboard_pictures
import watched_study
from gpubench import metrics
from gpubench_dashboards import boards, live
from gpubench_dashboards.panels import Panel
from panel_answers import View
from prometheus_server import Prometheus

ROOM = Path(__file__).resolve().parents[2] / "dashboards"
OUT = ROOM / "pictures"
_WORK = Path(".run/dashboards")
_STEPS = 240  # over the range, as far as scrapes are that close together
_SCRAPE_INTERVAL = 15.0  # of a Prometheus that is not ours
_AROUND = 4.0  # seconds before and after a trial
_NO_GPU = "needs GPUs, and this study ran on processors"
_NO_LOOK = "no rank was timed by itself in this time, as where that takes long on a busy machine"
#: A line over time shows the end of the study only when that is some seconds ago.
_ALL_TOLD = f'min_over_time(study:gpubench_trials:finished_ratio{{benchmark="{watched_study.NAME}"}}[5s]) == 1'


class Course(NamedTuple):
    """What there is to see: where, when, and what a reader would choose on which dashboard."""

    prometheus: Prometheus
    view: View
    choices: Mapping[str, View]  # by the dashboard's UID, where it is another one
    made_from: str


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", metavar="ADDRESS", help="such as http://127.0.0.1:9090")
    parser.add_argument("--begin", type=_moment, metavar="T", help="such as 2026-11-22T18:00:00+00:00")
    parser.add_argument("--end", type=_moment, metavar="T")
    parser.add_argument("--choose", action="append", default=[], metavar="VARIABLE=VALUE")
    parser.add_argument("--scrape-interval", type=float, default=_SCRAPE_INTERVAL, metavar="SECONDS")
    parser.add_argument("--out", type=Path, default=OUT)
    asked = parser.parse_args()
    if asked.prometheus and (asked.begin is None or asked.end is None):
        parser.error("--prometheus: which time is to be seen is not known: give --begin and --end")
    with _elsewhere(asked) if asked.prometheus else _own() as course:
        return _rendered(course, asked.out)


def _moment(text: str) -> float:
    return datetime.datetime.fromisoformat(text).timestamp()


@contextlib.contextmanager
def _elsewhere(asked: argparse.Namespace) -> Iterator[Course]:
    view = _view(asked.begin, asked.end, scrape_interval=asked.scrape_interval)
    view = view._replace(chosen=dict(one.split("=", 1) for one in asked.choose))
    yield Course(Prometheus(asked.prometheus), view, {}, f"Made by make render-dashboards from {asked.prometheus}.")


@contextlib.contextmanager
def _own() -> Iterator[Course]:
    shutil.rmtree(_WORK, ignore_errors=True)
    _WORK.mkdir(parents=True)
    with watched_study.running(_WORK.absolute()) as seen:
        watched_study.wait(
            lambda: seen.prometheus.query(_ALL_TOLD), what="the last figures", seconds=watched_study.SCRAPED_SECONDS
        )
        yield of_a_study(seen.prometheus, seen.begun, time.time())


def of_a_study(prometheus: Prometheus, begun: float, ended: float) -> Course:
    """The watched study; of its trials the live run is the one that was interrupted."""
    view = _view(begun, ended, scrape_interval=watched_study.STEP)
    study = view._replace(chosen={"benchmark": watched_study.NAME})
    day = datetime.datetime.fromtimestamp(ended, tz=datetime.UTC)
    made_from = (
        f"Made by make render-dashboards on {day:%Y-%m-%d} from the study {watched_study.NAME!r}: "
        f"{watched_study.WORKLOAD} on two processor cores, one and two Horovod ranks; a pod was evicted on purpose."
    )
    choices = {"gpubench-study": study, live.DASHBOARD.uid: _interrupted(prometheus, study)}
    return Course(prometheus, view, choices, made_from)


def _view(begin: float, end: float, *, scrape_interval: float) -> View:
    step = max(scrape_interval, float(round((end - begin) / _STEPS)))
    rate = watched_study.RATE_INTERVAL if scrape_interval < 2 else f"{4 * max(step, scrape_interval):.0f}s"
    return View(begin=begin, end=end, step=step, rate_interval=rate)


def _interrupted(prometheus: Prometheus, study: View) -> View:
    """The trial with the most attempts, from its first sample to its last."""
    series = f'count by (trial, attempt) ({metrics.WORKER_SAMPLES.name}{{benchmark="{watched_study.NAME}"}})'
    attempts: dict[str, list[float]] = {}
    for one in prometheus.query_range(series, begin=study.begin, end=study.end, step=1.0):
        moments = [float(at) for at, _ in one["values"]]
        attempts.setdefault(one["metric"]["trial"], []).extend((moments[0], moments[-1]))
    trial, moments = max(attempts.items(), key=lambda found: len(found[1]))
    view = _view(min(moments) - _AROUND, max(moments) + _AROUND, scrape_interval=watched_study.STEP)
    return view._replace(chosen={**study.chosen, "trial": trial})


def _rendered(course: Course, out: Path) -> int:
    """Each dashboard as a picture; 1 where texts of one lie on each other."""
    out.mkdir(parents=True, exist_ok=True)
    code = 0
    for board in boards.DASHBOARDS:
        committed = json.loads((ROOM / f"{board.uid}.json").read_text(encoding="utf-8"))
        made = dashboard_pictures.picture(
            committed,
            course.prometheus,
            course.choices.get(board.uid, course.view),
            made_from=course.made_from,
            reasons={panel.title: _reason(panel) for panel in board.panels},
        )
        for problem in made.paper.meeting():
            print(f"{board.uid}: {problem}", file=sys.stderr)
            code = 1
        picture = out / f"{board.uid}.png"
        picture.write_bytes(made.png())
        without = f"; no data: {', '.join(made.without_data)}" if made.without_data else ""
        print(f"{picture}: {picture.stat().st_size / 1000:.0f} kB{without}")
    return code


def _reason(panel: Panel) -> str:
    """Why a panel may have no data."""
    if panel.needs_gpu:
        return _NO_GPU
    looked_for = any(name in query.expr for query in panel.queries for name in watched_study.OF_A_LOOK)
    return _NO_LOOK if looked_for else ""


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    sys.exit(main())
