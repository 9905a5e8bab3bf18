# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a writer, and whatever changes a file: a whole checkpoint of this training is used."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from gangs import make_assignment
from gpubench_jobs import checkpoint
from gpubench_jobs.checkpoint import Array, Identity, Manifest, Progress, Store

PIECE_BYTES = 1000
WHOSE = checkpoint.identity(make_assignment())


class PodIsGone(BaseException):
    """SIGKILL: nothing of the writer's own runs after it."""


class FailingDisk(checkpoint.Disk):
    """A real one, whose writer is gone at the change of a given number: that one is not made, or half of it."""

    def __init__(self, at: int) -> None:
        self._left = at

    def _count(self) -> None:
        if not self._left:
            raise PodIsGone
        self._left -= 1

    def create(self, path: Path) -> BinaryIO:
        self._count()
        return super().create(path)

    def write(self, file: BinaryIO, piece: memoryview) -> None:
        if not self._left:
            file.write(piece[: len(piece) // 2])
            file.flush()
        self._count()
        super().write(file, piece)

    def sync(self, file: BinaryIO) -> None:
        self._count()
        super().sync(file)

    def rename(self, path: Path, name: Path) -> None:
        self._count()
        super().rename(path, name)

    def sync_names(self, folder: Path) -> None:
        self._count()
        super().sync_names(folder)

    def remove(self, path: Path) -> None:
        self._count()
        super().remove(path)


def values_of(step: int) -> list[memoryview]:
    """Two variables, of which one is larger than a piece of a file."""
    large = bytes([1 + step % 251]) * (2 * PIECE_BYTES + 3)
    return [memoryview(bytes([step % 251]) * 7), memoryview(large)]


def manifest(step: int, *, attempt: int = 1, identity: Identity = WHOSE) -> Manifest:
    return Manifest(
        identity=identity, attempt=attempt, progress=Progress(step=step), arrays=(Array(dtype="float32", shape=(2, 3)),)
    )  # fmt: skip


def written(folder: Path, *steps: int, **fields: Any) -> Store:
    store = Store(folder=folder, piece_bytes=PIECE_BYTES)
    for step in steps:
        store.write(manifest(step, **fields), values_of(step))
    return store


def newest_step(store: Store, identity: Identity = WHOSE) -> int | None:
    found = store.newest(identity)
    if found is None:
        return None
    step = found.manifest.progress.step
    assert found.values == b"".join(values_of(step)), "a checkpoint of one step has the values of another"
    return step


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_is_read_as_it_was_written_and_two_are_kept(tmp_path: Path) -> None:
    store = written(tmp_path / "volume" / "trial", 1, 20, 300, 4000)
    assert newest_step(store) == 4000
    found = store.newest(WHOSE)
    assert found is not None
    assert found.manifest.arrays == manifest(1).arrays
    assert files(store.folder) == [
        f"{step:012d}.0001.{kind}" for step in (300, 4000) for kind in ("data", "json")
    ]  # fmt: skip


def test_a_volume_without_a_checkpoint_has_none(tmp_path: Path) -> None:
    assert Store(folder=tmp_path / "nothing").newest(WHOSE) is None


def test_a_writer_that_is_ended_at_any_change_of_the_volume_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """A third one, so that an old one is removed, too; a fourth is written over whatever is left."""
    for at in itertools.count():
        folder = tmp_path / str(at)
        written(folder, 1, 2)
        gone = False
        try:
            Store(folder=folder, disk=FailingDisk(at), piece_bytes=PIECE_BYTES).write(manifest(3), values_of(3))
        except PodIsGone:
            gone = True
        told: list[str] = []
        after = Store(folder=folder, tell=told.append)
        assert newest_step(after) in (2, 3)
        assert not told, "what is half there has no name, and is no reason to complain"
        if (folder / "000000000003.0001.json").exists():
            assert newest_step(after) == 3
        after.write(manifest(4, attempt=2), values_of(4))
        assert newest_step(after) == 4
        assert not [name for name in files(folder) if name.endswith(".part")]
        assert len(files(folder)) == 4
        if not gone:
            break
    assert at > 10, "there are that many changes at least"


@pytest.mark.parametrize("kind", ["data", "json"])
def test_a_changed_byte_anywhere_is_found_and_the_older_one_is_used(tmp_path: Path, kind: str) -> None:
    store = written(tmp_path / "trial", 1, 2)
    path = store.folder / f"000000000002.0001.{kind}"
    content = path.read_bytes()
    places = {0, 1, len(content) // 2, len(content) - 1, *range(0, len(content), max(1, len(content) // 9))}
    for place in sorted(places):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        told: list[str] = []
        assert newest_step(Store(folder=store.folder, tell=told.append)) == 1, f"byte {place}"
        (sentence,) = told
        assert "000000000002.0001 is not used: " in sentence
    path.write_bytes(content)
    assert newest_step(store) == 2


@pytest.mark.parametrize("kind", ["data", "json"])
def test_a_file_that_was_cut_or_lost_is_found_and_the_older_one_is_used(tmp_path: Path, kind: str) -> None:
    store = written(tmp_path / "trial", 1, 2)
    path = store.folder / f"000000000002.0001.{kind}"
    path.write_bytes(path.read_bytes()[:-1])
    told: list[str] = []
    assert newest_step(Store(folder=store.folder, tell=told.append)) == 1
    assert len(told) == 1
    path.unlink()
    assert newest_step(Store(folder=store.folder, tell=told.append)) == 1


def others() -> Iterator[Any]:
    yield pytest.param({"trial": "other"}, "it is one of trial trial1, and this is trial other", id="trial")
    yield pytest.param({"workers": 2}, "it was written by 1 ranks, and these are 2", id="ranks")
    for change in ({"seed": 2}, {"batch_per_worker": 16}, {"precision": "mixed_bfloat16"}, {"workload": "mnist_cnn"}):
        yield pytest.param(change, "it was written by a training with other settings", id=next(iter(change)))


@pytest.mark.parametrize(("change", "sentence"), list(others()))
def test_a_checkpoint_of_another_training_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    folder = written(tmp_path / "trial", 7).folder
    told: list[str] = []
    other = checkpoint.identity(make_assignment(**change))
    assert newest_step(Store(folder=folder, tell=told.append), other) is None
    assert told == [f"the checkpoint {folder / '000000000007.0001'} is not used: {sentence}"]


def test_a_later_attempt_at_the_same_training_goes_on_whatever_it_is_told_of_its_time_outs() -> None:
    later = make_assignment(attempt=4, join_timeout_seconds=5, stall_timeout_seconds=7, window_seconds=3)
    assert checkpoint.identity(later) == WHOSE


def test_of_two_attempts_that_came_equally_far_the_later_one_is_read(tmp_path: Path) -> None:
    written(tmp_path / "trial", 5, attempt=2)
    store = written(tmp_path / "trial", 5, attempt=10)
    found = store.newest(WHOSE)
    assert found is not None
    assert found.manifest.attempt == 10


def test_a_full_volume_leaves_the_older_checkpoints_and_no_rest_after_the_next(tmp_path: Path) -> None:
    store = written(tmp_path / "trial", 1, 2)

    class Full(checkpoint.Disk):
        def write(self, file: BinaryIO, piece: memoryview) -> None:
            file.write(piece[:10])
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left"):
        Store(folder=store.folder, disk=Full()).write(manifest(3), values_of(3))
    assert newest_step(store) == 2
    store.write(manifest(4), values_of(4))
    assert newest_step(store) == 4
    assert len(files(store.folder)) == 4


def test_a_training_that_has_its_result_leaves_nothing_on_the_volume(tmp_path: Path) -> None:
    store = written(tmp_path / "trial", 1, 2)
    neighbour = written(tmp_path / "other", 1)
    store.remove()
    assert not store.folder.exists()
    assert newest_step(neighbour) == 1
    store.remove()  # which is done, also where there is nothing
