# SPDX-License-Identifier: Apache-2.0
"""The barrier over real sockets of the loopback network."""

import contextlib
import http.client
import re
import socket
import socketserver
import threading
from pathlib import Path
from typing import ClassVar

import pytest

import gpubench
from gangs import make_assignment, wait_until
from gpubench.exitcodes import ExitCode
from gpubench_jobs.launcher import barrier

FAULT = barrier.Fault(pod=1, rank=1, exit_code=80, sentence="it broke")
OLD = ""  # the work of an image from before there were digests


def serve(*, gang: str = "t-1", pods: int = 3, work: str = OLD) -> tuple[barrier.Membership, int]:
    membership = barrier.Membership(gang=gang, pods=pods, work=work)
    server = barrier.Server(membership, address="127.0.0.1", port=0)
    server.start()
    return membership, int(server.server_address[1])


def remote(
    port: int, *, gang: str = "t-1", pod: int = 1, host: str = "127.0.0.1", work: str = OLD
) -> barrier.RemoteGang:
    return barrier.RemoteGang(host=host, port=port, gang=gang, pod=pod, source="127.0.0.1", work=work)


def test_every_pod_sees_who_has_joined() -> None:
    membership, port = serve()
    remote(port, pod=2).join()
    remote(port, pod=2).join()
    membership.join()
    assert remote(port).state().joined == (0, 2)


def test_only_the_first_failure_is_kept_and_everyone_hears_of_it() -> None:
    membership, port = serve()
    for pod in (1, 2):
        remote(port, pod=pod).join()
    remote(port).report(FAULT)
    remote(port, pod=2).report(FAULT.model_copy(update={"pod": 2, "sentence": "an echo"}))
    assert membership.state().fault == FAULT
    assert membership.everyone_informed()


def test_a_pod_that_has_not_asked_yet_is_not_informed() -> None:
    membership, port = serve()
    for pod in (1, 2):
        remote(port, pod=pod).join()
    remote(port).report(FAULT)
    assert not membership.everyone_informed()
    remote(port, pod=2).state()
    wait_until(membership.everyone_informed)  # the answer is sent before it is kept that it was


def test_done_is_kept_per_pod() -> None:
    membership, port = serve()
    remote(port, pod=2).done()
    membership.done()
    wait_until(lambda: membership.state().done == (0, 2))  # it is answered before it is kept: see the server


@pytest.mark.parametrize(("first", "other"), [("a", "b"), ("a", OLD), (OLD, "a")])
def test_a_pod_that_would_do_other_work_fails_the_gang_with_it(first: str, other: str) -> None:
    membership, port = serve(work=first)
    remote(port, work=first).join()
    with pytest.raises(barrier.OtherWork) as refused:
        remote(port, pod=2, work=other).join()
    fault = membership.state().fault
    assert fault is not None
    assert (fault.pod, fault.exit_code, membership.state().joined) == (2, ExitCode.BAD_ASSIGNMENT, (1,))
    assert str(refused.value) == fault.sentence
    assert fault.sentence.startswith("pod 2 has another image than pod 0, or another assignment: ")


@pytest.mark.parametrize("stranger", [{"gang": "t-2"}, {"pod": 3}])
def test_a_stranger_is_refused_and_leaves_no_trace(stranger: dict[str, object]) -> None:
    membership, port = serve()
    with pytest.raises(barrier.Refused):
        remote(port, **stranger).join()  # type: ignore[arg-type]
    assert membership.state() == barrier.State()


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
    membership, port = serve(pods=pods)
    for pod in range(pods):
        remote(port, pod=pod).join()
    assert len(membership.state().joined) == pods


# --- with the token of a study ----------------------------------------------------------------------------------------

TOKEN, OTHER = "0" * 64, "1" * 64


def guarded(*, pods: int = 3) -> tuple[barrier.Membership, int]:
    membership = barrier.Membership(gang="t-1", pods=pods)
    server = barrier.Server(membership, address="127.0.0.1", port=0, token=TOKEN)
    server.start()
    return membership, int(server.server_address[1])


def pod_with(token: str | None, port: int, **fields: object) -> barrier.RemoteGang:
    given: dict[str, object] = {"host": "127.0.0.1", "port": port, "gang": "t-1", "pod": 1, "source": "127.0.0.1"}
    return barrier.RemoteGang(**given | fields, token=token)  # type: ignore[arg-type]


def test_pods_with_the_token_meet_and_tell_each_other_all() -> None:
    membership, port = guarded()
    one, two = pod_with(TOKEN, port), pod_with(TOKEN, port, pod=2)
    one.join()
    two.join()
    one.report(FAULT)
    assert two.state() == membership.state() == barrier.State(joined=(1, 2), fault=FAULT)
    two.done()
    wait_until(lambda: membership.state().done == (2,))


@pytest.mark.parametrize(
    ("token", "sentence"),
    [(None, "answered 401: .* is not signed"), (OTHER, "answered 403: .* signed with another token")],
    ids=["none", "another"],
)
def test_without_the_token_nothing_is_done_and_nothing_is_told(token: str | None, sentence: str) -> None:
    membership, port = guarded()
    pod_with(TOKEN, port, pod=2).join()
    stranger = pod_with(token, port)
    for say in (stranger.join, stranger.state, stranger.done, lambda: stranger.report(FAULT)):
        with pytest.raises(barrier.Refused, match=sentence):
            say()
    assert membership.state() == barrier.State(joined=(2,))
    assert not membership.admits("127.0.0.2")


def test_the_nonce_is_told_to_nobody_who_cannot_sign() -> None:
    membership, port = guarded()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as knock:
        knock.sendall(b"GET /nonce HTTP/1.0\r\nX-Gang: t-1\r\nX-Pod: 1\r\nX-Signature: guessed\r\n\r\n")
        said = b"".join(iter(lambda: knock.recv(4096), b""))
    assert b" 403 " in said
    assert membership.nonce.encode() not in said


def test_the_work_of_a_gang_is_what_it_is_told_and_all_of_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpubench, "__path__", [str(tmp_path)])
    (tmp_path / "inner").mkdir()
    (file := tmp_path / "inner" / "code.py").write_text("1")
    seen = {barrier.work_of(make_assignment()), barrier.work_of(make_assignment(attempt=2))}
    file.write_text("2")
    seen.add(barrier.work_of(make_assignment()))
    file = file.rename(tmp_path / "code.py")
    seen.add(barrier.work_of(make_assignment()))
    assert len(seen) == 4
    file.with_suffix(".pyc").write_text("3")
    assert barrier.work_of(make_assignment()) in seen


def test_what_another_attempt_of_the_study_says_is_not_believed() -> None:
    membership, port = guarded()
    with pytest.raises(barrier.Refused, match="409"):
        pod_with(TOKEN, port, gang="t-2").join()
    assert membership.state() == barrier.State()


def said_to(port: int, *, path: str, headers: dict[str, str]) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("POST", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_what_somebody_has_listened_to_and_says_again_is_refused() -> None:
    membership, port = guarded()
    said = {"X-Gang": f"t-1#{membership.nonce}", "X-Pod": "1", "X-Number": "7"}
    signed = said | {"X-Signature": barrier.signature(TOKEN, "POST", "/join", *said.values(), b"")}
    assert said_to(port, path="/done", headers=signed) == 403  # signed for another word
    assert said_to(port, path="/join", headers=signed) == 200
    assert said_to(port, path="/join", headers=signed) == 409
    assert membership.state() == barrier.State(joined=(1,))


class Recorder(socketserver.BaseRequestHandler):
    """Takes one request, keeps its bytes, and passes it on to pod 0."""

    heard: ClassVar[list[bytes]] = []
    port: ClassVar[int]

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as onward:
            said = self.request.recv(65536)
            while b"\r\n\r\n" in said and len(said.partition(b"\r\n\r\n")[2]) < length_in(said):
                said += self.request.recv(65536)
            self.heard.append(said)
            onward.sendall(said)
            while answer := onward.recv(65536):
                self.request.sendall(answer)


def length_in(said: bytes) -> int:
    found = re.search(rb"Content-Length: (\d+)", said)
    return int(found[1]) if found else 0


def test_what_was_recorded_in_one_run_of_an_attempt_is_refused_in_the_next() -> None:
    """Kueue runs the same Job again, with the same gang and token."""
    _, Recorder.port = guarded()
    Recorder.heard.clear()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Recorder) as between:
        threading.Thread(target=between.serve_forever, daemon=True).start()
        pod = pod_with(TOKEN, int(between.server_address[1]))
        pod.join()
        pod.report(FAULT)
        between.shutdown()
    second, port = guarded()
    recorded = [said for said in Recorder.heard if said.startswith(b"POST")]
    assert [said.split()[1] for said in recorded] == [b"/join", b"/failed"]
    for said in recorded:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as replay:
            replay.sendall(said)
            assert b" 409 " in replay.recv(200)
    assert second.state() == barrier.State()
    pod_with(TOKEN, port).join()
    assert second.state().joined == (1,)


def test_a_pod_of_a_run_before_does_not_take_part_in_the_next() -> None:
    _, port = guarded()
    late = pod_with(TOKEN, port)
    late.join()
    second, late.port = guarded()
    with pytest.raises(barrier.Refused, match="another run"):
        late.join()
    assert second.state() == barrier.State()


def test_silent_connections_do_not_keep_an_honest_pod_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Far more of them than pod 0 has threads for, none of which ends by itself before the honest pod gives up."""
    monkeypatch.setattr(barrier, "REQUEST_SECONDS", 60.0)
    monkeypatch.setattr(barrier._Handler, "timeout", 600.0)
    before = threading.active_count()
    membership, port = guarded()
    with contextlib.ExitStack() as silent:
        for _ in range(600):
            silent.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
        pod_with(TOKEN, port).join()
        assert membership.state().joined == (1,)
        assert threading.active_count() - before < 300


def test_a_peer_that_speaks_slowly_is_cut_off() -> None:
    _, port = guarded()
    with socket.create_connection(("127.0.0.1", port), timeout=0.1) as slow:

        def is_cut_off() -> bool:
            try:
                slow.sendall(b"G")  # each byte begins the time-out of a read anew
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except OSError:
                return True

        wait_until(is_cut_off, seconds=60)


@pytest.mark.parametrize("length", ["-1", "x", "9" * 30, "²"])
def test_a_length_that_is_none_ends_no_thread_with_a_traceback(length: str, capfd: pytest.CaptureFixture[str]) -> None:
    _, port = serve()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as knock:
        knock.sendall(f"POST /failed HTTP/1.0\r\nX-Gang: t-1\r\nX-Pod: 1\r\nContent-Length: {length}\r\n\r\n".encode())
        assert b" 400 " in knock.recv(200)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize(
    ("headers", "status", "says"),
    [
        ({}, 409, "this is the barrier of t-1, or of another run of it"),
        ({"X-Gang": "t-1"}, 400, "'' is none of 3 pods"),
        ({"X-Gang": "t-1", "X-Pod": "3"}, 400, "'3' is none of 3 pods"),
    ],
)
def test_a_request_that_lacks_something_is_answered_with_what(headers: dict[str, str], status: int, says: str) -> None:
    _, port = serve()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", "/state", headers=headers)
    with contextlib.closing(connection), connection.getresponse() as answer:
        assert (answer.status, answer.getheader("Content-Length")) == (status, str(len(says)))
        assert answer.read().decode() == says


@pytest.mark.parametrize(("error", "is_told"), [(ConnectionResetError("gone"), False), (ValueError("odd"), True)])
def test_a_peer_that_is_gone_is_no_error_of_the_barrier_and_a_fault_of_ours_is(
    error: Exception, is_told: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    server = barrier.Server(barrier.Membership(gang="t-1", pods=1, work=OLD), address="127.0.0.1", port=0)
    with contextlib.closing(server.socket):
        try:
            raise error
        except Exception:
            server.handle_error(None, ("127.0.0.1", 1))
    assert ("ValueError: odd" in capfd.readouterr().err) is is_told


def test_who_stands_in_pod_0s_place_without_the_token_is_not_believed() -> None:
    impostor, port = serve()  # it answers whoever asks
    impostor.report(FAULT)
    with pytest.raises(barrier.Refused, match="it is not our pod 0"):
        pod_with(TOKEN, port).state()


def test_only_addresses_that_joined_are_let_in_elsewhere() -> None:
    membership = barrier.Membership(gang="t-1", pods=3)
    membership.join(address="10.0.0.1")
    membership.join(1, address="10.0.0.2")
    assert [membership.admits(f"10.0.0.{last}") for last in (1, 2, 3)] == [True, True, False]
    assert not membership.admits("127.0.0.1")
    membership.join(
        2, address="127.3.2.1"
    )  # of a pod on this machine, whose ranks come from the first loopback address
    assert membership.admits("127.0.0.1")
