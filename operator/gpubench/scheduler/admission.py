# SPDX-License-Identifier: Apache-2.0
"""How a study's Jobs stand in their queue of Kueue, in one word and one sentence."""

from collections.abc import Mapping, Sequence

from gpubench import names
from gpubench.scheduler import conditions
from gpubench.scheduler.ledger import AttemptRecord
from gpubench.scheduler.observed import ObservedJob, Study
from gpubench.values import Value

NEWS_SECONDS = 10.0  # what Kueue says of a Job that waits comes without an event of the Job


class Admission(Value):
    """Whether all Jobs under way were admitted."""

    holds: bool
    reason: str
    sentence: str


def admission(
    study: Study, live: Sequence[ObservedJob], entries: Mapping[str, AttemptRecord], *, is_served: bool
) -> Admission | None:
    """Of the first Job that waits, else of all; None without a queue, and while no Job is under way."""
    queue = study.spec.queue_name
    if queue is None or not live:
        return None
    waiting = next((job for job in live if job.suspended), None)
    if waiting is None:
        many = "1 Job was" if len(live) == 1 else f"{len(live)} Jobs were"
        return Admission(holds=True, reason=conditions.ADMITTED, sentence=f"{many} admitted by queue {queue}")
    if not is_served:
        return Admission(
            holds=False,
            reason=conditions.KUEUE_ABSENT,
            sentence=f"Job {waiting.name} waits for queue {queue}, and the cluster has no Kueue (no API group "
            f"{names.KUEUE_GROUP}): install it, or apply the study without spec.queueName",
        )
    said = f": {' '.join(waiting.queue_message.split())}" if waiting.queue_message else ""
    if times := len(entries[waiting.key].segments):
        often = "once" if times == 1 else f"{times} times"
        sentence = f"Job {waiting.name} was evicted from queue {queue} {often}, and waits to be admitted again{said}"
        return Admission(holds=False, reason=conditions.QUEUE_EVICTED, sentence=sentence)
    sentence = f"Job {waiting.name} waits in queue {queue}{said}"
    return Admission(holds=False, reason=conditions.WAITING_FOR_QUEUE, sentence=sentence)
