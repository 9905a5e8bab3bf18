# SPDX-License-Identifier: Apache-2.0
"""A proxy between the operator and the API server that passes everything on, until it is told to disturb.

The operator talks to it without TLS, on the loopback; it talks to the API server with TLS and passes the operator's
token on, so that permissions and the audit log are as ever. It runs in a thread of its own. A disturbance is over after
so many requests or so many seconds, whichever comes first. What may not happen here: a request that is changed.
"""

import asyncio
import contextlib
import json
import logging
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import yarl
from aiohttp import web

from chaos_schedule import Kind

START_SECONDS = 30.0
_SLOW_SECONDS = (0.5, 8.0)  # longer than the operator's own patience at the far end
_WRITES = frozenset({"POST", "PUT", "PATCH"})
#: Of one connection, not of the request (RFC 9110, section 7.6.1); aiohttp sets the length itself.
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host", "te", "upgrade"})
_SERVER_ERRORS = (500, 502, 503, 504)
_NOT_OURS = ("Accept", "Accept-Encoding", "Content-Type", "User-Agent")  # what the operator did not send is not sent


@dataclass
class Disturbance:
    """What is done to requests: to `left` of them, for `seconds` at most."""

    kind: Kind
    left: int
    seconds: float
    size: float
    began: float = 0.0
    hit: int = 0

    last: float = 0.0

    @property
    def is_over(self) -> bool:
        return self.left <= 0 or time.monotonic() > self.began + self.seconds

    @property
    def over_at(self) -> float:
        """When it came to its end, or will."""
        return self.last if self.left <= 0 else self.began + self.seconds

    def take(self) -> None:
        self.left -= 1
        self.hit += 1
        self.last = time.monotonic()


class _Cut(Exception):
    """The connection to the operator is to be broken without an answer."""


class Proxy:
    """Start it, disturb it, stop it: from any thread."""

    def __init__(self, server: str, *, authority: str, doors: int = 1) -> None:
        self._server, self._doors = server, doors
        self._tls = ssl.create_default_context(cadata=authority)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="proxy", daemon=True)
        self._ready = threading.Event()
        self._stop = asyncio.Event()
        self._disturbances: list[Disturbance] = []
        self._watches: dict[asyncio.Task[Any], web.StreamResponse] = {}
        self._gone: set[asyncio.Task[Any]] = set()  # watches that are told that their version is gone
        self.addresses: list[str] = []  # a door for each replica
        self._leads: int | None = None  # the door's port of whom the Lease names
        self.strays: list[str] = []  # what was written through one door while the Lease named who uses another
        self.answered_at = 0.0  # when the API server last gave the operator what it asked for

    def start(self) -> None:
        """Listen on free ports of the loopback; `addresses` says which."""
        logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)  # broken connections are what it is for
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise RuntimeError(f"the proxy does not listen after {START_SECONDS:g} s")

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS)

    @property
    def open_watches(self) -> int:
        return len(self._watches)

    def disturb(self, kind: Kind, *, requests: int, seconds: float, size: float) -> Disturbance:
        """From now on; the answer's `hit` counts what it was done to."""
        disturbance = Disturbance(kind=kind, left=requests, seconds=seconds, size=size, began=time.monotonic())
        self._loop.call_soon_threadsafe(self._begin, disturbance)
        return disturbance

    def _begin(self, disturbance: Disturbance) -> None:
        if disturbance.kind in (Kind.CUT_WATCHES, Kind.GONE):
            for task in list(self._watches):
                disturbance.take()
                if disturbance.kind is Kind.GONE:
                    self._gone.add(task)
                task.cancel()
        self._disturbances = [*(other for other in self._disturbances if not other.is_over), disturbance]

    # --- the server -------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        # Bodies pass as they are: no decompression on the way, no limit for a watch.
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=5)
        connector = aiohttp.TCPConnector(ssl=self._tls, limit=0)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False) as session:

            async def handle(request: web.BaseRequest) -> web.StreamResponse:
                try:
                    return await self._handle(session, request)
                except (_Cut, aiohttp.ClientError, ConnectionError, TimeoutError):
                    if request.transport is not None:
                        request.transport.abort()
                    raise ConnectionResetError("cut by the proxy") from None

            runner = web.ServerRunner(web.Server(handle, handler_cancellation=True), shutdown_timeout=0.1)
            await runner.setup()
            for _ in range(self._doors):
                await web.TCPSite(runner, "127.0.0.1", 0).start()
            self.addresses = [f"http://{host}:{port}" for host, port in runner.addresses]
            self._ready.set()
            await self._stop.wait()
            for task in list(self._watches):
                task.cancel()
            await runner.cleanup()

    async def _handle(self, session: aiohttp.ClientSession, request: web.BaseRequest) -> web.StreamResponse:
        self._note_stray(request)
        body = await request.read()
        is_watch = request.query.get("watch") in ("true", "1")
        disturbance = self._disturbance(request, is_watch=is_watch)
        if disturbance is not None:
            disturbance.take()
            refused = await self._disturb(disturbance)
            if refused is not None:
                return refused
        async with session.request(
            request.method,
            yarl.URL(self._server + request.raw_path, encoded=True),
            data=body or None,
            headers=_passed_on(request.headers),
            skip_auto_headers=_NOT_OURS,
            allow_redirects=False,
        ) as answer:
            if is_watch and answer.status == 200:
                return await self._pass_on_watch(request, answer)
            content = await answer.read()
        if disturbance is not None and disturbance.kind is Kind.LOST_ANSWER:
            raise _Cut
        if answer.status < 300:
            if not _is_of_lease(request):  # a replica that stands by asks for nothing else
                self.answered_at = time.monotonic()
            elif request.method in _WRITES:
                self._leads = _door(request) if json.loads(body)["spec"]["holderIdentity"] else None
        return web.Response(status=answer.status, body=content, headers=_passed_on(answer.headers))

    def _note_stray(self, request: web.BaseRequest) -> None:
        """As it comes in: how long it then takes to the API server is the network's."""
        writes = request.method in (*_WRITES, "DELETE") and not _is_of_lease(request)
        if writes and self._leads not in (None, _door(request)):
            self.strays.append(f"{request.method} {request.path} was sent by a replica while another one led")

    def _disturbance(self, request: web.BaseRequest, *, is_watch: bool) -> Disturbance | None:
        """The disturbance that this request falls under."""
        for disturbance in self._disturbances:
            if not disturbance.is_over and _falls_under(disturbance.kind, request, is_watch=is_watch):
                return disturbance
        return None

    async def _disturb(self, disturbance: Disturbance) -> web.StreamResponse | None:
        """An answer in place of the API server's; None where it is to be asked (perhaps later)."""
        kind, size = disturbance.kind, disturbance.size
        if kind is Kind.CONFLICT:
            return _refusal(
                409, "Conflict", "the object has been modified; please apply your changes to the latest version"
            )
        if kind is Kind.TOO_MANY:
            return _refusal(
                429, "TooManyRequests", "too many requests", headers={"Retry-After": "1" if size < 0.5 else "2"}
            )
        if kind is Kind.GONE:
            return _refusal(410, "Expired", "The provided continue parameter is too old")
        if kind is Kind.SERVER_ERROR:
            code = _SERVER_ERRORS[(disturbance.hit + int(size * 4)) % len(_SERVER_ERRORS)]
            if code == 502:  # a load balancer's own words
                return web.Response(status=code, text="<html><body>Bad Gateway</body></html>", content_type="text/html")
            return _refusal(code, "InternalError", "etcdserver: leader changed")
        if kind is Kind.SLOW:
            await asyncio.sleep(_SLOW_SECONDS[0] + (_SLOW_SECONDS[1] - _SLOW_SECONDS[0]) * size)
        if kind is Kind.SILENT:
            await asyncio.sleep(max(0.0, disturbance.began + disturbance.seconds - time.monotonic()))
            raise _Cut
        return None

    async def _pass_on_watch(self, request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        """Events as they come, in whole lines; ended by the API server, by the operator, or by us."""
        response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None  # we are one
        self._watches[task] = response
        self.answered_at = time.monotonic()
        rest = b""
        try:
            async for chunk in answer.content.iter_any():
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    await response.write(whole + newline)
            await response.write_eof()
        except asyncio.CancelledError:
            if task not in self._gone:
                if rest == b"" and request.transport is not None and not request.transport.is_closing():
                    with contextlib.suppress(ConnectionError):
                        await response.write(b'{"type":"MODIF')  # in the middle of an event
                raise _Cut from None
            await response.write(_GONE_EVENT)
            await response.write_eof()
        finally:
            self._watches.pop(task, None)
            self._gone.discard(task)
        return response


def _falls_under(kind: Kind, request: web.BaseRequest, *, is_watch: bool) -> bool:
    if kind not in (Kind.SLOW, Kind.SILENT) and _is_of_lease(request):
        return False  # twice a second: it would use up what is meant for the others
    if kind in (Kind.CONFLICT, Kind.LOST_ANSWER):
        return request.method in _WRITES
    if kind is Kind.GONE:
        # What a list is told whose continuation has expired. Not those that kopf begins a watch with: it ends then, and
        # the operator with it, which a Deployment mends; an API server says so only to one with over 500 objects.
        ours = request.headers.get("User-Agent", "").startswith("gpubench-operator")
        return ours and request.method == "GET" and not is_watch and "limit" in request.query
    return kind is not Kind.CUT_WATCHES


def _is_of_lease(request: web.BaseRequest) -> bool:
    return "/leases" in request.path


def _door(request: web.BaseRequest) -> int:
    assert request.transport is not None
    return int(request.transport.get_extra_info("sockname")[1])


def _refusal(code: int, reason: str, message: str, *, headers: Mapping[str, str] | None = None) -> web.Response:
    """As the API server refuses."""
    status = {
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": f"{message} (by the fault-injecting proxy)", "reason": reason, "code": code,
    }  # fmt: skip
    return web.json_response(status, status=code, headers=headers)


_GONE_EVENT = (
    json.dumps(
        {
            "type": "ERROR",
            "object": {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "too old resource version", "reason": "Expired", "code": 410,
            },
        }
    ).encode()
    + b"\n"
)  # fmt: skip


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
