# SPDX-License-Identifier: Apache-2.0
"""What is kept of the runs of a schedule; what became slower in them, which nodes are slow, what a month costs.

An entry outlives its benchmark; the oldest go. Entries have the form of the attempt ledger: text under a key of its own
(the name of the run), so that writing one twice changes nothing. Where they are stored is not known here.
"""

import bisect
import contextlib
import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from typing import Literal, NamedTuple

from pydantic.alias_generators import to_camel

from gpubench import records
from gpubench.analysis import forecast, health, pairs, text
from gpubench.analysis.text import bounded
from gpubench.api import schedule as api
from gpubench.api.point_result import Basis, EnvironmentFacts, PointState
from gpubench.api.pool import GpuPool
from gpubench.cost import billing, price
from gpubench.cost.price import Amount, CostError
from gpubench.plan import expand, pool_prices
from gpubench.plan.plan import Plan
from gpubench.schedule import cron
from gpubench.scheduler import conditions, node_tests
from gpubench.scheduler.ledger import AttemptRecord
from gpubench.stats import compare, intervals, levels, steady_state
from gpubench.units import counted, duration_seconds, duration_text, rfc3339
from gpubench.values import FrozenModel, Interval, content_id, grouped

#: Of a schedule's history: entries, ConfigMaps, and bytes of one of these (etcd refuses objects over 1.5 MiB).
RUNS_MAX = 1000
SHARDS_MAX = 4
SHARD_BYTES_MAX = 512 * 1024

NODES_MAX = 16  # of a point that are named; a gang on more is not told apart by them
_POINT_CHARACTERS = 12
_POINT_TEXT_MAX = 160


class Figure(FrozenModel):
    """What a run measured of a point."""

    point: str  # what makes the point, pool and all, as a hash: equal from run to run
    text: str  # the same for people
    pool: str | None = None
    node: str | None = None  # with placement EachNode: the point's own
    group: str | None = None  # then: what makes the point but for the node
    quantity: compare.Quantity
    mean: float
    low: float | None = None  # 95 % interval over the run's repeats
    high: float | None = None
    repeats: int
    environment: str | None = None  # the comparability key
    instance_type: str | None = None
    image_digest: str | None = None
    nodes: tuple[str, ...] = ()  # none where they were too many to be named
    settled: bool = True
    # What is remembered after this run:
    series: str | None = None  # of which series
    level_since: int | None = None  # when the first run of the reference was due
    slow_since: int | None = None  # and the first run of a regression that stands
    usual: float | None = None  # the speed that it was held against

    @property
    def speed(self) -> float:
        """Above is better."""
        return self.mean if self.quantity is compare.Quantity.THROUGHPUT else 1 / self.mean

    @property
    def environment_key(self) -> tuple[str, str, str]:
        """What must be the same before two of them are compared."""
        return (self.environment or "", self.instance_type or "", self.image_digest or "")


class Held(FrozenModel):
    """For how long a run held nodes of a pool: each from the first pod on it to the end of the last one."""

    pool: str
    nodes: int  # that it was on, at the same time or one after the other
    seconds: float  # of a node, on average


class Entry(records.Stored):
    """A run that has finished. Times are seconds since the epoch."""

    name: str
    uid: str
    scheduled_at: int
    created_at: float
    finished_at: float
    succeeded: bool
    sentence: str  # how it ended, of its condition Finished
    figures: tuple[Figure, ...] = ()
    environments: tuple[EnvironmentFacts, ...] = ()
    held: tuple[Held, ...] = ()
    spent: str | None = None  # what it was billed, an estimate
    currency: str | None = None
    baseline: Literal["Pass", "Fail", "CannotTell"] | None = None  # with compareTo in the template
    baseline_sentence: str | None = None


# --- what a finished run leaves ---------------------------------------------------------------------------------------


def figures(side: pairs.Side, *, plan: Plan | None = None, records: Iterable[AttemptRecord] = ()) -> tuple[Figure, ...]:
    """The figures of a finished benchmark; `plan` and `records` tell the nodes, where they are there."""
    trials = {} if plan is None else plan.trial_by_id
    nodes: dict[int, set[str]] = defaultdict(set)
    for record in records:
        if record.result is not None and record.trial in trials:
            nodes[trials[record.trial].point].update(record.nodes)
    digests, found = {facts.environment: facts.image_digest for facts in side.environments}, []
    for index, result in enumerate(side.results):
        quantity = pairs.quantity(result)
        if result.basis is not Basis.MEASURED or quantity is None:
            continue
        sample = pairs.sample(result, quantity, confidence=side.confidence)
        if sample.mean <= 0:
            continue
        values = result.values if quantity is compare.Quantity.THROUGHPUT else ()
        interval = intervals.of_mean(values, side.confidence) if values else None
        identity, of_any_node = (
            content_id("\n".join(pairs.identity(side, one)), characters=_POINT_CHARACTERS)
            for one in (result, result.model_copy(update={"node": None}))
        )
        found.append(
            Figure(
                point=identity,
                text=conditions.clamped(text.describe(result), _POINT_TEXT_MAX),
                group=None if result.node is None else of_any_node,
                quantity=quantity,
                mean=sample.mean,
                low=None if interval is None else interval.low,
                high=None if interval is None else interval.high,
                repeats=sample.count,
                image_digest=digests.get(result.environment or ""),
                nodes=tuple(sorted(nodes[index])) if len(nodes[index]) <= NODES_MAX else (),
                settled=result.state is not PointState.UNSTABLE,
                **{name: getattr(result, name) for name in ("pool", "node", "environment", "instance_type")},
            )
        )
    return tuple(found)


def held(plan: Plan, records: Iterable[AttemptRecord]) -> tuple[Held, ...]:
    """For how long a benchmark held its pools' nodes, as far as its pods were seen; also in runs that Kueue has ended.

    Its gangs may be on nodes of their own, at a time or one after the other: each node has a life. Where nobody knows
    the nodes' names, those of all gangs are taken to be the same.
    """
    lives: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
    for record in records:
        for gang in record.runs if record.trial in plan.point_by_trial else ():
            if gang.pod_times:
                # From the first pod's placement to the last one's end: the gang has its nodes as a whole.
                begin = record.created_at + min(scheduled for scheduled, _, _ in gang.pod_times)
                end = record.created_at + max(ended for _, _, ended in gang.pod_times)
                of_pool = lives[plan.point_by_trial[record.trial].key.pool]
                for node in sorted(set(gang.nodes)) or [f"#{number}" for number in range(len(gang.pod_times))]:
                    first, last = of_pool.get(node, (begin, end))
                    of_pool[node] = (min(first, begin), max(last, end))
    return tuple(
        Held(pool=pool, nodes=len(nodes), seconds=sum(end - begin for begin, end in nodes.values()) / len(nodes))
        for pool, nodes in sorted(lives.items())
    )


# --- how entries are stored -------------------------------------------------------------------------------------------


def read(shards: Iterable[Mapping[str, str]]) -> tuple[Entry, ...]:
    """Stored entries, oldest first; one that cannot be read is left out: a verdict needs no complete history."""
    found: dict[str, Entry] = {}
    for line in itertools.chain.from_iterable(shard.values() for shard in shards):
        with contextlib.suppress(ValueError):
            entry = Entry.from_text(line)
            found[entry.name] = entry
    return tuple(sorted(found.values(), key=lambda entry: (entry.scheduled_at, entry.name)))


def placed(shards: Mapping[int, Mapping[str, str]], entry: Entry) -> dict[int, dict[str, str | None]]:
    """What adds an entry to shards as they are stored, shard by shard; nothing where it is there. None drops one.

    It goes into the first shard with room. Where none has any, or the runs are too many, the oldest go.
    """
    if any(entry.name in shard for shard in shards.values()):
        return {}
    text = entry.to_text()
    left = {number: dict(shards.get(number, {})) for number in range(SHARDS_MAX)}
    changes: dict[int, dict[str, str | None]] = defaultdict(dict)

    def has_room(shard: Mapping[str, str]) -> bool:
        size = sum(len(one.encode()) for pair in (*shard.items(), (entry.name, text)) for one in pair)
        return not shard or size <= SHARD_BYTES_MAX

    while not any(map(has_room, left.values())) or sum(map(len, left.values())) >= RUNS_MAX:
        # The oldest: names end in the scheduled minute, which has eight digits until the year 2160.
        name, number = min((name, number) for number, shard in left.items() for name in shard)
        del left[number][name]
        changes[number][name] = None
    changes[next(number for number, shard in left.items() if has_room(shard))][entry.name] = text
    return dict(sorted(changes.items()))


# --- regressions ------------------------------------------------------------------------------------------------------
#
# The runs of a point in one environment are a series, judged by `stats.levels` after each run. What is remembered of a
# series stands in its newest figure, so that it outlives the runs that it rests on. All environments that were measured
# lately have a verdict: two drivers in one pool are two series, and none speaks for the other. Must not happen: a
# verdict across environments that `regressions.compareAcross` does not name; "not slower" of what was not compared.

#: Of the newest runs of a point: an environment without any of them is not judged any more. Of all runs: a point
#: without any of the newest ones is not, for the template may have lost it.
RUNS_LATELY, POINTS_LATELY = 30, 4


class Measured(NamedTuple):
    """A run's figure of one point."""

    run: Entry
    figure: Figure


class Series(NamedTuple):
    """A point in one environment: its runs, oldest first, and what is remembered after the newest one."""

    name: str  # a hash of what makes it: the point, its environment, and what may differ in it
    measured: tuple[Measured, ...]
    level: levels.Level
    usual: float | None  # what the newest run is held against

    @property
    def newest(self) -> Measured:
        return self.measured[-1]

    @property
    def runs(self) -> int:
        """Of the level that stands."""
        return len(self.measured) - self.level.begin

    @property
    def is_judged(self) -> bool:
        return self.is_slower or (self.usual is not None and self.runs >= levels.SERIES_MIN)

    @property
    def is_slower(self) -> bool:
        return self.level.slow is not None


def by_point(entries: Iterable[Entry]) -> dict[str, list[Measured]]:
    """The runs of each point, oldest first; only those that settled, and no figure of 0 that somebody wrote."""
    found: dict[str, list[Measured]] = defaultdict(list)
    for entry in entries:
        for figure in entry.figures:
            of_point = found[figure.point]
            if figure.settled and figure.mean > 0 and (not of_point or of_point[-1].run is not entry):
                of_point.append(Measured(entry, figure))
    return found


def with_levels(
    entry: Entry, earlier: Sequence[Entry], rules: api.Regressions, *, accepted_at: float | None = None
) -> Entry:
    """A run with what is remembered after it, given those of before."""
    before = (one for one in earlier if one.scheduled_at < entry.scheduled_at)
    remembered: dict[int, dict[str, object]] = {}
    for found in series([*before, entry], rules, accepted_at=accepted_at):
        if found.newest.run is entry:
            times = [one.run.scheduled_at for one in found.measured]
            remembered[id(found.newest.figure)] = {
                "series": found.name,
                "level_since": times[found.level.begin],
                "slow_since": None if found.level.slow is None else times[found.level.slow],
                "usual": found.usual,
            }
    figures = tuple(one.model_copy(update=remembered.get(id(one))) for one in entry.figures)
    return entry.model_copy(update={"figures": figures})


def series(entries: Sequence[Entry], rules: api.Regressions, *, accepted_at: float | None = None) -> tuple[Series, ...]:
    """All points of the newest runs, in each environment that was measured lately; of a point the newest one last."""
    with_figures = [entry for entry in entries if any(figure.settled for figure in entry.figures)]
    here = {figure.point for entry in with_figures[-POINTS_LATELY:] for figure in entry.figures}
    found = []
    for point, every in by_point(entries).items():
        if point in here and every:
            grounds = grouped(every, partial(_name, point, rules))
            lately = every[-RUNS_LATELY:][0].run.scheduled_at
            found += [
                _series(name, measured, rules, accepted_at)
                for name, measured in sorted(grounds.items(), key=lambda ground: ground[1][-1].run.scheduled_at)
                if measured[-1].run.scheduled_at >= lately
            ]
    return tuple(found)


def regressions(found: Iterable[Series]) -> tuple[api.Regression, ...]:
    """The series that are slower than they were, the first to become so first: a list that is cut keeps its order."""
    slower = (_regression(one, one.level.slow) for one in found if one.level.slow is not None)
    return tuple(sorted(slower, key=lambda one: (one.since, one.series)))


def shown_levels(found: Sequence[Series]) -> tuple[api.Level, ...]:
    """Each series with its level and its verdict, slower ones first, as a status has it."""
    return tuple(
        api.Level(
            point=one.newest.figure.text,
            series=one.name,
            environment=one.newest.figure.environment,
            since=rfc3339(one.measured[one.level.begin].run.scheduled_at),
            runs=one.runs,
            speed=one.newest.figure.speed,
            usual=one.usual,
            verdict="Slower" if one.is_slower else "NotSlower" if one.is_judged else "TooFewRuns",
        )
        for one in sorted(found, key=lambda one: not one.is_slower)[: api.LEVELS_MAX]
    )


def how_ended(before: api.Regression, found: Iterable[Series]) -> tuple[str, str] | None:
    """Why a regression of before stands no longer: a reason and a sentence. None where it does."""
    if (one := next((one for one in found if one.name == before.series), None)) is None:
        gone = f"{before.point} has not been measured lately in the environment in which it is slower"
        return "CannotTell", f"{gone} since {before.since}: whether it still is nobody can tell"
    if one.is_slower:
        return None
    if rfc3339(one.measured[one.level.begin].run.scheduled_at) >= before.since:
        return "Accepted", f"{before.point}: its speed since {before.since} is accepted as the new level"
    return "Healed", f"{before.point} is as fast again as it was before {before.since}, in the same environment"


def key_changes(entries: Sequence[Entry]) -> tuple[api.KeyChange, ...]:
    """When the environment of the figures became one that was not there before, newest first: `driver 550 -> 560`."""
    found: dict[tuple[str, str], api.KeyChange] = {}
    for measured in by_point(entries).values():
        seen: set[tuple[str, str, str]] = set()
        for before, after in itertools.pairwise(measured):
            seen.add(before.figure.environment_key)
            if after.figure.environment_key not in seen:
                sentence = conditions.clamped(_difference(before, after), api.REGRESSION_SENTENCE_MAX)
                change = api.KeyChange(since=rfc3339(after.run.scheduled_at), run=after.run.name, sentence=sentence)
                found.setdefault((change.run, sentence), change)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.run), reverse=True)[: api.KEY_CHANGES_MAX])


def _name(point: str, rules: api.Regressions, one: Measured) -> str:
    """Of the series that it belongs to. Runs whose facts were not recorded are held against those of their own key."""
    key: list[object] = [point, *rules.compare_across]
    if rules.compare_across and any(facts.environment == one.figure.environment for facts in one.run.environments):
        left_out = {"environment", *rules.compare_across}
        key += [f"{field}={fact}" for field, fact in _facts(one).items() if to_camel(field) not in left_out]
    else:
        key += one.figure.environment_key
    return content_id("\n".join(map(str, key)), characters=_POINT_CHARACTERS)


def _series(name: str, measured: Sequence[Measured], rules: api.Regressions, accepted_at: float | None) -> Series:
    """What is remembered after the newest of these runs: what their figures say, and the runs after those that do."""
    same = tuple(measured[-levels.RUNS_MAX :])
    known = max((at for at, one in enumerate(same) if one.figure.series == name), default=-1)
    level = _remembered(name, same[: known + 1]) if known >= 0 else levels.Level()
    nodes = "node" not in rules.compare_across
    bounds = levels.Rules(float(rules.tolerance), float(rules.false_alarms), rules.accept_after)
    runs = [
        levels.Run(one.run.scheduled_at, one.figure.speed, " ".join(one.figure.nodes) if nodes else "")
        for one in (same if known < len(same) - 1 else ())
    ]
    for at in range(known, len(same)):
        if at > known:
            level = levels.after(runs[: at + 1], level, bounds)
        if at >= 0 and accepted_at is not None and same[at].run.finished_at <= accepted_at:
            level = levels.accepted(level)
    return Series(name, same, level, levels.usual(runs, level, bounds) if runs else same[-1].figure.usual)


def _remembered(name: str, measured: Sequence[Measured]) -> levels.Level:
    """What the figures say: the newest one of the level, all of them of regressions that ended since it began."""
    times = [one.run.scheduled_at for one in measured]
    newest, last = measured[-1].figure, dict[int, int]()
    for at, one in enumerate(measured):
        if one.figure.series == name and one.figure.slow_since is not None:
            last[bisect.bisect_left(times, one.figure.slow_since)] = at + 1
    slow = None if newest.slow_since is None else bisect.bisect_left(times, newest.slow_since)
    begin = bisect.bisect_left(times, newest.level_since or 0)
    ended = tuple((first, end) for first, end in last.items() if begin < first != slow)
    # Else all that it was held against has aged out.
    return levels.Level(begin, slow, ended) if slow is None or slow > begin else levels.Level(slow)


def _regression(found: Series, slow: int) -> api.Regression:
    since, before = found.measured[slow:], [found.measured[at] for at in found.level.reference(slow)]
    ratio = compare.speed_ratio(*(intervals.of_values([one.figure.speed for one in part]) for part in (since, before)))
    speed = Interval(mean=ratio.mean, low=ratio.low, high=ratio.high)
    nodes = tuple(sorted({node for one in since for node in one.figure.nodes}))
    figure, run = found.newest.figure, since[0].run
    sentence = (
        f"{figure.text} has {bounded(speed)} times the speed of before since {rfc3339(run.scheduled_at)} ({run.name}): "
        f"{len(since)} runs against {len(before)}"
    )
    last = found.measured[slow - 1]
    if last.figure.environment_key != since[0].figure.environment_key:
        sentence += f"; with it changed {_difference(last, since[0])}"
    if nodes:
        sentence += f", on {text.shortened(nodes, most=api.NODES_NAMED_MAX)}"
    return api.Regression(
        series=found.name,
        point=figure.text,
        since=rfc3339(run.scheduled_at),
        run=run.name,
        speed=speed,
        runs_since=len(since),
        runs_before=len(before),
        nodes=nodes[: api.NODES_NAMED_MAX],
        environment=figure.environment,
        sentence=conditions.clamped(sentence, api.REGRESSION_SENTENCE_MAX),
    )


def _difference(before: Measured, after: Measured) -> str:
    these, those = _facts(before), _facts(after)
    changes = [
        (records.environment_field_name(field), these.get(field), those.get(field))
        for field in EnvironmentFacts.model_fields
        if field != "environment" and these.get(field) != those.get(field)
    ] or [("environment", before.figure.environment, after.figure.environment)]

    return ", ".join(f"{field} {was or 'none'} -> {now or 'none'}" for field, was, now in changes)


def _facts(one: Measured) -> dict[str, object]:
    facts = next((facts for facts in one.run.environments if facts.environment == one.figure.environment), None)
    own = {"instance_type": one.figure.instance_type, "image_digest": one.figure.image_digest}
    return {**({} if facts is None else dict(facts)), **own}


# --- slow nodes -------------------------------------------------------------------------------------------------------


def slow_nodes(entries: Sequence[Entry]) -> tuple[api.SlowNode, ...]:
    """The slow nodes of the newest run with figures of single nodes, the slowest first; each once.

    A node is slow when its speed is an outlier among those of the others (modified z-score beyond 3.5, Iglewicz and
    Hoaglin 1993, `stats.outliers`) and a tenth below their median: the bounds by which a node is called weak
    (`analysis.health`). Only nodes in one environment, with one instance type and image, are compared.
    """
    newest = next((entry.figures for entry in reversed(entries) if any(one.node for one in entry.figures)), ())
    known = (figure for figure in newest if figure.node is not None and figure.settled)
    groups = grouped(known, lambda figure: (figure.group, figure.environment_key))
    by_node: dict[str, api.SlowNode] = {}
    for one in sorted((one for group in groups.values() for one in _slow(group)), key=lambda one: one.speed):
        by_node.setdefault(one.node, one)
    return tuple(by_node.values())[: api.SLOW_NODES_MAX]


def _slow(group: Sequence[Figure]) -> Iterator[api.SlowNode]:
    if len(group) <= node_tests.HISTORY_MIN:  # so many others: fewer have no usual speed
        return
    speeds = [figure.speed for figure in group]
    median = statistics.median(speeds)
    for figure, score in zip(group, steady_state.outlier_scores(speeds), strict=True):
        ratio = figure.speed / median
        if score < -health.SCORE_MAX and ratio <= 1 - health.BELOW_MEDIAN_MIN:
            sentence = (
                f"{figure.text}: {compare.percent(1 - ratio)} slower than the median of the {len(group)} nodes: look "
                "at its clocks, its temperature and what else runs there, or take it out of the pool"
            )
            yield api.SlowNode(
                node=figure.node or "",
                pool=figure.pool or "",
                speed=ratio,
                nodes=len(group),
                sentence=conditions.clamped(sentence, api.REGRESSION_SENTENCE_MAX),
            )


# --- what a schedule costs a month ------------------------------------------------------------------------------------
#
# Source of the model: Max Woolf, November 2018, a cheap cron on preemptible machines. Of a pool that scales to zero a
# node is billed from its boot until the autoscaler takes it away, and once for all trials of a run. So a run is one
# life of each node that it needs, with `costs.coldStart` added to what its pods held. The hours of the month are the
# user's, and are shown beside the amount. Failures and preemptions count as far as they were in the runs.

_Basis = Literal["Measured", "Given", "Estimated"]
_BASES: Mapping[_Basis, str] = {
    "Measured": "as the newest runs held them",
    "Given": "as costs.expectedRun says",
    "Estimated": "as is assumed of its trials",
}
RUNS_AVERAGED = 10  # the newest, for the length of a run
_MESSAGE_MAX = 480
_PLACES = 6  # of an amount in a status
_AMOUNT_END = 10**12  # of a DecimalText


class _Life(NamedTuple):
    """How long a run holds its nodes of a pool, from boot to removal."""

    pool: str
    nodes: int
    seconds: Decimal


def projected(
    spec: api.GpuBenchmarkScheduleSpec, pools: Sequence[GpuPool], entries: Sequence[Entry], *, planned_at: str
) -> api.Monthly | None:
    """The monthly cost; without amounts where they are not known. None where the schedule cannot be read."""
    try:
        hourly = cron.runs_per_hour(cron.timetable(spec.schedule, time_zone=spec.time_zone))
    except cron.InvalidSchedule:
        return None
    hours = spec.costs.hours_per_month
    runs = Decimal(hourly.numerator * hours) / hourly.denominator
    known = api.Monthly(hours=hours, runs=_text(runs), sentence="")
    try:
        if absent := ", ".join(expand.missing_pools(spec.benchmark_template.spec, pools)):
            raise CostError(f"GpuPool {absent} is not there: apply it, or correct benchmarkTemplate.spec.sweep")
        plan = expand.freeze(spec.benchmark_template.spec, pools, planned_at, nodes_assumed(pools))
        return _priced(known, spec, plan, entries, runs=runs)
    except CostError as error:
        return known.model_copy(update={"sentence": f"no cost: {error}"[:_MESSAGE_MAX]})


def nodes_assumed(pools: Sequence[GpuPool]) -> dict[str, tuple[str, ...]]:
    """For placement EachNode, where no nodes are known: all that each pool can have are taken to be there."""
    return {pool.name: tuple(f"{pool.name}-{number}" for number in range(pool.spec.max_nodes)) for pool in pools}


def _priced(
    known: api.Monthly, spec: api.GpuBenchmarkScheduleSpec, plan: Plan, entries: Sequence[Entry], *, runs: Decimal
) -> api.Monthly:
    basis, lives = _lives(spec, plan, entries)
    nodes, always_on = list[tuple[str, Amount]](), Decimal(0)
    for pool, count, seconds in lives:
        if (terms := pool_prices.planned_terms(plan, pool)) is None:
            raise CostError(f"GpuPool {pool} is not there, or has neither price nor ownership")
        # The part of its nodes that is paid for, of the point that pays for the most.
        points = (point for point in plan.points if point.runs and point.key.pool == pool)
        share = max(pool_prices.paid_share(plan, point) for point in points)
        bill = billing.attempt_bill(terms, node_seconds=[seconds] * count, share=share)
        nodes += [(f"{pool}: {line.name}", line.amount.times(runs)) for line in bill.lines]
        always_on += billing.cost_of_hours(terms.rate, nodes=1, hours=Decimal(known.hours)).times(count).value
    if not nodes:
        raise CostError("none of its points is run: correct benchmarkTemplate.spec.sweep")
    currency = spec.costs.currency or nodes[0][1].currency
    fees = [(fee, Amount(value=Decimal(fee.amount) * Decimal(fee.count), currency=currency)) for fee in spec.costs.fees]
    of_runs = [(fee.name, paid.times(runs)) for fee, paid in fees if fee.per == "Run"]
    fixed = [(fee.name, paid) for fee, paid in fees if fee.per == "Month"]
    lines = [*nodes, *of_runs, *fixed]
    total = price.total([paid for _, paid in lines])
    compute, by_run, by_month = (sum((paid.value for _, paid in of), Decimal(0)) for of in (nodes, of_runs, fixed))
    one_run = (compute + by_run) / runs
    where = " and ".join(
        f"{counted(one.nodes, 'node')} of {one.pool} for {duration_text(float(one.seconds))}" for one in lives
    )
    sentence = f"{known.runs} runs in {known.hours} hours, each holding {where}, {_BASES[basis]}"
    if max(total.value, one_run, always_on) >= _AMOUNT_END:
        raise CostError(f"it would be {_AMOUNT_END:,} {total.currency} or more, check prices and rates")
    return known.model_copy(
        update={
            "basis": basis,
            "currency": total.currency,
            "compute": _text(compute),
            "per_run": _text(one_run),
            "fixed": _text(by_month),
            "total": _text(total.value),
            "always_on": _text(always_on),
            "lines": tuple(api.MonthlyLine(name=name, amount=_text(paid.value)) for name, paid in lines),
            "shown": f"{total.currency} {price.rounded(total.value, digits=2)}",
            "sentence": sentence[:_MESSAGE_MAX],
        }
    )


def _lives(spec: api.GpuBenchmarkScheduleSpec, plan: Plan, entries: Sequence[Entry]) -> tuple[_Basis, Sequence[_Life]]:
    """By the newest runs that succeeded on these pools, else the user's word, else estimates; CostError without any."""
    single = expand.nodes_of(point for point in plan.points if point.runs)  # a run needs all of them
    needed = {pool: max(most, len(single.get(pool, ()))) for pool, most in sorted(forecast.nodes_needed(plan).items())}
    cold = Decimal(duration_seconds(spec.costs.cold_start))
    succeeded = [one for one in entries if one.succeeded and one.held and {on.pool for on in one.held} == {*needed}]
    averaged = itertools.chain.from_iterable(entry.held for entry in succeeded[-RUNS_AVERAGED:])
    if measured := grouped(averaged, lambda held: held.pool):
        lives = []
        for pool, of_runs in sorted(measured.items()):
            # Nodes of the run in the middle, with the time of an average one: another node follows a reclaimed one.
            nodes = statistics.median_high(one.nodes for one in of_runs)
            seconds = sum(one.nodes * one.seconds for one in of_runs) / len(of_runs) / nodes
            lives.append(_Life(pool, nodes, Decimal(f"{seconds:.0f}") + cold))
        return "Measured", lives
    if spec.costs.expected_run is not None:
        given = Decimal(duration_seconds(spec.costs.expected_run))
        return "Given", [_Life(pool, nodes, given) for pool, nodes in needed.items()]
    # All gangs are taken to be on the same nodes, but for those that measure one node by itself.
    outlook = forecast.forecast(plan, parallel_trials=spec.benchmark_template.spec.limits.parallel_trials).points
    estimated = dict.fromkeys(needed, 0.0)
    for trial in plan.trials:
        expected, key = outlook[trial.point], plan.points[trial.point].key
        if expected is None:
            raise CostError("how long a run takes is not known, set costs.expectedRun, such as 2m")
        estimated[key.pool] += expected.seconds.mean / (1 if key.node is None else needed[key.pool])
    return "Estimated", [_Life(pool, nodes, Decimal(f"{estimated[pool]:.0f}") + cold) for pool, nodes in needed.items()]


def _text(value: Decimal) -> str:
    return f"{price.rounded(value, digits=_PLACES).normalize():f}"
