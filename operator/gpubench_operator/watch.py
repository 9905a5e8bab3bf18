# SPDX-License-Identifier: Apache-2.0
"""Events of the API server, turned into keys in the queue; and kopf, which watches.

Only `on.event` handlers: others would write annotations, finalizers and peering objects, and conflict with guarded
patches. A handler neither decides nor asks anything: what an event says may be old before it is read.
"""

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import kopf
from kubernetes.aio.client import configuration

from gpubench import names
from gpubench.api import messages
from gpubench.scheduler import conditions
from gpubench_cluster import kube
from gpubench_operator import exporter, observe, queue, settings

_COLLECTED_SECONDS = 1.0  # news of a start, and of Jobs: as long as the Job controller collects them
_SELECTOR = f"{names.LABEL_MANAGED_BY}={names.MANAGED_BY},{names.LABEL_COMPONENT}={names.COMPONENT_GANG}"


class Backoffs:
    """Seconds between tries of a watch that fails: for ever, because a server that is away comes back; with jitter."""

    def __iter__(self) -> Iterator[float]:
        for longest in itertools.chain((0.5, 1, 2, 3), itertools.repeat(5)):
            yield longest * random.uniform(0.5, 1.0)


@dataclass(kw_only=True)
class Handlers:
    """What events do: they put keys into the queue. Statuses are our own writing and no reason to reconcile.

    They are asynchronous, as kopf calls all else in a thread. `created` gets benchmarks that came while we watch, until
    something else happens to them.
    """

    wake: Callable[..., None]  # with a key, and the seconds until it is due where it is not at once
    series: exporter.Series
    created: dict[queue.Key, kube.Object]
    nodes: observe.NodeStates
    gone: observe.GonePods

    def __post_init__(self) -> None:
        self._seen: dict[queue.Key, tuple[str, int]] = {}  # UID and generation that were last put into the queue
        self._recorded = set[str]()  # UIDs of Jobs

    async def benchmark(self, event: Any, **_: Any) -> None:
        """A benchmark came, changed or went. A run of a schedule that has ended may let the next one start."""
        body, is_gone = event["object"], event["type"] == "DELETED"
        key, metadata = queue.key_of(queue.Kind.BENCHMARK, body), body["metadata"]
        schedule = (metadata.get("labels") or {}).get(names.LABEL_SCHEDULE)
        if schedule and (is_gone or is_settled(body)):
            self.wake(queue.Key(queue.Kind.SCHEDULE, key.namespace, schedule))
        is_news = self._is_news(key, event)
        self.created.pop(key, None)
        if is_gone:
            self.series.drop(key)
            self.wake(key)
            return
        self.series.observe(key, body)
        if has_work(key, body, self.series) and (is_news or "deletionTimestamp" in metadata):
            if is_news and event["type"] == "ADDED" and not body.get("status"):
                self.created[key] = body
            self.wake(key)

    async def schedule(self, event: Any, **_: Any) -> None:
        key = queue.key_of(queue.Kind.SCHEDULE, event["object"])
        if self._is_news(key, event):
            self.wake(key)

    async def gang(self, event: Any, **_: Any) -> None:
        """A Job, or a pod of one, changed. News of a start, and of Jobs, is collected: pods tell of ends first."""
        body, metadata, job = event["object"], event["object"]["metadata"], observe.job_of(event["object"])
        if is_gone := event["type"] == "DELETED":
            self.gone.note(body)
        if is_over := not observe.may_matter(body):  # a pod that has ended, or a Job that is recorded as well
            if not job:
                (self._recorded.discard if is_gone else self._recorded.add)(metadata["uid"])
            if not job or job in self._recorded:
                return  # they go when their time to live is over
        is_counted = is_over and not metadata.get("finalizers")  # which the Job controller takes away
        ends = is_gone or is_over or "deletionTimestamp" in metadata or observe.condition(body, "DisruptionTarget")
        key = queue.benchmark_key(metadata["namespace"], (metadata.get("labels") or {}).get(names.LABEL_BENCHMARK, ""))
        self.wake(key, 0.0 if ends and job and not is_counted else _COLLECTED_SECONDS)

    async def pool(self, event: Any, **_: Any) -> None:
        """A pool came, changed or went: its status is made anew, and benchmarks that may wait for it are reconciled."""
        if self._is_news(queue.key_of(queue.Kind.POOLS, event["object"]), event):
            self.wake(queue.POOLS)
            if event["type"] != "DELETED":
                self.wake(queue.RESYNC)

    async def node(self, event: Any, **_: Any) -> None:
        """A node came, reported or went: a benchmark with a gang there is reconciled when that is good or bad news."""
        if event["type"] == "DELETED":
            self.nodes.forget(kube.name_of(event["object"]))
        else:
            self.nodes.note([event["object"]])
        for key in sorted(self.nodes.affected()):
            self.wake(key)

    def _is_news(self, key: queue.Key, event: Any) -> bool:
        """Whether the object is gone, another one, or of another generation than when this was asked last."""
        if event["type"] == "DELETED":
            self._seen.pop(key, None)
            return True
        metadata = event["object"]["metadata"]
        identity = (metadata["uid"], metadata.get("generation", 1))
        before, self._seen[key] = self._seen.get(key), identity
        return before != identity


def is_settled(body: kube.Object) -> bool:
    """Whether a benchmark has finished with its figures, and its status speaks of the spec as it is."""
    status, metadata = body.get("status") or {}, body["metadata"]
    if "deletionTimestamp" in metadata or status.get("observedGeneration") != metadata.get("generation", 1):
        return False
    finished = kube.condition(body, conditions.FINISHED)
    return finished is not None and finished.get("reason") != messages.ANALYSIS_FAILED.reason


def has_work(key: queue.Key, body: kube.Object, series: exporter.Series) -> bool:
    """Whether a benchmark is under way, has no series yet although it should, or is to be deleted some day."""
    expires = (body.get("spec") or {}).get("ttlSecondsAfterFinished") is not None
    return expires or not is_settled(body) or series.lacks(key, body)


def registry(handlers: Handlers, credentials: configuration.Configuration) -> kopf.OperatorRegistry:
    """What kopf watches, and how it logs in: with the same credentials as everything else here."""
    registered = kopf.OperatorRegistry()
    for group, version, plural, handle in (
        (names.GROUP, names.VERSION, names.BENCHMARK_PLURAL, handlers.benchmark),
        (names.GROUP, names.VERSION, names.SCHEDULE_PLURAL, handlers.schedule),
        (names.GROUP, names.VERSION, names.POOL_PLURAL, handlers.pool),
        ("batch", "v1", "jobs", handlers.gang),
        ("", "v1", "pods", handlers.gang),
        ("", "v1", "nodes", handlers.node),
    ):
        kopf.on.event(group, version, plural, registry=registered)(handle)

    @kopf.on.login(registry=registered)
    async def log_in(**_unused: Any) -> kopf.ConnectionInfo:
        """The credentials in kopf's words; called again when the API server refuses them (a rotated token)."""
        scheme, _, token = (await credentials.get_api_key_with_prefix("BearerToken") or "").rpartition(" ")
        return kopf.ConnectionInfo(
            server=credentials.host,
            ca_path=credentials.ssl_ca_cert,
            ca_data=credentials.ca_cert_data if not credentials.ssl_ca_cert else None,
            insecure=not credentials.verify_ssl,
            scheme=scheme or None,
            token=token or None,
            certificate_path=credentials.cert_file,
            private_key_path=credentials.key_file,
            trust_env=kube.trusts_environment(credentials.host),
        )

    return registered


def kopf_settings(options: settings.Settings) -> kopf.OperatorSettings:
    """Kopf as a watcher that writes nothing."""
    configured = kopf.OperatorSettings()
    configured.posting.enabled = False
    configured.peering.standalone = True
    # Nor does it read what it would have written: anybody may set annotations of these names that are no JSON.
    configured.persistence.diffbase_storage = _NoDiffs([])
    configured.persistence.progress_storage = kopf.MultiProgressStorage([])
    configured.scanning.disabled = True  # else it lists and watches CRDs and namespaces, and needs the permission
    configured.watching.label_selectors["batch", "v1", "jobs"] = _SELECTOR
    configured.watching.label_selectors["", "v1", "pods"] = _SELECTOR
    configured.watching.chunk_size = 50  # a token that expires ends kopf, and `main.keep_watching` begins anew
    configured.process.ultimate_exiting_timeout = None  # else it kills this process ten minutes after it has ended
    configured.queueing.exit_timeout = 0.2  # a handler only puts a key into a queue: nothing to wait for at the end
    configured.queueing.idle_timeout = 0.1  # as long a worker keeps the last object that it saw: at the start all
    configured.networking.error_backoffs = Backoffs()
    configured.networking.request_timeout = options.request_seconds
    return configured


class _NoDiffs(kopf.MultiDiffBaseStorage):
    """Nothing here asks what has changed; copying each object for that took a tenth of the operator's time."""

    def build(self, **_: Any) -> Any:
        return {}
