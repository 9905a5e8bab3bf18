# SPDX-License-Identifier: Apache-2.0
"""The measuring process of `gpubench self-check`: clock, then gangs of fresh ranks that run two loops in turns.

    GPUBENCH_SELF_CHECK=<an Order as JSON> python -P -m gpubench_jobs.self_check

It writes `measure.self_check.Found` values as JSON lines, each as soon as it is known. The measured loop is what a
gang's worker runs: `train.time_windows` with records on a pipe that somebody empties, live metrics served, and usage
sampled. The bare loop is one call of the same compiled function for all steps of a block. Must not happen: a rank that
is still there when this process has ended, or this process when the command has.

The heavy imports are inside `_run_rank`: the process pins itself first, because libraries count processors when they
load, and the process that starts the ranks must not load TensorFlow beside them.
"""

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gpubench import names
from gpubench.measure.self_check import Clock, Gang, Order
from gpubench.plan.assignment import Assignment
from gpubench.precision import Precision
from gpubench_jobs import channel, clock, distribution, lifetime, ranks

if TYPE_CHECKING:
    from gpubench_jobs.session import Session

ENV_ORDER = "GPUBENCH_SELF_CHECK"
ENV_COMMAND = "GPUBENCH_SELF_CHECK_COMMAND"  # process id of `gpubench self-check`
_RANK = "rank"
_READINGS = 200_000
_SLACK = 1.15  # over the time that a gang of this size took before
_STEPS_TRIED = 16
_SAMPLES_OF_A_BLOCK = 3
_SEED = 1

#: Trains so many steps; the seconds that this rank took.
Block = Callable[[int], float]


def main() -> int:
    """The clock, then gangs for as long as there is time."""
    lifetime.die_with(int(os.environ.get(ENV_COMMAND, os.getppid())))
    order = Order.model_validate_json(os.environ[ENV_ORDER])
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that `finally` ends the ranks
    deadline = clock.monotonic_ns() + int(order.seconds * clock.NANOSECONDS)
    _say(read_clock())
    took: dict[int, float] = {}
    for size in _sizes(order):
        begun = clock.monotonic_ns()
        left = clock.seconds(deadline - begun)
        if took.get(size, 0.0) * _SLACK > left:
            break
        gang = run_gang(order, size, seconds=left)
        if gang is None:
            break
        took[size] = clock.seconds(clock.monotonic_ns() - begun)
        _say(gang)
    return 0


def read_clock(readings: int = _READINGS) -> Clock:
    """The smallest step between two readings that differ, and the mean time of one."""
    first = last = clock.monotonic_ns()
    steps = set()
    for _ in range(readings):
        now = clock.monotonic_ns()
        steps.add(now - last)
        last = now
    return Clock(step_nanoseconds=min(steps - {0}, default=0), reading_nanoseconds=(last - first) / readings)


def run_gang(order: Order, size: int, *, seconds: float) -> Gang | None:
    """Fresh ranks on cores of their own; None where they were not done in time."""
    address = _address()
    distribution.serve_rendezvous(address=address, port=names.PORT_RENDEZVOUS, hosts=1, slots=size)
    assignment = _assignment(order, size)
    cores = ranks.share_cores(os.sched_getaffinity(0), ranks=size, processors=1, alone=not order.gpu)
    source, sink = os.pipe()
    children: list[subprocess.Popen[bytes]] = []
    try:
        for rank in ranks.of_pod(assignment, pod=0):
            orders = channel.Orders(
                assignment=assignment,
                rank=rank.rank,
                local_rank=rank.local_rank,
                cores=cores[rank.local_rank] if cores is not None and not order.gpu else (),
                threads=1,
                channel=sink,
                launcher=os.getpid(),
                started_ns=clock.monotonic_ns(),
                join_seconds=0.0,
                pod_ip=address,
            )
            variables = ranks.worker_environment(rank, inherited=os.environ, rendezvous_address=address, interface="lo")
            children.append(
                subprocess.Popen(  # noqa: S603  # this very module
                    [sys.executable, "-P", "-m", "gpubench_jobs.self_check", _RANK],
                    env={"TF_CPP_MIN_LOG_LEVEL": "2", **variables, channel.ENV_ORDERS: orders.to_json()},
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr,  # where any library may print; ours carries lines of ours only
                    pass_fds=(sink,),
                )
            )
        if not _all_ended(children, seconds=seconds):
            return None
    finally:
        for child in children:
            child.kill()
            child.wait()
        os.close(sink)
        answer = _drained(source)
    if any(child.returncode for child in children):
        codes = ", ".join(str(child.returncode) for child in children)
        raise SystemExit(f"a gang of {size} ended with {codes}: what its ranks said stands above")
    return Gang.model_validate_json(answer)


def _all_ended(children: list[subprocess.Popen[bytes]], *, seconds: float) -> bool:
    """Whether all of them have ended by then; the first that fails ends the waiting, for the others wait for it."""
    deadline = time.monotonic() + seconds
    while any(child.poll() is None for child in children):
        if any(child.returncode for child in children):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.1)
    return True


def _sizes(order: Order) -> Iterator[int]:
    """The gangs that were asked for, then one rank again and again: each is one more fresh run."""
    again = itertools.repeat(1, order.processes - 1) if 1 in order.gangs else ()
    return itertools.chain(order.gangs, again)


def _assignment(order: Order, size: int) -> Assignment:
    return Assignment(
        trial="selfcheck",
        attempt=1,
        workload=order.workload,
        precision=Precision.FLOAT32,
        workers=size,
        workers_per_node=size,
        batch_per_worker=order.batch,
        seed=_SEED,
        slot_processors=1.0,
        gpu=order.gpu,
        warm_up_seconds=0.0,
        measure_seconds=order.block_seconds,
        window_seconds=order.block_seconds / order.windows,
        join_timeout_seconds=60,
        stall_timeout_seconds=60,
    )


def _address() -> str:
    """One of this machine's own that hardly anybody uses: each gang opens the same ports."""
    chooser = random.SystemRandom()
    return f"127.{chooser.randint(1, 254)}.{chooser.randint(0, 255)}.{chooser.randint(1, 254)}"


def _drained(descriptor: int) -> bytes:
    """What the ranks have written; all of them are gone."""
    with os.fdopen(descriptor, "rb") as stream:
        return stream.read()


def _say(found: Clock | Gang) -> None:
    sys.stdout.write(f"{found.to_json()}\n")
    sys.stdout.flush()


# --- one rank ---------------------------------------------------------------------------------------------------------


def _run_rank(order: Order, orders: channel.Orders) -> None:
    """Both loops in turns; rank 0 tells what all ranks have agreed on."""
    lifetime.die_with(orders.launcher)
    if orders.cores:
        os.sched_setaffinity(0, orders.cores)
    from gpubench_jobs import devices  # noqa: PLC0415  # see the top

    devices.claim(orders)
    distribution.connect(workers=orders.assignment.workers)
    # Several samples in a block, which is more of them than in a run: what they cost must show.
    sample_seconds = order.block_seconds / _SAMPLES_OF_A_BLOCK
    _, measured, bare = loops(orders, windows=order.windows, sample_seconds=sample_seconds)
    steps = _steps(order, bare)
    for block in (measured, bare):
        block(steps)  # warm-up
    seconds: dict[Block, list[float]] = {measured: [], bare: []}
    processor = dict.fromkeys(seconds, 0.0)
    for turn in range(order.rounds):
        # measured, bare; bare, measured; and so on: whatever drifts falls on both
        for block in (measured, bare) if turn % 2 == 0 else (bare, measured):
            distribution.from_first(0)  # all ranks begin together
            before = time.process_time()
            own = block(steps)
            processor[block] += time.process_time() - before
            seconds[block].append(max(distribution.gather(own)))
    if orders.rank == 0:
        gang = Gang(
            ranks=orders.assignment.workers,
            steps=steps,
            samples=steps * orders.assignment.batch_per_worker * orders.assignment.workers,
            measured=tuple(seconds[measured]),
            bare=tuple(seconds[bare]),
            measured_processor=processor[measured],
            bare_processor=processor[bare],
        )
        channel.Writer(orders.channel).send(gang)
    distribution.disconnect()


def loops(orders: channel.Orders, *, windows: int, sample_seconds: float) -> "tuple[Session, Block, Block]":
    """The loop of a gang's worker, as `worker` puts it together, and the bare one, on the same weights.

    A call of the first has so many windows, and is sampled that often. The process has its device and its peers.
    """
    from gpubench_jobs import (  # noqa: PLC0415  # see the top
        assembly,
        metrics,
        models,
        nvml,
        pacing,
        precision,
        sampling,
        session,
        train,
    )

    assignment = orders.assignment
    precision.use(assignment.precision)
    models.seed(_SEED + orders.rank)
    work = assembly.assemble(assignment, rank=orders.rank, seed=_SEED + orders.rank)
    distribution.spread(work.persistent)
    live = metrics.Live(assignment, rank=orders.rank)
    live.serve(address=orders.pod_ip, local_rank=orders.local_rank)
    source, sink = os.pipe()
    threading.Thread(target=_empty, args=(source,), daemon=True).start()
    rank = session.Session(
        assignment=assignment,
        rank=orders.rank,
        run=work.run,
        writer=channel.Writer(sink),
        live=live,
        now=clock.monotonic_ns,
        sampler=sampling.Sampler(
            orders.rank,
            gpu=nvml.open_gpu(orders.local_rank) if assignment.gpu else None,
            seen=live.usage,
            period_seconds=sample_seconds,
        ),
    )

    def measured(steps: int) -> float:
        plan = pacing.Plan(first=len(rank.windows), windows=windows, steps=steps // windows, warm_up=False)
        with rank.sampled():
            begun = clock.monotonic_ns()
            train.time_windows(work.run, plan, now=clock.monotonic_ns, finished=rank.record)
            return clock.seconds(clock.monotonic_ns() - begun)

    def bare(steps: int) -> float:
        begun = clock.monotonic_ns()
        work.run(steps).numpy()
        return clock.seconds(clock.monotonic_ns() - begun)

    return rank, measured, bare


def _steps(order: Order, bare: Block) -> int:
    """Steps of a block, a multiple of its windows; rank 0's word."""
    bare(1)  # traces
    each = bare(_STEPS_TRIED) / _STEPS_TRIED
    return distribution.from_first(order.windows * max(1, round(order.block_seconds / each / order.windows)))


def _empty(pipe: int) -> None:
    """What a launcher does with the records, less the reading of them."""
    with suppress(OSError):
        while os.read(pipe, 1 << 16):
            pass


if __name__ == "__main__":
    if sys.argv[1:] == [_RANK]:
        _run_rank(
            Order.model_validate_json(os.environ[ENV_ORDER]),
            channel.Orders.model_validate_json(os.environ[channel.ENV_ORDERS]),
        )
        sys.stderr.flush()
        os._exit(0)  # TensorFlow's and Horovod's exit handlers take over a second
    sys.exit(main())
