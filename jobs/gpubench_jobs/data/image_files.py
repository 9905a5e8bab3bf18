# SPDX-License-Identifier: Apache-2.0
"""Images in the files in which they are distributed.

MNIST (four idx files, compressed or not) and CIFAR-10 (its binary version) are held in memory as bytes. ImageNet and
flowers are streamed, from TFRecords with the names and features of TensorFlow's conversion scripts, or from a folder
for each class: an image is read and decoded when its turn comes, by the rank whose turn it is.
"""

import math
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import tensorflow as tf

from gpubench.workloads import Inputs, Workload
from gpubench_jobs.data import files
from gpubench_jobs.data.pipeline import EVALUATION, TRAINING, Array, Batch, Held, Progress, Sets, Split, Streamed

_CIFAR_FILES = {TRAINING: tuple(f"data_batch_{number}.bin" for number in range(1, 6)), EVALUATION: ("test_batch.bin",)}

_SUFFIXES = {".jpg", ".jpeg", ".png"}
_END_OF_JPEG = b"\xff\xd9"
_BEGIN_OF_PNG, _END_OF_PNG = b"\x89PNG", b"IEND\xaeB`\x82"
_SHARD_PATTERNS = {
    Inputs.IMAGENET: {TRAINING: "train-?????-of-?????", EVALUATION: "validation-?????-of-?????"},
    Inputs.FLOWERS: {
        TRAINING: "flowers_train_?????-of-?????.tfrecord",
        EVALUATION: "flowers_validation_?????-of-?????.tfrecord",
    },
}
_CLASS_FOLDERS = {TRAINING: ("train",), EVALUATION: ("validation", "val")}
#: TF-Slim holds out 350 of the 3670 photographs of flowers, drawn; of class folders we take every tenth or eleventh.
_FLOWERS, _FLOWERS_HELD_OUT = 3670, 350
#: An encoded image, its label and the file for sentences, from a place.
Encoded = Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]
_BEFORE, _BEHIND = 12, 4


def held_images(images: Array, labels: Array, *, workload: Workload, name: str, origin: str) -> Held:
    """Bytes of pixels, and class numbers as one-hot rows."""
    pixels, classes = tf.constant(images), tf.constant(labels, tf.int32)

    def batch_at(places: tf.Tensor) -> Batch:
        shaped = tf.reshape(tf.gather(pixels, places), (-1, *workload.input_shape))
        return shaped, tf.one_hot(tf.gather(classes, places), workload.classes)

    return Held(
        name=name,
        origin=origin,
        count=len(labels),
        batch_at=batch_at,
        on_device=lambda pixels: tf.cast(pixels, tf.float32) / 255.0,  # bytes to [0, 1]
    )


def mnist(workload: Workload, path: Path, progress: Progress) -> Sets:
    """60,000 and 10,000 images of 28x28."""

    def split(name: str) -> Held:
        prefix = {TRAINING: "train", EVALUATION: "t10k"}[name]
        of_images, of_labels = path / f"{prefix}-images-idx3-ubyte", path / f"{prefix}-labels-idx1-ubyte"
        images = _idx(of_images, magic=0x0803)  # bytes in three dimensions
        labels = _idx(of_labels, magic=0x0801)  # in one
        progress()
        if math.prod(images.shape[1:]) != math.prod(workload.input_shape):
            side = "x".join(map(str, images.shape[1:]))
            raise files.unusable(f"{of_images} has images of {side}, {workload.name} takes 28x28")
        if len(images) != len(labels):
            raise files.unusable(
                f"{of_images} has {len(images)} images and {of_labels.name} {len(labels)} labels: copy both again"
            )
        _require_classes(labels, workload=workload, file=of_labels)
        if name == TRAINING:
            _require_several_classes(labels, of_labels)
        return held_images(images, labels, workload=workload, name=name, origin=str(path))

    return Sets.of(split)


def cifar10(workload: Workload, path: Path, progress: Progress) -> Sets:
    """50,000 and 10,000 images of 32x32 in three colours; the files have the colours one after the other."""
    source = files.below(path, "cifar-10-batches-bin")
    height, width, channels = workload.input_shape
    record = 1 + height * width * channels

    def records(file: Path) -> Array:
        content = np.frombuffer(files.content(file), np.uint8)
        if not len(content) or len(content) % record:
            raise files.unusable(
                f"{file} has {len(content)} bytes, which is no multiple of the {record} of an image with its label: "
                "copy the binary version of CIFAR-10 again"
            )
        rows = content.reshape(-1, record)
        _require_classes(rows[:, 0], workload=workload, file=file)
        progress()
        return rows

    def split(name: str) -> Held:
        rows = np.concatenate([records(source / file) for file in _CIFAR_FILES[name]])
        if name == TRAINING:
            _require_several_classes(rows[:, 0], source)
        images = rows[:, 1:].reshape(-1, channels, height, width).transpose(0, 2, 3, 1)
        return held_images(images, rows[:, 0], workload=workload, name=name, origin=str(path))

    return Sets.of(split)


def _idx(file: Path, *, magic: int) -> Array:
    """An idx file: the magic number, the size of each dimension, all big-endian in four bytes, then the bytes."""
    content = files.content(file)
    header = 4 * (1 + (magic & 0xFF))
    found, *shape = (int.from_bytes(content[place : place + 4], "big") for place in range(0, header, 4))
    if found != magic:
        raise files.unusable(f"{file} begins with {found:#010x} and not with {magic:#010x}: it is another file")
    if len(content) != header + math.prod(shape):
        raise files.unusable(
            f"{file} has {len(content)} bytes and should have {header + math.prod(shape)}: it is cut, copy it again"
        )
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _require_classes(labels: Array, *, workload: Workload, file: Path) -> None:
    wrong = np.flatnonzero(labels >= workload.classes)
    if len(wrong):
        raise files.unusable(
            f"{file}: label {labels[wrong[0]]} of sample {wrong[0]} is none of 0 to {workload.classes - 1}: "
            "copy it again"
        )


def _require_several_classes(labels: Array, path: Path) -> None:
    if len(np.unique(labels)) == 1:
        raise files.unusable(f"{path}: all labels are {labels[0]}, and of one class nothing is learned: copy it again")


def photographs(workload: Workload, path: Path, progress: Progress) -> Sets:
    """From TFRecords where there are any, else from class folders."""
    patterns = _SHARD_PATTERNS[workload.inputs]
    if any(any(path.glob(pattern)) for pattern in patterns.values()):
        return Sets.of(lambda name: _of_records(workload, path, name=name, progress=progress))
    if workload.inputs is Inputs.FLOWERS:
        return _flower_folders(workload, path, progress)
    return _imagenet_folders(workload, path, progress)


def _of_records(workload: Workload, path: Path, *, name: str, progress: Progress) -> Split:
    shards = files.matching(path, _SHARD_PATTERNS[workload.inputs][name], what=f"{name} records")
    promised = {int(match.group(1)) for shard in shards if (match := re.search(r"-of-(\d{5})", shard.name))}
    if promised != {len(shards)}:
        raise files.unusable(
            f"{path} holds {len(shards)} of {' or '.join(map(str, sorted(promised)))} files of {name} records (as "
            f"{shards[0].name}): copy all of one conversion, and no other"
        )
    count, record_at = index_records(shards, progress=progress)
    features = {
        "image/encoded": tf.io.FixedLenFeature((), tf.string, ""),
        "image/class/label": tf.io.FixedLenFeature((), tf.int64, -1),
    }

    def encoded(place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        record, file = record_at(place)
        record = files.unless(
            tf.strings.substr(record, 0, 1) == b"\n",  # the beginning of its only field
            record,
            *(file, ": a record is no Example of TensorFlow: convert or copy the records again"),
        )
        example = tf.io.parse_single_example(record, features)
        return example["image/encoded"], example["image/class/label"], file

    return _streamed(workload, encoded, count=count, path=path, name=name)


def _imagenet_folders(workload: Workload, path: Path, progress: Progress) -> Sets:
    """Training's folders are numbered from 1 in the order of their names, as in the records: 0 is the background."""
    training = _part_folder(workload, path, name=TRAINING)
    classes = _class_folders(training, classes=workload.classes - 1)
    numbers = {folder.name: number for number, folder in enumerate(classes, 1)}
    images = _images(classes, numbers, progress)

    def evaluation() -> Split:
        place = _part_folder(workload, path, name=EVALUATION)
        if not (folders := [entry for entry in files.entries(place) if entry.is_dir()]):
            raise files.unusable(f"{place} holds no class folders: sort its images into one for each class")
        if (unknown := next((folder for folder in folders if folder.name not in numbers), None)) is not None:
            raise files.unusable(f"{unknown} has no folder of its name in {training}: copy that class, or remove it")
        return _of_files(workload, _images(folders, numbers, progress, may_be_empty=True), path=path, name=EVALUATION)

    return Sets(training=_of_files(workload, images, path=path, name=TRAINING), open_evaluation=evaluation)


def _part_folder(workload: Workload, path: Path, *, name: str) -> Path:
    names = _CLASS_FOLDERS[name]
    if (folder := next((path / of for of in names if (path / of).is_dir()), None)) is None:
        raise files.unusable(
            f"{path} holds neither {name} records ({_SHARD_PATTERNS[workload.inputs][name]}) nor a folder "
            f"{' or '.join(names)} of class folders: copy the complete data set there"
        )
    return folder


def _flower_folders(workload: Workload, path: Path, progress: Progress) -> Sets:
    folders = _class_folders(files.below(path, "flower_photos"), classes=workload.classes)
    images = _images(folders, {folder.name: number for number, folder in enumerate(folders)}, progress)
    parts: dict[str, list[tuple[str, int]]] = {TRAINING: [], EVALUATION: []}
    for place, image in enumerate(images):
        turn = (place + 1) * _FLOWERS_HELD_OUT // _FLOWERS > place * _FLOWERS_HELD_OUT // _FLOWERS
        parts[EVALUATION if turn else TRAINING].append(image)
    if not parts[EVALUATION]:
        raise files.unusable(f"{path} holds {len(images)} photographs, too few to hold some out: copy all of them")
    training, evaluation = (_of_files(workload, of, path=path, name=name) for name, of in parts.items())
    return Sets(training=training, open_evaluation=lambda: evaluation)


def _class_folders(folder: Path, *, classes: int) -> list[Path]:
    found = [entry for entry in files.entries(folder) if entry.is_dir()]
    if not 2 <= len(found) <= classes:
        raise files.unusable(f"{folder} holds {len(found)} class folders, and there are 2 to {classes}: correct it")
    return found


def _images(
    folders: list[Path], numbers: dict[str, int], progress: Progress, *, may_be_empty: bool = False
) -> list[tuple[str, int]]:
    images = []
    for folder in folders:
        progress()
        own = [str(entry) for entry in files.entries(folder) if entry.suffix.lower() in _SUFFIXES]
        if not own and not may_be_empty:
            raise files.unusable(f"{folder} holds no image ({', '.join(sorted(_SUFFIXES))}): copy it again")
        images += [(image, numbers[folder.name]) for image in own]
    return images


def _of_files(workload: Workload, images: list[tuple[str, int]], *, path: Path, name: str) -> Split:
    paths = tf.constant([os.fsencode(file) for file, _ in images], tf.string)
    labels = tf.constant([label for _, label in images], tf.int64)

    def encoded(place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        return tf.io.read_file(paths[place]), labels[place], paths[place]

    return _streamed(workload, encoded, count=len(images), path=path, name=name)


def _streamed(workload: Workload, encoded: Encoded, *, count: int, path: Path, name: str) -> Split:
    if not count:
        raise files.unusable(f"{path}: its {name} set has no images: copy it again")
    height, width, _ = workload.input_shape

    def sample_at(place: tf.Tensor, seed: tf.Tensor) -> Batch:
        image, label, file = encoded(place)
        image = _usable(image, label, file, classes=workload.classes)
        if name == TRAINING:
            of_window, of_mirror = tf.unstack(tf.random.experimental.stateless_split(seed, 2, alg="philox"))
            decoded = _decoded(image, window_of=lambda shape: _random_window(shape, seed=of_window))
            resized = tf.image.resize(decoded, (height, width))
            resized = tf.image.stateless_random_flip_left_right(resized, of_mirror)
        else:
            resized = tf.image.resize(_decoded(image, window_of=_middle), (height, width))
        return tf.cast(tf.round(resized), tf.uint8), tf.cast(label, tf.int32)

    return Streamed(
        name=name,
        origin=str(path),
        count=count,
        sample_at=sample_at,
        on_device=lambda pixels: tf.cast(pixels, tf.float32) / 127.5 - 1.0,  # bytes to [-1, 1]
    )


def _usable(image: tf.Tensor, label: tf.Tensor, file: tf.Tensor, *, classes: int) -> tf.Tensor:
    """The image, or a sentence with the name of its file, which decoders do not know."""
    image = files.unless(
        (label >= 0) & (label < classes),
        image,
        *(file, ": image/class/label ", label, f" is none of 0 to {classes - 1}: convert or copy it again"),
    )
    jpeg = tf.io.is_jpeg(image)
    image = files.unless(
        jpeg | (tf.strings.substr(image, 0, 4) == _BEGIN_OF_PNG),
        image,
        *(file, ": an image is neither JPEG nor PNG: copy it again"),
    )
    end, kind = tf.cond(jpeg, lambda: (_END_OF_JPEG, "JPEG"), lambda: (_END_OF_PNG, "PNG"))
    size = tf.strings.length(end)
    whole = tf.cond(  # its last bytes are the mark of the end, or something follows that mark: some cameras append
        tf.strings.substr(image, -size, size) == end,
        lambda: True,
        lambda: tf.size(tf.strings.split([image], end).values) > 1,
    )
    return files.unless(whole, image, file, ": a ", kind, " image is cut: copy it again")


def _decoded(image: tf.Tensor, *, window_of: Callable[[tf.Tensor], tf.Tensor]) -> tf.Tensor:
    """Of a JPEG image only the window is decoded. Some images of ImageNet are PNG, whatever their names say."""

    def of_jpeg() -> tf.Tensor:
        window = window_of(tf.io.extract_jpeg_shape(image))
        return tf.io.decode_and_crop_jpeg(image, window, channels=3, fancy_upscaling=False, dct_method="INTEGER_FAST")

    def of_png() -> tf.Tensor:
        pixels = tf.io.decode_png(image, channels=3)
        top, left, height, width = tf.unstack(window_of(tf.shape(pixels)))
        return pixels[top : top + height, left : left + width]

    return tf.cond(tf.io.is_jpeg(image), of_jpeg, of_png)


def _random_window(shape: tf.Tensor, *, seed: tf.Tensor) -> tf.Tensor:
    # As in tf_cnn_benchmarks, without its distortion of colours.
    begin, size, _ = tf.image.stateless_sample_distorted_bounding_box(
        shape,
        bounding_boxes=tf.constant([[[0.0, 0.0, 1.0, 1.0]]]),
        seed=seed,
        min_object_covered=0.1,
        aspect_ratio_range=(0.75, 1.33),
        area_range=(0.05, 1.0),
        max_attempts=100,
        use_image_if_no_bounding_boxes=True,
    )
    return tf.concat((begin[:2], size[:2]), axis=0)


def _middle(shape: tf.Tensor) -> tf.Tensor:
    size = tf.maximum(tf.cast(tf.cast(shape[:2], tf.float32) * 0.875, tf.int32), 1)
    return tf.concat(((shape[:2] - size) // 2, size), axis=0)


def index_records(
    paths: Sequence[Path], *, progress: Progress
) -> tuple[int, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
    """How many records there are, and what reads one inside TensorFlow: the record and its file, from its place.

    A permutation of a whole set needs the places, and a cut file must be found before hours of training: every byte of
    a file must belong to a record. The format: eight bytes of length, four of their checksum, the record, four of its
    checksum. TensorFlow checks both when it reads a record. `progress` is called for each file.
    """
    places = []
    with ThreadPoolExecutor(16) as pool:  # on however few processors: each waits for its storage
        for of_file in pool.map(_places, paths):
            places.append(of_file)
            progress()
    lengths, joined = [len(of_file) for of_file in places], np.concatenate(places)
    names = tf.constant([str(path) for path in paths])
    file_of = tf.constant(np.repeat(np.arange(len(paths)), lengths), tf.int64)
    begin_of, bytes_of = tf.constant(joined[:, 0], tf.int64), tf.constant(joined[:, 1], tf.int64)

    def at(place: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        file = names[file_of[place]]
        # Of the two ways to begin inside a file only this one seeks: FixedLengthRecordDataset reads up to the place.
        from_here = tf.raw_ops.TFRecordDatasetV2(
            filenames=[file],
            compression_type="",
            buffer_size=bytes_of[place] + _BEFORE + _BEHIND,
            byte_offsets=[begin_of[place] - _BEFORE],
        )
        records = tf.data.experimental.from_variant(from_here, tf.TensorSpec((), tf.string))
        return records.take(1).get_single_element(), file

    return len(joined), at


def _places(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    places: list[tuple[int, int]] = []
    try:
        file = path.open("rb", buffering=4096)  # a page: small records share one, between photographs nothing is read
    except OSError as error:
        raise files.unusable(f"{path} cannot be read ({error.strerror})") from error
    with file:
        # Or each page would bring its neighbours: the whole file.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        end, size = 0, os.fstat(file.fileno()).st_size
        while end < size:
            file.seek(end)
            header = file.read(_BEFORE)
            length = int.from_bytes(header[:8], "little") if len(header) == _BEFORE else size
            begin, end = end + _BEFORE, end + _BEFORE + length + _BEHIND
            if end > size or not length:
                wrong = "is empty" if not length else "ends behind the end of the file"
                raise files.unusable(
                    f"{path}: record {len(places)} {wrong}: it is cut, or no TFRecord file, copy it again"
                )
            places.append((begin, length))
    return np.array(places, np.int64).reshape(-1, 2)
