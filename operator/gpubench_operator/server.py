# SPDX-License-Identifier: Apache-2.0
"""`/metrics`, `/healthz` and `/readyz` over HTTP.

A standby is alive and ready while it waits for the Lease: a rolling update must be able to replace the holder. Nothing
here asks the API server, or a probe would fail when that is slow.
"""

from collections.abc import Awaitable, Callable

import prometheus_client
from aiohttp import web

#: Whether the process is well, and a sentence that says what it does.
Probe = Callable[[], tuple[bool, str]]

_Handler = Callable[[web.Request], Awaitable[web.Response]]


class Server:
    """The HTTP server of the operator."""

    def __init__(self, registry: prometheus_client.CollectorRegistry, *, healthy: Probe, ready: Probe) -> None:
        application = web.Application()
        application.router.add_get("/metrics", _metrics(registry))
        application.router.add_get("/healthz", _probe(healthy))
        application.router.add_get("/readyz", _probe(ready))
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)

    async def start(self, *, address: str, port: int) -> int:
        """Listen; the port that was taken."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, address, port)
        await site.start()
        taken: int = self._runner.addresses[0][1]
        return taken

    async def stop(self) -> None:
        """Close the port."""
        await self._runner.cleanup()


def _metrics(registry: prometheus_client.CollectorRegistry) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        del request
        text = prometheus_client.generate_latest(registry)
        return web.Response(body=text, headers={"Content-Type": prometheus_client.CONTENT_TYPE_LATEST})

    return answer


def _probe(ask: Probe) -> _Handler:
    async def answer(request: web.Request) -> web.Response:
        del request
        well, sentence = ask()
        return web.Response(text=sentence + "\n", status=200 if well else 503)

    return answer
