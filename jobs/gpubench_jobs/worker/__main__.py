# SPDX-License-Identifier: Apache-2.0
"""One rank. The launcher starts it; what it must do is in its orders (`channel.WorkerConfig`) and Horovod's variables.

Must not happen: a rank that outlives its launcher; a rank that leaves the cores it was given; an exception that ends
in a hang of Python's or Horovod's own clean-up (the process leaves by `os._exit`, after it has said why).

The heavy imports are inside `_train`: the process pins itself first, because libraries count processors when they load.
"""

import os
import signal
import sys
import traceback
from typing import NoReturn

from gpubench import records
from gpubench.exitcodes import ExitCode
from gpubench_jobs import channel, clock, failures, imports
from gpubench_jobs.channel import Phase
from gpubench_jobs.worker import explain


def main() -> NoReturn:
    """Ends the process."""
    orders = channel.WorkerConfig.model_validate_json(os.environ[channel.ENV_CONFIG])  # without them nobody can be told
    writer = channel.Writer(orders.channel)
    try:
        channel.die_with_parent(orders.launcher)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt is none, then: some program has raised it
        if orders.cores:
            os.sched_setaffinity(0, orders.cores)
        _train(orders, writer)
    except BaseException as error:  # a file of the user's own may end by any
        # The traceback first: as soon as the launcher has heard why, it ends this process.
        traceback.print_exc()
        explained = explain.explain(error, orders.assignment)
        _say_failure(orders, writer, explained)
        _leave(explained.exit_code)
    writer.phase(Phase.FINISHED)
    _leave(ExitCode.SUCCEEDED)


def _train(orders: channel.WorkerConfig, writer: channel.Writer) -> None:
    """The way of a rank, one line each."""
    with imports.lean():
        import tensorflow  # noqa: F401, PLC0415  # Keras with it

    from gpubench_jobs import models  # noqa: PLC0415  # see the top
    from gpubench_jobs.engines import horovod  # noqa: PLC0415  # see the top
    from gpubench_jobs.worker import (  # noqa: PLC0415  # see the top
        aggregate,
        builder,
        checkpointer,
        devices,
        environment,
        epochs,
        health,
        sampling,
        session,
    )

    assignment = orders.assignment
    capability = devices.claim(orders)
    devices.require(assignment.precision, capability=capability)
    writer.phase(Phase.CONNECTING)
    horovod.connect(workers=assignment.workers)
    transport = horovod.transport(gpu=assignment.gpu, log=os.environ.get(horovod.ENV_NCCL_LOG))
    writer.phase(Phase.BUILDING)
    described = environment.describe(orders, transport=transport)
    if orders.local_rank == 0:
        writer.send(described)
    builder.use_precision(assignment.precision)
    seed = assignment.seed * 1_000_003 + orders.rank  # ranks must not share samples, nor two seeds a rank's

    def build(first_step: int) -> builder.Work:
        writer.phase(Phase.BUILDING)
        models.seed(seed)
        return builder.build(
            assignment,
            rank=orders.rank,
            seed=seed,
            progress=lambda: writer.phase(Phase.BUILDING),
            first_step=first_step,
        )

    begun = checkpointer.find_checkpoint(orders, writer) if orders.checkpoints is not None else None
    work = build(begun.first_batch if begun is not None else 0)
    if begun is not None and work.course and work.state and not begun.suits(work.course, work.state):
        work = build(0)
    live = sampling.LiveMetrics(assignment, rank=orders.rank)
    live.serve(address=orders.pod_ip, local_rank=orders.local_rank)
    writer.phase(Phase.SPREADING)
    if assignment.workers > 1:
        builder.require_same(horovod.gather(builder.outline(work)), assignment)
    horovod.broadcast(work.persistent)
    gpu = devices.open_gpu(orders.local_rank) if assignment.gpu else None
    rank = session.Session(
        assignment=assignment,
        rank=orders.rank,
        run=work.run,
        writer=writer,
        live=live,
        now=clock.monotonic_ns,
        computing=work.computing,
        sampler=sampling.Sampler(orders.rank, gpu=gpu, seen=live.usage),
    )
    rank.health = health.check(rank)
    keeper = resumed = None
    if begun is not None and work.course and work.state:
        resumed, keeper = begun.resume(rank, work.state), begun.keeper(work.course, work.state)
    if work.course is None:
        rank.first_step()
    init_seconds = clock.seconds(clock.monotonic_ns() - orders.started_ns)
    if work.course is None:
        rank.measure(rank.warm_up(rank.calibrate()))
    training = epochs.run_epochs(rank, work.course, keeper) if work.course else ()
    if keeper is not None and keeper.store is not None:
        keeper.store.files(assignment.attempt)  # RankError where a later attempt keeps some: a result removes them
    reports = rank.agree(
        work.weights, described, links=horovod.links(horovod.read_nccl_log(os.environ.get(horovod.ENV_NCCL_LOG)))
    )
    result = aggregate.result(
        reports,
        assignment=assignment,
        join_seconds=orders.join_seconds,
        init_seconds=init_seconds,
        training=training,
        kept=keeper.kept if keeper is not None else None,
        resumed=resumed,
    )
    if orders.rank == 0:
        writer.send(result)
    horovod.disconnect()


def _say_failure(orders: channel.WorkerConfig, writer: channel.Writer, explained: failures.RankError) -> None:
    writer.send(
        records.Failure(
            trial=orders.assignment.trial,
            attempt=orders.assignment.attempt,
            exit_code=explained.exit_code,
            rank=orders.rank,
            sentence=explained.sentence[:2000],
        )
    )


def _leave(code: int) -> NoReturn:
    """At once: TensorFlow's and Horovod's exit handlers take over a second, and may wait for peers that are gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
