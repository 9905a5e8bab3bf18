# SPDX-License-Identifier: Apache-2.0
"""gpubench on the embedded cluster: CRDs, the ClusterRole of the chart, and the operator as a process of this machine.

The operator runs with the token of a ServiceAccount that is bound to exactly the ClusterRole the chart ships, so that a
permission that is missing shows in every test. Used by tests, benchmarks and the demo.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

from cluster import NO_PROXY, ApiError, Cluster
from gpubench import names

REPOSITORY = Path(__file__).resolve().parents[2]
CHART_FILES = REPOSITORY / "charts" / "gpubench" / "files"
NAMESPACE = "gpubench-system"
ACCOUNT = "gpubench-operator"
CLUSTER_ROLE = "gpubench-operator"
KINDS = (names.BENCHMARK_PLURAL, names.POOL_PLURAL, names.SCHEDULE_PLURAL)
#: Of the images on process nodes, whose pods inherit nothing: they run the code of this checkout.
POD_ENVIRONMENT = {
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": os.pathsep.join(str(REPOSITORY / room) for room in ("operator", "jobs")),
}
SERVED_SECONDS = 60.0  # an API server serves a new definition within two; a loaded machine takes longer
READY_SECONDS = 60.0  # the imports take two seconds; a machine that compiles beside it needs longer
STOP_SECONDS = 30.0
#: Settings where no operator takes over from another: one on a machine that is busy with other things must not end
#: itself by a late renewal.
ALONE = {"GPUBENCH_LEASE_SECONDS": "300", "GPUBENCH_LEASE_RENEW_SECONDS": "290"}
#: `python -m gpubench_operator`, killed by the kernel when whoever started it is gone, in whatever way.
_RUN = """\
import ctypes, runpy, signal
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
runpy.run_module("gpubench_operator", run_name="__main__", alter_sys=True)
"""

_ACCOUNT_MANIFEST = f"""\
apiVersion: v1
kind: Namespace
metadata: {{name: {NAMESPACE}}}
---
apiVersion: v1
kind: ServiceAccount
metadata: {{name: {ACCOUNT}, namespace: {NAMESPACE}}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {{name: {ACCOUNT}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {CLUSTER_ROLE}}}
subjects: [{{kind: ServiceAccount, name: {ACCOUNT}, namespace: {NAMESPACE}}}]
"""


def install(cluster: Cluster, files: Path = CHART_FILES) -> Path:
    """Apply CRDs, ClusterRole, ServiceAccount and binding; the kubeconfig of the operator."""
    install_definitions(cluster, files / "crds")
    cluster.kubectl("apply", "-f", str(files / "rbac"))
    cluster.kubectl("apply", "-f", "-", stdin=_ACCOUNT_MANIFEST)
    return cluster.kubeconfig_for_service_account(NAMESPACE, ACCOUNT)


def install_definitions(cluster: Cluster, folder: Path = CHART_FILES / "crds") -> None:
    """Apply the CRDs, and wait until they are served."""
    cluster.kubectl("apply", "-f", str(folder))
    for kind in KINDS:
        wait_until_served(cluster, f"/apis/{names.API_VERSION}/{kind}")


def wait_until_served(cluster: Cluster, path: str) -> None:
    """Until what is at this path can be read: a new definition's objects only some time after it is Established."""
    deadline = time.monotonic() + SERVED_SECONDS
    while True:
        try:
            cluster.request("GET", path)
        except ApiError as refusal:
            if refusal.status not in (404, 429):  # unknown as yet; known, but its storage is being made
                raise
        else:
            return
        assert time.monotonic() < deadline, f"{path} was not served within {SERVED_SECONDS:g} s"
        time.sleep(0.1)


class Operator:
    """The operator as a process. Its log is a file; its metrics are on a port of the loopback interface."""

    def __init__(self, kubeconfig: Path, *, log: Path, settings: Mapping[str, str] | None = None) -> None:
        self._kubeconfig = kubeconfig
        self._settings = dict(settings or {})
        self._process: subprocess.Popen[bytes] | None = None
        self.program: tuple[str, ...] = ("-m", "gpubench_operator")  # what Python runs
        self.log = log
        self.port = free_port()

    @property
    def pid(self) -> int:
        """The process id; an error when it is not running."""
        assert self._process is not None, "the operator was not started"
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it says that it is ready."""
        # Only the settings given here: whoever works on gpubench may have GPUBENCH_CACHE and others set.
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GPUBENCH_")}
        environment = {
            **inherited,
            "KUBECONFIG": str(self._kubeconfig),
            "GPUBENCH_METRICS_ADDRESS": "127.0.0.1",
            "GPUBENCH_METRICS_PORT": str(self.port),
            "GPUBENCH_LEASE_NAMESPACE": NAMESPACE,
            **self._settings,
        }
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, *self.program],
                env=environment,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait for /readyz; an error with the log's tail when the operator ends or takes too long."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError(f"the operator ended with {self._process.returncode}:\n{self._tail()}")
            with contextlib.suppress(OSError):
                self.get("/readyz")
                return
            time.sleep(0.05)
        raise RuntimeError(f"the operator was not ready after {READY_SECONDS} s:\n{self._tail()}")

    def get(self, path: str) -> str:
        """One page of its HTTP server."""
        return read_page(f"http://127.0.0.1:{self.port}{path}")

    def has_ended(self) -> bool:
        """Whether it has ended by itself, as it does when it loses its Lease."""
        assert self._process is not None
        return self._process.poll() is not None

    def kill(self) -> None:
        """SIGKILL, at once and without a word to anybody."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> int:
        """SIGTERM, and the exit status; SIGKILL and an error when it does not end."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise RuntimeError(f"the operator did not end within {STOP_SECONDS} s:\n{self._tail()}") from None

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-30:])


@contextlib.contextmanager
def running_operator(
    cluster: Cluster, *, log: Path, files: Path = CHART_FILES, settings: Mapping[str, str] | None = None
) -> Iterator[Operator]:
    """Install gpubench, run the operator, and stop it in the end."""
    operator = Operator(install(cluster, files), log=log, settings=settings)
    try:
        operator.start()
        yield operator
    finally:
        operator.stop()


def read_page(address: str) -> str:
    """One page of a server of this machine; OSError when there is none."""
    with urllib.request.build_opener(NO_PROXY).open(address, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def free_port() -> int:
    """A port of the loopback interface that nobody has just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port
