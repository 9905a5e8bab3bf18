# SPDX-License-Identifier: Apache-2.0
"""The programs of `gpu_check.py` that need TensorFlow, each a process of its own; both train gpubench's ResNet-50.

    profile     kernels of one window by their seconds, as TensorFlow's profiler has them
    resnet50    gpubench's step in each precision, with and without XLA, beside the best bare loop, in turns

Must not happen: a step of another make than a gang runs. It is assembled from an assignment, as `worker` does it.
"""

# mypy: ignore-errors
# TensorFlow has no types.

import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import gpu_findings
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from gpubench.api.sweep import Variant
from gpubench.workloads import Precision
from gpubench_jobs import models
from gpubench_jobs.worker import builder
from gpubench_jobs.worker import builder as precisions

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
KERNELS_SHOWN = 20


def assembled(options, precision, xla=False):
    """The loop of a gang of one."""
    import steploop  # noqa: PLC0415  # found on the path set above

    precisions.use_precision(Precision(precision))
    models.seed(1)
    chosen = {"precision": Precision(precision), "variant": Variant(name="xla", xla=True) if xla else None}
    assignment = steploop.make_assignment("resnet50", options.batch, 1).model_copy(update=chosen)
    return builder.build(assignment, rank=0, seed=1).run


def profile(options):
    findings, run, taken = gpu_findings.Findings(options.out), assembled(options, "mixed_float16"), Counter()
    for _ in range(2):
        run(options.steps).numpy()
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            run(options.steps).numpy()
        (written,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(written.read_bytes())
    for plane in (one for one in space.planes if one.name.startswith(options.plane)):
        streams = [line for line in plane.lines if "Stream" in line.name] or plane.lines  # others have sums of these
        for event in (event for line in streams for event in line.events):
            taken[plane.event_metadata[event.metadata_id].name[:100]] += event.duration_ps / 1e9 / options.steps
    whole = sum(taken.values())
    rows = [f"{each:9.3f} ms {each / whole:6.1%}  {name}" for name, each in taken.most_common(KERNELS_SHOWN)]
    findings.fact(f"kernels of a step, batch {options.batch}, mixed_float16", rows)
    findings.check("kernels in the profile", len(taken), "some", holds=bool(taken))
    return findings.exit_code()


def resnet50(options):
    """Each case beside the bare loop of the same precision, which has no XLA, and no loss scale."""
    import steploop_bare  # noqa: PLC0415  # found on the path set above; it needs Horovod

    steploop_bare.hvd.init()
    findings, steps = gpu_findings.Findings(options.out), options.steps
    cases = [(precision, xla) for precision in options.precision for xla in ("", " with XLA")]
    for precision, xla in findings.in_time(cases, options.seconds):
        run = assembled(options, precision, xla=bool(xla))
        bare = steploop_bare.prepare("resnet50", options.batch, steps, False)["looped"]

        def ours(steps, run=run):
            begun = time.perf_counter()
            run(steps).numpy()
            return time.perf_counter() - begun

        blocks = {
            name: lambda block=block: steps * options.batch / block(steps)
            for name, block in (("gpubench", ours), ("bare loop", bare))
        }
        for block in blocks.values():
            block()  # traces
        findings.contest(f"{precision}{xla}, batch {options.batch}", "images/s", blocks)
    return findings.exit_code()


if __name__ == "__main__":
    order = ["mixed_float16", "tensor_float32", "float32"]
    others = {"batch": 64, "steps": 10, "plane": "/device:GPU"}  # of the profile; /host:CPU where there is no GPU
    code = gpu_findings.program(__doc__, (profile, resnet50), precision=order, **others)
    sys.stdout.flush()
    os._exit(code)  # TensorFlow's and Horovod's exit handlers take seconds
