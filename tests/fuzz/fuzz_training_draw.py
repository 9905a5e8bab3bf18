# SPDX-License-Identifier: Apache-2.0
"""Which trainings `fuzz_training` disturbs, when and how: every value of every dimension equally often. Pure."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TypeVar

from gpubench.exitcodes import ExitCode

OWN_NETWORKS = ("dense", "convolution", "recurrent", "embedding")
OWN_OPTIMIZERS = ("SGD with momentum", "Adam", "AdamW with EMA and accumulation")
OWN_SOURCES = ("own, in memory", "own, of files")
#: With the optimizer of the catalogue.
CATALOGUE = (
    ("mnist_mlp", "Volume"),
    ("mnist_cnn", "Generated"),
    ("mnist_cnn", "Volume"),
    ("cifar10_cnn", "Generated"),
    ("imdb_fasttext", "Generated"),
    ("imdb_bidirectional_lstm", "Generated"),
    ("lstm_text_generation", "Generated"),
    ("trivial", "Volume"),
)
ITS_OWN = "the workload's"
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
LOSS_SCALINGS = ("Fixed", "Dynamic")
MOMENTS = (
    "before the first step",
    "between checkpoints",
    "while one is written",
    "after an epoch",
    "resumed",
    "told to stop",
)
BOTH = "both launchers"
LAUNCHERS = ("launcher 0", "launcher 1", BOTH)
VICTIMS = ("worker 0", "worker 1", *LAUNCHERS)

#: Of the newest checkpoint, unless they say of all.
CHECKPOINT_DAMAGES = (
    "its values are cut",
    "a bit of its values",
    "a folder for its values",
    "its values are gone",
    "its manifest is cut",
    "a bit of its manifest",
    "its manifest is gone",
    "all values are cut",
    "the checkpoints are gone",
)
_FOREIGN = ("half-written files", "another training's of a later step", "a file in place of the volume's folder")
CHANGES_TRAINING = ("the file is edited", "the data have grown")
#: And the codes that a pod may end with then.
ENDS_IT = {
    "a later attempt's": (ExitCode.TERMINATED, ExitCode.PEER_LOST),
    "the file raises": (ExitCode.CUSTOM_MODEL_FAILED, ExitCode.PEER_LOST),
    "the file's batches are of another size": (ExitCode.CUSTOM_MODEL_FAILED, ExitCode.PEER_LOST),
    "the data are cut": (ExitCode.DATA_UNUSABLE, ExitCode.PEER_LOST),
    "pod 1 is told another seed": (ExitCode.BAD_ASSIGNMENT, ExitCode.PEER_LOST),
}
DAMAGES = ("none", "none", "none", "none", *CHECKPOINT_DAMAGES, *_FOREIGN, *CHANGES_TRAINING, *ENDS_IT)
_OF_OWN_FILES = ("the file is edited", "the file raises", "the file's batches are of another size")
_OF_MNIST_FILES = ("the data have grown", "the data are cut")

_T = TypeVar("_T")


@dataclass(frozen=True)
class Training:
    network: str
    optimizer: str
    precision: str
    loss_scaling: str
    source: str
    xla: bool


@dataclass(frozen=True)
class Case:
    training: Training
    moment: str
    victim: str
    damage: str

    def values(self) -> Iterator[tuple[str, str]]:
        """Of each dimension."""
        yield from ((name, str(value)) for name, value in asdict(self.training).items())
        yield from (("moment", self.moment), ("victim", self.victim), ("damage", self.damage))

    def __str__(self) -> str:
        training = " ".join(str(value) for name, value in asdict(self.training).items() if name != "xla")
        xla = " XLA" if self.training.xla else ""
        return f"{training}{xla}; {self.moment}, {self.victim}; {self.damage}"


def dimensions() -> dict[str, Sequence[str]]:
    """Their values."""
    return {
        "network": (*OWN_NETWORKS, *dict.fromkeys(name for name, _ in CATALOGUE)),
        "optimizer": (*OWN_OPTIMIZERS, ITS_OWN),
        "precision": PRECISIONS,
        "loss_scaling": LOSS_SCALINGS,
        "source": (*OWN_SOURCES, "Generated", "Volume"),
        "xla": ("False", "True"),
        "moment": MOMENTS,
        "victim": VICTIMS,
        "damage": tuple(dict.fromkeys(DAMAGES)),
    }


def draw(chance: random.Random, *, cases: int) -> list[Case]:
    """So many; three disturb the same training. Of one training the cases are beside each other."""
    trainings = _trainings(chance, count=max(1, cases // 3))
    wanted = _evenly(chance, DAMAGES, cases)
    drawn = []
    moments, victims = _evenly(chance, MOMENTS, cases), _evenly(chance, VICTIMS, cases)
    for index, moment in enumerate(moments):
        victim = victims[index]
        if moment == "told to stop" and victim not in LAUNCHERS:
            victim = chance.choice(LAUNCHERS)
        drawn.append((trainings[index % len(trainings)], moment, victim))
    # Damages that few cases can have come first.
    found: dict[int, str] = {}
    for damage in sorted(wanted, key=lambda damage: sum(_suits(damage, *case[:2]) for case in drawn)):
        fitting = [index for index, case in enumerate(drawn) if index not in found and _suits(damage, *case[:2])]
        if fitting:
            found[chance.choice(fitting)] = damage
    result = [Case(*case, damage=found.get(index, "none")) for index, case in enumerate(drawn)]
    return sorted(result, key=lambda case: trainings.index(case.training))


def _suits(damage: str, training: Training, moment: str) -> bool:
    if damage in CHECKPOINT_DAMAGES and moment == "before the first step":
        return False
    if moment == "resumed" and damage in ("all values are cut", "the checkpoints are gone", *_FOREIGN[2:], *ENDS_IT):
        return False  # nobody resumes then
    if moment == "resumed" and damage in CHANGES_TRAINING:
        return False
    if damage in _OF_OWN_FILES:
        return training.network in OWN_NETWORKS
    return damage not in _OF_MNIST_FILES or (training.source == "Volume" and training.network.startswith("mnist"))


def _trainings(chance: random.Random, *, count: int) -> list[Training]:
    """A half of own files, a half of the catalogue."""
    own = count - count // 2
    networks = [*((name, "") for name in _evenly(chance, OWN_NETWORKS, own)), *_evenly(chance, CATALOGUE, count // 2)]
    precisions, xla = _evenly(chance, PRECISIONS, count), _evenly(chance, (False, False, True), count)
    optimizers, sources = _evenly(chance, OWN_OPTIMIZERS, own), _evenly(chance, OWN_SOURCES, own)
    scalings = _evenly(chance, LOSS_SCALINGS, count)
    trainings = []
    for index, (name, source) in enumerate(networks):
        is_own = not source
        trainings.append(
            Training(
                network=name,
                optimizer=optimizers[index] if is_own else ITS_OWN,
                precision=precisions[index],
                loss_scaling=scalings[index] if precisions[index] == "mixed_float16" else "Fixed",
                source=sources[index] if is_own else source,
                xla=xla[index],
            )
        )
    return trainings


def _evenly(chance: random.Random, values: Sequence[_T], count: int) -> list[_T]:
    """So many of them in a random order, each equally often."""
    turns = -(-count // len(values))
    result = [value for _ in range(turns) for value in chance.sample(values, len(values))][:count]
    chance.shuffle(result)
    return result
