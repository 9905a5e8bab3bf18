# SPDX-License-Identifier: Apache-2.0
"""The wire format of what a gang reports: JSON objects, one a line on standard output, each with a checksum at its end.

The closing `result` or `failure` is also the pod's termination message, which needs no checksum: a program of the
user's own may have written it. Readers skip records of kinds that they do not know. Times are integer nanoseconds of
one monotonic clock; no record holds a rate, which is computed.
"""

import contextlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal, Self, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import from_json

from gpubench import checksum, units
from gpubench.values import FrozenModel, content_id

TERMINATION_MESSAGE_MAX = 2048
_MESSAGE_TEXT_MAX = 800
_KUBELET_KEEPS = 4096  # bytes of a termination message, the last ones
_TAIL_AT_LEAST = _KUBELET_KEEPS - 8  # what is no text at the cut is dropped, and white space at the ends
_NO_BEGINNING = "its beginning is missing, for a kubelet keeps the last 4,096 bytes: write a shorter record"
_NO_END = "its end is missing: it was not written in one piece, or there was no room on the node's disk"
LINKS_MAX, LINKS_BETWEEN = 96, ", "
_ENVIRONMENT_SHOWN_MAX = 16
_ENVIRONMENT_CHARACTERS = 12
_ABSENT = "none"

# A user's own program may write anything: what is within these bounds can be squared, summed and written as JSON.
Figure = Annotated[float, Field(allow_inf_nan=False, ge=-1e100, le=1e100)]
Amount = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1e100)]
Count = Annotated[int, Field(ge=0, le=10**18)]  # 10^18 nanoseconds are 31 years
Positive = Annotated[int, Field(gt=0, le=10**18)]
Share = Annotated[float, Field(allow_inf_nan=False, ge=0, le=1)]


class Stored(FrozenModel):
    """A value that is kept as one sealed line: in a file, or under a key of a ConfigMap."""

    schema_version: checksum.SchemaVersion = checksum.VERSION

    def to_text(self) -> str:
        return checksum.seal(self.to_json())

    @classmethod
    def from_text(cls, text: str | bytes) -> Self:
        """What is stored in a text. ValueError when it cannot be read, or is not what was written."""
        return cls.model_validate_json(checksum.opened(text))


class _Versioned(FrozenModel):
    kind: str
    schema_version: checksum.SchemaVersion = checksum.VERSION


class _Compared(FrozenModel):
    """What the comparability key is made of; a field more would give every stored figure another key."""

    accelerator: str  # the GPU's name, or the processor's model on a CPU pool
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    transport: str  # of the all-reduce: gloo, or nccl and the network that it has chosen
    framework: str  # that trains, such as TensorFlow
    framework_version: str
    collectives: str  # the library that reduces gradients over ranks, such as Horovod
    collectives_version: str
    image: str | None = None
    threads_per_rank: int
    processors_short: Amount | None = None  # that the pod may use, where its ranks were planned with more
    memory_bytes_short: Count | None = None  # the same of its cgroup's limit


class _Provenance(FrozenModel):
    """What is recorded beside the key: GPUs are those of the pod, clocks and limits those of the rank's GPU."""

    python: str
    front_end: str | None = None  # in which models are written, with its version, such as Keras 3.12.0
    kernel: str
    gpus: Count | None = None
    gpu_megahertz: Count | None = None  # the clock of its multiprocessors that applications are held to
    gpu_megahertz_max: Count | None = None  # the highest that the hardware has
    gpu_memory_megahertz: Count | None = None  # the same of its memory
    gpu_memory_megahertz_max: Count | None = None
    power_limit_watts: Amount | None = None  # that the driver enforces
    processor: str | None = None  # model
    processor_flags_digest: str | None = None  # of all flags: two machines that differ in any have different ones
    processors: Amount | None = None  # that the pod may use
    memory_bytes: Count | None = None  # that the pod may use


class Environment(_Versioned, _Compared, _Provenance):
    """What a measurement stands on. Figures with different keys are never averaged. The attempt's record has more."""

    kind: Literal["environment"] = "environment"
    node: str | None = None
    gpu_uuids: Annotated[tuple[str, ...], Field(max_length=16)] = ()
    processor_flags: Annotated[tuple[str, ...], Field(max_length=64)] = ()  # instruction sets for arithmetic, sorted

    COMPARED: ClassVar[tuple[str, ...]] = tuple(_Compared.model_fields)
    PROVENANCE: ClassVar[tuple[str, ...]] = tuple(_Provenance.model_fields)

    def key(self) -> str:
        """The comparability key: a hash of hardware, libraries and image, blind to node and kernel."""
        compared = {to_camel(name) for name in self.COMPARED}
        facts = {name: value for name, value in self.to_wire().items() if name in compared}
        return content_id(repr(sorted(facts.items())), characters=_ENVIRONMENT_CHARACTERS)


def read_environment(line: str) -> Environment | None:
    """The environment record in a line of a pod's log; None where the line is none."""
    with contextlib.suppress(checksum.Damaged):
        record = read_line(line.encode()) if '"environment"' in line else None
        return record if isinstance(record, Environment) else None
    return None


def environment_shown(text: str) -> str | None:
    """`Result.environment` as results show it: a long text of a user's own program as a hash; None for an empty one."""
    if len(text) <= _ENVIRONMENT_SHOWN_MAX and text.isprintable():
        return text or None
    return content_id(text, characters=_ENVIRONMENT_CHARACTERS)


_FIELD_NAMES = {
    "cuda": "CUDA",
    "cudnn": "cuDNN",
    "nccl": "NCCL",
    "python": "Python",
    "gpus": "number of GPUs",
    "gpu_uuids": "GPUs",
    "gpu_megahertz": "clock of the GPU in MHz",
    "gpu_megahertz_max": "highest clock of the GPU in MHz",
    "gpu_memory_megahertz": "clock of the GPU's memory in MHz",
    "gpu_memory_megahertz_max": "highest clock of the GPU's memory in MHz",
    "power_limit_watts": "power limit in watts",
    "processor_flags": "instruction sets",
    "processor_flags_digest": "processor flags",
    "memory_bytes": "memory in bytes",
}


def environment_differences(*environments: Environment) -> tuple[str, ...]:
    """What environments differ in that is compared, each as `driver 550.54 and 560.35`; empty where nothing does."""
    met = (
        (field, dict.fromkeys(_shown(getattr(one, field)) for one in environments)) for field in Environment.COMPARED
    )
    return tuple(f"{environment_field_name(field)} {units.listed([*one])}" for field, one in met if len(one) > 1)


def environment_facts(record: Environment, *, fields: Sequence[str]) -> dict[str, str]:
    """What a record says of these fields, by their names in words; what is absent is left out."""
    values = {environment_field_name(field): _shown(getattr(record, field)) for field in fields}
    return {name: value for name, value in values.items() if value != _ABSENT}


def environment_field_name(field: str) -> str:
    return _FIELD_NAMES.get(field, field.replace("_", " "))


def _shown(value: object) -> str:
    match value:
        case None | ():
            return _ABSENT
        case tuple():
            return ", ".join(map(str, value))
        case float():
            return f"{value:g}"
        case _:
            return str(value)


class Window(_Versioned):
    """`steps` training steps of one rank, from one device synchronisation to the next."""

    kind: Literal["window"] = "window"
    rank: Count
    index: Count  # from 0, the same on every rank
    steps: Positive
    nanoseconds: Positive
    warm_up: bool


class Epoch(_Versioned):
    """One epoch of a training run, over the whole gang; written by rank 0."""

    kind: Literal["epoch"] = "epoch"
    index: Count  # from 0
    steps: Count
    samples: Count  # of all ranks
    nanoseconds: Count  # of training, maximum over ranks
    evaluation_nanoseconds: Count  # maximum over ranks
    loss: Figure  # mean over the epoch's steps and ranks
    evaluation_loss: Figure | None = None  # mean over the held-out samples; None without a held-out part
    accuracy: Figure | None = None  # share of the held-out samples; None where the workload has none
    evaluation_samples: Count | None = None  # held out, of all ranks; None without any


class Training(FrozenModel):
    """The epochs of a training run in sums, small enough for a termination message."""

    epochs: Positive
    nanoseconds: Positive  # of training in all epochs
    evaluation_nanoseconds: Count
    first_nanoseconds: Positive  # of training in the first epoch
    first_evaluation_nanoseconds: Count
    first_samples: Positive
    loss: Figure  # mean of the last epoch's steps
    metric: Literal["accuracy", "loss"] | None = None  # on held-out samples; None without any
    final: Figure | None = None
    best: Figure | None = None

    @model_validator(mode="after")
    def _accuracy_is_a_share(self) -> Self:
        for name, value in (("final", self.final), ("best", self.best)):
            if self.metric == "accuracy" and value is not None and not 0 <= value <= 1:
                raise ValueError(f"{name} is {value:g}, and an accuracy is a share: write a number from 0 to 1")
        return self


class NodeUse(FrozenModel):
    """What the kernel under a rank says of its processors, over the measured time; ranks on one node say the same."""

    kernel: str = Field(max_length=8)  # which one it is, as long as it runs
    processors: Positive
    busy: Amount  # processors used, by whomever
    children: Amount  # by the rank's own child processes
    stolen: Amount  # processors that its hypervisor gave to others


class Usage(_Versioned):
    """What one rank used while it was measured: means over samples of a fixed period. What cannot be told is absent."""

    kind: Literal["usage"] = "usage"
    rank: Count
    samples: Count
    period_seconds: Amount
    processor: Amount  # processors used, 1 is one whole core
    processor_high: Amount  # 95 % quantile of the samples
    memory_bytes: Count  # resident, the largest sample
    gpu: Share | None = None  # share of time with a kernel on it, as NVML counts it, not of its arithmetic
    gpu_low: Share | None = None  # 5 % quantile
    gpu_memory_bytes: Count | None = None  # the largest sample
    watts: Amount | None = None
    watts_high: Amount | None = None  # 95 % quantile
    celsius_high: Figure | None = None  # the largest sample
    throttled: Share | None = None  # share of the samples in which something slowed it that nobody chose
    throttle_reasons: tuple[str, ...] = ()  # those seen, by NVML's names
    joules: Amount | None = None  # by the GPU's own energy counter, over the measured time
    #: Of a step without communication, in each round of a look; see `steady_state.straggler`.
    compute_seconds: tuple[Amount, ...] = ()
    node: NodeUse | None = None


class Health(_Versioned):
    """A short test of one rank's device before the trial. What cannot be told is absent."""

    kind: Literal["health"] = "health"
    rank: Count
    arithmetic: Amount  # operations per second of a float32 matrix product
    memory: Amount  # bytes per second, read and written, of adding one array to another
    allreduce: Amount | None = None  # bytes per second, bus bandwidth; with several ranks
    seconds: Amount  # that the test took


class Checkpoint(_Versioned):
    """A checkpoint of a training run that is whole on its volume; written by rank 0."""

    kind: Literal["checkpoint"] = "checkpoint"
    step: Count  # steps of the whole training that it has behind it
    seconds: Amount  # that it took, in which no rank trained
    size_bytes: Positive
    interval_seconds: Amount  # after which the next one is due
    last: bool = False  # whether the pod was told to stop


class Resumed(_Versioned):
    """That an attempt began from a checkpoint of an earlier one, whose epochs follow once more; by rank 0, at first."""

    kind: Literal["resumed"] = "resumed"
    attempt: Positive  # the one that wrote the checkpoint
    step: Positive  # steps of the whole training that it had behind it
    useful_seconds: Amount  # of training up to there, in all earlier attempts; work that was lost is not in it
    restore_seconds: Amount  # from looking for a checkpoint until training went on: reading, and tracing the step


class Checkpoints(FrozenModel):
    """The checkpoints of one attempt, as its result carries them."""

    count: Count
    seconds: Amount  # that all of them took, in which no rank trained; in no figure of training
    interval_seconds: Amount | None = None  # after which one was due at last; None where none was written
    lost_steps_max: Count  # steps from one to the next at most: no interruption could cost more of them


class Machine(FrozenModel):
    """Usage and health of a gang, as its result carries them: means over ranks where nothing else is said."""

    processor: Amount | None = None
    memory_bytes: Count | None = None  # largest
    gpu: Share | None = None
    gpu_memory_bytes: Count | None = None  # largest
    watts: Amount | None = None  # of all ranks together
    joules: Amount | None = None  # of all ranks together, in the windows that count
    celsius_high: Figure | None = None  # largest
    throttled: Share | None = None  # largest
    arithmetic: Amount | None = None  # smallest, as the next two
    memory: Amount | None = None
    allreduce: Amount | None = None
    weakest_rank: Count | None = None  # the one with the smallest arithmetic


# --- notices ---

#: Most notices of one result: the termination message must hold them.
NOTICES_MAX = 4


class _Noticed(FrozenModel):
    SENTENCE: ClassVar[str]


class Unsettled(_Noticed):
    """The run never reached a steady state: its figure is over all of its windows, and is not ranked."""

    SENTENCE = "never settled (step time {change:+.1%} over the run): give measure.warmUp and duration more time"

    kind: Literal["Unsettled"] = "Unsettled"
    change: Figure  # relative change of the time of a step from the first to the last counted windows


class Trend(_Noticed):
    """The run settled, and still became slower or faster while it was measured."""

    SENTENCE = "step time went {change:+.1%} while it was measured: look for heat or neighbours, or warm up longer"

    kind: Literal["Trend"] = "Trend"
    change: Figure  # the same


class Bimodal(_Noticed):
    """Windows fall into two groups: the machine changed to and fro between two speeds."""

    SENTENCE = (
        "two speeds: {share:.0%} of the windows took {ratio:.2f} times as long as the others: look for clocks "
        "that change, or neighbours"
    )

    kind: Literal["Bimodal"] = "Bimodal"
    ratio: Figure  # time of a step in the slow group over that in the fast one
    share: Share  # of the windows, in the slow group


class Outliers(_Noticed):
    """Single windows took far longer than the rest: a pause."""

    SENTENCE = (
        "{count} of {windows} windows stand out, the slowest took {worst:.1f} times the median: look for "
        "pauses on the node"
    )

    kind: Literal["Outliers"] = "Outliers"
    count: Count
    windows: Count  # counted, in all
    worst: Figure  # the slowest window's time over the median


class Straggler(_Noticed):
    """One rank computes more slowly than the others, which wait for it."""

    SENTENCE = "rank {rank} computes {cost:.0%} slower than the others, which wait for it: look at its node"

    kind: Literal["Straggler"] = "Straggler"
    rank: Count
    cost: Figure  # by what share a step is longer than at the other ranks' median


class LossRose(_Noticed):
    """A training ended with a loss more than 1 % above the one it began with."""

    SENTENCE = "the loss rose from {first:.4g} to {last:.4g}: check the learning rate and the data"

    kind: Literal["LossRose"] = "LossRose"
    first: Figure  # mean loss of the first epoch
    last: Figure


class BusyMachine(_Noticed):
    """Others used the processors of a node while the gang was measured on it."""

    SENTENCE = (
        "other processes used {others:.1f} of {processors} processors of a node, and other machines {stolen:.1f}: "
        "measure while it is quiet"
    )

    kind: Literal["BusyMachine"] = "BusyMachine"
    others: Amount  # processors
    stolen: Amount
    processors: Count


Notice = Annotated[
    Unsettled | Trend | Bimodal | Outliers | Straggler | LossRose | BusyMachine, Field(discriminator="kind")
]


def notice_message(notice: Notice) -> str:
    """What was found and what to do, in at most 180 characters."""
    return notice.SENTENCE.format(**dict(notice))


def notice_figures(notice: Notice) -> dict[str, float]:
    """The numbers of a notice by their names; which rank it is about is none of them."""
    return {name: value for name, value in notice if name not in ("kind", "rank")}


class Figures(FrozenModel):
    """The work and time of a gang.

    A window's time is the maximum over the ranks, so that `samples / nanoseconds` is the throughput of the gang
    (total samples over total time, the harmonic way).
    """

    workers: Positive  # as the collectives came up with, checked against the assignment
    steps: Positive  # measured steps, warm-up left out
    samples: Positive  # measured samples of all ranks together
    nanoseconds: Positive  # of the measured windows, or of training in all epochs; maximum over ranks each
    windows: Positive
    warm_up_windows: Count
    window_nanoseconds: tuple[Positive, Positive, Positive]  # 5 %, 50 % and 95 % quantile of a measured window
    training: Training | None = None  # in mode Training
    # Absent in results of programs of the user's own.
    steady_from: Count | None = None  # index of the first window that counts, as it was detected
    standard_error: Amount | None = None  # of the run's mean, relative, from its own windows: nothing of other runs
    warm_up_nanoseconds: Count | None = None  # of the windows that do not count; maximum over ranks each


class Computed(Figures):
    """Everything in a result that follows from what the ranks have recorded (`stats.gang`)."""

    notices: Annotated[tuple[Notice, ...], Field(max_length=NOTICES_MAX)] = ()
    machine: Machine | None = None
    #: Where the training began from a checkpoint. Steps, samples, nanoseconds and `training` are those of the whole
    #: training; windows, their quantiles and `machine` those of this attempt.
    resumed: Resumed | None = None
    checkpoints: Checkpoints | None = None  # where the training keeps any


class Result(_Versioned, Computed):
    """A gang that finished: the sums over its measured windows, written by pod 0."""

    kind: Literal["result"] = "result"
    trial: str
    attempt: Count
    final_loss: Figure
    weights_digest: str  # SHA-256 prefix of the trainable weights, equal on all ranks (checked before this is written)
    environment: str  # Environment.key() of pod 0, equal on all pods
    join_seconds: Amount  # from this launcher's start until the last pod had come
    init_seconds: Amount  # imports, connecting, model and first step; in mode Training that is the first epoch's
    #: Kinds of links that NCCL went over, of all ranks, such as `NET/AWS Libfabric/GDRDMA, P2P/CUMEM`. Beside the key:
    #: a gang on one node has no NET, and is the base of the efficiency of one on two.
    links: Annotated[str, Field(max_length=LINKS_MAX)] | None = None

    @property
    def measured_nanoseconds(self) -> int:
        """Of the measured windows; of a training with its evaluations."""
        return self.nanoseconds + (self.training.evaluation_nanoseconds if self.training is not None else 0)

    @property
    def settled(self) -> bool:
        """Whether the run reached a steady state, as far as it was looked for."""
        return not any(notice.kind == "Unsettled" for notice in self.notices)

    def contradiction(self) -> str | None:
        """The first field that cannot be true beside another one, with the remedy; None where all can."""
        total, (low, middle, high) = self.nanoseconds, self.window_nanoseconds
        not_above = [
            ("windowNanoseconds.0", low, "windowNanoseconds.1", middle),
            ("windowNanoseconds.1", middle, "windowNanoseconds.2", high),
            ("windowNanoseconds.2", high, "nanoseconds", total),
        ]
        if (run := self.training) is not None:
            first, every = run.first_evaluation_nanoseconds, run.evaluation_nanoseconds
            not_above += [
                ("training.nanoseconds", run.nanoseconds, "nanoseconds", total),
                ("training.firstNanoseconds", run.first_nanoseconds, "training.nanoseconds", run.nanoseconds),
                ("training.firstEvaluationNanoseconds", first, "training.evaluationNanoseconds", every),
                ("training.firstSamples", run.first_samples, "samples", self.samples),
            ]
        if (resumed := self.resumed) is not None:
            useful = round(resumed.useful_seconds * 1e9) - 1
            # Equal attempts: where a queue has the attempt run again.
            not_above += [
                ("resumed.attempt", resumed.attempt, "attempt", self.attempt),
                ("resumed.usefulSeconds in nanoseconds", useful, "nanoseconds", total),
            ]
        for place, value, other, limit in not_above:
            if value > limit:
                return f"{place} is {value}, more than {other} ({limit}), which it cannot be: correct one"
        if total < self.steps * _STEP_NANOSECONDS_MIN:
            return f"nanoseconds is {total}, and {self.steps} steps take longer: write nanoseconds"
        return None


_STEP_NANOSECONDS_MIN: Final = 100  # no forward and backward pass with its update takes less


#: What programs write around their words for a terminal.
COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
#: What happened, and what to do. What UTF-8 does not have is escaped: what programs say may hold any bytes.
Sentence = Annotated[str, AfterValidator(lambda text: text.encode("utf-8", "backslashreplace").decode())]


class Failure(_Versioned):
    """A pod that did not: written by each pod that fails, in its own words."""

    kind: Literal["failure"] = "failure"
    trial: str
    attempt: int
    exit_code: int  # an exitcodes.ExitCode
    rank: int | None = None  # the rank that failed first, where it is known
    sentence: Sentence


Record = Environment | Window | Epoch | Usage | Health | Checkpoint | Resumed | Result | Failure
_Kind = TypeVar("_Kind")
_RECORD: TypeAdapter[Record] = TypeAdapter(Annotated[Record, Field(discriminator="kind")])

Ending = Annotated[Result | Failure, Field(discriminator="kind")]
_ENDING: TypeAdapter[Result | Failure] = TypeAdapter(Ending)


class UnreadableMessage(ValueError):
    """A termination message that is no record of ours: cut, empty, foreign or of another version."""


class CutMessage(UnreadableMessage):
    """One that begins or ends in the middle of a record."""


def line(record: FrozenModel) -> str:
    """A record as it is written to a log, without the end of the line."""
    return checksum.seal(record.to_json())


def read_line(text: bytes) -> Record | None:
    """The record in a line of a log; None for one of a kind that is not known here. Else `checksum.Damaged`."""
    try:
        return _RECORD.validate_json(checksum.opened(text))
    except ValidationError as error:
        if error.errors()[0]["type"] == "union_tag_invalid":
            return None
        raise checksum.Damaged(f"it is no record: {first_error(error)}") from error


@dataclass(frozen=True, kw_only=True)
class Log:
    """What a pod wrote."""

    records: tuple[Record, ...]  # in their order; lines with a problem are left out
    unknown: int  # lines of kinds that are not known here, with their checksums
    problems: tuple[tuple[int, str], ...]  # number of the line, from 1, and a sentence
    cut: bool = False  # whether the last of them is a line without its end: its writer may have been stopped

    def of_kind(self, kind: type[_Kind]) -> tuple[_Kind, ...]:
        return tuple(record for record in self.records if isinstance(record, kind))


def read_log(content: bytes) -> Log:
    *lines, rest = content.split(b"\n")
    found: list[Record] = []
    problems: list[tuple[int, str]] = []
    unknown = 0
    for number, line in enumerate(lines, start=1):
        try:
            record = read_line(line)
        except checksum.Damaged as error:
            problems.append((number, str(error)))
            continue
        unknown += record is None
        if record is not None:
            found.append(record)
    if rest:
        problems.append((len(lines) + 1, "it has no end: its writer was stopped in the middle, or bytes are missing"))
    return Log(records=tuple(found), unknown=unknown, problems=tuple(problems), cut=bool(rest))


def termination_message(ending: Result | Failure) -> bytes:
    """The bytes of a pod's termination message, always below TERMINATION_MESSAGE_MAX: a long sentence is cut."""
    if isinstance(ending, Failure) and len(ending.sentence) > _MESSAGE_TEXT_MAX:
        ending = ending.model_copy(update={"sentence": ending.sentence[: _MESSAGE_TEXT_MAX - 1] + "…"})
    while len(message := line(ending).encode()) >= TERMINATION_MESSAGE_MAX:
        # Only a sentence of many multi-byte characters comes here; a result has no text of free length.
        if not isinstance(ending, Failure):
            raise ValueError(
                f"the result has {len(message)} bytes, and a termination message must stay below "
                f"{TERMINATION_MESSAGE_MAX}: shorten its texts"
            )
        ending = ending.model_copy(update={"sentence": ending.sentence[: len(ending.sentence) // 2] + "…"})
    return message


def read_ending(message: str) -> Result | Failure:
    """The record in a termination message, with or without a checksum; UnreadableMessage says what is wrong with it."""
    if not (text := message.strip()):
        raise UnreadableMessage("the termination message is empty")
    if (missing := _missing_part(text)) is not None:
        raise CutMessage(f"the termination message was cut: {missing}")
    try:
        ending = _ENDING.validate_json(checksum.opened(text) if checksum.is_sealed(text) else text)
    except ValueError as error:
        raise UnreadableMessage(f"the termination message is no record: {first_error(error)}") from error
    # A failure is heard however it was written: it is the reason that counts.
    if isinstance(ending, Result) and (wrong := _misshapen(message) or ending.contradiction()):
        raise UnreadableMessage(f"the result cannot be taken: {wrong}")
    return ending


def _misshapen(message: str) -> str | None:
    """What is wrong with the text of a record that can be read all the same."""
    if (size := len(message.encode())) >= TERMINATION_MESSAGE_MAX:
        return f"its record has {size} bytes, and fewer than {TERMINATION_MESSAGE_MAX} are asked for: shorten its texts"
    if "\ufffd" in message:  # what the runtime has put there
        return "its record has bytes that are no UTF-8: write it in UTF-8"
    objects = list[Counter[str]]()
    json.loads(message, object_pairs_hook=lambda members: objects.append(Counter(name for name, _ in members)))
    twice = next((name for names in objects for name, times in names.items() if times > 1), None)
    return f"its field {twice} is written twice: write it once" if twice is not None else None


def _missing_part(text: str) -> str | None:
    """What is missing of a record; None where nothing is, and of what is none at all."""
    if not text.startswith("{"):
        may_be_tail = text.endswith("}") and len(text.encode()) >= _TAIL_AT_LEAST
        return _NO_BEGINNING if checksum.is_sealed(text) or may_be_tail else None
    try:
        from_json(text)
    except ValueError:
        with contextlib.suppress(ValueError):
            from_json(text, allow_partial=True)
            return _NO_END
    return None


def first_error(error: ValueError) -> str:
    """The first field that is wrong, and what is; of what is no record at all what was said."""
    if not isinstance(error, ValidationError):
        return str(error)
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the text'}: {first['msg']}"
