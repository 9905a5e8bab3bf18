# SPDX-License-Identifier: Apache-2.0
"""The real files in the formats in which they are distributed, each in miniature; and each way in which they break."""

import gzip
import re
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from gangs import make_assignment
from gpubench.api.sweep import Data, DataSource
from gpubench.exitcodes import ExitCode
from gpubench.workloads import Inputs, Workload
from gpubench_jobs import data, failures
from gpubench_jobs.data import image_files, pipeline, text_files
from gpubench_jobs.data.pipeline import Sets, Split
from gpubench_jobs.failures import RankError
from samples import Array, example, make_workload, write_idx, write_records

CNN = make_workload(Inputs.MNIST, (28, 28, 1), 10)
MLP = make_workload(Inputs.MNIST, (784,), 10)
CIFAR = make_workload(Inputs.CIFAR10, (32, 32, 3), 10)
REVIEWS = make_workload(Inputs.IMDB, (8,), 2)
FASTTEXT = make_workload(Inputs.IMDB, (12,), 2, name="imdb_fasttext")
TWEETS = make_workload(Inputs.TWEETS, (9,), 2)
TEXT = make_workload(Inputs.NIETZSCHE, (40, 57), 57)
IMAGENET = make_workload(Inputs.IMAGENET, (32, 32, 3), 1001)
FLOWERS = make_workload(Inputs.FLOWERS, (32, 32, 3), 5)


def opened(workload: Workload, folder: Path) -> Sets:
    return data.open_sets(workload, Data(source=DataSource.VOLUME, path=str(folder)), seed=1)


def everything(split: Split | None) -> tuple[Array, Array]:
    """In the order of the set."""
    assert split is not None
    batches = list(pipeline.evaluation_batches(split, batch_per_worker=4, rank=0, workers=1))
    inputs, labels = (np.concatenate([part[of].numpy() for part in batches]) for of in (0, 1))
    return split.on_device(tf.constant(inputs)).numpy(), labels


def refused(workload: Workload, folder: Path) -> str:
    """The one sentence, from opening or from the first pass."""
    try:
        sets = opened(workload, folder)
        for split in (sets.training, sets.evaluation):
            everything(split)
    except (RankError, tf.errors.OpError, UnicodeDecodeError) as error:
        assignment = make_assignment().model_copy(update={"data": Data(source="Volume", path=str(folder))})
        explained = failures.explain(error, assignment)
        assert explained.exit_code is ExitCode.DATA_UNUSABLE
        assert "\n" not in explained.sentence
        assert str(folder) in explained.sentence
        return explained.sentence.replace(str(folder), "SET")
    raise AssertionError("nothing was refused")


# ---- MNIST ----


@pytest.fixture
def mnist(tmp_path: Path) -> Path:
    for prefix, count in (("train", 6), ("t10k", 3)):
        images = np.arange(count * 784).reshape(count, 28, 28) % 256
        write_idx(tmp_path / f"{prefix}-images-idx3-ubyte", images)
        write_idx(tmp_path / f"{prefix}-labels-idx1-ubyte", np.arange(count) + 4)
    return tmp_path


def compress(folder: Path) -> None:
    for file in list(folder.iterdir()):
        file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        file.unlink()


@pytest.mark.parametrize("compressed", [False, True])
def test_mnist_is_read(mnist: Path, compressed: bool) -> None:
    if compressed:
        compress(mnist)
    sets = opened(CNN, mnist)
    images, labels = everything(sets.training)
    assert images.shape == (6, 28, 28, 1)
    np.testing.assert_allclose(images.ravel()[:300], (np.arange(300) % 256) / 255, rtol=1e-6)
    np.testing.assert_array_equal(labels, np.eye(10)[4:10])
    flat, held_out = everything(opened(MLP, mnist).evaluation)
    assert (flat.shape, held_out.shape) == ((3, 784), (3, 10))


def no_labels(folder: Path) -> None:
    (folder / "train-labels-idx1-ubyte").unlink()


def cut_images(folder: Path) -> None:
    file = folder / "train-images-idx3-ubyte"
    file.write_bytes(file.read_bytes()[:-1])


def labels_for_images(folder: Path) -> None:
    shutil.copy(folder / "train-labels-idx1-ubyte", folder / "train-images-idx3-ubyte")


def empty_images(folder: Path) -> None:
    (folder / "train-images-idx3-ubyte").write_bytes(b"")


def label_eleven(folder: Path) -> None:
    write_idx(folder / "t10k-labels-idx1-ubyte", np.array([1, 11, 2]))


def fewer_labels(folder: Path) -> None:
    write_idx(folder / "t10k-labels-idx1-ubyte", np.array([1, 2]))


def larger_images(folder: Path) -> None:
    write_idx(folder / "train-images-idx3-ubyte", np.zeros((6, 32, 32)))


def cut_gzip(folder: Path) -> None:
    compress(folder)
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(file.read_bytes()[:-20])


def gzip_by_another_name(folder: Path) -> None:
    compress(folder)
    (folder / "train-images-idx3-ubyte.gz").rename(folder / "train-images-idx3-ubyte")


def one_class(folder: Path) -> None:
    write_idx(folder / "train-labels-idx1-ubyte", np.full(6, 3))


def no_gzip(folder: Path) -> None:
    (folder / "train-images-idx3-ubyte").rename(folder / "train-images-idx3-ubyte.gz")


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (no_labels, "SET/train-labels-idx1-ubyte is missing (or train-labels-idx1-ubyte.gz): copy the complete"),
        (cut_images, "SET/train-images-idx3-ubyte has 4719 bytes and should have 4720: it is cut"),
        (labels_for_images, "SET/train-images-idx3-ubyte begins with 0x00000801 and not with 0x00000803"),
        (empty_images, "SET/train-images-idx3-ubyte begins with 0x00000000 and not with"),
        (label_eleven, "SET/t10k-labels-idx1-ubyte: label 11 of sample 1 is none of 0 to 9"),
        (fewer_labels, "SET/t10k-images-idx3-ubyte has 3 images and t10k-labels-idx1-ubyte 2 labels"),
        (larger_images, "SET/train-images-idx3-ubyte has images of 32x32, a-workload takes 28x28"),
        (cut_gzip, "SET/train-images-idx3-ubyte.gz is cut, or no gzip file"),
        (
            gzip_by_another_name,
            "SET/train-images-idx3-ubyte is compressed by gzip: rename it to train-images-idx3-ubyte.gz",
        ),
        (one_class, "SET/train-labels-idx1-ubyte: all labels are 3"),
        (no_gzip, "SET/train-images-idx3-ubyte.gz is cut, or no gzip file"),
    ],
)
def test_broken_mnist_is_refused(mnist: Path, break_it: Callable[[Path], None], sentence: str) -> None:
    break_it(mnist)
    assert refused(CNN, mnist).startswith(sentence)


@pytest.mark.parametrize("workload", [CNN, CIFAR, REVIEWS, TWEETS, TEXT, IMAGENET, FLOWERS])
def test_a_folder_that_is_missing_or_empty_is_refused(workload: Workload, tmp_path: Path) -> None:
    assert refused(workload, tmp_path)
    assert refused(workload, tmp_path / "none").startswith("data.path: SET is no folder in this pod: mount the volume")


# ---- CIFAR-10 ----


@pytest.fixture(params=["", "cifar-10-batches-bin"])
def cifar(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    folder = tmp_path / request.param
    folder.mkdir(exist_ok=True)
    for number, name in enumerate([*(f"data_batch_{of}" for of in range(1, 6)), "test_batch"]):
        image = np.stack([np.full((32, 32), colour) for colour in (10, 20, 30)])
        image[0, 0, 5] = 255  # red, first row, sixth column
        record = bytes([number]) + image.astype(np.uint8).tobytes()
        (folder / f"{name}.bin").write_bytes(record * 2)
    return tmp_path


def test_cifar10_is_read(cifar: Path) -> None:
    sets = opened(CIFAR, cifar)
    images, labels = everything(sets.training)
    assert images.shape == (10, 32, 32, 3)
    np.testing.assert_allclose(images[3, 0, 5] * 255, (255, 20, 30), rtol=1e-6)
    np.testing.assert_allclose(images[3, 5, 0] * 255, (10, 20, 30), rtol=1e-6)
    np.testing.assert_array_equal(labels.argmax(axis=1), np.repeat(np.arange(5), 2))
    assert everything(sets.evaluation)[1].argmax(axis=1).tolist() == [5, 5]


def test_broken_cifar10_is_refused(cifar: Path) -> None:
    (file,) = cifar.rglob("data_batch_3.bin")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    assert "data_batch_3.bin has 6145 bytes, which is no multiple of the 3073 of an image" in refused(CIFAR, cifar)
    file.write_bytes(b"\x0a" + whole[1:])
    assert "data_batch_3.bin: label 10 of sample 0 is none of 0 to 9" in refused(CIFAR, cifar)
    file.write_bytes(b"")
    assert "data_batch_3.bin has 0 bytes" in refused(CIFAR, cifar)
    file.unlink()
    assert "data_batch_3.bin is missing" in refused(CIFAR, cifar)


# ---- IMDb ----


@pytest.fixture(params=["", "aclImdb"])
def imdb(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    for place, text in {
        "train/pos/0_9.txt": "Good, good film!<br />Good.",
        "train/neg/0_2.txt": "It's a bad film",
        "test/pos/0_8.txt": "good unseen film",
        "test/neg/0_1.txt": "bad bad bad bad bad bad bad bad a film",
    }.items():
        file = tmp_path / request.param / place
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_reviews_are_numbered_as_keras_does(imdb: Path) -> None:
    """By frequency: good 3, film 2, then one each by the alphabet: a, bad, br, it's; numbers begin at 3."""
    sets = opened(REVIEWS, imdb)
    inputs, labels = everything(sets.training)
    np.testing.assert_array_equal(inputs, [[0, 0, 0, 1, 8, 5, 6, 4], [0, 0, 1, 3, 3, 4, 7, 3]])
    np.testing.assert_array_equal(labels, [[0.0], [1.0]])
    inputs, labels = everything(sets.evaluation)
    np.testing.assert_array_equal(inputs, [[6, 6, 6, 6, 6, 6, 5, 4], [0, 0, 0, 0, 1, 3, 2, 4]])
    assert sets.vocabulary is None


def test_fasttext_appends_the_bigrams_of_training(imdb: Path) -> None:
    sets = opened(FASTTEXT, imdb)
    inputs, _ = everything(sets.training)
    negative, positive = inputs
    # Both begin with (start, it's) and (start, good); nine pairs in all, (good, film) and so on each once.
    assert negative.tolist()[:7] == [0, 0, 0, 1, 8, 5, 6]
    assert positive[-5:].min() >= text_files.FIRST_BIGRAM
    assert sets.vocabulary == text_files.FIRST_BIGRAM + 9
    assert set(inputs[inputs >= text_files.FIRST_BIGRAM]) == set(range(text_files.FIRST_BIGRAM, sets.vocabulary))
    of_test = everything(sets.evaluation)[0][1]
    start_good = positive[-5]
    assert of_test.tolist() == [0] * 7 + [1, 3, 2, 4, start_good], "pairs that training has not seen are left out"


def test_broken_reviews_are_refused(imdb: Path) -> None:
    (file,) = imdb.rglob("train/neg/*.txt")
    file.write_bytes(b"caf\xe9")
    assert "train/neg/0_2.txt is no text in UTF-8 (byte 3)" in refused(REVIEWS, imdb)
    for one in imdb.rglob("train/*/*.txt"):
        one.write_bytes(b" \n")
    assert "holds 2 reviews for training without any word" in refused(REVIEWS, imdb)
    file.rename(file.with_name(f"._{file.name}"))  # macOS' companion of a file
    assert "train/neg holds no reviews (*.txt)" in refused(REVIEWS, imdb)


# ---- tweets ----


@pytest.mark.parametrize(
    ("tweet", "expected"),
    [
        ("I don't like it!!!!", "i do n't like it ! !"),
        ("sooooo   cooool", "soo cool"),
        ("We'll see (they've said it's fine)", "we 'll see ( they 've said it 's fine )"),
        ("@you: #fun, isn't it?", "you fun , is n't it ?"),
        ("caf\u00e9 `quote` 100%", "caf `quote` 100"),
        ("", ""),
    ],
)
def test_a_tweet_is_cleaned_as_in_the_original(tweet: str, expected: str) -> None:
    assert list(text_files.tweet_words((tweet + "\nnext\n").encode())) == [expected.split(), ["next"]]


@pytest.fixture
def tweets(tmp_path: Path) -> Path:
    (tmp_path / "tw-data.pos").write_text("".join(f"yes number{of}\n" for of in range(12)))
    (tmp_path / "tw-data.neg").write_text("".join("no " * 12 + f"number{of}\n" for of in range(9)))
    return tmp_path


def test_tweets_are_read_and_the_last_tenth_is_held_out(tweets: Path) -> None:
    sets = opened(TWEETS, tweets)
    assert sets.evaluation is not None
    assert (sets.training.count, sets.evaluation.count) == (19, 2)
    assert sets.vocabulary == 1 + 2 + 12
    both = everything(sets.training), everything(sets.evaluation)
    inputs, labels = (np.concatenate(parts) for parts in zip(*both, strict=True))
    good = labels[:, 0] == 1
    assert good.sum() == 12
    assert set(inputs[good, 0]) == {2}, "no comes 108 times, yes 12 times"
    assert (inputs[good, 1] > 2).all()
    assert (inputs[good, 2:] == 0).all(), "padded at the end"
    assert (inputs[~good] == 1).all(), "longer ones are cut at the end"
    order = np.random.RandomState(123).permutation(21)
    np.testing.assert_array_equal(good, order < 12)


def test_tweets_are_cleaned_in_blocks_of_whole_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"one two\n\nthree!!!\nfour's\n\n"
    whole = list(text_files.tweet_words(content))
    assert whole == [["one", "two"], [], ["three", "!", "!"], ["four", "'s"], []]
    for size in range(len(content)):
        monkeypatch.setattr(text_files, "_BYTES_AT_ONCE", size)
        assert list(text_files.tweet_words(content)) == whole


def test_tweets_take_little_more_memory_than_their_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As Python's strings in lists each word took over 60 bytes; the ranks of a node do this at the same time."""
    monkeypatch.setattr(text_files, "_BYTES_AT_ONCE", 10_000)
    for kind in ("pos", "neg"):
        (tmp_path / f"tw-data.{kind}").write_text(f"{kind} {'words of a tweet ' * 10}\n" * 2_000)
    opened(TWEETS, tmp_path)  # what TensorFlow makes once
    tracemalloc.start()
    try:
        sets = opened(TWEETS, tmp_path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sets.training.count == 3_600
    assert peak < 25 * 4_000 * 41


def test_broken_tweets_are_refused(tweets: Path) -> None:
    for content, sentence in {
        b"": "SET/tw-data.neg holds no tweet, and of one class nothing is learned",
        b"one\n\ntwo\n": "SET/tw-data.neg, line 2: a blank line is no tweet",
        b"one\n" * 4: "SET holds 8 tweets, of which no tenth can be held out",
        b"\xe2\x99\xa5\n" * 6: "SET holds 12 tweets without any word",
    }.items():
        (tweets / "tw-data.neg").write_bytes(content)
        (tweets / "tw-data.pos").write_bytes(content if content.count(b"\n") > 3 else b"one\n")
        assert refused(TWEETS, tweets).startswith(sentence)
    (tweets / "tw-data.neg").unlink()
    assert refused(TWEETS, tweets).startswith("SET/tw-data.neg is missing")


# ---- Nietzsche ----


def test_nietzsche_is_cut_into_windows(tmp_path: Path) -> None:
    text = "".join(chr(ord("A") + place * 7 % 26) for place in range(50)) + "\r\n"
    (tmp_path / "nietzsche.txt").write_bytes(text.encode())
    sets = opened(TEXT, tmp_path)
    assert sets.evaluation is None
    inputs, labels = everything(sets.training)
    assert inputs.shape == (4, 40, 57), "ceil((51 - 40) / 3)"
    alphabet = "\n" + "".join(sorted(set(text.lower().strip())))
    read = ["".join(alphabet[place] for place in window.argmax(axis=1)) for window in inputs]
    following = "".join(alphabet[place] for place in labels.argmax(axis=1))
    assert read == [text.lower()[begin : begin + 40] for begin in (0, 3, 6, 9)]
    assert following == "".join(text.lower()[place] for place in (40, 43, 46, 49))
    np.testing.assert_array_equal(inputs.sum(axis=2), 1.0)


def test_a_broken_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "nietzsche.txt"
    file.write_bytes(b"\xff" * 100)
    assert refused(TEXT, tmp_path).startswith("SET/nietzsche.txt is no text in UTF-8 (byte 0)")
    file.write_text("".join(map(chr, range(0x400, 0x500))))
    assert "different characters and a-workload takes 57: it is another text" in refused(TEXT, tmp_path)
    file.write_text("short")
    assert "has 5 characters, not enough for a window of 40" in refused(TEXT, tmp_path)


# ---- photographs ----


def photograph(colour: tuple[int, int, int], *, kind: str = "jpeg", size: tuple[int, int] = (48, 64)) -> bytes:
    pixels = tf.constant(np.broadcast_to(np.array(colour, np.uint8), (*size, 3)))
    encoded = tf.io.encode_png(pixels) if kind == "png" else tf.io.encode_jpeg(pixels, quality=95)
    return bytes(encoded.numpy())


RED, GREEN = photograph((255, 0, 0)), photograph((0, 255, 0), kind="png")


@pytest.fixture
def imagenet(tmp_path: Path) -> Path:
    write_records(tmp_path / "train-00000-of-00002", [example(RED, 1), example(GREEN, 1000), example(RED, 7)])
    write_records(tmp_path / "train-00001-of-00002", [example(GREEN, 2)])
    write_records(tmp_path / "validation-00000-of-00001", [example(RED, 3)])
    return tmp_path


def write_folders(folder: Path, classes: int, images: int) -> None:
    for label in range(classes):
        of_class = folder / f"n{label:04}"
        of_class.mkdir(parents=True)
        for image in range(images):
            (of_class / f"{image}.JPEG").write_bytes(RED if label == 0 else GREEN)


def test_imagenet_records_are_read(imagenet: Path) -> None:
    sets = opened(IMAGENET, imagenet)
    images, labels = everything(sets.training)
    assert (images.shape, images.dtype.name, labels.dtype.name) == ((4, 32, 32, 3), "float32", "int32")
    assert labels.tolist() == [1, 1000, 7, 2]
    np.testing.assert_allclose(images[0, 5, 5], (1, -1, -1), atol=0.03)
    np.testing.assert_allclose(images[1, 5, 5], (-1, 1, -1), atol=0.03)
    assert everything(sets.evaluation)[1].tolist() == [3]


def test_imagenet_folders_are_numbered_from_one(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", 3, 2)
    write_folders(tmp_path / "val", 3, 1)
    sets = opened(IMAGENET, tmp_path)
    images, labels = everything(sets.training)
    assert labels.tolist() == [1, 1, 2, 2, 3, 3]
    np.testing.assert_allclose(images[:, 5, 5, 0], (1, 1, -1, -1, -1, -1), atol=0.03)
    assert everything(sets.evaluation)[1].tolist() == [1, 2, 3]


def test_classes_have_the_numbers_of_their_training_folders(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", 4, 1)
    write_folders(tmp_path / "val", 4, 1)
    shutil.rmtree(tmp_path / "val/n0001")
    (tmp_path / "val/n0002/0.JPEG").unlink()
    assert everything(opened(IMAGENET, tmp_path).evaluation)[1].tolist() == [1, 4]


def test_a_record_is_read_without_what_lies_before_it(tmp_path: Path) -> None:
    """Bytes that this process asked the kernel for; behind 40 MB of other records, a record is 0.4 MB."""
    noise = np.random.default_rng(1).integers(256, size=400_000, dtype=np.uint8).tobytes()
    write_records(tmp_path / "train-00000-of-00001", [example(RED + noise, 1)] * 100)
    sets = opened(IMAGENET, tmp_path)

    def asked_for() -> int:
        counters = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
        return int(counters["rchar"])

    batches = iter(pipeline.training_batches(sets.training, batch_per_worker=10, rank=0, workers=1, seed=1))
    before = asked_for()
    next(batches)
    # Ten records, and as many again for each of those batches that are made ahead.
    assert asked_for() - before < 3 * 50 * len(noise)


def test_the_index_reads_what_lies_between_records_only(tmp_path: Path) -> None:
    write_records(tmp_path / "train-00000-of-00001", [b"x" * 100_000] * 100 + [b"y" * 10] * 1_000)
    before = Path("/proc/self/io").read_text()
    count, record_at = image_files.index_records([tmp_path / "train-00000-of-00001"], progress=lambda: None)
    after = Path("/proc/self/io").read_text()
    calls, read = (
        int(re.search(rf"{of}: (\d+)", after)[1]) - int(re.search(rf"{of}: (\d+)", before)[1])  # type: ignore[index]
        for of in ("syscr", "rchar")
    )
    assert count == 1_100
    lengths = [len(record_at(tf.constant(place, tf.int64))[0].numpy()) for place in (0, 99, 100, 1_099)]
    assert lengths == [100_000, 100_000, 10, 10]
    assert read < 1_000_000
    assert calls < 200, "a page of small records is read at once"


@pytest.mark.parametrize("kind", ["records", "folders"])
def test_what_is_held_out_is_opened_when_it_is_asked_for(imagenet: Path, kind: str) -> None:
    if kind == "folders":
        for file in imagenet.iterdir():
            file.unlink()
        write_folders(imagenet / "train", 2, 2)
    else:
        no_validation(imagenet)
    sets = opened(IMAGENET, imagenet)
    assert sets.training.count == 4
    with pytest.raises(RankError, match="evaluation records"):
        _ = sets.evaluation


def many_files(folder: Path) -> None:
    for of in ("train/pos", "train/neg"):
        (folder / of).mkdir(parents=True)
        for number in range(1_001):
            (folder / of / f"{number}.txt").write_text("word")


def folders_of_classes(folder: Path) -> None:
    write_folders(folder / "train", 3, 1)


def two_shards(folder: Path) -> None:
    for shard in range(2):
        write_records(folder / f"train-0000{shard}-of-00002", [example(RED, 1)])


@pytest.mark.parametrize(
    ("write", "workload", "times"),
    [(many_files, REVIEWS, 3), (folders_of_classes, IMAGENET, 3), (two_shards, IMAGENET, 2)],
)
def test_progress_is_told_while_a_set_is_opened(
    tmp_path: Path, write: Callable[[Path], None], workload: Workload, times: int
) -> None:
    write(tmp_path)
    told: list[None] = []
    source = Data(source=DataSource.VOLUME, path=str(tmp_path))
    data.open_sets(workload, source, seed=1, progress=lambda: told.append(None))
    assert len(told) == times


def test_flowers_are_read_as_records(tmp_path: Path) -> None:
    write_records(tmp_path / "flowers_train_00000-of-00001.tfrecord", [example(RED, 0), example(GREEN, 4)])
    write_records(tmp_path / "flowers_validation_00000-of-00001.tfrecord", [example(RED, 2)])
    sets = opened(FLOWERS, tmp_path)
    assert everything(sets.training)[1].tolist() == [0, 4]
    assert everything(sets.evaluation)[1].tolist() == [2]


def test_of_flower_folders_350_in_3670_are_held_out(tmp_path: Path) -> None:
    write_folders(tmp_path / "flower_photos", 5, 21)
    sets = opened(FLOWERS, tmp_path)
    assert sets.evaluation is not None
    assert (sets.training.count, sets.evaluation.count) == (95, 10)
    _, labels = everything(sets.evaluation)
    assert set(labels) == {0, 1, 2, 3, 4}


def test_training_images_are_cropped_and_mirrored_at_random_and_evaluation_images_are_not(tmp_path: Path) -> None:
    """A ramp from left to right: its direction shows mirroring, its range the window."""
    ramp = np.broadcast_to(np.linspace(0, 255, 64)[None, :, None], (48, 64, 3)).astype(np.uint8)
    record = example(bytes(tf.io.encode_png(tf.constant(ramp)).numpy()), 1)
    write_records(tmp_path / "train-00000-of-00001", [record] * 2)
    write_records(tmp_path / "validation-00000-of-00001", [record] * 2)
    sets = opened(IMAGENET, tmp_path)

    def rises(first_step: int) -> Array:
        batches = pipeline.training_batches(
            sets.training, batch_per_worker=2, rank=0, workers=1, seed=1, first_step=first_step
        )
        assert batches.element_spec[0].dtype == tf.uint8  # a quarter of what float32 would be on the way
        images = np.concatenate([sets.training.on_device(inputs).numpy() for inputs, _ in batches.take(8)])
        return np.asarray(images[:, 16, -1, 0] - images[:, 16, 0, 0])

    drawn = rises(0)
    assert (drawn > 0.1).any()
    assert (drawn < -0.1).any()
    assert len(set(np.abs(drawn).round(3))) > 5
    np.testing.assert_array_equal(rises(0), drawn)
    np.testing.assert_array_equal(rises(2)[:12], drawn[4:])
    kept, _ = everything(sets.evaluation)
    np.testing.assert_array_equal(kept[0], kept[1])
    np.testing.assert_allclose(kept[0, 16, 16, 0], 0.0, atol=0.05)
    np.testing.assert_allclose(kept[0, 16, -1, 0] - kept[0, 16, 0, 0], 2 * 0.875, atol=0.08)


FIRST = "train-00000-of-00002"


def cut_record(folder: Path) -> None:
    file = folder / FIRST
    file.write_bytes(file.read_bytes()[:-9])


def cut_header(folder: Path) -> None:
    file = folder / FIRST
    file.write_bytes(file.read_bytes() + b"\x01\x00\x00")


def no_record_file(folder: Path) -> None:
    (folder / FIRST).write_bytes(b"<html>Not found</html>" * 9)


def missing_shard(folder: Path) -> None:
    (folder / FIRST).unlink()


def no_validation(folder: Path) -> None:
    (folder / "validation-00000-of-00001").unlink()


def no_records(folder: Path) -> None:
    (folder / "validation-00000-of-00001").write_bytes(b"")


def label_too_large(folder: Path) -> None:
    write_records(folder / FIRST, [example(RED, 1), example(RED, 1001)])


def no_label(folder: Path) -> None:
    write_records(folder / FIRST, [example(RED, None)])


def two_labels(folder: Path) -> None:
    write_records(folder / FIRST, [example(RED, [1, 2])])


def two_conversions(folder: Path) -> None:
    shutil.copy(folder / FIRST, folder / "train-00000-of-00001")
    (folder / FIRST).unlink()


def empty_record(folder: Path) -> None:
    write_records(folder / FIRST, [b""])


def no_image(folder: Path) -> None:
    write_records(folder / FIRST, [example(b"GIF89a", 1)])


def cut_image(folder: Path) -> None:
    write_records(folder / FIRST, [example(RED[: len(RED) // 2], 1)])


def cut_png(folder: Path) -> None:
    write_records(folder / FIRST, [example(GREEN[: len(GREEN) // 2], 1)])


def broken_png(folder: Path) -> None:
    write_records(folder / FIRST, [example(GREEN[:40] + bytes(20) + GREEN[60:], 1)])


def no_example(folder: Path) -> None:
    write_records(folder / FIRST, [b"\xff\xff\xff no protocol buffer"])


def cut_example(folder: Path) -> None:
    write_records(folder / FIRST, [example(RED, 1)[:-5]])


def wrong_byte(folder: Path) -> None:
    file = folder / FIRST
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("break_it", "sentence"),
    [
        (cut_record, f"SET/{FIRST}: record 2 ends behind the end of the file: it is cut, or no TFRecord file"),
        (cut_header, f"SET/{FIRST}: record 3 ends behind the end of the file"),
        (no_record_file, f"SET/{FIRST}: record 0 ends behind the end of the file"),
        (missing_shard, "SET holds 1 of 2 files of training records (as train-00001-of-00002): copy all of one"),
        (no_validation, "SET holds no evaluation records (validation-?????-of-?????)"),
        (no_records, "SET: its evaluation set has no images"),
        (label_too_large, f"SET/{FIRST}: image/class/label 1001 is none of 0 to 1000"),
        (no_label, f"SET/{FIRST}: image/class/label -1 is none of 0 to 1000"),
        (two_labels, "a record below SET has none or several of image/class/label"),
        (two_conversions, "SET holds 2 of 1 or 2 files of training records"),
        (empty_record, f"SET/{FIRST}: record 0 is empty"),
        (no_image, f"SET/{FIRST}: an image is neither JPEG nor PNG"),
        (cut_image, f"SET/{FIRST}: a JPEG image is cut"),
        (cut_png, f"SET/{FIRST}: a PNG image is cut"),
        (broken_png, "an image below SET cannot be decoded (Invalid PNG"),
        (no_example, f"SET/{FIRST}: a record is no Example of TensorFlow"),
        (cut_example, "a record below SET is no Example of TensorFlow"),
        (wrong_byte, "the record at byte 12 of a file below SET has a wrong checksum"),
    ],
)
def test_broken_records_are_refused(imagenet: Path, break_it: Callable[[Path], None], sentence: str) -> None:
    break_it(imagenet)
    assert refused(IMAGENET, imagenet).startswith(sentence)


def test_broken_class_folders_are_refused(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", 2, 1)
    assert "nor a folder validation or val of class folders" in refused(IMAGENET, tmp_path)
    write_folders(tmp_path / "val", 2, 1)
    (tmp_path / "val/n0001/0.JPEG").write_bytes(b"no image")
    assert refused(IMAGENET, tmp_path).startswith("SET/val/n0001/0.JPEG: an image is neither JPEG nor PNG")
    (tmp_path / "val/n0001").rename(tmp_path / "val/n0007")
    assert refused(IMAGENET, tmp_path).startswith("SET/val/n0007 has no folder of its name in SET/train: copy")
    shutil.rmtree(tmp_path / "val/n0007")
    (tmp_path / "val/n0000/0.JPEG").unlink()
    assert refused(IMAGENET, tmp_path).startswith("SET: its evaluation set has no images")
    shutil.rmtree(tmp_path / "val/n0000")
    (tmp_path / "val/ILSVRC2012_val_00000001.JPEG").write_bytes(b"image")
    assert refused(IMAGENET, tmp_path).startswith("SET/val holds no class folders: sort its images into one for each")
    (tmp_path / "train/n0001/0.JPEG").unlink()
    assert refused(IMAGENET, tmp_path).startswith("SET/train/n0001 holds no image (.jpeg, .jpg, .png)")
    write_folders(tmp_path / "flowers", 6, 1)
    assert refused(FLOWERS, tmp_path / "flowers").startswith("SET holds 6 class folders, and there are 2 to 5")
    shutil.rmtree(tmp_path / "train/n0001")
    assert refused(IMAGENET, tmp_path).startswith("SET/train holds 1 class folders, and there are 2 to 1000")


def test_what_systems_leave_in_a_folder_is_no_sample(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", 2, 2)
    write_folders(tmp_path / "val", 2, 1)
    for place in ("train/.thumbnails", "train/lost+found", "train/n0000/.cache"):
        (tmp_path / place).mkdir()
    (tmp_path / "train/n0000/._0.JPEG").write_bytes(b"resource fork")
    sets = opened(IMAGENET, tmp_path)
    assert sorted(everything(sets.training)[1]) == [1, 1, 2, 2]


def test_an_image_that_goes_away_while_training_is_refused(tmp_path: Path) -> None:
    write_folders(tmp_path / "train", 2, 2)
    write_folders(tmp_path / "val", 1, 1)
    sets = opened(IMAGENET, tmp_path)
    (tmp_path / "train/n0000/1.JPEG").unlink()
    with pytest.raises(tf.errors.NotFoundError) as raised:
        everything(sets.training)
    assignment = make_assignment().model_copy(update={"data": Data(source="Volume", path=str(tmp_path))})
    explained = failures.explain(raised.value, assignment)
    assert explained.exit_code is ExitCode.DATA_UNUSABLE
    assert explained.sentence.startswith("a file of the data set went away or changed: ")
    assert "train/n0000/1.JPEG" in explained.sentence
