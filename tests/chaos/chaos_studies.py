# SPDX-License-Identifier: Apache-2.0
"""The studies that run while faults strike: lanes, in each of which one study follows the other.

Most gangs are stand-ins of a few seconds; one lane has real Horovod ranks. Some studies are made to fail, some are
deleted or suspended while they run, as their lane's seed says. What may not happen here: a look at whether they ended
well; that is `chaos_invariants`.
"""

import random
from enum import StrEnum
from typing import Any, NamedTuple

import studies
from chaos_place import NAMESPACE, REAL_POOL, STAND_IN_POOLS, TENANTS
from gpubench.exitcodes import ExitCode
from gpubench_cluster import kube

GUESTS = TENANTS[1]  # their lane is in a namespace of its own, and shares both pools
LANES = ("left", "right", "both", GUESTS, REAL_POOL)
#: Of a large study and of a block: the most that the API takes. Its budget is for few of its trials.
_POINTS, _BATCHES = 256, 16
#: More than the faults of a run can use up, so that what ends a study is never a bound.
_ATTEMPTS = {"failed": 10, "preempted": 100}
_STAND_IN_SECONDS = ("3", "5", "7")
_BUDGET = "0.015"  # of USD 0.36 for an hour of a node: 150 s, where two gangs beside each other may ask for 120
_FAILING = str(int(ExitCode.BAD_ASSIGNMENT))


class Course(StrEnum):
    """What becomes of a study."""

    PLAIN = "plain"
    FAILING = "failing"  # its program ends with a code that no retry can mend
    SUSPENDED = "suspended"  # and resumed
    DELETED = "deleted"  # while it runs
    BUDGETED = "budgeted"  # with a budget that is too low, unless all goes well
    LARGE = "large"  # hundreds of points, and a budget for some

    @property
    def has_budget(self) -> bool:
        return self in (Course.BUDGETED, Course.LARGE)


_COURSES = (*[Course.PLAIN] * 3, Course.FAILING, Course.SUSPENDED, Course.DELETED, Course.BUDGETED, Course.LARGE)


class Study(NamedTuple):
    """One study of a lane: what is applied, and what a user does to it."""

    lane: str
    name: str
    course: Course
    body: kube.Object
    meddled_after: float  # seconds after it was applied, when it is suspended or deleted
    resumed_after: float

    @property
    def namespace(self) -> str:
        return _namespace(self.lane)

    @property
    def is_real(self) -> bool:
        return self.lane == REAL_POOL


def _namespace(lane: str) -> str:
    return GUESTS if lane == GUESTS else NAMESPACE


def writes_results(name: str) -> bool:
    """Whether the gangs of the study of this name end with a result, if they are left alone."""
    return not name.endswith(f"-{Course.FAILING}")


def lanes(*, with_real: bool) -> tuple[str, ...]:
    return LANES if with_real else tuple(lane for lane in LANES if lane != REAL_POOL)


def study(seed: int, lane: str, number: int) -> Study:
    """The study of that number in a lane; the same for ever."""
    chance = random.Random(f"study {number} in {lane} of {seed}")
    real = lane == REAL_POOL
    course = Course.PLAIN if real else chance.choice(_COURSES)
    name = f"{lane}-{number}-{course}"
    meddled_after = chance.uniform(4.0, 15.0)
    return Study(
        lane=lane,
        name=name,
        course=course,
        body=_real(name) if real else _stand_in(name, lane, course=course, seconds=chance.choice(_STAND_IN_SECONDS)),
        meddled_after=meddled_after,
        resumed_after=meddled_after + chance.uniform(3.0, 10.0),
    )


def _stand_in(name: str, lane: str, *, course: Course, seconds: str) -> kube.Object:
    pools = [lane] if lane in STAND_IN_POOLS else list(STAND_IN_POOLS)
    env = [{"name": "STAND_IN_SECONDS", "value": seconds}]
    if course is Course.FAILING:
        env.append({"name": "STAND_IN_EXIT_CODE", "value": _FAILING})
    block = {"workloads": ["mnist_cnn"], "pools": pools, "workers": [1, 2], "batchPerWorker": [64]}
    sweep = [block]
    if course is Course.LARGE:
        firsts = range(1, _POINTS // (len(pools) * 2) + 1, _BATCHES)
        sweep = [block | {"batchPerWorker": [*range(first, first + _BATCHES)]} for first in firsts]
    return _study(
        name,
        namespace=_namespace(lane),
        sweep=sweep,
        limits={"parallelTrials": 2} | ({"budget": _BUDGET} if course.has_budget else {}),
        template={"env": env},
    )


def _real(name: str) -> kube.Object:
    return _study(
        name,
        sweep=[{"workloads": ["mnist_mlp"], "pools": [REAL_POOL], "workers": [1, 2], "batchPerWorker": [32]}],
        limits={"parallelTrials": 1},
        template={},
    )


def _study(
    name: str,
    *,
    sweep: list[dict[str, Any]],
    limits: dict[str, Any],
    template: dict[str, Any],
    namespace: str = NAMESPACE,
) -> kube.Object:
    limits |= {"attempts": _ATTEMPTS, "schedulingTimeout": "4m", "attemptTimeout": "4m"}
    return studies.benchmark(
        name,
        namespace=namespace,
        sweep=sweep,
        measure={"repeats": {"min": 2}, "warmUp": "1s", "duration": "2s", "window": "1s"},
        limits=limits,
        template=template,
    )
