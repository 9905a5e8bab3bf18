# SPDX-License-Identifier: Apache-2.0
"""Events of the API server, turned into keys in the queue; and kopf, which watches.

Only `on.event` handlers: others would write annotations, finalizers and peering objects, and conflict with guarded
patches. A handler neither decides nor asks anything: what an event says may be old before it is read.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import kopf
from kubernetes.aio.client import configuration

from gpubench import names
from gpubench.scheduler import conditions
from gpubench_cluster import kube
from gpubench_operator import exporter, queue, settings

_SELECTOR = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_COMPONENT}={names.COMPONENT_GANG}"


class Backoffs:
    """Seconds between tries of a watch that fails: for ever, because a server that is away comes back."""

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1, 2, 3)
        while True:
            yield 5


class Handlers:
    """What events do: they put keys into the queue."""

    def __init__(self, *, wake: Callable[[queue.Key], None], figures: exporter.Figures) -> None:
        self._wake = wake
        self._figures = figures
        self._seen: dict[queue.Key, tuple[str, int]] = {}  # UID and generation that were last put into the queue

    def benchmark(self, event: dict[str, Any]) -> None:
        """A benchmark came, changed or went. Its status is our own writing and no reason to reconcile."""
        body = event["object"]
        key = queue.benchmark_key(kube.namespace_of(body) or "", kube.name_of(body))
        self._wake_schedule_of(body, gone=event["type"] == "DELETED")
        if event["type"] == "DELETED":
            self._seen.pop(key, None)
            self._figures.drop(key)
            self._wake(key)
            return
        self._figures.observe(key, body)
        metadata = body["metadata"]
        identity = (metadata["uid"], metadata.get("generation", 1))
        if "deletionTimestamp" in metadata or self._seen.get(key) != identity:
            self._seen[key] = identity
            if not is_settled(body) or self._figures.lacks(body):
                self._wake(key)

    def schedule(self, event: dict[str, Any]) -> None:
        """A schedule came, changed or went. Its status is our own writing and no reason to reconcile."""
        body = event["object"]
        key = queue.schedule_key(kube.namespace_of(body) or "", kube.name_of(body))
        metadata = body["metadata"]
        identity = (metadata["uid"], metadata.get("generation", 1))
        if event["type"] == "DELETED":
            self._seen.pop(key, None)
        elif self._seen.get(key) == identity:
            return
        else:
            self._seen[key] = identity
        self._wake(key)

    def _wake_schedule_of(self, body: kube.Object, *, gone: bool) -> None:
        """A run that has finished, or is gone, may let the next one start, and belongs into the history."""
        name = (body["metadata"].get("labels") or {}).get(names.LABEL_SCHEDULE)
        if name and (gone or is_settled(body)):
            self._wake(queue.schedule_key(kube.namespace_of(body) or "", name))

    def gang(self, event: dict[str, Any]) -> None:
        """A Job, or a pod of one, changed: its labels say whose it is."""
        labels = event["object"]["metadata"].get("labels") or {}
        namespace = kube.namespace_of(event["object"]) or ""
        self._wake(queue.benchmark_key(namespace, labels.get(names.LABEL_BENCHMARK, "")))

    def pool(self, event: dict[str, Any]) -> None:
        """A pool changed: its status is made anew, and benchmarks that may wait for a new one are reconciled.

        One that came while no watch ran is in the list with which the next one begins, and is not called ADDED there.
        """
        metadata = event["object"]["metadata"]
        key = queue.Key(queue.Kind.POOLS, name=metadata["name"])
        if event["type"] == "DELETED":
            self._seen.pop(key, None)
            self._wake(queue.POOLS)
            return
        before, identity = self._seen.get(key), (metadata["uid"], metadata.get("generation", 1))
        if before == identity:
            return
        self._seen[key] = identity
        self._wake(queue.POOLS)
        if before is None or before[0] != identity[0]:
            self._wake(queue.RESYNC)


def is_settled(body: kube.Object) -> bool:
    """Whether a benchmark has finished with its figures, and its status speaks of the spec as it is."""
    status, metadata = body.get("status") or {}, body["metadata"]
    if "deletionTimestamp" in metadata or status.get("observedGeneration") != metadata.get("generation", 1):
        return False
    return any(
        (condition.get("type"), condition.get("status")) == (conditions.FINISHED, "True")
        and condition.get("reason") != conditions.ANALYSIS_FAILED
        for condition in status.get("conditions") or ()
    )


def registry(handlers: Handlers, credentials: configuration.Configuration) -> kopf.OperatorRegistry:
    """What kopf watches, and how it logs in: with the same credentials as everything else here."""
    registered = kopf.OperatorRegistry()

    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return await connection(credentials)

    for group, version, plural, handle in (
        (names.GROUP, names.VERSION, names.BENCHMARK_PLURAL, handlers.benchmark),
        (names.GROUP, names.VERSION, names.SCHEDULE_PLURAL, handlers.schedule),
        (names.GROUP, names.VERSION, names.POOL_PLURAL, handlers.pool),
        ("batch", "v1", "jobs", handlers.gang),
        ("", "v1", "pods", handlers.gang),
    ):
        kopf.on.event(group, version, plural, registry=registered)(_on_the_loop(handle))
    kopf.on.login(registry=registered)(log_in)
    return registered


def _on_the_loop(handle: Callable[[Any], None]) -> Callable[..., Awaitable[None]]:
    """Only what is asynchronous is called by kopf in the loop and not in a thread."""

    async def on_event(event: Any, **_: Any) -> None:
        handle(event)

    return on_event


def kopf_settings(options: settings.Settings) -> kopf.OperatorSettings:
    """Kopf as a watcher that writes nothing."""
    configured = kopf.OperatorSettings()
    configured.posting.enabled = False
    configured.peering.standalone = True
    # Nor does it read what it would have written: annotations of these names, which anybody may set, would have to be
    # JSON.
    configured.persistence.diffbase_storage = kopf.MultiDiffBaseStorage([])
    configured.persistence.progress_storage = kopf.MultiProgressStorage([])
    configured.scanning.disabled = True  # else it lists and watches CRDs and namespaces, and needs the permission
    configured.watching.label_selectors["batch", "v1", "jobs"] = _SELECTOR
    configured.watching.label_selectors["", "v1", "pods"] = _SELECTOR
    configured.watching.chunk_size = 500
    configured.queueing.exit_timeout = 0.2  # a handler only puts a key into a queue: nothing to wait for at the end
    configured.networking.error_backoffs = Backoffs()
    configured.networking.request_timeout = options.request_seconds
    return configured


async def connection(credentials: configuration.Configuration) -> kopf.ConnectionInfo:
    """The credentials in kopf's words; called again when the API server refuses them (a rotated token)."""
    header = await credentials.get_api_key_with_prefix("BearerToken")
    scheme, _, token = (header or "").rpartition(" ")
    return kopf.ConnectionInfo(
        server=credentials.host,
        ca_path=credentials.ssl_ca_cert,
        ca_data=credentials.ca_cert_data if not credentials.ssl_ca_cert else None,
        insecure=not credentials.verify_ssl,
        scheme=scheme or None,
        token=token or None,
        certificate_path=credentials.cert_file,
        private_key_path=credentials.key_file,
        trust_env=True,  # proxies, as the other client does
    )
