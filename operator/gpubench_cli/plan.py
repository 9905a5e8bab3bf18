# SPDX-License-Identifier: Apache-2.0
"""`gpubench plan FILE.yaml`: what would be run, in which order, for how long and how much. Runs nothing.

Of a schedule: what one run would be, when the next ones are due, and what a month costs: what the operator projects
before the first run; afterwards `status.monthly` goes by what runs took. `--history` names benchmarks that have run, to
estimate one that has not. And `gpubench validate FILE...`: what an API server would refuse, with its line.
"""

import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import click

from gpubench import names
from gpubench.analysis import costs, forecast, pairs, text
from gpubench.api.point_result import PointResult
from gpubench.api.pool import GpuPool
from gpubench.api.price_result import PriceUsed
from gpubench.api.schedule import GpuBenchmarkScheduleSpec, Monthly
from gpubench.cost import price
from gpubench.plan import expand, overlap, pool_prices
from gpubench.plan.plan import Plan, Point, Trial
from gpubench.report import tables
from gpubench.schedule import cron
from gpubench.schedule import history as runs_kept
from gpubench.scheduler import step
from gpubench.stats import intervals
from gpubench.units import counted, duration_text, listed, rfc3339, workers_text
from gpubench_cli import cluster, documents, options, results, terminal
from gpubench_cli.documents import Benchmark, Schedule, StudyFile
from gpubench_cli.run import adapt
from gpubench_cluster import kube

# --- schedules --------------------------------------------------------------------------------------------------------


_RUNS_SHOWN = 5


def next_runs(table: cron.Timetable, now: float) -> tuple[int, ...]:
    found: list[int] = []
    while len(found) < _RUNS_SHOWN:
        found.append(table.after(found[-1] if found else now))
    return tuple(found)


def schedule_messages(spec: GpuBenchmarkScheduleSpec, table: cron.Timetable, due: Sequence[int]) -> list[str]:
    zone = ZoneInfo(table.time_zone)
    listed = ", ".join(datetime.fromtimestamp(at, zone).isoformat(timespec="minutes") for at in due)
    found = [f"Next runs, {spec.schedule} in time zone {table.time_zone}: {listed}."]
    return [*found, "Suspended: no run starts until spec.suspend is false."] if spec.suspend else found


def _show_month(month: Monthly) -> None:
    total = f"{month.shown}: " if month.total is not None else ""
    terminal.say(f"A month of {month.hours} hours: {total}{month.sentence}.")
    if month.total is None:
        return
    terminal.write("")
    what = (*(line.name for line in month.lines), "total", "its nodes, if they were never given back")
    paid = text.amounts([*(line.amount for line in month.lines), month.total, month.always_on])
    columns = (*tables.words("PAID FOR"), *tables.numbers(f"{month.currency}/MONTH"))
    terminal.print_table(tables.Table(columns=columns, rows=tuple(zip(what, paid, strict=True))))


# --- gpubench validate ------------------------------------------------------------------------------------------------


@click.command("validate")
@options.file_argument("files", metavar="FILE.yaml...", about="what is to be applied", nargs=-1, required=True)
def validate(files: tuple[Path, ...]) -> None:
    """Check files as an API server with gpubench's CRDs would at `kubectl apply`, and say where each problem is.

    Of a schedule also what the operator would say of its cron expression and time zone. No cluster is asked.
    """
    problems: list[str] = []
    for path in files:
        try:
            found = documents.read(path)
            named = [
                *(f"GpuPool {one.name}" for one in found.pools),
                *(f"GpuBenchmark {one.name}" for one in found.benchmarks),
                *(f"GpuBenchmarkSchedule {one.name}" for one in found.schedules),
                *(f"ConfigMap {one.name}" for one in found.config_maps),
            ]
            terminal.say(f"{path}: valid: {', '.join(named)}")
            rates = (rate for one in found.benchmarks for rate in one.spec.exchange_rates)
            for odd in pool_prices.days_to_come(found.pools, rates, today=datetime.now(UTC).date()):
                terminal.tell(f"{path}: {odd}")
        except terminal.CliError as error:
            problems += error.args
    if problems:
        raise terminal.CliError(*problems)


# --- gpubench plan ----------------------------------------------------------------------------------------------------


_MONEY_PLACES = 4
_DOCUMENTS = ("json", "yaml")


#: How a point of a plan came about stands beside its trials.
_KEY_FIELDS = (
    *(field for field in tables.KEY_FIELDS if field.title != "BASIS"),
    tables.Field[PointResult]("EPOCHS", lambda point: text.optional(point.epochs), default=text.UNDEFINED),
)


def _keys(plan: Plan) -> tables.Table:
    return tables.table([pairs.blank(plan, point) for point in plan.points], _KEY_FIELDS)


@click.command("plan")
@options.study
@options.pools
@click.option("--name", help="the benchmark or schedule, where the file has several")
@click.option(
    "--history",
    multiple=True,
    metavar="NAME",
    help="a results folder, or a GpuBenchmark of the cluster, whose attempts tell how long equal ones take; may be "
    "given several times",
)
@options.cluster
@options.scale
@options.pool
@options.output("table", "wide", "json", "yaml")
@click.option("--summary", is_flag=True, help="what it takes in total, without the tables of points and trials")
def plan(
    *,
    study: Path,
    pools: Path | None,
    name: str | None,
    history: tuple[str, ...],
    namespace: str | None,
    scale: float | None,
    pool: str | None,
    output: str,
    summary: bool,
) -> None:
    """Show points and trials in their order, with estimated time and cost, and what is skipped and why.

    Of a schedule also when the next runs are due, and what a month costs. Pools that are in none of the files are read
    from the current cluster.
    """
    if summary and output != "table":
        raise terminal.CliError(f"--summary is text for people: leave it out, or -o {output}")
    output = "summary" if summary else output
    study_file = documents.read(study)
    given = documents.given_pools(study_file, None if pools is None else documents.read(pools))
    earlier = tuple(_earlier(one, namespace=namespace) for one in history)
    if (schedule := study_file.schedule(name)) is not None:
        only = {"--scale": scale, "--pool": pool}
        if unfit := [option for option, value in only.items() if value is not None]:
            raise terminal.CliError(f"{unfit[0]} is for {names.BENCHMARK_KIND}s: {schedule.name} is a schedule")
        _plan_schedule(study_file, schedule, given, earlier, output=output)
        return
    adapted = adapt(study_file, study_file.benchmark(name), given, scale=scale, pool=pool)
    if output == "yaml" and adapted.text is not None:
        terminal.write(adapted.text)
        return
    benchmark = adapted.benchmark
    known = _with_missing(study_file, benchmark, adapted.pools)
    found = expand.freeze(benchmark.spec, known, rfc3339(time.time()))
    _refuse(benchmark, found)
    if output in _DOCUMENTS:
        terminal.write_document(found.to_wire(), output=output)
    else:
        _show(benchmark, found, earlier, output)
        if adapted.sentence is not None:
            terminal.say(f"{adapted.sentence}.")


def _earlier(name: str, *, namespace: str | None) -> forecast.Earlier:
    return results.located(
        name,
        namespace=namespace,
        in_folder=lambda path: forecast.Earlier(results.read_plan(path), results.read_ledger(path)),
        in_cluster=lambda place, found: forecast.Earlier(*results.plan_and_ledger(place, place.benchmark(found))),
    )


def _plan_schedule(
    study_file: StudyFile,
    schedule: Schedule,
    given: tuple[GpuPool, ...],
    earlier: Sequence[forecast.Earlier],
    *,
    output: str,
) -> None:
    now = time.time()
    table = cron.timetable(schedule.spec.schedule, time_zone=schedule.spec.time_zone)
    due = next_runs(table, now)
    benchmark = schedule.run(names.run_name(schedule.name, due[0]))
    pools = _with_missing(study_file, benchmark, given)
    found = expand.freeze(benchmark.spec, pools, rfc3339(now), runs_kept.nodes_assumed(pools))
    _refuse(benchmark, found)
    month = runs_kept.projected(schedule.spec, pools, (), planned_at=rfc3339(now))
    if output in _DOCUMENTS:
        terminal.write_document(
            {
                "schedule": schedule.name,
                "timeZone": schedule.spec.time_zone or "UTC",
                "nextRuns": [rfc3339(at) for at in due],
                "monthly": month and month.to_wire(),
                "plan": found.to_wire(),
            },
            output=output,
        )
        return
    _show(benchmark, found, earlier, output)
    for message in schedule_messages(schedule.spec, table, due):
        terminal.say(message)
    if month is not None:
        _show_month(month)


def _refuse(benchmark: Benchmark, plan: Plan) -> None:
    if (problem := step.unpriced(plan, benchmark.spec.limits.budget)) is not None:
        raise terminal.CliError(f"{benchmark.at('limits', 'budget')}: {problem.message}")
    if (problem := overlap.refusal(plan)) is not None:
        raise terminal.CliError(f"{benchmark.at('sweep')}: {problem.message}")


def _show(benchmark: Benchmark, plan: Plan, earlier: Sequence[forecast.Earlier], form: str) -> None:
    parallel = benchmark.spec.limits.parallel_trials
    expected = forecast.forecast(plan, parallel_trials=parallel, earlier=earlier)
    terminal.say(f"{benchmark.name}: {_count(plan)}")
    if form != "summary":
        terminal.write("")
        terminal.print_tables((_point_table(plan, expected), _trial_table(plan)), wide=form == "wide")
    terminal.write("")
    for message in messages(plan, expected, parallel=parallel, budget=benchmark.spec.limits.budget):
        terminal.say(message)


def _with_missing(study_file: StudyFile, benchmark: Benchmark, pools: tuple[GpuPool, ...]) -> tuple[GpuPool, ...]:
    if not (missing := expand.missing_pools(benchmark.spec, pools)):
        return pools
    try:
        with cluster.connect() as place:
            there = place.pools()
    except (terminal.CliError, kube.ApiError) as error:
        raise terminal.CliError(
            f"{study_file.path}: {counted(len(missing), 'pool')} not in the files, nor read from a cluster: "
            f"GpuPool {listed(missing)}: {error}"
        ) from error
    return (*pools, *(pool for pool in there if pool.name in missing))


def _count(plan: Plan) -> str:
    """`144 points: 90 to run, 54 measured by other pools; 270 trials`."""
    skipped = sum(point.skip is not None for point in plan.points)
    running = sum(point.runs for point in plan.points)
    points = counted(len(plan.points), "point")
    trials = f"{_trials(plan, plan.trials)} trial{'' if len(plan.trials) == 1 else 's'}"
    if running == len(plan.points):
        return f"{points}, {trials}"
    others = {"measured by other pools": len(plan.points) - skipped - running, "skipped": skipped}
    parts = (f"{running} to run", *(f"{count} {what}" for what, count in others.items() if count))
    return f"{points}: {', '.join(parts)}; {trials}"


def _trials(plan: Plan, trials: Sequence[Trial]) -> str:
    """`12`, or `6 to 20` where repeats end once the figure is precise enough."""
    certain = sum(map(plan.is_certain, trials))
    return str(len(trials)) if certain == len(trials) else f"{certain} to {len(trials)}"


def _point_table(plan: Plan, expected: forecast.Forecast) -> tables.Table:
    keys, priced = _keys(plan), _rates(plan)
    figures = tables.numbers("NODES", "PRICE/H", "TIME/TRIAL", "COST/TRIAL")
    return tables.Table(
        columns=(*keys.columns, *figures, *tables.words("FROM"), *tables.numbers("TRIALS")),
        rows=tuple(
            (
                *key,
                text.UNDEFINED if point.skip else str(point.nodes),
                priced.get(point.key.pool, text.UNDEFINED),
                *_outlook(outlook),
                _what_becomes(plan, point, trials=trials),
            )
            for point, key, outlook, trials in zip(
                plan.points, keys.rows, expected.points, plan.repeats_of_points(), strict=True
            )
        ),
    )


def _outlook(outlook: forecast.Outlook | None) -> tuple[str, str, str]:
    if outlook is None:
        return (text.UNDEFINED,) * 3
    seconds, cost = outlook.seconds, outlook.cost
    time = f"{duration_text(seconds.mean)} ({duration_text(seconds.low)}–{duration_text(seconds.high)})"
    if cost is None:
        return time, text.UNDEFINED, seconds.basis
    shown = cost.each(_money)
    return time, f"{cost.currency} {shown.mean} ({shown.low}–{shown.high})", seconds.basis


def _money(amount: Decimal) -> str:
    return text.number(amount, places=_MONEY_PLACES)


def _trial_table(plan: Plan) -> tables.Table:
    keys = _keys(plan)
    return tables.Table(
        columns=(*tables.numbers("#"), *tables.words("TRIAL"), *keys.columns, *tables.numbers("REPEAT")),
        rows=tuple(
            (str(number), trial.id, *keys.rows[trial.point], str(trial.repeat + 1))
            for number, trial in enumerate(plan.trials, start=1)
        ),
    )


def _what_becomes(plan: Plan, point: Point, *, trials: Sequence[Trial]) -> str:
    """The number of trials, or why there are none: the measured point that stands for this one."""
    if point.skip is not None:
        return "skipped"
    if (source := expand.source_of(plan, point)) is None:
        return _trials(plan, trials)
    key = plan.points[source].key
    workers = f" at {key.workers}" if key.workers != point.key.workers else ""
    return f"{point.basis.value.lower()} from {key.pool}{workers}"


def messages(plan: Plan, expected: forecast.Forecast, *, parallel: int, budget: str | None = None) -> list[str]:
    """What the tables cannot say: time, nodes, money, and what is skipped."""
    found = []
    if plan.trials:
        found.append(f"Order: repeat by repeat, each in an order of its own, shuffled with seed {plan.seed}.")
        if plan.repeats is not None and (until := plan.repeats.until) is not None:
            found.append(
                f"Repeats: {plan.repeats.min} of each point, and up to {plan.repeats.most} until its figure is known "
                f"to ±{text.share(until.relative_half_width)} at {text.share(until.confidence)} confidence."
            )
        found += _precision(plan)
        needed = dict(sorted(forecast.nodes_needed(plan).items()))
        nodes = ", ".join(f"{count} of {pool}" for pool, count in needed.items())
        found += [_time(expected, parallel=parallel), f"Nodes: {nodes}."]
        found += [_price(one) for one in costs.prices_used(plan) if one.pool in needed]
        found += [
            f"Cost: about {cost.currency} {shown.mean} ({shown.low} to {shown.high}) for the nodes while trials run, "
            "as the pools' prices bill them."
            for cost in expected.cost
            for shown in [cost.each(_money)]
        ]
        bases = Counter((one.seconds.basis, one.seconds.sentence) for one in expected.points if one is not None)
        found += [
            f"Estimated from {basis} ({counted(count, 'point')}): {message}."
            for (basis, message), count in bases.items()
        ]
        found += _budget(expected, budget)
    idle = dict.fromkeys(
        f"{workers_text(point.key.workers)} on {point.key.pool} of {paid} "
        f"{'GPUs' if plan.pool(point.key.pool).spec.has_gpus else 'slots'}"
        for point in plan.points
        if point.runs and (paid := plan.slots_paid(point))
    )
    found += [
        f"Paid for and not used: nodes are paid for as a whole, and there are {text.shortened(list(idle))}."
    ] * bool(idle)
    used = {point.key.pool for point in plan.points if point.skip is None}
    prices = [*expected.unpriced]
    for pool in (pool for pool in plan.pools if pool.name in used):
        prices += [*pool_prices.odd_dates(plan, pool.name), *filter(None, [pool_prices.without_counterpart(pool)])]
    found += [f"Warning: {message}." for message in dict.fromkeys(prices)]
    skipped = (("Skipped: ", pairs.blank(plan, point), f": {point.skip}.") for point in plan.points if point.skip)
    return [*found, *tables.once(skipped)]


def _precision(plan: Plan) -> list[str]:  # how well the figures of GPU pools will probably be known
    gangs = [
        (point.key.workers, len(runs))
        for point, runs in zip(plan.points, plan.repeats_of_points(), strict=True)
        if point.runs and plan.pool(point.key.pool).spec.has_gpus
    ]
    if not gangs:
        return []
    fewest = min(runs for _, runs in gangs) if plan.repeats is None else plan.repeats.min
    if fewest < intervals.REPEATS_FOR_INTERVAL:
        return [f"Precision: unknown: an interval needs {intervals.REPEATS_FOR_INTERVAL} runs of a point."]
    known = next(one for one in intervals.PUBLISHED if max(gangs)[0] <= one.accelerators)
    middle, most = (f"{100 * intervals.half_width(one, fewest):.1g} %" for one in (known.median, known.high))
    like = "if they scatter as those of MLPerf Training's entries of that size do"
    return [f"Precision: {fewest} runs probably know a throughput to ±{middle}, nine times in ten to ±{most}, {like}."]


def _time(expected: forecast.Forecast, *, parallel: int) -> str:
    together = "one after the other" if parallel == 1 else f"up to {parallel} at a time"
    if expected.seconds is None:
        return f"Time and cost: known when the epochs were trained; trials {together}."
    shown = expected.seconds.each(duration_text)
    return (
        f"Time: about {shown.mean} ({shown.low} to {shown.high}), trials {together}; waiting for nodes, image pulls "
        "and retries come on top."
    )


def _budget(expected: forecast.Forecast, budget: str | None) -> list[str]:
    if budget is None or len(expected.cost) != 1:
        return []
    cost, limit = expected.cost[0], Decimal(budget)
    high = cost.mean if cost.high is None else cost.high
    verdict = "enough, as far as can be told" if high + expected.reserve <= limit else "may not be enough"
    if cost.low is not None and cost.low > limit:
        verdict = "not enough: the benchmark will stop before its end"
    return [f"Budget: {cost.currency} {budget}: {verdict}."]


def _rates(plan: Plan) -> dict[str, str]:  # the price of a node-hour by pool
    found = {pool.name: pool_prices.planned_rate(plan, pool.name) for pool in plan.pools}
    rates = {name: rate for name, rate in found.items() if rate is not None}
    shown = text.amounts([price.rounded(rate.per_node_hour, digits=_MONEY_PLACES) for rate in rates.values()])
    return {name: f"{rates[name].currency} {amount}" for name, amount in zip(rates, shown, strict=True)}


def _price(one: PriceUsed) -> str:
    costs_of = [Decimal(one.per_node_hour) * hours for hours in (24, 730)]
    day, month = (text.number(cost, places=2) if cost >= 1 else text.amount(cost) for cost in costs_of)
    return f"{text.price(one)}; {day} a day, {month} a month of 730 hours."
