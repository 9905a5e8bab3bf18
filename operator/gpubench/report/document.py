# SPDX-License-Identifier: Apache-2.0
"""What a report says, in which order: from the answer to how everything can be done again.

A report is a value, from which HTML and Markdown are made: they cannot differ in what they say. Equal results give an
equal document. Must not happen: a figure that was computed here (they are all in the analyses), a section that silently
lacks what is unknown, or two benchmarks of one report by the same name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal

from gpubench import records, workloads
from gpubench.analysis import answer, text
from gpubench.api import benchmark, benchmark_status, measuring, point_result
from gpubench.api.goals import Goal, Objective
from gpubench.plan.plan import Plan
from gpubench.plan.pool_prices import Repriced
from gpubench.report import charts, tables
from gpubench.report.charts import Chart, Entry
from gpubench.scheduler.ledger import Ledger
from gpubench.units import counted, duration_text
from gpubench.values import FrozenModel, content_id

_PLAN_CHARACTERS = 16
_COMMANDS = """\
gpubench plan study.yaml       # what would be run, in which order
gpubench run study.yaml        # on this machine, without a cluster
kubectl apply -f study.yaml    # on a cluster
gpubench verify FOLDER         # every figure again from the records of a results folder
"""
_OF_DATA = {
    "Synthetic": "Synthetic samples lie on the device: reading data is not in the figures.",
    "Generated": "Generated data is small and made here: it can be learned, and says nothing of real data.",
    "Volume": "Data of a volume is read by the workers: how fast that is, is in the figures.",
}


# --- values -----------------------------------------------------------------------------------------------------------


class Paragraph(FrozenModel):
    """Some sentences, and lines below them."""

    kind: Literal["paragraph"] = "paragraph"
    title: str | None = None
    text: str = ""
    items: tuple[str, ...] = ()


class Code(FrozenModel):
    """Text that a program reads, to be copied as it is."""

    kind: Literal["code"] = "code"
    title: str
    text: str


Block = Paragraph | tables.Table | Code | Chart


class Section(FrozenModel):
    """What belongs together."""

    name: str  # unique in the document
    title: str
    blocks: tuple[Block, ...]


class Document(FrozenModel):
    """A whole report."""

    title: str
    lead: str
    head: tuple[str, ...] = ()  # what a reader wants first, a line each
    sections: tuple[Section, ...]


class Reported(FrozenModel):
    """A benchmark and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    status: benchmark_status.FullStatus
    spec: benchmark.GpuBenchmarkSpec | None = None  # None where its file is not there, or cannot be read
    plan: Plan | None = None  # None while it has not begun
    ledger: Ledger = Ledger()
    study_text: str | None = None  # the file, or the object as its user wrote it
    machine: str | None = None  # or the address of the cluster
    gpubench: str | None = None  # version that wrote the results
    repriced: Repriced | None = None
    label: str = ""  # what it is called in its report

    @property
    def points(self) -> tuple[point_result.PointResult, ...]:
        return self.status.results


# --- the report -------------------------------------------------------------------------------------------------------


def of_benchmarks(benchmarks: Sequence[Reported]) -> Document:
    """The report of at least one benchmark."""
    named = _labelled(benchmarks)
    alone = len(named) == 1

    def each(blocks: Callable[[Reported, str | None], Iterable[Block]]) -> tuple[Block, ...]:
        """The blocks of each benchmark, with its label where there are several."""
        return tuple(block for one in named for block in blocks(one, None if alone else one.label))

    remarks = [f"{one.label}: {one.repriced.sentence}" for one in named if one.repriced is not None]
    sources = tables.table(named, _SOURCE_FIELDS, remarks, title="Where the figures are from")
    commands = Code(title="On a machine, or on a cluster with gpubench's operator", text=_COMMANDS)
    sections = (
        ("answer", "Answer", each(_answer)),
        ("benchmarks", "Benchmark" if alone else "Benchmarks", (sources,)),
        ("assumptions", "Assumptions", each(_assumptions)),
        ("results", "Results", _results(named)),
        ("interruptions", "Interruptions", each(_interruptions)),
        ("charts", "Charts", _charts(named)),
        ("warnings", "Warnings", each(_warnings) or (Paragraph(text="None."),)),
        ("environment", "Environment", each(_environments)),
        ("prices", "Prices", each(_prices)),
        ("reproduce", "How to reproduce it", (*each(_reproduction), commands)),
    )
    points = [point for one in named for point in one.points]
    measured = sum(text.headline(point) is not None for point in points)
    pools = len({(one.label, point.pool) for one in named for point in one.points})
    return Document(
        title=f"{', '.join(one.label for one in named)}: GPU benchmark",
        lead=(
            f"{counted(len(named), 'benchmark')}, {counted(len(points), 'point')} on "
            f"{counted(pools, 'pool')}; {measured} of the points {'has' if measured == 1 else 'have'} figures."
        ),
        head=tuple(line if alone else f"{one.label}: {line}" for one in named for line in head(one.spec, one.status)),
        sections=tuple(Section(name=name, title=title, blocks=blocks) for name, title, blocks in sections if blocks),
    )


def _labelled(benchmarks: Sequence[Reported]) -> list[Reported]:
    """With what each is called beside the others: its name, with its place where another has the same name."""
    names = Counter(one.name for one in benchmarks)
    found = [one.name if names[one.name] == 1 else f"{one.name} in {one.source}" for one in benchmarks]
    again = Counter(found)
    labels = (label if again[label] == 1 else f"{label} ({number})" for number, label in enumerate(found, start=1))
    return [one.model_copy(update={"label": label}) for one, label in zip(benchmarks, labels, strict=True)]


def _of(label: str | None) -> str:
    return "" if label is None else f" of {label}"


# --- head, answer, sources --------------------------------------------------------------------------------------------


def head(spec: benchmark.GpuBenchmarkSpec | None, status: benchmark_status.FullStatus) -> tuple[str, ...]:
    """What was to be decided, and what it cost, as far as known. `spec` is None where nobody kept it."""
    found = []
    asked = None if spec is None else spec.objective
    if spec is not None and asked is not None:
        goals = (goal for goal in spec.goals if goal.name == asked.goal)
        found += [f"Objective {goal.name}: {_objective(asked, goal, spec.currency)}." for goal in goals]
    return (*found, *([text.spent(status.spent)] if status.spent is not None else []))


def _objective(asked: Objective, goal: Goal, currency: str | None) -> str:
    """`the least cost of 153,600,000 samples of resnet50, within 48 hours`."""
    limit = f", within {asked.max_hours:g} hours" if asked.max_hours is not None else ""
    limit = f", for at most {currency} {asked.max_cost}" if asked.max_cost is not None else limit
    return f"the least {asked.minimize.lower()} of {goal.samples:,} samples of {goal.workload}{limit}"


def _answer(one: Reported, title: str | None) -> Iterator[Block]:
    status, comparison = one.status, one.status.comparison
    lines = [f"{found.sentence}." for found in status.comparisons]
    if comparison is not None:
        lines.append(f"{comparison.verdict.value}, compared with {comparison.baseline}: {comparison.sentence}.")
    yield Paragraph(title=title, text=status.answer or answer.answer(one.points), items=tuple(lines))


_SourceField = tables.Field[Reported]
_SOURCE_FIELDS: tuple[_SourceField, ...] = (
    _SourceField("BENCHMARK", lambda one: one.name, numeric=False),
    _SourceField("FROM", lambda one: one.source, numeric=False),
    _SourceField("STATUS", lambda one: one.status.phase or "not started", numeric=False),
    _SourceField("POINTS", lambda one: one.status.points_done or text.UNDEFINED),
    _SourceField(
        "TRIALS",
        lambda one: f"{counts.finished} of {text.trials(counts)}" if (counts := one.status.trials) else text.UNDEFINED,
    ),
    _SourceField("ATTEMPTS", lambda one: text.optional(one.status.attempts and one.status.attempts.started)),
    _SourceField("BEGAN", lambda one: one.status.start_time or text.UNDEFINED, numeric=False),
    _SourceField("ENDED", lambda one: one.status.completion_time or text.UNDEFINED, numeric=False),
)


# --- assumptions ------------------------------------------------------------------------------------------------------


def _assumptions(one: Reported, title: str | None) -> Iterator[Block]:
    plan, points = one.plan, one.points
    if plan is None:
        nothing = "The benchmark has not begun: nothing is known of how it will be measured."
        yield Paragraph(title=title, items=(nothing,))
        return
    found = ["Nothing of this benchmark was run: its figures were measured elsewhere, or come from other points."]
    if plan.trials:
        found = [_timing(plan), _repeats(plan)]
    if plan.imported is not None:
        found.append(f"Its measurements are those of {plan.imported.origin}: {plan.imported.source}.")
    found += [_OF_DATA[one] for one in dict.fromkeys(point.data.value for point in points) if one in _OF_DATA]
    if any(point.precision == workloads.Precision.FLOAT32 for point in points):
        found.append("float32 is float32: TensorFloat-32 is switched off.")
    if any(point.cost for point in points):
        found.append(
            "Costs are marginal unless they say otherwise: the hourly price of the nodes over the speed. Start-up, "
            "billing steps, fees and idle time come on top."
        )
        exclusive = [pool.name for pool in plan.pools if pool.spec.exclusive_nodes and pool.spec.slots_per_node > 1]
        if exclusive:
            found.append(f"A node of {', '.join(exclusive)} is paid for as a whole, however many of its slots work.")
    yield Paragraph(title=title, items=tuple(found))


def _timing(plan: Plan) -> str:
    timing = plan.timing
    if plan.mode is measuring.Mode.TRAINING:
        return f"A trial trains whole epochs; its seconds are those of {text.timed_region(plan.timed_region)}."
    warm_up = f"for {duration_text(timing.warm_up)} that are left out, and then " if timing.warm_up else ""
    return (
        f"A trial trains {warm_up}for {duration_text(timing.duration)} that count, in windows of about "
        f"{timing.window:g} s, each as long as its slowest worker needs."
    )


def _repeats(plan: Plan) -> str:
    asked = plan.repeats
    if asked is not None and (until := asked.until) is not None:
        known = f"± {text.share(until.relative_half_width)} at {text.share(until.confidence)} confidence"
        return f"A point is measured afresh {asked.min} to {asked.most} times, until its figure is known to {known}."
    counts = [len(trials) for trials in plan.repeats_of_points() if trials]
    if max(counts) == 1:
        return "Each point is measured once."
    times = f"{min(counts)} to {max(counts)}" if len(set(counts)) > 1 else f"{counts[0]}"
    return f"Each point is measured afresh {times} times."


# --- results ----------------------------------------------------------------------------------------------------------


def _results(benchmarks: Sequence[Reported]) -> tuple[Block, ...]:
    """Tables, of benchmarks whose figures are of one kind: throughput beside training would leave half of it empty.

    A benchmark whose prices have moved has a table of its own, for two of them may mean different pools by one name.
    """
    groups: dict[tuple[object, ...], list[Reported]] = {}
    for one in benchmarks:
        moved = one.label if any(price.low for price in one.status.prices) else None
        kind = any(point.training for point in one.points), any(point.bandwidth for point in one.points), moved
        if one.points:
            groups.setdefault(kind, []).append(one)
    found = tuple(block for group in groups.values() for block in _tables(group, alone=len(benchmarks) == 1))
    return found or (Paragraph(text="There are no results yet."),)


def _tables(benchmarks: Sequence[Reported], *, alone: bool) -> Iterator[tables.Table]:
    owned = [(one.label, point) for one in benchmarks for point in one.points]
    points = [point for _, point in owned]

    def titled(title: str, table: tables.Table, owners: Iterable[str]) -> tables.Table:
        if alone:
            return table.model_copy(update={"title": title})
        rows = tuple((owner, *row) for owner, row in zip(owners, table.rows, strict=True))
        title = f"{title} of {', '.join(one.label for one in benchmarks)}"
        columns = (*tables.words("BENCHMARK"), *table.columns)
        return table.model_copy(update={"title": title, "columns": columns, "rows": rows})

    main = tables.results(points, [price for one in benchmarks for price in one.status.prices])
    main = main.model_copy(update={"notes": tuple(tables.reading_notes(points))})
    yield titled("Points", main, (owner for owner, _ in owned))
    if any(point.goals for point in points):
        yield titled("Goals", tables.goals(points), (owner for owner, point in owned for _ in point.goals))
    if any(point.gpu or point.host for point in points):
        owners = (owner for owner, point in owned if point.gpu or point.host)
        yield titled("Machines", tables.machines(points), owners)
    if (bills := tables.bills(points)) is not None:
        totals = (total for one in benchmarks for total in text.billed(one.points, one.status.prices))
        bills = bills.model_copy(update={"notes": (*totals, *bills.notes)})
        yield titled("Bills", bills, (owner for owner, point in owned if point.bill is not None))


def _interruptions(one: Reported, title: str | None) -> Iterator[Block]:
    if lines := text.interruptions(one.status):  # without one the bills say it all
        yield Paragraph(title=title, items=lines)


def _charts(benchmarks: Sequence[Reported]) -> tuple[Block, ...]:
    entries = [
        Entry(point=point, benchmark=one.label if len(benchmarks) > 1 else "", plan=one.plan, spent=one.status.spent)
        for one in benchmarks
        for point in one.points
    ]
    return tuple(chart for draw in charts.ALL for chart in draw(entries))


# --- what a reader must know ------------------------------------------------------------------------------------------


#: Conditions that a reader is told of, where they have this status.
_BAD = {
    **dict.fromkeys(("Succeeded", "ComparisonPassed"), "False"),
    **dict.fromkeys(("GangPending", "Suspended", "BudgetExhausted", "PriceStale"), "True"),
}


def _warnings(one: Reported, title: str | None) -> Iterator[Block]:
    found = (
        *(f"{found.type}: {found.message}" for found in one.status.conditions if _BAD.get(found.type) == found.status),
        *(line.removeprefix("Warning: ") for line in tables.warnings(one.points)),
        *tables.reasons(one.points),
    )
    if found:
        yield Paragraph(title=title, items=found)


def _environments(one: Reported, label: str | None) -> Iterator[Block]:
    """What is compared first, then what was recorded beside it."""
    provenance = {
        key: records.environment_facts(record, fields=records.Environment.PROVENANCE)
        for key, record in one.ledger.environment_by_key.items()
    }
    if not one.status.environments:
        yield Paragraph(title=label, text="What the figures stand on was not recorded.")
    for found in one.status.environments:
        points = sum(point.environment == found.environment for point in one.points)
        title = f"Environment {found.environment}{_of(label)}, {counted(points, 'point')}"
        facts = {**text.environment_facts(found), **provenance.get(found.environment, {})}
        yield _facts(title, (facts or {"record": "was not read"}).items())


def _facts(title: str, facts: Iterable[tuple[str, str]]) -> tables.Table:
    return tables.Table(title=title, columns=tables.words("FACT", "VALUE"), rows=tuple(facts), row_headed=True)


def _prices(one: Reported, label: str | None) -> Iterator[Block]:
    if (plan := one.plan) is None:
        yield Paragraph(title=label, text="The benchmark has not begun: its pools have not been looked at.")
        return
    priced = {price.pool: f"{text.price(price)}." for price in one.status.prices}
    found = (priced.get(pool.name, f"{pool.name} has no price in the benchmark's currency.") for pool in plan.pools)
    yield Paragraph(title=label, text="Prices, as they were when the benchmark was planned.", items=tuple(found))


# --- how to reproduce -------------------------------------------------------------------------------------------------


def _reproduction(one: Reported, label: str | None) -> Iterator[Block]:
    plan = one.plan
    facts: list[tuple[str, str | None]] = [
        ("results from", one.source),
        ("machine or cluster", one.machine),
        ("written by gpubench", one.gpubench),
    ]
    if plan is not None:
        facts += [
            ("planned at", plan.planned_at),
            ("seed of the order", str(plan.seed)),
            ("plan", content_id(plan.to_json(), characters=_PLAN_CHARACTERS)),
            ("benchmark file, SHA-256", plan.study_digest),
            *((f"image on {pool}", image) for pool, image in plan.images),
        ]
    digests = dict.fromkeys(found.image_digest for found in one.status.environments)
    facts += [("image that ran", digest) for digest in digests]
    yield _facts(f"Versions and digests{_of(label)}", ((name, value) for name, value in facts if value))
    if one.study_text is None:
        yield Paragraph(text="There is no copy of the benchmark's file.")
    else:
        yield Code(title=f"study.yaml{_of(label)}", text=one.study_text)
