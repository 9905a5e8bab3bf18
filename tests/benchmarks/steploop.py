# SPDX-License-Identifier: Apache-2.0
"""Is the loop that gpubench times as fast as the best bare loop (with --fit: and as model.fit)? Exit 1 when it is not.

With --overhead: what do the windows, records, live metrics and samples of that loop cost? Then it takes turns with a
call of its very own step without any of them, and with the best bare loop; CPU time per step stands beside the ratios.

    python tests/benchmarks/steploop.py [--overhead | --fit] [--processes 8] [--pairs 5] [--workload NAME] [--ranks 1 2]

The loops live in the same processes, with the same kind of model, batch and cores, and take turns in short blocks (A B
C, C B A, A B C, ...), so that whatever else the machine does falls on all. Ours is what a gang runs:
`train.time_windows` with live metrics served, with records on a pipe that a thread on the same core empties, and with
usage sampled twice in a block. The bare loop reduces as ours does, each gradient as it comes or all in one group. It is
looped or unrolled, whichever is faster in a few blocks of each in the first process. model.fit has as many steps per
execution as the bare loop has per call, and an optimizer that reduces each gradient; that its ranks stay equal is
checked first. Each round gives a ratio of throughputs. The interval is Student's t over processes, each with
the mean of its logarithms. The same loop twice in one process differed by 2 %, as its memory lay, and an interval over
the rounds of one process knows nothing of that. Blocks of several ranks begin together and last as long as the slowest
rank. A block has at least two calls of the bare loop: of resnet50 that is some seconds, whatever `--seconds` says.

Without an argument it runs each case of the table below with one rank and with two; `--rank` is for its own children.
"""

import argparse
import importlib
import itertools
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rich.console
import rich.table
from scipy import stats

from gpubench import names
from gpubench.api import sweep
from gpubench.plan import assignment as assignments
from gpubench_jobs import channel, clock, models
from gpubench_jobs.engines import horovod, launch
from gpubench_jobs.launcher import config
from gpubench_jobs.worker import builder, environment, nvidia, sampling, session

#: The bar: the lower end of the interval of ours / bare.
RATIO_MIN = 0.97
#: The bar of ours / model.fit: never slower than what everybody has. Loops that are equally fast end up on either side
#: of it by chance, however long they are measured, so it is missed when the whole interval lies below it.
FIT_RATIO_MIN = 1.0
#: The bar of --overhead: the upper end of the interval of bare / ours, the time of ours over that of the bare loop. It
#: is broken when the whole interval lies above; an interval around it tells nothing.
OVERHEAD_MAX = 1.01
CONFIDENCE = 0.95
WINDOWS_PER_BLOCK = 2
SAMPLES_PER_BLOCK = 2
BLOCKS_TO_CHOOSE = 5
_gangs = itertools.count(1)
ADDRESS = "127.93.7.1"


@dataclass(frozen=True)
class Case:
    workload: str
    batch: int
    steps_per_call: int  # of the contenders; ours decides for itself
    unroll: bool = True  # whether the steps of a call may be written out: of deep ones that takes minutes
    one_group: bool = False  # all gradients in one message, of ours and of the bare loop

    @property
    def name(self) -> str:
        return f"{self.workload}, one group" if self.one_group else self.workload


CASES = (
    Case("mnist_cnn", 64, steps_per_call=10),  # a step of tens of milliseconds
    Case("resnet50", 2, steps_per_call=2, unroll=False),  # of a second, 100 MB of gradients
    Case("imdb_bidirectional_lstm", 32, steps_per_call=5, unroll=False),  # small operations, rows of an embedding
    Case("imdb_bidirectional_lstm", 32, steps_per_call=5, unroll=False, one_group=True),  # faster so on a CPU
    Case("mnist_mlp", 1, steps_per_call=10),  # of a millisecond or two
)


@dataclass(frozen=True)
class Ratio:
    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    workload: str
    batch: int
    ranks: int
    ours: float  # samples per second of all ranks
    bare: float
    bare_kind: str
    to_bare: Ratio
    fit: float | None
    to_fit: Ratio | None


@dataclass(frozen=True)
class Overhead:
    """Ours beside a bare loop: its own step called bare, or the best bare one."""

    workload: str
    batch: int
    ranks: int
    other: str
    time: Ratio  # of ours over the other's
    processor: float  # CPU seconds of rank 0 in a step of ours
    other_processor: float

    @property
    def verdict(self) -> str:
        if self.time.high <= OVERHEAD_MAX:
            return f"at most {OVERHEAD_MAX - 1:.0%}"
        if self.time.low > OVERHEAD_MAX:
            return f"more than {OVERHEAD_MAX - 1:.0%}"
        return f"cannot tell: {self.time.high - self.time.low:.2%} wide"


Block = Callable[[int], float]  # trains so many steps, returns the seconds it took
Rounds = list[list[float]]  # of one process: throughputs of the loops, ours first


def main() -> int:
    options = arguments()
    if options.rank:
        run_rank(options)
        return 0
    if len(os.sched_getaffinity(0)) < 2:
        print("steploop needs 2 processors, one for each of two ranks, and this process may use only one")
        return 2
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that `finally` ends the ranks
    cases = [
        (case, size)
        for case in CASES
        if options.workload in (None, case.workload)
        for size in options.ranks
        if size > 1 or not case.one_group
    ]
    if options.overhead:
        return show_overhead([row for case, size in cases for row in overhead(case, size, options)])
    rows = [compared(case, size, options) for case, size in cases]
    rich.console.Console(width=140).print(table(rows))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{options.pairs} rounds in each of {options.processes} processes; load averages now {load}")
    slow = [line for row in rows for line in complaints(row)]
    for line in slow:
        print(line)
    return 1 if slow else 0


def show_overhead(rows: list[Overhead]) -> int:
    """The table; 1 where the bar is broken for certain."""
    drawn = rich.table.Table(title="What the measured loop costs: windows, records, live metrics, samples")
    numbers = ("batch", "ranks", "time ours / bare", "CPU ms/step", "CPU ms/step, bare")
    for heading in ("workload", *numbers, "bare loop", "overhead"):
        drawn.add_column(heading, justify="right" if heading in numbers else "left")
    for row in rows:
        ratio_text = f"{row.time.middle:.4f} ({row.time.low:.4f} to {row.time.high:.4f})"
        processor = (f"{1000 * each:.4g}" for each in (row.processor, row.other_processor))
        drawn.add_row(row.workload, str(row.batch), str(row.ranks), ratio_text, *processor, row.other, row.verdict)
    rich.console.Console(width=140).print(drawn)
    print(f"load averages now {', '.join(f'{value:.1f}' for value in os.getloadavg())}")
    return 1 if any(row.time.low > OVERHEAD_MAX for row in rows) else 0


def complaints(row: Row) -> list[str]:
    """A sentence for each bar that is missed."""
    bars = [("the bare loop", row.to_bare.low, RATIO_MIN)]
    if row.to_fit:
        bars.append(("model.fit", row.to_fit.high, FIT_RATIO_MIN))
    return [
        f"{row.workload} with {row.ranks} ranks against {other}: {found:.3f} is below {bar}"
        for other, found, bar in bars
        if found < bar
    ]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="our timed loop against the best bare loop")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--overhead", action="store_true", help="what measuring costs, in place of who is faster")
    kind.add_argument("--fit", action="store_true", help="model.fit as a third loop")
    parser.add_argument("--processes", type=int, default=8, help="one after the other, two at least")
    parser.add_argument("--pairs", type=int, default=5, help="rounds of one block of each loop, in each process")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a block")
    parser.add_argument("--rank", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--bare", help=argparse.SUPPRESS)
    parser.add_argument("--one-group", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--workload", choices=[case.workload for case in CASES], help="only this one")
    parser.add_argument("--ranks", type=int, nargs="+", choices=(1, 2), default=(1, 2), help="gangs of so many")
    parser.add_argument("--address", help=argparse.SUPPRESS)
    return parser.parse_args()


def measure(case: Case, size: int, options: argparse.Namespace) -> list[Any]:
    """What the rank 0 of each process says; the first one's choice of the bare loop holds for all."""
    answers = [_measure(case, size, options, bare=None)]
    answers += [_measure(case, size, options, bare=answers[0]["bare"]) for _ in range(options.processes - 1)]
    return answers


def _measure(case: Case, size: int, options: argparse.Namespace, *, bare: str | None) -> Any:
    """What rank 0 says of a gang of real ranks on cores of their own."""
    assignment = make_assignment(case.workload, case.batch, size, one_group=case.one_group)
    address = f"{ADDRESS.rpartition('.')[0]}.{next(_gangs)}"  # a rendezvous server serves one gang
    launch.serve_rendezvous(address=address, port=names.PORT_RENDEZVOUS, hosts=1, slots=size)
    cores = config.share_cores(os.sched_getaffinity(0), ranks=size, processors=1, alone=True)
    assert cores is not None  # alone
    children: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile("w+") as answers:
        try:
            for rank in range(size):
                orders = make_orders(assignment, rank, cores[rank], address)
                command = [sys.executable, __file__, "--rank", f"--pairs={options.pairs}"]
                command += [f"--seconds={options.seconds}", f"--workload={case.workload}"]
                flags = {"--overhead": options.overhead, "--fit": options.fit, "--one-group": case.one_group}
                command += [flag for flag, given in flags.items() if given]
                command += [f"--bare={bare}"] if bare else []
                variables = launch.worker_environment(
                    assignment, rank, inherited=os.environ, rendezvous_address=address, interface="lo"
                )
                environment = {"TF_CPP_MIN_LOG_LEVEL": "2", **variables, channel.ENV_CONFIG: orders.to_json()}
                children.append(subprocess.Popen(command, env=environment, stdout=answers))
            codes = [child.wait(timeout=7200) for child in children]
        finally:
            for child in children:
                child.kill()
        if codes != [0] * size:
            raise SystemExit(f"{case.workload} with {size} ranks: they ended with {codes}: see above")
        answers.seek(0)
        answer = json.loads(answers.read())
        print(case.name, size, answer, file=sys.stderr, flush=True)  # what comes after may be interrupted
        return answer


def compared(case: Case, size: int, options: argparse.Namespace) -> Row:
    """One row of who is faster."""
    answers = measure(case, size, options)
    measured = row(case, size, bare_kind=answers[0]["bare"], processes=[answer["rounds"] for answer in answers])
    print(measured, file=sys.stderr, flush=True)  # what comes after may be interrupted
    return measured


def overhead(case: Case, size: int, options: argparse.Namespace) -> list[Overhead]:
    """Ours beside its own step, and beside the best bare loop."""
    answers = measure(case, size, options)
    others = {"its own step": 1, f"the best one, {answers[0]['bare']}": 2}
    rows = [
        Overhead(
            workload=case.name,
            batch=case.batch,
            ranks=size,
            other=other,
            time=ratio([answer["rounds"] for answer in answers], index, 0),  # of throughputs, the other's over ours
            processor=statistics.fmean(answer["processor"][0] for answer in answers),
            other_processor=statistics.fmean(answer["processor"][index] for answer in answers),
        )
        for other, index in others.items()
    ]
    print(*rows, sep="\n", file=sys.stderr, flush=True)
    return rows


def row(case: Case, size: int, *, bare_kind: str, processes: list[Rounds]) -> Row:
    """Throughputs over all blocks, and the intervals of their ratios over processes."""
    rounds = itertools.chain.from_iterable(processes)
    ours, bare, *fit = (statistics.harmonic_mean(side) for side in zip(*rounds, strict=True))
    return Row(
        workload=case.name,
        batch=case.batch,
        ranks=size,
        ours=ours,
        bare=bare,
        bare_kind=bare_kind,
        to_bare=ratio(processes, 0, 1),
        fit=fit[0] if fit else None,
        to_fit=ratio(processes, 0, 2) if fit else None,
    )


def ratio(processes: list[Rounds], top: int, bottom: int) -> Ratio:
    """Student's t over the processes, each with the mean of its logarithms."""
    logarithms = [statistics.fmean(math.log(one[top] / one[bottom]) for one in rounds) for rounds in processes]
    middle, error = statistics.fmean(logarithms), statistics.stdev(logarithms) / math.sqrt(len(logarithms))
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(logarithms) - 1)) * error
    return Ratio(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def table(rows: list[Row]) -> rich.table.Table:
    drawn = rich.table.Table(title="Samples per second: the timed loop of gpubench, the best bare loop, model.fit")
    numbers = ("batch", "ranks", "ours", "bare", "fit", "ours / bare", "ours / fit")
    for heading in ("workload", *numbers, "bare loop"):
        drawn.add_column(heading, justify="right" if heading in numbers else "left")
    for one in rows:
        both = (one.to_bare, one.to_fit)
        ratios = (f"{each.middle:.3f} ({each.low:.3f} to {each.high:.3f})" if each else "–" for each in both)
        rates = (f"{each:.4g}" if each else "–" for each in (one.ours, one.bare, one.fit))
        drawn.add_row(one.workload, str(one.batch), str(one.ranks), *rates, *ratios, one.bare_kind)
    return drawn


def make_assignment(workload: str, batch: int, size: int, *, one_group: bool = False) -> assignments.Assignment:
    return assignments.Assignment(
        trial="steploop",
        attempt=1,
        workload=workload,
        variant=sweep.Variant(name="steploop", communication=sweep.Communication(groups=1 if one_group else None)),
        precision="float32",
        workers=size,
        workers_per_node=size,
        batch_per_worker=batch,
        seed=1,
        slot_processors=1.0,
        gpu=False,
        warm_up_seconds=10.0,
        measure_seconds=60.0,  # the default of a study: what may be spent on tracing follows from it
        window_seconds=1.0,
        join_timeout_seconds=60,
        stall_timeout_seconds=60,
    )


def make_orders(
    assignment: assignments.Assignment, rank: int, cores: tuple[int, ...], address: str
) -> channel.WorkerConfig:
    return channel.WorkerConfig(
        assignment=assignment,
        rank=rank,
        cores=cores,
        channel=-1,
        launcher=os.getpid(),
        started_ns=clock.monotonic_ns(),
        join_seconds=0.0,
        pod_ip=address,
    )


def run_rank(options: argparse.Namespace) -> None:
    """One rank: all loops, in turns; rank 0 prints the throughputs of all rounds."""
    orders = channel.WorkerConfig.model_validate_json(os.environ[channel.ENV_CONFIG])
    (case,) = (case for case in CASES if (case.workload, case.one_group) == (options.workload, options.one_group))
    os.sched_setaffinity(0, orders.cores)
    environment.claim(orders)
    horovod.connect(workers=orders.assignment.workers)
    sys.path.insert(0, str(Path(__file__).parent))
    steploop_bare: Any = importlib.import_module("steploop_bare")  # its own code has no types: it is the bare loop

    bares: dict[str, Block] = steploop_bare.prepare(
        case.workload, case.batch, case.steps_per_call, case.unroll, case.one_group
    )
    if options.bare:
        bares = {options.bare: bares[options.bare]}  # the other one is never traced
    ours, own_step = prepare_ours(orders, options.seconds)
    steps = steps_of_a_block(next(iter(bares.values())), options.seconds, case)
    for block in (ours, *bares.values()):
        block(steps)  # warm-up
    bare_kind = options.bare or faster(bares, steps)
    contenders = [ours, *([own_step] if options.overhead else []), bares[bare_kind]]
    if options.fit:
        fit, fitted = steploop_bare.prepare_fit(case.workload, case.batch, case.steps_per_call)
        fit(steps)
        if len(set(horovod.gather(session.weights_digest(fitted)))) > 1:
            raise SystemExit("model.fit left the ranks with different weights: it is no contender")
        contenders.append(fit)
    rounds = []
    processor = dict.fromkeys(contenders, 0.0)
    for turn in range(options.pairs):
        # ours, bare; bare, ours; and so on: whatever drifts falls on all
        seconds = {}
        for block in contenders if turn % 2 == 0 else contenders[::-1]:
            before = time.process_time()
            seconds[block] = timed(block, steps)
            processor[block] += (time.process_time() - before) / (steps * options.pairs)
        samples = steps * case.batch * orders.assignment.workers
        rounds.append([samples / seconds[block] for block in contenders])
    if orders.rank == 0:
        print(json.dumps({"bare": bare_kind, "rounds": rounds, "processor": list(processor.values())}))
    horovod.disconnect()


def faster(blocks: dict[str, Block], steps: int) -> str:
    """The name of the block that took least in the middle; the same on all ranks, which see the same seconds."""
    taken: dict[str, list[float]] = {name: [] for name in blocks}
    for turn in range(BLOCKS_TO_CHOOSE):
        for name in sorted(blocks, reverse=turn % 2 == 1):
            taken[name].append(timed(blocks[name], steps))
    return min(taken, key=lambda name: statistics.median(taken[name]))


def timed(block: Block, steps: int) -> float:
    """Seconds of the slowest rank; all begin together."""
    horovod.broadcast_value(0)
    seconds = block(steps)
    return max(horovod.gather(seconds))


def steps_of_a_block(bare: Block, seconds: float, case: Case) -> int:
    """A multiple of what all loops need; rank 0's word."""
    unit = case.steps_per_call * WINDOWS_PER_BLOCK
    bare(unit)
    each = bare(unit) / unit
    return int(horovod.broadcast_value(unit * max(1, round(seconds / each / unit))))


def prepare_ours(orders: channel.WorkerConfig, seconds: float) -> tuple[Block, Block]:
    """The loop of a gang's worker, sampled, with steps as `calibrate` writes them; its step bare, on its weights."""
    source, sink = os.pipe()
    threading.Thread(target=os.fdopen(source, "rb").read, daemon=True).start()
    assignment, seed = orders.assignment, orders.assignment.seed + orders.rank
    builder.use_precision(assignment.precision)
    models.seed(seed)
    work = builder.build(assignment, rank=orders.rank, seed=seed)
    horovod.broadcast(work.persistent)
    live = sampling.LiveMetrics(assignment, rank=orders.rank)
    live.serve(address=orders.pod_ip, local_rank=orders.local_rank)
    gpu = nvidia.open_gpu(orders.local_rank) if assignment.gpu else None
    sampler = sampling.Sampler(orders.rank, gpu=gpu, seen=live.usage, period_seconds=seconds / SAMPLES_PER_BLOCK)
    rank = session.Session(
        assignment=assignment, rank=orders.rank, run=work.run, writer=channel.Writer(sink), live=live,
        now=clock.monotonic_ns, sampler=sampler,
    )  # fmt: skip
    rank.first_step()

    def measured(steps: int) -> float:
        with rank.sampled():
            begun = clock.monotonic_ns()
            rank.run_windows(WINDOWS_PER_BLOCK, steps=steps // WINDOWS_PER_BLOCK)
            return clock.seconds(clock.monotonic_ns() - begun)

    def bare(steps: int) -> float:
        begun = clock.monotonic_ns()
        work.run(steps).numpy()
        return clock.seconds(clock.monotonic_ns() - begun)

    rank.calibrate()
    return measured, bare


if __name__ == "__main__":
    sys.exit(main())
