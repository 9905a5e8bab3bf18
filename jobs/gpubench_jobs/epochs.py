# SPDX-License-Identifier: Apache-2.0
"""One rank's run in mode Training: whole epochs, each with an evaluation on held-out samples.

An epoch is cut into windows, so that the live series, the launcher's watchdog and the check for NaN see where it is;
its time is that of all of them and of what lies between. Nothing is run before the first epoch: the tracing and the
libraries' own warm-up lie in it, as in the studies of 2017-18, and the records hold it apart.

Every rank goes through the same windows: in the first epoch rank 0 says how long the next one is; later that follows
from what all ranks know of the epoch before.
"""

from dataclasses import dataclass

from gpubench.measure import records
from gpubench_jobs import agreement, clock, distribution, evaluate, pacing, train
from gpubench_jobs.channel import Phase
from gpubench_jobs.session import Session

_FIRST = pacing.Trial(steps=1)


@dataclass(frozen=True)
class Course:
    """What is to be gone through."""

    epochs: int
    steps: int  # of an epoch, the same on every rank
    samples: int  # of an epoch, of all ranks
    evaluation: evaluate.Evaluation | None  # None where there are no held-out samples


def run(rank: Session, course: Course) -> tuple[records.Epoch, ...]:
    """All epochs, the same values on every rank; `rank.run` must return the sum of its steps' losses."""
    with rank.sampled():
        done = _run(rank, course)
    # Not before the first epoch, which has the tracing in it; there it would not be the first any more.
    rank.first_step_seconds = clock.seconds(rank.windows[0].nanoseconds)
    trained_seconds = sum(clock.seconds(epoch.nanoseconds) for epoch in done)
    step_seconds = clock.seconds(done[-1].nanoseconds) / course.steps
    looks = rank.plan_probe(step_seconds=step_seconds, measured_seconds=trained_seconds)
    for _ in range(2):
        rank.probe(looks)
    return done


def _run(rank: Session, course: Course) -> tuple[records.Epoch, ...]:
    pace, done = _FIRST, list[records.Epoch]()
    for index in range(course.epochs):
        begun = rank.now()
        loss, pace = _train(rank, course, index=index, pace=pace)
        trained = rank.now()
        held_out = _evaluate(rank, course, pace)
        part = agreement.EpochPart(
            nanoseconds=trained - begun, evaluation_nanoseconds=rank.now() - trained, loss=loss / course.steps
        )
        epoch = agreement.epoch(
            _all_parts(rank, part), index=index, steps=course.steps, samples=course.samples, held_out=held_out
        )
        done.append(epoch)
        rank.loss = part.loss
        if rank.rank == 0:
            rank.writer.send(epoch)
        if pace.settled and index:  # the first epoch has the tracing in it
            step_seconds = clock.seconds(epoch.nanoseconds) / course.steps
            steps = pacing.steps_for(rank.assignment.window_seconds, step_seconds)
            pace = pacing.Trial(steps=steps, settled=True)
    return tuple(done)


def _train(rank: Session, course: Course, *, index: int, pace: pacing.Trial) -> tuple[float, pacing.Trial]:
    """The sum of the losses of one epoch, and the pace that was found by its end."""
    left, total, place = course.steps, 0.0, f" in epoch {index + 1} of {course.epochs}"
    while left:
        first = not rank.windows
        rank.writer.phase(Phase.FIRST_STEP if first else Phase.STEPPING)
        plan = pacing.Plan(
            first=len(rank.windows),
            windows=left // pace.steps if pace.settled and left >= pace.steps else 1,
            steps=min(left, pace.steps),
            warm_up=False,
        )
        windows = train.time_windows(rank.run, plan, now=rank.now, finished=rank.record, place=place)
        left -= plan.windows * plan.steps
        total += sum(window.loss for window in windows)
        if not pace.settled and not first:  # the first step says how long tracing takes
            seconds = clock.seconds(windows[-1].nanoseconds)
            pace = rank.agreed(
                pacing.next_trial(
                    pacing.Trial(steps=plan.steps), seconds=seconds, window_seconds=rank.assignment.window_seconds
                )
            )
    return total, pace


def _evaluate(rank: Session, course: Course, pace: pacing.Trial) -> agreement.HeldOut | None:
    if course.evaluation is None:
        return None

    def progress() -> None:
        rank.writer.phase(Phase.EVALUATING)

    progress()
    return course.evaluation.run(batches_at_once=pace.steps, progress=progress)


def _all_parts(rank: Session, part: agreement.EpochPart) -> list[agreement.EpochPart]:
    rank.writer.phase(Phase.AGREEING)
    return [part] if rank.assignment.workers == 1 else distribution.gather(part)
