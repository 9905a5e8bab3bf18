# SPDX-License-Identifier: Apache-2.0
"""From what every rank reports to the one result of the gang. Pure.

Must not happen: a figure from ranks that did not do the same work. Ranks whose weights differ were not trained
together, however fast they were.
"""

from collections.abc import Callable, Sequence

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench.plan import assignment as assignments
from gpubench.stats import gang
from gpubench.values import FrozenModel
from gpubench_jobs.engines import launch
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker.checkpoint import Part


class Report(FrozenModel):
    """One rank at the end of its run."""

    rank: int
    windows: tuple[records.Window, ...]
    final_loss: float
    weights_digest: str
    environment: str
    links: tuple[str, ...] = ()  # of NCCL, where it tells them
    usage: records.Usage | None = None
    health: records.Health | None = None


class HeldOut(FrozenModel):
    """How the gang's model does on all held-out samples; the same on every rank."""

    loss: float | None  # None where it overflowed: the accuracy still says how good the model is
    accuracy: float | None
    samples: int  # of all ranks: each held-out sample once


def require_same(facts: Sequence[dict[str, str]], assignment: assignments.Assignment) -> None:
    """RankError, the same on every rank, where ranks have built what cannot be trained together (`Work.facts`)."""
    differing = (
        f"{what}: {value} on rank 0, {other.get(what)} on rank {rank}"
        for rank, other in enumerate(facts)
        for what, value in facts[0].items()
        if other.get(what) != value
    )
    if (differs := next(differing, None)) is None:
        return
    if assignment.custom_file is not None:
        raise RankError(
            ExitCode.CUSTOM_MODEL_FAILED,
            f"build() of {assignment.custom_file} must give every rank the same ({differs}): correct the file",
        )
    raise RankError(
        ExitCode.DATA_UNUSABLE,
        f"ranks have found different data ({differs}): give every node the same files at {assignment.data.path}",
    )


def result(
    reports: Sequence[Report],
    *,
    assignment: assignments.Assignment,
    join_seconds: float,
    init_seconds: float,
    training: tuple[records.Epoch, ...] = (),
    kept: Sequence[records.Checkpoint] | None = None,
    resumed: records.Resumed | None = None,
) -> records.Result:
    """The figures of the gang (`gpubench.stats.gang`), once all ranks are seen to have done the same work."""
    digest = _same(reports, lambda report: report.weights_digest, "ended with different weights: gradients were lost")
    environment = _same(
        reports, lambda report: report.environment, "ran in different environments: a pool must hold equal nodes"
    )
    _same(reports, lambda report: str(len(report.windows)), "ran different numbers of windows")
    computed = gang.computed(
        [report.windows for report in reports],
        batch_per_worker=assignment.batch_per_worker,
        epochs=training,
        usages=[report.usage for report in reports if report.usage],
        healths=[report.health for report in reports if report.health],
        kept=kept,
        resumed=resumed,
    )
    return records.Result(
        trial=assignment.trial,
        attempt=assignment.attempt,
        **dict(computed),
        final_loss=sum(report.final_loss for report in reports) / len(reports),
        weights_digest=digest,
        environment=environment,
        links=launch.joined_links(report.links for report in reports),
        join_seconds=join_seconds,
        init_seconds=init_seconds,
    )


def epoch(parts: Sequence[Part], *, index: int, steps: int, held_out: HeldOut | None) -> records.Epoch:
    """One epoch of the gang: as long as its slowest rank took, with the mean loss of all samples."""
    samples = sum(part.samples for part in parts)
    means = [part.loss / part.samples for part in parts]
    return records.Epoch(
        index=index,
        steps=steps,
        samples=samples,
        nanoseconds=max(part.nanoseconds for part in parts),
        evaluation_nanoseconds=max(part.evaluation_nanoseconds for part in parts),
        loss=sum(mean * part.samples for mean, part in zip(means, parts, strict=True)) / samples,
        evaluation_loss=held_out.loss if held_out else None,
        accuracy=held_out.accuracy if held_out else None,
        evaluation_samples=held_out.samples if held_out else None,
    )


def _same(reports: Sequence[Report], value: Callable[[Report], str], complaint: str) -> str:
    first = value(reports[0])
    for report in reports[1:]:
        if value(report) != first:
            raise RankError(ExitCode.WORKER_RAISED, f"ranks {reports[0].rank} and {report.rank} {complaint}")
    return first
