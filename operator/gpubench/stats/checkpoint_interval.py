# SPDX-License-Identifier: Apache-2.0
"""How long a training goes on until its next checkpoint.

Too often, and the time goes into writing; too rarely, and each interruption costs the work since the last one. Daly's
estimate of the best interval needs two numbers: what one checkpoint costs, which is measured, and the mean time between
two interruptions of the gang, which follows from a rate per node and hour. An interruption of one node is one of its
whole gang, so the rate is that of a node times the nodes.

J. T. Daly: A higher order estimate of the optimum checkpoint interval for restart dumps. Future Generation Computer
Systems 22 (2006) 303-312, https://doi.org/10.1016/j.future.2004.11.016, equation 37.
"""

import math

#: Where nobody gives a rate: one in a day of a node. A preemptible machine of Google's lives for 24 hours at most
#: (https://cloud.google.com/compute/docs/instances/preemptible); whoever pays on demand waits longer for a failure.
INTERRUPTIONS_PER_NODE_HOUR = 1 / 24


def seconds_between_interruptions(*, nodes: int, per_node_hour: float | None) -> float:
    return 3600 / (nodes * (INTERRUPTIONS_PER_NODE_HOUR if per_node_hour is None else per_node_hour))


def optimum(*, write_seconds: float, between_seconds: float) -> float:
    """Seconds of training from the end of one checkpoint to the beginning of the next.

    With d the seconds of a write and M those between interruptions, for d < 2 M:
    sqrt(2 d M) (1 + sqrt(d / 2 M) / 3 + (d / 2 M) / 9) - d; else M.
    """
    if (share := write_seconds / (2 * between_seconds)) >= 1:
        return between_seconds
    first_order = math.sqrt(2 * write_seconds * between_seconds)
    return first_order * (1 + math.sqrt(share) / 3 + share / 9) - write_seconds
