# SPDX-License-Identifier: Apache-2.0
"""What a launcher hears of the processes of its ranks, from small programs that speak as a worker does."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gangs import make_assignment, make_orders
from gpubench import records
from gpubench_jobs import channel
from gpubench_jobs.channel import Phase
from gpubench_jobs.launcher import processes
from gpubench_jobs.launcher.exit_status import RankState

#: Stands in for the interpreter, which is asked to run a module, and runs the text below instead.
PROGRAM = """#!{python}
import json, os, signal, sys, time
config = json.loads(os.environ["{variable}"])
def say(line): os.write(config["channel"], line.encode())
{text}
"""
WINDOW = records.Window(rank=0, index=0, steps=2, nanoseconds=5, warm_up=False)
SECONDS = 20.0

Start = Callable[..., processes.Processes]


@pytest.fixture
def published() -> list[records.Record]:
    return []


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, published: list[records.Record]) -> Iterator[Start]:
    """Ranks of which each runs a text."""
    found = processes.Processes(publish=published.append)

    def started(*texts: str) -> processes.Processes:
        for rank, text in enumerate(texts):
            program = tmp_path / f"worker-{rank}"
            program.write_text(PROGRAM.format(python=sys.executable, variable=channel.ENV_CONFIG, text=text))
            program.chmod(0o755)
            config = make_orders(make_assignment(workers=len(texts)), rank=rank, join_seconds=0.5)
            with monkeypatch.context() as patched:
                patched.setattr(sys, "executable", str(program))
                found.start(config, environment={**os.environ, "GREETING": "hello"})
        return found

    yield started
    found.stop(kill_after=0.0)


def until(found: processes.Processes, holds: Callable[[tuple[RankState, ...]], bool]) -> tuple[RankState, ...]:
    deadline = time.monotonic() + SECONDS
    while not holds(seen := found.poll(timeout=0.02)):
        assert time.monotonic() < deadline, seen
    return seen


def over(seen: tuple[RankState, ...]) -> bool:
    return all(rank.returncode is not None for rank in seen)


def test_each_rank_begins_as_starting_and_ends_with_its_exit_code(start: Start) -> None:
    found = start("os.read(config['requests'], 100); sys.exit(7)", "time.sleep(60)")
    assert [(rank.rank, rank.phase, rank.returncode) for rank in found.poll(timeout=0.0)] == [
        (0, Phase.STARTING, None),
        (1, Phase.STARTING, None),
    ]
    found.ask(channel.Request(deadline_ns=1))
    assert [rank.returncode for rank in until(found, lambda seen: seen[0].returncode is not None)] == [7, None]


def test_a_phase_is_progress_and_a_record_is_published(start: Start, published: list[records.Record]) -> None:
    phase = channel.Progress(phase=Phase.STEPPING).to_json()
    found = start(
        f"os.read(config['requests'], 100); say('''{phase}''' + chr(10) + '''{WINDOW.to_json()}''' + chr(10))"
    )
    (before,) = found.poll(timeout=0.0)
    found.ask(channel.Request(deadline_ns=1))
    (seen,) = until(found, over)
    assert seen.phase is Phase.STEPPING
    assert seen.progress_ns > before.progress_ns
    assert (seen.nonsense, published) == (None, [WINDOW])


def test_the_last_line_of_a_worker_that_has_ended_is_heard_however_long_it_is(
    start: Start, published: list[records.Record]
) -> None:
    lines = 4000
    found = start(f"say(('''{WINDOW.to_json()}''' + chr(10)) * {lines})")
    until(found, over)
    assert published == [WINDOW] * lines


def test_a_line_comes_in_pieces(start: Start, published: list[records.Record]) -> None:
    text = WINDOW.to_json()
    found = start(f"say('''{text[:20]}'''); time.sleep(0.2); say('''{text[20:]}''' + chr(10)); time.sleep(0.2)")
    until(found, over)
    assert published == [WINDOW]


def test_of_nonsense_the_first_forty_bytes_are_kept(start: Start, published: list[records.Record]) -> None:
    found = start(f"say('{'x' * 50}' + chr(10) + 'y' + chr(10) + '''{WINDOW.to_json()}''' + chr(10))")
    (seen,) = until(found, over)
    assert seen.nonsense == repr(b"x" * 40)
    assert published == [WINDOW]


def test_what_a_rank_says_of_its_end_is_kept_and_not_published(start: Start, published: list[records.Record]) -> None:
    failure = records.Failure(trial="t", attempt=1, exit_code=80, rank=1, sentence="it broke")
    found = start("pass", f"say('''{failure.to_json()}''' + chr(10)); time.sleep(0.2); sys.exit(80)")
    _, second = until(found, over)
    assert (second.failure, second.returncode) == (failure, 80)
    assert second.ended_ns is not None
    assert published == []


def test_rank_0_alone_is_asked_and_its_answer_is_known(start: Start) -> None:
    answered = channel.Answered().to_json()
    echo = f"asked = os.read(config['requests'], 100); sys.stderr.write(repr(asked)); say('''{answered}''' + chr(10))"
    found = start(echo, "time.sleep(60)")
    assert not found.answered
    found.ask(channel.Request(deadline_ns=5))
    until(found, lambda seen: seen[0].returncode is not None)
    assert found.answered
    found.ask(channel.Request(deadline_ns=6))  # of a rank that has ended


def test_what_a_worker_prints_is_not_on_the_standard_output(start: Start, capfd: pytest.CaptureFixture[str]) -> None:
    found = start("print(os.environ['GREETING'], sys.stdin.read() == '')")
    until(found, over)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "hello True\n")


def test_a_stopped_process_is_frozen_until_it_goes_on(start: Start) -> None:
    found = start("os.kill(os.getpid(), signal.SIGSTOP); time.sleep(0.1)")
    until(found, lambda seen: seen[0].frozen)
    (process,) = (worker.process for worker in found._workers)
    process.send_signal(signal.SIGCONT)
    (seen,) = until(found, over)
    assert (seen.frozen, seen.returncode) == (False, 0)


def test_who_does_not_end_by_a_term_is_killed(start: Start) -> None:
    ready = f"say('''{channel.Progress(phase=Phase.BUILDING).to_json()}''' + chr(10))"
    deaf = f"signal.signal(signal.SIGTERM, signal.SIG_IGN); {ready}; time.sleep(60)"
    found = start(deaf, f"{ready}; time.sleep(60)")
    until(found, lambda seen: all(rank.phase is Phase.BUILDING for rank in seen))
    assert found.stop(kill_after=0.5) == ()
    assert [rank.returncode for rank in found.poll(timeout=0.0)] == [-signal.SIGKILL, -signal.SIGTERM]


def test_without_any_worker_there_is_nothing_to_hear() -> None:
    assert processes.Processes(publish=lambda _: None).poll(timeout=0.01) == ()
