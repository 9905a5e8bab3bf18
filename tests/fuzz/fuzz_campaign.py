# SPDX-License-Identifier: Apache-2.0
"""The run: objects are applied, looked at, changed and deleted, batch by batch, on a real API server with the operator.

Each object is refused with a sentence or comes to a condition with one; the operator writes no exception, goes on as
the same process, and keeps no memory of what is gone. What differs from that is a Finding. No wait is without a bound.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from typing import NamedTuple

import prometheus_client.parser
import psutil
from hypothesis import strategies as st

import fuzz_hostile
import fuzz_mutations
import fuzz_objects
import fuzz_server
import fuzz_verdicts
import installation
import studies
from cluster import Cluster, Node
from fuzz_objects import Made, Manner, Object
from fuzz_verdicts import Answer
from gpubench import names
from gpubench.api import schema, validate
from gpubench.scheduler import conditions
from gpubench_cluster import kube

BATCH = 200
THREADS = 4
CONDITION_SECONDS = 120.0  # the longest that a sentence may take; it takes one or two seconds
GONE_SECONDS = 120.0
POLL_SECONDS = 0.5
SETTINGS = {
    **installation.ALONE,
    "GPUBENCH_NODE_POLL_SECONDS": "5",
    "GPUBENCH_LOG_FORMAT": "json",
}
NODES = tuple(
    Node(
        name=f"steady-{number}",
        labels={"pool": "steady"},
        capacity={"cpu": "64", "memory": "512Gi", "pods": "500"},
        pretend=True,
    )
    for number in range(4)
)
_PODS_MOST = 60  # more are refused by a quota, and the operator has to say that
_IN_FLIGHT_PODS = 100  # of studies that are gone: the next batch waits until no more are left
_QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "pods"},
    "spec": {"hard": {"pods": str(_PODS_MOST)}},
}
_KEPT_LABEL = "fuzz-keep"
_KINDS = {kind.kind: kind for kind in schema.KINDS}
_UNCHANGEABLE = (
    "cannot be changed once the benchmark exists: delete it and apply it again, or apply it under another name"
)
_EXIT_CODES = (0, 0, 0, 0, 0, 1, 80, 137)
_SWEEPS = 2


class Finding(NamedTuple):
    """Something that must not be."""

    what: str
    made: Made | None = None  # the object that shows it, where one does
    shows: Callable[[Object], bool] | None = None  # whether another object shows it too


class Applied(NamedTuple):
    """An object that was applied."""

    made: Made
    document: Object  # with its name
    answer: Answer
    name: str = ""  # on the API server, where it is there
    uid: str = ""

    @property
    def path(self) -> str:
        """Where it is."""
        return f"{fuzz_server.collection(self.made.kind)}/{self.name}"


class Figures:
    """What is counted."""

    def __init__(self) -> None:
        self.outcomes: Counter[tuple[Manner, str]] = Counter()
        self.conditions: Counter[str] = Counter()
        self.refusals: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self.changes: Counter[str] = Counter()
        self.memory: list[tuple[int, int]] = []  # objects so far, resident bytes of the operator
        self.objects = 0
        self.seconds = 0.0

    def share(self, outcome: str) -> float:
        """The share of all objects with an outcome."""
        return sum(count for (_, one), count in self.outcomes.items() if one == outcome) / max(1, self.objects)

    def quarters(self) -> tuple[float, float]:
        """Median of the operator's memory in the first and in the last quarter of the objects, in MiB."""
        most = max((done for done, _ in self.memory), default=0)
        first = [memory for done, memory in self.memory if done <= most / 4]
        last = [memory for done, memory in self.memory if done >= 3 * most / 4]
        return median(first) / 2**20, median(last) / 2**20


@st.composite
def objects(draw: st.DrawFn) -> Made:
    """An object of any kind and manner."""
    kind = draw(fuzz_objects.weighed({names.BENCHMARK_KIND: 3, names.POOL_KIND: 1, names.SCHEDULE_KIND: 1}))
    manner = draw(st.sampled_from(list(Manner)))
    if manner is Manner.NEARLY:
        return draw(fuzz_mutations.nearly_valid(kind))
    if manner is Manner.HOSTILE:
        return draw(fuzz_hostile.hostile(kind))
    return Made(Manner.VALID, "valid", kind, draw(fuzz_objects.of_kind(kind)))


class Campaign:
    """Batches of objects against one cluster with the operator on it."""

    def __init__(self, cluster: Cluster, operator: installation.Operator, *, seed: int) -> None:
        self._server = fuzz_server.Server(cluster.kubeconfig, connections=THREADS)
        self._operator = operator
        self._pid = operator.pid
        self._seed = seed
        self._log = operator.log.open(encoding="utf-8", errors="replace")
        self._unread = ""
        self._random = random.Random(seed)
        self.figures = Figures()
        self.findings: list[Finding] = []
        self.repeated: Counter[str] = Counter()  # by what the words have in common

    def prepare(self) -> None:
        """The namespace, its quota, and the pool that is always there."""
        server = self._server
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": fuzz_server.NAMESPACE}}
        pool = studies.pool(fuzz_objects.STEADY_POOL, slotsPerNode=4, maxNodes=40, exclusiveNodes=False)
        pool["metadata"]["labels"] = {_KEPT_LABEL: "yes"}
        pool["spec"]["slot"] = {"cpu": "100m", "memory": "16Mi"}
        for path, body in (
            ("/api/v1/namespaces", namespace),
            (f"/api/v1/namespaces/{fuzz_server.NAMESPACE}/resourcequotas", _QUOTA),
            (fuzz_server.POOLS, pool),
        ):
            answer = server.ask("POST", path, body)
            assert answer.accepted, answer.text

    def run(self, count: int, *, progress: Callable[[str], None] = lambda _: None) -> None:
        """So many objects."""
        began = time.monotonic()
        with self._memory_sampled(), ThreadPoolExecutor(THREADS) as threads:
            for number, size in enumerate(_sizes(count)):
                made = fuzz_objects.collected(objects(), count=size, seed=f"{self._seed}-{number}")
                self._batch(made, threads)
                self.figures.seconds = time.monotonic() - began
                progress(self._standing())
                if self._operator.has_ended() or self._operator.pid != self._pid:
                    self._add(Finding("the operator has ended: " + self._operator.log.read_text()[-4000:]))
                    return
        self._nothing_is_left()

    # --- a batch ------------------------------------------------------------------------------------------------------

    def _batch(self, made: Sequence[Made], threads: ThreadPoolExecutor) -> None:
        """Pools first, as a person would; then studies and schedules; some are deleted before they were looked at."""
        named = list(_named(made))
        applied: list[Applied] = []
        for kind in _KINDS:
            for one in threads.map(self._apply, [pair for pair in named if pair[0].kind == kind]):
                self._note(one)
                applied.append(one)
        accepted = [one for one in applied if one.answer.accepted]
        staying = [one for one in accepted if not self._is_deleted_at_once(one)]
        self._await_conditions(staying)
        for _ in range(_SWEEPS):
            self._end_pods()
            time.sleep(POLL_SECONDS)
        changed = [one for one in staying if self._random.random() < 0.25 and self._change(one)]
        self._await_conditions(changed)
        self._judge_all(staying)
        self._read_metrics()
        self._delete_all()
        self._read_log(applied)

    def _is_deleted_at_once(self, one: Applied) -> bool:
        """One in ten is gone before anybody can have looked at it, or while somebody looks."""
        if self._random.random() >= 0.1:
            return False
        self._server.ask("DELETE", one.path)
        self.figures.conditions["deleted at once"] += 1
        return True

    def _apply(self, task: tuple[Made, Object]) -> Applied:
        made, document = task
        answer = self._server.create(made.kind, document)
        metadata = answer.body()["metadata"] if answer.accepted else {}
        return Applied(made, document, answer, name=metadata.get("name", ""), uid=metadata.get("uid", ""))

    def _note(self, applied: Applied) -> None:
        """What became of it at once; in one thread, because it is counted."""
        made, document = applied.made, applied.document
        outcome = "accepted" if applied.answer.accepted else "refused"
        self.figures.outcomes[made.manner, outcome] += 1
        self.figures.objects += 1
        if not applied.answer.accepted:
            self._note_refusal(applied.answer.message())
            if fault := fuzz_verdicts.refusal_fault(applied.answer):
                self._find(applied, fault, lambda other: self._refusal_fault(made.kind, other) is not None)
        if fault := local_fault(made, document, applied.answer):
            self._find(applied, fault, lambda other: self._local_fault(made, other) is not None)

    def _note_refusal(self, message: str) -> None:
        essence = fuzz_verdicts.essence(message)
        self.figures.refusals[essence] += 1
        self.figures.examples.setdefault(essence, message)

    def _refusal_fault(self, kind: str, document: Object) -> str | None:
        answer = self._server.create(kind, document, dry=True)
        return None if answer.accepted else fuzz_verdicts.refusal_fault(answer)

    def _local_fault(self, made: Made, document: Object) -> str | None:
        return local_fault(made, document, self._server.create(made.kind, document, dry=True))

    def _find(self, applied: Applied, what: str, shows: Callable[[Object], bool] | None = None) -> None:
        self._add(Finding(what, applied.made._replace(document=applied.document), shows))

    def _add(self, finding: Finding) -> None:
        """The same words of two objects are one finding."""
        essence = fuzz_verdicts.essence(finding.what.partition("\n")[0])
        if essence not in self.repeated:
            self.findings.append(finding)
        self.repeated[essence] += 1

    # --- conditions ---------------------------------------------------------------------------------------------------

    def _await_conditions(self, waiting: Sequence[Applied]) -> None:
        """Until the operator has said something about each of them, as it is now."""
        left = {one.uid: one for one in waiting}
        deadline = time.monotonic() + CONDITION_SECONDS
        while left and not self._operator.has_ended():
            for kind in {one.made.kind for one in left.values()}:
                for body in self._server.items(fuzz_server.collection(kind)):
                    if is_spoken_of(kind, body):
                        left.pop(body["metadata"]["uid"], None)
            if left and time.monotonic() > deadline:
                for one in left.values():
                    self._find(one, f"no condition within {CONDITION_SECONDS:g} s", self._is_silent(one.made.kind))
                return
            if left:
                time.sleep(POLL_SECONDS)

    def _judge_all(self, staying: Sequence[Applied]) -> None:
        """Whether what is said is a sentence; what it is, is counted."""
        bodies = {
            body["metadata"]["uid"]: body
            for path in map(fuzz_server.collection, _KINDS)
            for body in self._server.items(path)
        }
        for one in staying:
            body = bodies.get(one.uid)
            if body is None:
                self._find(one, "it went away by itself")
                continue
            if fault := fault_of(one.made.kind, body):
                self._find(one, fault, self._is_faulty(one.made.kind))
            self.figures.conditions[f"{one.made.kind}: {standing(one.made.kind, body)}"] += 1

    def _is_silent(self, kind: str) -> Callable[[Object], bool]:
        return lambda document: self._looked_at(kind, document, silent=True)

    def _is_faulty(self, kind: str) -> Callable[[Object], bool]:
        return lambda document: self._looked_at(kind, document, silent=False)

    def _looked_at(self, kind: str, document: Object, *, silent: bool, seconds: float = 12.0) -> bool:
        """Whether an object that is applied alone shows the same."""
        answer = self._server.create(kind, {**document, "metadata": {"name": "alone"}})
        if not answer.accepted:
            return False
        path, deadline = f"{fuzz_server.collection(kind)}/alone", time.monotonic() + seconds
        body = answer.body()
        while not is_spoken_of(kind, body) and time.monotonic() < deadline:
            time.sleep(0.2)
            body = self._server.ask("GET", path).body()
        is_silent = not is_spoken_of(kind, body)
        faulty = is_silent if silent else not is_silent and fault_of(kind, body) is not None
        self._server.ask("DELETE", path)
        self._until(lambda: self._server.ask("GET", path).code == 404, what="alone gone")
        return faulty

    # --- what users do meanwhile --------------------------------------------------------------------------------------

    def _change(self, one: Applied) -> bool:
        """A change by a user; whether it was taken, so that a new condition is due."""
        spec = one.answer.body()["spec"]
        if one.made.kind == names.POOL_KIND:
            change: Object = {"slotsPerNode": 1 + spec["slotsPerNode"] % 8}
            is_taken = self._server.change(one.path, {"spec": change}).accepted
            self.figures.changes["of a pool, taken" if is_taken else "of a pool, refused"] += 1
            return False  # a pool's conditions do not say of which generation they speak
        changes = _changes_of_study(spec) if one.made.kind == names.BENCHMARK_KIND else _changes_of_schedule(spec)
        change, taken = self._random.choice(changes)
        answer = self._server.change(one.path, {"spec": change})
        field = next(iter(change))
        self.figures.changes[f"of {field}, {'taken' if answer.accepted else 'refused'}"] += 1
        if answer.accepted != taken:
            self._find(one, f"a change to {change} was answered with HTTP {answer.code}: {answer.text[:500]}")
        elif not taken and (fault := fuzz_verdicts.refusal_fault(answer)):
            self._find(one, f"a change to {change}: {fault}")
        elif field == "order" and _UNCHANGEABLE not in answer.message():
            self._find(one, f"a change to {change} was refused with other words: {answer.message()}")
        return answer.accepted

    def _end_pods(self) -> None:
        """Pods that run come to an end: most of them with a result, some without a word."""
        jobs = {kube.uid_of(job): job for job in self._server.items(fuzz_server.JOBS)}
        for pod in self._server.items(fuzz_server.PODS):
            owners = pod["metadata"].get("ownerReferences") or [{}]
            job = jobs.get(owners[0].get("uid", ""))
            if job is None or pod["status"].get("phase") != "Running":
                continue
            code = self._random.choice(_EXIT_CODES)
            message = studies.finished_state(job, now=0.0)["terminated"]["message"] if code == 0 else ""
            annotations = {
                "gpubench.dev/pretend-exit": "0",
                "gpubench.dev/pretend-exit-code": str(code),
                "gpubench.dev/pretend-message": message,
            }
            path = f"{fuzz_server.PODS}/{kube.name_of(pod)}"
            self._server.change(path, {"metadata": {"annotations": annotations}})

    # --- the operator -------------------------------------------------------------------------------------------------

    def _read_metrics(self) -> None:
        """What is scraped can be read, whatever texts are in it."""
        try:
            families = list(prometheus_client.parser.text_string_to_metric_families(self._operator.get("/metrics")))
        except (ValueError, OSError) as error:
            self._add(Finding(f"/metrics cannot be read: {error!r}"))
        else:
            assert families

    def _read_log(self, applied: Sequence[Applied]) -> None:
        """No exception, and nothing that went wrong for good; whose it was, as far as the line tells."""
        by_name = {one.name: one for one in applied if one.answer.accepted}
        for line in self._new_lines():
            if fault := fuzz_verdicts.log_fault(line):
                whose = next((one.made for name, one in by_name.items() if f'{name}"' in line), None)
                self._add(Finding(f"the operator's log: {fault}", whose))

    def _new_lines(self) -> list[str]:
        """Whole lines only: the operator may be writing one."""
        self._unread += self._log.read()
        *whole, self._unread = self._unread.split("\n")
        return whole

    def _memory_sampled(self) -> "_Sampler":
        return _Sampler(psutil.Process(self._pid), self.figures)

    def _standing(self) -> str:
        figures = self.figures
        memory = figures.memory[-1][1] / 2**20 if figures.memory else 0.0
        return (
            f"{figures.objects} objects in {figures.seconds:.0f} s, {figures.share('accepted'):.0%} accepted, "
            f"operator {memory:.0f} MiB, {len(self.findings)} findings"
        )

    # --- cleaning up --------------------------------------------------------------------------------------------------

    def _delete_all(self) -> None:
        """All at once, while the operator may be looking at any of them; schedules first, which would make studies."""
        self._server.ask("DELETE", f"{fuzz_server.SCHEDULES}?propagationPolicy=Background")
        self._until(lambda: not self._server.items(fuzz_server.SCHEDULES), what="schedules gone")
        self._server.ask("DELETE", f"{fuzz_server.STUDIES}?propagationPolicy=Background")
        self._server.ask("DELETE", f"{fuzz_server.POOLS}?labelSelector=!{_KEPT_LABEL}")
        self._server.ask("DELETE", fuzz_server.EVENTS)
        self._until(lambda: not self._server.items(fuzz_server.STUDIES), what="studies gone")
        self._until(lambda: len(self._server.items(fuzz_server.PODS)) < _IN_FLIGHT_PODS, what="pods gone")

    def _nothing_is_left(self) -> None:
        """Jobs and pods go with their studies, and so do the series of the operator."""
        for path in (fuzz_server.JOBS, fuzz_server.PODS):
            self._until(lambda path=path: not self._server.items(path), what=f"{path} empty")  # type: ignore[misc]
        mark = f'namespace="{fuzz_server.NAMESPACE}"'
        self._until(lambda: mark not in self._operator.get("/metrics"), what="no series of studies that are gone")
        self._read_log(())

    def _until(self, look: Callable[[], bool], *, what: str) -> None:
        deadline = time.monotonic() + GONE_SECONDS
        while not look():
            if time.monotonic() > deadline:
                self._add(Finding(f"{what}: not within {GONE_SECONDS:g} s"))
                return
            time.sleep(POLL_SECONDS)


class _Sampler:
    """The operator's memory, once a second, beside the objects that it has met by then."""

    def __init__(self, process: psutil.Process, figures: Figures) -> None:
        self._process = process
        self._figures = figures
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _sample(self) -> None:
        while True:
            try:
                memory = self._process.memory_info().rss
            except psutil.NoSuchProcess:
                return
            self._figures.memory.append((self._figures.objects, memory))
            if self._over.wait(1.0):
                return


def local_fault(made: Made, document: Object, answer: Answer) -> str | None:
    """Where the check of study files, which meet no API server, says otherwise than the API server did."""
    if made.whole or answer.code in (409, 413) or "metadata.name" in made.title:
        return None
    try:
        problems = validate.problems_of(document, _KINDS[made.kind])
    except Exception as error:  # whatever it is, it is a finding
        return f"validate ends with {type(error).__name__}: {str(error)[:300]}"
    if answer.accepted and problems:
        return f"the API server takes it, and validate does not: {'; '.join(map(str, problems))[:500]}"
    if not answer.accepted and not problems:
        return f"validate takes it, and the API server does not: {answer.message()[:500]}"
    return None


def _changes_of_study(spec: Object) -> tuple[tuple[Object, bool], ...]:
    """What a user may change of a study, and what not."""
    limits = spec["limits"]
    return (
        ({"order": {"seed": 1 + spec["order"]["seed"] % 1000}}, False),
        ({"sweep": [*spec["sweep"], spec["sweep"][0]]}, False),
        ({"measure": {"healthCheck": "Never"}}, False),
        ({"suspend": not spec["suspend"]}, True),
        ({"limits": {"parallelTrials": 1 + limits["parallelTrials"] % 64}}, True),
        ({"limits": {"parallelTrials": 0}}, False),
    )


def _changes_of_schedule(spec: Object) -> tuple[tuple[Object, bool], ...]:
    """The same of a schedule, whose template may be changed, too."""
    seed = spec["benchmarkTemplate"]["spec"]["order"]["seed"]
    return (
        ({"benchmarkTemplate": {"spec": {"order": {"seed": 1 + seed % 1000}}}}, True),
        ({"suspend": not spec["suspend"]}, True),
        ({"successfulHistoryLimit": 1 + spec["successfulHistoryLimit"] % 100}, True),
        ({"failedHistoryLimit": -1}, False),
        ({"timeZone": "Nowhere/At/All" if spec.get("timeZone") != "Nowhere/At/All" else "UTC"}, True),
        ({"schedule": "every hour"}, False),
        ({"concurrencyPolicy": "Never"}, False),
    )


_FAULTS: dict[str, Callable[[Object], str | None]] = {
    names.POOL_KIND: fuzz_verdicts.pool_fault,
    names.BENCHMARK_KIND: fuzz_verdicts.study_fault,
    names.SCHEDULE_KIND: fuzz_verdicts.schedule_fault,
}


def is_spoken_of(kind: str, body: Object) -> bool:
    """Whether the operator has said something about an object as it is now."""
    if kind == names.POOL_KIND:
        return bool((body.get("status") or {}).get("conditions"))
    return fuzz_verdicts.has_been_seen(body)


def fault_of(kind: str, body: Object) -> str | None:
    """What is wrong with what the operator says of an object."""
    if not is_spoken_of(kind, body):
        return None  # a change came between; whether one comes at all was waited for
    return _FAULTS[kind](body)


def standing(kind: str, body: Object) -> str:
    """Where an object stands, in a word."""
    found = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
    if kind != names.BENCHMARK_KIND:
        return str(found.get("Ready", {}).get("reason"))
    if found.get(conditions.FINISHED, {}).get("status") == "True":
        return f"finished, {found[conditions.FINISHED]['reason']}"
    if found.get(conditions.GANG_PENDING, {}).get("status") == "True":
        return f"waiting, {found[conditions.GANG_PENDING]['reason']}"
    return str(found.get(conditions.PROGRESSING, {}).get("reason"))


def _named(made: Sequence[Made]) -> Iterator[tuple[Made, Object]]:
    """With names: a pool's one that studies name, too; a study's one that others are compared to."""
    prefixes = {names.POOL_KIND: "pool", names.BENCHMARK_KIND: "study", names.SCHEDULE_KIND: "schedule"}
    counts: Counter[str] = Counter()
    for one in made:
        metadata = one.document.get("metadata")
        document = one.document
        if isinstance(metadata, dict) and metadata.get("name") == "to-be-named":
            prefix = prefixes[one.kind]
            document = {**document, "metadata": {**metadata, "name": f"{prefix}-{counts[prefix]}"}}
            counts[prefix] += 1
        yield one, document


def _sizes(count: int) -> Iterator[int]:
    while count > 0:
        yield min(BATCH, count)
        count -= BATCH
