# SPDX-License-Identifier: Apache-2.0
"""What is kept of the runs of a schedule; what became slower in them, which nodes are slow, what a month costs.

An entry outlives its benchmark; the oldest go. Entries have the form of the attempt ledger: text under a key of its own
(the name of the run), so that writing one twice changes nothing. Where they are stored is not known here.
"""

import itertools
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Literal, NamedTuple

from pydantic import ValidationError

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
from gpubench.stats import changepoint, compare, intervals, steady_state
from gpubench.units import counted, duration_seconds, duration_text, rfc3339
from gpubench.values import FrozenModel, Interval, content_id

#: Of a schedule's history: entries, ConfigMaps, and bytes of one of these (etcd refuses objects over 1.5 MiB).
RUNS_MAX = 1000
SHARDS_MAX = 4
SHARD_BYTES_MAX = 512 * 1024

NODES_MAX = 16  # of a point that are named; a gang on more is not told apart by them
#: The newest runs that are analyzed: what was a year ago is history, and each look must stay cheap.
RUNS_ANALYZED = 200
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
    digests = {facts.environment: facts.image_digest for facts in side.environments}
    found = []
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
        try:
            entry = Entry.from_text(line)
        except (ValidationError, ValueError):
            continue
        found[entry.name] = entry
    return tuple(sorted(found.values(), key=lambda entry: (entry.scheduled_at, entry.name)))


class Change(FrozenModel):
    """What one shard of a history becomes: None drops an entry."""

    shard: int
    entries: dict[str, str | None]


def placed(shards: Mapping[int, Mapping[str, str]], entry: Entry) -> tuple[Change, ...]:
    """The writes that add an entry to shards as they are stored; none where it is there.

    It goes into the first shard with room. Where none has any, or the runs are too many, the oldest go.
    """
    if any(entry.name in shard for shard in shards.values()):
        return ()
    text = entry.to_text()
    left = {number: dict(shards.get(number, {})) for number in range(SHARDS_MAX)}
    changes: dict[int, dict[str, str | None]] = defaultdict(dict)

    def has_room(shard: Mapping[str, str]) -> bool:
        size = sum(len(one.encode()) for pair in (*shard.items(), (entry.name, text)) for one in pair)
        return not shard or size <= SHARD_BYTES_MAX

    def age(place: tuple[int, str]) -> tuple[int, str]:
        """Runs in the order of their scheduled minutes, which are the end of their names."""
        minute = place[1].rpartition("-")[2]
        return (int(minute) if minute.isdigit() else 0, place[1])

    while not any(map(has_room, left.values())) or sum(map(len, left.values())) >= RUNS_MAX:
        number, name = min(((number, name) for number, shard in left.items() for name in shard), key=age)
        del left[number][name]
        changes[number][name] = None
    home = next(number for number, shard in left.items() if has_room(shard))
    changes[home][entry.name] = text
    return tuple(Change(shard=number, entries=entries) for number, entries in sorted(changes.items()))


# --- regressions ------------------------------------------------------------------------------------------------------
#
# Each point is a series of its own over the runs. It is divided into levels (`stats.changepoint`), and the last level
# is compared with the fastest one before it: what was once reached for a while is what the machine can do. It is a
# regression when it is slower by more than the tolerance. A slowdown that has gone again is none, and one that went
# half way still is. With several points each has its part of the error, so that a schedule raises no more false alarms
# than a single series would. Must not happen: a verdict across environments. Only runs of the newest run's own
# environment, instance type and image are compared. That these have changed is reported beside it: a new driver often
# makes the difference, and whether it did nobody can tell from here.


class Measured(NamedTuple):
    """A run's figure of one point."""

    run: Entry
    figure: Figure


def series(entries: Sequence[Entry]) -> dict[str, tuple[Measured, ...]]:
    """The newest runs of each point, oldest first; only those that settled."""
    found: dict[str, list[Measured]] = defaultdict(list)
    for entry in entries:
        for figure in entry.figures:
            if figure.settled:
                found[figure.point].append(Measured(entry, figure))
    return {point: tuple(measured[-RUNS_ANALYZED:]) for point, measured in found.items()}


def regressions(entries: Sequence[Entry], *, tolerance: float) -> tuple[api.Regression, ...]:
    """The points that are slower now than they were, the worst first; none that the newest run does not have."""
    current = _current(entries)
    found = (_regression(one, tolerance=tolerance, alpha=changepoint.ALPHA / len(current)) for one in current)
    return tuple(sorted(filter(None, found), key=lambda one: one.speed.mean))


def judged(entries: Sequence[Entry]) -> int:
    """Of how many points a regression could have been seen: they have enough runs of one environment."""
    return sum(len(measured) >= changepoint.SERIES_MIN for measured in _current(entries))


def key_changes(entries: Sequence[Entry]) -> tuple[api.KeyChange, ...]:
    """When the environment of the figures has changed, newest first: `driver 550 -> 560`."""
    found: dict[tuple[str, str], api.KeyChange] = {}
    for measured in series(entries).values():
        for before, after in itertools.pairwise(measured):
            if before.figure.environment_key != after.figure.environment_key:
                sentence = conditions.clamped(_difference(before, after), api.REGRESSION_SENTENCE_MAX)
                change = api.KeyChange(since=rfc3339(after.run.scheduled_at), run=after.run.name, sentence=sentence)
                found.setdefault((change.run, sentence), change)
    return tuple(sorted(found.values(), key=lambda one: (one.since, one.run), reverse=True)[: api.KEY_CHANGES_MAX])


def _current(entries: Sequence[Entry]) -> list[tuple[Measured, ...]]:
    """The runs of the newest run's points, in their newest environment: a changed template has left others behind."""
    newest = next((entry for entry in reversed(entries) if any(figure.settled for figure in entry.figures)), None)
    here = set() if newest is None else {figure.point for figure in newest.figures}
    return [
        tuple(one for one in measured if one.figure.environment_key == measured[-1].figure.environment_key)
        for point, measured in series(entries).items()
        if point in here
    ]


def _regression(measured: Sequence[Measured], *, tolerance: float, alpha: float) -> api.Regression | None:
    levels = changepoint.levels([one.figure.speed for one in measured], alpha=alpha)
    reference = max(levels[:-1], key=lambda level: level.mean, default=None)
    if reference is None or levels[-1].mean >= (bound := reference.mean * (1 - tolerance)):
        return None
    *_, first = itertools.takewhile(lambda level: level.mean < bound, reversed(levels))  # it fell below for good there
    since, before = measured[first.begin :], measured[reference.begin : reference.end]
    ratio = compare.speed_ratio(*(intervals.of_values([one.figure.speed for one in part]) for part in (since, before)))
    speed = Interval(mean=ratio.mean, low=ratio.low, high=ratio.high)
    nodes = tuple(sorted({node for one in since for node in one.figure.nodes}))
    figure, run = measured[-1].figure, since[0].run
    sentence = (
        f"{figure.text} has {bounded(speed)} times the speed of before since {rfc3339(run.scheduled_at)} ({run.name}): "
        f"{len(since)} runs against {len(before)}"
    )
    if nodes:
        sentence += f", on {text.shortened(nodes, most=api.NODES_NAMED_MAX)}"
    return api.Regression(
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

    def shown(value: object) -> str:
        return "none" if value is None else str(value)

    return ", ".join(f"{field} {shown(was)} -> {shown(now)}" for field, was, now in changes)


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
    groups: dict[object, list[Figure]] = defaultdict(list)
    for figure in newest:
        if figure.node is not None and figure.settled:
            groups[figure.group, figure.environment_key].append(figure)
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
        terms = pool_prices.planned_terms(plan, pool)
        if terms is None:
            raise CostError(f"GpuPool {pool} is not there, or has neither price nor ownership")
        # The part of its nodes that is paid for, of the point that pays for the most.
        points = (point for point in plan.points if point.runs and point.key.pool == pool)
        share = max(pool_prices.paid_share(plan, point) for point in points)
        bill = billing.attempt_bill(terms, node_seconds=[seconds] * count, share=share)
        nodes += [(f"{pool}: {line.name}", line.amount.times(runs)) for line in bill.lines]
        always_on += billing.cost_of_hours(terms.rate, nodes=1, hours=Decimal(known.hours)).times(count).value
    if not nodes:
        raise CostError("the benchmark runs on no pool, give its GpuPools a price")
    currency = spec.costs.currency or nodes[0][1].currency
    fees = [(fee, Amount(value=Decimal(fee.amount) * Decimal(fee.count), currency=currency)) for fee in spec.costs.fees]
    of_runs = [(fee.name, paid.times(runs)) for fee, paid in fees if fee.per is api.FeePer.RUN]
    fixed = [(fee.name, paid) for fee, paid in fees if fee.per is api.FeePer.MONTH]
    lines = [*nodes, *of_runs, *fixed]
    total = price.total([paid for _, paid in lines])
    compute, by_run, by_month = (sum((paid.value for _, paid in of), Decimal(0)) for of in (nodes, of_runs, fixed))
    one_run = (compute + by_run) / runs if runs else None
    where = " and ".join(
        f"{counted(one.nodes, 'node')} of {one.pool} for {duration_text(float(one.seconds))}" for one in lives
    )
    sentence = f"{known.runs} runs in {known.hours} hours, each holding {where}, {_BASES[basis]}"
    if max(total.value, one_run or Decimal(0), always_on) >= _AMOUNT_END:
        raise CostError(f"it would be {_AMOUNT_END:,} {total.currency} or more, check prices and rates")
    return known.model_copy(
        update={
            "basis": basis,
            "currency": total.currency,
            "compute": _text(compute),
            "per_run": None if one_run is None else _text(one_run),
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
    measured: dict[str, list[Held]] = defaultdict(list)
    for held in itertools.chain.from_iterable(entry.held for entry in succeeded[-RUNS_AVERAGED:]):
        measured[held.pool].append(held)
    if measured:
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
