# SPDX-License-Identifier: Apache-2.0
"""GpuBenchmarkSchedules that are refused, and that are accepted."""

from typing import Any

from object_forms import Bad, benchmark, block, schedule

SCHEDULE_WORDS = "write the five fields of cron, such as 0 */4 * * *"
BAD_SCHEDULES = (
    *(
        Bad(f"the schedule {text}", schedule(schedule=text), "spec.schedule", SCHEDULE_WORDS)
        for text in (
            "0 3 * *",
            "0 0 3 * * 0",
            "@every 5m",
            "@reboot",
            "TZ=UTC 0 3 * * 0",
            "CRON_TZ=UTC 0 3 * * 0",
            "noon",
        )
    ),
    Bad(
        "a zone with a space", schedule(timeZone="Europe/ Berlin"), "spec.timeZone", "by its name in the IANA database"
    ),
    Bad(
        "a schedule with a long name",
        schedule("a" * 30),
        "metadata.name",
        "metadata.name must have at most 29 characters",
    ),
    Bad(
        "a schedule whose name begins with a digit",
        schedule("2-weekly"),
        "metadata.name",
        "metadata.name must begin with a letter",
    ),
    Bad(
        "a tolerance of half and more",
        schedule(regressions={"tolerance": "0.6"}),
        "spec.regressions.tolerance",
        "regressions.tolerance must be from 0.001 to 0.5",
    ),
    Bad(
        "more false alarms than runs could tell",
        schedule(regressions={"falseAlarms": "11"}),
        "spec.regressions.falseAlarms",
        "regressions.falseAlarms must be from 0.001 to 10",
    ),
    Bad(
        "a label of gpubench's own",
        schedule(
            benchmarkTemplate={
                "metadata": {"labels": {"gpubench.dev/pool": "x"}},
                "spec": {"sweep": [block()]},
            }
        ),
        "spec.benchmarkTemplate.metadata.labels",
        "choose another one",
    ),
    Bad(
        "a template that is no benchmark",
        schedule(benchmarkTemplate={"spec": {"sweep": [block(globalBatch=[64])]}}),
        "spec.benchmarkTemplate.spec.sweep[0]",
        "a sweep block needs either batchPerWorker (weak scaling) or globalBatch (strong scaling)",
    ),
    Bad(
        "each node by gangs of two sizes",
        benchmark(sweep=[block(placement="EachNode")]),
        "spec.sweep[0].workers",
        "sweep[].placement EachNode holds the nodes against each other by gangs of one size",
    ),
    Bad(
        "a month of 31 days and an hour",
        schedule(costs={"hoursPerMonth": 745}),
        "spec.costs.hoursPerMonth",
        "at most 744",
        server="should be less than or equal to 744",
    ),
    Bad(
        "a concurrency policy of no CronJob",
        schedule(concurrencyPolicy="Never"),
        "spec.concurrencyPolicy",
        "is none of the possible values",
        server="supported values",
    ),
)
GOOD_SCHEDULES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("a schedule", schedule()),
    ("each node", benchmark(sweep=[block(workers=[1], placement="EachNode")])),
    *((f"the schedule {text}", schedule(schedule=text)) for text in ("@hourly", "*/5 0-6/2,8 ? JAN-jun mon,FRI")),
    (
        "a schedule with everything",
        schedule(
            timeZone="America/Argentina/Buenos_Aires",
            concurrencyPolicy="Replace",
            startingDeadlineSeconds=200,
            suspend=True,
            successfulHistoryLimit=0,
            failedHistoryLimit=0,
            benchmarkTemplate={
                "metadata": {"labels": {"team": "a"}, "annotations": {"example.com/why": "because"}},
                "spec": {"sweep": [block()], "limits": {"attempts": {"failed": 1}}},
            },
            regressions={"tolerance": "0.1"},
            costs={
                "hoursPerMonth": 720,
                "currency": "USD",
                "expectedRun": "2m",
                "coldStart": "11m",
                "fees": [{"name": "disk", "amount": "0.04", "count": "10", "per": "Month"}],
            },
        ),
    ),
)
