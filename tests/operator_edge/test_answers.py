# SPDX-License-Identifier: Apache-2.0
"""Whatever the API server answers to each verb, once, while benchmarks run: they end as without it.

Between the operator and a real API server stands a proxy. `make test` strikes with a selection in which each answer
and each verb occurs; `make answers` with all of them, and writes the table of `answers.md`.
"""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
from aiohttp import web

import chaos_place
import installation
import kept
import studies
from chaos_proxy import Proxy
from chaos_schedule import Kind
from cluster import Cluster
from gpubench import names
from gpubench_cluster import kube

Place = Any

TABLE = Path(__file__).parent / "answers.md"
IS_WHOLE = os.environ.get("ANSWERS") == "all"
REQUEST_SECONDS = 3.0
SETTINGS = {
    **installation.ALONE,
    "GPUBENCH_LOG_FORMAT": "text",
    "GPUBENCH_NODE_POLL_SECONDS": "2",
    "GPUBENCH_REQUEST_SECONDS": f"{REQUEST_SECONDS:g}",
    "GPUBENCH_RESYNC_SECONDS": "86400",
}
GAP_SECONDS = 0.6  # between two strikes, so that other requests are answered between them
GIVEN_UP_SECONDS = 15.0  # a request that is not made again by then is not needed any more
SILENCE_SECONDS = 90.0  # kopf waits 70 for an event or a bookmark
RENEWED_SECONDS = 6.0  # longer than the longest pause of a watch that fails
STUDY_SECONDS = 240.0
STRUCK_SECONDS = 900.0 if IS_WHOLE else 180.0  # the longest pauses of a watch that fails again and again are 5 s

STATUSES = {
    400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound", 405: "MethodNotAllowed",
    406: "NotAcceptable", 408: "Timeout", 409: "Conflict", 410: "Expired", 413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType", 422: "Invalid", 425: "TooEarly", 429: "TooManyRequests", 500: "InternalError",
    501: "NotImplemented", 503: "ServiceUnavailable", 504: "Timeout",
}  # fmt: skip
#: The request is carried out, and its answer is spoiled.
CARRIED_OUT = ("half an answer", "half a JSON", "no body", "JSON of another kind", "answer lost", "504, carried out")
INSTEAD = ("a proxy's page, 400", "a proxy's page, 404", "a proxy's page, 502", "connection reset", "slow", "silent")
ANSWERS = (*(str(code) for code in STATUSES), *INSTEAD)
STAYS_SILENT = "stays silent"
EVENTS = {
    STAYS_SILENT: b"",
    **{f"ERROR {code}": b"" for code in (400, 403, 410, 429, 500, 504)},
    "half an event": b'{"type": "MODIF',
    "no JSON": b"<html>\n",
    "unknown type": b'{"type": "NEW", "object": {}}\n',
    "ends at once": b"",
}
CUT = "cut by the proxy"  # which makes of such an error a connection that breaks
VERBS = ("list", "get", "create", "patch", "delete")
#: kopf's: that of a watch, and the list before it.
WATCHING = ("watch", "list of a watch")


class Fault(NamedTuple):
    """One answer to one request of a verb."""

    verb: str
    answer: str


def faults() -> tuple[Fault, ...]:
    """All of them, or each answer to one verb, in turn."""
    every = [Fault(verb, answer) for verb in VERBS for answer in (*ANSWERS, *CARRIED_OUT)]
    every += [Fault(verb, answer) for verb in WATCHING for answer in ANSWERS]
    every += [Fault("watch", event) for event in EVENTS]
    if IS_WHOLE:
        return tuple(every)
    turns = [Fault(VERBS[number % 5], answer) for number, answer in enumerate((*ANSWERS, *CARRIED_OUT))]
    watching = [Fault("watch", "401"), Fault("watch", "ERROR 410"), Fault("watch", "ERROR 500")]
    return (*turns, *watching, Fault("watch", "no JSON"), Fault("list of a watch", "410"))


@dataclass
class Strike:
    """A fault that has struck."""

    fault: Fault
    what: tuple[str, str]  # verb and path; a watch is asked for again with its list
    at: float
    again: float | None = None  # when the request was made again


class Answering(Proxy):
    """Strikes one request after the other. A verb is struck again only after the request before was made again."""

    def __init__(self, server: str, *, authority: str) -> None:
        super().__init__(server, authority=authority)
        self.left: list[Fault] = []
        self.strikes: list[Strike] = []

    async def _handle(self, session: aiohttp.ClientSession, request: web.BaseRequest) -> web.StreamResponse:
        now, verb = time.monotonic(), _verb(request)
        what = ("watch" if verb in WATCHING else verb, request.path)
        for strike in self.strikes:
            if strike.what == what and strike.again is None:
                strike.again = now
        fault = self._next(verb, what, now)
        if fault is None:
            return await super()._handle(session, request)
        self.left.remove(fault)
        self.strikes.append(Strike(fault, what, now))
        if fault.answer in CARRIED_OUT:
            return await _spoiled(fault.answer, request, await super()._handle(session, request))
        if fault.answer == "slow":
            await asyncio.sleep(REQUEST_SECONDS / 2)
            return await super()._handle(session, request)
        return await _instead(fault.answer, request)

    def _next(self, verb: str, what: tuple[str, str], now: float) -> Fault | None:
        is_watching = verb in WATCHING
        if verb == "delete":  # there are few: two of each object, as the third in a row is another matter
            if sum(strike.what == what for strike in self.strikes) == 2:
                return None
            return next((fault for fault in self.left if fault.verb == verb), None)
        alike = [strike for strike in self.strikes if (strike.fault.verb in WATCHING) == is_watching]
        if not is_watching and any(now < strike.at + GAP_SECONDS for strike in alike):
            return None
        mine = [strike for strike in alike if is_watching or strike.fault.verb == verb]
        if any(strike.again is None and now < strike.at + GIVEN_UP_SECONDS for strike in mine):
            return None
        return next((fault for fault in self.left if fault.verb == verb), None)

    def renew_watches(self) -> None:
        """Let kopf watch anew, where that is to be struck and has not been for a while."""
        last = max((strike.at for strike in self.strikes if strike.fault.verb in WATCHING), default=0.0)
        if any(fault.verb in WATCHING for fault in self.left) and time.monotonic() > last + RENEWED_SECONDS:
            self.disturb(Kind.CUT_WATCHES, requests=100, seconds=0.1, size=0.0)


def _verb(request: web.BaseRequest) -> str:
    """What is asked; nothing for discovery, for the Lease and for logs, which are text."""
    parts = request.path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    parts = parts[2:] if parts[:1] == ["namespaces"] and len(parts) > 2 else parts
    if not parts or "leases" in parts or "log" in parts:
        return ""
    if request.method != "GET":
        return {"POST": "create", "PATCH": "patch", "DELETE": "delete"}.get(request.method, "")
    is_ours = request.headers.get("User-Agent", "").startswith("gpubench-operator")
    if len(parts) > 1:
        return "get"
    return "list" if is_ours else "watch" if "watch" in request.query else "list of a watch"


def _status(code: int) -> dict[str, Any]:
    message = "the API server says so once (by the fault-injecting proxy)"
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
    return {**status, "message": message, "reason": STATUSES[code], "code": code}


async def _instead(answer: str, request: web.BaseRequest) -> web.StreamResponse:
    """An answer in place of the API server's, which is not asked."""
    if answer.isdecimal():
        headers = {"Retry-After": "1"} if answer in ("429", "503") else None
        return web.json_response(_status(int(answer)), status=int(answer), headers=headers)
    if answer.startswith("a proxy's page"):
        return web.Response(
            status=int(answer[-3:]), text="<html>the proxy's own words</html>", content_type="text/html"
        )
    if answer == "silent":
        await asyncio.sleep(REQUEST_SECONDS * 2)
    if answer in EVENTS:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        if answer.startswith("ERROR"):
            await response.write(json.dumps({"type": "ERROR", "object": _status(int(answer[-3:]))}).encode() + b"\n")
        else:
            await response.write(EVENTS[answer])
        if answer == STAYS_SILENT:
            await asyncio.sleep(SILENCE_SECONDS)
        if answer != "half an event":
            await response.write_eof()
            return response
    raise ConnectionResetError(CUT)


async def _spoiled(answer: str, request: web.BaseRequest, whole: web.StreamResponse) -> web.StreamResponse:
    """What is left of the API server's own answer."""
    assert isinstance(whole, web.Response)
    assert isinstance(whole.body, bytes)
    if answer == "504, carried out":
        return web.json_response(_status(504), status=504)
    if answer in ("half a JSON", "no body", "JSON of another kind"):
        body = {"no body": b"", "JSON of another kind": b"[1]"}.get(answer, whole.body[: len(whole.body) // 2])
        return web.Response(status=whole.status, body=body, content_type="application/json")
    if answer == "half an answer":
        response = web.StreamResponse(status=whole.status, headers={"Content-Length": str(len(whole.body))})
        await response.prepare(request)
        await response.write(whole.body[: len(whole.body) // 2])
    raise ConnectionResetError(CUT)


@pytest.fixture(scope="module")
def proxy(equipped: Cluster) -> Iterator[Answering]:
    authority = (equipped.directory / "certificates" / "apiserver.crt").read_text(encoding="ascii")
    proxy = Answering(equipped.server, authority=authority)
    proxy.start()
    yield proxy
    proxy.stop()


@pytest.fixture(scope="module")
def operator(
    equipped: Cluster, proxy: Answering, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[installation.Operator]:
    """The operator behind the proxy; another one would do its work for it."""
    kept.end("operator")
    folder = tmp_path_factory.mktemp("answers")
    kubeconfig = chaos_place.through_proxy(installation.install(equipped), proxy.addresses[0], folder / "kubeconfig")
    process = installation.Operator(kubeconfig, log=folder / "operator.log", settings=SETTINGS)
    process.start()
    yield process
    process.stop()


def study(name: str) -> kube.Object:
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["process"], "workers": [1, 2], "batchPerWorker": [64]}]
    template = {"env": [{"name": "STAND_IN_SECONDS", "value": "0.5"}]}
    return studies.benchmark(name, repeats=2, sweep=sweep, template=template)


def suspended_again_and_again(place: Place) -> None:
    """A benchmark whose Jobs are deleted: four each time that somebody suspends it."""
    sweep = [{"workloads": ["mnist_cnn"], "pools": ["pretend"], "workers": [1], "batchPerWorker": [64]}]
    if not place.status("deleted"):
        place.apply(studies.benchmark("deleted", repeats=4, sweep=sweep, limits={"parallelTrials": 4}))
    place.patch_spec("deleted", suspend=False)
    place.wait(lambda: running(place), what="gangs that run", seconds=STUDY_SECONDS)
    place.patch_spec("deleted", suspend=True)
    place.wait(lambda: not running(place), what="gangs that are deleted", seconds=STUDY_SECONDS)


def running(place: Place) -> list[kube.Object]:
    return [pod for pod in place.running() if pod["metadata"]["labels"][names.LABEL_BENCHMARK] == "deleted"]


def all_watched_again(proxy: Answering) -> bool:
    return all(strike.again is not None for strike in proxy.strikes if strike.fault.verb in WATCHING)


def has_ended(place: Place, proxy: Answering, name: str) -> bool:
    proxy.renew_watches()
    if any(fault.verb == "delete" for fault in proxy.left):
        suspended_again_and_again(place)
    return bool(place.holds(name, "Finished"))


def results(place: Place, name: str) -> list[dict[str, Any]]:
    """The figures, which the stand-in makes of the trial alone; not what hangs on the time and on nodes."""
    moving = ("nodes", "bill", "goodput", "spent")
    return [{key: one[key] for key in one if key not in moving} for one in place.status(name)["results"]]


def test_every_benchmark_ends_as_without_it_whatever_the_api_server_answers_once(
    place: Place, proxy: Answering
) -> None:
    place.apply(studies.pool("process", maxNodes=2))
    place.apply(study("calm"))
    place.wait(lambda: place.holds("calm", "Finished"), what="calm finished", seconds=STUDY_SECONDS)
    process = place.operator.pid

    proxy.left = list(faults())
    deadline, struck = time.monotonic() + STRUCK_SECONDS, list[str]()
    while proxy.left and time.monotonic() < deadline:
        struck.append(f"struck-{len(struck)}")
        place.apply(study(struck[-1]))
        place.wait(lambda: has_ended(place, proxy, struck[-1]), what="its end", seconds=STUDY_SECONDS)
    assert proxy.left == []
    place.wait(lambda: all_watched_again(proxy), what="a watch after each that ended", seconds=SILENCE_SECONDS)
    print(table := as_table(proxy.strikes))
    place.patch_spec("deleted", suspend=False)
    place.end_study("deleted")

    assert place.operator.pid == process, f"it has ended meanwhile:\n{place.operator.log.read_text()}"
    assert all(results(place, name) == results(place, "calm") for name in struck)
    for name in (*struck, "deleted"):
        status = place.status(name)
        attempts = status["attempts"]
        assert status["phase"] == "Succeeded"
        assert attempts["succeeded"] == status["trials"]["total"] == status["trials"]["finished"]
        assert attempts["started"] == attempts["succeeded"] + attempts["stopped"]
        assert name == "deleted" or attempts["stopped"] == 0
    recorded = [entry["job"] for entry in place.entries()]
    assert len(recorded) == len(set(recorded)), "an attempt counts twice"
    assert set(recorded) == created(place), "an attempt is lost, or was never recorded"
    if IS_WHOLE:
        TABLE.write_text(table, encoding="utf-8")


def created(place: Place) -> set[str]:
    """Names of the Jobs that came into being in this namespace, from the audit log."""
    found = set()
    for event in place.cluster.audit_events():
        about = event.get("objectRef", {})
        is_done = event["stage"] == "ResponseComplete" and event.get("responseStatus", {}).get("code") == 201
        is_job = (about.get("resource"), about.get("namespace")) == ("jobs", place.namespace)
        if event["verb"] == "create" and is_job and is_done:
            found.add(about["name"])
    return found


def as_table(strikes: list[Strike]) -> str:
    """What the operator did after each answer."""
    lines = [
        "<!-- Written by `make answers`; edit test_answers.py, not this. -->",
        "",
        "# What the operator does after an answer",
        "",
        "Each answer was given once to each verb while benchmarks ran. All of them ended as without it.",
        "",
        "| verb | answer | object | what the operator did |",
        "|---|---|---|---|",
    ]
    for strike in sorted(strikes, key=lambda one: one.fault):
        parts = strike.what[1].strip("/").split("/")
        plural = next(part for part in reversed(parts) if part in PLURALS)
        wait = None if strike.again is None else strike.again - strike.at
        done = "went on without it" if wait is None else f"asked again within {next(s for s in STEPS if wait < s):g} s"
        lines.append(f"| {strike.fault.verb} | {strike.fault.answer} | {plural} | {done} |")
    return "\n".join(lines) + "\n"


STEPS = (1, 2, 5, 10, 30, 60, 120, float("inf"))
PLURALS = frozenset(one.plural for one in vars(kube).values() if isinstance(one, kube.Resource))
