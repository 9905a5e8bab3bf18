# SPDX-License-Identifier: Apache-2.0
"""What a report says, in which order: from the answer to how everything can be done again.

A report is a value, from which HTML and Markdown are made: they cannot differ in what they say. Equal results give an
equal document. Must not happen: a figure that was computed here (they are all in the analyses), a section that silently
lacks what is unknown, or two benchmarks of one report by the same name.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
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
from gpubench.units import counted, duration_text, workers_text
from gpubench.values import FrozenModel, content_id

_PLAN_CHARACTERS = 16
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


#: Sections for whoever wants to know more.
_FOLDED = {"without", "missing", "notes", "environment", "reproduce"}
_WARNINGS_SHOWN = 6  # more of them are folded

Block = Paragraph | tables.Table | Code | Chart


class Section(FrozenModel):
    """What belongs together."""

    name: str  # unique in the document
    title: str
    blocks: tuple[Block, ...]
    folded: bool = False  # a page shows only its title until it is opened


class Document(FrozenModel):
    """A whole report."""

    title: str
    lead: str
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

    def lines(said: Callable[[Reported], Iterable[str]]) -> tuple[Paragraph, ...]:
        """The lines of each benchmark that has some."""
        texts = ((None if alone else one.label, tuple(said(one))) for one in named)
        return tuple(Paragraph(title=title, items=items) for title, items in texts if items)

    entries = [
        Entry(point=point, benchmark="" if alone else one.label, spent=one.status.spent)
        for one in named
        for point in one.points
    ]
    drawn = {draw: tuple(draw(entries)) for draw in charts.NEEDS}
    lacking = tuple(needs for draw, needs in charts.NEEDS.items() if not drawn[draw])
    found = [pair for group in _alike(named) for pair in _tables(group, alone=alone)]
    notes = tuple(dict.fromkeys(note for _, table in found for note in table.notes))

    def tables_of(section: str) -> tuple[Block, ...]:
        return tuple(_condensed(table) for name, table in found if name == section)

    warnings = lines(_warnings)
    count = sum(len(block.items) for block in warnings)
    folded = _FOLDED | ({"warnings"} if count > _WARNINGS_SHOWN else set())
    measured = sum(text.headline(entry.point) is not None for entry in entries)
    sections = (
        ("answer", "Answer", (*lines(_question), *_answers(named, alone=alone), *drawn[charts.frontier])),
        ("ranking", "Ranking", tables_of("ranking")),
        ("scaling", "Scaling", (*drawn[charts.throughput], *drawn[charts.efficiency])),
        (
            "costs",
            "Costs",
            (
                *drawn[charts.costs],
                *drawn[charts.waterfall],
                *lines(lambda one: (f"{pool.sentence}." for pool in one.status.comparisons)),
                *tables_of("costs"),
            ),
        ),
        ("machines", "Machines", (*tables_of("machines"), *lines(lambda one: text.interruptions(one.status)))),
        ("warnings", f"Warnings ({count})", warnings),
        ("without", f"Points without figures ({len(entries) - measured})", tables_of("without")),
        ("missing", "Charts without figures", (Paragraph(items=lacking),) if lacking else ()),
        ("assumptions", "Assumptions", lines(_assumptions)),
        ("notes", "How to read the tables", (Paragraph(items=notes),) if notes else ()),
        ("environment", "Environment", each(_environments)),
        ("reproduce", "How to reproduce it", each(_reproduction)),
    )
    pools = len({(one.label, point.pool) for one in named for point in one.points})
    return Document(
        title=f"{', '.join(one.label for one in named)}: GPU benchmark",
        lead=(
            f"{counted(len(named), 'benchmark')}, {counted(len(entries), 'point')} on "
            f"{counted(pools, 'pool')}; {measured} of the points {'has' if measured == 1 else 'have'} figures."
        ),
        sections=tuple(
            Section(name=name, title=title, blocks=blocks, folded=name in folded)
            for name, title, blocks in sections
            if blocks
        ),
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


# --- answer -----------------------------------------------------------------------------------------------------------


def _question(one: Reported) -> Iterator[str]:
    """What was asked, what is to be taken for it, and what must be known before any figure."""
    status, asked = one.status, None if one.spec is None else one.spec.objective
    if one.repriced is not None:
        yield one.repriced.sentence
    if one.plan is not None and (origin := one.plan.imported) is not None:
        yield f"Its measurements are those of {origin.origin}: {origin.source}."
    if one.spec is not None and asked is not None:
        goals = (goal for goal in one.spec.goals if goal.name == asked.goal)
        yield from (f"Objective {goal.name}: {_objective(asked, goal, one.spec.currency)}." for goal in goals)
        yield from [status.answer.partition("\n")[0]] if status.best is None and status.answer else []
    if (best := status.best) is not None:
        setting = f" at {best.setting}" if best.setting else ""
        figures = ", ".join(filter(None, (best.shown.time, best.shown.cost)))
        yield f"Best for it: {best.shown.pool}, {workers_text(best.workers)}{setting}: {figures}."
    if (comparison := status.comparison) is not None:
        yield f"{comparison.verdict.value}, compared with {comparison.baseline}: {comparison.sentence}."


def _answers(benchmarks: Sequence[Reported], *, alone: bool) -> tuple[Block, ...]:
    rows = [
        ("" if alone else one.label, found)
        for one in benchmarks
        for found in answer.by_work(one.points)
        if found.fastest is not None
    ]
    table = tables.table(rows, _ANSWER_FIELDS, title="The fastest and the cheapest for each workload")
    return (table,) if rows else (Paragraph(text="There are no results yet."),)


_AnswerField = tables.Field[tuple[str, answer.WorkAnswer]]
_ANSWER_FIELDS: tuple[_AnswerField, ...] = (
    _AnswerField("BENCHMARK", lambda row: row[0], numeric=False, default=""),
    _AnswerField("WORKLOAD", lambda row: row[1].work, numeric=False),
    _AnswerField("FASTEST", lambda row: row[1].fastest.message if row[1].fastest else text.UNDEFINED, numeric=False),
    _AnswerField(
        "CHEAPEST",
        lambda row: row[1].cheapest.message if row[1].cheapest else text.optional(row[1].no_cost),
        numeric=False,
    ),
    _AnswerField("HOW SURE", lambda row: " ".join(_how_sure(row[1])) or text.UNDEFINED, numeric=False),
)


def _how_sure(found: answer.WorkAnswer) -> Iterator[str]:
    if found.certainty is not None:
        yield found.certainty
    if found.missing:
        yield f"Of {counted(found.points, 'point')}: {', '.join(found.missing)}."


def _objective(asked: Objective, goal: Goal, currency: str | None) -> str:
    """`the least cost of 153,600,000 samples of resnet50, within 48 hours`."""
    limit = f", within {asked.max_hours:g} hours" if asked.max_hours is not None else ""
    limit = f", for at most {currency} {asked.max_cost}" if asked.max_cost is not None else limit
    return f"the least {asked.minimize.lower()} of {goal.samples:,} samples of {goal.workload}{limit}"


# --- assumptions ------------------------------------------------------------------------------------------------------


def _assumptions(one: Reported) -> list[str]:  # how it was measured, at which prices, and what was spent
    if (plan := one.plan) is None:
        return ["The benchmark has not begun: nothing is known of how it will be measured."]
    timing, found = plan.timing, []
    if not plan.trials:
        found.append("Nothing of it was run: its figures were measured elsewhere, or come from other points.")
    elif plan.mode is measuring.Mode.THROUGHPUT:
        found.append(
            f"A trial trains for {duration_text(timing.duration)} in windows of about {timing.window:g} s, after a "
            f"warm-up of {duration_text(timing.warm_up)}. A window is as long as its slowest worker needs."
        )
    found += [_OF_DATA[one] for one in dict.fromkeys(point.data.value for point in one.points) if one in _OF_DATA]
    if any(point.precision == workloads.Precision.FLOAT32 for point in one.points):
        found.append("float32 is float32: TensorFloat-32 is switched off.")
    if any(point.cost for point in one.points):
        found.append(
            "Costs are marginal unless they say otherwise: the hourly price of the nodes over the speed. Start-up, "
            "billing steps, fees and idle time come on top."
        )
    priced = {price.pool: f"{text.price(price)}." for price in one.status.prices}
    found += [priced.get(pool.name, f"{pool.name} has no price in the benchmark's currency.") for pool in plan.pools]
    return [*found, *([] if one.status.spent is None else [text.spent(one.status.spent)])]


# --- results ----------------------------------------------------------------------------------------------------------


def _alike(benchmarks: Sequence[Reported]) -> Iterable[list[Reported]]:
    """Benchmarks whose figures are of one kind: throughput beside training would leave half of a table empty.

    A benchmark whose prices have moved has tables of its own, for two of them may mean different pools by one name.
    """
    groups: dict[tuple[object, ...], list[Reported]] = {}
    for one in benchmarks:
        moved = one.label if any(price.low for price in one.status.prices) else None
        kind = any(point.training for point in one.points), any(point.bandwidth for point in one.points), moved
        groups.setdefault(kind, []).append(one)
    return groups.values()


def _tables(benchmarks: Sequence[Reported], *, alone: bool) -> Iterator[tuple[str, tables.Table]]:
    """Tables, each with its section; points of the same work follow each other, the cheapest first."""
    every = [(one.label, point) for one in benchmarks for point in one.points]
    works = list(dict.fromkeys(answer.work(point) for _, point in every))
    owned = sorted(
        (pair for pair in every if text.headline(pair[1])),
        key=lambda pair: (works.index(answer.work(pair[1])), *_rank(pair[1])),
    )
    without, points = [pair for pair in every if pair not in owned], [point for _, point in owned]

    def titled(section: str, title: str, table: tables.Table, owners: Iterable[str]) -> tuple[str, tables.Table]:
        if alone:
            return section, table.model_copy(update={"title": title})
        rows = tuple((owner, *row) for owner, row in zip(owners, table.rows, strict=True))
        title = f"{title}: {', '.join(one.label for one in benchmarks)}"
        columns = (*tables.words("BENCHMARK"), *table.columns)
        return section, table.model_copy(update={"title": title, "columns": columns, "rows": rows})

    if points:
        main = tables.results(points, [price for one in benchmarks for price in one.status.prices])
        main = main.model_copy(update={"notes": tuple(tables.reading_notes(points))})
        yield titled("ranking", "The cheapest first, without a cost the fastest", main, (owner for owner, _ in owned))
    if without:
        table = tables.results([point for _, point in without])
        rows = tuple((*row, text.optional(point.reason)) for row, (_, point) in zip(table.rows, without, strict=True))
        table = table.model_copy(update={"columns": (*table.columns, *tables.words("REASON")), "rows": rows})
        yield titled("without", "What became of them", table, (owner for owner, _ in without))
    if any(point.goals for point in points):
        owners = (owner for owner, point in owned for _ in point.goals)
        yield titled("costs", "Goals", tables.goals(points), owners)
    if (bills := tables.bills([point for _, point in every])) is not None:
        totals = (total for one in benchmarks for total in text.billed(one.points, one.status.prices))
        bills = bills.model_copy(update={"notes": (*totals, *bills.notes)})
        yield titled("costs", "Bills", bills, (owner for owner, point in every if point.bill is not None))
    if any(point.gpu or point.host for point in points):
        owners = (owner for owner, point in owned if point.gpu or point.host)
        yield titled("machines", "While the points were measured", tables.machines(points), owners)


def _condensed(table: tables.Table) -> tables.Table:
    """What is the same in every row is one line below the table."""
    common, rest = tables.without_constants(table)
    return rest.model_copy(update={"notes": (f"In all rows: {common}.",) if common else ()})


def _rank(point: point_result.PointResult) -> tuple[bool, bool, str, Decimal, float]:
    """Smaller is better: the cost, without one the speed. Points that never settled come last."""
    cost = point.cost and (point.cost.per_run or point.cost.per_million_samples)
    seconds = point.training and point.training.seconds
    speed = point.bandwidth.bus if point.bandwidth else point.throughput
    slowness = seconds.mean if seconds else -speed.mean if speed else 0.0
    amount = Decimal(cost.mean) if cost else Decimal(0)
    settled = point.state is point_result.PointState.MEASURED
    return not settled, cost is None, cost.currency if cost else "", amount, slowness


# --- what a reader must know ------------------------------------------------------------------------------------------


#: Conditions that a reader is told of, where they have this status.
_BAD = {
    **dict.fromkeys(("Succeeded", "ComparisonPassed"), "False"),
    **dict.fromkeys(("GangPending", "Suspended", "BudgetExhausted", "PriceStale"), "True"),
}


def _warnings(one: Reported) -> tuple[str, ...]:
    return (
        *(f"{found.type}: {found.message}" for found in one.status.conditions if _BAD.get(found.type) == found.status),
        *(line.removeprefix("Warning: ") for line in tables.warnings(one.points)),
        *tables.reasons([point for point in one.points if text.headline(point)]),
    )


def _environments(one: Reported, label: str | None) -> Iterator[Block]:  # what is compared first
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


# --- how to reproduce -------------------------------------------------------------------------------------------------


def _reproduction(one: Reported, label: str | None) -> Iterator[Block]:
    plan, status = one.plan, one.status
    facts: list[tuple[str, str | None]] = [
        ("results from", one.source),
        ("status", status.phase or "not started"),
        ("points that have ended", status.points_done),
        (
            "trials that have finished",
            f"{status.trials.finished} of {text.trials(status.trials)}" if status.trials else None,
        ),
        ("attempts", str(status.attempts.started) if status.attempts else None),
        ("began", status.start_time),
        ("ended", status.completion_time),
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
    digests = dict.fromkeys(found.image_digest for found in status.environments)
    facts += [("image that ran", digest) for digest in digests]
    yield _facts(f"Where the figures{_of(label)} are from", ((name, value) for name, value in facts if value))
    if one.study_text is None:
        yield Paragraph(text="There is no copy of the benchmark's file.")
    else:
        yield Code(title=f"study.yaml{_of(label)}, for `gpubench run` and `kubectl apply -f`", text=one.study_text)
