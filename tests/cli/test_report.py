# SPDX-License-Identifier: Apache-2.0
"""A report says what the table says, in HTML and in Markdown alike, without a network, and takes no text for markup."""

import base64
import hashlib
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as some

import builders
import measured
import pages
import stored_analysis
from gpubench.analysis import answer, audit, text
from gpubench.api import validate
from gpubench.api.price_result import Spent
from gpubench.plan.expand import freeze
from gpubench.plan.plan import Plan
from gpubench.plan.pool_prices import Repriced
from gpubench.report import charts, document, markdown, tables
from gpubench.report.charts import Chart, Row
from gpubench.report.document import Document, Paragraph
from gpubench.scheduler import ledger, manifests
from gpubench.values import Interval
from gpubench_cli import __main__ as program
from gpubench_cli import page, results
from gpubench_cli.cluster import Cluster

REAL = sorted((Path(__file__).parent / "recorded_results").iterdir())
QUICKSTART = next(folder for folder in REAL if folder.name == "quickstart")
NASTY = "<script>alert('x')</script> & | *a* _b_ [c](http://d) `e` $f$ ~~g~~"
OWNED = {
    "purchase": "6500", "lifetime_months": 30, "hours_per_month": 240, "watts": 1000, "per_kilowatt_hour": "0.20",
    "currency": "USD", "as_of": "2018-07-01", "source": "https://example.org/a?b=1&c=2",
}  # fmt: skip


def plan_of_two_pools() -> Plan:
    pools = (
        builders.pool("own", price=None, ownership=OWNED),
        builders.pool("rented", price={"per_node_hour": "0.90", "currency": "USD", "as_of": "2018-07-01"}),
    )
    return freeze(builders.spec(builders.block(pools=["own", "rented"])), pools, measured.AT)


def two_pools(path: Path, *, name: str = "two-pools") -> Path:
    rates = {
        0: (100.0, 101.0, 99.0), 1: (190.0, 191.0, 189.0), 2: (80.0, 81.0, 79.0), 3: (150.0, 152.0, 148.0),
    }  # fmt: skip
    return measured.folder(path, plan_of_two_pools(), rates, name=name)


def document_of(*folders: Path) -> Document:
    return document.of_benchmarks([results.in_folder(folder) for folder in folders])


def written(tmp_path: Path, *folders: Path) -> tuple[str, str]:
    html, md = tmp_path / "report.html", tmp_path / "report.md"
    places = ("--out", str(html), "--markdown", str(md))
    assert program.main(("report", *map(str, folders), *places)) == 0
    return html.read_text(encoding="utf-8"), md.read_text(encoding="utf-8")


def drawings(content: str) -> list[str]:
    sources = (element.get("src") or "" for element in pages.parse(content).iter("img"))
    return [base64.b64decode(source.partition(",")[2]).decode() for source in sources]


def all_elements(content: str) -> list[Element]:
    return list(pages.parse(content).iter())


@pytest.mark.parametrize("folder", REAL, ids=lambda folder: folder.name)
def test_a_report_of_a_real_run_has_every_figure_of_its_table(folder: Path, tmp_path: Path) -> None:
    html, md = written(tmp_path, folder)
    status = results.read_summary(folder).status
    for said in (pages.of_page(html), pages.of_markdown(md)):
        for table in tables.of_benchmark(status.results, status.prices):
            assert any(says(said, table, grid) for grid in said.tables), table
        for found in answer.by_work(status.results):
            assert found.fastest is not None
            cost = found.no_cost if found.cheapest is None else found.cheapest.message
            assert any({found.work, found.fastest.message, cost} <= set(row) for row in said.tables[0])


def says(said: pages.Said, table: tables.Table, grid: pages.Grid) -> bool:
    """Whether the grid has the table's rows, in any order, and a line has what is the same in all of them."""
    titles = [column.title for column in table.columns]
    shown = [index for index, title in enumerate(titles) if title in grid[0]]
    rows = sorted(tuple(row[index] for index in shown) for row in table.rows)
    alike = {
        (title, cell) for row in table.rows for title, cell in zip(titles, row, strict=True) if title not in grid[0]
    }
    lines = [line.lower() for line in said.sentences if line.startswith("In all rows: ")]
    return sorted(grid[1:]) == rows and all(
        cell == text.UNDEFINED or any(f"{title} {cell}".lower() in line for line in lines) for title, cell in alike
    )


def test_the_report_begins_with_the_answer_and_ends_with_small_print(tmp_path: Path) -> None:
    found = document_of(decided(tmp_path / "decided"))
    first, second, *rest = found.sections
    assert [first.name, second.name] == ["answer", "ranking"]
    question, fastest_and_cheapest, chart = first.blocks
    assert isinstance(question, Paragraph)
    assert [line.partition(":")[0] for line in question.items] == ["Objective much", "Best for it"]
    assert isinstance(fastest_and_cheapest, tables.Table)
    assert [column.title for column in fastest_and_cheapest.columns] == ["WORKLOAD", "FASTEST", "CHEAPEST", "HOW SURE"]
    assert len(fastest_and_cheapest.rows) == 1, "one line for the one workload"
    assert isinstance(chart, Chart)
    assert chart.title.startswith("Time against cost: ")
    names = [section.name for section in rest]
    assert names.index("scaling") < names.index("costs") < names.index("assumptions") < names.index("reproduce")
    assert not first.folded
    assert not second.folded
    assert any(line.startswith("Spent: ") for line in lines_of(found, "assumptions"))
    for section in (first, second):
        assert not any("Spent: " in line for line in lines_of(found, section.name))


def lines_of(found: Document, name: str) -> list[str]:
    blocks = next(section.blocks for section in found.sections if section.name == name)
    return [line for block in blocks if isinstance(block, Paragraph) for line in block.items]


def test_the_cheapest_is_ranked_first_and_points_without_figures_are_folded(tmp_path: Path) -> None:
    plan = plan_of_two_pools()
    folder = measured.folder(
        tmp_path / "part", plan, {0: (100.0, 101.0, 99.0), 1: (190.0, 191.0, 189.0), 2: (800.0,) * 3}
    )
    found = results.in_folder(folder)
    ranked, without = (
        next(block for block in section.blocks if isinstance(block, tables.Table))
        for section in document.of_benchmarks([found]).sections
        if section.name in ("ranking", "without")
    )
    costs = [point.cost.per_million_samples for point in found.points if point.cost and point.cost.per_million_samples]
    at = [column.title for column in ranked.columns].index("COST/M SAMPLES")
    cheapest_first = sorted(costs, key=lambda cost: float(cost.mean))
    assert [row[at] for row in ranked.rows] == [text.money(cost) for cost in cheapest_first]
    assert cheapest_first != costs, "the order of the plan is another"
    assert len(without.rows) == 1
    html = page.render(document.of_benchmarks([found]))
    (folded,) = (one for one in pages.parse(html).iter("details") if "Points without figures (1)" in pages.text(one))
    assert folded.get("open") is None


@pytest.mark.parametrize("folder", REAL, ids=lambda folder: folder.name)
def test_html_and_markdown_say_the_same(folder: Path, tmp_path: Path) -> None:
    html, md = written(tmp_path, folder)
    assert pages.of_page(html) == pages.of_markdown(md)


def test_several_studies_say_the_same_in_both_too(tmp_path: Path) -> None:
    html, md = written(tmp_path, *REAL, two_pools(tmp_path / "two"))
    assert pages.of_page(html) == pages.of_markdown(md)


def test_each_row_names_its_study_where_there_are_several(tmp_path: Path) -> None:
    one, other = two_pools(tmp_path / "a", name="same"), two_pools(tmp_path / "b", name="same")
    found = document_of(one, other)
    points = next(table for table in pages.of_page(page.render(found)).tables if "POOL" in table[0])
    assert points[0][0] == "BENCHMARK"
    assert {row[0] for row in points[1:]} == {f"same in {one}", f"same in {other}"}


def test_a_page_needs_nothing_from_anywhere(tmp_path: Path) -> None:
    html, _ = written(tmp_path, *REAL, two_pools(tmp_path / "two"))
    for element in all_elements(html):
        tag = str(element.tag).rpartition("}")[2]
        assert tag not in ("link", "image", "svg", "iframe", "object", "embed", "base", "form")
        for name, value in element.attrib.items():
            if tag == "img" and name == "src":
                assert value.startswith("data:image/svg+xml;base64,")
            elif name.rpartition("}")[2] in ("src", "href", "srcset", "data", "action", "poster", "background"):
                assert value.startswith("#") or (tag == "a" and value.startswith("https://example.org/"))
            assert "url(" not in value.replace("url(#", "")
            assert not name.startswith("on")
    for drawing in drawings(html):
        assert not re.search(r"<(script|image|foreignObject)\b", drawing)
        assert all(target.startswith("#") for target in re.findall(r'(?:href="|url\()([^")]+)', drawing))
    (script,) = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{allowed}'\"" in html
    assert not re.search(r"import|fetch|http|eval|innerHTML", script)
    style = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    assert len(style) == 1
    assert "url(" not in style[0]
    assert "@import" not in style[0]


def test_no_two_elements_of_a_page_have_the_same_id(tmp_path: Path) -> None:
    html, _ = written(tmp_path, *REAL, two_pools(tmp_path / "two"))
    found = [value for element in all_elements(html) if (value := element.get("id"))]
    assert len(found) == len(set(found))
    targets = re.findall(r'(?:href="|url\()#([^")]+)', html)
    assert set(targets) <= set(found)


def test_a_page_can_be_read_aloud(tmp_path: Path) -> None:
    html, _ = written(tmp_path, two_pools(tmp_path / "two"))
    root = pages.parse(html)
    assert root.get("lang") == "en"
    levels = [int(element.tag[1]) for element in root.iter() if element.tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels)), "none is skipped"
    for table in root.iter("table"):
        assert pages.text(table[0]), "a caption"
        assert all(cell.get("scope") in ("col", "row") for cell in table.iter("th"))
    figures = list(root.iter("figure"))
    assert figures
    for figure in figures:
        (image,) = figure.iter("img")
        (caption,) = figure.iter("figcaption")
        assert image.get("alt")
        assert pages.text(caption), "what it shows, in words"
    assert all("<text" in drawing for drawing in drawings(html)), "letters, not their outlines"


def test_what_a_user_wrote_is_text_and_no_markup(tmp_path: Path) -> None:
    found = results.in_folder(two_pools(tmp_path / "two"))
    points = tuple(
        point.model_copy(update={"pool": NASTY, "workload": NASTY, "variant": NASTY, "reason": NASTY})
        for point in found.status.results
    )
    status = found.status.model_copy(update={"results": points, "answer": NASTY})
    nasty = found.model_copy(update={"name": NASTY, "study_text": f"{NASTY}\n```\n</code></pre>", "status": status})
    shown = document.of_benchmarks([nasty])
    html, md = page.render(shown), markdown.render(shown)
    (script,) = (element for element in all_elements(html) if element.tag == "script")
    assert pages.text(script) == " ".join((Path(page.__file__).parent / "page.js").read_text().split()), (
        "the page's own"
    )
    assert any(NASTY in sentence for sentence in pages.of_page(html).sentences)
    assert any(NASTY in cell for grid in pages.of_page(html).tables for row in grid for cell in row)
    assert pages.of_page(html) == pages.of_markdown(md)
    assert any("&lt;script&gt;alert" in drawing for drawing in drawings(html)), "in a chart, too"
    assert not any("<script" in drawing for drawing in drawings(html))


def test_characters_that_do_something_do_nothing_in_a_report(tmp_path: Path) -> None:
    hostile = "A100\x1b[2J\x00\x07\r\x9b31m\u202e40GB"
    found = results.in_folder(two_pools(tmp_path / "two"))
    points = tuple(
        point.model_copy(update={"pool": hostile, "workload": hostile, "reason": hostile})
        for point in found.status.results
    )
    status = found.status.model_copy(update={"results": points, "answer": hostile})
    shown = document.of_benchmarks([found.model_copy(update={"name": hostile, "status": status})])
    html = page.render(shown)
    for written_text in (html, *drawings(html), markdown.render(shown)):
        assert "40GB" in written_text
        assert not [one for one in written_text if one not in "\n\t" and (ord(one) < 0x20 or 0x7F <= ord(one) < 0xA0)]
        assert "\u202e" not in written_text


@example("- one")
@example("12. of twelve")
@given(some.text(some.characters(categories=("L", "N", "P", "S", "Zs")), max_size=60))
def test_markdown_gives_back_any_text(plain: str) -> None:
    line = " ".join(plain.split())
    escaped = markdown.text(plain)
    said = pages.of_markdown(f"# {escaped}\n\nx {escaped}\n\n| a |\n| --- |\n| {escaped} |\n\n* x {escaped}\n")
    assert said.headings == (line,)
    assert said.sentences == (f"x {line}".strip(),) * 2
    assert said.tables == ((("a",), (line,)),)
    assert pages.of_markdown(escaped).sentences == ((line,) if line else ()), "where a line begins, too"


def test_equal_results_give_equal_bytes(tmp_path: Path) -> None:
    folder = two_pools(tmp_path / "two")
    found = []
    for seed in ("1", "2"):
        place = tmp_path / seed
        command = [sys.executable, "-m", "gpubench_cli", "report", str(folder), str(QUICKSTART), "--out", str(place)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True)
        found.append(place.read_bytes())
    assert found[0] == found[1]


def test_a_missing_chart_says_why(tmp_path: Path) -> None:
    unpriced = freeze(builders.spec(), (builders.pool("cpu", price=None),), measured.AT)
    folder = measured.folder(tmp_path / "unpriced", unpriced, {0: (10.0, 10.1, 9.9)})
    html, _ = written(tmp_path, folder)
    assert not list(pages.parse(html).iter("figure"))
    assert lines_of(document_of(folder), "missing") == list(charts.NEEDS.values())
    assert lines_of(document_of(two_pools(tmp_path / "two")), "missing") == [charts.NEEDS[charts.waterfall]]


def test_series_differ_in_mark_and_line_and_not_in_colour_alone() -> None:
    names = [f"series {number}" for number in range(8)]
    rows = tuple(Row(series=name, x=Interval(mean=x), y=Interval(mean=x)) for name in names for x in (1.0, 2.0))
    drawn = page.svg(Chart(title="t", description="d", rows=rows))
    dashes = set(re.findall(r"stroke-dasharray: ([0-9., ]+)", drawn))
    shapes = {re.search(r'd="([^"]+)"', path)[0] for path in re.findall(r"<defs>\s*<path[^>]*>", drawn)}  # type: ignore[index]
    assert len(dashes) >= 7, "eight lines, one of them unbroken"
    assert len(shapes) >= 7, "the eighth has the mark of the first, and another colour and line"
    for name in names:
        assert f">{name}</text>" in drawn


@pytest.mark.parametrize(
    ("form", "largest", "doubles"), [("frontier", 1000.0, True), ("frontier", 4.0, False), ("lines", 1000.0, False)]
)
def test_a_frontier_of_many_sizes_has_axes_that_double(form: Any, largest: float, doubles: bool) -> None:
    rows = tuple(Row(series="s", x=Interval(mean=x), y=Interval(mean=x)) for x in (1.0, largest / 2, largest))
    drawn = page.svg(Chart(title="t", description="d", form=form, rows=rows))
    ticks = re.findall(r">([\d,.]+)</text>", drawn)
    assert ({"1", "2", "5", "10"} <= set(ticks)) is doubles, ticks


def test_everything_of_a_chart_is_seen_in_the_dark() -> None:
    rows = tuple(
        Row(series=f"series {number}", x=Interval(mean=x), y=Interval(mean=x, low=x / 2, high=x * 2), hollow=x > 1)
        for number in range(8)
        for x in (1.0, 2.0)
    )
    kinds = (
        Chart(title="t", description="d", level="l", rows=rows),
        Chart(title="t", description="d", form="bars", rows=rows),
    )
    for drawn in map(page.svg, kinds):
        rules = dict(re.findall(r'\[style\*="((?:fill|stroke): #\w{6})"\]{\w+:(#\w{6})!important}', drawn))
        content = drawn.partition("</style>")[2]
        found: dict[str, str] = dict(re.findall(r"((?:fill|stroke): (#\w{6}))", content))
        paper = rules.pop("fill: #ffffff")
        seen = {
            shown: rules.get(shown, colour) for shown, colour in found.items() if colour not in ("#ffffff", "#cccccc")
        }
        assert seen
        assert {shown: dark for shown, dark in seen.items() if contrast(dark, paper) < 3} == {}, "WCAG 1.4.11"


def contrast(one: str, other: str) -> float:
    """Of two colours (WCAG 2.2)."""

    def luminance(colour: str) -> float:
        parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_without_its_libraries_a_page_is_refused_in_a_sentence_and_markdown_is_written(tmp_path: Path) -> None:
    code = "import sys; sys.modules['matplotlib'] = None\nfrom gpubench_cli import __main__\nsys.exit(__main__.main())"
    command = [sys.executable, "-c", code, "report", str(QUICKSTART)]
    refused = subprocess.run([*command, "--out", str(tmp_path / "x.html")], capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "install kube-gpubench[report]" in refused.stderr
    assert refused.stderr.count("\n") == 1, "a sentence, and no traceback"
    subprocess.run([*command, "--markdown", str(tmp_path / "x.md")], check=True, capture_output=True)
    assert "mnist_cnn" in (tmp_path / "x.md").read_text()


def test_other_commands_load_no_library_of_reports() -> None:
    code = "import sys, gpubench_cli.report; print([name for name in ('matplotlib', 'jinja2') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ended.stdout == "[]\n"


def test_a_folder_that_is_none_and_a_place_that_cannot_be_written_are_sentences(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert program.main(("report", str(tmp_path))) == 2
    assert capsys.readouterr().err == f"gpubench: {tmp_path}: this is no results folder of `gpubench run`\n"
    missing = tmp_path / "nowhere" / "report.html"
    assert program.main(("report", str(QUICKSTART), "--out", str(missing))) == 2
    assert "it cannot be written there" in capsys.readouterr().err


class StandInCluster(Cluster):
    """What a report asks a cluster for, from a results folder."""

    namespace = "studies"
    host = "https://cluster"

    def __init__(self, folder: Path) -> None:
        self._summary = results.read_summary(folder)
        self._plan = results.read_plan(folder)
        self._study = builders.study(name=self._summary.name, uid=self._summary.uid)

    def benchmark(self, name: str) -> dict[str, Any]:
        assert name == self._summary.name
        return {
            "metadata": {"name": name, "namespace": "studies", "uid": self._summary.uid},
            "spec": self._study.spec.to_wire(),
            "status": self._stored()[0],
        }

    def config_map(self, name: str) -> dict[str, Any] | None:
        return self._stored()[1].get(name)

    def _stored(self) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        return stored_analysis.stored(self._study, self._summary.status.model_copy(update={"start_time": measured.AT}))

    def config_maps(self, uid: str) -> tuple[dict[str, Any], ...]:
        assert uid == self._summary.uid
        entries = ledger.environment_entries([builders.environment()])
        return (
            manifests.plan_config_map(self._study, self._plan),
            manifests.ledger_config_map(self._study, 0, entries),
        )

    def pods(self, uid: str) -> tuple[dict[str, Any], ...]:
        raise AssertionError(f"a report needs no pods of {uid}: they may be gone")

    def log(self, pod: str, **_: Any) -> bytes | None:
        raise AssertionError(f"a report needs no log of {pod}")


def test_a_study_of_a_cluster_has_the_same_report_as_its_folder(tmp_path: Path) -> None:
    folder = two_pools(tmp_path / "two")
    there = results.in_cluster(StandInCluster(folder), "two-pools")
    here = results.in_folder(folder)
    assert there.plan == here.plan
    assert there.ledger.environments == (builders.environment(),)
    assert there.source == "namespace studies"
    of_cluster, of_folder = (pages.of_page(page.render(document.of_benchmarks([one]))).tables for one in (there, here))
    assert [grid for grid in of_cluster if "POOL" in grid[0]] == [grid for grid in of_folder if "POOL" in grid[0]]


def test_a_study_that_has_not_begun_says_so(tmp_path: Path) -> None:
    class NotBegun(StandInCluster):
        def benchmark(self, name: str) -> dict[str, Any]:
            return {**super().benchmark(name), "status": {}}

    waiting = results.in_cluster(NotBegun(two_pools(tmp_path / "two")), "two-pools")
    said = pages.of_page(page.render(document.of_benchmarks([waiting]))).sentences
    assert "There are no results yet." in said
    assert "The benchmark has not begun: nothing is known of how it will be measured." in said


def test_that_figures_were_re_priced_stands_with_their_study(tmp_path: Path) -> None:
    found = results.in_folder(two_pools(tmp_path / "two"))
    repriced = Repriced(at="2026-11-01T10:00:00Z", prices="other.yaml", pools=("old",))
    remarked = document.of_benchmarks([found.model_copy(update={"repriced": repriced})])
    assert repriced.sentence in pages.of_markdown(markdown.render(remarked)).sentences


# --- the answer -------------------------------------------------------------------------------------------------------

DECIDED = """\
apiVersion: gpubench.dev/v1alpha1
kind: GpuBenchmark
metadata: {name: decided}
spec:
  sweep: [{workloads: [mnist_cnn], pools: [own, rented], workers: [1, 2], batchPerWorker: [64]}]
  goals: [{name: much, workload: mnist_cnn, samples: 36000000}]
  objective: {minimize: Cost, goal: much, maxHours: 200}
"""
SPENT = Spent(amount="12.31", currency="USD", clock="of pods", assumed_attempts=1)


def decided(path: Path) -> Path:
    """A study with an objective, which has spent something."""
    rates = {0: (100.0, 101.0, 99.0), 1: (190.0, 191.0, 189.0), 2: (80.0, 81.0, 79.0), 3: (150.0, 152.0, 148.0)}
    spec = validate.load_benchmark(yaml.safe_load(DECIDED)).spec
    plan = freeze(spec, plan_of_two_pools().pools, measured.AT)
    folder = results.ResultsFolder.create(path, study_text=DECIDED, plan=plan)
    again = audit.status_again(plan, measured.ledger(plan, rates), spec, measured.finished_status(plan, rates))
    status = again.model_copy(update={"spent": SPENT})
    folder.write(results.Summary(name="decided", uid="u", machine="here", status=status))
    return folder.path


def test_the_objective_its_best_and_what_was_spent_are_said(tmp_path: Path) -> None:
    html, md = written(tmp_path, decided(tmp_path / "decided"))
    found = pages.of_page(html).sentences
    assert found[1] == "Objective much: the least cost of 36,000,000 samples of mnist_cnn, within 200 hours."
    assert re.fullmatch(r"Best for it: own[^,]*, [12] workers? at batch 64: [\d.]+ h, USD [\d.]+\.", found[2]), found[2]
    assert any(sentence.startswith("Spent: about USD 12.31") for sentence in found)
    assert pages.of_page(html) == pages.of_markdown(md)


def test_nothing_is_said_of_money_where_none_was_spent(tmp_path: Path) -> None:
    html, _ = written(tmp_path, decided(tmp_path / "decided"), two_pools(tmp_path / "two"))
    assert sum(sentence.startswith("Spent: ") for sentence in pages.of_page(html).sentences) == 1


def test_a_study_file_that_is_gone_or_another_one_takes_no_figure_away(tmp_path: Path) -> None:
    folder = decided(tmp_path / "decided")
    before = results.in_folder(folder)
    assert before.spec is not None
    (folder / results.STUDY).write_text(DECIDED.replace("200", "300"))
    assert results.in_folder(folder).spec is None
    (folder / results.STUDY).unlink()
    after = results.in_folder(folder)
    assert (after.spec, after.status) == (None, before.status)
