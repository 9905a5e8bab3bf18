# SPDX-License-Identifier: Apache-2.0
"""`make gpu-check` without a GPU: its order, what is run again, what fails, what is missing, and the words of its page.

Programs that need torch stand still here. NVML and nvidia-smi are stand-ins; the program under `gpubench run` is
the example of the studies.
"""

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "gpu"))
import gpu_check  # noqa: E402  # found on the path set above
import gpu_findings  # noqa: E402
import gpu_steps  # noqa: E402

FOUND = """
import json, subprocess, sys, time
from pathlib import Path
out = next(one for one in sys.argv if one.startswith("--out=")).partition("=")[2]
def find(**found): Path(out).write_text(json.dumps(found))
with open("journal", "a") as journal: journal.write(NAME + "\\n")
"""
HAS = 'find(facts={"has": ["a GPU"], "card": "T4"})'
FIGURES = 'find(figures=[{"name": "fused", "unit": "images/s", "values": [9.0, 10.0, 11.0]}])'
WAITS = 'Path("begun").touch()\nwhile not Path("go").exists(): time.sleep(0.01)'
HANGS = f'{FIGURES}\nprint(subprocess.Popen(["sleep", "1000"]).pid)\ntime.sleep(1000)'
Made = Callable[..., Any]
REAL = {one.name: one for one in gpu_check.STEPS}


def step(name: str, body: str, seconds: float = 60, needs: tuple[str, ...] = ()) -> Any:
    return gpu_check.Step(
        name, f"shows {name}", [sys.executable, "-c", f"NAME = {name!r}{FOUND}{body}"], seconds, needs
    )


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def checked(*steps: Any, again: tuple[str, ...] = ()) -> tuple[int, str]:
    code = gpu_check.check(Path("results"), (step("environment", HAS), *steps), again=again)
    return code, Path("results/page.md").read_text()


def journal() -> list[str]:
    return Path("journal").read_text().split()


def test_a_step_that_fails_or_lacks_something_holds_up_none() -> None:
    code, page = checked(
        step("fails", 'print("the card is gone")\nsys.exit(3)', needs=("a GPU",)),
        step("twins", FIGURES, needs=("a GPU", "two GPUs")),
        step("last", FIGURES),
    )
    assert code == 1
    assert journal() == ["environment", "fails", "last"]
    assert "| fails | shows fails | failed: ended with 3 |" in page
    assert "    the card is gone\n" in page
    assert "| twins | shows twins | not run: needs two GPUs |  |" in page
    assert "| fused | 10 [7.8, 12.82] | images/s | 3 |" in page  # t of 2 degrees of freedom: 4.303
    assert "Done: last." in page
    assert "- card: T4\n" in page


def test_at_its_limit_a_step_is_ended_with_all_that_it_has_started() -> None:
    code, page = checked(step("hangs", HANGS, seconds=3), step("last", ""))
    assert code == 1
    assert "| hangs | shows hangs | failed: ended after 3 s, its limit |" in page
    assert "| fused | 10 [7.8, 12.82] |" in page  # found before
    await_end(int(json.loads(Path("results/hangs.json").read_text())["tail"][0]))
    assert journal()[-1] == "last"


def test_what_was_interrupted_is_run_again_and_what_has_ended_is_not() -> None:
    steps = f"({', '.join(repr(tuple(one)) for one in (step('environment', HAS), step('a', ''), step('b', WAITS)))})"
    program = f"""import signal, sys; from pathlib import Path; import gpu_check
signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
sys.exit(gpu_check.check(Path("results"), [gpu_check.Step(*one) for one in {steps}]))"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests" / "gpu")}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as runner:
        while not Path("begun").exists():
            assert runner.poll() is None
            time.sleep(0.01)
        runner.send_signal(signal.SIGTERM)
    assert runner.returncode == signal.SIGTERM
    assert not Path("results/b.json").exists()
    Path("go").touch()
    assert checked(step("a", ""), step("b", WAITS), step("c", ""))[0] == 0
    assert journal() == ["environment", "a", "b", "environment", "b", "c"]
    Path("results/a.json").write_text('{"outcome": "do')  # cut off
    checked(step("a", ""), step("b", ""), step("c", ""), again=("c",))
    assert journal()[6:] == ["environment", "a", "c"]


def test_no_step_is_begun_that_may_outlast_the_call() -> None:
    gpu_check.check(Path("results"), (step("environment", HAS, 5), step("long", "", 100)), minutes=1)
    assert "not run: needs 100 s, and " in Path("results/page.md").read_text()
    assert "Nothing was done on a GPU." in Path("results/page.md").read_text()
    assert checked(step("long", ""))[0] == 0
    assert journal() == ["environment", "environment", "long"]


def test_a_folder_takes_no_figures_of_another_machine() -> None:
    checked(step("last", FIGURES))
    with pytest.raises(SystemExit, match="results has results with another card: choose another folder"):
        gpu_check.check(Path("results"), (step("environment", HAS.replace("T4", "L4")), step("last", FIGURES)))


def test_contenders_take_turns_and_cases_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    findings, clock, turns = gpu_findings.Findings(Path("found.json")), [0.0], list[str]()
    monkeypatch.setattr("gpu_findings.time.monotonic", lambda: clock[0])

    def block(name: str, rate: float) -> Callable[[], float]:
        def run() -> float:
            turns.append(name)
            return rate

        return run

    for case in findings.in_time(["a", "b", "c"], 25):
        findings.contest(case, "images/s", {"ours": block("ours", 3.0), "bare": block("bare", 2.0)})
        clock[0] += 10
    assert turns[:8] == ["bare", "ours", "ours", "bare"] * 2
    found = json.loads(Path("found.json").read_text())
    assert found["ratios"][1] == {"name": "b: ours / bare", "unit": "ratio", "values": [1.5] * 8}
    assert found["facts"] == {"not measured, for no time was left": ["c"]}
    ratio = gpu_check.with_intervals({"ratios": [{"unit": "ratio", "values": [1.0, 2.0, 4.0]}]})["ratios"][0]
    assert ratio["mean"] == pytest.approx(2.0)  # of logarithms
    assert ratio["low"] * ratio["high"] == pytest.approx(4.0)


def test_only_packages_that_are_missing_are_unpacked() -> None:
    for name in ("absent_package", "pydantic"):
        with zipfile.ZipFile(f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}/__init__.py", "")
    gpu_check.unpack(sorted(Path().glob("*.whl")), Path("site"))
    assert [one.name for one in Path("site").iterdir()] == ["absent_package"]


def test_the_real_steps_stay_within_25_minutes_and_name_only_needs_that_can_be_met() -> None:
    assert sum(one.seconds for one in gpu_check.STEPS) <= 25 * 60
    known = "'a GPU' 'two GPUs'" + "".join(gpu_steps.QUESTIONS.values())
    assert all(repr(need) in known for one in gpu_check.STEPS for need in one.needs)


@pytest.fixture
def nvidia(monkeypatch: pytest.MonkeyPatch) -> Made:
    """A P100 by stand-ins of NVIDIA's libraries and of nvidia-smi, which says what it is given."""

    def made(watts: str) -> None:
        for source, library in {"libcuda.c": "libcuda.so.1", "nvidia_ml.c": "libnvidia-ml.so.1"}.items():
            path = Path(__file__).parent / "stand_ins" / source
            subprocess.run(["cc", "-shared", "-fPIC", "-o", library, path], check=True)
        columns = (
            f"{watts}, 4096, 64, 250.00, 1328, 715, 16384, 1189, 715, P0, 97, Not Active, Active{', Not Active' * 6}"
        )
        program = f"""#!/bin/sh
case "$*" in
-L) echo "GPU 0: Tesla P100-PCIE-16GB (UUID: GPU-8eaaebb8)";;
*clocks_event*) exit 2;;
*--id=GPU-8eaaebb8-bb64-8489-fda2-000000000001*clocks_throttle_reasons.gpu_idle*) echo "{columns}";;
*) echo "Tesla P100-PCIE-16GB, 470.57.02, 16384 MiB, 6.0, 250.00 W";;
esac"""
        Path("nvidia-smi").write_text(program)
        Path("nvidia-smi").chmod(0o755)
        monkeypatch.setenv("PATH", f"{Path.cwd()}:{os.environ['PATH']}")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(Path.cwd()))
        monkeypatch.setenv("STAND_IN_CARD", "p100")
        monkeypatch.setenv("STAND_IN_REASONS", "0x2")

    return made


@pytest.mark.parametrize(("watts", "outcome"), [("243.10", "done"), ("24.31", "failed")])
def test_nvml_beside_nvidia_smi(nvidia: Made, watts: str, outcome: str) -> None:
    nvidia(watts)
    checked(REAL["nvml"])
    found = json.loads(Path("results/nvml.json").read_text())
    assert found["outcome"] == outcome, found
    assert [one["name"] for one in found["checks"] if not one["holds"]] == ["power.draw, idle"] * (outcome == "failed")
    assert [one["found"] for one in found["checks"]][-1] == ["applicationsclockssetting"]
    assert found["facts"]["without LD_LIBRARY_PATH"].startswith("no figures of the GPU: ")
    assert found["facts"]["loaded"] == "not run: needs torch"


def test_what_this_machine_has_and_lacks(nvidia: Made) -> None:
    nvidia("243.10")
    gpu_check.check(Path("results"), (REAL["environment"]._replace(seconds=600), REAL["ranks"]))
    page = Path("results/page.md").read_text()
    assert "Tesla P100-PCIE-16GB, 470.57.02, 16384 MiB, 6.0, 250.00 W" in page
    assert "not run: needs TensorFlow with CUDA and two GPUs |" in page  # Horovod and gpubench's packages are there


def test_the_harness_beside_the_same_program_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_steps, "TORCH", (sys.executable, str(ROOT / "jobs" / "examples" / "own" / "train.py")))
    monkeypatch.setattr(gpu_steps, "MEASURE_SECONDS", 1)
    options = Namespace(out=Path("harness.part"), program="harness", resource="", batch=32, torch="")
    assert gpu_steps.harness(options) == 0
    found = json.loads(Path("harness.part").read_text())
    assert [len(one["values"]) for one in found["figures"]] == [3, 3, 6]
    assert len(found["ratios"][0]["values"]) == 6
    assert "# " in Path("harness.results3/report.md").read_text()


def await_end(process: int) -> None:
    deadline = time.monotonic() + 30
    while Path(f"/proc/{process}").exists() and "State:\tZ" not in Path(f"/proc/{process}/status").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_page_of_the_h200_is_made_of_its_files() -> None:
    folder = ROOT / "tests" / "gpu" / "h200"
    found = gpu_check.results(folder)
    assert (folder / "page.md").read_text() == "\n".join(gpu_check.page(found)) + "\n"
    for one in found:  # the intervals are those of the values
        again = gpu_check.with_intervals(json.loads(json.dumps(one)))
        assert [again.get(kind) for kind in ("figures", "ratios")] == [one.get(kind) for kind in ("figures", "ratios")]
