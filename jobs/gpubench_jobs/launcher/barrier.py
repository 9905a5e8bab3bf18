# SPDX-License-Identifier: Apache-2.0
"""Where the pods of a gang meet: pod 0 keeps the membership, the others reach it by HTTP.

Horovod has one time-out for start-up and for failures; pods of one gang can come minutes apart. So no worker starts
before every pod has joined here. It also tells all pods of a failure, and pod 0 ends well only after all are done.
Must not happen: a pod of another attempt, or with other work, takes part; a wait without a bound.
"""

import contextlib
import hashlib
import hmac
import http.client
import http.server
import ipaddress
import secrets
import socket
import sys
import threading
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

import gpubench
import gpubench_jobs
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench.records import Sentence
from gpubench.values import FrozenModel

REQUEST_SECONDS = 2.0
_BODY_MAX = 64 * 1024
_CONNECTIONS_MAX = 256
#: A connection has so long before a newer one may take its thread. The whole backlog has its turn within a request.
_UNDISTURBED_SECONDS = 0.25
#: Where processes come from that talk to an address of their machine's loopback network, whichever it is.
_LOOPBACK = "127.0.0.1"
_GANG, _POD, _NUMBER, _SIGNATURE = "X-Gang", "X-Pod", "X-Number", "X-Signature"
_OTHER_WORK = (
    "pod {} has another image than pod 0, or another assignment: where a tag was pushed again, name the image by its "
    "digest"
)
_DIGITS_MAX = 20  # of a number in a header; nanoseconds have 19


class Fault(FrozenModel):
    """The failure that a gang knows of: the first that was reported."""

    pod: int
    rank: int | None = None
    exit_code: int
    sentence: Sentence


class State(FrozenModel):
    """What every pod may know of its gang."""

    joined: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    fault: Fault | None = None


class Unreachable(Exception):
    """Pod 0 does not answer: not there yet, gone, or its name does not resolve."""


class OtherWork(Exception):
    """This pod would not do the work of pod 0."""


class Refused(Exception):
    """Pod 0 will not have us; or something answers in its place, and it is not our gang's barrier."""


def work_of(assignment: Assignment) -> str:
    """A digest of what a pod is told, and of the code that does it."""
    digest = hashlib.sha256(assignment.to_json().encode())
    for folder in (Path(package.__path__[0]) for package in (gpubench, gpubench_jobs)):
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{path.relative_to(folder)} {hashlib.sha256(path.read_bytes()).hexdigest()}".encode())
    return digest.hexdigest()


def signature(token: str, *said: str | bytes) -> str:
    """HMAC-SHA256 (RFC 2104), of what only somebody with the token can say. Each part has its length before it.

    Requests and answers are signed over all that they say, with the gang's name, the nonce of its run and a number that
    grows: what was said in one run of an attempt is believed in no other, nothing is believed twice, and whoever stands
    in pod 0's place cannot answer. Without a token, as in a local run, whoever knows the gang's name is believed.
    """
    parts = [part.encode() if isinstance(part, str) else part for part in said]
    text = b"".join(b"%d:%b" % (len(part), part) for part in parts)
    return hmac.new(token.encode(), text, hashlib.sha256).hexdigest()


@dataclass
class Membership:
    """What pod 0 knows of every pod, and its own view of the barrier. Guarded by one lock; its values are frozen."""

    gang: str
    pods: int
    work: str = ""  # of pod 0, and so of all; that of an image from before there were digests
    address: str = ""  # of pod 0
    nonce: str = field(default_factory=lambda: secrets.token_hex(16))  # Kueue runs the same attempt again
    _state: State = field(default_factory=State)
    _informed: set[int] = field(default_factory=set)
    _addresses: frozenset[str] = frozenset()  # that joined
    _numbers: dict[int, int] = field(default_factory=dict)  # of the last signed request of each pod
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> State:
        with self._lock:
            return self._state

    def join(self, pod: int = 0, *, address: str = "", work: str | None = None) -> None:
        """A pod is here; saying it twice changes nothing. One that would do other work fails the gang."""
        if work is not None and work != self.work:
            self.report(Fault(pod=pod, exit_code=ExitCode.BAD_ASSIGNMENT, sentence=_OTHER_WORK.format(pod)))
            return
        with self._lock:
            if found := address or self.address:
                self._addresses |= {found, _LOOPBACK} if ipaddress.ip_address(found).is_loopback else {found}
            self._state = self._state.model_copy(update={"joined": tuple(sorted({*self._state.joined, pod}))})

    def admits(self, address: str) -> bool:
        """Whether somebody at this address may be a rank of a pod that joined: Horovod's rendezvous has no token."""
        with self._lock:
            return address in self._addresses

    def is_news(self, pod: int, number: int) -> bool:
        """Whether this signed request of a pod came after all that came before; asking counts as coming."""
        with self._lock:
            later = number > self._numbers.get(pod, -1)
            if later:
                self._numbers[pod] = number
            return later

    def done(self, pod: int = 0) -> None:
        """All ranks of a pod have ended well."""
        with self._lock:
            self._state = self._state.model_copy(update={"done": tuple(sorted({*self._state.done, pod}))})

    def report(self, fault: Fault) -> None:
        """Only the first failure is kept: what follows it are mostly its echoes."""
        with self._lock:
            if self._state.fault is None:
                self._state = self._state.model_copy(update={"fault": fault})
            self._informed.add(fault.pod)

    def informed(self, pod: int) -> None:
        """This pod has been told of the fault, or is where it happened."""
        with self._lock:
            if self._state.fault:
                self._informed.add(pod)

    def everyone_informed(self) -> bool:
        """Whether every pod that ever joined, but pod 0 itself, knows of the fault."""
        with self._lock:
            return set(self._state.joined) - {0} <= self._informed


@dataclass(kw_only=True)
class RemoteGang:
    """Another pod's view. Every call is one short request; the caller decides how often and until when.

    The name of pod 0 is looked up until the first answer and its address kept from then on: a name server that fails
    later, or is slow, must not look like the loss of pod 0.
    """

    host: str
    port: int
    gang: str
    pod: int
    source: str
    token: str | None = field(default=None, repr=False)
    work: str = ""
    _address: str | None = None
    _nonce: str | None = None  # that of pod 0, kept: a pod takes part in one run only

    @property
    def address(self) -> str:
        """Pod 0's address; known once a call has succeeded."""
        if self._address is None:
            raise Unreachable(f"pod 0 ({self.host}) has not answered yet")
        return self._address

    def join(self) -> None:
        if self._request("POST", "/join", self.work) != self.work.encode():
            raise OtherWork(_OTHER_WORK.format(self.pod))

    def state(self) -> State:
        return State.model_validate_json(self._request("GET", "/state"))

    def report(self, fault: Fault) -> None:
        self._request("POST", "/failed", fault.to_json())

    def done(self) -> None:
        self._request("POST", "/done")

    def _request(self, method: str, path: str, body: str = "") -> bytes:
        if self.token is None:
            return self._send(method, path, body, gang=self.gang)
        if self._nonce is None:
            self._nonce = self._send("GET", "/nonce", gang=self.gang).decode()
        return self._send(method, path, body, gang=f"{self.gang}#{self._nonce}")

    def _send(self, method: str, path: str, body: str = "", *, gang: str) -> bytes:
        content = body.encode()
        # By this process' clock each number is larger than the one before.
        headers = {_GANG: gang, _POD: str(self.pod), _NUMBER: str(time.monotonic_ns())}
        if self.token is not None:
            headers[_SIGNATURE] = signature(self.token, method, path, *headers.values(), content)
        try:
            if (address := self._address) is None:  # IPv4 only: Horovod's Gloo store knows nothing else
                address = str(socket.getaddrinfo(self.host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])
            connection = http.client.HTTPConnection(
                address, self.port, timeout=REQUEST_SECONDS, source_address=(self.source, 0)
            )
            with contextlib.closing(connection):
                connection.request(method, path, body=content, headers=headers)
                response = connection.getresponse()
                answer = response.read(_BODY_MAX)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"pod 0 ({self.host}) does not answer: {error}") from error
        if response.status != HTTPStatus.OK:
            raise Refused(f"{self.host} answered {response.status}: {answer.decode(errors='replace')}")
        if self.token is not None:
            expected = signature(self.token, headers[_SIGNATURE], answer)
            if not _is_equal(expected, response.getheader(_SIGNATURE, "")):
                raise Refused(f"{self.host} answers without the token of this benchmark: it is not our pod 0")
        self._address = address
        return answer


#: A pod's view of the barrier: in its own memory on pod 0, by HTTP everywhere else.
Gang: TypeAlias = Membership | RemoteGang


def _is_equal(expected: str, given: str) -> bool:
    """In a time that tells nothing of where they differ; a header may hold more than ASCII, which never fits."""
    return hmac.compare_digest(expected.encode(), given.encode())


class Server(http.server.ThreadingHTTPServer):
    """Answers on the pod's own address: pods of a test share one machine, each with an address of its own.

    Anybody can connect, and only what was read shows who it is. So the oldest of too many connections makes room for a
    new one: an honest request is over at once, and a silent peer is not.
    """

    daemon_threads = True
    request_queue_size = 1024  # all pods of a large gang come at once
    # The address of a pod can still be in TIME_WAIT from the attempt before, on nodes that share one network.
    allow_reuse_address = True

    def __init__(self, membership: Membership, *, address: str, port: int, token: str | None = None) -> None:
        super().__init__((address, port), _Handler)
        self.membership = membership
        self.token = token
        self._room = threading.Semaphore(_CONNECTIONS_MAX)
        self._opened: dict[socket.socket, float] = {}  # when, the oldest first
        self._lock = threading.Lock()

    def start(self) -> None:
        """Answer in the background for as long as the process lives."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        while not self._room.acquire(timeout=_UNDISTURBED_SECONDS / 10):
            self._end_those_open_for(_UNDISTURBED_SECONDS)
        with self._lock:
            self._opened[request] = time.monotonic()
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._lock:
                del self._opened[request]
            self._room.release()

    def service_actions(self) -> None:
        """Each byte of a slow peer would begin the time-out of a read anew."""
        self._end_those_open_for(REQUEST_SECONDS)

    def _end_those_open_for(self, seconds: float) -> None:
        with self._lock:
            for request, opened in self._opened.items():
                if time.monotonic() - opened >= seconds:
                    with contextlib.suppress(OSError):  # it is over already
                        request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        if not isinstance(sys.exc_info()[1], OSError):  # a peer that is gone is no error of ours
            super().handle_error(request, client_address)


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server: Server

    def do_GET(self) -> None:
        membership = self.server.membership
        if (pod := self._pod(b"")) is not None and self.path == "/state":
            self._answer(200, membership.state().to_json())
            membership.informed(pod)
        elif pod is not None and self.path == "/nonce":
            self._answer(200, membership.nonce)

    def do_POST(self) -> None:
        membership, length = self.server.membership, self.headers.get("Content-Length", "0")
        body = self.rfile.read(min(_BODY_MAX, int(length))) if _is_number(length) else b""
        if (pod := self._pod(body)) is None:
            return
        match self.path:
            case "/join":
                membership.join(pod, address=str(self.client_address[0]), work=body.decode(errors="replace"))
                self._answer(200, membership.work)
            case "/failed":
                try:
                    membership.report(Fault.model_validate_json(body))
                except ValidationError:
                    self._answer(400, "this tells of no failure")
                else:
                    self._answer(200, "{}")
            case "/done":
                # Answered first: pod 0 leaves as soon as the last pod has said so, and takes this server with it.
                self._answer(200, "{}")
                membership.done(pod)
            case _:
                self._answer(404, "no such place")

    def _pod(self, body: bytes) -> int | None:
        """The pod that asks; None when it was refused. Who cannot sign is told nothing of the gang."""
        membership, token = self.server.membership, self.server.token
        gang, pod, number, given = (self.headers.get(name, "") for name in (_GANG, _POD, _NUMBER, _SIGNATURE))
        has_no_nonce = token is None or self.path == "/nonce"  # whoever asks for the nonce cannot know it
        if token is not None and not given:
            self._answer(401, "the pods of this benchmark sign what they say, and this is not signed")
        elif token is not None and not _is_equal(
            signature(token, self.command, self.path, gang, pod, number, body), given
        ):
            self._answer(403, "this is signed with another token than that of this benchmark's pods")
        elif gang != (membership.gang if has_no_nonce else f"{membership.gang}#{membership.nonce}"):
            self._answer(409, f"this is the barrier of {membership.gang}, or of another run of it")
        elif not _is_number(pod) or int(pod) >= membership.pods:
            self._answer(400, f"{pod!r} is none of {membership.pods} pods")
        elif not has_no_nonce and not (_is_number(number) and membership.is_news(int(pod), int(number))):
            self._answer(409, "this was said before")
        else:
            return int(pod)
        return None

    def _answer(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        if self.server.token is not None and status == HTTPStatus.OK:
            self.send_header(_SIGNATURE, signature(self.server.token, self.headers[_SIGNATURE], content))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class named it
        """Nothing: two requests a second from each pod would bury the log."""


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX
