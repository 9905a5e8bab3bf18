# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: mutmut changes the product in one place at a time; which changes do the tests notice?

A mutant is run by the tests that call its function (`bounded`): those in memory, and where these notice nothing, those
of PROGRAMS with the programs that they start (`with_programs`). `stats` and `cost` are tried in full, of every other
package a sample drawn by SEED; `MUTANTS=all` tries all of everything. Not tried is what changes text alone
(`is_text`).
The share that was killed stands beside its Clopper-Pearson interval; what lived is written to survivors.md, where the
reason of each is kept from run to run, and the packages that were not tried. Ends with 1 where a package is below BAR,
or its interval below BAR_LOW.
"""

import argparse
import ast
import difflib
import functools
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import with_programs
from rich.console import Console
from rich.table import Table
from scipy import stats

ROOT = Path(__file__).resolve().parents[2]
SURVIVORS = Path(__file__).with_name("survivors.md")
SAMPLE, SAMPLE_OF_JOBS = 300, 100  # a mutant of the latter is tried with trainings, for up to a minute
BAR, BAR_LOW = 0.90, 0.85
#: Tried in full, then those that are sampled. Modules directly in gpubench are not tried.
IN_FULL = ("gpubench.stats", "gpubench.cost")
SAMPLED = (
    "gpubench.analysis", "gpubench.api", "gpubench.plan", "gpubench.report", "gpubench.schedule", "gpubench.scheduler",
    "gpubench_cli", "gpubench_operator", "gpubench_jobs.launcher", "gpubench_jobs.worker",
)  # fmt: skip
#: Of the repository's folders, the packages that lie at the root of the copy: mutmut names a mutant by its path.
PACKAGES = {
    "operator": ("gpubench", "gpubench_cluster", "gpubench_cli", "gpubench_operator"),
    "jobs": ("gpubench_jobs",),
}
#: Of tests/jobs those that load no TensorFlow, whose threads do not survive a fork.
_OF_JOBS = (
    "barrier", "checkpoint", "config", "exit_status", "last_words", "nccl",
    "pacing", "recording", "sampling", "strangers", "termination_message",
)  # fmt: skip
#: The others of tests/artifacts start programs when they are read.
_OF_ARTIFACTS = ("generated_files", "object_changes", "objects", "rules")
TESTS = (
    "tests/core",
    "tests/cli",
    *(f"tests/artifacts/test_{name}.py" for name in _OF_ARTIFACTS),
    "tests/operator_edge",
    *(f"tests/jobs/test_{name}.py" for name in _OF_JOBS),
)
#: Too slow for each of hundreds of mutants; and one whose names pytest does not find again, for their backslashes.
NOT_THESE = (
    "tests/core/test_decide.py::test_the_largest_study_ends_and_its_status_stays_small",
    "tests/core/test_drill.py::test_a_study_killed_between_any_two_writes_interrupts_the_same_pods_once_each",
    "tests/core/test_golden.py::test_a_wrong_formula_is_noticed",
    "tests/core/test_scaling_law.py::test_intervals_hold_a_published_count_that_was_left_out_as_often_as_they_say",
    "tests/operator_edge/test_crash_between_writes.py",
    "tests/operator_edge/test_analyst.py::test_an_analysis_of_the_worker_is_that_of_this_process",
    "tests/operator_edge/test_analyst.py::test_a_worker_that_is_ended_while_analyses_are_forgotten",
)
#: Tests that start programs, or act while modules are imported, by the package that they show.
PROGRAMS = {
    "gpubench.api": (with_programs.AT_IMPORT,),
    "gpubench_cli": (
        *(
            f"tests/cli/test_{name}.py"
            for name in ("local", "pod", "resume", "resumed_run", "bad_input", "machine", "cluster_commands")
        ),
        *(f"tests/operator_edge/test_{name}.py" for name in ("doctor", "on_a_cluster")),
    ),
    "gpubench_operator": tuple(
        f"tests/operator_edge/test_{name}.py" for name in ("drill", "gangs", "got", "hands", "main", "permissions")
    ),
    "gpubench_jobs.launcher": ("tests/jobs",),
    "gpubench_jobs.worker": ("tests/jobs",),
}
#: mutmut's exit codes: killed by a failed test, or by pytest's own end, or by time.
KILLED = frozenset({1, 3, 24, -24, 36, 152, 255})
NO_TEST = 33
UNEXPLAINED = "not looked at yet"
HEAD = """# Changes to the code that no test notices

Written by `make mutants`; the reasons are written by hand.
"""
_MANGLED = re.compile(r"__mutmut_\d+$")


class Mutant(NamedTuple):
    """One change: its name by mutmut, and where it is."""

    name: str
    path: str  # of the module, from the copy's root

    @property
    def function(self) -> str:
        return self.name.rpartition(".")[2]


def prepared(folder: Path) -> None:
    """The committed and uncommitted files as mutmut wants them; what did not change keeps its mutants."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    kept, changed = set[str](), set[str]()
    for name in listed.stdout.splitlines():
        top, _, rest = name.partition("/")
        to = rest if rest.partition("/")[0] in PACKAGES.get(top, ()) else name
        if not (ROOT / name).is_file():
            continue
        kept.add(to)
        target = folder / to
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_bytes() != (ROOT / name).read_bytes():
            shutil.copy(ROOT / name, target)  # now: newer than its mutants
            changed.add(to)
    for package in itertools.chain(*PACKAGES.values()):
        for path in (folder / package).rglob("*.py"):
            if str(path.relative_to(folder)) not in kept:
                path.unlink()
    for top, inside in PACKAGES.items():
        for package in inside:
            link = folder / top / package
            link.parent.mkdir(exist_ok=True)
            if not link.is_symlink():
                link.symlink_to(Path("..") / package)
    (folder / "pyproject.toml").write_text(_settings())
    _forget(folder / "mutants" / "mutmut-stats.json", changed)


def _forget(learned: Path, changed: set[str]) -> None:
    """What tests of these files call is learned again: mutmut knows a test by its name alone."""
    if not learned.exists():
        return
    known = json.loads(learned.read_text())
    seconds = known["duration_by_test"]
    tests = {test: seconds[test] for test in seconds if test.partition("::")[0] not in changed}
    known["duration_by_test"] = tests
    called = known["tests_by_mangled_function_name"]
    known["tests_by_mangled_function_name"] = {name: [one for one in by if one in tests] for name, by in called.items()}
    learned.write_text(json.dumps(known))


def _settings() -> str:
    """mutmut's, and those of pytest without what belongs to a whole run."""
    pytest = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    pytest["pythonpath"] = [".", *pytest["pythonpath"]]
    mutmut = {
        "source_paths": [*itertools.chain(*PACKAGES.values())],
        "only_mutate": [f"{package.replace('.', '/')}/*" for package in (*IN_FULL, *SAMPLED)],
        "also_copy": ["operator", "jobs", "charts", "dashboards", "docs", "Makefile", "README.md"],
        "pytest_add_cli_args": [
            "-q",
            "-p",
            "no:cacheprovider",
            "-p",
            "no_programs",
            *(f"--deselect={one}" for one in NOT_THESE),
        ],
        "pytest_add_cli_args_test_selection": list(TESTS),
        "timeout_multiplier": 5.0,
        "use_git_change_detection": False,
    }
    tables = {"tool.pytest.ini_options": pytest, "tool.mutmut": mutmut}
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
        for name, table in tables.items()
    )


def run_mutmut(folder: Path, names: Iterable[str]) -> None:
    """A run of these mutants. A name of none makes all mutants and learns which test calls what."""
    copy = folder / "mutants"
    environment = os.environ | {"PYTHONPATH": f"{copy}{os.pathsep}{copy / 'tests' / 'mutation'}", "PYTHONHASHSEED": "0"}
    bounded = Path(__file__).with_name("bounded.py")
    done = subprocess.run([sys.executable, bounded, "run", *names], cwd=folder, env=environment, check=False)
    if done.returncode not in (0, 1) or not (copy / "mutmut-stats.json").exists():
        raise SystemExit(f"mutmut ended with {done.returncode}")


def mutants(folder: Path, package: str) -> Iterator[Mutant]:
    """All of the package, in the order of their names."""
    for meta in sorted((folder / "mutants" / package.replace(".", "/")).glob("**/*.meta")):
        path = str(meta.relative_to(folder / "mutants")).removesuffix(".meta")
        yield from (Mutant(name, path) for name in sorted(_exit_codes(folder, path)))


def _exit_codes(folder: Path, path: str) -> dict[str, int | None]:
    codes: dict[str, int | None] = json.loads((folder / "mutants" / f"{path}.meta").read_text())["exit_code_by_key"]
    return codes


@functools.cache
class Sources:
    """The functions of one module as mutmut wrote them, by their mangled names."""

    def __init__(self, folder: Path, path: str) -> None:
        self._lines = (folder / "mutants" / path).read_text().splitlines()
        self._spans = json.loads((folder / "mutants" / f"{path}.spans").read_text())["spans"]

    def pair(self, mutant: Mutant) -> tuple[str, str]:
        """The function as it is, and as it was changed, both under one name."""
        return tuple(  # type: ignore[return-value]
            textwrap.dedent(self._of(name))
            for name in (_MANGLED.sub("__mutmut_orig", mutant.function), mutant.function)
        )

    def _of(self, name: str) -> str:
        first, last = self._spans[name]
        source = "\n".join(self._lines[first - 1 : last])
        return source.replace(name, name.partition("__mutmut_")[0], 1)


def is_text(original: str, changed: str) -> bool:
    """Whether only text differs.

    Text is a string with a blank in it, any string of an exception's or a warning's call, and any part of an f-string:
    sentences are read by people, and a test that pinned their letters would only repeat them. Keys are not text.
    """
    return ast.dump(_Mute().visit(ast.parse(original))) == ast.dump(_Mute().visit(ast.parse(changed)))


class _Mute(ast.NodeTransformer):
    """Puts the same text for any other."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("text") if isinstance(node.value, str) and " " in node.value else node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.JoinedStr:
        node.values = [part for part in node.values if not isinstance(part, ast.Constant)]
        return self.generic_visit(node)  # type: ignore[return-value]

    def visit_Raise(self, node: ast.Raise) -> ast.Raise:
        for one in ast.walk(node):
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                one.value = "text"
        return self.generic_visit(node)  # type: ignore[return-value]


def sample(package: str) -> int:
    return SAMPLE_OF_JOBS if package.startswith("gpubench_jobs.") else SAMPLE


def drawn(folder: Path, package: str, *, seed: int, most: int | None) -> list[Mutant]:
    """Mutants that change more than text: all of them, or a sample."""
    everything, taken = list(mutants(folder, package)), list[Mutant]()
    random.Random(f"{seed} {package}").shuffle(everything)
    for one in everything:
        if most is not None and len(taken) == most:
            break
        if not is_text(*Sources(folder, one.path).pair(one)):
            taken.append(one)
    return taken


class Outcome(NamedTuple):
    """What became of a package's mutants."""

    tried: int
    killed: int
    unreached: int
    alive: dict[str, str]  # by their name for mutmut: where, and the lines that differ

    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's, of 95 %; where all were tried it is what another sample of such code would show."""
        found = stats.binomtest(self.killed, self.tried).proportion_ci(0.95, "exact")
        return float(found.low), float(found.high)

    def texts(self) -> tuple[str, str]:
        """The share that was killed, and its interval."""
        low, high = self.interval()
        return f"{self.killed / self.tried:.1%}", f"{low:.1%} to {high:.1%}"


def outcome(folder: Path, chosen: list[Mutant], noticed: Mapping[str, bool]) -> Outcome:
    """`noticed`: of what lived in memory, whether a test with programs failed."""
    left = [one for one in alive(folder, chosen) if not noticed.get(one.name)]
    unreached = {one for one in left if _exit_codes(folder, one.path)[one.name] == NO_TEST and one.name not in noticed}
    lived = {one.name: _described(folder, one, is_reached=one not in unreached) for one in left}
    return Outcome(len(chosen), len(chosen) - len(lived), len(unreached), lived)


def alive(folder: Path, chosen: Iterable[Mutant]) -> list[Mutant]:
    """Those that no test in memory has killed yet: what was killed is not tried again while its module is the same."""
    codes = functools.cache(functools.partial(_exit_codes, folder))
    return [one for one in chosen if codes(one.path)[one.name] not in KILLED]


def noticed_by_programs(folder: Path, chosen: Mapping[str, list[Mutant]]) -> dict[str, bool]:
    """What lived in memory, and is called in a test with programs: whether one of these tests fails."""
    left = {package: alive(folder, found) for package, found in chosen.items() if package in PROGRAMS}
    if not any(left.values()):
        return {}
    tests = dict.fromkeys(test for package, found in left.items() if found for test in PROGRAMS[package])
    reached = with_programs.learned(folder, tests)
    trials = {}
    for one in itertools.chain(*left.values()):
        mangled = one.function.partition("__mutmut_")[0]
        if reaching := reached.by(one.path, mangled):
            text = with_programs.written_into(
                (folder / one.path).read_text(), mangled, Sources(folder, one.path).pair(one)[1]
            )
            trials[one.name] = (one.path, text, reaching)
    return with_programs.killed(folder, trials)


def _described(folder: Path, mutant: Mutant, *, is_reached: bool) -> str:
    before, after = (text.splitlines() for text in Sources(folder, mutant.path).pair(mutant))
    lines = [line for line in difflib.ndiff(before, after) if line.startswith(("- ", "+ "))]
    changed = " ".join(f"`{line[0]} {line[2:].strip()}`" for line in lines)
    where = mutant.name.partition("__mutmut_")[0].replace(".x_", ".").replace(".x\u01c1", ".").replace("\u01c1", ".")
    return f"`{where}` {changed}{'' if is_reached else ' (no test reaches it)'}"


def written(outcomes: Mapping[str, Outcome]) -> str:
    """The page of what lived. A reason stands behind its mutant, and stays while both lines do."""
    old = SURVIVORS.read_text() if SURVIVORS.exists() else ""
    sections = dict(section.split("\n\n", 1) for section in old.split("\n## ")[1:])
    reasons = dict(re.findall(r"^- (.*[`)]): (.*)$", old, re.MULTILINE))
    for package, found in outcomes.items():
        lived = sorted({f"- {one}: {reasons.get(one, UNEXPLAINED)}" for one in found.alive.values()})
        share, interval = found.texts()
        numbers = f"{found.killed} of {found.tried} were killed: {share} ({interval})."
        sections[package] = "\n".join((numbers, "", *lived, "") if lived else (numbers, ""))
    packages = (one for one in (*IN_FULL, *SAMPLED) if one in sections)
    return "\n".join((HEAD, *(f"## {one}\n\n{sections[one].strip()}\n" for one in packages)))


def main() -> int:
    """The table; 1 where a bar does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="every mutant of every package")
    parser.add_argument(
        "--package", action="append", choices=(*IN_FULL, *SAMPLED), help="these alone; the others' lines stay"
    )
    arguments = parser.parse_args()
    packages = arguments.package or (*IN_FULL, *SAMPLED)
    # mutmut keeps what it made of a file, mutated or not, as long as the file is the same.
    folder = ROOT / ".run" / "mutants"
    (folder / "mutants/tests/mutation").mkdir(parents=True, exist_ok=True)  # Python forgets for good what is not there
    prepared(folder)
    run_mutmut(folder, ["none"])
    full = packages if arguments.all else IN_FULL
    chosen = {
        one: drawn(folder, one, seed=arguments.seed, most=None if one in full else sample(one)) for one in packages
    }
    if names := [mutant.name for one in chosen.values() for mutant in alive(folder, one)]:
        run_mutmut(folder, names)
    noticed = noticed_by_programs(folder, chosen)
    outcomes = {package: outcome(folder, found, noticed) for package, found in chosen.items()}
    table = Table(title="Mutants")
    for column in ("package", "tried", "killed", "no test", "share", "95 %"):
        table.add_column(column, justify="left" if column == "package" else "right")
    for package, found in outcomes.items():
        numbers = (found.tried, found.killed, found.unreached, *found.texts())
        table.add_row(package, *map(str, numbers))
    Console(width=120).print(table)
    SURVIVORS.write_text(written(outcomes))
    held = (found.killed >= BAR * found.tried and found.interval()[0] >= BAR_LOW for found in outcomes.values())
    return 0 if all([*held]) else 1


if __name__ == "__main__":
    sys.exit(main())
