# SPDX-License-Identifier: Apache-2.0
"""A training of this machine whose rank is killed goes on in the next attempt, and its folder holds."""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from gpubench import records
from gpubench.records import Checkpoint, Epoch
from gpubench.scheduler.ledger import Outcome
from gpubench_cli import __main__ as program
from gpubench_cli import results, verify
from resealed import change_line, record_in, text_of

pytestmark = pytest.mark.usefixtures("horovod", "two_cores")

#: Many times what it takes on two quiet cores.
PATIENCE_SECONDS = 420.0
EPOCHS = 10
STUDY = f"""\
apiVersion: gpubench.dev/v1alpha1
kind: GpuBenchmark
metadata: {{name: resumed}}
spec:
  sweep:
    - workloads: [mnist_mlp]
      pools: [local-cpu]
      workers: [2]
      batchPerWorker: [8]
      data: {{source: Generated, samples: 2000}}
      epochs: {EPOCHS}
  measure: {{mode: Training, repeats: {{min: 1}}}}
  checkpoint: {{volume: {{claimName: in-a-cluster}}, interval: 1s}}
"""


@pytest.fixture(scope="module")
def resumed_folder(shortened_quickstart: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a training of two ranks, one of which was killed when a checkpoint had an epoch behind it."""
    folder = tmp_path_factory.mktemp("resumed")
    pool = shortened_quickstart[: shortened_quickstart.rindex("---\n")]
    (folder / "study.yaml").write_text(f"{pool}---\n{STUDY}")
    places = (str(folder / "study.yaml"), "--results", str(folder / "found"))
    with (folder / "out").open("wb") as out:
        run = subprocess.Popen([sys.executable, "-m", "gpubench_cli", "run", *places], stdout=out, stderr=out)
    try:
        wait_until(lambda: '"kind":"checkpoint"' in logs(folder / "found").partition('"kind":"epoch"')[2], run)
        next(worker for worker in workers(run.pid)).send_signal(signal.SIGKILL)
        assert run.wait(timeout=PATIENCE_SECONDS) == 0, (folder / "out").read_text()
    finally:
        run.kill()
        run.wait()
    return folder / "found"


def workers(process: int) -> list[psutil.Process]:
    children = psutil.Process(process).children(recursive=True)
    return [child for child in children if "gpubench_jobs.worker" in child.cmdline()]


def logs(folder: Path) -> str:
    return "".join(path.read_text() for path in folder.glob("logs/*.0.jsonl"))


def wait_until(holds: Callable[[], bool], run: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert run.poll() is None, "it ended before its first checkpoint"
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_next_attempt_went_on_and_the_figures_are_of_the_whole_training(resumed_folder: Path) -> None:
    first, second = results.read_ledger(resumed_folder).records
    assert (first.outcome, second.outcome) == (Outcome.FAILED, Outcome.SUCCEEDED)
    result = second.result
    assert result is not None
    assert result.resumed is not None
    assert result.resumed.attempt == 1
    kept = records.read_log(next(resumed_folder.glob("logs/*.1.0.jsonl")).read_bytes()).of_kind(Checkpoint)
    assert result.resumed.step >= kept[-1].step > 0  # a whole one may have been killed before its record
    assert result.training is not None
    assert result.training.epochs == EPOCHS
    (point,) = results.read_summary(resumed_folder).status.results
    assert point.training is not None
    assert point.training.epochs == EPOCHS
    assert not list((resumed_folder / "checkpoints").rglob("*.data"))


def test_its_folder_holds_and_it_is_said_what_only_a_checkpoint_knows(
    resumed_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    examined = verify.examine(resumed_folder)
    assert examined.findings == []
    assert program.main(["verify", str(resumed_folder)]) == 0
    assert "1 trainings that went on from a checkpoint (" in capsys.readouterr().out


def test_an_epoch_that_was_changed_where_it_was_told_again_is_found(resumed_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(resumed_folder, tmp_path / "copy"))

    def faster(line: str) -> str:
        record = record_in(line)
        return text_of(record | {"nanoseconds": record["nanoseconds"] - 1000})

    (path,) = folder.glob("logs/*.2.0.jsonl")
    change_line(path, faster, where=lambda record: record["kind"] == "epoch")
    examined = verify.examine(folder)
    assert any("result.nanoseconds" in finding for finding in examined.findings)
    assert len(records.read_log(path.read_bytes()).of_kind(Epoch)) == EPOCHS
