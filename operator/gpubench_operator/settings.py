# SPDX-License-Identifier: Apache-2.0
"""The operator's settings, from environment variables that begin with GPUBENCH_.

Each setting has its meaning beside it; a value that cannot be used, and a GPUBENCH_ variable that nobody knows, stop
the program with a sentence: a misspelt setting must not be silently ignored.
"""

import os
import socket
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from gpubench.scheduler import manifests, observed

PREFIX = "GPUBENCH_"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")

_LISTS = ("watch_namespaces", "metrics_namespaces")

Seconds = Annotated[float, Field(gt=0, le=86_400)]


class BadSetting(ValueError):
    """A sentence with the variable, its value and the remedy."""


class Settings(BaseModel):
    """One field for each variable: `lease_seconds` is GPUBENCH_LEASE_SECONDS."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watch_namespaces: tuple[str, ...] = Field(
        (), description="Namespaces whose GpuBenchmarks are served, separated by commas; empty means all."
    )
    lease_namespace: str = Field(
        "default", min_length=1, description="Namespace of the Lease; the pod's own namespace where it runs in one."
    )
    lease_name: str = Field("gpubench-operator", min_length=1, description="Name of the Lease.")
    lease_seconds: Seconds = Field(15, description="How long the Lease is valid after its last renewal.")
    lease_renew_seconds: Seconds = Field(
        10, description="A holder that could not renew for this long ends itself; shorter than the Lease."
    )
    lease_retry_seconds: Seconds = Field(2, description="Time between two tries to get or to renew the Lease.")
    identity: str = Field(
        "", description="Who holds the Lease; the pod's or host's name by default. A random part is always added."
    )
    metrics_address: str = Field(
        "::", description="Address on which /metrics, /healthz and /readyz are served; `::` is every one, also of IPv4."
    )
    metrics_port: int = Field(8080, ge=0, le=65_535, description="Port of the same; 0 takes a free one and logs it.")
    metrics_namespaces: tuple[str, ...] = Field(
        (), description="Namespaces that may scrape the gangs' live metrics, separated by commas; empty means all."
    )
    metrics_tls_folder: str = Field(
        "", description="Folder with tls.crt and tls.key, read again when they change: HTTPS; empty: HTTP."
    )
    metrics_token_review: bool = Field(
        False, description="Whether the API server is asked who scrapes /metrics and may get it; needs HTTPS."
    )
    workers: int = Field(8, ge=1, le=256, description="Reconciles that run at the same time.")
    request_seconds: Seconds = Field(30, description="Time-out of one request to the API server.")
    requests_per_second: float = Field(
        500, gt=0, le=10_000, description="Requests to the API server at most, but for the Lease and watches."
    )
    requests_burst: int = Field(1000, ge=1, le=100_000, description="So many of them at once after a silence.")
    resync_seconds: Seconds = Field(300, description="Each unfinished benchmark is reconciled again after this long.")
    node_poll_seconds: Seconds = Field(30, description="How often nodes are listed for the status of GpuPools.")
    node_silent_seconds: Seconds = Field(
        observed.NODE_SILENT_SECONDS,
        description="A gang is given up for a node that has not been ready for so long and whose pod nobody took away; "
        "longer than the tolerationSeconds of its pods, which are 300 by default.",
    )
    status_interval_seconds: Annotated[float, Field(ge=0, le=60)] = Field(
        2, description="Progress goes into a benchmark's status at most this often; changes of phase at once."
    )
    job_ttl_seconds: int = Field(
        600, ge=0, le=604_800, description="How long a finished and recorded Job stays, for its logs."
    )
    series_seconds: float = Field(
        86_400,
        gt=0,
        le=31_536_000,
        description="How long after its end a benchmark has series in /metrics; its object keeps its figures.",
    )
    jobs_image: str = Field(
        "",
        max_length=512,
        description="Image of the pods where neither pool nor benchmark names one; empty: gpubench-jobs.",
    )
    gang_priority_class: str = Field(
        "", max_length=253, description="PriorityClass of the pods of benchmarks; empty: the cluster's own default."
    )
    results_group: int = Field(
        manifests.RESULTS_GROUP,
        ge=0,
        description="fsGroup of pods that write results or checkpoints; 0: none, where the cluster gives one.",
    )
    log_format: Literal["json", "text"] = Field("json", description="JSON lines, or text for people.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="What is logged at least.")

    @property
    def namespaces(self) -> tuple[str | None, ...]:
        """Those that are served; None is all of them."""
        return self.watch_namespaces or (None,)

    @model_validator(mode="after")
    def _lease_times_in_order(self) -> "Settings":
        """The same order that client-go demands: whoever renews late must know it before the Lease can be taken."""
        if not self.lease_retry_seconds < self.lease_renew_seconds < self.lease_seconds:
            raise ValueError("GPUBENCH_LEASE_RETRY_SECONDS < _RENEW_SECONDS < GPUBENCH_LEASE_SECONDS must hold")
        return self

    @model_validator(mode="after")
    def _no_token_in_clear_text(self) -> "Settings":
        if self.metrics_token_review and not self.metrics_tls_folder:
            raise ValueError("GPUBENCH_METRICS_TOKEN_REVIEW needs GPUBENCH_METRICS_TLS_FOLDER")
        return self


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Settings from the environment; BadSetting where one of them cannot be used."""
    environment = os.environ if environment is None else environment
    given: dict[str, object] = {}
    for variable, text in environment.items():
        if not variable.startswith(PREFIX):
            continue
        if (field := variable.removeprefix(PREFIX).lower()) not in Settings.model_fields:
            raise BadSetting(f"{variable} is no setting; there are {', '.join(sorted(variables()))}")
        given[field] = [part.strip() for part in text.split(",") if part.strip()] if field in _LISTS else text
    own_namespace = _NAMESPACE_FILE.read_text().strip() if _NAMESPACE_FILE.exists() else "default"
    given.setdefault("lease_namespace", environment.get("POD_NAMESPACE") or own_namespace)
    # No other process has this name, also none that was started earlier in the same pod or on the same host.
    name = given.get("identity") or environment.get("POD_NAME") or socket.gethostname()
    given["identity"] = f"{name}-{uuid.uuid4().hex[:8]}"
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = PREFIX + str(first["loc"][0]).upper() if first["loc"] else "settings"
        shown = f"={environment[where]}" if where in environment else ""
        raise BadSetting(f"{where}{shown}: {first['msg'].removeprefix('Value error, ')}") from error


def variables() -> tuple[str, ...]:
    return tuple(PREFIX + field.upper() for field in Settings.model_fields)
