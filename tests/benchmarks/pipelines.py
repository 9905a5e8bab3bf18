# SPDX-License-Identifier: Apache-2.0
"""How fast is each reader of real files, and is that fast enough for the training step that it feeds?

    python tests/benchmarks/pipelines.py [--seconds 2.0] [--workload NAME ...]

Everything runs on one core of this machine, as a rank with a slot of one processor has it. The files are written into a
temporary folder in the formats in which the real sets are distributed, with invented content: images, texts and
vocabularies are about as large as the real ones, a set is smaller where the table says so. They are read from the page
cache: what a volume adds is not in the figures.

A reader is `data.open_sets` and `pipeline.training_batches` with the workload's own batch and augmentation, drawn from
inside a compiled loop as the training step draws from it, and nothing is done with the samples. The step is the
product's own on a synthetic feed, so no reader is in it; of the deep networks it has a small batch, or it would take
minutes. Either is warmed up by a batch and then timed in blocks of whole batches: printed are the mean of the blocks
and their standard deviation. Below a ratio of 1 a rank of one processor spends more time on reading than on training.
"""

import argparse
import os
import statistics
import string
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np
import rich.console
import rich.table
import tensorflow as tf

from gpubench import workloads
from gpubench.api.sweep import Data, DataSource
from gpubench.workloads import TRAINING_SAMPLES, Inputs, Precision
from gpubench_jobs import data, models
from gpubench_jobs.data import generated, pipeline
from gpubench_jobs.data.pipeline import OnDevice, streamed
from gpubench_jobs.worker import builder, train
from samples import example, write_idx, write_records

SEED = 1
BLOCKS = 5
BATCHES_MIN = 2  # in a block

# Sizes about as in the real sets.
PHOTOGRAPH = (375, 500)  # the most frequent size of ImageNet's
DIFFERENT_PHOTOGRAPHS = 64  # the rest are copies: what is read does not depend on what was read before
QUALITY = 97  # some 105 kB each, as a mean photograph of ImageNet has in its records
REVIEW_WORDS, REVIEW_VOCABULARY = 230, 80_000
TWEET_WORDS, TWEET_VOCABULARY = 14, 270_000
NIETZSCHE_CHARACTERS = 600_893
HELD_OUT = 100  # samples, where a reader opens them too

Random = np.random.Generator


@dataclass(frozen=True)
class Rates:
    """Samples per second."""

    mean: float
    deviation: float

    @classmethod
    def of(cls, blocks: list[float]) -> "Rates":
        return cls(statistics.fmean(blocks), statistics.stdev(blocks))

    def __str__(self) -> str:
        return f"{number(self.mean)} ± {self.deviation / self.mean:.0%}"


def number(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


# ---- the files ----


def write_mnist(folder: Path, random: Random) -> None:
    for prefix, count in (("train", TRAINING_SAMPLES[Inputs.MNIST]), ("t10k", HELD_OUT)):
        write_idx(folder / f"{prefix}-images-idx3-ubyte", random.integers(256, size=(count, 28, 28), dtype=np.uint8))
        write_idx(folder / f"{prefix}-labels-idx1-ubyte", random.integers(10, size=count))


def write_cifar10(folder: Path, random: Random) -> None:
    of_file = TRAINING_SAMPLES[Inputs.CIFAR10] // 5
    files = {**{f"data_batch_{number}.bin": of_file for number in range(1, 6)}, "test_batch.bin": HELD_OUT}
    for name, count in files.items():
        rows = random.integers(256, size=(count, 1 + 32 * 32 * 3), dtype=np.uint8)
        rows[:, 0] %= 10
        (folder / name).write_bytes(rows.tobytes())


def write_reviews(folder: Path, random: Random) -> None:
    for part, count in (("train", 5_000), ("test", HELD_OUT)):
        for opinion in ("pos", "neg"):
            below = folder / part / opinion
            below.mkdir(parents=True)
            for number in range(count // 2):
                text = sentence(random, length=int(random.gamma(2, REVIEW_WORDS / 2)) + 10, words=REVIEW_VOCABULARY)
                (below / f"{number}_7.txt").write_text(text)


def write_tweets(folder: Path, random: Random) -> None:
    for opinion in ("pos", "neg"):
        lines = [
            sentence(random, length=int(length), words=TWEET_VOCABULARY)
            for length in random.integers(2, 2 * TWEET_WORDS - 2, size=50_000, endpoint=True)
        ]
        (folder / f"tw-data.{opinion}").write_text("\n".join(lines) + "\n")


def sentence(random: Random, *, length: int, words: int) -> str:
    """Words by Zipf's law."""
    ranks = np.exp(random.uniform(0, np.log(words), size=length)).astype(int)
    return " ".join(f"w{rank}" for rank in ranks)


def write_nietzsche(folder: Path, random: Random) -> None:
    symbols = (string.ascii_lowercase + string.digits + string.punctuation)[:56] + " "
    letters = np.array(list(symbols))[random.integers(len(symbols), size=NIETZSCHE_CHARACTERS)]
    (folder / "nietzsche.txt").write_text("".join(letters))


def photographs(random: Random) -> list[bytes]:
    """Noise that is the stronger the coarser it is, as in photographs, so that they are about as large as those."""
    height, width = PHOTOGRAPH
    encoded = []
    for _ in range(DIFFERENT_PHOTOGRAPHS):
        image = np.full((height, width, 3), 127.0)
        for cells, strength in ((4, 40.0), (16, 25.0), (64, 15.0), (256, 8.0)):
            coarse = random.normal(scale=strength, size=(cells, cells, 3))
            image += tf.image.resize(coarse, (height, width), method="bicubic").numpy()
        pixels = tf.constant(np.clip(image, 0, 255).astype(np.uint8))
        encoded.append(bytes(tf.io.encode_jpeg(pixels, quality=QUALITY).numpy()))
    return encoded


def write_imagenet_records(folder: Path, random: Random) -> None:
    images = photographs(random)
    for name, shards in (("train", 16), ("validation", 1)):
        for shard in range(shards):
            records = [example(image, int(random.integers(1, 1001))) for image in images]
            write_records(folder / f"{name}-{shard:05}-of-{shards:05}", records)


def write_imagenet_folders(folder: Path, random: Random) -> None:
    images = photographs(random)
    for part, classes in (("train", 16), ("validation", 1)):
        for number in range(classes):
            below = folder / part / f"n{number:08}"
            below.mkdir(parents=True)
            for place, image in enumerate(images):
                (below / f"{place}.JPEG").write_bytes(image)


def write_flowers_records(folder: Path, random: Random) -> None:
    images = photographs(random)
    for name, shards in (("train", 5), ("validation", 1)):
        for shard in range(shards):
            records = [example(image, int(random.integers(5))) for image in images]
            write_records(folder / f"flowers_{name}_{shard:05}-of-{shards:05}.tfrecord", records)


# ---- the cases ----


@dataclass(frozen=True)
class Case:
    reader: str
    workload: str
    write: Callable[[Path, Random], None]
    step_batch: int | None = None  # in place of the workload's own, where a step of that would take too long


CASES = (
    Case("MNIST", "mnist_mlp", write_mnist),
    Case("MNIST", "mnist_cnn", write_mnist),
    Case("CIFAR-10, augmented", "cifar10_cnn", write_cifar10),
    Case("IMDb", "imdb_bidirectional_lstm", write_reviews),
    Case("IMDb with bigrams", "imdb_fasttext", write_reviews),
    Case("tweets", "twitter_bilstm", write_tweets),
    Case("Nietzsche", "lstm_text_generation", write_nietzsche),
    Case("ImageNet, TFRecords", "resnet50", write_imagenet_records, step_batch=4),
    Case("ImageNet, class folders", "resnet50", write_imagenet_folders, step_batch=4),
    Case("flowers, TFRecords", "inception4_finetune", write_flowers_records, step_batch=2),
)


@dataclass(frozen=True)
class Row:
    case: Case
    samples: int
    opening_seconds: float
    batch: int
    reader: Rates
    step_batch: int
    step: Rates

    @property
    def ratio(self) -> float:
        return self.reader.mean / self.step.mean


def main() -> int:
    options = arguments()
    take_one_core()
    builder.use_precision(Precision.FLOAT32)
    rows: list[Row] = []
    for case in CASES:
        if options.workload and case.workload not in options.workload:
            continue
        known = {row.case.workload: row for row in rows}.get(case.workload)
        step = known.step if known else rate_of_step(case, seconds=options.seconds)
        rows.append(measure(case, step, seconds=options.seconds))
        print(rows[-1], file=sys.stderr, flush=True)  # what comes after may be interrupted
    rich.console.Console(width=160).print(table(rows))
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    print(f"{BLOCKS} blocks of about {options.seconds:g} s for each figure; load averages now {load}")
    print(needs(rows))
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="each reader of real files alone, beside the training step it feeds")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of a block")
    names = sorted({case.workload for case in CASES})
    parser.add_argument("--workload", choices=names, nargs="+", help="only the readers of these")
    return parser.parse_args()


def take_one_core() -> None:
    """Before TensorFlow has made its threads."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)


def measure(case: Case, step: Rates, *, seconds: float) -> Row:
    workload = workloads.find(case.workload)
    with tempfile.TemporaryDirectory(prefix="gpubench-") as folder:
        case.write(Path(folder), np.random.default_rng(SEED))
        begun = time.perf_counter()
        sets = data.open_sets(workload, Data(source=DataSource.VOLUME, path=folder), seed=SEED)
        opening_seconds = time.perf_counter() - begun
        recipe = models.build_for(workload.model_copy(update={"vocabulary": sets.vocabulary or workload.vocabulary}))
        batches = pipeline.training_batches(
            sets.training,
            batch_per_worker=workload.default_batch,
            rank=0,
            workers=1,
            seed=SEED,
            augment=recipe.augment,
            drop_remainder=recipe.drop_remainder,
        )
        rates = rate_of_reader(batches, sets.training.on_device, seconds=seconds)
    return Row(
        case=case,
        samples=sets.training.count,
        opening_seconds=opening_seconds,
        batch=workload.default_batch,
        reader=rates,
        step_batch=case.step_batch or workload.default_batch,
        step=step,
    )


def rate_of_reader(batches: tf.data.Dataset, on_device: OnDevice, *, seconds: float) -> Rates:
    """The loop of the training step, around no step: what it sums up are the samples that came."""
    feed = streamed(batches, on_device)

    def count(state: tuple[object, ...]) -> tuple[tf.Tensor, tf.Tensor]:
        inputs, labels = feed.draw(state, tf.constant(0))
        with tf.control_dependencies([inputs]):
            return tf.ones(()), tf.shape(labels)[0]

    run = train.Loop(count, feed.state, sum_losses=True)
    return rates_of(lambda draws: float(run(draws).numpy()), seconds=seconds)


def rate_of_step(case: Case, *, seconds: float) -> Rates:
    """With the catalogue's vocabulary, so that embeddings are as large as with the real set."""
    workload = workloads.find(case.workload)
    batch = case.step_batch or workload.default_batch
    models.seed(SEED)
    recipe = models.build_for(workload)
    feed = generated.synthetic_batch(workload, batch=batch, seed=SEED, dtype=recipe.network.compute_dtype)
    run = train.compile_run(recipe, feed, reduce=train.alone)

    def steps(count: int) -> float:
        run(count).numpy()
        return float(count * batch)

    rates = rates_of(steps, seconds=seconds)
    keras.backend.clear_session()
    return rates


def rates_of(run: Callable[[int], float], *, seconds: float) -> Rates:
    """Of a function that handles so many batches and returns the samples that were in them."""
    run(1)  # tracing, and the first batch
    count, taken = BATCHES_MIN, timed(run, BATCHES_MIN)[1]
    while taken < seconds / 4:
        count *= 4
        taken = timed(run, count)[1]
    count = max(BATCHES_MIN, round(count * seconds / taken))
    return Rates.of([samples / elapsed for samples, elapsed in (timed(run, count) for _ in range(BLOCKS))])


def timed(run: Callable[[int], float], count: int) -> tuple[float, float]:
    begun = time.perf_counter()
    samples = run(count)
    return samples, time.perf_counter() - begun


def table(rows: Iterable[Row]) -> rich.table.Table:
    drawn = rich.table.Table(
        title="Samples per second on one core: a reader alone, the training step that it feeds alone"
    )
    numbers = ("samples", "opened in", "batch", "reader", "step's batch", "step", "reader / step")
    for heading in ("files", "workload", *numbers):
        drawn.add_column(heading, justify="right" if heading in numbers else "left")
    for row in rows:
        complete = row.samples == TRAINING_SAMPLES[workloads.find(row.case.workload).inputs]
        drawn.add_row(
            row.case.reader,
            row.case.workload,
            f"{row.samples:,}" + ("" if complete else " (fewer)"),
            f"{row.opening_seconds:.2f} s",
            str(row.batch),
            str(row.reader),
            str(row.step_batch),
            str(row.step),
            f"{row.ratio:.3g}",
        )
    return drawn


def needs(rows: Iterable[Row]) -> str:
    """What follows for GPUs from these figures, and no more."""
    figures = "; ".join(f"{row.case.reader} for {row.case.workload} {number(row.reader.mean)}" for row in rows)
    return (
        "A GPU that trains more samples a second than the cores of its slot read waits for them. One core of this "
        f"machine reads, of {figures}. No GPU was measured here, nor a reader on several cores."
    )


if __name__ == "__main__":
    sys.exit(main())
