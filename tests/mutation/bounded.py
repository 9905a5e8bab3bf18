# SPDX-License-Identifier: Apache-2.0
"""mutmut with a bound: of the tests that reach a mutant's function it runs the shortest, SECONDS of them together.

Some functions are reached by a thousand tests, and a mutant that lives would run them all. What lives for the bound
counts as alive. The tests that have just passed while mutmut learned which calls what are not run again before.
"""

import itertools
import math
from typing import Any

import mutmut.__main__ as program

SECONDS = 20.0
#: A mutant may be slower, and the machine may be busy: after so many times as long it hangs.
PATIENCE = 4
_get_runner = program.get_mutant_runner


def _bounded_runner(children: int) -> Any:
    runner = _get_runner(children)
    submit = runner.submit

    def bounded(name: str, tests: list[str], _cpu: int, _estimate: float) -> None:
        seconds = program.state().duration_by_test
        shortest = sorted(tests, key=seconds.__getitem__)
        until = itertools.accumulate(seconds[one] for one in shortest)
        taken = [one for one, total in zip(shortest, until, strict=True) if total <= SECONDS] or shortest[:1]
        estimate = sum(seconds[one] for one in taken)
        submit(name, taken, math.ceil(PATIENCE * (estimate + 1.0)), estimate)

    runner.submit = bounded
    runner.run_clean_tests = lambda **_: 0
    return runner


program.get_mutant_runner = _bounded_runner
program.run_forced_fail_test = lambda _: None
program.cli()
