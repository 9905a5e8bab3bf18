# SPDX-License-Identifier: Apache-2.0
"""The second half of `make mutants`: what no test in memory notices, tried with the programs that tests start.

Each such mutant is written into a copy of the code, where it also acts while a module is imported. The tests that reach
its function run there one after the other, the shortest first, at most SECONDS together, until one fails.
"""

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

RECORDER = Path(__file__).with_name("recorder")
#: Of the tests of one mutant, as long as they take in the unchanged code.
SECONDS = 60.0
#: A mutant may be slower, and two are tried at once; after so much it hangs.
PATIENCE = 4.0
STARTING = 60.0
_MADE = {"mutants", "recorder-0", "recorder-1", "copy-0", "copy-1", "programs.json"}
#: For what is called while modules are imported: the definitions are made there.
AT_IMPORT = "tests/artifacts/test_generated_files.py::test_committed_files_are_up_to_date"


class Reached(NamedTuple):
    """Which tests call which function, by the path and mangled name of the function, and how long a test takes."""

    tests: Mapping[tuple[str, str], set[str]]
    seconds: Mapping[str, float]  # of those that pass in a copy

    def by(self, path: str, function: str) -> list[str]:
        """The tests to run, the shortest first."""
        found, left = self.tests.get((path, function), set()), SECONDS
        taken = [AT_IMPORT] if "" in found and AT_IMPORT in self.seconds else []
        for test in sorted(found & {*self.seconds}, key=self.seconds.__getitem__):
            left -= self.seconds[test]
            if left < 0 and taken:
                break
            taken.append(test)
        return taken


class Memory:
    """What was learned of a test file, as long as it is the same, and which changes were noticed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "programs.json"
        known = json.loads(self._path.read_text()) if self._path.exists() else {}
        self.files: dict[str, dict[str, Any]] = known.get("files", {})  # by name: its hash, calls and seconds
        self.killed: dict[str, str] = known.get("killed", {})  # by the mutant's name: the hash of the module with it

    def save(self) -> None:
        self._path.write_text(json.dumps({"files": self.files, "killed": self.killed}))


def hash_of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()


def learned(folder: Path, tests: Iterable[str]) -> Reached:
    """Two runs of what is new: in mutmut's copy processes tell what they call; in another, tests take their time."""
    memory, asked = Memory(folder), dict[str, list[str]]()
    for test in tests:
        path = folder / test.partition("::")[0]
        for file in sorted(path.glob("test_*.py")) if path.is_dir() else [path]:
            name = str(file.relative_to(folder))
            asked.setdefault(name, []).append(test if "::" in test else name)
    now = {name: hash_of((folder / name).read_bytes()) for name in asked}
    new = [name for name in asked if memory.files.get(name, {}).get("hash") != now[name]]
    if new:
        calls, seconds = _run_and_told(folder, [test for name in new for test in asked[name]])
        at_import = [call for call in calls if not call[0]]  # belongs to no file
        memory.files[""] = {"calls": [*memory.files.get("", {}).get("calls", ()), *at_import]}
        for name in new:
            memory.files[name] = {
                "hash": now.get(name),
                "calls": [call for call in calls if call[0].partition("::")[0] == name],
                "seconds": {test: time for test, time in seconds.items() if test.partition("::")[0] == name},
            }
        memory.save()
    reached, took = defaultdict[tuple[str, str], set[str]](set), dict[str, float]()
    for name in ("", *asked):
        for test, path, function in memory.files.get(name, {}).get("calls", ()):
            reached[path, function].add(test)
        took |= memory.files.get(name, {}).get("seconds", {})
    return Reached(reached, took)


def _run_and_told(folder: Path, tests: list[str]) -> tuple[list[tuple[str, str, str]], dict[str, float]]:
    """Test, path and mangled name of the function of each call; and how long the tests take that pass in a copy."""
    copy, recorders = folder / "mutants", [folder / "recorder-0", folder / "recorder-1"]
    for recorder in recorders:
        shutil.rmtree(recorder, ignore_errors=True)
        shutil.copytree(RECORDER, recorder)

    def run(where: Path, recorder: Path) -> None:
        _pytest(where, tests, first=(where, recorder), options=("-p", "test_told"), seconds=None)

    with ThreadPoolExecutor(2) as pool:
        [*pool.map(run, (copy, _copy(folder, 1)), recorders)]
    calls = []
    for line in (recorders[0] / "reached").read_text().splitlines():
        test, path, name = line.split("\t")
        calls.append((test, str(Path(path).resolve().relative_to(copy.resolve())), name.removesuffix("__mutmut_orig")))
    return calls, json.loads((recorders[1] / "seconds.json").read_text())


def _copy(folder: Path, number: int) -> Path:
    copy = folder / f"copy-{number}"
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(
        folder, copy, symlinks=True, ignore=lambda where, names: _MADE & {*names} if where == str(folder) else set()
    )
    return copy


def killed(folder: Path, mutants: Mapping[str, tuple[str, str, list[str]]]) -> dict[str, bool]:
    """Of each mutant, by its name: its module's path, the module's text with it, and the tests to run."""
    memory, copies = Memory(folder), [_copy(folder, number) for number in range(2)]
    free = list(copies)

    def is_killed(item: tuple[str, tuple[str, str, list[str]]]) -> tuple[str, bool]:
        name, (path, text, tests) = item
        if memory.killed.get(name) == hash_of(text.encode()):
            return name, True
        copy = free.pop()
        original = (copy / path).read_text()
        try:
            (copy / path).write_text(text)
            failed = _pytest(copy, tests, first=(copy,), options=("-x",), seconds=STARTING + PATIENCE * SECONDS) != 0
        finally:
            (copy / path).write_text(original)
            free.append(copy)
        print(f"{'killed' if failed else 'lives '} {name}", flush=True)
        if failed:
            memory.killed[name] = hash_of(text.encode())
            memory.save()
        return name, failed

    with ThreadPoolExecutor(len(copies)) as pool:
        return dict(pool.map(is_killed, mutants.items()))


def _pytest(
    where: Path, tests: list[str], *, first: tuple[Path, ...], options: tuple[str, ...], seconds: float | None
) -> int:
    """pytest's exit code; that of a hang is a signal's."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, first)), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", *options, *tests]
    with subprocess.Popen(
        command,
        cwd=where,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as run:
        try:
            return run.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, 9)
            return -9


def written_into(source: str, mangled: str, changed: str) -> str:
    """A module's text with one function in place of another: `x_name`, or of a class with its name between marks."""
    class_name, _, name = mangled.removeprefix("x").removeprefix("_").strip("\u01c1").rpartition("\u01c1")
    holders = [node for node in ast.parse(source).body if isinstance(node, ast.ClassDef) and node.name == class_name]
    inside = holders[0].body if class_name else ast.parse(source).body
    old = next(node for node in _functions(inside) if node.name == name)
    new = next(_functions(ast.parse(changed).body))
    lines, text = source.splitlines(), changed.splitlines()[new.lineno - 1 : new.end_lineno]
    text[0] = text[0].replace(mangled, name, 1)
    assert old.end_lineno is not None
    lines[old.lineno - 1 : old.end_lineno] = textwrap.indent("\n".join(text), " " * old.col_offset).splitlines()
    return "\n".join(lines) + "\n"


def _functions(nodes: Iterable[ast.stmt]) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
