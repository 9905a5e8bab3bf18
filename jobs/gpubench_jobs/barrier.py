# SPDX-License-Identifier: Apache-2.0
"""Where the pods of a gang meet: pod 0 keeps the book, the others reach it by HTTP.

Horovod has one time-out for start-up and for failures; pods of one gang can come minutes apart (image pulls, nodes that
must be created first). So no worker starts before every pod has joined here. The same book tells all pods of a failure,
so that nobody waits for a time-out, and pod 0 ends well only after every pod has said that its ranks are done.

Must not happen: a pod of another attempt, which an address that was used again led here, takes part (it is refused by
the gang's name); a wait without a bound (every request has a time-out, every caller a deadline).

The server has no authentication, like Horovod's own: whoever reaches the port and knows the gang's name is believed.
Keeping others away from it is the cluster's business (a NetworkPolicy); gpubench brings none.
"""

import http.client
import http.server
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from gpubench.values import Value

REQUEST_SECONDS = 2.0
_BODY_MAX = 64 * 1024


class Fault(Value):
    """The failure that a gang knows of: the first that was reported."""

    pod: int
    rank: int | None = None
    exit_code: int
    sentence: str


class State(Value):
    """What every pod may know of its gang."""

    joined: tuple[int, ...] = ()
    done: tuple[int, ...] = ()
    fault: Fault | None = None


class Unreachable(Exception):
    """Pod 0 does not answer: not there yet, gone, or its name does not resolve."""


class Refused(Exception):
    """Something answers in pod 0's place, and it is not our gang's barrier."""


class Gang(Protocol):
    """A pod's view of the barrier: in its own memory on pod 0, by HTTP everywhere else."""

    def join(self) -> None:
        """This pod is here."""

    def state(self) -> State:
        """What the gang knows by now."""

    def report(self, fault: Fault) -> None:
        """This pod has failed for a reason of its own."""

    def done(self) -> None:
        """Every rank of this pod has ended well."""


@dataclass
class Book:
    """What pod 0 knows. Guarded by one lock; its values are frozen. The methods are those of `Gang`, for any pod."""

    gang: str
    pods: int
    _state: State = field(default_factory=State)
    _informed: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def state(self) -> State:
        """What is known now."""
        with self._lock:
            return self._state

    def join(self, pod: int) -> None:
        """A pod is here; saying it twice changes nothing."""
        self._change(lambda state: state.model_copy(update={"joined": _with(state.joined, pod)}))

    def done(self, pod: int) -> None:
        """All ranks of a pod have ended well."""
        self._change(lambda state: state.model_copy(update={"done": _with(state.done, pod)}))

    def report(self, fault: Fault) -> None:
        """Only the first failure is kept: what follows it are mostly its echoes."""
        self._change(lambda state: state if state.fault else state.model_copy(update={"fault": fault}))
        self.informed(fault.pod)

    def informed(self, pod: int) -> None:
        """This pod has been told of the fault, or is where it happened."""
        with self._lock:
            if self._state.fault:
                self._informed.add(pod)

    def everyone_informed(self) -> bool:
        """Whether every pod that ever joined, but pod 0 itself, knows of the fault."""
        with self._lock:
            return set(self._state.joined) - {0} <= self._informed

    def _change(self, change: Callable[[State], State]) -> None:
        with self._lock:
            self._state = change(self._state)


def _with(pods: tuple[int, ...], pod: int) -> tuple[int, ...]:
    return tuple(sorted({*pods, pod}))


class LocalGang:
    """Pod 0's own view."""

    # ruff: noqa: D102  # the methods of both views are documented in Gang

    def __init__(self, book: Book) -> None:
        self._book = book

    def join(self) -> None:
        self._book.join(0)

    def state(self) -> State:
        return self._book.state()

    def report(self, fault: Fault) -> None:
        self._book.report(fault)

    def done(self) -> None:
        self._book.done(0)


class RemoteGang:
    """Another pod's view. Every call is one short request; the caller decides how often and until when.

    The name of pod 0 is looked up until the first answer and its address kept from then on: a name server that fails
    later, or is slow, must not look like the loss of pod 0.
    """

    def __init__(self, *, host: str, port: int, gang: str, pod: int, source: str) -> None:
        self._host = host
        self._port = port
        self._gang = gang
        self._pod = pod
        self._source = source
        self._address: str | None = None

    @property
    def address(self) -> str:
        """Pod 0's address; known once a call has succeeded."""
        if self._address is None:
            raise Unreachable(f"pod 0 ({self._host}) has not answered yet")
        return self._address

    def join(self) -> None:
        self._request("POST", "/join")

    def state(self) -> State:
        return State.model_validate_json(self._request("GET", "/state"))

    def report(self, fault: Fault) -> None:
        self._request("POST", "/failed", fault)

    def done(self) -> None:
        self._request("POST", "/done")

    def _request(self, method: str, path: str, body: Value | None = None) -> bytes:
        try:
            address = self._address or _resolve(self._host)
            status, answer = self._exchange(address, method=method, path=path, body=body)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"pod 0 ({self._host}) does not answer: {error}") from error
        if status != 200:
            raise Refused(f"{self._host} answered {status}: {answer.decode(errors='replace')}")
        self._address = address
        return answer

    def _exchange(self, address: str, *, method: str, path: str, body: Value | None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(
            address, self._port, timeout=REQUEST_SECONDS, source_address=(self._source, 0)
        )
        try:
            headers = {"X-Gang": self._gang, "X-Pod": str(self._pod)}
            connection.request(method, path, body=body.to_json().encode() if body else b"", headers=headers)
            response = connection.getresponse()
            return response.status, response.read(_BODY_MAX)
        finally:
            connection.close()


def _resolve(host: str) -> str:
    """IPv4 only: Horovod's Gloo store knows nothing else."""
    return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


class Server(http.server.ThreadingHTTPServer):
    """The book behind a port of the pod's own address: pods of a test share one machine, each with its own address."""

    daemon_threads = True
    request_queue_size = 1024  # all pods of a large gang come at once
    # The address of a pod can still be in TIME_WAIT from the attempt before, on nodes that share one network.
    allow_reuse_address = True

    def __init__(self, book: Book, *, address: str, port: int) -> None:
        super().__init__((address, port), _Handler)
        self.book = book

    def start(self) -> None:
        """Answer in the background for as long as the process lives."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True).start()


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = REQUEST_SECONDS
    server: Server

    def do_GET(self) -> None:
        book = self.server.book
        if (pod := self._pod()) is not None and self.path == "/state":
            self._answer(200, book.state().to_json())
            book.informed(pod)

    def do_POST(self) -> None:
        book = self.server.book
        if (pod := self._pod()) is None:
            return
        match self.path:
            case "/join":
                book.join(pod)
                self._answer(200, "{}")
            case "/failed":
                book.report(Fault.model_validate_json(self._body()))
                self._answer(200, "{}")
            case "/done":
                # Answered first: pod 0 leaves as soon as the last pod is in the book, and takes this server with it.
                self._answer(200, "{}")
                book.done(pod)
            case _:
                self._answer(404, "no such place")

    def _pod(self) -> int | None:
        """The pod that asks; None when it was refused."""
        book = self.server.book
        pod, gang = self.headers.get("X-Pod", ""), self.headers.get("X-Gang")
        if gang != book.gang:
            self._answer(409, f"this is the barrier of {book.gang}")
        elif not pod.isdecimal() or int(pod) >= book.pods:
            self._answer(400, f"{pod!r} is none of {book.pods} pods")
        else:
            return int(pod)
        return None

    def _body(self) -> bytes:
        return self.rfile.read(min(_BODY_MAX, int(self.headers.get("Content-Length", "0"))))

    def _answer(self, status: int, text: str) -> None:
        content = text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class named it
        """Nothing: two requests a second from each pod would bury the log."""
