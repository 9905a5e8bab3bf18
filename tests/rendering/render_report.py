# SPDX-License-Identifier: Apache-2.0
"""A report in a real browser, at the width of a desk and of a phone: pictures, and what must hold of a page.

    render_report.py [FOLDER...] [--out DIR]

Without a FOLDER it takes the real runs beside the tests. Asserted at both widths: the page does not scroll sideways,
nor does anything in it; no letter of a chart is cut off, and none lies on another one. Needs chromium (Debian's will
do); it is started without a network. A browser's window cannot be as narrow as a phone, so the page is shown in a frame
of that width, which is what its style sheet sees.
"""

import argparse
import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image

from gpubench_cli import __main__ as program

WIDTHS = (1440, 390)
_WINDOW_MIN = 500  # pixels; chromium makes no window narrower
_HEIGHT_MAX = 16_000  # of a picture
_REAL_RUNS = Path(__file__).parents[1] / "cli/recorded_results"
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
  const found = {width: root.clientWidth, scrollWidth: root.scrollWidth, wide: [], cut: [], overlapping: []};
  for (const element of page.querySelectorAll("body *")) {
    if (element.closest("svg, thead")) continue;
    const clips = getComputedStyle(element).overflowX !== "visible" && element.scrollWidth > element.clientWidth + 1;
    if (clips || element.getBoundingClientRect().right > root.clientWidth + 1)
      found.wide.push(element.tagName + ": " + element.textContent.trim().slice(0, 60));
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
  found.smallest = Math.min(...sizes);
  const said = document.createElement("pre");
  said.id = "found";
  said.textContent = JSON.stringify(found);
  document.body.append(said);
});
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--out", type=Path, default=_OUT)
    chosen = parser.parse_args()
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        print("this needs a browser: install chromium (Debian: apt-get install chromium)", file=sys.stderr)
        return 2
    chosen.out.mkdir(parents=True, exist_ok=True)
    page = chosen.out / "report.html"
    folders = chosen.folders or sorted(_REAL_RUNS.iterdir())
    written = program.main(
        ("report", *map(str, folders), "--out", str(page), "--markdown", str(page.with_suffix(".md")))
    )
    if written:
        return written
    return max([_at_width(browser, page, width) for width in WIDTHS])


def _at_width(browser: str, page: Path, width: int) -> int:
    """A picture of the page; 1 where something does not hold."""
    found = _probe(browser, page, width)
    problems = [f"it scrolls sideways: {found['scrollWidth']} pixels"] if found["scrollWidth"] > width else []
    for name, what in (("wide", "too wide"), ("cut", "cut off"), ("overlapping", "on each other")):
        problems += [f"{what}: {one}" for one in found[name][:20]]
    for problem in problems:
        print(f"{width} pixels: {problem}", file=sys.stderr)
    picture = page.with_name(f"report-{width}.png")
    _picture(browser, page, picture, width=width, height=found["height"])
    print(
        f"{picture}: {width} x {found['height']} pixels, scrolls to {found['scrollWidth']}; the smallest letters of a "
        f"chart have {found['smallest']:.1f} pixels"
    )
    return 1 if problems else 0


def _probe(browser: str, page: Path, width: int) -> dict[str, Any]:
    dumped = _browse(browser, "--dump-dom", _frame(page, width=width, height=900, script=_PROBE)).decode()
    told = re.search(r'<pre id="found">(.*?)</pre>', dumped, re.DOTALL)
    if told is None:
        raise RuntimeError(f"the browser said nothing of {page} at {width} pixels")
    found: dict[str, Any] = json.loads(html.unescape(told[1]))
    assert found["width"] == width, "the page is shown at the width that it is asked for"
    return found


def _picture(browser: str, page: Path, picture: Path, *, width: int, height: int) -> None:
    height = min(height, _HEIGHT_MAX)
    window = f"--window-size={max(width, _WINDOW_MIN)},{height}"
    _browse(browser, f"--screenshot={picture.absolute()}", window, _frame(page, width=width, height=height, script=""))
    with Image.open(picture) as taken:
        taken.crop((0, 0, width, height)).convert("P", palette=Image.Palette.ADAPTIVE).save(picture, optimize=True)


def _frame(page: Path, *, width: int, height: int, script: str) -> str:
    """A page that shows the report in a frame of this width."""
    content = html.escape(page.read_text(encoding="utf-8"), quote=True)
    return (
        '<!DOCTYPE html><meta charset="utf-8"><style>body{margin:0}iframe{border:0;display:block}</style>'
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
