# SPDX-License-Identifier: Apache-2.0
"""Scrapes by HTTPS, and by those only whom the API server lets: real certificates, real tokens, real reviews."""

import asyncio
import gzip
import shutil
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import Mock

import aiohttp
import prometheus_client
import pytest

from cluster import Cluster
from gpubench_cluster import kube
from gpubench_operator import exporter, main, server, settings
from memory_kube import MemoryKube
from memory_world import Clock

CONFIGURED = "kubernetes.aio.config.kube_config.KUBE_CONFIG_DEFAULT_LOCATION"  # read when it is imported
NAMESPACE = "scrapes"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class Answer(NamedTuple):
    status: int
    text: str
    challenge: str  # which credentials are asked for


def make_pair(folder: Path, *options: str) -> Path:
    """A self-signed certificate for 127.0.0.1, and its key, as a Secret of type kubernetes.io/tls has them."""
    folder.mkdir()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-days", "2"]
    command += ["-subj", "/CN=operator", "-addext", "subjectAltName=IP:127.0.0.1", *(options or ("-nodes",))]
    files = ["-keyout", str(folder / "tls.key"), "-out", str(folder / "tls.crt")]
    subprocess.run([*command, *files], check=True, capture_output=True)
    return folder


async def scrape(port: int, trusted: Path, *, token: str = "", page: str = "metrics") -> Answer:
    """By a connection of its own: what was trusted before is not asked again."""
    context = ssl.create_default_context(cafile=str(trusted / "tls.crt"))
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    address = f"https://127.0.0.1:{port}/{page}"
    async with aiohttp.ClientSession() as session, session.get(address, ssl=context, headers=headers) as answer:
        return Answer(answer.status, await answer.text(), answer.headers.get("WWW-Authenticate", ""))


@asynccontextmanager
async def serving(folder: Path, review: server.Reviews | None = None) -> AsyncIterator[int]:
    """The port of a server with this certificate."""
    registry = prometheus_client.CollectorRegistry()
    exporter.Health(registry)
    served = server.Server(
        registry,
        exporter.Series(),
        healthy=lambda: (True, "leading"),
        ready=lambda: (True, "connected"),
        certificate=server.Certificate(folder),
        review=review,
    )
    try:
        yield await served.start(address="127.0.0.1", port=0)
    finally:
        await served.stop()


@pytest.mark.parametrize("asked", ["gzip", "identity"])
async def test_a_page_is_compressed_where_the_scrape_asks_for_it(tmp_path: Path, asked: str) -> None:
    pair = make_pair(tmp_path / "pair")
    async with serving(pair) as port, aiohttp.ClientSession(auto_decompress=False) as session:
        context, address = ssl.create_default_context(cafile=str(pair / "tls.crt")), f"https://127.0.0.1:{port}/metrics"
        async with session.get(address, ssl=context, headers={"Accept-Encoding": asked}) as answer:
            page, encoding = await answer.read(), answer.headers.get("Content-Encoding")
    assert encoding == ("gzip" if asked == "gzip" else None)
    assert b"gpubench_operator" in (gzip.decompress(page) if asked == "gzip" else page)


async def test_a_rotated_certificate_is_served_and_one_that_is_half_written_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = make_pair(tmp_path / "first"), make_pair(tmp_path / "second")
    shutil.copytree(first, mounted := tmp_path / "mounted")
    async with serving(mounted) as port:
        assert "gpubench_operator" in (await scrape(port, first)).text
        shutil.copy(second / "tls.crt", mounted)
        for _ in range(2):
            assert (await scrape(port, first)).status == 200, "the key is still that of the first"
        assert caplog.text.count("certificate not read, the one of before stays") == 1
        shutil.copy(second / "tls.key", mounted)
        assert (await scrape(port, second)).status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await scrape(port, first)
        shutil.rmtree(mounted)
        assert (await scrape(port, second)).status == 200


async def test_a_certificate_is_read_again_after_an_error_that_is_not_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = make_pair(tmp_path / "first"), make_pair(tmp_path / "second")
    shutil.copytree(first, mounted := tmp_path / "mounted")
    async with serving(mounted) as port:
        for name in ("tls.crt", "tls.key"):
            shutil.copy(second / name, mounted)
        with monkeypatch.context() as patched:
            patched.setattr(server.Certificate, "_read", Mock(side_effect=OSError(24, "Too many open files")))
            assert (await scrape(port, first)).status == 200
        assert (await scrape(port, second)).status == 200


@pytest.mark.parametrize("wrong", ["absent", "of-another-key", "with-a-password"])
async def test_a_certificate_that_cannot_be_used_at_the_start_ends_the_operator_with_a_sentence(
    wrong: str,
    tmp_path: Path,
    control_plane: Cluster,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / wrong
    if wrong == "of-another-key":
        shutil.copy(make_pair(tmp_path / "other") / "tls.key", make_pair(folder))
    elif wrong == "with-a-password":
        make_pair(folder, "-passout", "pass:secret")
    monkeypatch.setattr(CONFIGURED, str(control_plane.kubeconfig))
    options = settings.load({"GPUBENCH_METRICS_TLS_FOLDER": str(folder), "GPUBENCH_METRICS_PORT": "0"})
    async with asyncio.timeout(60):
        assert await main.run(options) == 2
    assert f"GPUBENCH_METRICS_TLS_FOLDER={folder}: " in caplog.records[-1].__dict__["error"]


def account(cluster: Cluster, name: str) -> str:
    """A token of a new ServiceAccount."""
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    cluster.request("POST", accounts, {"metadata": {"name": name}})
    asked = {"spec": {"expirationSeconds": 3600}}
    return str(cluster.request("POST", f"{accounts}/{name}/token", asked)["status"]["token"])


def bind(cluster: Cluster, name: str, role: str) -> None:
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    body = {"metadata": {"name": f"{NAMESPACE}-{name}"}, "roleRef": reference, "subjects": [subject]}
    cluster.request("POST", f"{RBAC}/clusterrolebindings", body)


class Reviewers(MemoryKube):
    """An API server that knows some tokens, and answers when it is let."""

    def __init__(self, *, users: Mapping[str, Mapping[str, Any]], reader: str) -> None:
        super().__init__(Clock())
        self.users, self.reader, self.answers = users, reader, asyncio.Event()
        self.asked: list[tuple[str, kube.Object]] = []
        self.answers.set()

    async def create(self, resource: kube.Resource, body: kube.Object) -> kube.Object | None:
        self.asked.append((resource.plural, body["spec"]))
        await self.answers.wait()
        self._fail()
        if resource == kube.TOKEN_REVIEWS:
            user = self.users.get(body["spec"]["token"])
            return {"status": {} if user is None else {"authenticated": True, "user": dict(user)}}
        assert resource == kube.ACCESS_REVIEWS
        return {"status": {"allowed": body["spec"]["user"] == self.reader}}


USERS: dict[str, dict[str, Any]] = {
    "r": {"username": "reader", "uid": "1", "groups": ["g"], "extra": {"a": ["b"]}},
    "o": {"username": "other"},
}
UNKNOWN = (401, "the API server does not know this token")


async def test_a_token_is_reviewed_for_who_it_is_and_whether_he_may_get_the_page() -> None:
    api = Reviewers(users=USERS, reader="reader")
    tested = server.Reviews(api, Clock())
    assert await tested("bearer r") == (200, "")
    wanted = {"path": "/metrics", "verb": "get"}
    asked = {"user": "reader", "uid": "1", "groups": ["g"], "extra": {"a": ["b"]}, "nonResourceAttributes": wanted}
    assert api.asked == [("tokenreviews", {"token": "r"}), ("subjectaccessreviews", asked)]
    assert await tested("Bearer o") == (403, "other may not get the nonResourceURL /metrics")
    assert await tested("Bearer x") == UNKNOWN


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic r", "r", "Bearer München"])
async def test_what_is_no_token_is_not_asked_about(header: str) -> None:
    api = Reviewers(users=USERS, reader="reader")
    status, wrong = await server.Reviews(api, Clock())(header)
    assert (status, api.asked) == (401, [])
    assert wrong == "send the token of a ServiceAccount: Authorization: Bearer TOKEN"


async def test_an_answer_is_known_for_a_minute_and_no_answer_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    api, clock = Reviewers(users=USERS, reader="reader"), Clock()
    tested = server.Reviews(api, clock)
    api.failures = [kube.TemporaryError("no answer")]
    assert await tested("Bearer x") == (503, "the API server does not say who may scrape: no answer")
    assert [one.__dict__["error"] for one in caplog.records if one.message == "scrape not reviewed"] == ["no answer"]
    for seconds, times in ((0.0, 2), (59.9, 2), (60.0, 3)):
        clock.now = Clock().now + seconds
        assert await tested("Bearer x") == UNKNOWN
        assert len(api.asked) == times


async def test_eight_tokens_are_reviewed_at_once_and_further_ones_are_to_come_again() -> None:
    api = Reviewers(users={}, reader="")
    tested = server.Reviews(api, Clock())
    for _ in range(2):
        api.answers.clear()
        scrapes = [asyncio.create_task(tested(f"Bearer {number}")) for number in range(8)]
        await asyncio.sleep(0)
        assert await tested("Bearer late") == (503, "too many tokens are being reviewed: scrape again")
        api.answers.set()
        assert await asyncio.gather(*scrapes) == [UNKNOWN] * 8
        tested._known.clear()


async def test_a_scrape_without_a_token_is_told_what_to_send_and_probes_need_none() -> None:
    review = server.Reviews(Reviewers(users=USERS, reader="reader"), Clock())
    probe = lambda: (True, "well")  # noqa: E731
    served = server.Server(
        prometheus_client.CollectorRegistry(), exporter.Series(), healthy=probe, ready=probe, review=review
    )
    port = await served.start(address="127.0.0.1", port=0)
    try:
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
            async with session.get("/metrics") as answer:
                assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
                assert await answer.text() == "send the token of a ServiceAccount: Authorization: Bearer TOKEN\n"
            for token, status in (("r", 200), ("o", 403)):
                async with session.get("/metrics", headers={"Authorization": f"Bearer {token}"}) as answer:
                    assert (answer.status, "WWW-Authenticate" in answer.headers) == (status, False)
            for page in ("/healthz", "/readyz"):
                async with session.get(page) as answer:
                    assert (answer.status, await answer.text()) == (200, "well\n")
    finally:
        await served.stop()


async def test_who_scrapes_is_asked_of_the_api_server_once_a_minute(
    tmp_path: Path, control_plane: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, folder, clock = control_plane, make_pair(tmp_path / "tls"), Clock(0.0)
    place.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    rule = {"nonResourceURLs": ["/metrics"], "verbs": ["get"]}
    place.request("POST", f"{RBAC}/clusterroles", {"metadata": {"name": f"{NAMESPACE}-reader"}, "rules": [rule]})
    account(place, "operator")
    reader, other = account(place, "reader"), account(place, "other")
    bind(place, "reader", f"{NAMESPACE}-reader")
    monkeypatch.setattr(CONFIGURED, str(place.kubeconfig_for_service_account(NAMESPACE, "operator")))
    asked: list[str] = []
    configured, _ = await kube.credentials()
    api = kube.Kube(
        configured, manager="test", timeout=30.0, count=lambda _, resource, code: asked.append(resource + code)
    )
    async with serving(folder, server.Reviews(api, clock)) as port:
        refused = await scrape(port, folder, token=reader)
        assert refused.status == 503, "it may not ask yet"
        assert 'cannot create resource "tokenreviews"' in refused.text
        bind(place, "operator", "system:auth-delegator")
        deadline = time.monotonic() + 60.0
        while (answer := await scrape(port, folder, token=reader)).status == 503:
            assert time.monotonic() < deadline, answer.text
            await asyncio.sleep(0.1)
        assert answer.status == 200
        assert "gpubench_operator" in answer.text

        asked.clear()
        assert (await scrape(port, folder, token=reader)).status == 200
        clock.now += 59.0
        assert (await scrape(port, folder, token=reader)).status == 200
        assert asked == [], "it is known"
        for token in ("", "München"):
            answer = await scrape(port, folder, token=token)
            assert (answer.status, answer.challenge) == (401, "Bearer")
            assert asked == [], "that is no token"
        answer = await scrape(port, folder, token="x.y.z")  # noqa: S106
        assert (answer.status, answer.text) == (401, "the API server does not know this token\n")
        answer = await scrape(port, folder, token=other)
        assert (answer.status, answer.challenge) == (403, "")
        assert answer.text == f"system:serviceaccount:{NAMESPACE}:other may not get the nonResourceURL /metrics\n"
        assert asked == ["tokenreviews201", "tokenreviews201", "subjectaccessreviews201"]
        assert (await scrape(port, folder, page="healthz")).text == "leading\n", "probes have no token"

        place.request("DELETE", f"{RBAC}/clusterrolebindings/{NAMESPACE}-reader")
        place.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/reader")
        clock.now += 1.0
        deadline = time.monotonic() + 60.0
        while (answer := await scrape(port, folder, token=reader)).status == 200:  # its caches are slower than ours
            assert time.monotonic() < deadline
            clock.now += 60.0
            await asyncio.sleep(0.1)
        assert answer.status in (401, 403)
    await api.close()


async def test_the_settings_switch_both_on(
    tmp_path: Path, control_plane: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_pair(tmp_path / "tls")
    monkeypatch.setattr(CONFIGURED, str(control_plane.kubeconfig))
    configured, _ = await kube.credentials()
    given = {"GPUBENCH_METRICS_TLS_FOLDER": str(folder), "GPUBENCH_METRICS_TOKEN_REVIEW": "true"}
    process = main.Process(settings.load(given), configured, clock=time.time)
    port = await process.server.start(address="::", port=0)
    try:
        assert (await scrape(port, folder, page="healthz")).status == 200
        assert (await scrape(port, folder)).status == 401
        admin = (await configured.get_api_key_with_prefix("BearerToken")).removeprefix("Bearer ")
        assert (await scrape(port, folder, token=admin)).status == 200
    finally:
        await process.server.stop()
        await process.api.close()


def test_no_token_is_asked_for_in_clear_text() -> None:
    with pytest.raises(settings.BadSetting, match="TOKEN_REVIEW needs GPUBENCH_METRICS_TLS_FOLDER"):
        settings.load({"GPUBENCH_METRICS_TOKEN_REVIEW": "true"})
