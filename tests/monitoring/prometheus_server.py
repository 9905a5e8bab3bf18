# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus for a test: started with a configuration, asked over HTTP, ended with the block.

with running(tmp_path, config) as prometheus:
    prometheus.query("up")
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

import prometheus_programs
from installation import free_port

READY_SECONDS = 60.0
_STOP_SECONDS = 20.0


class Refused(RuntimeError):
    """Prometheus cannot answer; the text is its own."""


class Prometheus:
    """One that runs."""

    def __init__(self, address: str) -> None:
        self.address = address

    def query(self, expression: str, *, at: float | None = None) -> list[dict[str, Any]]:
        """An instant vector: `metric` and `value` of each series."""
        answer = self._ask("query", {"query": expression, **({} if at is None else {"time": at})})
        found: list[dict[str, Any]] = answer["result"]
        return found

    def query_range(self, expression: str, *, begin: float, end: float, step: float) -> list[dict[str, Any]]:
        """A matrix: `metric` and `values` of each series."""
        answer = self._ask("query_range", {"query": expression, "start": begin, "end": end, "step": step})
        found: list[dict[str, Any]] = answer["result"]
        return found

    def parsed(self, expression: str) -> dict[str, Any]:
        """The tree of an expression, as Prometheus itself reads it."""
        found: dict[str, Any] = self._ask("parse_query", {"query": expression})
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Every rule with what Prometheus says of its health."""
        with urllib.request.urlopen(f"{self.address}/api/v1/rules", timeout=30) as answer:  # noqa: S310
            groups = json.load(answer)["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _ask(self, what: str, parameters: Mapping[str, Any]) -> Any:
        body = urllib.parse.urlencode(parameters).encode()
        try:
            with urllib.request.urlopen(f"{self.address}/api/v1/{what}", data=body, timeout=30) as answer:  # noqa: S310
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise Refused(f"{parameters}: {error.read().decode()}") from None


@contextlib.contextmanager
def running(folder: Path, config: Mapping[str, Any]) -> Iterator[Prometheus]:
    """With this configuration; its data and its log go into the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(dict(config)), encoding="utf-8")
    port = free_port()
    command = [
        str(prometheus_programs.build()["prometheus"]),
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--log.level=warn",
    ]
    with (folder / "prometheus.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        _wait_until_ready(prometheus, process, folder / "prometheus.log")
        yield prometheus
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(prometheus: Prometheus, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{prometheus.address}/-/ready", timeout=5):  # noqa: S310
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Prometheus is not ready:\n{log.read_text(errors='replace')[-3000:]}")
        time.sleep(0.05)
