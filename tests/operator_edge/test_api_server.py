# SPDX-License-Identifier: Apache-2.0
"""The client against a real API server, and against servers that answer badly."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from kubernetes.aio import config as kube_config
from kubernetes.aio.client import configuration

import builders
import studies
from cluster import Cluster
from gpubench.scheduler import ledger
from gpubench_cluster import kube
from gpubench_operator import storage

SILENCE_SECONDS = 2.0  # of a server that never answers; a real one may be slow for longer on a loaded machine
REAL_SECONDS = 30.0
GARBAGE_SECONDS = 30.0  # it takes less than one; a loaded machine takes longer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def connected(
    configured: configuration.Configuration, *, seconds: float, pace: kube.Pace | None = None
) -> AsyncIterator[kube.Kube]:
    tested = kube.Kube(configured, manager="tests", timeout=seconds, pace=pace)
    try:
        yield tested
    finally:
        await tested.close()


@contextlib.asynccontextmanager
async def real(cluster: Cluster) -> AsyncIterator[kube.Kube]:
    configured = configuration.Configuration()
    await kube_config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(cluster.kubeconfig), client_configuration=configured
    )
    async with connected(configured, seconds=REAL_SECONDS) as tested:
        yield tested


@contextlib.asynccontextmanager
async def served(answer: Handler) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def answering(answer: Handler) -> AsyncIterator[kube.Kube]:
    configured = configuration.Configuration()
    async with served(answer) as configured.host, connected(configured, seconds=SILENCE_SECONDS) as tested:
        yield tested


def config_map(name: str, **data: str) -> kube.Object:
    metadata = {"name": name, "namespace": "default", "labels": {"test": "api-server"}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


async def until_gone(tested: kube.Kube, name: str) -> None:
    """Foreground deletion ends with the garbage collector, which is another process."""
    async with asyncio.timeout(GARBAGE_SECONDS):
        while await tested.get(kube.CONFIG_MAPS, name=name, namespace="default"):  # noqa: ASYNC110  # no event of ours
            await asyncio.sleep(0.1)


async def test_the_life_of_an_object(control_plane: Cluster) -> None:
    async with real(control_plane) as tested:
        created = await tested.create(kube.CONFIG_MAPS, config_map("life", a="1"))
        assert created is not None
        assert await tested.create(kube.CONFIG_MAPS, config_map("life")) is None
        stale = {"metadata": {"resourceVersion": kube.version_of(created)}, "data": {"b": "2"}}
        patched = await tested.patch(kube.CONFIG_MAPS, stale, name="life", namespace="default")
        assert patched is not None
        assert patched["data"] == {"a": "1", "b": "2"}
        with pytest.raises(kube.TemporaryError):
            await tested.patch(kube.CONFIG_MAPS, {**stale, "data": {"b": "3"}}, name="life", namespace="default")
        assert not await tested.delete(kube.CONFIG_MAPS, name="life", namespace="default", uid="another")
        uid = kube.uid_of(created)
        assert await tested.delete(kube.CONFIG_MAPS, name="life", namespace="default", uid=uid)
        await until_gone(tested, "life")
        assert not await tested.delete(kube.CONFIG_MAPS, name="life", namespace="default", uid=uid)
        assert await tested.patch(kube.CONFIG_MAPS, {"data": {}}, name="life", namespace="default") is None


async def test_of_a_log_no_more_is_taken_than_was_asked_for() -> None:
    async def answer(request: web.Request) -> web.Response:
        if "gone" in request.path:
            return web.json_response({"kind": "Status", "message": "not found"}, status=404)
        assert request.path == "/api/v1/namespaces/default/pods/pod-0/log"
        assert dict(request.query) == {"container": "gang", "limitBytes": "8"}
        return web.Response(body=b"caf\xc3\xa9 \xff and more than that")

    async with answering(answer) as tested:
        head = await tested.log_head(pod="pod-0", namespace="default", container="gang", limit=8)
        assert head == "café \ufffd "
        assert await tested.log_head(pod="gone", namespace="default", container="gang", limit=8) is None


async def test_no_object_has_an_empty_name_whose_path_is_that_of_the_list() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": []})

    async with answering(answer) as tested:
        assert await tested.get(kube.JOBS, name="", namespace="default") is None


async def test_long_lists_come_whole_and_without_their_content_where_that_is_asked(control_plane: Cluster) -> None:
    async with real(control_plane) as tested:
        names = [f"many-{number}" for number in range(520)]
        for name in names:
            body = config_map(name, a="1")
            body["metadata"]["labels"] = {"test": "many"}
            await tested.create(kube.CONFIG_MAPS, body)
        found = await tested.list(kube.CONFIG_MAPS, namespace="default", labels={"test": "many"}, metadata_only=True)
        assert sorted(kube.name_of(body) for body in found) == sorted(names)
        assert not any("data" in body for body in found)


async def test_an_attempt_that_a_queue_evicts_thousands_of_times_stays_in_its_ledger(served_api: Cluster) -> None:
    """Of 64 pods, 500 evictions would be more than a ConfigMap can hold."""
    made = served_api.request("POST", kube.BENCHMARKS.path(namespace="default"), studies.benchmark("evicted"))
    study = builders.study(name="evicted", uid=kube.uid_of(made))
    nodes = tuple(f"gke-cluster-a100-spot-pool-3f2a{pod:04}" for pod in range(64))
    runs: tuple[ledger.Segment, ...] = ()
    async with real(served_api) as tested:
        store = storage.Store(tested)
        await store.freeze(study, builders.plan())
        for number in range(2000):
            began = 100.123 * number
            times = ((began + 1.234, began + 9.876, began + 90.5),) * 64
            run = ledger.Segment(admitted_at=began, ended_at=began + 90.5, nodes=nodes, pod_times=times)
            runs = ledger.folded((*runs, run))
            if number % 500 == 499:
                going_on = {"outcome": None, "ended_at": None, "reason": None, "sentence": None}
                await store.append(study, [builders.attempt(segments=runs, **going_on)])
        (found,) = (await storage.Store(tested).read(study)).recorded.records
        await tested.delete(kube.BENCHMARKS, name="evicted", namespace="default", uid=study.uid)
    assert sum(max(one.summed, 1) for one in found.segments) == 2000


async def test_what_the_server_refuses_is_never_tried_again_with_its_words(control_plane: Cluster) -> None:
    async with real(control_plane) as tested:
        with pytest.raises(kube.PermanentError, match=r"(?s)Invalid value.*code 422") as caught:
            await tested.create(kube.CONFIG_MAPS, config_map("Not_A_Name"))
        assert caught.value.code == 422


@pytest.mark.parametrize(
    ("status", "headers", "delay"),
    [
        (429, {"Retry-After": "7"}, 7.0),
        (429, {}, None),
        (500, {}, None),
        (503, {"Retry-After": "2"}, 2.0),
        (410, {}, 0.2),
        (409, {}, 0.2),
        (401, {}, 2.0),
        (408, {}, None),
        (413, {}, None),
        (425, {"Retry-After": "3"}, 3.0),
        (400, {}, None),  # no Status object: a proxy said it
        (404, {}, None),
    ],
)
async def test_what_may_pass_is_a_retry_with_the_delay_asked_for(
    status: int, headers: dict[str, str], delay: float | None
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, headers=headers, text="<html>not json</html>")

    async with answering(answer) as tested:
        with pytest.raises(kube.TemporaryError) as caught:
            await tested.list(kube.JOBS)
        assert caught.value.delay == delay


@pytest.mark.parametrize("body", ["", '{"items": [', "<html></html>", "null", "[]", '{"kind": "Status"}'])
async def test_an_answer_that_is_no_object_of_its_kind_is_a_retry_and_never_an_empty_list(body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body, content_type="application/json")

    async with answering(answer) as tested:
        for ask in (
            tested.list(kube.JOBS),
            tested.get(kube.JOBS, name="x", namespace="default"),
            tested.create(kube.CONFIG_MAPS, config_map("x")),
            tested.served("batch/v1"),
            tested.preferred_version("batch"),
        ):
            with pytest.raises(kube.TemporaryError, match="the answer is no object with"):
                await ask


async def test_a_list_that_expires_in_the_middle_begins_anew_in_one_chunk() -> None:
    asked: list[dict[str, str]] = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(dict(request.query))
        if "continue" in request.query:
            status = {"kind": "Status", "reason": "Expired", "code": 410, "message": "too old"}
            return web.json_response(status, status=410)
        more = "next" if "limit" in request.query else ""
        items = [{"metadata": {"name": name}} for name in ("a", "b")[: 1 if more else 2]]
        return web.json_response({"metadata": {"continue": more}, "items": items})

    async with answering(answer) as tested:
        assert [kube.name_of(body) for body in await tested.list(kube.JOBS)] == ["a", "b"]
        kept = await tested.list(kube.JOBS, keep=lambda body: kube.name_of(body) == "b")
        assert [kube.name_of(body) for body in kept] == ["b"]
    assert asked[:3] == [{"limit": "50"}, {"limit": "50", "continue": "next"}, {}]


async def test_what_is_too_large_says_its_size() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=413)

    async with answering(answer) as tested:
        with pytest.raises(kube.TemporaryError, match=r"create configmaps of 1,0\d\d bytes: .*code 413") as caught:
            await tested.create(kube.CONFIG_MAPS, config_map("large", a="x" * 900))
        assert caught.value.code == kube.TOO_LARGE


def test_a_burst_goes_at_once_and_then_so_many_a_second() -> None:
    now = 100.0
    pace = kube.Pace(10, 3, clock=lambda: now)
    assert [round(pace.take(), 3) for _ in range(5)] == [0, 0, 0, 0.1, 0.2]
    now += 0.2 + 0.3  # what was taken in advance has come, and a whole burst
    assert [round(pace.take(), 3) for _ in range(4)] == [0, 0, 0, 0.1]
    now += 3600
    assert [round(pace.take(), 3) for _ in range(4)] == [0, 0, 0, 0.1], "a silence saves no more than a burst"


async def test_requests_wait_for_their_turn() -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"items": []})

    pace = kube.Pace(4, 1)
    configured = configuration.Configuration()
    async with served(answer) as configured.host, connected(configured, seconds=SILENCE_SECONDS, pace=pace) as tested:
        began = time.monotonic()
        await tested.list(kube.JOBS)
        await tested.list(kube.JOBS)
        assert time.monotonic() - began > 0.2


async def test_a_server_that_says_nothing_is_a_retry_after_the_time_out() -> None:
    async def answer(_: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with answering(answer) as tested:
        with pytest.raises(kube.TemporaryError, match="no answer"):
            await tested.list(kube.JOBS)


async def test_a_server_that_is_away_is_a_retry() -> None:
    configured = configuration.Configuration()
    configured.host = "http://127.0.0.1:9"
    async with connected(configured, seconds=SILENCE_SECONDS) as tested:
        with pytest.raises(kube.TemporaryError, match="no answer"):
            await tested.get(kube.JOBS, name="x", namespace="default")


@pytest.mark.parametrize(
    ("host", "reason"),
    [
        ("https://10.255.255.1:6443", "the proxy 127.0.0.1:9: Connection refused"),
        ("https://127.0.0.1.example.com", "the proxy 127.0.0.1:9: Connection refused"),
        ("https://127.0.0.2:9", "Connection refused"),
        ("https://localhost:9", "Connection refused"),
        ("https://[::1]:9", "Connection refused"),
        ("https://LOCALHOST:9", "Connection refused"),
        ("https://[0:0:0:0:0:0:0:1]:9", "Connection refused"),
    ],
)
async def test_a_proxy_that_is_away_is_named_and_is_for_no_server_on_this_machine(
    host: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    configured = configuration.Configuration()
    configured.host = host
    async with connected(configured, seconds=SILENCE_SECONDS) as tested:
        with pytest.raises(kube.TemporaryError) as refusal:
            await tested.get(kube.JOBS, name="x", namespace="default")
    assert refusal.value.reason == reason


async def test_a_token_that_has_ended_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of a cloud's exec plugin do, long before a `watch` is over."""
    sent: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        sent.append(request.headers["Authorization"])
        return web.json_response({"items": []})

    credential = (
        '{"apiVersion": "v1", "kind": "E", "status": {"token": "t%d", "expirationTimestamp": "%s-01-01T00:00:00Z"}}'
    )
    counted = f"echo >> {tmp_path}/asked; printf '{credential}' $(wc -l < {tmp_path}/asked)"
    monkeypatch.setattr("kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "config"))
    for year, tokens in (("2020", ["Bearer t2", "Bearer t3"]), ("2999", ["Bearer t4", "Bearer t4"])):
        async with served(answer) as host:
            user = {"exec": {"apiVersion": "v1", "command": "sh", "args": ["-c", f"{counted} {year}"]}}
            document = {
                "current-context": "c",
                "clusters": [{"name": "c", "cluster": {"server": host}}],
                "users": [{"name": "u", "user": user}],
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "mine"}}],
            }
            (tmp_path / "config").write_text(yaml.safe_dump(document))
            credentials, namespace = await kube.credentials()
            async with connected(credentials, seconds=SILENCE_SECONDS) as tested:
                await tested.list(kube.JOBS)
                await tested.list(kube.JOBS)
        assert (namespace, sent) == ("mine", tokens)
        sent.clear()


def test_no_name_leads_out_of_its_path() -> None:
    path = kube.PODS.path(namespace="a", name="../b?c", subresource="log")
    assert path == "/api/v1/namespaces/a/pods/..%2Fb%3Fc/log"
    assert kube.PODS.path() == "/api/v1/pods"


async def test_exactly_the_pod_that_was_meant_is_evicted(control_plane: Cluster) -> None:
    container = {"name": "main", "image": "none"}
    pod = {"metadata": {"name": "evicted", "namespace": "default"}, "spec": {"containers": [container]}}
    async with real(control_plane) as tested:
        created = await tested.create(kube.PODS, {"apiVersion": "v1", "kind": "Pod", **pod})
        assert created is not None
        assert not await tested.evict(pod="evicted", namespace="default", uid="another")
        assert await tested.get(kube.PODS, name="evicted", namespace="default")
        assert await tested.evict(pod="evicted", namespace="default", uid=kube.uid_of(created))
        assert await tested.get(kube.PODS, name="evicted", namespace="default") is None  # it had no node to leave
        assert not await tested.evict(pod="evicted", namespace="default", uid=kube.uid_of(created))


async def test_an_eviction_that_is_not_granted_now_is_one_for_later() -> None:
    async def answer(request: web.Request) -> web.Response:
        assert request.path == "/api/v1/namespaces/default/pods/p/eviction"
        eviction = await request.json()
        assert (eviction["kind"], eviction["deleteOptions"]) == ("Eviction", {"preconditions": {"uid": "u"}})
        status = {"kind": "Status", "message": "Cannot evict pod as it would violate the pod's disruption budget."}
        return web.json_response(status, status=429, headers={"Retry-After": "10"})

    async with answering(answer) as tested:
        with pytest.raises(kube.TemporaryError, match="disruption budget") as refusal:
            await tested.evict(pod="p", namespace="default", uid="u")
    assert refusal.value.delay == 10
