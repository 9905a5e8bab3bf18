# SPDX-License-Identifier: Apache-2.0
"""`make e2e`: gpubench on a real node, from its own images and its Helm chart, from install to uninstall.

Real kubelet, containerd, runc, CNI plugins, kube-proxy and CoreDNS beside the embedded control plane; images from the
project's Containerfiles. Root, Linux and some Debian packages; where these cannot be had it ends with 77 and a
sentence.

    python tests/e2e/e2e.py              all of it
    python tests/e2e/e2e.py images       programs and images only
    python tests/e2e/e2e.py image-gpu    the image for GPUs, with the checks at the end of its build (`make image-gpu`)

Must not happen: something that is left on the machine, whatever ends this program (`e2e_machine` says how), or a result
that is taken from an earlier run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import cluster_binaries
import e2e_checks
import e2e_images
import e2e_machine
import e2e_node
import e2e_programs
import e2e_sidecars
import go_build
import helm_programs
from cluster import ApiError, Cluster, ClusterError

LOGS = e2e_images.REPOSITORY / ".run" / "e2e"
INSIDE_SECONDS = 1200.0  # measured: 290 s on two cores
CHECKS: tuple[Callable[[e2e_checks.Installation], str], ...] = (
    e2e_checks.make_namespaces,
    e2e_checks.install,
    e2e_checks.test_release,
    e2e_checks.operator_policy,
    e2e_checks.apply,
    e2e_checks.gang_of_two,
    e2e_checks.study_policy,
    e2e_checks.live_metrics,
    e2e_checks.finished,
    e2e_checks.figures,
    e2e_checks.operator_metrics,
    e2e_checks.upgrade,
    e2e_sidecars.others_in_its_pods,
    e2e_checks.uninstall,
)


def main() -> int:
    """The machine, the programs, the images, then the cluster in namespaces of its own."""
    options = _arguments()
    if options.command == "inside":
        return _inside(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that the folder is removed
    begun = time.monotonic()
    cache = _cache()
    cache.mkdir(parents=True, exist_ok=True)
    try:
        e2e_machine.require(cache)
    except e2e_machine.NotHereError as error:
        print(f"e2e: not here: {error}", flush=True)
        return 0 if options.where_possible else e2e_machine.NOT_HERE
    shutil.rmtree(LOGS, ignore_errors=True)
    LOGS.mkdir(parents=True)
    with e2e_machine.working_folder() as work:
        code = _run(options, cache=cache, work=work, begun=begun)
    left = e2e_machine.left_behind(work)
    print(f"e2e: left behind: {', '.join(left) or 'nothing'}", flush=True)
    if left or code:
        print(f"e2e: FAILED after {time.monotonic() - begun:.0f} s; logs: {LOGS}", file=sys.stderr)
        return 1
    print(f"e2e: all of it holds, {time.monotonic() - begun:.0f} s", flush=True)
    return 0


def _arguments() -> argparse.Namespace:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", nargs="?", default="all", choices=("all", "images", "image-gpu", "inside"))
    parser.add_argument("--where-possible", action="store_true", help="end with 0 on a machine where it cannot run")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--images", type=Path, nargs="*", help=argparse.SUPPRESS)
    return parser.parse_args()


def _cache() -> Path:
    return go_build.cache_directory() / "e2e"


def _run(options: argparse.Namespace, *, cache: Path, work: Path, begun: float) -> int:
    def step(text: str) -> None:
        print(f"[{time.monotonic() - begun:5.0f} s] {text}", flush=True)

    try:
        if options.command == "image-gpu":
            step("the image for GPUs, from jobs/Containerfile")
            e2e_images.build_for_gpus(cache=cache / "gpu", work=work, logs=LOGS)
            return 0
        step("programs: control plane, kubelet, CoreDNS, Helm")
        cluster_binaries.build()
        programs = e2e_programs.build()
        helm_programs.build()
        step("images, from operator/Containerfile and jobs/Containerfile")
        images = e2e_images.build(cache=cache, work=work, logs=LOGS, pause_program=programs.pause)
    except (go_build.BuildError, e2e_images.ImageError) as error:
        print(f"e2e: {error}", file=sys.stderr)
        return 1
    if options.command == "images":
        return 0
    step("the node, in namespaces of its own")
    command = [sys.executable, __file__, "inside", "--work", str(work), "--images", *map(str, images)]
    e2e_machine.make_cgroups(work.name, e2e_node.NAME)
    return _apart(command)


def _apart(command: Sequence[str]) -> int:
    """Run in namespaces of its own; when this returns, or raises, nothing in them is left."""
    process = subprocess.Popen(
        [*e2e_machine.apart(network=True), *command],
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # a Ctrl-C is for us alone: we end all of it at once
    )
    try:
        return process.wait(INSIDE_SECONDS)
    except subprocess.TimeoutExpired:
        print(f"e2e: not done after {INSIDE_SECONDS:.0f} s", file=sys.stderr)
        return 1
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()  # unshare, and with it the first process inside, and with that all others
        process.wait()


def _inside(options: argparse.Namespace) -> int:
    """The first process of the namespaces: what it starts ends with it."""
    begun = time.monotonic()

    def step(text: str) -> None:
        print(f"  [{time.monotonic() - begun:5.0f} s] {text}", flush=True)

    try:
        installation = _start(options, step)
        for check in CHECKS:
            step(check(installation))
        print(f"\n{e2e_checks.table(installation)}", flush=True)
    except (ApiError, ClusterError, e2e_node.NodeError, e2e_checks.CheckError) as error:
        print(f"e2e: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        _keep_logs(options.work)
    return 0


def _start(options: argparse.Namespace, step: Callable[[str], None]) -> e2e_checks.Installation:
    """Control plane and node. Their end is that of all processes here: nothing has to be stopped one by one."""
    e2e_node.cover(options.work)
    e2e_node.connect()
    cluster = Cluster.start(options.work / "cluster", address=e2e_node.API_ADDRESS)
    step("control plane")
    programs = e2e_programs.build()
    place = e2e_node.Place(
        cluster=cluster,
        work=options.work,
        logs=LOGS,
        cache=_cache(),
        cgroup=options.work.name,
        programs={
            "kubelet": str(programs.kubelet),
            "kube-proxy": str(programs.kube_proxy),
            "coredns": str(programs.coredns),
        },
    )
    e2e_node.start(place, options.images)
    step("a node with kubelet, containerd and the images; CoreDNS, kube-proxy")
    return e2e_checks.Installation(cluster=cluster, helm=helm_programs.build()["helm4"], work=options.work)


def _keep_logs(work: Path) -> None:
    """What a person needs to see why it failed: the cluster's own logs, those of pods, and its objects."""
    folders = {work / "cluster" / "logs": "control-plane"}
    folders[work / e2e_node.NAME / "pod-logs"] = "pods"
    for source, name in folders.items():
        with contextlib.suppress(OSError):  # the kubelet removes logs of pods that are gone
            if source.exists():
                shutil.copytree(source, LOGS / name, dirs_exist_ok=True, symlinks=True)
    with contextlib.suppress(ClusterError, subprocess.TimeoutExpired, OSError):
        everything = "nodes,pods,jobs,events,gpubenchmarks,gpupools"
        cluster = Cluster.attach(work / "cluster")
        told = cluster.kubectl("get", everything, "--all-namespaces", "--output=yaml", check=False)
        (LOGS / "objects.yaml").write_text(told.stdout, encoding="utf-8")


if __name__ == "__main__":
    os.umask(0o022)  # images and logs are read by others than root
    sys.exit(main())
