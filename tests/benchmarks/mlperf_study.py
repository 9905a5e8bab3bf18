# SPDX-License-Identifier: Apache-2.0
"""`make mlperf-page`: what the index of MLPerf Training's logs says of costs, of scaling, and of our own statistics.

    python tests/benchmarks/mlperf_study.py [--check]

Reads mlperf_runs.csv, mlperf_entries.csv and mlperf_prices.csv; writes docs/reference/mlperf.md and mlperf_costs.csv.
Logs that two rounds have in common count once. With --check nothing is written, and what differs ends it with 1.

- The referee: of an entry's eight runs and more every choice of three and of five is an interval; how many of them hold
  the mean of the entry's other runs? That mean is noisy, too. So as many normal numbers are asked the same.
- The back-test: each size of a line with three sizes and more is left out, predicted by the others, and the advice is
  asked which size trains cheapest within a limit: once as if that size had not been measured.
"""

import argparse
import csv
import itertools
import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple, TypeVar

import mlperf_index
import numpy as np
from scipy import special

import scaling_tables
from gpubench.analysis import advice
from gpubench.analysis.advice import Gang, Line, Question
from gpubench.cost.price import Rate
from gpubench.stats import intervals, scaling_law
from gpubench.stats.intervals import RunToRun
from gpubench.stats.scaling_law import Law, Reach, Speed
from gpubench.values import Interval
from gpubench_cli import mlperf, terminal

ROOT = Path(__file__).parents[2]
PAGE, COSTS = ROOT / "docs" / "reference" / "mlperf.md", mlperf_index.FOLDER / "mlperf_costs.csv"
PRICES = mlperf_index.FOLDER / "mlperf_prices.csv"
DRAWN = (3, 5)
RUNS_MIN = 8  # of an entry that the referee asks
GROUP_MIN = 6  # entries, for a row of their own
SIZES = ((8, "1 to 8"), (64, "9 to 64"), (math.inf, "more than 64"))  # of a gang, in accelerators
_SEED = 20260701
_BOOTSTRAPS = 4000

Row = Mapping[str, str]
_One = TypeVar("_One")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


class Entry(NamedTuple):
    """The runs of one benchmark on one system."""

    key: tuple[str, ...]  # round, submitter, system, benchmark
    accelerator: str
    accelerators: int
    seconds: tuple[float, ...]
    every: float  # seconds between two looks for the target, the longest
    rates: tuple[float, ...]  # samples per second; empty where a run has none
    spreads: tuple[float, ...]  # within a run

    @property
    def benchmark(self) -> str:
        return self.key[3]

    @property
    def size(self) -> str:
        return next(name for most, name in SIZES if self.accelerators <= most)

    @property
    def time(self) -> Interval:
        """Minutes to the target."""
        return intervals.of_mean([one / 60 for one in self.seconds], step=self.every / 60)


def entries() -> list[Entry]:
    """All of the index, each once: some of round 5.1 are those of 5.0 again."""
    runs: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows_of(mlperf_index.RUNS):
        runs[tuple(row[name] for name in mlperf_index.ENTRY)].append(row)
    found: dict[tuple[str, ...], Entry] = {}
    for row in rows_of(mlperf_index.ENTRIES):
        of = runs[key := tuple(row[name] for name in mlperf_index.ENTRY)]
        rates = [float(one["samples_per_second"] or 0) for one in of]
        entry = Entry(
            key=key,
            accelerator=mlperf.short_name(row["accelerator"]),
            accelerators=int(row["accelerators"]),
            seconds=tuple(float(one["seconds"]) for one in of),
            every=max(float(one["evaluated_every_seconds"] or 0) for one in of),
            rates=tuple(rates) if all(rates) else (),
            spreads=tuple(float(one["spread"]) for one in of if one["spread"]),
        )
        found.setdefault((key[1], key[3], *(one["seconds"] for one in of)), entry)
    return list(found.values())


def grouped(found: Iterable[_One], by: Callable[[_One], str]) -> dict[str, list[_One]]:
    groups: dict[str, list[_One]] = defaultdict(list)
    for one in found:
        groups[by(one)].append(one)
    return groups


# --- the referee ------------------------------------------------------------------------------------------------------


def covered(values: Sequence[float], *, drawn: int, every: float = 0.0) -> float:
    """Of all choices of so many, the share whose interval holds the mean of the others."""
    hits = []
    for chosen in itertools.combinations(range(len(values)), drawn):
        found = intervals.of_mean([values[one] for one in chosen], step=every)
        others = statistics.fmean(value for at, value in enumerate(values) if at not in chosen)
        assert found.low is not None
        assert found.high is not None
        hits.append(found.low <= others <= found.high)
    return statistics.fmean(hits)


class Asked(NamedTuple):
    """What the referee found of an entry, for each number of drawn runs."""

    entry: Entry
    time: tuple[float, ...]
    rate: tuple[float, ...]
    normal: tuple[float, ...]


def asked(found: Iterable[Entry]) -> list[Asked]:
    return [
        Asked(
            entry=one,
            time=tuple(covered(one.seconds, drawn=drawn, every=one.every) for drawn in DRAWN),
            rate=tuple(covered(one.rates, drawn=drawn) for drawn in DRAWN),
            normal=tuple(exact(len(one.seconds), drawn) for drawn in DRAWN),
        )
        for one in found
        if len(one.seconds) >= RUNS_MIN and one.rates
    ]


def exact(runs: int, drawn: int) -> float:
    """That Student's interval of the mean of some normal numbers holds the mean of the others.

    Their difference over the error of the first is Student's t, but for the second one's own error.
    """
    wider = math.sqrt(1 + drawn / (runs - drawn))
    return 1 - 2 * float(special.stdtr(drawn - 1, -intervals.t_quantile(drawn - 1, intervals.CONFIDENCE) / wider))


def over_entries(shares: Sequence[float]) -> tuple[float, float]:
    """The middle 95 % of the mean over as many entries, drawn with replacement (B. Efron, Ann. Stat. 7, 1979)."""
    random = np.random.default_rng(_SEED)
    means = random.choice(np.array(shares), size=(_BOOTSTRAPS, len(shares))).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)


def referee(answers: Sequence[Asked]) -> Iterator[list[str]]:
    yield ["", "entries", *(f"{what}, {drawn} drawn" for drawn in DRAWN for what in ("throughput", "time", "normal"))]
    kinds: list[Callable[[Asked], str]] = [
        lambda one: one.entry.benchmark,
        lambda one: f"{one.entry.size} accelerators",
        lambda one: one.entry.accelerator,
        lambda one: f"round {one.entry.key[0]}",
    ]
    groups = [group for by in kinds for group in sorted(grouped(answers, by).items()) if len(group[1]) >= GROUP_MIN]
    for name, among in [*groups, ("all", list(answers))]:
        cells = []
        for at in range(len(DRAWN)):
            for what in ("rate", "time"):
                shares = [getattr(one, what)[at] for one in among]
                low, high = over_entries(shares)
                cells.append(f"{100 * statistics.fmean(shares):.1f} % ({100 * low:.1f}–{100 * high:.1f})")
            cells.append(f"{100 * statistics.fmean(one.normal[at] for one in among):.1f} %")
        yield [name, str(len(among)), *cells]


def as_trials(answers: Sequence[Asked]) -> str:
    """Clopper and Pearson's, as if each entry had been asked once, of throughput with three runs."""
    share = scaling_tables.Share(round(sum(one.rate[0] for one in answers)), len(answers))
    low, high = share.interval()
    return f"{100 * low:.0f} to {100 * high:.0f} %"


def bare(found: Iterable[Entry]) -> str:
    """The share of throughput's intervals of three that hold, if repeats were taken to scatter as little as they do."""
    least, intervals.VARIATION_MIN = intervals.VARIATION_MIN, 0.0
    try:
        shares = [covered(one.rates, drawn=DRAWN[0]) for one in found if len(one.rates) >= RUNS_MIN]
    finally:
        intervals.VARIATION_MIN = least
    return f"{statistics.fmean(shares):.1%}".replace("%", " %")


# --- spread -----------------------------------------------------------------------------------------------------------


def variations(found: Iterable[Entry], what: str) -> list[float]:
    """Standard deviation over mean, of the runs of each entry that has at least three."""
    values = (getattr(one, what) for one in found)
    return [statistics.stdev(one) / statistics.fmean(one) for one in values if len(one) > 2]


def spread(found: Sequence[Entry]) -> Iterator[list[str]]:
    yield [
        "accelerators", "entries", "within a run", "throughput, run to run", "in one of ten more than",
        "known to, by 3 runs", "by 5", "time, run to run", "in one of ten more than", "known to, by 3 runs", "by 5",
        "by 10",
    ]  # fmt: skip
    sizes = grouped(found, lambda one: one.size)
    for _, name in SIZES:
        among = sizes[name]
        within = statistics.median(statistics.median(one.spreads) for one in among if one.spreads)
        rates, times = variations(among, "rates"), variations(among, "seconds")
        yield [
            name, str(len(among)), _percent(within), _percent(statistics.median(rates)), _percent(_tenth(rates)),
            *(_percent(intervals.half_width(statistics.median(rates), runs)) for runs in (3, 5)),
            _percent(statistics.median(times)), _percent(_tenth(times)),
            *(_percent(statistics.median(_time_known(one, runs) for one in among)) for runs in (3, 5, 10)),
        ]  # fmt: skip


def _time_known(one: Entry, runs: int) -> float:
    """By how much the interval of so many runs reaches above the mean, with what the step between evaluations adds."""
    variation = intervals.of_values(one.seconds, step=one.every).variation
    assert variation is not None
    return intervals.half_width(variation, runs)


def scatter(found: Sequence[Entry]) -> tuple[RunToRun, ...]:
    """What `intervals.PUBLISHED` is to hold."""
    sizes = grouped(found, lambda one: one.size)
    known = ((most, variations(sizes[name], "rates")) for most, name in SIZES)
    return tuple(
        RunToRun(most, *(float(f"{value:.2g}") for value in (statistics.median(values), _tenth(values))))
        for most, values in known
    )


def _tenth(values: Sequence[float]) -> float:
    return float(np.quantile(values, 0.9))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 0.1 else f"{share:.0%}".replace("%", " %")


# --- scaling ----------------------------------------------------------------------------------------------------------


class Sizes(NamedTuple):
    """A line: one benchmark of one submitter on gangs of the same accelerators."""

    name: tuple[str, str, str, str]  # round, submitter, accelerator, benchmark
    gangs: Mapping[int, Entry]  # by accelerators; of several the fastest

    def speeds(self, what: str, *, but: int | None = None) -> list[Speed]:
        return [
            Speed(workers=size, throughput=speed(one, what).mean) for size, one in self.gangs.items() if size != but
        ]


def speed(entry: Entry, what: str) -> Interval:
    """Samples per second, or trainings per second."""
    if what == "rate":
        return intervals.of_mean(entry.rates)
    time = entry.time
    ends = (None, None) if time.low is None or time.high is None else (1 / time.high / 60, 1 / time.low / 60)
    return Interval(mean=1 / time.mean / 60, low=ends[0], high=ends[1])


def lines(found: Iterable[Entry]) -> list[Sizes]:
    groups: dict[tuple[str, str, str, str], dict[int, Entry]] = defaultdict(dict)
    for one in sorted(found, key=lambda one: (one.accelerators, one.time.mean)):
        if one.rates:
            groups[one.key[0], one.key[1], one.accelerator, one.benchmark].setdefault(one.accelerators, one)
    return [Sizes(name, gangs) for name, gangs in sorted(groups.items()) if len(gangs) > 2]


def fitted(line: Sizes, every: Sequence[Sizes], what: str, *, but: int | None = None) -> Law | None:
    siblings = [one.speeds(what) for one in every if one.name[:3] == line.name[:3] and one is not line]
    law = scaling_law.fit(line.speeds(what, but=but), siblings=siblings)
    return law if isinstance(law, Law) else None


def doublings(every: Sequence[Sizes]) -> Iterator[list[str]]:
    yield [
        "benchmark", "accelerator", "submitter", "measured", "the last doubling brought", "doubled to",
        "times as fast", "costs, times",
    ]  # fmt: skip
    for line in sorted(every, key=lambda one: (one.name[3], one.name[2], one.name[1], one.name[0])):
        *_, fewer, most = line.gangs
        if (law := fitted(line, every, "time")) is None:
            continue
        now = speed(line.gangs[most], "time").mean
        brought = (now / speed(line.gangs[fewer], "time").mean) ** (math.log(2) / math.log(most / fewer))
        gain = law.at(2 * most).throughput.scaled(1 / now)
        assert gain.low is not None
        assert gain.high is not None
        cells = [_bounded(gain), _bounded(Interval(mean=2 / gain.mean, low=2 / gain.high, high=2 / gain.low))]
        if gain.mean > _LINEAR:  # the law would put it above linear scaling, and is cut off there
            cells = ["the law does not fit", ""]
        name = (line.name[3], line.name[2], f"{line.name[1]}, {line.name[0]}")
        yield [*name, ", ".join(map(str, line.gangs)), f"{brought:.2f}", str(2 * most), *cells]


_LINEAR = 1.999  # of a doubling


def _bounded(found: Interval) -> str:
    places = 2 if found.mean < 10 else 1 if found.mean < 100 else 0
    ends = "" if found.low is None or found.high is None else f" ({found.low:,.{places}f}–{found.high:,.{places}f})"
    return f"{found.mean:,.{places}f}{ends}"


# --- the back-test ----------------------------------------------------------------------------------------------------


class LeftOut(NamedTuple):
    """A size that was left out, and what the others of its line say about it."""

    line: Sizes
    size: int
    predicted: Interval | None  # None where they determine nothing
    actual: float
    reach: Reach | None


def left_out(every: Sequence[Sizes], what: str) -> list[LeftOut]:
    found = []
    for line in every:
        for size, entry in line.gangs.items():
            law = fitted(line, every, what, but=size)
            reach = None if law is None else law.reach(size)
            predicted = None if law is None else law.at(size).throughput
            found.append(LeftOut(line, size, predicted, speed(entry, what).mean, reach))
    return found


_NEAR = (Reach.WITHIN, Reach.BEYOND)
_WHAT = {"rate": "samples per second", "time": "trainings per hour"}


def coverage(every: Sequence[Sizes]) -> Iterator[list[str]]:
    yield ["of", "", "lines", "sizes left out", "within the 95 % interval", "median error", "worst"]
    for what, name in _WHAT.items():
        found = left_out(every, what)
        none = [one for one in found if one.predicted is None]
        yield [name, "no law: two sizes are left", _lines(none), str(len(none)), "", "", ""]
        for where, reaches in (("at most twice as far", _NEAR), ("farther", (Reach.FAR,))):
            among = [one for one in found if one.reach in reaches]
            errors = [one.predicted.mean / one.actual - 1 for one in among if one.predicted is not None]
            yield [
                "", where, _lines(among), str(len(among)), _share(sum(map(_holds, among)), len(among)),
                _percent(scaling_tables.middle(errors)), f"{scaling_tables.worst(errors):+.0%}".replace("%", " %"),
            ]  # fmt: skip


def _lines(among: Iterable[LeftOut]) -> str:
    return str(len({one.line.name for one in among}))


def _holds(one: LeftOut) -> bool:
    found = one.predicted
    return found is not None and (found.low or 0) <= one.actual <= (found.high or math.inf)


class Choice(NamedTuple):
    """What was advised for one question, and what would have been best."""

    line: tuple[str, ...]
    late: float | None  # its real time over the limit; None where nothing was said to keep it
    regret: float  # its real cost over the least of the sizes that keep it, less 1


def choices(every: Sequence[Sizes], what: str, *, judged_by: str) -> Iterator[Choice]:
    """Each line, each size left out, each limit between two neighbours: the cheapest size that keeps it.

    Of the answers that the size matters for: it would be best, or is chosen.
    """
    for line, unknown in ((one, size) for one in every for size in one.gangs):
        law = fitted(line, every, what, but=unknown)
        if law is None or law.reach(unknown) not in _NEAR:
            continue
        samples = 1 if what == "time" else _samples(line)
        real = {size: _hours(one, judged_by, line) for size, one in line.gangs.items()}
        on = Line(pool="-".join(line.name), kind="strong", batch=1)
        gangs = [
            Gang(
                line=on,
                workers=size,
                nodes=Decimal(size),
                nodes_held=size,
                rate=Rate(per_node_hour=Decimal(1), currency="USD"),
                throughput=None if size == unknown else speed(one, what),
            )
            for size, one in line.gangs.items()
        ]
        known = advice.considered(gangs, {on: law})
        times = sorted(real.values())
        for limit in (math.sqrt(one * next_one) for one, next_one in itertools.pairwise(times)):
            asked_for = Question(samples=samples, by_cost=True, hours=Decimal(repr(limit)))
            chosen = advice.best_of(known, asked_for).chosen
            cost, best = min((size * hours, size) for size, hours in real.items() if hours <= limit)
            size = None if chosen is None else chosen.gang.workers
            if unknown in (best, size):
                regret = 0.0 if size is None else size * real[size] / cost - 1
                yield Choice(line.name, None if size is None else real[size] / limit, regret)


def _samples(line: Sizes) -> int:
    """What the line's smallest gang trains until the target: a goal in samples, as an objective has."""
    one = line.gangs[min(line.gangs)]
    return max(1, round(statistics.fmean(one.seconds) * statistics.fmean(one.rates)))


def _hours(entry: Entry, judged_by: str, line: Sizes) -> float:
    return (1 if judged_by == "time" else _samples(line)) / speed(entry, judged_by).mean / 3600


def regrets(every: Sequence[Sizes]) -> Iterator[list[str]]:
    yield [
        "advised by", "judged by", "lines", "questions", "no answer", "the best size", "mean regret", "worst", "late",
        "at most",
    ]  # fmt: skip
    for what, judged_by in (("rate", "rate"), ("time", "time"), ("rate", "time")):
        found = list(choices(every, what, judged_by=judged_by))
        kept = [one.regret for one in found if one.late is not None and one.late <= 1]
        late = [one.late - 1 for one in found if one.late is not None and one.late > 1]
        yield [
            _WHAT[what], _WHAT[judged_by], str(len({one.line for one in found})), str(len(found)),
            str(sum(one.late is None for one in found)),
            _share(sum(one < _EQUAL for one in kept), len(found)), _percent(statistics.fmean(kept)),
            _percent(max(kept)), _share(len(late), len(found)), _percent(max(late, default=0.0)),
        ]  # fmt: skip


_EQUAL = 1e-9


def _share(hits: int, of: int) -> str:
    low, high = scaling_tables.Share(hits, of).interval()
    return f"{hits / of:.0%} ({low:.0%}–{high:.0%})".replace("%", " %")


# --- costs ------------------------------------------------------------------------------------------------------------


class Price(NamedTuple):
    """Of a machine on a day."""

    provider: str
    machine: str
    accelerator: str
    capacity: str
    per_hour: float  # of one accelerator, in USD
    day: str


def prices() -> list[Price]:
    return [
        Price(
            row["provider"],
            row["machine"],
            row["accelerator"],
            row["capacity"],
            float(row["usd_per_hour"]) / int(row["accelerators"]),
            row["day"],
        )
        for row in rows_of(PRICES)
    ]


def cost(entry: Entry, found: Price) -> Interval:
    """USD from the first step to the target: start-up and what is not used of the last hour are not in it."""
    return entry.time.scaled(found.per_hour * entry.accelerators / 60)


def newest(found: Iterable[Price]) -> list[Price]:
    """The last of each machine, on demand, of the last twelve months of all."""
    listed = sorted(found, key=lambda one: one.day)
    last = {(one.provider, one.machine, one.accelerator): one for one in listed if one.capacity == "on-demand"}
    year, rest = listed[-1].day[:4], listed[-1].day[4:]
    since = f"{int(year) - 1}{rest}"
    return sorted((one for one in last.values() if one.day >= since), key=lambda one: one.per_hour)


def shown(found: Iterable[Entry]) -> dict[tuple[str, str], Entry]:
    """By benchmark and accelerator: the fastest entry with eight of them, or with the fewest that there are."""
    groups: dict[tuple[str, str], list[Entry]] = defaultdict(list)
    for one in found:
        groups[one.benchmark, one.accelerator].append(one)
    return {
        key: min(among, key=lambda one: (one.accelerators != _NODE, one.accelerators, one.time.mean))
        for key, among in groups.items()
    }


def costs(found: Sequence[Entry], known: Sequence[Price]) -> Iterator[list[str]]:
    yield ["benchmark", "accelerators", "minutes", "fastest of", "median of all", "least, USD", "at", "most, USD", "at"]
    for (benchmark, accelerator), one in sorted(shown(found).items(), key=lambda item: (item[0][0], item[1].time.mean)):
        at = [price for price in newest(known) if price.accelerator == accelerator]
        ends = [at[0], at[-1]] if len(at) > 1 else at
        cells = [cell for price in ends for cell in (_bounded(cost(one, price)), _named(price))]
        same = [other.time.mean for other in found if _alike(other, one)]
        name = f"{len(same)}: {one.key[1]}, {one.key[0]}"
        middle = _bounded(Interval(mean=statistics.median(same)))
        size = f"{one.accelerators} {accelerator}"
        yield [benchmark, size, _bounded(one.time), name, middle, *cells, *[""] * (4 - len(cells))]


def _alike(one: Entry, other: Entry) -> bool:
    return all(getattr(one, name) == getattr(other, name) for name in ("benchmark", "accelerator", "accelerators"))


_NODE = 8  # accelerators of a machine, as most have


def _named(price: Price) -> str:
    return f"{price.provider}, {price.day}"


def by_day(found: Sequence[Entry], known: Sequence[Price]) -> Iterator[list[str]]:
    yield ["", "accelerators", "on", "an accelerator's hour, USD", "training, USD"]
    best = shown(found)
    series: dict[tuple[str, str, str, str], dict[str, Price]] = defaultdict(dict)
    for price in sorted(known, key=lambda price: price.day):
        series[price.provider, price.accelerator, price.capacity, price.machine][price.day] = price
    for (provider, accelerator, capacity, _), days in sorted(series.items()):
        if len(days) < 2 or (one := best.get((_SHOWN, accelerator))) is None:
            continue
        for day, price in days.items():
            name = f"{provider}, {capacity}" if price is next(iter(days.values())) else ""
            yield [name, f"{one.accelerators} {accelerator}", day, f"{price.per_hour:.2f}", _bounded(cost(one, price))]


_SHOWN = "llama2_70b_lora"


def cost_rows(found: Sequence[Entry], known: Sequence[Price]) -> Iterator[dict[str, str]]:
    for one, price in itertools.product(found, known):
        if one.accelerator == price.accelerator:
            amount = cost(one, price)
            yield {
                **dict(zip(mlperf_index.ENTRY, one.key, strict=True)),
                "accelerator": one.accelerator,
                "accelerators": str(one.accelerators),
                "provider": price.provider,
                "machine": price.machine,
                "capacity": price.capacity,
                "day": price.day,
                "usd": f"{amount.mean:.2f}",
                **{f"usd_{end}": f"{getattr(amount, end):.2f}" for end in ("low", "high")},
            }


# --- the page ---------------------------------------------------------------------------------------------------------


def table(rows: Iterable[Sequence[str]]) -> str:
    heading, *rest = rows
    lines = [heading, ["---"] * len(heading), *rest]
    return "".join(f"| {' | '.join(one)} |\n" for one in lines)


def page(found: Sequence[Entry], known: Sequence[Price]) -> str:
    every, answers = lines(found), asked(found)
    parts = {
        "COSTS": table(costs(found, known)),
        "DAYS": table(by_day(found, known)),
        "DOUBLINGS": table(doublings(every)),
        "SPREAD": table(spread(found)),
        "REFEREE": table(referee(answers)),
        "COVERAGE": table(coverage(every)),
        "REGRETS": table(regrets(every)),
    }
    written = (mlperf_index.FOLDER / "mlperf_page.txt").read_text(encoding="utf-8")
    for name, one in parts.items():
        written = written.replace(f"{{{name}}}\n", one)
    figures = {"BARE": bare(found), "TRIALS": as_trials(answers), "ENTRIES": str(len(rows_of(mlperf_index.ENTRIES)))}
    figures |= {"ONCE": str(len(found)), "ASKED": str(len(answers))}
    for name, one in figures.items():
        written = written.replace(f"{{{name}}}", one)
    return written


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; 1 where a file is not what it would be")
    given = parser.parse_args()
    found, known = entries(), prices()
    rows = list(cost_rows(found, known))
    if unknown := {one.accelerator for one in known} - {one.accelerator for one in found}:
        raise SystemExit(f"{PRICES.name}: no entry has {', '.join(sorted(unknown))}")
    heading = f"# Written by {Path(__file__).name}. Derived from logs under Apache-2.0: {mlperf.NOT_VERIFIED}.\n"
    wanted = {PAGE: page(found, known), COSTS: heading + terminal.csv_text(tuple(rows[0]), rows)}
    differing = [path for path, content in wanted.items() if not path.exists() or path.read_text() != content]
    for path in differing:
        print(f"{path.relative_to(ROOT)}: {'stale' if given.check else 'written'}", file=sys.stderr)
        if not given.check:
            path.write_text(wanted[path], encoding="utf-8")
    if stale := scatter(found) != intervals.PUBLISHED:
        print(f"intervals.PUBLISHED is to be {scatter(found)}", file=sys.stderr)
    return 1 if stale or (given.check and differing) else 0


if __name__ == "__main__":
    sys.exit(main())
