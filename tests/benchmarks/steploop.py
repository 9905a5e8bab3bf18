# SPDX-License-Identifier: Apache-2.0
"""Is the loop that gpubench times as fast as the best bare loop? Exit 1 when it is not.

    python tests/benchmarks/steploop.py [--pairs 30] [--seconds 1.0] [--workload NAME]

Both loops live in the same processes, with the same model, batch and cores, and take turns in short blocks (A B, B A, A
B, ...), so that whatever else the machine does falls on both. Ours is what a gang runs: `train.time_windows` with live
metrics, and with records on a pipe that a thread on the same core empties. The bare loop is the faster of a looped
and an unrolled one, chosen by a few blocks of each before the measurement. Each pair of neighbouring blocks gives one
ratio of throughputs; the interval is Student's t over their logarithms. Blocks of several ranks begin together and last
as long as the slowest rank.

Without an argument it runs each case of the table below with one rank and with two; `--rank` is for its own children.
"""

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import rich.console
import rich.table
from scipy import stats

from gpubench import names
from gpubench.plan import assignment as assignments
from gpubench_jobs import (
    channel,
    clock,
    data,
    devices,
    distribution,
    metrics,
    models,
    pacing,
    precision,
    ranks,
    session,
    train,
)

#: The bar: the lower end of the interval of ours / bare.
RATIO_MIN = 0.97
CONFIDENCE = 0.95
CASES = (("mnist_cnn", 64), ("mnist_mlp", 1))  # a step of tens of milliseconds, and one of few
WINDOWS_PER_BLOCK = 2
BLOCKS_TO_CHOOSE = 5
ADDRESS = "127.93.7.1"


@dataclass(frozen=True)
class Row:
    workload: str
    batch: int
    ranks: int
    ours: float  # samples per second of all ranks
    bare: float
    bare_kind: str
    ratio: float
    low: float
    high: float


Block = Callable[[int], float]  # trains so many steps, returns the seconds it took


def main() -> int:
    options = arguments()
    if options.rank:
        run_rank(options)
        return 0
    if len(os.sched_getaffinity(0)) < 2:
        print("steploop needs 2 processors, one for each of two ranks, and this process may use only one")
        return 2
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that `finally` ends the ranks
    cases = [case for case in CASES if options.workload in (None, case[0])]
    rows = [measure(workload, batch, size, options) for workload, batch in cases for size in (1, 2)]
    rich.console.Console(width=120).print(table(rows))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.pairs} pairs of blocks of about {options.seconds:g} s each; load averages now {load}")
    slow = [row for row in rows if row.low < RATIO_MIN]
    for row in slow:
        print(f"{row.workload} with {row.ranks} ranks: {row.low:.3f} is below {RATIO_MIN}")
    return 1 if slow else 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="our timed loop against the best bare loop")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a block")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--workload", choices=[workload for workload, _ in CASES], help="only this one")
    parser.add_argument("--batch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(workload: str, batch: int, size: int, options: argparse.Namespace) -> Row:
    """One row: a gang of real ranks on cores of their own."""
    assignment = make_assignment(workload, batch, size)
    serial = CASES.index((workload, batch)) * 2 + size
    address = f"{ADDRESS.rpartition('.')[0]}.{serial}"  # a rendezvous server serves one gang
    distribution.serve_rendezvous(address=address, port=names.PORT_RENDEZVOUS, hosts=1, slots=size)
    cores = ranks.share_cores(os.sched_getaffinity(0), ranks=size, processors=1, alone=True)
    assert cores is not None  # alone
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile("w+") as answers:
        try:
            for rank in ranks.of_pod(assignment, pod=0):
                orders = make_orders(assignment, rank, cores[rank.local_rank], address)
                command = [sys.executable, __file__, "--rank", f"--pairs={options.pairs}"]
                command += [f"--seconds={options.seconds}", f"--workload={workload}", f"--batch={batch}"]
                variables = ranks.worker_environment(
                    rank, inherited=os.environ, rendezvous_address=address, interface="lo"
                )
                environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **variables, channel.ENV_ORDERS: orders.to_json()}
                children.append(subprocess.Popen(command, env=environment, stdout=answers))
            codes = [child.wait(timeout=1800) for child in children]
        finally:
            for child in children:
                child.kill()
        if codes != [0] * size:
            raise SystemExit(f"{workload} with {size} ranks: they ended with {codes}: see above")
        answers.seek(0)
        answer = json.loads(answers.read())
    measured = row(workload, batch, size, bare_kind=answer["bare"], pairs=answer["pairs"])
    print(measured, file=sys.stderr, flush=True)  # what comes after may be interrupted
    return measured


def row(workload: str, batch: int, size: int, *, bare_kind: str, pairs: list[tuple[float, float]]) -> Row:
    """Throughputs over all blocks, and the interval of their ratio over pairs."""
    logarithms = [math.log(ours / bare) for ours, bare in pairs]
    middle, error = statistics.fmean(logarithms), statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logarithms) - 1)) * error
    ours, bare = (statistics.harmonic_mean(side) for side in zip(*pairs, strict=True))
    return Row(
        workload=workload,
        batch=batch,
        ranks=size,
        ours=ours,
        bare=bare,
        bare_kind=bare_kind,
        ratio=math.exp(middle),
        low=math.exp(middle - reach),
        high=math.exp(middle + reach),
    )


def table(rows: list[Row]) -> rich.table.Table:
    drawn = rich.table.Table(title="The timed loop of gpubench against the best bare loop")
    numbers = ("batch", "ranks", "ours, samples/s", "bare, samples/s", "ours / bare", "95 % interval")
    for heading in ("workload", *numbers, "bare loop"):
        drawn.add_column(heading, justify="right" if heading in numbers else "left")
    for one in rows:
        drawn.add_row(
            str(one.workload),
            str(one.batch),
            str(one.ranks),
            f"{one.ours:.0f}",
            f"{one.bare:.0f}",
            f"{one.ratio:.3f}",
            f"{one.low:.3f} to {one.high:.3f}",
            one.bare_kind,
        )
    return drawn


def make_assignment(workload: str, batch: int, size: int) -> assignments.Assignment:
    return assignments.Assignment(
        trial="steploop",
        attempt=1,
        workload=workload,
        precision="float32",
        workers=size,
        workers_per_node=size,
        batch_per_worker=batch,
        seed=1,
        slot_processors=1.0,
        gpu=False,
        warm_up_seconds=1.0,
        measure_seconds=1.0,
        window_seconds=1.0,
        join_timeout_seconds=60,
        stall_timeout_seconds=60,
    )


def make_orders(
    assignment: assignments.Assignment, rank: ranks.Rank, cores: tuple[int, ...], address: str
) -> channel.Orders:
    return channel.Orders(
        assignment=assignment,
        rank=rank.rank,
        local_rank=rank.local_rank,
        cores=cores,
        threads=1,
        channel=-1,
        launcher=os.getpid(),
        started_ns=clock.monotonic_ns(),
        join_seconds=0.0,
        pod_ip=address,
    )


def run_rank(options: argparse.Namespace) -> None:
    """One rank: both loops, in turns; rank 0 prints the throughputs of all pairs."""
    orders = channel.Orders.model_validate_json(os.environ[channel.ENV_ORDERS])
    os.sched_setaffinity(0, orders.cores)
    devices.claim(orders)
    distribution.connect(workers=orders.assignment.workers)
    sys.path.insert(0, str(Path(__file__).parent))
    import steploop_bare  # type: ignore[import-not-found]  # noqa: PLC0415  # found on the path set above

    bares: dict[str, Block] = steploop_bare.prepare(options.workload, options.batch)
    ours = prepare_ours(orders)
    steps = steps_of_a_block(bares["looped"], options.seconds)
    for block in (ours, *bares.values()):
        block(steps)  # warm-up
    bare_kind = faster(bares, steps)
    bare = bares[bare_kind]
    pairs = []
    for pair in range(options.pairs):
        order = (ours, bare) if pair % 2 == 0 else (bare, ours)
        seconds = {block: timed(block, steps) for block in order}
        samples = steps * options.batch * orders.assignment.workers
        pairs.append((samples / seconds[ours], samples / seconds[bare]))
    if orders.rank == 0:
        print(json.dumps({"bare": bare_kind, "pairs": pairs}))
    distribution.disconnect()


def faster(blocks: dict[str, Block], steps: int) -> str:
    """The name of the block that took least in the middle; the same on all ranks, which see the same seconds."""
    taken: dict[str, list[float]] = {name: [] for name in blocks}
    for turn in range(BLOCKS_TO_CHOOSE):
        for name in sorted(blocks, reverse=turn % 2 == 1):
            taken[name].append(timed(blocks[name], steps))
    return min(taken, key=lambda name: statistics.median(taken[name]))


def timed(block: Block, steps: int) -> float:
    """Seconds of the slowest rank; all begin together."""
    distribution.from_first(0)
    seconds = block(steps)
    return max(distribution.gather(seconds))


def drain(pipe: int) -> None:
    """What a launcher does with the records, less the reading of them."""
    while os.read(pipe, 1 << 16):
        pass


def steps_of_a_block(bare: Block, seconds: float) -> int:
    """A multiple of what both loops need; rank 0's word."""
    bare(20)
    each = bare(20) / 20
    unit = 10 * WINDOWS_PER_BLOCK
    return int(distribution.from_first(unit * max(1, round(seconds / each / unit))))


def prepare_ours(orders: channel.Orders) -> Block:
    """The loop of a gang's worker: as `worker` puts it together, its records on a pipe."""
    assignment = orders.assignment
    precision.use(assignment.precision)
    models.seed(1 + orders.rank)
    recipe = models.build(assignment.workload)
    feed = data.feed(assignment, dtype=recipe.network.compute_dtype, seed=1 + orders.rank)
    distribution.spread(recipe.persistent)
    run = train.compile_run(recipe, feed, reduce=train.alone if assignment.workers == 1 else distribution.average)
    live = metrics.Live(assignment, rank=orders.rank)
    live.serve(address=orders.pod_ip, local_rank=orders.local_rank)
    source, sink = os.pipe()
    threading.Thread(target=drain, args=(source,), daemon=True).start()
    rank = session.Session(
        assignment=assignment, rank=orders.rank, run=run, writer=channel.Writer(sink), live=live, now=clock.monotonic_ns
    )

    def block(steps: int) -> float:
        plan = pacing.Plan(
            first=len(rank.windows), windows=WINDOWS_PER_BLOCK, steps=steps // WINDOWS_PER_BLOCK, warm_up=False
        )
        begun = clock.monotonic_ns()
        train.time_windows(run, plan, now=clock.monotonic_ns, finished=rank.record)
        return clock.seconds(clock.monotonic_ns() - begun)

    return block


if __name__ == "__main__":
    sys.exit(main())
