# SPDX-License-Identifier: Apache-2.0
"""`make fuzz-training SEED=1 CASES=60`: trainings of two ranks that are killed, on volumes that are damaged.

Each case is a training (network, optimizer, arithmetic, source of the samples, XLA), a moment in which something of it
is killed or told to stop, and what becomes of its volume before the next attempt. At its end it must have the weights
and the held-out figures of a training that nobody disturbed, bit for bit, or a sentence says why not; what was said to
be kept and was not damaged must be gone on from. Where the file or the data were changed, the one beside it is an
undisturbed training of what they are now.

Printed: each case, how often each value of each dimension came, what is wrong, with the files of its attempts. Exit
status 1 where something is wrong. `--table FILE` writes what the user reads for each fault.
"""

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import checkpoints
from fuzz_training_draw import (
    BOTH,
    CHANGES_TRAINING,
    CHECKPOINT_DAMAGES,
    ENDS_IT,
    OWN_NETWORKS,
    Case,
    Training,
    dimensions,
    draw,
)
from gangs import Pod, Pods, make_assignment, wait_until
from gpubench import names, records
from gpubench.exitcodes import ExitCode, named
from samples import write_idx

MODEL = Path(__file__).with_name("training_model.py")
TRIAL = "trial1"
BATCH = 8
#: So short that there is a checkpoint after nearly every window.
INTERVAL_SECONDS = 0.05
#: The lines on a pod's standard error that are about its volume.
TOLD_OF_CHECKPOINTS = re.compile(r"(the (unused )?checkpoint|checkpoints?|an old checkpoint) |\S+ has no manifest")
WINDOW_SECONDS = 0.1
ENDED_BY_ITSELF = "it ended before"
SENTENCES_MOST = 1 / 3
SEEN_LEAST = 2

#: Epochs and samples with which a training of the catalogue takes some seconds.
SIZES: dict[str, tuple[int, int]] = {
    "mnist_mlp": (3, 2003),
    "mnist_cnn": (3, 320),
    "cifar10_cnn": (3, 320),
    "imdb_fasttext": (4, 1030),
    "imdb_bidirectional_lstm": (2, 300),
    "lstm_text_generation": (2, 1000),
}


@dataclass(frozen=True)
class Figures:
    """What must be the same, bit for bit."""

    weights: str
    steps: int
    samples: int
    epochs: tuple[tuple[object, ...], ...]


@dataclass
class Outcome:
    """Of one case."""

    case: Case
    struck: bool  # whether the moment came before the end
    said: list[str] = field(default_factory=list)  # what the user reads, of all attempts
    said_before: int = 0  # how many of them before the last attempt
    told: list[str] = field(default_factory=list)  # of them, what attempts after the first said of the volume
    codes: list[tuple[int, ...]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ended: str = ""
    lost: str = ""

    def tell_of_volume(self, pod: Pod) -> None:
        """What an attempt has said of its volume."""
        told = [line for line in pod.log.splitlines() if TOLD_OF_CHECKPOINTS.match(line)]
        self.told += told
        self.said += told


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cases", type=int, default=60)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of cases, of those that are drawn")
    parser.add_argument("--table", type=Path, help="where to write what the user reads for each fault")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that every gang is ended
    begun = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="gpubench-fuzz-training-"))
    campaign, outcomes = Campaign(folder, seed=options.seed), []
    for number, case in enumerate(draw(random.Random(options.seed), cases=options.cases), start=1):
        if options.only and number not in options.only:
            continue
        outcome = campaign.run(number, case)
        outcomes.append(outcome)
        codes = " ".join("/".join(map(str, each)) for each in outcome.codes)
        print(f"{number:>3} {time.monotonic() - begun:>5.0f} s  {case}\n      {codes}: {outcome.ended}", flush=True)
        for sentence in outcome.wrong:
            print(f"      WRONG: {sentence}", flush=True)
        if not outcome.wrong:
            shutil.rmtree(folder / f"case-{number}")
    faults = [sentence for outcome in outcomes for sentence in outcome.wrong]
    if not options.only:
        faults += judge_coverage(outcomes)
    print(f"\n{len(outcomes)} cases in {time.monotonic() - begun:.0f} s, {len(faults)} faults")
    print(*faults, sep="\n")
    if options.table:
        options.table.write_text(table(outcomes))
    if not faults:
        shutil.rmtree(folder)
    return 1 if faults else 0


def judge_coverage(outcomes: list[Outcome]) -> list[str]:
    """What was seen too seldom; the counts are printed."""
    counts = {name: Counter(dict.fromkeys(values, 0)) for name, values in dimensions().items()}
    for outcome in outcomes:
        for name, value in outcome.case.values():
            # A kill that came too late has not shown anything of its moment.
            counts[name][value] += outcome.struck or name not in ("moment", "victim")
    print()
    for name, seen in counts.items():
        print(f"{name}: " + ", ".join(f"{value} {count}" for value, count in seen.most_common()))
    endings = Counter(outcome.ended for outcome in outcomes)
    print("endings: " + ", ".join(f"{ending} {count}" for ending, count in endings.most_common()))
    faults = [
        f"{name} {value} was seen {count} times"
        for name, seen in counts.items()
        for value, count in seen.items()
        if count < SEEN_LEAST
    ]
    sentences = sum(outcome.ended.startswith(("another training", "ended with")) for outcome in outcomes)
    if sentences > SENTENCES_MOST * len(outcomes):
        faults.append(f"{sentences} of {len(outcomes)} cases ended with a sentence in place of the same weights")
    return faults


class Campaign:
    """Runs cases; undisturbed trainings are run once."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        self.folder, self.chance = folder, random.Random(seed)
        self._undisturbed: dict[tuple[Training, str], Figures] = {}

    def run(self, number: int, case: Case) -> Outcome:
        """One case from its undisturbed training to the comparison."""
        place = self.folder / f"case-{number}"
        place.mkdir()
        fields = prepare(case.training, place / "data")
        outcome = Outcome(case, struck=False)
        expected = self.undisturbed(case.training, fields, place, change="")
        volume = place / "volume" / TRIAL
        kept = self._disturbed(case, fields, place, outcome)
        safe = kept
        if outcome.struck:
            safe = damage(case.damage, volume, place / "data", kept)
            if case.damage in CHANGES_TRAINING:
                expected = self.undisturbed(case.training, fields, place, change=case.damage)
        if case.moment == "resumed" and outcome.struck and kept:
            self._again(case, fields, place, outcome)
        self._to_the_end(case, fields, place, outcome, expected=expected, kept=kept, safe=safe)
        return outcome

    def undisturbed(self, training: Training, fields: dict[str, Any], place: Path, *, change: str) -> Figures:
        """What a training that nobody disturbs arrives at; it keeps no checkpoints."""
        if (training, change) not in self._undisturbed:
            with gang(place / f"undisturbed{'-changed' if change else ''}", fields, attempt=1, keep=False) as pods:
                codes = tuple(pod.wait() for pod in pods)
                assert codes == (0, 0), f"{training} fails undisturbed, with {codes}:\n{pods[0].log[-3000:]}"
                self._undisturbed[training, change] = figures(pods[0])
        return self._undisturbed[training, change]

    def _disturbed(self, case: Case, fields: dict[str, Any], place: Path, outcome: Outcome) -> list[int]:
        """The first attempt; the steps of the checkpoints that were said to be kept."""
        volume = place / "volume" / TRIAL
        with gang(place / "attempt-1", fields, attempt=1) as pods:
            outcome.struck = self._wait_for(case.moment, pods, volume)
            if outcome.struck:
                strike(case, pods)
            self._end(pods, outcome)
            return [one.step for one in pods[0].wrote_until_killed.of_kind(records.Checkpoint)]

    def _again(self, case: Case, fields: dict[str, Any], place: Path, outcome: Outcome) -> None:
        """The second attempt, killed as soon as it has resumed."""
        with gang(place / "attempt-2", fields, attempt=2) as pods:
            outcome.struck = poll(lambda: pods[0].count("resumed") > 0, pods)
            if outcome.struck:
                strike(case, pods)
            self._end(pods, outcome)
            outcome.tell_of_volume(pods[0])

    def _wait_for(self, moment: str, pods: tuple[Pod, ...], volume: Path) -> bool:
        """Until it has come; False where the training has ended before."""
        if moment == "before the first step":
            return poll(lambda: pods[0].count("environment") > 0 and all(pod.workers() for pod in pods), pods)
        if moment == "after an epoch":
            return poll(lambda: pods[0].count("epoch") > 0, pods)
        wanted = self.chance.randint(1, 4)
        if not poll(lambda: pods[0].count("checkpoint") >= wanted, pods):
            return False
        if moment == "while one is written":
            return poll(lambda: any(path.suffix == ".part" for path in volume.iterdir()), pods, seconds=0.0)
        if moment == "between checkpoints":
            time.sleep(self.chance.random() * 2 * WINDOW_SECONDS)
        return all(pod.process.poll() is None for pod in pods)

    def _end(self, pods: tuple[Pod, ...], outcome: Outcome) -> None:
        """Of an attempt that was struck, or came to its end: whoever was not killed has said why it ended."""
        codes = tuple(pod.wait() for pod in pods)
        outcome.codes.append(codes)
        for pod, code in zip(pods, codes, strict=True):
            if code == -signal.SIGKILL:
                continue
            if named(code) is None:
                outcome.wrong.append(f"a pod ended with {code}: {pod.log[-800:]}")
            elif code != ExitCode.SUCCEEDED:
                outcome.said.append(f"{pod.failure.sentence}")

    def _to_the_end(
        self,
        case: Case,
        fields: dict[str, Any],
        place: Path,
        outcome: Outcome,
        *,
        expected: Figures,
        kept: list[int],
        safe: list[int],
    ) -> None:
        """The last attempt, which nobody disturbs any more; what it says and arrives at."""
        told = fields
        if case.damage == "pod 1 is told another seed" and outcome.struck:
            told = fields | {"second": {"seed": 2}}
        attempt = 1 + len(outcome.codes)
        outcome.said_before = len(outcome.said)
        with gang(place / f"attempt-{attempt}", told, attempt=attempt) as pods:
            self._end(pods, outcome)
            first, codes = pods[0], outcome.codes[-1]
            outcome.tell_of_volume(first)
            if codes != (0, 0):
                if case.damage in ENDS_IT and outcome.struck and all(code in ENDS_IT[case.damage] for code in codes):
                    outcome.ended = f"ended with {min(codes)}, said why"
                    outcome.lost = "nothing is trained until it is mended"
                else:
                    outcome.ended = "ended with a failure"
                    outcome.wrong.append(f"the last attempt ended with {codes}: {outcome.said[-2:]}")
                return
            self._judge(case, outcome, first, expected=expected, kept=kept, safe=safe)
            left = [path.name for path in (place / "volume").rglob("*") if path.is_file()]
            if left and case.damage != "a file in place of the volume's folder":
                outcome.wrong.append(f"after the result there is still {left}")

    def _judge(
        self, case: Case, outcome: Outcome, first: Pod, *, expected: Figures, kept: list[int], safe: list[int]
    ) -> None:
        """Whether the last attempt went on from what it should, and has arrived where it should."""
        found, resumed = figures(first), first.result.resumed
        began = resumed.step if resumed else 0
        if case.damage in ENDS_IT and outcome.struck:
            outcome.wrong.append("it ended well")
        if found != expected:
            outcome.wrong.append(f"it ended with {found}, and undisturbed with {expected}")
        if outcome.struck and began < max(safe, default=0):
            outcome.wrong.append(f"it began at step {began}, though {safe} of {kept} were kept and not damaged")
        spoiled = kept and case.damage in CHECKPOINT_DAMAGES and case.damage != "the checkpoints are gone"
        if outcome.struck and spoiled and began < kept[-1] and not outcome.told:
            outcome.wrong.append(f"it began at step {began} of {kept}, and nobody said why")
        if not outcome.struck:
            outcome.ended = ENDED_BY_ITSELF
        elif case.damage in CHANGES_TRAINING:
            outcome.ended = "another training, said why"
            if not any("begins anew" in sentence or "another" in sentence for sentence in outcome.told) and kept:
                outcome.wrong.append(f"nobody said that it is another training: {outcome.told}")
        else:
            outcome.ended = f"same, from step {began}"
        if not kept:
            outcome.lost = "all of it: nothing had been kept"
        elif began >= kept[-1]:
            outcome.lost = "what came after the last checkpoint"
        elif began:
            outcome.lost = "what came after the last checkpoint but one"
        else:
            outcome.lost = "all of it: training begins anew"


def prepare(training: Training, folder: Path) -> dict[str, Any]:
    """The data of a training, and the fields of its assignment."""
    folder.mkdir()
    values = np.random.default_rng(1)
    fields: dict[str, Any] = {
        "trial": TRIAL, "workers": 2, "mode": "Training", "window_seconds": WINDOW_SECONDS, "batch_per_worker": BATCH,
        "precision": training.precision,
        "variant": {"name": "drawn", "xla": training.xla, "loss_scaling": training.loss_scaling},
    }  # fmt: skip
    volume = {"source": "Volume", "path": str(folder)}
    if training.network in OWN_NETWORKS:
        model = folder / "model.py"
        shutil.copy(MODEL, model)
        way = {"network": training.network, "optimizer": training.optimizer, "source": training.source}
        (folder / "way.json").write_text(json.dumps(way))
        inputs = values.normal(size=(600, 16)).astype(np.float32)
        labels = (inputs[:, :1] * inputs[:, 1:2] > 0).astype(np.float32)
        for number, rows in enumerate(np.array_split(np.hstack((inputs, labels)), 3)):
            (folder / f"{number}.records").write_bytes(rows.tobytes())
        return fields | {"workload": "own", "custom_file": str(model), "epochs": 4, "data": volume}
    fields["workload"] = training.network
    if training.source == "Generated":
        epochs, samples = SIZES[training.network]
        return fields | {"epochs": epochs, "data": {"source": "Generated", "samples": samples}}
    if training.network == "trivial":
        for part, each in (("train", 60), ("val", 20)):
            for label in ("first", "second"):
                (folder / part / label).mkdir(parents=True)
                for index in range(each):
                    pixels = values.integers(0, 256, (64, 80, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(folder / part / label / f"{index}.jpg")
        return fields | {"epochs": 6, "data": volume}
    write_mnist(folder, samples=800)
    return fields | {"epochs": 4, "data": volume}


def write_mnist(folder: Path, *, samples: int) -> None:
    """Random digits; the same ones first, however many."""
    values = np.random.default_rng(2)
    for prefix, each in (("train", samples), ("t10k", 100)):
        labels = np.arange(each) % 10
        images = values.integers(0, 128, (each, 28, 28), dtype=np.uint8) + (labels * 12)[:, None, None]
        write_idx(folder / f"{prefix}-images-idx3-ubyte", images)
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", labels)


class gang:  # noqa: N801  # a context manager, used like a function
    """An attempt of two pods; nothing of it is left."""

    def __init__(self, folder: Path, fields: dict[str, Any], *, attempt: int, keep: bool = True) -> None:
        folder.mkdir()
        second = fields.get("second", {})
        self._fields = {name: value for name, value in fields.items() if name != "second"} | {"attempt": attempt}
        if keep:
            self._fields["checkpoint"] = {"interval_seconds": INTERVAL_SECONDS}
        self._pods, self._assignments = Pods(folder), [self._fields, self._fields | second]
        self._environment = {
            names.ENV_CHECKPOINTS: str(folder.parent / "volume"),
            "GPUBENCH_LIMIT_LINGER": "0",
            "TF_CPP_MIN_LOG_LEVEL": "2",
        }

    def __enter__(self) -> tuple[Pod, ...]:
        return tuple(
            self._pods.start(make_assignment(**fields), index=index, environment=self._environment)
            for index, fields in enumerate(self._assignments)
        )

    def __exit__(self, *_: object) -> None:
        self._pods.end()


def strike(case: Case, pods: tuple[Pod, ...]) -> None:
    """SIGKILL to the victim, or SIGTERM, as from a kubelet, to its launcher."""
    by = signal.SIGTERM if case.moment == "told to stop" else signal.SIGKILL
    what, _, which = case.victim.partition(" ")
    for pod in pods if case.victim == BOTH else (pods[int(which)],):
        targets = [worker.pid for worker in pod.workers()] if what == "worker" else [pod.process.pid]
        for target in targets:
            os.kill(target, by)


def damage(how: str, volume: Path, data: Path, kept: list[int]) -> list[int]:
    """Does it; the steps of those checkpoints that are as they were, of those that were said to be kept."""
    whole = sorted(path for path in volume.glob("*.json")) if volume.is_dir() else []
    present = [step for step in kept if any(path.name.startswith(f"{step:012d}.") for path in whole)]
    newest = whole[-1] if whole else None
    left = [step for step in present if newest is None or not newest.name.startswith(f"{step:012d}.")]
    if how in CHECKPOINT_DAMAGES and newest is not None:
        values = newest.with_suffix(".data")
        if how == "all values are cut":
            for path in volume.glob("*.data"):
                checkpoints.damage(path, 0)
            return []
        if how == "the checkpoints are gone":
            shutil.rmtree(volume)
            return []
        DAMAGES[how](newest, values)
        return left
    if how == "half-written files":
        volume.mkdir(parents=True, exist_ok=True)
        (volume / f"{10**6:012d}.0001.data.part").write_bytes(b"half")
        (volume / f"{10**6:012d}.0001.data").write_bytes(b"values without a manifest")
    elif how == "another training's of a later step":
        volume.mkdir(parents=True, exist_ok=True)
        other = checkpoints.manifest(10**6).model_copy(update={"sha256": "0" * 64, "size_bytes": 1})
        (volume / f"{10**6:012d}.0001.data").write_bytes(b"1")
        (volume / f"{10**6:012d}.0001.json").write_text(other.to_text())
    elif how == "a later attempt's":
        volume.mkdir(parents=True, exist_ok=True)
        (volume / f"{1:012d}.0099.data").write_bytes(b"1")
    elif how == "a file in place of the volume's folder":
        shutil.rmtree(volume, ignore_errors=True)
        volume.parent.mkdir(exist_ok=True)
        volume.write_bytes(b"")
        return []
    elif how in EDITS:
        EDITS[how](data)
        return [] if how in CHANGES_TRAINING else present
    return present


def _edited(old: str, new: str) -> Callable[[Path], None]:
    def edit(data: Path) -> None:
        model = data / "model.py"
        text = model.read_text()
        assert old in text
        model.write_text(text.replace(old, new))

    return edit


def _cut_records(data: Path) -> None:
    checkpoints.damage(data / "train-images-idx3-ubyte", 0)


DAMAGES: dict[str, Callable[[Path, Path], None]] = {
    "its values are cut": lambda _, values: checkpoints.damage(values, 0),
    "a bit of its values": lambda _, values: checkpoints.damage(values, 1),
    "a folder for its values": lambda _, values: checkpoints.damage(values, 2),
    "its values are gone": lambda _, values: values.unlink(),
    "its manifest is cut": lambda manifest, _: checkpoints.damage(manifest, 0),
    "a bit of its manifest": lambda manifest, _: checkpoints.damage(manifest, 1),
    "its manifest is gone": lambda manifest, _: manifest.unlink(),
}
EDITS: dict[str, Callable[[Path], None]] = {
    "the file is edited": _edited("LOSS_FACTOR = 1.0", "LOSS_FACTOR = 1.5"),
    "the file raises": _edited("def build(", "raise OSError('a mistake')\n\n\ndef build("),
    "the file's batches are of another size": _edited(".batch(setting.batch_per_worker, ", ".batch(3, "),
    "the data have grown": lambda data: write_mnist(data, samples=1000),
    "the data are cut": _cut_records,
}


def poll(holds: Callable[[], bool], pods: tuple[Pod, ...], *, seconds: float = 0.01) -> bool:
    """Whether it held before a pod had ended."""
    held = False

    def is_over() -> bool:
        nonlocal held
        held = holds()
        return held or any(pod.process.poll() is not None for pod in pods)

    if seconds:
        wait_until(is_over)
    else:
        deadline = time.monotonic() + 60
        while not is_over() and time.monotonic() < deadline:
            pass
    return held


def figures(pod: Pod) -> Figures:
    """Of a pod 0 that has ended well."""
    result = pod.result
    return Figures(
        weights=result.weights_digest,
        steps=result.steps,
        samples=result.samples,
        epochs=tuple(
            (one.index, one.steps, one.samples, one.loss, one.evaluation_loss, one.accuracy, one.evaluation_samples)
            for one in pod.wrote_until_killed.of_kind(records.Epoch)
        ),
    )


def table(outcomes: list[Outcome]) -> str:
    """Fault by fault; numbers and paths are left out, so that only what is said can differ."""
    rows = dict[str, tuple[set[str], set[str], set[str]]]()
    for outcome in outcomes:
        if not outcome.struck:
            continue
        case = outcome.case
        kill = f"SIGTERM to {case.victim}" if case.moment == "told to stop" else f"SIGKILL to {case.victim}"
        kill = f"{kill}, {case.moment}" if case.moment == "before the first step" else kill
        fault = kill if case.damage == "none" else f"after a kill: {case.damage}"
        said, codes, lost = rows.setdefault(fault, (set(), set(), set()))
        # Of a damage what the last attempt said, of a kill what those before it said.
        ends, sentences = (
            (outcome.codes[:-1], outcome.said[: outcome.said_before])
            if case.damage == "none"
            else (outcome.codes[-1:], outcome.said[outcome.said_before :])
        )
        codes.update("/".join(map(str, each)) for each in ends)
        said.update(masked(sentence) for sentence in sentences)
        lost.add(outcome.lost)
    lines = [
        "<!-- Generated by `make fuzz-training`: do not edit. -->",
        "",
        "# What a killed training, or a damaged volume, costs",
        "",
        "Numbers are N. What follows a kill is what the next attempt says and how it ends.",
        "",
        "| fault | what the user reads | exit codes, pod 0/pod 1 | what is lost |",
        "|---|---|---|---|",
    ]
    lines += [f"| {fault} | " + " | ".join(map(joined, columns)) + " |" for fault, columns in sorted(rows.items())]
    return "\n".join(lines) + "\n"


def joined(parts: set[str]) -> str:
    return "<br>".join(sorted(parts)).replace("|", r"\|") or "nothing"


def masked(sentence: str) -> str:
    sentence = re.sub(r"[^\s']*/\d{12}\.\d{4}", "CHECKPOINT", sentence)
    sentence = re.sub(r"\d{12}\.\d{4}", "CHECKPOINT", re.sub(r"/\S*/", "…/", sentence))
    sentence = re.sub(r"rank \d+, [a-z ']+, was ended", "rank N, PHASE, was ended", sentence)
    return re.sub(r"(?<!SHA-)\b\d+(\.\d+)*", "N", sentence)


if __name__ == "__main__":
    sys.exit(main())
