# SPDX-License-Identifier: Apache-2.0
"""`/metrics`, `/healthz` and `/readyz` over HTTP or HTTPS.

A standby is alive and ready while it waits for the Lease: a rolling update must be able to replace the holder. No
probe asks the API server, or it would fail when that is slow. A scrape of a thousand benchmarks takes seconds: it
is written in a thread, family by family. So collectors copy what they go through before they do.
"""

import asyncio
import contextlib
import hashlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import prometheus_client
from aiohttp import web
from prometheus_client import exposition
from prometheus_client import registry as registries

from gpubench_cluster import kube
from gpubench_operator import exporter

#: Whether the process is well, and a message that says what it does.
Probe = Callable[[], tuple[bool, str]]

#: Of IPv6 and IPv4: which family probes and scrapes come by is the cluster's to say.
EVERY_ADDRESS = "::"
_END = b"# EOF\n"  # of OpenMetrics; the older format has no end
_REVIEWED_SECONDS = 60.0  # as long as controller-runtime believes in a token; some scrapes
_REVIEWED_MAX = 1_000  # whoever sends many tokens gets no memory for them
_REVIEWS_AT_ONCE = 8  # and no more of the API server's time

_log = logging.getLogger(__name__)


class Certificate:
    """`tls.crt` and `tls.key` of a folder, as a Secret of type kubernetes.io/tls is mounted.

    Each handshake looks whether they have changed, and reads them again. Where they cannot be used, as a file may
    be half written, those of before stay.
    """

    def __init__(self, folder: Path) -> None:
        """OSError where they cannot be used."""
        self._files = (folder / "tls.crt", folder / "tls.key")
        self._seen, self.context = self._stamps(), self._read()
        self._latest, self._said = self.context, ""
        self.context.sni_callback = self._choose

    def _stamps(self) -> list[tuple[int, int]]:
        return [(found.st_ino, found.st_mtime_ns) for found in map(Path.stat, self._files)]

    def _read(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*self._files, password="")  # otherwise a key with one asks the terminal for it
        return context

    def _choose(self, connection: ssl.SSLObject, *_: object) -> None:
        try:
            if (stamps := self._stamps()) != self._seen:
                self._latest, self._seen, self._said = self._read(), stamps, ""
        except OSError as error:
            if str(error) != self._said:  # said once, and tried at each handshake
                _log.error("certificate not read, the one of before stays", extra={"error": str(error)})
            self._said = str(error)
        connection.context = self._latest


class Reviews:
    """What the API server says of those who scrape, as controller-runtime asks it: who a token is, and what he may."""

    def __init__(self, api: kube.Kube, clock: Callable[[], float]) -> None:
        self._api, self._clock = api, clock
        self._known: dict[bytes, tuple[float, int, str]] = {}  # by hash of the token: until when, status, what is wrong
        self._asking = 0

    async def __call__(self, header: str) -> tuple[int, str]:
        """A status of HTTP, and what is wrong where it is not 200, for the value of the header Authorization."""
        scheme, _, token = header.partition(" ")
        if scheme.lower() != "bearer" or not (token and token.isascii()):
            return 401, "send the token of a ServiceAccount: Authorization: Bearer TOKEN"
        now, key = self._clock(), hashlib.sha256(token.encode()).digest()
        self._known = {one: found for one, found in self._known.items() if found[0] > now}
        if key in self._known:
            return self._known[key][1:]
        if self._asking >= _REVIEWS_AT_ONCE:
            return 503, "too many tokens are being reviewed: scrape again"
        self._asking += 1
        try:
            status, wrong = await self._ask(token)
        except kube.ApiError as error:
            _log.warning("scrape not reviewed", extra={"error": str(error)})
            return 503, f"the API server does not say who may scrape: {error}"
        finally:
            self._asking -= 1
        if len(self._known) < _REVIEWED_MAX:
            self._known[key] = (now + _REVIEWED_SECONDS, status, wrong)
        return status, wrong

    async def _ask(self, token: str) -> tuple[int, str]:
        review = await self._api.create(kube.TOKEN_REVIEWS, {"spec": {"token": token}}) or {}
        if not review["status"].get("authenticated"):
            return 401, "the API server does not know this token"
        user = review["status"]["user"]
        name, wanted = user.pop("username"), {"path": "/metrics", "verb": "get"}
        asked = {"spec": {**user, "user": name, "nonResourceAttributes": wanted}}
        access = await self._api.create(kube.ACCESS_REVIEWS, asked) or {}
        if not access["status"].get("allowed"):
            return 403, f"{name} may not get the nonResourceURL /metrics"
        return 200, ""


class Server:
    """The HTTP server of the operator; by HTTPS with a certificate. `review` judges scrapes, never probes."""

    def __init__(
        self,
        own: prometheus_client.CollectorRegistry,
        series: exporter.Series,
        *,
        healthy: Probe,
        ready: Probe,
        certificate: Certificate | None = None,
        review: Reviews | None = None,
    ) -> None:
        async def scraped(request: web.Request) -> web.StreamResponse:
            if review is not None:
                status, wrong = await review(request.headers.get("Authorization", ""))
                if status != 200:
                    named = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
                    return web.Response(text=wrong + "\n", status=status, headers=named)
            encode, kind = exposition.choose_encoder(request.headers.get("Accept", ""))  # who scrapes chooses a format
            response, written = web.StreamResponse(headers={"Content-Type": kind}), parts(own, series, encode)
            response.enable_compression()  # where the scrape asks for it
            with contextlib.suppress(ConnectionResetError):  # whoever scrapes may go away, or have no more time
                await response.prepare(request)
                while (part := await asyncio.to_thread(next, written, None)) is not None:
                    await response.write(part)
                await response.write_eof()
            return response

        application = web.Application()
        application.router.add_get("/metrics", scraped)
        application.router.add_get("/healthz", _probe(healthy))
        application.router.add_get("/readyz", _probe(ready))
        self._tls = None if certificate is None else certificate.context
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self, *, address: str, port: int) -> int:
        """Listen, at `::` for both families where the kernel has both; the port that was taken."""
        await self._runner.setup()
        if address == EVERY_ADDRESS and socket.has_dualstack_ipv6():
            both = socket.create_server((address, port), family=socket.AF_INET6, dualstack_ipv6=True)
            await web.SockSite(self._runner, both, ssl_context=self._tls).start()
        else:
            host = "0.0.0.0" if address == EVERY_ADDRESS else address  # noqa: S104
            await web.TCPSite(self._runner, host, port, ssl_context=self._tls).start()
        return int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        await self._runner.cleanup()


def parts(
    own: prometheus_client.CollectorRegistry, series: exporter.Series, encode: Callable[[registries.Collector], bytes]
) -> Iterator[bytes]:
    """The page, so that never all of it is in memory."""
    small = encode(own)
    yield small.removesuffix(_END)
    for family, lines in series.written():
        yield encode(family).removesuffix(_END) + lines
    if small.endswith(_END):
        yield _END


def _probe(ask: Probe) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        well, message = ask()
        return web.Response(text=message + "\n", status=200 if well else 503)

    return answer
