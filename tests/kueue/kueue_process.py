# SPDX-License-Identifier: Apache-2.0
"""Kueue, built from its source into the cache, as a process beside the embedded cluster.

Its webhooks and the conversion of its CRDs are at an address of the loopback interface instead of a Service.
What may not happen here: a change of Kueue.
"""

import base64
import contextlib
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import yaml

import installation
import referee
from cluster import Cluster
from cluster_pods import wait_for
from gpubench import names

HERE = Path(__file__).resolve().parent
GROUP = f"{names.KUEUE_GROUP}/v1beta2"
SERVED = ("workloads", "clusterqueues", "localqueues", "resourceflavors", "topologies", "admissionchecks")
READY_SECONDS = 120.0
#: Kueue reads a certificate for its metrics below /etc even where it serves none: it has an /etc of its own.
OWN_ETC = ("unshare", "--map-root-user", "--mount", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"')


def build(source: Path) -> Path:
    """Kueue's program of this source."""
    files = [path for room in ("apis", "client-go", "cmd/kueue", "pkg") for path in (source / room).rglob("*.go")]
    return referee.built("kueue", module=source, sources=files, package="./cmd/kueue")


class Kueue:
    """Kueue as a process. Its webhooks stay registered while it is down, as where it is installed."""

    def __init__(self, cluster: Cluster, source: Path, folder: Path) -> None:
        self._cluster, self._source, self.folder = cluster, source, folder
        self._program = build(source)
        self._port, self._health = installation.free_port(), f"127.0.0.1:{installation.free_port()}"
        self._certificates = folder / "etc" / "kueue" / "metrics" / "certs"
        self._certificates.mkdir(parents=True)
        for end in ("crt", "key"):  # the API server's own: it is for 127.0.0.1
            copy = (cluster.directory / "certificates" / f"apiserver.{end}").read_bytes()
            (folder / f"tls.{end}").write_bytes(copy)
            (self._certificates / f"tls.{end}").write_bytes(copy)
        self._configuration = ""
        self._process: subprocess.Popen[bytes] | None = None
        self.log = folder / "kueue.log"

    def install(self) -> None:
        """CRDs, webhooks and what scenarios share; needs a Kueue that runs."""
        for path in sorted((self._source / "config/components/crd/bases").glob("*.yaml")):
            crd = yaml.safe_load(path.read_text())
            if (path.parents[1] / "patches" / f"webhook_in_{crd['spec']['names']['plural']}.yaml").exists():
                webhook = {"clientConfig": self._client("/convert"), "conversionReviewVersions": ["v1"]}
                crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
            self._cluster.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
        not_in = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "kueue-system"]}
        for body in yaml.safe_load_all((self._source / "config/components/webhook/manifests.yaml").read_text()):
            hooks = [hook for hook in body["webhooks"] if _groups(hook) <= {names.KUEUE_GROUP, "batch"}]
            for hook in hooks:
                hook["clientConfig"] = self._client(hook["clientConfig"]["service"]["path"])
                if names.KUEUE_GROUP not in _groups(hook):
                    hook["namespaceSelector"] = {"matchExpressions": [not_in]}
            kind = f"/apis/admissionregistration.k8s.io/v1/{body['kind'].lower()}s"
            self._cluster.request("POST", kind, {**body, "webhooks": hooks})
        self._cluster.kubectl("create", "namespace", "kueue-system")
        for kind in SERVED:
            installation.wait_until_served(self._cluster, f"/apis/{GROUP}/{kind}")

    def _client(self, path: str) -> dict[str, str]:
        bundle = base64.b64encode((self.folder / "tls.crt").read_bytes()).decode()
        return {"url": f"https://127.0.0.1:{self._port}{path}", "caBundle": bundle}

    def start(self, configuration: str) -> None:
        """Anew where it runs with another configuration; until it serves its webhooks."""
        if self._process is not None and self._configuration == configuration:
            return
        self.end()
        self._configuration = configuration
        known = yaml.safe_load((HERE / "configurations.yaml").read_text())
        webhook = {"port": self._port, "host": "127.0.0.1", "certDir": str(self.folder)}
        body = known["default"] | known[configuration]
        body |= {"webhook": webhook, "health": {"healthProbeBindAddress": self._health}}
        (self.folder / "configuration.yaml").write_text(yaml.safe_dump(body))
        wait_for(self._is_ready, what=f"Kueue is ready, see {self.log}", timeout_seconds=READY_SECONDS)

    def _is_ready(self) -> bool:
        """Started again where it ended, as a Deployment does: it ends where discovery lacks its kinds as yet."""
        if self._process is None or self._process.poll() is not None:
            path = str(self.folder / "configuration.yaml")
            command = [*OWN_ETC, str(self.folder / "etc"), *referee.DIES_WITH_US, str(self._program), "--config", path]
            environment = {**os.environ, "KUBECONFIG": str(self._cluster.kubeconfig)}
            with self.log.open("ab") as log:
                self._process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        with contextlib.suppress(OSError):
            return bool(installation.read_page(f"http://{self._health}/readyz"))
        return False

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """SIGKILL ends it in the middle of whatever it does."""
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(READY_SECONDS)
            self._process = None


def _groups(hook: Any) -> set[str]:
    return {group for rule in hook["rules"] for group in rule["apiGroups"]}
