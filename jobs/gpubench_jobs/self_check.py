# SPDX-License-Identifier: Apache-2.0
"""The measuring process of `gpubench self-check`: the clock, then one gang of ranks that run two loops in turns.

Imports inside functions are heavy: a rank pins itself before them, and the ranks' parent needs none of them.
"""

import itertools
import math
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from gpubench import names
from gpubench.plan.assignment import Assignment
from gpubench.stats import intervals
from gpubench_jobs import channel, clock
from gpubench_jobs.engines import launch
from gpubench_jobs.launcher import config

CLOCK_STEP_MAX = 1000  # nanoseconds: a thousandth of the shortest training steps
OVERHEAD_MAX = 1.01  # of the measured loop's time over the bare one's
_WINDOWS = 2  # of a block
Block = Callable[[int], float]  # trains so many steps; the seconds that this rank took


def main(rounds: int, workers: int, *, gpu: bool) -> None:
    """The clock's verdict, then the gang's. Ranks end with this process, whatever ends it."""
    os.write(1, clock_verdict([clock.monotonic_ns() for _ in range(200_000)]).encode())
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("the ranks were not done in time: is this machine busy?"))
    signal.alarm(120 + 10 * rounds)
    assignment = Assignment(
        trial="selfcheck", attempt=1, workload="mnist_mlp", precision="float32", workers=workers,
        workers_per_node=workers, batch_per_worker=64, seed=1, slot_processors=1.0, gpu=gpu, warm_up_seconds=0.0,
        measure_seconds=60.0, window_seconds=0.25, join_timeout_seconds=60, stall_timeout_seconds=60,
    )  # fmt: skip
    address = f"127.93.{os.getpid() >> 8 & 255}.{os.getpid() & 255}"  # another check may hold the ports elsewhere
    launch.serve_rendezvous(address=address, port=names.PORT_RENDEZVOUS, hosts=1, slots=workers)
    cores = config.share_cores(os.sched_getaffinity(0), ranks=workers, processors=1, alone=True)
    children, said = [], os.memfd_create("said")  # libraries talk much: it is shown where a rank fails
    for rank in range(workers):
        worker = channel.WorkerConfig(
            assignment=assignment, rank=rank, cores=cores[rank] if cores and not gpu else (), launcher=os.getpid(),
            started_ns=clock.monotonic_ns(), channel=-1, join_seconds=0.0, pod_ip=address,
        )  # fmt: skip
        variables = launch.worker_environment(
            assignment, rank, inherited=os.environ, rendezvous_address=address, interface="lo"
        )
        variables[channel.ENV_CONFIG] = worker.to_json()
        children.append(subprocess.Popen(sys.orig_argv, env=variables, stderr=said))  # noqa: S603  # this very program
    if any(os.wait()[1] for _ in children):
        sys.exit(f"{os.pread(said, 1 << 20, 0).decode(errors='replace')}\na rank has failed: it says above why")


def clock_verdict(readings: Sequence[int]) -> str:
    """Of readings in nanoseconds, one after the other."""
    step = min({after - before for before, after in itertools.pairwise(readings)} - {0}, default=0)
    verdict = "fine enough" if 0 < step <= CLOCK_STEP_MAX else "too coarse"
    return f"Clock: {verdict}: its smallest step is {step} ns, and {CLOCK_STEP_MAX} ns would do.\n"


def overhead_verdict(rounds: Sequence[tuple[float, float]]) -> str:
    """Of seconds of the measured and the bare loop: Student's t interval over the logarithms of their ratios."""
    found = intervals.of_mean([math.log(measured / bare) for measured, bare in rounds])
    mean, low, high = (math.exp(one or 0.0) for one in (found.mean, found.low, found.high))
    bar = f"{100 * (OVERHEAD_MAX - 1):.2g} % more time"
    verdict = f"at most {bar}" if high <= OVERHEAD_MAX else f"more than {bar}" if low > OVERHEAD_MAX else "cannot tell"
    return f"Overhead: {verdict}: measured over bare is {mean:.4f} ({low:.4f} to {high:.4f}), {len(rounds)} rounds.\n"


def run_rank(worker: channel.WorkerConfig, *, rounds: int) -> None:
    """Both loops in turns, so that whatever drifts falls on both; a block is as long as its slowest rank."""
    channel.die_with_parent(worker.launcher)
    os.sched_setaffinity(0, worker.cores or os.sched_getaffinity(0))
    from gpubench_jobs.engines import horovod  # noqa: PLC0415  # see the top
    from gpubench_jobs.worker import environment  # noqa: PLC0415

    environment.claim(worker)
    horovod.connect(workers=worker.assignment.workers)
    worker = worker.model_copy(update={"channel": os.open(os.devnull, os.O_WRONLY)})  # records: written, then lost
    measured, bare, steps = loops(worker, windows=_WINDOWS, sample_seconds=worker.assignment.window_seconds / 2)
    found = []
    for turn in range(rounds + 1):
        order = (measured, bare) if turn % 2 else (bare, measured)
        seconds = {block: max(horovod.gather(block(_WINDOWS * steps))) for block in order}
        found.append((seconds[measured], seconds[bare]))
    if worker.rank == 0:
        os.write(1, overhead_verdict(found[1:]).encode())  # the first was a warm-up
    horovod.disconnect()


def loops(worker: channel.WorkerConfig, *, windows: int, sample_seconds: float) -> tuple[Block, Block, int]:
    """A worker's loop of so many windows, sampled so often; its step bare, on the same weights; steps of a window."""
    from gpubench_jobs import models  # noqa: PLC0415
    from gpubench_jobs.engines import horovod  # noqa: PLC0415
    from gpubench_jobs.worker import builder, nvidia, sampling, session  # noqa: PLC0415

    assignment, seed = worker.assignment, worker.assignment.seed + worker.rank
    builder.use_precision(assignment.precision)
    models.seed(seed)
    work = builder.build(assignment, rank=worker.rank, seed=seed)
    horovod.broadcast(work.persistent)
    live = sampling.LiveMetrics(assignment, rank=worker.rank)
    live.serve(address=worker.pod_ip, local_rank=worker.local_rank)
    gpu = nvidia.open_gpu(worker.local_rank) if assignment.gpu else None
    sampler = sampling.Sampler(worker.rank, gpu=gpu, seen=live.usage, period_seconds=sample_seconds)
    rank = session.Session(
        assignment=assignment, rank=worker.rank, run=work.run, writer=channel.Writer(worker.channel), live=live,
        now=clock.monotonic_ns, sampler=sampler,
    )  # fmt: skip
    rank.first_step()

    def measured(steps: int) -> float:
        with rank.sampled():
            begun = clock.monotonic_ns()
            rank.run_windows(windows, steps=steps // windows)
            return clock.seconds(clock.monotonic_ns() - begun)

    def bare(steps: int) -> float:
        begun = clock.monotonic_ns()
        work.run(steps).numpy()
        return clock.seconds(clock.monotonic_ns() - begun)

    return measured, bare, rank.calibrate()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if channel.ENV_CONFIG in os.environ:
        run_rank(channel.WorkerConfig.model_validate_json(os.environ[channel.ENV_CONFIG]), rounds=int(sys.argv[1]))
        os._exit(0)  # TensorFlow's and Horovod's exit handlers take over a second
    main(int(sys.argv[1]), int(sys.argv[2]), gpu=sys.argv[3] == "1")
