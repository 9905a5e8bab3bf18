# SPDX-License-Identifier: Apache-2.0
"""Whatever ends a writer, and whatever changes a file: a whole checkpoint of this training is used."""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from checkpoints import PIECE_BYTES, WHOSE, InterruptedDisk, PodIsGone, manifest, values_of
from gangs import make_assignment
from gpubench.exitcodes import ExitCode
from gpubench_jobs.failures import RankError
from gpubench_jobs.worker import checkpoint
from gpubench_jobs.worker.checkpoint import Identity, Name, Store

#: Of a reader.
LATE = 100


def written(folder: Path, *steps: int, **fields: Any) -> Store:
    store = Store(folder=folder, piece_bytes=PIECE_BYTES)
    for step in steps:
        store.write(manifest(step, **fields), values_of(step))
    return store


def newest_step(store: Store, identity: Identity = WHOSE, *, attempt: int = LATE) -> int | None:
    found = store.newest(identity, attempt=attempt)
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
    found = store.newest(WHOSE, attempt=LATE)
    assert found is not None
    assert found.manifest.arrays == manifest(1).arrays
    assert files(store.folder) == [
        f"{step:012d}.0001.{kind}" for step in (300, 4000) for kind in ("data", "json")
    ]  # fmt: skip


def test_a_volume_without_a_checkpoint_has_none(tmp_path: Path) -> None:
    assert Store(folder=tmp_path / "nothing").newest(WHOSE, attempt=1) is None


def test_a_writer_that_is_ended_at_any_change_of_the_volume_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    """A third one, so that an old one is removed, too; a fourth is written over whatever is left."""
    for at in itertools.count():
        folder = tmp_path / str(at)
        written(folder, 1, 2)
        gone = False
        try:
            Store(folder=folder, disk=InterruptedDisk(at), piece_bytes=PIECE_BYTES).write(manifest(3), values_of(3))
        except PodIsGone:
            gone = True
        told: list[str] = []
        without = (folder / "000000000003.0001.data").exists() and not (folder / "000000000003.0001.json").exists()
        after = Store(folder=folder, tell=told.append)
        assert newest_step(after) in (2, 3)
        assert len(told) == without, "what is half there has no name, and is no reason to complain"
        if (folder / "000000000003.0001.json").exists():
            assert newest_step(after) == 3
        after.write(manifest(4, attempt=LATE), values_of(4))
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
        for aside in store.folder.glob("*.unused"):
            aside.rename(aside.with_suffix(""))
    path.write_bytes(content)
    assert newest_step(store) == 2


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("kind", ["data", "json"])
def test_a_file_that_was_cut_or_lost_is_found_and_the_older_one_is_used(tmp_path: Path, kind: str, lost: bool) -> None:
    store = written(tmp_path / "trial", 1, 2)
    path = store.folder / f"000000000002.0001.{kind}"
    content = path.read_bytes()
    path.unlink()
    if not lost:
        path.write_bytes(content[:-1])
    told: list[str] = []
    assert newest_step(Store(folder=store.folder, tell=told.append)) == 1
    assert len(told) == 1
    assert "000000000002.0001" in told[0]


def others() -> Iterator[Any]:
    yield pytest.param({"trial": "other"}, "it was written by a training with other settings", id="trial")
    yield pytest.param({"workers": 2}, "it was written by a training with other settings", id="ranks")
    yield pytest.param({"custom_file": __file__}, "the text of custom.file is another one now", id="custom.file")
    for change in (
        {"seed": 2},
        {"epochs": 3},
        {"batch_per_worker": 16},
        {"precision": "mixed_bfloat16"},
        {"workload": "mnist_cnn"},
    ):
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
    found = store.newest(WHOSE, attempt=LATE)
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


def test_a_full_volume_has_no_room_for_what_is_unused(tmp_path: Path) -> None:
    told: list[str] = []

    class Full(checkpoint.Disk):
        def sync(self, file: BinaryIO) -> None:  # noqa: ARG002  # the one of a real disk
            raise OSError(28, "No space left on device")

    store = written(tmp_path / "trial", 1, 2)
    (store.folder / "000000000002.0001.data").write_bytes(b"")
    full = Store(folder=store.folder, disk=Full(), tell=told.append)
    assert newest_step(full) == 1
    with pytest.raises(OSError, match="No space left"):
        full.write(manifest(3, attempt=LATE), values_of(3))
    assert not list(store.folder.glob("*.unused"))
    assert told[-1].endswith("000000000002.0001 is removed: there is no room")


def test_what_is_refused_pushes_nothing_out_and_the_last_two_of_it_are_kept_aside(tmp_path: Path) -> None:
    folder = written(tmp_path / "trial", 900, 1000).folder
    for path in folder.glob("*.data"):
        path.write_bytes(b"other")
    for attempt, step in ((2, 10), (3, 20)):
        told: list[str] = []
        store = Store(folder=folder, tell=told.append)
        assert newest_step(store, attempt=attempt) is None
        assert len(told) == (2 if attempt == 2 else 0), "it is said once"
        store.write(manifest(step, attempt=attempt), values_of(step))
        assert newest_step(Store(folder=folder), attempt=attempt) == step
        store.set_aside(Name(attempt, step), "its variables are not those of the model")
    assert told[-1].endswith("000000001000.0001 is removed: no more than 2 stay")
    assert files(folder) == sorted(
        f"{name}.{kind}.unused" for name in ("000000000010.0002", "000000000020.0003") for kind in ("data", "json")
    )  # fmt: skip


def test_the_one_that_was_begun_from_stays_until_there_are_two_newer_ones(tmp_path: Path) -> None:
    folder = written(tmp_path / "trial", 900, 1000).folder
    (folder / "000000001000.0001.data").write_bytes(b"other")
    store = Store(folder=folder)
    assert newest_step(store, attempt=2) == 900
    for step, kept in ((910, {900, 910}), (920, {910, 920})):
        store.write(manifest(step, attempt=2), values_of(step))
        assert {int(path.name[:12]) for path in folder.glob("*.json")} == kept


def test_attempts_that_are_killed_before_they_can_clear_up_leave_no_more_and_more(tmp_path: Path) -> None:
    class NoTime(checkpoint.Disk):
        def rename(self, path: Path, name: Path) -> None:
            super().rename(path, name)
            if name.suffix == ".json":
                raise PodIsGone

    folder = written(tmp_path / "trial", 1).folder
    for attempt in range(2, 9):
        store = Store(folder=folder, disk=NoTime())
        assert newest_step(store, attempt=attempt) == attempt - 1
        with pytest.raises(PodIsGone):
            store.write(manifest(attempt, attempt=attempt), values_of(attempt))
    assert len(files(folder)) == 2 * (checkpoint.KEPT + 1)


def test_values_without_their_manifest_stay_and_are_told_of_until_there_is_a_newer_checkpoint(tmp_path: Path) -> None:
    store = written(tmp_path / "trial", 1, 2)
    (store.folder / "000000000002.0001.json").unlink()
    with pytest.raises(PodIsGone):
        replace(store, disk=InterruptedDisk(3)).write(manifest(3), values_of(3))
    told: list[str] = []
    assert newest_step(Store(folder=store.folder, tell=told.append)) == 1
    assert told == [
        f"{store.folder / '000000000002.0001'} has no manifest: it was not finished, or somebody has removed that"
    ]


class Forgetful(checkpoint.Disk):
    """Says that all is there."""

    def rename(self, path: Path, name: Path) -> None:
        super().rename(path, name)
        if name.suffix == ".data":
            name.write_bytes(b"")


class Mixed(checkpoint.Disk):
    """Another writer's manifest takes the place of the own one."""

    def rename(self, path: Path, name: Path) -> None:
        super().rename(path, name)
        if name.suffix == ".json":
            name.write_text(manifest(7).to_text())


@pytest.mark.parametrize("disk", [Forgetful(), Mixed()])
def test_a_checkpoint_that_cannot_be_read_back_is_not_said_to_be_kept(tmp_path: Path, disk: checkpoint.Disk) -> None:
    store = written(tmp_path / "trial", 1, 2)
    with pytest.raises(OSError, match="bytes in place of"):
        Store(folder=store.folder, disk=disk).write(manifest(3), values_of(3))
    assert newest_step(store) == 2


def test_an_earlier_attempt_that_still_writes_ends_at_a_later_ones_file_and_harms_none(tmp_path: Path) -> None:
    old = written(tmp_path / "trial", 500, 1000)
    new = Store(folder=old.folder)
    assert newest_step(new, attempt=2) == 1000
    old.write(manifest(1100), values_of(1100))  # nothing of the later one is there yet
    new.write(manifest(1010, attempt=2), values_of(1010))
    for act in (
        lambda: old.write(manifest(1200), values_of(1200)),
        lambda: old.newest(WHOSE, attempt=1),
        lambda: old.files(1),
    ):
        with pytest.raises(RankError, match="attempt 2 has taken the place of this attempt 1") as caught:
            act()
        assert caught.value.exit_code is ExitCode.TERMINATED
    assert newest_step(Store(folder=old.folder), attempt=3) == 1010


def test_a_training_that_has_its_result_leaves_nothing_on_the_volume(tmp_path: Path) -> None:
    store = written(tmp_path / "trial", 1, 2)
    neighbour = written(tmp_path / "other", 1)
    store.remove()
    assert not store.folder.exists()
    assert newest_step(neighbour) == 1
    store.remove()  # which is done, also where there is nothing


def test_what_is_to_go_is_gone_whatever_it_was(tmp_path: Path) -> None:
    folder, file, link, nothing = (tmp_path / name for name in ("folder", "file", "link", "nothing"))
    (folder / "inner").mkdir(parents=True)
    file.touch()
    (tmp_path / "elsewhere").mkdir()
    link.symlink_to(tmp_path / "elsewhere")
    for path in (folder, file, link, nothing):
        checkpoint.Disk().remove(path)
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
