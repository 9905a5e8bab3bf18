# SPDX-License-Identifier: Apache-2.0
"""`make demo`: from `kubectl apply` to the table of results, on the embedded cluster, with nothing left behind.

Real etcd, API server, controller-manager and scheduler; the operator under exactly the ClusterRole of the chart; real
Horovod and TensorFlow processes in the gangs. Only the nodes are doubles: they run pods as processes of this machine.
Where it fails its logs are kept.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import cluster_cli
import installation
from cluster import Cluster

HERE = Path(__file__).resolve().parent
STUDY = installation.REPOSITORY / "jobs" / "examples" / "quickstart.yaml"
NAME = "quickstart"
WATCH_SECONDS = 900
STOPS = (signal.SIGINT, signal.SIGTERM)


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="gpubench-demo-"))
    try:
        status = demonstrate(folder)
    except (KeyboardInterrupt, SystemExit) as stop:
        print("demo: stopped; nothing of it runs any more", file=sys.stderr)
        status = getattr(stop, "code", 130)
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        status = 1
    if status in (0, 130, 143):
        shutil.rmtree(folder)
    else:
        print(f"demo: failed; its logs are in {folder}", file=sys.stderr)
    return status


def demonstrate(folder: Path) -> int:
    """Start, install, apply, watch, show, stop."""
    began = time.monotonic()

    def step(text: str) -> None:
        print(f"[{time.monotonic() - began:5.1f} s] {text}", flush=True)

    nodes, images = cluster_cli.read_config(HERE / "demo.yaml")
    step("starting etcd, kube-apiserver, controller-manager, scheduler and two nodes")
    with Cluster.start(folder / "cluster", nodes=nodes, images=images) as cluster:
        step("installing CRDs and RBAC, starting the operator under the chart's ClusterRole")
        with installation.running_operator(cluster, log=folder / "operator.log") as operator:
            step(f"kubectl apply -f {STUDY.relative_to(installation.REPOSITORY)}")
            print(cluster.kubectl("apply", "-f", str(STUDY)).stdout, end="")
            step(f"gpubench watch {NAME}")
            status = gpubench(cluster, "watch", NAME, stdout=subprocess.DEVNULL)  # the table comes at the end
            step("kubectl get gbench,gpool")
            print(cluster.kubectl("get", "gbench,gpool").stdout)
            if status != 0:
                print(cluster.kubectl("describe", "gbench", NAME).stdout, operator.log.read_text(), file=sys.stderr)
            step(f"gpubench show {NAME}")
            gpubench(cluster, "show", NAME)
    return status


def gpubench(cluster: Cluster, *arguments: str, stdout: int | None = None) -> int:
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}
    command = [str(Path(sys.executable).parent / "gpubench"), *arguments]
    with contextlib.ExitStack() as ended:
        with (
            _signals_held()
        ):  # in a session of its own: a Ctrl-C at the terminal is for this program, which ends that one
            started = subprocess.Popen(command, env=environment, stdout=stdout, start_new_session=True)
            ended.callback(started.wait)
            ended.callback(started.kill)
        try:
            return started.wait(WATCH_SECONDS)
        except subprocess.TimeoutExpired:
            print(f"demo: gpubench {' '.join(arguments)} took more than {WATCH_SECONDS} s", file=sys.stderr)
            return 1


@contextlib.contextmanager
def _signals_held() -> Iterator[None]:
    """A signal waits until this is over: between its fork and Popen's return a program is known to nobody."""
    arrived: list[int] = []
    before = {one: signal.signal(one, lambda number, _: arrived.append(number)) for one in STOPS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        for number in arrived:
            signal.raise_signal(number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that everything is stopped
    sys.exit(main())
