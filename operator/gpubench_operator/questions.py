# SPDX-License-Identifier: Apache-2.0
"""What a look asks the API server beside the study's own objects: why pods are missing, do not start, or wait.

No answer holds a study up: what nobody says is not known.
"""

import time
from collections.abc import Callable

from gpubench import names
from gpubench.scheduler import observed
from gpubench_cluster import kube
from gpubench_operator import delays, logs, observe

_MOUNTED_AFTER = 15.0  # seconds that a kubelet may take to mount volumes and pull the image before it is asked why
_MOUNT_FAILURE_REPEATS = 300.0  # a kubelet tells of a volume that it cannot mount every two minutes or more often
_FEWER_PODS_AFTER = 3.0  # seconds that the Job controller may take to create pods before it is asked why
_KUEUE_AGAIN = 5.0  # it may be installed while a study waits for it

_log = logs.logger(__name__)


class Questions:
    """Asks for all studies; what it was told of the cluster is remembered for a moment."""

    def __init__(self, api: kube.Kube, *, clock: Callable[[], float] = time.time) -> None:
        self._api = api
        self._clock = clock
        self._kueue, self._kueue_asked_at = False, float("-inf")

    async def why_pods_are_missing(
        self, study: observed.Study, bodies: list[kube.Object], seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[tuple[observed.ObservedJob, ...], float | None]:
        """What quota, Pod Security or a webhook said, for Jobs that have had fewer pods than they want for a while."""
        wanted = {kube.uid_of(body): observe.pods_wanted(body) for body in bodies}
        now, look_again = self._clock(), None
        answered: list[observed.ObservedJob] = []
        for job in seen:
            if len({pod.index for pod in job.pods}) < wanted[job.uid]:
                wait = job.begun_at + _FEWER_PODS_AFTER - now
                if wait > 0:
                    look_again = delays.earliest(look_again, wait)
                else:
                    look_again = delays.earliest(look_again, _FEWER_PODS_AFTER)
                    said = await self._creation_failure(study, job)
                    answered.append(job.model_copy(update={"creation_failure": said}))
                    continue
            answered.append(job)
        return tuple(answered), look_again

    async def _creation_failure(self, study: observed.Study, job: observed.ObservedJob) -> str | None:
        fields = {"involvedObject.uid": job.uid, "reason": "FailedCreate"}
        try:
            events = await self._api.list(kube.EVENTS, namespace=study.namespace, fields=fields)
        except kube.PermanentError as error:  # the pods may come all the same
            return f"why is not known: {error}"
        latest = max(events, key=lambda event: event.get("lastTimestamp") or "", default=None)
        return None if latest is None else latest.get("message")

    async def why_pods_do_not_start(
        self, study: observed.Study, seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[tuple[observed.ObservedJob, ...], float | None]:
        """What the kubelets said of volumes, where pods have had a node for a while and no container: one request."""
        now = self._clock()
        since = [pod.scheduled_at for job in seen for pod in job.pods if pod.is_being_created and pod.scheduled_at]
        if not since:
            return seen, None
        wait = min(since) + _MOUNTED_AFTER - now
        if wait > 0:
            return seen, wait
        fields = {"involvedObject.kind": "Pod", "reason": "FailedMount"}
        try:
            events = await self._api.list(kube.EVENTS, namespace=study.namespace, fields=fields)
        except kube.PermanentError as error:  # the pods may start all the same
            _log.warning("events not read", extra=logs.of_study(study, sentence=str(error)))
            return seen, _MOUNTED_AFTER
        said = observe.mount_failures(events, since=now - _MOUNT_FAILURE_REPEATS)
        return tuple(observe.with_mount_failures(job, said) for job in seen), _MOUNTED_AFTER

    async def what_kueue_says(
        self, study: observed.Study, seen: tuple[observed.ObservedJob, ...]
    ) -> tuple[observed.ObservedJob, ...]:
        """What Kueue said of Jobs that wait in its queue: in Events, for which no permission of its own is needed."""
        if study.spec.queue_name is None or not any(job.suspended for job in seen):
            return seen
        try:
            fields = {"involvedObject.kind": names.KUEUE_WORKLOAD}
            events = await self._api.list(kube.EVENTS, namespace=study.namespace, fields=fields)
        except kube.PermanentError as error:  # it may admit them all the same
            _log.warning("events not read", extra=logs.of_study(study, sentence=str(error)))
            return seen
        return tuple(
            job.model_copy(update={"queue_message": observe.said_by_kueue(events, job=job.name)})
            if job.suspended
            else job
            for job in seen
        )

    async def is_kueue_there(self, study: observed.Study) -> bool:
        """Whether somebody will ever admit what waits in a queue; asked again after a while."""
        if study.spec.queue_name is None:
            return True
        now = self._clock()
        if not 0 <= now - self._kueue_asked_at < _KUEUE_AGAIN:
            try:
                self._kueue = await self._api.serves(names.KUEUE_GROUP)
            except kube.PermanentError as error:  # nobody may ask here: then it is not said that it is absent
                _log.warning("discovery refused", extra=logs.of_study(study, sentence=str(error)))
                self._kueue = True
            self._kueue_asked_at = now
        return self._kueue
