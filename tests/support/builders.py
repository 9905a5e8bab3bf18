# SPDX-License-Identifier: Apache-2.0
"""Values for tests, each with one line: only what a test is about is named, everything else is a plain default."""

from typing import Any

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.point_result import PointResult
from gpubench.api.pool import GpuPool, GpuPoolSpec
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.records import Environment, Failure, Result, Training, termination_message
from gpubench.scheduler.ledger import AttemptRecord, Outcome, Reason
from gpubench.scheduler.observed import ContainerEnd, Disruption, FreeSlots, Observed, ObservedJob, ObservedPod, Study

NOW = 1_700_000_000.0
UID = "0f6f2c1e-6f0a-4f3e-9a53-0d9f6f9a1c11"


def pool(name: str = "cpu", **spec: Any) -> GpuPool:
    defaults: dict[str, Any] = {
        "slots_per_node": 1,
        "max_nodes": 4,
        "slot": {"cpu": "1", "memory": "1Gi"},
        "price": {"per_node_hour": "0.36", "currency": "USD", "as_of": "2023-11-01"},
    }
    return GpuPool(name=name, spec=GpuPoolSpec.model_validate(defaults | spec))


def block(**fields: Any) -> dict[str, Any]:
    defaults: dict[str, Any] = {"workloads": ["mnist_cnn"], "pools": ["cpu"], "workers": [1, 2]}
    if "globalBatch" not in fields:
        defaults["batchPerWorker"] = [64]
    return defaults | fields


def spec(*blocks: dict[str, Any], **fields: Any) -> GpuBenchmarkSpec:
    return GpuBenchmarkSpec.model_validate({"sweep": list(blocks) or [block()], **fields})


def study(a_spec: GpuBenchmarkSpec | None = None, **fields: Any) -> Study:
    defaults: dict[str, Any] = {
        "namespace": "default",
        "name": "quick",
        "uid": UID,
        "generation": 1,
        "created_at": NOW,
        "spec": a_spec or spec(),
    }
    return Study(**(defaults | fields))


def plan(a_spec: GpuBenchmarkSpec | None = None, *pools: GpuPool) -> Plan:
    return freeze(a_spec or spec(), pools or (pool(),), "2023-11-14T22:13:20Z")


def training(**fields: Any) -> Training:
    """Three epochs of 10 s, the first of 14 s, each followed by an evaluation of 1 s, the first of 2 s."""
    defaults: dict[str, Any] = {
        "epochs": 3,
        "nanoseconds": 34_000_000_000,
        "evaluation_nanoseconds": 4_000_000_000,
        "first_nanoseconds": 14_000_000_000,
        "first_evaluation_nanoseconds": 2_000_000_000,
        "first_samples": 10_000,
        "loss": 0.25,
        "metric": "accuracy",
        "final": 0.97,
        "best": 0.98,
    }
    return Training(**(defaults | fields))


def result(
    *,
    trial: str = "t",
    attempt: int = 1,
    rate: float = 1000.0,
    environment: str = "env",
    training: Training | None = None,
    **fields: Any,
) -> Result:
    """A result whose throughput is `rate` samples per second; with a training, its epochs and their time."""
    return Result(
        trial=trial,
        attempt=attempt,
        workers=1,
        steps=100,
        samples=round(rate * 10) if training is None else training.epochs * training.first_samples,
        nanoseconds=10_000_000_000 if training is None else training.nanoseconds,
        windows=10,
        warm_up_windows=2,
        window_nanoseconds=(990_000_000, 1_000_000_000, 1_010_000_000),
        final_loss=0.5,
        weights_digest="d",
        environment=environment,
        join_seconds=1.0,
        init_seconds=5.0,
        training=training,
        **fields,
    )


def environment(**fields: Any) -> Environment:
    """A GPU pool's, as a worker finds it."""
    defaults: dict[str, Any] = {
        "accelerator": "NVIDIA A100-SXM4-40GB",
        "driver": "550.54.15",
        "cuda": "12.5.1",
        "cudnn": "9",
        "nccl": "21805",
        "transport": "nccl",
        "framework": "TensorFlow",
        "framework_version": "2.18.1",
        "collectives": "Horovod",
        "collectives_version": "0.28.1",
        "image": "gpubench-jobs:0.1.0",
        "python": "3.11.9",
        "front_end": "Keras 3.6.0",
        "kernel": "5.15.0",
        "node": "node-0",
        "threads_per_rank": 11,
    }
    return Environment.model_validate(defaults | fields)


def failure(*, trial: str = "t", attempt: int = 1, exit_code: int = 80, sentence: str = "it broke") -> Failure:
    return Failure(trial=trial, attempt=attempt, exit_code=exit_code, sentence=sentence)


def message(record: Result | Failure) -> str:
    return termination_message(record).decode()


def ended(exit_code: int = 0, *, text: str = "", reason: str | None = None, at: float = NOW + 60) -> ContainerEnd:
    return ContainerEnd(exit_code=exit_code, reason=reason, message=text, started_at=NOW + 5, finished_at=at)


def observed_pod(index: int = 0, **fields: Any) -> ObservedPod:
    defaults: dict[str, Any] = {
        "name": f"pod-{index}",
        "index": index,
        "phase": "Running",
        "node": f"node-{index}",
        "scheduled_at": NOW + 1,
        "running_at": NOW + 5,
    }
    return ObservedPod(**(defaults | fields))


def observed_job(**fields: Any) -> ObservedJob:
    defaults: dict[str, Any] = {
        "name": "job",
        "uid": "job-uid",
        "trial": "t",
        "attempt": 1,
        "pool": "cpu",
        "slots": 1,
        "created_at": NOW,
        "pods": (observed_pod(),),
    }
    return ObservedJob(**(defaults | fields))


def disrupted(reason: str = "EvictionByEvictionAPI") -> Disruption:
    return Disruption(reason=reason, message="evicted")


def observed(a_study: Study | None = None, *jobs: ObservedJob, free: int = 4, pool: str = "cpu") -> Observed:
    return Observed(study=a_study or study(), jobs=jobs, free=(FreeSlots(pool=pool, slots=free),))


def attempt(**fields: Any) -> AttemptRecord:
    defaults: dict[str, Any] = {
        "trial": "t",
        "attempt": 1,
        "job": "job",
        "job_uid": "job-uid",
        "created_at": NOW,
        "outcome": Outcome.FAILED,
        "reason": Reason.WORKER_RAISED,
        "sentence": "it broke",
        "ended_at": NOW + 60,
    }
    return AttemptRecord(**(defaults | fields))


def messages(result: PointResult) -> tuple[str, ...]:
    """The sentences of its warnings."""
    return tuple(warning.message for warning in result.warnings)
