# SPDX-License-Identifier: Apache-2.0
"""One rank. The launcher starts it; what it does is in `channel.WorkerConfig` and Horovod's variables.

Must not happen: a rank that outlives its launcher; a rank that leaves the cores it was given (it pins itself before the
heavy imports inside `_train`, because libraries count processors when they load); an exception that ends in a hang of
Python's or Horovod's own clean-up (the process leaves by `os._exit`, after it has said why).
"""

import os
import signal
import sys
import traceback
from typing import NoReturn

from gpubench import names, records
from gpubench.exitcodes import ExitCode
from gpubench_jobs import channel, clock, failures
from gpubench_jobs.channel import Phase


def main() -> NoReturn:
    """Ends the process."""
    config = channel.WorkerConfig.model_validate_json(os.environ[channel.ENV_CONFIG])  # without it nobody can be told
    writer = channel.Writer(config.channel)
    try:
        channel.die_with_parent(config.launcher)
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt is none, then: some program has raised it
        if config.cores:
            os.sched_setaffinity(0, config.cores)
        _train(config, writer)
    except BaseException as error:  # a file of the user's own may end by any
        # The traceback first: as soon as the launcher has heard why, it ends this process.
        traceback.print_exc()
        explained = failures.explain(error, config.assignment)
        failure = records.Failure(
            trial=config.assignment.trial,
            attempt=config.assignment.attempt,
            exit_code=explained.exit_code,
            rank=config.rank,
            sentence=explained.sentence[:2000],
        )
        writer.send(failure)
        _leave(explained.exit_code)
    writer.phase(Phase.FINISHED)
    _leave(ExitCode.SUCCEEDED)


def import_tensorflow() -> None:
    """And Keras, which imports pyplot wherever it can be had: a quarter of the processor time of its own import."""
    sys.modules["matplotlib"] = None  # type: ignore[assignment]  # to Python there is none
    import tensorflow  # noqa: F401, PLC0415

    del sys.modules["matplotlib"]  # a user's own file may want it


def _train(config: channel.WorkerConfig, writer: channel.Writer) -> None:  # the way of a rank, one line each
    import_tensorflow()
    from gpubench_jobs import models  # noqa: PLC0415  # see the top
    from gpubench_jobs.engines import horovod, launch  # noqa: PLC0415
    from gpubench_jobs.worker import (  # noqa: PLC0415
        aggregate,
        builder,
        checkpointer,
        environment,
        epochs,
        health,
        nvidia,
        sampling,
        session,
    )

    assignment = config.assignment
    environment.claim(config)
    writer.phase(Phase.CONNECTING)
    horovod.connect(workers=assignment.workers)
    nccl_log = os.environ.get(launch.ENV_NCCL_LOG)
    transport = horovod.transport(gpu=assignment.gpu, log=nccl_log)
    writer.phase(Phase.BUILDING)
    described = environment.describe(config, transport=transport)
    if config.local_rank == 0:
        writer.send(described)
    builder.use_precision(assignment.precision)
    seed = assignment.seed * 1_000_003 + config.rank  # ranks must not share samples, nor two seeds a rank's

    def build(first_step: int) -> builder.Work:
        writer.phase(Phase.BUILDING)
        models.seed(seed)
        return builder.build(
            assignment,
            rank=config.rank,
            seed=seed,
            progress=lambda: writer.phase(Phase.BUILDING),
            first_step=first_step,
        )

    restore = checkpointer.find_checkpoint(config, writer) if config.checkpoints is not None else None
    work = build(restore.first_batch if restore is not None else 0)
    if restore is not None and work.plan and work.state and not restore.suits(work.plan, work.state):
        work = build(0)
    live = sampling.LiveMetrics(assignment, rank=config.rank, namespace=os.environ.get(names.ENV_NAMESPACE, ""))
    live.serve(address=config.pod_ip, local_rank=config.local_rank)
    writer.phase(Phase.SPREADING)
    if assignment.workers > 1:
        aggregate.require_same(horovod.gather(work.facts()), assignment)
    horovod.broadcast(work.persistent)
    gpu = nvidia.open_gpu(config.local_rank) if assignment.gpu else None
    live.begin(None if gpu is None else gpu.uuid)
    rank = session.Session(
        assignment=assignment,
        rank=config.rank,
        run=work.run,
        writer=writer,
        live=live,
        now=clock.monotonic_ns,
        computing=work.computing,
        sampler=sampling.Sampler(config.rank, gpu=gpu, seen=live.usage),
    )
    rank.health = health.check(rank)
    keeper = resumed = None
    if restore is not None and work.plan and work.state:
        resumed, keeper = restore.restore(rank, work.state), restore.checkpointer(work.plan, work.state)
    if work.plan is None:
        rank.first_step()
    init_seconds = clock.seconds(clock.monotonic_ns() - config.started_ns)
    if work.plan is None:
        rank.measure(rank.warm_up(rank.calibrate()))
    training = epochs.run_epochs(rank, work.plan, keeper) if work.plan else ()
    if keeper is not None and keeper.store is not None:
        keeper.store.files(assignment.attempt)  # RankError where a later attempt keeps some: a result removes them
    result = aggregate.result(
        rank.agree(work.weights, described, links=launch.links(launch.read_nccl_log(nccl_log))),
        assignment=assignment,
        join_seconds=config.join_seconds,
        init_seconds=init_seconds,
        training=training,
        kept=keeper.kept if keeper is not None else None,
        resumed=resumed,
    )
    if config.rank == 0:
        writer.send(result)
    horovod.disconnect()


def _leave(code: int) -> NoReturn:
    """At once: TensorFlow's and Horovod's exit handlers take over a second, and may wait for peers that are gone."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
