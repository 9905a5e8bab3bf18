# SPDX-License-Identifier: Apache-2.0
"""What a report says, in which order: from the answer to how everything can be done again.

Equal studies give an equal document: nothing here reads a clock.

Must not happen: a figure that was computed here (they all stand in the statuses), or a section that silently lacks what
could not be told.
"""

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from decimal import Decimal

from gpubench import records
from gpubench.api.benchmark_status import EnvironmentFacts
from gpubench.api.condition import Condition
from gpubench.api.measuring import Mode
from gpubench.api.point_result import PointResult
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.report import answer, bills, grounds, head, node_time, pricing, reported, tables, text
from gpubench.report.charts import owning, paying, scaling, spending
from gpubench.report.charts import points as charted
from gpubench.report.charts.points import Entry, Work
from gpubench.report.document import Block, Code, Document, Listing, Paragraph, Section, TitledTable
from gpubench.report.reported import Reported
from gpubench.report.tables import Column, Table
from gpubench.units import duration_text
from gpubench.values import content_id
from gpubench.workloads import Precision

_STUDY_COLUMN = Column(title="STUDY")
_FACT_COLUMNS = (Column(title="FACT"), Column(title="VALUE"))
_PLAN_CHARACTERS = 16


class _Named(Reported):
    """A study with what it is called in this report."""

    label: str

    @property
    def points(self) -> tuple[PointResult, ...]:
        """Its points."""
        return self.status.results


def document(studies: Sequence[Reported]) -> Document:
    """The report of at least one study."""
    labels = reported.labels(studies)
    named = [
        _Named(**{field: getattr(study, field) for field in Reported.model_fields}, label=label)
        for study, label in zip(studies, labels, strict=True)
    ]
    return Document(
        title=f"{', '.join(labels)}: GPU benchmark",
        lead=_lead(named),
        head=_head(named),
        sections=(
            Section(name="answer", title="Answer", blocks=_answers(named)),
            Section(name="studies", title="Studies" if len(named) > 1 else "Study", blocks=_studies(named)),
            Section(name="assumptions", title="Assumptions", blocks=_assumptions(named)),
            Section(name="results", title="Results", blocks=_results(named)),
            *_node_time(named),
            Section(name="charts", title="Charts", blocks=_charts(named)),
            Section(name="warnings", title="Warnings", blocks=_warnings(named)),
            Section(name="environment", title="Environment", blocks=_environments(named)),
            Section(name="prices", title="Prices", blocks=_prices(named)),
            Section(name="reproduce", title="How to reproduce it", blocks=_reproduction(named)),
        ),
    )


def _lead(studies: Sequence[_Named]) -> str:
    points = [point for study in studies for point in study.points]
    told = sum(tables.headline(point) is not None for point in points)
    pools = len({(study.label, point.pool) for study in studies for point in study.points})
    return (
        f"{_counted(len(studies), 'study', 'studies')}, {_counted(len(points), 'point')} on {_counted(pools, 'pool')}; "
        f"{told} of the points {'has' if told == 1 else 'have'} figures."
    )


def _head(studies: Sequence[_Named]) -> tuple[str, ...]:
    return tuple(
        sentence if len(studies) == 1 else f"{study.label}: {sentence}"
        for study in studies
        for sentence in head.sentences(study.spec, study.status)
    )


# --- answer and studies -----------------------------------------------------------------------------------------------


def _answers(studies: Sequence[_Named]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    shared = _shared(studies)
    if shared:
        blocks.append(Paragraph(title="All studies together", text=_merged_answer(studies, shared)))
    for study in studies:
        title = study.label if len(studies) > 1 else None
        blocks.append(Paragraph(title=title, text=study.status.answer or answer.answer(study.points)))
        if study.status.comparisons:
            blocks.append(Listing(items=tuple(f"{one.sentence}." for one in study.status.comparisons)))
        comparison = study.status.comparison
        if comparison is not None:
            text = f"{comparison.verdict.value}, compared with {comparison.baseline}: {comparison.sentence}."
            blocks.append(Paragraph(text=text))
    return tuple(blocks)


def _shared(studies: Sequence[_Named]) -> frozenset[Work]:
    """The work that several studies have figures of."""
    counts = Counter(
        one for study in studies for one in {charted.work(point) for point in study.points if point.throughput}
    )
    return frozenset(one for one, count in counts.items() if count > 1)


def _merged_answer(studies: Sequence[_Named], shared: Container[Work]) -> str:
    """What the figures of all studies say of the work that they share: one over several clusters has parts in each."""
    seen = [pool for study in studies for pool in dict.fromkeys(point.pool for point in study.points)]
    points = [
        point if seen.count(point.pool) == 1 else point.model_copy(update={"pool": f"{point.pool} ({study.label})"})
        for study in studies
        for point in study.points
        if charted.work(point) in shared
    ]
    stands_on = {facts.environment for study in studies for facts in study.status.environments}
    differ = (
        f" They stand on {len(stands_on)} environments: what these differ in explains part of the differences."
        if len(stands_on) > 1
        else ""
    )
    return f"{answer.answer(tuple(points))}{differ}"


def _studies(studies: Sequence[_Named]) -> tuple[Block, ...]:
    columns = (
        _STUDY_COLUMN,
        Column(title="FROM"),
        Column(title="STATUS"),
        Column(title="POINTS", numeric=True),
        Column(title="TRIALS", numeric=True),
        Column(title="ATTEMPTS", numeric=True),
        Column(title="BEGAN"),
        Column(title="ENDED"),
    )
    rows = tuple(
        (
            study.name,
            study.source,
            study.status.phase or "not started",
            study.status.points_done or text.UNDEFINED,
            _trials(study),
            text.UNDEFINED if study.status.attempts is None else str(study.status.attempts.started),
            study.status.started_at or text.UNDEFINED,
            study.status.finished_at or text.UNDEFINED,
        )
        for study in studies
    )
    remarks = tuple(f"{study.label}: {study.remark}" for study in studies if study.remark is not None)
    return (
        TitledTable(caption="Where the figures are from", table=Table(columns=columns, rows=rows)),
        *([Listing(items=remarks)] if remarks else []),
    )


def _trials(study: _Named) -> str:
    counts = study.status.trials
    return text.UNDEFINED if counts is None else f"{counts.finished} of {text.trials(counts)}"


# --- assumptions ------------------------------------------------------------------------------------------------------

MARGINAL_NOTE = (
    "Costs are marginal unless they say otherwise: the hourly price of the nodes over the speed. Start-up, billing "
    "steps, fees and idle time come on top."
)
_NO_PLAN = "The study has not begun: nothing is known of how it will be measured."
_NOT_RUN = "Nothing of this study was run: what figures it has were measured elsewhere, or come from other points."


def _assumptions(studies: Sequence[_Named]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for study in studies:
        found = (_NO_PLAN,) if study.plan is None else _assumed(study.plan, study.points)
        blocks.append(Listing(title=study.label if len(studies) > 1 else None, items=found))
    return tuple(blocks)


def _assumed(plan: Plan, points: Sequence[PointResult]) -> tuple[str, ...]:
    found = [_timing(plan), _repeats(plan)] if plan.trials else [_NOT_RUN]
    if plan.imported is not None:
        found.append(f"Its measurements are those of {plan.imported.origin}: {plan.imported.source}.")
    found += [*_data_notes(points), *_precision_notes(points)]
    if any(point.cost for point in points):
        found.append(MARGINAL_NOTE)
        exclusive = [pool.name for pool in plan.pools if pool.spec.exclusive_nodes and pool.spec.slots_per_node > 1]
        if exclusive:
            found.append(f"A node of {', '.join(exclusive)} is paid for as a whole, however many of its slots work.")
    return tuple(found)


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
            f"± {_percent(asked.until.relative_half_width)} at {_percent(asked.until.confidence)} confidence."
        )
    counts = sorted({len(trials) for trials in plan.repeats_of_points() if trials})
    if not counts:
        return "No point is run."
    if counts == [1]:
        return "Each point is measured once."
    told = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Each point is measured afresh {told} times."


def _percent(share: str) -> str:
    return f"{(Decimal(share) * 100).normalize():f} %"


def _data_notes(points: Sequence[PointResult]) -> list[str]:
    notes = {
        "Synthetic": "Synthetic samples lie on the device: reading data is not in the figures.",
        "Generated": "Generated data is small and made here: it can be learned, and says nothing of real data.",
        "Volume": "Data of a volume is read by the workers: how fast that is, is in the figures.",
    }
    return [notes[source] for source in dict.fromkeys(point.data.value for point in points) if source in notes]


def _precision_notes(points: Sequence[PointResult]) -> list[str]:
    if all(point.precision != Precision.FLOAT32 for point in points):
        return []
    return ["float32 is float32: TensorFloat-32 is switched off."]


# --- results ----------------------------------------------------------------------------------------------------------


def _results(studies: Sequence[_Named]) -> tuple[Block, ...]:
    groups: dict[tuple[object, ...], list[_Named]] = {}
    for study in studies:
        if study.points:
            groups.setdefault(_columns(study), []).append(study)
    if not groups:
        return (Paragraph(text="There are no results yet."),)
    return tuple(block for group in groups.values() for block in _tables(group, alone=len(studies) == 1))


def _columns(study: _Named) -> tuple[object, ...]:
    """What studies of one table have in common: those of throughput and of training would leave half of it empty.

    A study whose prices have moved has one of its own, for two of them may mean different pools by one name.
    """
    moved = study.label if any(one.low for one in study.status.prices) else None
    return any(point.training for point in study.points), any(point.bandwidth for point in study.points), moved


def _tables(studies: Sequence[_Named], *, alone: bool) -> Iterator[TitledTable]:
    """Points, goals and machines, side by side; each row with its study where the report has several."""
    points = [point for study in studies for point in study.points]
    of_studies = "" if alone else f" of {', '.join(study.label for study in studies)}"

    def titled(caption: str, table: Table, owners: Sequence[str]) -> TitledTable:
        return TitledTable(caption=f"{caption}{of_studies}", table=table if alone else _with_studies(table, owners))

    main = tables.results(points, [one for study in studies for one in study.status.prices])
    main = main.model_copy(update={"notes": tuple(tables.reading_notes(points))})
    yield titled("Points", main, [study.label for study in studies for _ in study.points])
    if any(point.goals for point in points):
        owners = [study.label for study in studies for point in study.points for _ in point.goals]
        yield titled("Goals", tables.goals(points), owners)
    if any(point.gpu or point.host for point in points):
        owners = [study.label for study in studies for point in study.points if point.gpu or point.host]
        yield titled("Machines", tables.machines(points), owners)
    billed = bills.table(points)
    if billed is not None:
        owners = [study.label for study in studies for point in study.points if point.bill is not None]
        totals = tuple(total for study in studies for total in bills.totals(study.points, study.status.prices))
        yield titled("Bills", billed.model_copy(update={"notes": (*totals, *billed.notes)}), owners)


def _with_studies(table: Table, owners: Sequence[str]) -> Table:
    """The table with the study of each row in front."""
    rows = tuple((owner, *row) for owner, row in zip(owners, table.rows, strict=True))
    return table.model_copy(update={"columns": (_STUDY_COLUMN, *table.columns), "rows": rows})


def _charts(studies: Sequence[_Named]) -> tuple[Block, ...]:
    entries = [
        Entry(point=point, study=study.label if len(studies) > 1 else "", plan=study.plan)
        for study in studies
        for point in study.points
    ]
    return (
        *scaling.throughput(entries),
        *scaling.efficiency(entries),
        *spending.frontier(entries),
        *spending.costs(entries),
        *owning.gains(entries),
        *paying.waterfall(entries),
    )


def _node_time(studies: Sequence[_Named]) -> tuple[Section, ...]:
    """Where the nodes' time went; no section where no attempt was interrupted: then the bills say it all."""
    blocks: list[Block] = []
    for study in studies:
        told, found = node_time.sentences(study.status), study.status.goodput
        if found is None or not told:
            continue
        of_study = f" of {study.label}" if len(studies) > 1 else ""
        blocks.append(TitledTable(caption=f"Pools{of_study}", table=node_time.table(found.pools)))
        blocks.append(Listing(items=told))
    return (Section(name="interruptions", title="Interruptions", blocks=tuple(blocks)),) if blocks else ()


# --- what a reader must know ------------------------------------------------------------------------------------------


def _warnings(studies: Sequence[_Named]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for study in studies:
        found = (
            *(f"{condition.type}: {condition.message}" for condition in study.status.conditions if _alarms(condition)),
            *(sentence.removeprefix("Warning: ") for sentence in tables.warnings(study.points)),
            *tables.reasons(study.points),
        )
        if found:
            blocks.append(Listing(title=study.label if len(studies) > 1 else None, items=found))
    return tuple(blocks) or (Paragraph(text="None."),)


def _alarms(condition: Condition) -> bool:
    """Whether a condition is bad news."""
    bad_when_false = condition.type in ("Succeeded", "ComparisonPassed")
    bad_when_true = condition.type in ("GangPending", "Suspended", "BudgetExhausted", "PriceStale")
    return (bad_when_false and condition.status == "False") or (bad_when_true and condition.status == "True")


def _environments(studies: Sequence[_Named]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for study in studies:
        records = {record.key(): record for record in study.environments}
        if not study.status.environments:
            title = study.label if len(studies) > 1 else None
            blocks.append(Paragraph(title=title, text="What the figures stand on was not recorded."))
        for one in study.status.environments:
            points = sum(point.environment == one.environment for point in study.points)
            of_study = f" of {study.label}" if len(studies) > 1 else ""
            blocks.append(
                TitledTable(
                    caption=f"Environment {one.environment}{of_study}, {_counted(points, 'point')}",
                    table=Table(columns=_FACT_COLUMNS, rows=_facts(one, records.get(one.environment))),
                    row_headed=True,
                )
            )
    return tuple(blocks)


def _facts(one: EnvironmentFacts, record: Environment | None) -> tuple[tuple[str, str], ...]:
    """What is compared first, then what was recorded beside it."""
    found = grounds.facts(one)
    if record is not None:
        found.update(records.environment_facts(record, fields=Environment.PROVENANCE))
    return tuple(found.items()) or (("record", "was not read"),)


def _prices(studies: Sequence[_Named]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for study in studies:
        title = study.label if len(studies) > 1 else None
        if study.plan is None:
            blocks.append(Paragraph(title=title, text="The study has not begun: its pools have not been looked at."))
            continue
        rows = tuple(pricing.row(study.plan, pool) for pool in study.plan.pools)
        caption = "Prices, as they were when the study was planned" + (f": {study.label}" if title else "")
        blocks.append(TitledTable(caption=caption, table=Table(columns=pricing.COLUMNS, rows=rows)))
        if study.plan.currency is not None and study.plan.exchange_rates:
            rates = (pricing.exchange(rate, into=study.plan.currency) for rate in study.plan.exchange_rates)
            blocks.append(Listing(title="Exchange rates", items=tuple(rates)))
    return tuple(blocks)


# --- how to reproduce -------------------------------------------------------------------------------------------------


def _reproduction(studies: Sequence[_Named]) -> tuple[Block, ...]:
    blocks: list[Block] = []
    for study in studies:
        of_study = f" of {study.label}" if len(studies) > 1 else ""
        blocks.append(
            TitledTable(
                caption=f"Versions and digests{of_study}",
                table=Table(columns=_FACT_COLUMNS, rows=_provenance(study)),
                row_headed=True,
            )
        )
        if study.study_text is None:
            blocks.append(Paragraph(text="There is no copy of the study file."))
        else:
            blocks.append(Code(caption=f"study.yaml{of_study}", text=study.study_text))
    blocks.append(Code(caption="On a machine, or on a cluster with gpubench's operator", text=_COMMANDS))
    return tuple(blocks)


_COMMANDS = """\
gpubench plan study.yaml       # what would be run, in which order
gpubench run study.yaml        # on this machine, without a cluster
kubectl apply -f study.yaml    # on a cluster
gpubench verify FOLDER         # every figure again from the records of a results folder
"""


def _provenance(study: _Named) -> tuple[tuple[str, str], ...]:
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
    digests = dict.fromkeys(facts.image_digest for facts in study.status.environments if facts.image_digest)
    found += [("image that ran", digest) for digest in digests]
    return tuple((name, value) for name, value in found if value)


def _counted(count: int, what: str, several: str | None = None) -> str:
    return f"{count} {what if count == 1 else several or f'{what}s'}"
