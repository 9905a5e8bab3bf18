# SPDX-License-Identifier: Apache-2.0
"""When a schedule that was not applied yet would run, and what it would cost a month: part of `gpubench plan`.

The month is what the operator projects before the first run; afterwards `status.monthly` goes by what runs took.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from gpubench.api.schedule import ConcurrencyPolicy, GpuBenchmarkScheduleSpec, Monthly
from gpubench.plan.plan import Plan
from gpubench.report import text
from gpubench.report.tables import Column, Table
from gpubench.schedule import history
from gpubench.schedule.cron import Timetable
from gpubench.units import rfc3339
from gpubench_cli import terminal
from gpubench_cli.documents import Schedule

_SHOWN = 5
_CONCURRENCY = {
    ConcurrencyPolicy.ALLOW: "a run that is due while an earlier one is under way starts beside it",
    ConcurrencyPolicy.FORBID: "a run that is due while an earlier one is under way waits for its end",
    ConcurrencyPolicy.REPLACE: "a run that is due deletes an earlier one that is still under way",
}


def runs(table: Timetable, now: float) -> tuple[int, ...]:
    """The next runs."""
    found: list[int] = []
    while len(found) < _SHOWN and (at := table.after(found[-1] if found else now)) is not None:
        found.append(at)
    return tuple(found)


def sentences(spec: GpuBenchmarkScheduleSpec, table: Timetable, due: Sequence[int]) -> list[str]:
    """What a schedule does beside its study."""
    zone = ZoneInfo(table.time_zone)
    listed = ", ".join(datetime.fromtimestamp(at, zone).isoformat(timespec="minutes") for at in due)
    suspended = ["Suspended: no run starts until spec.suspend is false."] if spec.suspend else []
    kept = (
        f"Kept: the benchmarks of {spec.successful_history_limit} runs that succeeded and of "
        f"{spec.failed_history_limit} that did not; the results of up to {history.RUNS_MAX} runs."
    )
    return [
        f"Next runs, {spec.schedule} in time zone {table.time_zone}: {listed}.",
        *suspended,
        f"Concurrency {spec.concurrency_policy.value}: {_CONCURRENCY[spec.concurrency_policy]}.",
        kept,
    ]


def show(month: Monthly | None) -> None:
    """The projected month, line by line."""
    if month is None:
        return
    total = f"{month.shown}: " if month.total is not None else ""
    terminal.write(f"A month of {month.hours} hours: {total}{month.sentence}.")
    if month.total is None:
        return
    terminal.write("")
    unit = f"{month.currency}/MONTH"
    terminal.print_table(
        Table(
            columns=(Column(title="PAID FOR"), Column(title=unit, numeric=True)),
            rows=(
                *((line.name, line.amount) for line in month.lines),
                ("total", month.total),
                ("its nodes, if they were never given back", month.always_on or text.UNDEFINED),
            ),
        )
    )


def document(schedule: Schedule, due: Sequence[int], month: Monthly | None, plan: Plan) -> dict[str, Any]:
    """The same for programs."""
    return {
        "schedule": schedule.name,
        "timeZone": schedule.spec.time_zone or "UTC",
        "nextRuns": [rfc3339(at) for at in due],
        "monthly": None if month is None else month.to_wire(),
        "plan": plan.to_wire(),
    }
