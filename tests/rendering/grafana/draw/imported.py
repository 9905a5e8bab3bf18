# SPDX-License-Identifier: Apache-2.0
"""What a real Prometheus answers to every panel of a finished benchmark: published figures, or any results folder.

    imported.py BENCHMARK.yaml CSV OUT.json [VARIABLE=VALUE...]
    imported.py FOLDER OUT.json [VARIABLE=VALUE...]

For pictures. A VARIABLE of a dashboard has the value that a reader would choose, and otherwise that of frames.py.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import prometheus_client

from gpubench_cli import __main__ as program
from gpubench_cli import results
from gpubench_operator import exporter, queue, server

sys.path.insert(0, str(Path(__file__).parents[1]))
import frames  # noqa: E402  # beside this folder
import stored_analysis  # noqa: E402

_NAMESPACE = "published"


class _Finished:
    """One page that stays as it is."""

    def __init__(self, folder: Path) -> None:
        found = results.read_summary(folder)
        body = {
            "metadata": {"name": found.name, "namespace": _NAMESPACE, "uid": found.uid},
            "spec": results.written_spec(folder, found.name),
            "status": found.status.to_wire(),
        }
        series = exporter.Series()
        stored_analysis.observe(series, queue.benchmark_key(_NAMESPACE, found.name), body)
        written = server.parts(prometheus_client.CollectorRegistry(), series, prometheus_client.generate_latest)
        self._page = b"".join(written).decode()

    def pages(self, minute: int) -> Iterator[tuple[dict[str, str], str]]:
        yield {"job": "gpubench-operator", "pod": "gpubench-0", "instance": "10.0.0.2:8080"}, self._page


def main() -> int:
    given = [one for one in sys.argv[1:] if "=" not in one]
    wanted = dict(one.split("=", 1) for one in sys.argv[1:] if "=" in one)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(given[0])
        if not folder.is_dir():
            folder = Path(made) / "results"
            if program.main(("import", given[0], given[1], "--out", str(folder))):
                return 1
        found = frames.frames(hours=lambda _: _Finished(folder), wanted=wanted)
    Path(given[-1]).write_text(json.dumps(found), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
