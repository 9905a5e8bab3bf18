# SPDX-License-Identifier: Apache-2.0
"""The self-check as a command: bounded, readable, and without a process left behind. No time is asserted."""

import json
import re
import sys
import time
from pathlib import Path

import pytest

from gpubench.measure.self_check import Clock, Gang, Order
from gpubench.measure.self_check import report as report_of
from gpubench_cli import __main__ as program
from gpubench_cli import machine, self_check
from gpubench_cli.refusal import Refusal

HERE = machine.Machine(name="here", cores=(0, 1), memory_bytes=2**30)
CLOCK = Clock(step_nanoseconds=40, reading_nanoseconds=55.0).to_json()


def order(seconds: float = 30.0) -> Order:
    return self_check.order_for(HERE, seconds=seconds)


def gang(second: float) -> str:
    return Gang(
        ranks=1, steps=10, samples=640, measured=(second,) * 3, bare=(1.0,) * 3, measured_processor=1, bare_processor=1
    ).to_json()


def program_that(*statements: str) -> tuple[str, ...]:
    return (sys.executable, "-c", "\n".join(("import os, sys, time", *statements)))


def saying(*lines: str) -> tuple[str, ...]:
    return program_that(*(f"print({line!r}, flush=True)" for line in lines))


def test_a_machine_with_room_runs_two_ranks_first_and_a_small_one_does_not() -> None:
    assert order().gangs == (2, 1)
    alone = HERE.model_copy(update={"cores": (0,)})
    assert self_check.order_for(alone, seconds=30.0).gangs == (1,)


def test_what_was_found_is_read_and_reported_with_the_smallest_difference() -> None:
    found = self_check.measure(order(), HERE, command=saying(CLOCK, *(gang(one) for one in (0.99, 1.0, 1.01))))
    text = "\n".join(self_check.sentences(report_of(found)))
    assert "the smallest step seen is 40 ns; a reading takes 55 ns" in text
    assert "Scatter between 3 fresh processes: 1 % (95 %: 0.52 % to 6.3 %)" in text
    # t(0.975, 4) x 1.0 % x sqrt(2 / 3) is 2.27 %, t(0.975, 38) x 1.0 % x sqrt(2 / 20) is 0.64 %
    assert "With 3 repeats of each of two points a difference of 2.3 % can be told here, with 20 one of 0.64 %." in text
    assert "make bench-operator" in text


def test_few_processes_tell_no_smallest_difference() -> None:
    found = self_check.measure(order(), HERE, command=saying(CLOCK, gang(1.0)))
    text = "\n".join(self_check.sentences(report_of(found)))
    assert "is not known: that needs 3 fresh processes" in text


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (saying(CLOCK), "no gang was done within 30 s"),
        (saying("2018-01-01 a library greets you"), "a line that is none of its own: 2018-01-01"),
        (program_that("sys.exit('the library is broken')"), "ended with code 1: the library is broken"),
    ],
)
def test_a_check_that_goes_wrong_is_a_sentence(command: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(Refusal, match=sentence):
        self_check.measure(order(), HERE, command=command)


def test_nothing_of_it_is_left_when_it_is_stopped(tmp_path: Path) -> None:
    """What a person's Ctrl-C raises, here raised by the lines themselves."""
    pid = tmp_path / "pid"
    command = program_that(
        "child = os.fork()",
        f"child or (open({str(pid)!r}, 'w').write(str(os.getpid())), print('no line of ours', flush=True))",
        "time.sleep(120)",
    )
    with pytest.raises(Refusal, match="none of its own"):
        self_check.measure(order(), HERE, command=command)
    child = int(pid.read_text())
    until = time.monotonic() + 20
    while is_alive(child) and time.monotonic() < until:
        time.sleep(0.05)
    assert not is_alive(child)


def is_alive(process: int) -> bool:
    """Whether it is there, and more than a process that nobody has buried yet."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("text", ["5", "a minute", "1e9"])
def test_the_time_is_bounded(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit) as ended:
        program.main(("self-check", "--seconds", text))
    assert ended.value.code == 2
    assert "is no time from 10 to 3600 seconds" in capsys.readouterr().err


@pytest.mark.usefixtures("horovod", "two_cores")
def test_a_real_check_in_its_smallest_form_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    here = machine.this_machine()
    tiny = Order(
        gangs=(2, 1), seconds=300, rounds=3, block_seconds=0.05, windows=2, workload="mnist_mlp", batch=8, gpu=False,
        processes=1,
    )  # fmt: skip
    found = self_check.measure(tiny, here)
    report = report_of(found)
    assert [(one.ranks, one.rounds) for one in report.overhead] == [(1, 3), (2, 3)]
    assert all(one.time.low is not None and one.time.low <= one.time.mean for one in report.overhead)
    assert all(one.step_processor_seconds > 0 for one in report.overhead)
    assert report.clock.reading_nanoseconds > 0
    assert report.smallest == (), "one process tells nothing of the next one"
    assert self_check.tables(report)
    assert json.loads(report.to_json())["scatter"]["processes"] == 1
    assert re.search(r"2 ranks: 3 rounds", capsys.readouterr().err)
