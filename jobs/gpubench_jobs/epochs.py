# SPDX-License-Identifier: Apache-2.0
"""One rank's run in mode Training: whole epochs, each with an evaluation on held-out samples.

An epoch is cut into windows, so that the live series, the launcher's watchdog and the check for NaN see where it is;
its time is that of all of them and of what lies between. Nothing is run before the first epoch: the tracing and the
libraries' own warm-up lie in it, as in the studies of 2017-18, and the records hold it apart.

Every rank goes through the same windows: in the first epoch rank 0 says how long the next one is; later that follows
from what all ranks know of the epoch before. Where checkpoints are kept (`keeping`), rank 0 looks between windows
whether one is due; an attempt that begins from one has what earlier attempts trained in its epochs.
"""

from dataclasses import dataclass

from gpubench import records
from gpubench_jobs import agreement, checkpoint, clock, distribution, evaluate, keeping, pacing, session, train
from gpubench_jobs.channel import Phase
from gpubench_jobs.session import Session

_FIRST = pacing.Trial(steps=1)
_NOTHING = checkpoint.Part()


@dataclass(frozen=True)
class Course:
    """What is to be gone through."""

    epochs: int
    steps: int  # of an epoch, the same on every rank
    samples: int  # of an epoch, of all ranks
    evaluation: evaluate.Evaluation | None  # None where there are no held-out samples


@dataclass
class _Epoch:
    """The epoch under way on this rank."""

    index: int
    pace: pacing.Trial
    steps: int = 0  # behind it
    before: checkpoint.Part = _NOTHING  # what an earlier attempt has done of it
    loss: float = 0.0  # sum over its samples
    samples: int = 0  # that its steps saw
    begun: int = 0  # by the clock
    kept: int = 0  # nanoseconds of checkpoints before it

    def part(self, now: int, *, kept: int) -> checkpoint.Part:
        """What this rank has done of it so far; checkpoints are no training."""
        trained = now - self.begun - (kept - self.kept)
        return checkpoint.Part(nanoseconds=self.before.nanoseconds + trained, loss=self.loss, samples=self.samples)


def run(rank: Session, course: Course, keeper: keeping.Keeper | None = None) -> tuple[records.Epoch, ...]:
    """All epochs, the same values on every rank; `rank.run` must return the sum of its samples' losses."""
    with rank.sampled():
        done = _run(rank, course, keeper)
    # Not before the first epoch, which has the tracing in it; there it would not be the first any more.
    rank.first_step_seconds = max(rank.first_step_seconds, clock.seconds(rank.windows[0].nanoseconds))
    trained_seconds = sum(clock.seconds(epoch.nanoseconds) for epoch in done)
    step_seconds = clock.seconds(done[-1].nanoseconds) / course.steps
    looks = rank.plan_probe(step_seconds=step_seconds, measured_seconds=trained_seconds)
    for _ in range(2):
        rank.probe(looks)
    return done


def _run(rank: Session, course: Course, keeper: keeping.Keeper | None) -> tuple[records.Epoch, ...]:
    pace, done = _FIRST, list[records.Epoch]()
    steps, before = 0, _NOTHING
    if keeper is not None and keeper.begun is not None:
        progress = keeper.begun.progress
        done += progress.epochs
        steps, before = progress.step - len(done) * course.steps, progress.parts[rank.rank]
        assert 0 <= steps <= course.steps, "a checkpoint of another course is not begun from"
    for index in range(len(done), course.epochs):
        now = _Epoch(index=index, pace=pace, steps=steps, before=before, begun=rank.now())
        now.loss, now.samples = before.loss, before.samples
        now.kept = keeper.nanoseconds if keeper is not None else 0
        _train(rank, course, now, keeper, done)
        steps, before, pace = 0, _NOTHING, now.pace
        trained = rank.now()
        part = now.part(trained, kept=keeper.nanoseconds if keeper is not None else 0)
        held_out = _evaluate(rank, course, pace)
        own = agreement.EpochPart(
            nanoseconds=part.nanoseconds,
            evaluation_nanoseconds=rank.now() - trained,
            loss=part.loss / part.samples,
            samples=part.samples,
        )
        epoch = agreement.epoch(_all_parts(rank, own), index=index, steps=course.steps, held_out=held_out)
        done.append(epoch)
        rank.loss = own.loss
        if rank.rank == 0:
            rank.writer.send(epoch)
        if pace.settled and index:  # the first epoch has the tracing in it
            step_seconds = clock.seconds(epoch.nanoseconds) / course.steps
            pace = pacing.Trial(steps=pacing.steps_for(rank.assignment.window_seconds, step_seconds), settled=True)
    return tuple(done)


def _train(
    rank: Session, course: Course, now: _Epoch, keeper: keeping.Keeper | None, done: list[records.Epoch]
) -> None:
    """The steps of an epoch that are left; the pace is found by its end."""
    place = f" in epoch {now.index + 1} of {course.epochs}"
    while left := course.steps - now.steps:
        first, pace = not rank.windows, now.pace
        steps = min(left, pace.steps)
        windows = left // pace.steps if pace.settled and left >= pace.steps else 1
        if keeper is not None:
            progress = checkpoint.Progress(
                step=now.index * course.steps + now.steps,
                epochs=tuple(done),
                parts=(now.part(rank.now(), kept=keeper.nanoseconds),),
            )
            windows = keeper.look(rank, windows=windows, steps=steps, progress=progress)
        rank.writer.phase(Phase.FIRST_STEP if first else Phase.STEPPING)
        plan = pacing.Plan(first=len(rank.windows), windows=windows, steps=steps, warm_up=False)
        timed = train.time_windows(rank.run, plan, now=rank.now, finished=rank.record, place=place)
        now.steps += plan.windows * plan.steps
        now.loss += sum(window.loss for window in timed)
        now.samples += sum(window.samples for window in timed)
        session.require_batches(
            rank.assignment, steps=now.steps, samples=now.samples, last_may_be_smaller=now.steps == course.steps
        )
        if not pace.settled and not first:  # the first step says how long tracing takes
            now.pace = rank.agreed(
                pacing.next_trial(
                    pacing.Trial(steps=plan.steps),
                    seconds=clock.seconds(timed[-1].nanoseconds),
                    window_seconds=rank.assignment.window_seconds,
                )
            )


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
