# SPDX-License-Identifier: Apache-2.0
"""From a seed to the faults of a run: which, when, at what, how hard. The same seed gives the same list for ever.

Targets are ranks in sorted lists, not names: which gang has that rank at that moment is the machine's doing, as is how
far it has come. What may not happen here: anything that depends on the clock or on the cluster.
"""

import random
from collections.abc import Collection, Iterator
from enum import StrEnum
from itertools import count
from typing import NamedTuple

#: Seconds between two faults, before the pace: fewer than a gang takes to be tried again, so that faults overlap.
_PAUSE = (1.0, 6.0)
_EVERY_THIRD = 3  # of the faults that hit a gang goes to one with real ranks


class Kind(StrEnum):
    """What can be done to a cluster with studies on it."""

    OPERATOR_KILL = "operator-kill"
    OPERATOR_FREEZE = "operator-freeze"
    CLOCK_STEP = "clock-step"
    POD_KILL = "pod-kill"
    POD_DELETE = "pod-delete"
    JOB_DELETE = "job-delete"
    RESULT_TRUNCATED = "result-truncated"
    TAINT = "taint"
    DRAIN = "drain"
    NODE_DELETE = "node-delete"
    NOT_READY = "not-ready"
    POWER_LOSS = "power-loss"
    SPOT_SIGNAL = "spot-signal"
    API_SERVER_RESTART = "api-server-restart"
    ETCD_RESTART = "etcd-restart"
    CONTROLLERS_RESTART = "controllers-restart"
    CONFLICT = "api-409"
    TOO_MANY = "api-429"
    SERVER_ERROR = "api-5xx"
    GONE = "api-410"
    LOST_ANSWER = "api-lost-answer"
    CUT_WATCHES = "api-cut-watches"
    SLOW = "api-slow"
    SILENT = "api-silent"


#: They hit the gang, or the node of a gang, that runs at that moment, whoever its ranks are.
ON_GANGS = frozenset(
    {
        Kind.POD_KILL,
        Kind.POD_DELETE,
        Kind.JOB_DELETE,
        Kind.TAINT,
        Kind.DRAIN,
        Kind.NODE_DELETE,
        Kind.NOT_READY,
        Kind.POWER_LOSS,
        Kind.SPOT_SIGNAL,
    }
)
#: They are over within seconds, and nobody has to wait for a time-out of Kubernetes: for the short form.
QUICK = frozenset(Kind) - {Kind.OPERATOR_FREEZE, Kind.NODE_DELETE, Kind.NOT_READY, Kind.POWER_LOSS, Kind.SPOT_SIGNAL}


class Fault(NamedTuple):
    """One fault of the schedule. `rank` and `size` lie between 0 and 1."""

    number: int
    kind: Kind
    pause: float  # seconds before it
    rank: float  # which of the targets, in their order
    size: float  # how long, how many, how far: each kind says
    on_real: bool  # at a gang with real Horovod ranks


def faults(seed: int, *, kinds: Collection[Kind] = tuple(Kind), with_real: bool = True) -> Iterator[Fault]:
    """The faults of a seed, without end. Kinds are dealt like cards, so that a short run, too, sees all of them."""
    on_gangs = 0
    deck: list[Kind] = []
    for number in count(1):
        chance = random.Random(f"fault {number} of {seed}")
        if not deck:
            deck = [kind for kind in Kind if kind in kinds]
            chance.shuffle(deck)
        kind = deck.pop()
        on_gangs += kind in ON_GANGS
        yield Fault(
            number=number,
            kind=kind,
            pause=chance.uniform(*_PAUSE),
            rank=chance.random(),
            size=chance.random(),
            on_real=with_real and kind in ON_GANGS and on_gangs % _EVERY_THIRD == 1,
        )
