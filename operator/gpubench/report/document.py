# SPDX-License-Identifier: Apache-2.0
"""What a report says, in which order: from the answer to how everything can be done again.

A report is a value: sections of paragraphs, lists, tables, charts and code. HTML and Markdown are made from it and from
nothing else, so that they cannot differ in what they say. Equal results give an equal document: nothing here reads a
clock. Must not happen: a figure that was computed here (they are all in the statuses), a section that silently lacks
what is unknown, or two benchmarks of one report by the same name.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Literal

from gpubench import records
from gpubench.analysis import answer, text
from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import Best, EnvironmentFacts, FullStatus
from gpubench.api.condition import Condition
from gpubench.api.goals import Goal, Objective
from gpubench.api.measuring import Mode
from gpubench.api.point_result import PointResult
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.report import charts, tables
from gpubench.report.charts import Bars, Chart, Curves, Entry, Missing, Work
from gpubench.report.tables import Column, Table
from gpubench.units import counted, duration_text, workers_text
from gpubench.values import FrozenModel, content_id
from gpubench.workloads import Precision

_PLAN_CHARACTERS = 16
_BENCHMARK_COLUMN = Column(title="BENCHMARK")
_COMMANDS = """\
gpubench plan study.yaml       # what would be run, in which order
gpubench run study.yaml        # on this machine, without a cluster
kubectl apply -f study.yaml    # on a cluster
gpubench verify FOLDER         # every figure again from the records of a results folder
"""


# --- values -----------------------------------------------------------------------------------------------------------


class Paragraph(FrozenModel):
    """Some sentences."""

    kind: Literal["paragraph"] = "paragraph"
    text: str
    title: str | None = None


class Listing(FrozenModel):
    """Sentences, one below the other."""

    kind: Literal["listing"] = "listing"
    items: tuple[str, ...]
    title: str | None = None


class TitledTable(FrozenModel):
    """A table with what it is about. With `row_headed` the first cell of a row says what the row is about."""

    kind: Literal["table"] = "table"
    title: str
    table: Table
    row_headed: bool = False


class Code(FrozenModel):
    """Text that a program reads, to be copied as it is."""

    kind: Literal["code"] = "code"
    title: str
    text: str


Block = Paragraph | Listing | TitledTable | Code | Missing | Curves | Bars


class Section(FrozenModel):
    """What belongs together."""

    name: str  # unique in the document
    title: str
    blocks: tuple[Block, ...]


class Document(FrozenModel):
    """A whole report."""

    title: str
    lead: str
    head: tuple[str, ...] = ()  # what a reader wants first, a sentence each
    sections: tuple[Section, ...]

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Everything that is drawn, in its order."""
        blocks = (block for section in self.sections for block in section.blocks)
        return tuple(block for block in blocks if isinstance(block, Curves | Bars))


class Reported(FrozenModel):
    """A benchmark and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    status: FullStatus
    spec: GpuBenchmarkSpec | None = None  # None where its file is not there, or cannot be read
    plan: Plan | None = None  # None while it has not begun
    environments: tuple[Environment, ...] = ()  # in full
    study_text: str | None = None  # the file, or the object as its user wrote it
    machine: str | None = None  # or the address of the cluster
    gpubench: str | None = None  # version that wrote the results
    remark: str | None = None  # what must be known of all its figures, such as that they were re-priced
    label: str = ""  # what it is called in its report

    @property
    def points(self) -> tuple[PointResult, ...]:
        """Its points."""
        return self.status.results


# --- the report -------------------------------------------------------------------------------------------------------


def of_studies(studies: Sequence[Reported]) -> Document:
    """The report of at least one benchmark."""
    named = _labelled(studies)
    alone = len(named) == 1

    def each(blocks: Callable[[Reported, str | None], Iterable[Block]]) -> tuple[Block, ...]:
        """The blocks of each benchmark, which are told its label where there are several."""
        return tuple(block for study in named for block in blocks(study, None if alone else study.label))

    commands = Code(title="On a machine, or on a cluster with gpubench's operator", text=_COMMANDS)
    sections = (
        ("answer", "Answer", (*_merged_answer(named), *each(_answer))),
        ("benchmarks", "Benchmark" if alone else "Benchmarks", _sources(named)),
        ("assumptions", "Assumptions", each(_assumptions)),
        ("results", "Results", _results(named)),
        ("interruptions", "Interruptions", each(_node_time)),
        ("charts", "Charts", _charts(named)),
        ("warnings", "Warnings", each(_warnings) or (Paragraph(text="None."),)),
        ("environment", "Environment", each(_environments)),
        ("prices", "Prices", each(_prices)),
        ("reproduce", "How to reproduce it", (*each(_reproduction), commands)),
    )
    points = [point for study in named for point in study.points]
    measured = sum(text.headline(point) is not None for point in points)
    pools = len({(study.label, point.pool) for study in named for point in study.points})
    return Document(
        title=f"{', '.join(study.label for study in named)}: GPU benchmark",
        lead=(
            f"{counted(len(named), 'benchmark')}, {counted(len(points), 'point')} on "
            f"{counted(pools, 'pool')}; {measured} of the points {'has' if measured == 1 else 'have'} figures."
        ),
        head=tuple(
            line if alone else f"{study.label}: {line}" for study in named for line in head(study.spec, study.status)
        ),
        # Without an interruption the bills say it all.
        sections=tuple(Section(name=name, title=title, blocks=blocks) for name, title, blocks in sections if blocks),
    )


def _labelled(studies: Sequence[Reported]) -> list[Reported]:
    """With what each is called beside the others: its name, with its place where another has the same name."""
    names = Counter(study.name for study in studies)
    found = [study.name if names[study.name] == 1 else f"{study.name} in {study.source}" for study in studies]
    again = Counter(found)
    labels = (label if again[label] == 1 else f"{label} ({number})" for number, label in enumerate(found, start=1))
    return [study.model_copy(update={"label": label}) for study, label in zip(studies, labels, strict=True)]


def _of(label: str | None) -> str:
    return "" if label is None else f" of {label}"


# --- head, answer, sources --------------------------------------------------------------------------------------------


def head(spec: GpuBenchmarkSpec | None, status: FullStatus) -> tuple[str, ...]:
    """What was to be decided, what to take, and what it cost, as far as known. `spec` is None where nobody kept it."""
    found = []
    asked = None if spec is None else spec.objective
    if spec is not None and asked is not None:
        goals = (goal for goal in spec.goals if goal.name == asked.goal)
        found += [f"Objective {goal.name}: {_objective(asked, goal, spec.currency)}." for goal in goals]
    if status.best is not None:
        found.append(f"To take: {_best(status.best)}.")
    elif asked is not None and status.answer is not None:
        found.append("To take: no single gang; the answer says why.")
    return (*found, *([text.spent(status.spent)] if status.spent is not None else []))


def _objective(asked: Objective, goal: Goal, currency: str | None) -> str:
    """`the least cost of 153,600,000 samples of resnet50, within 48 hours`."""
    limit = f", within {asked.max_hours:g} hours" if asked.max_hours is not None else ""
    limit = f", for at most {currency} {asked.max_cost}" if asked.max_cost is not None else limit
    return f"the least {asked.minimize.lower()} of {goal.samples:,} samples of {goal.workload}{limit}"


def _best(best: Best) -> str:
    """`2 workers at batch 64 on a100: 5.26 (5.24–5.28) hours, USD 10.53 (10.47–10.58)`, and what to know of it."""
    setting = f" at {best.setting}" if best.setting else ""
    cost = "at a price that is not known" if best.cost is None else text.money(best.cost)
    remarks = [
        *(["it was not measured, but is predicted"] if best.predicted else []),
        *([f"{counted(best.tied, 'other')} may be as good"] if best.tied else []),
        *([] if best.sure else ["whether it keeps the limit is not sure"]),
    ]
    remark = f"; {', and '.join(remarks)}" if remarks else ""
    hours = text.bounded(best.hours)
    return f"{workers_text(best.workers)}{setting} on {best.pool}, at least {hours} hours and {cost}{remark}"


def _answer(study: Reported, title: str | None) -> Iterator[Block]:
    status, comparison = study.status, study.status.comparison
    yield Paragraph(title=title, text=status.answer or answer.answer(study.points))
    if status.comparisons:
        yield Listing(items=tuple(f"{one.sentence}." for one in status.comparisons))
    if comparison is not None:
        verdict = f"{comparison.verdict.value}, compared with {comparison.baseline}: {comparison.sentence}."
        yield Paragraph(text=verdict)


def _merged_answer(studies: Sequence[Reported]) -> Iterator[Block]:
    """What the figures say of the work that several share: one benchmark over several clusters has parts in each."""
    works = [{charts.work(point) for point in study.points if point.throughput} for study in studies]
    shared: Container[Work] = {one for one, count in Counter(one for own in works for one in own).items() if count > 1}
    seen = Counter(pool for study in studies for pool in {point.pool for point in study.points})
    points = tuple(
        point if seen[point.pool] == 1 else point.model_copy(update={"pool": f"{point.pool} ({study.label})"})
        for study in studies
        for point in study.points
        if charts.work(point) in shared
    )
    keys = {facts.environment for study in studies for facts in study.status.environments}
    differ = f" They stand on {len(keys)} environments: what these differ in explains part of the differences."
    if points:
        together = f"{answer.answer(points)}{differ if len(keys) > 1 else ''}"
        yield Paragraph(title="All benchmarks together", text=together)


def _sources(studies: Sequence[Reported]) -> tuple[Block, ...]:
    columns = tables.columns(
        "BENCHMARK", "FROM", "STATUS", "POINTS", "TRIALS", "ATTEMPTS", "BEGAN", "ENDED",
        numeric=("POINTS", "TRIALS", "ATTEMPTS"),
    )  # fmt: skip
    rows = tuple(
        (
            study.name,
            study.source,
            study.status.phase or "not started",
            study.status.points_done or text.UNDEFINED,
            text.UNDEFINED
            if (counts := study.status.trials) is None
            else f"{counts.finished} of {text.trials(counts)}",
            text.UNDEFINED if study.status.attempts is None else str(study.status.attempts.started),
            study.status.start_time or text.UNDEFINED,
            study.status.completion_time or text.UNDEFINED,
        )
        for study in studies
    )
    table = TitledTable(title="Where the figures are from", table=Table(columns=columns, rows=rows))
    remarks = tuple(f"{study.label}: {study.remark}" for study in studies if study.remark is not None)
    return (table, Listing(items=remarks)) if remarks else (table,)


# --- assumptions ------------------------------------------------------------------------------------------------------


def _assumptions(study: Reported, title: str | None) -> Iterator[Block]:
    found = ["The benchmark has not begun: nothing is known of how it will be measured."]
    if study.plan is not None:
        found = _assumed(study.plan, study.points)
    yield Listing(title=title, items=tuple(found))


def _assumed(plan: Plan, points: Sequence[PointResult]) -> list[str]:
    of_data = {
        "Synthetic": "Synthetic samples lie on the device: reading data is not in the figures.",
        "Generated": "Generated data is small and made here: it can be learned, and says nothing of real data.",
        "Volume": "Data of a volume is read by the workers: how fast that is, is in the figures.",
    }
    found = ["Nothing of this benchmark was run: its figures were measured elsewhere, or come from other points."]
    if plan.trials:
        found = [_timing(plan), _repeats(plan)]
    if plan.imported is not None:
        found.append(f"Its measurements are those of {plan.imported.origin}: {plan.imported.source}.")
    sources = dict.fromkeys(point.data.value for point in points)
    found += [of_data[source] for source in sources if source in of_data]
    if any(point.precision == Precision.FLOAT32 for point in points):
        found.append("float32 is float32: TensorFloat-32 is switched off.")
    if any(point.cost for point in points):
        found.append(
            "Costs are marginal unless they say otherwise: the hourly price of the nodes over the speed. Start-up, "
            "billing steps, fees and idle time come on top."
        )
        exclusive = [pool.name for pool in plan.pools if pool.spec.exclusive_nodes and pool.spec.slots_per_node > 1]
        if exclusive:
            found.append(f"A node of {', '.join(exclusive)} is paid for as a whole, however many of its slots work.")
    return found


def _timing(plan: Plan) -> str:
    timing = plan.timing
    if plan.mode is Mode.TRAINING:
        return f"A trial trains whole epochs; its seconds are those of {text.timed_region(plan.timed_region)}."
    warm_up = f"for {duration_text(timing.warm_up)} that are left out, and then " if timing.warm_up else ""
    return (
        f"A trial trains {warm_up}for {duration_text(timing.duration)} that count, in windows of about "
        f"{timing.window:g} s, each as long as its slowest worker needs."
    )


def _repeats(plan: Plan) -> str:
    asked = plan.repeats
    if asked is not None and asked.until is not None:
        return (
            f"A point is measured afresh {asked.min} to {asked.most} times, until its figure is known to "
            f"± {text.share(asked.until.relative_half_width)} at {text.share(asked.until.confidence)} confidence."
        )
    counts = sorted({len(trials) for trials in plan.repeats_of_points() if trials})
    if not counts:
        return "No point is run."
    if counts == [1]:
        return "Each point is measured once."
    times = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Each point is measured afresh {times} times."


# --- results ----------------------------------------------------------------------------------------------------------


def _results(studies: Sequence[Reported]) -> tuple[Block, ...]:
    groups: dict[tuple[object, ...], list[Reported]] = {}
    for study in studies:
        if study.points:
            groups.setdefault(_kind(study), []).append(study)
    alone = len(studies) == 1
    found = tuple(block for group in groups.values() for block in _tables(group, alone=alone))
    return found or (Paragraph(text="There are no results yet."),)


def _kind(study: Reported) -> tuple[object, ...]:
    """What studies of one table have in common: those of throughput and of training would leave half of it empty.

    A study whose prices have moved has one of its own, for two of them may mean different pools by one name.
    """
    moved = study.label if any(one.low for one in study.status.prices) else None
    return any(point.training for point in study.points), any(point.bandwidth for point in study.points), moved


def _tables(studies: Sequence[Reported], *, alone: bool) -> Iterator[TitledTable]:
    """Points, goals, machines and bills, side by side; each row with its study where the report has several."""
    points = [point for study in studies for point in study.points]
    owned = [(study.label, point) for study in studies for point in study.points]

    def titled(title: str, table: Table, owners: Iterable[str]) -> TitledTable:
        if alone:
            return TitledTable(title=title, table=table)
        rows = tuple((owner, *row) for owner, row in zip(owners, table.rows, strict=True))
        title = f"{title} of {', '.join(study.label for study in studies)}"
        columns = (_BENCHMARK_COLUMN, *table.columns)
        return TitledTable(title=title, table=table.model_copy(update={"columns": columns, "rows": rows}))

    main = tables.results(points, [one for study in studies for one in study.status.prices])
    main = main.model_copy(update={"notes": tuple(tables.reading_notes(points))})
    yield titled("Points", main, (owner for owner, _ in owned))
    if any(point.goals for point in points):
        yield titled("Goals", tables.goals(points), (owner for owner, point in owned for _ in point.goals))
    if any(point.gpu or point.host for point in points):
        owners = (owner for owner, point in owned if point.gpu or point.host)
        yield titled("Machines", tables.machines(points), owners)
    if (bills := tables.bills(points)) is not None:
        totals = (total for study in studies for total in text.billed(study.points, study.status.prices))
        bills = bills.model_copy(update={"notes": (*totals, *bills.notes)})
        yield titled("Bills", bills, (owner for owner, point in owned if point.bill is not None))


def _node_time(study: Reported, label: str | None) -> Iterator[Block]:
    lines = text.interruptions(study.status)
    if study.status.goodput is not None and lines:
        yield TitledTable(title=f"Pools{_of(label)}", table=tables.node_time(study.status.goodput.pools))
        yield Listing(items=lines)


def _charts(studies: Sequence[Reported]) -> tuple[Block, ...]:
    entries = [
        Entry(point=point, study=study.label if len(studies) > 1 else "", plan=study.plan)
        for study in studies
        for point in study.points
    ]
    return (
        *charts.throughput(entries),
        *charts.efficiency(entries),
        *charts.frontier(entries),
        *charts.costs(entries),
        *charts.gains(entries),
        *charts.waterfall(entries),
    )


# --- what a reader must know ------------------------------------------------------------------------------------------


def _warnings(study: Reported, title: str | None) -> Iterator[Block]:
    found = (
        *(f"{condition.type}: {condition.message}" for condition in study.status.conditions if _alarms(condition)),
        *(line.removeprefix("Warning: ") for line in tables.warnings(study.points)),
        *tables.reasons(study.points),
    )
    if found:
        yield Listing(title=title, items=found)


def _alarms(condition: Condition) -> bool:
    """Whether a condition is bad news."""
    bad_when_false = condition.type in ("Succeeded", "ComparisonPassed")
    bad_when_true = condition.type in ("GangPending", "Suspended", "BudgetExhausted", "PriceStale")
    return (bad_when_false and condition.status == "False") or (bad_when_true and condition.status == "True")


def _environments(study: Reported, label: str | None) -> Iterator[Block]:
    records = {record.key(): record for record in study.environments}
    if not study.status.environments:
        yield Paragraph(title=label, text="What the figures stand on was not recorded.")
    for one in study.status.environments:
        points = sum(point.environment == one.environment for point in study.points)
        title = f"Environment {one.environment}{_of(label)}, {counted(points, 'point')}"
        yield _facts(title, _environment_facts(one, records.get(one.environment)).items())


def _environment_facts(one: EnvironmentFacts, record: Environment | None) -> dict[str, str]:
    """What is compared first, then what was recorded beside it."""
    provenance = {} if record is None else records.environment_facts(record, fields=Environment.PROVENANCE)
    return {**text.environment_facts(one), **provenance} or {"record": "was not read"}


def _facts(title: str, facts: Iterable[tuple[str, str]]) -> TitledTable:
    table = Table(columns=tables.columns("FACT", "VALUE"), rows=tuple(facts))
    return TitledTable(title=title, table=table, row_headed=True)


def _prices(study: Reported, label: str | None) -> Iterator[Block]:
    plan = study.plan
    if plan is None:
        yield Paragraph(title=label, text="The benchmark has not begun: its pools have not been looked at.")
        return
    title = "Prices, as they were when the benchmark was planned" + (f": {label}" if label else "")
    yield TitledTable(title=title, table=tables.prices(plan))
    if plan.currency is not None and plan.exchange_rates:
        rates = tuple(
            f"1 {rate.from_currency} is {plan.currency} {rate.rate} as of {rate.as_of}"
            f"{f', {rate.source}' if rate.source else ''}."
            for rate in plan.exchange_rates
        )
        yield Listing(title="Exchange rates", items=rates)


# --- how to reproduce -------------------------------------------------------------------------------------------------


def _reproduction(study: Reported, label: str | None) -> Iterator[Block]:
    yield _facts(f"Versions and digests{_of(label)}", _provenance(study))
    if study.study_text is None:
        yield Paragraph(text="There is no copy of the study file.")
    else:
        yield Code(title=f"study.yaml{_of(label)}", text=study.study_text)


def _provenance(study: Reported) -> Iterator[tuple[str, str]]:
    plan = study.plan
    found: list[tuple[str, str | None]] = [
        ("results from", study.source),
        ("machine or cluster", study.machine),
        ("written by gpubench", study.gpubench),
    ]
    if plan is not None:
        found += [
            ("planned at", plan.planned_at),
            ("seed of the order", str(plan.seed)),
            ("plan", content_id(plan.to_json(), characters=_PLAN_CHARACTERS)),
            ("study file, SHA-256", plan.study_digest),
            *((f"image on {pool}", image) for pool, image in plan.images),
        ]
    digests = dict.fromkeys(facts.image_digest for facts in study.status.environments)
    found += [("image that ran", digest) for digest in digests]
    return ((name, value) for name, value in found if value)
