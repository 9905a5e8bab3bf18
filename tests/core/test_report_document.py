# SPDX-License-Identifier: Apache-2.0
"""What a report says of its benchmarks, section by section, before anything makes a page of it."""

from typing import Any

import pytest

import builders
import measured
from gpubench.api.benchmark_status import FullStatus
from gpubench.api.measuring import TimedRegion
from gpubench.api.point_result import (
    AmountInterval,
    Bandwidth,
    Cost,
    EnvironmentFacts,
    GoalResult,
    HostUsage,
    PointBill,
    PointResult,
    PointState,
    TrainingResult,
)
from gpubench.api.price_result import NodesSpent, PriceUsed, Spent
from gpubench.plan.plan import Plan
from gpubench.report import charts, document, markdown, tables
from gpubench.report.charts import Chart
from gpubench.report.document import Code, Document, Paragraph, Reported, Section
from gpubench.scheduler.ledger import Ledger
from gpubench.values import Interval

RATES = {0: (100.0, 101.0, 99.0), 1: (190.0, 191.0, 189.0)}
PRICE = PriceUsed(pool="cpu", per_node_hour="0.36", currency="USD", as_of="2023-11-01")
BILL = PointBill.model_validate({"total": "2", "currency": "USD", "attempts": 3, "parts": {"measured": "2"}})
GOAL = GoalResult(
    name="much", hours=Interval(mean=10.0, low=9.0, high=11.0), cost=AmountInterval(mean="36.00", currency="USD")
)
WARNING = {"reason": "Trend", "message": "the windows drifted"}
OBJECTIVE: dict[str, Any] = {
    "goals": [{"name": "much", "workload": "mnist_cnn", "samples": 36_000_000}],
    "objective": {"minimize": "Cost", "goal": "much", "maxHours": 48},
}


def reported(
    *points: PointResult, name: str = "quick", plan: Plan | None = None, status: Any = None, **fields: Any
) -> Reported:
    """One of one pool with one and two workers, both measured, where no points are given."""
    plan = plan or builders.plan()
    results = points or measured.results(plan, RATES)
    found = FullStatus.model_validate({"phase": "Succeeded", **(status or {}), "results": results})
    return Reported(name=name, source=f"/{name}", plan=plan, status=found, **fields)


def two(**changes: Any) -> list[PointResult]:
    """Points with these fields besides."""
    fields = PointResult.model_validate
    return [fields(dict(point) | changes) for point in measured.results(builders.plan(), RATES)]


def training(seconds: float) -> TrainingResult:
    return TrainingResult(epochs=3, timed_region=TimedRegion(), seconds=Interval(mean=seconds))


def bandwidth(bus: float) -> Bandwidth:
    return Bandwidth(algorithm=Interval(mean=bus), bus=Interval(mean=bus))


def costs(samples: str, *, run: str | None = None) -> Cost:
    amounts = [None if mean is None else AmountInterval(mean=mean, currency="USD") for mean in (samples, run)]
    return Cost(per_million_samples=amounts[0], per_run=amounts[1])


def section(found: Document, name: str) -> Section:
    (one,) = (one for one in found.sections if one.name == name)
    return one


def lines(found: Document, name: str) -> list[str]:
    return [
        line
        for block in section(found, name).blocks
        if isinstance(block, Paragraph)
        for line in (*filter(None, [block.text]), *block.items)
    ]


def grids(found: Document, name: str) -> list[tables.Table]:
    return [block for block in section(found, name).blocks if isinstance(block, tables.Table)]


def drawn(found: Document) -> list[Chart]:
    return [block for one in found.sections for block in one.blocks if isinstance(block, Chart)]


def titles(table: tables.Table) -> list[str]:
    return [column.title for column in table.columns]


def full(name: str = "quick", **fields: Any) -> Reported:
    """Something for each section: a bill, a goal, machines, a warning, and a point that was skipped."""
    facts = {"bill": BILL, "goals": (GOAL,), "host": HostUsage(processors=1.0), "warnings": (WARNING,)}
    skipped = two(workers=4, state=PointState.SKIPPED, values=(), throughput=None, cost=None, scaling=(), reason="big")
    return reported(*two(**facts), skipped[0], name=name, **fields)


# --- what stands where ------------------------------------------------------------------------------------------------


def test_a_report_goes_from_the_answer_to_how_everything_can_be_done_again() -> None:
    found = document.of_benchmarks([full()])
    assert [(one.title, one.folded) for one in found.sections] == [
        ("Answer", False),
        ("Ranking", False),
        ("Scaling", False),
        ("Costs", False),
        ("Machines", False),
        ("Warnings (1)", False),
        ("Points without figures (1)", True),
        ("Assumptions", False),
        ("How to read the tables", True),
        ("Environment", True),
        ("How to reproduce it", True),
    ]
    missing = section(document.of_benchmarks([reported()]), "missing")
    assert (missing.title, missing.folded) == ("Charts without figures", True)
    assert lines(document.of_benchmarks([reported()]), "missing") == [charts.NEEDS[charts.waterfall]]


def test_many_warnings_are_folded_and_none_are_no_section() -> None:
    def with_warnings(count: int) -> Document:
        warnings = [{"reason": "Trend", "message": f"drift {number}"} for number in range(count)]
        return document.of_benchmarks([reported(two(warnings=warnings)[0])])

    assert [section(with_warnings(count), "warnings").folded for count in (6, 7)] == [False, True]
    assert "warnings" not in {one.name for one in with_warnings(0).sections}


def test_without_a_table_there_is_nothing_to_read_it_by() -> None:
    waiting = Reported(name="quick", source="here", status=FullStatus())
    found = document.of_benchmarks([waiting])
    assert [one.name for one in found.sections] == ["answer", "missing", "assumptions", "environment", "reproduce"]


@pytest.mark.parametrize(
    ("measured_points", "lead"),
    [
        (0, "1 benchmark, 2 points on 1 pool; 0 of the points have figures."),
        (1, "1 benchmark, 2 points on 1 pool; 1 of the points has figures."),
        (2, "1 benchmark, 2 points on 1 pool; 2 of the points have figures."),
    ],
)
def test_the_lead_counts_what_has_figures(measured_points: int, lead: str) -> None:
    points = measured.results(builders.plan(), dict(list(RATES.items())[:measured_points]))
    assert document.of_benchmarks([reported(*points)]).lead == lead


# --- one benchmark, and several ---------------------------------------------------------------------------------------


def test_a_report_of_one_benchmark_names_it_in_its_title_alone() -> None:
    found = document.of_benchmarks([full(study_text="a: 1\n")])
    assert found.title == "quick: GPU benchmark"
    for one in found.sections:
        for table in grids(found, one.name):
            assert "BENCHMARK" not in titles(table)
    assert [(one.name, table.title) for one in found.sections[:-2] for table in grids(found, one.name)] == [
        ("answer", "The fastest and the cheapest for each workload"),
        ("ranking", "The cheapest first, without a cost the fastest"),
        ("costs", "Goals"),
        ("costs", "Bills"),
        ("machines", "While the points were measured"),
        ("without", "What became of them"),
    ]
    said = [block.title or "" for one in found.sections for block in one.blocks]
    assert not [title for title in said if "quick" in title]
    assert drawn(found)
    assert not [chart for chart in drawn(found) if "quick" in chart.model_dump_json()]
    assert "Where the figures are from" in said


def test_each_of_several_benchmarks_is_named_with_what_is_its_own() -> None:
    found = document.of_benchmarks([full("old", study_text="a: 1\n"), full("new", study_text="a: 2\n")])
    assert found.title == "old, new: GPU benchmark"
    for name, heading, rows in (
        ("answer", "The fastest and the cheapest for each workload", ["old", "new"]),
        ("ranking", "The cheapest first, without a cost the fastest: old, new", None),
        ("costs", "Goals: old, new", None),
        ("costs", "Bills: old, new", ["old", "old", "new", "new"]),
        ("machines", "While the points were measured: old, new", None),
        ("without", "What became of them: old, new", None),
    ):
        (table,) = (table for table in grids(found, name) if table.title == heading)
        at = titles(table).index("BENCHMARK")
        assert {row[at] for row in table.rows} == {"old", "new"}
        assert rows is None or [row[at] for row in table.rows] == rows
    reproduce = [block.title for block in section(found, "reproduce").blocks]
    assert reproduce == [
        "Where the figures of old are from", "study.yaml of old, for `gpubench run` and `kubectl apply -f`",
        "Where the figures of new are from", "study.yaml of new, for `gpubench run` and `kubectl apply -f`",
    ]  # fmt: skip
    warnings = section(found, "warnings")
    assert warnings.title == "Warnings (2)"
    assert [block.title for block in warnings.blocks] == ["old", "new"]
    names = {row.series for chart in drawn(found) if chart.form == "workers" for row in chart.rows}
    assert names == {"cpu, old", "cpu, new"}


def test_benchmarks_share_a_table_unless_their_prices_have_moved() -> None:
    moved = PRICE.model_copy(update={"low": "0.18", "high": "0.72"})
    still, other, third = (
        reported(name=name, status={"prices": (price,)})
        for name, price in (("still", PRICE), ("other", PRICE), ("third", moved))
    )
    found = document.of_benchmarks([still, third, other])
    together, apart = grids(found, "ranking")
    assert together.title.endswith(": still, other")
    assert apart.title.endswith(": third")
    assert "AT LOW–HIGH PRICE" in titles(apart)
    assert "AT LOW–HIGH PRICE" not in titles(together)
    fourth = third.model_copy(update={"name": "fourth"})
    assert len(grids(document.of_benchmarks([third, fourth]), "ranking")) == 2, "two pools may have one name"


@pytest.mark.parametrize(
    ("one", "better"),
    [
        ({"throughput": Interval(mean=100.0)}, {"throughput": Interval(mean=200.0)}),
        ({"training": training(60.0)}, {"training": training(50.0), "throughput": Interval(mean=50.0)}),
        ({"bandwidth": bandwidth(9e9)}, {"bandwidth": bandwidth(10e9), "throughput": Interval(mean=50.0)}),
        ({"cost": costs("2")}, {"cost": costs("1"), "throughput": Interval(mean=50.0)}),
        ({"cost": costs("10")}, {"cost": costs("9")}),
        ({}, {"cost": costs("9")}),
        (
            {"training": training(60.0), "cost": costs("1", run="3")},
            {"training": training(70.0), "cost": costs("2", run="2")},
        ),
        ({"state": PointState.UNSTABLE, "cost": costs("1")}, {"cost": costs("2")}),
    ],
)
def test_the_cheaper_is_ranked_first_without_a_cost_the_faster_and_what_never_settled_last(
    one: dict[str, Any], better: dict[str, Any]
) -> None:
    worse, winner = two(cost=None, throughput=Interval(mean=100.0), scaling=())
    points = [point.model_copy(update=fields) for point, fields in ((worse, one), (winner, better))]
    (table,) = grids(document.of_benchmarks([reported(*points)]), "ranking")
    assert [row[titles(table).index("WORKERS")] for row in table.rows] == ["2", "1"]


# --- what is said -----------------------------------------------------------------------------------------------------


def test_how_sure_an_answer_is_includes_what_is_missing() -> None:
    points = measured.results(builders.plan(), {0: RATES[0]})
    (table,) = grids(document.of_benchmarks([reported(*points)]), "answer")
    assert table.rows[0][titles(table).index("HOW SURE")] == "Of 2 points: 1 still to be measured."


def test_an_objective_that_nothing_can_be_taken_for_is_followed_by_why() -> None:
    asked = builders.spec(**OBJECTIVE)
    status = {"answer": "Nothing can be advised: no pool has a price.\nFastest: one."}
    found = document.of_benchmarks([reported(spec=asked, status=status)])
    assert lines(found, "answer") == [
        "Objective much: the least cost of 36,000,000 samples of mnist_cnn, within 48 hours.",
        "Nothing can be advised: no pool has a price.",
    ]
    without = document.of_benchmarks([reported(status=status)])
    assert lines(without, "answer") == [], "nothing was asked"


def test_why_a_point_has_no_figures_stands_in_its_row() -> None:
    (table,) = grids(document.of_benchmarks([full()]), "without")
    assert titles(table)[-1] == "REASON"
    assert [row[-1] for row in table.rows] == ["big"]


def test_warnings_and_what_all_was_billed_stand_below_their_headings() -> None:
    found = document.of_benchmarks([full()])
    assert lines(found, "warnings") == ["2 points: the windows drifted"]
    assert "Billed for 6 attempts: USD 4; USD 0 for attempts without a result." in lines(found, "notes")


def test_nodes_that_came_are_drawn_beside_the_bill() -> None:
    nodes = NodesSpent(count=2, node_hours=0.5, amount="3", sentence="2 nodes came while it ran")
    spent = Spent(amount="2", currency="USD", clock="of pods", nodes=nodes)
    found = document.of_benchmarks([full(status={"spent": spent})])
    (chart,) = (chart for chart in drawn(found) if chart.title == "What the bill was paid for")
    assert chart.rows[-1].series == "nodes that came"


@pytest.mark.parametrize(("precision", "said"), [("float32", True), ("mixed_float16", False)])
def test_that_float32_is_not_tensorfloat_is_said_of_float32_alone(precision: str, said: bool) -> None:
    found = document.of_benchmarks([reported(*two(precision=precision))])
    assert ("float32 is float32: TensorFloat-32 is switched off." in lines(found, "assumptions")) == said


def test_what_the_figures_stand_on_is_counted_and_listed() -> None:
    record = builders.environment()
    known = EnvironmentFacts(environment=record.key(), driver="550.54.15")
    unread = EnvironmentFacts(environment="unread")
    points = two(environment=record.key())
    found = document.of_benchmarks(
        [reported(*points, status={"environments": (known, unread)}, ledger=Ledger(environments=(record,)))]
    )
    facts, nothing = grids(found, "environment")
    assert (facts.title, nothing.title) == (f"Environment {record.key()}, 2 points", "Environment unread, 0 points")
    assert titles(facts) == ["FACT", "VALUE"]
    assert facts.row_headed, "the name of a fact is the heading of its row"
    assert ("driver", "550.54.15") in facts.rows
    assert ("kernel", "5.15.0") in facts.rows, "recorded beside what is compared"
    assert nothing.rows == (("record", "was not read"),)


def test_an_environment_that_was_not_recorded_is_said_to_be_none() -> None:
    one, other = reported(name="old"), reported(name="new")
    sentence = "What the figures stand on was not recorded."
    (alone,) = section(document.of_benchmarks([one]), "environment").blocks
    assert alone == Paragraph(text=sentence)
    both = section(document.of_benchmarks([one, other]), "environment").blocks
    assert both == tuple(Paragraph(title=name, text=sentence) for name in ("old", "new"))


# --- Markdown ---------------------------------------------------------------------------------------------------------


def rendered(*blocks: document.Block) -> str:
    return markdown.render(Document(title="t", lead="l", sections=(Section(name="s", title="S", blocks=blocks),)))


def test_numbers_stand_to_the_right_in_markdown() -> None:
    columns = (*tables.words("POOL"), *tables.numbers("WORKERS"))
    table = tables.Table(title="Points", columns=columns, rows=(("a", "2"),), notes=("a note",))
    assert rendered(table).endswith(
        "### Points\n\n| POOL | WORKERS |\n| --- | ---: |\n| a | 2 |\n\n* a note\n"
    )  # fmt: skip


@pytest.mark.parametrize(("code", "language"), [("apiVersion: v1\nkind: X\n", "yaml"), ("gpubench run x\n", "sh")])
def test_a_fence_says_in_which_language_its_code_is(code: str, language: str) -> None:
    assert rendered(Code(title="c", text=code)).endswith(f"```{language}\n{code}```\n")
