# SPDX-License-Identifier: Apache-2.0
"""`make cluster-check`: two pools, two nodes each, one reclaim, and a folder that says what held; on any cluster.

With KUBECONFIG it uses that cluster, on which gpubench is installed; without, the embedded one. It installs nothing,
and deletes what it has made. Exit code 0 only if every check holds.
"""

import argparse
import asyncio
import contextlib
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpubench import names
from gpubench.api.benchmark_status import AttemptCounts
from gpubench.report import markdown, tables
from gpubench.report.document import Code, Document, Section
from gpubench.scheduler.ledger import AttemptRecord, Outcome
from gpubench_cli import VERSION, results
from gpubench_cluster import kube

SECONDS, PLANNED_SECONDS, GONE_SECONDS, COMMAND_SECONDS = 1800.0, 60.0, 180.0, 300.0
NAME, REPEATS, NODES = "cluster-check", 2, 2
OWNED = (kube.JOBS, kube.PODS, kube.SERVICES, kube.SECRETS, kube.CONFIG_MAPS, kube.NETWORK_POLICIES)
CLOUDS = {
    "gce": "gcloud compute instances delete {instance} --zone {zone} --quiet",
    "aws": "aws ec2 terminate-instances --instance-ids {instance}",
}
_PULLED = re.compile(r" in (?:(\d+)m)?([\d.]+)(m?)s\b")  # as a kubelet writes it: 1m2.3s, 532ms
Reclaim = Callable[[kube.Object], str]  # takes away a Node; what it did


class Check:
    """One run: what was asked of the cluster, what held, and the page of it."""

    def __init__(self, options: argparse.Namespace, *, reclaim: Reclaim | None) -> None:
        self.options, self.reclaim = options, reclaim
        self.folder: Path = options.folder
        self.begun, self.at = time.monotonic(), datetime.now(UTC)
        self.lines: list[tuple[str, bool, str]] = []
        self.sections: list[Section] = []
        self._runner = asyncio.Runner()
        credentials, default = self.ask(kube.credentials())
        self.namespace = options.namespace or default
        self.api = kube.Kube(credentials, manager=NAME, timeout=30.0)

    def ask(self, asked: Any) -> Any:
        return self._runner.run(asked)

    def holds(self, what: str, ok: bool, seen: str) -> bool:
        """A line of the page; whether to go on is for the caller to say."""
        self.lines.append((what, ok, seen))
        print(f"[{time.monotonic() - self.begun:5.0f} s] {'ok' if ok else 'failed':7} {what}: {seen}", flush=True)
        return ok

    def gpubench(self, *arguments: str) -> tuple[int, str]:
        command = [str(Path(sys.executable).parent / "gpubench"), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=COMMAND_SECONDS)
        return done.returncode, done.stdout + done.stderr

    def doctor(self, when: str) -> bool:
        code, said = self.gpubench("doctor", "-n", self.namespace)
        (self.folder / f"doctor-{when}.txt").write_text(said, encoding="utf-8")
        self.drains = "nodes cannot be cordoned" not in said  # rbac.drains of the chart
        failed = [line for line in said.splitlines() if line.startswith("failed")]
        version, count = re.search("API server +(.*)", said), re.search(".* ok, .*", said)
        seen = f"Kubernetes {version[1]}; {count[0]}" if version and count else said.strip()
        return self.holds(f"doctor {when}", code == 0, "; ".join(failed) or seen)

    def run(self) -> None:
        """All of it, as far as it goes."""
        if not self.doctor("before"):
            return
        pools = {kube.name_of(one): one["spec"] for one in self.ask(self.api.list(kube.POOLS))}
        pools = {name: spec for name, spec in pools.items() if not spec.get("measuredBy")}
        by_type = {spec.get("capacityType", "OnDemand"): name for name, spec in reversed(pools.items())}
        chosen = [self.options.on_demand or by_type.get("OnDemand"), self.options.spot or by_type.get("Spot")]
        seen = ", ".join(f"{name} ({pools[name]['capacityType']})" for name in chosen if name in pools)
        if not self.holds("pools", all(name in pools for name in chosen), seen or "none: name --on-demand and --spot"):
            return
        sweep = {"workloads": ["mnist_cnn"], "pools": chosen, "workers": [NODES], "workersPerNode": 1}
        spec = {
            "sweep": [{**sweep, "batchPerWorker": [64]}],
            "measure": {"repeats": {"min": REPEATS}, "warmUp": "2s", "duration": f"{self.options.seconds}s"},
            "limits": {"schedulingTimeout": "10m", "attemptTimeout": "10m"},
            **({"template": {"image": self.options.image}} if self.options.image else {}),
        }
        kind = {"apiVersion": names.API_VERSION, "kind": names.BENCHMARK_KIND}
        body = {**kind, "metadata": {"name": NAME, "namespace": self.namespace}, "spec": spec}
        made = self.ask(self.api.create(kube.BENCHMARKS, body))
        if not self.holds("apply", made is not None, NAME if made else f"{NAME} is there already: delete it first"):
            return
        try:
            self.follow(made["metadata"]["uid"], spot=str(chosen[1]))
        finally:
            self.delete(made["metadata"]["uid"])

    def follow(self, uid: str, *, spot: str) -> None:
        """Until it has finished, with a reclaim as soon as a gang runs on spot nodes; then what must hold."""
        hit, did, labels = "", "", {names.LABEL_BENCHMARK_UID: uid}
        found: kube.Object = {"metadata": {}}
        deadline = time.monotonic() + PLANNED_SECONDS
        while not kube.condition(found, "Finished") and time.monotonic() < deadline:
            time.sleep(2.0)
            with contextlib.suppress(kube.TemporaryError):  # a control plane may be away for a while
                pods = self.ask(self.api.list(kube.PODS, namespace=self.namespace, labels=labels))
                gang = [pod for pod in pods if pod["metadata"]["labels"].get(names.LABEL_POOL) == spot]
                gang = [pod for pod in gang if pod["status"].get("phase") == "Running"]
                if not did and len(gang) == NODES:
                    hit = gang[-1]["metadata"]["labels"]["job-name"]
                    did = self.take_away(gang[-1]["spec"]["nodeName"])
                found = self.ask(self.api.get(kube.BENCHMARKS, name=NAME, namespace=self.namespace)) or found
            if (found.get("status") or {}).get("startTime"):
                deadline = self.begun + SECONDS
        now = found.get("status") or {}
        said = f"{now.get('phase')} after {time.monotonic() - self.begun:.0f} s"
        if not now.get("startTime"):
            self.holds("finished", ok=False, seen=f"{said}: {now.get('message')}")
            return
        self.holds("finished", now["phase"] == "Succeeded", said)
        self.doctor("after")
        place = self.folder / "results"
        code, said = self.gpubench("export", NAME, str(place), "-n", self.namespace)
        if not self.holds("export", code == 0, said.strip().removeprefix(f"{place}: ")):
            return
        ledger, status = results.read_ledger(place).records, results.read_summary(place).status
        attempt = next((one for one in ledger if one.job == hit), None)
        counts = status.attempts or AttemptCounts()
        took = [one for one in ledger if one.outcome is Outcome.PREEMPTED]
        drilled = [one for one in took if one.drilled is not None]
        ended = f"{attempt.outcome}, {attempt.interruption or attempt.reason}" if attempt else "no attempt was hit"
        is_counted = (counts.drilled, counts.preempted) == (len(drilled), len(took) - len(drilled))
        is_counted &= attempt in (drilled if did.startswith("drill:") else took)
        self.holds("reclaim", is_counted, f"{did or 'none'}; {ended}; counted: {counts.to_json()}")
        later = [one for one in ledger if attempt and one.trial == attempt.trial and one.attempt > attempt.attempt]
        again = [one.key for one in later if one.outcome is Outcome.SUCCEEDED]
        self.holds("repeated", bool(again), ", ".join(again) or "no further attempt succeeded")
        states = [f"{one.pool} {one.state} ({len(one.values)} repeats)" for one in status.results]
        measured = [one for one in status.results if one.state == "Measured" and len(one.values) == REPEATS]
        self.holds("table", len(measured) == len(states) == 2, "; ".join(states))
        code, said = self.gpubench("verify", str(place))
        self.holds("verify", code == 0, said.splitlines()[0].removeprefix(f"{place}: "))
        self.gpubench("report", str(place), "--out", str(self.folder / "report.html"))
        said = self.gpubench("show", str(place), "--bill")[1].replace(str(place), "results").strip()
        events = self.ask(self.api.list(kube.EVENTS, namespace=self.namespace, fields={"reason": "Pulled"}))
        self.sections.append(Section(name="results", title="Results", blocks=(Code(title="", text=said),)))
        self.sections.append(Section(name="attempts", title="Attempts", blocks=(_attempts(ledger, events),)))

    def take_away(self, name: str) -> str:
        """The node's end: by the stand-in for a provider, by a command, or a drill."""
        node = self.ask(self.api.get(kube.NODES, name=name)) or {"spec": {}}
        provider = str(node["spec"].get("providerID") or "")
        if self.reclaim is not None:
            return self.reclaim(node)
        if self.options.reclaim:
            zone, instance = ("", *provider.split("/"))[-2:]
            command = shlex.split(self.options.reclaim)
            for key, value in {"node": name, "providerID": provider, "zone": zone, "instance": instance}.items():
                command = [word.replace(f"{{{key}}}", value) for word in command]
            done = subprocess.run(command, check=False, timeout=COMMAND_SECONDS)
            return f"{shlex.join(command)} ended with {done.returncode}"
        if suggestion := CLOUDS.get(provider.partition(":")[0]):
            print(f"a reclaim by the cloud itself: ARGUMENTS=\"--reclaim '{suggestion}'\"", flush=True)
        drill = ["drill", NAME, "-n", self.namespace, "--every", "5s", "--times", "1"]
        drill += ["--drain", self.options.drain] if self.drains else []
        return f"drill: {self.gpubench(*drill)[1].strip()}"

    def delete(self, uid: str) -> None:
        """The benchmark, and until nothing of it is left: of Secrets only the names are read."""
        self.ask(self.api.delete(kube.BENCHMARKS, name=NAME, namespace=self.namespace, uid=uid))
        of: dict[str, Any] = {"namespace": self.namespace, "labels": {names.LABEL_BENCHMARK_UID: uid}}
        deadline, left = time.monotonic() + GONE_SECONDS, ["all"]
        while left and time.monotonic() < deadline:
            time.sleep(1.0)
            found = [(kind, self.ask(self.api.list(kind, metadata_only=True, **of))) for kind in OWNED]
            left = [f"{kind.plural} {kube.name_of(one)}" for kind, some in found for one in some]
            nodes = self.ask(self.api.list(kube.NODES, metadata_only=True))
            marked = (one for one in nodes if names.ANNOTATION_CORDONED in (one["metadata"].get("annotations") or {}))
            left += [f"cordon of {kube.name_of(one)}" for one in marked]
        kinds = ", ".join(kind.plural for kind in OWNED)
        self.holds("nothing is left", not left, ", ".join(left) or f"no {kinds}, no cordon")

    def page(self) -> bool:
        """README.md of the folder; whether all holds."""
        where = "Not a real cloud: the embedded cluster, whose nodes are processes. " if self.reclaim else ""
        took = f"{self.at:%Y-%m-%d %H:%M} UTC, {time.monotonic() - self.begun:.0f} s, "
        rows = tuple((what, "ok" if ok else "failed", seen) for what, ok, seen in self.lines)
        checks = tables.Table(columns=tables.words("CHECK", "", "SEEN"), rows=rows)
        page = Document(
            title="Cluster check",
            lead=f"{where}{took}gpubench {VERSION}. Beside this page: doctor before and after, results, report.html.",
            sections=(Section(name="checks", title="Checks", blocks=(checks,)), *self.sections),
        )
        (self.folder / "README.md").write_text(markdown.render(page), encoding="utf-8")
        self.ask(self.api.close())
        return all(ok for _, ok, _ in self.lines)


def _attempts(ledger: Sequence[AttemptRecord], events: Sequence[kube.Object]) -> tables.Table:
    """A line for each: node arrival, pull, start, barrier; a dash where nobody says."""

    def row(one: AttemptRecord) -> tuple[str, ...]:
        said = " ".join(str(of["message"]) for of in events if of["involvedObject"]["name"].startswith(f"{one.job}-"))
        pulls = [60 * float(m or 0) + float(s) / (1000 if ms else 1) for m, s, ms in _PULLED.findall(said)]
        starts = [started - placed for placed, started, _ in one.pod_times if started is not None]
        join = [] if one.result is None else [float(one.result.join_seconds)]
        times = ([placed for placed, _, _ in one.pod_times], pulls, starts, join)
        machines = "+".join(one.instance_types) or "-"
        return one.key, str(one.outcome), machines, *(f"{max(found):.1f}" if found else "-" for found in times)

    what, seconds = tables.words("ATTEMPT", "OUTCOME", "MACHINES"), tables.numbers("NODE", "PULL", "START", "BARRIER")
    notes = ("Seconds of the slowest pod.",)
    return tables.Table(columns=(*what, *seconds), rows=tuple(map(row, ledger)), notes=notes)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    for name in ("on-demand", "spot", "namespace", "image"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--reclaim", metavar="COMMAND", help="with {node}, {providerID}, {zone}, {instance} filled in")
    parser.add_argument("--drain", default="60s", help="how long a drill cordons the node: %(default)s")
    parser.add_argument("--seconds", type=int, default=60, help="measured in each run: %(default)s")
    parser.add_argument("--folder", type=Path, default=Path(f".run/cluster-check-{datetime.now(UTC):%Y%m%d-%H%M%S}"))
    options = parser.parse_args()
    try:
        options.folder.mkdir(parents=True)
    except OSError as error:
        parser.error(f"--folder {options.folder}: {error.strerror}: name a new folder")
    with contextlib.ExitStack() as stack:
        reclaim = None
        if "KUBECONFIG" not in os.environ:
            import embedded_check  # noqa: PLC0415  # whoever has a cluster needs none of it

            try:
                reclaim = stack.enter_context(embedded_check.started())
            except RuntimeError as error:
                sys.exit(f"cluster_check: {error}")
        check = Check(options, reclaim=reclaim)
        try:
            check.run()
        except (kube.ApiError, OSError, subprocess.TimeoutExpired) as error:
            check.holds("the check itself", ok=False, seen=str(error))
        is_well = check.page()
    print(f"{options.folder}: {'all holds' if is_well else 'FAILED'}; look through it before you send it: README.md")
    return 0 if is_well else 1


if __name__ == "__main__":
    sys.exit(main())
