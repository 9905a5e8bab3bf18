# SPDX-License-Identifier: Apache-2.0
"""Who is no pod of the gang gets nothing from it: real launchers, real Horovod, and somebody who knocks.

A pod of these tests has an address of its own in 127.0.0.0/8. Its ranks come from 127.0.0.1, as everything of this
machine does that binds no address; a stranger binds one that nobody has joined from.
"""

import http.client
import socket

import psutil
import pytest

from gangs import Pod, Pods, make_assignment
from gpubench import names
from gpubench.exitcodes import ExitCode
from gpubench_jobs.engines import launch
from gpubench_jobs.launcher import barrier

pytestmark = pytest.mark.usefixtures("horovod")

STRANGER = "127.9.9.9"
WITH_TOKEN = {names.ENV_GANG_TOKEN: "0" * 64}


def ask(pod: Pod, port: int, path: str, *, source: str, method: str = "GET") -> int:
    return said_at((pod.address, port), path, source=source, method=method)


def said_at(place: tuple[str, int], path: str, *, source: str | None, method: str = "GET") -> int:
    connection = http.client.HTTPConnection(*place, timeout=10, source_address=(source, 0) if source else None)
    body = b"forged" if method == "PUT" else None
    connection.request(method, path, body=body, headers={"X-Gang": "guessed", "X-Pod": "1"})
    status = connection.getresponse().status
    connection.close()
    return status


def test_the_rendezvous_lets_in_pods_that_joined_and_their_ranks() -> None:
    """What ranks do in hvd.init(): they put their addresses, and get each other's until all are there."""
    book = barrier.Membership(gang="t-1", pods=2)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    place = ("127.7.7.1", port)
    launch.serve_rendezvous(address=place[0], port=port, hosts=2, slots=1, admits=book.admits)
    assert said_at(place, "/global/0", source=None, method="PUT") == 403, "nobody has joined"
    book.join(address=place[0])
    book.join(1, address="127.7.7.2")
    for source in (None, place[0], "127.7.7.2"):
        assert said_at(place, "/global/0", source=source, method="PUT") == 200
        assert said_at(place, "/global/0", source=source) == 200
    for method in ("GET", "PUT", "DELETE"):
        assert said_at(place, "/global/0", source=STRANGER, method=method) == 403
    assert said_at(place, "/", source=None, method="HEAD") == 405, "its base class shows files"


def test_a_gang_with_a_token_trains_and_a_stranger_gets_nothing_from_it(pods: Pods) -> None:
    first, second = pods.gang(make_assignment(workers=2, measure_seconds=3600.0), environment=WITH_TOKEN, fresh=True)
    first.wait_for_windows()
    rendezvous, meeting = names.PORT_RENDEZVOUS, names.PORT_BARRIER
    methods = ("GET", "PUT", "DELETE")
    assert [ask(first, rendezvous, "/a/b", source=STRANGER, method=method) for method in methods] == [403] * 3
    assert ask(first, rendezvous, "/a/b", source=second.address) == 404, "a pod that joined is heard: no such key"
    assert ask(first, rendezvous, "/a/b", source="127.0.0.1") == 404, "and so are its ranks"
    assert ask(first, rendezvous, "/etc", source=second.address, method="HEAD") == 405, "nor does anybody see files"
    assert ask(first, meeting, "/state", source=STRANGER) == 401
    assert ask(first, meeting, "/failed", source=STRANGER, method="POST") == 401
    assert [pod.process.poll() for pod in (first, second)] == [None, None]
    for pod in (first, second):
        assert names.ENV_GANG_TOKEN in psutil.Process(pod.process.pid).environ()
        (rank,) = pod.workers()
        assert names.ENV_GANG_TOKEN not in rank.environ(), "the token is for launchers"


@pytest.mark.parametrize(
    ("token", "said"), [({}, "is not signed"), ({names.ENV_GANG_TOKEN: "1" * 64}, "signed with another token")]
)
def test_a_pod_without_the_studys_token_never_joins_and_says_why(pods: Pods, token: dict[str, str], said: str) -> None:
    assignment = make_assignment(workers=2, join_timeout_seconds=4)
    first = pods.start(assignment, index=0, environment=WITH_TOKEN)
    second = pods.start(assignment, index=1, environment=token)
    assert (first.wait(), second.wait()) == (ExitCode.JOIN_TIMEOUT, ExitCode.JOIN_TIMEOUT)
    assert "1 of 2 are here, missing: pod 1" in first.failure.sentence
    assert said in second.failure.sentence
