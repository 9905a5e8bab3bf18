# SPDX-License-Identifier: Apache-2.0
"""A workload of the user's own: a Python file with `def build(setting: custom.Setting) -> custom.Workload`.

`build` runs once in every rank and must give every rank the same network (`jobs/examples/own/model.py` is an example).
Whatever is raised inside the file, when it is loaded, in `build` or in a step, becomes one message with the file, the
line and the exception: a mistake in it never looks like one of gpubench.
"""

import importlib.util
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import keras
import tensorflow as tf

from gpubench.api.measuring import Mode
from gpubench.exitcodes import ExitCode
from gpubench.plan.assignment import Assignment
from gpubench_jobs.failures import RankError, no_room, said
from gpubench_jobs.models.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """What `build` is told."""

    rank: int
    workers: int
    batch_per_worker: int
    seed: int  # the same on every rank
    data_path: str | None  # `data.path` of the benchmark
    samples: int | None  # `data.samples` of the benchmark


@dataclass(frozen=True)
class Workload:
    """What `build` returns, after Horovod has come up and the precision was set. It pins no devices.

    Forward and backward pass run a few times more than there are steps (`train.Computing`). Every tf.Variable is put
    back afterwards; what a loss keeps elsewhere (by tf.py_function, in a table, in files) is not.
    """

    #: Network, optimizer, mean loss of a batch; `correct` where there is an accuracy. The loss must depend on every
    #: trainable weight and be the only one: a network with a regularizer or `add_loss` in its layers is refused.
    recipe: Recipe
    #: Pairs of inputs and labels, `batch_per_worker` samples each, without end; others on each rank.
    batches: tf.data.Dataset
    #: For mode Training: steps of an epoch, equal on every rank.
    steps_per_epoch: int | None = None
    #: For mode Training, where the benchmark gives no number.
    epochs: int = 1
    #: This rank's share of the held-out samples in batches, once; None where there are none.
    held_out: tf.data.Dataset | None = None


def load(assignment: Assignment, *, rank: int) -> Workload:
    """The workload of `assignment.custom_file`; RankError for whatever is wrong with it."""
    path = Path(assignment.custom_file or "")
    if not path.is_file():
        raise _failed(f"{path} is not in the pod: mount it there (template.volumes), or correct custom.file")
    setting = Setting(
        rank=rank,
        workers=assignment.workers,
        batch_per_worker=assignment.batch_per_worker,
        seed=assignment.seed,
        data_path=assignment.data.path,
        samples=assignment.data.samples,
    )
    try:
        built = _module(path).build(setting)
    except AttributeError as error:
        if blamed := blame(error, file=str(path)):
            raise blamed from error
        raise _failed(f"{path} defines no build(): add one, see gpubench_jobs/custom.py") from error
    except (Exception, SystemExit) as error:
        if no_room(error):  # nothing of the file is wrong
            raise
        raise blame(error, file=str(path)) or _failed(f"{path}: {said(error)}") from error
    if wrong := _wrong(built):
        raise _failed(f"build() of {path} {wrong}: see gpubench_jobs/custom.py")
    if assignment.mode is Mode.TRAINING and not built.steps_per_epoch:
        raise _failed(f"build() of {path} gives no steps_per_epoch, which mode Training needs")
    return built  # type: ignore[no-any-return]


def blame(error: BaseException, *, file: str) -> RankError | None:
    """The sentence for an exception that the file has a part in; None where it has none."""
    full = str(Path(file).absolute())  # as Python names it in frames; its name alone may be that of other files
    if isinstance(error, SyntaxError) and error.filename == full:
        return _failed(f"{file}, line {error.lineno}: {error.msg}: correct the file")
    if isinstance(error, tf.errors.OutOfRangeError) and "End of sequence" in str(error):  # in the words of tf.data
        return _failed(f"the batches of {file} have come to an end: add .repeat() to what build() gives as batches")
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == full]
    # Functions that TensorFlow has traced are no frames any more, but its messages name where they came from.
    lines += [int(line) for line in re.findall(rf'File "{re.escape(full)}", line (\d+)', str(error))]
    if lines:
        return _failed(f"{file}, line {lines[-1]}: {said(error)}: correct the file")
    # What a layer says of its inputs, and `exit()`, which nothing else calls.
    if isinstance(error, (ValueError, TypeError, tf.errors.InvalidArgumentError, SystemExit)):
        return _failed(f"a step of {file}: {said(error)}: correct the file")
    return None


def _module(path: Path) -> ModuleType:
    found = importlib.util.spec_from_file_location("gpubench_own_workload", path)
    if found is None or found.loader is None:
        raise _failed(f"{path} is no Python file: its name must end in .py")
    module = importlib.util.module_from_spec(found)
    sys.modules[found.name] = module  # dataclasses and the like look their module up
    sys.path.insert(0, str(path.parent))
    found.loader.exec_module(module)
    return module


def _wrong(built: object) -> str | None:
    if not isinstance(built, Workload):
        return f"returned {type(built).__name__}, not gpubench_jobs.custom.Workload"
    if not isinstance(built.recipe, Recipe) or not isinstance(built.recipe.network, keras.Model):
        return "returned a recipe that is no gpubench_jobs.models.recipe.Recipe of a keras.Model"
    if not built.recipe.network.trainable_variables:
        return "returned a network without trainable weights"
    for name, batches in (("batches", built.batches), ("held_out", built.held_out)):
        if batches is None and name == "held_out":
            continue
        if not isinstance(batches, tf.data.Dataset):
            return f"returned {type(batches).__name__} as {name}, not tf.data.Dataset"
        if not isinstance(batches.element_spec, tuple) or len(batches.element_spec) != 2:
            return f"returned {name} whose elements are not pairs of inputs and labels"
    return None


def _failed(sentence: str) -> RankError:
    return RankError(ExitCode.CUSTOM_MODEL_FAILED, sentence)
