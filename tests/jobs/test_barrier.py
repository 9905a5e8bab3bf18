# SPDX-License-Identifier: Apache-2.0
"""The barrier over real sockets of the loopback network."""

import pytest

from gangs import wait_until
from gpubench_jobs import barrier

FAULT = barrier.Fault(pod=1, rank=1, exit_code=80, sentence="it broke")


def serve(*, gang: str = "t-1", pods: int = 3) -> tuple[barrier.Book, int]:
    book = barrier.Book(gang=gang, pods=pods)
    server = barrier.Server(book, address="127.0.0.1", port=0)
    server.start()
    return book, int(server.server_address[1])


def remote(port: int, *, gang: str = "t-1", pod: int = 1, host: str = "127.0.0.1") -> barrier.RemoteGang:
    return barrier.RemoteGang(host=host, port=port, gang=gang, pod=pod, source="127.0.0.1")


def test_every_pod_sees_who_has_joined() -> None:
    book, port = serve()
    remote(port, pod=2).join()
    remote(port, pod=2).join()
    barrier.LocalGang(book).join()
    assert remote(port).state().joined == (0, 2)


def test_only_the_first_failure_is_kept_and_everyone_hears_of_it() -> None:
    book, port = serve()
    for pod in (1, 2):
        remote(port, pod=pod).join()
    remote(port).report(FAULT)
    remote(port, pod=2).report(FAULT.model_copy(update={"pod": 2, "sentence": "an echo"}))
    assert book.state().fault == FAULT
    assert book.everyone_informed()


def test_a_pod_that_has_not_asked_yet_is_not_informed() -> None:
    book, port = serve()
    for pod in (1, 2):
        remote(port, pod=pod).join()
    remote(port).report(FAULT)
    assert not book.everyone_informed()
    remote(port, pod=2).state()
    wait_until(book.everyone_informed)  # the answer is sent before it is kept that it was


def test_done_is_kept_per_pod() -> None:
    book, port = serve()
    remote(port, pod=2).done()
    barrier.LocalGang(book).done()
    wait_until(lambda: book.state().done == (0, 2))  # it is answered before it is kept: see the server


@pytest.mark.parametrize("stranger", [{"gang": "t-2"}, {"pod": 3}])
def test_a_stranger_is_refused_and_leaves_no_trace(stranger: dict[str, object]) -> None:
    book, port = serve()
    with pytest.raises(barrier.Refused):
        remote(port, **stranger).join()  # type: ignore[arg-type]
    assert book.state() == barrier.State()


@pytest.mark.parametrize("host", ["127.0.0.1", "no-such-host.invalid"])
def test_nobody_there_is_an_answer_to_try_again(host: str) -> None:
    with pytest.raises(barrier.Unreachable, match="pod 0"):
        remote(1, host=host).join()


def test_the_address_is_looked_up_once() -> None:
    _, port = serve()
    gang = remote(port, host="localhost")
    with pytest.raises(barrier.Unreachable):
        _ = gang.address
    gang.join()
    assert gang.address == "127.0.0.1"


def test_the_barrier_takes_a_crowd() -> None:
    pods = 300
    book, port = serve(pods=pods)
    for pod in range(pods):
        remote(port, pod=pod).join()
    assert len(book.state().joined) == pods
