# SPDX-License-Identifier: Apache-2.0
"""The full records of environments, from the heads of logs of pods that have ended.

A log that cannot be read is no error of a study: it is said once, tried again while the decision asks for it, and then
left. Memory here only keeps requests apart; a new process tries again, and what was read is in the ledger.
"""

import asyncio
import math
import time
from collections.abc import Callable, Iterable

from gpubench import names
from gpubench.analysis import environments
from gpubench.records import Environment
from gpubench.scheduler import decision, observed
from gpubench_cluster import kube
from gpubench_operator import logs

_REMEMBERED_MAX = 10_000

_log = logs.logger(__name__)


class Reader:
    """Reads logs, none of them too often."""

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._not_before: dict[tuple[str, str], float] = {}  # by namespace and pod; never again where infinite

    async def read(self, study: observed.Study, wanted: Iterable[decision.Description]) -> tuple[Environment, ...]:
        """Those that could be read now."""
        now = self._clock()
        due = [one for one in wanted if self._not_before.get((study.namespace, one.pod), 0.0) <= now]
        found = await asyncio.gather(*(self._read(study, one, now=now) for one in due))
        return tuple(environment for environment in found if environment is not None)

    async def _read(self, study: observed.Study, one: decision.Description, *, now: float) -> Environment | None:
        again, log = now + environments.TRIED_AGAIN_SECONDS, _log.info
        try:
            head = await self._api.log_head(
                pod=one.pod, namespace=study.namespace, container=names.CONTAINER, limit=environments.LOG_HEAD_BYTES
            )
        except kube.ApiError as error:
            head, sentence = None, f"its log cannot be read: {error}"
            log = _log.warning if isinstance(error, kube.PermanentError) else log
        else:
            if (environment := environments.in_log(head or "", one.environment)) is not None:
                return environment
            again = math.inf
            sentence = "it is gone" if head is None else "the head of its log has no such record"
        self._remember((study.namespace, one.pod), again)
        extra = {"namespace": study.namespace, "benchmark": study.name, "environment": one.environment, "pod": one.pod}
        log("environment not read", extra={**extra, "sentence": sentence})
        return None

    def _remember(self, pod: tuple[str, str], again: float) -> None:
        self._not_before[pod] = again
        if len(self._not_before) > _REMEMBERED_MAX:  # the oldest are of studies that are long over
            del self._not_before[next(iter(self._not_before))]
