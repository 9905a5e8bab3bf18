# SPDX-License-Identifier: Apache-2.0
"""How long the launcher waits for what. Constants of the protocol, not of a study; tests make them short.

Each has its reason and can be set in the environment as GPUBENCH_LIMIT_<NAME>, in seconds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields

_PREFIX = "GPUBENCH_LIMIT_"


@dataclass(frozen=True)
class Limits:
    """In seconds."""

    #: A pod that only lost a peer stays this long, so that the victim's own end is seen before this one's: the Job
    #: controller looks pod by pod, and a deleted node shows after some 49 s.
    linger_seconds: float = 60.0
    #: From the first rank that lost a peer until the blame is laid: a rank of the same pod may have died for a reason
    #: of its own. Peers notice a death within 0.1 s; the launcher sees its own children's at its next look.
    settle_seconds: float = 1.0
    #: Without progress for so long while starting (imports, connecting, tracing, the libraries' choice of kernels) a
    #: rank has stalled; an assignment's own time-out is for steps, and counts here only when it is longer.
    start_seconds: float = 300.0
    #: From a stall of ranks that wait in a collective until they are blamed: a peer's launcher that knows better comes
    #: first.
    stall_grace_seconds: float = 5.0
    #: From SIGTERM to SIGKILL of a worker. Spot nodes leave 15 s in all.
    kill_seconds: float = 2.0
    #: For pod 0, after a failure, until the other pods have asked; and after success, until they have acknowledged, for
    #: which they first wait up to keep_seconds for their results volume: pod 0 adds these.
    inform_seconds: float = 2.0
    done_seconds: float = 30.0
    #: Pod 0 ends so long after the other pods of its gang were done: with its end the Job controller deletes whatever
    #: still runs, and a pod that is gone cannot tell an operator that comes later on which node it was.
    last_seconds: float = 1.0
    #: From SIGTERM until a last checkpoint is whole, where a training keeps any. Other pods go on as long
    #: with their ranks, which a checkpoint needs: an operator that deletes a Job tells all of its pods at once.
    last_checkpoint_seconds: float = 5.0
    #: From a pod's last record until the results volume has all of them. From SIGTERM to the end no pod needs more than
    #: the 15 s of a spot node, with this and with workers that SIGKILL alone ends.
    keep_seconds: float = 5.0
    #: Without an answer of pod 0 for so long, it is lost.
    silence_seconds: float = 15.0
    #: Between two looks at the barrier, while waiting for it and while workers run (whose cores the looks cost).
    poll_seconds: float = 0.2
    watch_seconds: float = 1.0


def from_environment(variables: Mapping[str, str]) -> Limits:
    """The limits with what the environment overrides; ValueError for what is no number."""
    return Limits(
        **{
            limit.name: float(variables[name])
            for limit in fields(Limits)
            if (name := _PREFIX + limit.name.removesuffix("_seconds").upper()) in variables
        }
    )
