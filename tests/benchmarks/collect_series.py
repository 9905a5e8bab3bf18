# SPDX-License-Identifier: Apache-2.0
"""Writes real_series.json: histories of public benchmarks, from git directories of the repositories that publish them.

    python tests/benchmarks/collect_series.py DIR... > tests/benchmarks/real_series.json

Each DIR is a git directory in a folder that is named OWNER+NAME. Read is every data.js of github-action-benchmark that
the branches of pages hold: its newest version that is there, for a snapshot may lack large files. Only owners from a to
m count. Of repositories that share commits, forks mostly, the one with the most runs is kept.

Kept are series of times and rates with at least 100 runs, no value at or below zero, and more than one value: the
newest 300 runs of at most 8 series a repository, drawn by a fixed seed. Nothing is kept of people and commits.
"""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

COLLECTED = "2026-11-28"
RUNS_MIN, RUNS_MAX, SERIES_MAX = 100, 300, 8
_PAGES = re.compile(r"HEAD$|page|bench|perf|doc|data|site|web", re.IGNORECASE)
_TIME = re.compile(r"(.*\()?([nuµμm]|nano|micro|milli)?(s|secs?|seconds?)\)?( ?/ ?\w+)?", re.IGNORECASE)
_RATE = re.compile(r".*(/ ?([num]?s|sec|second)|[a-z]ps|per second)", re.IGNORECASE)


class Found(NamedTuple):
    """The histories of one repository."""

    repository: str
    sources: list[dict[str, str]]
    series: list[dict[str, Any]]
    commits: set[str]


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(["git", f"--git-dir={directory}", *arguments], capture_output=True, check=False)
    return done.stdout.decode(errors="replace")


def files(directory: Path) -> Iterator[tuple[str, str, str]]:
    """Path, commit and text of the newest data.js of each path that is there."""
    seen = set()
    refs = ["HEAD", *git(directory, "for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes").split()]
    for ref in filter(_PAGES.search, refs):
        for path in git(directory, "ls-tree", "-r", "--name-only", ref).splitlines():
            if path.rpartition("/")[2] != "data.js" or path in seen:
                continue
            for commit in git(directory, "log", "--format=%H", "--max-count=2000", ref, "--", path).split():
                text = git(directory, "cat-file", "blob", f"{commit}:{path}")
                if text:
                    if "BENCHMARK_DATA" in text[:200]:
                        seen.add(path)
                        yield path, commit, text
                    break


def direction(tool: str, unit: str) -> int:
    """1 for a rate, -1 for a time, 0 for what is neither, or where tool and unit disagree."""
    is_time, is_rate = _TIME.fullmatch(unit) is not None, _RATE.fullmatch(unit) is not None
    match tool:
        case "jmh":
            return is_rate - is_time
        case "benchmarkjs" | "pytest" | "customBiggerIsBetter":
            return int(is_rate and not is_time)
        case "cargo" | "go" | "googlecpp" | "catch2" | "julia" | "benchmarkdotnet" | "customSmallerIsBetter":
            return -int(is_time and not is_rate)
    return 0


def of_repository(directory: Path) -> Found:
    folder = next(part for part in reversed(directory.resolve().parts) if "+" in part)
    repository = folder.replace("+", "/", 1)
    sources, every, commits = [], [], set()
    for path, commit, text in files(directory):
        try:
            entries = json.loads(text[text.index("{") : text.rindex("}") + 1])["entries"]
            kept = [one for suite, runs in entries.items() for one in of_suite(suite, runs)]
        except (ValueError, KeyError, TypeError, AttributeError):  # a file that another program wrote
            continue
        every += [{"repository": repository, "path": path, **one} for one in kept]
        sources.append({"repository": repository, "path": path, "commit": commit})
        commits |= {run["commit"]["id"] for runs in entries.values() for run in runs}
    unique = {tuple(one["values"]): one for one in every}
    series = sorted(unique.values(), key=lambda one: (one["path"], one["suite"], one["bench"]))
    drawn = random.Random(repository).sample(series, min(SERIES_MAX, len(series)))
    used = {one["path"] for one in drawn}
    return Found(repository, [one for one in sources if one["path"] in used], drawn, commits)


def of_suite(suite: str, runs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    by_bench: dict[tuple[str, str, str], dict[int, float]] = {}
    for run in sorted(runs, key=lambda one: one["date"]):
        for bench in run["benches"]:
            # Older versions of the action put all that Go measured into the unit; newer ones name the time twice.
            unit = (bench.get("unit") or "").partition("\t")[0]
            name = bench["name"].removesuffix(" - ns/op") if run["tool"] == "go" else bench["name"], run["tool"], unit
            if isinstance(bench["value"], int | float):
                by_bench.setdefault(name, {}).setdefault(run["date"], bench["value"])
    for (bench, tool, unit), values in by_bench.items():
        newest = list(values.items())[-RUNS_MAX:]
        sign = direction(tool, unit)
        speeds = [float(f"{value:.6g}") for _, value in newest]
        if sign and len(newest) >= RUNS_MIN and min(speeds) > 0 and len(set(speeds)) > 1:
            names = {"suite": suite, "bench": bench, "tool": tool, "unit": unit}
            times = [at // 1000 for at, _ in newest]
            yield {**names, "more_is_better": sign > 0, "times": times, "values": speeds}


def main() -> int:
    found = [of_repository(Path(one)) for one in sys.argv[1:]]
    kept: list[Found] = []
    for one in sorted(found, key=lambda one: (-len(one.commits), one.repository)):
        is_copy = any(one.commits & other.commits for other in kept)
        if one.series and not is_copy and "a" <= one.repository[0].lower() <= "m":
            kept.append(one)
    kept.sort(key=lambda one: one.repository)
    head = {
        "what": "Numbers from the public data.js of github-action-benchmark: facts, no names of people or commits.",
        "collected": COLLECTED,
        "sources": [source for one in kept for source in one.sources],
    }
    lines = [json.dumps(one, separators=(",", ":")) for found in kept for one in found.series]
    print(f'{{"head":{json.dumps(head, separators=(",", ":"))},\n"series":[\n' + ",\n".join(lines) + "\n]}")
    print(f"{len(lines)} series of {len(kept)} repositories", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
