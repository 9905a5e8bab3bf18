# SPDX-License-Identifier: Apache-2.0
"""Any history of a volume: what was said to be kept is found by the next attempt, or its loss has a sentence.

Attempts begin, write, are killed at any change that they make, and go on writing after a later one has begun; somebody
damages files and changes the study. Nothing raises but the end of a replaced writer, and the folder does not grow.
"""

import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from hypothesis import settings, stateful
from hypothesis import strategies as st

from checkpoints import PIECE_BYTES, WHOSE, InterruptedDisk, PodIsGone, damage, manifest, values_of
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker.checkpoint import KEPT, Found, Identity, Name, Store

UNUSED_KEPT = 2
#: Kept, half written and unused, and what a writer left that was killed before it could clear up.
NAMES_MAX = 8
#: The number of a change: a write has nineteen or so.
CHANGE = st.integers(0, 20)


class Disk(InterruptedDisk):
    """Nobody takes the power away here."""

    def sync(self, file: BinaryIO) -> None:
        self._change()
        file.flush()


@dataclass
class Writer:
    """Rank 0 of an attempt."""

    attempt: int
    step: int
    identity: Identity
    store: Store


class Volume(stateful.RuleBasedStateMachine):
    """One training's folder."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp()) / "trial"
        self.identity = WHOSE
        self.attempts = 0
        self.writers: list[Writer] = []
        self.told: list[str] = []
        self.kept: Name | None = None  # what was said to be kept, and is to be found

    def teardown(self) -> None:
        shutil.rmtree(self.folder.parent)

    @stateful.rule(killed_at=st.none() | CHANGE)
    def begin(self, killed_at: int | None) -> None:
        self.attempts += 1
        store = Store(folder=self.folder, disk=Disk(killed_at), tell=self.told.append, piece_bytes=PIECE_BYTES)
        try:
            found = store.newest(self.identity, attempt=self.attempts)
        except PodIsGone:
            return
        name = self._require_what_was_kept(found, self.told)
        self.kept, self.told[:] = name, []
        step = name.step if name is not None else 0
        self.writers.append(Writer(self.attempts, step, self.identity, replace(store, disk=Disk(None))))

    def _require_what_was_kept(self, found: Found | None, told: list[str]) -> Name | None:
        """The name of what was found."""
        name = None
        if found is not None:
            name = Name(found.manifest.attempt, found.manifest.progress.step)
            assert found.values == b"".join(values_of(name.step, attempt=name.attempt))
            assert found.manifest.identity == self.identity
        if self.kept is not None and (name is None or name < self.kept):
            assert any(str(self.kept) in sentence for sentence in told), f"{self.kept} was lost without a word"
        return name

    @stateful.rule(killed_at=CHANGE)
    def begin_and_be_killed_while_writing(self, killed_at: int) -> None:
        self.begin(None)
        self._write(self.writers[-1], Disk(killed_at))

    @stateful.precondition(lambda self: self.writers)
    @stateful.rule(which=st.integers(0, 2), killed_at=st.none() | CHANGE)
    def write(self, which: int, killed_at: int | None) -> None:
        self._write(self.writers[-1 - which % len(self.writers)], Disk(killed_at))

    @stateful.precondition(lambda self: len(self.writers) > 1)
    @stateful.rule(at=st.just(0) | CHANGE, later_first=st.booleans())
    def write_while_another_writes(self, at: int, later_first: bool) -> None:
        first, second = self.writers[-2:] if later_first else reversed(self.writers[-2:])
        self._write(second, Disk(at, lambda: self._write(first, Disk(None))))

    def _write(self, writer: Writer, disk: Disk) -> None:
        writer.step += 1 + writer.attempt % 3 * 100
        one = manifest(writer.step, attempt=writer.attempt, identity=writer.identity)
        store = replace(writer.store, disk=disk)
        try:
            store.write(one, values_of(writer.step, attempt=writer.attempt))
        except PodIsGone:
            self.writers.remove(writer)
        except RankError:
            assert any(name.attempt > writer.attempt for name in store.files())
            self.writers.remove(writer)
        else:
            name = Name(writer.attempt, writer.step)
            found = store.files()
            self.kept = name if self.kept is None else max(self.kept, name)
            if name == max(found):  # else a later attempt has come since
                assert {".data", ".json"} <= found[name]
                left = [other for other, endings in found.items() if endings & {".data", ".json"}]
                assert len(left) <= KEPT + 1, "one of a replaced writer's may have come since"

    @stateful.precondition(lambda self: self.writers and self.writers[-1].store.good)
    @stateful.rule()
    def refuse(self) -> None:
        store = self.writers[-1].store
        store.set_aside(store.good[-1], "its variables are not those of the model")
        self.kept = None

    @stateful.rule(seed=st.integers(1, 2))
    def change_the_study(self, seed: int) -> None:
        self.identity = WHOSE.model_copy(update={"assignment": f"of seed {seed}"})

    @stateful.precondition(lambda self: any(path.is_file() for path in self.folder.glob("*")))
    @stateful.rule(which=st.integers(0, 3), how=st.integers(0, 3))
    def somebody_damages(self, which: int, how: int) -> None:
        newest = max(Store(folder=self.folder).files())
        files = sorted(path for path in self.folder.iterdir() if path.is_file())
        files.sort(key=lambda path: not path.name.startswith(str(newest)))
        path = files[which % len(files)]
        damage(path, how)
        if self.kept is not None and not path.exists():
            watched = self.writers and self.kept in self.writers[-1].store.good
            left = list(self.folder.glob(f"{self.kept}.????"))
            if not left or (path.name == f"{self.kept}.json" and not watched):
                self.kept = None  # values without a manifest look like those of a writer that was killed

    @stateful.invariant()
    def an_attempt_that_began_now_would_find_it(self) -> None:
        copy = self.folder.with_name("copy")
        if self.folder.exists():
            shutil.copytree(self.folder, copy)
        told = list(self.told)
        found = Store(folder=copy, tell=told.append).newest(self.identity, attempt=self.attempts + 1)
        self._require_what_was_kept(found, told)
        shutil.rmtree(copy, ignore_errors=True)

    @stateful.invariant()
    def the_folder_is_bounded(self) -> None:
        found = Store(folder=self.folder).files()
        unused = [name for name, endings in found.items() if any(ending.endswith(".unused") for ending in endings)]
        assert len(unused) <= UNUSED_KEPT
        assert len(found) <= NAMES_MAX


TestVolume = Volume.TestCase
TestVolume.settings = settings(max_examples=120, stateful_step_count=25, derandomize=True)
