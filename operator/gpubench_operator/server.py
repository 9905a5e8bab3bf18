# SPDX-License-Identifier: Apache-2.0
"""`/metrics`, `/healthz` and `/readyz` over HTTP.

A standby is alive and ready while it waits for the Lease: a rolling update must be able to replace the holder. Nothing
here asks the API server, or a probe would fail when that is slow. A scrape of a thousand benchmarks takes seconds: it
is written in a thread, family by family. So collectors copy what they go through before they do.
"""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Iterator

import prometheus_client
from aiohttp import web
from prometheus_client import exposition
from prometheus_client import registry as registries

from gpubench_operator import exporter

#: Whether the process is well, and a message that says what it does.
Probe = Callable[[], tuple[bool, str]]

#: Of IPv6 and IPv4: which family probes and scrapes come by is the cluster's to say.
EVERY_ADDRESS = "::"
_END = b"# EOF\n"  # of OpenMetrics; the older format has no end


class Server:
    """The HTTP server of the operator."""

    def __init__(
        self, own: prometheus_client.CollectorRegistry, series: exporter.Series, *, healthy: Probe, ready: Probe
    ) -> None:
        async def scraped(request: web.Request) -> web.StreamResponse:
            encode, kind = exposition.choose_encoder(request.headers.get("Accept", ""))  # who scrapes chooses a format
            response = web.StreamResponse(headers={"Content-Type": kind})
            written = parts(own, series, encode)
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
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self, *, address: str, port: int) -> int:
        """Listen, at `::` for both families where the kernel has both; the port that was taken."""
        await self._runner.setup()
        if address == EVERY_ADDRESS and socket.has_dualstack_ipv6():
            both = socket.create_server((address, port), family=socket.AF_INET6, dualstack_ipv6=True)
            await web.SockSite(self._runner, both).start()
        else:
            await web.TCPSite(self._runner, "0.0.0.0" if address == EVERY_ADDRESS else address, port).start()  # noqa: S104
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        """Close the port."""
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
