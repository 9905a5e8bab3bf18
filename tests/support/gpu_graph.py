# SPDX-License-Identifier: Apache-2.0
"""What a GPU would be given: the traced training step of a workload, and what TensorFlow's own optimizer makes of it.

The optimizer (Grappler) runs on a processor, with the passes of a real run, for a virtual GPU that is described to it.
What it cannot show is speed: which kernels cuDNN chooses, and how long they take.
"""

import collections
import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any
from unittest import mock

import keras
import tensorflow as tf
from tensorflow.core.protobuf import config_pb2, device_properties_pb2, meta_graph_pb2
from tensorflow.python.grappler import cluster, tf_optimizer

from gpubench import workloads
from gpubench.workloads import Precision
from gpubench_jobs import models
from gpubench_jobs.data import generated
from gpubench_jobs.engines import horovod
from gpubench_jobs.models import inception, recipe, tf_cnn_benchmarks
from gpubench_jobs.worker import builder, train

_DEVICE = "/job:localhost/replica:0/task:0/device:"
#: Architecture, multiprocessors, megahertz, GiB, GB/s: NVIDIA's data sheets (A100-SXM4-40GB, H100-SXM5).
GPUS: Mapping[str, tuple[str, int, int, int, int]] = {
    "A100": ("8.0", 108, 1410, 40, 1555),
    "H100": ("9.0", 132, 1980, 80, 3350),
}
#: Operations that move no activation.
_MOVES_NOTHING = {
    "BroadcastGradientArgs", "Const", "ExpandDims", "Identity", "IdentityN", "NoOp", "Placeholder", "PreventGradient",
    "ReadVariableOp", "Reshape", "Shape", "ShapeN", "Squeeze", "StopGradient", "VariableShape",
}  # fmt: skip
_AXES_OF_IMAGES = 4


@dataclass(frozen=True)
class Step:
    """One training step as it was traced."""

    loop: train.Loop  # that a window calls
    graph: Any  # of the step alone
    batch: int
    normalizations: int  # layers

    def count(self, operation: str) -> int:
        """How many of these it has."""
        return self._operations()[operation]

    def all_reduces(self) -> dict[str, int]:
        """Horovod's operations by name."""
        return {name: count for name, count in self._operations().items() if name.startswith("Horovod")}

    def bytes_per_image(self) -> float:
        """Inputs and outputs of all operations, as far as sizes are known before it runs: no measurement of a GPU's."""
        moving = (operation for operation in self.graph.get_operations() if operation.type not in _MOVES_NOTHING)
        return sum(_size(tensor) for one in moving for tensor in (*one.inputs, *one.outputs)) / self.batch

    def transposed_images(self, gpu: str) -> int:
        """Transposes of four axes, which the optimizer adds where a kernel wants another layout."""
        nodes = {node.name: node for node in _optimized(self._function, gpu).node}
        return sum(node.op == "Transpose" and _axes(node, nodes) == _AXES_OF_IMAGES for node in nodes.values())

    @cached_property
    def _function(self) -> Any:
        return self.loop.traced()

    def _operations(self) -> collections.Counter[str]:
        return collections.Counter(operation.type for operation in self.graph.get_operations())


def traced(
    workload: str,
    computed_in: Precision,
    *,
    layer: type[keras.layers.BatchNormalization] = recipe.FusedBatchNormalization,
    groups: int | None = None,
    batch: int = 32,
) -> Step:
    """The step of a rank that has peers. `hvd.init()` must be behind this process."""
    entry = workloads.find(workload)
    builder.use_precision(computed_in)
    try:
        with contextlib.ExitStack() as replaced:
            for family in (inception, tf_cnn_benchmarks):
                replaced.enter_context(mock.patch.object(family, "FusedBatchNormalization", layer))
            built = models.build_for(entry)
    finally:
        builder.use_precision(Precision.FLOAT32)
    built.optimizer.build(built.network.trainable_variables)
    feed = generated.synthetic_batch(entry, batch=batch, seed=1, dtype=built.network.compute_dtype)
    reduce = partial(horovod.average, groups=groups)
    loop = train.compile_run(
        built, feed, reduce=reduce, loss_scale=128.0 if computed_in is Precision.MIXED_FLOAT16 else 1.0
    )
    layers = built.network._flatten_layers()
    return Step(
        loop=loop,
        graph=tf.function(loop.step).get_concrete_function(loop.state).graph,
        batch=batch,
        normalizations=sum(isinstance(one, keras.layers.BatchNormalization) for one in layers),
    )


def _size(tensor: tf.Tensor) -> int:
    if not tensor.shape.is_fully_defined() or tensor.dtype in (tf.resource, tf.variant):
        return 0
    return int(tensor.shape.num_elements() * tensor.dtype.size)


def _optimized(function: Any, gpu: str) -> Any:
    """The function's graph after all passes, everything on the GPU; loops are lowered, as before a run."""
    graph = function.graph.as_graph_def()
    for node in (*graph.node, *(node for one in graph.library.function for node in one.node_def)):
        node.device = f"{_DEVICE}GPU:0"
    meta = meta_graph_pb2.MetaGraphDef(graph_def=graph)
    meta.collection_def["train_op"].node_list.value.extend(one.op.name for one in function.graph.outputs)
    architecture, cores, megahertz, gibibytes, gigabytes_per_second = GPUS[gpu]
    properties = device_properties_pb2.DeviceProperties(
        type="GPU",
        vendor="NVIDIA",
        num_cores=cores,
        frequency=megahertz,
        memory_size=gibibytes * 2**30,
        bandwidth=gigabytes_per_second * 10**6,  # in KB/s
        environment={"architecture": architecture, "cuda": "12090", "cudnn": "90000"},
    )
    devices = [
        device_properties_pb2.NamedDevice(name=f"{_DEVICE}GPU:0", properties=properties),
        device_properties_pb2.NamedDevice(
            name=f"{_DEVICE}CPU:0", properties=device_properties_pb2.DeviceProperties(type="CPU", num_cores=8)
        ),
    ]
    return tf_optimizer.OptimizeGraph(
        config_pb2.ConfigProto(), meta, cluster=cluster.Cluster(devices=devices, disable_detailed_stats=True)
    )


def _axes(transpose: Any, nodes: Mapping[str, Any]) -> int:
    """Of what a Transpose permutes: the length of its second input, a constant."""
    return int(tf.make_ndarray(nodes[transpose.input[1].split(":")[0].lstrip("^")].attr["value"].tensor).size)
