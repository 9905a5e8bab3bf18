# SPDX-License-Identifier: Apache-2.0
"""What a report is made of: studies with their status, and the plan, environments and file behind it where there are.

Must not happen: two studies of one report that go by the same name.
"""

from collections import Counter
from collections.abc import Sequence

from gpubench.api.benchmark import GpuBenchmarkSpec
from gpubench.api.benchmark_status import GpuBenchmarkStatus
from gpubench.plan.plan import Plan
from gpubench.records import Environment
from gpubench.values import Value


class Reported(Value):
    """One study and where it was found."""

    name: str
    source: str  # folder, or namespace of the cluster
    status: GpuBenchmarkStatus
    spec: GpuBenchmarkSpec | None = None  # None where its file is not there, or cannot be read
    plan: Plan | None = None  # None while it has not begun
    environments: tuple[Environment, ...] = ()  # in full
    study_text: str | None = None  # the study file, or the object as its user wrote it
    machine: str | None = None  # or the address of the cluster
    gpubench: str | None = None  # version that wrote the results
    remark: str | None = None  # what must be known of all its figures, such as that they were re-priced


def labels(studies: Sequence[Reported]) -> tuple[str, ...]:
    """What each study is called beside the others: its name, with its place where another has the same name."""
    counts = Counter(study.name for study in studies)
    found = [study.name if counts[study.name] == 1 else f"{study.name} in {study.source}" for study in studies]
    again = Counter(found)
    return tuple(label if again[label] == 1 else f"{label} ({number})" for number, label in enumerate(found, start=1))
