# SPDX-License-Identifier: Apache-2.0
"""Reports in a real browser, at the width of a desk and of a phone, light and dark: pictures, and what must hold.

    render_report.py [FOLDER...] [--out DIR] [--pictures DIR]

Without a FOLDER it takes own results and imported ones. Asserted each time: the page does not scroll sideways, nor does
anything in it; no letter of a chart is cut off, and none lies on another one; a long table is sorted and filtered.
Lighthouse finds the page accessible, with all that is folded opened. `--pictures` are those of the gallery: the upper
part of a page. Needs chromium (Debian's will do), which is started without a network, and npm's lighthouse beside this
file. A browser's window cannot be as narrow as a phone, so the page is shown in a frame of that width, which is what
its style sheet sees.
"""

import argparse
import contextlib
import functools
import html
import http.server
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from gpubench_cli import __main__ as program

WIDTHS = (1440, 390)
SCHEMES = {"light": (), "dark": ("--force-dark-mode",)}
ACCESSIBILITY_MIN = 95  # of 100
_WINDOW_MIN = 500  # pixels; chromium makes no window narrower
_HEIGHT_MAX = 16_000  # of a picture
_PICTURED = {1440: 1250, 390: 1600}  # the height of a picture for the gallery
_ROOT = Path(__file__).parents[2]
_OWN = _ROOT / "tests/cli/recorded_results"
#: Imported figures: the GPUs of today, and a publication that left most of its figures out.
_IMPORTED = {"imported": "studies/published/mlperf-2025", "unpublished": "studies/parkopedia-2018"}
_LIGHTHOUSE = Path(__file__).parent / "lighthouse/node_modules/.bin/lighthouse"
_OUT = Path(".run/report")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
    "--virtual-time-budget=20000",
)
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: What the browser says of the page: boxes are rounded, so a pixel is none.
_PROBE = """
addEventListener("load", () => {
  const page = document.getElementById("page").contentDocument, root = page.documentElement;
  for (const image of page.querySelectorAll("figure img")) {  // its letters can be measured in the page only
    const bytes = Uint8Array.from(atob(image.src.split(",")[1]), (one) => one.charCodeAt(0));
    const drawn = new DOMParser().parseFromString(new TextDecoder().decode(bytes), "image/svg+xml").documentElement;
    const chart = page.importNode(drawn, true);
    for (const side of ["width", "height"]) chart.removeAttribute(side);
    chart.style.width = image.getBoundingClientRect().width + "px";
    image.replaceWith(chart);
  }
  const found = {width: root.clientWidth, scrollWidth: root.scrollWidth};
  for (const name of ["wide", "broken", "cut", "overlapping"]) found[name] = [];
  for (const element of page.querySelectorAll("body *")) {
    if (element.closest("svg, thead")) continue;
    const clips = getComputedStyle(element).overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1;
    if (clips || element.getBoundingClientRect().right > root.clientWidth + 1)
      found.wide.push(element.tagName + ": " + element.textContent.trim().slice(0, 60));
  }
  for (const cell of page.querySelectorAll("thead th, td.number")) {
    const texts = page.createTreeWalker(cell, NodeFilter.SHOW_TEXT), range = page.createRange();
    while (texts.nextNode())
      for (const word of texts.currentNode.data.matchAll(/\\S+/g)) {
        range.setStart(texts.currentNode, word.index);
        range.setEnd(texts.currentNode, word.index + word[0].length);
        if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) found.broken.push(word[0]);
      }
  }
  const within = (box, frame) => box.left > frame.left - 1 && box.right < frame.right + 1 &&
    box.top > frame.top - 1 && box.bottom < frame.bottom + 1;
  const meet = (box, other) => box.left < other.right - 1 && other.left < box.right - 1 &&
    box.top < other.bottom - 3 && other.top < box.bottom - 3;
  const sizes = [];
  for (const chart of page.querySelectorAll("figure svg")) {
    const frame = chart.getBoundingClientRect(), boxes = [], name = chart.parentElement.querySelector("h3").textContent;
    for (const text of chart.querySelectorAll("text")) {
      const box = text.getBoundingClientRect();
      if (!within(box, frame)) found.cut.push(name + ": " + text.textContent);
      for (const [other, said] of boxes)
        if (meet(box, other)) found.overlapping.push(name + ": " + said + " / " + text.textContent);
      boxes.push([box, text.textContent]);
      sizes.push(parseFloat(getComputedStyle(text).fontSize) * frame.width / chart.viewBox.baseVal.width);
    }
  }
  found.height = root.scrollHeight;
  found.smallest = sizes.length ? Math.min(...sizes) : null;
  const table = page.querySelector("table.long");
  if (table) {
    const heads = [...table.tHead.rows[0].cells], at = heads.findLastIndex((head) => head.className === "number");
    const rows = () => [...table.tBodies[0].rows], figures = () => rows().map((row) => row.cells[at].textContent);
    found.orders = [0, 1].map(() => (heads[at].querySelector("button").click(), figures()));
    const filter = table.parentElement.querySelector("input");
    filter.value = figures()[0];
    filter.dispatchEvent(new Event("input"));
    const asked = (row) => filter.value.split(" ").every((word) => row.textContent.includes(word));
    found.filtered = [rows().filter(asked).length, rows().filter((row) => row.checkVisibility() !== asked(row)).length];
  }
  const said = document.createElement("pre");
  said.id = "found";
  said.textContent = JSON.stringify(found);
  document.body.append(said);
});
"""


class _Server(http.server.SimpleHTTPRequestHandler):
    """Without a line for each request."""

    def log_message(self, *_: Any) -> None:
        pass


class Report(NamedTuple):
    """A page as it is written, and one with everything opened."""

    name: str
    page: Path
    opened: Path


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=_OUT)
    parser.add_argument("--pictures", type=Path)
    chosen = parser.parse_args()
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print("this needs a browser: install chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 2
    chosen.out.mkdir(parents=True, exist_ok=True)
    problems = 0
    for report in _written(chosen.out, chosen.folders):
        for scheme in SCHEMES:
            for width in WIDTHS:
                problems += _at_width(browser, report, width, scheme, pictures=chosen.pictures)
            problems += _accessibility(browser, report, scheme)
    return 1 if problems else 0


def _written(out: Path, folders: list[Path]) -> Iterator[Report]:
    own = {"own": [_OWN / "quickstart"], "several": sorted(_OWN.iterdir())}
    with tempfile.TemporaryDirectory() as place:
        wanted = {"report": folders} if folders else own | {name: [Path(place) / name] for name in _IMPORTED}
        for name, shown in wanted.items():
            if name in _IMPORTED:
                study = _ROOT / "jobs" / _IMPORTED[name]
                figures = _ROOT / "jobs/studies/published" / f"{study.name}.csv"
                _run("import", f"{study}.yaml", figures, "--out", *shown)
            page, opened = (out / f"{name}{end}.html" for end in ("", "-opened"))
            _run("report", *shown, "--out", page, "--markdown", page.with_suffix(".md"))
            opened.write_text(page.read_text(encoding="utf-8").replace("<details>", "<details open>"), encoding="utf-8")
            yield Report(name, page, opened)


def _run(*arguments: str | Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        code = program.main(tuple(map(str, arguments)))
    if code:
        sys.exit(code)


def _at_width(browser: str, report: Report, width: int, scheme: str, *, pictures: Path | None) -> int:
    """A picture of the page; how many things do not hold."""
    found = _probe(browser, report.opened, width, scheme)
    problems = [f"it scrolls sideways: {found['scrollWidth']} pixels"] if found["scrollWidth"] > width else []
    for name, what in (
        ("wide", "too wide"),
        ("broken", "broken inside of a word"),
        ("cut", "cut off"),
        ("overlapping", "on each other"),
    ):
        problems += [f"{what}: {one}" for one in found[name][:20]]
    for figures, last in zip(found.get("orders", ()), (False, True), strict=False):
        numbers = [float(number[0].replace(",", "")) for one in figures if (number := re.search(r"\d[\d,.]*", one))]
        if numbers != sorted(numbers, reverse=last):
            problems.append(f"not sorted: {figures}")
    asked, wrong = found.get("filtered", (1, 0))
    problems += [f"the filter is wrong for {wrong} rows; {asked} are asked for"] if wrong or not asked else []
    for problem in problems:
        print(f"{report.name}, {width} pixels, {scheme}: {problem}", file=sys.stderr)
    picture = report.page.with_name(f"{report.name}-{width}-{scheme}.png")
    _picture(browser, report.page, picture, width=width, height=found["height"], scheme=scheme)
    if pictures is not None and report.name in ("own", "imported"):
        with Image.open(picture) as taken:
            taken.crop((0, 0, width, _PICTURED[width])).save(pictures / f"report-{picture.name}", optimize=True)
    print(
        f"{picture}: {width} pixels, scrolls to {found['scrollWidth']}; smallest letter of a chart {found['smallest']}"
    )
    return len(problems)


def _accessibility(browser: str, report: Report, scheme: str) -> int:
    """1 where Lighthouse gives less than the bound; it reads no files, so the page is served on loopback."""
    handler = functools.partial(_Server, directory=report.opened.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server, tempfile.TemporaryDirectory() as place:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        flags = " ".join((*_FLAGS[:3], *SCHEMES[scheme]))
        address, judged = f"http://127.0.0.1:{server.server_port}/{report.opened.name}", Path(place) / "judged.json"
        command = [str(_LIGHTHOUSE), address, "--only-categories=accessibility", "--quiet", f"--chrome-flags={flags}"]
        output = ("--output=json", f"--output-path={judged}", *(["--preset=desktop"] if scheme == "dark" else []))
        subprocess.run([*command, *output], check=True, timeout=180, env={**os.environ, "CHROME_PATH": browser})
        server.shutdown()
        found = json.loads(judged.read_text(encoding="utf-8"))
    score = round(100 * found["categories"]["accessibility"]["score"])
    failed = [f"{name}: {audit['title']}" for name, audit in found["audits"].items() if audit["score"] == 0]
    print(f"{report.name}, {scheme}: accessibility {score} of 100{''.join(f'; {one}' for one in failed)}")
    return int(score < ACCESSIBILITY_MIN)


def _probe(browser: str, page: Path, width: int, scheme: str) -> dict[str, Any]:
    dumped = _browse(
        browser, "--dump-dom", *SCHEMES[scheme], _frame(page, width=width, height=900, script=_PROBE)
    ).decode()
    told = re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
    if told is None:
        raise RuntimeError(f"the browser said nothing of {page} at {width} pixels")
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    assert found["width"] == width, "the page is shown at the width that it is asked for"
    return found


def _picture(browser: str, page: Path, picture: Path, *, width: int, height: int, scheme: str) -> None:
    height = min(height, _HEIGHT_MAX)
    window = f"--window-size={max(width, _WINDOW_MIN)},{height}"
    content = _frame(page, width=width, height=height, script="")
    _browse(browser, f"--screenshot={picture.absolute()}", window, *SCHEMES[scheme], content)
    with Image.open(picture) as taken:
        shown = taken.convert("RGB").crop((0, 0, width, height))
        shown.quantize(128, Image.Quantize.FASTOCTREE).save(picture, optimize=True)


def _frame(page: Path, *, width: int, height: int, script: str) -> str:
    """A page that shows the report in a frame of this width."""
    content = html.escape(page.read_text(encoding="utf-8"), quote=True)
    return (
        '<!DOCTYPE html><meta charset="utf-8"><meta name="color-scheme" content="light dark">'
        "<style>body{margin:0}iframe{border:0;display:block}</style>"
        f"<script>{script}</script>"
        f'<iframe id="page" width="{width}" height="{height}" srcdoc="{content}"></iframe>'
    )


def _browse(browser: str, *arguments: str) -> bytes:
    """What the browser prints of the page that the last argument is."""
    *options, content = arguments
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "frame.html"
        place.write_text(content, encoding="utf-8")
        profile = f"--user-data-dir={folder}/profile"
        command = [browser, *_FLAGS, profile, *options, place.as_uri()]
        return subprocess.run(command, check=True, capture_output=True, timeout=120).stdout


if __name__ == "__main__":
    sys.exit(main())
