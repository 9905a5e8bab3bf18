# SPDX-License-Identifier: Apache-2.0
"""How batches come to the device. A second virtual processor stands for it here: a GPU was not run."""

import json
import subprocess
import sys

import pytest

from gpubench import workloads
from gpubench_jobs.data import generated, pipeline

#: Processors are set up before TensorFlow's first operation, hence a process of its own.
PROGRAM = """
import json
import tensorflow as tf
from gpubench_jobs.worker import train
from gpubench_jobs.data.pipeline import streamed

(processor,) = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
bytes_ = tf.data.Dataset.range(8).map(lambda n: (tf.cast(n, tf.uint8), n)).batch(2).repeat()
feed = streamed(bytes_, lambda pixels: tf.cast(pixels, tf.float32) / 2, device="CPU:1")
first, _ = next(feed.state[0])
loop = train.Loop(lambda state: (tf.reduce_sum(feed.draw(state, tf.constant(0))[0]), 1), feed.state, sum_losses=True)
print(json.dumps({"device": first.device, "dtype": first.dtype.name, "sum": float(loop(3))}))
"""


def test_a_batch_is_on_the_device_as_bytes_before_its_step_begins() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["device"].endswith("CPU:1")
    assert found["dtype"] == "uint8"
    assert found["sum"] == sum(range(2, 8)) / 2  # of the steps after the first batch


@pytest.mark.parametrize("name", ["mnist_cnn", "cifar10_cnn"])
def test_images_travel_as_bytes(name: str) -> None:
    sets = generated.generated_sets(workloads.find(name), samples=4, seed=1)
    inputs, _ = next(iter(pipeline.training_batches(sets.training, batch_per_worker=2, rank=0, workers=1, seed=1)))
    assert inputs.dtype == "uint8"
    pixels = sets.training.on_device(inputs)
    assert pixels.dtype == "float32"
    assert 0.0 <= float(pixels.numpy().min()) < float(pixels.numpy().max()) <= 1.0
